// Of the text of {features: 128, clusters: 2..20, target: cuda:sm_90} weighted tracked: The pass
// "..." stands for what a template or an earlier part shows.

// ... 3 definitions

// The workspace.
typedef unsigned short km_table_number; // of the table of centroids: half precision, as bits
typedef unsigned km_bits;

// ... 1 definition

struct km_workspace {
    float *scale; // of points and centroids in half precision
    km_slot_bounds *slots;
    int *tile_slots;       // the slot of a tile's first row; -1 where no slot of the tile is active
    km_real *half_squares; // |c|^2 / 2 of each row of the table
    km_table_number *table;
    km_real *norms;   // |x| of each point
    float *residuals; // what half precision loses of it
    km_label *labels; // of each slot, `stride` apart: past the last point come zeros
    long long stride;
    unsigned *lists; // of each slot: its ambiguous points
    char *sums;      // what adding needs
};

// ... 1 definition

__device__ __forceinline__ km_workspace km_workspace_of(const km_pass_args &args) {
    km_workspace workspace;
    char *at = (char *)args.workspace;
    workspace.scale = (float *)km_take(&at, sizeof(float));
    workspace.slots = (km_slot_bounds *)km_take(&at, RESTARTS * KS * sizeof(km_slot_bounds));
    workspace.tile_slots = (int *)km_take(&at, TILES * 4ll);
    workspace.half_squares = (km_real *)km_take(&at, (long long)TILES * TILE * sizeof(km_real));
    workspace.table =
        (km_table_number *)km_take(&at, (long long)TILES * TILE * WIDTH * sizeof(km_table_number));
    workspace.norms = (km_real *)km_take(&at, args.n * sizeof(km_real));
    workspace.residuals = (float *)km_take(&at, args.n * sizeof(float));
    workspace.stride = (args.n + 255) / 256 * 256;
    workspace.labels = (km_label *)km_take(&at, RESTARTS * KS * workspace.stride * (int)sizeof(km_label));
    workspace.lists = (unsigned *)km_take(&at, (long long)RESTARTS * KS * args.n * 4);
    workspace.sums = at;
    return workspace;
}

// ... 4 definitions

// Bytes of the workspace, and of it for each point, but for what adding needs.
constexpr long long TABLE_BYTES =
    16 * KM_ALIGN_BYTES + RESTARTS * KS * (256ll * sizeof(km_label) + sizeof(km_slot_bounds)) + TILES * 4ll +
    (long long)TILES * TILE * (sizeof(km_real) + WIDTH * sizeof(km_table_number));
constexpr long long TABLE_POINT_BYTES = 2 * sizeof(float) + RESTARTS * KS * ((long long)sizeof(km_label) + 4);

// ... 7 definitions

// What a centroid may lose below the smallest normal number of its type in the table.
__device__ __forceinline__ float km_fine(const km_workspace &workspace) {
    return sqrtf(WIDTH) * 1.001f / 33554432.f / *workspace.scale;
}

// ... 2 definitions

__device__ __forceinline__ km_norms km_norms_of(const km_workspace &workspace, long long i) {
    return {workspace.norms[i], workspace.residuals[i]};
}

// How far below the best score another may be measured and still be the best: both scores' errors. For a point of norm
// g, a centroid's is at most e |c| (and a constant), e the part of g that products and sums may lose. A centroid of
// |c| >= 4 g has a score t of at most -|c|^2 / 4, so that its error is at most e / g |t|: such centroids count for as
// much as the best score does. The factors have room for the rounding of these lines.
__device__ __forceinline__ km_real km_margin(km_real fine, const km_slot_bounds &slot, const km_norms &point,
                                             km_real best) {
    const km_real g = point.norm, c = km_value_of(slot.norm), near = c < 4 * g ? c : 4 * g;
    const km_real e = point.lost + g * (km_value_of(slot.coarse) + ROUNDING);
    km_real margin = 2.01f * (e * near + (g + point.lost) * fine);
    margin += fabsf(best) / 131072; // for the bits that a column has taken
    if (c > 4 * g) margin += (km_real)2.5 * (g > 0 ? e / g : ROUNDING) * (best < 0 ? -best : best);
    return margin;
}

// When points are loaded: |x| of each point, a warp each.
extern "C" __global__ void __launch_bounds__(256) km_tiled_norms(const __grid_constant__ km_pass_args args) {
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
        workspace.norms[i] = km_above(sqrt(square));
        workspace.residuals[i] = km_above(sqrt(lost));
    }
}

