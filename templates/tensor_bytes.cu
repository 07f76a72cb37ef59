// SPDX-License-Identifier: MIT
// Distances in half precision, added as such; sums of bytes.
//
// Distances. With |x|^2 / 2 among the products of a point, a row gives
//     distance_j = |x|^2 / 2 - x . c_j + |c_j|^2 / 2 + bias = |x - c_j|^2 / 2 + bias,
// which is small where it matters: half precision tells near centroids apart about as well as 15 bits of a score do,
// and a product leaves two points in a register. Every row of a K gets the same |x|^2 / 2, however it was rounded.
// Products are added in at least 24 bits, so that a distance is rounded once, at the end, and no rounding changes the
// order of two numbers. What is off before that is less than half a unit of the bias, and no distance is below the
// bias: the nearest centroid is at most one unit above the smallest distance. All of those are near.
//
// Sums. A near centroid's byte is 0xff, -1; the integers of 24 bits, made positive, are bytes too.

constexpr unsigned OVER_255 = 0xfefefeff; // times 255: 1
constexpr float NEARER = 1024, FARTHER = 49152; // of rows without a centroid
enum {
    UNITS = 2,               // from the smallest distance to the first that is not near
    BYTES_BIAS = 1 << 23,    // of an integer as bytes
    SQUARE_BITS = 10,        // |x|^2 / 2 of the farthest corner of the grid is less than 2^10 as a half
    DISTANCE_BITS = 15,      // the largest distance, without its bias, is less than 2^15
    BIAS_MAX = 8192
};

// Two halves each: the smaller ones; differences, whose signs are exact.
static __device__ __forceinline__ unsigned km_min(unsigned a, unsigned b) { // above zero: like integers
    unsigned smaller;
    asm("min.u16x2 %0, %1, %2;" : "=r"(smaller) : "r"(a), "r"(b));
    return smaller;
}

static __device__ __forceinline__ unsigned km_minus(unsigned a, unsigned b) {
    unsigned difference;
    asm("sub.rn.f16x2 %0, %1, %2;" : "=r"(difference) : "r"(a), "r"(b));
    return difference;
}

static __device__ __forceinline__ void km_multiply(unsigned *distances, const uint4 &a, const unsigned *b) {
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%8, %8};"
        : "=r"(distances[0]), "=r"(distances[1])
        : "r"(a.x), "r"(a.y), "r"(a.z), "r"(a.w), "r"(b[0]), "r"(b[1]), "r"(0));
}

