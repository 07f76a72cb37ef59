// Of the text of {features: 4, clusters: 2..8, type: float64, target: cuda:sm_90} weighted tracked: Numbers and types; The pass
// "..." stands for what a template or an earlier part shows.

// ... 3 definitions

// ... 1 definition

// The pass, design `registers`. A thread has a few points and the sums of all clusters in registers and walks over
// the data; everything about the K list is unrolled, so that the loop is one straight line.
//
// A score is taken against one centroid of the same K, the pivot p:
//     score_j = x . (c_j - c_p) - (|c_j|^2 - |c_p|^2) / 2,        score_p = 0.
// The centroid with the largest score is the nearest. That is K - 1 scores for K centroids, and the pivot's sums need
// no adding: they are the sums over all points, made once when the points are loaded, less those of the others.
//
// The K list is shared out over SPLIT groups of warps, which have the same points.
//
// Points come through shared memory: while a warp works on a tile of points, its next tile is on the way.
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
    SPLIT = 2,                  // warp groups of a block; each has its own share of the K list
    THREADS = BLOCK / SPLIT,    // threads of a warp group
    WARPS = THREADS / 32,       // warps of a warp group
    VECTOR = 2,                 // numbers of one 16-byte load
    WARP_POINTS = 128,          // points that a warp works on at a time
    TILE = WARPS * WARP_POINTS, // points that a block works on at a time
    LOADS = 4,                  // loads of a thread from a tile
    LOAD_POINTS = 32,           // points of a warp in one load
    STAGES = 2,                 // tiles of a warp in shared memory: one that is worked on, the others on their way
    PIECES = 2,                 // 16-byte pieces of a load of one thread, a row
    TURN = 2,                   // rows are turned about by so many pieces, so that lanes meet in no bank
    PLANES = 28,                // one for each centroid but the pivots
    COLUMNS = 151,              // sums of a block
    TOTALS = 147,               // the first of those over all points, which never change
    CLUSTER = 5,                // sums of one cluster, and its weight
    WARP_SUMS = 36,             // sums of a warp, at most
    GATHERED = 32,              // sums of a lane that are added up over the warp at a time
    REDUCE = 1024,              // threads of a block of km_reduce
    COARSE_BITS = 24            // bits of a coordinate such that scores come out exact
};

// ... 6 definitions

// What the threads of a block share.
struct km_block {
    km_stage ring[WARPS][STAGES];
    km_real gathered[BLOCK / 32][GATHERED][33]; // of a warp; rows of 33: its lanes meet in no bank
    double warp_sums[BLOCK / 32][WARP_SUMS];
    km_table table;
};

// ... 1 definition

// The workspace: the table of each restart in flight; then of each restart, for each column, one number of each block.
static __device__ __forceinline__ double *km_column(const km_pass_args &args, int column) {
    double *columns = (double *)((km_table *)args.workspace + COPIES);
    return columns + ((long long)blockIdx.y * COLUMNS + column) * GRID;
}

// The table of one restart in flight, as kernels between two passes write it.
static __device__ __forceinline__ km_table *km_table_of(void *workspace, void *constants, int copy) {
    return (km_table *)workspace + copy;
}

// ... 13 definitions

// Where a warp puts 32 pieces from `first` on, a lane each.
static __device__ __forceinline__ unsigned km_place(unsigned first, unsigned lane) {
    return first + (lane ^ km_turn(lane / PIECES) ^ km_turn(first / PIECES));
}

// Starts to copy a whole tile's points of the warps that share a ring.
static __device__ __forceinline__ void km_fetch_whole(km_stage &stage, const km_pass_args &args, int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = km_first_of_warp(tile);
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D) + lane;
    constexpr int SHARE = (LOADS * PIECES + SPLIT - 1) / SPLIT; // of each warp that has these points
    const unsigned begin = threadIdx.x / THREADS * SHARE * 32;
    KM_UNROLL_FOR (int i = 0; i < SHARE; i++) {
        const unsigned piece = begin + i * 32;
        if (LOADS * PIECES % SPLIT && piece >= 32 * LOADS * PIECES) continue;
        km_copy_16_if(km_shared_address(&stage.pieces[km_place(piece, lane)]), from + piece, true);
    }
    const km_real *weights = (const km_real *)args.weights + first + lane;
    KM_UNROLL_FOR (int load = (int)threadIdx.x / THREADS; load < LOADS; load += SPLIT)
        km_copy_cached_if<8>(km_shared_address(&stage.weights[load][lane]),
                                          weights + load * LOAD_POINTS, true);
}

// The same for the last tile, where it is not a whole one: zeros past the last point.
static __device__ __forceinline__ void km_fetch_last(km_stage &stage, const km_pass_args &args, int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = km_first_of_warp(tile);
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D);
    KM_UNROLL_1_FOR (unsigned piece = threadIdx.x / THREADS * 32; piece < 32 * LOADS * PIECES; piece += 32 * SPLIT) {
        const unsigned row = (piece + lane) / PIECES;
        const bool valid = first + row < args.n;
        km_copy_16_if(km_shared_address(&stage.pieces[km_place(piece, lane)]),
                      valid ? from + piece + lane : from, valid);
    }
    const km_real *weights = (const km_real *)args.weights;
    KM_UNROLL_1_FOR (int load = (int)threadIdx.x / THREADS; load < LOADS; load += SPLIT) {
        const long long point = first + load * LOAD_POINTS + lane;
        km_copy_cached_if<8>(km_shared_address(&stage.weights[load][lane]),
                                          weights + (point < args.n ? point : 0), point < args.n);
    }
}