// In each pass: the table of centroids, a warp each row. Four blocks of a multiprocessor: said, or the compiler aims at
// more, and spills.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_tiled_prepare(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int row = blockIdx.x * 8 + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (row >= TILES * TILE) return;
    const int group = row / PAD;
    if (row % TILE == 0) {
        int active = 0;
        for (int g = group + lane; g < group + TILE_GROUPS && g < RESTARTS * GROUPS; g += 32)
            active |= args.active[km_slot_of(g)];
        active = __any_sync(0xffffffffu, active);
        if (lane == 0) workspace.tile_slots[row / TILE] = active ? km_slot_of(group) : -1;
    }
    const km_place place = km_place_of(group < RESTARTS * GROUPS ? km_slot_of(group) : 0);
    const int j = row - place.begin * PAD, real = group < RESTARTS * GROUPS && j < place.k;
    const long long first = (long long)(place.slot / KS) * S + km_offsets[place.slot % KS];
    const km_real *c = (const km_real *)args.centroids + (first + j) * D;
    km_table_number *to = workspace.table + (long long)row * WIDTH;
    double square = 0;
    double lost = 0;
    for (int f = lane; f < WIDTH; f += 32) {
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
    km_slot_bounds *slot = workspace.slots + place.slot;
    const km_real norm = km_above(sqrt(square));
    atomicMax(&slot->norm, km_bits_of(norm));
    const double share = (sqrt(lost) - km_fine(workspace)) / (norm > 0 ? norm : 1);
    atomicMax(&slot->coarse, km_bits_of(km_above(share > 0 ? share : 0)));
}

// ... 1 definition

enum {
    WARPS = 16,
    BLOCK = 32 * WARPS,
    POINTS = 16, // of a warp at a time
    STEP = 16,   // features of one product
    STEPS = WIDTH / STEP,
    AHEAD = 4,                // steps that are read before they are worked on
    OWN = STEP / 4,           // numbers of a step in a lane: those of one 16-byte load
    ROW = (STEPS | 1) * STEP, // numbers from row to row in shared memory: eight rows in different banks
    PRODUCTS = TILE / 8,      // side by side
    SCORES = TILE + 7,        // from point to point: rows of a warp's lanes in different banks
    TILE_SLOTS = 12,          // an even number
    RESOLVE_GRID = 41
};
static_assert(K_MAX <= 32, "a lane for each centroid of a slot");

// ... 13 definitions

// Labels of all active slots; ambiguous points are listed.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tiled_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const float scale = *workspace.scale, factor = 1 / (scale * scale);
    const km_real fine = km_fine(workspace);
    const long long stride = gridDim.x * (long long)(WARPS * POINTS);
    for (int tile = 0; tile < TILES; tile++) {
        if (workspace.tile_slots[tile] < 0) continue;
        km_begin_block(block, args, workspace, tile);
        long long first = (blockIdx.x * WARPS + warp) * (long long)POINTS;
        const km_real *x = (const km_real *)args.points + (first + lane / 4) * D + lane % 4 * OWN;
        km_step ahead[AHEAD];
        KM_UNROLL_FOR (int a = 0; a < AHEAD; a++)
            if (first < args.n) ahead[a] = km_read_step(x, a);
        for (; first < args.n; first += stride) {
            const km_norms point = km_norms_of(workspace, min(first + lane % POINTS, args.n - 1));
            km_real score[PRODUCTS][4] = {};
#pragma unroll 1
            for (int step = 0; step < STEPS; step += AHEAD)
                KM_UNROLL_FOR (int a = 0; a < AHEAD; a++) {
                    if (step + a >= STEPS) break;
                    const km_step now = ahead[a];
                    if (step + a + AHEAD < STEPS) ahead[a] = km_read_step(x, step + a + AHEAD);
                    km_multiply(score, block, now, step + a, scale);
                }
            x += stride * D;
            KM_UNROLL_FOR (int a = 0; a < AHEAD; a++)
                if (first + stride < args.n) ahead[a] = km_read_step(x, a);
            km_real(*scores)[SCORES] = block.scores[warp];
            KM_UNROLL_FOR (int p = 0; p < PRODUCTS; p++)
                KM_UNROLL_FOR (int v = 0; v < 4; v++) {
                    const int column = p * 8 + lane % 4 * 2 + v % 2;
                    scores[lane / 4 + v / 2 * 8][column] =
                        fma(score[p][v], factor, -block.half_squares[column]);
                }
            __syncwarp();
            km_choose_labels(block, workspace, args.n, first, point, fine);
            __syncwarp();
        }
    }
}

