// SPDX-License-Identifier: MIT
// The sums over all points, a column for each feature. Once, when points are loaded.
extern "C" __global__ void __launch_bounds__(256) km_sum_points(const __grid_constant__ km_pass_args args) {
    constexpr int ACROSS = D < 256 ? D : 256, DOWN = 256 / ACROSS; // features and points at a time
    __shared__ double sums[256];
    const int down = threadIdx.x / ACROSS;
    for (int f = threadIdx.x % ACROSS; f < (D + ACROSS - 1) / ACROSS * ACROSS; f += ACROSS) {
        double sum = 0;
        for (long long point = blockIdx.x * DOWN + down; f < D && down < DOWN && point < args.n;
             point += GRID * DOWN) {
            const double x = ((const km_real *)args.points)[point * D + f];
            //@ if weighted
            sum = fma(x, (double)((const km_real *)args.weights)[point], sum);
            //@ else
            sum += x;
            //@ end
        }
        __syncthreads();
        sums[threadIdx.x] = sum;
        __syncthreads();
        for (int i = 1; down == 0 && i < DOWN; i++) sum += sums[i * ACROSS + threadIdx.x];
        if (down == 0 && f < D) km_column(args, ALL_POINTS + f)[blockIdx.x] = sum;
    }
}

// Adds the columns of one slot over the blocks, and writes its totals. The pivot's are the sums over all points
// less those of the other clusters.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int k_index = blockIdx.x, k = km_ks[k_index], warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool idle = args.control->stop || !args.active[blockIdx.y * KS + k_index];
    km_table *table = km_table_of(args.workspace, args.constants, blockIdx.y);
    const int pivot = table->pivots[k_index];
    __shared__ double sums[K_MAX * CLUSTER_SUMS + D];
    //@ if weighted
    const int own = (k - 1) * CLUSTER_SUMS +
                    $lanes_per_point; // columns of this K; those of the sums over all points follow
    //@ else
    const int own = (k - 1) * CLUSTER_SUMS; // columns of this K; those of the sums over all points follow
    //@ end
    //@ if not weighted
    // The last tile is padded with points at zero, whose scores are the constants.
    __shared__ km_real at_zero[K_MAX];
    const long long padding = (long long)km_tiles(args) * TILE - args.n;
    for (int j = threadIdx.x; j < k - 1; j += REDUCE)
        at_zero[j] = km_coefficients_of(table, k_index)[$coefficients_j].constant;
    //@ end
    for (int c = warp; c < own + D; c += REDUCE / 32) {
        const double *column = km_column(args, c < own ? km_columns[k_index] + c : ALL_POINTS + c - own);
        double sum = 0;
        KM_UNROLL_FOR (int block = lane; block < GRID; block += 32) sum += column[block];
        for (int width = 16; width > 0; width /= 2) sum += __shfl_xor_sync(0xffffffff, sum, width);
        if (lane == 0) sums[c] = sum;
    }
    __syncthreads();
    if (idle) return; // asked this late, as nothing before waits for it
    //@ if not weighted
    if (threadIdx.x == 0 && padding > 0) {
        int nearest = 0; // the centroid nearest to zero; the pivot where all scores are below 0
        for (int j = 1; j < k - 1; j++) nearest = at_zero[j] > at_zero[nearest] ? j : nearest;
        if (k > 1 && at_zero[nearest] >= 0) sums[nearest * CLUSTER_SUMS + $weight_at] -= (double)padding;
    }
    __syncthreads();
    //@ end
    double *totals = args.totals + ((long long)blockIdx.y * S + km_offsets[k_index]) * (D + 1);
    for (int i = threadIdx.x; i < k * (D + 1); i += REDUCE) {
        const int j = i / (D + 1), f = i % (D + 1);
        //@ if lanes_share_point
        const int at = f < D ? f % LANE_D * LANES_PER_POINT + f / LANE_D
                             : LANE_D * LANES_PER_POINT; // index in the sums of a cluster
        //@ end
        if (j != pivot) {
            totals[i] = sums[(j - (j > pivot)) * CLUSTER_SUMS + $at_f];
            continue;
        }
        //@ if weighted
        const double weight = sums[(k - 1) * CLUSTER_SUMS];
        //@ else
        double weight = (double)args.n;
        for (int other = 0; other < k - 1; other++) weight -= sums[other * CLUSTER_SUMS + $weight_at];
        //@ end
        double rest = f < D ? sums[own + f] : weight;
        for (int other = 0; f < D && other < k - 1; other++) rest -= sums[other * CLUSTER_SUMS + $at_f];
        totals[i] = weight > 0 ? rest : 0; // An empty cluster has no sum, whatever rounding left.
    }
}
