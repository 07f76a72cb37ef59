// SPDX-License-Identifier: MIT
// Form digits: scores and sums of bytes, for many features.

//@ def form_text
// Points: an integer N = z 2^22 = b2 2^16 + b1 2^8 + b0, each digit from -128 to 127, a feature's digit of all points
// of a tile side by side.
//
// Scores: of a K with midpoint p, A = F (c - p) 2^e, F such that two bytes hold it: C = c2 2^8 + c1 is A without its
// fraction. A score, N . C / 2^16 and what does not depend on the point, is
//     S = sum b2 c2 2^8 + sum (b2 c1 + b1 c2) + start,
// two sums that 32 bits hold exactly. It lacks sum b1 c1 / 2^8 and sum b0 C / 2^16, and fractions of N and A. What that
// is at most, E, follows from lengths of vectors (km_find_error). A centroid is a candidate when S comes within 2 E of
// the largest. Of an ambiguous point the candidates are compared (km_resolve).
//
// Sums: the candidates of a point times its bytes. A block's warps compare points of their own, and leave masks of
// candidates in shared memory: then each adds, of all points of the block, the bytes of columns of its own. So sums
// stay in registers until the end.
//@ end
//@ def form_numbers
enum {
    PAIRS = $pairs,                              // of columns, 16 points, that a warp compares
    WIDTH = 2 * PAIRS,                           // columns of 8 points
    MASKS = PAIRS,                               // of a lane and slot, for four points each
    STEP_TILES = WARPS * PAIRS / 2,              // tiles that a block works on at a time
    QUARTERS = (D + 3) / 4,                      // features in fours
    CHUNKS = (D + 31) / 32,                      // in products of 32
    LINES = (3 * QUARTERS + 1) / 2 * 2,          // of 128 bytes, a tile's
    SUM_TILES = LINES / 2,                       // columns of sums, in eights: three of each feature
    OWN_TILES = (SUM_TILES + WARPS - 1) / WARPS, // of them a warp's
    QUEUE_FULL = 24,                             // so many ambiguous points are worth a pause of the block
    TEAM = 8,                                    // lanes that resolve a point
    CHUNK_STEPS = 2048,                          // so many steps fit 16 bits of a count
    MARGIN_MAX = 1000,                           // units of a 16-bit score
    NORMS = 2,                                   // that a load finds the largest of: |x|, |z|
    FETCHERS = BLOCK,                            // threads that fetch the centroids of a K
    REDUCE = 128                                 // threads of a block of km_reduce
};
constexpr float BINADE = 0x7c000000; // scores are integers below it, of which the upper halves are compared
//@ end

//@ def form_memory
// An ambiguous point.
struct km_item {
    int tile;
    unsigned what;       // point of the tile, index of the K << 5
    unsigned candidates; // which clusters are candidates, of the first 32; 0: any may be
};

// Bytes of 32 points: digit by digit, the highest first, a line for four features. The four change places from line to
// line, so that lanes that read four lines find them in different banks.
struct alignas(16) km_tile {
    unsigned char lines[LINES][4][TILE];
};

enum { PIECES = sizeof(km_tile) * STEP_TILES / sizeof(uint4) }; // of a step

// How a quad's Ks are decided: what scores are multiplied by, which makes the most of their 31 bits; from the largest
// to the first of no candidate, in both halves.
struct alignas(16) km_choice {
    int factor[2];
    unsigned margin[2];
};

template <typename LAUNCH> struct km_block : km_shared<LAUNCH> {
    union {
        km_tile ring[STAGES][STEP_TILES];
        float centroids[LAUNCH::ROWS * D]; // while fragments are made
    };
    unsigned outliers[STAGES][STEP_TILES];
    uint4 masks[2][STEP_TILES][LAUNCH::TILES][32]; // of candidates, as products take them; of two steps
    uint4 fragments[LAUNCH::TILES][CHUNKS][2][32]; // centroids' digits, likewise
    int2 starts[LAUNCH::TILES][8];                 // what is added to scores of a quad's rows
    km_item queue[WARPS][QUEUE];
    const km_tile *tiles; // where they begin, and outliers; how many steps: rarely enough needed to stay here
    const unsigned *all_outliers;
    int steps;
    double z_radius; // no point but outliers has a larger |z|
    float midpoint[WARPS][D];
    km_choice choice[8]; // of a quad's Ks
    unsigned asks[8];    // which Ks of a quad send points to the queue: bits 0 and 2, 1 and 3 of each byte
    int queued[WARPS];
};

