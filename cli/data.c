// SPDX-License-Identifier: MIT
#include "cli.h"

#include <stdio.h>
#include <unistd.h>

static int run(const cli_command *command, int argc, char **argv) {
    km_data_params params;
    km_columns *columns = NULL;
    km_error err = {""};
    cli_parser parser;
    char *text = NULL;
    int as_json = 0;
    cli_data_init(&params);
    cli_parser_init(&parser, command, argc, argv);
    for (int id; (id = cli_next(&parser)) != CLI_END;) {
        if (id == CLI_STOP) return parser.exit;
        as_json |= id == CLI_JSON;
        if (id != CLI_JSON && cli_data_take(&params, &parser, id)) return CLI_USAGE;
    }
    if (cli_positional(&parser, 1, 1, "DATA")) return CLI_USAGE;
    const char *path = argv[parser.first];
    if (cli_data_check(&params, &parser, path)) return CLI_USAGE;
    km_status status = km_columns_read(&columns, path, &params, &err);
    if (status == KM_OK)
        status =
            as_json ? km_columns_to_json(&text, columns, &err) : km_columns_to_table(&text, columns, &err);
    if (status == KM_OK) cli_wrapped(stdout, text, cli_width(STDOUT_FILENO));
    km_text_free(text);
    km_columns_destroy(&columns);
    return status == KM_OK ? CLI_DONE : cli_error(status, &err);
}

static const cli_option options_list[] = {
    {CLI_JSON, "json", 0, NULL, "print JSON"},
    {CLI_FORMAT, "format", 0, "FORMAT", "as for kmgen fit, as are those below"},
    {CLI_FEATURES, "features", 0, "D", "columns of a raw .f32 or .f64 file"},
    {CLI_HEADER, "header", 0, "HOW", "auto (default), yes, no or skip"},
    {CLI_NA_VALUES, "na-values", 0, "LIST", "what else means a missing value"},
    {CLI_DECIMAL, "decimal", 0, ".|,", "what decimals of text have"},
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
