// Of the text of {features: 12, clusters: 3..12, target: cuda:sm_80} tracked: The pass
// "..." stands for what a template or an earlier part shows.

// ... 1 definition

// Design tensor, form hi_lo. Scores and sums are matrix products: centroids are the rows, points the columns.
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
// Points: z = hi + lo in half precision, hi a multiple of 2^-11, lo the rest, a multiple of 2^-22.
//
// Scores: four products a feature, (hi, lo, hi, lo) times (chi, chi, clo, clo), give a score with an error that
// km_prepare bounds for each K; the first features of the lanes leave out lo clo, and have 1 times a piece of the
// constant instead.
//
// Sums: ones and zeros, a one for each candidate, times the halves of the points: multiples of 2^-11 and of 2^-22, so
// few at a time that floats hold their sums exactly. They become integers then.
enum {
    BLOCK = 256, // threads of a block
    GRID = 108,  // blocks of a launch, for one restart
    WARPS = BLOCK / 32,
    TILE = 32,             // points of a tile
    COLUMNS = S * (D + 1), // sums of a restart
    QUEUE = 64,            // ambiguous points of a warp that are not resolved yet
    BITS = 22,             // of a coordinate's integer, beside its sign
    BINS = 64,             // of the histogram: powers of two below the largest coordinate
    STAGES = 5             // of the ring: tiles that are on their way, and those that are worked on
};
enum {
    PAIRS = 1,            // of columns, 16 points, that a warp works on at a time
    WIDTH = 2 * PAIRS,    // columns of 8 points
    LANE_D = (D + 3) / 4, // features of a lane: lane % 4 says which
    FRAGMENTS = LANE_D,   // of a tile of rows
    CHUNK_TILES = 64,     // so many points of a warp fit sums of halves: 2048
    STEP_TILES = 1,       // tiles that are worked on at a time
    NORMS = 1,            // that a load finds the largest of: |x|
    RESOLVE_AHEAD = 2,    // features at a time when an ambiguous point is added
    FETCHERS = 32,        // threads that fetch the centroids of a K
    REDUCE = 1024         // threads of a block of km_reduce
};
constexpr float BINADE = 8192;        // scores are at least this and less than twice this
constexpr unsigned ONES = 0x3c003c00; // 1 and 1 in half precision
constexpr unsigned ALL = 0xffffffff;

// ... 59 definitions

// The larger halves. They must not be negative: then they compare like the integers of their bits.
static __device__ __forceinline__ unsigned km_half2_max(unsigned a, unsigned b) {
    unsigned larger;
    asm("max.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
}

// ... 2 definitions

// Planes as products find them: in a lane's registers, or in shared memory.
typedef uint4 km_fragments[FRAGMENTS][32];

// ... 1 definition

template <typename State, typename LAUNCH>
static __device__ __forceinline__ void km_read_fragments(State &state, const km_block<LAUNCH> &shared) {
    state.fragments = shared.fragments;
}

// ... 1 definition

// What a lane knows of its quad's Ks.
struct km_lane {
    unsigned margin[2], link[4];
    int k_index[2];
    unsigned expected; // how many candidates a point has that is not ambiguous, as two halves
    unsigned bits;     // of the ones of a lane where no point is, added up as integers
    unsigned ones[2];  // ONES twice
    unsigned zero;
};

template <typename LAUNCH> static __device__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    const int quad = threadIdx.x % 32 / 4;
    for (int s = 0; s < 2; s++) own.margin[s] = shared.margin[s][quad];
    for (int l = 0; l < 4; l++) own.link[l] = shared.link[l][quad];
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][quad];
    const bool two = int(LAUNCH::FIRST) < int(LAUNCH::SLOTS) && !own.link[0];
    own.expected = two ? 0x40004000 : ONES;
    own.bits = shared.bits[quad];
    own.ones[0] = own.ones[1] = shared.ones;
    own.zero = shared.zero;
    return own;
}

// ... 7 definitions

// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    km_lane own;
    const km_fragments *fragments;
    km_sums<LAUNCH> sums;
    unsigned compared, added; // where it reads points of the ring's first tile to compare and to add
    const unsigned *all_outliers;
    unsigned outliers, next_outliers; // outliers of this tile and the next
    int queued;
    int changes[2];
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_open(km_state<LAUNCH> &state, const km_block<LAUNCH> &shared,
                                               const km_pass_args &args, unsigned ring, int tile, int tiles) {
    const int lane = threadIdx.x % 32;
    state.own = km_lane_of(shared);
    km_read_fragments(state, shared);
    state.sums = {};
    state.all_outliers = km_outliers(args);
    state.next_outliers = tile < tiles ? state.all_outliers[tile] : 0;
    state.queued = 0;
    state.compared = km_opaque(ring + (lane % 8 + lane / 16 * 8 - lane) * (int)sizeof(uint4));
    state.added = ring;
    state.changes[0] = state.changes[1] = 0;
}

// ... 1 definition

// A tile, `stage` bytes from the first one of the ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_assign_tile(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                      const km_pass_args &args, unsigned stage, int tile) {
    KM_UNROLL_FOR (int first = 0; first < TILE; first += 8 * WIDTH) {
        unsigned candidates[LAUNCH::SLOTS][WIDTH];
        const unsigned from = stage + first * (int)sizeof(uint4);
        km_find_candidates<LAUNCH>(candidates, state.fragments, state.compared + from, state.own);
        const bool marked = state.outliers & (ALL >> (TILE - 8 * WIDTH)) << first;
        if (__any_sync(ALL, !km_has_one_candidate<LAUNCH>(candidates, state.own)) || marked)
            km_defer(candidates, shared, args, state.own, state.outliers >> first, tile, first, state.queued);
        km_label_points<LAUNCH>(candidates, args, state.own, tile * (long long)TILE + first, state.changes);
        km_add(state.sums, candidates, state.added + from, state.own);
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_close(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                const km_pass_args &args) {
    while (state.queued > 0) state.queued = km_resolve(shared, args, state.queued);
    km_tell_changes(state, args);
}

// ... 8 definitions

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
            km_look_ahead(state, tile + STRIDE, tiles);
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

// ... 7 definitions