// Takes away bytes where masks are 0xff.
static __device__ __forceinline__ void km_subtract(int *sums, const unsigned *a, uint2 b) {
    asm("mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+r"(sums[0]), "+r"(sums[1]), "+r"(sums[2]), "+r"(sums[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b.x), "r"(b.y));
}

static __device__ __forceinline__ uint4 km_read_four(unsigned address) {
    uint4 words;
    asm volatile("ld.shared.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
                 : "r"(address));
    return words;
}

static __device__ __forceinline__ uint2 km_read_two(unsigned address) {
    uint2 words;
    asm volatile("ld.shared.v2.u32 {%0, %1}, [%2];" : "=r"(words.x), "=r"(words.y) : "r"(address));
    return words;
}

// Points ----------------------------------------------------------------------------------------------------

// The exponent of what |x|^2 / 2 is less than in the grid, whose reach in each feature is `reach(f)`.
template <typename Reach> static __device__ int km_square_exponent(Reach reach) {
    double square = 0;
    for (int f = 0; f < D; f++) square += reach(f) * reach(f);
    return km_exponent(square / 2, -400);
}

// Load: of four columns' bytes of each point, a word of one column. Products of bytes take their 32 points in the order
// in which distances come: those of lanes that differ in bits 0 and 3 of their number go into one word, and each of
// these lanes gets the word of one column.
static __device__ __forceinline__ unsigned km_gather(unsigned own) {
    const bool odd = threadIdx.x & 1, high = threadIdx.x & 8;
    own = __byte_perm(own, __shfl_xor_sync(ALL, own, 1), odd ? 0x3715 : 0x6240);
    return __byte_perm(own, __shfl_xor_sync(ALL, own, 8), high ? 0x3276 : 0x5410);
}

// Load: writes a point, one of a warp's 32: x[f] scale[f] in the grid. Its bytes come together in shared memory.
static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    const float *scale, bool beyond, float half_square) {
    __shared__ km_tile made[256 / 32];
    km_tile &tile = made[threadIdx.x / 32];
    constexpr int STREAM = (LIMBS + 3) / 4; // words of a point's bytes, one for each column
    const int lane = threadIdx.x % 32, n = lane % 8;
    unsigned stream[STREAM + 1] = {};
    stream[LIMBS / 4] = 1u << LIMBS % 4 * 8; // the count
    KM_UNROLL for (int f = 0; f < 4 * LANE_D; f++) {
        const float z = f < D && !beyond ? x[f % D] * scale[f % D] : 0;
        const int number = __float2int_rn(z * (1 << BITS));
        unsigned *words = (unsigned *)&tile.points[f / 4][n * 4 + f % 4];
        words[lane / 8] = km_halves_of(number);
        if (f >= D) continue;
        const unsigned long long limbs = (unsigned long long)(number + BYTES_BIAS) << 3 * f % 4 * 8;
        stream[3 * f / 4] |= (unsigned)limbs;
        stream[3 * f / 4 + 1] |= (unsigned)(limbs >> 32);
    }
    KM_UNROLL for (int i = 0; i < STREAM; i++) {
        const int column = 4 * i + lane / 8 % 2 * 2 + lane % 2;
        unsigned *words = (unsigned *)&tile.limbs[column / 8][column % 8 * 4 + lane / 2 % 4];
        words[lane / 16] = km_gather(stream[i]);
    }
    for (int at = lane; at < 8 * (8 * SUM_TILES - 2 - 4 * STREAM); at += 32) { // zeros, and a count that is not above
        const int column = 4 * STREAM + at / 8;
        unsigned *words = (unsigned *)&tile.limbs[column / 8][column % 8 * 4 + at / 2 % 4];
        words[at % 2] = column == LIMBS ? 0x01010101 : 0;
    }
    unsigned short *squares = (unsigned short *)&tile.limbs[SUM_TILES - 1][24 + n];
    squares[lane / 8] = (unsigned short)km_halves(beyond ? -0.0f : half_square, 0);
    __syncwarp();
    const uint4 *from = (const uint4 *)&tile;
    uint4 *to = (uint4 *)(km_tiles(args) + i / TILE);
    for (int at = lane; at < TILE_SIZE; at += 32) to[at] = from[at];
    __syncwarp();
}

// Preparing the planes --------------------------------------------------------------------------------------

// Writes a quarter of a row of the planes, the part of the lanes with lane % 4 = t: factors of D features, a piece of
// the constant, and what a square counts.
template <typename PART, typename Factor>
static __device__ __forceinline__ void km_write_row(km_block<PART> &shared, int group, int slot, int t, Factor factor,
                                                    float constant, float of_square) {
    float piece = km_low(km_halves(constant, 0)); // lanes 0, 1 and 3 have a piece each
    for (int i = 0; i < t - t / 3; i++) {
        constant -= piece;
        piece = km_low(km_halves(constant, 0));
    }
    const float value = t < D ? factor(t) : 0, high = km_low(km_halves(value, 0));
    unsigned *words = (unsigned *)&shared.planes[slot / 2][0][group * 4 + t] + slot % 2;
    words[0] = km_halves(high, high);
    words[2] = km_halves(value - high, t == 2 ? of_square : piece);
}

// How the distances of a K are scaled. `of_square` 0: half precision cannot hold them, and every point is decided in
// double.
struct km_scale {
    double factor, bias, of_square;
};

