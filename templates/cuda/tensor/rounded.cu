// SPDX-License-Identifier: MIT
// Form rounded: scores of rounded points, sums of bytes.

//@ def form_text
// Scores: a coordinate takes part as one half, a factor c - p as two, the larger part and the rest: so 8 features fill
// a product of 16, and sums start at the constant. What rounding a point by r, in units of 2^e, changes between two
// scores is r . (c_j - c_z), at most |r| times the largest |c_j - c_z| of the K. |r| is kept beside the point: how far
// below the largest score a centroid is a candidate depends on both.
//
// Sums: a candidate's byte is 0xff, -1; the integers of 24 bits are bytes too, from -128 to 127 each.
//
// TIGHT: whether the compiler spills unless it is kept from reading ahead: that of CUDA 12 always does.
constexpr bool TIGHT = $tight || __CUDACC_VER_MAJOR__ < 13;
//@ end
//@ def form_numbers
enum {
    PAIRS = $pairs,               // of columns, 16 points, that a warp works on at a time
    WIDTH = 2 * PAIRS,            // columns of 8 points
    DIGITS = 3 * D,               // bytes of a point's integers
    BLOCKS = (D + 7) / 8,         // of 8 features
    FRAGMENTS = BLOCKS + 1,       // of a tile of rows: factors of a block, and where sums start
    SUM_TILES = (DIGITS + 7) / 8, // columns of sums, in eights
    COUNT_COLUMNS = 0,            // beside those of coordinates: points are counted by their masks
    SQUARE_COLUMNS = 0,
    MASKS = 2,           // of a lane and slot, for four points each
    COUNT_TILES = 64,    // so many points fit bytes that count: two of each tile
    CHUNK_TILES = 65536, // so many points of a warp fit sums of bytes: 2^21
    STEP_TILES = 1,      // tiles that are worked on at a time
    NORMS = 1,           // that a load finds the largest of: |x|
    RESOLVE_AHEAD = D,   // features at a time when an ambiguous point is added
    FETCHERS = 32,       // threads that fetch the centroids of a K
    REDUCE = 1024        // threads of a block of km_reduce
};
constexpr float BINADE = 8192; // scores are at least this and less than twice this
//@ end

//@ def form_memory
// Points as matrix products take them.
struct km_tile {
    uint4 points[BLOCKS][TILE];  // halves of features 8 i to 8 i + 7 of each point
    uint2 digits[SUM_TILES][32]; // of lane 4 n + t a byte of each of eight points: what its column n takes
    uint4 errors
        [4]; // of points 2 t, 2 t + 1, 8 + 2 t, ...: what rounding took away, as halves; negative: outliers
};

//@ use warp_memory
// How far below the largest score a centroid of either K is a candidate.
struct alignas(16) km_margin {
    unsigned slope[2], least[2];
};

template <typename LAUNCH> struct km_block : km_shared<LAUNCH> {
    uint4 fragments[LAUNCH::TILES][FRAGMENTS][32]; // centroids, as matrix products take them
    long long sums[LAUNCH::ROWS * (D + 1)];
    km_warp warps[WARPS];
    const uint4 *tiles; // where they begin: rarely enough needed to stay here
    float centroids[LAUNCH::ROWS * D];
    float midpoint[WARPS][D];
    km_margin margin[8]; // of a quad's Ks
    unsigned asks[8];    // which Ks of a quad send points to the queue: bit 0 and bit 1 of each byte
};
//@ end

//@ def form_load
//@ use halves low_half rounding point_halves
static __device__ __forceinline__ void km_put_factors(km_tile &tile, const km_pass_args &, const float *z,
                                                      bool beyond, double) {
    km_put_halves(tile, beyond, [&](int f) { return z[f]; });
}

//@ use byte_load
//@ end
//@ def form_prepare
//@ use factor_halves
// Writes a quarter of a row of the fragments: scaled factors of D features, and where sums start.
template <typename LAUNCH, typename Factor>
static __device__ __forceinline__ void km_write_row(km_block<LAUNCH> &shared, int quad, int slot, int t,
                                                    Factor factor, float start) {
    km_write_halves(shared, quad, slot, t, factor);
    for (int point = 0; point < 2; point++)
        ((unsigned *)&shared.fragments[slot / 2][BLOCKS][quad * 4 + t])[slot % 2 * 2 + point] =
            __float_as_uint(start);
}

