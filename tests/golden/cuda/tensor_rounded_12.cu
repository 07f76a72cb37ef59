// Of the text of {features: 12, clusters: 3..12, target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 106 definitions

// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    km_lane own;
    const km_fragments *fragments;
    km_sums<LAUNCH> sums;
    km_tile_addresses addresses; // where the lane reads in the ring's first tile
};

// ... 16 definitions
