// Of the text of {features: 4, clusters: 2..8, type: float64, target: cuda:sm_90} weighted tracked: Numbers and types; The list of K; The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 2 definitions

// ... 1 more of 2 lines, other numbers: f3d81d81
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
// The K list is split over SPLIT warp groups of a block, which work on the same points.
//
// Points come through shared memory: while a warp works on a tile of points, its next tile is being copied.
//
// ... lines of a template
    BLOCK = 256,                        // threads of a block
    GRID = 132,                         // blocks that share the points (blockIdx.x), for each restart (blockIdx.y)
    POINTS = 4,                         // points that a thread works on at a time
    SPLIT = 2,                          // warp groups of a block; each has its own part of the K list
    THREADS = BLOCK / SPLIT,            // threads of a warp group
    WARPS = THREADS / 32,               // warps of a warp group
    VECTOR = 2,                         // numbers of one 16-byte load
    TILE = 128,                         // points that a warp works on at a time
    SPAN_POINTS = 32 * 24,              // the shortest span has so many points
    SPANS = 5461,                       // from twice as many of the shortest on there are longer ones
    LONGEST_SPAN = 65536 / SPAN_POINTS, // times as long as the shortest: for the accuracy of a lane's sums
    LOADS = 4,                          // loads of a thread from a tile
    LOAD_POINTS = 32,                   // points of a warp in one load
    STAGES = 2,                         // tiles of a warp in shared memory: one that is worked on, others that are being copied
    PIECES = 2,                         // 16-byte pieces that one thread loads: a row of shared memory
    SWIZZLE = 2,                        // XOR swizzle of a row over so many pieces, against bank conflicts
    COEFFICIENTS = 28,                  // of scores: for each centroid but the pivots
    COLUMNS = 151,                      // sums of a block
    ALL_POINTS = 147,                   // the first column of the sums over all points, which never change
    CLUSTER_SUMS = 5,                   // sums of one cluster, and its weight
    WARP_SUMS = 36,                     // sums of a warp, at most
    GATHERED = 32,                      // sums of each lane that are added over the warp at a time
    GATHERED_ROW = 33,                  // a row of them in shared memory: no bank conflicts
    REDUCE = 1024,                      // threads of a block of km_reduce
    EXACT_BITS = 24                     // coordinates of so many bits have exact scores
};

// ... 10 definitions

// What the threads of a block share.
struct km_block {
    km_stage ring[WARPS][STAGES];
    __align__(16) km_real gathered[BLOCK / 32][GATHERED][GATHERED_ROW]; // of a warp
    km_sum warp_sums[BLOCK / 32][WARP_SUMS];
    km_table table;
};

// ... 2 definitions

static __device__ __forceinline__ km_sum *km_column(const km_pass_args &args, int column) {
    km_sum *columns = (km_sum *)((km_table *)(&km_units_in(args) + 1) + RESTARTS);
    return columns + ((long long)blockIdx.y * COLUMNS + column) * GRID;
}

// The table of one restart, as kernels between two passes write it.
static __device__ __forceinline__ km_table *km_table_of(void *workspace, void *const *constants,
                                                        int restart) {
    return (km_table *)((km_units *)workspace + 1) + restart;
}

// ... 20 definitions

// Where a lane puts its piece, of the warp's 32 pieces from `first` on.
static __device__ __forceinline__ unsigned km_piece_index(unsigned first, unsigned lane) {
    return first + (lane ^ km_swizzle(lane / PIECES) ^ km_swizzle(first / PIECES));
}

