// Of the text of {features: 4, clusters: 3..5, target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows.

// ==== The pass =============================================================================================
#define KM_UNROLL_FOR(...) _Pragma("unroll") for (__VA_ARGS__)
#define KM_UNROLL_1_FOR(...) _Pragma("unroll 1") for (__VA_ARGS__)

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
    BLOCK = 512,                // threads of a block
    GRID = 132,                 // blocks that share the points (blockIdx.x), for each restart in flight (blockIdx.y)
    POINTS = 8,                 // points that a thread works on at a time
    WARPS = BLOCK / 32,         // warps of a block
    VECTOR = 4,                 // numbers of one 16-byte load
    WARP_POINTS = 256,          // points that a warp works on at a time
    TILE = WARPS * WARP_POINTS, // points that a block works on at a time
    FLUSH = 256,                // tiles of a block after which sums join the doubles, a power of two
    LOADS = 8,                  // loads of a thread from a tile
    STAGES = 2,                 // tiles of a warp in shared memory: one that is worked on, the others on their way
    PIECES = 1,                 // 16-byte pieces of a load of one thread, a row
    PLANES = 9,                 // one for each centroid but the pivots
    COLUMNS = 49,               // sums of a block
    TOTALS = 45,                // the first of those over all points, which never change
    CLUSTER = 5,                // sums of one cluster, and its weight
    WARP_SUMS = 45,             // sums of a warp, at most
    GATHERED = 32,              // sums of a lane that are added up over the warp at a time
    REDUCE = 1024,              // threads of a block of km_reduce
    COARSE_BITS = 10            // bits of a coordinate such that scores come out exact
};

// ... 2 definitions

// The points that a thread works on.
struct km_points {
    km_real x[POINTS][D];
};

// What a score is made of: it is constant + x . factors. Halfway between a centroid and its pivot lies the plane on
// which that is 0.
struct __align__(16) km_plane {
    km_real factors[D];
    km_real constant;
};

// What all scores are made of; made anew after each update.
struct km_table {
    km_plane planes[PLANES]; // of each centroid but the pivots
    int pivots[KS];
};
__constant__ km_table km_constants;

// A tile's points of one warp.
struct km_stage {
    km_vector pieces[LOADS * 32 * PIECES];
};

// What the threads of a block share.
struct km_block {
    km_stage ring[WARPS][STAGES];
    km_real gathered[BLOCK / 32][GATHERED][33]; // of a warp; rows of 33: its lanes meet in no bank
    double warp_sums[BLOCK / 32][WARP_SUMS];
};

// Sums of a block lie in columns: for each K those of its clusters but the pivot, D sums and the weight each; at the
// end those over all points. Here is the first column of each K.
__device__ const int km_columns[KS] = {
    0,
    10,
    25,
};

// The workspace has for each column one number of each block.
static __device__ __forceinline__ double *km_column(const km_pass_args &args, int column) {
    return (double *)args.workspace + (long long)column * GRID;
}

// The table, to be written: constant memory has an address, too, by which kernels between two passes write it.
static __device__ __forceinline__ km_table *km_table_of(void *workspace, void *constants, int copy) {
    return (km_table *)constants;
}

// The planes of one K.
static __device__ __forceinline__ km_plane *km_planes_of(km_table *table, int k_index) {
    return table->planes + km_offsets[k_index] - k_index;
}

// ... 1 definition

// The warp's first point of a tile.
static __device__ __forceinline__ long long km_first_of_warp(int tile) {
    return (long long)tile * TILE + threadIdx.x / 32 * WARP_POINTS;
}

// ... 6 definitions

// Starts to copy a whole tile's points of one warp.
static __device__ __forceinline__ void km_fetch_whole(km_stage &stage, const km_pass_args &args, int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = km_first_of_warp(tile);
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D) + lane;
    KM_UNROLL_FOR (int i = 0; i < LOADS * PIECES; i++) {
        const unsigned piece = i * 32;
        km_copy_16_if(km_shared_address(&stage.pieces[piece + lane]), from + piece, true);
    }
}

// The same for the last tile, where it is not a whole one: zeros past the last point.
static __device__ __forceinline__ void km_fetch_last(km_stage &stage, const km_pass_args &args, int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = km_first_of_warp(tile);
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D);
    KM_UNROLL_1_FOR (unsigned piece = 0; piece < 32 * LOADS * PIECES; piece += 32) {
        const unsigned row = (piece + lane) / PIECES;
        const bool valid = first + row < args.n;
        km_copy_16_if(km_shared_address(&stage.pieces[piece + lane]), valid ? from + piece + lane : from,
                      valid);
    }
}

