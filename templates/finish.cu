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
extern "C" __global__ void __launch_bounds__(KM_THREADS) km_assign(const __grid_constant__ km_assign_args args) {
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

// One warp a (block, member): partial[block][row of the member + j][KM_FINISH_SUMS]. The 32 points in hand are
// grouped by label; the first lane of each label adds them in index order, so no two lanes touch one row. The rows
// of small K are in dynamic shared memory, others are added in place.
extern "C" __global__ void __launch_bounds__(32)
    km_finish_blocks(const __grid_constant__ km_assign_args args, const double *weights, double *partial,
                     long long rows_count, int in_shared) {
    extern __shared__ double finish_memory[];
    const int lane = threadIdx.x, member = blockIdx.y, k = args.ks[member];
    const long long first = blockIdx.x * (long long)KM_BLOCK_POINTS;
    const long long left = args.count - first;
    const int count = (int)(left < KM_BLOCK_POINTS ? left : KM_BLOCK_POINTS);
    const int *labels = args.labels + member * args.count + first;
    const double *nearest = args.nearest + member * args.count + first;
    const double *margin = args.margin + member * args.count + first;
    double *out = partial + (blockIdx.x * rows_count + args.rows[member]) * KM_FINISH_SUMS;
    double *sums = in_shared ? finish_memory : out;
    for (int at = lane; at < k * KM_FINISH_SUMS; at += 32) sums[at] = 0.0;
    __syncwarp();
    for (int base = 0; base < count; base += 32) {
        const int label = base + lane < count ? labels[base + lane] : -1 - lane; // none: alone, and nobody's
        unsigned same = __match_any_sync(0xffffffffu, label);
        if (label >= 0 && (same & ((1u << lane) - 1u)) == 0) {
            double *row = sums + (long long)label * KM_FINISH_SUMS;
            double points = row[KM_FINISH_COUNT], weight = row[KM_FINISH_WEIGHT], sse = row[KM_FINISH_SSE];
            double distance = row[KM_FINISH_DISTANCE], margins = row[KM_FINISH_MARGIN];
            for (; same; same &= same - 1) {
                const int i = base + __ffs(same) - 1;
                const double w = km_weight(weights, args.first + first + i), square = nearest[i];
                points += 1.0;
                weight = __dadd_rn(weight, w);
                sse = __dadd_rn(sse, __dmul_rn(w, square));
                distance = __dadd_rn(distance, __dmul_rn(w, __dsqrt_rn(square)));
                margins = __dadd_rn(margins, __dmul_rn(w, margin[i]));
            }
            row[KM_FINISH_COUNT] = points;
            row[KM_FINISH_WEIGHT] = weight;
            row[KM_FINISH_SSE] = sse;
            row[KM_FINISH_DISTANCE] = distance;
            row[KM_FINISH_MARGIN] = margins;
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
