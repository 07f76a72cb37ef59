// SPDX-License-Identifier: MIT
// Build-time program: compiles the parts of CUDA texts that know neither the list of K nor the plan's numbers, for one
// architecture (prebuilt.h). Needs no GPU. What OUT holds already is kept where it would be the same.
// usage: write_prebuilt OUT ARCHITECTURE FEATURES [NVRTC]    (90 stands for sm_90; FEATURES as a list of K: 1..64)
// NVRTC is as kmgen's --compiler. Without it OUT is empty where none is found.
#include "../../base/error.h"
#include "../../gen/source.h"
#include "../cache.h"
#include "../file.h"
#include "driver.h"
#include "prebuilt.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

enum { TEXTS_MAX = 8192, THREADS_MAX = 64 };

typedef struct text {
    char *text;
    int64_t size;
    char *packed; // NULL: to be made
    km_prebuilt_entry entry;
} text;

// What the threads share.
typedef struct work {
    km_nvrtc nvrtc;
    km_cache folder;
    int arch;
    text texts[TEXTS_MAX];
    int64_t count;
    atomic_llong next;
    atomic_int failed, compiled;
} work;

static work all;

// Texts -------------------------------------------------------------------------------------------------------

// `code` is the work's from now on.
static km_status add_text(char *code, int64_t size, km_error *err) {
    km_prebuilt_hash key = km_prebuilt_key(all.arch, code, size);
    for (int64_t i = 0; i < all.count; i++)
        if (all.texts[i].entry.key.high == key.high && all.texts[i].entry.key.low == key.low) {
            free(code);
            return KM_OK;
        }
    if (all.count == TEXTS_MAX)
        return km_fail(err, KM_ERROR_USAGE, "there are more than %d texts", TEXTS_MAX);
    all.texts[all.count++] = (text){.text = code, .size = size, .entry.key = key};
    return KM_OK;
}

static km_status add_parts(const km_plan *plan, km_error *err) {
    km_source source;
    km_source_part parts[KM_SOURCE_PARTS_MAX];
    int64_t count = 0, size;
    char *starter = NULL;
    km_source_init(&source);
    km_status status = KM_OK;
    KM_TRY_GOTO(km_source_emit(&source, plan, NULL, err));
    KM_TRY_GOTO(km_source_parts(parts, &count, source.text, err));
    for (int64_t i = 0; i < count && status == KM_OK; i++)
        if (!km_source_is_pass(&parts[i])) {
            status = add_text(parts[i].text, parts[i].size, err);
            parts[i].text = NULL;
        }
    km_source_parts_clear(parts, count);
    if (status == KM_OK) KM_TRY_GOTO(km_source_starter(&starter, &size, plan, NULL, err));
    if (starter) status = add_text(starter, size, err);
done:
    km_source_clear(&source);
    return status;
}

// The parts of one plan; none where it cannot be had, as forms that a number of features does not have.
static km_status add_plan(int64_t features, const char *clusters, const char *form, km_algorithm algorithm,
                          km_error *err) {
    km_spec spec;
    km_plan plan;
    km_plan_params params;
    km_status status = KM_OK;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_plan_params_init(&params);
    params.algorithm = algorithm;
    params.untuned = 1;
    spec.features = features;
    spec.target = (km_target){KM_TARGET_CUDA, all.arch};
    KM_TRY_GOTO(km_spec_set_clusters(&spec, clusters, err));
    if (form) KM_TRY_GOTO(km_spec_fix(&spec, "design", "tensor", err));
    if (form) KM_TRY_GOTO(km_spec_fix(&spec, "form", form, err));
    if (km_plan_make(&plan, &spec, &params, NULL) == KM_OK) status = add_parts(&plan, err);
done:
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    return status;
}

// Loading, seeding, finishing, silhouettes and relocation, which all lists of K have; seeding by halves, which lists
// with a K of 64 or more have; the algorithm tiles, for K up to 32 and up to 64; the starting passes of the forms of
// `tensor`, which are two.
static km_status add_features(int64_t features, km_error *err) {
    KM_TRY(add_plan(features, "2..5", NULL, KM_ALGORITHM_LLOYD, err));
    KM_TRY(add_plan(features, "2..5", NULL, KM_ALGORITHM_TILES, err));
    KM_TRY(add_plan(features, "2,64", NULL, KM_ALGORITHM_TILES, err));
    KM_TRY(add_plan(features, "2,64", NULL, KM_ALGORITHM_LLOYD, err));
    KM_TRY(add_plan(features, "2..9", "hi_lo", KM_ALGORITHM_LLOYD, err));
    KM_TRY(add_plan(features, "2..9", "distance", KM_ALGORITHM_LLOYD, err));
    KM_TRY(add_plan(features, "2..9", "rounded", KM_ALGORITHM_LLOYD, err));
    return add_plan(features, "2..9", "digits", KM_ALGORITHM_LLOYD, err);
}

