// SPDX-License-Identifier: MIT
//@ need row_numbers thread_points blocks_per_sm
// Labels where points have few features: a thread has whole points in registers, and meets the centroids of a slot one
// by one, which all lanes read from shared memory at the same address. Scores are float, whatever the type. Of a tile
// of TILE centroids only the largest score is kept; the scores of the best tile are computed again, and show the
// centroid. A warp resolves its ambiguous points at once: the distances in double, a lane each 32nd centroid.

enum {
    BLOCK = 128,
    POINTS = $thread_points,    // points of a thread
    TILE = $tile,               // centroids of which the best score is kept
    ROW_NUMBERS = $row_numbers, // of a centroid: its features, -|c|^2 / 2, padding
    TILES = (K_MAX + TILE - 1) / TILE,
    ROW_VECTOR = ROW_NUMBERS < 4 ? ROW_NUMBERS : 4, // numbers of one load
    TILE_PITCH =
        TILE * ROW_NUMBERS + 4 // from tile to tile: lanes that read different ones have different banks
};
constexpr float FAR = 3e38f; // |c|^2 / 2 of padding

struct __align__(4 * ROW_VECTOR) km_row_vector {
    float at[ROW_VECTOR];
};

// Shared memory of a block: the centroids of a slot, and the largest |c|.
struct __align__(16) km_block {
    float table[TILES][TILE_PITCH];
    unsigned norm;
};

//@ include cuda/tiled/nearest.cu

// Writes the table of a slot.
__device__ __forceinline__ void km_begin_slot(km_block &block, const km_real *centroids, int k) {
    if (threadIdx.x == 0) block.norm = 0;
    __syncthreads();
    for (int j = threadIdx.x; j < TILES * TILE; j += BLOCK) {
        float *row = &block.table[j / TILE][j % TILE * ROW_NUMBERS];
        double square = 0;
        KM_UNROLL_FOR (int f = 0; f < D; f++) {
            const km_real value = j < k ? centroids[j * D + f] : (km_real)0;
            square = fma((double)value, (double)value, square);
            row[f] = (float)value;
        }
        row[D] = j < k ? (float)(square / -2) : -FAR;
        if (j < k) atomicMax(&block.norm, __float_as_uint((float)(sqrt(square) * 1.000001)));
    }
    __syncthreads();
}

__device__ __forceinline__ float km_score(const float (&x)[D], const float *table) {
    float row[ROW_NUMBERS];
    KM_UNROLL_FOR (int v = 0; v < D + 1; v += ROW_VECTOR) {
        const km_row_vector numbers = *(const km_row_vector *)(table + v);
        KM_UNROLL_FOR (int i = 0; i < ROW_VECTOR; i++) row[v + i] = numbers.at[i];
    }
    float score = row[D];
    KM_UNROLL_FOR (int f = 0; f < D; f++) score = fmaf(x[f], row[f], score);
    return score;
}

// How far below the best score that of the nearest centroid may be. A score is off by u ((2 D + 3) |x| |c| + (D + 1)
// |score|) at most, u = 2^-24: rounding of a point's and a centroid's numbers, of the constant and of each addition,
// where |c|^2 / 2 <= |x| |c| + |score|. A centroid that may be the nearest is no farther from the point than the best
// one is. The factors leave room for the rounding of these lines; what is added, for numbers below the smallest normal.
__device__ __forceinline__ float km_margin(const float (&x)[D], float best, float norm_max) {
    float square = 0;
    KM_UNROLL_FOR (int f = 0; f < D; f++) square = fmaf(x[f], x[f], square);
    const float norm = sqrtf(square), far = 1.01f * (norm + sqrtf(fmaxf(square - 2 * best, 0)));
    return 1.3e-7f * ((2 * D + 4) * norm * fminf(far, norm_max) + (D + 1) * fabsf(best)) + 1e-35f;
}

