// SPDX-License-Identifier: MIT
#include "cli.h"

#include <stdio.h>
#include <string.h>

enum { OUT_LABELS, OUT_DISTANCES, OUT_TRANSFORM, OUT_TABLE, OUT_COUNT };

typedef struct predict_options {
    cli_output outputs[OUT_COUNT];
    km_predict_outputs wanted;
    cli_changes changes;
    const char *cache_dir;
    km_data_params data;
    km_fit_params fit;
} predict_options;

// One of the files is a text with the rows' numbers.
static int has_text(const predict_options *options) {
    for (int o = 0; o < OUT_TABLE; o++) {
        const char *path = options->outputs[o].path, *format = path ? km_output_format(path) : NULL;
        if (format && strcmp(format, "npy") != 0) return 1;
    }
    return 0;
}

static int check(const predict_options *options, cli_parser *parser) {
    parser->exit = cli_positional(parser, 2, 2, parser->first < parser->argc ? "DATA" : "MODEL");
    if (parser->exit) return -1;
    parser->exit = cli_data_check(&options->data, parser, parser->argv[parser->first + 1]);
    if (parser->exit) return -1;
    if (options->wanted.id && !has_text(options)) {
        parser->exit =
            cli_usage(parser->command, "--id needs --labels, --distances or --transform FILE.csv or "
                                       "FILE.tsv, which it is a column of");
        return -1;
    }
    const char *inputs[] = {parser->argv[parser->first], parser->argv[parser->first + 1], NULL};
    parser->exit = cli_outputs_check(parser->command, options->outputs, OUT_COUNT, inputs);
    return parser->exit ? -1 : 0;
}

static km_status predict(predict_options *options, const char *model_path, const char *data_path,
                         km_error *err) {
    km_predict_outputs *wanted = &options->wanted;
    km_predictor *predictor = NULL;
    int is_any = wanted->score;
    km_status status = km_predictor_read(&predictor, model_path, err);
    if (status != KM_OK) return status;
    wanted->labels = options->outputs[OUT_LABELS].path;
    wanted->distances = options->outputs[OUT_DISTANCES].path;
    wanted->transform = options->outputs[OUT_TRANSFORM].path;
    wanted->output = options->outputs[OUT_TABLE].path;
    for (int o = 0; o < OUT_COUNT; o++) is_any |= options->outputs[o].path != NULL;
    if (!is_any) wanted->lines = "-";
    status = km_predict_files(wanted, predictor, data_path, &options->data, &options->fit, err);
    if (status == KM_OK && wanted->score) printf("%.17g\n", wanted->inertia);
    km_predictor_destroy(&predictor);
    return status;
}

static int run(const cli_command *command, int argc, char **argv) {
    predict_options options = {.outputs = {{"--labels", NULL, ".npy, .csv or .tsv"},
                                           {"--distances", NULL, ".npy, .csv or .tsv"},
                                           {"--transform", NULL, ".npy, .csv or .tsv"},
                                           {"--output", NULL, ".csv or .tsv"}}};
    km_error err = {""};
    km_spec spec;
    cli_parser parser;
    cli_data_init(&options.data);
    km_fit_params_init(&options.fit);
    if (cli_parse(&parser, &options, command, argc, argv) || check(&options, &parser)) return parser.exit;
    km_spec_init(&spec);
    int exit = cli_changes_apply(&spec, &options.fit.device, &options.changes, command);
    km_spec_clear(&spec);
    if (!exit) exit = cli_cache_dir_usable(&options.fit.cache_dir, options.cache_dir);
    if (exit) return exit;
    options.fit.log = cli_log();
    options.fit.threads = cli_threads(options.fit.threads);
    km_status status = predict(&options, argv[parser.first], argv[parser.first + 1], &err);
    return status == KM_OK ? CLI_DONE : cli_error(status, &err);
}

static const cli_option options_list[] = {
    {"output", 'o', "FILE.csv|tsv",
     "write DATA as it is, with labels and distances in the columns\ncluster and distance",
     CLI_TEXT(predict_options, outputs[OUT_TABLE].path)},
    {"labels", 0, "FILE.npy|csv|tsv",
     "\nwrite the labels there instead of one a line to standard output; as\ntext with row, distance and "
     "margin",
     CLI_TEXT(predict_options, outputs[OUT_LABELS].path)},
    {"distances", 0, "FILE.npy|csv|tsv",
     "\nwrite each row's distance to its centroid, in the units of the scale",
     CLI_TEXT(predict_options, outputs[OUT_DISTANCES].path)},
    {"transform", 0, "FILE.npy|csv|tsv", "\nwrite each row's distances to all centroids",
     CLI_TEXT(predict_options, outputs[OUT_TRANSFORM].path)},
    {"score", 0, NULL, "print the inertia on DATA, the sum of squared distances",
     CLI_FLAG(predict_options, wanted.score, 1)},
    {"id", 0, "COLUMN", "a column of DATA that is written in the place of the row's number",
     CLI_TEXT(predict_options, wanted.id)},
    CLI_DATA_OPTIONS(predict_options),
    {"target", 't', "TARGET", "auto (default: the CPU), cpu, cuda, cuda:N",
     CLI_TEXT(predict_options, changes.target)},
    {"threads", 0, "N", "CPU threads; default: OMP_NUM_THREADS, else all cores. Never changes\nthe result",
     CLI_INT(predict_options, fit.threads, 1, 4096)},
    {"cache-dir", 0, "DIR", "keep compiled modules here; default: see kmgen cache --help",
     CLI_TEXT(predict_options, cache_dir)},
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_predict = {
    "predict",
    "[OPTIONS] MODEL DATA",
    "Gives each row of DATA the label of its nearest centroid in MODEL",
    "MODEL comes from kmgen fit --model. DATA as for kmgen fit. Where both have names of columns, the\n"
    "model's are found by name, in any order and whatever the others hold; else columns count by\n"
    "position. A row that --nan drop leaves out has label -1, or empty cells. DATA may be larger than\n"
    "memory, text from standard input too.\n"
    "\n"
    "Examples:\n"
    "  kmgen fit iris.csv -k 2..10 --model iris.json\n"
    "  kmgen predict iris.json iris.csv                     one label a line\n"
    "  kmgen predict iris.json more.npy --labels more_labels.npy\n"
    "  zcat huge.csv.gz | kmgen predict iris.json - --format csv -o segments.csv\n"
    "  kmgen predict iris.json other.csv --header skip      its names do not count\n",
    options_list,
    run,
};
