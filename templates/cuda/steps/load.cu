// SPDX-License-Identifier: MIT
// Load: statistics of the original points; then the points are centred and scaled. Sums are doubles over chunks of
// 65,536 points, and chunks are added in index order. In a chunk the layout of the threads fixes the order.

// Blocks a multiprocessor: without a bound the compiler aims at more, and spills. Rows that are in registers as a whole
// may be long: NVRTC 13.5 needs more than 64 registers for two of 32 bytes.
template <typename Raw>
constexpr int LOAD_BLOCKS = !STEP_ROW_IN_REGISTERS || D * sizeof(Raw) <= 16 ? 4
                            : D * sizeof(Raw) <= 64                         ? 3
                                                                            : 2;

constexpr int LOAD_FEATURES = int(D) < int(KM_THREADS) ? int(D) : int(KM_THREADS);
constexpr int LOAD_ROWS = KM_THREADS / LOAD_FEATURES;

// Value `a` of point i along an axis, by runtime/drawn.h: the host draws the same bits.
__device__ __forceinline__ double load_drawn(unsigned long long seed, unsigned long long set, long long i,
                                             int a, const double *low, const double *width) {
    const double u = km_draw(seed, set, (unsigned long long)i, (unsigned long long)a);
    return __fma_rn(u, width[a], low[a]);
}

// Original points that are drawn instead of copied, a value a thread. `axes` NULL: those of the features.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_draw(km_real *raw, long long n, unsigned long long seed, unsigned long long set,
                 const double *low, const double *width, const double *axes) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x, i = at / D;
    const int f = (int)(at - i * D);
    if (i >= n) return;
    double x = 0.0;
    if (axes) {
#pragma unroll 1
        for (int a = 0; a < D; a++)
            x = __fma_rn(axes[a * (long long)D + f], load_drawn(seed, set, i, a, low, width), x);
    } else {
        x = load_drawn(seed, set, i, f, low, width);
    }
    raw[at] = (km_real)x;
}

