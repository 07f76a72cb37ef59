// SPDX-License-Identifier: MIT
// Form hi_lo: scores and sums of fp16 hi and lo.

//@ def form_text
// Points: z = hi + lo in half precision, hi a multiple of 2^-11, lo the rest, a multiple of 2^-22.
//
// Scores: a factor is hi and lo, too, and a feature four products: (hi, lo, hi, lo) times (chi, chi, clo, clo).
// km_prepare bounds the error of a score for each K. The first feature of each lane leaves out lo clo; 1 times a piece
// of the constant takes its place.
//
// Sums: ones, one for each candidate, times hi and lo of the points, which are multiples of 2^-11 and of 2^-22. Floats
// hold the sums of FLUSH_TILES tiles exactly; then they become integers.
//@ end
//@ def form_numbers
enum {
    COLUMN_PAIRS = $column_pairs, // pairs of columns, 16 points, that a warp works on at a time
    WIDTH = 2 * COLUMN_PAIRS,     // columns of 8 points
    LANE_D = (D + 3) / 4,         // features of a lane: every fourth, from lane % 4 on
    FRAGMENTS = LANE_D,           // of a row tile
    FLUSH_TILES = 64,             // tiles of a warp after which sums are flushed: 2,048 points
    STEP_TILES = 1,               // tiles that are worked on at a time
    NORMS = 1,                    // of which a load finds the largest: |x|
    RESOLVE_AHEAD = 2,            // features at a time when an ambiguous point is added
    FETCHERS = 32,                // threads that fetch the centroids of a K
    REDUCE = 1024                 // threads of a block of km_reduce
};
constexpr float BINADE = 8192;        // scores are at least this and less than twice this
constexpr unsigned ONES = 0x3c003c00; // 1 and 1 in half precision
//@ end

//@ def form_memory
// 32 points in the layout of operands of matrix products: hi and lo of features 4 i to 4 i + 3 of each point.
struct km_tile {
    uint4 points[LANE_D][TILE];
};

//@ use tiles_of_warps
// Shared memory of a warp.
struct km_warp {
    km_tile ring[STAGES];
    km_queue_entry queue[QUEUE];
};

struct km_prepared : km_prepared_base {
    uint4 fragments[ROW_TILES_MAX][FRAGMENTS][32]; // of the centroids
    float centroids[SUM_ROWS_MAX * D];
    unsigned
        margin[2]
              [8]; // of each segment and quad: the largest difference of a candidate's score from the largest
    unsigned ones, zero; // ONES and 0; read from here, so that they stay in registers
    unsigned
        expected_bits[8]; // of each quad: the sum of a lane's ones, as integers, where no point is ambiguous
};

struct km_preparation : km_prepared, km_preparation_base {
    float midpoint[PREPARERS / 32][D];
};

template <typename LAUNCH> struct km_block : km_prepared {
    alignas(16) long long sums[LAUNCH::SUM_ROWS * (D + 1)];
    km_warp warps[WARPS];
};
//@ end

//@ def form_load
//@ use halves low_half hi_lo_of columns
static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    const float *scale, bool beyond, double) {
    for (int k = 0; k < LANE_D; k++) {
        unsigned words[4];
        KM_UNROLL_FOR (int t = 0; t < 4; t++) {
            const int f = 4 * k + t;
            words[t] = beyond || f >= D ? 0 : km_hi_lo_of(x[f] * scale[f]);
        }
        km_tiles(args)[i / TILE].points[k][i % TILE] = {words[0], words[1], words[2], words[3]};
    }
}

//@ end
//@ def form_prepare
//@ use low_half
// Writes the quarter of a row of fragments that lanes with lane % 4 = t hold: scaled factors of D features, and a piece
// of the constant.
template <typename Factor>
static __device__ __forceinline__ void km_write_row(km_preparation &shared, int quad, int score_row, int t,
                                                    Factor factor, float constant) {
    float piece = km_low_half(km_halves(constant, 0)); // the t-th of three pieces, each a half
    for (int i = 0; i < t; i++) {
        constant -= piece;
        piece = i < 2 ? km_low_half(km_halves(constant, 0)) : 0;
    }
    KM_UNROLL_1_FOR (int i = 0; i < LANE_D; i++) {
        const float value = 4 * i + t < D ? factor(4 * i + t) : 0;
        const float high = km_low_half(km_halves(value, 0));
        unsigned *words = (unsigned *)&shared.fragments[score_row / 2][i][quad * 4 + t] + score_row % 2;
        words[0] = km_halves(high, high);
        words[2] = km_halves(value - high, i == 0 ? piece : value - high);
    }
}

