// SPDX-License-Identifier: MIT
#include "fit_options.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

int cli_fit_algorithm_find(km_algorithm *out, const char *name, int warn) {
    km_spec spec;
    km_spec_init(&spec);
    int found = km_spec_fix(&spec, "algorithm", name, NULL) == KM_OK;
    if (found) *out = (km_algorithm)spec.fixed[0].value;
    if (warn) cli_names_warn(&spec);
    km_spec_clear(&spec);
    return found;
}

// Checked now, found when the spec was read.
static int take_algorithm(void *field, cli_parser *parser, const cli_option *option) {
    const char *names[KM_ALGORITHM_COUNT + 1] = {0};
    km_algorithm found;
    int choice = 0;
    *(const char **)field = parser->value;
    if (cli_fit_algorithm_find(&found, parser->value, 0)) return 0;
    for (int i = 0; i < KM_ALGORITHM_COUNT; i++) names[i] = km_algorithm_name((km_algorithm)i);
    return cli_choice(parser, option, &choice, names);
}

// Checked now, set when the spec was read.
static int take_refine(void *field, cli_parser *parser, const cli_option *option) {
    (void)option;
    km_spec spec;
    km_error err = {""};
    km_spec_init(&spec);
    int failed = km_spec_set_refine(&spec, parser->value, &err) != KM_OK;
    km_spec_clear(&spec);
    *(const char **)field = parser->value;
    return failed ? cli_usage(parser->command, "--%s", err.text) : 0;
}

static int take_minutes(void *field, cli_parser *parser, const cli_option *option) {
    int wrong = cli_take_nonnegative(field, parser, option);
    *(double *)field *= 60;
    return wrong;
}

// One picture after another, each in its own format.
static int take_plot(void *field, cli_parser *parser, const cli_option *option) {
    cli_output *plots = field;
    for (int p = 0; p < PLOTS_MAX; p++) {
        if (plots[p].path) continue;
        plots[p] = (cli_output){"--plot", parser->value, NULL};
        return 0;
    }
    return cli_usage(parser->command, "--%s is given more than %d times", option->name, PLOTS_MAX);
}

// A name of DATA that is no file may be a pattern, which a shell was kept from expanding: files in the order of names.
static int find_files(fit_options *options, const char *pattern, const cli_command *command) {
    if (!strpbrk(pattern, "*?[") || access(pattern, F_OK) == 0) return 0;
    if (glob(pattern, 0, NULL, &options->found) != 0)
        return cli_usage(command, "%s: no file has such a name", pattern);
    options->data_paths = (const char *const *)options->found.gl_pathv;
    options->data_count = (int64_t)options->found.gl_pathc;
    return 0;
}

static int take_positional(fit_options *options, const cli_parser *parser) {
    char **names = parser->argv + parser->first;
    if (cli_positional(parser, 1, INT_MAX, "DATA")) return CLI_USAGE;
    int count = parser->argc - parser->first, has_spec = count > 1 && cli_is_yaml(names[0]);
    options->spec_path = has_spec ? names[0] : NULL;
    for (int i = has_spec; i < count; i++)
        if (cli_is_yaml(names[i]) && !(count == 2 && has_spec))
            return cli_usage(parser->command,
                             count == 1 ? "%s is a spec; the data are missing: kmgen fit SPEC.yaml DATA"
                                        : "%s is a spec and stands first: kmgen fit SPEC.yaml DATA",
                             names[i]);
    options->data_paths = (const char *const *)names + has_spec;
    options->data_count = count - has_spec;
    if (options->data_count == 1 && find_files(options, options->data_paths[0], parser->command))
        return CLI_USAGE;
    options->data_path = options->data_paths[0];
    return 0;
}

// What --init may be besides a file.
static const char *const init_words[] = {"k-means++", "random", NULL};

int cli_fit_init_is_file(const fit_options *options) {
    for (int w = 0; options->init && init_words[w]; w++)
        if (strcmp(options->init, init_words[w]) == 0) return 0;
    return options->init != NULL;
}

