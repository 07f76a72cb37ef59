// SPDX-License-Identifier: MIT
// A result as a table for people.

#include "../../base/error.h"
#include "../../base/text.h"
#include <kmgen/result.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CELL = 40, COLUMNS_MAX = KM_CRITERION_COUNT + 8, BAR_MAX = 8, BAR_MIN = 3, WIDTH = 80 };

// Cells of text, right-aligned under a heading of two lines; widths are in characters.
typedef struct column {
    char heading[2][CELL];
    char (*cells)[CELL]; // rows
    int width;
} column;

typedef struct sheet {
    int64_t rows, columns_count;
    column columns[COLUMNS_MAX];
    int64_t bar;    // the column of bars; 0: none
    double *shares; // rows: how long each bar is; NaN: none
    int failed;
} sheet;

typedef struct style {
    const char *best, *plain; // ANSI, or ""
    int utf8, width;
} style;

// Sheet ------------------------------------------------------------------------------------------------------

// Breaks a long heading at its last space or after its last hyphen.
static void set_heading(column *c, const char *title) {
    const char *cut = strrchr(title, ' ');
    if (!cut) cut = strrchr(title, '-');
    if (!cut || strlen(title) <= 9) {
        snprintf(c->heading[1], CELL, "%s", title);
        return;
    }
    snprintf(c->heading[0], CELL, "%.*s", (int)(cut - title + (*cut == '-')), title);
    snprintf(c->heading[1], CELL, "%s", cut + 1);
}

// A new column; where there is no memory, one whose text is dropped.
static column *sheet_add(sheet *g, const char *title) {
    column *c = &g->columns[g->columns_count];
    *c = (column){.cells = calloc((size_t)g->rows, sizeof *c->cells)};
    if (!c->cells) {
        g->failed = 1;
        return NULL;
    }
    g->columns_count++;
    set_heading(c, title);
    return c;
}

static void sheet_free(sheet *g) {
    for (int64_t i = 0; i < g->columns_count; i++) free(g->columns[i].cells);
    free(g->shares);
}

static int characters(const char *text) {
    int count = 0;
    for (; *text; text++) count += (*text & 0xc0) != 0x80;
    return count;
}

static void widen(column *c, const char *cell) {
    int width = characters(cell);
    if (width > c->width) c->width = width;
}

static void measure(sheet *g) {
    for (int64_t i = 0; i < g->columns_count; i++) {
        column *c = &g->columns[i];
        for (int line = 0; line < 2; line++) widen(c, c->heading[line]);
        for (int64_t row = 0; row < g->rows; row++) widen(c, c->cells[row]);
    }
}

// A bar of so many characters, left-aligned: eighths of a block, or whole signs.
static void fill_bar(char *cell, double share, int width, int utf8) {
    static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
    int parts = (int)fmax(1, round(share * width * 8)), shown = 0;
    *cell = 0;
    for (; shown < (utf8 ? parts / 8 : (parts + 4) / 8); shown++) strcat(cell, utf8 ? "█" : "#");
    if (utf8 && parts % 8) strcat(cell, eighths[parts % 8]), shown++;
    if (!utf8 && !shown) strcat(cell, "."), shown++;
    for (; shown < width; shown++) strcat(cell, " ");
}

// Bars get what the other columns leave of a terminal's width; too short ones are left out.
static void fit_bars(sheet *g, const style *look) {
    int width = look->width - 1;
    if (!g->bar) return;
    for (int64_t i = 0; i < g->columns_count; i++) width -= 2 + g->columns[i].width;
    column *c = &g->columns[g->bar];
    c->width = width < BAR_MAX ? width : BAR_MAX;
    for (int64_t row = 0; c->width >= BAR_MIN && row < g->rows; row++)
        if (isfinite(g->shares[row])) fill_bar(c->cells[row], g->shares[row], c->width, look->utf8);
    if (c->width >= BAR_MIN) return;
    free(c->cells);
    g->columns_count--;
    for (int64_t i = g->bar; i < g->columns_count; i++) g->columns[i] = g->columns[i + 1];
}

