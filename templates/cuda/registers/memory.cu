// SPDX-License-Identifier: MIT
// Data in a thread's registers, in shared memory, and in the workspace.

struct __align__(16) km_vector {
    km_real at[VECTOR];
};

// The points that a thread works on.
struct km_points {
    km_real x[POINTS][$lane_d_name];
    //@ if weighted
    km_real weight[POINTS]; // 0 for padding
    //@ end
    //@ if track_labels
    int label[POINTS]; // for the K that is worked on
    //@ end
};

// Coefficients of a score: it is constant + x . factors. It is 0 where the centroid and its pivot are equally near.
struct __align__(16) km_coefficients {
    km_real factors[$lane_d_name];
    km_real constant;
};

// The coefficients of all scores; computed again after each update.
struct km_table {
    //@ if lanes_share_point
    km_coefficients
        coefficients[COEFFICIENTS *
                     LANES_PER_POINT]; // of each centroid but the pivots: those of the lanes of a point
                                       // are adjacent
    //@ else
    km_coefficients coefficients[COEFFICIENTS]; // of each centroid but the pivots
    //@ end
    int pivots[KS];
};
//@ if form_constant
__constant__ km_table km_constants;
//@ end

//@ if ring
// The points of a tile of $stage_text.
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
    km_real gathered[BLOCK / 32][GATHERED][33]; // of a warp; rows of 33: no bank conflicts
    double warp_sums[BLOCK / 32][WARP_SUMS];
    //@ if not form_constant
    km_table table;
    //@ end
};

//@ if weighted
// Each sum of a block has a column. For each K: D sums and the weight of each cluster but the pivot, then the pivot's
// weight. At the end: the sums over all points. This is the first column of each K.
//@ else
// Each sum of a block has a column. For each K: D sums and the weight of each cluster but the pivot. At the end: the
// sums over all points. This is the first column of each K.
//@ end
__device__ const int km_columns[KS] = {
    //@ for k in ks
    $k_column,
    //@ end
};

//@ if form_constant
// The workspace holds, for each column, one number of each block.
//@ else
// The workspace holds the table of each restart; then, for each restart and column, one number of each block.
//@ end
static __device__ __forceinline__ double *km_column(const km_pass_args &args, int column) {
    //@ if form_constant
    return (double *)args.workspace + (long long)column * GRID;
    //@ else
    double *columns = (double *)((km_table *)args.workspace + RESTARTS);
    return columns + ((long long)blockIdx.y * COLUMNS + column) * GRID;
    //@ end
}

//@ if form_constant
// The table as kernels between two passes write it: constant memory has an address, too.
//@ else
// The table of one restart, as kernels between two passes write it.
//@ end
static __device__ __forceinline__ km_table *km_table_of(void *workspace, void *const *constants,
                                                        int restart) {
    //@ if form_constant
    return (km_table *)constants[0];
    //@ else
    return (km_table *)workspace + restart;
    //@ end
}

// The coefficients of one K.
static __device__ __forceinline__ km_coefficients *km_coefficients_of(km_table *table, int k_index) {
    return table->coefficients + $first_coefficients;
}

// How many tiles the points have; the last one is padded.
static __device__ __forceinline__ int km_tiles(const km_pass_args &args) {
    return (int)((args.n + TILE - 1) / TILE);
}

// The warp's first point of a tile.
static __device__ __forceinline__ long long km_first_point_of_warp(int tile) {
    return (long long)tile * TILE + $warp * WARP_POINTS;
}

//@ if needs_first_point
// The thread's first point of a tile.
static __device__ __forceinline__ long long km_first_point(int tile) {
    const int lane = threadIdx.x % 32;
    return km_first_point_of_warp(tile) + $lane_point;
}

//@ end
//@ if writes_labels
// The index of point r of the thread, less that of its first point.
static __device__ __forceinline__ constexpr int km_point_offset(int r) {
    //@ if adjacent_points
    return r / ADJACENT * LOAD_POINTS + r % ADJACENT;
    //@ else
    return r * LOAD_POINTS;
    //@ end
}

//@ end
