// SPDX-License-Identifier: MIT
#include "cli.h"
#include <kmgen/module.h>

#include <stdio.h>
#include <unistd.h>

typedef struct explain_options {
    int64_t points;
    double density;
    int on_device;
    cli_changes changes;
    cli_tuning tuning;
} explain_options;

// One device that the spec's target or the command line names, with its own figures.
static km_status explain_one(const km_spec *spec, km_plan_params *params, int device, km_error *err) {
    km_plan plan;
    km_spec copy;
    km_device_facts facts;
    cli_tuning own = {NULL, NULL};
    char *text = NULL;
    km_plan_init(&plan);
    km_spec_init(&copy);
    km_status status = km_spec_copy(&copy, spec, err);
    if (status == KM_OK && device != KM_DEVICE_AUTO) {
        km_device_facts_init(&facts, copy.target);
        status = km_device_query(&facts, device, err);
        if (!copy.target.arch) copy.target = facts.target;
        params->facts = &facts;
        if (status == KM_OK) cli_tuning_find(params, &own, copy.target);
    }
    if (status == KM_OK) status = km_plan_make(&plan, &copy, params, err);
    if (status == KM_OK) cli_plan_warn(&plan, &copy);
    if (status == KM_OK) status = km_plan_explain(&text, &plan, err);
    if (status == KM_OK) cli_wrapped(stdout, text, cli_width(STDOUT_FILENO));
    km_text_free(text);
    cli_tuning_clear(&own);
    km_plan_clear(&plan);
    km_spec_clear(&copy);
    return status;
}

static int run(const cli_command *command, int argc, char **argv) {
    explain_options options = {0};
    km_error err = {""};
    km_spec spec;
    km_plan_params params;
    int device = KM_DEVICE_AUTO;
    cli_parser parser;
    if (cli_parse(&parser, &options, command, argc, argv)) return parser.exit;
    if (cli_positional(&parser, 1, 1, "SPEC.yaml")) return CLI_USAGE;
    if (cli_refuse_table(command, argv[parser.first])) return CLI_USAGE;
    km_spec_init(&spec);
    km_plan_params_init(&params);
    params.points = options.points;
    int exit = 0;
    km_status status = km_spec_read(&spec, argv[parser.first], &err);
    if (status == KM_OK)
        exit = cli_changes_apply(&spec, options.on_device ? &device : NULL, &options.changes, command);
    if (exit) goto done;
    params.nonzeros = options.density * (double)spec.features;
    cli_names_warn(&spec);
    if (options.on_device && device == KM_DEVICE_AUTO && spec.target.kind != KM_TARGET_AUTO)
        device = spec.target.kind == KM_TARGET_CPU ? KM_HOST : 0;
    if (options.tuning.path && !cli_tuning_is_none(&options.tuning) && options.on_device &&
        device == KM_DEVICE_AUTO) {
        exit =
            cli_usage(command, "--tuning %s is of one device; say which one by --target cpu or --target cuda",
                      options.tuning.path);
        goto done;
    }
    if (status == KM_OK) status = cli_tuning_read(&options.tuning, &err);
    cli_tuning_apply(&params, &options.tuning);
    if (status == KM_OK && options.on_device && device == KM_DEVICE_AUTO)
        status = cli_devices_print(&spec, &params, NULL, INT64_MAX, 1, &err);
    else if (status == KM_OK)
        status = explain_one(&spec, &params, device, &err);
    if (status != KM_OK) exit = cli_error(status, &err);
done:
    cli_tuning_clear(&options.tuning);
    km_spec_clear(&spec);
    return exit;
}

static const cli_option options_list[] = {
    {"points", 'n', "N", "number of points, which decides memory and some numbers",
     CLI_INT(explain_options, points, 1, INT64_MAX)},
    {"clusters", 'k', "LIST", "the list of K instead of the spec's: 2..10, 3,5,8, 2..20 step 2",
     CLI_TEXT(explain_options, changes.clusters)},
    {"target", 't', "TARGET", "cpu, cpu:avx512, cuda, cuda:sm_90 ... instead of the spec's",
     CLI_TEXT(explain_options, changes.target)},
    {"type", 0, "f32|f64", "element type instead of the spec's", CLI_TEXT(explain_options, changes.type)},
    {"layout", 0, "auto|dense|csr", "how points lie in memory, instead of the spec's",
     CLI_TEXT(explain_options, changes.layout)},
    {"density", 0, "X",
     "share of the values that are not 0, above 0 up to 1: what the\n"
     "layouts dense and csr are compared by",
     CLI_BY(cli_take_share, double, explain_options, density)},
    {"set", 0, "NAME=VALUE...", "fix a number of the plan, e.g. block=256 or design=tiled",
     CLI_BY(cli_take_set, cli_changes, explain_options, changes)},
    {"device", 0, NULL,
     "plan for what this machine has, instead of nominal devices: its CPU\n"
     "and its GPU side by side, or the one that the target names",
     CLI_FLAG(explain_options, on_device, 1)},
    CLI_TUNING_OPTION(
        explain_options,
        "take measured numbers from this table of kmgen tune first, or\nfrom none, not even those of the "
        "library; default with --device:\nthe device's own in $XDG_DATA_HOME/kmgen/tuning"),
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_explain = {
    "explain",
    "[OPTIONS] SPEC.yaml",
    "Prints every planned number with its reason, the budgets and what bounds the time",
    "Explains the text that 'kmgen SPEC.yaml' writes: CUDA C unless the target says cpu.\n"
    "\n"
    "Examples:\n"
    "  kmgen explain specs/small.yaml --points 33554432\n"
    "  kmgen explain specs/small.yaml --target cuda:sm_90\n"
    "  kmgen explain specs/small.yaml --device     this machine's CPU and GPU\n",
    options_list,
    run,
};
