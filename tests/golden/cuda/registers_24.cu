// Of the text of {features: 24, clusters: 2, target: cuda:sm_90, plan: {design: registers}}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 34 definitions

// Where a lane puts its piece, of the warp's 32 pieces from `first` on.
static __device__ __forceinline__ unsigned km_piece_index(unsigned first, unsigned lane) {
    const unsigned row = (first + lane) / PIECES;
    return row * PIECES + ((first + lane) % PIECES ^ km_swizzle(row));
}

// ... 31 definitions
