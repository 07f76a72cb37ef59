// SPDX-License-Identifier: MIT
// Seeding by halves: many picks, many features. Few points are nearer to a candidate than to an earlier pick, and
// km_seed_pass reads all of every point to find them. Here points are read as halves, and products of these with the
// last pick and the candidates, on tensor cores, bound distances from below: where a bound leaves no doubt a point's
// distance stays as it is, and only of the others all is read. So the bits are those of km_seed_pass.
//@ verbatim cuda/seed_halves.h
enum {
    HALVES_WIDTH = KM_HALVES_WIDTH(D), // halves of a point
    HALVES_BLOCKS = HALVES_WIDTH / 32, // of 32 features: 8 of a lane
    HALVES_ROWS = KM_HALVES_ROWS,      // of a chain: row 0 is the last pick, row 1 + c candidate c
    HALVES_STRIDE =
        KM_THREADS / 2, // half of a block's threads have a subchunk: a thread every so many points of it
    HALVES_STEPS = KM_HALVES_STEPS
};
static_assert(KM_HALVES_SERVES(D, 64) && 1 + KM_CANDIDATES_MAX <= HALVES_ROWS, "a row for each candidate");

// 16 points by 8 rows, 16 features: as words.cu has it, for the rest of the text.
__device__ __forceinline__ void halves_products(float *sums, unsigned a0, unsigned a1, unsigned a2,
                                                unsigned a3, unsigned b0, unsigned b1) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

// Makes halves of points, a warp a point, and the squares of their lengths.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_seed_make_halves(const km_real *points, long long n, unsigned short *halves, float *squares) {
    const int lane = threadIdx.x % 32;
    for (long long i = (blockIdx.x * (long long)KM_THREADS + threadIdx.x) / 32; i < n;
         i += (long long)gridDim.x * (KM_THREADS / 32)) {
        float sum = 0.0f;
        for (int f = lane; f < HALVES_WIDTH; f += 32) {
            const float x = f < D ? (float)points[i * D + f] : 0.0f;
            unsigned short half;
            float rounded;
            asm("{ .reg .f16 h; cvt.rn.f16.f32 h, %2; mov.b16 %0, h; cvt.f32.f16 %1, h; }"
                : "=h"(half), "=f"(rounded)
                : "f"(x));
            halves[i * HALVES_WIDTH + f] = half;
            sum = fmaf(rounded, rounded, sum);
        }
        for (int step = 16; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
        if (lane == 0) squares[i] = sum;
    }
}

// A product of halves with a row, less half of the square of the row's length, that is less than this says that the
// distance is no smaller than `nearest`, as km_seed_pass computes it. |x - y| >= |hx - hy| - |x - hx| - |y - hy|, and a
// half is off by 2^-11 of itself at most; the rest is more than what sums of floats are off by.
__device__ __forceinline__ float halves_bound(float nearest, float square, float largest) {
    constexpr float OFF = 1.01f / 2048.0f, SUMS = HALVES_WIDTH / 4194304.0f;
    const float reach =
        sqrtf(nearest) * (1.0f + 1.0f / 16384.0f) + OFF * (sqrtf(square) + sqrtf(largest)) + 1e-6f;
    return 0.5f * (square - reach * reach) - SUMS * (square + largest);
}

// What a block has of its chain.
struct halves_chain {
    double sums[KM_CANDIDATES_MAX][KM_THREADS];
    long long points[HALVES_ROWS]; // -1: there is none
    float rows[HALVES_ROWS][KM_HALVES_PITCH(D)];
    float halved[HALVES_ROWS];                        // of the square of the row's length
    unsigned pairs[KM_THREADS / 32][KM_HALVES_PAIRS]; // what to compute, then what came
    float largest;                                    // square of a row's length
    int count;                                        // of pairs
};
static_assert(sizeof(halves_chain) <= KM_HALVES_BYTES(D), "as the host has it");

