// SPDX-License-Identifier: MIT
#include "html.h"
#include "../../gen/template.h"
#include "../file.h"
#include "../unit.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Made by gen/embed.c of page/.
extern const km_embedded km_embedded_page[];
extern const int64_t km_embedded_page_count;

void km_report_params_init(km_report_params *params) {
    *params = (km_report_params){.rows = 8192};
}

// The page ------------------------------------------------------------------------------------------------------

// A name to be shown: whole, or its ends with the column's number, as ends may be alike. NULL: no memory.
static char *shown_name(const char *name, int64_t number) {
    km_text text = {0};
    char *plain = NULL;
    if (name && *name)
        km_text_puts(&text, name);
    else
        km_text_printf(&text, "column %lld", (long long)number);
    if (km_text_take(&plain, &text, NULL) != KM_OK) return NULL;
    km_text_plain(plain);
    if (km_text_columns(plain) <= KM_PAGE_NAME_COLUMNS) return plain;
    km_text_shorten(plain, KM_PAGE_NAME_COLUMNS);
    km_text_printf(&text, "%s (column %lld)", plain, (long long)number);
    km_text_free(plain);
    return km_text_take(&plain, &text, NULL) == KM_OK ? plain : NULL;
}

static km_status add_names(km_page *page, km_error *err) {
    int64_t d = page->result->d;
    page->names = calloc((size_t)d, sizeof *page->names);
    if (!page->names) return km_fail_memory(err, "the report's names", d * (int64_t)sizeof *page->names);
    for (int64_t f = 0; f < d; f++) {
        page->names[f] =
            shown_name(page->result->feature_names ? page->result->feature_names[f] : NULL, f + 1);
        if (!page->names[f]) return km_fail_memory(err, "the report's names", KM_PAGE_NAME_COLUMNS);
    }
    return KM_OK;
}

typedef struct ranked {
    double value;
    int64_t index;
} ranked;

static int by_falling_value(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->value != y->value) return x->value > y->value ? -1 : 1;
    return x->index < y->index ? -1 : 1;
}

// Indices by falling values, equal ones by index; NULL: no memory.
static int64_t *falling(const double *values, int64_t count) {
    ranked *pairs = malloc((size_t)count * sizeof *pairs);
    int64_t *order = pairs ? malloc((size_t)count * sizeof *order) : NULL;
    if (!order) {
        free(pairs);
        return NULL;
    }
    for (int64_t i = 0; i < count; i++) pairs[i] = (ranked){values[i], i};
    qsort(pairs, (size_t)count, sizeof *pairs, by_falling_value);
    for (int64_t i = 0; i < count; i++) order[i] = pairs[i].index;
    free(pairs);
    return order;
}

// sum_j w_j (c_jf - mean_f)^2 / (N variance_f): 0, the clusters do not differ in f; 1, nothing else does.
static double separation(const km_page *page, int64_t f) {
    const km_model *model = page->best;
    double mean = page->result->mean[f], between = 0, total = 0;
    for (int32_t j = 0; j < model->k; j++) {
        double difference = (model->centroids[j * page->result->d + f] - mean);
        if (!(model->weights[j] > 0)) continue;
        between += model->weights[j] * difference * difference;
        total += model->weights[j] * page->result->variance[f];
    }
    return total > 0 && isfinite(between / total) ? fmin(between / total, 1) : 0;
}

static int64_t *by_size(const km_model *model) {
    double *sizes = malloc((size_t)model->k * sizeof *sizes);
    if (!sizes) return NULL;
    for (int32_t j = 0; j < model->k; j++) sizes[j] = (double)model->counts[j];
    int64_t *order = falling(sizes, model->k);
    free(sizes);
    return order;
}

static km_status rank(km_page *page, km_error *err) {
    int64_t d = page->result->d;
    page->separates = malloc((size_t)d * sizeof *page->separates);
    if (!page->separates) return km_fail_memory(err, "the report's ranks", d * (int64_t)sizeof(double));
    for (int64_t f = 0; f < d; f++) page->separates[f] = separation(page, f);
    page->ranked = falling(page->separates, d);
    page->largest = by_size(page->best);
    if (page->ranked && page->largest) return KM_OK;
    return km_fail_memory(err, "the report's ranks", d * (int64_t)sizeof(ranked));
}

static const km_embedded *embedded(const char *name) {
    const km_embedded *file = km_embedded_page;
    while (file->name && strcmp(file->name, name) != 0) file++;
    return file->name ? file : NULL;
}

