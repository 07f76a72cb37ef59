// Of the text of {features: 4, clusters: 2..8, type: float64, target: cuda:sm_75} tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 1 definition

// The pass, design `registers`. A thread has a few points and the sums of all clusters in registers. It goes through
// the data tile by tile. Loops over the K list are unrolled, so that the work on a tile is one straight line of code.
//
// A score is taken against one centroid of the same K, the pivot p:
//     score_j = x . (c_j - c_p) - (|c_j|^2 - |c_p|^2) / 2,        score_p = 0.
// The centroid with the largest score is the nearest. So K centroids take K - 1 scores. Nothing is added to the pivot's
// sums either: they are the sums over all points, made once when the points are loaded, less those of the others.
//
// LANES_PER_POINT lanes share a point: each has LANE_D of its features and their sums. A score is the sum over these
// lanes, so that all of them find the same nearest centroid.
//
// The last tile is padded with points at zero. What they add to the counts is subtracted in the end.
//
// At the end the sums of a block's warps are added, and each block writes one number for each sum; km_reduce adds the
// blocks' numbers. Both go in a fixed order, without atomics: the same bits every time.
//
// A slot is one K of one restart. A slot that is not active has nothing to do in a pass, and is skipped.
//
// To read it from the top: km_registers_0, at the end, is the kernel; km_process_tiles is its loop over tiles;
// km_assign finds the nearest centroids of a tile's points, and adds the points to their sums.
enum {
    BLOCK = 256,                // threads of a block
    GRID = 40,                  // blocks that share the points (blockIdx.x), for each restart (blockIdx.y)
    POINTS = 4,                 // points that a thread works on at a time
    WARPS = BLOCK / 32,         // warps of a block
    LANES_PER_POINT = 2,        // lanes that share a point
    LANE_D = 2,                 // features of it that a lane has
    VECTOR = 2,                 // numbers of one 16-byte load
    WARP_POINTS = 64,           // points that a warp works on at a time
    TILE = WARPS * WARP_POINTS, // points that a block works on at a time
    LOADS = 4,                  // loads of a thread from a tile
    LOAD_POINTS = 16,           // points of a warp in one load
    COEFFICIENTS = 28,          // of scores: for each centroid but the pivots
    COLUMNS = 172,              // sums of a block
    ALL_POINTS = 168,           // the first column of the sums over all points, which never change
    CLUSTER_SUMS = 6,           // sums of one cluster, and its weight
    WARP_SUMS = 42,             // sums of a warp, at most
    GATHERED = 16,              // sums of each lane that are added over the warp at a time
    REDUCE = 1024,              // threads of a block of km_reduce
    EXACT_BITS = 24             // coordinates of so many bits have exact scores
};

// ... 4 definitions

// The coefficients of all scores; computed again after each update.
struct km_table {
    km_coefficients
        coefficients[COEFFICIENTS *
                     LANES_PER_POINT]; // of each centroid but the pivots: those of the lanes of a point
                                       // are adjacent
    int pivots[KS];
};

// ... 10 definitions

// Reads the thread's part of one load, whose first point is `point`.
static __device__ __forceinline__ void km_load_points(km_points &points, const km_pass_args &args,
                                                      long long point, int load) {
    const km_real *x = (const km_real *)args.points + point * D + threadIdx.x % LANES_PER_POINT * LANE_D;
    KM_UNROLL_FOR (int v = 0; v < 1; v++) {
        const km_vector numbers = ((const km_vector *)x)[v];
        KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
    }
}

// Reads the thread's points of a tile. Past the last point it reads padding rows, which are zero.
static __device__ __forceinline__ void km_load_tile(km_points &points, const km_pass_args &args, int tile) {
    const long long first = km_first_point(tile);
    if (tile < (int)(args.n / TILE)) {
        KM_UNROLL_FOR (int load = 0; load < LOADS; load++)
            km_load_points(points, args, first + load * LOAD_POINTS, load);
    } else {
        const long long end = args.n;
        KM_UNROLL_FOR (int load = 0; load < LOADS; load++) {
            const long long point = first + load * LOAD_POINTS;
            km_load_points(points, args, point < end ? point : end, load);
        }
    }
}

