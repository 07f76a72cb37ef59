// SPDX-License-Identifier: MIT
// many.cu, made by kmgen 0.1.0. Same spec, same text. The spec:
//
// name: many
// features: 128
// clusters: 1024
// type: float32
// target: cuda:sm_90
// n_init: 10
//
// The plan:
//
// device: cuda:sm_90, nominal H200: 132 multiprocessors, 4800 GB/s, 1.98 GHz
// points: unknown, taken as many
// clusters in one pass: 1024 for each restart (the sum of the K list)
//
// design                        tiled  the least time of those estimated
// form                     tiles_fp16  many clusters or features, or products that are no faster; tensor cores, ambiguous points are decided again in double
// sums                         sorted  above K = 32 its rows in shared memory are slower than the order of labels
// grid                            264  ranges of points while they are ordered
// blocks_per_sm                     2  blocks whose tiles fit into shared memory
// segments                       4224  points in the order of their labels, a team of lanes each
// tile_points                     256  points of a block, which share what is read of the centroids
// tile_clusters                    64  64 for each of the warps that have the same points
// tile_features                   128  128 features in pieces that are padded little
// concurrent_restarts               1  many points: one restart of each K fills the device
//
// per point and pass: 1036 bytes read, 14172 operations
// registers per thread: about 128 of 255
// shared memory per block: 109.5 KiB of 227.0 KiB

// Contents, by line:
//     72  Numbers and types
//     93  What the kernels of a pass are given
//    174  The pass
//   1139  The steps around the pass
//   2516  The host part: what the header declares

#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 10 * 90
#error                                                                                                       \
    "many.cu was emitted for sm_90: nvcc -arch=sm_90, or emit it for an older device: kmgen --target cuda:sm_80"
#endif
// The linker knows kernels by these names, so that several emitted files go into one program.
#define km_tiled_norms many_km_tiled_norms
#define km_tiled_prepare many_km_tiled_prepare
#define km_tiled_labels many_km_tiled_labels
#define km_tiled_resolve many_km_tiled_resolve
#define km_tiled_count many_km_tiled_count
#define km_tiled_order many_km_tiled_order
#define km_tiled_segments many_km_tiled_segments
#define km_tiled_totals many_km_tiled_totals
#define km_load_sums_f32 many_km_load_sums_f32
#define km_load_sums_f64 many_km_load_sums_f64
#define km_load_reduce many_km_load_reduce
#define km_load_transform_f32 many_km_load_transform_f32
#define km_load_transform_f64 many_km_load_transform_f64
#define km_load_weights many_km_load_weights
#define km_load_add many_km_load_add
#define km_rows many_km_rows
#define km_seed_draw many_km_seed_draw
#define km_seed_pass many_km_seed_pass
#define km_finish_few many_km_finish_few
#define km_assign many_km_assign
#define km_finish_blocks many_km_finish_blocks
#define km_finish_add many_km_finish_add
#define km_farthest_block many_km_farthest_block
#define km_farthest_pick many_km_farthest_pick
#define km_update many_km_update
#endif

// ==== Numbers and types ====================================================================================
typedef float km_real;
typedef unsigned short km_label; // one label of one point, where labels are kept between passes

enum {
    D = 128,      // features
    S = 1024,     // clusters of one copy: the sum of the K list
    KS = 1,       // entries of the K list
    K_MAX = 1024, // the largest of them
    COPIES = 1,   // concurrent restarts
    WEIGHTED = 0  // points carry weights
};

// The K list and where each K's centroids start.
__constant__ const int km_ks[KS] = {
    1024,
};
__constant__ const int km_offsets[KS] = {
    0,
};

// ==== What the kernels of a pass are given =================================================================
// What kernels of the pass are given and what they leave: the contract with the host that starts them, the host part of
// an emitted file or kmgen's engine, which compile these same lines.
//
// Words. A copy is one restart of the whole list of K; some are in flight together. A slot is one K of one copy: slot =
// copy * ks_count + k_index. Rows are centroids: those of a slot are copy * S + offset[k_index] and the next K - 1, S
// the sum of the K list, offset its prefix sums.
//
// The pass. Its kernels read every point once and leave totals[copy][S][d + 1]: for each cluster of each active slot
// the weighted sum of its points (d numbers), then their weight; doubles, in an order that does not depend on timing
// (fixed order of adding, or integers that the last kernel converts). Every row of an active slot is written, also
// where it is 0; rows of other slots are not read. Nearest centroid, ties to the lowest index. km_update, one of the
// steps behind the pass, makes centroids of the totals.
//
// How it is started. The file has
//     extern "C" { __device__ km_pass_facts km_pass = {...}; __device__ km_pass_launch km_pass_launches[] = {...}; }
// and the host starts the launches in that order on one stream, each with one argument of type km_pass_args by value
// (`__grid_constant__ const km_pass_args args`). Those of KM_STAGE_LOAD run once after the points are there, those of
// KM_STAGE_BEGIN whenever the host may have changed centroids, those of KM_STAGE_PASS in every pass. Grids are fixed: a
// kernel strides over the points.
//
// Every kernel begins with `if (args.control->stop) return;`: the host queues several passes at once, and those after
// the one in which a slot came to rest must cost nothing.
#ifndef KM_ABI_CUDA_H
#define KM_ABI_CUDA_H

enum {
    KM_ABI_VERSION = 2,
    KM_PAD_ROWS = 64,    // Rows after the last point that may be read; they are zero. Weights likewise.
    KM_ALIGN_BYTES = 256 // Alignment of every pointer below.
};

enum { KM_STAGE_LOAD, KM_STAGE_BEGIN, KM_STAGE_PASS };

typedef struct km_pass_launch {
    char kernel[40]; // its name, declared extern "C"
    int stage;       // KM_STAGE_...
    unsigned grid_x, grid_y, block;
    unsigned shared_bytes; // dynamic shared memory; the host opts in above 48 KiB
    int part;              // passed on in km_pass_args: which share of the K list, where a kernel runs several times
} km_pass_launch;

typedef struct km_pass_facts {
    int version;        // KM_ABI_VERSION
    int launches_count; // entries of km_pass_launches
    // args.workspace: fixed + per_point * n bytes.
    long long workspace_bytes;
    long long workspace_bytes_per_point;
    int has_constants; // the source has a symbol km_constants in __constant__ memory
    // Its first so many bytes are zeroed before KM_STAGE_LOAD, the others may hold anything; 0: all are zeroed.
    long long workspace_bytes_zero;
} km_pass_facts;

// What the update leaves for the next pass.
typedef struct km_control {
    int stop;       // not 0: the queued passes do nothing
    int passes;     // passes done
    int passes_max; // stop after so many
    int reserved;
} km_control;

typedef struct km_pass_args {
    const km_control *control;
    const void *points;  // n x d km_real, row by row, centred and scaled
    const void *weights; // n km_real; NULL where points have no weights
    long long n;
    const void *centroids;       // [copies][S][d] km_real
    const unsigned char *active; // per slot: 1 takes part in this pass
    double *totals;              // [copies][S][d + 1]
    void *labels;                // [slots][labels_stride] km_label; NULL unless labels are kept between passes
    long long labels_stride;
    unsigned long long
        *changes; // per slot: labels that changed (integer atomics); zeroed before each pass; or NULL
    void *workspace;
    void *constants;   // address of the symbol km_constants, NULL unless has_constants
    const double *box; // 2 x d: the smallest value of each feature, then the largest, as `points` are
    int part;
} km_pass_args;

#endif

// ==== The pass =============================================================================================
#define KM_UNROLL_FOR(...) _Pragma("unroll") for (__VA_ARGS__)
// The sum of all lanes' values, in every lane.
template <typename Number> static __device__ __forceinline__ Number km_warp_sum(Number value) {
    for (int width = 16; width > 0; width /= 2) value += __shfl_xor_sync(0xffffffffu, value, width);
    return value;
}

// The pass, design `tiled`: any d, any K, any type. Labels first, then sums.
//
// Labels. A point and a centroid have the score
//     x . c - |c|^2 / 2,
// and the centroid with the largest score is the nearest. Scores are products of matrices (the points, and the table of
// all centroids); for each point the best two of a slot are kept.
// They are made of numbers in half precision.
// Where the two are closer than rounding may account for, the point is ambiguous: it is listed for its slot, and
// km_tiled_resolve decides it by distances in double. Ties go to the lowest index.
//
// Sums. The points of a slot are put in the order of their labels; segments of that order are added up.
//
// The table holds the centroids of all slots, those of a slot padded to whole groups of PAD rows; a tile is TILE rows
// of it.
enum {
    PAD = 64,    // rows of a group, all of one slot: a tile, or 1
    GROUPS = 16, // groups of one copy
    TILE = 64,   // rows of a tile
    TILE_GROUPS = TILE / PAD,
    TILES = (COPIES * GROUPS + TILE_GROUPS - 1) / TILE_GROUPS,
    FEATURES = 128,            // features worked on at a time
    CHUNKS = 1,                // of so many features
    WIDTH = FEATURES * CHUNKS, // d, padded
    PIECE = 16,                // bytes that are copied at a time from a point: 16, or what divides a row
    LABELS_GRID = 264          // blocks that make labels
};

// The first group of each K.
__constant__ const int km_groups[KS] = {
    0,
};

// The workspace.
typedef unsigned short km_table_number; // of the table of centroids: half precision, as bits
typedef unsigned km_bits;

// What is known of the centroids of a slot. Bits of a number that is not negative are in the order of the numbers.
struct km_slot_bounds {
    km_bits norm;       // the largest |c|
    km_bits coarse;     // the largest share of |c| that half precision loses
    unsigned ambiguous; // points that are listed
    unsigned unused;
};

struct km_workspace {
    float *scale; // of points and centroids in half precision
    km_slot_bounds *slots;
    int *tile_slots;       // the slot of a tile's first row; -1 where no slot of the tile is active
    km_real *half_squares; // |c|^2 / 2 of each row of the table
    km_table_number *table;
    km_real *norms;   // |x| of each point
    float *residuals; // what half precision loses of it
    km_label *labels; // of each slot, `stride` apart: past the last point come zeros
    long long stride;
    unsigned *lists; // of each slot: its ambiguous points
    char *sums;      // what adding needs
};

// The next bytes of the workspace.
__device__ __forceinline__ char *km_take(char **at, long long bytes) {
    char *taken = *at;
    *at += (bytes + KM_ALIGN_BYTES - 1) / KM_ALIGN_BYTES * KM_ALIGN_BYTES;
    return taken;
}

__device__ __forceinline__ km_workspace km_workspace_of(const km_pass_args &args) {
    km_workspace workspace;
    char *at = (char *)args.workspace;
    workspace.scale = (float *)km_take(&at, sizeof(float));
    workspace.slots = (km_slot_bounds *)km_take(&at, COPIES * KS * sizeof(km_slot_bounds));
    workspace.tile_slots = (int *)km_take(&at, TILES * 4ll);
    workspace.half_squares = (km_real *)km_take(&at, (long long)TILES * TILE * sizeof(km_real));
    workspace.table =
        (km_table_number *)km_take(&at, (long long)TILES * TILE * WIDTH * sizeof(km_table_number));
    workspace.norms = (km_real *)km_take(&at, args.n * sizeof(km_real));
    workspace.residuals = (float *)km_take(&at, args.n * sizeof(float));
    workspace.stride = (args.n + 255) / 256 * 256;
    workspace.labels = (km_label *)km_take(&at, COPIES * KS * workspace.stride * (int)sizeof(km_label));
    workspace.lists = (unsigned *)km_take(&at, (long long)COPIES * KS * args.n * 4);
    workspace.sums = at;
    return workspace;
}

// Where the centroids of a slot stand in the table.
struct km_place {
    int slot, k;
    int begin, end; // groups
};

__device__ __forceinline__ km_place km_place_of(int slot) {
    km_place place;
    const int k_index = slot % KS;
    place.slot = slot;
    place.k = km_ks[k_index];
    place.begin = slot / KS * GROUPS + km_groups[k_index];
    place.end = place.begin + (place.k + PAD - 1) / PAD;
    return place;
}

// The slot of a group.
__device__ int km_slot_of(int group) {
    int low = 0, high = KS - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (km_groups[middle] <= group % GROUPS)
            low = middle;
        else
            high = middle - 1;
    }
    return group / GROUPS * KS + low;
}

// Numbers that lie side by side in a point and in a centroid.
struct __align__(PIECE) km_piece {
    km_real at[PIECE / sizeof(km_real)];
};

// Bytes of the workspace, and of it for each point, but for what adding needs.
constexpr long long TABLE_BYTES =
    16 * KM_ALIGN_BYTES + COPIES * KS * (256ll * sizeof(km_label) + sizeof(km_slot_bounds)) + TILES * 4ll +
    (long long)TILES * TILE * (sizeof(km_real) + WIDTH * sizeof(km_table_number));
constexpr long long TABLE_POINT_BYTES = 2 * sizeof(float) + COPIES * KS * ((long long)sizeof(km_label) + 4);

// What scores may lose: how far below the best another may be measured and still be the best.

constexpr float FAR = 3e38f; // |c|^2 / 2 of padding
// What adding WIDTH products may lose of |x| |c|, where an addition keeps 23 bits of the largest number.
constexpr float ROUNDING = (4 * WIDTH + 8) / 16777216.f;

__device__ __forceinline__ km_bits km_bits_of(float value) {
    return __float_as_uint(value);
}

__device__ __forceinline__ float km_value_of(km_bits bits) {
    return __uint_as_float(bits);
}

__device__ __forceinline__ km_table_number km_half_of(float value) {
    km_table_number half;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(half) : "f"(value));
    return half;
}

__device__ __forceinline__ double km_half_value(km_table_number half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value;
}

// Brings the data's box to 512: centroids outside of it have room.
static __device__ float km_scale_of(const km_pass_args &args) {
    double largest = 0;
    int exponent = 0;
    for (int f = 0; f < 2 * D; f++) largest = fmax(largest, fabs(args.box[f]));
    frexp(largest, &exponent);
    return ldexpf(1, min(max(9 - exponent, -60), 60));
}

// What a centroid may lose below the smallest normal number of its type in the table.
__device__ __forceinline__ float km_fine(const km_workspace &workspace) {
    return sqrtf(WIDTH) * 1.001f / 33554432.f / *workspace.scale;
}

// Rounded up, so that a bound stays one.
__device__ __forceinline__ km_real km_above(double value) {
    return (km_real)(value * (1 + 1.0 / 1048576));
}

// What a margin needs of a point: its norm, and what half precision loses of it.
struct km_norms {
    km_real norm, lost;
};

__device__ __forceinline__ km_norms km_norms_of(const km_workspace &workspace, long long i) {
    return {workspace.norms[i], workspace.residuals[i]};
}

