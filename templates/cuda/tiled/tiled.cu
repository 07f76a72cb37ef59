// SPDX-License-Identifier: MIT
//@ include cuda/head.h
//@ need tile pad groups tile_features chunks piece half_filter few half labels_grid sorted products

// The pass of design `shared`: any d, any K, any type. Of each point and centroid it has the score
//     x . c - |c|^2 / 2
// and keeps the best two of each slot. Where these are closer than rounding may account for, the point is listed for
// its slot, and km_shared_redo decides by distances in double. Ties go to the lowest index.
//
// Centroids stand in a table, those of a slot padded to whole groups of PAD rows; a tile is TILE rows of the table.

#define KM_UNROLL _Pragma("unroll")

enum {
    PAD = $pad,                     // rows of a group, all of one slot: a tile, or 1
    GROUPS = $groups,               // groups of one copy
    TILE = $tile,                   // rows of a tile
    TILE_GROUPS = TILE / PAD,
    TILES = (COPIES * GROUPS + TILE_GROUPS - 1) / TILE_GROUPS,
    FEATURES = $tile_features,      // features worked on at a time
    CHUNKS = $chunks,
    WIDTH = FEATURES * CHUNKS,      // d, padded
    PIECE = $piece,                 // bytes of one copy from a point: 16, or what divides a row
    LABELS_GRID = $labels_grid
};

// The first group of each K.
__constant__ const int km_groups[KS] = {
    //@ for k in ks
    $k_group,
    //@ end
};

//@ if half_filter
typedef unsigned short pass_number; // of the table of centroids: half precision, as bits
//@ else
typedef km_real pass_number;
//@ end
//@ if float64
typedef unsigned long long pass_bits; // of a km_real
//@ else
typedef unsigned pass_bits;
//@ end

// What is known of the centroids of a slot. Bits of a number that is not negative are in the order of the numbers.
struct pass_slot {
    pass_bits norm;   // the largest |c|
    pass_bits coarse; // the largest share of |c| that half precision loses
    unsigned listed;  // points that are to be decided again
    unsigned unused;
};

// The workspace.
struct pass_memory {
    km_real *scale; // of points and centroids in half precision
    pass_slot *slots;
    int *tile_slots; // the slot of a tile's first row; -1 where no slot of the tile is active
    km_real *half_squares; // |c|^2 / 2
    pass_number *table;
    km_real *norms;     // |x|
    km_real *residuals; // what half precision loses of it
    km_label *labels;
    unsigned *lists; // points that are to be decided again
    char *sums;       // what adding needs
    long long stride; // of a slot's labels: past the last point come zeros
};

__device__ __forceinline__ char *pass_take(char **at, long long bytes) {
    char *taken = *at;
    *at += (bytes + KM_ALIGN_BYTES - 1) / KM_ALIGN_BYTES * KM_ALIGN_BYTES;
    return taken;
}

__device__ __forceinline__ pass_memory pass_memory_of(const km_pass_args &args) {
    pass_memory memory;
    char *at = (char *)args.workspace;
    memory.scale = (km_real *)pass_take(&at, sizeof(km_real));
    memory.slots = (pass_slot *)pass_take(&at, COPIES * KS * sizeof(pass_slot));
    memory.tile_slots = (int *)pass_take(&at, TILES * 4ll);
    memory.half_squares = (km_real *)pass_take(&at, (long long)TILES * TILE * sizeof(km_real));
    memory.table = (pass_number *)pass_take(&at, (long long)TILES * TILE * WIDTH * sizeof(pass_number));
    memory.norms = (km_real *)pass_take(&at, args.n * sizeof(km_real));
    memory.residuals = (km_real *)pass_take(&at, args.n * ($half * sizeof(km_real)));
    memory.stride = (args.n + 255) / 256 * 256;
    memory.labels = (km_label *)pass_take(&at, COPIES * KS * memory.stride * (int)sizeof(km_label));
    memory.lists = (unsigned *)pass_take(&at, (long long)COPIES * KS * args.n * 4);
    memory.sums = at;
    return memory;
}

// A slot's place in the table of centroids.
struct pass_place {
    int slot, k;
    int begin, end; // groups
};

__device__ __forceinline__ pass_place pass_place_of(int slot) {
    pass_place place;
    const int k_index = slot % KS;
    place.slot = slot;
    place.k = km_ks[k_index];
    place.begin = slot / KS * GROUPS + km_groups[k_index];
    place.end = place.begin + (place.k + PAD - 1) / PAD;
    return place;
}