// The scores of the thread's points against the centroids of a K but its pivot; there are SCORES of them.
template <int SCORES>
static __device__ __forceinline__ void km_scores(km_real (&score)[POINTS][SCORES], const km_points &points,
                                                 const km_coefficients *coefficients) {
    KM_UNROLL_FOR (int j = 0; j < SCORES; j++) {
        const km_coefficients &of_j = coefficients[j * LANES_PER_POINT];
        KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
            score[p][j] = of_j.constant;
            KM_UNROLL_FOR (int f = 0; f < LANE_D; f++)
                score[p][j] = fma(points.x[p][f], of_j.factors[f], score[p][j]);
        }
    }
    // Both sides add the same two numbers, so all lanes of a point get the same bits.
    KM_UNROLL_FOR (int width = 1; width < LANES_PER_POINT; width *= 2) {
        KM_UNROLL_FOR (int j = 0; j < SCORES; j++) {
            KM_UNROLL_FOR (int p = 0; p < POINTS; p++)
                score[p][j] += __shfl_xor_sync(0xffffffff, score[p][j], width);
        }
    }
}

// Adds a point to the sums of a cluster where `found`. Elsewhere it has weight 0, which is faster than a branch.
static __device__ __forceinline__ void km_add(double *sums, int &count, const double *x, bool found) {
    const double weight = found ? 1 : 0;
    KM_UNROLL_FOR (int f = 0; f < LANE_D; f++) sums[f] = fma(weight, x[f], sums[f]);
    asm("{ .reg .pred found; setp.ne.s32 found, %1, 0; @found add.s32 %0, %0, 1; }"
        : "+r"(count)
        : "r"((int)found));
}

// ... 1 definition

// One K: finds the nearest centroid of each point, and adds the points to the sums.
template <int SCORES>
static __device__ __forceinline__ void km_assign(km_points &points, const km_coefficients *coefficients,
                                                 int pivot, double *sums, int *counts) {
    double score[POINTS][SCORES];
    km_scores<SCORES>(score, points, coefficients);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const int nearest = km_nearest<SCORES>(score[p]);
        KM_UNROLL_FOR (int j = 0; j < SCORES; j++)
            km_add(sums + j * (LANE_D + 1), counts[j], points.x[p], nearest == j);
        points.label[p] = nearest == SCORES ? pivot : nearest + (nearest >= pivot);
    }
}

// ... 4 definitions

// Writes the labels of one slot where they changed, and returns how many did.
static __device__ __forceinline__ int km_write_labels(const km_points &points, const unsigned *before,
                                                      const km_pass_args &args, int tile, int slot) {
    unsigned *labels = (unsigned *)((km_label *)args.labels + slot * args.labels_stride);
    int changes = 0;
    KM_UNROLL_FOR (int p = 0; p < POINTS; p += 4) {
        const long long point = km_packed_point(tile, p), left = args.n - point;
        unsigned differ = km_pack_labels(points.label + p) ^ before[p / 4];
        if (left < 4) differ = left <= 0 ? 0 : differ & ((1u << 8 * left) - 1);
        if (threadIdx.x % LANES_PER_POINT) continue; // one lane of a point is enough
        if (differ) labels[point / 4] = before[p / 4] ^ differ;
        changes +=
            __popc((((differ & 0x7f7f7f7f) + 0x7f7f7f7f) | differ) & 0x80808080); // bytes that are not 0
    }
    return changes;
}

// ... 1 definition

// ==== Launch 0: the work on a tile =========================================================================
// Compiled apart: pass/launches/0
// What a thread of km_registers_0 keeps from tile to tile, for K = 8.
struct km_group_0 {
    km_real sums[21]; // of the clusters but the pivots
    int counts[7];
    bool active_8;
    unsigned before_8[POINTS / 4]; // labels of the pass before, of the next tile
    int changes_8;
};

// ... 2 definitions

// Labels and adds the points of a tile, one K after the other.
static __device__ __forceinline__ void km_process_tile(km_group_0 &group, km_points &points,
                                                       const km_pass_args &args, const km_table &table,
                                                       int tile) {
    asm volatile("" ::: "memory"); // the coefficients are read again: there are no registers to keep them in
    const km_coefficients *coefficients = table.coefficients + threadIdx.x % LANES_PER_POINT;
    if (group.active_8) {
        km_assign<7>(points, coefficients + 42, table.pivots[6],
                             group.sums + 0, group.counts + 0);
        const int slot = blockIdx.y * KS + 6;
        group.changes_8 += km_write_labels(points, group.before_8, args, tile, slot);
        if (tile + GRID < km_tiles(args)) km_read_labels(group.before_8, args, tile + GRID, slot);
    }
}

// Adds the thread's sums to the warp's.
static __device__ __forceinline__ void km_flush(km_group_0 &group, km_block &shared) {
    KM_UNROLL_FOR (int j = 0; j < 7; j++)
        group.sums[0 + j * (LANE_D + 1) + LANE_D] = group.counts[0 + j];
    const int warp = threadIdx.x / 32;
    km_add_lanes<21>(group.sums, shared.gathered[warp], shared.warp_sums[warp]);
}

