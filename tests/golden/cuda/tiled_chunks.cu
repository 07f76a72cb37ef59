// Of the text of {features: 64, clusters: 2..12, target: cuda:sm_75}: The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 40 definitions
// ... lines of a template
    km_real scores[WARPS][WARP_POINTS][TILE + 1];
};

// ... 14 definitions

enum {
    CHUNKS = 320,
    LANES_PER_POINT = 32, // lanes of a subwarp, a feature each
    FEATURE_PARTS = 2,    // blocks that split the features of a chunk
    SUM_WARPS = 3,        // warps of a block
    SUBWARPS = SUM_WARPS * 32 / LANES_PER_POINT,
    AT_ONCE = 4,      // slots of a subwarp, and points that it reads at a time
    BLOCK_SLOTS = 11, // slots of a block: at most AT_ONCE for each subwarp
    BLOCK_ROWS = 77,  // clusters of a block, at most
    SLOT_BLOCKS = (RESTARTS * KS + BLOCK_SLOTS - 1) / BLOCK_SLOTS
};
constexpr long long SUMS_BYTES = (long long)CHUNKS * RESTARTS * S * (D + 1) * 8;
constexpr long long SUMS_POINT_BYTES = 0;

// ... 1 definition

// What a lane reads of AT_ONCE points: a number of each, and its labels in each of the subwarp's slots.
struct km_sum_input {
    km_real numbers[AT_ONCE];
    km_four_labels labels[AT_ONCE];
};

// Past the last point there are rows of zeros and labels 0, which add nothing.
__device__ __forceinline__ km_sum_input km_read_sum_input(const km_pass_args &args,
                                                          const km_label *const (&labels)[AT_ONCE],
                                                          long long i, int f) {
    km_sum_input input;
    KM_UNROLL_FOR (int a = 0; a < AT_ONCE; a++) {
        input.numbers[a] = f < D ? ((const km_real *)args.points)[(i + a) * D + f] : (km_real)0;
        input.labels[a] = *(const km_four_labels *)(labels[a] + i);
    }
    return input;
}

struct km_chunk_sums {
    double rows[BLOCK_ROWS + SUBWARPS]
               [LANES_PER_POINT]; // the last rows, one a subwarp, take points of slots that are not active
    unsigned counts[BLOCK_ROWS];
    int first_rows[BLOCK_SLOTS];
};

// ... 1 definition

// ... lines of a template
    for (int at = threadIdx.x; at < BLOCK_ROWS; at += SUM_WARPS * 32) sums.counts[at] = 0;
    // ... lines of a template
            const double number = input.numbers[a];
            // The rows belong to different slots, so all can be read before one is written: latencies overlap.
            double sum[AT_ONCE];
            KM_UNROLL_FOR (int s = 0; s < AT_ONCE; s++)
                sum[s] = rows[s][input.labels[s].at[a] * width[s]] + number;
            KM_UNROLL_FOR (int s = 0; s < AT_ONCE; s++) rows[s][input.labels[s].at[a] * width[s]] = sum[s];
        }
    }
    if (part == 0) km_count_points(sums, args, workspace, slot, slots, first, end);
    __syncthreads();
    const long long row = (long long)(slot / KS) * S + km_offsets[slot % KS];
    const int count = sums.first_rows[slots - 1] + km_ks[(slot + slots - 1) % KS];
    double *out = (double *)workspace.sums + (blockIdx.x * (long long)RESTARTS * S + row) * (D + 1);
    for (int at = subwarp; at < count; at += SUBWARPS) {
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
    {"km_tiled_sums", KM_STAGE_PASS, CHUNKS, FEATURE_PARTS *SLOT_BLOCKS, SUM_WARPS * 32,
     sizeof(km_chunk_sums), 0},
    {"km_tiled_reduce", KM_STAGE_PASS, (RESTARTS * S * (D + 1) + 7) / 8, 1, 256, 0, 0},
};
__device__ km_pass_facts km_pass = {KM_ABI_VERSION, sizeof km_pass_launches / sizeof *km_pass_launches,
                                    TABLE_BYTES + SUMS_BYTES, TABLE_POINT_BYTES + SUMS_POINT_BYTES};
}
