// SPDX-License-Identifier: MIT
#include "cells.h"
#include "../../base/size.h"
#include "../memory.h"

#include <stdlib.h>
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

// What ends cells --------------------------------------------------------------------------------------------

enum { WINDOW = 64 };

// What ends a cell, or does not belong in one without quotes.
static inline int ends_plain(unsigned char c, unsigned char delimiter) {
    return c == delimiter || c == '\n' || c == '\r' || c == '"';
}

// Bit i: byte i of these `count`, 64 at most, ends a plain cell.
static uint64_t ends_of_few(const unsigned char *at, int64_t count, unsigned char delimiter) {
    uint64_t ends = 0;
    for (int64_t i = 0; i < count; i++) ends |= (uint64_t)ends_plain(at[i], delimiter) << i;
    return ends;
}

static inline uint64_t ends_of_window(const unsigned char *at, unsigned char delimiter) {
#ifdef __SSE2__
    const __m128i comma = _mm_set1_epi8((char)delimiter), newline = _mm_set1_epi8('\n'),
                  feed = _mm_set1_epi8('\r'), quote = _mm_set1_epi8('"');
    uint64_t ends = 0;
    for (int i = 0; i < WINDOW / 16; i++) {
        __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)(at + 16 * i));
        __m128i found =
            _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, comma), _mm_cmpeq_epi8(bytes, newline)),
                         _mm_or_si128(_mm_cmpeq_epi8(bytes, feed), _mm_cmpeq_epi8(bytes, quote)));
        ends |= (uint64_t)(uint32_t)_mm_movemask_epi8(found) << (16 * i);
    }
    return ends;
#else
    return ends_of_few(at, WINDOW, delimiter);
#endif
}

uint64_t km_cells_ends(const unsigned char *at, int64_t count, unsigned char delimiter) {
    return count >= WINDOW ? ends_of_window(at, delimiter) : ends_of_few(at, count, delimiter);
}

static void look(km_cells *c, const unsigned char *at) {
    c->window = at;
    c->ends = km_cells_ends(at, c->end - at, c->delimiter);
}

// The first byte from `at` on that ends a plain cell, or the block's end.
static inline const unsigned char *find_end(km_cells *c, const unsigned char *at) {
    if (!c->window || at - c->window >= WINDOW) look(c, at);
    uint64_t ends = c->ends & ~(uint64_t)0 << (at - c->window);
    while (!ends) {
        if (c->end - c->window <= WINDOW) return c->end;
        look(c, c->window + WINDOW);
        ends = c->ends;
    }
    return c->window + __builtin_ctzll(ends);
}

// Cells ------------------------------------------------------------------------------------------------------

static inline int is_space(unsigned char c, unsigned char delimiter) {
    return (c == ' ' || c == '\t') && c != delimiter;
}

static inline int add_cell(km_cells *c, const char *text, int64_t size) {
    if (c->count == c->capacity) {
        int64_t capacity = 2 * c->capacity + 16;
        km_cell *cells = realloc(c->cells, (size_t)capacity * sizeof *cells);
        if (!cells) return 0;
        c->cells = cells;
        c->capacity = capacity;
    }
    c->cells[c->count++] = (km_cell){text, size};
    return 1;
}

// A cell in which quotes are written twice, with each of them once.
static int add_unquoted(km_cells *c, const unsigned char *text, int64_t size) {
    if (!c->unquoted) { // as much as the rest of the block, so that it never moves
        c->unquoted_capacity = c->end - text + 2;
        c->unquoted = malloc((size_t)c->unquoted_capacity);
        if (!c->unquoted) return 0;
    }
    char *to = c->unquoted + c->unquoted_size, *at = to;
    for (int64_t i = 0; i < size; i++) {
        *at++ = (char)text[i];
        i += text[i] == '"';
    }
    *at = '"';
    c->unquoted_size += at + 1 - to;
    return add_cell(c, to, at - to);
}

// Takes a quoted cell whose first byte is at c->at, and the spaces behind it.
static km_record_state take_quoted(km_cells *c) {
    const unsigned char *start = ++c->at, *quote = start;
    int is_doubled = 0;
    for (;;) {
        quote = memchr(quote, '"', (size_t)(c->end - quote));
        if (!quote) return KM_RECORD_UNCLOSED;
        if (quote + 1 >= c->end || quote[1] != '"') break;
        is_doubled = 1;
        quote += 2;
    }
    for (const unsigned char *at = start; (at = memchr(at, '\n', (size_t)(quote - at))) != NULL; at++)
        c->line++;
    int added =
        is_doubled ? add_unquoted(c, start, quote - start) : add_cell(c, (const char *)start, quote - start);
    if (!added) return KM_RECORD_NO_MEMORY;
    c->at = quote + 1;
    while (c->at < c->end && is_space(*c->at, c->delimiter)) c->at++;
    int is_ended = c->at >= c->end || (ends_plain(*c->at, c->delimiter) && *c->at != '"');
    if (is_ended) return KM_RECORD_READ;
    c->count--;
    return KM_RECORD_MISQUOTED;
}

