// SPDX-License-Identifier: MIT
//@ include cuda.h
//@ need grid block lanes teams sums_bytes piece
// The pass of design `shared`: any d, any K, any type. One thread a point finds the labels of every active slot;
// then each warp adds the points of its own range to its own rows of sums, in a fixed order, and the rows are added
// in the order of the ranges.

enum {
    RANGES = $grid,
    BLOCK = $block,
    LANES = $lanes,      // lanes that add one point: a power of two, as many as the point has numbers
    TEAMS = $teams,      // teams of LANES in a warp that add points side by side, each to rows of its own
    SUMS_BYTES = $sums_bytes, // shared memory for the rows of all teams; 0: rows are added in place
    PIECE = $piece,      // numbers of one load: 16 bytes, or what divides d
    AHEAD = 8            // points that a team reads before it adds them
};
constexpr int CHUNK = D <= 32 ? int(D) : 16; // features of a point in registers at a time

typedef unsigned short pass_label;

struct __align__(PIECE * sizeof(km_real)) pass_piece {
    km_real at[PIECE];
};

__device__ __forceinline__ double *pass_rows(const km_pass_args &args) {
    return (double *)args.workspace; // [RANGES][COPIES * S][D + 1]
}

__device__ __forceinline__ pass_label *pass_labels(const km_pass_args &args, int slot) {
    return (pass_label *)(pass_rows(args) + (long long)RANGES * COPIES * S * (D + 1)) + slot * args.n;
}

// Nearest of k centroids by the difference form in arithmetic of type Real; ties to the lowest index. *lead is how much
// nearer it is than the next, as a share of that one's distance.
template <typename Real>
__device__ __forceinline__ int pass_nearest(Real *lead, const km_real *x, const km_real *centroids, int k) {
    Real best = 0, second = 0;
    int label = 0;
    for (int j = 0; j < k; j++) {
        Real square = 0;
        for (int f = 0; f < D; f += CHUNK)
#pragma unroll
            for (int g = 0; g < CHUNK; g += PIECE)
                if (f + g < D) {
                    const pass_piece a = *(const pass_piece *)(x + f + g);
                    const pass_piece b = *(const pass_piece *)(centroids + (long long)j * D + f + g);
#pragma unroll
                    for (int i = 0; i < PIECE; i++) {
                        const Real t = (Real)a.at[i] - (Real)b.at[i];
                        square = fma(t, t, square);
                    }
                }
        if (j == 0 || square < best) {
            second = j == 0 ? square + square : best;
            best = square;
            label = j;
        } else if (j == 1 || square < second) {
            second = square;
        }
    }
    *lead = (second - best) / (second > 0 ? second : 1);
    return label;
}

//@ if not float64
// What float32 cannot tell apart for sure is decided in double.
constexpr float SURE_LEAD = (D + 4) * 1.1920929e-7f;

__device__ __noinline__ int pass_decide(const km_real *x, const km_real *centroids, int k) {
    double lead;
    return pass_nearest<double>(&lead, x, centroids, k);
}
//@ end

extern "C" __global__ void __launch_bounds__(BLOCK) km_shared_labels(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const int slot = blockIdx.y;
    if (!args.active[slot]) return;
    const int k_index = slot % KS;
    const km_real *centroids =
        (const km_real *)args.centroids + ((long long)(slot / KS) * S + km_offsets[k_index]) * D;
    pass_label *labels = pass_labels(args, slot);
    //@ if track_labels
    unsigned long long changes = 0;
    //@ end
    for (long long i = blockIdx.x * (long long)BLOCK + threadIdx.x; i < args.n; i += (long long)gridDim.x * BLOCK) {
        const km_real *x = (const km_real *)args.points + i * D;
        km_real lead;
        //@ if float64
        const int label = pass_nearest<double>(&lead, x, centroids, km_ks[k_index]);
        //@ else
        int label = pass_nearest<float>(&lead, x, centroids, km_ks[k_index]);
        if (!(lead > SURE_LEAD)) label = pass_decide(x, centroids, km_ks[k_index]);
        //@ end
        labels[i] = (pass_label)label;
        //@ if track_labels
        km_label *kept = (km_label *)args.labels + slot * args.labels_stride + i;
        changes += *kept != (km_label)label;
        *kept = (km_label)label;
        //@ end
    }
    //@ if track_labels
    if (changes) atomicAdd(args.changes + slot, changes);
    //@ end
}

