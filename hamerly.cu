// SPDX-License-Identifier: MIT
// hamerly.cu, made by kmgen 0.1.0. Same spec, same text. The spec:
//
// name: hamerly
// features: 32
// clusters: 256
// type: float32
// target: cuda:sm_90
// n_init: 10
// plan:
//   algorithm: hamerly
//
// The plan:
//
// device: cuda:sm_90, nominal H200: 132 multiprocessors, 4800 GB/s, 1.98 GHz
// points: unknown, taken as many, labels kept between passes
// clusters in one pass: 256 for each restart (the sum of the K list)
//
// design                       tensor  the least time of those estimated
// form                           rows  a point is added to one row of its cluster's sums, however many there are
// block                           256  about 252 registers a thread
// grid                            132  132 multiprocessors, filled once by all restarts
// launches                          1  one read of the points serves every K
// prefetch                          1  enough bytes in flight that a multiprocessor need not wait
// blocks_per_sm                     1  as many as registers and shared memory hold
// tile_clusters                   256  rows of matrix products that a launch has at most
// concurrent_restarts               1  many points: one restart of each K fills the device
//
// per point and pass: 194 bytes read, 4482.34 operations
// registers per thread: about 252 of 255
// shared memory per block: 205.1 KiB of 227.0 KiB

// Contents, by line:
//    104  Numbers and types
//    112  The list of K
//    131  What the kernels of a pass are given
//    216  The pass
//    505  Loading points into tiles
//    599  Rows of products from centroids
//    906  What the launches of a pass share
//   1393  Launch 0
//   1400  The totals of a pass
//   1436  The steps around the pass
//   1928  Loading
//   2217  Seeding
//   2628  Finishing
//   2752  Finishing: models
//   3180  Finishing: labels
//   3326  Silhouettes
//   3635  Relocation
//   3712  The update
//   3809  The algorithm hamerly
//   4915  The host part: what the header declares

#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 10 * 90
#error                                                                                                       \
    "hamerly.cu was emitted for sm_90: nvcc -arch=sm_90, or emit it for an older device: kmgen --target cuda:sm_80"
#endif
// The linker knows kernels by these names, so that several emitted files go into one program.
#define km_tensor_histogram hamerly_km_tensor_histogram
#define km_tensor_lattice hamerly_km_tensor_lattice
#define km_tensor_tiles hamerly_km_tensor_tiles
#define km_tensor_prepare hamerly_km_tensor_prepare
#define km_tensor_0 hamerly_km_tensor_0
#define km_reduce hamerly_km_reduce
#define km_load_draw hamerly_km_load_draw
#define km_load_sums_f32 hamerly_km_load_sums_f32
#define km_load_sums_f64 hamerly_km_load_sums_f64
#define km_load_reduce hamerly_km_load_reduce
#define km_load_transform_f32 hamerly_km_load_transform_f32
#define km_load_transform_f64 hamerly_km_load_transform_f64
#define km_load_weights hamerly_km_load_weights
#define km_load_add hamerly_km_load_add
#define km_rows hamerly_km_rows
#define km_window_sums hamerly_km_window_sums
#define km_join_blocks hamerly_km_join_blocks
#define km_seed_draw hamerly_km_seed_draw
#define km_seed_pass hamerly_km_seed_pass
#define km_finish_tiles hamerly_km_finish_tiles
#define km_assign hamerly_km_assign
#define km_finish_chunks hamerly_km_finish_chunks
#define km_finish_add hamerly_km_finish_add
#define km_label_sums hamerly_km_label_sums
#define km_silhouette_tiles hamerly_km_silhouette_tiles
#define km_farthest_subchunk hamerly_km_farthest_subchunk
#define km_farthest_pick hamerly_km_farthest_pick
#define km_update hamerly_km_update
#define km_bounds_dense hamerly_km_bounds_dense
#define km_bounds_moves hamerly_km_bounds_moves
#define km_bounds_pairs hamerly_km_bounds_pairs
#define km_bounds_rows hamerly_km_bounds_rows
#define km_bounds_offsets hamerly_km_bounds_offsets
#define km_bounds_candidates hamerly_km_bounds_candidates
#define km_bounds_totals hamerly_km_bounds_totals
#define km_bounds_end hamerly_km_bounds_end
#define km_bounds_list hamerly_km_bounds_list
#define km_bounds_sort hamerly_km_bounds_sort
#define km_bounds_score hamerly_km_bounds_score
#define km_bounds_resolve hamerly_km_bounds_resolve
#endif

// The skeleton of all forms of the design. A form is the file rows.cu, with the definitions that `use form_...` takes.
// ==== Numbers and types ====================================================================================
typedef float km_real;

enum {
    D = 32,      // features
    WEIGHTED = 0 // points carry weights
};

// ==== The list of K ========================================================================================
// Compiled apart: pass
typedef unsigned char km_label; // one label of one point, where labels are kept between passes

enum {
    S = 256,     // clusters of one restart: the sum of the K list
    KS = 1,      // entries of the K list
    K_MAX = 256, // the largest of them
    RESTARTS = 1 // of each K, in one pass
};

// The K list, and the first row of each K's centroids in a restart.
__constant__ const int km_ks[KS] = {
    256,
};
__constant__ const int km_offsets[KS] = {
    0,
};

// ==== What the kernels of a pass are given =================================================================
// What kernels of the pass are given and what they leave: the contract with the host that starts them. The host is the
// host part of an emitted file or kmgen's engine; both compile these same lines.
//
// Words. A restart is one start of the whole list of K; a pass serves several at once. A slot is one K of one restart:
// slot = restart * ks_count + k_index. Rows are centroids: those of a slot are restart * S + offset[k_index] and the
// next K - 1. S is the sum of the K list, offset its prefix sums.
//
// The pass. Its kernels read every point once and leave totals[restart][S][d + 1]: for each cluster of each active slot
// the weighted sum of its points (d numbers), then their weight. These are doubles, added in an order that does not
// depend on timing (a fixed order, or integers that the last kernel converts). Every row of an active slot is written,
// also where it is 0; rows of other slots are not read. A point's label is its nearest centroid, of equally near ones
// the lowest index. km_update, one of the steps behind the pass, makes centroids of the totals.
//
// How it is started. The file has
//     extern "C" { __device__ km_pass_facts km_pass = {...}; __device__ km_pass_launch km_pass_launches[] = {...}; }
// and the host starts the launches in that order on one stream, each with one argument of type km_pass_args by value
// (`__grid_constant__ const km_pass_args args`). Launches of KM_STAGE_LOAD run once, when the points are loaded; those
// of KM_STAGE_BEGIN whenever the host may have changed centroids; those of KM_STAGE_PASS in every pass. Grids are
// fixed: a kernel strides over the points.
//
// Every kernel begins with `if (args.control->stop) return;`. The host queues several passes at once: when a slot
// stops, the passes behind that one must cost nothing.
#ifndef KM_ABI_CUDA_H
#define KM_ABI_CUDA_H

enum {
    KM_ABI_VERSION = 3,
    KM_PAD_ROWS = 64,     // Rows after the last point that may be read; they are zero. Weights likewise.
    KM_ALIGN_BYTES = 256, // Alignment of every pointer below.
    KM_CONSTANTS_MAX = 9  // Symbols km_constants, where parts of the source are compiled apart.
};

enum { KM_STAGE_LOAD, KM_STAGE_BEGIN, KM_STAGE_PASS };

typedef struct km_pass_launch {
    char kernel[40]; // its name, declared extern "C"
    int stage;       // KM_STAGE_...
    unsigned grid_x, grid_y, block;
    unsigned shared_bytes; // dynamic shared memory; the host opts in above 48 KiB
    int part;              // passed on in km_pass_args: which part of the K list, where a kernel runs several times
} km_pass_launch;

typedef struct km_pass_facts {
    int version;        // KM_ABI_VERSION
    int launches_count; // entries of km_pass_launches
    // args.workspace: fixed + per_point * n bytes, and where points are CSR per_nonzero * their nonzeros.
    long long workspace_bytes;
    long long workspace_bytes_per_point;
    int has_constants; // the source has a symbol km_constants in __constant__ memory
    // So many bytes at its beginning are zeroed before KM_STAGE_LOAD, the others may hold anything. 0: all are zeroed.
    long long workspace_bytes_zero;
    long long workspace_bytes_per_nonzero;
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
    const void *centroids;       // [restarts][S][d] km_real
    const unsigned char *active; // per slot: 1 takes part in this pass
    double *totals;              // [restarts][S][d + 1]
    void *labels;                // [slots][labels_stride] km_label; NULL unless labels are kept between passes
    long long labels_stride;
    unsigned long long
        *changes; // per slot: labels that changed (integer atomics); zeroed before each pass; or NULL
    void *workspace;
    // Addresses of the symbol km_constants: of each part of the source that is compiled apart. NULL behind the last,
    // and unless has_constants. All hold the same.
    void *constants[KM_CONSTANTS_MAX];
    const double *box; // 2 x d: the smallest value of each feature, then the largest, as `points` are
    int part;
} km_pass_args;

#endif

// ==== The pass =============================================================================================
// Compiled apart: pass
#define KM_UNROLL_FOR(...) _Pragma("unroll") for (__VA_ARGS__)
#define KM_UNROLL_1_FOR(...) _Pragma("unroll 1") for (__VA_ARGS__)
#define KM_UNROLL_2_FOR(...) _Pragma("unroll 2") for (__VA_ARGS__)

// Design tensor, form rows. Scores and sums are matrix products: centroids are the rows, points the columns.
//
// Lattice. When points are loaded, a coordinate becomes z = x / 2^e, |z| < 1, with an exponent e of its feature, and
// z 2^22 is rounded to an integer. The workspace keeps these in tiles of 32 points, in the layout of operands of matrix
// products. A pass reads only the tiles. A point with a coordinate beyond 2^e is an outlier.
//
// Labels. All centroids of a K are rows of one quad (four lanes) or of a few quads, so that the largest score is found
// in the lane or by a shuffle. Scores are compared by 16 bits, two points in a register. A centroid is a candidate when
// a bound on the error cannot tell its score from the largest. A point with one candidate has its label. A point with
// several is ambiguous: its label is resolved in double on the original point. So is that of an outlier.
//
// Sums. Integers of the lattice are added without any rounding: the same bits in any order.
// Points: each coordinate is kept twice: rounded to half precision, for scores, and as the integer of z 2^22, for sums.
//
// Scores: as those of the form rounded. Each candidate has a code, 256 and its index. The codes of a point's candidates
// are added: a sum below 512 is the code of a single candidate, and gives the label.
//
// Sums are in shared memory, not in registers: each point is added to one row of them. Integers are made positive by a
// bias. The low 32 bits of a sum are added by a native atomic, and where that carries, 1 is added to the high 32 bits.
//
// TIGHT: the compiler would spill if it worked on all columns at once. That of CUDA 12 always does.
constexpr bool TIGHT = 0 || __CUDACC_VER_MAJOR__ < 13;
enum {
    BLOCK = 256, // threads of a block
    GRID = 132,  // blocks of a launch, for one restart
    WARPS = BLOCK / 32,
    PREPARERS = 512,       // threads of a block that prepares a launch: a warp for each of 16 K
    TILE = 32,             // points of a tile
    COLUMNS = S * (D + 1), // sums of a restart
    QUEUE = 64,            // ambiguous points of a warp that are not resolved yet
    BITS = 22,             // of a coordinate's integer, without its sign
    BINS = 64,             // of a feature's histogram: powers of two below the largest coordinate
    STAGES = 2             // of the ring: tiles that are being copied, and those that are worked on
};
enum {
    WIDTH = TIGHT ? 2 : 4,                   // columns of 8 points that are worked on at a time
    BIAS = 1 << BITS,                        // makes a coordinate's integer positive
    EIGHTS = D <= 8 ? 1 : (D + 15) / 16 * 2, // features in eights
    ROW = D | 1,                             // words of a row of sums: odd, so that rows begin in different banks
    FLUSH_TILES = 1 << 30,                   // sums are flushed once, in the end
    STEP_TILES = 1,                          // tiles that are worked on at a time
    NORMS = 1,                               // of which a load finds the largest: |x|
    RESOLVE_AHEAD = 2,                       // features at a time when an ambiguous point is added
    FETCHERS = PREPARERS,                    // threads that fetch the centroids of a K
    REDUCE = 128                             // threads of a block of km_reduce
};
constexpr float BINADE = 8192;             // scores are at least this and less than twice this
constexpr unsigned ONE_CANDIDATE = 0x5c00; // 256 in half precision, where units are 1/4
constexpr unsigned ALL = 0xffffffff;

// Where the centroids of each K are: launch, first quad, number of quads, first row of scores in a quad, number of
// rows, first row of the block's sums.
struct km_k_layout {
    short launch, quad, quads, score_row, score_rows, sum_row;
};
__device__ const km_k_layout km_k_layouts[KS] = {
    {0, 0, 8, 0, 32, 0},
};

// A launch. A lane has SCORE_ROWS rows of scores, two of each row tile. Its first FIRST_ROWS rows are one segment and
// belong to one K; the others are a second segment and belong to another K or, in a whole quad, to the same. With
// LEVELS > 0 up to 2^LEVELS quads share a K.
struct km_launch_0 { // K = 256
    enum {
        INDEX = 0,
        ROW_TILES = 16,
        SCORE_ROWS = 2 * ROW_TILES,
        FIRST_ROWS = 32,
        LEVELS = 3
    };
    enum { SUM_ROWS = 256 }; // of the block's sums
};

// The same as numbers; and the most of any launch.
struct km_launch_shape {
    int index, score_rows, first_rows, levels;
};
__device__ const km_launch_shape km_launch_shapes[] = {
    {0, 2 * 16, 32, 3},
};
enum { LAUNCHES = 1, ROW_TILES_MAX = 16, SUM_ROWS_MAX = 256 };

// What a launch needs of the centroids, in every form. One block prepares it for all: then the launch's own code is
// short, and takes half the time to compile. It is the first part of each block's shared memory.
struct km_prepared_base {
    double lattice_scale[D]; // 2^(22 - e), by which a coordinate becomes an integer
    unsigned same_k
        [4][8];                          // masks of a quad, ALL where: its segments have the same K; it and the quad 1, 2, 4 away do
    short k_index[2][8];                 // of a quad's segments: index in the K list, -1: none
    short sum_row[8][2 * ROW_TILES_MAX]; // row of the sums of each row of scores, -1: none
    int any_active;                      // whether a K of the launch is
    unsigned char active[KS];
};

// What is needed only to prepare it.
struct km_preparation_base {
    km_launch_shape launch;
    double radius;                         // the largest norm of all points but outliers
    double extent[D];                      // 2^e
    unsigned char dominated[SUM_ROWS_MAX]; // centroids that are nearest nowhere in the lattice
};

// The scale of a K's scores: (score - lowest) * factor. `error`: that of a scaled score, from rounding to the
// lattice and from products of halves.
struct km_scale {
    double lowest, factor, error;
};

// |r|, the distance by which rounding moved a point, is kept in units of 2^-12; margins in units of a 16-bit score.
enum { ERROR_BITS = 12, MARGIN_MAX = 512 };
// 1024 in half precision, where units are 1: the low bits of 1024 plus a margin are the margin, as an integer. And this
// less 1.
constexpr unsigned MARGIN_BASE = 0x64006400, LIMIT_BASE = MARGIN_BASE - 0x10001;

// The margin of a K, how far below the largest score a centroid is a candidate: slope * |r| + least, in halves,
// twice in a register. It depends on `spread`, the largest distance of two centroids, each feature in units of 2^e.
struct km_margin_of_k {
    unsigned slope, least;
};

struct km_tile {
    uint4 points[EIGHTS][TILE]; // features 8 i to 8 i + 7 of each point, as halves
    unsigned numbers[D][TILE];  // integers, with the bias; ALL: the point is an outlier
    uint4 errors[4];            // |r| of points 2 t, 2 t + 1, 8 + 2 t, ... as halves
};

enum { TILE_SIZE = sizeof(km_tile) / sizeof(uint4) };

static __device__ __forceinline__ long long km_tiles_count(const km_pass_args &args) {
    return (args.n + TILE - 1) / TILE;
}

// An ambiguous point, packed: its tile; its index in the tile and its K.
struct km_queue_entry {
    int tile, point_and_k;
};

// Shared memory of a warp.
struct km_warp {
    km_tile ring[STAGES];
    km_queue_entry queue[QUEUE];
    int queued; // how many; not in a register, as few tiles need it
};

// The margin of a quad's K, as km_margin_of_k; and the part of a code that depends on the quad: 32 for each quad of
// the K before it. Two halves each.
struct alignas(16) km_margin {
    unsigned slope, least, quad_code, unused;
};

// An active K: its first quad, its first row of sums, its index in the list.
struct km_active_k {
    int quad, sum_row, k_index;
};

// The scale of the scores of a K, and its margin.
struct km_score_setup {
    km_scale scale;
    km_margin_of_k margin;
    float midpoint[D];
};

struct km_prepared : km_prepared_base {
    uint4 fragments[ROW_TILES_MAX][EIGHTS][32]; // of the centroids
    float4 starts[ROW_TILES_MAX][8];            // of a quad's two rows: the constant of the score, twice
    km_margin margin[8];                        // of each quad
    km_active_k active_ks[8];
    int active_count;
};

struct km_preparation : km_prepared, km_preparation_base {
    km_score_setup setup[8]; // of the K whose first quad it is
    float centroids[SUM_ROWS_MAX * D];
};

template <typename LAUNCH> struct km_block : km_prepared {
    alignas(16) unsigned low[LAUNCH::SUM_ROWS][ROW]; // low and high words of the sums
    unsigned high[LAUNCH::SUM_ROWS][ROW];
    unsigned counts[LAUNCH::SUM_ROWS];
    km_warp warps[WARPS];
    unsigned changes[KS];
};

// Workspace --------------------------------------------------------------------------------------------------

// In this order: the sums of each restart; the distinct points; the largest |x|^2 of the points but outliers, and in
// one form |z|^2; the exponents e; the histogram; what is prepared for each restart and launch; the outliers of tiles;
// the tiles.
constexpr long long PREPARED_BYTES = (long long)sizeof(km_prepared) * LAUNCHES * RESTARTS;

constexpr long long DISTINCT_BYTES = 0;
constexpr int DISTINCT_PARTS = 1;
static __device__ __forceinline__ double *km_largest(const km_pass_args &args) {
    return (double *)((char *)args.workspace + 8ll * RESTARTS * COLUMNS * GRID + DISTINCT_BYTES);
}

static __device__ __forceinline__ int *km_exponents(const km_pass_args &args) {
    return (int *)(km_largest(args) + NORMS);
}

static __device__ __forceinline__ unsigned *km_histogram(const km_pass_args &args) {
    return (unsigned *)(km_exponents(args) + D);
}

static __device__ __forceinline__ km_prepared *km_prepared_of(const km_pass_args &args, int launch) {
    const long long after = (long long)(km_histogram(args) + D * BINS);
    return (km_prepared *)((after + 255) / 256 * 256) + blockIdx.y * LAUNCHES + launch;
}

static __device__ __forceinline__ unsigned *km_outliers(const km_pass_args &args) {
    const long long after = (long long)(km_histogram(args) + D * BINS);
    return (unsigned *)((after + 255) / 256 * 256 + PREPARED_BYTES);
}

static __device__ __forceinline__ km_tile *km_tiles(const km_pass_args &args) {
    const long long after = (long long)(km_outliers(args) + km_tiles_count(args));
    return (km_tile *)((after + 255) / 256 * 256);
}

// Powers of two.
static __device__ __forceinline__ double km_power_of_2(int exponent) { // 2^exponent
    return __longlong_as_double((1023ll + exponent) << 52);
}

// The exponent of the smallest power of two above |x|; at least `least`.
static __device__ __forceinline__ int km_exponent(double x, int least = -100) {
    const int exponent = (int)(__double_as_longlong(x) >> 52 & 0x7ff) - 1022;
    return exponent < least ? least : exponent;
}

// Two floats as halves, the first in the low bits.
static __device__ __forceinline__ unsigned km_halves(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

static __device__ __forceinline__ float km_low_half(unsigned pair) {
    float value;
    asm("{ .reg .f16 low, high; mov.b32 {low, high}, %1; cvt.f32.f16 %0, low; }" : "=f"(value) : "r"(pair));
    return value;
}

// Writes a point as halves, and |r|, the distance by which rounding moved it; -0: an outlier.
template <typename Coordinate>
static __device__ __forceinline__ void km_put_halves(km_tile &tile, bool beyond, Coordinate z) {
    const int lane = threadIdx.x % 32;
    double square = 0;
    KM_UNROLL_FOR (int f = 0; f < 8 * EIGHTS; f++) {
        const float exact = f < D ? z(f % D) : 0;
        const unsigned half = km_halves(exact, 0);
        const double away = (double)exact - km_low_half(half);
        square = fma(away, away, square);
        ((unsigned short *)&tile.points[f / 8][lane])[f % 8] = (unsigned short)half;
    }
    const float error = (float)(sqrt(square) * km_power_of_2(ERROR_BITS) * (1 + km_power_of_2(-10)));
    unsigned short *errors = (unsigned short *)&tile.errors[lane / 2 % 4];
    errors[lane / 8 * 2 + lane % 2] = (unsigned short)km_halves(beyond ? -0.0f : error, 0);
}

// The sums of a restart that a block leaves.
static __device__ __forceinline__ unsigned long long *km_sums_of(const km_pass_args &args, int block) {
    return (unsigned long long *)args.workspace + ((long long)blockIdx.y * GRID + block) * COLUMNS;
}

static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    const float *scale, bool beyond, double) {
    km_tile &tile = km_tiles(args)[i / TILE];
    const auto z = [&](int f) { return beyond ? 0 : x[f] * scale[f]; };
    for (int f = 0; f < D; f++)
        tile.numbers[f][threadIdx.x % 32] =
            beyond ? ALL : (unsigned)(__float2int_rn(z(f) * (1 << BITS)) + BIAS);
    km_put_halves(tile, beyond, z);
}

// The largest of all lanes' values, in every lane. Called a few times a launch, not inlined: short code, which compiles
// sooner.
static __device__ __noinline__ double km_warp_max(double value) {
    for (int width = 16; width > 0; width /= 2)
        value = fmax(value, __shfl_xor_sync(0xffffffffu, value, width));
    return value;
}

// ==== Loading points into tiles ============================================================================
// Compiled apart: pass/rest
// The lattice, which holds nearly all points -----------------------------------------------------------------

static __device__ __forceinline__ int km_exponent_max(const km_pass_args &args, int f) {
    return km_exponent(fmax(fabs(args.box[f]), fabs(args.box[D + f])));
}

// Load: counts the points of each power of two below the largest, feature by feature.
extern "C" __global__ void __launch_bounds__(256)
    km_tensor_histogram(const __grid_constant__ km_pass_args args) {
    __shared__ unsigned bins[D * BINS];
    for (int i = threadIdx.x; i < D * BINS; i += 256) bins[i] = 0;
    __syncthreads();
    // A thread has one feature. It counts the first eight bins in bytes of a register, and the rare others by atomics.
    constexpr int AHEAD = 4, ROUNDS = 60; // coordinates at a time; rounds until a byte may be full
    const long long stride = gridDim.x * 256ll / D * D, begin = blockIdx.x * 256ll + threadIdx.x;
    const int f = (int)(begin % D), largest = km_exponent_max(args, f);
    unsigned long long counts = 0;
    for (long long at = begin, round = 1; begin < stride && at < args.n * D; at += AHEAD * stride, round++) {
        float x[AHEAD];
        KM_UNROLL_FOR (int i = 0; i < AHEAD; i++)
            if (at + i * stride < args.n * D) x[i] = ((const float *)args.points)[at + i * stride];
        KM_UNROLL_FOR (int i = 0; i < AHEAD; i++) {
            if (at + i * stride >= args.n * D) break;
            const int bin = largest - km_exponent(x[i]);
            if (bin < 8)
                counts += 1ull << 8 * bin;
            else
                atomicAdd(&bins[f * BINS + (bin < BINS ? bin : BINS - 1)], 1u);
        }
        if (round % ROUNDS && at + AHEAD * stride < args.n * D) continue;
        for (int bin = 0; bin < 8; bin++, counts >>= 8)
            if (counts & 0xff) atomicAdd(&bins[f * BINS + bin], (unsigned)counts & 0xff);
    }
    __syncthreads();
    for (int i = threadIdx.x; i < D * BINS; i += 256)
        if (bins[i]) atomicAdd(km_histogram(args) + i, bins[i]);
}

// Load: the exponent e of each feature. Beyond 2^e there may be one point in 16,384, or a single one, and the sum
// of their integers must fit 64 bits.
extern "C" __global__ void __launch_bounds__(256)
    km_tensor_lattice(const __grid_constant__ km_pass_args args) {
    const double points = fmax((double)args.n, 16384.0);
    for (int f = threadIdx.x; f < D; f += 256) {
        const unsigned *bins = km_histogram(args) + f * BINS;
        const int largest = km_exponent_max(args, f);
        double beyond = 0;
        int bin = 0;
        for (; bin < BINS - 1 && largest - bin > -100; bin++) {
            beyond += bins[bin];
            if (beyond * 16384 > points || beyond * km_power_of_2(bin + 1 + BITS) > km_power_of_2(61)) break;
        }
        km_exponents(args)[f] = largest - bin < 127 ? largest - bin : 127;
    }
}

// The tiles --------------------------------------------------------------------------------------------------

// Load: writes the tiles. Finds the outliers, and the largest norm of the other points. Points past the last one count
// as outliers.
extern "C" __global__ void __launch_bounds__(256) km_tensor_tiles(const __grid_constant__ km_pass_args args) {
    __shared__ float limit[D], scale[D];
    for (int f = threadIdx.x; f < D; f += 256) {
        limit[f] =
            (float)(km_power_of_2(km_exponents(args)[f]) * (1 - km_power_of_2(-BITS))); // exact in float
        scale[f] = (float)km_power_of_2(-km_exponents(args)[f]);
    }
    __syncthreads();
    const long long points = km_tiles_count(args) * TILE;
    double largest[NORMS] = {};
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < points; i += gridDim.x * 256ll) {
        bool beyond = i >= args.n;
        const float *x = (const float *)args.points + (beyond ? 0 : i) * D;
        double squares[NORMS] = {};
#pragma unroll 8
        for (int f = 0; f < D; f++) {
            beyond = beyond | (fabsf(x[f]) > limit[f]);
            squares[0] = fma((double)x[f], (double)x[f], squares[0]);
        }
        for (int which = 0; which < NORMS; which++)
            largest[which] = beyond ? largest[which] : fmax(largest[which], squares[which]);
        km_put_point(args, i, x, scale, beyond, squares[0]);
    }
    // Numbers that are not negative are ordered as their bits are. Few warps have a larger one than is there.
    for (int which = 0; which < NORMS; which++) {
        largest[which] = km_warp_max(largest[which]);
        if (threadIdx.x % 32 == 0 && largest[which] > ((volatile double *)km_largest(args))[which])
            atomicMax((unsigned long long *)km_largest(args) + which,
                      (unsigned long long)__double_as_longlong(largest[which]));
    }
}

// ==== Rows of products from centroids ======================================================================
// Compiled apart: pass/prepare
// The centroid nearest to the origin.
static __device__ int km_nearest_to_origin(const float *c, int k) {
    double smallest = 1e308;
    int nearest = 0;
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        double square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double x = c[j * D + f];
            square = fma(x, x, square);
        }
        nearest = square < smallest ? j : nearest;
        smallest = fmin(square, smallest);
    }
    for (int width = 16; width > 0; width /= 2) {
        const double square = __shfl_xor_sync(ALL, smallest, width);
        const int j = __shfl_xor_sync(ALL, nearest, width);
        const bool closer = square < smallest || (square == smallest && j < nearest);
        nearest = closer ? j : nearest;
        smallest = closer ? square : smallest;
    }
    return nearest;
}

// Whether an earlier centroid is the same, among the first 32: seeds of few distinct points come again after these. A
// function of its own: where it is inlined, NVRTC 13.0 and 13.4 spill a few bytes, which rules the design out.
static __device__ __noinline__ bool km_is_again(const float *c, int j) {
    unsigned same = 0; // a bit for each of which the first coordinate is
    const int before = j < 32 ? j : 32;
#pragma unroll 4
    for (int i = 0; i < before; i++) same |= (unsigned)(c[i * D] == c[j * D]) << i;
    KM_UNROLL_1_FOR (; same; same &= same - 1) {
        const int i = __ffs(same) - 1;
        int f = 1;
        while (f < D && c[i * D + f] == c[j * D + f]) f++;
        if (f >= D) return true;
    }
    return false;
}

// Finds the dominated centroids of one K: those that are nearest nowhere in the lattice, because another is nearer
// everywhere, or as near and earlier. Without them scores have a smaller range, and so a smaller error, and no point is
// ambiguous between equal centroids.
static __device__ void km_find_dominated(km_preparation &shared, const float *c, const km_k_layout &layout,
                                         int k) {
    const int nearest = km_nearest_to_origin(c, k);
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        double lead = 0, size = 0; // the largest lead of j over that centroid
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double a = c[j * D + f], b = c[nearest * D + f];
            lead += fabs(a - b) * shared.extent[f] - 0.5 * (a - b) * (a + b);
            size += fabs(a - b) * shared.extent[f] + fabs(a - b) * fabs(a + b);
        }
        shared.dominated[layout.sum_row + j] = (j != nearest && lead < -1e-12 * size) || km_is_again(c, j);
    }
    __syncwarp();
}

// Goes through the rows of a K, by so many threads. write_row(quad, score_row, t, j) writes the quarter of a row
// that lanes with lane % 4 = t hold. It is the row of centroid j; j is -1 where there is none, or where it is
// dominated. Such a row is empty, but a dominated centroid keeps its row of sums, for outliers. begin_quad(quad,
// segment, whole_quad) is called once for each quad.
template <typename Row, typename Quad>
static __device__ __forceinline__ void km_for_score_rows(km_preparation &shared, int k_index, int thread,
                                                         int threads, Row write_row, Quad begin_quad) {
    const km_k_layout layout = km_k_layouts[k_index];
    const bool whole_quad = shared.launch.levels == 0 && layout.score_rows > shared.launch.first_rows;
    KM_UNROLL_1_FOR (int at = thread; at < layout.quads * shared.launch.score_rows * 4; at += threads) {
        const int quad = layout.quad + at / 4 / shared.launch.score_rows,
                  score_row = at / 4 % shared.launch.score_rows;
        const int j = (quad - layout.quad) * layout.score_rows + score_row - layout.score_row,
                  segment = layout.score_row >= shared.launch.first_rows;
        const bool real = score_row >= layout.score_row && score_row < layout.score_row + layout.score_rows &&
                          j < km_ks[k_index];
        if (!whole_quad && (score_row >= shared.launch.first_rows) != segment) continue;
        shared.sum_row[quad][score_row] = real ? layout.sum_row + j : -1;
        write_row(quad, score_row, at % 4, real && !shared.dominated[layout.sum_row + j] ? j : -1);
        if (score_row != layout.score_row) continue;
        shared.k_index[segment][quad] = k_index;
        shared.same_k[0][quad] = whole_quad ? ALL : 0;
        for (int level = 0; level < shared.launch.levels; level++)
            shared.same_k[1 + level][quad] = layout.quads >> level > 1 ? ALL : 0;
        begin_quad(quad, segment, whole_quad);
    }
}

// Writes the quarter of a row that lanes with lane % 4 = t hold: the factors of D features, as fp16 hi and lo. Up to 8
// features, one product of 16 takes both; of more, hi and lo have a product each.
template <typename Factor>
static __device__ __forceinline__ void km_write_halves(km_preparation &shared, int quad, int score_row, int t,
                                                       Factor factor) {
    KM_UNROLL_1_FOR (int i = 0; i < EIGHTS; i++) {
        const int f = 8 * i + 2 * t;
        const float first = f < D ? factor(f) : 0, second = f + 1 < D ? factor(f + 1) : 0;
        const float high = km_low_half(km_halves(first, 0)), second_high = km_low_half(km_halves(second, 0));
        const auto words_of = [&](int fragment) {
            return (unsigned *)&shared.fragments[score_row / 2][fragment][quad * 4 + t] + score_row % 2;
        };
        words_of(i / 2 * 2)[i % 2 * 2] = km_halves(high, second_high);
        words_of(EIGHTS > 1 ? i / 2 * 2 + 1 : 0)[EIGHTS > 1 ? i % 2 * 2 : 2] =
            km_halves(first - high, second - second_high);
    }
}

// Writes a quarter of a row of fragments: scaled factors of D features, and the constant of the score.
template <typename Factor>
static __device__ __forceinline__ void km_write_row(km_preparation &shared, int quad, int score_row, int t,
                                                    Factor factor, float start) {
    km_write_halves(shared, quad, score_row, t, factor);
    ((float2 *)&shared.starts[score_row / 2][quad])[score_row % 2] = {start, start};
}

// A row without a centroid: its score is the lowest, so it is no candidate where there are others.
static __device__ __forceinline__ void km_clear_row(km_preparation &shared, int quad, int score_row, int t) {
    km_write_row(
        shared, quad, score_row, t, [](int) { return 0.0f; }, BINADE);
}

static __device__ __forceinline__ void km_clear_prepared(km_preparation &shared, const km_pass_args &) {
    for (int i = threadIdx.x; i < 8; i += PREPARERS) shared.margin[i] = {0, MARGIN_BASE, 0, 0};
}

// The constant of a score, which is x . (c - p) and this; not scaled.
static __device__ double km_constant(const float *c, const float *midpoint) {
    double constant = 0;
    KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
        const double a = c[f], p = midpoint[f];
        constant -= 0.5 * (a - p) * (a + p);
    }
    return constant;
}

// Finds the midpoint of a K's centroids, and the scale of its scores.
static __device__ km_scale km_find_scale(const km_preparation &shared, float *midpoint, const float *c,
                                         const unsigned char *dominated, int k) {
    const int lane = threadIdx.x % 32;
    for (int f = lane; f < D; f += 32) {
        float low = 3.4e38f, high = -3.4e38f;
        KM_UNROLL_1_FOR (int j = 0; j < k; j++) {
            low = dominated[j] ? low : fminf(low, c[j * D + f]);
            high = dominated[j] ? high : fmaxf(high, c[j * D + f]);
        }
        midpoint[f] = 0.5f * low + 0.5f * high;
    }
    __syncwarp();
    // The range of scores, and the largest |x . (c - p)|: for points within the largest norm, and in the whole lattice.
    double lowest = 1e308, highest = -1e308, in_ball = 0, in_lattice = 0;
    KM_UNROLL_1_FOR (int j = lane; j < k; j += 32) {
        if (dominated[j]) continue;
        double own = 0, square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = (double)c[j * D + f] - midpoint[f];
            own += fabs(away) * shared.extent[f];
            square = fma(away, away, square);
        }
        in_lattice = fmax(in_lattice, own);
        own = fmin(own, sqrt(square) * shared.radius);
        const double constant = km_constant(c + j * D, midpoint);
        lowest = fmin(lowest, constant - own);
        highest = fmax(highest, constant + own);
        in_ball = fmax(in_ball, own);
    }
    lowest = -km_warp_max(-lowest);
    highest = km_warp_max(highest);
    in_ball = km_warp_max(in_ball);
    in_lattice = km_warp_max(in_lattice);
    const double factor = highest > lowest ? 0.84 * BINADE / (highest - lowest) : 0;

    return {lowest, factor, (in_lattice + in_ball) * factor * km_power_of_2(-21)};
}

