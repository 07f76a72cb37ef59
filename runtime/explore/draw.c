// SPDX-License-Identifier: MIT
// Which columns take part, and which subsets of them are explored.
#include "../../base/error.h"
#include "../data_refuse.h"
#include "../read/reader.h"
#include "exploring.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Marks of the columns of a list in the words of the command line.
static km_status mark(uint8_t *marks, const explore *x, const char *list, const char *option, uint8_t as) {
    int64_t *picks = NULL, count, d = km_data_features(x->data);
    km_status status = KM_OK;
    if (!list) return KM_OK;
    KM_TRY(km_columns_parse(&picks, &count, option, list, km_data_name(x->data),
                            (char *const *)km_data_feature_names(x->data), d, NULL, x->err));
    for (int64_t i = 0; i < count; i++) {
        if (marks[picks[i]]) {
            km_fail(x->err, status = KM_ERROR_USAGE, "column %lld is both included and excluded",
                    (long long)picks[i] + 1);
            break;
        }
        marks[picks[i]] = as;
    }
    free(picks);
    return status;
}

static void name_of(char text[80], const explore *x, int64_t column) {
    const char *name = km_data_feature_name(x->data, column);
    if (name)
        snprintf(text, 80, "%.75s", name);
    else
        snprintf(text, 80, "%lld", (long long)column + 1);
}

enum { ALWAYS = 1, NEVER = 2 };

// Columns that never change hold no clusters.
static km_status drop_constant(explore *x, uint8_t *marks) {
    int64_t dropped = 0, first = 0, d = x->engine->d;
    char name[80];
    for (int64_t c = d - 1; c >= 0; c--) {
        if (x->stats.maximum[c] > x->stats.minimum[c] || marks[c] == NEVER) continue;
        name_of(name, x, c);
        if (marks[c] == ALWAYS)
            return km_fail(x->err, KM_ERROR_DATA,
                           "column %s never changes, and every subset is to have it: do not include it",
                           name);
        marks[c] = NEVER;
        dropped++;
        first = c;
    }
    if (!dropped) return KM_OK;
    name_of(name, x, first);
    km_result_warn(x->out->owner, x->params->log,
                   "%lld of %lld columns never change (the first is column %s): no subset has them",
                   (long long)dropped, (long long)d, name);
    return KM_OK;
}

static km_status choose_columns(explore *x) {
    int64_t d = x->engine->d;
    km_status status;
    uint8_t *marks = calloc((size_t)d, 1);
    x->always = malloc((size_t)(2 * d) * sizeof *x->always);
    x->others = x->always ? x->always + d : NULL;
    if (!marks || !x->always) {
        status = km_fail_memory(x->err, "the columns", d * 9);
        goto done;
    }
    KM_TRY_GOTO(mark(marks, x, x->params->include, "--include", ALWAYS));
    KM_TRY_GOTO(mark(marks, x, x->params->exclude, "--exclude", NEVER));
    KM_TRY_GOTO(drop_constant(x, marks));
    km_choice *choice = &x->choice;
    *choice = (km_choice){.always = x->always, .others = x->others};
    for (int64_t c = 0; c < d; c++) {
        if (marks[c] == ALWAYS) x->always[choice->always_count++] = (int32_t)c;
        if (!marks[c]) x->others[choice->others_count++] = (int32_t)c;
    }
done:
    free(marks);
    return status;
}

static km_status choose_sizes(explore *x) {
    const km_explore_params *p = x->params;
    km_choice *choice = &x->choice;
    int64_t all = choice->always_count + choice->others_count, least = km_max(choice->always_count, 1);
    if (all == 0)
        return km_fail(x->err, KM_ERROR_DATA,
                       "%s has no column left to choose: exclude fewer, or give columns that change",
                       km_data_name(x->data));
    choice->size_min = p->size_min ? p->size_min : p->size_max;
    choice->size_max = p->size_max ? p->size_max : p->size_min;
    if (!choice->size_max)
        choice->size_min = choice->size_max = km_max(least, km_min(KM_EXPLORE_SIZE_DEFAULT, all));
    if (choice->size_min > choice->size_max)
        return km_fail(x->err, KM_ERROR_USAGE,
                       "subsets of %lld..%lld columns: the first number must not be larger",
                       (long long)choice->size_min, (long long)choice->size_max);
    if (choice->size_max > all)
        return km_fail(
            x->err, KM_ERROR_USAGE,
            "subsets of %lld columns cannot be: there are %lld to choose from; choose so many at most",
            (long long)choice->size_max, (long long)all);
    if (choice->size_min < least)
        return km_fail(
            x->err, KM_ERROR_USAGE,
            "subsets of %lld column%s cannot be: %lld are included in each; choose so many at least",
            (long long)choice->size_min, choice->size_min == 1 ? "" : "s", (long long)least);
    return KM_OK;
}

