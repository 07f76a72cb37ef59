// SPDX-License-Identifier: MIT
// Elkan's lower bounds: one for each point and centroid, a half. A listed point asks those of its candidates, and only
// candidates that it leaves open for some point of a tile are scored. A bound is kept as it would stand if its centroid
// had not moved since the run has bounds, l + path in units of args.lower_unit, so it holds until it is written again,
// whatever label the point has.

enum { BOUNDS_WORDS = BOUNDS_CLUSTERS_MAX / 32 / 32 }; // of a lane: candidates have a bit each

static __device__ __forceinline__ unsigned short *bounds_lower_of(const bounds_run &run, int point) {
    return run.lower + (long long)point * run.k;
}

static __device__ __forceinline__ float bounds_lower_value(const bounds_run &run, unsigned short half) {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(half));
    return value * run.lower_unmade;
}

// Nothing is known of the points of a tile.
static __device__ __forceinline__ void bounds_forget(const bounds_run &run, int point) {
    for (int p = 0; p < BOUNDS_TILE; p++) {
        unsigned short *lower = bounds_lower_of(run, __shfl_sync(0xffffffffu, point, p));
        for (int j = threadIdx.x % 32; j < run.k; j += 32) lower[j] = 0;
    }
    __syncwarp();
}

// What lower bounds leave of a tile.
struct bounds_left {
    unsigned
        words[BOUNDS_WORDS]; // of lane l: candidates that are open for some point, 32 from 32 (l + 32 w) on
    bool is_open;            // the lane's point has some of them
    float all, rest;         // no candidate is nearer to the lane's point; none that is not open
};

static __device__ __forceinline__ float bounds_path_most(const km_bounds_centroid *own) {
    return __double2float_ru(own->path) * (1.0f + 4 * BOUNDS_UNIT);
}

// `most`: the lane's point is not farther from its own centroid. Of a new run all candidates are open.
static __device__ __forceinline__ bounds_left bounds_ask(const bounds_run &run,
                                                         const unsigned short *candidates, const float *pairs,
                                                         int count, int point, float most, bool is_new) {
    const int lane = threadIdx.x % 32;
    const unsigned short *lower = bounds_lower_of(run, point);
    bounds_left left = {{}, false, 1e30f, 1e30f};
    if (is_new) {
        bounds_forget(run, point);
        left.is_open = true;
#pragma unroll
        for (int w = 0; w < BOUNDS_WORDS; w++) {
            const int behind = count - 32 * (lane + 32 * w);
            left.words[w] = behind <= 0 ? 0u : behind >= 32 ? ~0u : (1u << behind) - 1;
        }
        return left;
    }
    for (int first = 0; first < count; first += 32) {
        const int at = min(first + lane, count - 1), mine = candidates[at];
        const float my_length = 2.0f * pairs[at], my_path = bounds_path_most(run.table + mine);
        unsigned word = 0;
#pragma unroll 4
        for (int c = 0; c < 32; c++) {
            if (first + c >= count) break;
            const int j = __shfl_sync(0xffffffffu, mine, c);
            const float bound = __fsub_rd(bounds_lower_value(run, lower[j]),
                                          __shfl_sync(0xffffffffu, my_path, c)),
                        away = __fsub_rd(__shfl_sync(0xffffffffu, my_length, c), most),
                        least = fmaxf(bound, away);
            const bool is_open = !(most < least);
            left.is_open |= is_open;
            left.all = fminf(left.all, least);
            if (__any_sync(0xffffffffu, is_open))
                word |= 1u << c;
            else
                left.rest = fminf(left.rest, least);
        }
#pragma unroll
        for (int w = 0; w < BOUNDS_WORDS; w++)
            if (first / 1024 == w && first / 32 % 32 == lane) left.words[w] = word;
    }
    return left;
}

// The bound that follows from a score, rounded down. `square`: of the distance to the point's own centroid.
static __device__ __forceinline__ unsigned short bounds_lower(const bounds_run &run, float square,
                                                              float score, float scale, float path) {
    const float least = square * (1.0f - 2 * BOUNDS_ERROR) - 2.0f * (score + BOUNDS_KEY_ERROR * fabsf(score)),
                bound = sqrtf(fmaxf(least, 0.0f)) * (1.0f - 16 * BOUNDS_UNIT) / scale;
    unsigned short half;
    asm("cvt.rz.f16.f32 %0, %1;"
        : "=h"(half)
        : "f"(fminf(__fadd_rd(bound, path) * run.lower_unit, 65504.0f)));
    return half;
}
