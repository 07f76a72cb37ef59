// SPDX-License-Identifier: MIT
//@ if sums_anew
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
    MASK_PAIRS = (D + 1 + 15) / 16,                                       // 16 features each
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
    FOURS = $fours,                   // of all slots: four centroids of a slot each
    MASK_ITEMS = FOURS * (MASK_POINTS / 4),
    MASK_LABELS = MASK_ITEMS <= MASK_BLOCK ? 1 : 2, // the same of labels
    MASK_DIGIT = MASK_FEATURES * MASK_POINTS        // bytes of a digit of a batch's numbers
};
static_assert(MASK_OWN * MASK_SPLIT <= MASK_WARPS, "each group of rows has a warp with each pair");
static_assert(FOURS * SELECTORS_PITCH < 1 << 16, "two places of selectors lie in a word");
static_assert((long long)MASK_SPAN * MASK_POINTS * 255 < 1ll << 32, "bytes of a span add up in 32 bits");

// Shared memory of a block. While products read one batch, the next one is written.
struct __align__(128) km_mask_memory {
    km_workspace workspace;                                 // here it takes no registers
    __align__(128) unsigned char digits[2][4 * MASK_DIGIT]; // bytes of numbers: [digit][feature][point]
    // For 4 points and four centroids a word's half says which one's each point is: a digit below 4, or none's.
    unsigned selectors[2][FOURS][SELECTORS_PITCH];
    unsigned fours[FOURS]; // the slot << 8, and which four of it
    bool has_labels[SLOTS];
};
constexpr int MASK_BYTES = (int)sizeof(km_mask_memory);

// What a thread has read of a batch.
struct km_mask_input {
    uint4 entries[MASK_AHEAD];
    int4 numbers[MASK_AHEAD];
    unsigned labels[MASK_LABELS];
};

__device__ __forceinline__ km_mask_memory &km_masks() {
    return *(km_mask_memory *)km_shared;
}

// Where a point's byte lies among those of a feature: eight features that are read together in different banks.
__device__ __forceinline__ unsigned km_digit_at(unsigned f, unsigned point) {
    return f * MASK_POINTS + (((point >> 4) ^ (f & 7)) << 4 | (point & 15));
}

// Four labels of a slot, from a point of the batch on; a slot without labels has none that is a centroid's.
__device__ __forceinline__ unsigned km_four_labels(const km_pass_args &args, const km_workspace &workspace,
                                                   long long first, int item) {
    if (item >= FOURS * (MASK_POINTS / 4)) return ~0u;
    const int slot = (int)(km_masks().fours[item / (MASK_POINTS / 4)] >> 8);
    if (!km_masks().has_labels[slot]) return ~0u;
    return __ldg(
        (const unsigned *)(km_labels_of(args, workspace, slot) + first + item % (MASK_POINTS / 4) * 4));
}

// Labels of four points as the selector of a four.
__device__ __forceinline__ void km_write_selector(int stage, int item, unsigned labels) {
    if (item >= FOURS * (MASK_POINTS / 4)) return;
    const int at = item / (MASK_POINTS / 4), pack = item % (MASK_POINTS / 4);
    unsigned away = labels ^ (km_masks().fours[at] & 0xff) * 0x04040404u; // below 4: in this four
    away |= (away >> 2 | away >> 4) & 0x0c0c0c0c;
    away = (away & 0x0f0f0f0f) | (away & 0x0f0f0f0f) >> 4;
    ((unsigned short *)&km_masks().selectors[stage][at][pack / 8 * 4 + pack % 4])[pack % 8 / 4] =
        (unsigned short)((away & 0xff) | (away >> 8 & 0xff00));
}

// A number of more than 31 bits joins the sums of all slots.
static __device__ __noinline__ void km_add_large(const km_pass_args &args, long long i, unsigned f) {
    const km_workspace workspace = km_workspace_of(args);
    const km_sparse_table &points = *(const km_sparse_table *)args.points;
    const km_row row = km_row_of(points, i);
    unsigned at = 0;
    while (((const km_index *)points.indices)[row.begin + at] != f) at++;
    const long long number = km_number_of(((const float *)points.values)[row.begin + at],
                                          km_weight_of(args, i), workspace.scales[f]);
    for (int slot = 0; slot < SLOTS; slot++) {
        if (!km_masks().has_labels[slot]) continue;
        const long long column = km_first_column(slot) + km_labels_of(args, workspace, slot)[i];
        atomicAdd(workspace.sums + column * (D + 1) + f, (unsigned long long)number);
    }
}

