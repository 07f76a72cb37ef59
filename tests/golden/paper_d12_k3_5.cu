// SPDX-License-Identifier: MIT
// paper_d12_k3_5.cu, made by kmgen 0.1.0. Same spec, same text. The spec:
//
// name: paper_d12_k3_5
// features: 12
// clusters: 3..5
// type: float32
// target: cuda:sm_90
// n_init: 10
//
// The plan:
//
// device: cuda:sm_90, nominal H200: 132 multiprocessors, 4800 GB/s, 1.98 GHz
// points: unknown, taken as many
// clusters in one pass: 12 for each restart (the sum of the K list)
//
// design                    registers  the least time of those estimated
// form                       constant  the coefficients of the scores are the same for all threads
// points_per_thread                 6  independent work hides latency; about 217 of 255 registers are used
// block                           256  one block fills a multiprocessor: fewest partial sums
// grid                            132  132 multiprocessors, filled once by all copies
// split                             1  a thread's registers hold the sums of the whole K list
// launches                          1  one read of the points serves every K
// lanes_per_point                   1  a lane holds whole points
// prefetch                          1  the next points are fetched while these are worked on
// blocks_per_sm                     1  the block is as large as registers allow
// concurrent_restarts               1  many points: one restart of each K fills the device
//
// per point and pass: 48 bytes read, 271 operations
// registers per thread: about 217 of 255
// shared memory per block: 185.2 KiB of 227.0 KiB

// Contents, by line:
//     69  Numbers and types
//     94  What the kernels of a pass are given
//    175  The pass
//    693  The steps around the pass
//   2074  The host part: what the header declares

#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ < 10 * 90
#error                                                                                                       \
    "paper_d12_k3_5.cu was emitted for sm_90: nvcc -arch=sm_90, or emit it for an older device: kmgen --target cuda:sm_80"
#endif
// The linker knows kernels by these names, so that several emitted files go into one program.
#define km_registers_0 paper_d12_k3_5_km_registers_0
#define km_planes paper_d12_k3_5_km_planes
#define km_all paper_d12_k3_5_km_all
#define km_reduce paper_d12_k3_5_km_reduce
#define km_load_sums_f32 paper_d12_k3_5_km_load_sums_f32
#define km_load_sums_f64 paper_d12_k3_5_km_load_sums_f64
#define km_load_reduce paper_d12_k3_5_km_load_reduce
#define km_load_transform_f32 paper_d12_k3_5_km_load_transform_f32
#define km_load_transform_f64 paper_d12_k3_5_km_load_transform_f64
#define km_load_weights paper_d12_k3_5_km_load_weights
#define km_load_add paper_d12_k3_5_km_load_add
#define km_rows paper_d12_k3_5_km_rows
#define km_seed_draw paper_d12_k3_5_km_seed_draw
#define km_seed_pass paper_d12_k3_5_km_seed_pass
#define km_finish_few paper_d12_k3_5_km_finish_few
#define km_assign paper_d12_k3_5_km_assign
#define km_finish_blocks paper_d12_k3_5_km_finish_blocks
#define km_finish_add paper_d12_k3_5_km_finish_add
#define km_farthest_block paper_d12_k3_5_km_farthest_block
#define km_farthest_pick paper_d12_k3_5_km_farthest_pick
#define km_update paper_d12_k3_5_km_update
#endif

// ==== Numbers and types ====================================================================================
typedef float km_real;
typedef unsigned char km_label; // one label of one point, where labels are kept between passes

enum {
    D = 12,      // features
    S = 12,      // clusters of one copy: the sum of the K list
    KS = 3,      // entries of the K list
    K_MAX = 5,   // the largest of them
    COPIES = 1,  // concurrent restarts
    WEIGHTED = 0 // points carry weights
};

// The K list and where each K's centroids start.
__constant__ const int km_ks[KS] = {
    3,
    4,
    5,
};
__constant__ const int km_offsets[KS] = {
    0,
    3,
    7,
};

// ==== What the kernels of a pass are given =================================================================
// What kernels of the pass are given and what they leave: the contract with the host that starts them, the host part of
// an emitted file or kmgen's engine, which compile these same lines.
//
// Words. A copy is one restart of the whole list of K; some are in flight together. A slot is one K of one copy: slot =
// copy * ks_count + k_index. Rows are centroids: those of a slot are copy * S + offset[k_index] and the next K - 1, S
// the sum of the K list, offset its prefix sums.
//
// The pass. Its kernels read every point once and leave totals[copy][S][d + 1]: for each cluster of each active slot
// the weighted sum of its points (d numbers), then their weight; doubles, in an order that does not depend on timing
// (fixed order of adding, or integers that the last kernel converts). Every row of an active slot is written, also
// where it is 0; rows of other slots are not read. Nearest centroid, ties to the lowest index. km_update, one of the
// steps behind the pass, makes centroids of the totals.
//
// How it is started. The file has
//     extern "C" { __device__ km_pass_facts km_pass = {...}; __device__ km_pass_launch km_pass_launches[] = {...}; }
// and the host starts the launches in that order on one stream, each with one argument of type km_pass_args by value
// (`__grid_constant__ const km_pass_args args`). Those of KM_STAGE_LOAD run once after the points are there, those of
// KM_STAGE_BEGIN whenever the host may have changed centroids, those of KM_STAGE_PASS in every pass. Grids are fixed: a
// kernel strides over the points.
//
// Every kernel begins with `if (args.control->stop) return;`: the host queues several passes at once, and those after
// the one in which a slot came to rest must cost nothing.
#ifndef KM_ABI_CUDA_H
#define KM_ABI_CUDA_H

enum {
    KM_ABI_VERSION = 2,
    KM_PAD_ROWS = 64,    // Rows after the last point that may be read; they are zero. Weights likewise.
    KM_ALIGN_BYTES = 256 // Alignment of every pointer below.
};

enum { KM_STAGE_LOAD, KM_STAGE_BEGIN, KM_STAGE_PASS };

typedef struct km_pass_launch {
    char kernel[40]; // its name, declared extern "C"
    int stage;       // KM_STAGE_...
    unsigned grid_x, grid_y, block;
    unsigned shared_bytes; // dynamic shared memory; the host opts in above 48 KiB
    int part;              // passed on in km_pass_args: which share of the K list, where a kernel runs several times
} km_pass_launch;

typedef struct km_pass_facts {
    int version;        // KM_ABI_VERSION
    int launches_count; // entries of km_pass_launches
    // args.workspace: fixed + per_point * n bytes.
    long long workspace_bytes;
    long long workspace_bytes_per_point;
    int has_constants; // the source has a symbol km_constants in __constant__ memory
    // Its first so many bytes are zeroed before KM_STAGE_LOAD, the others may hold anything; 0: all are zeroed.
    long long workspace_bytes_zero;
} km_pass_facts;

// What the update leaves for the next pass.
typedef struct km_control {
    int stop;       // not 0: the queued passes do nothing
    int passes;     // passes done
    int passes_max; // stop after so many
    int reserved;
} km_control;

typedef struct km_pass_args {
    const km_control *control;
    const void *points;  // n x d km_real, row by row, centred and scaled
    const void *weights; // n km_real; NULL where points have no weights
    long long n;
    const void *centroids;       // [copies][S][d] km_real
    const unsigned char *active; // per slot: 1 takes part in this pass
    double *totals;              // [copies][S][d + 1]
    void *labels;                // [slots][labels_stride] km_label; NULL unless labels are kept between passes
    long long labels_stride;
    unsigned long long
        *changes; // per slot: labels that changed (integer atomics); zeroed before each pass; or NULL
    void *workspace;
    void *constants;   // address of the symbol km_constants, NULL unless has_constants
    const double *box; // 2 x d: the smallest value of each feature, then the largest, as `points` are
    int part;
} km_pass_args;

#endif

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
    BLOCK = 256,                // threads of a block
    GRID = 132,                 // blocks that share the points (blockIdx.x), for each restart in flight (blockIdx.y)
    POINTS = 6,                 // points that a thread works on at a time
    WARPS = BLOCK / 32,         // warps of a block
    VECTOR = 4,                 // numbers of one 16-byte load
    WARP_POINTS = 192,          // points that a warp works on at a time
    TILE = WARPS * WARP_POINTS, // points that a block works on at a time
    FLUSH = 256,                // tiles of a block after which sums join the doubles, a power of two
    LOADS = 6,                  // loads of a thread from a tile
    STAGES = 2,                 // tiles of a warp in shared memory: one that is worked on, the others on their way
    PIECES = 3,                 // 16-byte pieces of a load of one thread, a row
    PLANES = 9,                 // one for each centroid but the pivots
    COLUMNS = 129,              // sums of a block
    TOTALS = 117,               // the first of those over all points, which never change
    CLUSTER = 13,               // sums of one cluster, and its weight
    WARP_SUMS = 117,            // sums of a warp, at most
    GATHERED = 32,              // sums of a lane that are added up over the warp at a time
    REDUCE = 1024,              // threads of a block of km_reduce
    COARSE_BITS = 9             // bits of a coordinate such that scores come out exact
};

// What stands where: in a thread's registers, in shared memory, in the workspace.

struct __align__(16) km_vector {
    km_real at[VECTOR];
};

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
    26,
    65,
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

// Tiles of the points, the last one filled up.
static __device__ __forceinline__ int km_tiles(const km_pass_args &args) {
    return (int)((args.n + TILE - 1) / TILE);
}

// The warp's first point of a tile.
static __device__ __forceinline__ long long km_first_of_warp(int tile) {
    return (long long)tile * TILE + threadIdx.x / 32 * WARP_POINTS;
}

static __device__ __forceinline__ unsigned km_shared_address(const void *at) {
    return (unsigned)__cvta_generic_to_shared(at);
}

// Begins to copy 16 bytes, past the first cache; where not `valid`, zeros.
static __device__ __forceinline__ void km_copy_16_if(unsigned to, const void *from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(valid ? 16 : 0)
                 : "memory");
}

// Ends a group of the thread's copies.
static __device__ __forceinline__ void km_copy_commit() {
    asm volatile("cp.async.commit_group;");
}

// Waits until all groups but the last LEFT are there.
template <int LEFT> static __device__ __forceinline__ void km_copy_wait() {
    asm volatile("cp.async.wait_group %0;" ::"n"(LEFT) : "memory");
}

static __device__ __forceinline__ void km_copy_wait_all() {
    asm volatile("cp.async.wait_all;" ::: "memory");
}

// Points come through shared memory: each warp has a ring of tiles there, which is filled while it works.

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

