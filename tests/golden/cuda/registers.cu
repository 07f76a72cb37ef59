// Of the text of {features: 4, clusters: 3..5, target: cuda:sm_90}: The pass
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
    BLOCK = 512,                        // threads of a block
    GRID = 132,                         // blocks that share the points (blockIdx.x), for each restart (blockIdx.y)
    POINTS = 8,                         // points that a thread works on at a time
    WARPS = BLOCK / 32,                 // warps of a block
    VECTOR = 4,                         // numbers of one 16-byte load
    TILE = 256,                         // points that a warp works on at a time
    SPAN_POINTS = 32 * 24,              // the shortest span has so many points
    SPANS = 5461,                       // from twice as many of the shortest on there are longer ones
    LONGEST_SPAN = 65536 / SPAN_POINTS, // times as long as the shortest: for the accuracy of a lane's sums
    LOADS = 8,                          // loads of a thread from a tile
    STAGES = 2,                         // tiles of a warp in shared memory: one that is worked on, others that are being copied
    PIECES = 1,                         // 16-byte pieces that one thread loads: a row of shared memory
    COEFFICIENTS = 9,                   // of scores: for each centroid but the pivots
    COLUMNS = 49,                       // sums of a block
    ALL_POINTS = 45,                    // the first column of the sums over all points, which never change
    CLUSTER_SUMS = 5,                   // sums of one cluster, and its weight
    WARP_SUMS = 45,                     // sums of a warp, at most
    GATHERED = 32,                      // sums of each lane that are added over the warp at a time
    GATHERED_ROW = 36,                  // a row of them in shared memory: no bank conflicts
    REDUCE = 1024,                      // threads of a block of km_reduce
    EXACT_BITS = 10                     // coordinates of so many bits have exact scores
};

// ... 2 definitions

// The points that a thread works on.
struct km_points {
    km_real x[POINTS][D];
};

// Coefficients of a score: it is constant + x . factors. It is 0 where the centroid and its pivot are equally near.
struct __align__(16) km_coefficients {
    km_real factors[D];
    km_real constant;
};

// The coefficients of all scores; computed again after each update.
struct km_table {
    km_coefficients coefficients[COEFFICIENTS]; // of each centroid but the pivots
    int pivots[KS];
};
__constant__ km_table km_constants;

// The points of a tile of one warp.
struct km_stage {
    km_vector pieces[LOADS * 32 * PIECES];
};

// ... 4 definitions

// What the threads of a block share.
struct km_block {
    km_stage ring[WARPS][STAGES];
    __align__(16) km_real gathered[BLOCK / 32][GATHERED][GATHERED_ROW]; // of a warp
    km_sum warp_sums[BLOCK / 32][WARP_SUMS];
};

// Each sum of a block has a column. For each K: D sums and the weight of each cluster but the pivot. At the end: the
// sums over all points. This is the first column of each K.
__device__ const int km_columns[KS] = {
    0,
    // ... 2 more, other numbers: 23149244
};

// The workspace holds the units; then, for each column, one sum of each block.
static __device__ __forceinline__ km_units &km_units_in(const km_pass_args &args) {
    return *(km_units *)args.workspace;
}

static __device__ __forceinline__ km_sum *km_column(const km_pass_args &args, int column) {
    return (km_sum *)(&km_units_in(args) + 1) + (long long)column * GRID;
}

// The table as kernels between two passes write it: constant memory has an address, too.
static __device__ __forceinline__ km_table *km_table_of(void *workspace, void *const *constants,
                                                        int restart) {
    return (km_table *)constants[0];
}

// The coefficients of one K.
static __device__ __forceinline__ km_coefficients *km_coefficients_of(km_table *table, int k_index) {
    return table->coefficients + km_offsets[k_index] - k_index;
}

// ... 3 definitions

