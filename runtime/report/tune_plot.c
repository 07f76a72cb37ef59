// SPDX-License-Identifier: MIT
// A tuning as a picture: heat maps of its fastest designs, the times as colours on a logarithmic scale.
#include "picture.h"
#include "tune_map.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The page, in points.
#define PAGE_WIDTH 800.0
#define LEFT 24.0
#define RIGHT 776.0
#define BOTTOM_MARGIN 20.0
#define TITLE_SIZE 16.0
#define HEADING_SIZE 13.5
#define TEXT_SIZE 12.0
#define LABEL_SIZE 10.5
#define CELL_TEXT_MIN 8.0
// A panel: its title above, labels of rows left, of columns below.
#define AXIS_NAME 18.0 // a name of an axis, beside its labels
#define PANEL_TITLE 18.0
#define PANEL_LABELS 16.0
#define PANEL_GAP 12.0
#define CELL_WIDTH_MIN 40.0 // as long as that leaves several panels a row
#define CELL_WIDTH_MAX 72.0
#define CELL_HEIGHT 24.0
#define CELL_HEIGHT_MAX 44.0 // of few rows, beside which their number's name is to stand
#define PANEL_HEIGHT_MAX 480.0
#define SHEET_HEADING 30.0
#define SHEET_GAP 22.0
#define HATCH_STEP 6.0
#define BAR_HEIGHT 14.0
#define BAR_WIDTH 400.0
#define SYMBOL_WIDTH 26.0
#define SYMBOL_HEIGHT 18.0
#define RANGE_MIN 1.1 // slowest over fastest: what is closer together looks alike
#define RANGE_MAX 1e9 // ... and what is farther apart, too

enum { PANELS_ACROSS_MAX = 4, TICKS_MAX = 24 };

static const km_colour ink = {.15, .15, .17}, faint = {.80, .81, .83}, failed_grey = {.91, .91, .92},
                       hatch_grey = {.72, .72, .75}, white = {1, 1, 1}, best_red = {.86, .08, .10};

// What a page is drawn from.
typedef struct page_parts {
    const km_tune_result *result;
    const km_tune_map *map;
    const char *title, *subtitle;
} page_parts;

// Colours ---------------------------------------------------------------------------------------------------

// Viridis (CC0) at equal steps, the fastest bright, the slowest dark: even steps for the eye.
static const km_colour scale[] = {
    {.993, .906, .144}, {.678, .863, .190}, {.369, .789, .383}, {.158, .683, .502}, {.129, .569, .549},
    {.173, .449, .557}, {.230, .322, .546}, {.278, .176, .483}, {.267, .005, .329},
};
enum { SCALE_COUNT = sizeof scale / sizeof *scale };

// `at` 0: the fastest, 1: the slowest.
static km_colour scale_colour(double at) {
    double place = fmin(fmax(at, 0), 1) * (SCALE_COUNT - 1);
    int low = (int)fmin(place, SCALE_COUNT - 2);
    double part = place - low;
    const km_colour *a = &scale[low], *b = a + 1;
    return (km_colour){a->red + part * (b->red - a->red), a->green + part * (b->green - a->green),
                       a->blue + part * (b->blue - a->blue)};
}

static double range_of(const km_tune_map *map) {
    return fmin(fmax(map->slowest / map->fastest, RANGE_MIN), RANGE_MAX);
}

static double scale_place(const km_tune_map *map, double ms) {
    return log(ms / map->fastest) / log(range_of(map));
}

// Black or white, whichever has more contrast: by the luminance that WCAG 2 defines, about.
static km_colour text_colour(km_colour behind) {
    double luminance =
        .2126 * pow(behind.red, 2.2) + .7152 * pow(behind.green, 2.2) + .0722 * pow(behind.blue, 2.2);
    return luminance > .179 ? (km_colour){0, 0, 0} : white;
}

// Text ------------------------------------------------------------------------------------------------------

static double text_width(cairo_t *page, const char *text) {
    cairo_text_extents_t extents;
    cairo_text_extents(page, text, &extents);
    return extents.x_advance;
}

// In this size, or down to three quarters of it; what is longer even so is cut.
static void draw_cut(cairo_t *page, const char *text, double x, double y, double width, double size) {
    char cut[512];
    snprintf(cut, sizeof cut, "%s", text);
    km_text_plain(cut); // half a character at the end
    cairo_set_font_size(page, size);
    double wide = text_width(page, cut);
    if (wide > width) cairo_set_font_size(page, fmax(.75, width / wide) * size);
    for (int64_t left = (int64_t)strlen(cut) - 1; left > 3 && text_width(page, cut) > width; left--)
        km_text_cut(cut, left);
    km_draw_text(page, cut, x, y, 0);
}

