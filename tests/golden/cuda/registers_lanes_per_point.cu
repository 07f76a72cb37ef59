// Of the text of {features: 4, clusters: 2..8, type: float64, target: cuda:sm_75} tracked: The pass
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
// LANES_PER_POINT lanes share a point: each has LANE_D of its features and their sums. A score is the sum over these
// lanes, so that all of them find the same nearest centroid.
//
// ... lines of a template
    BLOCK = 256,                        // threads of a block
    GRID = 40,                          // blocks that share the points (blockIdx.x), for each restart (blockIdx.y)
    POINTS = 4,                         // points that a thread works on at a time
    WARPS = BLOCK / 32,                 // warps of a block
    LANES_PER_POINT = 2,                // lanes that share a point
    LANE_D = 2,                         // features of it that a lane has
    VECTOR = 2,                         // numbers of one 16-byte load
    TILE = 64,                          // points that a warp works on at a time
    SPAN_POINTS = 32 * 24,              // the shortest span has so many points
    SPANS = 5461,                       // from twice as many of the shortest on there are longer ones
    LONGEST_SPAN = 65536 / SPAN_POINTS, // times as long as the shortest: for the accuracy of a lane's sums
    LOADS = 4,                          // loads of a thread from a tile
    LOAD_POINTS = 16,                   // points of a warp in one load
    COEFFICIENTS = 28,                  // of scores: for each centroid but the pivots
    COLUMNS = 172,                      // sums of a block
    ALL_POINTS = 168,                   // the first column of the sums over all points, which never change
    CLUSTER_SUMS = 6,                   // sums of one cluster, and its weight
    WARP_SUMS = 42,                     // sums of a warp, at most
    GATHERED = 16,                      // sums of each lane that are added over the warp at a time
    GATHERED_ROW = 33,                  // a row of them in shared memory: no bank conflicts
    REDUCE = 1024,                      // threads of a block of km_reduce
    EXACT_BITS = 24                     // coordinates of so many bits have exact scores
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

// ... 22 definitions

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

// ... lines of a template
            constexpr int NUMBERS = 8 / LANES_PER_POINT;
            const km_real *from = gathered[lane / LANES_PER_POINT] + lane % LANES_PER_POINT + part * 8;
            km_real sum = from[0];
            KM_UNROLL_FOR (int i = 1; i < NUMBERS; i++) sum += from[i * LANES_PER_POINT];
            parts[part] = (double)sum;
        }
        added[t] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
    km_sum numbers[TIMES];
    KM_UNROLL_FOR (int t = 0; t < TIMES; t++) numbers[t] = km_sum_of(added[t], per_one);
    KM_UNROLL_FOR (int t = 0; t < TIMES; t++) {
        if (t * GATHERED + lane / LANES_PER_POINT < COUNT) km_sum_add(out[t * 32 + lane], numbers[t]);
    }
}

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
                                                       int tile, int next) {
    asm volatile("" ::: "memory"); // the coefficients are read again: there are no registers to keep them in
    const km_coefficients *coefficients = table.coefficients + threadIdx.x % LANES_PER_POINT;
    if (group.active_8) {
        km_assign<7>(points, coefficients + 42, table.pivots[6],
                             group.sums + 0, group.counts + 0);
        const int slot = blockIdx.y * KS + 6;
        group.changes_8 += km_write_labels(points, group.before_8, args, tile, slot);
        if (next < km_tiles(args)) km_read_labels(group.before_8, args, next, slot);
    }
}

// Adds the thread's sums, which are those of its points of a span, to the warp's.
static __device__ __forceinline__ void km_flush(km_group_0 &group, km_block &shared, double per_one) {
    KM_UNROLL_FOR (int j = 0; j < 7; j++)
        group.sums[0 + j * (LANE_D + 1) + LANE_D] = group.counts[0 + j];
    const int warp = threadIdx.x / 32;
    km_add_lanes<21>(group.sums, shared.gathered[warp], shared.warp_sums[warp], per_one);
    KM_UNROLL_FOR (int i = 0; i < 21; i++) group.sums[i] = 0;
    KM_UNROLL_FOR (int i = 0; i < 7; i++) group.counts[i] = 0;
}

// ... 20 definitions

// Processes the spans of a warp. False when there is nothing to do.
template <typename GROUP>
static __device__ __forceinline__ bool km_process_spans(const km_pass_args &args, km_block &shared) {
    const int tiles = km_tiles(args), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    km_place place = km_first_place(args);
    if (km_is_idle(args)) return false;
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
        km_load_tile(points, args, place.tile);
        km_process_tile(group, points, args, table, place.tile, km_tile_ahead(place, 1));
        place.tile++;
        if (--place.left > 0 && place.tile < tiles) continue;
        km_flush(group, shared, km_units_in(args).per_one);
        place = km_place_behind(args, place.span);
    }
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

// ... 6 definitions

// Adds the columns of one slot over the blocks, and writes its totals. The pivot's are the sums over all points
// less those of the other clusters.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int k_index = blockIdx.x, k = km_ks[k_index], warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool idle = args.control->stop || !args.active[blockIdx.y * KS + k_index];
    km_table *table = km_table_of(args.workspace, args.constants, blockIdx.y);
    const int pivot = table->pivots[k_index];
    const km_units units = km_units_in(args);
    __shared__ km_sum sums[K_MAX * CLUSTER_SUMS + D];
    const int own = (k - 1) * CLUSTER_SUMS; // columns of this K; those of the sums over all points follow
    // The last tile is padded with points at zero, whose scores are the constants.
    __shared__ km_real at_zero[K_MAX];
    const long long padding = (long long)km_tiles(args) * TILE - args.n;
    for (int j = threadIdx.x; j < k - 1; j += REDUCE)
        at_zero[j] = km_coefficients_of(table, k_index)[j * LANES_PER_POINT].constant;
    // ... lines of a template
    if (threadIdx.x == 0 && padding > 0) {
        int nearest = 0; // the centroid nearest to zero; the pivot where all scores are below 0
        for (int j = 1; j < k - 1; j++) nearest = at_zero[j] > at_zero[nearest] ? j : nearest;
        if (k > 1 && at_zero[nearest] >= 0)
            sums[nearest * CLUSTER_SUMS + LANE_D * LANES_PER_POINT].high -= km_sum_of((double)padding, units.per_one).high;
    }
    __syncthreads();
    double *totals = args.totals + ((long long)blockIdx.y * S + km_offsets[k_index]) * (D + 1);
    for (int i = threadIdx.x; i < k * (D + 1); i += REDUCE) {
        const int j = i / (D + 1), f = i % (D + 1);
        const int at = f < D ? f % LANE_D * LANES_PER_POINT + f / LANE_D
                             : LANE_D * LANES_PER_POINT; // index in the sums of a cluster
        if (j != pivot) {
            totals[i] = km_sum_value(sums[(j - (j > pivot)) * CLUSTER_SUMS + at], units);
            continue;
        }
        km_sum weight = km_sum_of((double)args.n, units.per_one);
        for (int other = 0; other < k - 1; other++)
            weight.high -= sums[other * CLUSTER_SUMS + LANE_D * LANES_PER_POINT].high;
        km_sum rest = f < D ? sums[own + f] : weight;
        for (int other = 0; f < D && other < k - 1; other++) {
            rest.high -= sums[other * CLUSTER_SUMS + at].high;
            rest.low -= sums[other * CLUSTER_SUMS + at].low;
        }
        // An empty cluster has no sum, whatever rounding left.
        totals[i] = km_sum_value(weight, units) > 0 ? km_sum_value(rest, units) : 0;
    }
}

// ... 2 definitions