// Writes four numbers of a tile into the block's batch.
__device__ __forceinline__ void km_write_numbers(const km_pass_args &args, int stage, long long tile,
                                                 int first_feature, const uint4 &entries,
                                                 const int4 &numbers) {
    const unsigned words[4] = {entries.x, entries.y, entries.z, entries.w};
    const int values[4] = {numbers.x, numbers.y, numbers.z, numbers.w};
    KM_UNROLL_FOR (int u = 0; u < 4; u++) {
        const unsigned point = (words[u] >> 20 & (TILE - 1)) | (unsigned)(tile % MASK_TILES * TILE),
                       f = words[u] >> 25 << 3 | (words[u] >> 17 & 7);
        const unsigned own = f - (unsigned)first_feature;
        if (values[u] == 0 || (MASK_PARTS > 1 && own >= MASK_FEATURES)) continue;
        if (values[u] != LARGE)
            KM_UNROLL_FOR (int i = 0; i < 4; i++)
                km_masks().digits[stage][i * MASK_DIGIT + km_digit_at(own, point)] =
                    (unsigned char)((unsigned)values[u] >> 8 * i);
        else
            km_add_large(args, tile * TILE + (point & (TILE - 1)), f);
    }
}

// Where the entries of the tile of a batch are that the thread's warp reads; none behind the last tile.
__device__ __forceinline__ uint2 km_mask_place(const km_workspace &workspace, long long batch,
                                               long long tiles) {
    const int tile = batch * MASK_TILES + (int)(threadIdx.x / 32 % MASK_TILES);
    return tile < tiles ? __ldg(workspace.tiles + tile) : uint2{0, 0};
}

// Reads a batch, or as much of it as fits into registers.
__device__ __forceinline__ void km_read_batch(km_mask_input &input, const km_pass_args &args,
                                              const km_workspace &workspace, int batch, uint2 place) {
    const unsigned warp = threadIdx.x / 32, step = MASK_WARPS / MASK_TILES * 32,
                   first = warp / MASK_TILES * 32 + threadIdx.x % 32;
    KM_UNROLL_FOR (int a = 0; a < MASK_AHEAD; a++) {
        const bool is_there = first + a * step < place.y;
        const long long at = place.x + (long long)first + a * step;
        input.numbers[a] = is_there ? __ldg((const int4 *)workspace.numbers + at) : int4{0, 0, 0, 0};
        if (is_there) input.entries[a] = __ldg((const uint4 *)workspace.entries + at);
    }
    KM_UNROLL_FOR (int a = 0; a < MASK_LABELS; a++)
        input.labels[a] = (long long)batch * MASK_POINTS < args.n
                              ? km_four_labels(args, workspace, (long long)batch * MASK_POINTS,
                                               (int)threadIdx.x + a * MASK_BLOCK)
                              : ~0u;
    KM_UNROLL_1_FOR (unsigned at = first + MASK_AHEAD * step; at < place.y; at += step) {
        km_prefetch((const uint4 *)workspace.entries + place.x + at);
        km_prefetch((const uint4 *)workspace.numbers + place.x + at);
    }
}

