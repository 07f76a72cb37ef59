// SPDX-License-Identifier: MIT
// Drives a fuzz target without libFuzzer: the seeds as they are, then mutations of them, the same each time; in the
// short form half as many.
// usage: fuzz_TARGET ROUNDS TARGET.dict SEED...
#include "../short_form.h"
#include "fuzz.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { WORDS_MAX = 256, WORD_SIZE_MAX = 64 };

static uint64_t state = 1;
static uint8_t words[WORDS_MAX][WORD_SIZE_MAX];
static size_t word_sizes[WORDS_MAX], words_count;

static size_t draw(size_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(state >> 33) % below;
}

// A line `"text"` of a libFuzzer dictionary, with \\, \" and \xHH inside; other lines are no words.
static void add_word(const char *line) {
    if (*line++ != '"' || words_count == WORDS_MAX) return;
    size_t size = 0;
    for (; *line && *line != '"' && size < WORD_SIZE_MAX; size++) {
        unsigned value = (unsigned char)*line++;
        if (value == '\\' && *line == 'x' && sscanf(line + 1, "%2x", &value) == 1)
            line += 3;
        else if (value == '\\')
            value = (unsigned char)*line++;
        words[words_count][size] = (uint8_t)value;
    }
    word_sizes[words_count++] = size;
}

static int read_words(const char *path) {
    char line[512];
    FILE *file = fopen(path, "rb");
    if (!file) return 0;
    while (fgets(line, sizeof line, file)) add_word(line);
    fclose(file);
    return words_count > 0;
}

static size_t add_bytes(uint8_t *bytes, size_t size, size_t at, const uint8_t *more, size_t more_size) {
    if (size + more_size > FUZZ_SIZE_MAX) return size;
    memmove(bytes + at + more_size, bytes + at, size - at);
    memcpy(bytes + at, more, more_size);
    return size + more_size;
}

// One change at `at`.
static size_t change(uint8_t *bytes, size_t size, size_t at) {
    size_t left = size - at, word = draw(words_count), length = word_sizes[word];
    switch (draw(7)) {
    case 0: // another byte
        if (left) bytes[at] = (uint8_t)draw(256);
        return size;
    case 1: // another digit
        while (at < size && (bytes[at] < '0' || bytes[at] > '9')) at++;
        if (at < size) bytes[at] = (uint8_t)('0' + draw(10));
        return size;
    case 2: // cut short
        return draw(4) ? size : at + draw(left + 1);
    case 3: // a piece less
        length = draw(left + 1) % 64;
        memmove(bytes + at, bytes + at + length, left - length);
        return size - length;
    case 4: // a piece twice
        return add_bytes(bytes, size, at, bytes + at, draw(left + 1) % 64);
    case 5: // a word more
        return add_bytes(bytes, size, at, words[word], length);
    default: // a word instead
        if (length <= left) memcpy(bytes + at, words[word], length);
        return size;
    }
}

static size_t mutate(uint8_t *bytes, size_t size) {
    for (size_t i = 1 + draw(4); i > 0; i--) {
        // Near the front as often as anywhere: headers stand there.
        size_t front = size < 160 ? size : 160;
        size = change(bytes, size, draw(draw(2) ? size + 1 : front + 1));
    }
    return size;
}

static const uint8_t *input;
static size_t input_size;

// Leaves the input that was a finding in the file `finding`.
static void keep_input(int signal_number) {
    int fd = open("finding", O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (fd >= 0 && write(fd, input, input_size) == (ssize_t)input_size) close(fd);
    signal(signal_number, SIG_DFL);
    raise(signal_number);
}

int main(int argc, char **argv) {
    if (argc < 4 || !read_words(argv[2])) {
        fputs("usage: fuzz_TARGET ROUNDS TARGET.dict SEED...\n", stderr);
        return 2;
    }
    signal(SIGABRT, keep_input);
    signal(SIGSEGV, keep_input);
    long rounds = atol(argv[1]) / (is_whole() ? 1 : 2);
    int seeds = argc - 3;
    for (long i = 0; i < rounds || i < seeds; i++) {
        uint8_t bytes[FUZZ_SIZE_MAX];
        FILE *file = fopen(argv[3 + i % seeds], "rb");
        if (!file) return 2;
        size_t size = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        if (i >= seeds) size = mutate(bytes, size);
        uint8_t *exact = malloc(size ? size : 1); // so that sanitizers see a step beyond the end
        if (!exact) return 2;
        memcpy(exact, bytes, size);
        input = exact;
        input_size = size;
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    printf("%ld inputs, %lld taken\n", rounds, (long long)fuzz_accepted);
    return fuzz_accepted <= rounds / 50;
}
