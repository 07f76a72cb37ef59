// SPDX-License-Identifier: MIT
//@ include cuda/tensor/scores.cu
// Scores and sums of halves.
//
// Scores. Four products a feature, (hi, lo, hi, lo) times (chi, chi, clo, clo), give a score with an error that
// km_prepare bounds for each K; the first features of the lanes leave out lo clo, and have 1 times a piece of the
// constant instead.
//
// Sums. Ones and zeros, a one for each near centroid, times the halves of the points: multiples of 2^-11 and of 2^-22,
// so few at a time that floats hold their sums exactly. They become integers then.

// Two answers of halves, each 1 or 0.
static __device__ __forceinline__ unsigned km_reaches(unsigned a, unsigned b) { // a >= b
    unsigned answer;
    asm("set.ge.f16x2.f16x2 %0, %1, %2;" : "=r"(answer) : "r"(a), "r"(b));
    return answer;
}

// Adds the ones of two rows, each twice: counts in halves.
static __device__ __forceinline__ void km_count(unsigned *counts, const unsigned (*near)[WIDTH], int c,
                                                const unsigned *ones) {
    asm("mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16 {%0, %1}, {%2, %3, %4, %5}, {%6, %7}, {%0, %1};"
        : "+r"(counts[0]), "+r"(counts[1])
        : "r"(near[0][c]), "r"(near[1][c]), "r"(near[0][c + 1]), "r"(near[1][c + 1]), "r"(ones[0]), "r"(ones[1]));
}

// Two 8 x 8 matrices of halves transposed, as the second factor of a product; lane l < 16 has row l % 8 of matrix
// l / 8.
static __device__ __forceinline__ void km_fetch_transposed(unsigned *matrices, unsigned row) {
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
                 : "=r"(matrices[0]), "=r"(matrices[1])
                 : "r"(row));
}

// A coordinate of the grid as its two halves.
static __device__ __forceinline__ unsigned km_limbs(float z) {
    return km_halves_of(__float2int_rn(z * (1 << BITS)));
}

// Load: writes the halves of a point.
static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    bool beyond) {
    for (int k = 0; k < LANE_D; k++) {
        unsigned words[4];
        KM_UNROLL for (int t = 0; t < 4; t++) {
            const int f = 4 * k + t;
            words[t] = beyond || f >= D ? 0 : km_limbs(x[f] * (float)km_power(-km_exponents(args)[f]));
        }
        km_tiles(args)[i / TILE].points[k][i % TILE] = {words[0], words[1], words[2], words[3]};
    }
}

// Writes a quarter of a row of the planes, the part of the lanes with lane % 4 = t: scaled factors of D features, or
// none, and a piece of the constant.
template <typename PART, typename Factor>
static __device__ __forceinline__ void km_write_row(km_block<PART> &shared, int group, int slot, int t, Factor factor,
                                                    float constant) {
    float piece = km_low(km_halves(constant, 0)); // the t-th of three pieces, as halves
    for (int i = 0; i < t; i++) {
        constant -= piece;
        piece = i < 2 ? km_low(km_halves(constant, 0)) : 0;
    }
    _Pragma("unroll 1") for (int i = 0; i < LANE_D; i++) {
        const float value = 4 * i + t < D ? factor(4 * i + t) : 0;
        const float high = km_low(km_halves(value, 0));
        unsigned *words = (unsigned *)&shared.planes[slot / 2][i][group * 4 + t] + slot % 2;
        words[0] = km_halves(high, high);
        words[2] = km_halves(value - high, i == 0 ? piece : value - high);
    }
}

// Of one K, by one warp: planes, margin, links.
template <typename PART>
static __device__ void km_prepare(km_block<PART> &shared, const float *c, int k_index) {
    const km_place place = km_places[k_index];
    const int k = km_ks[k_index];
    float *middle = shared.middle[threadIdx.x / 32];
    const unsigned char *beaten = shared.beaten + place.row;
    km_find_beaten(shared, c, place, k);
    const km_scale scale = km_find_scale(shared, middle, c, beaten, k);

    // Twice the error of a score: of the grid, of the halves' products, and of at most 20 truncated additions a
    // product. A unit of the 16-bit score is BINADE / 2^15.
    const double error = 2 * (scale.error + LANE_D * 20 * BINADE * km_power(-22) + 0.001);
    const int units = 1 + (int)(error / (BINADE * km_power(-15)));
    const unsigned margin = units < 1024 ? units * 0x10001 : 0x7c007c00; // the latter: all are near
    km_write_rows(shared, c, middle, k_index, threadIdx.x % 32, 32, scale,
                  [&](int group, int segment, bool linked) {
        shared.margin[segment][group] = margin;
        if (!linked) return;
        shared.margin[1][group] = margin;
        shared.bits[group] = WIDTH * ONES;
    });
}

