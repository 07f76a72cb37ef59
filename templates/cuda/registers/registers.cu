// SPDX-License-Identifier: MIT
//@ need points_per_thread block grid split run vector resident columns totals scratch parts
//@ need team own flush flushed counted ring crew stages turn const_planes
//@ include cuda/head.h

// Design `registers`. A thread holds a few points and the sums of its clusters in registers and walks over the
// data; everything about the K list is unrolled, so that the loop is one straight line.
//
// The score of centroid j is taken against one centroid of the same K, the pivot p:
//     score_j = x . (c_j - c_p) - (|c_j|^2 - |c_p|^2) / 2,        score_p = 0.
// The largest score is the nearest centroid. That is K - 1 scores for K centroids, and the pivot's sums need no
// adding: they are the sums over all points, made once when the points come home, less those of the other clusters.
//
//@ if teamed
// TEAM lanes share a point: each holds OWN of its features and their sums. Scores are added up over the team, so
// that all its lanes choose alike.
//
//@ end
//@ if ring
// Points come through shared memory: each warp$crew_text has a ring of tiles there, which is filled while it works.
//
//@ end
//@ if flushed
// A thread adds the points of FLUSH tiles at most; then its warp's lanes are added up and join doubles, so that
// accuracy does not depend on the number of points.
//
//@ end
// The last tile is filled up with points at zero; what they add to the counts is taken away in the end.
//
// At the end the warps of a block are added up in a fixed order and each block leaves one number per sum;
// km_reduce adds the blocks, in a fixed order too: the same bits every time, and no atomics.
enum {
    BLOCK = $block,              // threads of a block
    GRID = $grid,                // blocks of a launch, for one copy
    SPLIT = $split,              // warp groups of a block; each has its own share of the K list
    POINTS = $points_per_thread, // points that a thread works on at a time
    RUN = $run,                  // of them, how many lie side by side in memory
    VECTOR = $vector,            // numbers of one 16-byte load
    TEAM = $team,                // lanes that share a point
    OWN = $own,                  // features that a lane holds of it
    THREADS = BLOCK / SPLIT,     // threads of a warp group
    TEAMS = THREADS / TEAM,
    WARPS = THREADS / 32,    // warps of a warp group
    TILE = TEAMS * POINTS,   // points of one step of a warp group
    //@ if flushed
    FLUSH = $flush,          // tiles of a block after which sums join the doubles, a power of two
    //@ end
    //@ if ring
    STAGES = $stages,        // tiles of a ring
    ROWS = POINTS / RUN,     // a lane's points of a tile, RUN side by side
    PIECES = RUN * OWN / VECTOR, // 16-byte pieces of such a row
    //@ if turned
    TURN = $turn,            // rows are turned about by so many pieces: lanes meet in no bank
    //@ end
    //@ end
    PLANE = (OWN + VECTOR) / VECTOR * VECTOR, // numbers of a plane: a lane's factors and a constant, padded
    PLANES = $planes,            // one for each centroid but the pivots
    COLUMNS = $columns,          // sums of a lane, of all warp groups
    TOTALS = $totals,            // the first of those over all points, which never change
    SCRATCH = $scratch,          // sums of a lane of the largest warp group
    GATHERED = 32 / TEAM,        // sums of a lane that are added up over the warp at a time
    REDUCE = 1024,               // threads of a block of km_reduce
    COARSE_BITS = $coarse_bits   // bits of a coordinate such that scores come out exact
};

#define KM_UNROLL _Pragma("unroll")

struct __align__(16) km_vector {
    km_real at[VECTOR];
};

// The points that a thread works on.
struct km_points {
    km_real x[POINTS][OWN];
    //@ if weighted
    km_real weight[POINTS]; // 0 for padding
    //@ end
    //@ if track_labels
    int label[POINTS]; // of the K at hand
    //@ end
};

// What scores are made of, made after each update.
struct km_table {
    __align__(16) km_real planes[PLANES * TEAM][PLANE]; // those of a team's lanes side by side
    int pivots[KS];
};
//@ if const_planes
__constant__ km_table km_constants;
//@ end

//@ if ring
// A tile's points of $stage_text.
struct km_stage {
    km_vector pieces[ROWS * 32 * PIECES];
    //@ if weighted
    __align__(16) km_real weights[ROWS][32 * RUN];
    //@ end
};

//@ end
// What the threads of a block share.
struct km_block {
    //@ if ring
    km_stage ring[WARPS][STAGES];
    //@ end
    km_real gathered[BLOCK / 32][GATHERED][33];
    double scratch[BLOCK / 32][SCRATCH * TEAM]; // the sums of each warp
    //@ if not const_planes
    km_table table;
    //@ end
};

// The first column of each K: those of its clusters without the pivot, OWN sums and the weight each (with weights, then
// the pivot's weight too).
__device__ const int km_columns[KS] = {
    //@ for k in ks
    $k_column,
    //@ end
};

