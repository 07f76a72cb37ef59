// SPDX-License-Identifier: MIT
// Form rows: scores of rounded points, sums in shared memory, for many clusters.

//@ def form_text
// Points: each coordinate is kept twice: rounded to half precision, for scores, and as the integer of z 2^22, for sums.
//
// Scores: as those of the form rounded. Each candidate has a code, 256 and its index. The codes of a point's candidates
// are added: a sum below 512 is the code of a single candidate, and gives the label.
//
// Sums are in shared memory, not in registers: each point is added to one row of them. Integers are made positive by a
// bias. The low 32 bits of a sum are added by a native atomic, and where that carries, 1 is added to the high 32 bits.
//
// TIGHT: the compiler would spill if it worked on all columns at once. That of CUDA 12 always does.
constexpr bool TIGHT = $tight || __CUDACC_VER_MAJOR__ < 13;
//@ end
//@ def form_numbers
enum {
    WIDTH = TIGHT ? 2 : 4,                   // columns of 8 points that are worked on at a time
    BIAS = 1 << BITS,                        // makes a coordinate's integer positive
    EIGHTS = D <= 8 ? 1 : (D + 15) / 16 * 2, // features in eights
    ROW = D | 1,           // words of a row of sums: odd, so that rows begin in different banks
    FLUSH_TILES = 1 << 30, // sums are flushed once, in the end
    STEP_TILES = 1,        // tiles that are worked on at a time
    NORMS = 1,             // of which a load finds the largest: |x|
    RESOLVE_AHEAD = 2,     // features at a time when an ambiguous point is added
    FETCHERS = PREPARERS,  // threads that fetch the centroids of a K
    REDUCE = 128           // threads of a block of km_reduce
};
constexpr float BINADE = 8192;             // scores are at least this and less than twice this
constexpr unsigned ONE_CANDIDATE = 0x5c00; // 256 in half precision, where units are 1/4
//@ end

//@ def form_memory
//@ use scale_type rounding
struct km_tile {
    uint4 points[EIGHTS][TILE]; // features 8 i to 8 i + 7 of each point, as halves
    unsigned numbers[D][TILE];  // integers, with the bias; ALL: the point is an outlier
    uint4 errors[4];            // |r| of points 2 t, 2 t + 1, 8 + 2 t, ... as halves
};

//@ use warp_memory
// The margin of a quad's K, as km_margin_of_k; and the part of a code that depends on the quad: 32 for each quad of
// the K before it. Two halves each.
struct alignas(16) km_margin {
    unsigned slope, least, quad_code, unused;
};

// An active K: its first quad, its first row of sums, its index in the list.
struct km_active_k {
    int quad, sum_row, k_index;
};

// The scale of the scores of a K, and its margin.
struct km_score_setup {
    km_scale scale;
    km_margin_of_k margin;
    float midpoint[D];
};

struct km_prepared : km_prepared_base {
    uint4 fragments[ROW_TILES_MAX][EIGHTS][32]; // of the centroids
    float4 starts[ROW_TILES_MAX][8];            // of a quad's two rows: the constant of the score, twice
    km_margin margin[8];                        // of each quad
    km_active_k active_ks[8];
    int active_count;
};

struct km_preparation : km_prepared, km_preparation_base {
    km_score_setup setup[8]; // of the K whose first quad it is
    float centroids[SUM_ROWS_MAX * D];
};

template <typename LAUNCH> struct km_block : km_prepared {
    alignas(16) unsigned low[LAUNCH::SUM_ROWS][ROW]; // low and high words of the sums
    unsigned high[LAUNCH::SUM_ROWS][ROW];
    unsigned counts[LAUNCH::SUM_ROWS];
    km_warp warps[WARPS];
    //@ if track_labels
    unsigned changes[KS];
    //@ end
};
//@ end

//@ def form_load
//@ use halves low_half point_halves block_rows
static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    const float *scale, bool beyond, double) {
    km_tile &tile = km_tiles(args)[i / TILE];
    const auto z = [&](int f) { return beyond ? 0 : x[f] * scale[f]; };
    for (int f = 0; f < D; f++)
        tile.numbers[f][threadIdx.x % 32] =
            beyond ? ALL : (unsigned)(__float2int_rn(z(f) * (1 << BITS)) + BIAS);
    km_put_halves(tile, beyond, z);
}

