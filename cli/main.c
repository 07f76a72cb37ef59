// SPDX-License-Identifier: MIT
// kmgen: the program. Finds the subcommand and runs it.
#include "cli.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

const cli_command *const cli_commands[] = {
    &cli_command_emit,       &cli_command_explain,
    &cli_command_fit,        &cli_command_predict,
    &cli_command_score,      &cli_command_explore,
    &cli_command_data,       &cli_command_tune,
    &cli_command_info,       &cli_command_cache,
    &cli_command_completion, &cli_command_help,
    &cli_command_version,    NULL,
};

static const cli_command *find(const char *name) {
    if (strcmp(name, "-h") == 0 || strcmp(name, "--help") == 0) return &cli_command_help;
    if (strcmp(name, "-V") == 0 || strcmp(name, "--version") == 0) return &cli_command_version;
    for (int c = 0; cli_commands[c]; c++)
        if (strcmp(cli_commands[c]->name, name) == 0) return cli_commands[c];
    return NULL;
}

static int refuse(const char *word) {
    const char *names[32];
    int count = 0;
    for (; cli_commands[count] && count < 31; count++) names[count] = cli_commands[count]->name;
    names[count] = NULL;
    struct stat info;
    if (stat(word, &info) == 0 && !S_ISDIR(info.st_mode))
        return cli_usage(NULL, "'%s' is no subcommand and no spec (.yaml); 'kmgen fit %s' clusters a table",
                         word, word);
    const char *similar = cli_suggest(word, names);
    if (similar) return cli_usage(NULL, "unknown subcommand '%s'; did you mean '%s'?", word, similar);
    return cli_usage(NULL, "unknown subcommand '%s'", word);
}

// What several ranks have something to do in.
static int is_for_ranks(const cli_command *command) {
    return command == &cli_command_fit || command == &cli_command_help || command == &cli_command_version ||
           command == &cli_command_info;
}

int cli_run(int argc, char **argv) {
    cli_times_begin();
    if (argc < 2) {
        cli_usage(NULL, "name a subcommand, e.g. 'kmgen fit DATA -k 2..10'");
        return CLI_USAGE;
    }
    // A file that may not grow any more (ulimit -f) is an error like a full disk: said, and the other outputs written.
    signal(SIGXFSZ, SIG_IGN);
    const cli_command *command = find(argv[1]);
    if (command != &cli_command_tune)
        cli_end_keeps_device(); // its workers measure on a device that nobody else uses
    int status;
    if (cli_ranks() && !is_for_ranks(command)) {
        status = cli_usage(NULL, "several ranks do 'fit' alone; run '%s' by kmgen", argv[1]);
    } else if (command) {
        status = command->run(command, argc - 1, argv + 1);
    } else if (argv[1][0] == '-' || cli_is_yaml(argv[1])) {
        status =
            cli_command_emit.run(&cli_command_emit, argc, argv); // kmgen SPEC.yaml = kmgen emit SPEC.yaml
    } else {
        status = refuse(argv[1]);
    }
    // What was printed must have arrived: a full disk behind "> file" is a failure too, and so is what a network's file
    // system says when a file is closed.
    errno = 0;
    int closed = dup(STDOUT_FILENO);
    if (fflush(stdout) != 0 || ferror(stdout) || (closed >= 0 && close(closed) != 0)) {
        cli_line(stderr, "kmgen: cannot write standard output: %s", strerror(errno ? errno : EIO));
        if (status == CLI_DONE) status = CLI_FAILED;
    }
    return status;
}

int main(int argc, char **argv) {
    cli_ranks_begin(&argc, &argv);
    cli_end(cli_ranks_end(cli_run(argc, argv)));
}