// A row without a centroid. In a segment without a K one row has the largest score: a single candidate.
static __device__ __forceinline__ void km_clear_row(km_preparation &shared, int quad, int score_row, int t) {
    const bool high = score_row == 0 || score_row == shared.launch.first_rows;
    km_write_row(
        shared, quad, score_row, t, [](int) { return 0.0f; }, high ? 1.25f * BINADE : BINADE);
}

static __device__ __forceinline__ void km_clear_prepared(km_preparation &shared, const km_pass_args &) {
    if (threadIdx.x == 0) shared.ones = ONES, shared.zero = 0;
    for (int i = threadIdx.x; i < 8; i += PREPARERS) {
        shared.margin[0][i] = shared.margin[1][i] = 0x10001;
        shared.expected_bits[i] =
            (shared.launch.first_rows < shared.launch.score_rows ? 2 : 1) * WIDTH * ONES;
    }
}

//@ use score_rows
// Prepares one K, by one warp: fragments, margin, masks of quads.
static __device__ void km_prepare(km_preparation &shared, const float *c, int k_index) {
    const km_k_layout layout = km_k_layouts[k_index];
    const int k = km_ks[k_index];
    float *midpoint = shared.midpoint[threadIdx.x / 32];
    const unsigned char *dominated = shared.dominated + layout.sum_row;
    km_find_dominated(shared, c, layout, k);
    const km_scale scale = km_find_scale(shared, midpoint, c, dominated, k);

    // Twice the error of a score: from rounding to the lattice, products of halves, and at most 20 truncated
    // additions a product. A unit of the 16-bit score is BINADE / 2^15.
    const double error = 2 * (scale.error + LANE_D * 20 * BINADE * km_power_of_2(-22) + 0.001);
    const int units = 1 + (int)(error / (BINADE * km_power_of_2(-15)));
    const unsigned margin =
        units < 1024 ? units * 0x10001 : 0x7c007c00; // the latter: every centroid is a candidate
    const auto begin_quad = [&](int quad, int segment, bool whole_quad) {
        shared.margin[segment][quad] = margin;
        if (!whole_quad) return;
        shared.margin[1][quad] = margin;
        shared.expected_bits[quad] = WIDTH * ONES;
    };
    km_write_rows(shared, c, midpoint, k_index, threadIdx.x % 32, 32, scale, begin_quad);
}

//@ end
//@ def form_clear
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_block(km_block<LAUNCH> &shared, const km_pass_args &) {
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS * (D + 1); i += BLOCK) shared.sums[i] = 0;
}

//@ end
//@ def form_resolve
//@ use unpack_point
//@ use resolve_from_block
static __device__ __forceinline__ int km_find_nearest(const float *x, const float *c, int k) {
    double smallest = 1e308;
    int label = 0;
    KM_UNROLL_1_FOR (int j = 0; j < k; j++) {
        double square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = (double)x[f] - (double)c[j * D + f];
            square = fma(away, away, square);
        }
        label = square < smallest ? j : label;
        smallest = fmin(square, smallest);
    }
    return label;
}

//@ end
//@ def form_assign
//@ use ldmatrix_x4 ldmatrix_x2_trans mma_f16 mma_f16_half half2_add half2_ge prmt largest opaque fragments
//@ if track_labels
//@ use add_changes
//@ end
// What a lane keeps of its quad's Ks.
struct km_lane {
    unsigned margin[2], same_k[4];
    //@ if track_labels
    int k_index[2];
    //@ end
    unsigned expected_count; // candidates of a point that is not ambiguous: two halves
    unsigned expected_bits;  // the sum of the lane's ones, as integers, where no point is ambiguous
    unsigned ones[2];        // ONES twice
    unsigned zero;
};