// Centred, in a size that fits. Returns 0, and draws nothing, where that is too small to read.
static int draw_within(cairo_t *page, const char *text, double x, double y, double width, double size) {
    cairo_set_font_size(page, size);
    double wide = text_width(page, text);
    if (wide > width) size *= width / wide;
    if (size < CELL_TEXT_MIN) return 0;
    cairo_set_font_size(page, size);
    km_draw_text(page, text, x, y + size * .36, .5);
    return 1;
}

static void short_text(char text[KM_TUNE_MS_TEXT], double ms, int digits) {
    int decimals = digits - 1 - (int)floor(log10(ms));
    if (decimals > 5 || ms >= 1e6)
        snprintf(text, KM_TUNE_MS_TEXT, "%.1e", ms);
    else
        snprintf(text, KM_TUNE_MS_TEXT, "%.*f", decimals > 0 ? decimals : 0, ms);
}

// Cells -----------------------------------------------------------------------------------------------------

typedef struct box {
    double x, y, width, height;
} box;

static void outline(cairo_t *page, box b, double inset) {
    cairo_rectangle(page, b.x + inset, b.y + inset, b.width - 2 * inset, b.height - 2 * inset);
    cairo_stroke(page);
}

static void fill(cairo_t *page, box b, km_colour c) {
    km_use_colour(page, c);
    cairo_rectangle(page, b.x, b.y, b.width, b.height);
    cairo_fill(page);
}

static void draw_hatch(cairo_t *page, box b) {
    fill(page, b, failed_grey);
    cairo_save(page);
    cairo_rectangle(page, b.x, b.y, b.width, b.height);
    cairo_clip(page);
    km_use_colour(page, hatch_grey);
    cairo_set_line_width(page, 1);
    int count = (int)((b.width + b.height) / HATCH_STEP) + 1;
    for (int i = 0; i < count; i++) {
        double x = b.x - b.height + i * HATCH_STEP;
        cairo_move_to(page, x, b.y + b.height);
        cairo_line_to(page, x + b.height, b.y);
    }
    cairo_stroke(page);
    cairo_restore(page);
}

// The first letter of the outcome's name.
static void draw_failed(cairo_t *page, box b, km_tune_outcome outcome) {
    char letter[2] = {(char)toupper(km_tune_outcome_name(outcome)[0]), 0};
    draw_hatch(page, b);
    if (b.height < CELL_TEXT_MIN || b.width < CELL_TEXT_MIN) return;
    double size = fmin(LABEL_SIZE, b.height - 1), width = size + 1;
    fill(page, (box){b.x + (b.width - width) / 2, b.y + (b.height - size - 1) / 2, width, size + 1},
         failed_grey);
    km_use_colour(page, ink);
    draw_within(page, letter, b.x + b.width / 2, b.y + b.height / 2, width, size);
}

// White within black, so that it is seen on each colour.
static void draw_diamond(cairo_t *page, box b) {
    double size = fmin(4, fmin(b.width, b.height) / 3), x = b.x + b.width - size - 1, y = b.y + size + 1;
    cairo_move_to(page, x, y - size);
    cairo_line_to(page, x + size, y);
    cairo_line_to(page, x, y + size);
    cairo_line_to(page, x - size, y);
    cairo_close_path(page);
    km_use_colour(page, white);
    cairo_fill_preserve(page);
    km_use_colour(page, (km_colour){0, 0, 0});
    cairo_set_line_width(page, 1.4);
    cairo_stroke(page);
}

static void draw_best(cairo_t *page, box b) {
    km_use_colour(page, white);
    cairo_set_line_width(page, 4.5);
    outline(page, b, 0);
    km_use_colour(page, best_red);
    cairo_set_line_width(page, 2.5);
    outline(page, b, 0);
}

static void draw_timed(cairo_t *page, box b, const km_tune_map *map, double ms) {
    char text[KM_TUNE_MS_TEXT];
    km_colour colour = scale_colour(scale_place(map, ms));
    fill(page, b, colour);
    if (b.height < CELL_TEXT_MIN + 2) return;
    km_use_colour(page, text_colour(colour));
    for (int digits = 3; digits > 1; digits--) {
        short_text(text, ms, digits);
        if (draw_within(page, text, b.x + b.width / 2, b.y + b.height / 2, b.width - 4, LABEL_SIZE)) return;
    }
}

