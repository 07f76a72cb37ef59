// SPDX-License-Identifier: MIT
// The silhouette of the chosen K as knives: for each cluster the rows of a sample by falling silhouette.
// Rousseeuw 1987: s = (b - a) / max(a, b), a the mean distance to the other rows of the own cluster, b the least mean
// distance to those of another one; 0 in a cluster of one row. Distances are Euclidean, among the rows of the sample.
#include "html.h"

#include <math.h>
#include <stdlib.h>

#define WIDTH 640.0
#define LEFT 66.0
#define TOP 26.0
#define KNIVES_HEIGHT 380.0
#define KNIFE_HEIGHT_MIN 11.0
#define KNIFE_SPACE 5.0
// Multiplications that all distances may take.
#define PRODUCTS_MAX ((int64_t)1 << 28)

typedef struct silhouette {
    int64_t n, k;
    int64_t *rows;   // n: of the sample
    double *values;  // n
    int64_t *counts; // k
    double *sums;    // n x k: of distances
    double *sorted;  // n: falling in each cluster, clusters in order
    double *means;   // k
    double mean;
} silhouette;

static void silhouette_free(silhouette *s) {
    free(s->rows);
    free(s->values);
    free(s->counts);
    free(s->sums);
    free(s->sorted);
    free(s->means);
}

static km_status silhouette_alloc(silhouette *s, const km_page *page, km_error *err) {
    const km_html_sample *sample = &page->sample;
    int64_t n = sample->shown;
    while (n > 2 && n * n / 2 * sample->d > PRODUCTS_MAX) n -= n / 8 + 1;
    *s = (silhouette){.n = n, .k = page->best->k};
    s->rows = malloc((size_t)n * sizeof *s->rows);
    s->values = malloc((size_t)n * sizeof *s->values);
    s->counts = calloc((size_t)s->k, sizeof *s->counts);
    s->sums = calloc((size_t)(n * s->k), sizeof *s->sums);
    s->sorted = malloc((size_t)n * sizeof *s->sorted);
    s->means = calloc((size_t)s->k, sizeof *s->means);
    if (!s->rows || !s->values || !s->counts || !s->sums || !s->sorted || !s->means)
        return km_fail_memory(err, "the report's silhouette", n * s->k * (int64_t)sizeof *s->sums);
    for (int64_t i = 0; i < n; i++) s->rows[i] = i * sample->n / n;
    return KM_OK;
}

static double distance(const double *x, const double *y, int64_t d) {
    double sum = 0;
    for (int64_t f = 0; f < d; f++) sum += (x[f] - y[f]) * (x[f] - y[f]);
    return sqrt(sum);
}

static void add_distances(silhouette *s, const km_html_sample *sample, const int32_t *labels) {
    for (int64_t i = 0; i < s->n; i++) s->counts[labels[s->rows[i]]]++;
    for (int64_t i = 0; i < s->n; i++) {
        const double *x = sample->points + s->rows[i] * sample->d;
        for (int64_t j = 0; j < i; j++) {
            double apart = distance(x, sample->points + s->rows[j] * sample->d, sample->d);
            s->sums[i * s->k + labels[s->rows[j]]] += apart;
            s->sums[j * s->k + labels[s->rows[i]]] += apart;
        }
    }
}

static double value_of(const silhouette *s, int64_t i, int32_t own) {
    double a, b = HUGE_VAL;
    if (s->counts[own] < 2) return 0;
    a = s->sums[i * s->k + own] / (double)(s->counts[own] - 1);
    for (int64_t j = 0; j < s->k; j++)
        if (j != own && s->counts[j]) b = fmin(b, s->sums[i * s->k + j] / (double)s->counts[j]);
    double most = fmax(a, b);
    return isfinite(b) && most > 0 ? (b - a) / most : 0;
}

static int by_falling(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x > *y ? -1 : *x < *y;
}

static void compute(silhouette *s, const km_html_sample *sample, const int32_t *labels) {
    double *next = s->sorted;
    add_distances(s, sample, labels);
    for (int64_t i = 0; i < s->n; i++) s->values[i] = value_of(s, i, labels[s->rows[i]]);
    for (int64_t j = 0; j < s->k; j++) {
        double *begin = next;
        for (int64_t i = 0; i < s->n; i++)
            if (labels[s->rows[i]] == j) *next++ = s->values[i];
        qsort(begin, (size_t)(next - begin), sizeof *begin, by_falling);
        for (const double *v = begin; v < next; v++) {
            s->means[j] += *v / (double)(next - begin);
            s->mean += *v / (double)s->n;
        }
    }
}

static double knife_height(const silhouette *s, int64_t j) {
    return fmax(KNIFE_HEIGHT_MIN, KNIVES_HEIGHT * (double)s->counts[j] / (double)s->n);
}

// One cluster, from `top`: its outline, its number, and its mean as a notch.
static void add_knife(km_page *page, const silhouette *s, int64_t j, const double *values, double top,
                      const km_axis *x) {
    double height = knife_height(s, j), each = height / (double)km_max(s->counts[j], 1),
           zero = km_axis_place(x, 0);
    int32_t colour = page->sample.marks[page->result->selection.best][j] % KM_PAGE_COLOURS;
    km_text_printf(page->out, "<path class=\"knife c%d\" d=\"M%.1f %.1f", colour, zero, top);
    double drawn = -1;
    for (int64_t i = 0; i < s->counts[j]; i++) {
        double at = km_axis_place(x, values[i]);
        if (i && i + 1 < s->counts[j] && fabs(at - drawn) < .4) continue;
        km_text_printf(page->out, "L%.1f %.1f", at, top + ((double)i + .5) * each);
        drawn = at;
    }
    km_text_printf(
        page->out,
        "L%.1f %.1fz\"/><text x=\"%.1f\" y=\"%.1f\" dy=\".35em\" text-anchor=\"end\">%lld</text>\n", zero,
        top + height, LEFT - 8, top + height / 2, (long long)j);
}

