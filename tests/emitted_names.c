// SPDX-License-Identifier: MIT
// No dead code: what a template defines, an emitted text uses. Names of ours that stand once in a text (of every spec,
// for every target) are refused, but for kernels, which the engine looks up, and the words that all texts share, which
// a text need not use.
// usage: emitted_names SPECS_FOLDER TEMPLATES_FOLDER
#include "specs.h"

#include <ctype.h>

enum { WORDS_MAX = 65536, SHARED_MAX = 32 };

typedef struct word {
    const char *at;
    int length;
} word;

// Templates whose words are shared: interfaces, a target's numbers and types, a vocabulary of vectors.
static const char *const shared_names[] = {
    "draws.h",    "slot.h",      "cpu/abi.h",      "cuda/abi.h",       "cuda/steps.h",   "cuda/names.h",
    "cpu/head.h", "cuda/head.h", "cpu/vec/avx2.h", "cpu/vec/avx512.h", "cpu/vec/neon.h", "cpu/vec/generic.h"};
static char *shared_texts[SHARED_MAX];
static int shared_count;

static char *read_text(const char *folder, const char *name) {
    char path[4096], *text = NULL;
    size_t size = 0;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "rb"), *memory = file ? open_memstream(&text, &size) : NULL;
    for (int c; memory && (c = getc(file)) != EOF;) putc(c, memory);
    if (memory) fclose(memory);
    if (file) fclose(file);
    return text;
}

static int is_part(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

// All words of a text but those of comments.
static int find_words(word *words, const char *text) {
    int count = 0;
    for (const char *at = text; *at;) {
        if (!strncmp(at, "//", 2)) {
            at += strcspn(at, "\n");
        } else if (is_part(*at)) {
            const char *begin = at;
            while (is_part(*at)) at++;
            if (count < WORDS_MAX) words[count++] = (word){begin, (int)(at - begin)};
        } else {
            at++;
        }
    }
    return count;
}

static int compare_words(const void *a, const void *b) {
    const word *first = a, *second = b;
    int shorter = first->length < second->length ? first->length : second->length;
    int order = strncmp(first->at, second->at, (size_t)shorter);
    return order ? order : first->length - second->length;
}

// With our prefixes, or a constant: three capitals and more, but for those of the C library and of compilers.
static int is_ours(const word *w) {
    static const char *const library[] = {"INFINITY", "HUGE_VAL"};
    for (size_t i = 0; i < sizeof library / sizeof *library; i++)
        if (!strncmp(w->at, library[i], (size_t)w->length) && !library[i][w->length]) return 0;
    if (!strncmp(w->at, "__", 2)) return 0;
    if (!strncmp(w->at, "km_", 3) || !strncmp(w->at, "KM_", 3) || !strncmp(w->at, "pass_", 5)) return 1;
    for (int i = 0; i < w->length; i++)
        if (!isupper((unsigned char)w->at[i]) && w->at[i] != '_' &&
            (i == 0 || !isdigit((unsigned char)w->at[i])))
            return 0;
    return w->length >= 3;
}

static int is_shared(const word *w) {
    for (int i = 0; i < shared_count; i++)
        for (const char *at = shared_texts[i]; *at; at += !is_part(*at)) {
            const char *begin = at;
            while (is_part(*at)) at++;
            if (at - begin == w->length && !strncmp(begin, w->at, (size_t)w->length)) return 1;
        }
    return 0;
}

// A kernel's name stands right behind its launch bounds, or behind `void`; tables of the module are exported too.
static int is_exported(const word *w, const char *text) {
    const char *line = w->at;
    while (line > text && line[-1] != '\n') line--;
    if (line > text && strncmp(line, "extern", 6) && *line == ' ') // the second line of a long declaration
        for (line--; line > text && line[-1] != '\n';) line--;
    size_t before = (size_t)(w->at - line);
    return memmem(line, before, "__global__", 10) || memmem(line, before, "km_pass_", 8) ||
           !strncmp(line, "KM_EXPORT", 9);
}

static int check_words(const km_source *source) {
    static word words[WORDS_MAX];
    int count = find_words(words, source->text), failures = 0;
    if (count == WORDS_MAX) {
        fprintf(stderr, "%s has too many words for this test\n", source->file_name);
        return 1;
    }
    qsort(words, (size_t)count, sizeof *words, compare_words);
    for (int i = 0; i < count; i++) {
        int alone = (i == 0 || compare_words(&words[i - 1], &words[i])) &&
                    (i + 1 == count || compare_words(&words[i], &words[i + 1]));
        if (!alone || !is_ours(&words[i]) || is_shared(&words[i]) || is_exported(&words[i], source->text))
            continue;
        fprintf(stderr, "%s: %.*s is there and nothing uses it\n", source->file_name, words[i].length,
                words[i].at);
        failures++;
    }
    return failures;
}

static int each_target(int *texts, const km_spec *spec, km_target_kind kind) {
    if (!specs_means(spec, kind)) return 0;
    km_source source;
    km_source_init(&source);
    km_target target = {kind, spec->target.kind == kind ? spec->target.arch : 0};
    int failures = specs_emit(&source, spec, target, NULL);
    // The host part is the compilers' to look through: they warn of functions that nothing uses.
    char *host = failures ? NULL : strstr(source.text, "\n// ==== The host part");
    if (host) host[1] = 0;
    if (!failures) failures = check_words(&source);
    ++*texts;
    km_source_clear(&source);
    return failures;
}

static int each_spec(void *user, const km_spec *spec) {
    return each_target(user, spec, KM_TARGET_CPU) + each_target(user, spec, KM_TARGET_CUDA);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fputs("usage: emitted_names SPECS_FOLDER TEMPLATES_FOLDER\n", stderr);
        return 2;
    }
    for (size_t i = 0; i < sizeof shared_names / sizeof *shared_names; i++) {
        shared_texts[shared_count] = read_text(argv[2], shared_names[i]);
        if (!shared_texts[shared_count++]) {
            fprintf(stderr, "cannot read %s/%s\n", argv[2], shared_names[i]);
            return 1;
        }
    }
    int texts = 0, failures = specs_walk(argv[1], each_spec, &texts);
    for (int i = 0; i < shared_count; i++) free(shared_texts[i]);
    printf("%d texts, %d failures\n", texts, failures);
    return failures != 0 || texts == 0;
}
