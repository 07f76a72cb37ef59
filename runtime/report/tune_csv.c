// SPDX-License-Identifier: MIT
// A tuning as CSV: a row a candidate, a column each number that any of them has.
#include "../../base/error.h"
#include "../../gen/words.h"
#include "tune_report.h"

#include <csv.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// As few digits as are read back to the same bits; nothing for what is not finite.
static void add_real(km_text *out, double value) {
    char digits[40];
    int precision = 1;
    if (isfinite(value)) {
        do snprintf(digits, sizeof digits, "%.*g", precision, value);
        while (precision++ < 17 && strtod(digits, NULL) != value);
        km_text_puts(out, digits);
    }
    km_text_puts(out, ",");
}

static void add_integer(km_text *out, int64_t value) {
    km_text_printf(out, "%" PRId64 ",", value);
}

// In quotes, and on one line.
static void add_reason(km_text *out, const km_tune_candidate *candidate) {
    char plain[sizeof candidate->reason], quoted[2 * sizeof plain + 2];
    snprintf(plain, sizeof plain, "%s", candidate->reason);
    if (!plain[0]) return;
    km_text_plain(plain);
    km_text_add(out, quoted, (int64_t)csv_write(quoted, sizeof quoted, plain, strlen(plain)));
}

static void add_candidate(km_text *out, const km_tune_candidate *candidate, const char *const *names,
                          int64_t names_count) {
    int is_timed = km_tune_is_timed(candidate);
    km_text_printf(out, "%s,", km_design_name(candidate->design));
    for (int64_t i = 0; i < names_count; i++) {
        const km_fixed *number = km_tune_number(candidate, names[i]);
        char text[KM_VALUE_TEXT];
        km_text_printf(out, "%s,", number ? km_fixed_text(text, number) : "");
    }
    add_real(out, candidate->predicted_ms);
    add_real(out, is_timed ? candidate->ms : NAN);
    add_real(out, is_timed ? candidate->spread_ms : NAN);
    add_integer(out, candidate->samples);
    add_integer(out, candidate->registers);
    add_integer(out, candidate->blocks_per_sm);
    add_real(out, candidate->occupancy);
    km_text_printf(out, "%s,", km_tune_outcome_name(candidate->outcome));
    add_reason(out, candidate);
    km_text_puts(out, "\n");
}

km_status km_tune_csv(char **out, const km_tune_result *result, km_error *err) {
    const char *names[KM_TUNE_NAMES_MAX];
    int64_t names_count = km_tune_names(names, result);
    km_text text = {0};
    *out = NULL;
    // A decimal comma of the caller's language would be another column.
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c) return km_fail_memory(err, "the language of numbers", 0);
    locale_t before = uselocale(c);
    km_text_puts(&text, "design,");
    for (int64_t i = 0; i < names_count; i++) km_text_printf(&text, "%s,", names[i]);
    // A plan's number is called blocks_per_sm, too.
    km_text_puts(&text, "predicted_ms,ms,spread_ms,samples,registers,kernel_blocks_per_sm,occupancy,outcome,"
                        "reason\n");
    for (int64_t i = 0; i < result->candidates_count; i++)
        add_candidate(&text, &result->candidates[i], names, names_count);
    uselocale(before);
    freelocale(c);
    return km_text_take(out, &text, err);
}
