// Of the text of {features: 7, clusters: 2..16, target: cuda:sm_90} weighted tracked: The pass
// "..." stands for what a template or an earlier part shows.

// ... 1 definition

// The pass, design `registers`. A thread has a few points and the sums of all clusters in registers and walks over
// the data; everything about the K list is unrolled, so that the loop is one straight line.
//
// A score is taken against one centroid of the same K, the pivot p:
//     score_j = x . (c_j - c_p) - (|c_j|^2 - |c_p|^2) / 2,        score_p = 0.
// The centroid with the largest score is the nearest. That is K - 1 scores for K centroids, and the pivot's sums need
// no adding: they are the sums over all points, made once when the points are loaded, less those of the others.
//
// Points come through shared memory: while a warp works on a tile of points, its next tile is on the way.
//
// A thread adds the points of FLUSH tiles at most; then its warp's lanes are added up and join doubles, so that
// accuracy does not depend on the number of points.
//
// The last tile is filled up with points at zero; what they add to the counts is taken away in the end.
//
// At the end the warps of a block are added up, and each block leaves one number for each sum; km_reduce adds the
// blocks. Both go in a fixed order, without atomics: the same bits every time.
//
// A slot is one K of one restart in flight. One that has nothing to do in a pass is not active, and skipped.
//
// To read it from the top: km_registers_0, at the end, is the kernel; km_walk its loop over tiles; km_assign what
// is done with the points of a tile.
enum {
    BLOCK = 256,                // threads of a block
    GRID = 132,                 // blocks that share the points (blockIdx.x), for each restart in flight (blockIdx.y)
    POINTS = 4,                 // points that a thread works on at a time
    WARPS = BLOCK / 32,         // warps of a block
    RUN = 4,                    // points of a thread that lie side by side in memory
    VECTOR = 4,                 // numbers of one 16-byte load
    WARP_POINTS = 128,          // points that a warp works on at a time
    TILE = WARPS * WARP_POINTS, // points that a block works on at a time
    FLUSH = 512,                // tiles of a block after which sums join the doubles, a power of two
    LOADS = 1,                  // loads of a thread from a tile
    LOAD_POINTS = 128,          // points of a warp in one load
    STAGES = 2,                 // tiles of a warp in shared memory: one that is worked on, the others on their way
    PIECES = 7,                 // 16-byte pieces of a load of one thread, a row
    PLANES = 120,               // one for each centroid but the pivots
    COLUMNS = 982,              // sums of a block
    TOTALS = 975,               // the first of those over all points, which never change
    CLUSTER = 8,                // sums of one cluster, and its weight
    WARP_SUMS = 122,            // sums of a warp, at most
    GATHERED = 32,              // sums of a lane that are added up over the warp at a time
    REDUCE = 1024,              // threads of a block of km_reduce
    COARSE_BITS = 9             // bits of a coordinate such that scores come out exact
};

// ... 14 definitions

// How far point r of the thread lies behind its first.
static __device__ __forceinline__ constexpr int km_step(int r) {
    return r / RUN * LOAD_POINTS + r % RUN;
}

// ... 11 definitions

// Reads the thread's points of a tile. Addresses are bytes from `tiled`: one register, and numbers that the compiler
// knows.
static __device__ __forceinline__ void km_load(km_points &points, const km_block &shared,
                                               const km_stage &stage) {
    const unsigned lane = threadIdx.x % 32, begin = (const char *)&stage - (const char *)&shared;
    const unsigned row = begin + lane * PIECES * 16;
    KM_UNROLL_FOR (int load = 0; load < LOADS; load++) {
        KM_UNROLL_FOR (int v = 0; v < PIECES; v++) {
            const unsigned piece = row + (load * 32 * PIECES + v) * 16;
            const km_vector numbers = *(const km_vector *)((const char *)&shared + piece);
            KM_UNROLL_FOR (int i = v * VECTOR; i < (v + 1) * VECTOR; i++)
                points.x[load * RUN + i / D][i % D] = numbers.at[i % VECTOR];
        }
        KM_UNROLL_FOR (int i = 0; i < RUN; i++)
            points.weight[load * RUN + i] = stage.weights[load][lane * RUN + i];
    }
}

// ... 5 definitions

// Labels are written four at a time, those of points that lie side by side.
// The first point of those whose labels the thread has after the exchange, of its points p to p + 3.
static __device__ __forceinline__ long long km_gathered(int tile, int p) {
    return km_first(tile) + km_step(p);
}

// ... 71 definitions