// ... 2 definitions

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
            KM_UNROLL_FOR (int i = 0; i < VECTOR; i++) points.x[load][v * VECTOR + i] = numbers.at[i];
        }
    }
}

// The scores of the thread's points against OTHERS centroids beside the pivot.
template <int OTHERS>
static __device__ __forceinline__ void km_scores(km_real (&score)[POINTS][OTHERS], const km_points &points,
                                                 const km_plane *planes) {
    KM_UNROLL_FOR (int j = 0; j < OTHERS; j++) {
        const km_plane &plane = planes[j];
        KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
            score[p][j] = plane.constant;
            KM_UNROLL_FOR (int f = 0; f < D; f++)
                score[p][j] = fma(points.x[p][f], plane.factors[f], score[p][j]);
        }
    }
}

// Adds a point to its sums where `found` holds. Predicated by hand, as compilers branch around long bodies.
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

// One K with OTHERS centroids beside the pivot: the nearest centroid of each point, and the sums.
//
// Scores are compared as integers, of which three are compared at a time: floats that are not negative are in the order
// of their bits, and negative ones are negative there too. No score is -0, as no plane's constant is.
template <int OTHERS>
static __device__ __forceinline__ void km_assign(km_points &points, const km_plane *planes, int pivot,
                                                 float *sums) {
    float score[POINTS][OTHERS];
    km_scores<OTHERS>(score, points, planes);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        int best = 0; // the pivot's
        KM_UNROLL_FOR (int j = 0; j < OTHERS; j++) best = max(best, __float_as_int(score[p][j]));
        int taken = 0; // a centroid before this one has the best score: ties go to the lowest number
        KM_UNROLL_FOR (int j = 0; j < OTHERS; j++) {
            const int found = km_is_best(__float_as_int(score[p][j]), best, taken);
            taken = j == 0 ? found : !km_is_other(__float_as_int(score[p][j]), best, taken);
            km_add(sums + j * (D + 1), points.x[p], found);
        }
    }
}

// ... 1 definition

// What a thread of km_registers_0 keeps from tile to tile, for K = 3, 4, 5.
struct km_group_0 {
    km_real sums[45]; // of the clusters but the pivots
    bool active_3;
    bool active_4;
    bool active_5;
};

// Empty sums, and which K are active.
static __device__ __forceinline__ void km_begin(km_group_0 &group, const km_pass_args &args) {
    group = {};
    group.active_3 = args.active[blockIdx.y * KS + 0];
    group.active_4 = args.active[blockIdx.y * KS + 1];
    group.active_5 = args.active[blockIdx.y * KS + 2];
}

// Works on the points of a tile, one K after the other.
static __device__ __forceinline__ void km_work(km_group_0 &group, km_points &points,
                                               const km_pass_args &args, const km_table &table, int tile) {
    const km_plane *planes = table.planes;
    if (group.active_3) {
        km_assign<2>(points, planes + 0, table.pivots[0], group.sums + 0);
    }
    if (group.active_4) {
        km_assign<3>(points, planes + 2, table.pivots[1], group.sums + 10);
    }
    if (group.active_5) {
        km_assign<4>(points, planes + 5, table.pivots[2], group.sums + 25);
    }
}

// Lets the thread's sums join the warp's.
static __device__ __forceinline__ void km_flush(km_group_0 &group, km_block &shared) {
    const int warp = threadIdx.x / 32;
    km_add_lanes<45>(group.sums, shared.gathered[warp], shared.warp_sums[warp]);
    KM_UNROLL_FOR (int i = 0; i < 45; i++) group.sums[i] = 0;
}

// ... 1 definition

// A block's share of a launch: every GRID-th tile. False when there is nothing to do.
template <typename GROUP>
static __device__ __forceinline__ bool km_walk(const km_pass_args &args, km_block &shared) {
    const int tiles = km_tiles(args), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    km_stage *ring = shared.ring[warp];
    KM_UNROLL_FOR (int i = 0; i < STAGES - 1; i++) km_fetch(ring[i], args, blockIdx.x + i * GRID, tiles);
    int stage = 0;
    if (km_is_idle(args)) { // only now, so that the points do not wait for the answer
        km_copy_wait_all();
        return false;
    }
    for (int i = lane; i < WARP_SUMS; i += 32) shared.warp_sums[warp][i] = 0;
    const km_table &table = km_constants;
    GROUP group;
    km_begin(group, args);
    int left = FLUSH;
    for (int tile = blockIdx.x; tile < tiles; tile += GRID) {
        km_points points;
        km_await();
        km_load(points, shared, ring[stage]);
        const int free = stage == 0 ? STAGES - 1 : stage - 1;
        km_fetch(ring[free], args, tile + (STAGES - 1) * GRID, tiles);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        km_work(group, points, args, table, tile);
        if (--left == 0 || tile + GRID >= tiles) {
            km_flush(group, shared);
            left = FLUSH;
        }
    }
    return true;
}

