// SPDX-License-Identifier: MIT
//@ need type label_type d s ks_count k_max copies weighted track_labels float64 ks
typedef $type km_real;
typedef $label_type km_label; // one label of one point, where labels are kept between passes

enum {
    D = $d,               // features
    S = $s,               // clusters of one copy: the sum of the K list
    KS = $ks_count,       // entries of the K list
    K_MAX = $k_max,       // the largest of them
    COPIES = $copies,     // restarts in flight
    WEIGHTED = $weighted, // points carry weights
    TRACK = $track_labels // labels are kept between passes
};
//@ verbatim abi_cuda.h

// The K list and where each K's centroids start.
__device__ const int km_ks[KS] = {
    //@ for k in ks
    $k,
    //@ end
};
__device__ const int km_offsets[KS] = {
    //@ for k in ks
    $k_offset,
    //@ end
};
