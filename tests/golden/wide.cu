// SPDX-License-Identifier: MIT
// wide.cu, made by kmgen 0.1.0. Same spec, same text. The spec:
//
// name: wide
// features: 8
// clusters: 2..20
// type: float32
// target: cuda:sm_90
// n_init: 10
//
// The plan:
//
// device: cuda:sm_90, nominal H200: 132 multiprocessors, 4800 GB/s, 1.98 GHz
// points: unknown, taken as many
// clusters in one pass: 209 for each restart (the sum of the K list)
//
// design                       tensor  the least time of those estimated
// form                        rounded  int8 digits in sums pay up to 8 features, and up to 16 where the list has more than 40 clusters
// block                           384  about 168 registers a thread
// grid                            132  132 multiprocessors, filled once by all copies
// launches                          3  a warp's registers do not hold the sums of the whole K list
// prefetch                          3  so many bytes are on their way to a multiprocessor that it need not wait
// blocks_per_sm                     1  as many as registers and shared memory hold
// tile_clusters                    96  rows of matrix products that a launch has at most
// concurrent_restarts               1  many points: one restart of each K fills the device
//
// per point and pass: 126 bytes read, 2349 operations
// registers per thread: about 168 of 255
// shared memory per block: 84.4 KiB of 227.0 KiB

// Contents, by line:
//     71  Numbers and types
//    128  What the kernels of a pass are given
//    209  The pass
//   1506  The steps around the pass
//   2883  The host part: what the header declares

#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 10 * 90
#error                                                                                                       \
    "wide.cu was emitted for sm_90: nvcc -arch=sm_90, or emit it for an older device: kmgen --target cuda:sm_80"
#endif
// The linker knows kernels by these names, so that several emitted files go into one program.
#define km_tensor_histogram wide_km_tensor_histogram
#define km_tensor_lattice wide_km_tensor_lattice
#define km_tensor_tiles wide_km_tensor_tiles
#define km_tensor_0 wide_km_tensor_0
#define km_tensor_1 wide_km_tensor_1
#define km_tensor_2 wide_km_tensor_2
#define km_reduce wide_km_reduce
#define km_load_sums_f32 wide_km_load_sums_f32
#define km_load_sums_f64 wide_km_load_sums_f64
#define km_load_reduce wide_km_load_reduce
#define km_load_transform_f32 wide_km_load_transform_f32
#define km_load_transform_f64 wide_km_load_transform_f64
#define km_load_weights wide_km_load_weights
#define km_load_add wide_km_load_add
#define km_rows wide_km_rows
#define km_seed_draw wide_km_seed_draw
#define km_seed_pass wide_km_seed_pass
#define km_finish_few wide_km_finish_few
#define km_assign wide_km_assign
#define km_finish_blocks wide_km_finish_blocks
#define km_finish_add wide_km_finish_add
#define km_farthest_block wide_km_farthest_block
#define km_farthest_pick wide_km_farthest_pick
#define km_update wide_km_update
#endif

// The skeleton of all forms of the design. A form is the file rounded.cu: it defines what the lines `use form_...` name.
// ==== Numbers and types ====================================================================================
typedef float km_real;
typedef unsigned char km_label; // one label of one point, where labels are kept between passes

enum {
    D = 8,       // features
    S = 209,     // clusters of one copy: the sum of the K list
    KS = 19,     // entries of the K list
    K_MAX = 20,  // the largest of them
    COPIES = 1,  // concurrent restarts
    WEIGHTED = 0 // points carry weights
};

