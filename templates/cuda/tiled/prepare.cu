// SPDX-License-Identifier: MIT
// When points are loaded: |x| of each point, a warp each.
extern "C" __global__ void __launch_bounds__(256) km_tiled_norms(const __grid_constant__ km_pass_args args) {
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
        workspace.norms[i] = km_above(sqrt(square));
        //@ if fp16
        workspace.residuals[i] = km_above(sqrt(lost));
        //@ end
    }
}

// In each pass: the table of centroids, a warp each row. Four blocks of a multiprocessor: said, or the compiler aims at
// more, and spills.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_tiled_prepare(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= TILES * TILE) return;
    const int group = row / PAD;
    if (row % TILE == 0) {
        int active = 0;
        for (int g = group + lane; g < group + TILE_GROUPS && g < RESTARTS * GROUPS; g += 32)
            active |= args.active[km_slot_of(g)];
        active = __any_sync(0xffffffffu, active);
        if (lane == 0) workspace.tile_slots[row / TILE] = active ? km_slot_of(group) : -1;
    }
    const km_place place = km_place_of(group < RESTARTS * GROUPS ? km_slot_of(group) : 0);
    const int j = row - place.begin * PAD, real = group < RESTARTS * GROUPS && j < place.k;
    const long long first = (long long)(place.slot / KS) * S + km_offsets[place.slot % KS];
    const km_real *c = (const km_real *)args.centroids + (first + j) * D;
    km_table_number *to = workspace.table + (long long)row * WIDTH;
    double square = 0;
    //@ if fp16
    double lost = 0;
    //@ end
    for (int f = lane; f < WIDTH; f += 32) {
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
    km_slot_bounds *slot = workspace.slots + place.slot;
    const km_real norm = km_above(sqrt(square));
    atomicMax(&slot->norm, km_bits_of(norm));
    //@ if fp16
    const double share = (sqrt(lost) - km_fine(workspace)) / (norm > 0 ? norm : 1);
    atomicMax(&slot->coarse, km_bits_of(km_above(share > 0 ? share : 0)));
    //@ end
}