// The first column, and those from `from` up to `to`.
static void print_part(km_text *text, const sheet *g, int64_t from, int64_t to, int64_t best,
                       const style *look) {
    for (int line = 0; line < 2; line++) {
        km_text_puts(text, " ");
        for (int64_t i = 0; i < to; i = i ? i + 1 : from)
            km_text_printf(text, "  %*s", g->columns[i].width, g->columns[i].heading[line]);
        km_text_puts(text, "\n");
    }
    for (int64_t row = 0; row < g->rows; row++) {
        km_text_puts(text, row == best ? look->best : "");
        km_text_puts(text, row == best ? "*" : " ");
        for (int64_t i = 0; i < to; i = i ? i + 1 : from)
            km_text_printf(text, "  %*s%s", g->columns[i].width - characters(g->columns[i].cells[row]), "",
                           g->columns[i].cells[row]);
        km_text_puts(text, row == best ? look->plain : "");
        km_text_puts(text, "\n");
    }
}

// Columns that a terminal has no place for go on below.
static void sheet_print(km_text *text, sheet *g, int64_t best, const style *look) {
    measure(g);
    fit_bars(g, look);
    int64_t from = 1, to = 1;
    do {
        int width = 1 + 2 + g->columns[0].width;
        for (; to < g->columns_count; to++) {
            width += 2 + g->columns[to].width;
            if (width > look->width && to > from) break;
        }
        if (from > 1) km_text_puts(text, "\n");
        print_part(text, g, from, to, best, look);
        from = to;
    } while (from < g->columns_count);
}

// Columns ---------------------------------------------------------------------------------------------------

// Numbers of one column share their form: at least five significant digits of the smallest in fixed notation,
// or the scientific one when that would be too wide. A value that is not defined is "-".
static void fill_reals(column *c, const double *values, int64_t count) {
    double smallest = INFINITY, largest = 0;
    for (int64_t i = 0; i < count; i++) {
        double size = fabs(values[i]);
        if (!isfinite(size) || size == 0) continue;
        smallest = fmin(smallest, size);
        largest = fmax(largest, size);
    }
    int low = largest > 0 ? (int)floor(log10(smallest)) : 0;
    int high = largest > 0 ? (int)floor(log10(largest)) : 0;
    int fixed = low >= -4 && high <= 10 && high - low <= 6;
    for (int64_t i = 0; i < count; i++) {
        if (isnan(values[i]))
            snprintf(c->cells[i], CELL, "-");
        else if (values[i] == 0)
            snprintf(c->cells[i], CELL, "0");
        else if (fixed)
            snprintf(c->cells[i], CELL, "%.*f", low < 4 ? 4 - low : 0, values[i]);
        else
            snprintf(c->cells[i], CELL, "%.5e", values[i]);
    }
}

static void add_reals(sheet *g, const char *title, const double *values) {
    column *c = sheet_add(g, title);
    if (c) fill_reals(c, values, g->rows);
}

static void add_k(sheet *g, const km_result *result) {
    column *c = sheet_add(g, "K");
    for (int64_t m = 0; c && m < g->rows; m++) snprintf(c->cells[m], CELL, "%d", result->models[m].k);
}

// Only where some K has clusters without points.
static void add_effective_k(sheet *g, const km_result *result) {
    int64_t short_of = 0;
    for (int64_t m = 0; m < g->rows; m++) short_of += result->models[m].effective_k < result->models[m].k;
    column *c = short_of ? sheet_add(g, "with points") : NULL;
    for (int64_t m = 0; c && m < g->rows; m++)
        snprintf(c->cells[m], CELL, "%d", result->models[m].effective_k);
}

static void add_inertia(sheet *g, const km_result *result, double *scratch) {
    for (int64_t m = 0; m < g->rows; m++) scratch[m] = result->models[m].inertia;
    add_reals(g, "inertia", scratch);
}