//@ if const_planes
// The workspace: for each column one number per block. The table is in constant memory, which kernels write by its
// address.
//@ else
// The workspace: the table of each copy; then for each copy, column and lane of a team one number per block.
//@ end
static __device__ __forceinline__ double *km_column(const km_pass_args &args, int column) {
    //@ if const_planes
    return (double *)args.workspace + (long long)column * GRID;
    //@ else
    double *columns = (double *)((km_table *)args.workspace + COPIES);
    return columns + ((long long)blockIdx.y * COLUMNS * TEAM + column) * GRID;
    //@ end
}

static __device__ __forceinline__ km_table *km_table_of(void *workspace, void *constants, int copy) {
    //@ if const_planes
    return (km_table *)constants;
    //@ else
    return (km_table *)workspace + copy;
    //@ end
}

//@ if indexed
// The points of a warp lie side by side, RUN of them a team: point r of the thread lies so far behind its first.
static __device__ __forceinline__ constexpr int km_step(int r) {
    return r / RUN * RUN * (32 / TEAM) + r % RUN;
}

// The thread's first point of a tile.
static __device__ __forceinline__ long long km_first(int tile) {
    const int thread = threadIdx.x % THREADS;
    return (long long)tile * TILE + thread / 32 * (32 / TEAM) * POINTS + thread % 32 / TEAM * RUN;
}

//@ end
// Tiles of the points, the last one filled up.
static __device__ __forceinline__ int km_tiles(const km_pass_args &args) {
    return (int)((args.n + TILE - 1) / TILE);
}

//@ if ring
//@ if turned
// Where an even number of pieces makes a row, they are turned about, so that the lanes that read at a time meet in no
// bank: by so many.
static __device__ __forceinline__ unsigned km_turn(unsigned row) {
    return row % 8 / (8 / TURN);
}

//@ end
// Starts to copy a piece into shared memory; where not `valid`, zeros.
static __device__ __forceinline__ void km_copy(void *to, const void *from, bool valid) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(valid ? 16 : 0));
}

//@ if weighted
// Likewise the weights of RUN points.
static __device__ __forceinline__ void km_copy_weights(void *to, const void *from, bool valid) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], $weights_bytes, %2;" ::"r"(
                     (unsigned)__cvta_generic_to_shared(to)),
                 "l"(from), "r"(valid ? $weights_bytes : 0));
}

//@ end

// Where the points of the warp begin in a tile.
static __device__ __forceinline__ long long km_first_of_warp(int tile) {
    return (long long)tile * TILE + threadIdx.x % THREADS / 32 * (32 / TEAM) * POINTS;
}

// Starts to copy a tile's points of $stage_text.
static __device__ __forceinline__ void km_fetch_whole(km_stage &stage, const km_pass_args &args, int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = km_first_of_warp(tile);
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D) + lane;
    //@ if crew
    constexpr int SHARE = (ROWS * PIECES + SPLIT - 1) / SPLIT; // of a member of the crew
    const unsigned begin = threadIdx.x / THREADS * SHARE * 32;
    KM_UNROLL for (int i = 0; i < SHARE; i++) {
        const unsigned piece = begin + i * 32;
        if (ROWS * PIECES % SPLIT && piece >= 32 * ROWS * PIECES) continue;
        //@ else
    KM_UNROLL for (int i = 0; i < ROWS * PIECES; i++) {
        const unsigned piece = i * 32;
        //@ end
        //@ if not turned
        const unsigned to = piece + lane;
        //@ else
        //@ if whole_rows
        const unsigned to = piece + (lane ^ km_turn(lane / PIECES) ^ km_turn(piece / PIECES));
        //@ else
        const unsigned row = (piece + lane) / PIECES, to = row * PIECES + ((piece + lane) % PIECES ^ km_turn(row));
        //@ end
        //@ end
        km_copy(&stage.pieces[to], from + piece, true);
    }
    //@ if weighted
    const km_real *weights = (const km_real *)args.weights + first + lane / TEAM * RUN;
    KM_UNROLL for (int row = $member; row < ROWS; row += SPLIT)
        km_copy_weights(&stage.weights[row][lane * RUN], weights + row * RUN * (32 / TEAM), true);
    //@ end
}

// Likewise of the last tile, which is not a whole one.
static __device__ __forceinline__ void km_fetch_last(km_stage &stage, const km_pass_args &args, int tile) {
    const unsigned lane = threadIdx.x % 32;
    const long long first = km_first_of_warp(tile);
    const km_vector *from = (const km_vector *)((const km_real *)args.points + first * D);
    //@ if crew
    const unsigned begin = threadIdx.x / THREADS * 32 + lane;
    //@ else
    const unsigned begin = lane;
    //@ end
    _Pragma("unroll 1") for (unsigned piece = begin; piece < 32 * ROWS * PIECES; piece += 32 * SPLIT) {
        const unsigned row = piece / PIECES;
        const bool valid = first + row / TEAM * RUN < args.n;
        //@ if turned
        km_copy(&stage.pieces[row * PIECES + (piece % PIECES ^ km_turn(row))], valid ? from + piece : from, valid);
        //@ else
        km_copy(&stage.pieces[piece], valid ? from + piece : from, valid);
        //@ end
    }
    //@ if weighted
    const km_real *weights = (const km_real *)args.weights;
    _Pragma("unroll 1") for (int row = $member; row < ROWS; row += SPLIT) {
        const long long point = first + row * RUN * (32 / TEAM) + lane / TEAM * RUN;
        km_copy_weights(&stage.weights[row][lane * RUN], weights + (point < args.n ? point : 0), point < args.n);
    }
    //@ end
}

