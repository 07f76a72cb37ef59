// SPDX-License-Identifier: MIT
// Finish: labels, distances and sums of the models in one last pass. Labels are
//@ if many_features
// bitwise those of every other backend. km_finish_tiles does all of it; for more clusters than it takes, km_assign
// writes each point's label and distances, and km_finish_chunks adds them. Sums of pieces, or chunks, are added in
// index order.
//@ else
// bitwise those of every other backend. Few clusters: km_finish_few_clusters reads the points once for each model.
// Many: km_assign writes each point's label and distances, and km_finish_chunks adds them. Both add chunk by chunk,
// in index order.
//@ end
//@ if not float64
// Distances to all centroids are float, in the difference form: their relative error is at most (D + 2) 2^-24.
// Where the second-nearest centroid is not farther than the nearest by more than that, the point is ambiguous and
// resolved in double. Squared distances are added in double; distances and margins are float.
//@ end

// Nearest and second-nearest centroid of a point: squared distances in the plan's type.
struct finish_nearest {
    km_real nearest, second;
    int label;
};

// Finds the two nearest of the k rows of `table` for FINISH_POINTS points x[0], x[1], ... `here` are their
// features: all where a row is in registers.
__device__ __forceinline__ void finish_search(finish_nearest *found, km_real (*here)[STEP_FEATURES],
                                              const km_real *const *x, const km_real *table, int k) {
#pragma unroll
    for (int p = 0; p < FINISH_POINTS; p++) {
        found[p] = {(km_real)__int_as_float(0x7f800000), (km_real)__int_as_float(0x7f800000), 0};
        if (STEP_ROW_IN_REGISTERS) step_load(here[p], x[p], 0);
    }
#pragma unroll(STEP_ROW_IN_REGISTERS ? 4 : 1)
    for (int j = 0; j < k; j += FINISH_ROWS) {
        km_real square[FINISH_ROWS][FINISH_POINTS] = {};
        finish_add_squares(square, here, x, table, j, k);
#pragma unroll
        for (int r = 0; r < FINISH_ROWS; r++) {
            if (j + r >= k) break;
#pragma unroll
            for (int p = 0; p < FINISH_POINTS; p++) {
                found[p].second = fmin(found[p].second, fmax(found[p].nearest, square[r][p]));
                found[p].label = square[r][p] < found[p].nearest ? j + r : found[p].label;
                found[p].nearest = fmin(found[p].nearest, square[r][p]);
            }
        }
    }
}

//@ include cuda/steps/finish_point.cu

//@ if not float64
// Unrolled where `x` is in registers: every index must be a constant then.
template <typename Real>
__device__ __forceinline__ double finish_square(const km_real *x, const Real *centroid) {
    double square = 0.0;
#pragma unroll(STEP_ROW_IN_REGISTERS ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const double t = __dsub_rn(x[f], centroid[f]);
        square = __fma_rn(t, t, square);
    }
    return square;
}

// The squared distance to a row of `table`, which holds the same values as the centroids in double unless k is 1.
__device__ __forceinline__ double finish_square_of_row(const km_real *x, const km_real *row) {
    if (!STEP_ROW_IN_REGISTERS) return finish_square(x, row);
    km_real centroid[STEP_FEATURES]; // lanes read different rows: wide loads are best
    step_load(centroid, row, 0);
    return finish_square(x, centroid);
}

__device__ __forceinline__ float finish_root(float value) {
    float root;
    asm("sqrt.approx.f32 %0, %1;" : "=f"(root) : "f"(value));
    return root;
}

// The nearest centroid by distances in double.
__device__ __forceinline__ finish_point finish_exact(const km_real *x, const double *centroids, int k) {
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, second = infinity;
    int label = 0;
#pragma unroll 1
    for (int j = 0; j < k; j++) {
        const double square = finish_square(x, centroids + (long long)j * D);
        const bool nearer = square < nearest;
        second = nearer ? nearest : square < second ? square : second;
        nearest = nearer ? square : nearest;
        label = nearer ? j : label;
    }
    return finish_of_squares(label, nearest, second, k);
}

//@ end
// Distance to a row of means.
__device__ __forceinline__ km_real finish_distance(const km_real *x, const km_real *mean) {
    km_real square = 0;
#pragma unroll(STEP_ROW_IN_REGISTERS ? int(D) : 8)
    for (int f = 0; f < D; f++) {
        const km_real t = x[f] - mean[f];
        square = fma(t, t, square);
    }
    //@ if float64
    return __dsqrt_rn(square);
    //@ else
    return finish_root(square);
    //@ end
}

