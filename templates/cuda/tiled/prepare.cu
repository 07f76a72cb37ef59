// SPDX-License-Identifier: MIT
//@ use warp_sum
// Load: |x| of each point, a warp each. Without a minimum of four blocks a multiprocessor the compiler aims at more,
// and spills.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_tiled_norms(const __grid_constant__ km_pass_args args) {
    const km_workspace workspace = km_workspace_of(args);
    //@ if fp16
    const float scale = km_scale_of(args);
    if (blockIdx.x == 0 && threadIdx.x == 0) *workspace.scale = scale;
    //@ end
    const int lane = threadIdx.x % 32;
    for (long long i = blockIdx.x * 8ll + threadIdx.x / 32; i < args.n; i += gridDim.x * 8ll) {
        const km_real *x = (const km_real *)args.points + i * D;
        double square = 0;
        //@ if fp16
        double lost = 0;
        //@ end
        for (int f = lane; f < D; f += 32) {
            square = fma((double)x[f], (double)x[f], square);
            //@ if fp16
            const double rest = x[f] - km_half_value(km_half_of(x[f] * scale)) / scale;
            lost = fma(rest, rest, lost);
            //@ end
        }
        square = km_warp_sum(square);
        //@ if fp16
        lost = km_warp_sum(lost);
        //@ end
        if (lane != 0) continue;
        workspace.norms[i] = km_upper_bound(sqrt(square));
        //@ if fp16
        workspace.residuals[i] = km_upper_bound(sqrt(lost));
        //@ end
    }
}

// In each pass: writes the table of centroids, a warp each row. Its minimum of blocks is for the same reason.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_tiled_prepare(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= TILES * TILE) return;
    const int panel = row / PANEL_ROWS;
    if (row % TILE == 0) {
        int active = 0;
        for (int g = panel + lane; g < panel + TILE_PANELS && g < RESTARTS * PANELS; g += 32)
            active |= args.active[km_slot_of(g)];
        active = __any_sync(0xffffffffu, active);
        if (lane == 0) workspace.tile_slots[row / TILE] = active ? km_slot_of(panel) : -1;
    }
    const km_slot_panels panels = km_panels_of(panel < RESTARTS * PANELS ? km_slot_of(panel) : 0);
    const int j = row - panels.begin * PANEL_ROWS, real = panel < RESTARTS * PANELS && j < panels.k;
    const long long first = (long long)(panels.slot / KS) * S + km_offsets[panels.slot % KS];
    const km_real *c = (const km_real *)args.centroids + (first + j) * D;
    km_table_number *to = workspace.table + (long long)row * PADDED_D;
    double square = 0;
    //@ if fp16
    double lost = 0;
    //@ end
    for (int f = lane; f < PADDED_D; f += 32) {
        const km_real value = real && f < D ? c[f] : (km_real)0;
        square = fma((double)value, (double)value, square);
        //@ if fp16
        const float scale = *workspace.scale;
        to[f] = km_half_of(fminf(fmaxf(value * scale, -65504.f), 65504.f));
        const double rest = value - km_half_value(to[f]) / scale;
        lost = fma(rest, rest, lost);
        //@ else
        to[f] = value;
        //@ end
    }
    square = km_warp_sum(square);
    //@ if fp16
    lost = km_warp_sum(lost);
    //@ end
    if (lane != 0) return;
    workspace.half_squares[row] = real ? (km_real)(square / 2) : FAR;
    if (!real) return;
    km_slot_bounds *slot = workspace.slots + panels.slot;
    const km_real norm = km_upper_bound(sqrt(square));
    atomicMax(&slot->norm, km_bits_of(norm));
    //@ if fp16
    const double relative = (sqrt(lost) - km_underflow(workspace)) / (norm > 0 ? norm : 1);
    atomicMax(&slot->relative_loss, km_bits_of(km_upper_bound(relative > 0 ? relative : 0)));
    //@ end
}