static __device__ __forceinline__ void km_fetch(km_stage &stage, const km_pass_args &args, int tile, int tiles) {
    if (tile < (int)(args.n / TILE))
        km_fetch_whole(stage, args, tile);
    else if (tile < tiles)
        km_fetch_last(stage, args, tile);
    asm volatile("cp.async.commit_group;");
}

//@ if crew
// Waits for the oldest tile that is on its way, and for the warps that share the ring to be done with the one before.
//@ else
// Waits for the oldest tile that is on its way, and for the lanes to be done with the one before.
//@ end
static __device__ __forceinline__ void km_await() {
    asm volatile("cp.async.wait_group %0;" ::"n"(STAGES - 2) : "memory");
    //@ if crew
    asm volatile("bar.sync %0, %1;" ::"r"(1 + threadIdx.x % THREADS / 32), "n"(32 * SPLIT) : "memory");
    //@ else
    __syncwarp();
    //@ end
}

// The thread's points of a tile.
static __device__ __forceinline__ void km_load(km_points &points, const km_block &shared, const km_stage &stage) {
    const unsigned lane = threadIdx.x % 32, begin = (const char *)&stage - (const char *)&shared; // bytes
    //@ if turned
    const unsigned row = begin + (lane * PIECES + km_turn(lane)) * 16;
    //@ else
    const unsigned row = begin + lane * PIECES * 16;
    //@ end
    KM_UNROLL for (int r = 0; r < POINTS; r += RUN) {
        KM_UNROLL for (int v = 0; v < PIECES; v++) {
            //@ if turned
            const unsigned piece = (row ^ v % TURN * 16) + (r / RUN * 32 * PIECES + v / TURN * TURN) * 16;
            //@ else
            const unsigned piece = row + (r / RUN * 32 * PIECES + v) * 16;
            //@ end
            const km_vector numbers = *(const km_vector *)((const char *)&shared + piece);
            KM_UNROLL for (int i = 0; i < VECTOR; i++)
                points.x[r + (v * VECTOR + i) / OWN][(v * VECTOR + i) % OWN] = numbers.at[i];
        }
        //@ if weighted
        KM_UNROLL for (int i = 0; i < RUN; i++) points.weight[r + i] = stage.weights[r / RUN][lane * RUN + i];
        //@ end
    }
}

//@ else
// Loads the lane's share of RUN points that lie side by side.
static __device__ __forceinline__ void km_load_run(km_points &points, const km_pass_args &args, long long point,
                                                   int r) {
    const km_vector *from = (const km_vector *)((const km_real *)args.points + point * D + threadIdx.x % TEAM * OWN);
    KM_UNROLL for (int v = 0; v < RUN * OWN / VECTOR; v++) {
        const km_vector numbers = from[v];
        KM_UNROLL for (int i = 0; i < VECTOR; i++)
            points.x[r + (v * VECTOR + i) / OWN][(v * VECTOR + i) % OWN] = numbers.at[i];
    }
    //@ if weighted
    KM_UNROLL for (int i = 0; i < RUN; i++)
        points.weight[r + i] = ((const km_real *)args.weights)[point + i];
    //@ end
}

// Loads the thread's points of a tile; those past the end come from the padding rows, which are zero.
static __device__ __forceinline__ void km_load(km_points &points, const km_pass_args &args, int tile) {
    const long long first = km_first(tile);
    if (tile < (int)(args.n / TILE)) {
        KM_UNROLL for (int r = 0; r < POINTS; r += RUN) km_load_run(points, args, first + km_step(r), r);
    } else {
        const long long end = (args.n + RUN - 1) / RUN * RUN;
        KM_UNROLL for (int r = 0; r < POINTS; r += RUN)
            km_load_run(points, args, first + km_step(r) < end ? first + km_step(r) : end, r);
    }
}

