// SPDX-License-Identifier: MIT
// Seeding: greedy k-means++, all chains in the same passes, as runtime/seed.h states it. Each pick takes two kernels.
// km_seed_draw decides the pick before (the candidate that leaves the least inertia), and draws the candidates of this
// one. km_seed_pass reads the points once, updates each chain's distances, and adds the inertia that each candidate
// would leave. Nothing goes through the host.

// A task is up to SEED_CANDIDATES candidates of one chain: all of a pick, up to K = 20. A block reads a few points and
// works on several tasks with them.
constexpr int SEED_CANDIDATES = 4, SEED_ROWS = SEED_CANDIDATES + 1, SEED_TASKS = 4;
constexpr int SEED_POINTS = KM_SUBCHUNK_POINTS / KM_THREADS; // of a thread of km_seed_draw
constexpr int SEED_STRIDE = KM_THREADS / 2;                  // half of a block's threads have a subchunk
// Of these, as many as have registers for their features.
constexpr int SEED_STEP_BYTES = STEP_FEATURES * sizeof(km_real);
constexpr int SEED_ROWS_AT_ONCE = SEED_STEP_BYTES <= 32 ? SEED_POINTS : SEED_STEP_BYTES <= 64 ? 4 : 2;
// One conversion, of the number that fits: NVRTC 13.5 refuses a number that does not fit even in a branch not taken.
constexpr km_real SEED_FAR = (km_real)(sizeof(km_real) == 4 ? 3.4028234e38 : 1.7976931348623157e308);

//@ include cuda/steps/seed_search.cu

//@ if many_features
// The same of points of which it is known which ones the pick before is nearer to than all others.
__device__ __forceinline__ void seed_known_values(double *values, const km_seed_args *args,
                                                  const km_real *nearest, long long first, long long last,
                                                  const unsigned short *nearer, int best) {
    const km_real *points = (const km_real *)args->points, *row = points + last * D;
    km_real square[SEED_POINTS];
    unsigned left = 0;
#pragma unroll
    for (int p = 0; p < SEED_POINTS; p++) {
        const bool there = first + p < args->n;
        square[p] = there ? nearest[first + p] : (km_real)0;
        if (there && nearer[first + p] >> best & 1) left |= 1u << p;
    }
    for (; left; left &= left - 1) {
        const int which = __ffs((int)left) - 1;
        km_real less = 0;
#pragma unroll 4
        for (int f = 0; f < D; f += STEP_FEATURES) {
            km_real x[STEP_FEATURES], from[STEP_FEATURES];
            step_load(from, row, f);
            step_load(x, points + (first + which) * D, f);
#pragma unroll
            for (int g = 0; g < STEP_FEATURES; g++) {
                const km_real t = x[g] - from[g];
                less = fma(t, t, less);
            }
        }
#pragma unroll
        for (int p = 0; p < SEED_POINTS; p++)
            if (p == which) square[p] = less;
    }
#pragma unroll
    for (int p = 0; p < SEED_POINTS; p++)
        values[p] = first + p < args->n ? __dmul_rn(km_weight(args->weights, first + p), square[p]) : 0.0;
}

//@ end
// The weights of a thread's points in the draw of `pick`, from the pick before and the distances to earlier ones; 0
// behind the last point.
__device__ __forceinline__ void seed_values(double *values, const km_seed_args *args, const km_real *nearest,
                                            long long first, long long pick, long long last,
                                            const unsigned short *nearer, int best) {
    //@ if many_features
    if (nearer) return seed_known_values(values, args, nearest, first, last, nearer, best);
    //@ end
    const km_real *points = (const km_real *)args->points, *row = points + last * D;
    km_real square[SEED_POINTS] = {};
#pragma unroll
    for (int begin = 0; begin < SEED_POINTS; begin += SEED_ROWS_AT_ONCE)
#pragma unroll 1
        for (int f = 0; f < D && pick > 0; f += STEP_FEATURES) {
            km_real x[SEED_ROWS_AT_ONCE][STEP_FEATURES], from[STEP_FEATURES];
            step_load(from, row, f);
#pragma unroll
            for (int p = 0; p < SEED_ROWS_AT_ONCE; p++)
                step_load(x[p], first + begin + p < args->n ? points + (first + begin + p) * D : row, f);
#pragma unroll
            for (int g = 0; g < STEP_FEATURES; g++)
#pragma unroll
                for (int p = 0; p < SEED_ROWS_AT_ONCE; p++) {
                    const km_real t = x[p][g] - from[g];
                    square[begin + p] = fma(t, t, square[begin + p]);
                }
        }
#pragma unroll
    for (int p = 0; p < SEED_POINTS; p++) {
        const long long i = first + p;
        values[p] = 0.0;
        if (i >= args->n) continue;
        if (pick > 1) square[p] = nearest[i] < square[p] ? nearest[i] : square[p];
        const double weight = km_weight(args->weights, i);
        values[p] = pick > 0 ? __dmul_rn(weight, square[p]) : weight;
    }
}

//@ include cuda/steps/seed_draw.cu

// With other ranks: the sums of chunks, [rows of all chains][chunks], of what the last pass or the weights left of
// their subchunks, `rows` of a chain. Block (KM_THREADS chunks, row).
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_seed_sums(const double *subchunk_sums, long long subchunks, long long rows, double *sums) {
    const long long chunks = (subchunks + KM_SUBCHUNKS_PER_CHUNK - 1) / KM_SUBCHUNKS_PER_CHUNK,
                    first = blockIdx.x * (long long)KM_THREADS, row = blockIdx.y;
    const double *from = subchunk_sums + (row / rows * KM_CANDIDATES_MAX + row % rows) * subchunks;
    seed_chunk_sums((double(*)[KM_THREADS])(sums + row * chunks + first), from, subchunks, first,
                    (int)(chunks - first < KM_THREADS ? chunks - first : KM_THREADS), 1);
}

//@ if many_features
//@ include cuda/steps/seed_tiles.cu
//@ else
//@ include cuda/steps/seed_pass.cu
//@ end
