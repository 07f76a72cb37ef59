// SPDX-License-Identifier: MIT
// The scores of the thread's points against the centroids of a K but its pivot; there are SCORES of them.
template <int SCORES>
static __device__ __forceinline__ void km_scores(km_real (&score)[POINTS][SCORES], const km_points &points,
                                                 const km_coefficients *coefficients) {
    KM_UNROLL_FOR (int j = 0; j < SCORES; j++) {
        //@ if lanes_share_point
        const km_coefficients &of_j = coefficients[j * LANES_PER_POINT];
        //@ else
        const km_coefficients &of_j = coefficients[j];
        //@ end
        KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
            score[p][j] = of_j.constant;
            KM_UNROLL_FOR (int f = 0; f < $lane_d_name; f++)
                score[p][j] = fma(points.x[p][f], of_j.factors[f], score[p][j]);
        }
    }
    //@ if lanes_share_point
    // Both sides add the same two numbers, so all lanes of a point get the same bits.
    KM_UNROLL_FOR (int width = 1; width < LANES_PER_POINT; width *= 2) {
        KM_UNROLL_FOR (int j = 0; j < SCORES; j++) {
            KM_UNROLL_FOR (int p = 0; p < POINTS; p++)
                score[p][j] += __shfl_xor_sync(0xffffffff, score[p][j], width);
        }
    }
    //@ end
}
