// SPDX-License-Identifier: MIT
//@ need label_type algorithm elkan
// ==== The algorithm $algorithm
// Compiled apart: bounds
//@ verbatim cuda/bounds.h
typedef $label_type bounds_label;

//@ include cuda/bounds/words.cu

//@ include cuda/bounds/centroids.cu

//@ include cuda/bounds/list.cu

//@ if elkan
//@ include cuda/bounds/elkan.cu

//@ end
//@ include cuda/bounds/score.cu

//@ include cuda/bounds/resolve.cu
