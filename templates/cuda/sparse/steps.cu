// SPDX-License-Identifier: MIT
// ==== The steps around the pass
// As for dense points (cuda/steps), by the same names and with the same arguments; but points are a km_sparse_table,
// and some kernels take a table of columns as well: D rows of doubles, one for each feature, and behind them
// |c|^2 / 2 of each column. Distances are double: |x|^2 - 2 x.c + |c|^2, and x.c is a chain of fma over the nonzeros
// in their order.
#define KM_BOTH __device__ __forceinline__
//@ verbatim draws.h
//@ verbatim slot.h
//@ verbatim cuda/steps.h
//@ include cuda/steps/sums.cu
//@ include cuda/steps/chunks.cu

//@ include cuda/steps/weights.cu

//@ include cuda/sparse/columns.cu

//@ include cuda/sparse/seed.cu

//@ include cuda/sparse/finish.cu

//@ include cuda/sparse/silhouette.cu

//@ include cuda/sparse/relocate.cu

//@ include cuda/steps/update.cu
