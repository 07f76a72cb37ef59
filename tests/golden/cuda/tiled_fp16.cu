// Of the text of {features: 128, clusters: 2..20, target: cuda:sm_90} weighted tracked: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 3 definitions

// The workspace.
typedef unsigned short km_table_number; // of the table of centroids: the bits of a half
typedef unsigned km_bits;

// ... 1 definition

struct km_workspace {
    float *scale; // of points and centroids before they are rounded to halves
    km_slot_bounds *slots;
    int *tile_slots;       // the slot of each tile's first row; -1 where no slot of the tile is active
    km_real *half_squares; // |c|^2 / 2 of each row of the table
    km_table_number *table;
    km_real *norms;   // |x| of each point
    float *residuals; // |x| less what half precision keeps: the norm of the difference
    km_label *labels; // of each slot, `stride` apart; zeros past the last point
    long long stride;
    unsigned *lists; // of each slot: its ambiguous points
    char *sums;      // of the kernels that add points
};

// ... 1 definition

__device__ __forceinline__ km_workspace km_workspace_of(const km_pass_args &args) {
    km_workspace workspace;
    char *at = (char *)args.workspace;
    workspace.scale = (float *)km_take_bytes(&at, sizeof(float));
    workspace.slots = (km_slot_bounds *)km_take_bytes(&at, RESTARTS * KS * sizeof(km_slot_bounds));
    workspace.tile_slots = (int *)km_take_bytes(&at, TILES * 4ll);
    workspace.half_squares = (km_real *)km_take_bytes(&at, (long long)TILES * TILE * sizeof(km_real));
    workspace.table =
        (km_table_number *)km_take_bytes(&at, (long long)TILES * TILE * PADDED_D * sizeof(km_table_number));
    workspace.norms = (km_real *)km_take_bytes(&at, args.n * sizeof(km_real));
    workspace.residuals = (float *)km_take_bytes(&at, args.n * sizeof(float));
    workspace.stride = (args.n + 255) / 256 * 256;
    workspace.labels =
        (km_label *)km_take_bytes(&at, RESTARTS * KS * workspace.stride * (int)sizeof(km_label));
    workspace.lists = (unsigned *)km_take_bytes(&at, (long long)RESTARTS * KS * args.n * 4);
    workspace.sums = at;
    return workspace;
}

// ... 4 definitions

// Bytes of the workspace, and bytes for each point, without those of the kernels that add points.
constexpr long long SLOTS_BYTES =
    16 * KM_ALIGN_BYTES + RESTARTS * KS * (256ll * sizeof(km_label) + sizeof(km_slot_bounds));
constexpr long long SLOTS_POINT_BYTES = RESTARTS * KS * ((long long)sizeof(km_label) + 4);
constexpr long long TABLE_BYTES =
    SLOTS_BYTES + TILES * 4ll +
    (long long)TILES * TILE * (sizeof(km_real) + PADDED_D * sizeof(km_table_number));
constexpr long long TABLE_POINT_BYTES = 2 * sizeof(float) + SLOTS_POINT_BYTES;

// ... 7 definitions

// What a centroid in the table may lose by underflow: below the smallest normal half.
__device__ __forceinline__ float km_underflow(const km_workspace &workspace) {
    return sqrtf(PADDED_D) * 1.001f / 33554432.f / *workspace.scale;
}

// ... 2 definitions

__device__ __forceinline__ km_norms km_norms_of(const km_workspace &workspace, long long i) {
    return {workspace.norms[i], workspace.residuals[i]};
}