//@ end
//@ def form_prepare
//@ use factor_halves
// Writes a quarter of a row of fragments: scaled factors of D features, and the constant of the score.
template <typename Factor>
static __device__ __forceinline__ void km_write_row(km_preparation &shared, int quad, int score_row, int t,
                                                    Factor factor, float start) {
    km_write_halves(shared, quad, score_row, t, factor);
    ((float2 *)&shared.starts[score_row / 2][quad])[score_row % 2] = {start, start};
}

// A row without a centroid: its score is the lowest, so it is no candidate where there are others.
static __device__ __forceinline__ void km_clear_row(km_preparation &shared, int quad, int score_row, int t) {
    km_write_row(
        shared, quad, score_row, t, [](int) { return 0.0f; }, BINADE);
}

static __device__ __forceinline__ void km_clear_prepared(km_preparation &shared, const km_pass_args &) {
    for (int i = threadIdx.x; i < 8; i += PREPARERS) shared.margin[i] = {0, MARGIN_BASE, 0, 0};
}

//@ use score_rows margin
// Finds the scale of the scores of one K, and its margin, by one warp.
static __device__ void km_scale_scores(km_preparation &shared, int k_index) {
    const km_k_layout layout = km_k_layouts[k_index];
    const float *c = shared.centroids + layout.sum_row * D;
    const int k = km_ks[k_index];
    km_score_setup &own = shared.setup[layout.quad];
    const unsigned char *dominated = shared.dominated + layout.sum_row;
    km_find_dominated(shared, c, layout, k);
    km_scale scale = km_find_scale(shared, own.midpoint, c, dominated, k);

    // Two centroids are at most twice as far apart as the farthest one is from the midpoint.
    double spread = 0;
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        if (dominated[j]) continue;
        double square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = ((double)c[j * D + f] - (double)own.midpoint[f]) * shared.extent[f];
            square = fma(away, away, square);
        }
        spread = fmax(spread, 2 * sqrt(square));
    }
    own.margin = km_find_margin(scale, km_warp_max(spread));
    own.scale = scale;
}

// The rows of each active K of the launch: one warp finds its scale, then all threads write the rows. Returns whether
// there is one.
static __device__ __forceinline__ bool km_prepare_all(km_preparation &shared) {
    int active_count = 0;
    for (int i = 0; i < KS; i++) {
        if (km_k_layouts[i].launch != shared.launch.index || !shared.active[i]) continue;
        if (active_count % (PREPARERS / 32) == threadIdx.x / 32) km_scale_scores(shared, i);
        if (threadIdx.x == 0)
            shared.active_ks[active_count] = {km_k_layouts[i].quad, km_k_layouts[i].sum_row, i};
        active_count++;
    }
    if (threadIdx.x == 0) shared.active_count = active_count;
    __syncthreads();
    for (int i = 0; i < active_count; i++) {
        const km_active_k own = shared.active_ks[i];
        const km_score_setup &setup = shared.setup[own.quad];
        const auto begin_quad = [&](int quad, int, bool) {
            const float quad_code = 32.0f * (quad - own.quad);
            shared.margin[quad] = {setup.margin.slope, setup.margin.least, km_halves(quad_code, quad_code),
                                   0};
        };
        km_write_rows(shared, shared.centroids + own.sum_row * D, setup.midpoint, own.k_index, threadIdx.x,
                      PREPARERS, setup.scale, begin_quad);
    }
    return active_count > 0;
}

//@ end
//@ def form_clear
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_block(km_block<LAUNCH> &shared, const km_pass_args &) {
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS * ROW; i += BLOCK)
        shared.low[0][i] = shared.high[0][i] = 0;
    for (int i = threadIdx.x; i < LAUNCH::SUM_ROWS; i += BLOCK) shared.counts[i] = 0;
    //@ if track_labels
    for (int i = threadIdx.x; i < KS; i += BLOCK) shared.changes[i] = 0;
    //@ end
}