// The nearest centroid of a point, by the lanes of a warp together.
static __device__ __noinline__ int km_resolve(const km_real *x, const km_real *centroids, int k) {
    km_nearest nearest = {1e308, K_MAX};
    for (int j = threadIdx.x % 32; j < k; j += 32)
        nearest = km_nearer(nearest, {km_distance(x, centroids + j * D), j});
    for (int width = 16; width > 0; width /= 2)
        nearest = km_nearer(nearest, {__shfl_xor_sync(0xffffffffu, nearest.distance, width),
                                      __shfl_xor_sync(0xffffffffu, nearest.j, width)});
    return nearest.j;
}

// Labels of a slot, a block of points each.
extern "C" __global__ void __launch_bounds__(BLOCK, $blocks_per_sm)
    km_tiled_labels(const __grid_constant__ km_pass_args args) {
    extern __shared__ __align__(16) char km_shared[];
    km_block &block = *(km_block *)km_shared;
    const int slot = blockIdx.y;
    if (args.control->stop || !args.active[slot]) return;
    const km_workspace workspace = km_workspace_of(args);
    const int k = km_ks[slot % KS];
    const km_real *centroids =
        (const km_real *)args.centroids + ((long long)(slot / KS) * S + km_offsets[slot % KS]) * D;
    km_label *labels = workspace.labels + slot * workspace.stride;
    km_begin_slot(block, centroids, k);
    const int tiles = (k + TILE - 1) / TILE;
    for (long long first = blockIdx.x * (long long)(BLOCK * POINTS); first < args.n;
         first += gridDim.x * (long long)(BLOCK * POINTS)) {
        float x[POINTS][D], best[POINTS], second[POINTS];
        int tile[POINTS];
        KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
            const long long i = first + p * BLOCK + threadIdx.x, at = i < args.n ? i : args.n - 1;
            constexpr int NUMBERS = PIECE_BYTES / sizeof(km_real);
            KM_UNROLL_FOR (int f = 0; f < D; f += NUMBERS) {
                const km_piece piece = *(const km_piece *)((const km_real *)args.points + at * D + f);
                KM_UNROLL_FOR (int v = 0; v < NUMBERS; v++) x[p][f + v] = (float)piece.at[v];
            }
            best[p] = second[p] = -FAR;
            tile[p] = 0;
        }
#pragma unroll 1
        for (int t = 0; t < tiles; t++) {
            float most[POINTS];
            KM_UNROLL_FOR (int c = 0; c < TILE; c++)
                KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
                    const float score = km_score(x[p], &block.table[t][c * ROW_NUMBERS]);
                    most[p] = c ? fmaxf(most[p], score) : score;
                }
            KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
                second[p] = fmaxf(second[p], fminf(best[p], most[p]));
                tile[p] = most[p] > best[p] ? t : tile[p];
                best[p] = fmaxf(best[p], most[p]);
            }
        }
        KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
            const long long i = first + p * BLOCK + threadIdx.x;
            const float limit = best[p] - km_margin(x[p], best[p], __uint_as_float(block.norm));
            unsigned candidates = 0;
            KM_UNROLL_FOR (int c = 0; c < TILE; c++)
                candidates |= km_score(x[p], &block.table[tile[p]][c * ROW_NUMBERS]) < limit ? 0 : 1u << c;
            int label = tile[p] * TILE + __ffs(candidates) - 1;
            unsigned ambiguous = __ballot_sync(
                0xffffffffu, i < args.n && (!(second[p] < limit) || (candidates & (candidates - 1))));
            while (ambiguous) {
                const int lane = __ffs(ambiguous) - 1;
                const long long at = first + p * BLOCK + threadIdx.x / 32 * 32 + lane;
                const int nearest = km_resolve((const km_real *)args.points + at * D, centroids, k);
                if ((int)threadIdx.x % 32 == lane) label = nearest;
                ambiguous &= ambiguous - 1;
            }
            if (i < args.n) labels[i] = (km_label)label;
        }
    }
}