//@ end
//@ if several
// Adds a point to its sums, and its weight, where `found` holds.
//@ if weighted
static __device__ __forceinline__ void km_add(km_real *sums, const km_real *x, km_real weight, bool found) {
    //@ if float64
    const double w = found ? weight : 0; // there are no predicated additions of doubles
    KM_UNROLL for (int f = 0; f < OWN; f++) sums[f] = fma(w, x[f], sums[f]);
    sums[OWN] += w;
    //@ else
    // Predicated by hand, as compilers branch around long bodies.
    KM_UNROLL for (int f = 0; f < OWN; f++)
        asm("{ .reg .pred found; setp.ne.s32 found, %3, 0; @found fma.rn.f32 %0, %1, %2, %0; }"
            : "+f"(sums[f])
            : "f"(weight), "f"(x[f]), "r"((int)found));
    asm("{ .reg .pred found; setp.ne.s32 found, %2, 0; @found add.f32 %0, %0, %1; }"
        : "+f"(sums[OWN])
        : "f"(weight), "r"((int)found));
    //@ end
}
//@ else
//@ if float64
static __device__ __forceinline__ void km_add(km_real *sums, int &count, const km_real *x, bool found) {
    const double weight = found ? 1 : 0; // there are no predicated additions of doubles
    KM_UNROLL for (int f = 0; f < OWN; f++) sums[f] = fma(weight, x[f], sums[f]);
    asm("{ .reg .pred found; setp.ne.s32 found, %1, 0; @found add.s32 %0, %0, 1; }" : "+r"(count) : "r"((int)found));
}
//@ else
static __device__ __forceinline__ void km_add(km_real *sums, const km_real *x, bool found) {
    // Predicated by hand, as compilers branch around long bodies.
    KM_UNROLL for (int f = 0; f < OWN; f++)
        asm("{ .reg .pred found; setp.ne.s32 found, %2, 0; @found add.f32 %0, %0, %1; }"
            : "+f"(sums[f])
            : "f"(x[f]), "r"((int)found));
    asm("{ .reg .pred found; setp.ne.s32 found, %1, 0; @found add.f32 %0, %0, 0f3f800000; }"
        : "+f"(sums[OWN])
        : "r"((int)found));
}
//@ end
//@ end
//@ end

//@ if several
//@ if not float64
// Comparisons by hand, as each is one instruction then: whether a score is the best one (another), and none is taken.
static __device__ __forceinline__ int km_is_best(int score, int best, int taken) {
    int is;
    asm("{ .reg .pred open, is; setp.eq.s32 open, %3, 0; setp.eq.and.s32 is, %1, %2, open; selp.s32 %0, 1, 0, is; }"
        : "=r"(is)
        : "r"(score), "r"(best), "r"(taken));
    return is;
}

static __device__ __forceinline__ int km_is_other(int score, int best, int taken) {
    int is;
    asm("{ .reg .pred open, is; setp.eq.s32 open, %3, 0; setp.ne.and.s32 is, %1, %2, open; selp.s32 %0, 1, 0, is; }"
        : "=r"(is)
        : "r"(score), "r"(best), "r"(taken));
    return is;
}

