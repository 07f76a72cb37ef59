// SPDX-License-Identifier: MIT
// km_seed_pass of few features: a thread has a few points in registers and works on all tasks with them. The rows of
// candidates are in shared memory; a row that is read serves several points.
constexpr int SEED_ROW_BYTES = D * sizeof(km_real);
constexpr int SEED_POINTS_AT_ONCE = SEED_ROW_BYTES <= 16   ? 8
                                    : SEED_ROW_BYTES <= 32 ? 4
                                    : SEED_ROW_BYTES <= 64 ? 2
                                                           : 1;
// Blocks a multiprocessor: a third one hides latency, where registers allow it.
constexpr int SEED_BLOCKS = sizeof(km_real) == 4 && D <= 4 && !WEIGHTED ? 3 : 2;

// Some points of a thread, every SEED_STRIDE-th from here on, and a chain's distances of the same points.
struct seed_points {
    const km_real *x;
    const double *weights;
    km_real *nearest;
};

// The points' squared distances from a row.
template <int POINTS>
__device__ __forceinline__ void seed_distances(km_real *square, const km_real (*x)[STEP_FEATURES],
                                               const km_real *from) {
    km_real row[STEP_FEATURES];
    step_load(row, from, 0);
#pragma unroll
    for (int g = 0; g < STEP_FEATURES; g++)
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const km_real t = x[p][g] - row[g];
            square[p] = fma(t, t, square[p]);
        }
}

// Loads the squared distances to the picks before the last one.
template <int POINTS>
__device__ __forceinline__ void seed_load_nearest(km_real *loaded, const km_real *nearest, bool there) {
#pragma unroll
    for (int p = 0; p < POINTS; p++) loaded[p] = there ? __ldcg(nearest + p * SEED_STRIDE) : SEED_FAR;
}

//@ if not weighted
// The sum over points of the smaller distance, by a tree of additions.
template <int POINTS>
__device__ __forceinline__ km_real seed_sum_smaller(const km_real *best, const km_real *square) {
    if constexpr (POINTS == 1)
        return fmin(best[0], square[0]);
    else
        return seed_sum_smaller<POINTS / 2>(best, square) +
               seed_sum_smaller<POINTS / 2>(best + POINTS / 2, square + POINTS / 2);
}

//@ end
// Works on a task, of which row 0 is the last pick and row 1 + c candidate c. Where `update`, compares the distances
// with those to the last pick. Adds to sums[c * KM_THREADS] the inertia of the points with candidate c: w times the
// smaller of the squared distances to all picks (`best`) and to the candidate.
template <int POINTS>
__device__ __forceinline__ void
seed_process_task(double *sums, km_real *best, const km_real (*x)[STEP_FEATURES], const km_real *rows,
                  const seed_points &at, int candidates, bool update, bool first) {
    km_real square[SEED_ROWS][POINTS] = {};
    if (update) {
        seed_distances<POINTS>(square[0], x, rows);
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
        seed_distances<POINTS>(square[c + 1], x, rows + (c + 1) * D);
        //@ if weighted
        double sum = 0.0;
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const km_real left = fmin(best[p], square[c + 1][p]);
            sum = __dadd_rn(sum, __dmul_rn(km_weight(at.weights, p * SEED_STRIDE), left));
        }
        //@ else
        const double sum = fmin(seed_sum_smaller<POINTS>(best, square[c + 1]), SEED_FAR);
        //@ end
        sums[c * KM_THREADS] = __dadd_rn(sums[c * KM_THREADS], sum);
    }
}

// The current tasks: `count` of them, from a part of a chain's candidates on.
struct seed_tasks {
    const km_real *rows;
    int count, chain, part, parts, candidates; // of all parts of a chain
    long long picked;                          // how many picks there are
};

// Works on all tasks with some points of a thread. The next chain's distances are loaded one task ahead.
template <int POINTS>
__device__ __forceinline__ void seed_process_points(double (*sums)[SEED_CANDIDATES][KM_THREADS],
                                                    const km_seed_args &args, const seed_tasks &tasks,
                                                    long long first) {
    km_real x[POINTS][STEP_FEATURES], best[POINTS];
    seed_points at = {(const km_real *)args.points + first * D, args.weights + first,
                      (km_real *)args.nearest + tasks.chain * args.n + first};
#pragma unroll
    for (int p = 0; p < POINTS; p++) step_load(x[p], at.x + p * SEED_STRIDE * D, 0);
    seed_load_nearest<POINTS>(best, at.nearest, tasks.picked > 1);
    int left = tasks.candidates - tasks.part * SEED_CANDIDATES; // candidates of the current chain
#pragma unroll 1
    for (int task = 0; task < tasks.count; task++) {
        const bool chain_ends = left <= SEED_CANDIDATES; // the next task belongs to another chain
        km_real ahead[POINTS];
        seed_load_nearest<POINTS>(ahead, at.nearest + args.n,
                                  chain_ends && task + 1 < tasks.count && tasks.picked > 1);
        seed_process_task<POINTS>(&sums[task][0][threadIdx.x], best, x, tasks.rows + task * SEED_ROWS * D, at,
                                  chain_ends ? left : int(SEED_CANDIDATES),
                                  left == tasks.candidates && tasks.picked > 0, tasks.picked == 1);
        left = chain_ends ? tasks.candidates : left - SEED_CANDIDATES;
        if (!chain_ends) continue; // the distances stay those of this chain
        at.nearest += args.n;
#pragma unroll
        for (int p = 0; p < POINTS; p++) best[p] = ahead[p];
    }
}