static int check_init(const fit_options *options, const cli_command *command) {
    if (!cli_fit_init_is_file(options)) return 0;
    const char *similar = cli_suggest(options->init, init_words);
    if (similar && access(options->init, F_OK) != 0)
        return cli_usage(command, "--init %s: there is no such file; did you mean %s?", options->init,
                         similar);
    if (options->n_init > 1)
        return cli_usage(command,
                         "--init %s gives the first centroids, which means one restart; leave --n-init %lld "
                         "out, or the file",
                         options->init, (long long)options->n_init);
    return 0;
}

int cli_fit_check_spec(const fit_options *options, const km_spec *spec, const cli_command *command) {
    if (!cli_fit_init_is_file(options) || options->n_init || !spec->n_init_given || spec->n_init == 1)
        return 0;
    return cli_usage(
        command,
        "--init %s gives the first centroids, which means one restart, and %s asks for %lld; add "
        "--n-init 1",
        options->init, options->spec_path, (long long)spec->n_init);
}

// Standard input can be read once.
static int check_stdin(const fit_options *options, const cli_command *command) {
    const char *const names[] = {"data", "--weights", "--init"};
    const char *const paths[] = {options->data_path, options->data.weights, options->init};
    const char *first = NULL;
    for (int i = 0; i < 3; i++) {
        if (!paths[i] || strcmp(paths[i], "-") != 0) continue;
        if (first) return cli_usage(command, "%s and %s cannot both be standard input", first, names[i]);
        first = names[i];
    }
    return 0;
}

int cli_fit_writes_rows(const fit_options *options) {
    return options->outputs[OUT_LABELS].path || options->outputs[OUT_TABLE].path;
}

// Refuses options of which one would make another one have no effect.
static int check_pairs(const fit_options *options, const cli_parser *parser) {
    const cli_command *command = parser->command;
    if (cli_given(parser, &options->labels_of_all) && !cli_fit_writes_rows(options))
        return cli_usage(command, "--labels-of needs --labels FILE or --output FILE");
    const char *labels = options->outputs[OUT_LABELS].path,
               *format = labels ? km_output_format(labels) : NULL;
    if (options->output.id && (!format || strcmp(format, "npy") == 0))
        return cli_usage(command, "--id needs --labels FILE.csv or FILE.tsv, which it is a column of");
    for (int i = 0; i < options->changes.set_count; i++)
        if (options->algorithm && strncmp(options->changes.set[i], "algorithm=", 10) == 0)
            return cli_usage(command, "--algorithm and --set %s say the same; give one of them",
                             options->changes.set[i]);
    if (options->fit.checkpoint && strcmp(options->fit.checkpoint, "-") == 0)
        return cli_usage(command, "--checkpoint writes a file, not standard output");
    if (cli_given(parser, &options->fit.checkpoint_s) && !options->fit.checkpoint)
        return cli_usage(command, "--checkpoint-every needs --checkpoint FILE");
    for (int64_t i = 0; i < options->data_count && options->data_count > 1; i++)
        if (strcmp(options->data_paths[i], "-") == 0)
            return cli_usage(command, "standard input cannot be one of several files");
    if (options->data_count > 1 && options->outputs[OUT_TABLE].path)
        return cli_usage(command, "--output writes one file as it is, and there are %lld: write --labels",
                         (long long)options->data_count);
    if (check_init(options, command) || check_stdin(options, command)) return CLI_USAGE;
    for (int64_t i = 0; i < options->data_count; i++)
        if (cli_data_check(&options->data, parser, options->data_paths[i])) return CLI_USAGE;
    return 0;
}

// What several ranks do not do.
static int check_ranks(const fit_options *options, const cli_command *command) {
    const char *labels = options->outputs[OUT_LABELS].path,
               *format = labels ? km_output_format(labels) : NULL;
    if (!cli_ranks()) return 0;
    if (labels && (!format || strcmp(format, "npy") != 0))
        return cli_usage(command, "several ranks write labels as .npy, got '%s'", labels);
    if (options->outputs[OUT_TABLE].path || options->outputs[OUT_REPORT].path)
        return cli_usage(command, "several ranks write no %s: write --labels, --json or --model",
                         options->outputs[OUT_TABLE].path ? "--output" : "--report");
    if (strcmp(options->data_path, "-") == 0)
        return cli_usage(command, "several ranks cannot read standard input; name a file that all have");
    return 0;
}

