// SPDX-License-Identifier: MIT
// Writes a word to the file FAKE_CUDA_LOG names, if it does: what came first is tested by it.
#ifndef KM_TESTS_FAKE_NOTE_H
#define KM_TESTS_FAKE_NOTE_H
#include <stdio.h>
#include <stdlib.h>

static inline int fake_note(const char *word) {
    const char *path = getenv("FAKE_CUDA_LOG");
    FILE *log = path ? fopen(path, "a") : NULL;
    if (!log) return 0;
    fprintf(log, "%s\n", word);
    fclose(log);
    return 1;
}

#endif
