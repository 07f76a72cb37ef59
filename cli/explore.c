// SPDX-License-Identifier: MIT
#include "cli.h"

#include <kmgen/explore.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OUT_JSON, OUT_MODEL, OUT_CODES, OUT_PLOT, OUT_COUNT };
enum { TABLE_ROWS = 10, COMBINE = 5 };

typedef struct explore_options {
    cli_output outputs[OUT_COUNT];
    cli_changes changes;
    const char *outcome, *cache_dir;
    km_outcome_kind kind;
    km_data_params data;
    km_explore_params explore;
} explore_options;

// "3" or "2..4".
static int take_choose(void *field, cli_parser *parser, const cli_option *option) {
    km_explore_params *explore = field;
    char *end;
    const char *text = parser->value;
    long long least = strtoll(text, &end, 10), most = least;
    int is_number = end > text;
    if (is_number && strncmp(end, "..", 2) == 0) {
        text = end + 2;
        most = strtoll(text, &end, 10);
        is_number = end > text;
    }
    if (!is_number || *end || least < 1 || most < least || most > KM_FEATURES_DENSE_MAX)
        return cli_usage(parser->command,
                         "--%s must be how many columns, such as 3 or 2..4, from 1, got '%s'", option->name,
                         parser->value);
    explore->size_min = least;
    explore->size_max = most;
    return 0;
}

static int take_rank(void *field, cli_parser *parser, const cli_option *option) {
    const char *names[KM_RANK_COUNT + 2] = {[KM_RANK_COUNT] = "auto"};
    int choice = 0;
    for (int r = 0; r < KM_RANK_COUNT; r++) names[r] = km_rank_name((km_rank)r);
    if (cli_choice(parser, option, &choice, names)) return CLI_USAGE;
    *(km_rank *)field = choice == KM_RANK_COUNT ? KM_RANK_AUTO : (km_rank)choice;
    return 0;
}

static int take_holdout(void *field, cli_parser *parser, const cli_option *option) {
    if (cli_take_share(field, parser, option)) return CLI_USAGE;
    if (*(double *)field < 1) return 0;
    return cli_usage(parser->command, "--%s 1 leaves no row to learn from; give a share below 1",
                     option->name);
}

static int check(explore_options *options, cli_parser *parser) {
    if ((parser->exit = cli_positional(parser, 1, 1, "DATA")) != 0) return -1;
    const char *data = parser->argv[parser->first];
    const char *inputs[] = {data, options->data.weights ? options->data.weights : data, NULL};
    parser->exit = cli_data_check(&options->data, parser, data);
    if (!parser->exit && options->outcome && strcmp(data, "-") == 0)
        parser->exit =
            cli_usage(parser->command, "--outcome reads the table a second time, which standard input "
                                       "cannot; name a file");
    if (!parser->exit) parser->exit = cli_plots_check(parser->command, &options->outputs[OUT_PLOT], 1);
    if (!parser->exit) parser->exit = cli_outputs_check(parser->command, options->outputs, OUT_COUNT, inputs);
    if (!parser->exit && options->outputs[OUT_CODES].path) options->explore.codes = -1;
    return parser->exit ? -1 : 0;
}

// The path of the model at `place` among the best: %d in it is that place.
static void model_path(char out[4096], const char *path, int64_t place) {
    const char *mark = strstr(path, "%d");
    if (mark)
        snprintf(out, 4096, "%.*s%lld%s", (int)(mark - path), path, (long long)place, mark + 2);
    else
        snprintf(out, 4096, "%s", path);
}

static km_status write_models(const char *path, const km_explore_result *result, km_error *err) {
    int64_t count = strstr(path, "%d") ? result->best : 1;
    for (int64_t i = 0; i < count; i++) {
        char own[4096];
        model_path(own, path, i + 1);
        km_status status = km_explore_write_model(own, result, result->ranking[i], err);
        if (status != KM_OK) return status;
    }
    return KM_OK;
}

static km_status write_json(const char *path, const km_explore_result *result, km_error *err) {
    char *text = NULL;
    km_status made = km_explore_to_json(&text, result, err);
    return cli_text_write(path, text, made, err);
}

static km_status write_output(int output, const char *path, const void *user, km_error *err) {
    const km_explore_result *result = user;
    switch (output) {
    case OUT_JSON:
        return write_json(path, result, err);
    case OUT_MODEL:
        return write_models(path, result, err);
    case OUT_CODES:
        return km_npy_write(path, result->codes_of_rows, result->rows, result->codes, "|u1", err);
    default:
        return km_explore_plot(path, result, err);
    }
}

