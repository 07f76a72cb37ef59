// SPDX-License-Identifier: MIT
// The nearest centroid in double, ties to the lowest index: the sums of squares are those of the plan's form, in its
// order.
static __device__ __noinline__ int km_nearest_in_double(const float *x, const float *c, int k) {
    double smallest = 1e308;
    int label = 0;
    KM_UNROLL_1_FOR (int j = 0; j < k; j++) {
        //@ if form_digits
        enum { LANES = 8 }; // each adds every eighth feature, then pairs of them are added
        double parts[LANES] = {};
        KM_UNROLL_1_FOR (int f = 0; f < D; f += LANES)
            KM_UNROLL_FOR (int lane = 0; lane < LANES; lane++) {
                const double away = f + lane < D ? (double)x[f + lane] - (double)c[j * D + f + lane] : 0;
                parts[lane] = fma(away, away, parts[lane]);
            }
        KM_UNROLL_FOR (int width = LANES / 2; width > 0; width /= 2)
            KM_UNROLL_FOR (int lane = 0; lane < width; lane++) parts[lane] += parts[lane + width];
        const double square = parts[0];
        //@ else
        double square = 0;
        KM_UNROLL_2_FOR (int f = 0; f < D; f++) {
            const double away = (double)x[f] - (double)c[j * D + f];
            square = fma(away, away, square);
        }
        //@ end
        label = square < smallest ? j : label;
        smallest = fmin(square, smallest);
    }
    return label;
}