template <typename LAUNCH> static __device__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    const int quad = threadIdx.x % 32 / 4;
    for (int s = 0; s < 2; s++) own.margin[s] = shared.margin[s][quad];
    for (int l = 0; l < 4; l++) own.same_k[l] = shared.same_k[l][quad];
    //@ if track_labels
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][quad];
    //@ end
    const bool two = int(LAUNCH::FIRST_ROWS) < int(LAUNCH::SCORE_ROWS) && !own.same_k[0];
    own.expected_count = two ? 0x40004000 : ONES;
    own.expected_bits = shared.expected_bits[quad];
    own.ones[0] = own.ones[1] = shared.ones;
    own.zero = shared.zero;
    return own;
}

// The rare step: moves ambiguous points and outliers from the candidates to the queue. `outliers`: a bit for each
// point of the tile, from point `first` on.
template <typename LAUNCH>
static __device__ __forceinline__ void km_defer(unsigned (*candidates)[WIDTH], km_block<LAUNCH> &shared,
                                                const km_pass_args &args, const km_lane &own,
                                                unsigned outliers, int tile, int first, int &queued) {
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    unsigned pending = 0;
    KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) {
        unsigned count = candidates[0][c];
        KM_UNROLL_FOR (int s = 1; s < LAUNCH::SCORE_ROWS; s++) count = km_half2_add(count, candidates[s][c]);
        KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
            count = km_half2_add(count, __shfl_xor_sync(ALL, count, 4 << level) & own.same_k[1 + level]);
        const unsigned has_outlier = outliers >> (8 * c + lane % 4 * 2);
        const unsigned ambiguous = (count ^ own.expected_count) | (has_outlier & 1) | (has_outlier & 2) << 15;
        const unsigned low = ambiguous & 0xffff, high = ambiguous >> 16;
        const unsigned keep = (low ? 0 : 0xffff) | (high ? 0 : 0xffff0000);
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++) candidates[s][c] &= keep;
        pending |= (low != 0 | (high != 0) << 1) << 2 * c;
    }
    const int k_indices[2] = {shared.k_index[0][lane / 4], shared.k_index[1][lane / 4]};
    pending |= k_indices[1] >= 0 ? pending << 8 : 0; // the first quad of a K queues its points
    pending = k_indices[0] >= 0 && km_k_layouts[k_indices[0]].quad == lane / 4 ? pending : pending & 0xff00;
    while (const unsigned senders = __ballot_sync(ALL, pending != 0)) {
        if (pending) {
            const int bit = __ffs(pending) - 1, k_index = bit < 8 ? k_indices[0] : k_indices[1];
            pending &= pending - 1;
            warp.queue[queued + __popc(senders & ~(ALL << lane))] = {
                tile, (first + bit / 2 % 4 * 8 + lane % 4 * 2 + bit % 2) | k_index << 5};
        }
        queued += __popc(senders);
        if (queued >= 32) queued = km_resolve(shared, args, queued);
        __syncwarp();
    }
}

//@ if track_labels
// Writes the labels of a lane's points that are not ambiguous, and counts how many changed for each of its Ks.
template <typename LAUNCH>
static __device__ __forceinline__ void km_label_points(const unsigned (*candidates)[WIDTH],
                                                       const km_pass_args &args, const km_lane &own,
                                                       long long first, int *changes) {
    const int lane = threadIdx.x % 32;
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++) {
        if (!args.labels || own.k_index[segment] < 0) continue;
        const km_k_layout layout = km_k_layouts[own.k_index[segment]];
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) {
            unsigned labels = 0, found = 0;
            KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++) {
                const bool counts = (s < LAUNCH::FIRST_ROWS) == (segment == 0) || own.same_k[0];
                const unsigned cluster = (lane / 4 - layout.quad) * layout.score_rows + s - layout.score_row;
                const unsigned ones = counts ? candidates[s][c] / 0x0400 & 0x10001 : 0;
                labels += ones * cluster;
                found |= ones;
            }
            km_label *stored = (km_label *)args.labels +
                               (blockIdx.y * KS + own.k_index[segment]) * args.labels_stride + first + 8 * c +
                               lane % 4 * 2;
            KM_UNROLL_FOR (int point = 0; point < 2; point++) {
                const km_label label = labels >> 16 * point & 0xffff;
                if (!(found >> 16 * point & 1) || stored[point] == label) continue;
                stored[point] = label;
                changes[segment]++;
            }
        }
    }
}

