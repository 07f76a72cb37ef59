// SPDX-License-Identifier: MIT
// Silhouettes of few clusters. Labels come first: those that the finishing pass has kept, a byte each, or, where there
// was no memory for them, those that are found here. Whichever it is, what follows is the same text, so that a
// silhouette has the same bits. A squared distance is |x|^2 - 2 x . m + |m|^2, or the sum of the squares of
// differences, which takes nearly twice as long: the host says for each model whether products keep enough digits, for
// which clusters must lie far apart beside their distance from the origin. A point that loses too many all the same is
// resolved in double.

// What a mean squared distance to cluster j begins with, and the factors of a point's features.
struct __align__(16) silhouette_row {
    km_real at[D];    // -2 m_j; of differences m_j
    km_real constant; // |m_j|^2 + v_j; of differences v_j
};
static_assert(sizeof(silhouette_row) == KM_SILHOUETTE_ROW_BYTES(D, sizeof(km_real)), "as the engine knows");

// Points of a thread at a time: a row that is read serves all of them.
constexpr int SILHOUETTE_TOGETHER = D <= 4                       ? int((WEIGHTED ? 24 : 32) / sizeof(km_real))
                                    : D * sizeof(km_real) >= 128 ? 1
                                                                 : int(128 / (D * sizeof(km_real)));

//@ if weighted
typedef double silhouette_sum; // of the thread's points at a time
//@ else
typedef km_real silhouette_sum; // of the thread's points at a time
//@ end

// Sums and products are fused as this text says, and not as a compiler likes: kernels have the same bits.
__device__ __forceinline__ silhouette_sum silhouette_add(silhouette_sum sum, const double *weights,
                                                         long long i, km_real difference, km_real inverse) {
    //@ if weighted
    return __fma_rn(km_weight(weights, i), (double)fma(difference, inverse, (km_real)0), sum);
    //@ else
    return fma(difference, inverse, sum);
    //@ end
}

__device__ __forceinline__ km_real silhouette_nan() {
    return (km_real)__int_as_float(0x7fffffff);
}

__device__ __forceinline__ void silhouette_prepare(silhouette_row &row, const km_real *mean, double spread,
                                                   bool as_products) {
    double constant = spread;
    for (int f = 0; f < D; f++) {
        row.at[f] = as_products ? -2 * mean[f] : mean[f];
        if (as_products) constant = fma((double)mean[f], (double)mean[f], constant);
    }
    row.constant = (km_real)constant;
}

// Takes a cluster of which `label` is j.
template <bool AS_PRODUCTS>
__device__ __forceinline__ void
silhouette_take_row(km_real (&own)[SILHOUETTE_TOGETHER], km_real (&other)[SILHOUETTE_TOGETHER],
                    const int (&label)[SILHOUETTE_TOGETHER], const km_real (&x)[SILHOUETTE_TOGETHER][D],
                    const silhouette_row &row, int j) {
#pragma unroll
    for (int p = 0; p < SILHOUETTE_TOGETHER; p++) {
        km_real mean = row.constant;
#pragma unroll
        for (int f = 0; f < D; f++) {
            const km_real t = AS_PRODUCTS ? row.at[f] : x[p][f] - row.at[f];
            mean = fma(AS_PRODUCTS ? x[p][f] : t, t, mean);
        }
        if (label[p] == j)
            own[p] = mean;
        else
            other[p] = fmin(other[p], mean);
    }
}

// The mean squared distances of a thread's points to their own cluster and to the nearest other one.
template <bool AS_PRODUCTS>
__device__ __forceinline__ void
silhouette_by_label(km_real (&own)[SILHOUETTE_TOGETHER], km_real (&other)[SILHOUETTE_TOGETHER],
                    const int (&label)[SILHOUETTE_TOGETHER], const km_real (&x)[SILHOUETTE_TOGETHER][D],
                    const km_real (&square)[SILHOUETTE_TOGETHER], const silhouette_row *row, int k) {
#pragma unroll
    for (int p = 0; p < SILHOUETTE_TOGETHER; p++) {
        own[p] = 0;
        other[p] = (km_real)__int_as_float(0x7f800000);
    }
    if (k % 2) silhouette_take_row<AS_PRODUCTS>(own, other, label, x, *row++, 0);
#pragma unroll 1
    for (int j = k % 2; j < k; j += 2, row += 2) {
        silhouette_take_row<AS_PRODUCTS>(own, other, label, x, row[0], j);
        silhouette_take_row<AS_PRODUCTS>(own, other, label, x, row[1], j + 1);
    }
#pragma unroll
    for (int p = 0; AS_PRODUCTS && p < SILHOUETTE_TOGETHER; p++) {
        own[p] += square[p];
        other[p] += square[p];
    }
}

__device__ __forceinline__ km_real silhouette_inverse(km_real value) {
    //@ if float64
    return 1 / value;
    //@ else
    float inverse;
    asm("rcp.approx.ftz.f32 %0, %1;" : "=f"(inverse) : "f"(value));
    return inverse;
    //@ end
}

