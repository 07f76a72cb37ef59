// Of the text of {features: 24, clusters: 2, target: cuda:sm_90, plan: {design: registers}}: The pass
// "..." stands for what a template or an earlier part shows.

// ... 22 definitions

// Where a warp puts 32 pieces from `first` on, a lane each.
static __device__ __forceinline__ unsigned km_place(unsigned first, unsigned lane) {
    const unsigned row = (first + lane) / PIECES;
    return row * PIECES + ((first + lane) % PIECES ^ km_turn(row));
}

// ... 27 definitions
