// Of the text of {features: 32, clusters: 256, target: cuda:sm_90, plan: {algorithm: hamerly}}: The algorithm hamerly (whole)
// "..." stands for what a template or an earlier part shows, or what comes again.

// ==== The algorithm hamerly ================================================================================
// Compiled apart: bounds
// ... lines of a template
// ... 7 definitions

#endif
typedef unsigned char bounds_label;

// ... 1 definition

enum {
    BOUNDS_PIECE = D % 4 == 0 && sizeof(km_real) == 4 ? 4
                   : D % 2 == 0                       ? 2
                                                      : 1, // numbers of a point that are read at a time
    BOUNDS_INTEGERS = BOUNDS_SUMS(D)                       // of a cluster
};

// ... 53 definitions
