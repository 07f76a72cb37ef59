// SPDX-License-Identifier: MIT
// Files of other programs, which are not read: each with a command that writes what is.
#include "../../base/error.h"
#include "reader.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

typedef struct foreign {
    const char *name;
    const char *extensions[4];
    const char *magic; // NULL: its first bytes do not say
    int64_t magic_at, magic_size;
    const char *command; // %s: the file
} foreign;

#define PANDAS(reader)                                                                                       \
    "python3 -c \"import pandas; pandas." reader "('%s').to_csv('table.csv', index=False)\""
#define ARROW_STREAM                                                                                         \
    "python3 -c \"import sys, pyarrow.ipc as i, pyarrow.csv as c; "                                          \
    "c.write_csv(i.open_stream(sys.stdin.buffer).read_all(), sys.stdout.buffer)\" | kmgen fit -"

static const foreign foreigns[] = {
    {"Parquet", {".parquet", ".pq"}, "PAR1\x15", 0, 5, PANDAS("read_parquet")},
    {"Feather (Arrow)", {".feather", ".arrow"}, "ARROW1\0\0", 0, 8, PANDAS("read_feather")},
    {"a stream of Arrow", {".arrows"}, "\xff\xff\xff\xff\x78\1\0\0", 0, 4, ARROW_STREAM},
    {"ORC", {".orc"}, NULL, 0, 0, PANDAS("read_orc")},
    {"an Excel table", {".xlsx", ".xlsm"}, "[Content_Types].xml", 30, 19, PANDAS("read_excel")},
    {"an Excel table", {".xls"}, "\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", 0, 8, PANDAS("read_excel")},
    {"an Excel table", {NULL}, "docProps/", 30, 9, PANDAS("read_excel")},
    {"an OpenDocument table", {".ods"}, "mimetypeapplication", 30, 19, PANDAS("read_excel")},
    {"a Stata table", {".dta"}, "<stata_dta>", 0, 11, PANDAS("read_stata")},
    {"a SAS table", {".sas7bdat", ".xpt"}, NULL, 0, 0, PANDAS("read_sas")},
    {"an SPSS table", {".sav", ".zsav"}, "$FL2@(#)", 0, 8, PANDAS("read_spss")},
    {"a pickle of Python", {".pkl", ".pickle"}, NULL, 0, 0, PANDAS("read_pickle")},
    {"JSON",
     {".jsonl", ".ndjson"},
     NULL,
     0,
     0,
     "python3 -c \"import pandas; pandas.read_json('%s', lines=True).to_csv('table.csv', index=False)\""},
    {"JSON", {".json"}, NULL, 0, 0, PANDAS("read_json")},
    {"MATLAB 7.3",
     {NULL},
     "MATLAB 7.3 MAT-file",
     0,
     19,
     "python3 -c \"import h5py, numpy; numpy.save('table.npy', h5py.File('%s')['NAME'][()].T)\" (NAME: of "
     "the "
     "matrix)"},
    {"MATLAB",
     {".mat"},
     "MATLAB 5.0 MAT-file",
     0,
     19,
     "python3 -c \"import scipy.io, numpy; numpy.save('table.npy', scipy.io.loadmat('%s')['NAME'])\" (NAME: "
     "of the "
     "matrix)"},
    {"an object of R",
     {".rds"},
     NULL,
     0,
     0,
     "Rscript -e \"write.csv(readRDS('%s'), 'table.csv', row.names = FALSE)\""},
    {"a workspace of R",
     {".rdata", ".rda"},
     NULL,
     0,
     0,
     "Rscript -e \"load('%s'); write.csv(NAME, 'table.csv', row.names = FALSE)\" (NAME: of the table)"},
    {"a SQLite database",
     {".sqlite", ".sqlite3", ".db"},
     "SQLite format 3",
     0,
     16,
     "sqlite3 -header -csv %s \"select * from NAME\" > table.csv (NAME: of the table)"},
    {"a tar archive", {".tar", ".tgz"}, "ustar", 257, 5, "tar -xf %s"},
    {NULL, {NULL}, NULL, 0, 0, NULL},
};

static int has_extension(const char *file, const char *const *extensions) {
    size_t size = strlen(file);
    for (int i = 0; i < 4 && extensions[i]; i++) {
        size_t end = strlen(extensions[i]);
        if (size > end && strcasecmp(file + size - end, extensions[i]) == 0) return 1;
    }
    return 0;
}

static int has_magic(const km_input *input, const foreign *f) {
    return f->magic && input->head_size >= f->magic_at + f->magic_size &&
           memcmp(input->head + f->magic_at, f->magic, (size_t)f->magic_size) == 0;
}

// A .json with an object a line.
static int is_json_lines(const km_input *input) {
    const unsigned char *line = memchr(input->head, '\n', (size_t)input->head_size);
    return line && input->head[0] == '{' && line > input->head && line[-1] == '}' &&
           line + 1 < input->head + input->head_size && line[1] == '{';
}

static const foreign *json_lines(void) {
    const foreign *f = foreigns;
    while (!f->extensions[0] || strcmp(f->extensions[0], ".jsonl") != 0) f++;
    return f;
}

// The file as a command may have it: a name that a shell reads as it stands, else a word for it.
static const char *word_of(const char *file) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._/+-";
    return file[strspn(file, plain)] || *file == '-' || strlen(file) > 100 ? "FILE" : file;
}

km_status km_foreign_refuse(const km_input *input, km_error *err) {
    const char *file = km_input_file(input);
    char command[400];
    const foreign *f = foreigns;
    while (f->name && !has_magic(input, f)) f++;
    if (!f->name)
        for (f = foreigns; f->name && !has_extension(file, f->extensions);) f++;
    if (!f->name) return KM_OK;
    if (f->extensions[0] && strcmp(f->extensions[0], ".json") == 0 && is_json_lines(input)) f = json_lines();
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(command, sizeof command, f->command, word_of(file));
#pragma GCC diagnostic pop
    return km_fail(err, KM_ERROR_DATA, "%s is %s, which is not read; convert it: %s", input->name, f->name,
                   command);
}
