// SPDX-License-Identifier: MIT
// What NVRTC's log says of each kernel: ptxas writes registers and spills there (--ptxas-options=-v).
#include "cuda.h"
#include <stdio.h>
#include <string.h>

// One line; non-zero when it is the last one about a kernel.
static int read_line(km_kernel_report *report, const char *line) {
    const char *name = strstr(line, "Function properties for "), *used = strstr(line, "Used ");
    const char *spill = strstr(line, "bytes stack frame, ");
    int stores, loads;
    if (name && sscanf(name, "Function properties for %255s", report->name) == 1) report->spilled_bytes = 0;
    if (spill &&
        sscanf(spill, "bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stores, &loads) == 2)
        report->spilled_bytes = stores + loads;
    return used && sscanf(used, "Used %d registers", &report->registers) == 1;
}

int km_nvrtc_next_kernel(km_kernel_report *report, const char **log) {
    *report = (km_kernel_report){0};
    while (**log) {
        char line[1024];
        size_t length = strcspn(*log, "\n");
        snprintf(line, sizeof line, "%.*s", (int)length, *log);
        *log += length + ((*log)[length] == '\n');
        if (read_line(report, line)) return 1;
    }
    return 0;
}

int km_cuda_is_of_pass(const char *source, const char *kernel) {
    char quoted[300];
    snprintf(quoted, sizeof quoted, "\"%s\"", kernel);
    return strstr(source, quoted) != NULL;
}

int64_t km_cuda_spills(char *kernel, int64_t size, const km_source *source, const char *log) {
    int64_t most = 0;
    km_kernel_report report;
    snprintf(kernel, (size_t)size, "%s", "");
    while (km_nvrtc_next_kernel(&report, &log)) {
        if (report.spilled_bytes <= most || !km_cuda_is_of_pass(source->text, report.name)) continue;
        most = report.spilled_bytes;
        snprintf(kernel, (size_t)size, "%s", report.name);
    }
    return most;
}
