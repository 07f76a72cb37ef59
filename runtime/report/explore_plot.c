// SPDX-License-Identifier: MIT
// How often each column is among the best subsets, as a picture of bars.
#include "../../base/text.h"
#include "../explore/explored.h"
#include "axis.h"
#include "picture.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define PAGE_WIDTH 640.0
#define LEFT 190.0
#define RIGHT 600.0
#define TOP 76.0
#define BAR 18.0
#define STEP 26.0
#define TEXT_SIZE 13.0
#define NUMBER_WIDTH 34.0
enum { NAME_COLUMNS = 24 };

static const km_colour ink = {.15, .15, .17}, faint = {.86, .87, .89}, blue = {.12, .38, .66},
                       orange = {.85, .45, .1};

static int64_t bars_count(const km_explore_result *result) {
    int64_t count = 0;
    for (int64_t c = 0; c < result->d; c++) count += result->in_subsets[c] > 0;
    return count;
}

static void draw_ticks(cairo_t *page, const km_axis *axis, double bottom) {
    for (int i = 0; i < km_axis_ticks(axis); i++) {
        char text[64];
        double x = km_axis_tick(text, sizeof text, axis, i);
        km_use_colour(page, faint);
        km_draw_line(page, x, TOP, x, bottom);
        km_use_colour(page, ink);
        km_draw_text(page, text, x, bottom + TEXT_SIZE + 6, .5);
    }
}

// A column's bar, its number, and a mark where chance would end it: a column that is in many subsets is in many of the
// best ones.
static void draw_bar(cairo_t *page, const km_explore_result *result, const km_axis *axis, int64_t c,
                     double y) {
    double end = km_axis_place(axis, (double)result->among_best[c]);
    double chance = (double)result->in_subsets[c] / (double)result->count * (double)result->best;
    double mark = km_axis_place(axis, chance);
    char text[512];
    km_use_colour(page, blue);
    cairo_rectangle(page, LEFT, y + (STEP - BAR) / 2, end - LEFT, BAR);
    cairo_fill(page);
    km_use_colour(page, ink);
    if (result->names)
        snprintf(text, sizeof text, "%s", result->names[c]);
    else
        snprintf(text, sizeof text, "column %lld", (long long)c + 1);
    km_text_plain(text);
    km_text_shorten(text, NAME_COLUMNS);
    km_draw_text(page, text, LEFT - 8, y + STEP / 2 + TEXT_SIZE * .35, 1);
    snprintf(text, sizeof text, "%lld", (long long)result->among_best[c]);
    // At the end of its bar, but not across the mark.
    double at = mark > end && mark < end + NUMBER_WIDTH ? mark + 6 : end + 6;
    km_draw_text(page, text, at, y + STEP / 2 + TEXT_SIZE * .35, 0);
    km_use_colour(page, orange);
    cairo_set_line_width(page, 2);
    km_draw_line(page, mark, y + 2, mark, y + STEP - 2);
    cairo_set_line_width(page, 1);
}

static void draw(cairo_t *page, const void *what) {
    const km_explore_result *result = what;
    double values[2] = {0, (double)result->best}, bottom = TOP + STEP * (double)bars_count(result), y = TOP;
    char text[200];
    km_axis axis = km_axis_of_values(values, 2, LEFT, RIGHT);
    snprintf(text, sizeof text, "How many of the best %lld of %lld subsets have the column (by %s)",
             (long long)result->best, (long long)result->count, km_rank_title(result->rank));
    km_use_font(page, 15, CAIRO_FONT_WEIGHT_BOLD);
    km_use_colour(page, ink);
    km_draw_fitted(page, text, 20, 32, PAGE_WIDTH - 40, 15);
    km_use_font(page, TEXT_SIZE, CAIRO_FONT_WEIGHT_NORMAL);
    km_draw_text(page, "Orange: how many it would be by chance, as the column is in so many of all subsets",
                 20, 54, 0);
    cairo_set_line_width(page, 1);
    draw_ticks(page, &axis, bottom);
    for (int64_t often = result->best; often >= 0; often--) // the column that most of the best have first
        for (int64_t c = 0; c < result->d; c++) {
            if (!result->in_subsets[c] || result->among_best[c] != often) continue;
            draw_bar(page, result, &axis, c, y);
            y += STEP;
        }
    km_use_colour(page, ink);
    km_draw_line(page, LEFT, TOP, LEFT, bottom);
}

km_status km_explore_plot(const char *path, const km_explore_result *result, km_error *err) {
    km_picture picture = {.width = PAGE_WIDTH,
                          .height = TOP + STEP * (double)bars_count(result) + 44,
                          .draw = draw,
                          .what = result,
                          .title = "Columns of the best subsets"};
    return km_picture_write(path, &picture, err);
}
