// SPDX-License-Identifier: MIT
// How the design `tensor` lays the K list out; for gen/cuda/tensor.c and its test.
#ifndef KM_GEN_CUDA_TENSOR_H
#define KM_GEN_CUDA_TENSOR_H
#include <kmgen/plan.h>

enum { KM_TENSOR_KS_MAX = 256, KM_TENSOR_PARTS_MAX = 32 };

// A launch: rows of matrix products in tiles of 16. A group of lanes, one of eight, has two rows of each tile; the
// first `first` of them are for one K, the others for another. With levels > 0 up to 2^levels groups share a K.
typedef struct km_tensor_launch {
    int tiles, first, levels, rows; // rows: centroids in use
    int members;                    // entries of the K list, where groups share them
    double resolving;               // cycles for ambiguous points, which are decided in double
} km_tensor_launch;

// Where the centroids of a K lie: launch, first group, groups, first row in a group, rows in a group, first sum.
typedef struct km_tensor_place {
    int16_t part, group, span, slot, slots, row;
} km_tensor_place;

typedef struct km_tensor_layout {
    int64_t parts_count;
    km_tensor_launch parts[KM_TENSOR_PARTS_MAX];
    km_tensor_place places[KM_TENSOR_KS_MAX]; // of each K of the list
} km_tensor_layout;

// Lays the K list out over launches of at most so many tiles, for a form of the design; 0 when a K does not fit.
int km_tensor_lay_out(km_tensor_layout *layout, const km_spec *spec, int form, int64_t tiles_max);

#endif
