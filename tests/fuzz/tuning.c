// SPDX-License-Identifier: MIT
// From the text of a tuning file to a plan: every refusal says why, and what is planned can be explained and emitted.
#include "fuzz.h"

#include <kmgen/plan.h>

#include <string.h>

int64_t fuzz_accepted;

static void plan_with(const char *tuning, const char *target) {
    km_error err = {{0}};
    km_spec spec;
    km_plan plan;
    km_source source;
    km_plan_params params;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_source_init(&source);
    km_plan_params_init(&params);
    params.tuning = tuning;
    spec.features = 4;
    must(km_spec_set_clusters(&spec, "3..5", &err) == KM_OK, "no list of K");
    must(km_spec_set_target(&spec, target, &err) == KM_OK, "no target");
    km_status status = km_plan_make(&plan, &spec, &params, &err);
    must(status == KM_OK || err.text[0], "a tuning file was refused without a reason");
    must(status == KM_OK || status == KM_ERROR_SPEC || status == KM_ERROR_PLAN, "refused by a bug");
    if (status == KM_OK) {
        char *table = NULL;
        int64_t tuned = 0; // not what follows from the entry's numbers
        for (int64_t i = 0; i < plan.numbers_count; i++)
            tuned += strstr(plan.numbers[i].reason, "tuning") != NULL;
        fuzz_accepted += tuned > 0;
        must(km_plan_explain(&table, &plan, &err) == KM_OK, "a plan cannot be explained");
        must(!strstr(table, "in the tuning file"),
             "a number of the tuning file is left that nobody asked for");
        must(km_source_emit(&source, &plan, NULL, &err) == KM_OK, "a plan cannot be emitted");
        km_text_free(table);
    }
    km_source_clear(&source);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char *text = malloc(size + 1);
    must(text != NULL, "no memory");
    if (size) memcpy(text, bytes, size);
    text[size] = 0;
    plan_with(text, "cpu:avx512");
    plan_with(text, "cuda:sm_90");
    free(text);
    return 0;
}
