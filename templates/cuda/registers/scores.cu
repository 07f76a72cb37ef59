// SPDX-License-Identifier: MIT
// The scores of the thread's points against OTHERS centroids beside the pivot.
template <int OTHERS>
static __device__ __forceinline__ void km_scores(km_real (&score)[POINTS][OTHERS], const km_points &points,
                                                 const km_plane *planes) {
    KM_UNROLL_FOR (int j = 0; j < OTHERS; j++) {
        //@ if teamed
        const km_plane &plane = planes[j * TEAM];
        //@ else
        const km_plane &plane = planes[j];
        //@ end
        KM_UNROLL_FOR (int p = 0; p < POINTS; p++) {
            score[p][j] = plane.constant;
            KM_UNROLL_FOR (int f = 0; f < $own_name; f++)
                score[p][j] = fma(points.x[p][f], plane.factors[f], score[p][j]);
        }
    }
    //@ if teamed
    // Both sides add the same two numbers: a team's lanes see the same bits.
    KM_UNROLL_FOR (int width = 1; width < TEAM; width *= 2) {
        KM_UNROLL_FOR (int j = 0; j < OTHERS; j++) {
            KM_UNROLL_FOR (int p = 0; p < POINTS; p++)
                score[p][j] += __shfl_xor_sync(0xffffffff, score[p][j], width);
        }
    }
    //@ end
}