// ... 1 definition

// Resolves the ambiguous points, a warp each: the nearest in double of all centroids that may be it.
// Those are found by distances in float, which are right but for (D / 32 + 12) units: additions of a lane, of lanes,
// and what differences and squares round.
extern "C" __global__ void __launch_bounds__(256, 4)
    km_tiled_resolve(const __grid_constant__ km_pass_args args) {
    const int slot = blockIdx.y;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const km_place place = km_place_of(slot);
    const km_real *centroids =
        (const km_real *)args.centroids + ((long long)(slot / KS) * S + km_offsets[slot % KS]) * D;
    const unsigned listed = workspace.slots[slot].ambiguous, lane = threadIdx.x % 32;
    for (unsigned at = blockIdx.x * 8 + threadIdx.x / 32; at < listed; at += gridDim.x * 8) {
        const long long i = workspace.lists[slot * args.n + at];
        const km_real *x = (const km_real *)args.points + i * D;
        unsigned open = 0xffffffffu >> (32 - place.k); // centroids that may be the nearest
        float mine = 3e38f, least = 3e38f;             // of centroid `lane`; of all
#pragma unroll 2
        for (int j = 0; j < place.k; j++) {
            const float distance = km_distance<float>(x, centroids + (long long)j * D);
            mine = lane == j ? distance : mine;
            least = fminf(least, distance);
        }
        // Squares of very large and very small differences are not what they should be.
        if (least > 1e-28f * D && least < 1e37f)
            open = __ballot_sync(0xffffffffu, mine <= least * (1 + 2.1f * (D / 32 + 12) / 16777216.f));
        int nearest = __ffs(open) - 1;
        if (!(open & (open - 1))) open = 0;
        double best = 1e308;
        for (; open; open &= open - 1) {
            const int j = __ffs(open) - 1;
            const double distance = km_distance<double>(x, centroids + (long long)j * D);
            nearest = distance < best ? j : nearest;
            best = distance < best ? distance : best;
        }
        if (lane == 0) workspace.labels[slot * workspace.stride + i] = (km_label)nearest;
    }
}

// ... 2 definitions

enum {
    RANGES = 39,
    SUM_WARPS = 4,
    SUM_POINTS = 16,       // read at a time
    SUM_TILES = TILE / 16, // products below each other: sixteen rows each ...
    SUM_COLUMNS = 2,       // ... and side by side: eight features each
    SUM_GROUPS = 9,        // warps that share the features of a range
    SUM_PIECE = 8          // bytes of one read from a point
};
constexpr long long SUMS_BYTES = (long long)RANGES * RESTARTS * S * (D + 1) * 8;
constexpr long long SUMS_POINT_BYTES = 0;

// ... 1 definition

// What a lane reads of SUM_POINTS points: four of them, and of these the numbers that stand in its column of each
// product; the labels of the four in the slots of the lane's rows.
struct km_reading {
    km_real numbers[4][SUM_COLUMNS];
    km_real weights[4];
    unsigned labels[2 * SUM_TILES];
};

// ... 1 definition

__device__ __forceinline__ km_reading km_read(const km_pass_args &args, const km_workspace &workspace,
                                              const km_row (&rows)[2 * SUM_TILES], long long i, int f) {
    constexpr int NUMBERS = SUM_PIECE / sizeof(km_real);
    km_reading reading;
    KM_UNROLL_FOR (int p = 0; p < 4; p++) {
        KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c += NUMBERS) {
            const km_sum_piece piece =
                *(const km_sum_piece *)((const km_real *)args.points + (i + p) * D + f + c);
            KM_UNROLL_FOR (int v = 0; v < NUMBERS; v++) reading.numbers[p][c + v] = piece.at[v];
        }
        reading.weights[p] = ((const km_real *)args.weights)[i + p];
    }
    KM_UNROLL_FOR (int r = 0; r < 2 * SUM_TILES; r++)
        reading.labels[r] = *(const unsigned *)(workspace.labels + rows[r].slot * workspace.stride + i);
    return reading;
}

// ... 1 definition