// The K list and where each K's centroids start.
__constant__ const int km_ks[KS] = {
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    10,
    11,
    12,
    13,
    14,
    15,
    16,
    17,
    18,
    19,
    20,
};
__constant__ const int km_offsets[KS] = {
    0,
    2,
    5,
    9,
    14,
    20,
    27,
    35,
    44,
    54,
    65,
    77,
    90,
    104,
    119,
    135,
    152,
    170,
    189,
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
#define KM_UNROLL_1_FOR(...) _Pragma("unroll 1") for (__VA_ARGS__)
#define KM_UNROLL_2_FOR(...) _Pragma("unroll 2") for (__VA_ARGS__)

// Design tensor, form rounded. Scores and sums are matrix products: centroids are the rows, points the columns.
//
// Lattice. When points are loaded, a coordinate becomes z = x / 2^e, |z| < 1, e of its feature, and z 2^22 is rounded
// to an integer. The workspace keeps them in tiles of 32 points, as matrix products take them. A pass reads only those.
// A point beyond 2^e is an outlier.
//
// Labels. All centroids of a K are rows of one quad (four lanes) or of a few quads, so that the largest score is found
// in the lane or by a shuffle. 16 bits of a score, two points in a register, take part: a centroid is a candidate when
// it comes so close to the nearest that a bound on the error cannot tell them apart. A point with one candidate has its
// label. A point with several is ambiguous: its label is resolved on the points as they are, as that of an outlier.
//
// Sums. Integers of the lattice, which are added without any rounding, the same in any order.
// Scores: a coordinate takes part as one half, a factor c - p as two, the larger part and the rest: so 8 features fill
// a product of 16, and sums start at the constant. What rounding a point by r, in units of 2^e, changes between two
// scores is r . (c_j - c_z), at most |r| times the largest |c_j - c_z| of the K. |r| is kept beside the point: how far
// below the largest score a centroid is a candidate depends on both.
//
// Sums: a candidate's byte is 0xff, -1; the integers of 24 bits are bytes too, from -128 to 127 each.
//
// TIGHT: whether the compiler spills unless it is kept from reading ahead: that of CUDA 12 always does.
constexpr bool TIGHT = 0 || __CUDACC_VER_MAJOR__ < 13;
enum {
    BLOCK = 384, // threads of a block
    GRID = 132,  // blocks of a launch, for one copy
    WARPS = BLOCK / 32,
    TILE = 32,             // points of a tile
    COLUMNS = S * (D + 1), // sums of a copy
    QUEUE = 64,            // ambiguous points of a warp that are not resolved yet
    BITS = 22,             // of a coordinate's integer, beside its sign
    BINS = 64,             // of the histogram: powers of two below the largest coordinate
    STAGES = 4             // of the ring: tiles that are on their way, and those that are worked on
};
enum {
    PAIRS = 2,                    // of columns, 16 points, that a warp works on at a time
    WIDTH = 2 * PAIRS,            // columns of 8 points
    DIGITS = 3 * D,               // bytes of a point's integers
    BLOCKS = (D + 7) / 8,         // of 8 features
    FRAGMENTS = BLOCKS + 1,       // of a tile of rows: factors of a block, and where sums start
    SUM_TILES = (DIGITS + 7) / 8, // columns of sums, in eights
    COUNT_COLUMNS = 0,            // beside those of coordinates: points are counted by their masks
    SQUARE_COLUMNS = 0,
    MASKS = 2,           // of a lane and slot, for four points each
    COUNT_TILES = 64,    // so many points fit bytes that count: two of each tile
    CHUNK_TILES = 65536, // so many points of a warp fit sums of bytes: 2^21
    STEP_TILES = 1,      // tiles that are worked on at a time
    NORMS = 1,           // that a load finds the largest of: |x|
    RESOLVE_AHEAD = D,   // features at a time when an ambiguous point is added
    FETCHERS = 32,       // threads that fetch the centroids of a K
    REDUCE = 1024        // threads of a block of km_reduce
};
constexpr float BINADE = 8192; // scores are at least this and less than twice this
constexpr unsigned ALL = 0xffffffff;

// Where the centroids of each K lie: launch, first quad, quads, first slot in a quad, slots in a quad.
struct km_place {
    short launch, quad, quads, slot, slots, row; // row: its first row of the block's sums
};
__device__ const km_place km_places[KS] = {
    {1, 7, 1, 7, 2, 0},
    {1, 7, 1, 0, 3, 2},
    {1, 6, 1, 7, 4, 5},
    {1, 5, 1, 7, 5, 9},
    {1, 6, 1, 0, 6, 14},
    {1, 5, 1, 0, 7, 20},
    {1, 4, 1, 0, 8, 27},
    {1, 3, 1, 0, 9, 35},
    {1, 2, 1, 0, 10, 44},
    {1, 1, 1, 0, 11, 54},
    {1, 0, 1, 0, 12, 65},
    {2, 6, 2, 0, 7, 0},
    {2, 4, 2, 0, 7, 13},
    {2, 2, 2, 0, 8, 27},
    {2, 0, 2, 0, 8, 42},
    {0, 6, 2, 0, 9, 0},
    {0, 4, 2, 0, 9, 17},
    {0, 2, 2, 0, 10, 35},
    {0, 0, 2, 0, 10, 54},
};

// A launch. A lane has SLOTS rows of scores, two of each tile of 16; the first FIRST belong to one K, the others to a
// second K or, where linked, to the same. With LEVELS > 0 up to 2^LEVELS quads share a K.
struct km_launch_0 { // K = 17, 18, 19, 20
    enum {
        INDEX = 0,
        TILES = 5,
        SLOTS = 2 * TILES,
        FIRST = 10,
        LEVELS = 1
    };
    enum { ROWS = 74 }; // of the block's sums
};
struct km_launch_1 { // K = 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
    enum {
        INDEX = 1,
        TILES = 6,
        SLOTS = 2 * TILES,
        FIRST = 7,
        LEVELS = 0
    };
    enum { ROWS = 77 }; // of the block's sums
};
struct km_launch_2 { // K = 13, 14, 15, 16
    enum {
        INDEX = 2,
        TILES = 4,
        SLOTS = 2 * TILES,
        FIRST = 8,
        LEVELS = 1
    };
    enum { ROWS = 58 }; // of the block's sums
};

// What the threads of a block share in every form.
template <typename LAUNCH> struct km_shared {
    double radius;                         // no point but outliers has a larger norm
    double extent[D], lattice_scale[D];    // 2^e; 2^(22 - e), which makes an integer
    unsigned link[4][8];                   // ALL where: the two parts of a lane belong together; quads 1, 2, 4 apart do
    short k_index[2][8];                   // of a quad's parts the index in the K list, -1: none
    short row[8][LAUNCH::SLOTS];           // row of the sums, -1: none
    unsigned char dominated[LAUNCH::ROWS]; // centroids that are never nearest inside the lattice
    unsigned char active[KS];
};

// Points as matrix products take them.
struct km_tile {
    uint4 points[BLOCKS][TILE];  // halves of features 8 i to 8 i + 7 of each point
    uint2 digits[SUM_TILES][32]; // of lane 4 n + t a byte of each of eight points: what its column n takes
    uint4 errors
        [4]; // of points 2 t, 2 t + 1, 8 + 2 t, ...: what rounding took away, as halves; negative: outliers
};

enum { TILE_SIZE = sizeof(km_tile) / sizeof(uint4) };

static __device__ __forceinline__ long long km_tiles_count(const km_pass_args &args) {
    return (args.n + TILE - 1) / TILE;
}

// An ambiguous point of a tile, and which; for which K.
struct km_item {
    int tile, what;
};

// What a warp has in shared memory.
struct km_warp {
    km_tile ring[STAGES];
    km_item queue[QUEUE];
    int queued; // not in a register, as few tiles ask
};

// How far below the largest score a centroid of either K is a candidate.
struct alignas(16) km_margin {
    unsigned slope[2], least[2];
};

template <typename LAUNCH> struct km_block : km_shared<LAUNCH> {
    uint4 fragments[LAUNCH::TILES][FRAGMENTS][32]; // centroids, as matrix products take them
    long long sums[LAUNCH::ROWS * (D + 1)];
    km_warp warps[WARPS];
    const uint4 *tiles; // where they begin: rarely enough needed to stay here
    float centroids[LAUNCH::ROWS * D];
    float midpoint[WARPS][D];
    km_margin margin[8]; // of a quad's Ks
    unsigned asks[8];    // which Ks of a quad send points to the queue: bit 0 and bit 1 of each byte
};

// Workspace --------------------------------------------------------------------------------------------------

// For each copy its sums; the largest |x|^2 of the points but outliers, and in one form |z|^2; the exponents e; the
// histogram; the outliers of tiles; the tiles.
static __device__ __forceinline__ double *km_largest(const km_pass_args &args) {
    return (double *)args.workspace + (long long)COPIES * COLUMNS * GRID;
}

static __device__ __forceinline__ int *km_exponents(const km_pass_args &args) {
    return (int *)(km_largest(args) + NORMS);
}

static __device__ __forceinline__ unsigned *km_histogram(const km_pass_args &args) {
    return (unsigned *)(km_exponents(args) + D);
}

static __device__ __forceinline__ unsigned *km_outliers(const km_pass_args &args) {
    return km_histogram(args) + D * BINS;
}

static __device__ __forceinline__ km_tile *km_tiles(const km_pass_args &args) {
    const long long after = (long long)(km_outliers(args) + km_tiles_count(args));
    return (km_tile *)((after + 255) / 256 * 256);
}

// Load: the lattice that holds nearly all points, feature by feature -------------------------------------------

static __device__ __forceinline__ double km_power(int exponent) { // 2^exponent
    return __longlong_as_double((1023ll + exponent) << 52);
}

// Exponent of the smallest power of two above |x|, or `least`.
static __device__ __forceinline__ int km_exponent(double x, int least = -100) {
    const int exponent = (int)(__double_as_longlong(x) >> 52 & 0x7ff) - 1022;
    return exponent < least ? least : exponent;
}

static __device__ __forceinline__ int km_exponent_max(const km_pass_args &args, int f) {
    return km_exponent(fmax(fabs(args.box[f]), fabs(args.box[D + f])));
}

// Load: counts the points of each power of two below the largest, feature by feature.
extern "C" __global__ void __launch_bounds__(256)
    km_tensor_histogram(const __grid_constant__ km_pass_args args) {
    __shared__ unsigned bins[D * BINS];
    for (int i = threadIdx.x; i < D * BINS; i += 256) bins[i] = 0;
    __syncthreads();
    // A thread has one feature, and counts most of its points by itself: of the first bins, a byte each.
    constexpr int AHEAD = 4, ROUNDS = 60; // coordinates at a time; so many times they fit the bytes
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

// Load: e of each feature. At most one point in 16,384, or one, may lie beyond, and the sum of their integers must fit.
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
            if (beyond * 16384 > points || beyond * km_power(bin + 1 + BITS) > km_power(61)) break;
        }
        km_exponents(args)[f] = largest - bin < 127 ? largest - bin : 127;
    }
}

// Load: the tiles --------------------------------------------------------------------------------------------

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

// |r|, by which rounding moved a point, is kept in units of 2^-12; margins in units of a 16-bit score.
enum { ERROR_BITS = 12, MARGIN_MAX = 512 };
// 1024 in half precision, where units are 1: the bits of what is added to it are an integer.
constexpr unsigned NONE = 0x64006400, NEXT = NONE - 0x10001;

// How far below the largest score a centroid of a K is a candidate: where a point is off by 1 more than by 0, and
// there; two halves each. `spread`: the largest distance of two centroids, each feature in units of 2^e.
struct km_margin_of_k {
    unsigned slope, least;
};

