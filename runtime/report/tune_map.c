// SPDX-License-Identifier: MIT
#include "tune_map.h"
#include "../../gen/words.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Which candidate is shown ----------------------------------------------------------------------------------

km_tune_outcome km_tune_shown_outcome(const km_tune_candidate *shown) {
    return shown->outcome == KM_TUNE_MEASURED && !km_tune_is_timed(shown) ? KM_TUNE_UNMEASURED
                                                                          : shown->outcome;
}

// 0: a time, 1: a failure, 2: not measured, 3: none.
static int kind(const km_tune_candidate *candidate) {
    if (!candidate) return 3;
    if (km_tune_is_timed(candidate)) return 0;
    return km_tune_shown_outcome(candidate) == KM_TUNE_UNMEASURED ? 2 : 1;
}

// Negative when `a` is to be shown rather than `b`; either may be NULL.
static int compare(const km_tune_candidate *a, const km_tune_candidate *b) {
    int kinds = kind(a) - kind(b);
    if (kinds || kind(a)) return kinds;
    return a->ms < b->ms ? -1 : a->ms > b->ms;
}

static void take_better(const km_tune_candidate **shown, const km_tune_candidate *candidate) {
    if (compare(candidate, *shown) < 0) *shown = candidate;
}

// Axes ------------------------------------------------------------------------------------------------------

enum { NO_VALUE = -1 }; // of a candidate that lacks the number; all values are positive or places of words

typedef struct value {
    int64_t value;
    const km_tune_candidate *shown; // the best of those that have it
    int is_marked;                  // the default has it, or the chosen one
} value;

// A number that the design's candidates differ in.
typedef struct variable {
    const char *name;
    int is_word;
    value *values; // ascending
    int64_t count;
    uint8_t *places; // of each candidate's value among them, or KM_TUNE_PLACES_MAX - 1
} variable;

static int by_value(const void *left, const void *right) {
    int64_t a = ((const value *)left)->value, b = ((const value *)right)->value;
    return a < b ? -1 : a > b;
}

static int by_shown(const void *left, const void *right) {
    const value *a = left, *b = right;
    if (a->is_marked != b->is_marked) return b->is_marked - a->is_marked;
    int order = compare(a->shown, b->shown);
    return order ? order : by_value(left, right);
}

static int64_t value_of(const km_tune_candidate *candidate, const char *name) {
    const km_fixed *number = km_tune_number(candidate, name);
    return number ? number->value : NO_VALUE;
}

// The number's values among the candidates.
static void collect(variable *v, const km_tune_result *result, const km_tune_candidate *const *candidates,
                    int64_t count) {
    const km_tune_candidate *standard = km_tune_candidate_at(result, result->standard),
                            *best = km_tune_candidate_at(result, result->best);
    value *values = v->values;
    for (int64_t i = 0; i < count; i++) {
        const km_fixed *number = km_tune_number(candidates[i], v->name);
        if (number) v->is_word = km_fixed_is_word(number);
        values[i] = (value){value_of(candidates[i], v->name), candidates[i],
                            candidates[i] == standard || candidates[i] == best};
    }
    qsort(values, (size_t)count, sizeof *values, by_value);
    for (int64_t i = 0; i < count; i++) {
        value *last = v->count ? &values[v->count - 1] : NULL;
        if (!last || last->value != values[i].value) {
            values[v->count++] = values[i];
            continue;
        }
        take_better(&last->shown, values[i].shown);
        last->is_marked |= values[i].is_marked;
    }
    for (int64_t i = 0; i < count; i++) {
        value key = {.value = value_of(candidates[i], v->name)};
        const value *found = bsearch(&key, values, (size_t)v->count, sizeof key, by_value);
        int64_t place = found ? found - values : 0;
        v->places[i] = (uint8_t)(place < KM_TUNE_PLACES_MAX ? place : KM_TUNE_PLACES_MAX - 1);
    }
}