static km_status count_subsets(explore *x) {
    km_explore_result *result = &x->out->result;
    double possible = result->possible = km_choice_count(&x->choice);
    int64_t wanted = x->params->subsets;
    if (wanted == 0 && possible > KM_SUBSETS_MAX)
        return km_fail(x->err, KM_ERROR_USAGE,
                       "there are %.4g subsets of these sizes, more than %d: draw some (--subsets N), or "
                       "exclude columns",
                       possible, KM_SUBSETS_MAX);
    if (wanted > KM_SUBSETS_MAX)
        return km_fail(x->err, KM_ERROR_USAGE, "%lld subsets are more than %d: draw fewer", (long long)wanted,
                       KM_SUBSETS_MAX);
    if ((double)wanted > possible && !x->params->with_replacement)
        return km_fail(
            x->err, KM_ERROR_USAGE,
            "there are %.0f subsets of these sizes, fewer than %lld: ask for as many at most, or draw "
            "them --with-replacement",
            possible, (long long)wanted);
    if (possible >= 0x1p53)
        return km_fail(
            x->err, KM_ERROR_USAGE,
            "there are %.4g subsets of these sizes, too many to draw from: exclude columns, or choose "
            "fewer at a time",
            possible);
    result->wanted = wanted ? wanted : (int64_t)possible;
    return KM_OK;
}

static int same_columns(const km_subset *a, const km_subset *b) {
    return a->size == b->size && memcmp(a->columns, b->columns, (size_t)a->size * sizeof *a->columns) == 0;
}

static int by_columns(const void *a, const void *b) {
    const km_subset *x = *(km_subset *const *)a, *y = *(km_subset *const *)b;
    if (x->size != y->size) return x->size < y->size ? -1 : 1;
    for (int64_t i = 0; i < x->size; i++)
        if (x->columns[i] != y->columns[i]) return x->columns[i] < y->columns[i] ? -1 : 1;
    return x < y ? -1 : x > y;
}

// A subset that was drawn before has restarts of its own.
static km_status number_restarts(explore *x) {
    int64_t count = x->out->result.wanted;
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    km_subset **sorted = malloc((size_t)count * sizeof *sorted);
    if (!sorted) return km_fail_memory(x->err, "the subsets", count * 8);
    for (int64_t i = 0; i < count; i++) sorted[i] = &x->subsets[i];
    // NOLINTNEXTLINE(bugprone-sizeof-expression): an array of pointers
    qsort(sorted, (size_t)count, sizeof *sorted, by_columns);
    for (int64_t i = 1; i < count; i++)
        if (same_columns(sorted[i - 1], sorted[i]))
            sorted[i]->first_restart = sorted[i - 1]->first_restart + x->params->n_init;
    free(sorted);
    return KM_OK;
}

km_status km_explore_choose(explore *x) {
    KM_TRY(choose_columns(x));
    KM_TRY(choose_sizes(x));
    KM_TRY(count_subsets(x));
    const km_explore_params *p = x->params;
    int64_t count = x->out->result.wanted, most = x->choice.size_max;
    double *numbers = NULL;
    km_status status = KM_OK;
    x->subsets = calloc((size_t)count, sizeof *x->subsets);
    x->columns = km_result_alloc(x->out->owner, count * most, sizeof *x->columns, x->err);
    if (!x->subsets) return km_fail_memory(x->err, "the subsets", count * (int64_t)sizeof *x->subsets);
    if (!x->columns) return KM_ERROR_MEMORY;
    if (p->subsets) {
        numbers = malloc((size_t)count * sizeof *numbers);
        if (!numbers) return km_fail_memory(x->err, "the drawn subsets", count * 8);
        status =
            km_choice_draw(numbers, count, x->out->result.possible, p->with_replacement, p->seed, x->err);
    }
    for (int64_t i = 0; i < count && status == KM_OK; i++) {
        int32_t *columns = x->columns + i * most;
        x->subsets[i].size = km_choice_subset(columns, &x->choice, numbers ? numbers[i] : (double)i);
        x->subsets[i].columns = columns;
    }
    free(numbers);
    return status == KM_OK && p->with_replacement ? number_restarts(x) : status;
}
