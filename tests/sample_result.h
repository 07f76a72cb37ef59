// SPDX-License-Identifier: MIT
// A result made by hand, for tests of what is written of one.
#ifndef KM_TESTS_SAMPLE_RESULT_H
#define KM_TESTS_SAMPLE_RESULT_H
#include <kmgen/result.h>

// Models of the Ks first, first + step, ...; d features. Inertia falls as 700 / K^1.3, the scores are smooth,
// with Calinski-Harabasz highest near K = 4; Hartigan is NaN for the last model and Krzanowski-Lai for all.
// Centroids hold numbers that need all 17 digits, -0 and a denormal. The caller may change all but pointers.
typedef struct sample {
    km_result result;
    km_model *models;
    double *centre, *factor, *mean, *variance;
    double *centroids, *fitted, *weights, *sse, *restart_inertia; // model m's rows begin at first_row[m]
    int64_t *counts, *first_row;
    const char **names, *warnings[2];
} sample;

sample *sample_make(int32_t first, int32_t step, int64_t models_count, int64_t d);
void sample_select(sample *s, km_criterion criterion); // votes, best and reason anew from the scores
void sample_free(sample *s);

#endif