static void set_axis(km_tune_axis *axis, const variable *v, int64_t places) {
    *axis = (km_tune_axis){.count = 1};
    if (!v) return;
    int64_t own = v->count <= places ? v->count : places - 1;
    axis->name = v->name;
    if (own < v->count) {
        axis->others = v->count - own;
        qsort(v->values, (size_t)v->count, sizeof *v->values, by_shown);
        qsort(v->values, (size_t)own, sizeof *v->values, by_value);
    }
    for (int64_t i = 0; i < own; i++) {
        km_fixed number = {.value = v->values[i].value};
        char text[KM_VALUE_TEXT];
        snprintf(number.name, sizeof number.name, "%s", v->name);
        axis->values[i] = number.value;
        snprintf(axis->labels[i], KM_TUNE_LABEL, "%s",
                 number.value == NO_VALUE ? "none" : km_fixed_text(text, &number));
    }
    axis->count = own;
    if (axis->others)
        snprintf(axis->labels[axis->count++], KM_TUNE_LABEL, "%" PRId64 " others", axis->others);
}

static int64_t place_of(const km_tune_axis *axis, const km_tune_candidate *candidate) {
    int64_t own = axis->count - (axis->others > 0);
    for (int64_t i = 0; axis->name && i < own; i++)
        if (axis->values[i] == value_of(candidate, axis->name)) return i;
    return axis->count - 1;
}

// Numbers of one design.
typedef struct variables {
    variable all[KM_TUNE_NAMES_MAX];
    int64_t count, candidates;
} variables;

static const variable *named(const variables *vs, const char *name) {
    for (int64_t i = 0; i < vs->count; i++)
        if (vs->all[i].count > 1 && !strcmp(vs->all[i].name, name)) return &vs->all[i];
    return NULL;
}

// Cells with a candidate, in all panels together. Where one number follows from another one they are few. NULL: one
// place.
static int64_t filled(const variables *vs, const variable *rows, const variable *columns,
                      const variable *panels) {
    uint8_t seen[KM_TUNE_PLACES_MAX * KM_TUNE_PLACES_MAX * KM_TUNE_PANELS_MAX] = {0};
    int64_t count = 0;
    for (int64_t i = 0; i < vs->candidates; i++) {
        int row = rows ? rows->places[i] : 0, column = columns ? columns->places[i] : 0,
            panel = panels ? panels->places[i] : 0;
        if (panel >= KM_TUNE_PANELS_MAX) panel = KM_TUNE_PANELS_MAX - 1;
        uint8_t *cell = &seen[(row * KM_TUNE_PLACES_MAX + column) * KM_TUNE_PANELS_MAX + panel];
        count += !*cell;
        *cell = 1;
    }
    return count;
}

// How well candidates fill the cells: many, and a large share of them.
static double spread(const variables *vs, const variable *rows, const variable *columns,
                     const variable *panels) {
    double count = (double)filled(vs, rows, columns, panels);
    double cells = (double)(rows ? rows->count : 1) * (double)(columns ? columns->count : 1) *
                   (double)(panels ? panels->count : 1);
    return count * count / cells;
}

// What a kernel works on at a time is what people turn first; most others follow from that.
static double importance(const variable *v) {
    static const char *const first[] = {"points_per_thread", "block",         "tile_points",
                                        "tile_clusters",     "tile_features", "vectors"};
    for (size_t i = 0; i < sizeof first / sizeof *first; i++)
        if (!strcmp(v->name, first[i])) return 1.5;
    return 1;
}

// The two numbers that spread candidates most, words only where there are no others. NULL where fewer differ.
static void choose_pair(const variables *vs, const variable **rows, const variable **columns) {
    double most = 0;
    int words = 2;
    *rows = *columns = NULL;
    for (int64_t i = 0; i < vs->count; i++) {
        const variable *a = &vs->all[i];
        if (a->count > 1 && !*rows) *columns = a; // until there is a pair
        for (int64_t j = i + 1; j < vs->count; j++) {
            const variable *b = &vs->all[j];
            double score = spread(vs, a, b, NULL) * importance(a) * importance(b);
            if (a->count < 2 || b->count < 2 || a->is_word + b->is_word > words) continue;
            if (a->is_word + b->is_word == words && score <= most) continue;
            *rows = a;
            *columns = b;
            most = score;
            words = a->is_word + b->is_word;
        }
    }
    if (!*rows || strcmp((*rows)->name, "block") != 0) return;
    const variable *block = *rows; // lies across
    *rows = *columns;
    *columns = block;
}