// How far below the best score another may be measured and still be the best: both scores' errors. For a point of norm
// g, a centroid's is at most e |c| (and a constant), e the part of g that products and sums may lose. A centroid of
// |c| >= 4 g has a score t of at most -|c|^2 / 4, so that its error is at most e / g |t|: such centroids count for as
// much as the best score does. The factors have room for the rounding of these lines.
__device__ __forceinline__ km_real km_margin(km_real fine, const km_slot_bounds &slot, const km_norms &point,
                                             km_real best) {
    const km_real g = point.norm, c = km_value_of(slot.norm), near = c < 4 * g ? c : 4 * g;
    const km_real e = point.lost + g * (km_value_of(slot.coarse) + ROUNDING);
    km_real margin = 2.01f * (e * near + (g + point.lost) * fine);
    margin += fabsf(best) / 131072; // for the bits that a column has taken
    if (c > 4 * g) margin += (km_real)2.5 * (g > 0 ? e / g : ROUNDING) * (best < 0 ? -best : best);
    return margin;
}

// When points are loaded: |x| of each point, a warp each.
extern "C" __global__ void __launch_bounds__(256) km_tiled_norms(const __grid_constant__ km_pass_args args) {
    const km_workspace workspace = km_workspace_of(args);
    const float scale = km_scale_of(args);
    if (blockIdx.x == 0 && threadIdx.x == 0) *workspace.scale = scale;
    const int lane = threadIdx.x % 32;
    for (long long i = blockIdx.x * 8ll + threadIdx.x / 32; i < args.n; i += gridDim.x * 8ll) {
        const km_real *x = (const km_real *)args.points + i * D;
        double square = 0;
        double lost = 0;
        for (int f = lane; f < D; f += 32) {
            square = fma((double)x[f], (double)x[f], square);
            const double rest = x[f] - km_half_value(km_half_of(x[f] * scale)) / scale;
            lost = fma(rest, rest, lost);
        }
        square = km_warp_sum(square);
        lost = km_warp_sum(lost);
        if (lane != 0) continue;
        workspace.norms[i] = km_above(sqrt(square));
        workspace.residuals[i] = km_above(sqrt(lost));
    }
}

// In each pass: the table of centroids, a warp each row. Four blocks of a multiprocessor: said, or the compiler aims at
// more, and spills.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_tiled_prepare(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= TILES * TILE) return;
    const int group = row / PAD;
    if (row % TILE == 0) {
        int active = 0;
        for (int g = group + lane; g < group + TILE_GROUPS && g < COPIES * GROUPS; g += 32)
            active |= args.active[km_slot_of(g)];
        active = __any_sync(0xffffffffu, active);
        if (lane == 0) workspace.tile_slots[row / TILE] = active ? km_slot_of(group) : -1;
    }
    const km_place place = km_place_of(group < COPIES * GROUPS ? km_slot_of(group) : 0);
    const int j = row - place.begin * PAD, real = group < COPIES * GROUPS && j < place.k;
    const long long first = (long long)(place.slot / KS) * S + km_offsets[place.slot % KS];
    const km_real *c = (const km_real *)args.centroids + (first + j) * D;
    km_table_number *to = workspace.table + (long long)row * WIDTH;
    double square = 0;
    double lost = 0;
    for (int f = lane; f < WIDTH; f += 32) {
        const km_real value = real && f < D ? c[f] : (km_real)0;
        square = fma((double)value, (double)value, square);
        const float scale = *workspace.scale;
        to[f] = km_half_of(fminf(fmaxf(value * scale, -65504.f), 65504.f));
        const double rest = value - km_half_value(to[f]) / scale;
        lost = fma(rest, rest, lost);
    }
    square = km_warp_sum(square);
    lost = km_warp_sum(lost);
    if (lane != 0) return;
    workspace.half_squares[row] = real ? (km_real)(square / 2) : FAR;
    if (!real) return;
    km_slot_bounds *slot = workspace.slots + place.slot;
    const km_real norm = km_above(sqrt(square));
    atomicMax(&slot->norm, km_bits_of(norm));
    const double share = (sqrt(lost) - km_fine(workspace)) / (norm > 0 ? norm : 1);
    atomicMax(&slot->coarse, km_bits_of(km_above(share > 0 ? share : 0)));
}

// Labels of any list, tiled like a matrix product: a block holds a tile of points and walks over tiles of centroids in
// shared memory; a thread has the scores of ROWS points and COLUMNS centroids in registers. km_tiled_resolve walks
// over the ambiguous points again and decides between all centroids that may be the nearest by distances in double.

enum {
    POINT_WARPS = 8,   // warps of a block side by side in the points ...
    CLUSTER_WARPS = 1, // ... and in the centroids of a tile
    WARPS = POINT_WARPS * CLUSTER_WARPS,
    BLOCK = 32 * WARPS,
    WARP_POINTS = 32,                // points of a warp
    ROWS = 4,                        // of them, those of one thread
    COLUMNS = 16,                    // centroids of a tile of one thread
    SHARE = 32 * ROWS / WARP_POINTS, // lanes that have the same points
    WARP_CLUSTERS = COLUMNS * SHARE,
    POINTS = POINT_WARPS * WARP_POINTS,
    RESOLVE_GRID = 264,
    KEPT_SLOTS =
        COPIES * KS < 64 ? COPIES * KS : 64, // what a block keeps of slots and tiles in shared memory
    KEPT_TILES = TILES < 64 ? int(TILES) : 64
};

// The nearest centroid so far of a point that is resolved.
struct km_nearest {
    double distance;
    int j;
};

__device__ __forceinline__ km_nearest km_nearer(const km_nearest &a, const km_nearest &b) {
    return b.distance < a.distance || (b.distance == a.distance && b.j < a.j) ? b : a;
}

static __device__ __forceinline__ unsigned km_shared_address(const void *at) {
    return (unsigned)__cvta_generic_to_shared(at);
}

// Begins to copy 4, 8 or 16 bytes through the first cache; where not `valid`, zeros.
template <int BYTES>
static __device__ __forceinline__ void km_copy_cached_if(unsigned to, const void *from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(to), "l"(from), "n"(BYTES),
                 "r"(valid ? BYTES : 0)
                 : "memory");
}

static __device__ __forceinline__ void km_copy_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Copies BYTES to shared memory in the background; zeros where `valid` is 0.
template <int BYTES> __device__ __forceinline__ void km_copy(void *to, const void *from, int valid) {
    km_copy_cached_if<BYTES>(km_shared_address(to), from, valid);
}

// Waits for the copies of this thread.
__device__ __forceinline__ void km_await_copies() {
    km_copy_wait_all();
}

// The slot of a tile's first row, -1 where none of its slots is active; those of the first tiles are in shared memory.
__device__ __forceinline__ int km_tile_slot(const int *kept, const km_workspace &workspace, int tile) {
    return tile < KEPT_TILES ? kept[tile] : workspace.tile_slots[tile];
}

// The next tile from `tile` on with an active slot.
__device__ __forceinline__ int km_next_tile(const int *kept, const km_workspace &workspace, int tile,
                                            int end) {
    while (tile < end && km_tile_slot(kept, workspace, tile) < 0) tile++;
    return tile;
}

// The best two scores of a point so far.
struct km_best_two {
    km_real best, second;
    int j; // the centroid of the best; in a loop over tiles what leads to it
};

// Scores by tensor cores. Points and centroids are scaled by a power of two and rounded to half precision; what that
// loses is known for each of them, so that km_tiled_resolve sees every centroid that may be the nearest.

enum {
    SKEW = 8,       // numbers between rows in shared memory, so that eight rows lie in different banks
    ROUND_AHEAD = 2 // pieces of points that a thread reads before it rounds them
};

// What the threads of a block share.
struct __align__(16) km_block {
    km_table_number x[POINTS][WIDTH + SKEW];
    km_table_number table[2][TILE][FEATURES + SKEW];
    float half_squares[2][TILE];
    long long points[POINTS];
    km_workspace workspace;
    km_slot_bounds slots[KEPT_SLOTS];
    int tile_slots[KEPT_TILES];
    // Of ambiguous points.
    float expected[POINTS];
    unsigned pairs[WARPS][64];
};

// The row of a thread's r-th point in its warp, and of its c-th centroid in the warp's share of a tile.
__device__ __forceinline__ int km_row(int r) {
    return r / 2 * 16 + r % 2 * 8 + threadIdx.x % 32 / 4;
}

__device__ __forceinline__ int km_column(int c) {
    return c / 2 * 8 + threadIdx.x % 4 * 2 + c % 2;
}

// The block's points, rounded.
__device__ __forceinline__ void km_round_points(km_block &block, const km_pass_args &args, float scale) {
    constexpr int NUMBERS = PIECE / 4, PIECES = WIDTH / NUMBERS;
#pragma unroll ROUND_AHEAD
    for (int at = threadIdx.x; at < POINTS * PIECES; at += BLOCK) {
        const int p = at / PIECES, f = at % PIECES * NUMBERS;
        km_piece numbers = {};
        if (f < D) numbers = *(const km_piece *)((const float *)args.points + block.points[p] * D + f);
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) block.x[p][f + i] = km_half_of(numbers.at[i] * scale);
    }
}

// Begins to copy features `chunk` of a tile of the table.
__device__ __forceinline__ void km_fetch(km_block &block, int stage, int tile, int chunk, int side) {
    constexpr int PIECES = FEATURES / 8;
    const km_table_number *from = block.workspace.table + (long long)tile * TILE * WIDTH + chunk * FEATURES;
#pragma unroll 1
    for (int at = threadIdx.x; at < TILE * PIECES; at += BLOCK) {
        const int row = at / PIECES, f = at % PIECES * 8;
        km_copy<16>(&block.table[stage][row][f], from + (long long)row * WIDTH + f, 1);
    }
    if (chunk == 0 && threadIdx.x < TILE / 4)
        km_copy<16>(&block.half_squares[side][threadIdx.x * 4],
                    block.workspace.half_squares + (long long)tile * TILE + threadIdx.x * 4, 1);
}

// Products of a warp: a has 16 rows, b 8 columns, `sums` and `start` are 16 x 8. Lane 4 g + t has of a rows g and
// g + 8, of b column g, of sums rows g and g + 8, columns 2 t and 2 t + 1.

// sums = a b + start: 16 products of halves each, added in float.
static __device__ __forceinline__ void km_mma_f16(float *sums, const unsigned *a, const unsigned *b,
                                                  const float *start) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(start[0]), "f"(start[1]),
          "f"(start[2]), "f"(start[3]));
}

// Four 8 x 8 matrices of halves as operands of products; lane l names row l % 8 of matrix l / 8, by its address in
// shared memory.
static __device__ __forceinline__ void km_ldmatrix_x4(unsigned *matrices, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(row));
}

// A 16 x 8 tile of scores += 16 points x 8 centroids, 16 features: the thread's rows r and r + 1, columns c and c + 1.
__device__ __forceinline__ void km_multiply(float (&score)[ROWS][COLUMNS], int r, int c,
                                            const unsigned (&x)[4], const unsigned *centroids) {
    float sums[4] = {score[r][c], score[r][c + 1], score[r + 1][c], score[r + 1][c + 1]};
    km_mma_f16(sums, x, centroids, sums);
    score[r][c] = sums[0];
    score[r][c + 1] = sums[1];
    score[r + 1][c] = sums[2];
    score[r + 1][c + 1] = sums[3];
}

// Scores += those of a chunk of the features.
__device__ __forceinline__ void km_add_products(float (&score)[ROWS][COLUMNS], const km_block &block,
                                                int stage, int chunk) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const km_table_number *x =
        &block.x[warp % POINT_WARPS * WARP_POINTS + lane % 16][chunk * FEATURES + lane / 16 * 8];
    const km_table_number *c =
        &block.table[stage][warp / POINT_WARPS * WARP_CLUSTERS + lane / 16 * 8 + lane % 8][lane / 8 % 2 * 8];
#pragma unroll 2
    for (int f = 0; f < FEATURES; f += 16) {
        unsigned points[ROWS / 2][4];
        KM_UNROLL_FOR (int r = 0; r < ROWS / 2; r++)
            km_ldmatrix_x4(points[r], km_shared_address(x + r * 16 * (WIDTH + SKEW) + f));
        KM_UNROLL_FOR (int j = 0; j < WARP_CLUSTERS; j += 16) {
            unsigned centroids[4];
            km_ldmatrix_x4(centroids, km_shared_address(c + j * (FEATURES + SKEW) + f));
            KM_UNROLL_FOR (int r = 0; r < ROWS / 2; r++) {
                km_multiply(score, 2 * r, j / 4, points[r], centroids);
                km_multiply(score, 2 * r, j / 4 + 2, points[r], centroids + 2);
            }
        }
    }
}

// The scores of the block's points, tile after tile of the table from `tile` to `end`, but for tiles without an
// active slot. The next piece of the table is copied while one is worked on.
template <typename Each>
__device__ __forceinline__ void km_walk(km_block &block, const km_pass_args &args, int tile, int end,
                                        Each each) {
    const float scale = *block.workspace.scale, factor = 1 / (scale * scale);
    const float *half_squares = block.half_squares[0] + threadIdx.x / 32 / POINT_WARPS * WARP_CLUSTERS;
    int stage = 0, side = 0;
    tile = km_next_tile(block.tile_slots, block.workspace, tile, end);
    if (tile < end) km_fetch(block, stage, tile, 0, side);
    km_round_points(block, args, scale);
    for (int next; tile < end; tile = next, side ^= 1) {
        float score[ROWS][COLUMNS] = {};
        next = km_next_tile(block.tile_slots, block.workspace, tile + 1, end);
        for (int chunk = 0; chunk < CHUNKS; chunk++, stage ^= 1) {
            km_await_copies();
            __syncthreads();
            if (chunk + 1 < CHUNKS)
                km_fetch(block, stage ^ 1, tile, chunk + 1, side);
            else if (next < end)
                km_fetch(block, stage ^ 1, next, 0, side ^ 1);
            km_add_products(score, block, stage, chunk);
        }
        KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++) {
            const float half_square = half_squares[side * TILE + km_column(c)];
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++) score[r][c] = fmaf(score[r][c], factor, -half_square);
        }
        each(tile, score);
    }
}

// What is known of a slot; that of the first slots is in shared memory.
__device__ __forceinline__ km_slot_bounds km_bounds_of(const km_block &block, int slot) {
    return slot < KEPT_SLOTS ? block.slots[slot] : block.workspace.slots[slot];
}

