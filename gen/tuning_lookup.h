// SPDX-License-Identifier: MIT
// Which entries of tuning tables may serve a plan, the best one first (docs/tuning.md states the rule).
#ifndef KM_GEN_TUNING_LOOKUP_H
#define KM_GEN_TUNING_LOOKUP_H
#include "template.h"
#include "tuning.h"

// How an entry came to be chosen, the better one first.
typedef enum km_tuning_step {
    KM_TUNING_EXACT,   // this shape on this device
    KM_TUNING_NEAREST, // a similar shape on this device, of the design and form that the cost model takes
    KM_TUNING_OTHER,   // this shape on another device of the same architecture
} km_tuning_step;

enum { KM_TUNING_PICKS_MAX = 8 };
typedef struct km_tuning_pick {
    const km_tuning *table;
    const km_tuning_entry *entry;
    const char *name; // of the table
    km_tuning_step step;
    int is_shipped;  // within the step: after what was given
    double distance; // and then: the least is the best
} km_tuning_pick;

// What was found. `tables` hold what the picks point to.
typedef struct km_tuning_found {
    km_tuning *tables;
    int64_t tables_count;
    km_tuning_pick picks[KM_TUNING_PICKS_MAX];
    int64_t picks_count;
    int64_t stale;                  // entries that were left out because the templates are others now
    char warnings[KM_WARNINGS_MAX]; // lines: why a table that nobody named is not used, old names of one
} km_tuning_found;

// Tables that ship with kmgen (made by gen/embed.c at build time).
extern const km_embedded km_embedded_tables[];
extern const int64_t km_embedded_tables_count;

// `model` is the plan that the cost model alone makes with these parameters. KM_ERROR_SPEC: the table that the user
// named is wrong, another device's, or its entry of this shape is stale; KM_ERROR_INTERNAL: a shipped table cannot be
// read. Cleared by km_tuning_found_clear, after a failure too.
km_status km_tuning_find(km_tuning_found *found, const km_plan *model, const km_plan_params *params,
                         const km_embedded *shipped, int64_t shipped_count, km_error *err);
void km_tuning_found_clear(km_tuning_found *found);

// Fixes the pick's numbers in the spec of a plan that is made, as far as they hold for it, and fills plan->tuned.
void km_tuning_take(km_plan *plan, const km_tuning_pick *pick, const km_plan *model);
// Takes them out again once the plan is made: what it leaves is what the user fixed.
void km_tuning_leave(km_plan *plan);

// km_plan_make with these tables in place of the shipped ones (plan.c).
km_status km_plan_make_with(km_plan *plan, const km_spec *spec, const km_plan_params *params,
                            const km_embedded *shipped, int64_t shipped_count, km_error *err);

#endif
