// SPDX-License-Identifier: MIT
// The workspace.
typedef $index_type km_index; // a column of a nonzero
//@ if float64
typedef unsigned long long km_bits; // of a km_real
//@ else
typedef unsigned km_bits;
//@ end

//@ if not form_expanded
//@ if float64
__device__ __forceinline__ double km_value_of(km_bits bits) {
    return __longlong_as_double((long long)bits);
}
//@ else
__device__ __forceinline__ float km_value_of(km_bits bits) {
    return __uint_as_float(bits);
}
//@ end
//@ end

struct km_slot_note {
    km_bits norm; // the largest |c|, as bits: numbers that are not negative are in the order of their bits
    int begun;    // labels and sums of a pass are there
};

//@ if form_expanded
// What bounds twice the error of a score of a slot: for each 1 of |x|, of 1,024 times the length that rounding took
// from x, and of 1.
struct __align__(16) km_margin {
    float by_norm, by_rest, least, unused;
};

//@ end
struct km_progress {
    unsigned next_tile; // to be taken by a warp
    unsigned unused;
    unsigned long long weight_bits; // of the largest weight
    //@ if sums_anew
    unsigned long long
        changes[2]; // labels that changed in the pass before, and in this one; a first label is a change
    //@ end
};

struct km_workspace {
    km_progress *progress;
    km_slot_note *slots;
    unsigned long long *sums; // [COLUMNS][D + 1][INTEGERS]; the last is the weight
    //@ if form_expanded
    unsigned long long *exponents; // [2][D]: of each feature's values, added up; and how many
    //@ end
    // Up to here zero in the beginning.
    double *scales; // [D + 1]: what a value is multiplied by to be an integer; powers of two
    double *halves; // |c|^2 / 2 of each column ...
    //@ if form_expanded
    km_margin *margins; // of each slot
    uint2 *fragments;   // [RESTARTS][FRAGMENT_TILES][STEPS][32]
    unsigned *bounds;   // of each point (entries.cu)
    uint2 *tiles;       // of each 32 points: its first entry and how many, both in fours
    unsigned *entries;  // of each nonzero: its place in the tile, in bytes, and its value as a half
    int *numbers;       // of each nonzero: what its cluster's sum gets; LARGE: more than 31 bits
    //@ else
    km_real *real_halves; // ... and in the plan's type
    km_real *table;       // [PANELS][D][PITCH]
    //@ end
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
                                           //@ if form_expanded
                                           km_aligned(16ll * D) +
                                           //@ end
                                           km_aligned(8 * SUMS);
//@ if track_labels
constexpr long long LABELS_POINT_BYTES = 0;
//@ else
constexpr long long LABELS_POINT_BYTES = SLOTS * (long long)sizeof(km_label);
//@ end
//@ if form_expanded
constexpr long long FRAGMENTS_BYTES =
    RESTARTS * (long long)FRAGMENT_TILES * STEPS * 32 * (long long)sizeof(uint2);
// A point's bound and its own entry, a tile's place and the entries that fill it up.
constexpr long long WORKSPACE_POINT_BYTES = LABELS_POINT_BYTES + 4 + 8 * POINT_ENTRIES + 2,
                    WORKSPACE_NONZERO_BYTES = 8;
constexpr long long WORKSPACE_BYTES =
    WORKSPACE_ZERO_BYTES + km_aligned(8 * (D + 1ll)) + km_aligned(8ll * COLUMNS) +
    km_aligned(SLOTS * (long long)sizeof(km_margin)) + km_aligned(FRAGMENTS_BYTES) + 8 * KM_ALIGN_BYTES +
    KM_ALIGN_BYTES * WORKSPACE_POINT_BYTES;
//@ else
constexpr long long TABLE_NUMBERS = (long long)PANELS * D * PITCH;
constexpr long long WORKSPACE_POINT_BYTES = LABELS_POINT_BYTES;
constexpr long long WORKSPACE_BYTES =
    WORKSPACE_ZERO_BYTES + km_aligned(8 * (D + 1ll)) + km_aligned(8ll * PANELS * PANEL) +
    km_aligned(PANELS * PANEL * (long long)sizeof(km_real)) +
    km_aligned(TABLE_NUMBERS * (long long)sizeof(km_real)) + KM_ALIGN_BYTES * WORKSPACE_POINT_BYTES;
//@ end

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
    //@ if form_expanded
    workspace.exponents = (unsigned long long *)km_take_bytes(&at, 16ll * D);
    //@ end
    workspace.scales = (double *)km_take_bytes(&at, 8 * (D + 1ll));
    //@ if form_expanded
    workspace.halves = (double *)km_take_bytes(&at, 8ll * COLUMNS);
    workspace.margins = (km_margin *)km_take_bytes(&at, SLOTS * (long long)sizeof(km_margin));
    workspace.fragments = (uint2 *)km_take_bytes(&at, FRAGMENTS_BYTES);
    //@ else
    workspace.halves = (double *)km_take_bytes(&at, 8ll * PANELS * PANEL);
    workspace.real_halves = (km_real *)km_take_bytes(&at, PANELS * PANEL * (long long)sizeof(km_real));
    workspace.table = (km_real *)km_take_bytes(&at, TABLE_NUMBERS * (long long)sizeof(km_real));
    //@ end
    workspace.stride = km_aligned(args.n);
    //@ if not track_labels
    workspace.labels = (km_label *)km_take_bytes(&at, LABELS_POINT_BYTES * workspace.stride);
    //@ end
    //@ if form_expanded
    workspace.bounds = (unsigned *)km_take_bytes(&at, 4 * workspace.stride);
    const km_sparse_table &points = *(const km_sparse_table *)args.points;
    const long long tiles = (args.n + TILE - 1) / TILE,
                    nonzeros = points.chunk_first[(args.n + KM_SPARSE_CHUNK - 1) / KM_SPARSE_CHUNK];
    workspace.tiles = (uint2 *)km_take_bytes(&at, 8 * tiles);
    workspace.entries =
        (unsigned *)km_take_bytes(&at, 4 * (nonzeros + POINT_ENTRIES * args.n + 4 * (tiles + 1)));
    workspace.numbers = (int *)at;
    //@ end
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

//@ if sums_anew
// Whether a pass makes the sums of all points anew (masks.cu), which takes the same time whatever changed, instead of
// moving those whose label changed: as many as in the pass before, and in a first pass all, which are not taken away.
__device__ __forceinline__ bool km_sums_anew(const km_workspace &workspace, long long n) {
    const unsigned long long changes =
        workspace.slots[0].begun ? workspace.progress->changes[0] : SLOTS * (unsigned long long)n / 2;
    return changes * 1024.0 > ANEW_CHANGES * (double)n;
}

//@ end
// The first column of a slot.
__device__ __forceinline__ int km_first_column(int slot) {
    return slot / KS * S + km_offsets[slot % KS];
}

// The slot of a column.
__device__ __forceinline__ int km_slot_of(int column) {
    int low = 0, high = KS - 1;
    while (low < high) {
        const int mid = (low + high + 1) / 2;
        if (km_offsets[mid] <= column % S)
            low = mid;
        else
            high = mid - 1;
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