// Writes a label of a slot where `mine`, and lists the point where another centroid may be the nearest.
__device__ __forceinline__ void km_write_label(const km_workspace &workspace, long long n, int slot,
                                               long long i, bool mine, const km_best_two &found,
                                               km_real margin) {
    if (mine) workspace.labels[slot * workspace.stride + i] = (km_label)found.j;
    const unsigned lane = threadIdx.x % 32;
    const bool ambiguous = mine && !(found.best - found.second > margin);
    const unsigned lanes = __ballot_sync(0xffffffffu, ambiguous);
    if (!lanes) return;
    unsigned at = 0;
    if (lane == 0) at = atomicAdd(&workspace.slots[slot].ambiguous, (unsigned)__popc(lanes));
    at = __shfl_sync(0xffffffffu, at, 0) + __popc(lanes & ((1u << lane) - 1));
    if (ambiguous) workspace.lists[slot * n + at] = (unsigned)i;
}

// Begins a block: what it keeps in shared memory.
__device__ __forceinline__ void km_begin_block(km_block &block, const km_pass_args &args) {
    if (threadIdx.x == 0) block.workspace = km_workspace_of(args);
    const km_workspace workspace = km_workspace_of(args);
    for (int slot = threadIdx.x; slot < KEPT_SLOTS; slot += BLOCK) block.slots[slot] = workspace.slots[slot];
    for (int tile = threadIdx.x; tile < KEPT_TILES; tile += BLOCK)
        block.tile_slots[tile] = workspace.tile_slots[tile];
    __syncthreads();
}

// Begins a tile of points: which they are.
__device__ __forceinline__ void km_begin_points(km_block &block, const unsigned *list, long long first,
                                                long long count) {
    __syncthreads(); // the tile before is done with
    for (int p = threadIdx.x; p < POINTS; p += BLOCK) {
        const long long at = first + p < count ? first + p : count - 1;
        block.points[p] = list ? list[at] : at;
    }
    __syncthreads();
}

// By value: a choice between places would keep both in memory.
__device__ __forceinline__ km_best_two km_choose(bool first, km_best_two a, km_best_two b) {
    a.best = first ? a.best : b.best;
    a.second = first ? a.second : b.second;
    a.j = first ? a.j : b.j;
    return a;
}

__device__ __forceinline__ km_best_two km_better(const km_best_two &a, const km_best_two &b) {
    const bool first = a.best > b.best || (a.best == b.best && a.j < b.j);
    km_best_two both = km_choose(first, a, b);
    const km_real second = a.second > b.second ? a.second : b.second, loser = first ? b.best : a.best;
    both.second = second > loser ? second : loser;
    return both;
}

__device__ __forceinline__ km_best_two km_exchange(const km_best_two &given, int width) {
    km_best_two got;
    got.best = __shfl_xor_sync(0xffffffffu, given.best, width);
    got.second = __shfl_xor_sync(0xffffffffu, given.second, width);
    got.j = __shfl_xor_sync(0xffffffffu, given.j, width);
    return got;
}

// Brings the rows of SHARE lanes together: a lane is left with row 0 of its own, which was row lane % SHARE / (SHARE /
// ROWS).
template <int COUNT, int WIDTH_OF> __device__ __forceinline__ void km_join_lanes(km_best_two *rows) {
    if (COUNT > 1) {
        const bool upper = threadIdx.x & WIDTH_OF;
        KM_UNROLL_FOR (int r = 0; r < COUNT / 2; r++) {
            const km_best_two kept = km_choose(upper, rows[r + COUNT / 2], rows[r]);
            const km_best_two given = km_choose(upper, rows[r], rows[r + COUNT / 2]);
            rows[r] = km_better(kept, km_exchange(given, WIDTH_OF));
        }
    } else {
        rows[0] = km_better(rows[0], km_exchange(rows[0], WIDTH_OF));
    }
    if constexpr (WIDTH_OF > 1) km_join_lanes<(COUNT > 1 ? COUNT / 2 : 1), WIDTH_OF / 2>(rows);
}

// Labels of the block's points for one slot.
__device__ __forceinline__ void km_end_slot(km_block &block, const km_pass_args &args, const km_place &place,
                                            const km_best_two *state, long long first) {
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    km_best_two rows[ROWS];
    KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
        const int column = km_column(__float_as_uint(state[r].best) & (COLUMNS - 1));
        const int j = (state[r].j - place.begin) * TILE + warp / POINT_WARPS * WARP_CLUSTERS + column;
        rows[r] = {state[r].best, state[r].second, j};
    }
    km_join_lanes<ROWS, SHARE / 2>(rows);
    const int local = warp % POINT_WARPS * WARP_POINTS + km_row(lane % SHARE / (SHARE / ROWS));
    bool mine = lane % (SHARE / ROWS) == 0;
    const long long i = first + local;
    mine = mine && i < args.n;
    const km_norms point = km_norms_of(block.workspace, mine ? i : 0);
    km_write_label(block.workspace, args.n, place.slot, i, mine, rows[0],
                   km_margin(km_fine(block.workspace), km_bounds_of(block, place.slot), point, rows[0].best));
}

// Labels of all active slots; ambiguous points are listed.
extern "C" __global__ void __launch_bounds__(BLOCK, 2)
    km_tiled_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop) return;
    km_begin_block(block, args);
    for (long long first = blockIdx.x * (long long)POINTS; first < args.n;
         first += (long long)gridDim.x * POINTS) {
        km_begin_points(block, nullptr, first, args.n);
        km_best_two state[ROWS];
        km_place place = km_place_of(0);
        km_walk(block, args, 0, TILES, [&](int tile, const km_real(&score)[ROWS][COLUMNS]) {
            if (tile < place.begin || tile >= place.end)
                place = km_place_of(km_tile_slot(block.tile_slots, block.workspace, tile));
            // The last bits of a score give way to its column.
            float before[ROWS];
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
                if (tile == place.begin) state[r] = {-FAR, -FAR, 0};
                before[r] = state[r].best;
            }
            KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++)
                KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
                    const float key = __uint_as_float((__float_as_uint(score[r][c]) & ~(COLUMNS - 1u)) | c);
                    state[r].second = fmaxf(state[r].second, fminf(state[r].best, key));
                    state[r].best = fmaxf(state[r].best, key);
                }
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++)
                if (state[r].best != before[r]) state[r].j = tile;
            if (tile + 1 == place.end) km_end_slot(block, args, place, state, first);
        });
    }
}

// The squared distance of a point and a centroid.
static __device__ double km_distance(const km_real *x, const km_real *c) {
    constexpr int NUMBERS = PIECE / sizeof(km_real);
    double square = 0;
#pragma unroll 8
    for (int f = 0; f < D; f += NUMBERS) {
        const km_piece a = *(const km_piece *)(x + f), b = *(const km_piece *)(c + f);
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) {
            const double t = (double)a.at[i] - (double)b.at[i];
            square = fma(t, t, square);
        }
    }
    return square;
}

// The score of a point and a centroid in double.
static __device__ double km_score(const km_real *x, const km_real *c) {
    constexpr int NUMBERS = PIECE / sizeof(km_real);
    double score = 0;
#pragma unroll 8
    for (int f = 0; f < D; f += NUMBERS) {
        const km_piece a = *(const km_piece *)(x + f), b = *(const km_piece *)(c + f);
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++)
            score = fma((double)b.at[i], a.at[i] - 0.5 * b.at[i], score);
    }
    return score;
}

// Looks at up to 32 pairs of a point of the warp (5 bits) and a centroid: a lane each, then every lane takes those of
// its own point.
__device__ __forceinline__ void km_compare(km_nearest &nearest, const km_block &block,
                                           const km_pass_args &args, const km_real *centroids, unsigned pair,
                                           int pairs) {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 % POINT_WARPS * WARP_POINTS;
    km_nearest found = {0, (int)(pair >> 5)};
    if (lane < pairs)
        found.distance = km_distance((const km_real *)args.points + block.points[first + pair % 32] * D,
                                     centroids + (long long)found.j * D);
    for (int from = 0; from < pairs; from++) {
        km_nearest other;
        other.distance = __shfl_sync(0xffffffffu, found.distance, from);
        const unsigned other_pair = __shfl_sync(0xffffffffu, pair, from);
        other.j = (int)(other_pair >> 5);
        if (lane == other_pair % 32) nearest = km_nearer(nearest, other);
    }
}

// Resolves the ambiguous points: of all centroids whose score may be the best, the nearest in double.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tiled_resolve(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop || !args.active[blockIdx.y]) return;
    km_begin_block(block, args);
    const km_place place = km_place_of(blockIdx.y);
    const km_real *centroids = (const km_real *)args.centroids +
                               ((long long)(place.slot / KS) * S + km_offsets[place.slot % KS]) * D;
    km_label *labels = block.workspace.labels + place.slot * block.workspace.stride;
    const unsigned listed = block.workspace.slots[place.slot].ambiguous;
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, cluster_warp = warp / POINT_WARPS;
    const int mine = warp % POINT_WARPS * WARP_POINTS + lane % WARP_POINTS; // the point of this lane
    unsigned *queue = block.pairs[warp];
    for (long long first = blockIdx.x * (long long)POINTS; first < listed;
         first += (long long)gridDim.x * POINTS) {
        km_begin_points(block, block.workspace.lists + place.slot * args.n, first, listed);
        if (cluster_warp == 0 &&
            lane < WARP_POINTS) { // the score that another centroid must reach to be looked at
            const long long i = block.points[mine];
            const double score =
                km_score((const km_real *)args.points + i * D, centroids + (long long)labels[i] * D);
            const km_real margin = km_margin(km_fine(block.workspace), km_bounds_of(block, place.slot),
                                             km_norms_of(block.workspace, i), (km_real)score);
            block.expected[mine] = (km_real)(score - 2.0 * margin);
        }
        __syncthreads();
        km_nearest nearest = {1e308, K_MAX};
        int queued = 0;
        const int tiles_begin = place.begin / TILE_GROUPS, tiles_end = (place.end - 1) / TILE_GROUPS + 1;
        km_walk(block, args, tiles_begin, tiles_end, [&](int tile, const km_real(&score)[ROWS][COLUMNS]) {
            const int j = tile * TILE + cluster_warp * WARP_CLUSTERS - place.begin * PAD;
            unsigned long long open = 0; // scores that may be the best
            KM_UNROLL_FOR (int r = 0; r < ROWS; r++) {
                const km_real expected = block.expected[mine - lane % WARP_POINTS + km_row(r)];
                KM_UNROLL_FOR (int c = 0; c < COLUMNS; c++)
                    open |= (unsigned long long)!(score[r][c] < expected) << (r * COLUMNS + c);
            }
            while (__any_sync(0xffffffffu, open != 0)) {
                const int bit = open ? __ffsll(open) - 1 : 0, candidate = j + km_column(bit % COLUMNS);
                const bool valid =
                    open && candidate >= 0 && candidate < place.k; // not another slot's, nor padding
                const unsigned lanes = __ballot_sync(0xffffffffu, valid);
                if (valid)
                    queue[queued + __popc(lanes & ((1u << lane) - 1))] =
                        candidate << 5 | km_row(bit / COLUMNS);
                open &= open - 1;
                queued += __popc(lanes);
                __syncwarp();
                if (queued < 32) continue;
                km_compare(nearest, block, args, centroids, queue[lane], 32);
                queued -= 32;
                const unsigned rest = queue[32 + lane];
                __syncwarp();
                queue[lane] = rest;
                __syncwarp();
            }
        });
        km_compare(nearest, block, args, centroids, queue[lane], queued);
        if (cluster_warp == 0 && lane < WARP_POINTS && first + mine < listed)
            labels[block.points[mine]] = (km_label)nearest.j;
    }
}

// Sums of many clusters. The points of a slot are put in the order of their labels (radix sort, stable); teams of lanes
// add segments of that order in registers, from cluster to cluster, and clusters that lie in several segments are put
// together in order.

enum {
    RANGES = 264,    // of points, a block each, while they are ordered
    DIGITS = 256,    // values of the digit by which one pass orders
    SORT_PASSES = 2, // digits of a label
    SEGMENTS = 4224, // of the order, a team each
    LANES = 32,      // lanes of a team
    NUMBERS = 4,     // features of a lane, side by side
    PARTS = 1,       // teams that share the features of a point
    SUM_AHEAD = 4    // points that a team reads before it adds them
};
constexpr long long SUMS_BYTES =
    4ll * COPIES * KS * RANGES * DIGITS + 4ll * COPIES * (S + KS) + 16ll * COPIES * KS * SEGMENTS * (D + 1);
constexpr long long SUMS_POINT_BYTES = (SORT_PASSES - 1) * 4ll * COPIES * KS;

struct km_sorting {
    unsigned *counts;    // [RANGES][DIGITS] of the slot
    unsigned *orders[2]; // points by label: of the first pass, and of the last
    unsigned *starts;    // of each cluster in the order, and the end
    double *edges;       // [SEGMENTS][2][D + 1]: sums of the segment's first run and of its last
};

__device__ __forceinline__ km_sorting km_sorting_of(const km_pass_args &args, const km_workspace &workspace,
                                                    int slot) {
    km_sorting sorting;
    char *at = workspace.sums;
    const long long row = (long long)(slot / KS) * (S + KS) + km_offsets[slot % KS] + slot % KS;
    sorting.counts = (unsigned *)km_take(&at, 4ll * COPIES * KS * RANGES * DIGITS) + slot * (RANGES * DIGITS);
    sorting.starts = (unsigned *)km_take(&at, 4ll * COPIES * (S + KS)) + row;
    sorting.edges = (double *)km_take(&at, 16ll * COPIES * KS * SEGMENTS * (D + 1));
    sorting.edges += slot * (2ll * SEGMENTS * (D + 1));
    // The lists of ambiguous points are done with.
    sorting.orders[SORT_PASSES - 1] = workspace.lists + slot * args.n;
    if (SORT_PASSES == 2) sorting.orders[0] = (unsigned *)at + slot * args.n;
    return sorting;
}

// The point at a place of the order so far, and its digit; DIGITS + lane past the end.
struct km_entry {
    unsigned point;
    int digit;
};

__device__ __forceinline__ km_entry km_entry_at(const km_pass_args &args, const km_sorting &sorting,
                                                const km_label *labels, long long at, long long end) {
    km_entry entry = {0, DIGITS + (int)threadIdx.x % 32};
    if (at >= end) return entry;
    entry.point = args.part == 0 ? (unsigned)at : sorting.orders[0][at];
    entry.digit = labels[entry.point] >> 8 * args.part & (DIGITS - 1);
    return entry;
}