// Starts to copy a full tile: the points of the warps that share a ring.
static __device__ __forceinline__ void km_copy_whole_tile(km_stage &stage, const km_pass_args &args,
                                                          int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = (long long)tile * TILE;
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D) + lane;
    constexpr int WARP_PIECES =
        (LOADS * PIECES + SPLIT - 1) / SPLIT; // that each of the warps with these points copies
    const unsigned begin = threadIdx.x / THREADS * WARP_PIECES * 32;
    KM_UNROLL_FOR (int i = 0; i < WARP_PIECES; i++) {
        const unsigned piece = begin + i * 32;
        if (LOADS * PIECES % SPLIT && piece >= 32 * LOADS * PIECES) continue;
        km_copy_16_if(km_shared_address(&stage.pieces[km_piece_index(piece, lane)]), from + piece, true);
    }
    const km_real *weights = (const km_real *)args.weights + first + lane;
    KM_UNROLL_FOR (int load = (int)threadIdx.x / THREADS; load < LOADS; load += SPLIT)
        km_copy_cached_if<8>(km_shared_address(&stage.weights[load][lane]),
                                          weights + load * LOAD_POINTS, true);
}

// The same for the last tile, where it is not full: zeros past the last point.
static __device__ __forceinline__ void km_copy_last_tile(km_stage &stage, const km_pass_args &args,
                                                         int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = (long long)tile * TILE;
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D);
    KM_UNROLL_1_FOR (unsigned piece = threadIdx.x / THREADS * 32; piece < 32 * LOADS * PIECES; piece += 32 * SPLIT) {
        const unsigned row = (piece + lane) / PIECES;
        const bool valid = first + row < args.n;
        km_copy_16_if(km_shared_address(&stage.pieces[km_piece_index(piece, lane)]),
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

// Reads the thread's points of a tile. An address is the row's byte offset in `shared` and a constant: one register
// serves all loads.
static __device__ __forceinline__ void km_load_tile(km_points &points, const km_block &shared,
                                                    const km_stage &stage) {
    const unsigned lane = threadIdx.x % 32, begin = (const char *)&stage - (const char *)&shared;
    const unsigned row = begin + (lane * PIECES + km_swizzle(lane)) * 16;
    KM_UNROLL_FOR (int load = 0; load < LOADS; load++) {
        KM_UNROLL_FOR (int v = 0; v < PIECES; v++) {
            const unsigned piece =
                (row ^ v % SWIZZLE * 16) + (load * 32 * PIECES + v / SWIZZLE * SWIZZLE) * 16;
            const km_vector numbers = *(const km_vector *)((const char *)&shared + piece);
            KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
        }
        points.weight[load] = stage.weights[load][lane];
    }
}

// ... 1 definition

// Adds a point to the sums of a cluster where `found`. Elsewhere it has weight 0, which is faster than a branch.
static __device__ __forceinline__ void km_add(double *sums, const double *x, double weight, bool found) {
    const double w = found ? weight : 0;
    KM_UNROLL_FOR (int f = 0; f < D; f++) sums[f] = fma(w, x[f], sums[f]);
    sums[D] += w;
}

// ... 1 definition

// One K: finds the nearest centroid of each point, and adds the points to the sums.
template <int SCORES>
static __device__ __forceinline__ void km_assign(km_points &points, const km_coefficients *coefficients,
                                                 int pivot, double *sums) {
    double score[POINTS][SCORES];
    km_scores<SCORES>(score, points, coefficients);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const int nearest = km_nearest<SCORES>(score[p]);
        KM_UNROLL_FOR (int j = 0; j < SCORES; j++)
            km_add(sums + j * (D + 1), points.x[p], points.weight[p], nearest == j);
        points.label[p] = nearest == SCORES ? pivot : nearest + (nearest >= pivot);
        if (nearest == SCORES) sums[SCORES * (D + 1)] += points.weight[p];
    }
}

// ... 5 definitions

// ... lines of a template
            const double *from = gathered[lane] + part * 8;
            parts[part] =
                ((from[0] + from[1]) + (from[2] + from[3])) + ((from[4] + from[5]) + (from[6] + from[7]));
        }
        added[t] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
    km_sum numbers[TIMES];
    KM_UNROLL_FOR (int t = 0; t < TIMES; t++) numbers[t] = km_sum_of(added[t], per_one);
    KM_UNROLL_FOR (int t = 0; t < TIMES; t++) {
        if (t * 32 + lane < COUNT) km_sum_add(out[t * 32 + lane], numbers[t]);
    }
}

