// SPDX-License-Identifier: MIT
// Definitions for forms whose sums are made of int8 digits. A mask has a byte for each point: 0xff, -1, where the
// centroid is a candidate. A coordinate's integer of 24 bits is three digits from -128 to 127.

//@ def bytes_of
// The three digits of a coordinate's integer, a byte each.
static __device__ __forceinline__ unsigned km_bytes_of(float z) {
    constexpr int HALVES =
        0x808080; // half of 256 in each byte: adding it and flipping its bit carries into the next digit
    return (unsigned)(__float2int_rn(z * (1 << BITS)) + HALVES) ^ HALVES;
}

//@ end
//@ def masks
//@ use prmt
// Adds the masks of four points: sums[0] over the first segment, sums[1] over the second. A sum is 255 times a number
// whose bytes are the numbers of candidates of the four points.
template <typename LAUNCH>
static __device__ __forceinline__ void km_add_masks(unsigned *sums, const unsigned (*candidates)[MASKS],
                                                    int m) {
    sums[0] = candidates[0][m];
    KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST_ROWS; s++) sums[0] += candidates[s][m];
    sums[1] = int(LAUNCH::FIRST_ROWS) < int(LAUNCH::SCORE_ROWS)
                  ? candidates[LAUNCH::FIRST_ROWS % LAUNCH::SCORE_ROWS][m]
                  : 0;
    KM_UNROLL_FOR (int s = LAUNCH::FIRST_ROWS + 1; s < LAUNCH::SCORE_ROWS; s++) sums[1] += candidates[s][m];
}

// Adds the masks of a lane, and returns whether any of its points is ambiguous. Every point has at least one
// candidate of each K. So the sum over all masks is that of one candidate a point and K only where each point has
// just one.
template <typename LAUNCH>
static __device__ __forceinline__ bool
km_has_ambiguous(unsigned (*sums)[2], const unsigned (*candidates)[MASKS], const unsigned *same_k) {
    unsigned all = 0;
    KM_UNROLL_FOR (int m = 0; m < MASKS; m++) {
        km_add_masks<LAUNCH>(sums[m], candidates, m);
        asm(""
            : "+r"(sums[m][0]), "+r"(sums[m][1])); // the sums are kept for km_defer: no other order of adding
        all += sums[m][0] + sums[m][1];
    }
    KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
        all += __shfl_xor_sync(ALL, all, 4 << level) & same_k[1 + level];
    const unsigned expected = int(LAUNCH::FIRST_ROWS) < int(LAUNCH::SCORE_ROWS)
                                  ? MASKS * (2 * ALL) + (same_k[0] & MASKS)
                                  : MASKS * ALL;
    return all != expected;
}

// Masks of ambiguous points, 0xff where a point has several candidates: of the first segment's K, and of the second's.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_ambiguous(unsigned *ambiguous, const unsigned *sums,
                                                         const unsigned *same_k) {
    constexpr unsigned OVER_255 = 0xfefefeff; // its product with 255 is 1, modulo 2^32
    unsigned counts[2] = {sums[0] * OVER_255, sums[1] * OVER_255};
    counts[0] += counts[1] & same_k[0];
    counts[1] = (counts[0] & same_k[0]) | (counts[1] & ~same_k[0]);
    KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
        counts[0] += __shfl_xor_sync(ALL, counts[0], 4 << level) & same_k[1 + level];
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++) // 0xff where a count is not 0 or 1
        ambiguous[segment] = km_prmt<0xba98>(counts[segment] + 0x7e7e7e7e, 0);
}