// The standard error behind a score that a sample or random draws gave.
static void add_error(char *cell, double error) {
    size_t used = strlen(cell);
    if (!isnan(error)) // two digits, a last 0 among them
        snprintf(cell + used, CELL - used, error == 0 || error >= 10 ? " +-%.3g" : " +-%#.2g", error);
}

static int is_computed(const km_result *result, int criterion) {
    return (result->criteria >> criterion & 1) != 0;
}

static column *add_criterion(sheet *g, const km_result *result, km_criterion criterion, double *scratch) {
    for (int64_t m = 0; m < g->rows; m++) scratch[m] = result->models[m].scores[criterion];
    add_reals(g, km_criterion_title(criterion), scratch);
    column *c = g->failed ? NULL : &g->columns[g->columns_count - 1];
    for (int64_t m = 0; c && m < g->rows; m++)
        add_error(c->cells[m], result->models[m].score_errors[criterion]);
    return c;
}

// How good each K is by what decides: the best has the longest bar. None for a rule, nor where all are the same.
static void add_bars(sheet *g, const km_result *result, km_criterion criterion) {
    double best = NAN, worst = NAN;
    int sign = km_criterion_best(criterion) == KM_BEST_MIN ? -1 : 1;
    for (int64_t m = 0; m < g->rows; m++) {
        best = fmax(best, sign * result->models[m].scores[criterion]);
        worst = fmin(worst, sign * result->models[m].scores[criterion]);
    }
    if (km_criterion_best(criterion) == KM_BEST_RULE || !(best > worst) || !isfinite(best - worst)) return;
    g->shares = malloc((size_t)g->rows * sizeof *g->shares);
    if (!g->shares) g->failed = 1;
    if (!g->shares || !sheet_add(g, "")) return;
    g->bar = g->columns_count - 1;
    for (int64_t m = 0; m < g->rows; m++)
        g->shares[m] = (sign * result->models[m].scores[criterion] - worst) / (best - worst);
}

// A column of scores; that of what decides has bars beside it.
static void add_score(sheet *g, const km_result *result, km_criterion criterion, double *scratch) {
    add_criterion(g, result, criterion, scratch);
    if (criterion == result->selection.criterion) add_bars(g, result, criterion);
}

// "300+": the limit of iterations ended it.
static void add_iterations(sheet *g, const km_result *result) {
    int64_t stopped = 0;
    for (int64_t m = 0; m < g->rows; m++) stopped += !result->models[m].converged;
    column *c = sheet_add(g, "iterations");
    for (int64_t m = 0; c && m < g->rows; m++)
        snprintf(c->cells[m], CELL, "%lld%s", (long long)result->models[m].n_iter,
                 !result->models[m].converged ? "+"
                 : stopped                    ? " "
                                              : "");
}

static void add_agreed(sheet *g, const km_result *result) {
    column *c = sheet_add(g, "restarts agreed");
    for (int64_t m = 0; c && m < g->rows; m++)
        snprintf(c->cells[m], CELL, "%lld/%lld", (long long)result->models[m].restarts_agreed,
                 (long long)result->models[m].restarts);
}

// By which part of the best restart's inertia refinement lowered it, where it found another model.
static void add_refined(sheet *g, const km_result *result) {
    int64_t refined = 0;
    for (int64_t m = 0; m < g->rows; m++) refined += result->models[m].refined;
    column *c = refined ? sheet_add(g, "refined by") : NULL;
    for (int64_t m = 0; c && m < g->rows; m++) {
        const km_model *model = &result->models[m];
        double before = model->restart_inertia ? model->restart_inertia[model->restart] : 0;
        double gain = 100 * (1 - model->inertia / before);
        if (model->refined && before > 0)
            snprintf(c->cells[m], CELL, gain >= .05 ? "%.1f %%" : "<0.1 %%", gain);
        else
            snprintf(c->cells[m], CELL, "-");
    }
}