// One chunk and up to 256 features a block: partial[chunk][4][D] = sums of w (x - origin) and of w (x - origin)^2, the
// smallest and the largest value. *bad becomes the lowest index i * D + f of a value that is not finite.
template <typename Raw>
static __device__ void load_sums(const Raw *raw, const double *weights, long long n, const double *origins,
                                 double *partial, unsigned long long *bad) {
    __shared__ double sums[KM_THREADS], squares[KM_THREADS], lows[KM_THREADS], highs[KM_THREADS];
    const int column = threadIdx.x % LOAD_FEATURES, row = threadIdx.x / LOAD_FEATURES;
    const int f = blockIdx.y * LOAD_FEATURES + column;
    const long long first = blockIdx.x * (long long)KM_CHUNK_POINTS;
    const long long end = first + KM_CHUNK_POINTS < n ? first + KM_CHUNK_POINTS : n;
    double sum = 0.0, square = 0.0, low = 1.7976931348623157e308, high = -1.7976931348623157e308;
    unsigned long long bad_here = ~0ull;
    if (row < LOAD_ROWS && f < D) {
        const double origin = origins[f];
#pragma unroll 8
        for (long long i = first + row; i < end; i += LOAD_ROWS) {
            const double x = raw[i * D + f];
            if (!km_is_finite(x) && bad_here == ~0ull) bad_here = i * D + f;
            const double away = __dsub_rn(x, origin), weighted = __dmul_rn(km_weight(weights, i), away);
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
    km_load_sums_f32(const float *raw, const double *weights, long long n, const double *origins,
                     double *partial, unsigned long long *bad) {
    load_sums(raw, weights, n, origins, partial, bad);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<double>)
    km_load_sums_f64(const double *raw, const double *weights, long long n, const double *origins,
                     double *partial, unsigned long long *bad) {
    load_sums(raw, weights, n, origins, partial, bad);
}

// Reduces the chunks' statistics: out[4][D]. A block reduces numbers of one kind.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_load_reduce(const double *partial, long long chunks, double *out) {
    constexpr int EACH = (D + KM_REDUCED_NUMBERS - 1) / KM_REDUCED_NUMBERS;
    const int table = blockIdx.x / EACH, kind = table < 2 ? 0 : table - 1, end = (table + 1) * D;
    const int column = table * D + blockIdx.x % EACH * KM_REDUCED_NUMBERS, at = column + threadIdx.x;
    const double none = kind == 0 ? 0.0 : kind == 1 ? 1.7976931348623157e308 : -1.7976931348623157e308;
    const double number = step_reduce_chunks(none, partial, chunks, 4 * D, column, end, kind);
    if (threadIdx.x < KM_REDUCED_NUMBERS && at < end) out[at] = number;
}

// (x - centre) * factor in double, rounded once to the plan's type.
__device__ __forceinline__ km_real load_value(double x, int f, const double *centre, const double *factor) {
    return (km_real)__dmul_rn(__dsub_rn(x, __ldg(centre + f)), __ldg(factor + f));
}

template <typename Raw>
struct __align__(D * sizeof(Raw) % 16 == 0  ? 16
                 : D * sizeof(Raw) % 8 == 0 ? 8
                                            : sizeof(Raw)) load_row {
    Raw at[STEP_FEATURES];
};

// Centres and scales rows i, i + KM_THREADS, ... of few features, each in registers as a whole; returns their sum of
// w |x|^2. *bad becomes the lowest index i * D + f of a value that is not finite any more.
template <typename Raw>
__device__ __forceinline__ double load_rows(const Raw *raw, const double *weights, long long n,
                                            const double *centre, const double *factor, km_real *points,
                                            unsigned long long *bad, long long i) {
    constexpr int ROWS = D * sizeof(Raw) <= 16   ? 4
                         : D * sizeof(Raw) <= 32 ? 2
                                                 : 1; // that are being loaded at a time
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
                const double x = moved.at[f % STEP_FEATURES] =
                    load_value(rows[r].at[f % STEP_FEATURES], f, centre, factor);
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

// Centres and scales one subchunk a block, in place where the types agree, and writes its sum of w |x|^2.
template <typename Raw>
static __device__ void load_transform(const Raw *raw, const double *weights, long long n,
                                      const double *centre, const double *factor, km_real *points,
                                      unsigned long long *bad, double *subchunk_squares) {
    const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS;
    double sum = 0.0;
    if constexpr (STEP_ROW_IN_REGISTERS) {
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
    km_block_sums<1>(&sum);
    if (threadIdx.x == 0) subchunk_squares[blockIdx.x] = sum;
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<float>)
    km_load_transform_f32(const float *raw, const double *weights, long long n, const double *centre,
                          const double *factor, km_real *points, unsigned long long *bad,
                          double *subchunk_squares) {
    load_transform(raw, weights, n, centre, factor, points, bad, subchunk_squares);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, LOAD_BLOCKS<double>)
    km_load_transform_f64(const double *raw, const double *weights, long long n, const double *centre,
                          const double *factor, km_real *points, unsigned long long *bad,
                          double *subchunk_squares) {
    load_transform(raw, weights, n, centre, factor, points, bad, subchunk_squares);
}

//@ include cuda/steps/weights.cu

// Some points, centred and scaled, as doubles.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_rows(const km_real *points, const long long *indices, long long count, double *out) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (at < count * D) out[at] = points[indices[at / D] * D + at % D];
}

// Where a pass takes points in windows: adds the sums of a window, which are integers, to those of the windows before
// it, and behind the last one leaves all of them in their place.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_window_sums(unsigned long long *all, unsigned long long *sums, long long count, int is_first,
                   int is_last) {
    const long long i = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (i >= count) return;
    const unsigned long long sum = sums[i] + (is_first ? 0 : all[i]);
    (is_last ? sums : all)[i] = sum;
}

// With other ranks: sums[column] of what the blocks of a pass have summed, which become zero; `back`: the first block
// gets `sums`. Of blocks [restarts][blocks][row], or [restarts][row][blocks].
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_join_blocks(unsigned long long *of_blocks, unsigned long long *sums, long long columns, long long row,
                   long long blocks, int by_block, int back) {
    const long long column = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (column >= columns) return;
    const long long step = by_block ? row : 1;
    unsigned long long *own =
        of_blocks + (by_block ? column / row * row * blocks + column % row : column * blocks);
    if (back) {
        *own = sums[column];
        return;
    }
    unsigned long long sum = 0;
#pragma unroll 8
    for (long long block = 0; block < blocks; block++) {
        sum += own[block * step];
        own[block * step] = 0;
    }
    sums[column] = sum;
}