// The margin: how far below the best score the nearest centroid may be, which is the error of both scores. For a
// point of norm g, the error of a score is at most e |c| and a constant, where e is the error of products and sums.
// A centroid of |c| >= 4 g has a score t of at most -|c|^2 / 4, so its error is at most e / g |t|; the best score
// is larger than t. The factors leave room for the rounding of these lines.
__device__ __forceinline__ km_real km_margin(km_real underflow, const km_slot_bounds &slot,
                                             const km_norms &point, km_real best) {
    const km_real g = point.norm, c = km_value_of(slot.norm), effective = c < 4 * g ? c : 4 * g;
    const km_real e = point.lost + g * (km_value_of(slot.relative_loss) + ROUNDING);
    km_real margin = 2.01f * (e * effective + (g + point.lost) * underflow);
    margin += fabsf(best) / 131072; // for the last bits of a score, which hold its column
    if (c > 4 * g) margin += (km_real)2.5 * (g > 0 ? e / g : ROUNDING) * (best < 0 ? -best : best);
    return margin;
}

// ... 1 definition

// Load: |x| of each point, a warp each. Without a minimum of four blocks a multiprocessor the compiler aims at more,
// and spills.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_tiled_norms(const __grid_constant__ km_pass_args args) {
    const km_workspace workspace = km_workspace_of(args);
    const float scale = km_scale_of(args);
    if (blockIdx.x == 0 && threadIdx.x == 0) *workspace.scale = scale;
    const int lane = threadIdx.x % 32;
    for (long long i = blockIdx.x * 8ll + threadIdx.x / 32; i < args.n; i += gridDim.x * 8ll) {
        const km_real *x = (const km_real *)args.points + i * D;
        double square = 0;
        double lost = 0;
        for (int f = lane; f < D; f += 32) {
            square = fma((double)x[f], (double)x[f], square);
            const double rest = x[f] - km_half_value(km_half_of(x[f] * scale)) / scale;
            lost = fma(rest, rest, lost);
        }
        square = km_warp_sum(square);
        lost = km_warp_sum(lost);
        if (lane != 0) continue;
        workspace.norms[i] = km_upper_bound(sqrt(square));
        workspace.residuals[i] = km_upper_bound(sqrt(lost));
    // ... lines of a template
    double lost = 0;
    for (int f = lane; f < PADDED_D; f += 32) {
        const km_real value = real && f < D ? c[f] : (km_real)0;
        square = fma((double)value, (double)value, square);
        const float scale = *workspace.scale;
        to[f] = km_half_of(fminf(fmaxf(value * scale, -65504.f), 65504.f));
        const double rest = value - km_half_value(to[f]) / scale;
        lost = fma(rest, rest, lost);
    }
    square = km_warp_sum(square);
    lost = km_warp_sum(lost);
    if (lane != 0) return;
    workspace.half_squares[row] = real ? (km_real)(square / 2) : FAR;
    if (!real) return;
    km_slot_bounds *slot = workspace.slots + panels.slot;
    const km_real norm = km_upper_bound(sqrt(square));
    atomicMax(&slot->norm, km_bits_of(norm));
    const double relative = (sqrt(lost) - km_underflow(workspace)) / (norm > 0 ? norm : 1);
    atomicMax(&slot->relative_loss, km_bits_of(km_upper_bound(relative > 0 ? relative : 0)));
}

// ... 1 definition

enum {
    WARPS = 16,
    BLOCK = 32 * WARPS,
    POINTS = 16, // of a warp at a time
    STEP = 16,   // features of one product
    STEPS = PADDED_D / STEP,
    AHEAD = 4,               // steps that are read ahead
    LANE_NUMBERS = STEP / 4, // numbers of a step that a lane has: one 16-byte load
    TABLE_PITCH =
        (STEPS | 1) * STEP, // numbers from row to row in shared memory: eight rows have no bank conflicts
    PRODUCTS = TILE / 8,    // of eight centroids each
    SCORE_PITCH = TILE + 7, // numbers from point to point: no bank conflicts of a warp's lanes
    TILE_SLOTS = 12,        // of a tile; an even number
    RESOLVE_GRID = 41
};
static_assert(K_MAX <= 32, "a lane for each centroid of a slot");

// ... 13 definitions

// Labels of all active slots, and lists of ambiguous points.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tiled_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float scale = *workspace.scale, factor = 1 / (scale * scale);
    // ... lines of a template
// ... 1 definition

