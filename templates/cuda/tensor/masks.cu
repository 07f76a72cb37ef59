// SPDX-License-Identifier: MIT
// Words of forms with sums of bytes. A candidate's byte is 0xff, -1; coordinates' integers of 24 bits are bytes too,
// from -128 to 127 each.

//@ def bytes_of
// A coordinate's integer, and its three bytes.
static __device__ __forceinline__ unsigned km_bytes_of(float z) {
    constexpr int HALVES = 0x808080; // of 256, added to each byte, and taken away from it
    return (unsigned)(__float2int_rn(z * (1 << BITS)) + HALVES) ^ HALVES;
}

//@ end
//@ def masks
//@ use prmt
// Masks of four points, added up: of the first slots, and of the others. They are 255 times a number whose bytes say
// how many candidates each of the four points has.
template <typename LAUNCH>
static __device__ __forceinline__ void km_add_masks(unsigned *sums, const unsigned (*candidates)[MASKS],
                                                    int m) {
    sums[0] = candidates[0][m];
    KM_UNROLL_FOR (int s = 1; s < LAUNCH::FIRST; s++) sums[0] += candidates[s][m];
    sums[1] = int(LAUNCH::FIRST) < int(LAUNCH::SLOTS) ? candidates[LAUNCH::FIRST % LAUNCH::SLOTS][m] : 0;
    KM_UNROLL_FOR (int s = LAUNCH::FIRST + 1; s < LAUNCH::SLOTS; s++) sums[1] += candidates[s][m];
}

// Adds up masks; gives whether a lane's point has not just one candidate of each K. A point has at least one, so that
// all masks add up to that of one, or of two of different Ks, only where every point has just one: bytes of a sum count
// up to 255.
template <typename LAUNCH>
static __device__ __forceinline__ bool
km_has_several(unsigned (*sums)[2], const unsigned (*candidates)[MASKS], const unsigned *link) {
    unsigned all = 0;
    KM_UNROLL_FOR (int m = 0; m < MASKS; m++) {
        km_add_masks<LAUNCH>(sums[m], candidates, m);
        asm("" : "+r"(sums[m][0]), "+r"(sums[m][1])); // kept for km_defer, not added up in another order
        all += sums[m][0] + sums[m][1];
    }
    KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
        all += __shfl_xor_sync(ALL, all, 4 << level) & link[1 + level];
    const unsigned expected =
        int(LAUNCH::FIRST) < int(LAUNCH::SLOTS) ? MASKS * (2 * ALL) + (link[0] & MASKS) : MASKS * ALL;
    return all != expected;
}

// Of four points the bytes, 0xff where one has several candidates of the first K, and of the other.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_several(unsigned *several, const unsigned *sums,
                                                       const unsigned *link) {
    constexpr unsigned OVER_255 = 0xfefefeff; // times 255: 1
    unsigned counts[2] = {sums[0] * OVER_255, sums[1] * OVER_255};
    counts[0] += counts[1] & link[0];
    counts[1] = (counts[0] & link[0]) | (counts[1] & ~link[0]);
    KM_UNROLL_FOR (int level = 0; level < LAUNCH::LEVELS; level++)
        counts[0] += __shfl_xor_sync(ALL, counts[0], 4 << level) & link[1 + level];
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++) // where a count is not 0 or 1
        several[segment] = km_prmt<0xba98>(counts[segment] + 0x7e7e7e7e, 0);
}

//@ if track_labels
// Writes the labels of a lane's points that are not ambiguous; counts changes of its one or two Ks.
template <typename LAUNCH>
static __device__ __forceinline__ void km_label_points(const unsigned (*candidates)[MASKS],
                                                       const km_pass_args &args, const km_lane &own,
                                                       long long first, int *changes) {
    const int quad = threadIdx.x % 32 / 4;
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++) {
        if (own.k_index[segment] < 0) continue;
        const km_place place = km_places[own.k_index[segment]];
        km_label *all =
            (km_label *)args.labels + (blockIdx.y * KS + own.k_index[segment]) * args.labels_stride + first;
        KM_UNROLL_FOR (int m = 0; m < MASKS; m++) {
            unsigned labels = 0, found = 0;
            KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++) {
                const bool counts = (s < LAUNCH::FIRST) == (segment == 0) || own.link[0];
                const unsigned cluster = (quad - place.quad) * place.slots + s - place.slot;
                const unsigned mask = counts ? candidates[s][m] : 0;
                labels |= mask & cluster * 0x01010101;
                found |= mask;
            }
            KM_UNROLL_FOR (int byte = 0; byte < 4; byte++) {
                km_label *kept = all + km_point_of(own, m, byte);
                const km_label label = labels >> 8 * byte & 0xff;
                if (!(found >> 8 * byte & 1) || *kept == label) continue;
                *kept = label;
                changes[segment]++;
            }
        }
    }
}

