// SPDX-License-Identifier: MIT
// Every number of the CPU cost model for dense points that was measured, and where it comes from. bench/model.py says
// how well the model ranks plans; docs/history/2026-11-23-cpu-model.md how it was made.
#ifndef KM_GEN_CPU_MEASURED_H
#define KM_GEN_CPU_MEASURED_H

// X(name, value, source). A core does as many vector operations in a cycle as it has arithmetic units.
// "Spaces" are recorded ones (bench/cpu_space.c) of an AMD EPYC with AVX2, float32, 2 to 64 features.
#define KM_CPU_MEASURED(X)                                                                                   \
    /* Tiles of scores: cycles */                                                                            \
    X(chain, 2.8, "spaces: a sum waits for its last product; 4 in data sheets")                              \
    X(load, 0.48, "spaces: a vector of points that is loaded, beside products")                              \
    X(broadcast, 0.28, "spaces: a feature of a centroid that is loaded into all lanes, beside products")     \
    X(spilled, 0.53, "spaces: a sum that is stored and loaded for each feature")                             \
    X(spilled_best, 0.65, "spaces: a vector of best scores or indices, for each tile")                       \
    X(first_tile, 9.8, "spaces, lanes: the jump to as many centroids as a K leaves beside whole tiles")      \
    X(gemm_tile, 0.9, "spaces, gemm: each tile")                                                             \
    /* ... instructions and vector operations */                                                             \
    X(choosing, 2.3, "spaces: a vector of scores: compare, choose the index, keep the larger")               \
    X(in_flight, 160, "spaces: instructions that a core looks ahead; 200 and more in data sheets")           \
    X(pipes, 4,                                                                                              \
      "products, loads and waits together take a little more than the longest, a norm of this power")        \
    X(bests, 0.62, "spaces, gemm: a vector's best scores and indices, stored and loaded for each tile")      \
    X(scores_pass, 1.9, "spaces, gemm: a vector of scores for each tile of features: load, add, store")      \
    /* The rest of a pass, for a point and a K: vector operations */                                         \
    X(labels, 0.6, "passes with AVX2 and AVX-512: labels compared with the old ones")                        \
    X(gemm_labels, 1.5, "the same in gemm, which takes them over point by point")                            \
    X(gemm_sums, 35, "spaces, gemm, over K: points that join the same sums one after the other")             \
    /* int16 scores: vector operations */                                                                    \
    X(int16_choosing, 3.5, "passes with AVX-512: a centroid, beside its products")                           \
    X(int16_points, 7, "spaces: a feature of a point as an integer")                                         \
    X(int16_k, 8, "spaces: of a K")                                                                          \
    /* Beside points' scores, where layouts are compared */                                                  \
    X(added, 0.4, "passes, both layouts: vector operations of a value that joins a sum, as many as do so")   \
    X(group_bytes, 48, "passes of 200 and 500 features: bytes that arrive from the second cache in a cycle") \
    X(unhidden, 0.4, "passes of long rows: what the shorter of reads and arithmetic adds to the longer")     \
    /* Others */                                                                                             \
    X(table_bytes, 16, "count: bytes that arrive from behind the second cache while a vector is multiplied") \
    X(any_features, 1.3, "passes: kernels for any number of features take 1.03 to 1.4 times as long")

static const struct {
#define KM_MEASURED_FIELD(name, value, source) double name;
    KM_CPU_MEASURED(KM_MEASURED_FIELD)
#undef KM_MEASURED_FIELD
} measured = {
#define KM_MEASURED_VALUE(name, value, source) .name = (value),
    KM_CPU_MEASURED(KM_MEASURED_VALUE)
#undef KM_MEASURED_VALUE
};

#endif
