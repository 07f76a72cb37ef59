// SPDX-License-Identifier: MIT
// A tuning as maps: which candidate stands in which cell. Knows nothing of drawing.
#ifndef KM_RUNTIME_REPORT_TUNE_MAP_H
#define KM_RUNTIME_REPORT_TUNE_MAP_H
#include "../../base/error.h"
#include "tune_report.h"

enum {
    KM_TUNE_SHEETS_MAX = 3,
    KM_TUNE_PANELS_MAX = 6,
    KM_TUNE_PLACES_MAX = 48, // rows or columns of a panel
    KM_TUNE_LABEL = 40,
};

// A number of plans along one direction. Where it has more values than there are places, those of the default, of the
// chosen one, and of the fastest candidates have one each, and the last place is for all others.
typedef struct km_tune_axis {
    const char *name; // NULL: the design has no such number, or one value of it: one place
    int64_t count;    // places
    int64_t others;   // values in the last place; 0: it has its own
    int64_t values[KM_TUNE_PLACES_MAX];
    char labels[KM_TUNE_PLACES_MAX][KM_TUNE_LABEL];
} km_tune_axis;

// The fastest candidate of a place in three directions; where none has a time, one that failed, then one that was not
// measured; NULL: there is none.
typedef struct km_tune_cell {
    const km_tune_candidate *shown;
    int has_best, has_standard; // also where another one is shown
} km_tune_cell;

// A design: panels, each of rows x columns.
typedef struct km_tune_sheet {
    km_design design;
    int64_t candidates, timed;
    const km_tune_candidate *fastest; // NULL: none has a time
    km_tune_axis rows, columns, panels;
    km_tune_cell *cells; // panels x rows x columns
} km_tune_sheet;

// The design of the best, that of the default, then the next fastest ones.
typedef struct km_tune_map {
    km_tune_sheet sheets[KM_TUNE_SHEETS_MAX];
    int64_t sheets_count;
    double fastest, slowest;             // ms of all that is shown; 0: nothing was measured
    int outcomes[KM_TUNE_OUTCOME_COUNT]; // non-zero: some cell shows a candidate of that outcome
} km_tune_map;

km_status km_tune_map_make(km_tune_map *map, const km_tune_result *result, km_error *err);
void km_tune_map_clear(km_tune_map *map);
const km_tune_cell *km_tune_map_cell(const km_tune_sheet *sheet, int64_t panel, int64_t row, int64_t column);
// What a cell shows: not measured, if it was measured without a time.
km_tune_outcome km_tune_shown_outcome(const km_tune_candidate *shown);
// What is to be seen, in words: designs, their directions, the fastest.
void km_tune_map_words(km_text *out, const km_tune_map *map);

#endif
