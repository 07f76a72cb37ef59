// SPDX-License-Identifier: MIT
//@ need type label_type d s ks_count k_max concurrent_restarts weighted float64 ks
// ==== Numbers and types
typedef $type km_real;

enum {
    D = $d,              // features
    WEIGHTED = $weighted // points carry weights
};

// ==== The list of K
// Compiled apart: pass
typedef $label_type km_label; // one label of one point, where labels are kept between passes

enum {
    S = $s,                         // clusters of one restart: the sum of the K list
    KS = $ks_count,                 // entries of the K list
    K_MAX = $k_max,                 // the largest of them
    RESTARTS = $concurrent_restarts // of each K, in one pass
};

// The K list, and the first row of each K's centroids in a restart.
__constant__ const int km_ks[KS] = {
    //@ for k in ks
    $k,
    //@ end
};
__constant__ const int km_offsets[KS] = {
    //@ for k in ks
    $k_offset,
    //@ end
};

// ==== What the kernels of a pass are given
//@ verbatim cuda/abi.h

// ==== The pass
// Compiled apart: pass
