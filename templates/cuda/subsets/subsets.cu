// SPDX-License-Identifier: MIT
//@ need type weighted float64 d tile_points register_bytes shapes
// ==== Subsets of columns
// Many small runs at once, each on another subset of the columns of one table. Each size of subset and number of
// clusters has kernels of its own. There is no pass over all columns here, nor its steps: a plan's text has these.
typedef $type km_real;

enum {
    D = $d,                                 // columns of the table
    WEIGHTED = $weighted,                   // points carry weights
    SUBSET_TILE_POINTS = $tile_points,      // points that a block reads at a time
    SUBSET_REGISTER_BYTES = $register_bytes // centroids of a run up to so many bytes are in registers
};

//@ verbatim cuda/abi.h
#define KM_BOTH __device__ __forceinline__
//@ verbatim slot.h
//@ verbatim cuda/steps.h
//@ verbatim cuda/subsets.h
//@ include cuda/subsets/pass.cu

//@ include cuda/subsets/finish.cu

//@ include cuda/subsets/runs.cu

//@ for s in shapes
// Subsets of $s_c columns, K = $s_k.
extern "C" __global__ void __launch_bounds__($s_pass_block, $s_pass_blocks)
    km_subsets_pass_$s_c_$s_k(const __grid_constant__ km_subsets_args args) {
    subset_pass<$s_c, $s_k, $s_pass_block>(args);
}
extern "C" __global__ void __launch_bounds__($s_finish_block, $s_finish_blocks)
    km_subsets_finish_$s_c_$s_k(const __grid_constant__ km_subsets_args args) {
    subset_finish<$s_c, $s_k, $s_finish_block>(args);
}
static_assert($s_pass_bytes >=
                      2 * sizeof(subset_tile) + 2 * $s_k * subset_rows<$s_c + 1, $s_pass_block>::ROW_BYTES &&
                  $s_finish_bytes >=
                      2 * sizeof(subset_tile) +
                          $s_k * (subset_rows<subset_numbers<$s_c>::COUNT, $s_finish_block>::ROW_BYTES +
                                  subset_rows<$s_c + 1, $s_finish_block>::ROW_BYTES),
              "as the generator counts");

//@ end
extern "C" {
__device__ km_subsets_launch km_subsets_launches[] = {
    //@ for s in shapes
    {"km_subsets_pass_$s_c_$s_k", "km_subsets_finish_$s_c_$s_k", $s_c, $s_k, $s_pass_block, $s_pass_bytes,
     $s_finish_block, $s_finish_bytes},
    //@ end
};
__device__ int km_subsets_launches_count = sizeof km_subsets_launches / sizeof *km_subsets_launches;
}
