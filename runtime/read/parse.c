// SPDX-License-Identifier: MIT
// Rows of a text as values: blocks of records side by side, joined in the order of the file. A block that fails is
// parsed once more by itself, with its place in the file: so messages are those of one thread.
#include "text.h"
#include "../../base/clock.h"
#include "../../base/size.h"
#include "../memory.h"
#include "../threads.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// What a block knows of a slot.
typedef struct slot_part {
    int64_t missing, unknown, texts;
    int is_falling, is_broken;
    double first, last; // NaN: none
    km_dict categories;
} slot_part;

typedef struct block {
    const unsigned char *begin, *end;
    int64_t first_line;  // of its first record; 0 while it is not known
    int64_t lines_count; // line ends in it
    int skips_blank;     // blank lines at its front are no rows
    km_status status;
    unsigned char *values;
    int64_t rows, capacity;
    int64_t trailing_blank; // rows of blank lines at its end
    int64_t first_row;      // of the table
    int64_t row_line;       // of its first row, counted from the block's front
    int64_t *lines;         // of each row; NULL: row_line, row_line + 1, ...
    slot_part *parts;       // of each slot
    km_cell *cells;
    int64_t cells_capacity;
} block;

// One row -----------------------------------------------------------------------------------------------------

static km_status reserve_row(block *b, const km_parse *p, km_error *err) {
    if (b->rows < b->capacity) return KM_OK;
    int64_t rows = b->capacity ? 2 * b->capacity : 256, bytes;
    if (km_mul_overflows(&bytes, rows, p->slots_count * km_type_bytes(p->params->type))) bytes = INT64_MAX;
    unsigned char *values = realloc(b->values, (size_t)bytes + 1);
    if (!values) return km_fail_memory(err, "the table of a text file", bytes);
    b->values = values;
    if (b->lines) {
        int64_t *lines = realloc(b->lines, (size_t)rows * sizeof *lines);
        if (!lines) return km_fail_memory(err, "the lines of rows", rows * 8);
        b->lines = lines;
    }
    b->capacity = rows;
    return KM_OK;
}

// Notes the line of the row that comes next, counted from the block's front.
static km_status note_line(block *b, int64_t line, km_error *err) {
    if (b->rows == 0) b->row_line = line;
    if (!b->lines && line == b->row_line + b->rows) return KM_OK;
    if (!b->lines) {
        b->lines = malloc((size_t)b->capacity * sizeof *b->lines);
        if (!b->lines) return km_fail_memory(err, "the lines of rows", b->capacity * 8);
        for (int64_t i = 0; i < b->rows; i++) b->lines[i] = b->row_line + i;
    }
    b->lines[b->rows] = line;
    return KM_OK;
}

static km_status many_categories(const km_parse *p, const km_slot *slot, km_error *err) {
    return km_fail(err, KM_ERROR_DATA,
                   "%s: column %" PRId64 " (%s) has more than %d different texts, too many to be categories; "
                   "leave it out of --one-hot",
                   p->file, slot->column + 1, km_parse_name(p, slot->column), KM_CATEGORIES_MAX);
}

km_status km_parse_many_categories(const km_parse *p, const km_slot *slot) {
    return many_categories(p, slot, p->err);
}

static km_status store_category(double *value, slot_part *part, const km_slot *slot, const km_cell *cell,
                                const km_parse *p, km_error *err) {
    *value = NAN;
    if (km_cell_is_missing(cell, &p->spelling)) {
        part->missing++;
        return KM_OK;
    }
    int64_t number = slot->is_given
                         ? km_dict_find(&slot->categories, cell->text, cell->size)
                         : km_dict_add(&part->categories, cell->text, cell->size, KM_CATEGORIES_MAX);
    if (number == -2) return km_fail_memory(err, "categories", KM_CATEGORIES_MAX * 64);
    if (number < 0 && !slot->is_given) return many_categories(p, slot, err);
    part->unknown += number < 0;
    *value = (double)number;
    return KM_OK;
}

