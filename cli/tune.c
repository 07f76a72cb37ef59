// SPDX-License-Identifier: MIT
#include "cli.h"
#include <kmgen/tune.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

enum { OUT_JSON, OUT_CSV, OUT_PLOT, OUT_COUNT };

typedef struct tune_options {
    const char *features, *clusters, *cache_dir;
    int is_worker;
    cli_changes changes;
    cli_output outputs[OUT_COUNT];
    km_tune_params tune;
} tune_options;

// Specs that are tuned one after the other.
typedef struct shapes {
    km_spec *specs;
    int64_t count;
} shapes;

static int check(const tune_options *options, const cli_parser *parser) {
    const cli_command *command = parser->command;
    const char *inputs[64] = {0}, *plot = options->outputs[OUT_PLOT].path;
    int count = parser->argc - parser->first;
    km_error err = {""};
    if (count == 0 && !options->features)
        return cli_usage(command, "name specs, or shapes by --features 4,8 --clusters 3..5,3..12");
    if (count > 0 && options->features)
        return cli_usage(command, "specs name their features themselves; leave --features out, or the specs");
    if (options->features && !options->clusters)
        return cli_usage(command, "--features needs --clusters, the lists of K: --clusters 3..5,3..12");
    if (plot && (strlen(plot) < 5 || strcasecmp(plot + strlen(plot) - 4, ".svg") != 0))
        return cli_usage(command, "--plot writes .svg, got '%s'", plot);
    if (plot && km_part_check(KM_PART_CAIRO, &err) != KM_OK)
        return cli_usage(command, "--plot needs cairo: %s, or leave --plot out", err.text);
    for (int i = 0; i < count && i < 63; i++) {
        inputs[i] = parser->argv[parser->first + i];
        if (cli_refuse_table(command, inputs[i])) return CLI_USAGE;
    }
    return cli_outputs_check(command, options->outputs, OUT_COUNT, inputs);
}

// Shapes ------------------------------------------------------------------------------------------------------

static km_spec *add_shape(shapes *to) {
    km_spec *more = realloc(to->specs, (size_t)(to->count + 1) * sizeof *more);
    if (!more) return NULL;
    to->specs = more;
    km_spec_init(&more[to->count]);
    return &more[to->count++];
}

static void shapes_clear(shapes *s) {
    for (int64_t i = 0; i < s->count; i++) km_spec_clear(&s->specs[i]);
    free(s->specs);
}

// The part of a list up to the next comma; `*list` goes behind it. 0: there is none left.
static int next_part(char *part, size_t size, const char **list) {
    size_t length = strcspn(*list, ",");
    if (!**list) return 0;
    snprintf(part, size, "%.*s", (int)length, *list);
    *list += length + ((*list)[length] == ',');
    return 1;
}

// Each number of features with each list of K.
static int shapes_of_lists(shapes *out, const tune_options *options, const cli_command *command) {
    char features[64], clusters[256];
    km_error err = {""};
    for (const char *f = options->features; next_part(features, sizeof features, &f);) {
        char *end;
        long d = strtol(features, &end, 10);
        if (*end || end == features || d < 1 || d > KM_FEATURES_DENSE_MAX)
            return cli_usage(command, "--features is a list of numbers such as 4,8,16, got '%s'",
                             options->features);
        for (const char *k = options->clusters; next_part(clusters, sizeof clusters, &k);) {
            km_spec *spec = add_shape(out);
            if (!spec) return cli_error(KM_ERROR_MEMORY, &err);
            spec->features = d;
            km_status status = km_spec_set_clusters(spec, clusters, &err);
            if (status != KM_OK) return cli_error(status, &err);
        }
    }
    return 0;
}

static int shapes_of_specs(shapes *out, const cli_parser *parser) {
    km_error err = {""};
    for (int i = parser->first; i < parser->argc; i++) {
        km_spec *spec = add_shape(out);
        if (!spec) return cli_error(KM_ERROR_MEMORY, &err);
        km_status status = km_spec_read(spec, parser->argv[i], &err);
        if (status != KM_OK) return cli_error(status, &err);
        if (spec->features < 1 || spec->clusters_count < 1)
            return cli_usage(parser->command, "%s must say features and clusters", parser->argv[i]);
    }
    return 0;
}

static int make_shapes(shapes *out, tune_options *options, const cli_parser *parser) {
    int exit =
        options->features ? shapes_of_lists(out, options, parser->command) : shapes_of_specs(out, parser);
    if (!options->features) options->changes.clusters = options->clusters;
    options->tune.device = KM_DEVICE_AUTO;
    for (int64_t i = 0; i < out->count && !exit; i++) {
        exit = cli_changes_apply(&out->specs[i], &options->tune.device, &options->changes, parser->command);
        cli_names_warn(&out->specs[i]);
    }
    return exit;
}

