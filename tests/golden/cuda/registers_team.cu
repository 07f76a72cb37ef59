// Of the text of {features: 4, clusters: 2..8, type: float64, target: cuda:sm_75} tracked: The pass
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
// TEAM lanes share a point: each has OWN of its features and their sums. Scores are added up over the team, so that
// all its lanes choose alike.
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
    GRID = 40,                  // blocks that share the points (blockIdx.x), for each restart in flight (blockIdx.y)
    POINTS = 4,                 // points that a thread works on at a time
    WARPS = BLOCK / 32,         // warps of a block
    TEAM = 2,                   // lanes that share a point
    OWN = 2,                    // features that a lane has of it
    VECTOR = 2,                 // numbers of one 16-byte load
    WARP_POINTS = 64,           // points that a warp works on at a time
    TILE = WARPS * WARP_POINTS, // points that a block works on at a time
    LOADS = 4,                  // loads of a thread from a tile
    LOAD_POINTS = 16,           // points of a warp in one load
    PLANES = 28,                // one for each centroid but the pivots
    COLUMNS = 172,              // sums of a block
    TOTALS = 168,               // the first of those over all points, which never change
    CLUSTER = 6,                // sums of one cluster, and its weight
    WARP_SUMS = 42,             // sums of a warp, at most
    GATHERED = 16,              // sums of a lane that are added up over the warp at a time
    REDUCE = 1024,              // threads of a block of km_reduce
    COARSE_BITS = 24            // bits of a coordinate such that scores come out exact
};

// ... 4 definitions

// What all scores are made of; made anew after each update.
struct km_table {
    km_plane planes[PLANES * TEAM]; // of each centroid but the pivots, those of a team's lanes side by side
    int pivots[KS];
};

// ... 10 definitions

// Reads what the thread has of the points that one load brings, from `point` on.
static __device__ __forceinline__ void km_load_points(km_points &points, const km_pass_args &args,
                                                      long long point, int load) {
    const km_real *x = (const km_real *)args.points + point * D + threadIdx.x % TEAM * OWN;
    KM_UNROLL_FOR (int v = 0; v < 1; v++) {
        const km_vector numbers = ((const km_vector *)x)[v];
        KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
    }
}

// Reads the thread's points of a tile; those past the end come from the padding rows, which are zero.
static __device__ __forceinline__ void km_load(km_points &points, const km_pass_args &args, int tile) {
    const long long first = km_first(tile);
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

// The scores of the thread's points against OTHERS centroids beside the pivot.
template <int OTHERS>
static __device__ __forceinline__ void km_scores(km_real (&score)[POINTS][OTHERS], const km_points &points,
                                                 const km_plane *planes) {
    KM_UNROLL_FOR (int j = 0; j < OTHERS; j++) {
        const km_plane &plane = planes[j * TEAM];
        KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
            score[p][j] = plane.constant;
            KM_UNROLL_FOR (int f = 0; f < OWN; f++)
                score[p][j] = fma(points.x[p][f], plane.factors[f], score[p][j]);
        }
    }
    // Both sides add the same two numbers: a team's lanes see the same bits.
    KM_UNROLL_FOR (int width = 1; width < TEAM; width *= 2) {
        KM_UNROLL_FOR (int j = 0; j < OTHERS; j++) {
            KM_UNROLL_FOR (int p = 0; p < POINTS; p++)
                score[p][j] += __shfl_xor_sync(0xffffffff, score[p][j], width);
        }
    }
}

// Adds a point to its sums where `found` holds. There are no predicated additions of doubles: a weight of 0 adds
// nothing.
static __device__ __forceinline__ void km_add(double *sums, int &count, const double *x, bool found) {
    const double weight = found ? 1 : 0;
    KM_UNROLL_FOR (int f = 0; f < OWN; f++) sums[f] = fma(weight, x[f], sums[f]);
    asm("{ .reg .pred found; setp.ne.s32 found, %1, 0; @found add.s32 %0, %0, 1; }"
        : "+r"(count)
        : "r"((int)found));
}

// ... 1 definition

// One K with OTHERS centroids beside the pivot: the nearest centroid of each point, and the sums.
template <int OTHERS>
static __device__ __forceinline__ void km_assign(km_points &points, const km_plane *planes, int pivot,
                                                 double *sums, int *counts) {
    double score[POINTS][OTHERS];
    km_scores<OTHERS>(score, points, planes);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        const int nearest = km_nearest<OTHERS>(score[p]);
        KM_UNROLL_FOR (int j = 0; j < OTHERS; j++)
            km_add(sums + j * (OWN + 1), counts[j], points.x[p], nearest == j);
        points.label[p] = nearest == OTHERS ? pivot : nearest + (nearest >= pivot);
    }
}

// ... 4 definitions

// Writes the labels of one slot where they changed and returns how many did.
static __device__ __forceinline__ int km_write_labels(const km_points &points, const unsigned *before,
                                                      const km_pass_args &args, int tile, int slot) {
    unsigned *labels = (unsigned *)((km_label *)args.labels + slot * args.labels_stride);
    int changes = 0;
    KM_UNROLL_FOR (int p = 0; p < POINTS; p += 4) {
        const long long point = km_gathered(tile, p), left = args.n - point;
        unsigned differ = km_gather(points.label + p) ^ before[p / 4];
        if (left < 4) differ = left <= 0 ? 0 : differ & ((1u << 8 * left) - 1);
        if (threadIdx.x % TEAM) continue; // one lane of a team is enough
        if (differ) labels[point / 4] = before[p / 4] ^ differ;
        changes +=
            __popc((((differ & 0x7f7f7f7f) + 0x7f7f7f7f) | differ) & 0x80808080); // bytes that are not 0
    }
    return changes;
}

