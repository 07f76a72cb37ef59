// SPDX-License-Identifier: MIT
// Where the rows of a text begin, by ranks and threads that each count in some pieces of it. What a piece holds depends
// on whether it begins inside of quotes: it is counted both ways, and when all pieces are known, each tells the next.
#include "../../base/size.h"
#include "../threads.h"
#include "ranks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    READ_BYTES = 1 << 20,
    PIECES_MAX = 4096,
    WINDOW = 64, // km_cells_ends
    BACK_BYTES = 256
};

int64_t km_text_piece_bytes = 1 << 20;

typedef enum place {
    FRONT,
    ROW,
    QUOTED
} place; // nothing but spaces since the line's begin; in a record; in quotes

// What was met in some bytes.
typedef struct counts {
    place at;
    unsigned char before; // the byte before the next one
    int64_t records;      // that began
    int64_t lines;        // line ends
    int64_t blanks;       // blank lines, ...
    int64_t front, back;  // ... before the first record, and behind the last
    int64_t feeds;        // newlines, in quotes or not
    int has_quotes;
} counts;

static inline int is_space(unsigned char c, unsigned char delimiter) {
    return (c == ' ' || c == '\t') && c != delimiter;
}

static inline void begin_record(counts *c) {
    c->at = ROW;
    c->records++;
    c->back = 0;
}

static inline void end_line(counts *c) {
    c->lines++;
    if (c->at == FRONT) {
        c->blanks++;
        c->back++;
        c->front += c->records == 0;
    }
    c->at = FRONT;
}

static inline int64_t rows_in(const counts *c, int counts_blank) {
    return c->records + (counts_blank ? c->blanks : 0);
}

// Counts on through `size` bytes, as km_cells_next takes them. Returns behind the line end at which so many rows were
// met, or -1.
static int64_t count_bytes(counts *c, const unsigned char *bytes, int64_t size, unsigned char delimiter,
                           int counts_blank, int64_t wanted) {
    int64_t from = 0; // nothing but spaces was seen before, where the place is FRONT
    for (int64_t window = 0; window < size; window += WINDOW) {
        uint64_t ends = km_cells_ends(bytes + window, km_min(size - window, WINDOW), '\n');
        for (; ends; ends &= ends - 1) {
            int64_t at = window + __builtin_ctzll(ends);
            unsigned char byte = bytes[at], before = at > 0 ? bytes[at - 1] : c->before;
            c->feeds += byte == '\n';
            if (c->at == FRONT) {
                while (from < at && is_space(bytes[from], delimiter)) from++;
                if (from < at || byte == '"') begin_record(c);
            }
            if (byte == '"') {
                c->has_quotes = 1;
                c->at = c->at == QUOTED ? ROW : QUOTED;
            } else if (c->at == QUOTED) {
                c->lines += byte == '\n';
            } else if (byte == '\n' && before == '\r' && c->at == FRONT) {
                from = at + 1; // the second half of a line end
            } else {
                end_line(c);
                from = at + 1;
                if (rows_in(c, counts_blank) == wanted) return from;
            }
        }
    }
    if (c->at == FRONT) {
        while (from < size && is_space(bytes[from], delimiter)) from++;
        if (from < size) begin_record(c);
    }
    if (size > 0) c->before = bytes[size - 1];
    return -1;
}

// Reading ----------------------------------------------------------------------------------------------------

// Bytes of the input from `at` on: all of them.
static km_status read_at(unsigned char *out, int64_t size, int64_t at, const km_input *input, km_error *err) {
    for (int64_t done = 0; done < size;) {
        ssize_t got = pread(input->fd, out + done, (size_t)(size - done), input->offset + at + done);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return km_fail(err, KM_ERROR_IO, "cannot read %s: %s", input->name, strerror(errno));
        if (got == 0)
            return km_fail(err, KM_ERROR_IO,
                           "%s became shorter while it was read; use a copy that nothing writes to",
                           input->name);
        done += got;
    }
    return KM_OK;
}

// Where the line begins in which byte `at` is, if only spaces stand between, outside of quotes; -1: others do.
static km_status find_front(int64_t *front, const km_text_rows *rows, int64_t at, const km_input *input,
                            km_error *err) {
    unsigned char bytes[BACK_BYTES];
    for (int64_t end = at; end > rows->begin;) {
        int64_t count = km_min(end - rows->begin, BACK_BYTES);
        KM_TRY(read_at(bytes, count, end - count, input, err));
        int64_t i = count;
        while (i > 0 && is_space(bytes[i - 1], (unsigned char)rows->delimiter)) i--;
        *front = end - count + i;
        if (i > 0 && bytes[i - 1] != '\n' && bytes[i - 1] != '\r') *front = -1;
        if (i > 0) return KM_OK;
        end -= count;
    }
    *front = rows->begin;
    return KM_OK;
}

