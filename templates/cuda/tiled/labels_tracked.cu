// SPDX-License-Identifier: MIT
//@ use warp_sum
// Counts the labels that changed since the pass before, and stores the new ones.
extern "C" __global__ void __launch_bounds__(256) km_tiled_track(const __grid_constant__ km_pass_args args) {
    const int slot = blockIdx.y;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_label *labels = workspace.labels + slot * workspace.stride;
    km_label *stored = (km_label *)args.labels + slot * args.labels_stride;
    unsigned changes = 0;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < args.n; i += gridDim.x * 256ll) {
        changes += stored[i] != labels[i];
        stored[i] = labels[i];
    }
    changes = (unsigned)km_warp_sum(changes);
    if (changes && threadIdx.x % 32 == 0) atomicAdd(args.changes + slot, (unsigned long long)changes);
}