// The span that a warp has behind `span`, every WARPS * GRID-th one. Warps that have one large span less have small
// ones in its place first.
static __device__ __forceinline__ int km_span_behind(const km_spans &spans, int span) {
    constexpr int WARPS_ALL = WARPS * GRID;
    const int own = threadIdx.x / 32 * GRID + blockIdx.x, more = spans.large % WARPS_ALL;
    const int in_place = spans.large + (own - more) * spans.small_of_large;
    const int others = spans.large + (more ? (WARPS_ALL - more) * spans.small_of_large : 0);
    if (span + WARPS_ALL < spans.large) return span + WARPS_ALL;
    if (span < spans.large) return more && own >= more ? in_place : others + own;
    if (span >= others) return span + WARPS_ALL;
    return span + 1 < in_place + spans.small_of_large ? span + 1 : others + own;
}

// ... 3 definitions

static __device__ __forceinline__ km_place km_first_place(const km_pass_args &args) {
    return km_place_behind(args, (int)(threadIdx.x / 32 * GRID + blockIdx.x) - WARPS * GRID);
}

// ... 1 definition

// ==== What the launches of a pass share ====================================================================
// Compiled apart: pass/launches
static __device__ __forceinline__ unsigned km_shared_address(const void *at) {
    return (unsigned)__cvta_generic_to_shared(at);
}

// ... 5 definitions

// Starts to copy a full tile: the points of one warp.
static __device__ __forceinline__ void km_copy_whole_tile(km_stage &stage, const km_pass_args &args,
                                                          int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = (long long)tile * TILE;
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D) + lane;
    KM_UNROLL_FOR (int i = 0; i < LOADS * PIECES; i++) {
        const unsigned piece = i * 32;
        km_copy_16_if(km_shared_address(&stage.pieces[piece + lane]), from + piece, true);
    }
}

// The same for the last tile, where it is not full: zeros past the last point.
static __device__ __forceinline__ void km_copy_last_tile(km_stage &stage, const km_pass_args &args,
                                                         int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = (long long)tile * TILE;
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D);
    KM_UNROLL_1_FOR (unsigned piece = 0; piece < 32 * LOADS * PIECES; piece += 32) {
        const unsigned row = (piece + lane) / PIECES;
        const bool valid = first + row < args.n;
        km_copy_16_if(km_shared_address(&stage.pieces[piece + lane]), valid ? from + piece + lane : from,
                      valid);
    }
}

// ... 2 definitions

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
            KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
        }
    }
}

// The scores of the thread's points against the centroids of a K but its pivot; there are SCORES of them.
template <int SCORES>
static __device__ __forceinline__ void km_scores(km_real (&score)[POINTS][SCORES], const km_points &points,
                                                 const km_coefficients *coefficients) {
    KM_UNROLL_FOR (int j = 0; j < SCORES; j++) {
        const km_coefficients &of_j = coefficients[j];
        KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
            score[p][j] = of_j.constant;
            KM_UNROLL_FOR (int f = 0; f < D; f++)
                score[p][j] = fma(points.x[p][f], of_j.factors[f], score[p][j]);
        }
    }
}

// Adds a point to the sums of a cluster where `found`. Predicated by hand: compilers would branch around a long body.
static __device__ __forceinline__ void km_add(float *sums, const float *x, bool found) {
    KM_UNROLL_FOR (int f = 0; f < D; f++)
        asm("{ .reg .pred found; setp.ne.s32 found, %2, 0; @found add.f32 %0, %0, %1; }"
            : "+f"(sums[f])
            : "f"(x[f]), "r"((int)found));
    asm("{ .reg .pred found; setp.ne.s32 found, %1, 0; @found add.f32 %0, %0, 0f3f800000; }" // 1.0
        : "+f"(sums[D])
        : "r"((int)found));
}

