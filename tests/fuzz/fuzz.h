// SPDX-License-Identifier: MIT
// A fuzz target: LLVMFuzzerTestOneInput in a file of its own, with seeds in seeds/TARGET and words in TARGET.dict. The
// plain build links it with driver.c, a fixed number of mutations that are the same each time; with the meson option
// `libfuzzer` clang's libFuzzer drives it, guided by coverage (scripts/test --all). An input that was a finding stays
// in seeds/TARGET.
#ifndef KM_TESTS_FUZZ_H
#define KM_TESTS_FUZZ_H
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { FUZZ_SIZE_MAX = 8192 }; // bytes of an input

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

// Inputs that were taken, not refused: without them a target shows nothing. The driver looks at it.
extern int64_t fuzz_accepted;

static inline void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "a finding: %s\n", what);
    abort();
}

#endif
