// SPDX-License-Identifier: MIT
// What was run, on what, and where the time went.
#include "html.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

static void begin_fact(km_page *page, const char *name) {
    km_text_printf(page->out, "<dt>%s</dt><dd>", name);
}

static void add_text(km_page *page, const char *name, const char *text) {
    begin_fact(page, name);
    km_html_text(page->out, text);
    km_text_puts(page->out, "</dd>\n");
}

static void add_count(km_page *page, const char *name, int64_t count) {
    begin_fact(page, name);
    km_html_count(page->out, count);
    km_text_puts(page->out, "</dd>\n");
}

static void add_data(km_page *page) {
    const km_result *result = page->result;
    begin_fact(page, "Data");
    km_html_text(page->out, km_data_name(page->data));
    km_text_puts(page->out, ": ");
    km_html_count(page->out, result->n);
    km_text_puts(page->out, " × ");
    km_html_count(page->out, result->d);
    if (result->plan.weighted) km_text_puts(page->out, ", with weights");
    if (result->rows > result->n) {
        km_text_puts(page->out, "; ");
        km_html_count(page->out, result->rows - result->n);
        km_text_printf(page->out, " row%s without numbers left out",
                       result->rows - result->n == 1 ? "" : "s");
    }
    km_text_puts(page->out, "</dd>\n");
}

// A command: a line does not end behind the hyphens of an option.
static void add_words(km_text *out, const char *command) {
    for (const char *at = command, *end; *at; at = end) {
        km_text word = {0};
        const char *begin = at + strspn(at, " ");
        end = begin + strcspn(begin, " ");
        km_text_add(out, at, begin - at);
        km_text_add(&word, begin, end - begin);
        km_text_puts(out, *begin == '-' ? "<span class=\"option\">" : "");
        if (word.failed)
            out->failed = 1;
        else
            km_html_text(out, word.data);
        km_text_puts(out, *begin == '-' ? "</span>" : "");
        km_text_clear(&word);
    }
}

static void add_command(km_page *page) {
    if (!page->params->command) return;
    begin_fact(page, "Command");
    km_text_puts(page->out, "<code>");
    add_words(page->out, page->params->command);
    km_text_puts(page->out, "</code></dd>\n");
}

static void add_facts(km_page *page) {
    const km_result *result = page->result;
    km_text_puts(page->out, "<dl>\n");
    add_command(page);
    add_data(page);
    begin_fact(page, "Device");
    km_html_text(page->out, result->device);
    km_text_printf(page->out, " (%s)</dd>\n", result->target);
    begin_fact(page, "Plan");
    km_html_text(page->out, km_design_name(result->plan.design));
    km_text_printf(page->out, ", %s, algorithm %s</dd>\n", km_type_name(result->type),
                   km_algorithm_name(result->counters.algorithm));
    add_text(page, "Scale", km_scale_name(result->scale));
    begin_fact(page, "Seed");
    km_text_printf(page->out, "%llu</dd>\n", (unsigned long long)result->seed);
    add_count(page, "Restarts", result->n_init);
    add_count(page, "Passes", result->passes);
    add_count(page, "Passes of refinement", result->refine_passes);
    add_text(page, "Made by", "kmgen " KM_VERSION);
    km_text_puts(page->out, "</dl>\n");
}

static const struct {
    const char *name;
    size_t offset;
} phases[] = {
    {"Open the device", offsetof(km_timing, device_ms)},
    {"Plan and build", offsetof(km_timing, build_ms)},
    {"Send the points", offsetof(km_timing, send_ms)},
    {"Read and scale the points", offsetof(km_timing, read_ms)},
    {"First centroids", offsetof(km_timing, seed_ms)},
    {"All K and restarts", offsetof(km_timing, sweep_ms)},
    {"Refinement", offsetof(km_timing, refine_ms)},
    {"Finish and criteria", offsetof(km_timing, finish_ms)},
    {"Criteria measured apart", offsetof(km_timing, criteria_ms)},
    {"Give memory and device back", offsetof(km_timing, free_ms)},
};

static void add_phase(km_page *page, const char *name, double ms) {
    double total = page->result->timing.total_ms;
    km_text_printf(page->out, "<tr><th scope=\"row\">%s</th>", name);
    km_html_bar(page->out, ms / total);
    km_text_printf(page->out, "<td>%.*f</td><td>", ms < 10 ? 1 : 0, ms);
    km_html_share(page->out, ms, total);
    km_text_puts(page->out, "</td></tr>\n");
}

static void add_times(km_page *page) {
    static const char *const heads[] = {"Phase", "", "ms", "Share", NULL};
    const km_timing *timing = &page->result->timing;
    double other = timing->total_ms;
    km_text_puts(page->out, "<figure>\n");
    km_html_table(page->out, "bars named", "Time of the fit", heads);
    for (size_t p = 0; p < sizeof phases / sizeof *phases; p++) {
        double ms = *(const double *)((const char *)timing + phases[p].offset);
        add_phase(page, phases[p].name, ms);
        other -= ms;
    }
    add_phase(page, "Other", fmax(other, 0));
    add_phase(page, "Total", timing->total_ms);
    km_html_end_table(page->out);
    km_text_puts(page->out, "</figure>\n");
}

km_status km_html_run(km_page *page, km_error *err) {
    char *plan;
    add_facts(page);
    add_times(page);
    KM_TRY(km_plan_explain(&plan, &page->result->plan, err));
    km_text_puts(page->out, "<details>\n<summary>The plan, explained</summary>\n<pre class=\"wide\" "
                            "tabindex=\"0\" role=\"region\" aria-label=\"Plan\">");
    for (char *line = plan, *end; *line; line = end) { // line by line: each is plain text
        end = line;
        while (*end && *end != '\n') end++;
        char stop = *end;
        *end = 0;
        km_html_text(page->out, line);
        if (stop) {
            km_text_puts(page->out, "\n");
            end++;
        }
    }
    km_text_puts(page->out, "</pre>\n</details>\n");
    km_text_free(plan);
    return KM_OK;
}
