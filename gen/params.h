// SPDX-License-Identifier: MIT
// The one list of plan numbers: for the spec's `plan:` keys, explain, the tuner's ranges and the plan hash.
#ifndef KM_GEN_PARAMS_H
#define KM_GEN_PARAMS_H

enum { KM_PARAM_CUDA = 1, KM_PARAM_CPU = 2 };

// X(name, lowest, highest, targets, meaning). A plan holds the numbers of its own target only.
#define KM_PARAMS(X)                                                                                         \
    X(points_per_thread, 1, 16, KM_PARAM_CUDA, "points that one thread has in flight")                       \
    X(block, 32, 1024, KM_PARAM_CUDA, "threads of a block")                                                  \
    X(grid, 1, 1048576, KM_PARAM_CUDA, "blocks of a launch")                                                 \
    X(split, 1, 8, KM_PARAM_CUDA, "warp groups of a block that share the K list")                            \
    X(launches, 1, 4096, KM_PARAM_CUDA, "kernels that share the K list in one pass")                         \
    X(team, 1, 4, KM_PARAM_CUDA, "lanes that share a point's features")                                      \
    X(prefetch, 0, 8, KM_PARAM_CUDA, "tiles of points that a warp fetches ahead")                            \
    X(resident, 1, 32, KM_PARAM_CUDA, "blocks of a multiprocessor at a time")                                \
    X(half_filter, 0, 1, KM_PARAM_CUDA, "1: distances in half precision first, near ties again in double")   \
    X(sums_in_shared, 0, 1, KM_PARAM_CUDA, "1: a block's sums in shared memory, none in registers")          \
    X(few_clusters, 0, 1, KM_PARAM_CUDA,                                                                     \
      "1: centroids stay in shared memory and points go by, not tile by tile")                               \
    X(stretches, 0, 1048576, KM_PARAM_CUDA, "pieces of the points in the order of their labels")             \
    X(tile_points, 16, 1024, KM_PARAM_CUDA, "points worked on at a time by a block")                         \
    X(tile_clusters, 1, 1024, KM_PARAM_CUDA | KM_PARAM_CPU, "centroids worked on at a time")                 \
    X(tile_features, 1, 1024, KM_PARAM_CUDA | KM_PARAM_CPU, "features worked on at a time")                  \
    X(panel_clusters, 1, 65535, KM_PARAM_CPU,                                                                \
      "centroids that points meet before they go on to the next ones")                                       \
    X(lanes, 1, 64, KM_PARAM_CPU, "elements of a SIMD vector")                                               \
    X(vectors, 1, 16, KM_PARAM_CPU, "SIMD vectors of points worked on at a time")                            \
    X(group, 1, 4096, KM_PARAM_CPU, "points of a group, features apart inside it")                           \
    X(integers, 0, 1, KM_PARAM_CPU,                                                                          \
      "1: scores of 16-bit integers first, near ties again in the plan's type")                              \
    X(restarts_in_flight, 1, 4096, KM_PARAM_CUDA | KM_PARAM_CPU, "restarts of each K in one pass")

typedef enum km_param {
#define KM_PARAM_ENUM(name, lowest, highest, targets, meaning) KM_PARAM_##name,
    KM_PARAMS(KM_PARAM_ENUM)
#undef KM_PARAM_ENUM
        KM_PARAM_COUNT
} km_param;

#endif
