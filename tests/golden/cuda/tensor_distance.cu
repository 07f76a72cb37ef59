// Of the text of {features: 4, clusters: 3..12, target: cuda:sm_90} tracked: Numbers and types; The list of K; The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 2 definitions

// ... 1 more of 2 lines, other numbers: f3d81d81
// ... 1 definition

// Design tensor, form distance. Scores and sums are matrix products: centroids are the rows, points the columns.
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
// Distances instead of scores: with |x|^2 / 2 among the products of a point, a row gives
//     distance_j = |x|^2 / 2 - x . c_j + |c_j|^2 / 2 + bias = |x - c_j|^2 / 2 + bias.
// This is small for near centroids, where half precision tells centroids apart about as well as 15 bits of a score do.
// And a product leaves two points in a register. Every row of a K gets the same |x|^2 / 2, however it was rounded.
//
// Products are added in at least 24 bits, and a distance is rounded once, at the end: rounding keeps the order of two
// numbers. The error before that is less than half a unit of the bias, and no distance is below the bias. So the
// nearest centroid is at most one unit above the smallest distance: all centroids within that are candidates.
//
// Sums: masks, in which a candidate's byte is -1, times the int8 digits of the integers of 24 bits.
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
    STAGES = 7             // of the ring: tiles that are being copied, and those that are worked on
};
enum {
    LANE_D = (D + 3) / 4, // features of a lane: every fourth, from lane % 4 on
    FRAGMENTS = LANE_D,   // of a row tile
    DIGITS = 3 * D,       // int8 digits of a point
    COUNT_COLUMNS = 1,    // of sums, beside those of coordinates: a count; two columns of a tile hold |x|^2 / 2
    SQUARE_COLUMNS = 2,
    SUM_TILES = (DIGITS + COUNT_COLUMNS + SQUARE_COLUMNS + 7) / 8, // column tiles of sums: eight columns each
    MASKS = 2,                                                     // of a lane and row of scores, for four points each
    FLUSH_TILES = 65536,                                           // tiles of a warp after which sums are flushed: 2^21 points
    STEP_TILES = 1,                                                // tiles that are worked on at a time
    NORMS = 1,                                                     // of which a load finds the largest: |x|
    RESOLVE_AHEAD = D,                                             // features at a time when an ambiguous point is added
    FETCHERS = 32,                                                 // threads that fetch the centroids of a K
    UNITS = 2,                                                     // above the smallest distance: the first that is too large for a candidate
    SQUARE_BITS = 10,                                              // |x|^2 / 2 is scaled to less than 2^10 in the whole lattice
    DISTANCE_BITS = 15,                                            // distances without the bias are scaled to less than 2^15
    BIAS_MAX = 8192,
    REDUCE = 1024 // threads of a block of km_reduce
};
constexpr unsigned ONES = 0x3c003c00;           // 1 and 1 in half precision
constexpr float NEARER = 1024, FARTHER = 49152; // distances of rows without a centroid
constexpr unsigned ALL = 0xffffffff;

// Where the centroids of each K are: launch, first quad, number of quads, first row of scores in a quad, number of
// rows, first row of the block's sums.
struct km_k_layout {
    short launch, quad, quads, score_row, score_rows, sum_row;
};
__device__ const km_k_layout km_k_layouts[KS] = {
    {0, 7, 1, 6, 3, 0},
    // ... 9 more, other numbers: d9ca3bb8
};

// A launch. A lane has SCORE_ROWS rows of scores, two of each row tile. Its first FIRST_ROWS rows are one segment and
// belong to one K; the others are a second segment and belong to another K or, in a whole quad, to the same. With
// LEVELS > 0 up to 2^LEVELS quads share a K.
struct km_launch_0 { // K = 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
    enum {
        INDEX = 0,
        ROW_TILES = 6,
        SCORE_ROWS = 2 * ROW_TILES,
        FIRST_ROWS = 6,
        LEVELS = 0
    };
    enum { SUM_ROWS = 75 }; // of the block's sums
};

// The same as numbers; and the most of any launch.
struct km_launch_shape {
    int index, score_rows, first_rows, levels;
};
__device__ const km_launch_shape km_launch_shapes[] = {
    {0, 2 * 6, 6, 0},
};
enum { LAUNCHES = 1, ROW_TILES_MAX = 6, SUM_ROWS_MAX = 75 };

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

// ... 11 definitions

constexpr long long DISTINCT_BYTES = 0;
constexpr int DISTINCT_PARTS = 1;
static __device__ __forceinline__ double *km_largest(const km_pass_args &args) {
    return (double *)((char *)args.workspace + 8ll * RESTARTS * COLUMNS * GRID + DISTINCT_BYTES);
}