//@ end
// One K with OTHERS centroids beside the pivot: scores, the nearest centroid, and the sums.
template <int OTHERS>
//@ if counted
static __device__ __forceinline__ void km_assign(km_points &points, const km_real (*planes)[PLANE], int pivot,
                                                 km_real *sums, int *counts) {
    //@ else
static __device__ __forceinline__ void km_assign(km_points &points, const km_real (*planes)[PLANE], int pivot,
                                                 km_real *sums) {
    //@ end
    km_real score[POINTS][OTHERS];
    KM_UNROLL for (int j = 0; j < OTHERS; j++) {
        KM_UNROLL for (int p = 0; p < POINTS; p++) {
            score[p][j] = planes[j * TEAM][OWN];
            KM_UNROLL for (int f = 0; f < OWN; f++)
                score[p][j] = fma(points.x[p][f], planes[j * TEAM][f], score[p][j]);
        }
    }
    //@ if teamed
    // Both sides add the same two numbers: a team's lanes see the same bits.
    KM_UNROLL for (int width = 1; width < TEAM; width *= 2)
        KM_UNROLL for (int j = 0; j < OTHERS; j++)
            KM_UNROLL for (int p = 0; p < POINTS; p++)
                score[p][j] += __shfl_xor_sync(0xffffffff, score[p][j], width);
    //@ end
    KM_UNROLL for (int p = 0; p < POINTS; p++) {
        const km_real *x = points.x[p];
        //@ if weighted
        const km_real weight = points.weight[p];
        //@ end
        //@ if float64
        // Comparisons of doubles are dear, so one for each score. What is 0 or more beats the pivot: its number is
        // the last where scores can tie.
        double best = -4.9e-324;
        int nearest = OTHERS;
        KM_UNROLL for (int j = 0; j < OTHERS; j++) {
            const bool better = score[p][j] > best;
            best = better ? score[p][j] : best;
            nearest = better ? j : nearest;
        }
        //@ if counted
        KM_UNROLL for (int j = 0; j < OTHERS; j++) km_add(sums + j * (OWN + 1), counts[j], x, nearest == j);
        //@ else
        KM_UNROLL for (int j = 0; j < OTHERS; j++) km_add(sums + j * (OWN + 1), x, weight, nearest == j);
        //@ end
        //@ if track_labels
        points.label[p] = nearest == OTHERS ? pivot : nearest + (nearest >= pivot);
        //@ end
        //@ if weighted
        if (nearest == OTHERS) sums[OTHERS * (OWN + 1)] += weight;
        //@ end
        //@ else
        // Floats that are not negative are in the order of their bits, and negative ones are negative there too: as
        // integers three are compared at a time. No score is -0, as no plane's constant is.
        int best = 0;
        KM_UNROLL for (int j = 0; j < OTHERS; j++) best = max(best, __float_as_int(score[p][j]));
        //@ if track_labels
        points.label[p] = pivot;
        //@ end
        int taken = 0; // Some centroid before has the best score: ties go to the lowest number.
        KM_UNROLL for (int j = 0; j < OTHERS; j++) {
            const int found = km_is_best(__float_as_int(score[p][j]), best, taken);
            taken = j == 0 ? found : !km_is_other(__float_as_int(score[p][j]), best, taken);
            //@ if weighted
            km_add(sums + j * (OWN + 1), x, weight, found);
            //@ else
            km_add(sums + j * (OWN + 1), x, found);
            //@ end
            //@ if track_labels
            points.label[p] = found ? j + (j >= pivot) : points.label[p];
            //@ end
        }
        //@ if weighted
        if (!taken) sums[OTHERS * (OWN + 1)] += weight;
        //@ end
        //@ end
    }
}

//@ if packed
// Labels are written four at a time. A thread's points are RUN side by side, so GATHER teams exchange theirs: each
// gets four that lie side by side in memory.
enum { GATHER = 4 / RUN };

// The first point of those whose labels the thread has after the exchange, of its points p to p + 3.
static __device__ __forceinline__ long long km_gathered(int tile, int p) {
    const int member = threadIdx.x / TEAM % GATHER;
    return km_first(tile) + member * RUN * (32 / TEAM - 1) + km_step(p);
}

static __device__ __forceinline__ unsigned km_gather(const int *labels) {
    //@ if pairs
    const int member = threadIdx.x / TEAM % GATHER;
    //@ end
    unsigned word = __byte_perm(__byte_perm(labels[0], labels[1], 0x0040),
                                __byte_perm(labels[2], labels[3], 0x0040), 0x5410);
    //@ if neighbours
    word = __byte_perm(word, __shfl_xor_sync(0xffffffff, word, TEAM), member & 1 ? 0x3715 : 0x6240);
    //@ end
    //@ if pairs
    word = __byte_perm(word, __shfl_xor_sync(0xffffffff, word, 2 / RUN * TEAM), member & 2 / RUN ? 0x3276 : 0x5410);
    //@ end
    return word;
}

// Fetches the labels of the pass before.
static __device__ __forceinline__ void km_read_labels(unsigned *before, const km_pass_args &args, int tile, int slot) {
    const unsigned *labels = (const unsigned *)((const km_label *)args.labels + slot * args.labels_stride);
    KM_UNROLL for (int p = 0; p < POINTS; p += 4) {
        const long long point = km_gathered(tile, p);
        before[p / 4] = point < args.n ? labels[point / 4] : 0;
    }
}

// Writes the labels of one slot where they changed and returns how many did.
static __device__ __forceinline__ int km_write_labels(const km_points &points, const unsigned *before,
                                                      const km_pass_args &args, int tile, int slot) {
    unsigned *labels = (unsigned *)((km_label *)args.labels + slot * args.labels_stride);
    int changes = 0;
    KM_UNROLL for (int p = 0; p < POINTS; p += 4) {
        const long long point = km_gathered(tile, p), left = args.n - point;
        unsigned differ = km_gather(points.label + p) ^ before[p / 4];
        if (left < 4) differ = left <= 0 ? 0 : differ & ((1u << 8 * left) - 1);
        //@ if teamed
        if (threadIdx.x % TEAM) continue; // one lane of a team is enough
        //@ end
        if (differ) labels[point / 4] = before[p / 4] ^ differ;
        changes += __popc((((differ & 0x7f7f7f7f) + 0x7f7f7f7f) | differ) & 0x80808080); // bytes that are not 0
    }
    return changes;
}

//@ else
//@ if track_labels
// Writes the labels of one slot where they changed and returns how many did.
static __device__ __forceinline__ int km_write_labels(const km_points &points, const km_pass_args &args, int tile,
                                                      int slot) {
    km_label *labels = (km_label *)args.labels + slot * args.labels_stride;
    const long long first = km_first(tile);
    int changes = 0;
    //@ if teamed
    if (threadIdx.x % TEAM) return 0; // one lane of a team is enough
    //@ end
    KM_UNROLL for (int p = 0; p < POINTS; p++) {
        const long long point = first + km_step(p);
        if (point >= args.n || labels[point] == points.label[p]) continue;
        labels[point] = (km_label)points.label[p];
        changes++;
    }
    return changes;
}

//@ end
//@ end
//@ end
// Adds COUNT sums, each over the lanes of a warp that hold the same features, to `out`: lanes leave their sums in
// shared memory, and each lane adds up one column of them.
template <int COUNT>
static __device__ __forceinline__ void km_add_lanes(const km_real *sums, km_real (*gathered)[33], double *out) {
    const int lane = threadIdx.x % 32, column = lane / TEAM, member = lane % TEAM;
    KM_UNROLL for (int first = 0; first < COUNT; first += GATHERED) {
        __syncwarp();
        KM_UNROLL for (int i = 0; i < GATHERED && first + i < COUNT; i++) gathered[i][lane] = sums[first + i];
        __syncwarp();
        km_real parts[4] = {};
        _Pragma("unroll 1") for (int from = member; from < 32; from += 4 * TEAM)
            KM_UNROLL for (int i = 0; i < 4; i++) parts[i] += gathered[column][from + i * TEAM];
        if (first + column < COUNT)
            out[(first + column) * TEAM + member] += (parts[0] + parts[1]) + (parts[2] + parts[3]);
    }
}

// Adds up the sums of a warp group's warps and leaves them as the block's share of its columns.
static __device__ __forceinline__ void km_write(const km_pass_args &args, const double (*scratch)[SCRATCH * TEAM],
                                                int columns, int first_column) {
    for (int c = threadIdx.x; c < columns * TEAM; c += BLOCK) {
        double sum = 0;
        for (int warp = 0; warp < WARPS; warp++) sum += scratch[warp][c];
        km_column(args, first_column * TEAM + c)[blockIdx.x] = sum;
    }
}

// Whether the centroids and the corners of the data's box are multiples of a grid on which scores come out exact.
static __device__ __forceinline__ bool km_is_coarse(const double *box, const km_real *c, int count) {
    const int lane = threadIdx.x % 32;
    int largest = -1100; // exponent
    for (int i = lane; i < 2 * D; i += 32) {
        int exponent;
        frexp(box[i], &exponent);
        largest = box[i] != 0 && exponent > largest ? exponent : largest;
    }
    for (int width = 16; width > 0; width /= 2) largest = max(largest, __shfl_xor_sync(0xffffffff, largest, width));
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
        km_real(*plane)[PLANE] = table->planes + (km_offsets[k_index] - k_index + j) * TEAM;
        double squares = 0; // |c_j|^2 - |c_p|^2
        for (int f = 0; f < D; f++) {
            const double a = c[(j + (j >= pivot)) * D + f], b = c[pivot * D + f];
            plane[f / OWN][f % OWN] = (km_real)(a - b);
            squares = fma(a - b, a + b, squares);
        }
        plane[0][OWN] = (km_real)(0 - 0.5 * squares); // not -0
        //@ if teamed
        for (int lane = 1; lane < TEAM; lane++) plane[lane][OWN] = 0; // the constant counts once
        //@ end
    }
}