//@ end
//@ def form_resolve
//@ use unpack_point
template <typename LAUNCH>
static __device__ __forceinline__ const float *km_exact_centroids(const km_block<LAUNCH> &,
                                                                  const km_pass_args &args, int k_index) {
    return (const float *)args.centroids + ((long long)blockIdx.y * S + km_offsets[k_index]) * D;
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_add_exact(km_block<LAUNCH> &shared, int row, int f,
                                                    long long number) {
    const unsigned low = (unsigned)(number + BIAS), before = atomicAdd(&shared.low[row][f], low);
    atomicAdd(&shared.high[row][f], (unsigned)((number + BIAS) >> 32) + (before + low < before));
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_add_count(km_block<LAUNCH> &shared, int row) {
    atomicAdd(&shared.counts[row], 1u);
}

static __device__ __forceinline__ double km_square(const float *x, const float *c) {
    double square = 0;
#pragma unroll 4
    for (int f = 0; f < D; f++) {
        const double away = (double)x[f] - (double)c[f];
        square = fma(away, away, square);
    }
    return square;
}

// The nearest centroid in double. Most centroids are told apart in float, where a square is off by less than
// 2^-21 (D + 4) of itself, unless it is very small.
static __device__ __forceinline__ int km_find_nearest(const float *x, const float *c, int k) {
    constexpr float WIDER = 1 + (D + 4) * 0x1p-20f, LEAST = 1e-36f, FARTHEST = 3.4e38f;
    float own[D], smallest = FARTHEST, second = FARTHEST, third = FARTHEST;
    int label = 0, other = 0;
    KM_UNROLL_FOR (int f = 0; f < D; f++)
        own[f] = x[f]; // in registers: lanes' points are far apart in memory
#pragma unroll 4
    for (int j = 0; j < k; j++) {
        float square = 0;
        KM_UNROLL_FOR (int f = 0; f < D; f++) {
            const float away = own[f] - c[j * D + f];
            square = fmaf(away, away, square);
        }
        third = fminf(third, fmaxf(square, second));
        other = square < smallest ? label : square < second ? j : other;
        second = fminf(second, fmaxf(square, smallest));
        label = square < smallest ? j : label;
        smallest = fminf(smallest, square);
    }
    const float limit = smallest * WIDER + LEAST;
    if (second > limit) return label;
    if (third > limit) {
        const double a = km_square(x, c + label * D), b = km_square(x, c + other * D);
        return a < b || (a == b && label < other) ? label : other;
    }
    double least = 1e308;
    KM_UNROLL_1_FOR (int j = 0; j < k; j++) {
        const double square = km_square(x, c + j * D);
        label = square < least ? j : label;
        least = fmin(square, least);
    }
    return label;
}

//@ end
//@ def form_assign
//@ use prmt opaque mma_f16 ldmatrix_x4 half2_add half2_gt half2_fma read_shared read_shared_4 largest
// The lane's number, computed again: no address is worth a register while there are scores.
static __device__ __forceinline__ unsigned km_lane() {
    return km_opaque(threadIdx.x % 32);
}

// The scores of a row tile, two points in a register.
template <typename LAUNCH>
static __device__ __forceinline__ void km_score(unsigned (*scores)[WIDTH], const km_block<LAUNCH> &shared,
                                                int tile, const unsigned (*points)[WIDTH][2]) {
    float sums[WIDTH][4];
    const unsigned lane = threadIdx.x % 32;
    const float4 start = *(const float4 *)&shared.starts[tile][lane / 4];
    const float starts[4] = {start.x, start.y, start.z, start.w};
    KM_UNROLL_FOR (int k = 0; k < EIGHTS; k++) {
        const uint4 fragment = shared.fragments[tile][k][lane];
        const unsigned a[4] = {fragment.x, fragment.y, fragment.z, fragment.w};
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            km_mma_f16(sums[c], a, points[k / 2][c], k ? sums[c] : starts);
    }
    KM_UNROLL_FOR (int r = 0; r < 2; r++)
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            scores[r][c] =
                km_prmt<0x6521>(__float_as_uint(sums[c][2 * r]), __float_as_uint(sums[c][2 * r + 1]));
}

// Adds the codes of candidates, for the points of each column: 256 + 32 quad + score_row.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_candidates(unsigned *codes, const km_block<LAUNCH> &shared,
                                                          unsigned tile) {
    const unsigned reader = km_lane(), second = EIGHTS > 1 ? reader / 8 % 2 * TILE : 0;
    const unsigned row = tile + (reader % 8 + reader / 16 * 8 + second) * (unsigned)sizeof(uint4);
    KM_UNROLL_FOR (int first = 0; first < 4; first += WIDTH) {
        // Operands of points: 16 features, or 8 twice.
        unsigned scores[LAUNCH::SCORE_ROWS][WIDTH], points[(EIGHTS + 1) / 2][WIDTH][2];
        if (first > 0) __syncwarp(); // one half at a time
        KM_UNROLL_FOR (int i = 0; i < (EIGHTS + 1) / 2; i++)
            KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2)
                km_ldmatrix_x4(points[i][c],
                               row + (2 * i * TILE + 8 * (first + c)) * (unsigned)sizeof(uint4));
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) km_score(scores + 2 * i, shared, i, points);
        const unsigned lane = km_lane();
        const uint4 read =
            km_read_shared_4(tile + lane % 4 * (unsigned)sizeof(uint4) +
                             (unsigned)(sizeof(uint4[EIGHTS][TILE]) + sizeof(unsigned[D][TILE])));
        const unsigned errors[4] = {read.x, read.y, read.z, read.w};
        const km_margin margin = shared.margin[lane / 4];
        unsigned same_k[4];
        KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
            same_k[1 + level] = shared.same_k[1 + level][lane / 4];
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) {
            unsigned largest[2], sum = 0;
            km_find_largest<LAUNCH>(largest, scores, c, same_k);
            // The largest score that is too small for a candidate.
            const unsigned limit =
                largest[0] + LIMIT_BASE - km_half2_fma(errors[first + c], margin.slope, margin.least);
            KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++) {
                constexpr unsigned STEP = 0x40004; // 1 where units are 1/4
                sum = km_half2_fma(km_half2_gt(scores[s][c], limit), ONE_CANDIDATE * 0x10001 + s * STEP, sum);
            }
            sum = km_half2_fma(km_half2_gt(sum, 0), margin.quad_code, sum);
            KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
                sum = km_half2_add(sum, __shfl_xor_sync(ALL, sum, 4 << level) & same_k[1 + level]);
            codes[first + c] = sum;
        }
    }
}

