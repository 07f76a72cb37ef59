// SPDX-License-Identifier: MIT
// Where the cache lies, and outputs that are known to be writable before the work begins.
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

const char *cli_cache_dir(const char *given) {
    static char folder[4096];
    const char *own = getenv("KMGEN_CACHE_DIR"), *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
    int size;
    if (given)
        size = snprintf(folder, sizeof folder, "%s", given);
    else if (own && *own)
        size = snprintf(folder, sizeof folder, "%s", own);
    else if (xdg && *xdg == '/') // the XDG convention: relative paths are ignored
        size = snprintf(folder, sizeof folder, "%s/kmgen", xdg);
    else if (home && *home)
        size = snprintf(folder, sizeof folder, "%s/.cache/kmgen", home);
    else
        return NULL;
    return size < (int)sizeof folder ? folder : NULL;
}

const char *cli_tuning_dir(void) {
    static char folder[4096];
    const char *xdg = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int size;
    if (xdg && *xdg == '/') // the XDG convention: relative paths are ignored
        size = snprintf(folder, sizeof folder, "%s/kmgen/tuning", xdg);
    else if (home && *home)
        size = snprintf(folder, sizeof folder, "%s/.local/share/kmgen/tuning", home);
    else
        return NULL;
    return size < (int)sizeof folder ? folder : NULL;
}

int cli_cache_dir_usable(const char **out, const char *given) {
    km_error err = {""};
    *out = cli_cache_dir(given);
    if (!*out) {
        cli_note("nothing is cached: neither KMGEN_CACHE_DIR nor HOME names a folder");
        return 0;
    }
    km_status status = km_cache_check(*out, &err);
    if (status == KM_OK) return 0;
    if (given && status == KM_ERROR_IO) return cli_error(status, &err);
    cli_warning("nothing is cached: %s; --cache-dir or KMGEN_CACHE_DIR names another folder", err.text);
    *out = NULL;
    return 0;
}

// The path that writing to `path` would create or replace: links are followed, also those that lead to no file.
static int place_of(char place[PATH_MAX], const char *path) {
    enum { LINKS_MAX = 40 };
    char at[PATH_MAX], target[PATH_MAX], folder[PATH_MAX];
    if (snprintf(at, sizeof at, "%s", path) >= (int)sizeof at) return 0;
    for (int links = 0;; links++) {
        const char *slash = strrchr(at, '/'), *base = slash ? slash + 1 : at;
        int folder_size = slash ? (int)(base - at) : 2; // with its slash
        ssize_t size = readlink(at, target, sizeof target - 1);
        snprintf(folder, sizeof folder, "%.*s", folder_size, slash ? at : "./");
        if (size < 0) {
            char real[PATH_MAX];
            return realpath(folder, real) && snprintf(place, PATH_MAX, "%s/%s", real, base) < PATH_MAX;
        }
        target[size] = 0;
        if (links == LINKS_MAX) return 0;
        if (snprintf(at, sizeof at, "%s%s", *target == '/' ? "" : folder, target) >= (int)sizeof at) return 0;
    }
}

static int same_file(const char *a, const char *b) {
    struct stat a_info, b_info;
    char a_place[PATH_MAX], b_place[PATH_MAX];
    if (strcmp(a, b) == 0) return 1;
    if (strcmp(a, "-") == 0 || strcmp(b, "-") == 0) return 0;
    if (stat(a, &a_info) == 0 && stat(b, &b_info) == 0)
        return S_ISREG(a_info.st_mode) && a_info.st_dev == b_info.st_dev && a_info.st_ino == b_info.st_ino;
    return place_of(a_place, a) && place_of(b_place, b) && strcmp(a_place, b_place) == 0;
}

// Whether the file is an input: by its name, or as standard input.
static int is_input(const char *path, const char *input) {
    struct stat info, standard;
    if (strcmp(path, "-") == 0) return 0;
    for (const char *colon = strchr(input, ':'); colon; colon = strchr(colon + 1, ':')) { // FILE:PART
        char file[PATH_MAX];
        snprintf(file, sizeof file, "%.*s", (int)(colon - input), input);
        if (*file && access(input, F_OK) != 0 && same_file(path, file)) return 1;
    }
    if (strcmp(input, "-") != 0) return same_file(path, input);
    return stat(path, &info) == 0 && fstat(STDIN_FILENO, &standard) == 0 && S_ISREG(info.st_mode) &&
           info.st_dev == standard.st_dev && info.st_ino == standard.st_ino;
}

