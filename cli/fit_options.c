// SPDX-License-Identifier: MIT
#include "fit_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

static int take_gap_box(km_gap_box *out, const cli_parser *parser) {
    static const char *const names[] = {"uniform", "principal", NULL};
    static const km_gap_box boxes[] = {KM_GAP_UNIFORM, KM_GAP_PRINCIPAL};
    int choice = 0;
    if (cli_choice(parser, "--gap-box", &choice, names)) return CLI_USAGE;
    *out = boxes[choice];
    return 0;
}

int cli_fit_algorithm_find(km_algorithm *out, const char *name, int warn) {
    km_spec spec;
    km_spec_init(&spec);
    int found = km_spec_fix(&spec, "algorithm", name, NULL) == KM_OK;
    if (found) *out = (km_algorithm)spec.fixed[0].value;
    if (warn) cli_names_warn(&spec);
    km_spec_clear(&spec);
    return found;
}

static int take_algorithm(km_algorithm *out, const cli_parser *parser) {
    const char *names[KM_ALGORITHM_COUNT + 1] = {0};
    int choice = 0;
    if (cli_fit_algorithm_find(out, parser->value, 0)) return 0;
    for (int i = 0; i < KM_ALGORITHM_COUNT; i++) names[i] = km_algorithm_name((km_algorithm)i);
    return cli_choice(parser, "--algorithm", &choice, names);
}

// Checked now, set when the spec was read.
static int take_refine(const char **out, const cli_parser *parser) {
    km_spec spec;
    km_error err = {""};
    km_spec_init(&spec);
    int failed = km_spec_set_refine(&spec, parser->value, &err) != KM_OK;
    km_spec_clear(&spec);
    *out = parser->value;
    return failed ? cli_usage(parser->command, "--%s", err.text) : 0;
}

static int take_labels_of(int *all, const cli_parser *parser) {
    static const char *const names[] = {"best", "all", NULL};
    return cli_choice(parser, "--labels-of", all, names);
}

// One picture after another, each in its own format.
static int take_plot(fit_options *options, const cli_parser *parser) {
    for (int p = OUT_PLOT; p < OUT_COUNT; p++) {
        if (options->outputs[p].path) continue;
        options->outputs[p] = (cli_output){"--plot", parser->value, NULL};
        return 0;
    }
    return cli_usage(parser->command, "--plot is given more than %d times", PLOTS_MAX);
}