static void draw_cell(cairo_t *page, box b, const km_tune_map *map, const km_tune_candidate *shown) {
    if (!shown) return;
    km_tune_outcome outcome = km_tune_shown_outcome(shown);
    if (km_tune_is_timed(shown))
        draw_timed(page, b, map, shown->ms);
    else if (outcome != KM_TUNE_UNMEASURED)
        draw_failed(page, b, outcome);
    km_use_colour(page, km_tune_is_timed(shown) ? white : faint);
    cairo_set_line_width(page, fmin(1, b.width / 12));
    outline(page, b, 0);
}

// Panels ----------------------------------------------------------------------------------------------------

// Where the panels of a sheet lie.
typedef struct layout {
    int64_t across, down;
    double cell_width, cell_height;
    double labels; // left of a panel's cells
    double step;   // from a panel to the next one
    double panel_height;
    double height; // of the whole sheet
} layout;

// What a text takes in most fonts: the layout does not depend on which one there is.
static double about_width(const char *text, double size) {
    return (double)strlen(text) * size * .58;
}

static double longest_label(const km_tune_axis *axis) {
    double longest = 0;
    for (int64_t i = 0; i < axis->count; i++)
        longest = fmax(longest, about_width(axis->labels[i], LABEL_SIZE));
    return longest + 8;
}

static double panel_width(const km_tune_sheet *sheet, const layout *l, double cell_width) {
    return l->labels + cell_width * (double)sheet->columns.count + PANEL_GAP;
}

static layout make_layout(const km_tune_sheet *sheet) {
    layout l = {.across = sheet->panels.count < PANELS_ACROSS_MAX ? sheet->panels.count : PANELS_ACROSS_MAX};
    double width = RIGHT - LEFT - AXIS_NAME;
    l.labels = sheet->rows.name ? longest_label(&sheet->rows) : 0;
    double wish = fmin(fmax(longest_label(&sheet->columns), CELL_WIDTH_MIN), CELL_WIDTH_MAX);
    while (l.across > 1 && (double)l.across * panel_width(sheet, &l, wish) > width) l.across--;
    l.down = (sheet->panels.count + l.across - 1) / l.across;
    l.across = (sheet->panels.count + l.down - 1) / l.down; // rows of panels of about the same length
    l.step = width / (double)l.across;
    l.cell_width =
        fmin((l.step - l.labels - PANEL_GAP) / (double)sheet->columns.count, fmax(wish, CELL_WIDTH_MAX));
    l.step = fmin(l.step, panel_width(sheet, &l, l.cell_width) + PANEL_GAP);
    double name = sheet->rows.name ? about_width(sheet->rows.name, TEXT_SIZE) : 0,
           rows = (double)sheet->rows.count;
    l.cell_height = fmin(fmin(fmax(CELL_HEIGHT, name / rows), CELL_HEIGHT_MAX), PANEL_HEIGHT_MAX / rows);
    l.panel_height = (sheet->panels.name ? PANEL_TITLE : 0) + l.cell_height * (double)sheet->rows.count +
                     (sheet->columns.name ? PANEL_LABELS : 0) + PANEL_GAP;
    l.height =
        SHEET_HEADING + l.panel_height * (double)l.down + (sheet->columns.name ? AXIS_NAME : 0) + SHEET_GAP;
    return l;
}

// Every so many places one label, so that they do not touch.
static int64_t label_step(double label, double cell) {
    return cell >= label ? 1 : (int64_t)ceil(label / cell);
}

// Whether a place has a label, of every `step`; the last place of an axis with others always has one.
static int has_label(const km_tune_axis *axis, int64_t place, int64_t step) {
    int64_t last = axis->count - 1;
    if (!axis->name) return 0;
    if (axis->others && place > last - step) return place == last;
    return place % step == 0;
}

static void draw_labels(cairo_t *page, const km_tune_sheet *sheet, const layout *l, box cells) {
    // A few long words are drawn smaller; of many numbers some are left out.
    int64_t columns = sheet->columns.count,
            step = columns > 8 ? label_step(longest_label(&sheet->columns), l->cell_width) : 1;
    km_use_colour(page, ink);
    for (int64_t i = 0; i < columns; i++)
        if (has_label(&sheet->columns, i, step))
            draw_within(page, sheet->columns.labels[i], cells.x + ((double)i + .5) * l->cell_width,
                        cells.y + cells.height + PANEL_LABELS / 2 + 1, l->cell_width * (double)step - 2,
                        LABEL_SIZE);
    step = label_step(LABEL_SIZE, l->cell_height);
    cairo_set_font_size(page, LABEL_SIZE);
    for (int64_t i = 0; i < sheet->rows.count; i++)
        if (has_label(&sheet->rows, i, step))
            km_draw_text(page, sheet->rows.labels[i], cells.x - 5,
                         cells.y + ((double)i + .5) * l->cell_height + LABEL_SIZE * .36, 1);
}

