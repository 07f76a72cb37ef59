// SPDX-License-Identifier: MIT
// The second half of a pass: points of the listed tiles. A warp loads a tile's points once, and scores them
// for each K that it is open for.

// The nearest of some candidates in double; ties go to the lowest index.
static __device__ __forceinline__ int tiles_resolve(const float *point, const float *rows, tiles_mask list) {
    double least = 1.7976931348623157e308;
    int nearest = tiles_lowest(list);
    for (; list; list &= list - 1) {
        const int j = tiles_lowest(list);
        double square = 0.0;
#pragma unroll 1
        for (int f = 0; f < D; f++) {
            const double apart = (double)point[f * TILES_POINTS] - (double)rows[j * (D + 1) + f];
            square = fma(apart, apart, square);
        }
        if (square < least) {
            least = square;
            nearest = j;
        }
    }
    return nearest;
}

// Lanes that a row of sums takes: where two rows fit into a warp, both are added at a time.
constexpr int TILES_LANES = D < 16 ? 16 : 32;

// A tile's points: four of each lane. What a lane has of feature f, lane f has, and where rows take half a
// warp lane 16 + f.
struct tiles_points {
    float x[D][4];
    float midpoint[D], unit[D];    // of the box; the powers of two by which partial sums become integers
    const float *at;               // of the lane's first point
    int here;                      // how many points the tile has
    unsigned valid;                // a bit for each of the lane's points
    float square;                  // R
    double own_unit, own_midpoint; // lane f: what a unit is, and the midpoint, in integers of the sums
    long long total;               // lane f: the tile's sum; lane D: its points
};

static __device__ __forceinline__ void tiles_load(tiles_points &tile, const km_tiles_args &args,
                                                  long long number) {
    const int lane = threadIdx.x % 32, own = lane % TILES_LANES;
    const long long left = args.n - number * TILES_POINTS;
    const float *box =
        args.boxes + number / TILES_OF_SUPER * (TILES_BOX(D) * TILES_OF_SUPER) + number % TILES_OF_SUPER;
    tile.at = args.points + number * (D * TILES_POINTS) + 4 * lane;
    tile.here = (int)min(left, (long long)TILES_POINTS);
    tile.valid = 15u >> (4 - min(max(tile.here - 4 * lane, 0), 4));
    tile.square = box[2 * D * TILES_OF_SUPER];
    const double scale = args.scale[min(own, D - 1)];
    const long long *sums = args.prefix + number * TILES_PITCH(D) + min(own, int(D));
    tile.total = sums[TILES_PITCH(D)] - sums[0];
    tile.own_unit = tile.own_midpoint = 0.0;
#pragma unroll
    for (int f = 0; f < D; f++) {
        const float4 x = *(const float4 *)(tile.at + f * TILES_POINTS);
        const float half = box[(D + f) * TILES_OF_SUPER];
        tile.midpoint[f] = box[f * TILES_OF_SUPER];
        tile.x[f][0] = x.x;
        tile.x[f][1] = x.y;
        tile.x[f][2] = x.z;
        tile.x[f][3] = x.w;
        // Four offsets, each at most the half width, which is less than 2^(exponent - 126), become less than
        // 2^22 units.
        const int exponent = max(__float_as_int(half) >> 23, 20), power = min(20 + 126 - exponent, 126);
        tile.unit[f] = __int_as_float((127 + power) << 23);
        if (own == f) {
            tile.own_unit = scale * __hiloint2double((1023 - power) << 20, 0);
            tile.own_midpoint = scale * (double)tile.midpoint[f];
        }
    }
}

// The sum of the lanes' points that are one candidate's, of which there are `count`: of lane f that of feature f,
// of lane D the count. What the points of a lane are away from the midpoint is rounded to a multiple of a unit that
// depends on the tile alone, and added as an integer: a number whose exponent is known stands in its low bits.
static __device__ __forceinline__ long long tiles_sum(const tiles_points &tile, unsigned bits, int count) {
    constexpr float ROUNDER = 12582912.0f; // 1.5 x 2^23
    const int at = threadIdx.x % TILES_LANES;
    float mine[4];
    int own = 0;
#pragma unroll
    for (int c = 0; c < 4; c++) mine[c] = bits >> c & 1 ? 1.0f : 0.0f;
    const float of_lane = (mine[0] + mine[1]) + (mine[2] + mine[3]);
#pragma unroll
    for (int f = 0; f < D; f++) {
        float sum = tile.x[f][0] * mine[0];
#pragma unroll
        for (int c = 1; c < 4; c++) sum = fmaf(tile.x[f][c], mine[c], sum);
        sum = fmaf(-of_lane, tile.midpoint[f], sum);
        const int units =
            tiles_warp_sum(__float_as_int(fmaf(sum, tile.unit[f], ROUNDER)) - __float_as_int(ROUNDER));
        if (at == f) own = units;
    }
    return at == D ? count
                   : __double2ll_rn(fma((double)own, tile.own_unit, (double)count * tile.own_midpoint));
}