static void add_knives(km_page *page, const silhouette *s, const km_axis *x) {
    const double *values = s->sorted;
    double top = TOP;
    for (int64_t j = 0, shown = 0; j < s->k && shown < KM_PAGE_CLUSTERS_MAX; j++) {
        if (!s->counts[j]) continue;
        add_knife(page, s, j, values, top, x);
        values += s->counts[j];
        top += knife_height(s, j) + KNIFE_SPACE;
        shown++;
    }
}

static double knives_height(const silhouette *s) {
    double height = 0;
    for (int64_t j = 0, shown = 0; j < s->k && shown < KM_PAGE_CLUSTERS_MAX; j++) {
        if (!s->counts[j]) continue;
        height += knife_height(s, j) + KNIFE_SPACE;
        shown++;
    }
    return height;
}

// From the least value, or 0, to 1.
static km_axis value_axis(const silhouette *s) {
    km_axis x = {.low = 0, .high = 1, .begin = LEFT, .end = WIDTH - 16, .step = .2, .decimals = 1};
    for (int64_t i = 0; i < s->n; i++)
        while (s->values[i] < x.low - 1e-9) x.low -= x.step;
    return x;
}

static void add_x_axis(km_page *page, const km_axis *x, double bottom) {
    char label[64];
    for (int i = 0; i < km_axis_ticks(x); i++) {
        double at = km_axis_tick(label, sizeof label, x, i);
        km_text_printf(page->out,
                       "<path class=\"rule\" d=\"M%.1f %.1fV%.1f\"/><text x=\"%.1f\" y=\"%.1f\" dy=\"1.4em\" "
                       "text-anchor=\"middle\">%s%s</text>\n",
                       at, TOP, bottom, at, bottom, label[0] == '-' ? "−" : "", label + (label[0] == '-'));
    }
    km_text_printf(
        page->out,
        "<text class=\"name\" x=\"4\" y=\"4\" dy=\".8em\">cluster</text><text class=\"name\" x=\"%.1f\" "
        "y=\"%.1f\" dy=\"2.7em\" text-anchor=\"end\">silhouette</text>\n",
        x->end, bottom);
}

static void add_picture(km_page *page, const silhouette *s) {
    double bottom = TOP + knives_height(s);
    km_axis x = value_axis(s);
    double mean = km_axis_place(&x, s->mean);
    km_text_puts(page->out, "<figure>\n");
    km_html_svg(
        page->out, "silhouette-plot", WIDTH, bottom + 44, "Silhouette of each cluster",
        "For each cluster a band whose right edge falls from the row that fits best to the one that fits "
        "worst; a dashed line at the mean of all rows.");
    add_x_axis(page, &x, bottom);
    add_knives(page, s, &x);
    km_text_printf(page->out,
                   "<path class=\"chosen\" d=\"M%.1f %.1fV%.1f\"/><text class=\"strong\" x=\"%.1f\" y=\"4\" "
                   "dy=\".8em\" text-anchor=\"middle\">mean %.2f</text>\n</svg>\n<figcaption>",
                   mean, TOP - 4, bottom, fmin(fmax(mean, 120), WIDTH - 60), s->mean);
    km_text_puts(page->out, s->n == page->result->n ? "All " : "A sample of ");
    km_html_count(page->out, s->n);
    km_text_puts(
        page->out,
        " rows; distances are Euclidean, in the space that was clustered.</figcaption>\n</figure>\n");
}

static void add_row(km_page *page, const silhouette *s, int64_t j, const double *values) {
    int64_t below = 0, count = s->counts[j];
    for (int64_t i = 0; i < count; i++) below += values[i] < 0;
    km_text_puts(page->out, "<tr><th scope=\"row\">");
    km_html_mark(page, page->result->selection.best, j);
    km_text_printf(page->out, "%lld</th><td>", (long long)j);
    km_html_count(page->out, count);
    km_text_printf(page->out, "</td><td>%s%.3f</td><td>%s%.3f</td><td>", s->means[j] < 0 ? "−" : "",
                   fabs(s->means[j]), values[count - 1] < 0 ? "−" : "", fabs(values[count - 1]));
    km_html_share(page->out, (double)below, (double)count);
    km_text_puts(page->out, "</td></tr>\n");
}

static void add_table(km_page *page, const silhouette *s) {
    static const char *const heads[] = {"Cluster", "Rows", "Mean", "Least", "Below 0", NULL};
    const double *values = s->sorted;
    km_html_details(page->out, "Silhouette as a table", "Silhouette of each cluster in the sample", heads);
    for (int64_t j = 0, shown = 0; j < s->k && shown < KM_PAGE_CLUSTERS_MAX; j++) {
        if (!s->counts[j]) continue;
        add_row(page, s, j, values);
        values += s->counts[j];
        shown++;
    }
    km_html_end_details(page->out);
}

km_status km_html_silhouette(km_page *page, km_error *err) {
    silhouette s = {0};
    if (page->best->k < 2) {
        km_text_puts(page->out, "<p class=\"note\">One cluster has no next one to compare with.</p>\n");
        return KM_OK;
    }
    if (page->best->k > page->sample.shown) {
        km_text_puts(page->out,
                     "<p class=\"note\">There are too many clusters for the rows of the sample.</p>\n");
        return KM_OK;
    }
    km_status status = silhouette_alloc(&s, page, err);
    if (status == KM_OK) {
        compute(&s, &page->sample, page->sample.labels[page->result->selection.best]);
        add_picture(page, &s);
        add_table(page, &s);
    }
    silhouette_free(&s);
    return status;
}