static inline km_record_state take_plain(km_cells *c) {
    const unsigned char *start = c->at, *at = find_end(c, start);
    c->at = at;
    if (at < c->end && *at == '"') return KM_RECORD_MISQUOTED;
    while (at > start && is_space(at[-1], c->delimiter)) at--;
    return add_cell(c, (const char *)start, at - start) ? KM_RECORD_READ : KM_RECORD_NO_MEMORY;
}

// Takes the end of a line that c->at stands on.
static void take_line_end(km_cells *c) {
    c->at += *c->at == '\r' && c->at + 1 < c->end && c->at[1] == '\n' ? 2 : 1;
    c->line++;
}

// Passes over blank lines; 0: the block ends.
static int skip_blank(km_cells *c) {
    for (c->blank = 0;; c->blank++) {
        const unsigned char *at = c->at;
        while (at < c->end && is_space(*at, c->delimiter)) at++;
        if (at == c->end) return 0;
        if (*at != '\n' && *at != '\r') return 1;
        c->at = at;
        take_line_end(c);
    }
}

km_record_state km_cells_next(km_cells *c) {
    c->count = c->unquoted_size = 0;
    c->first_line = c->line;
    if (!skip_blank(c)) return KM_RECORD_END;
    c->first_line = c->line;
    for (;;) {
        while (c->at < c->end && is_space(*c->at, c->delimiter)) c->at++;
        km_record_state taken = c->at < c->end && *c->at == '"' ? take_quoted(c) : take_plain(c);
        if (taken != KM_RECORD_READ) return taken;
        if (c->count > KM_CELLS_MAX) return KM_RECORD_TOO_WIDE;
        if (c->at >= c->end) return KM_RECORD_READ;
        if (*c->at != c->delimiter) break;
        c->at++;
    }
    take_line_end(c);
    return KM_RECORD_READ;
}

void km_cells_free(km_cells *c) {
    free(c->cells);
    free(c->unquoted);
    c->cells = NULL;
    c->unquoted = NULL;
}

// Blocks -----------------------------------------------------------------------------------------------------

// Behind the last carriage return that is followed by another byte: of texts whose lines end so alone.
static const unsigned char *cut_at_return(const unsigned char *begin, const unsigned char *end) {
    const unsigned char *last = end - begin > 1 ? memrchr(begin, '\r', (size_t)(end - begin - 1)) : NULL;
    return last ? last + 1 : NULL;
}

// Whether an odd number of quotes stands there.
static int quotes_are_odd(const unsigned char *at, const unsigned char *end) {
    enum { LANES = 64 };
    unsigned char odd[LANES] = {0};
    int is_odd = 0;
    for (; end - at >= LANES; at += LANES)
        for (int i = 0; i < LANES; i++) odd[i] ^= at[i] == '"';
    for (; at < end; at++) is_odd ^= *at == '"';
    for (int i = 0; i < LANES; i++) is_odd ^= odd[i];
    return is_odd;
}

const unsigned char *km_cells_cut(const unsigned char *begin, const unsigned char *end) {
    const unsigned char *last = NULL, *last_return = NULL;
    if (!memchr(begin, '"', (size_t)(end - begin))) {
        last = memrchr(begin, '\n', (size_t)(end - begin));
        return last ? last + 1 : cut_at_return(begin, end);
    }
    int in_quotes = quotes_are_odd(begin, end); // behind the byte that is looked at
    for (const unsigned char *at = end - 1; at >= begin; at--) {
        if (!in_quotes && *at == '\n') return at + 1;
        if (!in_quotes && *at == '\r' && at + 1 < end && !last_return) last_return = at + 1;
        in_quotes ^= *at == '"';
    }
    return last_return;
}

enum { BLOCK_BYTES = 1 << 18 };

km_status km_blocks_open(km_blocks *blocks, km_input *input, int64_t wanted, km_error *err) {
    *blocks = (km_blocks){.input = input, .block_bytes = BLOCK_BYTES};
    blocks->capacity = km_min(wanted, KM_BATCH_MAX / 2) * BLOCK_BYTES;
    // A regular file says how much it can be; one byte more for a newline at the end of a text that lacks it.
    if (input->is_regular) blocks->capacity = km_min(blocks->capacity, km_max(input->size, 4096));
    KM_TRY(km_host_check("reading text", blocks->capacity, err));
    blocks->buffer = malloc((size_t)blocks->capacity + 1);
    if (!blocks->buffer) return km_fail_memory(err, "reading text", blocks->capacity);
    return KM_OK;
}

