// SPDX-License-Identifier: MIT
#include "sample_tune.h"
#include "../gen/words.h"

#include "quiet_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void *zeros(int64_t count, size_t size) {
    void *memory = calloc((size_t)count, size);
    ck_assert_ptr_nonnull(memory);
    return memory;
}

sample_tune *sample_tune_make(int64_t capacity) {
    sample_tune *s = zeros(1, sizeof *s);
    km_tune_result *result = &s->result;
    km_target target = {KM_TARGET_CUDA, 90};
    s->capacity = capacity;
    s->candidates = zeros(capacity + 1, sizeof *s->candidates);
    km_spec_init(&result->spec);
    for (int k = 0; k < 8; k++) s->clusters[k] = k + 3;
    result->spec.clusters = s->clusters;
    result->spec.clusters_count = 8;
    result->spec.features = 8;
    km_device_facts_init(&result->facts, target);
    result->spec.target = target;
    strcpy(result->facts.name, "NVIDIA H200");
    result->driver = 580;
    strcpy(result->compiler, "nvrtc 13.0");
    result->points = 8388608;
    result->read_ms = .0625;
    result->candidates = s->candidates;
    result->noise = .00390625;
    result->elapsed_s = 41.25;
    return s;
}

void sample_tune_number(km_tune_candidate *candidate, const char *name, int64_t value) {
    ck_assert_int_lt(candidate->numbers_count, KM_FIXED_MAX);
    km_fixed *number = &candidate->numbers[candidate->numbers_count++];
    snprintf(number->name, sizeof number->name, "%s", name);
    number->value = value;
}

void sample_tune_word(km_tune_candidate *candidate, const char *name, const char *word) {
    ck_assert_str_eq(name, "form");
    sample_tune_number(candidate, name, km_word_find(KM_PARAM_form, word));
}

km_tune_candidate *sample_tune_add(sample_tune *s, km_design design, double ms) {
    ck_assert_int_lt(s->result.candidates_count, s->capacity);
    km_tune_candidate *candidate = &s->candidates[s->result.candidates_count++];
    *candidate = (km_tune_candidate){.design = design, .outcome = KM_TUNE_MEASURED};
    candidate->predicted_ms = ms * .9;
    candidate->memory_ms = ms * .41;
    candidate->issue_ms = ms * (design == KM_DESIGN_TENSOR ? .3 : .83);
    candidate->tensor_ms = design == KM_DESIGN_TENSOR ? ms * .6 : 0;
    candidate->ms = ms;
    candidate->spread_ms = ms / 333;
    candidate->samples = 5;
    sample_tune_number(candidate, "design", design);
    s->result.measured++;
    return candidate;
}

void sample_tune_outcome(km_tune_candidate *candidate, km_tune_outcome outcome, const char *reason) {
    candidate->outcome = outcome;
    candidate->ms = candidate->spread_ms = 0;
    candidate->samples = 0;
    snprintf(candidate->reason, sizeof candidate->reason, "%s", reason);
}

void sample_tune_choose(sample_tune *s, int64_t standard) {
    km_tune_result *result = &s->result;
    result->standard = result->best = standard;
    result->measured = 0;
    for (int64_t i = 0; i < result->candidates_count; i++) {
        int is_timed = s->candidates[i].outcome == KM_TUNE_MEASURED;
        result->measured += is_timed;
        if (is_timed && s->candidates[i].ms < s->candidates[result->best].ms) result->best = i;
    }
    if (s->candidates[result->best].ms > 0)
        result->gain = s->candidates[standard].ms / s->candidates[result->best].ms - 1;
}

static void on_gpu(km_tune_candidate *candidate, int32_t registers, int32_t blocks, int64_t block) {
    candidate->registers = registers;
    candidate->blocks_per_sm = blocks;
    candidate->occupancy = (double)(blocks * block) / 2048;
}

static void add_registers(sample_tune *s) {
    static const int64_t points[] = {1, 2, 3, 4, 6, 8}, blocks[] = {64, 128, 192, 256, 384, 512},
                         grids[] = {132, 264, 528, 1056};
    for (int p = 0; p < 6; p++) {
        for (int b = 0; b < 6; b++) {
            for (int g = 0; g < 4; g++) {
                double starved = fmax(1, 33000. / (double)(grids[g] * blocks[b]));
                double slow =
                    1 + .9 * fabs(log2((double)points[p] / 4)) + .4 * fabs(log2((double)blocks[b] / 256));
                km_tune_candidate *c = sample_tune_add(s, KM_DESIGN_REGISTERS, .1375 * slow * sqrt(starved));
                sample_tune_word(c, "form", "constant");
                sample_tune_number(c, "points_per_thread", points[p]);
                sample_tune_number(c, "block", blocks[b]);
                sample_tune_number(c, "grid", grids[g]);
                on_gpu(c, (int32_t)(40 + 22 * points[p]), (int32_t)(2048 / blocks[b] / 2), blocks[b]);
                if (points[p] == 8 && blocks[b] > 300)
                    sample_tune_outcome(c, KM_TUNE_SPILLS, "km_pass_0 spills 88 bytes with nvrtc 13.0");
            }
        }
    }
}

