// SPDX-License-Identifier: MIT
// Tables of columns, and rows.
constexpr int KM_CHUNK_POINTS = KM_SUBCHUNK_POINTS * KM_SUBCHUNKS_PER_CHUNK;
static_assert(KM_CHUNK_POINTS == KM_SPARSE_CHUNK, "chunks are the same everywhere");

// Rows of centroids to columns: 32 features and 32 rows a block.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_columns(const double *rows, long long count, double *table) {
    __shared__ double square[32][33];
    const int x = threadIdx.x % 32;
    const long long first = blockIdx.x * 32ll, row = blockIdx.y * 32ll;
    for (int y = threadIdx.x / 32; y < 32; y += KM_THREADS / 32)
        if (row + y < count && first + x < D) square[y][x] = rows[(row + y) * D + first + x];
    __syncthreads();
    for (int y = threadIdx.x / 32; y < 32; y += KM_THREADS / 32)
        if (row + x < count && first + y < D) table[(first + y) * count + row + x] = square[x][y];
}

// Half the squared norms of columns, a thread each: over the features in their order, as on every backend.
extern "C" __global__ void __launch_bounds__(KM_THREADS) km_halves(double *table, long long count) {
    const long long column = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (column >= count) return;
    double square = 0.0;
#pragma unroll 8
    for (long long f = 0; f < D; f++) {
        const double c = table[f * count + column];
        square = __fma_rn(c, c, square);
    }
    table[D * (long long)count + column] = 0.5 * square;
}

// Some points as doubles with their zeros, a thread a value.
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_rows(const void *points, const long long *indices, long long count, double *out) {
    const km_sparse_table &table = *(const km_sparse_table *)points;
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (at >= count * D) return;
    const km_row row = km_row_of(table, indices[at / D]);
    const km_index *columns = (const km_index *)table.indices + row.begin;
    const unsigned f = (unsigned)(at % D);
    unsigned low = 0, high = row.count; // the first column that is not below f
    while (low < high) {
        const unsigned mid = (low + high) / 2;
        if (columns[mid] < f)
            low = mid + 1;
        else
            high = mid;
    }
    const bool found = low < row.count && columns[low] == f;
    out[at] = found ? (double)((const km_real *)table.values)[row.begin + low] : 0.0;
}

// A point and a column: x.c and |x|^2.
struct sparse_dot {
    double dot, square;
};

__device__ __forceinline__ sparse_dot sparse_dot_of(const km_sparse_table &points, const km_row &row,
                                                    const double *column, long long pitch) {
    const km_real *values = (const km_real *)points.values + row.begin;
    const km_index *indices = (const km_index *)points.indices + row.begin;
    sparse_dot sums = {0.0, 0.0};
#pragma unroll 4
    for (unsigned i = 0; i < row.count; i++) {
        const double x = values[i];
        sums.dot = __fma_rn(x, column[(long long)indices[i] * pitch], sums.dot);
        sums.square = __fma_rn(x, x, sums.square);
    }
    return sums;
}

// Lanes that share a point with so many columns.
__device__ __forceinline__ int sparse_lanes(int columns) {
    return columns <= 8 ? 8 : columns <= 16 ? 16 : 32;
}

// The squared distance of a point, from its score.
__device__ __forceinline__ double sparse_square(double square, double score) {
    return fmax(0.0, __dsub_rn(square, __dmul_rn(2.0, score)));
}