// Planes for centroids that the update did not make.
extern "C" __global__ void km_planes(const __grid_constant__ km_pass_args args) {
    const km_real *centroids = (const km_real *)args.centroids + (long long)blockIdx.y * S * D;
    km_make_planes(km_table_of(args.workspace, args.constants, blockIdx.y), centroids + km_offsets[blockIdx.x] * D,
                   args.box, blockIdx.x);
}

//@ for part in parts
//@ for group in part_groups
// Warp group $group_index of km_registers_$part: K = $group_text.
struct km_group_$group {
    km_real sums[$group_columns];
    //@ if counted
    int counts[$group_counts];
    //@ end
    //@ for k in group_ks
    //@ if not k_single
    bool active_$k;
    //@ if packed
    unsigned before_$k[POINTS / 4]; // labels of the pass before
    //@ end
    //@ if track_labels
    int changes_$k;
    //@ end
    //@ end
    //@ end
};

static __device__ __forceinline__ void km_begin(km_group_$group &group, const km_pass_args &args) {
    group = {};
    //@ for k in group_ks
    //@ if not k_single
    group.active_$k = args.active[blockIdx.y * KS + $k_index];
    //@ end
    //@ end
}

//@ if packed
// Fetches the labels of a tile; those of the next one come while one is worked on.
static __device__ __forceinline__ void km_read_labels(km_group_$group &group, const km_pass_args &args, int tile) {
    //@ for k in group_ks
    //@ if not k_single
    if (group.active_$k) km_read_labels(group.before_$k, args, tile, blockIdx.y * KS + $k_index);
    //@ end
    //@ end
}

//@ end
static __device__ __forceinline__ void km_work(km_group_$group &group, km_points &points, const km_pass_args &args,
                                               const km_block &shared, int tile) {
    //@ if not const_planes
    asm volatile("" ::: "memory"); // The planes are read again: there are no registers to keep them in.
    //@ end
    //@ for k in group_ks
    //@ if k_single
    //@ if weighted
    KM_UNROLL for (int p = 0; p < POINTS; p++) group.sums[$k_sum] += points.weight[p];
    //@ end
    //@ else
    if (group.active_$k) {
        //@ if const_planes
        const km_table &table = km_constants;
        //@ else
        const km_table &table = shared.table;
        //@ end
        const km_real(*planes)[PLANE] = table.planes + $k_plane * TEAM + threadIdx.x % TEAM;
        //@ if counted
        km_assign<$k - 1>(points, planes, table.pivots[$k_index], group.sums + $k_sum, group.counts + $k_count);
        //@ else
        km_assign<$k - 1>(points, planes, table.pivots[$k_index], group.sums + $k_sum);
        //@ end
        //@ if packed
        group.changes_$k += km_write_labels(points, group.before_$k, args, tile, blockIdx.y * KS + $k_index);
        if (tile + GRID < km_tiles(args))
            km_read_labels(group.before_$k, args, tile + GRID, blockIdx.y * KS + $k_index);
        //@ else
        //@ if track_labels
        group.changes_$k += km_write_labels(points, args, tile, blockIdx.y * KS + $k_index);
        //@ end
        //@ end
    }
    //@ end
    //@ end
}

