// SPDX-License-Identifier: MIT
// What this machine's devices would run, side by side: its CPU, and its GPU, or the nominal one where there is none.
#include "cli.h"
#include <kmgen/module.h>

#include <stdio.h>
#include <unistd.h>

// One device and its plan. `missing`: why the device is not there, `refused`: why it cannot run the spec; "" when it is
// and can.
typedef struct column {
    km_device_facts facts;
    km_plan plan;
    char missing[sizeof(km_error)], refused[sizeof(km_error)];
} column;

enum { CPU, CUDA, COLUMNS, CELL = 48 };

// The device's facts, or the nominal ones of the architecture that the spec names.
static void ask(column *c, km_target_kind kind, int device, const km_spec *spec) {
    km_error err = {""};
    km_target target = {kind, spec->target.kind == kind ? spec->target.arch : 0};
    km_device_facts_init(&c->facts, target);
    if (km_device_query(&c->facts, device, &err) == KM_OK) return;
    snprintf(c->missing, sizeof c->missing, "%s", err.text);
    km_device_facts_init(&c->facts, target);
}

static km_status make_plan(column *c, const km_spec *spec, const km_plan_params *given, const km_plan *own,
                           km_error *err) {
    if (own)
        return km_plan_copy(&c->plan, own, err); // as it will be run, whatever plans were left out before it
    km_plan_params params = *given;
    cli_tuning table = {NULL, NULL};
    km_spec copy;
    km_spec_init(&copy);
    km_status status = km_spec_copy(&copy, spec, err);
    params.facts = &c->facts;
    copy.target = c->facts.target;
    if (spec->target.kind == copy.target.kind && spec->target.arch) copy.target = spec->target;
    if (!c->missing[0]) cli_tuning_find(&params, &table, copy.target);
    if (status == KM_OK) status = km_plan_make(&c->plan, &copy, &params, err);
    if (status == KM_OK) cli_plan_warn(&c->plan, &copy);
    cli_tuning_clear(&table);
    km_spec_clear(&copy);
    if (status != KM_ERROR_PLAN) return status;
    snprintf(c->refused, sizeof c->refused, "%s", err->text); // the other device may run it
    c->plan.spec.target = c->facts.target;
    c->plan.facts = c->facts;
    return KM_OK;
}

static void print_row(const char *title, char cells[COLUMNS][CELL]) {
    printf("%-22s %-26s %s\n", title, cells[CPU], cells[CUDA]);
}

static void print_table(const column *columns, int64_t max_iter) {
    enum { TARGET, DEVICE, UNITS, DESIGN, PASS, FIT, MEMORY, ROWS };
    char cells[ROWS][COLUMNS][CELL], title[64];
    int64_t points = columns[CPU].plan.points | columns[CUDA].plan.points; // the same, where both have a plan
    for (int i = 0; i < COLUMNS; i++) {
        const km_plan *plan = &columns[i].plan;
        double ns = plan->estimates[plan->design].total_ns;
        char target[20];
        km_target_text(target, sizeof target, plan->spec.target);
        snprintf(cells[TARGET][i], CELL, "%s", target);
        snprintf(cells[DEVICE][i], CELL, "%.26s", plan->facts.name);
        snprintf(cells[UNITS][i], CELL, "%lld %s, %.0f GB/s", (long long)plan->facts.units,
                 i == CPU ? "threads" : "multiprocessors", plan->facts.bandwidth_gbs);
        snprintf(cells[DESIGN][i], CELL, "%s%s%s", km_design_name(plan->design), i == CPU ? ", " : "",
                 i == CPU ? km_algorithm_name(plan->algorithm) : "");
        snprintf(cells[PASS][i], CELL, "%.3g", ns * 1e-6 * (double)(points > 0 ? points : 1000000));
        km_fit_time fit;
        km_plan_fit_time(&fit, plan, max_iter);
        snprintf(cells[FIT][i], CELL, i == CPU ? "%.3g" : "%.3g, of these %.3g to start", fit.total_ms,
                 fit.start_ms + fit.compile_ms);
        snprintf(cells[MEMORY][i], CELL, "%.1f MiB", (double)plan->memory_bytes / 0x1p20);
        if (!columns[i].refused[0]) continue;
        snprintf(cells[DESIGN][i], CELL, "none");
        cells[PASS][i][0] = cells[FIT][i][0] = cells[MEMORY][i][0] = 0;
    }
    snprintf(title, sizeof title, "ms a pass, %s", points > 0 ? "estimated" : "10^6 points");
    print_row("", (char[COLUMNS][CELL]){"CPU", "GPU"});
    print_row("target", cells[TARGET]);
    print_row("device", cells[DEVICE]);
    print_row("", cells[UNITS]);
    print_row("design", cells[DESIGN]);
    print_row(title, cells[PASS]);
    if (points > 0) print_row("ms a fit, estimated", cells[FIT]);
    if (points > 0) print_row("memory of a fit", cells[MEMORY]);
    if (columns[CUDA].missing[0]) cli_line(stdout, "The GPU is a nominal one: %s", columns[CUDA].missing);
    for (int i = 0; i < COLUMNS; i++)
        if (columns[i].refused[0])
            cli_line(stdout, "The %s has no plan: %s", i == CPU ? "CPU" : "GPU", columns[i].refused);
}

km_status cli_devices_print(const km_spec *spec, const km_plan_params *params, const km_plan *own,
                            int64_t max_iter, int whole, km_error *err) {
    column columns[COLUMNS] = {0};
    km_status status = KM_OK;
    for (int i = 0; i < COLUMNS; i++) km_plan_init(&columns[i].plan);
    for (int i = 0; i < COLUMNS && status == KM_OK; i++) {
        km_target_kind kind = i == CPU ? KM_TARGET_CPU : KM_TARGET_CUDA;
        ask(&columns[i], kind, i == CPU ? KM_HOST : 0, spec);
        status = make_plan(&columns[i], spec, params, own && own->spec.target.kind == kind ? own : NULL, err);
    }
    if (status == KM_OK) print_table(columns, max_iter);
    for (int i = 0; i < COLUMNS && whole && status == KM_OK; i++) {
        char *text = NULL;
        if (columns[i].refused[0]) continue;
        status = km_plan_explain(&text, &columns[i].plan, err);
        if (status == KM_OK) printf("\n%s:\n\n", i == CPU ? "CPU" : "GPU");
        if (status == KM_OK) cli_wrapped(stdout, text, cli_width(STDOUT_FILENO));
        km_text_free(text);
    }
    for (int i = 0; i < COLUMNS; i++) km_plan_clear(&columns[i].plan);
    return status;
}
