// SPDX-License-Identifier: MIT
// What the kernels for subsets of columns are given: the contract with the host, as steps.h is of the other steps.
#ifndef KM_SUBSETS_CUDA_H
#define KM_SUBSETS_CUDA_H

enum {
    KM_SPAN_POINTS = 2048, // points whose sums one thread adds in the points' type, at most
    KM_SPAN_ALIGN = 64     // a span begins at a multiple of so many points
};

// Points that lie together. Spans do not depend on the device, and so the sums do not, either.
typedef struct km_span {
    long long first; // a multiple of KM_SPAN_ALIGN
    int count;       // KM_SPAN_POINTS at most
    int reserved;
} km_span;

// Numbers of the last pass. Of each cluster: C sums of w (x - c); the weight; where points have weights how many points
// there are; where there are values the sums of w y and w y^2. Behind all clusters the sum of w d1 / d2, of the
// distances to the nearest and the second-nearest centroid (a margin is w less that), then the squares.
enum { KM_SUBSET_VALUES = 2 };

// Tables of runs lie by number: number i of run r is at [i * stride + r], so that the lanes of a warp, which have a run
// each, read what is adjacent. Of cluster j of a subset of C columns: C coordinates, then -|c|^2 / 2, from number
// j * (C + 1) on.
typedef struct km_subsets_args {
    const void *points;   // n x D km_real, row by row
    const void *weights;  // n km_real; NULL: all weigh 1
    const double *values; // n numbers of the outcome, for the last pass; NULL: none
    const km_span *spans;
    long long spans_count;
    const int *active;  // the runs of this launch ...
    long long count;    // ... and how many
    const int *columns; // [C][stride]
    void *table;        // [K][C + 1][stride] km_real
    long long stride;
    void *partial; // [spans][numbers][count]: a thread's sums; km_real, in the last pass doubles
} km_subsets_args;

// What becomes of the runs after a pass.
typedef struct km_subsets_update_args {
    const int *active;
    long long count;
    int c, k;
    const double *totals; // [K][C + 1][count]
    void *table, *before; // as above; coordinates as the last pass had them, which relocation goes back to
    long long stride;
    double *weights; // [K][stride]
    const unsigned char
        *given_up;         // [K][stride]: clusters for which relocation found no point: they may stay empty
    km_slot_state *states; // [stride]
    const double *shift_max, *total_square; // [stride]
    long long max_iter;
} km_subsets_update_args;

// A pair of sizes with kernels of its own.
typedef struct km_subsets_launch {
    char pass[40], finish[40]; // their names, declared extern "C"
    int c, k;
    unsigned pass_block, pass_bytes;     // threads, and dynamic shared memory
    unsigned finish_block, finish_bytes; // the same of the last pass
} km_subsets_launch;

#endif
