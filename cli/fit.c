// SPDX-License-Identifier: MIT
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

// In the order in which they are checked, written and indexed below.
enum {
    OUT_JSON,
    OUT_MODEL,
    OUT_LABELS,
    OUT_CENTROIDS,
    OUT_TABLE,
    OUT_REPORT,
    OUT_PLOT,
    PLOTS_MAX = 4,
    OUT_COUNT = OUT_PLOT + PLOTS_MAX
};

typedef struct fit_options {
    const char *spec_path, *data_path;
    const char *init, *source, *cache_dir, *algorithm;
    char *command; // the whole line, for a report
    cli_tuning tuning;
    int64_t n_init;     // 0: the spec's
    const char *refine; // NULL: the spec's
    int labels_of_all, dry_run;
    cli_changes changes;
    cli_output outputs[OUT_COUNT];
    km_output_params output;
    km_data_params data;
    km_fit_params fit;
} fit_options;

// All that a fit holds; freed as one.
typedef struct fit_job {
    km_spec spec;
    km_data *data;
    km_data *part; // this rank's, where there are others; NULL
    double *init_rows;
    char *source_text;
    km_result *result;
    double open_ms, write_ms; // of the data, of the outputs
} fit_job;

static int take_gap_box(km_gap_box *out, const cli_parser *parser) {
    static const char *const names[] = {"uniform", "principal", NULL};
    static const km_gap_box boxes[] = {KM_GAP_UNIFORM, KM_GAP_PRINCIPAL};
    int choice = 0;
    if (cli_choice(parser, "--gap-box", &choice, names)) return CLI_USAGE;
    *out = boxes[choice];
    return 0;
}

