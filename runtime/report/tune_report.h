// SPDX-License-Identifier: MIT
// What the reports of a tuning share.
#ifndef KM_RUNTIME_REPORT_TUNE_REPORT_H
#define KM_RUNTIME_REPORT_TUNE_REPORT_H
#include "../../base/text.h"
#include "../../gen/params.h"
#include <kmgen/tune.h>

// The candidate of that index; NULL where there is none.
const km_tune_candidate *km_tune_candidate_at(const km_tune_result *result, int64_t index);
// Non-zero where it has a time.
int km_tune_is_timed(const km_tune_candidate *candidate);
// Its number of that name; NULL where it has none.
const km_fixed *km_tune_number(const km_tune_candidate *candidate, const char *name);
// Names of the numbers that candidates have, in the order of gen/params.h; `design` is not among them, `algorithm` the
// last one. Returns how many.
enum { KM_TUNE_NAMES_MAX = KM_PARAM_COUNT + 1 };
int64_t km_tune_names(const char *names[KM_TUNE_NAMES_MAX], const km_tune_result *result);

// "0.8420": four digits that count. "-" for what is no time. Returns `text`.
enum { KM_TUNE_MS_TEXT = 32 };
const char *km_tune_ms_text(char text[KM_TUNE_MS_TEXT], double ms);
// The device, and what was clustered on it, each one line without its end, fit for a terminal.
void km_tune_device_line(km_text *line, const km_tune_result *result);
void km_tune_shape_line(km_text *line, const km_tune_result *result);
// Shortens UTF-8 to so many characters, the last three of them "..." where some were dropped.
void km_text_cut(char *text, int64_t characters);

#endif
