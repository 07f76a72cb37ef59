// SPDX-License-Identifier: MIT
// A tuning as a table for people: the device and the shape, the fastest candidates, what was left out and why.
#include "../../base/error.h"
#include "tune_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = 100, // of a line
    FASTEST = 10,
    CELL = 32,
    INDENT = 9, // of a candidate's numbers, below its line
    NUMBERS_TEXT = 1536,
};

// Lines -----------------------------------------------------------------------------------------------------

// Ends a line: names and reasons come from elsewhere, and may be of any length and hold anything.
static void add_line(km_text *out, km_text *line) {
    out->failed |= line->failed;
    if (line->data) {
        km_text_plain(line->data);
        km_text_cut(line->data, WIDTH);
        km_text_puts(out, line->data);
    }
    km_text_puts(out, "\n");
    km_text_clear(line);
}

// "a: 1, b: 2" after `INDENT` spaces, broken after commas.
static void add_broken(km_text *out, const char *text) {
    for (const char *at = text; *at;) {
        int64_t size = (int64_t)strlen(at), end = size;
        if (size > WIDTH - INDENT) {
            end = WIDTH - INDENT;
            while (end > 1 && at[end - 1] != ',') end--;
        }
        km_text_printf(out, "%*s%.*s\n", INDENT, "", (int)end, at);
        at += end;
        while (*at == ' ') at++;
    }
}

// Head ------------------------------------------------------------------------------------------------------

static void add_times(km_text *out, const km_tune_result *result) {
    const km_tune_candidate *standard = km_tune_candidate_at(result, result->standard),
                            *best = km_tune_candidate_at(result, result->best);
    km_text line = {0};
    char ms[KM_TUNE_MS_TEXT];
    km_text_printf(&line, "read floor %s ms", km_tune_ms_text(ms, result->read_ms));
    if (!standard || !best || !km_tune_is_timed(best)) {
        km_text_puts(&line, "; no candidate was measured");
    } else {
        km_text_printf(&line, "; default %s ms", km_tune_ms_text(ms, standard->ms));
        km_text_printf(&line, "; best %s ms", km_tune_ms_text(ms, best->ms));
        if (standard == best)
            km_text_puts(&line, ": the default");
        else if (isfinite(result->gain))
            km_text_printf(&line, ", gain %.1f %%", 100 * result->gain);
        if (isfinite(result->noise)) km_text_printf(&line, ", noise %.1f %%", 100 * result->noise);
    }
    add_line(out, &line);
}

static int64_t count_outcome(const km_tune_result *result, km_tune_outcome outcome) {
    int64_t count = 0;
    for (int64_t i = 0; i < result->candidates_count; i++) count += result->candidates[i].outcome == outcome;
    return count;
}

static void add_counts(km_text *out, const km_tune_result *result) {
    km_text line = {0};
    int64_t measured = count_outcome(result, KM_TUNE_MEASURED),
            unmeasured = count_outcome(result, KM_TUNE_UNMEASURED),
            left_out = result->candidates_count - measured - unmeasured;
    km_text_printf(&line, "%" PRId64 " candidate%s: %" PRId64 " measured", result->candidates_count,
                   result->candidates_count == 1 ? "" : "s", measured);
    if (unmeasured) km_text_printf(&line, ", %" PRId64 " unmeasured", unmeasured);
    if (left_out) km_text_printf(&line, ", %" PRId64 " left out", left_out);
    if (isfinite(result->elapsed_s)) km_text_printf(&line, "; %.1f s", result->elapsed_s);
    if (result->stopped) km_text_puts(&line, ", stopped before the search was done");
    add_line(out, &line);
}

static void add_head(km_text *out, const km_tune_result *result) {
    km_text line = {0};
    km_tune_device_line(&line, result);
    add_line(out, &line);
    km_tune_shape_line(&line, result);
    add_line(out, &line);
    add_times(out, result);
    add_counts(out, result);
}

// The fastest -----------------------------------------------------------------------------------------------

