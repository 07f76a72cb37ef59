// SPDX-License-Identifier: MIT
// The emitted file: its head, the root template of the plan's design, and the host part, by which it serves a program
// without kmgen. Beside it the header of that part.
#include "../base/error.h"
#include "../base/text.h"
#include "../templates/both.h"
#include "../templates/cuda/abi.h"
#include "../templates/cuda/steps.h"
#include "algorithm.h"
#include "explain.h"
#include "design.h"
#include "source.h"
#include "spec_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

void km_source_init(km_source *source) {
    *source = (km_source){0};
    km_plan_init(&source->plan);
}

void km_source_clear(km_source *source) {
    km_text_free(source->text);
    km_text_free(source->header);
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
        km_text_printf(out,
                       "// The design %s is compiled into the library: there is nothing to emit.\n"
                       "typedef int km_nothing;\n",
                       km_design_name(plan->design));
        return KM_OK;
    }
    const char *name = NULL;
    km_env *env = km_env_create();
    if (!env) return km_fail_memory(err, "the names of a template", 0);
    km_status status = KM_OK;
    KM_TRY_GOTO(code->names(env, &name, plan, err));
    KM_TRY_GOTO(km_template_expand(out, name, env, templates_dir, err));
    const char *skipping = km_algorithm_template(plan);
    if (skipping) {
        km_text_puts(out, "\n");
        KM_TRY_GOTO(km_template_expand(out, skipping, env, templates_dir, err));
    }
done:
    km_env_destroy(&env);
    return status;
}

// Tidying what expansion leaves: numbers are wider or narrower than the holes that they filled, so comments behind code
// are aligned again.

// One line of text: its size without spaces at its end, that of its code, and where a comment behind it begins.
typedef struct text_line {
    const char *text;
    int64_t size, code_size, comment; // comment: 0 when there is none
} text_line;

enum {
    COMMENT_COLUMN_MAX = 72, // a comment further right follows its code after one space
    RULER_COLUMNS = 110
};

// A comment line that begins like this begins a section of the file: it is filled up to a ruler, and stands in the
// table of contents.
static const char ruler[] = "// ==== ";

static int is_ruler(const char *line) {
    return !strncmp(line, ruler, sizeof ruler - 1);
}

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
        if (is_ruler(line.text)) {
            km_text_puts(out, " ");
            for (int64_t at = line.size + 1; at < RULER_COLUMNS; at++) km_text_puts(out, "=");
        }
        km_text_puts(out, "\n");
    }
}

// The table of contents, as comment lines: where each section begins, in a file that has `lines_before` lines above the
// table.
static void add_contents(km_text *out, const char *text, int64_t lines_before) {
    int64_t line = lines_before + 3,
            sections = 0; // its first line, and the blank ones below and above the text
    for (const char *at = text; *at; at = line_next(at)) sections += is_ruler(at);
    km_text_puts(out, "// Contents, by line:\n");
    for (; *text; text = line_next(text), line++) {
        if (!is_ruler(text)) continue;
        const char *title = text + sizeof ruler - 1, *end = strstr(title, " ==");
        km_text_printf(out, "// %6" PRId64 "  %.*s\n", line + sections, (int)(end - title), title);
    }
    km_text_puts(out, "\n");
}

km_status km_source_starter(char **out, int64_t *size, const km_plan *plan, const char *templates_dir,
                            km_error *err) {
    const km_design_code *code = km_design_code_of(plan->design);
    const char *root = NULL;
    km_text raw = {0}, text = {0};
    *out = NULL;
    *size = 0;
    if (!km_plan_starts(plan)) return KM_OK;
    km_status status = KM_OK;
    km_env *env = km_env_create();
    if (!env) return km_fail_memory(err, "the names of a template", 0);
    KM_TRY_GOTO(code->names(env, &root, plan, err));
    KM_TRY_GOTO(km_template_expand(&raw, code->starter, env, templates_dir, err));
    if (!raw.failed) tidy(&text, raw.data);
    text.failed |= raw.failed;
    *size = text.size;
    KM_TRY_GOTO(km_text_take(out, &text, err));
done:
    km_text_clear(&raw);
    km_text_clear(&text);
    km_env_destroy(&env);
    return status;
}

