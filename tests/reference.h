// SPDX-License-Identifier: MIT
// Textbook k-means in double, slow and obvious: what every kernel and the whole fit are held against.
//
// Nothing here shares code with gen/ or runtime/ except the draws and the number of candidates of runtime/seed.h,
// which are part of the contract. Allocation failure ends the test program.
#ifndef KM_TESTS_REFERENCE_H
#define KM_TESTS_REFERENCE_H
#include <kmgen/kmgen.h>
#include "quiet_check.h"
#include <math.h>

// Fails the test unless a and b differ by at most `tolerance` (0 included, unlike Check's own).
#define REF_NEAR(a, b, tolerance)                                                                            \
    ck_assert_msg(fabs((a) - (b)) <= (tolerance), "%s is %.17g, not %.17g within %g", #a, (double)(a),       \
                  (double)(b), (double)(tolerance))

// Data ----------------------------------------------------------------------------------------------------

// n points of d features, every value one of `type` exactly, in double.
typedef struct ref_data {
    int64_t n, d;
    km_type type;
    double *x; // n x d
    double *w; // n, or NULL: all 1
} ref_data;

ref_data ref_data_make(int64_t n, int64_t d, km_type type); // all zero
ref_data ref_data_of(const double *x, const double *w, int64_t n, int64_t d, km_type type);
ref_data ref_data_copy(const ref_data *data);
void ref_data_free(ref_data *data);

// `blobs` round clusters with centres in [-10, 10]^d and standard deviation `spread`; point i is of blob i mod
// blobs.
ref_data ref_blobs(int64_t n, int64_t d, int64_t blobs, double spread, uint64_t seed, km_type type);
// Uniform in [-1, 1)^d.
ref_data ref_uniform(int64_t n, int64_t d, uint64_t seed, km_type type);
// Integers 0 .. side - 1: many equal points and exact ties.
ref_data ref_grid(int64_t n, int64_t d, int64_t side, uint64_t seed, km_type type);
// Gives every point a weight of {0, 1/4, 1/2, 1, 2, 3}, about one in six each; one point at least weighs 1.
void ref_weigh(ref_data *data, uint64_t seed);
// Adds `offset` to every value and rounds to the type.
void ref_shift(ref_data *data, double offset);
// The points in the element type of the data, C order: what km_data_from_memory wants. Free it.
void *ref_values(const ref_data *data);

double ref_round(double value, km_type type);
static inline double ref_weight(const ref_data *data, int64_t i) {
    return data->w ? data->w[i] : 1.0;
}

// The steps of k-means ------------------------------------------------------------------------------------

// |a - b|^2, difference form; fused: as runtime/backend.h states it for the finishing pass and for relocation, to
// the last bit.
double ref_distance2(const double *a, const double *b, int64_t d);
double ref_distance2_fused(const double *a, const double *b, int64_t d);
// The nearest centroid of each point, ties to the lowest index, and (unless NULL) the squared distance to it.
void ref_assign(int32_t *labels, double *distance2, const ref_data *data, const double *centroids, int64_t k);
// The mean of each cluster's points; a cluster of weight 0 keeps its centroid. weights[k] and counts[k] may be NULL.
void ref_update(double *centroids, double *weights, int64_t *counts, const ref_data *data,
                const int32_t *labels, int64_t k);
// Behind an update of the centroids `before`: gives each cluster of weight 0 the point that is farthest from the
// nearest of these, the next for the next: ties to the lowest index, no point of weight 0 or distance 0, equal points
// once. The points leave the means of their old clusters; one that all leave has the centroid of the heaviest.
// Returns how many got one.
int64_t ref_relocate(double *centroids, const double *weights, const double *before, const ref_data *data,
                     int64_t k);
// sum w |x - c_label|^2.
double ref_inertia(const ref_data *data, const double *centroids, const int32_t *labels);
// The picks of runtime/seed.h: indices of `picks` points.
void ref_seed(int64_t *indices, const ref_data *data, uint64_t seed, int64_t restart, int64_t picks);
// Rows of the points: out is count x d.
void ref_rows(double *out, const ref_data *data, const int64_t *indices, int64_t count);
// Weighted mean of each feature (d), and the mean over the features of their weighted variances.
double ref_mean_variance(double *mean, const ref_data *data);

// What the finishing pass reports of a model (km_finish_model of runtime/backend.h); k entries each. Distances are
// fused, labels follow from them, sums are plain.
typedef struct ref_finished {
    int64_t k;
    int64_t *counts;
    double *weights, *sse, *distance, *margin;
    int32_t *labels; // n
} ref_finished;

ref_finished ref_finish(const ref_data *data, const double *centroids, int64_t k);
void ref_finished_free(ref_finished *finished);

// The whole of Lloyd's algorithm --------------------------------------------------------------------------

typedef struct ref_model {
    int64_t k, effective_k, n_iter;
    int converged;
    double inertia;
    double *centroids; // k x d
    double *weights;   // k
    int32_t *labels;   // n
} ref_model;

// From the given centroids until the sum of squared shifts is at most `shift_max`, or max_iter updates; then
// one more assignment for labels and inertia.
ref_model ref_fit(const ref_data *data, const double *init, int64_t k, double shift_max, int64_t max_iter);
void ref_model_free(ref_model *model);

// The contract of labels ----------------------------------------------------------------------------------

double ref_epsilon(km_type type); // 2^-20 or 2^-48
// Label l of x is right when |x - c_l|^2 - min_j |x - c_j|^2 <= eps (|x|^2 + |c_l|^2), x and c centred. Returns
// how many labels are wrong; *first (unless NULL) is the first wrong one, or -1.
int64_t ref_labels_wrong(int64_t *first, const ref_data *data, const double *centroids, int64_t k,
                         const int32_t *labels);

#endif