// What is there already ---------------------------------------------------------------------------------------------

static void keep_packed(text *t, const km_prebuilt_entry *entry, const char *bytes, int64_t size) {
    if (entry->at < 0 || entry->packed_size <= 0 || entry->at > size - entry->packed_size) return;
    t->packed = malloc((size_t)entry->packed_size);
    if (!t->packed) return;
    memcpy(t->packed, bytes + entry->at, (size_t)entry->packed_size);
    t->entry = *entry;
}

static void keep_what_is_there(const char *path) {
    char *bytes = NULL;
    int64_t size = 0;
    km_prebuilt_head head;
    if (km_file_read(&bytes, &size, path, 0, NULL) != KM_OK || size < (int64_t)sizeof head) goto done;
    memcpy(&head, bytes, sizeof head);
    const km_prebuilt_entry *entries = (const km_prebuilt_entry *)(bytes + sizeof head);
    if (memcmp(head.magic, KM_PREBUILT_MAGIC, sizeof head.magic) != 0 || head.entries_count < 0 ||
        head.nvrtc_major != all.nvrtc.major || head.nvrtc_minor != all.nvrtc.minor ||
        size < (int64_t)sizeof head + head.entries_count * (int64_t)sizeof *entries)
        goto done;
    for (int64_t i = 0; i < all.count; i++) {
        const km_prebuilt_entry *entry =
            km_prebuilt_find(entries, head.entries_count, all.texts[i].entry.key);
        if (entry) keep_packed(&all.texts[i], entry, bytes, size);
    }
done:
    free(bytes);
}

// Compiling -----------------------------------------------------------------------------------------------------

static km_status pack(text *t, const char *log, int64_t log_size, const char *cubin, int64_t cubin_size,
                      km_error *err) {
    int64_t size = log_size + 1 + cubin_size;
    uLongf packed_size = compressBound((uLong)size);
    char *whole = malloc((size_t)size);
    t->packed = malloc(packed_size);
    km_status status = whole && t->packed ? KM_OK : km_fail_memory(err, "a part", size);
    if (status == KM_OK) {
        memcpy(whole, log, (size_t)log_size + 1);
        memcpy(whole + log_size + 1, cubin, (size_t)cubin_size);
        if (compress2((Bytef *)t->packed, &packed_size, (const Bytef *)whole, (uLong)size, 9) != Z_OK)
            status = km_fail(err, KM_ERROR_INTERNAL, "zlib cannot pack a part");
        t->entry.check = km_prebuilt_hash_of(whole, size);
        t->entry.packed_size = (int64_t)packed_size;
        t->entry.log_size = log_size + 1;
        t->entry.size = size;
    }
    free(whole);
    return status;
}

static km_status compile(text *t, km_error *err) {
    char source[KM_CACHE_PATH_MAX + 32], binary[KM_CACHE_PATH_MAX + 32], log[KM_CACHE_PATH_MAX + 32];
    char *log_bytes = NULL, *cubin = NULL;
    int64_t log_size, cubin_size;
    // Names of functions of a file of its own have the file's in them: it is the same in every build.
    unsigned long long name = t->entry.key.high;
    snprintf(source, sizeof source, "%s/%016llx.cu", all.folder.path, name);
    snprintf(binary, sizeof binary, "%s/%016llx.bin", all.folder.path, name);
    snprintf(log, sizeof log, "%s/%016llx.log", all.folder.path, name);
    km_status status = KM_OK;
    KM_TRY_GOTO(km_file_replace(source, t->text, t->size, err));
    KM_TRY_GOTO(km_nvrtc_compile(&all.nvrtc, all.arch, source, binary, log, NULL, err));
    KM_TRY_GOTO(km_file_read(&log_bytes, &log_size, log, 0, err));
    KM_TRY_GOTO(km_file_read(&cubin, &cubin_size, binary, 0, err));
    status = pack(t, log_bytes, log_size, cubin, cubin_size, err);
done:
    free(log_bytes);
    free(cubin);
    return status;
}

