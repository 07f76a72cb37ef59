// Of the text of {features: 64, clusters: 2..20, type: float64, target: cuda:sm_90}: Numbers and types; The list of K; The pass
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 2 definitions

// ... 2 more of 2 lines, other numbers: 12c3d266
// The workspace.
typedef km_real km_table_number;
typedef unsigned long long km_bits; // of a km_real

// ... 22 definitions

enum {
    WARPS = 8,
    BLOCK = 32 * WARPS,
    POINTS = 16, // of a warp at a time
    STEP = 8,    // features of one product
    STEPS = PADDED_D / STEP,
    AHEAD = 8,               // steps that are read ahead
    LANE_NUMBERS = STEP / 4, // numbers of a step that a lane has: one 16-byte load
    TABLE_PITCH =
        (STEPS | 1) * STEP, // numbers from row to row in shared memory: eight rows have no bank conflicts
    PRODUCTS = TILE / 8,    // of eight centroids each
    SCORE_PITCH = TILE + 7, // numbers from point to point: no bank conflicts of a warp's lanes
    TILE_SLOTS = 12,        // of a tile; an even number
    RESOLVE_GRID = 41
};
static_assert(K_MAX <= 32, "a lane for each centroid of a slot");

// ... 10 definitions

// Compares one more score, of column or centroid j.
__device__ __forceinline__ void km_take_score(km_best_two &row, km_real score, int j) {
    const bool better = score > row.best;
    const double loser = better ? row.best : score;
    row.second = loser > row.second ? loser : row.second;
    row.best = better ? score : row.best;
    row.j = better ? j : row.j;
}

// ... 1 definition

// Labels of all active slots, and lists of ambiguous points.
extern "C" __global__ void __launch_bounds__(BLOCK, 1)
    km_tiled_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    if (args.control->stop) return;
    const km_workspace workspace = km_workspace_of(args);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
    const double scale = 1, factor = 1;
    // ... lines of a template
// ... 1 definition

// Resolves the ambiguous points, a warp each: the nearest in double of all candidates.
// ... lines of a template
        int nearest = 0;
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

// ... 6 definitions

extern "C" __global__ void __launch_bounds__(SUM_WARPS * 32, 2)
    // ... lines of a template
                    ones[v] = __hiloint2double(other & 255u << q * 8 ? 0 : 0x3ff00000, 0);
                // ... lines of a template
// ... 2 definitions
