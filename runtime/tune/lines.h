// SPDX-License-Identifier: MIT
// Candidates as JSON on one line: what the journal holds, and what worker processes are asked and answer.
#ifndef KM_RUNTIME_TUNE_LINES_H
#define KM_RUNTIME_TUNE_LINES_H
#include "../json.h"
#include <kmgen/tune.h>

// {"design": "tensor", "form": "rounded", "block": 384}: the design and the numbers, words as a spec writes them.
// NULL: no memory.
json_t *km_tune_plan_json(const km_tune_candidate *candidate);
// A candidate of design and numbers that such an object holds, in its order. KM_ERROR_SPEC.
km_status km_tune_plan_take(km_tune_candidate *candidate, const json_t *plan, km_error *err);

// What was found of a candidate, without its numbers and times; and back. 0 where the object is not that.
json_t *km_tune_found_json(const km_tune_candidate *candidate);
int km_tune_found_take(km_tune_candidate *candidate, const json_t *found);

// An array of doubles into at most `count`; returns how many.
int km_tune_reals_take(double *out, int count, const json_t *array);

// The object as one line with its end, which the caller frees; NULL: no memory. The object is used up.
char *km_tune_line(json_t *object);

#endif
