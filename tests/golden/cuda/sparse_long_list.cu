// Of the text of {features: 100, clusters: 2..64, layout: csr, target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 62 definitions

// Stores the labels of a slot, and notes the moves.
__device__ __forceinline__ void km_store_labels(km_warp &warp, const km_tile &tile, int slot, int label) {
    const int lane = threadIdx.x % 32;
    km_label *stored =
        km_labels_of(*warp.block.args, warp.block.workspace, slot) + tile.index * (long long)TILE + lane;
    const bool begun = km_facts_of(slot).begun;
    const int old = tile.valid ? *stored : label;
    if (old != label) *stored = (km_label)label;
    const unsigned changed = __ballot_sync(0xffffffffu, old != label);
    const unsigned moved = begun ? changed : __ballot_sync(0xffffffffu, tile.valid);
    if (!moved) return;
    // ... lines of a template
// ... 12 definitions
