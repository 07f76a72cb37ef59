// SPDX-License-Identifier: MIT
//@ need grid sum_columns sum_feature_warps sum_piece sum_blocks_per_sm weighted
// Sums of few clusters as products of doubles on tensor cores. The first operand has a row for each centroid of a
// tile, which is 1 (or the point's weight) where the point has the row's label. The second is the points, with 1 as
// feature D. A warp adds a chunk of the points, for some features. Then the chunks' sums are added in their order.

enum {
    CHUNKS = $grid,
    SUM_WARPS = 4,
    SUM_POINTS = 16,                        // that are read at a time
    SUM_TILES = TILE / 16,                  // products along the rows: sixteen rows each ...
    SUM_COLUMNS = $sum_columns,             // ... and along the features: eight features each
    SUM_FEATURE_WARPS = $sum_feature_warps, // warps that split the features of a chunk
    SUM_PIECE_BYTES = $sum_piece            // bytes of one read from a point
};
constexpr long long SUMS_BYTES = (long long)CHUNKS * RESTARTS * S * (D + 1) * 8;
constexpr long long SUMS_POINT_BYTES = 0;

// Numbers that are read at a time.
struct __align__(SUM_PIECE_BYTES) km_sum_piece {
    km_real at[SUM_PIECE_BYTES / sizeof(km_real)];
};

// What a lane reads of SUM_POINTS points: of four of them the numbers of its column of each product, and the labels in
// the slots of the lane's rows.
struct km_sum_input {
    km_real numbers[4][SUM_COLUMNS];
    //@ if weighted
    km_real weights[4];
    //@ end
    unsigned labels[2 * SUM_TILES];
};

// A row of a lane.
struct km_row {
    int slot;
    unsigned wanted; // its label, in each of four bytes
};

__device__ __forceinline__ km_sum_input km_read_sum_input(const km_pass_args &args,
                                                          const km_workspace &workspace,
                                                          const km_row (&rows)[2 * SUM_TILES], long long i,
                                                          int f) {
    constexpr int NUMBERS = SUM_PIECE_BYTES / sizeof(km_real);
    km_sum_input input;
    KM_UNROLL_FOR (int p = 0; p < 4; p++) {
        KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c += NUMBERS) {
            const km_sum_piece piece =
                *(const km_sum_piece *)((const km_real *)args.points + (i + p) * D + f + c);
            KM_UNROLL_FOR (int v = 0; v < NUMBERS; v++) input.numbers[p][c + v] = piece.at[v];
        }
        //@ if weighted
        input.weights[p] = ((const km_real *)args.weights)[i + p];
        //@ end
    }
    KM_UNROLL_FOR (int r = 0; r < 2 * SUM_TILES; r++)
        input.labels[r] = *(const unsigned *)(workspace.labels + rows[r].slot * workspace.stride + i);
    return input;
}

//@ use mma_f64
extern "C" __global__ void __launch_bounds__(SUM_WARPS * 32, $sum_blocks_per_sm)
    km_tiled_sums(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int tile = blockIdx.y, lane = threadIdx.x % 32, id = blockIdx.x * SUM_WARPS + threadIdx.x / 32;
    const int chunk = id / SUM_FEATURE_WARPS;
    if (chunk >= CHUNKS || workspace.tile_slots[tile] < 0) return;
    km_row rows[2 * SUM_TILES];
    KM_UNROLL_FOR (int r = 0; r < 2 * SUM_TILES; r++) {
        const int row = tile * TILE + r * 8 + lane / 4;
        const km_slot_panels panels = km_panels_of(km_slot_of(row));
        rows[r] = {panels.slot, row < panels.end ? (row - panels.begin) * 0x01010101u : 0xffffffffu};
    }
    const int f =
        (id % SUM_FEATURE_WARPS * 8 + lane / 4) * SUM_COLUMNS; // the first of the lane's adjacent features
    const long long length = ((args.n + CHUNKS - 1) / CHUNKS + SUM_POINTS - 1) / SUM_POINTS * SUM_POINTS;
    const long long first = chunk * length, end = first + length < args.n ? first + length : args.n;
    double sums[SUM_TILES][SUM_COLUMNS][4] = {};
    km_sum_input next;
    if (first < end) next = km_read_sum_input(args, workspace, rows, first + lane % 4 * 4, f);
    for (long long at = first; at < end; at += SUM_POINTS) {
        const km_sum_input input = next;
        const long long i =
            at + lane % 4 * 4; // the lane's first point; past the last point there are rows of zeros
        if (at + SUM_POINTS < end) next = km_read_sum_input(args, workspace, rows, i + SUM_POINTS, f);
        KM_UNROLL_FOR (int p = 0; p < 4; p += 2) {
            double numbers[SUM_COLUMNS][2];
            KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c++)
                KM_UNROLL_FOR (int q = 0; q < 2; q++) {
                    const double one = i + p + q < args.n ? 1 : 0;
                    numbers[c][q] = f + c == D ? one : (double)input.numbers[p + q][c];
                }
            KM_UNROLL_FOR (int t = 0; t < SUM_TILES; t++) {
                double ones[4];
                KM_UNROLL_FOR (int v = 0; v < 4;
                               v++) { // row t * 16 + v % 2 * 8 + lane / 4 of the tile, point p + v / 2
                    const int r = 2 * t + v % 2, q = p + v / 2;
                    const unsigned other = input.labels[r] ^ rows[r].wanted;
                    //@ if weighted
                    ones[v] = other & 255u << q * 8 ? 0.0 : (double)input.weights[q];
                    //@ else
                    ones[v] = __hiloint2double(other & 255u << q * 8 ? 0 : 0x3ff00000, 0);
                    //@ end
                }
                KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c++)
                    km_mma_f64(sums[t][c], ones, numbers[c], sums[t][c]);
            }
        }
    }
    // Columns of a product are SUM_COLUMNS features apart.
    double *out = (double *)workspace.sums + chunk * (long long)RESTARTS * S * (D + 1);
    KM_UNROLL_FOR (int r = 0; r < 2 * SUM_TILES; r++) {
        const int row = tile * TILE + r * 8 + lane / 4;
        if (rows[r].wanted == 0xffffffffu) continue;
        const km_slot_panels panels = km_panels_of(rows[r].slot);
        const int first_row = panels.slot / KS * S + km_offsets[panels.slot % KS];
        double *to = out + (first_row + row - panels.begin) * (D + 1ll);
        KM_UNROLL_FOR (int c = 0; c < SUM_COLUMNS; c++)
            KM_UNROLL_FOR (int v = 0; v < 2; v++) {
                const int feature = (id % SUM_FEATURE_WARPS * 8 + lane % 4 * 2 + v) * SUM_COLUMNS + c;
                if (feature <= D) to[feature] = sums[r / 2][c][r % 2 * 2 + v];
            }
    }
}

//@ include cuda/tiled/sums_reduce.cu