// Adds the threads' sums of each subchunk and writes them; eight threads a sum.
__device__ __forceinline__ void seed_write(const km_seed_args &args,
                                           const double (*sums)[SEED_CANDIDATES][KM_THREADS],
                                           const seed_tasks &tasks) {
    constexpr int ADDERS = 8;
    static_assert(2 * SEED_TASKS * SEED_CANDIDATES * ADDERS == KM_THREADS,
                  "a sum of each task, candidate and subchunk");
    const int which = threadIdx.x / ADDERS, half = which % 2, c = which / 2 % SEED_CANDIDATES;
    const int task = which / 2 / SEED_CANDIDATES, part = tasks.part + task;
    const int candidate = part % tasks.parts * SEED_CANDIDATES + c;
    const long long subchunk = blockIdx.x * 2ll + half;
    double sum = 0.0;
    for (int i = threadIdx.x % ADDERS; i < SEED_STRIDE; i += ADDERS)
        sum = __dadd_rn(sum, sums[task][c][half * SEED_STRIDE + i]);
    for (int step = ADDERS / 2; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % ADDERS || task >= tasks.count || candidate >= tasks.candidates ||
        subchunk >= args.subchunks)
        return;
    const long long row = (tasks.chain + part / tasks.parts) * (long long)KM_CANDIDATES_MAX + candidate;
    args.subchunk_sums[row * args.subchunks + subchunk] = sum;
}

// Two subchunks a block, each by half of the threads; a few tasks at a time.
extern "C" __global__ void __launch_bounds__(KM_THREADS, SEED_BLOCKS)
    km_seed_pass(const __grid_constant__ km_seed_args args, long long pick, int candidates) {
    __shared__ __align__(16) km_real rows[SEED_TASKS * SEED_ROWS * D];
    __shared__ double sums[SEED_TASKS][SEED_CANDIDATES][KM_THREADS];
    const km_real *points = (const km_real *)args.points;
    const long long subchunk = blockIdx.x * 2ll + threadIdx.x / SEED_STRIDE;
    const int parts = (candidates + SEED_CANDIDATES - 1) / SEED_CANDIDATES, all = args.chains * parts;
    const long long first = subchunk * KM_SUBCHUNK_POINTS + threadIdx.x % SEED_STRIDE;
#pragma unroll 1
    for (int begin = 0; begin < all; begin += SEED_TASKS) {
        const seed_tasks tasks = {rows,          all - begin < SEED_TASKS ? all - begin : int(SEED_TASKS),
                                  begin / parts, begin % parts,
                                  parts,         candidates,
                                  pick};
        const auto point_of = [&](int row) { // the point of a row of the tables; -1: there is none
            const int task = begin + row / SEED_ROWS, chain = task / parts, c = row % SEED_ROWS - 1;
            const int candidate = task % parts * SEED_CANDIDATES + c;
            if (c < 0) return pick > 0 ? args.picks[chain * args.picks_count + pick - 1] : -1ll;
            const long long *drawn = args.candidates + (pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX;
            return candidate < candidates ? drawn[candidate] : -1ll;
        };
        if (begin > 0) __syncthreads(); // all threads are done with the tables and sums of the tasks before
        for (int at = threadIdx.x; at < tasks.count * SEED_ROWS * D; at += KM_THREADS) {
            const long long point = point_of(at / D);
            if (point >= 0) rows[at] = points[point * D + at % D];
        }
        for (int task = 0; task < tasks.count; task++)
            for (int c = 0; c < SEED_CANDIDATES; c++) sums[task][c][threadIdx.x] = 0.0;
        __syncthreads();
        constexpr int STEP = SEED_POINTS_AT_ONCE * SEED_STRIDE;
        if ((subchunk + 1) * KM_SUBCHUNK_POINTS <= args.n)
#pragma unroll 1
            for (int i = 0; i < KM_SUBCHUNK_POINTS; i += STEP)
                seed_process_points<SEED_POINTS_AT_ONCE>(sums, args, tasks, first + i);
        else
#pragma unroll 1
            for (long long i = first; i < args.n; i += SEED_STRIDE)
                seed_process_points<1>(sums, args, tasks, i);
        __syncthreads();
        seed_write(args, sums, tasks);
    }
}