static km_status show(const void *user, km_error *err) {
    char *table = NULL;
    km_status status = km_explore_to_table(&table, user, TABLE_ROWS, cli_table_looks(), err);
    if (status == KM_OK) cli_wrapped(stdout, table, cli_width(STDOUT_FILENO));
    km_text_free(table);
    return status;
}

// The columns that are clustered when none are named: all but the outcome.
static km_status open_data(km_data **out, const explore_options *options, const char *path, km_error *err) {
    km_data_params params = options->data;
    char *others = NULL;
    if (options->outcome && !params.columns) {
        int length = asprintf(&others, "%s%s%s", params.exclude ? params.exclude : "",
                              params.exclude ? "," : "", options->outcome);
        if (length < 0) {
            snprintf(err->text, sizeof err->text, "no memory for the list of columns");
            return KM_ERROR_MEMORY;
        }
        params.exclude = others;
    }
    km_status status = km_data_open(out, path, &params, err);
    free(others);
    return status;
}

static int explore(explore_options *options, const km_spec *spec, const char *path) {
    km_error err = {""};
    km_data *data = NULL;
    km_outcome *outcome = NULL;
    km_explore_result *result = NULL;
    int exit;
    cli_interrupts_catch();
    km_status status = KM_OK;
    if (options->outcome)
        status = km_outcome_read(&outcome, path, options->outcome, &options->data, options->kind, &err);
    if (status == KM_OK) status = open_data(&data, options, path, &err);
    options->explore.outcome = outcome;
    options->explore.clusters = spec->clusters;
    options->explore.clusters_count = spec->clusters_count;
    options->explore.type = spec->type;
    if (status == KM_OK) status = km_explore(&result, data, &options->explore, &err);
    cli_progress_clear();
    if (status == KM_ERROR_INTERRUPTED) {
        cli_line(stderr, "kmgen: interrupted before any subset was done; nothing was written");
        exit = CLI_FAILED;
    } else {
        exit = status == KM_OK
                   ? cli_outputs_write(options->outputs, OUT_COUNT, &(cli_writer){write_output, show, result})
                   : cli_error(status, &err);
    }
    km_explore_destroy(&result);
    km_outcome_destroy(&outcome);
    km_data_destroy(&data);
    return cli_interrupted() && !exit ? CLI_FAILED : exit;
}

static int run(const cli_command *command, int argc, char **argv) {
    explore_options options = {.outputs = {{"--json", NULL, NULL},
                                           {"--model", NULL, NULL},
                                           {"--codes", NULL, "npy"},
                                           {"--plot", NULL, NULL}}};
    cli_parser parser;
    km_spec spec;
    cli_data_init(&options.data);
    km_explore_params_init(&options.explore);
    options.explore.combine = COMBINE;
    if (cli_parse(&parser, &options, command, argc, argv) || check(&options, &parser)) return parser.exit;
    options.explore.log = cli_log();
    options.explore.progress = cli_progress;
    options.explore.device = KM_DEVICE_AUTO;
    km_spec_init(&spec);
    int exit = cli_changes_apply(&spec, &options.explore.device, &options.changes, command);
    if (!exit && options.explore.device != KM_HOST)
        exit = cli_cache_dir_usable(&options.explore.cache_dir, options.cache_dir);
    if (!exit) exit = explore(&options, &spec, argv[parser.first]);
    km_spec_clear(&spec);
    return exit ? cli_interrupts_obey(exit) : exit;
}

static const char *const init_words[] = {"k-means++", "random", NULL};
static const char *const kind_words[] = {"auto", "class", "number", NULL};