// Writes the scaled rows of a K, by so many threads; `begin_quad` as in km_for_score_rows. Scores are
//     score_j = x . (c_j - p) - (|c_j|^2 - |p|^2) / 2,  p the midpoint of the K's centroids,
// scaled so that all scores of a K are in one binade of float. 15 bits of them are compared.
template <typename Quad>
static __device__ __forceinline__ void km_write_rows(km_preparation &shared, const float *c,
                                                     const float *midpoint, int k_index, int thread,
                                                     int threads, const km_scale &scale, Quad begin_quad) {
    const auto write_row = [&](int quad, int score_row, int t, int j) {
        const auto factor = [&](int f) {
            return (float)(((double)c[j * D + f] - midpoint[f]) * shared.extent[f] * scale.factor);
        };
        const auto zero = [](int) { return 0.0f; };
        if (j >= 0)
            km_write_row(
                shared, quad, score_row, t, factor,
                (float)(1.08 * BINADE + (km_constant(c + j * D, midpoint) - scale.lowest) * scale.factor));
        else
            km_write_row(shared, quad, score_row, t, zero, BINADE);
    };
    km_for_score_rows(shared, k_index, thread, threads, write_row, begin_quad);
}

// The difference of two scores is off by twice the error of one, which includes at most 20 truncated additions a
// product, and by the rounding of the point. A unit of the 16-bit score is BINADE / 2^15. Rounding the margin loses
// half a unit, rounding the scores one. Where the margin would be too large, all scores become equal: every
// centroid is a candidate.
static __device__ __forceinline__ km_margin_of_k km_find_margin(km_scale &scale, double spread) {
    const double unit = BINADE * km_power_of_2(-15);
    const double error = 2 * (scale.error + EIGHTS * 20 * BINADE * km_power_of_2(-22) + 0.001) / unit;
    spread = spread * scale.factor / unit * km_power_of_2(-ERROR_BITS);
    if (error + spread * 8 > MARGIN_MAX) scale.factor = spread = 0; // |r| is at most 8
    return {km_halves((float)(spread * (1 + km_power_of_2(-10))), 0) * 0x10001,
            km_halves((float)(1024 + ceil(error + 0.51)), 0) * 0x10001};
}

// Finds the scale of the scores of one K, and its margin, by one warp.
static __device__ void km_scale_scores(km_preparation &shared, int k_index) {
    const km_k_layout layout = km_k_layouts[k_index];
    const float *c = shared.centroids + layout.sum_row * D;
    const int k = km_ks[k_index];
    km_score_setup &own = shared.setup[layout.quad];
    const unsigned char *dominated = shared.dominated + layout.sum_row;
    km_find_dominated(shared, c, layout, k);
    km_scale scale = km_find_scale(shared, own.midpoint, c, dominated, k);

    // Two centroids are at most twice as far apart as the farthest one is from the midpoint.
    double spread = 0;
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        if (dominated[j]) continue;
        double square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = ((double)c[j * D + f] - (double)own.midpoint[f]) * shared.extent[f];
            square = fma(away, away, square);
        }
        spread = fmax(spread, 2 * sqrt(square));
    }
    own.margin = km_find_margin(scale, km_warp_max(spread));
    own.scale = scale;
}

// The rows of each active K of the launch: one warp finds its scale, then all threads write the rows. Returns whether
// there is one.
static __device__ __forceinline__ bool km_prepare_all(km_preparation &shared) {
    int active_count = 0;
    for (int i = 0; i < KS; i++) {
        if (km_k_layouts[i].launch != shared.launch.index || !shared.active[i]) continue;
        if (active_count % (PREPARERS / 32) == threadIdx.x / 32) km_scale_scores(shared, i);
        if (threadIdx.x == 0)
            shared.active_ks[active_count] = {km_k_layouts[i].quad, km_k_layouts[i].sum_row, i};
        active_count++;
    }
    if (threadIdx.x == 0) shared.active_count = active_count;
    __syncthreads();
    for (int i = 0; i < active_count; i++) {
        const km_active_k own = shared.active_ks[i];
        const km_score_setup &setup = shared.setup[own.quad];
        const auto begin_quad = [&](int quad, int, bool) {
            const float quad_code = 32.0f * (quad - own.quad);
            shared.margin[quad] = {setup.margin.slope, setup.margin.least, km_halves(quad_code, quad_code),
                                   0};
        };
        km_write_rows(shared, shared.centroids + own.sum_row * D, setup.midpoint, own.k_index, threadIdx.x,
                      PREPARERS, setup.scale, begin_quad);
    }
    return active_count > 0;
}

// Prepares a launch, by one block a restart, and leaves that in the workspace.
static __device__ __forceinline__ void km_prepare_launch(const km_pass_args &args) {
    extern __shared__ uint4 km_memory[];
    km_preparation &shared = *(km_preparation *)km_memory;
    const km_launch_shape launch = km_launch_shapes[blockIdx.x % LAUNCHES];
    const int stop = args.control->stop; // read now and tested later: one wait for all reads
    const float *from = (const float *)args.centroids + (long long)blockIdx.y * S * D;
    if (threadIdx.x == 0) shared.launch = launch;
    if (threadIdx.x == 0) shared.radius = sqrt(*km_largest(args)) * (1 + 1e-9);
    for (int i = threadIdx.x; i < KS; i += PREPARERS) shared.active[i] = args.active[blockIdx.y * KS + i];
    for (int f = threadIdx.x; f < D; f += PREPARERS) {
        shared.extent[f] = km_power_of_2(km_exponents(args)[f]);
        shared.lattice_scale[f] = km_power_of_2(BITS - km_exponents(args)[f]);
    }
    for (int i = 0, own = 0; i < KS; i++) {
        if (km_k_layouts[i].launch != launch.index ||
            own++ % (PREPARERS / FETCHERS) != threadIdx.x / FETCHERS)
            continue;
        for (int at = threadIdx.x % FETCHERS; at < km_ks[i] * D; at += FETCHERS)
            shared.centroids[km_k_layouts[i].sum_row * D + at] = from[km_offsets[i] * D + at];
    }
    __syncthreads(); // its launch is known
    for (int i = threadIdx.x; i < 8 * launch.score_rows * 4; i += PREPARERS) {
        const int quad = i / 4 / launch.score_rows, score_row = i / 4 % launch.score_rows;
        km_clear_row(shared, quad, score_row, i % 4);
        shared.sum_row[quad][score_row] = -1;
    }
    for (int i = threadIdx.x; i < 8; i += PREPARERS) {
        shared.k_index[0][i] = shared.k_index[1][i] = -1;
        shared.same_k[0][i] = shared.same_k[1][i] = shared.same_k[2][i] = shared.same_k[3][i] = 0;
    }
    km_clear_prepared(shared, args);
    __syncthreads();
    if (stop) return;
    const bool active = km_prepare_all(shared);
    if (threadIdx.x == 0) shared.any_active = active;
    __syncthreads();
    uint4 *to = (uint4 *)km_prepared_of(args, launch.index);
    for (int i = threadIdx.x; i < (int)(sizeof(km_prepared) / sizeof(uint4)); i += PREPARERS)
        to[i] = km_memory[i];
}

// So few blocks need not share a multiprocessor: without the 1 compilers aim at several, and spill.
extern "C" __global__ void __launch_bounds__(PREPARERS, 1)
    km_tensor_prepare(const __grid_constant__ km_pass_args args) {
    km_prepare_launch(args);
}

// ==== What the launches of a pass share ====================================================================
// Compiled apart: pass/launches
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_block(km_block<LAUNCH> &shared, const km_pass_args &) {
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS * ROW; i += BLOCK)
        shared.low[0][i] = shared.high[0][i] = 0;
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS; i += BLOCK) shared.counts[i] = 0;
    for (int i = threadIdx.x; i < KS; i += BLOCK) shared.changes[i] = 0;
}

// Fills the shared memory of a block. False: no K of the launch is active, or the fit has stopped.
template <typename LAUNCH>
static __device__ __forceinline__ bool km_begin_block(km_block<LAUNCH> &shared, const km_pass_args &args) {
    const int stop = args.control->stop; // read now and tested later: one wait for all reads
    const uint4 *from = (const uint4 *)km_prepared_of(args, LAUNCH::INDEX);
#pragma unroll 4
    for (int i = threadIdx.x; i < (int)(sizeof(km_prepared) / sizeof(uint4)); i += BLOCK)
        ((uint4 *)&shared)[i] = from[i];
    km_clear_block(shared, args);
    __syncthreads();
    return !stop && shared.any_active;
}

// Ambiguous points -------------------------------------------------------------------------------------------

struct km_point_k {
    int point, k_index;
};

// An entry of the queue holds the index of the point in its tile, and the index of the K << 5.
template <typename LAUNCH>
static __device__ __forceinline__ km_point_k km_unpack(const km_block<LAUNCH> &, const km_queue_entry &item) {
    return {item.point_and_k % 32, item.point_and_k >> 5};
}

template <typename LAUNCH>
static __device__ __forceinline__ const float *km_exact_centroids(const km_block<LAUNCH> &,
                                                                  const km_pass_args &args, int k_index) {
    return (const float *)args.centroids + ((long long)blockIdx.y * S + km_offsets[k_index]) * D;
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_add_exact(km_block<LAUNCH> &shared, int row, int f,
                                                    long long number) {
    const unsigned low = (unsigned)(number + BIAS), before = atomicAdd(&shared.low[row][f], low);
    atomicAdd(&shared.high[row][f], (unsigned)((number + BIAS) >> 32) + (before + low < before));
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_add_count(km_block<LAUNCH> &shared, int row) {
    atomicAdd(&shared.counts[row], 1u);
}

static __device__ __forceinline__ double km_square(const float *x, const float *c) {
    double square = 0;
#pragma unroll 4
    for (int f = 0; f < D; f++) {
        const double away = (double)x[f] - (double)c[f];
        square = fma(away, away, square);
    }
    return square;
}

// The nearest centroid in double. Most centroids are told apart in float, where a square is off by less than
// 2^-21 (D + 4) of itself, unless it is very small.
static __device__ __forceinline__ int km_find_nearest(const float *x, const float *c, int k) {
    constexpr float WIDER = 1 + (D + 4) * 0x1p-20f, LEAST = 1e-36f, FARTHEST = 3.4e38f;
    float own[D], smallest = FARTHEST, second = FARTHEST, third = FARTHEST;
    int label = 0, other = 0;
    KM_UNROLL_FOR (int f = 0; f < D; f++)
        own[f] = x[f]; // in registers: lanes' points are far apart in memory
#pragma unroll 4
    for (int j = 0; j < k; j++) {
        float square = 0;
        KM_UNROLL_FOR (int f = 0; f < D; f++) {
            const float away = own[f] - c[j * D + f];
            square = fmaf(away, away, square);
        }
        third = fminf(third, fmaxf(square, second));
        other = square < smallest ? label : square < second ? j : other;
        second = fminf(second, fmaxf(square, smallest));
        label = square < smallest ? j : label;
        smallest = fminf(smallest, square);
    }
    const float limit = smallest * WIDER + LEAST;
    if (second > limit) return label;
    if (third > limit) {
        const double a = km_square(x, c + label * D), b = km_square(x, c + other * D);
        return a < b || (a == b && label < other) ? label : other;
    }
    double least = 1e308;
    KM_UNROLL_1_FOR (int j = 0; j < k; j++) {
        const double square = km_square(x, c + j * D);
        label = square < least ? j : label;
        least = fmin(square, least);
    }
    return label;
}

// Resolves up to 32 points at the end of the warp's queue, a lane each, and adds them to the sums. Returns how many are
// left.
template <typename LAUNCH>
static __device__ __forceinline__ int km_resolve(km_block<LAUNCH> &shared, const km_pass_args &args,
                                                 int queued) {
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, count = queued < 32 ? queued : 32;
    __syncwarp();
    const km_queue_entry entry = warp.queue[queued - count + (lane < count ? lane : 0)];
    __syncwarp();
    queued -= count;
    const km_point_k unpacked = km_unpack(shared, entry);
    const long long point = (long long)entry.tile * TILE + unpacked.point;
    if (point >= args.n || lane >= count) return queued;
    const float *x = (const float *)args.points + point * D;
    const int label =
        km_find_nearest(x, km_exact_centroids(shared, args, unpacked.k_index), km_ks[unpacked.k_index]);
    const int at = blockIdx.y * KS + unpacked.k_index;
    km_label *stored = (km_label *)args.labels + at * args.labels_stride + point;
    if (args.labels && *stored != label) {
        *stored = (km_label)label;
        atomicAdd(args.changes + at, 1ull);
    }
    const int row = km_k_layouts[unpacked.k_index].sum_row + label;
#pragma unroll RESOLVE_AHEAD
    for (int f = 0; f < D; f++)
        km_add_exact(shared, row, f, __double2ll_rn((double)x[f] * shared.lattice_scale[f]));
    km_add_count(shared, row);
    return queued;
}

// What a warp keeps from tile to tile.
// Permutes bytes: four of the eight bytes of a and b, or their signs. Each hexadecimal digit of WHICH selects one.
template <unsigned WHICH> static __device__ __forceinline__ unsigned km_prmt(unsigned a, unsigned b) {
    unsigned bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(WHICH));
    return bytes;
}

// The same number, hidden from the compiler's analysis: it neither keeps an earlier result in a register nor computes
// it again.
static __device__ __forceinline__ unsigned km_opaque(unsigned number) {
    unsigned kept;
    asm volatile("mov.b32 %0, %1;" : "=r"(kept) : "r"(number));
    return kept;
}

// Matrix products of a warp: a has 16 rows, b 8 columns, `sums` and `start` are 16 x 8. Lane 4 g + t has rows g and
// g + 8 of a; column g of b; rows g and g + 8 of sums, columns 2 t and 2 t + 1.

// sums = a b + start: 16 products of halves each, added in float.
static __device__ __forceinline__ void km_mma_f16(float *sums, const unsigned *a, const unsigned *b,
                                                  const float *start) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=f"(sums[0]), "=f"(sums[1]), "=f"(sums[2]), "=f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "f"(start[0]), "f"(start[1]),
          "f"(start[2]), "f"(start[3]));
}

// Reads four 8 x 8 matrices of halves as operands of products. Lane l gives the address, in shared memory, of row
// l % 8 of matrix l / 8.
static __device__ __forceinline__ void km_ldmatrix_x4(unsigned *matrices, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(row));
}

static __device__ __forceinline__ unsigned km_half2_add(unsigned a, unsigned b) {
    unsigned sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

// 1 where a > b, else 0, each half by itself.
static __device__ __forceinline__ unsigned km_half2_gt(unsigned a, unsigned b) {
    unsigned answer;
    asm("set.gt.f16x2.f16x2 %0, %1, %2;" : "=r"(answer) : "r"(a), "r"(b));
    return answer;
}

// a b + c.
static __device__ __forceinline__ unsigned km_half2_fma(unsigned a, unsigned b, unsigned c) {
    unsigned sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

static __device__ __forceinline__ unsigned km_read_shared(unsigned address) {
    unsigned word;
    asm volatile("ld.shared.u32 %0, [%1];" : "=r"(word) : "r"(address));
    return word;
}

static __device__ __forceinline__ uint4 km_read_shared_4(unsigned address) {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(address));
    return words;
}

// The larger halves. They must not be negative: then they compare like the integers of their bits.
static __device__ __forceinline__ unsigned km_half2_max(unsigned a, unsigned b) {
    unsigned larger;
    asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
}

// The largest score of each K, for the points of one column: largest[0] of the first segment, largest[1] of the second.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_largest(unsigned *largest, const unsigned (*scores)[WIDTH],
                                                       int c, const unsigned *same_k) {
    if (int(LAUNCH::FIRST_ROWS) < int(LAUNCH::SCORE_ROWS)) {
        unsigned other = scores[LAUNCH::FIRST_ROWS % LAUNCH::SCORE_ROWS][c];
        KM_UNROLL_FOR (int s = LAUNCH::FIRST_ROWS + 1; s < LAUNCH::SCORE_ROWS; s++)
            other = km_half2_max(other, scores[s][c]);
        largest[0] = scores[0][c];
        KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST_ROWS; s++)
            largest[0] = km_half2_max(largest[0], scores[s][c]);
        largest[0] = km_half2_max(largest[0], other & same_k[0]);
        largest[1] = (largest[0] & same_k[0]) | (other & ~same_k[0]);
    } else {
        largest[0] = largest[1] = scores[0][c];
        KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST_ROWS; s++)
            largest[0] = km_half2_max(largest[0], scores[s][c]);
    }
    KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
        largest[0] =
            km_half2_max(largest[0], __shfl_xor_sync(ALL, largest[0], 4 << level) & same_k[1 + level]);
}

// The lane's number, computed again: no address is worth a register while there are scores.
static __device__ __forceinline__ unsigned km_lane() {
    return km_opaque(threadIdx.x % 32);
}

// The scores of a row tile, two points in a register.
template <typename LAUNCH>
static __device__ __forceinline__ void km_score(unsigned (*scores)[WIDTH], const km_block<LAUNCH> &shared,
                                                int tile, const unsigned (*points)[WIDTH][2]) {
    float sums[WIDTH][4];
    const unsigned lane = threadIdx.x % 32;
    const float4 start = *(const float4 *)&shared.starts[tile][lane / 4];
    const float starts[4] = {start.x, start.y, start.z, start.w};
    KM_UNROLL_FOR (int k = 0; k < EIGHTS; k++) {
        const uint4 fragment = shared.fragments[tile][k][lane];
        const unsigned a[4] = {fragment.x, fragment.y, fragment.z, fragment.w};
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            km_mma_f16(sums[c], a, points[k / 2][c], k ? sums[c] : starts);
    }
    KM_UNROLL_FOR (int r = 0; r < 2; r++)
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            scores[r][c] =
                km_prmt<0x6521>(__float_as_uint(sums[c][2 * r]), __float_as_uint(sums[c][2 * r + 1]));
}

// Adds the codes of candidates, for the points of each column: 256 + 32 quad + score_row.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_candidates(unsigned *codes, const km_block<LAUNCH> &shared,
                                                          unsigned tile) {
    const unsigned reader = km_lane(), second = EIGHTS > 1 ? reader / 8 % 2 * TILE : 0;
    const unsigned row = tile + (reader % 8 + reader / 16 * 8 + second) * (unsigned)sizeof(uint4);
    KM_UNROLL_FOR (int first = 0; first < 4; first += WIDTH) {
        // Operands of points: 16 features, or 8 twice.
        unsigned scores[LAUNCH::SCORE_ROWS][WIDTH], points[(EIGHTS + 1) / 2][WIDTH][2];
        if (first > 0) __syncwarp(); // one half at a time
        KM_UNROLL_FOR (int i = 0; i < (EIGHTS + 1) / 2; i++)
            KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2)
                km_ldmatrix_x4(points[i][c],
                               row + (2 * i * TILE + 8 * (first + c)) * (unsigned)sizeof(uint4));
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) km_score(scores + 2 * i, shared, i, points);
        const unsigned lane = km_lane();
        const uint4 read =
            km_read_shared_4(tile + lane % 4 * (unsigned)sizeof(uint4) +
                             (unsigned)(sizeof(uint4[EIGHTS][TILE]) + sizeof(unsigned[D][TILE])));
        const unsigned errors[4] = {read.x, read.y, read.z, read.w};
        const km_margin margin = shared.margin[lane / 4];
        unsigned same_k[4];
        KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
            same_k[1 + level] = shared.same_k[1 + level][lane / 4];
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) {
            unsigned largest[2], sum = 0;
            km_find_largest<LAUNCH>(largest, scores, c, same_k);
            // The largest score that is too small for a candidate.
            const unsigned limit =
                largest[0] + LIMIT_BASE - km_half2_fma(errors[first + c], margin.slope, margin.least);
            KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++) {
                constexpr unsigned STEP = 0x40004; // 1 where units are 1/4
                sum = km_half2_fma(km_half2_gt(scores[s][c], limit), ONE_CANDIDATE * 0x10001 + s * STEP, sum);
            }
            sum = km_half2_fma(km_half2_gt(sum, 0), margin.quad_code, sum);
            KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
                sum = km_half2_add(sum, __shfl_xor_sync(ALL, sum, 4 << level) & same_k[1 + level]);
            codes[first + c] = sum;
        }
    }
}

// Adds a point's integers to a row of the block's sums. Each lane begins with another feature, to avoid conflicts
// between points of the same cluster, or of rows that begin in the same bank.
template <typename LAUNCH>
static __device__ __forceinline__ void km_add_point(km_block<LAUNCH> &shared, int row, unsigned numbers) {
    constexpr int AHEAD = D < 8 ? D : 8; // features at a time, so that atomics overlap
    unsigned f = km_lane() % D, at[AHEAD], number[AHEAD], before[AHEAD];
    KM_UNROLL_FOR (int first = 0; first < D; first += AHEAD) {
        KM_UNROLL_FOR (int i = 0; i < AHEAD && first + i < D; i++) {
            at[i] = f;
            number[i] = km_read_shared(numbers + f * (unsigned)sizeof(unsigned[TILE]));
            f = f + 1 < D ? f + 1 : 0;
        }
        KM_UNROLL_FOR (int i = 0; i < AHEAD && first + i < D; i++)
            before[i] = atomicAdd(&shared.low[row][at[i]], number[i]);
        KM_UNROLL_FOR (int i = 0; i < AHEAD && first + i < D; i++)
            if (before[i] > ~number[i]) atomicAdd(&shared.high[row][at[i]], 1u);
    }
    atomicAdd(&shared.counts[row], 1u);
}

// Adds the ambiguous points and outliers of one K to the queue.
template <typename LAUNCH>
static __device__ __forceinline__ void km_defer(km_block<LAUNCH> &shared, const km_pass_args &args,
                                                bool ambiguous, int tile, int k_index) {
    const unsigned lanes = __ballot_sync(ALL, ambiguous);
    if (!lanes) return;
    const int lane = (int)km_lane();
    km_warp &warp = shared.warps[threadIdx.x / 32];
    int queued = warp.queued;
    if (ambiguous) warp.queue[queued + __popc(lanes & ~(ALL << lane))] = {tile, lane | k_index << 5};
    queued += __popc(lanes);
    if (queued >= 32) queued = km_resolve(shared, args, queued);
    __syncwarp(); // all lanes have read it
    if (lane == 0) warp.queued = queued;
    __syncwarp();
}

// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    unsigned ring; // shared address of its first tile
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_begin_warp(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                     const km_pass_args &, unsigned ring, int, int) {
    state.ring = ring;
    if (threadIdx.x % 32 == 0) shared.warps[threadIdx.x / 32].queued = 0;
}

// Labels and adds the points of a tile, which is `stage` bytes behind the first one of the ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_assign_tile(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                      const km_pass_args &args, unsigned stage, int tile) {
    const unsigned address = state.ring + stage;
    unsigned codes[4]; // sums of codes of column c: points 8 c + 2 t and the next, t = lane % 4
    km_find_candidates<LAUNCH>(codes, shared, address);
    const int lane = (int)km_lane();
    const unsigned numbers = address + (unsigned)(sizeof(uint4[EIGHTS][TILE]) + lane * sizeof(unsigned));
    const bool has_outlier = km_read_shared(numbers) == ALL;
    KM_UNROLL_1_FOR (int i = 0; i < shared.active_count; i++) { // from here on a lane has one point
        const km_active_k own = shared.active_ks[i];
        unsigned code = 0;
        KM_UNROLL_FOR (int c = 0; c < 4; c++) {
            const unsigned of_column = __shfl_sync(ALL, codes[c], own.quad * 4 + lane % 8 / 2);
            code = lane / 8 == c ? of_column : code;
        }
        code = ((lane % 2 ? code >> 16 : code & 0xffff) - ONE_CANDIDATE) / 4;
        const bool ambiguous = has_outlier || code >= 256;
        if (!ambiguous) {
            const int row = shared.sum_row[own.quad + code / 32][code % 32];
            km_label *stored = (km_label *)args.labels +
                               (blockIdx.y * KS + own.k_index) * args.labels_stride + tile * (long long)TILE +
                               lane;
            if (args.labels && *stored != row - own.sum_row) {
                *stored = (km_label)(row - own.sum_row);
                atomicAdd(&shared.changes[own.k_index], 1u);
            }
            km_add_point(shared, row, numbers);
        }
        km_defer(shared, args, ambiguous, tile, own.k_index);
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_end_warp(km_state<LAUNCH> &, km_block<LAUNCH> &shared,
                                                   const km_pass_args &args) {
    __syncwarp();
    int queued = shared.warps[threadIdx.x / 32].queued;
    while (queued > 0) queued = km_resolve(shared, args, queued);
}

template <typename LAUNCH>
static __device__ __forceinline__ auto km_tile_source(const km_block<LAUNCH> &, const km_pass_args &args) {
    return [&args](int tile) {
        return (const uint4 *)km_tiles(args) + threadIdx.x % 32 + tile * (long long)TILE_SIZE;
    };
}

// The loop ---------------------------------------------------------------------------------------------------

// Starts to copy 16 bytes to shared memory, past the L1 cache.
static __device__ __forceinline__ void km_copy_16(unsigned to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Closes a group of the thread's copies.
static __device__ __forceinline__ void km_copy_commit() {
    asm volatile("cp.async.commit_group;");
}

// Waits until all groups of copies but the last LEFT are done.
template <int LEFT> static __device__ __forceinline__ void km_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

static __device__ __forceinline__ unsigned km_shared_address(const void *at) {
    return (unsigned)__cvta_generic_to_shared(at);
}

// Starts to copy a tile to shared memory. `from` is the address of the lane's first 16 bytes.
static __device__ __forceinline__ void km_copy_tile(unsigned to, const uint4 *from) {
    to += km_opaque(threadIdx.x % 32) *
          (unsigned)sizeof(uint4); // computed again: not worth a register from tile to tile
    KM_UNROLL_FOR (int i = 0; i < TILE_SIZE; i += 32)
        if (i + 32 <= TILE_SIZE || (int)(threadIdx.x % 32) < TILE_SIZE - i)
            km_copy_16(to + i * (int)sizeof(uint4), from + i);
}

// Processes a warp's tiles, one after the other, through its ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_process_tiles(km_block<LAUNCH> &shared, const km_pass_args &args) {
    constexpr int STRIDE = GRID * WARPS;
    constexpr unsigned TILE_BYTES = sizeof(km_tile);
    const int tiles = (int)km_tiles_count(args);
    int tile = blockIdx.x * WARPS + threadIdx.x / 32;
    const auto from = km_tile_source(shared, args);
    const uint4 *first_tile = (const uint4 *)shared.warps[threadIdx.x / 32].ring;
    const unsigned ring = km_opaque(km_shared_address(first_tile));
    km_state<LAUNCH> state;
    km_begin_warp(state, shared, args, ring, tile, tiles);
    unsigned stage = 0; // offset in the ring, in bytes
    KM_UNROLL_FOR (int s = 0; s < STAGES - 1; s++) {
        if (tile + s * STRIDE < tiles) km_copy_tile(ring + s * TILE_BYTES, from(tile + s * STRIDE));
        km_copy_commit();
    }
    while (tile < tiles) {
        for (int since_flush = 0; since_flush < FLUSH_TILES && tile < tiles; since_flush++, tile += STRIDE) {
            km_copy_wait<STAGES - 2>();
            __syncwarp();
            const int ahead = tile + (STAGES - 1) * STRIDE;
            const unsigned before = stage > 0 ? stage - TILE_BYTES : (STAGES - 1) * TILE_BYTES;
            if (ahead < tiles) km_copy_tile(ring + before, from(ahead));
            km_copy_commit();
            km_assign_tile(state, shared, args, stage, tile);
            stage = stage < (STAGES - 1) * TILE_BYTES ? stage + TILE_BYTES : 0;
        }
    }
    km_end_warp(state, shared, args);
}

// Writes the block's sums to the workspace, without the bias.
template <typename LAUNCH>
static __device__ __forceinline__ void km_write_block_sums(const km_block<LAUNCH> &shared,
                                                           const km_pass_args &args) {
    __syncthreads();
    for (int i = 0; i < shared.active_count; i++) {
        const km_active_k own = shared.active_ks[i];
        long long *to = (long long *)km_sums_of(args, blockIdx.x) + km_offsets[own.k_index] * (D + 1);
        for (int at = threadIdx.x; at < km_ks[own.k_index] * (D + 1); at += BLOCK) {
            const int row = own.sum_row + at / (D + 1), f = at % (D + 1);
            const long long count = shared.counts[row];
            to[at] =
                f < D ? ((long long)shared.high[row][f] << 32 | shared.low[row][f]) - count * BIAS : count;
        }
        if (threadIdx.x == 0 && shared.changes[own.k_index])
            atomicAdd(args.changes + blockIdx.y * KS + own.k_index,
                      (unsigned long long)shared.changes[own.k_index]);
    }
}

// One launch: a part of the K list.
template <typename LAUNCH> static __device__ __forceinline__ void km_run_launch(const km_pass_args &args) {
    extern __shared__ uint4 km_memory[];
    km_block<LAUNCH> &shared = *(km_block<LAUNCH> *)km_memory;
    if (!km_begin_block(shared, args)) return;
    km_process_tiles(shared, args);
    km_write_block_sums(shared, args);
}

// ==== Launch 0 =============================================================================================
// Compiled apart: pass/launches/0
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tensor_0(const __grid_constant__ km_pass_args args) {
    km_run_launch<km_launch_0>(args);
}

// ==== The totals of a pass =================================================================================
// Compiled apart: pass/rest
// Adds a column over the blocks, as integers; rounds once, to double.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int column = blockIdx.x * REDUCE + threadIdx.x, f = column % (D + 1);
    int k_index = 0;
    while (k_index + 1 < KS && km_offsets[k_index + 1] * (D + 1) <= column) k_index++;
    if (args.control->stop || column >= COLUMNS || !args.active[blockIdx.y * KS + k_index]) return;
    long long sum = 0;
#pragma unroll 16
    for (int block = 0; block < GRID; block++) sum += (long long)km_sums_of(args, block)[column];
    args.totals[(long long)blockIdx.y * COLUMNS + column] =
        f < D ? (double)sum * km_power_of_2(km_exponents(args)[f] - BITS) : (double)sum;
}
constexpr int REDUCE_GRID = (COLUMNS + REDUCE - 1) / REDUCE;

extern "C" {
__device__ km_pass_facts km_pass = {
    KM_ABI_VERSION,
    LAUNCHES + 5 + (DISTINCT_BYTES > 0),
    8LL * RESTARTS *COLUMNS *GRID + DISTINCT_BYTES + 4LL * D *(1 + BINS) + PREPARED_BYTES +
        (sizeof(km_tile) + 4) * STEP_TILES + 768,
    sizeof(km_tile) / TILE + 1,
    0,
    8LL * RESTARTS *COLUMNS *GRID + DISTINCT_BYTES + 4LL * D *(1 + BINS) + 8 * NORMS,
};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tensor_histogram", KM_STAGE_LOAD, 8 * GRID, 1, 256, 0, 0},
    {"km_tensor_lattice", KM_STAGE_LOAD, 1, 1, 256, 0, 0},
    {"km_tensor_tiles", KM_STAGE_LOAD, 48 * GRID, 1, 256, 0, 0}, // many blocks, so that they end together
    {"km_tensor_prepare", KM_STAGE_PASS, LAUNCHES *DISTINCT_PARTS, RESTARTS, PREPARERS,
     sizeof(km_preparation), 0},
    {"km_tensor_0", KM_STAGE_PASS, GRID, RESTARTS, BLOCK, sizeof(km_block<km_launch_0>), 0},
    {"km_reduce", KM_STAGE_PASS, REDUCE_GRID, RESTARTS, REDUCE, 0, 0},
};
}
// ==== The steps around the pass ============================================================================
// Steps around the pass, the same for every design. What is compiled apart knows neither the list of K nor the design.
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
    KM_SLOT_DONE     // Evaluated: inertia, weights and centroids belong together.
} km_slot_phase;

// A slot after a pass and its update. The inertia is that of the centroids that the last pass used. It is made of the
// sums, in double: total_square + sum_j (n_j |c_j|^2 - 2 c_j . S_j).
typedef struct km_slot_state {
    km_slot_phase phase;
    int converged;         // Stopped by shift or changes, not by max_iter.
    int at_limit;          // max_iter is reached: the next pass is the last.
    int is_updated;        // The last pass was followed by an update; not one that evaluated final centroids.
    long long iterations;  // Updates of this run so far.
    long long empty_count; // Clusters without weight in the last pass.
    double inertia;
    double shift; // Of the last update.
} km_slot_state;

// What a pass found of a slot, and its update did.
typedef struct km_slot_found {
    double inertia;        // by the sums: rounding may leave it below 0
    double shift;          // of the update; a slot that evaluates its final centroids has none
    long long empty_count; // clusters without weight ...
    int relocatable;       // ... some of which relocation may give a point
    int few_changes;       // fewer labels changed than the run goes on for
} km_slot_found;

KM_BOTH int km_slot_is_active(km_slot_phase phase) {
    return phase == KM_SLOT_RUNNING || phase == KM_SLOT_LAST;
}

