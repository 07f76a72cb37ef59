// Of the text of {features: 100, clusters: 40, layout: csr, target: cuda:sm_90} weighted tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 36 definitions

__device__ __forceinline__ double km_weight_of(const km_pass_args &args, long long i) {
    return ((const km_real *)args.weights)[i];
}

// ... 9 definitions

// What all warps know of a slot.
struct __align__(16) km_slot_facts {
    km_margin margin;
    int active, begun; // begun: labels and sums of a pass are there
    unsigned changes;  // labels of the block's points that changed
};

// A set of centroids of a slot.
typedef unsigned long long km_candidates;

// ... 8 definitions

// Whether the pass makes sums anew, of all points.
__device__ __forceinline__ bool km_makes_anew() {
    return false;
}

// ... 7 definitions

// Does the last moves that wait, up to 32: entry after entry, a lane each, whatever point they are of.
static __device__ __noinline__ void km_do_moves(int first, int count) {
    constexpr int AT_ONCE = 4;
    // ... lines of a template
        if (own == 0) { // what it finds joins and leaves the same sum
            move.sums = 0;
            own = 1;
        }
    // ... lines of a template
// ... 2 definitions

// The lowest candidate, which is taken out of the set.
__device__ __forceinline__ int km_take_candidate(km_candidates &left) {
    const int lowest = __ffsll((long long)left) - 1;
    // ... lines of a template
            atomicAdd(&facts.changes, 1u);
        }
        // ... lines of a template
// ... 2 definitions
// ... lines of a template
        atomicAdd(&km_memory().facts[slot].changes, 1u);
    }
    const unsigned lanes = __ballot_sync(ALL, moves);
    if (lanes) {
        const unsigned first = km_first_column(slot) * (D + 1), to = first + label * (D + 1),
                       from = first + found.old * (D + 1);
        if (!km_makes_anew()) km_note_moves(tile, lanes, to | (begun ? from : NONE) << 16);
        if (moves)
            km_move_long(to + D, from + D, begun,
                         km_number_of(1.0f,
                                      km_weight_of(*km_memory().args, tile.index * (long long)TILE + point),
                                      km_memory().workspace.scales[D]));
    }
    return __ballot_sync(ALL, ambiguous);
}

// ... 17 definitions

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_PER_SM)
    km_sparse_labels(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    km_shared_memory &shared = km_memory();
    const km_workspace &workspace = shared.workspace;
    if (threadIdx.x == 0) {
        shared.args = &args;
        shared.points = *(const km_sparse_table *)args.points;
        shared.workspace = km_workspace_of(args);
    // ... lines of a template
        tile = next;
    }
    if (tile.moves) km_do_moves(0, tile.moves);
    if (tile.queued) km_resolve(0, tile.queued);
    __syncthreads();
    for (int at = threadIdx.x; at < SUMS; at += BLOCK)
        if (shared.low[at] || shared.high[at])
            atomicAdd(workspace.sums + at,
                      (unsigned long long)(shared.high[at] * (1ll << 32) + shared.low[at]));
    for (int slot = threadIdx.x; slot < SLOTS; slot += BLOCK)
        if (shared.facts[slot].changes)
            atomicAdd(args.changes + slot, (unsigned long long)shared.facts[slot].changes);
}

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_sparse_weights", KM_STAGE_LOAD, 512, 1, 256, 0, 0},
    {"km_sparse_exponents", KM_STAGE_LOAD, 512, 1, 256, 0, 0},
    {"km_sparse_scales", KM_STAGE_LOAD, (unsigned)((D + 256ll) / 256), 1, 256, 0, 0},
    {"km_sparse_entries", KM_STAGE_LOAD, 2048, 1, 256, 0, 0},
    {"km_sparse_halves", KM_STAGE_PASS, COLUMNS, 1, 256, 0, 0},
    {"km_sparse_fragments", KM_STAGE_PASS, SLOTS, 1, 256, 0, 0},
    {"km_sparse_labels", KM_STAGE_PASS, GRID, 1, BLOCK, SHARED_BYTES, 0},
    {"km_sparse_totals", KM_STAGE_PASS, (unsigned)((COLUMNS * (D + 1ll) + 255) / 256), 1, 256, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION,
                                    sizeof km_pass_launches / sizeof *km_pass_launches,
                                    WORKSPACE_BYTES,
                                    WORKSPACE_POINT_BYTES,
                                    0,
                                    WORKSPACE_ZERO_BYTES,
                                    WORKSPACE_NONZERO_BYTES};
}
