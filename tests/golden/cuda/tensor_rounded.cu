// Of the text of {features: 8, clusters: 3..12, target: cuda:sm_90} tracked: The pass
// "..." stands for what a template or an earlier part shows.

// ... 1 definition

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
    BLOCK = 256, // threads of a block
    GRID = 132,  // blocks of a launch, for one restart
    WARPS = BLOCK / 32,
    TILE = 32,             // points of a tile
    COLUMNS = S * (D + 1), // sums of a restart
    QUEUE = 64,            // ambiguous points of a warp that are not resolved yet
    BITS = 22,             // of a coordinate's integer, beside its sign
    BINS = 64,             // of the histogram: powers of two below the largest coordinate
    STAGES = 5             // of the ring: tiles that are on their way, and those that are worked on
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

// ... 67 definitions

// The larger halves. They must not be negative: then they compare like the integers of their bits.
static __device__ __forceinline__ unsigned km_half2_max(unsigned a, unsigned b) {
    unsigned larger;
    asm("max.u16x2 %0, %1, %2;" : "=r"(larger) : "r"(a), "r"(b));
    return larger;
}

// ... 4 definitions

// What a lane knows of its quad's Ks.
struct km_lane {
    unsigned link[4];
    int k_index[2];
    unsigned margin; // address of the quads' margins
};

// ... 25 definitions

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

// ... 7 definitions

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

// ... 7 definitions