// ... 20 definitions

// Processes a block's tiles: every GRID-th one. False when there is nothing to do.
template <typename GROUP>
static __device__ __forceinline__ bool km_process_tiles(const km_pass_args &args, km_block &shared) {
    const int tiles = km_tiles(args), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (km_is_idle(args)) return false;
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
        km_load_tile(points, args, tile);
        km_process_tile(group, points, args, table, tile);
    }
    km_flush(group, shared);
    km_add_changes(group, args);
    return true;
}

// ... 7 definitions

// Writes the coefficients of one slot, by one warp. `c`: its centroids.
static __device__ __forceinline__ void km_write_coefficients(km_table *table, const km_real *c, int pivot,
                                                             int k_index) {
    const int lane = threadIdx.x % 32, k = km_ks[k_index];
    if (lane == 0) table->pivots[k_index] = pivot;
    for (int j = lane; j < k - 1; j += 32) {
        km_coefficients *to = km_coefficients_of(table, k_index) + j * LANES_PER_POINT;
        double squares = 0; // |c_j|^2 - |c_p|^2
        for (int f = 0; f < D; f++) {
            const double a = c[(j + (j >= pivot)) * D + f], b = c[pivot * D + f];
            to[f / LANE_D].factors[f % LANE_D] = (km_real)(a - b);
            squares = fma(a - b, a + b, squares);
        }
        to->constant = (km_real)(0 - 0.5 * squares); // not -0
        for (int lane = 1; lane < LANES_PER_POINT; lane++)
            to[lane].constant = 0; // the sum over the lanes has it once
    }
}

// ... 3 definitions

// Adds the columns of one slot over the blocks, and writes its totals. The pivot's are the sums over all points
// less those of the other clusters.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int k_index = blockIdx.x, k = km_ks[k_index], warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool idle = args.control->stop || !args.active[blockIdx.y * KS + k_index];
    km_table *table = km_table_of(args.workspace, args.constants, blockIdx.y);
    const int pivot = table->pivots[k_index];
    __shared__ double sums[K_MAX * CLUSTER_SUMS + D];
    const int own = (k - 1) * CLUSTER_SUMS; // columns of this K; those of the sums over all points follow
    // The last tile is padded with points at zero, whose scores are the constants.
    __shared__ km_real at_zero[K_MAX];
    const long long padding = (long long)km_tiles(args) * TILE - args.n;
    for (int j = threadIdx.x; j < k - 1; j += REDUCE)
        at_zero[j] = km_coefficients_of(table, k_index)[j * LANES_PER_POINT].constant;
    for (int c = warp; c < own + D; c += REDUCE / 32) {
        const double *column = km_column(args, c < own ? km_columns[k_index] + c : ALL_POINTS + c - own);
        double sum = 0;
        KM_UNROLL_FOR (int block = lane; block < GRID; block += 32) sum += column[block];
        for (int width = 16; width > 0; width /= 2) sum += __shfl_xor_sync(0xffffffff, sum, width);
        if (lane == 0) sums[c] = sum;
    }
    __syncthreads();
    if (idle) return; // asked this late, as nothing before waits for it
    if (threadIdx.x == 0 && padding > 0) {
        int nearest = 0; // the centroid nearest to zero; the pivot where all scores are below 0
        for (int j = 1; j < k - 1; j++) nearest = at_zero[j] > at_zero[nearest] ? j : nearest;
        if (k > 1 && at_zero[nearest] >= 0) sums[nearest * CLUSTER_SUMS + LANE_D * LANES_PER_POINT] -= (double)padding;
    }
    __syncthreads();
    double *totals = args.totals + ((long long)blockIdx.y * S + km_offsets[k_index]) * (D + 1);
    for (int i = threadIdx.x; i < k * (D + 1); i += REDUCE) {
        const int j = i / (D + 1), f = i % (D + 1);
        const int at = f < D ? f % LANE_D * LANES_PER_POINT + f / LANE_D
                             : LANE_D * LANES_PER_POINT; // index in the sums of a cluster
        if (j != pivot) {
            totals[i] = sums[(j - (j > pivot)) * CLUSTER_SUMS + at];
            continue;
        }
        double weight = (double)args.n;
        for (int other = 0; other < k - 1; other++) weight -= sums[other * CLUSTER_SUMS + LANE_D * LANES_PER_POINT];
        double rest = f < D ? sums[own + f] : weight;
        for (int other = 0; f < D && other < k - 1; other++) rest -= sums[other * CLUSTER_SUMS + at];
        totals[i] = weight > 0 ? rest : 0; // An empty cluster has no sum, whatever rounding left.
    }
}

// ... 2 definitions