// A point in the lattice as halves, and how far they are from it. Negative: an outlier.
template <typename Coordinate>
static __device__ __forceinline__ void km_put_halves(km_tile &tile, bool beyond, Coordinate z) {
    const int lane = threadIdx.x % 32;
    double square = 0;
    KM_UNROLL_FOR (int f = 0; f < 8 * BLOCKS; f++) {
        const float exact = f < D ? z(f % D) : 0;
        const unsigned half = km_halves(exact, 0);
        const double away = (double)exact - km_low_half(half);
        square = fma(away, away, square);
        ((unsigned short *)&tile.points[f / 8][lane])[f % 8] = (unsigned short)half;
    }
    const float error = (float)(sqrt(square) * km_power(ERROR_BITS) * (1 + km_power(-10)));
    unsigned short *errors = (unsigned short *)&tile.errors[lane / 2 % 4];
    errors[lane / 8 * 2 + lane % 2] = (unsigned short)km_halves(beyond ? -0.0f : error, 0);
}

static __device__ __forceinline__ void km_put_factors(km_tile &tile, const km_pass_args &, const float *z,
                                                      bool beyond, double) {
    km_put_halves(tile, beyond, [&](int f) { return z[f]; });
}

// A coordinate's integer, and its three bytes.
static __device__ __forceinline__ unsigned km_bytes_of(float z) {
    constexpr int HALVES = 0x808080; // of 256, added to each byte, and taken away from it
    return (unsigned)(__float2int_rn(z * (1 << BITS)) + HALVES) ^ HALVES;
}

// Of four columns' bytes of each point, a word of one column. Products of bytes take their 32 points in the order in
// which scores come: those of lanes that differ in bits 0 and 3 of their number go into one word, and each of these
// lanes gets the word of one column.
static __device__ __forceinline__ unsigned km_gather(unsigned own) {
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 8;
    own = __byte_perm(own, __shfl_xor_sync(ALL, own, 1), odd ? 0x3715 : 0x6240);
    return __byte_perm(own, __shfl_xor_sync(ALL, own, 8), high ? 0x3276 : 0x5410);
}

// Writes a point, one of a warp's 32: x[f] scale[f] in the lattice. They come together in shared memory.
static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    const float *scale, bool beyond, double square) {
    __shared__ km_tile made[256 / 32];
    km_tile &tile = made[threadIdx.x / 32];
    constexpr int STREAM = (DIGITS + 3) / 4; // words of a point's bytes, one for each column
    const int lane = threadIdx.x % 32;
    float z[D];
    unsigned stream[STREAM + 1] = {};
    stream[DIGITS / 4] = (unsigned)COUNT_COLUMNS << DIGITS % 4 * 8;
    KM_UNROLL_FOR (int f = 0; f < D; f++) {
        z[f] = beyond ? 0 : x[f] * scale[f];
        const unsigned long long digits = (unsigned long long)km_bytes_of(z[f]) << 3 * f % 4 * 8;
        stream[3 * f / 4] |= (unsigned)digits;
        stream[3 * f / 4 + 1] |= (unsigned)(digits >> 32);
    }
    KM_UNROLL_FOR (int i = 0; i < STREAM; i++) {
        const int column = 4 * i + lane / 8 % 2 * 2 + lane % 2;
        unsigned *words = (unsigned *)&tile.digits[column / 8][column % 8 * 4 + lane / 2 % 4];
        words[lane / 16] = km_gather(stream[i]);
    }
    constexpr int REST = 8 * SUM_TILES - SQUARE_COLUMNS - 4 * STREAM; // columns of zeros, or the count's
    for (int at = lane; at < 8 * REST; at += 32) {
        const int column = 4 * STREAM + at / 8;
        unsigned *words = (unsigned *)&tile.digits[column / 8][column % 8 * 4 + at / 2 % 4];
        words[at % 2] = column == DIGITS ? COUNT_COLUMNS * 0x01010101 : 0;
    }
    km_put_factors(tile, args, z, beyond, square);
    __syncwarp();
    const uint4 *from = (const uint4 *)&tile;
    uint4 *to = (uint4 *)(km_tiles(args) + i / TILE);
    for (int at = lane; at < TILE_SIZE; at += 32) to[at] = from[at];
    __syncwarp();
}

// The largest of all lanes' values, in every lane.
static __device__ __forceinline__ double km_warp_max(double value) {
    for (int width = 16; width > 0; width /= 2)
        value = fmax(value, __shfl_xor_sync(0xffffffffu, value, width));
    return value;
}

// Load: writes the tiles; finds the outliers, as which those past the end of the last tile count, and how far out the
// others are.
extern "C" __global__ void __launch_bounds__(256) km_tensor_tiles(const __grid_constant__ km_pass_args args) {
    __shared__ float limit[D], scale[D];
    for (int f = threadIdx.x; f < D; f += 256) {
        limit[f] = (float)(km_power(km_exponents(args)[f]) * (1 - km_power(-BITS))); // all its bits
        scale[f] = (float)km_power(-km_exponents(args)[f]);
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
        const unsigned outliers = __ballot_sync(ALL, beyond);
        if (i % TILE == 0) km_outliers(args)[i / TILE] = outliers;
    }
    // Numbers that are not negative are ordered as their bits are. Few tell more than others did.
    for (int which = 0; which < NORMS; which++) {
        largest[which] = km_warp_max(largest[which]);
        if (threadIdx.x % 32 == 0 && largest[which] > ((volatile double *)km_largest(args))[which])
            atomicMax((unsigned long long *)km_largest(args) + which,
                      (unsigned long long)__double_as_longlong(largest[which]));
    }
}

// Centroids become rows of products --------------------------------------------------------------------------

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

// Of one K: finds the centroids that another dominates everywhere inside the lattice. A centroid far outside would cost
// the scores of the others their digits.
template <typename LAUNCH>
static __device__ void km_find_dominated(km_block<LAUNCH> &shared, const float *c, const km_place &place,
                                         int k) {
    const int nearest = km_nearest_to_origin(c, k);
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        double lead = 0, size = 0; // of j over that one, at most
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double a = c[j * D + f], b = c[nearest * D + f];
            lead += fabs(a - b) * shared.extent[f] - 0.5 * (a - b) * (a + b);
            size += fabs(a - b) * shared.extent[f] + fabs(a - b) * fabs(a + b);
        }
        shared.dominated[place.row + j] = j != nearest && lead < -1e-12 * size;
    }
    __syncwarp();
}

// Goes through the rows of a K, by so many threads: `write_row` writes a quarter of a row, that of lanes with
// lane % 4 = t, centroid j or, -1, none that a point of the lattice could be nearest to: the row stays empty (outliers
// are compared with the centroids themselves, which shared.row still names); `begin_quad` is told once of each quad,
// and of the K's part of it.
template <typename LAUNCH, typename Row, typename Quad>
static __device__ __forceinline__ void km_for_rows(km_block<LAUNCH> &shared, int k_index, int thread,
                                                   int threads, Row write_row, Quad begin_quad) {
    const km_place place = km_places[k_index];
    const bool linked = LAUNCH::LEVELS == 0 && place.slots > LAUNCH::FIRST;
    KM_UNROLL_1_FOR (int at = thread; at < place.quads * LAUNCH::SLOTS * 4; at += threads) {
        const int quad = place.quad + at / 4 / LAUNCH::SLOTS, slot = at / 4 % LAUNCH::SLOTS;
        const int j = (quad - place.quad) * place.slots + slot - place.slot,
                  segment = place.slot >= LAUNCH::FIRST;
        const bool real = slot >= place.slot && slot < place.slot + place.slots && j < km_ks[k_index];
        if (!linked && (slot >= LAUNCH::FIRST) != segment) continue;
        shared.row[quad][slot] = real ? place.row + j : -1;
        write_row(quad, slot, at % 4, real && !shared.dominated[place.row + j] ? j : -1);
        if (slot != place.slot) continue;
        shared.k_index[segment][quad] = k_index;
        shared.link[0][quad] = linked ? ALL : 0;
        for (int level = 0; level < LAUNCH::LEVELS; level++)
            shared.link[1 + level][quad] = place.quads >> level > 1 ? ALL : 0;
        begin_quad(quad, segment, linked);
    }
}

