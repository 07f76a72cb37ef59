// SPDX-License-Identifier: MIT
// What the steps around the pass are given: like the arguments of the pass, the contract with the host.
#ifndef KM_STEPS_CUDA_H
#define KM_STEPS_CUDA_H

enum {
    KM_THREADS = 256,               // of a block of every step kernel, where nothing else is said
    KM_SUBCHUNK_POINTS = 2048,      // points of a subchunk: one block's work, one partial sum
    KM_SUBCHUNKS_PER_CHUNK = 32,    // subchunks of a chunk of 65,536 points
    KM_REDUCED_NUMBERS = 8,         // numbers that a block reduces over the chunks
    KM_CANDIDATES_MAX = 13,         // most candidates of a k-means++ pick
    KM_FINISH_THREADS = 128,        // of a block of km_finish_few_clusters ...
    KM_FINISH_FEW_MAX = 32,         // ... which takes up to so many clusters, if shared memory holds
    KM_FINISH_BYTES = 28,           // so many bytes for each of them and each thread, ...
    KM_FINISH_WEIGHTED_BYTES = 36,  // ... with weights
    KM_FINISH_SHARED_MAX = 1024,    // clusters whose sums km_finish_chunks keeps in shared memory; ...
    KM_FINISH_SHARED_POINTS = 4096, // ... then a block adds so many points, else a chunk
    KM_TILE_WARP_ROWS = 8,          // ... of which a warp takes as many rows of centroids at a time, ...
    KM_TILE_ROWS = 96,              // ... the block no more than this, ...
    KM_TILE_THREADS = 384,          // ... with so many threads at most, ...
    KM_TILE_PAIRS = 4,              // ... of which each takes a point of so many models, ...
    KM_TILE_MODELS = 12,            // ... so that a block has these, at most; ...
    KM_TILE_SUMS = 2,               // ... it has so many sums of each cluster, where all rows fit
    KM_SILHOUETTE_POINTS = 16384,   // points of a block of km_silhouette
    KM_SILHOUETTE_MODELS = 16, // of a launch, at most: so many sums fit the shared memory of every device
    KM_UPDATE_NUMBERS = 2048,  // coordinates of a slot's centroids that a block of km_update computes ...
    KM_UPDATE_PARTS_MAX = 64   // ... and the most blocks of a slot
};

// The finishing pass of more features than fit registers: km_finish_tiles. `real`: bytes of a number of the points'
// type.
#define KM_FINISH_HAS_TILES(d) ((d) > 16)
// Points of a block: the fewer, the longer a point takes. How many blocks a chunk has.
#define KM_FINISH_PIECE_POINTS(d) ((d) <= 64 ? 2048 : (d) <= 128 ? 1024 : 512)
#define KM_FINISH_PIECES(d) (KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK / KM_FINISH_PIECE_POINTS(d))
// Points of a tile. Features are taken a slab of at most 144 bytes at a time, padded to 16 bytes; a row of a slab in
// shared memory has an odd number of 16 bytes.
#define KM_TILE_POINTS(real) (512 / (int)(real))
#define KM_TILE_SLABS(d, real) (((d) * (int)(real) + 143) / 144)
#define KM_TILE_FEATURES(real) (16 / (int)(real))
#define KM_TILE_WIDTH(d, real)                                                                               \
    (((d) + KM_TILE_SLABS(d, real) * KM_TILE_FEATURES(real) - 1) /                                           \
     (KM_TILE_SLABS(d, real) * KM_TILE_FEATURES(real)) * KM_TILE_FEATURES(real))
#define KM_TILE_PITCH(width, real)                                                                           \
    ((width) * (int)(real) / 16 % 2 ? (width) : (width) + KM_TILE_FEATURES(real))
// Bytes of what a point adds to sums; sums of a cluster; bytes of shared memory, beside what has a size in the text.
#define KM_TILE_VALUE(real) (8 + 2 * (int)(real))
#define KM_TILE_NUMBERS(weighted) ((weighted) ? 5 : 4)
// Rows that there is memory for: a warp reads all of its own, also behind the last.
#define KM_TILE_ROOM(rows) (((rows) + KM_TILE_WARP_ROWS - 1) / KM_TILE_WARP_ROWS * KM_TILE_WARP_ROWS)
#define KM_TILE_BYTES(d, real, weighted, rows, groups, tile_rows, models, has_means)                         \
    (KM_TILE_PITCH(KM_TILE_WIDTH(d, real), real) * (int)(real) *                                             \
         (KM_TILE_POINTS(real) + KM_TILE_ROOM(tile_rows) + ((has_means) ? (tile_rows) : 0)) +                \
     (tile_rows)*512 + (models) * (KM_TILE_POINTS(real) + 1) * KM_TILE_VALUE(real) +                         \
     ((weighted) ? KM_TILE_POINTS(real) * 8 : 0) + KM_TILE_NUMBERS(weighted) * (groups) * (rows)*8 +         \
     (models) * (KM_TILE_POINTS(real) + 2) * 2)
// The same of km_silhouette_tiles.
#define KM_SILHOUETTE_TILE_BYTES(d, real, tile_rows, models)                                                 \
    (KM_TILE_PITCH(KM_TILE_WIDTH(d, real), real) * (int)(real) *                                             \
         (KM_TILE_POINTS(real) + KM_TILE_ROOM(tile_rows)) +                                                  \
     (tile_rows)*512 + (models)*KM_TILE_POINTS(real) * 8)