static void *compile_some(void *unused) {
    (void)unused;
    for (int64_t i; (i = atomic_fetch_add(&all.next, 1)) < all.count && !atomic_load(&all.failed);) {
        km_error err = {{0}};
        if (all.texts[i].packed) continue;
        atomic_fetch_add(&all.compiled, 1);
        if (compile(&all.texts[i], &err) == KM_OK) continue;
        if (!atomic_exchange(&all.failed, 1)) fprintf(stderr, "write_prebuilt: %s\n", err.text);
    }
    return NULL;
}

static void compile_all(void) {
    pthread_t threads[THREADS_MAX];
    long started = 0, wanted = sysconf(_SC_NPROCESSORS_ONLN);
    if (wanted > THREADS_MAX) wanted = THREADS_MAX;
    while (started + 1 < wanted && pthread_create(&threads[started], NULL, compile_some, NULL) == 0)
        started++;
    compile_some(NULL);
    for (long i = 0; i < started; i++) pthread_join(threads[i], NULL);
}

// Writing -------------------------------------------------------------------------------------------------------

static int by_key(const void *a, const void *b) {
    km_prebuilt_hash x = ((const text *)a)->entry.key, y = ((const text *)b)->entry.key;
    if (x.high != y.high) return x.high < y.high ? -1 : 1;
    return (x.low > y.low) - (x.low < y.low);
}

static km_status write_file(const char *path, km_error *err) {
    km_file_writer writer;
    km_prebuilt_head head = {KM_PREBUILT_MAGIC, all.arch, all.nvrtc.major, all.nvrtc.minor,
                             (int32_t)all.count};
    int64_t at = (int64_t)sizeof head + all.count * (int64_t)sizeof(km_prebuilt_entry);
    qsort(all.texts, (size_t)all.count, sizeof *all.texts, by_key);
    KM_TRY(km_file_begin(&writer, path, err));
    km_file_add(&writer, &head, sizeof head);
    for (int64_t i = 0; i < all.count; i++) {
        all.texts[i].entry.at = at;
        at += all.texts[i].entry.packed_size;
        km_file_add(&writer, &all.texts[i].entry, sizeof all.texts[i].entry);
    }
    for (int64_t i = 0; i < all.count; i++)
        km_file_add(&writer, all.texts[i].packed, all.texts[i].entry.packed_size);
    printf("sm_%d: %lld parts, %d compiled by NVRTC %d.%d, %.1f MiB\n", all.arch, (long long)all.count,
           atomic_load(&all.compiled), all.nvrtc.major, all.nvrtc.minor, (double)at / 0x1p20);
    return km_file_commit(&writer, err);
}

static km_status make(const char *path, const char *features, km_error *err) {
    km_spec list;
    km_status status = KM_OK;
    km_spec_init(&list);
    KM_TRY_GOTO(km_spec_set_clusters(&list, features, err));
    for (int64_t i = 0; i < list.clusters_count; i++) KM_TRY_GOTO(add_features(list.clusters[i], err));
    keep_what_is_there(path);
    KM_TRY_GOTO(km_cache_open_private(&all.folder, err));
    compile_all();
    km_cache_close(&all.folder);
    status = atomic_load(&all.failed) ? KM_ERROR_COMPILE : write_file(path, err);
done:
    km_spec_clear(&list);
    return status;
}

int main(int argc, char **argv) {
    km_error err = {{0}};
    if (argc != 4 && argc != 5) {
        fputs("usage: write_prebuilt OUT ARCHITECTURE FEATURES [NVRTC]\n", stderr);
        return 2;
    }
    const char *path = argc == 5 ? argv[4] : NULL;
    all.arch = (int)strtol(argv[2], NULL, 10);
    km_status status = km_nvrtc_open(&all.nvrtc, path, 0, &err);
    if (status == KM_OK) {
        status = make(argv[1], argv[3], &err);
    } else if (!path) {
        printf("sm_%d: no parts, as there is no NVRTC\n", all.arch);
        status = write_file(argv[1], &err);
    }
    if (err.text[0]) fprintf(stderr, "write_prebuilt: %s\n", err.text);
    for (int64_t i = 0; i < all.count; i++) {
        free(all.texts[i].text);
        free(all.texts[i].packed);
    }
    return status != KM_OK;
}