static __device__ int pass_slot_of(int group) {
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

__device__ __forceinline__ double pass_warp_sum(double value) {
    for (int step = 16; step > 0; step >>= 1) value += __shfl_xor_sync(0xffffffffu, value, step);
    return value;
}

// Rounded up, so that a bound stays one.
__device__ __forceinline__ km_real pass_above(double value) {
    return (km_real)(value * (1 + 1.0 / 1048576));
}

// A row's best two scores so far.
struct pass_best {
    km_real best, second;
    int j; // the centroid of the best; in a loop over tiles what leads to it
};

// Numbers that lie side by side in a point and in a centroid.
struct __align__(PIECE) pass_piece {
    km_real at[PIECE / sizeof(km_real)];
};

//@ include cuda/tiled/numbers.cu

// Once: |x| of each point, a warp each.
extern "C" __global__ void __launch_bounds__(256) km_shared_norms(const __grid_constant__ km_pass_args args) {
    const pass_memory memory = pass_memory_of(args);
    //@ if half_filter
    const float scale = pass_scale(args);
    if (blockIdx.x == 0 && threadIdx.x == 0) *memory.scale = scale;
    //@ end
    const int lane = threadIdx.x % 32;
    for (long long i = blockIdx.x * 8ll + threadIdx.x / 32; i < args.n; i += gridDim.x * 8ll) {
        const km_real *x = (const km_real *)args.points + i * D;
        double square = 0, lost = 0;
        for (int f = lane; f < D; f += 32) {
            square = fma((double)x[f], (double)x[f], square);
            //@ if half_filter
            const double rest = x[f] - pass_half_value(pass_half_of(x[f] * scale)) / scale;
            lost = fma(rest, rest, lost);
            //@ end
        }
        square = pass_warp_sum(square);
        lost = pass_warp_sum(lost);
        if (lane != 0) continue;
        memory.norms[i] = pass_above(sqrt(square));
        //@ if half_filter
        memory.residuals[i] = pass_above(sqrt(lost));
        //@ end
    }
}

// The table of centroids, a warp each row. Four blocks of a multiprocessor: said, or the compiler aims at more, and
// spills.
extern "C" __global__ void __launch_bounds__(256, 4) km_shared_prepare(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const pass_memory memory = pass_memory_of(args);
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= TILES * TILE) return;
    const int group = row / PAD;
    if (row % TILE == 0) {
        int active = 0;
        for (int g = group + lane; g < group + TILE_GROUPS && g < COPIES * GROUPS; g += 32)
            active |= args.active[pass_slot_of(g)];
        active = __any_sync(0xffffffffu, active);
        if (lane == 0) memory.tile_slots[row / TILE] = active ? pass_slot_of(group) : -1;
    }
    const pass_place place = pass_place_of(group < COPIES * GROUPS ? pass_slot_of(group) : 0);
    const int j = row - place.begin * PAD, real = group < COPIES * GROUPS && j < place.k;
    const long long first = (long long)(place.slot / KS) * S + km_offsets[place.slot % KS];
    const km_real *c = (const km_real *)args.centroids + (first + j) * D;
    pass_number *to = memory.table + (long long)row * WIDTH;
    double square = 0, lost = 0;
    for (int f = lane; f < WIDTH; f += 32) {
        const km_real value = real && f < D ? c[f] : (km_real)0;
        square = fma((double)value, (double)value, square);
        //@ if half_filter
        const float scale = *memory.scale;
        to[f] = pass_half_of(fminf(fmaxf(value * scale, -65504.f), 65504.f));
        const double rest = value - pass_half_value(to[f]) / scale;
        lost = fma(rest, rest, lost);
        //@ else
        to[f] = value;
        //@ end
    }
    square = pass_warp_sum(square);
    lost = pass_warp_sum(lost);
    if (lane != 0) return;
    memory.half_squares[row] = real ? (km_real)(square / 2) : FAR;
    if (!real) return;
    pass_slot *slot = memory.slots + place.slot;
    const km_real norm = pass_above(sqrt(square));
    atomicMax(&slot->norm, pass_bits_of(norm));
    //@ if half_filter
    const double share = (sqrt(lost) - pass_fine(*memory.scale)) / (norm > 0 ? norm : 1);
    atomicMax(&slot->coarse, pass_bits_of(pass_above(share > 0 ? share : 0)));
    //@ end
}

// What a margin needs of a point.
struct pass_point {
    km_real norm, lost;
};

__device__ __forceinline__ pass_point pass_point_of(const pass_memory &memory, long long i) {
    //@ if half_filter
    return {memory.norms[i], memory.residuals[i]};
    //@ else
    return {memory.norms[i], 0};
    //@ end
}

// What a centroid may lose below the smallest normal number.
__device__ __forceinline__ km_real pass_fine_of(const pass_memory &memory) {
    //@ if half_filter
    return pass_fine(*memory.scale);
    //@ else
    return 0;
    //@ end
}

