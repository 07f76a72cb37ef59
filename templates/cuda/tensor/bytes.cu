// SPDX-License-Identifier: MIT
// Sums of bytes. A near centroid's byte is 0xff, -1; the integers of 24 bits are bytes too, from -128 to 127 each.

constexpr unsigned OVER_255 = 0xfefefeff; // times 255: 1

// Differences of two halves each, whose signs are exact.
static __device__ __forceinline__ unsigned km_minus(unsigned a, unsigned b) {
    unsigned difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
}

// Takes away bytes where masks are 0xff.
static __device__ __forceinline__ void km_subtract(int *sums, const unsigned *a, uint2 b) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

//@ include cuda/tensor/reads.cu

static __device__ __forceinline__ uint2 km_read_two(unsigned address) {
    uint2 words;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(address));
    return words;
}

// A coordinate's integer, and its three bytes.
static __device__ __forceinline__ int km_number(float z) {
    return __float2int_rn(z * (1 << BITS));
}

static __device__ __forceinline__ unsigned km_bytes_of(int number) {
    constexpr int HALVES = 0x808080; // of 256, added to each byte, and taken away from it
    return (unsigned)(number + HALVES) ^ HALVES;
}

// Load: of four columns' bytes of each point, a word of one column. Products of bytes take their 32 points in the order
// in which scores come: those of lanes that differ in bits 0 and 3 of their number go into one word, and each of
// these lanes gets the word of one column.
static __device__ __forceinline__ unsigned km_gather(unsigned own) {
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 8;
    own = __byte_perm(own, __shfl_xor_sync(ALL, own, 1), odd ? 0x3715 : 0x6240);
    return __byte_perm(own, __shfl_xor_sync(ALL, own, 8), high ? 0x3276 : 0x5410);
}

// What a lane knows of its group's Ks, whatever the scores.
template <typename PART, typename Lane>
static __device__ __forceinline__ void km_know_group(Lane &own, const km_block<PART> &shared) {
    const int group = threadIdx.x % 32 / 4;
    for (int l = 0; l < 4; l++) own.link[l] = shared.link[l][group];
    //@ if track_labels
    for (int s = 0; s < 2; s++) own.member[s] = shared.member[s][group];
    //@ end
}

//@ if rounded
//@ include cuda/tensor/rounded.cu
//@ else
//@ include cuda/tensor/distances.cu
//@ end

// Load: writes a point, one of a warp's 32: x[f] scale[f] in the grid. They come together in shared memory.
static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    //@ if rounded
                                                    const float *scale, bool beyond) {
                                                    //@ else
                                                    const float *scale, bool beyond, float half_square) {
                                                    //@ end
    __shared__ km_tile made[256 / 32];
    km_tile &tile = made[threadIdx.x / 32];
    constexpr int STREAM = (LIMBS + 3) / 4; // words of a point's bytes, one for each column
    const int lane = threadIdx.x % 32;
    float z[D];
    unsigned stream[STREAM + 1] = {};
    //@ if not rounded
    stream[LIMBS / 4] = 1u << LIMBS % 4 * 8; // the count
    //@ end
    KM_UNROLL for (int f = 0; f < D; f++) {
        z[f] = beyond ? 0 : x[f] * scale[f];
        const unsigned long long limbs = (unsigned long long)km_bytes_of(km_number(z[f])) << 3 * f % 4 * 8;
        stream[3 * f / 4] |= (unsigned)limbs;
        stream[3 * f / 4 + 1] |= (unsigned)(limbs >> 32);
    }
    KM_UNROLL for (int i = 0; i < STREAM; i++) {
        const int column = 4 * i + lane / 8 % 2 * 2 + lane % 2;
        unsigned *words = (unsigned *)&tile.limbs[column / 8][column % 8 * 4 + lane / 2 % 4];
        words[lane / 16] = km_gather(stream[i]);
    }
    //@ if rounded
    for (int at = lane; at < 8 * (8 * SUM_TILES - 4 * STREAM); at += 32) { // zeros
        const int column = 4 * STREAM + at / 8;
        unsigned *words = (unsigned *)&tile.limbs[column / 8][column % 8 * 4 + at / 2 % 4];
        words[at % 2] = 0;
    }
    km_put_factors(tile, z, beyond);
    //@ else
    for (int at = lane; at < 8 * (8 * SUM_TILES - 2 - 4 * STREAM); at += 32) { // zeros, and a count that is not above
        const int column = 4 * STREAM + at / 8;
        unsigned *words = (unsigned *)&tile.limbs[column / 8][column % 8 * 4 + at / 2 % 4];
        words[at % 2] = column == LIMBS ? 0x01010101 : 0;
    }
    km_put_factors(tile, z, beyond, half_square);
    //@ end
    __syncwarp();
    const uint4 *from = (const uint4 *)&tile;
    uint4 *to = (uint4 *)(km_tiles(args) + i / TILE);
    for (int at = lane; at < TILE_SIZE; at += 32) to[at] = from[at];
    __syncwarp();
}

