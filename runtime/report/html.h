// SPDX-License-Identifier: MIT
// The page of a fit: page/ holds its skeleton, one file html_*.c each of its sections, which html.c fills in;
// html_write.c has what they are written with.
#ifndef KM_RUNTIME_REPORT_HTML_H
#define KM_RUNTIME_REPORT_HTML_H
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../base/text.h"
#include "axis.h"
#include "html_sample.h"

#include <kmgen/result.h>

// Most of what a page lists; what is beyond it is said.
enum {
    KM_PAGE_CLUSTERS_MAX = 100, // of one K
    KM_PAGE_FEATURES_MAX = 60,
    KM_PAGE_NAME_COLUMNS = 90, // of a name, as wide as that many letters
    KM_PAGE_COLOURS = 8,       // the palette of page/report.css
    KM_PAGE_SHAPES = 7         // no divisor in common with the colours: 56 marks are different
};

typedef struct km_page {
    km_text *out;
    const km_result *result;
    const km_model *best;
    const km_data *data;
    const km_report_params *params;
    km_html_sample sample;
    char **names;      // d: of features, fit to be shown, not escaped; one that was cut has its number
    double *separates; // d: the share of a feature's variance that lies between the clusters of the best K
    int64_t *ranked;   // d: features, those that separate most first
    int64_t *largest;  // clusters of the best K, those with most points first
} km_page;

// One section; its place in the skeleton is {{name}}.
typedef km_status km_page_part(km_page *page, km_error *err);
km_page_part km_html_head, km_html_shapes, km_html_choice, km_html_warnings, km_html_criteria,
    km_html_inertia, km_html_components, km_html_sizes, km_html_silhouette, km_html_splits, km_html_heat,
    km_html_centroids, km_html_features, km_html_run;

// A sentence in HTML, in which no line ends inside an option, between "K =" and its number, or before "%".
void km_html_sentence(km_text *out, const char *sentence);
// Text in HTML: the characters that mean something there are written by name, control characters as '?'.
void km_html_text(km_text *out, const char *text);
// A number for people: five digits that count, "–" where it is not defined.
void km_html_number(km_text *out, double value);
// A count with a thin space between thousands.
void km_html_count(km_text *out, int64_t count);
// "12.3 %"; `whole` 0: "–".
void km_html_share(km_text *out, double part, double whole);
// The mark of a cluster of model m: its shape and colour, which no reader need see as its number stands beside it.
void km_html_mark(km_page *page, int64_t m, int64_t cluster);
// A bar inside a cell, `share` of it long.
void km_html_bar(km_text *out, double share);
// What is folded under a picture: a table that scrolls in its own box, up to its first row; and its end.
void km_html_details(km_text *out, const char *summary, const char *caption, const char *const *heads);
void km_html_end_details(km_text *out);
// A box in which a table scrolls, what it is called for who cannot see it, up to the first row; and its end.
void km_html_table(km_text *out, const char *class, const char *caption, const char *const *heads);
void km_html_end_table(km_text *out);
// The row of column names, NULL after the last, "": a column of bars.
void km_html_heads(km_text *out, const char *const *heads);
// "<svg ...><title>...</title><desc>...</desc>"; `id` is this picture's own, words are plain text.
void km_html_svg(km_text *out, const char *id, double width, double height, const char *title,
                 const char *words);
// Ticks and lines of both axes, and their names where they have one; a power of ten stands at the top left.
void km_html_axes(km_text *out, const km_axis *x, const km_axis *y, const char *x_name, const char *y_name);
// A line through the values of all models, broken where one is not defined.
void km_html_line(km_page *page, const double *values, const km_axis *x, const km_axis *y);

#endif
