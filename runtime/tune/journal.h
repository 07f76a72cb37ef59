// SPDX-License-Identifier: MIT
// What a tuning measured, written down line by line, so that one that was stopped, however, goes on where it was.
#ifndef KM_RUNTIME_TUNE_JOURNAL_H
#define KM_RUNTIME_TUNE_JOURNAL_H
#include "../../base/error.h"
#include <kmgen/tune.h>

typedef struct km_journal {
    int file, lock; // -1: none
    char key[33];   // of what is tuned: lines of others are left alone
    char lock_path[4200], path[4200];
} km_journal;

// Opens FOLDER/NAME.journal, made where it is missing, and locks it for this process: two that measure at a time on one
// device would slow each other. `about`: the text that says what is tuned (shape, points, device, compiler, version).
// KM_ERROR_IO; KM_ERROR_USAGE: another process has it.
km_status km_journal_open(km_journal *journal, const char *folder, const char *name, const char *about,
                          km_error *err);
void km_journal_close(km_journal *journal);

// Fills the candidates that the journal knows; lines that are cut short or of something else are skipped. Returns how
// many.
int64_t km_journal_recall(const km_journal *journal, km_tune_candidate *candidates, int64_t count);
// Adds one.
km_status km_journal_add(km_journal *journal, const km_tune_candidate *candidate, km_error *err);
// Forgets what it knows of this key.
km_status km_journal_forget(km_journal *journal, km_error *err);

#endif
