// Of the text of {features: 8, clusters: 2..64, target: cuda:sm_90} weighted: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 41 definitions

enum {
    ROW_PADDING = 8, // numbers between rows in shared memory, so that eight rows have no bank conflicts
    ROUND_AHEAD = 8  // pieces of points that a thread reads ahead before it rounds them
// ... lines of a template
    float scores[WARPS][WARP_POINTS][TILE + 1];
};

// ... 14 definitions

// Labels of all active slots, and lists of ambiguous points. Scores go through shared
// memory. Then a lane has a point and compares its scores one by one, as a tile may hold several slots.
extern "C" __global__ void __launch_bounds__(BLOCK, 3)
    // ... lines of a template

// ... 20 definitions