// The part of the lanes with lane % 4 = t of a row: factors of D features, as two halves each. Of 8 features both are
// in one product, of 16 each has its own.
template <typename LAUNCH, typename Factor>
static __device__ __forceinline__ void km_write_halves(km_block<LAUNCH> &shared, int quad, int slot, int t,
                                                       Factor factor) {
    KM_UNROLL_1_FOR (int i = 0; i < BLOCKS; i++) {
        const int f = 8 * i + 2 * t;
        const float first = f < D ? factor(f) : 0, second = f + 1 < D ? factor(f + 1) : 0;
        const float high = km_low_half(km_halves(first, 0)), second_high = km_low_half(km_halves(second, 0));
        const auto words_of = [&](int fragment) {
            return (unsigned *)&shared.fragments[slot / 2][fragment][quad * 4 + t] + slot % 2;
        };
        words_of(i / 2 * 2)[i % 2 * 2] = km_halves(high, second_high);
        words_of(BLOCKS > 1 ? i / 2 * 2 + 1 : 0)[BLOCKS > 1 ? i % 2 * 2 : 2] =
            km_halves(first - high, second - second_high);
    }
}

// Writes a quarter of a row of the fragments: scaled factors of D features, and where sums start.
template <typename LAUNCH, typename Factor>
static __device__ __forceinline__ void km_write_row(km_block<LAUNCH> &shared, int quad, int slot, int t,
                                                    Factor factor, float start) {
    km_write_halves(shared, quad, slot, t, factor);
    for (int point = 0; point < 2; point++)
        ((unsigned *)&shared.fragments[slot / 2][BLOCKS][quad * 4 + t])[slot % 2 * 2 + point] =
            __float_as_uint(start);
}

// A row of no centroid; a lane without a K has one candidate.
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_row(km_block<LAUNCH> &shared, int quad, int slot, int t) {
    const bool high = slot == 0 || slot == LAUNCH::FIRST;
    km_write_row(
        shared, quad, slot, t, [](int) { return 0.0f; }, high ? 1.25f * BINADE : BINADE);
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_clear(km_block<LAUNCH> &shared, const km_pass_args &args) {
    if (threadIdx.x == 0) shared.tiles = (const uint4 *)km_tiles(args);
    for (int i = threadIdx.x; i < LAUNCH::ROWS * (D + 1); i += BLOCK) shared.sums[i] = 0;
    for (int i = threadIdx.x; i < 8; i += BLOCK) {
        shared.asks[i] = 0;
        shared.margin[i] = {{0, 0}, {NONE + 0x10001, NONE + 0x10001}};
    }
}

// The largest distance of two centroids of a K, each feature in units of 2^e.
template <typename LAUNCH>
static __device__ double km_find_spread(const km_block<LAUNCH> &shared, const float *c,
                                        const unsigned char *dominated, int k) {
    double largest = 0;
    KM_UNROLL_1_FOR (int pair = threadIdx.x % 32; pair < k * k; pair += 32) {
        const int i = pair / k, j = pair % k;
        if (i >= j || dominated[i] || dominated[j]) continue;
        double square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = ((double)c[i * D + f] - (double)c[j * D + f]) * shared.extent[f];
            square = fma(away, away, square);
        }
        largest = fmax(largest, square);
    }
    return sqrt(km_warp_max(largest));
}

// How the scores of a K are scaled: (score - lowest) * factor. `error` of a scaled one: of the lattice and of the
// halves' products.
struct km_scale {
    double lowest, factor, error;
};

// What a score has beside x . (c - p), not scaled.
static __device__ double km_constant(const float *c, const float *midpoint) {
    double constant = 0;
    KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
        const double a = c[f], p = midpoint[f];
        constant -= 0.5 * (a - p) * (a + p);
    }
    return constant;
}

// Finds the midpoint of a K's centroids, too.
template <typename LAUNCH>
static __device__ km_scale km_find_scale(const km_block<LAUNCH> &shared, float *midpoint, const float *c,
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
    // Scores, and what coordinates add to them at most: of points in the ball, and in the whole lattice.
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

    return {lowest, factor, (in_lattice + in_ball) * factor * km_power(-21)};
}

// The rows of a K, scaled, by so many threads; `begin_quad` as in km_for_rows. Scores are
//     score_j = x . (c_j - p) - (|c_j|^2 - |p|^2) / 2,  p the midpoint of the K's centroids,
// scaled so that all scores of a K lie in one binade of float, of which 15 bits are compared.
template <typename LAUNCH, typename Quad>
static __device__ __forceinline__ void km_write_rows(km_block<LAUNCH> &shared, const float *c,
                                                     const float *midpoint, int k_index, int thread,
                                                     int threads, const km_scale &scale, Quad begin_quad) {
    const auto write_row = [&](int quad, int slot, int t, int j) {
        const auto factor = [&](int f) {
            return (float)(((double)c[j * D + f] - midpoint[f]) * shared.extent[f] * scale.factor);
        };
        const auto zero = [](int) { return 0.0f; };
        if (j >= 0)
            km_write_row(
                shared, quad, slot, t, factor,
                (float)(1.08 * BINADE + (km_constant(c + j * D, midpoint) - scale.lowest) * scale.factor));
        else
            km_write_row(shared, quad, slot, t, zero, BINADE);
    };
    km_for_rows(shared, k_index, thread, threads, write_row, begin_quad);
}

// Two scores are off by twice the error of one, of which at most 20 truncated additions a product are part, and by what
// rounding the point changes between them. A unit of the 16-bit score is BINADE / 2^15; half of one is lost where the
// margin is rounded, and one where scores are. Where it would be too large no score counts: all are candidates.
static __device__ __forceinline__ km_margin_of_k km_find_margin(km_scale &scale, double spread) {
    const double unit = BINADE * km_power(-15);
    const double error = 2 * (scale.error + BLOCKS * 20 * BINADE * km_power(-22) + 0.001) / unit;
    spread = spread * scale.factor / unit * km_power(-ERROR_BITS);
    if (error + spread * 8 > MARGIN_MAX) scale.factor = spread = 0; // |r| is at most 8
    return {km_halves((float)(spread * (1 + km_power(-10))), 0) * 0x10001,
            km_halves((float)(1024 + ceil(error + 0.51)), 0) * 0x10001};
}

// Of one K, by one warp: fragments, margin, links.
template <typename LAUNCH>
static __device__ void km_prepare(km_block<LAUNCH> &shared, const float *c, int k_index) {
    const km_place place = km_places[k_index];
    const int k = km_ks[k_index];
    float *midpoint = shared.midpoint[threadIdx.x / 32];
    const unsigned char *dominated = shared.dominated + place.row;
    km_find_dominated(shared, c, place, k);
    km_scale scale = km_find_scale(shared, midpoint, c, dominated, k);
    const km_margin_of_k margin = km_find_margin(scale, km_find_spread(shared, c, dominated, k));
    const auto begin_quad = [&](int quad, int segment, bool linked) {
        if (quad == place.quad) atomicOr(&shared.asks[quad], segment ? 0x0a0a0a0a : 0x05050505);
        for (int s = 0; s < 2; s++) {
            if (s != segment && !linked) continue;
            shared.margin[quad].slope[s] = margin.slope;
            shared.margin[quad].least[s] = margin.least;
        }
    };
    km_write_rows(shared, c, midpoint, k_index, threadIdx.x % 32, 32, scale, begin_quad);
}