// The rows of a chain: the last pick, and the candidates.
__device__ __forceinline__ void halves_load(halves_chain &own, const km_seed_args &args, int chain,
                                            long long pick, int candidates, const float *squares) {
    const km_real *points = (const km_real *)args.points;
    if (threadIdx.x < HALVES_ROWS) {
        const int c = (int)threadIdx.x - 1;
        long long point = -1;
        if (c < 0) point = args.picks[chain * args.picks_count + pick - 1];
        if (c >= 0 && c < candidates)
            point = args.candidates[(pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX + c];
        own.points[threadIdx.x] = point;
        own.halved[threadIdx.x] = point < 0 ? 3.4028234e38f : 0.5f * squares[point];
    }
    if (threadIdx.x == 0) own.count = 0;
    __syncthreads();
    for (int i = threadIdx.x; i < HALVES_ROWS * KM_HALVES_PITCH(D); i += KM_THREADS) {
        const int row = i / KM_HALVES_PITCH(D), f = i % KM_HALVES_PITCH(D);
        own.rows[row][f] = own.points[row] >= 0 && f < D ? (float)points[own.points[row] * D + f] : 0.0f;
    }
    if (threadIdx.x == 0) {
        float largest = 0.0f;
        for (int row = 0; row < HALVES_ROWS; row++)
            if (own.points[row] >= 0) largest = fmaxf(largest, 2.0f * own.halved[row]);
        own.largest = largest;
    }
    for (int c = 0; c < KM_CANDIDATES_MAX; c++) own.sums[c][threadIdx.x] = 0.0;
    __syncthreads();
}

// Of 16 points from `first` on, of which two are the lane's, and all rows: which pairs are in doubt, a bit a row, two
// points a word. Four lanes have the same.
__device__ __forceinline__ unsigned halves_doubts(const uint4 (*x)[HALVES_BLOCKS],
                                                  const uint4 (*rows)[HALVES_BLOCKS],
                                                  const float (*halved)[2], float low_bound,
                                                  float high_bound) {
    unsigned doubts = 0;
#pragma unroll
    for (int t = 0; t < HALVES_ROWS / 8; t++) {
        float sums[4] = {-halved[t][0], -halved[t][1], -halved[t][0], -halved[t][1]};
#pragma unroll
        for (int b = 0; b < HALVES_BLOCKS; b++) {
            halves_products(sums, x[0][b].x, x[1][b].x, x[0][b].y, x[1][b].y, rows[t][b].x, rows[t][b].y);
            halves_products(sums, x[0][b].z, x[1][b].z, x[0][b].w, x[1][b].w, rows[t][b].z, rows[t][b].w);
        }
        const int row = 8 * t + threadIdx.x % 4 * 2;
        doubts |= (!(sums[0] < low_bound) ? 1u : 0u) << row | (!(sums[1] < low_bound) ? 2u : 0u) << row |
                  (!(sums[2] < high_bound) ? 0x10000u : 0u) << row |
                  (!(sums[3] < high_bound) ? 0x20000u : 0u) << row;
    }
    doubts |= __shfl_xor_sync(0xffffffffu, doubts, 1);
    return doubts | __shfl_xor_sync(0xffffffffu, doubts, 2);
}

// Loads the halves of two points of a lane, of 16 from `first` on.
__device__ __forceinline__ void halves_load_points(uint4 (*x)[HALVES_BLOCKS], const uint4 *halves,
                                                   long long first, long long n) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        long long point = first + half * 8 + lane / 4;
        if (point > n - 1) point = n - 1;
#pragma unroll
        for (int b = 0; b < HALVES_BLOCKS; b++)
            x[half][b] = __ldcs(halves + point * (HALVES_WIDTH / 8) + b * 4 + lane % 4);
    }
}

