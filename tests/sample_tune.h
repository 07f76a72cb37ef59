// SPDX-License-Identifier: MIT
// A tuning made by hand, for tests of what is written of one.
#ifndef KM_TESTS_SAMPLE_TUNE_H
#define KM_TESTS_SAMPLE_TUNE_H
#include <kmgen/tune.h>

// Candidates have times by a formula, the slowest about twelve times the fastest. The caller may change all but
// pointers.
typedef struct sample_tune {
    km_tune_result result;
    km_tune_candidate *candidates;
    int64_t capacity;
    int32_t clusters[8];
} sample_tune;

sample_tune *sample_tune_make(int64_t capacity); // of a GPU, without candidates
sample_tune *sample_tune_cuda(void);             // registers, tensor and tiled; each outcome is there
sample_tune *sample_tune_cpu(void);              // lanes, gemm and prebuilt, all measured
// The next candidate, measured in `ms`; its numbers are those that are added then.
km_tune_candidate *sample_tune_add(sample_tune *s, km_design design, double ms);
void sample_tune_number(km_tune_candidate *candidate, const char *name, int64_t value);
void sample_tune_word(km_tune_candidate *candidate, const char *name, const char *word);
void sample_tune_outcome(km_tune_candidate *candidate, km_tune_outcome outcome, const char *reason);
void sample_tune_choose(sample_tune *s, int64_t standard); // and the fastest as the best, and the gain
void sample_tune_free(sample_tune *s);

#endif