static int take(fit_options *options, const cli_parser *parser, int id) {
    km_fit_params *fit = &options->fit;
    switch (id) {
    case CLI_N_INIT:
        return cli_int(parser, "--n-init", &options->n_init, 1, 1000000);
    case CLI_REFINE:
        return take_refine(&options->refine, parser);
    case CLI_MAX_ITER:
        return cli_int(parser, "--max-iter", &fit->max_iter, 1, INT64_MAX);
    case CLI_TOL:
        return cli_nonnegative(parser, "--tol", &fit->tol);
    case CLI_MIN_CHANGES:
        return cli_int(parser, "--min-changes", &fit->changes_min, 0, INT64_MAX);
    case CLI_ALGORITHM:
        options->algorithm = parser->value;
        return take_algorithm(&fit->algorithm, parser);
    case CLI_INIT:
        options->init = parser->value;
        return 0;
    case CLI_SCALE:
        return cli_scale(parser, &fit->scale);
    case CLI_SEED:
        return cli_seed(parser, &fit->seed);
    case CLI_CRITERION:
        return cli_criterion(parser, &fit->criterion);
    case CLI_CRITERIA:
        return cli_criteria(parser, &fit->criteria);
    case CLI_GAP_REFERENCES:
        return cli_int(parser, "--gap-references", &fit->gap_references, 2, 1000000);
    case CLI_GAP_BOX:
        return take_gap_box(&fit->gap_box, parser);
    case CLI_THREADS:
        return cli_int(parser, "--threads", &fit->threads, 1, 4096);
    case CLI_MEMORY_MAX:
        return cli_bytes(parser, "--memory-max", &fit->memory_max);
    case CLI_DEVICE_MEMORY_MAX:
        return cli_bytes(parser, "--device-memory-max", &fit->device_memory_max);
    case CLI_SCRATCH:
        fit->scratch_dir = parser->value;
        return 0;
    case CLI_CHECKPOINT:
        fit->checkpoint = parser->value;
        return 0;
    case CLI_CHECKPOINT_EVERY:
        if (cli_nonnegative(parser, "--checkpoint-every", &fit->checkpoint_s)) return CLI_USAGE;
        fit->checkpoint_s *= 60;
        return 0;
    case CLI_RESUME:
        fit->resume = parser->value;
        return 0;
    case CLI_SOURCE:
        options->source = parser->value;
        return 0;
    case CLI_TUNING:
        options->tuning.path = parser->value;
        return 0;
    case CLI_COMPILER:
        fit->compiler = parser->value;
        return 0;
    case CLI_CACHE_DIR:
        options->cache_dir = parser->value;
        return 0;
    case CLI_DRY_RUN:
        options->dry_run = 1;
        return 0;
    case CLI_WEIGHTS:
        options->data.weights = parser->value;
        return 0;
    case CLI_JSON:
        options->outputs[OUT_JSON].path = parser->value;
        return 0;
    case CLI_MODEL:
        options->outputs[OUT_MODEL].path = parser->value;
        return 0;
    case CLI_LABELS:
        options->outputs[OUT_LABELS].path = parser->value;
        return 0;
    case CLI_LABELS_OF:
        return take_labels_of(&options->labels_of_all, parser);
    case CLI_CENTROIDS:
        options->outputs[OUT_CENTROIDS].path = parser->value;
        return 0;
    case CLI_OUTPUT:
        options->outputs[OUT_TABLE].path = parser->value;
        return 0;
    case CLI_ID:
        options->output.id = parser->value;
        return 0;
    case CLI_PLOT:
        return take_plot(options, parser);
    case CLI_REPORT:
        options->outputs[OUT_REPORT].path = parser->value;
        return 0;
    case CLI_FORMAT:
    case CLI_FEATURES:
    case CLI_BASE:
    case CLI_HEADER:
    case CLI_COLUMNS:
    case CLI_NAN:
    case CLI_EXCLUDE:
    case CLI_ONE_HOT:
    case CLI_STRICT:
    case CLI_MISSING:
    case CLI_NA_VALUES:
    case CLI_DECIMAL:
    case CLI_WEIGHTS_COLUMN:
        return cli_data_take(&options->data, parser, id);
    default:
        return cli_changes_take(&options->changes, parser, id);
    }
}

static int take_positional(fit_options *options, const cli_parser *parser) {
    char **names = parser->argv + parser->first;
    if (cli_positional(parser, 1, 2, "DATA")) return CLI_USAGE;
    int count = parser->argc - parser->first;
    options->data_path = names[count - 1];
    options->spec_path = count == 2 ? names[0] : NULL;
    if (cli_is_yaml(options->data_path) && !(count == 2 && cli_is_yaml(names[0])))
        return cli_usage(parser->command,
                         count == 1 ? "%s is a spec; the data are missing: kmgen fit SPEC.yaml DATA"
                                    : "%s is a spec and stands first: kmgen fit SPEC.yaml DATA",
                         options->data_path);
    return 0;
}

static int ends_with(const char *text, const char *end) {
    size_t text_size = strlen(text), end_size = strlen(end);
    return text_size > end_size && strcasecmp(text + text_size - end_size, end) == 0;
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
    if (cli_given(parser, CLI_LABELS_OF) && !cli_fit_writes_rows(options))
        return cli_usage(command, "--labels-of needs --labels FILE or --output FILE");
    const char *labels = options->outputs[OUT_LABELS].path,
               *format = labels ? km_output_format(labels) : NULL;
    if (options->output.id && (!format || strcmp(format, "npy") == 0))
        return cli_usage(command, "--id needs --labels FILE.csv or FILE.tsv, which it is a column of");
    for (int i = 0; i < options->changes.set_count; i++)
        if (cli_given(parser, CLI_ALGORITHM) && strncmp(options->changes.set[i], "algorithm=", 10) == 0)
            return cli_usage(command, "--algorithm and --set %s say the same; give one of them",
                             options->changes.set[i]);
    if (options->fit.checkpoint && strcmp(options->fit.checkpoint, "-") == 0)
        return cli_usage(command, "--checkpoint writes a file, not standard output");
    if (cli_given(parser, CLI_CHECKPOINT_EVERY) && !options->fit.checkpoint)
        return cli_usage(command, "--checkpoint-every needs --checkpoint FILE");
    if (check_init(options, command) || check_stdin(options, command)) return CLI_USAGE;
    return cli_data_check(&options->data, parser, options->data_path);
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
    const char *inputs[8] = {options->data_path};
    cli_output outputs[OUT_COUNT + 1];
    int count = 1;
    if (check_pairs(options, parser) || check_ranks(options, parser->command)) return CLI_USAGE;
    for (int p = OUT_PLOT; p < OUT_COUNT; p++) {
        const char *plot = options->outputs[p].path;
        if (plot && !ends_with(plot, ".svg") && !ends_with(plot, ".png") && !ends_with(plot, ".pdf"))
            return cli_usage(parser->command, "--plot writes .svg, .png or .pdf, got '%s'", plot);
    }
    if (cli_given(parser, CLI_PLOT) && !km_built_with(KM_PART_CAIRO))
        return cli_usage(
            parser->command,
            "--plot needs cairo, and this kmgen was built without it; leave --plot out, or build "
            "kmgen with meson's option -Dcairo=enabled");
    if (options->data.weights) inputs[count++] = options->data.weights;
    if (options->spec_path) inputs[count++] = options->spec_path;
    if (cli_fit_init_is_file(options)) inputs[count++] = options->init;
    if (options->source) inputs[count++] = options->source;
    if (options->tuning.path && !cli_tuning_is_none(&options->tuning)) inputs[count++] = options->tuning.path;
    // A checkpoint may replace the one that the fit goes on from.
    memcpy(outputs, options->outputs, sizeof options->outputs);
    outputs[OUT_COUNT] = (cli_output){"--checkpoint", options->fit.checkpoint, NULL};
    return cli_outputs_check(parser->command, outputs, OUT_COUNT + 1, inputs);
}

