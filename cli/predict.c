// SPDX-License-Identifier: MIT
#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct predict_options {
    cli_output labels;
    cli_changes changes;
    const char *cache_dir;
    km_data_params data;
    km_fit_params fit;
} predict_options;

static int take(predict_options *options, const cli_parser *parser, int id) {
    switch (id) {
    case CLI_LABELS:
        options->labels.path = parser->value;
        return 0;
    case CLI_THREADS:
        return cli_int(parser, "--threads", &options->fit.threads, 1, 4096);
    case CLI_CACHE_DIR:
        options->cache_dir = parser->value;
        return 0;
    case CLI_TARGET:
        return cli_changes_take(&options->changes, parser, id);
    default:
        return cli_data_take(&options->data, parser, id);
    }
}

static int parse(predict_options *options, cli_parser *parser) {
    for (int id; (id = cli_next(parser)) != CLI_END;) {
        if (id == CLI_STOP) return -1;
        if ((parser->exit = take(options, parser, id)) != 0) return -1;
    }
    parser->exit = cli_positional(parser, 2, 2, parser->first < parser->argc ? "DATA" : "MODEL");
    if (parser->exit) return -1;
    parser->exit = cli_data_check(&options->data, parser, parser->argv[parser->first + 1]);
    if (parser->exit) return -1;
    const char *inputs[] = {parser->argv[parser->first], parser->argv[parser->first + 1], NULL};
    parser->exit = cli_outputs_check(parser->command, &options->labels, 1, inputs);
    return parser->exit ? -1 : 0;
}

static km_status write_labels(const char *path, const int32_t *labels, int64_t count, km_error *err) {
    if (path) {
        cli_interrupts_hold();
        km_status status = km_npy_write(path, labels, count, 0, "<i4", err);
        cli_interrupts_release();
        return status;
    }
    for (int64_t i = 0; i < count; i++) printf("%d\n", (int)labels[i]);
    return KM_OK;
}

static km_status predict(predict_options *options, const char *model_path, const char *data_path,
                         km_error *err) {
    km_predictor *predictor = NULL;
    km_data *data = NULL;
    int32_t *labels = NULL;
    km_status status = km_predictor_read(&predictor, model_path, err);
    if (status != KM_OK) return status;
    if (!options->data.features)
        options->data.features = km_predictor_features(predictor); // raw files need it
    options->data.names = km_predictor_feature_names(predictor);
    options->data.names_count = km_predictor_features(predictor);
    status = km_data_open(&data, data_path, &options->data, err);
    if (status != KM_OK) goto done;
    int64_t rows = km_data_rows(data);
    labels = malloc((size_t)rows * sizeof *labels + 1);
    if (!labels) {
        snprintf(err->text, sizeof err->text, "not enough memory for %lld labels", (long long)rows);
        status = KM_ERROR_MEMORY;
        goto done;
    }
    status = km_predict(labels, predictor, data, &options->fit, err);
    if (status == KM_OK) status = write_labels(options->labels.path, labels, rows, err);
done:
    free(labels);
    km_data_destroy(&data);
    km_predictor_destroy(&predictor);
    return status;
}

static int run(const cli_command *command, int argc, char **argv) {
    predict_options options = {.labels = {"--labels", NULL, ".npy"}};
    km_error err = {""};
    km_spec spec;
    cli_parser parser;
    km_data_params_init(&options.data);
    options.data.log = cli_data_log();
    km_fit_params_init(&options.fit);
    cli_parser_init(&parser, command, argc, argv);
    if (parse(&options, &parser)) return parser.exit;
    km_spec_init(&spec);
    int exit = cli_changes_apply(&spec, &options.fit.device, &options.changes, command);
    km_spec_clear(&spec);
    if (!exit) exit = cli_cache_dir_usable(&options.fit.cache_dir, options.cache_dir);
    if (exit) return exit;
    options.fit.log = cli_log();
    km_status status = predict(&options, argv[parser.first], argv[parser.first + 1], &err);
    return status == KM_OK ? CLI_DONE : cli_error(status, &err);
}

static const cli_option options_list[] = {
    {CLI_LABELS, "labels", 0, "FILE.npy", "write the labels there instead of one a line to standard output"},
    CLI_DATA_OPTIONS,
    {CLI_TARGET, "target", 't', "TARGET", "auto (default: the CPU), cpu, cuda, cuda:N"},
    {CLI_THREADS, "threads", 0, "N", "CPU threads; default: all cores. Never changes the result"},
    {CLI_CACHE_DIR, "cache-dir", 0, "DIR", "keep compiled modules here; default: see kmgen cache --help"},
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_predict = {
    "predict",
    "[OPTIONS] MODEL DATA",
    "Gives each row of DATA the label of its nearest centroid in MODEL",
    "MODEL comes from kmgen fit --model. DATA as for kmgen fit. Where both have names of columns, the\n"
    "model's are found by name, in any order and whatever the others hold; else columns count by\n"
    "position. A row that --nan drop leaves out has label -1.\n"
    "\n"
    "Examples:\n"
    "  kmgen fit iris.csv -k 2..10 --model iris.json\n"
    "  kmgen predict iris.json iris.csv                     one label a line\n"
    "  kmgen predict iris.json more.npy --labels more_labels.npy\n"
    "  kmgen predict iris.json other.csv --header skip      its names do not count\n",
    options_list,
    run,
};
