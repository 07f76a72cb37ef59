// SPDX-License-Identifier: MIT
// Listed points against their candidates, on tensor cores. A warp has a tile of 32 points with one label, in halves,
// relative to their own centroid: coordinates are small then, and little is lost. Its own centroid has the score 0;
// a centroid with a larger score is nearer.

enum {
    BOUNDS_STEPS = (D + 15) / 16, // of products: 16 features each
    BOUNDS_HALVES = BOUNDS_PITCH(D),
    BOUNDS_SCORE_WARP = BOUNDS_SCORE_WARPS(D), // warps of a block
    BOUNDS_GROUP = 16,                         // candidates at a time
    //@ if elkan
    BOUNDS_QUEUE = 32 + BOUNDS_GROUP
    //@ end
};

struct bounds_tile {
    unsigned short points[BOUNDS_TILE][BOUNDS_HALVES]; // no bank conflicts of eight bytes a lane
    km_real own[BOUNDS_STEPS * 16];
    //@ if elkan
    unsigned short open[BOUNDS_QUEUE]; // candidates that wait to be scored
    //@ end
};

static __device__ __forceinline__ unsigned bounds_halves(float low, float high) {
    unsigned pair;
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
    return pair;
}

static __device__ __forceinline__ float bounds_half(unsigned pair, int high) {
    float value;
    asm("{ .reg .f16 half; mov.b16 half, %1; cvt.f32.f16 %0, half; }"
        : "=f"(value)
        : "h"((unsigned short)(high ? pair >> 16 : pair)));
    return value;
}