// What becomes of an active slot after a pass.
KM_BOTH void km_slot_decide(km_slot_state *slot, const km_slot_found *found, double shift_max,
                            long long max_iter) {
    slot->inertia = found->inertia > 0.0 ? found->inertia : 0.0;
    slot->empty_count = found->empty_count;
    slot->is_updated = slot->phase != KM_SLOT_LAST;
    if (!slot->is_updated) {
        slot->phase = found->relocatable ? KM_SLOT_EMPTY : KM_SLOT_DONE;
        if (found->relocatable) slot->converged = 0; // it goes on
        return;
    }
    slot->shift = found->shift;
    slot->iterations += 1;
    slot->at_limit = slot->iterations >= max_iter;
    if (found->relocatable) {
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
    KM_SILHOUETTE_MODELS = 16,      // of a launch, at most: so many sums fit the shared memory of every device
    KM_UPDATE_NUMBERS = 2048,       // coordinates of a slot's centroids that a block of km_update computes ...
    KM_UPDATE_PARTS_MAX = 64        // ... and the most blocks of a slot
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
        *given_up;                                 // [restarts][S]: clusters for which relocation found no point: they may stay empty
    unsigned long long *changes;                   // per slot, or NULL
    void *workspace, *constants[KM_CONSTANTS_MAX]; // as in km_pass_args
    const double *box;                             // likewise
    unsigned long long *report;                    // in the host's memory: passes done, and 2^32 when the loop stops; or NULL
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
        distance;      // [models][count]: to the centroid, or to the mean of the label; or NULL: roots of `nearest`
    const void *means; // rows of means like those of `table`, of the models that have some; not of CSR points
    const long long
        *mean_rows;           // per model: its first row of means, or -1; of CSR points a column; NULL: all -1
    unsigned char *kept;      // labels as bytes, by km_finish_few_clusters; NULL: no model's
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
// For several steps: sums over a block of threads, the weight of a point.
// Sums of COUNT values over a block of KM_THREADS threads, in a fixed order. Every thread gets them.
template <int COUNT> __device__ __forceinline__ void km_block_sums(double *values) {
    __shared__ double warps[COUNT][8];
    for (int step = 16; step > 0; step >>= 1)
        for (int i = 0; i < COUNT; i++) values[i] += __shfl_xor_sync(0xffffffffu, values[i], step);
    __syncthreads(); // all threads have read the sums of the call before
    for (int i = 0; i < COUNT; i++) {
        if (threadIdx.x % 32 == 0) warps[i][threadIdx.x / 32] = values[i];
        values[i] = 0.0;
    }
    __syncthreads();
    for (int w = 0; w < 8; w++)
        for (int i = 0; i < COUNT; i++) values[i] += warps[i][w];
}

__device__ __forceinline__ double km_weight(const double *, long long) {
    return 1.0;
}
// For several steps: rows of points.
enum { KM_CHUNK_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK };

__device__ __forceinline__ int km_is_finite(double value) {
    return fabs(value) <= 1.7976931348623157e308;
}

// Points of few features are in registers as a whole; of others, STEP_FEATURES features at a time are. Both are read by
// the widest loads that the alignment of a row allows.
constexpr bool STEP_ROW_IN_REGISTERS = D <= 16;
constexpr int STEP_FEATURES = STEP_ROW_IN_REGISTERS ? int(D) : int(32 / sizeof(km_real));
constexpr int STEP_ALIGN = D * sizeof(km_real) % 16 == 0  ? 16
                           : D * sizeof(km_real) % 8 == 0 ? 8
                                                          : int(sizeof(km_real));
struct __align__(STEP_ALIGN) step_features {
    km_real at[STEP_FEATURES];
};

// Features f ... of a row; zeros behind the last.
__device__ __forceinline__ void step_load(km_real *x, const km_real *row, int f) {
    if constexpr (D % STEP_FEATURES == 0) {
        const step_features features = *(const step_features *)(row + f);
#pragma unroll
        for (int g = 0; g < STEP_FEATURES; g++) x[g] = features.at[g];
    } else {
#pragma unroll
        for (int g = 0; g < STEP_FEATURES; g++) x[g] = f + g < D ? row[f + g] : (km_real)0;
    }
}

// Where a thread looks for the nearest centroid.
enum {
    FINISH_POINTS = D * sizeof(km_real) <= 16 ? 4 : 2, // points of a thread at a time
    FINISH_ROWS = STEP_ROW_IN_REGISTERS ? 1 : 4        // centroids for each read of the points' features
};

// Adds the squared distances of points x[0], x[1], ... to rows j, j + 1, ... of `table`, which has k, and to row j in
// place of those behind the last. `here` are the points' features: all where a row is in registers.
__device__ __forceinline__ void finish_add_squares(km_real (*square)[FINISH_POINTS],
                                                   km_real (*here)[STEP_FEATURES], const km_real *const *x,
                                                   const km_real *table, int j, int k) {
    for (int f = 0; f < D; f += STEP_FEATURES) {
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++)
            if (!STEP_ROW_IN_REGISTERS) step_load(here[p], x[p], f);
#pragma unroll
        for (int r = 0; r < FINISH_ROWS; r++) {
            km_real centroid[STEP_FEATURES];
            step_load(centroid, table + (long long)(j + r < k ? j + r : j) * D, f);
#pragma unroll
            for (int g = 0; g < STEP_FEATURES; g++)
#pragma unroll
                for (int p = 0; p < FINISH_POINTS; p++) {
                    const km_real t = here[p][g] - centroid[g];
                    square[r][p] = fma(t, t, square[r][p]);
                }
        }
    }
}
// For steps of many features: a block has a tile of points in shared memory, and rows of centroids beside it, a slab of
// the features of both at a time. A warp computes the squared distances of all points of the tile to eight rows, in
// registers, and writes them to shared memory.
enum {
    TILE_POINTS = KM_TILE_POINTS(sizeof(km_real)),
    TILE_GROUPS = TILE_POINTS / 32,                          // of 32 points
    TILE_SLABS = KM_TILE_SLABS(D, sizeof(km_real)),          // pieces of a row
    TILE_WIDTH = KM_TILE_WIDTH(D, sizeof(km_real)),          // features of a slab; those behind the last are 0
    TILE_PITCH = KM_TILE_PITCH(TILE_WIDTH, sizeof(km_real)), // of rows in shared memory: no bank conflicts
    TILE_VECTOR = 16 / sizeof(km_real),
    TILE_PIECE_POINTS = KM_FINISH_PIECE_POINTS(D), // of a block
    TILE_AT_ONCE = 8,                              // rows that a warp reads at a time
    TILE_PIECE = STEP_ALIGN / sizeof(km_real)      // features that are copied at a time
};

struct __align__(16) tile_features {
    km_real at[TILE_VECTOR];
};

// So many bytes from the beginning of dynamic shared memory, where the slab of the points is.
template <typename Item> __device__ __forceinline__ Item *tile_at(int bytes) {
    extern __shared__ double tile_memory[];
    return (Item *)((char *)tile_memory + bytes);
}

// Starts to copy a piece to shared memory; zeros where not `valid`.
__device__ __forceinline__ void tile_copy(km_real *to, const km_real *from, bool valid) {
    const unsigned address = (unsigned)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(from), "n"(STEP_ALIGN),
                 "r"(valid ? STEP_ALIGN : 0)
                 : "memory");
}

__device__ __forceinline__ void tile_wait() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Copies a slab of `count` rows, of which `valid_count` are there.
__device__ __forceinline__ void tile_copy_slab(km_real *to, const km_real *from, int count, int valid_count,
                                               int slab) {
    constexpr int PIECES = TILE_WIDTH / TILE_PIECE;
    for (int i = threadIdx.x; i < count * PIECES; i += blockDim.x) {
        const int row = i / PIECES, f = i % PIECES * TILE_PIECE, at = slab * TILE_WIDTH + f;
        const bool valid = row < valid_count && at < D;
        tile_copy(to + row * TILE_PITCH + f, valid ? from + row * (long long)D + at : from, valid);
    }
}

// Adds a slab to squared distances of a lane's points to the warp's rows, from `row` on; also to some behind `rows`,
// which are not there. A branch keeps compilers from reading more rows than TILE_AT_ONCE.
__device__ __forceinline__ void tile_add_slab(km_real (*square)[TILE_GROUPS], int rows_at, int row,
                                              int rows) {
    const km_real *points = tile_at<km_real>(0) + threadIdx.x % 32 * TILE_PITCH;
    const km_real *table = tile_at<km_real>(rows_at) + row * TILE_PITCH;
#pragma unroll 1
    for (int f = 0; f < TILE_WIDTH; f += TILE_VECTOR) {
        tile_features x[TILE_GROUPS];
#pragma unroll
        for (int p = 0; p < TILE_GROUPS; p++)
            x[p] = *(const tile_features *)(points + p * (32 * TILE_PITCH) + f);
#pragma unroll
        for (int r = 0; r < KM_TILE_WARP_ROWS; r++) {
            if (r > 0 && r % TILE_AT_ONCE == 0 && row + r >= rows) break;
            const tile_features c = *(const tile_features *)(table + r * TILE_PITCH + f);
#pragma unroll
            for (int g = 0; g < TILE_VECTOR; g++)
#pragma unroll
                for (int p = 0; p < TILE_GROUPS; p++) {
                    const km_real t = x[p].at[g] - c.at[g];
                    square[r][p] = fma(t, t, square[r][p]);
                }
        }
    }
}

// Writes them: of the rows that there are.
__device__ __forceinline__ void tile_write_squares(const km_real (*square)[TILE_GROUPS], int squares_at,
                                                   int row, int rows) {
    km_real *out = tile_at<km_real>(squares_at) + row * TILE_POINTS + threadIdx.x % 32;
#pragma unroll
    for (int r = 0; r < KM_TILE_WARP_ROWS; r++)
#pragma unroll
        for (int p = 0; p < TILE_GROUPS; p++)
            if (row + r < rows) out[r * TILE_POINTS + p * 32] = square[r][p];
}

// Writes the squared distances of the tile's points, of which `left` are there, to the job's rows from `start` on.
// copy_rows copies a slab of these; where rows and points are kept, both are there. Then points are no longer used.
template <typename Job, typename Copy>
__device__ __forceinline__ void tile_find_squares(const Job &job, const km_real *tile, int left, int start,
                                                  bool is_kept, Copy copy_rows) {
    const int warp_row = threadIdx.x / 32 * KM_TILE_WARP_ROWS;
    const bool is_busy = warp_row < job.tile_rows && start + warp_row < job.rows;
    km_real square[KM_TILE_WARP_ROWS][TILE_GROUPS] = {};
    for (int slab = 0; slab < TILE_SLABS; slab++) {
        if (!is_kept) {
            if (TILE_SLABS > 1 || start == 0)
                tile_copy_slab(tile_at<km_real>(0), tile, TILE_POINTS, left, slab);
            copy_rows(slab);
        }
        tile_wait();
        __syncthreads();
        if (is_busy) tile_add_slab(square, job.rows_at, warp_row, job.rows - start);
        if (!is_kept) __syncthreads();
    }
    if (is_busy) tile_write_squares(square, job.squares_at, warp_row, job.rows - start);
    __syncthreads();
}

// A thread has one point of the tile, and every so many models, of which this is number i; or beyond the last.
__device__ __forceinline__ int tile_model(int i) {
    return threadIdx.x / TILE_POINTS + i * (blockDim.x / TILE_POINTS);
}

// Reduces the tables of chunks, `numbers` in each, in index order: adds them (kind 0), or takes the smallest (1) or the
// largest (2). A block reduces up to KM_REDUCED_NUMBERS numbers, from `column` to before `end`, a thread each, which
// begins with `number`. It reads a part of many tables to shared memory at a time.
__device__ __forceinline__ double step_reduce_chunks(double number, const double *partial, long long chunks,
                                                     long long numbers, long long column, long long end,
                                                     int kind) {
    constexpr int TABLES = KM_THREADS; // at a time
    __shared__ double piece[KM_REDUCED_NUMBERS][TABLES + 1];
    for (long long first = 0; first < chunks; first += TABLES) {
        const int here = (int)(chunks - first < TABLES ? chunks - first : TABLES);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < KM_REDUCED_NUMBERS; i++) {
            const int at = i * KM_THREADS + threadIdx.x, table = at / KM_REDUCED_NUMBERS,
                      c = at % KM_REDUCED_NUMBERS;
            if (table < here && column + c < end)
                piece[c][table] = partial[(first + table) * numbers + column + c];
        }
        __syncthreads();
        if (threadIdx.x >= KM_REDUCED_NUMBERS) continue;
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

// ==== Loading ==============================================================================================
// Compiled apart: load
// Load: statistics of the original points; then the points are centred and scaled. Sums are doubles over chunks of
// 65,536 points, and chunks are added in index order. In a chunk the layout of the threads fixes the order.

// Blocks a multiprocessor: without a bound the compiler aims at more, and spills. Rows that are in registers as a whole
// may be long: NVRTC 13.5 needs more than 64 registers for two of 32 bytes.
template <typename Raw>
constexpr int LOAD_BLOCKS = !STEP_ROW_IN_REGISTERS || D * sizeof(Raw) <= 16 ? 4
                            : D * sizeof(Raw) <= 64                         ? 3
                                                                            : 2;

constexpr int LOAD_FEATURES = int(D) < int(KM_THREADS) ? int(D) : int(KM_THREADS);
constexpr int LOAD_ROWS = KM_THREADS / LOAD_FEATURES;

// Value `a` of point i along an axis, by runtime/drawn.h: the host draws the same bits.
__device__ __forceinline__ double load_drawn(unsigned long long seed, unsigned long long set, long long i,
                                             int a, const double *low, const double *width) {
    const double u = km_draw(seed, set, (unsigned long long)i, (unsigned long long)a);
    return __fma_rn(u, width[a], low[a]);
}

// Original points that are drawn instead of copied, a value a thread. `axes` NULL: those of the features.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_draw(km_real *raw, long long n, unsigned long long seed, unsigned long long set,
                 const double *low, const double *width, const double *axes) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x, i = at / D;
    const int f = (int)(at - i * D);
    if (i >= n) return;
    double x = 0.0;
    if (axes) {
#pragma unroll 1
        for (int a = 0; a < D; a++)
            x = __fma_rn(axes[a * (long long)D + f], load_drawn(seed, set, i, a, low, width), x);
    } else {
        x = load_drawn(seed, set, i, f, low, width);
    }
    raw[at] = (km_real)x;
}

// One chunk and up to 256 features a block: partial[chunk][4][D] = sums of w (x - origin) and of w (x - origin)^2, the
// smallest and the largest value. *bad becomes the lowest index i * D + f of a value that is not finite.
template <typename Raw>
static __device__ void load_sums(const Raw *raw, const double *weights, long long n, const double *origins,
                                 double *partial, unsigned long long *bad) {
    __shared__ double sums[KM_THREADS], squares[KM_THREADS], lows[KM_THREADS], highs[KM_THREADS];
    const int column = threadIdx.x % LOAD_FEATURES, row = threadIdx.x / LOAD_FEATURES;
    const int f = blockIdx.y * LOAD_FEATURES + column;
    const long long first = blockIdx.x * (long long)KM_CHUNK_POINTS;
    const long long end = first + KM_CHUNK_POINTS < n ? first + KM_CHUNK_POINTS : n;
    double sum = 0.0, square = 0.0, low = 1.7976931348623157e308, high = -1.7976931348623157e308;
    unsigned long long bad_here = ~0ull;
    if (row < LOAD_ROWS && f < D) {
        const double origin = origins[f];
#pragma unroll 8
        for (long long i = first + row; i < end; i += LOAD_ROWS) {
            const double x = raw[i * D + f];
            if (!km_is_finite(x) && bad_here == ~0ull) bad_here = i * D + f;
            const double away = __dsub_rn(x, origin), weighted = __dmul_rn(km_weight(weights, i), away);
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
    km_load_sums_f32(const float *raw, const double *weights, long long n, const double *origins,
                     double *partial, unsigned long long *bad) {
    load_sums(raw, weights, n, origins, partial, bad);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<double>)
    km_load_sums_f64(const double *raw, const double *weights, long long n, const double *origins,
                     double *partial, unsigned long long *bad) {
    load_sums(raw, weights, n, origins, partial, bad);
}

// Reduces the chunks' statistics: out[4][D]. A block reduces numbers of one kind.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_reduce(const double *partial, long long chunks, double *out) {
    constexpr int EACH = (D + KM_REDUCED_NUMBERS - 1) / KM_REDUCED_NUMBERS;
    const int table = blockIdx.x / EACH, kind = table < 2 ? 0 : table - 1, end = (table + 1) * D;
    const int column = table * D + blockIdx.x % EACH * KM_REDUCED_NUMBERS, at = column + threadIdx.x;
    const double none = kind == 0 ? 0.0 : kind == 1 ? 1.7976931348623157e308 : -1.7976931348623157e308;
    const double number = step_reduce_chunks(none, partial, chunks, 4 * D, column, end, kind);
    if (threadIdx.x < KM_REDUCED_NUMBERS && at < end) out[at] = number;
}

// (x - centre) * factor in double, rounded once to the plan's type.
__device__ __forceinline__ km_real load_value(double x, int f, const double *centre, const double *factor) {
    return (km_real)__dmul_rn(__dsub_rn(x, __ldg(centre + f)), __ldg(factor + f));
}

template <typename Raw>
struct __align__(D * sizeof(Raw) % 16 == 0  ? 16
                 : D * sizeof(Raw) % 8 == 0 ? 8
                                            : sizeof(Raw)) load_row {
    Raw at[STEP_FEATURES];
};

// Centres and scales rows i, i + KM_THREADS, ... of few features, each in registers as a whole; returns their sum of
// w |x|^2. *bad becomes the lowest index i * D + f of a value that is not finite any more.
template <typename Raw>
__device__ __forceinline__ double load_rows(const Raw *raw, const double *weights, long long n,
                                            const double *centre, const double *factor, km_real *points,
                                            unsigned long long *bad, long long i) {
    constexpr int ROWS = D * sizeof(Raw) <= 16   ? 4
                         : D * sizeof(Raw) <= 32 ? 2
                                                 : 1; // that are being loaded at a time
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
                const double x = moved.at[f % STEP_FEATURES] =
                    load_value(rows[r].at[f % STEP_FEATURES], f, centre, factor);
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

// Centres and scales one subchunk a block, in place where the types agree, and writes its sum of w |x|^2.
template <typename Raw>
static __device__ void load_transform(const Raw *raw, const double *weights, long long n,
                                      const double *centre, const double *factor, km_real *points,
                                      unsigned long long *bad, double *subchunk_squares) {
    const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS;
    double sum = 0.0;
    if constexpr (STEP_ROW_IN_REGISTERS) {
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
    km_block_sums<1>(&sum);
    if (threadIdx.x == 0) subchunk_squares[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<float>)
    km_load_transform_f32(const float *raw, const double *weights, long long n, const double *centre,
                          const double *factor, km_real *points, unsigned long long *bad,
                          double *subchunk_squares) {
    load_transform(raw, weights, n, centre, factor, points, bad, subchunk_squares);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<double>)
    km_load_transform_f64(const double *raw, const double *weights, long long n, const double *centre,
                          const double *factor, km_real *points, unsigned long long *bad,
                          double *subchunk_squares) {
    load_transform(raw, weights, n, centre, factor, points, bad, subchunk_squares);
}

// The weight of each subchunk: how many points it has.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_weights(const double *, long long n, km_real *, double *subchunk_weights) {
    const long long subchunk = blockIdx.x * (long long)KM_THREADS + threadIdx.x,
                    left = n - subchunk * KM_SUBCHUNK_POINTS;
    if (left > 0)
        subchunk_weights[subchunk] = left < KM_SUBCHUNK_POINTS ? (double)left : (double)KM_SUBCHUNK_POINTS;
}

// Adds the sums of subchunks to those of chunks, and these to one number, in index order. One block.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_add(const double *subchunk_sums, long long subchunks, double *out) {
    __shared__ double sums[KM_THREADS];
    const long long chunks_count = (subchunks + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    double total = 0.0;
    for (long long first = 0; first < chunks_count; first += KM_THREADS) {
        const long long subchunk = (first + threadIdx.x) * KM_SUBCHUNKS_PER_CHUNK;
        double sum = 0.0;
        if (subchunk + KM_SUBCHUNKS_PER_CHUNK <= subchunks) {
            double2 pairs[KM_SUBCHUNKS_PER_CHUNK / 2]; // all loads at a time
#pragma unroll
            for (int u = 0; u < KM_SUBCHUNKS_PER_CHUNK / 2; u++)
                pairs[u] = ((const double2 *)(subchunk_sums + subchunk))[u];
#pragma unroll
            for (int u = 0; u < KM_SUBCHUNKS_PER_CHUNK / 2; u++)
                sum = __dadd_rn(__dadd_rn(sum, pairs[u].x), pairs[u].y);
        } else {
            for (int u = 0; subchunk + u < subchunks; u++) sum = __dadd_rn(sum, subchunk_sums[subchunk + u]);
        }
        sums[threadIdx.x] = sum;
        __syncthreads();
        const long long left = chunks_count - first;
        if (threadIdx.x == 0)
#pragma unroll 8
            for (int c = 0; c < KM_THREADS && c < left; c++) total = __dadd_rn(total, sums[c]);
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = total;
}

// Some points, centred and scaled, as doubles.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_rows(const km_real *points, const long long *indices, long long count, double *out) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (at < count * D) out[at] = points[indices[at / D] * D + at % D];
}

// Where a pass takes points in windows: adds the sums of a window, which are integers, to those of the windows before
// it, and behind the last one leaves all of them in their place.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_window_sums(unsigned long long *all, unsigned long long *sums, long long count, int is_first,
                   int is_last) {
    const long long i = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (i >= count) return;
    const unsigned long long sum = sums[i] + (is_first ? 0 : all[i]);
    (is_last ? sums : all)[i] = sum;
}

// With other ranks: sums[column] of what the blocks of a pass have summed, which become zero; `back`: the first block
// gets `sums`. Of blocks [restarts][blocks][row], or [restarts][row][blocks].
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_join_blocks(unsigned long long *of_blocks, unsigned long long *sums, long long columns, long long row,
                   long long blocks, int by_block, int back) {
    const long long column = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (column >= columns) return;
    const long long step = by_block ? row : 1;
    unsigned long long *own =
        of_blocks + (by_block ? column / row * row * blocks + column % row : column * blocks);
    if (back) {
        *own = sums[column];
        return;
    }
    unsigned long long sum = 0;
#pragma unroll 8
    for (long long block = 0; block < blocks; block++) {
        sum += own[block * step];
        own[block * step] = 0;
    }
    sums[column] = sum;
}

// ==== Seeding ==============================================================================================
// Compiled apart: seed
// Seeding: greedy k-means++, all chains in the same passes, as runtime/seed.h states it. Each pick takes two kernels.
// km_seed_draw decides the pick before (the candidate that leaves the least inertia), and draws the candidates of this
// one. km_seed_pass reads the points once, updates each chain's distances, and adds the inertia that each candidate
// would leave. Nothing goes through the host.

// A task is up to SEED_CANDIDATES candidates of one chain: all of a pick, up to K = 20. A block reads a few points and
// works on several tasks with them.
constexpr int SEED_CANDIDATES = 4, SEED_ROWS = SEED_CANDIDATES + 1, SEED_TASKS = 4;
constexpr int SEED_POINTS = KM_SUBCHUNK_POINTS / KM_THREADS; // of a thread of km_seed_draw
constexpr int SEED_STRIDE = KM_THREADS / 2;                  // half of a block's threads have a subchunk
// Of these, as many as have registers for their features.
constexpr int SEED_STEP_BYTES = STEP_FEATURES * sizeof(km_real);
constexpr int SEED_ROWS_AT_ONCE = SEED_STEP_BYTES <= 32 ? SEED_POINTS : SEED_STEP_BYTES <= 64 ? 4 : 2;
// One conversion, of the number that fits: NVRTC 13.5 refuses a number that does not fit even in a branch not taken.
constexpr km_real SEED_FAR = (km_real)(sizeof(km_real) == 4 ? 3.4028234e38 : 1.7976931348623157e308);

// Drawing is a small part of seeding: short code, which compiles sooner, so not inlined and with loops where reads need
// not be side by side.

// The sums of chunks from those of their subchunks, to shared memory: a chunk a warp at a time.
static __device__ __noinline__ void seed_chunk_sums(double *sums, const double *subchunk_sums,
                                                    long long subchunks, long long first, int count) {
    constexpr int WARPS = KM_THREADS / 32, AT_ONCE = 16; // loads at a time
    const int lane = threadIdx.x % 32;
    for (int first_chunk = threadIdx.x / 32; first_chunk < count; first_chunk += AT_ONCE * WARPS) {
        double part[AT_ONCE];
#pragma unroll
        for (int t = 0; t < AT_ONCE; t++) {
            const long long subchunk = (first + first_chunk + t * WARPS) * KM_SUBCHUNKS_PER_CHUNK + lane;
            part[t] = subchunk < subchunks ? subchunk_sums[subchunk] : 0.0;
        }
#pragma unroll 1
        for (int step = 16; step > 0; step >>= 1)
#pragma unroll
            for (int t = 0; t < AT_ONCE; t++) part[t] += __shfl_xor_sync(0xffffffffu, part[t], step);
#pragma unroll
        for (int t = 0; t < AT_ONCE; t++)
            if (lane == 0 && first_chunk + t * WARPS < count) sums[first_chunk + t * WARPS] = part[t];
    }
}
static_assert(KM_SUBCHUNKS_PER_CHUNK == 32, "a lane a subchunk");

// The inertia that each candidate of a pick would leave: totals over the chunks, to shared memory.
static __device__ void seed_totals(double *totals, const double *subchunk_sums, long long subchunks,
                                   int candidates) {
    __shared__ double sums[KM_CANDIDATES_MAX][KM_THREADS];
    const long long chunks = (subchunks + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    double total = 0.0;
    for (long long first = 0; first < chunks; first += KM_THREADS) {
        const int here = (int)(chunks - first < KM_THREADS ? chunks - first : KM_THREADS);
        for (int c = 0; c < candidates; c++)
            seed_chunk_sums(sums[c], subchunk_sums + c * subchunks, subchunks, first, here);
        __syncthreads();
        if (threadIdx.x < candidates)
#pragma unroll 8
            for (int b = 0; b < here; b++) total = __dadd_rn(total, sums[threadIdx.x][b]);
        __syncthreads();
    }
    if (threadIdx.x < candidates) totals[threadIdx.x] = total;
    __syncthreads();
}

// Search for the part at which a running sum exceeds the target; in shared memory. Where rounding lets none do so, the
// last part that is not 0 is taken.
struct seed_search {
    double target, running, before; // before: the running sum without the part that was taken
    long long taken;
    int found;
    int first, last; // of the current parts: the first that exceeds the target, the last that is not 0
    double parts[KM_THREADS], sums[KM_THREADS];
};

// Continues with search->parts[0 ... count), the first of which is part `index` of all. One thread computes the running
// sum, all threads compare.
static __device__ __noinline__ void seed_search_parts(seed_search *search, int count, long long index) {
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

// The weights of a thread's points in the draw of `pick`, from the pick before and the distances to earlier ones; 0
// behind the last point.
__device__ __forceinline__ void seed_values(double *values, const km_seed_args *args, const km_real *nearest,
                                            long long first, long long pick, long long last) {
    const km_real *points = (const km_real *)args->points, *row = points + last * D;
    km_real square[SEED_POINTS] = {};
#pragma unroll
    for (int begin = 0; begin < SEED_POINTS; begin += SEED_ROWS_AT_ONCE)
#pragma unroll 1
        for (int f = 0; f < D && pick > 0; f += STEP_FEATURES) {
            km_real x[SEED_ROWS_AT_ONCE][STEP_FEATURES], from[STEP_FEATURES];
            step_load(from, row, f);
#pragma unroll
            for (int p = 0; p < SEED_ROWS_AT_ONCE; p++)
                step_load(x[p], first + begin + p < args->n ? points + (first + begin + p) * D : row, f);
#pragma unroll
            for (int g = 0; g < STEP_FEATURES; g++)
#pragma unroll
                for (int p = 0; p < SEED_ROWS_AT_ONCE; p++) {
                    const km_real t = x[p][g] - from[g];
                    square[begin + p] = fma(t, t, square[begin + p]);
                }
        }
#pragma unroll
    for (int p = 0; p < SEED_POINTS; p++) {
        const long long i = first + p;
        values[p] = 0.0;
        if (i >= args->n) continue;
        if (pick > 1) square[p] = nearest[i] < square[p] ? nearest[i] : square[p];
        const double weight = km_weight(args->weights, i);
        values[p] = pick > 0 ? __dmul_rn(weight, square[p]) : weight;
    }
}

// Finds the drawn point: its chunk, its subchunk, its thread, the point.
static __device__ long long seed_find(const km_seed_args *args, const km_real *nearest,
                                      const double *subchunk_sums, double target, long long pick,
                                      long long last) {
    __shared__ seed_search search;
    const long long subchunks = args->subchunks,
                    chunks = (subchunks + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    if (threadIdx.x == 0) {
        search.target = target;
        search.running = search.before = 0.0;
        search.taken = 0;
        search.found = 0;
    }
    __syncthreads();
    for (long long first = 0; first < chunks && !search.found; first += KM_THREADS) {
        const int here = (int)(chunks - first < KM_THREADS ? chunks - first : KM_THREADS);
        seed_chunk_sums(search.parts, subchunk_sums, subchunks, first, here);
        seed_search_parts(&search, here, first);
    }
    const long long begin = search.taken * KM_SUBCHUNKS_PER_CHUNK;
    const int left =
        (int)(subchunks - begin < KM_SUBCHUNKS_PER_CHUNK ? subchunks - begin : KM_SUBCHUNKS_PER_CHUNK);
    if (threadIdx.x < left) search.parts[threadIdx.x] = subchunk_sums[begin + threadIdx.x];
    if (threadIdx.x == 0) search.running = search.before;
    seed_search_parts(&search, left, begin);
    const long long own_first = search.taken * KM_SUBCHUNK_POINTS + threadIdx.x * SEED_POINTS;
    double values[SEED_POINTS], sum = 0.0;
    seed_values(values, args, nearest, own_first, pick, last);
#pragma unroll
    for (int p = 0; p < SEED_POINTS; p++) sum = __dadd_rn(sum, values[p]);
    __syncthreads();
    search.parts[threadIdx.x] = sum;
    if (threadIdx.x == 0) search.running = search.before;
    seed_search_parts(&search, KM_THREADS, 0);
    const long long taken = search.taken;
    double running = search.before;
    __syncthreads();
    if (threadIdx.x == taken) {
        long long drawn = own_first;
        bool found = false;
#pragma unroll
        for (int p = 0; p < SEED_POINTS; p++) {
            running = __dadd_rn(running, values[p]);
            if (!found && values[p] > 0.0) {
                drawn = own_first + p;
                found = running > target;
            }
        }
        search.taken = drawn;
    }
    __syncthreads();
    return search.taken;
}

// Block (chain, candidate). candidates_before: how many pick - 1 had, 0 for the first pick. candidates_now: how
// many this pick has, 0 behind the last.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_seed_draw(const __grid_constant__ km_seed_args args, long long pick, int candidates_before,
                 int candidates_now) {
    __shared__ double totals[KM_CANDIDATES_MAX];
    const int chain = blockIdx.x, candidate = blockIdx.y;
    const double *subchunk_sums =
        pick == 0 ? args.subchunk_weights
                  : args.subchunk_sums + (long long)chain * KM_CANDIDATES_MAX * args.subchunks;
    seed_totals(totals, subchunk_sums, args.subchunks, pick == 0 ? 1 : candidates_before);
    int best = 0;
    for (int c = 1; c < candidates_before; c++)
        if (totals[c] < totals[best]) best = c;
    const double total = totals[best];
    long long last = 0;
    if (pick > 0) {
        const long long *before =
            args.candidates + ((pick - 1) % 2 * args.chains + chain) * KM_CANDIDATES_MAX;
        last = before[best];
        if (candidate == 0 && threadIdx.x == 0)
            args.picks[chain * args.picks_count + pick - 1] = before[best];
    }
    if (candidate >= candidates_now) return;
    const double u = km_draw(args.seed, args.first_restart + chain, pick, candidate);
    long long drawn = (long long)(u * args.n);
    if (drawn > args.n - 1) drawn = args.n - 1;
    if (total > 0.0)
        drawn = seed_find(&args, (const km_real *)args.nearest + chain * args.n,
                          subchunk_sums + best * args.subchunks, u * total, pick, last);
    if (threadIdx.x == 0)
        args.candidates[(pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX + candidate] = drawn;
}

// km_seed_pass of many features. A block has two subchunks and a few tasks, and a warp one of each: a lane has every
// 32nd point of a step. Points and rows of candidates pass through shared memory, a slice of their features at a time;
// while a slice is worked on the next one is copied.
enum {
    SEED_SLICE = 64 / sizeof(km_real), // features; those behind the last are 0
    SEED_SLICES = (D + SEED_SLICE - 1) / SEED_SLICE,
    SEED_PITCH = SEED_SLICE + TILE_VECTOR, // of a point in shared memory: no bank conflicts
    SEED_PIECES = SEED_SLICE / TILE_PIECE, // copies of a slice of a row
    SEED_STEPS = KM_SUBCHUNK_POINTS / SEED_STRIDE,
    SEED_POINTS_AT_ONCE = SEED_STRIDE / 32 // of a lane
};
constexpr int SEED_BLOCKS =
    sizeof(km_real) == 4 ? 2 : 1; // of a multiprocessor: as many as have enough registers

struct __align__(16) seed_slice {
    km_real points[2 * SEED_STRIDE][SEED_PITCH];
    km_real rows[SEED_TASKS * SEED_ROWS][SEED_SLICE];
};

// Starts to copy a slice: of a step's points of both subchunks, the first of which begins with `first`, and of rows.
__device__ __forceinline__ void seed_copy(seed_slice &to, const km_seed_args &args, const long long *rows,
                                          long long first, int slice) {
    constexpr int AT_ONCE = KM_THREADS / SEED_PIECES; // rows
    const int row = threadIdx.x / SEED_PIECES, f = threadIdx.x % SEED_PIECES * TILE_PIECE,
              feature = slice * SEED_SLICE + f;
    const km_real *points = (const km_real *)args.points, *from = points + (first + row) * D + feature;
#pragma unroll
    for (int i = 0; i < 2 * SEED_STRIDE; i += AT_ONCE) {
        const int ahead = i / SEED_STRIDE * KM_SUBCHUNK_POINTS + i % SEED_STRIDE;
        const bool valid = feature < D && first + row + ahead < args.n;
        tile_copy(&to.points[i + row][f], valid ? from + ahead * D : points, valid);
    }
#pragma unroll 1
    for (int i = row; i < SEED_TASKS * SEED_ROWS; i += AT_ONCE) {
        const bool valid = feature < D && rows[i] >= 0;
        tile_copy(&to.rows[i][f], valid ? points + rows[i] * D + feature : points, valid);
    }
}

// Adds a slice of `features` to the squared distances of a lane's points from the rows of a task, of which row 0 counts
// where `update`.
__device__ __forceinline__ void seed_add_slice(km_real (*square)[SEED_POINTS_AT_ONCE], const km_real *points,
                                               const km_real *rows, int features, int candidates,
                                               bool update) {
#pragma unroll 1
    for (int f = 0; f < features; f += TILE_VECTOR) {
        tile_features x[SEED_POINTS_AT_ONCE];
#pragma unroll
        for (int p = 0; p < SEED_POINTS_AT_ONCE; p++)
            x[p] = *(const tile_features *)(points + 32 * p * SEED_PITCH + f);
#pragma unroll
        for (int c = 0; c < SEED_ROWS; c++) {
            if (!(c == 0 ? update : c <= candidates)) continue;
            const tile_features row = *(const tile_features *)(rows + c * SEED_SLICE + f);
#pragma unroll
            for (int g = 0; g < TILE_VECTOR; g++)
#pragma unroll
                for (int p = 0; p < SEED_POINTS_AT_ONCE; p++) {
                    const km_real t = x[p].at[g] - row.at[g];
                    square[c][p] = fma(t, t, square[c][p]);
                }
        }
    }
}

// A warp's task: candidates of a chain, of which part 0 writes the distances. A pick has so many picks before it.
struct seed_task {
    int chain, part, candidates;
    long long picked;
};

// Ends a step: compares the distances with those to the last pick, and adds what each candidate would leave.
__device__ __forceinline__ void seed_add_step(double (*sums)[SEED_POINTS_AT_ONCE], km_real *best,
                                              const km_real (*square)[SEED_POINTS_AT_ONCE],
                                              const km_seed_args &args, const seed_task &task,
                                              long long first) {
    km_real *nearest = (km_real *)args.nearest + task.chain * args.n;
#pragma unroll
    for (int p = 0; p < SEED_POINTS_AT_ONCE; p++) {
        const long long point = first + 32 * p;
        if (point >= args.n) continue;
        const bool nearer = task.picked > 0 && square[0][p] < best[p];
        if (nearer) best[p] = square[0][p];
        if (task.part == 0 && (nearer || task.picked == 1)) nearest[point] = best[p];
#pragma unroll
        for (int c = 0; c < SEED_CANDIDATES; c++) {
            if (c >= task.candidates) break;
            const km_real left = fmin(best[p], square[c + 1][p]);
            sums[c][p] = __dadd_rn(sums[c][p], fmin(left, SEED_FAR));
        }
    }
}

// Adds the sums of a warp's lanes in the order of seed_pass.cu, eight lanes a candidate, and writes them.
// `added` is the warp's own shared memory.
__device__ __forceinline__ void seed_write(const km_seed_args &args,
                                           const double (*sums)[SEED_POINTS_AT_ONCE],
                                           double (*added)[SEED_STRIDE], const seed_task &task,
                                           int first_candidate, long long subchunk) {
    constexpr int ADDERS = 8;
    static_assert(SEED_CANDIDATES * ADDERS == 32, "a sum of each candidate");
    const int lane = threadIdx.x % 32, c = lane / ADDERS;
#pragma unroll
    for (int each = 0; each < SEED_CANDIDATES; each++)
#pragma unroll
        for (int p = 0; p < SEED_POINTS_AT_ONCE; p++) added[each][32 * p + lane] = sums[each][p];
    __syncwarp();
    double sum = 0.0;
    for (int i = lane % ADDERS; i < SEED_STRIDE; i += ADDERS) sum = __dadd_rn(sum, added[c][i]);
    for (int step = ADDERS / 2; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane % ADDERS || c >= task.candidates || subchunk >= args.subchunks) return;
    const long long row = task.chain * (long long)KM_CANDIDATES_MAX + first_candidate + c;
    args.subchunk_sums[row * args.subchunks + subchunk] = sum;
}

// Few chains share their candidates out to more tasks than need be, so that all warps have one.
extern "C" __global__ void __launch_bounds__(KM_THREADS, SEED_BLOCKS)
    km_seed_pass(const __grid_constant__ km_seed_args args, long long pick, int candidates) {
    __shared__ seed_slice slices[2];
    __shared__ long long rows[SEED_TASKS * SEED_ROWS];
    static_assert(sizeof slices >= KM_THREADS / 32 * sizeof(double[SEED_CANDIDATES][SEED_STRIDE]),
                  "sums in the place of slices");
    const int least = (candidates + SEED_CANDIDATES - 1) / SEED_CANDIDATES,
              most = SEED_TASKS / args.chains < candidates ? SEED_TASKS / args.chains : candidates;
    const int width = (candidates + (least > most ? least : most) - 1) / (least > most ? least : most),
              parts = (candidates + width - 1) / width, all = args.chains * parts;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = warp / SEED_TASKS;
    const long long subchunk = blockIdx.x * 2ll, first = subchunk * KM_SUBCHUNK_POINTS;
#pragma unroll 1
    for (int begin = 0; begin < all; begin += SEED_TASKS) {
        const int own = begin + warp % SEED_TASKS, first_candidate = own % parts * width;
        const seed_task task = {own / parts, own % parts,
                                own >= all                             ? 0
                                : candidates - first_candidate < width ? candidates - first_candidate
                                                                       : width,
                                pick};
        __syncthreads();                            // all warps are done with the rows and sums of the tasks before
        if (threadIdx.x < SEED_TASKS * SEED_ROWS) { // the point of a row; -1: there is none
            const int at = begin + threadIdx.x / SEED_ROWS, chain = at / parts,
                      c = threadIdx.x % SEED_ROWS - 1;
            const long long *drawn = args.candidates + (pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX;
            const int candidate = at % parts * width + c;
            long long point = -1;
            if (at < all && c < 0 && pick > 0) point = args.picks[chain * args.picks_count + pick - 1];
            if (at < all && c >= 0 && c < width && candidate < candidates) point = drawn[candidate];
            rows[threadIdx.x] = point;
        }
        __syncthreads();
        double sums[SEED_CANDIDATES][SEED_POINTS_AT_ONCE] = {};
        int turn = 0;
        seed_copy(slices[0], args, rows, first, 0);
        tile_wait();
        __syncthreads();
#pragma unroll 1
        for (int step = 0; step < SEED_STEPS && first + step * SEED_STRIDE < args.n; step++) {
            const long long begins = first + step * SEED_STRIDE,
                            point = begins + half * KM_SUBCHUNK_POINTS + lane;
            km_real square[SEED_ROWS][SEED_POINTS_AT_ONCE] = {}, best[SEED_POINTS_AT_ONCE];
#pragma unroll
            for (int p = 0; p < SEED_POINTS_AT_ONCE; p++) {
                const bool there = task.candidates > 0 && pick > 1 && point + 32 * p < args.n;
                const km_real *nearest = (const km_real *)args.nearest + task.chain * args.n;
                best[p] = there ? __ldcg(nearest + point + 32 * p) : SEED_FAR;
            }
#pragma unroll 1
            for (int slice = 0; slice < SEED_SLICES; slice++, turn ^= 1) {
                const bool last = slice + 1 == SEED_SLICES;
                if (!last || step + 1 < SEED_STEPS)
                    seed_copy(slices[turn ^ 1], args, rows, last ? begins + SEED_STRIDE : begins,
                              last ? 0 : slice + 1);
                const int left = D - slice * SEED_SLICE;
                if (task.candidates > 0)
                    seed_add_slice(square, slices[turn].points[half * SEED_STRIDE + lane],
                                   slices[turn].rows[warp % SEED_TASKS * SEED_ROWS],
                                   left < SEED_SLICE ? left : int(SEED_SLICE), task.candidates, pick > 0);
                tile_wait();
                __syncthreads();
            }
            if (task.candidates > 0) seed_add_step(sums, best, square, args, task, point);
        }
        seed_write(args, sums, (double(*)[SEED_STRIDE])slices + warp * SEED_CANDIDATES, task, first_candidate,
                   subchunk + half);
    }
}

// ==== Finishing ============================================================================================
// Compiled apart: finish
// Finish: labels, distances and sums of the models in one last pass. Labels are
// bitwise those of every other backend. km_finish_tiles does all of it; for more clusters than it takes, km_assign
// writes each point's label and distances, and km_finish_chunks adds them. Sums of pieces, or chunks, are added in
// index order.
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24.
// Where the second-nearest centroid is not farther than the nearest by more than that, the point is ambiguous and
// resolved in double. Squared distances are added in double; distances and margins are float.

// Nearest and second-nearest centroid of a point: squared distances in the plan's type.
struct finish_nearest {
    km_real nearest, second;
    int label;
};

// Finds the two nearest of the k rows of `table` for FINISH_POINTS points x[0], x[1], ... `here` are their
// features: all where a row is in registers.
__device__ __forceinline__ void finish_search(finish_nearest *found, km_real (*here)[STEP_FEATURES],
                                              const km_real *const *x, const km_real *table, int k) {
#pragma unroll
    for (int p = 0; p < FINISH_POINTS; p++) {
        found[p] = {(km_real)__int_as_float(0x7f800000), (km_real)__int_as_float(0x7f800000), 0};
        if (STEP_ROW_IN_REGISTERS) step_load(here[p], x[p], 0);
    }
#pragma unroll(STEP_ROW_IN_REGISTERS ? 4 : 1)
    for (int j = 0; j < k; j += FINISH_ROWS) {
        km_real square[FINISH_ROWS][FINISH_POINTS] = {};
        finish_add_squares(square, here, x, table, j, k);
#pragma unroll
        for (int r = 0; r < FINISH_ROWS; r++) {
            if (j + r >= k) break;
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++) {
                found[p].second = fmin(found[p].second, fmax(found[p].nearest, square[r][p]));
                found[p].label = square[r][p] < found[p].nearest ? j + r : found[p].label;
                found[p].nearest = fmin(found[p].nearest, square[r][p]);
            }
        }
    }
}

// What a point adds to the sums of its cluster.
struct finish_point {
    int label;
    double square, distance, margin;
};

__device__ __forceinline__ finish_point finish_of_squares(int label, double nearest, double second, int k) {
    const double distance = __dsqrt_rn(nearest), far = k > 1 ? __dsqrt_rn(second) : 0.0;
    return {label, nearest, distance, far > 0.0 ? __ddiv_rn(__dsub_rn(far, distance), far) : 0.0};
}

// Unrolled where `x` is in registers: every index must be a constant then.
template <typename Real>
__device__ __forceinline__ double finish_square(const km_real *x, const Real *centroid) {
    double square = 0.0;
#pragma unroll(STEP_ROW_IN_REGISTERS ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const double t = __dsub_rn(x[f], centroid[f]);
        square = __fma_rn(t, t, square);
    }
    return square;
}

// The squared distance to a row of `table`, which holds the same values as the centroids in double unless k is 1.
__device__ __forceinline__ double finish_square_of_row(const km_real *x, const km_real *row) {
    if (!STEP_ROW_IN_REGISTERS) return finish_square(x, row);
    km_real centroid[STEP_FEATURES]; // lanes read different rows: wide loads are best
    step_load(centroid, row, 0);
    return finish_square(x, centroid);
}

__device__ __forceinline__ float finish_root(float value) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}

// The nearest centroid by distances in double.
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

// Distance to a row of means.
__device__ __forceinline__ km_real finish_distance(const km_real *x, const km_real *mean) {
    km_real square = 0;
#pragma unroll(STEP_ROW_IN_REGISTERS ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - mean[f];
        square = fma(t, t, square);
    }
    return finish_root(square);
}

// The rows of a model's means; NULL: it has none.
__device__ __forceinline__ const km_real *finish_means(const km_assign_args &args, int model) {
    if (!args.mean_rows || args.mean_rows[model] < 0) return nullptr;
    return (const km_real *)args.means + args.mean_rows[model] * D;
}

// Decides the label of a point, from the two nearest; resolves it in double where it is ambiguous.
__device__ __forceinline__ finish_point finish_decide(const finish_nearest &found, const km_real *x,
                                                      const double *centroids, const km_real *table, int k) {
    // Twice the bound, and what squares lose by underflow. Quotients of large squares may overflow. With k = 1
    // there is no second, and the centroid need not be a float: distances are double.
    const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    if (!(fma(found.nearest, apart, lost) < found.second && found.second < largest))
        return finish_exact(x, centroids, k);
    return {found.label, finish_square_of_row(x, table + (long long)found.label * D),
            finish_root(found.nearest), 1.0f - finish_root(__fdividef(found.nearest, found.second))};
}

// ==== Finishing: models ====================================================================================
// Compiled apart: finish/models
// Finish of many features: km_finish_tiles. Of the squared distances in shared memory (tiles.cu) a thread takes the
// two nearest for a point and model. Then the sums: a thread has a cluster and goes through the points.
// In float32 the distance to the nearest is computed once more, in double, for the sum of squares.

// Pitches: of what the points of a model add to sums, and of their labels.
enum { TILE_VALUES = TILE_POINTS + 1, TILE_LABELS = TILE_POINTS + 2, TILE_NONE = 65535 };

// Sums of a cluster; without weights every point weighs 1.
enum { TILE_COUNT, TILE_SSE, TILE_DISTANCE, TILE_MARGIN, TILE_WEIGHT, TILE_NUMBERS = 4 + WEIGHTED };
static_assert(TILE_NUMBERS == KM_TILE_NUMBERS(WEIGHTED), "as the engine counts");

// What a point adds to the sums of its cluster.
struct __align__(sizeof(km_real) == 4 ? 16 : 8) tile_value {
    double square;
    km_real distance, margin;
};

// The models of a launch, and where a block has them.
struct tile_job {
    int models, rows;                     // how many; of all of them
    int tile_rows, groups;                // rows at a time; groups of points whose sums are made apart
    int is_whole;                         // all rows are in shared memory at once
    int has_means;                        // some model has
    int first[KM_TILE_MODELS];            // of each model: its first row,
    int k[KM_TILE_MODELS];                // its clusters,
    const km_real *means[KM_TILE_MODELS]; // its means, or NULL
    const km_real *table;                 // rows
    const double *centroids;              // the same in double
    unsigned char model_of[KM_TILE_ROWS]; // of each row, where all are in shared memory
    unsigned char open[TILE_POINTS];      // of the only model otherwise: points that are to be resolved
    int open_count;
    // Shared memory, bytes from its beginning: [TILE_POINTS][TILE_PITCH], a slab of the points, comes first; then
    int rows_at;    // [tile_rows][TILE_PITCH] km_real
    int means_at;   // the same of means, where there are any
    int squares_at; // [tile_rows][TILE_POINTS] km_real: squared distances
    int values_at;  // [models][TILE_VALUES] tile_value
    int weights_at; // [TILE_POINTS] double, where points have weights
    int sums_at;    // [TILE_NUMBERS][groups][rows] double
    int labels_at;  // [models][TILE_LABELS] unsigned short
};

__device__ __forceinline__ void tile_copy_means(const tile_job &job, int slab) {
    for (int m = 0; m < job.models; m++)
        if (job.means[m])
            tile_copy_slab(tile_at<km_real>(job.means_at) + job.first[m] * TILE_PITCH, job.means[m], job.k[m],
                           job.k[m], slab);
}

__device__ __forceinline__ finish_nearest tile_far() {
    const km_real infinity = (km_real)__int_as_float(0x7f800000);
    return {infinity, infinity, 0};
}

// Takes the rows of model m that are in the tile, which begins with row `start` of all; `point` is of the tile.
__device__ __forceinline__ void tile_take(finish_nearest &found, const tile_job &job, int m, int start,
                                          int point) {
    const int offset = job.first[m] - start, before = offset > 0 ? offset : 0;
    const int end = offset + job.k[m] < job.tile_rows ? offset + job.k[m] : job.tile_rows;
#pragma unroll 4
    for (int j = before; j < end; j++) {
        const km_real square = tile_at<km_real>(job.squares_at)[j * TILE_POINTS + point];
        found.second = fmin(found.second, fmax(found.nearest, square));
        found.label = square < found.nearest ? j - offset : found.label;
        found.nearest = fmin(found.nearest, square);
    }
}

// The nearest centroid of x by distances in double: of those whose squared distances, every TILE_POINTS numbers, are
// not above `bound`; NULL: of all.
__device__ __forceinline__ finish_point tile_resolve(const km_real *x, const double *centroids, int k,
                                                     const km_real *squares, float bound) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, second = infinity;
    int label = 0;
    for (int j = 0; j < k; j++) {
        if (squares && squares[j * TILE_POINTS] > bound) continue;
        double square = 0.0;
#pragma unroll 4
        for (int f = 0; f < D; f++) {
            const double t = __dsub_rn(x[f], centroids[(long long)j * D + f]);
            square = __fma_rn(t, t, square);
        }
        const bool nearer = square < nearest;
        second = nearer ? nearest : square < second ? square : second;
        nearest = nearer ? square : nearest;
        label = nearer ? j : label;
    }
    return finish_of_squares(label, nearest, second, k);
}

// The same by a warp, of all k: a lane has every so many centroids. Every lane gets it.
__device__ __forceinline__ finish_point tile_resolve_together(const km_real *x, const double *centroids,
                                                              int k) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, second = infinity;
    int label = 0;
    for (int j = threadIdx.x % 32; j < k; j += 32) {
        double square = 0.0;
#pragma unroll 4
        for (int f = 0; f < D; f++) {
            const double t = __dsub_rn(x[f], centroids[(long long)j * D + f]);
            square = __fma_rn(t, t, square);
        }
        const bool nearer = square < nearest;
        second = nearer ? nearest : square < second ? square : second;
        nearest = nearer ? square : nearest;
        label = nearer ? j : label;
    }
    for (int step = 16; step > 0; step >>= 1) {
        const double other = __shfl_xor_sync(0xffffffffu, nearest, step);
        const double its_second = __shfl_xor_sync(0xffffffffu, second, step);
        const int its_label = __shfl_xor_sync(0xffffffffu, label, step);
        const bool nearer = other < nearest || (other == nearest && its_label < label);
        const double left = nearer ? nearest : other; // not the nearest of the two
        second = fmin(left, nearer ? its_second : second);
        nearest = nearer ? other : nearest;
        label = nearer ? its_label : label;
    }
    return finish_of_squares(label, nearest, second, k);
}

template <typename Real> __device__ __forceinline__ Real tile_weighted(double, Real value) {
    return value;
}

// Writes what a point adds to the sums of model m, and its label; TILE_NONE: there is no such point.
__device__ __forceinline__ void tile_write(const tile_job &job, int label, double square, km_real distance,
                                           km_real margin, int m, int point, double weight) {
    tile_value *value = tile_at<tile_value>(job.values_at) + m * TILE_VALUES + point;
    tile_at<unsigned short>(job.labels_at)[m * TILE_LABELS + point] = (unsigned short)label;
    *value = {tile_weighted(weight, square), tile_weighted(weight, distance), tile_weighted(weight, margin)};
}

// Labels of the thread's point, and what its distances to centroids add. `found` is of the only model where not all
// rows were in shared memory.
__device__ __forceinline__ void tile_label(finish_nearest &found, tile_job &job, const km_real *x,
                                           double weight, bool is_point) {
    const int point = threadIdx.x % TILE_POINTS;
#pragma unroll 1
    for (int i = 0; tile_model(i) < job.models; i++) {
        const int m = tile_model(i), k = job.k[m];
        if (job.is_whole) {
            found = tile_far();
            tile_take(found, job, m, 0, point);
        }
        // As finish_decide; squares come later.
        const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
        const float bound = fma(found.nearest, apart, lost);
        float distance = finish_root(found.nearest), margin = 0.0f;
        if (k > 1) margin = 1.0f - finish_root(__fdividef(found.nearest, found.second));
        if (k > 1 && !(bound < found.second && found.second < largest)) {
            if (!job.is_whole && is_point)
                job.open[atomicAdd(&job.open_count, 1)] = (unsigned char)point; // tile_resolve_open
            if (job.is_whole) {
                const finish_point decided = tile_resolve(
                    x, job.centroids + job.first[m] * (long long)D, k,
                    bound < largest ? tile_at<km_real>(job.squares_at) + job.first[m] * TILE_POINTS + point
                                    : nullptr,
                    bound);
                found.label = decided.label;
                distance = (float)decided.distance;
                margin = (float)decided.margin;
            }
        }
        tile_write(job, is_point ? found.label : int(TILE_NONE), 0.0, distance, margin, m, point, weight);
    }
}

// Points of the only model that float32 leaves open, a warp each: a thread alone would take long for its centroids.
__device__ __forceinline__ void tile_resolve_open(tile_job &job, const km_real *tile) {
    __syncthreads();
    for (int at = threadIdx.x / 32; at < job.open_count; at += blockDim.x / 32) {
        const int point = job.open[at];
        const double weight = WEIGHTED ? tile_at<double>(job.weights_at)[point] : 1.0;
        const finish_point decided =
            tile_resolve_together(tile + point * (long long)D, job.centroids, job.k[0]);
        if (threadIdx.x % 32 == 0)
            tile_write(job, decided.label, 0.0, (float)decided.distance, (float)decided.margin, 0, point,
                       weight);
    }
    __syncthreads();
    if (threadIdx.x == 0) job.open_count = 0;
}

// Of the thread's models: squared distances of its point.
struct tile_own {
    int count, means,
        ones;                     // models of the thread; bits of those that have means, and of those of one cluster
    int at[KM_TILE_PAIRS];        // where the row of its label is, in shared memory
    double square[KM_TILE_PAIRS]; // to the own centroid
    km_real mean[KM_TILE_PAIRS];  // ... and mean
};

__device__ __forceinline__ void tile_begin_own(tile_own &own, const tile_job &job) {
    own.count = own.means = own.ones = 0;
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        const int m = tile_model(i), at = m * TILE_LABELS + threadIdx.x % TILE_POINTS;
        own.square[i] = 0.0;
        own.mean[i] = 0;
        own.at[i] = 0;
        if (m >= job.models) continue;
        own.count++;
        own.means |= (job.means[m] != nullptr) << i;
        own.ones |= (job.k[m] == 1) << i;
        const int label = tile_at<unsigned short>(job.labels_at)[at];
        own.at[i] = (job.first[m] + (label != TILE_NONE ? label : 0)) * TILE_PITCH;
    }
}

