// SPDX-License-Identifier: MIT
// Inertia over K, with a dot where each restart ended.
#include "html.h"

#include <math.h>
#include <stdlib.h>

#define WIDTH 640.0
#define HEIGHT 340.0

static double *all_inertias(const km_page *page, int64_t *count) {
    const km_result *result = page->result;
    *count = 0;
    for (int64_t m = 0; m < result->models_count; m++) *count += 1 + result->models[m].restarts;
    double *values = malloc((size_t)*count * sizeof *values), *next = values;
    for (int64_t m = 0; values && m < result->models_count; m++) {
        const km_model *model = &result->models[m];
        *next++ = model->inertia;
        for (int64_t r = 0; r < model->restarts; r++)
            *next++ = model->restart_inertia ? model->restart_inertia[r] : model->inertia;
    }
    return values;
}

static int by_value(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

// Dots that would cover each other are drawn once. `sorted` has room for all restarts.
static void add_restarts(km_page *page, const km_model *model, double *sorted, const km_axis *x,
                         const km_axis *y) {
    int64_t count = 0;
    double drawn = HUGE_VAL;
    for (int64_t r = 0; model->restart_inertia && r < model->restarts; r++)
        if (isfinite(model->restart_inertia[r])) sorted[count++] = model->restart_inertia[r];
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    for (int64_t r = 0; r < count; r++) {
        double at = km_axis_place(y, sorted[r]);
        if (fabs(at - drawn) < .8) continue;
        drawn = at;
        km_text_printf(page->out, "<circle class=\"restart\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\"/>",
                       km_axis_place(x, model->k), at);
    }
}

static void add_best(km_page *page, double *values, const km_axis *x, const km_axis *y) {
    const km_result *result = page->result;
    double at = km_axis_place(x, page->best->k);
    km_text_printf(page->out, "<path class=\"chosen\" d=\"M%.1f %.1fV%.1f\"/>\n", at, y->end, y->begin);
    for (int64_t m = 0; m < result->models_count; m++) values[m] = result->models[m].inertia;
    km_html_line(page, values, x, y);
    if (isfinite(page->best->inertia))
        km_text_printf(page->out, "<circle class=\"ring\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\"/>\n", at,
                       km_axis_place(y, page->best->inertia));
}

static void add_refined(km_page *page) {
    int64_t refined = 0, count = page->result->models_count;
    for (int64_t m = 0; m < count; m++) refined += page->result->models[m].refined != 0;
    if (refined)
        km_text_printf(
            page->out,
            "<figcaption>Refinement found better models than the restarts for %lld of %lld K: there the "
            "line lies below the dots.</figcaption>\n",
            (long long)refined, (long long)count);
}

static void add_picture(km_page *page, const double *values, int64_t count, double *sorted) {
    const km_result *result = page->result;
    km_axis x =
        km_axis_of_k(result->models[0].k, result->models[result->models_count - 1].k, 62, WIDTH - 12, 12);
    km_axis y = km_axis_of_values(values, count, HEIGHT - 44, 36);
    km_text_puts(page->out, "<figure>\n");
    km_html_svg(
        page->out, "inertia-plot", WIDTH, HEIGHT, "Inertia over the number of clusters",
        "A falling line through the best restart of each K, and a dot for each restart; the chosen K is "
        "ringed.");
    km_html_axes(page->out, &x, &y, "number of clusters K", "inertia");
    add_best(page, sorted, &x, &y);
    for (int64_t m = 0; m < result->models_count; m++) add_restarts(page, &result->models[m], sorted, &x, &y);
    km_text_puts(page->out, "\n</svg>\n");
    add_refined(page);
    km_text_puts(page->out, "</figure>\n");
}

static void add_row(km_page *page, const km_model *model, double *sorted) {
    int64_t count = 0;
    for (int64_t r = 0; model->restart_inertia && r < model->restarts; r++)
        if (isfinite(model->restart_inertia[r])) sorted[count++] = model->restart_inertia[r];
    qsort(sorted, (size_t)count, sizeof *sorted, by_value);
    km_text_printf(page->out, "<tr%s><th scope=\"row\">%d</th><td>",
                   model == page->best ? " class=\"chosen\"" : "", model->k);
    km_html_number(page->out, model->inertia);
    km_text_printf(page->out, "</td><td>%s</td><td>%lld of %lld</td><td>",
                   model->refined ? "refinement" : "a restart", (long long)model->restarts_agreed,
                   (long long)model->restarts);
    km_html_number(page->out, count ? sorted[count / 2] : NAN);
    km_text_puts(page->out, "</td><td>");
    km_html_number(page->out, count ? sorted[count - 1] : NAN);
    km_text_printf(page->out, "</td><td>%lld%s</td></tr>\n", (long long)model->n_iter,
                   model->converged ? "" : ", stopped");
}

static void add_table(km_page *page, double *sorted) {
    static const char *const heads[] = {
        "K",          "Inertia", "Found by", "Restarts that agree", "Median of restarts", "Worst restart",
        "Iterations", NULL};
    km_html_details(page->out, "Inertia as a table", "The model of each K, and its restarts", heads);
    for (int64_t m = 0; m < page->result->models_count; m++) add_row(page, &page->result->models[m], sorted);
    km_html_end_details(page->out);
}

km_status km_html_inertia(km_page *page, km_error *err) {
    int64_t count;
    double *values = all_inertias(page, &count), *sorted = malloc((size_t)count * sizeof *sorted);
    if (values && sorted) {
        add_picture(page, values, count, sorted);
        add_table(page, sorted);
    }
    int failed = !values || !sorted;
    free(values);
    free(sorted);
    return failed ? km_fail_memory(err, "the report's inertias", count * (int64_t)sizeof(double)) : KM_OK;
}
