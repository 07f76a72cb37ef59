// SPDX-License-Identifier: MIT
// What kernels of the pass are given and what they leave: the contract with the host that starts them. The host is the
// host part of an emitted file or kmgen's engine; both compile these same lines.
//
// Words. A restart is one start of the whole list of K; a pass serves several at once. A slot is one K of one restart:
// slot = restart * ks_count + k_index. Rows are centroids: those of a slot are restart * S + offset[k_index] and the
// next K - 1. S is the sum of the K list, offset its prefix sums.
//
// The pass. Its kernels read every point once and leave totals[restart][S][d + 1]: for each cluster of each active slot
// the weighted sum of its points (d numbers), then their weight. These are doubles, added in an order that does not
// depend on timing (a fixed order, or integers that the last kernel converts). Every row of an active slot is written,
// also where it is 0; rows of other slots are not read. A point's label is its nearest centroid, of equally near ones
// the lowest index. km_update, one of the steps behind the pass, makes centroids of the totals.
//
// How it is started. The file has
//     extern "C" { __device__ km_pass_facts km_pass = {...}; __device__ km_pass_launch km_pass_launches[] = {...}; }
// and the host starts the launches in that order on one stream, each with one argument of type km_pass_args by value
// (`__grid_constant__ const km_pass_args args`). Launches of KM_STAGE_LOAD run once, when the points are loaded; those
// of KM_STAGE_BEGIN whenever the host may have changed centroids; those of KM_STAGE_PASS in every pass. Grids are
// fixed: a kernel strides over the points.
//
// Every kernel begins with `if (args.control->stop) return;`. The host queues several passes at once: when a slot
// stops, the passes behind that one must cost nothing.
#ifndef KM_ABI_CUDA_H
#define KM_ABI_CUDA_H

enum {
    KM_ABI_VERSION = 3,
    KM_PAD_ROWS = 64,     // Rows after the last point that may be read; they are zero. Weights likewise.
    KM_ALIGN_BYTES = 256, // Alignment of every pointer below.
    KM_CONSTANTS_MAX = 9  // Symbols km_constants, where parts of the source are compiled apart.
};

enum { KM_STAGE_LOAD, KM_STAGE_BEGIN, KM_STAGE_PASS };

typedef struct km_pass_launch {
    char kernel[40]; // its name, declared extern "C"
    int stage;       // KM_STAGE_...
    unsigned grid_x, grid_y, block;
    unsigned shared_bytes; // dynamic shared memory; the host opts in above 48 KiB
    int part; // passed on in km_pass_args: which part of the K list, where a kernel runs several times
} km_pass_launch;

typedef struct km_pass_facts {
    int version;        // KM_ABI_VERSION
    int launches_count; // entries of km_pass_launches
    // args.workspace: fixed + per_point * n bytes, and where points are CSR per_nonzero * their nonzeros.
    long long workspace_bytes;
    long long workspace_bytes_per_point;
    int has_constants; // the source has a symbol km_constants in __constant__ memory
    // So many bytes at its beginning are zeroed before KM_STAGE_LOAD, the others may hold anything. 0: all are zeroed.
    long long workspace_bytes_zero;
    long long workspace_bytes_per_nonzero;
} km_pass_facts;

// What the update leaves for the next pass.
typedef struct km_control {
    int stop;       // not 0: the queued passes do nothing
    int passes;     // passes done
    int passes_max; // stop after so many
    int reserved;
} km_control;

typedef struct km_pass_args {
    const km_control *control;
    const void *points;  // n x d km_real, row by row, centred and scaled
    const void *weights; // n km_real; NULL where points have no weights
    long long n;
    const void *centroids;       // [restarts][S][d] km_real
    const unsigned char *active; // per slot: 1 takes part in this pass
    double *totals;              // [restarts][S][d + 1]
    void *labels; // [slots][labels_stride] km_label; NULL unless labels are kept between passes
    long long labels_stride;
    unsigned long long
        *changes; // per slot: labels that changed (integer atomics); zeroed before each pass; or NULL
    void *workspace;
    // Addresses of the symbol km_constants: of each part of the source that is compiled apart. NULL behind the last,
    // and unless has_constants. All hold the same.
    void *constants[KM_CONSTANTS_MAX];
    const double *box; // 2 x d: the smallest value of each feature, then the largest, as `points` are
    int part;
} km_pass_args;

#endif
