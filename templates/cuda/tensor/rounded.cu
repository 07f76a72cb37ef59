// SPDX-License-Identifier: MIT
//@ include cuda/tensor/scores.cu
// Scores of rounded points.
//
// A coordinate takes part as one half, a factor c - p as two, the larger part and the rest: so 8 features fill a
// product of 16, and sums start at the constant. What rounding a point by r, in units of 2^e, changes between two
// scores is r . (c_j - c_z), at most |r| times the largest |c_j - c_z| of the K. |r| is kept beside the point: how far
// below the largest score a centroid is near depends on both.

//@ include cuda/tensor/margins.cu

// Load: writes the halves of a point in the grid, and how far they are from it. Negative: marked.
static __device__ __forceinline__ void km_put_factors(km_tile &tile, const float *z, bool beyond) {
    const int lane = threadIdx.x % 32;
    double square = 0;
    KM_UNROLL for (int f = 0; f < 8 * BLOCKS; f++) {
        const unsigned half = f < D ? km_halves(z[f % D], 0) : 0;
        const double away = f < D ? (double)z[f % D] - km_low(half) : 0;
        square = fma(away, away, square);
        ((unsigned short *)&tile.points[f / 8][lane])[f % 8] = (unsigned short)half;
    }
    const float error = (float)(sqrt(square) * km_power(ERROR_BITS) * (1 + km_power(-10)));
    unsigned short *errors = (unsigned short *)&tile.errors[lane / 2 % 4];
    errors[lane / 8 * 2 + lane % 2] = (unsigned short)km_halves(beyond ? -0.0f : error, 0);
}

// Writes a quarter of a row of the planes, the part of the lanes with lane % 4 = t: scaled factors of D features, and
// where sums start.
template <typename PART, typename Factor>
static __device__ __forceinline__ void km_write_row(km_block<PART> &shared, int group, int slot, int t, Factor factor,
                                                    float start) {
    const auto words_of = [&](int plane) { return (unsigned *)&shared.planes[slot / 2][plane][group * 4 + t]; };
    _Pragma("unroll 1") for (int i = 0; i < BLOCKS; i++) {
        const int f = 8 * i + 2 * t;
        const float first = f < D ? factor(f) : 0, second = f + 1 < D ? factor(f + 1) : 0;
        const float high = km_low(km_halves(first, 0)), second_high = km_low(km_halves(second, 0));
        // Of 8 features both parts are in one product, of 16 each has its own.
        words_of(0)[slot % 2 + 2 * i] = km_halves(high, second_high);
        words_of(BLOCKS - 1)[slot % 2 + 2 * i + 2 * (2 - BLOCKS)] = km_halves(first - high, second - second_high);
    }
    for (int point = 0; point < 2; point++) words_of(BLOCKS)[slot % 2 * 2 + point] = __float_as_uint(start);
}

// The largest distance of two centroids of a K, each feature in units of 2^e.
template <typename PART>
static __device__ double km_find_spread(const km_block<PART> &shared, const float *c, const unsigned char *beaten,
                                        int k) {
    double largest = 0;
    _Pragma("unroll 1") for (int pair = threadIdx.x % 32; pair < k * k; pair += 32) {
        const int i = pair / k, j = pair % k;
        if (i >= j || beaten[i] || beaten[j]) continue;
        double square = 0;
        _Pragma("unroll 2") for (int f = 0; f < D; f++) {
            const double away = ((double)c[i * D + f] - (double)c[j * D + f]) * shared.reach[f];
            square = fma(away, away, square);
        }
        largest = fmax(largest, square);
    }
    return sqrt(km_max_lanes(largest));
}

// Of one K, by one warp: planes, margin, links.
template <typename PART>
static __device__ void km_prepare(km_block<PART> &shared, const float *c, int k_index) {
    const km_place place = km_places[k_index];
    const int k = km_ks[k_index];
    float *middle = shared.middle[threadIdx.x / 32];
    const unsigned char *beaten = shared.beaten + place.row;
    km_find_beaten(shared, c, place, k);
    km_scale scale = km_find_scale(shared, middle, c, beaten, k);

    // Two scores are off by twice the error of one, of which at most 20 truncated additions a product are part, and by
    // what rounding the point changes between them. A unit of the 16-bit score is BINADE / 2^15; half of one is lost
    // where the margin is rounded, and one where scores are.
    const double unit = BINADE * km_power(-15);
    const double error = 2 * (scale.error + BLOCKS * 20 * BINADE * km_power(-22) + 0.001) / unit;
    double spread = km_find_spread(shared, c, beaten, k) * scale.factor / unit * km_power(-ERROR_BITS);
    if (error + spread * 8 > MARGIN_MAX) scale.factor = spread = 0; // |r| is at most 8: all are near
    const unsigned slope = km_halves((float)(spread * (1 + km_power(-10))), 0) * 0x10001;
    const unsigned least = km_halves((float)(1024 + ceil(error + 0.51)), 0) * 0x10001;
    km_write_rows(shared, c, middle, k_index, threadIdx.x % 32, 32, scale,
                  [&](int group, int segment, bool linked) {
        if (group == place.group) atomicOr(&shared.asks[group], segment ? 0x0a0a0a0a : 0x05050505);
        for (int s = 0; s < 2; s++) {
            if (s != segment && !linked) continue;
            shared.margin[group].slope[s] = slope;
            shared.margin[group].least[s] = least;
        }
    });
}

