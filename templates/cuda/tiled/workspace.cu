// SPDX-License-Identifier: MIT
// The workspace.
//@ if has_table
//@ if fp16
typedef unsigned short km_table_number; // of the table of centroids: the bits of a half
//@ else
typedef km_real km_table_number;
//@ end
//@ end
//@ if float64
typedef unsigned long long km_bits; // of a km_real
//@ else
typedef unsigned km_bits;
//@ end

// Bounds on the centroids of a slot, as bits: numbers that are not negative are in the order of their bits.
struct km_slot_bounds {
    km_bits norm;          // the largest |c|
    km_bits relative_loss; // the largest part of |c| that half precision loses
    unsigned ambiguous;    // how many points are in the list
    unsigned unused;
};

struct km_workspace {
    //@ if fp16
    float *scale; // of points and centroids before they are rounded to halves
    //@ end
    km_slot_bounds *slots;
    //@ if has_table
    int *tile_slots;       // the slot of each tile's first row; -1 where no slot of the tile is active
    km_real *half_squares; // |c|^2 / 2 of each row of the table
    km_table_number *table;
    km_real *norms; // |x| of each point
    //@ if fp16
    float *residuals; // |x| less what half precision keeps: the norm of the difference
    //@ end
    //@ end
    km_label *labels; // of each slot, `stride` apart; zeros past the last point
    long long stride;
    //@ if has_lists
    unsigned *lists; // of each slot: its ambiguous points
    //@ end
    char *sums; // of the kernels that add points
};

// Takes the next bytes of the workspace.
__device__ __forceinline__ char *km_take_bytes(char **at, long long bytes) {
    char *taken = *at;
    *at += (bytes + KM_ALIGN_BYTES - 1) / KM_ALIGN_BYTES * KM_ALIGN_BYTES;
    return taken;
}

__device__ __forceinline__ km_workspace km_workspace_of(const km_pass_args &args) {
    km_workspace workspace;
    char *at = (char *)args.workspace;
    //@ if fp16
    workspace.scale = (float *)km_take_bytes(&at, sizeof(float));
    //@ end
    workspace.slots = (km_slot_bounds *)km_take_bytes(&at, RESTARTS * KS * sizeof(km_slot_bounds));
    //@ if has_table
    workspace.tile_slots = (int *)km_take_bytes(&at, TILES * 4ll);
    workspace.half_squares = (km_real *)km_take_bytes(&at, (long long)TILES * TILE * sizeof(km_real));
    workspace.table =
        (km_table_number *)km_take_bytes(&at, (long long)TILES * TILE * PADDED_D * sizeof(km_table_number));
    workspace.norms = (km_real *)km_take_bytes(&at, args.n * sizeof(km_real));
    //@ if fp16
    workspace.residuals = (float *)km_take_bytes(&at, args.n * sizeof(float));
    //@ end
    //@ end
    workspace.stride = (args.n + 255) / 256 * 256;
    workspace.labels =
        (km_label *)km_take_bytes(&at, RESTARTS * KS * workspace.stride * (int)sizeof(km_label));
    //@ if has_lists
    workspace.lists = (unsigned *)km_take_bytes(&at, (long long)RESTARTS * KS * args.n * 4);
    //@ end
    workspace.sums = at;
    return workspace;
}

//@ if has_table
// Where the centroids of a slot are in the table: panels from `begin` to before `end`.
struct km_slot_panels {
    int slot, k;
    int begin, end;
};

__device__ __forceinline__ km_slot_panels km_panels_of(int slot) {
    km_slot_panels panels;
    const int k_index = slot % KS;
    panels.slot = slot;
    panels.k = km_ks[k_index];
    panels.begin = slot / KS * PANELS + km_first_panels[k_index];
    panels.end = panels.begin + (panels.k + PANEL_ROWS - 1) / PANEL_ROWS;
    return panels;
}

// The slot of a panel.
__device__ int km_slot_of(int panel) {
    int low = 0, high = KS - 1;
    while (low < high) {
        const int mid = (low + high + 1) / 2;
        if (km_first_panels[mid] <= panel % PANELS)
            low = mid;
        else
            high = mid - 1;
    }
    return panel / PANELS * KS + low;
}
//@ end

// Adjacent numbers of a point or a centroid, which are read at a time.
struct __align__(PIECE_BYTES) km_piece {
    km_real at[PIECE_BYTES / sizeof(km_real)];
};

// Bytes of the workspace, and bytes for each point, without those of the kernels that add points.
constexpr long long SLOTS_BYTES =
    16 * KM_ALIGN_BYTES + RESTARTS * KS * (256ll * sizeof(km_label) + sizeof(km_slot_bounds));
//@ if has_lists
constexpr long long SLOTS_POINT_BYTES = RESTARTS * KS * ((long long)sizeof(km_label) + 4);
//@ else
constexpr long long SLOTS_POINT_BYTES = RESTARTS * KS * (long long)sizeof(km_label);
//@ end
//@ if has_table
constexpr long long TABLE_BYTES =
    SLOTS_BYTES + TILES * 4ll +
    (long long)TILES * TILE * (sizeof(km_real) + PADDED_D * sizeof(km_table_number));
//@ if fp16
constexpr long long TABLE_POINT_BYTES = 2 * sizeof(float) + SLOTS_POINT_BYTES;
//@ else
constexpr long long TABLE_POINT_BYTES = sizeof(km_real) + SLOTS_POINT_BYTES;
//@ end
//@ else
constexpr long long TABLE_BYTES = SLOTS_BYTES, TABLE_POINT_BYTES = SLOTS_POINT_BYTES;
//@ end
