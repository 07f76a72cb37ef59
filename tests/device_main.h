// SPDX-License-Identifier: MIT
// What programs begin and end with whose one suite runs on the CPU or on a GPU.
#ifndef KM_TESTS_DEVICE_MAIN_H
#define KM_TESTS_DEVICE_MAIN_H
#include "cuda_context.h"
#include "kernel_cache.h"
#include "quiet_check.h"
#include "scratch.h"
#include <kmgen/module.h>
#include <stdio.h>
#include <stdlib.h>

static char folder[] = "/tmp/kmgen-test-XXXXXX"; // the suite's own, removed at the end
static char cache[4096];                         // kernels that were compiled, for all tests

// Runs the suite. The program's status: 77 where it is for a GPU and there is none.
static inline int device_main(const char *name, int on_gpu, Suite *(*suite_of)(void)) {
    if (on_gpu && km_device_count() == 0) {
        printf("%s: skipped, no CUDA device\n", name);
        return 77;
    }
    if (on_gpu && !keep_cuda_context()) return 99;
    if (!mkdtemp(folder)) return 99;
    char own[64];
    snprintf(own, sizeof own, "%s/cache", folder);
    snprintf(cache, sizeof cache, "%s", kernel_cache(own));
    SRunner *runner = srunner_create(suite_of());
    if (on_gpu) srunner_set_fork_status(runner, CK_NOFORK); // a CUDA context does not outlive a fork
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    remove_folder(folder);
    return failed != 0;
}

#endif
