// SPDX-License-Identifier: MIT
// Seeding: greedy k-means++ as runtime/seed.h states it. km_seed_draw decides the pick before and draws candidates, as
// for dense points. km_seed_columns then makes the last pick and the candidates columns of a chain's table; there are
// SEED_COLUMNS. km_seed_pass reads the points, updates the chain's distances, and adds the inertia that each candidate
// would leave.
constexpr int SEED_COLUMNS = 16; // column 0 is the last pick, column 1 + c candidate c
constexpr int SEED_POINTS = KM_SUBCHUNK_POINTS / KM_THREADS; // of a thread of km_seed_draw
static_assert(KM_CANDIDATES_MAX < SEED_COLUMNS, "a column for each candidate");

// A squared distance from |x|^2, x.p and |p|^2; 0 where it is no more than rounding, so that a point on a pick is not
// drawn.
__device__ __forceinline__ double seed_square(double square, double dot, double other) {
    const double both = __dadd_rn(square, other), away = __fma_rn(-2.0, dot, both);
    return away > 3.552713678800501e-15 * both ? away : 0.0; // 2^-48
}

// The same of two points, by a thread.
static __device__ km_real seed_distance(const km_sparse_table &points, long long i, long long other) {
    const km_row a = km_row_of(points, i), b = km_row_of(points, other);
    const km_real *values = (const km_real *)points.values;
    const km_index *indices = (const km_index *)points.indices;
    double dot = 0.0, square = 0.0, other_square = 0.0;
    unsigned at = 0;
    for (unsigned t = 0; t < a.count; t++) {
        const double x = values[a.begin + t];
        const unsigned f = indices[a.begin + t];
        for (; at < b.count && indices[b.begin + at] < f; at++) {
            const double y = values[b.begin + at];
            other_square = __fma_rn(y, y, other_square);
        }
        if (at < b.count && indices[b.begin + at] == f) dot = __fma_rn(x, (double)values[b.begin + at], dot);
        square = __fma_rn(x, x, square);
    }
    for (; at < b.count; at++) {
        const double y = values[b.begin + at];
        other_square = __fma_rn(y, y, other_square);
    }
    return (km_real)seed_square(square, dot, other_square);
}

//@ include cuda/steps/seed_search.cu

// The weight of a point in the draw of `pick`, from the pick before and the distances to earlier ones.
__device__ __forceinline__ double seed_value(const km_seed_args *args, const km_real *nearest, long long i,
                                             long long pick, long long last) {
    const double weight = km_weight(args->weights, i);
    if (pick == 0) return weight;
    if (pick > 1 && nearest[i] == (km_real)0) return 0.0;
    km_real square = seed_distance(*(const km_sparse_table *)args->points, i, last);
    if (pick > 1) square = nearest[i] < square ? nearest[i] : square;
    return __dmul_rn(weight, square);
}

// The same of a thread's points; 0 behind the last point.
__device__ __forceinline__ void seed_values(double *values, const km_seed_args *args, const km_real *nearest,
                                            long long first, long long pick, long long last,
                                            const unsigned short *, int) {
#pragma unroll
    for (int p = 0; p < SEED_POINTS; p++)
        values[p] = first + p < args->n ? seed_value(args, nearest, first + p, pick, last) : 0.0;
}

//@ include cuda/steps/seed_draw.cu

// The point of a column in the pass of `pick`; -1: there is none. candidates: of that pick.
__device__ __forceinline__ long long seed_point_of(const km_seed_args &args, int chain, int column,
                                                   long long pick, int candidates) {
    if (pick < 0 || column > candidates) return -1;
    if (column == 0) return pick > 0 ? args.picks[chain * args.picks_count + pick - 1] : -1;
    return args.candidates[(pick % 2 * args.chains + chain) * KM_CANDIDATES_MAX + column - 1];
}