// A candidate that has a time.
typedef struct timed {
    double ms;
    int64_t index;
} timed;

static int by_ms(const void *left, const void *right) {
    const timed *a = left, *b = right;
    if (a->ms != b->ms) return a->ms < b->ms ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index; // in the order of the space, whatever sorts
}

// "1.27"; "-" where that is not known.
static const char *ratio_text(char text[CELL], double ms, double of) {
    double ratio = of > 0 ? ms / of : 0;
    if (!isfinite(ratio) || ratio <= 0)
        snprintf(text, CELL, "-");
    else
        snprintf(text, CELL, ratio < 1000 ? "%.3f" : "%.3g", ratio);
    return text;
}

// "memory 87 %": the largest of the cost model's floors, and how much of the time that is.
static const char *bound_text(char text[CELL], const km_tune_candidate *candidate) {
    static const char *const names[] = {"memory", "issue", "tensor"};
    const double floors[] = {candidate->memory_ms, candidate->issue_ms, candidate->tensor_ms};
    int largest = -1;
    for (int i = 0; i < 3; i++)
        if (isfinite(floors[i]) && floors[i] > 0 && (largest < 0 || floors[i] > floors[largest])) largest = i;
    if (largest < 0)
        snprintf(text, CELL, "-");
    else
        snprintf(text, CELL, "%-6s %3.0f %%", names[largest],
                 fmin(100 * floors[largest] / candidate->ms, 1e6));
    return text;
}

static void add_candidate(km_text *out, const km_tune_result *result, const km_tune_candidate *candidate,
                          int64_t rank) {
    const km_tune_candidate *standard = km_tune_candidate_at(result, result->standard),
                            *best = km_tune_candidate_at(result, result->best);
    char registers[CELL] = "-", occupancy[CELL] = "-", ms[KM_TUNE_MS_TEXT], read[CELL], gain[CELL],
         bound[CELL];
    km_text line = {0};
    if (candidate->registers > 0) snprintf(registers, CELL, "%" PRId32, candidate->registers);
    if (candidate->occupancy > 0 && candidate->occupancy < 10)
        snprintf(occupancy, CELL, "%.0f %%", 100 * candidate->occupancy);
    int has_default = standard && km_tune_is_timed(standard);
    km_text_printf(
        &line, "%c%c%5" PRId64 "  %-9s  %9s  %9s  %9s  %12s  %9s  %s", candidate == best ? '*' : ' ',
        candidate == standard ? 'd' : ' ', rank, km_design_name(candidate->design), registers, occupancy,
        km_tune_ms_text(ms, candidate->ms), ratio_text(read, candidate->ms, result->read_ms),
        ratio_text(gain, candidate->ms, has_default ? standard->ms : 0), bound_text(bound, candidate));
    add_line(out, &line);
}

// The fastest ones, and the default and the chosen one where they are not among them.
typedef struct shown {
    const km_tune_candidate *rows[FASTEST + 2];
    int64_t ranks[FASTEST + 2], count;
} shown;

static int64_t count_design(const shown *s, km_design design) {
    int64_t count = 0;
    for (int64_t i = 0; i < s->count; i++) count += s->rows[i]->design == design;
    return count;
}

// Whether all rows of the candidate's design, which are several, have this number of it.
static int is_common(const shown *s, const km_tune_candidate *candidate, const km_fixed *number) {
    for (int64_t i = 0; i < s->count; i++) {
        if (s->rows[i]->design != candidate->design) continue;
        const km_fixed *other = km_tune_number(s->rows[i], number->name);
        if (!other || other->value != number->value) return 0;
    }
    return count_design(s, candidate->design) > 1;
}

// The numbers that rows of the design share, or those that they do not.
static const char *part_text(char text[NUMBERS_TEXT], const shown *s, const km_tune_candidate *candidate,
                             int common) {
    km_tune_candidate part = *candidate;
    part.numbers_count = 0;
    for (int64_t i = 0; i < candidate->numbers_count; i++)
        if (is_common(s, candidate, &candidate->numbers[i]) == common)
            part.numbers[part.numbers_count++] = candidate->numbers[i];
    return km_tune_numbers_text(text, NUMBERS_TEXT, &part);
}