// Steps of all blocks, and their tiles.
static __device__ __forceinline__ long long km_steps(const km_pass_args &args) {
    return (args.n + STEP_TILES * TILE - 1) / (STEP_TILES * TILE);
}

static __device__ __forceinline__ long long km_tiles_count(const km_pass_args &args) {
    return km_steps(args) * STEP_TILES;
}

// The first tile of a block's step.
static __device__ __forceinline__ long long km_first_tile(int step) {
    return (blockIdx.x + step * (long long)GRID) * STEP_TILES;
}

// The sums of a restart that a block leaves.
static __device__ __forceinline__ unsigned long long *km_sums_of(const km_pass_args &args, int block) {
    return (unsigned long long *)args.workspace + ((long long)blockIdx.y * GRID + block) * COLUMNS;
}
//@ end

//@ def form_load
//@ use bytes_of
static __device__ __forceinline__ void km_put_point(const km_pass_args &args, long long i, const float *x,
                                                    const float *scale, bool beyond, double) {
    km_tile &tile = km_tiles(args)[i / TILE];
    KM_UNROLL_2_FOR (int quarter = 0; quarter < QUARTERS; quarter++)
        KM_UNROLL_FOR (int at = 0; at < 4; at++) {
            const int f = 4 * quarter + at;
            const unsigned bytes = km_bytes_of(f < D && !beyond ? x[f] * scale[f] : 0);
            KM_UNROLL_FOR (int digit = 0; digit < 3; digit++)
                tile.lines[digit * QUARTERS + quarter][(at ^ quarter) % 4][threadIdx.x % 32] =
                    (unsigned char)(bytes >> (2 - digit) * 8);
        }
}

//@ end
//@ def form_prepare
//@ use scale
// How a K's centroids become integers: A = (c - p) 2^e * digits, S in units of a score's 1 / (64 * digits), and what S
// is multiplied by.
struct km_digits {
    double digits;
    int factor;
};

template <typename LAUNCH>
static __device__ __forceinline__ double km_scaled(const km_block<LAUNCH> &shared, const float *c,
                                                   const float *midpoint, int f) {
    return ((double)c[f] - midpoint[f]) * shared.extent[f];
}

template <typename LAUNCH>
static __device__ km_digits km_find_digits(const km_block<LAUNCH> &shared, const float *midpoint,
                                           const float *c, const unsigned char *dominated, int k,
                                           const km_scale &scale) {
    double largest = 0;
    KM_UNROLL_1_FOR (int j = 0; j < k; j++)
        for (int f = threadIdx.x % 32; f < D && !dominated[j]; f += 32)
            largest = fmax(largest, fabs(km_scaled(shared, c + j * D, midpoint, f)));
    largest = km_warp_max(largest);
    const double most = scale.factor / 64;
    const double digits = largest * most > 127 * 256 ? 127 * 256 / largest : most;
    return {digits, most < digits * (1 << 24) && digits > 0 ? (int)(most / digits)
                    : digits > 0                            ? 1 << 24
                                                            : 1};
}

// The largest error of a score S of the K.
template <typename LAUNCH>
static __device__ double km_find_error(const km_block<LAUNCH> &shared, const float *midpoint, const float *c,
                                       const unsigned char *dominated, int k, double digits) {
    const double byte = 128 * sqrt((double)D), number = fmin(shared.z_radius, sqrt((double)D)) * (1 << BITS);
    double largest = 0;
    KM_UNROLL_1_FOR (int j = threadIdx.x % 32; j < k; j += 32) {
        if (dominated[j]) continue;
        double low = 0, all = 0, rest = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double exact = km_scaled(shared, c + j * D, midpoint, f) * digits;
            const int whole = __double2int_rn(exact), digit = (signed char)whole;
            low = fma((double)digit, (double)digit, low);
            all = fma(exact, exact, all);
            rest = fma(exact - whole, exact - whole, rest);
        }
        // A coordinate's own fraction is half a unit at most.
        const double error =
            byte * sqrt(low) * km_power(-8) +
            ((byte + sqrt((double)D)) * sqrt(all) + (number + byte) * sqrt(rest)) * km_power(-16);
        largest = fmax(largest, error);
    }
    return (km_warp_max(largest) + 1) * (1 + km_power(-10));
}

