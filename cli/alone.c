// SPDX-License-Identifier: MIT
// kmgen runs alone; mpi.c stands in the place of this file in kmgen-mpi.
#include "cli.h"

void cli_ranks_begin(int *argc, char ***argv) {
    (void)argc;
    (void)argv;
}

const km_communicator *cli_ranks(void) {
    return NULL;
}

int cli_ranks_device(int device) {
    return device;
}

int cli_ranks_agree(int exit) {
    return exit;
}

int cli_ranks_end(int exit) {
    return exit;
}