//@ if track_labels
// Writes the labels of a lane's points that are not ambiguous, and counts how many changed for each of its Ks.
template <typename LAUNCH>
static __device__ __forceinline__ void km_label_points(const unsigned (*candidates)[MASKS],
                                                       const km_pass_args &args, const km_lane &own,
                                                       long long first, int *changes) {
    const int quad = threadIdx.x % 32 / 4;
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++) {
        if (!args.labels || own.k_index[segment] < 0) continue;
        const km_k_layout layout = km_k_layouts[own.k_index[segment]];
        km_label *all =
            (km_label *)args.labels + (blockIdx.y * KS + own.k_index[segment]) * args.labels_stride + first;
        KM_UNROLL_FOR (int m = 0; m < MASKS; m++) {
            unsigned labels = 0, found = 0;
            KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++) {
                const bool counts = (s < LAUNCH::FIRST_ROWS) == (segment == 0) || own.same_k[0];
                const unsigned cluster = (quad - layout.quad) * layout.score_rows + s - layout.score_row;
                const unsigned mask = counts ? candidates[s][m] : 0;
                labels |= mask & cluster * 0x01010101;
                found |= mask;
            }
            KM_UNROLL_FOR (int byte = 0; byte < 4; byte++) {
                km_label *stored = all + km_point_of(own, m, byte);
                const km_label label = labels >> 8 * byte & 0xff;
                if (!(found >> 8 * byte & 1) || *stored == label) continue;
                *stored = label;
                changes[segment]++;
            }
        }
    }
}

//@ end
//@ end

// The forms distance and rounded: a warp adds its own points to all sums.

//@ def byte_load
//@ use bytes_of
// Transposes 4 x 4 bytes over four lanes: each lane has four columns of its point, and gets one column of four points.
// Products of bytes take their 32 points in the order in which scores come. So the four lanes are those that differ in
// bits 0 and 3 of their number.
static __device__ __forceinline__ unsigned km_gather_column(unsigned own) {
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 8;
    own = __byte_perm(own, __shfl_xor_sync(ALL, own, 1), odd ? 0x3715 : 0x6240);
    return __byte_perm(own, __shfl_xor_sync(ALL, own, 8), high ? 0x3276 : 0x5410);
}

// Writes a point of the lattice, x[f] * scale[f]. A warp writes a tile, which it puts together in shared memory.
static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    const float *scale, bool beyond, double square) {
    __shared__ km_tile made[256 / 32];
    km_tile &tile = made[threadIdx.x / 32];
    constexpr int STREAM = (DIGITS + 3) / 4; // words of a point's digits, four columns each
    const int lane = threadIdx.x % 32;
    float z[D];
    unsigned stream[STREAM + 1] = {};
    stream[DIGITS / 4] = (unsigned)COUNT_COLUMNS << DIGITS % 4 * 8;
    KM_UNROLL_FOR (int f = 0; f < D; f++) {
        z[f] = beyond ? 0 : x[f] * scale[f];
        const unsigned long long digits = (unsigned long long)km_bytes_of(z[f]) << 3 * f % 4 * 8;
        stream[3 * f / 4] |= (unsigned)digits;
        stream[3 * f / 4 + 1] |= (unsigned)(digits >> 32);
    }
    KM_UNROLL_FOR (int i = 0; i < STREAM; i++) {
        const int column = 4 * i + lane / 8 % 2 * 2 + lane % 2;
        unsigned *words = (unsigned *)&tile.digits[column / 8][column % 8 * 4 + lane / 2 % 4];
        words[lane / 16] = km_gather_column(stream[i]);
    }
    constexpr int REST =
        8 * SUM_TILES - SQUARE_COLUMNS - 4 * STREAM; // columns behind them: that of the count, and zeros
    for (int at = lane; at < 8 * REST; at += 32) {
        const int column = 4 * STREAM + at / 8;
        unsigned *words = (unsigned *)&tile.digits[column / 8][column % 8 * 4 + at / 2 % 4];
        words[at % 2] = column == DIGITS ? COUNT_COLUMNS * 0x01010101 : 0;
    }
    km_put_factors(tile, args, z, beyond, square);
    __syncwarp();
    const uint4 *from = (const uint4 *)&tile;
    uint4 *to = (uint4 *)(km_tiles(args) + i / TILE);
    for (int at = lane; at < TILE_SIZE; at += 32) to[at] = from[at];
    __syncwarp();
}

