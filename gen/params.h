// SPDX-License-Identifier: MIT
// The one list of a plan's numbers: the keys under `plan:` in a spec, and the rows of explain.
#ifndef KM_GEN_PARAMS_H
#define KM_GEN_PARAMS_H

enum { KM_PARAM_CUDA = 1, KM_PARAM_CPU = 2 };

// X(name, lowest, highest, targets, tune, meaning). A plan holds the numbers of its own design only. Where KM_WORDS has
// words for a number, specs and explain write these, and the range means nothing.
//
// `tune`: the values that a tuning tries beside the planner's own (gen/space.h), those behind the bar in the space
// `full` only; "words": all of KM_WORDS; "x1/2 x2": so many times the planner's own value; "": the number is not tuned.
// What a design cannot have, its planner refuses.
#define KM_PARAMS(X)                                                                                         \
    X(form, 0, 0, KM_PARAM_CUDA, "words", "variant of the design")                                           \
    X(sums, 0, 0, KM_PARAM_CUDA, "words", "how points are added to their clusters")                          \
    X(points_per_thread, 1, 16, KM_PARAM_CUDA, "1 2 3 4 6 8 12 | 5 10 16",                                   \
      "points that one thread has in flight")                                                                \
    X(block, 32, 1024, KM_PARAM_CUDA, "128 256 384 512 768 1024 | 192 320 448 640 896",                      \
      "threads of a block")                                                                                  \
    X(grid, 1, 1048576, KM_PARAM_CUDA, "x1 | x1/2 x2 x4", "blocks of a launch")                              \
    X(split, 1, 8, KM_PARAM_CUDA, "1 2 3 4 | 6 8", "warp groups of a block that share the K list")           \
    X(launches, 1, 4096, KM_PARAM_CUDA, "1 2 3 4 6 8 10 12 16", "kernels that share the K list in one pass") \
    X(lanes_per_point, 1, 4, KM_PARAM_CUDA, "1 2 4", "lanes that share a point's features")                  \
    X(prefetch, 0, 8, KM_PARAM_CUDA, "0 1 | 2 3 4 5", "tiles of points that a warp fetches ahead")           \
    X(blocks_per_sm, 1, 32, KM_PARAM_CUDA, "1 2 3 | 4 6 8", "blocks of a multiprocessor at a time")          \
    X(segments, 1, 1048576, KM_PARAM_CUDA, "x1 | x1/2 x2",                                                   \
      "pieces of the points in the order of their labels")                                                   \
    X(tile_points, 16, 1024, KM_PARAM_CUDA, "64 128 192 256 | 32 96 512",                                    \
      "points worked on at a time by a block")                                                               \
    X(tile_clusters, 1, 1024, KM_PARAM_CUDA | KM_PARAM_CPU,                                                  \
      "1 2 3 4 5 6 8 16 32 48 64 80 96 112 128 160 192 256", "centroids worked on at a time")                \
    X(tile_features, 1, 1024, KM_PARAM_CUDA | KM_PARAM_CPU, "8 16 32 64 128 | 4 24 48",                      \
      "features worked on at a time")                                                                        \
    X(panel_clusters, 1, 65535, KM_PARAM_CPU, "x1 | x1/2 x2",                                                \
      "centroids that points meet before they go on to the next ones")                                       \
    X(lanes, 1, 64, KM_PARAM_CPU, "", "elements of a SIMD vector")                                           \
    X(vectors, 1, 16, KM_PARAM_CPU, "2 4 8", "SIMD vectors of points worked on at a time")                   \
    X(soa_points, 1, 4096, KM_PARAM_CPU, "", "points that lie together, feature by feature")                 \
    X(int16_scores, 0, 1, KM_PARAM_CPU, "0 1",                                                               \
      "1: scores of 16-bit integers first, ambiguous points again in the plan's type")                       \
    X(concurrent_restarts, 1, 4096, KM_PARAM_CUDA | KM_PARAM_CPU, "x1 | x1/2 x2",                            \
      "restarts of each K in one pass")

typedef enum km_param {
#define KM_PARAM_ENUM(name, lowest, highest, targets, tune, meaning) KM_PARAM_##name,
    KM_PARAMS(KM_PARAM_ENUM)
#undef KM_PARAM_ENUM
        KM_PARAM_COUNT
} km_param;

// X(number, word, design, meaning): one row a form of a design. A word belongs to one design.
#define KM_WORDS(X)                                                                                          \
    X(form, constant, REGISTERS, "coefficients of the scores in constant memory")                            \
    X(form, shared, REGISTERS, "coefficients of the scores in shared memory")                                \
    X(form, hi_lo, TENSOR, "scores and sums of fp16 pairs, high and low part")                               \
    X(form, distance, TENSOR, "distances of fp16, sums of int8 digits")                                      \
    X(form, rounded, TENSOR, "scores of rounded fp16 with an error term, sums of int8 digits")               \
    X(form, digits, TENSOR, "scores and sums of int8 digits, sums shared by a block's warps")                \
    X(form, rows, TENSOR, "scores as rounded's, sums in rows in shared memory")                              \
    X(form, tiles, TILED, "scores by tiles of centroids, in the plan's type")                                \
    X(form, tiles_fp16, TILED, "scores by tiles of centroids, in fp16, ambiguous points again in double")    \
    X(form, resident, TILED, "centroids stay in shared memory, scores in the plan's type")                   \
    X(form, resident_fp16, TILED,                                                                            \
      "centroids stay in shared memory, scores in fp16, ambiguous points again in double")                   \
    X(form, points, TILED, "a thread has whole points, scores in float32, ambiguous points again in double") \
    X(form, nonzeros, SPARSE_WARPS, "a nonzero meets the centroids side by side, in the plan's type")        \
    X(form, expanded, SPARSE_WARPS,                                                                          \
      "tiles of points with their zeros in fp16, matrix products, ambiguous points again in double")         \
    X(sums, chunks, TILED, "rows in shared memory, a chunk of points a block")                               \
    X(sums, sorted, TILED, "points in the order of their labels")                                            \
    X(sums, products, TILED, "matrix products of doubles")                                                   \
    X(sums, integers, TILED, "integers in rows in shared memory, exact in any order")

typedef enum km_word {
#define KM_WORD_ENUM(param, name, design, meaning) KM_WORD_##param##_##name,
    KM_WORDS(KM_WORD_ENUM)
#undef KM_WORD_ENUM
        KM_WORD_COUNT
} km_word;

#endif
