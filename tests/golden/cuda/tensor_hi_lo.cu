// Of the text of {features: 12, clusters: 3..12, target: cuda:sm_80} tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 1 definition

// Design tensor, form hi_lo. Scores and sums are matrix products: centroids are the rows, points the columns.
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
// Points: z = hi + lo in half precision, hi a multiple of 2^-11, lo the rest, a multiple of 2^-22.
//
// Scores: a factor is hi and lo, too, and a feature four products: (hi, lo, hi, lo) times (chi, chi, clo, clo).
// km_prepare bounds the error of a score for each K. The first feature of each lane leaves out lo clo; 1 times a piece
// of the constant takes its place.
//
// Sums: ones, one for each candidate, times hi and lo of the points, which are multiples of 2^-11 and of 2^-22. Floats
// hold the sums of FLUSH_TILES tiles exactly; then they become integers.
enum {
    BLOCK = 256, // threads of a block
    GRID = 108,  // blocks of a launch, for one restart
    WARPS = BLOCK / 32,
    PREPARERS = 512,       // threads of a block that prepares a launch: a warp for each of 16 K
    TILE = 32,             // points of a tile
    COLUMNS = S * (D + 1), // sums of a restart
    QUEUE = 64,            // ambiguous points of a warp that are not resolved yet
    BITS = 22,             // of a coordinate's integer, without its sign
    BINS = 64,             // of a feature's histogram: powers of two below the largest coordinate
    STAGES = 5             // of the ring: tiles that are being copied, and those that are worked on
};
enum {
    COLUMN_PAIRS = 1,         // pairs of columns, 16 points, that a warp works on at a time
    WIDTH = 2 * COLUMN_PAIRS, // columns of 8 points
    LANE_D = (D + 3) / 4,     // features of a lane: every fourth, from lane % 4 on
    FRAGMENTS = LANE_D,       // of a row tile
    FLUSH_TILES = 64,         // tiles of a warp after which sums are flushed: 2,048 points
    STEP_TILES = 1,           // tiles that are worked on at a time
    NORMS = 1,                // of which a load finds the largest: |x|
    RESOLVE_AHEAD = 2,        // features at a time when an ambiguous point is added
    FETCHERS = 32,            // threads that fetch the centroids of a K
    REDUCE = 1024             // threads of a block of km_reduce
};
constexpr float BINADE = 8192;        // scores are at least this and less than twice this
constexpr unsigned ONES = 0x3c003c00; // 1 and 1 in half precision
constexpr unsigned ALL = 0xffffffff;

// ... 10 definitions

struct km_prepared : km_prepared_base {
    uint4 fragments[ROW_TILES_MAX][FRAGMENTS][32]; // of the centroids
    float centroids[SUM_ROWS_MAX * D];
    unsigned
        margin[2]
              [8];       // of each segment and quad: the largest difference of a candidate's score from the largest
    unsigned ones, zero; // ONES and 0; read from here, so that they stay in registers
    unsigned
        expected_bits[8]; // of each quad: the sum of a lane's ones, as integers, where no point is ambiguous
};

// ... 58 definitions

// The larger halves. They must not be negative: then they compare like the integers of their bits.
static __device__ __forceinline__ unsigned km_half2_max(unsigned a, unsigned b) {
    unsigned larger;
    asm("max.f16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
}

// ... 2 definitions

// The fragments of the centroids: in a lane's registers, or in shared memory.
typedef uint4 km_fragments[FRAGMENTS][32];

// ... 1 definition

template <typename State, typename LAUNCH>
static __device__ __forceinline__ void km_read_fragments(State &state, const km_block<LAUNCH> &shared) {
    state.fragments = shared.fragments;
}

// ... 1 definition

// What a lane keeps of its quad's Ks.
struct km_lane {
    unsigned margin[2], same_k[4];
    int k_index[2];
    unsigned expected_count; // candidates of a point that is not ambiguous: two halves
    unsigned expected_bits;  // the sum of the lane's ones, as integers, where no point is ambiguous
    unsigned ones[2];        // ONES twice
    unsigned zero;
};

template <typename LAUNCH> static __device__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    const int quad = threadIdx.x % 32 / 4;
    for (int s = 0; s < 2; s++) own.margin[s] = shared.margin[s][quad];
    for (int l = 0; l < 4; l++) own.same_k[l] = shared.same_k[l][quad];
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][quad];
    const bool two = int(LAUNCH::FIRST_ROWS) < int(LAUNCH::SCORE_ROWS) && !own.same_k[0];
    own.expected_count = two ? 0x40004000 : ONES;
    own.expected_bits = shared.expected_bits[quad];
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
    unsigned compare_address,
        add_address; // where it reads points of the ring's first tile: to compare them, to add them
    const unsigned *all_outliers;
    unsigned outliers, next_outliers; // outliers of this tile and the next
    int queued;
    int changes[2];
// ... lines of a template
    state.changes[0] = state.changes[1] = 0;
}

// ... 1 definition
// ... lines of a template
        km_label_points<LAUNCH>(candidates, args, state.own, tile * (long long)TILE + first, state.changes);
        km_add(state.sums, candidates, state.add_address + from, state.own);
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_end_warp(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                   const km_pass_args &args) {
    while (state.queued > 0) state.queued = km_resolve(shared, args, state.queued);
    km_add_changes(state, args);
}

// ... 8 definitions

// Processes a warp's tiles, one after the other, through its ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_process_tiles(km_block<LAUNCH> &shared, const km_pass_args &args) {
    constexpr int STRIDE = GRID * WARPS;
    constexpr unsigned TILE_BYTES = sizeof(km_tile);
    const int tiles = (int)km_tiles_count(args);
    int tile = blockIdx.x * WARPS + threadIdx.x / 32;
    const auto from = km_tile_source(shared, args);
    const uint4 *first_tile = (const uint4 *)shared.warps[threadIdx.x / 32].ring;
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
            km_prefetch_outliers(state, tile + STRIDE, tiles);
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

// ... 6 definitions