static void add_rows(km_text *out, const km_tune_result *result, const shown *s) {
    char text[NUMBERS_TEXT], line[NUMBERS_TEXT + CELL];
    for (int64_t i = 0; i < s->count; i++) {
        add_candidate(out, result, s->rows[i], s->ranks[i]);
        add_broken(out, part_text(text, s, s->rows[i], 0));
    }
    for (int64_t i = 0; i < s->count; i++) {
        int64_t first = 0;
        while (s->rows[first]->design != s->rows[i]->design) first++;
        if (first < i || !part_text(text, s, s->rows[i], 1)[0]) continue;
        snprintf(line, sizeof line, "each %s: %s", km_design_name(s->rows[i]->design), text);
        add_broken(out, line);
    }
}

static void add_fastest(km_text *out, const km_tune_result *result, const timed *sorted, int64_t count) {
    shown s = {.count = 0};
    for (int64_t i = 0; i < count; i++) {
        if (i >= FASTEST && sorted[i].index != result->standard && sorted[i].index != result->best) continue;
        s.rows[s.count] = &result->candidates[sorted[i].index];
        s.ranks[s.count++] = i + 1;
    }
    km_text_printf(out, "\n%7s  %-9s  %9s  %9s  %9s  %12s  %9s  %s\n", "rank", "design", "registers",
                   "occupancy", "ms", "x read floor", "x default", "bound");
    add_rows(out, result, &s);
    km_text_puts(
        out, "* chosen, d the default; bound: the cost model's largest floor, and its share of the time\n");
}

// What was left out -------------------------------------------------------------------------------------------

// One line an outcome, with the first reason that a candidate of it has.
static void add_left_out(km_text *out, const km_tune_result *result) {
    static const char *const meanings[KM_TUNE_OUTCOME_COUNT] = {
#define MEANING(outcome, name, meaning) meaning,
        KM_TUNE_OUTCOMES(MEANING)
#undef MEANING
    };
    const char *before = "\n";
    for (int i = 0; i < KM_TUNE_OUTCOME_COUNT; i++) {
        const km_tune_candidate *example = NULL;
        int64_t count = count_outcome(result, (km_tune_outcome)i);
        if (!count || i == KM_TUNE_MEASURED) continue;
        for (int64_t c = 0; c < result->candidates_count && !example; c++)
            if (result->candidates[c].outcome == (km_tune_outcome)i && result->candidates[c].reason[0])
                example = &result->candidates[c];
        km_text line = {0};
        char numbers[NUMBERS_TEXT];
        km_text_printf(&line, "%" PRId64 " %s: %s", count, km_tune_outcome_name((km_tune_outcome)i),
                       example ? example->reason : meanings[i]);
        if (example)
            km_text_printf(&line, " (%s, %s)", km_design_name(example->design),
                           km_tune_numbers_text(numbers, sizeof numbers, example));
        km_text_puts(out, before);
        add_line(out, &line);
        before = "";
    }
}

km_status km_tune_table(char **out, const km_tune_result *result, km_error *err) {
    *out = NULL;
    int64_t count = 0, bytes = (result->candidates_count + 1) * (int64_t)sizeof(timed);
    timed *sorted = malloc((size_t)bytes);
    if (!sorted) return km_fail_memory(err, "the table", bytes);
    for (int64_t i = 0; i < result->candidates_count; i++)
        if (km_tune_is_timed(&result->candidates[i])) sorted[count++] = (timed){result->candidates[i].ms, i};
    qsort(sorted, (size_t)count, sizeof *sorted, by_ms);
    km_text text = {0};
    add_head(&text, result);
    if (count) add_fastest(&text, result, sorted, count);
    add_left_out(&text, result);
    free(sorted);
    return km_text_take(out, &text, err);
}