// The rows of a model's means; NULL: it has none.
__device__ __forceinline__ const km_real *finish_means(const km_assign_args &args, int model) {
    if (!args.mean_rows || args.mean_rows[model] < 0) return nullptr;
    return (const km_real *)args.means + args.mean_rows[model] * D;
}

// Decides the label of a point, from the two nearest; resolves it in double where it is ambiguous.
__device__ __forceinline__ finish_point finish_decide(const finish_nearest &found, const km_real *x,
                                                      const double *centroids, const km_real *table, int k) {
    //@ if float64
    return finish_of_squares(found.label, found.nearest, found.second, k);
    //@ else
    // Twice the bound, and what squares lose by underflow. Quotients of large squares may overflow. With k = 1
    // there is no second, and the centroid need not be a float: distances are double.
    const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    if (!(fma(found.nearest, apart, lost) < found.second && found.second < largest))
        return finish_exact(x, centroids, k);
    return {found.label, finish_square_of_row(x, table + (long long)found.label * D),
            finish_root(found.nearest), 1.0f - finish_root(__fdividef(found.nearest, found.second))};
    //@ end
}

// ==== Finishing: models
// Compiled apart: finish/models
//@ if many_features
//@ include cuda/steps/finish_tiles.cu
//@ else
//@ include cuda/steps/finish_few.cu
//@ end

// ==== Finishing: labels
// Compiled apart: finish/labels
// Block (subchunk, model): labels and squared distances; margins and distances where they are not NULL.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2)
    km_assign(const __grid_constant__ km_assign_args args) {
    const int model = blockIdx.y, k = args.ks[model];
    const double *centroids = args.centroids + args.rows[model] * D;
    const km_real *table = (const km_real *)args.table + args.rows[model] * D;
    const km_real *points = (const km_real *)args.points + args.first * D, *means = finish_means(args, model);
    for (int p = 0; p < KM_SUBCHUNK_POINTS; p += FINISH_POINTS * KM_THREADS) {
        const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS + p + threadIdx.x;
        const km_real *x[FINISH_POINTS];
        finish_nearest found[FINISH_POINTS];
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS;
            x[q] = points + (i < args.count ? i : 0) * D;
        }
        km_real here[FINISH_POINTS][STEP_FEATURES];
        finish_search(found, here, x, table, k);
#pragma unroll
        for (int q = 0; q < FINISH_POINTS; q++) {
            const long long i = first + q * KM_THREADS, out = model * args.count + i;
            if (i >= args.count) break;
            const finish_point point =
                finish_decide(found[q], STEP_ROW_IN_REGISTERS ? here[q] : x[q], centroids, table, k);
            args.labels[out] = point.label;
            args.nearest[out] = point.square;
            if (args.margin) args.margin[out] = point.margin;
            if (args.distance)
                args.distance[out] = means ? finish_distance(STEP_ROW_IN_REGISTERS ? here[q] : x[q],
                                                             means + (long long)point.label * D)
                                           : __dsqrt_rn(point.square);
        }
    }
}

//@ include cuda/steps/finish_sums.cu

// Sums of the points of each label, in double: partial[block][part][cluster][feature], of which a thread owns features.
// A block has points_each points.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_label_sums(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                  long long points_each, int model) {
    constexpr int PARTS = KM_LABEL_PARTS(D), WIDTH = D < KM_THREADS ? int(D) : int(KM_THREADS);
    const int part = threadIdx.x / WIDTH, k = args.ks[model];
    const long long first = blockIdx.x * points_each;
    const long long end = first + points_each < args.count ? first + points_each : args.count;
    const km_real *points = (const km_real *)args.points;
    double *out = partial + (blockIdx.x * (long long)PARTS + part) * k * D;
    if (part >= PARTS) return;
    for (int f = threadIdx.x % WIDTH; f < D; f += WIDTH) {
        for (int j = 0; j < k; j++) out[j * (long long)D + f] = 0.0;
        for (long long i = first + part; i < end; i += PARTS)
            out[args.labels[model * args.count + i] * (long long)D + f] +=
                km_weight(weights, args.first + i) * (double)points[(args.first + i) * D + f];
    }
}
