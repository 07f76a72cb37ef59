// SPDX-License-Identifier: MIT
#include "journal.h"
#include "../../base/text.h"
#include "../../gen/space.h"
#include "../file.h"
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>
#include <xxhash.h>

enum { JOURNAL_BYTES_MAX = 256 << 20 };

// Open and close ----------------------------------------------------------------------------------------------

static void key_of(char key[33], const char *about) {
    XXH128_hash_t hash = XXH3_128bits(about, strlen(about));
    snprintf(key, 33, "%016llx%016llx", (unsigned long long)hash.high64, (unsigned long long)hash.low64);
}

// Ends a line that a killed process left unfinished.
static void end_line(int file) {
    char last = '\n';
    off_t size = lseek(file, 0, SEEK_END);
    if (size > 0 && pread(file, &last, 1, size - 1) == 1 && last != '\n' && write(file, "\n", 1) != 1) return;
}

static km_status open_lines(km_journal *journal, km_error *err) {
    journal->file = open(journal->path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (journal->file >= 0) return KM_OK;
    return km_fail(err, KM_ERROR_IO, "cannot write %.500s: %s", journal->path, strerror(errno));
}

km_status km_journal_open(km_journal *journal, const char *folder, const char *name, const char *about,
                          km_error *err) {
    *journal = (km_journal){.file = -1, .lock = -1};
    key_of(journal->key, about);
    if (snprintf(journal->path, sizeof journal->path, "%s/%s.journal", folder, name) >=
        (int)sizeof journal->path - 8)
        return km_fail(err, KM_ERROR_IO, "the path of the folder %.100s... is too long", folder);
    snprintf(journal->lock_path, sizeof journal->lock_path, "%s/%s.lock", folder, name);
    KM_TRY(km_folder_make(folder, err));
    journal->lock = open(journal->lock_path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (journal->lock < 0)
        return km_fail(err, KM_ERROR_IO, "cannot write %.500s: %s", journal->lock_path, strerror(errno));
    if (flock(journal->lock, LOCK_EX | LOCK_NB) != 0) {
        close(journal->lock);
        journal->lock = -1;
        return km_fail(
            err, KM_ERROR_USAGE,
            "another tuning measures on this device (%.500s is locked), and two at a time would slow each "
            "other: wait until it is done, or stop it",
            journal->lock_path);
    }
    km_status status = open_lines(journal, err);
    if (status == KM_OK)
        end_line(journal->file);
    else
        km_journal_close(journal);
    return status;
}

void km_journal_close(km_journal *journal) {
    if (journal->file >= 0) close(journal->file);
    if (journal->lock >= 0) close(journal->lock); // which unlocks it
    journal->file = journal->lock = -1;
}

// Lines -------------------------------------------------------------------------------------------------------

// The candidate of a line; -1: none.
static int64_t find(const km_tune_candidate *candidates, int64_t count, const json_t *plan) {
    km_tune_candidate wanted;
    if (km_tune_plan_take(&wanted, plan, NULL) != KM_OK) return -1;
    for (int64_t i = 0; i < count; i++)
        if (km_space_is_same(&candidates[i], &wanted)) return i;
    return -1;
}

static int recall_line(const km_journal *journal, const char *line, size_t size,
                       km_tune_candidate *candidates, int64_t count) {
    json_t *object = json_loadb(line, size, 0, NULL);
    const char *key = json_string_value(json_object_get(object, "key"));
    int64_t at =
        key && !strcmp(key, journal->key) ? find(candidates, count, json_object_get(object, "plan")) : -1;
    int taken = at >= 0 && km_tune_found_take(&candidates[at], object);
    if (taken) {
        candidates[at].ms = json_number_value(json_object_get(object, "ms"));
        candidates[at].spread_ms = json_number_value(json_object_get(object, "spread_ms"));
        candidates[at].samples = (int32_t)json_integer_value(json_object_get(object, "samples"));
        if (candidates[at].outcome == KM_TUNE_MEASURED && !(candidates[at].ms > 0))
            candidates[at].outcome = KM_TUNE_UNMEASURED;
    }
    json_decref(object);
    return taken;
}

int64_t km_journal_recall(const km_journal *journal, km_tune_candidate *candidates, int64_t count) {
    char *text = NULL;
    int64_t size = 0, taken = 0;
    if (km_file_read(&text, &size, journal->path, JOURNAL_BYTES_MAX, NULL) != KM_OK) return 0;
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1)
        taken += recall_line(journal, line, (size_t)(end - line), candidates, count);
    free(text);
    return taken;
}

km_status km_journal_add(km_journal *journal, const km_tune_candidate *candidate, km_error *err) {
    json_t *object = km_tune_found_json(candidate);
    json_object_set_new(object, "key", json_string(journal->key));
    json_object_set_new(object, "plan", km_tune_plan_json(candidate));
    json_object_set_new(object, "ms", km_json_real(candidate->ms));
    json_object_set_new(object, "spread_ms", km_json_real(candidate->spread_ms));
    json_object_set_new(object, "samples", json_integer(candidate->samples));
    char *line = km_tune_line(object);
    if (!line) return km_fail_memory(err, "a line of the journal", 0);
    ssize_t size = (ssize_t)strlen(line), written = write(journal->file, line, (size_t)size);
    free(line);
    if (written == size) return KM_OK;
    return km_fail(err, KM_ERROR_IO, "cannot write %.500s: %s", journal->path,
                   written < 0 ? strerror(errno) : "the disk is full");
}

// The journal of other shapes takes this one's place in one step: who is killed meanwhile has the one or the other.
km_status km_journal_forget(km_journal *journal, km_error *err) {
    char *text = NULL;
    int64_t size = 0;
    km_text kept = {0};
    KM_TRY(km_file_read(&text, &size, journal->path, JOURNAL_BYTES_MAX, err));
    for (const char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        const char *key = strstr(line, journal->key);
        if (!key || key > end) km_text_add(&kept, line, end + 1 - line);
    }
    free(text);
    km_status status = kept.failed
                           ? km_fail_memory(err, "the journal", kept.size)
                           : km_file_replace(journal->path, kept.size ? kept.data : "", kept.size, err);
    km_text_clear(&kept);
    KM_TRY(status);
    close(journal->file);
    return open_lines(journal, err);
}
