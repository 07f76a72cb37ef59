// SPDX-License-Identifier: MIT
// A covering set of texts: so few that every line of any of them is in one, whatever its numbers. Compiling these tells
// nearly what compiling all would.
#ifndef KM_TESTS_COVER_H
#define KM_TESTS_COVER_H
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

// The lines of a text: their hashes, ascending.
typedef struct cover_lines {
    uint64_t *hashes;
    int count;
    double cost; // of compiling it; 1 where that is left alone
} cover_lines;

static inline int cover_by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static inline int cover_is_name(const char *at, size_t length, const char *name, size_t size) {
    return size && length > size && !strncasecmp(at, name, size) && strchr("_.:", at[size]);
}

// One line: its hash without blanks at its ends and comments, with all numbers, and lists of them, alike, and without
// the spec's name in front of its words. 0: nothing but those.
static inline uint64_t cover_hash(const char *line, size_t length, const char *name) {
    char text[1024];
    size_t size = 0, words = 0, name_size = strlen(name);
    for (size_t i = 0; i < length && size < sizeof text && strncmp(line + i, "// ", 3) != 0; i++) {
        if (cover_is_name(line + i, length - i, name, name_size)) i += name_size;
        int is_word = isalpha((unsigned char)line[i]) || line[i] == '_';
        words += is_word != 0;
        if (is_word || !strchr("0123456789, {}", line[i])) text[size++] = line[i];
    }
    return !words ? 0 : XXH3_64bits(text, size) | 1;
}

static inline int cover_read(cover_lines *lines, const char *text, const char *name) {
    size_t count = 1;
    for (const char *at = text; *at; at++) count += *at == '\n';
    *lines = (cover_lines){malloc(count * sizeof *lines->hashes), 0, 1};
    if (!lines->hashes) return 1;
    for (const char *at = text; *at; at += *at == '\n') {
        size_t length = strcspn(at, "\n");
        uint64_t hash = cover_hash(at, length, name);
        if (hash) lines->hashes[lines->count++] = hash;
        at += length;
    }
    qsort(lines->hashes, (size_t)lines->count, sizeof *lines->hashes, cover_by_value);
    int kept = 0;
    for (int i = 0; i < lines->count; i++)
        if (!kept || lines->hashes[i] != lines->hashes[kept - 1]) lines->hashes[kept++] = lines->hashes[i];
    lines->count = kept;
    return 0;
}

// Lines of one text that the other, which is taken, has are counted no more.
static inline void cover_forget(cover_lines *of, const cover_lines *taken) {
    int kept = 0;
    for (int i = 0; i < of->count; i++)
        if (!bsearch(&of->hashes[i], taken->hashes, (size_t)taken->count, sizeof *taken->hashes,
                     cover_by_value))
            of->hashes[kept++] = of->hashes[i];
    of->count = kept;
}

// Takes lines, which others have not, to others.
static inline int cover_add(cover_lines *to, const cover_lines *from) {
    uint64_t *grown = realloc(to->hashes, (size_t)(to->count + from->count + 1) * sizeof *grown);
    if (!grown) return 1;
    to->hashes = grown;
    for (int i = 0; i < from->count; i++) grown[to->count++] = from->hashes[i];
    qsort(grown, (size_t)to->count, sizeof *grown, cover_by_value);
    return 0;
}

// The text that is not taken with the most lines, for what it costs, that none before has; -1: all lines are covered.
static inline int cover_next(const cover_lines *lines, const char *taken, int count) {
    int best = -1;
    for (int i = 0; i < count; i++) {
        if (taken[i] || !lines[i].count) continue;
        if (best < 0 || lines[i].count / lines[i].cost > lines[best].count / lines[best].cost) best = i;
    }
    return best;
}

static inline void cover_take(cover_lines *lines, char *taken, int count, int next) {
    taken[next] = 1;
    for (int i = 0; i < count; i++)
        if (!taken[i]) cover_forget(&lines[i], &lines[next]);
}

#endif
