// SPDX-License-Identifier: MIT
// What the kernels of a starting pass are given beside km_pass_args, whose workspace is their own: a contract with the
// host.
#ifndef KM_STARTER_CUDA_H
#define KM_STARTER_CUDA_H

enum {
    KM_STARTER_THREADS = 128, // of a block of km_starter_pass
    KM_STARTER_POINTS = 384,  // that a block adds in 32 bits: as many integers of 23 bits fit
    KM_STARTER_BINS = 64      // of a feature's histogram, as in templates/cuda/tensor
};

// The list of K is no part of the text: fits of any list share it.
typedef struct km_starter_list {
    const int *ks, *offsets; // ks_count each: K, and the first row of its centroids in a restart
    int ks_count, s;         // s: the sum of the list
} km_starter_list;

// The workspace: exponents and histogram, then the sums [restarts][s][d + 1].
#define KM_STARTER_SUMS_AT(d) ((4LL * (d) * (1 + KM_STARTER_BINS) + 255) / 256 * 256)
// Shared memory of a block of km_starter_pass: rows of centroids, padded, with half their squares; a norm for each K;
// sums in 64 and in 32 bits; integers of the points; their labels; a scale for each feature.
#define KM_STARTER_PITCH(d) (((d) + 1 + 3) / 4 * 4)
#define KM_STARTER_BYTES(d, ks_count, s)                                                                     \
    ((s) * (4LL * KM_STARTER_PITCH(d) + 12LL * ((d) + 1)) + 4LL * ((d) + (ks_count)) +                       \
     KM_STARTER_THREADS * (4LL * ((d) + 1) + 4LL * (ks_count)) + 64)

#endif