// Adds a slab, of which points and rows are in shared memory.
// ONES: some model of the thread may have one cluster.
template <bool ONES>
__device__ __forceinline__ void tile_add_own(tile_own &own, const tile_job &job, int slab) {
    const km_real *point = tile_at<km_real>(0) + threadIdx.x % TILE_POINTS * TILE_PITCH;
    const km_real *rows = tile_at<km_real>(job.rows_at), *means = tile_at<km_real>(job.means_at);
#pragma unroll 1
    for (int f = 0; f < TILE_WIDTH; f += TILE_VECTOR) {
        const tile_features x = *(const tile_features *)(point + f);
        double wide[TILE_VECTOR];
#pragma unroll
        for (int g = 0; g < TILE_VECTOR; g++) wide[g] = (double)x.at[g];
#pragma unroll
        for (int i = 0; i < KM_TILE_PAIRS; i++) {
            if (i >= own.count) break;
            if (!ONES || !(own.ones >> i & 1)) {
                const tile_features c = *(const tile_features *)(rows + f + own.at[i]);
#pragma unroll
                for (int g = 0; g < TILE_VECTOR; g++) {
                    const double t = __dsub_rn(wide[g], c.at[g]);
                    own.square[i] = __fma_rn(t, t, own.square[i]);
                }
            } else { // the centroid need not be a float
                const int at = slab * TILE_WIDTH + f;
                const double *c = job.centroids + job.first[tile_model(i)] * (long long)D + at;
#pragma unroll
                for (int g = 0; g < TILE_VECTOR; g++) {
                    const double t = __dsub_rn(wide[g], at + g < D ? c[g] : 0.0);
                    own.square[i] = __fma_rn(t, t, own.square[i]);
                }
            }
            if (!(own.means >> i & 1)) continue;
            const tile_features c = *(const tile_features *)(means + f + own.at[i]);
#pragma unroll
            for (int g = 0; g < TILE_VECTOR; g++) {
                const km_real t = x.at[g] - c.at[g];
                own.mean[i] = fma(t, t, own.mean[i]);
            }
        }
    }
}

// The same of a model whose rows are not in shared memory, from device memory at once.
__device__ __forceinline__ void tile_read_own(tile_own &own, const tile_job &job, const km_real *x) {
    const int label = own.at[0] / TILE_PITCH;
    own.square[0] = finish_square(x, job.table + label * (long long)D);
    if (!job.means[0]) return;
    const km_real *mean = job.means[0] + label * (long long)D;
#pragma unroll 8
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - mean[f];
        own.mean[0] = fma(t, t, own.mean[0]);
    }
}

__device__ __forceinline__ void tile_write_own(const tile_own &own, const tile_job &job, double weight) {
#pragma unroll
    for (int i = 0; i < KM_TILE_PAIRS; i++) {
        if (i >= own.count) break;
        tile_value *value =
            tile_at<tile_value>(job.values_at) + tile_model(i) * TILE_VALUES + threadIdx.x % TILE_POINTS;
        value->square = tile_weighted(weight, own.square[i]);
        if (own.means >> i & 1)
            value->distance = tile_weighted(weight, finish_root(own.mean[i]));
        else if (own.ones >> i & 1)
            value->distance = tile_weighted(weight, (float)__dsqrt_rn(own.square[i]));
    }
}

// Adds the tile to the sums: a thread has a cluster, and a group of points.
__device__ __forceinline__ void tile_add(const tile_job &job) {
    const int all = job.rows * job.groups, each = TILE_POINTS / job.groups;
    for (int at = threadIdx.x; at < all; at += blockDim.x) {
        const int row = at % job.rows, from = at / job.rows * each, m = job.is_whole ? job.model_of[row] : 0;
        const int label = row - job.first[m], end = from + each;
        const unsigned short *labels = tile_at<unsigned short>(job.labels_at) + m * TILE_LABELS;
        const tile_value *values = tile_at<tile_value>(job.values_at) + m * TILE_VALUES;
        int points = 0;
        double square = 0.0, distance = 0.0, margin = 0.0, weight = 0.0;
        for (int p = from; p < end; p += 8) { // a few in the points' type
            km_real distances = 0, margins = 0;
#pragma unroll
            for (int q = p; q < p + 8; q++) {
                if (labels[q] != label) continue;
                const tile_value value = values[q];
                points += 1;
                square = __dadd_rn(square, value.square);
                distances += value.distance;
                margins += value.margin;
                if (WEIGHTED) weight = __dadd_rn(weight, tile_at<double>(job.weights_at)[q]);
            }
            distance += distances;
            margin += margins;
        }
        double *sums = tile_at<double>(job.sums_at) + at;
        sums[TILE_COUNT * all] += points;
        sums[TILE_SSE * all] += square;
        sums[TILE_DISTANCE * all] += distance;
        sums[TILE_MARGIN * all] += margin;
        if (WEIGHTED) sums[TILE_WEIGHT * all] += weight;
    }
}

__device__ __forceinline__ void tile_begin(tile_job *job, const km_assign_args &args, int first_model,
                                           int models, int tile_rows) {
    job->models = models;
    job->rows = job->has_means = job->open_count = 0;
    job->tile_rows = tile_rows;
    job->table = (const km_real *)args.table + args.rows[first_model] * D;
    job->centroids = args.centroids + args.rows[first_model] * D;
    for (int m = 0; m < models; m++) {
        job->first[m] = job->rows;
        job->k[m] = args.ks[first_model + m];
        job->rows += job->k[m];
        job->means[m] = finish_means(args, first_model + m);
        job->has_means |= job->means[m] != nullptr;
        for (int row = job->first[m]; job->rows <= tile_rows && row < job->rows; row++)
            job->model_of[row] = m;
    }
    job->is_whole = job->rows <= tile_rows;
    job->groups = job->is_whole ? int(KM_TILE_SUMS) : 1;
    static_assert(sizeof(tile_value) == KM_TILE_VALUE(sizeof(km_real)), "as the engine counts");
    const int row_bytes = TILE_PITCH * sizeof(km_real);
    job->rows_at = TILE_POINTS * TILE_PITCH * sizeof(km_real);
    job->means_at = job->rows_at + KM_TILE_ROOM(tile_rows) * row_bytes;
    job->squares_at = job->means_at + (job->has_means && job->is_whole ? tile_rows * row_bytes : 0);
    job->values_at = job->squares_at + tile_rows * int(TILE_POINTS * sizeof(km_real));
    job->weights_at = job->values_at + models * int(TILE_VALUES * sizeof(tile_value));
    job->sums_at = job->weights_at + WEIGHTED * TILE_POINTS * int(sizeof(double));
    job->labels_at = job->sums_at + TILE_NUMBERS * job->groups * job->rows * int(sizeof(double));
}

// Models first_model ... of one piece of the points: partial[piece][row of the model + j][KM_FINISH_SUMS]. Labels,
// where they are wanted, go to args.labels.
extern "C" __global__ void __launch_bounds__(KM_TILE_THREADS, 2)
    km_finish_tiles(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                    long long rows_count, int first_model, int models, int tile_rows) {
    __shared__ tile_job job;
    const int point = threadIdx.x % TILE_POINTS;
    const long long first = blockIdx.x * (long long)TILE_PIECE_POINTS;
    const int count = (int)(args.count - first < TILE_PIECE_POINTS ? args.count - first : TILE_PIECE_POINTS);
    const km_real *points = (const km_real *)args.points + (args.first + first) * D;
    if (threadIdx.x == 0) tile_begin(&job, args, first_model, models, tile_rows);
    __syncthreads();
    const bool is_kept = TILE_SLABS == 1 && job.is_whole; // rows stay, and the next tile comes ahead
    for (int i = threadIdx.x; i < TILE_NUMBERS * job.groups * job.rows; i += blockDim.x)
        tile_at<double>(job.sums_at)[i] = 0.0;
    if (is_kept) {
        tile_copy_slab(tile_at<km_real>(job.rows_at), job.table, tile_rows, job.rows, 0);
        tile_copy_means(job, 0);
        tile_copy_slab(tile_at<km_real>(0), points, TILE_POINTS, count, 0);
    }
    for (int base = 0; base < count; base += TILE_POINTS) {
        const km_real *tile = points + base * (long long)D;
        const int left = count - base;
        finish_nearest found = tile_far();
        for (int start = 0; start < job.rows; start += tile_rows) {
            tile_find_squares(job, tile, left, start, is_kept, [&](int slab) {
                tile_copy_slab(tile_at<km_real>(job.rows_at), job.table + start * (long long)D, tile_rows,
                               job.rows - start, slab);
            });
            if (!job.is_whole && tile_model(0) == 0) tile_take(found, job, 0, start, point);
        }
        const bool is_point = point < left;
        const km_real *x = tile + (is_point ? point : 0) * (long long)D;
        const double weight = is_point ? km_weight(weights, args.first + first + base + point) : 0.0;
        if (WEIGHTED && threadIdx.x < TILE_POINTS) tile_at<double>(job.weights_at)[point] = weight;
        tile_label(found, job, x, weight, is_point);
        if (!job.is_whole) tile_resolve_open(job, tile);
        tile_own own;
        tile_begin_own(own, job);
        if (!job.is_whole) {
            if (tile_model(0) == 0) tile_read_own(own, job, x);
        } else if (sizeof(km_real) == 4 || job.has_means) {
            for (int slab = 0; slab < TILE_SLABS; slab++) {
                if (TILE_SLABS > 1) {
                    tile_copy_slab(tile_at<km_real>(0), tile, TILE_POINTS, left, slab);
                    tile_copy_slab(tile_at<km_real>(job.rows_at), job.table, tile_rows, job.rows, slab);
                    tile_copy_means(job, slab);
                    tile_wait();
                    __syncthreads();
                }
                if (own.ones)
                    tile_add_own<true>(own, job, slab);
                else
                    tile_add_own<false>(own, job, slab);
                if (TILE_SLABS > 1) __syncthreads();
            }
        }
        tile_write_own(own, job, weight);
        __syncthreads();
        if (is_kept && left > TILE_POINTS)
            tile_copy_slab(tile_at<km_real>(0), tile + TILE_POINTS * D, TILE_POINTS, left - TILE_POINTS, 0);
        tile_add(job);
        for (int i = threadIdx.x; args.labels && i < models * TILE_POINTS; i += blockDim.x)
            if (i % TILE_POINTS < left)
                args.labels[(first_model + i / TILE_POINTS) * args.count + first + base + i % TILE_POINTS] =
                    tile_at<unsigned short>(job.labels_at)[i / TILE_POINTS * TILE_LABELS + i % TILE_POINTS];
    }
    __syncthreads();
    double *out = partial + (blockIdx.x * rows_count + args.rows[first_model]) * KM_FINISH_SUMS;
    for (int row = threadIdx.x; row < job.rows; row += blockDim.x) {
        double sums[TILE_NUMBERS];
#pragma unroll
        for (int number = 0; number < TILE_NUMBERS; number++) {
            const double *parts = tile_at<double>(job.sums_at) + number * job.groups * job.rows + row;
            sums[number] = job.groups > 1 ? __dadd_rn(parts[0], parts[job.rows]) : parts[0];
        }
        out[row * KM_FINISH_SUMS + KM_FINISH_COUNT] = sums[TILE_COUNT];
        out[row * KM_FINISH_SUMS + KM_FINISH_WEIGHT] = sums[WEIGHTED ? int(TILE_WEIGHT) : int(TILE_COUNT)];
        out[row * KM_FINISH_SUMS + KM_FINISH_SSE] = sums[TILE_SSE];
        out[row * KM_FINISH_SUMS + KM_FINISH_DISTANCE] = sums[TILE_DISTANCE];
        out[row * KM_FINISH_SUMS + KM_FINISH_MARGIN] = sums[TILE_MARGIN];
    }
}

// ==== Finishing: labels ====================================================================================
// Compiled apart: finish/labels
// Block (subchunk, model): labels and squared distances; margins and distances where they are not NULL.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_assign(const __grid_constant__ km_assign_args args) {
    const int model = blockIdx.y, k = args.ks[model];
    const double *centroids = args.centroids + args.rows[model] * D;
    const km_real *table = (const km_real *)args.table + args.rows[model] * D;
    const km_real *points = (const km_real *)args.points + args.first * D, *means = finish_means(args, model);
    for (int p = 0; p < KM_SUBCHUNK_POINTS; p += FINISH_POINTS * KM_THREADS) {
        const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p + threadIdx.x;
        const km_real *x[FINISH_POINTS];
        finish_nearest found[FINISH_POINTS];
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS;
            x[q] = points + (i < args.count ? i : 0) * D;
        }
        km_real here[FINISH_POINTS][STEP_FEATURES];
        finish_search(found, here, x, table, k);
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS, out = model * args.count + i;
            if (i >= args.count) break;
            const finish_point point =
                finish_decide(found[q], STEP_ROW_IN_REGISTERS ? here[q] : x[q], centroids, table, k);
            args.labels[out] = point.label;
            args.nearest[out] = point.square;
            if (args.margin) args.margin[out] = point.margin;
            if (args.distance)
                args.distance[out] = means ? finish_distance(STEP_ROW_IN_REGISTERS ? here[q] : x[q],
                                                             means + (long long)point.label * D)
                                           : __dsqrt_rn(point.square);
        }
    }
}

// What km_assign wrote of a point; its label is -1 - lane where there is no point.
struct finish_assigned {
    int label;
    double weight, square, distance, margin;
};

__device__ __forceinline__ finish_assigned finish_load(const km_assign_args &args, const double *weights,
                                                       int model, long long at, long long end) {
    finish_assigned point = {-1 - (int)threadIdx.x, 0.0, 0.0, 0.0, 0.0};
    if (at < end) {
        const long long from = model * args.count + at;
        point.label = args.labels[from];
        point.weight = km_weight(weights, args.first + at);
        point.square = args.nearest[from];
        point.distance = args.distance ? args.distance[from] : __dsqrt_rn(point.square);
        point.margin = args.margin[from];
    }
    return point;
}