// Before anything is read: usage that is wrong whatever the files hold, and outputs that cannot be written.
static int check(const fit_options *options, const cli_parser *parser) {
    cli_output outputs[OUT_COUNT + 1];
    if (check_pairs(options, parser) || check_ranks(options, parser->command)) return CLI_USAGE;
    int unusable = cli_plots_check(parser->command, options->outputs + OUT_PLOT, OUT_COUNT - OUT_PLOT);
    if (unusable) return unusable;
    enum { OTHERS = 6 };
    const char **inputs = calloc((size_t)options->data_count + OTHERS, sizeof *inputs);
    int64_t count = options->data_count;
    if (!inputs) {
        km_error err = {{0}};
        snprintf(err.text, sizeof err.text, "not enough memory for %lld names of files", (long long)count);
        return cli_error(KM_ERROR_MEMORY, &err);
    }
    memcpy(inputs, options->data_paths, (size_t)count * sizeof *inputs);
    if (options->data.weights) inputs[count++] = options->data.weights;
    if (options->spec_path) inputs[count++] = options->spec_path;
    if (cli_fit_init_is_file(options)) inputs[count++] = options->init;
    if (options->source) inputs[count++] = options->source;
    if (options->tuning.path && !cli_tuning_is_none(&options->tuning)) inputs[count++] = options->tuning.path;
    // A checkpoint may replace the one that the fit goes on from.
    memcpy(outputs, options->outputs, sizeof options->outputs);
    outputs[OUT_COUNT] = (cli_output){"--checkpoint", options->fit.checkpoint, NULL};
    int exit = cli_outputs_check(parser->command, outputs, OUT_COUNT + 1, inputs);
    free(inputs);
    return exit;
}

// What the environment says where --compile-rest is not given.
static int take_rest(fit_options *options, const cli_parser *parser) {
    const char *said = getenv("KMGEN_COMPILE_REST");
    if (cli_given(parser, &options->rest) || !said || !*said) return 0;
    for (int w = 0; cli_rest_words[w]; w++) {
        if (strcmp(said, cli_rest_words[w]) != 0) continue;
        options->rest = w;
        return 0;
    }
    return cli_usage(parser->command, "KMGEN_COMPILE_REST must be background, wait or leave, got '%s'", said);
}

int cli_fit_parse(fit_options *options, cli_parser *parser, const cli_command *command, int argc,
                  char **argv) {
    if (cli_parse(parser, options, command, argc, argv)) return -1;
    options->fit.threads = cli_threads(options->fit.threads);
    parser->exit = take_rest(options, parser);
    if (!parser->exit) parser->exit = take_positional(options, parser);
    if (!parser->exit) parser->exit = check(options, parser);
    return parser->exit ? -1 : 0;
}

static const char *const gap_box_words[] = {"uniform", "principal", NULL};
static const char *const labels_of_words[] = {"best", "all", NULL};