// Starts to copy a tile. Where there is none, its group of copies is empty, so that km_await counts right.
static __device__ __forceinline__ void km_fetch(km_stage &stage, const km_pass_args &args, int tile,
                                                int tiles) {
    if (tile < (int)(args.n / TILE))
        km_fetch_whole(stage, args, tile);
    else if (tile < tiles)
        km_fetch_last(stage, args, tile);
    km_copy_commit();
}

// Waits for the oldest tile that is on its way, and for the lanes to be done with the one before.
static __device__ __forceinline__ void km_await() {
    km_copy_wait<STAGES - 2>();
    __syncwarp();
}

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

// Two comparisons, by hand: each is one instruction then. Whether no centroid is `taken` yet, and the score is the best
// (is another).
static __device__ __forceinline__ int km_is_best(int score, int best, int taken) {
    int is;
    asm("{ .reg .pred open, is; setp.eq.s32 open, %3, 0; setp.eq.and.s32 is, %1, %2, open; "
        "selp.s32 %0, 1, 0, is; }"
        : "=r"(is)
        : "r"(score), "r"(best), "r"(taken));
    return is;
}

static __device__ __forceinline__ int km_is_other(int score, int best, int taken) {
    int is;
    asm("{ .reg .pred open, is; setp.eq.s32 open, %3, 0; setp.ne.and.s32 is, %1, %2, open; "
        "selp.s32 %0, 1, 0, is; }"
        : "=r"(is)
        : "r"(score), "r"(best), "r"(taken));
    return is;
}

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

// Adds COUNT sums, each over the lanes of a warp, to `out`: lanes leave their sums in shared memory, and each lane adds
// up one column of them.
template <int COUNT>
static __device__ __forceinline__ void km_add_lanes(const km_real *sums, km_real (*gathered)[33],
                                                    double *out) {
    const int lane = threadIdx.x % 32;
    KM_UNROLL_FOR (int first = 0; first < COUNT; first += 32) {
        __syncwarp();
        KM_UNROLL_FOR (int i = 0; i < 32 && first + i < COUNT; i++) gathered[i][lane] = sums[first + i];
        __syncwarp();
        km_real parts[4] = {};
        KM_UNROLL_1_FOR (int from = 0; from < 32; from += 4) {
            KM_UNROLL_FOR (int i = 0; i < 4; i++) parts[i] += gathered[lane][from + i];
        }
        if (first + lane < COUNT) out[first + lane] += (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
}

// What a thread of km_registers_0 keeps from tile to tile, for K = 3, 4, 5.
struct km_group_0 {
    km_real sums[117]; // of the clusters but the pivots
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
        km_assign<3>(points, planes + 2, table.pivots[1], group.sums + 26);
    }
    if (group.active_5) {
        km_assign<4>(points, planes + 5, table.pivots[2], group.sums + 65);
    }
}

// Lets the thread's sums join the warp's.
static __device__ __forceinline__ void km_flush(km_group_0 &group, km_block &shared) {
    const int warp = threadIdx.x / 32;
    km_add_lanes<117>(group.sums, shared.gathered[warp], shared.warp_sums[warp]);
    KM_UNROLL_FOR (int i = 0; i < 117; i++) group.sums[i] = 0;
}

// Whether the pass is over, or has no active slot of this restart.
static __device__ __forceinline__ bool km_is_idle(const km_pass_args &args) {
    bool active = false;
    for (int i = 0; i < KS; i++) active = active | args.active[blockIdx.y * KS + i];
    return args.control->stop || !active;
}

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

// Adds up the sums of some warps and leaves them as the block's numbers of its columns.
static __device__ __forceinline__ void km_write(const km_pass_args &args, const double (*sums)[WARP_SUMS],
                                                int columns, int first_column) {
    for (int c = threadIdx.x; c < columns; c += BLOCK) {
        double sum = 0;
        for (int warp = 0; warp < WARPS; warp++) sum += sums[warp][c];
        km_column(args, first_column + c)[blockIdx.x] = sum;
    }
}

extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_registers_0(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(128) unsigned char km_shared[];
    km_block &shared = *(km_block *)km_shared;
    if (!km_walk<km_group_0>(args, shared)) return;
    __syncthreads();
    km_write(args, shared.warp_sums, 117, 0);
}

// Whether the centroids and the corners of the data's box are multiples of so large a power of two that scores come out
// exact.
static __device__ __forceinline__ bool km_is_coarse(const double *box, const km_real *c, int count) {
    const int lane = threadIdx.x % 32;
    int largest = -1100; // exponent
    for (int i = lane; i < 2 * D; i += 32) {
        int exponent;
        frexp(box[i], &exponent);
        largest = box[i] != 0 && exponent > largest ? exponent : largest;
    }
    for (int width = 16; width > 0; width /= 2)
        largest = max(largest, __shfl_xor_sync(0xffffffff, largest, width));
    const double scale = ldexp(1.0, COARSE_BITS - largest);
    bool coarse = true;
    for (int i = lane; i < 2 * D; i += 32) coarse = coarse & (rint(box[i] * scale) == box[i] * scale);
    for (int i = lane; i < count; i += 32) coarse = coarse & (rint(c[i] * scale) == c[i] * scale);
    return __all_sync(0xffffffff, coarse);
}

// The centroid with the smallest norm: a pivot far away would cost the scores of the others their last digits. Where
// scores come out exact the last centroid will do as well, and keeps ties in order.
static __device__ __forceinline__ int km_find_pivot(const double *box, const km_real *c, int k) {
    if (km_is_coarse(box, c, k * D)) return k - 1;
    double smallest = 1e308;
    int pivot = 0;
    for (int j = threadIdx.x % 32; j < k; j += 32) {
        double square = 0;
        for (int f = 0; f < D; f++) square = fma((double)c[j * D + f], (double)c[j * D + f], square);
        pivot = square < smallest ? j : pivot;
        smallest = square < smallest ? square : smallest;
    }
    for (int width = 16; width > 0; width /= 2) {
        const double square = __shfl_xor_sync(0xffffffff, smallest, width);
        const int j = __shfl_xor_sync(0xffffffff, pivot, width);
        const bool closer = square < smallest || (square == smallest && j < pivot);
        pivot = closer ? j : pivot;
        smallest = closer ? square : smallest;
    }
    return pivot;
}

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

// Planes for centroids that the update did not make, a warp for each slot.
extern "C" __global__ void km_planes(const __grid_constant__ km_pass_args args) {
    const km_real *centroids = (const km_real *)args.centroids + (long long)blockIdx.y * S * D;
    km_make_planes(km_table_of(args.workspace, args.constants, blockIdx.y),
                   centroids + km_offsets[blockIdx.x] * D, args.box, blockIdx.x);
}

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

// Of each restart in flight: numbers of each block, and the table.
constexpr long long WORKSPACE_BYTES = COPIES * (8ll * COLUMNS * GRID + (long long)sizeof(km_table));

extern "C" {
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, 4, WORKSPACE_BYTES, 0, 1};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_all", KM_STAGE_LOAD, GRID, COPIES, 256, 0, 0},
    {"km_planes", KM_STAGE_BEGIN, KS, COPIES, 32, 0, 0},
    {"km_registers_0", KM_STAGE_PASS, GRID, COPIES, BLOCK, sizeof(km_block), 0},
    {"km_reduce", KM_STAGE_PASS, KS, COPIES, REDUCE, 0, 0},
};
}
// ==== The steps around the pass ============================================================================
// Steps around the pass, the same for every design.
#define KM_BOTH __device__ __forceinline__
// Counter-based random numbers, for host and device: each is a function of its four words alone.
#ifndef KM_DRAWS_H
#define KM_DRAWS_H

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014).
KM_BOTH unsigned long long km_mix64(unsigned long long z) {
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
    return z ^ (z >> 31);
}

// Uniform in [0, 1), 53 bits.
KM_BOTH double km_draw(unsigned long long seed, unsigned long long restart, unsigned long long pick,
                       unsigned long long candidate) {
    unsigned long long z = km_mix64(seed + 0x9e3779b97f4a7c15ull);
    z = km_mix64(z + restart * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull);
    z = km_mix64(z + pick * 0x9e3779b97f4a7c15ull + 0xd1b54a32d192ed03ull);
    z = km_mix64(z + candidate * 0x9e3779b97f4a7c15ull + 0x8cb92ba72f3d8dd7ull);
    return (double)(z >> 11) * (1.0 / 9007199254740992.0);
}

#endif
// A slot between two passes: what is known of it, and what becomes of it. Host and device compile this.
#ifndef KM_SLOT_H
#define KM_SLOT_H

typedef enum km_slot_phase {
    KM_SLOT_IDLE,    // No run, or its run is done and was read. Costs nothing in a pass.
    KM_SLOT_RUNNING, // Iterating.
    KM_SLOT_LAST,    // Stopped moving; one more pass evaluates the final centroids.
    KM_SLOT_EMPTY,   // Paused: clusters without points, which must be given some.
    KM_SLOT_DONE     // Evaluated: cost, weights and centroids belong together.
} km_slot_phase;

// A slot after a pass and its update. Cost is sum w |x - c|^2 of the centroids that the last pass used, computed as
// total_square + sum_j (n_j |c_j|^2 - 2 c_j . S_j) in double; for a DONE slot it is the run's inertia.
typedef struct km_slot_state {
    km_slot_phase phase;
    int converged;         // Stopped by shift or changes, not by max_iter.
    int at_limit;          // max_iter is reached: the next pass is the last.
    long long iterations;  // Updates of this run so far.
    long long empty_count; // Clusters without weight in the last pass.
    double cost;
    double shift; // Of the last update.
} km_slot_state;

// What a pass found of a slot, and its update did.
typedef struct km_slot_found {
    double cost;           // by the sums: rounding may leave it below 0
    double shift;          // of the update; a slot that evaluates its final centroids has none
    long long empty_count; // clusters without weight ...
    int waiting;           // ... some of which may be given a point
    int few_changes;       // fewer labels changed than the run goes on for
} km_slot_found;

KM_BOTH int km_slot_is_active(km_slot_phase phase) {
    return phase == KM_SLOT_RUNNING || phase == KM_SLOT_LAST;
}