static void add_smallest(sheet *g, const km_result *result) {
    column *c = sheet_add(g, "smallest cluster");
    for (int64_t m = 0; c && m < g->rows; m++) {
        const km_model *model = &result->models[m];
        int64_t smallest = INT64_MAX;
        for (int32_t j = 0; j < model->k; j++)
            smallest = model->counts[j] < smallest ? model->counts[j] : smallest;
        snprintf(c->cells[m], CELL, "%lld", (long long)smallest);
    }
}

// Marks the K that the criterion prefers; the others get a space, so that numbers stay aligned.
static void mark_vote(column *c, const km_result *result, km_criterion criterion) {
    for (int64_t m = 0; c && m < result->models_count; m++) {
        size_t end = strlen(c->cells[m]);
        int chosen = result->selection.votes[criterion] == result->models[m].k;
        snprintf(c->cells[m] + end, CELL - end, chosen ? "*" : " ");
    }
}

// Parts of the report ---------------------------------------------------------------------------------------

static void print_head(km_text *text, const km_result *result) {
    double ms = result->timing.total_ms;
    km_text_printf(
        text, "%lld point%s, %lld feature%s, %s on %s; %lld restart%s, seed %llu; %lld passes, %.*f %s\n\n",
        (long long)result->n, result->n == 1 ? "" : "s", (long long)result->d, result->d == 1 ? "" : "s",
        result->type == KM_FLOAT64 ? "float64" : "float32", result->target, (long long)result->n_init,
        result->n_init == 1 ? "" : "s", (unsigned long long)result->seed,
        (long long)result->passes + (long long)result->refine_passes, ms < 10 || ms >= 1e4 ? 1 : 0,
        ms < 1e4 ? ms : ms / 1e3, ms < 1e4 ? "ms" : "s");
}

static void print_main(km_text *text, const km_result *result, double *scratch, const style *look) {
    sheet g = {.rows = result->models_count};
    km_criterion decides = result->selection.criterion;
    add_k(&g, result);
    add_effective_k(&g, result);
    add_inertia(&g, result, scratch);
    add_score(&g, result, KM_CRITERION_calinski_harabasz, scratch);
    if (decides != KM_CRITERION_calinski_harabasz && is_computed(result, decides))
        add_score(&g, result, decides, scratch);
    add_iterations(&g, result);
    add_agreed(&g, result);
    add_refined(&g, result);
    add_smallest(&g, result);
    for (int c = 0; c < KM_CRITERION_COUNT; c++) // what was asked for
        if (c != (int)decides && is_computed(result, c) &&
            km_criterion_needs((km_criterion)c) != KM_NEEDS_FINISH)
            add_score(&g, result, (km_criterion)c, scratch);
    if (g.failed)
        text->failed = 1;
    else
        sheet_print(text, &g, result->selection.best, look);
    sheet_free(&g);
}

static void print_criteria(km_text *text, const km_result *result, double *scratch, const style *look) {
    sheet g = {.rows = result->models_count};
    add_k(&g, result);
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        if (is_computed(result, c))
            mark_vote(add_criterion(&g, result, (km_criterion)c, scratch), result, (km_criterion)c);
    km_text_puts(text, "\nall criteria (* the K that each prefers)\n");
    if (g.failed)
        text->failed = 1;
    else
        sheet_print(text, &g, result->selection.best, look);
    sheet_free(&g);
}

static int64_t votes_count(const km_result *result, int64_t k) {
    int64_t count = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++)
        count += is_computed(result, c) && result->selection.votes[c] == k;
    return count;
}

// The titles of all criteria that vote for k (-1: for none).
static void print_voters(km_text *text, const km_result *result, int64_t k) {
    const char *between = " ";
    for (int c = 0; c < KM_CRITERION_COUNT; c++) {
        if (!is_computed(result, c) || result->selection.votes[c] != k) continue;
        km_text_printf(text, "%s%s", between, km_criterion_title((km_criterion)c));
        between = ", ";
    }
}

