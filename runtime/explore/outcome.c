// SPDX-License-Identifier: MIT
// Outcomes: classes or numbers, and the figures of a code that is to predict them. The best classifier that knows a
// code alone names the most frequent class of each label, so nothing is fitted: counts of classes and labels say all.
#include "outcome.h"
#include "../../base/order.h"
#include "../../templates/both.h"
#include "../../templates/draws.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FEW_NUMBERS = 20
}; // whole numbers, so many of them at most, are classes unless the caller says otherwise
#define DRAW_HOLDOUT 0x486f6c646f757421ull

void km_outcome_destroy(km_outcome **outcome) {
    if (!outcome || !*outcome) return;
    free((*outcome)->name);
    free((*outcome)->values);
    free(*outcome);
    *outcome = NULL;
}

// The different numbers, ascending, at the front of `sorted`; at most `most` + 1 of them are looked for.
static int64_t different(double *sorted, int64_t count, int64_t most) {
    int64_t kept = 0;
    for (int64_t i = 0; i < count && kept <= most; i++)
        if (kept == 0 || sorted[i] != sorted[kept - 1]) sorted[kept++] = sorted[i];
    return kept;
}

static int all_whole(const double *values, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (values[i] != floor(values[i])) return 0;
    return 1;
}

// Numbers become their class: their place among the different ones.
static void number_classes(km_outcome *outcome, const double *classes) {
    for (int64_t i = 0; i < outcome->rows; i++) {
        if (isnan(outcome->values[i])) continue;
        const double *found =
            bsearch(&outcome->values[i], classes, (size_t)outcome->classes, sizeof *classes, km_by_value);
        outcome->values[i] = (double)(found - classes);
    }
}

static km_status refuse_classes(const km_outcome *outcome, int64_t classes, km_error *err) {
    if (classes == 0)
        return km_fail(err, KM_ERROR_DATA,
                       "the outcome %s is empty in all rows: name a column that has values", outcome->name);
    if (classes == 1)
        return km_fail(
            err, KM_ERROR_DATA,
            "the outcome %s has one class only, so every code predicts it; give a column that differs",
            outcome->name);
    return km_fail(
        err, KM_ERROR_DATA,
        "the outcome %s has more than %d classes; where it is a number, say so (--outcome-kind number)",
        outcome->name, KM_OUTCOME_CLASSES_MAX);
}

// Decides what the outcome is, and numbers its classes.
static km_status decide_kind(km_outcome *outcome, km_outcome_kind kind, km_error *err) {
    int64_t count = 0;
    double *sorted = malloc((size_t)outcome->rows * sizeof *sorted + 1);
    if (!sorted) return km_fail_memory(err, "the outcome", outcome->rows * 8);
    for (int64_t i = 0; i < outcome->rows; i++)
        if (!isnan(outcome->values[i])) sorted[count++] = outcome->values[i];
    qsort(sorted, (size_t)count, sizeof *sorted, km_by_value);
    int64_t classes = different(sorted, count, KM_OUTCOME_CLASSES_MAX);
    int few = classes <= FEW_NUMBERS && all_whole(sorted, classes);
    km_status status = KM_OK;
    if (classes < 2 || (kind == KM_OUTCOME_CLASSES && classes > KM_OUTCOME_CLASSES_MAX)) {
        status = refuse_classes(outcome, classes, err);
    } else if (kind == KM_OUTCOME_CLASSES || (kind == KM_OUTCOME_AUTO && few)) {
        outcome->classes = classes;
        number_classes(outcome, sorted);
    }
    free(sorted);
    return status;
}

km_status km_outcome_from_memory(km_outcome **out, const double *values, int64_t rows, km_outcome_kind kind,
                                 const char *name, km_error *err) {
    *out = NULL;
    if (rows < 0 || (unsigned)kind > KM_OUTCOME_NUMBERS)
        return km_fail(err, KM_ERROR_USAGE, "an outcome of %lld rows and kind %d cannot be", (long long)rows,
                       (int)kind);
    km_outcome *outcome = calloc(1, sizeof *outcome);
    if (!outcome) return km_fail_memory(err, "the outcome", (int64_t)sizeof *outcome);
    outcome->name = strdup(name ? name : "outcome");
    outcome->values = malloc((size_t)rows * sizeof *outcome->values + 1);
    outcome->rows = rows;
    km_status status =
        outcome->name && outcome->values ? KM_OK : km_fail_memory(err, "the outcome", rows * 8);
    for (int64_t i = 0; status == KM_OK && i < rows; i++)
        outcome->values[i] = isfinite(values[i]) ? values[i] : NAN;
    if (status == KM_OK) status = decide_kind(outcome, kind, err);
    if (status == KM_OK)
        *out = outcome;
    else
        km_outcome_destroy(&outcome);
    return status;
}