// The rows of each K that takes part, by one warp. Gives whether there is one.
template <typename LAUNCH> static __device__ __forceinline__ bool km_prepare_all(km_block<LAUNCH> &shared) {
    bool active = false;
    for (int i = 0, own = 0; i < KS; i++) {
        if (km_places[i].launch != LAUNCH::INDEX) continue;
        if (own++ % WARPS == threadIdx.x / 32 && shared.active[i])
            km_prepare(shared, shared.centroids + km_places[i].row * D, i);
        active = active | shared.active[i];
    }
    return active;
}

// Everything that the threads of a block share. False: no K of the launch takes part in this pass, or none does.
template <typename LAUNCH>
static __device__ bool km_begin(km_block<LAUNCH> &shared, const km_pass_args &args) {
    const int stop = args.control->stop; // One wait for all that is read here.
    const float *from = (const float *)args.centroids + (long long)blockIdx.y * S * D;
    if (threadIdx.x == 0) shared.radius = sqrt(*km_largest(args)) * (1 + 1e-9);
    for (int i = threadIdx.x; i < KS; i += BLOCK) shared.active[i] = args.active[blockIdx.y * KS + i];
    for (int f = threadIdx.x; f < D; f += BLOCK) {
        shared.extent[f] = km_power(km_exponents(args)[f]);
        shared.lattice_scale[f] = km_power(BITS - km_exponents(args)[f]);
    }
    for (int i = 0, own = 0; i < KS; i++) {
        if (km_places[i].launch != LAUNCH::INDEX || own++ % (BLOCK / FETCHERS) != threadIdx.x / FETCHERS)
            continue;
        for (int at = threadIdx.x % FETCHERS; at < km_ks[i] * D; at += FETCHERS)
            shared.centroids[km_places[i].row * D + at] = from[km_offsets[i] * D + at];
    }
    for (int i = threadIdx.x; i < 8 * LAUNCH::SLOTS * 4; i += BLOCK) {
        const int quad = i / 4 / LAUNCH::SLOTS, slot = i / 4 % LAUNCH::SLOTS;
        km_clear_row(shared, quad, slot, i % 4);
        shared.row[quad][slot] = -1;
    }
    for (int i = threadIdx.x; i < 8; i += BLOCK) {
        shared.k_index[0][i] = shared.k_index[1][i] = -1;
        shared.link[0][i] = shared.link[1][i] = shared.link[2][i] = shared.link[3][i] = 0;
    }
    km_clear(shared, args);
    __syncthreads();
    if (stop) return false;
    const bool active = km_prepare_all(shared);
    __syncthreads();
    return active;
}

// The block's sums as 64-bit integers in shared memory.
// Ambiguous points -------------------------------------------------------------------------------------------

struct km_asked {
    int of_tile, k_index;
};

template <typename LAUNCH>
static __device__ __forceinline__ const float *km_exact_centroids(const km_block<LAUNCH> &shared,
                                                                  const km_pass_args &, int k_index) {
    return shared.centroids + km_places[k_index].row * D;
}

// Adds to a sum of the block; many threads at once, and native, unlike 64-bit atomics of shared memory.
static __device__ __forceinline__ void km_add_long(long long *sum, long long number) {
    unsigned *words = (unsigned *)sum;
    const unsigned low = (unsigned)number, before = atomicAdd(words, low);
    atomicAdd(words + 1, (unsigned)(number >> 32) + (before + low < before));
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_add_exact(km_block<LAUNCH> &shared, int row, int f,
                                                    long long number) {
    km_add_long(shared.sums + row * (D + 1) + f, number);
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_add_count(km_block<LAUNCH> &shared, int row) {
    km_add_long(shared.sums + row * (D + 1) + D, 1);
}

template <typename LAUNCH>
static __device__ __forceinline__ km_asked km_asked_by(const km_block<LAUNCH> &shared, const km_item &item) {
    const int asker = item.what % 32, bit = item.what >> 5; // as km_defer left it
    return {bit % 4 / 2 * 16 + bit / 16 * 8 + bit / 8 % 2 + asker % 4 * 2,
            shared.k_index[bit % 2][asker / 4]};
}

static __device__ __forceinline__ int km_find_nearest(const float *point, const float *c, int k) {
    double x[D], smallest = 1e308;
    KM_UNROLL_FOR (int f = 0; f < D; f++) x[f] = point[f];
    int label = 0;
    KM_UNROLL_1_FOR (int j = 0; j < k; j++) {
        double square = 0;
        KM_UNROLL_FOR (int f = 0; f < D; f++) {
            const double away = x[f] - (double)c[j * D + f];
            square = fma(away, away, square);
        }
        label = square < smallest ? j : label;
        smallest = fmin(square, smallest);
    }
    return label;
}

// Resolves the last points of the warp's queue, a lane each, and adds them to the sums. Gives how many are left.
template <typename LAUNCH>
static __device__ __forceinline__ int km_resolve(km_block<LAUNCH> &shared, const km_pass_args &args,
                                                 int queued) {
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32, count = queued < 32 ? queued : 32;
    __syncwarp();
    const km_item own = warp.queue[queued - count + (lane < count ? lane : 0)];
    __syncwarp();
    queued -= count;
    const km_asked asked = km_asked_by(shared, own);
    const long long point = (long long)own.tile * TILE + asked.of_tile;
    if (point >= args.n || lane >= count) return queued;
    const float *x = (const float *)args.points + point * D;
    const int label =
        km_find_nearest(x, km_exact_centroids(shared, args, asked.k_index), km_ks[asked.k_index]);
    const int row = km_places[asked.k_index].row + label;
#pragma unroll RESOLVE_AHEAD
    for (int f = 0; f < D; f++)
        km_add_exact(shared, row, f, __double2ll_rn((double)x[f] * shared.lattice_scale[f]));
    km_add_count(shared, row);
    return queued;
}

// What a warp keeps from tile to tile.
// Four of the eight bytes of a and b, or their signs: a hexadecimal digit of WHICH for each.
template <unsigned WHICH> static __device__ __forceinline__ unsigned km_prmt(unsigned a, unsigned b) {
    unsigned bytes;
    asm("prmt.b32 %0, %1, %2, %3;" : "=r"(bytes) : "r"(a), "r"(b), "n"(WHICH));
    return bytes;
}

// Four 8 x 8 matrices of halves as operands of products; lane l names row l % 8 of matrix l / 8, by its address in
// shared memory.
static __device__ __forceinline__ void km_ldmatrix_x4(unsigned *matrices, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(matrices[0]), "=r"(matrices[1]), "=r"(matrices[2]), "=r"(matrices[3])
                 : "r"(row));
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

static __device__ __forceinline__ unsigned km_half2_sub(unsigned a, unsigned b) {
    unsigned difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
}

// a b + c.
static __device__ __forceinline__ unsigned km_half2_fma(unsigned a, unsigned b, unsigned c) {
    unsigned sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}

static __device__ __forceinline__ uint4 km_read_shared_4(unsigned address) {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(address));
    return words;
}

// The larger ones, of halves above zero: they compare like the integers of their bits.
static __device__ __forceinline__ unsigned km_half2_max(unsigned a, unsigned b) {
    unsigned larger;
    asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
}

// The largest score of each K, for the points of one column: of the first slots, and of the others.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_largest(unsigned *largest, const unsigned (*scores)[WIDTH],
                                                       int c, const unsigned *link) {
    if (int(LAUNCH::FIRST) < int(LAUNCH::SLOTS)) {
        unsigned other = scores[LAUNCH::FIRST % LAUNCH::SLOTS][c];
        KM_UNROLL_FOR (int s = LAUNCH::FIRST + 1; s < LAUNCH::SLOTS; s++)
            other = km_half2_max(other, scores[s][c]);
        largest[0] = scores[0][c];
        KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST; s++) largest[0] = km_half2_max(largest[0], scores[s][c]);
        largest[0] = km_half2_max(largest[0], other & link[0]);
        largest[1] = (largest[0] & link[0]) | (other & ~link[0]);
    } else {
        largest[0] = largest[1] = scores[0][c];
        KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST; s++) largest[0] = km_half2_max(largest[0], scores[s][c]);
    }
    KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
        largest[0] = km_half2_max(largest[0], __shfl_xor_sync(ALL, largest[0], 4 << level) & link[1 + level]);
}

