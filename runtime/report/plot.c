// SPDX-License-Identifier: MIT
// A result as a picture: inertia over K above, the deciding criterion below, the best K marked in both.
#include "axis.h"
#include "picture.h"

#include <kmgen/result.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The page, in points.
#define PAGE_WIDTH 800.0
#define PAGE_HEIGHT 640.0
#define PANEL_LEFT 100.0
#define PANEL_RIGHT 776.0
#define TICK_SIZE 5.0
#define TEXT_SIZE 13.0
#define TITLE_SIZE 16.0
enum { TEXT_MAX = 600 };

static const km_colour ink = {.15, .15, .17}, faint = {.86, .87, .89}, line_blue = {.12, .38, .66},
                       best_red = {.80, .20, .12};

typedef struct panel {
    const km_result *result;
    const double *values; // one for each model, NaN: not defined
    const char *title, *better;
    double top, bottom;
    km_axis x, y;
} panel;

// Panels ----------------------------------------------------------------------------------------------------

static void draw_y_ticks(cairo_t *page, const panel *p) {
    for (int i = 0; i < km_axis_ticks(&p->y); i++) {
        char text[64];
        double y = km_axis_tick(text, sizeof text, &p->y, i);
        km_use_colour(page, faint);
        km_draw_line(page, PANEL_LEFT, y, PANEL_RIGHT, y);
        km_use_colour(page, ink);
        km_draw_text(page, text, PANEL_LEFT - 8, y + TEXT_SIZE * .35, 1);
    }
}

static void draw_x_ticks(cairo_t *page, const panel *p) {
    km_use_colour(page, ink);
    double first = ceil(p->x.low / p->x.step);
    for (int64_t i = 0; (first + (double)i) * p->x.step <= p->x.high; i++) {
        double k = (first + (double)i) * p->x.step;
        if (k < 1) continue;
        double x = km_axis_place(&p->x, k);
        char text[32];
        snprintf(text, sizeof text, "%.0f", k);
        km_draw_line(page, x, p->bottom, x, p->bottom + TICK_SIZE);
        km_draw_text(page, text, x, p->bottom + TICK_SIZE + TEXT_SIZE + 2, .5);
    }
    km_draw_line(page, PANEL_LEFT, p->bottom, PANEL_RIGHT, p->bottom);
}

// ", in 10" and the exponent, raised.
static void add_power(char *text, size_t size, int exponent) {
    static const char *const raised[] = {"⁰", "¹", "²", "³", "⁴", "⁵", "⁶", "⁷", "⁸", "⁹"};
    char digits[16];
    snprintf(digits, sizeof digits, "%d", exponent);
    snprintf(text + strlen(text), size - strlen(text), ", in 10");
    for (const char *c = digits; *c; c++)
        snprintf(text + strlen(text), size - strlen(text), "%s", *c == '-' ? "⁻" : raised[*c - '0']);
}

static void draw_y_title(cairo_t *page, const panel *p) {
    char text[96];
    snprintf(text, sizeof text, "%s%s", p->title, p->better);
    if (p->y.exponent) add_power(text, sizeof text, p->y.exponent);
    cairo_save(page);
    cairo_translate(page, 20, (p->top + p->bottom) / 2);
    cairo_rotate(page, -M_PI / 2);
    km_use_colour(page, ink);
    km_draw_text(page, text, 0, 0, .5);
    cairo_restore(page);
}

// A broken line through the defined values, and a dot on each.
static void draw_values(cairo_t *page, const panel *p) {
    const km_result *result = p->result;
    int64_t count = result->models_count;
    double radius = count <= 30 ? 3.5 : count <= 100 ? 2 : 1;
    km_use_colour(page, line_blue);
    cairo_set_line_width(page, 1.6);
    int pen_down = 0;
    for (int64_t m = 0; m < count; m++) {
        if (!isfinite(p->values[m])) {
            pen_down = 0;
            continue;
        }
        double x = km_axis_place(&p->x, result->models[m].k), y = km_axis_place(&p->y, p->values[m]);
        if (pen_down)
            cairo_line_to(page, x, y);
        else
            cairo_move_to(page, x, y);
        pen_down = 1;
    }
    cairo_stroke(page);
    for (int64_t m = 0; m < count; m++) {
        if (!isfinite(p->values[m])) continue;
        cairo_arc(page, km_axis_place(&p->x, result->models[m].k), km_axis_place(&p->y, p->values[m]), radius,
                  0, 2 * M_PI);
        cairo_fill(page);
    }
    cairo_set_line_width(page, 1);
}

// The name of the best K goes to the side of the line that has room for it.
static void draw_best_name(cairo_t *page, const panel *p, double x) {
    char text[48];
    snprintf(text, sizeof text, "best K%s = %d", p->result->selection.clustered ? "" : " of the list",
             p->result->models[p->result->selection.best].k);
    km_use_font(page, TEXT_SIZE, CAIRO_FONT_WEIGHT_BOLD);
    int left = x > PANEL_RIGHT - 180;
    km_draw_text(page, text, left ? x - 7 : x + 7, p->top + TEXT_SIZE - 2, left);
    km_use_font(page, TEXT_SIZE, CAIRO_FONT_WEIGHT_NORMAL);
}

