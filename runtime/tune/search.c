// SPDX-License-Identifier: MIT
// The cost model ranks candidates, and is wrong in ways that its neighbours share: a family's times are off by a
// factor, or too good where blocks are large. So the log of measured over predicted time is learnt: a Gaussian process,
// whose covariance is a part that all candidates share, one of each family, and one that fades with the distance along
// the axes. It gives each candidate an expected time and a deviation of that; the candidate of the lowest expected time
// less its deviation is next, so that what is unknown gets its chance. Of five ways to choose this one needs the fewest
// measurements where the model is wrong about a family: docs/history/2026-11-23-tuning-search.md.
#include "search.h"
#include "../../base/error.h"
#include "../../base/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// Variances of the log of measured over predicted time, about those of spaces that were measured whole. Twice or half
// of any changes little.
static const double SHARED = 0.3;      // of all candidates: clocks, other users of the device
static const double OF_FAMILY = 0.3;   // of a family's own factor: the root is a factor of 1.7
static const double NEAR_ANY = 0.03;   // that fades with the distance, whatever the families
static const double NEAR_FAMILY = 0.2; // that fades with the distance within a family: 1.6
static const double NOISE = 1e-4;      // of a measurement: 1%
static const double LENGTH_SCALE = 3;  // steps after which a covariance is down to 1/e
static const double DEVIATIONS = 1.5;  // that may be taken off the expected time
static const double FAILED = 0.3;      // a failure counts as this log: a third slower than predicted

struct km_search {
    int64_t count, axes, default_at, most, told;
    int32_t *family;
    double *place;    // axis by axis, each candidate's step on it; -1: it has none
    double *prior;    // log of the predicted time
    double *expected; // log of the time, by all that was told
    double *variance; // of that
    double *ms;       // what was told; 0: nothing, -1: it failed
    // What was learnt is rows, one a measurement: those of the Cholesky factor of the covariances of what was measured,
    // for each candidate. expected = prior + the sum of weight * row.
    int64_t rows, rows_max;
    int64_t *row_at; // the candidate that was measured
    double *scale;   // its deviation, by the rows before and noise
    float *row;
};

// Set up ----------------------------------------------------------------------------------------------------

static void take_points(km_search *search, const km_search_point *points) {
    double worst = -INFINITY;
    for (int64_t i = 0; i < search->count; i++) {
        double ms = points[i].predicted_ms;
        search->prior[i] = ms > 0 && isfinite(ms) ? log(ms) : NAN;
        if (search->prior[i] > worst) worst = search->prior[i];
        search->family[i] = points[i].family;
        for (int64_t axis = 0; axis < search->axes; axis++) {
            double value = points[i].value[axis];
            search->place[axis * search->count + i] = value >= 0 ? log2(1 + value) : -1;
        }
    }
    for (int64_t i = 0; i < search->count; i++) {
        if (isnan(search->prior[i])) search->prior[i] = isfinite(worst) ? worst : 0;
        search->expected[i] = search->prior[i];
        search->variance[i] = SHARED + OF_FAMILY + NEAR_ANY + NEAR_FAMILY;
    }
}

static km_status allocate(km_search *search, km_error *err) {
    size_t count = (size_t)search->count + 1, rows = (size_t)search->rows_max + 1; // nothing is empty
    search->family = calloc(count, sizeof *search->family);
    search->place = calloc(count * (size_t)(search->axes + 1), sizeof *search->place);
    search->prior = calloc(count, sizeof *search->prior);
    search->expected = calloc(count, sizeof *search->expected);
    search->variance = calloc(count, sizeof *search->variance);
    search->ms = calloc(count, sizeof *search->ms);
    search->row_at = calloc(rows, sizeof *search->row_at);
    search->scale = calloc(rows, sizeof *search->scale);
    search->row = calloc(rows * count, sizeof *search->row);
    if (search->family && search->place && search->prior && search->expected && search->variance &&
        search->ms && search->row_at && search->scale && search->row)
        return KM_OK;
    return km_fail_memory(err, "the search among candidates", (int64_t)(rows * count * sizeof *search->row));
}

static int64_t measurements(int64_t count, int64_t most) {
    if (count <= KM_SEARCH_WHOLE) return count;
    if (most > 0) return km_min(most, count);
    int64_t share = km_divide_up(count, KM_SEARCH_SHARE);
    return km_max(KM_SEARCH_LEAST, km_min(share, KM_SEARCH_MOST));
}

km_status km_search_create(km_search **out, const km_search_point *points, int64_t count, int64_t axes,
                           int64_t default_at, int64_t most, km_error *err) {
    *out = NULL;
    if (axes < 0 || axes > KM_SEARCH_AXES_MAX)
        return km_fail(err, KM_ERROR_USAGE, "a search has at most %d axes, got %lld", KM_SEARCH_AXES_MAX,
                       (long long)axes);
    km_search *search = calloc(1, sizeof *search);
    if (!search) return km_fail_memory(err, "the search among candidates", sizeof *search);
    search->count = count;
    search->axes = axes;
    search->default_at = default_at;
    search->most = measurements(count, most);
    search->rows_max = km_min(search->most, KM_SEARCH_MOST); // later measurements teach nothing
    km_status status = allocate(search, err);
    if (status == KM_OK)
        take_points(search, points);
    else
        km_search_destroy(&search);
    *out = search;
    return status;
}

