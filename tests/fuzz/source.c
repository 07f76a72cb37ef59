// SPDX-License-Identifier: MIT
// From bytes to spec to plan to source, for both targets: nothing may crash, every refusal says why, and what is
// accepted is written as YAML that reads back to the same spec, and emitted twice to the same bytes.
#include "fuzz.h"

#include <kmgen/plan.h>

#include <string.h>

enum { TEXT_MAX = 16 << 20 };

int64_t fuzz_accepted;

static void emit_for(const km_spec *spec, km_target_kind kind) {
    km_error err = {{0}};
    km_plan plan;
    km_plan_init(&plan);
    km_spec copy = *spec; // borrows the list of K
    if (copy.target.kind == KM_TARGET_AUTO) copy.target.kind = kind;
    if (copy.target.kind != kind) return;
    if (km_plan_make(&plan, &copy, NULL, &err) != KM_OK) {
        must(err.text[0] != 0, "a plan was refused without a reason");
        km_plan_clear(&plan);
        return;
    }
    fuzz_accepted++;
    km_source first, second;
    km_source_init(&first);
    km_source_init(&second);
    char *table = NULL;
    must(km_plan_explain(&table, &plan, &err) == KM_OK, "a plan cannot be explained");
    km_text_free(table);
    if (km_source_emit(&first, &plan, NULL, &err) != KM_OK) fprintf(stderr, "%s\n", err.text);
    must(first.text != NULL, "a plan cannot be emitted");
    must(km_source_emit(&second, &plan, NULL, &err) == KM_OK, "a plan cannot be emitted twice");
    must(first.text_size == second.text_size && !strcmp(first.text, second.text),
         "two texts of one plan differ");
    must(first.text_size < TEXT_MAX, "a text is far too large");
    km_source_clear(&first);
    km_source_clear(&second);
    km_plan_clear(&plan);
}

static void read_back(const km_spec *spec) {
    km_error err = {{0}};
    km_spec again;
    char *yaml = NULL, *yaml_again = NULL;
    km_spec_init(&again);
    must(km_spec_to_yaml(&yaml, spec, &err) == KM_OK, "a spec cannot be written");
    must(km_spec_parse(&again, yaml, (int64_t)strlen(yaml), "again", &err) == KM_OK,
         "a written spec is refused");
    must(km_spec_to_yaml(&yaml_again, &again, &err) == KM_OK, "a spec cannot be written again");
    must(!strcmp(yaml, yaml_again), "a spec reads back as another one");
    km_text_free(yaml);
    km_text_free(yaml_again);
    km_spec_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    km_error err = {{0}};
    km_spec spec;
    km_spec_init(&spec);
    if (km_spec_parse(&spec, (const char *)bytes, (int64_t)size, "input", &err) == KM_OK) {
        read_back(&spec);
        emit_for(&spec, KM_TARGET_CPU);
        emit_for(&spec, KM_TARGET_CUDA);
    } else {
        must(err.text[0] != 0, "a spec was refused without a reason");
    }
    km_spec_clear(&spec);
    return 0;
}