//@ end
// Finds the candidates of WIDTH columns of points: candidates[score_row][column], 1 or 0 as halves.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_candidates(unsigned (*candidates)[WIDTH],
                                                          const km_fragments *fragments, unsigned row,
                                                          const km_lane &own) {
    unsigned points[LANE_D][WIDTH][2], scores[LAUNCH::SCORE_ROWS][WIDTH];
    KM_UNROLL_FOR (int k = 0; k < LANE_D; k++)
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2)
            km_ldmatrix_x4(points[k][c], row + (k * TILE + 8 * c) * (int)sizeof(uint4));
    KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) {
        points[0][c][0] += own.zero; // a no-op: with two new numbers the compiler makes no copies of the pair
        points[0][c][1] = km_prmt<0x7610>(points[0][c][1], own.ones[0]);
    }
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) {
        float sums[WIDTH][4] = {};
        KM_UNROLL_FOR (int k = 0; k < LANE_D; k++) {
            const uint4 fragment = km_fragment(fragments, i, k);
            const unsigned a[4] = {fragment.x, fragment.y, fragment.z, fragment.w};
            KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) km_mma_f16(sums[c], a, points[k][c], sums[c]);
        }
        KM_UNROLL_FOR (int r = 0; r < 2; r++)
            KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
                scores[2 * i + r][c] =
                    km_prmt<0x6521>(__float_as_uint(sums[c][2 * r]), __float_as_uint(sums[c][2 * r + 1]));
    }
    KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) {
        unsigned largest[2];
        km_find_largest<LAUNCH>(largest, scores, c, own.same_k);
        KM_UNROLL_FOR (int segment = 0; segment < 2; segment++) largest[segment] -= own.margin[segment];
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
            candidates[s][c] = km_half2_ge(scores[s][c], largest[s >= LAUNCH::FIRST_ROWS]);
    }
}

// Whether each point has just one candidate of each K.
template <typename LAUNCH>
static __device__ __forceinline__ bool km_has_one_candidate(const unsigned (*candidates)[WIDTH],
                                                            const km_lane &own) {
    unsigned count = 0;
    if (int(LAUNCH::LEVELS) == 0) {
        // The sum of the bits of halves, as integers, tells how many ones there are, of up to 63 in each half register.
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
            KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) count += candidates[s][c];
        return count == own.expected_bits;
    } else {
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
            KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2)
                count = km_half2_add(count, km_half2_add(candidates[s][c], candidates[s][c + 1]));
        KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
            count = km_half2_add(count, __shfl_xor_sync(ALL, count, 4 << level) & own.same_k[1 + level]);
        return count == km_halves(WIDTH, WIDTH);
    }
}

// Sums of a warp: of hi and lo of each feature; of ones.
template <typename LAUNCH> struct km_sums {
    float of[LAUNCH::ROW_TILES][LANE_D][4];
    unsigned counts[LAUNCH::ROW_TILES][2];
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_add(km_sums<LAUNCH> &sums, const unsigned (*candidates)[WIDTH],
                                              unsigned row, const km_lane &own) {
    KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2) {
        unsigned ones[LAUNCH::ROW_TILES][4]; // of the candidates: the first operand of products
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) {
            KM_UNROLL_FOR (int at = 0; at < 4; at++) ones[i][at] = candidates[2 * i + at % 2][c + at / 2];
            km_mma_f16_half(sums.counts[i], ones[i], own.ones, sums.counts[i]);
        }
        KM_UNROLL_FOR (int n = 0; n < LANE_D; n++) {
            unsigned points[2];
            km_ldmatrix_x2_trans(points, row + (n * TILE + 8 * c) * (int)sizeof(uint4));
            KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++)
                km_mma_f16(sums.of[i][n], ones[i], points, sums.of[i][n]);
        }
    }
}

