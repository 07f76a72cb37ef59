// Of the text of {features: 32, clusters: 256, target: cuda:sm_90, plan: {algorithm: elkan}}: The algorithm elkan
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 13 definitions
// ... lines of a template
    unsigned short *lower;
    float lower_unit, lower_unmade;
    // ... lines of a template
    run.lower = args.lower + run.row * args.n;
    run.lower_unit = args.lower_unit;
    run.lower_unmade = 1.0f / args.lower_unit;
    return run;
}

// ... 24 definitions
// ... lines of a template
        run.upper[point] = __fsub_ru(u, own->path_least);
    }
    if (lane == 0) atomicAdd(&run.counts[BOUNDS_OWN], (unsigned long long)count);
    __syncwarp();
}

// ... 12 definitions

enum {
    BOUNDS_STEPS = (D + 15) / 16, // of products: 16 features each
    BOUNDS_HALVES = BOUNDS_PITCH(D),
    BOUNDS_SCORE_WARP = BOUNDS_SCORE_WARPS(D), // warps of a block
    BOUNDS_GROUP = 16,                         // candidates at a time
    BOUNDS_QUEUE = 32 + BOUNDS_GROUP
};

struct bounds_tile {
    unsigned short points[BOUNDS_TILE][BOUNDS_HALVES]; // no bank conflicts of eight bytes a lane
    km_real own[BOUNDS_STEPS * 16];
    unsigned short open[BOUNDS_QUEUE]; // candidates that wait to be scored
};

// ... 8 definitions

// What is known of a lane's four points, lane / 4 + 8 r, in the tile's units.
struct bounds_points {
    float square[4];          // |x|^2
    float relative[4];        // how much a score errs, by the centroid's distance ...
    float constant[4];        // ... and beside that
    unsigned short *lower[4]; // their lower bounds
// ... lines of a template
        found.lower[r] = bounds_lower_of(run, of_row);
        // ... lines of a template
    return tile.open[first + column];
// ... lines of a template
            const int j = candidates[place];
            const float path = run.table[j].path_least;
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const float score =
                    fmaf(longest, found.relative[r], sums[r / 2][q][r % 2 * 2 + i] + found.constant[r]) -
                    half_square;
                // The last bits of a score are replaced by its column.
                const float key = __uint_as_float((__float_as_uint(score) & ~3u) | (q * 2 + i));
                best[r].second = fmaxf(best[r].second, fminf(best[r].best, key));
                best[r].best = fmaxf(best[r].best, key);
                if (is_there) found.lower[r][j] = bounds_lower(run, found.square[r], score, scale, path);
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
// ... lines of a template

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
    unsigned open = 0;
    unsigned long long compared = 0;
    // ... lines of a template
        const float most = is_new ? 0.0f : __fadd_ru(run.upper[point], bounds_path_most(own)),
                    most_away = __fsub_rd(2.0f * outer, most);
        const bounds_left left = bounds_ask(run, candidates, pairs, candidates_count, point, most, is_new);
        const unsigned lanes = __ballot_sync(0xffffffffu, lane < here && left.is_open);
        if (lane < here && !left.is_open)
            bounds_keep(run, own, point, most, fmaxf(fminf(left.all, most_away), 0.0f));
        if (!lanes) continue;
        // Of a point that is not open an open one's row is read.
        const int other = __shfl_sync(0xffffffffu, point, __ffs((int)lanes) - 1),
                  shown = lanes >> lane & 1 ? point : other;
        bounds_points found;
        bounds_best best[4];
#pragma unroll
        for (int r = 0; r < 4; r++) best[r] = {-3e38f, -3e38f, 0};
        __syncwarp();
        for (int f = lane; f < BOUNDS_STEPS * 16; f += 32)
            tile.own[f] = f < D ? run.centroids[(long long)label * D + f] : (km_real)0;
        __syncwarp();
        bounds_load(found, run, tile, (const km_real *)args.points, shown, scale);
        if (is_usual)
            compared +=
                (unsigned long long)__popc(lanes) *
                bounds_score_all(best, run, tile, found, candidates, pairs, candidates_count, scale, left);
        open += __popc(lanes);
        // ... lines of a template
        decided.l = fminf(decided.l, __shfl_sync(0xffffffffu, left.rest, which));
        // ... lines of a template
    if (lane == 0 && open) {
        atomicAdd(&run.counts[BOUNDS_OPEN], (unsigned long long)open);
        atomicAdd(&run.counts[BOUNDS_COMPARED], compared);
    }
}

// ... 4 definitions