// Reads it as a spec would, by names of the version before as well, of which it warns if `warn`.
static int algorithm_find(km_algorithm *out, const char *name, int warn) {
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
    if (algorithm_find(out, parser->value, 0)) return 0;
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

// --init names a file with the first centroids.
static int init_is_file(const fit_options *options) {
    for (int w = 0; options->init && init_words[w]; w++)
        if (strcmp(options->init, init_words[w]) == 0) return 0;
    return options->init != NULL;
}

static int check_init(const fit_options *options, const cli_command *command) {
    if (!init_is_file(options)) return 0;
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

// The same for what the spec says, after it was read.
static int check_spec(const fit_options *options, const km_spec *spec, const cli_command *command) {
    if (!init_is_file(options) || options->n_init || !spec->n_init_given || spec->n_init == 1) return 0;
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

static int writes_rows(const fit_options *options) {
    return options->outputs[OUT_LABELS].path || options->outputs[OUT_TABLE].path;
}

// Refuses options of which one would make another one have no effect.
static int check_pairs(const fit_options *options, const cli_parser *parser) {
    const cli_command *command = parser->command;
    if (cli_given(parser, CLI_LABELS_OF) && !writes_rows(options))
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
    if (init_is_file(options)) inputs[count++] = options->init;
    if (options->source) inputs[count++] = options->source;
    if (options->tuning.path && !cli_tuning_is_none(&options->tuning)) inputs[count++] = options->tuning.path;
    // A checkpoint may replace the one that the fit goes on from.
    memcpy(outputs, options->outputs, sizeof options->outputs);
    outputs[OUT_COUNT] = (cli_output){"--checkpoint", options->fit.checkpoint, NULL};
    return cli_outputs_check(parser->command, outputs, OUT_COUNT + 1, inputs);
}

static int parse(fit_options *options, cli_parser *parser) {
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

static km_status read_init(fit_job *job, fit_options *options, km_error *err) {
    options->fit.init = KM_INIT_PLUSPLUS;
    if (!init_is_file(options)) {
        if (options->init && strcmp(options->init, "random") == 0) options->fit.init = KM_INIT_RANDOM;
        return KM_OK;
    }
    km_data *rows = NULL;
    km_data_params params;
    km_data_params_init(&params);
    params.names = km_data_feature_names(job->data); // in any order, where both have names
    params.names_count = km_data_features(job->data);
    km_status status = km_data_open(&rows, options->init, &params, err);
    if (status != KM_OK) return status;
    int64_t n = km_data_points(rows), d = km_data_features(rows);
    if (d != km_data_features(job->data)) {
        snprintf(err->text, sizeof err->text,
                 "--init %s has %lld columns, %s has %lld; they must be the same", options->init,
                 (long long)d, options->data_path, (long long)km_data_features(job->data));
        status = KM_ERROR_DATA;
    } else if (!(job->init_rows = malloc((size_t)(n * d) * sizeof(double) + 1))) {
        snprintf(err->text, sizeof err->text, "not enough memory for the rows of --init %s", options->init);
        status = KM_ERROR_MEMORY;
    } else {
        status = km_data_read(job->init_rows, rows, 0, n, KM_FLOAT64, err);
        options->fit.init = KM_INIT_GIVEN;
        options->fit.init_rows = job->init_rows;
        options->fit.init_count = n;
    }
    km_data_destroy(&rows);
    return status;
}

// The whole file as text; a source is never large.
static km_status read_source(char **out, const char *path, km_error *err) {
    enum { BYTES_MAX = 64 << 20 };
    FILE *stream = fopen(path, "rb");
    char *text = stream ? malloc(BYTES_MAX + 1) : NULL;
    size_t size = text ? fread(text, 1, BYTES_MAX + 1, stream) : 0;
    if (!text || ferror(stream) || size > BYTES_MAX || memchr(text, 0, size)) {
        snprintf(err->text, sizeof err->text, "cannot read --source %s: %s", path,
                 stream ? "no text of less than 64 MiB" : "no such file, or it may not be read");
        free(text);
        if (stream) fclose(stream);
        return KM_ERROR_IO;
    }
    fclose(stream);
    text[size] = 0;
    *out = text;
    return KM_OK;
}

static km_status open_data(fit_job *job, fit_options *options, km_error *err) {
    double begin_ms = cli_now_ms();
    options->data.threads = options->fit.threads;
    cli_interrupts_catch();
    km_status status = km_data_open(&job->data, options->data_path, &options->data, err);
    job->open_ms = cli_now_ms() - begin_ms;
    if (status == KM_OK && cli_verbose)
        cli_note("data: %s opened, %lld points, %lld features, in %.1f ms", options->data_path,
                 (long long)km_data_points(job->data), (long long)km_data_features(job->data), job->open_ms);
    return status;
}

// The rows that this rank has of all.
static km_status take_share(fit_job *job, km_error *err) {
    const km_communicator *ranks = cli_ranks();
    int64_t first, count;
    if (!ranks) return KM_OK;
    km_share_of(&first, &count, km_data_points(job->data), ranks->rank, ranks->size);
    return km_data_range(&job->part, job->data, first, count, err);
}

// Spec and data, ready for km_fit: 0 or an exit status after a message.
static int prepare(fit_job *job, fit_options *options, const cli_command *command) {
    km_error err = {""};
    km_status status = KM_OK;
    if (options->spec_path) status = km_spec_read(&job->spec, options->spec_path, &err);
    if (status != KM_OK) return cli_error(status, &err);
    if (check_spec(options, &job->spec, command)) return CLI_USAGE;
    options->fit.device = KM_DEVICE_AUTO;
    int exit = cli_changes_apply(&job->spec, &options->fit.device, &options->changes, command);
    if (exit) return exit;
    if (options->algorithm) algorithm_find(&options->fit.algorithm, options->algorithm, 1);
    if (options->n_init) job->spec.n_init = options->n_init;
    if (options->refine) km_spec_set_refine(&job->spec, options->refine, NULL);
    if (!options->data.features) options->data.features = job->spec.features; // raw files need it
    status = open_data(job, options, &err);
    if (status == KM_OK)
        status = km_output_params_check(&options->output, job->data, options->outputs[OUT_TABLE].path != NULL,
                                        &err);
    if (status == KM_OK) status = take_share(job, &err);
    if (status == KM_OK) status = read_init(job, options, &err);
    options->fit.communicator = options->output.communicator = cli_ranks();
    if (status == KM_OK && options->source) status = read_source(&job->source_text, options->source, &err);
    if (status == KM_OK) status = cli_tuning_read(&options->tuning, &err);
    options->fit.source_text = job->source_text;
    options->fit.tuning = options->tuning.text;
    options->fit.tuning_name = options->tuning.path;
    options->fit.tuning_dir = cli_tuning_dir();
    options->fit.untuned = cli_tuning_is_none(&options->tuning);
    options->fit.labels = !writes_rows(options)    ? KM_LABELS_NONE
                          : options->labels_of_all ? KM_LABELS_ALL
                                                   : KM_LABELS_BEST;
    options->output.all_labels = options->labels_of_all;
    options->output.threads = options->fit.threads;
    options->fit.log = cli_log();
    options->fit.progress = cli_progress;
    if (status != KM_OK) return cli_error(status, &err);
    if (!options->dry_run) return cli_cache_dir_usable(&options->fit.cache_dir, options->cache_dir);
    options->fit.cache_dir = cli_cache_dir(options->cache_dir); // it knows what compilers said of plans
    return 0;
}

static int dry_run(const fit_job *job, const fit_options *options) {
    km_error err = {""};
    km_plan plan;
    char *text = NULL;
    km_plan_init(&plan);
    km_status status = km_fit_plan(&plan, &job->spec, job->part ? job->part : job->data, &options->fit, &err);
    // A plan that does not fit the memory is shown first, then the error.
    if (cli_ranks() && plan.design != KM_DESIGN_NONE)
        printf("%lld ranks; the totals of a pass: %lld bytes on each\n", (long long)cli_ranks()->size,
               (long long)km_plan_exchange_bytes(&plan));
    if (plan.design != KM_DESIGN_NONE) {
        km_status explained = km_plan_explain(&text, &plan, &err);
        if (explained == KM_OK) cli_wrapped(stdout, text, cli_width(STDOUT_FILENO));
        if (status == KM_OK) status = explained;
    }
    if (status == KM_OK && job->spec.target.kind == KM_TARGET_AUTO) {
        km_plan_params params;
        km_plan_params_init(&params);
        params.points = plan.points;
        params.nonzeros = plan.nonzeros;
        params.weighted = plan.weighted;
        params.track_labels = plan.track_labels;
        params.algorithm = options->fit.algorithm;
        params.value_bytes = plan.value_bytes;
        params.label_sets = plan.label_sets;
        params.threads = options->fit.threads;
        params.untuned = options->fit.untuned;
        fputs("\n", stdout);
        status =
            cli_devices_print(&plan.spec, &params, &plan,
                              options->fit.max_iter ? options->fit.max_iter : plan.spec.max_iter, 0, &err);
    }
    km_text_free(text);
    km_plan_clear(&plan);
    return status == KM_OK ? CLI_DONE : cli_error(status, &err);
}

static km_status write_json(const char *path, const km_result *result, km_error *err) {
    char *text = NULL;
    km_status made = km_result_to_json(&text, result, err);
    return cli_text_write(path, text, made, err);
}

static km_status write_report(const char *path, const fit_job *job, const fit_options *options,
                              km_error *err) {
    km_report_params params;
    km_report_params_init(&params);
    params.command = options->command;
    return km_result_report(path, job->result, job->data, &params, err);
}

// What outputs are made of.
typedef struct fitted {
    const fit_job *job;
    const fit_options *options;
} fitted;

static km_status write_output(int which, const char *path, const void *user, km_error *err) {
    const fit_job *job = ((const fitted *)user)->job;
    const fit_options *options = ((const fitted *)user)->options;
    const km_result *result = job->result;
    const km_data *data = job->part ? job->part : job->data;
    if (cli_ranks() && cli_ranks()->rank != 0 && which != OUT_LABELS) return KM_OK;
    switch (which) {
    case OUT_JSON:
        return write_json(path, result, err);
    case OUT_MODEL:
        return km_predictor_write(path, result, result->selection.best, err);
    case OUT_LABELS:
        return km_result_write_labels(path, result, data, &options->output, err);
    case OUT_CENTROIDS:
        return km_result_write_centroids(path, result, result->selection.best, err);
    case OUT_TABLE:
        return km_result_write_table(path, result, job->data, &options->output, err);
    case OUT_REPORT:
        return write_report(path, job, options, err);
    default:
        return km_result_plot(path, result, err);
    }
}

static km_status show(const void *user, km_error *err) {
    char *table = NULL;
    const fitted *done = user;
    km_status status = km_result_to_table(&table, done->job->result, cli_table_looks(), cli_verbose > 0, err);
    if (status == KM_OK) cli_wrapped(stdout, table, cli_width(STDOUT_FILENO));
    km_text_free(table);
    return status;
}

static int run_fit(fit_job *job, fit_options *options) {
    km_error err = {""};
    cli_interrupts_catch();
    const km_data *data = job->part ? job->part : job->data;
    km_status status = km_fit(&job->result, &job->spec, data, &options->fit, &err);
    cli_progress_clear();
    // A compiler that the same Ctrl-C ended makes another error: what counts is that the user stopped the fit.
    if (status != KM_OK && (cli_interrupted() || status == KM_ERROR_INTERRUPTED)) {
        if (options->fit.checkpoint)
            cli_line(stderr, "kmgen: interrupted; --resume %s goes on from the runs that were done",
                     options->fit.checkpoint);
        else
            cli_line(stderr, "kmgen: interrupted; nothing was written");
        return CLI_FAILED;
    }
    if (status != KM_OK) return cli_error(status, &err);
    fitted done = {job, options};
    double begin_ms = cli_now_ms();
    int exit = cli_outputs_write(options->outputs, OUT_COUNT, &(cli_writer){write_output, show, &done});
    job->write_ms = cli_now_ms() - begin_ms;
    return job->result->interrupted && !exit ? CLI_FAILED : exit; // by the signal
}

// The line as a shell would read it again; NULL: no memory.
static char *command_line(int argc, char **argv) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
    size_t size = sizeof "kmgen";
    for (int i = 0; i < argc; i++) size += 4 * strlen(argv[i]) + 3;
    char *line = malloc(size), *end = line ? stpcpy(line, "kmgen") : NULL;
    for (int i = 0; line && i < argc; i++) {
        int is_plain = argv[i][0] && !argv[i][strspn(argv[i], plain)];
        *end++ = ' ';
        if (!is_plain) *end++ = '\'';
        for (const char *c = argv[i]; *c; c++) end = *c == '\'' ? stpcpy(end, "'\\''") : (*end = *c, end + 1);
        if (!is_plain) *end++ = '\'';
    }
    if (line) *end = 0;
    return line;
}

static int run(const cli_command *command, int argc, char **argv) {
    fit_job job = {0};
    fit_options options = {.outputs = {{"--json", NULL, NULL},
                                       {"--model", NULL, NULL},
                                       {"--labels", NULL, ".npy, .csv or .tsv"},
                                       {"--centroids", NULL, ".npy, .csv or .tsv"},
                                       {"--output", NULL, ".csv or .tsv"},
                                       {"--report", NULL, NULL}}};
    cli_parser parser;
    cli_data_init(&options.data);
    km_fit_params_init(&options.fit);
    km_output_params_init(&options.output);
    cli_parser_init(&parser, command, argc, argv);
    if (parse(&options, &parser)) return parser.exit;
    options.command = options.outputs[OUT_REPORT].path ? command_line(argc, argv) : NULL;
    km_spec_init(&job.spec);
    int exit = cli_ranks_agree(prepare(&job, &options, command));
    if (!exit) exit = options.dry_run ? dry_run(&job, &options) : run_fit(&job, &options);
    km_timing timing = {0};
    int shows_times = job.result && cli_verbose && !cli_quiet;
    if (shows_times) timing = job.result->timing;
    km_result_destroy(&job.result);
    km_data_destroy(&job.part);
    km_data_destroy(&job.data);
    free(job.init_rows);
    free(job.source_text);
    free(options.command);
    cli_tuning_clear(&options.tuning);
    km_spec_clear(&job.spec);
    if (shows_times) cli_times_show(&timing, job.open_ms, job.write_ms);
    if (exit) cli_interrupts_obey();
    return exit;
}

static const cli_option options_list[] = {
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
     "are skipped on the CPU; the result is the same, but for near\n"
     "ties, which lloyd decides in the points' own type"},
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
     "cuda:N"},
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

const cli_command cli_command_fit = {
    "fit",
    "[OPTIONS] [SPEC.yaml] DATA",
    "Clusters DATA for every K and every restart at once, and picks the best K",
    "DATA is .npy, .csv, .tsv, .h5, .npz, sparse .svm or .mtx, raw .f32 or .f64 with --features; also\n"
    "packed by gzip, xz, zstd, bzip2 or zip; FILE:PART of .npz, .h5 and .zip; - for standard input.\n"
    "The table of all K goes to standard output, all else to standard error. Exit status: 0 done, 1 failed, "
    "2 wrong usage.\n"
    "\n"
    "Examples:\n"
    "  kmgen fit iris.csv -k 2..10\n"
    "  kmgen fit iris.csv -k 2..10 --scale standard --plot iris.svg --json iris.json\n"
    "  kmgen fit iris.csv -k 2..10 --report iris.html\n"
    "  kmgen fit customers.csv -k 2..10 --scale standard -o segments.csv\n"
    "  kmgen fit points.f32 --features 4 -k 3..5 -t cuda --model best.json\n"
    "  zcat t.csv.gz | kmgen fit - --format csv --columns x,y --json - | jq .best.k\n"
    "  kmgen fit specs/small.yaml points.npy --dry-run\n",
    options_list,
    run,
};