// Ks by the number of criteria that prefer them, the most first, each with these.
static void print_votes(km_text *text, const km_result *result) {
    const char *before = "preferred: ";
    // No inertia is left: the reason has said that criteria say nothing.
    if (result->models[result->selection.best].scores[KM_CRITERION_wb] == 0) return;
    for (int64_t votes = KM_CRITERION_COUNT; votes > 0; votes--) {
        for (int64_t m = 0; m < result->models_count; m++) {
            if (votes_count(result, result->models[m].k) != votes) continue;
            km_text_printf(text, "%sK = %d by", before, result->models[m].k);
            print_voters(text, result, result->models[m].k);
            before = "; ";
        }
    }
    int64_t computed = 0;
    for (int c = 0; c < KM_CRITERION_COUNT; c++) computed += is_computed(result, c);
    if (votes_count(result, -1) == computed) {
        km_text_puts(text, "preferred: none, no criterion is defined here");
    } else if (votes_count(result, -1) > 0) {
        km_text_puts(text, "; none by");
        print_voters(text, result, -1);
    }
    km_text_puts(text, "\n");
}

// The share of lloyd's distances that the algorithm computed.
static void print_counters(km_text *text, const km_result *result) {
    const km_counters *c = &result->counters;
    km_text_printf(text, "\nalgorithm: %s", km_algorithm_name(c->algorithm));
    if (c->distances >= 0 && c->distances_lloyd > 0)
        km_text_printf(text, "; %.3g distances, %.1f %% of lloyd's %.3g", (double)c->distances,
                       100 * (double)c->distances / (double)c->distances_lloyd, (double)c->distances_lloyd);
    if (c->points_skipped > 0) km_text_printf(text, "; %.3g points skipped", (double)c->points_skipped);
    km_text_puts(text, "\n");
}

static void print_digest(km_text *text, const km_result *result) {
    km_text_printf(text, "\ndigest: xxh3:%016llx\n", (unsigned long long)km_result_digest(result));
}

static void print_rest(km_text *text, const km_result *result) {
    int64_t moving = 0;
    for (int64_t m = 0; m < result->models_count; m++) moving += !result->models[m].at_rest;
    if (result->refine != 0 && moving)
        km_text_printf(text, "\n%lld of %lld K were not iterated until nothing moved: %s\n",
                       (long long)moving, (long long)result->models_count,
                       result->interrupted ? "the fit was interrupted" : "refinement had used its share");
}

static void print_choice(km_text *text, const km_result *result, const style *look) {
    const km_selection *selection = &result->selection;
    char said[32]; // what this line and the reason would both begin with
    int size = snprintf(said, sizeof said, "K = %d is ", result->models[selection->best].k);
    if (strncmp(selection->reason, said, (size_t)size) != 0) size = 0;
    if (!selection->clustered)
        km_text_puts(
            text, "\nno clusters: no valley of lower density parts any two neighbouring clusters of any K");
    km_text_printf(text, "\n%sbest K%s = %d%s: %s\n", look->best, selection->clustered ? "" : " of the list",
                   result->models[selection->best].k, look->plain, selection->reason + size);
}

km_status km_result_to_table(char **out, const km_result *result, int looks, int verbose, km_error *err) {
    int colour = looks & KM_TABLE_COLOUR;
    const style with = {colour ? "\033[1;32m" : "", colour ? "\033[0m" : "", looks & KM_TABLE_UTF8,
                        looks >= KM_TABLE_WIDTH(1) ? looks / KM_TABLE_WIDTH(1) : WIDTH},
                *look = &with;
    *out = NULL;
    double *scratch = malloc((size_t)result->models_count * sizeof *scratch);
    if (!scratch) return km_fail_memory(err, "the table", result->models_count * (int64_t)sizeof *scratch);
    km_text text = {0};
    print_head(&text, result);
    print_main(&text, result, scratch, look);
    print_rest(&text, result);
    if (verbose) print_criteria(&text, result, scratch, look);
    if (verbose) print_counters(&text, result);
    if (verbose) print_digest(&text, result);
    print_choice(&text, result, look);
    print_votes(&text, result);
    free(scratch);
    return km_text_take(out, &text, err);
}
