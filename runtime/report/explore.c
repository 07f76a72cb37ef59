// SPDX-License-Identifier: MIT
// What km_explore found, as JSON (docs/explore.schema.json is its contract) and as a table for people.
#include "../../base/error.h"
#include "../../base/size.h"
#include "../../base/text.h"
#include "../explore/explored.h"
#include "../json.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// JSON --------------------------------------------------------------------------------------------------------

static json_t *columns_to_json(const km_explore_result *result, const int32_t *columns, int64_t count) {
    json_t *list = json_array();
    for (int64_t f = 0; list && f < count; f++) {
        json_t *column =
            result->names ? km_json_string(result->names[columns[f]]) : json_integer(columns[f] + 1);
        if (json_array_append_new(list, column) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *figures_to_json(const double figures[KM_RANK_COUNT]) {
    json_t *object = json_object();
    int failed = 0;
    for (int r = 0; object && r < KM_RANK_COUNT; r++)
        if (!isnan(figures[r]))
            failed |= json_object_set_new(object, km_rank_name((km_rank)r), km_json_real(figures[r]));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *subset_to_json(const km_explore_result *result, const km_explored *subset) {
    json_t *object = json_object();
    int failed = 0;
    failed |= json_object_set_new(object, "columns", columns_to_json(result, subset->columns, subset->size));
    failed |= json_object_set_new(object, "k", json_integer(subset->k));
    failed |= json_object_set_new(object, "effective_k", json_integer(subset->effective_k));
    failed |= json_object_set_new(object, "figures", figures_to_json(subset->figures));
    failed |= json_object_set_new(object, "inertia", km_json_real(subset->inertia));
    failed |= json_object_set_new(object, "n_iter", json_integer(subset->n_iter));
    failed |= json_object_set_new(object, "converged", json_boolean(subset->converged));
    failed |= json_object_set_new(object, "restart", json_integer(subset->restart));
    failed |= json_object_set_new(object, "restarts_agreed", json_integer(subset->restarts_agreed));
    failed |= json_object_set_new(object, "counts", km_json_integers(subset->counts, subset->k));
    failed |=
        json_object_set_new(object, "centroids", km_json_rows(subset->centroids, subset->k, subset->size));
    if (!failed) return object;
    json_decref(object);
    return NULL;
}

static json_t *often_to_json(const km_explore_result *result) {
    json_t *list = json_array();
    for (int64_t c = 0; list && c < result->d; c++) {
        json_t *row = json_object();
        int failed = json_object_set_new(
            row, "column", result->names ? km_json_string(result->names[c]) : json_integer(c + 1));
        failed |= json_object_set_new(row, "among_best", json_integer(result->among_best[c]));
        failed |= json_object_set_new(row, "in_subsets", json_integer(result->in_subsets[c]));
        if (!failed && json_array_append_new(list, row) == 0) continue;
        if (failed) json_decref(row);
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *warnings_to_json(const km_explore_result *result) {
    json_t *list = json_array();
    for (int64_t i = 0; list && i < result->warnings_count; i++) {
        if (json_array_append_new(list, km_json_string(result->warnings[i])) == 0) continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

static json_t *combined_to_json(const km_explore_result *result) {
    json_t *list = json_array();
    int failed = !list;
    for (int64_t i = 0; i < result->combined_count; i++) {
        const km_combined *c = &result->combined[i];
        json_t *object = json_object(), *subsets = json_array();
        for (int64_t p = 0; p < c->size; p++) {
            const km_explored *subset = &result->subsets[result->ranking[c->places[p]]];
            failed |= json_array_append_new(subsets, columns_to_json(result, subset->columns, subset->size));
        }
        failed |= json_object_set_new(object, "subsets", subsets);
        failed |= json_object_set_new(object, "k", json_integer(c->k));
        failed |= json_object_set_new(object, "figures", figures_to_json(c->figures));
        failed |= json_array_append_new(list, object);
    }
    if (!failed) return list;
    json_decref(list);
    return NULL;
}

static json_t *subsets_to_json(const km_explore_result *result) {
    json_t *list = json_array();
    for (int64_t i = 0; list && i < result->count; i++) {
        if (json_array_append_new(list, subset_to_json(result, &result->subsets[result->ranking[i]])) == 0)
            continue;
        json_decref(list);
        return NULL;
    }
    return list;
}

km_status km_explore_to_json(char **out, const km_explore_result *result, km_error *err) {
    json_t *root = json_object();
    int failed = 0;
    failed |= json_object_set_new(root, "kmgen", json_string(km_version()));
    failed |= json_object_set_new(root, "n", json_integer(result->n));
    failed |= json_object_set_new(root, "d", json_integer(result->d));
    failed |= json_object_set_new(root, "type", json_string(km_type_name(result->type)));
    failed |= json_object_set_new(root, "scale", json_string(km_scale_name(result->scale)));
    failed |= json_object_set_new(root, "seed", km_json_seed(result->seed));
    failed |= json_object_set_new(root, "n_init", json_integer(result->n_init));
    failed |= json_object_set_new(root, "max_iter", json_integer(result->max_iter));
    failed |= json_object_set_new(root, "tol", km_json_real(result->tol));
    failed |= json_object_set_new(root, "rank", json_string(km_rank_name(result->rank)));
    failed |= json_object_set_new(root, "possible", km_json_real(result->possible));
    failed |= json_object_set_new(root, "wanted", json_integer(result->wanted));
    failed |= json_object_set_new(root, "count", json_integer(result->count));
    failed |= json_object_set_new(root, "best", json_integer(result->best));
    if (result->outcome_rows) {
        failed |= json_object_set_new(root, "classes", json_integer(result->classes));
        failed |= json_object_set_new(root, "holdout", km_json_real(result->holdout));
        failed |= json_object_set_new(root, "outcome_rows", json_integer(result->outcome_rows));
        failed |= json_object_set_new(root, "outcome_held_out", json_integer(result->outcome_held_out));
        failed |= json_object_set_new(root, "baseline", figures_to_json(result->baseline));
    }
    failed |= json_object_set_new(root, "columns", often_to_json(result));
    failed |= json_object_set_new(root, "subsets", subsets_to_json(result));
    if (result->combined_count) failed |= json_object_set_new(root, "combined", combined_to_json(result));
    failed |= json_object_set_new(root, "load_ms", km_json_real(result->load_ms));
    failed |= json_object_set_new(root, "run_ms", km_json_real(result->run_ms));
    if (result->distances > 0)
        failed |= json_object_set_new(root, "distances", json_integer(result->distances));
    failed |= json_object_set_new(root, "table_bytes", json_integer(result->table_bytes));
    failed |= json_object_set_new(root, "subset_bytes", json_integer(result->subset_bytes));
    failed |= json_object_set_new(root, "warnings", warnings_to_json(result));
    km_status status =
        failed ? km_fail_memory(err, "the result's text", result->count * 512) : km_json_text(out, root, err);
    json_decref(root);
    return status;
}

// Table -------------------------------------------------------------------------------------------------------

enum { NAMES_WIDTH = 44, NAMES_LEAST = 16, BAR_NAME = 32, BAR_WIDTH = 24, LINE_WIDTH = 80 };

// Figures that the table shows beside the one that decides.
static const struct {
    km_rank rank;
    const char *head;
} shown[] = {{KM_RANK_balanced_accuracy, "balanced"}, {KM_RANK_accuracy, "accuracy"},
             {KM_RANK_mutual_information, "bits"},    {KM_RANK_r2, "R^2"},
             {KM_RANK_permuted, "permuted"},          {KM_RANK_simplified_silhouette, "silhouette"},
             {KM_RANK_explained, "explained"},        {KM_RANK_agreed, "agreed"}};
enum { SHOWN_COUNT = sizeof shown / sizeof *shown };

static int is_defined(const km_explore_result *result, km_rank rank) {
    for (int64_t i = 0; i < result->count; i++)
        if (!isnan(result->subsets[i].figures[rank])) return 1;
    return 0;
}

static int shows_calinski(const km_explore_result *result) {
    return result->rank == KM_RANK_calinski_harabasz || result->rank == KM_RANK_permuted;
}

// Of the columns' names: what a line has left beside the figures, where that is of use.
static int names_width(const km_explore_result *result) {
    enum { PLACE_AND_K = 13, FIGURE = 12 };
    int left = LINE_WIDTH - PLACE_AND_K - (shows_calinski(result) ? FIGURE : 0);
    for (int s = 0; s < SHOWN_COUNT; s++) left -= is_defined(result, shown[s].rank) ? FIGURE : 0;
    return left < NAMES_LEAST || left > NAMES_WIDTH ? NAMES_WIDTH : left;
}

static void head(km_text *text, const km_explore_result *result) {
    km_text_printf(text, "%6s  %-*s  %3s", "place", names_width(result), "columns", "K");
    if (shows_calinski(result)) km_text_printf(text, "  %10s", "C-H");
    for (int s = 0; s < SHOWN_COUNT; s++)
        if (is_defined(result, shown[s].rank)) km_text_printf(text, "  %10s", shown[s].head);
    km_text_puts(text, "\n");
}

// A column's name as it is shown, or its number; the caller's to free. NULL: no memory.
static char *column_name(const km_explore_result *result, int64_t c) {
    km_text text = {0};
    char *name;
    if (result->names)
        km_text_puts(&text, result->names[c]);
    else
        km_text_printf(&text, "%lld", (long long)c + 1);
    if (km_text_take(&name, &text, NULL) != KM_OK) return NULL;
    km_text_plain(name);
    return name;
}

// How wide "a, b, c" is with each name cut to `most`.
static int64_t list_width(char *const *names, int64_t count, int64_t most) {
    int64_t width = 2 * (count - 1);
    for (int64_t i = 0; i < count; i++) width += km_min(km_text_columns(names[i]), most);
    return width;
}

// "a, b, c": the longest names are cut until all have room, so that each column can be told; where they are too many,
// the end of the list is.
static void columns_list(km_text *text, const km_explore_result *result, const km_explored *subset,
                         int64_t width) {
    enum { LEAST = 8 };
    km_text list = {0};
    char **names = calloc((size_t)subset->size, sizeof *names);
    int failed = !names;
    for (int64_t f = 0; !failed && f < subset->size; f++)
        failed = !(names[f] = column_name(result, subset->columns[f]));
    int64_t most = width;
    while (!failed && most > LEAST && list_width(names, subset->size, most) > width) most--;
    for (int64_t f = 0; !failed && f < subset->size; f++) {
        km_text_shorten(names[f], most);
        km_text_printf(&list, "%s%s", f ? ", " : "", names[f]);
    }
    failed |= list.failed;
    if (!failed) km_text_shorten(list.data, width);
    if (!failed) km_text_pad(text, list.data, width);
    text->failed |= failed;
    for (int64_t f = 0; names && f < subset->size; f++) free(names[f]);
    free(names);
    km_text_clear(&list);
}

static void row(km_text *text, const km_explore_result *result, int64_t at) {
    const km_explored *subset = &result->subsets[result->ranking[at]];
    km_text_printf(text, "%6lld  ", (long long)at + 1);
    columns_list(text, result, subset, names_width(result));
    km_text_printf(text, "  %3d", subset->k);
    if (shows_calinski(result)) km_text_printf(text, "  %10.4g", subset->figures[KM_RANK_calinski_harabasz]);
    for (int s = 0; s < SHOWN_COUNT; s++) {
        if (!is_defined(result, shown[s].rank)) continue;
        double figure = subset->figures[shown[s].rank];
        if (isnan(figure))
            km_text_printf(text, "  %10s", "-");
        else
            km_text_printf(text, "  %10.4f", figure);
    }
    km_text_puts(text, "\n");
}

static void bar(km_text *text, const km_explore_result *result, int64_t c, int looks) {
    const char *full = looks & KM_TABLE_UTF8 ? "\u2588" : "#";
    char *name = column_name(result, c);
    if (!name) {
        text->failed = 1;
        return;
    }
    km_text_shorten(name, BAR_NAME);
    km_text_puts(text, "  ");
    km_text_pad(text, name, BAR_NAME);
    km_text_printf(text, " %4lld ", (long long)result->among_best[c]);
    int64_t width = (BAR_WIDTH * result->among_best[c] + result->best - 1) / result->best;
    for (int64_t i = 0; i < width; i++) km_text_puts(text, full);
    km_text_puts(text, "\n");
    free(name);
}

// The column that most of the best subsets have comes first; those that none has are counted.
static void bars(km_text *text, const km_explore_result *result, int looks) {
    int64_t absent = 0;
    km_text_printf(text, "\nHow many of the best %lld have the column:\n", (long long)result->best);
    for (int64_t often = result->best; often > 0; often--)
        for (int64_t c = 0; c < result->d; c++)
            if (result->among_best[c] == often) bar(text, result, c, looks);
    for (int64_t c = 0; c < result->d; c++) absent += result->in_subsets[c] && !result->among_best[c];
    if (absent) km_text_printf(text, "  %lld other column%s: 0\n", (long long)absent, absent == 1 ? "" : "s");
}

enum { COMBINED_SHOWN = 5 };

// The best codes joined, by their places in the table above.
static void combined(km_text *text, const km_explore_result *result) {
    if (!result->combined_count) return;
    km_text_puts(text, "\nThe best codes together, by place:\n");
    for (int64_t i = 0; i < result->combined_count && i < COMBINED_SHOWN; i++) {
        const km_combined *c = &result->combined[i];
        char places[40];
        int at = 0;
        for (int64_t p = 0; p < c->size; p++)
            at += snprintf(places + at, sizeof places - (size_t)at, "%s%lld", p ? " + " : "",
                           (long long)c->places[p] + 1);
        km_text_printf(text, "%6s  %-*s  %3lld", "", names_width(result), places, (long long)c->k);
        for (int s = 0; s < SHOWN_COUNT; s++)
            if (is_defined(result, shown[s].rank) && !isnan(c->figures[shown[s].rank]))
                km_text_printf(text, "  %10.4f", c->figures[shown[s].rank]);
        km_text_puts(text, "\n");
    }
}

static void outcome_line(km_text *text, const km_explore_result *result) {
    if (!result->outcome_rows) return;
    int64_t seen = result->outcome_held_out ? result->outcome_held_out : result->outcome_rows;
    km_text_printf(text, "Figures of the outcome are of %lld %s", (long long)seen,
                   result->outcome_held_out ? "rows that were held out"
                                            : "rows, all of which were learnt from");
    if (result->classes)
        km_text_printf(text, "; of %lld classes the most frequent one has %.4f of them",
                       (long long)result->classes, result->baseline[KM_RANK_accuracy]);
    km_text_puts(text, ".\n");
}

km_status km_explore_to_table(char **out, const km_explore_result *result, int64_t rows, int looks,
                              km_error *err) {
    km_text text = {0};
    const char *bold = looks & KM_TABLE_COLOUR ? "\033[1m" : "",
               *plain = looks & KM_TABLE_COLOUR ? "\033[0m" : "";
    int64_t count = result->count, worst = count > 2 * rows ? count - rows : rows;
    // Where subsets may be drawn again there may be more than there are.
    km_text_printf(&text, "%s%lld %s %.0f subsets of %lld columns, by %s%s\n", bold, (long long)count,
                   (double)count > result->possible ? "draws of" : "of", result->possible,
                   (long long)result->d, km_rank_title(result->rank), plain);
    outcome_line(&text, result);
    km_text_puts(&text, "\n");
    head(&text, result);
    for (int64_t i = 0; i < count; i++) {
        if (i == rows && worst > i) km_text_printf(&text, "%6s\n", "...");
        if (i < rows || i >= worst) row(&text, result, i);
    }
    combined(&text, result);
    bars(&text, result, looks);
    return km_text_take(out, &text, err);
}
