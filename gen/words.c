// SPDX-License-Identifier: MIT
#include "words.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const struct {
    const char *name;
    km_target_kind target;
} designs[KM_DESIGN_COUNT] = {[KM_DESIGN_NONE] = {"none", KM_TARGET_AUTO},
#define ROW(value, name, target, meaning) [KM_DESIGN_##value] = {#name, KM_TARGET_##target},
                              KM_DESIGNS(ROW)
#undef ROW
};

const char *km_design_name(km_design design) {
    return designs[(unsigned)design < KM_DESIGN_COUNT ? design : KM_DESIGN_NONE].name;
}

km_target_kind km_design_target(km_design design) {
    return designs[(unsigned)design < KM_DESIGN_COUNT ? design : KM_DESIGN_NONE].target;
}

const char *km_designs_text(char text[KM_DESIGNS_TEXT], km_target_kind target, const char *last) {
    int left = 0;
    size_t used = 0;
    for (int i = 0; i < KM_DESIGN_COUNT; i++) left += designs[i].target == target;
    for (int i = 0; i < KM_DESIGN_COUNT && used < KM_DESIGNS_TEXT; i++) {
        if (designs[i].target != target) continue;
        left--;
        if (used && !left)
            used += (size_t)snprintf(text + used, KM_DESIGNS_TEXT - used, " %s ", last);
        else if (used)
            used += (size_t)snprintf(text + used, KM_DESIGNS_TEXT - used, ", ");
        if (used < KM_DESIGNS_TEXT)
            used += (size_t)snprintf(text + used, KM_DESIGNS_TEXT - used, "%s", designs[i].name);
    }
    return text;
}

// Words of numbers ------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    km_param param;
    km_design design;
} words[KM_WORD_COUNT] = {
#define ROW(param, name, design, meaning) {#name, KM_PARAM_##param, KM_DESIGN_##design},
    KM_WORDS(ROW)
#undef ROW
};

const char *km_param_name(km_param param) {
    static const char *const names[KM_PARAM_COUNT] = {
#define ROW(name, lowest, highest, targets, tune, meaning) #name,
        KM_PARAMS(ROW)
#undef ROW
    };
    return names[param];
}

int km_param_has_words(km_param param) {
    for (int i = 0; i < KM_WORD_COUNT; i++)
        if (words[i].param == param) return 1;
    return 0;
}

const char *km_word_name(int64_t word) {
    return word >= 0 && word < KM_WORD_COUNT ? words[word].name : "none";
}

int km_word_is_of(int64_t word, km_param param, km_design design) {
    return word >= 0 && word < KM_WORD_COUNT && words[word].param == param && words[word].design == design;
}

int64_t km_word_find(km_param param, const char *name) {
    for (int i = 0; i < KM_WORD_COUNT; i++)
        if (words[i].param == param && !strcmp(words[i].name, name)) return i;
    return -1;
}

const char *km_words_text(char text[KM_WORDS_TEXT], km_param param, km_design design) {
    size_t used = 0;
    text[0] = 0;
    for (int i = 0; i < KM_WORD_COUNT && used < KM_WORDS_TEXT; i++)
        if (words[i].param == param && (!design || words[i].design == design))
            used +=
                (size_t)snprintf(text + used, KM_WORDS_TEXT - used, "%s%s", used ? ", " : "", words[i].name);
    return text;
}

const char *km_value_text(char text[KM_VALUE_TEXT], km_param param, int64_t value) {
    if (km_param_has_words(param))
        snprintf(text, KM_VALUE_TEXT, "%s", km_word_name(value));
    else
        snprintf(text, KM_VALUE_TEXT, "%" PRId64, value);
    return text;
}

km_param km_param_find(const char *name) {
    int param = 0;
    while (param < KM_PARAM_COUNT && strcmp(km_param_name((km_param)param), name) != 0) param++;
    return (km_param)param;
}

const char *km_fixed_text(char text[KM_VALUE_TEXT], const km_fixed *number) {
    km_param param = km_param_find(number->name);
    if (param < KM_PARAM_COUNT) return km_value_text(text, param, number->value);
    if (!strcmp(number->name, "design"))
        snprintf(text, KM_VALUE_TEXT, "%s", km_design_name((km_design)number->value));
    else if (!strcmp(number->name, "algorithm"))
        snprintf(text, KM_VALUE_TEXT, "%s", km_algorithm_name((km_algorithm)number->value));
    else
        snprintf(text, KM_VALUE_TEXT, "%" PRId64, number->value);
    return text;
}

int km_fixed_is_word(const km_fixed *number) {
    km_param param = km_param_find(number->name);
    if (param < KM_PARAM_COUNT) return km_param_has_words(param);
    return !strcmp(number->name, "design") || !strcmp(number->name, "algorithm");
}

// Others ------------------------------------------------------------------------------------------------------

const char *km_type_name(km_type type) {
    return type == KM_FLOAT64 ? "float64" : "float32";
}

const char *km_algorithm_name(km_algorithm algorithm) {
    static const char *const names[KM_ALGORITHM_COUNT] = {"auto", "lloyd", "tiles", "hamerly", "elkan"};
    return (unsigned)algorithm < KM_ALGORITHM_COUNT ? names[algorithm] : "none";
}

void km_target_text(char *text, int64_t size, km_target target) {
    static const char *const isas[] = {"cpu", "cpu:generic", "cpu:avx2", "cpu:avx512", "cpu:neon"};
    if (size < 1) return;
    if (target.kind == KM_TARGET_CUDA && target.arch)
        snprintf(text, (size_t)size, "cuda:sm_%" PRId32, target.arch);
    else if (target.kind == KM_TARGET_CUDA)
        snprintf(text, (size_t)size, "cuda");
    else if (target.kind == KM_TARGET_CPU && (uint32_t)target.arch < sizeof isas / sizeof *isas)
        snprintf(text, (size_t)size, "%s", isas[target.arch]);
    else
        snprintf(text, (size_t)size, "auto");
}
