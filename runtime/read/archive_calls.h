// SPDX-License-Identifier: MIT
// libarchive's functions that readers use, by its names; behind km_archive_open.
#ifndef KM_RUNTIME_READ_ARCHIVE_CALLS_H
#define KM_RUNTIME_READ_ARCHIVE_CALLS_H
#include "../library.h"
#include <archive.h>
#include <archive_entry.h>

#define KM_ARCHIVE_CALLS(X)                                                                                  \
    X(archive_entry_pathname)                                                                                \
    X(archive_errno)                                                                                         \
    X(archive_error_string)                                                                                  \
    X(archive_read_data)                                                                                     \
    X(archive_read_free)                                                                                     \
    X(archive_read_new)                                                                                      \
    X(archive_read_next_header)                                                                              \
    X(archive_read_open)                                                                                     \
    X(archive_read_open_memory)                                                                              \
    X(archive_read_support_filter_bzip2)                                                                     \
    X(archive_read_support_filter_xz)                                                                        \
    X(archive_read_support_filter_zstd)                                                                      \
    X(archive_read_support_format_raw)                                                                       \
    X(archive_read_support_format_zip)                                                                       \
    X(archive_set_error)

typedef struct km_archive_calls {
    KM_ARCHIVE_CALLS(KM_LIBRARY_POINTER)
} km_archive_calls;
extern km_archive_calls km_archive;

#define archive_entry_pathname (*km_archive.archive_entry_pathname)
#define archive_errno (*km_archive.archive_errno)
#define archive_error_string (*km_archive.archive_error_string)
#define archive_read_data (*km_archive.archive_read_data)
#define archive_read_free (*km_archive.archive_read_free)
#define archive_read_new (*km_archive.archive_read_new)
#define archive_read_next_header (*km_archive.archive_read_next_header)
#define archive_read_open (*km_archive.archive_read_open)
#define archive_read_open_memory (*km_archive.archive_read_open_memory)
#define archive_read_support_filter_bzip2 (*km_archive.archive_read_support_filter_bzip2)
#define archive_read_support_filter_xz (*km_archive.archive_read_support_filter_xz)
#define archive_read_support_filter_zstd (*km_archive.archive_read_support_filter_zstd)
#define archive_read_support_format_raw (*km_archive.archive_read_support_format_raw)
#define archive_read_support_format_zip (*km_archive.archive_read_support_format_zip)
#define archive_set_error (*km_archive.archive_set_error)

#endif