// Writes a quarter of a row of the fragments, the part of the lanes with lane % 4 = t: whole numbers of D features,
// as two digits, and what is added to scores.
template <typename LAUNCH, typename Number>
static __device__ __forceinline__ void km_write_row(km_block<LAUNCH> &shared, int quad, int slot, int t,
                                                    Number number, int start) {
    KM_UNROLL_1_FOR (int i = 0; i < 2 * CHUNKS; i++) {
        unsigned high = 0, low = 0;
        KM_UNROLL_1_FOR (int byte = 0; byte < 4; byte++) {
            const int f = 16 * i + 4 * t + byte, whole = f < D ? number(f) : 0;
            high |= (unsigned)((whole + 128) >> 8 & 0xff) << 8 * byte;
            low |= (unsigned)(whole & 0xff) << 8 * byte;
        }
        uint4 *fragments = &shared.fragments[slot / 2][i / 2][0][quad * 4 + t];
        ((unsigned *)fragments)[i % 2 * 2 + slot % 2] = high;
        ((unsigned *)(fragments + 32))[i % 2 * 2 + slot % 2] = low;
    }
    if (t == 0) ((int *)&shared.starts[slot / 2][quad])[slot % 2] = start;
}

// Of one K, by one warp: fragments, factor, margin, links.
template <typename LAUNCH>
static __device__ void km_prepare(km_block<LAUNCH> &shared, const float *c, int k_index) {
    const km_place place = km_places[k_index];
    const int k = km_ks[k_index];
    float *midpoint = shared.midpoint[threadIdx.x / 32];
    const unsigned char *dominated = shared.dominated + place.row;
    km_find_dominated(shared, c, place, k);
    const km_scale scale = km_find_scale(shared, midpoint, c, dominated, k);
    km_digits to = km_find_digits(shared, midpoint, c, dominated, k, scale);
    const double error = km_find_error(shared, midpoint, c, dominated, k, to.digits);
    double units = 2 * error * to.factor * km_power(-16);
    if (units > MARGIN_MAX - 2) to = {0, 1}, units = 0; // all are candidates
    // Rounded up, 1 as scores are not, 1 for what is no candidate.
    const unsigned margin = ((unsigned)units + 3) * 0x10001;
    const auto write_row = [&](int quad, int slot, int t, int j) {
        const auto number = [&](int f) {
            return j >= 0 ? __double2int_rn(km_scaled(shared, c + j * D, midpoint, f) * to.digits) : 0;
        };
        const auto constant = [&] {
            return (km_constant(c + j * D, midpoint) - scale.lowest) * 64 * to.digits * to.factor;
        };
        km_write_row(shared, quad, slot, t, number, j >= 0 ? (int)(0.08 * BINADE + constant()) : 0);
    };
    km_for_rows(shared, k_index, threadIdx.x % 32, 32, write_row, [&](int quad, int segment, bool linked) {
        if (quad == place.quad) atomicOr(&shared.asks[quad], segment ? 0x0a0a0a0a : 0x05050505);
        for (int s = 0; s < 2; s++) {
            if (s != segment && !linked) continue;
            shared.choice[quad].factor[s] = to.factor;
            shared.choice[quad].margin[s] = margin;
        }
    });
}

// A row of no centroid; a lane without a K has one candidate.
template <typename LAUNCH>
static __device__ __forceinline__ void km_clear_row(km_block<LAUNCH> &shared, int quad, int slot, int t) {
    const bool high = slot == 0 || slot == LAUNCH::FIRST;
    km_write_row(
        shared, quad, slot, t, [](int) { return 0; }, high ? 0x40000000 : 0);
}

template <typename LAUNCH>
static __device__ __forceinline__ void km_clear(km_block<LAUNCH> &shared, const km_pass_args &args) {
    static_assert(sizeof(shared.ring) >= sizeof(shared.centroids), "the ring holds the centroids");
    if (threadIdx.x == 0) {
        const long long steps = km_steps(args), begin = blockIdx.x;
        shared.z_radius = sqrt(km_largest(args)[1]) * (1 + 1e-9);
        shared.steps = (int)(begin < steps ? (steps - 1 - begin) / GRID + 1 : 0);
        shared.tiles = km_tiles(args);
        shared.all_outliers = km_outliers(args);
    }
    if (threadIdx.x < WARPS) shared.queued[threadIdx.x] = 0;
    for (int i = threadIdx.x; i < 8; i += BLOCK) {
        shared.asks[i] = 0;
        shared.choice[i] = {{1, 1}, {0x10001, 0x10001}};
    }
    KM_UNROLL_1_FOR (int i = 0; i < KS && !args.control->stop; i++)
        if (km_places[i].launch == LAUNCH::INDEX)
            for (int at = threadIdx.x; at < km_ks[i] * (D + 1); at += BLOCK)
                km_sums_of(args, blockIdx.x)[km_offsets[i] * (D + 1) + at] = 0;
    __threadfence(); // sums are 0 before any thread adds to them
}