//@ end
//@ def byte_resolve
//@ use resolve_from_block
template <typename LAUNCH>
static __device__ __forceinline__ km_point_k km_unpack(const km_block<LAUNCH> &shared,
                                                       const km_queue_entry &item) {
    const int sender = item.point_and_k % 32, bit = item.point_and_k >> 5; // as km_defer packed it
    return {bit % 4 / 2 * 16 + bit / 16 * 8 + bit / 8 % 2 + sender % 4 * 2,
            shared.k_index[bit % 2][sender / 4]};
}

static __device__ __forceinline__ int km_find_nearest(const float *point, const float *c, int k) {
    double x[D], smallest = 1e308;
    KM_UNROLL_FOR (int f = 0; f < D; f++) x[f] = point[f];
    int label = 0;
    KM_UNROLL_1_FOR (int j = 0; j < k; j++) {
        double square = 0;
        KM_UNROLL_FOR (int f = 0; f < D; f++) {
            const double away = x[f] - (double)c[j * D + f];
            square = fma(away, away, square);
        }
        label = square < smallest ? j : label;
        smallest = fmin(square, smallest);
    }
    return label;
}

//@ end
//@ def byte_assign
//@ use masks mma_s8 opaque read_shared_2
// Reads what a lane keeps of its quad's Ks, in either form.
template <typename LAUNCH, typename Lane>
static __device__ __forceinline__ void km_read_quad(Lane &own, const km_block<LAUNCH> &shared) {
    const int quad = threadIdx.x % 32 / 4;
    for (int l = 0; l < 4; l++) own.same_k[l] = shared.same_k[l][quad];
    //@ if track_labels
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][quad];
    //@ end
}

// Not inlined, so that it takes no registers from the loop.
template <typename LAUNCH>
static __device__ __noinline__ int km_resolve_apart(km_block<LAUNCH> &shared, const km_pass_args &args,
                                                    int queued) {
    return km_resolve(shared, args, queued);
}

// The rare step: moves ambiguous points and outliers from the masks to the queue. `has_outlier`: whether the lane has
// seen an outlier.
template <typename LAUNCH>
static __device__ __forceinline__ void km_defer(unsigned (*candidates)[MASKS], const unsigned (*sums)[2],
                                                km_block<LAUNCH> &shared, const km_pass_args &args,
                                                const km_lane &own, bool has_outlier, int tile) {
    const int lane =
        (int)km_opaque(threadIdx.x % 32); // computed again: no address is worth a register between two calls
    const unsigned outliers = __any_sync(ALL, has_outlier) ? km_outliers(args)[tile] : 0;
    unsigned pending =
        0; // in a point's byte, bits 0 and 1: the Ks of the first half's point; bits 2 and 3: of the other half's
    KM_UNROLL_FOR (int half = 0; half < 2; half++) {
        unsigned ambiguous[2];
        km_find_ambiguous<LAUNCH>(ambiguous, sums[half], own.same_k);
        if (outliers) {
            const unsigned bits = outliers >> (16 * half + lane % 4 * 2); // 0, 1, 8 and 9
            const unsigned bytes = (bits & 1) | (bits & 2) << 7 | (bits & 0x100) << 8 | (bits & 0x200) << 15;
            ambiguous[0] |= bytes * 255;
            ambiguous[1] |= bytes * 255;
        }
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SCORE_ROWS; s++)
            candidates[s][half] &= ~ambiguous[s >= LAUNCH::FIRST_ROWS];
        pending |= ((ambiguous[0] & 0x01010101) | (ambiguous[1] & 0x02020202)) << 2 * half;
    }
    pending &= shared.queue_bits[lane / 4]; // the first quad of a K queues its points
    km_warp &warp = shared.warps[threadIdx.x / 32];
    int queued = warp.queued;
    while (const unsigned senders = __ballot_sync(ALL, pending != 0)) {
        const int at = queued + __popc(senders & ~(ALL << lane));
        if (pending) warp.queue[at] = {tile, lane | (__ffs(pending) - 1) << 5};
        pending &= pending - 1;
        queued += __popc(senders);
        if (queued >= 32) queued = km_resolve_apart(shared, args, queued);
        __syncwarp();
    }
    if (lane == 0) warp.queued = queued;
    __syncwarp();
}

