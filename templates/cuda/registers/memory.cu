// SPDX-License-Identifier: MIT
// What stands where: in a thread's registers, in shared memory, in the workspace.

struct __align__(16) km_vector {
    km_real at[VECTOR];
};

// The points that a thread works on.
struct km_points {
    km_real x[POINTS][$own_name];
    //@ if weighted
    km_real weight[POINTS]; // 0 for padding
    //@ end
    //@ if track_labels
    int label[POINTS]; // of the K at hand
    //@ end
};

// What a score is made of: it is constant + x . factors. Halfway between a centroid and its pivot lies the plane on
// which that is 0.
struct __align__(16) km_plane {
    km_real factors[$own_name];
    km_real constant;
};

// What all scores are made of; made anew after each update.
struct km_table {
    //@ if teamed
    km_plane planes[PLANES * TEAM]; // of each centroid but the pivots, those of a team's lanes side by side
    //@ else
    km_plane planes[PLANES]; // of each centroid but the pivots
    //@ end
    int pivots[KS];
};
//@ if const_planes
__constant__ km_table km_constants;
//@ end

//@ if ring
// A tile's points of $stage_text.
struct km_stage {
    km_vector pieces[LOADS * 32 * PIECES];
    //@ if weighted
    __align__(16) km_real weights[LOADS][$row_weights];
    //@ end
};

//@ end
// What the threads of a block share.
struct km_block {
    //@ if ring
    km_stage ring[WARPS][STAGES];
    //@ end
    km_real gathered[BLOCK / 32][GATHERED][33]; // of a warp; rows of 33: its lanes meet in no bank
    double warp_sums[BLOCK / 32][WARP_SUMS];
    //@ if not const_planes
    km_table table;
    //@ end
};

//@ if weighted
// Sums of a block lie in columns: for each K those of its clusters but the pivot, D sums and the weight each, and the
// pivot's weight; at the end those over all points. Here is the first column of each K.
//@ else
// Sums of a block lie in columns: for each K those of its clusters but the pivot, D sums and the weight each; at the
// end those over all points. Here is the first column of each K.
//@ end
__device__ const int km_columns[KS] = {
    //@ for k in ks
    $k_column,
    //@ end
};

//@ if const_planes
// The workspace has for each column one number of each block.
//@ else
// The workspace: the table of each restart in flight; then of each restart, for each column, one number of each block.
//@ end
static __device__ __forceinline__ double *km_column(const km_pass_args &args, int column) {
    //@ if const_planes
    return (double *)args.workspace + (long long)column * GRID;
    //@ else
    double *columns = (double *)((km_table *)args.workspace + RESTARTS);
    return columns + ((long long)blockIdx.y * COLUMNS + column) * GRID;
    //@ end
}

//@ if const_planes
// The table, to be written: constant memory has an address, too, by which kernels between two passes write it.
//@ else
// The table of one restart in flight, as kernels between two passes write it.
//@ end
static __device__ __forceinline__ km_table *km_table_of(void *workspace, void *constants, int copy) {
    //@ if const_planes
    return (km_table *)constants;
    //@ else
    return (km_table *)workspace + copy;
    //@ end
}

// The planes of one K.
static __device__ __forceinline__ km_plane *km_planes_of(km_table *table, int k_index) {
    return table->planes + $first_plane;
}

// Tiles of the points, the last one filled up.
static __device__ __forceinline__ int km_tiles(const km_pass_args &args) {
    return (int)((args.n + TILE - 1) / TILE);
}

// The warp's first point of a tile.
static __device__ __forceinline__ long long km_first_of_warp(int tile) {
    return (long long)tile * TILE + $warp * WARP_POINTS;
}

//@ if indexed
// The thread's first point of a tile.
static __device__ __forceinline__ long long km_first(int tile) {
    const int lane = threadIdx.x % 32;
    return km_first_of_warp(tile) + $lane_point;
}

//@ end
//@ if labelled
// How far point r of the thread lies behind its first.
static __device__ __forceinline__ constexpr int km_step(int r) {
    //@ if side_by_side
    return r / RUN * LOAD_POINTS + r % RUN;
    //@ else
    return r * LOAD_POINTS;
    //@ end
}

//@ end
