// Of the text of {features: 7, clusters: 2..16, target: cuda:sm_90} weighted tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 1 definition

// The pass, design `registers`. A thread has a few points and the sums of all clusters in registers. Its warp goes
// through the data tile by tile. Loops over the K list are unrolled, so that the work on a tile is one straight line of
// code.
//
// A score is taken against one centroid of the same K, the pivot p:
//     score_j = x . (c_j - c_p) - (|c_j|^2 - |c_p|^2) / 2,        score_p = 0.
// The centroid with the largest score is the nearest. So K centroids take K - 1 scores. Nothing is added to the pivot's
// sums either: they are the sums over all points, made once when the points are loaded, less those of the others.
//
// Points come through shared memory: while a warp works on a tile of points, its next tile is being copied.
//
// ... lines of a template
    BLOCK = 256,                        // threads of a block
    GRID = 132,                         // blocks that share the points (blockIdx.x), for each restart (blockIdx.y)
    POINTS = 4,                         // points that a thread works on at a time
    WARPS = BLOCK / 32,                 // warps of a block
    ADJACENT = 4,                       // points of a thread that are adjacent in memory
    VECTOR = 4,                         // numbers of one 16-byte load
    TILE = 128,                         // points that a warp works on at a time
    SPAN_POINTS = 32 * 24,              // the shortest span has so many points
    SPANS = 5461,                       // from twice as many of the shortest on there are longer ones
    LONGEST_SPAN = 65536 / SPAN_POINTS, // times as long as the shortest: for the accuracy of a lane's sums
    LOADS = 1,                          // loads of a thread from a tile
    LOAD_POINTS = 128,                  // points of a warp in one load
    STAGES = 2,                         // tiles of a warp in shared memory: one that is worked on, others that are being copied
    PIECES = 7,                         // 16-byte pieces that one thread loads: a row of shared memory
    COEFFICIENTS = 120,                 // of scores: for each centroid but the pivots
    COLUMNS = 982,                      // sums of a block
    ALL_POINTS = 975,                   // the first column of the sums over all points, which never change
    CLUSTER_SUMS = 8,                   // sums of one cluster, and its weight
    WARP_SUMS = 122,                    // sums of a warp, at most
    GATHERED = 32,                      // sums of each lane that are added over the warp at a time
    GATHERED_ROW = 36,                  // a row of them in shared memory: no bank conflicts
    REDUCE = 1024,                      // threads of a block of km_reduce
    EXACT_BITS = 9                      // coordinates of so many bits have exact scores
};

// ... 26 definitions

// The index of point r of the thread, less that of its first point.
static __device__ __forceinline__ constexpr int km_point_offset(int r) {
    return r / ADJACENT * LOAD_POINTS + r % ADJACENT;
}

// ... 11 definitions

// Reads the thread's points of a tile. An address is the row's byte offset in `shared` and a constant: one register
// serves all loads.
static __device__ __forceinline__ void km_load_tile(km_points &points, const km_block &shared,
                                                    const km_stage &stage) {
    const unsigned lane = threadIdx.x % 32, begin = (const char *)&stage - (const char *)&shared;
    const unsigned row = begin + lane * PIECES * 16;
    KM_UNROLL_FOR (int load = 0; load < LOADS; load++) {
        KM_UNROLL_FOR (int v = 0; v < PIECES; v++) {
            const unsigned piece = row + (load * 32 * PIECES + v) * 16;
            const km_vector numbers = *(const km_vector *)((const char *)&shared + piece);
            KM_UNROLL_FOR (int i = v * VECTOR; i < (v + 1) * VECTOR; i++)
                points.x[load * ADJACENT + i / D][i % D] = numbers.at[i % VECTOR];
        }
        KM_UNROLL_FOR (int i = 0; i < ADJACENT; i++)
            points.weight[load * ADJACENT + i] = stage.weights[load][lane * ADJACENT + i];
    }
}

// ... 5 definitions

// Labels are written four at a time, those of adjacent points.
// The first of the four points whose labels the thread has after the exchange, of its own points p to p + 3.
static __device__ __forceinline__ long long km_packed_point(int tile, int p) {
    return km_first_point(tile) + km_point_offset(p);
}

// ... 76 definitions
