// SPDX-License-Identifier: MIT
// From bytes to a command line, through the program itself: a word a line. Nothing may crash, every refusal is
// said, in plain characters, and what is refused as wrong usage leaves nothing behind. Words that are one too many
// stand at the end, so that all options are read and no work begins.
#include "fuzz.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int64_t fuzz_accepted;              // command lines of which only the words at the end were too many
int cli_run(int argc, char **argv); // cli/main.c
extern int cli_quiet, cli_verbose;

enum { WORDS_MAX = 64 };

static char folder[] = "/tmp/kmgen-fuzz.XXXXXX";
static int home = -1; // where the driver stands, and leaves a finding

static void leave(void) {
    rmdir(folder);
}

// An empty folder, in which a file that should not be there is seen.
static void begin(void) {
    home = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    must(home >= 0 && mkdtemp(folder), "no folder");
    must(setenv("HOME", folder, 1) == 0 && unsetenv("KMGEN_CACHE_DIR") == 0 &&
             unsetenv("XDG_CACHE_HOME") == 0 && unsetenv("XDG_DATA_HOME") == 0,
         "no environment");
    atexit(leave);
}

static void nothing_is_left(void) {
    DIR *there = opendir(folder);
    must(there != NULL, "no folder");
    for (const struct dirent *entry; (entry = readdir(there)) != NULL;)
        must(strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0, "a file was left behind");
    closedir(there);
}

// Runs the program; what it wrote to standard error is in `said`.
static int run(int argc, char **argv, char *said, size_t said_size) {
    int out = dup(STDOUT_FILENO), err = dup(STDERR_FILENO), null = open("/dev/null", O_RDWR | O_CLOEXEC);
    int words = memfd_create("stderr", MFD_CLOEXEC);
    must(out >= 0 && err >= 0 && null >= 0 && words >= 0, "no files");
    fflush(stdout);
    dup2(null, STDIN_FILENO);
    dup2(null, STDOUT_FILENO);
    dup2(words, STDERR_FILENO);
    cli_quiet = cli_verbose = 0;
    must(chdir(folder) == 0, "no folder");
    int status = cli_run(argc, argv);
    must(fchdir(home) == 0, "no way back");
    fflush(stdout);
    dup2(out, STDOUT_FILENO);
    dup2(err, STDERR_FILENO);
    ssize_t size = pread(words, said, said_size - 1, 0);
    said[size > 0 ? size : 0] = 0;
    close(out);
    close(err);
    close(null);
    close(words);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static int is_ready;
    char text[FUZZ_SIZE_MAX + 1], program[] = "kmgen", last[4][8] = {"many", "too", "words", "more"};
    char *argv[WORDS_MAX + 6] = {program}, said[1 << 16];
    int argc = 1;
    if (size > FUZZ_SIZE_MAX || memchr(bytes, 0, size) || memchr(bytes, '/', size))
        return 0; // no other folders
    if (!is_ready) begin();
    is_ready = 1;
    memcpy(text, bytes, size);
    text[size] = 0;
    for (char *word = text, *next; word && *word && argc < WORDS_MAX; word = next) {
        next = strchr(word, '\n');
        if (next) *next++ = 0;
        if (strncmp(word, "--w", 3) == 0) return 0; // tune --worker is a program of its own
        argv[argc++] = word;
    }
    for (int i = 0; i < 4; i++) argv[argc++] = last[i];
    int status = run(argc, argv, said, sizeof said);
    must(status >= 0 && status <= 2, "a status that does not exist");
    must(status == 0 || strstr(said, "kmgen") != NULL, "a refusal without a word");
    for (const unsigned char *c = (const unsigned char *)said; *c; c++)
        must((*c >= 32 && *c != 127) || *c == 10, "a character that is not plain");
    fuzz_accepted += status == 0 || strstr(said, "unexpected argument") != NULL;
    nothing_is_left();
    return 0;
}
