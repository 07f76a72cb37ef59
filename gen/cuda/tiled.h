// SPDX-License-Identifier: MIT
// The design `tiled`: its shapes and configurations, for the files that plan it. tiled.c decides, tiled_shape.c says
// what a shape takes and which may be run, tiled_labels.c which is fastest, tiled_sums.c how points are added.
#ifndef KM_GEN_CUDA_TILED_H
#define KM_GEN_CUDA_TILED_H
#include "common.h"

enum {
    KM_TILED_WARP_CLUSTERS = 64,     // centroids of a tile that one warp has
    KM_TILED_RESIDENT_K_MAX = 32,    // resident centroids: the largest K, a lane each
    KM_TILED_RESIDENT_POINTS = 16,   // points of a warp at a time
    KM_TILED_CHUNKS_K_MAX = 63,      // rows of sums that fit into shared memory
    KM_TILED_BLOCK = 128,            // threads of a block that have whole points
    KM_TILED_POINTS_FEATURES = 16,   // of such points, at most
    KM_TILED_INTEGERS_FEATURES = 24, // of points that are added as integers, at most
    KM_TILED_INTEGERS_DOUBLES = 8    // the same of float64
};

// Form and tiles, and numbers that follow from them.
typedef struct km_tile_shape {
    int64_t fp16, resident,
        whole; // flags: scores in fp16; centroids stay in shared memory; threads have points
    int64_t tile_points, tile_clusters, tile_features;
    int64_t warp_points, rows, columns; // points of a warp; points and centroids of a thread
    int64_t point_warps, cluster_warps; // of a block
    int64_t panel_rows, panels;         // rows of a panel of the table of centroids; panels of one restart
    int64_t slices;                     // of features
    int64_t piece;                      // bytes that are copied at a time from a point
    int64_t tile_slots,
        ahead;           // resident centroids: slots of a tile, an even number; steps that are read ahead
    int64_t row_numbers; // whole points: numbers of a centroid in shared memory
    int64_t shared_bytes;
} km_tile_shape;

// Sums as products of doubles: `columns` products along the features, eight features each; `feature_warps` warps split
// all features; `blocks_per_sm` blocks fit a multiprocessor; `piece` is the bytes of one read.
typedef struct km_product_shape {
    int64_t columns, feature_warps, blocks_per_sm, piece;
} km_product_shape;

// Sums in rows of shared memory: a subwarp of `lanes` lanes has four slots; a block has `slots` slots with at most
// `rows` clusters. `feature_parts` blocks split the features of a chunk of points, `slot_blocks` its slots.
typedef struct km_chunk_shape {
    int64_t lanes, feature_parts, warps, slots, rows, slot_blocks;
} km_chunk_shape;

// A configuration: the tiles of the labels, and the time of a point.
typedef struct km_tiled_config {
    km_tile_shape shape;
    int64_t blocks_per_sm, spare; // registers of a thread that are left
    double tensor_ns, issue_ns, total_ns;
} km_tiled_config;

// tiled_shape.c

// Rows of the table of centroids of one restart, where each K is padded to a multiple of `panel_rows`.
int64_t km_tiled_padded_rows(const km_spec *spec, int64_t panel_rows);
// The first row of clusters[index] in the table of centroids, whose tiles hold whole K only. For index =
// clusters_count: the rows in use.
int64_t km_tiled_resident_row(const km_spec *spec, int64_t tile, int64_t index);
// Bytes that are read at a time from rows of so many numbers; `most` at most.
int64_t km_tiled_piece(int64_t numbers, int64_t size, int64_t most);
// Features of one product.
int64_t km_tiled_resident_step(const km_tile_shape *shape);
// Fills the numbers that follow from form and tiles.
void km_tiled_fill(km_tile_shape *shape, const km_spec *spec);
// Multiplications of halves that a multiprocessor does in a cycle by mma.sync with float32 sums; 0: it has none.
double km_tiled_fp16_per_cycle(int32_t arch);
// Whether products of doubles are worth it: m16n8k8 is there, and as fast as plain arithmetic at least.
int km_tiled_has_double_products(const km_plan *plan);
// The largest K of the list.
int64_t km_tiled_k_max(const km_plan *plan);
// Whether so many blocks of this shape fit a multiprocessor; each takes 1 KiB more.
int km_tiled_fits(const km_plan *plan, const km_tile_shape *shape, int64_t blocks_per_sm);
// Registers that a thread of such a block may have.
int64_t km_tiled_registers_limit(const km_plan *plan, const km_tile_shape *shape, int64_t blocks_per_sm);
// Words of the number `form`, and the one of a shape.
int km_tiled_is_fp16(int64_t form);
int km_tiled_is_resident(int64_t form);
int64_t km_tiled_form_of(const km_tile_shape *shape);
// The shape that the plan has the numbers of.
km_tile_shape km_tiled_shape_of(const km_plan *plan);
// KM_ERROR_PLAN: such tiles cannot be run.
km_status km_tiled_check(const km_plan *plan, const km_tile_shape *shape, int64_t blocks_per_sm,
                         km_error *err);

// tiled_labels.c

// Why a form cannot compute the plan's pass, or NULL: it can.
const char *km_tiled_form_refused(const km_plan *plan, int64_t form);
// Fills the times of a configuration whose shape and blocks_per_sm are set.
void km_tiled_evaluate(km_tiled_config *config, const km_plan *plan);
// The fastest configuration of all forms, or of the one that the user fixed; blocks_per_sm 0: there is none.
km_tiled_config km_tiled_best(const km_plan *plan);

// tiled_sums.c

// Whether one small K of doubles may have the form `points`, whose sums are integers then.
int km_tiled_whole_few(const km_plan *plan);
// How points are added: the user's choice where he has one.
int64_t km_tiled_sums_of(const km_plan *plan, int resident);
// Why they are added so.
const char *km_tiled_sums_reason(int64_t sums);
// Sums of integers: from row to row in shared memory, in words of four bytes; and bytes of a block.
int64_t km_tiled_row_words(const km_spec *spec);
int64_t km_tiled_integers_bytes(const km_plan *plan);
// Whether they can be: points of few features without weights, and the rows of the largest K fit into shared memory.
int km_tiled_has_integers(const km_plan *plan);
// Shapes of the sums in shared memory, and of those by products.
km_chunk_shape km_tiled_chunks_of(const km_plan *plan);
km_product_shape km_tiled_products_of(const km_plan *plan);
// Chunks of points, one a block (or one for all blocks that split its features and slots): many, as long as their
// rows of sums stay small.
int64_t km_tiled_grid_of(const km_plan *plan);
// Segments of the order of labels: a subwarp each.
int64_t km_tiled_segments_of(const km_plan *plan);
// Thread instructions of adding a point for all K. Rows in shared memory are bound by its bandwidth.
double km_tiled_adding(const km_plan *plan, const km_tiled_config *config);

#endif
