// Of the text of {features: 4, clusters: 3..12, target: cuda:sm_90} tracked: Numbers and types; The pass
// "..." stands for what a template or an earlier part shows.

// ... 3 definitions

// ==== The pass =============================================================================================
#define KM_UNROLL_FOR(...) _Pragma("unroll") for (__VA_ARGS__)
#define KM_UNROLL_1_FOR(...) _Pragma("unroll 1") for (__VA_ARGS__)
#define KM_UNROLL_2_FOR(...) _Pragma("unroll 2") for (__VA_ARGS__)

// Design tensor, form distance. Scores and sums are matrix products: centroids are the rows, points the columns.
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
// Scores: with |x|^2 / 2 among the products of a point, a row gives
//     distance_j = |x|^2 / 2 - x . c_j + |c_j|^2 / 2 + bias = |x - c_j|^2 / 2 + bias,
// which is small where it matters: half precision tells near centroids apart about as well as 15 bits of a score do,
// and a product leaves two points in a register. Every row of a K gets the same |x|^2 / 2, however it was rounded.
// Products are added in at least 24 bits, so that a distance is rounded once, at the end, and no rounding changes the
// order of two numbers. What is off before that is less than half a unit of the bias, and no distance is below the
// bias: the nearest centroid is at most one unit above the smallest distance. All of those are candidates.
//
// Sums: a candidate's byte is 0xff, -1; the integers of 24 bits are bytes too, from -128 to 127 each.
enum {
    BLOCK = 256, // threads of a block
    GRID = 132,  // blocks of a launch, for one restart
    WARPS = BLOCK / 32,
    TILE = 32,             // points of a tile
    COLUMNS = S * (D + 1), // sums of a restart
    QUEUE = 64,            // ambiguous points of a warp that are not resolved yet
    BITS = 22,             // of a coordinate's integer, beside its sign
    BINS = 64,             // of the histogram: powers of two below the largest coordinate
    STAGES = 7             // of the ring: tiles that are on their way, and those that are worked on
};
enum {
    LANE_D = (D + 3) / 4, // features of a lane: lane % 4 says which
    FRAGMENTS = LANE_D,   // of a tile of rows
    DIGITS = 3 * D,       // bytes of a point's integers
    COUNT_COLUMNS = 1,    // of sums, beside those of coordinates: a count, and two that hold |x|^2 / 2
    SQUARE_COLUMNS = 2,
    SUM_TILES = (DIGITS + COUNT_COLUMNS + SQUARE_COLUMNS + 7) / 8, // columns of sums, in eights
    MASKS = 2,                                                     // of a lane and slot, for four points each
    CHUNK_TILES = 65536,                                           // so many points of a warp fit sums of bytes: 2^21
    STEP_TILES = 1,                                                // tiles that are worked on at a time
    NORMS = 1,                                                     // that a load finds the largest of: |x|
    RESOLVE_AHEAD = D,                                             // features at a time when an ambiguous point is added
    FETCHERS = 32,                                                 // threads that fetch the centroids of a K
    UNITS = 2,                                                     // from the smallest distance to the first of no candidate
    SQUARE_BITS = 10,                                              // |x|^2 / 2 of the farthest in_lattice of the lattice is less than 2^10 as a half
    DISTANCE_BITS = 15,                                            // the largest distance, without its bias, is less than 2^15
    BIAS_MAX = 8192,
    REDUCE = 1024 // threads of a block of km_reduce
};
constexpr unsigned ONES = 0x3c003c00;           // 1 and 1 in half precision
constexpr float NEARER = 1024, FARTHER = 49152; // of rows without a centroid
constexpr unsigned ALL = 0xffffffff;

// Where the centroids of each K lie: launch, first quad, quads, first slot in a quad, slots in a quad.
struct km_place {
    short launch, quad, quads, slot, slots, row; // row: its first row of the block's sums
};
__device__ const km_place km_places[KS] = {
    {0, 7, 1, 6, 3, 0},
    {0, 7, 1, 0, 4, 3},
    {0, 6, 1, 6, 5, 7},
    {0, 6, 1, 0, 6, 12},
    {0, 5, 1, 0, 7, 18},
    {0, 4, 1, 0, 8, 25},
    {0, 3, 1, 0, 9, 33},
    {0, 2, 1, 0, 10, 42},
    {0, 1, 1, 0, 11, 52},
    {0, 0, 1, 0, 12, 63},
};

