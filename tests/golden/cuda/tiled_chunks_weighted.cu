// Of the text of {features: 64, clusters: 2..12, target: cuda:sm_80} weighted: The pass
// "..." stands for what a template or an earlier part shows.

// ... 48 definitions

// What a lane reads of AT_ONCE points: a number of each, and its labels in each of the subwarp's slots.
struct km_sum_input {
    km_real numbers[AT_ONCE];
    km_real weights[AT_ONCE];
    km_four_labels labels[AT_ONCE];
};

// Past the last point there are rows of zeros and labels 0, which add nothing.
__device__ __forceinline__ km_sum_input km_read_sum_input(const km_pass_args &args,
                                                          const km_label *const (&labels)[AT_ONCE],
                                                          long long i, int f) {
    km_sum_input input;
    KM_UNROLL_FOR (int a = 0; a < AT_ONCE; a++) {
        input.weights[a] = ((const km_real *)args.weights)[i + a];
        input.numbers[a] = f < D ? ((const km_real *)args.points)[(i + a) * D + f] : (km_real)1;
        input.labels[a] = *(const km_four_labels *)(labels[a] + i);
    }
    return input;
}

// ... 1 definition

extern "C" __global__ void __launch_bounds__(SUM_WARPS * 32)
    km_tiled_sums(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_chunk_sums &sums = *(km_chunk_sums *)km_shared;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int part = blockIdx.y % FEATURE_PARTS, slot = blockIdx.y / FEATURE_PARTS * BLOCK_SLOTS;
    const int slots = slot + BLOCK_SLOTS < RESTARTS * KS ? int(BLOCK_SLOTS) : RESTARTS * KS - slot;
    const int lane = threadIdx.x % LANES_PER_POINT, subwarp = threadIdx.x / LANES_PER_POINT,
              f = part * LANES_PER_POINT + lane;
    if (threadIdx.x == 0)
        for (int s = 0, row = 0; s < slots; row += km_ks[(slot + s++) % KS]) sums.first_rows[s] = row;
    for (int at = threadIdx.x; at < (BLOCK_ROWS + SUBWARPS) * LANES_PER_POINT; at += SUM_WARPS * 32)
        sums.rows[0][at] = 0;
    __syncthreads();
    double *rows[AT_ONCE];
    const km_label *labels[AT_ONCE];
    int width[AT_ONCE]; // of a row; 0 where there is no slot
    KM_UNROLL_FOR (int s = 0; s < AT_ONCE; s++) {
        const int index = subwarp + s * SUBWARPS, valid = index < slots && args.active[slot + index];
        rows[s] = &sums.rows[valid ? sums.first_rows[index] : BLOCK_ROWS + subwarp][lane];
        labels[s] = workspace.labels + (slot + (valid ? index : 0)) * workspace.stride;
        width[s] = valid ? int(LANES_PER_POINT) : 0;
    }
    const long long length = ((args.n + CHUNKS - 1) / CHUNKS + AT_ONCE - 1) / AT_ONCE * AT_ONCE;
    const long long first = blockIdx.x * length, end = first + length < args.n ? first + length : args.n;
    km_sum_input next;
    if (first < end) next = km_read_sum_input(args, labels, first, f);
    for (long long i = first; i < end; i += AT_ONCE) {
        const km_sum_input input = next;
        if (i + AT_ONCE < end) next = km_read_sum_input(args, labels, i + AT_ONCE, f);
        KM_UNROLL_FOR (int a = 0; a < AT_ONCE; a++) {
            const double number = (double)input.weights[a] * input.numbers[a];
            // The rows belong to different slots, so all can be read before one is written: latencies overlap.
            double sum[AT_ONCE];
            KM_UNROLL_FOR (int s = 0; s < AT_ONCE; s++)
                sum[s] = rows[s][input.labels[s].at[a] * width[s]] + number;
            KM_UNROLL_FOR (int s = 0; s < AT_ONCE; s++) rows[s][input.labels[s].at[a] * width[s]] = sum[s];
        }
    }
    __syncthreads();
    const long long row = (long long)(slot / KS) * S + km_offsets[slot % KS];
    const int count = sums.first_rows[slots - 1] + km_ks[(slot + slots - 1) % KS];
    double *out = (double *)workspace.sums + (blockIdx.x * (long long)RESTARTS * S + row) * (D + 1);
    for (int at = subwarp; at < count; at += SUBWARPS) {
        if (f <= D) out[at * (D + 1ll) + f] = sums.rows[at][lane];
    }
}

// ... 2 definitions