// The squared distances of the pairs of a warp, in the place of what says which they are.
__device__ __forceinline__ void halves_compute(unsigned *pairs, int count, const halves_chain &own,
                                               const km_real *points, long long first) {
    for (int i = threadIdx.x % 32; i < count; i += 32) {
        const unsigned pair = pairs[i];
        const km_real *x = points + (first + (pair >> 4) % 32 + (pair >> 9) * HALVES_STRIDE) * D;
        const float *row = own.rows[pair % 16];
        km_real square = 0;
#pragma unroll 4
        for (int f = 0; f < D; f += STEP_FEATURES) {
            km_real here[STEP_FEATURES];
            step_load(here, x, f);
#pragma unroll
            for (int g = 0; g < STEP_FEATURES; g++) {
                const km_real t = here[g] - (km_real)row[f + g];
                square = fma(t, t, square);
            }
        }
        pairs[i] = __float_as_uint((float)square);
    }
}

// A block has two subchunks of a chain. *pairs_count: how many pairs were in doubt, of all blocks. nearer: of each
// chain's points, bit c: the distance to candidate c is less than `nearest`.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_seed_pass_halves(const __grid_constant__ km_seed_args args, long long pick, int candidates,
                        const uint4 *halves, const float *squares, unsigned long long *pairs_count,
                        unsigned short *nearer) {
    extern __shared__ double halves_memory[];
    halves_chain &own = *(halves_chain *)halves_memory;
    const int warp = threadIdx.x / 32, lane = threadIdx.x % 32, chain = blockIdx.y;
    const long long subchunk = blockIdx.x * 2ll + threadIdx.x / HALVES_STRIDE;
    const long long begin = subchunk * KM_SUBCHUNK_POINTS + warp % 4 * 32; // the warp's first point
    halves_load(own, args, chain, pick, candidates, squares);
    uint4 rows[HALVES_ROWS / 8][HALVES_BLOCKS];
    float halved[HALVES_ROWS / 8][2];
    unsigned valid = 0;
#pragma unroll
    for (int t = 0; t < HALVES_ROWS / 8; t++) {
        const long long point = own.points[t * 8 + lane / 4];
#pragma unroll
        for (int b = 0; b < HALVES_BLOCKS; b++)
            rows[t][b] = halves[(point < 0 ? 0 : point) * (HALVES_WIDTH / 8) + b * 4 + lane % 4];
#pragma unroll
        for (int e = 0; e < 2; e++) halved[t][e] = own.halved[t * 8 + lane % 4 * 2 + e];
    }
    valid = (2u << candidates) - 1;
    const float largest = own.largest;
    km_real *nearest = (km_real *)args.nearest + chain * args.n;
    int counted = 0;
#pragma unroll 1
    for (long long first = begin; first < (subchunk + 1) * KM_SUBCHUNK_POINTS && first < args.n;
         first += HALVES_STEPS * HALVES_STRIDE) {
        km_real best[HALVES_STEPS];
        unsigned doubts[HALVES_STEPS];
        uint4 x[2][2][HALVES_BLOCKS];
        halves_load_points(x[0], halves, first, args.n);
#pragma unroll
        for (int s = 0; s < HALVES_STEPS; s++) {
            const long long point = first + s * HALVES_STRIDE + lane;
            best[s] = point < args.n ? __ldcg(nearest + point) : (km_real)0;
        }
#pragma unroll
        for (int s = 0; s < HALVES_STEPS; s++) {
            const long long point = first + s * HALVES_STRIDE + lane;
            const float bound = halves_bound((float)best[s], point < args.n ? squares[point] : 0.0f, largest);
            unsigned words[2];
#pragma unroll
            for (int i = 0; i < 2; i++) {
                if (i == 0)
                    halves_load_points(x[1], halves, first + s * HALVES_STRIDE + 16, args.n);
                else if (s + 1 < HALVES_STEPS)
                    halves_load_points(x[0], halves, first + (s + 1) * HALVES_STRIDE, args.n);
                words[i] =
                    halves_doubts(x[i], rows, halved, __shfl_sync(0xffffffffu, bound, i * 16 + lane / 4),
                                  __shfl_sync(0xffffffffu, bound, i * 16 + 8 + lane / 4));
                words[i] = __shfl_sync(0xffffffffu, words[i], lane % 8 * 4);
            }
            const unsigned word = words[lane / 16];
            doubts[s] = point < args.n ? (lane / 8 % 2 ? word >> 16 : word) & valid : 0;
        }
        // Pairs in doubt, a lane's behind those of the lanes before, first by point, then by row.
        int at[HALVES_STEPS + 1], before = 0;
        at[0] = 0;
#pragma unroll
        for (int s = 0; s < HALVES_STEPS; s++) at[s + 1] = at[s] + __popc(doubts[s]);
        before = at[HALVES_STEPS];
#pragma unroll
        for (int step = 1; step < 32; step <<= 1) {
            const int other = __shfl_up_sync(0xffffffffu, before, step);
            if (lane >= step) before += other;
        }
        const int count = __shfl_sync(0xffffffffu, before, 31);
        unsigned *pairs = own.pairs[warp], *mine = pairs + (before - at[HALVES_STEPS]);
        if (count > 0) {
#pragma unroll
            for (int s = 0; s < HALVES_STEPS; s++) {
                unsigned *to = mine + at[s];
                for (unsigned left = doubts[s]; left; left &= left - 1)
                    *to++ = (unsigned)(s << 9 | lane << 4 | (__ffs((int)left) - 1));
            }
            __syncwarp();
            halves_compute(pairs, count, own, (const km_real *)args.points, first);
            __syncwarp();
        }
        counted += count;
#pragma unroll
        for (int s = 0; s < HALVES_STEPS; s++)
            if (doubts[s] & 1) {
                const km_real square = (km_real)__uint_as_float(mine[at[s]]);
                if (square < best[s]) nearest[first + s * HALVES_STRIDE + lane] = best[s] = square;
            }
        unsigned marks[HALVES_STEPS] = {};
        for (int c = 0; c < candidates; c++) {
            double sum = own.sums[c][threadIdx.x];
#pragma unroll
            for (int s = 0; s < HALVES_STEPS; s++) {
                const long long point = first + s * HALVES_STRIDE + lane;
                km_real left = best[s];
                if (doubts[s] & 2u << c) {
                    const unsigned pair = mine[at[s] + __popc(doubts[s] & ((2u << c) - 1))];
                    if ((km_real)__uint_as_float(pair) < left) {
                        left = (km_real)__uint_as_float(pair);
                        marks[s] |= 1u << c;
                    }
                }
                //@ if weighted
                if (point < args.n) sum = __dadd_rn(sum, __dmul_rn(km_weight(args.weights, point), left));
                //@ else
                if (point < args.n) sum = __dadd_rn(sum, fmin(left, (km_real)3.4028234e38f));
                //@ end
            }
            own.sums[c][threadIdx.x] = sum;
        }
#pragma unroll
        for (int s = 0; s < HALVES_STEPS; s++) {
            const long long point = first + s * HALVES_STRIDE + lane;
            if (point < args.n) nearer[chain * args.n + point] = (unsigned short)marks[s];
        }
        __syncwarp(); // pairs are read
    }
    if (lane == 0 && counted) atomicAdd(&own.count, counted);
    __syncthreads();
    if (threadIdx.x == 0 && own.count) atomicAdd(pairs_count, (unsigned long long)own.count);
    // As km_seed_pass adds: eight adders a candidate.
    constexpr int ADDERS = 8;
    const int c = threadIdx.x / ADDERS % 16, half = threadIdx.x / HALVES_STRIDE;
    double sum = 0.0;
    if (c < candidates)
        for (int i = threadIdx.x % ADDERS; i < HALVES_STRIDE; i += ADDERS)
            sum = __dadd_rn(sum, own.sums[c][half * HALVES_STRIDE + i]);
    for (int step = ADDERS / 2; step > 0; step >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (threadIdx.x % ADDERS || c >= candidates || blockIdx.x * 2ll + half >= args.subchunks) return;
    const long long row = chain * (long long)KM_CANDIDATES_MAX + c;
    args.subchunk_sums[row * args.subchunks + blockIdx.x * 2ll + half] = sum;
}
