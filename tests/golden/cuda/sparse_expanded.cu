// Of the text of {features: 100, clusters: 2..12, layout: csr, target: cuda:sm_90}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 14 definitions
// ... lines of a template
    BLOCK = 384,
    WARPS = BLOCK / 32,
    GRID = 132,
    BLOCKS_PER_SM = 1,
    TILE = 32, // points of a warp at a time
    COLUMNS = RESTARTS * S,
    INTEGERS = 1, // of a sum
    SLOTS = RESTARTS * KS,
    STEPS = (D + 3 + 15) / 16, // products: 16 features each, at the end three columns for constants
    STEPS_AT_ONCE = 7,
    EIGHT_BYTES = TILE * 16, // of a tile: 8 features of each point
    TILE_BYTES = 2 * STEPS * EIGHT_BYTES,
    FRAGMENT_TILES = 12,             // of a restart's centroids: 8 columns of products each
    CODE_BITS = 4,                   // of an index in a slot, in place of a score's last bits
    QUEUE = 64,                      // ambiguous points of a warp that wait; and moves
    ANEW_CHANGES = 1409,             // of 1,024 points' labels: from there on sums are made anew (masks.cu)
    POINT_ENTRIES = WEIGHTED ? 0 : 1 // a point's weight is an entry, unless weights need more than 31 bits
};
static_assert(int(D) <= int(KM_SPARSE_LONG), "a row may be too long for a warp");
constexpr unsigned ALL = 0xffffffffu, CODE = (1u << CODE_BITS) - 1;
constexpr int LARGE = -2147483647 - 1; // a number with more than 31 bits

// The K of an index of the K list, and the lanes' columns that it takes: four lanes share a slot.
__host__ __device__ constexpr int km_k_at(int index) {
    int k = 0;
    k = index == 0 ? 2 : k;
    // ... 10 more, other numbers: 67228f45
    return k;
}

// ... 1 definition

// Where these begin, of all of a restart: panels begin where products do.
__constant__ const short km_first_lane_column[KS] = {
    0,
    // ... 10 more, other numbers: 880fe2a8
};

// ... 3 definitions

struct km_progress {
    unsigned next_tile; // to be taken by a warp
    unsigned unused;
    unsigned long long weight_bits; // of the largest weight
    unsigned long long
        changes[2]; // labels that changed in the pass before, and in this one; a first label is a change
};

struct km_workspace {
    km_progress *progress;
    km_slot_note *slots;
    unsigned long long *sums;      // [COLUMNS][D + 1][INTEGERS]; the last is the weight
    unsigned long long *exponents; // [2][D]: of each feature's values, added up; and how many
    // Up to here zero in the beginning.
    double *scales;     // [D + 1]: what a value is multiplied by to be an integer; powers of two
    double *halves;     // |c|^2 / 2 of each column ...
    km_margin *margins; // of each slot
    uint2 *fragments;   // [RESTARTS][FRAGMENT_TILES][STEPS][32]
    unsigned *bounds;   // of each point (entries.cu)
    uint2 *tiles;       // of each 32 points: its first entry and how many, both in fours
    unsigned *entries;  // of each nonzero: its place in the tile, in bytes, and its value as a half
    int *numbers;       // of each nonzero: what its cluster's sum gets; LARGE: more than 31 bits
    km_label *labels;   // of each slot, `stride` apart
    long long stride;
};

// ... 1 definition

constexpr long long SUMS = (long long)COLUMNS * (D + 1ll) * INTEGERS;
constexpr long long WORKSPACE_ZERO_BYTES = km_aligned(sizeof(km_progress)) +
                                           km_aligned(SLOTS * (long long)sizeof(km_slot_note)) +
                                           km_aligned(16ll * D) +
                                           km_aligned(8 * SUMS);
constexpr long long LABELS_POINT_BYTES = SLOTS * (long long)sizeof(km_label);
constexpr long long FRAGMENTS_BYTES =
    RESTARTS * (long long)FRAGMENT_TILES * STEPS * 32 * (long long)sizeof(uint2);
// A point's bound and its own entry, a tile's place and the entries that fill it up.
constexpr long long WORKSPACE_POINT_BYTES = LABELS_POINT_BYTES + 4 + 8 * POINT_ENTRIES + 2,
                    WORKSPACE_NONZERO_BYTES = 8;
