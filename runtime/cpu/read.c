// SPDX-License-Identifier: MIT
// What reading memory once takes: the floor of every pass.
#include "../../base/clock.h"
#include "../../base/error.h"
#include "../../base/size.h"
#include "../threads.h"
#include "cpu.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static volatile uint64_t sum_used;

// Reads all words; the sum is used, so that no compiler leaves reads out.
static uint64_t read_words(const uint64_t *words, int64_t count, int64_t threads) {
    uint64_t sum = 0;
    (void)threads;
#pragma omp parallel for reduction(+ : sum) num_threads(threads)
    for (int64_t i = 0; i < count; i++) sum += words[i];
    return sum;
}

km_status km_cpu_read(km_device *device, double *ms, int64_t bytes, int64_t threads, int times,
                      km_error *err) {
    int64_t count = km_divide_up(bytes, 8);
    uint64_t *words = malloc((size_t)count * sizeof *words);
    (void)device;
    if (!words) return km_fail_memory(err, "what is read", bytes);
    memset(words, 1, (size_t)count * sizeof *words);
    threads = km_host_threads(threads);
    *ms = INFINITY;
    for (int i = 0; i < times; i++) {
        double began = km_now_ms();
        sum_used = read_words(words, count, threads);
        *ms = fmin(*ms, km_now_ms() - began);
    }
    free(words);
    return KM_OK;
}
