// SPDX-License-Identifier: MIT
// The workspace.
typedef $index_type km_index; // a column of a nonzero
//@ if float64
typedef unsigned long long km_bits; // of a km_real
//@ else
typedef unsigned km_bits;
//@ end

//@ if float64
__device__ __forceinline__ double km_value_of(km_bits bits) {
    return __longlong_as_double((long long)bits);
}
//@ else
__device__ __forceinline__ float km_value_of(km_bits bits) {
    return __uint_as_float(bits);
}
//@ end

struct km_slot_note {
    km_bits norm; // the largest |c|, as bits: numbers that are not negative are in the order of their bits
    int begun;    // labels and sums of a pass are there
};

struct km_progress {
    unsigned next_tile; // to be taken by a warp
    unsigned unused;
    unsigned long long weight_bits; // of the largest weight
};

struct km_workspace {
    km_progress *progress;
    km_slot_note *slots;
    unsigned long long
        *sums;      // [COLUMNS][D + 1][INTEGERS]; the last is the weight. Up to here zero in the beginning.
    double *scales; // [D + 1]: what a value is multiplied by to be an integer; powers of two
    double *halves; // |c|^2 / 2 of each column ...
    km_real *real_halves; // ... and in the plan's type
    km_real *table;       // [PANELS][D][PITCH]
    //@ if not track_labels
    km_label *labels; // of each slot, `stride` apart
    //@ end
    long long stride;
};

__host__ __device__ constexpr long long km_aligned(long long bytes) {
    return (bytes + KM_ALIGN_BYTES - 1) / KM_ALIGN_BYTES * KM_ALIGN_BYTES;
}

constexpr long long SUMS = (long long)COLUMNS * (D + 1ll) * INTEGERS;
constexpr long long WORKSPACE_ZERO_BYTES = km_aligned(sizeof(km_progress)) +
                                           km_aligned(SLOTS * (long long)sizeof(km_slot_note)) +
                                           km_aligned(8 * SUMS);
constexpr long long TABLE_NUMBERS = (long long)PANELS * D * PITCH;
//@ if track_labels
constexpr long long WORKSPACE_POINT_BYTES = 0;
//@ else
constexpr long long WORKSPACE_POINT_BYTES = SLOTS * (long long)sizeof(km_label);
//@ end
constexpr long long WORKSPACE_BYTES =
    WORKSPACE_ZERO_BYTES + km_aligned(8 * (D + 1ll)) + km_aligned(8ll * PANELS * PANEL) +
    km_aligned(PANELS * PANEL * (long long)sizeof(km_real)) +
    km_aligned(TABLE_NUMBERS * (long long)sizeof(km_real)) + KM_ALIGN_BYTES * WORKSPACE_POINT_BYTES;

// Takes the next bytes of the workspace.
__device__ __forceinline__ char *km_take_bytes(char **at, long long bytes) {
    char *taken = *at;
    *at += km_aligned(bytes);
    return taken;
}

__device__ __forceinline__ km_workspace km_workspace_of(const km_pass_args &args) {
    km_workspace workspace;
    char *at = (char *)args.workspace;
    workspace.progress = (km_progress *)km_take_bytes(&at, sizeof(km_progress));
    workspace.slots = (km_slot_note *)km_take_bytes(&at, SLOTS * (long long)sizeof(km_slot_note));
    workspace.sums = (unsigned long long *)km_take_bytes(&at, 8 * SUMS);
    workspace.scales = (double *)km_take_bytes(&at, 8 * (D + 1ll));
    workspace.halves = (double *)km_take_bytes(&at, 8ll * PANELS * PANEL);
    workspace.real_halves = (km_real *)km_take_bytes(&at, PANELS * PANEL * (long long)sizeof(km_real));
    workspace.table = (km_real *)km_take_bytes(&at, TABLE_NUMBERS * (long long)sizeof(km_real));
    //@ if not track_labels
    workspace.labels = (km_label *)at;
    //@ end
    workspace.stride = (args.n + KM_ALIGN_BYTES - 1) / KM_ALIGN_BYTES * KM_ALIGN_BYTES;
    return workspace;
}

// The labels of a slot.
__device__ __forceinline__ km_label *km_labels_of(const km_pass_args &args, const km_workspace &workspace,
                                                  int slot) {
    //@ if track_labels
    return (km_label *)args.labels + slot * args.labels_stride;
    //@ else
    return workspace.labels + slot * workspace.stride;
    //@ end
}

// The first column of a slot.
__device__ __forceinline__ int km_first_column(int slot) {
    return slot / KS * S + km_offsets[slot % KS];
}

// The slot of a column.
__device__ __forceinline__ int km_slot_of(int column) {
    int low = 0, high = KS - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (km_offsets[middle] <= column % S)
            low = middle;
        else
            high = middle - 1;
    }
    return column / S * KS + low;
}

// Where a point's nonzeros are.
struct km_row {
    long long begin;
    unsigned count;
};

__device__ __forceinline__ km_row km_row_of(const km_sparse_table &points, long long i) {
    const long long chunk = i / KM_SPARSE_CHUNK;
    const unsigned *starts = points.starts + chunk * (KM_SPARSE_CHUNK + 1ll) + i % KM_SPARSE_CHUNK;
    const unsigned first = starts[0];
    return {points.chunk_first[chunk] + first, starts[1] - first};
}
