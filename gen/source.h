// SPDX-License-Identifier: MIT
// What the emitter and what compiles its texts must agree on.
#ifndef KM_GEN_SOURCE_H
#define KM_GEN_SOURCE_H
#include "template.h"
#include <kmgen/plan.h>

// As km_template_expand, without double blank lines and with comments aligned, as in every emitted text.
km_status km_source_expand(km_text *out, const char *name, const km_env *env, const char *dir, km_error *err);

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

// A line behind the first one of a section (`// ==== `) whose code is compiled apart from that of others: then comes
// the name of the part. What is named `pass` belongs to the parts `pass/rest` and `pass/launches/0`, too; where there
// are such it is no part of its own.
#define KM_APART "// Compiled apart: "

// What is compiled apart: the sections of one name, of what stands before a slash in it, and those without a name,
// which belong to every part. Its text
// begins with the lines of the head that ask for options of the compiler ("// needs: ").
typedef struct km_source_part {
    char name[24];
    char *text; // free with km_text_free
    int64_t size;
} km_source_part;

// The text of a starting pass: kernels that take little time to compile, know neither the list of K nor numbers of the
// plan, and leave totals of the same bits as the plan's own, so that a fit may begin with them. `*out` NULL: the plan
// has none. Free with km_text_free.
km_status km_source_starter(char **out, int64_t *size, const km_plan *plan, const char *templates_dir,
                            km_error *err);

// The parts of a pass have this name, or begin with it and a slash.
#define KM_PASS_PART "pass"

int km_source_is_pass(const km_source_part *part); // also where a text is one part

enum {
    KM_SOURCE_PARTS_MAX = 20,
    KM_SOURCE_LAUNCH_PARTS_MAX = 8 // of them, those that launches of a pass have
};

// The parts of a text, in the order in which their names are first there; one part where there is no name. What the
// parts of one text have in common is all that another text of the same type and number of features shares with it:
// comments above the first section are in none.
km_status km_source_parts(km_source_part *parts, int64_t *count, const char *text, km_error *err);
void km_source_parts_clear(km_source_part *parts, int64_t count);

#endif
