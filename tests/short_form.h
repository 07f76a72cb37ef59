// SPDX-License-Identifier: MIT
// What a test leaves out of its short form: scripts/test --all sets KMGEN_TEST_ALL=1, and its run with sanitizers,
// which make all of it slow, KMGEN_TEST_SAMPLE=1. CONTRIBUTING.md has the list.
#ifndef KM_TESTS_SHORT_FORM_H
#define KM_TESTS_SHORT_FORM_H
#include <stdlib.h>

static inline int is_set(const char *name) {
    const char *value = getenv(name);
    return value && *value;
}

static inline int is_whole(void) {
    return is_set("KMGEN_TEST_ALL");
}

static inline int is_sample(void) {
    return is_set("KMGEN_TEST_SAMPLE");
}

// On an emulated GPU (emulated.sh), which is slow: tests take fewer points; a few of them are its short form.
static inline int is_emulated(void) {
    return is_set("KMGEN_TEST_EMULATED");
}

static inline int is_few(void) {
    return is_emulated() && !is_whole();
}

// The C compiler of emitted kernels where a test is not about what it makes of them: one that optimises little. NULL:
// the one that kmgen takes.
static inline const char *quick_compiler(void) {
    return is_whole() || !is_set("KMGEN_TEST_QUICK_CC") ? NULL : getenv("KMGEN_TEST_QUICK_CC");
}

#endif