// ... 3 definitions

// Labels and adds the points of a tile, one K after the other.
static __device__ __forceinline__ void km_process_tile(km_group_0 &group, km_points &points,
                                                       const km_pass_args &args, const km_table &table,
                                                       int tile, int next) {
    asm volatile("" ::: "memory"); // the coefficients are read again: there are no registers to keep them in
    const km_coefficients *coefficients = table.coefficients;
    if (group.active_8) {
        km_assign<7>(points, coefficients + 21, table.pivots[6],
                             group.sums + 0);
        const int slot = blockIdx.y * KS + 6;
        group.changes_8 += km_write_labels(points, group.before_8, args, tile, slot);
        if (next < km_tiles(args)) km_read_labels(group.before_8, args, next, slot);
    }
}

// ... 33 definitions

// Processes the spans of a warp. False when there is nothing to do.
template <typename GROUP>
static __device__ __forceinline__ bool km_process_spans(const km_pass_args &args, km_block &shared) {
    const int tiles = km_tiles(args), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    km_place place = km_first_place(args);
    km_stage *ring = shared.ring[warp % WARPS];
    KM_UNROLL_FOR (int i = 0; i < STAGES - 1; i++)
        km_copy_tile(ring[i], args, km_tile_ahead(place, i), tiles);
    int stage = 0;
    if (km_is_idle(args)) { // asked after the first copies, which do not wait for it
        km_copy_wait_all();
        return false;
    }
    for (int i = lane; i < WARP_SUMS; i += 32) shared.warp_sums[warp][i] = {};
    const km_table *from = km_table_of(args.workspace, args.constants, blockIdx.y);
    for (int i = threadIdx.x; i < (int)(sizeof(km_table) / 4); i += BLOCK)
        ((int *)&shared.table)[i] = ((const int *)from)[i];
    __syncthreads();
    const km_table &table = shared.table;
    GROUP group;
    km_begin(group, args);
    if (place.tile < tiles) km_read_labels(group, args, place.tile);
    while (place.tile < tiles) {
        km_points points;
        km_wait_for_tile();
        km_load_tile(points, shared, ring[stage]);
        const int free = stage == 0 ? STAGES - 1 : stage - 1;
        km_copy_tile(ring[free], args, km_tile_ahead(place, STAGES - 1), tiles);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        km_process_tile(group, points, args, table, place.tile, km_tile_ahead(place, 1));
        place.tile++;
        if (--place.left > 0 && place.tile < tiles) continue;
        km_flush(group, shared, km_units_in(args).per_one);
        place = km_place_behind(args, place.span);
    }
    km_add_changes(group, args);
    return true;
}

// ... 1 definition

// ==== Launch 0 =============================================================================================
// Compiled apart: pass/launches/0
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_registers_0(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(128) unsigned char km_shared[];
    km_block &shared = *(km_block *)km_shared;
    bool worked = false;
    switch (threadIdx.x / THREADS) {
    case 0:
        worked = km_process_spans<km_group_0>(args, shared);
        break;
    // ... 1 more of 3 lines, other numbers: ab760b81
    }
    if (!worked) return;
    __syncthreads();
    km_write_block_sums(args, shared.warp_sums, 36, 0);
    km_write_block_sums(args, shared.warp_sums + WARPS, 31, 36);
}

// ... 5 definitions

// Computes the coefficients of one slot, by one warp.
static __device__ void km_make_coefficients(void *workspace, void *const *constants, int restart,
                                            const km_real *c, const double *box, int k_index) {
    const int pivot = km_find_pivot(box, c, km_ks[k_index]);
    km_write_coefficients(km_table_of(workspace, constants, restart), c, pivot, k_index);
}

// ... 9 definitions