constexpr long long WORKSPACE_BYTES =
    WORKSPACE_ZERO_BYTES + km_aligned(8 * (D + 1ll)) + km_aligned(8ll * COLUMNS) +
    km_aligned(SLOTS * (long long)sizeof(km_margin)) + km_aligned(FRAGMENTS_BYTES) + 8 * KM_ALIGN_BYTES +
    KM_ALIGN_BYTES * WORKSPACE_POINT_BYTES;

// ... 1 definition

__device__ __forceinline__ km_workspace km_workspace_of(const km_pass_args &args) {
    km_workspace workspace;
    char *at = (char *)args.workspace;
    workspace.progress = (km_progress *)km_take_bytes(&at, sizeof(km_progress));
    workspace.slots = (km_slot_note *)km_take_bytes(&at, SLOTS * (long long)sizeof(km_slot_note));
    workspace.sums = (unsigned long long *)km_take_bytes(&at, 8 * SUMS);
    workspace.exponents = (unsigned long long *)km_take_bytes(&at, 16ll * D);
    workspace.scales = (double *)km_take_bytes(&at, 8 * (D + 1ll));
    workspace.halves = (double *)km_take_bytes(&at, 8ll * COLUMNS);
    workspace.margins = (km_margin *)km_take_bytes(&at, SLOTS * (long long)sizeof(km_margin));
    workspace.fragments = (uint2 *)km_take_bytes(&at, FRAGMENTS_BYTES);
    workspace.stride = km_aligned(args.n);
    workspace.labels = (km_label *)km_take_bytes(&at, LABELS_POINT_BYTES * workspace.stride);
    workspace.bounds = (unsigned *)km_take_bytes(&at, 4 * workspace.stride);
    const km_sparse_table &points = *(const km_sparse_table *)args.points;
    const long long tiles = (args.n + TILE - 1) / TILE,
                    nonzeros = points.chunk_first[(args.n + KM_SPARSE_CHUNK - 1) / KM_SPARSE_CHUNK];
    workspace.tiles = (uint2 *)km_take_bytes(&at, 8 * tiles);
    workspace.entries =
        (unsigned *)km_take_bytes(&at, 4 * (nonzeros + POINT_ENTRIES * args.n + 4 * (tiles + 1)));
    workspace.numbers = (int *)at;
    return workspace;
}

// ... 8 definitions

// Load: what values of each feature are multiplied by. The sum of all points stays below 2^62.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_scales(const __grid_constant__ km_pass_args args) {
    const km_workspace workspace = km_workspace_of(args);
    const long long f = blockIdx.x * 256ll + threadIdx.x;
    if (f > D) return;
    double largest = 1;
    if (f < D) largest = fmax(fabs(args.box[f]), fabs(args.box[D + f]));
    const int weight = 0;
    const int exponent = km_value_bits(args.n) - weight - km_exponent_above(largest);
    if (f == D) { // counts
        workspace.scales[f] = 1;
        return;
    }
    // The largest value gets 30 bits, but the mean of the exponents 22 at least: nearly all numbers have at most 31.
    const long long count = f < D ? (long long)workspace.exponents[D + f] : 0;
    const int mean = count ? (int)((long long)workspace.exponents[f] / count) : 0;
    const int wanted = count ? max(30 - weight - km_exponent_above(largest), 22 - mean) : 0;
    if (f < D && wanted < exponent) {
        workspace.scales[f] = ldexp(1.0, wanted);
        return;
    }
    workspace.scales[f] = ldexp(1.0, exponent > 1000 ? 1000 : exponent < -1000 ? -1000 : exponent);
}

// In each pass: |c|^2 / 2 of a column, a block each, and the largest |c| of its slot. Sums that are made
// anew begin at 0.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_halves(const __grid_constant__ km_pass_args args) {
    __shared__ double sums[8];
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int column = blockIdx.x;
    if (km_sums_anew(workspace, args.n))
        for (int f = threadIdx.x; f <= D; f += 256) workspace.sums[column * (D + 1ll) + f] = 0;
    const km_real *c = (const km_real *)args.centroids + (long long)column * D;
    double square = 0;
    for (long long f = threadIdx.x; f < D; f += 256) square = fma((double)c[f], (double)c[f], square);
    square = km_warp_sum(square);
    if (threadIdx.x % 32 == 0) sums[threadIdx.x / 32] = square;
    __syncthreads();
    if (threadIdx.x != 0) return;
    square = 0;
    for (int w = 0; w < 8; w++) square += sums[w];
    workspace.halves[column] = square / 2;
}

// ... 2 definitions

