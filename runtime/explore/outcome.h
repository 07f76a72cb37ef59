// SPDX-License-Identifier: MIT
// What codes are to predict, and how well a code does.
#ifndef KM_RUNTIME_EXPLORE_OUTCOME_H
#define KM_RUNTIME_EXPLORE_OUTCOME_H
#include "../../base/error.h"
#include "subsets.h"
#include <kmgen/explore.h>

struct km_outcome {
    char *name;
    int64_t rows;
    double *values;  // rows: the number, or the class from 0; NaN: missing
    int64_t classes; // 0: numbers
};

// A tally's cells and values for the points of `data`, which the caller frees: cells (n) and, of numbers,
// values about their mean. Rows are held out by a draw of each. Counts are out.
km_status km_outcome_tally(km_tally *tally, uint32_t **cells, double **values, const km_outcome *outcome,
                           const km_data *data, double holdout, uint64_t seed, int64_t *rows,
                           int64_t *held_out, km_error *err);

// What the figures are without any column: those of a code that gives all rows one label.
km_status km_outcome_baseline(double *figures, const km_tally *tally, const km_outcome *outcome,
                              const km_data *data, int is_held_out, km_error *err);

// Figures of the outcome from the tallies of one code of k labels, into figures[KM_RANK_COUNT]; what is not
// defined stays.
void km_outcome_figures(double *figures, const double *tallies, const km_outcome *outcome, int64_t k,
                        int is_held_out);

#endif
