// Of the text of {features: 100, clusters: 40, layout: csr, target: cuda:sm_90} weighted tracked: The pass
// "..." stands for what a template or an earlier part shows.

// ... 40 definitions

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

// ... 7 definitions

// Whether the pass makes sums anew, of all points.
__device__ __forceinline__ bool km_makes_anew() {
    return false;
}

// ... 9 definitions

// The lowest candidate, which is taken out of the set.
__device__ __forceinline__ int km_take_candidate(km_candidates &left) {
    const int lowest = __ffsll((long long)left) - 1;
    left &= left - 1;
    return lowest;
}

// Decides the last points of the queue, up to 32, by scores of their candidates in double, a lane each, and moves them.
static __device__ __noinline__ void km_resolve(int first, int count) {
    const int lane = threadIdx.x % 32;
    __syncwarp();
    if (lane < count) {
        const km_waiting own = km_warp_memory_of().queue[first + lane];
        const km_row row = km_row_of(km_memory().points, own.point);
        const int column = km_first_column(own.slot);
        km_candidates left = own.candidates;
        double best = -1e308;
        int label = 0;
        while (left) { // two at a time, the lowest first
            const int lower = km_take_candidate(left), higher = left ? km_take_candidate(left) : lower;
            double scores[2];
            km_exact_scores(scores, row, {column + lower, column + higher});
            if (scores[0] > best) label = lower;
            best = fmax(best, scores[0]);
            if (scores[1] > best) label = higher;
            best = fmax(best, scores[1]);
        }
        km_slot_facts &facts = km_memory().facts[own.slot];
        km_label *stored = km_labels_of(*km_memory().args, km_memory().workspace, own.slot) + own.point;
        const int old = *stored;
        if (old != label) {
            *stored = (km_label)label;
            atomicAdd(&facts.changes, 1u);
        }
        if ((old != label || !facts.begun) && !km_makes_anew()) {
            const unsigned to = (column + label) * (D + 1), from = (column + old) * (D + 1);
            const double weight = km_weight_of(*km_memory().args, own.point);
            for (unsigned at = 0; at < row.count; at++) {
                const unsigned f = ((const km_index *)km_memory().points.indices)[row.begin + at];
                const long long number =
                    km_number_of(((const float *)km_memory().points.values)[row.begin + at], weight,
                                 km_memory().workspace.scales[f]);
                km_move_long(to + f, from + f, facts.begun, number);
            }
            km_move_long(to + D, from + D, facts.begun,
                         km_number_of(1.0f, weight, km_memory().workspace.scales[D]));
        }
    }
    __syncwarp();
}

// ... 4 definitions

// Stores the label of the lane's point in a slot, unless the point is ambiguous; returns the lanes whose point is.
__device__ __forceinline__ unsigned km_decide(km_tile &tile, const km_before &before, int slot, int label,
                                              bool is_clear) {
    const unsigned point = km_point_of(threadIdx.x % 32);
    const bool takes_part = tile.valid && before.active, ambiguous = takes_part && !is_clear;
    if (takes_part && !ambiguous && (before.old != label || !before.begun)) {
        const unsigned first = km_first_column(slot) * (D + 1), to = first + label * (D + 1),
                       from = first + before.old * (D + 1);
        if (before.old != label) {
            km_labels_of(*km_memory().args, km_memory().workspace,
                         slot)[tile.index * (long long)TILE + point] = (km_label)label;
            atomicAdd(&km_memory().facts[slot].changes, 1u);
        }
        if (!km_makes_anew())
            km_warp_memory_of().moves[tile.moves++][point] = to | (before.begun ? from : NONE) << 16;
        km_move_long(to + D, from + D, before.begun,
                     km_number_of(1.0f, km_weight_of(*km_memory().args, tile.index * (long long)TILE + point),
                                  km_memory().workspace.scales[D]));
    }
    return __ballot_sync(ALL, ambiguous);
}

// ... 15 definitions

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_PER_SM)
    km_sparse_labels(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    km_shared_memory &shared = km_memory();
    const km_workspace &workspace = shared.workspace;
    if (threadIdx.x == 0) {
        shared.args = &args;
        shared.points = *(const km_sparse_table *)args.points;
        shared.workspace = km_workspace_of(args);
    }
    __syncthreads();
    for (int at = threadIdx.x; at < RESTARTS * FRAGMENT_TILES * STEPS * 16; at += BLOCK)
        ((uint4 *)shared.fragments)[at] = ((const uint4 *)workspace.fragments)[at];
    for (int at = threadIdx.x; at < SUMS; at += BLOCK) shared.low[at] = shared.high[at] = 0;
    for (int slot = threadIdx.x; slot < SLOTS; slot += BLOCK) {
        km_slot_facts facts = {workspace.margins[slot], args.active[slot], workspace.slots[slot].begun};
        shared.facts[slot] = facts;
    }
    km_clear_tile();
    __syncthreads();
    const unsigned tiles = (unsigned)((args.n + TILE - 1) / TILE), step = GRID * WARPS;
    // One tile ahead: its nonzeros are on their way before this one is worked on.
    unsigned index = threadIdx.x / 32 * GRID + blockIdx.x;
    km_tile tile = km_load_tile(args, index, km_place_of(index, tiles), 0);
    uint2 place = km_place_of(index + step, tiles);
#pragma unroll 1
    for (; index < tiles; index += step) {
        km_copy_wait_all();
        __syncwarp();
        km_tile next = km_load_tile(args, index + step < tiles ? index + step : tiles, place, tile.stage ^ 1);
        place = km_place_of(index + 2 * step, tiles);
        km_label_tile(tile);
        next.queued = tile.queued;
        tile = next;
    }
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