// What the 32 current points add to their clusters; in shared memory.
struct finish_tile {
    double weight[32], sse[32], distance[32], margin[32];
};

__device__ __forceinline__ void finish_write_tile(finish_tile *tile, const finish_assigned &point) {
    const int lane = threadIdx.x;
    tile->weight[lane] = point.weight;
    tile->sse[lane] = __dmul_rn(point.weight, point.square);
    tile->distance[lane] = __dmul_rn(point.weight, point.distance);
    tile->margin[lane] = __dmul_rn(point.weight, point.margin);
}

// One warp a (piece, model): partial[piece][row of the model + j][KM_FINISH_SUMS], a piece of points_each points. Of
// the 32 current points, the first lane of each label adds all points with that label, in index order: no two lanes
// write to a row. The rows are in dynamic shared memory where they fit, else in device memory.
extern "C" __global__ void __launch_bounds__(32)
    km_finish_chunks(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                     long long rows_count, long long points_each, int in_shared) {
    extern __shared__ double finish_memory[];
    __shared__ finish_tile tile;
    const int lane = threadIdx.x, model = blockIdx.y, k = args.ks[model];
    const long long first = blockIdx.x * points_each;
    const long long end = first + points_each < args.count ? first + points_each : args.count;
    double *out = partial + (blockIdx.x * rows_count + args.rows[model]) * KM_FINISH_SUMS;
    double *sums = in_shared ? finish_memory : out;
    for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) sums[at] = 0.0;
    finish_assigned next = finish_load(args, weights, model, first + lane, end);
    finish_assigned after = finish_load(args, weights, model, first + 32 + lane, end);
    for (long long base = first; base < end; base += 32) {
        const int label = next.label;
        finish_write_tile(&tile, next);
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

// Adds chunks to the totals in index order: totals[numbers] += partial[0][numbers], partial[1][numbers], ...
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_finish_add(const double *partial, long long chunks, long long numbers, double *totals) {
    const long long column = blockIdx.x * (long long)KM_REDUCED_NUMBERS, at = column + threadIdx.x;
    const bool own = threadIdx.x < KM_REDUCED_NUMBERS && at < numbers;
    const double sum =
        step_reduce_chunks(own ? totals[at] : 0.0, partial, chunks, numbers, column, numbers, 0);
    if (own) totals[at] = sum;
}

// Sums of the points of each label, in double: partial[block][part][cluster][feature], of which a thread owns features.
// A block has points_each points.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_label_sums(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                  long long points_each, int model) {
    constexpr int PARTS = KM_LABEL_PARTS(D), WIDTH = D < KM_THREADS ? int(D) : int(KM_THREADS);
    const int part = threadIdx.x / WIDTH, k = args.ks[model];
    const long long first = blockIdx.x * points_each;
    const long long end = first + points_each < args.count ? first + points_each : args.count;
    const km_real *points = (const km_real *)args.points;
    double *out = partial + (blockIdx.x * (long long)PARTS + part) * k * D;
    if (part >= PARTS) return;
    for (int f = threadIdx.x % WIDTH; f < D; f += WIDTH) {
        for (int j = 0; j < k; j++) out[j * (long long)D + f] = 0.0;
        for (long long i = first + part; i < end; i += PARTS)
            out[args.labels[model * args.count + i] * (long long)D + f] +=
                km_weight(weights, args.first + i) * (double)points[(args.first + i) * D + f];
    }
}

// ==== Silhouettes ==========================================================================================
// Compiled apart: silhouette
// Silhouette: of all points and models in one read, in the squared Euclidean form. The
// mean squared distance of a point x to the points of cluster j is |x - m_j|^2 + v_j, m_j their mean and v_j their mean
// squared distance from it; to the others of its own cluster, of n_j points, n_j / (n_j - 1) times that.
// Distances are float, as in the finishing pass: points whose label they leave open are resolved in double. A thread's
// silhouettes are added in double.

// What is known of a point after some clusters.
struct silhouette_point {
    km_real nearest, second; // squared distances to centroids
    km_real factor;          // n_j / (n_j - 1) of the own cluster; 0: it has one point
    km_real own, other;      // mean squared distances to the own cluster and to the nearest other one
    int label;
};

// Of each cluster: v_j and n_j / (n_j - 1).
template <typename Real> struct alignas(2 * sizeof(Real)) silhouette_terms { Real spread, factor; };

__device__ __forceinline__ silhouette_point silhouette_far() {
    const km_real infinity = (km_real)__int_as_float(0x7f800000);
    return {infinity, infinity, (km_real)0, infinity, infinity, 0};
}

// Whether float32 leaves the label open, as in finish_decide.
__device__ __forceinline__ bool silhouette_is_open(const silhouette_point &found) {
    const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    return !(fma(found.nearest, apart, lost) < found.second && found.second < largest);
}

enum { SILHOUETTE_BOTH, SILHOUETTE_LABELS, SILHOUETTE_MEANS };

// Takes cluster j, whose centroid (or mean) lies so far from the point. STEP both: the centroid is the mean; else
// labels come first, by the centroids, then the means.
template <int STEP>
__device__ __forceinline__ void silhouette_take(silhouette_point &point, km_real square, int j,
                                                const silhouette_terms<km_real> &terms) {
    const km_real infinity = (km_real)__int_as_float(0x7f800000);
    const bool nearer = square < point.nearest, is_own = STEP == SILHOUETTE_MEANS ? j == point.label : nearer;
    if (STEP != SILHOUETTE_MEANS) {
        point.second = fmin(point.second, fmax(point.nearest, square));
        point.nearest = fmin(point.nearest, square);
    }
    if (STEP == SILHOUETTE_LABELS) point.label = nearer ? j : point.label;
    if (STEP == SILHOUETTE_LABELS) return;
    const km_real mean = square + terms.spread;
    point.other = fmin(point.other, !is_own ? mean : STEP == SILHOUETTE_BOTH ? point.own : infinity);
    point.own = is_own ? mean : point.own;
    point.factor = is_own ? terms.factor : point.factor;
}

// (b - a) / max(a, b); 0 in a cluster of one point, and where both are 0.
template <typename Real> __device__ __forceinline__ Real silhouette_value(Real own, Real other, Real factor) {
    const Real inside = fma(own, factor, (Real)0), larger = inside > other ? inside : other;
    return factor > (Real)0 && larger > (Real)0 ? (other - inside) / larger : (Real)0;
}

// The silhouette of a point whose label is known, by distances in double.
__device__ __forceinline__ double silhouette_of_label(const km_real *x, const double *means,
                                                      const silhouette_terms<double> *terms, int k,
                                                      int label) {
    double own = 0.0, other = __longlong_as_double(0x7ff0000000000000ll);
#pragma unroll 1
    for (int j = 0; j < k; j++) {
        double mean = terms[j].spread;
#pragma unroll 1
        for (int f = 0; f < D; f++) {
            const double t = __dsub_rn(x[f], means[(long long)j * D + f]);
            mean = __fma_rn(t, t, mean);
        }
        if (j == label)
            own = mean;
        else
            other = mean < other ? mean : other;
    }
    return silhouette_value<double>(own, other, terms[label].factor);
}

// The label of a point, by distances in double to the centroids.
__device__ __forceinline__ int silhouette_exact_label(const km_real *x, const double *centroids, int k) {
    double nearest = __longlong_as_double(0x7ff0000000000000ll);
    int label = 0;
#pragma unroll 1
    for (int j = 0; j < k; j++) {
        double square = 0.0;
#pragma unroll 1
        for (int f = 0; f < D; f++) {
            const double t = __dsub_rn(x[f], centroids[(long long)j * D + f]);
            square = __fma_rn(t, t, square);
        }
        label = square < nearest ? j : label;
        nearest = square < nearest ? square : nearest;
    }
    return label;
}

// The silhouette of a point, by its exact label.
static __device__ __noinline__ double silhouette_exact(const km_real *x, const double *centroids,
                                                       const double *means,
                                                       const silhouette_terms<double> *terms, int k) {
    return silhouette_of_label(x, means, terms, k, silhouette_exact_label(x, centroids, k));
}

// The silhouettes of many features (tiles.cu). The rows of a model are its centroids, and then its means where these
// are others; a thread goes through their squared distances for a point and model.

// The models of a launch, and where a block has them.
struct silhouette_job {
    int models, rows;              // how many; of all of them
    int tile_rows, is_whole;       // rows at a time; all rows are in shared memory at once
    int first[KM_TILE_MODELS];     // of each model: its first row,
    int k[KM_TILE_MODELS];         // its clusters,
    int has_means[KM_TILE_MODELS]; // whether k rows of means follow,
    long long terms[KM_TILE_MODELS],
        means[KM_TILE_MODELS];       // and its first row in the tables, and that of its means
    unsigned char open[TILE_POINTS]; // of the only model, where not all rows are there: points to be resolved
    int open_count;
    // Shared memory, bytes from its beginning: as tile_job.
    int rows_at;    // [tile_rows][TILE_PITCH] km_real
    int squares_at; // [tile_rows][TILE_POINTS] km_real
    int sums_at;    // [models][TILE_POINTS] double: of a thread for each point and model
};

__device__ __forceinline__ void silhouette_begin(silhouette_job *job, const km_silhouette_args &args,
                                                 int first_model, int models, int tile_rows) {
    job->models = models;
    job->rows = job->open_count = 0;
    job->tile_rows = tile_rows;
    for (int m = 0; m < models; m++) {
        job->first[m] = job->rows;
        job->k[m] = args.ks[first_model + m];
        job->terms[m] = args.rows[first_model + m];
        job->means[m] = args.mean_rows[first_model + m];
        job->has_means[m] = job->terms[m] != job->means[m];
        job->rows += job->k[m] << job->has_means[m];
    }
    job->is_whole = job->rows <= tile_rows;
    job->rows_at = TILE_POINTS * TILE_PITCH * sizeof(km_real);
    job->squares_at = job->rows_at + KM_TILE_ROOM(tile_rows) * int(TILE_PITCH * sizeof(km_real));
    job->sums_at = job->squares_at + tile_rows * int(TILE_POINTS * sizeof(km_real));
}

// Copies a slab of the rows from `start` on: of all models, or of the only one.
__device__ __forceinline__ void silhouette_copy(const silhouette_job &job, const km_real *table, int start,
                                                int slab) {
    for (int m = 0; m < job.models; m++) {
        for (int part = 0; part <= job.has_means[m]; part++) {
            const int first = job.first[m] + part * job.k[m] - start; // of the part, in the tile
            const int from = first > 0 ? first : 0, skipped = from - first;
            const int end = first + job.k[m] < job.tile_rows ? first + job.k[m] : job.tile_rows;
            const long long row = (part ? job.means[m] : job.terms[m]) + skipped;
            if (from < end)
                tile_copy_slab(tile_at<km_real>(job.rows_at) + from * TILE_PITCH, table + row * D, end - from,
                               end - from, slab);
        }
    }
}

// Takes the rows of model m that are in the tile.
__device__ __forceinline__ void silhouette_take_rows(silhouette_point &found, const silhouette_job &job,
                                                     const silhouette_terms<km_real> *terms, int m, int start,
                                                     int point) {
    const int k = job.k[m], offset = job.first[m] - start, rows = k << job.has_means[m];
    const int end = offset + rows < job.tile_rows ? offset + rows : job.tile_rows;
    const km_real *squares = tile_at<km_real>(job.squares_at) + point;
    terms += job.terms[m];
    int at = offset > 0 ? offset : 0;
    if (!job.has_means[m]) {
#pragma unroll 2
        for (; at < end; at++)
            silhouette_take<SILHOUETTE_BOTH>(found, squares[at * TILE_POINTS], at - offset,
                                             terms[at - offset]);
        return;
    }
#pragma unroll 2
    for (; at < end && at - offset < k; at++)
        silhouette_take<SILHOUETTE_LABELS>(found, squares[at * TILE_POINTS], at - offset, {});
#pragma unroll 2
    for (; at < end; at++)
        silhouette_take<SILHOUETTE_MEANS>(found, squares[at * TILE_POINTS], at - offset - k,
                                          terms[at - offset - k]);
}

__device__ __forceinline__ double silhouette_square(const km_real *x, const double *row) {
    double square = 0.0;
#pragma unroll 4
    for (int f = 0; f < D; f++) {
        const double t = __dsub_rn(x[f], row[f]);
        square = __fma_rn(t, t, square);
    }
    return square;
}

// silhouette_exact by a warp: a lane has every so many clusters. Every lane gets it.
__device__ __forceinline__ double silhouette_together(const km_real *x, const double *centroids,
                                                      const double *means,
                                                      const silhouette_terms<double> *terms, int k) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, own = infinity, other = infinity;
    int label = 0;
#pragma unroll 1
    for (int j = threadIdx.x % 32; j < k; j += 32) {
        const double square = silhouette_square(x, centroids + (long long)j * D);
        label = square < nearest ? j : label;
        nearest = square < nearest ? square : nearest;
    }
    for (int step = 16; step > 0; step >>= 1) {
        const double its = __shfl_xor_sync(0xffffffffu, nearest, step);
        const int its_label = __shfl_xor_sync(0xffffffffu, label, step);
        label = its < nearest || (its == nearest && its_label < label) ? its_label : label;
        nearest = fmin(its, nearest);
    }
#pragma unroll 1
    for (int j = threadIdx.x % 32; j < k; j += 32) {
        const double mean = __dadd_rn(silhouette_square(x, means + (long long)j * D), terms[j].spread);
        if (j == label)
            own = mean;
        else
            other = fmin(mean, other);
    }
    for (int step = 16; step > 0; step >>= 1) {
        own = fmin(own, __shfl_xor_sync(0xffffffffu, own, step));
        other = fmin(other, __shfl_xor_sync(0xffffffffu, other, step));
    }
    return silhouette_value<double>(own, other, terms[label].factor);
}

// Points of the only model whose label is open, a warp each: a thread alone would take long for its clusters.
__device__ __forceinline__ void silhouette_resolve_open(silhouette_job &job, const km_silhouette_args &args,
                                                        const km_real *tile, const double *weights) {
    __syncthreads();
    for (int at = threadIdx.x / 32; at < job.open_count; at += blockDim.x / 32) {
        const int point = job.open[at];
        const double value = silhouette_together(
            tile + point * (long long)D, args.centroids + job.terms[0] * D, args.centroids + job.means[0] * D,
            (const silhouette_terms<double> *)args.exact_terms + job.terms[0], job.k[0]);
        if (threadIdx.x % 32 == 0) tile_at<double>(job.sums_at)[point] += km_weight(weights, point) * value;
    }
    __syncthreads();
    if (threadIdx.x == 0) job.open_count = 0;
}

// Models first_model ... of one piece of the points: partial[piece][models of all launches], this model's sum.
extern "C" __global__ void __launch_bounds__(KM_TILE_THREADS, 2)
    km_silhouette_tiles(const __grid_constant__ km_silhouette_args args, const double *weights,
                        double *partial, int first_model, int models, int tile_rows) {
    __shared__ silhouette_job job;
    const int point = threadIdx.x % TILE_POINTS;
    const long long first = blockIdx.x * (long long)TILE_PIECE_POINTS;
    const int count = (int)(args.count - first < TILE_PIECE_POINTS ? args.count - first : TILE_PIECE_POINTS);
    const km_real *points = (const km_real *)args.points + first * D;
    const silhouette_terms<km_real> *terms = (const silhouette_terms<km_real> *)args.terms;
    if (threadIdx.x == 0) silhouette_begin(&job, args, first_model, models, tile_rows);
    __syncthreads();
    const bool is_kept = TILE_SLABS == 1 && job.is_whole; // rows stay, and the next tile comes ahead
    for (int i = threadIdx.x; i < models * TILE_POINTS; i += blockDim.x)
        tile_at<double>(job.sums_at)[i] = 0.0;
    if (is_kept) {
        silhouette_copy(job, (const km_real *)args.table, 0, 0);
        tile_copy_slab(tile_at<km_real>(0), points, TILE_POINTS, count, 0);
    }
    for (int base = 0; base < count; base += TILE_POINTS) {
        const km_real *tile = points + base * (long long)D;
        const int left = count - base;
        silhouette_point found = silhouette_far();
        for (int start = 0; start < job.rows; start += tile_rows) {
            tile_find_squares(job, tile, left, start, is_kept, [&](int slab) {
                silhouette_copy(job, (const km_real *)args.table, start, slab);
            });
            if (!job.is_whole && tile_model(0) == 0) silhouette_take_rows(found, job, terms, 0, start, point);
        }
        if (is_kept && left > TILE_POINTS)
            tile_copy_slab(tile_at<km_real>(0), tile + TILE_POINTS * D, TILE_POINTS, left - TILE_POINTS, 0);
        const double *tile_weights = WEIGHTED ? weights + first + base : nullptr;
        if (point < left) {
            const km_real *x = tile + point * (long long)D;
#pragma unroll 1
            for (int i = 0; tile_model(i) < models; i++) {
                const int m = tile_model(i);
                if (job.is_whole) {
                    found = silhouette_far();
                    silhouette_take_rows(found, job, terms, m, 0, point);
                }
                double value = silhouette_value(found.own, found.other, found.factor);
                if (silhouette_is_open(found)) {
                    if (!job.is_whole) {
                        job.open[atomicAdd(&job.open_count, 1)] = (unsigned char)point;
                        break;
                    }
                    value = silhouette_exact(
                        x, args.centroids + job.terms[m] * D, args.centroids + job.means[m] * D,
                        (const silhouette_terms<double> *)args.exact_terms + job.terms[m], job.k[m]);
                }
                tile_at<double>(job.sums_at)[m * TILE_POINTS + point] +=
                    km_weight(tile_weights, point) * value;
            }
        }
        if (!job.is_whole) silhouette_resolve_open(job, args, tile, tile_weights);
    }
    __syncthreads();
    for (int m = threadIdx.x / 32; m < models; m += blockDim.x / 32) {
        double sum = 0.0;
        for (int at = threadIdx.x % 32; at < TILE_POINTS; at += 32)
            sum += tile_at<double>(job.sums_at)[m * TILE_POINTS + at];
        for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (threadIdx.x % 32 == 0) partial[blockIdx.x * (long long)args.models + first_model + m] = sum;
    }
}

// ==== Relocation ===========================================================================================
// Compiled apart: relocate
// Relocate: finds the points farthest from their own centroids, one after the other. km_assign has written each point's
// squared distance. A point that was taken, and points with the same coordinates, get a distance of 0.

// Replaces (value, index) by the other one where that is farther, or as far and has the lower index.
__device__ __forceinline__ void farthest_of(double *value, long long *index, double other,
                                            long long other_index) {
    if (other > *value || (other == *value && other_index < *index)) {
        *value = other;
        *index = other_index;
    }
}

// The farthest of a block of threads, in thread 0.
static __device__ void farthest_of_block(double *value, long long *index) {
    __shared__ double values[KM_THREADS];
    __shared__ long long indices[KM_THREADS];
    values[threadIdx.x] = *value;
    indices[threadIdx.x] = *index;
    __syncthreads();
    for (int half = KM_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            farthest_of(values + threadIdx.x, indices + threadIdx.x, values[threadIdx.x + half],
                        indices[threadIdx.x + half]);
        __syncthreads();
    }
    *value = values[0];
    *index = indices[0];
}

// One subchunk a block. Drops points that equal the last taken one (picks[taken - 1]) or have no weight. Finds the
// farthest of the others whose distance is more than rounding: more than square_min, and than rounding2 times its
// own |x|^2.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_subchunk(const km_real *points, const double *weights, long long n, double square_min,
                         double rounding2, double *nearest, const long long *picks, long long taken,
                         double *subchunk_values, long long *subchunk_indices) {
    const long long last = taken > 0 ? picks[taken - 1] : -1;
    const bool is_over = taken > 0 && last < 0; // there was none before
    double value = 0.0;
    long long index = n;
    for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS && !is_over; p++) {
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
        if (square > __dmul_rn(rounding2, size)) farthest_of(&value, &index, square, i);
    }
    farthest_of_block(&value, &index);
    if (threadIdx.x == 0) {
        subchunk_values[blockIdx.x] = value;
        subchunk_indices[blockIdx.x] = index;
    }
}

// One block: picks[taken] is the farthest point of all subchunks, or -1 where there is none.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_pick(const double *subchunk_values, const long long *subchunk_indices, long long subchunks,
                     long long n, long long *picks, long long taken) {
    double value = 0.0;
    long long index = n;
    for (long long subchunk = threadIdx.x; subchunk < subchunks; subchunk += KM_THREADS)
        farthest_of(&value, &index, subchunk_values[subchunk], subchunk_indices[subchunk]);
    farthest_of_block(&value, &index);
    if (threadIdx.x == 0) picks[taken] = value > 0.0 ? index : -1;
}

// ==== The update ===========================================================================================
// Compiled apart: pass/rest
// Update: the blocks of a slot compute new centroids from the totals, and the last of them decides what the slot does
// next. The last block of all writes the report. The host queues iterations ahead of it.

// Whether this is the last of a slot's blocks to arrive. That block gets the sums of all of them, added in their
// order, and sees what they wrote.
__device__ __forceinline__ bool update_join(km_slot_record *record, double *part_sums, double (&sums)[4]) {
    __shared__ bool last;
    if (gridDim.y == 1) return true;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; i++) part_sums[blockIdx.y * 4 + i] = sums[i];
        __threadfence();
        last = atomicAdd(&record->arrived, 1u) == gridDim.y - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return false;
    for (int i = 0; i < 4; i++) sums[i] = 0.0;
    for (int part = 0; part < (int)gridDim.y; part++)
        for (int i = 0; i < 4; i++) sums[i] += ((volatile double *)part_sums)[part * 4 + i];
    if (threadIdx.x == 0) record->arrived = 0;
    return true;
}

// The last slot to arrive closes the iteration. No block of this launch that has work to do reads `stop` after that.
__device__ __forceinline__ void update_close(const km_update_args &args, int slot) {
    if (args.changes) args.changes[slot] = 0;
    __threadfence();
    if (atomicAdd(&args.loop->updated, 1u) != gridDim.x - 1) return;
    km_control *head = &args.loop->head;
    args.loop->updated = 0;
    const int stopped_count = *(volatile int *)&args.loop->stopped_count, passes = head->passes + 1;
    const bool stop =
        (stopped_count > 0 && stopped_count >= args.loop->stopped_min) || passes >= head->passes_max;
    head->passes = passes;
    head->stop = stop;
    if (args.report) *(volatile unsigned long long *)args.report = passes | (unsigned long long)stop << 32;
}

// A slot with many clusters has several blocks (KM_UPDATE_PARTS), blockIdx.y, each of which computes a part of
// them. With no bound of two blocks a multiprocessor the compiler would aim at more, and spill.
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
        km_real *centroids = (km_real *)args.centroids + row * D, *before = (km_real *)args.before + row * D;
        const double *totals = args.totals + row * (D + 1);
        double sums[4] =
            {}; // of inertia, of shifts; of empty clusters, and of those that may be given a point
        for (int j = blockIdx.y * AT_ONCE + threadIdx.x / LANES; j < k; j += gridDim.y * AT_ONCE) {
            const double weight = totals[j * (D + 1ll) + D];
            for (int f = threadIdx.x % LANES; f < D; f += LANES) {
                const double c = centroids[j * (long long)D + f], sum = totals[j * (D + 1ll) + f];
                sums[0] += c * (weight * c - 2.0 * sum);
                before[j * (long long)D + f] = (km_real)c;
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
        if (!update_join(record, args.part_sums + slot * (4ll * gridDim.y), sums)) return;
        if (threadIdx.x == 0) {
            // The first pass of a run has no labels to compare with: all count as changed.
            const int few_changes = args.changes && record->state.iterations > 0 &&
                                    (long long)args.changes[slot] < args.loop->changes_min;
            const km_slot_found found = {sums[0] + args.loop->total_square, sums[1], (long long)sums[2],
                                         sums[3] > 0.0, few_changes};
            km_slot_decide(&record->state, &found, args.loop->shift_max, args.loop->max_iter);
            args.active[slot] = km_slot_is_active(record->state.phase);
            if (!args.active[slot]) atomicAdd(&args.loop->stopped_count, 1);
        }
    } else if (blockIdx.y > 0) {
        return;
    }
    if (threadIdx.x == 0) update_close(args, slot);
}

// ==== The algorithm hamerly ================================================================================
// Compiled apart: bounds
// What the kernels of the algorithms hamerly and elkan are given (templates/cuda/bounds): the contract with the host.
//
// A point has an upper bound of the distance to its own centroid and a lower bound of that to any other. They are not
// updated pass by pass: they are kept as they would stand if no centroid had moved since the run has bounds, and
// compared with how far centroids have gone since. For centroid j, path is the length of its way, and others the sum
// over passes of the longest move of another centroid that counts.
//
//     upper = u - path                  u: distance to the point's own centroid, at most
//     slack = l - u + path + others     l: distance to any other, at least
//
// A label stands while slack > path + others, or while upper + path is less than half the distance from its centroid
// to the nearest other. Of a point that this leaves open the distance to its own centroid is computed; if the label
// is still open, the point is listed behind those with the same label. Listed points are compared with candidates only:
// the centroids that are less than twice as far from their own as the farthest listed point of the label is.
//
// Elkan has a lower bound of the distance to each centroid, too, kept as l + path. Listed points are compared with
// those candidates alone that it leaves open for some point of a tile.
//
// Sums are integers, multiples of a power of two for each feature (`scale`), so that they are the same in any order. A
// point that changes its label moves from one sum to the other.
#ifndef KM_BOUNDS_CUDA_H
#define KM_BOUNDS_CUDA_H

enum {
    BOUNDS_CLUSTERS_MAX = 4096,
    BOUNDS_TILE = 32,         // points with the same label, a warp's
    BOUNDS_PAIRS = 64,        // centroids on each side of a block of pairs
    BOUNDS_RADIUS_PASSES = 8, // every so many passes the radius is taken from all points
    BOUNDS_THREADS = 256,     // of a block, but for:
    BOUNDS_ROW_THREADS = 128, // the kernels that go through a centroid's pairs
    BOUNDS_OFFSETS_THREADS = 1024
};
// Warps of a block that scores points, as many as have their points in 48 KiB.
#define BOUNDS_PITCH(d) (((((d) + 15) / 16) | 1) * 16)
#define BOUNDS_WARP_BYTES(d) (BOUNDS_TILE * BOUNDS_PITCH(d) * 2 + ((d) + 15) / 16 * 16 * 8 + 96)
#define BOUNDS_SCORE_WARPS(d) (BOUNDS_WARP_BYTES(d) <= 12000 ? 4 : BOUNDS_WARP_BYTES(d) <= 24000 ? 2 : 1)
// Pairs of a centroid in memory.
#define BOUNDS_ROW(k) (((k) + 7) / 8 * 8)
// Integers of a cluster: a coordinate's sum, and what its first integer rounds off; and the points.
#define BOUNDS_SUMS(d) (2 * (d) + 1)

// Of a slot.
enum {
    BOUNDS_DENSE, // its next pass is the dense design's, which finds labels
    BOUNDS_NEW,   // it has labels; all points are listed
    BOUNDS_KEPT   // it has bounds
};

// What is counted of a slot, over all passes.
enum {
    BOUNDS_PASSES,   // by the dense design
    BOUNDS_SKIPPING, // by bounds
    BOUNDS_OWN,      // points whose own distance was computed
    BOUNDS_LISTED,   // points whose label that left open
    BOUNDS_OPEN,     // of these, points that were compared with candidates: all but of elkan
    BOUNDS_COMPARED, // distances to candidates
    BOUNDS_RESOLVED, // points that were decided in double
    BOUNDS_CHANGED,  // labels
    BOUNDS_COUNTS
};

// Of a centroid.
typedef struct km_bounds_centroid {
    double path, others; // since the run has bounds
    float drift;         // in this pass, at least
    float expiry;        // path + others, at least
    float credit;        // the same, at most
    float path_least;    // path, at most
    float gap;           // half the distance to the nearest other centroid, at most
    float inner;         // gap - path, at most
    float lower_less;    // others and what rounding may add to a lower bound, at least
    float outer;         // half the distance to the nearest centroid that is no candidate, at most
    int radius;          // bounds_key: the largest `upper` of its points, at least
    int farthest;        // bits of a float: the largest distance of a listed point, at least
    int listed;          // points
    int start;           // of them in `sorted`
    int candidates;
} km_bounds_centroid;

typedef struct km_bounds_entry {
    int point, rank;
} km_bounds_entry;

// Of a slot.
typedef struct km_bounds_slot {
    int mode;
    int passes;                             // since it has bounds
    int listed, tiles, ambiguous, reserved; // in this pass: points, tiles of them, those that are resolved
    unsigned long long compared;            // distances to candidates, likewise
} km_bounds_slot;

typedef struct km_bounds_args {
    const km_control *control;
    long long n, stride;           // stride: of labels
    const void *points;            // n x d
    const void *centroids;         // [restarts][rows][d]
    const unsigned char *active;   // per slot
    const km_slot_record *records; // likewise
    unsigned char *dense;          // per slot: 1: takes part, by the dense design
    const int *ks, *offsets;       // of the list of K: clusters, and the first row of each
    const long long *pairs_at;     // where the pairs of each K begin; behind the last: how many a restart has
    int ks_count, rows;            // rows of one restart
    int slots_count;
    int rests;           // 1: the dense design has had all runs in this pass
    const double *scale; // d: an integer of a sum is a coordinate times scale, a power of two
    double rest;         // what rounding to that leaves is kept as an integer, too, times this
    void *before;        // [restarts][rows][d]: where centroids were in the pass before
    km_bounds_slot *slots;
    km_bounds_centroid *table;  // [restarts][rows]
    float *pairs;               // half the distances between centroids, at most
    unsigned short *candidates; // in the place of pairs
    void *labels;               // [slots][stride]
    float *upper, *slack;       // [slots][n]
    unsigned short
        *lower;            // elkan: [restarts][rows][n] halves, of a slot [n][k]: lower bounds, times lower_unit
    float lower_unit;      // a power of two
    km_bounds_entry *list; // [slots][n]
    int *sorted;           // [slots][sorted_stride]: listed points, whole tiles of each label
    long long sorted_stride;
    unsigned short *tile_labels; // [slots][sorted_stride / BOUNDS_TILE]
    int *ambiguous;              // [slots][n]: listed points that are resolved
    long long *sums;             // [restarts][rows][BOUNDS_SUMS]
    double *totals;              // [restarts][rows][d + 1]
    unsigned long long *changes; // per slot
    unsigned long long *counts;  // [slots][BOUNDS_COUNTS]; added to
} km_bounds_args;

#endif
typedef unsigned char bounds_label;

// What the kernels of hamerly share.

enum {
    BOUNDS_PIECE = D % 4 == 0 && sizeof(km_real) == 4 ? 4
                   : D % 2 == 0                       ? 2
                                                      : 1, // numbers of a point that are read at a time
    BOUNDS_INTEGERS = BOUNDS_SUMS(D)                       // of a cluster
};

struct __align__(BOUNDS_PIECE * sizeof(km_real)) bounds_piece {
    km_real at[BOUNDS_PIECE];
};

// Rounding. u is half a unit of the last place of a float. A squared distance, the sum of D squared differences in
// float, errs by a part of at most (D + 4) u, its root by half of that and u.
constexpr float BOUNDS_UNIT = 5.9604644775390625e-8f, BOUNDS_ERROR = (D + 8) * BOUNDS_UNIT;
// What a score loses where its last bits say which column it is of.
constexpr float BOUNDS_KEY_ERROR = 1.0f / (1 << 20);
// Each step that a bound takes is to the safe side, by as much as floats need and more.
constexpr double BOUNDS_STEP = 1.0 / (1 << 21), BOUNDS_LEAST = 1e-21;

// What belongs to a slot.
struct bounds_run {
    km_bounds_slot *slot;
    const km_real *centroids;
    km_bounds_centroid *table;
    float *pairs;
    unsigned short *candidates;
    bounds_label *labels;
    float *upper, *slack;
    km_bounds_entry *list;
    int *sorted, *ambiguous;
    unsigned short *tile_labels;
    long long *sums;
    unsigned long long *counts;
    long long row; // its first
    int index, k, pitch;
};

static __device__ __forceinline__ bounds_run bounds_run_of(const km_bounds_args &args, int slot) {
    bounds_run run;
    const int q = slot % args.ks_count, restart = slot / args.ks_count;
    const long long pairs = restart * args.pairs_at[args.ks_count] + args.pairs_at[q];
    run.index = slot;
    run.k = args.ks[q];
    run.pitch = BOUNDS_ROW(run.k);
    run.row = (long long)restart * args.rows + args.offsets[q];
    run.slot = args.slots + slot;
    run.centroids = (const km_real *)args.centroids + run.row * D;
    run.table = args.table + run.row;
    run.pairs = args.pairs + pairs;
    run.candidates = args.candidates + pairs;
    run.labels = (bounds_label *)args.labels + slot * args.stride;
    run.upper = args.upper + slot * args.n;
    run.slack = args.slack + slot * args.n;
    run.list = args.list + slot * args.n;
    run.ambiguous = args.ambiguous + slot * args.n;
    run.sorted = args.sorted + slot * args.sorted_stride;
    run.tile_labels = args.tile_labels + slot * (args.sorted_stride / BOUNDS_TILE);
    run.sums = args.sums + run.row * BOUNDS_INTEGERS;
    run.counts = args.counts + slot * BOUNDS_COUNTS;
    return run;
}

// Whether the slot takes part in this pass, by bounds.
static __device__ __forceinline__ bool bounds_takes(const km_bounds_args &args, int slot) {
    return !args.control->stop && args.active[slot] && args.slots[slot].mode != BOUNDS_DENSE;
}

template <typename Number> static __device__ __forceinline__ Number bounds_warp_sum(Number value) {
    for (int away = 16; away > 0; away /= 2) value += __shfl_xor_sync(0xffffffffu, value, away);
    return value;
}

static __device__ __forceinline__ float bounds_warp_min(float value) {
    for (int away = 16; away > 0; away /= 2) value = fminf(value, __shfl_xor_sync(0xffffffffu, value, away));
    return value;
}

// Integers in the order of floats, and back.
static __device__ __forceinline__ int bounds_key(float value) {
    const int bits = __float_as_int(value);
    return bits < 0 ? bits ^ 0x7fffffff : bits;
}

static __device__ __forceinline__ float bounds_value(int key) {
    return __int_as_float(key < 0 ? key ^ 0x7fffffff : key);
}

static __device__ __forceinline__ void bounds_raise(int *most, int key) {
    if (key > *(volatile int *)most) atomicMax(most, key);
}

// Keeps bounds of a point: u at most, l at least. l may be infinite.
static __device__ __forceinline__ void bounds_keep(const bounds_run &run, km_bounds_centroid *own, int point,
                                                   float u, float l) {
    const float path = own->path_least, credit = own->credit;
    const float upper = __fsub_ru(u, path);
    run.upper[point] = upper;
    run.slack[point] = __fadd_rd(__fsub_rd(fminf(l, 1e30f), u), credit);
    bounds_raise(&own->radius, bounds_key(upper));
}

