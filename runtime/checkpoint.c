// SPDX-License-Identifier: MIT
#include "checkpoint.h"
#include "../base/clock.h"
#include "../base/log.h"
#include "../base/size.h"
#include "file.h"

#include <endian.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// The file: this line, then words of 8 bytes, little-endian: the key, how many numbers follow, the numbers (doubles),
// and the hash of all before it.
static const char magic[] = "kmgen checkpoint 2\n\n\n\n\n";
enum { MAGIC = sizeof magic, WORD = 8, HEAD = MAGIC + 2 * WORD };
enum {
    K_INDEX,
    RESTART,
    INERTIA,
    ITERATIONS,
    CONVERGED,
    IS_FIXED,
    HAS_MEANS,
    NUMBERS
}; // of a run, then km_model_numbers

static int64_t numbers_of(const km_checkpoint *c, int64_t k_index) {
    return NUMBERS + km_model_numbers(c->clusters[k_index], c->d);
}

static void put_word(unsigned char *to, uint64_t word) {
    word = htole64(word);
    memcpy(to, &word, WORD);
}

static uint64_t get_word(const char *from) {
    uint64_t word;
    memcpy(&word, from, WORD);
    return le64toh(word);
}

static km_status reserve(km_checkpoint *c, int64_t count, km_error *err) {
    if (c->count + count <= c->capacity) return KM_OK;
    int64_t capacity = km_max(2 * c->capacity, c->count + count);
    double *numbers = realloc(c->numbers, (size_t)capacity * sizeof *numbers);
    if (!numbers) return km_fail_memory(err, "the runs that are kept", capacity * WORD);
    c->numbers = numbers;
    c->capacity = capacity;
    return KM_OK;
}

void km_checkpoint_free(km_checkpoint *c) {
    free(c->numbers);
    c->numbers = NULL;
}

// Reading -----------------------------------------------------------------------------------------------------

// Whether the numbers are whole runs of this fit, each once.
static int are_runs(const km_checkpoint *c) {
    char *is_there = calloc((size_t)(c->clusters_count * c->restarts), 1);
    int64_t at = 0;
    while (is_there && at + NUMBERS <= c->count) {
        double k = c->numbers[at + K_INDEX], r = c->numbers[at + RESTART];
        if (!(k >= 0 && k < (double)c->clusters_count && r >= 0 && r < (double)c->restarts)) break;
        int64_t run = (int64_t)k * c->restarts + (int64_t)r;
        if (is_there[run]++) break;
        at += numbers_of(c, (int64_t)k);
    }
    free(is_there);
    return at == c->count;
}

static km_status check_whole(const char *path, const char *text, int64_t size, km_error *err) {
    int64_t words = (size - HEAD - WORD) / WORD;
    if (size < HEAD + WORD || memcmp(text, magic, MAGIC) != 0 || (size - HEAD) % WORD != 0 ||
        get_word(text + MAGIC + WORD) != (uint64_t)words ||
        get_word(text + size - WORD) != XXH3_64bits(text, (size_t)(size - WORD)))
        return km_fail(err, KM_ERROR_DATA, "%s is no checkpoint, or not a whole one", path);
    return KM_OK;
}

static km_status parse(km_checkpoint *c, const char *path, const char *text, int64_t size, km_error *err) {
    int64_t words = (size - HEAD - WORD) / WORD;
    KM_TRY(check_whole(path, text, size, err));
    if (get_word(text + MAGIC) != c->key)
        return km_fail(
            err, KM_ERROR_DATA,
            "%s is the checkpoint of another fit; resume with the same data, K, seed and other parameters",
            path);
    KM_TRY(reserve(c, words, err));
    for (int64_t i = 0; i < words; i++) {
        uint64_t bits = get_word(text + HEAD + i * WORD);
        memcpy(&c->numbers[i], &bits, WORD);
    }
    c->count = words;
    if (are_runs(c)) return KM_OK;
    return km_fail(err, KM_ERROR_DATA, "%s is no checkpoint, or not a whole one", path);
}

static km_status read_own(km_checkpoint *c, const char *path, km_error *err) {
    char *text;
    int64_t size;
    if (c->share && c->share->ranks->rank != 0) return KM_OK;
    KM_TRY(km_file_read(&text, &size, path, 0, err));
    km_status status = parse(c, path, text, size, err);
    free(text);
    return status;
}