// One warp a (range, slot). A lane always meets the same features of a row, so it needs no atomics.
extern "C" __global__ void __launch_bounds__(32) km_shared_sums(const __grid_constant__ km_pass_args args) {
    extern __shared__ double shared_rows[];
    if (args.control->stop) return;
    const int slot = blockIdx.y, team = threadIdx.x / LANES, lane = threadIdx.x % LANES;
    if (!args.active[slot]) return;
    const int k_index = slot % KS, numbers = km_ks[k_index] * (D + 1);
    const long long row = (long long)(slot / KS) * S + km_offsets[k_index];
    double *out = pass_rows(args) + (blockIdx.x * (long long)COPIES * S + row) * (D + 1);
    double *rows = SUMS_BYTES ? shared_rows : out, *sums = rows + team * numbers;
    for (int at = threadIdx.x; at < TEAMS * numbers; at += 32) rows[at] = 0.0;
    __syncwarp();
    const long long length = (args.n + RANGES - 1) / RANGES, first = blockIdx.x * length;
    const long long end = first + length < args.n ? first + length : args.n;
    const pass_label *labels = pass_labels(args, slot);
    const km_real *points = (const km_real *)args.points;
    for (int f = lane; f <= D; f += LANES) {
        for (long long i = first + team; i < end; i += AHEAD * TEAMS) {
            double number[AHEAD];
            int label[AHEAD];
#pragma unroll
            for (int a = 0; a < AHEAD; a++) {
                const long long point = i + a * TEAMS < end ? i + a * TEAMS : i;
                label[a] = labels[point];
                //@ if weighted
                const double weight = ((const km_real *)args.weights)[point];
                //@ else
                const double weight = 1.0;
                //@ end
                number[a] = f < D ? weight * points[point * D + f] : weight;
            }
#pragma unroll
            for (int a = 0; a < AHEAD; a++)
                if (i + a * TEAMS < end) sums[(long long)label[a] * (D + 1) + f] += number[a];
        }
    }
    __syncwarp();
    if (SUMS_BYTES)
        for (int at = threadIdx.x; at < numbers; at += 32) {
            double sum = rows[at];
            for (int other = 1; other < TEAMS; other++) sum += rows[other * numbers + at];
            out[at] = sum;
        }
}

// One warp a number: lanes take every 32nd range.
extern "C" __global__ void __launch_bounds__(256) km_shared_reduce(const __grid_constant__ km_pass_args args) {
    if (args.control->stop) return;
    const long long numbers = (long long)COPIES * S * (D + 1);
    const long long at = blockIdx.x * 8ll + threadIdx.x / 32;
    if (at >= numbers) return;
    const double *rows = pass_rows(args);
    double sum = 0.0;
#pragma unroll 8
    for (int range = threadIdx.x % 32; range < RANGES; range += 32) sum += rows[range * numbers + at];
    for (int width = 16; width > 0; width /= 2) sum += __shfl_xor_sync(0xffffffff, sum, width);
    if (threadIdx.x % 32 == 0) args.totals[at] = sum;
}

extern "C" {
__device__ km_pass_launch km_pass_launches[3] = {
    {"km_shared_labels", KM_STAGE_PASS, RANGES, COPIES * KS, BLOCK, 0, 0},
    {"km_shared_sums", KM_STAGE_PASS, RANGES, COPIES * KS, 32, SUMS_BYTES, 0},
    {"km_shared_reduce", KM_STAGE_PASS, (COPIES * S * (D + 1) + 7) / 8, 1, 256, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, 3, (long long)RANGES *COPIES *S *(D + 1) * 8,
                                    2ll * COPIES * KS};
}
//@ include steps.cu
