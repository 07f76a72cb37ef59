// SPDX-License-Identifier: MIT
// Words of a text that need not fit the memory: a window moves over it.
#include "rows.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW_BYTES = 1 << 18 };

km_status km_words_open(km_words *words, km_input *input, char comment, km_error *err) {
    *words = (km_words){.file = input->name, .input = input, .comment = (unsigned char)comment, .line = 1};
    words->buffer = malloc(WINDOW_BYTES + 1); // one more for a newline at the end of a text that lacks it
    if (!words->buffer) return km_fail_memory(err, "reading text", WINDOW_BYTES);
    words->at = words->limit = words->end = words->buffer;
    KM_TRY(km_words_fill(words, err));
    KM_TRY(km_text_check(words->buffer, words->end - words->buffer, input->name, err));
    int has_mark = words->end - words->buffer >= 3 && memcmp(words->buffer, "\xef\xbb\xbf", 3) == 0;
    if (has_mark) words->at += 3;
    return KM_OK;
}

void km_words_close(km_words *words) {
    free(words->buffer);
    *words = (km_words){0};
}

static int ends_word(unsigned char c) {
    return km_is_blank(c) || c == '\n';
}

// Moves the window on to `at`.
static km_status read_on(km_words *words, km_error *err) {
    int64_t kept = words->end - words->at, got;
    memmove(words->buffer, words->at, (size_t)kept);
    KM_TRY(km_input_fill(&got, words->buffer + kept, WINDOW_BYTES - kept, words->input, err));
    words->at = words->buffer;
    words->end = words->buffer + kept + got;
    words->is_last = got < WINDOW_BYTES - kept;
    if (words->is_last) *words->end++ = '\n';
    words->limit = words->end;
    while (words->limit > words->at && !ends_word(words->limit[-1])) words->limit--;
    return KM_OK;
}

km_status km_words_fill(km_words *words, km_error *err) {
    if (words->is_last) return KM_OK;
    KM_TRY(read_on(words, err));
    if (words->limit > words->at) return KM_OK;
    if (*words->at == words->comment) { // of any length: it will be skipped
        words->limit = words->at + 1;
        return KM_OK;
    }
    return km_fail(err, KM_ERROR_DATA,
                   "%s: row %lld has a word of more than %d bytes; words are separated by spaces",
                   words->file, (long long)words->line, WINDOW_BYTES);
}

km_status km_words_skip_line(km_words *words, km_error *err) {
    for (;;) {
        unsigned char *newline = memchr(words->at, '\n', (size_t)(words->end - words->at));
        words->at = newline ? newline : words->end;
        if (newline) return KM_OK; // before the limit, as it is behind every newline
        words->limit = words->end;
        if (words->is_last) return KM_OK;
        KM_TRY(read_on(words, err));
    }
}

const char *km_words_quote(char buffer[KM_QUOTED_SIZE], const km_words *words) {
    char word[KM_QUOTED_SIZE];
    size_t size = 0;
    for (const unsigned char *at = words->at; at < words->limit && !ends_word(*at); at++)
        if (size < sizeof word - 1) word[size++] = (char)*at;
    word[size] = 0;
    return km_quoted(buffer, word);
}