static box cell_box(const layout *l, box cells, int64_t row, int64_t column) {
    return (box){cells.x + (double)column * l->cell_width, cells.y + (double)row * l->cell_height,
                 l->cell_width, l->cell_height};
}

static void draw_panel(cairo_t *page, const page_parts *parts, const km_tune_sheet *sheet, const layout *l,
                       int64_t panel, box cells) {
    int64_t rows = sheet->rows.count, columns = sheet->columns.count;
    for (int64_t i = 0; i < rows * columns; i++)
        draw_cell(page, cell_box(l, cells, i / columns, i % columns), parts->map,
                  km_tune_map_cell(sheet, panel, i / columns, i % columns)->shown);
    for (int64_t i = 0; i < rows * columns; i++) { // above the lines of cells beside them
        const km_tune_cell *cell = km_tune_map_cell(sheet, panel, i / columns, i % columns);
        box b = cell_box(l, cells, i / columns, i % columns);
        if (cell->has_best) draw_best(page, b);
        if (cell->has_standard) draw_diamond(page, b);
    }
    draw_labels(page, sheet, l, cells);
}

static void draw_panel_title(cairo_t *page, const km_tune_axis *axis, int64_t panel, box cells) {
    char title[96];
    snprintf(title, sizeof title, "%s: %s", axis->name, axis->labels[panel]);
    km_use_font(page, TEXT_SIZE, CAIRO_FONT_WEIGHT_NORMAL);
    km_use_colour(page, ink);
    km_draw_text(page, title, cells.x, cells.y - 5, 0);
}

// Sheets ----------------------------------------------------------------------------------------------------

static void draw_heading(cairo_t *page, const page_parts *parts, const km_tune_sheet *sheet, double y) {
    char text[256], ms[KM_TUNE_MS_TEXT];
    int used = snprintf(text, sizeof text, "%s: ", km_design_name(sheet->design));
    if (sheet->fastest) {
        used += snprintf(text + used, sizeof text - (size_t)used, "fastest %s ms",
                         km_tune_ms_text(ms, sheet->fastest->ms));
        double reads = sheet->fastest->ms / parts->result->read_ms;
        if (isfinite(reads) && reads > 0 && reads < 1e6)
            used += snprintf(text + used, sizeof text - (size_t)used, " (%.3g x read floor)", reads);
        used += snprintf(text + used, sizeof text - (size_t)used, ", ");
    }
    snprintf(text + used, sizeof text - (size_t)used, "%" PRId64 " of %" PRId64 " measured", sheet->timed,
             sheet->candidates);
    km_use_colour(page, ink);
    km_use_font(page, HEADING_SIZE, CAIRO_FONT_WEIGHT_BOLD);
    km_draw_text(page, text, LEFT, y + HEADING_SIZE, 0);
    km_use_font(page, TEXT_SIZE, CAIRO_FONT_WEIGHT_NORMAL);
}

// Turned, at half the height of the rows.
static void draw_row_name(cairo_t *page, const char *name, double y, double height) {
    cairo_save(page);
    cairo_translate(page, LEFT + TEXT_SIZE / 2, y);
    cairo_rotate(page, -M_PI / 2);
    draw_within(page, name, 0, 0, height + PANEL_TITLE, TEXT_SIZE);
    cairo_restore(page);
}

