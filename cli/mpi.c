// SPDX-License-Identifier: MIT
// kmgen-mpi: the program as one of several ranks. Rank 0 says what kmgen would; what the others say is kept, and told
// where one of them fails alone.
#include "cli.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static km_communicator ranks;
static int local_rank;           // on this machine
static int told = STDERR_FILENO; // the terminal's, also where stderr is kept
static int kept = -1;            // what a rank but 0 has said; -1: of rank 0, or it cannot be kept

// The interface of MPI counts in int.
static int sum(void *user, double *values, int64_t count) {
    enum { TOGETHER = 1 << 28 };
    (void)user;
    for (int64_t at = 0; at < count; at += TOGETHER) {
        int here = (int)(count - at < TOGETHER ? count - at : TOGETHER);
        if (MPI_Allreduce(MPI_IN_PLACE, values + at, here, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD) !=
            MPI_SUCCESS)
            return 1;
    }
    return 0;
}

static void end_all(void *user, const char *sentence) {
    (void)user;
    fflush(stderr);
    dprintf(told, "kmgen-mpi: rank %d of %d: %s\n", (int)ranks.rank, (int)ranks.size, sentence);
    MPI_Abort(MPI_COMM_WORLD, CLI_FAILED);
}

// What this rank prints is what rank 0 prints, too.
static void keep_quiet(void) {
    told = dup(STDERR_FILENO);
    kept = memfd_create("kmgen-mpi", MFD_CLOEXEC);
    if (kept >= 0) dup2(kept, STDERR_FILENO);
    if (!freopen("/dev/null", "w", stdout)) fclose(stdout);
}

void cli_ranks_begin(int *argc, char ***argv) {
    int level, rank, size, local = 1;
    MPI_Comm here;
    MPI_Init_thread(argc, argv, MPI_THREAD_FUNNELED, &level);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
    if (MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &here) == MPI_SUCCESS) {
        MPI_Comm_size(here, &local);
        MPI_Comm_rank(here, &local_rank);
        MPI_Comm_free(&here);
    }
    ranks = (km_communicator){rank, size, local, sum, end_all, NULL, NULL};
    if (rank > 0) keep_quiet();
}

const km_communicator *cli_ranks(void) {
    return &ranks;
}

int cli_ranks_device(int device) {
    int count = km_device_count();
    return count > 0 ? local_rank % count : device;
}

// Lines that were kept, each with the rank's name.
static void tell_kept(void) {
    char line[2048];
    fflush(stderr);
    FILE *said = kept < 0 || lseek(kept, 0, SEEK_SET) < 0 ? NULL : fdopen(dup(kept), "r");
    while (said && fgets(line, sizeof line, said)) {
        line[strcspn(line, "\n")] = 0;
        dprintf(told, "kmgen-mpi: rank %d of %d: %s\n", (int)ranks.rank, (int)ranks.size, line);
    }
    if (said) fclose(said);
}

int cli_ranks_agree(int exit) {
    int *exits = calloc((size_t)ranks.size, sizeof *exits), most = 0, first = -1;
    if (!exits) end_all(NULL, "no memory for the states of ranks");
    MPI_Allgather(&exit, 1, MPI_INT, exits, 1, MPI_INT, MPI_COMM_WORLD);
    for (int r = 0; r < (int)ranks.size; r++) {
        if (exits[r] && first < 0) first = r;
        most = exits[r] > most ? exits[r] : most;
    }
    free(exits);
    if (first > 0 && first == (int)ranks.rank) tell_kept();
    return most;
}

int cli_ranks_end(int exit) {
    exit = cli_ranks_agree(exit);
    MPI_Finalize();
    return exit;
}
