// SPDX-License-Identifier: MIT
//@ include cuda/registers/scores.cu

// Adds a point to the sums of a cluster where `found`. Predicated by hand: compilers would branch around a long body.
//@ if weighted
static __device__ __forceinline__ void km_add(float *sums, const float *x, float weight, bool found) {
    KM_UNROLL_FOR (int f = 0; f < $lane_d_name; f++)
        asm("{ .reg .pred found; setp.ne.s32 found, %3, 0; @found fma.rn.f32 %0, %1, %2, %0; }"
            : "+f"(sums[f])
            : "f"(weight), "f"(x[f]), "r"((int)found));
    asm("{ .reg .pred found; setp.ne.s32 found, %2, 0; @found add.f32 %0, %0, %1; }"
        : "+f"(sums[$lane_d_name])
        : "f"(weight), "r"((int)found));
}
//@ else
static __device__ __forceinline__ void km_add(float *sums, const float *x, bool found) {
    KM_UNROLL_FOR (int f = 0; f < $lane_d_name; f++)
        asm("{ .reg .pred found; setp.ne.s32 found, %2, 0; @found add.f32 %0, %0, %1; }"
            : "+f"(sums[f])
            : "f"(x[f]), "r"((int)found));
    asm("{ .reg .pred found; setp.ne.s32 found, %1, 0; @found add.f32 %0, %0, 0f3f800000; }" // 1.0
        : "+f"(sums[$lane_d_name])
        : "r"((int)found));
}
//@ end

// Two comparisons, by hand, so that each is one instruction: whether no centroid is `taken` yet, and the score is the
// best one; or is not.
static __device__ __forceinline__ int km_is_best(int score, int best, int taken) {
    int is;
    asm("{ .reg .pred open, is; setp.eq.s32 open, %3, 0; setp.eq.and.s32 is, %1, %2, open; "
        "selp.s32 %0, 1, 0, is; }"
        : "=r"(is)
        : "r"(score), "r"(best), "r"(taken));
    return is;
}

static __device__ __forceinline__ int km_is_other(int score, int best, int taken) {
    int is;
    asm("{ .reg .pred open, is; setp.eq.s32 open, %3, 0; setp.ne.and.s32 is, %1, %2, open; "
        "selp.s32 %0, 1, 0, is; }"
        : "=r"(is)
        : "r"(score), "r"(best), "r"(taken));
    return is;
}

// One K: finds the nearest centroid of each point, and adds the points to the sums.
//
// Scores are compared as integers, because there is an instruction for the maximum of three. Floats that are not
// negative are in the order of their bits, and the bits of negative ones are negative integers. No score is -0, as no
// constant is.
template <int SCORES>
static __device__ __forceinline__ void km_assign(km_points &points, const km_coefficients *coefficients,
                                                 int pivot, float *sums) {
    float score[POINTS][SCORES];
    km_scores<SCORES>(score, points, coefficients);
    KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
        int best = 0; // the pivot's score
        KM_UNROLL_FOR (int j = 0; j < SCORES; j++) best = max(best, __float_as_int(score[p][j]));
        //@ if track_labels
        points.label[p] = pivot;
        //@ end
        int taken = 0; // an earlier centroid has the best score: ties go to the lowest index
        KM_UNROLL_FOR (int j = 0; j < SCORES; j++) {
            const int found = km_is_best(__float_as_int(score[p][j]), best, taken);
            taken = j == 0 ? found : !km_is_other(__float_as_int(score[p][j]), best, taken);
            //@ if weighted
            km_add(sums + j * ($lane_d_name + 1), points.x[p], points.weight[p], found);
            //@ else
            km_add(sums + j * ($lane_d_name + 1), points.x[p], found);
            //@ end
            //@ if track_labels
            points.label[p] = found ? j + (j >= pivot) : points.label[p];
            //@ end
        }
        //@ if weighted
        if (!taken) sums[SCORES * ($lane_d_name + 1)] += points.weight[p];
        //@ end
    }
}
