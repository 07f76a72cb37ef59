// Of the text of {features: 18, clusters: 8, target: "cuda:sm_90"} subsets=3: Head
// "..." stands for what a template or an earlier part shows.

// ==== Subsets of columns ===================================================================================
// Many small runs at once, each on another subset of the columns of one table. Each size of subset and number of
// clusters has kernels of its own. There is no pass over all columns here, nor its steps: a plan's text has these.
typedef float km_real;

enum {
    D = 18,                     // columns of the table
    WEIGHTED = 0,               // points carry weights
    SUBSET_TILE_POINTS = 64,    // points that a block reads at a time
    SUBSET_REGISTER_BYTES = 512 // centroids of a run up to so many bytes are in registers
};

// ... 7 definitions

#endif
#define KM_BOTH __device__ __forceinline__
// A slot between two passes: what is known of it, and what becomes of it. Host and device compile this.
#ifndef KM_SLOT_H
#define KM_SLOT_H

// ... 15 definitions

#endif
// What the kernels for subsets of columns are given: the contract with the host, as steps.h is of the other steps.
#ifndef KM_SUBSETS_CUDA_H
#define KM_SUBSETS_CUDA_H

// ... 4 definitions

// What becomes of the runs after a pass.
typedef struct km_subsets_update_args {
    const int *active;
    long long count;
    int c, k;
    const double *totals; // [K][C + 1][count]
    void *table;          // as above
    long long stride;
    double *weights; // [K][stride]
    const unsigned char
        *given_up;                          // [K][stride]: clusters for which relocation found no point: they may stay empty
    km_slot_state *states;                  // [stride]
    const double *shift_max, *total_square; // [stride]
    long long max_iter;
} km_subsets_update_args;

// ... 1 definition

#endif
// A lane has a run: its columns and centroids, in registers where these hold them, and its sums in shared memory.
// Points come in tiles of whole rows, which all runs of a block read: lanes read a row at a time, each its own
// columns, which lie in different banks or are the same. So a value that is read from memory once serves every run
// of the block.
//
// A label is that of the largest score x . c - |c|^2 / 2, which is -|c|^2 / 2 first and then a multiply-add for
// each column, in their order: as in the CPU's kernels. Sums are of x - c, about the centroid of the label. These
// are short once centroids are near the means, so that a span of points in the points' own type loses no digits of
// a mean; points that all are the same add up to exactly 0. Sums of spans are added as doubles, in their order
// (runs.cu).

// ... 20 definitions

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
                if (!subset_is_sure<C, K>(point))
                    point = subset_exact<C, K>(row, args.columns + run, table, args.stride);
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

// ... 10 definitions

// Subsets of 3 columns, K = 8.
extern "C" __global__ void __launch_bounds__(128, 4)
    km_subsets_pass_3_8(const __grid_constant__ km_subsets_args args) {
    subset_pass<3, 8, 128>(args);
}
extern "C" __global__ void __launch_bounds__(128, 1)
    km_subsets_finish_3_8(const __grid_constant__ km_subsets_args args) {
    subset_finish<3, 8, 128>(args);
}
static_assert(42016 >=
                      2 * sizeof(subset_tile) + 2 * 8 * subset_rows<3 + 1, 128>::ROW_BYTES &&
                  25760 >=
                      2 * sizeof(subset_tile) + 8 * sizeof(subset_sums<128>) +
                          (1 ? 0 : 8) * subset_rows<3, 128>::ROW_BYTES,
              "as the generator counts");

extern "C" {
__device__ km_subsets_launch km_subsets_launches[] = {
    {"km_subsets_pass_3_8", "km_subsets_finish_3_8", 3, 8, 128, 42016,
     128, 25760},
};
__device__ int km_subsets_launches_count = sizeof km_subsets_launches / sizeof *km_subsets_launches;
}