static int64_t count_lines(const char *text) {
    int64_t count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

// The host part ---------------------------------------------------------------------------------------------

static int is_name_char(char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static const char *skip_blanks(const char *text) {
    return text + strspn(text, " \n");
}

// The text behind the parenthesis that opens at `text`.
static const char *skip_parentheses(const char *text) {
    int depth = 0;
    do {
        depth += *text == '(';
        depth -= *text == ')';
    } while (*text && *text++ && depth > 0);
    return text;
}

// Names every kernel of a CUDA text, and those among them that belong to the pass: they take km_pass_args alone.
static void list_kernels(km_env *env, const char *text) {
    static const char word[] = "__global__ void", bounds[] = "__launch_bounds__";
    static const char args[] = "const __grid_constant__ km_pass_args";
    km_env_list(env, "kernels");
    km_env_list(env, "pass_kernels");
    for (const char *at = text; (at = strstr(at, word));) {
        char name[64];
        size_t size = 0;
        at = skip_blanks(at + sizeof word - 1);
        if (!strncmp(at, bounds, sizeof bounds - 1))
            at = skip_blanks(skip_parentheses(at + sizeof bounds - 1));
        while (is_name_char(at[size]) && size + 1 < sizeof name) size++;
        snprintf(name, sizeof name, "%.*s", (int)size, at);
        if (!size || at[size] != '(') continue;
        km_env_item(env, "kernels", name);
        if (!strncmp(skip_blanks(at + size + 1), args, sizeof args - 1))
            km_env_item(env, "pass_kernels", name);
    }
}

static km_status set_clusters(km_env *env, const km_spec *spec, km_error *err) {
    int64_t offset = 0;
    km_text list = {0};
    for (int64_t i = 0; i < spec->clusters_count; i++) {
        char text[24];
        snprintf(text, sizeof text, "%d", spec->clusters[i]);
        km_env_set_int(km_env_item(env, "ks", text), "offset", offset);
        offset += spec->clusters[i];
    }
    km_env_set_int(env, "ks_count", spec->clusters_count);
    km_env_set_int(env, "s", offset);
    km_env_set_int(env, "k_max", spec->clusters[spec->clusters_count - 1]);
    km_spec_clusters_text(&list, spec);
    int failed = list.failed;
    if (!failed) km_env_set(env, "list", "%s", list.data + strcspn(list.data, ":") + 2);
    km_text_clear(&list);
    return failed ? km_fail_memory(err, "the list of K", 0) : KM_OK;
}

// The names of templates/host, cuda/host.cu and cpu/host.c.
static km_status set_host_names(km_env *env, const km_plan *plan, const char *body, km_error *err) {
    const km_spec *spec = &plan->spec;
    char upper[KM_NAME_MAX + 1] = "", arch[32];
    int is_cuda = spec->target.kind == KM_TARGET_CUDA;
    for (size_t i = 0; spec->name[i] && i + 1 < sizeof upper; i++)
        upper[i] = (char)(spec->name[i] >= 'a' && spec->name[i] <= 'z' ? spec->name[i] - 32 : spec->name[i]);
    km_target_text(arch, sizeof arch, spec->target);
    km_env_set(env, "version", "%s", km_version());
    km_env_set(env, "name", "%s", spec->name);
    km_env_set(env, "upper", "%s", upper);
    km_env_set(env, "type", spec->type == KM_FLOAT64 ? "double" : "float");
    km_env_set(env, "arch", "%s", is_cuda ? strchr(arch, ':') + 1 : "sm_90");
    km_env_set_int(env, "arch_number", spec->target.arch);
    km_env_set_int(env, "d", spec->features);
    km_env_set_flag(env, "float64", spec->type == KM_FLOAT64);
    km_env_set_flag(env, "weighted", plan->weighted);
    km_env_set_flag(env, "track_labels", plan->track_labels);
    km_env_set_flag(env, "many_features", KM_FINISH_HAS_TILES(spec->features));
    km_env_set_flag(env, "avx2", !is_cuda && spec->target.arch == KM_ISA_AVX2);
    km_env_set_flag(env, "avx512", !is_cuda && spec->target.arch == KM_ISA_AVX512);
    km_env_set_flag(env, "has_constants", strstr(body, " km_constants;") != NULL);
    km_env_set_flag(env, "rests", km_design_code_of(plan->design)->sums_vary);
    list_kernels(env, body);
    return set_clusters(env, spec, err);
}

km_status km_source_expand(km_text *out, const char *name, const km_env *env, const char *dir,
                           km_error *err) {
    km_text raw = {0};
    km_status status = km_template_expand(&raw, name, env, dir, err);
    if (status == KM_OK && !raw.failed) tidy(out, raw.data);
    out->failed |= raw.failed;
    km_text_clear(&raw);
    return status;
}

// Why the text has no host part; NULL: it has one.
static const char *why_no_host(const km_plan *plan) {
    if (km_plan_is_csr(plan)) return "of points in the layout csr";
    return plan->spec.metric == KM_METRIC_COSINE ? "with the metric cosine" : NULL;
}

// Puts the linker's names above `body` and the host part below it, all into `out`; and makes the header. Where there is
// no host part the text says so.
static km_status add_host(km_text *out, km_source *source, const char *body, const char *dir, km_error *err) {
    const km_plan *plan = &source->plan;
    int is_cuda = plan->spec.target.kind == KM_TARGET_CUDA;
    const char *why = why_no_host(plan), *host = why       ? "host/none.c"
                                                 : is_cuda ? "cuda/host.cu"
                                                           : "cpu/host.c";
    km_status status = KM_OK;
    km_text header = {0};
    km_env *env = km_env_create();
    if (!env) return km_fail_memory(err, "the names of a template", 0);
    KM_TRY_GOTO(set_host_names(env, plan, body, err));
    km_env_set(env, "file", "%s", source->file_name);
    km_env_set(env, "why", "%s", why ? why : "");
    KM_TRY_GOTO(km_source_expand(out, is_cuda ? "cuda/names.h" : "cpu/names.h", env, dir, err));
    km_text_printf(out, "\n%s%s\n", body, is_cuda ? KM_GUARD_CUDA : KM_GUARD_CPU);
    KM_TRY_GOTO(km_source_expand(out, host, env, dir, err));
    km_text_puts(out, "#endif\n");
    if (why) goto done;
    KM_TRY_GOTO(km_source_expand(&header, "host/interface.h", env, dir, err));
    KM_TRY_GOTO(km_text_take(&source->header, &header, err));
    snprintf(source->header_name, sizeof source->header_name, "%s.h", plan->spec.name);
done:
    km_text_clear(&header);
    km_env_destroy(&env);
    return status;
}

static km_status emit(km_source *source, const km_plan *plan, const char *templates_dir, km_error *err) {
    km_text raw = {0}, text = {0}, body = {0}, head = {0}, whole = {0};
    km_status status = KM_OK;
    KM_TRY(km_plan_copy(&source->plan, plan, err));
    snprintf(source->file_name, sizeof source->file_name, "%s.%s", plan->spec.name,
             plan->spec.target.kind == KM_TARGET_CUDA ? "cu" : "c");
    KM_TRY_GOTO(add_head(&raw, source, err));
    if (!raw.failed) tidy(&head, raw.data);
    km_text_puts(&head, "\n");
    raw.size = 0;
    KM_TRY_GOTO(add_body(&raw, plan, templates_dir, err));
    if (km_design_is_emitted(plan->design))
        km_text_puts(&raw, "\n// ==== The host part: what the header declares\n");
    if (!raw.failed) tidy(&body, raw.data);
    if (raw.failed || body.failed || head.failed) {
        status = km_fail_memory(err, "the emitted text", raw.size);
        goto done;
    }
    if (!km_design_is_emitted(plan->design))
        km_text_puts(&text, body.data);
    else
        KM_TRY_GOTO(add_host(&text, source, body.data, templates_dir, err));
    km_text_puts(&whole, head.data);
    if (!text.failed && km_design_is_emitted(plan->design))
        add_contents(&whole, text.data, count_lines(head.data));
    km_text_puts(&whole, text.failed ? "" : text.data);
    whole.failed |= text.failed;
    source->text_size = whole.size;
    KM_TRY_GOTO(km_text_take(&source->text, &whole, err));
done:
    km_text_clear(&raw);
    km_text_clear(&text);
    km_text_clear(&body);
    km_text_clear(&head);
    km_text_clear(&whole);
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

// A line that begins with `word`.
static int begins_with(const char *line, const char *word) {
    return !strncmp(line, word, strlen(word));
}

// The text behind the #endif of the guard at `text`; NULL where the guard has another branch, or no end.
static const char *guard_end(const char *text) {
    int depth = 0;
    for (; *text; text = line_next(text)) {
        if (begins_with(text, "#el") && depth == 1) return NULL;
        depth += begins_with(text, "#if");
        depth -= begins_with(text, "#endif");
        if (depth == 0) return line_next(text);
    }
    return NULL;
}

km_status km_source_kernels(char **out, int64_t *size, const char *text, km_error *err) {
    km_text kernels = {0};
    for (const char *next, *at = km_source_code(text); *at; at = next) {
        int is_guard = begins_with(at, KM_GUARD_CUDA "\n") || begins_with(at, KM_GUARD_CPU "\n");
        next = is_guard ? guard_end(at) : NULL;
        if (next) continue;
        next = line_next(at);
        km_text_add(&kernels, at, next - at);
    }
    *size = kernels.size;
    return km_text_take(out, &kernels, err);
}

// Parts that are compiled apart -------------------------------------------------------------------------------

// The name of a section's part, which begins at `text`; 0 where it belongs to every part.
static size_t part_name(const char **name, const char *text) {
    const char *second = line_next(text);
    if (!is_ruler(text) || !begins_with(second, KM_APART)) return 0;
    *name = second + sizeof KM_APART - 1;
    return strcspn(*name, "\n");
}

static const char *section_end(const char *text) {
    do text = line_next(text);
    while (*text && !is_ruler(text));
    return text;
}

// Whether a section of this name belongs to the part: it is the part's own, or what stands before a slash in it.
static int is_of_part(const char *part, const char *name, size_t size) {
    return !strncmp(part, name, size) && (!part[size] || part[size] == '/');
}

// The names of sections, each once. Those that another one continues behind a slash are no parts: they are left out.
static km_status find_parts(km_source_part *parts, int64_t *count, const char *code, km_error *err) {
    km_source_part named[2 * KM_SOURCE_PARTS_MAX];
    int64_t names = 0;
    for (; *code; code = section_end(code)) {
        const char *name = NULL;
        size_t size = part_name(&name, code);
        int64_t i = 0;
        while (size && i < names && (strncmp(named[i].name, name, size) != 0 || named[i].name[size])) i++;
        if (!size || i < names) continue;
        if (names == 2 * KM_SOURCE_PARTS_MAX || size >= sizeof parts->name)
            return km_fail(err, KM_ERROR_COMPILE,
                           "a text has at most %d names of parts, of up to %zu characters",
                           2 * KM_SOURCE_PARTS_MAX, sizeof parts->name - 1);
        snprintf(named[names++].name, sizeof named->name, "%.*s", (int)size, name);
    }
    for (int64_t i = 0; i < names; i++) {
        int64_t j = 0;
        while (j < names && (i == j || !is_of_part(named[j].name, named[i].name, strlen(named[i].name)))) j++;
        if (j < names) continue;
        if (*count == KM_SOURCE_PARTS_MAX)
            return km_fail(err, KM_ERROR_COMPILE, "a text has at most %d parts", KM_SOURCE_PARTS_MAX);
        memcpy(parts[(*count)++].name, named[i].name, sizeof parts->name);
    }
    *count += *count == 0;
    return KM_OK;
}

// The first section, where nothing but comments is above it: those are a design's own, and what designs share of a text
// must be the same.
static const char *first_section(const char *code) {
    const char *at = code;
    while (*at && !is_ruler(at) && (*at == '\n' || begins_with(at, "//"))) at = line_next(at);
    return is_ruler(at) ? at : code;
}

static km_status fill_part(km_source_part *part, const char *head, const char *code, km_error *err) {
    km_text out = {0};
    code = first_section(code);
    for (const char *line = head; line < km_source_code(head); line = line_next(line))
        if (begins_with(line, "// needs: ")) km_text_add(&out, line, line_next(line) - line);
    if (strchr(part->name, '/')) // such parts share more than each of them uses
        km_text_puts(&out, "#pragma nv_diag_suppress 177\n");
    for (const char *end; *code; code = end) {
        const char *name = NULL;
        size_t size = part_name(&name, code);
        end = section_end(code);
        if (!size || is_of_part(part->name, name, size)) km_text_add(&out, code, end - code);
    }
    part->size = out.size;
    return km_text_take(&part->text, &out, err);
}

int km_source_is_pass(const km_source_part *part) {
    return !part->name[0] || is_of_part(part->name, KM_PASS_PART, strlen(KM_PASS_PART));
}

km_status km_source_parts(km_source_part *parts, int64_t *count, const char *text, km_error *err) {
    char *code;
    int64_t size;
    *count = 0;
    for (int i = 0; i < KM_SOURCE_PARTS_MAX; i++) parts[i] = (km_source_part){.text = NULL};
    KM_TRY(km_source_kernels(&code, &size, text, err));
    km_status status = find_parts(parts, count, code, err);
    for (int64_t i = 0; i < *count && status == KM_OK; i++) status = fill_part(&parts[i], text, code, err);
    km_text_free(code);
    if (status != KM_OK) km_source_parts_clear(parts, *count);
    return status;
}

void km_source_parts_clear(km_source_part *parts, int64_t count) {
    for (int64_t i = 0; i < count; i++) km_text_free(parts[i].text);
}