static void draw_best(cairo_t *page, const panel *p) {
    static const double dashes[] = {5, 4};
    int64_t best = p->result->selection.best;
    double x = km_axis_place(&p->x, p->result->models[best].k);
    km_use_colour(page, best_red);
    cairo_set_dash(page, dashes, 2, 0);
    km_draw_line(page, x, p->top, x, p->bottom);
    cairo_set_dash(page, NULL, 0, 0);
    if (isfinite(p->values[best])) {
        cairo_arc(page, x, km_axis_place(&p->y, p->values[best]), 6, 0, 2 * M_PI);
        cairo_fill(page);
    }
    draw_best_name(page, p, x);
}

static void draw_panel(cairo_t *page, const panel *p) {
    double low, high;
    int has_values = km_axis_range(&low, &high, p->values, p->result->models_count);
    cairo_set_line_width(page, 1);
    km_use_font(page, TEXT_SIZE, CAIRO_FONT_WEIGHT_NORMAL);
    if (has_values) draw_y_ticks(page, p);
    draw_x_ticks(page, p);
    draw_y_title(page, p);
    if (has_values) draw_values(page, p);
    draw_best(page, p);
    km_use_colour(page, ink);
    if (!has_values)
        km_draw_text(page, "not defined for these K", (PANEL_LEFT + PANEL_RIGHT) / 2,
                     (p->top + p->bottom) / 2, .5);
}

static panel make_panel(const km_result *result, const double *values, const char *title, double top,
                        double bottom) {
    panel p = {
        .result = result, .values = values, .title = title, .better = "", .top = top, .bottom = bottom};
    p.x = km_axis_of_k(result->models[0].k, result->models[result->models_count - 1].k, PANEL_LEFT,
                       PANEL_RIGHT, 12);
    // The best K's name has the space above the highest value.
    p.y = km_axis_of_values(values, result->models_count, bottom, top + TEXT_SIZE + 4);
    return p;
}

// Why this K; that there are no clusters comes first.
static void reason_text(char *text, size_t size, const km_result *result) {
    const km_selection *selection = &result->selection;
    snprintf(text, size, "%s%s", selection->clustered ? "" : "The data look like no clusters; of the list, ",
             selection->reason);
}

static void draw_head(cairo_t *page, const km_result *result) {
    char text[TEXT_MAX];
    snprintf(text, sizeof text, "k-means of %lld points with %lld feature%s, %lld restart%s of each K",
             (long long)result->n, (long long)result->d, result->d == 1 ? "" : "s", (long long)result->n_init,
             result->n_init == 1 ? "" : "s");
    km_use_colour(page, ink);
    km_use_font(page, TITLE_SIZE, CAIRO_FONT_WEIGHT_BOLD);
    km_draw_fitted(page, text, PANEL_LEFT, 30, PANEL_RIGHT - PANEL_LEFT, TITLE_SIZE);
    km_use_font(page, TEXT_SIZE, CAIRO_FONT_WEIGHT_NORMAL);
    reason_text(text, sizeof text, result);
    km_draw_fitted(page, text, PANEL_LEFT, 51, PANEL_RIGHT - PANEL_LEFT, TEXT_SIZE);
}

typedef struct sheet {
    const km_result *result;
    double *values; // room for one number a model
} sheet;

static void draw_page(cairo_t *page, const void *what) {
    const km_result *result = ((const sheet *)what)->result;
    double *values = ((const sheet *)what)->values;
    km_criterion criterion = result->selection.criterion;
    draw_head(page, result);
    for (int64_t m = 0; m < result->models_count; m++) values[m] = result->models[m].inertia;
    panel upper = make_panel(result, values, "inertia", 70, 300);
    draw_panel(page, &upper);
    for (int64_t m = 0; m < result->models_count; m++) values[m] = result->models[m].scores[criterion];
    panel lower = make_panel(result, values, km_criterion_title(criterion), 344, 574);
    if (km_criterion_best(criterion) == KM_BEST_MAX) lower.better = ", higher is better";
    if (km_criterion_best(criterion) == KM_BEST_MIN) lower.better = ", lower is better";
    draw_panel(page, &lower);
    km_draw_text(page, "number of clusters K", (PANEL_LEFT + PANEL_RIGHT) / 2, 618, .5);
}

km_status km_result_plot(const char *path, const km_result *result, km_error *err) {
    double *values = malloc((size_t)result->models_count * sizeof *values);
    if (!values) return km_fail_memory(err, "the picture", result->models_count * (int64_t)sizeof *values);
    const sheet what = {result, values};
    char words[TEXT_MAX];
    reason_text(words, sizeof words, result);
    km_text_plain(words);
    const km_picture picture = {PAGE_WIDTH,
                                PAGE_HEIGHT,
                                draw_page,
                                &what,
                                "Inertia and the deciding criterion over the number of clusters K",
                                words};
    km_status status = km_picture_write(path, &picture, err);
    free(values);
    return status;
}
