// SPDX-License-Identifier: MIT
// Finish: labels, distances and sums of the models in one last pass, bitwise as on every other backend. Two kernels:
// km_assign finds each point's nearest and second-nearest centroid in double, in the difference form;
// km_finish_blocks adds the points of each fixed block in index order.

// Features and centroids worked on at a time.
constexpr int ASSIGN_CHUNK = D <= 16 ? int(D) : 8, ASSIGN_ROWS = 4;

// Squared distances of x to ASSIGN_ROWS centroids, features in index order; rows beyond `k` repeat the last.
__device__ __forceinline__ void assign_distances(double *square, const km_real *x, const double *centroids, int j,
                                                 int k) {
    const double *row[ASSIGN_ROWS];
#pragma unroll
    for (int r = 0; r < ASSIGN_ROWS; r++) {
        square[r] = 0.0;
        row[r] = centroids + (long long)(j + r < k ? j + r : k - 1) * D;
    }
    for (int f = 0; f < D; f += ASSIGN_CHUNK) {
        double here[ASSIGN_CHUNK];
#pragma unroll
        for (int g = 0; g < ASSIGN_CHUNK; g++) here[g] = f + g < D ? x[f + g] : (km_real)0;
#pragma unroll
        for (int r = 0; r < ASSIGN_ROWS; r++)
#pragma unroll
            for (int g = 0; g < ASSIGN_CHUNK; g++)
                if (f + g < D) {
                    const double t = __dsub_rn(here[g], __ldg(row[r] + f + g));
                    square[r] = __fma_rn(t, t, square[r]);
                }
    }
}

// Block (points, member).
extern "C" __global__ void __launch_bounds__(KM_THREADS, 2) km_assign(const __grid_constant__ km_assign_args args) {
    const int member = blockIdx.y, k = args.ks[member];
    const double *centroids = args.centroids + args.rows[member] * D;
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (at >= args.count) return;
    const km_real *x = (const km_real *)args.points + (args.first + at) * D;
    const double infinity = __longlong_as_double(0x7ff0000000000000ll);
    double nearest = infinity, second = infinity;
    int label = 0;
    for (int j = 0; j < k; j += ASSIGN_ROWS) {
        double square[ASSIGN_ROWS];
        assign_distances(square, x, centroids, j, k);
#pragma unroll
        for (int r = 0; r < ASSIGN_ROWS; r++) {
            if (j + r >= k) break;
            const bool nearer = square[r] < nearest;
            const double rest = nearer ? nearest : square[r];
            second = rest < second ? rest : second;
            nearest = nearer ? square[r] : nearest;
            label = nearer ? j + r : label;
        }
    }
    const long long out = member * args.count + at;
    args.labels[out] = label;
    args.nearest[out] = nearest;
    if (args.margin) {
        const double far = k > 1 ? __dsqrt_rn(second) : 0.0;
        args.margin[out] = far > 0.0 ? __ddiv_rn(__dsub_rn(far, __dsqrt_rn(nearest)), far) : 0.0;
    }
}

// The numbers that one point adds to its cluster, and its label; -1 - lane where there is no point.
struct finish_point {
    int label;
    double weight, sse, distance, margin;
};

__device__ __forceinline__ finish_point finish_load(const km_assign_args &args, const double *weights, int member,
                                                    long long at, long long end) {
    finish_point point = {-1 - (int)threadIdx.x, 0.0, 0.0, 0.0, 0.0};
    if (at < end) {
        const long long from = member * args.count + at;
        const double square = args.nearest[from];
        point.label = args.labels[from];
        point.weight = km_weight(weights, args.first + at);
        point.sse = __dmul_rn(point.weight, square);
        point.distance = __dmul_rn(point.weight, __dsqrt_rn(square));
        point.margin = __dmul_rn(point.weight, args.margin[from]);
    }
    return point;
}

