// SPDX-License-Identifier: MIT
// Runs on subsets of columns on a GPU (runtime/explore/subsets.h has what they are), with kernels of their own
// (templates/cuda/subsets).
#ifndef KM_RUNTIME_CUDA_SUBSETS_H
#define KM_RUNTIME_CUDA_SUBSETS_H
#include "../explore/subsets.h"

// What a GPU keeps between calls: kernels, tables, and for each size of subset an engine for what is done with one
// subset at a time: k-means++ chains, empty clusters, labels.
typedef struct km_cuda_subsets km_cuda_subsets;

// For the loaded table of a job, subsets of these sizes, and the job's list of K. `module`: cache, compiler and log.
km_status km_cuda_subsets_create(km_cuda_subsets **out, const km_subsets_job *job, const int32_t *sizes,
                                 int64_t sizes_count, const km_module_params *module, km_error *err);
void km_cuda_subsets_destroy(km_cuda_subsets **subsets);

// As km_cpu_subsets_run, for subsets of several sizes too.
km_status km_cuda_subsets_run(km_cuda_subsets *s, const km_subsets_job *job, const km_subset *subsets,
                              int64_t count, km_subset_fit *fits, km_error *err);
// As km_cpu_subsets_finish.
km_status km_cuda_subsets_finish(km_cuda_subsets *s, const km_subsets_job *job, const km_subset *subsets,
                                 int64_t count, km_subset_fit *fits, km_error *err);

// As km_cpu_subsets_permute: the same permutations. The table itself stays on the device beside the permuted one.
km_status km_cuda_subsets_permute(km_cuda_subsets *s, uint64_t seed, int64_t turn, int undo, km_error *err);

// How many subsets one call should have: as many as keep the device busy.
int64_t km_cuda_subsets_block(const km_subsets_job *job);
// Bytes of the device's memory that a subset of `size` columns needs while it is in work, at most, beside the table.
int64_t km_cuda_subsets_bytes(const km_subsets_job *job, int64_t size);
// Points against centroids, of the iterations so far.
int64_t km_cuda_subsets_distances(const km_cuda_subsets *s);

#endif
