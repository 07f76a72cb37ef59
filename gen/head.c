// SPDX-License-Identifier: MIT
// Reads the head that gen/emit.c wrote above a text, so that a text that was edited by hand runs by the plan that it
// was emitted from.
#include "../base/error.h"
#include "../base/text.h"
#include "old_names.h"
#include "source.h"
#include "spec_fields.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The lines between two marks, each mark with its newline; NULL where a mark is missing. What follows the last line is
// *end.
static const char *section(const char **end, const char *text, const char *begin_mark, const char *end_mark) {
    const char *code = km_source_code(text), *begin = strstr(text, begin_mark);
    if (!begin || begin > code) return NULL;
    begin += strlen(begin_mark);
    *end = strstr(begin, end_mark);
    return *end && *end <= code ? begin : NULL;
}

// Comment lines as the text that they hold.
static km_status uncomment(char **out, const char *begin, const char *end, km_error *err) {
    km_text text = {0};
    while (begin < end) {
        size_t size = strcspn(begin, "\n"), mark = strspn(begin, "/"), space = begin[mark] == ' ';
        km_text_printf(&text, "%.*s\n", (int)(size - mark - space), begin + mark + space);
        begin += size + 1;
    }
    return km_text_take(out, &text, err);
}

static int is_plan_key(const char *name) {
    const char *key;
    for (int i = 0; (key = km_spec_plan_key(i)); i++)
        if (!strcmp(key, name)) return 1;
    return 0;
}

// Fixes the design and the numbers that the head names, unless the spec does: then they must be the same.
static km_status take_numbers(km_spec *spec, const char *table, km_error *err) {
    static const char place[] = "the head of the source text: ";
    for (const char *line = table; *line; line += strcspn(line, "\n") + 1) {
        char word[32], value_word[32], replaced[160];
        if (sscanf(line, "%31s %31s", word, value_word) != 2) continue;
        const char *name = km_name_today(spec, "plan", word, place);
        if (km_name_is_replaced(replaced, sizeof replaced, name))
            return km_fail(err, KM_ERROR_PLAN, "%s%s: emit the text again", place, replaced);
        if (!is_plan_key(name)) continue;
        const char *value = km_name_today(spec, name, value_word, place);
        km_spec one;
        km_spec_init(&one);
        km_status status = km_spec_fix(&one, name, value, err);
        const km_fixed *taken = &one.fixed[0], *own = NULL;
        for (int64_t i = 0; i < spec->fixed_count; i++)
            if (!strcmp(spec->fixed[i].name, name)) own = &spec->fixed[i];
        if (status == KM_OK && own && own->value != taken->value)
            status = km_fail(err, KM_ERROR_PLAN,
                             "the source text was emitted with %s %s: fix no other one, or emit it again",
                             name, value);
        if (status == KM_OK && !own) status = km_spec_fix(spec, name, value, err);
        km_spec_clear(&one);
        KM_TRY(status);
    }
    return KM_OK;
}

static void shape_text(km_text *out, const km_spec *spec) {
    km_text_printf(out, "%" PRId64 " features, %s, ", spec->features, km_type_name(spec->type));
    km_spec_clusters_text(out, spec);
}

static int same_shape(const km_spec *a, const km_spec *b) {
    return a->features == b->features && a->type == b->type && a->clusters_count == b->clusters_count &&
           !memcmp(a->clusters, b->clusters, (size_t)a->clusters_count * sizeof *a->clusters);
}

static km_status check_shape(const km_spec *head, const km_spec *spec, km_error *err) {
    if (same_shape(head, spec)) return KM_OK;
    km_text texts = {0};
    shape_text(&texts, head);
    km_text_puts(&texts, ", and this fit has ");
    shape_text(&texts, spec);
    km_fail(err, KM_ERROR_PLAN, "the source text was emitted for %s: emit it again",
            texts.failed ? "another shape" : texts.data);
    km_text_clear(&texts);
    return KM_ERROR_PLAN;
}

static km_status check_target(const km_spec *head, km_target device, km_error *err) {
    char asked[32], have[32];
    if (head->target.kind == device.kind) return KM_OK;
    km_target_text(asked, sizeof asked, head->target);
    km_target_text(have, sizeof have, device);
    return km_fail(
        err, KM_ERROR_PLAN,
        "the source text was emitted for %s, and this fit runs on %s: choose the target, or emit it again",
        asked, have);
}

// Whether points have weights, and whether labels are kept, is part of a CUDA text.
static km_status check_points(const char *table, const km_plan_params *plan, km_target device,
                              km_error *err) {
    const char *points = strstr(table, "points: ");
    if (!points || device.kind != KM_TARGET_CUDA) return KM_OK;
    char line[160];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(points, "\n"), points);
    if (!strstr(line, ", weighted") != !plan->weighted)
        return km_fail(err, KM_ERROR_PLAN,
                       "the source text was emitted for points %s weights, these are %s them",
                       plan->weighted ? "without" : "with", plan->weighted ? "with" : "without");
    if (!strstr(line, ", labels kept") != !plan->track_labels)
        return km_fail(err, KM_ERROR_PLAN, "the source text was emitted for passes that keep %s labels: %s",
                       plan->track_labels ? "no" : "their",
                       plan->track_labels ? "fit without a number of changes to stop at"
                                          : "give a number of changes to stop at");
    return KM_OK;
}

static km_status take(km_spec *spec, const km_spec *head, const char *table, const km_plan_params *plan,
                      km_target device, km_error *err) {
    KM_TRY(check_shape(head, spec, err));
    KM_TRY(check_target(head, device, err));
    KM_TRY(check_points(table, plan, device, err));
    memcpy(spec->name, head->name, sizeof spec->name);
    km_warnings_add(spec->warnings, head->warnings);
    if (!spec->target.arch) spec->target = head->target;
    return take_numbers(spec, table, err);
}

km_status km_source_take_head(km_spec *spec, const char *text, const km_plan_params *plan, km_target device,
                              km_error *err) {
    const char *end, *table_end, *yaml = section(&end, text, " The spec:\n//\n", "//\n// The plan:\n");
    const char *table = yaml ? section(&table_end, text, "//\n// The plan:\n", "\n\n") : NULL;
    char *yaml_text = NULL, *table_text = NULL;
    km_status status = KM_OK;
    km_spec head;
    if (!table) return KM_OK;
    km_spec_init(&head);
    KM_TRY_GOTO(uncomment(&yaml_text, yaml, end, err));
    KM_TRY_GOTO(uncomment(&table_text, table, table_end, err));
    KM_TRY_GOTO(
        km_spec_parse(&head, yaml_text, (int64_t)strlen(yaml_text), "the head of the source text", err));
    status = take(spec, &head, table_text, plan, device, err);
done:
    km_text_free(yaml_text);
    km_text_free(table_text);
    km_spec_clear(&head);
    return status;
}
