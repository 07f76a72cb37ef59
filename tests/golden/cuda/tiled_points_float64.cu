// Of the text of {features: 4, clusters: 100, type: float64, target: cuda:sm_90} tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 24 definitions

enum {
    CHUNKS = 264, // blocks of a slot
    SUM_BLOCK = 1024,
    DIGITS = 4, // of a number
    SUM_BITS = 16 * DIGITS - 3,
    WORDS = D * DIGITS + 1, // sums of a cluster; the last counts its points
    ROW_WORDS = 17,         // from row to row in shared memory: an odd number, for its banks
    FLUSH_POINTS = 65536    // points after which a block adds its rows to those in global memory
};
constexpr long long SUMS_BYTES = 8ll * RESTARTS * S * WORDS;
constexpr long long SUMS_POINT_BYTES = 0;

// ... 4 definitions
