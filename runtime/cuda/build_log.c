// SPDX-License-Identifier: MIT
// What NVRTC's log says of each kernel: ptxas writes registers and spills there (--ptxas-options=-v).
#include "cuda.h"
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// The integer in front of `word`, or 0 where the line does not have the word.
static int number_before(const char *line, const char *word) {
    const char *end = strstr(line, word), *at = end;
    while (at && at > line && isdigit((unsigned char)at[-1])) at--;
    return at ? (int)strtol(at, NULL, 10) : 0;
}

// One line; non-zero when it is the last one about a kernel.
static int read_line(km_kernel_report *report, const char *line) {
    static const char properties[] = "Function properties for ";
    const char *name = strstr(line, properties);
    if (name) {
        name += strlen(properties);
        snprintf(report->name, sizeof report->name, "%.*s", (int)strcspn(name, " \r"), name);
        report->spilled_bytes = 0;
    }
    if (strstr(line, " bytes stack frame, "))
        report->spilled_bytes =
            number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
    report->registers = number_before(line, " registers");
    return strstr(line, "Used ") && report->registers > 0;
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

int64_t km_cuda_spills(char *kernel, int64_t size, int64_t *registers, const km_source *source,
                       const char *log) {
    int64_t most = 0;
    km_kernel_report report;
    snprintf(kernel, (size_t)size, "%s", "");
    *registers = 0;
    while (km_nvrtc_next_kernel(&report, &log)) {
        if (!km_cuda_is_of_pass(source->text, report.name)) continue;
        *registers = km_max(*registers, report.registers);
        if (report.spilled_bytes <= most) continue;
        most = report.spilled_bytes;
        snprintf(kernel, (size_t)size, "%s", report.name);
    }
    return most;
}
