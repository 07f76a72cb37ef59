// SPDX-License-Identifier: MIT
// Where the cache lies, and outputs that are known to be writable before the work begins.
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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

// Makes the folder and its parents; 0, or the errno.
static int folder_make(const char *path) {
    char part[4096];
    snprintf(part, sizeof part, "%s", path);
    for (char *end = part + 1;; end++) {
        if (*end != '/' && *end != 0) continue;
        char kept = *end;
        *end = 0;
        if (mkdir(part, 0700) != 0 && errno != EEXIST) return errno;
        *end = kept;
        if (!kept) return 0;
    }
}

// Makes and removes a file beside `path`: 0, or the errno. Permissions alone do not tell (root, read-only
// mounts, full disks).
static int file_probe(const char *path) {
    char temporary[4200];
    int size = snprintf(temporary, sizeof temporary, "%s.%ld.tmp", path, (long)getpid());
    if (size >= (int)sizeof temporary) return ENAMETOOLONG;
    int file = open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (file < 0) return errno;
    close(file);
    unlink(temporary);
    return 0;
}

int cli_cache_dir_usable(const char **out, const char *given) {
    char probe[4200];
    *out = cli_cache_dir(given);
    if (!*out) {
        cli_note("nothing is cached: neither KMGEN_CACHE_DIR nor HOME names a folder");
        return 0;
    }
    int why = folder_make(*out);
    snprintf(probe, sizeof probe, "%s/probe", *out);
    if (!why) why = file_probe(probe);
    if (!why) return 0;
    if (given) {
        fprintf(stderr, "kmgen: cannot write to the cache folder %s: %s\n", given, strerror(why));
        return CLI_FAILED;
    }
    cli_warning(
        "nothing is cached: cannot write to %s: %s; --cache-dir or KMGEN_CACHE_DIR names another folder",
        *out, strerror(why));
    *out = NULL;
    return 0;
}

static int same_file(const char *a, const char *b) {
    struct stat a_info, b_info;
    if (strcmp(a, b) == 0) return 1;
    return stat(a, &a_info) == 0 && stat(b, &b_info) == 0 && S_ISREG(a_info.st_mode) &&
           a_info.st_dev == b_info.st_dev && a_info.st_ino == b_info.st_ino;
}

static int refuse_output(const cli_output *output, const char *why) {
    fprintf(stderr, "kmgen: cannot write %s (%s): %s; nothing was done\n", output->path, output->option, why);
    return CLI_FAILED;
}

static int output_check(const cli_output *output) {
    struct stat info;
    if (strcmp(output->path, "-") == 0) return 0;
    int exists = stat(output->path, &info) == 0;
    if (exists && S_ISDIR(info.st_mode)) return refuse_output(output, "it is a folder; name a file");
    if (exists && !S_ISREG(info.st_mode))
        return access(output->path, W_OK) == 0 ? 0 : refuse_output(output, strerror(errno));
    if (strlen(output->path) >= 4096) return refuse_output(output, strerror(ENAMETOOLONG));
    int why = file_probe(output->path);
    return why ? refuse_output(output, strerror(why)) : 0;
}

int cli_outputs_check(const cli_command *command, const cli_output *outputs, int count,
                      const char *const *inputs) {
    for (int o = 0; o < count; o++) {
        if (!outputs[o].path) continue;
        if (!*outputs[o].path) return cli_usage(command, "%s needs a file's name", outputs[o].option);
        for (int i = 0; inputs[i]; i++)
            if (strcmp(inputs[i], "-") != 0 && same_file(outputs[o].path, inputs[i]))
                return cli_usage(command, "%s %s would overwrite what is read", outputs[o].option, inputs[i]);
        for (int other = 0; other < o; other++) {
            if (!outputs[other].path || !same_file(outputs[o].path, outputs[other].path)) continue;
            if (strcmp(outputs[o].path, "/dev/null") == 0) continue;
            return cli_usage(command, "%s and %s both write to %s", outputs[other].option, outputs[o].option,
                             strcmp(outputs[o].path, "-") == 0 ? "standard output" : outputs[o].path);
        }
        int status = output_check(&outputs[o]);
        if (status) return status;
    }
    return 0;
}
