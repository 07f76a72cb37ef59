// SPDX-License-Identifier: MIT
// A text that ranks parse together, each the rows that it has: where rows begin is found by counting records in pieces
// of the text, of which each rank looks at some, and what each finds of its rows is joined.
#ifndef KM_RUNTIME_READ_RANKS_H
#define KM_RUNTIME_READ_RANKS_H
#include "../share.h"
#include "text.h"

// Where the rows of a text are, the same on all ranks. Pieces are of equal size but for the last.
typedef struct km_text_rows {
    int64_t rows;       // of the text
    int has_header;     // they begin behind it
    int64_t begin, end; // the bytes behind the header
    int64_t begin_line; // from 1
    int64_t pieces_count, piece_bytes;
    int64_t *counts;       // rows that begin before each piece, with blank lines in front of the first
    int64_t *lines;        // line ends before each piece
    unsigned char *quoted; // whether a piece begins inside of quotes
    int64_t front;         // blank lines in front that are no rows
    int counts_blank;      // blank lines are rows of one missing value
    char delimiter;
} km_text_rows;

// For tests: the least bytes of a piece.
extern int64_t km_text_piece_bytes;

// What a rank has of a text.
typedef struct km_text_part {
    km_share *share;
    const km_text_rows *of;
    int64_t first, count; // rows
} km_text_part;

// Looks for the rows of a text whose header was found (km_parse_header). All ranks call it alike.
km_status km_text_rows_find(km_text_rows *rows, const km_parse *p, km_share *share, km_error *err);
void km_text_rows_clear(km_text_rows *rows);

// Leaves to `p`, which was opened and has its columns, only the rows of p->part, of which `range` becomes the input.
km_status km_parse_part(km_parse *p, km_input *range);
// What is known of the columns of all rows, once each rank has parsed its own.
km_status km_parse_join(km_parse *p, km_status own);

// Rows of all ranks, and the first of this one; of no part its own, and 0.
static inline int64_t km_parse_rows_all(const km_parse *p) {
    return p->part ? p->part->of->rows : p->table->rows;
}
static inline int64_t km_parse_first(const km_parse *p) {
    return p->part ? p->part->first : 0;
}
// `count` numbers of each rank, one rank after another; the caller's to free. NULL: no memory, or a rank is lost.
double *km_parse_of_ranks(const km_parse *p, const double *own, int64_t count);
// Whether all ranks have it, e.g. memory.
int km_parse_all_have(const km_parse *p, int has);

// Files of one table, of which this rank has its rows, as km_share_of says: table->rows_all and first_of_all are set.
// Where one is no text that is read as it lies, all are whole: rows_all is 0.
km_status km_table_open_share(km_table *table, const char *const *paths, int64_t count,
                              const km_data_params *params, km_share *share, km_error *err);

#endif