static __device__ __forceinline__ void bounds_multiply(float *sums, const unsigned *a, const unsigned *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(sums[0]), "+f"(sums[1]), "+f"(sums[2]), "+f"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Four adjacent features of a row, zeros behind the last.
struct bounds_four {
    km_real at[4];
};

static __device__ __forceinline__ bounds_four bounds_read(const km_real *row, int f) {
    bounds_four four = {};
#pragma unroll
    for (int i = 0; i < 4; i += BOUNDS_PIECE)
        if (f + i < D) {
            const bounds_piece piece = *(const bounds_piece *)(row + f + i);
#pragma unroll
            for (int p = 0; p < BOUNDS_PIECE; p++) four.at[i + p] = piece.at[p];
        }
    return four;
}

// The best two scores of a point: upper ends of what they may be; and where the best one stands in the candidates.
struct bounds_best {
    float best, second;
    int at;
};

static __device__ __forceinline__ void bounds_join(bounds_best &a, int away) {
    bounds_best b;
    b.best = __shfl_xor_sync(0xffffffffu, a.best, away);
    b.second = __shfl_xor_sync(0xffffffffu, a.second, away);
    b.at = __shfl_xor_sync(0xffffffffu, a.at, away);
    a.second = fmaxf(fmaxf(a.second, b.second), fminf(a.best, b.best));
    if (b.best > a.best || (b.best == a.best && b.at < a.at)) a.at = b.at;
    a.best = fmaxf(a.best, b.best);
}

// Relative errors: of a half; of a product's sum, where an addition keeps 23 bits of the largest number; of the squared
// distance of two centroids. A centroid's halves may lose so much to underflow.
constexpr float BOUNDS_HALF_ERROR = 4.9e-4f, BOUNDS_SUM_ERROR = (4 * BOUNDS_STEPS * 16 + 8) * BOUNDS_UNIT,
                BOUNDS_SQUARE_ERROR = 4 * BOUNDS_ERROR, BOUNDS_UNDERFLOW = 6e-8f;

// What is known of a lane's four points, lane / 4 + 8 r, in the tile's units.
struct bounds_points {
    float square[4];   // |x|^2
    float relative[4]; // how much a score errs, by the centroid's distance ...
    float constant[4]; // ... and beside that
    //@ if elkan
    unsigned short *lower[4]; // their lower bounds
    //@ end
};

// Reads the points of a tile, relative to their own centroid.
static __device__ __forceinline__ void bounds_load(bounds_points &found, const bounds_run &run,
                                                   bounds_tile &tile, const km_real *points, int point,
                                                   float scale) {
    const int lane = threadIdx.x % 32, part = lane % 4 * 4;
    const km_real *rows[4];
    float lost[4] = {};
#pragma unroll
    for (int r = 0; r < 4; r++) {
        const int of_row = __shfl_sync(0xffffffffu, point, lane / 4 + 8 * r);
        rows[r] = points + (long long)of_row * D;
        //@ if elkan
        found.lower[r] = bounds_lower_of(run, of_row);
        //@ end
        found.square[r] = 0.0f;
    }
#pragma unroll 2
    for (int step = 0; step < BOUNDS_STEPS; step++) {
        const int f = step * 16 + part;
        bounds_four x[4];
#pragma unroll
        for (int r = 0; r < 4; r++) x[r] = bounds_read(rows[r], f);
#pragma unroll
        for (int r = 0; r < 4; r++) {
            float apart[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                apart[i] = (float)(x[r].at[i] - tile.own[f + i]) * scale;
                found.square[r] = fmaf(apart[i], apart[i], found.square[r]);
            }
            const uint2 halves =
                make_uint2(bounds_halves(apart[0], apart[1]), bounds_halves(apart[2], apart[3]));
#pragma unroll
            for (int i = 0; i < 4; i++) {
                const float rest = apart[i] - bounds_half(i < 2 ? halves.x : halves.y, i % 2);
                lost[r] = fmaf(rest, rest, lost[r]);
            }
            *(uint2 *)&tile.points[lane / 4 + 8 * r][f] = halves;
        }
    }
#pragma unroll
    for (int r = 0; r < 4; r++) {
        for (int away = 1; away <= 2; away *= 2) {
            found.square[r] += __shfl_xor_sync(0xffffffffu, found.square[r], away);
            lost[r] += __shfl_xor_sync(0xffffffffu, lost[r], away);
        }
        const float norm = sqrtf(found.square[r]) * (1.0f + BOUNDS_ERROR),
                    rest = sqrtf(lost[r]) * (1.0f + BOUNDS_ERROR) + BOUNDS_UNDERFLOW;
        found.relative[r] = 1.001f * (rest + (norm + rest) * (BOUNDS_HALF_ERROR + BOUNDS_SUM_ERROR));
        found.constant[r] = 1.001f * (norm + rest) * (BOUNDS_UNDERFLOW * 23.0f);
    }
    __syncwarp();
}

// Where a column of 16 candidates stands in the candidates of the label.
static __device__ __forceinline__ int bounds_place(const bounds_tile &tile, int first, int column) {
    //@ if elkan
    return tile.open[first + column];
    //@ else
    return first + column;
    //@ end
}

// The scores of 16 candidates, from `first` on, to the best two so far. `pairs`: half distances from the tile's own
// centroid.
static __device__ __forceinline__ void bounds_score(bounds_best (&best)[4], const bounds_run &run,
                                                    const bounds_tile &tile, const bounds_points &found,
                                                    const unsigned short *candidates, const float *pairs,
                                                    int first, int count, float scale) {
    const int lane = threadIdx.x % 32, part = lane % 4 * 4;
    const km_real *rows[2];
    float sums[2][2][4] = {}; // 16 points, eight candidates
#pragma unroll
    for (int c = 0; c < 2; c++) {
        const int place = bounds_place(tile, first, min(c * 8 + lane / 4, count - 1 - first));
        rows[c] = run.centroids + (long long)candidates[place] * D;
    }
#pragma unroll 2
    for (int step = 0; step < BOUNDS_STEPS; step++) {
        const int f = step * 16 + part;
        bounds_four c[2];
        unsigned centroids[2][2], points[2][4];
#pragma unroll
        for (int q = 0; q < 2; q++) c[q] = bounds_read(rows[q], f);
#pragma unroll
        for (int q = 0; q < 2; q++) {
            float apart[4];
#pragma unroll
            for (int i = 0; i < 4; i++) {
                apart[i] = (float)(c[q].at[i] - tile.own[f + i]) * scale;
            }
            centroids[q][0] = bounds_halves(apart[0], apart[1]);
            centroids[q][1] = bounds_halves(apart[2], apart[3]);
        }
#pragma unroll
        for (int m = 0; m < 2; m++) {
            const uint2 low = *(const uint2 *)&tile.points[16 * m + lane / 4][f],
                        high = *(const uint2 *)&tile.points[16 * m + 8 + lane / 4][f];
            points[m][0] = low.x;
            points[m][1] = high.x;
            points[m][2] = low.y;
            points[m][3] = high.y;
#pragma unroll
            for (int q = 0; q < 2; q++) bounds_multiply(sums[m][q], points[m], centroids[q]);
        }
    }
    float before[4];
#pragma unroll
    for (int r = 0; r < 4; r++) before[r] = best[r].best;
#pragma unroll
    for (int q = 0; q < 2; q++)
#pragma unroll
        for (int i = 0; i < 2; i++) {
            const int column = q * 8 + lane % 4 * 2 + i;
            const bool is_there = first + column < count;
            const int place = is_there ? bounds_place(tile, first, column) : 0;
            const float length = is_there ? 2.0f * pairs[place] * scale : 1e18f;
            const float half_square = 0.5f * length * length,
                        longest = length * (1.0f + BOUNDS_SQUARE_ERROR) + BOUNDS_UNDERFLOW;
            //@ if elkan
            const int j = candidates[place];
            const float path = run.table[j].path_least;
            //@ end
#pragma unroll
            for (int r = 0; r < 4; r++) {
                const float score =
                    fmaf(longest, found.relative[r], sums[r / 2][q][r % 2 * 2 + i] + found.constant[r]) -
                    half_square;
                // The last bits of a score are replaced by its column.
                const float key = __uint_as_float((__float_as_uint(score) & ~3u) | (q * 2 + i));
                best[r].second = fmaxf(best[r].second, fminf(best[r].best, key));
                best[r].best = fmaxf(best[r].best, key);
                //@ if elkan
                if (is_there) found.lower[r][j] = bounds_lower(run, found.square[r], score, scale, path);
                //@ end
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
//@ if elkan
static __device__ __forceinline__ int bounds_score_all(bounds_best (&best)[4], const bounds_run &run,
                                                       bounds_tile &tile, const bounds_points &found,
                                                       const unsigned short *candidates, const float *pairs,
                                                       int count, float scale, const bounds_left &left) {
    const int lane = threadIdx.x % 32;
    int waiting = 0, scored = 0;
    for (int first = 0; first < count; first += 32) {
        unsigned word = 0;
#pragma unroll
        for (int w = 0; w < BOUNDS_WORDS; w++) word = first / 1024 == w ? left.words[w] : word;
        word = __shfl_sync(0xffffffffu, word, first / 32 % 32);
        if (word >> lane & 1) tile.open[waiting + __popc(word & ((1u << lane) - 1))] = first + lane;
        waiting += __popc(word);
        const int enough = first + 32 < count ? waiting / BOUNDS_GROUP * BOUNDS_GROUP : waiting;
        __syncwarp();
        for (int at = 0; at < enough; at += BOUNDS_GROUP)
            bounds_score(best, run, tile, found, candidates, pairs, at, enough, scale);
        const int later = tile.open[min(enough + lane, BOUNDS_QUEUE - 1)];
        __syncwarp();
        if (lane < BOUNDS_GROUP) tile.open[lane] = later;
        waiting -= enough;
        scored += enough;
        __syncwarp();
    }
    return scored;
}
//@ else
static __device__ __forceinline__ int bounds_score_all(bounds_best (&best)[4], const bounds_run &run,
                                                       const bounds_tile &tile, const bounds_points &found,
                                                       const unsigned short *candidates, const float *pairs,
                                                       int count, float scale) {
    for (int first = 0; first < count; first += BOUNDS_GROUP)
        bounds_score(best, run, tile, found, candidates, pairs, first, count, scale);
    return count;
}
//@ end

// What the scores say of a point. `at`: its nearest centroid's place in the candidates, -1: its own; -2: it is
// ambiguous.
struct bounds_decided {
    float u, l;
    int at;
};

static __device__ __forceinline__ bounds_decided bounds_decide(const bounds_best &best, float square,
                                                               float relative, float constant, float length,
                                                               float outer, float scale) {
    constexpr float SQUARE_ERROR = 2 * BOUNDS_ERROR;
    bounds_decided decided;
    const float high = best.best + BOUNDS_KEY_ERROR * fabsf(best.best),
                own = sqrtf(square) * (1.0f + BOUNDS_ERROR) + 1e-18f;
    const float second = fmaxf(best.second + BOUNDS_KEY_ERROR * fabsf(best.second), 0.0f);
    const float longest = length * (1.0f + BOUNDS_SQUARE_ERROR) + BOUNDS_UNDERFLOW;
    const float low = best.best - BOUNDS_KEY_ERROR * fabsf(best.best) -
                      1.001f * (2.0f * (longest * relative + constant) +
                                (BOUNDS_SQUARE_ERROR + 4 * BOUNDS_UNIT) * longest * longest);
    const float least = square * (1.0f - SQUARE_ERROR), most = square * (1.0f + SQUARE_ERROR);
    float next;
    if (high < 0.0f) {
        decided.at = -1;
        decided.u = own;
        next = least - 2.0f * high;
    } else {
        decided.at = low > 0.0f && low > second ? 0 : -2;
        decided.u = sqrtf(fmaxf(most - 2.0f * low, 0.0f));
        next = least - 2.0f * second;
    }
    // Centroids that are no candidates.
    const float away = 2.0f * outer * scale - own;
    decided.l = fminf(sqrtf(fmaxf(next, 0.0f)), away) * (1.0f - 16 * BOUNDS_UNIT);
    decided.l = fmaxf(decided.l, 0.0f) / scale;
    decided.u = decided.u * (1.0f + 16 * BOUNDS_UNIT) / scale + (float)BOUNDS_LEAST;
    return decided;
}

// All points of a tile to the sums of their label, when a run begins to have bounds. Lanes have a feature each; where
// there are few features, several points side by side.
static __device__ __forceinline__ void bounds_sum_tile(const km_bounds_args &args, const bounds_run &run,
                                                       int point, int count, int label) {
    constexpr int LANES = D <= 4 ? 4 : D <= 8 ? 8 : D <= 16 ? 16 : 32, AT_ONCE = 32 / LANES;
    long long *sums = run.sums + (long long)label * BOUNDS_INTEGERS;
    for (int first = 0; first < D; first += LANES) {
        const int f = first + threadIdx.x % LANES, own = threadIdx.x % 32 / LANES;
        bounds_integers sum = {};
#pragma unroll 8
        for (int p = 0; p < BOUNDS_TILE; p += AT_ONCE) {
            const long long i = __shfl_sync(0xffffffffu, point, p + own);
            const double x = f < D ? (double)((const km_real *)args.points)[i * D + f] : 0.0;
            if (p + own >= count || f >= D) continue;
            const bounds_integers integers = bounds_integers_of(args, x, f);
            sum.whole += integers.whole;
            sum.rest += integers.rest;
        }
#pragma unroll
        for (int away = LANES; away < 32; away *= 2) {
            sum.whole += __shfl_xor_sync(0xffffffffu, sum.whole, away);
            sum.rest += __shfl_xor_sync(0xffffffffu, sum.rest, away);
        }
        if (f < D && own == 0) bounds_add(sums, f, sum, 1);
    }
    if (threadIdx.x % 32 == 0) atomicAdd((unsigned long long *)&sums[D], (unsigned long long)count);
}

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
    //@ if elkan
    unsigned open = 0;
    unsigned long long compared = 0;
    //@ end
    for (int t = blockIdx.x * BOUNDS_SCORE_WARP + warp; t < count; t += gridDim.x * BOUNDS_SCORE_WARP) {
        const int label = run.tile_labels[t];
        km_bounds_centroid *own = run.table + label;
        const int here = min(own->start + own->listed - t * BOUNDS_TILE, (int)BOUNDS_TILE),
                  candidates_count = own->candidates;
        const int point = run.sorted[t * BOUNDS_TILE + min(lane, here - 1)];
        const float farthest = __int_as_float(own->farthest), outer = own->outer;
        const unsigned short *candidates = run.candidates + (long long)label * run.pitch;
        const float *pairs = run.pairs + (long long)label * run.pitch;
        if (is_new) bounds_sum_tile(args, run, point, here, label);
        // A power of two that brings the farthest point to 256 .. 512.
        const bool is_usual = farthest > 1e-15f && farthest < 1e15f;
        const float scale =
            is_usual ? __int_as_float((127 + 8 + 127 - (__float_as_int(farthest) >> 23)) << 23) : 1.0f;
        //@ if elkan
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
        //@ else
        const unsigned lanes = ~0u >> (32 - here);
        const int shown = point;
        //@ end
        bounds_points found;
        bounds_best best[4];
#pragma unroll
        for (int r = 0; r < 4; r++) best[r] = {-3e38f, -3e38f, 0};
        __syncwarp();
        for (int f = lane; f < BOUNDS_STEPS * 16; f += 32)
            tile.own[f] = f < D ? run.centroids[(long long)label * D + f] : (km_real)0;
        __syncwarp();
        bounds_load(found, run, tile, (const km_real *)args.points, shown, scale);
        //@ if elkan
        if (is_usual)
            compared +=
                (unsigned long long)__popc(lanes) *
                bounds_score_all(best, run, tile, found, candidates, pairs, candidates_count, scale, left);
        open += __popc(lanes);
        //@ else
        if (is_usual) bounds_score_all(best, run, tile, found, candidates, pairs, candidates_count, scale);
        //@ end
        // A lane takes the point lane / 4 + 8 (lane % 4).
        bounds_best mine = best[0];
        float square = found.square[0], relative = found.relative[0], constant = found.constant[0];
#pragma unroll
        for (int r = 0; r < 4; r++) {
            bounds_join(best[r], 1);
            bounds_join(best[r], 2);
            if (lane % 4 == r) {
                mine = best[r];
                square = found.square[r];
                relative = found.relative[r];
                constant = found.constant[r];
            }
        }
        const int which = lane / 4 + lane % 4 * 8, my_point = __shfl_sync(0xffffffffu, point, which);
        const bool is_mine = lanes >> which & 1;
        const int place = candidates_count ? min(mine.at, candidates_count - 1) : 0,
                  nearest = candidates[place];
        const float length = candidates_count ? 2.0f * pairs[place] * scale : 0.0f;
        bounds_decided decided = bounds_decide(mine, square, relative, constant, length, outer, scale);
        if (!is_usual) decided.at = candidates_count ? -2 : -1;
        //@ if elkan
        decided.l = fminf(decided.l, __shfl_sync(0xffffffffu, left.rest, which));
        //@ end
        const unsigned ambiguous = __ballot_sync(0xffffffffu, is_mine && decided.at == -2);
        int begin = 0;
        if (lane == 0 && ambiguous) begin = atomicAdd(&run.slot->ambiguous, __popc(ambiguous));
        begin = __shfl_sync(0xffffffffu, begin, 0);
        const bool moves = is_mine && decided.at >= 0;
        if (is_mine && decided.at == -2)
            run.ambiguous[begin + __popc(ambiguous & ((1u << lane) - 1))] = my_point;
        else if (is_mine)
            bounds_keep(run, run.table + (moves ? nearest : label), my_point, decided.u, decided.l);
        if (moves) run.labels[my_point] = (bounds_label)nearest;
        for (unsigned moving = __ballot_sync(0xffffffffu, moves); moving; moving &= moving - 1) {
            const int from = __ffs((int)moving) - 1;
            bounds_move(args, run, __shfl_sync(0xffffffffu, my_point, from), label,
                        __shfl_sync(0xffffffffu, nearest, from));
            changed++;
        }
    }
    if (lane == 0 && changed) {
        atomicAdd(&run.counts[BOUNDS_CHANGED], (unsigned long long)changed);
        atomicAdd(&args.changes[blockIdx.y], (unsigned long long)changed);
    }
    //@ if elkan
    if (lane == 0 && open) {
        atomicAdd(&run.counts[BOUNDS_OPEN], (unsigned long long)open);
        atomicAdd(&run.counts[BOUNDS_COMPARED], compared);
    }
    //@ end
}