// What becomes of an active slot after a pass.
KM_BOTH void km_slot_decide(km_slot_state *slot, const km_slot_found *found, double shift_max,
                            long long max_iter) {
    slot->cost = found->cost > 0.0 ? found->cost : 0.0;
    slot->empty_count = found->empty_count;
    if (slot->phase == KM_SLOT_LAST) {
        slot->phase = found->waiting ? KM_SLOT_EMPTY : KM_SLOT_DONE;
        return;
    }
    slot->shift = found->shift;
    slot->iterations += 1;
    slot->at_limit = slot->iterations >= max_iter;
    if (found->waiting) {
        slot->phase = KM_SLOT_EMPTY;
    } else if (found->shift == 0.0) {
        slot->phase = KM_SLOT_DONE; // nothing moved: this pass has evaluated the final centroids
        slot->converged = 1;
    } else {
        if (found->shift <= shift_max || found->few_changes) slot->converged = 1;
        if (slot->converged || slot->at_limit) slot->phase = KM_SLOT_LAST;
    }
}

#endif
// What the steps around the pass are given: like the arguments of the pass, the contract with the host.
#ifndef KM_STEPS_CUDA_H
#define KM_STEPS_CUDA_H

enum {
    KM_THREADS = 256,              // of a block of every step kernel, where nothing else is said
    KM_SUBCHUNK_POINTS = 2048,     // points of a unit: one block's work, one partial sum
    KM_SUBCHUNKS_PER_CHUNK = 32,   // units of a fixed block of 65,536 points
    KM_JOINED = 8,                 // numbers of blocks that a block of threads joins
    KM_CANDIDATES_MAX = 13,        // most candidates of a k-means++ pick
    KM_FINISH_THREADS = 128,       // of a block of km_finish_few ...
    KM_FINISH_FEW_MAX = 32,        // ... which takes up to so many clusters, where shared memory holds
    KM_FINISH_BYTES = 28,          // for each of them and each thread so much, ...
    KM_FINISH_WEIGHTED_BYTES = 36, // ... with weights
    KM_FINISH_SHARED_MAX = 1024,   // clusters whose finishing sums km_finish_blocks keeps in shared memory
    KM_UPDATE_NUMBERS = 2048,      // coordinates of a slot's centroids that a block of km_update moves ...
    KM_UPDATE_PARTS_MAX = 64       // ... and blocks of a slot at most
};

// Blocks of a slot in km_update: one multiprocessor alone would take long for thousands of clusters.
#define KM_UPDATE_PARTS(k_max, d)                                                                            \
    ((long long)(k_max) * (d) > (long long)KM_UPDATE_PARTS_MAX * KM_UPDATE_NUMBERS                           \
         ? KM_UPDATE_PARTS_MAX                                                                               \
         : ((long long)(k_max) * (d) + KM_UPDATE_NUMBERS - 1) / KM_UPDATE_NUMBERS)

typedef struct km_slot_record {
    km_slot_state state;
    unsigned arrived; // blocks of km_update that are through with the slot, in the launch that runs
} km_slot_record;

// Control of the loop; its head is what the pass kernels see.
typedef struct km_loop {
    km_control head;
    int news;         // slots that stopped since the host looked ...
    int stopped_min;  // ... and how many are worth its while
    unsigned updated; // slots updated in this iteration
    unsigned reserved;
    double shift_max;
    long long changes_min;
    long long max_iter;
    double total_square;
} km_loop;

typedef struct km_update_args {
    km_loop *loop;
    km_slot_record *slots;
    unsigned char *active;
    void *centroids;      // [copies][S][d] km_real
    const double *totals; // [copies][S][d + 1]
    double *weights;      // [copies][S]: of the last pass of each slot
    const unsigned char
        *given_up;               // [copies][S]: clusters for which relocation found no point; they may stay empty
    unsigned long long *changes; // per slot, or NULL
    void *workspace, *constants; // as in km_pass_args ...
    const double *box;           // ... likewise
    unsigned long long *report;  // in the host's memory: passes done, and 2^32 when the loop stops; or NULL
    double *shares;              // [slots][KM_UPDATE_PARTS][4]: what the blocks of a slot found; not used where it has one
} km_update_args;

typedef struct km_seed_args {
    const void *points;    // n x d km_real
    const double *weights; // or NULL
    long long n;
    long long units;            // of KM_SUBCHUNK_POINTS
    const double *unit_weights; // [units]
    void *nearest;              // [chains][n] km_real: squared distance to the nearest pick
    long long *picks;           // [chains][picks_count]
    long long picks_count;
    long long *candidates; // [2][chains][KM_CANDIDATES_MAX]; pick p uses half p % 2
    double *unit_sums;     // [chains][KM_CANDIDATES_MAX][units], of the last pass
    int chains;
    unsigned long long seed;
    long long first_restart; // of chain 0
} km_seed_args;

typedef struct km_assign_args {
    const void *points;
    long long first, count;  // of the points, a whole number of blocks but for the last
    const double *centroids; // rows of all models
    const void *table;       // the same in the plan's type
    const int *ks;           // per model
    const long long *rows;   // per model: its first row of centroids
    int models;
    int *labels;     // [models][count]; NULL in km_finish_few: not asked for
    double *nearest; // [models][count]: squared distance
    double *margin;  // [models][count], or NULL
} km_assign_args;

enum {
    KM_FINISH_COUNT,
    KM_FINISH_WEIGHT,
    KM_FINISH_SSE,
    KM_FINISH_DISTANCE,
    KM_FINISH_MARGIN,
    KM_FINISH_SUMS
};

#endif
// What several steps use: finite numbers, sums over a block of threads, the weight of a point.
__device__ __forceinline__ int km_is_finite(double value) {
    return fabs(value) <= 1.7976931348623157e308;
}

// Sums of COUNT values over a block of KM_THREADS threads in a fixed order, in every thread.
template <int COUNT> __device__ __forceinline__ void km_block_sums(double *values) {
    __shared__ double warps[COUNT][8];
    for (int step = 16; step > 0; step >>= 1)
        for (int i = 0; i < COUNT; i++) values[i] += __shfl_xor_sync(0xffffffffu, values[i], step);
    __syncthreads(); // the previous call's readers are done
    for (int i = 0; i < COUNT; i++) {
        if (threadIdx.x % 32 == 0) warps[i][threadIdx.x / 32] = values[i];
        values[i] = 0.0;
    }
    __syncthreads();
    for (int w = 0; w < 8; w++)
        for (int i = 0; i < COUNT; i++) values[i] += warps[i][w];
}

__device__ __forceinline__ double km_block_sum(double value) {
    km_block_sums<1>(&value);
    return value;
}

__device__ __forceinline__ double km_weight(const double *, long long) {
    return 1.0;
}
// Load: statistics of the points as they came, then the clustered space. Sums are doubles over fixed blocks of
// 65,536 points, blocks added in index order; inside a block the order is fixed by the layout of the threads.

constexpr int KM_CHUNK_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK;

// Points of few features are held in registers as a whole, others are read chunk by chunk, both by the widest loads
// that a row's place allows.
constexpr bool STEP_WHOLE = D <= 16;
constexpr int STEP_CHUNK = STEP_WHOLE ? int(D) : int(32 / sizeof(km_real));
constexpr int STEP_ALIGN = D * sizeof(km_real) % 16 == 0  ? 16
                           : D * sizeof(km_real) % 8 == 0 ? 8
                                                          : int(sizeof(km_real));
struct __align__(STEP_ALIGN) step_features {
    km_real at[STEP_CHUNK];
};

// Features f ... of a row; zeros behind the last.
__device__ __forceinline__ void step_load(km_real *x, const km_real *row, int f) {
    if constexpr (D % STEP_CHUNK == 0) {
        const step_features features = *(const step_features *)(row + f);
#pragma unroll
        for (int g = 0; g < STEP_CHUNK; g++) x[g] = features.at[g];
    } else {
#pragma unroll
        for (int g = 0; g < STEP_CHUNK; g++) x[g] = f + g < D ? row[f + g] : (km_real)0;
    }
}

// Blocks of a multiprocessor: said, or the compiler aims at more of them, and spills. Rows that are held as a whole may
// be long, and NVRTC 13.5 needs more than 64 registers for two of 32 bytes.
template <typename Raw>
constexpr int LOAD_BLOCKS = !STEP_WHOLE || D * sizeof(Raw) <= 16 ? 4
                            : D * sizeof(Raw) <= 64              ? 3
                                                                 : 2;

constexpr int LOAD_FEATURES = int(D) < int(KM_THREADS) ? int(D) : int(KM_THREADS);
constexpr int LOAD_ROWS = KM_THREADS / LOAD_FEATURES;

// One block of points and up to 256 features: partial[block][4][D] = sums of w (x - middle) and of w (x - middle)^2,
// smallest, largest value. *bad becomes the lowest index i * D + f of a value that is no finite number.
template <typename Raw>
static __device__ void load_sums(const Raw *raw, const double *weights, long long n, const double *middles,
                                 double *partial, unsigned long long *bad) {
    __shared__ double sums[KM_THREADS], squares[KM_THREADS], lows[KM_THREADS], highs[KM_THREADS];
    const int column = threadIdx.x % LOAD_FEATURES, row = threadIdx.x / LOAD_FEATURES;
    const int f = blockIdx.y * LOAD_FEATURES + column;
    const long long first = blockIdx.x * (long long)KM_CHUNK_POINTS;
    const long long end = first + KM_CHUNK_POINTS < n ? first + KM_CHUNK_POINTS : n;
    double sum = 0.0, square = 0.0, low = 1.7976931348623157e308, high = -1.7976931348623157e308;
    unsigned long long bad_here = ~0ull;
    if (row < LOAD_ROWS && f < D) {
        const double middle = middles[f];
#pragma unroll 8
        for (long long i = first + row; i < end; i += LOAD_ROWS) {
            const double x = raw[i * D + f];
            if (!km_is_finite(x) && bad_here == ~0ull) bad_here = i * D + f;
            const double away = __dsub_rn(x, middle), weighted = __dmul_rn(km_weight(weights, i), away);
            sum = __dadd_rn(sum, weighted);
            square = __fma_rn(weighted, away, square);
            low = x < low ? x : low;
            high = x > high ? x : high;
        }
    }
    if (bad_here != ~0ull) atomicMin(bad, bad_here);
    sums[threadIdx.x] = sum;
    squares[threadIdx.x] = square;
    lows[threadIdx.x] = low;
    highs[threadIdx.x] = high;
    __syncthreads();
    if (row == 0 && f < D) {
        for (int r = 1; r < LOAD_ROWS; r++) {
            const int other = r * LOAD_FEATURES + column;
            sum = __dadd_rn(sum, sums[other]);
            square = __dadd_rn(square, squares[other]);
            low = lows[other] < low ? lows[other] : low;
            high = highs[other] > high ? highs[other] : high;
        }
        double *out = partial + blockIdx.x * 4ll * D;
        out[f] = sum;
        out[D + f] = square;
        out[2 * D + f] = low;
        out[3 * D + f] = high;
    }
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<float>)
    km_load_sums_f32(const float *raw, const double *weights, long long n, const double *middles,
                     double *partial, unsigned long long *bad) {
    load_sums(raw, weights, n, middles, partial, bad);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<double>)
    km_load_sums_f64(const double *raw, const double *weights, long long n, const double *middles,
                     double *partial, unsigned long long *bad) {
    load_sums(raw, weights, n, middles, partial, bad);
}

