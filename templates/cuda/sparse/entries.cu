// SPDX-License-Identifier: MIT
// The load of the form expanded: nonzeros as a pass takes them.

// A nonzero of a point: the product with its weight, which its cluster's sum gets, as a multiple of the feature's unit.
__device__ __forceinline__ long long km_number_of(float x, double weight, double scale) {
    return __double2ll_rn((double)x * weight * scale);
}

__device__ __forceinline__ double km_weight_of(const km_pass_args &args, long long i) {
    //@ if weighted
    return ((const km_real *)args.weights)[i];
    //@ else
    return args.n > i ? 1.0 : 0.0;
    //@ end
}

// Load: the exponents of each feature's values, added up, and how many they are.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_sparse_exponents(const __grid_constant__ km_pass_args args) {
    __shared__ int sums[D], counts[D];
    const km_workspace workspace = km_workspace_of(args);
    const km_sparse_table &points = *(const km_sparse_table *)args.points;
    for (int f = threadIdx.x; f < D; f += 256) sums[f] = counts[f] = 0;
    __syncthreads();
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < args.n; i += gridDim.x * 256ll) {
        const km_row row = km_row_of(points, i);
        const double weight = km_weight_of(args, i);
        for (unsigned at = 0; at < row.count; at++) {
            const double value = ((const float *)points.values)[row.begin + at] * weight;
            const int f = ((const km_index *)points.indices)[row.begin + at];
            if (value == 0) continue;
            atomicAdd(&sums[f], max(-200, min(200, km_exponent_above(value))));
            atomicAdd(&counts[f], 1);
        }
    }
    __syncthreads();
    for (int f = threadIdx.x; f < D; f += 256) {
        atomicAdd(&workspace.exponents[f], (unsigned long long)(long long)sums[f]);
        atomicAdd(&workspace.exponents[D + f], (unsigned long long)counts[f]);
    }
}

// Where the entries of a tile begin, in units of four: room for those of all points before it, for at most three more
// of each tile before it, and of this one's.
__device__ __forceinline__ long long km_first_entry(const km_sparse_table &points, long long tile) {
    return (km_row_of(points, tile * TILE).begin + POINT_ENTRIES * tile * TILE + 3) / 4 + tile;
}

// Load: entries and numbers of all nonzeros, a thread a point; where those of each tile are; and bounds: |x|, and the
// length of what rounding to halves takes from x, as halves, rounded up, the latter times 1,024.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_entries(const __grid_constant__ km_pass_args args) {
    const km_workspace workspace = km_workspace_of(args);
    const km_sparse_table &points = *(const km_sparse_table *)args.points;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < args.n; i += gridDim.x * 256ll) {
        const km_row row = km_row_of(points, i);
        const long long tile = i / TILE, first = 4 * km_first_entry(points, tile),
                        begin = first + row.begin - km_row_of(points, tile * TILE).begin +
                                POINT_ENTRIES * (i % TILE);
        const unsigned place = i % TILE * 16;
        const double weight = km_weight_of(args, i);
        double square = 0, rest = 0;
        for (unsigned at = 0; at < row.count; at++) {
            const float x = ((const float *)points.values)[row.begin + at];
            const unsigned f = ((const km_index *)points.indices)[row.begin + at],
                           half = km_halves(x, 0) & 0xffff;
            const double lost = (double)x - (double)km_low_half(half);
            const long long number = km_number_of(x, weight, workspace.scales[f]);
            square = fma((double)x, (double)x, square);
            rest = fma(lost, lost, rest);
            workspace.entries[begin + at] = (f / 8 * EIGHT_BYTES + place + f % 8 * 2) << 16 | half;
            workspace.numbers[begin + at] = number == (int)number && number != LARGE ? (int)number : LARGE;
        }
        if (POINT_ENTRIES) { // the point itself, in the first column for constants, which is 1
            workspace.entries[begin + row.count] = (D / 8 * EIGHT_BYTES + place + D % 8 * 2) << 16 | 0x3c00;
            workspace.numbers[begin + row.count] = 1;
        }
        const double up = 1 + 1.0 / 1024 + 1e-6; // a half has 11 digits
        workspace.bounds[i] =
            km_halves((float)(sqrt(square) * up + 1e-7), (float)(sqrt(rest) * 1024 * up + 1e-7));
        if (i % TILE < TILE - 1 && i < args.n - 1) continue;
        const long long end = begin + row.count + POINT_ENTRIES; // of the tile
        workspace.tiles[tile] = {(unsigned)(first / 4), (unsigned)((end - first + 3) / 4)};
        for (long long at = end; at < (end + 3) / 4 * 4; at++) {
            workspace.entries[at] = (unsigned)TILE_BYTES << 16; // behind the tile
            workspace.numbers[at] = 0;
        }
    }
}