// Planes as products find them: in a lane's registers, or in shared memory.
typedef uint4 km_fragments[FRAGMENTS][32];

static __device__ __forceinline__ uint4 km_fragment(const km_fragments *fragments, int tile, int k) {
    return fragments[tile][k][threadIdx.x % 32];
}

template <typename State, typename LAUNCH>
static __device__ __forceinline__ void km_read_fragments(State &state, const km_block<LAUNCH> &shared) {
    state.fragments = shared.fragments;
}

// What a lane knows of its quad's Ks.
struct km_lane {
    unsigned link[4];
    unsigned margin; // address of the quads' margins
};

// Masks of four points, added up: of the first slots, and of the others. They are 255 times a number whose bytes say
// how many candidates each of the four points has.
template <typename LAUNCH>
static __device__ __forceinline__ void km_add_masks(unsigned *sums, const unsigned (*candidates)[MASKS],
                                                    int m) {
    sums[0] = candidates[0][m];
    KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST; s++) sums[0] += candidates[s][m];
    sums[1] = int(LAUNCH::FIRST) < int(LAUNCH::SLOTS) ? candidates[LAUNCH::FIRST % LAUNCH::SLOTS][m] : 0;
    KM_UNROLL_FOR (int s = LAUNCH::FIRST + 1; s < LAUNCH::SLOTS; s++) sums[1] += candidates[s][m];
}

// Adds up masks; gives whether a lane's point has not just one candidate of each K. A point has at least one, so that
// all masks add up to that of one, or of two of different Ks, only where every point has just one: bytes of a sum count
// up to 255.
template <typename LAUNCH>
static __device__ __forceinline__ bool
km_has_several(unsigned (*sums)[2], const unsigned (*candidates)[MASKS], const unsigned *link) {
    unsigned all = 0;
    KM_UNROLL_FOR (int m = 0; m < MASKS; m++) {
        km_add_masks<LAUNCH>(sums[m], candidates, m);
        asm("" : "+r"(sums[m][0]), "+r"(sums[m][1])); // kept for km_defer, not added up in another order
        all += sums[m][0] + sums[m][1];
    }
    KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
        all += __shfl_xor_sync(ALL, all, 4 << level) & link[1 + level];
    const unsigned expected =
        int(LAUNCH::FIRST) < int(LAUNCH::SLOTS) ? MASKS * (2 * ALL) + (link[0] & MASKS) : MASKS * ALL;
    return all != expected;
}

// Of four points the bytes, 0xff where one has several candidates of the first K, and of the other.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_several(unsigned *several, const unsigned *sums,
                                                       const unsigned *link) {
    constexpr unsigned OVER_255 = 0xfefefeff; // times 255: 1
    unsigned counts[2] = {sums[0] * OVER_255, sums[1] * OVER_255};
    counts[0] += counts[1] & link[0];
    counts[1] = (counts[0] & link[0]) | (counts[1] & ~link[0]);
    KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
        counts[0] += __shfl_xor_sync(ALL, counts[0], 4 << level) & link[1 + level];
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++) // where a count is not 0 or 1
        several[segment] = km_prmt<0xba98>(counts[segment] + 0x7e7e7e7e, 0);
}

// sums = a b + start: 32 products of bytes with signs each.
static __device__ __forceinline__ void km_mma_s8(int *sums, const unsigned *a, const unsigned *b,
                                                 const int *start) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%10, %11, %12, %13};"
        : "=r"(sums[0]), "=r"(sums[1]), "=r"(sums[2]), "=r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]), "r"(start[0]), "r"(start[1]),
          "r"(start[2]), "r"(start[3]));
}

// The same number, of which the compiler does not know how it came: it is neither kept from before nor made again.
static __device__ __forceinline__ unsigned km_opaque(unsigned number) {
    unsigned kept;
    asm volatile("mov.b32 %0, %1;" : "=r"(kept) : "r"(number));
    return kept;
}

static __device__ __forceinline__ uint2 km_read_shared_2(unsigned address) {
    uint2 words;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(address));
    return words;
}

// What a lane knows of its quad's Ks, whatever the scores.
template <typename LAUNCH, typename Lane>
static __device__ __forceinline__ void km_know_quad(Lane &own, const km_block<LAUNCH> &shared) {
    const int quad = threadIdx.x % 32 / 4;
    for (int l = 0; l < 4; l++) own.link[l] = shared.link[l][quad];
}

// Not inlined: what it needs does not take registers from the loop.
template <typename LAUNCH>
static __device__ __noinline__ int km_resolve_apart(km_block<LAUNCH> &shared, const km_pass_args &args,
                                                    int queued) {
    return km_resolve(shared, args, queued);
}

// The rare step: ambiguous points and outliers join the queue instead of the sums. `marked`: whether a lane knows of an
// outlier.
template <typename LAUNCH>
static __device__ __forceinline__ void km_defer(unsigned (*candidates)[MASKS], const unsigned (*sums)[2],
                                                km_block<LAUNCH> &shared, const km_pass_args &args,
                                                const km_lane &own, bool marked, int tile) {
    const int lane = (int)km_opaque(threadIdx.x % 32); // no address is worth a register between two calls
    const unsigned outliers = __any_sync(ALL, marked) ? km_outliers(args)[tile] : 0;
    unsigned pending =
        0; // of a byte, bit 0 and 1: the first half's point and a K; bit 2 and 3: the other half's
    KM_UNROLL_FOR (int half = 0; half < 2; half++) {
        unsigned several[2];
        km_find_several<LAUNCH>(several, sums[half], own.link);
        if (outliers) {
            const unsigned bits = outliers >> (16 * half + lane % 4 * 2); // 0, 1, 8 and 9
            const unsigned bytes = (bits & 1) | (bits & 2) << 7 | (bits & 0x100) << 8 | (bits & 0x200) << 15;
            several[0] |= bytes * 255;
            several[1] |= bytes * 255;
        }
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++) candidates[s][half] &= ~several[s >= LAUNCH::FIRST];
        pending |= ((several[0] & 0x01010101) | (several[1] & 0x02020202)) << 2 * half;
    }
    pending &= shared.asks[lane / 4]; // of a K, its first quad asks
    km_warp &warp = shared.warps[threadIdx.x / 32];
    int queued = warp.queued;
    while (const unsigned askers = __ballot_sync(ALL, pending != 0)) {
        const int at = queued + __popc(askers & ~(ALL << lane));
        if (pending) warp.queue[at] = {tile, lane | (__ffs(pending) - 1) << 5};
        pending &= pending - 1;
        queued += __popc(askers);
        if (queued >= 32) queued = km_resolve_apart(shared, args, queued);
        __syncwarp();
    }
    if (lane == 0) warp.queued = queued;
    __syncwarp();
}

