// SPDX-License-Identifier: MIT
//@ need grid sum_columns sum_groups sum_piece sum_resident weighted
// Sums of few clusters as products of doubles on tensor cores: rows, one for each centroid of a tile, that are 1 (or
// the point's weight) where the point has the row's label, times the points, whose feature D is 1. A warp adds a range
// of points, for some features; what the ranges have is added in their order.

enum {
    RANGES = $grid,
    SUM_WARPS = 4,
    SUM_POINTS = 16,            // read at a time
    SUM_TILES = TILE / 16,      // products below each other: sixteen rows each ...
    SUM_COLUMNS = $sum_columns, // ... and side by side: eight features each
    SUM_GROUPS = $sum_groups,   // warps that share the features of a range
    SUM_PIECE = $sum_piece      // bytes of one read from a point
};
constexpr long long SUMS_BYTES = (long long)RANGES * RESTARTS * S * (D + 1) * 8;
constexpr long long SUMS_POINT_BYTES = 0;

// Numbers that are read at a time.
struct __align__(SUM_PIECE) km_sum_piece {
    km_real at[SUM_PIECE / sizeof(km_real)];
};

// What a lane reads of SUM_POINTS points: four of them, and of these the numbers that stand in its column of each
// product; the labels of the four in the slots of the lane's rows.
struct km_reading {
    km_real numbers[4][SUM_COLUMNS];
    //@ if weighted
    km_real weights[4];
    //@ end
    unsigned labels[2 * SUM_TILES];
};

// A row of a lane.
struct km_row {
    int slot;
    unsigned wanted; // its label, four times
};

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
        //@ if weighted
        reading.weights[p] = ((const km_real *)args.weights)[i + p];
        //@ end
    }
    KM_UNROLL_FOR (int r = 0; r < 2 * SUM_TILES; r++)
        reading.labels[r] = *(const unsigned *)(workspace.labels + rows[r].slot * workspace.stride + i);
    return reading;
}

//@ use mma_f64
extern "C" __global__ void __launch_bounds__(SUM_WARPS * 32, $sum_resident)
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
                    //@ if weighted
                    ones[v] = other & 255u << q * 8 ? 0.0 : (double)reading.weights[q];
                    //@ else
                    ones[v] = __hiloint2double(other & 255u << q * 8 ? 0 : 0x3ff00000, 0);
                    //@ end
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

//@ include cuda/tiled/sums_reduce.cu
