// Of the text of {features: 64, clusters: 2..12, target: cuda:sm_80} weighted: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 49 definitions

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

// ... lines of a template
    // ... lines of a template
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