static inline void watch(slot_part *part, double value) {
    if (isnan(part->first)) part->first = value;
    part->is_falling |= value <= part->last;
    part->is_broken |= value != floor(value);
    part->last = value;
}

// The value of slot s; KM_ERROR_DATA: the cell holds none.
static inline km_status value_of(double *value, block *b, const km_parse *p, int64_t s, const km_cells *cells,
                                 km_error *err) {
    const km_slot *slot = &p->slots[s];
    const km_cell *cell = &cells->cells[slot->column];
    slot_part *part = &b->parts[s];
    km_cell_sort sort;
    if (slot->kind == KM_COLUMN_CATEGORY) return store_category(value, part, slot, cell, p, err);
    if (slot->kind == KM_COLUMN_NUMBER)
        sort = km_cell_number(value, cell, &p->spelling);
    else if (slot->kind == KM_COLUMN_DATE)
        sort = km_cell_date(value, cell, &p->spelling);
    else
        sort = km_cell_yes_no(value, cell, &p->spelling);
    if (sort == KM_CELL_WRONG && slot->is_open) {
        part->texts++;
        *value = NAN;
        return KM_OK;
    }
    if (sort == KM_CELL_WRONG) return km_parse_bad_cell(p, s, cells, err);
    part->missing += sort == KM_CELL_MISSING;
    if (slot->is_watched) watch(part, *value);
    return KM_OK;
}

static int spells_infinity(const km_cell *cell) {
    for (int64_t i = 0; i < cell->size; i++)
        if (cell->text[i] >= '0' && cell->text[i] <= '9') return 0;
    return 1;
}

static km_status store_row(block *b, const km_parse *p, const km_cells *cells, km_error *err) {
    int64_t count = p->slots_count, first = b->rows * count;
    for (int64_t s = 0; s < count; s++) {
        double value;
        KM_TRY(value_of(&value, b, p, s, cells, err));
        float single = (float)value;
        if (p->params->type == KM_FLOAT32)
            ((float *)(void *)b->values)[first + s] = single;
        else
            ((double *)(void *)b->values)[first + s] = value;
        if ((isinf(p->params->type == KM_FLOAT32 ? (double)single : value)) &&
            !spells_infinity(&cells->cells[p->slots[s].column]))
            return km_parse_bad_cell(p, s, cells, err);
    }
    return KM_OK;
}

// Blocks -----------------------------------------------------------------------------------------------------

// Blank lines of a table of one column are missing values, but for those at its front and at its end.
static km_status add_blank_rows(block *b, const km_parse *p, const km_cells *cells, km_error *err) {
    if (b->rows == 0 && b->skips_blank) return KM_OK;
    static const km_cell empty = {"\n", 0};
    km_cells blank = *cells;
    blank.cells = (km_cell *)&empty;
    for (int64_t i = 0; i < cells->blank; i++) {
        KM_TRY(reserve_row(b, p, err));
        KM_TRY(store_row(b, p, &blank, err));
        KM_TRY(note_line(b, cells->first_line - cells->blank + i - b->first_line, err));
        b->rows++;
        b->trailing_blank++;
    }
    return KM_OK;
}

static km_status check_record(const km_parse *p, km_record_state record, const km_cells *cells,
                              km_error *err) {
    if (record != KM_RECORD_READ) return km_parse_refuse(p, record, cells, err);
    if (cells->count == p->columns_count) return KM_OK;
    // Few cells in the first row and more in the next: a title, a comment, or Excel's "sep=;".
    int is_title = !p->is_later && cells->first_line == p->body_line && cells->count > p->columns_count &&
                   p->columns_count <= 2;
    return km_fail(err, KM_ERROR_DATA,
                   "%s: row %" PRId64 " has %" PRId64 " cells, but row %" PRId64 " has %" PRId64
                   "; every row needs the same%s",
                   p->file, cells->first_line, cells->count, p->first_line, p->columns_count,
                   is_title ? "; what stands before the table must go, as by tail -n +2" : "");
}

