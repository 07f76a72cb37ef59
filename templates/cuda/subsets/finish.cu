// SPDX-License-Identifier: MIT
// The last pass: a lane has the best run of a subset and K. Labels are those of the squared distances in double, as
// everywhere. Scores x . c - |c|^2 / 2 find them, and the second-nearest centroid: the number of a centroid is in the
// lowest bits of its score, so that a maximum is both. Where the two best are not farther apart than what rounding and
// these bits may change, the point is ambiguous and resolved in double. Squared distances and sums are of x - c, the
// sums about the centroid of the label: they also say where the mean of the label is. Squares, and quotients of the two
// distances, are added in registers, over all clusters: the host makes margins of the quotients, and takes off those
// of clusters of one point, which is where the mean is.
//@ if float64
typedef long long subset_bits;

__device__ __forceinline__ double subset_keyed(double score, int j, long long mask) {
    return __longlong_as_double((__double_as_longlong(score) & ~mask) | j);
}

__device__ __forceinline__ int subset_key(double keyed, long long mask) {
    return (int)(__double_as_longlong(keyed) & mask);
}

__device__ __forceinline__ double subset_root_of_quotient(double value, double by) {
    return sqrt(value / by);
}
//@ else
typedef int subset_bits;

// score & ~mask | j as one instruction: of two constants a compiler makes two.
__device__ __forceinline__ float subset_keyed(float score, int j, int mask) {
    float keyed;
    asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=f"(keyed) : "f"(score), "r"(~mask), "r"(j));
    return keyed;
}

__device__ __forceinline__ int subset_key(float keyed, int mask) {
    return __float_as_int(keyed) & mask;
}

// What underflows is a distance of 0: without .ftz denormals take more instructions than all the rest.
__device__ __forceinline__ float subset_root_of_quotient(float value, float by) {
    float inverse, root;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(by));
    asm("sqrt.approx.ftz.f32 %0, %1;" : "=f"(root) : "f"(value * inverse));
    return root;
}
//@ end

// 2^bits - 1 that holds the numbers of K centroids.
__host__ __device__ constexpr int subset_mask(int k, int mask = 1) {
    return mask >= k - 1 ? mask : subset_mask(k, 2 * mask + 1);
}

// A score has C + 1 roundings of half a unit in the last place, and lost its lowest bits: so much of
// |x| |c| + |c|^2 / 2, which is at most 2.5 |x|^2 + 2 |x - c|^2; and the square of another centroid's distance exceeds
// that of the label by twice the gap of their scores. So the label is sure where the gap is more than so much of
// 5 |x|^2 + 4 |x - c|^2, which is 9 |x|^2 - 8 times the score; with u for "so much", where
// (1 + 8 u) score - other > 9 u |x|^2.
template <int C, int K> __host__ __device__ constexpr double subset_apart() {
    return (C + 4 + 2 * (subset_mask(K) + 1)) / (sizeof(km_real) == 8 ? 9007199254740992.0 : 16777216.0);
}

struct subset_pair {
    int label, second;
};

// The nearest and the second-nearest centroid by distances in double, of a row of a tile. A call of its own, as few
// points need it; it reads columns and centroids again, so that no array of the caller must be in memory.
template <int C, int K>
__device__ __noinline__ subset_pair subset_exact(const km_real *x, const km_subsets_args &args, int run) {
    const int *columns = args.columns + run;
    const km_real *table = (const km_real *)args.table + run;
    const long long stride = args.stride;
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

// The nearest and the second-nearest centroid of each of some points, from `point` on in the tile. Centroids are in
// registers (HELD > 1) or in shared memory.
template <int C, int K, int THREADS, int POINTS, int HELD>
__device__ __forceinline__ void subset_two_nearest(int (&label)[POINTS], int (&other)[POINTS],
                                                   const km_real (&x)[POINTS][C], const km_real (&held)[HELD],
                                                   char *own_rows, const km_real *point,
                                                   const km_subsets_args &args, int run) {
    typedef subset_rows<C + 1, THREADS> rows;
    const km_real lost = (km_real)1e-37f;
    constexpr double apart = subset_apart<C, K>();
    km_real first[POINTS], next[POINTS];
    bool is_sure[POINTS], are_sure = true;
    const auto scores = [&](km_real(&score)[POINTS], int j) {
        km_real row[C + 1];
        if (HELD == 1) rows::load(row, own_rows, j);
#pragma unroll
        for (int f = 0; f <= C; f++)
            if (HELD > 1) row[f] = held[HELD > 1 ? j * (C + 1) + f : 0];
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            score[p] = row[C];
#pragma unroll
            for (int f = 0; f < C; f++) score[p] = fma(x[p][f], row[f], score[p]);
            score[p] = subset_keyed(score[p], j, (subset_bits)subset_mask(K));
        }
    };
    scores(first, 0);
#pragma unroll
    for (int p = 0; p < POINTS; p++) next[p] = -(km_real)__int_as_float(0x7f800000);
#pragma unroll(HELD > 1 ? K : 1)
    for (int j = 1; j < K; j++) {
        km_real score[POINTS];
        scores(score, j);
#pragma unroll
        for (int p = 0; p < POINTS; p++) {
            const km_real lower = fmin(first[p], score[p]);
            next[p] = HELD > 1 && j == 1 ? lower : fmax(next[p], lower);
            first[p] = fmax(first[p], score[p]);
        }
    }
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        km_real size = 0;
#pragma unroll
        for (int f = 0; f < C; f++) size = fma(x[p][f], x[p][f], size);
        label[p] = K > 1 ? subset_key(first[p], (subset_bits)subset_mask(K)) : 0;
        other[p] = K > 1 ? subset_key(next[p], (subset_bits)subset_mask(K)) : 0;
        is_sure[p] = K == 1 || fma(first[p], (km_real)(1 + 8 * apart), -next[p]) >
                                   fma(size, (km_real)(9 * apart), lost);
        are_sure = are_sure && is_sure[p];
    }
    if (are_sure) return;