static void draw_sheet(cairo_t *page, const page_parts *parts, const km_tune_sheet *sheet, double y) {
    layout l = make_layout(sheet);
    draw_heading(page, parts, sheet, y);
    double top = y + SHEET_HEADING + (sheet->panels.name ? PANEL_TITLE : 0),
           width = l.cell_width * (double)sheet->columns.count,
           height = l.cell_height * (double)sheet->rows.count;
    for (int64_t i = 0; i < sheet->panels.count; i++) {
        box cells = {LEFT + AXIS_NAME + (double)(i % l.across) * l.step + l.labels,
                     top + (double)(i / l.across) * l.panel_height, width, height};
        if (sheet->panels.name) draw_panel_title(page, &sheet->panels, i, cells);
        draw_panel(page, parts, sheet, &l, i, cells);
        km_use_font(page, TEXT_SIZE, CAIRO_FONT_WEIGHT_NORMAL);
        km_use_colour(page, ink);
        if (sheet->rows.name && i % l.across == 0)
            draw_row_name(page, sheet->rows.name, cells.y + height / 2, height);
    }
    if (sheet->columns.name)
        km_draw_text(page, sheet->columns.name, LEFT + AXIS_NAME + l.labels + width / 2,
                     y + SHEET_HEADING + l.panel_height * (double)l.down + TEXT_SIZE / 2, .5);
}

// Legend ----------------------------------------------------------------------------------------------------

typedef struct ticks {
    double at[TICKS_MAX]; // of the slowest over the fastest
    int count;
} ticks;

// Unless another one is too close.
static void add_tick(ticks *all, double factor, double range) {
    if (factor < 1 || factor > range * 1.0001 || all->count == TICKS_MAX) return;
    for (int i = 0; i < all->count; i++)
        if (fabs(log(factor / all->at[i])) / log(range) * BAR_WIDTH < 44) return;
    all->at[all->count++] = factor;
}

// The rounder a number, the sooner it is taken.
static ticks make_ticks(double range) {
    static const double leads[][3] = {{1, 1, 1},   {2, 5, 5},       {1.5, 3, 7},
                                      {1.2, 4, 8}, {1.1, 1.3, 1.4}, {1.05, 1.02, 1.01}};
    ticks all = {.count = 0};
    add_tick(&all, 1, range);
    add_tick(&all, range, range);
    int powers = (int)log10(range) + 1;
    for (size_t level = 0; level < sizeof leads / sizeof *leads; level++)
        for (int i = 0; i < powers * 3; i++) add_tick(&all, leads[level][i % 3] * pow(10, i / 3), range);
    return all;
}

static void draw_bar(cairo_t *page, const km_tune_map *map, double y) {
    cairo_pattern_t *gradient = cairo_pattern_create_linear(LEFT, 0, LEFT + BAR_WIDTH, 0);
    for (int i = 0; i < SCALE_COUNT; i++)
        cairo_pattern_add_color_stop_rgb(gradient, (double)i / (SCALE_COUNT - 1), scale[i].red,
                                         scale[i].green, scale[i].blue);
    cairo_set_source(page, gradient);
    cairo_rectangle(page, LEFT, y, BAR_WIDTH, BAR_HEIGHT);
    cairo_fill(page);
    cairo_pattern_destroy(gradient);
    ticks all = make_ticks(range_of(map));
    km_use_colour(page, ink);
    cairo_set_line_width(page, 1);
    km_use_font(page, LABEL_SIZE, CAIRO_FONT_WEIGHT_NORMAL);
    for (int i = 0; i < all.count; i++) {
        char factor[32], ms[KM_TUNE_MS_TEXT];
        double at = log(all.at[i]) / log(range_of(map)), x = LEFT + at * BAR_WIDTH;
        snprintf(factor, sizeof factor, "%.3g x", all.at[i]);
        short_text(ms, all.at[i] * map->fastest, 3);
        km_draw_line(page, x, y + BAR_HEIGHT, x, y + BAR_HEIGHT + 3);
        double align = i > 1 ? .5 : at; // the ends stay inside
        km_draw_text(page, factor, x, y + BAR_HEIGHT + 14, align);
        km_draw_text(page, ms, x, y + BAR_HEIGHT + 26, align);
    }
    km_draw_text(page, "of the fastest", LEFT + BAR_WIDTH + 16, y + BAR_HEIGHT + 14, 0);
    km_draw_text(page, "ms", LEFT + BAR_WIDTH + 16, y + BAR_HEIGHT + 26, 0);
}

typedef struct legend {
    cairo_t *page; // NULL: nothing is drawn
    double x, y;   // of the next symbol
} legend;