// Tallies -----------------------------------------------------------------------------------------------------

// Numbers about their mean, so that their squares lose no digits.
static void centre_values(double *values, const uint32_t *cells, int64_t n) {
    double sum = 0;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++)
        if (cells[i] != KM_CELL_NONE) sum += values[i], count++;
    for (int64_t i = 0; i < n; i++)
        values[i] = cells[i] == KM_CELL_NONE ? 0 : values[i] - sum / (double)count;
}

km_status km_outcome_tally(km_tally *tally, uint32_t **cells, double **values, const km_outcome *outcome,
                           const km_data *data, double holdout, uint64_t seed, int64_t *rows,
                           int64_t *held_out, km_error *err) {
    int64_t n = km_data_points(data), classes = outcome->classes ? outcome->classes : 1;
    *rows = *held_out = 0;
    if (outcome->rows != km_data_rows(data))
        return km_fail(err, KM_ERROR_DATA, "the outcome %s has %lld rows, but %s has %lld", outcome->name,
                       (long long)outcome->rows, km_data_name(data), (long long)km_data_rows(data));
    *cells = malloc((size_t)n * sizeof **cells);
    *values = outcome->classes ? NULL : malloc((size_t)n * sizeof **values);
    if (!*cells || (!*values && !outcome->classes)) return km_fail_memory(err, "the outcome", n * 12);
    for (int64_t i = 0; i < n; i++) {
        double value = outcome->values[km_data_row_of(data, i)];
        (*cells)[i] = KM_CELL_NONE;
        if (*values) (*values)[i] = value;
        if (isnan(value)) continue;
        int is_out = km_draw(seed, DRAW_HOLDOUT, 0, (uint64_t)i) < holdout;
        (*cells)[i] = (uint32_t)((outcome->classes ? value : 0) + (is_out ? (double)classes : 0));
        ++*rows;
        *held_out += is_out;
    }
    if (holdout > 0 && (*held_out == 0 || *held_out == *rows))
        return km_fail(
            err, KM_ERROR_DATA,
            "a holdout of %g leaves %lld of %lld rows with an outcome to learn from; choose another share",
            holdout, (long long)(*rows - *held_out), (long long)*rows);
    if (*values) centre_values(*values, *cells, n);
    *tally = (km_tally){*cells, *values, 2 * classes};
    return KM_OK;
}

// Figures -----------------------------------------------------------------------------------------------------

// Cell (class c, part) and label j at [(part * classes + c) * k + j]; part 1 is held out.
static double at(const double *tallies, int64_t classes, int64_t k, int part, int64_t c, int64_t j) {
    return tallies[(part * classes + c) * k + j];
}

// The most frequent class of a label among the rows that are learnt from; of a label without any, of all of them.
static int64_t guess(const double *tallies, int64_t classes, int64_t k, int64_t j, int64_t otherwise) {
    int64_t best = otherwise;
    double most = 0;
    for (int64_t c = 0; c < classes; c++) {
        double count = at(tallies, classes, k, 0, c, j);
        if (count > most) most = count, best = c;
    }
    return best;
}

static int64_t most_frequent(const double *tallies, int64_t classes, int64_t k) {
    int64_t best = 0;
    double most = -1;
    for (int64_t c = 0; c < classes; c++) {
        double sum = 0;
        for (int64_t j = 0; j < k; j++) sum += at(tallies, classes, k, 0, c, j);
        if (sum > most) most = sum, best = c;
    }
    return best;
}

// n log2 n
static double n_log_n(double n) {
    return n > 0 ? n * log2(n) : 0;
}