#pragma unroll
    for (int p = 0; p < POINTS; p++) {
        if (is_sure[p]) continue;
        const subset_pair found = subset_exact<C, K>(point + p * D, args, run);
        label[p] = found.label;
        other[p] = found.second;
    }
}

// `square`: what it is added to.
template <int C>
__device__ __forceinline__ km_real subset_square(const km_real (&x)[C], const km_real (&row)[C + 1],
                                                 km_real square) {
#pragma unroll
    for (int f = 0; f < C; f++) square = fma(x[f] - row[f], x[f] - row[f], square);
    return square;
}

// What a thread adds of a cluster: sums of w (x - c), the weight, and points where these have weights.
template <int C> struct subset_numbers {
    enum { WEIGHT = C, COUNT = C + 1 + WEIGHTED };
};

// The sums of the outcome's values of a cluster, in memory that is there where they are.
template <int THREADS> struct subset_values { double value[THREADS], value2[THREADS]; };

// Takes a point to the sums of the outcome's values. A call of its own: inlined, its instructions take their time where
// there are no values, too.
template <int THREADS>
__device__ __noinline__ void subset_add_value(subset_values<THREADS> *values, double w, double y) {
    values->value[threadIdx.x] += w * y;
    values->value2[threadIdx.x] += w * y * y;
}

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
    const bool is_busy = at - t % 32 < args.count; // some lane of the warp has a run
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
        rows::store(own_rows, j, row);
    }
    for (long long index = blockIdx.y; index < args.spans_count; index += gridDim.y) {
        const km_span span = args.spans[index];
        double square = 0.0, root = 0.0;
#pragma unroll 1
        for (int j = 0; j < K; j++) {
            const km_real none[number::COUNT] = {};
            sums::store(own_sums, j, none);
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
            const int here = left < SUBSET_TILE_POINTS ? left : SUBSET_TILE_POINTS;
            const int count = is_busy ? here : 0;
            const km_real *tile = tiles[which].x;
            // Where both distances are 0 the quotient is 1.
            const km_real lost = (km_real)1e-37f;
            km_real squares = 0, roots = 0; // of some points, and of the quotients of their squares
            // Takes a point of a label to the sums; `other`: the second-nearest centroid.
            const auto add = [&](const km_real(&x)[C], int label, int other, int p) {
                km_real row[C + 1], sum[number::COUNT];
                rows::load(row, own_rows, label);
                sums::load(sum, own_sums, label);
                const km_real w = WEIGHTED ? tiles[which].w[p] : (km_real)1;
                const km_real nearest = subset_square<C>(x, row, 0);
#pragma unroll
                for (int f = 0; f < C; f++) {
                    const km_real apart = x[f] - row[f];
                    sum[f] = WEIGHTED ? fma(w, apart, sum[f]) : sum[f] + apart;
                }
                sum[number::WEIGHT] += w;
                if (WEIGHTED) sum[number::COUNT - 1] += (km_real)1;
                sums::store(own_sums, label, sum);
                squares += w * nearest;
                if (K > 1) {
                    rows::load(row, own_rows, other);
                    const km_real second = subset_square<C>(x, row, lost);
                    const km_real root = subset_root_of_quotient(nearest + lost, second);
                    roots = WEIGHTED ? fma(w, root, roots) : roots + root;
                }
            };
            const auto add_value = [&](int label, int p) {
                subset_add_value<THREADS>(&values[label], WEIGHTED ? (double)tiles[which].w[p] : 1.0,
                                          args.values[span.first + begin + p]);
            };
            int point = 0;
#pragma unroll 1
            for (; point + POINTS <= count; point += POINTS) {
                km_real x[POINTS][C];
                int label[POINTS], other[POINTS];
                squares = roots = 0;
                subset_read<C, POINTS>(x, tile + point * D, column);
                subset_two_nearest<C, K, THREADS>(label, other, x, held, own_rows, tile + point * D, args,
                                                  run);
#pragma unroll
                for (int p = 0; p < POINTS; p++) add(x[p], label[p], other[p], point + p);
                if (has_values) {
#pragma unroll
                    for (int p = 0; p < POINTS; p++) add_value(label[p], point + p);
                }
                square += (double)squares;
                root += (double)roots;
            }
#pragma unroll 1
            for (; point < count; point++) {
                km_real x[1][C];
                int label[1], other[1];
                squares = roots = 0;
                subset_read<C, 1>(x, tile + point * D, column);
                subset_two_nearest<C, K, THREADS>(label, other, x, held, own_rows, tile + point * D, args,
                                                  run);
                add(x[0], label[0], other[0], point);
                if (has_values) add_value(label[0], point);
                square += (double)squares;
                root += (double)roots;
            }
        }
        __syncthreads(); // the next span overwrites the tiles
        if (at >= args.count) continue;
        const int per_cluster = number::COUNT + (has_values ? KM_SUBSET_VALUES : 0);
        double *out = (double *)args.partial + index * (K * per_cluster + 2) * args.count + at;
#pragma unroll 1
        for (int j = 0; j < K; j++) {
            km_real sum[number::COUNT];
            sums::load(sum, own_sums, j);
#pragma unroll
            for (int i = 0; i < number::COUNT; i++, out += args.count) *out = (double)sum[i];
            if (!has_values) continue;
            out[0] = values[j].value[t];
            out[args.count] = values[j].value2[t];
            out += KM_SUBSET_VALUES * args.count;
        }
        out[0] = root;
        out[args.count] = square;
    }
}
