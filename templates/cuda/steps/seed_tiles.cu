// SPDX-License-Identifier: MIT
// km_seed_pass of many features. A block has two subchunks and a few tasks, and a warp one of each: a lane has every
// 32nd point of a step. Points and rows of candidates pass through shared memory, a slice of their features at a time;
// while a slice is worked on the next one is copied.
enum {
    SEED_SLICE = 64 / sizeof(km_real), // features; those behind the last are 0
    SEED_SLICES = (D + SEED_SLICE - 1) / SEED_SLICE,
    SEED_PITCH = SEED_SLICE + TILE_VECTOR, // of a point in shared memory: no bank conflicts
    SEED_PIECES = SEED_SLICE / TILE_PIECE, // copies of a slice of a row
    SEED_STEPS = KM_SUBCHUNK_POINTS / SEED_STRIDE,
    SEED_POINTS_AT_ONCE = SEED_STRIDE / 32 // of a lane
};
constexpr int SEED_BLOCKS =
    sizeof(km_real) == 4 ? 2 : 1; // of a multiprocessor: as many as have enough registers

struct __align__(16) seed_slice {
    km_real points[2 * SEED_STRIDE][SEED_PITCH];
    km_real rows[SEED_TASKS * SEED_ROWS][SEED_SLICE];
};

// Starts to copy a slice: of a step's points of both subchunks, the first of which begins with `first`, and of rows.
__device__ __forceinline__ void seed_copy(seed_slice &to, const km_seed_args &args, const long long *rows,
                                          long long first, int slice) {
    constexpr int AT_ONCE = KM_THREADS / SEED_PIECES; // rows
    const int row = threadIdx.x / SEED_PIECES, f = threadIdx.x % SEED_PIECES * TILE_PIECE,
              feature = slice * SEED_SLICE + f;
    const km_real *points = (const km_real *)args.points, *from = points + (first + row) * D + feature;
#pragma unroll
    for (int i = 0; i < 2 * SEED_STRIDE; i += AT_ONCE) {
        const int ahead = i / SEED_STRIDE * KM_SUBCHUNK_POINTS + i % SEED_STRIDE;
        const bool valid = feature < D && first + row + ahead < args.n;
        tile_copy(&to.points[i + row][f], valid ? from + ahead * D : points, valid);
    }
#pragma unroll 1
    for (int i = row; i < SEED_TASKS * SEED_ROWS; i += AT_ONCE) {
        const bool valid = feature < D && rows[i] >= 0;
        tile_copy(&to.rows[i][f], valid ? points + rows[i] * D + feature : points, valid);
    }
}

// Adds a slice of `features` to the squared distances of a lane's points from the rows of a task, of which row 0 counts
// where `update`.
__device__ __forceinline__ void seed_add_slice(km_real (*square)[SEED_POINTS_AT_ONCE], const km_real *points,
                                               const km_real *rows, int features, int candidates,
                                               bool update) {
#pragma unroll 1
    for (int f = 0; f < features; f += TILE_VECTOR) {
        tile_features x[SEED_POINTS_AT_ONCE];
#pragma unroll
        for (int p = 0; p < SEED_POINTS_AT_ONCE; p++)
            x[p] = *(const tile_features *)(points + 32 * p * SEED_PITCH + f);
#pragma unroll
        for (int c = 0; c < SEED_ROWS; c++) {
            if (!(c == 0 ? update : c <= candidates)) continue;
            const tile_features row = *(const tile_features *)(rows + c * SEED_SLICE + f);
#pragma unroll
            for (int g = 0; g < TILE_VECTOR; g++)
#pragma unroll
                for (int p = 0; p < SEED_POINTS_AT_ONCE; p++) {
                    const km_real t = x[p].at[g] - row.at[g];
                    square[c][p] = fma(t, t, square[c][p]);
                }
        }
    }
}

// A warp's task: candidates of a chain, of which part 0 writes the distances. A pick has so many picks before it.
struct seed_task {
    int chain, part, candidates;
    long long picked;
};

// Ends a step: compares the distances with those to the last pick, and adds what each candidate would leave.
__device__ __forceinline__ void seed_add_step(double (*sums)[SEED_POINTS_AT_ONCE], km_real *best,
                                              const km_real (*square)[SEED_POINTS_AT_ONCE],
                                              const km_seed_args &args, const seed_task &task,
                                              long long first) {
    km_real *nearest = (km_real *)args.nearest + task.chain * args.n;
#pragma unroll
    for (int p = 0; p < SEED_POINTS_AT_ONCE; p++) {
        const long long point = first + 32 * p;
        if (point >= args.n) continue;
        const bool nearer = task.picked > 0 && square[0][p] < best[p];
        if (nearer) best[p] = square[0][p];
        if (task.part == 0 && (nearer || task.picked == 1)) nearest[point] = best[p];
#pragma unroll
        for (int c = 0; c < SEED_CANDIDATES; c++) {
            if (c >= task.candidates) break;
            const km_real left = fmin(best[p], square[c + 1][p]);
            //@ if weighted
            sums[c][p] = __dadd_rn(sums[c][p], __dmul_rn(km_weight(args.weights, point), left));
            //@ else
            sums[c][p] = __dadd_rn(sums[c][p], fmin(left, SEED_FAR));
            //@ end
        }
    }
}