// Keeps a value in its register: a compiler would rather compute it anew for each model.
__device__ __forceinline__ void silhouette_hold(km_real &value) {
    //@ if float64
    asm volatile("" : "+d"(value));
    //@ else
    asm volatile("" : "+f"(value));
    //@ end
}

// The sum of a thread's silhouettes of the points that `open` has bits of, by distances in double. `labels`: of its
// points, a byte each.
static __device__ __noinline__ double silhouette_resolve(const km_silhouette_args &args,
                                                         const double *weights, int m, long long first,
                                                         unsigned open, unsigned long long labels) {
    const silhouette_terms<double> *terms = (const silhouette_terms<double> *)args.exact_terms + args.rows[m];
    const double *means = args.centroids + args.mean_rows[m] * D;
    double sum = 0.0;
#pragma unroll 1
    for (; open; open &= open - 1) {
        const int p = __ffs(open) - 1;
        const long long i = first + p * KM_THREADS;
        const km_real *x = (const km_real *)args.points + i * D;
        const int label = (int)(labels >> 8 * p & 0xff);
        sum = __fma_rn(km_weight(weights, i), silhouette_of_label(x, means, terms, args.ks[m], label), sum);
    }
    return sum;
}

// `labels`: of the thread's points from the first on, of which `left` are there; labels of some points in place of
// those that are not.
__device__ __forceinline__ void silhouette_read_labels(int (&label)[SILHOUETTE_TOGETHER],
                                                       const unsigned char *labels, int left) {
    if (left >= SILHOUETTE_TOGETHER * KM_THREADS) {
#pragma unroll
        for (int p = 0; p < SILHOUETTE_TOGETHER; p++) label[p] = labels[p * KM_THREADS];
        return;
    }
#pragma unroll
    for (int p = 0; p < SILHOUETTE_TOGETHER; p++) label[p] = labels[min(p * KM_THREADS, left - 1)];
}

// The same labels, found by the centroids of model m.
__device__ __forceinline__ void silhouette_find_labels(int (&label)[SILHOUETTE_TOGETHER],
                                                       const km_silhouette_args &args, int m,
                                                       const km_real *points, int left) {
    const long long row = args.rows[m];
    const int k = args.ks[m];
#pragma unroll
    for (int first = 0; first < SILHOUETTE_TOGETHER; first += FINISH_POINTS) {
        const km_real *x[FINISH_POINTS];
        km_real here[FINISH_POINTS][STEP_FEATURES];
        silhouette_point found[FINISH_POINTS];
#pragma unroll
        for (int p = 0; p < FINISH_POINTS; p++) {
            x[p] = points + min((first + p) * KM_THREADS, left - 1) * (long long)D;
            step_load(here[p], x[p], 0);
            found[p] = silhouette_far();
        }
        silhouette_search<SILHOUETTE_LABELS>(found, here, x, (const km_real *)args.table + row * D,
                                             (const silhouette_terms<km_real> *)args.terms + row, k);
#pragma unroll
        for (int p = 0; p < FINISH_POINTS && first + p < SILHOUETTE_TOGETHER; p++) {
            label[first + p] = found[p].label;
            //@ if not float64
            if (silhouette_is_open(found[p]))
                label[first + p] = silhouette_exact_label(x[p], args.centroids + row * D, k);
            //@ end
        }
    }
}

// A model, as all threads of a block need it.
struct silhouette_model {
    long long labels;        // where those of the block's points begin
    int k, row, as_products; // row: its first one of all
    km_real least, part;     // a mean squared distance of `least` and `part` of |x|^2 has digits enough
};