// Writes it into shared memory, and what registers did not hold.
__device__ __forceinline__ void km_write_batch(const km_mask_input &input, const km_pass_args &args,
                                               const km_workspace &workspace, int batch, uint2 place,
                                               int stage) {
    const unsigned warp = threadIdx.x / 32, step = MASK_WARPS / MASK_TILES * 32,
                   first = warp / MASK_TILES * 32 + threadIdx.x % 32;
    const long long tile = batch * MASK_TILES + warp % MASK_TILES;
    const int first_feature = (int)blockIdx.y * MASK_FEATURES;
    KM_UNROLL_FOR (int a = 0; a < MASK_AHEAD; a++) {
        km_write_numbers(args, stage, tile, first_feature, input.entries[a], input.numbers[a]);
    }
    KM_UNROLL_FOR (int a = 0; a < MASK_LABELS; a++)
        km_write_selector(stage, (int)threadIdx.x + a * MASK_BLOCK, input.labels[a]);
    KM_UNROLL_1_FOR (unsigned at = first + MASK_AHEAD * step; at < place.y; at += step)
        km_write_numbers(args, stage, tile, first_feature,
                         __ldg((const uint4 *)workspace.entries + place.x + at),
                         __ldg((const int4 *)workspace.numbers + place.x + at));
    if ((long long)batch * MASK_POINTS >= args.n) return;
    KM_UNROLL_1_FOR (int item = (int)threadIdx.x + MASK_LABELS * MASK_BLOCK; item < MASK_ITEMS;
                     item += MASK_BLOCK)
        km_write_selector(stage, item, km_four_labels(args, workspace, (long long)batch * MASK_POINTS, item));
}

// The rows of a warp's lane: two of each tile, `g` and 8 more.
struct km_mask_rows {
    unsigned ones[2 * MASK_ROWS]; // a 1 in the byte of the centroid of its four; 0: no centroid
    unsigned fours[MASK_ROWS];    // where the selectors of their fours begin, the second << 16
};

// Sums of bytes of the numbers: of a tile of rows, 8 of the warp's features, a digit.
typedef int km_mask_sums[MASK_ROWS][2][4][4];

__device__ __forceinline__ int km_mask_column(int row) {
    return ((int)(threadIdx.x / 32) % MASK_OWN % MASK_ROW_GROUPS * MASK_ROWS + row / 2) * 16 + row % 2 * 8 +
           (int)(threadIdx.x % 32) / 4;
}

__device__ __forceinline__ void km_find_rows(km_mask_rows &rows) {
    KM_UNROLL_FOR (int r = 0; r < 2 * MASK_ROWS; r++) {
        const int column = km_mask_column(r);
        rows.ones[r] = 0;
        if (r % 2 == 0) rows.fours[r / 2] = 0;
        if (column >= COLUMNS) continue;
        const int slot = km_slot_of(column), j = column - km_first_column(slot);
        int four = 0;
        while (km_masks().fours[four] != (unsigned)(slot << 8 | j / 4)) four++;
        rows.ones[r] = 1u << j % 4 * 8;
        rows.fours[r / 2] |= (unsigned)(four * SELECTORS_PITCH) << r % 2 * 16;
    }
}

// Adds a batch in shared memory to the warp's sums.
__device__ __forceinline__ void km_add_batch(km_mask_sums &sums, const km_mask_rows &rows, int stage) {
    const unsigned lane = threadIdx.x % 32, t = lane % 4;
    const int own = (int)(threadIdx.x / 32) % MASK_OWN;
    // of the lane: a row of a matrix, which has 16 points of a feature; two of 16 points of each eight features
    const unsigned feature = own / MASK_ROW_GROUPS * 16 + lane / 16 * 8 + lane % 8,
                   row_at = km_shared_address(km_masks().digits[stage]) + feature * MASK_POINTS;
    const unsigned *selectors = &km_masks().selectors[stage][0][0] + t;
    KM_UNROLL_1_FOR (int step = (int)(threadIdx.x / 32) / MASK_OWN; step < MASK_TILES; step += MASK_SPLIT) {
        unsigned digits[4][4]; // of each digit: two halves of the step's points for each eight features
        KM_UNROLL_FOR (int i = 0; i < 4; i++)
            km_ldmatrix_x4(digits[i],
                           row_at + i * MASK_DIGIT + (((2 * step + lane / 8 % 2) ^ (lane & 7)) << 4));
        KM_UNROLL_FOR (int row = 0; row < MASK_ROWS; row++) {
            unsigned masks[4];
            KM_UNROLL_FOR (int r = 0; r < 2; r++) {
                const unsigned selector = selectors[(rows.fours[row] >> r * 16 & 0xffff) + step * 4];
                masks[r] = km_prmt_by(rows.ones[2 * row + r], 0, selector);
                masks[r + 2] = km_prmt_by(rows.ones[2 * row + r], 0, selector >> 16);
            }
            KM_UNROLL_FOR (int eight = 0; eight < 2; eight++) {
                int(&own)[4][4] = sums[row][eight];
                KM_UNROLL_FOR (int i = 0; i < 3; i++)
                    km_mma_s8_u8(own[i], masks, digits[i] + 2 * eight, own[i]);
                km_mma_s8(own[3], masks, digits[3] + 2 * eight, own[3]); // the last byte has the sign
            }
        }
    }
}

