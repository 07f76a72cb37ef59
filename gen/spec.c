// SPDX-License-Identifier: MIT
// A spec and the spelling of each of its values. gen/spec_yaml.c reads whole files with these.
#include "../base/error.h"
#include "../base/text.h"
#include "old_names.h"
#include "spec_fields.h"
#include "words.h"
#include <kmgen/plan.h>

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ITER = 300 }; // the defaults ...
#define TOL 1e-4         // ... of scikit-learn

// The least and the largest compute capability (times ten) that a target may name.
enum { SM_MIN = 50, SM_MAX = 999 };

void km_spec_init(km_spec *spec) {
    *spec = (km_spec){.name = "kmeans",
                      .type = KM_FLOAT32,
                      .n_init = 10,
                      .max_iter = MAX_ITER,
                      .tol = TOL,
                      .refine = KM_REFINE_AUTO};
}

void km_spec_clear(km_spec *spec) {
    free(spec->clusters);
    km_spec_init(spec);
}

km_status km_spec_copy(km_spec *to, const km_spec *from, km_error *err) {
    if (to == from) return KM_OK;
    int32_t *clusters = NULL;
    if (from->clusters_count) {
        size_t bytes = (size_t)from->clusters_count * sizeof *clusters;
        clusters = malloc(bytes);
        if (!clusters) return km_fail_memory(err, "the list of K", (int64_t)bytes);
        memcpy(clusters, from->clusters, bytes);
    }
    free(to->clusters);
    *to = *from;
    to->clusters = clusters;
    return KM_OK;
}

// Words ------------------------------------------------------------------------------------------------------

const char *km_quoted(char buffer[KM_QUOTED_SIZE], const char *text) {
    int size = 0;
    buffer[size++] = '"';
    for (int i = 0; text[i]; i++) {
        int is_start = ((unsigned char)text[i] & 0xc0) != 0x80; // of a character
        if (i >= 44 || (i >= 40 && is_start)) {
            memcpy(buffer + size, "...", 3);
            size += 3;
            break;
        }
        unsigned char byte = (unsigned char)text[i];
        buffer[size++] = (char)(byte < 32 || byte == 127 ? ' ' : byte);
    }
    buffer[size++] = '"';
    buffer[size] = 0;
    return buffer;
}

int km_integer_parse(int64_t *value, const char *text) {
    int negative = *text == '-';
    const char *digit = text + negative;
    if (*digit == '0' && digit[1]) return 0; // 010 is eight in C and ten elsewhere
    if (!*digit) return 0;
    int64_t sum = 0;
    for (; *digit; digit++) {
        if (*digit < '0' || *digit > '9') return 0;
        if (__builtin_mul_overflow(sum, (int64_t)10, &sum) ||
            __builtin_add_overflow(sum, (int64_t)(*digit - '0'), &sum))
            sum = INT64_MAX;
    }
    *value = negative ? -sum : sum;
    return 1;
}