// ... 2 definitions

// Reads the thread's points of a tile. Addresses are bytes from `tiled`: one register, and numbers that the compiler
// knows.
static __device__ __forceinline__ void km_load(km_points &points, const km_block &shared,
                                               const km_stage &stage) {
    const unsigned lane = threadIdx.x % 32, begin = (const char *)&stage - (const char *)&shared;
    const unsigned row = begin + (lane * PIECES + km_turn(lane)) * 16;
    KM_UNROLL_FOR (int load = 0; load < LOADS; load++) {
        KM_UNROLL_FOR (int v = 0; v < PIECES; v++) {
            const unsigned piece = (row ^ v % TURN * 16) + (load * 32 * PIECES + v / TURN * TURN) * 16;
            const km_vector numbers = *(const km_vector *)((const char *)&shared + piece);
            KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
        }
        points.weight[load] = stage.weights[load][lane];
    }
}

// ... 1 definition

// Adds a point to its sums where `found` holds. There are no predicated additions of doubles: a weight of 0 adds
// nothing.
static __device__ __forceinline__ void km_add(double *sums, const double *x, double weight, bool found) {
    const double w = found ? weight : 0;
    KM_UNROLL_FOR (int f = 0; f < D; f++) sums[f] = fma(w, x[f], sums[f]);
    sums[D] += w;
}

// ... 1 definition

// One K with OTHERS centroids beside the pivot: the nearest centroid of each point, and the sums.
template <int OTHERS>
static __device__ __forceinline__ void km_assign(km_points &points, const km_plane *planes, int pivot,
                                                 double *sums) {
    double score[POINTS][OTHERS];
    km_scores<OTHERS>(score, points, planes);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const int nearest = km_nearest<OTHERS>(score[p]);
        KM_UNROLL_FOR (int j = 0; j < OTHERS; j++)
            km_add(sums + j * (D + 1), points.x[p], points.weight[p], nearest == j);
        points.label[p] = nearest == OTHERS ? pivot : nearest + (nearest >= pivot);
        if (nearest == OTHERS) sums[OTHERS * (D + 1)] += points.weight[p];
    }
}

// ... 9 definitions

// Works on the points of a tile, one K after the other.
static __device__ __forceinline__ void km_work(km_group_0 &group, km_points &points,
                                               const km_pass_args &args, const km_table &table, int tile) {
    asm volatile("" ::: "memory"); // the planes are read again: there are no registers to keep them in
    const km_plane *planes = table.planes;
    if (group.active_8) {
        km_assign<7>(points, planes + 21, table.pivots[6], group.sums + 0);
        const int slot = blockIdx.y * KS + 6;
        group.changes_8 += km_write_labels(points, group.before_8, args, tile, slot);
        if (tile + GRID < km_tiles(args)) km_read_labels(group.before_8, args, tile + GRID, slot);
    }
}

// ... 33 definitions

// A warp group's share of a launch: every GRID-th tile. False when there is nothing to do.
template <typename GROUP>
static __device__ __forceinline__ bool km_walk(const km_pass_args &args, km_block &shared) {
    const int tiles = km_tiles(args), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    km_stage *ring = shared.ring[warp % WARPS];
    KM_UNROLL_FOR (int i = 0; i < STAGES - 1; i++) km_fetch(ring[i], args, blockIdx.x + i * GRID, tiles);
    int stage = 0;
    if (km_is_idle(args)) { // only now, so that the points do not wait for the answer
        km_copy_wait_all();
        return false;
    }
    for (int i = lane; i < WARP_SUMS; i += 32) shared.warp_sums[warp][i] = 0;
    const km_table *from = km_table_of(args.workspace, args.constants, blockIdx.y);
    for (int i = threadIdx.x; i < (int)(sizeof(km_table) / 4); i += BLOCK)
        ((int *)&shared.table)[i] = ((const int *)from)[i];
    __syncthreads();
    const km_table &table = shared.table;
    GROUP group;
    km_begin(group, args);
    if (blockIdx.x < tiles) km_read_labels(group, args, blockIdx.x);
    for (int tile = blockIdx.x; tile < tiles; tile += GRID) {
        km_points points;
        km_await();
        km_load(points, shared, ring[stage]);
        const int free = stage == 0 ? STAGES - 1 : stage - 1;
        km_fetch(ring[free], args, tile + (STAGES - 1) * GRID, tiles);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        km_work(group, points, args, table, tile);
    }
    km_flush(group, shared);
    km_end(group, args);
    return true;
}

// ... 1 definition

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_registers_0(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(128) unsigned char km_shared[];
    km_block &shared = *(km_block *)km_shared;
    bool worked = false;
    switch (threadIdx.x / THREADS) {
    case 0:
        worked = km_walk<km_group_0>(args, shared);
        break;
    case 1:
        worked = km_walk<km_group_1>(args, shared);
        break;
    }
    if (!worked) return;
    __syncthreads();
    km_write(args, shared.warp_sums, 36, 0);
    km_write(args, shared.warp_sums + WARPS, 31, 36);
}

// ... 10 definitions