// A coordinate as the integers of a sum.
struct bounds_integers {
    long long whole;
    long long rest;
};

static __device__ __forceinline__ bounds_integers bounds_integers_of(const km_bounds_args &args, double x,
                                                                     int f) {
    const double value = x * args.scale[f];
    bounds_integers integers;
    integers.whole = __double2ll_rn(value);
    integers.rest = __double2ll_rn((value - (double)integers.whole) * args.rest);
    return integers;
}

static __device__ __forceinline__ void bounds_add(long long *sums, int f, const bounds_integers &integers,
                                                  long long sign) {
    atomicAdd((unsigned long long *)&sums[f], (unsigned long long)(sign * integers.whole));
    if (integers.rest)
        atomicAdd((unsigned long long *)&sums[D + 1 + f], (unsigned long long)(sign * integers.rest));
}

// A point goes from one cluster to another, by a warp.
static __device__ __forceinline__ void bounds_move(const km_bounds_args &args, const bounds_run &run,
                                                   int point, int from, int to) {
    const km_real *x = (const km_real *)args.points + (long long)point * D;
    long long *less = run.sums + (long long)from * BOUNDS_INTEGERS,
              *more = run.sums + (long long)to * BOUNDS_INTEGERS;
    for (int f = threadIdx.x % 32; f < D; f += 32) {
        const bounds_integers integers = bounds_integers_of(args, (double)x[f], f);
        bounds_add(less, f, integers, -1);
        bounds_add(more, f, integers, 1);
    }
    if (threadIdx.x % 32 == 0) {
        atomicAdd((unsigned long long *)&less[D], ~0ull);
        atomicAdd((unsigned long long *)&more[D], 1ull);
    }
}

// Before the points: how far centroids have moved, how far they are apart, and what follows for the bounds of all
// points with a label.

// A run that begins has the dense design's pass first: `dense`.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_dense(const __grid_constant__ km_bounds_args args) {
    const int slot = blockIdx.y * BOUNDS_THREADS + threadIdx.x;
    if (slot >= args.slots_count) return;
    args.dense[slot] = args.active[slot] && args.records[slot].state.iterations == 0;
    if (args.dense[slot]) args.slots[slot].mode = BOUNDS_DENSE;
}

// Moves, a warp each centroid. Clears what the pass counts.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_moves(const __grid_constant__ km_bounds_args args) {
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const int j = blockIdx.x * (BOUNDS_THREADS / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool is_new = run.slot->mode == BOUNDS_NEW;
    if (j == 0 && lane == 0) {
        run.slot->listed = run.slot->tiles = run.slot->ambiguous = 0;
        run.slot->compared = 0;
    }
    if (j >= run.k) return;
    km_real *before = (km_real *)args.before + (run.row + j) * D;
    double square = 0.0;
    for (int f = lane; f < D; f += 32) {
        const km_real value = run.centroids[(long long)j * D + f];
        const double apart = (double)value - (double)before[f];
        square = fma(apart, apart, square);
        before[f] = value;
    }
    square = bounds_warp_sum(square);
    if (is_new)
        for (int f = lane; f < BOUNDS_INTEGERS; f += 32) run.sums[(long long)j * BOUNDS_INTEGERS + f] = 0;
    if (lane != 0) return;
    km_bounds_centroid *own = run.table + j;
    const double drift = is_new ? 0.0 : sqrt(square) * (1 + BOUNDS_STEP);
    own->drift = __double2float_ru(drift);
    own->path = is_new ? 0.0 : own->path + drift;
    own->listed = own->candidates = 0;
    own->farthest = 0;
}

// Half the distances of 64 x 64 centroids, at most. A block has a square of the upper triangle, and writes the lower
// one, too. A thread has 4 x 4 pairs.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_pairs(const __grid_constant__ km_bounds_args args) {
    enum { SLAB = 16, PITCH = BOUNDS_PAIRS + 4 / sizeof(km_real) * 4 };
    __shared__ __align__(16) km_real rows[SLAB][PITCH], columns[SLAB][PITCH];
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    int below = blockIdx.x, from = 0;
    const int squares = (run.k + BOUNDS_PAIRS - 1) / BOUNDS_PAIRS;
    if (below >= squares * (squares + 1) / 2) return;
    while (below >= squares - from) below -= squares - from++;
    const int first = from * BOUNDS_PAIRS, other = (from + below) * BOUNDS_PAIRS;
    const int x = threadIdx.x % 16 * 4, y = threadIdx.x / 16 * 4;
    float square[4][4] = {};
    for (int slab = 0; slab < D; slab += SLAB) {
        __syncthreads();
        for (int at = threadIdx.x; at < BOUNDS_PAIRS * SLAB; at += BOUNDS_THREADS) {
            const int i = at / SLAB, f = slab + at % SLAB;
            rows[at % SLAB][i] =
                f < D && first + i < run.k ? run.centroids[(first + i) * (long long)D + f] : (km_real)0;
            columns[at % SLAB][i] =
                f < D && other + i < run.k ? run.centroids[(other + i) * (long long)D + f] : (km_real)0;
        }
        __syncthreads();
#pragma unroll 4
        for (int f = 0; f < SLAB; f++) {
            km_real a[4], b[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                a[i] = rows[f][y + i];
                b[i] = columns[f][x + i];
            }
#pragma unroll
            for (int i = 0; i < 4; i++)
#pragma unroll
                for (int j = 0; j < 4; j++) {
                    const float apart = (float)(a[i] - b[j]);
                    square[i][j] = fmaf(apart, apart, square[i][j]);
                }
        }
    }
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const int row = first + y + i, column = other + x + j;
            if (row >= run.k || column >= run.k) continue;
            const float half = 0.5f * sqrtf(square[i][j]) * (1.0f - BOUNDS_ERROR);
            run.pairs[(long long)row * run.pitch + column] = half;
            run.pairs[(long long)column * run.pitch + row] = half;
        }
}

static __device__ __forceinline__ float bounds_block_min(float value, float *shared) {
    value = bounds_warp_min(value);
    __syncthreads();
    if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = value;
    __syncthreads();
    for (int warp = 0; warp < BOUNDS_ROW_THREADS / 32; warp++) value = fminf(value, shared[warp]);
    return value;
}

// What follows for a centroid's points, a block each. Another centroid counts where a point of the cluster could have
// it as its second nearest: centroid i is farther from each of them than the nearest other centroid is, if half the
// distance between i and their own is at least gap + radius (Rysavy and Hamerly, "Geometric methods to accelerate
// k-means algorithms", 2016).
extern "C" __global__ void __launch_bounds__(BOUNDS_ROW_THREADS)
    km_bounds_rows(const __grid_constant__ km_bounds_args args) {
    __shared__ float shared[BOUNDS_ROW_THREADS / 32];
    const int j = blockIdx.x;
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    if (j >= run.k) return;
    km_bounds_centroid *own = run.table + j;
    const float *pairs = run.pairs + (long long)j * run.pitch;
    const bool is_new = run.slot->mode == BOUNDS_NEW;
    float gap = 1e30f, move = 0.0f;
    for (int i = threadIdx.x; i < run.k; i += BOUNDS_ROW_THREADS)
        if (i != j) gap = fminf(gap, pairs[i]);
    gap = bounds_block_min(gap, shared);
    const double radius = (double)bounds_value(own->radius);
    const double limit = (double)gap * (1 + 4 * (double)BOUNDS_ERROR) + radius + own->path +
                         4 * BOUNDS_STEP * (fabs(radius) + own->path) + BOUNDS_LEAST;
    for (int i = threadIdx.x; i < run.k; i += BOUNDS_ROW_THREADS)
        if (i != j && (double)pairs[i] < limit) move = fmaxf(move, run.table[i].drift);
    move = -bounds_block_min(-move, shared);
    if (threadIdx.x != 0) return;
    const double path = own->path, others = is_new ? 0.0 : own->others + (double)move;
    own->others = others;
    own->gap = gap;
    own->expiry = __double2float_ru((path + others) * (1 + BOUNDS_STEP) + BOUNDS_LEAST);
    own->credit = __double2float_rd((path + others) * (1 - BOUNDS_STEP));
    own->path_least = __double2float_rd(path * (1 - BOUNDS_STEP));
    own->inner = __double2float_rd((double)gap - path - BOUNDS_STEP * ((double)gap + path));
    own->lower_less = __double2float_ru(others * (1 + BOUNDS_STEP) + 2 * BOUNDS_STEP * path + BOUNDS_LEAST);
    // From here on it is taken anew.
    if (is_new || run.slot->passes % BOUNDS_RADIUS_PASSES == 0) own->radius = bounds_key(-1e30f);
}

// Behind the lists: where the points of each label begin in `sorted`, in whole tiles. A block each run.
extern "C" __global__ void __launch_bounds__(BOUNDS_OFFSETS_THREADS)
    km_bounds_offsets(const __grid_constant__ km_bounds_args args) {
    enum { EACH = BOUNDS_CLUSTERS_MAX / BOUNDS_OFFSETS_THREADS };
    __shared__ int sums[BOUNDS_OFFSETS_THREADS];
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    int tiles[EACH], sum = 0;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int j = threadIdx.x * EACH + e;
        tiles[e] = j < run.k ? (run.table[j].listed + BOUNDS_TILE - 1) / BOUNDS_TILE : 0;
        sum += tiles[e];
    }
    sums[threadIdx.x] = sum;
    for (int step = 1; step < BOUNDS_OFFSETS_THREADS; step *= 2) {
        __syncthreads();
        const int lower = (int)threadIdx.x >= step ? sums[threadIdx.x - step] : 0;
        __syncthreads();
        sums[threadIdx.x] += lower;
    }
    int at = sums[threadIdx.x] - sum;
#pragma unroll
    for (int e = 0; e < EACH; e++) {
        const int j = threadIdx.x * EACH + e;
        if (j < run.k) run.table[j].start = at * BOUNDS_TILE;
        at += tiles[e];
    }
    if (threadIdx.x == BOUNDS_OFFSETS_THREADS - 1) run.slot->tiles = sums[threadIdx.x];
}

// The candidates of the listed points of a label, in the order of their numbers, a block each: by the triangle
// inequality no centroid is nearer to a point that is twice as far from the point's own as the point is.
extern "C" __global__ void __launch_bounds__(BOUNDS_ROW_THREADS)
    km_bounds_candidates(const __grid_constant__ km_bounds_args args) {
    __shared__ float shared[BOUNDS_ROW_THREADS / 32];
    __shared__ int counts[BOUNDS_ROW_THREADS / 32];
    const int j = blockIdx.x, lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    if (j >= run.k || run.table[j].listed == 0) return;
    km_bounds_centroid *own = run.table + j;
    float *pairs = run.pairs + (long long)j * run.pitch;
    unsigned short *candidates = run.candidates + (long long)j * run.pitch;
    const float limit = __int_as_float(own->farthest) * (1.0f + (float)BOUNDS_STEP);
    float outer = 1e30f;
    int found = 0;
    for (int first = 0; first < run.k; first += BOUNDS_ROW_THREADS) {
        const int i = first + threadIdx.x;
        const bool is_other = i < run.k && i != j;
        const float half = is_other ? pairs[i] : 1e30f;
        const bool is_candidate = is_other && !(half >= limit && limit < 1e30f);
        if (!is_candidate) outer = fminf(outer, half);
        const unsigned lanes = __ballot_sync(0xffffffffu, is_candidate);
        __syncthreads();
        if (lane == 0) counts[warp] = __popc(lanes);
        __syncthreads();
        int at = found + __popc(lanes & ((1u << lane) - 1));
        for (int w = 0; w < BOUNDS_ROW_THREADS / 32; w++) {
            if (w < warp) at += counts[w];
            found += counts[w];
        }
        if (!is_candidate) continue;
        candidates[at] = (unsigned short)i;
        pairs[at] = half; // at most i: what has been read
    }
    outer = bounds_block_min(outer, shared);
    if (threadIdx.x != 0) return;
    own->candidates = found;
    own->outer = outer;
    atomicAdd(&run.slot->compared, (unsigned long long)own->listed * found);
}

// Behind the points: the totals in double, a thread each number.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_totals(const __grid_constant__ km_bounds_args args) {
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const int at = blockIdx.x * BOUNDS_THREADS + threadIdx.x, j = at / (D + 1), f = at % (D + 1);
    if (j >= run.k) return;
    const long long *sums = run.sums + (long long)j * BOUNDS_INTEGERS;
    double total = (double)sums[f];
    if (f < D) total += (double)sums[D + 1 + f] / args.rest;
    args.totals[(run.row + j) * (D + 1) + f] = f < D ? total / args.scale[f] : total;
}

// The runs' next pass: those of the dense design have labels now. Where bounds rest it had all of them.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_end(const __grid_constant__ km_bounds_args args) {
    const int slot = blockIdx.y * BOUNDS_THREADS + threadIdx.x;
    if (args.control->stop || slot >= args.slots_count) return;
    km_bounds_slot *own = args.slots + slot;
    if (args.rests) own->mode = args.active[slot] ? BOUNDS_DENSE : BOUNDS_NEW;
    if (!args.active[slot]) return;
    unsigned long long *counts = args.counts + slot * BOUNDS_COUNTS;
    if (own->mode == BOUNDS_DENSE) {
        counts[BOUNDS_PASSES] += 1;
    } else {
        counts[BOUNDS_SKIPPING] += 1;
        counts[BOUNDS_LISTED] += own->listed;
        counts[BOUNDS_OPEN] += own->listed;
        counts[BOUNDS_COMPARED] += own->compared;
        counts[BOUNDS_RESOLVED] += own->ambiguous;
    }
    own->passes = own->mode == BOUNDS_KEPT ? own->passes + 1 : 0;
    own->mode = own->mode == BOUNDS_DENSE ? BOUNDS_NEW : BOUNDS_KEPT;
}

// Points whose bounds leave their label open.

enum {
    BOUNDS_ROW_LANES = D <= BOUNDS_PIECE        ? 1
                       : D <= 2 * BOUNDS_PIECE  ? 2
                       : D <= 4 * BOUNDS_PIECE  ? 4
                       : D <= 8 * BOUNDS_PIECE  ? 8
                       : D <= 16 * BOUNDS_PIECE ? 16
                                                : 32, // lanes that read a point together
    BOUNDS_ROWS = 32 / BOUNDS_ROW_LANES,              // points that a warp reads at a time
    BOUNDS_WARPS = BOUNDS_THREADS / 32,
    BOUNDS_AHEAD = 4 // points that a lane reads ahead
};

// Of a warp: points that wait until there are 32 of them, so that its lanes are busy.
struct bounds_queue {
    int point[32 * BOUNDS_AHEAD + 32];
    int label[32 * BOUNDS_AHEAD + 32];
    float square[32];
};

// Computes the distances of up to 32 queued points, from `first` on, to their own centroids. Lists those whose label is
// open still.
static __device__ __forceinline__ void bounds_tighten(const km_bounds_args &args, const bounds_run &run,
                                                      bounds_queue &queue, int first, int count,
                                                      bool is_new) {
    const int lane = threadIdx.x % 32, part = lane % BOUNDS_ROW_LANES;
#pragma unroll(BOUNDS_ROW_LANES < 2 ? 1 : 2)
    for (int round = 0; round < BOUNDS_ROW_LANES; round++) {
        const int at = round * BOUNDS_ROWS + lane / BOUNDS_ROW_LANES, which = first + (at < count ? at : 0);
        const km_real *x = (const km_real *)args.points + (long long)queue.point[which] * D;
        const km_real *c = run.centroids + (long long)queue.label[which] * D;
        float square = 0.0f;
#pragma unroll 4
        for (int f = part * BOUNDS_PIECE; f < D; f += BOUNDS_ROW_LANES * BOUNDS_PIECE) {
            const bounds_piece a = *(const bounds_piece *)(x + f), b = *(const bounds_piece *)(c + f);
#pragma unroll
            for (int i = 0; i < BOUNDS_PIECE; i++) {
                const float apart = (float)(a.at[i] - b.at[i]);
                square = fmaf(apart, apart, square);
            }
        }
#pragma unroll
        for (int away = BOUNDS_ROW_LANES / 2; away > 0; away /= 2)
            square += __shfl_xor_sync(0xffffffffu, square, away);
        if (part == 0) queue.square[at] = square;
    }
    __syncwarp();
    bool is_open = lane < count;
    const int point = queue.point[first + (is_open ? lane : 0)],
              label = queue.label[first + (is_open ? lane : 0)];
    km_bounds_centroid *own = run.table + label;
    const float u = sqrtf(queue.square[is_open ? lane : 0]) * (1.0f + BOUNDS_ERROR) + (float)BOUNDS_LEAST;
    if (is_open && !is_new) {
        const float slack = run.slack[point], upper = run.upper[point];
        const float less = own->lower_less + 4 * BOUNDS_UNIT * (fabsf(slack) + fabsf(upper));
        const float lower = __fsub_rd(__fadd_rd(slack, upper), less), gap = own->gap;
        is_open = !(u < lower) && !(u < gap);
        if (!is_open) bounds_keep(run, own, point, u, fmaxf(lower, 0.0f));
    }
    const unsigned lanes = __ballot_sync(0xffffffffu, is_open);
    int begin = 0;
    if (lane == 0 && lanes) begin = atomicAdd(&run.slot->listed, __popc(lanes));
    begin = __shfl_sync(0xffffffffu, begin, 0);
    if (is_open) {
        const km_bounds_entry entry = {point, atomicAdd(&own->listed, 1)};
        run.list[begin + __popc(lanes & ((1u << lane) - 1))] = entry;
        bounds_raise(&own->farthest, __float_as_int(u));
    }
    if (lane == 0) atomicAdd(&run.counts[BOUNDS_OWN], (unsigned long long)count);
    __syncwarp();
}

// With no bound of three blocks a multiprocessor the compiler would aim at more, and spill.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS, 3)
    km_bounds_list(const __grid_constant__ km_bounds_args args) {
    __shared__ bounds_queue queues[BOUNDS_WARPS];
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const bool is_new = run.slot->mode == BOUNDS_NEW,
               asks_radius = !is_new && run.slot->passes % BOUNDS_RADIUS_PASSES == 0;
    const int lane = threadIdx.x % 32;
    bounds_queue &queue = queues[threadIdx.x / 32];
    int queued = 0;
    for (long long first = (blockIdx.x * (long long)BOUNDS_WARPS + threadIdx.x / 32) * (32 * BOUNDS_AHEAD);
         first < args.n; first += gridDim.x * (long long)(BOUNDS_THREADS * BOUNDS_AHEAD)) {
        int label[BOUNDS_AHEAD];
        float slack[BOUNDS_AHEAD];
#pragma unroll
        for (int a = 0; a < BOUNDS_AHEAD; a++) {
            const long long i = first + a * 32 + lane;
            label[a] = i < args.n ? run.labels[i] : 0;
            slack[a] = i < args.n && !is_new ? run.slack[i] : -1e30f;
        }
#pragma unroll
        for (int a = 0; a < BOUNDS_AHEAD; a++) {
            const long long i = first + a * 32 + lane;
            bool is_open = i < args.n;
            if (is_open && !is_new) {
                const km_bounds_centroid *own = run.table + label[a];
                is_open = !(slack[a] > own->expiry);
                if (is_open || asks_radius) {
                    const float upper = run.upper[i];
                    is_open = is_open && !(upper < own->inner);
                    if (asks_radius) bounds_raise(&run.table[label[a]].radius, bounds_key(upper));
                }
            }
            const unsigned lanes = __ballot_sync(0xffffffffu, is_open);
            if (is_open) {
                const int at = queued + __popc(lanes & ((1u << lane) - 1));
                queue.point[at] = (int)i;
                queue.label[at] = label[a];
            }
            queued += __popc(lanes);
        }
        __syncwarp();
        while (queued >= 32) {
            queued -= 32;
            bounds_tighten(args, run, queue, queued, 32, is_new);
        }
    }
    if (queued) bounds_tighten(args, run, queue, 0, queued, is_new);
}

// Listed points to their places: those of a label side by side.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS)
    km_bounds_sort(const __grid_constant__ km_bounds_args args) {
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const int listed = run.slot->listed;
    for (int at = blockIdx.x * BOUNDS_THREADS + threadIdx.x; at < listed; at += gridDim.x * BOUNDS_THREADS) {
        const km_bounds_entry entry = run.list[at];
        const int label = run.labels[entry.point], to = run.table[label].start + entry.rank;
        run.sorted[to] = entry.point;
        if (entry.rank % BOUNDS_TILE == 0) run.tile_labels[to / BOUNDS_TILE] = (unsigned short)label;
    }
}

// Listed points against their candidates, on tensor cores. A warp has a tile of 32 points with one label, in halves,
// relative to their own centroid: coordinates are small then, and little is lost. Its own centroid has the score 0;
// a centroid with a larger score is nearer.

enum {
    BOUNDS_STEPS = (D + 15) / 16, // of products: 16 features each
    BOUNDS_HALVES = BOUNDS_PITCH(D),
    BOUNDS_SCORE_WARP = BOUNDS_SCORE_WARPS(D), // warps of a block
    BOUNDS_GROUP = 16,                         // candidates at a time
    BOUNDS_QUEUE = 32 + BOUNDS_GROUP
};

struct bounds_tile {
    unsigned short points[BOUNDS_TILE][BOUNDS_HALVES]; // no bank conflicts of eight bytes a lane
    km_real own[BOUNDS_STEPS * 16];
};

static __device__ __forceinline__ unsigned bounds_halves(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

static __device__ __forceinline__ float bounds_half(unsigned pair, int high) {
    float value;
    asm("{ .reg .f16 half; mov.b16 half, %1; cvt.f32.f16 %0, half; }"
        : "=f"(value)
        : "h"((unsigned short)(high ? pair >> 16 : pair)));
    return value;
}

static __device__ __forceinline__ void bounds_multiply(float *sums, const unsigned *a, const unsigned *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four adjacent features of a row, zeros behind the last.
struct bounds_four {
    km_real at[4];
};

static __device__ __forceinline__ bounds_four bounds_read(const km_real *row, int f) {
    bounds_four four = {};
#pragma unroll
    for (int i = 0; i < 4; i += BOUNDS_PIECE)
        if (f + i < D) {
            const bounds_piece piece = *(const bounds_piece *)(row + f + i);
#pragma unroll
            for (int p = 0; p < BOUNDS_PIECE; p++) four.at[i + p] = piece.at[p];
        }
    return four;
}

// The best two scores of a point: upper ends of what they may be; and where the best one stands in the candidates.
struct bounds_best {
    float best, second;
    int at;
};

static __device__ __forceinline__ void bounds_join(bounds_best &a, int away) {
    bounds_best b;
    b.best = __shfl_xor_sync(0xffffffffu, a.best, away);
    b.second = __shfl_xor_sync(0xffffffffu, a.second, away);
    b.at = __shfl_xor_sync(0xffffffffu, a.at, away);
    a.second = fmaxf(fmaxf(a.second, b.second), fminf(a.best, b.best));
    if (b.best > a.best || (b.best == a.best && b.at < a.at)) a.at = b.at;
    a.best = fmaxf(a.best, b.best);
}

// Relative errors: of a half; of a product's sum, where an addition keeps 23 bits of the largest number; of the squared
// distance of two centroids. A centroid's halves may lose so much to underflow.
constexpr float BOUNDS_HALF_ERROR = 4.9e-4f, BOUNDS_SUM_ERROR = (4 * BOUNDS_STEPS * 16 + 8) * BOUNDS_UNIT,
                BOUNDS_SQUARE_ERROR = 4 * BOUNDS_ERROR, BOUNDS_UNDERFLOW = 6e-8f;

// What is known of a lane's four points, lane / 4 + 8 r, in the tile's units.
struct bounds_points {
    float square[4];   // |x|^2
    float relative[4]; // how much a score errs, by the centroid's distance ...
    float constant[4]; // ... and beside that
};

// Reads the points of a tile, relative to their own centroid.
static __device__ __forceinline__ void bounds_load(bounds_points &found, const bounds_run &run,
                                                   bounds_tile &tile, const km_real *points, int point,
                                                   float scale) {
    const int lane = threadIdx.x % 32, part = lane % 4 * 4;
    const km_real *rows[4];
    float lost[4] = {};
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const int of_row = __shfl_sync(0xffffffffu, point, lane / 4 + 8 * r);
        rows[r] = points + (long long)of_row * D;
        found.square[r] = 0.0f;
    }
#pragma unroll 2
    for (int step = 0; step < BOUNDS_STEPS; step++) {
        const int f = step * 16 + part;
        bounds_four x[4];
#pragma unroll
        for (int r = 0; r < 4; r++) x[r] = bounds_read(rows[r], f);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float apart[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                apart[i] = (float)(x[r].at[i] - tile.own[f + i]) * scale;
                found.square[r] = fmaf(apart[i], apart[i], found.square[r]);
            }
            const uint2 halves =
                make_uint2(bounds_halves(apart[0], apart[1]), bounds_halves(apart[2], apart[3]));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float rest = apart[i] - bounds_half(i < 2 ? halves.x : halves.y, i % 2);
                lost[r] = fmaf(rest, rest, lost[r]);
            }
            *(uint2 *)&tile.points[lane / 4 + 8 * r][f] = halves;
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        for (int away = 1; away <= 2; away *= 2) {
            found.square[r] += __shfl_xor_sync(0xffffffffu, found.square[r], away);
            lost[r] += __shfl_xor_sync(0xffffffffu, lost[r], away);
        }
        const float norm = sqrtf(found.square[r]) * (1.0f + BOUNDS_ERROR),
                    rest = sqrtf(lost[r]) * (1.0f + BOUNDS_ERROR) + BOUNDS_UNDERFLOW;
        found.relative[r] = 1.001f * (rest + (norm + rest) * (BOUNDS_HALF_ERROR + BOUNDS_SUM_ERROR));
        found.constant[r] = 1.001f * (norm + rest) * (BOUNDS_UNDERFLOW * 23.0f);
    }
    __syncwarp();
}

// Where a column of 16 candidates stands in the candidates of the label.
static __device__ __forceinline__ int bounds_place(const bounds_tile &tile, int first, int column) {
    return first + column;
}

// The scores of 16 candidates, from `first` on, to the best two so far. `pairs`: half distances from the tile's own
// centroid.
static __device__ __forceinline__ void bounds_score(bounds_best (&best)[4], const bounds_run &run,
                                                    const bounds_tile &tile, const bounds_points &found,
                                                    const unsigned short *candidates, const float *pairs,
                                                    int first, int count, float scale) {
    const int lane = threadIdx.x % 32, part = lane % 4 * 4;
    const km_real *rows[2];
    float sums[2][2][4] = {}; // 16 points, eight candidates
#pragma unroll
    for (int c = 0; c < 2; c++) {
        const int place = bounds_place(tile, first, min(c * 8 + lane / 4, count - 1 - first));
        rows[c] = run.centroids + (long long)candidates[place] * D;
    }
#pragma unroll 2
    for (int step = 0; step < BOUNDS_STEPS; step++) {
        const int f = step * 16 + part;
        bounds_four c[2];
        unsigned centroids[2][2], points[2][4];
#pragma unroll
        for (int q = 0; q < 2; q++) c[q] = bounds_read(rows[q], f);
#pragma unroll
        for (int q = 0; q < 2; q++) {
            float apart[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                apart[i] = (float)(c[q].at[i] - tile.own[f + i]) * scale;
            }
            centroids[q][0] = bounds_halves(apart[0], apart[1]);
            centroids[q][1] = bounds_halves(apart[2], apart[3]);
        }
#pragma unroll
        for (int m = 0; m < 2; m++) {
            const uint2 low = *(const uint2 *)&tile.points[16 * m + lane / 4][f],
                        high = *(const uint2 *)&tile.points[16 * m + 8 + lane / 4][f];
            points[m][0] = low.x;
            points[m][1] = high.x;
            points[m][2] = low.y;
            points[m][3] = high.y;
#pragma unroll
            for (int q = 0; q < 2; q++) bounds_multiply(sums[m][q], points[m], centroids[q]);
        }
    }
    float before[4];
#pragma unroll
    for (int r = 0; r < 4; r++) before[r] = best[r].best;
#pragma unroll
    for (int q = 0; q < 2; q++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int column = q * 8 + lane % 4 * 2 + i;
            const bool is_there = first + column < count;
            const int place = is_there ? bounds_place(tile, first, column) : 0;
            const float length = is_there ? 2.0f * pairs[place] * scale : 1e18f;
            const float half_square = 0.5f * length * length,
                        longest = length * (1.0f + BOUNDS_SQUARE_ERROR) + BOUNDS_UNDERFLOW;
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const float score =
                    fmaf(longest, found.relative[r], sums[r / 2][q][r % 2 * 2 + i] + found.constant[r]) -
                    half_square;
                // The last bits of a score are replaced by its column.
                const float key = __uint_as_float((__float_as_uint(score) & ~3u) | (q * 2 + i));
                best[r].second = fmaxf(best[r].second, fminf(best[r].best, key));
                best[r].best = fmaxf(best[r].best, key);
            }
        }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const int column = __float_as_uint(best[r].best) & 3;
        if (best[r].best != before[r])
            best[r].at = bounds_place(tile, first, column / 2 * 8 + lane % 4 * 2 + column % 2);
    }
}

// The scores of all candidates; of elkan those that are open for some point. Returns how many.
static __device__ __forceinline__ int bounds_score_all(bounds_best (&best)[4], const bounds_run &run,
                                                       const bounds_tile &tile, const bounds_points &found,
                                                       const unsigned short *candidates, const float *pairs,
                                                       int count, float scale) {
    for (int first = 0; first < count; first += BOUNDS_GROUP)
        bounds_score(best, run, tile, found, candidates, pairs, first, count, scale);
    return count;
}

// What the scores say of a point. `at`: its nearest centroid's place in the candidates, -1: its own; -2: it is
// ambiguous.
struct bounds_decided {
    float u, l;
    int at;
};

static __device__ __forceinline__ bounds_decided bounds_decide(const bounds_best &best, float square,
                                                               float relative, float constant, float length,
                                                               float outer, float scale) {
    constexpr float SQUARE_ERROR = 2 * BOUNDS_ERROR;
    bounds_decided decided;
    const float high = best.best + BOUNDS_KEY_ERROR * fabsf(best.best),
                own = sqrtf(square) * (1.0f + BOUNDS_ERROR) + 1e-18f;
    const float second = fmaxf(best.second + BOUNDS_KEY_ERROR * fabsf(best.second), 0.0f);
    const float longest = length * (1.0f + BOUNDS_SQUARE_ERROR) + BOUNDS_UNDERFLOW;
    const float low = best.best - BOUNDS_KEY_ERROR * fabsf(best.best) -
                      1.001f * (2.0f * (longest * relative + constant) +
                                (BOUNDS_SQUARE_ERROR + 4 * BOUNDS_UNIT) * longest * longest);
    const float least = square * (1.0f - SQUARE_ERROR), most = square * (1.0f + SQUARE_ERROR);
    float next;
    if (high < 0.0f) {
        decided.at = -1;
        decided.u = own;
        next = least - 2.0f * high;
    } else {
        decided.at = low > 0.0f && low > second ? 0 : -2;
        decided.u = sqrtf(fmaxf(most - 2.0f * low, 0.0f));
        next = least - 2.0f * second;
    }
    // Centroids that are no candidates.
    const float away = 2.0f * outer * scale - own;
    decided.l = fminf(sqrtf(fmaxf(next, 0.0f)), away) * (1.0f - 16 * BOUNDS_UNIT);
    decided.l = fmaxf(decided.l, 0.0f) / scale;
    decided.u = decided.u * (1.0f + 16 * BOUNDS_UNIT) / scale + (float)BOUNDS_LEAST;
    return decided;
}

// All points of a tile to the sums of their label, when a run begins to have bounds. Lanes have a feature each; where
// there are few features, several points side by side.
static __device__ __forceinline__ void bounds_sum_tile(const km_bounds_args &args, const bounds_run &run,
                                                       int point, int count, int label) {
    constexpr int LANES = D <= 4 ? 4 : D <= 8 ? 8 : D <= 16 ? 16 : 32, AT_ONCE = 32 / LANES;
    long long *sums = run.sums + (long long)label * BOUNDS_INTEGERS;
    for (int first = 0; first < D; first += LANES) {
        const int f = first + threadIdx.x % LANES, own = threadIdx.x % 32 / LANES;
        bounds_integers sum = {};
#pragma unroll 8
        for (int p = 0; p < BOUNDS_TILE; p += AT_ONCE) {
            const long long i = __shfl_sync(0xffffffffu, point, p + own);
            const double x = f < D ? (double)((const km_real *)args.points)[i * D + f] : 0.0;
            if (p + own >= count || f >= D) continue;
            const bounds_integers integers = bounds_integers_of(args, x, f);
            sum.whole += integers.whole;
            sum.rest += integers.rest;
        }
#pragma unroll
        for (int away = LANES; away < 32; away *= 2) {
            sum.whole += __shfl_xor_sync(0xffffffffu, sum.whole, away);
            sum.rest += __shfl_xor_sync(0xffffffffu, sum.rest, away);
        }
        if (f < D && own == 0) bounds_add(sums, f, sum, 1);
    }
    if (threadIdx.x % 32 == 0) atomicAdd((unsigned long long *)&sums[D], (unsigned long long)count);
}

