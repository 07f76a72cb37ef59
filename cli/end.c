// SPDX-License-Identifier: MIT
// How the program ends: at once, when all is written. Giving a GPU's context back takes 60 ms, and the system does it
// as well. Who waits for a compiler, and sanitizers, which look for leaks then, end in the usual way.
#include "cli.h"

#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
enum { HAS_SANITIZER = 1 };
#else
enum { HAS_SANITIZER = 0 };
#endif

const char *const cli_rest_words[] = {"background", "wait", "leave", NULL};

static int waits; // for threads of the library

void cli_end_keeps_device(void) {
    if (!HAS_SANITIZER) km_device_keep(1);
}

void cli_end_waits(void) {
    waits = 1;
}

void cli_end(int status) {
    if (HAS_SANITIZER || waits) exit(status);
    fflush(NULL);
    _exit(status);
}

extern char **environ;

// A process of its own session, which holds nothing of this one: who reads what kmgen printed, or waits for its pipes
// to close, need not wait for it. One that cannot be started is no failure: the text stays for the next fit.
void cli_compile_in_background(const char *cache_dir) {
    enum { FILES_MAX = 1024 };
    posix_spawn_file_actions_t files;
    posix_spawnattr_t how;
    char *arguments[] = {"kmgen", "cache", "finish", "--quiet", "--cache-dir", (char *)cache_dir, NULL};
    pid_t child;
    for (int fd = STDERR_FILENO + 1; fd < FILES_MAX; fd++) {
        int flags = fcntl(fd, F_GETFD);
        if (flags >= 0) fcntl(fd, F_SETFD, flags | FD_CLOEXEC);
    }
    if (posix_spawn_file_actions_init(&files) != 0) return;
    if (posix_spawnattr_init(&how) == 0) {
        int failed = posix_spawnattr_setflags(&how, POSIX_SPAWN_SETSID);
        for (int fd = STDIN_FILENO; fd <= STDERR_FILENO && !failed; fd++)
            failed = posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
        if (!failed) posix_spawn(&child, "/proc/self/exe", &files, &how, arguments, environ);
        posix_spawnattr_destroy(&how);
    }
    posix_spawn_file_actions_destroy(&files);
}
