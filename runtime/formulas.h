// SPDX-License-Identifier: MIT
// Formulas that criteria of fits and figures of subsets of the columns share.
#ifndef KM_RUNTIME_FORMULAS_H
#define KM_RUNTIME_FORMULAS_H
#include <math.h>

// (B / (K - 1)) / (W / (N - K)) of K >= 2 clusters. Calinski and Harabasz, "A dendrite method for cluster analysis",
// 1974. W = 0 gives 1, as in scikit-learn; NaN where N is not above K.
static inline double km_calinski_harabasz(double between, double within, double k, double n) {
    if (!(n > k)) return NAN;
    if (within <= 0) return 1;
    return between / (k - 1) / (within / (n - k));
}

#endif