int cli_fit_parse(fit_options *options, cli_parser *parser) {
    for (int id; (id = cli_next(parser)) != CLI_END;) {
        if (id == CLI_STOP) return -1;
        if (id == CLI_CRITERION && strcmp(parser->value, "list") == 0) {
            for (int c = KM_CRITERION_AUTO; c < KM_CRITERION_COUNT; c++)
                puts(km_criterion_name((km_criterion)c));
            parser->exit = CLI_DONE;
            return -1;
        }
        if ((parser->exit = take(options, parser, id)) != 0) return -1;
    }
    options->fit.threads = cli_threads(options->fit.threads);
    parser->exit = take_positional(options, parser);
    if (!parser->exit) parser->exit = check(options, parser);
    return parser->exit ? -1 : 0;
}

const cli_option cli_fit_options[] = {
    {CLI_CLUSTERS, "clusters", 'k', "LIST",
     "the list of K: 8, 2..12, 3,5,8, 2..20 step 2;\ndefault: 2..min(20, n-1)"},
    {CLI_N_INIT, "n-init", 0, "N", "restarts of each K; default: 10"},
    {CLI_REFINE, "refine", 0, "none|auto|N",
     "start each K again from the models of its neighbours and keep\nwhat is better: auto (default) "
     "takes a fifth of the restarts' work,\nmore on small tables, N at most N passes; with none a K's "
     "model\ndoes not depend on the list"},
    {CLI_MAX_ITER, "max-iter", 0, "N", "iterations of a restart at most; default: the spec's, else 300"},
    {CLI_TOL, "tol", 0, "X",
     "stop when the centroids' squared shift is at most X times the\n"
     "mean variance of the features; 0: when nothing changes; default:\n"
     "the spec's, else 1e-4"},
    {CLI_MIN_CHANGES, "min-changes", 0, "N", "also stop when fewer than N labels change; default: off"},
    {CLI_ALGORITHM, "algorithm", 0, "NAME",
     "auto (default), lloyd, tiles, hamerly or elkan: which distances\n"
     "are skipped (on a GPU by tiles); the result is the same, but for\n"
     "near ties, which lloyd decides in the points' own type"},
    {CLI_INIT, "init", 0, "HOW",
     "k-means++ (default), random, or a file with the first centroids:\n"
     "max(K) rows, of which each K takes its first K, or the rows of\n"
     "every K in ascending order; means one restart"},
    {CLI_SCALE, "scale", 0, "none|standard|minmax|robust|unit",
     "\nscale the features first; centroids come back in original units.\n"
     "unit: divide each row by its length, as --metric cosine"},
    {CLI_METRIC, "metric", 0, "euclidean|cosine", "\nwhat is near; cosine: rows and centroids have length 1"},
    {CLI_SEED, "seed", 0, "N", "of all random draws; default: 0. Same seed, same result"},
    {CLI_TYPE, "type", 0, "f32|f64", "element type of points and centroids; default: f32"},
    {CLI_LAYOUT, "layout", 0, "auto|dense|csr",
     "how points lie in memory: all values, or the nonzeros of each row;\n"
     "auto (default): whichever is estimated to be faster"},
    {CLI_TARGET, "target", 't', "TARGET",
     "auto (default: the GPU where there is one, but for fits that the\nCPU does in less time), cpu, cuda, "
     "cuda:N; cuda:N,N or cuda:all: GPUs that share the points"},
    CLI_WEIGHTS_OPTIONS,
    {CLI_CRITERION, "criterion", 0, "NAME",
     "what decides the best K; default: auto, several criteria and whether\nclusters are apart; 'list' shows "
     "all names"},
    {CLI_CRITERIA, "criteria", 0, "LIST",
     "compute these criteria too, each at a cost beyond the last pass;\nnames with commas between them, or "
     "all"},
    {CLI_GAP_REFERENCES, "gap-references", 0, "B",
     "sets of drawn points that the gap compares with; default: 10"},
    {CLI_GAP_BOX, "gap-box", 0, "uniform|principal",
     "\nthe box they are drawn in lies along the features (default) or along\nthe principal components"},
    CLI_DATA_OPTIONS,
    {CLI_JSON, "json", 0, "FILE", "write the result as JSON; with - standard output holds only that"},
    {CLI_MODEL, "model", 0, "FILE", "write the best model, for kmgen predict"},
    {CLI_OUTPUT, "output", 'o', "FILE.csv|tsv",
     "write DATA as it is, with the best K's labels and distances in the\ncolumns cluster and distance"},
    {CLI_LABELS, "labels", 0, "FILE.npy|csv|tsv",
     "\nwrite the labels of the best K; as text with row, distance and margin"},
    {CLI_LABELS_OF, "labels-of", 0, "best|all", "all: the labels of every K, in a column label_K for each"},
    {CLI_ID, "id", 0, "COLUMN", "a column of DATA that is written in the place of the row's number"},
    {CLI_CENTROIDS, "centroids", 0, "FILE.npy|csv|tsv",
     "\nwrite the centroids of the best K, in the data's units"},
    {CLI_PLOT, "plot", 0, "FILE...", "draw inertia and the criterion over K, as .svg, .png or .pdf"},
    {CLI_REPORT, "report", 0, "FILE.html", "write all of it as one page: pictures, tables, what was run"},
    {CLI_THREADS, "threads", 0, "N",
     "CPU threads; default: OMP_NUM_THREADS, else all cores. Never changes\nthe result"},
    {CLI_MEMORY_MAX, "memory-max", 0, "BYTES",
     "memory that this process may hold, as 512M or 4G, pages of mapped\n"
     "files not counted; the plan keeps within it, or nothing is read"},
    {CLI_SCRATCH, "scratch", 0, "DIR",
     "on a CPU: what does not fit into memory lies in temporary files in\nthis folder of a disk; without it, "
     "such a fit is refused"},
    {CLI_CHECKPOINT, "checkpoint", 0, "FILE",
     "keep the runs that are done in this file, now and then and where the\nfit is ended"},
    {CLI_CHECKPOINT_EVERY, "checkpoint-every", 0, "MINUTES", "at most so often; default: 5"},
    {CLI_RESUME, "resume", 0, "FILE",
     "go on from a checkpoint of the same fit, to the result that it would\nhave had; other threads and "
     "other "
     "outputs may be asked for"},
    {CLI_DEVICE_MEMORY_MAX, "device-memory-max", 0, "BYTES", "likewise, of a GPU's memory"},
    {CLI_SET, "set", 0, "NAME=VALUE...", "fix a number of the plan, e.g. block=256 or design=tiled"},
    {CLI_SOURCE, "source", 0, "FILE",
     "use this text (an emitted file, edited by hand) for the kernels;\n"
     "its head must name this fit's features, list of K and type"},
    CLI_TUNING_OPTION("take measured numbers from this table of kmgen tune first, or\nfrom none, not even "
                      "those of the library; default: the device's own\nin $XDG_DATA_HOME/kmgen/tuning"),
    {CLI_COMPILER, "compiler", 0, "FILE",
     "C compiler for a CPU, NVRTC or its folder for a GPU;\ndefault: what kmgen info shows"},
    {CLI_CACHE_DIR, "cache-dir", 0, "DIR", "keep compiled modules here; default: see kmgen cache --help"},
    {CLI_DRY_RUN, "dry-run", 0, NULL,
     "print the plan, the memory it needs and what is free; run nothing.\nFails where the fit would not fit"},
    CLI_COMMON_OPTIONS,
};