template <typename PART>
static __device__ km_scale km_find_scale(const km_block<PART> &shared, const float *c, const unsigned char *beaten,
                                         int k) {
    double farthest = 0, corner = 0, largest = 0.5 * shared.radius * shared.radius;
    _Pragma("unroll 1") for (int j = threadIdx.x % 32; j < k; j += 32) {
        if (beaten[j]) continue;
        double square = 0, box = 0, sum = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
            const double away = fabs((double)c[j * D + f]), reach = shared.reach[f];
            box = fma(reach + away, reach + away, box);
            square = fma(away, away, square);
            sum = fma(reach, away, sum);
            largest = fmax(largest, reach * away);
        }
        const double ball = shared.radius + sqrt(square);
        farthest = fmax(farthest, 0.5 * fmin(box, ball * ball));
        corner = fmax(corner, sum);
        largest = fmax(largest, 0.5 * square);
    }
    farthest = km_max_lanes(farthest);
    corner = km_max_lanes(corner);
    largest = km_max_lanes(largest);
    const int exponent = km_exponent(farthest, -400);
    const int squares = km_square_exponent([&](int f) { return shared.reach[f]; });
    km_scale scale = {km_power(DISTANCE_BITS - exponent), 0,
                      km_power(DISTANCE_BITS - exponent + squares - SQUARE_BITS)};

    // The error of a distance before it is rounded: of the grid and of the halves' products, of at most 20 truncated
    // additions, and of the constant. The bias leaves room for the rounding of |x|^2 / 2.
    const double halves = 2 * corner * scale.factor * km_power(-21);
    const double error = halves + 20 * km_power(km_exponent(largest * scale.factor) - 23) + 0.004;
    scale.bias = km_power(km_exponent(2048 * error));
    const bool held = largest * scale.factor < 60000 && scale.bias <= BIAS_MAX && scale.of_square >= km_power(-14) &&
                      scale.of_square <= km_power(15);
    if (!held) scale.of_square = 0;
    return scale;
}

// Of one K, by one warp: planes, links.
template <typename PART>
static __device__ void km_prepare(km_block<PART> &shared, const float *c, int k_index) {
    const km_place place = km_places[k_index];
    const int k = km_ks[k_index], lane = threadIdx.x % 32;
    const unsigned char *beaten = shared.beaten + place.row;
    km_find_beaten(shared, c, place, k);
    const km_scale scale = km_find_scale(shared, c, beaten, k);
    const bool held = scale.of_square > 0;
    const auto constant_of = [&](int j) {
        double constant = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++)
            constant = fma(0.5 * c[j * D + f], (double)c[j * D + f], constant);
        return (float)(constant * scale.factor + scale.bias + 32);
    };
    _Pragma("unroll 1") for (int at = lane; at < place.span * PART::SLOTS * 4; at += 32) {
        const int group = place.group + at / 4 / PART::SLOTS, slot = at / 4 % PART::SLOTS;
        const bool linked = PART::LEVELS == 0 && place.slots > PART::FIRST;
        const bool own = linked || (slot < PART::FIRST) == (place.slot < PART::FIRST);
        const int j = (group - place.group) * place.slots + slot - place.slot;
        const bool real = slot >= place.slot && slot < place.slot + place.slots && j < k;
        if (!own) continue;
        shared.row[group][slot] = real ? place.row + j : -1;
        if (real && !beaten[j] && held)
            km_write_row(
                shared, group, slot, at % 4,
                [&](int f) { return (float)(-(double)c[j * D + f] * shared.reach[f] * scale.factor); }, constant_of(j),
                (float)scale.of_square);
        else
            km_write_row(shared, group, slot, at % 4, [](int) { return 0.0f; }, real && !held ? NEARER : FARTHER, 0);
        if (slot != place.slot) continue;
        const int segment = place.slot >= PART::FIRST;
        shared.member[segment][group] = k_index;
        if (group == place.group) atomicOr(&shared.asks[group], segment ? 0x0a0a0a0a : 0x05050505);
        shared.link[0][group] = linked ? ALL : 0;
        if (linked || group != place.group) shared.expected[group] = linked ? ALL : 0;
        for (int level = 0; level < PART::LEVELS; level++)
            shared.link[1 + level][group] = place.span >> level > 1 ? ALL : 0;
    }
}

// What a lane knows of its group's Ks.
struct km_lane {
    unsigned link[4];
    //@ if track_labels
    int member[2];
    //@ end
    unsigned expected;          // masks of a tile, added up, where all points are certain
    unsigned square, one;       // of its factors of points: ALL where it is the square, 1 where it is not
    unsigned minus_zero;
};