static void add_tensor(sample_tune *s) {
    static const char *const forms[] = {"rounded", "digits", "rows"};
    for (int f = 0; f < 3; f++) {
        for (int64_t b = 128; b <= 512; b += 128) {
            for (int64_t resident = 1; resident <= 4; resident++) {
                double slow = 1 + .3 * f + .1 * fabs((double)b / 128 - 3) + .2 * (double)(resident - 1);
                km_tune_candidate *c = sample_tune_add(s, KM_DESIGN_TENSOR, .0859375 * slow);
                sample_tune_word(c, "form", forms[f]);
                sample_tune_number(c, "block", b);
                sample_tune_number(c, "blocks_per_sm", resident);
                on_gpu(c, 168, (int32_t)resident, b);
                if (b * resident > 1024)
                    sample_tune_outcome(c, KM_TUNE_REFUSED, "nvrtc 13.0: line 47: \"too many\", it says");
                else if (f == 2 && b == 512)
                    sample_tune_outcome(c, KM_TUNE_WRONG, "sums of cluster 3 of K 7 differ by 12");
                else if (f == 2 && resident == 4)
                    sample_tune_outcome(c, KM_TUNE_UNMEASURED, "");
            }
        }
    }
}

static void add_tiled(sample_tune *s) {
    static const km_tune_outcome outcomes[] = {KM_TUNE_HUNG, KM_TUNE_MEMORY, KM_TUNE_FAILED};
    for (int64_t points = 32; points <= 256; points *= 2) {
        for (int64_t clusters = 16; clusters <= 128; clusters *= 2) {
            int64_t i = s->result.candidates_count;
            km_tune_candidate *c = sample_tune_add(s, KM_DESIGN_TILED, .25 + .01 * (double)(i % 7));
            sample_tune_word(c, "form", "tiles");
            sample_tune_number(c, "tile_points", points);
            sample_tune_number(c, "tile_clusters", clusters);
            on_gpu(c, 96, 2, 256);
            if (points == 256 && clusters > 16)
                sample_tune_outcome(c, outcomes[i % 3], "CUDA_ERROR_LAUNCH_TIMEOUT of cuCtxSynchronize()");
        }
    }
}

sample_tune *sample_tune_cuda(void) {
    sample_tune *s = sample_tune_make(256);
    add_registers(s);
    add_tensor(s);
    add_tiled(s);
    sample_tune_choose(s, 150); // a tensor one that is not among the ten fastest
    return s;
}

sample_tune *sample_tune_cpu(void) {
    sample_tune *s = sample_tune_make(256);
    km_target target = {KM_TARGET_CPU, KM_ISA_AVX2};
    km_device_facts_init(&s->result.facts, target);
    s->result.spec.target = target;
    strcpy(s->result.facts.name, "two cores");
    strcpy(s->result.compiler, "gcc 12.2.0");
    s->result.driver = 0;
    s->result.threads = 2;
    s->result.spec.type = KM_FLOAT64;
    for (int64_t tile = 2; tile <= 10; tile += 2) {
        for (int64_t vectors = 1; vectors <= 4; vectors++) {
            for (int64_t panel = 128; panel <= 512; panel *= 2) {
                km_tune_candidate *c = sample_tune_add(
                    s, KM_DESIGN_GEMM, 21 + fabs((double)(tile * vectors - 16)) + (double)panel / 128);
                sample_tune_number(c, "tile_clusters", tile);
                sample_tune_number(c, "vectors", vectors);
                sample_tune_number(c, "panel_clusters", panel);
            }
        }
    }
    for (int64_t lanes = 4; lanes <= 16; lanes *= 2)
        for (int64_t vectors = 1; vectors <= 4; vectors++) {
            km_tune_candidate *c = sample_tune_add(s, KM_DESIGN_LANES, 60. / (double)vectors + (double)lanes);
            sample_tune_number(c, "lanes", lanes);
            sample_tune_number(c, "vectors", vectors);
        }
    sample_tune_add(s, KM_DESIGN_PREBUILT, 48);
    sample_tune_choose(s, 5);
    return s;
}

void sample_tune_free(sample_tune *s) {
    free(s->candidates);
    free(s);
}
