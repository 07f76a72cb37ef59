// SPDX-License-Identifier: MIT
//@ use warp_sum
// Adds the numbers of all chunks, a warp for each number: a lane adds every 32nd
// chunk. Clears the bounds of the slots for the next pass.
extern "C" __global__ void __launch_bounds__(256) km_tiled_reduce(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    if (blockIdx.x == 0)
        for (int slot = threadIdx.x; slot < RESTARTS * KS; slot += 256) workspace.slots[slot] = {0, 0, 0, 0};
    const long long numbers = (long long)RESTARTS * S * (D + 1);
    const long long at = blockIdx.x * 8ll + threadIdx.x / 32;
    if (at >= numbers) return;
    const double *rows = (const double *)workspace.sums;
    double sum = 0.0;
#pragma unroll 8
    for (int chunk = threadIdx.x % 32; chunk < CHUNKS; chunk += 32) sum += rows[chunk * numbers + at];
    sum = km_warp_sum(sum);
    if (threadIdx.x % 32 == 0) args.totals[at] = sum;
}