// A symbol's frame and its meaning. Returns where the symbol goes.
static box next_symbol(legend *l, const char *text) {
    double width = SYMBOL_WIDTH + 6 + about_width(text, LABEL_SIZE) + 18;
    if (l->x > LEFT && l->x + width > RIGHT) {
        l->x = LEFT;
        l->y += SYMBOL_HEIGHT + 8;
    }
    box b = {l->x, l->y, SYMBOL_WIDTH, SYMBOL_HEIGHT};
    l->x += width;
    if (!l->page) return b;
    km_use_font(l->page, LABEL_SIZE, CAIRO_FONT_WEIGHT_NORMAL);
    km_use_colour(l->page, ink);
    km_draw_text(l->page, text, b.x + SYMBOL_WIDTH + 6, b.y + SYMBOL_HEIGHT / 2 + LABEL_SIZE * .36, 0);
    km_use_colour(l->page, faint);
    cairo_set_line_width(l->page, 1);
    outline(l->page, b, 0);
    return b;
}

// Only what occurs. Returns the height that it takes.
static double draw_symbols(cairo_t *page, const km_tune_map *map, double y) {
    legend l = {page, LEFT, y};
    box b;
    if (map->fastest) {
        b = next_symbol(&l, "chosen");
        if (page) draw_best(page, b);
    }
    if (!map->sheets_count) return 0;
    b = next_symbol(&l, "the planner's default");
    if (page) draw_diamond(page, b);
    if (map->outcomes[KM_TUNE_UNMEASURED]) next_symbol(&l, "not measured");
    for (int i = 0; i < KM_TUNE_OUTCOME_COUNT; i++) {
        if (!map->outcomes[i] || i == KM_TUNE_MEASURED || i == KM_TUNE_UNMEASURED) continue;
        b = next_symbol(&l, km_tune_outcome_name((km_tune_outcome)i));
        if (page) draw_failed(page, b, (km_tune_outcome)i);
    }
    return l.y + SYMBOL_HEIGHT - y;
}

// Page ------------------------------------------------------------------------------------------------------

#define HEAD_HEIGHT 86.0
#define LEGEND_BAR 52.0

static double head_height(const km_tune_map *map) {
    return HEAD_HEIGHT + (map->fastest ? LEGEND_BAR : 0) + draw_symbols(NULL, map, 0) + SHEET_GAP;
}

static double page_height(const km_tune_map *map) {
    double height = head_height(map) + BOTTOM_MARGIN;
    for (int64_t i = 0; i < map->sheets_count; i++) height += make_layout(&map->sheets[i]).height;
    return height;
}

static void draw_head(cairo_t *page, const page_parts *parts) {
    const km_tune_map *map = parts->map;
    km_use_colour(page, ink);
    km_use_font(page, TITLE_SIZE, CAIRO_FONT_WEIGHT_BOLD);
    draw_cut(page, parts->title, LEFT, 32, RIGHT - LEFT, TITLE_SIZE);
    km_use_font(page, TEXT_SIZE, CAIRO_FONT_WEIGHT_NORMAL);
    draw_cut(page, parts->subtitle, LEFT, 52, RIGHT - LEFT, TEXT_SIZE);
    cairo_set_font_size(page, TEXT_SIZE);
    km_draw_text(page,
                 map->fastest ? "ms of a pass; each cell is the fastest candidate with its numbers"
                              : "no candidate was measured",
                 LEFT, 70, 0);
    double y = HEAD_HEIGHT;
    if (map->fastest) draw_bar(page, map, y);
    draw_symbols(page, map, y + (map->fastest ? LEGEND_BAR : 0));
}

static void draw_page(cairo_t *page, const void *what) {
    const page_parts *parts = what;
    double y = head_height(parts->map);
    draw_head(page, parts);
    for (int64_t i = 0; i < parts->map->sheets_count; i++) {
        draw_sheet(page, parts, &parts->map->sheets[i], y);
        y += make_layout(&parts->map->sheets[i]).height;
    }
}

km_status km_tune_plot(const char *path, const km_tune_result *result, km_error *err) {
    km_text title = {0}, subtitle = {0}, words = {0};
    km_tune_map map;
    KM_TRY(km_tune_map_make(&map, result, err));
    km_text_puts(&title, "kmgen tune on ");
    km_tune_device_line(&title, result);
    km_tune_shape_line(&subtitle, result);
    km_tune_map_words(&words, &map);
    km_status status;
    if (title.failed || subtitle.failed || words.failed) {
        status = km_fail_memory(err, "the picture", words.size);
    } else {
        const page_parts parts = {result, &map, title.data, subtitle.data};
        const km_picture picture = {PAGE_WIDTH, page_height(&map), draw_page, &parts, title.data, words.data};
        status = km_picture_write(path, &picture, err);
    }
    km_text_clear(&title);
    km_text_clear(&subtitle);
    km_text_clear(&words);
    km_tune_map_clear(&map);
    return status;
}