// How many points of a range have each digit.
extern "C" __global__ void __launch_bounds__(DIGITS)
    km_tiled_count(const __grid_constant__ km_pass_args args) {
    __shared__ unsigned counts[DIGITS];
    const int slot = blockIdx.y;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_sorting sorting = km_sorting_of(args, workspace, slot);
    const km_label *labels = workspace.labels + slot * workspace.stride;
    const long long length = (args.n + RANGES - 1) / RANGES, first = blockIdx.x * length;
    const long long end = first + length < args.n ? first + length : args.n;
    counts[threadIdx.x] = 0;
    __syncthreads();
#pragma unroll 4
    for (long long at = first + threadIdx.x; at < end; at += DIGITS)
        atomicAdd(&counts[km_entry_at(args, sorting, labels, at, end).digit], 1u);
    __syncthreads();
    sorting.counts[blockIdx.x * DIGITS + threadIdx.x] = counts[threadIdx.x];
}

// Where the range's points of each digit go: behind those of smaller digits and of earlier ranges. A thread a digit.
static __device__ unsigned km_first_place(const km_sorting &sorting, unsigned *scan) {
    unsigned before = 0, all = 0;
#pragma unroll 8
    for (int range = 0; range < RANGES; range++) {
        const unsigned count = sorting.counts[range * DIGITS + threadIdx.x];
        before += range < (int)blockIdx.x ? count : 0;
        all += count;
    }
    scan[threadIdx.x] = all;
    for (int step = 1; step < DIGITS; step *= 2) {
        __syncthreads();
        const unsigned lower = (int)threadIdx.x >= step ? scan[threadIdx.x - step] : 0;
        __syncthreads();
        scan[threadIdx.x] += lower;
    }
    return scan[threadIdx.x] - all + before;
}

extern "C" __global__ void __launch_bounds__(DIGITS)
    km_tiled_order(const __grid_constant__ km_pass_args args) {
    __shared__ unsigned places[DIGITS], scan[DIGITS], found[DIGITS / 32][DIGITS];
    const int slot = blockIdx.y, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_sorting sorting = km_sorting_of(args, workspace, slot);
    const km_label *labels = workspace.labels + slot * workspace.stride;
    unsigned *order = sorting.orders[args.part];
    const long long length = (args.n + RANGES - 1) / RANGES, first = blockIdx.x * length;
    const long long end = first + length < args.n ? first + length : args.n;
    places[threadIdx.x] = km_first_place(sorting, scan);
    for (int w = 0; w < DIGITS / 32; w++) found[w][threadIdx.x] = 0;
    for (long long at = first; at < end; at += DIGITS) {
        const km_entry entry = km_entry_at(args, sorting, labels, at + threadIdx.x, end);
        const unsigned same = __match_any_sync(0xffffffffu, entry.digit), lower = same & ((1u << lane) - 1);
        __syncthreads(); // found is empty, places are those of these points
        if (lower == 0 && entry.digit < DIGITS) found[warp][entry.digit] = __popc(same);
        __syncthreads();
        if (entry.digit < DIGITS) {
            unsigned place = places[entry.digit] + __popc(lower);
            for (int w = 0; w < warp; w++) place += found[w][entry.digit];
            order[place] = entry.point;
        }
        __syncthreads();
        for (int w = 0; w < DIGITS / 32; w++) {
            places[threadIdx.x] += found[w][threadIdx.x];
            found[w][threadIdx.x] = 0;
        }
    }
}

// Features of a point that one lane adds.
struct __align__(NUMBERS * sizeof(km_real)) km_features {
    km_real at[NUMBERS];
};

// The sums of a run of points with the same label.
struct km_label_sums {
    double sums[NUMBERS], weight;
    long long first;
    int label;
};

// Clusters from `from` to `to` begin at a place of the order.
static __device__ void km_begin_clusters(const km_sorting &sorting, int from, int to, long long place) {
    for (int j = from; j <= to; j++) sorting.starts[j] = (unsigned)place;
}

extern "C" __global__ void __launch_bounds__(128)
    km_tiled_segments(const __grid_constant__ km_pass_args args) {
    const int slot = blockIdx.y, lane = threadIdx.x % LANES, part = blockIdx.x % PARTS;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_sorting sorting = km_sorting_of(args, workspace, slot);
    const km_label *labels = workspace.labels + slot * workspace.stride;
    const unsigned *order = sorting.orders[SORT_PASSES - 1];
    const long long segment = (blockIdx.x / PARTS) * (128 / LANES) + threadIdx.x / LANES;
    const long long length = (args.n + SEGMENTS - 1) / SEGMENTS, begin = segment * length;
    const long long end = begin + length < args.n ? begin + length : args.n;
    if (begin >= end) return;
    const int f = (part * LANES + lane) * NUMBERS, teller = part == 0 && lane == 0;
    double *totals = args.totals + ((long long)(slot / KS) * S + km_offsets[slot % KS]) * (D + 1);
    double *edges = sorting.edges + segment * 2 * (D + 1);
    const auto leave = [&](km_label_sums &run, long long place) {
        double *inner = totals + run.label * (D + 1ll);
        double *to = run.first == begin ? edges : place == end ? edges + D + 1 : inner;
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++)
            if (f + i < D) to[f + i] = run.sums[i];
        if (teller) to[D] = (double)(place - run.first);
    };
    km_label_sums run = {};
    run.first = begin;
    run.label = labels[order[begin]];
    if (teller) km_begin_clusters(sorting, begin > 0 ? labels[order[begin - 1]] + 1 : 0, run.label, begin);
    for (long long at = begin; at < end; at += SUM_AHEAD) {
        km_features x[SUM_AHEAD];
        int label[SUM_AHEAD];
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            const long long point = order[at + a < end ? at + a : at];
            label[a] = labels[point];
            x[a] = {};
            if (f < D) x[a] = *(const km_features *)((const km_real *)args.points + point * D + f);
        }
        KM_UNROLL_FOR (int a = 0; a < SUM_AHEAD; a++) {
            if (at + a >= end) break;
            if (label[a] != run.label) {
                leave(run, at + a);
                if (teller) km_begin_clusters(sorting, run.label + 1, label[a], at + a);
                run = {};
                run.first = at + a;
                run.label = label[a];
            }
            KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) run.sums[i] += x[a].at[i];
        }
    }
    leave(run, end);
    if (teller && end == args.n) km_begin_clusters(sorting, run.label + 1, km_ks[slot % KS], end);
}