// Adds a warp's sums of bytes, which are negative, to the block's.
template <typename LAUNCH>
static __device__ __forceinline__ void km_flush_bytes(int (*of)[SUM_TILES][4], km_block<LAUNCH> &shared) {
    const int lane = (int)km_opaque(threadIdx.x % 32); // no address is worth a register between two calls
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++)
        KM_UNROLL_FOR (int n = 0; n < SUM_TILES; n++)
            KM_UNROLL_FOR (int at = 0; at < 4; at++) {
                const int row = shared.row[lane / 4][2 * i + at / 2], column = 8 * n + lane % 4 * 2 + at % 2;
                const long long sum = -(long long)of[i][n][at];
                of[i][n][at] = 0;
                if (row < 0 || column >= DIGITS + COUNT_COLUMNS) continue;
                km_add_long(shared.sums + row * (D + 1) + column / 3, sum << 8 * (column % 3));
            }
}

template <typename LAUNCH> static __device__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    km_know_quad(own, shared);
    own.margin = km_shared_address(shared.margin);
    return own;
}

// Where in a tile a lane reads, in shared memory: rows of points, their errors, bytes.
struct km_places_in_tile {
    unsigned points, errors, digits;
};

static __device__ __forceinline__ km_places_in_tile km_find_places(unsigned ring) {
    const unsigned lane = threadIdx.x % 32, tile = ring - lane * (unsigned)sizeof(uint4);
    const unsigned digits = tile + sizeof(uint4[BLOCKS][TILE]),
                   errors = digits + sizeof(uint2[SUM_TILES][32]);
    const unsigned row = lane % 8 + lane / 16 * 8 + lane / 8 % 2 * (BLOCKS - 1) * TILE;
    return {tile + row * (unsigned)sizeof(uint4), errors + lane % 4 * (unsigned)sizeof(uint4),
            digits + lane * (unsigned)sizeof(uint2)};
}

// The scores of a tile of rows, two points in a register, for the points of some columns.
static __device__ __forceinline__ void km_score(unsigned (*scores)[WIDTH], const km_fragments *fragments,
                                                int tile, const unsigned (*points)[2]) {
    float sums[WIDTH][4];
    const uint4 start = km_fragment(fragments, tile, BLOCKS);
    const float starts[4] = {__uint_as_float(start.x), __uint_as_float(start.y), __uint_as_float(start.z),
                             __uint_as_float(start.w)};
    KM_UNROLL_FOR (int k = 0; k < BLOCKS; k++) {
        const uint4 fragment = km_fragment(fragments, tile, k);
        const unsigned a[4] = {fragment.x, fragment.y, fragment.z, fragment.w};
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) km_mma_f16(sums[c], a, points[c], k ? sums[c] : starts);
    }
    KM_UNROLL_FOR (int r = 0; r < 2; r++)
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            scores[r][c] =
                km_prmt<0x6521>(__float_as_uint(sums[c][2 * r]), __float_as_uint(sums[c][2 * r + 1]));
}

// Which centroids are candidates in a tile, `stage` bytes from the first one of the ring: `candidates`
// [slot][half], a byte for each of four points. Gives whether a lane knows of an outlier.
template <typename LAUNCH>
static __device__ __forceinline__ bool
km_find_candidates(unsigned (*candidates)[MASKS], const km_fragments *fragments, const km_places_in_tile &at,
                   unsigned stage, const km_lane &own) {
    const uint4 read = km_read_shared_4(at.errors + stage);
    const unsigned errors[4] = {read.x, read.y, read.z, read.w};
    KM_UNROLL_FOR (int first = 0; first < 4; first += WIDTH) {
        unsigned points[WIDTH][2], scores[LAUNCH::SLOTS][WIDTH], limits[WIDTH][2];
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2)
            km_ldmatrix_x4(points[c], at.points + stage + 8 * (first + c) * (unsigned)sizeof(uint4));
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++) {
            if (TIGHT && i > 0) __syncwarp(); // or too much is read ahead
            km_score(scores + 2 * i, fragments, i, points);
        }
        // Of more features the sums leave no register for the address.
        const unsigned thread = BLOCKS > 1 ? km_opaque(threadIdx.x) : threadIdx.x;
        const uint4 margin = km_read_shared_4(own.margin + thread % 32 / 4 * (unsigned)sizeof(km_margin));
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) { // limits: the largest scores of no candidate
            km_find_largest<LAUNCH>(limits[c], scores, c, own.link);
            limits[c][0] += NEXT - km_half2_fma(errors[first + c], margin.x, margin.z);
            limits[c][1] += NEXT - km_half2_fma(errors[first + c], margin.y, margin.w);
        }
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++)
            KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2) {
                const int segment = s >= LAUNCH::FIRST;
                candidates[s][(first + c) / 2] =
                    km_prmt<0xfdb9>(km_half2_sub(limits[c][segment], scores[s][c]),
                                    km_half2_sub(limits[c + 1][segment], scores[s][c + 1]));
            }
    }
    return (errors[0] | errors[1] | errors[2] | errors[3]) & 0x80008000;
}

// Sums of a warp, negative: of the bytes of each feature; of masks, as km_add_masks adds them.
template <typename LAUNCH> struct km_sums {
    int of[LAUNCH::TILES][SUM_TILES][4];
    unsigned masks[LAUNCH::SLOTS];
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_count_points(km_sums<LAUNCH> &sums,
                                                       const unsigned (*candidates)[MASKS]) {
    KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++) sums.masks[s] += candidates[s][0] + candidates[s][1];
}