// Adds a warp's sums to the block's.
template <typename LAUNCH>
static __device__ __forceinline__ void km_flush(km_sums<LAUNCH> &sums, km_block<LAUNCH> &shared) {
    const int lane = threadIdx.x % 32, t = lane % 4;
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++)
        KM_UNROLL_FOR (int half = 0; half < 2; half++) {
            const int row = shared.sum_row[lane / 4][2 * i + half];
            long long *out = shared.sums + row * (D + 1);
            const int count = (int)km_low_half(sums.counts[i][half]);
            sums.counts[i][half] = 0;
            if (row >= 0 && t == 0) km_add_long(out + D, count);
            KM_UNROLL_FOR (int n = 0; n < LANE_D; n++) {
                const int f = 4 * n + t;
                const int high = (int)(sums.of[i][n][2 * half] * (1 << 11));
                const int low = (int)(sums.of[i][n][2 * half + 1] * (1 << BITS));
                sums.of[i][n][2 * half] = sums.of[i][n][2 * half + 1] = 0;
                if (row >= 0 && f < D) km_add_long(out + f, high * 2048ll + low);
            }
        }
}

// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    km_lane own;
    //@ if fragments_in_registers
    km_fragments fragments[LAUNCH::ROW_TILES];
    //@ else
    const km_fragments *fragments;
    //@ end
    km_sums<LAUNCH> sums;
    unsigned compare_address,
        add_address; // where it reads points of the ring's first tile: to compare them, to add them
    const unsigned *all_outliers;
    unsigned outliers, next_outliers; // outliers of this tile and the next
    int queued;
    //@ if track_labels
    int changes[2];
    //@ end
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_begin_warp(km_state<LAUNCH> &state, const km_block<LAUNCH> &shared,
                                                     const km_pass_args &args, unsigned ring, int tile,
                                                     int tiles) {
    const int lane = threadIdx.x % 32;
    state.own = km_lane_of(shared);
    km_read_fragments(state, shared);
    state.sums = {};
    state.all_outliers = km_outliers(args);
    state.next_outliers = tile < tiles ? state.all_outliers[tile] : 0;
    state.queued = 0;
    state.compare_address = km_opaque(ring + (lane % 8 + lane / 16 * 8 - lane) * (int)sizeof(uint4));
    state.add_address = ring;
    //@ if track_labels
    state.changes[0] = state.changes[1] = 0;
    //@ end
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_prefetch_outliers(km_state<LAUNCH> &state, int next, int tiles) {
    state.outliers = state.next_outliers;
    if (next < tiles) state.next_outliers = state.all_outliers[next];
}

// Labels and adds the points of a tile, which is `stage` bytes behind the first one of the ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_assign_tile(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                      const km_pass_args &args, unsigned stage, int tile) {
    KM_UNROLL_FOR (int first = 0; first < TILE; first += 8 * WIDTH) {
        unsigned candidates[LAUNCH::SCORE_ROWS][WIDTH];
        const unsigned from = stage + first * (int)sizeof(uint4);
        km_find_candidates<LAUNCH>(candidates, state.fragments, state.compare_address + from, state.own);
        const bool has_outlier = state.outliers & (ALL >> (TILE - 8 * WIDTH)) << first;
        if (__any_sync(ALL, !km_has_one_candidate<LAUNCH>(candidates, state.own)) || has_outlier)
            km_defer(candidates, shared, args, state.own, state.outliers >> first, tile, first, state.queued);
        //@ if track_labels
        km_label_points<LAUNCH>(candidates, args, state.own, tile * (long long)TILE + first, state.changes);
        //@ end
        km_add(state.sums, candidates, state.add_address + from, state.own);
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_end_warp(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                   const km_pass_args &args) {
    while (state.queued > 0) state.queued = km_resolve(shared, args, state.queued);
    //@ if track_labels
    km_add_changes(state, args);
    //@ end
}

//@ use tile_source
//@ end
//@ def form_write_sums
//@ use write_columns
//@ end
//@ def form_reduce
//@ use reduce_columns
//@ end