// One tile for one K, with two candidates: a hyperplane between them. The lower one takes what the other leaves.
static __device__ __forceinline__ void
tiles_split_in_two(const tiles_shared &shared, const tiles_points &tile, int first_row, tiles_mask list) {
    const float *rows = shared.rows + first_row * (D + 1);
    const int lane = threadIdx.x % 32, one = tiles_lowest(list), other = tiles_lowest(list & (list - 1));
    const float *row = rows + one * (D + 1), *row2 = rows + other * (D + 1);
    const float margin = TILES_MARGIN * (2.0f * fmaxf(-row[D], -row2[D]) + tile.square);
    float score[4];
    unsigned others = 0, ambiguous = 0; // a bit for each of the lane's points
#pragma unroll
    for (int c = 0; c < 4; c++) score[c] = row2[D] - row[D];
#pragma unroll
    for (int f = 0; f < D; f++) {
        const float apart = row2[f] - row[f];
#pragma unroll
        for (int c = 0; c < 4; c++) score[c] = fmaf(tile.x[f][c], apart, score[c]);
    }
#pragma unroll
    for (int c = 0; c < 4; c++) {
        others |= score[c] > 0.0f ? 1u << c : 0;
        ambiguous |= fabsf(score[c]) > margin ? 0 : 1u << c;
    }
    for (ambiguous &= tile.valid; ambiguous; ambiguous &= ambiguous - 1) {
        const int c = tiles_lowest(ambiguous);
        others = (others & ~(1u << c)) | (tiles_resolve(tile.at + c, rows, list) == other ? 1u << c : 0);
    }
    others &= tile.valid;
    __syncwarp();
    const int count = tiles_warp_sum(__popc(others));
    if (count == 0 || count == tile.here) {
        if (lane <= D) tiles_add(shared, first_row + (count ? other : one), lane, tile.total);
        return;
    }
    const long long sum = tiles_sum(tile, others, count);
    if (TILES_LANES == 16) {
        const bool is_lower = lane < 16;
        if (lane % 16 <= D)
            tiles_add(shared, first_row + (is_lower ? one : other), lane % 16,
                      is_lower ? tile.total - sum : sum);
    } else if (lane <= D) {
        tiles_add(shared, first_row + one, lane, tile.total - sum);
        tiles_add(shared, first_row + other, lane, sum);
    }
}

// With more candidates. The lowest one that has points takes what the others leave.
static __device__ __forceinline__ void tiles_split(const tiles_shared &shared, const tiles_points &tile,
                                                   int first_row, tiles_mask list) {
    const float *rows = shared.rows + first_row * (D + 1);
    const int lane = threadIdx.x % 32;
    float best[4], second[4], far = 0.0f;
    unsigned owners = 0, ambiguous = 0; // a byte, a bit for each of the lane's points
    int owner[4], rest = -1;
#pragma unroll
    for (int c = 0; c < 4; c++) {
        best[c] = second[c] = -3.4e38f;
        owner[c] = tiles_lowest(list);
    }
    for (tiles_mask left = list; left; left &= left - 1) {
        const int j = tiles_lowest(left);
        const float *row = rows + j * (D + 1);
        float score[4];
        far = fmaxf(far, -row[D]);
#pragma unroll
        for (int c = 0; c < 4; c++) score[c] = row[D];
#pragma unroll
        for (int f = 0; f < D; f++) {
            const float value = row[f];
#pragma unroll
            for (int c = 0; c < 4; c++) score[c] = fmaf(tile.x[f][c], value, score[c]);
        }
#pragma unroll
        for (int c = 0; c < 4; c++) {
            if (score[c] > best[c]) owner[c] = j;
            second[c] = fmaxf(second[c], fminf(best[c], score[c]));
            best[c] = fmaxf(best[c], score[c]);
        }
    }
    const float margin = TILES_MARGIN * (2.0f * far + tile.square);
#pragma unroll
    for (int c = 0; c < 4; c++) {
        owners |= (unsigned)owner[c] << (8 * c);
        ambiguous |= best[c] - second[c] > margin ? 0 : 1u << c;
    }
    for (ambiguous &= tile.valid; ambiguous; ambiguous &= ambiguous - 1) {
        const int c = tiles_lowest(ambiguous);
        owners = (owners & ~(255u << (8 * c))) | (unsigned)tiles_resolve(tile.at + c, rows, list) << (8 * c);
    }
    __syncwarp();
    long long total = tile.total;
    for (tiles_mask left = list; left; left &= left - 1) {
        const int j = tiles_lowest(left);
        unsigned mine = 0;
#pragma unroll
        for (int c = 0; c < 4; c++) mine |= (owners >> (8 * c) & 255) == (unsigned)j ? 1u << c : 0;
        mine &= tile.valid;
        const int count = tiles_warp_sum(__popc(mine));
        if (!count) continue;
        if (rest < 0) {
            rest = j;
            continue;
        }
        const long long sum = tiles_sum(tile, mine, count);
        total -= sum;
        if (lane <= D) tiles_add(shared, first_row + j, lane, sum);
    }
    if (lane <= D) tiles_add(shared, first_row + rest, lane, total);
}

