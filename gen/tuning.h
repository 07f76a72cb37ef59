// SPDX-License-Identifier: MIT
// Tuning tables: what was measured on one device, as a text that people read, and which of it serves a plan
// (docs/tuning.md). Pure: who reads and writes the files is elsewhere (runtime/).
#ifndef KM_GEN_TUNING_H
#define KM_GEN_TUNING_H
#include "../base/error.h"
#include <kmgen/plan.h>

// One shape that was measured. Its name in a table: features, the list of K, type, weights, threads, points_from.
typedef struct km_tuning_entry {
    int64_t features, clusters_count;
    int32_t *clusters; // as in km_spec
    km_type type;
    int64_t points;      // n that was measured
    int64_t points_from; // the entry serves plans of as many points or more, and of an unknown number
    int64_t threads;     // CPU: threads it was measured with; 0 on CUDA
    int32_t weighted;
    km_fixed numbers[KM_FIXED_MAX]; // design among them, as in km_spec.fixed
    int64_t numbers_count;
    double ms;         // of a pass of one restart
    double default_ms; // ... of the cost model's own plan beside it; 0: unknown
    double read_ms;    // reading the points once; 0: unknown
    char templates[17], compiler[64], version[24], date[16];
    int32_t line; // of the text, from 1; 0: from no text
} km_tuning_entry;

// The table of a device. `entries` belong to it, each with its list of K.
typedef struct km_tuning {
    char device[128];    // km_device_facts.name
    int32_t device_line; // of the text, from 1; 0: from no text
    km_target target;    // with its architecture
    int32_t driver;      // its major version; 0 on a CPU
    km_tuning_entry *entries;
    int64_t entries_count;
    char
        warnings[KM_WARNINGS_MAX]; // a line for each old name that was read as the one of today (old_names.h)
} km_tuning;

void km_tuning_init(km_tuning *tuning);
void km_tuning_clear(km_tuning *tuning);

// Reads a table into an initialised one. KM_ERROR_SPEC with "path:line:column: ...": it is as it was.
km_status km_tuning_parse(km_tuning *tuning, const char *text, int64_t size, const char *path, km_error *err);

// The table as text that km_tuning_parse reads back to the same: the same bytes each time, whatever the locale. Times
// are written to the nanosecond.
km_status km_tuning_to_yaml(char **out, const km_tuning *tuning, km_error *err);

// Copies an entry into the table, in place of one of the same name. Entries stand in the order of their names.
km_status km_tuning_put(km_tuning *tuning, const km_tuning_entry *entry, km_error *err);

// A device as part of a file's name: "NVIDIA H200" is nvidia_h200. KM_TUNING_NAME_MAX bytes are enough for all names.
enum { KM_TUNING_NAME_MAX = 128 };
void km_tuning_name(char *text, int64_t size, const char *device);

// The name of a table without its .yaml: the device's, and on a CPU the instruction set's behind it, as one processor
// runs several: amd_epyc_avx2, amd_epyc_avx512.
void km_tuning_table_name(char *text, int64_t size, const char *device, km_target target);

// What an entry's numbers were measured with: XXH3 of the embedded templates of the design's pass, 16 hexadecimal
// digits. These are its folder, the words that it uses, and the vectors of the target's instruction set; other words,
// steps around the pass and the host part do not count. The architecture of a GPU does not matter.
void km_templates_hash(char text[17], km_design design, km_target target);

#endif
