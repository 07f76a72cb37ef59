// Of the text of {features: 4, clusters: 3..5, target: cuda:sm_90} weighted tracked: The pass
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
    BLOCK = 384,                        // threads of a block
    GRID = 132,                         // blocks that share the points (blockIdx.x), for each restart (blockIdx.y)
    POINTS = 8,                         // points that a thread works on at a time
    WARPS = BLOCK / 32,                 // warps of a block
    VECTOR = 4,                         // numbers of one 16-byte load
    TILE = 256,                         // points that a warp works on at a time
    SPAN_POINTS = 32 * 24,              // the shortest span has so many points
    SPANS = 5461,                       // from twice as many of the shortest on there are longer ones
    LONGEST_SPAN = 65536 / SPAN_POINTS, // times as long as the shortest: for the accuracy of a lane's sums
    LOADS = 8,                          // loads of a thread from a tile
    LOAD_POINTS = 32,                   // points of a warp in one load
    STAGES = 2,                         // tiles of a warp in shared memory: one that is worked on, others that are being copied
    PIECES = 1,                         // 16-byte pieces that one thread loads: a row of shared memory
    COEFFICIENTS = 9,                   // of scores: for each centroid but the pivots
    COLUMNS = 52,                       // sums of a block
    ALL_POINTS = 48,                    // the first column of the sums over all points, which never change
    CLUSTER_SUMS = 5,                   // sums of one cluster, and its weight
    WARP_SUMS = 48,                     // sums of a warp, at most
    GATHERED = 32,                      // sums of each lane that are added over the warp at a time
    GATHERED_ROW = 36,                  // a row of them in shared memory: no bank conflicts
    REDUCE = 1024,                      // threads of a block of km_reduce
    EXACT_BITS = 10                     // coordinates of so many bits have exact scores
};

// ... 2 definitions

// The points that a thread works on.
struct km_points {
    km_real x[POINTS][D];
    km_real weight[POINTS]; // 0 for padding
    int label[POINTS];      // for the K that is worked on
};

// ... 2 definitions

// The points of a tile of one warp.
struct km_stage {
    km_vector pieces[LOADS * 32 * PIECES];
    __align__(16) km_real weights[LOADS][32];
};

// ... 19 definitions

// The thread's first point of a tile.
static __device__ __forceinline__ long long km_first_point(int tile) {
    const int lane = threadIdx.x % 32;
    return (long long)tile * TILE + lane;
}

// The index of point r of the thread, less that of its first point.
static __device__ __forceinline__ constexpr int km_point_offset(int r) {
    return r * LOAD_POINTS;
}

// ... 7 definitions

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
    const km_real *weights = (const km_real *)args.weights + first + lane;
    KM_UNROLL_FOR (int load = 0; load < LOADS; load += 1)
        km_copy_cached_if<4>(km_shared_address(&stage.weights[load][lane]),
                                          weights + load * LOAD_POINTS, true);
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
    const km_real *weights = (const km_real *)args.weights;
    KM_UNROLL_1_FOR (int load = 0; load < LOADS; load += 1) {
        const long long point = first + load * LOAD_POINTS + lane;
        km_copy_cached_if<4>(km_shared_address(&stage.weights[load][lane]),
                                          weights + (point < args.n ? point : 0), point < args.n);
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
        points.weight[load] = stage.weights[load][lane];
    }
}

// ... 1 definition

// Adds a point to the sums of a cluster where `found`. Predicated by hand: compilers would branch around a long body.
static __device__ __forceinline__ void km_add(float *sums, const float *x, float weight, bool found) {
    KM_UNROLL_FOR (int f = 0; f < D; f++)
        asm("{ .reg .pred found; setp.ne.s32 found, %3, 0; @found fma.rn.f32 %0, %1, %2, %0; }"
            : "+f"(sums[f])
            : "f"(weight), "f"(x[f]), "r"((int)found));
    asm("{ .reg .pred found; setp.ne.s32 found, %2, 0; @found add.f32 %0, %0, %1; }"
        : "+f"(sums[D])
        : "f"(weight), "r"((int)found));
}

// ... 2 definitions
// ... lines of a template
        points.label[p] = pivot;
        int taken = 0; // an earlier centroid has the best score: ties go to the lowest index
        KM_UNROLL_FOR (int j = 0; j < SCORES; j++) {
            const int found = km_is_best(__float_as_int(score[p][j]), best, taken);
            taken = j == 0 ? found : !km_is_other(__float_as_int(score[p][j]), best, taken);
            km_add(sums + j * (D + 1), points.x[p], points.weight[p], found);
            points.label[p] = found ? j + (j >= pivot) : points.label[p];
        }
        if (!taken) sums[SCORES * (D + 1)] += points.weight[p];
    }
}

// Labels are written four at a time: so many lanes exchange labels that each gets those of four adjacent points.
enum { EXCHANGE = 4 };

// The first of the four points whose labels the thread has after the exchange, of its own points p to p + 3.
static __device__ __forceinline__ long long km_packed_point(int tile, int p) {
    const int index = threadIdx.x % EXCHANGE;
    return km_first_point(tile) + index * 31 + km_point_offset(p);
}