// The totals of a cluster that touches the edge of a segment, a block each. What was known of the slots is wiped for
// the next pass.
extern "C" __global__ void __launch_bounds__(128) km_tiled_totals(const __grid_constant__ km_pass_args args) {
    const int j = blockIdx.x, slot = blockIdx.y;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    if (j == 0 && threadIdx.x == 0) workspace.slots[slot] = {0, 0, 0, 0};
    if (!args.active[slot] || j >= km_ks[slot % KS]) return;
    const km_sorting sorting = km_sorting_of(args, workspace, slot);
    const long long start = sorting.starts[j], end = sorting.starts[j + 1];
    const long long length = (args.n + SEGMENTS - 1) / SEGMENTS;
    const long long first = start / length, last = end > start ? (end - 1) / length : first;
    const long long begin = first * length, stretch_end = begin + length < args.n ? begin + length : args.n;
    if (end > start && start != begin && end < stretch_end) return; // its run has been its total
    const double *edges = sorting.edges + (2 * first + (start != begin)) * (D + 1);
    double *to = args.totals + ((long long)(slot / KS) * S + km_offsets[slot % KS] + j) * (D + 1);
    for (int f = threadIdx.x; f <= D; f += 128) {
        double sum = end > start ? edges[f] : 0;
#pragma unroll 8
        for (long long s = first + 1; s <= last; s++) sum += sorting.edges[2 * s * (D + 1) + f];
        to[f] = sum;
    }
}

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tiled_norms", KM_STAGE_LOAD, LABELS_GRID, 1, 256, 0, 0},
    {"km_tiled_prepare", KM_STAGE_PASS, (TILES * TILE + 7) / 8, 1, 256, 0, 0},
    {"km_tiled_labels", KM_STAGE_PASS, LABELS_GRID, 1, BLOCK, sizeof(km_block), 0},
    {"km_tiled_resolve", KM_STAGE_PASS, RESOLVE_GRID, COPIES *KS, BLOCK, sizeof(km_block), 0},
    {"km_tiled_count", KM_STAGE_PASS, RANGES, COPIES *KS, DIGITS, 0, 0},
    {"km_tiled_order", KM_STAGE_PASS, RANGES, COPIES *KS, DIGITS, 0, 0},
    {"km_tiled_count", KM_STAGE_PASS, RANGES, COPIES *KS, DIGITS, 0, 1},
    {"km_tiled_order", KM_STAGE_PASS, RANGES, COPIES *KS, DIGITS, 0, 1},
    {"km_tiled_segments", KM_STAGE_PASS, (SEGMENTS * LANES + 127) / 128 * PARTS, COPIES *KS, 128, 0, 0},
    {"km_tiled_totals", KM_STAGE_PASS, K_MAX, COPIES *KS, 128, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    TABLE_BYTES + SUMS_BYTES, TABLE_POINT_BYTES + SUMS_POINT_BYTES};
}
// ==== The steps around the pass ============================================================================
// Steps around the pass, the same for every design.
#define KM_BOTH __device__ __forceinline__
// Counter-based random numbers, for host and device: each is a function of its four words alone.
#ifndef KM_DRAWS_H
#define KM_DRAWS_H

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
KM_BOTH unsigned long long km_mix64(unsigned long long z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Uniform in [0, 1), 53 bits.
KM_BOTH double km_draw(unsigned long long seed, unsigned long long restart, unsigned long long pick,
                       unsigned long long candidate) {
    unsigned long long z = km_mix64(seed + 0x9e3779b97f4a7c15ull);
    z = km_mix64(z + restart * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull);
    z = km_mix64(z + pick * 0x9e3779b97f4a7c15ull + 0xd1b54a32d192ed03ull);
    z = km_mix64(z + candidate * 0x9e3779b97f4a7c15ull + 0x8cb92ba72f3d8dd7ull);
    return (double)(z >> 11) * (1.0 / 9007199254740992.0);
}

#endif
// A slot between two passes: what is known of it, and what becomes of it. Host and device compile this.
#ifndef KM_SLOT_H
#define KM_SLOT_H

typedef enum km_slot_phase {
    KM_SLOT_IDLE,    // No run, or its run is done and was read. Costs nothing in a pass.
    KM_SLOT_RUNNING, // Iterating.
    KM_SLOT_LAST,    // Stopped moving; one more pass evaluates the final centroids.
    KM_SLOT_EMPTY,   // Paused: clusters without points, which must be given some.
    KM_SLOT_DONE     // Evaluated: cost, weights and centroids belong together.
} km_slot_phase;

// A slot after a pass and its update. Cost is sum w |x - c|^2 of the centroids that the last pass used, computed as
// total_square + sum_j (n_j |c_j|^2 - 2 c_j . S_j) in double; for a DONE slot it is the run's inertia.
typedef struct km_slot_state {
    km_slot_phase phase;
    int converged;         // Stopped by shift or changes, not by max_iter.
    int at_limit;          // max_iter is reached: the next pass is the last.
    long long iterations;  // Updates of this run so far.
    long long empty_count; // Clusters without weight in the last pass.
    double cost;
    double shift; // Of the last update.
} km_slot_state;

// What a pass found of a slot, and its update did.
typedef struct km_slot_found {
    double cost;           // by the sums: rounding may leave it below 0
    double shift;          // of the update; a slot that evaluates its final centroids has none
    long long empty_count; // clusters without weight ...
    int waiting;           // ... some of which may be given a point
    int few_changes;       // fewer labels changed than the run goes on for
} km_slot_found;

KM_BOTH int km_slot_is_active(km_slot_phase phase) {
    return phase == KM_SLOT_RUNNING || phase == KM_SLOT_LAST;
}

// What becomes of an active slot after a pass.
KM_BOTH void km_slot_decide(km_slot_state *slot, const km_slot_found *found, double shift_max,
                            long long max_iter) {
    slot->cost = found->cost > 0.0 ? found->cost : 0.0;
    slot->empty_count = found->empty_count;
    if (slot->phase == KM_SLOT_LAST) {
        slot->phase = found->waiting ? KM_SLOT_EMPTY : KM_SLOT_DONE;
        return;
    }
    slot->shift = found->shift;
    slot->iterations += 1;
    slot->at_limit = slot->iterations >= max_iter;
    if (found->waiting) {
        slot->phase = KM_SLOT_EMPTY;
    } else if (found->shift == 0.0) {
        slot->phase = KM_SLOT_DONE; // nothing moved: this pass has evaluated the final centroids
        slot->converged = 1;
    } else {
        if (found->shift <= shift_max || found->few_changes) slot->converged = 1;
        if (slot->converged || slot->at_limit) slot->phase = KM_SLOT_LAST;
    }
}

#endif
// What the steps around the pass are given: like the arguments of the pass, the contract with the host.
#ifndef KM_STEPS_CUDA_H
#define KM_STEPS_CUDA_H

enum {
    KM_THREADS = 256,              // of a block of every step kernel, where nothing else is said
    KM_SUBCHUNK_POINTS = 2048,     // points of a unit: one block's work, one partial sum
    KM_SUBCHUNKS_PER_CHUNK = 32,   // units of a fixed block of 65,536 points
    KM_JOINED = 8,                 // numbers of blocks that a block of threads joins
    KM_CANDIDATES_MAX = 13,        // most candidates of a k-means++ pick
    KM_FINISH_THREADS = 128,       // of a block of km_finish_few ...
    KM_FINISH_FEW_MAX = 32,        // ... which takes up to so many clusters, where shared memory holds
    KM_FINISH_BYTES = 28,          // for each of them and each thread so much, ...
    KM_FINISH_WEIGHTED_BYTES = 36, // ... with weights
    KM_FINISH_SHARED_MAX = 1024,   // clusters whose finishing sums km_finish_blocks keeps in shared memory
    KM_UPDATE_NUMBERS = 2048,      // coordinates of a slot's centroids that a block of km_update moves ...
    KM_UPDATE_PARTS_MAX = 64       // ... and blocks of a slot at most
};

// Blocks of a slot in km_update: one multiprocessor alone would take long for thousands of clusters.
#define KM_UPDATE_PARTS(k_max, d)                                                                            \
    ((long long)(k_max) * (d) > (long long)KM_UPDATE_PARTS_MAX * KM_UPDATE_NUMBERS                           \
         ? KM_UPDATE_PARTS_MAX                                                                               \
         : ((long long)(k_max) * (d) + KM_UPDATE_NUMBERS - 1) / KM_UPDATE_NUMBERS)

typedef struct km_slot_record {
    km_slot_state state;
    unsigned arrived; // blocks of km_update that are through with the slot, in the launch that runs
} km_slot_record;

// Control of the loop; its head is what the pass kernels see.
typedef struct km_loop {
    km_control head;
    int news;         // slots that stopped since the host looked ...
    int stopped_min;  // ... and how many are worth its while
    unsigned updated; // slots updated in this iteration
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
    void *centroids;      // [copies][S][d] km_real
    const double *totals; // [copies][S][d + 1]
    double *weights;      // [copies][S]: of the last pass of each slot
    const unsigned char
        *given_up;               // [copies][S]: clusters for which relocation found no point; they may stay empty
    unsigned long long *changes; // per slot, or NULL
    void *workspace, *constants; // as in km_pass_args ...
    const double *box;           // ... likewise
    unsigned long long *report;  // in the host's memory: passes done, and 2^32 when the loop stops; or NULL
    double *shares;              // [slots][KM_UPDATE_PARTS][4]: what the blocks of a slot found; not used where it has one
} km_update_args;

typedef struct km_seed_args {
    const void *points;    // n x d km_real
    const double *weights; // or NULL
    long long n;
    long long units;            // of KM_SUBCHUNK_POINTS
    const double *unit_weights; // [units]
    void *nearest;              // [chains][n] km_real: squared distance to the nearest pick
    long long *picks;           // [chains][picks_count]
    long long picks_count;
    long long *candidates; // [2][chains][KM_CANDIDATES_MAX]; pick p uses half p % 2
    double *unit_sums;     // [chains][KM_CANDIDATES_MAX][units], of the last pass
    int chains;
    unsigned long long seed;
    long long first_restart; // of chain 0
} km_seed_args;

typedef struct km_assign_args {
    const void *points;
    long long first, count;  // of the points, a whole number of blocks but for the last
    const double *centroids; // rows of all models
    const void *table;       // the same in the plan's type
    const int *ks;           // per model
    const long long *rows;   // per model: its first row of centroids
    int models;
    int *labels;     // [models][count]; NULL in km_finish_few: not asked for
    double *nearest; // [models][count]: squared distance
    double *margin;  // [models][count], or NULL
} km_assign_args;

enum {
    KM_FINISH_COUNT,
    KM_FINISH_WEIGHT,
    KM_FINISH_SSE,
    KM_FINISH_DISTANCE,
    KM_FINISH_MARGIN,
    KM_FINISH_SUMS
};

#endif
// What several steps use: finite numbers, sums over a block of threads, the weight of a point.
__device__ __forceinline__ int km_is_finite(double value) {
    return fabs(value) <= 1.7976931348623157e308;
}

// Sums of COUNT values over a block of KM_THREADS threads in a fixed order, in every thread.
template <int COUNT> __device__ __forceinline__ void km_block_sums(double *values) {
    __shared__ double warps[COUNT][8];
    for (int step = 16; step > 0; step >>= 1)
        for (int i = 0; i < COUNT; i++) values[i] += __shfl_xor_sync(0xffffffffu, values[i], step);
    __syncthreads(); // the previous call's readers are done
    for (int i = 0; i < COUNT; i++) {
        if (threadIdx.x % 32 == 0) warps[i][threadIdx.x / 32] = values[i];
        values[i] = 0.0;
    }
    __syncthreads();
    for (int w = 0; w < 8; w++)
        for (int i = 0; i < COUNT; i++) values[i] += warps[i][w];
}

__device__ __forceinline__ double km_block_sum(double value) {
    km_block_sums<1>(&value);
    return value;
}

__device__ __forceinline__ double km_weight(const double *, long long) {
    return 1.0;
}
// Load: statistics of the points as they came, then the clustered space. Sums are doubles over fixed blocks of
// 65,536 points, blocks added in index order; inside a block the order is fixed by the layout of the threads.

constexpr int KM_CHUNK_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK;

// Points of few features are held in registers as a whole, others are read chunk by chunk, both by the widest loads
// that a row's place allows.
constexpr bool STEP_WHOLE = D <= 16;
constexpr int STEP_CHUNK = STEP_WHOLE ? int(D) : int(32 / sizeof(km_real));
constexpr int STEP_ALIGN = D * sizeof(km_real) % 16 == 0  ? 16
                           : D * sizeof(km_real) % 8 == 0 ? 8
                                                          : int(sizeof(km_real));
struct __align__(STEP_ALIGN) step_features {
    km_real at[STEP_CHUNK];
};

// Features f ... of a row; zeros behind the last.
__device__ __forceinline__ void step_load(km_real *x, const km_real *row, int f) {
    if constexpr (D % STEP_CHUNK == 0) {
        const step_features features = *(const step_features *)(row + f);
#pragma unroll
        for (int g = 0; g < STEP_CHUNK; g++) x[g] = features.at[g];
    } else {
#pragma unroll
        for (int g = 0; g < STEP_CHUNK; g++) x[g] = f + g < D ? row[f + g] : (km_real)0;
    }
}

// Blocks of a multiprocessor: said, or the compiler aims at more of them, and spills. Rows that are held as a whole may
// be long, and NVRTC 13.5 needs more than 64 registers for two of 32 bytes.
template <typename Raw>
constexpr int LOAD_BLOCKS = !STEP_WHOLE || D * sizeof(Raw) <= 16 ? 4
                            : D * sizeof(Raw) <= 64              ? 3
                                                                 : 2;

constexpr int LOAD_FEATURES = int(D) < int(KM_THREADS) ? int(D) : int(KM_THREADS);
constexpr int LOAD_ROWS = KM_THREADS / LOAD_FEATURES;

// One block of points and up to 256 features: partial[block][4][D] = sums of w (x - middle) and of w (x - middle)^2,
// smallest, largest value. *bad becomes the lowest index i * D + f of a value that is no finite number.
template <typename Raw>
static __device__ void load_sums(const Raw *raw, const double *weights, long long n, const double *middles,
                                 double *partial, unsigned long long *bad) {
    __shared__ double sums[KM_THREADS], squares[KM_THREADS], lows[KM_THREADS], highs[KM_THREADS];
    const int column = threadIdx.x % LOAD_FEATURES, row = threadIdx.x / LOAD_FEATURES;
    const int f = blockIdx.y * LOAD_FEATURES + column;
    const long long first = blockIdx.x * (long long)KM_CHUNK_POINTS;
    const long long end = first + KM_CHUNK_POINTS < n ? first + KM_CHUNK_POINTS : n;
    double sum = 0.0, square = 0.0, low = 1.7976931348623157e308, high = -1.7976931348623157e308;
    unsigned long long bad_here = ~0ull;
    if (row < LOAD_ROWS && f < D) {
        const double middle = middles[f];
#pragma unroll 8
        for (long long i = first + row; i < end; i += LOAD_ROWS) {
            const double x = raw[i * D + f];
            if (!km_is_finite(x) && bad_here == ~0ull) bad_here = i * D + f;
            const double away = __dsub_rn(x, middle), weighted = __dmul_rn(km_weight(weights, i), away);
            sum = __dadd_rn(sum, weighted);
            square = __fma_rn(weighted, away, square);
            low = x < low ? x : low;
            high = x > high ? x : high;
        }
    }
    if (bad_here != ~0ull) atomicMin(bad, bad_here);
    sums[threadIdx.x] = sum;
    squares[threadIdx.x] = square;
    lows[threadIdx.x] = low;
    highs[threadIdx.x] = high;
    __syncthreads();
    if (row == 0 && f < D) {
        for (int r = 1; r < LOAD_ROWS; r++) {
            const int other = r * LOAD_FEATURES + column;
            sum = __dadd_rn(sum, sums[other]);
            square = __dadd_rn(square, squares[other]);
            low = lows[other] < low ? lows[other] : low;
            high = highs[other] > high ? highs[other] : high;
        }
        double *out = partial + blockIdx.x * 4ll * D;
        out[f] = sum;
        out[D + f] = square;
        out[2 * D + f] = low;
        out[3 * D + f] = high;
    }
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<float>)
    km_load_sums_f32(const float *raw, const double *weights, long long n, const double *middles,
                     double *partial, unsigned long long *bad) {
    load_sums(raw, weights, n, middles, partial, bad);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<double>)
    km_load_sums_f64(const double *raw, const double *weights, long long n, const double *middles,
                     double *partial, unsigned long long *bad) {
    load_sums(raw, weights, n, middles, partial, bad);
}

// Joins the tables of blocks, `numbers` in each, in index order: adds them (kind 0), or takes the smallest (1) or
// largest (2). Up to KM_JOINED numbers a block of threads, from `column` to before `end`; it brings a piece of many
// tables to shared memory at a time; the first threads have a number each, which begins as `number`.
__device__ __forceinline__ double step_join(double number, const double *partial, long long blocks,
                                            long long numbers, long long column, long long end, int kind) {
    constexpr int TABLES = KM_THREADS; // at a time
    __shared__ double piece[KM_JOINED][TABLES + 1];
    for (long long first = 0; first < blocks; first += TABLES) {
        const int here = (int)(blocks - first < TABLES ? blocks - first : TABLES);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < KM_JOINED; i++) {
            const int at = i * KM_THREADS + threadIdx.x, table = at / KM_JOINED, c = at % KM_JOINED;
            if (table < here && column + c < end)
                piece[c][table] = partial[(first + table) * numbers + column + c];
        }
        __syncthreads();
        if (threadIdx.x >= KM_JOINED) continue;
#pragma unroll 8
        for (int table = 0; table < here; table++) {
            const double other = piece[threadIdx.x][table];
            number = kind == 0   ? __dadd_rn(number, other)
                     : kind == 1 ? fmin(number, other)
                                 : fmax(number, other);
        }
    }
    return number;
}

// Joins the blocks' statistics: out[4][D]. A block of threads joins numbers of one kind.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_reduce(const double *partial, long long blocks, double *out) {
    constexpr int EACH = (D + KM_JOINED - 1) / KM_JOINED;
    const int table = blockIdx.x / EACH, kind = table < 2 ? 0 : table - 1, end = (table + 1) * D;
    const int column = table * D + blockIdx.x % EACH * KM_JOINED, at = column + threadIdx.x;
    const double none = kind == 0 ? 0.0 : kind == 1 ? 1.7976931348623157e308 : -1.7976931348623157e308;
    const double number = step_join(none, partial, blocks, 4 * D, column, end, kind);
    if (threadIdx.x < KM_JOINED && at < end) out[at] = number;
}

// (x - centre) * factor in double, rounded once to the plan's type.
__device__ __forceinline__ km_real load_value(double x, int f, const double *centre, const double *factor) {
    return (km_real)__dmul_rn(__dsub_rn(x, __ldg(centre + f)), __ldg(factor + f));
}

template <typename Raw>
struct __align__(D * sizeof(Raw) % 16 == 0  ? 16
                 : D * sizeof(Raw) % 8 == 0 ? 8
                                            : sizeof(Raw)) load_row {
    Raw at[STEP_CHUNK];
};

// Rows i, i + KM_THREADS, ... of few features, held in registers as a whole; returns their sum of w |x|^2. *bad becomes
// the lowest index i * D + f of a value that is no finite number any more.
template <typename Raw>
__device__ __forceinline__ double load_rows(const Raw *raw, const double *weights, long long n,
                                            const double *centre, const double *factor, km_real *points,
                                            unsigned long long *bad, long long i) {
    constexpr int ROWS = D * sizeof(Raw) <= 16 ? 4 : D * sizeof(Raw) <= 32 ? 2 : 1; // on their way at a time
    double sum = 0.0;
#pragma unroll 1
    for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS; p += ROWS, i += ROWS * KM_THREADS) {
        load_row<Raw> rows[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (i + r * KM_THREADS < n) rows[r] = *(const load_row<Raw> *)(raw + (i + r * KM_THREADS) * D);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const long long row = i + r * KM_THREADS;
            if (row >= n) break;
            step_features moved;
            double square = 0.0;
            bool finite = true;
#pragma unroll
            for (int f = 0; f < D; f++) {
                const double x = moved.at[f % STEP_CHUNK] =
                    load_value(rows[r].at[f % STEP_CHUNK], f, centre, factor);
                finite = finite & km_is_finite(x);
                square = __fma_rn(x, x, square);
            }
            *(step_features *)(points + row * D) = moved;
            sum = __dadd_rn(sum, __dmul_rn(km_weight(weights, row), square));
            if (finite) continue;
#pragma unroll 1
            for (int f = D - 1; f >= 0; f--)
                if (!km_is_finite(points[row * D + f])) atomicMin(bad, (unsigned long long)(row * D + f));
        }
    }
    return sum;
}

// One unit of points to the clustered space, in place where the types agree, and its sum of w |x|^2.
template <typename Raw>
static __device__ void load_transform(const Raw *raw, const double *weights, long long n,
                                      const double *centre, const double *factor, km_real *points,
                                      unsigned long long *bad, double *unit_squares) {
    const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS;
    double sum = 0.0;
    if constexpr (STEP_WHOLE) {
        sum = load_rows(raw, weights, n, centre, factor, points, bad, first + threadIdx.x);
    } else {
        const long long end = (first + KM_SUBCHUNK_POINTS < n ? first + KM_SUBCHUNK_POINTS : n) * D;
        for (long long at = first * D + threadIdx.x; at < end; at += KM_THREADS) {
            points[at] = load_value(raw[at], (int)(at % D), centre, factor);
            if (!km_is_finite(points[at])) atomicMin(bad, (unsigned long long)at);
        }
        __syncthreads();
        for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS; p++) {
            const long long i = first + p * KM_THREADS + threadIdx.x;
            if (i >= n) break;
            double square = 0.0;
            for (int f = 0; f < D; f++) {
                const double x = points[i * D + f];
                square = __fma_rn(x, x, square);
            }
            sum = __dadd_rn(sum, __dmul_rn(km_weight(weights, i), square));
        }
    }
    sum = km_block_sum(sum);
    if (threadIdx.x == 0) unit_squares[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<float>)
    km_load_transform_f32(const float *raw, const double *weights, long long n, const double *centre,
                          const double *factor, km_real *points, unsigned long long *bad,
                          double *unit_squares) {
    load_transform(raw, weights, n, centre, factor, points, bad, unit_squares);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<double>)
    km_load_transform_f64(const double *raw, const double *weights, long long n, const double *centre,
                          const double *factor, km_real *points, unsigned long long *bad,
                          double *unit_squares) {
    load_transform(raw, weights, n, centre, factor, points, bad, unit_squares);
}

// The weight of units: how many points they have.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_weights(const double *, long long n, km_real *, double *unit_weights) {
    const long long unit = blockIdx.x * (long long)KM_THREADS + threadIdx.x,
                    left = n - unit * KM_SUBCHUNK_POINTS;
    if (left > 0) unit_weights[unit] = left < KM_SUBCHUNK_POINTS ? (double)left : (double)KM_SUBCHUNK_POINTS;
}

