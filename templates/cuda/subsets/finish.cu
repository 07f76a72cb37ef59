// SPDX-License-Identifier: MIT
// The last pass: a lane has the best run of a subset and K. Labels are those of the squared distances in double, as
// everywhere; squares are added as doubles.
//@ if not float64
// Distances are float, in the difference form: their relative error is at most (C + 2) 2^-24. Where the second-nearest
// centroid is not farther than the nearest by more than that, the point is ambiguous and resolved in double.
//@ end
//@ if float64
__device__ __forceinline__ double subset_root(double value) {
    return sqrt(value);
}

__device__ __forceinline__ double subset_divide(double value, double by) {
    return value / by;
}
//@ else

__device__ __forceinline__ float subset_root(float value) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}

__device__ __forceinline__ float subset_divide(float value, float by) {
    return __fdividef(value, by);
}
//@ end

struct subset_point {
    int label;
    km_real nearest, second; // squared distances
};

// The nearest centroid by distances in double, of a row of a tile. A call of its own, as few points need it; it reads
// columns and centroids again, so that no array of the caller must be in memory.
template <int C, int K>
__device__ __noinline__ subset_point subset_exact(const km_real *x, const int *columns, const km_real *table,
                                                  long long stride) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, second = infinity;
    int label = 0;
#pragma unroll 1
    for (int j = 0; j < K; j++) {
        double square = 0.0;
#pragma unroll
        for (int f = 0; f < C; f++) {
            const double t = (double)x[columns[f * stride]] - (double)table[(j * (C + 1) + f) * stride];
            square = fma(t, t, square);
        }
        const bool nearer = square < nearest;
        second = nearer ? nearest : square < second ? square : second;
        nearest = nearer ? square : nearest;
        label = nearer ? j : label;
    }
    return {label, (km_real)nearest, (km_real)second};
}

// The two nearest of each of some points. Centroids are in registers (HELD > 1) or in shared memory.
template <int C, int K, int THREADS, int POINTS, int HELD>
__device__ __forceinline__ void subset_nearest(subset_point (&found)[POINTS], const km_real (&x)[POINTS][C],
                                               const km_real (&held)[HELD], const char *own_rows) {
    typedef subset_rows<C, THREADS> rows;
    const km_real infinity = (km_real)__int_as_float(0x7f800000);
#pragma unroll
    for (int p = 0; p < POINTS; p++) found[p] = {0, infinity, infinity};
#pragma unroll(HELD > 1 ? K : 1)
    for (int j = 0; j < K; j++) {
        km_real row[C];
        if (HELD == 1) rows::load(row, own_rows + j * rows::ROW_BYTES);
#pragma unroll
        for (int f = 0; f < C; f++)
            if (HELD > 1) row[f] = held[HELD > 1 ? j * C + f : 0];
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            km_real square = 0;
#pragma unroll
            for (int f = 0; f < C; f++) {
                const km_real t = x[p][f] - row[f];
                square = fma(t, t, square);
            }
            found[p].second = fmin(found[p].second, fmax(found[p].nearest, square));
            found[p].label = square < found[p].nearest ? j : found[p].label;
            found[p].nearest = fmin(found[p].nearest, square);
        }
    }
}

