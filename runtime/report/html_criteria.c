// SPDX-License-Identifier: MIT
// Every criterion over K: a small picture each, with its choice ringed, and all scores as a table.
#include "html.h"
#include "../../base/wording.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define WIDTH 300.0
#define HEIGHT 168.0

static int is_defined(const double *values, int64_t count) {
    double low, high;
    return km_axis_range(&low, &high, values, count);
}

static int is_computed(const km_page *page, int criterion) {
    return (page->result->criteria >> criterion & 1) != 0;
}

static const char *preference(km_criterion criterion) {
    switch (km_criterion_best(criterion)) {
    case KM_BEST_MAX:
        return "higher is better";
    case KM_BEST_MIN:
        return "lower is better";
    default:
        return "by a rule of its own";
    }
}

static void add_dots(km_page *page, const double *values, int64_t vote, const km_axis *x, const km_axis *y) {
    const km_result *result = page->result;
    double radius = result->models_count <= 30 ? 2.6 : 1.6;
    for (int64_t m = 0; m < result->models_count; m++) {
        double at_x = km_axis_place(x, result->models[m].k), at_y = km_axis_place(y, values[m]);
        if (!isfinite(values[m])) continue;
        km_text_printf(page->out, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", at_x, at_y,
                       radius);
        if (result->models[m].k == vote)
            km_text_printf(page->out, "<circle class=\"ring\" cx=\"%.1f\" cy=\"%.1f\" r=\"6.5\"/>", at_x,
                           at_y);
    }
    km_text_puts(page->out, "\n");
}

// Standard errors, of those that have them.
static void add_errors(km_page *page, km_criterion criterion, const km_axis *x, const km_axis *y) {
    for (int64_t m = 0; m < page->result->models_count; m++) {
        const km_model *model = &page->result->models[m];
        double score = model->scores[criterion], error = model->score_errors[criterion];
        if (!isfinite(score) || !isfinite(error)) continue;
        km_text_printf(page->out, "<path class=\"error\" d=\"M%.1f %.1fV%.1f\"/>", km_axis_place(x, model->k),
                       km_axis_place(y, score - error), km_axis_place(y, score + error));
    }
}

static void add_caption(km_page *page, km_criterion criterion, int64_t vote) {
    const km_selection *selection = &page->result->selection;
    int decides = selection->asked != KM_CRITERION_AUTO && criterion == selection->criterion;
    int is_tinted = decides || (selection->asked == KM_CRITERION_AUTO && vote == page->best->k);
    km_text_printf(page->out, "<figure class=\"small%s\">\n<figcaption><b>", is_tinted ? " decides" : "");
    km_html_text(page->out, km_criterion_title(criterion));
    if (vote >= 0)
        km_text_printf(page->out, "</b> <span><em>%s K&nbsp;=&nbsp;%lld</em>, ",
                       decides ? "decides:" : "prefers", (long long)vote);
    else
        km_text_puts(page->out, "</b> <span><em>prefers no K</em>, ");
    km_text_printf(page->out, "%s</span></figcaption>\n", preference(criterion));
}

static void add_picture(km_page *page, km_criterion criterion, const double *values) {
    const km_result *result = page->result;
    int64_t vote = result->selection.votes[criterion], count = result->models_count;
    char id[32], words[200], choice[64] = "it prefers no K";
    km_axis x = km_axis_of_k(result->models[0].k, result->models[count - 1].k, 64, WIDTH - 8, 8);
    km_axis y = km_axis_of_values(values, count, HEIGHT - 24, 12);
    if (y.exponent) y.end = 28; // its power of ten stands above
    if (vote >= 0) snprintf(choice, sizeof choice, "it prefers K = %lld", (long long)vote);
    snprintf(id, sizeof id, "criterion-%d", (int)criterion);
    snprintf(words, sizeof words, "A line over the number of clusters, %s; %s.", preference(criterion),
             choice);
    add_caption(page, criterion, vote);
    km_html_svg(page->out, id, WIDTH, HEIGHT, km_criterion_title(criterion), words);
    km_html_axes(page->out, &x, &y, NULL, NULL);
    double chosen = km_axis_place(&x, page->best->k);
    km_text_printf(page->out, "<path class=\"chosen\" d=\"M%.1f %.1fV%.1f\"/>\n", chosen, y.end, y.begin);
    km_html_line(page, values, &x, &y);
    add_errors(page, criterion, &x, &y);
    add_dots(page, values, vote, &x, &y);
    km_text_puts(page->out, "</svg>\n</figure>\n");
}