// Lets the sums join the warp's.
static __device__ __forceinline__ void km_flush(km_group_$group &group, km_block &shared) {
    //@ if counted
    //@ for k in group_ks
    KM_UNROLL for (int j = 0; j < $k - 1; j++) group.sums[$k_sum + j * (OWN + 1) + OWN] = group.counts[$k_count + j];
    //@ end
    //@ end
    const int warp = threadIdx.x / 32;
    km_add_lanes<$group_columns>(group.sums, shared.gathered[warp], shared.scratch[warp]);
    //@ if flushed
    KM_UNROLL for (int i = 0; i < $group_columns; i++) group.sums[i] = 0;
    //@ end
}

//@ if track_labels
static __device__ __forceinline__ void km_end(km_group_$group &group, const km_pass_args &args) {
    //@ for k in group_ks
    //@ if not k_single
    if (group.changes_$k)
        atomicAdd(args.changes + blockIdx.y * KS + $k_index, (unsigned long long)group.changes_$k);
    //@ end
    //@ end
}

//@ end
//@ end
//@ end
static __device__ __forceinline__ bool km_is_idle(const km_pass_args &args) {
    bool active = false;
    for (int i = 0; i < KS; i++) active = active | args.active[blockIdx.y * KS + i];
    return args.control->stop || !active;
}

// The share of one warp group in a launch; false when there is nothing to do.
template <typename GROUP>
static __device__ __forceinline__ bool km_walk(const km_pass_args &args, km_block &shared) {
    const int tiles = km_tiles(args), warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    //@ if ring
    km_stage *ring = shared.ring[warp % WARPS];
    KM_UNROLL for (int i = 0; i < STAGES - 1; i++) km_fetch(ring[i], args, blockIdx.x + i * GRID, tiles);
    int stage = 0;
    if (km_is_idle(args)) { // only now, so that the points do not wait for the answer
        asm volatile("cp.async.wait_all;");
        return false;
    }
    //@ else
    if (km_is_idle(args)) return false;
    //@ end
    for (int i = lane; i < SCRATCH * TEAM; i += 32) shared.scratch[warp][i] = 0;
    //@ if not const_planes
    const km_table *table = km_table_of(args.workspace, args.constants, blockIdx.y);
    for (int i = threadIdx.x; i < (int)(sizeof(km_table) / 4); i += BLOCK)
        ((int *)&shared.table)[i] = ((const int *)table)[i];
    __syncthreads();
    //@ end
    GROUP group;
    km_begin(group, args);
    //@ if packed
    if (blockIdx.x < tiles) km_read_labels(group, args, blockIdx.x);
    //@ end
    //@ if flushed
    int left = FLUSH;
    //@ end
    for (int tile = blockIdx.x; tile < tiles; tile += GRID) {
        km_points points;
        //@ if ring
        km_await();
        km_load(points, shared, ring[stage]);
        const int free = stage == 0 ? STAGES - 1 : stage - 1;
        km_fetch(ring[free], args, tile + (STAGES - 1) * GRID, tiles);
        stage = stage == STAGES - 1 ? 0 : stage + 1;
        //@ else
        km_load(points, args, tile);
        //@ end
        km_work(group, points, args, shared, tile);
        //@ if flushed
        if (--left == 0 || tile + GRID >= tiles) {
            km_flush(group, shared);
            left = FLUSH;
        }
        //@ end
    }
    //@ if not flushed
    km_flush(group, shared);
    //@ end
    //@ if track_labels
    km_end(group, args);
    //@ end
    return true;
}

// The sums over all points, a column for each feature.
extern "C" __global__ void __launch_bounds__(256) km_all(const __grid_constant__ km_pass_args args) {
    constexpr int ACROSS = D < 256 ? D : 256, DOWN = 256 / ACROSS; // features and points at a time
    __shared__ double sums[256];
    const int down = threadIdx.x / ACROSS;
    for (int f = threadIdx.x % ACROSS; f < (D + ACROSS - 1) / ACROSS * ACROSS; f += ACROSS) {
        double sum = 0;
        for (long long point = blockIdx.x * DOWN + down; f < D && down < DOWN && point < args.n; point += GRID * DOWN) {
            const double x = ((const km_real *)args.points)[point * D + f];
            //@ if weighted
            sum = fma(x, (double)((const km_real *)args.weights)[point], sum);
            //@ else
            sum += x;
            //@ end
        }
        __syncthreads();
        sums[threadIdx.x] = sum;
        __syncthreads();
        for (int i = 1; down == 0 && i < DOWN; i++) sum += sums[i * ACROSS + threadIdx.x];
        if (down == 0 && f < D) km_column(args, TOTALS * TEAM + f)[blockIdx.x] = sum;
    }
}

