// Of the text of {features: 100, clusters: 10, layout: csr, target: cuda:sm_90, plan: {form: nonzeros}} weighted tracked: The pass; The steps around the pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 11 definitions

constexpr long long SUMS = (long long)COLUMNS * (D + 1ll) * INTEGERS;
constexpr long long WORKSPACE_ZERO_BYTES = km_aligned(sizeof(km_progress)) +
                                           km_aligned(SLOTS * (long long)sizeof(km_slot_note)) +
                                           km_aligned(8 * SUMS);
constexpr long long LABELS_POINT_BYTES = 0;
constexpr long long TABLE_NUMBERS = (long long)PANELS * D * PITCH;
constexpr long long WORKSPACE_POINT_BYTES = LABELS_POINT_BYTES;
constexpr long long WORKSPACE_BYTES =
    WORKSPACE_ZERO_BYTES + km_aligned(8 * (D + 1ll)) + km_aligned(8ll * PANELS * PANEL) +
    km_aligned(PANELS * PANEL * (long long)sizeof(km_real)) +
    km_aligned(TABLE_NUMBERS * (long long)sizeof(km_real)) + KM_ALIGN_BYTES * WORKSPACE_POINT_BYTES;

// ... 2 definitions

// The labels of a slot.
__device__ __forceinline__ km_label *km_labels_of(const km_pass_args &args, const km_workspace &workspace,
                                                  int slot) {
    return (km_label *)args.labels + slot * args.labels_stride;
}

// ... 7 definitions

// Load: what values of each feature are multiplied by. The sum of all points stays below 2^62.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_scales(const __grid_constant__ km_pass_args args) {
    const km_workspace workspace = km_workspace_of(args);
    const long long f = blockIdx.x * 256ll + threadIdx.x;
    if (f > D) return;
    double largest = 1;
    if (f < D) largest = fmax(fabs(args.box[f]), fabs(args.box[D + f]));
    const int weight = km_exponent_above(__longlong_as_double((long long)workspace.progress->weight_bits));
    const int exponent = km_value_bits(args.n) - weight - km_exponent_above(largest);
    workspace.scales[f] = ldexp(1.0, exponent > 1000 ? 1000 : exponent < -1000 ? -1000 : exponent);
}

// ... 25 definitions

constexpr int TABLE_BYTES = (int)km_aligned(TABLE_NUMBERS * (long long)sizeof(km_real));
constexpr int SUMS_BYTES = (int)km_aligned(sizeof(km_block_sums_of));
constexpr int CHANGES_BYTES = (int)km_aligned(4ll * SLOTS); // of a block, a slot each
constexpr int FACTS_BYTES = (int)km_aligned(SLOTS * (long long)sizeof(km_slot_facts));
constexpr int SHARED_BYTES =
    TABLE_BYTES + SUMS_BYTES + CHANGES_BYTES + FACTS_BYTES + WARPS * (int)sizeof(km_warp_memory);

// ... 9 definitions

// A tile: a lane has one of its points.
struct km_tile {
    unsigned index;
    int at; // where its nonzeros are in shared memory; -1: they are not
    km_row own;
    bool valid; // there is a point, and it is not long
    float norm;
    km_real weight;
};

// ... 6 definitions

// Stores the labels of a slot, and notes the moves.
__device__ __forceinline__ void km_store_labels(km_warp &warp, const km_tile &tile, int slot, int label) {
    const int lane = threadIdx.x % 32;
    km_label *stored =
        km_labels_of(*warp.block.args, warp.block.workspace, slot) + tile.index * (long long)TILE + lane;
    const bool begun = km_facts_of(slot).begun;
    const int old = tile.valid ? warp.memory.labels[slot][lane] : label;
    if (old != label) *stored = (km_label)label;
    const unsigned changed = __ballot_sync(0xffffffffu, old != label);
    if (lane == 0 && changed) atomicAdd(km_changes_of(slot), (unsigned)__popc(changed));
    const unsigned moved = begun ? changed : __ballot_sync(0xffffffffu, tile.valid);
    if (!moved) return;
    if (__popc(moved) >= MANY_MOVES) { // each lane its own point
        if (moved >> lane & 1) km_move_point(warp, tile, km_facts_of(slot).first, begun, old, label);
        return;
    }
    // ... lines of a template
// ... 5 definitions

// A tile of points with all columns: scores of a panel, then the slots of its columns one after the other. A slot may
// go on in the next panel.
__device__ __forceinline__ void km_label_tile(km_warp &warp, km_tile tile) {
    const km_real none = (km_real)__int_as_float(0xff800000);
    const int lane = threadIdx.x % 32;
    km_best_two found = {none, none, 0};
    const long long i = tile.index * (long long)TILE + lane;
    if (tile.valid) tile.norm = warp.block.points.norms[i];
    if (tile.valid) tile.weight = ((const km_real *)warp.block.args->weights)[i];
    int slot = 0, column = 0;
    km_stage_labels(warp, tile);
    unsigned at;
    const bool is_staged = km_stage_tile(&at, warp.memory, warp.block.points, tile.own);
    const unsigned sorted = km_sort_lanes(tile.own.count * TILE + lane);
    if (is_staged) tile.at = (int)at;
// ... lines of a template
        if (is_staged)
            km_score_staged(warp.memory, at, sorted, lane_table, halves);
        else
            km_score_rounds(warp.memory, warp.block.points, tile.own, lane_table, halves);
        // ... lines of a template
// ... 3 definitions

static __device__ __noinline__ void km_label_long(const km_block &block, km_long_memory &memory,
                                                  long long i) {
    const int lane = threadIdx.x % 32, own = threadIdx.x / 32;
    const km_row row = km_row_of(block.points, i);
    const unsigned part = (row.count + WARPS - 1) / WARPS, begin = min(own * part, row.count),
                   end = min(begin + part, row.count);
    const double weight = ((const km_real *)block.args->weights)[i];
    // ... lines of a template
                if (memory.old != nearest) atomicAdd(km_changes_of(slot), 1u);
                // ... lines of a template
// ... 1 definition

extern "C" __global__ void __launch_bounds__(BLOCK, BLOCKS_PER_SM)
    km_sparse_labels(const __grid_constant__ km_pass_args args) {
    __shared__ km_block block;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    for (int at = threadIdx.x; at < TABLE_BYTES / 16; at += BLOCK)
        ((uint4 *)km_shared)[at] = ((const uint4 *)workspace.table)[at];
    km_block_sums_of &sums = km_sums_of(block);
    for (int at = threadIdx.x; at < SUMS; at += BLOCK) sums.low[at] = sums.high[at] = 0;
    for (int f = threadIdx.x; f <= D; f += BLOCK) sums.scales[f] = workspace.scales[f];
    for (int slot = threadIdx.x; slot < SLOTS; slot += BLOCK) {
        const km_slot_note note = workspace.slots[slot];
        km_facts_of(slot) = {km_value_of(note.norm), km_first_column(slot), args.active[slot], note.begun};
        *km_changes_of(slot) = 0;
    // ... lines of a template
    for (int at = threadIdx.x; at < SUMS; at += BLOCK) {
        const unsigned long long sum = sums.low[at] | (unsigned long long)sums.high[at] << 32;
        if (sum) atomicAdd(workspace.sums + at, sum);
    }
    for (int slot = threadIdx.x; slot < SLOTS; slot += BLOCK)
        if (*km_changes_of(slot)) atomicAdd(args.changes + slot, (unsigned long long)*km_changes_of(slot));
}

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_sparse_weights", KM_STAGE_LOAD, 512, 1, 256, 0, 0},
    // ... lines of a template
// ... 77 definitions