// Block (chain, column): takes the column's point of the pass before out of the table, and puts in that of this one.
// tables: of each chain SEED_COLUMNS numbers for each feature, then the points' squared norms; zeros in the beginning.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_seed_columns(const __grid_constant__ km_seed_args args, long long pick, int candidates_before,
                    int candidates, double *tables) {
    const km_sparse_table &points = *(const km_sparse_table *)args.points;
    const int chain = blockIdx.x, column = blockIdx.y;
    double *table = tables + chain * (D + 1ll) * SEED_COLUMNS + column;
    const long long before = seed_point_of(args, chain, column, pick - 1, candidates_before),
                    now = seed_point_of(args, chain, column, pick, candidates);
    if (before >= 0) {
        const km_row row = km_row_of(points, before);
        for (unsigned i = threadIdx.x; i < row.count; i += KM_THREADS)
            table[((const km_index *)points.indices)[row.begin + i] * (long long)SEED_COLUMNS] = 0.0;
    }
    __syncthreads();
    if (now < 0) return;
    const km_row row = km_row_of(points, now);
    for (unsigned i = threadIdx.x; i < row.count; i += KM_THREADS)
        table[((const km_index *)points.indices)[row.begin + i] * (long long)SEED_COLUMNS] =
            (double)((const km_real *)points.values)[row.begin + i];
    if (threadIdx.x != 0) return;
    double square = 0.0;
    for (unsigned i = 0; i < row.count; i++) {
        const double x = ((const km_real *)points.values)[row.begin + i];
        square = __fma_rn(x, x, square);
    }
    table[D * (long long)SEED_COLUMNS] = square;
}

// Block (subchunk, chain): half a warp a point, a lane for each column.
extern "C" __global__ void __launch_bounds__(KM_THREADS, 4)
    km_seed_pass(const __grid_constant__ km_seed_args args, long long pick, int candidates,
                 const double *tables) {
    constexpr int AT_ONCE = KM_THREADS / SEED_COLUMNS; // points
    __shared__ double sums[AT_ONCE][SEED_COLUMNS];
    const km_sparse_table &points = *(const km_sparse_table *)args.points;
    const int chain = blockIdx.y, column = threadIdx.x % SEED_COLUMNS, part = threadIdx.x / SEED_COLUMNS;
    const double *table = tables + chain * (D + 1ll) * SEED_COLUMNS + column;
    const double other = table[D * (long long)SEED_COLUMNS];
    km_real *nearest = (km_real *)args.nearest + chain * args.n;
    const long long first = blockIdx.x * (long long)KM_SUBCHUNK_POINTS;
    double sum = 0.0;
    for (int p = part; p < KM_SUBCHUNK_POINTS; p += AT_ONCE) {
        const long long i = first + p;
        const bool there = i < args.n;
        const km_row row = there ? km_row_of(points, i) : km_row{0, 0};
        const sparse_dot found = sparse_dot_of(points, row, table, SEED_COLUMNS);
        const km_real square = (km_real)seed_square(found.square, found.dot, other);
        km_real best = __shfl_sync(0xffffffffu, square, 0, SEED_COLUMNS);
        if (pick == 0) best = (km_real)(sizeof(km_real) == 4 ? 3.4028234e38 : 1.7976931348623157e308);
        if (pick > 1 && there) best = fmin(best, nearest[i]);
        __syncwarp();
        if (!there) continue;
        if (column == 0 && pick > 0) nearest[i] = best;
        sum = __dadd_rn(sum, __dmul_rn(km_weight(args.weights, i), (double)fmin(best, square)));
    }
    sums[part][column] = sum;
    __syncthreads();
    if (threadIdx.x >= candidates) return;
    sum = 0.0;
    for (int g = 0; g < AT_ONCE; g++) sum = __dadd_rn(sum, sums[g][1 + threadIdx.x]);
    args.subchunk_sums[(chain * (long long)KM_CANDIDATES_MAX + threadIdx.x) * args.subchunks + blockIdx.x] =
        sum;
}
