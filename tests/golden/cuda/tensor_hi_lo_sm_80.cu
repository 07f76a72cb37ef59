// Of the text of {features: 12, clusters: 3..12, target: cuda:sm_80}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 91 definitions

// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    km_lane own;
    km_fragments fragments[LAUNCH::ROW_TILES];
    km_sums<LAUNCH> sums;
    unsigned compare_address,
        add_address; // where it reads points of the ring's first tile: to compare them, to add them
    const unsigned *all_outliers;
    unsigned outliers, next_outliers; // outliers of this tile and the next
    int queued;
};

// ... 19 definitions