// One shape ---------------------------------------------------------------------------------------------------

static void shape_text(char *text, size_t size, const km_spec *spec) {
    char clusters[128];
    cli_clusters_text(clusters, sizeof clusters, spec);
    for (char *at = clusters; *at; at++)
        if (*at == ' ' || *at == ',') *at = '_';
    snprintf(text, size, "d%lld-k%s%s", (long long)spec->features, clusters,
             spec->type == KM_FLOAT64 ? "-float64" : "");
}

// Where the output of one of several shapes goes: the shape stands before the suffix.
static const char *output_path(char *path, size_t size, const char *given, const km_spec *spec,
                               int64_t count) {
    char shape[192];
    const char *slash = strrchr(given, '/'), *dot = strrchr(slash ? slash : given, '.');
    if (count == 1 || strcmp(given, "-") == 0) return given;
    if (!dot) dot = given + strlen(given);
    shape_text(shape, sizeof shape, spec);
    snprintf(path, size, "%.*s-%s%s", (int)(dot - given), given, shape, dot);
    return path;
}

static km_status write_text(km_status (*make)(char **, const km_tune_result *, km_error *), const char *path,
                            const km_tune_result *result, km_error *err) {
    char *text = NULL;
    km_status made = make(&text, result, err);
    return cli_text_write(path, text, made, err);
}

static int write_outputs(const tune_options *options, const km_tune_result *result, int64_t count) {
    int exit = CLI_DONE, stdout_taken = 0;
    cli_interrupts_hold();
    for (int o = 0; o < OUT_COUNT; o++) {
        char place[4400];
        km_error err = {""};
        if (!options->outputs[o].path) continue;
        const char *path = output_path(place, sizeof place, options->outputs[o].path, &result->spec, count);
        stdout_taken |= strcmp(path, "-") == 0;
        km_status status = o == OUT_JSON  ? write_text(km_tune_json, path, result, &err)
                           : o == OUT_CSV ? write_text(km_tune_csv, path, result, &err)
                                          : km_tune_plot(path, result, &err);
        if (status != KM_OK) exit = cli_error(status, &err);
    }
    cli_interrupts_release();
    if (!stdout_taken) {
        km_error err = {""};
        km_status status = write_text(km_tune_table, "-", result, &err);
        if (status != KM_OK) exit = cli_error(status, &err);
    }
    return exit;
}

static int tune_one(const tune_options *options, const km_spec *spec, int64_t count) {
    km_error err = {""};
    km_tune_result *result;
    km_status status = km_tune(&result, spec, &options->tune, &err);
    cli_progress_clear();
    if (status != KM_OK) return cli_error(status, &err);
    int exit = write_outputs(options, result, count);
    if (result->stopped)
        cli_note("stopped %s%s", cli_interrupted() ? "by a signal" : "at the end of the budget",
                 options->tune.tuning_dir ? "; the same command goes on where it was" : "");
    km_tune_result_destroy(&result);
    return exit;
}

// All of it ---------------------------------------------------------------------------------------------------

// What a tuning runs beside itself. Ctrl-C is for the one that asked; when that ends, however, this ends too.
static int run_worker(void) {
    km_error err = {""};
    signal(SIGINT, SIG_IGN);
    signal(SIGTERM, SIG_IGN);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == 1) return CLI_FAILED; // it has ended already
    km_status status = km_tune_serve(STDIN_FILENO, STDOUT_FILENO, &err);
    return status == KM_OK ? CLI_DONE : cli_error(status, &err);
}

static int prepare(tune_options *options) {
    static char today[16], self[] = "/proc/self/exe", command[] = "tune", worker[] = "--worker";
    static char *const argv[] = {self, command, worker, NULL};
    time_t now = time(NULL);
    struct tm day;
    if (gmtime_r(&now, &day)) strftime(today, sizeof today, "%Y-%m-%d", &day);
    options->tune.today = today;
    options->tune.worker = argv;
    options->tune.log = cli_log();
    options->tune.progress = cli_tune_progress;
    options->tune.tuning_dir = cli_tuning_dir();
    if (!options->tune.tuning_dir)
        cli_note("what is found is not kept: neither XDG_DATA_HOME nor HOME names a folder");
    return cli_cache_dir_usable(&options->tune.cache_dir, options->cache_dir);
}