// Masks of half of a tile, added up: of the first slots, and of the others. They are 255 times a number whose bytes
// say how many near centroids each of four points has.
template <typename PART>
static __device__ __forceinline__ void km_add_masks(unsigned *sums, const unsigned (*near)[2], int half) {
    sums[0] = near[0][half];
    KM_UNROLL for (int s = 1; s < PART::FIRST; s++) sums[0] += near[s][half];
    sums[1] = int(PART::FIRST) < int(PART::SLOTS) ? near[PART::FIRST % PART::SLOTS][half] : 0;
    KM_UNROLL for (int s = PART::FIRST + 1; s < PART::SLOTS; s++) sums[1] += near[s][half];
}

// The rare step: points with several near centroids of a K, and marked ones, join the queue instead of the sums.
// `marked`: whether a lane knows of a marked point.
template <typename PART>
static __device__ __forceinline__ void km_settle(unsigned (*near)[2], const unsigned (*sums)[2],
                                                 km_block<PART> &shared, const km_pass_args &args, const km_lane &own,
                                                 bool marked, int tile) {
    const int lane = (int)km_keep(threadIdx.x % 32); // no address is worth a register between two calls
    const unsigned marks = __any_sync(ALL, marked) ? km_marks(args)[tile] : 0;
    unsigned pending = 0; // of a byte, bit 0 and 1: the first half's point and a K; bit 2 and 3: the other half's
    KM_UNROLL for (int half = 0; half < 2; half++) {
        unsigned counts[2] = {sums[half][0] * OVER_255, sums[half][1] * OVER_255}, several[2]; // of each byte
        counts[0] += counts[1] & own.link[0];
        counts[1] = (counts[0] & own.link[0]) | (counts[1] & ~own.link[0]);
        KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
            counts[0] += __shfl_xor_sync(ALL, counts[0], 4 << level) & own.link[1 + level];
        KM_UNROLL for (int segment = 0; segment < 2; segment++) // 0xff where a count is not 0 or 1
            several[segment] = km_pick<0xba98>(counts[segment] + 0x7e7e7e7e, 0);
        if (marks) {
            const unsigned bits = marks >> (16 * half + lane % 4 * 2); // 0, 1, 8 and 9
            const unsigned bytes = (bits & 1) | (bits & 2) << 7 | (bits & 0x100) << 8 | (bits & 0x200) << 15;
            several[0] |= bytes * 255;
            several[1] |= bytes * 255;
        }
        KM_UNROLL for (int s = 0; s < PART::SLOTS; s++) near[s][half] &= ~several[s >= PART::FIRST];
        pending |= ((several[0] & 0x01010101) | (several[1] & 0x02020202)) << 2 * half;
    }
    pending &= shared.asks[lane / 4]; // of a K, its first group of lanes asks
    km_warp &warp = shared.warps[threadIdx.x / 32];
    int queued = warp.queued;
    while (const unsigned askers = __ballot_sync(ALL, pending != 0)) {
        if (pending) warp.queue[queued + __popc(askers & ~(ALL << lane))] = {tile, lane | (__ffs(pending) - 1) << 5};
        pending &= pending - 1;
        queued += __popc(askers);
        if (queued >= 32) queued = km_drain(shared, args, queued);
        __syncwarp();
    }
    if (lane == 0) warp.queued = queued;
    __syncwarp();
}

//@ if track_labels
// Writes the labels of a lane's points that do not wait; counts changes of its one or two Ks.
template <typename PART>
static __device__ __forceinline__ void km_label_points(const unsigned (*near)[2], const km_pass_args &args,
                                                       const km_lane &own, long long first, int *changes) {
    const int lane = threadIdx.x % 32;
    KM_UNROLL for (int segment = 0; segment < 2; segment++) {
        if (own.member[segment] < 0) continue;
        const km_place place = km_places[own.member[segment]];
        km_label *all = (km_label *)args.labels + (blockIdx.y * KS + own.member[segment]) * args.labels_stride + first;
        KM_UNROLL for (int half = 0; half < 2; half++) {
            unsigned labels = 0, found = 0;
            KM_UNROLL for (int s = 0; s < PART::SLOTS; s++) {
                const bool counts = (s < PART::FIRST) == (segment == 0) || own.link[0];
                const unsigned cluster = (lane / 4 - place.group) * place.slots + s - place.slot;
                const unsigned mask = counts ? near[s][half] : 0;
                labels |= mask & cluster * 0x01010101;
                found |= mask;
            }
            KM_UNROLL for (int byte = 0; byte < 4; byte++) {
                km_label *kept = all + 16 * half + byte / 2 * 8 + lane % 4 * 2 + byte % 2;
                const km_label label = labels >> 8 * byte & 0xff;
                if (!(found >> 8 * byte & 1) || *kept == label) continue;
                *kept = label;
                changes[segment]++;
            }
        }
    }
}