// Joins the tables of blocks, `numbers` in each, in index order: adds them (kind 0), or takes the smallest (1) or
// largest (2). Up to KM_JOINED numbers a block of threads, from `column` to before `end`; it brings a piece of many
// tables to shared memory at a time; the first threads have a number each, which begins as `number`.
__device__ __forceinline__ double step_join(double number, const double *partial, long long blocks,
                                            long long numbers, long long column, long long end, int kind) {
    constexpr int TABLES = KM_THREADS; // at a time
    __shared__ double piece[KM_JOINED][TABLES + 1];
    for (long long first = 0; first < blocks; first += TABLES) {
        const int here = (int)(blocks - first < TABLES ? blocks - first : TABLES);
        __syncthreads();
#pragma unroll
        for (int i = 0; i < KM_JOINED; i++) {
            const int at = i * KM_THREADS + threadIdx.x, table = at / KM_JOINED, c = at % KM_JOINED;
            if (table < here && column + c < end)
                piece[c][table] = partial[(first + table) * numbers + column + c];
        }
        __syncthreads();
        if (threadIdx.x >= KM_JOINED) continue;
#pragma unroll 8
        for (int table = 0; table < here; table++) {
            const double other = piece[threadIdx.x][table];
            number = kind == 0   ? __dadd_rn(number, other)
                     : kind == 1 ? fmin(number, other)
                                 : fmax(number, other);
        }
    }
    return number;
}

// Joins the blocks' statistics: out[4][D]. A block of threads joins numbers of one kind.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_reduce(const double *partial, long long blocks, double *out) {
    constexpr int EACH = (D + KM_JOINED - 1) / KM_JOINED;
    const int table = blockIdx.x / EACH, kind = table < 2 ? 0 : table - 1, end = (table + 1) * D;
    const int column = table * D + blockIdx.x % EACH * KM_JOINED, at = column + threadIdx.x;
    const double none = kind == 0 ? 0.0 : kind == 1 ? 1.7976931348623157e308 : -1.7976931348623157e308;
    const double number = step_join(none, partial, blocks, 4 * D, column, end, kind);
    if (threadIdx.x < KM_JOINED && at < end) out[at] = number;
}

// (x - centre) * factor in double, rounded once to the plan's type.
__device__ __forceinline__ km_real load_value(double x, int f, const double *centre, const double *factor) {
    return (km_real)__dmul_rn(__dsub_rn(x, __ldg(centre + f)), __ldg(factor + f));
}

template <typename Raw>
struct __align__(D * sizeof(Raw) % 16 == 0  ? 16
                 : D * sizeof(Raw) % 8 == 0 ? 8
                                            : sizeof(Raw)) load_row {
    Raw at[STEP_CHUNK];
};

// Rows i, i + KM_THREADS, ... of few features, held in registers as a whole; returns their sum of w |x|^2. *bad becomes
// the lowest index i * D + f of a value that is no finite number any more.
template <typename Raw>
__device__ __forceinline__ double load_rows(const Raw *raw, const double *weights, long long n,
                                            const double *centre, const double *factor, km_real *points,
                                            unsigned long long *bad, long long i) {
    constexpr int ROWS = D * sizeof(Raw) <= 16 ? 4 : D * sizeof(Raw) <= 32 ? 2 : 1; // on their way at a time
    double sum = 0.0;
#pragma unroll 1
    for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS; p += ROWS, i += ROWS * KM_THREADS) {
        load_row<Raw> rows[ROWS];
#pragma unroll
        for (int r = 0; r < ROWS; r++)
            if (i + r * KM_THREADS < n) rows[r] = *(const load_row<Raw> *)(raw + (i + r * KM_THREADS) * D);
#pragma unroll
        for (int r = 0; r < ROWS; r++) {
            const long long row = i + r * KM_THREADS;
            if (row >= n) break;
            step_features moved;
            double square = 0.0;
            bool finite = true;
#pragma unroll
            for (int f = 0; f < D; f++) {
                const double x = moved.at[f % STEP_CHUNK] =
                    load_value(rows[r].at[f % STEP_CHUNK], f, centre, factor);
                finite = finite & km_is_finite(x);
                square = __fma_rn(x, x, square);
            }
            *(step_features *)(points + row * D) = moved;
            sum = __dadd_rn(sum, __dmul_rn(km_weight(weights, row), square));
            if (finite) continue;
#pragma unroll 1
            for (int f = D - 1; f >= 0; f--)
                if (!km_is_finite(points[row * D + f])) atomicMin(bad, (unsigned long long)(row * D + f));
        }
    }
    return sum;
}

// One unit of points to the clustered space, in place where the types agree, and its sum of w |x|^2.
template <typename Raw>
static __device__ void load_transform(const Raw *raw, const double *weights, long long n,
                                      const double *centre, const double *factor, km_real *points,
                                      unsigned long long *bad, double *unit_squares) {
    const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS;
    double sum = 0.0;
    if constexpr (STEP_WHOLE) {
        sum = load_rows(raw, weights, n, centre, factor, points, bad, first + threadIdx.x);
    } else {
        const long long end = (first + KM_SUBCHUNK_POINTS < n ? first + KM_SUBCHUNK_POINTS : n) * D;
        for (long long at = first * D + threadIdx.x; at < end; at += KM_THREADS) {
            points[at] = load_value(raw[at], (int)(at % D), centre, factor);
            if (!km_is_finite(points[at])) atomicMin(bad, (unsigned long long)at);
        }
        __syncthreads();
        for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS; p++) {
            const long long i = first + p * KM_THREADS + threadIdx.x;
            if (i >= n) break;
            double square = 0.0;
            for (int f = 0; f < D; f++) {
                const double x = points[i * D + f];
                square = __fma_rn(x, x, square);
            }
            sum = __dadd_rn(sum, __dmul_rn(km_weight(weights, i), square));
        }
    }
    sum = km_block_sum(sum);
    if (threadIdx.x == 0) unit_squares[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<float>)
    km_load_transform_f32(const float *raw, const double *weights, long long n, const double *centre,
                          const double *factor, km_real *points, unsigned long long *bad,
                          double *unit_squares) {
    load_transform(raw, weights, n, centre, factor, points, bad, unit_squares);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<double>)
    km_load_transform_f64(const double *raw, const double *weights, long long n, const double *centre,
                          const double *factor, km_real *points, unsigned long long *bad,
                          double *unit_squares) {
    load_transform(raw, weights, n, centre, factor, points, bad, unit_squares);
}

// The weight of units: how many points they have.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_weights(const double *, long long n, km_real *, double *unit_weights) {
    const long long unit = blockIdx.x * (long long)KM_THREADS + threadIdx.x,
                    left = n - unit * KM_SUBCHUNK_POINTS;
    if (left > 0) unit_weights[unit] = left < KM_SUBCHUNK_POINTS ? (double)left : (double)KM_SUBCHUNK_POINTS;
}

// Adds units to blocks and blocks to one number, in index order. One block of threads.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_add(const double *unit_sums, long long units, double *out) {
    __shared__ double blocks[KM_THREADS];
    const long long chunks_count = (units + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    double total = 0.0;
    for (long long first = 0; first < chunks_count; first += KM_THREADS) {
        const long long unit = (first + threadIdx.x) * KM_SUBCHUNKS_PER_CHUNK;
        double sum = 0.0;
        if (unit + KM_SUBCHUNKS_PER_CHUNK <= units) {
            double2 pairs[KM_SUBCHUNKS_PER_CHUNK / 2]; // all on their way at a time
#pragma unroll
            for (int u = 0; u < KM_SUBCHUNKS_PER_CHUNK / 2; u++)
                pairs[u] = ((const double2 *)(unit_sums + unit))[u];
#pragma unroll
            for (int u = 0; u < KM_SUBCHUNKS_PER_CHUNK / 2; u++)
                sum = __dadd_rn(__dadd_rn(sum, pairs[u].x), pairs[u].y);
        } else {
            for (int u = 0; unit + u < units; u++) sum = __dadd_rn(sum, unit_sums[unit + u]);
        }
        blocks[threadIdx.x] = sum;
        __syncthreads();
        const long long left = chunks_count - first;
        if (threadIdx.x == 0)
#pragma unroll 8
            for (int b = 0; b < KM_THREADS && b < left; b++) total = __dadd_rn(total, blocks[b]);
        __syncthreads();
    }
    if (threadIdx.x == 0) *out = total;
}

// Rows of the clustered space, as doubles.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_rows(const km_real *points, const long long *indices, long long count, double *out) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (at < count * D) out[at] = points[indices[at / D] * D + at % D];
}
// Seeding: greedy k-means++, all chains in the same passes, as runtime/seed.h states it. For each pick two kernels:
// km_seed_draw closes the pick before (the candidate with the smallest cost wins) and draws the candidates of this
// one; km_seed_pass reads the points once, brings each chain's distances up to date and sums what every candidate
// would leave. Nothing goes through the host.

// Candidates of a chain that are a task: all of a pick, up to K = 20. A block reads a few points and serves several
// tasks with them. The rows of their candidates are kept in shared memory where they fit; one is fetched for several
// points.
constexpr int SEED_CANDIDATES = 4, SEED_ROWS = SEED_CANDIDATES + 1, SEED_TASKS = 4;
constexpr bool SEED_STAGED = SEED_TASKS * SEED_ROWS * D * sizeof(km_real) <= 8192;
constexpr int SEED_POINTS = KM_SUBCHUNK_POINTS / KM_THREADS; // of a thread, where one draws
constexpr int SEED_STRIDE = KM_THREADS / 2;                  // half of a block's threads share a unit
constexpr int SEED_GROUP_BYTES = D * sizeof(km_real);
constexpr int SEED_GROUP = SEED_GROUP_BYTES <= 16   ? 8
                           : SEED_GROUP_BYTES <= 32 ? 4
                           : SEED_GROUP_BYTES <= 64 ? 2
                                                    : 1;