static int run(const cli_command *command, int argc, char **argv) {
    tune_options options = {
        .outputs = {{"--json", NULL, NULL}, {"--csv", NULL, NULL}, {"--plot", NULL, NULL}}};
    shapes all = {0};
    cli_parser parser;
    km_tune_params_init(&options.tune);
    if (cli_parse(&parser, &options, command, argc, argv)) return parser.exit;
    if (options.is_worker) return run_worker();
    int exit = check(&options, &parser);
    if (!exit) exit = make_shapes(&all, &options, &parser);
    if (!exit) exit = prepare(&options);
    cli_interrupts_catch();
    for (int64_t i = 0; i < all.count && !exit && !cli_interrupted(); i++) {
        char shape[192];
        shape_text(shape, sizeof shape, &all.specs[i]);
        if (all.count > 1) cli_note("shape %lld of %lld: %s", (long long)i + 1, (long long)all.count, shape);
        exit = tune_one(&options, &all.specs[i], all.count);
    }
    shapes_clear(&all);
    return cli_interrupts_obey(exit);
}

static const char *const space_words[] = {"small", "full", NULL};

static const cli_option options_list[] = {
    {"features", 0, "LIST", "numbers of features instead of specs, e.g. 4,8,16",
     CLI_TEXT(tune_options, features)},
    {"clusters", 'k', "LISTS",
     "lists of K, e.g. 3..5,3..12: each with each number of features;\nwith specs: one list, instead of "
     "theirs",
     CLI_TEXT(tune_options, clusters)},
    {"target", 't', "TARGET", "auto (default: the GPU where there is one), cpu, cuda, cuda:N",
     CLI_TEXT(tune_options, changes.target)},
    {"type", 0, "f32|f64", "element type instead of the spec's", CLI_TEXT(tune_options, changes.type)},
    {"set", 0, "NAME=VALUE...", "fix a number of the plan, e.g. design=tensor; others are tuned",
     CLI_BY(cli_take_set, cli_changes, tune_options, changes)},
    {"space", 0, "small|full", "how many values of each number are tried; default: small",
     CLI_WORD(int, tune_options, tune.full, space_words)},
    {"all", 0, NULL, "measure every candidate instead of searching", CLI_FLAG(tune_options, tune.all, 1)},
    {"budget", 0, "TIME", "for each shape, e.g. 60s, 10m; default: what it takes",
     CLI_BY(cli_take_seconds, double, tune_options, tune.budget_s)},
    {"fresh", 0, NULL, "forget what an earlier run of this shape measured; default: go on there",
     CLI_FLAG(tune_options, tune.fresh, 1)},
    {"points", 'n', "N", "points to measure with; default: more than the caches hold",
     CLI_INT(tune_options, tune.points, 1024, (int64_t)1 << 40)},
    {"threads", 0, "N", "CPU threads; default: all cores", CLI_INT(tune_options, tune.threads, 1, 4096)},
    {"jobs", 'j', "N", "compilers at a time; default: one a core", CLI_INT(tune_options, tune.jobs, 1, 1024)},
    {"output", 'o', "FILE.yaml",
     "the table to add to; default: that of this device in\n$XDG_DATA_HOME/kmgen/tuning, which kmgen fit "
     "reads",
     CLI_TEXT(tune_options, tune.table)},
    {"json", 0, "FILE", "all candidates with what was found; several shapes: a file each",
     CLI_TEXT(tune_options, outputs[OUT_JSON].path)},
    {"csv", 0, "FILE", "the same as a table", CLI_TEXT(tune_options, outputs[OUT_CSV].path)},
    {"plot", 0, "FILE.svg", "a heat map of the candidates' times",
     CLI_TEXT(tune_options, outputs[OUT_PLOT].path)},
    {"compiler", 0, "FILE", "C compiler for a CPU, NVRTC or its folder for a GPU",
     CLI_TEXT(tune_options, tune.compiler)},
    {"cache-dir", 0, "DIR", "keep compiled modules here; default: see kmgen cache --help",
     CLI_TEXT(tune_options, cache_dir)},
    {"worker", 0, NULL, "answer the questions of another kmgen tune (it calls itself)",
     CLI_FLAG(tune_options, is_worker, 1)},
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_tune = {
    "tune",
    "[OPTIONS] SPEC.yaml...",
    "Finds the fastest plan for this device by measuring, and remembers it",
    "Every plan that the device can run is a candidate; which of them are measured, a search decides.\n"
    "Each is checked against a reference in double before it is timed, and the winner is kept only if it\n"
    "is faster than the default by more than the noise. kmgen fit uses it from then on.\n"
    "\n"
    "Examples:\n"
    "  kmgen tune specs/small.yaml\n"
    "  kmgen tune --features 4,8,16 --clusters 3..5,3..12 --budget 60s\n"
    "  kmgen tune specs/small.yaml --set design=registers --all --plot registers.svg\n",
    options_list,
    run,
};
