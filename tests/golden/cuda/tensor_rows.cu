// Of the text of {features: 8, clusters: 256, target: cuda:sm_90} tracked: The pass
// "..." stands for what a template or an earlier part shows.

// ... 1 definition

// Design tensor, form rows. Scores and sums are matrix products: centroids are the rows, points the columns.
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
// Points: each coordinate is kept twice, rounded to half precision, as products take it, and as the integer of
// z 2^22, which sums take.
//
// Scores: as a point's halves and a factor's two halves give them; what rounding the point changes is part of the
// margin. Candidates add up, 256 and their place each: what is less than 512 is the place of the only one.
//
// Sums: no register holds any: they are the block's, in shared memory, and each point is added to one row of them.
// Integers are made positive by a bias; 32 bits of a sum take native additions, and what they carry is added where
// there is any, to 32 bits more.
//
// TIGHT: whether the compiler would spill if all columns were worked on at once: that of CUDA 12 always does.
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
    STAGES = 4             // of the ring: tiles that are on their way, and those that are worked on
};
enum {
    WIDTH = TIGHT ? 2 : 4,                   // columns of 8 points that are worked on at a time
    BIAS = 1 << BITS,                        // makes a coordinate's integer positive
    BLOCKS = D <= 8 ? 1 : (D + 15) / 16 * 2, // of 8 features
    ROW = D | 1,                             // words of a row of sums: odd, so that rows begin in different banks
    CHUNK_TILES = 1 << 30,                   // sums are never full
    STEP_TILES = 1,                          // tiles that are worked on at a time
    NORMS = 1,                               // that a load finds the largest of: |x|
    RESOLVE_AHEAD = 2,                       // features at a time when an ambiguous point is added
    FETCHERS = BLOCK,                        // threads that fetch the centroids of a K
    REDUCE = 128                             // threads of a block of km_reduce
};
constexpr float BINADE = 8192;             // scores are at least this and less than twice this
constexpr unsigned ONE_CANDIDATE = 0x5c00; // 256 in half precision, where units are 1/4
constexpr unsigned ALL = 0xffffffff;

// ... 14 definitions

template <typename LAUNCH> struct km_block : km_shared<LAUNCH> {
    uint4 fragments[LAUNCH::TILES][BLOCKS][32]; // centroids, as matrix products take them
    float4 starts[LAUNCH::TILES][8];            // where the scores of a quad's two rows start, each twice
    unsigned low[LAUNCH::ROWS][ROW];            // sums: their low words, their high ones
    unsigned high[LAUNCH::ROWS][ROW];
    unsigned counts[LAUNCH::ROWS];
    union {
        km_warp warps[WARPS];
        float centroids[LAUNCH::ROWS * D]; // while fragments are made
    };
    km_scaled scaled[8]; // of the K that begins in a quad
    km_margin margin[8]; // of a quad's K
    km_active_k active_ks[8];
    int active_count;
    unsigned changes[KS];
};

// ... 26 definitions

template <typename LAUNCH>
static __device__ __forceinline__ void km_clear(km_block<LAUNCH> &shared, const km_pass_args &) {
    for (int i = threadIdx.x; i < LAUNCH::ROWS * ROW; i += BLOCK) shared.low[0][i] = shared.high[0][i] = 0;
    for (int i = threadIdx.x; i < LAUNCH::ROWS; i += BLOCK) shared.counts[i] = 0;
    for (int i = threadIdx.x; i < 8; i += BLOCK) shared.margin[i] = {0, NONE, 0, 0};
    for (int i = threadIdx.x; i < KS; i += BLOCK) shared.changes[i] = 0;
}

// ... 35 definitions

// A tile, `stage` bytes from the first one of the ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_assign_tile(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                      const km_pass_args &args, unsigned stage, int tile) {
    const unsigned address = state.ring + stage;
    unsigned places[4]; // of column c: points 8 c + 2 t and the next, t the lane % 4
    km_find_candidates<LAUNCH>(places, shared, address);
    const int lane = (int)km_lane();
    const unsigned numbers = address + (unsigned)(sizeof(uint4[BLOCKS][TILE]) + lane * sizeof(unsigned));
    const bool marked = km_read_shared(numbers) == ALL;
    KM_UNROLL_1_FOR (int i = 0; i < shared.active_count; i++) { // a lane has one point now
        const km_active_k own = shared.active_ks[i];
        unsigned place = 0;
        KM_UNROLL_FOR (int c = 0; c < 4; c++) {
            const unsigned of_column = __shfl_sync(ALL, places[c], own.quad * 4 + lane % 8 / 2);
            place = lane / 8 == c ? of_column : place;
        }
        place = ((lane % 2 ? place >> 16 : place & 0xffff) - ONE_CANDIDATE) / 4;
        const bool ambiguous = marked || place >= 256;
        if (!ambiguous) {
            const int row = shared.row[own.quad + place / 32][place % 32];
            km_label *kept = (km_label *)args.labels + (blockIdx.y * KS + own.k_index) * args.labels_stride +
                             tile * (long long)TILE + lane;
            if (*kept != row - own.row) {
                *kept = (km_label)(row - own.row);
                atomicAdd(&shared.changes[own.k_index], 1u);
            }
            km_add_point(shared, row, numbers);
        }
        km_defer(shared, args, ambiguous, tile, own.k_index);
    }
}

// ... 7 definitions

// Begins to copy a tile to shared memory; both addresses are the lane's first.
static __device__ __forceinline__ void km_copy_tile(unsigned to, const uint4 *from) {
    to += km_opaque(threadIdx.x % 32) * (unsigned)sizeof(uint4); // not worth a register from tile to tile
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
    const unsigned ring = km_opaque(km_shared_address(first_tile));
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
    }
    km_close(state, shared, args);
}

// ... 1 definition

// Leaves the block's sums in the workspace, without the bias.
template <typename LAUNCH>
static __device__ __forceinline__ void km_publish(const km_block<LAUNCH> &shared, const km_pass_args &args) {
    __syncthreads();
    for (int i = 0; i < shared.active_count; i++) {
        const km_active_k own = shared.active_ks[i];
        long long *to = km_sums_of(args, blockIdx.x) + km_offsets[own.k_index] * (D + 1);
        for (int at = threadIdx.x; at < km_ks[own.k_index] * (D + 1); at += BLOCK) {
            const int row = own.row + at / (D + 1), f = at % (D + 1);
            const long long count = shared.counts[row];
            to[at] =
                f < D ? ((long long)shared.high[row][f] << 32 | shared.low[row][f]) - count * BIAS : count;
        }
        if (threadIdx.x == 0 && shared.changes[own.k_index])
            atomicAdd(args.changes + blockIdx.y * KS + own.k_index,
                      (unsigned long long)shared.changes[own.k_index]);
    }
}

// ... 4 definitions