static km_status read_rows(block *b, const km_parse *p, km_cells *cells, km_error *err) {
    for (;;) {
        km_record_state record = km_cells_next(cells);
        if (record == KM_RECORD_END) cells->first_line = cells->line;
        if (cells->blank && p->columns_count == 1 && p->slots_count) KM_TRY(add_blank_rows(b, p, cells, err));
        if (record == KM_RECORD_END) return KM_OK;
        KM_TRY(check_record(p, record, cells, err));
        KM_TRY(reserve_row(b, p, err));
        KM_TRY(store_row(b, p, cells, err));
        KM_TRY(note_line(b, cells->first_line - b->first_line, err));
        b->rows++;
        b->trailing_blank = 0;
    }
}

static void parts_clear(block *b, int64_t count) {
    for (int64_t s = 0; b->parts && s < count; s++) {
        km_dict_free(&b->parts[s].categories);
        b->parts[s] = (slot_part){.first = NAN, .last = NAN};
    }
}

static km_status parse_block(block *b, const km_parse *p, km_error *err) {
    km_cells cells = {.at = b->begin,
                      .end = b->end,
                      .delimiter = (unsigned char)p->delimiter,
                      .line = b->first_line,
                      .cells = b->cells,
                      .capacity = b->cells_capacity};
    b->rows = b->trailing_blank = 0;
    free(b->lines);
    b->lines = NULL;
    if (!b->parts) b->parts = calloc((size_t)p->slots_count + 1, sizeof *b->parts);
    if (!b->parts) return km_fail_memory(err, "columns", p->slots_count * (int64_t)sizeof *b->parts);
    parts_clear(b, p->slots_count);
    km_status status = read_rows(b, p, &cells, err);
    b->lines_count = cells.line - b->first_line;
    b->cells = cells.cells;
    b->cells_capacity = cells.capacity;
    cells.cells = NULL;
    km_cells_free(&cells);
    return status;
}

// Joining ----------------------------------------------------------------------------------------------------

// Whether the table moves to a temporary file, as `more` would take most of what is left.
static int wants_file(const km_parse *p, int64_t bytes, int64_t more) {
    const km_data_params *params = p->params;
    if (!params->scratch_dir || p->grown.is_file || bytes < KM_SCRATCH_FROM) return 0;
    int64_t left = params->memory_max > 0 ? km_host_left_of(params->memory_max) : km_host_free(NULL);
    return left > 0 && more > left / 2;
}

static km_status reserve_rows(km_parse *p, int64_t more) {
    int64_t rows = p->table->rows + more, bytes, row_bytes = p->slots_count * km_type_bytes(p->params->type);
    if (rows <= p->rows_capacity) return KM_OK;
    int64_t old = p->rows_capacity;
    rows = km_max(rows, old + old / 2);
    if (km_mul_overflows(&bytes, rows, row_bytes)) bytes = INT64_MAX;
    const char *folder = wants_file(p, bytes, bytes - old * row_bytes) ? p->params->scratch_dir : NULL;
    if (!folder && !p->grown.is_file)
        KM_TRY(km_host_check("more of the table of a text file", bytes - old * row_bytes, p->err));
    if (!km_growing_reserve(&p->grown, bytes + 1, folder)) {
        if (!folder && !p->grown.is_file) return km_fail_memory(p->err, "the table of a text file", bytes);
        if (access(p->params->scratch_dir, W_OK | X_OK) != 0)
            return km_fail(p->err, KM_ERROR_IO, "%.300s: %s; a folder for temporary files is needed",
                           p->params->scratch_dir, strerror(errno));
        return km_fail(p->err, KM_ERROR_IO, "no place in %.300s for the values of %s, %.2f GiB",
                       p->params->scratch_dir, p->file, (double)bytes / 0x1p30);
    }
    p->values = p->grown.memory;
    p->rows_capacity = rows;
    return KM_OK;
}