// ... 21 definitions
// ... lines of a template
        }
        for (int which = 0; which < NORMS; which++)
            largest[which] = beyond ? largest[which] : fmax(largest[which], squares[which]);
        km_put_point(args, i, x, scale, beyond, squares[0]);
        const unsigned outliers = __ballot_sync(ALL, beyond);
        if (i % TILE == 0) km_outliers(args)[i / TILE] = outliers;
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
// ... lines of a template
// ... 11 definitions

// Prepares a launch, by one block a restart, and leaves that in the workspace.
static __device__ __forceinline__ void km_prepare_launch(const km_pass_args &args) {
    extern __shared__ uint4 km_memory[];
    km_preparation &shared = *(km_preparation *)km_memory;
    const km_launch_shape launch = km_launch_shapes[blockIdx.x % LAUNCHES];
    const int stop = args.control->stop; // read now and tested later: one wait for all reads
    const float *from = (const float *)args.centroids + (long long)blockIdx.y * S * D;
    // ... lines of a template
// ... 1 definition

// ==== What the launches of a pass share ====================================================================
// Compiled apart: pass/launches
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_block(km_block<LAUNCH> &shared, const km_pass_args &) {
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS * (D + 1); i += BLOCK) shared.sums[i] = 0;
}

// ... 9 definitions

// ... lines of a template
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

// ... 6 definitions

// The fragments of the centroids: in a lane's registers, or in shared memory.
typedef uint4 km_fragments[FRAGMENTS];

// ... 1 definition

template <typename State, typename LAUNCH>
static __device__ __forceinline__ void km_read_fragments(State &state, const km_block<LAUNCH> &shared) {
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++)
        KM_UNROLL_FOR (int k = 0; k < FRAGMENTS; k++)
            state.fragments[i][k] = shared.fragments[i][k][threadIdx.x % 32];
}

// What a lane keeps of its quad's Ks.
struct km_lane {
    unsigned same_k[4];
    int k_index[2];
    unsigned square,
        one; // masks for its operand of points: ALL in the lane with the square; ONES in the others
    unsigned minus_zero;
};

// ... 9 definitions

// Reads what a lane keeps of its quad's Ks, in either form.
template <typename LAUNCH, typename Lane>
static __device__ __forceinline__ void km_read_quad(Lane &own, const km_block<LAUNCH> &shared) {
    const int quad = threadIdx.x % 32 / 4;
    for (int l = 0; l < 4; l++) own.same_k[l] = shared.same_k[l][quad];
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][quad];
}

// ... 14 definitions

// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    km_lane own;
    km_fragments fragments[LAUNCH::ROW_TILES];
    km_sums<LAUNCH> sums;
    km_tile_addresses addresses; // where the lane reads in the ring's first tile
    int changes[2];
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_begin_warp(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                     const km_pass_args &, unsigned ring, int, int) {
    state.own = km_lane_of(shared);
    km_read_fragments(state, shared);
    state.sums = {};
    state.changes[0] = state.changes[1] = 0;
    // ... lines of a template
    km_label_points<LAUNCH>(candidates, args, state.own, tile * (long long)TILE, state.changes);
    // ... lines of a template
    km_add_changes(state, args);
}

// ... 5 definitions

// Starts to copy a tile to shared memory. `from` is the address of the lane's first 16 bytes.
static __device__ __forceinline__ void km_copy_tile(unsigned to, const uint4 *from) {
    // ... lines of a template
    const unsigned ring = km_opaque(km_shared_address(first_tile + threadIdx.x % 32));
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
        km_flush(state.sums, shared);
    }
    km_end_warp(state, shared, args);
}

// ... 2 definitions

// ==== Launch 0 =============================================================================================
// Compiled apart: pass/launches/0
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tensor_0(const __grid_constant__ km_pass_args args) {
    km_run_launch<km_launch_0>(args);
}

// ==== The totals of a pass =================================================================================
// Compiled apart: pass/rest
// The sum of all lanes' values, in every lane.
template <typename Number> static __device__ __forceinline__ Number km_warp_sum(Number value) {
    for (int width = 16; width > 0; width /= 2) value += __shfl_xor_sync(0xffffffffu, value, width);
    return value;
}

// ... 1 definition

// ... lines of a template
    {"km_tensor_lattice", KM_STAGE_LOAD, 1, 1, 256, 0, 0},
    {"km_tensor_tiles", KM_STAGE_LOAD, 48 * GRID, 1, 256, 0, 0}, // many blocks, so that they end together
    {"km_tensor_prepare", KM_STAGE_PASS, LAUNCHES *DISTINCT_PARTS, RESTARTS, PREPARERS,
     sizeof(km_preparation), 0},
    {"km_tensor_0", KM_STAGE_PASS, GRID, RESTARTS, BLOCK, sizeof(km_block<km_launch_0>), 0},
    {"km_reduce", KM_STAGE_PASS, REDUCE_GRID, RESTARTS, REDUCE, 0, 0},
};
}
