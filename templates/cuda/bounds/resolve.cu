// SPDX-License-Identifier: MIT
// Ambiguous points: all their candidates, by squared distances in double, ties to the lowest index. A warp each.

// Of two centroids the nearer, and the distance to the other.
struct bounds_nearest {
    double square, next;
    int j;
};

static __device__ __forceinline__ void bounds_take(bounds_nearest &nearest, double square, double next,
                                                   int j) {
    const bool is_nearer = square < nearest.square || (square == nearest.square && j < nearest.j);
    const double loser = is_nearer ? nearest.square : square, winner_next = is_nearer ? next : nearest.next;
    nearest.next = fmin(winner_next, loser);
    nearest.square = is_nearer ? square : nearest.square;
    nearest.j = is_nearer ? j : nearest.j;
}

// With no bound of three blocks a multiprocessor the compiler would aim at more, and spill.
extern "C" __global__ void __launch_bounds__(BOUNDS_THREADS, 3)
    km_bounds_resolve(const __grid_constant__ km_bounds_args args) {
    if (!bounds_takes(args, blockIdx.y)) return;
    const bounds_run run = bounds_run_of(args, blockIdx.y);
    const int lane = threadIdx.x % 32, count = run.slot->ambiguous, warps = gridDim.x * BOUNDS_WARPS;
    unsigned changed = 0;
    for (int at = blockIdx.x * BOUNDS_WARPS + threadIdx.x / 32; at < count; at += warps) {
        const int point = run.ambiguous[at], label = run.labels[point];
        const km_real *x = (const km_real *)args.points + (long long)point * D;
        const km_bounds_centroid *own = run.table + label;
        const unsigned short *candidates = run.candidates + (long long)label * run.pitch;
        const int candidates_count = own->candidates;
        bounds_nearest nearest = {1e308, 1e308, 1 << 30};
        for (int c = lane; c <= candidates_count; c += 32) {
            const int j = c < candidates_count ? candidates[c] : label;
            const km_real *centroid = run.centroids + (long long)j * D;
            double square = 0.0;
#pragma unroll 4
            for (int f = 0; f < D; f += BOUNDS_PIECE) {
                const bounds_piece a = *(const bounds_piece *)(x + f),
                                   b = *(const bounds_piece *)(centroid + f);
#pragma unroll
                for (int i = 0; i < BOUNDS_PIECE; i++) {
                    const double apart = (double)a.at[i] - (double)b.at[i];
                    square = fma(apart, apart, square);
                }
            }
            bounds_take(nearest, square, 1e308, j);
        }
        for (int away = 16; away > 0; away /= 2) {
            const double square = __shfl_xor_sync(0xffffffffu, nearest.square, away),
                         next = __shfl_xor_sync(0xffffffffu, nearest.next, away);
            bounds_take(nearest, square, next, __shfl_xor_sync(0xffffffffu, nearest.j, away));
        }
        const float u = __double2float_ru(sqrt(nearest.square) * (1 + BOUNDS_STEP) + BOUNDS_LEAST);
        if (lane == 0) {
            // No centroid that is no candidate is nearer to the point than this; its own centroid is at most `farthest`
            // away.
            const double away = 2.0 * (double)own->outer - (double)__int_as_float(own->farthest);
            const double next = fmin(sqrt(nearest.next) * (1 - BOUNDS_STEP), away);
            if (nearest.j != label) run.labels[point] = (bounds_label)nearest.j;
            bounds_keep(run, run.table + nearest.j, point, u, __double2float_rd(fmax(fmin(next, 1e30), 0.0)));
        }
        if (nearest.j != label) {
            bounds_move(args, run, point, label, nearest.j);
            changed++;
        }
    }
    if (lane == 0 && changed) {
        atomicAdd(&run.counts[BOUNDS_CHANGED], (unsigned long long)changed);
        atomicAdd(&args.changes[blockIdx.y], (unsigned long long)changed);
    }
}
