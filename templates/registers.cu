// SPDX-License-Identifier: MIT
//@ need points_per_thread block grid split prefetch run vector resident columns totals scratch parts
//@ include cuda.h

// Design `registers`. A thread holds a few points and the sums of its clusters in registers and walks over the
// data; everything about the K list is unrolled, so that the loop is one straight line.
//
// The score of centroid j is taken against one centroid of the same K, the pivot p:
//     score_j = x . (c_j - c_p) - (|c_j|^2 - |c_p|^2) / 2,        score_p = 0.
// The largest score is the nearest centroid. That is K - 1 scores for K centroids, and the pivot's sums need no
// adding: they are the sums over all points, kept once for every K, less those of the other clusters.
//
// At the end the threads of a block are added up in a fixed order and each block leaves one number per sum;
// km_reduce adds the blocks, in a fixed order too: the same bits every time, and no atomics.
enum {
    BLOCK = $block,              // threads of a block
    GRID = $grid,                // blocks of a launch, for one copy
    SPLIT = $split,              // warp groups of a block; each has its own share of the K list
    POINTS = $points_per_thread, // points that a thread works on at a time
    RUN = $run,                  // of them, how many lie side by side in memory
    VECTOR = $vector,            // numbers of one 16-byte load
    THREADS = BLOCK / SPLIT,     // threads of a warp group
    WARPS = THREADS / 32,        // warps of a warp group
    TILE = THREADS * POINTS,     // points of one step of a warp group
    PLANE = (D + VECTOR) / VECTOR * VECTOR, // numbers of a plane: D factors and a constant, padded
    PLANES = $planes,             // one for each centroid but the pivots
    COLUMNS = $columns,           // sums that a block leaves
    TOTALS = $totals,             // the first of those over all points
    SCRATCH = $scratch,          // sums of the largest warp group
    REDUCE = 1024,               // threads of a block of km_reduce
    COARSE_BITS = $coarse_bits   // bits of a coordinate such that scores come out exact
};

#define KM_UNROLL _Pragma("unroll")

struct __align__(16) km_vector {
    km_real at[VECTOR];
};

// The points that a thread works on.
struct km_points {
    km_real x[POINTS][D];
    km_real weight[POINTS]; // 0 for padding
    //@ if track_labels
    int nearest[POINTS]; // the number of the nearest centroid among those beside the pivot
    //@ end
};

// What the threads of a block share.
struct km_block {
    km_real planes[PLANES][PLANE];
    km_real centroids[S * D];
    double box[2 * D];
    double scratch[BLOCK / 32][SCRATCH]; // the sums of each warp
    int pivots[KS];
    unsigned char active[KS];
    int stop;
};

// The launch that serves each K, and the first of its columns: those of its clusters without the pivot, D sums
// and the weight each (with weights, then the pivot's weight too).
__device__ const int km_parts[KS] = {
    //@ for k in ks
    $k_part,
    //@ end
};
__device__ const int km_columns[KS] = {
    //@ for k in ks
    $k_column,
    //@ end
};

// The workspace: for each copy and column one number per block, then the pivot of each slot.
static __device__ __forceinline__ double *km_column(const km_pass_args &args, int column) {
    return (double *)args.workspace + ((long long)blockIdx.y * COLUMNS + column) * GRID;
}

static __device__ __forceinline__ int *km_pivots(const km_pass_args &args) {
    return (int *)((double *)args.workspace + (long long)COPIES * COLUMNS * GRID) + blockIdx.y * KS;
}

// Point r of the thread lies so far behind its first.
static __device__ __forceinline__ constexpr int km_step(int r) {
    return r / RUN * RUN * THREADS + r % RUN;
}

