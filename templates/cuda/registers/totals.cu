// SPDX-License-Identifier: MIT
//@ if weighted
// The largest weight. Once, when points are loaded.
extern "C" __global__ void __launch_bounds__(256) km_weigh_points(const __grid_constant__ km_pass_args args) {
    double most = 0;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < args.n; i += 256ll * GRID)
        most = fmax(most, (double)((const km_real *)args.weights)[i]);
    // Doubles that are not negative are in the order of their bits.
    atomicMax(&km_units_in(args).weight_most, (unsigned long long)__double_as_longlong(most));
}

//@ end
// The power of two above a number.
static __device__ __forceinline__ int km_exponent(double number) {
    int exponent;
    frexp(number, &exponent);
    return exponent;
}

static __device__ __forceinline__ void km_find_units(km_units &units, const km_pass_args &args) {
    double most = 1;
    const double points =
        (double)((args.n + SPAN_POINTS - 1) / SPAN_POINTS * SPAN_POINTS); // with padding, at most
    for (int i = 0; i < 2 * D; i++) most = fmax(most, fabs(args.box[i]));
    //@ if weighted
    const double weight = __longlong_as_double((long long)units.weight_most);
    const int exponent = km_exponent(most) + km_exponent(points) + km_exponent(weight);
    //@ else
    const int exponent = km_exponent(most) + km_exponent(points);
    //@ end
    units.per_one = ldexp(1.0, 62 - exponent);
    units.unit = ldexp(1.0, exponent - 62);
}

// The sums over all points, a column for each feature, and the units. Once, when points are loaded.
extern "C" __global__ void __launch_bounds__(256) km_sum_points(const __grid_constant__ km_pass_args args) {
    constexpr int ACROSS = D < 256 ? D : 256, DOWN = 256 / ACROSS; // features and points at a time
    constexpr int LENGTH = 4096;                                   // points that become integers together
    __shared__ km_sum sums[256];
    km_units units = km_units_in(args);
    km_find_units(units, args);
    const int down = threadIdx.x / ACROSS;
    for (int f = threadIdx.x % ACROSS; f < (D + ACROSS - 1) / ACROSS * ACROSS; f += ACROSS) {
        km_sum all = {};
        for (long long first = blockIdx.x * (long long)LENGTH; f < D && down < DOWN && first < args.n;
             first += (long long)GRID * LENGTH) {
            const long long end = first + LENGTH < args.n ? first + LENGTH : args.n;
            double sum = 0;
            for (long long point = first + down; point < end; point += DOWN) {
                const double x = ((const km_real *)args.points)[point * D + f];
                //@ if weighted
                sum = fma(x, (double)((const km_real *)args.weights)[point], sum);
                //@ else
                sum += x;
                //@ end
            }
            km_sum_add(all, km_sum_of(sum, units.per_one));
        }
        __syncthreads();
        sums[threadIdx.x] = all;
        __syncthreads();
        for (int i = 1; down == 0 && i < DOWN; i++) km_sum_add(all, sums[i * ACROSS + threadIdx.x]);
        if (down == 0 && f < D) km_column(args, ALL_POINTS + f)[blockIdx.x] = all;
    }
    if (blockIdx.x == 0 && blockIdx.y == 0 && threadIdx.x == 0) {
        km_units_in(args).per_one = units.per_one;
        km_units_in(args).unit = units.unit;
    }
}

// A sum as a double. What is above a high unit in the low number is carried first: one sum has one value.
static __device__ __forceinline__ double km_sum_value(const km_sum &sum, const km_units &units) {
    const long long high = sum.high + (sum.low >> 32), low = sum.low & 0xffffffffll;
    return fma((double)low, 0x1p-32, (double)high) * units.unit;
}

// Adds the columns of one slot over the blocks, and writes its totals. The pivot's are the sums over all points
// less those of the other clusters.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int k_index = blockIdx.x, k = km_ks[k_index], warp = threadIdx.x / 32, lane = threadIdx.x % 32;
    const bool idle = args.control->stop || !args.active[blockIdx.y * KS + k_index];
    km_table *table = km_table_of(args.workspace, args.constants, blockIdx.y);
    const int pivot = table->pivots[k_index];
    const km_units units = km_units_in(args);
    __shared__ km_sum sums[K_MAX * CLUSTER_SUMS + D];
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
        const km_sum *column = km_column(args, c < own ? km_columns[k_index] + c : ALL_POINTS + c - own);
        km_sum sum = {};
        KM_UNROLL_FOR (int block = lane; block < GRID; block += 32) km_sum_add(sum, column[block]);
        for (int width = 16; width > 0; width /= 2) {
            sum.high += __shfl_xor_sync(0xffffffff, sum.high, width);
            sum.low += __shfl_xor_sync(0xffffffff, sum.low, width);
        }
        if (lane == 0) sums[c] = sum;
    }
    __syncthreads();
    if (idle) return; // asked this late, as nothing before waits for it
    //@ if not weighted
    if (threadIdx.x == 0 && padding > 0) {
        int nearest = 0; // the centroid nearest to zero; the pivot where all scores are below 0
        for (int j = 1; j < k - 1; j++) nearest = at_zero[j] > at_zero[nearest] ? j : nearest;
        if (k > 1 && at_zero[nearest] >= 0)
            sums[nearest * CLUSTER_SUMS + $weight_at].high -= km_sum_of((double)padding, units.per_one).high;
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
            totals[i] = km_sum_value(sums[(j - (j > pivot)) * CLUSTER_SUMS + $at_f], units);
            continue;
        }
        //@ if weighted
        km_sum weight = sums[(k - 1) * CLUSTER_SUMS];
        //@ else
        km_sum weight = km_sum_of((double)args.n, units.per_one);
        for (int other = 0; other < k - 1; other++)
            weight.high -= sums[other * CLUSTER_SUMS + $weight_at].high;
        //@ end
        km_sum rest = f < D ? sums[own + f] : weight;
        for (int other = 0; f < D && other < k - 1; other++) {
            rest.high -= sums[other * CLUSTER_SUMS + $at_f].high;
            rest.low -= sums[other * CLUSTER_SUMS + $at_f].low;
        }
        // An empty cluster has no sum, whatever rounding left.
        totals[i] = km_sum_value(weight, units) > 0 ? km_sum_value(rest, units) : 0;
    }
}