extern "C" __global__ void __launch_bounds__(SUM_WARPS * 32, 2)
    km_tiled_sums(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int tile = blockIdx.y, lane = threadIdx.x % 32, id = blockIdx.x * SUM_WARPS + threadIdx.x / 32;
    const int range = id / SUM_GROUPS;
    if (range >= RANGES || workspace.tile_slots[tile] < 0) return;
    km_row rows[2 * SUM_TILES];
    KM_UNROLL_FOR (int r = 0; r < 2 * SUM_TILES; r++) {
        const int row = tile * TILE + r * 8 + lane / 4;
        const km_place place = km_place_of(km_slot_of(row));
        rows[r] = {place.slot, row < place.end ? (row - place.begin) * 0x01010101u : 0xffffffffu};
    }
    const int f =
        (id % SUM_GROUPS * 8 + lane / 4) * SUM_COLUMNS; // the first of the lane's features, side by side
    const long long length = ((args.n + RANGES - 1) / RANGES + SUM_POINTS - 1) / SUM_POINTS * SUM_POINTS;
    const long long first = range * length, end = first + length < args.n ? first + length : args.n;
    double sums[SUM_TILES][SUM_COLUMNS][4] = {};
    km_reading next;
    if (first < end) next = km_read(args, workspace, rows, first + lane % 4 * 4, f);
    for (long long at = first; at < end; at += SUM_POINTS) {
        const km_reading reading = next;
        const long long i = at + lane % 4 * 4; // the lane's first point; past the last one come rows of zeros
        if (at + SUM_POINTS < end) next = km_read(args, workspace, rows, i + SUM_POINTS, f);
        KM_UNROLL_FOR (int p = 0; p < 4; p += 2) {
            double numbers[SUM_COLUMNS][2];
            KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c++)
                KM_UNROLL_FOR (int q = 0; q < 2; q++) {
                    const double one = i + p + q < args.n ? 1 : 0;
                    numbers[c][q] = f + c == D ? one : (double)reading.numbers[p + q][c];
                }
            KM_UNROLL_FOR (int t = 0; t < SUM_TILES; t++) {
                double ones[4];
                KM_UNROLL_FOR (int v = 0; v < 4;
                               v++) { // row t * 16 + v % 2 * 8 of the group, point p + v / 2
                    const int r = 2 * t + v % 2, q = p + v / 2;
                    const unsigned other = reading.labels[r] ^ rows[r].wanted;
                    ones[v] = other & 255u << q * 8 ? 0.0 : (double)reading.weights[q];
                }
                KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c++)
                    km_mma_f64(sums[t][c], ones, numbers[c], sums[t][c]);
            }
        }
    }
    // Columns of a product lie SUM_COLUMNS features apart.
    double *out = (double *)workspace.sums + range * (long long)RESTARTS * S * (D + 1);
    KM_UNROLL_FOR (int r = 0; r < 2 * SUM_TILES; r++) {
        const int row = tile * TILE + r * 8 + lane / 4;
        if (rows[r].wanted == 0xffffffffu) continue;
        const km_place place = km_place_of(rows[r].slot);
        const int first_row = place.slot / KS * S + km_offsets[place.slot % KS];
        double *to = out + (first_row + row - place.begin) * (D + 1ll);
        KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c++)
            KM_UNROLL_FOR (int v = 0; v < 2; v++) {
                const int feature = (id % SUM_GROUPS * 8 + lane % 4 * 2 + v) * SUM_COLUMNS + c;
                if (feature <= D) to[feature] = sums[r / 2][c][r % 2 * 2 + v];
            }
    }
}

// ... 1 definition

extern "C" {
__device__ km_pass_launch km_pass_launches[] = {
    {"km_tiled_norms", KM_STAGE_LOAD, LABELS_GRID, 1, 256, 0, 0},
    {"km_tiled_prepare", KM_STAGE_PASS, (TILES * TILE + 7) / 8, 1, 256, 0, 0},
    {"km_tiled_labels", KM_STAGE_PASS, LABELS_GRID, 1, BLOCK, sizeof(km_block), 0},
    {"km_tiled_resolve", KM_STAGE_PASS, RESOLVE_GRID, RESTARTS *KS, 256, 0, 0},
    {"km_tiled_track", KM_STAGE_PASS, LABELS_GRID, RESTARTS *KS, 256, 0, 0},
    {"km_tiled_sums", KM_STAGE_PASS, (RANGES * SUM_GROUPS + SUM_WARPS - 1) / SUM_WARPS, TILES, SUM_WARPS * 32,
     0, 0},
    {"km_tiled_reduce", KM_STAGE_PASS, (RESTARTS * S * (D + 1) + 7) / 8, 1, 256, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    TABLE_BYTES + SUMS_BYTES, TABLE_POINT_BYTES + SUMS_POINT_BYTES};
}