// Blocks of a multiprocessor: a third one hides memory, where registers allow it.
constexpr int SEED_BLOCKS = sizeof(km_real) == 4 && D <= 4 && !WEIGHTED ? 3 : 2;
// One conversion, of the number that fits: NVRTC 13.5 refuses one that does not, even in a branch that is left out.
constexpr km_real SEED_FAR = (km_real)(sizeof(km_real) == 4 ? 3.4028234e38 : 1.7976931348623157e308);

__device__ __forceinline__ km_real seed_distance(const km_real *x, const km_real *y) {
    km_real sum = 0;
#pragma unroll 4 // only the points of one unit come here: short code, which compiles sooner
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - y[f];
        sum = fma(t, t, sum);
    }
    return sum;
}

// Sums of blocks of 65,536 points from those of their units: a warp takes a block at a time. Shared memory.
__device__ __forceinline__ void seed_block_sums(double *sums, const double *unit_sums, long long units,
                                                long long first, int count) {
    constexpr int WARPS = KM_THREADS / 32, TOGETHER = 16; // loads on their way at a time
    const int lane = threadIdx.x % 32;
    for (int first_b = threadIdx.x / 32; first_b < count; first_b += TOGETHER * WARPS) {
        double part[TOGETHER];
#pragma unroll
        for (int t = 0; t < TOGETHER; t++) {
            const long long unit = (first + first_b + t * WARPS) * KM_SUBCHUNKS_PER_CHUNK + lane;
            part[t] = unit < units ? unit_sums[unit] : 0.0;
        }
#pragma unroll
        for (int t = 0; t < TOGETHER; t++) {
            for (int step = 16; step > 0; step >>= 1) part[t] += __shfl_xor_sync(0xffffffffu, part[t], step);
            if (lane == 0 && first_b + t * WARPS < count) sums[first_b + t * WARPS] = part[t];
        }
    }
}
static_assert(KM_SUBCHUNKS_PER_CHUNK == 32, "a lane a unit");

