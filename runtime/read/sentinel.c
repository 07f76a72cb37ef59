// SPDX-License-Identifier: MIT
// Numbers that stand for a missing value, such as -999: in many rows, and far from all others of their column.
#include "../../base/log.h"
#include "../../base/size.h"
#include "ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS_MAX = 1 << 16, // that are looked at to find a suspect
    SHARE = 1000,       // at least one row of so many has it,
    ROWS_MIN = 3,       // and so many rows
    FAR = 10,           // ranges of the others between it and them; 1 for -999 and the like
};

// The two lowest and the two highest of the different values of a column, and how often the outer ones are there.
typedef struct ends {
    double low, next_low, next_high, high;
    double lows, highs, rows;
} ends;
static const ends nothing = {INFINITY, INFINITY, -INFINITY, -INFINITY, 0, 0, 0};

// One value more, which is there so often.
static void meet_low(ends *e, double value, double times) {
    if (value < e->low) {
        e->next_low = e->low;
        e->low = value;
        e->lows = 0;
    } else if (value > e->low && value < e->next_low) {
        e->next_low = value;
    }
    if (value == e->low) e->lows += times;
}

static void meet_high(ends *e, double value, double times) {
    if (value > e->high) {
        e->next_high = e->high;
        e->high = value;
        e->highs = 0;
    } else if (value < e->high && value > e->next_high) {
        e->next_high = value;
    }
    if (value == e->high) e->highs += times;
}

// Of every `step`th row.
static ends find_own(const km_parse *p, int64_t slot, int64_t step) {
    ends e = nothing;
    int64_t before = km_parse_first(p) % step;
    for (int64_t i = before ? step - before : 0; i < p->table->rows; i += step) {
        e.rows++;
        double value = km_parse_value(p, p->values, i * p->slots_count + slot);
        meet_low(&e, value, 1);
        meet_high(&e, value, 1);
    }
    return e;
}

// Of those of all ranks.
static ends find_ends(const km_parse *p, int64_t slot, int64_t step) {
    enum { NUMBERS = sizeof(ends) / sizeof(double) };
    ends own = find_own(p, slot, step), e = nothing;
    if (!p->part) return own;
    double *all = km_parse_of_ranks(p, (const double *)&own, NUMBERS);
    for (int64_t r = 0; all && r < p->part->share->ranks->size; r++) {
        memcpy(&own, all + r * NUMBERS, sizeof own);
        if (own.rows == 0) continue;
        meet_low(&e, own.low, own.lows);
        meet_low(&e, own.next_low, 0);
        meet_high(&e, own.high, own.highs);
        meet_high(&e, own.next_high, 0);
        e.rows += own.rows;
    }
    free(all);
    return e;
}

// 9, 99, 999.9 and the like, of either sign.
static int is_nines(double value) {
    char text[32];
    int size = snprintf(text, sizeof text, "%.7g", fabs(value));
    return (int)strspn(text, "9.") == size;
}

static int is_sentinel(double value, double times, double gap, const ends *e) {
    double rest = e->next_high - e->next_low;
    int is_frequent = times >= ROWS_MIN && times * SHARE >= e->rows;
    return is_frequent && value != 0 && rest > 0 && gap > rest * (is_nines(value) ? 1 : FAR);
}

static int low_is_one(const ends *e) {
    return is_sentinel(e->low, e->lows, e->next_low - e->low, e);
}

static int high_is_one(const ends *e) {
    return is_sentinel(e->high, e->highs, e->high - e->next_high, e);
}

// As a person would write it.
static void write_number(char text[40], const km_parse *p, double value) {
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, 40, "%.*g", digits, value);
        double again = strtod(text, NULL);
        if (p->params->type == KM_FLOAT32 ? (float)again == (float)value : again == value) return;
    }
}

static void warn_of(const km_parse *p, int64_t slot, double value, double times, double next, double last) {
    char text[40], place[96] = "";
    int64_t column = p->slots[slot].column;
    const char *name = km_parse_name(p, column), *words = p->params->na_values;
    write_number(text, p, value);
    if (name) snprintf(place, sizeof place, " (%.80s)", name);
    km_log_line(p->params->log, KM_LOG_WARNING,
                "%s: column %" PRId64 "%s is %s in %.0f"
                " rows and %.6g to %.6g in all others; where %s means that a value is missing, give "
                "--na-values %s%s%s",
                p->file, column + 1, place, text, times, fmin(next, last), fmax(next, last), text,
                words ? words : "", words ? "," : "", text);
}

void km_warn_of_sentinels(const km_parse *p) {
    int64_t step = km_max(km_parse_rows_all(p) / ROWS_MAX, 1);
    for (int64_t s = 0; s < p->slots_count; s++) {
        const km_slot *slot = &p->slots[s];
        if (slot->kind != KM_COLUMN_NUMBER || km_slot_is_left_out(slot) || slot->is_weight) continue;
        ends e = find_ends(p, s, step);
        if (step > 1 && (low_is_one(&e) || high_is_one(&e))) e = find_ends(p, s, 1);
        if (low_is_one(&e)) warn_of(p, s, e.low, e.lows, e.next_low, high_is_one(&e) ? e.next_high : e.high);
        if (high_is_one(&e)) warn_of(p, s, e.high, e.highs, e.next_high, low_is_one(&e) ? e.next_low : e.low);
    }
}
