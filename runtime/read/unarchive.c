// SPDX-License-Identifier: MIT
// xz, zstd, bzip2 and zip, by libarchive. A stream is unpacked as it comes; of a zip file, whose directory stands at
// its end, the packed bytes lie in memory, mapped where they can be.
#include "unpack.h"
#include "../../base/error.h"
#include "../../gen/spec_fields.h"
#include "archive_calls.h"
#include "library_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PACKED_BYTES = 1 << 16, NAMES_SIZE = 400 };

km_archive_calls km_archive;

km_status km_archive_open(km_status failed, const char *what, km_error *err) {
    static km_library library =
        KM_LIBRARY("libarchive", KM_FILE_ARCHIVE, "libarchive13", KM_ARCHIVE_CALLS, &km_archive);
    return km_library_open(&library, failed, what, err);
}

typedef struct unarchive {
    km_input *source;
    struct archive *archive;
    const char *packing;
    km_status source_status; // of the last read of the source ...
    km_error source_error;   // ... and what it said
    km_table packed;         // a zip file's bytes
    char *entry;
    unsigned char bytes[PACKED_BYTES];
} unarchive;

static km_status failed(const unarchive *u, km_error *err) {
    const char *why = u->archive ? archive_error_string(u->archive) : NULL;
    if (u->source_status != KM_OK) return km_fail(err, u->source_status, "%s", u->source_error.text);
    if (km_table_is_lost(&u->packed)) return km_table_check(&u->packed, u->source->name, err);
    if (!u->archive || archive_errno(u->archive) == ENOMEM)
        return km_fail_memory(err, "unpacking", PACKED_BYTES);
    return km_fail(err, KM_ERROR_DATA, "%s is damaged or cut short: libarchive cannot unpack it (%s)",
                   u->source->name, why ? why : "unknown reason");
}

static void close_archive(void *state) {
    unarchive *u = state;
    if (u->archive) archive_read_free(u->archive);
    km_table_clear(&u->packed);
    free(u->entry);
    free(u);
}

static la_ssize_t read_source(struct archive *archive, void *user, const void **bytes) {
    unarchive *u = user;
    int64_t got = 0;
    *bytes = u->bytes;
    u->source_status = km_input_read(&got, u->bytes, PACKED_BYTES, u->source, &u->source_error);
    if (u->source_status == KM_OK) return (la_ssize_t)got;
    archive_set_error(archive, EIO, "%s", u->source_error.text);
    return -1;
}

// Streams ----------------------------------------------------------------------------------------------------

static km_status open_stream(unarchive *u, const km_packing *packing, km_error *err) {
    struct archive_entry *entry;
    struct archive *a = u->archive = archive_read_new();
    if (!a) return failed(u, err);
    int result = archive_read_support_format_raw(a);
    if (strcmp(packing->name, "xz") == 0) result |= archive_read_support_filter_xz(a);
    if (strcmp(packing->name, "zstd") == 0) result |= archive_read_support_filter_zstd(a);
    if (strcmp(packing->name, "bzip2") == 0) result |= archive_read_support_filter_bzip2(a);
    if (result != ARCHIVE_OK) // it would call a program
        return km_fail(err, KM_ERROR_DATA,
                       "%s is packed by %s, which the libarchive here was built without; unpack it with %s",
                       u->source->name, packing->name, packing->tool);
    if (archive_read_open(a, u, NULL, read_source, NULL) != ARCHIVE_OK) return failed(u, err);
    result = archive_read_next_header(a, &entry);
    return result == ARCHIVE_OK || result == ARCHIVE_WARN || result == ARCHIVE_EOF ? KM_OK : failed(u, err);
}

// Zip files --------------------------------------------------------------------------------------------------

static km_status open_zip(unarchive *u, const unsigned char *bytes, int64_t size, km_error *err) {
    if (u->archive) archive_read_free(u->archive);
    u->archive = archive_read_new();
    if (!u->archive || archive_read_support_format_zip(u->archive) != ARCHIVE_OK) return failed(u, err);
    return archive_read_open_memory(u->archive, bytes, (size_t)size) == ARCHIVE_OK ? KM_OK : failed(u, err);
}

