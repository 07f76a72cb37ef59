// SPDX-License-Identifier: MIT
// Where the time of a fit went, from the program's begin to its end, as bars.
#include "cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static double begun_ms;

double cli_now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

void cli_times_begin(void) {
    begun_ms = cli_now_ms();
}

static void show(const char *name, double ms, double whole_ms) {
    enum { WIDTH = 50 };
    char bar[WIDTH + 1];
    int size = (int)lround(fmin(1, ms / whole_ms) * WIDTH);
    memset(bar, '#', (size_t)size);
    bar[size] = 0;
    char line[128];
    snprintf(line, sizeof line, "%-10s %9.1f ms %3.0f%%%s%s", name, ms, 100 * ms / whole_ms, size ? "  " : "",
             bar);
    cli_line(stderr, "%s", line);
}

void cli_times_show(const km_timing *timing, double open_ms, double write_ms) {
    const struct {
        const char *name;
        double ms;
    } phases[] = {{"open", fmax(0, open_ms - timing->parse_ms)},
                  {"parse", timing->parse_ms},
                  {"device", timing->device_ms},
                  {"send", timing->send_ms},
                  {"build", timing->build_ms},
                  {"read", timing->read_ms},
                  {"seed", timing->seed_ms},
                  {"sweep", timing->sweep_ms},
                  {"refine", timing->refine_ms},
                  {"finish", timing->finish_ms},
                  {"criteria", timing->criteria_ms},
                  {"write", write_ms},
                  {"free", timing->free_ms}};
    fflush(stdout); // it is part of the time, and comes before this on a terminal
    double whole_ms = cli_now_ms() - begun_ms, rest_ms = whole_ms;
    cli_line(stderr, "time, from the program's begin to its end:");
    for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) {
        rest_ms -= phases[i].ms;
        if (phases[i].ms > 0) show(phases[i].name, phases[i].ms, whole_ms);
    }
    show("other", fmax(0, rest_ms), whole_ms);
    show("whole", whole_ms, whole_ms);
}
