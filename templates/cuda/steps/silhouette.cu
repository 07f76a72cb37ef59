// SPDX-License-Identifier: MIT
// Silhouette: of all points and models in one read, in the squared Euclidean form. The
// mean squared distance of a point x to the points of cluster j is |x - m_j|^2 + v_j, m_j their mean and v_j their mean
// squared distance from it; to the others of its own cluster, of n_j points, n_j / (n_j - 1) times that.
//@ if not float64
// Distances are float, as in the finishing pass: points whose label they leave open are resolved in double. A thread's
// silhouettes are added in double.
//@ end

// What is known of a point after some clusters.
struct silhouette_point {
    km_real nearest, second; // squared distances to centroids
    km_real factor;          // n_j / (n_j - 1) of the own cluster; 0: it has one point
    km_real own, other;      // mean squared distances to the own cluster and to the nearest other one
    int label;
};

// Of each cluster: v_j and n_j / (n_j - 1).
template <typename Real> struct alignas(2 * sizeof(Real)) silhouette_terms { Real spread, factor; };

__device__ __forceinline__ silhouette_point silhouette_far() {
    const km_real infinity = (km_real)__int_as_float(0x7f800000);
    return {infinity, infinity, (km_real)0, infinity, infinity, 0};
}

//@ if not float64
// Whether float32 leaves the label open, as in finish_decide.
__device__ __forceinline__ bool silhouette_is_open(const silhouette_point &found) {
    const float apart = 1.0f + (D + 4) * 2.384185791015625e-7f, lost = 1e-37f, largest = 1e37f;
    return !(fma(found.nearest, apart, lost) < found.second && found.second < largest);
}

//@ end
enum { SILHOUETTE_BOTH, SILHOUETTE_LABELS, SILHOUETTE_MEANS };

// Takes cluster j, whose centroid (or mean) lies so far from the point. STEP both: the centroid is the mean; else
// labels come first, by the centroids, then the means.
template <int STEP>
__device__ __forceinline__ void silhouette_take(silhouette_point &point, km_real square, int j,
                                                const silhouette_terms<km_real> &terms) {
    const km_real infinity = (km_real)__int_as_float(0x7f800000);
    const bool nearer = square < point.nearest, is_own = STEP == SILHOUETTE_MEANS ? j == point.label : nearer;
    if (STEP != SILHOUETTE_MEANS) {
        point.second = fmin(point.second, fmax(point.nearest, square));
        point.nearest = fmin(point.nearest, square);
    }
    if (STEP == SILHOUETTE_LABELS) point.label = nearer ? j : point.label;
    if (STEP == SILHOUETTE_LABELS) return;
    const km_real mean = square + terms.spread;
    point.other = fmin(point.other, !is_own ? mean : STEP == SILHOUETTE_BOTH ? point.own : infinity);
    point.own = is_own ? mean : point.own;
    point.factor = is_own ? terms.factor : point.factor;
}

// (b - a) / max(a, b); 0 in a cluster of one point, and where both are 0.
template <typename Real> __device__ __forceinline__ Real silhouette_value(Real own, Real other, Real factor) {
    const Real inside = fma(own, factor, (Real)0), larger = inside > other ? inside : other;
    return factor > (Real)0 && larger > (Real)0 ? (other - inside) / larger : (Real)0;
}

// The silhouette of a point whose label is known, by distances in double.
__device__ __forceinline__ double silhouette_of_label(const km_real *x, const double *means,
                                                      const silhouette_terms<double> *terms, int k,
                                                      int label) {
    double own = 0.0, other = __longlong_as_double(0x7ff0000000000000ll);
#pragma unroll 1
    for (int j = 0; j < k; j++) {
        double mean = terms[j].spread;
#pragma unroll 1
        for (int f = 0; f < D; f++) {
            const double t = __dsub_rn(x[f], means[(long long)j * D + f]);
            mean = __fma_rn(t, t, mean);
        }
        if (j == label)
            own = mean;
        else
            other = mean < other ? mean : other;
    }
    return silhouette_value<double>(own, other, terms[label].factor);
}

// The label of a point, by distances in double to the centroids.
__device__ __forceinline__ int silhouette_exact_label(const km_real *x, const double *centroids, int k) {
    double nearest = __longlong_as_double(0x7ff0000000000000ll);
    int label = 0;
#pragma unroll 1
    for (int j = 0; j < k; j++) {
        double square = 0.0;
#pragma unroll 1
        for (int f = 0; f < D; f++) {
            const double t = __dsub_rn(x[f], centroids[(long long)j * D + f]);
            square = __fma_rn(t, t, square);
        }
        label = square < nearest ? j : label;
        nearest = square < nearest ? square : nearest;
    }
    return label;
}

//@ if not float64
// The silhouette of a point, by its exact label.
static __device__ __noinline__ double silhouette_exact(const km_real *x, const double *centroids,
                                                       const double *means,
                                                       const silhouette_terms<double> *terms, int k) {
    return silhouette_of_label(x, means, terms, k, silhouette_exact_label(x, centroids, k));
}

//@ end
//@ if many_features
//@ include cuda/steps/silhouette_tiles.cu
//@ else
//@ include cuda/steps/silhouette_few.cu
//@ include cuda/steps/silhouette_labelled.cu
//@ end