// Adds units to blocks and blocks to one number, in index order. One block of threads.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_add(const double *unit_sums, long long units, double *out) {
    __shared__ double blocks[KM_THREADS];
    const long long chunks_count = (units + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    double total = 0.0;
    for (long long first = 0; first < chunks_count; first += KM_THREADS) {
        const long long unit = (first + threadIdx.x) * KM_SUBCHUNKS_PER_CHUNK;
        double sum = 0.0;
        if (unit + KM_SUBCHUNKS_PER_CHUNK <= units) {
            double2 pairs[KM_SUBCHUNKS_PER_CHUNK / 2]; // all on their way at a time
#pragma unroll
            for (int u = 0; u < KM_SUBCHUNKS_PER_CHUNK / 2; u++)
                pairs[u] = ((const double2 *)(unit_sums + unit))[u];
#pragma unroll
            for (int u = 0; u < KM_SUBCHUNKS_PER_CHUNK / 2; u++)
                sum = __dadd_rn(__dadd_rn(sum, pairs[u].x), pairs[u].y);
        } else {
            for (int u = 0; unit + u < units; u++) sum = __dadd_rn(sum, unit_sums[unit + u]);
        }
        blocks[threadIdx.x] = sum;
        __syncthreads();
        const long long left = chunks_count - first;
        if (threadIdx.x == 0)
#pragma unroll 8
            for (int b = 0; b < KM_THREADS && b < left; b++) total = __dadd_rn(total, blocks[b]);
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = total;
}

// Rows of the clustered space, as doubles.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_rows(const km_real *points, const long long *indices, long long count, double *out) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (at < count * D) out[at] = points[indices[at / D] * D + at % D];
}
// Seeding: greedy k-means++, all chains in the same passes, as runtime/seed.h states it. For each pick two kernels:
// km_seed_draw closes the pick before (the candidate with the smallest cost wins) and draws the candidates of this
// one; km_seed_pass reads the points once, brings each chain's distances up to date and sums what every candidate
// would leave. Nothing goes through the host.

// Candidates of a chain that are a task: all of a pick, up to K = 20. A block reads a few points and serves several
// tasks with them. The rows of their candidates are kept in shared memory where they fit; one is fetched for several
// points.
constexpr int SEED_CANDIDATES = 4, SEED_ROWS = SEED_CANDIDATES + 1, SEED_TASKS = 4;
constexpr bool SEED_STAGED = SEED_TASKS * SEED_ROWS * D * sizeof(km_real) <= 8192;
constexpr int SEED_POINTS = KM_SUBCHUNK_POINTS / KM_THREADS; // of a thread, where one draws
constexpr int SEED_STRIDE = KM_THREADS / 2;                  // half of a block's threads share a unit
constexpr int SEED_GROUP_BYTES = D * sizeof(km_real);
constexpr int SEED_GROUP = SEED_GROUP_BYTES <= 16   ? 8
                           : SEED_GROUP_BYTES <= 32 ? 4
                           : SEED_GROUP_BYTES <= 64 ? 2
                                                    : 1;
// Blocks of a multiprocessor: a third one hides memory, where registers allow it.
constexpr int SEED_BLOCKS = sizeof(km_real) == 4 && D <= 4 && !WEIGHTED ? 3 : 2;
// One conversion, of the number that fits: NVRTC 13.5 refuses one that does not, even in a branch that is left out.
constexpr km_real SEED_FAR = (km_real)(sizeof(km_real) == 4 ? 3.4028234e38 : 1.7976931348623157e308);

__device__ __forceinline__ km_real seed_distance(const km_real *x, const km_real *y) {
    km_real sum = 0;
#pragma unroll 4 // only the points of one unit come here: short code, which compiles sooner
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - y[f];
        sum = fma(t, t, sum);
    }
    return sum;
}

// Sums of blocks of 65,536 points from those of their units: a warp takes a block at a time. Shared memory.
__device__ __forceinline__ void seed_block_sums(double *sums, const double *unit_sums, long long units,
                                                long long first, int count) {
    constexpr int WARPS = KM_THREADS / 32, TOGETHER = 16; // loads on their way at a time
    const int lane = threadIdx.x % 32;
    for (int first_b = threadIdx.x / 32; first_b < count; first_b += TOGETHER * WARPS) {
        double part[TOGETHER];
#pragma unroll
        for (int t = 0; t < TOGETHER; t++) {
            const long long unit = (first + first_b + t * WARPS) * KM_SUBCHUNKS_PER_CHUNK + lane;
            part[t] = unit < units ? unit_sums[unit] : 0.0;
        }
#pragma unroll
        for (int t = 0; t < TOGETHER; t++) {
            for (int step = 16; step > 0; step >>= 1) part[t] += __shfl_xor_sync(0xffffffffu, part[t], step);
            if (lane == 0 && first_b + t * WARPS < count) sums[first_b + t * WARPS] = part[t];
        }
    }
}
static_assert(KM_SUBCHUNKS_PER_CHUNK == 32, "a lane a unit");

// Of the sums that the candidates of a pick left, the totals; `totals` is shared memory.
static __device__ void seed_totals(double *totals, const double *unit_sums, long long units, int candidates) {
    __shared__ double sums[KM_CANDIDATES_MAX][KM_THREADS];
    const long long blocks = (units + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    double total = 0.0;
    for (long long first = 0; first < blocks; first += KM_THREADS) {
        const int here = (int)(blocks - first < KM_THREADS ? blocks - first : KM_THREADS);
        for (int c = 0; c < candidates; c++)
            seed_block_sums(sums[c], unit_sums + c * units, units, first, here);
        __syncthreads();
        if (threadIdx.x < candidates)
#pragma unroll 8
            for (int b = 0; b < here; b++) total = __dadd_rn(total, sums[threadIdx.x][b]);
        __syncthreads();
    }
    if (threadIdx.x < candidates) totals[threadIdx.x] = total;
    __syncthreads();
}

// Where a running sum over parts first exceeds the target. When rounding lets none do so, the last part that is
// not 0 is taken. In shared memory.
struct seed_search {
    double target, running, before; // `before`: the running sum before the part that was taken
    long long taken;
    int found;
    int first, last; // of the parts in hand: the first that exceeds the target, the last that is not 0
    double parts[KM_THREADS], sums[KM_THREADS];
};

// Goes on with search->parts[0 ... count), the first of which is part `index` of all. Only the running sum is made by
// one thread.
static __device__ void seed_search_parts(seed_search *search, int count, long long index) {
    const int t = threadIdx.x;
    __syncthreads();
    if (t == 0) {
        double sum = search->running;
#pragma unroll 8
        for (int b = 0; b < count; b++) search->sums[b] = sum = __dadd_rn(sum, search->parts[b]);
        search->first = count;
        search->last = -1;
    }
    __syncthreads();
    if (t < count && search->parts[t] > 0.0) {
        if (search->sums[t] > search->target) atomicMin(&search->first, t);
        atomicMax(&search->last, t);
    }
    __syncthreads();
    if (t == 0) {
        search->found = search->first < count;
        const int taken = search->found ? search->first : search->last;
        if (taken >= 0) {
            search->taken = index + taken;
            search->before = taken > 0 ? search->sums[taken - 1] : search->running;
        }
        search->running = search->sums[count - 1];
    }
    __syncthreads();
}

// What a point weighs in the draw of `pick`, given the pick before and the distances before that.
__device__ __forceinline__ double seed_value(const km_seed_args *args, const km_real *nearest, long long i,
                                             long long pick, const km_real *last) {
    const double weight = km_weight(args->weights, i);
    if (pick == 0) return weight;
    km_real square = seed_distance((const km_real *)args->points + i * D, last);
    if (pick > 1) square = nearest[i] < square ? nearest[i] : square;
    return __dmul_rn(weight, square);
}

// Walks down: blocks, units of the block, threads of the unit, points of the thread.
static __device__ long long seed_find(const km_seed_args *args, const km_real *nearest,
                                      const double *unit_sums, double target, long long pick,
                                      const km_real *last) {
    __shared__ seed_search search;
    const long long units = args->units,
                    blocks = (units + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    if (threadIdx.x == 0) {
        search.target = target;
        search.running = search.before = 0.0;
        search.taken = 0;
        search.found = 0;
    }
    __syncthreads();
    for (long long first = 0; first < blocks && !search.found; first += KM_THREADS) {
        const int here = (int)(blocks - first < KM_THREADS ? blocks - first : KM_THREADS);
        seed_block_sums(search.parts, unit_sums, units, first, here);
        seed_search_parts(&search, here, first);
    }
    const long long begin = search.taken * KM_SUBCHUNKS_PER_CHUNK;
    const int left = (int)(units - begin < KM_SUBCHUNKS_PER_CHUNK ? units - begin : KM_SUBCHUNKS_PER_CHUNK);
    if (threadIdx.x < left) search.parts[threadIdx.x] = unit_sums[begin + threadIdx.x];
    if (threadIdx.x == 0) search.running = search.before;
    seed_search_parts(&search, left, begin);
    const long long mine = search.taken * KM_SUBCHUNK_POINTS + threadIdx.x * SEED_POINTS;
    double values[SEED_POINTS], sum = 0.0;
#pragma unroll
    for (int p = 0; p < SEED_POINTS; p++) {
        values[p] = mine + p < args->n ? seed_value(args, nearest, mine + p, pick, last) : 0.0;
        sum = __dadd_rn(sum, values[p]);
    }
    __syncthreads();
    search.parts[threadIdx.x] = sum;
    if (threadIdx.x == 0) search.running = search.before;
    seed_search_parts(&search, KM_THREADS, 0);
    const long long taken = search.taken;
    double running = search.before;
    __syncthreads();
    if (threadIdx.x == taken) {
        long long drawn = mine;
        bool found = false;
#pragma unroll
        for (int p = 0; p < SEED_POINTS; p++) {
            running = __dadd_rn(running, values[p]);
            if (!found && values[p] > 0.0) {
                drawn = mine + p;
                found = running > target;
            }
        }
        search.taken = drawn;
    }
    __syncthreads();
    return search.taken;
}

// Block (chain, candidate). candidates_before and candidates_now: of pick - 1 (0 for the first) and of this pick (0
// after the last).
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_seed_draw(const __grid_constant__ km_seed_args args, long long pick, int candidates_before,
                 int candidates_now) {
    __shared__ double totals[KM_CANDIDATES_MAX];
    const int chain = blockIdx.x, candidate = blockIdx.y;
    const km_real *points = (const km_real *)args.points;
    const double *unit_sums =
        pick == 0 ? args.unit_weights : args.unit_sums + (long long)chain * KM_CANDIDATES_MAX * args.units;
    seed_totals(totals, unit_sums, args.units, pick == 0 ? 1 : candidates_before);
    int best = 0;
    for (int c = 1; c < candidates_before; c++)
        if (totals[c] < totals[best]) best = c;
    const double total = totals[best];
    const km_real *last = points;
    if (pick > 0) {
        const long long *before =
            args.candidates + ((pick - 1) % 2 * args.chains + chain) * KM_CANDIDATES_MAX;
        last = points + before[best] * D;
        if (candidate == 0 && threadIdx.x == 0)
            args.picks[chain * args.picks_count + pick - 1] = before[best];
    }
    if (candidate >= candidates_now) return;
    const double u = km_draw(args.seed, args.first_restart + chain, pick, candidate);
    long long drawn = (long long)(u * args.n);
    if (drawn > args.n - 1) drawn = args.n - 1;
    if (total > 0.0)
        drawn = seed_find(&args, (const km_real *)args.nearest + chain * args.n,
                          unit_sums + best * args.units, u * total, pick, last);
    if (threadIdx.x == 0)
        args.candidates[(pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX + candidate] = drawn;
}

// The rows of a task: 0 the last pick, 1 + c candidate c.
struct seed_rows {
    const km_real *staged;  // in shared memory; or
    const long long *point; // in shared memory: the points that they are
};

__device__ __forceinline__ const km_real *seed_row(const km_seed_args &args, const seed_rows &rows, int c) {
    return SEED_STAGED ? rows.staged + c * D : (const km_real *)args.points + rows.point[c] * D;
}

// Some points of a thread, every SEED_STRIDE-th from here on, and the column of a chain's distances beside them.
struct seed_points {
    const km_real *x;
    const double *weights;
    km_real *nearest;
};

// Adds features f ... of the points' squared distances to row `c` of the task.
template <int POINTS>
__device__ __forceinline__ void seed_distances(km_real *square, const km_real (*x)[STEP_CHUNK],
                                               const km_seed_args &args, const seed_rows &rows, int c,
                                               int f) {
    km_real row[STEP_CHUNK];
    step_load(row, seed_row(args, rows, c), f);
#pragma unroll
    for (int g = 0; g < STEP_CHUNK; g++)
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const km_real t = x[p][g] - row[g];
            square[p] = fma(t, t, square[p]);
        }
}

template <int POINTS>
__device__ __forceinline__ void seed_load(km_real (*x)[STEP_CHUNK], const seed_points &at, int f) {
#pragma unroll
    for (int p = 0; p < POINTS; p++) step_load(x[p], at.x + p * SEED_STRIDE * D, f);
}

// The distances as the pick before left them.
template <int POINTS>
__device__ __forceinline__ void seed_known(km_real *known, const km_real *nearest, bool there) {
#pragma unroll
    for (int p = 0; p < POINTS; p++) known[p] = there ? __ldcg(nearest + p * SEED_STRIDE) : SEED_FAR;
}

// What some points would cost, added in pairs of pairs: as exact as a sum of four, one by one.
template <int POINTS>
__device__ __forceinline__ km_real seed_left(const km_real *best, const km_real *square) {
    if constexpr (POINTS == 1)
        return fmin(best[0], square[0]);
    else
        return seed_left<POINTS / 2>(best, square) +
               seed_left<POINTS / 2>(best + POINTS / 2, square + POINTS / 2);
}

// A task. Brings distances up to date with the last pick, where `update`, and adds to sums[c * KM_THREADS] what the
// points would cost with candidate c: w times the smaller of the distance to what was picked before (`best`) and to the
// candidate.
template <int POINTS>
__device__ __forceinline__ void seed_serve(double *sums, km_real *best, km_real (*x)[STEP_CHUNK],
                                           const km_seed_args &args, const seed_rows &rows,
                                           const seed_points &at, int candidates, bool update, bool first) {
    km_real square[SEED_ROWS][POINTS] = {};
    if (STEP_WHOLE && update) seed_distances<POINTS>(square[0], x, args, rows, 0, 0);
#pragma unroll 1
    for (int f = 0; f < D && !STEP_WHOLE; f += STEP_CHUNK) {
        seed_load<POINTS>(x, at, f);
#pragma unroll
        for (int c = 0; c < SEED_ROWS; c++)
            if (c == 0 ? update : c <= candidates) seed_distances<POINTS>(square[c], x, args, rows, c, f);
    }
    if (update) {
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const bool nearer = square[0][p] < best[p];
            if (nearer) best[p] = square[0][p];
            if (nearer || first) at.nearest[p * SEED_STRIDE] = best[p];
        }
    }
#pragma unroll
    for (int c = 0; c < SEED_CANDIDATES; c++) {
        if (c >= candidates) break;
        if (STEP_WHOLE) seed_distances<POINTS>(square[c + 1], x, args, rows, c + 1, 0);
        const double sum = fmin(seed_left<POINTS>(best, square[c + 1]), SEED_FAR);
        sums[c * KM_THREADS] = __dadd_rn(sums[c * KM_THREADS], sum);
    }
}

// The tasks in hand: `count` of them from a part of a chain's candidates on.
struct seed_tasks {
    const km_real *staged;
    const long long *point;
    int count, chain, part, parts, candidates; // of all parts
    long long picked;                          // how many picks there are
};

// Some points of a thread, one task after another; while one is served, what is known for the next chain is fetched.
template <int POINTS>
__device__ __forceinline__ void seed_group(double (*sums)[SEED_CANDIDATES][KM_THREADS],
                                           const km_seed_args &args, const seed_tasks &tasks,
                                           long long first) {
    km_real x[POINTS][STEP_CHUNK], best[POINTS];
    seed_points at = {(const km_real *)args.points + first * D, args.weights + first,
                      (km_real *)args.nearest + tasks.chain * args.n + first};
    if (STEP_WHOLE) seed_load<POINTS>(x, at, 0);
    seed_known<POINTS>(best, at.nearest, tasks.picked > 1);
    int left = tasks.candidates - tasks.part * SEED_CANDIDATES; // of the chain in hand
#pragma unroll 1
    for (int task = 0; task < tasks.count; task++) {
        const bool of_next = left <= SEED_CANDIDATES; // the next task is another chain's
        const seed_rows rows = {tasks.staged + task * SEED_ROWS * D, tasks.point + task * SEED_ROWS};
        km_real ahead[POINTS];
        seed_known<POINTS>(ahead, at.nearest + args.n, of_next && task + 1 < tasks.count && tasks.picked > 1);
        seed_serve<POINTS>(&sums[task][0][threadIdx.x], best, x, args, rows, at,
                           of_next ? left : int(SEED_CANDIDATES),
                           left == tasks.candidates && tasks.picked > 0, tasks.picked == 1);
        left = of_next ? tasks.candidates : left - SEED_CANDIDATES;
        if (!of_next) continue; // what is known is up to date
        at.nearest += args.n;
#pragma unroll
        for (int p = 0; p < POINTS; p++) best[p] = ahead[p];
    }
}

// Adds the threads' sums of each unit and writes them; eight threads a sum.
__device__ __forceinline__ void seed_write(const km_seed_args &args,
                                           const double (*sums)[SEED_CANDIDATES][KM_THREADS],
                                           const seed_tasks &tasks) {
    constexpr int ADDERS = 8;
    static_assert(2 * SEED_TASKS * SEED_CANDIDATES * ADDERS == KM_THREADS,
                  "a sum of each task, candidate and unit");
    const int which = threadIdx.x / ADDERS, half = which % 2, c = which / 2 % SEED_CANDIDATES;
    const int task = which / 2 / SEED_CANDIDATES, part = tasks.part + task;
    const int candidate = part % tasks.parts * SEED_CANDIDATES + c;
    const long long unit = blockIdx.x * 2ll + half;
    double sum = 0.0;
    for (int i = threadIdx.x % ADDERS; i < SEED_STRIDE; i += ADDERS)
        sum = __dadd_rn(sum, sums[task][c][half * SEED_STRIDE + i]);
    for (int step = ADDERS / 2; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % ADDERS || task >= tasks.count || candidate >= tasks.candidates || unit >= args.units)
        return;
    const long long row = (tasks.chain + part / tasks.parts) * (long long)KM_CANDIDATES_MAX + candidate;
    args.unit_sums[row * args.units + unit] = sum;
}

// Two units of points, each by half of the threads; a few tasks at a time.
extern "C" __global__ void __launch_bounds__(KM_THREADS, SEED_BLOCKS)
    km_seed_pass(const __grid_constant__ km_seed_args args, long long pick, int candidates) {
    __shared__ __align__(16) km_real staged[SEED_STAGED ? SEED_TASKS * SEED_ROWS * D : 1];
    __shared__ long long rows[SEED_TASKS * SEED_ROWS];
    __shared__ double sums[SEED_TASKS][SEED_CANDIDATES][KM_THREADS];
    const km_real *points = (const km_real *)args.points;
    const long long unit = blockIdx.x * 2ll + threadIdx.x / SEED_STRIDE;
    const int parts = (candidates + SEED_CANDIDATES - 1) / SEED_CANDIDATES, all = args.chains * parts;
    const long long first = unit * KM_SUBCHUNK_POINTS + threadIdx.x % SEED_STRIDE;
#pragma unroll 1
    for (int begin = 0; begin < all; begin += SEED_TASKS) {
        const seed_tasks tasks = {
            staged,        rows,          all - begin < SEED_TASKS ? all - begin : int(SEED_TASKS),
            begin / parts, begin % parts, parts,
            candidates,    pick};
        const auto point_of = [&](int row) { // of the tables; -1: there is none
            const int task = begin + row / SEED_ROWS, chain = task / parts, c = row % SEED_ROWS - 1;
            const int candidate = task % parts * SEED_CANDIDATES + c;
            if (c < 0) return pick > 0 ? args.picks[chain * args.picks_count + pick - 1] : -1ll;
            const long long *drawn = args.candidates + (pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX;
            return candidate < candidates ? drawn[candidate] : -1ll;
        };
        if (begin > 0) __syncthreads(); // the tables and sums of the tasks before are done with
        for (int at = threadIdx.x; at < tasks.count * SEED_ROWS * (SEED_STAGED ? int(D) : 1);
             at += KM_THREADS) {
            const long long point = point_of(SEED_STAGED ? at / D : at);
            if (SEED_STAGED && point >= 0) staged[at] = points[point * D + at % D];
            if (!SEED_STAGED) rows[at] = point;
        }
        for (int task = 0; task < tasks.count; task++)
            for (int c = 0; c < SEED_CANDIDATES; c++) sums[task][c][threadIdx.x] = 0.0;
        __syncthreads();
        constexpr int STEP = SEED_GROUP * SEED_STRIDE;
        if ((unit + 1) * KM_SUBCHUNK_POINTS <= args.n)
#pragma unroll 1
            for (int i = 0; i < KM_SUBCHUNK_POINTS; i += STEP)
                seed_group<SEED_GROUP>(sums, args, tasks, first + i);
        else
#pragma unroll 1
            for (long long i = first; i < args.n; i += SEED_STRIDE) seed_group<1>(sums, args, tasks, i);
        __syncthreads();
        seed_write(args, sums, tasks);
    }
}
// Finish: labels, distances and sums of the models in one last pass, labels bitwise as on every other backend. Few
// clusters: km_finish_few reads the points once for each model and keeps nothing of them. Many: km_assign leaves each
// point's label and distance, and km_finish_blocks adds them up, block by block in index order.
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24. Where
// the second-nearest is farther than the nearest by more than that, the nearest is certain; other points are looked at
// again in double. Squared distances are summed in double, from the stored values; distances and margins are float.

constexpr int FINISH_POINTS = D * sizeof(km_real) <= 16 ? 4 : 2; // of a thread at a time
constexpr int FINISH_ROWS = STEP_WHOLE ? 1 : 4;                  // centroids for each read of the points' features

// Nearest and second-nearest centroid of a point: squared distances in the plan's type.
struct finish_near {
    km_real nearest, second;
    int label;
};

// Of FINISH_POINTS points, x[0], x[1], ..., among the k rows of `table`. Leaves whole points in `here`.
__device__ __forceinline__ void finish_search(finish_near *near, km_real (*here)[STEP_CHUNK],
                                              const km_real *const *x, const km_real *table, int k) {
#pragma unroll
    for (int p = 0; p < FINISH_POINTS; p++) {
        near[p] = {(km_real)__int_as_float(0x7f800000), (km_real)__int_as_float(0x7f800000), 0};
        if (STEP_WHOLE) step_load(here[p], x[p], 0);
    }
#pragma unroll(STEP_WHOLE ? 4 : 1)
    for (int j = 0; j < k; j += FINISH_ROWS) {
        km_real square[FINISH_ROWS][FINISH_POINTS] = {};
        for (int f = 0; f < D; f += STEP_CHUNK) {
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++)
                if (!STEP_WHOLE) step_load(here[p], x[p], f);
#pragma unroll
            for (int r = 0; r < FINISH_ROWS; r++) {
                km_real centroid[STEP_CHUNK];
                step_load(centroid, table + (long long)(j + r < k ? j + r : j) * D, f);
#pragma unroll
                for (int g = 0; g < STEP_CHUNK; g++)
#pragma unroll
                    for (int p = 0; p < FINISH_POINTS; p++) {
                        const km_real t = here[p][g] - centroid[g];
                        square[r][p] = fma(t, t, square[r][p]);
                    }
            }
        }
#pragma unroll
        for (int r = 0; r < FINISH_ROWS; r++) {
            if (j + r >= k) break;
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++) {
                near[p].second = fmin(near[p].second, fmax(near[p].nearest, square[r][p]));
                near[p].label = square[r][p] < near[p].nearest ? j + r : near[p].label;
                near[p].nearest = fmin(near[p].nearest, square[r][p]);
            }
        }
    }
}