static void take_scores(double *values, const km_page *page, int c) {
    for (int64_t m = 0; m < page->result->models_count; m++) values[m] = page->result->models[m].scores[c];
}

static void add_pictures(km_page *page, double *values) {
    int decides = (int)page->result->selection.criterion;
    km_text_puts(page->out, "<div class=\"multiples\">\n");
    for (int i = -1; i < KM_CRITERION_COUNT; i++) { // what decides comes first
        int c = i < 0 ? decides : i;
        if (c < 0 || c >= KM_CRITERION_COUNT || (i >= 0 && c == decides)) continue;
        take_scores(values, page, c);
        if (is_defined(values, page->result->models_count)) add_picture(page, (km_criterion)c, values);
    }
    km_text_puts(page->out, "</div>\n");
}

// Those without a picture: that nobody asked for, or that no K of the list has.
static void add_missing(km_page *page, double *values, int computed, const char *words, const char *end) {
    const char *between = words;
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        take_scores(values, page, c);
        if (is_defined(values, page->result->models_count) || is_computed(page, c) != computed) continue;
        km_text_puts(page->out, between);
        km_html_text(page->out, km_criterion_title((km_criterion)c));
        between = ", ";
    }
    if (between != words) km_text_puts(page->out, end);
}

static void add_row(km_page *page, const km_model *model) {
    km_text_printf(page->out, "<tr%s><th scope=\"row\">%d</th>",
                   model == page->best ? " class=\"chosen\"" : "", model->k);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        int preferred = page->result->selection.votes[c] == model->k;
        km_text_puts(page->out, preferred ? "<td><b>" : "<td>");
        km_html_number(page->out, model->scores[c]);
        if (isfinite(model->score_errors[c])) {
            km_text_puts(page->out, " ± ");
            km_html_number(page->out, model->score_errors[c]);
        }
        km_text_puts(page->out, preferred ? "&nbsp;★</b></td>" : "</td>");
    }
    km_text_puts(page->out, "</tr>\n");
}

static void add_table(km_page *page) {
    const char *heads[KM_CRITERION_COUNT + 2] = {"K"};
    for (int c = 0; c < KM_CRITERION_COUNT; c++) heads[c + 1] = km_criterion_title((km_criterion)c);
    km_html_details(page->out, "All scores as a table", "Scores; ★ the K that a criterion prefers", heads);
    for (int64_t m = 0; m < page->result->models_count; m++) add_row(page, &page->result->models[m]);
    km_html_end_details(page->out);
}

km_status km_html_criteria(km_page *page, km_error *err) {
    int64_t bytes = page->result->models_count * (int64_t)sizeof(double);
    double *values = malloc((size_t)bytes);
    km_text measures = {0};
    if (!values) return km_fail_memory(err, "the report's scores", bytes);
    add_pictures(page, values);
    add_missing(page, values, 1, "<p class=\"note\">Not defined for these K: ", ".</p>\n");
    km_text_puts(&measures, " (");
    km_html_sentence(&measures, km_say(KM_SAY_CRITERIA));
    km_text_puts(&measures, " measures them).</p>\n");
    if (measures.failed)
        page->out->failed = 1;
    else
        add_missing(page, values, 0, "<p class=\"note\">Not measured: ", measures.data);
    km_text_clear(&measures);
    add_table(page);
    free(values);
    return KM_OK;
}
