// SPDX-License-Identifier: MIT
// What the CUDA designs share: rates of a device, launches, concurrent restarts, and names of templates/cuda/head.h.
#ifndef KM_GEN_CUDA_COMMON_H
#define KM_GEN_CUDA_COMMON_H
#include "../design.h"

// Thread instructions of the type's arithmetic that the device issues in a nanosecond.
double km_cuda_issue_rate(const km_plan *plan);
// Nanoseconds in which the device reads so many bytes.
double km_cuda_read_ns(const km_plan *plan, double bytes);
// Overlapped time of two pipes, in nanoseconds: a little more than the longer one.
double km_cuda_overlap(double a, double b);
// The time of the launches of a pass and of the steps behind them, divided by the points, if each launch takes so many
// nanoseconds.
double km_cuda_launches_ns(const km_plan *plan, int64_t launches, double each_ns);

// Whether passes take points in windows, which come from the host.
int km_cuda_has_windows(const km_plan *plan);

// K of all concurrent restarts, at most: rows of a grid.
enum { KM_CUDA_SLOTS_MAX = 65535 };

// How many restarts of each K a pass serves: with few points it takes little longer for several.
int64_t km_cuda_concurrent_restarts(const km_plan *plan);
km_status km_cuda_set_restarts(km_plan *plan, km_error *err);
// The blocks of a restart, each of which works on `tile` points at a time: those of all restarts fill the device once,
// and no block is without points.
km_status km_cuda_set_grid(km_plan *plan, int64_t tile, km_error *err);

// Values to try for a number: `all`, or the user's own if it is fixed. Returns how many.
int64_t km_cuda_values(int64_t *values, const int64_t *all, int64_t count, const km_plan *plan,
                       km_param param);

// Registers that a thread may have.
int64_t km_cuda_registers_limit(const km_plan *plan, int64_t block, int64_t blocks_per_sm);
// Bytes of partial sums, a row for each cluster, of all blocks.
int64_t km_cuda_partial_bytes(const km_plan *plan);

// Sets the names that templates use: those of templates/cuda/head.h; every number of the plan by its own name; and
// for a number that is a word, a flag NUMBER_WORD for each word of the design.
void km_cuda_names(km_env *env, const km_plan *plan);
// Adds a K to the list `ks`; its centroids start at row `offset` of a restart.
km_env *km_cuda_name_k(km_env *env, const km_spec *spec, int64_t index, int64_t offset);

#endif
