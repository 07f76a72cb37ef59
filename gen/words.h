// SPDX-License-Identifier: MIT
// Words of specs and plans: designs, forms, types, targets, algorithms.
#ifndef KM_GEN_WORDS_H
#define KM_GEN_WORDS_H
#include "params.h"
#include <kmgen/plan.h>

// Target of a design; KM_TARGET_AUTO for KM_DESIGN_NONE.
km_target_kind km_design_target(km_design design);
// "registers, tensor and tiled": the designs of a target, `last` before the last of them. Returns `text`.
enum { KM_DESIGNS_TEXT = 96 };
const char *km_designs_text(char text[KM_DESIGNS_TEXT], km_target_kind target, const char *last);

const char *km_param_name(km_param param); // as in gen/params.h
km_param km_param_find(const char *name);  // KM_PARAM_COUNT: none has that name

// Some numbers of a plan are words (KM_WORDS in params.h): their value is the word's place in that list.
int km_param_has_words(km_param param);
const char *km_word_name(int64_t word); // "none" when out of range
int km_word_is_of(int64_t word, km_param param, km_design design);
int64_t km_word_find(km_param param, const char *name); // -1: the number has no such word
// "hi_lo, distance": the words of a number, of one design or (KM_DESIGN_NONE) of all. Returns `text`.
enum { KM_WORDS_TEXT = 192 };
const char *km_words_text(char text[KM_WORDS_TEXT], km_param param, km_design design);

// The value as a spec writes it: "256", or a word. Returns `text`.
enum { KM_VALUE_TEXT = 24 };
const char *km_value_text(char text[KM_VALUE_TEXT], km_param param, int64_t value);
// The same of a number by its name, `design` and `algorithm` too. Returns `text`.
const char *km_fixed_text(char text[KM_VALUE_TEXT], const km_fixed *number);
// Non-zero when that is a word.
int km_fixed_is_word(const km_fixed *number);

#endif