// ... 2 definitions
// ... lines of a template
        int taken = 0; // an earlier centroid has the best score: ties go to the lowest index
        KM_UNROLL_FOR (int j = 0; j < SCORES; j++) {
            const int found = km_is_best(__float_as_int(score[p][j]), best, taken);
            taken = j == 0 ? found : !km_is_other(__float_as_int(score[p][j]), best, taken);
            km_add(sums + j * (D + 1), points.x[p], found);
        }
    }
}

// ... lines of a template
            const float4 *from = (const float4 *)(gathered[lane] + part * 8);
            const float4 a = from[0], b = from[1];
            parts[part] = (double)(((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w)));
        }
        added[t] = (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
    km_sum numbers[TIMES];
    KM_UNROLL_FOR (int t = 0; t < TIMES; t++) numbers[t] = km_sum_of(added[t], per_one);
    KM_UNROLL_FOR (int t = 0; t < TIMES; t++) {
        if (t * 32 + lane < COUNT) km_sum_add(out[t * 32 + lane], numbers[t]);
    }
}

// ==== Launch 0: the work on a tile =========================================================================
// Compiled apart: pass/launches/0
// What a thread of km_registers_0 keeps from tile to tile, for K = 3, 4, 5.
struct km_group_0 {
    km_real sums[45]; // of the clusters but the pivots
    bool active_3;
    // ... 2 more, other numbers: 5c144427
};

// Clears the sums; finds out which K are active.
static __device__ __forceinline__ void km_begin(km_group_0 &group, const km_pass_args &args) {
    group = {};
    group.active_3 = args.active[blockIdx.y * KS + 0];
    // ... 2 more, other numbers: 1173139d
}

// Labels and adds the points of a tile, one K after the other.
static __device__ __forceinline__ void km_process_tile(km_group_0 &group, km_points &points,
                                                       const km_pass_args &args, const km_table &table,
                                                       int tile, int next) {
    const km_coefficients *coefficients = table.coefficients;
    if (group.active_3) {
        km_assign<2>(points, coefficients + 0, table.pivots[0],
                             group.sums + 0);
    }
    // ... 2 more of 4 lines, other numbers: 3450fabf
}

// Adds the thread's sums, which are those of its points of a span, to the warp's.
static __device__ __forceinline__ void km_flush(km_group_0 &group, km_block &shared, double per_one) {
    const int warp = threadIdx.x / 32;
    km_add_lanes<45>(group.sums, shared.gathered[warp], shared.warp_sums[warp], per_one);
    KM_UNROLL_FOR (int i = 0; i < 45; i++) group.sums[i] = 0;
}

// ==== The loop over tiles ==================================================================================
// Compiled apart: pass/launches
// ... lines of a template
    km_stage *ring = shared.ring[warp];
    KM_UNROLL_FOR (int i = 0; i < STAGES - 1; i++)
        km_copy_tile(ring[i], args, km_tile_ahead(place, i), tiles);
    int stage = 0;
    if (km_is_idle(args)) { // asked after the first copies, which do not wait for it
        km_copy_wait_all();
        return false;
    }
    for (int i = lane; i < WARP_SUMS; i += 32) shared.warp_sums[warp][i] = {};
    const km_table &table = km_constants;
    GROUP group;
    km_begin(group, args);
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
    return true;
}

// ... 1 definition

// ==== Launch 0 =============================================================================================
// Compiled apart: pass/launches/0
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_registers_0(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(128) unsigned char km_shared[];
    km_block &shared = *(km_block *)km_shared;
    if (!km_process_spans<km_group_0>(args, shared)) return;
    __syncthreads();
    km_write_block_sums(args, shared.warp_sums, 45, 0);
}

// ==== Coefficients, and the totals of a pass ===============================================================
// Compiled apart: pass/rest
// ... lines of a template
// ... 1 definition

