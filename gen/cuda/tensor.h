// SPDX-License-Identifier: MIT
// How the design `tensor` lays the K list out; for gen/cuda/tensor.c and its test.
#ifndef KM_GEN_CUDA_TENSOR_H
#define KM_GEN_CUDA_TENSOR_H
#include <kmgen/plan.h>

enum { KM_TENSOR_KS_MAX = 256, KM_TENSOR_LAUNCHES_MAX = 32 };

// A launch: its matrix products have row_tiles x 16 rows. A warp has eight quads of four lanes, and a quad has the
// scores of two rows of each row tile: the first `first_rows` of these are for one K, the others for another. With
// levels > 0 up to 2^levels quads share a K.
typedef struct km_tensor_launch {
    int row_tiles, first_rows, levels;
    int sum_rows;            // rows of sums: centroids
    int ks_count;            // entries of the K list, where quads share a K
    double resolving_cycles; // for ambiguous points, which are resolved in double
} km_tensor_launch;

// Where the centroids of a K are: launch, first quad, quads, first row of scores in a quad, rows in a quad, first row
// of sums.
typedef struct km_tensor_k_layout {
    int16_t launch, quad, quads, score_row, score_rows, sum_row;
} km_tensor_k_layout;

typedef struct km_tensor_layout {
    int64_t launches_count;
    km_tensor_launch launches[KM_TENSOR_LAUNCHES_MAX];
    km_tensor_k_layout ks[KM_TENSOR_KS_MAX]; // of each K of the list
} km_tensor_layout;

// Lays the K list out over launches of at most so many row tiles, for a form of the design; 0 when a K does not fit.
int km_tensor_lay_out(km_tensor_layout *layout, const km_spec *spec, int form, int64_t row_tiles_max);

#endif