// Asks for what a tile takes, a cache line for each lane, so that it is in the L2 cache when its turn comes.
static __device__ __forceinline__ void tiles_fetch(const km_tiles_args &args, long long number,
                                                   const tiles_mask *candidates) {
    enum { LINE = 128, POINTS = D * TILES_POINTS * 4 / LINE, BOX = POINTS + TILES_BOX(D), ALL = BOX + 2 };
    const float *points = args.points + number * (D * TILES_POINTS),
                *box = args.boxes + number / TILES_OF_SUPER * (TILES_BOX(D) * TILES_OF_SUPER) +
                       number % TILES_OF_SUPER;
#pragma unroll
    for (int first = 0; first < ALL; first += 32) {
        const int i = first + threadIdx.x % 32;
        const void *line = candidates;
        if (i < POINTS)
            line = points + i * (LINE / 4);
        else if (i < BOX)
            line = box + (i - POINTS) * TILES_OF_SUPER;
        else if (i == BOX)
            line = args.prefix + number * TILES_PITCH(D);
        if (i < ALL) asm volatile("prefetch.global.L2 [%0];" ::"l"(__cvta_generic_to_global(line)));
    }
}

extern "C" __global__ void __launch_bounds__(TILES_POINTS_THREADS(int(D)), 1)
    km_tiles_points(const __grid_constant__ km_tiles_args args) {
    enum { WARPS = TILES_POINTS_THREADS(int(D)) / 32 };
    extern __shared__ __align__(16) char tiles_memory[];
    if (args.control->stop) return;
    const int lane = threadIdx.x % 32, restart = blockIdx.y, step = gridDim.x * WARPS;
    const int *list = args.list + restart * args.tiles, listed = args.listed[restart];
    if (blockIdx.x * WARPS >= listed) return;
    const tiles_shared shared = tiles_begin(args, tiles_memory, restart);
    const tiles_mask *all_candidates =
        (const tiles_mask *)args.candidates + restart * args.tiles * args.ks_count;
    int i = blockIdx.x * WARPS + threadIdx.x / 32;
    int number = i < listed ? list[i] : 0, next = i + step < listed ? list[i + step] : number;
    for (; i < listed; i += step) {
        const long long at = restart * args.tiles + number;
        const tiles_mask *candidates = all_candidates + (long long)number * args.ks_count;
        tiles_points tile;
        unsigned long long ks = args.open[at];
        tiles_load(tile, args, number);
        number = next;
        if (i + step < listed) tiles_fetch(args, next, all_candidates + (long long)next * args.ks_count);
        if (i + 2 * step < listed) next = list[i + 2 * step];
        __syncwarp(); // all lanes have read it
        if (lane == 0) args.open[at] = 0;
        for (; ks; ks &= ks - 1) {
            const int q = tiles_lowest(ks);
            const tiles_mask mask = candidates[q];
            const int first_row = args.offsets[q];
            if (tiles_count(mask) == 2)
                tiles_split_in_two(shared, tile, first_row, mask);
            else
                tiles_split(shared, tile, first_row, mask);
        }
    }
    tiles_end(args, shared, restart);
}

// The slots that the dense design has in this pass.
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_dense(const __grid_constant__ km_tiles_args args) {
    const int q = threadIdx.x, slot = blockIdx.y * args.ks_count + q;
    if (args.control->stop || q >= args.ks_count) return;
    args.dense[slot] = args.active[slot] && !(args.served >> q & 1);
}

// Integers become totals; what the next pass adds to is zero.
extern "C" __global__ void __launch_bounds__(TILES_THREADS)
    km_tiles_totals(const __grid_constant__ km_tiles_args args) {
    const int restart = blockIdx.y, i = blockIdx.x * TILES_THREADS + threadIdx.x;
    if (args.control->stop) return;
    if (i == 0) args.listed[restart] = args.items_count[restart] = 0;
    if (i >= args.rows * (D + 1)) return;
    const int row = i / (D + 1), f = i % (D + 1);
    int q = args.ks_count - 1;
    while (args.offsets[q] > row) q--;
    if (!tiles_takes(args, restart, q)) {
        if (row == args.offsets[q] && f == 0 && args.active[restart * args.ks_count + q])
            args.counts[(restart * (long long)args.ks_count + q) * TILES_COUNTS + TILES_DENSE]++;
        return;
    }
    const long long at = (long long)restart * args.rows * (D + 1) + i, sum = (long long)args.sums[at];
    args.sums[at] = 0;
    args.totals[at] = f < D ? (double)sum / args.scale[f] : (double)sum;
}
