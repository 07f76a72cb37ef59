// SPDX-License-Identifier: MIT
// What a tuning table's entries were measured with: the templates that a design's pass is made of, and no others, so
// that a table stays in use when a template of something else changes.
#include "template.h"
#include "tuning.h"
#include "words.h"

#define XXH_INLINE_ALL        // generators of the build link no library for it
#define XXH_NO_INLINE_HINTS 1 // compilers that optimise little refuse them
#include <xxhash.h>

#include <stdio.h>
#include <string.h>

enum { WORDS_MAX = 128 };
static const char WORDS[] = "cuda/words.cu", DEFINES[] = "//@ def ", USES[] = "//@ use ";

// A word of cuda/words.cu: the text from its `def` up to the next one.
typedef struct word {
    const char *name, *text;
    size_t name_size, size;
    int is_used;
} word;

static const char *text_end(const char *text, const char *mark) {
    const char *end = strstr(text, mark);
    return end ? end : text + strlen(text);
}

// The words of the file; *before: the size of what stands before the first one.
static int read_words(word *words, const char *text, size_t *before) {
    int count = 0;
    const char *at = text_end(text, DEFINES);
    *before = (size_t)(at - text);
    for (; *at && count < WORDS_MAX; count++) {
        const char *name = at + strlen(DEFINES), *next = text_end(name, DEFINES);
        words[count] = (word){name, at, strcspn(name, " \n"), (size_t)(next - at), 0};
        at = next;
    }
    return count;
}

// Marks the words that a text of this size uses; returns how many were not marked before.
static int mark_used(word *words, int count, const char *text, size_t size) {
    int marked = 0;
    for (const char *line = text; (line = strstr(line, USES)) && line < text + size; line++) {
        const char *name = line + strlen(USES);
        for (size_t name_size; *name && *name != '\n'; name += name_size + strspn(name + name_size, " ")) {
            name_size = strcspn(name, " \n");
            for (int i = 0; i < count; i++) {
                if (words[i].is_used || words[i].name_size != name_size ||
                    memcmp(words[i].name, name, name_size) != 0)
                    continue;
                words[i].is_used = 1;
                marked++;
            }
        }
    }
    return marked;
}

static int begins_with(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

// The design's folder.
static void folder_of(char *folder, size_t size, km_design design) {
    const char *target = km_design_target(design) == KM_TARGET_CUDA ? "cuda" : "cpu";
    const char *name = design == KM_DESIGN_PREBUILT       ? km_design_name(KM_DESIGN_LANES)
                       : design == KM_DESIGN_SPARSE_WARPS ? "sparse"
                                                          : km_design_name(design);
    snprintf(folder, size, "%s/%s/", target, name);
}

// Headers and vectors that the pass stands on; not what other steps, subsets and the host part agree on.
static int is_common(const char *file, km_target target) {
    static const char *const cuda[] = {"cuda/abi.h", "cuda/head.h", NULL};
    static const char *const cpu[] = {"cpu/abi.h", "cpu/head.h", "cpu/labels.c", NULL};
    char vectors[64], set[32];
    for (const char *const *name = target.kind == KM_TARGET_CUDA ? cuda : cpu; *name; name++)
        if (!strcmp(file, *name)) return 1;
    km_target_text(set, sizeof set, target);
    snprintf(vectors, sizeof vectors, "cpu/vec/%s.h", set + strcspn(set, ":") + (strchr(set, ':') != NULL));
    return target.kind == KM_TARGET_CPU && !strcmp(file, vectors);
}

static void add(XXH3_state_t *state, const char *name, const char *text, size_t size) {
    XXH3_64bits_update(state, name, strlen(name) + 1);
    XXH3_64bits_update(state, text, size);
}

static void add_words(XXH3_state_t *state, const km_embedded *file, const char *folder) {
    word words[WORDS_MAX];
    size_t before;
    int count = read_words(words, file->text, &before), is_more;
    for (int64_t i = 0; i < km_embedded_templates_count; i++)
        if (begins_with(km_embedded_templates[i].name, folder))
            mark_used(words, count, km_embedded_templates[i].text, (size_t)km_embedded_templates[i].size);
    do {
        is_more = 0;
        for (int i = 0; i < count; i++)
            if (words[i].is_used) is_more += mark_used(words, count, words[i].text, words[i].size);
    } while (is_more);
    add(state, file->name, file->text, before);
    for (int i = 0; i < count; i++)
        if (words[i].is_used) XXH3_64bits_update(state, words[i].text, words[i].size);
}

void km_templates_hash(char text[17], km_design design, km_target target) {
    char folder[48];
    XXH3_state_t state;
    folder_of(folder, sizeof folder, design);
    XXH3_INITSTATE(&state);
    XXH3_64bits_reset(&state);
    for (int64_t i = 0; i < km_embedded_templates_count; i++) {
        const km_embedded *file = &km_embedded_templates[i];
        int is_whole = begins_with(file->name, folder) || is_common(file->name, target);
        if (is_whole) add(&state, file->name, file->text, (size_t)file->size);
        if (target.kind == KM_TARGET_CUDA && !strcmp(file->name, WORDS)) add_words(&state, file, folder);
    }
    snprintf(text, 17, "%016llx", (unsigned long long)XXH3_64bits_digest(&state));
}