void km_search_destroy(km_search **out) {
    km_search *search = *out;
    if (!search) return;
    free(search->family);
    free(search->place);
    free(search->prior);
    free(search->expected);
    free(search->variance);
    free(search->ms);
    free(search->row_at);
    free(search->scale);
    free(search->row);
    free(search);
    *out = NULL;
}

// Learning --------------------------------------------------------------------------------------------------

// Steps between two candidates: doublings along each axis; one where only one of them has the number.
static double distance(const km_search *search, int64_t i, int64_t j) {
    double steps = 0;
    for (int64_t axis = 0; axis < search->axes; axis++) {
        double a = search->place[axis * search->count + i], b = search->place[axis * search->count + j];
        steps += (a < 0) != (b < 0) ? 1 : fabs(a - b);
    }
    return steps;
}

static double covariance(const km_search *search, int64_t i, int64_t j) {
    double nearness = exp(-distance(search, i, j) / LENGTH_SCALE);
    double any = SHARED + NEAR_ANY * nearness;
    return search->family[i] == search->family[j] ? any + OF_FAMILY + NEAR_FAMILY * nearness : any;
}

static void add_row(km_search *search, int64_t at) {
    int64_t count = search->count, k = search->rows++;
    float *row = search->row + k * count;
    double scale = sqrt(search->variance[at] + NOISE);
    search->row_at[k] = at;
    search->scale[k] = scale;
    for (int64_t i = 0; i < count; i++) row[i] = (float)covariance(search, i, at);
    for (int64_t before = 0; before < k; before++) {
        const float *other = search->row + before * count, known = other[at];
        for (int64_t i = 0; i < count; i++) row[i] -= known * other[i];
    }
    for (int64_t i = 0; i < count; i++) {
        row[i] /= (float)scale;
        search->variance[i] = fmax(search->variance[i] - (double)row[i] * (double)row[i], 0);
    }
}

// Adds what a row's measurement says beyond those of the rows before, which are in `expected`.
static void learn(km_search *search, int64_t k) {
    const float *row = search->row + k * search->count;
    int64_t at = search->row_at[k];
    double told = search->ms[at] > 0 ? log(search->ms[at]) : search->prior[at] + FAILED;
    double weight = (told - search->expected[at]) / search->scale[k];
    for (int64_t i = 0; i < search->count; i++) search->expected[i] += weight * (double)row[i];
}

void km_search_tell(km_search *search, int64_t at, double ms) {
    if (at < 0 || at >= search->count) return;
    int is_new = search->ms[at] == 0;
    search->ms[at] = ms > 0 && isfinite(ms) ? ms : -1;
    if (is_new) {
        search->told++;
        if (search->rows == search->rows_max) return;
        add_row(search, at);
        learn(search, search->rows - 1);
    } else {
        memcpy(search->expected, search->prior, (size_t)search->count * sizeof *search->prior);
        for (int64_t k = 0; k < search->rows; k++) learn(search, k);
    }
}

// Answers ---------------------------------------------------------------------------------------------------

// Log of the time that a candidate may well take.
static double hope(const km_search *search, int64_t at) {
    return search->expected[at] - DEVIATIONS * sqrt(search->variance[at]);
}

// Whether `a` is measured before `b`.
static int is_before(const km_search *search, int64_t a, int64_t b) {
    if (a == search->default_at || b == search->default_at) return a == search->default_at;
    double first = hope(search, a), second = hope(search, b);
    return first != second ? first < second : a < b;
}

int64_t km_search_ahead(const km_search *search, int64_t *out, int64_t count) {
    int64_t found = 0;
    count = km_min(count, search->most - search->told);
    for (int64_t i = 0; i < search->count && count > 0; i++) {
        if (search->ms[i] != 0) continue;
        if (found == count && !is_before(search, i, out[found - 1])) continue;
        int64_t place = found < count ? found++ : found - 1;
        for (; place > 0 && is_before(search, i, out[place - 1]); place--) out[place] = out[place - 1];
        out[place] = i;
    }
    return found;
}

int64_t km_search_next(const km_search *search) {
    int64_t next;
    return km_search_ahead(search, &next, 1) ? next : -1;
}

int64_t km_search_best(const km_search *search) {
    int64_t best = -1;
    for (int64_t i = 0; i < search->count; i++)
        if (search->ms[i] > 0 && (best < 0 || search->ms[i] < search->ms[best])) best = i;
    return best;
}

int64_t km_search_told(const km_search *search) {
    return search->told;
}

int64_t km_search_most(const km_search *search) {
    return search->most;
}