// A launch. A lane has SLOTS rows of scores, two of each tile of 16; the first FIRST belong to one K, the others to a
// second K or, where linked, to the same. With LEVELS > 0 up to 2^LEVELS quads share a K.
struct km_launch_0 { // K = 3, 4, 5, 6, 7, 8, 9, 10, 11, 12
    enum {
        INDEX = 0,
        TILES = 6,
        SLOTS = 2 * TILES,
        FIRST = 6,
        LEVELS = 0
    };
    enum { ROWS = 75 }; // of the block's sums
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

// ... 27 definitions

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

// ... 21 definitions

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
    const int at = blockIdx.y * KS + asked.k_index;
    km_label *kept = (km_label *)args.labels + at * args.labels_stride + point;
    if (*kept != label) {
        *kept = (km_label)label;
        atomicAdd(args.changes + at, 1ull);
    }
    const int row = km_places[asked.k_index].row + label;
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

// Planes as products find them: in a lane's registers, or in shared memory.
typedef uint4 km_fragments[FRAGMENTS];

// ... 1 definition

template <typename State, typename LAUNCH>
static __device__ __forceinline__ void km_read_fragments(State &state, const km_block<LAUNCH> &shared) {
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++)
        KM_UNROLL_FOR (int k = 0; k < FRAGMENTS; k++)
            state.fragments[i][k] = shared.fragments[i][k][threadIdx.x % 32];
}

// What a lane knows of its quad's Ks.
struct km_lane {
    unsigned link[4];
    int k_index[2];
    unsigned square, one; // of its factors of points: ALL where it is the square, 1 where it is not
    unsigned minus_zero;
};

// ... 9 definitions

// What a lane knows of its quad's Ks, whatever the scores.
template <typename LAUNCH, typename Lane>
static __device__ __forceinline__ void km_know_quad(Lane &own, const km_block<LAUNCH> &shared) {
    const int quad = threadIdx.x % 32 / 4;
    for (int l = 0; l < 4; l++) own.link[l] = shared.link[l][quad];
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][quad];
}

// ... 13 definitions

// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    km_lane own;
    km_fragments fragments[LAUNCH::TILES];
    km_sums<LAUNCH> sums;
    km_places_in_tile at; // where it reads in the ring's first tile
    int changes[2];
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_open(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                               const km_pass_args &, unsigned ring, int, int) {
    state.own = km_lane_of(shared);
    km_read_fragments(state, shared);
    state.sums = {};
    state.changes[0] = state.changes[1] = 0;
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
    km_label_points<LAUNCH>(candidates, args, state.own, tile * (long long)TILE, state.changes);
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
    km_tell_changes(state, args);
}

// ... 5 definitions

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
            stage = stage < (STAGES - 1) * TILE_BYTES ? stage + TILE_BYTES : 0;
        }
        km_flush(state.sums, shared);
    }
    km_close(state, shared, args);
}

// ... 3 definitions

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tensor_0(const __grid_constant__ km_pass_args args) {
    km_run<km_launch_0>(args);
}

// ... 2 definitions

extern "C" {
__device__ km_pass_facts km_pass = {
    KM_ABI_VERSION,
    1 + 4,
    8LL * RESTARTS *COLUMNS *GRID + 4LL * D *(1 + BINS) + (sizeof(km_tile) + 4) * STEP_TILES + 512,
    sizeof(km_tile) / TILE + 1,
    0,
    8LL * RESTARTS *COLUMNS *GRID + 4LL * D *(1 + BINS) + 8 * NORMS,
};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tensor_histogram", KM_STAGE_LOAD, 8 * GRID, 1, 256, 0, 0},
    {"km_tensor_lattice", KM_STAGE_LOAD, 1, 1, 256, 0, 0},
    {"km_tensor_tiles", KM_STAGE_LOAD, 48 * GRID, 1, 256, 0, 0}, // many, so that the last ones end together
    {"km_tensor_0", KM_STAGE_PASS, GRID, RESTARTS, BLOCK, sizeof(km_block<km_launch_0>), 0},
    {"km_reduce", KM_STAGE_PASS, REDUCE_GRID, RESTARTS, REDUCE, 0, 0},
};
}