// Adds the sums of a warp's lanes in the order of seed_pass.cu, eight lanes a candidate, and writes them.
// `added` is the warp's own shared memory.
__device__ __forceinline__ void seed_write(const km_seed_args &args,
                                           const double (*sums)[SEED_POINTS_AT_ONCE],
                                           double (*added)[SEED_STRIDE], const seed_task &task,
                                           int first_candidate, long long subchunk) {
    constexpr int ADDERS = 8;
    static_assert(SEED_CANDIDATES * ADDERS == 32, "a sum of each candidate");
    const int lane = threadIdx.x % 32, c = lane / ADDERS;
#pragma unroll
    for (int each = 0; each < SEED_CANDIDATES; each++)
#pragma unroll
        for (int p = 0; p < SEED_POINTS_AT_ONCE; p++) added[each][32 * p + lane] = sums[each][p];
    __syncwarp();
    double sum = 0.0;
    for (int i = lane % ADDERS; i < SEED_STRIDE; i += ADDERS) sum = __dadd_rn(sum, added[c][i]);
    for (int step = ADDERS / 2; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane % ADDERS || c >= task.candidates || subchunk >= args.subchunks) return;
    const long long row = task.chain * (long long)KM_CANDIDATES_MAX + first_candidate + c;
    args.subchunk_sums[row * args.subchunks + subchunk] = sum;
}

// Few chains share their candidates out to more tasks than need be, so that all warps have one.
extern "C" __global__ void __launch_bounds__(KM_THREADS, SEED_BLOCKS)
    km_seed_pass(const __grid_constant__ km_seed_args args, long long pick, int candidates) {
    __shared__ seed_slice slices[2];
    __shared__ long long rows[SEED_TASKS * SEED_ROWS];
    static_assert(sizeof slices >= KM_THREADS / 32 * sizeof(double[SEED_CANDIDATES][SEED_STRIDE]),
                  "sums in the place of slices");
    const int least = (candidates + SEED_CANDIDATES - 1) / SEED_CANDIDATES,
              most = SEED_TASKS / args.chains < candidates ? SEED_TASKS / args.chains : candidates;
    const int width = (candidates + (least > most ? least : most) - 1) / (least > most ? least : most),
              parts = (candidates + width - 1) / width, all = args.chains * parts;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, half = warp / SEED_TASKS;
    const long long subchunk = blockIdx.x * 2ll, first = subchunk * KM_SUBCHUNK_POINTS;
#pragma unroll 1
    for (int begin = 0; begin < all; begin += SEED_TASKS) {
        const int own = begin + warp % SEED_TASKS, first_candidate = own % parts * width;
        const seed_task task = {own / parts, own % parts,
                                own >= all                             ? 0
                                : candidates - first_candidate < width ? candidates - first_candidate
                                                                       : width,
                                pick};
        __syncthreads(); // all warps are done with the rows and sums of the tasks before
        if (threadIdx.x < SEED_TASKS * SEED_ROWS) { // the point of a row; -1: there is none
            const int at = begin + threadIdx.x / SEED_ROWS, chain = at / parts,
                      c = threadIdx.x % SEED_ROWS - 1;
            const long long *drawn = args.candidates + (pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX;
            const int candidate = at % parts * width + c;
            long long point = -1;
            if (at < all && c < 0 && pick > 0) point = args.picks[chain * args.picks_count + pick - 1];
            if (at < all && c >= 0 && c < width && candidate < candidates) point = drawn[candidate];
            rows[threadIdx.x] = point;
        }
        __syncthreads();
        double sums[SEED_CANDIDATES][SEED_POINTS_AT_ONCE] = {};
        int turn = 0;
        seed_copy(slices[0], args, rows, first, 0);
        tile_wait();
        __syncthreads();
#pragma unroll 1
        for (int step = 0; step < SEED_STEPS && first + step * SEED_STRIDE < args.n; step++) {
            const long long begins = first + step * SEED_STRIDE,
                            point = begins + half * KM_SUBCHUNK_POINTS + lane;
            km_real square[SEED_ROWS][SEED_POINTS_AT_ONCE] = {}, best[SEED_POINTS_AT_ONCE];
#pragma unroll
            for (int p = 0; p < SEED_POINTS_AT_ONCE; p++) {
                const bool there = task.candidates > 0 && pick > 1 && point + 32 * p < args.n;
                const km_real *nearest = (const km_real *)args.nearest + task.chain * args.n;
                best[p] = there ? __ldcg(nearest + point + 32 * p) : SEED_FAR;
            }
#pragma unroll 1
            for (int slice = 0; slice < SEED_SLICES; slice++, turn ^= 1) {
                const bool last = slice + 1 == SEED_SLICES;
                if (!last || step + 1 < SEED_STEPS)
                    seed_copy(slices[turn ^ 1], args, rows, last ? begins + SEED_STRIDE : begins,
                              last ? 0 : slice + 1);
                const int left = D - slice * SEED_SLICE;
                if (task.candidates > 0)
                    seed_add_slice(square, slices[turn].points[half * SEED_STRIDE + lane],
                                   slices[turn].rows[warp % SEED_TASKS * SEED_ROWS],
                                   left < SEED_SLICE ? left : int(SEED_SLICE), task.candidates, pick > 0);
                tile_wait();
                __syncthreads();
            }
            if (task.candidates > 0) seed_add_step(sums, best, square, args, task, point);
        }
        seed_write(args, sums, (double(*)[SEED_STRIDE])slices + warp * SEED_CANDIDATES, task, first_candidate,
                   subchunk + half);
    }
}