//@ end
//@ def form_resolve
// Decides the points of the warp's queue, each by a team of lanes, and adds them to the block's sums.
template <typename LAUNCH>
static __device__ __noinline__ void km_resolve(const km_block<LAUNCH> &shared, const km_pass_args &args,
                                               int queued) {
    constexpr int OWN = (D + TEAM - 1) / TEAM; // features of a lane
    const int lane = threadIdx.x % 32, own = lane % TEAM;
    __syncwarp();
    KM_UNROLL_1_FOR (int first = lane / TEAM; first - lane / TEAM < queued; first += 32 / TEAM) {
        const km_item item = shared.queue[threadIdx.x / 32][first < queued ? first : 0];
        const int k_index = item.what >> 5, k = km_ks[k_index];
        long long point = (long long)item.tile * TILE + item.what % 32;
        const bool valid = first < queued && point < args.n;
        point = valid ? point : 0;
        const float *c =
            (const float *)args.centroids + ((long long)blockIdx.y * S + km_offsets[k_index]) * D + own;
        const float *from = (const float *)args.points + point * D + own;
        double x[OWN], smallest = 1e308;
        KM_UNROLL_FOR (int i = 0; i < OWN; i++) x[i] = i * TEAM + own < D ? from[i * TEAM] : 0;
        unsigned left = item.candidates;
        int label = 0;
        for (int next = 0;; next++) {
            int j = item.candidates ? __ffs(left) - 1 : next < k ? next : -1;
            left &= left - 1;
            j = valid ? j : -1;
            if (!__any_sync(ALL, j >= 0)) break;
            const float *centroid = c + (j < 0 ? 0 : j) * D;
            double square = 0;
            KM_UNROLL_FOR (int i = 0; i < OWN; i++) {
                const double away = i * TEAM + own < D ? x[i] - (double)centroid[i * TEAM] : 0;
                square = fma(away, away, square);
            }
            for (int width = TEAM / 2; width > 0; width /= 2) square += __shfl_xor_sync(ALL, square, width);
            if (j < 0 || square >= smallest) continue;
            label = j;
            smallest = square;
        }
        if (!valid) continue;
        unsigned long long *to = km_sums_of(args, blockIdx.x) + (km_offsets[k_index] + label) * (D + 1) + own;
        KM_UNROLL_FOR (int i = 0; i < OWN; i++)
            if (i * TEAM + own < D)
                atomicAdd(to + i * TEAM,
                          (unsigned long long)__double2ll_rn(x[i] * shared.lattice_scale[i * TEAM + own]));
        if (own > 0) continue;
        atomicAdd(to + D, 1ull);
        //@ if track_labels
        km_label *kept = (km_label *)args.labels + (blockIdx.y * KS + k_index) * args.labels_stride + point;
        if (*kept == label) continue;
        *kept = (km_label)label;
        atomicAdd(args.changes + blockIdx.y * KS + k_index, 1ull);
        //@ end
    }
    __syncwarp();
}

// Empties the warp's queue.
template <typename LAUNCH>
static __device__ __forceinline__ void km_empty_queue(km_block<LAUNCH> &shared, const km_pass_args &args) {
    km_resolve(shared, args, shared.queued[threadIdx.x / 32]);
    if (threadIdx.x % 32 == 0) shared.queued[threadIdx.x / 32] = 0;
    __syncwarp();
}

//@ end
//@ def form_take
//@ use prmt opaque mma_s8 half2_sub largest
// What a lane knows of its quad's Ks, and where it reads in a tile: not worth registers between two steps.
struct km_lane {
    unsigned link[4];
    km_choice choice;
    //@ if track_labels
    int k_index[2];
    //@ end
    int first;   // of the points whose masks it has
    int quarter; // where it finds feature 4 t of the points that it compares
};

template <typename LAUNCH>
static __device__ __forceinline__ km_lane km_lane_of(const km_block<LAUNCH> &shared) {
    km_lane own;
    const unsigned thread = km_opaque(threadIdx.x), g = thread % 32 / 4, t = thread % 4;
    for (int l = 0; l < 4; l++) own.link[l] = shared.link[l][g];
    own.choice = shared.choice[g];
    //@ if track_labels
    for (int s = 0; s < 2; s++) own.k_index[s] = shared.k_index[s][g];
    //@ end
    // Masks of a lane are of points 8 t to 8 t + 7, or of four of these.
    const unsigned half = PAIRS == 1 ? thread / 32 % 2 * 4 : 0;
    own.first = 8 * t + half;
    own.quarter = t * 128 + t * TILE + (PAIRS == 1 ? g / 2 * 8 + half + g % 2 * 2 : 4 * g);
    return own;
}

