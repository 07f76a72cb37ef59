// SPDX-License-Identifier: MIT
// The last pass: a lane has the best run of a subset and K. Labels are those of the squared distances in double, as
// everywhere. Scores x . c - |c|^2 / 2 find them, and the second-nearest centroid: the number of a centroid is in the
// lowest bits of its score, so that a maximum is both. Where the two best are not farther apart than what rounding and
// these bits may change, the point is ambiguous and resolved in double. Squared distances, margins and sums are of
// x - c, the sums about the centroid of the label: they also say where the mean of the label is.
//@ if float64
typedef long long subset_bits;

__device__ __forceinline__ double subset_keyed(double score, int j, long long mask) {
    return __longlong_as_double((__double_as_longlong(score) & ~mask) | j);
}

__device__ __forceinline__ int subset_key(double keyed, long long mask) {
    return (int)(__double_as_longlong(keyed) & mask);
}

__device__ __forceinline__ double subset_root(double value) {
    return sqrt(value);
}

__device__ __forceinline__ double subset_divide(double value, double by) {
    return value / by;
}
//@ else
typedef int subset_bits;

__device__ __forceinline__ float subset_keyed(float score, int j, int mask) {
    return __int_as_float((__float_as_int(score) & ~mask) | j);
}

__device__ __forceinline__ int subset_key(float keyed, int mask) {
    return __float_as_int(keyed) & mask;
}

__device__ __forceinline__ float subset_root(float value) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}

__device__ __forceinline__ float subset_divide(float value, float by) {
    return __fdividef(value, by);
}
//@ end

// 2^bits - 1 that holds the numbers of K centroids.
__host__ __device__ constexpr int subset_mask(int k, int mask = 1) {
    return mask >= k - 1 ? mask : subset_mask(k, 2 * mask + 1);
}

// A score has C + 1 roundings of half a unit in the last place, and lost its lowest bits: so much of
// |x| |c| + |c|^2 / 2, which is at most 2.5 |x|^2 + 2 |x - c|^2; and the square of another centroid's distance exceeds
// that of the label by twice the gap of their scores. So the label is sure where the gap is more than so much of
// 5 |x|^2 + 4 |x - c|^2.
template <int C, int K> __host__ __device__ constexpr double subset_apart() {
    return (C + 4 + 2 * (subset_mask(K) + 1)) / (sizeof(km_real) == 8 ? 9007199254740992.0 : 16777216.0);
}

struct subset_pair {
    int label, second;
};

// The nearest and the second-nearest centroid by distances in double, of a row of a tile. A call of its own, as few
// points need it; it reads columns and centroids again, so that no array of the caller must be in memory.
template <int C, int K>
__device__ __noinline__ subset_pair subset_exact(const km_real *x, const int *columns, const km_real *table,
                                                 long long stride) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, next = infinity;
    int label = 0, second = 0;
#pragma unroll 1
    for (int j = 0; j < K; j++) {
        double square = 0.0;
#pragma unroll
        for (int f = 0; f < C; f++) {
            const double t = (double)x[columns[f * stride]] - (double)table[(j * (C + 1) + f) * stride];
            square = fma(t, t, square);
        }
        if (square < nearest) {
            next = nearest;
            second = label;
            nearest = square;
            label = j;
        } else if (square < next) {
            next = square;
            second = j;
        }
    }
    return {label, second};
}

// The two best scores of each of some points, keyed. Centroids are in registers (HELD > 1) or in shared memory.
template <int C, int K, int THREADS, int POINTS, int HELD>
__device__ __forceinline__ void subset_nearest(km_real (&first)[POINTS], km_real (&next)[POINTS],
                                               const km_real (&x)[POINTS][C], const km_real (&held)[HELD],
                                               const char *own_rows) {
    typedef subset_rows<C + 1, THREADS> rows;
#pragma unroll
    for (int p = 0; p < POINTS; p++) first[p] = next[p] = -(km_real)__int_as_float(0x7f800000);
#pragma unroll(HELD > 1 ? K : 1)
    for (int j = 0; j < K; j++) {
        km_real row[C + 1];
        if (HELD == 1) rows::load(row, own_rows + j * rows::ROW_BYTES);
#pragma unroll
        for (int f = 0; f <= C; f++)
            if (HELD > 1) row[f] = held[HELD > 1 ? j * (C + 1) + f : 0];
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            km_real score = row[C];
#pragma unroll
            for (int f = 0; f < C; f++) score = fma(x[p][f], row[f], score);
            score = subset_keyed(score, j, (subset_bits)subset_mask(K));
            next[p] = fmax(next[p], fmin(first[p], score));
            first[p] = fmax(first[p], score);
        }
    }
}

