// SPDX-License-Identifier: MIT
// What a tuning found, in words.
#include "../../gen/words.h"
#include <kmgen/tune.h>

#include <stdio.h>
#include <string.h>

const char *km_tune_outcome_name(km_tune_outcome outcome) {
    static const char *const names[KM_TUNE_OUTCOME_COUNT] = {
#define NAME(outcome, name, meaning) #name,
        KM_TUNE_OUTCOMES(NAME)
#undef NAME
    };
    return (unsigned)outcome < KM_TUNE_OUTCOME_COUNT ? names[outcome] : "unknown";
}

const char *km_tune_numbers_text(char *text, int64_t size, const km_tune_candidate *candidate) {
    int64_t at = 0;
    if (size > 0) text[0] = 0;
    for (int64_t i = 0; i < candidate->numbers_count && at < size; i++) {
        char value[KM_VALUE_TEXT];
        if (!strcmp(candidate->numbers[i].name, "design")) continue;
        at += snprintf(text + at, (size_t)(size - at), "%s%s: %s", at ? ", " : "", candidate->numbers[i].name,
                       km_fixed_text(value, &candidate->numbers[i]));
    }
    return text;
}