// What a lane knows of its group's Ks.
struct km_lane {
    unsigned link[4];
    //@ if track_labels
    int member[2];
    //@ end
    unsigned margin; // address of the groups' margins
};

template <typename PART> static __device__ km_lane km_lane_of(const km_block<PART> &shared) {
    km_lane own;
    km_know_group(own, shared);
    own.margin = (unsigned)__cvta_generic_to_shared(shared.margin);
    return own;
}

// Where in a tile a lane reads, in shared memory: rows of points, their errors, bytes.
struct km_places_in_tile {
    unsigned points, errors, limbs;
};

static __device__ __forceinline__ km_places_in_tile km_find_places(unsigned ring) {
    const unsigned lane = threadIdx.x % 32, tile = ring - lane * (unsigned)sizeof(uint4);
    const unsigned limbs = tile + sizeof(uint4[BLOCKS][TILE]), errors = limbs + sizeof(uint2[SUM_TILES][32]);
    const unsigned row = lane % 8 + lane / 16 * 8 + lane / 8 % 2 * (BLOCKS - 1) * TILE;
    return {tile + row * (unsigned)sizeof(uint4),
            errors + lane % 4 * (unsigned)sizeof(uint4), limbs + lane * (unsigned)sizeof(uint2)};
}

// The scores of a tile of rows, two points in a register, for the points of some columns.
static __device__ __forceinline__ void km_score(unsigned (*scores)[WIDTH], const km_planes *planes, int tile,
                                                const unsigned (*points)[2]) {
    float sums[WIDTH][4];
    const uint4 start = km_plane(planes, tile, BLOCKS), first = km_plane(planes, tile, 0);
    KM_UNROLL for (int c = 0; c < WIDTH; c++) km_multiply(sums[c], first, points[c], start);
    KM_UNROLL for (int k = 1; k < BLOCKS; k++) {
        const uint4 plane = km_plane(planes, tile, k);
        const unsigned a[4] = {plane.x, plane.y, plane.z, plane.w};
        KM_UNROLL for (int c = 0; c < WIDTH; c++) km_multiply(sums[c], a, points[c]);
    }
    KM_UNROLL for (int r = 0; r < 2; r++)
        KM_UNROLL for (int c = 0; c < WIDTH; c++)
            scores[r][c] = km_pick<0x6521>(__float_as_uint(sums[c][2 * r]), __float_as_uint(sums[c][2 * r + 1]));
}

// Which centroids are near in a tile, `stage` bytes from the first one of the ring: `near` [slot][half], a byte for
// each of four points. Gives whether a lane knows of a marked point.
template <typename PART>
static __device__ __forceinline__ bool km_compare(unsigned (*near)[2], const km_planes *planes,
                                                  const km_places_in_tile &at, unsigned stage, const km_lane &own) {
    const uint4 read = km_read_four(at.errors + stage);
    const unsigned errors[4] = {read.x, read.y, read.z, read.w};
    KM_UNROLL for (int first = 0; first < 4; first += WIDTH) {
        unsigned points[WIDTH][2], scores[PART::SLOTS][WIDTH], limits[WIDTH][2];
        KM_UNROLL for (int c = 0; c < WIDTH; c += 2)
            km_fetch(points + c, at.points + stage + 8 * (first + c) * (unsigned)sizeof(uint4));
        KM_UNROLL for (int i = 0; i < PART::TILES; i++) {
            if (TIGHT && i > 0) __syncwarp(); // or too much is read ahead
            km_score(scores + 2 * i, planes, i, points);
        }
        // Of more features the sums leave no register for the address.
        const unsigned thread = BLOCKS > 1 ? km_keep(threadIdx.x) : threadIdx.x;
        const uint4 margin = km_read_four(own.margin + thread % 32 / 4 * (unsigned)sizeof(km_margin));
        KM_UNROLL for (int c = 0; c < WIDTH; c++) { // limits: the largest scores that are not near
            km_find_largest<PART>(limits[c], scores, c, own.link);
            limits[c][0] += NEXT - km_multiply_add(errors[first + c], margin.x, margin.z);
            limits[c][1] += NEXT - km_multiply_add(errors[first + c], margin.y, margin.w);
        }
        KM_UNROLL for (int s = 0; s < PART::SLOTS; s++)
            KM_UNROLL for (int c = 0; c < WIDTH; c += 2)
                near[s][(first + c) / 2] = km_pick<0xfdb9>(km_minus(limits[c][s >= PART::FIRST], scores[s][c]),
                                                           km_minus(limits[c + 1][s >= PART::FIRST], scores[s][c + 1]));
    }
    return (errors[0] | errors[1] | errors[2] | errors[3]) & 0x80008000;
}