// How far below the best score another may be measured and still be the best: both scores' errors. For a point of norm
// g, a centroid's is at most e |c| (and a constant), e the part of g that products and sums may lose. A centroid of
// |c| >= 4 g has a score t of at most -|c|^2 / 4, so that its error is at most e / g |t|: such centroids count for as
// much as the best score does. The factors have room for the rounding of these lines.
__device__ __forceinline__ km_real pass_margin(km_real fine, const pass_slot &slot, const pass_point &point,
                                               km_real best) {
    const km_real g = point.norm, c = pass_value_of(slot.norm), near = c < 4 * g ? c : 4 * g;
    //@ if half_filter
    const km_real e = point.lost + g * (pass_value_of(slot.coarse) + ROUNDING);
    km_real margin = 2.01f * (e * near + (g + point.lost) * fine);
    margin += fabsf(best) / 131072; // for the bits that a column has taken
    //@ else
    const km_real e = g * ROUNDING;
    km_real margin = (km_real)2.01 * e * near;
    //@ end
    if (c > 4 * g) margin += (km_real)2.5 * (g > 0 ? e / g : ROUNDING) * (best < 0 ? -best : best);
    return margin;
}

//@ if few
//@ include cuda/tiled/few.cu
//@ else
//@ include cuda/tiled/tiles.cu
//@ end

//@ if track_labels
// Counts the labels that changed, and keeps the new ones.
extern "C" __global__ void __launch_bounds__(256) km_shared_track(const __grid_constant__ km_pass_args args) {
    const int slot = blockIdx.y;
    if (args.control->stop || !args.active[slot]) return;
    const pass_memory memory = pass_memory_of(args);
    const km_label *labels = memory.labels + slot * memory.stride;
    km_label *kept = (km_label *)args.labels + slot * args.labels_stride;
    unsigned changes = 0;
    for (long long i = blockIdx.x * 256ll + threadIdx.x; i < args.n; i += gridDim.x * 256ll) {
        changes += kept[i] != labels[i];
        kept[i] = labels[i];
    }
    changes = (unsigned)pass_warp_sum(changes);
    if (changes && threadIdx.x % 32 == 0) atomicAdd(args.changes + slot, (unsigned long long)changes);
}

//@ end
// The workspace but for what adding needs.
constexpr long long PASS_BYTES =
    16 * KM_ALIGN_BYTES + COPIES * KS * (256ll * sizeof(km_label) + sizeof(pass_slot)) + TILES * 4ll +
    (long long)TILES * TILE * (sizeof(km_real) + WIDTH * sizeof(pass_number));
constexpr long long PASS_POINT_BYTES = (1 + $half) * sizeof(km_real) +
                                       COPIES * KS * ((long long)sizeof(km_label) + 4);

//@ if sorted
//@ include cuda/tiled/sorted.cu
//@ else
//@ if products
//@ include cuda/tiled/products.cu
//@ else
//@ include cuda/tiled/ranges.cu
//@ end
//@ end

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_shared_norms", KM_STAGE_LOAD, LABELS_GRID, 1, 256, 0, 0},
    {"km_shared_prepare", KM_STAGE_PASS, (TILES * TILE + 7) / 8, 1, 256, 0, 0},
    {"km_shared_labels", KM_STAGE_PASS, LABELS_GRID, 1, BLOCK, sizeof(pass_block), 0},
    //@ if few
    {"km_shared_redo", KM_STAGE_PASS, REDO_GRID, COPIES * KS, 256, 0, 0},
    //@ else
    {"km_shared_redo", KM_STAGE_PASS, REDO_GRID, COPIES * KS, BLOCK, sizeof(pass_block), 0},
    //@ end
    //@ if track_labels
    {"km_shared_track", KM_STAGE_PASS, LABELS_GRID, COPIES * KS, 256, 0, 0},
    //@ end
    //@ if sorted
    //@ for pass in sort_passes
    {"km_shared_count", KM_STAGE_PASS, RANGES, COPIES * KS, DIGITS, 0, $pass},
    {"km_shared_order", KM_STAGE_PASS, RANGES, COPIES * KS, DIGITS, 0, $pass},
    //@ end
    {"km_shared_stretches", KM_STAGE_PASS, (STRETCHES * LANES + 127) / 128 * PARTS, COPIES * KS, 128, 0, 0},
    {"km_shared_totals", KM_STAGE_PASS, K_MAX, COPIES * KS, 128, 0, 0},
    //@ else
    //@ if products
    {"km_shared_sums", KM_STAGE_PASS, (RANGES * SUM_GROUPS + SUM_WARPS - 1) / SUM_WARPS, TILES, SUM_WARPS * 32, 0, 0},
    //@ else
    {"km_shared_sums", KM_STAGE_PASS, RANGES, PARTS * SLOT_GROUPS, SUM_WARPS * 32, sizeof(pass_sums), 0},
    //@ end
    {"km_shared_reduce", KM_STAGE_PASS, (COPIES * S * (D + 1) + 7) / 8, 1, 256, 0, 0},
    //@ end
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    PASS_BYTES + SUMS_BYTES, PASS_POINT_BYTES + SUMS_POINT_BYTES};
}
//@ include cuda/steps/steps.cu