// What a point gives to the sums of its cluster.
struct finish_point {
    int label;
    double square, distance, margin;
};

__device__ __forceinline__ finish_point finish_of_squares(int label, double nearest, double second, int k) {
    const double distance = __dsqrt_rn(nearest), far = k > 1 ? __dsqrt_rn(second) : 0.0;
    return {label, nearest, distance, far > 0.0 ? __ddiv_rn(__dsub_rn(far, distance), far) : 0.0};
}

// `x` is in registers where points are whole: every index is known then.
template <typename Real>
__device__ __forceinline__ double finish_square(const km_real *x, const Real *centroid) {
    double square = 0.0;
#pragma unroll(STEP_WHOLE ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const double t = __dsub_rn(x[f], centroid[f]);
        square = __fma_rn(t, t, square);
    }
    return square;
}

// To a row of `table`, which holds the same values as the centroids in double but for a lone one.
__device__ __forceinline__ double finish_square_of_row(const km_real *x, const km_real *row) {
    if (!STEP_WHOLE) return finish_square(x, row);
    km_real centroid[STEP_CHUNK]; // lanes ask for different rows: one load is as dear as another
    step_load(centroid, row, 0);
    return finish_square(x, centroid);
}

// By distances in double.
__device__ __forceinline__ finish_point finish_exact(const km_real *x, const double *centroids, int k) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, second = infinity;
    int label = 0;
#pragma unroll 1
    for (int j = 0; j < k; j++) {
        const double square = finish_square(x, centroids + (long long)j * D);
        const bool nearer = square < nearest;
        second = nearer ? nearest : square < second ? square : second;
        nearest = nearer ? square : nearest;
        label = nearer ? j : label;
    }
    return finish_of_squares(label, nearest, second, k);
}

__device__ __forceinline__ float finish_root(float value) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}

// Decides what was searched.
__device__ __forceinline__ finish_point finish_decide(const finish_near &near, const km_real *x,
                                                      const double *centroids, const km_real *table, int k) {
    // Twice the bound, and what squares lose below the smallest float. Quotients of large squares are not to be
    // trusted; a lone centroid has no second: its distances are double, and it need not be a float.
    const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    if (!(fma(near.nearest, apart, lost) < near.second && near.second < largest))
        return finish_exact(x, centroids, k);
    return {near.label, finish_square_of_row(x, table + (long long)near.label * D), finish_root(near.nearest),
            1.0f - finish_root(__fdividef(near.nearest, near.second))};
}

// Sums of a cluster as km_finish_few keeps them: a column for each thread, so that nobody waits; counts apart.
enum { FINISH_SSE, FINISH_DISTANCE, FINISH_MARGIN, FINISH_NUMBERS }; // every point weighs 1
static_assert(FINISH_NUMBERS * 8 + 4 == (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES),
              "as the engine knows");

__device__ __forceinline__ void finish_add(double *sums, unsigned *counts, const finish_point &point,
                                           double weight) {
    double *column = sums + point.label * (FINISH_NUMBERS * KM_FINISH_THREADS);
    column[FINISH_SSE * KM_FINISH_THREADS] += weight * point.square;
    column[FINISH_DISTANCE * KM_FINISH_THREADS] += weight * point.distance;
    column[FINISH_MARGIN * KM_FINISH_THREADS] += weight * point.margin;
    counts[point.label * KM_FINISH_THREADS] += 1;
}