// Resolves the ambiguous points, a warp each: the nearest in double of all candidates.
// Candidates are found by distances in float, whose error is at most (D / 32 + 12) units: from additions in a lane and
// over lanes, and from rounding differences and squares.
// ... lines of a template
        float mine = 3e38f, least = 3e38f;  // the distance of centroid `lane`; the least of all
#pragma unroll 2
        for (int j = 0; j < panels.k; j++) {
            const float distance = km_distance<float>(x, centroids + (long long)j * D);
            mine = lane == j ? distance : mine;
            least = fminf(least, distance);
        }
        // Squares of very large and very small differences overflow or underflow.
        if (least > 1e-28f * D && least < 1e37f)
            candidates = __ballot_sync(0xffffffffu, mine <= least * (1 + 2.1f * (D / 32 + 12) / 16777216.f));
        int nearest = __ffs(candidates) - 1;
        if (!(candidates & (candidates - 1))) candidates = 0;
        double best = 1e308;
        for (; candidates; candidates &= candidates - 1) {
            const int j = __ffs(candidates) - 1;
            const double distance = km_distance<double>(x, centroids + (long long)j * D);
            nearest = distance < best ? j : nearest;
            best = distance < best ? distance : best;
        }
        if (lane == 0) workspace.labels[slot * workspace.stride + i] = (km_label)nearest;
    }
}

// ... 2 definitions

enum {
    CHUNKS = 39,
    SUM_WARPS = 4,
    SUM_POINTS = 16,       // that are read at a time
    SUM_TILES = TILE / 16, // products along the rows: sixteen rows each ...
    SUM_COLUMNS = 2,       // ... and along the features: eight features each
    SUM_FEATURE_WARPS = 9, // warps that split the features of a chunk
    SUM_PIECE_BYTES = 8    // bytes of one read from a point
};
constexpr long long SUMS_BYTES = (long long)CHUNKS * RESTARTS * S * (D + 1) * 8;
constexpr long long SUMS_POINT_BYTES = 0;

// ... 1 definition

// What a lane reads of SUM_POINTS points: of four of them the numbers of its column of each product, and the labels in
// the slots of the lane's rows.
struct km_sum_input {
    km_real numbers[4][SUM_COLUMNS];
    km_real weights[4];
    unsigned labels[2 * SUM_TILES];
};

// ... 1 definition
// ... lines of a template
        input.weights[p] = ((const km_real *)args.weights)[i + p];
    }
    KM_UNROLL_FOR (int r = 0; r < 2 * SUM_TILES; r++)
        input.labels[r] = *(const unsigned *)(workspace.labels + rows[r].slot * workspace.stride + i);
    return input;
}

// ... 1 definition

extern "C" __global__ void __launch_bounds__(SUM_WARPS * 32, 2)
    // ... lines of a template
                    ones[v] = other & 255u << q * 8 ? 0.0 : (double)input.weights[q];
                // ... lines of a template
// ... 1 definition

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tiled_norms", KM_STAGE_LOAD, LABELS_GRID, 1, 256, 0, 0},
    {"km_tiled_prepare", KM_STAGE_PASS, (TILES * TILE + 7) / 8, 1, 256, 0, 0},
    {"km_tiled_labels", KM_STAGE_PASS, LABELS_GRID, 1, BLOCK, sizeof(km_block), 0},
    {"km_tiled_resolve", KM_STAGE_PASS, RESOLVE_GRID, RESTARTS *KS, 256, 0, 0},
    {"km_tiled_track", KM_STAGE_PASS, LABELS_GRID, RESTARTS *KS, 256, 0, 0},
    {"km_tiled_sums", KM_STAGE_PASS, (CHUNKS * SUM_FEATURE_WARPS + SUM_WARPS - 1) / SUM_WARPS, TILES,
     SUM_WARPS * 32, 0, 0},
    {"km_tiled_reduce", KM_STAGE_PASS, (RESTARTS * S * (D + 1) + 7) / 8, 1, 256, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    TABLE_BYTES + SUMS_BYTES, TABLE_POINT_BYTES + SUMS_POINT_BYTES};
}