// Adds a warp's sums to those of all blocks.
__device__ __forceinline__ void km_add_sums(const km_mask_sums &sums, const km_workspace &workspace) {
    const int own = (int)(threadIdx.x / 32) % MASK_OWN,
              first = (int)blockIdx.y * MASK_FEATURES + own / MASK_ROW_GROUPS * 16 + (int)threadIdx.x % 4 * 2;
    KM_UNROLL_FOR (int row = 0; row < MASK_ROWS; row++)
        KM_UNROLL_FOR (int eight = 0; eight < 2; eight++)
            KM_UNROLL_FOR (int i = 0; i < 4; i++) {
                const int(&own)[4][4] = sums[row][eight];
                const long long sum = (long long)(unsigned)own[0][i] + ((long long)(unsigned)own[1][i] << 8) +
                                      ((long long)(unsigned)own[2][i] << 16) + own[3][i] * (1ll << 24);
                const long long column = km_mask_column(2 * row + i / 2), f = first + eight * 8 + i % 2;
                if (sum && column < COLUMNS && f <= D)
                    atomicAdd(workspace.sums + column * (D + 1) + f, (unsigned long long)sum);
            }
}

extern "C" __global__ void __launch_bounds__(MASK_BLOCK, 1)
    km_sparse_masks(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace &workspace = km_masks().workspace;
    if (threadIdx.x == 0) {
        km_masks().workspace = km_workspace_of(args);
        for (int slot = 0, at = 0; slot < SLOTS; slot++)
            for (int four = 0; four < (km_ks[slot % KS] + 3) / 4; four++)
                km_masks().fours[at++] = (unsigned)(slot << 8 | four);
    }
    __syncthreads();
    if (!km_sums_anew(workspace, args.n)) return;
    for (int slot = (int)threadIdx.x; slot < SLOTS; slot += MASK_BLOCK)
        km_masks().has_labels[slot] = args.active[slot] || workspace.slots[slot].begun;
    __syncthreads();
    const bool has_sums = threadIdx.x / 32 < MASK_OWN * MASK_SPLIT;
    km_mask_rows rows;
    km_find_rows(rows);
    // n is below 2^32 there
    const int tiles = (int)((args.n + TILE - 1) / TILE),
              batches = (int)((args.n + MASK_POINTS - 1) / MASK_POINTS), step = (int)gridDim.x;
    for (int first = (int)blockIdx.x; first < batches; first += MASK_SPAN * step) {
        const int end = min(batches, first + MASK_SPAN * step);
        km_mask_sums sums = {};
        uint2 next = km_mask_place(workspace, first, tiles);
        int stage = 1;
        // Chunk by batch; in the first round there is none to add yet.
        for (int batch = first - step; batch < end; batch += step, stage ^= 1) {
            km_mask_input input;
            const uint2 place = next;
            const int ahead = batch + step < end ? batch + step : batches;
            km_read_batch(input, args, workspace, ahead, place);
            next = km_mask_place(workspace, ahead < end ? ahead + step : batches, tiles);
            uint4 *cleared = (uint4 *)km_masks().digits[stage ^ 1];
            for (int at = (int)threadIdx.x; at < MASK_FEATURES * MASK_POINTS / 4; at += MASK_BLOCK)
                cleared[at] = uint4{0, 0, 0, 0};
            if (batch >= first && has_sums) km_add_batch(sums, rows, stage);
            __syncthreads();
            km_write_batch(input, args, workspace, ahead, place, stage ^ 1);
            __syncthreads();
        }
        if (has_sums) km_add_sums(sums, workspace);
    }
}
//@ end
