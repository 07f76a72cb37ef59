// SPDX-License-Identifier: MIT
//@ need tiles_mask
// ==== The algorithm tiles
// Compiled apart: tiles
//@ verbatim cuda/tiles.h
typedef $tiles_mask tiles_mask; // a bit for each centroid of a K

//@ include cuda/tiles/words.cu

//@ include cuda/tiles/order.cu

//@ include cuda/tiles/fill.cu

//@ include cuda/tiles/boxes.cu

//@ include cuda/tiles/points.cu