// Where in a tile a lane finds the n-th of its warp's columns. Mostly they are equally far apart.
static __device__ __forceinline__ int km_find_column(int thread, int n) {
    const int at = 8 * (thread / 32 + n * WARPS) + thread % 32 / 4, line = at / 4;
    return line * 128 + (at ^ line % QUARTERS) % 4 * TILE + thread % 4 * 8;
}

struct km_columns {
    int at[OWN_TILES];
};

static __device__ __forceinline__ int km_column(const km_columns &columns, int thread, int n) {
    return QUARTERS % 4 == 0 ? km_find_column(thread, 0) + n * WARPS * 8 * TILE : columns.at[n];
}

// Bytes of points that a warp compares: of a digit, 32 features of some columns.
static __device__ __forceinline__ void km_fetch(unsigned (*points)[2], const unsigned char *tile, int digit,
                                                int chunk, const km_lane &own) {
    KM_UNROLL_FOR (int half = 0; half < 2; half++) {
        unsigned rows[4];
        KM_UNROLL_FOR (int j = 0; j < 4; j++) {
            const int line = digit * QUARTERS + 8 * chunk + 4 * half;
            const unsigned char *from = tile + (own.quarter ^ j * TILE) + line * 128;
            rows[j] = PAIRS == 1 ? *(const unsigned short *)from : *(const unsigned *)from;
        }
        KM_UNROLL_FOR (int pair = 0; pair < PAIRS; pair++) {
            const unsigned low = pair ? km_prmt<0x7362>(rows[0], rows[1]) : km_prmt<0x5140>(rows[0], rows[1]);
            const unsigned high =
                pair ? km_prmt<0x7362>(rows[2], rows[3]) : km_prmt<0x5140>(rows[2], rows[3]);
            const unsigned words[2] = {km_prmt<0x5410>(low, high), km_prmt<0x7632>(low, high)};
            KM_UNROLL_FOR (int i = 0; i < 2; i++) points[2 * pair + i][half] = words[i];
        }
    }
}

// The scores of a tile of rows, upper halves, two points in a register.
template <typename LAUNCH>
static __device__ __forceinline__ void km_score(unsigned (*scores)[WIDTH], const km_block<LAUNCH> &shared,
                                                int tile, const unsigned (*points)[2][WIDTH][2],
                                                const km_lane &own) {
    const int lane = (int)km_opaque(threadIdx.x % 32);
    const int2 start = shared.starts[tile][lane / 4];
    const int zeros[4] = {};
    int high[WIDTH][4], low[WIDTH][4];
    KM_UNROLL_FOR (int chunk = 0; chunk < CHUNKS; chunk++) {
        const uint4 first = shared.fragments[tile][chunk][0][lane],
                    second = shared.fragments[tile][chunk][1][lane];
        const unsigned upper[4] = {first.x, first.y, first.z, first.w};
        const unsigned lower[4] = {second.x, second.y, second.z, second.w};
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            km_mma_s8(high[c], upper, points[chunk][0][c], chunk ? high[c] : zeros);
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++)
            km_mma_s8(low[c], upper, points[chunk][1][c], chunk ? low[c] : zeros);
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) km_mma_s8(low[c], lower, points[chunk][0][c], low[c]);
    }
    KM_UNROLL_FOR (int r = 0; r < 2; r++) {
        const int factor = own.choice.factor[2 * tile + r >= LAUNCH::FIRST], added = r ? start.y : start.x;
        KM_UNROLL_FOR (int c = 0; c < WIDTH; c += 2)
            KM_UNROLL_FOR (int column = 0; column < 2; column++) {
                const int at = 2 * r + column;
                scores[r][column * PAIRS + c / 2] =
                    km_prmt<0x7632>((unsigned)((high[c][at] * 256 + low[c][at]) * factor + added),
                                    (unsigned)((high[c + 1][at] * 256 + low[c + 1][at]) * factor + added));
            }
    }
}

