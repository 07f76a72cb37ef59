// SPDX-License-Identifier: MIT
#include "tune_report.h"
#include "../../gen/spec_fields.h"
#include "../../gen/words.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

const km_tune_candidate *km_tune_candidate_at(const km_tune_result *result, int64_t index) {
    return index >= 0 && index < result->candidates_count ? &result->candidates[index] : NULL;
}

int km_tune_is_timed(const km_tune_candidate *candidate) {
    return candidate->outcome == KM_TUNE_MEASURED && candidate->ms > 0 && isfinite(candidate->ms);
}

const km_fixed *km_tune_number(const km_tune_candidate *candidate, const char *name) {
    for (int64_t i = 0; i < candidate->numbers_count; i++)
        if (!strcmp(candidate->numbers[i].name, name)) return &candidate->numbers[i];
    return NULL;
}

static int has_number(const km_tune_result *result, const char *name) {
    for (int64_t i = 0; i < result->candidates_count; i++)
        if (km_tune_number(&result->candidates[i], name)) return 1;
    return 0;
}

int64_t km_tune_names(const char *names[KM_TUNE_NAMES_MAX], const km_tune_result *result) {
    int64_t count = 0;
    for (int i = 0; i < KM_PARAM_COUNT; i++)
        if (has_number(result, km_param_name((km_param)i))) names[count++] = km_param_name((km_param)i);
    if (has_number(result, "algorithm")) names[count++] = "algorithm";
    return count;
}

const char *km_tune_ms_text(char text[KM_TUNE_MS_TEXT], double ms) {
    if (!(ms > 0) || !isfinite(ms)) return strcpy(text, "-");
    int decimals = 3 - (int)floor(log10(ms));
    if (decimals > 8 || ms >= 1e9)
        snprintf(text, KM_TUNE_MS_TEXT, "%.3e", ms);
    else
        snprintf(text, KM_TUNE_MS_TEXT, "%.*f", decimals > 0 ? decimals : 0, ms);
    return text;
}

void km_tune_device_line(km_text *line, const km_tune_result *result) {
    enum { NAME_CHARACTERS = 50 };
    char target[32], name[sizeof result->facts.name], compiler[sizeof result->compiler];
    km_target_text(target, sizeof target, result->spec.target);
    snprintf(name, sizeof name, "%s", result->facts.name);
    snprintf(compiler, sizeof compiler, "%s", result->compiler);
    km_text_plain(name);
    km_text_plain(compiler);
    km_text_cut(name, NAME_CHARACTERS);
    km_text_printf(line, "%s (%s", name, target);
    if (result->driver) km_text_printf(line, ", driver %" PRId32, result->driver);
    if (compiler[0]) km_text_printf(line, ", %s", compiler);
    if (result->threads)
        km_text_printf(line, ", %" PRId64 " thread%s", result->threads, result->threads == 1 ? "" : "s");
    km_text_puts(line, ")");
}

void km_tune_shape_line(km_text *line, const km_tune_result *result) {
    km_text_printf(line, "features: %" PRId64 ", ", result->spec.features);
    km_spec_clusters_text(line, &result->spec);
    km_text_printf(line, ", type: %s, points: %" PRId64, km_type_name(result->spec.type), result->points);
}

void km_text_cut(char *text, int64_t characters) {
    static const char dots[] = "...";
    int64_t count = 0;
    char *end = text; // where three characters less than there may be end
    for (char *at = text; *at; at++) {
        if ((*at & 0xc0) == 0x80) continue;
        if (count == characters - 3) end = at;
        if (count++ < characters) continue;
        strcpy(end, dots); // at least four bytes stand there
        return;
    }
}
