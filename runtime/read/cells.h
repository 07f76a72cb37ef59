// SPDX-License-Identifier: MIT
// Cells of text that is separated by commas and the like (RFC 4180, strict quotes), a block of whole records at a time,
// so that several threads may each read one.
#ifndef KM_RUNTIME_READ_CELLS_H
#define KM_RUNTIME_READ_CELLS_H
#include "reader.h"

// One cell, without its quotes and the spaces around it. Behind its bytes is one that no number holds.
typedef struct km_cell {
    const char *text;
    int64_t size;
} km_cell;

// Most cells of a row, features or not.
enum { KM_CELLS_MAX = 1 << 20 };

typedef enum km_record_state {
    KM_RECORD_READ,
    KM_RECORD_END,       // the block has no more; `blank` lines were before its end
    KM_RECORD_MISQUOTED, // a quote is out of place, in cell `count`
    KM_RECORD_UNCLOSED,  // a quote is opened there and never closed
    KM_RECORD_TOO_WIDE,  // more cells than KM_CELLS_MAX
    KM_RECORD_NO_MEMORY,
} km_record_state;

// Set at, end, delimiter and line; the rest begins as zeros.
typedef struct km_cells {
    const unsigned char *at, *end; // what is left of the block; a newline stands at `end` or just before it
    unsigned char delimiter;
    int64_t line; // of `at`, from 1
    // Which of the 64 bytes from `window` on may end a cell, bit i for byte i; NULL: none were looked at yet.
    const unsigned char *window;
    uint64_t ends;
    // The record that was read last:
    km_cell *cells;
    int64_t count, capacity;
    int64_t first_line; // where it began
    int64_t blank;      // blank lines just before it
    char *unquoted;     // of cells in which quotes are written twice
    int64_t unquoted_size, unquoted_capacity;
} km_cells;

km_record_state km_cells_next(km_cells *cells);
void km_cells_free(km_cells *cells);

// Which of `count` bytes, 64 at most, may end a cell: bit i for byte i.
uint64_t km_cells_ends(const unsigned char *at, int64_t count, unsigned char delimiter);

// Behind the last record that ends in begin .. end, where a record begins at `begin`; NULL: none ends there.
const unsigned char *km_cells_cut(const unsigned char *begin, const unsigned char *end);

// A text, unpacked, in batches of blocks of whole records.
typedef struct km_blocks {
    km_input *input;
    unsigned char *buffer;
    int64_t capacity, size; // of the buffer; bytes in it
    int64_t taken;          // bytes at its front that the last batch had
    int64_t block_bytes;
    int is_last; // the input has ended
    // What comes after the batch, where it was read ahead; NULL: there is no such buffer yet.
    unsigned char *ahead;
    int64_t ahead_size;
    int is_ahead, ahead_is_last;
} km_blocks;

enum { KM_BATCH_MAX = 512 };
// Blocks of a batch: block i is starts[i] .. starts[i + 1].
typedef struct km_batch {
    const unsigned char *starts[KM_BATCH_MAX + 1];
    int64_t count; // 0: the text has ended
} km_batch;

// `wanted`: blocks of a batch, 1..KM_BATCH_MAX.
km_status km_blocks_open(km_blocks *blocks, km_input *input, int64_t wanted, km_error *err);
// Reads until the buffer has `size` bytes, or the text ends; what a batch gave before is still there.
km_status km_blocks_fill(km_blocks *blocks, int64_t size, km_error *err);
// Doubles what a batch may hold: for records that are longer than all its blocks, and for a longer look.
km_status km_blocks_grow(km_blocks *blocks, km_error *err);
// Reads what comes after the batch into a buffer of its own, while other threads use the batch.
km_status km_blocks_read_ahead(km_blocks *blocks, km_error *err);
// The next batch, in place of the one before.
km_status km_blocks_next(km_batch *batch, km_blocks *blocks, km_error *err);
void km_blocks_close(km_blocks *blocks);

#endif
