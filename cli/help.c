// SPDX-License-Identifier: MIT
#include "cli.h"

#include <stdio.h>
#include <string.h>

static const char introduction[] =
    "kmgen clusters one table for a whole list of K at once (k-means): one read of\n"
    "the points per iteration serves every K and every restart, and it says which K\n"
    "fits best and why.\n"
    "\n"
    "Usage: kmgen SUBCOMMAND ...\n"
    "       kmgen SPEC.yaml              the same as kmgen emit SPEC.yaml\n"
    "\n";

static int run_help(const cli_command *command, int argc, char **argv) {
    cli_parser parser;
    if (cli_parse(&parser, NULL, command, argc, argv)) return parser.exit;
    if (cli_positional(&parser, 0, 1, "")) return CLI_USAGE;
    if (parser.first == argc) {
        fputs(introduction, stdout);
        for (int c = 0; cli_commands[c]; c++) {
            enum { NAMES = 13 };
            printf("  %-10s ", cli_commands[c]->name);
            cli_print_words(cli_commands[c]->summary, NAMES, NAMES);
        }
        printf("\n'kmgen SUBCOMMAND --help' shows its options and examples. Start with:\n"
               "  kmgen fit DATA.csv -k 2..10\n");
        return CLI_DONE;
    }
    const char *names[32];
    int count = 0;
    for (; cli_commands[count] && count < 31; count++) {
        names[count] = cli_commands[count]->name;
        if (strcmp(names[count], argv[parser.first]) != 0) continue;
        cli_help_print(cli_commands[count]);
        return CLI_DONE;
    }
    names[count] = NULL;
    const char *similar = cli_suggest(argv[parser.first], names);
    return cli_usage(command, "unknown subcommand '%s'%s%s%s", argv[parser.first],
                     similar ? "; did you mean '" : "", similar ? similar : "", similar ? "'?" : "");
}

static int run_version(const cli_command *command, int argc, char **argv) {
    cli_parser parser;
    if (cli_parse(&parser, NULL, command, argc, argv)) return parser.exit;
    if (cli_positional(&parser, 0, 0, "")) return CLI_USAGE;
    printf("kmgen %s\n", km_version());
    return CLI_DONE;
}

static const cli_option options[] = {CLI_COMMON_OPTIONS};

const cli_command cli_command_help = {
    "help", "[SUBCOMMAND]", "Shows the subcommands, or the help of one", NULL, options, run_help,
};
const cli_command cli_command_version = {
    "version", "", "Prints the version of the library that is loaded", NULL, options, run_version,
};
