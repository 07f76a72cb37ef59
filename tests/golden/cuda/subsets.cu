// Of the text of {features: 18, clusters: 8, target: "cuda:sm_90"} subsets=3: Head
// "..." stands for what a template or an earlier part shows, or what comes again.

// ==== Subsets of columns ===================================================================================
// Many small runs at once, each on another subset of the columns of one table. Each size of subset and number of
// clusters has kernels of its own. There is no pass over all columns here, nor its steps: a plan's text has these.
typedef float km_real;

enum {
    D = 18,                     // columns of the table
    WEIGHTED = 0,               // points carry weights
    SUBSET_TILE_POINTS = 64,    // points that a block reads at a time
    SUBSET_REGISTER_BYTES = 512 // centroids of a run up to so many bytes are in registers
};

// ... 7 definitions

#endif
#define KM_BOTH __device__ __forceinline__
// A slot between two passes: what is known of it, and what becomes of it. Host and device compile this.
#ifndef KM_SLOT_H
#define KM_SLOT_H

// ... 18 definitions

#endif
// What the kernels for subsets of columns are given: the contract with the host, as steps.h is of the other steps.
#ifndef KM_SUBSETS_CUDA_H
#define KM_SUBSETS_CUDA_H

// ... 4 definitions

// What becomes of the runs after a pass.
typedef struct km_subsets_update_args {
    const int *active;
    long long count;
    int c, k;
    const double *totals; // [K][C + 1][count]
    void *table, *before; // as above; coordinates as the last pass had them, which relocation goes back to
    long long stride;
    double *weights; // [K][stride]
    const unsigned char
        *given_up;                          // [K][stride]: clusters for which relocation found no point: they may stay empty
    km_slot_state *states;                  // [stride]
    const double *shift_max, *total_square; // [stride]
    long long max_iter;
} km_subsets_update_args;

// ... 1 definition

#endif
// A lane has a run: its columns and centroids, in registers where these hold them, and its sums in shared memory.
// Points come in tiles of whole rows, which all runs of a block read: lanes read a row at a time, each its own
// columns, which lie in different banks or are the same. So a value that is read from memory once serves every run
// of the block.
//
// A label is that of the largest score x . c - |c|^2 / 2, which is -|c|^2 / 2 first and then a multiply-add for
// each column, in their order: as in the CPU's kernels. Sums are of x - c, about the centroid of the label. These
// are short once centroids are near the means, so that a span of points in the points' own type loses no digits of
// a mean; points that all are the same add up to exactly 0. Sums of spans are added as doubles, in their order
// (runs.cu).

// ... 11 definitions

// The last pass: a lane has the best run of a subset and K. Labels are those of the squared distances in double, as
// everywhere. Scores x . c - |c|^2 / 2 find them, and the second-nearest centroid: the number of a centroid is in the
// lowest bits of its score, so that a maximum is both. Where the two best are not farther apart than what rounding and
// these bits may change, the point is ambiguous and resolved in double. Squared distances and sums are of x - c, the
// sums about the centroid of the label: they also say where the mean of the label is. Squares, and quotients of the two
// distances, are added in registers, over all clusters: the host makes margins of the quotients, and takes off those
// of clusters of one point, which is where the mean is.
typedef int subset_bits;

// ... 24 definitions

// Subsets of 3 columns, K = 8.
extern "C" __global__ void __launch_bounds__(128, 4)
    km_subsets_pass_3_8(const __grid_constant__ km_subsets_args args) {
    subset_pass<3, 8, 128>(args);
}
extern "C" __global__ void __launch_bounds__(128, 4)
    km_subsets_finish_3_8(const __grid_constant__ km_subsets_args args) {
    subset_finish<3, 8, 128>(args);
}
static_assert(42016 >=
                      2 * sizeof(subset_tile) + 2 * 8 * subset_rows<3 + 1, 128>::ROW_BYTES &&
                  42016 >=
                      2 * sizeof(subset_tile) +
                          8 * (subset_rows<subset_numbers<3>::COUNT, 128>::ROW_BYTES +
                                  subset_rows<3 + 1, 128>::ROW_BYTES),
              "as the generator counts");

extern "C" {
__device__ km_subsets_launch km_subsets_launches[] = {
    {"km_subsets_pass_3_8", "km_subsets_finish_3_8", 3, 8, 128, 42016,
     128, 42016},
};
__device__ int km_subsets_launches_count = sizeof km_subsets_launches / sizeof *km_subsets_launches;
}
