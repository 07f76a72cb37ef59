// SPDX-License-Identifier: MIT
// The emitted file: its head, then the root template of the plan's design.
#include "explain.h"
#include "planner.h"

#include <stdio.h>
#include <string.h>

void km_source_init(km_source *source) {
    *source = (km_source){.size = sizeof *source};
    km_plan_init(&source->plan);
}

void km_source_clear(km_source *source) {
    km_text_free(source->text);
    km_plan_clear(&source->plan);
    km_source_init(source);
}

// `text` as comment lines.
static void add_comment(km_text *out, const char *text) {
    while (*text) {
        size_t size = strcspn(text, "\n");
        km_text_printf(out, "//%s%.*s\n", size ? " " : "", (int)size, text);
        text += size + (text[size] == '\n');
    }
}

static km_status add_head(km_text *out, const km_source *source, km_error *err) {
    const km_plan *plan = &source->plan;
    char *yaml = NULL;
    km_text table = {0};
    KM_TRY(km_spec_to_yaml(&yaml, &plan->spec, err));
    km_text_puts(out, "// SPDX-License-Identifier: MIT\n");
    km_text_printf(out, "// %s, made by kmgen %s. Same spec, same text. The spec:\n//\n", source->file_name,
                   km_version());
    add_comment(out, yaml);
    km_text_puts(out, "//\n// The plan:\n//\n");
    km_explain_numbers(&table, plan);
    if (!table.failed) add_comment(out, table.data);
    out->failed |= table.failed;
    km_text_puts(out, "\n");
    km_text_clear(&table);
    km_text_free(yaml);
    return KM_OK;
}

static km_status add_body(km_text *out, const km_plan *plan, const char *templates_dir, km_error *err) {
    if (plan->design == KM_DESIGN_PORTABLE) {
        km_text_puts(out, "// The design portable is compiled into the library: there is nothing to emit.\n"
                          "typedef int km_nothing;\n");
        return KM_OK;
    }
    const char *name = NULL;
    km_env *env = km_env_create();
    if (!env) return km_fail_memory(err, "the names of a template", 0);
    km_status status = KM_OK;
    int is_cuda = plan->spec.target.kind == KM_TARGET_CUDA;
    KM_TRY_GOTO(is_cuda ? km_emit_cuda(env, &name, plan, err) : km_emit_cpu(env, &name, plan, err));
    KM_TRY_GOTO(km_template_expand(out, name, env, templates_dir, err));
done:
    km_env_destroy(&env);
    return status;
}

// Copies `text` without spaces at line ends, double blank lines, and blank lines at the end.
static void tidy(km_text *out, const char *text) {
    int blank = 0;
    while (*text) {
        size_t size = strcspn(text, "\n"), kept = size;
        while (kept && (text[kept - 1] == ' ' || text[kept - 1] == '\t')) kept--;
        if (kept && blank && out->size) km_text_puts(out, "\n");
        blank = !kept;
        if (kept) km_text_add(out, text, (int64_t)kept);
        if (kept) km_text_puts(out, "\n");
        text += size + (text[size] == '\n');
    }
}

static km_status emit(km_source *source, const km_plan *plan, const char *templates_dir, km_error *err) {
    km_text raw = {0}, text = {0};
    km_status status = KM_OK;
    KM_TRY(km_spec_copy(&source->plan.spec, &plan->spec, err));
    km_spec spec = source->plan.spec;
    source->plan = *plan;
    source->plan.spec = spec; // the copy's own list of K
    snprintf(source->file_name, sizeof source->file_name, "%s.%s", plan->spec.name,
             plan->spec.target.kind == KM_TARGET_CUDA ? "cu" : "c");
    KM_TRY_GOTO(add_head(&raw, source, err));
    KM_TRY_GOTO(add_body(&raw, plan, templates_dir, err));
    if (raw.failed) {
        status = km_fail_memory(err, "the emitted text", raw.size);
        goto done;
    }
    tidy(&text, raw.data);
    source->text_size = text.size;
    KM_TRY_GOTO(km_text_take(&source->text, &text, err));
done:
    km_text_clear(&raw);
    km_text_clear(&text);
    return status;
}

km_status km_source_emit(km_source *source, const km_plan *plan, const char *templates_dir, km_error *err) {
    km_source made;
    km_source_init(&made);
    km_status status = emit(&made, plan, templates_dir, err);
    if (status != KM_OK) {
        km_source_clear(&made);
        return status;
    }
    km_source_clear(source);
    *source = made;
    return KM_OK;
}
