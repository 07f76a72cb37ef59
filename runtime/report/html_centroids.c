// SPDX-License-Identifier: MIT
// Centroids of the chosen K: a heat map of standardised values, and a table in the units of the data. A row is a
// feature, those that separate most first, a column a cluster.
#include "html.h"

#include <math.h>

// Shades on each side of the mean in page/report.css, and how many standard deviations the last one is.
enum { SHADES = 4 };
#define SHADE 0.5

static int64_t clusters_shown(const km_page *page) {
    return km_min(page->best->k, KM_PAGE_CLUSTERS_MAX);
}

static int64_t cluster_at(const km_page *page, int64_t column) {
    return page->best->k <= KM_PAGE_CLUSTERS_MAX ? column : page->largest[column];
}

static int64_t features_shown(const km_page *page) {
    return km_min(page->result->d, KM_PAGE_FEATURES_MAX);
}

static void begin_table(km_page *page, const char *class, const char *caption) {
    km_html_table(page->out, class, caption, NULL);
    km_text_puts(page->out, "<thead><tr><th scope=\"col\">Feature</th>");
    for (int64_t c = 0; c < clusters_shown(page); c++) {
        int64_t j = cluster_at(page, c);
        km_text_puts(page->out, "<th scope=\"col\">");
        km_html_mark(page, page->result->selection.best, j);
        km_text_printf(page->out, "%lld</th>", (long long)j);
    }
    km_text_puts(page->out, "</tr></thead>\n<tbody>\n");
}

static void end_table(km_page *page) {
    const char *between = "<p class=\"note\">Shown are ";
    km_html_end_table(page->out);
    if (features_shown(page) < page->result->d) {
        km_text_printf(page->out, "%sthe %lld features that separate most, of %lld", between,
                       (long long)features_shown(page), (long long)page->result->d);
        between = ", and ";
    }
    if (clusters_shown(page) < page->best->k) {
        km_text_printf(page->out, "%sthe %lld largest clusters, of %d", between,
                       (long long)clusters_shown(page), page->best->k);
        between = "";
    }
    if (between[0] != '<') km_text_puts(page->out, "; the result’s JSON has all.</p>\n");
}

static double standardised(const km_page *page, int64_t j, int64_t f) {
    const km_result *result = page->result;
    double z = (page->best->centroids[j * result->d + f] - result->mean[f]) / sqrt(result->variance[f]);
    return result->variance[f] > 0 && isfinite(z) ? z : 0;
}

static void add_heat(km_page *page, double z) {
    int shade = (int)fmin(fmax(round(z / SHADE), -SHADES), SHADES);
    km_text_printf(page->out, "<td class=\"h%c%d\">%s%.1f</td>", shade < 0 ? 'n' : 'p',
                   shade < 0 ? -shade : shade,
                   z < -.05   ? "−"
                   : z >= .05 ? "+"
                              : "",
                   fabs(z));
}

// Decimals that all values of a feature are written with; -1: they need powers of ten.
static int decimals_of(const km_page *page, int64_t f) {
    double largest = 0;
    for (int64_t c = 0; c < clusters_shown(page); c++)
        largest = fmax(largest, fabs(page->best->centroids[cluster_at(page, c) * page->result->d + f]));
    if (largest == 0) return 0;
    if (!(largest >= 1e-3 && largest < 1e7)) return -1;
    return (int)fmin(fmax(3 - floor(log10(largest)), 0), 6);
}

static void begin_row(km_page *page, int64_t f) {
    km_text_puts(page->out, "<tr><th scope=\"row\"><bdi>");
    km_html_text(page->out, page->names[f]);
    km_text_puts(page->out, "</bdi></th>");
}

static void add_heat_row(km_page *page, int64_t f) {
    begin_row(page, f);
    for (int64_t c = 0; c < clusters_shown(page); c++)
        add_heat(page, standardised(page, cluster_at(page, c), f));
    km_text_puts(page->out, "</tr>\n");
}

static void add_row(km_page *page, int64_t f) {
    int decimals = decimals_of(page, f);
    begin_row(page, f);
    for (int64_t c = 0; c < clusters_shown(page); c++) {
        double value = page->best->centroids[cluster_at(page, c) * page->result->d + f];
        km_text_puts(page->out, "<td>");
        if (decimals < 0 || !isfinite(value))
            km_html_number(page->out, value);
        else
            km_text_printf(page->out, "%s%.*f", value < 0 ? "−" : "", decimals, fabs(value));
        km_text_puts(page->out, "</td>");
    }
    km_text_puts(page->out, "</tr>\n");
}

km_status km_html_heat(km_page *page, km_error *err) {
    (void)err;
    begin_table(page, "heat", "Centroids in standard deviations from the mean");
    for (int64_t r = 0; r < features_shown(page); r++) add_heat_row(page, page->ranked[r]);
    end_table(page);
    return KM_OK;
}

km_status km_html_centroids(km_page *page, km_error *err) {
    (void)err;
    begin_table(page, "numbers", "Centroids in the units of the data");
    for (int64_t r = 0; r < features_shown(page); r++) add_row(page, page->ranked[r]);
    end_table(page);
    return KM_OK;
}