static const struct {
    const char *name;
    km_page_part *write;
} parts[] = {
    {"head", km_html_head},
    {"shapes", km_html_shapes},
    {"choice", km_html_choice},
    {"warnings", km_html_warnings},
    {"criteria", km_html_criteria},
    {"inertia", km_html_inertia},
    {"components", km_html_components},
    {"sizes", km_html_sizes},
    {"silhouette", km_html_silhouette},
    {"splits", km_html_splits},
    {"heat", km_html_heat},
    {"centroids", km_html_centroids},
    {"features", km_html_features},
    {"run", km_html_run},
};

// A part by its name, or another file of page/.
static km_status fill(km_page *page, const char *name, km_error *err) {
    for (size_t p = 0; p < sizeof parts / sizeof *parts; p++)
        if (strcmp(parts[p].name, name) == 0) return parts[p].write(page, err);
    const km_embedded *file = embedded(name);
    if (!file)
        return km_fail(err, KM_ERROR_INTERNAL, "the report's skeleton names %s, which is not there", name);
    km_text_add(page->out, file->text, file->size);
    return KM_OK;
}

// The skeleton, each {{name}} of it filled in.
static km_status write_page(km_page *page, km_error *err) {
    const km_embedded *skeleton = embedded("report.html");
    if (!skeleton) return km_fail(err, KM_ERROR_INTERNAL, "the report's skeleton is not in this library");
    const char *at = skeleton->text;
    for (const char *hole; (hole = strstr(at, "{{")) != NULL;) {
        char name[32];
        int size = (int)strcspn(hole + 2, "}");
        snprintf(name, sizeof name, "%.*s", size, hole + 2);
        km_text_add(page->out, at, hole - at);
        KM_TRY(fill(page, name, err));
        at = hole + 2 + size + 2;
    }
    km_text_puts(page->out, at);
    return page->out->failed ? km_fail_memory(err, "the report", page->out->size) : KM_OK;
}

static km_status make_page(km_page *page, km_error *err) {
    KM_TRY(km_html_sample_draw(&page->sample, page->result, page->data, page->params->rows, err));
    KM_TRY(add_names(page, err));
    KM_TRY(rank(page, err));
    return write_page(page, err);
}

// A decimal comma of the caller's language would be another coordinate.
static km_status make_text(km_page *page, km_error *err) {
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return km_fail_memory(err, "the language of numbers", 0);
    locale_t before = uselocale(c);
    km_status status = make_page(page, err);
    uselocale(before);
    freelocale(c);
    return status;
}

static void page_free(km_page *page) {
    for (int64_t f = 0; page->names && f < page->result->d; f++) free(page->names[f]);
    free(page->names);
    free(page->separates);
    free(page->ranked);
    free(page->largest);
    km_html_sample_free(&page->sample);
}

static km_status check(const km_result *result, const km_data *data, const km_report_params *params,
                       km_error *err) {
    if (km_data_points(data) != result->n || km_data_features(data) != result->d)
        return km_fail(
            err, KM_ERROR_USAGE,
            "a report of %lld points with %lld features cannot be made of %s, which has %lld with %lld: "
            "give the data of the fit",
            (long long)result->n, (long long)result->d, km_data_name(data), (long long)km_data_points(data),
            (long long)km_data_features(data));
    if (params->rows < 1)
        return km_fail(err, KM_ERROR_USAGE, "a report of %lld rows; rows must be at least 1",
                       (long long)params->rows);
    return KM_OK;
}

km_status km_result_report(const char *path, const km_result *result, const km_data *data,
                           const km_report_params *params, km_error *err) {
    km_report_params defaults;
    km_report_params_init(&defaults);
    km_text text = {0};
    km_page page = {.out = &text,
                    .result = result,
                    .best = &result->models[result->selection.best],
                    .data = data,
                    .params = params ? params : &defaults};
    km_data *unit = NULL; // without rows of zeros, as the fit
    if (result->scale == KM_SCALE_UNIT) {
        KM_TRY(km_data_unit(&unit, data, err));
        page.data = unit;
    }
    km_status status = check(result, page.data, page.params, err);
    if (status == KM_OK) status = make_text(&page, err);
    if (status == KM_OK) status = km_file_write(path, text.data, text.size, err);
    page_free(&page);
    km_text_clear(&text);
    km_data_destroy(&unit);
    return status;
}