static const cli_option options_list[] = {
    {"choose", 0, "M|M..N", "columns of a subset: 3, or 2..4; default: 3",
     CLI_BY(take_choose, km_explore_params, explore_options, explore)},
    {"subsets", 0, "N", "draw so many subsets at random; default: all that there are",
     CLI_INT(explore_options, explore.subsets, 1, KM_SUBSETS_MAX)},
    {"with-replacement", 0, NULL,
     "a subset may be drawn several times, each time with first\ncentroids of its own",
     CLI_FLAG(explore_options, explore.with_replacement, 1)},
    {"include", 0, "LIST",
     "columns that every subset has, by name, or by number among those that\nare clustered",
     CLI_TEXT(explore_options, explore.include)},
    {"clusters", 'k', "LIST", "the list of K, up to 255: 8, 4..10; default: 8",
     CLI_TEXT(explore_options, changes.clusters)},
    {"n-init", 0, "N", "restarts of each subset and K; default: 10",
     CLI_INT(explore_options, explore.n_init, 1, 1000000)},
    {"max-iter", 0, "N", "iterations of a restart at most; default: 300",
     CLI_INT(explore_options, explore.max_iter, 1, INT64_MAX)},
    {"tol", 0, "X", "as kmgen fit; default: 1e-4",
     CLI_BY(cli_take_nonnegative, double, explore_options, explore.tol)},
    {"init", 0, "HOW", "k-means++ (default) or random",
     CLI_WORD(km_init, explore_options, explore.init, init_words)},
    {"scale", 0, "none|standard|minmax|robust",
     "\nscale the columns first; default: standard, as figures of subsets can\nbe compared only where "
     "columns are "
     "alike",
     CLI_BY(cli_take_scale, km_scale, explore_options, explore.scale)},
    {"seed", 0, "N", "of all random draws; default: 0. Same seed, same result",
     CLI_BY(cli_take_seed, uint64_t, explore_options, explore.seed)},
    {"type", 0, "f32|f64", "element type of points and centroids; default: f32",
     CLI_TEXT(explore_options, changes.type)},
    {"target", 't', "TARGET", "cpu, cuda or cuda:N; default: a GPU where there is one and much to do",
     CLI_TEXT(explore_options, changes.target)},
    {"weights", 0, "FILE", "one weight a row", CLI_TEXT(explore_options, data.weights)},
    {"outcome", 0, "COLUMN",
     "rank subsets by how well their labels predict this column of DATA:\nclasses (words too), or a number",
     CLI_TEXT(explore_options, outcome)},
    {"outcome-kind", 0, "auto|class|number",
     "\ndefault: classes where it is text or at most 20 whole numbers",
     CLI_WORD(km_outcome_kind, explore_options, kind, kind_words)},
    {"holdout", 0, "X", "share of the rows that the outcome's figures are of; default: all",
     CLI_BY(take_holdout, double, explore_options, explore.holdout)},
    {"rank", 0, "FIGURE",
     "simplified_silhouette, explained, calinski_harabasz, permuted, agreed;\nwith --outcome accuracy, "
     "balanced_accuracy, "
     "mutual_information, r2;\ndefault: balanced_accuracy, r2, or without an outcome the silhouette",
     CLI_BY(take_rank, km_rank, explore_options, explore.rank)},
    {"permutations", 0, "N",
     "of --rank permuted: tables of permuted columns that are explored beside;\ndefault: 3",
     CLI_INT(explore_options, explore.permutations, 1, 1000)},
    {"best", 0, "N", "so many subsets count as the best; default: 10, but a fifth of all\nat most",
     CLI_INT(explore_options, explore.best, 1, KM_SUBSETS_MAX)},
    {"combine", 0, "N",
     "with --outcome, how well two and three of the best N codes predict it\ntogether; default: 5, 0: none",
     CLI_INT(explore_options, explore.combine, 0, KM_COMBINE_MAX)},
    CLI_DATA_OPTIONS(explore_options),
    {"json", 0, "FILE", "write all subsets as JSON; with - standard output holds only that",
     CLI_TEXT(explore_options, outputs[OUT_JSON].path)},
    {"codes", 0, "FILE.npy", "write the labels of the best: a row a row, a byte a subset",
     CLI_TEXT(explore_options, outputs[OUT_CODES].path)},
    {"model", 0, "FILE",
     "write the model of the best, for kmgen predict; with %d in its name\nthose of all the best, by place",
     CLI_TEXT(explore_options, outputs[OUT_MODEL].path)},
    {"plot", 0, "FILE.svg|png|pdf", "draw how often each column is among the best",
     CLI_TEXT(explore_options, outputs[OUT_PLOT].path)},
    {"threads", 0, "N", "CPU threads; default: all cores. Never changes the result",
     CLI_INT(explore_options, explore.threads, 1, 4096)},
    {"compiler", 0, "FILE", "NVRTC or its folder, for a GPU; default: what kmgen info shows",
     CLI_TEXT(explore_options, explore.compiler)},
    {"cache-dir", 0, "DIR", "keeps a GPU's compiled kernels; default: what kmgen info shows",
     CLI_TEXT(explore_options, cache_dir)},
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_explore = {
    "explore",
    "[OPTIONS] DATA",
    "Clusters DATA by many subsets of its columns at once, and ranks them",
    "Every subset is a k-means of its own, as kmgen fit --columns would find it; the table is loaded\n"
    "once for all of them. Ctrl-C gives what is done.\n"
    "\n"
    "Examples:\n"
    "  kmgen explore t.csv --choose 2 -k 8\n"
    "  kmgen explore t.csv --choose 3 -k 8 --outcome class --holdout 0.3 --plot t.svg\n"
    "  kmgen explore t.npy --choose 2..4 --subsets 1000 -k 4..10 --json all.json\n"
    "  kmgen explore t.csv --choose 3 --outcome class --model m%d.json --codes c.npy\n",
    options_list,
    run,
};
