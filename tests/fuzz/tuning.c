// SPDX-License-Identifier: MIT
// From the text of a tuning table to a plan: every refusal says why, what is read is written and read back to the same
// text, and what is planned can be explained and emitted.
#include "fuzz.h"

#include "gen/tuning.h"
#include "gen/words.h"
#include <kmgen/plan.h>

#include <string.h>

int64_t fuzz_accepted;

static void must_come_back(const char *text) {
    km_error err = {{0}};
    km_tuning tuning;
    char *written = NULL, *again = NULL;
    km_tuning_init(&tuning);
    if (km_tuning_parse(&tuning, text, (int64_t)strlen(text), "table", &err) == KM_OK) {
        must(km_tuning_to_yaml(&written, &tuning, &err) == KM_OK, "a table cannot be written");
        km_status status = km_tuning_parse(&tuning, written, (int64_t)strlen(written), "table", &err);
        must(status == KM_OK, "a table that was written cannot be read");
        must(km_tuning_to_yaml(&again, &tuning, &err) == KM_OK, "a table cannot be written again");
        must(strcmp(written, again) == 0, "a table that was read is another one");
    }
    km_text_free(written);
    km_text_free(again);
    km_tuning_clear(&tuning);
}

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
    must(status == KM_OK || err.text[0], "a tuning table was refused without a reason");
    must(status == KM_OK || status == KM_ERROR_SPEC, "refused by a bug");
    if (status == KM_OK) {
        char *table = NULL;
        fuzz_accepted += strcmp(plan.tuned.table, "tuning table") == 0;
        must(plan.spec.fixed_count == 0, "a number of the table is left in the spec");
        must(km_plan_explain(&table, &plan, &err) == KM_OK, "a plan cannot be explained");
        must(km_source_emit(&source, &plan, NULL, &err) == KM_OK, "a plan cannot be emitted");
        km_text_free(table);
    }
    km_source_clear(&source);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
}

// The hash of a design's templates is not to be guessed: where an entry's begins with the design's name, it
// is put in.
static void put_hashes(char *text) {
    static const char key[] = "templates: ";
    for (char *at = text; (at = strstr(at, key));) {
        at += sizeof key - 1;
        for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++) {
            char hash[17];
            km_target target = {km_design_target((km_design)i), 0};
            const char *name = km_design_name((km_design)i);
            if (strncmp(at, name, strlen(name)) != 0 || strlen(at) < 16) continue;
            if (target.kind == KM_TARGET_CPU) target.arch = KM_ISA_AVX512;
            km_templates_hash(hash, (km_design)i, target);
            memcpy(at, hash, 16);
            break;
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    char *text = malloc(size + 1);
    must(text != NULL, "no memory");
    if (size) memcpy(text, bytes, size);
    text[size] = 0;
    put_hashes(text);
    must_come_back(text);
    plan_with(text, "cpu:avx512");
    plan_with(text, "cuda:sm_90");
    free(text);
    return 0;
}