// What a lane knows of its group's Ks.
struct km_lane {
    unsigned margin[2], link[4];
    //@ if track_labels
    int member[2];
    //@ end
    unsigned expected; // how many near centroids a point has that needs no decision, as two halves
    unsigned bits;     // of the ones of a lane where its points are certain, added up as integers
    unsigned ones[2];  // ONES twice
    unsigned zero;
};

template <typename PART> static __device__ km_lane km_lane_of(const km_block<PART> &shared) {
    km_lane own;
    const int group = threadIdx.x % 32 / 4;
    for (int s = 0; s < 2; s++) own.margin[s] = shared.margin[s][group];
    for (int l = 0; l < 4; l++) own.link[l] = shared.link[l][group];
    //@ if track_labels
    for (int s = 0; s < 2; s++) own.member[s] = shared.member[s][group];
    //@ end
    const bool two = int(PART::FIRST) < int(PART::SLOTS) && !own.link[0];
    own.expected = two ? 0x40004000 : ONES;
    own.bits = shared.bits[group];
    own.ones[0] = own.ones[1] = shared.ones;
    own.zero = shared.zero;
    return own;
}

// The rare step: points with several near centroids of a K, and marked ones, join the queue instead of the sums.
// `marks`: of the points from `first` of the tile on.
template <typename PART>
static __device__ __forceinline__ void km_settle(unsigned (*near)[WIDTH], km_block<PART> &shared,
                                                 const km_pass_args &args, const km_lane &own, unsigned marks, int tile,
                                                 int first, int &queued) {
    km_warp &warp = shared.warps[threadIdx.x / 32];
    const int lane = threadIdx.x % 32;
    unsigned pending = 0;
    KM_UNROLL for (int c = 0; c < WIDTH; c++) {
        unsigned count = near[0][c];
        KM_UNROLL for (int s = 1; s < PART::SLOTS; s++) count = km_plus(count, near[s][c]);
        KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
            count = km_plus(count, __shfl_xor_sync(ALL, count, 4 << level) & own.link[1 + level]);
        const unsigned marked = marks >> (8 * c + lane % 4 * 2);
        const unsigned waits = (count ^ own.expected) | (marked & 1) | (marked & 2) << 15;
        const unsigned low = waits & 0xffff, high = waits >> 16;
        const unsigned keep = (low ? 0 : 0xffff) | (high ? 0 : 0xffff0000);
        KM_UNROLL for (int s = 0; s < PART::SLOTS; s++) near[s][c] &= keep;
        pending |= (low != 0 | (high != 0) << 1) << 2 * c;
    }
    const int members[2] = {shared.member[0][lane / 4], shared.member[1][lane / 4]};
    pending |= members[1] >= 0 ? pending << 8 : 0; // of a K, its first group of lanes asks
    pending = members[0] >= 0 && km_places[members[0]].group == lane / 4 ? pending : pending & 0xff00;
    while (const unsigned askers = __ballot_sync(ALL, pending != 0)) {
        if (pending) {
            const int bit = __ffs(pending) - 1, member = bit < 8 ? members[0] : members[1];
            pending &= pending - 1;
            warp.queue[queued + __popc(askers & ~(ALL << lane))] = {
                tile, (first + bit / 2 % 4 * 8 + lane % 4 * 2 + bit % 2) | member << 5};
        }
        queued += __popc(askers);
        if (queued >= 32) queued = km_drain(shared, args, queued);
        __syncwarp();
    }
}