__device__ __forceinline__ double km_weight_of(const km_pass_args &args, long long i) {
    return args.n > i ? 1.0 : 0.0;
}

// ... 7 definitions

// Totals of active slots, a thread each; and what the next pass begins with.
extern "C" __global__ void __launch_bounds__(256)
    km_sparse_totals(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const long long at = blockIdx.x * 256ll + threadIdx.x;
    if (at >= COLUMNS * (D + 1ll)) return;
    const int column = (int)(at / (D + 1ll)), slot = km_slot_of(column);
    const long long f = at % (D + 1ll);
    if (at == 0) {
        workspace.progress->next_tile = 0;
        workspace.progress->changes[0] = workspace.progress->changes[1];
        workspace.progress->changes[1] = 0;
    }
    if (f == 0 && column == km_first_column(slot)) {
        workspace.slots[slot].norm = 0;
        if (args.active[slot]) workspace.slots[slot].begun = 1;
    }
    if (!args.active[slot]) return;
    const double sum = (double)(long long)workspace.sums[at];
    args.totals[at] = sum / workspace.scales[f];
}

// ... 1 definition

// What all warps know of a slot.
struct __align__(16) km_slot_facts {
    km_margin margin;
    int active, begun; // begun: labels and sums of a pass are there
};

// A set of centroids of a slot.
typedef unsigned km_candidates;

// ... 4 definitions

// Dynamic shared memory. Functions find all they need here, which takes no registers.
struct __align__(16) km_shared_memory {
    const km_pass_args *args;
    km_sparse_table points;
    km_workspace workspace;
    int anew;         // sums are made by km_sparse_masks: no moves
    unsigned changes; // labels that changed
    __align__(16) uint2 fragments[RESTARTS * FRAGMENT_TILES * STEPS * 32];
    int low[SUMS], high[SUMS]; // sums of the block: the lower 32 bits have a sign, too
    km_slot_facts facts[SLOTS];
    km_warp_memory warps[WARPS];
};
static_assert(SUMS < NONE, "a move has 16 bits for each of its sums");
constexpr int SHARED_BYTES = (int)sizeof(km_shared_memory);

// ... 3 definitions

// Whether the pass makes sums anew, of all points.
__device__ __forceinline__ bool km_makes_anew() {
    return km_memory().anew != 0;
}

// A tile: a lane has one of its points.
struct km_tile {
    unsigned index, first, count; // first entry and how many, in fours
    unsigned bounds;              // of the lane's point
    bool valid;
    int stage;        // where its labels are
    int queued;       // of the warp's queue
    int moves;        // of the warp's that wait
    unsigned changes; // labels of the lane's points that changed
};

// ... 6 definitions

// Does the last moves that wait, up to 32: entry after entry, a lane each, whatever point they are of.
static __device__ __noinline__ void km_do_moves(int first, int count) {
    constexpr int AT_ONCE = 4;
    // ... lines of a template
    // ... lines of a template
// ... 2 definitions

// The lowest candidate, which is taken out of the set.
__device__ __forceinline__ int km_take_candidate(km_candidates &left) {
    const int lowest = __ffs((int)left) - 1;
    // ... lines of a template
        }
        if (old != label || !facts.begun) atomicAdd(&km_memory().changes, 1u);
        // ... lines of a template
// ... 2 definitions
// ... lines of a template
    }
    tile.changes += moves;
    const unsigned lanes = __ballot_sync(ALL, moves);
    if (lanes) {
        const unsigned first = km_first_column(slot) * (D + 1), to = first + label * (D + 1),
                       from = first + found.old * (D + 1);
        if (!km_makes_anew()) km_note_moves(tile, lanes, to | (begun ? from : NONE) << 16);
    }
    return __ballot_sync(ALL, ambiguous);
}

// ... 16 definitions

// A tile of points with all slots.
__device__ __forceinline__ void km_label_tile(km_tile &tile) {
    constexpr int AHEAD = 3; // loads at a time
    // ... lines of a template
        km_label_panel<0, 7, 0, 6>(tile, restart);
        km_label_panel<7, 11, 6, 6>(tile, restart);
    // ... lines of a template
        shared.anew = km_sums_anew(shared.workspace, args.n);
        shared.changes = 0;
    // ... lines of a template
        next.changes = tile.changes;
        tile = next;
    }
    if (tile.moves) km_do_moves(0, tile.moves);
    if (tile.queued) km_resolve(0, tile.queued);
    atomicAdd(&shared.changes, tile.changes);
    __syncthreads();
    if (threadIdx.x == 0) atomicAdd(&workspace.progress->changes[1], (unsigned long long)shared.changes);
    for (int at = threadIdx.x; at < SUMS; at += BLOCK)
        if (shared.low[at] || shared.high[at])
            atomicAdd(workspace.sums + at,
                      (unsigned long long)(shared.high[at] * (1ll << 32) + shared.low[at]));
}