// One block works on KM_SILHOUETTE_POINTS points, as km_silhouette. `rows_count`: of all models.
template <bool HAS_LABELS>
__device__ __forceinline__ void silhouette_few(const km_silhouette_args &args, const double *weights,
                                               double *partial, int rows_count) {
    extern __shared__ __align__(16) char silhouette_memory[];
    __shared__ silhouette_model models[KM_SILHOUETTE_MODELS];
    silhouette_row *rows = (silhouette_row *)silhouette_memory;
    double *sums = (double *)(rows + rows_count);                    // [models][KM_THREADS]
    km_real *factors = (km_real *)(sums + args.models * KM_THREADS); // NaN: the silhouette is 0 by itself
    const long long first = blockIdx.x * (long long)KM_SILHOUETTE_POINTS;
    const int count =
        (int)(args.count - first < KM_SILHOUETTE_POINTS ? args.count - first : KM_SILHOUETTE_POINTS);
    const km_real *points = (const km_real *)args.points + first * D;
    if (threadIdx.x < args.models) {
        const int m = threadIdx.x;
        const km_real least = ((const km_real *)args.least)[m];
        models[m] = {HAS_LABELS ? args.labels_at[m] + first : 0,
                     args.ks[m],
                     (int)args.rows[m],
                     least >= 0,
                     fabs(least),
                     least >= 0 ? (km_real)KM_SILHOUETTE_KEPT(sizeof(km_real)) : (km_real)0};
    }
    __syncthreads();
    for (int row = threadIdx.x; row < rows_count; row += KM_THREADS) {
        const silhouette_terms<double> terms = ((const silhouette_terms<double> *)args.exact_terms)[row];
        int m = 0;
        while (m + 1 < args.models && args.rows[m + 1] <= row) m++;
        silhouette_prepare(rows[row],
                           (const km_real *)args.table + (args.mean_rows[m] + row - args.rows[m]) * D,
                           terms.spread, models[m].as_products);
        factors[row] = terms.factor > 0.0 ? (km_real)terms.factor : silhouette_nan();
    }
    for (int m = 0; m < args.models; m++) sums[m * KM_THREADS + threadIdx.x] = 0.0;
    __syncthreads();
#pragma unroll 1
    for (int base = threadIdx.x; base < count; base += SILHOUETTE_TOGETHER * KM_THREADS) {
        const int left = count - base;
        km_real x[SILHOUETTE_TOGETHER][D], square[SILHOUETTE_TOGETHER], largest = 0;
        int next[SILHOUETTE_TOGETHER]; // labels of the next model
        if (HAS_LABELS) silhouette_read_labels(next, args.labels + models[0].labels + base, left);
#pragma unroll
        for (int p = 0; p < SILHOUETTE_TOGETHER; p++) {
            step_load(x[p], points + (base + min(p * KM_THREADS, left - 1)) * (long long)D, 0);
            square[p] = 0;
#pragma unroll
            for (int f = 0; f < D; f++) square[p] = fma(x[p][f], x[p][f], square[p]);
            silhouette_hold(square[p]);
            largest = fmax(largest, square[p]);
        }
        silhouette_hold(largest);
#pragma unroll 1
        for (int m = 0; m < args.models; m++) {
            const silhouette_model model = models[m];
            km_real own[SILHOUETTE_TOGETHER], other[SILHOUETTE_TOGETHER];
            int label[SILHOUETTE_TOGETHER];
            if (HAS_LABELS) {
#pragma unroll
                for (int p = 0; p < SILHOUETTE_TOGETHER; p++) label[p] = next[p];
                if (m + 1 < args.models)
                    silhouette_read_labels(next, args.labels + models[m + 1].labels + base, left);
            } else {
                silhouette_find_labels(label, args, m, points + base * (long long)D, left);
            }
            if (model.as_products)
                silhouette_by_label<true>(own, other, label, x, square, rows + model.row, model.k);
            else
                silhouette_by_label<false>(own, other, label, x, square, rows + model.row, model.k);
            const km_real *own_factors = factors + model.row;
            silhouette_sum sum = 0;
            km_real smallest = (km_real)__int_as_float(0x7f800000);
#pragma unroll
            for (int p = 0; p < SILHOUETTE_TOGETHER; p++) {
                own[p] = fma(own[p], own_factors[label[p]], (km_real)0);
                const km_real larger = fmax(own[p], other[p]);
                smallest = fmin(smallest, larger);
                sum = silhouette_add(sum, weights, first + base + min(p * KM_THREADS, left - 1),
                                     other[p] - own[p], silhouette_inverse(larger));
            }
            double resolved = 0.0;
            // `sum` is NaN where a factor is.
            if (!(smallest >= fma(largest, model.part, model.least) && sum == sum &&
                  left >= SILHOUETTE_TOGETHER * KM_THREADS)) {
                unsigned open = 0;
                unsigned long long labels = 0;
                sum = 0;
#pragma unroll
                for (int p = 0; p < SILHOUETTE_TOGETHER; p++) {
                    const km_real larger = fmax(own[p], other[p]);
                    if (p * KM_THREADS >= left) continue;
                    if (larger >= fma(square[p], model.part, model.least) && own[p] == own[p])
                        sum = silhouette_add(sum, weights, first + base + p * KM_THREADS, other[p] - own[p],
                                             silhouette_inverse(larger));
                    else
                        open |= 1u << p;
                    labels |= (unsigned long long)label[p] << 8 * p;
                }
                resolved = silhouette_resolve(args, weights, m, first + base, open, labels);
            }
            sums[m * KM_THREADS + threadIdx.x] += resolved + sum;
        }
    }
    silhouette_write(partial, sums, args.models);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_silhouette_labelled(const __grid_constant__ km_silhouette_args args, const double *weights,
                           double *partial, int rows_count) {
    silhouette_few<true>(args, weights, partial, rows_count);
}

extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_silhouette_searched(const __grid_constant__ km_silhouette_args args, const double *weights,
                           double *partial, int rows_count) {
    silhouette_few<false>(args, weights, partial, rows_count);
}