// Adds the points that were counted to the block's sums.
template <typename LAUNCH>
static __device__ __forceinline__ void km_flush_counts(km_sums<LAUNCH> &sums, km_block<LAUNCH> &shared) {
    constexpr unsigned OVER_255 = 0xfefefeff;              // times 255: 1
    const unsigned quad = km_opaque(threadIdx.x % 32 / 4); // no address is worth a register between two calls
    KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++) {
        const int row = shared.row[quad][s];
        const unsigned count = __dp4a(sums.masks[s] * OVER_255, 0x01010101u, 0u); // of four bytes
        sums.masks[s] = 0;
        if (row >= 0) km_add_long(shared.sums + row * (D + 1) + D, count);
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_flush(km_sums<LAUNCH> &sums, km_block<LAUNCH> &shared) {
    km_flush_bytes(sums.of, shared);
    km_flush_counts(sums, shared);
}

template <typename LAUNCH>
static __device__ __forceinline__ auto km_find_source(const km_block<LAUNCH> &shared, const km_pass_args &) {
    return [&shared](int tile) { return shared.tiles + threadIdx.x % 32 + tile * (long long)TILE_SIZE; };
}

// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    km_lane own;
    const km_fragments *fragments;
    km_sums<LAUNCH> sums;
    km_places_in_tile at; // where it reads in the ring's first tile
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_open(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                               const km_pass_args &, unsigned ring, int, int) {
    state.own = km_lane_of(shared);
    km_read_fragments(state, shared);
    state.sums = {};
    if (threadIdx.x % 32 == 0) shared.warps[threadIdx.x / 32].queued = 0;
    state.at = km_find_places(ring);
}

// A tile, `stage` bytes from the first one of the ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_assign_tile(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                      const km_pass_args &args, unsigned stage, int tile) {
    unsigned candidates[LAUNCH::SLOTS][MASKS], masks[MASKS][2];
    const bool marked = km_find_candidates<LAUNCH>(candidates, state.fragments, state.at, stage, state.own);
    const bool several = km_has_several<LAUNCH>(masks, candidates, state.own.link);
    if (__builtin_expect(__any_sync(ALL, marked || several), 0))
        km_defer(candidates, masks, shared, args, state.own, marked, tile);
    km_count_points(state.sums, candidates);
    KM_UNROLL_FOR (int n = 0; n < SUM_TILES; n++) {
        const uint2 digits = km_read_shared_2(state.at.digits + stage + n * (unsigned)sizeof(uint2[32]));
        const unsigned b[2] = {digits.x, digits.y};
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++) {
            const unsigned a[4] = {candidates[2 * i][0], candidates[2 * i + 1][0], candidates[2 * i][1],
                                   candidates[2 * i + 1][1]};
            km_mma_s8(state.sums.of[i][n], a, b, state.sums.of[i][n]);
        }
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_close(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                const km_pass_args &args) {
    __syncwarp();
    int queued = shared.warps[threadIdx.x / 32].queued;
    while (queued > 0) queued = km_resolve_apart(shared, args, queued);
}

// The loop ---------------------------------------------------------------------------------------------------

// Begins to copy 16 bytes, past the first cache.
static __device__ __forceinline__ void km_copy_16(unsigned to, const void *from) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

// Ends a group of the thread's copies.
static __device__ __forceinline__ void km_copy_commit() {
    asm volatile("cp.async.commit_group;");
}

// Waits until all groups but the last LEFT are there.
template <int LEFT> static __device__ __forceinline__ void km_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

static __device__ __forceinline__ unsigned km_shared_address(const void *at) {
    return (unsigned)__cvta_generic_to_shared(at);
}

// Begins to copy a tile to shared memory; both addresses are the lane's first.
static __device__ __forceinline__ void km_copy_tile(unsigned to, const uint4 *from) {
    KM_UNROLL_FOR (int i = 0; i < TILE_SIZE; i += 32)
        if (i + 32 <= TILE_SIZE || (int)(threadIdx.x % 32) < TILE_SIZE - i)
            km_copy_16(to + i * (int)sizeof(uint4), from + i);
}

// A warp's tiles, one after the other, through its ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_walk(km_block<LAUNCH> &shared, const km_pass_args &args) {
    constexpr int STRIDE = GRID * WARPS;
    constexpr unsigned TILE_BYTES = sizeof(km_tile);
    const int tiles = (int)km_tiles_count(args);
    int tile = blockIdx.x * WARPS + threadIdx.x / 32;
    const auto from = km_find_source(shared, args);
    const uint4 *first_tile = (const uint4 *)shared.warps[threadIdx.x / 32].ring;
    const unsigned ring = km_opaque(km_shared_address(first_tile + threadIdx.x % 32));
    km_state<LAUNCH> state;
    km_open(state, shared, args, ring, tile, tiles);
    unsigned stage = 0; // where in the ring
    KM_UNROLL_FOR (int s = 0; s < STAGES - 1; s++) {
        if (tile + s * STRIDE < tiles) km_copy_tile(ring + s * TILE_BYTES, from(tile + s * STRIDE));
        km_copy_commit();
    }
    while (tile < tiles) {
        for (int chunk = 0; chunk < CHUNK_TILES && tile < tiles; chunk++, tile += STRIDE) {
            km_copy_wait<STAGES - 2>();
            __syncwarp();
            const int ahead = tile + (STAGES - 1) * STRIDE;
            const unsigned before = stage > 0 ? stage - TILE_BYTES : (STAGES - 1) * TILE_BYTES;
            if (ahead < tiles) km_copy_tile(ring + before, from(ahead));
            km_copy_commit();
            km_assign_tile(state, shared, args, stage, tile);
            if (chunk % COUNT_TILES == COUNT_TILES - 1) km_flush_counts(state.sums, shared);
            stage = stage < (STAGES - 1) * TILE_BYTES ? stage + TILE_BYTES : 0;
        }
        km_flush(state.sums, shared);
    }
    km_close(state, shared, args);
}

// Leaves the block's sums in the workspace: for each copy and column one number per block.
static __device__ __forceinline__ long long *km_column(const km_pass_args &args, int column) {
    return (long long *)args.workspace + ((long long)blockIdx.y * COLUMNS + column) * GRID;
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_publish(const km_block<LAUNCH> &shared, const km_pass_args &args) {
    __syncthreads();
    for (int i = 0; i < KS; i++) {
        if (km_places[i].launch != LAUNCH::INDEX || !shared.active[i]) continue;
        for (int at = threadIdx.x; at < km_ks[i] * (D + 1); at += BLOCK)
            km_column(args, km_offsets[i] * (D + 1) + at)[blockIdx.x] =
                shared.sums[km_places[i].row * (D + 1) + at];
    }
}

// One launch: a share of the K list.
template <typename LAUNCH> static __device__ __forceinline__ void km_run(const km_pass_args &args) {
    extern __shared__ uint4 km_memory[];
    km_block<LAUNCH> &shared = *(km_block<LAUNCH> *)km_memory;
    if (!km_begin(shared, args)) return;
    km_walk(shared, args);
    km_publish(shared, args);
}

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tensor_0(const __grid_constant__ km_pass_args args) {
    km_run<km_launch_0>(args);
}

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tensor_1(const __grid_constant__ km_pass_args args) {
    km_run<km_launch_1>(args);
}

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tensor_2(const __grid_constant__ km_pass_args args) {
    km_run<km_launch_2>(args);
}

// The sum of all lanes' values, in every lane.
template <typename Number> static __device__ __forceinline__ Number km_warp_sum(Number value) {
    for (int width = 16; width > 0; width /= 2) value += __shfl_xor_sync(0xffffffffu, value, width);
    return value;
}

// Adds up the columns of one K over the blocks: integers, then one rounding.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int k_index = blockIdx.x, warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (args.control->stop || !args.active[blockIdx.y * KS + k_index]) return;
    const int first = km_offsets[k_index] * (D + 1);
    double *totals = args.totals + (long long)blockIdx.y * COLUMNS + first;
    for (int c = warp; c < km_ks[k_index] * (D + 1); c += REDUCE / 32) {
        const long long *column = km_column(args, first + c);
        long long sum = 0;
        for (int block = lane; block < GRID; block += 32) sum += column[block];
        sum = km_warp_sum(sum);
        const int f = c % (D + 1);
        if (lane == 0) totals[c] = f < D ? (double)sum * km_power(km_exponents(args)[f] - BITS) : (double)sum;
    }
}
constexpr int REDUCE_GRID = KS;

extern "C" {
__device__ km_pass_facts km_pass = {
    KM_ABI_VERSION,
    3 + 4,
    8LL * COPIES *COLUMNS *GRID + 4LL * D *(1 + BINS) + (sizeof(km_tile) + 4) * STEP_TILES + 512,
    sizeof(km_tile) / TILE + 1,
    0,
    8LL * COPIES *COLUMNS *GRID + 4LL * D *(1 + BINS) + 8 * NORMS,
};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tensor_histogram", KM_STAGE_LOAD, 8 * GRID, 1, 256, 0, 0},
    {"km_tensor_lattice", KM_STAGE_LOAD, 1, 1, 256, 0, 0},
    {"km_tensor_tiles", KM_STAGE_LOAD, 48 * GRID, 1, 256, 0, 0}, // many, so that the last ones end together
    {"km_tensor_0", KM_STAGE_PASS, GRID, COPIES, BLOCK, sizeof(km_block<km_launch_0>), 0},
    {"km_tensor_1", KM_STAGE_PASS, GRID, COPIES, BLOCK, sizeof(km_block<km_launch_1>), 1},
    {"km_tensor_2", KM_STAGE_PASS, GRID, COPIES, BLOCK, sizeof(km_block<km_launch_2>), 2},
    {"km_reduce", KM_STAGE_PASS, REDUCE_GRID, COPIES, REDUCE, 0, 0},
};
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

