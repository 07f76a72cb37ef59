// Of the text of {features: 4, clusters: 2..20, target: cuda:sm_90, plan: {algorithm: tiles}}: The algorithm tiles (whole)
// "..." stands for what a template or an earlier part shows, or what comes again.

// ==== The algorithm tiles ==================================================================================
// Compiled apart: tiles
// ... lines of a template
    TILES_CODED_MAX = 8,    // features that the order of points depends on, at most: those of the widest spread
    TILES_DIGIT_BITS = 8,   // of a digit by which points are sorted
    TILES_SORTED = 4096,    // points that a block sorts at a time
    TILES_SCANNED = 4096,   // counts that a block adds up at a time
    TILES_THREADS = 256     // of a block; those of a pass have a multiple
};

// ... 5 definitions

typedef struct km_tiles_args {
    const km_control *control;
    long long n, tiles, supers;
    const float *points; // [tiles][d][TILES_POINTS], zeros behind the last point
    const float
        *boxes;                  // [supers][TILES_BOX(d)][TILES_OF_SUPER]: of the tiles; those behind the last are empty
    const float *super_boxes;    // [groups][TILES_BOX(d)][TILES_GROUP_SUPERS]
    const long long *prefix;     // [tiles + 1][TILES_PITCH(d)]
    const double *scale;         // d: an integer of a sum is a coordinate times scale, a power of two
    const float *centroids;      // [restarts][rows][d]
    const unsigned char *active; // [restarts][ks_count]: 1: takes part in this pass
    unsigned char *dense;        // [restarts][ks_count]: 1: takes part, and its K is not served
    const int *ks, *offsets;     // of the list of K: clusters, and the first row of each
    int ks_count, rows;          // rows of one restart
    unsigned long long served;   // a bit for each K: passes are by tiles; else the dense design's
    int sampled;                 // 0: a pass. Else boxes of one group of supertiles in so many are counted, and no sums made
    unsigned long long *sums;    // [restarts][rows][d + 1]: integers; zero before each pass
    double *totals;              // [restarts][rows][d + 1]
    int *items_count;            // [restarts]: open supertiles; zero before each pass
    km_tiles_item *items;        // [restarts][supers * ks_count]
    int *listed;                 // [restarts]: open tiles; zero before each pass
    int *list;                   // [restarts][tiles]
    unsigned long long
        *open;                  // [restarts][tiles]: a bit for each K that the tile is open for; zero before each pass
    void *candidates;           // [restarts][tiles][ks_count] tiles_mask: a bit for each centroid
    unsigned long long *counts; // [restarts][ks_count][TILES_COUNTS]; added to
} km_tiles_args;

#endif
typedef unsigned tiles_mask; // a bit for each centroid of a K

// ... 51 definitions