// The labels of four adjacent points, a byte each.
static __device__ __forceinline__ unsigned km_pack_labels(const int *labels) {
    const int index = threadIdx.x % EXCHANGE;
    unsigned word = __byte_perm(__byte_perm(labels[0], labels[1], 0x0040),
                                __byte_perm(labels[2], labels[3], 0x0040), 0x5410);
    word =
        __byte_perm(word, __shfl_xor_sync(0xffffffff, word, 1), index & 1 ? 0x3715 : 0x6240);
    word = __byte_perm(word, __shfl_xor_sync(0xffffffff, word, 2),
                       index & 2 ? 0x3276 : 0x5410);
    return word;
}

// ... 1 definition

// Writes the labels of one slot where they changed, and returns how many did.
static __device__ __forceinline__ int km_write_labels(const km_points &points, const unsigned *before,
                                                      const km_pass_args &args, int tile, int slot) {
    unsigned *labels = (unsigned *)((km_label *)args.labels + slot * args.labels_stride);
    int changes = 0;
    KM_UNROLL_FOR (int p = 0; p < POINTS; p += 4) {
        const long long point = km_packed_point(tile, p), left = args.n - point;
        unsigned differ = km_pack_labels(points.label + p) ^ before[p / 4];
        if (left < 4) differ = left <= 0 ? 0 : differ & ((1u << 8 * left) - 1);
        if (differ) labels[point / 4] = before[p / 4] ^ differ;
        changes +=
            __popc((((differ & 0x7f7f7f7f) + 0x7f7f7f7f) | differ) & 0x80808080); // bytes that are not 0
    }
    return changes;
}

// ... 1 definition

// ==== Launch 0: the work on a tile =========================================================================
// Compiled apart: pass/launches/0
// What a thread of km_registers_0 keeps from tile to tile, for K = 3, 4, 5.
struct km_group_0 {
    km_real sums[48]; // of the clusters but the pivots
    bool active_3;
    unsigned before_3[POINTS / 4]; // labels of the pass before, of the next tile
    int changes_3;
    // ... 2 more of 3 lines, other numbers: 80499c2c
};

// ... 1 definition

// Reads the labels of a tile. Those of the next tile are read while one is worked on.
static __device__ __forceinline__ void km_read_labels(km_group_0 &group, const km_pass_args &args,
                                                      int tile) {
    if (group.active_3) km_read_labels(group.before_3, args, tile, blockIdx.y * KS + 0);
    // ... 2 more, other numbers: 78c0c6e2
}

// Labels and adds the points of a tile, one K after the other.
static __device__ __forceinline__ void km_process_tile(km_group_0 &group, km_points &points,
                                                       const km_pass_args &args, const km_table &table,
                                                       int tile, int next) {
    const km_coefficients *coefficients = table.coefficients;
    if (group.active_3) {
        km_assign<2>(points, coefficients + 0, table.pivots[0],
                             group.sums + 0);
        const int slot = blockIdx.y * KS + 0;
        group.changes_3 += km_write_labels(points, group.before_3, args, tile, slot);
        if (next < km_tiles(args)) km_read_labels(group.before_3, args, next, slot);
    }
    // ... 2 more of 7 lines, other numbers: 5e4661cb
}

// ... 1 definition

static __device__ __forceinline__ void km_add_changes(km_group_0 &group, const km_pass_args &args) {
    if (group.changes_3)
        atomicAdd(args.changes + blockIdx.y * KS + 0, (unsigned long long)group.changes_3);
    // ... 2 more of 2 lines, other numbers: f0e04131
}

// ... 1 definition

// Processes the spans of a warp. False when there is nothing to do.
template <typename GROUP>
static __device__ __forceinline__ bool km_process_spans(const km_pass_args &args, km_block &shared) {
    const int tiles = km_tiles(args), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    km_place place = km_first_place(args);
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

// ... 9 definitions

static __device__ __forceinline__ void km_find_units(km_units &units, const km_pass_args &args) {
    double most = 1;
    const double points =
        (double)((args.n + SPAN_POINTS - 1) / SPAN_POINTS * SPAN_POINTS); // with padding, at most
    for (int i = 0; i < 2 * D; i++) most = fmax(most, fabs(args.box[i]));
    const double weight = __longlong_as_double((long long)units.weight_most);
    const int exponent = km_exponent(most) + km_exponent(points) + km_exponent(weight);
    // ... lines of a template
                sum = fma(x, (double)((const km_real *)args.weights)[point], sum);
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
    const int own = (k - 1) * CLUSTER_SUMS +
                    1; // columns of this K; those of the sums over all points follow
    // ... lines of a template
    double *totals = args.totals + ((long long)blockIdx.y * S + km_offsets[k_index]) * (D + 1);
    for (int i = threadIdx.x; i < k * (D + 1); i += REDUCE) {
        const int j = i / (D + 1), f = i % (D + 1);
        if (j != pivot) {
            totals[i] = km_sum_value(sums[(j - (j > pivot)) * CLUSTER_SUMS + f], units);
            continue;
        }
        km_sum weight = sums[(k - 1) * CLUSTER_SUMS];
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
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, 5, WORKSPACE_BYTES, 0, 1};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_weigh_points", KM_STAGE_LOAD, GRID, 1, 256, 0, 0},
    {"km_sum_points", KM_STAGE_LOAD, GRID, RESTARTS, 256, 0, 0},
    {"km_prepare_coefficients", KM_STAGE_BEGIN, KS, RESTARTS, 32, 0, 0},
    {"km_registers_0", KM_STAGE_PASS, GRID, RESTARTS, BLOCK, sizeof(km_block), 0},
    {"km_reduce", KM_STAGE_PASS, KS, RESTARTS, REDUCE, 0, 0},
};
}
