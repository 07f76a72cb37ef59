// Of the text of {features: 2, clusters: "1000, 4096", target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 1 definition

// The pass, design `tiled`: any d, any K, any type. Labels first, then sums.
//
// Labels. The score of a point and a centroid is
//     x . c - |c|^2 / 2,
// and the centroid with the largest score is the nearest.
// Each thread has some points, and computes their scores one centroid after the other. Where the best two scores are
// closer than their error, the point is ambiguous: its warp finds its nearest centroid by distances in double. Ties go
// to the lowest index.
//
// Sums. A block adds a span of points as integers to rows in shared memory, and these to rows in global memory.
enum {
    PIECE_BYTES =
        8,            // bytes that are read at a time from a point: 16, or less where that does not divide a row
    LABELS_GRID = 264 // blocks of km_tiled_labels for each slot
};

// ... 6 definitions

// Bytes of the workspace, and bytes for each point, without those of the kernels that add points.
constexpr long long SLOTS_BYTES =
    16 * KM_ALIGN_BYTES + RESTARTS * KS * (256ll * sizeof(km_label) + sizeof(km_slot_bounds));
constexpr long long SLOTS_POINT_BYTES = RESTARTS * KS * (long long)sizeof(km_label);
constexpr long long TABLE_BYTES = SLOTS_BYTES, TABLE_POINT_BYTES = SLOTS_POINT_BYTES;

// ... 1 definition

enum {
    BLOCK = 128,
    POINTS = 8,      // points of a thread
    TILE = 32,       // centroids of which the best score is kept
    ROW_NUMBERS = 4, // of a centroid: its features, -|c|^2 / 2, padding
    TILES = (K_MAX + TILE - 1) / TILE,
    ROW_VECTOR = ROW_NUMBERS < 4 ? ROW_NUMBERS : 4, // numbers of one load
    TILE_PITCH =
        TILE * ROW_NUMBERS + 4 // from tile to tile: lanes that read different ones have different banks
};
constexpr float FAR = 3e38f; // |c|^2 / 2 of padding

// ... 9 definitions

// Labels of a slot, a block of points each.
extern "C" __global__ void __launch_bounds__(BLOCK, 2)
    // ... lines of a template

// ... 1 definition

enum {
    CHUNKS = 264, // blocks of a slot
    SUM_BLOCK = 1024,
    DIGITS = 3,
    SUM_BITS = 16 * DIGITS - 3,
    WORDS = D * DIGITS + 1, // sums of a cluster; the last counts its points
    ROW_WORDS = 7,          // from row to row in shared memory: an odd number, for its banks
    FLUSH_POINTS = 65536    // points after which a block adds its rows to those in global memory
};
constexpr long long SUMS_BYTES = 8ll * RESTARTS * S * WORDS;
constexpr long long SUMS_POINT_BYTES = 0;

// ... 3 definitions

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tiled_labels", KM_STAGE_PASS, LABELS_GRID, RESTARTS *KS, BLOCK, sizeof(km_block), 0},
    {"km_tiled_sums", KM_STAGE_PASS, CHUNKS, RESTARTS *KS, SUM_BLOCK, K_MAX *ROW_WORDS * 4, 0},
    {"km_tiled_totals", KM_STAGE_PASS, (RESTARTS * S * (D + 1) + 255) / 256, 1, 256, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    TABLE_BYTES + SUMS_BYTES, TABLE_POINT_BYTES + SUMS_POINT_BYTES};
}
