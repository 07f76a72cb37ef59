// Of the text of {features: 24, clusters: 2..64, target: cuda:sm_90} weighted: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 44 definitions
// ... lines of a template
    float scores[WARPS][WARP_POINTS][TILE + 1];
};

// ... 14 definitions

// Labels of all active slots, and lists of ambiguous points. Scores go through shared
// memory. Then a lane has a point and compares its scores one by one, as a tile may hold several slots.
extern "C" __global__ void __launch_bounds__(BLOCK, 3)
    // ... lines of a template

// ... 19 definitions
