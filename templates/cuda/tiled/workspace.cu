// SPDX-License-Identifier: MIT
// The workspace.
//@ if fp16
typedef unsigned short km_table_number; // of the table of centroids: half precision, as bits
//@ else
typedef km_real km_table_number;
//@ end
//@ if float64
typedef unsigned long long km_bits; // of a km_real
//@ else
typedef unsigned km_bits;
//@ end

// What is known of the centroids of a slot. Bits of a number that is not negative are in the order of the numbers.
struct km_slot_bounds {
    km_bits norm;       // the largest |c|
    km_bits coarse;     // the largest share of |c| that half precision loses
    unsigned ambiguous; // points that are listed
    unsigned unused;
};

struct km_workspace {
    //@ if fp16
    float *scale; // of points and centroids in half precision
    //@ end
    km_slot_bounds *slots;
    int *tile_slots;       // the slot of a tile's first row; -1 where no slot of the tile is active
    km_real *half_squares; // |c|^2 / 2 of each row of the table
    km_table_number *table;
    km_real *norms; // |x| of each point
    //@ if fp16
    float *residuals; // what half precision loses of it
    //@ end
    km_label *labels; // of each slot, `stride` apart: past the last point come zeros
    long long stride;
    unsigned *lists; // of each slot: its ambiguous points
    char *sums;      // what adding needs
};

// The next bytes of the workspace.
__device__ __forceinline__ char *km_take(char **at, long long bytes) {
    char *taken = *at;
    *at += (bytes + KM_ALIGN_BYTES - 1) / KM_ALIGN_BYTES * KM_ALIGN_BYTES;
    return taken;
}

__device__ __forceinline__ km_workspace km_workspace_of(const km_pass_args &args) {
    km_workspace workspace;
    char *at = (char *)args.workspace;
    //@ if fp16
    workspace.scale = (float *)km_take(&at, sizeof(float));
    //@ end
    workspace.slots = (km_slot_bounds *)km_take(&at, RESTARTS * KS * sizeof(km_slot_bounds));
    workspace.tile_slots = (int *)km_take(&at, TILES * 4ll);
    workspace.half_squares = (km_real *)km_take(&at, (long long)TILES * TILE * sizeof(km_real));
    workspace.table =
        (km_table_number *)km_take(&at, (long long)TILES * TILE * WIDTH * sizeof(km_table_number));
    workspace.norms = (km_real *)km_take(&at, args.n * sizeof(km_real));
    //@ if fp16
    workspace.residuals = (float *)km_take(&at, args.n * sizeof(float));
    //@ end
    workspace.stride = (args.n + 255) / 256 * 256;
    workspace.labels = (km_label *)km_take(&at, RESTARTS * KS * workspace.stride * (int)sizeof(km_label));
    workspace.lists = (unsigned *)km_take(&at, (long long)RESTARTS * KS * args.n * 4);
    workspace.sums = at;
    return workspace;
}

// Where the centroids of a slot stand in the table.
struct km_place {
    int slot, k;
    int begin, end; // groups
};

__device__ __forceinline__ km_place km_place_of(int slot) {
    km_place place;
    const int k_index = slot % KS;
    place.slot = slot;
    place.k = km_ks[k_index];
    place.begin = slot / KS * GROUPS + km_groups[k_index];
    place.end = place.begin + (place.k + PAD - 1) / PAD;
    return place;
}

// The slot of a group.
__device__ int km_slot_of(int group) {
    int low = 0, high = KS - 1;
    while (low < high) {
        const int middle = (low + high + 1) / 2;
        if (km_groups[middle] <= group % GROUPS)
            low = middle;
        else
            high = middle - 1;
    }
    return group / GROUPS * KS + low;
}

// Numbers that lie side by side in a point and in a centroid.
struct __align__(PIECE) km_piece {
    km_real at[PIECE / sizeof(km_real)];
};

// Bytes of the workspace, and of it for each point, but for what adding needs.
constexpr long long TABLE_BYTES =
    16 * KM_ALIGN_BYTES + RESTARTS * KS * (256ll * sizeof(km_label) + sizeof(km_slot_bounds)) + TILES * 4ll +
    (long long)TILES * TILE * (sizeof(km_real) + WIDTH * sizeof(km_table_number));
//@ if fp16
constexpr long long TABLE_POINT_BYTES = 2 * sizeof(float) + RESTARTS * KS * ((long long)sizeof(km_label) + 4);
//@ else
constexpr long long TABLE_POINT_BYTES = sizeof(km_real) + RESTARTS * KS * ((long long)sizeof(km_label) + 4);
//@ end