//@ if not float64
// Whether floats tell the nearest centroid: twice the bound, and what squares lose by underflow.
template <int C, int K> __device__ __forceinline__ bool subset_is_sure(const subset_point &point) {
    const float apart = 1.0f + (C + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    return fma(point.nearest, apart, lost) < point.second && (K == 1 || point.second < largest);
}

//@ end
// What the threads add of a cluster.
template <int THREADS> struct __align__(16) subset_sums {
    struct pair {
        km_real margin, weight;
    };
    double square[THREADS];
    pair both[THREADS];
    km_real points[WEIGHTED ? THREADS : 4];
};

// The same of the outcome's values, in memory that is there where they are.
template <int THREADS> struct subset_values { double value[THREADS], value2[THREADS]; };

// Block (runs, span): partial[span][j * numbers + i][position in `active`] = number i of cluster j.
template <int C, int K, int THREADS>
__device__ __forceinline__ void subset_finish(const km_subsets_args &args) {
    typedef subset_rows<C, THREADS> rows;
    constexpr bool IN_REGISTERS = K * C * (int)sizeof(km_real) <= SUBSET_REGISTER_BYTES / 2;
    constexpr int HELD = IN_REGISTERS ? K * C : 1, POINTS = IN_REGISTERS ? 2 : 4;
    extern __shared__ __align__(16) char subset_memory[];
    subset_tile *tiles = (subset_tile *)subset_memory;
    subset_sums<THREADS> *sums =
        (subset_sums<THREADS> *)(subset_memory + (2 * sizeof(subset_tile) + 15) / 16 * 16);
    char *own_rows = (char *)(sums + K);
    subset_values<THREADS> *values =
        (subset_values<THREADS> *)(own_rows + (IN_REGISTERS ? 0 : K * rows::ROW_BYTES));
    const long long at = blockIdx.x * (long long)THREADS + threadIdx.x;
    const int run = args.active[at < args.count ? at : 0], t = threadIdx.x;
    const bool has_values = args.values != nullptr;
    const int numbers = has_values ? KM_SUBSET_SUMS_MAX : KM_SUBSET_SUMS;
    const km_real *table = (const km_real *)args.table + run;
    int column[C];
#pragma unroll
    for (int f = 0; f < C; f++) column[f] = args.columns[f * args.stride + run];
    km_real held[HELD];
#pragma unroll(IN_REGISTERS ? K : 1)
    for (int j = 0; j < K; j++) {
        km_real row[C];
#pragma unroll
        for (int f = 0; f < C; f++) {
            row[f] = table[(j * (C + 1) + f) * args.stride];
            if (IN_REGISTERS) held[IN_REGISTERS ? j * C + f : 0] = row[f];
        }
        if (!IN_REGISTERS) rows::store(own_rows + j * rows::ROW_BYTES, row);
    }
    for (long long index = blockIdx.y; index < args.spans_count; index += gridDim.y) {
        const km_span span = args.spans[index];
#pragma unroll 1
        for (int j = 0; j < K; j++) {
            subset_sums<THREADS> &sum = sums[j];
            sum.square[t] = 0.0;
            sum.both[t] = {0, 0};
            if (WEIGHTED) sum.points[t] = 0;
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
            const auto add = [&](subset_point point, const km_real *row, int p) {
                //@ if not float64
                if (!subset_is_sure<C, K>(point))
                    point = subset_exact<C, K>(row, args.columns + run, table, args.stride);
                //@ end
                subset_sums<THREADS> &sum = sums[point.label];
                const km_real w = WEIGHTED ? tiles[which].w[p] : (km_real)1;
                typename subset_sums<THREADS>::pair both = sum.both[t];
                sum.square[t] += (double)w * point.nearest;
                if (K > 1 && point.second > 0)
                    both.margin += w * (1 - subset_root(subset_divide(point.nearest, point.second)));
                both.weight += w;
                sum.both[t] = both;
                if (WEIGHTED) sum.points[t] += (km_real)1;
                if (!has_values) return;
                const double y = args.values[span.first + begin + p];
                values[point.label].value[t] += w * y;
                values[point.label].value2[t] += w * y * y;
            };
            int p = 0;
#pragma unroll 1
            for (; p + POINTS <= count; p += POINTS) {
                km_real x[POINTS][C];
                subset_point point[POINTS];
                const km_real *row = tiles[which].x + p * D;
                subset_read<C, POINTS>(x, row, column);
                subset_nearest<C, K, THREADS>(point, x, held, own_rows);
#pragma unroll
                for (int q = 0; q < POINTS; q++) add(point[q], row + q * D, p + q);
            }
#pragma unroll 1
            for (; p < count; p++) {
                km_real x[1][C];
                subset_point point[1];
                const km_real *row = tiles[which].x + p * D;
                subset_read<C, 1>(x, row, column);
                subset_nearest<C, K, THREADS>(point, x, held, own_rows);
                add(point[0], row, p);
            }
        }
        __syncthreads(); // the next span overwrites the tiles
        if (at >= args.count) continue;
        double *out = (double *)args.partial + index * K * numbers * args.count + at;
#pragma unroll 1
        for (int j = 0; j < K; j++, out += numbers * args.count) {
            const subset_sums<THREADS> &sum = sums[j];
            out[KM_SUBSET_SSE * args.count] = sum.square[t];
            out[KM_SUBSET_MARGIN * args.count] = sum.both[t].margin;
            out[KM_SUBSET_WEIGHT * args.count] = sum.both[t].weight;
            out[KM_SUBSET_COUNT * args.count] = WEIGHTED ? sum.points[t] : sum.both[t].weight;
            if (!has_values) continue;
            out[KM_SUBSET_VALUE * args.count] = values[j].value[t];
            out[KM_SUBSET_VALUE2 * args.count] = values[j].value2[t];
        }
    }
}
