// SPDX-License-Identifier: MIT
// What the emitter and what compiles its texts must agree on.
#ifndef KM_GEN_SOURCE_H
#define KM_GEN_SOURCE_H
#include <kmgen/plan.h>

// The first line of a text that is no comment. The comment above it is the head: the spec, and the plan with its
// reasons.
const char *km_source_code(const char *text);

// Fixes in the spec, which is complete, what a given text was emitted with, as its head names it. KM_ERROR_PLAN where
// the head contradicts the spec (features, list of K, type, a fixed number), the target of the device, or the points.
// A text without a head is taken as it is.
km_status km_source_take_head(km_spec *spec, const char *text, const km_plan_params *plan, km_target device,
                              km_error *err);

// Text between such a line and its #endif is left out where kmgen compiles the text: the host part, and what that needs
// above the kernels.
#define KM_GUARD_CUDA "#if !defined(__CUDACC_RTC__) && !defined(KM_KERNELS_ONLY)"
#define KM_GUARD_CPU "#ifndef KM_KERNELS_ONLY"

// The code of a text without those parts: all that kmgen's binary depends on. Free with km_text_free.
km_status km_source_kernels(char **out, int64_t *size, const char *text, km_error *err);

#endif
