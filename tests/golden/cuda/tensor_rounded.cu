// Of the text of {features: 8, clusters: 3..12, target: cuda:sm_90} tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 1 definition

// Design tensor, form rounded. Scores and sums are matrix products: centroids are the rows, points the columns.
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
// Scores: a coordinate is rounded to a half; a factor c - p is fp16 hi and lo. So 8 features fill a product of 16, and
// sums start at the constant. Rounding a point by r, in units of 2^e, changes the difference of two scores by
// r . (c_j - c_z), at most |r| times the largest |c_j - c_z| of the K. |r| is kept with the point, and the margin of a
// point and K follows from both.
//
// Sums: masks, in which a candidate's byte is -1, times the int8 digits of the integers of 24 bits.
//
// TIGHT: the compiler would spill unless it is kept from reading ahead. That of CUDA 12 always does.
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
    STAGES = 5             // of the ring: tiles that are being copied, and those that are worked on
};
enum {
    COLUMN_PAIRS = 2,             // pairs of columns, 16 points, that a warp works on at a time
    WIDTH = 2 * COLUMN_PAIRS,     // columns of 8 points
    DIGITS = 3 * D,               // int8 digits of a point
    EIGHTS = (D + 7) / 8,         // features in eights
    FRAGMENTS = EIGHTS + 1,       // of a row tile: factors of eight features each, and where sums start
    SUM_TILES = (DIGITS + 7) / 8, // column tiles of sums: eight columns each
    COUNT_COLUMNS = 0,            // of sums, beside those of coordinates: none, as points are counted by their masks
    SQUARE_COLUMNS = 0,
    MASKS = 2,           // of a lane and row of scores, for four points each
    COUNT_TILES = 64,    // tiles after which bytes that count points are flushed: two points of each tile
    FLUSH_TILES = 65536, // tiles of a warp after which sums are flushed: 2^21 points
    STEP_TILES = 1,      // tiles that are worked on at a time
    NORMS = 1,           // of which a load finds the largest: |x|
    RESOLVE_AHEAD = D,   // features at a time when an ambiguous point is added
    FETCHERS = 32,       // threads that fetch the centroids of a K
    REDUCE = 1024        // threads of a block of km_reduce
};
constexpr float BINADE = 8192; // scores are at least this and less than twice this
constexpr unsigned ALL = 0xffffffff;

// ... 59 definitions

// ==== What the launches of a pass share ====================================================================
// Compiled apart: pass/launches
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_block(km_block<LAUNCH> &shared, const km_pass_args &args) {
    if (threadIdx.x == 0) shared.tiles = (const uint4 *)km_tiles(args);
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS * (D + 1); i += BLOCK) shared.sums[i] = 0;
}

// ... 17 definitions

// The larger halves. They must not be negative: then they compare like the integers of their bits.
static __device__ __forceinline__ unsigned km_half2_max(unsigned a, unsigned b) {
    unsigned larger;
    asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
}

// ... 4 definitions

// What a lane keeps of its quad's Ks.
struct km_lane {
    unsigned same_k[4];
    int k_index[2];
    unsigned margin; // shared address of the quads' margins
};

// ... 26 definitions

// Labels and adds the points of a tile, which is `stage` bytes behind the first one of the ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_assign_tile(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                      const km_pass_args &args, unsigned stage, int tile) {
    unsigned candidates[LAUNCH::SCORE_ROWS][MASKS], masks[MASKS][2];
    const bool has_outlier =
        km_find_candidates<LAUNCH>(candidates, state.fragments, state.addresses, stage, state.own);
    const bool ambiguous = km_has_ambiguous<LAUNCH>(masks, candidates, state.own.same_k);
    if (__builtin_expect(__any_sync(ALL, has_outlier || ambiguous), 0))
        km_defer(candidates, masks, shared, args, state.own, has_outlier, tile);
    km_label_points<LAUNCH>(candidates, args, state.own, tile * (long long)TILE, state.changes);
    km_count_points(state.sums, candidates);
    // ... lines of a template
// ... 7 definitions

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
            km_copy_wait<STAGES - 2>();
            __syncwarp();
            const int ahead = tile + (STAGES - 1) * STRIDE;
            const unsigned before = stage > 0 ? stage - TILE_BYTES : (STAGES - 1) * TILE_BYTES;
            if (ahead < tiles) km_copy_tile(ring + before, from(ahead));
            km_copy_commit();
            km_assign_tile(state, shared, args, stage, tile);
            if (since_flush % COUNT_TILES == COUNT_TILES - 1) km_flush_counts(state.sums, shared);
            stage = stage < (STAGES - 1) * TILE_BYTES ? stage + TILE_BYTES : 0;
        }
        km_flush(state.sums, shared);
    }
    km_end_warp(state, shared, args);
}

// ... 6 definitions