// Bits that a label says of the class, in one part: entropies of class and label less that of both.
static double mutual_information(const double *tallies, int64_t classes, int64_t k, int part) {
    double total = 0, sum = 0;
    for (int64_t c = 0; c < classes; c++) {
        double of_class = 0;
        for (int64_t j = 0; j < k; j++) {
            double both = at(tallies, classes, k, part, c, j);
            of_class += both;
            sum += n_log_n(both);
        }
        total += of_class;
        sum -= n_log_n(of_class);
    }
    for (int64_t j = 0; j < k; j++) {
        double of_label = 0;
        for (int64_t c = 0; c < classes; c++) of_label += at(tallies, classes, k, part, c, j);
        sum -= n_log_n(of_label);
    }
    double bits = (sum + n_log_n(total)) / total;
    return bits > 0 ? bits : 0;
}

static void class_figures(double *figures, const double *tallies, int64_t classes, int64_t k, int part) {
    int64_t otherwise = most_frequent(tallies, classes, k), seen = 0;
    double right = 0, total = 0, recalls = 0, right_of[KM_OUTCOME_CLASSES_MAX] = {0};
    for (int64_t j = 0; j < k; j++) {
        int64_t named = guess(tallies, classes, k, j, otherwise);
        right_of[named] += at(tallies, classes, k, part, named, j);
    }
    for (int64_t c = 0; c < classes; c++) {
        double of_class = 0;
        for (int64_t j = 0; j < k; j++) of_class += at(tallies, classes, k, part, c, j);
        total += of_class;
        right += right_of[c];
        if (!(of_class > 0)) continue;
        recalls += right_of[c] / of_class;
        seen++;
    }
    if (!(total > 0)) return;
    figures[KM_RANK_accuracy] = right / total;
    figures[KM_RANK_balanced_accuracy] = recalls / (double)seen;
    figures[KM_RANK_mutual_information] = mutual_information(tallies, classes, k, part);
}

// 1 - squares about the label's mean / squares about the mean of all, both means being those that were learnt.
static void number_figures(double *figures, const double *tallies, int64_t k, int part) {
    const double *learnt = tallies, *seen = tallies + (int64_t)part * 3 * k;
    double weight = 0, sum = 0, squares = 0, left = 0, all = 0;
    for (int64_t j = 0; j < k; j++) weight += learnt[j], sum += learnt[k + j];
    if (!(weight > 0)) return;
    for (int64_t j = 0; j < k; j++) {
        double mean = learnt[j] > 0 ? learnt[k + j] / learnt[j] : sum / weight, w = seen[j], y = seen[k + j];
        left += seen[2 * k + j] - 2 * mean * y + mean * mean * w;
        squares += seen[2 * k + j] - 2 * (sum / weight) * y + sum / weight * (sum / weight) * w;
        all += w;
    }
    if (all > 0 && squares > 0) figures[KM_RANK_r2] = 1 - left / squares;
}

void km_outcome_figures(double *figures, const double *tallies, const km_outcome *outcome, int64_t k,
                        int is_held_out) {
    if (outcome->classes)
        class_figures(figures, tallies, outcome->classes, k, is_held_out);
    else
        number_figures(figures, tallies, k, is_held_out);
}

km_status km_outcome_baseline(double *figures, const km_tally *tally, const km_outcome *outcome,
                              const km_data *data, int is_held_out, km_error *err) {
    int64_t sums = km_tally_sums(tally), n = km_data_points(data);
    const double *weights = km_data_weights(data);
    double *tallies = calloc((size_t)(tally->cells_count * sums), sizeof *tallies);
    if (!tallies) return km_fail_memory(err, "the outcome", tally->cells_count * sums * 8);
    for (int64_t i = 0; i < n; i++) {
        if (tally->cells[i] == KM_CELL_NONE) continue;
        double w = weights ? weights[i] : 1, *row = tallies + tally->cells[i] * sums;
        row[0] += w;
        if (!tally->values) continue;
        row[1] += w * tally->values[i];
        row[2] += w * tally->values[i] * tally->values[i];
    }
    km_outcome_figures(figures, tallies, outcome, 1, is_held_out);
    free(tallies);
    return KM_OK;
}