template <typename PART> static __device__ km_lane km_lane_of(const km_block<PART> &shared) {
    km_lane own;
    const int lane = threadIdx.x % 32, group = lane / 4;
    for (int l = 0; l < 4; l++) own.link[l] = shared.link[l][group];
    //@ if track_labels
    for (int s = 0; s < 2; s++) own.member[s] = shared.member[s][group];
    //@ end
    own.expected = shared.expected[group];
    // Of groups that share a K, the first expects its points; each of them adds them up.
    for (int level = 0; level < PART::LEVELS; level++)
        own.expected += __shfl_xor_sync(ALL, own.expected, 4 << level) & own.link[1 + level];
    own.expected *= 2;
    own.square = km_keep(lane % 4 == 2 ? ALL : 0);
    own.one = km_keep(lane % 4 == 2 ? 0 : ONES);
    own.minus_zero = shared.minus_zero;
    return own;
}

// Comparing -------------------------------------------------------------------------------------------------

// From where on a distance is not near, for the points of one column: of the first slots, and of the others.
template <typename PART>
static __device__ __forceinline__ void km_find_limits(unsigned *limits, const unsigned (*distances)[2], int c,
                                                      const km_lane &own) {
    constexpr unsigned units = UNITS * 0x10001;
    unsigned smallest = distances[0][c];
    KM_UNROLL for (int s = 1; s < PART::FIRST; s++) smallest = km_min(smallest, distances[s][c]);
    if (int(PART::FIRST) < int(PART::SLOTS)) {
        unsigned other = distances[PART::FIRST % PART::SLOTS][c];
        KM_UNROLL for (int s = PART::FIRST + 1; s < PART::SLOTS; s++) other = km_min(other, distances[s][c]);
        smallest = km_min(smallest, other | ~own.link[0]);
        limits[0] = smallest + units;
        limits[1] = (limits[0] & own.link[0]) | ((other + units) & ~own.link[0]);
    } else {
        KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
            smallest = km_min(smallest, __shfl_xor_sync(ALL, smallest, 4 << level) | ~own.link[1 + level]);
        limits[0] = limits[1] = smallest + units;
    }
}