// Silhouettes of few clusters: bytes of a row of a cluster in shared memory, and of all. A squared distance that is
// less than this part of the terms that it is a sum of has lost too many digits.
#define KM_SILHOUETTE_ROW_BYTES(d, real) ((((d) + 1) * (int)(real) + 15) / 16 * 16)
#define KM_SILHOUETTE_BYTES(d, real, rows, models)                                                           \
    ((rows) * (KM_SILHOUETTE_ROW_BYTES(d, real) + (int)(real)) + (models)*KM_THREADS * 8)
#define KM_SILHOUETTE_KEPT(real) ((real) == 4 ? 0.03125 : 0.0000152587890625)

// Blocks of a slot in km_update: a single one would take long for thousands of clusters.
#define KM_UPDATE_PARTS(k_max, d)                                                                            \
    ((long long)(k_max) * (d) > (long long)KM_UPDATE_PARTS_MAX * KM_UPDATE_NUMBERS                           \
         ? KM_UPDATE_PARTS_MAX                                                                               \
         : ((long long)(k_max) * (d) + KM_UPDATE_NUMBERS - 1) / KM_UPDATE_NUMBERS)

typedef struct km_slot_record {
    km_slot_state state;
    unsigned arrived; // blocks of km_update that are done with the slot, in the current launch
} km_slot_record;

// Control of the loop of passes; its head is what the kernels of the pass see.
typedef struct km_loop {
    km_control head;
    int stopped_count; // slots that stopped since the host started the loop ...
    int stopped_min;   // ... and how many stop the loop
    unsigned updated;  // slots updated in this iteration
    unsigned reserved;
    double shift_max;
    long long changes_min;
    long long max_iter;
    double total_square;
} km_loop;

typedef struct km_update_args {
    km_loop *loop;
    km_slot_record *slots;
    unsigned char *active;
    void *centroids;      // [restarts][S][d] km_real
    void *before;         // the same: those of the last pass, which relocation goes back to
    const double *totals; // [restarts][S][d + 1]
    double *weights;      // [restarts][S]: of the last pass of each slot
    const unsigned char
        *given_up; // [restarts][S]: clusters for which relocation found no point: they may stay empty
    unsigned long long *changes;                   // per slot, or NULL
    void *workspace, *constants[KM_CONSTANTS_MAX]; // as in km_pass_args
    const double *box;                             // likewise
    unsigned long long *report; // in the host's memory: passes done, and 2^32 when the loop stops; or NULL
    double *
        part_sums; // [slots][KM_UPDATE_PARTS][4]: partial sums of the blocks of a slot; not used where it has one block
} km_update_args;

typedef struct km_seed_args {
    const void *points;    // n x d km_real
    const double *weights; // or NULL
    long long n;
    long long subchunks;            // of KM_SUBCHUNK_POINTS each
    const double *subchunk_weights; // [subchunks]
    void *nearest;                  // [chains][n] km_real: squared distance to the nearest pick
    long long *picks;               // [chains][picks_count]
    long long picks_count;
    long long *candidates; // [2][chains][KM_CANDIDATES_MAX]; pick p uses half p % 2
    double *subchunk_sums; // [chains][KM_CANDIDATES_MAX][subchunks], of the last pass
    int chains;
    unsigned long long seed;
    long long first_restart; // of chain 0
} km_seed_args;

typedef struct km_assign_args {
    const void *points;
    long long first, count;  // of the points: whole chunks but for the last one
    const double *centroids; // rows of all models
    const void *table;       // the same in the plan's type
    const int *ks;           // per model
    const long long *rows;   // per model: its first row of centroids
    int models;
    int *labels;     // [models][count]; may be NULL in km_finish_few_clusters
    double *nearest; // [models][count]: squared distance
    double *margin;  // [models][count], or NULL
    double *
        distance; // [models][count]: to the centroid, or to the mean of the label; or NULL: roots of `nearest`
    const void *means; // rows of means like those of `table`, of the models that have some; not of CSR points
    const long long
        *mean_rows;      // per model: its first row of means, or -1; of CSR points a column; NULL: all -1
    unsigned char *kept; // labels as bytes, by km_finish_few_clusters; NULL: no model's
    const long long *kept_at; // per model: where those of all points begin, or -1
} km_assign_args;

// Of the models of km_silhouette. Rows of centroids stand first, in the order of the models; then rows of means, of
// those models whose centroids are not the means of their points.
typedef struct km_silhouette_args {
    const void *points;
    long long count;            // of the points
    const double *centroids;    // rows
    const void *table;          // the same in the plan's type
    const void *exact_terms;    // doubles, two of each cluster: silhouette_terms
    const void *terms;          // the same in the plan's type
    const int *ks;              // per model
    const long long *rows;      // per model: its first row of centroids, and of terms
    const long long *mean_rows; // per model: its first row of means
    int models;
    // Of few clusters; labels of km_silhouette_labelled alone:
    const unsigned char *labels;
    const long long *labels_at; // per model: where its labels begin
    // Per model, in the plan's type: a mean squared distance that is larger keeps its digits as a sum of products,
    // but for KM_SILHOUETTE_KEPT of |x|^2. Negative: take differences.
    const void *least;
} km_silhouette_args;

enum {
    KM_FINISH_COUNT,
    KM_FINISH_WEIGHT,
    KM_FINISH_SSE,
    KM_FINISH_DISTANCE,
    KM_FINISH_MARGIN,
    KM_FINISH_SUMS
};

// Parts that a block of km_label_sums makes side by side.
#define KM_LABEL_PARTS(d) ((d) <= 32 ? 8 : (d) < KM_THREADS ? KM_THREADS / (d) : 1)

#endif
