// SPDX-License-Identifier: MIT
// The plan in words, shared by km_plan_explain and the head of an emitted file.
#ifndef KM_GEN_EXPLAIN_H
#define KM_GEN_EXPLAIN_H
#include "../base/text.h"
#include "../base/error.h"
#include <kmgen/plan.h>

// Device, design, numbers with reasons, bytes and operations per point, budgets.
void km_explain_numbers(km_text *out, const km_plan *plan);
// What each design of the target would take, and the memory for n points.
void km_explain_estimates(km_text *out, const km_plan *plan);
void km_explain_memory(km_text *out, const km_plan *plan);

#endif