// Which centroids are near, for half of the points: `near` [slot][half], a byte for each of four points.
template <typename PART>
static __device__ __forceinline__ void km_compare(unsigned (*near)[2], int half, const km_planes *planes,
                                                  const unsigned *points, unsigned squares, const km_lane &own) {
    unsigned distances[PART::SLOTS][2], limits[2][2];
    const unsigned fourth = (squares & own.square) | own.one;
    // A copy made on the other pipe.
    const unsigned factors[2][2] = {{km_plus(points[0], own.minus_zero), km_pick<0x5410>(points[0], fourth)},
                                    {km_plus(points[1], own.minus_zero), km_pick<0x7610>(points[1], fourth)}};
    KM_UNROLL for (int i = 0; i < PART::TILES; i++) {
        const uint4 plane = km_plane(planes, i, 0);
        KM_UNROLL for (int c = 0; c < 2; c++) {
            unsigned rows[2];
            km_multiply(rows, plane, factors[c]);
            distances[2 * i][c] = rows[0];
            distances[2 * i + 1][c] = rows[1];
        }
    }
    KM_UNROLL for (int c = 0; c < 2; c++) km_find_limits<PART>(limits[c], distances, c, own);
    KM_UNROLL for (int s = 0; s < PART::SLOTS; s++)
        near[s][half] = km_pick<0xfdb9>(km_minus(distances[s][0], limits[0][s >= PART::FIRST]),
                                        km_minus(distances[s][1], limits[1][s >= PART::FIRST]));
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
                                                 bool marked, int tile, int &queued) {
    const int lane = threadIdx.x % 32;
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
    while (const unsigned askers = __ballot_sync(ALL, pending != 0)) {
        if (pending) warp.queue[queued + __popc(askers & ~(ALL << lane))] = {tile, lane | (__ffs(pending) - 1) << 5};
        pending &= pending - 1;
        queued += __popc(askers);
        if (queued >= 32) queued = km_drain(shared, args, queued);
        __syncwarp();
    }
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

// Sums of a warp, negative: of the bytes of each feature, of ones.
template <typename PART> struct km_sums {
    int of[PART::TILES][SUM_TILES][4];
};

// Adds a warp's sums to the block's.
template <typename PART>
static __device__ __forceinline__ void km_flush(km_sums<PART> &sums, km_block<PART> &shared) {
    const int lane = threadIdx.x % 32;
    KM_UNROLL for (int i = 0; i < PART::TILES; i++)
        KM_UNROLL for (int n = 0; n < SUM_TILES; n++)
            KM_UNROLL for (int at = 0; at < 4; at++) {
                const int row = shared.row[lane / 4][2 * i + at / 2], column = 8 * n + lane % 4 * 2 + at % 2;
                const long long sum = -(long long)sums.of[i][n][at];
                long long *out = shared.sums + row * (D + 1);
                sums.of[i][n][at] = 0;
                if (row < 0 || column > LIMBS) continue;
                km_add_long(out + column / 3, sum << 8 * (column % 3)); // the count has a column of its own
                for (int f = 0; f < D && column == LIMBS; f++) km_add_long(out + f, -sum * BYTES_BIAS);
            }
}

// Where in a tile a lane reads, in shared memory: points, squares, bytes.
struct km_places_in_tile {
    unsigned points, squares, limbs;
};

static __device__ __forceinline__ km_places_in_tile km_find_places(unsigned ring) {
    const unsigned lane = threadIdx.x % 32, limbs = ring - lane * (unsigned)sizeof(uint4) + sizeof(uint4[LANE_D][32]);
    return {ring, km_keep(limbs + (32 * (SUM_TILES - 1) + 24 + lane / 4) * (unsigned)sizeof(uint2)),
            km_keep(limbs + lane * (unsigned)sizeof(uint2))};
}

// A tile, `stage` bytes from the first one of the ring.
template <typename PART>
static __device__ __forceinline__ void km_take(km_sums<PART> &sums, const km_planes *planes,
                                               const km_places_in_tile &at, unsigned stage, km_block<PART> &shared,
                                               //@ if track_labels
                                               const km_pass_args &args, const km_lane &own, int tile, int &queued,
                                               int *changes) {
                                               //@ else
                                               const km_pass_args &args, const km_lane &own, int tile, int &queued) {
                                               //@ end
    const uint4 points = km_read_four(at.points + stage);
    const uint2 squares = km_read_two(at.squares + stage);
    const unsigned words[4] = {points.x, points.y, points.z, points.w};
    unsigned near[PART::SLOTS][2], masks[2][2];
    km_compare<PART>(near, 0, planes, words, squares.x, own);
    km_compare<PART>(near, 1, planes, words + 2, squares.y, own);
    KM_UNROLL for (int half = 0; half < 2; half++) {
        km_add_masks<PART>(masks[half], near, half);
        asm("" : "+r"(masks[half][0]), "+r"(masks[half][1])); // kept for km_settle, not added up in another order
    }
    // A point has at least one near centroid of each K, so that all masks add up to what is expected only where every
    // point has just one: bytes of a sum count up to 255.
    unsigned all = masks[0][0] + masks[0][1] + masks[1][0] + masks[1][1];
    KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
        all += __shfl_xor_sync(ALL, all, 4 << level) & own.link[1 + level];
    const bool marked = (squares.x | squares.y) & 0x80008000;
    if (__builtin_expect(__any_sync(ALL, marked || all != own.expected), 0))
        km_settle(near, masks, shared, args, own, marked, tile, queued);
    //@ if track_labels
    km_label_points<PART>(near, args, own, tile * (long long)TILE, changes);
    //@ end
    KM_UNROLL for (int n = 0; n < SUM_TILES; n++) {
        const uint2 limbs = km_read_two(at.limbs + stage + n * (unsigned)sizeof(uint2[32]));
        KM_UNROLL for (int i = 0; i < PART::TILES; i++) {
            const unsigned a[4] = {near[2 * i][0], near[2 * i + 1][0], near[2 * i][1], near[2 * i + 1][1]};
            km_subtract(sums.of[i][n], a, limbs);
        }
    }
}