//@ end
//@ end

// The forms distance and rounded: a warp has all sums of its points.

//@ def byte_load
//@ use bytes_of
// Of four columns' bytes of each point, a word of one column. Products of bytes take their 32 points in the order in
// which scores come: those of lanes that differ in bits 0 and 3 of their number go into one word, and each of these
// lanes gets the word of one column.
static __device__ __forceinline__ unsigned km_gather(unsigned own) {
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 8;
    own = __byte_perm(own, __shfl_xor_sync(ALL, own, 1), odd ? 0x3715 : 0x6240);
    return __byte_perm(own, __shfl_xor_sync(ALL, own, 8), high ? 0x3276 : 0x5410);
}

// Writes a point, one of a warp's 32: x[f] scale[f] in the lattice. They come together in shared memory.
static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    const float *scale, bool beyond, double square) {
    __shared__ km_tile made[256 / 32];
    km_tile &tile = made[threadIdx.x / 32];
    constexpr int STREAM = (DIGITS + 3) / 4; // words of a point's bytes, one for each column
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
        words[lane / 16] = km_gather(stream[i]);
    }
    constexpr int REST = 8 * SUM_TILES - SQUARE_COLUMNS - 4 * STREAM; // columns of zeros, or the count's
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
static __device__ __forceinline__ km_asked km_asked_by(const km_block<LAUNCH> &shared, const km_item &item) {
    const int asker = item.what % 32, bit = item.what >> 5; // as km_defer left it
    return {bit % 4 / 2 * 16 + bit / 16 * 8 + bit / 8 % 2 + asker % 4 * 2,
            shared.k_index[bit % 2][asker / 4]};
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
//@ def byte_take
//@ use masks mma_s8 opaque read_shared_2
// What a lane knows of its quad's Ks, whatever the scores.
template <typename LAUNCH, typename Lane>
static __device__ __forceinline__ void km_know_quad(Lane &own, const km_block<LAUNCH> &shared) {
    const int quad = threadIdx.x % 32 / 4;
    for (int l = 0; l < 4; l++) own.link[l] = shared.link[l][quad];
    //@ if track_labels
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][quad];
    //@ end
}

// Not inlined: what it needs does not take registers from the loop.
template <typename LAUNCH>
static __device__ __noinline__ int km_resolve_apart(km_block<LAUNCH> &shared, const km_pass_args &args,
                                                    int queued) {
    return km_resolve(shared, args, queued);
}

// The rare step: ambiguous points and outliers join the queue instead of the sums. `marked`: whether a lane knows of an
// outlier.
template <typename LAUNCH>
static __device__ __forceinline__ void km_defer(unsigned (*candidates)[MASKS], const unsigned (*sums)[2],
                                                km_block<LAUNCH> &shared, const km_pass_args &args,
                                                const km_lane &own, bool marked, int tile) {
    const int lane = (int)km_opaque(threadIdx.x % 32); // no address is worth a register between two calls
    const unsigned outliers = __any_sync(ALL, marked) ? km_outliers(args)[tile] : 0;
    unsigned pending =
        0; // of a byte, bit 0 and 1: the first half's point and a K; bit 2 and 3: the other half's
    KM_UNROLL_FOR (int half = 0; half < 2; half++) {
        unsigned several[2];
        km_find_several<LAUNCH>(several, sums[half], own.link);
        if (outliers) {
            const unsigned bits = outliers >> (16 * half + lane % 4 * 2); // 0, 1, 8 and 9
            const unsigned bytes = (bits & 1) | (bits & 2) << 7 | (bits & 0x100) << 8 | (bits & 0x200) << 15;
            several[0] |= bytes * 255;
            several[1] |= bytes * 255;
        }
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++) candidates[s][half] &= ~several[s >= LAUNCH::FIRST];
        pending |= ((several[0] & 0x01010101) | (several[1] & 0x02020202)) << 2 * half;
    }
    pending &= shared.asks[lane / 4]; // of a K, its first quad asks
    km_warp &warp = shared.warps[threadIdx.x / 32];
    int queued = warp.queued;
    while (const unsigned askers = __ballot_sync(ALL, pending != 0)) {
        const int at = queued + __popc(askers & ~(ALL << lane));
        if (pending) warp.queue[at] = {tile, lane | (__ffs(pending) - 1) << 5};
        pending &= pending - 1;
        queued += __popc(askers);
        if (queued >= 32) queued = km_resolve_apart(shared, args, queued);
        __syncwarp();
    }
    if (lane == 0) warp.queued = queued;
    __syncwarp();
}