// Sums anew: of all points instead of those whose label changed, by matrix products. One factor has a row for each
// column of centroids and a byte for each point, 1 where the point is that centroid's; the other one byte of the number
// of each point and feature. Four products, of 8 bits of the numbers each, are exact in 32 bits, and so is the sum.
enum {
    MASK_POINTS = 128, // of a batch
    MASK_TILES = MASK_POINTS / TILE,
    MASK_BLOCK = 256,
    MASK_WARPS = MASK_BLOCK / 32,
    MASK_ROW_TILES = (COLUMNS + 15) / 16, // 16 rows of products each
    MASK_ROW_GROUPS = (MASK_ROW_TILES + 4) / 5,
    MASK_ROWS = (MASK_ROW_TILES + MASK_ROW_GROUPS - 1) / MASK_ROW_GROUPS, // tiles of a group
    MASK_PAIRS = (D + 1 + 15) / 16, // 16 features each
    MASK_PAIRS_MAX = MASK_ROW_GROUPS < MASK_WARPS ? MASK_WARPS / MASK_ROW_GROUPS : 1,
    MASK_PARTS = (MASK_PAIRS + MASK_PAIRS_MAX - 1) / MASK_PAIRS_MAX, // the grid's second dimension
    MASK_OWN_PAIRS = (MASK_PAIRS + MASK_PARTS - 1) / MASK_PARTS,     // of a block
    MASK_FEATURES = 16 * MASK_OWN_PAIRS,
    MASK_OWN = MASK_OWN_PAIRS * MASK_ROW_GROUPS, // a warp has a group of rows with a pair
    MASK_SPLIT = MASK_OWN <= 2   ? 4
                 : MASK_OWN <= 4 ? 2
                                 : 1, // warps that share the points
    MASK_AHEAD = 2,                   // reads of a thread at a time
    MASK_SPAN = 65536,                // batches of a block whose sums 32 bits hold
    SELECTORS_PITCH = 20,             // words of a four: other banks than the next ones'
    FOURS = 23,                       // of all slots: four centroids of a slot each
    MASK_ITEMS = FOURS * (MASK_POINTS / 4),
    MASK_LABELS = MASK_ITEMS <= MASK_BLOCK ? 1 : 2, // the same of labels
    MASK_DIGIT = MASK_FEATURES * MASK_POINTS        // bytes of a digit of a batch's numbers
};
static_assert(MASK_OWN * MASK_SPLIT <= MASK_WARPS, "each group of rows has a warp with each pair");
static_assert(FOURS * SELECTORS_PITCH < 1 << 16, "two places of selectors lie in a word");
static_assert((long long)MASK_SPAN * MASK_POINTS * 255 < 1ll << 32, "bytes of a span add up in 32 bits");

// ... 18 definitions

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_sparse_exponents", KM_STAGE_LOAD, 512, 1, 256, 0, 0},
    {"km_sparse_scales", KM_STAGE_LOAD, (unsigned)((D + 256ll) / 256), 1, 256, 0, 0},
    {"km_sparse_entries", KM_STAGE_LOAD, 2048, 1, 256, 0, 0},
    {"km_sparse_halves", KM_STAGE_PASS, COLUMNS, 1, 256, 0, 0},
    {"km_sparse_fragments", KM_STAGE_PASS, SLOTS, 1, 256, 0, 0},
    {"km_sparse_labels", KM_STAGE_PASS, GRID, 1, BLOCK, SHARED_BYTES, 0},
    {"km_sparse_masks", KM_STAGE_PASS, (GRID + MASK_PARTS - 1) / MASK_PARTS, MASK_PARTS, MASK_BLOCK,
     MASK_BYTES, 0},
    {"km_sparse_totals", KM_STAGE_PASS, (unsigned)((COLUMNS * (D + 1ll) + 255) / 256), 1, 256, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION,
                                    sizeof km_pass_launches / sizeof *km_pass_launches,
                                    WORKSPACE_BYTES,
                                    WORKSPACE_POINT_BYTES,
                                    0,
                                    WORKSPACE_ZERO_BYTES,
                                    WORKSPACE_NONZERO_BYTES};
}
