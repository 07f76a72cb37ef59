// SPDX-License-Identifier: MIT
// Codes of the best subsets, each by one more read of the table, and what they say together.
#include "../../base/error.h"
#include "combine.h"
#include "exploring.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

// Labels of all points by one of the best subsets, by one more read of the table.
static km_status make_code(explore *x, uint8_t *code, int64_t place) {
    const km_explore_result *result = &x->out->result;
    const km_explored *explored = &result->subsets[result->ranking[place]];
    int32_t k = explored->k;
    explore alone = *x;
    alone.clusters = &k;
    alone.clusters_count = 1;
    alone.k_sum = k;
    explore_fits f = {0};
    km_subsets_job job = x->job;
    job.clusters = &k;
    job.clusters_count = job.restarts = 1;
    job.tally = NULL;
    job.stopped = NULL;
    km_status status = km_explore_fits_alloc(&f, &alone, 1, x->err);
    if (status == KM_OK) {
        f.fits[0].codes = code;
        f.fits[0].tallies = NULL;
        for (int64_t j = 0; j < k * explored->size; j++)
            f.fits[0].centroids[j] = ldexp(explored->centroids_fitted[j], x->load.exponent);
        const km_subset *subset = &x->subsets[result->ranking[place]];
        status = x->cuda ? km_cuda_subsets_finish(x->cuda, &job, subset, 1, f.fits, x->err)
                         : km_cpu_subsets_finish(&job, subset, 1, f.fits, x->err);
    }
    km_explore_fits_free(&f);
    return status;
}

// Codes of the best subsets: a row for each row of the table, and what they say together.
km_status km_explore_make_codes(explore *x) {
    km_explore_owner *out = x->out;
    km_explore_result *result = &out->result;
    int64_t n = result->n, rows = result->rows,
            count = km_min(x->params->codes < 0 ? result->best : x->params->codes, result->count);
    int64_t combined = x->params->outcome ? km_min(x->params->combine, result->count) : 0;
    km_codes codes = {.n = n, .count = combined, .weights = km_data_weights(x->data)};
    km_status status = KM_OK;
    if (count == 0 && combined == 0) return KM_OK;
    uint8_t *all = count ? km_result_alloc_large(out->owner, rows * count, 1, x->err) : NULL;
    uint8_t *own = malloc((size_t)(n * (combined + 1)));
    if ((count && !all) || !own)
        status = km_fail_memory(x->err, "the codes", rows * count + n * (combined + 1));
    if (status == KM_OK && all) memset(all, 255, (size_t)(rows * count));
    for (int64_t i = 0; i < km_max(count, combined) && status == KM_OK; i++) {
        uint8_t *one = own + km_min(i, combined) * n;
        status = make_code(x, one, i);
        for (int64_t p = 0; p < n && i < count && status == KM_OK; p++)
            all[km_data_row_of(x->data, p) * count + i] = one[p];
        if (i < combined) codes.k[i] = result->subsets[result->ranking[i]].k;
    }
    codes.codes = own;
    if (status == KM_OK && combined)
        status = km_explore_combine(out, &codes, &x->tally, x->params->outcome, x->err);
    free(own);
    result->codes = status == KM_OK ? count : 0;
    result->codes_of_rows = status == KM_OK ? all : NULL;
    return status;
}
