// Of the text of {features: 64, clusters: 2..12, target: cuda:sm_75}: The pass
// "..." stands for what a template or an earlier part shows.

// ... 38 definitions

// What the threads of a block share.
struct __align__(16) km_block {
    km_real x[2][POINTS][STRIDE];
    km_real table[2][TILE][STRIDE];
    km_real half_squares[2][TILE];
    long long points[POINTS];
    km_workspace workspace;
    km_slot_bounds slots[KEPT_SLOTS];
    int tile_slots[KEPT_TILES];
    // Of ambiguous points.
    km_real expected[POINTS];
    unsigned pairs[WARPS][64];
    km_real scores[WARPS][WARP_POINTS][TILE + 1];
};

// ... 15 definitions

enum {
    RANGES = 320,
    LANES = 32,    // lanes of a team, a feature each
    PARTS = 2,     // blocks that share the features of a range
    SUM_WARPS = 3, // warps of a block
    TEAMS = SUM_WARPS * 32 / LANES,
    AT_ONCE = 4,      // slots of a team, and points that it reads at a time
    GROUP_SLOTS = 11, // slots of a block: at most AT_ONCE for each team
    GROUP_ROWS = 77,  // clusters of a block, at most
    SLOT_GROUPS = (RESTARTS * KS + GROUP_SLOTS - 1) / GROUP_SLOTS
};
constexpr long long SUMS_BYTES = (long long)RANGES * RESTARTS * S * (D + 1) * 8;
constexpr long long SUMS_POINT_BYTES = 0;

// ... 1 definition

// What a team reads of AT_ONCE points: a number of each, and its labels in each of its slots.
struct km_reading {
    km_real numbers[AT_ONCE];
    km_four_labels labels[AT_ONCE];
};

// Past the last point come rows of zeros and labels 0: they add nothing.
__device__ __forceinline__ km_reading km_read(const km_pass_args &args,
                                              const km_label *const (&labels)[AT_ONCE], long long i, int f) {
    km_reading reading;
    KM_UNROLL_FOR (int a = 0; a < AT_ONCE; a++) {
        reading.numbers[a] = f < D ? ((const km_real *)args.points)[(i + a) * D + f] : (km_real)0;
        reading.labels[a] = *(const km_four_labels *)(labels[a] + i);
    }
    return reading;
}

struct km_range_sums {
    double rows[GROUP_ROWS + TEAMS][LANES]; // the last ones take what nobody asks for, of each team
    unsigned counts[GROUP_ROWS];
    int first_rows[GROUP_SLOTS];
};

// ... 1 definition

extern "C" __global__ void __launch_bounds__(SUM_WARPS * 32)
    km_tiled_sums(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_range_sums &sums = *(km_range_sums *)km_shared;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int part = blockIdx.y % PARTS, slot = blockIdx.y / PARTS * GROUP_SLOTS;
    const int slots = slot + GROUP_SLOTS < RESTARTS * KS ? int(GROUP_SLOTS) : RESTARTS * KS - slot;
    const int lane = threadIdx.x % LANES, team = threadIdx.x / LANES, f = part * LANES + lane;
    if (threadIdx.x == 0)
        for (int s = 0, row = 0; s < slots; row += km_ks[(slot + s++) % KS]) sums.first_rows[s] = row;
    for (int at = threadIdx.x; at < (GROUP_ROWS + TEAMS) * LANES; at += SUM_WARPS * 32) sums.rows[0][at] = 0;
    for (int at = threadIdx.x; at < GROUP_ROWS; at += SUM_WARPS * 32) sums.counts[at] = 0;
    __syncthreads();
    double *rows[AT_ONCE];
    const km_label *labels[AT_ONCE];
    int width[AT_ONCE]; // of a row; 0 where there is no slot
    KM_UNROLL_FOR (int s = 0; s < AT_ONCE; s++) {
        const int index = team + s * TEAMS, valid = index < slots && args.active[slot + index];
        rows[s] = &sums.rows[valid ? sums.first_rows[index] : GROUP_ROWS + team][lane];
        labels[s] = workspace.labels + (slot + (valid ? index : 0)) * workspace.stride;
        width[s] = valid ? int(LANES) : 0;
    }
    const long long length = ((args.n + RANGES - 1) / RANGES + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
    const long long first = blockIdx.x * length, end = first + length < args.n ? first + length : args.n;
    km_reading next;
    if (first < end) next = km_read(args, labels, first, f);
    for (long long i = first; i < end; i += AT_ONCE) {
        const km_reading reading = next;
        if (i + AT_ONCE < end) next = km_read(args, labels, i + AT_ONCE, f);
        KM_UNROLL_FOR (int a = 0; a < AT_ONCE; a++) {
            const double number = reading.numbers[a];
            // Rows of different slots: all are read before one is written.
            double sum[AT_ONCE];
            KM_UNROLL_FOR (int s = 0; s < AT_ONCE; s++)
                sum[s] = rows[s][reading.labels[s].at[a] * width[s]] + number;
            KM_UNROLL_FOR (int s = 0; s < AT_ONCE; s++) rows[s][reading.labels[s].at[a] * width[s]] = sum[s];
        }
    }
    if (part == 0) km_count(sums, args, workspace, slot, slots, first, end);
    __syncthreads();
    const long long row = (long long)(slot / KS) * S + km_offsets[slot % KS];
    const int count = sums.first_rows[slots - 1] + km_ks[(slot + slots - 1) % KS];
    double *out = (double *)workspace.sums + (blockIdx.x * (long long)RESTARTS * S + row) * (D + 1);
    for (int at = team; at < count; at += TEAMS) {
        if (f < D) out[at * (D + 1ll) + f] = sums.rows[at][lane];
        if (f == 0) out[at * (D + 1ll) + D] = sums.counts[at];
    }
}

// ... 1 definition

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tiled_norms", KM_STAGE_LOAD, LABELS_GRID, 1, 256, 0, 0},
    {"km_tiled_prepare", KM_STAGE_PASS, (TILES * TILE + 7) / 8, 1, 256, 0, 0},
    {"km_tiled_labels", KM_STAGE_PASS, LABELS_GRID, 1, BLOCK, sizeof(km_block), 0},
    {"km_tiled_resolve", KM_STAGE_PASS, RESOLVE_GRID, RESTARTS *KS, BLOCK, sizeof(km_block), 0},
    {"km_tiled_sums", KM_STAGE_PASS, RANGES, PARTS *SLOT_GROUPS, SUM_WARPS * 32, sizeof(km_range_sums), 0},
    {"km_tiled_reduce", KM_STAGE_PASS, (RESTARTS * S * (D + 1) + 7) / 8, 1, 256, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    TABLE_BYTES + SUMS_BYTES, TABLE_POINT_BYTES + SUMS_POINT_BYTES};
}