static int output_check(const cli_output *output) {
    km_error err = {""};
    if (km_output_check(output->path, &err) == KM_OK) return 0;
    cli_line(stderr, "kmgen: %s: %s; nothing was done", output->option, err.text);
    return CLI_FAILED;
}

// A file's name says its format; standard output, pipes and devices may have any name (a folder is refused below).
static int format_check(const cli_command *command, const cli_output *output) {
    struct stat info;
    if (!output->formats || strcmp(output->path, "-") == 0) return 0;
    const char *format = km_output_format(output->path);
    if (format && strstr(output->formats, format)) return 0;
    if (!format && stat(output->path, &info) == 0 && !S_ISREG(info.st_mode)) return 0;
    return cli_usage(command, "%s writes %s, as the file's name says; got '%s'", output->option,
                     output->formats, output->path);
}

static int ends_with(const char *text, const char *end) {
    size_t text_size = strlen(text), end_size = strlen(end);
    return text_size > end_size && strcasecmp(text + text_size - end_size, end) == 0;
}

int cli_plots_check(const cli_command *command, const cli_output *plots, int count) {
    for (int p = 0; p < count; p++) {
        const char *path = plots[p].path;
        if (path && !ends_with(path, ".svg") && !ends_with(path, ".png") && !ends_with(path, ".pdf"))
            return cli_usage(command, "--plot writes .svg, .png or .pdf, got '%s'", path);
    }
    km_error err = {""};
    if (!plots->path || km_part_check(KM_PART_CAIRO, &err) == KM_OK) return 0;
    return cli_usage(command, "--plot needs cairo: %s, or leave --plot out", err.text);
}

int cli_outputs_check(const cli_command *command, const cli_output *outputs, int count,
                      const char *const *inputs) {
    for (int o = 0; o < count; o++) {
        if (!outputs[o].path) continue;
        if (!*outputs[o].path) return cli_usage(command, "%s needs a file's name", outputs[o].option);
        for (int i = 0; inputs[i]; i++)
            if (is_input(outputs[o].path, inputs[i]))
                return cli_usage(command, "%s %s would overwrite what is read", outputs[o].option,
                                 outputs[o].path);
        for (int other = 0; other < o; other++) {
            if (!outputs[other].path || !same_file(outputs[o].path, outputs[other].path)) continue;
            if (strcmp(outputs[o].path, "/dev/null") == 0) continue;
            return cli_usage(command, "%s and %s both write to %s", outputs[other].option, outputs[o].option,
                             strcmp(outputs[o].path, "-") == 0 ? "standard output" : outputs[o].path);
        }
        int status = format_check(command, &outputs[o]);
        if (!status) status = output_check(&outputs[o]);
        if (status) return status;
    }
    return 0;
}

km_status cli_text_write(const char *path, char *text, km_status made, km_error *err) {
    if (made == KM_OK) made = km_text_write(path, text, err);
    km_text_free(text);
    return made;
}

int cli_outputs_write(const cli_output *outputs, int count, const cli_writer *writer) {
    int exit = CLI_DONE, on_stdout = -1;
    cli_interrupts_hold();
    for (int o = 0; o < count; o++) {
        if (!outputs[o].path) continue;
        if (strcmp(outputs[o].path, "-") == 0) {
            on_stdout = o; // at most one is
            continue;
        }
        km_error err = {""};
        km_status status = writer->write(o, outputs[o].path, writer->user, &err);
        if (status != KM_OK) exit = cli_error(status, &err);
    }
    if (!cli_ranks()) cli_interrupts_default(); // a rank that ended here would end others that still write
    cli_interrupts_release();
    km_error err = {""};
    km_status status =
        on_stdout < 0 ? writer->show(writer->user, &err) : writer->write(on_stdout, "-", writer->user, &err);
    return status == KM_OK ? exit : cli_error(status, &err);
}
