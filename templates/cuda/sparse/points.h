// SPDX-License-Identifier: MIT
// Points as CSR on the device: what args.points is the address of, in every kernel of a file for sparse points. Row i's
// nonzeros are in the order of their columns. Rows lie in chunks of KM_SPARSE_CHUNK: starts are counted from the first
// nonzero of the chunk, and each chunk has one more of them, its end.
#ifndef KM_SPARSE_POINTS_CUDA_H
#define KM_SPARSE_POINTS_CUDA_H

enum {
    KM_SPARSE_CHUNK = 65536,
    KM_SPARSE_LONG = 4096 // rows with more nonzeros are long: a block works on one, not a warp
};

typedef struct km_sparse_table {
    const long long *chunk_first; // chunks + 1
    const unsigned *starts;       // chunks x (KM_SPARSE_CHUNK + 1)
    const void *indices;          // columns: unsigned numbers of 1, 2 or 4 bytes
    const void *values;           // km_real
    const float *norms;           // |x| of each point, rounded up
    const long long *long_rows;   // their numbers
    long long long_count;
} km_sparse_table;

#endif
