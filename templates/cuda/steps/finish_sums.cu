// SPDX-License-Identifier: MIT
// What km_assign wrote of a point; its label is -1 - lane where there is no point.
struct finish_assigned {
    int label;
    double weight, square, distance, margin;
};

__device__ __forceinline__ finish_assigned finish_load(const km_assign_args &args, const double *weights,
                                                       int model, long long at, long long end) {
    finish_assigned point = {-1 - (int)threadIdx.x, 0.0, 0.0, 0.0, 0.0};
    if (at < end) {
        const long long from = model * args.count + at;
        point.label = args.labels[from];
        point.weight = km_weight(weights, args.first + at);
        point.square = args.nearest[from];
        point.distance = args.distance ? args.distance[from] : __dsqrt_rn(point.square);
        point.margin = args.margin[from];
    }
    return point;
}

// What the 32 current points add to their clusters; in shared memory.
struct finish_tile {
    double weight[32], sse[32], distance[32], margin[32];
};

__device__ __forceinline__ void finish_write_tile(finish_tile *tile, const finish_assigned &point) {
    const int lane = threadIdx.x;
    tile->weight[lane] = point.weight;
    tile->sse[lane] = __dmul_rn(point.weight, point.square);
    tile->distance[lane] = __dmul_rn(point.weight, point.distance);
    tile->margin[lane] = __dmul_rn(point.weight, point.margin);
}

// One warp a (piece, model): partial[piece][row of the model + j][KM_FINISH_SUMS], a piece of points_each points. Of
// the 32 current points, the first lane of each label adds all points with that label, in index order: no two lanes
// write to a row. The rows are in dynamic shared memory where they fit, else in device memory.
extern "C" __global__ void __launch_bounds__(32)
    km_finish_chunks(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                     long long rows_count, long long points_each, int in_shared) {
    extern __shared__ double finish_memory[];
    __shared__ finish_tile tile;
    const int lane = threadIdx.x, model = blockIdx.y, k = args.ks[model];
    const long long first = blockIdx.x * points_each;
    const long long end = first + points_each < args.count ? first + points_each : args.count;
    double *out = partial + (blockIdx.x * rows_count + args.rows[model]) * KM_FINISH_SUMS;
    double *sums = in_shared ? finish_memory : out;
    for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) sums[at] = 0.0;
    finish_assigned next = finish_load(args, weights, model, first + lane, end);
    finish_assigned after = finish_load(args, weights, model, first + 32 + lane, end);
    for (long long base = first; base < end; base += 32) {
        const int label = next.label;
        finish_write_tile(&tile, next);
        next = after;
        after = finish_load(args, weights, model, base + 64 + lane, end);
        __syncwarp();
        unsigned same = __match_any_sync(0xffffffffu, label);
        if (label >= 0 && (same & ((1u << lane) - 1u)) == 0) {
            double *row = sums + (long long)label * KM_FINISH_SUMS;
            double weight = row[KM_FINISH_WEIGHT], sse = row[KM_FINISH_SSE];
            double distance = row[KM_FINISH_DISTANCE], margin = row[KM_FINISH_MARGIN];
            row[KM_FINISH_COUNT] += __popc(same);
            for (; same; same &= same - 1) {
                const int i = __ffs(same) - 1;
                weight = __dadd_rn(weight, tile.weight[i]);
                sse = __dadd_rn(sse, tile.sse[i]);
                distance = __dadd_rn(distance, tile.distance[i]);
                margin = __dadd_rn(margin, tile.margin[i]);
            }
            row[KM_FINISH_WEIGHT] = weight;
            row[KM_FINISH_SSE] = sse;
            row[KM_FINISH_DISTANCE] = distance;
            row[KM_FINISH_MARGIN] = margin;
        }
        __syncwarp();
    }
    if (in_shared)
        for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) out[at] = sums[at];
}

// Adds chunks to the totals in index order: totals[numbers] += partial[0][numbers], partial[1][numbers], ...
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_finish_add(const double *partial, long long chunks, long long numbers, double *totals) {
    const long long column = blockIdx.x * (long long)KM_REDUCED_NUMBERS, at = column + threadIdx.x;
    const bool own = threadIdx.x < KM_REDUCED_NUMBERS && at < numbers;
    const double sum =
        step_reduce_chunks(own ? totals[at] : 0.0, partial, chunks, numbers, column, numbers, 0);
    if (own) totals[at] = sum;
}
