// Of the text of {features: 4, clusters: 2..20, target: cuda:sm_90, plan: {algorithm: tiles}}: The algorithm tiles (whole)
// "..." stands for what a template or an earlier part shows, or what comes again.

// ==== The algorithm tiles ==================================================================================
// Compiled apart: tiles
// ... lines of a template
    TILES_CODED_MAX = 8,    // features that the order of points depends on, at most: those of the widest spread
    TILES_DIGIT_BITS = 8,   // of a digit by which points are sorted
    TILES_SORTED = 4096,    // points that a block sorts at a time
    TILES_SCANNED = 4096,   // counts that a block adds up at a time
    TILES_THREADS = 256     // of every block
};

// ... 5 definitions

typedef struct km_tiles_args {
    const km_control *control;
    long long n, tiles, supers;
    const float *points; // [tiles][d][TILES_POINTS], zeros behind the last point
    const float
        *boxes;                  // [supers][TILES_BOX(d)][TILES_OF_SUPER]: of the tiles; those behind the last are empty
    // ... lines of a template
        *open;                  // [restarts][tiles]: a bit for each K that the tile is open for; zero before each pass
    void *candidates;           // [restarts][tiles][ks_count] tiles_mask: a bit for each centroid
    unsigned long long *counts; // [restarts][ks_count][TILES_COUNTS]; added to
} km_tiles_args;

#endif
typedef unsigned tiles_mask; // a bit for each centroid of a K

// ... 47 definitions
