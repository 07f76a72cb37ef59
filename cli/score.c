// SPDX-License-Identifier: MIT
#include "cli.h"

#include <kmgen/score.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct score_options {
    const char *labels, *column;
    cli_output json;
    uint64_t criteria;
    km_metric metric;
    km_data_params data;
    km_score_params score;
} score_options;

// Standard input can be read once.
static int check_stdin(const score_options *options, const cli_parser *parser, const char *data) {
    const char *const names[] = {"data", "--labels", "--weights"};
    const char *const paths[] = {data, options->labels, options->data.weights};
    const char *first = NULL;
    for (int i = 0; i < 3; i++) {
        if (!paths[i] || strcmp(paths[i], "-") != 0) continue;
        if (first)
            return cli_usage(parser->command, "%s and %s cannot both be standard input", first, names[i]);
        first = names[i];
    }
    return 0;
}

// The metric cosine is the scale unit by another name, as in a fit.
static int take_metric(score_options *options, const cli_parser *parser) {
    km_scale *scale = &options->score.scale;
    if (options->metric != KM_METRIC_COSINE) return 0;
    if (*scale != KM_SCALE_NONE && *scale != KM_SCALE_UNIT)
        return cli_usage(parser->command,
                         "--metric cosine divides each row by its length, which --scale %s does not go with; "
                         "leave one of them out",
                         km_scale_name(*scale));
    *scale = KM_SCALE_UNIT;
    return 0;
}

static int check(score_options *options, cli_parser *parser) {
    if ((parser->exit = cli_positional(parser, 1, 1, "DATA")) != 0) return -1;
    const char *data = parser->argv[parser->first];
    if (!options->labels) {
        parser->exit =
            cli_usage(parser->command, "--labels FILE is missing: one label for each row of %s", data);
        return -1;
    }
    parser->exit = take_metric(options, parser);
    if (!parser->exit) parser->exit = cli_data_check(&options->data, parser, data);
    if (!parser->exit) parser->exit = check_stdin(options, parser, data);
    const char *inputs[] = {data, options->labels, options->data.weights, NULL};
    if (!parser->exit) parser->exit = cli_outputs_check(parser->command, &options->json, 1, inputs);
    return parser->exit ? -1 : 0;
}

static km_status print(const score_options *options, const km_label_scores *scores, km_error *err) {
    char *text = NULL;
    km_status status = KM_OK;
    if (options->json.path) {
        status = km_label_scores_to_json(&text, scores, options->criteria, err);
        cli_interrupts_hold();
        status = cli_text_write(options->json.path, text, status, err);
        cli_interrupts_release();
        text = NULL;
        if (status != KM_OK || strcmp(options->json.path, "-") == 0) return status;
    }
    status = km_label_scores_to_table(&text, scores, options->criteria, err);
    if (status == KM_OK) cli_wrapped(stdout, text, cli_width(STDOUT_FILENO));
    km_text_free(text);
    return status;
}

// Which number stands for which word, of as many as a line or two hold.
static void say_words(const char *path, char *const *words, int64_t count) {
    char list[160] = "";
    int64_t shown = 0;
    for (size_t at = 0; shown < count; shown++) {
        int size = snprintf(list + at, sizeof list - at, "%s%s", shown ? ", " : "", words[shown]);
        if (size < 0 || (size_t)size >= sizeof list - at) {
            list[at] = 0;
            break;
        }
        at += (size_t)size;
    }
    const char *file = strcmp(path, "-") == 0 ? "standard input" : path;
    if (count == 1)
        cli_note("%s: all labels are one word, %s", file, words[0]);
    else
        cli_note("%s: labels are %lld different words, numbered from 0 in the order of their letters: %s%s",
                 file, (long long)count, list, shown < count ? ", ..." : "");
}

static km_status score(const score_options *options, const char *path, km_error *err) {
    int64_t *labels = NULL, count, words_count;
    char **words = NULL;
    km_data *data = NULL;
    km_label_scores *scores = NULL;
    km_status status = km_data_open(&data, path, &options->data, err);
    if (status == KM_OK)
        status = km_labels_read_words(&labels, &count, &words, &words_count, options->labels, options->column,
                                      err);
    if (words) say_words(options->labels, words, words_count);
    if (status == KM_OK) status = km_score_labels(&scores, data, labels, count, &options->score, err);
    if (status == KM_OK) status = print(options, scores, err);
    km_label_scores_destroy(&scores);
    km_labels_free(&labels);
    km_label_words_free(&words);
    km_data_destroy(&data);
    return status;
}

static int run(const cli_command *command, int argc, char **argv) {
    score_options options = {.json = {"--json", NULL, NULL}, .criteria = ~(uint64_t)0};
    km_error err = {""};
    cli_parser parser;
    cli_data_init(&options.data);
    km_score_params_init(&options.score);
    if (cli_parse(&parser, &options, command, argc, argv) || check(&options, &parser)) return parser.exit;
    options.score.log = cli_log();
    options.score.threads = cli_threads(options.score.threads);
    km_status status = score(&options, argv[parser.first], &err);
    return status == KM_OK ? CLI_DONE : cli_error(status, &err);
}

static const cli_option options_list[] = {
    {"labels", 0, "FILE",
     "one label for each row of DATA: .npy, .csv, .tsv, text of one a line, or\nsvmlight, which may be DATA "
     "itself",
     CLI_TEXT(score_options, labels)},
    {"label-column", 0, "NAME",
     "its column of labels, by name or number; default: the only one,\nor the one that is called label",
     CLI_TEXT(score_options, column)},
    {"noise", 0, "N", "rows with this label are left out, as are those without one;\ndefault: -1",
     CLI_INT(score_options, score.noise, INT64_MIN + 1, INT64_MAX)},
    {"criteria", 0, "LIST", "these criteria only; names with commas between them; default: all",
     CLI_BY(cli_take_criteria, uint64_t, score_options, criteria)},
    {"scale", 0, "none|standard|minmax|robust|unit", "\nscale the features first, as a fit did",
     CLI_BY(cli_take_scale, km_scale, score_options, score.scale)},
    {"metric", 0, "euclidean|cosine", "\nof the fit; cosine: rows are divided by their length",
     CLI_WORD(km_metric, score_options, metric, cli_metric_words)},
    CLI_WEIGHTS_OPTIONS(score_options),
    CLI_DATA_OPTIONS(score_options),
    {"json", 0, "FILE", "write the scores as JSON; with - standard output holds only that",
     CLI_TEXT(score_options, json.path)},
    {"seed", 0, "N", "of the sample that the Euclidean silhouette takes of many points;\ndefault: 0",
     CLI_BY(cli_take_seed, uint64_t, score_options, score.seed)},
    {"threads", 0, "N", "CPU threads; default: OMP_NUM_THREADS, else all cores. Never changes\nthe result",
     CLI_INT(score_options, score.threads, 1, 4096)},
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_score = {
    "score",
    "[OPTIONS] DATA --labels FILE",
    "Computes the criteria of any labels, made by any program",
    "Clusters are the different labels, whatever their numbers; each has the mean of its points\n"
    "as centroid. Everything is computed in double, on the CPU. A criterion that is not defined\n"
    "(one cluster, or as many as points) is - in the table and null in the JSON.\n"
    "\n"
    "Examples:\n"
    "  kmgen fit iris.csv -k 3 --labels labels.npy\n"
    "  kmgen score iris.csv --labels labels.npy\n"
    "  kmgen score points.csv --labels other.csv --label-column cluster --noise 0\n",
    options_list,
    run,
};