static km_status join_lines(km_parse *p, const block *b, int64_t line) {
    km_table *table = p->table;
    if (b->rows == 0) return KM_OK;
    if (table->rows == 0) table->first_line = line + b->row_line;
    if (!table->lines && !b->lines && line + b->row_line == table->first_line + table->rows) return KM_OK;
    for (int64_t i = 0; i < b->rows; i++) {
        int64_t of_row = b->lines ? b->lines[i] : b->row_line + i;
        KM_TRY(km_table_note_line(table, table->rows + i, line + of_row, p->rows_capacity, p->err));
    }
    return KM_OK;
}

// Categories of a block have numbers of their own: in its values they become those of the slot.
static km_status join_categories(km_parse *p, km_slot *slot, int64_t s, const block *b) {
    const km_dict *own = &b->parts[s].categories;
    double numbers[KM_CATEGORIES_MAX];
    for (int64_t i = 0; i < own->count; i++) {
        const char *text = own->texts[i];
        int64_t number = km_dict_add(&slot->categories, text, (int64_t)strlen(text), KM_CATEGORIES_MAX);
        if (number == -2) return km_fail_memory(p->err, "categories", KM_CATEGORIES_MAX * 64);
        if (number == -1) return km_parse_many_categories(p, slot);
        numbers[i] = (double)number;
    }
    for (int64_t i = 0; i < b->rows; i++) {
        int64_t at = i * p->slots_count + s;
        if (p->params->type == KM_FLOAT32) {
            float *value = (float *)(void *)b->values + at;
            if (!isnan(*value)) *value = (float)numbers[(int64_t)*value];
        } else {
            double *value = (double *)(void *)b->values + at;
            if (!isnan(*value)) *value = numbers[(int64_t)*value];
        }
    }
    return KM_OK;
}

static km_status join_slots(km_parse *p, const block *b) {
    for (int64_t s = 0; s < p->slots_count; s++) {
        km_slot *slot = &p->slots[s];
        const slot_part *part = &b->parts[s];
        slot->missing += part->missing;
        slot->unknown += part->unknown;
        slot->texts += part->texts;
        if (slot->is_watched && b->rows) {
            slot->is_falling |= part->is_falling || part->first <= slot->last;
            slot->is_broken |= part->is_broken;
            if (isnan(slot->first)) slot->first = part->first;
            slot->last = part->last;
        }
        if (slot->kind == KM_COLUMN_CATEGORY && !slot->is_given) KM_TRY(join_categories(p, slot, s, b));
    }
    return KM_OK;
}

// Adds a block whose first record is on line `line`, but for its values.
static km_status join(km_parse *p, block *b, int64_t line) {
    if (b->status != KM_OK) {
        b->first_line = line;
        KM_TRY(parse_block(b, p, p->err));
    }
    KM_TRY(reserve_rows(p, b->rows));
    KM_TRY(join_slots(p, b));
    KM_TRY(join_lines(p, b, line));
    b->first_row = p->table->rows;
    p->table->rows += b->rows;
    p->trailing_blank = b->trailing_blank == b->rows ? p->trailing_blank + b->rows : b->trailing_blank;
    return KM_OK;
}

static void copy_values(km_parse *p, const block *b) {
    int64_t row_bytes = p->slots_count * km_type_bytes(p->params->type);
    if (b->rows) memcpy(p->values + b->first_row * row_bytes, b->values, (size_t)(b->rows * row_bytes));
}

static km_status report(const km_parse *p) {
    const km_data_params *params = p->params;
    if (!params->progress) return KM_OK;
    const km_input *input = p->blocks.input;
    km_progress progress = {"parse", input->taken, input->size, p->table->rows,
                            (km_now_ms() - p->begin_ms) / 1e3};
    if (params->progress(params->progress_user, &progress))
        return km_fail(p->err, KM_ERROR_INTERRUPTED, "stopped while %s was read", p->file);
    return KM_OK;
}

