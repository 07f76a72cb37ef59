// Of the text of {features: 20000, clusters: 2..12, type: float64, layout: csr, target: cuda:sm_80}: The pass; The steps around the pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 5 definitions

// The workspace.
typedef unsigned short km_index;    // a column of a nonzero
typedef unsigned long long km_bits; // of a km_real

// ... 26 definitions

__device__ __forceinline__ void km_add_nonzero(km_real (&score)[LANE_COLUMNS], const char *lane_table,
                                               const char *lane_rest, const km_nonzero &nonzero) {
    const long long at = (long long)nonzero.feature * (PITCH * (long long)sizeof(km_real));
    const char *row = lane_table + at, *rest = lane_rest + at;
    KM_UNROLL_FOR (int j = 0; j < IN_VECTORS; j += VECTOR) {
        const km_vector c = *(const km_vector *)(row + j * ROW_LANES * (int)sizeof(km_real));
        KM_UNROLL_FOR (int v = 0; v < VECTOR; v++) score[j + v] = fma(nonzero.x, c.at[v], score[j + v]);
    }
    KM_UNROLL_FOR (int j = IN_VECTORS; j < LANE_COLUMNS; j++)
        score[j] = fma(nonzero.x, *(const km_real *)(rest + j * ROW_LANES * (int)sizeof(km_real)), score[j]);
}

// ... 5 definitions

// Adds a value, which is a multiple of the feature's unit but for rounding, to the sum of a column, and takes it away
// from that of another.
__device__ __forceinline__ void km_move_value(km_block_sums_of &sums, long long to, long long from,
                                              bool has_old, long long f, double value) {
    const long long to_at = (to * (D + 1ll) + f) * INTEGERS, from_at = (from * (D + 1ll) + f) * INTEGERS;
    // The second integer has what the first one rounds away.
    const double first = rint(value), rest = (value - first) * 1073741824.0;
    km_add(sums, to_at, from_at, has_old, (long long)first);
    km_add(sums, to_at + 1, from_at + 1, has_old, __double2ll_rn(rest));
}

// ... 1 definition

// Totals of active slots, a thread each; and what the next pass begins with.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_totals(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const long long at = blockIdx.x * 256ll + threadIdx.x;
    if (at >= COLUMNS * (D + 1ll)) return;
    const int column = (int)(at / (D + 1ll)), slot = km_slot_of(column);
    const long long f = at % (D + 1ll);
    if (at == 0) {
        workspace.progress->next_tile = 0;
    }
    if (f == 0 && column == km_first_column(slot)) {
        workspace.slots[slot].norm = 0;
        if (args.active[slot]) workspace.slots[slot].begun = 1;
    }
    if (!args.active[slot]) return;
    const double sum = (double)(long long)workspace.sums[2 * at] +
                       (double)(long long)workspace.sums[2 * at + 1] / 1073741824.0;
    args.totals[at] = sum / workspace.scales[f];
}

// ... 2 definitions

constexpr int TABLE_BYTES = 0;
constexpr int SUMS_BYTES = 0;
constexpr int CHANGES_BYTES = 0;
constexpr int FACTS_BYTES = (int)km_aligned(SLOTS * (long long)sizeof(km_slot_facts));
constexpr int SHARED_BYTES =
    TABLE_BYTES + SUMS_BYTES + CHANGES_BYTES + FACTS_BYTES + WARPS * (int)sizeof(km_warp_memory);

// ... 2 definitions

__device__ __forceinline__ const km_real *km_table_of(const km_block &block) {
    return block.workspace.table;
}

__device__ __forceinline__ km_block_sums_of &km_sums_of(const km_block &block) {
    return *block.workspace.sums;
}

__device__ __forceinline__ const double *km_scales_of(const km_block &block) {
    return block.workspace.scales;
}

// ... 8 definitions

__device__ __forceinline__ void km_take_score(km_best_two &found, km_real score, int j) {
    found.j = score > found.best ? j : found.j;
    found.best = fmax(found.best, score);
}

// ... 3 definitions

// A tile of points with all columns: scores of a panel, then the slots of its columns one after the other. A slot may
// go on in the next panel.
__device__ __forceinline__ void km_label_tile(km_warp &warp, km_tile tile) {
    const km_real none = (km_real)__int_as_float(0xff800000);
    const int lane = threadIdx.x % 32;
    km_best_two found = {none, none, 0};
    const long long i = tile.index * (long long)TILE + lane;
    if (tile.valid) tile.norm = warp.block.points.norms[i];
    int slot = 0, column = 0;
    km_stage_labels(warp, tile);
// ... lines of a template
        km_score_rounds(warp.memory, warp.block.points, tile.own, lane_table, halves);
        // ... lines of a template
// ... 7 definitions

// ... 77 definitions