//@ for part in parts
extern "C" __global__ void __launch_bounds__(BLOCK, $resident)
    km_registers_$part(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(128) unsigned char km_shared[];
    km_block &shared = *(km_block *)km_shared;
    //@ if part_alone
    if (!km_walk<km_group_$part_first>(args, shared)) return;
    //@ else
    bool worked = false;
    switch (threadIdx.x / THREADS) {
    //@ for group in part_groups
    case $group_index: worked = km_walk<km_group_$group>(args, shared); break;
    //@ end
    }
    if (!worked) return;
    //@ end
    __syncthreads();
    //@ for group in part_groups
    km_write(args, shared.scratch + $group_index * WARPS, $group_columns, $group_column);
    //@ end
}

//@ end
// Adds up the columns of one slot over the blocks and writes its totals; the pivot gets what the others leave.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int k_index = blockIdx.x, k = km_ks[k_index], warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool idle = args.control->stop || !args.active[blockIdx.y * KS + k_index];
    const km_table *table = km_table_of(args.workspace, args.constants, blockIdx.y);
    const int pivot = table->pivots[k_index];
    __shared__ double sums[(K_MAX * (OWN + 1) + OWN) * TEAM];
    const int own = ((k - 1) * (OWN + 1) + WEIGHTED) * TEAM; // columns of this K; those over all points follow
    //@ if not weighted
    __shared__ km_real at_zero[K_MAX]; // scores of the points at zero that fill up the last tile: the constants
    const long long padding = (long long)km_tiles(args) * TILE - args.n;
    for (int j = threadIdx.x; j < k - 1; j += REDUCE)
        at_zero[j] = table->planes[(km_offsets[k_index] - k_index + j) * TEAM][OWN];
    //@ end
    for (int c = warp; c < own + D; c += REDUCE / 32) {
        const double *column = km_column(args, c < own ? km_columns[k_index] * TEAM + c : TOTALS * TEAM + c - own);
        double sum = 0;
        KM_UNROLL for (int block = lane; block < GRID; block += 32) sum += column[block];
        for (int width = 16; width > 0; width /= 2) sum += __shfl_xor_sync(0xffffffff, sum, width);
        if (lane == 0) sums[c] = sum;
    }
    __syncthreads();
    if (idle) return; // only now, so that nothing waits for the answer
    //@ if not weighted
    if (threadIdx.x == 0 && padding > 0) {
        int nearest = 0; // the first of the largest, or none where all are below the pivot's 0
        for (int j = 1; j < k - 1; j++) nearest = at_zero[j] > at_zero[nearest] ? j : nearest;
        if (k > 1 && at_zero[nearest] >= 0) sums[(nearest * (OWN + 1) + OWN) * TEAM] -= (double)padding;
    }
    __syncthreads();
    //@ end
    double *totals = args.totals + ((long long)blockIdx.y * S + km_offsets[k_index]) * (D + 1);
    for (int i = threadIdx.x; i < k * (D + 1); i += REDUCE) {
        const int j = i / (D + 1), f = i % (D + 1);
        const int at = f < D ? f % OWN * TEAM + f / OWN : OWN * TEAM; // in the sums of a cluster, (OWN + 1) * TEAM
        if (j != pivot) {
            totals[i] = sums[(j - (j > pivot)) * (OWN + 1) * TEAM + at];
            continue;
        }
        //@ if weighted
        const double weight = sums[(k - 1) * (OWN + 1) * TEAM];
        //@ else
        double weight = (double)args.n;
        for (int other = 0; other < k - 1; other++) weight -= sums[(other * (OWN + 1) + OWN) * TEAM];
        //@ end
        double rest = f < D ? sums[own + f] : weight;
        for (int other = 0; f < D && other < k - 1; other++) rest -= sums[other * (OWN + 1) * TEAM + at];
        totals[i] = weight > 0 ? rest : 0; // What rounding leaves of an empty cluster is nothing.
    }
}

extern "C" {
__device__ km_pass_facts km_pass = {
    KM_ABI_VERSION, $launches_count + 3,
    COPIES * (8LL * COLUMNS * TEAM * GRID + (long long)sizeof(km_table)), 0, $const_planes};
__device__ km_pass_launch km_pass_launches[] = {
    {"km_all", KM_STAGE_LOAD, GRID, COPIES, 256, 0, 0},
    {"km_planes", KM_STAGE_BEGIN, KS, COPIES, 32, 0, 0},
    //@ for part in parts
    {"km_registers_$part", KM_STAGE_PASS, GRID, COPIES, BLOCK, sizeof(km_block), $part},
    //@ end
    {"km_reduce", KM_STAGE_PASS, KS, COPIES, REDUCE, 0, 0},
};
}
//@ include cuda/steps/steps.cu
