// SPDX-License-Identifier: MIT
// Centroids of the chosen K: a heat map of standardised values, and a table in the units of the data. A row is a
// feature, those that separate most first, a column a cluster; or a row a cluster, where columns would be too many.
#include "html.h"

#include <math.h>
#include <stdio.h>

// Shades on each side of the mean in page/report.css, and how many standard deviations the last one is.
enum { SHADES = 4 };
#define SHADE 0.5
// Columns that are clusters, at most, where there are fewer features.
enum { CLUSTER_COLUMNS_MAX = 12 };

static int64_t clusters_shown(const km_page *page) {
    return km_min(page->best->k, KM_PAGE_CLUSTERS_MAX);
}

static int64_t cluster_at(const km_page *page, int64_t column) {
    return page->best->k <= KM_PAGE_CLUSTERS_MAX ? column : page->largest[column];
}

static int64_t features_shown(const km_page *page) {
    return km_min(page->result->d, KM_PAGE_FEATURES_MAX);
}

static int is_turned(const km_page *page) {
    return clusters_shown(page) > CLUSTER_COLUMNS_MAX && clusters_shown(page) > features_shown(page);
}

// The heading of a feature, of a row or of a column.
static void add_feature(km_page *page, const char *scope, int64_t f) {
    km_text_printf(page->out, "<th scope=\"%s\"><bdi>", scope);
    km_html_text(page->out, page->names[f]);
    km_text_puts(page->out, "</bdi></th>");
}

static void add_cluster(km_page *page, const char *scope, int64_t j) {
    km_text_printf(page->out, "<th scope=\"%s\">", scope);
    km_html_mark(page, page->result->selection.best, j);
    km_text_printf(page->out, "%lld</th>", (long long)j);
}

typedef void add_cell(km_page *page, int64_t j, int64_t f);

static void add_rows(km_page *page, add_cell *add) {
    int turned = is_turned(page);
    int64_t rows = turned ? clusters_shown(page) : features_shown(page),
            columns = turned ? features_shown(page) : clusters_shown(page);
    km_text_printf(page->out, "<thead><tr><th scope=\"col\">%s</th>", turned ? "Cluster" : "Feature");
    for (int64_t c = 0; c < columns; c++)
        turned ? add_feature(page, "col", page->ranked[c]) : add_cluster(page, "col", cluster_at(page, c));
    km_text_puts(page->out, "</tr></thead>\n<tbody>\n");
    for (int64_t r = 0; r < rows; r++) {
        km_text_puts(page->out, "<tr>");
        turned ? add_cluster(page, "row", cluster_at(page, r)) : add_feature(page, "row", page->ranked[r]);
        for (int64_t c = 0; c < columns; c++)
            add(page, cluster_at(page, turned ? r : c), page->ranked[turned ? c : r]);
        km_text_puts(page->out, "</tr>\n");
    }
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

static void add_heat(km_page *page, int64_t j, int64_t f) {
    double z = standardised(page, j, f);
    int shade = (int)fmin(fmax(round(z / SHADE), -SHADES), SHADES);
    km_text_printf(page->out, "<td class=\"h%c%d\">%s%.1f</td>", shade < 0 ? 'n' : 'p',
                   shade < 0 ? -shade : shade,
                   z < -.05   ? "−"
                   : z >= .05 ? "+"
                              : "",
                   fabs(z));
}

// Decimals that all values of a feature are written with: four digits of the largest, and hundredths of the standard
// deviation where these are finer, up to nine digits; -1: they need powers of ten.
static int decimals_of(const km_page *page, int64_t f) {
    double largest = 0, deviation = sqrt(page->result->variance[f]);
    for (int64_t c = 0; c < clusters_shown(page); c++)
        largest = fmax(largest, fabs(page->best->centroids[cluster_at(page, c) * page->result->d + f]));
    if (largest == 0) return 0;
    if (!(largest >= 1e-3 && largest < 1e7)) return -1;
    double digits = floor(log10(largest)), decimals = 3 - digits;
    if (deviation > 0) decimals = fmax(decimals, fmin(1 - floor(log10(deviation)), 8 - digits));
    return (int)fmin(fmax(decimals, 0), 6);
}

static void add_value(km_page *page, int64_t j, int64_t f) {
    int decimals = decimals_of(page, f);
    double value = page->best->centroids[j * page->result->d + f];
    km_text_puts(page->out, "<td>");
    if (decimals < 0 || !isfinite(value))
        km_html_number(page->out, value);
    else
        km_text_printf(page->out, "%s%.*f", value <= -.5 * pow(10, -decimals) ? "−" : "", decimals,
                       fabs(value));
    km_text_puts(page->out, "</td>");
}

static void add_table(km_page *page, const char *class, const char *caption, add_cell *add) {
    char classes[32];
    snprintf(classes, sizeof classes, "%s%s", class, is_turned(page) ? " turned" : "");
    km_html_table(page->out, classes, caption, NULL);
    add_rows(page, add);
    end_table(page);
}

km_status km_html_heat(km_page *page, km_error *err) {
    (void)err;
    add_table(page, "heat", "Centroids in standard deviations from the mean", add_heat);
    return KM_OK;
}

km_status km_html_centroids(km_page *page, km_error *err) {
    (void)err;
    add_table(page, "numbers", "Centroids in the units of the data", add_value);
    return KM_OK;
}