// The sums of up to 32 x SETS clusters of one block, lane by lane in registers: every lane looks at every point, in
// index order, and adds those of its own clusters.
template <int SETS>
__device__ __forceinline__ void finish_by_lane(double *out, const km_assign_args &args, const double *weights,
                                               int member, int k, long long first, long long end) {
    __shared__ double values[32][4];
    __shared__ int labels[32];
    const int lane = threadIdx.x;
    double sums[SETS][KM_FINISH_SUMS] = {};
    finish_point next = finish_load(args, weights, member, first + lane, end);
    for (long long base = first; base < end; base += 32) {
        labels[lane] = next.label;
        values[lane][0] = next.weight;
        values[lane][1] = next.sse;
        values[lane][2] = next.distance;
        values[lane][3] = next.margin;
        __syncwarp();
        next = finish_load(args, weights, member, base + 32 + lane, end);
#pragma unroll
        for (int i = 0; i < 32; i++)
#pragma unroll
            for (int set = 0; set < SETS; set++)
                if (labels[i] == lane + 32 * set) {
                    sums[set][KM_FINISH_COUNT] += 1.0;
                    //@ if weighted
                    sums[set][KM_FINISH_WEIGHT] = __dadd_rn(sums[set][KM_FINISH_WEIGHT], values[i][0]);
                    //@ end
                    sums[set][KM_FINISH_SSE] = __dadd_rn(sums[set][KM_FINISH_SSE], values[i][1]);
                    sums[set][KM_FINISH_DISTANCE] = __dadd_rn(sums[set][KM_FINISH_DISTANCE], values[i][2]);
                    sums[set][KM_FINISH_MARGIN] = __dadd_rn(sums[set][KM_FINISH_MARGIN], values[i][3]);
                }
        __syncwarp();
    }
#pragma unroll
    for (int set = 0; set < SETS; set++) {
        //@ if not weighted
        sums[set][KM_FINISH_WEIGHT] = sums[set][KM_FINISH_COUNT]; // every point weighs 1
        //@ end
#pragma unroll
        for (int number = 0; number < KM_FINISH_SUMS; number++)
            if (lane + 32 * set < k) out[(lane + 32 * set) * KM_FINISH_SUMS + number] = sums[set][number];
    }
}

// One warp a (block, member): partial[block][row of the member + j][KM_FINISH_SUMS]. Many clusters: the 32 points in
// hand are grouped by label; the first lane of each label adds them in index order, so no two lanes touch one row. The
// rows are in dynamic shared memory where they fit, others are added in place.
extern "C" __global__ void __launch_bounds__(32)
    km_finish_blocks(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                     long long rows_count, int in_shared) {
    extern __shared__ double finish_memory[];
    __shared__ double values[4][32];
    const int lane = threadIdx.x, member = blockIdx.y, k = args.ks[member];
    const long long first = blockIdx.x * (long long)KM_BLOCK_POINTS;
    const long long end = first + KM_BLOCK_POINTS < args.count ? first + KM_BLOCK_POINTS : args.count;
    double *out = partial + (blockIdx.x * rows_count + args.rows[member]) * KM_FINISH_SUMS;
    if (k <= 32) {
        finish_by_lane<1>(out, args, weights, member, k, first, end);
        return;
    }
    if (k <= 64) {
        finish_by_lane<2>(out, args, weights, member, k, first, end);
        return;
    }
    double *sums = in_shared ? finish_memory : out;
    for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) sums[at] = 0.0;
    finish_point next = finish_load(args, weights, member, first + lane, end);
    for (long long base = first; base < end; base += 32) {
        const finish_point point = next;
        next = finish_load(args, weights, member, base + 32 + lane, end);
        values[0][lane] = point.weight;
        values[1][lane] = point.sse;
        values[2][lane] = point.distance;
        values[3][lane] = point.margin;
        __syncwarp();
        unsigned same = __match_any_sync(0xffffffffu, point.label);
        if (point.label >= 0 && (same & ((1u << lane) - 1u)) == 0) {
            double *row = sums + (long long)point.label * KM_FINISH_SUMS;
            double weight = row[KM_FINISH_WEIGHT], sse = row[KM_FINISH_SSE];
            double distance = row[KM_FINISH_DISTANCE], margin = row[KM_FINISH_MARGIN];
            row[KM_FINISH_COUNT] += __popc(same);
            for (; same; same &= same - 1) {
                const int i = __ffs(same) - 1;
                weight = __dadd_rn(weight, values[0][i]);
                sse = __dadd_rn(sse, values[1][i]);
                distance = __dadd_rn(distance, values[2][i]);
                margin = __dadd_rn(margin, values[3][i]);
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

// Adds blocks to the totals in index order: totals[numbers] += partial[0][numbers], partial[1][numbers], ...
extern "C" __global__ void __launch_bounds__(KM_THREADS)
    km_finish_add(const double *partial, long long blocks, long long numbers, double *totals) {
    const long long at = blockIdx.x * (long long)KM_THREADS + threadIdx.x;
    if (at >= numbers) return;
    double sum = totals[at];
#pragma unroll 8
    for (long long b = 0; b < blocks; b++) sum = __dadd_rn(sum, partial[b * numbers + at]);
    totals[at] = sum;
}