const cli_option cli_fit_options[] = {
    {"clusters", 'k', "LIST", "the list of K: 8, 2..12, 3,5,8, 2..20 step 2;\ndefault: 2..min(20, n-1)",
     CLI_TEXT(fit_options, changes.clusters)},
    {"n-init", 0, "N", "restarts of each K; default: 10", CLI_INT(fit_options, n_init, 1, 1000000)},
    {"refine", 0, "none|auto|N",
     "start each K again from the models of its neighbours and keep\nwhat is better: auto (default) "
     "takes a fifth of the restarts' work,\nmore on small tables, N at most N passes; with none a K's "
     "model\ndoes not depend on the list",
     CLI_BY(take_refine, const char *, fit_options, refine)},
    {"max-iter", 0, "N", "iterations of a restart at most; default: the spec's, else 300",
     CLI_INT(fit_options, fit.max_iter, 1, INT64_MAX)},
    {"tol", 0, "X",
     "stop when the centroids' squared shift is at most X times the\n"
     "mean variance of the features; 0: when nothing changes; default:\n"
     "the spec's, else 1e-4",
     CLI_BY(cli_take_nonnegative, double, fit_options, fit.tol)},
    {"min-changes", 0, "N", "also stop when fewer than N labels change; default: off",
     CLI_INT(fit_options, fit.changes_min, 0, INT64_MAX)},
    {"algorithm", 0, "NAME",
     "auto (default), lloyd, tiles, hamerly or elkan: which distances\n"
     "are skipped; the result is the same, but for near ties, which lloyd\n"
     "decides in the points' own type",
     CLI_BY(take_algorithm, const char *, fit_options, algorithm)},
    {"init", 0, "HOW",
     "k-means++ (default), random, or a file with the first centroids:\n"
     "max(K) rows, of which each K takes its first K, or the rows of\n"
     "every K in ascending order; means one restart",
     CLI_TEXT(fit_options, init)},
    {"scale", 0, "none|standard|minmax|robust|unit",
     "\nscale the features first; centroids come back in original units.\n"
     "unit: divide each row by its length, as --metric cosine",
     CLI_BY(cli_take_scale, km_scale, fit_options, fit.scale)},
    {"metric", 0, "euclidean|cosine", "\nwhat is near; cosine: rows and centroids have length 1",
     CLI_TEXT(fit_options, changes.metric)},
    {"seed", 0, "N", "of all random draws; default: 0. Same seed, same result",
     CLI_BY(cli_take_seed, uint64_t, fit_options, fit.seed)},
    {"type", 0, "f32|f64", "element type of points and centroids; default: f32",
     CLI_TEXT(fit_options, changes.type)},
    {"layout", 0, "auto|dense|csr",
     "how points lie in memory: all values, or the nonzeros of each row;\n"
     "auto (default): whichever is estimated to be faster",
     CLI_TEXT(fit_options, changes.layout)},
    {"target", 't', "TARGET",
     "auto (default: the GPU where there is one, but for fits that the\nCPU does in less time), cpu, cuda, "
     "cuda:N; cuda:N,N or cuda:all: GPUs that share the points",
     CLI_TEXT(fit_options, changes.target)},
    CLI_WEIGHTS_OPTIONS(fit_options),
    {"criterion", 0, "NAME",
     "what decides the best K; default: auto, several criteria and whether\nclusters are apart; 'list' shows "
     "all names",
     CLI_BY(cli_take_criterion, km_criterion, fit_options, fit.criterion)},
    {"criteria", 0, "LIST",
     "compute these criteria too, each at a cost beyond the last pass;\nnames with commas between them, or "
     "all",
     CLI_BY(cli_take_criteria, uint64_t, fit_options, fit.criteria)},
    {"gap-references", 0, "B", "sets of drawn points that the gap compares with; default: 10",
     CLI_INT(fit_options, fit.gap_references, 2, 1000000)},
    {"gap-box", 0, "uniform|principal",
     "\nthe box they are drawn in lies along the features (default) or along\nthe principal components",
     CLI_WORD(km_gap_box, fit_options, fit.gap_box, gap_box_words)},
    CLI_DATA_OPTIONS(fit_options),
    {"json", 0, "FILE", "write the result as JSON; with - standard output holds only that",
     CLI_TEXT(fit_options, outputs[OUT_JSON].path)},
    {"model", 0, "FILE", "write the best model, for kmgen predict",
     CLI_TEXT(fit_options, outputs[OUT_MODEL].path)},
    {"output", 'o', "FILE.csv|tsv",
     "write DATA as it is, with the best K's labels and distances in the\ncolumns cluster and distance",
     CLI_TEXT(fit_options, outputs[OUT_TABLE].path)},
    {"labels", 0, "FILE.npy|csv|tsv",
     "\nwrite the labels of the best K; as text with row, distance and margin",
     CLI_TEXT(fit_options, outputs[OUT_LABELS].path)},
    {"labels-of", 0, "best|all", "all: the labels of every K, in a column label_K for each",
     CLI_WORD(int, fit_options, labels_of_all, labels_of_words)},
    {"id", 0, "COLUMN", "a column of DATA that is written in the place of the row's number",
     CLI_TEXT(fit_options, output.id)},
    {"centroids", 0, "FILE.npy|csv|tsv", "\nwrite the centroids of the best K, in the data's units",
     CLI_TEXT(fit_options, outputs[OUT_CENTROIDS].path)},
    {"plot", 0, "FILE.svg|png|pdf...", "draw inertia and the deciding criterion over K",
     CLI_BY(take_plot, cli_output, fit_options, outputs[OUT_PLOT])},
    {"report", 0, "FILE.html", "write all of it as one page: pictures, tables, what was run",
     CLI_TEXT(fit_options, outputs[OUT_REPORT].path)},
    {"threads", 0, "N", "CPU threads; default: OMP_NUM_THREADS, else all cores. Never changes\nthe result",
     CLI_INT(fit_options, fit.threads, 1, 4096)},
    {"memory-max", 0, "BYTES",
     "memory that this process may hold, as 512M or 4G, pages of mapped\n"
     "files not counted; the plan keeps within it, or nothing is read",
     CLI_BY(cli_take_bytes, int64_t, fit_options, fit.memory_max)},
    {"scratch", 0, "DIR",
     "on a CPU: what does not fit into memory lies in temporary files in\nthis folder of a disk; without it, "
     "such a fit is refused",
     CLI_TEXT(fit_options, fit.scratch_dir)},
    {"checkpoint", 0, "FILE",
     "keep the runs that are done in this file, now and then and where the\nfit is ended",
     CLI_TEXT(fit_options, fit.checkpoint)},
    {"checkpoint-every", 0, "MINUTES", "at most so often; default: 5",
     CLI_BY(take_minutes, double, fit_options, fit.checkpoint_s)},
    {"resume", 0, "FILE",
     "go on from a checkpoint of the same fit, to the result that it would\nhave had; other threads and "
     "other "
     "outputs may be asked for",
     CLI_TEXT(fit_options, fit.resume)},
    {"device-memory-max", 0, "BYTES", "likewise, of a GPU's memory; points that do not fit stay on the host",
     CLI_BY(cli_take_bytes, int64_t, fit_options, fit.device_memory_max)},
    {"set", 0, "NAME=VALUE...", "fix a number of the plan, e.g. block=256 or design=tiled",
     CLI_BY(cli_take_set, cli_changes, fit_options, changes)},
    {"source", 0, "FILE",
     "use this text (an emitted file, edited by hand) for the kernels;\n"
     "its head must name this fit's features, list of K and type",
     CLI_TEXT(fit_options, source)},
    CLI_TUNING_OPTION(fit_options,
                      "take measured numbers from this table of kmgen tune first, or\nfrom none, not even "
                      "those of the library; default: the device's own\nin $XDG_DATA_HOME/kmgen/tuning"),
    {"compiler", 0, "FILE",
     "C compiler for a CPU, NVRTC or its folder for a GPU;\ndefault: what kmgen info shows",
     CLI_TEXT(fit_options, fit.compiler)},
    {"cache-dir", 0, "DIR", "keep compiled modules here; default: see kmgen cache --help",
     CLI_TEXT(fit_options, cache_dir)},
    {"compile-rest", 0, "background|wait|leave",
     "\nkernels for a GPU that are still being compiled when the result is\n"
     "there: by a process of low priority, while kmgen ends (default, or\n"
     "what $KMGEN_COMPILE_REST says); wait for them; or leave them to a\nlater fit or kmgen cache finish",
     CLI_WORD(int, fit_options, rest, cli_rest_words)},
    {"dry-run", 0, NULL,
     "print the plan, the memory it needs and what is free; run nothing.\nFails where the fit would not fit",
     CLI_FLAG(fit_options, dry_run, 1)},
    CLI_COMMON_OPTIONS,
};