static int edit_distance(const char *a, const char *b) {
    enum { LONGEST = 48 };
    size_t a_size = strlen(a), b_size = strlen(b);
    if (a_size > LONGEST || b_size > LONGEST) return LONGEST;
    int row[LONGEST + 1];
    for (size_t j = 0; j <= b_size; j++) row[j] = (int)j;
    for (size_t i = 1; i <= a_size; i++) {
        int diagonal = row[0];
        row[0] = (int)i;
        for (size_t j = 1; j <= b_size; j++) {
            int best = diagonal + (a[i - 1] != b[j - 1]);
            if (row[j] + 1 < best) best = row[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            diagonal = row[j];
            row[j] = best;
        }
    }
    return row[b_size];
}

const char *km_suggest(const char *word, const char *const *candidates) {
    const char *best = NULL;
    int best_distance = 1 + (int)strlen(word) / 2; // half of the word must be right
    for (; *candidates; candidates++) {
        int distance = edit_distance(word, *candidates);
        if (distance >= best_distance) continue;
        best_distance = distance;
        best = *candidates;
    }
    return best;
}

// Fails with "KEY must be EXPECTED, got TEXT", and the accepted word most like TEXT where one is similar.
static km_status refuse(const char *key, const char *expected, const char *text, const char *const *words,
                        km_error *err) {
    char got[KM_QUOTED_SIZE];
    const char *similar = words ? km_suggest(text, words) : NULL;
    return km_fail(err, KM_ERROR_SPEC, "%s must be %s, got %s%s%s%s", key, expected,
                   *text ? km_quoted(got, text) : "nothing", similar ? "; did you mean " : "",
                   similar ? similar : "", similar ? "?" : "");
}

static km_status integer_in(int64_t *value, const char *key, const char *text, int64_t lowest,
                            int64_t highest, km_error *err) {
    int64_t number;
    if (!km_integer_parse(&number, text)) {
        char expected[64];
        snprintf(expected, sizeof expected, "an integer %" PRId64 "..%" PRId64, lowest, highest);
        return refuse(key, expected, text, NULL, err);
    }
    if (number < lowest || number > highest)
        return km_fail(err, KM_ERROR_SPEC, "%s must be %" PRId64 "..%" PRId64 ", got %.40s", key, lowest,
                       highest, text);
    *value = number;
    return KM_OK;
}

// Fields -----------------------------------------------------------------------------------------------------

// Words of C and C++ that no kernel can be named, since its source must compile as both.
static int is_keyword(const char *word) {
    static const char keywords[] =
        " alignas alignof and and_eq asm auto bitand bitor bool break case catch char char16_t char32_t "
        "class compl "
        "const const_cast constexpr continue decltype default delete do double dynamic_cast else enum "
        "explicit "
        "export extern false float for friend goto if inline int long main mutable namespace new noexcept "
        "not "
        "not_eq nullptr operator or or_eq private protected public register reinterpret_cast restrict return "
        "short "
        "signed sizeof static static_assert static_cast struct switch template this thread_local throw true "
        "try "
        "typedef typeid typename union unsigned using virtual void volatile wchar_t while xor xor_eq ";
    char spaced[KM_NAME_MAX + 2];
    snprintf(spaced, sizeof spaced, " %s ", word);
    return strstr(keywords, spaced) != NULL;
}

static km_status set_name(km_spec *spec, const char *text, km_error *err) {
    const char *expected = "a C identifier (letters, digits and _, no digit first, at most 63 bytes)";
    size_t size = 0;
    for (; text[size]; size++) {
        char c = text[size];
        int letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        int digit = c >= '0' && c <= '9';
        if (!letter && (!digit || size == 0)) return refuse("name", expected, text, NULL, err);
    }
    if (size == 0 || size >= sizeof spec->name) return refuse("name", expected, text, NULL, err);
    if (is_keyword(text)) return refuse("name", "no keyword of C or C++", text, NULL, err);
    memcpy(spec->name, text, size + 1);
    return KM_OK;
}

static km_status set_features(km_spec *spec, const char *text, km_error *err) {
    return integer_in(&spec->features, "features", text, 1, KM_FEATURES_MAX, err);
}

static km_status set_type(km_spec *spec, const char *text, km_error *err) {
    static const char *const words[] = {"float32", "float64", "f32", "f64", NULL};
    for (int i = 0; words[i]; i++) {
        if (strcmp(text, words[i]) != 0) continue;
        spec->type = i % 2 ? KM_FLOAT64 : KM_FLOAT32;
        return KM_OK;
    }
    return refuse("type", "float32 or float64", text, words, err);
}

static km_status set_restarts(km_spec *spec, const char *text, km_error *err) {
    spec->n_init_given = 1;
    return integer_in(&spec->n_init, "n_init", text, 1, KM_N_INIT_MAX, err);
}

static km_status set_max_iter(km_spec *spec, const char *text, km_error *err) {
    return integer_in(&spec->max_iter, "max_iter", text, 1, INT64_MAX, err);
}

// A number as C and YAML write it, whatever the locale.
static km_status set_tol(km_spec *spec, const char *text, km_error *err) {
    char *end;
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    double value = strtod_l(text, &end, c);
    freelocale(c);
    if (text[0] < '0' || text[0] > '9' || text[strspn(text, "0123456789.eE+-")] || *end || !isfinite(value))
        return refuse("tol", "a number of 0 or more such as 1e-4", text, NULL, err);
    spec->tol = value;
    return KM_OK;
}

km_status km_spec_set_refine(km_spec *spec, const char *text, km_error *err) {
    static const char *const words[] = {"auto", "none", NULL};
    spec->refine = strcmp(text, "none") == 0 ? 0 : KM_REFINE_AUTO;
    if (strcmp(text, "none") == 0 || strcmp(text, "auto") == 0) return KM_OK;
    if (text[0] >= '0' && text[0] <= '9')
        return integer_in(&spec->refine, "refine", text, 0, KM_REFINE_MAX, err);
    return refuse("refine", "auto, none or a number of passes", text, words, err);
}

// Targets ----------------------------------------------------------------------------------------------------

static const struct {
    const char *word;
    km_target target;
} target_words[] = {
    {"auto", {KM_TARGET_AUTO, 0}},
    {"cpu", {KM_TARGET_CPU, KM_ISA_UNSET}},
    {"cpu:generic", {KM_TARGET_CPU, KM_ISA_GENERIC}},
    {"cpu:avx2", {KM_TARGET_CPU, KM_ISA_AVX2}},
    {"cpu:avx512", {KM_TARGET_CPU, KM_ISA_AVX512}},
    {"cpu:neon", {KM_TARGET_CPU, KM_ISA_NEON}},
    {"cuda", {KM_TARGET_CUDA, 0}},
};
enum { TARGET_WORDS_COUNT = sizeof target_words / sizeof *target_words };

km_status km_spec_set_target(km_spec *spec, const char *text, km_error *err) {
    for (int i = 0; i < TARGET_WORDS_COUNT; i++) {
        if (strcmp(text, target_words[i].word) != 0) continue;
        spec->target = target_words[i].target;
        return KM_OK;
    }
    static const char prefix[] = "cuda:sm_";
    if (strncmp(text, prefix, sizeof prefix - 1) == 0) {
        int64_t arch;
        KM_TRY(integer_in(&arch, "target cuda:sm_NN: NN", text + sizeof prefix - 1, SM_MIN, SM_MAX, err));
        spec->target = (km_target){KM_TARGET_CUDA, (int32_t)arch};
        return KM_OK;
    }
    static const char expected[] = "auto, cpu, cpu:generic|avx2|avx512|neon, cuda or cuda:sm_NN";
    if (strncmp(text, "gpu", 3) == 0) // whose letters are nearer to cpu
        return km_fail(err, KM_ERROR_SPEC, "target must be %s, got \"%.40s\"; did you mean cuda?", expected,
                       text);
    const char *words[TARGET_WORDS_COUNT + 2] = {0};
    for (int i = 0; i < TARGET_WORDS_COUNT; i++) words[i] = target_words[i].word;
    words[TARGET_WORDS_COUNT] = "cuda:sm_90";
    return refuse("target", expected, text, words, err);
}

// Clusters ---------------------------------------------------------------------------------------------------

static const char clusters_expected[] =
    "a number (8), a range (2..12), a range with a step (2..20 step 2) or a list ([3, 5, 8])";

static int compare_numbers(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

km_status km_spec_check_cluster(int64_t number, km_error *err) {
    if (number >= 1 && number <= KM_CLUSTERS_MAX) return KM_OK;
    if (number == INT64_MAX || number == -INT64_MAX)
        return km_fail(err, KM_ERROR_SPEC, "clusters must be 1..%d, got a number that is far too large",
                       KM_CLUSTERS_MAX);
    return km_fail(err, KM_ERROR_SPEC, "clusters must be 1..%d, got %" PRId64, KM_CLUSTERS_MAX, number);
}

km_status km_spec_take_clusters(km_spec *spec, int64_t *numbers, int64_t count, km_error *err) {
    for (int64_t i = 0; i < count; i++) KM_TRY(km_spec_check_cluster(numbers[i], err));
    if (count < 1) return km_fail(err, KM_ERROR_SPEC, "clusters must name at least one K, got an empty list");
    if (count > KM_RANGE_MAX)
        return km_fail(err, KM_ERROR_SPEC, "clusters must name at most %d K, got %" PRId64, KM_RANGE_MAX,
                       count);
    qsort(numbers, (size_t)count, sizeof *numbers, compare_numbers);
    for (int64_t i = 1; i < count; i++)
        if (numbers[i] == numbers[i - 1])
            return km_fail(err, KM_ERROR_SPEC,
                           "clusters must be different from each other, got %" PRId64 " twice", numbers[i]);
    int32_t *clusters = malloc((size_t)count * sizeof *clusters);
    if (!clusters) return km_fail_memory(err, "the list of K", count * (int64_t)sizeof *clusters);
    for (int64_t i = 0; i < count; i++) clusters[i] = (int32_t)numbers[i];
    free(spec->clusters);
    spec->clusters = clusters;
    spec->clusters_count = count;
    return KM_OK;
}

static void skip_spaces(const char **at) {
    while (**at == ' ' || **at == '\t' || **at == '\n' || **at == '\r') ++*at;
}

// Takes an integer off the front of *at with the spaces around it. Zero when there is none.
static int take_integer(int64_t *value, const char **at) {
    skip_spaces(at);
    size_t size = **at == '-';
    while ((*at)[size] >= '0' && (*at)[size] <= '9') size++;
    char digits[32];
    if (size >= sizeof digits) {
        *value = **at == '-' ? -INT64_MAX : INT64_MAX;
    } else {
        memcpy(digits, *at, size);
        digits[size] = 0;
        if (!km_integer_parse(value, digits)) return 0;
    }
    *at += size;
    skip_spaces(at);
    return 1;
}

static km_status set_range(km_spec *spec, int64_t first, int64_t last, int64_t step, km_error *err) {
    KM_TRY(km_spec_check_cluster(first, err));
    KM_TRY(km_spec_check_cluster(last, err));
    if (step < 1 || step > KM_CLUSTERS_MAX)
        return km_fail(err, KM_ERROR_SPEC, "clusters must have a step of 1..%d, got %" PRId64,
                       KM_CLUSTERS_MAX, step);
    if (first > last)
        return km_fail(err, KM_ERROR_SPEC,
                       "clusters must run from low to high, got %" PRId64 "..%" PRId64 "; write %" PRId64
                       "..%" PRId64,
                       first, last, last, first);
    int64_t count = (last - first) / step + 1;
    if (count > KM_RANGE_MAX)
        return km_fail(err, KM_ERROR_SPEC,
                       "clusters must name at most %d K, got %" PRId64 "; write %" PRId64 "..%" PRId64
                       " step %" PRId64 " or less of the range",
                       KM_RANGE_MAX, count, first, last, (last - first) / (KM_RANGE_MAX - 1) + 1);
    int64_t numbers[KM_RANGE_MAX];
    for (int64_t i = 0; i < count; i++) numbers[i] = first + i * step;
    return km_spec_take_clusters(spec, numbers, count, err);
}

// "3, 5, 8" up to `close` (']' or the end); *at is after the first number.
static km_status set_list(km_spec *spec, int64_t first, const char *at, char close, const char *text,
                          km_error *err) {
    int64_t numbers[KM_RANGE_MAX];
    int64_t count = 0;
    numbers[count++] = first;
    while (*at == ',') {
        at++;
        int64_t number;
        if (!take_integer(&number, &at)) return refuse("clusters", clusters_expected, text, NULL, err);
        if (count == KM_RANGE_MAX)
            return km_fail(err, KM_ERROR_SPEC, "clusters must name at most %d K, got more", KM_RANGE_MAX);
        numbers[count++] = number;
    }
    if (close && *at == close) {
        at++;
        skip_spaces(&at);
    } else if (close) {
        return refuse("clusters", clusters_expected, text, NULL, err);
    }
    if (*at) return refuse("clusters", clusters_expected, text, NULL, err);
    return km_spec_take_clusters(spec, numbers, count, err);
}

km_status km_spec_set_clusters(km_spec *spec, const char *text, km_error *err) {
    const char *at = text;
    int64_t first, last, step = 1;
    skip_spaces(&at);
    char close = *at == '[' ? ']' : 0;
    if (close) at++;
    if (!take_integer(&first, &at)) return refuse("clusters", clusters_expected, text, NULL, err);
    if (!close && (*at == '-' || *at == ':')) {
        const char *rest = at + 1;
        if (take_integer(&last, &rest) && !*rest && last > first)
            return km_fail(err, KM_ERROR_SPEC,
                           "clusters has ranges such as 2..12, got \"%.40s\"; write %" PRId64 "..%" PRId64,
                           text, first, last);
    }
    if (close || strncmp(at, "..", 2) != 0) return set_list(spec, first, at, close, text, err);
    at += 2;
    if (!take_integer(&last, &at)) return refuse("clusters", clusters_expected, text, NULL, err);
    if (strncmp(at, "step", 4) == 0) {
        at += 4;
        if (!take_integer(&step, &at)) return refuse("clusters", clusters_expected, text, NULL, err);
    }
    if (*at) return refuse("clusters", clusters_expected, text, NULL, err);
    return set_range(spec, first, last, step, err);
}

static const char *const layout_words[KM_LAYOUT_COUNT + 1] = {"auto", "dense", "csr", NULL};

const char *km_layout_name(km_layout layout) {
    return (unsigned)layout < KM_LAYOUT_COUNT ? layout_words[layout] : "none";
}

km_status km_spec_set_layout(km_spec *spec, const char *text, km_error *err) {
    for (int i = 0; i < KM_LAYOUT_COUNT; i++) {
        if (strcmp(text, layout_words[i]) != 0) continue;
        spec->layout = (km_layout)i;
        return KM_OK;
    }
    return refuse("layout", "auto, dense or csr", text, layout_words, err);
}

static const char *const metric_words[KM_METRIC_COUNT + 1] = {"euclidean", "cosine", NULL};

const char *km_metric_name(km_metric metric) {
    return (unsigned)metric < KM_METRIC_COUNT ? metric_words[metric] : "none";
}

km_status km_spec_set_metric(km_spec *spec, const char *text, km_error *err) {
    for (int i = 0; i < KM_METRIC_COUNT; i++) {
        if (strcmp(text, metric_words[i]) != 0) continue;
        spec->metric = (km_metric)i;
        return KM_OK;
    }
    return refuse("metric", "euclidean or cosine", text, metric_words, err);
}

const km_spec_field km_spec_fields[KM_SPEC_FIELDS_COUNT] = {
    {"name", set_name, 0},
    {"features", set_features, 1},
    {"clusters", km_spec_set_clusters, 0},
    {"type", set_type, 0},
    {"target", km_spec_set_target, 0},
    {"n_init", set_restarts, 1},
    {"max_iter", set_max_iter, 1},
    {"tol", set_tol, 1},
    {"refine", km_spec_set_refine, 0},
    {"layout", km_spec_set_layout, 0},
    {"metric", km_spec_set_metric, 0},
};

// Plan numbers -----------------------------------------------------------------------------------------------

static const struct {
    const char *name;
    int64_t lowest, highest;
} plan_numbers[KM_PARAM_COUNT] = {
#define KM_PARAM_ROW(name, lowest, highest, targets, tune, meaning) {#name, lowest, highest},
    KM_PARAMS(KM_PARAM_ROW)
#undef KM_PARAM_ROW
};

const char *km_spec_plan_key(int index) {
    if (index == 0) return "design";
    if (index == KM_PARAM_COUNT + 1) return "algorithm";
    return index <= KM_PARAM_COUNT ? plan_numbers[index - 1].name : NULL;
}

int km_spec_plan_find(const char *name) {
    const char *key;
    for (int i = 0; (key = km_spec_plan_key(i)); i++)
        if (strcmp(name, key) == 0) return i;
    return -1;
}

static km_status algorithm_parse(int64_t *value, const char *text, km_error *err) {
    const char *words[KM_ALGORITHM_COUNT + 1] = {0};
    for (int i = KM_ALGORITHM_AUTO; i < KM_ALGORITHM_COUNT; i++) {
        words[i] = km_algorithm_name((km_algorithm)i);
        if (strcmp(text, words[i]) != 0) continue;
        *value = i;
        return KM_OK;
    }
    return refuse("algorithm", "auto, lloyd, tiles, hamerly or elkan", text, words, err);
}

static km_status design_parse(int64_t *value, const char *text, km_error *err) {
    const char *words[KM_DESIGN_COUNT] = {0};
    char expected[2 * KM_DESIGNS_TEXT + 32], cuda[KM_DESIGNS_TEXT], cpu[KM_DESIGNS_TEXT];
    for (int i = KM_DESIGN_NONE + 1; i < KM_DESIGN_COUNT; i++) {
        words[i - 1] = km_design_name((km_design)i);
        if (strcmp(text, words[i - 1]) != 0) continue;
        *value = i;
        return KM_OK;
    }
    snprintf(expected, sizeof expected, "%s (CUDA), or %s (CPU)", km_designs_text(cuda, KM_TARGET_CUDA, "or"),
             km_designs_text(cpu, KM_TARGET_CPU, "or"));
    return refuse("design", expected, text, words, err);
}

// A number, or one of the words that stand for it.
static km_status number_parse(int64_t *value, km_param param, const char *text, km_error *err) {
    const char *name = plan_numbers[param].name, *words[KM_WORD_COUNT + 1] = {0};
    char expected[KM_WORDS_TEXT];
    if (!km_param_has_words(param))
        return integer_in(value, name, text, plan_numbers[param].lowest, plan_numbers[param].highest, err);
    *value = km_word_find(param, text);
    if (*value >= 0) return KM_OK;
    for (int64_t i = 0, count = 0; i < KM_WORD_COUNT; i++)
        if (km_word_find(param, km_word_name(i)) >= 0) words[count++] = km_word_name(i);
    return refuse(name, km_words_text(expected, param, KM_DESIGN_NONE), text, words, err);
}

km_status km_spec_fix(km_spec *spec, const char *name, const char *value, km_error *err) {
    int64_t number = 0;
    name = km_name_today(spec, "plan", name, "");
    value = km_name_today(spec, name, value, "");
    int index = km_spec_plan_find(name);
    if (index < 0) {
        const char *words[KM_PARAM_COUNT + 3] = {0};
        for (int i = 0; km_spec_plan_key(i); i++) words[i] = km_spec_plan_key(i);
        const char *similar = km_suggest(name, words);
        char got[KM_QUOTED_SIZE], replaced[160];
        if (km_name_is_replaced(replaced, sizeof replaced, name))
            return km_fail(err, KM_ERROR_SPEC, "%s", replaced);
        return km_fail(err, KM_ERROR_SPEC, "plan has no number %s%s%s%s", km_quoted(got, name),
                       similar ? "; did you mean " : "; docs/spec.md lists them", similar ? similar : "",
                       similar ? "?" : "");
    }
    if (index == 0)
        KM_TRY(design_parse(&number, value, err));
    else if (index == KM_PARAM_COUNT + 1)
        KM_TRY(algorithm_parse(&number, value, err));
    else
        KM_TRY(number_parse(&number, (km_param)(index - 1), value, err));
    int64_t place = 0;
    while (place < spec->fixed_count && strcmp(spec->fixed[place].name, name) != 0) place++;
    if (place == KM_FIXED_MAX)
        return km_fail(err, KM_ERROR_SPEC, "plan must fix at most %d numbers, got %s as well", KM_FIXED_MAX,
                       name);
    snprintf(spec->fixed[place].name, sizeof spec->fixed[place].name, "%s", name);
    spec->fixed[place].value = number;
    if (place == spec->fixed_count) spec->fixed_count++;
    return KM_OK;
}

// YAML out ---------------------------------------------------------------------------------------------------

void km_spec_clusters_text(km_text *text, const km_spec *spec) {
    const int32_t *k = spec->clusters;
    int64_t count = spec->clusters_count;
    int32_t step = count > 1 ? k[1] - k[0] : 1;
    int even = count > 2 || (count == 2 && step == 1);
    for (int64_t i = 1; even && i < count; i++) even = k[i] - k[i - 1] == step;
    if (count == 1) {
        km_text_printf(text, "clusters: %d", k[0]);
    } else if (even) {
        km_text_printf(text, "clusters: %d..%d", k[0], k[count - 1]);
        if (step != 1) km_text_printf(text, " step %d", step);
    } else if (count) {
        km_text_puts(text, "clusters: [");
        for (int64_t i = 0; i < count; i++) km_text_printf(text, "%s%d", i ? ", " : "", k[i]);
        km_text_puts(text, "]");
    }
}

static void add_target(km_text *text, km_target target) {
    if (target.kind == KM_TARGET_CUDA && target.arch) {
        km_text_printf(text, "target: cuda:sm_%d\n", target.arch);
        return;
    }
    for (int i = 0; i < TARGET_WORDS_COUNT; i++)
        if (target_words[i].target.kind == target.kind && target_words[i].target.arch == target.arch)
            km_text_printf(text, "target: %s\n", target_words[i].word);
}

// As few digits as are read back to the same number, whatever the locale.
static void add_tol(km_text *text, double tol) {
    char digits[32];
    locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0), before = uselocale(c);
    int precision = 1;
    do snprintf(digits, sizeof digits, "%.*g", precision, tol);
    while (precision++ < 17 && strtod(digits, NULL) != tol);
    uselocale(before);
    freelocale(c);
    km_text_printf(text, "tol: %s\n", digits);
}

km_status km_spec_to_yaml(char **out, const km_spec *spec, km_error *err) {
    km_text text = {0};
    char value[KM_VALUE_TEXT];
    km_text_printf(&text, "name: %s\n", spec->name);
    if (spec->features) km_text_printf(&text, "features: %" PRId64 "\n", spec->features);
    km_spec_clusters_text(&text, spec);
    if (spec->clusters_count) km_text_puts(&text, "\n");
    km_text_printf(&text, "type: %s\n", spec->type == KM_FLOAT64 ? "float64" : "float32");
    add_target(&text, spec->target);
    km_text_printf(&text, "n_init: %" PRId64 "\n", spec->n_init);
    if (spec->max_iter != MAX_ITER) km_text_printf(&text, "max_iter: %" PRId64 "\n", spec->max_iter);
    if (spec->tol != TOL) add_tol(&text, spec->tol);
    if (spec->refine == 0) km_text_puts(&text, "refine: none\n");
    if (spec->refine > 0) km_text_printf(&text, "refine: %" PRId64 "\n", spec->refine);
    if (spec->layout != KM_LAYOUT_AUTO) km_text_printf(&text, "layout: %s\n", km_layout_name(spec->layout));
    if (spec->metric != KM_METRIC_EUCLIDEAN)
        km_text_printf(&text, "metric: %s\n", km_metric_name(spec->metric));
    if (spec->fixed_count) km_text_puts(&text, "plan:\n");
    for (int64_t i = 0; i < spec->fixed_count; i++) {
        const km_fixed *fixed = &spec->fixed[i];
        km_text_printf(&text, "  %s: %s\n", fixed->name, km_fixed_text(value, fixed));
    }
    return km_text_take(out, &text, err);
}
