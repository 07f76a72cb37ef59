// SPDX-License-Identifier: MIT
// What the CUDA planner and the CUDA emitter must agree on: how the K list is shared out.
#ifndef KM_GEN_COST_CUDA_H
#define KM_GEN_COST_CUDA_H
#include <kmgen/plan.h>

enum { KM_CUDA_SHARES_MAX = 64 }; // warp groups of all launches

// Shares the K list out over `shares` warp groups (all launches' together) so that the largest sum of K - 1 is
// small: the largest K first, each to the group with the least so far. share[i] is the group of clusters[i].
void km_cuda_share(int32_t *share, const km_spec *spec, int64_t shares);

// Whether the registers design has its scores' planes in constant memory.
int km_cuda_const_planes(const km_plan *plan);

// Sums that a thread of the registers design keeps for one K, where `team` lanes share a point.
int64_t km_cuda_sums_of(const km_plan *plan, int64_t k, int64_t team);

// Points that lie side by side in a thread, so that it loads whole 16-byte pieces.
int64_t km_cuda_run(const km_spec *spec);

// tensor ----------------------------------------------------------------------------------------------------

enum { KM_TENSOR_KS_MAX = 256, KM_TENSOR_PARTS_MAX = 32 };

// A launch: rows of matrix products in tiles of 16. A group of lanes, one of eight, has two rows of each tile; the
// first `first` of them are for one K, the others for another. With levels > 0 up to 2^levels groups share a K.
typedef struct km_tensor_part {
    int tiles, first, levels, rows; // rows: centroids in use
    int in_shared;                  // sums lie in shared memory
    int members;                    // entries of the K list, where they do
    double waiting;                 // cycles for points that are decided in double
} km_tensor_part;

// Where the centroids of a K lie: launch, first group, groups, first row in a group, rows in a group, first sum.
typedef struct km_tensor_place {
    int16_t part, group, span, slot, slots, row;
} km_tensor_place;

typedef struct km_tensor_layout {
    int64_t parts_count;
    km_tensor_part parts[KM_TENSOR_PARTS_MAX];
    km_tensor_place places[KM_TENSOR_KS_MAX]; // of each K of the list
} km_tensor_layout;

// Lays the K list out over launches of at most so many tiles; 0 when a K does not fit.
int km_tensor_lay_out(km_tensor_layout *layout, const km_spec *spec, int64_t tiles_max, int in_shared);

// Whether sums are of bytes, and whether scores are then those of rounded points, not distances.
int km_tensor_in_bytes(const km_spec *spec);
int km_tensor_rounds(const km_spec *spec);

// Whether it has the form for many features.
int km_tensor_is_wide(const km_spec *spec);

// Bytes of a point as the pass reads it.
int64_t km_tensor_point_bytes(const km_spec *spec, int in_shared);

// One way to run the design.
typedef struct km_tensor_way {
    int64_t tiles, block, resident, launches, registers, shared_bytes, stages, pairs;
    int64_t spare; // registers of a thread beside those
    int kept;      // planes stay in registers
    int in_shared; // sums lie in shared memory
    int tight;     // registers are so few that the text keeps the compiler from using more
    double operations, memory_ns, issue_ns, total_ns;
} km_tensor_way;

int64_t km_tensor_points(const km_tensor_way *way); // of the wide form, worked on at a time by a block
const char *km_tensor_refusal(const km_plan *plan); // NULL when the design serves the plan's type and points
// Fills a way from its tiles (of a launch, at most), block, resident and in_shared; 0 when it cannot be run.
int km_tensor_judge(km_tensor_way *way, const km_plan *plan);
int km_tensor_best(km_tensor_way *best, const km_plan *plan);

// shared ----------------------------------------------------------------------------------------------------

// The shape of the design shared: five numbers of the plan, and what follows from them.
enum { KM_CUDA_WARP_CLUSTERS = 64 }; // centroids of a tile that one warp has
typedef struct km_cuda_shared {
    int64_t half, few, tile_points, tile_clusters, tile_features;
    int64_t warp_points, rows, columns; // points of a warp; points and centroids of a thread
    int64_t point_warps, cluster_warps; // of a block
    int64_t pad, groups;                // rows of a group of the table of centroids; groups of one copy
    int64_t chunks;                     // of features
    int64_t piece;                      // bytes that are copied at a time from a point
    int64_t tile_slots, ahead;          // few: slots of a tile, an even number; steps that are read ahead
    int64_t shared_bytes;
} km_cuda_shared;
void km_cuda_shared_fill(km_cuda_shared *shape, const km_spec *spec); // from the first five
km_cuda_shared km_cuda_shared_of(const km_plan *plan);

// The row of the table of centroids where those of clusters[index] begin, in tiles that hold whole K only; for index =
// clusters_count the rows in use.
int64_t km_cuda_few_row(const km_spec *spec, int64_t tile, int64_t index);

// How it adds points by products of doubles: eight features in each of `columns` products side by side, `groups` warps
// for all features, blocks of which `resident` fit, bytes of one read.
typedef struct km_cuda_products {
    int64_t columns, groups, resident, piece;
} km_cuda_products;
int km_cuda_has_products(const km_plan *plan);
km_cuda_products km_cuda_products_of(const km_plan *plan);

// How it adds points to rows of sums in shared memory: a team of `lanes` has four slots, a block `slots` slots
// with `rows` clusters at most; `parts` blocks share the features of a range of points, `groups` its slots.
typedef struct km_cuda_sums {
    int64_t lanes, parts, warps, slots, rows, groups;
} km_cuda_sums;
km_cuda_sums km_cuda_sums_shape(const km_plan *plan);

// Device memory of a pass over n points beside points, centroids and totals, at most.
int64_t km_cuda_workspace_bytes(const km_plan *plan, int64_t n);

#endif