// Writes the coefficients of one slot, by one warp. `c`: its centroids.
static __device__ __forceinline__ void km_write_coefficients(km_table *table, const km_real *c, int pivot,
                                                             int k_index) {
    const int lane = threadIdx.x % 32, k = km_ks[k_index];
    if (lane == 0) table->pivots[k_index] = pivot;
    for (int j = lane; j < k - 1; j += 32) {
        km_coefficients *to = km_coefficients_of(table, k_index) + j;
        double squares = 0; // |c_j|^2 - |c_p|^2
        for (int f = 0; f < D; f++) {
            const double a = c[(j + (j >= pivot)) * D + f], b = c[pivot * D + f];
            to->factors[f] = (km_real)(a - b);
            squares = fma(a - b, a + b, squares);
        }
        to->constant = (km_real)(0 - 0.5 * squares); // not -0
    }
}

// Computes the coefficients of one slot, by one warp.
static __device__ void km_make_coefficients(void *workspace, void *const *constants, int restart,
                                            const km_real *c, const double *box, int k_index) {
    const int pivot = km_find_pivot(box, c, km_ks[k_index]);
    for (int i = 0; i < KM_CONSTANTS_MAX && constants[i]; i++)
        km_write_coefficients((km_table *)constants[i], c, pivot, k_index);
}

// ... 2 definitions

static __device__ __forceinline__ void km_find_units(km_units &units, const km_pass_args &args) {
    double most = 1;
    const double points =
        (double)((args.n + SPAN_POINTS - 1) / SPAN_POINTS * SPAN_POINTS); // with padding, at most
    for (int i = 0; i < 2 * D; i++) most = fmax(most, fabs(args.box[i]));
    const int exponent = km_exponent(most) + km_exponent(points);
    // ... lines of a template
                sum += x;
            // ... lines of a template
// ... 1 definition

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
        at_zero[j] = km_coefficients_of(table, k_index)[j].constant;
    // ... lines of a template
    if (threadIdx.x == 0 && padding > 0) {
        int nearest = 0; // the centroid nearest to zero; the pivot where all scores are below 0
        for (int j = 1; j < k - 1; j++) nearest = at_zero[j] > at_zero[nearest] ? j : nearest;
        if (k > 1 && at_zero[nearest] >= 0)
            sums[nearest * CLUSTER_SUMS + D].high -= km_sum_of((double)padding, units.per_one).high;
    }
    __syncthreads();
    double *totals = args.totals + ((long long)blockIdx.y * S + km_offsets[k_index]) * (D + 1);
    for (int i = threadIdx.x; i < k * (D + 1); i += REDUCE) {
        const int j = i / (D + 1), f = i % (D + 1);
        if (j != pivot) {
            totals[i] = km_sum_value(sums[(j - (j > pivot)) * CLUSTER_SUMS + f], units);
            continue;
        }
        km_sum weight = km_sum_of((double)args.n, units.per_one);
        for (int other = 0; other < k - 1; other++)
            weight.high -= sums[other * CLUSTER_SUMS + D].high;
        km_sum rest = f < D ? sums[own + f] : weight;
        for (int other = 0; f < D && other < k - 1; other++) {
            rest.high -= sums[other * CLUSTER_SUMS + f].high;
            rest.low -= sums[other * CLUSTER_SUMS + f].low;
        }
        // An empty cluster has no sum, whatever rounding left.
        totals[i] = km_sum_value(weight, units) > 0 ? km_sum_value(rest, units) : 0;
    }
}

// ... 1 definition

extern "C" {
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, 4, WORKSPACE_BYTES, 0, 1};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_sum_points", KM_STAGE_LOAD, GRID, RESTARTS, 256, 0, 0},
    {"km_prepare_coefficients", KM_STAGE_BEGIN, KS, RESTARTS, 32, 0, 0},
    {"km_registers_0", KM_STAGE_PASS, GRID, RESTARTS, BLOCK, sizeof(km_block), 0},
    {"km_reduce", KM_STAGE_PASS, KS, RESTARTS, REDUCE, 0, 0},
};
}
