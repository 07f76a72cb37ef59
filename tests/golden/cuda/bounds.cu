// Of the text of {features: 32, clusters: 256, target: cuda:sm_90, plan: {algorithm: hamerly}}: The algorithm hamerly (whole)
// "..." stands for what a template or an earlier part shows, or what comes again.

// ==== The algorithm hamerly ================================================================================
// Compiled apart: bounds
// ... lines of a template
// ... 6 definitions
// ... lines of a template
        *lower;            // elkan: [restarts][rows][n] halves, of a slot [n][k]: lower bounds, times lower_unit
    float lower_unit;      // a power of two
    // ... lines of a template
typedef unsigned char bounds_label;

// ... 1 definition

enum {
    BOUNDS_PIECE = D % 4 == 0 && sizeof(km_real) == 4 ? 4
                   : D % 2 == 0                       ? 2
                                                      : 1, // numbers of a point that are read at a time
    BOUNDS_INTEGERS = BOUNDS_SUMS(D)                       // of a cluster
};

// ... 2 definitions
// ... lines of a template
    // ... lines of a template
    return run;
}

// ... 20 definitions
// ... lines of a template
        counts[BOUNDS_OPEN] += own->listed;
        counts[BOUNDS_COMPARED] += own->compared;
        counts[BOUNDS_RESOLVED] += own->ambiguous;
    }
    own->passes = own->mode == BOUNDS_KEPT ? own->passes + 1 : 0;
    own->mode = own->mode == BOUNDS_DENSE ? BOUNDS_NEW : BOUNDS_KEPT;
}

// ... 3 definitions
// ... lines of a template
    }
    if (lane == 0) atomicAdd(&run.counts[BOUNDS_OWN], (unsigned long long)count);
    __syncwarp();
}

// ... 3 definitions

enum {
    BOUNDS_STEPS = (D + 15) / 16, // of products: 16 features each
    BOUNDS_HALVES = BOUNDS_PITCH(D),
    BOUNDS_SCORE_WARP = BOUNDS_SCORE_WARPS(D), // warps of a block
    BOUNDS_GROUP = 16,                         // candidates at a time
};

struct bounds_tile {
    unsigned short points[BOUNDS_TILE][BOUNDS_HALVES]; // no bank conflicts of eight bytes a lane
    km_real own[BOUNDS_STEPS * 16];
};

// ... 8 definitions

// What is known of a lane's four points, lane / 4 + 8 r, in the tile's units.
struct bounds_points {
    float square[4];   // |x|^2
    float relative[4]; // how much a score errs, by the centroid's distance ...
    float constant[4]; // ... and beside that
// ... lines of a template
        // ... lines of a template
    return first + column;
// ... lines of a template
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const float score =
                    fmaf(longest, found.relative[r], sums[r / 2][q][r % 2 * 2 + i] + found.constant[r]) -
                    half_square;
                // The last bits of a score are replaced by its column.
                const float key = __uint_as_float((__float_as_uint(score) & ~3u) | (q * 2 + i));
                best[r].second = fmaxf(best[r].second, fminf(best[r].best, key));
                best[r].best = fmaxf(best[r].best, key);
            }
        }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const int column = __float_as_uint(best[r].best) & 3;
        if (best[r].best != before[r])
            best[r].at = bounds_place(tile, first, column / 2 * 8 + lane % 4 * 2 + column % 2);
    }
}

// The scores of all candidates; of elkan those that are open for some point. Returns how many.
static __device__ __forceinline__ int bounds_score_all(bounds_best (&best)[4], const bounds_run &run,
                                                       const bounds_tile &tile, const bounds_points &found,
                                                       const unsigned short *candidates, const float *pairs,
                                                       int count, float scale) {
    for (int first = 0; first < count; first += BOUNDS_GROUP)
        bounds_score(best, run, tile, found, candidates, pairs, first, count, scale);
    return count;
}

// ... 3 definitions

// With no bound of 12 warps a multiprocessor the compiler would aim at more, and spill.
extern "C" __global__ void __launch_bounds__(BOUNDS_SCORE_WARP * 32, 12 / BOUNDS_SCORE_WARP)
    km_bounds_score(const __grid_constant__ km_bounds_args args) {
    __shared__ __align__(16) bounds_tile tiles[BOUNDS_SCORE_WARP];
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, count = run.slot->tiles;
    const bool is_new = run.slot->mode == BOUNDS_NEW;
    bounds_tile &tile = tiles[warp];
    unsigned changed = 0;
    // ... lines of a template
        const unsigned lanes = ~0u >> (32 - here);
        const int shown = point;
        bounds_points found;
        bounds_best best[4];
#pragma unroll
        for (int r = 0; r < 4; r++) best[r] = {-3e38f, -3e38f, 0};
        __syncwarp();
        for (int f = lane; f < BOUNDS_STEPS * 16; f += 32)
            tile.own[f] = f < D ? run.centroids[(long long)label * D + f] : (km_real)0;
        __syncwarp();
        bounds_load(found, run, tile, (const km_real *)args.points, shown, scale);
        if (is_usual) bounds_score_all(best, run, tile, found, candidates, pairs, candidates_count, scale);
        // ... lines of a template
        // ... lines of a template
}

// ... 4 definitions