// A row of no centroid; a lane without a K has one candidate.
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_row(km_block<LAUNCH> &shared, int quad, int slot, int t) {
    const bool high = slot == 0 || slot == LAUNCH::FIRST;
    km_write_row(
        shared, quad, slot, t, [](int) { return 0.0f; }, high ? 1.25f * BINADE : BINADE);
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_clear(km_block<LAUNCH> &shared, const km_pass_args &args) {
    if (threadIdx.x == 0) shared.tiles = (const uint4 *)km_tiles(args);
    for (int i = threadIdx.x; i < LAUNCH::ROWS * (D + 1); i += BLOCK) shared.sums[i] = 0;
    for (int i = threadIdx.x; i < 8; i += BLOCK) {
        shared.asks[i] = 0;
        shared.margin[i] = {{0, 0}, {NONE + 0x10001, NONE + 0x10001}};
    }
}

// The largest distance of two centroids of a K, each feature in units of 2^e.
template <typename LAUNCH>
static __device__ double km_find_spread(const km_block<LAUNCH> &shared, const float *c,
                                        const unsigned char *dominated, int k) {
    double largest = 0;
    KM_UNROLL_1_FOR (int pair = threadIdx.x % 32; pair < k * k; pair += 32) {
        const int i = pair / k, j = pair % k;
        if (i >= j || dominated[i] || dominated[j]) continue;
        double square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = ((double)c[i * D + f] - (double)c[j * D + f]) * shared.extent[f];
            square = fma(away, away, square);
        }
        largest = fmax(largest, square);
    }
    return sqrt(km_warp_max(largest));
}

//@ use score_rows margin
// Of one K, by one warp: fragments, margin, links.
template <typename LAUNCH>
static __device__ void km_prepare(km_block<LAUNCH> &shared, const float *c, int k_index) {
    const km_place place = km_places[k_index];
    const int k = km_ks[k_index];
    float *midpoint = shared.midpoint[threadIdx.x / 32];
    const unsigned char *dominated = shared.dominated + place.row;
    km_find_dominated(shared, c, place, k);
    km_scale scale = km_find_scale(shared, midpoint, c, dominated, k);
    const km_margin_of_k margin = km_find_margin(scale, km_find_spread(shared, c, dominated, k));
    const auto begin_quad = [&](int quad, int segment, bool linked) {
        if (quad == place.quad) atomicOr(&shared.asks[quad], segment ? 0x0a0a0a0a : 0x05050505);
        for (int s = 0; s < 2; s++) {
            if (s != segment && !linked) continue;
            shared.margin[quad].slope[s] = margin.slope;
            shared.margin[quad].least[s] = margin.least;
        }
    };
    km_write_rows(shared, c, midpoint, k_index, threadIdx.x % 32, 32, scale, begin_quad);
}

//@ end
//@ def form_resolve
//@ use byte_resolve
//@ end
//@ def form_take
//@ use prmt ldmatrix_x4 mma_f16 half2_sub half2_fma read_shared_4 largest fragments
// What a lane knows of its quad's Ks.
struct km_lane {
    unsigned link[4];
    //@ if track_labels
    int k_index[2];
    //@ end
    unsigned margin; // address of the quads' margins
};

//@ if track_labels
//@ use byte_point_of tell_changes
//@ end
//@ use byte_take
template <typename LAUNCH> static __device__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    km_know_quad(own, shared);
    own.margin = km_shared_address(shared.margin);
    return own;
}

// Where in a tile a lane reads, in shared memory: rows of points, their errors, bytes.
struct km_places_in_tile {
    unsigned points, errors, digits;
};

static __device__ __forceinline__ km_places_in_tile km_find_places(unsigned ring) {
    const unsigned lane = threadIdx.x % 32, tile = ring - lane * (unsigned)sizeof(uint4);
    const unsigned digits = tile + sizeof(uint4[BLOCKS][TILE]),
                   errors = digits + sizeof(uint2[SUM_TILES][32]);
    const unsigned row = lane % 8 + lane / 16 * 8 + lane / 8 % 2 * (BLOCKS - 1) * TILE;
    return {tile + row * (unsigned)sizeof(uint4), errors + lane % 4 * (unsigned)sizeof(uint4),
            digits + lane * (unsigned)sizeof(uint2)};
}