//@ if track_labels
// Writes the labels of a lane's points that do not wait; counts changes of its one or two Ks.
template <typename PART>
static __device__ __forceinline__ void km_label_points(const unsigned (*near)[WIDTH], const km_pass_args &args,
                                                       const km_lane &own, long long first, int *changes) {
    const int lane = threadIdx.x % 32;
    KM_UNROLL for (int segment = 0; segment < 2; segment++) {
        if (own.member[segment] < 0) continue;
        const km_place place = km_places[own.member[segment]];
        KM_UNROLL for (int c = 0; c < WIDTH; c++) {
            unsigned labels = 0, found = 0;
            KM_UNROLL for (int s = 0; s < PART::SLOTS; s++) {
                const bool counts = (s < PART::FIRST) == (segment == 0) || own.link[0];
                const unsigned cluster = (lane / 4 - place.group) * place.slots + s - place.slot;
                const unsigned ones = counts ? near[s][c] / 0x0400 & 0x10001 : 0;
                labels += ones * cluster;
                found |= ones;
            }
            km_label *kept = (km_label *)args.labels + (blockIdx.y * KS + own.member[segment]) * args.labels_stride +
                             first + 8 * c + lane % 4 * 2;
            KM_UNROLL for (int point = 0; point < 2; point++) {
                const km_label label = labels >> 16 * point & 0xffff;
                if (!(found >> 16 * point & 1) || kept[point] == label) continue;
                kept[point] = label;
                changes[segment]++;
            }
        }
    }
}

//@ end
// Which centroids are near, for the points of some columns: `near` [slot][column].
template <typename PART>
static __device__ __forceinline__ void km_compare(unsigned (*near)[WIDTH], const km_planes *planes, unsigned row,
                                                  const km_lane &own) {
    unsigned points[LANE_D][WIDTH][2], scores[PART::SLOTS][WIDTH];
    KM_UNROLL for (int k = 0; k < LANE_D; k++)
        KM_UNROLL for (int c = 0; c < WIDTH; c += 2)
            km_fetch(points[k] + c, row + (k * TILE + 8 * c) * (int)sizeof(uint4));
    KM_UNROLL for (int c = 0; c < WIDTH; c++) {
        points[0][c][0] += own.zero; // With two new numbers the compiler makes no copies of the pair.
        points[0][c][1] = km_pick<0x7610>(points[0][c][1], own.ones[0]);
    }
    KM_UNROLL for (int i = 0; i < PART::TILES; i++) {
        float sums[WIDTH][4] = {};
        KM_UNROLL for (int k = 0; k < LANE_D; k++) {
            const uint4 plane = km_plane(planes, i, k);
            const unsigned a[4] = {plane.x, plane.y, plane.z, plane.w};
            KM_UNROLL for (int c = 0; c < WIDTH; c++) km_multiply(sums[c], a, points[k][c]);
        }
        KM_UNROLL for (int r = 0; r < 2; r++)
            KM_UNROLL for (int c = 0; c < WIDTH; c++)
                scores[2 * i + r][c] =
                    km_pick<0x6521>(__float_as_uint(sums[c][2 * r]), __float_as_uint(sums[c][2 * r + 1]));
    }
    KM_UNROLL for (int c = 0; c < WIDTH; c++) {
        unsigned largest[2];
        km_find_largest<PART>(largest, scores, c, own.link);
        KM_UNROLL for (int segment = 0; segment < 2; segment++)
            largest[segment] -= own.margin[segment];
        KM_UNROLL for (int s = 0; s < PART::SLOTS; s++)
            near[s][c] = km_reaches(scores[s][c], largest[s >= PART::FIRST]);
    }
}

// Whether each point has just one near centroid of each K.
template <typename PART>
static __device__ __forceinline__ bool km_is_certain(const unsigned (*near)[WIDTH], const km_lane &own) {
    unsigned count = 0;
    if (int(PART::LEVELS) == 0) {
        // Sums of bits: of up to 63 ones in each half of a register they tell how many there are.
        KM_UNROLL for (int s = 0; s < PART::SLOTS; s++)
            KM_UNROLL for (int c = 0; c < WIDTH; c++) count += near[s][c];
        return count == own.bits;
    } else {
        KM_UNROLL for (int s = 0; s < PART::SLOTS; s++)
            KM_UNROLL for (int c = 0; c < WIDTH; c += 2) count = km_plus(count, km_plus(near[s][c], near[s][c + 1]));
        KM_UNROLL for (int level = 0; level < PART::LEVELS; level++)
            count = km_plus(count, __shfl_xor_sync(ALL, count, 4 << level) & own.link[1 + level]);
        return count == km_halves(WIDTH, WIDTH);
    }
}

