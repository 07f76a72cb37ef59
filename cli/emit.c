// SPDX-License-Identifier: MIT
#include "cli.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

typedef struct emit_options {
    const char *output, *templates;
    int weighted;
    double density; // 0: unknown
    cli_changes changes;
    cli_tuning tuning;
} emit_options;

// What was planned, in two lines.
static void say_planned(const char *path, const km_source *source) {
    const km_plan *plan = &source->plan;
    char target[64], clusters[256], numbers[512] = "";
    km_target_text(target, sizeof target, plan->spec.target);
    cli_clusters_text(clusters, sizeof clusters, &plan->spec);
    for (int64_t i = 0; i < plan->numbers_count; i++) {
        size_t used = strlen(numbers);
        snprintf(numbers + used, sizeof numbers - used, "%s%s %s", i ? ", " : "", plan->numbers[i].name,
                 plan->numbers[i].text);
    }
    cli_note("%s: %s, %s, %lld features, K = %s, design %s", path, target, km_type_name(plan->spec.type),
             (long long)plan->spec.features, clusters, km_design_name(plan->design));
    cli_note("%s; %s", plan->design_reason, numbers);
}

// The text, whose path is left in `path`, and the header beside it.
static km_status write_files(char *path, size_t size, const char *folder, const km_source *source,
                             km_error *err) {
    char header[4200];
    const char *slash = strcmp(folder, ".") ? "/" : "";
    if (!*slash) folder = "";
    snprintf(path, size, "%s%s%s", folder, slash, source->file_name);
    snprintf(header, sizeof header, "%s%s%s", folder, slash, source->header_name);
    km_status status = km_text_write(path, source->text, err);
    if (status == KM_OK && source->header) status = km_text_write(header, source->header, err);
    return status;
}

static int run(const cli_command *command, int argc, char **argv) {
    emit_options options = {0};
    km_error err = {""};
    km_spec spec;
    km_plan plan;
    km_plan_params params;
    km_source source;
    char path[4200];
    cli_parser parser;
    if (cli_parse(&parser, &options, command, argc, argv)) return parser.exit;
    if (cli_positional(&parser, 1, 1, "SPEC.yaml")) return CLI_USAGE;
    if (cli_refuse_table(command, argv[parser.first])) return CLI_USAGE;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_plan_params_init(&params);
    params.weighted = options.weighted;
    km_source_init(&source);
    int exit = 0;
    km_status status = km_spec_read(&spec, argv[parser.first], &err);
    if (status == KM_OK) exit = cli_changes_apply(&spec, NULL, &options.changes, command);
    if (exit) goto done;
    cli_names_warn(&spec);
    if (options.density > 0) params.nonzeros = options.density * (double)spec.features;
    if (status == KM_OK) status = cli_tuning_read(&options.tuning, &err);
    cli_tuning_apply(&params, &options.tuning);
    if (status == KM_OK) status = km_plan_make(&plan, &spec, &params, &err);
    if (status == KM_OK) status = km_source_emit(&source, &plan, options.templates, &err);
    if (status == KM_OK) {
        struct stat info;
        const char *folder = options.output ? options.output : ".";
        int is_stdout = strcmp(folder, "-") == 0;
        if (!is_stdout && (stat(folder, &info) != 0 || !S_ISDIR(info.st_mode))) {
            cli_line(stderr, "kmgen: -o %s is no folder; make it first, or use -o - for standard output",
                     folder);
            exit = CLI_FAILED;
            goto done;
        }
        cli_interrupts_hold();
        status = is_stdout ? km_text_write("-", source.text, &err)
                           : write_files(path, sizeof path, folder, &source, &err);
        cli_interrupts_release();
        if (status == KM_OK) say_planned(is_stdout ? "standard output" : path, &source);
        int is_csr = km_plan_layout(&plan) == KM_LAYOUT_CSR, is_cosine = spec.metric == KM_METRIC_COSINE;
        if (status == KM_OK && !is_stdout && !source.header && (is_csr || is_cosine))
            cli_note("%s: kernels alone, for `kmgen fit --source`: %s there is no host part",
                     source.file_name, is_csr ? "of points in the layout csr" : "with the metric cosine");
        if (status == KM_OK && !is_stdout && source.header)
            cli_note("%s: its functions, for a program without kmgen (docs/emitted.md)", source.header_name);
    }
    if (status != KM_OK) exit = cli_error(status, &err);
done:
    cli_tuning_clear(&options.tuning);
    km_source_clear(&source);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    return exit;
}

static const cli_option options_list[] = {
    {"output", 'o', "DIR",
     "folder of the emitted files, or - for the text alone to standard\noutput; default: .",
     CLI_TEXT(emit_options, output)},
    {"clusters", 'k', "LIST", "the list of K instead of the spec's: 2..10, 3,5,8, 2..20 step 2",
     CLI_TEXT(emit_options, changes.clusters)},
    {"target", 't', "TARGET", "cpu, cpu:avx512, cuda, cuda:sm_90 ... instead of the spec's",
     CLI_TEXT(emit_options, changes.target)},
    {"type", 0, "f32|f64", "element type instead of the spec's", CLI_TEXT(emit_options, changes.type)},
    {"set", 0, "NAME=VALUE...", "fix a number of the plan, e.g. block=256 or design=tiled",
     CLI_BY(cli_take_set, cli_changes, emit_options, changes)},
    {"density", 0, "X",
     "share of the values that are not 0, above 0 up to 1: it decides\n"
     "whether kernels are for points in the layout dense or csr",
     CLI_BY(cli_take_share, double, emit_options, density)},
    {"weighted", 0, NULL, "points carry weights (CUDA; C takes them in any case)",
     CLI_FLAG(emit_options, weighted, 1)},
    CLI_TUNING_OPTION(emit_options,
                      "take measured numbers from this table of kmgen tune first, or\nfrom none, not even "
                      "those of the library"),
    {"templates", 0, "DIR", "read the templates from DIR, to try an edit without a build",
     CLI_TEXT(emit_options, templates)},
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_emit = {
    "emit",
    "[OPTIONS] SPEC.yaml",
    "Writes NAME.cu (or NAME.c) and NAME.h, specialised on the spec's numbers, ready for nvcc -c (cc -c)",
    "They need no kmgen: NAME.h declares a handful of functions, -DNAME_MAIN makes a program\n"
    "(docs/emitted.md). CUDA C, unless the target (the spec's or --target) is cpu. The same spec gives the "
    "same bytes on\n"
    "every machine: a target without an architecture means sm_90 or avx2 here. 'kmgen SPEC.yaml' is\n"
    "short for 'kmgen emit SPEC.yaml'.\n"
    "\n"
    "Examples:\n"
    "  kmgen specs/small.yaml                     writes ./small.cu and ./small.h\n"
    "  kmgen specs/small.yaml --target cpu        writes ./small.c and ./small.h\n"
    "  kmgen emit -o build specs/small.yaml       writes into build/\n"
    "  kmgen emit -o - --target cpu SPEC.yaml     prints C\n",
    options_list,
    run,
};