// The next entry that may be a table: not a folder, nor one of those that systems add. NULL: there is none.
static km_status next_entry(const char **name, unarchive *u, km_error *err) {
    struct archive_entry *entry;
    for (;;) {
        int result = archive_read_next_header(u->archive, &entry);
        *name = NULL;
        if (result == ARCHIVE_EOF) return KM_OK;
        if (result != ARCHIVE_OK && result != ARCHIVE_WARN) return failed(u, err);
        const char *path = archive_entry_pathname(entry);
        if (!path) continue;
        const char *slash = strrchr(path, '/'), *base = slash ? slash + 1 : path;
        if (!*base || *base == '.' || strncmp(path, "__MACOSX/", 9) == 0) continue;
        *name = path;
        return KM_OK;
    }
}

// "points" is also points.npy, as in NumPy.
static int is_wanted(const char *name, const char *part) {
    size_t size = strlen(part);
    return strncmp(name, part, size) == 0 && (!name[size] || strcmp(name + size, ".npy") == 0);
}

// The entry that is wanted: part, or the only one.
static km_status choose_entry(unarchive *u, const char *part, km_error *err) {
    char names[NAMES_SIZE] = "", quoted[KM_QUOTED_SIZE];
    int64_t count = 0;
    int is_cut = 0;
    const char *name;
    for (;;) {
        KM_TRY(next_entry(&name, u, err));
        if (!name) break;
        size_t used = strlen(names);
        if (used + strlen(name) + 8 < sizeof names)
            snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", name);
        else if (!is_cut)
            snprintf(names + used, sizeof names - used, "%s...", used ? ", " : "");
        is_cut |= used + strlen(name) + 8 >= sizeof names;
        count++;
        if (part ? !is_wanted(name, part) : count > 1) continue;
        free(u->entry);
        u->entry = strdup(name);
        if (!u->entry) return km_fail_memory(err, "unpacking", (int64_t)strlen(name));
        if (part) return KM_OK;
    }
    km_text_plain(names);
    if (!count) return km_fail(err, KM_ERROR_DATA, "%s holds no file", u->source->name);
    if (part)
        return km_fail(err, KM_ERROR_DATA, "%s: there is no %s in it; it holds %s", u->source->name,
                       km_quoted(quoted, part), names);
    if (count > 1)
        return km_fail(err, KM_ERROR_DATA, "%s holds several files; name one of them, %s:NAME: %s",
                       u->source->name, u->source->name, names);
    return KM_OK;
}

static km_status open_entry(unarchive *u, const char *part, km_error *err) {
    const unsigned char *bytes;
    const char *name;
    int64_t size;
    KM_TRY(km_input_whole(&bytes, &size, &u->packed, u->source, err));
    KM_TRY(open_zip(u, bytes, size, err));
    KM_TRY(choose_entry(u, part, err));
    KM_TRY(open_zip(u, bytes, size, err));
    do {
        KM_TRY(next_entry(&name, u, err));
        if (!name) return failed(u, err);
    } while (strcmp(name, u->entry) != 0);
    return KM_OK;
}

// ------------------------------------------------------------------------------------------------------------

static km_status open_archive(void **state, km_input *source, const km_packing *packing, const char *part,
                              km_error *err) {
    KM_TRY(km_archive_open(KM_ERROR_DATA, source->name, err));
    unarchive *u = *state = calloc(1, sizeof *u);
    if (!u) return km_fail_memory(err, "unpacking", sizeof *u);
    u->source = source;
    km_status status = packing->is_archive ? open_entry(u, part, err) : open_stream(u, packing, err);
    if (status == KM_OK) return KM_OK;
    close_archive(u);
    *state = NULL;
    return status;
}

static km_status read_archive(int64_t *got, void *out, int64_t size, void *state, km_error *err) {
    unarchive *u = state;
    la_ssize_t count = archive_read_data(u->archive, out, (size_t)size);
    *got = count > 0 ? count : 0;
    return count < 0 || km_table_is_lost(&u->packed) ? failed(u, err) : KM_OK;
}

static const char *entry_of(const void *state) {
    return ((const unarchive *)state)->entry;
}

const km_unpack_library km_by_libarchive = {open_archive, read_archive, close_archive, entry_of};