// With no bound of 12 warps a multiprocessor the compiler would aim at more, and spill.
extern "C" __global__ void __launch_bounds__(BOUNDS_SCORE_WARP * 32, 12 / BOUNDS_SCORE_WARP)
    km_bounds_score(const __grid_constant__ km_bounds_args args) {
    __shared__ __align__(16) bounds_tile tiles[BOUNDS_SCORE_WARP];
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, count = run.slot->tiles;
    const bool is_new = run.slot->mode == BOUNDS_NEW;
    bounds_tile &tile = tiles[warp];
    unsigned changed = 0;
    for (int t = blockIdx.x * BOUNDS_SCORE_WARP + warp; t < count; t += gridDim.x * BOUNDS_SCORE_WARP) {
        const int label = run.tile_labels[t];
        km_bounds_centroid *own = run.table + label;
        const int here = min(own->start + own->listed - t * BOUNDS_TILE, (int)BOUNDS_TILE),
                  candidates_count = own->candidates;
        const int point = run.sorted[t * BOUNDS_TILE + min(lane, here - 1)];
        const float farthest = __int_as_float(own->farthest), outer = own->outer;
        const unsigned short *candidates = run.candidates + (long long)label * run.pitch;
        const float *pairs = run.pairs + (long long)label * run.pitch;
        if (is_new) bounds_sum_tile(args, run, point, here, label);
        // A power of two that brings the farthest point to 256 .. 512.
        const bool is_usual = farthest > 1e-15f && farthest < 1e15f;
        const float scale =
            is_usual ? __int_as_float((127 + 8 + 127 - (__float_as_int(farthest) >> 23)) << 23) : 1.0f;
        const unsigned lanes = ~0u >> (32 - here);
        const int shown = point;
        bounds_points found;
        bounds_best best[4];
#pragma unroll
        for (int r = 0; r < 4; r++) best[r] = {-3e38f, -3e38f, 0};
        __syncwarp();
        for (int f = lane; f < BOUNDS_STEPS * 16; f += 32)
            tile.own[f] = f < D ? run.centroids[(long long)label * D + f] : (km_real)0;
        __syncwarp();
        bounds_load(found, run, tile, (const km_real *)args.points, shown, scale);
        if (is_usual) bounds_score_all(best, run, tile, found, candidates, pairs, candidates_count, scale);
        // A lane takes the point lane / 4 + 8 (lane % 4).
        bounds_best mine = best[0];
        float square = found.square[0], relative = found.relative[0], constant = found.constant[0];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            bounds_join(best[r], 1);
            bounds_join(best[r], 2);
            if (lane % 4 == r) {
                mine = best[r];
                square = found.square[r];
                relative = found.relative[r];
                constant = found.constant[r];
            }
        }
        const int which = lane / 4 + lane % 4 * 8, my_point = __shfl_sync(0xffffffffu, point, which);
        const bool is_mine = lanes >> which & 1;
        const int place = candidates_count ? min(mine.at, candidates_count - 1) : 0,
                  nearest = candidates[place];
        const float length = candidates_count ? 2.0f * pairs[place] * scale : 0.0f;
        bounds_decided decided = bounds_decide(mine, square, relative, constant, length, outer, scale);
        if (!is_usual) decided.at = candidates_count ? -2 : -1;
        const unsigned ambiguous = __ballot_sync(0xffffffffu, is_mine && decided.at == -2);
        int begin = 0;
        if (lane == 0 && ambiguous) begin = atomicAdd(&run.slot->ambiguous, __popc(ambiguous));
        begin = __shfl_sync(0xffffffffu, begin, 0);
        const bool moves = is_mine && decided.at >= 0;
        if (is_mine && decided.at == -2)
            run.ambiguous[begin + __popc(ambiguous & ((1u << lane) - 1))] = my_point;
        else if (is_mine)
            bounds_keep(run, run.table + (moves ? nearest : label), my_point, decided.u, decided.l);
        if (moves) run.labels[my_point] = (bounds_label)nearest;
        for (unsigned moving = __ballot_sync(0xffffffffu, moves); moving; moving &= moving - 1) {
            const int from = __ffs((int)moving) - 1;
            bounds_move(args, run, __shfl_sync(0xffffffffu, my_point, from), label,
                        __shfl_sync(0xffffffffu, nearest, from));
            changed++;
        }
    }
    if (lane == 0 && changed) {
        atomicAdd(&run.counts[BOUNDS_CHANGED], (unsigned long long)changed);
        atomicAdd(&args.changes[blockIdx.y], (unsigned long long)changed);
    }
}

// Ambiguous points: all their candidates, by squared distances in double, ties to the lowest index. A warp each.

// Of two centroids the nearer, and the distance to the other.
struct bounds_nearest {
    double square, next;
    int j;
};

static __device__ __forceinline__ void bounds_take(bounds_nearest &nearest, double square, double next,
                                                   int j) {
    const bool is_nearer = square < nearest.square || (square == nearest.square && j < nearest.j);
    const double loser = is_nearer ? nearest.square : square, winner_next = is_nearer ? next : nearest.next;
    nearest.next = fmin(winner_next, loser);
    nearest.square = is_nearer ? square : nearest.square;
    nearest.j = is_nearer ? j : nearest.j;
}

// With no bound of three blocks a multiprocessor the compiler would aim at more, and spill.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS, 3)
    km_bounds_resolve(const __grid_constant__ km_bounds_args args) {
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const int lane = threadIdx.x % 32, count = run.slot->ambiguous, warps = gridDim.x * BOUNDS_WARPS;
    unsigned changed = 0;
    for (int at = blockIdx.x * BOUNDS_WARPS + threadIdx.x / 32; at < count; at += warps) {
        const int point = run.ambiguous[at], label = run.labels[point];
        const km_real *x = (const km_real *)args.points + (long long)point * D;
        const km_bounds_centroid *own = run.table + label;
        const unsigned short *candidates = run.candidates + (long long)label * run.pitch;
        const int candidates_count = own->candidates;
        bounds_nearest nearest = {1e308, 1e308, 1 << 30};
        for (int c = lane; c <= candidates_count; c += 32) {
            const int j = c < candidates_count ? candidates[c] : label;
            const km_real *centroid = run.centroids + (long long)j * D;
            double square = 0.0;
#pragma unroll 4
            for (int f = 0; f < D; f += BOUNDS_PIECE) {
                const bounds_piece a = *(const bounds_piece *)(x + f),
                                   b = *(const bounds_piece *)(centroid + f);
#pragma unroll
                for (int i = 0; i < BOUNDS_PIECE; i++) {
                    const double apart = (double)a.at[i] - (double)b.at[i];
                    square = fma(apart, apart, square);
                }
            }
            bounds_take(nearest, square, 1e308, j);
        }
        for (int away = 16; away > 0; away /= 2) {
            const double square = __shfl_xor_sync(0xffffffffu, nearest.square, away),
                         next = __shfl_xor_sync(0xffffffffu, nearest.next, away);
            bounds_take(nearest, square, next, __shfl_xor_sync(0xffffffffu, nearest.j, away));
        }
        const float u = __double2float_ru(sqrt(nearest.square) * (1 + BOUNDS_STEP) + BOUNDS_LEAST);
        if (lane == 0) {
            // No centroid that is no candidate is nearer to the point than this; its own centroid is at most `farthest`
            // away.
            const double away = 2.0 * (double)own->outer - (double)__int_as_float(own->farthest);
            const double next = fmin(sqrt(nearest.next) * (1 - BOUNDS_STEP), away);
            if (nearest.j != label) run.labels[point] = (bounds_label)nearest.j;
            bounds_keep(run, run.table + nearest.j, point, u, __double2float_rd(fmax(fmin(next, 1e30), 0.0)));
        }
        if (nearest.j != label) {
            bounds_move(args, run, point, label, nearest.j);
            changed++;
        }
    }
    if (lane == 0 && changed) {
        atomicAdd(&run.counts[BOUNDS_CHANGED], (unsigned long long)changed);
        atomicAdd(&args.changes[blockIdx.y], (unsigned long long)changed);
    }
}

// ==== The host part: what the header declares ==============================================================
#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)
#include "hamerly.h"
#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static __thread char host_text[512];

const char *hamerly_error(void) {
    return host_text;
}

static __attribute__((format(printf, 2, 3))) int host_fail(int kind, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(host_text, sizeof host_text, format, values);
    va_end(values);
    return kind;
}

static const int host_ks[HAMERLY_KS] = {
    256,
};
static const int host_offsets[HAMERLY_KS] = {
    0,
};

// Statistics of the points, and how they are transformed: x becomes (x - centre[f]) * factor. The centre is the mean,
// rounded to a multiple of a power of two, so that integers stay integers. The factor is a power of two that brings the
// largest coordinate between 1/2 and 1. So x keeps its digits.
typedef struct host_data {
    double centre[HAMERLY_FEATURES], mean[HAMERLY_FEATURES], variance[HAMERLY_FEATURES];
    double low[HAMERLY_FEATURES], high[HAMERLY_FEATURES];
    double factor, total_weight;
    double total_square; // sum of w |x|^2, after the transform
} host_data;

static double host_centre(double mean, double variance, double low, double high) {
    int exponent;
    if (low == high) return low;
    double deviation = sqrt(variance);
    if (!(deviation > 0) || deviation > DBL_MAX) return mean;
    frexp(deviation, &exponent);
    double step = ldexp(1.0, exponent - 2), centre = rint(mean / step) * step;
    return fabs(centre) <= DBL_MAX ? centre : mean;
}

// From sums of w (x - origin) and w (x - origin)^2, and from the smallest and largest values, d of each. Returns 0
// where the origin is so far from the mean that digits of the variance are lost.
static int host_take_statistics(host_data *data, const double *sums, const double *origin) {
    int is_exact = 1;
    for (int f = 0; f < HAMERLY_FEATURES; f++) {
        double away = sums[f] / data->total_weight;
        data->mean[f] = origin[f] + away;
        data->variance[f] = sums[HAMERLY_FEATURES + f] / data->total_weight - away * away;
        data->low[f] = sums[2 * HAMERLY_FEATURES + f];
        data->high[f] = sums[3 * HAMERLY_FEATURES + f];
        is_exact &= away * away <= 64 * data->variance[f];
    }
    return is_exact;
}

static int host_choose_move(host_data *data) {
    double largest = 0;
    int exponent;
    for (int f = 0; f < HAMERLY_FEATURES; f++) {
        double centre = host_centre(data->mean[f], data->variance[f], data->low[f], data->high[f]);
        data->centre[f] = centre;
        largest = fmax(largest, fmax(fabs(data->low[f] - centre), fabs(data->high[f] - centre)));
    }
    if (!(data->total_weight > 0))
        return host_fail(HAMERLY_DATA, "the weights add up to nothing: some point must weigh more than 0");
    if (!(largest * largest * data->total_weight <= DBL_MAX))
        return host_fail(HAMERLY_DATA,
                         "squares of values like %g do not fit a double: divide the points by a power of ten",
                         largest);
    frexp(largest, &exponent);
    data->factor = largest > 0 ? ldexp(1.0, -exponent) : 1.0;
    return HAMERLY_OK;
}

// A K stops when the squared shift of its centroids is at most this.
static double host_shift_max(const host_data *data, double tolerance) {
    double sum = 0;
    for (int f = 0; f < HAMERLY_FEATURES; f++) sum += data->variance[f] * data->factor * data->factor;
    return tolerance * (sum / HAMERLY_FEATURES);
}

// How far the mean of n equal points may lie from them by rounding, squared, for points of size 1.
static double host_rounding2(long long n) {
    const double relative = (double)(n < 16 ? n : 16) * 5.9604644775390625e-8;
    return relative * relative;
}

