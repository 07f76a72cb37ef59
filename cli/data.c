// SPDX-License-Identifier: MIT
#include "cli.h"

#include <stdio.h>
#include <unistd.h>

typedef struct data_options {
    km_data_params data;
    int as_json;
} data_options;

static int run(const cli_command *command, int argc, char **argv) {
    data_options options = {.as_json = 0};
    km_columns *columns = NULL;
    km_error err = {""};
    cli_parser parser;
    char *text = NULL;
    cli_data_init(&options.data);
    if (cli_parse(&parser, &options, command, argc, argv)) return parser.exit;
    if (cli_positional(&parser, 1, 1, "DATA")) return CLI_USAGE;
    const char *path = argv[parser.first];
    if (cli_data_check(&options.data, &parser, path)) return CLI_USAGE;
    km_status status = km_columns_read(&columns, path, &options.data, &err);
    if (status == KM_OK)
        status = options.as_json ? km_columns_to_json(&text, columns, &err)
                                 : km_columns_to_table(&text, columns, &err);
    if (status == KM_OK) cli_wrapped(stdout, text, cli_width(STDOUT_FILENO));
    km_text_free(text);
    km_columns_destroy(&columns);
    return status == KM_OK ? CLI_DONE : cli_error(status, &err);
}

static const cli_option options_list[] = {
    {"json", 0, NULL, "print JSON", CLI_FLAG(data_options, as_json, 1)},
    {"format", 0, "FORMAT", "as for kmgen fit, as are those below",
     CLI_BY(cli_take_format, const char *, data_options, data.format)},
    {"features", 0, "D", "columns of a raw .f32 or .f64 file",
     CLI_INT(data_options, data.features, 1, KM_FEATURES_MAX)},
    {"header", 0, "HOW", "auto (default), yes, no or skip",
     CLI_WORD(km_header_mode, data_options, data.header, cli_header_words)},
    {"na-values", 0, "LIST", "what else means a missing value", CLI_TEXT(data_options, data.na_values)},
    {"decimal", 0, ".|,", "what decimals of text have",
     CLI_BY(cli_take_decimal, char, data_options, data.decimal)},
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_data = {
    "data",
    "[OPTIONS] DATA",
    "Shows what the columns of DATA hold, and which of them a fit uses",
    "A kind is number, id (whole numbers named like one, or rising from row to row), yes/no, category\n"
    "(up to 256 different texts), date, text, constant or empty. kmgen fit uses the numbers; --columns\n"
    "takes others, --one-hot categories.\n"
    "\n"
    "Examples:\n"
    "  kmgen data customers.csv\n"
    "  kmgen data customers.csv --json | jq '.columns[] | select(.used).name'\n",
    options_list,
    run,
};