// Adds up the columns of one number, in every lane of the warp.
template <typename Number> __device__ __forceinline__ Number finish_fold(const Number *columns) {
    Number sum = columns[threadIdx.x % 32];
    for (int at = 32; at < KM_FINISH_THREADS; at += 32) sum += columns[at + threadIdx.x % 32];
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

__device__ __forceinline__ void finish_write(double *out, const double *sums, const unsigned *counts, int k) {
    for (int j = threadIdx.x / 32; j < k; j += KM_FINISH_THREADS / 32) {
        const double *columns = sums + j * (FINISH_NUMBERS * KM_FINISH_THREADS);
        const double count = finish_fold(counts + j * KM_FINISH_THREADS);
        const double sse = finish_fold(columns + FINISH_SSE * KM_FINISH_THREADS);
        const double distance = finish_fold(columns + FINISH_DISTANCE * KM_FINISH_THREADS);
        const double margin = finish_fold(columns + FINISH_MARGIN * KM_FINISH_THREADS);
        const double weight = count;
        if (threadIdx.x % 32) continue;
        out[j * KM_FINISH_SUMS + KM_FINISH_COUNT] = count;
        out[j * KM_FINISH_SUMS + KM_FINISH_WEIGHT] = weight;
        out[j * KM_FINISH_SUMS + KM_FINISH_SSE] = sse;
        out[j * KM_FINISH_SUMS + KM_FINISH_DISTANCE] = distance;
        out[j * KM_FINISH_SUMS + KM_FINISH_MARGIN] = margin;
    }
}

// One fixed block of points and one model, the models of a block side by side: they read the same points.
extern "C" __global__ void __launch_bounds__(KM_FINISH_THREADS, 4)
    km_finish_few(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                  long long rows_count) {
    extern __shared__ double finish_memory[];
    const int model = blockIdx.x % args.models, k = args.ks[model];
    const long long block = blockIdx.x / args.models, first = block * KM_CHUNK_POINTS;
    const int count = (int)(args.count - first < KM_CHUNK_POINTS ? args.count - first : KM_CHUNK_POINTS);
    int *labels = args.labels ? args.labels + model * args.count + first : nullptr;
    const double *centroids = args.centroids + args.rows[model] * D;
    const km_real *table = (const km_real *)args.table + args.rows[model] * D;
    const km_real *points = (const km_real *)args.points + (args.first + first) * D;
    unsigned *counts = (unsigned *)(finish_memory + k * FINISH_NUMBERS * KM_FINISH_THREADS);
    for (int at = threadIdx.x; at < k * FINISH_NUMBERS * KM_FINISH_THREADS; at += KM_FINISH_THREADS)
        finish_memory[at] = 0.0;
    for (int j = 0; j < k; j++) counts[j * KM_FINISH_THREADS + threadIdx.x] = 0;
    for (int base = threadIdx.x; base < count; base += FINISH_POINTS * KM_FINISH_THREADS) {
        const km_real *x[FINISH_POINTS];
        finish_near near[FINISH_POINTS];
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++) {
            const int i = base + p * KM_FINISH_THREADS;
            x[p] = points + (i < count ? i : 0) * D;
        }
        km_real here[FINISH_POINTS][STEP_CHUNK];
        finish_search(near, here, x, table, k);
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++) {
            const int i = base + p * KM_FINISH_THREADS;
            if (i >= count) break;
            const finish_point point =
                finish_decide(near[p], STEP_WHOLE ? here[p] : x[p], centroids, table, k);
            finish_add(finish_memory + threadIdx.x, counts + threadIdx.x, point,
                       km_weight(weights, args.first + first + i));
            if (labels) labels[i] = point.label;
        }
    }
    __syncthreads();
    finish_write(partial + (block * rows_count + args.rows[model]) * KM_FINISH_SUMS, finish_memory, counts,
                 k);
}

// Block (unit of points, model): labels and squared distances, and margins where they are asked for.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_assign(const __grid_constant__ km_assign_args args) {
    const int model = blockIdx.y, k = args.ks[model];
    const double *centroids = args.centroids + args.rows[model] * D;
    const km_real *table = (const km_real *)args.table + args.rows[model] * D;
    const km_real *points = (const km_real *)args.points + args.first * D;
    for (int p = 0; p < KM_SUBCHUNK_POINTS; p += FINISH_POINTS * KM_THREADS) {
        const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p + threadIdx.x;
        const km_real *x[FINISH_POINTS];
        finish_near near[FINISH_POINTS];
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS;
            x[q] = points + (i < args.count ? i : 0) * D;
        }
        km_real here[FINISH_POINTS][STEP_CHUNK];
        finish_search(near, here, x, table, k);
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS, out = model * args.count + i;
            if (i >= args.count) break;
            const finish_point point =
                finish_decide(near[q], STEP_WHOLE ? here[q] : x[q], centroids, table, k);
            args.labels[out] = point.label;
            args.nearest[out] = point.square;
            if (args.margin) args.margin[out] = point.margin;
        }
    }
}

// A point as km_assign left it; its label is -1 - lane where there is no point.
struct finish_left {
    int label;
    double weight, square, margin;
};

__device__ __forceinline__ finish_left finish_load(const km_assign_args &args, const double *weights,
                                                   int model, long long at, long long end) {
    finish_left point = {-1 - (int)threadIdx.x, 0.0, 0.0, 0.0};
    if (at < end) {
        const long long from = model * args.count + at;
        point.label = args.labels[from];
        point.weight = km_weight(weights, args.first + at);
        point.square = args.nearest[from];
        point.margin = args.margin[from];
    }
    return point;
}

// What the 32 points in hand add to their clusters, for all lanes to see.
struct finish_tile {
    double weight[32], sse[32], distance[32], margin[32];
};

__device__ __forceinline__ void finish_share(finish_tile *tile, const finish_left &point) {
    const int lane = threadIdx.x;
    tile->weight[lane] = point.weight;
    tile->sse[lane] = __dmul_rn(point.weight, point.square);
    tile->distance[lane] = __dmul_rn(point.weight, __dsqrt_rn(point.square));
    tile->margin[lane] = __dmul_rn(point.weight, point.margin);
}

// One warp a (block, model): partial[block][row of the model + j][KM_FINISH_SUMS]. The 32 points in hand are grouped
// by label; the first lane of each label adds them in index order, so no two lanes touch one row. The rows are in
// dynamic shared memory where they fit, others are added in place.
extern "C" __global__ void __launch_bounds__(32)
    km_finish_blocks(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                     long long rows_count, int in_shared) {
    extern __shared__ double finish_memory[];
    __shared__ finish_tile tile;
    const int lane = threadIdx.x, model = blockIdx.y, k = args.ks[model];
    const long long first = blockIdx.x * (long long)KM_CHUNK_POINTS;
    const long long end = first + KM_CHUNK_POINTS < args.count ? first + KM_CHUNK_POINTS : args.count;
    double *out = partial + (blockIdx.x * rows_count + args.rows[model]) * KM_FINISH_SUMS;
    double *sums = in_shared ? finish_memory : out;
    for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) sums[at] = 0.0;
    finish_left next = finish_load(args, weights, model, first + lane, end);
    finish_left after = finish_load(args, weights, model, first + 32 + lane, end);
    for (long long base = first; base < end; base += 32) {
        const int label = next.label;
        finish_share(&tile, next);
        next = after;
        after = finish_load(args, weights, model, base + 64 + lane, end);
        __syncwarp();
        unsigned same = __match_any_sync(0xffffffffu, label);
        if (label >= 0 && (same & ((1u << lane) - 1u)) == 0) {
            double *row = sums + (long long)label * KM_FINISH_SUMS;
            double weight = row[KM_FINISH_WEIGHT], sse = row[KM_FINISH_SSE];
            double distance = row[KM_FINISH_DISTANCE], margin = row[KM_FINISH_MARGIN];
            row[KM_FINISH_COUNT] += __popc(same);
            for (; same; same &= same - 1) {
                const int i = __ffs(same) - 1;
                weight = __dadd_rn(weight, tile.weight[i]);
                sse = __dadd_rn(sse, tile.sse[i]);
                distance = __dadd_rn(distance, tile.distance[i]);
                margin = __dadd_rn(margin, tile.margin[i]);
            }
            row[KM_FINISH_WEIGHT] = weight;
            row[KM_FINISH_SSE] = sse;
            row[KM_FINISH_DISTANCE] = distance;
            row[KM_FINISH_MARGIN] = margin;
        }
        __syncwarp();
    }
    if (in_shared)
        for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) out[at] = sums[at];
}

// Adds blocks to the totals in index order: totals[numbers] += partial[0][numbers], partial[1][numbers], ...
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_finish_add(const double *partial, long long blocks, long long numbers, double *totals) {
    const long long column = blockIdx.x * (long long)KM_JOINED, at = column + threadIdx.x;
    const bool own = threadIdx.x < KM_JOINED && at < numbers;
    const double sum = step_join(own ? totals[at] : 0.0, partial, blocks, numbers, column, numbers, 0);
    if (own) totals[at] = sum;
}
// Relocate: the points farthest from their own centroids, one after the other. km_assign has left each point's
// squared distance; a point that was taken, and those with the same coordinates, are out by a distance of 0.

// Takes (value, index) when it is farther, or as far and earlier.
__device__ __forceinline__ void far_take(double *value, long long *index, double other,
                                         long long other_index) {
    if (other > *value || (other == *value && other_index < *index)) {
        *value = other;
        *index = other_index;
    }
}

// The farthest of a block of threads, in thread 0.
static __device__ void far_of_block(double *value, long long *index) {
    __shared__ double values[KM_THREADS];
    __shared__ long long indices[KM_THREADS];
    values[threadIdx.x] = *value;
    indices[threadIdx.x] = *index;
    __syncthreads();
    for (int half = KM_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            far_take(values + threadIdx.x, indices + threadIdx.x, values[threadIdx.x + half],
                     indices[threadIdx.x + half]);
        __syncthreads();
    }
    *value = values[0];
    *index = indices[0];
}

// A unit of points: drops those that equal the last taken point (picks[taken - 1]) or weigh nothing, and finds the
// farthest of the rest that are farther than rounding: than square_min, and than rounding2 of the point's own |x|^2.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_block(const km_real *points, const double *weights, long long n, double square_min,
                      double rounding2, double *nearest, const long long *picks, long long taken,
                      double *unit_values, long long *unit_indices) {
    const long long last = taken > 0 ? picks[taken - 1] : -1;
    double value = 0.0;
    long long index = n;
    for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS; p++) {
        const long long i = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p * KM_THREADS + threadIdx.x;
        if (i >= n) break;
        double square = km_weight(weights, i) > 0.0 ? nearest[i] : 0.0;
        if (last >= 0 && square > 0.0) {
            int f = 0;
            while (f < D && points[i * D + f] == points[last * D + f]) f++;
            if (f == D) nearest[i] = square = 0.0;
        }
        if (!(square > square_min)) continue;
        double size = 0.0;
#pragma unroll 1
        for (int f = 0; f < D; f++)
            size = __fma_rn((double)points[i * D + f], (double)points[i * D + f], size);
        if (square > __dmul_rn(rounding2, size)) far_take(&value, &index, square, i);
    }
    far_of_block(&value, &index);
    if (threadIdx.x == 0) {
        unit_values[blockIdx.x] = value;
        unit_indices[blockIdx.x] = index;
    }
}

// One block of threads: picks[taken] = the farthest of all units, -1 when there is none.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_pick(const double *unit_values, const long long *unit_indices, long long units, long long n,
                     long long *picks, long long taken) {
    double value = 0.0;
    long long index = n;
    for (long long unit = threadIdx.x; unit < units; unit += KM_THREADS)
        far_take(&value, &index, unit_values[unit], unit_indices[unit]);
    far_of_block(&value, &index);
    if (threadIdx.x == 0) picks[taken] = value > 0.0 ? index : -1;
}
// Update: the blocks of a slot turn totals into new centroids, and one of them decides what the slot does next. The
// host queues iterations ahead of the report that the last block writes.

// Whether this is the last of a slot's blocks to come here: it then has the sums of them all, added in their order, and
// sees what they wrote.
__device__ __forceinline__ bool update_join(km_slot_record *record, double *shares, double (&sums)[4]) {
    __shared__ bool last;
    if (gridDim.y == 1) return true;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; i++) shares[blockIdx.y * 4 + i] = sums[i];
        __threadfence();
        last = atomicAdd(&record->arrived, 1u) == gridDim.y - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return false;
    for (int i = 0; i < 4; i++) sums[i] = 0.0;
    for (int part = 0; part < (int)gridDim.y; part++)
        for (int i = 0; i < 4; i++) sums[i] += ((volatile double *)shares)[part * 4 + i];
    if (threadIdx.x == 0) record->arrived = 0;
    return true;
}

// The last slot to come here closes the iteration; nobody asks for `stop` after that in this launch who has work to do.
__device__ __forceinline__ void update_close(const km_update_args &args, int slot) {
    if (args.changes) args.changes[slot] = 0;
    __threadfence();
    if (atomicAdd(&args.loop->updated, 1u) != gridDim.x - 1) return;
    km_control *head = &args.loop->head;
    args.loop->updated = 0;
    const int news = *(volatile int *)&args.loop->news, passes = head->passes + 1;
    const bool stop = (news > 0 && news >= args.loop->stopped_min) || passes >= head->passes_max;
    head->passes = passes;
    head->stop = stop;
    if (args.report) *(volatile unsigned long long *)args.report = passes | (unsigned long long)stop << 32;
}

// A slot with many numbers has several blocks (KM_UPDATE_PARTS), blockIdx.y: each moves a share of its clusters.
// Two blocks a multiprocessor are plenty: said, or the compiler makes room for more of them, and spills.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_update(const __grid_constant__ km_update_args args) {
    constexpr int LANES = D < 2    ? 1
                          : D < 3  ? 2
                          : D < 5  ? 4
                          : D < 9  ? 8
                          : D < 17 ? 16
                                   : 32; // threads of a cluster
    constexpr int AT_ONCE = KM_THREADS / LANES;
    const int slot = blockIdx.x, k_index = slot % KS, k = km_ks[k_index];
    const long long row = (long long)(slot / KS) * S + km_offsets[k_index];
    km_slot_record *record = args.slots + slot;
    const km_slot_phase phase = record->state.phase;
    if (args.loop->head.stop) return;
    if (km_slot_is_active(phase)) {
        km_real *centroids = (km_real *)args.centroids + row * D;
        const double *totals = args.totals + row * (D + 1);
        double sums[4] =
            {}; // of costs and shifts; clusters that are empty, and those that may be given a point
        for (int j = blockIdx.y * AT_ONCE + threadIdx.x / LANES; j < k; j += gridDim.y * AT_ONCE) {
            const double weight = totals[j * (D + 1ll) + D];
            for (int f = threadIdx.x % LANES; f < D; f += LANES) {
                const double c = centroids[j * (long long)D + f], sum = totals[j * (D + 1ll) + f];
                sums[0] += c * (weight * c - 2.0 * sum);
                if (phase == KM_SLOT_RUNNING && weight > 0.0) {
                    const km_real moved = (km_real)(sum / weight);
                    sums[1] += (moved - c) * (moved - c);
                    centroids[j * (long long)D + f] = moved;
                }
            }
            if (threadIdx.x % LANES == 0) {
                args.weights[row + j] = weight;
                sums[2] += weight > 0.0 ? 0.0 : 1.0;
                sums[3] += weight > 0.0 || args.given_up[row + j] ? 0.0 : 1.0;
            }
        }
        km_block_sums<4>(sums);
        if (!update_join(record, args.shares + slot * (4ll * gridDim.y), sums)) return;
        if (threadIdx.x == 0) {
            // The first pass of a run has no labels to compare with: all count as changed.
            const int few_changes = args.changes && record->state.iterations > 0 &&
                                    (long long)args.changes[slot] < args.loop->changes_min;
            const km_slot_found found = {sums[0] + args.loop->total_square, sums[1], (long long)sums[2],
                                         sums[3] > 0.0, few_changes};
            km_slot_decide(&record->state, &found, args.loop->shift_max, args.loop->max_iter);
            args.active[slot] = km_slot_is_active(record->state.phase);
            if (!args.active[slot]) atomicAdd(&args.loop->news, 1);
        }
    } else if (blockIdx.y > 0) {
        return;
    }
    if (threadIdx.x == 0) update_close(args, slot);
}