static int host_by_value(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

enum { HOST_SAMPLE = 128 };

// |x|^2 of a typical point: the median of a sample, or the next above it that is not zero.
static double host_typical(double *squares, int count) {
    int at = count / 2;
    qsort(squares, (size_t)count, sizeof *squares, host_by_value);
    while (at + 1 < count && !(squares[at] > 0)) at++;
    return squares[at];
}

// Candidates of a pick of k-means++: 1, then 2 + ln(pick + 1) but 4 at least. The first K picks seed K, whatever the
// largest K is.
static int host_candidates(long long pick) {
    static const int steps[] = {21, 55, 149, 404, 1097, 2981, 8104, 22027, 59875};
    int count = 4;
    if (pick == 0) return 1;
    for (int i = 0; i < 9 && pick + 1 >= steps[i]; i++) count++;
    return count;
}

static int host_check(const hamerly_fit *fit, const void *points, long long n) {
    if (!fit || !points) return host_fail(HAMERLY_ARGUMENT, "%s is NULL", fit ? "points" : "fit");
    if (n < HAMERLY_K_MAX)
        return host_fail(HAMERLY_DATA,
                         "%lld points are fewer than the largest K, %d: give more, or emit a shorter list", n,
                         (int)HAMERLY_K_MAX);
    return HAMERLY_OK;
}

static int host_check_index(int index) {
    if (index >= 0 && index < HAMERLY_KS) return HAMERLY_OK;
    return host_fail(HAMERLY_ARGUMENT, "entry %d of a list of %d K: the first is 0", index, (int)HAMERLY_KS);
}

// Transforms a coordinate as the points are, and back.
static hamerly_real host_there(const host_data *data, hamerly_real x, int f) {
    return (hamerly_real)(((double)x - data->centre[f]) * data->factor);
}

static hamerly_real host_back(const host_data *data, double x, int f) {
    return (hamerly_real)(x / data->factor + data->centre[f]);
}

// Refuses value i of the first centroids where it is far outside the points.
static int host_check_first(const host_data *data, double x, long long i) {
    const int f = (int)(i % HAMERLY_FEATURES);
    if (fabs((x - data->centre[f]) * data->factor) <= 1048576.0) return HAMERLY_OK;
    return host_fail(HAMERLY_DATA,
                     "row %lld of the first centroids, feature %d: %g is no number among the points",
                     i / HAMERLY_FEATURES, f, x);
}
#include <new>

// What relocation does to the centroids of a slot, when it is known which points become centroids of empty clusters.
// Engines and the host part of emitted files compile this.
#ifndef KM_RELOCATION_H
#define KM_RELOCATION_H

// A point that becomes the centroid of cluster `to`, which is empty, and the cluster that had it in the last pass.
typedef struct km_relocated_point {
    long long point;
    int from, to;
    double weight;
} km_relocated_point;

// Takes a point out of the mean of its cluster. A millionth of the weight is what rounding may leave of none.
static inline void km_mean_without(double *mean, double *weight, const double *x, double x_weight,
                                   long long d) {
    const double left = *weight - x_weight, nothing = *weight / 1048576;
    for (long long f = 0; f < d && left > nothing; f++)
        mean[f] = (*weight * mean[f] - x_weight * x[f]) / left;
    *weight = left > nothing ? left : 0;
}

// Gives the coordinates of `count` points (the rows of `points`) to their new clusters. `centroids` is k x d. Where
// they are the means of clusters that weigh `weights`, the points leave the means of their old clusters, as
// scikit-learn has it. A cluster that all points leave gets the centroid of the heaviest one: the next pass finds one
// of the two empty.
static inline void km_relocate_points(double *centroids, double *weights, long long k, long long d,
                                      const km_relocated_point *moved, const double *points, long long count,
                                      int are_means) {
    long long heaviest = 0;
    for (long long i = 0; i < count; i++) {
        const double *x = points + i * d;
        if (are_means)
            km_mean_without(centroids + moved[i].from * d, weights + moved[i].from, x, moved[i].weight, d);
        for (long long f = 0; f < d; f++) centroids[moved[i].to * d + f] = x[f];
        weights[moved[i].to] = moved[i].weight;
    }
    if (!are_means) return;
    for (long long j = 1; j < k; j++)
        if (weights[j] > weights[heaviest]) heaviest = j;
    for (long long i = 0; i < count; i++)
        for (long long f = 0; f < d && !(weights[moved[i].from] > 0); f++)
            centroids[moved[i].from * d + f] = centroids[heaviest * d + f];
}

#endif

enum { HOST_SLOTS = RESTARTS * KS, HOST_PARTS = (int)KM_UPDATE_PARTS(K_MAX, D) };

// Device memory that is freed with its owner.
struct host_memory {
    void *at = nullptr;
    size_t bytes = 0;
    ~host_memory() {
        cudaFree(at);
    }
    template <typename T> T *as() const {
        return (T *)at;
    }
};

// What the host and km_update share: the loop's control, and where each slot is. A slot is an entry of the list of K;
// of those beside the first restart none is used here.
struct host_state {
    alignas(KM_ALIGN_BYTES) km_loop loop;
    alignas(KM_ALIGN_BYTES) km_slot_record slots[HOST_SLOTS];
    alignas(KM_ALIGN_BYTES) unsigned char active[HOST_SLOTS];
    alignas(KM_ALIGN_BYTES) unsigned char given_up[RESTARTS * S];
};

// A kernel of the pass by the name that km_pass_launches gives it.
struct host_kernel {
    const char *name;
    const void *function;
};
static const host_kernel host_kernels[] = {
    {"km_tensor_histogram", (const void *)km_tensor_histogram},
    {"km_tensor_lattice", (const void *)km_tensor_lattice},
    {"km_tensor_tiles", (const void *)km_tensor_tiles},
    {"km_tensor_prepare", (const void *)km_tensor_prepare},
    {"km_tensor_0", (const void *)km_tensor_0},
    {"km_reduce", (const void *)km_reduce},
};
enum {
    HOST_KERNELS = sizeof host_kernels / sizeof host_kernels[0],
    HOST_LAUNCHES = sizeof km_pass_launches / sizeof km_pass_launches[0]
};

struct hamerly_fit {
    long long n, subchunks, chunks;
    host_data data;
    host_memory points, weights, pass_weights, subchunk_weights, box;
    host_memory centroids, before, totals, slot_weights, part_sums, workspace, device_state, labels, changes;
    host_state state;
    km_pass_facts facts;
    km_pass_launch launches[HOST_LAUNCHES];
    const void *functions[HOST_LAUNCHES];
    void *constants = nullptr;
    int shared_max = 0; // bytes of shared memory that a block may have
    volatile unsigned long long *report =
        nullptr;                                 // in the host's memory, where km_update writes how far it is ...
    unsigned long long *device_report = nullptr; // ... by this address
    ~hamerly_fit() {
        cudaFreeHost((void *)report);
    }
    bool started = false;
};

static int host_cuda(cudaError_t error, const char *what) {
    if (error == cudaSuccess) return HAMERLY_OK;
    cudaGetLastError(); // the error is reported here, and not again
    if (error == cudaErrorMemoryAllocation)
        return host_fail(HAMERLY_MEMORY, "the device has not enough memory (%s): give fewer points", what);
    return host_fail(HAMERLY_DEVICE, "%s: %s: %s", what, cudaGetErrorName(error), cudaGetErrorString(error));
}

#define HOST_TRY(call)                                                                                       \
    do {                                                                                                     \
        const int failed = call;                                                                             \
        if (failed) return failed;                                                                           \
    } while (0)
#define HOST_CUDA(call) HOST_TRY(host_cuda(call, #call))
#define HOST_LAUNCHED(kernel) HOST_TRY(host_cuda(cudaGetLastError(), #kernel))

static int host_reserve(host_memory *room, long long bytes) {
    room->bytes = (size_t)(bytes > 0 ? bytes : 1);
    HOST_CUDA(cudaMalloc(&room->at, room->bytes));
    return HAMERLY_OK;
}

static int host_reserve_zero(host_memory *room, long long bytes) {
    HOST_TRY(host_reserve(room, bytes));
    HOST_CUDA(cudaMemset(room->at, 0, room->bytes));
    return HAMERLY_OK;
}

static unsigned host_parts(long long count, long long size) {
    return (unsigned)((count + size - 1) / size);
}

// The pass --------------------------------------------------------------------------------------------------------

// The arguments of the kernels of the pass (km_pass_args above says what they mean).
static km_pass_args host_pass_args(const hamerly_fit *fit, int part) {
    km_pass_args args = {};
    const host_state *state = fit->device_state.as<host_state>();
    args.control = &state->loop.head;
    args.points = fit->points.at;
    args.weights = fit->pass_weights.at;
    args.n = fit->n;
    args.centroids = fit->centroids.at;
    args.active = state->active;
    args.totals = fit->totals.as<double>();
    args.labels = fit->labels.at;
    args.labels_stride = host_parts(fit->n, KM_ALIGN_BYTES) * (long long)KM_ALIGN_BYTES;
    args.changes = fit->changes.as<unsigned long long>();
    args.workspace = fit->workspace.at;
    args.constants[0] = fit->constants;
    args.box = fit->box.as<double>();
    args.part = part;
    return args;
}

static int host_launch_stage(const hamerly_fit *fit, int stage) {
    for (int i = 0; i < HOST_LAUNCHES; i++) {
        const km_pass_launch *launch = &fit->launches[i];
        if (launch->stage != stage) continue;
        km_pass_args args = host_pass_args(fit, launch->part);
        void *arguments[] = {&args};
        HOST_TRY(host_cuda(cudaLaunchKernel(fit->functions[i], dim3(launch->grid_x, launch->grid_y),
                                            dim3(launch->block), arguments, launch->shared_bytes, 0),
                           launch->kernel));
    }
    return HAMERLY_OK;
}

static int host_launch_update(const hamerly_fit *fit) {
    km_update_args args = {};
    host_state *state = fit->device_state.as<host_state>();
    args.loop = &state->loop;
    args.slots = state->slots;
    args.active = state->active;
    args.centroids = fit->centroids.at;
    args.before = fit->before.at;
    args.totals = fit->totals.as<double>();
    args.weights = fit->slot_weights.as<double>();
    args.given_up = state->given_up;
    args.changes = fit->changes.as<unsigned long long>();
    args.workspace = fit->workspace.at;
    args.constants[0] = fit->constants;
    args.box = fit->box.as<double>();
    args.report = fit->device_report;
    args.part_sums = fit->part_sums.as<double>();
    km_update<<<dim3(HOST_SLOTS, HOST_PARTS), KM_THREADS>>>(args);
    HOST_LAUNCHED(km_update);
    return HAMERLY_OK;
}

// Waits for a report of km_update (passes done, and 2^32 where the loop stops) that differs from the last one. It polls
// host memory, as a pass may take no more than ten microseconds.
static int host_look(unsigned long long *seen, const hamerly_fit *fit) {
    enum { LOOKS = 256 };
    const unsigned long long before = *seen;
    for (;;) {
        for (int i = 0; i < LOOKS; i++)
            if ((*seen = *fit->report) != before) return HAMERLY_OK;
        const cudaError_t error = cudaStreamQuery(0);
        if (error == cudaErrorNotReady) continue;
        HOST_TRY(host_cuda(error, "a pass"));
        if ((*seen = *fit->report) == before)
            return host_fail(HAMERLY_DEVICE, "passes ended without a report");
    }
}

// Runs passes until every K has stopped or has an empty cluster; at most so many. A few are queued ahead of the
// report, so that the device does not wait for the host. Those behind the one that stops do nothing.
static int host_passes(hamerly_fit *fit, long long passes_max, long long *done) {
    enum { AHEAD = 4 };
    const unsigned long long stopped = 1ull << 32;
    host_state *state = fit->device_state.as<host_state>();
    unsigned long long seen = 0, queued = 0;
    *fit->report = 0;
    HOST_CUDA(cudaMemcpy(state, &fit->state, sizeof *state, cudaMemcpyHostToDevice));
    HOST_TRY(host_launch_stage(fit, KM_STAGE_BEGIN));
    while (seen < stopped) {
        if (queued < (unsigned long long)passes_max && queued < seen + AHEAD) {
            HOST_TRY(host_launch_stage(fit, KM_STAGE_PASS));
            HOST_TRY(host_launch_update(fit));
            queued++;
            seen = *fit->report;
        } else {
            HOST_TRY(host_look(&seen, fit));
        }
    }
    HOST_CUDA(cudaMemcpy(&fit->state, state, sizeof *state, cudaMemcpyDeviceToHost));
    *done += fit->state.loop.head.passes;
    return HAMERLY_OK;
}

// Load ------------------------------------------------------------------------------------------------------------

static int host_take_weights(hamerly_fit *, const double *weights, unsigned long long *) {
    if (!weights) return HAMERLY_OK;
    return host_fail(
        HAMERLY_ARGUMENT,
        "hamerly.cu was emitted for points without weights: give NULL, or emit it with --weighted");
}

// Small tables of the steps that load points.
struct host_loader {
    host_memory origin, partial, results; // results: the first bad value's index, a sum over subchunks, 4 x D
    double host[2 + 4 * D];
    unsigned long long *bad() const {
        return results.as<unsigned long long>();
    }
};

static int host_add_subchunks(const hamerly_fit *fit, host_loader *load, const double *subchunk_sums) {
    km_load_add<<<1, KM_THREADS>>>(subchunk_sums, fit->subchunks, load->results.as<double>() + 1);
    HOST_LAUNCHED(km_load_add);
    return HAMERLY_OK;
}

static int host_get_results(host_loader *load) {
    unsigned long long bad;
    HOST_CUDA(cudaMemcpy(load->host, load->results.at, sizeof load->host, cudaMemcpyDeviceToHost));
    memcpy(&bad, load->host, sizeof bad);
    if (bad == ~0ull) return HAMERLY_OK;
    return host_fail(HAMERLY_DATA, "feature %llu of point %llu is no finite number: leave such points out",
                     bad % D, bad / D);
}

// Sums around `origin`: of w (x - origin), of w (x - origin)^2; the smallest and the largest values.
static int host_sums(const hamerly_fit *fit, host_loader *load, const double *origin) {
    const km_real *raw = fit->points.as<km_real>();
    const double *weights = fit->weights.as<double>();
    HOST_CUDA(cudaMemcpy(load->origin.at, origin, D * sizeof *origin, cudaMemcpyHostToDevice));
    km_load_sums_f32<<<dim3((unsigned)fit->chunks, host_parts(D, KM_THREADS)), KM_THREADS>>>(
        raw, weights, fit->n, load->origin.as<double>(), load->partial.as<double>(), load->bad());
    HOST_LAUNCHED(sums of the points);
    km_load_reduce<<<4 * host_parts(D, KM_REDUCED_NUMBERS), KM_THREADS>>>(
        load->partial.as<double>(), fit->chunks, load->results.as<double>() + 2);
    HOST_LAUNCHED(km_load_reduce);
    return host_get_results(load);
}

static int host_statistics(hamerly_fit *fit, host_loader *load) {
    host_data *data = &fit->data;
    km_real first[D];
    double origin[D];
    HOST_TRY(host_add_subchunks(fit, load, fit->subchunk_weights.as<double>()));
    HOST_CUDA(cudaMemcpy(first, fit->points.at, sizeof first, cudaMemcpyDeviceToHost));
    for (int f = 0; f < D; f++) origin[f] = fabs((double)first[f]) <= DBL_MAX ? (double)first[f] : 0.0;
    HOST_TRY(host_sums(fit, load, origin));
    data->total_weight = load->host[1];
    if (host_take_statistics(data, load->host + 2, origin)) return host_choose_move(data);
    for (int f = 0; f < D; f++) origin[f] = data->mean[f];
    HOST_TRY(host_sums(fit, load, origin));
    host_take_statistics(data, load->host + 2, origin);
    return host_choose_move(data);
}

static int host_move(hamerly_fit *fit, host_loader *load) {
    host_data *data = &fit->data;
    host_memory centre, factor;
    double factors[D], box[2 * D];
    for (int f = 0; f < D; f++) {
        factors[f] = data->factor;
        box[f] = (double)host_there(data, (km_real)data->low[f], f);
        box[D + f] = (double)host_there(data, (km_real)data->high[f], f);
    }
    HOST_TRY(host_reserve(&centre, sizeof factors));
    HOST_TRY(host_reserve(&factor, sizeof factors));
    HOST_TRY(host_reserve(&fit->box, sizeof box));
    HOST_CUDA(cudaMemcpy(centre.at, data->centre, sizeof factors, cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(factor.at, factors, sizeof factors, cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(fit->box.at, box, sizeof box, cudaMemcpyHostToDevice));
    km_real *points = fit->points.as<km_real>();
    km_load_transform_f32<<<(unsigned)fit->subchunks, KM_THREADS>>>(
        points, fit->weights.as<double>(), fit->n, centre.as<double>(), factor.as<double>(), points,
        load->bad(), load->partial.as<double>());
    HOST_LAUNCHED(moving the points);
    HOST_TRY(host_add_subchunks(fit, load, load->partial.as<double>()));
    HOST_TRY(host_get_results(load));
    data->total_square = load->host[1];
    return HAMERLY_OK;
}

static int host_take_points(hamerly_fit *fit, const km_real *points, const double *weights) {
    host_loader *load = new (std::nothrow) host_loader();
    const long long row = D * (long long)sizeof(km_real), partial = fit->chunks * 4 * D;
    if (!load) return host_fail(HAMERLY_MEMORY, "not enough memory for the statistics of the points");
    const auto take = [&]() -> int {
        HOST_TRY(host_reserve(&load->origin, D * 8));
        HOST_TRY(host_reserve(&load->partial, (partial > fit->subchunks ? partial : fit->subchunks) * 8));
        HOST_TRY(host_reserve(&load->results, sizeof load->host));
        HOST_CUDA(cudaMemset(load->results.at, 0xff, 8)); // no bad value so far
        HOST_TRY(host_reserve(&fit->points, (fit->n + KM_PAD_ROWS) * row));
        HOST_CUDA(cudaMemcpy(fit->points.at, points, (size_t)(fit->n * row), cudaMemcpyDefault));
        HOST_CUDA(cudaMemset((char *)fit->points.at + fit->n * row, 0, (size_t)(KM_PAD_ROWS * row)));
        HOST_TRY(host_take_weights(fit, weights, load->bad()));
        HOST_TRY(host_reserve(&fit->subchunk_weights, fit->subchunks * 8));
        km_load_weights<<<WEIGHTED ? (unsigned)fit->subchunks : host_parts(fit->subchunks, KM_THREADS),
                          KM_THREADS>>>(fit->weights.as<double>(), fit->n, fit->pass_weights.as<km_real>(),
                                        fit->subchunk_weights.as<double>());
        HOST_LAUNCHED(km_load_weights);
        HOST_TRY(host_statistics(fit, load));
        return host_move(fit, load);
    };
    const int failed = take();
    delete load;
    return failed;
}

// Finds the kernels of the pass, and allows them the shared memory that they need.
static int host_find_kernels(hamerly_fit *fit) {
    HOST_CUDA(cudaMemcpyFromSymbol(&fit->facts, km_pass, sizeof fit->facts));
    HOST_CUDA(cudaMemcpyFromSymbol(fit->launches, km_pass_launches, sizeof fit->launches));
    for (int i = 0; i < HOST_LAUNCHES; i++) {
        const km_pass_launch *launch = &fit->launches[i];
        for (int k = 0; k < HOST_KERNELS; k++)
            if (!strcmp(host_kernels[k].name, launch->kernel)) fit->functions[i] = host_kernels[k].function;
        if (!fit->functions[i])
            return host_fail(HAMERLY_DEVICE, "km_pass_launches names %s, which is no kernel of this file",
                             launch->kernel);
        if (launch->shared_bytes <= 48 << 10) continue;
        HOST_TRY(
            host_cuda(cudaFuncSetAttribute(fit->functions[i], cudaFuncAttributeMaxDynamicSharedMemorySize,
                                           (int)launch->shared_bytes),
                      launch->kernel));
    }
    return HAMERLY_OK;
}

static int host_check_device(hamerly_fit *fit) {
    int device, major, minor;
    const cudaError_t error = cudaGetDevice(&device);
    if (error != cudaSuccess) {
        cudaGetLastError();
        return host_fail(HAMERLY_DEVICE, "no CUDA device: %s; hamerly.c (kmgen --target cpu) runs without one",
                         cudaGetErrorString(error));
    }
    HOST_CUDA(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    HOST_CUDA(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    HOST_CUDA(cudaDeviceGetAttribute(&fit->shared_max, cudaDevAttrMaxSharedMemoryPerBlockOptin, device));
    if (10 * major + minor < 90)
        return host_fail(HAMERLY_DEVICE,
                         "hamerly.cu was emitted for sm_90, and this device is sm_%d: emit with --target "
                         "cuda:sm_%d",
                         10 * major + minor, 10 * major + minor);
    return HAMERLY_OK;
}

static int host_equip(hamerly_fit *fit) {
    const long long rows = RESTARTS * (long long)S;
    HOST_TRY(host_reserve_zero(&fit->centroids, rows * D * (long long)sizeof(km_real)));
    HOST_TRY(host_reserve_zero(&fit->before, rows * D * (long long)sizeof(km_real)));
    HOST_TRY(host_reserve_zero(&fit->totals, rows * (D + 1) * 8));
    HOST_TRY(host_reserve_zero(&fit->slot_weights, rows * 8));
    HOST_TRY(host_reserve_zero(&fit->part_sums, HOST_SLOTS * (long long)HOST_PARTS * 32));
    HOST_TRY(host_reserve_zero(&fit->device_state, sizeof fit->state));
    HOST_TRY(host_reserve_zero(&fit->labels,
                               HOST_SLOTS * (fit->n + KM_ALIGN_BYTES) * (long long)sizeof(km_label)));
    HOST_TRY(host_reserve_zero(&fit->changes, HOST_SLOTS * 8));
    void *report;
    HOST_CUDA(cudaHostAlloc(&report, sizeof *fit->report, cudaHostAllocMapped));
    fit->report = (volatile unsigned long long *)report;
    HOST_CUDA(cudaHostGetDevicePointer((void **)&fit->device_report, report, 0));
    const long long zero = fit->facts.workspace_bytes_zero;
    HOST_TRY(host_reserve(&fit->workspace,
                          fit->facts.workspace_bytes + fit->facts.workspace_bytes_per_point * fit->n));
    HOST_CUDA(
        cudaMemset(fit->workspace.at, 0,
                   zero > 0 && zero < (long long)fit->workspace.bytes ? (size_t)zero : fit->workspace.bytes));
    HOST_TRY(host_launch_stage(fit, KM_STAGE_LOAD));
    HOST_CUDA(cudaDeviceSynchronize());
    return HAMERLY_OK;
}

static int host_fill(hamerly_fit *fit, const km_real *points, const double *weights) {
    HOST_TRY(host_check(fit, points, fit->n));
    HOST_TRY(host_check_device(fit));
    HOST_TRY(host_find_kernels(fit));
    fit->subchunks = host_parts(fit->n, KM_SUBCHUNK_POINTS);
    fit->chunks = host_parts(fit->n, KM_CHUNK_POINTS);
    HOST_TRY(host_take_points(fit, points, weights));
    return host_equip(fit);
}

int hamerly_create(hamerly_fit **out, const hamerly_real *points, const double *weights, long long n) {
    if (!out) return host_fail(HAMERLY_ARGUMENT, "out is NULL");
    hamerly_fit *fit = *out = new (std::nothrow) hamerly_fit();
    if (!fit) return host_fail(HAMERLY_MEMORY, "not enough memory for a fit");
    fit->n = n;
    const int failed = host_fill(fit, points, weights);
    if (failed) hamerly_destroy(out);
    return failed;
}

void hamerly_destroy(hamerly_fit **fit) {
    if (!fit) return;
    delete *fit;
    *fit = nullptr;
}

// First centroids -------------------------------------------------------------------------------------------------

// A table of reals on the host becomes the first restart's centroids, and every K begins.
static int host_begin(hamerly_fit *fit, const km_real *table) {
    HOST_CUDA(cudaMemcpy(fit->centroids.at, table, S * (size_t)D * sizeof *table, cudaMemcpyHostToDevice));
    fit->state = host_state();
    for (int q = 0; q < KS; q++) {
        fit->state.slots[q].state.phase = KM_SLOT_RUNNING;
        fit->state.active[q] = 1;
    }
    fit->started = true;
    return HAMERLY_OK;
}

int hamerly_start(hamerly_fit *fit, const hamerly_real *centroids) {
    HOST_TRY(host_check(fit, centroids, K_MAX));
    km_real *table = (km_real *)malloc(S * (size_t)D * sizeof *table);
    int failed = table ? HAMERLY_OK : host_fail(HAMERLY_MEMORY, "not enough memory for the centroids");
    for (long long i = 0; i < S * (long long)D && !failed; i++) {
        failed = host_check_first(&fit->data, (double)centroids[i], i);
        table[i] = host_there(&fit->data, centroids[i], (int)(i % D));
    }
    if (!failed) failed = host_begin(fit, table);
    free(table);
    return failed;
}

// Some points, centred and scaled.
static int host_get_rows(const hamerly_fit *fit, double *rows, const long long *indices, long long count) {
    host_memory device_rows;
    HOST_TRY(host_reserve(&device_rows, count * D * 8));
    km_rows<<<host_parts(count * D, KM_THREADS), KM_THREADS>>>(fit->points.as<km_real>(), indices, count,
                                                               device_rows.as<double>());
    HOST_LAUNCHED(km_rows);
    HOST_CUDA(cudaMemcpy(rows, device_rows.at, (size_t)(count * D) * 8, cudaMemcpyDeviceToHost));
    return HAMERLY_OK;
}

// One chain of k-means++: the first K picks seed K, so one chain serves the whole list.
static int host_draw_rows(const hamerly_fit *fit, double *rows, unsigned long long seed) {
    host_memory nearest, picks, candidates, subchunk_sums;
    km_seed_args args = {};
    HOST_TRY(host_reserve(&nearest, fit->n * (long long)sizeof(km_real)));
    HOST_TRY(host_reserve(&picks, K_MAX * 8ll));
    HOST_TRY(host_reserve(&candidates, 2 * KM_CANDIDATES_MAX * 8));
    HOST_TRY(host_reserve(&subchunk_sums, KM_CANDIDATES_MAX * fit->subchunks * 8));
    args.points = fit->points.at;
    args.weights = fit->weights.as<double>();
    args.n = fit->n;
    args.subchunks = fit->subchunks;
    args.subchunk_weights = fit->subchunk_weights.as<double>();
    args.nearest = nearest.at;
    args.picks = picks.as<long long>();
    args.picks_count = K_MAX;
    args.candidates = candidates.as<long long>();
    args.subchunk_sums = subchunk_sums.as<double>();
    args.chains = 1;
    args.seed = seed;
    for (long long pick = 0; pick <= K_MAX; pick++) { // the last round decides the last pick
        const int before = pick > 0 ? host_candidates(pick - 1) : 0,
                  now = pick < K_MAX ? host_candidates(pick) : 0;
        km_seed_draw<<<dim3(1, now > 0 ? (unsigned)now : 1), KM_THREADS>>>(args, pick, before, now);
        HOST_LAUNCHED(km_seed_draw);
        if (pick == K_MAX) break;
        km_seed_pass<<<host_parts(fit->subchunks, 2), KM_THREADS>>>(args, pick, now);
        HOST_LAUNCHED(km_seed_pass);
    }
    return host_get_rows(fit, rows, args.picks, K_MAX);
}

int hamerly_seed(hamerly_fit *fit, unsigned long long seed) {
    HOST_TRY(host_check(fit, fit, K_MAX));
    double *rows = (double *)malloc(K_MAX * (size_t)D * sizeof *rows);
    km_real *table = (km_real *)malloc(S * (size_t)D * sizeof *table);
    int failed = rows && table ? host_draw_rows(fit, rows, seed)
                               : host_fail(HAMERLY_MEMORY, "not enough memory for the centroids");
    for (int q = 0; q < KS && !failed; q++)
        for (long long i = 0; i < host_ks[q] * (long long)D; i++)
            table[host_offsets[q] * (long long)D + i] = (km_real)rows[i];
    if (!failed) failed = host_begin(fit, table);
    free(rows);
    free(table);
    return failed;
}

// Empty clusters --------------------------------------------------------------------------------------------------

// Squared distances up to this are rounding of a typical point's centroid.
static int host_square_min(const hamerly_fit *fit, double *square_min) {
    double squares[HOST_SAMPLE];
    km_real row[D];
    const int count = (int)(fit->n < HOST_SAMPLE ? fit->n : HOST_SAMPLE);
    for (int s = 0; s < count; s++) {
        const long long i = (long long)((double)s * (double)fit->n / (double)count);
        HOST_CUDA(cudaMemcpy(row, fit->points.as<km_real>() + i * D, sizeof row, cudaMemcpyDeviceToHost));
        squares[s] = 0.0;
        for (int f = 0; f < D; f++) squares[s] += (double)row[f] * (double)row[f];
    }
    *square_min = host_rounding2(fit->n) * host_typical(squares, count);
    return HAMERLY_OK;
}

// What km_assign needs of one K: its centroids as doubles too.
struct host_model {
    host_memory numbers, centroids;
    double *host = nullptr; // k x D
    km_assign_args args = {};
    ~host_model() {
        free(host);
    }
};

// Rows of centroids on the device as doubles, widened in place from the end.
static int host_get_centroids(double *to, const km_real *table, long long count) {
    km_real *floats = (km_real *)to;
    HOST_CUDA(cudaMemcpy(floats, table, (size_t)(count * D) * sizeof *floats, cudaMemcpyDeviceToHost));
    for (long long i = count * D; i-- > 0;) {
        km_real value;
        memcpy(&value, floats + i, sizeof value);
        const double as_double = (double)value;
        memcpy(to + i, &as_double, sizeof as_double);
    }
    return HAMERLY_OK;
}

// `table`: the centroids of K number q, or those that it had in the last pass.
static int host_model_init(host_model *model, const hamerly_fit *fit, int q, const host_memory *table) {
    const long long k = host_ks[q], zero = 0;
    const km_real *rows = table->as<km_real>() + host_offsets[q] * (long long)D;
    model->host = (double *)malloc((size_t)(k * D) * sizeof *model->host);
    if (!model->host) return host_fail(HAMERLY_MEMORY, "not enough memory for the centroids");
    HOST_TRY(host_reserve(&model->numbers, 2 * KM_ALIGN_BYTES));
    HOST_TRY(host_reserve(&model->centroids, k * D * 8));
    HOST_TRY(host_get_centroids(model->host, rows, k));
    char *numbers = model->numbers.as<char>();
    HOST_CUDA(cudaMemcpy(numbers, &zero, sizeof zero, cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(numbers + KM_ALIGN_BYTES, &host_ks[q], sizeof(int), cudaMemcpyHostToDevice));
    HOST_CUDA(cudaMemcpy(model->centroids.at, model->host, (size_t)(k * D) * 8, cudaMemcpyHostToDevice));
    model->args.points = fit->points.at;
    model->args.centroids = model->centroids.as<double>();
    model->args.table = rows;
    model->args.rows = (const long long *)numbers;
    model->args.ks = (const int *)(numbers + KM_ALIGN_BYTES);
    model->args.models = 1;
    return HAMERLY_OK;
}

// Points that are to become centroids of a K.
struct host_relocation {
    host_memory nearest, labels, picks, values, indices;
    km_relocated_point *moved = nullptr; // k
    double *numbers = nullptr;           // k rows: of the points, of the centroids; then what clusters weigh
    long long count = 0;
    ~host_relocation() {
        free(moved);
        free(numbers);
    }
};

// Finds the next farthest point: of cluster `to` from then on. *found is negative where there is none.
static int host_find_farthest(const hamerly_fit *fit, host_relocation *r, double square_min, int to,
                              long long *found) {
    km_farthest_subchunk<<<(unsigned)fit->subchunks, KM_THREADS>>>(
        fit->points.as<km_real>(), fit->weights.as<double>(), fit->n, square_min, host_rounding2(fit->n),
        r->nearest.as<double>(), r->picks.as<long long>(), r->count, r->values.as<double>(),
        r->indices.as<long long>());
    HOST_LAUNCHED(km_farthest_subchunk);
    long long *pick = r->picks.as<long long>() + r->count;
    km_farthest_pick<<<1, KM_THREADS>>>(r->values.as<double>(), r->indices.as<long long>(), fit->subchunks,
                                        fit->n, r->picks.as<long long>(), r->count);
    HOST_LAUNCHED(km_farthest_pick);
    HOST_CUDA(cudaMemcpy(found, pick, sizeof *found, cudaMemcpyDeviceToHost));
    if (*found < 0) return HAMERLY_OK;
    km_relocated_point *moved = &r->moved[r->count];
    moved->point = *found;
    moved->to = to;
    moved->weight = 1;
    HOST_CUDA(cudaMemcpy(&moved->from, r->labels.as<int>() + *found, sizeof(int), cudaMemcpyDeviceToHost));
    if (fit->weights.at)
        HOST_CUDA(cudaMemcpy(&moved->weight, fit->weights.as<double>() + *found, sizeof(double),
                             cudaMemcpyDeviceToHost));
    return host_get_rows(fit, r->numbers + r->count++ * D, pick, 1);
}

// The empty clusters of a K, in order, get the points farthest from the centroids of the last pass; those that get none
// are given up.
static int host_relocate(hamerly_fit *fit, int q) {
    host_model model;
    host_relocation r;
    const long long k = host_ks[q], row = host_offsets[q];
    km_real *table = fit->centroids.as<km_real>() + row * D, floats[D];
    double square_min;
    HOST_TRY(host_model_init(&model, fit, q, &fit->before));
    HOST_TRY(host_square_min(fit, &square_min));
    HOST_TRY(host_reserve(&r.nearest, fit->n * 8));
    HOST_TRY(host_reserve(&r.labels, fit->n * 4));
    HOST_TRY(host_reserve(&r.picks, k * 8));
    HOST_TRY(host_reserve(&r.values, fit->subchunks * 8));
    HOST_TRY(host_reserve(&r.indices, fit->subchunks * 8));
    r.moved = (km_relocated_point *)malloc((size_t)k * sizeof *r.moved);
    r.numbers = (double *)malloc((size_t)(k * (2 * D + 1)) * sizeof *r.numbers);
    if (!r.moved || !r.numbers) return host_fail(HAMERLY_MEMORY, "not enough memory for the farthest points");
    double *centroids = r.numbers + k * D, *weights = centroids + k * D;
    HOST_TRY(host_get_centroids(centroids, table, k));
    HOST_CUDA(cudaMemcpy(weights, fit->slot_weights.as<double>() + row, (size_t)k * sizeof *weights,
                         cudaMemcpyDeviceToHost));
    model.args.count = fit->n;
    model.args.nearest = r.nearest.as<double>();
    model.args.labels = r.labels.as<int>();
    km_assign<<<(unsigned)fit->subchunks, KM_THREADS>>>(model.args);
    HOST_LAUNCHED(km_assign);
    long long found = 0;
    for (int j = 0; j < k; j++) {
        if (weights[j] > 0.0 || fit->state.given_up[row + j]) continue;
        if (found >= 0) HOST_TRY(host_find_farthest(fit, &r, square_min, j, &found));
        fit->state.given_up[row + j] = found < 0;
    }
    km_slot_state *state = &fit->state.slots[q].state;
    km_relocate_points(centroids, weights, k, D, r.moved, r.numbers, r.count, state->is_updated);
    for (long long j = 0; j < k; j++) {
        for (int f = 0; f < D; f++) floats[f] = (km_real)centroids[j * D + f];
        HOST_CUDA(cudaMemcpy(table + j * D, floats, sizeof floats, cudaMemcpyHostToDevice));
    }
    state->phase = KM_SLOT_RUNNING;
    state->empty_count = 0;
    fit->state.active[q] = 1;
    return HAMERLY_OK;
}

int hamerly_run(hamerly_fit *fit, long long passes_max, double tolerance, long long *passes) {
    long long done = 0, own_done;
    HOST_TRY(host_check(fit, fit, K_MAX));
    if (!passes) passes = &own_done;
    *passes = 0;
    if (!fit->started) return host_fail(HAMERLY_ARGUMENT, "there are no first centroids yet: start or seed");
    if (!(tolerance >= 0))
        return host_fail(HAMERLY_ARGUMENT, "tolerance is %g; it must be 0 or more", tolerance);
    double shift_max = host_shift_max(&fit->data, tolerance);
    while (done < passes_max) {
        int active = 0;
        for (int q = 0; q < KS; q++) {
            if (fit->state.slots[q].state.phase == KM_SLOT_EMPTY) HOST_TRY(host_relocate(fit, q));
            active += fit->state.active[q];
        }
        if (!active) break;
        km_loop *loop = &fit->state.loop;
        *loop = km_loop();
        loop->head.passes_max = (int)(passes_max - done < 1 << 30 ? passes_max - done : 1 << 30);
        loop->stopped_min = active;
        loop->shift_max = shift_max;
        loop->max_iter = 1ll << 62;
        loop->total_square = fit->data.total_square;
        HOST_TRY(host_passes(fit, loop->head.passes_max, &done));
        *passes = done;
    }
    return HAMERLY_OK;
}

// Labels, distances, sums of one K: the last read -----------------------------------------------------------------

enum {
    HOST_FINISH_POINTS = KM_FINISH_PIECE_POINTS(D), // that a block adds up
    HOST_FINISH_SLICE = 64                          // chunks at a time
};

struct host_finish {
    host_model model;
    host_memory sums, partial, nearest, margin, labels;
    double *host = nullptr;       // k x KM_FINISH_SUMS
    int bytes = 0, tile_rows = 0; // of shared memory, and rows there, where km_finish_tiles is used
    ~host_finish() {
        free(host);
    }
};

// Tables of partial sums of so many points.
static unsigned host_finish_parts(const host_finish *f, long long points, long long k) {
    return f->bytes > 0                ? host_parts(points, HOST_FINISH_POINTS)
           : k <= KM_FINISH_SHARED_MAX ? host_parts(points, KM_FINISH_SHARED_POINTS)
                                       : host_parts(points, KM_CHUNK_POINTS);
}

static int host_finish_slice(const hamerly_fit *fit, host_finish *f, long long first, long long count,
                             long long k, int *labels) {
    const long long numbers = k * KM_FINISH_SUMS;
    const long long blocks = host_finish_parts(f, count, k);
    const double *weights = fit->weights.as<double>();
    double *partial = f->partial.as<double>();
    f->model.args.first = first;
    f->model.args.count = count;
    if (f->bytes > 0) {
        const int warps = host_parts(f->tile_rows, KM_TILE_WARP_ROWS);
        km_finish_tiles<<<(unsigned)blocks, (unsigned)host_parts(warps, 4) * 128, (size_t)f->bytes>>>(
            f->model.args, weights, partial, k, 0, 1, f->tile_rows);
        HOST_LAUNCHED(km_finish_tiles);
    } else {
        const int in_shared = k <= KM_FINISH_SHARED_MAX;
        km_assign<<<host_parts(count, KM_SUBCHUNK_POINTS), KM_THREADS>>>(f->model.args);
        HOST_LAUNCHED(km_assign);
        km_finish_chunks<<<(unsigned)blocks, 32, in_shared ? (size_t)numbers * 8 : 0>>>(
            f->model.args, weights, partial, k,
            in_shared ? KM_FINISH_SHARED_POINTS : (long long)KM_CHUNK_POINTS, in_shared);
        HOST_LAUNCHED(km_finish_chunks);
    }
    km_finish_add<<<host_parts(numbers, KM_REDUCED_NUMBERS), KM_THREADS>>>(partial, blocks, numbers,
                                                                           f->sums.as<double>());
    HOST_LAUNCHED(km_finish_add);
    if (labels)
        HOST_CUDA(cudaMemcpy(labels + first, f->labels.at, (size_t)count * 4, cudaMemcpyDeviceToHost));
    return HAMERLY_OK;
}

// Shared memory for all rows of K centroids; else for so many that it holds; else none.
static int host_finish_shared(const hamerly_fit *fit, host_finish *f, long long k) {
    enum { IN_TEXT = 512 };
    if (k > KM_FINISH_SHARED_MAX) return HAMERLY_OK;
    for (int rows = k < KM_TILE_ROWS ? (int)host_parts(k, KM_TILE_WARP_ROWS) * KM_TILE_WARP_ROWS
                                     : int(KM_TILE_ROWS);
         rows > 0 && !f->bytes; rows -= KM_TILE_WARP_ROWS) {
        const int sums = k <= rows ? int(KM_TILE_SUMS) : 1;
        const long long bytes = KM_TILE_BYTES(D, sizeof(km_real), WEIGHTED, k, sums, rows, 1, 0);
        if (bytes > fit->shared_max - IN_TEXT) continue;
        f->tile_rows = rows;
        f->bytes = (int)bytes;
        HOST_CUDA(
            cudaFuncSetAttribute(km_finish_tiles, cudaFuncAttributeMaxDynamicSharedMemorySize, f->bytes));
    }
    return HAMERLY_OK;
}

static int host_finish_all(const hamerly_fit *fit, host_finish *f, int q, int *labels) {
    const long long k = host_ks[q], numbers = k * KM_FINISH_SUMS;
    HOST_TRY(host_finish_shared(fit, f, k));
    const long long slice = (f->bytes ? HOST_FINISH_SLICE : 64) * (long long)KM_CHUNK_POINTS;
    const long long here = fit->n < slice ? fit->n : slice; // points that memory is taken for
    HOST_TRY(host_model_init(&f->model, fit, q, &fit->centroids));
    HOST_TRY(host_reserve_zero(&f->sums, numbers * 8));
    HOST_TRY(host_reserve(&f->partial, host_finish_parts(f, here, k) * numbers * 8));
    if (!f->bytes || labels) HOST_TRY(host_reserve(&f->labels, here * 4));
    if (!f->bytes) {
        HOST_TRY(host_reserve(&f->nearest, here * 8));
        HOST_TRY(host_reserve(&f->margin, here * 8));
    }
    f->model.args.labels = f->labels.as<int>();
    f->model.args.nearest = f->nearest.as<double>();
    f->model.args.margin = f->margin.as<double>();
    for (long long first = 0; first < fit->n; first += slice)
        HOST_TRY(
            host_finish_slice(fit, f, first, fit->n - first < slice ? fit->n - first : slice, k, labels));
    f->host = (double *)malloc((size_t)numbers * 8);
    if (!f->host) return host_fail(HAMERLY_MEMORY, "not enough memory for the sums");
    HOST_CUDA(cudaMemcpy(f->host, f->sums.at, (size_t)numbers * 8, cudaMemcpyDeviceToHost));
    return HAMERLY_OK;
}

int hamerly_result(hamerly_fit *fit, int index, hamerly_model *model) {
    host_finish f;
    HOST_TRY(host_check(fit, model, K_MAX));
    HOST_TRY(host_check_index(index));
    if (!fit->started) return host_fail(HAMERLY_ARGUMENT, "there are no first centroids yet: start or seed");
    HOST_TRY(host_finish_all(fit, &f, index, model->labels));
    model->k = host_ks[index];
    model->converged = fit->state.slots[index].state.converged;
    model->n_iter = fit->state.slots[index].state.iterations;
    model->inertia = 0.0;
    for (int j = 0; j < model->k; j++) {
        model->inertia += f.host[j * KM_FINISH_SUMS + KM_FINISH_SSE] / fit->data.factor / fit->data.factor;
        if (model->counts) model->counts[j] = (long long)f.host[j * KM_FINISH_SUMS + KM_FINISH_COUNT];
        for (int i = 0; i < D && model->centroids; i++)
            model->centroids[j * (long long)D + i] =
                host_back(&fit->data, f.model.host[j * (long long)D + i], i);
    }
    return HAMERLY_OK;
}

#ifdef HAMERLY_MAIN
#include <time.h>

static double host_now_ms(void) {
    struct timespec now;
    timespec_get(&now, TIME_UTC);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void host_device_name(char *text, size_t size) {
    int device = 0;
    cudaDeviceProp properties;
    snprintf(text, size, "unknown");
    if (cudaGetDevice(&device) == cudaSuccess && cudaGetDeviceProperties(&properties, device) == cudaSuccess)
        snprintf(text, size, "%s", properties.name);
}

static __global__ void hamerly_host_read(const uint4 *pieces, long long count, unsigned *out) {
    unsigned sum = 0;
    for (long long i = blockIdx.x * (long long)blockDim.x + threadIdx.x; i < count;
         i += (long long)gridDim.x * blockDim.x) {
        const uint4 piece = pieces[i];
        sum += piece.x ^ piece.y ^ piece.z ^ piece.w;
    }
    if (sum == 12345) *out = sum; // or nothing would be read
}

// Milliseconds of a plain read of the points.
static double host_read_ms(hamerly_fit *fit) {
    const long long pieces = fit->n * D * (long long)sizeof(km_real) / 16;
    cudaEvent_t begin, end;
    float ms, least = 1e30f;
    cudaEventCreate(&begin);
    cudaEventCreate(&end);
    for (int turn = 0; turn < 6; turn++) {
        cudaEventRecord(begin);
        for (int i = 0; i < 10; i++)
            hamerly_host_read<<<2112, 512>>>(fit->points.as<uint4>(), pieces, fit->totals.as<unsigned>());
        cudaEventRecord(end);
        cudaEventSynchronize(end);
        cudaEventElapsedTime(&ms, begin, end);
        least = ms / 10 < least ? ms / 10 : least;
    }
    cudaEventDestroy(begin);
    cudaEventDestroy(end);
    return least;
}
// The program: reads points or makes some, runs, checks itself, measures.

typedef struct host_table {
    hamerly_real *points;
    long long n;
} host_table;

static double host_random(uint64_t *state) { // uniform in [0, 1)
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return (double)((z ^ (z >> 31)) >> 11) * (1.0 / 9007199254740992.0);
}

// Points of HAMERLY_K_MAX blobs, which overlap so much that many passes are needed.
static int host_make_points(host_table *table, long long n) {
    enum { BLOBS = HAMERLY_K_MAX < 64 ? HAMERLY_K_MAX : 64 };
    uint64_t state = 1;
    double *centres = (double *)malloc(sizeof *centres * BLOBS * HAMERLY_FEATURES);
    table->n = n;
    table->points = (hamerly_real *)malloc(sizeof *table->points * (size_t)n * HAMERLY_FEATURES);
    if (!table->points || !centres) {
        free(centres);
        return host_fail(HAMERLY_MEMORY, "not enough memory for %lld points of %d features", n,
                         (int)HAMERLY_FEATURES);
    }
    for (int i = 0; i < BLOBS * HAMERLY_FEATURES; i++) centres[i] = 2 * host_random(&state);
    for (long long i = 0; i < n; i++) {
        const int blob = (int)(host_random(&state) * BLOBS);
        for (int f = 0; f < HAMERLY_FEATURES; f++) {
            const double noise = host_random(&state) + host_random(&state) + host_random(&state) - 1.5;
            table->points[i * HAMERLY_FEATURES + f] =
                (hamerly_real)(centres[blob * HAMERLY_FEATURES + f] + noise);
        }
    }
    free(centres);
    return HAMERLY_OK;
}

// The numbers of an .npy file begin behind its header, which must say this type, C order and HAMERLY_FEATURES columns.
static int host_skip_npy_header(long *at, FILE *file, const char *path) {
    unsigned char head[12];
    char text[4096] = "", columns[32];
    rewind(file);
    *at = 0;
    if (fread(head, 1, sizeof head, file) != sizeof head || memcmp(head, "\x93NUMPY", 6))
        return HAMERLY_OK; // raw
    const size_t begin = head[6] == 1 ? 10 : 12;
    const size_t size =
        head[6] == 1 ? head[8] + 256u * head[9] : head[8] + 256u * head[9] + 65536u * head[10];
    fseek(file, (long)begin, SEEK_SET);
    if (size >= sizeof text || fread(text, 1, size, file) != size)
        return host_fail(HAMERLY_DATA, "%s: its header is cut off", path);
    snprintf(columns, sizeof columns, ", %d)", (int)HAMERLY_FEATURES);
    if (!strstr(text, sizeof(hamerly_real) == 4 ? "'<f4'" : "'<f8'") ||
        !strstr(text, "'fortran_order': False") || !strstr(text, columns))
        return host_fail(HAMERLY_DATA, "%s: expected float in C order, n rows of %d columns, got %.*s", path,
                         (int)HAMERLY_FEATURES, (int)strcspn(text, "}") + 1, text);
    *at = (long)(begin + size);
    return HAMERLY_OK;
}

static int host_read_points(host_table *table, const char *path) {
    const size_t row = sizeof(hamerly_real) * HAMERLY_FEATURES;
    long begin = 0, end = 0;
    FILE *file = fopen(path, "rb");
    if (!file)
        return host_fail(HAMERLY_DATA,
                         "cannot open %s: give a raw file of float, or .npy, or a number of points", path);
    int failed = host_skip_npy_header(&begin, file, path);
    if (!failed && (fseek(file, 0, SEEK_END) || (end = ftell(file)) < begin || (size_t)(end - begin) % row))
        failed = host_fail(HAMERLY_DATA, "%s: %ld bytes are no whole number of points of %d float", path,
                           end - begin, (int)HAMERLY_FEATURES);
    table->n = failed ? 0 : (long long)((size_t)(end - begin) / row);
    table->points = (hamerly_real *)malloc((size_t)table->n * row + 1);
    if (!failed && !table->points) failed = host_fail(HAMERLY_MEMORY, "not enough memory for %s", path);
    if (!failed && (fseek(file, begin, SEEK_SET) ||
                    fread(table->points, row, (size_t)table->n, file) != (size_t)table->n))
        failed = host_fail(HAMERLY_DATA, "cannot read %s", path);
    fclose(file);
    return failed;
}

static double host_square(const hamerly_real *x, const hamerly_real *c) {
    double square = 0;
    for (int f = 0; f < HAMERLY_FEATURES; f++) {
        const double t = (double)x[f] - (double)c[f];
        square += t * t;
    }
    return square;
}

// A plain pass of one K, in double: sums and counts of each cluster, the inertia, and how many points are ambiguous.
// Those lie within rounding of two centroids, and may have the label of either.
typedef struct host_plain {
    double *sums, inertia, size; // size: the largest coordinate in magnitude
    long long *counts, ambiguous;
} host_plain;

static void host_plain_pass(host_plain *out, const host_table *table, const hamerly_real *centroids, int k) {
    memset(out->sums, 0, sizeof *out->sums * (size_t)k * HAMERLY_FEATURES);
    memset(out->counts, 0, sizeof *out->counts * (size_t)k);
    out->inertia = out->size = 0;
    out->ambiguous = 0;
    for (long long i = 0; i < table->n; i++) {
        const hamerly_real *x = table->points + i * HAMERLY_FEATURES;
        double nearest = 1e300, second = 1e300, size = 0;
        int label = 0;
        for (int j = 0; j < k; j++) {
            const double square = host_square(x, centroids + (long long)j * HAMERLY_FEATURES);
            second = fmin(second, fmax(square, nearest));
            if (square < nearest) label = j;
            nearest = fmin(nearest, square);
        }
        for (int f = 0; f < HAMERLY_FEATURES; f++) {
            out->sums[(long long)label * HAMERLY_FEATURES + f] += (double)x[f];
            out->size = fmax(out->size, fabs((double)x[f]));
            size += (double)x[f] * (double)x[f];
        }
        out->counts[label]++;
        out->inertia += nearest;
        out->ambiguous += second - nearest <= size * (sizeof(hamerly_real) == 4 ? 1e-5 : 1e-13);
    }
}

// How far centroids after one pass are from those of the plain loop, as a part of the largest coordinate. Returns how
// many coordinates are farther than rounding and ambiguous points allow.
static int host_check_means(const host_plain *plain, const hamerly_real *moved, int k, double *worst) {
    const double rounding = sizeof(hamerly_real) == 4 ? 4e-6 : 1e-12;
    int bad = 0;
    for (long long at = 0; at < (long long)k * HAMERLY_FEATURES; at++) {
        const double count = (double)plain->counts[at / HAMERLY_FEATURES];
        if (count == 0) continue; // an empty cluster is given another point
        const double mean = plain->sums[at] / count, away = fabs(mean - (double)moved[at]) / plain->size;
        *worst = fmax(*worst, away);
        bad += away > rounding + 4 * (double)plain->ambiguous / count;
    }
    return bad;
}

static const char *host_verdict(int bad) {
    return bad ? "WRONG" : "right";
}

// One pass of every K, and what is reported of the centroids that it left, against the plain loop. Returns how many
// numbers are wrong, or -1.
static int host_check_all(const host_table *table) {
    hamerly_fit *fit = NULL;
    hamerly_model model;
    host_plain plain;
    double worst = 0, worst_inertia = 0;
    int bad = 0, failed = 0;
    long long ambiguous = 0;
    const size_t rows = sizeof(hamerly_real) * (size_t)HAMERLY_FEATURES;
    hamerly_real *first = (hamerly_real *)malloc(rows * HAMERLY_ROWS),
               *moved = (hamerly_real *)malloc(rows * HAMERLY_K_MAX);
    int *labels = (int *)malloc(sizeof *labels * (size_t)table->n);
    plain.sums = (double *)malloc(sizeof(double) * HAMERLY_K_MAX * HAMERLY_FEATURES);
    plain.counts = (long long *)malloc(sizeof(long long) * HAMERLY_K_MAX);
    if (!first || !moved || !labels || !plain.sums || !plain.counts)
        failed = host_fail(HAMERLY_MEMORY, "not enough memory for the check");
    for (int i = 0; i < HAMERLY_KS && !failed; i++)
        for (int j = 0; j < host_ks[i]; j++)
            memcpy(first + ((long long)host_offsets[i] + j) * HAMERLY_FEATURES,
                   table->points + table->n / host_ks[i] * j * HAMERLY_FEATURES, rows);
    if (!failed) failed = hamerly_create(&fit, table->points, NULL, table->n);
    if (!failed) failed = hamerly_start(fit, first);
    if (!failed) failed = hamerly_run(fit, 1, 0, NULL);
    for (int i = 0; i < HAMERLY_KS && !failed; i++) {
        const hamerly_real *own = first + (long long)host_offsets[i] * HAMERLY_FEATURES;
        memset(&model, 0, sizeof model);
        model.centroids = moved;
        model.labels = labels;
        if ((failed = hamerly_result(fit, i, &model))) break;
        host_plain_pass(&plain, table, own, host_ks[i]);
        bad += host_check_means(&plain, moved, host_ks[i], &worst);
        ambiguous += plain.ambiguous;
        host_plain_pass(&plain, table, moved, host_ks[i]);
        const double away = fabs(plain.inertia - model.inertia) / (plain.inertia > 0 ? plain.inertia : 1);
        worst_inertia = fmax(worst_inertia, away);
        bad += away > (sizeof(hamerly_real) == 4 ? 1e-4 : 1e-9);
        for (long long p = 0; p < table->n; p++) {
            const hamerly_real *x = table->points + p * HAMERLY_FEATURES;
            const double square = host_square(x, moved + (long long)labels[p] * HAMERLY_FEATURES);
            int nearer = 0; // by more than rounding
            for (int j = 0; j < host_ks[i]; j++)
                nearer |= host_square(x, moved + (long long)j * HAMERLY_FEATURES) <
                          square * (1 - 1e-4) - 1e-10 * plain.size * plain.size;
            bad += nearer;
        }
    }
    if (!failed)
        printf("check: %lld points against a plain loop in double: means within %.1e of the largest "
               "coordinate (%lld "
               "points\n"
               "    within rounding of two centroids), inertia within %.1e, every label the nearest: %s\n",
               table->n, worst, ambiguous, worst_inertia, host_verdict(bad));
    free(first);
    free(moved);
    free(labels);
    free(plain.sums);
    free(plain.counts);
    hamerly_destroy(&fit);
    return failed ? -1 : bad;
}

// Milliseconds of a pass in which every K is active: as many passes are timed as the first K to stop takes.
static int host_time(double *ms, long long *passes, hamerly_fit *fit) {
    long long least = 20;
    *ms = 1e30;
    for (int turn = 0; turn < 6; turn++) {
        int failed = hamerly_seed(fit, 0);
        const double begin = host_now_ms();
        if (!failed) failed = hamerly_run(fit, least, 0, passes);
        const double took = (host_now_ms() - begin) / (double)(*passes > 0 ? *passes : 1);
        if (failed) return failed;
        if (turn > 0) *ms = fmin(*ms, took);
        for (int i = 0; i < HAMERLY_KS && turn == 0; i++) { // the first turn finds out
            hamerly_model model;
            memset(&model, 0, sizeof model);
            if ((failed = hamerly_result(fit, i, &model))) return failed;
            if (model.n_iter < least && model.n_iter > 0) least = model.n_iter;
        }
    }
    return HAMERLY_OK;
}

static int host_report(hamerly_fit *fit, const host_table *table) {
    double pass_ms, read_ms, begin;
    long long passes, timed;
    char device[128];
    int failed = host_time(&pass_ms, &timed, fit);
    if (!failed) failed = hamerly_seed(fit, 0);
    begin = host_now_ms();
    if (!failed) failed = hamerly_run(fit, 300, 1e-4, &passes);
    if (failed) return failed;
    const double run_ms = host_now_ms() - begin;
    host_device_name(device, sizeof device);
    read_ms = host_read_ms(fit);
    printf("device: %s\n%10s %10s %10s %18s\n", device, "K", "converged", "iterations", "inertia");
    for (int i = 0; i < HAMERLY_KS; i++) {
        hamerly_model model;
        memset(&model, 0, sizeof model);
        if ((failed = hamerly_result(fit, i, &model))) return failed;
        printf("%10d %10s %10lld %18.10g\n", model.k, model.converged ? "yes" : "no", model.n_iter,
               model.inertia);
    }
    printf("run: %lld passes in %.2f ms\n", passes, run_ms);
    printf("pass: %.4f ms for all %d K (the best of 5 times %lld); a plain read of the %.1f MB of points: "
           "%.4f ms; "
           "%.2f reads\n",
           pass_ms, (int)HAMERLY_KS, timed, (double)table->n * HAMERLY_FEATURES * sizeof(hamerly_real) * 1e-6,
           read_ms, pass_ms / read_ms);
    return HAMERLY_OK;
}

int main(int argc, char **argv) {
    host_table table = {NULL, 0};
    hamerly_fit *fit = NULL;
    char *end = NULL;
    const char *what = argc > 1 ? argv[1] : "1048576";
    const long long n = strtoll(what, &end, 10);
    if (argc > 2 || what[0] == '-' || (!*end && n < 1)) {
        fprintf(stderr, "usage: %s [POINTS.npy | RAW FILE of float | NUMBER of random points]\n", argv[0]);
        return 2;
    }
    int failed = *end ? host_read_points(&table, what) : host_make_points(&table, n), bad = 0;
    if (!failed) {
        printf("hamerly: %d features, float, K of 256, %lld %s points\n", (int)HAMERLY_FEATURES, table.n,
               *end ? "given" : "random");
        host_table part = table; // as many points as a plain loop does in seconds
        const long long most = 400000000 / (HAMERLY_ROWS * (long long)HAMERLY_FEATURES) + 1000 + HAMERLY_K_MAX;
        if (part.n > most) part.n = most;
        bad = host_check_all(&part);
        failed = bad < 0;
    }
    if (!failed) failed = hamerly_create(&fit, table.points, NULL, table.n);
    if (!failed) failed = host_report(fit, &table);
    if (failed) fprintf(stderr, "hamerly: %s\n", hamerly_error());
    hamerly_destroy(&fit);
    free(table.points);
    return failed || bad ? 1 : 0;
}
#endif
#endif