// Of the sums that the candidates of a pick left, the totals; `totals` is shared memory.
static __device__ void seed_totals(double *totals, const double *unit_sums, long long units, int candidates) {
    __shared__ double sums[KM_CANDIDATES_MAX][KM_THREADS];
    const long long blocks = (units + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    double total = 0.0;
    for (long long first = 0; first < blocks; first += KM_THREADS) {
        const int here = (int)(blocks - first < KM_THREADS ? blocks - first : KM_THREADS);
        for (int c = 0; c < candidates; c++)
            seed_block_sums(sums[c], unit_sums + c * units, units, first, here);
        __syncthreads();
        if (threadIdx.x < candidates)
#pragma unroll 8
            for (int b = 0; b < here; b++) total = __dadd_rn(total, sums[threadIdx.x][b]);
        __syncthreads();
    }
    if (threadIdx.x < candidates) totals[threadIdx.x] = total;
    __syncthreads();
}

// Where a running sum over parts first exceeds the target. When rounding lets none do so, the last part that is
// not 0 is taken. In shared memory.
struct seed_search {
    double target, running, before; // `before`: the running sum before the part that was taken
    long long taken;
    int found;
    int first, last; // of the parts in hand: the first that exceeds the target, the last that is not 0
    double parts[KM_THREADS], sums[KM_THREADS];
};

// Goes on with search->parts[0 ... count), the first of which is part `index` of all. Only the running sum is made by
// one thread.
static __device__ void seed_search_parts(seed_search *search, int count, long long index) {
    const int t = threadIdx.x;
    __syncthreads();
    if (t == 0) {
        double sum = search->running;
#pragma unroll 8
        for (int b = 0; b < count; b++) search->sums[b] = sum = __dadd_rn(sum, search->parts[b]);
        search->first = count;
        search->last = -1;
    }
    __syncthreads();
    if (t < count && search->parts[t] > 0.0) {
        if (search->sums[t] > search->target) atomicMin(&search->first, t);
        atomicMax(&search->last, t);
    }
    __syncthreads();
    if (t == 0) {
        search->found = search->first < count;
        const int taken = search->found ? search->first : search->last;
        if (taken >= 0) {
            search->taken = index + taken;
            search->before = taken > 0 ? search->sums[taken - 1] : search->running;
        }
        search->running = search->sums[count - 1];
    }
    __syncthreads();
}

// What a point weighs in the draw of `pick`, given the pick before and the distances before that.
__device__ __forceinline__ double seed_value(const km_seed_args *args, const km_real *nearest, long long i,
                                             long long pick, const km_real *last) {
    const double weight = km_weight(args->weights, i);
    if (pick == 0) return weight;
    km_real square = seed_distance((const km_real *)args->points + i * D, last);
    if (pick > 1) square = nearest[i] < square ? nearest[i] : square;
    return __dmul_rn(weight, square);
}

// Walks down: blocks, units of the block, threads of the unit, points of the thread.
static __device__ long long seed_find(const km_seed_args *args, const km_real *nearest,
                                      const double *unit_sums, double target, long long pick,
                                      const km_real *last) {
    __shared__ seed_search search;
    const long long units = args->units,
                    blocks = (units + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK;
    if (threadIdx.x == 0) {
        search.target = target;
        search.running = search.before = 0.0;
        search.taken = 0;
        search.found = 0;
    }
    __syncthreads();
    for (long long first = 0; first < blocks && !search.found; first += KM_THREADS) {
        const int here = (int)(blocks - first < KM_THREADS ? blocks - first : KM_THREADS);
        seed_block_sums(search.parts, unit_sums, units, first, here);
        seed_search_parts(&search, here, first);
    }
    const long long begin = search.taken * KM_SUBCHUNKS_PER_CHUNK;
    const int left = (int)(units - begin < KM_SUBCHUNKS_PER_CHUNK ? units - begin : KM_SUBCHUNKS_PER_CHUNK);
    if (threadIdx.x < left) search.parts[threadIdx.x] = unit_sums[begin + threadIdx.x];
    if (threadIdx.x == 0) search.running = search.before;
    seed_search_parts(&search, left, begin);
    const long long mine = search.taken * KM_SUBCHUNK_POINTS + threadIdx.x * SEED_POINTS;
    double values[SEED_POINTS], sum = 0.0;
#pragma unroll
    for (int p = 0; p < SEED_POINTS; p++) {
        values[p] = mine + p < args->n ? seed_value(args, nearest, mine + p, pick, last) : 0.0;
        sum = __dadd_rn(sum, values[p]);
    }
    __syncthreads();
    search.parts[threadIdx.x] = sum;
    if (threadIdx.x == 0) search.running = search.before;
    seed_search_parts(&search, KM_THREADS, 0);
    const long long taken = search.taken;
    double running = search.before;
    __syncthreads();
    if (threadIdx.x == taken) {
        long long drawn = mine;
        bool found = false;
#pragma unroll
        for (int p = 0; p < SEED_POINTS; p++) {
            running = __dadd_rn(running, values[p]);
            if (!found && values[p] > 0.0) {
                drawn = mine + p;
                found = running > target;
            }
        }
        search.taken = drawn;
    }
    __syncthreads();
    return search.taken;
}

// Block (chain, candidate). candidates_before and candidates_now: of pick - 1 (0 for the first) and of this pick (0
// after the last).
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_seed_draw(const __grid_constant__ km_seed_args args, long long pick, int candidates_before,
                 int candidates_now) {
    __shared__ double totals[KM_CANDIDATES_MAX];
    const int chain = blockIdx.x, candidate = blockIdx.y;
    const km_real *points = (const km_real *)args.points;
    const double *unit_sums =
        pick == 0 ? args.unit_weights : args.unit_sums + (long long)chain * KM_CANDIDATES_MAX * args.units;
    seed_totals(totals, unit_sums, args.units, pick == 0 ? 1 : candidates_before);
    int best = 0;
    for (int c = 1; c < candidates_before; c++)
        if (totals[c] < totals[best]) best = c;
    const double total = totals[best];
    const km_real *last = points;
    if (pick > 0) {
        const long long *before =
            args.candidates + ((pick - 1) % 2 * args.chains + chain) * KM_CANDIDATES_MAX;
        last = points + before[best] * D;
        if (candidate == 0 && threadIdx.x == 0)
            args.picks[chain * args.picks_count + pick - 1] = before[best];
    }
    if (candidate >= candidates_now) return;
    const double u = km_draw(args.seed, args.first_restart + chain, pick, candidate);
    long long drawn = (long long)(u * args.n);
    if (drawn > args.n - 1) drawn = args.n - 1;
    if (total > 0.0)
        drawn = seed_find(&args, (const km_real *)args.nearest + chain * args.n,
                          unit_sums + best * args.units, u * total, pick, last);
    if (threadIdx.x == 0)
        args.candidates[(pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX + candidate] = drawn;
}

// The rows of a task: 0 the last pick, 1 + c candidate c.
struct seed_rows {
    const km_real *staged;  // in shared memory; or
    const long long *point; // in shared memory: the points that they are
};

__device__ __forceinline__ const km_real *seed_row(const km_seed_args &args, const seed_rows &rows, int c) {
    return SEED_STAGED ? rows.staged + c * D : (const km_real *)args.points + rows.point[c] * D;
}

// Some points of a thread, every SEED_STRIDE-th from here on, and the column of a chain's distances beside them.
struct seed_points {
    const km_real *x;
    const double *weights;
    km_real *nearest;
};

// Adds features f ... of the points' squared distances to row `c` of the task.
template <int POINTS>
__device__ __forceinline__ void seed_distances(km_real *square, const km_real (*x)[STEP_CHUNK],
                                               const km_seed_args &args, const seed_rows &rows, int c,
                                               int f) {
    km_real row[STEP_CHUNK];
    step_load(row, seed_row(args, rows, c), f);
#pragma unroll
    for (int g = 0; g < STEP_CHUNK; g++)
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const km_real t = x[p][g] - row[g];
            square[p] = fma(t, t, square[p]);
        }
}

template <int POINTS>
__device__ __forceinline__ void seed_load(km_real (*x)[STEP_CHUNK], const seed_points &at, int f) {
#pragma unroll
    for (int p = 0; p < POINTS; p++) step_load(x[p], at.x + p * SEED_STRIDE * D, f);
}

// The distances as the pick before left them.
template <int POINTS>
__device__ __forceinline__ void seed_known(km_real *known, const km_real *nearest, bool there) {
#pragma unroll
    for (int p = 0; p < POINTS; p++) known[p] = there ? __ldcg(nearest + p * SEED_STRIDE) : SEED_FAR;
}

// What some points would cost, added in pairs of pairs: as exact as a sum of four, one by one.
template <int POINTS>
__device__ __forceinline__ km_real seed_left(const km_real *best, const km_real *square) {
    if constexpr (POINTS == 1)
        return fmin(best[0], square[0]);
    else
        return seed_left<POINTS / 2>(best, square) +
               seed_left<POINTS / 2>(best + POINTS / 2, square + POINTS / 2);
}

// A task. Brings distances up to date with the last pick, where `update`, and adds to sums[c * KM_THREADS] what the
// points would cost with candidate c: w times the smaller of the distance to what was picked before (`best`) and to the
// candidate.
template <int POINTS>
__device__ __forceinline__ void seed_serve(double *sums, km_real *best, km_real (*x)[STEP_CHUNK],
                                           const km_seed_args &args, const seed_rows &rows,
                                           const seed_points &at, int candidates, bool update, bool first) {
    km_real square[SEED_ROWS][POINTS] = {};
    if (STEP_WHOLE && update) seed_distances<POINTS>(square[0], x, args, rows, 0, 0);
#pragma unroll 1
    for (int f = 0; f < D && !STEP_WHOLE; f += STEP_CHUNK) {
        seed_load<POINTS>(x, at, f);
#pragma unroll
        for (int c = 0; c < SEED_ROWS; c++)
            if (c == 0 ? update : c <= candidates) seed_distances<POINTS>(square[c], x, args, rows, c, f);
    }
    if (update) {
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const bool nearer = square[0][p] < best[p];
            if (nearer) best[p] = square[0][p];
            if (nearer || first) at.nearest[p * SEED_STRIDE] = best[p];
        }
    }
#pragma unroll
    for (int c = 0; c < SEED_CANDIDATES; c++) {
        if (c >= candidates) break;
        if (STEP_WHOLE) seed_distances<POINTS>(square[c + 1], x, args, rows, c + 1, 0);
        const double sum = fmin(seed_left<POINTS>(best, square[c + 1]), SEED_FAR);
        sums[c * KM_THREADS] = __dadd_rn(sums[c * KM_THREADS], sum);
    }
}

// The tasks in hand: `count` of them from a part of a chain's candidates on.
struct seed_tasks {
    const km_real *staged;
    const long long *point;
    int count, chain, part, parts, candidates; // of all parts
    long long picked;                          // how many picks there are
};

// Some points of a thread, one task after another; while one is served, what is known for the next chain is fetched.
template <int POINTS>
__device__ __forceinline__ void seed_group(double (*sums)[SEED_CANDIDATES][KM_THREADS],
                                           const km_seed_args &args, const seed_tasks &tasks,
                                           long long first) {
    km_real x[POINTS][STEP_CHUNK], best[POINTS];
    seed_points at = {(const km_real *)args.points + first * D, args.weights + first,
                      (km_real *)args.nearest + tasks.chain * args.n + first};
    if (STEP_WHOLE) seed_load<POINTS>(x, at, 0);
    seed_known<POINTS>(best, at.nearest, tasks.picked > 1);
    int left = tasks.candidates - tasks.part * SEED_CANDIDATES; // of the chain in hand
#pragma unroll 1
    for (int task = 0; task < tasks.count; task++) {
        const bool of_next = left <= SEED_CANDIDATES; // the next task is another chain's
        const seed_rows rows = {tasks.staged + task * SEED_ROWS * D, tasks.point + task * SEED_ROWS};
        km_real ahead[POINTS];
        seed_known<POINTS>(ahead, at.nearest + args.n, of_next && task + 1 < tasks.count && tasks.picked > 1);
        seed_serve<POINTS>(&sums[task][0][threadIdx.x], best, x, args, rows, at,
                           of_next ? left : int(SEED_CANDIDATES),
                           left == tasks.candidates && tasks.picked > 0, tasks.picked == 1);
        left = of_next ? tasks.candidates : left - SEED_CANDIDATES;
        if (!of_next) continue; // what is known is up to date
        at.nearest += args.n;
#pragma unroll
        for (int p = 0; p < POINTS; p++) best[p] = ahead[p];
    }
}

// Adds the threads' sums of each unit and writes them; eight threads a sum.
__device__ __forceinline__ void seed_write(const km_seed_args &args,
                                           const double (*sums)[SEED_CANDIDATES][KM_THREADS],
                                           const seed_tasks &tasks) {
    constexpr int ADDERS = 8;
    static_assert(2 * SEED_TASKS * SEED_CANDIDATES * ADDERS == KM_THREADS,
                  "a sum of each task, candidate and unit");
    const int which = threadIdx.x / ADDERS, half = which % 2, c = which / 2 % SEED_CANDIDATES;
    const int task = which / 2 / SEED_CANDIDATES, part = tasks.part + task;
    const int candidate = part % tasks.parts * SEED_CANDIDATES + c;
    const long long unit = blockIdx.x * 2ll + half;
    double sum = 0.0;
    for (int i = threadIdx.x % ADDERS; i < SEED_STRIDE; i += ADDERS)
        sum = __dadd_rn(sum, sums[task][c][half * SEED_STRIDE + i]);
    for (int step = ADDERS / 2; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % ADDERS || task >= tasks.count || candidate >= tasks.candidates || unit >= args.units)
        return;
    const long long row = (tasks.chain + part / tasks.parts) * (long long)KM_CANDIDATES_MAX + candidate;
    args.unit_sums[row * args.units + unit] = sum;
}

// Two units of points, each by half of the threads; a few tasks at a time.
extern "C" __global__ void __launch_bounds__(KM_THREADS, SEED_BLOCKS)
    km_seed_pass(const __grid_constant__ km_seed_args args, long long pick, int candidates) {
    __shared__ __align__(16) km_real staged[SEED_STAGED ? SEED_TASKS * SEED_ROWS * D : 1];
    __shared__ long long rows[SEED_TASKS * SEED_ROWS];
    __shared__ double sums[SEED_TASKS][SEED_CANDIDATES][KM_THREADS];
    const km_real *points = (const km_real *)args.points;
    const long long unit = blockIdx.x * 2ll + threadIdx.x / SEED_STRIDE;
    const int parts = (candidates + SEED_CANDIDATES - 1) / SEED_CANDIDATES, all = args.chains * parts;
    const long long first = unit * KM_SUBCHUNK_POINTS + threadIdx.x % SEED_STRIDE;
#pragma unroll 1
    for (int begin = 0; begin < all; begin += SEED_TASKS) {
        const seed_tasks tasks = {
            staged,        rows,          all - begin < SEED_TASKS ? all - begin : int(SEED_TASKS),
            begin / parts, begin % parts, parts,
            candidates,    pick};
        const auto point_of = [&](int row) { // of the tables; -1: there is none
            const int task = begin + row / SEED_ROWS, chain = task / parts, c = row % SEED_ROWS - 1;
            const int candidate = task % parts * SEED_CANDIDATES + c;
            if (c < 0) return pick > 0 ? args.picks[chain * args.picks_count + pick - 1] : -1ll;
            const long long *drawn = args.candidates + (pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX;
            return candidate < candidates ? drawn[candidate] : -1ll;
        };
        if (begin > 0) __syncthreads(); // the tables and sums of the tasks before are done with
        for (int at = threadIdx.x; at < tasks.count * SEED_ROWS * (SEED_STAGED ? int(D) : 1);
             at += KM_THREADS) {
            const long long point = point_of(SEED_STAGED ? at / D : at);
            if (SEED_STAGED && point >= 0) staged[at] = points[point * D + at % D];
            if (!SEED_STAGED) rows[at] = point;
        }
        for (int task = 0; task < tasks.count; task++)
            for (int c = 0; c < SEED_CANDIDATES; c++) sums[task][c][threadIdx.x] = 0.0;
        __syncthreads();
        constexpr int STEP = SEED_GROUP * SEED_STRIDE;
        if ((unit + 1) * KM_SUBCHUNK_POINTS <= args.n)
#pragma unroll 1
            for (int i = 0; i < KM_SUBCHUNK_POINTS; i += STEP)
                seed_group<SEED_GROUP>(sums, args, tasks, first + i);
        else
#pragma unroll 1
            for (long long i = first; i < args.n; i += SEED_STRIDE) seed_group<1>(sums, args, tasks, i);
        __syncthreads();
        seed_write(args, sums, tasks);
    }
}
// Finish: labels, distances and sums of the models in one last pass, labels bitwise as on every other backend. Few
// clusters: km_finish_few reads the points once for each model and keeps nothing of them. Many: km_assign leaves each
// point's label and distance, and km_finish_blocks adds them up, block by block in index order.
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24. Where
// the second-nearest is farther than the nearest by more than that, the nearest is certain; other points are looked at
// again in double. Squared distances are summed in double, from the stored values; distances and margins are float.

constexpr int FINISH_POINTS = D * sizeof(km_real) <= 16 ? 4 : 2; // of a thread at a time
constexpr int FINISH_ROWS = STEP_WHOLE ? 1 : 4;                  // centroids for each read of the points' features

// Nearest and second-nearest centroid of a point: squared distances in the plan's type.
struct finish_near {
    km_real nearest, second;
    int label;
};

// Of FINISH_POINTS points, x[0], x[1], ..., among the k rows of `table`. Leaves whole points in `here`.
__device__ __forceinline__ void finish_search(finish_near *near, km_real (*here)[STEP_CHUNK],
                                              const km_real *const *x, const km_real *table, int k) {
#pragma unroll
    for (int p = 0; p < FINISH_POINTS; p++) {
        near[p] = {(km_real)__int_as_float(0x7f800000), (km_real)__int_as_float(0x7f800000), 0};
        if (STEP_WHOLE) step_load(here[p], x[p], 0);
    }
#pragma unroll(STEP_WHOLE ? 4 : 1)
    for (int j = 0; j < k; j += FINISH_ROWS) {
        km_real square[FINISH_ROWS][FINISH_POINTS] = {};
        for (int f = 0; f < D; f += STEP_CHUNK) {
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++)
                if (!STEP_WHOLE) step_load(here[p], x[p], f);
#pragma unroll
            for (int r = 0; r < FINISH_ROWS; r++) {
                km_real centroid[STEP_CHUNK];
                step_load(centroid, table + (long long)(j + r < k ? j + r : j) * D, f);
#pragma unroll
                for (int g = 0; g < STEP_CHUNK; g++)
#pragma unroll
                    for (int p = 0; p < FINISH_POINTS; p++) {
                        const km_real t = here[p][g] - centroid[g];
                        square[r][p] = fma(t, t, square[r][p]);
                    }
            }
        }
#pragma unroll
        for (int r = 0; r < FINISH_ROWS; r++) {
            if (j + r >= k) break;
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++) {
                near[p].second = fmin(near[p].second, fmax(near[p].nearest, square[r][p]));
                near[p].label = square[r][p] < near[p].nearest ? j + r : near[p].label;
                near[p].nearest = fmin(near[p].nearest, square[r][p]);
            }
        }
    }
}