// Sums of a warp: of the two halves of features; of ones.
template <typename PART> struct km_sums {
    float of[PART::TILES][LANE_D][4];
    unsigned counts[PART::TILES][2];
};

template <typename PART>
static __device__ __forceinline__ void km_add(km_sums<PART> &sums, const unsigned (*near)[WIDTH], unsigned row,
                                              const km_lane &own) {
    KM_UNROLL for (int c = 0; c < WIDTH; c += 2) {
        KM_UNROLL for (int i = 0; i < PART::TILES; i++) km_count(sums.counts[i], near + 2 * i, c, own.ones);
        KM_UNROLL for (int n = 0; n < LANE_D; n++) {
            unsigned points[2];
            km_fetch_transposed(points, row + (n * TILE + 8 * c) * (int)sizeof(uint4));
            KM_UNROLL for (int i = 0; i < PART::TILES; i++) {
                const unsigned a[4] = {near[2 * i][c], near[2 * i + 1][c], near[2 * i][c + 1], near[2 * i + 1][c + 1]};
                km_multiply(sums.of[i][n], a, points);
            }
        }
    }
}

// Adds a warp's sums to the block's.
template <typename PART>
static __device__ __forceinline__ void km_flush(km_sums<PART> &sums, km_block<PART> &shared) {
    const int lane = threadIdx.x % 32, t = lane % 4;
    KM_UNROLL for (int i = 0; i < PART::TILES; i++)
        KM_UNROLL for (int half = 0; half < 2; half++) {
            const int row = shared.row[lane / 4][2 * i + half];
            long long *out = shared.sums + row * (D + 1);
            const int count = (int)km_low(sums.counts[i][half]);
            sums.counts[i][half] = 0;
            if (row >= 0 && t == 0) km_add_long(out + D, count);
            KM_UNROLL for (int n = 0; n < LANE_D; n++) {
                const int f = 4 * n + t;
                const int high = (int)(sums.of[i][n][2 * half] * (1 << 11));
                const int low = (int)(sums.of[i][n][2 * half + 1] * (1 << BITS));
                sums.of[i][n][2 * half] = sums.of[i][n][2 * half + 1] = 0;
                if (row >= 0 && f < D) km_add_long(out + f, high * 2048ll + low);
            }
        }
}

// Where in a tile a lane reads: rows of points to compare, and to add.
struct km_places_in_tile {
    unsigned rows, lane;
};

static __device__ __forceinline__ km_places_in_tile km_find_places(unsigned ring) {
    const int lane = threadIdx.x % 32;
    return {km_keep(ring + (lane % 8 + lane / 16 * 8 - lane) * (int)sizeof(uint4)), ring};
}

// A tile, `stage` bytes from the first one of the ring.
template <typename PART>
static __device__ __forceinline__ void km_take(km_sums<PART> &sums, const km_planes *planes,
                                               const km_places_in_tile &at, unsigned stage, km_block<PART> &shared,
                                               const km_pass_args &args, const km_lane &own, unsigned marks, int tile,
                                               //@ if track_labels
                                               int &queued, int *changes) {
                                               //@ else
                                               int &queued) {
                                               //@ end
    KM_UNROLL for (int first = 0; first < TILE; first += 8 * WIDTH) {
        unsigned near[PART::SLOTS][WIDTH];
        km_compare<PART>(near, planes, at.rows + stage + first * (int)sizeof(uint4), own);
        const bool marked = marks & (ALL >> (TILE - 8 * WIDTH)) << first;
        if (__any_sync(ALL, !km_is_certain<PART>(near, own)) || marked)
            km_settle(near, shared, args, own, marks >> first, tile, first, queued);
        //@ if track_labels
        km_label_points<PART>(near, args, own, tile * (long long)TILE + first, changes);
        //@ end
        km_add(sums, near, at.lane + stage + first * (int)sizeof(uint4), own);
    }
}