// Which centroids are candidates: `candidates` [slot][..], a byte for each of four points.
template <typename LAUNCH>
static __device__ __forceinline__ void km_find_candidates(unsigned (*candidates)[MASKS],
                                                          const km_block<LAUNCH> &shared,
                                                          const unsigned char *tile, const km_lane &own) {
    unsigned points[CHUNKS][2][WIDTH][2];
    unsigned scores[LAUNCH::SLOTS][WIDTH], limits[WIDTH][2];
    KM_UNROLL_FOR (int chunk = 0; chunk < CHUNKS; chunk++)
        KM_UNROLL_FOR (int digit = 0; digit < 2; digit++)
            km_fetch(points[chunk][digit], tile, digit, chunk, own);
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++) km_score(scores + 2 * i, shared, i, points, own);
    KM_UNROLL_FOR (int c = 0; c < WIDTH; c++) { // limits: the largest scores of no candidate
        km_find_largest<LAUNCH>(limits[c], scores, c, own.link);
        KM_UNROLL_FOR (int segment = 0; segment < 2; segment++)
            limits[c][segment] -= own.choice.margin[segment];
    }
    KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++)
        KM_UNROLL_FOR (int m = 0; m < MASKS; m++)
            candidates[s][m] =
                km_prmt<0xfdb9>(km_half2_sub(limits[2 * m][s >= LAUNCH::FIRST], scores[s][2 * m]),
                                km_half2_sub(limits[2 * m + 1][s >= LAUNCH::FIRST], scores[s][2 * m + 1]));
}

//@ if track_labels
// Of a tile, the point of a byte of a lane's masks.
static __device__ __forceinline__ int km_point_of(const km_lane &own, int m, int byte) {
    return own.first + 4 * m + byte;
}

//@ end
//@ use masks
// Ambiguous points and outliers join the queue instead of the sums. Gives whether the
// queue is worth a pause.
template <typename LAUNCH>
static __device__ __forceinline__ bool km_defer(unsigned (*candidates)[MASKS], const unsigned (*sums)[2],
                                                km_block<LAUNCH> &shared, const km_pass_args &args,
                                                const km_lane &own, unsigned outliers, int tile) {
    constexpr unsigned SLOTS_ALL = (1u << LAUNCH::SLOTS) - 1, SLOTS_FIRST = (1u << LAUNCH::FIRST) - 1;
    const int thread = (int)km_opaque(threadIdx.x), lane = thread % 32, warp = thread / 32;
    unsigned several[MASKS][2], pending = 0; // of a byte, bit 2 m and 2 m + 1: the point of masks m, and a K
    KM_UNROLL_FOR (int m = 0; m < MASKS; m++) {
        km_find_several<LAUNCH>(several[m], sums[m], own.link);
        const unsigned bits = outliers >> (own.first + 4 * m) & 15;
        const unsigned marked = ((bits & 1) | (bits & 2) << 7 | (bits & 4) << 14 | (bits & 8) << 21) * 255;
        KM_UNROLL_FOR (int s = 0; s < 2; s++) several[m][s] |= marked;
        pending |= ((several[m][0] & 0x01010101) | (several[m][1] & 0x02020202)) << 2 * m;
    }
    pending &= shared.asks[lane / 4]; // of a K, its first quad of lanes asks
    int queued = shared.queued[warp];
    while (const unsigned askers = __ballot_sync(ALL, pending != 0)) {
        const int bit = pending ? __ffs(pending) - 1 : 0, segment = bit % 2, m = bit / 2 % 2;
        unsigned clusters = 0; // the candidates
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++)
            clusters |= ((m ? candidates[s][MASKS - 1] : candidates[s][0]) >> bit / 8 * 8 & 1) << s;
        clusters = own.link[0] ? clusters
                   : segment   ? (clusters & SLOTS_ALL) >> LAUNCH::FIRST
                               : clusters & SLOTS_FIRST;
        const int point = own.first + 4 * m + bit / 8;
        if (LAUNCH::LEVELS > 0 || outliers >> point & 1) clusters = 0;
        const unsigned what = (unsigned)shared.k_index[segment][lane / 4] << 5 | point;
        if (pending) shared.queue[warp][queued + __popc(askers & ~(ALL << lane))] = {tile, what, clusters};
        pending &= pending - 1;
        queued += __popc(askers);
        if (queued <= QUEUE - 32) continue;
        km_resolve(shared, args, queued);
        queued = 0;
    }
    __syncwarp(); // all have read how many wait
    if (lane == 0) shared.queued[warp] = queued;
    KM_UNROLL_FOR (int m = 0; m < MASKS; m++)
        KM_UNROLL_FOR (int s = 0; s < LAUNCH::SLOTS; s++) candidates[s][m] &= ~several[m][s >= LAUNCH::FIRST];
    return queued >= QUEUE_FULL;
}