// The number that spreads candidates most beside these two; NULL: none does, as all others follow from these.
static const variable *choose_third(const variables *vs, const variable *rows, const variable *columns) {
    const variable *third = NULL;
    int64_t alone = filled(vs, rows, columns, NULL);
    double most = 0;
    for (int64_t i = 0; i < vs->count; i++) {
        const variable *v = &vs->all[i];
        double score = spread(vs, rows, columns, v);
        if (v->count < 2 || v == rows || v == columns || score <= most) continue;
        if (filled(vs, rows, columns, v) == alone) continue;
        third = v;
        most = score;
    }
    return third;
}

// Points per thread against block, a panel each grid, is what people compare kernels by. Where a design has other
// numbers, those that spread its candidates most.
static void choose_axes(km_tune_sheet *sheet, const variables *vs) {
    const variable *rows = named(vs, "points_per_thread"), *columns = named(vs, "block"), *panels = NULL;
    if (rows && columns) panels = named(vs, "grid");
    if (!rows || !columns) choose_pair(vs, &rows, &columns);
    if (!panels || filled(vs, rows, columns, panels) == filled(vs, rows, columns, NULL))
        panels = choose_third(vs, rows, columns);
    set_axis(&sheet->rows, rows, KM_TUNE_PLACES_MAX);
    set_axis(&sheet->columns, columns, KM_TUNE_PLACES_MAX);
    set_axis(&sheet->panels, panels, KM_TUNE_PANELS_MAX);
}

static km_status find_axes(km_tune_sheet *sheet, const km_tune_result *result, km_error *err) {
    const char *names[KM_TUNE_NAMES_MAX];
    variables vs = {.count = km_tune_names(names, result)};
    int64_t most = sheet->candidates, bytes = most * (int64_t)sizeof(km_tune_candidate *) +
                                              vs.count * most * ((int64_t)sizeof(value) + 1);
    value *values = malloc((size_t)bytes);
    if (!values) return km_fail_memory(err, "the picture", bytes);
    const km_tune_candidate **candidates = (const km_tune_candidate **)(values + vs.count * most);
    uint8_t *places = (uint8_t *)(candidates + most);
    for (int64_t i = 0; i < result->candidates_count; i++)
        if (result->candidates[i].design == sheet->design)
            candidates[vs.candidates++] = &result->candidates[i];
    for (int64_t i = 0; i < vs.count; i++) {
        vs.all[i] = (variable){.name = names[i], .values = values + i * most, .places = places + i * most};
        collect(&vs.all[i], result, candidates, most);
    }
    choose_axes(sheet, &vs);
    free(values);
    return KM_OK;
}

// Sheets ----------------------------------------------------------------------------------------------------

const km_tune_cell *km_tune_map_cell(const km_tune_sheet *sheet, int64_t panel, int64_t row, int64_t column) {
    return &sheet->cells[(panel * sheet->rows.count + row) * sheet->columns.count + column];
}

static void fill_cells(km_tune_sheet *sheet, const km_tune_result *result) {
    const km_tune_candidate *standard = km_tune_candidate_at(result, result->standard),
                            *best = km_tune_candidate_at(result, result->best);
    for (int64_t i = 0; i < result->candidates_count; i++) {
        const km_tune_candidate *candidate = &result->candidates[i];
        if (candidate->design != sheet->design) continue;
        int64_t panel = place_of(&sheet->panels, candidate), row = place_of(&sheet->rows, candidate),
                column = place_of(&sheet->columns, candidate);
        km_tune_cell *cell = &sheet->cells[(panel * sheet->rows.count + row) * sheet->columns.count + column];
        take_better(&cell->shown, candidate);
        cell->has_best |= candidate == best && km_tune_is_timed(best);
        cell->has_standard |= candidate == standard;
    }
}

static void scan(km_tune_map *map, const km_tune_sheet *sheet) {
    int64_t count = sheet->panels.count * sheet->rows.count * sheet->columns.count;
    for (int64_t i = 0; i < count; i++) {
        const km_tune_candidate *shown = sheet->cells[i].shown;
        if (!shown) continue;
        map->outcomes[km_tune_shown_outcome(shown)] = 1;
        if (!km_tune_is_timed(shown)) continue;
        if (!map->fastest || shown->ms < map->fastest) map->fastest = shown->ms;
        if (shown->ms > map->slowest) map->slowest = shown->ms;
    }
}

