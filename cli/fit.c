// SPDX-License-Identifier: MIT
#include "fit_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// All that a fit holds; freed as one.
typedef struct fit_job {
    km_spec spec;
    km_data *data;
    double *init_rows;
    char *source_text;
    km_result *result;
    double open_ms, write_ms; // of the data, of the outputs
} fit_job;

static km_status read_init(fit_job *job, fit_options *options, km_error *err) {
    options->fit.init = KM_INIT_PLUSPLUS;
    if (!cli_fit_init_is_file(options)) {
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
    km_status status =
        km_data_open_files(&job->data, options->data_paths, options->data_count, &options->data, err);
    job->open_ms = cli_now_ms() - begin_ms;
    if (status == KM_OK && cli_verbose)
        cli_note("data: %s opened, %lld points, %lld features, in %.1f ms", km_data_name(job->data),
                 (long long)km_data_points(job->data), (long long)km_data_features(job->data), job->open_ms);
    return status;
}

// The spec, and all that is known before points are: 0 or an exit status after a message.
static int prepare_spec(fit_job *job, fit_options *options, const cli_command *command) {
    km_error err = {""};
    km_status status = KM_OK;
    if (options->spec_path) status = km_spec_read(&job->spec, options->spec_path, &err);
    if (status != KM_OK) return cli_error(status, &err);
    if (cli_fit_check_spec(options, &job->spec, command)) return CLI_USAGE;
    options->fit.device = KM_DEVICE_AUTO;
    int exit = cli_devices_take(&options->several, &options->changes, command);
    if (exit) return exit;
    if (options->several.count && cli_ranks())
        return cli_usage(command, "a rank has one GPU: give --target cuda, and a rank for each");
    options->fit.devices = options->several.devices;
    options->fit.devices_count = options->several.count;
    options->fit.devices_open_ms = options->several.open_ms;
    exit = cli_changes_apply(&job->spec, &options->fit.device, &options->changes, command);
    if (exit) return exit;
    const char *target = options->changes.target;
    if (job->spec.target.kind == KM_TARGET_CUDA && (!target || strncmp(target, "cuda:", 5) != 0))
        options->fit.device = cli_ranks_device(options->fit.device);
    if (options->algorithm) cli_fit_algorithm_find(&options->fit.algorithm, options->algorithm, 1);
    if (options->n_init) job->spec.n_init = options->n_init;
    if (options->refine) km_spec_set_refine(&job->spec, options->refine, NULL);
    if (!options->data.features) options->data.features = job->spec.features; // raw files need it
    options->fit.communicator = options->output.communicator = options->data.communicator = cli_ranks();
    options->data.scratch_dir = options->fit.scratch_dir;
    options->data.memory_max = options->fit.memory_max;
    return 0;
}

// The data, ready for km_fit. Ranks open them together.
static int prepare(fit_job *job, fit_options *options) {
    km_error err = {""};
    km_status status = open_data(job, options, &err);
    if (status == KM_OK)
        status = km_output_params_check(&options->output, job->data, options->outputs[OUT_TABLE].path != NULL,
                                        &err);
    if (status == KM_OK) status = read_init(job, options, &err);
    if (status == KM_OK && options->source) status = read_source(&job->source_text, options->source, &err);
    if (status == KM_OK) status = cli_tuning_read(&options->tuning, &err);
    options->fit.source_text = job->source_text;
    options->fit.tuning = options->tuning.text;
    options->fit.tuning_name = options->tuning.path;
    options->fit.tuning_dir = cli_tuning_dir();
    options->fit.untuned = cli_tuning_is_none(&options->tuning);
    options->fit.labels = !cli_fit_writes_rows(options) ? KM_LABELS_NONE
                          : options->labels_of_all      ? KM_LABELS_ALL
                                                        : KM_LABELS_BEST;
    options->output.all_labels = options->labels_of_all;
    options->output.threads = options->fit.threads;
    options->fit.leaves_compile = options->rest != CLI_REST_WAIT;
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
    km_status status = km_fit_plan(&plan, &job->spec, job->data, &options->fit, &err);
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
    if (cli_ranks() && cli_ranks()->rank != 0 && which != OUT_LABELS) return KM_OK;
    switch (which) {
    case OUT_JSON:
        return write_json(path, result, err);
    case OUT_MODEL:
        return km_predictor_write(path, result, result->selection.best, err);
    case OUT_LABELS:
        return km_result_write_labels(path, result, job->data, &options->output, err);
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
    km_status status = km_fit(&job->result, &job->spec, job->data, &options->fit, &err);
    cli_progress_clear();
    // A compiler that the same Ctrl-C ended makes another error: what counts is that the user stopped the fit.
    if (status != KM_OK && (cli_interrupted() || status == KM_ERROR_INTERRUPTED)) {
        if (options->fit.checkpoint && access(options->fit.checkpoint, F_OK) == 0)
            cli_line(stderr, "kmgen: interrupted; --resume %s goes on from the runs that were done",
                     options->fit.checkpoint);
        else
            cli_line(stderr, "kmgen: interrupted%s; nothing was written",
                     options->fit.checkpoint ? " before a run began" : "");
        return CLI_FAILED;
    }
    if (status != KM_OK) return cli_error(status, &err);
    fitted done = {job, options};
    double begin_ms = cli_now_ms();
    int exit = cli_outputs_write(options->outputs, OUT_COUNT, &(cli_writer){write_output, show, &done});
    job->write_ms = cli_now_ms() - begin_ms;
    return job->result->interrupted && !exit ? CLI_FAILED : exit; // by the signal
}

// What is still to be compiled, or was left by a fit before.
static void see_to_rest(const fit_job *job, const fit_options *options) {
    const char *folder = options->fit.cache_dir;
    if (options->rest == CLI_REST_WAIT) cli_end_waits();
    if (options->rest != CLI_REST_BACKGROUND || !job->result || !folder || cli_ranks()) return;
    int is_cuda = job->result->plan.spec.target.kind == KM_TARGET_CUDA;
    if (is_cuda && km_cache_unfinished(folder) > 0) cli_compile_in_background(folder);
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
    if (cli_fit_parse(&options, &parser, command, argc, argv)) return parser.exit;
    options.command = options.outputs[OUT_REPORT].path ? command_line(argc, argv) : NULL;
    km_spec_init(&job.spec);
    int exit = cli_ranks_agree(prepare_spec(&job, &options, command));
    if (!exit) exit = cli_ranks_agree(prepare(&job, &options));
    if (!exit) exit = options.dry_run ? dry_run(&job, &options) : run_fit(&job, &options);
    see_to_rest(&job, &options);
    km_timing timing = {0};
    int shows_times = job.result && cli_verbose && !cli_quiet;
    if (shows_times) timing = job.result->timing;
    km_result_destroy(&job.result);
    km_data_destroy(&job.data);
    free(job.init_rows);
    free(job.source_text);
    free(options.command);
    globfree(&options.found);
    cli_tuning_clear(&options.tuning);
    km_spec_clear(&job.spec);
    if (shows_times) cli_times_show(&timing, job.open_ms, job.write_ms);
    return exit ? cli_interrupts_obey(exit) : exit;
}

const cli_command cli_command_fit = {
    "fit",
    "[OPTIONS] [SPEC.yaml] DATA...",
    "Clusters DATA for every K and every restart at once, and picks the best K",
    "DATA is .npy, .csv, .tsv, .h5, .npz, sparse .svm or .mtx, raw .f32 or .f64 with --features; also\n"
    "packed by gzip, xz, zstd, bzip2 or zip; FILE:PART of .npz, .h5 and .zip; - for standard input.\n"
    "Several files, or a pattern in quotes, have the same columns, and rows in the order given.\n"
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
    cli_fit_options,
    run,
};