// What a point gives to the sums of its cluster.
struct finish_point {
    int label;
    double square, distance, margin;
};

__device__ __forceinline__ finish_point finish_of_squares(int label, double nearest, double second, int k) {
    const double distance = __dsqrt_rn(nearest), far = k > 1 ? __dsqrt_rn(second) : 0.0;
    return {label, nearest, distance, far > 0.0 ? __ddiv_rn(__dsub_rn(far, distance), far) : 0.0};
}

// `x` is in registers where points are whole: every index is known then.
template <typename Real>
__device__ __forceinline__ double finish_square(const km_real *x, const Real *centroid) {
    double square = 0.0;
#pragma unroll(STEP_WHOLE ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const double t = __dsub_rn(x[f], centroid[f]);
        square = __fma_rn(t, t, square);
    }
    return square;
}

// To a row of `table`, which holds the same values as the centroids in double but for a lone one.
__device__ __forceinline__ double finish_square_of_row(const km_real *x, const km_real *row) {
    if (!STEP_WHOLE) return finish_square(x, row);
    km_real centroid[STEP_CHUNK]; // lanes ask for different rows: one load is as dear as another
    step_load(centroid, row, 0);
    return finish_square(x, centroid);
}

// By distances in double.
__device__ __forceinline__ finish_point finish_exact(const km_real *x, const double *centroids, int k) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, second = infinity;
    int label = 0;
#pragma unroll 1
    for (int j = 0; j < k; j++) {
        const double square = finish_square(x, centroids + (long long)j * D);
        const bool nearer = square < nearest;
        second = nearer ? nearest : square < second ? square : second;
        nearest = nearer ? square : nearest;
        label = nearer ? j : label;
    }
    return finish_of_squares(label, nearest, second, k);
}

__device__ __forceinline__ float finish_root(float value) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}

// Decides what was searched.
__device__ __forceinline__ finish_point finish_decide(const finish_near &near, const km_real *x,
                                                      const double *centroids, const km_real *table, int k) {
    // Twice the bound, and what squares lose below the smallest float. Quotients of large squares are not to be
    // trusted; a lone centroid has no second: its distances are double, and it need not be a float.
    const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    if (!(fma(near.nearest, apart, lost) < near.second && near.second < largest))
        return finish_exact(x, centroids, k);
    return {near.label, finish_square_of_row(x, table + (long long)near.label * D), finish_root(near.nearest),
            1.0f - finish_root(__fdividef(near.nearest, near.second))};
}

// Sums of a cluster as km_finish_few keeps them: a column for each thread, so that nobody waits; counts apart.
enum { FINISH_SSE, FINISH_DISTANCE, FINISH_MARGIN, FINISH_NUMBERS }; // every point weighs 1
static_assert(FINISH_NUMBERS * 8 + 4 == (WEIGHTED ? KM_FINISH_WEIGHTED_BYTES : KM_FINISH_BYTES),
              "as the engine knows");

__device__ __forceinline__ void finish_add(double *sums, unsigned *counts, const finish_point &point,
                                           double weight) {
    double *column = sums + point.label * (FINISH_NUMBERS * KM_FINISH_THREADS);
    column[FINISH_SSE * KM_FINISH_THREADS] += weight * point.square;
    column[FINISH_DISTANCE * KM_FINISH_THREADS] += weight * point.distance;
    column[FINISH_MARGIN * KM_FINISH_THREADS] += weight * point.margin;
    counts[point.label * KM_FINISH_THREADS] += 1;
}

// Adds up the columns of one number, in every lane of the warp.
template <typename Number> __device__ __forceinline__ Number finish_fold(const Number *columns) {
    Number sum = columns[threadIdx.x % 32];
    for (int at = 32; at < KM_FINISH_THREADS; at += 32) sum += columns[at + threadIdx.x % 32];
    for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    return sum;
}

__device__ __forceinline__ void finish_write(double *out, const double *sums, const unsigned *counts, int k) {
    for (int j = threadIdx.x / 32; j < k; j += KM_FINISH_THREADS / 32) {
        const double *columns = sums + j * (FINISH_NUMBERS * KM_FINISH_THREADS);
        const double count = finish_fold(counts + j * KM_FINISH_THREADS);
        const double sse = finish_fold(columns + FINISH_SSE * KM_FINISH_THREADS);
        const double distance = finish_fold(columns + FINISH_DISTANCE * KM_FINISH_THREADS);
        const double margin = finish_fold(columns + FINISH_MARGIN * KM_FINISH_THREADS);
        const double weight = count;
        if (threadIdx.x % 32) continue;
        out[j * KM_FINISH_SUMS + KM_FINISH_COUNT] = count;
        out[j * KM_FINISH_SUMS + KM_FINISH_WEIGHT] = weight;
        out[j * KM_FINISH_SUMS + KM_FINISH_SSE] = sse;
        out[j * KM_FINISH_SUMS + KM_FINISH_DISTANCE] = distance;
        out[j * KM_FINISH_SUMS + KM_FINISH_MARGIN] = margin;
    }
}

// One fixed block of points and one model, the models of a block side by side: they read the same points.
extern "C" __global__ void __launch_bounds__(KM_FINISH_THREADS, 4)
    km_finish_few(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                  long long rows_count) {
    extern __shared__ double finish_memory[];
    const int model = blockIdx.x % args.models, k = args.ks[model];
    const long long block = blockIdx.x / args.models, first = block * KM_CHUNK_POINTS;
    const int count = (int)(args.count - first < KM_CHUNK_POINTS ? args.count - first : KM_CHUNK_POINTS);
    int *labels = args.labels ? args.labels + model * args.count + first : nullptr;
    const double *centroids = args.centroids + args.rows[model] * D;
    const km_real *table = (const km_real *)args.table + args.rows[model] * D;
    const km_real *points = (const km_real *)args.points + (args.first + first) * D;
    unsigned *counts = (unsigned *)(finish_memory + k * FINISH_NUMBERS * KM_FINISH_THREADS);
    for (int at = threadIdx.x; at < k * FINISH_NUMBERS * KM_FINISH_THREADS; at += KM_FINISH_THREADS)
        finish_memory[at] = 0.0;
    for (int j = 0; j < k; j++) counts[j * KM_FINISH_THREADS + threadIdx.x] = 0;
    for (int base = threadIdx.x; base < count; base += FINISH_POINTS * KM_FINISH_THREADS) {
        const km_real *x[FINISH_POINTS];
        finish_near near[FINISH_POINTS];
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++) {
            const int i = base + p * KM_FINISH_THREADS;
            x[p] = points + (i < count ? i : 0) * D;
        }
        km_real here[FINISH_POINTS][STEP_CHUNK];
        finish_search(near, here, x, table, k);
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++) {
            const int i = base + p * KM_FINISH_THREADS;
            if (i >= count) break;
            const finish_point point =
                finish_decide(near[p], STEP_WHOLE ? here[p] : x[p], centroids, table, k);
            finish_add(finish_memory + threadIdx.x, counts + threadIdx.x, point,
                       km_weight(weights, args.first + first + i));
            if (labels) labels[i] = point.label;
        }
    }
    __syncthreads();
    finish_write(partial + (block * rows_count + args.rows[model]) * KM_FINISH_SUMS, finish_memory, counts,
                 k);
}

// Block (unit of points, model): labels and squared distances, and margins where they are asked for.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_assign(const __grid_constant__ km_assign_args args) {
    const int model = blockIdx.y, k = args.ks[model];
    const double *centroids = args.centroids + args.rows[model] * D;
    const km_real *table = (const km_real *)args.table + args.rows[model] * D;
    const km_real *points = (const km_real *)args.points + args.first * D;
    for (int p = 0; p < KM_SUBCHUNK_POINTS; p += FINISH_POINTS * KM_THREADS) {
        const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p + threadIdx.x;
        const km_real *x[FINISH_POINTS];
        finish_near near[FINISH_POINTS];
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS;
            x[q] = points + (i < args.count ? i : 0) * D;
        }
        km_real here[FINISH_POINTS][STEP_CHUNK];
        finish_search(near, here, x, table, k);
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS, out = model * args.count + i;
            if (i >= args.count) break;
            const finish_point point =
                finish_decide(near[q], STEP_WHOLE ? here[q] : x[q], centroids, table, k);
            args.labels[out] = point.label;
            args.nearest[out] = point.square;
            if (args.margin) args.margin[out] = point.margin;
        }
    }
}

// A point as km_assign left it; its label is -1 - lane where there is no point.
struct finish_left {
    int label;
    double weight, square, margin;
};

__device__ __forceinline__ finish_left finish_load(const km_assign_args &args, const double *weights,
                                                   int model, long long at, long long end) {
    finish_left point = {-1 - (int)threadIdx.x, 0.0, 0.0, 0.0};
    if (at < end) {
        const long long from = model * args.count + at;
        point.label = args.labels[from];
        point.weight = km_weight(weights, args.first + at);
        point.square = args.nearest[from];
        point.margin = args.margin[from];
    }
    return point;
}

// What the 32 points in hand add to their clusters, for all lanes to see.
struct finish_tile {
    double weight[32], sse[32], distance[32], margin[32];
};

__device__ __forceinline__ void finish_share(finish_tile *tile, const finish_left &point) {
    const int lane = threadIdx.x;
    tile->weight[lane] = point.weight;
    tile->sse[lane] = __dmul_rn(point.weight, point.square);
    tile->distance[lane] = __dmul_rn(point.weight, __dsqrt_rn(point.square));
    tile->margin[lane] = __dmul_rn(point.weight, point.margin);
}

