// SPDX-License-Identifier: MIT
// Adds up a column over the blocks: integers, then one rounding.
extern "C" __global__ void __launch_bounds__(REDUCE) km_reduce(const __grid_constant__ km_pass_args args) {
    const int column = blockIdx.x * REDUCE + threadIdx.x, f = column % (D + 1);
    int k_index = 0;
    while (k_index + 1 < KS && km_offsets[k_index + 1] * (D + 1) <= column) k_index++;
    if (args.control->stop || column >= COLUMNS || !args.active[blockIdx.y * KS + k_index]) return;
    long long sum = 0;
    _Pragma("unroll 16") for (int block = 0; block < GRID; block++) sum += (long long)km_sums_of(args, block)[column];
    args.totals[(long long)blockIdx.y * COLUMNS + column] =
        f < D ? (double)sum * km_power(km_exponents(args)[f] - BITS) : (double)sum;
}