//@ end
// Sums ------------------------------------------------------------------------------------------------------

//@ if rounded
// Sums of a warp, negative: of the bytes of each feature; of masks, as km_add_masks adds them.
template <typename PART> struct km_sums {
    int of[PART::TILES][SUM_TILES][4];
    unsigned masks[PART::SLOTS];
};

// Adds the points that were counted to the block's sums.
template <typename PART>
static __device__ __forceinline__ void km_flush_counts(km_sums<PART> &sums, km_block<PART> &shared) {
    const unsigned group = km_keep(threadIdx.x % 32 / 4); // no address is worth a register between two calls
    KM_UNROLL for (int s = 0; s < PART::SLOTS; s++) {
        const int row = shared.row[group][s];
        const unsigned count = __dp4a(sums.masks[s] * OVER_255, 0x01010101u, 0u); // of four bytes
        sums.masks[s] = 0;
        if (row >= 0) km_add_long(shared.sums + row * (D + 1) + D, count);
    }
}

//@ else
// Sums of a warp, negative: of the bytes of each feature, of ones.
template <typename PART> struct km_sums {
    int of[PART::TILES][SUM_TILES][4];
};

//@ end
// Adds a warp's sums to the block's.
template <typename PART>
static __device__ __forceinline__ void km_flush(km_sums<PART> &sums, km_block<PART> &shared) {
    const int lane = (int)km_keep(threadIdx.x % 32); // no address is worth a register between two calls
    KM_UNROLL for (int i = 0; i < PART::TILES; i++)
        KM_UNROLL for (int n = 0; n < SUM_TILES; n++)
            KM_UNROLL for (int at = 0; at < 4; at++) {
                const int row = shared.row[lane / 4][2 * i + at / 2], column = 8 * n + lane % 4 * 2 + at % 2;
                const long long sum = -(long long)sums.of[i][n][at];
                sums.of[i][n][at] = 0;
                //@ if rounded
                if (row < 0 || column >= LIMBS) continue;
                //@ else
                if (row < 0 || column > LIMBS) continue; // the count has a column of its own
                //@ end
                km_add_long(shared.sums + row * (D + 1) + column / 3, sum << 8 * (column % 3));
            }
    //@ if rounded
    km_flush_counts(sums, shared);
    //@ end
}

// A tile, `stage` bytes from the first one of the ring.
template <typename PART>
static __device__ __forceinline__ void km_take(km_sums<PART> &sums, const km_planes *planes,
                                               const km_places_in_tile &at, unsigned stage, km_block<PART> &shared,
                                               //@ if track_labels
                                               const km_pass_args &args, const km_lane &own, int tile, int *changes) {
                                               //@ else
                                               const km_pass_args &args, const km_lane &own, int tile) {
                                               //@ end
    unsigned near[PART::SLOTS][2], masks[2][2];
    const bool marked = km_compare<PART>(near, planes, at, stage, own);
    KM_UNROLL for (int half = 0; half < 2; half++) {
        km_add_masks<PART>(masks[half], near, half);
        asm("" : "+r"(masks[half][0]), "+r"(masks[half][1])); // kept for km_settle, not added up in another order
    }
    // A point has at least one near centroid of each K, so that all masks add up to that of one, or of two of different
    // Ks, only where every point has just one: bytes of a sum count up to 255. Both halves of the tile are in it.
    unsigned all = masks[0][0] + masks[0][1] + masks[1][0] + masks[1][1];
    KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
        all += __shfl_xor_sync(ALL, all, 4 << level) & own.link[1 + level];
    const unsigned expected = int(PART::FIRST) < int(PART::SLOTS) ? 2 * (2 * ALL) + (own.link[0] & 2) : 2 * ALL;
    if (__builtin_expect(__any_sync(ALL, marked || all != expected), 0))
        km_settle(near, masks, shared, args, own, marked, tile);
    //@ if track_labels
    km_label_points<PART>(near, args, own, tile * (long long)TILE, changes);
    //@ end
    //@ if rounded
    KM_UNROLL for (int s = 0; s < PART::SLOTS; s++) sums.masks[s] += near[s][0] + near[s][1];
    //@ end
    KM_UNROLL for (int n = 0; n < SUM_TILES; n++) {
        const uint2 limbs = km_read_two(at.limbs + stage + n * (unsigned)sizeof(uint2[32]));
        KM_UNROLL for (int i = 0; i < PART::TILES; i++) {
            const unsigned a[4] = {near[2 * i][0], near[2 * i + 1][0], near[2 * i][1], near[2 * i + 1][1]};
            km_subtract(sums.of[i][n], a, limbs);
        }
    }
}
