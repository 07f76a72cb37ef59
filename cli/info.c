// SPDX-License-Identifier: MIT
// What this machine has, what is missing and how to get it.
#include "cli.h"
#include <kmgen/module.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void print_device(const char *title, int device) {
    km_error err = {""};
    km_device_facts facts = {0};
    char target[64];
    if (km_device_query(&facts, device, &err) != KM_OK) {
        cli_line(stdout, "%-11s none: %s", title, err.text);
        return;
    }
    km_target_text(target, sizeof target, facts.target);
    printf("%-11s %s (%s), %lld %s", title, facts.name, target, (long long)facts.units,
           device == KM_HOST ? "threads" : "multiprocessors");
    if (facts.memory_bytes) printf(", %.1f GiB", (double)facts.memory_bytes / 1073741824.0);
    if (facts.bandwidth_gbs > 0 && device != KM_HOST) printf(", %.0f GB/s", facts.bandwidth_gbs);
    printf("\n");
}

// First line of what the compiler says of itself, "" when it does not answer.
static void ask_version(char *line, int size, const char *compiler) {
    char command[4200];
    line[0] = 0;
    if (strchr(compiler, '\'')) return; // a path that would need more quoting is not asked
    snprintf(command, sizeof command, "'%s' --version 2>/dev/null", compiler);
    // NOLINTNEXTLINE(cert-env33-c): the path has no quote, so it is one word to the shell
    FILE *pipe = popen(command, "r");
    if (!pipe) return;
    if (!fgets(line, size, pipe)) line[0] = 0;
    line[strcspn(line, "\n")] = 0;
    while (fgetc(pipe) != EOF) {
    }
    pclose(pipe);
}

static void print_compilers(const char *compiler) {
    km_error err = {""};
    char text[4096], version[256];
    if (km_compiler_query(text, sizeof text, KM_TARGET_CPU, NULL, &err) == KM_OK) {
        ask_version(version, sizeof version, text);
        cli_line(stdout, "%-11s %s%s%s", "C compiler", text, *version ? ": " : "", version);
    } else {
        cli_line(stdout, "%-11s none: %s", "C compiler", err.text);
    }
    err.text[0] = 0;
    if (km_compiler_query(text, sizeof text, KM_TARGET_CUDA, compiler, &err) == KM_OK)
        cli_line(stdout, "%-11s %s", "NVRTC", text);
    else
        cli_line(stdout, "%-11s none: %s", "NVRTC", err.text);
}

static void print_parts(void) {
    static const struct {
        const char *name, *purpose, *remedy;
    } parts[] = {
#define KM_PART_ROW(part, name, purpose, remedy) {name, purpose, remedy},
        KM_PARTS(KM_PART_ROW)
#undef KM_PART_ROW
    };
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        km_error err = {""};
        if (km_part_check((km_part)i, &err) == KM_OK)
            cli_line(stdout, "%-11s %s", parts[i].name, parts[i].purpose);
        else if (km_built_with((km_part)i))
            cli_line(stdout, "%-11s none: no %s; %s", parts[i].name, parts[i].purpose, err.text);
        else
            cli_line(stdout, "%-11s none: no %s; build kmgen with %s", parts[i].name, parts[i].purpose,
                     parts[i].remedy);
    }
}

static void print_cache(const char *given) {
    km_cache_stats stats = {0};
    km_error err = {""};
    const char *dir = cli_cache_dir(given);
    if (!dir)
        printf("%-11s none: neither KMGEN_CACHE_DIR nor HOME names a folder\n", "cache");
    else if (km_cache_look(&stats, dir, &err) != KM_OK)
        cli_line(stdout, "%-11s %s: %s", "cache", dir, err.text);
    else
        cli_line(stdout, "%-11s %s: %lld entr%s, %.1f MiB", "cache", dir, (long long)stats.entries_count,
                 stats.entries_count == 1 ? "y" : "ies", (double)stats.bytes / 1048576.0);
}

typedef struct info_options {
    const char *cache_dir, *compiler;
} info_options;

static int run(const cli_command *command, int argc, char **argv) {
    info_options options = {NULL, NULL};
    cli_parser parser;
    if (cli_parse(&parser, &options, command, argc, argv)) return parser.exit;
    if (cli_positional(&parser, 0, 0, "")) return CLI_USAGE;
    printf("%-11s %s\n", "kmgen", km_version());
    print_device("CPU", KM_HOST);
    int count = km_device_count();
    for (int device = 0; device < count; device++) {
        char title[32];
        snprintf(title, sizeof title, "cuda:%d", device);
        print_device(title, device);
    }
    if (count == 0) print_device("GPU", 0);
    print_compilers(options.compiler);
    print_parts();
    print_cache(options.cache_dir);
    return CLI_DONE;
}

static const cli_option options_list[] = {
    {"compiler", 0, "FILE",
     "look for NVRTC here: the library, its folder, a CUDA toolkit or a\n"
     "Python environment",
     CLI_TEXT(info_options, compiler)},
    {"cache-dir", 0, "DIR", "folder of the cache; default: see kmgen cache --help",
     CLI_TEXT(info_options, cache_dir)},
    CLI_COMMON_OPTIONS,
};

const cli_command cli_command_info = {
    "info",
    "",
    "Shows devices, compilers, parts of this build and the cache: what is missing and how to get it",
    "Example:\n  kmgen info\n",
    options_list,
    run,
};