// One warp a (block, model): partial[block][row of the model + j][KM_FINISH_SUMS]. The 32 points in hand are grouped
// by label; the first lane of each label adds them in index order, so no two lanes touch one row. The rows are in
// dynamic shared memory where they fit, others are added in place.
extern "C" __global__ void __launch_bounds__(32)
    km_finish_blocks(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                     long long rows_count, int in_shared) {
    extern __shared__ double finish_memory[];
    __shared__ finish_tile tile;
    const int lane = threadIdx.x, model = blockIdx.y, k = args.ks[model];
    const long long first = blockIdx.x * (long long)KM_CHUNK_POINTS;
    const long long end = first + KM_CHUNK_POINTS < args.count ? first + KM_CHUNK_POINTS : args.count;
    double *out = partial + (blockIdx.x * rows_count + args.rows[model]) * KM_FINISH_SUMS;
    double *sums = in_shared ? finish_memory : out;
    for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) sums[at] = 0.0;
    finish_left next = finish_load(args, weights, model, first + lane, end);
    finish_left after = finish_load(args, weights, model, first + 32 + lane, end);
    for (long long base = first; base < end; base += 32) {
        const int label = next.label;
        finish_share(&tile, next);
        next = after;
        after = finish_load(args, weights, model, base + 64 + lane, end);
        __syncwarp();
        unsigned same = __match_any_sync(0xffffffffu, label);
        if (label >= 0 && (same & ((1u << lane) - 1u)) == 0) {
            double *row = sums + (long long)label * KM_FINISH_SUMS;
            double weight = row[KM_FINISH_WEIGHT], sse = row[KM_FINISH_SSE];
            double distance = row[KM_FINISH_DISTANCE], margin = row[KM_FINISH_MARGIN];
            row[KM_FINISH_COUNT] += __popc(same);
            for (; same; same &= same - 1) {
                const int i = __ffs(same) - 1;
                weight = __dadd_rn(weight, tile.weight[i]);
                sse = __dadd_rn(sse, tile.sse[i]);
                distance = __dadd_rn(distance, tile.distance[i]);
                margin = __dadd_rn(margin, tile.margin[i]);
            }
            row[KM_FINISH_WEIGHT] = weight;
            row[KM_FINISH_SSE] = sse;
            row[KM_FINISH_DISTANCE] = distance;
            row[KM_FINISH_MARGIN] = margin;
        }
        __syncwarp();
    }
    if (in_shared)
        for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) out[at] = sums[at];
}

// Adds blocks to the totals in index order: totals[numbers] += partial[0][numbers], partial[1][numbers], ...
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_finish_add(const double *partial, long long blocks, long long numbers, double *totals) {
    const long long column = blockIdx.x * (long long)KM_JOINED, at = column + threadIdx.x;
    const bool own = threadIdx.x < KM_JOINED && at < numbers;
    const double sum = step_join(own ? totals[at] : 0.0, partial, blocks, numbers, column, numbers, 0);
    if (own) totals[at] = sum;
}
// Relocate: the points farthest from their own centroids, one after the other. km_assign has left each point's
// squared distance; a point that was taken, and those with the same coordinates, are out by a distance of 0.

// Takes (value, index) when it is farther, or as far and earlier.
__device__ __forceinline__ void far_take(double *value, long long *index, double other,
                                         long long other_index) {
    if (other > *value || (other == *value && other_index < *index)) {
        *value = other;
        *index = other_index;
    }
}

// The farthest of a block of threads, in thread 0.
static __device__ void far_of_block(double *value, long long *index) {
    __shared__ double values[KM_THREADS];
    __shared__ long long indices[KM_THREADS];
    values[threadIdx.x] = *value;
    indices[threadIdx.x] = *index;
    __syncthreads();
    for (int half = KM_THREADS / 2; half > 0; half /= 2) {
        if (threadIdx.x < half)
            far_take(values + threadIdx.x, indices + threadIdx.x, values[threadIdx.x + half],
                     indices[threadIdx.x + half]);
        __syncthreads();
    }
    *value = values[0];
    *index = indices[0];
}

// A unit of points: drops those that equal the last taken point (picks[taken - 1]) or weigh nothing, and finds the
// farthest of the rest that are farther than rounding: than square_min, and than rounding2 of the point's own |x|^2.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_block(const km_real *points, const double *weights, long long n, double square_min,
                      double rounding2, double *nearest, const long long *picks, long long taken,
                      double *unit_values, long long *unit_indices) {
    const long long last = taken > 0 ? picks[taken - 1] : -1;
    double value = 0.0;
    long long index = n;
    for (int p = 0; p < KM_SUBCHUNK_POINTS / KM_THREADS; p++) {
        const long long i = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p * KM_THREADS + threadIdx.x;
        if (i >= n) break;
        double square = km_weight(weights, i) > 0.0 ? nearest[i] : 0.0;
        if (last >= 0 && square > 0.0) {
            int f = 0;
            while (f < D && points[i * D + f] == points[last * D + f]) f++;
            if (f == D) nearest[i] = square = 0.0;
        }
        if (!(square > square_min)) continue;
        double size = 0.0;
#pragma unroll 1
        for (int f = 0; f < D; f++)
            size = __fma_rn((double)points[i * D + f], (double)points[i * D + f], size);
        if (square > __dmul_rn(rounding2, size)) far_take(&value, &index, square, i);
    }
    far_of_block(&value, &index);
    if (threadIdx.x == 0) {
        unit_values[blockIdx.x] = value;
        unit_indices[blockIdx.x] = index;
    }
}

// One block of threads: picks[taken] = the farthest of all units, -1 when there is none.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_farthest_pick(const double *unit_values, const long long *unit_indices, long long units, long long n,
                     long long *picks, long long taken) {
    double value = 0.0;
    long long index = n;
    for (long long unit = threadIdx.x; unit < units; unit += KM_THREADS)
        far_take(&value, &index, unit_values[unit], unit_indices[unit]);
    far_of_block(&value, &index);
    if (threadIdx.x == 0) picks[taken] = value > 0.0 ? index : -1;
}
// Update: the blocks of a slot turn totals into new centroids, and one of them decides what the slot does next. The
// host queues iterations ahead of the report that the last block writes.

// Whether this is the last of a slot's blocks to come here: it then has the sums of them all, added in their order, and
// sees what they wrote.
__device__ __forceinline__ bool update_join(km_slot_record *record, double *shares, double (&sums)[4]) {
    __shared__ bool last;
    if (gridDim.y == 1) return true;
    if (threadIdx.x == 0) {
        for (int i = 0; i < 4; i++) shares[blockIdx.y * 4 + i] = sums[i];
        __threadfence();
        last = atomicAdd(&record->arrived, 1u) == gridDim.y - 1;
        __threadfence();
    }
    __syncthreads();
    if (!last) return false;
    for (int i = 0; i < 4; i++) sums[i] = 0.0;
    for (int part = 0; part < (int)gridDim.y; part++)
        for (int i = 0; i < 4; i++) sums[i] += ((volatile double *)shares)[part * 4 + i];
    if (threadIdx.x == 0) record->arrived = 0;
    return true;
}

// The last slot to come here closes the iteration; nobody asks for `stop` after that in this launch who has work to do.
__device__ __forceinline__ void update_close(const km_update_args &args, int slot) {
    if (args.changes) args.changes[slot] = 0;
    __threadfence();
    if (atomicAdd(&args.loop->updated, 1u) != gridDim.x - 1) return;
    km_control *head = &args.loop->head;
    args.loop->updated = 0;
    const int news = *(volatile int *)&args.loop->news, passes = head->passes + 1;
    const bool stop = (news > 0 && news >= args.loop->stopped_min) || passes >= head->passes_max;
    head->passes = passes;
    head->stop = stop;
    if (args.report) *(volatile unsigned long long *)args.report = passes | (unsigned long long)stop << 32;
}

// A slot with many numbers has several blocks (KM_UPDATE_PARTS), blockIdx.y: each moves a share of its clusters.
// Two blocks a multiprocessor are plenty: said, or the compiler makes room for more of them, and spills.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_update(const __grid_constant__ km_update_args args) {
    constexpr int LANES = D < 2    ? 1
                          : D < 3  ? 2
                          : D < 5  ? 4
                          : D < 9  ? 8
                          : D < 17 ? 16
                                   : 32; // threads of a cluster
    constexpr int AT_ONCE = KM_THREADS / LANES;
    const int slot = blockIdx.x, k_index = slot % KS, k = km_ks[k_index];
    const long long row = (long long)(slot / KS) * S + km_offsets[k_index];
    km_slot_record *record = args.slots + slot;
    const km_slot_phase phase = record->state.phase;
    if (args.loop->head.stop) return;
    if (km_slot_is_active(phase)) {
        km_real *centroids = (km_real *)args.centroids + row * D;
        const double *totals = args.totals + row * (D + 1);
        double sums[4] =
            {}; // of costs and shifts; clusters that are empty, and those that may be given a point
        for (int j = blockIdx.y * AT_ONCE + threadIdx.x / LANES; j < k; j += gridDim.y * AT_ONCE) {
            const double weight = totals[j * (D + 1ll) + D];
            for (int f = threadIdx.x % LANES; f < D; f += LANES) {
                const double c = centroids[j * (long long)D + f], sum = totals[j * (D + 1ll) + f];
                sums[0] += c * (weight * c - 2.0 * sum);
                if (phase == KM_SLOT_RUNNING && weight > 0.0) {
                    const km_real moved = (km_real)(sum / weight);
                    sums[1] += (moved - c) * (moved - c);
                    centroids[j * (long long)D + f] = moved;
                }
            }
            if (threadIdx.x % LANES == 0) {
                args.weights[row + j] = weight;
                sums[2] += weight > 0.0 ? 0.0 : 1.0;
                sums[3] += weight > 0.0 || args.given_up[row + j] ? 0.0 : 1.0;
            }
        }
        km_block_sums<4>(sums);
        if (!update_join(record, args.shares + slot * (4ll * gridDim.y), sums)) return;
        // One warp makes them while the first decides; the sums have waited for all new centroids.
        if (phase == KM_SLOT_RUNNING && threadIdx.x / 32 == 7)
            km_make_planes(km_table_of(args.workspace, args.constants, slot / KS), centroids, args.box,
                           k_index);
        if (threadIdx.x == 0) {
            // The first pass of a run has no labels to compare with: all count as changed.
            const int few_changes = args.changes && record->state.iterations > 0 &&
                                    (long long)args.changes[slot] < args.loop->changes_min;
            const km_slot_found found = {sums[0] + args.loop->total_square, sums[1], (long long)sums[2],
                                         sums[3] > 0.0, few_changes};
            km_slot_decide(&record->state, &found, args.loop->shift_max, args.loop->max_iter);
            args.active[slot] = km_slot_is_active(record->state.phase);
            if (!args.active[slot]) atomicAdd(&args.loop->news, 1);
        }
    } else if (blockIdx.y > 0) {
        return;
    }
    if (threadIdx.x == 0) update_close(args, slot);
}

