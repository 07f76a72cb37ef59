// SPDX-License-Identifier: MIT
// The K list over launches and rows of matrix products.
#define KM_UNROLL _Pragma("unroll")

// Where the centroids of each K lie: launch, first group of lanes, groups, first row in a group, rows in a group.
struct km_place {
    short part, group, span, slot, slots, row; // row: its first row of the block's sums
};
__device__ const km_place km_places[KS] = {
    //@ for k in ks
    {$k_part, $k_group, $k_span, $k_slot, $k_slots, $k_row},
    //@ end
};

// A launch. A lane has SLOTS rows, two of each tile; the first FIRST belong to one K, the others to a second K or,
// where linked, to the same. With LEVELS > 0 up to 2^LEVELS groups of lanes share a K.
//@ for part in parts
struct km_part_$part { // K = $part_text
    enum { INDEX = $part, TILES = $part_tiles, SLOTS = 2 * TILES, FIRST = $part_first, LEVELS = $part_levels };
    enum { ROWS = $part_rows }; // of the block's sums
};
//@ end