// Loads RUN points that lie side by side.
static __device__ __forceinline__ void km_load_run(km_points &points, const km_pass_args &args, long long point,
                                                   int r) {
    const km_vector *from = (const km_vector *)((const km_real *)args.points + point * D);
    KM_UNROLL for (int v = 0; v < RUN * D / VECTOR; v++) {
        const km_vector numbers = from[v];
        KM_UNROLL for (int i = 0; i < VECTOR; i++)
            points.x[r + (v * VECTOR + i) / D][(v * VECTOR + i) % D] = numbers.at[i];
    }
    //@ if weighted
    KM_UNROLL for (int i = 0; i < RUN; i++)
        points.weight[r + i] = ((const km_real *)args.weights)[point + i];
    //@ else
    KM_UNROLL for (int i = 0; i < RUN; i++) points.weight[r + i] = 1;
    //@ end
}

// Loads the thread's points of a tile.
static __device__ __forceinline__ void km_load(km_points &points, const km_pass_args &args, int tile) {
    const long long first = (long long)tile * TILE + threadIdx.x % THREADS * RUN;
    KM_UNROLL for (int r = 0; r < POINTS; r += RUN) km_load_run(points, args, first + km_step(r), r);
}

// Loads the thread's points of the last tile when it is not a whole one: those past the end come from the padding
// rows, which are zero.
static __device__ __forceinline__ void km_load_last(km_points &points, const km_pass_args &args, int tile) {
    const long long first = (long long)tile * TILE + threadIdx.x % THREADS * RUN;
    const long long end = (args.n + RUN - 1) / RUN * RUN;
    KM_UNROLL for (int r = 0; r < POINTS; r += RUN)
        km_load_run(points, args, first + km_step(r) < end ? first + km_step(r) : end, r);
    //@ if not weighted
    KM_UNROLL for (int p = 0; p < POINTS; p++) points.weight[p] = first + km_step(p) < args.n ? 1 : 0;
    //@ end
}

//@ if several
// Adds a point to D sums and a weight, where `found` holds.
static __device__ __forceinline__ void km_add(km_real *sums, const km_points &points, int p, bool found) {
    //@ if float64
    const double weight = found ? points.weight[p] : 0; // there are no predicated additions of doubles
    KM_UNROLL for (int f = 0; f < D; f++) sums[f] = fma(weight, points.x[p][f], sums[f]);
    sums[D] += weight;
    //@ else
    // Predicated by hand, as compilers branch around long bodies.
    KM_UNROLL for (int f = 0; f < D; f++)
        //@ if weighted
        asm("{ .reg .pred found; setp.ne.s32 found, %3, 0; @found fma.rn.f32 %0, %1, %2, %0; }"
            : "+f"(sums[f])
            : "f"(points.weight[p]), "f"(points.x[p][f]), "r"((int)found));
        //@ else
        asm("{ .reg .pred found; setp.ne.s32 found, %2, 0; @found add.f32 %0, %0, %1; }"
            : "+f"(sums[f])
            : "f"(points.x[p][f]), "r"((int)found));
        //@ end
    asm("{ .reg .pred found; setp.ne.s32 found, %2, 0; @found add.f32 %0, %0, %1; }"
        : "+f"(sums[D])
        : "f"(points.weight[p]), "r"((int)found));
    //@ end
}
//@ end

// One K with OTHERS centroids beside the pivot: scores, the nearest centroid, and the sums.
template <int OTHERS>
static __device__ __forceinline__ void km_assign(km_points &points, const km_real (*planes)[PLANE], km_real *sums) {
    km_real score[POINTS][OTHERS];
    KM_UNROLL for (int j = 0; j < OTHERS; j++) {
        KM_UNROLL for (int p = 0; p < POINTS; p++) {
            score[p][j] = planes[j][D];
            KM_UNROLL for (int f = 0; f < D; f++)
                score[p][j] = fma(points.x[p][f], planes[j][f], score[p][j]);
        }
    }
    KM_UNROLL for (int p = 0; p < POINTS; p++) {
        km_real best = 0;
        //@ if float64
        KM_UNROLL for (int j = 0; j < OTHERS; j++) best = score[p][j] > best ? score[p][j] : best;
        //@ else
        KM_UNROLL for (int j = 0; j < OTHERS; j++) best = fmaxf(best, score[p][j]);
        //@ end
        //@ if track_labels
        points.nearest[p] = OTHERS;
        //@ end
        bool open = true; // No centroid so far has the best score: ties go to the lowest number.
        KM_UNROLL for (int j = 0; j < OTHERS; j++) {
            const bool found = open & (score[p][j] == best);
            open = open & (score[p][j] != best);
            km_add(sums + j * (D + 1), points, p, found);
            //@ if track_labels
            points.nearest[p] = found ? j : points.nearest[p];
            //@ end
        }
        //@ if weighted
        if (open) sums[OTHERS * (D + 1)] += points.weight[p];
        //@ end
    }
}