km_status km_checkpoint_check(const char *path, km_error *err) {
    char *text;
    int64_t size;
    KM_TRY(km_file_read(&text, &size, path, 0, err));
    km_status status = check_whole(path, text, size, err);
    free(text);
    return status;
}

km_status km_checkpoint_read(km_checkpoint *c, const char *path, km_error *err) {
    KM_TRY(km_share_agree(c->share, read_own(c, path, err), err));
    double count = (double)c->count;
    KM_TRY(km_share_sum(c->share, &count, 1, err));
    km_status status = c->count == 0 ? reserve(c, (int64_t)count, err) : KM_OK;
    KM_TRY(km_share_agree(c->share, status, err));
    if (c->count == 0) {
        c->count = (int64_t)count;
        memset(c->numbers, 0, (size_t)c->count * sizeof *c->numbers);
    }
    KM_TRY(km_share_sum(c->share, c->numbers, c->count, err));
    km_kept_run run;
    for (int64_t at = 0; km_checkpoint_next(c, &at, &run);) c->runs++;
    km_log_line(c->log, KM_LOG_INFO, "checkpoint: %" PRId64 " of %" PRId64 " runs are taken from %s", c->runs,
                c->clusters_count * c->restarts, path);
    return KM_OK;
}

int km_checkpoint_next(const km_checkpoint *c, int64_t *at, km_kept_run *run) {
    if (*at >= c->count) return 0;
    double *numbers = c->numbers + *at;
    *run = (km_kept_run){(int64_t)numbers[K_INDEX],
                         (int64_t)numbers[RESTART],
                         numbers[INERTIA],
                         (int64_t)numbers[ITERATIONS],
                         (int32_t)numbers[CONVERGED],
                         (int32_t)numbers[IS_FIXED],
                         (int32_t)numbers[HAS_MEANS],
                         numbers + NUMBERS};
    *at += numbers_of(c, run->k_index);
    return 1;
}

// Writing -----------------------------------------------------------------------------------------------------

static km_status write_file(const km_checkpoint *c, km_error *err) {
    int64_t size = HEAD + c->count * WORD + WORD;
    unsigned char *bytes = malloc((size_t)size);
    if (!bytes) return km_fail_memory(err, "a checkpoint", size);
    memcpy(bytes, magic, MAGIC);
    put_word(bytes + MAGIC, c->key);
    put_word(bytes + MAGIC + WORD, (uint64_t)c->count);
    for (int64_t i = 0; i < c->count; i++) {
        uint64_t bits;
        memcpy(&bits, &c->numbers[i], WORD);
        put_word(bytes + HEAD + i * WORD, bits);
    }
    put_word(bytes + size - WORD, XXH3_64bits(bytes, (size_t)(size - WORD)));
    km_status status = km_file_write(c->path, bytes, size, err);
    free(bytes);
    return status;
}

void km_checkpoint_write(km_checkpoint *c) {
    km_error err = {{0}};
    if (!c->path || !c->is_new) return;
    c->written_ms = km_now_ms();
    c->is_new = 0;
    if (c->share && c->share->ranks->rank != 0) return;
    if (write_file(c, &err) != KM_OK)
        km_log_line(c->log, KM_LOG_WARNING, "no checkpoint is written: %s", err.text);
    else
        km_log_line(c->log, KM_LOG_INFO, "checkpoint: %lld runs in %s", (long long)c->runs, c->path);
}

km_status km_checkpoint_add(km_checkpoint *c, const km_kept_run *run, km_error *err) {
    int64_t numbers = numbers_of(c, run->k_index);
    KM_TRY(reserve(c, numbers, err));
    double *to = c->numbers + c->count;
    to[K_INDEX] = (double)run->k_index;
    to[RESTART] = (double)run->restart;
    to[INERTIA] = run->inertia;
    to[ITERATIONS] = (double)run->iterations;
    to[CONVERGED] = (double)run->converged;
    to[IS_FIXED] = (double)run->is_fixed;
    to[HAS_MEANS] = (double)run->has_means;
    memcpy(to + NUMBERS, run->centroids, (size_t)(numbers - NUMBERS) * sizeof *to);
    c->count += numbers;
    c->runs++;
    c->is_new = 1;
    if (km_now_ms() >= c->written_ms + c->every_ms) km_checkpoint_write(c);
    return KM_OK;
}