// Adds a point's integers to a row of the block's sums. Each lane begins with another feature, to avoid conflicts
// between points of the same cluster, or of rows that begin in the same bank.
template <typename LAUNCH>
static __device__ __forceinline__ void km_add_point(km_block<LAUNCH> &shared, int row, unsigned numbers) {
    constexpr int AHEAD = D < 8 ? D : 8; // features at a time, so that atomics overlap
    unsigned f = km_lane() % D, at[AHEAD], number[AHEAD], before[AHEAD];
    KM_UNROLL_FOR (int first = 0; first < D; first += AHEAD) {
        KM_UNROLL_FOR (int i = 0; i < AHEAD && first + i < D; i++) {
            at[i] = f;
            number[i] = km_read_shared(numbers + f * (unsigned)sizeof(unsigned[TILE]));
            f = f + 1 < D ? f + 1 : 0;
        }
        KM_UNROLL_FOR (int i = 0; i < AHEAD && first + i < D; i++)
            before[i] = atomicAdd(&shared.low[row][at[i]], number[i]);
        KM_UNROLL_FOR (int i = 0; i < AHEAD && first + i < D; i++)
            if (before[i] > ~number[i]) atomicAdd(&shared.high[row][at[i]], 1u);
    }
    atomicAdd(&shared.counts[row], 1u);
}

// Adds the ambiguous points and outliers of one K to the queue.
template <typename LAUNCH>
static __device__ __forceinline__ void km_defer(km_block<LAUNCH> &shared, const km_pass_args &args,
                                                bool ambiguous, int tile, int k_index) {
    const unsigned lanes = __ballot_sync(ALL, ambiguous);
    if (!lanes) return;
    const int lane = (int)km_lane();
    km_warp &warp = shared.warps[threadIdx.x / 32];
    int queued = warp.queued;
    if (ambiguous) warp.queue[queued + __popc(lanes & ~(ALL << lane))] = {tile, lane | k_index << 5};
    queued += __popc(lanes);
    if (queued >= 32) queued = km_resolve(shared, args, queued);
    __syncwarp(); // all lanes have read it
    if (lane == 0) warp.queued = queued;
    __syncwarp();
}

// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    unsigned ring; // shared address of its first tile
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_begin_warp(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                     const km_pass_args &, unsigned ring, int, int) {
    state.ring = ring;
    if (threadIdx.x % 32 == 0) shared.warps[threadIdx.x / 32].queued = 0;
}

// Labels and adds the points of a tile, which is `stage` bytes behind the first one of the ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_assign_tile(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                      const km_pass_args &args, unsigned stage, int tile) {
    const unsigned address = state.ring + stage;
    unsigned codes[4]; // sums of codes of column c: points 8 c + 2 t and the next, t = lane % 4
    km_find_candidates<LAUNCH>(codes, shared, address);
    const int lane = (int)km_lane();
    const unsigned numbers = address + (unsigned)(sizeof(uint4[EIGHTS][TILE]) + lane * sizeof(unsigned));
    const bool has_outlier = km_read_shared(numbers) == ALL;
    KM_UNROLL_1_FOR (int i = 0; i < shared.active_count; i++) { // from here on a lane has one point
        const km_active_k own = shared.active_ks[i];
        unsigned code = 0;
        KM_UNROLL_FOR (int c = 0; c < 4; c++) {
            const unsigned of_column = __shfl_sync(ALL, codes[c], own.quad * 4 + lane % 8 / 2);
            code = lane / 8 == c ? of_column : code;
        }
        code = ((lane % 2 ? code >> 16 : code & 0xffff) - ONE_CANDIDATE) / 4;
        const bool ambiguous = has_outlier || code >= 256;
        if (!ambiguous) {
            const int row = shared.sum_row[own.quad + code / 32][code % 32];
            //@ if track_labels
            km_label *stored = (km_label *)args.labels +
                               (blockIdx.y * KS + own.k_index) * args.labels_stride + tile * (long long)TILE +
                               lane;
            if (args.labels && *stored != row - own.sum_row) {
                *stored = (km_label)(row - own.sum_row);
                atomicAdd(&shared.changes[own.k_index], 1u);
            }
            //@ end
            km_add_point(shared, row, numbers);
        }
        km_defer(shared, args, ambiguous, tile, own.k_index);
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_end_warp(km_state<LAUNCH> &, km_block<LAUNCH> &shared,
                                                   const km_pass_args &args) {
    __syncwarp();
    int queued = shared.warps[threadIdx.x / 32].queued;
    while (queued > 0) queued = km_resolve(shared, args, queued);
}

template <typename LAUNCH>
static __device__ __forceinline__ auto km_tile_source(const km_block<LAUNCH> &, const km_pass_args &args) {
    return [&args](int tile) {
        return (const uint4 *)km_tiles(args) + threadIdx.x % 32 + tile * (long long)TILE_SIZE;
    };
}

//@ end
//@ def form_write_sums
// Writes the block's sums to the workspace, without the bias.
template <typename LAUNCH>
static __device__ __forceinline__ void km_write_block_sums(const km_block<LAUNCH> &shared,
                                                           const km_pass_args &args) {
    __syncthreads();
    for (int i = 0; i < shared.active_count; i++) {
        const km_active_k own = shared.active_ks[i];
        long long *to = (long long *)km_sums_of(args, blockIdx.x) + km_offsets[own.k_index] * (D + 1);
        for (int at = threadIdx.x; at < km_ks[own.k_index] * (D + 1); at += BLOCK) {
            const int row = own.sum_row + at / (D + 1), f = at % (D + 1);
            const long long count = shared.counts[row];
            to[at] =
                f < D ? ((long long)shared.high[row][f] << 32 | shared.low[row][f]) - count * BIAS : count;
        }
        //@ if track_labels
        if (threadIdx.x == 0 && shared.changes[own.k_index])
            atomicAdd(args.changes + blockIdx.y * KS + own.k_index,
                      (unsigned long long)shared.changes[own.k_index]);
        //@ end
    }
}

//@ end
//@ def form_reduce
//@ use reduce_rows
//@ end