//@ if several
//@ if track_labels
// Writes the labels of one slot and returns how many of the thread's points changed theirs.
static __device__ __forceinline__ int km_label_points(const km_points &points, const km_pass_args &args,
                                                      int tile, int slot, int pivot, int others) {
    km_label *labels = (km_label *)args.labels + slot * args.labels_stride;
    int changes = 0;
    KM_UNROLL for (int p = 0; p < POINTS; p++) {
        const long long point = (long long)tile * TILE + threadIdx.x % THREADS * RUN + km_step(p);
        const int nearest = points.nearest[p];
        const int label = nearest == others ? pivot : nearest + (nearest >= pivot);
        if (point >= args.n || labels[point] == label) continue;
        labels[point] = (km_label)label;
        changes++;
    }
    return changes;
}

//@ end
//@ end
// One step of km_add_lanes: of 2 x WIDTH numbers, the lane and the one WIDTH away keep one half each.
template <int WIDTH> static __device__ __forceinline__ void km_halve(km_real *numbers) {
    const bool upper = threadIdx.x & WIDTH;
    KM_UNROLL for (int i = 0; i < WIDTH; i++) {
        const km_real kept = upper ? numbers[i + WIDTH] : numbers[i];
        const km_real given = upper ? numbers[i] : numbers[i + WIDTH];
        numbers[i] = kept + __shfl_xor_sync(0xffffffff, given, WIDTH);
    }
}

// Adds up COUNT sums over the lanes of a warp, 32 of them at a time: lane l is left with sum l.
template <int COUNT> static __device__ __forceinline__ void km_add_lanes(const km_real *sums, double *out) {
    const int lane = threadIdx.x % 32;
    KM_UNROLL for (int first = 0; first < COUNT; first += 32) {
        km_real numbers[32];
        KM_UNROLL for (int i = 0; i < 32; i++) numbers[i] = first + i < COUNT ? sums[first + i] : 0;
        km_halve<16>(numbers);
        km_halve<8>(numbers);
        km_halve<4>(numbers);
        km_halve<2>(numbers);
        km_halve<1>(numbers);
        if (first + lane < COUNT) out[first + lane] = numbers[0];
    }
}

// Adds up the sums of a warp group's warps and leaves them as the block's share of its columns.
static __device__ __forceinline__ void km_write(const km_pass_args &args, const double (*scratch)[SCRATCH],
                                                int columns, int first_column) {
    for (int c = threadIdx.x; c < columns; c += BLOCK) {
        double sum = 0;
        for (int warp = 0; warp < WARPS; warp++) sum += scratch[warp][c];
        km_column(args, first_column + c)[blockIdx.x] = sum;
    }
}

