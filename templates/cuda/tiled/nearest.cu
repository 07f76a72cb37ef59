// SPDX-License-Identifier: MIT
// The nearest centroid so far, of a point that is resolved.
struct km_nearest {
    double distance;
    int j;
};

__device__ __forceinline__ km_nearest km_nearer(const km_nearest &a, const km_nearest &b) {
    return b.distance < a.distance || (b.distance == a.distance && b.j < a.j) ? b : a;
}

// The squared distance of a point and a centroid.
static __device__ double km_distance(const km_real *x, const km_real *c) {
    constexpr int NUMBERS = PIECE_BYTES / sizeof(km_real);
    double square = 0;
#pragma unroll 8
    for (int f = 0; f < D; f += NUMBERS) {
        const km_piece a = *(const km_piece *)(x + f), b = *(const km_piece *)(c + f);
        KM_UNROLL_FOR (int i = 0; i < NUMBERS; i++) {
            const double t = (double)a.at[i] - (double)b.at[i];
            square = fma(t, t, square);
        }
    }
    return square;
}