// Sums of a warp, negative: of bytes of its own columns, of all points of the block; and how many points it compared
// itself, of each row.
template <typename LAUNCH> struct km_sums {
    int of[LAUNCH::TILES][OWN_TILES][4];
    int counts[LAUNCH::TILES]; // of two rows, the second in the high half
};

// What a warp keeps from step to step.
template <typename LAUNCH> struct km_state {
    km_columns columns;
    km_sums<LAUNCH> sums;
    //@ if track_labels
    int changes[2];
    //@ end
};

// Compares a warp's points of a step; leaves masks of candidates. Gives whether the queue is worth a pause.
template <typename LAUNCH>
static __device__ __forceinline__ bool km_label_step(km_state<LAUNCH> &state, km_block<LAUNCH> &shared,
                                                     const km_pass_args &args, int step, int stage) {
    const unsigned thread = km_opaque(threadIdx.x);
    const int tile = thread / 32 * PAIRS / 2; // of the step
    const km_lane own = km_lane_of(shared);
    unsigned candidates[LAUNCH::SLOTS][MASKS], added[MASKS][2];
    km_find_candidates<LAUNCH>(candidates, shared, (const unsigned char *)&shared.ring[stage][tile], own);
    const bool several = km_has_several<LAUNCH>(added, candidates, own.link);
    const unsigned outliers = shared.outliers[stage][tile];
    bool full = false;
    if (__any_sync(ALL, several) || outliers)
        full = km_defer(candidates, added, shared, args, own, outliers, (int)km_first_tile(step) + tile);
    //@ if track_labels
    km_label_points<LAUNCH>(candidates, args, own, (km_first_tile(step) + tile) * TILE, state.changes);
    //@ end
    KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++) {
        int first = state.sums.counts[i], second = 0;
        KM_UNROLL_FOR (int m = 0; m < MASKS; m++) {
            first = __dp4a((int)candidates[2 * i][m], 0x01010101, first);
            second = __dp4a((int)candidates[2 * i + 1][m], 0x01010101, second);
        }
        state.sums.counts[i] = first + second * 65536;
        uint2 *to = (uint2 *)&shared.masks[step % 2][tile][i][thread % 32];
        if (PAIRS == 1)
            to[thread / 32 % 2] = {candidates[2 * i][0], candidates[2 * i + 1][0]};
        else
            *(uint4 *)to = {candidates[2 * i][0], candidates[2 * i + 1][0], candidates[2 * i][MASKS - 1],
                            candidates[2 * i + 1][MASKS - 1]};
    }
    return full;
}

// Adds a warp's columns of a step.
template <typename LAUNCH>
static __device__ __forceinline__ void
km_add_step(km_state<LAUNCH> &state, const uint4 (*masks)[LAUNCH::TILES][32], const km_tile *tiles) {
    const int thread = (int)km_opaque(threadIdx.x), lane = thread % 32, warp = thread / 32;
    constexpr int EVERY = SUM_TILES / WARPS; // so many columns all warps have
    KM_UNROLL_2_FOR (int tile = 0; tile < STEP_TILES; tile++) {
        unsigned b[OWN_TILES][2];
        KM_UNROLL_FOR (int n = 0; n < OWN_TILES; n++)
            if (n < EVERY || warp < SUM_TILES % WARPS) {
                const unsigned char *from = (const unsigned char *)&tiles[tile];
                const uint2 bytes = *(const uint2 *)(from + km_column(state.columns, thread, n));
                b[n][0] = bytes.x;
                b[n][1] = bytes.y;
            }
        KM_UNROLL_FOR (int i = 0; i < LAUNCH::TILES; i++) {
            const uint4 rows = masks[tile][i][lane];
            const unsigned a[4] = {rows.x, rows.y, rows.z, rows.w};
            KM_UNROLL_FOR (int n = 0; n < OWN_TILES; n++)
                if (n < EVERY || warp < SUM_TILES % WARPS)
                    km_mma_s8(state.sums.of[i][n], a, b[n], state.sums.of[i][n]);
        }
    }
}

