// SPDX-License-Identifier: MIT
// The emitted file: its head, then the root template of the plan's design.
#include "../base/error.h"
#include "../base/text.h"
#include "explain.h"
#include "design.h"
#include "source.h"

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
    const km_design_code *code = km_design_code_of(plan->design);
    if (!code || !code->names) {
        km_text_puts(out, "// The design portable is compiled into the library: there is nothing to emit.\n"
                          "typedef int km_nothing;\n");
        return KM_OK;
    }
    const char *name = NULL;
    km_env *env = km_env_create();
    if (!env) return km_fail_memory(err, "the names of a template", 0);
    km_status status = KM_OK;
    KM_TRY_GOTO(code->names(env, &name, plan, err));
    KM_TRY_GOTO(km_template_expand(out, name, env, templates_dir, err));
done:
    km_env_destroy(&env);
    return status;
}

// Tidying: what expansion leaves behind. Numbers are wider or narrower than the holes they filled, so comments
// behind code stand in a column again.

// One line of text: its size without spaces at its end, that of its code, and where a comment behind it begins.
typedef struct text_line {
    const char *text;
    int64_t size, code_size, comment; // comment: 0 when there is none
} text_line;

enum { COMMENT_COLUMN_MAX = 72 }; // a comment further right follows its code after one space

static text_line line_read(const char *text) {
    text_line line = {.text = text, .size = (int64_t)strcspn(text, "\n")};
    while (line.size && (text[line.size - 1] == ' ' || text[line.size - 1] == '\t')) line.size--;
    line.code_size = line.size;
    int quoted = 0, is_blank = 1;
    for (int64_t i = 0; i + 1 < line.size && !line.comment; i++) {
        if (text[i] == '"' && (!i || text[i - 1] != '\\')) quoted = !quoted;
        int begins = !quoted && text[i] == '/' && text[i + 1] == '/';
        if (begins && is_blank) return line;
        if (begins && text[i - 1] == ' ') line.comment = i;
        is_blank = is_blank && text[i] == ' ';
    }
    if (!line.comment) return line;
    line.code_size = line.comment;
    while (text[line.code_size - 1] == ' ') line.code_size--;
    return line;
}

static const char *line_next(const char *text) {
    const char *newline = strchr(text, '\n');
    return newline ? newline + 1 : text + strlen(text);
}

// Where the comments of the lines from `text` on stand, as long as each line has one.
static int64_t comment_column(const char *text) {
    int64_t column = 0;
    for (; *text; text = line_next(text)) {
        text_line line = line_read(text);
        if (!line.comment) break;
        if (line.code_size < COMMENT_COLUMN_MAX && line.code_size + 1 > column) column = line.code_size + 1;
    }
    return column;
}

// Copies `text` without spaces at line ends, double blank lines, and blank lines at the end.
static void tidy(km_text *out, const char *text) {
    int is_blank = 0;
    int64_t column = 0; // of the comments of the lines around this one
    for (; *text; text = line_next(text)) {
        text_line line = line_read(text);
        if (line.size && is_blank && out->size) km_text_puts(out, "\n");
        is_blank = !line.size;
        if (is_blank || !line.comment) column = 0;
        if (is_blank) continue;
        km_text_add(out, line.text, line.code_size);
        if (line.comment && !column) column = comment_column(text);
        if (line.comment) {
            int64_t padding = column > line.code_size ? column - line.code_size : 1;
            km_text_printf(out, "%*s", (int)padding, "");
            km_text_add(out, line.text + line.comment, line.size - line.comment);
        }
        km_text_puts(out, "\n");
    }
}

static km_status emit(km_source *source, const km_plan *plan, const char *templates_dir, km_error *err) {
    km_text raw = {0}, text = {0};
    km_status status = KM_OK;
    KM_TRY(km_plan_copy(&source->plan, plan, err));
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

const char *km_source_code(const char *text) {
    while (*text == '\n' || !strncmp(text, "//", 2)) {
        text += strcspn(text, "\n");
        text += *text != 0;
    }
    return text;
}