// The scores of a tile of rows, two points in a register, for the points of some columns.
static __device__ __forceinline__ void km_score(unsigned (*scores)[WIDTH], const km_fragments *fragments,
                                                int tile, const unsigned (*points)[2]) {
    float sums[WIDTH][4];
    const uint4 start = km_fragment(fragments, tile, BLOCKS);
    const float starts[4] = {__uint_as_float(start.x), __uint_as_float(start.y), __uint_as_float(start.z),
                             __uint_as_float(start.w)};
    KM_UNROLL_FOR (int k = 0; k < BLOCKS; k++) {
        const uint4 fragment = km_fragment(fragments, tile, k);
        const unsigned a[4] = {fragment.x, fragment.y, fragment.z, fragment.w};
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) km_mma_f16(sums[c], a, points[c], k ? sums[c] : starts);
    }
    KM_UNROLL_FOR (int r = 0; r < 2; r++)
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            scores[r][c] =
                km_prmt<0x6521>(__float_as_uint(sums[c][2 * r]), __float_as_uint(sums[c][2 * r + 1]));
}

// Which centroids are candidates in a tile, `stage` bytes from the first one of the ring: `candidates`
// [slot][half], a byte for each of four points. Gives whether a lane knows of an outlier.
template <typename LAUNCH>
static __device__ __forceinline__ bool
km_find_candidates(unsigned (*candidates)[MASKS], const km_fragments *fragments, const km_places_in_tile &at,
                   unsigned stage, const km_lane &own) {
    const uint4 read = km_read_shared_4(at.errors + stage);
    const unsigned errors[4] = {read.x, read.y, read.z, read.w};
    KM_UNROLL_FOR (int first = 0; first < 4; first += WIDTH) {
        unsigned points[WIDTH][2], scores[LAUNCH::SLOTS][WIDTH], limits[WIDTH][2];
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2)
            km_ldmatrix_x4(points[c], at.points + stage + 8 * (first + c) * (unsigned)sizeof(uint4));
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++) {
            if (TIGHT && i > 0) __syncwarp(); // or too much is read ahead
            km_score(scores + 2 * i, fragments, i, points);
        }
        // Of more features the sums leave no register for the address.
        const unsigned thread = BLOCKS > 1 ? km_opaque(threadIdx.x) : threadIdx.x;
        const uint4 margin = km_read_shared_4(own.margin + thread % 32 / 4 * (unsigned)sizeof(km_margin));
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) { // limits: the largest scores of no candidate
            km_find_largest<LAUNCH>(limits[c], scores, c, own.link);
            limits[c][0] += NEXT - km_half2_fma(errors[first + c], margin.x, margin.z);
            limits[c][1] += NEXT - km_half2_fma(errors[first + c], margin.y, margin.w);
        }
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++)
            KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2) {
                const int segment = s >= LAUNCH::FIRST;
                candidates[s][(first + c) / 2] =
                    km_prmt<0xfdb9>(km_half2_sub(limits[c][segment], scores[s][c]),
                                    km_half2_sub(limits[c + 1][segment], scores[s][c + 1]));
            }
    }
    return (errors[0] | errors[1] | errors[2] | errors[3]) & 0x80008000;
}

// Sums of a warp, negative: of the bytes of each feature; of masks, as km_add_masks adds them.
template <typename LAUNCH> struct km_sums {
    int of[LAUNCH::TILES][SUM_TILES][4];
    unsigned masks[LAUNCH::SLOTS];
};

template <typename LAUNCH>
static __device__ __forceinline__ void km_count_points(km_sums<LAUNCH> &sums,
                                                       const unsigned (*candidates)[MASKS]) {
    KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++) sums.masks[s] += candidates[s][0] + candidates[s][1];
}

// Adds the points that were counted to the block's sums.
template <typename LAUNCH>
static __device__ __forceinline__ void km_flush_counts(km_sums<LAUNCH> &sums, km_block<LAUNCH> &shared) {
    constexpr unsigned OVER_255 = 0xfefefeff;              // times 255: 1
    const unsigned quad = km_opaque(threadIdx.x % 32 / 4); // no address is worth a register between two calls
    KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++) {
        const int row = shared.row[quad][s];
        const unsigned count = __dp4a(sums.masks[s] * OVER_255, 0x01010101u, 0u); // of four bytes
        sums.masks[s] = 0;
        if (row >= 0) km_add_long(shared.sums + row * (D + 1) + D, count);
    }
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_flush(km_sums<LAUNCH> &sums, km_block<LAUNCH> &shared) {
    km_flush_bytes(sums.of, shared);
    km_flush_counts(sums, shared);
}

template <typename LAUNCH>
static __device__ __forceinline__ auto km_find_source(const km_block<LAUNCH> &shared, const km_pass_args &) {
    return [&shared](int tile) { return shared.tiles + threadIdx.x % 32 + tile * (long long)TILE_SIZE; };
}

//@ use byte_walk
//@ end
//@ def form_publish
//@ use publish_columns
//@ end
//@ def form_reduce
//@ use reduce_columns
//@ end
