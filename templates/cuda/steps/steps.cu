// SPDX-License-Identifier: MIT
// ==== The steps around the pass
// Steps around the pass, the same for every design.
#define KM_BOTH __device__ __forceinline__
//@ verbatim draws.h
//@ verbatim slot.h
//@ verbatim cuda/steps.h
//@ include cuda/steps/sums.cu
//@ include cuda/steps/load.cu
//@ include cuda/steps/seed.cu
//@ include cuda/steps/finish.cu
//@ include cuda/steps/silhouette.cu
//@ include cuda/steps/relocate.cu
//@ include cuda/steps/update.cu