// Adds a warp's sums to the block's.
template <typename LAUNCH>
static __device__ __forceinline__ void km_flush(km_sums<LAUNCH> &sums, const km_block<LAUNCH> &shared,
                                                const km_pass_args &args) {
    const int thread = (int)km_opaque(threadIdx.x), lane = thread % 32, warp = thread / 32;
    KM_UNROLL_FOR (int slot = 0; slot < LAUNCH::SLOTS; slot++) {
        const int quad = lane / 4, row = shared.row[quad][slot];
        const int k_index = shared.k_index[slot >= LAUNCH::FIRST && !shared.link[0][quad]][quad];
        const int first = k_index < 0 ? 0 : km_offsets[k_index] - km_places[k_index].row;
        unsigned long long *to = km_sums_of(args, blockIdx.x) + (long long)(first + row) * (D + 1);
        const int both = sums.counts[slot / 2], low = (short)both,
                  count = -(slot % 2 ? (both - low) / 65536 : low);
        if (row >= 0) atomicAdd(to + D, (unsigned long long)count);
        if (slot % 2) sums.counts[slot / 2] = 0;
        KM_UNROLL_FOR (int n = 0; n < OWN_TILES; n++)
            KM_UNROLL_FOR (int column = 0; column < 2; column++) {
                const int at = 8 * (warp + n * WARPS) + lane % 4 * 2 + column, digit = at / (4 * QUARTERS);
                const int f = at % (4 * QUARTERS);
                int &sum = sums.of[slot / 2][n][slot % 2 * 2 + column];
                if (row >= 0 && f < D && digit < 3)
                    atomicAdd(to + f, (unsigned long long)-(long long)sum << 8 * (2 - digit));
                sum = 0;
            }
    }
}

//@ use copy_16 copy_cached copy_commit copy_wait shared_address
// Begins to bring a step's tiles and outliers to shared memory, if there is such a step.
template <typename LAUNCH>
static __device__ __forceinline__ void km_copy_tile(km_block<LAUNCH> &shared, int stage, int step) {
    if (step < shared.steps) {
        const unsigned thread = km_opaque(threadIdx.x);
        const unsigned to = km_shared_address((uint4 *)shared.ring[stage] + thread);
        const uint4 *from = (const uint4 *)(shared.tiles + km_first_tile(step)) + thread;
        KM_UNROLL_FOR (int i = 0; i < PIECES; i += BLOCK)
            if (i + BLOCK <= PIECES || (int)thread < PIECES - i)
                km_copy_16(to + i * (int)sizeof(uint4), from + i);
        if (thread < STEP_TILES)
            km_copy_cached<4>(km_shared_address(shared.outliers[stage] + thread),
                              shared.all_outliers + km_first_tile(step) + thread);
    }
    km_copy_commit();
}

// Between two barriers a block compares points of one step and adds those of the step before.
template <typename LAUNCH>
static __device__ __forceinline__ void km_walk(km_block<LAUNCH> &shared, const km_pass_args &args) {
    km_state<LAUNCH> state;
    KM_UNROLL_FOR (int n = 0; n < OWN_TILES; n++) state.columns.at[n] = km_find_column(threadIdx.x, n);
    state.sums = {};
    //@ if track_labels
    state.changes[0] = state.changes[1] = 0;
    //@ end
    for (int s = 0; s < STAGES - 2; s++) km_copy_tile(shared, s, s);
    bool full = false;
    for (int step = 0, now = 0; step <= shared.steps; step++) { // now: where in the ring
        km_copy_wait<STAGES - 3>();
        if (__syncthreads_or(full)) km_empty_queue(shared, args);
        full = false;
        const int before = now > 0 ? now - 1 : STAGES - 1;
        km_copy_tile(shared, before > 0 ? before - 1 : STAGES - 1, step + STAGES - 2);
        // Half of the warps begin with sums, so that one kind of work fills the gaps of the other.
        KM_UNROLL_1_FOR (int turn = 0; turn < 2; turn++) {
            if ((turn ^ (threadIdx.x >= BLOCK / 2)) == 0) {
                if (step == shared.steps) continue;
                full = km_label_step(state, shared, args, step, now);
            } else if (step > 0) {
                km_add_step(state, shared.masks[(step + 1) % 2], shared.ring[before]);
            }
        }
        now = now + 1 < STAGES ? now + 1 : 0;
        if (step == shared.steps || step % CHUNK_STEPS == CHUNK_STEPS - 1) km_flush(state.sums, shared, args);
    }
    km_empty_queue(shared, args);
    //@ if track_labels
    KM_UNROLL_FOR (int segment = 0; segment < 2; segment++)
        if (state.changes[segment])
            atomicAdd(args.changes + blockIdx.y * KS + shared.k_index[segment][threadIdx.x % 32 / 4],
                      (unsigned long long)state.changes[segment]);
    //@ end
}

//@ end
//@ def form_publish
template <typename LAUNCH>
static __device__ __forceinline__ void km_publish(const km_block<LAUNCH> &, const km_pass_args &) {
    // Sums are there as they were added.
}

//@ end
//@ def form_reduce
//@ use reduce_rows
//@ end