static km_status parse_batches(km_parse *p, block *blocks, int threads) {
    km_batch batch;
    int64_t line = p->body_line, skipped = p->body_offset;
    (void)threads;
    for (;;) {
        KM_TRY(km_blocks_next(&batch, &p->blocks, p->err));
        if (!batch.count) return KM_OK;
        const unsigned char *body = p->blocks.buffer + skipped;
        for (int64_t i = 0; i < batch.count; i++) {
            blocks[i].begin = batch.starts[i] < body ? body : batch.starts[i];
            blocks[i].end = batch.starts[i + 1] < body ? body : batch.starts[i + 1];
            blocks[i].first_line = 1;
            blocks[i].skips_blank = p->table->rows == 0 && i == 0 && !p->has_header && !p->is_later;
        }
        km_status ahead = KM_OK;
#pragma omp parallel for num_threads(threads) schedule(dynamic) if (batch.count > 1 && threads > 1)
        for (int64_t i = -1; i < batch.count; i++) {
            if (i < 0)
                ahead = km_blocks_read_ahead(&p->blocks, p->err);
            else
                blocks[i].status = parse_block(&blocks[i], p, NULL);
        }
        for (int64_t i = 0; i < batch.count; i++) {
            KM_TRY(join(p, &blocks[i], line));
            line += blocks[i].lines_count;
        }
#pragma omp parallel for num_threads(threads) if (batch.count > 1 && threads > 1)
        for (int64_t i = 0; i < batch.count; i++) copy_values(p, &blocks[i]);
        KM_TRY(ahead);
        skipped = 0;
        KM_TRY(report(p));
    }
}

km_status km_parse_rows(km_parse *p) {
    block *blocks = calloc(KM_BATCH_MAX, sizeof *blocks);
    if (!blocks) return km_fail_memory(p->err, "reading text", KM_BATCH_MAX * (int64_t)sizeof *blocks);
    int threads = (int)km_min(km_host_threads(p->params->threads), KM_BATCH_MAX);
    for (int64_t s = 0; s < p->slots_count; s++) p->slots[s].first = p->slots[s].last = NAN;
    km_status status = parse_batches(p, blocks, threads);
    for (int64_t i = 0; i < KM_BATCH_MAX; i++) {
        parts_clear(&blocks[i], p->slots_count);
        free(blocks[i].parts);
        free(blocks[i].values);
        free(blocks[i].lines);
        free(blocks[i].cells);
    }
    free(blocks);
    KM_TRY(status);
    if (p->part && !p->has_end) return KM_OK; // blank lines at its end are rows, too
    p->table->rows -= p->trailing_blank;
    if (p->trailing_blank) p->slots[0].missing -= p->trailing_blank;
    return KM_OK;
}

// Record by record -------------------------------------------------------------------------------------------

// `blank`: lines of the last block's end.
static km_status use_block(const km_parse *p, const unsigned char *begin, const unsigned char *end,
                           int64_t *line, int64_t *blank, km_record_user *use, void *user) {
    km_cells cells = {.at = begin, .end = end, .delimiter = (unsigned char)p->delimiter, .line = *line};
    km_status status = KM_OK;
    for (;;) {
        km_record_state record = km_cells_next(&cells);
        *blank = cells.blank += *blank;
        if (record == KM_RECORD_END) break;
        *blank = 0;
        KM_TRY_GOTO(check_record(p, record, &cells, p->err));
        KM_TRY_GOTO(use(user, &cells, &p->spelling, p->err));
    }
    *line = cells.line;
done:
    km_cells_free(&cells);
    return status;
}

km_status km_parse_each(km_parse *p, km_record_user *use, void *user) {
    km_batch batch;
    int64_t line = p->body_line, skipped = p->body_offset, blank = 0;
    for (;;) {
        KM_TRY(km_blocks_next(&batch, &p->blocks, p->err));
        if (!batch.count) return KM_OK;
        const unsigned char *body = p->blocks.buffer + skipped;
        for (int64_t i = 0; i < batch.count; i++) {
            if (batch.starts[i + 1] <= body) continue;
            KM_TRY(use_block(p, batch.starts[i] < body ? body : batch.starts[i], batch.starts[i + 1], &line,
                             &blank, use, user));
        }
        skipped = 0;
    }
}