// Adds a warp's sums of bytes, which are negative, to the block's.
template <typename LAUNCH>
static __device__ __forceinline__ void km_flush_bytes(int (*of)[SUM_TILES][4], km_block<LAUNCH> &shared) {
    const int lane = (int)km_opaque(threadIdx.x % 32); // no address is worth a register between two calls
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++)
        KM_UNROLL_FOR (int n = 0; n < SUM_TILES; n++)
            KM_UNROLL_FOR (int at = 0; at < 4; at++) {
                const int row = shared.row[lane / 4][2 * i + at / 2], column = 8 * n + lane % 4 * 2 + at % 2;
                const long long sum = -(long long)of[i][n][at];
                of[i][n][at] = 0;
                if (row < 0 || column >= DIGITS + COUNT_COLUMNS) continue;
                km_add_long(shared.sums + row * (D + 1) + column / 3, sum << 8 * (column % 3));
            }
}

//@ end
//@ def byte_point_of
// Of a tile, the point of a byte of a lane's masks.
static __device__ __forceinline__ int km_point_of(const km_lane &, int m, int byte) {
    return 16 * m + byte / 2 * 8 + threadIdx.x % 4 * 2 + byte % 2;
}

//@ end
//@ def byte_walk
// What a warp keeps from tile to tile.
template <typename LAUNCH> struct km_state {
    km_lane own;
    //@ if fragments_in_registers
    km_fragments fragments[LAUNCH::TILES];
    //@ else
    const km_fragments *fragments;
    //@ end
    km_sums<LAUNCH> sums;
    km_places_in_tile at; // where it reads in the ring's first tile
    //@ if track_labels
    int changes[2];
    //@ end
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_open(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                               const km_pass_args &, unsigned ring, int, int) {
    state.own = km_lane_of(shared);
    km_read_fragments(state, shared);
    state.sums = {};
    //@ if track_labels
    state.changes[0] = state.changes[1] = 0;
    //@ end
    if (threadIdx.x % 32 == 0) shared.warps[threadIdx.x / 32].queued = 0;
    state.at = km_find_places(ring);
}

// A tile, `stage` bytes from the first one of the ring.
template <typename LAUNCH>
static __device__ __forceinline__ void km_assign_tile(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                      const km_pass_args &args, unsigned stage, int tile) {
    unsigned candidates[LAUNCH::SLOTS][MASKS], masks[MASKS][2];
    const bool marked = km_find_candidates<LAUNCH>(candidates, state.fragments, state.at, stage, state.own);
    const bool several = km_has_several<LAUNCH>(masks, candidates, state.own.link);
    if (__builtin_expect(__any_sync(ALL, marked || several), 0))
        km_defer(candidates, masks, shared, args, state.own, marked, tile);
    //@ if track_labels
    km_label_points<LAUNCH>(candidates, args, state.own, tile * (long long)TILE, state.changes);
    //@ end
    //@ if form_rounded
    km_count_points(state.sums, candidates);
    //@ end
    KM_UNROLL_FOR (int n = 0; n < SUM_TILES; n++) {
        const uint2 digits = km_read_shared_2(state.at.digits + stage + n * (unsigned)sizeof(uint2[32]));
        const unsigned b[2] = {digits.x, digits.y};
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++) {
            const unsigned a[4] = {candidates[2 * i][0], candidates[2 * i + 1][0], candidates[2 * i][1],
                                   candidates[2 * i + 1][1]};
            km_mma_s8(state.sums.of[i][n], a, b, state.sums.of[i][n]);
        }
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_close(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                const km_pass_args &args) {
    __syncwarp();
    int queued = shared.warps[threadIdx.x / 32].queued;
    while (queued > 0) queued = km_resolve_apart(shared, args, queued);
    //@ if track_labels
    km_tell_changes(state, args);
    //@ end
}

//@ end
