// SPDX-License-Identifier: MIT
#include "cli.h"
#include <kmgen/module.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

typedef struct cache_options {
    const char *dir;
    int warms;
    cli_changes changes;
    km_warm_params warm;
} cache_options;

// Options of --warm are without effect where nothing is compiled.
static int refuse_options(const cache_options *options, const cli_parser *parser) {
    const cli_changes *changes = &options->changes;
    const void *const fields[] = {&options->warm.points,
                                  &options->warm.weighted,
                                  &options->warm.module.compiler,
                                  &changes->clusters,
                                  &changes->target,
                                  &changes->type,
                                  &changes->layout,
                                  changes};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const cli_option *option = cli_given(parser, fields[i]);
        if (option) return cli_usage(parser->command, "--%s needs --warm SPEC.yaml...", option->name);
    }
    return 0;
}

static void show_warmed(const km_warmed *done, const char *path) {
    if (done->status != KM_OK)
        cli_line(stderr, "kmgen: %s: %s", path, done->err.text);
    else
        cli_line(stdout, "%s: %s, %s, %.0f ms", path, km_design_name(done->design),
                 done->was_cached ? "nothing to compile" : "compiled", done->ms);
}

static int warm(cache_options *options, char **paths, int64_t count, const cli_command *command) {
    km_error err = {""};
    km_spec *specs = calloc((size_t)count, sizeof *specs);
    km_warmed *done = calloc((size_t)count, sizeof *done);
    km_status status = KM_OK;
    int exit = 0;
    int64_t read = 0;
    if (!specs || !done) {
        snprintf(err.text, sizeof err.text, "not enough memory for %lld specs", (long long)count);
        status = KM_ERROR_MEMORY;
    }
    for (; read < count && status == KM_OK && !exit; read++) {
        if (cli_refuse_table(command, paths[read])) exit = CLI_USAGE;
        km_spec_init(&specs[read]);
        if (!exit) status = km_spec_read(&specs[read], paths[read], &err);
        if (!exit && status == KM_OK)
            exit = cli_changes_apply(&specs[read], &options->warm.module.device, &options->changes, command);
    }
    options->warm.tuning_dir = cli_tuning_dir();
    options->warm.module.log = cli_log();
    if (status == KM_OK && !exit) {
        status = km_cache_warm(done, specs, count, &options->warm, &err);
        int tried = 0;
        for (int64_t i = 0; i < count; i++) tried |= done[i].status != KM_OK || done[i].ms > 0;
        for (int64_t i = 0; i < count && tried; i++) show_warmed(&done[i], paths[i]);
        if (status != KM_OK) exit = tried ? CLI_FAILED : cli_error(status, &err);
    } else if (!exit) {
        exit = cli_error(status, &err);
    }
    for (int64_t i = 0; i < read; i++) km_spec_clear(&specs[i]);
    free(specs);
    free(done);
    return exit;
}

// At low priority, as it does what nobody waits for.
static int finish(const cache_options *options) {
    int64_t compiled;
    km_module_params params = options->warm.module;
    km_error err = {""};
    params.log = cli_log();
    setpriority(PRIO_PROCESS, 0, 10);
    km_status status = km_cache_finish(&compiled, &params, &err);
    if (status != KM_OK) return cli_error(status, &err);
    if (!cli_quiet)
        cli_line(stdout, "%s: %lld text%s compiled", params.cache_dir, (long long)compiled,
                 compiled == 1 ? "" : "s");
    return CLI_DONE;
}

static int run(const cli_command *command, int argc, char **argv) {
    enum { LOOK, CLEAR, FINISH };
    static const char *const actions[] = {"look", "clear", "finish", NULL};
    cache_options options = {.warms = 0};
    km_cache_stats stats = {0};
    km_error err = {""};
    int action = 0;
    cli_parser parser;
    km_warm_params_init(&options.warm);
    if (cli_parse(&parser, &options, command, argc, argv)) return parser.exit;
    if (options.warms ? cli_positional(&parser, 1, INT32_MAX, "SPEC.yaml")
                      : cli_positional(&parser, 0, 1, ""))
        return CLI_USAGE;
    if (!options.warms && refuse_options(&options, &parser)) return CLI_USAGE;
    if (!options.warms && parser.first < argc) {
        parser.value = argv[parser.first];
        if (cli_choice(&parser, NULL, &action, actions)) return CLI_USAGE;
    }
    const char *dir = cli_cache_dir(options.dir);
    if (!dir)
        return cli_usage(command, "there is no cache folder: name one by --cache-dir or KMGEN_CACHE_DIR");
    options.warm.module.cache_dir = dir;
    if (options.warms) return warm(&options, argv + parser.first, argc - parser.first, command);
    if (action == FINISH) return finish(&options);
    km_status status = action == CLEAR ? km_cache_clear(&stats, dir, &err) : km_cache_look(&stats, dir, &err);
    if (status != KM_OK) return cli_error(status, &err);
    int64_t unfinished = action == LOOK ? km_cache_unfinished(dir) : 0;
    char left[64] = "";
    if (unfinished) snprintf(left, sizeof left, ", %lld left to be compiled", (long long)unfinished);
    cli_line(stdout, "%s%s: %lld entr%s, %.1f MiB%s", action == CLEAR ? "removed from " : "", dir,
             (long long)stats.entries_count, stats.entries_count == 1 ? "y" : "ies",
             (double)stats.bytes / 1048576.0, left);
    return CLI_DONE;
}

static const cli_option options_list[] = {
    {"warm", 0, NULL,
     "compile what fits of these specs will need, several side by side,\n"
     "so that the first one need not wait for the compiler",
     CLI_FLAG(cache_options, warms, 1)},
    {"points", 'n', "N", "about as many points as they will have; default: many",
     CLI_INT(cache_options, warm.points, 1, INT64_MAX)},
    {"weighted", 0, NULL, "points will carry weights", CLI_FLAG(cache_options, warm.weighted, 1)},
    {"clusters", 'k', "LIST", "the list of K instead of the specs'",
     CLI_TEXT(cache_options, changes.clusters)},
    {"target", 't', "TARGET",
     "auto (default: the GPU where there is one), cpu, cuda or cuda:N\ninstead of the specs'",
     CLI_TEXT(cache_options, changes.target)},
    {"type", 0, "f32|f64", "element type instead of the specs'", CLI_TEXT(cache_options, changes.type)},
    {"layout", 0, "auto|dense|csr", "how points lie in memory, instead of the specs'",
     CLI_TEXT(cache_options, changes.layout)},
    {"set", 0, "NAME=VALUE...", "fix a number of the plan, e.g. design=tiled",
     CLI_BY(cli_take_set, cli_changes, cache_options, changes)},
    {"compiler", 0, "FILE", "as in kmgen fit", CLI_TEXT(cache_options, warm.module.compiler)},
    {"cache-dir", 0, "DIR",
     "folder of the cache; default: $KMGEN_CACHE_DIR, else\n"
     "$XDG_CACHE_HOME/kmgen, else ~/.cache/kmgen",
     CLI_TEXT(cache_options, dir)},
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_cache = {
    "cache",
    "[OPTIONS] [look|clear|finish|SPEC.yaml...]",
    "Shows the cache of compiled modules, clears it, or fills it",
    "Examples:\n"
    "  kmgen cache            where it is and how much it holds\n"
    "  kmgen cache clear      removes what kmgen wrote there, nothing else\n"
    "  kmgen cache finish     compiles what fits on a GPU left for later\n"
    "  kmgen cache --warm a.yaml b.yaml -t cuda     compiles for fits to come\n",
    options_list,
    run,
};