template <int C>
__device__ __forceinline__ km_real subset_square(const km_real (&x)[C], const km_real (&row)[C + 1]) {
    km_real square = 0;
#pragma unroll
    for (int f = 0; f < C; f++) square = fma(x[f] - row[f], x[f] - row[f], square);
    return square;
}

// What a thread adds of a cluster: sums of w (x - c), the weight, the margins, and points where these have weights.
template <int C> struct subset_numbers {
    enum { WEIGHT = C, MARGIN, COUNT = C + 2 + WEIGHTED };
};

// The sums of the outcome's values of a cluster, in memory that is there where they are.
template <int THREADS> struct subset_values { double value[THREADS], value2[THREADS]; };

// Block (runs, span): partial[span][number][position in `active`], numbers as cuda/subsets.h has them.
template <int C, int K, int THREADS>
__device__ __forceinline__ void subset_finish(const km_subsets_args &args) {
    typedef subset_numbers<C> number;
    typedef subset_rows<C + 1, THREADS> rows;
    typedef subset_rows<number::COUNT, THREADS> sums;
    constexpr bool IN_REGISTERS = K * (C + 1) * (int)sizeof(km_real) <= SUBSET_REGISTER_BYTES / 2;
    constexpr int HELD = IN_REGISTERS ? K * (C + 1) : 1, POINTS = 4;
    extern __shared__ __align__(16) char subset_memory[];
    subset_tile *tiles = (subset_tile *)subset_memory;
    char *own_sums = subset_memory + (2 * sizeof(subset_tile) + 15) / 16 * 16;
    char *own_rows = own_sums + K * sums::ROW_BYTES;
    subset_values<THREADS> *values = (subset_values<THREADS> *)(own_rows + K * rows::ROW_BYTES);
    const int at = blockIdx.x * THREADS + threadIdx.x, t = threadIdx.x;
    const int run = args.active[at < args.count ? at : 0];
    const bool has_values = args.values != nullptr;
    const km_real *table = (const km_real *)args.table + run;
    int column[C];
#pragma unroll
    for (int f = 0; f < C; f++) column[f] = args.columns[f * args.stride + run];
    km_real held[HELD];
#pragma unroll(IN_REGISTERS ? K : 1)
    for (int j = 0; j < K; j++) {
        km_real row[C + 1];
#pragma unroll
        for (int f = 0; f <= C; f++) {
            row[f] = table[(j * (C + 1) + f) * args.stride];
            if (IN_REGISTERS) held[IN_REGISTERS ? j * (C + 1) + f : 0] = row[f];
        }
        rows::store(own_rows + j * rows::ROW_BYTES, row);
    }
    for (long long index = blockIdx.y; index < args.spans_count; index += gridDim.y) {
        const km_span span = args.spans[index];
        double square = 0.0;
#pragma unroll 1
        for (int j = 0; j < K; j++) {
            const km_real none[number::COUNT] = {};
            sums::store(own_sums + j * sums::ROW_BYTES, none);
            if (has_values) values[j].value[t] = values[j].value2[t] = 0.0;
        }
        subset_fetch(tiles[0].x, tiles[0].w, args, span.first);
        for (int begin = 0, which = 0; begin < span.count; begin += SUBSET_TILE_POINTS, which ^= 1) {
            subset_copies_wait();
            __syncthreads();
            if (begin + SUBSET_TILE_POINTS < span.count)
                subset_fetch(tiles[which ^ 1].x, tiles[which ^ 1].w, args,
                             span.first + begin + SUBSET_TILE_POINTS);
            const int left = span.count - begin;
            const int count = left < SUBSET_TILE_POINTS ? left : SUBSET_TILE_POINTS;
            const km_real *tile = tiles[which].x;
            // Takes a point, whose best scores are known; its squared distance, weighted.
            const auto add = [&](const km_real(&x)[C], km_real first, km_real next, int p) {
                const km_real lost = (km_real)1e-37f, largest = (km_real)1e37f;
                const subset_bits mask = subset_mask(K);
                int label = K > 1 ? subset_key(first, mask) : 0, other = subset_key(next, mask);
                km_real size = 0, nearest, second = 0, row[C + 1], sum[number::COUNT];
                rows::load(row, own_rows + label * rows::ROW_BYTES);
                nearest = subset_square<C>(x, row);
                if (K > 1) {
#pragma unroll
                    for (int f = 0; f < C; f++) size = fma(x[f], x[f], size);
                    size = fma(size, (km_real)5, 4 * nearest);
                    if (!(size < largest && first - next > fma(size, (km_real)subset_apart<C, K>(), lost))) {
                        const subset_pair found =
                            subset_exact<C, K>(tile + p * D, args.columns + run, table, args.stride);
                        label = found.label;
                        other = found.second;
                        rows::load(row, own_rows + label * rows::ROW_BYTES);
                        nearest = subset_square<C>(x, row);
                    }
                }
                sums::load(sum, own_sums + label * sums::ROW_BYTES);
                const km_real w = WEIGHTED ? tiles[which].w[p] : (km_real)1;
#pragma unroll
                for (int f = 0; f < C; f++) {
                    const km_real apart = x[f] - row[f];
                    sum[f] = WEIGHTED ? fma(w, apart, sum[f]) : sum[f] + apart;
                }
                sum[number::WEIGHT] += w;
                if (WEIGHTED) sum[number::COUNT - 1] += (km_real)1;
                if (K > 1) {
                    rows::load(row, own_rows + other * rows::ROW_BYTES);
                    second = subset_square<C>(x, row);
                    if (second > 0)
                        sum[number::MARGIN] += w * (1 - subset_root(subset_divide(nearest, second)));
                }
                sums::store(own_sums + label * sums::ROW_BYTES, sum);
                if (has_values) {
                    const double y = args.values[span.first + begin + p];
                    values[label].value[t] += w * y;
                    values[label].value2[t] += w * y * y;
                }
                return w * nearest;
            };
            int point = 0;
#pragma unroll 1
            for (; point + POINTS <= count; point += POINTS) {
                km_real x[POINTS][C], first[POINTS], next[POINTS], own = 0;
                subset_read<C, POINTS>(x, tile + point * D, column);
                subset_nearest<C, K, THREADS>(first, next, x, held, own_rows);
#pragma unroll
                for (int p = 0; p < POINTS; p++) own += add(x[p], first[p], next[p], point + p);
                square += (double)own;
            }
#pragma unroll 1
            for (; point < count; point++) {
                km_real x[1][C], first[1], next[1];
                subset_read<C, 1>(x, tile + point * D, column);
                subset_nearest<C, K, THREADS>(first, next, x, held, own_rows);
                square += (double)add(x[0], first[0], next[0], point);
            }
        }
        __syncthreads(); // the next span overwrites the tiles
        if (at >= args.count) continue;
        const int per_cluster = number::COUNT + (has_values ? KM_SUBSET_VALUES : 0);
        double *out = (double *)args.partial + index * (K * per_cluster + 1) * args.count + at;
#pragma unroll 1
        for (int j = 0; j < K; j++) {
            km_real sum[number::COUNT];
            sums::load(sum, own_sums + j * sums::ROW_BYTES);
#pragma unroll
            for (int i = 0; i < number::COUNT; i++, out += args.count) *out = (double)sum[i];
            if (!has_values) continue;
            out[0] = values[j].value[t];
            out[args.count] = values[j].value2[t];
            out += KM_SUBSET_VALUES * args.count;
        }
        *out = square;
    }
}
