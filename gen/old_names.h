// SPDX-License-Identifier: MIT
// Names that were others in the version before this one. They are read for one version, with a warning.
#ifndef KM_GEN_OLD_NAMES_H
#define KM_GEN_OLD_NAMES_H
#include <kmgen/spec.h>

#include <stddef.h>

// X(where, old, now): `where` is spec for a key of a spec, plan for one under `plan:`, else the key whose value it is
// (design, algorithm, form ...). The one list: specs, --set, tuning tables and heads of emitted files are
// read by it. A row goes with the next version.
#define KM_OLD_NAMES(X)                                                                                      \
    X(spec, restarts, n_init)                                                                                \
    X(design, shared, tiled)                                                                                 \
    X(design, blocks, gemm)                                                                                  \
    X(design, portable, prebuilt)                                                                            \
    X(algorithm, filter, tiles)                                                                              \
    X(plan, restarts_in_flight, concurrent_restarts)                                                         \
    X(plan, integers, int16_scores)                                                                          \
    X(plan, team, lanes_per_point)                                                                           \
    X(plan, stretches, segments)                                                                             \
    X(plan, resident, blocks_per_sm)                                                                         \
    X(plan, group, soa_points)                                                                               \
    X(sums, ranges, chunks)

// X(old, now, words): numbers of 0 or 1 that one number with words took the place of. Which word it is depends on the
// rest of the plan, so these are refused, with the words that 1 may have meant.
#define KM_REPLACED_NUMBERS(X)                                                                               \
    X(half_filter, form, "tiles_fp16 or resident_fp16")                                                      \
    X(few_clusters, form, "resident or resident_fp16")                                                       \
    X(sums_in_shared, form, "digits or rows")

// The sentence that refuses a number which was replaced, into `text`; 0: it is none of them.
int km_name_is_replaced(char *text, size_t size, const char *name);

// The name that is read today for `name`: itself, unless it is an old one. Then spec->warnings gets a line that begins
// with `place`, "" or "FILE:LINE:COLUMN: ", unless it has that line.
const char *km_name_today(km_spec *spec, const char *where, const char *name, const char *place);

// Adds the lines, each with its newline, that are not there, as far as there is room for whole ones.
void km_warnings_add(char warnings[KM_WARNINGS_MAX], const char *lines);

#endif
