// SPDX-License-Identifier: MIT
// Lines no wider than a terminal: broken at spaces, what goes on standing under what it belongs to.
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { INDENT_MAX = 44 };

int cli_width(int fd) {
    struct winsize size;
    const char *columns = getenv("COLUMNS");
    long width = columns ? strtol(columns, NULL, 10) : 0;
    if (!width && isatty(fd) && ioctl(fd, TIOCGWINSZ, &size) == 0) width = size.ws_col ? size.ws_col : 80;
    return width >= 40 && width <= 10000 ? (int)width : 0;
}

// The next character's bytes; *columns gets those that it takes: none for ANSI colours, one for all else.
static int step(const char *at, const char *end, int *columns) {
    int size = 1;
    *columns = *at != '\033';
    if (*at == '\033')
        while (at + size < end && at[size - 1] != 'm') size++;
    else
        while (at + size < end && ((unsigned char)at[size] & 0xc0) == 0x80) size++;
    return size;
}

// Where the last cell of a line begins that has two spaces before it, if not too far right; else behind the line's own
// indentation, and two more.
static int indent_of(const char *line, const char *end) {
    int indent = 2, column = 0, spaces = 0, own = -1, columns;
    for (const char *at = line; at < end && column < INDENT_MAX; at += step(at, end, &columns)) {
        step(at, end, &columns);
        if (*at != ' ' && own < 0) indent = column + 2;
        if (*at != ' ' && own >= 0 && spaces >= 2) indent = column;
        if (*at != ' ') own = column;
        spaces = *at == ' ' ? spaces + 1 : 0;
        column += columns;
    }
    return indent;
}

static void print_line(FILE *stream, const char *line, const char *end, int width) {
    int indent = indent_of(line, end), column = 0;
    while (line < end) {
        const char *at = line, *space = NULL;
        while (at < end) {
            int columns, size = step(at, end, &columns);
            if (column + columns > width) break;
            // "K = 3" is one word.
            if (*at == ' ' && column > indent && at[-1] != '=' && at[1] != '=') space = at;
            column += columns;
            at += size;
        }
        if (at == end || !space) { // a word that is too long goes on as it is
            space = at == end ? end : memchr(at, ' ', (size_t)(end - at));
            if (!space) space = end;
        }
        const char *stop = space;
        while (stop > line && stop[-1] == ' ') stop--;
        fwrite(line, 1, (size_t)(stop - line), stream);
        fputc('\n', stream);
        for (line = space; line < end && *line == ' ';) line++;
        if (line < end) fprintf(stream, "%*s", indent, "");
        column = indent;
    }
}

void cli_wrapped(FILE *stream, const char *text, int width) {
    while (*text) {
        const char *end = text + strcspn(text, "\n");
        if (width && end - text > width)
            print_line(stream, text, end, width);
        else
            fprintf(stream, "%.*s\n", (int)(end - text), text);
        text = *end ? end + 1 : end;
    }
}