// ... 1 definition

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_registers_0(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(128) unsigned char km_shared[];
    km_block &shared = *(km_block *)km_shared;
    if (!km_walk<km_group_0>(args, shared)) return;
    __syncthreads();
    km_write(args, shared.warp_sums, 45, 0);
}

// ... 2 definitions

// One warp makes the planes of one slot. `c`: its centroids.
static __device__ void km_make_planes(km_table *table, const km_real *c, const double *box, int k_index) {
    const int lane = threadIdx.x % 32, k = km_ks[k_index], pivot = km_find_pivot(box, c, k);
    if (lane == 0) table->pivots[k_index] = pivot;
    for (int j = lane; j < k - 1; j += 32) {
        km_plane *plane = km_planes_of(table, k_index) + j;
        double squares = 0; // |c_j|^2 - |c_p|^2
        for (int f = 0; f < D; f++) {
            const double a = c[(j + (j >= pivot)) * D + f], b = c[pivot * D + f];
            plane->factors[f] = (km_real)(a - b);
            squares = fma(a - b, a + b, squares);
        }
        plane->constant = (km_real)(0 - 0.5 * squares); // not -0
    }
}

// ... 1 definition

// The sums over all points, a column for each feature.
extern "C" __global__ void __launch_bounds__(256) km_all(const __grid_constant__ km_pass_args args) {
    constexpr int ACROSS = D < 256 ? D : 256, DOWN = 256 / ACROSS; // features and points at a time
    __shared__ double sums[256];
    const int down = threadIdx.x / ACROSS;
    for (int f = threadIdx.x % ACROSS; f < (D + ACROSS - 1) / ACROSS * ACROSS; f += ACROSS) {
        double sum = 0;
        for (long long point = blockIdx.x * DOWN + down; f < D && down < DOWN && point < args.n;
             point += GRID * DOWN) {
            const double x = ((const km_real *)args.points)[point * D + f];
            sum += x;
        }
        __syncthreads();
        sums[threadIdx.x] = sum;
        __syncthreads();
        for (int i = 1; down == 0 && i < DOWN; i++) sum += sums[i * ACROSS + threadIdx.x];
        if (down == 0 && f < D) km_column(args, TOTALS + f)[blockIdx.x] = sum;
    }
}

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
        at_zero[j] = km_planes_of(table, k_index)[j].constant;
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
        if (k > 1 && at_zero[nearest] >= 0) sums[nearest * CLUSTER + D] -= (double)padding;
    }
    __syncthreads();
    double *totals = args.totals + ((long long)blockIdx.y * S + km_offsets[k_index]) * (D + 1);
    for (int i = threadIdx.x; i < k * (D + 1); i += REDUCE) {
        const int j = i / (D + 1), f = i % (D + 1);
        if (j != pivot) {
            totals[i] = sums[(j - (j > pivot)) * CLUSTER + f];
            continue;
        }
        double weight = (double)args.n;
        for (int other = 0; other < k - 1; other++) weight -= sums[other * CLUSTER + D];
        double rest = f < D ? sums[own + f] : weight;
        for (int other = 0; f < D && other < k - 1; other++) rest -= sums[other * CLUSTER + f];
        totals[i] = weight > 0 ? rest : 0; // What rounding leaves of an empty cluster is nothing.
    }
}

// ... 1 definition

extern "C" {
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, 4, WORKSPACE_BYTES, 0, 1};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_all", KM_STAGE_LOAD, GRID, COPIES, 256, 0, 0},
    {"km_planes", KM_STAGE_BEGIN, KS, COPIES, 32, 0, 0},
    {"km_registers_0", KM_STAGE_PASS, GRID, COPIES, BLOCK, sizeof(km_block), 0},
    {"km_reduce", KM_STAGE_PASS, KS, COPIES, REDUCE, 0, 0},
};
}