//@ use move_up
// Adds a warp's sums of digits, which are negative, to the block's.
template <typename LAUNCH>
static __device__ __forceinline__ void km_flush_bytes(int (*of)[SUM_TILES][4], km_block<LAUNCH> &shared) {
    const int lane =
        (int)km_opaque(threadIdx.x % 32); // computed again: no address is worth a register between two calls
    KM_UNROLL_1_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) {
        KM_UNROLL_FOR (int n = 0; n < SUM_TILES; n++)
            KM_UNROLL_FOR (int at = 0; at < 4; at++) {
                const int row = shared.sum_row[lane / 4][2 * i + at / 2],
                          column = 8 * n + lane % 4 * 2 + at % 2;
                const long long sum = -(long long)of[0][n][at];
                if (row < 0 || column >= DIGITS + COUNT_COLUMNS) continue;
                km_add_long(shared.sums + row * (D + 1) + column / 3, sum << 8 * (column % 3));
            }
        km_move_up<LAUNCH::ROW_TILES, 4 * SUM_TILES>(&of[0][0][0]);
    }
}

//@ end
//@ def byte_point_of
// The index in the tile of the point of a byte of a lane's masks.
static __device__ __forceinline__ int km_point_of(const km_lane &, int m, int byte) {
    return 16 * m + byte / 2 * 8 + threadIdx.x % 4 * 2 + byte % 2;
}

//@ end
//@ def byte_walk
// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    km_lane own;
    //@ if fragments_in_registers
    km_fragments fragments[LAUNCH::ROW_TILES];
    //@ else
    const km_fragments *fragments;
    //@ end
    km_sums<LAUNCH> sums;
    km_tile_addresses addresses; // where the lane reads in the ring's first tile
    //@ if track_labels
    int changes[2];
    //@ end
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_begin_warp(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                     const km_pass_args &, unsigned ring, int, int) {
    state.own = km_lane_of(shared);
    km_read_fragments(state, shared);
    state.sums = {};
    //@ if track_labels
    state.changes[0] = state.changes[1] = 0;
    //@ end
    if (threadIdx.x % 32 == 0) shared.warps[threadIdx.x / 32].queued = 0;
    state.addresses = km_find_addresses(ring);
}

// Labels and adds the points of a tile, which is `stage` bytes behind the first one of the ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_assign_tile(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                      const km_pass_args &args, unsigned stage, int tile) {
    unsigned candidates[LAUNCH::SCORE_ROWS][MASKS], masks[MASKS][2];
    const bool has_outlier =
        km_find_candidates<LAUNCH>(candidates, state.fragments, state.addresses, stage, state.own);
    const bool ambiguous = km_has_ambiguous<LAUNCH>(masks, candidates, state.own.same_k);
    if (__builtin_expect(__any_sync(ALL, has_outlier || ambiguous), 0))
        km_defer(candidates, masks, shared, args, state.own, has_outlier, tile);
    //@ if track_labels
    km_label_points<LAUNCH>(candidates, args, state.own, tile * (long long)TILE, state.changes);
    //@ end
    //@ if form_rounded
    km_count_points(state.sums, candidates);
    //@ end
    KM_UNROLL_FOR (int n = 0; n < SUM_TILES; n++) {
        const uint2 digits =
            km_read_shared_2(state.addresses.digits + stage + n * (unsigned)sizeof(uint2[32]));
        const unsigned b[2] = {digits.x, digits.y};
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::ROW_TILES; i++) {
            const unsigned a[4] = {candidates[2 * i][0], candidates[2 * i + 1][0], candidates[2 * i][1],
                                   candidates[2 * i + 1][1]};
            km_mma_s8(state.sums.of[i][n], a, b, state.sums.of[i][n]);
        }
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_end_warp(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                   const km_pass_args &args) {
    __syncwarp();
    int queued = shared.warps[threadIdx.x / 32].queued;
    while (queued > 0) queued = km_resolve_apart(shared, args, queued);
    //@ if track_labels
    km_add_changes(state, args);
    //@ end
}

//@ end