void km_blocks_close(km_blocks *blocks) {
    free(blocks->buffer);
    free(blocks->ahead);
    *blocks = (km_blocks){0};
}

km_status km_blocks_fill(km_blocks *blocks, int64_t size, km_error *err) {
    size = km_min(size, blocks->capacity);
    if (blocks->is_last || blocks->size >= size) return KM_OK;
    int64_t got, wanted = size - blocks->size;
    KM_TRY(km_input_fill(&got, blocks->buffer + blocks->size, wanted, blocks->input, err));
    blocks->size += got;
    blocks->is_last = got < wanted;
    blocks->buffer[blocks->size] = '\n';
    return KM_OK;
}

km_status km_blocks_grow(km_blocks *blocks, km_error *err) {
    int64_t capacity = 2 * blocks->capacity;
    KM_TRY(km_host_check("a record of text", blocks->capacity, err));
    unsigned char *buffer = realloc(blocks->buffer, (size_t)capacity + 1);
    if (!buffer) return km_fail_memory(err, "a record of text", capacity);
    blocks->buffer = buffer;
    blocks->capacity = capacity;
    free(blocks->ahead);
    blocks->ahead = NULL;
    return KM_OK;
}

km_status km_blocks_read_ahead(km_blocks *blocks, km_error *err) {
    int64_t left = blocks->size - blocks->taken, wanted = blocks->capacity - left, got;
    if (blocks->is_last) return KM_OK;
    // Without memory for it, the next batch is read when it is wanted.
    if (!blocks->ahead && km_host_check("reading text", blocks->capacity, NULL) == KM_OK)
        blocks->ahead = malloc((size_t)blocks->capacity + 1);
    if (!blocks->ahead) return KM_OK;
    memcpy(blocks->ahead, blocks->buffer + blocks->taken, (size_t)left);
    KM_TRY(km_input_fill(&got, blocks->ahead + left, wanted, blocks->input, err));
    blocks->ahead_size = left + got;
    blocks->ahead_is_last = got < wanted;
    blocks->is_ahead = 1;
    return KM_OK;
}

// What the batch left, and what was read ahead, to the front of the buffer.
static void move_on(km_blocks *blocks) {
    if (blocks->is_ahead) {
        unsigned char *buffer = blocks->buffer;
        blocks->buffer = blocks->ahead;
        blocks->ahead = buffer;
        blocks->size = blocks->ahead_size;
        blocks->is_last = blocks->ahead_is_last;
        blocks->is_ahead = 0;
    } else {
        memmove(blocks->buffer, blocks->buffer + blocks->taken, (size_t)(blocks->size - blocks->taken));
        blocks->size -= blocks->taken;
    }
    blocks->taken = 0;
    if (blocks->size) blocks->buffer[blocks->size] = '\n';
}

// Cuts what is in the buffer.
static void cut(km_batch *batch, const km_blocks *blocks) {
    const unsigned char *end = blocks->buffer + blocks->size, *at = blocks->buffer;
    batch->count = 0;
    batch->starts[0] = at;
    while (at < end && batch->count < KM_BATCH_MAX) {
        const unsigned char *next = NULL;
        for (int64_t bytes = blocks->block_bytes; !next; bytes *= 2) {
            int64_t left = end - at;
            next = km_cells_cut(at, at + km_min(bytes, left));
            if (bytes < left) continue;
            if (blocks->is_last) next = end;
            break;
        }
        if (!next) return;
        batch->starts[++batch->count] = at = next;
    }
}

// Of a record that so far is nothing but spaces, however many, one is kept: they take no memory.
static int drop_spaces(km_blocks *blocks) {
    const unsigned char *bytes = blocks->buffer;
    if (blocks->size < 2 || bytes[0] != ' ' || memcmp(bytes, bytes + 1, (size_t)(blocks->size - 1)) != 0)
        return 0;
    blocks->size = 1;
    return 1;
}

km_status km_blocks_next(km_batch *batch, km_blocks *blocks, km_error *err) {
    move_on(blocks);
    for (;;) {
        KM_TRY(km_blocks_fill(blocks, blocks->capacity, err));
        cut(batch, blocks);
        if (batch->count || (blocks->is_last && blocks->size == 0)) break;
        if (!drop_spaces(blocks)) KM_TRY(km_blocks_grow(blocks, err));
    }
    blocks->taken = batch->starts[batch->count] - blocks->buffer;
    return KM_OK;
}