// The place at the front of a piece that does not begin inside of quotes.
static km_status begin_counts(counts *c, int64_t *front, const km_text_rows *rows, int64_t at,
                              const km_input *input, km_error *err) {
    *c = (counts){.at = ROW};
    KM_TRY(find_front(front, rows, at, input, err));
    if (*front >= 0) c->at = FRONT;
    return at > rows->begin ? read_at(&c->before, 1, at - 1, input, err) : KM_OK;
}

static int64_t piece_at(const km_text_rows *rows, int64_t piece) {
    return km_min(rows->begin + piece * rows->piece_bytes, rows->end);
}

// Pieces -----------------------------------------------------------------------------------------------------

// What ranks tell of a piece, first if it begins outside of quotes, then if inside.
enum { RECORDS, LINES, BLANKS, PIECE_FRONT, PIECE_BACK, ENDS_QUOTED, WAY, PIECE = 2 * WAY };

static void tell(double *out, const counts *c) {
    out[RECORDS] = (double)c->records;
    out[LINES] = (double)c->lines;
    out[BLANKS] = (double)c->blanks;
    out[PIECE_FRONT] = (double)c->front;
    out[PIECE_BACK] = (double)c->back;
    out[ENDS_QUOTED] = c->at == QUOTED;
}

static km_status count_piece(double *out, const km_text_rows *rows, int64_t piece, unsigned char *buffer,
                             const km_input *input, km_error *err) {
    int64_t begin = piece_at(rows, piece), end = piece_at(rows, piece + 1), front;
    unsigned char delimiter = (unsigned char)rows->delimiter;
    counts outside, inside;
    KM_TRY(begin_counts(&outside, &front, rows, begin, input, err));
    inside = (counts){.at = QUOTED, .before = outside.before};
    for (int64_t at = begin; at < end; at += READ_BYTES) {
        int64_t size = km_min(end - at, READ_BYTES), feeds = outside.feeds;
        KM_TRY(read_at(buffer, size, at, input, err));
        count_bytes(&outside, buffer, size, delimiter, 0, -1);
        if (outside.has_quotes) {
            count_bytes(&inside, buffer, size, delimiter, 0, -1);
        } else { // the same quotes go on
            inside.lines += outside.feeds - feeds;
            inside.before = outside.before;
        }
    }
    tell(out, &outside);
    tell(out + WAY, &inside);
    return KM_OK;
}

// The pieces first .. end - 1, by threads.
static km_status count_pieces(double *out, const km_text_rows *rows, int64_t first, int64_t end,
                              const km_input *input, int64_t wanted_threads, km_error *err) {
    int threads = (int)km_max(1, km_min(km_host_threads(wanted_threads), end - first));
    km_status status = KM_OK;
    (void)threads;
#pragma omp parallel num_threads(threads)
    {
        unsigned char *buffer = malloc(READ_BYTES);
        km_error own_err = {{0}};
        km_status own = buffer ? KM_OK : km_fail_memory(&own_err, "reading text", READ_BYTES);
#pragma omp for schedule(dynamic)
        for (int64_t i = first; i < end; i++)
            if (own == KM_OK) own = count_piece(out + i * PIECE, rows, i, buffer, input, &own_err);
        free(buffer);
#pragma omp critical
        if (own != KM_OK && status == KM_OK) status = km_fail(err, own, "%s", own_err.text);
    }
    return status;
}

// From one piece to the next.
static void add_up(km_text_rows *rows, const double *pieces) {
    int64_t records = 0, lines = 0, blanks = 0, front = 0, back = 0;
    int quoted = 0;
    for (int64_t i = 0;; i++) {
        rows->counts[i] = records + (rows->counts_blank ? blanks : 0);
        rows->lines[i] = lines;
        rows->quoted[i] = (unsigned char)quoted;
        if (i == rows->pieces_count) break;
        const double *p = pieces + i * PIECE + (quoted ? WAY : 0);
        if (records == 0) front += (int64_t)p[PIECE_FRONT];
        back = p[RECORDS] > 0 ? (int64_t)p[PIECE_BACK] : back + (int64_t)p[BLANKS];
        records += (int64_t)p[RECORDS];
        lines += (int64_t)p[LINES];
        blanks += (int64_t)p[BLANKS];
        quoted = p[ENDS_QUOTED] != 0;
    }
    rows->front = rows->counts_blank && !rows->has_header ? front : 0;
    rows->rows = rows->counts[rows->pieces_count] - rows->front - (rows->counts_blank ? back : 0);
    rows->rows = km_max(rows->rows, 0);
}

static km_status rows_reserve(km_text_rows *rows, double **pieces, km_error *err) {
    size_t count = (size_t)rows->pieces_count + 1;
    rows->counts = malloc(count * sizeof *rows->counts);
    rows->lines = malloc(count * sizeof *rows->lines);
    rows->quoted = malloc(count);
    *pieces = calloc(count * PIECE, sizeof **pieces);
    if (rows->counts && rows->lines && rows->quoted && *pieces) return KM_OK;
    return km_fail_memory(err, "the rows of a text", (int64_t)count * (PIECE + 3) * 8);
}