// Whether the centroids and the corners of the data's box are multiples of a grid on which scores come out exact.
static __device__ bool km_is_coarse(const double *box, const km_real *c, int count) {
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
static __device__ int km_find_pivot(const double *box, const km_real *c, int k) {
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

// Reads what a block must know, every warp its share, so that there is one wait for all of it.
static __device__ __forceinline__ void km_read(km_block &shared, const km_pass_args &args) {
    const km_real *centroids = (const km_real *)args.centroids + (long long)blockIdx.y * S * D;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    if (warp == 0) {
        for (int i = lane; i < KS; i += 32) shared.active[i] = args.active[blockIdx.y * KS + i];
    } else if (warp == 1) {
        for (int i = lane; i < 2 * D; i += 32) shared.box[i] = args.box[i];
    } else if (warp == 2) {
        if (lane == 0) shared.stop = args.control->stop;
    } else {
        for (int i = threadIdx.x - 96; i < S * D; i += BLOCK - 96) shared.centroids[i] = centroids[i];
    }
    __syncthreads();
}

static __device__ __forceinline__ bool km_is_idle(const km_block &shared) {
    bool active = false;
    for (int i = 0; i < KS; i++) active = active | shared.active[i];
    return shared.stop || !active;
}

// Makes the planes of the launch's Ks, a warp for each.
static __device__ void km_make_planes(km_block &shared, const km_pass_args &args, int part) {
    for (int i = (int)threadIdx.x / 32; i < KS; i += BLOCK / 32) {
        if (km_parts[i] != part) continue;
        const km_real *c = shared.centroids + km_offsets[i] * D;
        const int pivot = km_find_pivot(shared.box, c, km_ks[i]);
        shared.pivots[i] = pivot;
        if (blockIdx.x == 0) km_pivots(args)[i] = pivot;
        for (int j = threadIdx.x % 32; j < km_ks[i] - 1; j += 32) {
            km_real *plane = shared.planes[km_offsets[i] - i + j];
            double squares = 0; // |c_j|^2 - |c_p|^2
            for (int f = 0; f < D; f++) {
                const double a = c[(j + (j >= pivot)) * D + f], b = c[pivot * D + f];
                plane[f] = (km_real)(a - b);
                squares = fma(a - b, a + b, squares);
            }
            plane[D] = (km_real)(-0.5 * squares);
        }
    }
    __syncthreads();
}

//@ for part in parts
//@ for group in part_groups
// Warp group $group_index of km_registers_$part: K = $group_text.
struct km_group_$group {
    km_real sums[$group_columns];
    //@ for k in group_ks
    //@ if not k_single
    bool active_$k;
    //@ if track_labels
    int changes_$k;
    //@ end
    //@ end
    //@ end
};

static __device__ __forceinline__ void km_begin(km_group_$group &group, const km_block &shared) {
    group = {};
    //@ for k in group_ks
    //@ if not k_single
    group.active_$k = shared.active[$k_index];
    //@ end
    //@ end
}

// The sums over all points, kept by one warp group.
static __device__ __forceinline__ void km_add_totals(km_group_$group &group, const km_points &points) {
    //@ if group_totals
    KM_UNROLL for (int p = 0; p < POINTS; p++) {
        //@ if weighted
        KM_UNROLL for (int f = 0; f < D; f++)
            group.sums[$group_total + f] = fma(points.weight[p], points.x[p][f], group.sums[$group_total + f]);
        //@ else
        KM_UNROLL for (int f = 0; f < D; f++) group.sums[$group_total + f] += points.x[p][f];
        //@ end
    }
    //@ end
}

static __device__ __forceinline__ void km_work(km_group_$group &group, km_points &points, const km_pass_args &args,
                                               const km_block &shared, int tile) {
    asm volatile("" ::: "memory"); // The planes are read again: there are no registers to keep them in.
    //@ for k in group_ks
    //@ if k_single
    //@ if weighted
    KM_UNROLL for (int p = 0; p < POINTS; p++) group.sums[$k_sum] += points.weight[p];
    //@ end
    //@ else
    if (group.active_$k) {
        km_assign<$k - 1>(points, shared.planes + $k_plane, group.sums + $k_sum);
        //@ if track_labels
        group.changes_$k += km_label_points(points, args, tile, blockIdx.y * KS + $k_index,
                                            shared.pivots[$k_index], $k - 1);
        //@ end
    }
    //@ end
    //@ end
}

static __device__ __forceinline__ void km_end(km_group_$group &group, const km_pass_args &args, km_block &shared) {
    km_add_lanes<$group_columns>(group.sums, shared.scratch[threadIdx.x / 32]);
    //@ if track_labels
    //@ for k in group_ks
    //@ if not k_single
    if (group.changes_$k)
        atomicAdd(args.changes + blockIdx.y * KS + $k_index, (unsigned long long)group.changes_$k);
    //@ end
    //@ end
    //@ end
}

//@ end
//@ end
// The share of one warp group in a launch: its tiles, with the next one on its way while one is worked on.
template <typename GROUP>
static __device__ __forceinline__ void km_walk(km_points &points, const km_pass_args &args, km_block &shared) {
    const int whole = (int)(args.n / TILE); // tiles
    GROUP group;
    km_begin(group, shared);
    //@ if prefetch
    km_points next = points;
    for (int tile = blockIdx.x; tile < whole; tile += GRID) {
        if (tile + GRID < whole) km_load(next, args, tile + GRID);
        km_add_totals(group, points);
        km_work(group, points, args, shared, tile);
        points = next;
    }
    //@ else
    for (int tile = blockIdx.x; tile < whole; tile += GRID) {
        km_load(points, args, tile);
        km_add_totals(group, points);
        km_work(group, points, args, shared, tile);
    }
    //@ end
    if (whole * (long long)TILE < args.n && whole % GRID == blockIdx.x) {
        km_load_last(points, args, whole);
        km_add_totals(group, points);
        km_work(group, points, args, shared, whole);
    }
    km_end(group, args, shared);
}

//@ for part in parts
extern "C" __global__ void __launch_bounds__(BLOCK, $resident)
    km_registers_$part(const __grid_constant__ km_pass_args args) {
    __shared__ __align__(16) km_block shared;
    km_points points;
    //@ if prefetch
    if (blockIdx.x < args.n / TILE) km_load(points, args, blockIdx.x); // Under way while the planes are made.
    //@ end
    km_read(shared, args);
    if (km_is_idle(shared)) return;
    km_make_planes(shared, args, $part);
    //@ if part_alone
    km_walk<km_group_$part_first>(points, args, shared);
    //@ else
    switch (threadIdx.x / THREADS) {
    //@ for group in part_groups
    case $group_index: km_walk<km_group_$group>(points, args, shared); break;
    //@ end
    }
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
    const int pivot = km_pivots(args)[k_index];
    __shared__ double sums[K_MAX * (D + 1) + D];
    const int own = (k - 1) * (D + 1) + WEIGHTED; // columns of this K; those over all points follow
    for (int c = warp; c < own + D; c += REDUCE / 32) {
        const double *column = km_column(args, c < own ? km_columns[k_index] + c : TOTALS + c - own);
        double sum = 0;
        KM_UNROLL for (int block = lane; block < GRID; block += 32) sum += column[block];
        for (int width = 16; width > 0; width /= 2) sum += __shfl_xor_sync(0xffffffff, sum, width);
        if (lane == 0) sums[c] = sum;
    }
    __syncthreads();
    if (idle) return; // only now, so that nothing waits for the answer
    double *totals = args.totals + ((long long)blockIdx.y * S + km_offsets[k_index]) * (D + 1);
    for (int i = threadIdx.x; i < k * (D + 1); i += REDUCE) {
        const int j = i / (D + 1), f = i % (D + 1);
        if (j != pivot) {
            totals[i] = sums[(j - (j > pivot)) * (D + 1) + f];
            continue;
        }
        //@ if weighted
        const double weight = sums[own - 1];
        //@ else
        double weight = (double)args.n;
        for (int other = 0; other < k - 1; other++) weight -= sums[other * (D + 1) + D];
        //@ end
        double rest = f < D ? sums[own + f] : weight;
        for (int other = 0; f < D && other < k - 1; other++) rest -= sums[other * (D + 1) + f];
        totals[i] = weight > 0 ? rest : 0; // What rounding leaves of an empty cluster is nothing.
    }
}

extern "C" {
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, $launches_count + 1,
                                    COPIES * (8LL * COLUMNS * GRID + 4LL * KS), 0};
__device__ km_pass_launch km_pass_launches[] = {
    //@ for part in parts
    {"km_registers_$part", KM_STAGE_PASS, GRID, COPIES, BLOCK, 0, $part},
    //@ end
    {"km_reduce", KM_STAGE_PASS, KS, COPIES, REDUCE, 0, 0},
};
}
//@ include steps.cu
