// SPDX-License-Identifier: MIT
#include "golden_fold.h"
#include "base/text.h"
#include "gen/template.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum {
    PERIOD_MAX = 80,  // lines that may come again together
    TEMPLATE_RUN = 12 // lines of a template in a row that are left out
};

typedef struct line {
    const char *text;
    char *own; // where the text was made here
    size_t size;
    int indent;
    uint64_t exact, alike; // hashes of the text, and of the text with all numbers alike
} line;

typedef struct lines {
    line *at;
    int count;
} lines;

static uint64_t alike_hash(const char *text, size_t size) {
    char bare[1024];
    size_t length = 0;
    for (size_t i = 0; i < size && length < sizeof bare; i++)
        if (!isdigit((unsigned char)text[i])) bare[length++] = text[i];
    return XXH3_64bits(bare, length);
}

static line line_of(const char *text, size_t size) {
    size_t indent = strspn(text, " ");
    return (line){.text = text,
                  .size = size,
                  .indent = (int)(indent < size ? indent : size),
                  .exact = XXH3_64bits(text, size),
                  .alike = alike_hash(text, size)};
}

static int read_lines(lines *out, const char *text) {
    int count = 0;
    for (const char *at = text; *at; at++) count += *at == '\n';
    *out = (lines){calloc((size_t)count + 1, sizeof(line)), 0};
    for (; out->at && *text; text += *text == '\n') {
        size_t size = strcspn(text, "\n");
        out->at[out->count++] = line_of(text, size);
        text += size;
    }
    return !out->at;
}

// What comes again --------------------------------------------------------------------------------------------------

static int are_alike(const line *a, const line *b, int count) {
    for (int i = 0; i < count; i++)
        if (a[i].alike != b[i].alike) return 0;
    return 1;
}

// A statement with all that belongs to it, not the end of one and the beginning of the next.
static int is_together(const line *at, int count) {
    if (!at->size || at->text[at->indent] == '}') return 0;
    for (int i = 1; i < count; i++)
        if (at[i].size && at[i].indent < at->indent) return 0;
    return 1;
}

// Stands for `times` blocks of `period` lines.
static int set_marker(line *out, const line *blocks, int times, int period) {
    km_text text = {0};
    XXH64_hash_t hash = 0;
    for (int i = 0; i < times * period; i++) hash = hash * 31 + blocks[i].exact;
    km_text_printf(&text, "%*s// ... %d more", blocks->indent, "", times);
    if (period > 1) km_text_printf(&text, " of %d lines", period);
    km_text_printf(&text, ", other numbers: %08" PRIx32, (uint32_t)(hash ^ hash >> 32));
    if (text.failed) return 1;
    *out = line_of(text.data, (size_t)text.size);
    out->own = text.data;
    out->alike = 1 + (uint64_t)blocks->indent; // of any such line
    return 0;
}

static void drop(line *at, int count) {
    for (int i = 0; i < count; i++) free(at[i].own);
}

// Blocks of so many lines that come again: the first one stays.
static int fold_period(lines *all, int period, int *changed) {
    int kept = 0;
    for (int i = 0; i < all->count;) {
        line *at = &all->at[i];
        int times = 1, rest = all->count - i;
        while ((times + 1) * period <= rest && are_alike(at, at + (ptrdiff_t)times * period, period)) times++;
        if ((times - 1) * period < 2 || !is_together(at, period)) {
            all->at[kept++] = *at;
            i++;
            continue;
        }
        line marker;
        if (set_marker(&marker, at + period, times - 1, period)) return 1;
        drop(at + period, (times - 1) * period);
        memmove(&all->at[kept], at, (size_t)period * sizeof *at);
        kept += period;
        all->at[kept++] = marker;
        i += times * period;
        *changed = 1;
    }
    all->count = kept;
    return 0;
}

// Short ones first: a loop in a function that comes again.
static int fold_repeated(lines *all) {
    int changed = 1;
    for (int round = 0; round < 4 && changed; round++) {
        changed = 0;
        for (int period = 1; period <= PERIOD_MAX; period++)
            if (fold_period(all, period, &changed)) return 1;
    }
    return 0;
}

// What a template shows -------------------------------------------------------------------------------------------

static uint64_t *runs; // hashes of TEMPLATE_RUN lines of any template, ascending
static size_t runs_count;

static int by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint64_t run_hash(const line *at) {
    uint64_t hashes[TEMPLATE_RUN];
    for (int i = 0; i < TEMPLATE_RUN; i++) hashes[i] = at[i].exact;
    return XXH3_64bits(hashes, sizeof hashes);
}

static int read_runs(void) {
    for (int64_t t = 0; t < km_embedded_templates_count; t++) {
        lines all;
        if (read_lines(&all, km_embedded_templates[t].text)) return 1;
        uint64_t *grown = realloc(runs, (runs_count + (size_t)all.count + 1) * sizeof *runs);
        if (grown) runs = grown;
        for (int i = 0; grown && i + TEMPLATE_RUN <= all.count; i++)
            runs[runs_count++] = run_hash(&all.at[i]);
        free(all.at);
        if (!grown) return 1;
    }
    qsort(runs, runs_count, sizeof *runs, by_value);
    return 0;
}

// How many lines from here on stand in templates, at least TEMPLATE_RUN in a row; else 0.
static int lines_of_templates(const lines *all, int first) {
    int count = 0;
    for (int i = first; i + TEMPLATE_RUN <= all->count; i++) {
        uint64_t hash = run_hash(&all->at[i]);
        if (!bsearch(&hash, runs, runs_count, sizeof *runs, by_value)) break;
        count = i - first + TEMPLATE_RUN;
    }
    return count;
}

char *golden_fold(const char *text) {
    lines all;
    km_text out = {0};
    if (!runs && read_runs()) return NULL;
    int failed = read_lines(&all, text) || fold_repeated(&all);
    for (int i = 0; !failed && i < all.count;) {
        const line *at = &all.at[i];
        int of_templates = lines_of_templates(&all, i);
        if (of_templates)
            km_text_printf(&out, "%*s// ... lines of a template\n", at->indent, "");
        else
            km_text_printf(&out, "%.*s\n", (int)at->size, at->text);
        i += of_templates ? of_templates : 1;
    }
    drop(all.at, all.at ? all.count : 0);
    free(all.at);
    if (!failed && !out.failed) return out.data;
    km_text_clear(&out);
    return NULL;
}