km_status km_text_rows_find(km_text_rows *rows, const km_parse *p, km_share *share, km_error *err) {
    const km_input *input = p->blocks.input;
    const km_communicator *ranks = share->ranks;
    int64_t bytes = input->size - p->body_offset;
    double *pieces = NULL;
    *rows = (km_text_rows){.has_header = p->has_header,
                           .begin = p->body_offset,
                           .end = input->size,
                           .begin_line = p->body_line,
                           .counts_blank = p->columns_count == 1,
                           .delimiter = p->delimiter};
    rows->piece_bytes = km_max(km_divide_up(bytes, PIECES_MAX), km_text_piece_bytes);
    rows->pieces_count = km_divide_up(bytes, rows->piece_bytes);
    int64_t all = rows->pieces_count, first = all * ranks->rank / ranks->size,
            end = all * (ranks->rank + 1) / ranks->size;
    km_status status = rows_reserve(rows, &pieces, err);
    if (status == KM_OK) status = count_pieces(pieces, rows, first, end, input, p->params->threads, err);
    status = km_share_agree(share, status, err);
    if (status == KM_OK) status = km_share_sum(share, pieces, all * PIECE, err);
    if (status == KM_OK) add_up(rows, pieces);
    free(pieces);
    return status;
}

void km_text_rows_clear(km_text_rows *rows) {
    free(rows->counts);
    free(rows->lines);
    free(rows->quoted);
    *rows = (km_text_rows){0};
}

// Where a row begins -----------------------------------------------------------------------------------------

// In the piece whose first byte is at `at`: behind the line end at which so many rows were met before.
static km_status find_in_piece(int64_t *found, int64_t *line, const km_text_rows *rows, int64_t piece,
                               int64_t wanted, unsigned char *buffer, const km_input *input, km_error *err) {
    int64_t begin = piece_at(rows, piece), front = -1, size;
    counts c = {.at = QUOTED};
    *found = -1;
    if (!rows->quoted[piece]) KM_TRY(begin_counts(&c, &front, rows, begin, input, err));
    if (front >= 0 && wanted == 0) *found = front;
    for (int64_t at = begin; *found < 0 && at < rows->end; at += size) {
        size = km_min(rows->end - at, READ_BYTES);
        KM_TRY(read_at(buffer, size, at, input, err));
        int64_t behind =
            count_bytes(&c, buffer, size, (unsigned char)rows->delimiter, rows->counts_blank, wanted);
        if (behind >= 0) *found = at + behind;
    }
    if (*found < 0) *found = rows->end;
    *line = rows->begin_line + rows->lines[piece] + c.lines;
    unsigned char around[2];
    if (*found <= rows->begin || *found >= rows->end) return KM_OK;
    KM_TRY(read_at(around, 2, *found - 1, input, err));
    *found += around[0] == '\r' && around[1] == '\n'; // one line end
    return KM_OK;
}

// Where row `row` begins, and in which line.
static km_status find_row(int64_t *found, int64_t *line, const km_text_rows *rows, int64_t row,
                          const km_input *input, km_error *err) {
    *found = row == 0 ? rows->begin : rows->end;
    *line = rows->begin_line;
    if (row == 0 || row == rows->rows) return KM_OK;
    int64_t wanted = row + rows->front, piece = 0;
    while (piece + 1 < rows->pieces_count && rows->counts[piece + 1] <= wanted) piece++;
    unsigned char *buffer = malloc(READ_BYTES);
    if (!buffer) return km_fail_memory(err, "reading text", READ_BYTES);
    km_status status =
        find_in_piece(found, line, rows, piece, wanted - rows->counts[piece], buffer, input, err);
    free(buffer);
    return status;
}

km_status km_parse_part(km_parse *p, km_input *range) {
    const km_text_part *part = p->part;
    km_input *input = p->blocks.input;
    int64_t begin, end, unused;
    KM_TRY(find_row(&begin, &p->body_line, part->of, part->first, input, p->err));
    KM_TRY(find_row(&end, &unused, part->of, part->first + part->count, input, p->err));
    if (part->count == 0) end = begin;
    p->is_later = part->first > 0;
    p->has_end = part->first + part->count == part->of->rows;
    p->body_offset = 0;
    *range = (km_input){.name = input->name,
                        .fd = input->fd,
                        .is_regular = 1,
                        .is_range = 1,
                        .offset = input->offset + begin,
                        .size = end - begin};
    if (lseek(range->fd, range->offset, SEEK_SET) < 0)
        return km_fail(p->err, KM_ERROR_IO, "cannot read %s: %s", input->name, strerror(errno));
    int64_t threads = km_host_threads(p->params->threads);
    km_blocks_close(&p->blocks);
    return km_blocks_open(&p->blocks, range, 8 * threads, p->err);
}