// ... 1 definition

// What a thread of km_registers_0 keeps from tile to tile, for K = 8.
struct km_group_0 {
    km_real sums[21]; // of the clusters but the pivots
    int counts[7];
    bool active_8;
    unsigned before_8[POINTS / 4]; // labels of the pass before
    int changes_8;
};

// ... 2 definitions

// Works on the points of a tile, one K after the other.
static __device__ __forceinline__ void km_work(km_group_0 &group, km_points &points,
                                               const km_pass_args &args, const km_table &table, int tile) {
    asm volatile("" ::: "memory"); // the planes are read again: there are no registers to keep them in
    const km_plane *planes = table.planes + threadIdx.x % TEAM;
    if (group.active_8) {
        km_assign<7>(points, planes + 42, table.pivots[6], group.sums + 0,
                             group.counts + 0);
        const int slot = blockIdx.y * KS + 6;
        group.changes_8 += km_write_labels(points, group.before_8, args, tile, slot);
        if (tile + GRID < km_tiles(args)) km_read_labels(group.before_8, args, tile + GRID, slot);
    }
}

// Lets the thread's sums join the warp's.
static __device__ __forceinline__ void km_flush(km_group_0 &group, km_block &shared) {
    KM_UNROLL_FOR (int j = 0; j < 7; j++)
        group.sums[0 + j * (OWN + 1) + OWN] = group.counts[0 + j];
    const int warp = threadIdx.x / 32;
    km_add_lanes<21>(group.sums, shared.gathered[warp], shared.warp_sums[warp]);
}

// ... 20 definitions

// A block's share of a launch: every GRID-th tile. False when there is nothing to do.
template <typename GROUP>
static __device__ __forceinline__ bool km_walk(const km_pass_args &args, km_block &shared) {
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
        km_load(points, args, tile);
        km_work(group, points, args, table, tile);
    }
    km_flush(group, shared);
    km_end(group, args);
    return true;
}

// ... 7 definitions

// One warp makes the planes of one slot. `c`: its centroids.
static __device__ void km_make_planes(km_table *table, const km_real *c, const double *box, int k_index) {
    const int lane = threadIdx.x % 32, k = km_ks[k_index], pivot = km_find_pivot(box, c, k);
    if (lane == 0) table->pivots[k_index] = pivot;
    for (int j = lane; j < k - 1; j += 32) {
        km_plane *plane = km_planes_of(table, k_index) + j * TEAM;
        double squares = 0; // |c_j|^2 - |c_p|^2
        for (int f = 0; f < D; f++) {
            const double a = c[(j + (j >= pivot)) * D + f], b = c[pivot * D + f];
            plane[f / OWN].factors[f % OWN] = (km_real)(a - b);
            squares = fma(a - b, a + b, squares);
        }
        plane->constant = (km_real)(0 - 0.5 * squares); // not -0
        for (int lane = 1; lane < TEAM; lane++) plane[lane].constant = 0; // it counts once
    }
}

// ... 2 definitions

// Adds up the columns of one slot over the blocks and writes its totals; the pivot gets what the others leave.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int k_index = blockIdx.x, k = km_ks[k_index], warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool idle = args.control->stop || !args.active[blockIdx.y * KS + k_index];
    km_table *table = km_table_of(args.workspace, args.constants, blockIdx.y);
    const int pivot = table->pivots[k_index];
    __shared__ double sums[K_MAX * CLUSTER + D];
    const int own = (k - 1) * CLUSTER; // columns of this K; those over all points follow
    // The last tile is filled up with points at zero, whose scores are the constants.
    __shared__ km_real at_zero[K_MAX];
    const long long padding = (long long)km_tiles(args) * TILE - args.n;
    for (int j = threadIdx.x; j < k - 1; j += REDUCE)
        at_zero[j] = km_planes_of(table, k_index)[j * TEAM].constant;
    for (int c = warp; c < own + D; c += REDUCE / 32) {
        const double *column = km_column(args, c < own ? km_columns[k_index] + c : TOTALS + c - own);
        double sum = 0;
        KM_UNROLL_FOR (int block = lane; block < GRID; block += 32) sum += column[block];
        for (int width = 16; width > 0; width /= 2) sum += __shfl_xor_sync(0xffffffff, sum, width);
        if (lane == 0) sums[c] = sum;
    }
    __syncthreads();
    if (idle) return; // only now, so that nothing waits for the answer
    if (threadIdx.x == 0 && padding > 0) {
        int nearest = 0; // the first of the largest, or none where all are below the pivot's 0
        for (int j = 1; j < k - 1; j++) nearest = at_zero[j] > at_zero[nearest] ? j : nearest;
        if (k > 1 && at_zero[nearest] >= 0) sums[nearest * CLUSTER + OWN * TEAM] -= (double)padding;
    }
    __syncthreads();
    double *totals = args.totals + ((long long)blockIdx.y * S + km_offsets[k_index]) * (D + 1);
    for (int i = threadIdx.x; i < k * (D + 1); i += REDUCE) {
        const int j = i / (D + 1), f = i % (D + 1);
        const int at = f < D ? f % OWN * TEAM + f / OWN : OWN * TEAM; // in the sums of a cluster
        if (j != pivot) {
            totals[i] = sums[(j - (j > pivot)) * CLUSTER + at];
            continue;
        }
        double weight = (double)args.n;
        for (int other = 0; other < k - 1; other++) weight -= sums[other * CLUSTER + OWN * TEAM];
        double rest = f < D ? sums[own + f] : weight;
        for (int other = 0; f < D && other < k - 1; other++) rest -= sums[other * CLUSTER + at];
        totals[i] = weight > 0 ? rest : 0; // What rounding leaves of an empty cluster is nothing.
    }
}

// ... 2 definitions
