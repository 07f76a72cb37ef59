// SPDX-License-Identifier: MIT
// Rows of the data, drawn evenly, with the label that each model gives them: what pictures of a large fit are made of.
#ifndef KM_RUNTIME_REPORT_HTML_SAMPLE_H
#define KM_RUNTIME_REPORT_HTML_SAMPLE_H
#include "../../base/error.h"

#include <kmgen/result.h>

// Clusters of models with more than this keep no marks: mark j is cluster j's.
enum { KM_HTML_PAIRED_MAX = 128 };

typedef struct km_html_sample {
    int64_t n, d;
    int64_t models_count;
    double *points;   // n x d, the clustered space without the fit's own power of two, values of the type
    int32_t **labels; // models_count, each n
    // models_count, each k: marks of clusters. A cluster has the mark of the one with which it shares most rows among
    // the clusters of the next K nearer to the best one, so that marks stay where clusters stay.
    int32_t **marks;
    int64_t shown; // rows that are drawn one by one, at most n
} km_html_sample;

km_status km_html_sample_draw(km_html_sample *sample, const km_result *result, const km_data *data,
                              int64_t rows_max, km_error *err);
void km_html_sample_free(km_html_sample *sample);
// The row that is drawn as number i, 0..shown - 1.
int64_t km_html_sample_shown(const km_html_sample *sample, int64_t i);
// Rows that model a puts into its cluster i and model b into its cluster j, at [i * k_b + j]: the caller's to free, or
// NULL: no memory.
int64_t *km_html_sample_shared(const km_html_sample *sample, const km_result *result, int64_t a, int64_t b);

#endif
