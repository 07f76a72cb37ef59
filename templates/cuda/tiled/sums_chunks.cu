// SPDX-License-Identifier: MIT
//@ need grid lanes parts sum_warps group_slots group_rows
// Sums of few clusters: a block adds the points of its range to rows in shared memory, a team of lanes up to AT_ONCE
// slots; what the blocks found is added in the order of their ranges.

enum {
    RANGES = $grid,
    LANES = $lanes,         // lanes of a team, a feature each
    PARTS = $parts,         // blocks that share the features of a range
    SUM_WARPS = $sum_warps, // warps of a block
    TEAMS = SUM_WARPS * 32 / LANES,
    AT_ONCE = 4,                // slots of a team, and points that it reads at a time
    GROUP_SLOTS = $group_slots, // slots of a block: at most AT_ONCE for each team
    GROUP_ROWS = $group_rows,   // clusters of a block, at most
    SLOT_GROUPS = (RESTARTS * KS + GROUP_SLOTS - 1) / GROUP_SLOTS
};
constexpr long long SUMS_BYTES = (long long)RANGES * RESTARTS * S * (D + 1) * 8;
constexpr long long SUMS_POINT_BYTES = 0;

// Labels of points side by side.
struct __align__(AT_ONCE * sizeof(km_label)) km_four_labels {
    km_label at[AT_ONCE];
};

// What a team reads of AT_ONCE points: a number of each, and its labels in each of its slots.
struct km_reading {
    km_real numbers[AT_ONCE];
    //@ if weighted
    km_real weights[AT_ONCE];
    //@ end
    km_four_labels labels[AT_ONCE];
};

// Past the last point come rows of zeros and labels 0: they add nothing.
__device__ __forceinline__ km_reading km_read(const km_pass_args &args,
                                              const km_label *const (&labels)[AT_ONCE], long long i, int f) {
    km_reading reading;
    KM_UNROLL_FOR (int a = 0; a < AT_ONCE; a++) {
        //@ if weighted
        reading.weights[a] = ((const km_real *)args.weights)[i + a];
        reading.numbers[a] = f < D ? ((const km_real *)args.points)[(i + a) * D + f] : (km_real)1;
        //@ else
        reading.numbers[a] = f < D ? ((const km_real *)args.points)[(i + a) * D + f] : (km_real)0;
        //@ end
        reading.labels[a] = *(const km_four_labels *)(labels[a] + i);
    }
    return reading;
}

struct km_range_sums {
    double rows[GROUP_ROWS + TEAMS][LANES]; // the last ones take what nobody asks for, of each team
    //@ if not weighted
    unsigned counts[GROUP_ROWS];
    //@ end
    int first_rows[GROUP_SLOTS];
};

//@ if not weighted
// Points of each cluster.
static __device__ void km_count(km_range_sums &sums, const km_pass_args &args, const km_workspace &workspace,
                                int slot, int slots, long long first, long long end) {
    for (int s = 0; s < slots; s++) {
        if (!args.active[slot + s]) continue;
        const km_label *labels = workspace.labels + (slot + s) * workspace.stride;
        for (long long i = first + threadIdx.x; i < end && i < args.n; i += SUM_WARPS * 32)
            atomicAdd(&sums.counts[sums.first_rows[s] + labels[i]], 1u);
    }
}

//@ end
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
    //@ if not weighted
    for (int at = threadIdx.x; at < GROUP_ROWS; at += SUM_WARPS * 32) sums.counts[at] = 0;
    //@ end
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
            //@ if weighted
            const double number = (double)reading.weights[a] * reading.numbers[a];
            //@ else
            const double number = reading.numbers[a];
            //@ end
            // Rows of different slots: all are read before one is written.
            double sum[AT_ONCE];
            KM_UNROLL_FOR (int s = 0; s < AT_ONCE; s++)
                sum[s] = rows[s][reading.labels[s].at[a] * width[s]] + number;
            KM_UNROLL_FOR (int s = 0; s < AT_ONCE; s++) rows[s][reading.labels[s].at[a] * width[s]] = sum[s];
        }
    }
    //@ if not weighted
    if (part == 0) km_count(sums, args, workspace, slot, slots, first, end);
    //@ end
    __syncthreads();
    const long long row = (long long)(slot / KS) * S + km_offsets[slot % KS];
    const int count = sums.first_rows[slots - 1] + km_ks[(slot + slots - 1) % KS];
    double *out = (double *)workspace.sums + (blockIdx.x * (long long)RESTARTS * S + row) * (D + 1);
    for (int at = team; at < count; at += TEAMS) {
        //@ if weighted
        if (f <= D) out[at * (D + 1ll) + f] = sums.rows[at][lane];
        //@ else
        if (f < D) out[at * (D + 1ll) + f] = sums.rows[at][lane];
        if (f == 0) out[at * (D + 1ll) + D] = sums.counts[at];
        //@ end
    }
}

//@ include cuda/tiled/sums_reduce.cu
