// SPDX-License-Identifier: MIT
#include "cli.h"
#include <kmgen/module.h>

#include <stdio.h>
#include <string.h>

static int parse(const char **dir, cli_parser *parser) {
    for (int id; (id = cli_next(parser)) != CLI_END;) {
        if (id == CLI_STOP) return -1;
        if (id == CLI_CACHE_DIR) *dir = parser->value;
    }
    parser->exit = cli_positional(parser, 0, 1, "");
    return parser->exit ? -1 : 0;
}

static int run(const cli_command *command, int argc, char **argv) {
    static const char *const actions[] = {"look", "clear", NULL};
    const char *given = NULL;
    km_cache_stats stats = {0};
    km_error err = {""};
    int action = 0;
    cli_parser parser;
    cli_parser_init(&parser, command, argc, argv);
    if (parse(&given, &parser)) return parser.exit;
    if (parser.first < argc) {
        parser.value = argv[parser.first];
        if (cli_choice(&parser, "the action", &action, actions)) return CLI_USAGE;
    }
    const char *dir = cli_cache_dir(given);
    if (!dir)
        return cli_usage(command, "there is no cache folder: name one by --cache-dir or KMGEN_CACHE_DIR");
    km_status status = action ? km_cache_clear(&stats, dir, &err) : km_cache_look(&stats, dir, &err);
    if (status != KM_OK) return cli_error(status, &err);
    cli_line(stdout, "%s%s: %lld entr%s, %.1f MiB", action ? "removed from " : "", dir,
             (long long)stats.entries_count, stats.entries_count == 1 ? "y" : "ies",
             (double)stats.bytes / 1048576.0);
    return CLI_DONE;
}

static const cli_option options_list[] = {
    {CLI_CACHE_DIR, "cache-dir", 0, "DIR",
     "folder of the cache; default: $KMGEN_CACHE_DIR, else\n"
     "$XDG_CACHE_HOME/kmgen, else ~/.cache/kmgen"},
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_cache = {
    "cache",
    "[OPTIONS] [look|clear]",
    "Shows the cache of compiled modules, or clears it",
    "Examples:\n"
    "  kmgen cache            where it is and how much it holds\n"
    "  kmgen cache clear      removes what kmgen wrote there, nothing else\n",
    options_list,
    run,
};