static km_status make_sheet(km_tune_sheet *sheet, const km_tune_result *result, km_error *err) {
    KM_TRY(find_axes(sheet, result, err));
    int64_t count = sheet->panels.count * sheet->rows.count * sheet->columns.count;
    sheet->cells = calloc((size_t)count, sizeof *sheet->cells);
    if (!sheet->cells) return km_fail_memory(err, "the picture", count * (int64_t)sizeof *sheet->cells);
    fill_cells(sheet, result);
    return KM_OK;
}

// The design to be shown next, of those not yet in `sheets`: that of the best, of the default, the fastest.
static km_design next_design(const km_tune_sheet *designs, const km_tune_result *result, int64_t done) {
    const km_tune_candidate *first[] = {km_tune_candidate_at(result, result->best),
                                        km_tune_candidate_at(result, result->standard)};
    km_design next = KM_DESIGN_NONE;
    if (done < 2 && first[done] && designs[first[done]->design].candidates) return first[done]->design;
    for (int i = 1; i < KM_DESIGN_COUNT; i++)
        if (designs[i].candidates && (!next || compare(designs[i].fastest, designs[next].fastest) < 0))
            next = (km_design)i;
    return next;
}

km_status km_tune_map_make(km_tune_map *map, const km_tune_result *result, km_error *err) {
    km_tune_sheet *designs = calloc(KM_DESIGN_COUNT, sizeof *designs);
    km_status status = KM_OK;
    *map = (km_tune_map){.sheets_count = 0};
    if (!designs) return km_fail_memory(err, "the picture", KM_DESIGN_COUNT * (int64_t)sizeof *designs);
    for (int64_t i = 0; i < result->candidates_count; i++) {
        const km_tune_candidate *candidate = &result->candidates[i];
        km_tune_sheet *sheet = &designs[candidate->design];
        sheet->design = candidate->design;
        sheet->candidates++;
        sheet->timed += km_tune_is_timed(candidate);
        if (km_tune_is_timed(candidate)) take_better(&sheet->fastest, candidate);
    }
    while (map->sheets_count < KM_TUNE_SHEETS_MAX) {
        km_design design = next_design(designs, result, map->sheets_count);
        if (!design) break;
        km_tune_sheet *sheet = &map->sheets[map->sheets_count++];
        *sheet = designs[design];
        designs[design].candidates = 0;
        KM_TRY_GOTO(make_sheet(sheet, result, err));
        scan(map, sheet);
    }
done:
    free(designs);
    if (status != KM_OK) km_tune_map_clear(map);
    return status;
}

void km_tune_map_clear(km_tune_map *map) {
    for (int64_t i = 0; i < map->sheets_count; i++) free(map->sheets[i].cells);
    *map = (km_tune_map){.sheets_count = 0};
}

// Words -----------------------------------------------------------------------------------------------------

static void axis_words(km_text *out, const char *direction, const km_tune_axis *axis) {
    if (!axis->name) return;
    km_text_printf(out, " %s: %s (", direction, axis->name);
    for (int64_t i = 0; i < axis->count; i++) km_text_printf(out, "%s%s", i ? ", " : "", axis->labels[i]);
    km_text_puts(out, ").");
}

void km_tune_map_words(km_text *out, const km_tune_map *map) {
    char ms[KM_TUNE_MS_TEXT], numbers[512];
    for (int64_t i = 0; i < map->sheets_count; i++) {
        const km_tune_sheet *sheet = &map->sheets[i];
        km_text_printf(out, "%sDesign %s.", i ? " " : "", km_design_name(sheet->design));
        axis_words(out, "Rows", &sheet->rows);
        axis_words(out, "Columns", &sheet->columns);
        axis_words(out, "Panels", &sheet->panels);
        if (!sheet->fastest) continue;
        km_tune_numbers_text(numbers, sizeof numbers, sheet->fastest);
        km_text_printf(out, " Fastest: %s ms%s%s.", km_tune_ms_text(ms, sheet->fastest->ms),
                       numbers[0] ? ", " : "", numbers);
    }
    if (!map->fastest) km_text_printf(out, "%sNo candidate was measured.", map->sheets_count ? " " : "");
}
