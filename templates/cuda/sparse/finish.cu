// SPDX-License-Identifier: MIT
// Finish: km_assign writes each point's label and distances, bitwise those of every other backend; km_finish_chunks
// adds them chunk by chunk, in index order.

//@ include cuda/steps/finish_point.cu

// The two largest scores of a point.
struct sparse_nearest {
    double best, second;
    int label;
};

// Of all lanes that share a point: in each of them.
__device__ __forceinline__ sparse_nearest sparse_join(sparse_nearest found, int lanes) {
    for (int width = 1; width < lanes; width *= 2) {
        const double best = __shfl_xor_sync(0xffffffffu, found.best, width);
        const double second = __shfl_xor_sync(0xffffffffu, found.second, width);
        const int label = __shfl_xor_sync(0xffffffffu, found.label, width);
        found.second = fmax(fmax(found.second, second), fmin(found.best, best));
        if (best > found.best || (best == found.best && label < found.label)) found.label = label;
        found.best = fmax(found.best, best);
    }
    return found;
}

// A point with the k columns of a model from `table` on, by some lanes. *square becomes |x|^2.
__device__ __forceinline__ sparse_nearest sparse_search(double *square, const km_sparse_table &points,
                                                        const km_row &row, const double *table,
                                                        long long pitch, int k, int lanes) {
    const double none = __longlong_as_double((long long)0xfff0000000000000ull);
    sparse_nearest found = {none, none, 0x7fffffff};
    for (int j = threadIdx.x % lanes; j < k || j == (int)threadIdx.x % lanes; j += lanes) {
        const int column = j < k ? j : 0; // every lane gets |x|^2
        const sparse_dot sums = sparse_dot_of(points, row, table + column, pitch);
        *square = sums.square;
        if (j >= k) break;
        const double score = __dsub_rn(sums.dot, table[D * (long long)pitch + j]);
        found.second = fmax(found.second, fmin(found.best, score));
        if (score > found.best) found.label = j;
        found.best = fmax(found.best, score);
    }
    return sparse_join(found, lanes);
}

// Block (subchunk, model): labels and squared distances, and margins if args.margin is not NULL.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 4)
    km_assign(const __grid_constant__ km_assign_args args, const double *table, long long pitch) {
    const km_sparse_table &points = *(const km_sparse_table *)args.points;
    const int model = blockIdx.y, k = args.ks[model], lanes = sparse_lanes(k);
    for (int p = threadIdx.x / lanes; p < KM_SUBCHUNK_POINTS; p += KM_THREADS / lanes) {
        const long long i = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p, out = model * args.count + i;
        const bool there = i < args.count;
        const km_row row = there ? km_row_of(points, args.first + i) : km_row{0, 0};
        double square = 0.0;
        const sparse_nearest found =
            sparse_search(&square, points, row, table + args.rows[model], pitch, k, lanes);
        if (!there || threadIdx.x % lanes != 0) continue;
        const finish_point point = finish_of_squares(found.label, sparse_square(square, found.best),
                                                     sparse_square(square, found.second), k);
        args.labels[out] = point.label;
        args.nearest[out] = point.square;
        if (args.margin) args.margin[out] = point.margin;
        if (!args.distance) continue;
        args.distance[out] = point.distance;
        if (!args.mean_rows || args.mean_rows[model] < 0) continue;
        const double *mean = table + args.mean_rows[model] + point.label;
        const double dot = sparse_dot_of(points, row, mean, pitch).dot;
        args.distance[out] = __dsqrt_rn(sparse_square(square, __dsub_rn(dot, mean[D * (long long)pitch])));
    }
}

//@ include cuda/steps/finish_sums.cu

// As for dense points: a warp has a part's points, its lanes the nonzeros of one.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_label_sums(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                  long long points_each, int model) {
    constexpr int PARTS = KM_LABEL_PARTS(D);
    const km_sparse_table &points = *(const km_sparse_table *)args.points;
    const int part = threadIdx.x / 32, lane = threadIdx.x % 32;
    const long long first = blockIdx.x * points_each, numbers = args.ks[model] * (long long)D;
    const long long end = first + points_each < args.count ? first + points_each : args.count;
    double *out = partial + (blockIdx.x * (long long)PARTS + part) * numbers;
    if (part >= PARTS) return;
    for (long long at = lane; at < numbers; at += 32) out[at] = 0.0;
    for (long long i = first + part; i < end; i += PARTS) {
        const km_row row = km_row_of(points, args.first + i);
        const km_real *values = (const km_real *)points.values + row.begin;
        const km_index *columns = (const km_index *)points.indices + row.begin;
        const double weight = km_weight(weights, args.first + i);
        double *sums = out + args.labels[model * args.count + i] * (long long)D;
        __syncwarp();
        for (unsigned e = lane; e < row.count; e += 32) sums[columns[e]] += weight * (double)values[e];
    }
}
