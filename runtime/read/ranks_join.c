// SPDX-License-Identifier: MIT
// What ranks that parse a text together tell each other: what columns hold in all rows, whether all files are texts.
#include "../../base/size.h"
#include "../memory.h"
#include "ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int km_parse_all_have(const km_parse *p, int has) {
    double sum = has != 0;
    if (!p->part) return has;
    if (km_share_sum(p->part->share, &sum, 1, NULL) != KM_OK) return 0;
    return sum == (double)p->part->share->ranks->size;
}

double *km_parse_of_ranks(const km_parse *p, const double *own, int64_t count) {
    km_share *share = p->part->share;
    const km_communicator *ranks = share->ranks;
    double *all = malloc((size_t)(ranks->size * count) * sizeof *all + 1);
    int has_all = km_parse_all_have(p, all != NULL);
    if (has_all &&
        km_share_gather(share, all, ranks->size * count, own, ranks->rank * count, count, 1, NULL) == KM_OK)
        return all;
    free(all);
    return NULL;
}

// Columns ----------------------------------------------------------------------------------------------------

enum { MISSING, UNKNOWN, TEXTS, FALLING, BROKEN, FIRST, LAST, SLOT };

static void tell_slots(double *own, const km_parse *p) {
    *own++ = (double)p->table->rows;
    for (const km_slot *slot = p->slots; slot < p->slots + p->slots_count; slot++, own += SLOT) {
        own[MISSING] = (double)slot->missing;
        own[UNKNOWN] = (double)slot->unknown;
        own[TEXTS] = (double)slot->texts;
        own[FALLING] = slot->is_falling;
        own[BROKEN] = slot->is_broken;
        own[FIRST] = slot->first;
        own[LAST] = slot->last;
    }
}

// In the order of the rows, as blocks are joined.
static void join_slots(km_parse *p, const double *all, int64_t size) {
    int64_t width = 1 + SLOT * p->slots_count;
    for (int64_t s = 0; s < p->slots_count; s++) {
        km_slot *slot = &p->slots[s];
        *slot = (km_slot){.column = slot->column,
                          .kind = slot->kind,
                          .is_weight = slot->is_weight,
                          .is_watched = slot->is_watched,
                          .is_open = slot->is_open,
                          .is_given = slot->is_given,
                          .categories = slot->categories,
                          .first = NAN,
                          .last = NAN};
        for (int64_t r = 0; r < size; r++) {
            const double *of = all + r * width + 1 + s * SLOT;
            slot->missing += (int64_t)of[MISSING];
            slot->unknown += (int64_t)of[UNKNOWN];
            slot->texts += (int64_t)of[TEXTS];
            if (!slot->is_watched || all[r * width] == 0) continue;
            slot->is_falling |= of[FALLING] != 0 || of[FIRST] <= slot->last;
            slot->is_broken |= of[BROKEN] != 0;
            slot->last = of[LAST];
        }
    }
}

// Words ------------------------------------------------------------------------------------------------------

static int has_words(const km_slot *slot) {
    return slot->kind == KM_COLUMN_CATEGORY && !slot->is_given;
}

// The categories of all slots, each with the zero behind it, and behind those of a slot one zero more.
static int64_t words_bytes(const km_parse *p) {
    int64_t bytes = 0;
    for (const km_slot *slot = p->slots; slot < p->slots + p->slots_count; slot++) {
        for (int64_t i = 0; has_words(slot) && i < slot->categories.count; i++)
            bytes += (int64_t)strlen(slot->categories.texts[i]) + 2;
        bytes += has_words(slot);
    }
    return bytes;
}

// Each word begins with a 1, so that an empty one is told from the end.
static void tell_words(double *out, const km_parse *p) {
    for (const km_slot *slot = p->slots; slot < p->slots + p->slots_count; slot++) {
        for (int64_t i = 0; has_words(slot) && i < slot->categories.count; i++) {
            const char *text = slot->categories.texts[i];
            *out++ = 1;
            for (; *text; text++) *out++ = (unsigned char)*text;
            *out++ = 0;
        }
        if (has_words(slot)) *out++ = 0;
    }
}

// Adds the words of one rank, behind this one's own, whose numbers stay. They are put in order by their texts later.
static km_status add_words(km_parse *p, const double *from, char *text) {
    for (km_slot *slot = p->slots; slot < p->slots + p->slots_count; slot++) {
        if (!has_words(slot)) continue;
        while (*from++ != 0) {
            int64_t size = 0;
            for (; *from != 0; from++) text[size++] = (char)(unsigned char)*from;
            from++;
            int64_t number = km_dict_add(&slot->categories, text, size, KM_CATEGORIES_MAX);
            if (number == -2) return km_fail_memory(p->err, "categories", KM_CATEGORIES_MAX * 64);
            if (number < 0) return km_parse_many_categories(p, slot);
        }
    }
    return KM_OK;
}

static km_status join_words(km_parse *p) {
    km_share *share = p->part->share;
    const km_communicator *ranks = share->ranks;
    int64_t bytes = words_bytes(p), all_bytes = 0, own_at = 0;
    if (bytes == 0) return KM_OK; // there are no such columns
    double *sizes = calloc((size_t)ranks->size, sizeof *sizes), *words = NULL;
    char *text = NULL;
    km_status status = sizes ? KM_OK : km_fail_memory(p->err, "the words of ranks", ranks->size * 8);
    KM_TRY_GOTO(km_share_agree(share, status, p->err));
    sizes[ranks->rank] = (double)bytes;
    KM_TRY_GOTO(km_share_sum(share, sizes, ranks->size, p->err));
    for (int64_t r = 0; r < ranks->size; r++) {
        if (r == ranks->rank) own_at = all_bytes;
        all_bytes += (int64_t)sizes[r];
    }
    words = calloc((size_t)all_bytes, sizeof *words);
    text = malloc((size_t)all_bytes);
    status = words && text ? KM_OK : km_fail_memory(p->err, "the words of ranks", all_bytes * 9);
    KM_TRY_GOTO(km_share_agree(share, status, p->err));
    tell_words(words + own_at, p);
    KM_TRY_GOTO(km_share_sum(share, words, all_bytes, p->err));
    for (int64_t r = 0, at = 0; r < ranks->size; at += (int64_t)sizes[r++])
        if (r != ranks->rank) KM_TRY_GOTO(add_words(p, words + at, text));
done:
    free(sizes);
    free(words);
    free(text);
    return status;
}

km_status km_parse_join(km_parse *p, km_status own) {
    km_share *share = p->part->share;
    const km_communicator *ranks = share->ranks;
    int64_t width = 1 + SLOT * p->slots_count;
    double *slots = NULL, *all = NULL;
    if (own == KM_OK && p->table->rows != p->part->count)
        own = km_fail(p->err, KM_ERROR_IO, "%s changed while it was read; use a copy that nothing writes to",
                      p->file);
    km_status status = own;
    if (own == KM_OK) {
        slots = malloc((size_t)width * sizeof *slots);
        all = malloc((size_t)(ranks->size * width) * sizeof *all);
        if (!slots || !all) status = km_fail_memory(p->err, "the columns of ranks", ranks->size * width * 8);
    }
    KM_TRY_GOTO(km_share_agree(share, status, p->err));
    tell_slots(slots, p);
    KM_TRY_GOTO(
        km_share_gather(share, all, ranks->size * width, slots, ranks->rank * width, width, 1, p->err));
    join_slots(p, all, ranks->size);
    status = join_words(p);
done:
    free(slots);
    free(all);
    return status;
}

// Files ------------------------------------------------------------------------------------------------------

// A file whose rows are looked for.
typedef struct look {
    km_input input;
    km_parse p;
    int is_open, is_text;
} look;

static void look_end(look *l) {
    if (!l->is_open) return;
    km_parse_close(&l->p);
    km_input_close(&l->input);
    l->is_open = 0;
}

// Opens a file, and finds its header if it is a text that is read as it lies.
static km_status look_begin(look *l, const char *path, const km_data_params *params, km_error *err) {
    struct stat info;
    *l = (look){.is_text = 0};
    if (stat(path, &info) != 0 || !S_ISREG(info.st_mode))
        return KM_OK; // what a look would take from a pipe is gone
    KM_TRY(km_input_open(&l->input, path, err));
    l->is_open = 1;
    const char *format = km_input_format(&l->input, params, err);
    if (!format) return KM_ERROR_DATA;
    int is_tsv = strcmp(format, "tsv") == 0;
    l->is_text = (is_tsv || strcmp(format, "csv") == 0) && l->input.is_regular && !l->input.unpacker;
    if (!l->is_text) return KM_OK;
    KM_TRY(km_parse_open(&l->p, &l->input, params, is_tsv ? '\t' : 0, err));
    return km_parse_header(&l->p);
}

// The rows of all files. *are_texts: all are texts, which ranks may share.
static km_status find_rows(km_text_rows *rows, int *are_texts, const char *const *paths, int64_t count,
                           const km_data_params *params, km_share *share, km_error *err) {
    look first = {.is_open = 0}, other = {.is_open = 0};
    km_data_params own = *params;
    km_status status = KM_OK;
    *are_texts = 1;
    for (int64_t i = 0; i < count && *are_texts; i++) {
        look *l = i ? &other : &first;
        if (i == 1 && first.p.has_header && params->header != KM_HEADER_SKIP) {
            own.names = (const char *const *)first.p.first_row;
            own.names_count = first.p.columns_count;
            own.columns = own.exclude = NULL;
        }
        status = look_begin(l, paths[i], i ? &own : params, err);
        KM_TRY_GOTO(km_share_agree(share, status, err));
        double texts = l->is_text;
        KM_TRY_GOTO(km_share_sum(share, &texts, 1, err));
        *are_texts = texts == (double)share->ranks->size;
        if (*are_texts) KM_TRY_GOTO(km_share_same(share, l->input.size, paths[i], "bytes", err));
        if (*are_texts) KM_TRY_GOTO(km_text_rows_find(&rows[i], &l->p, share, err));
        look_end(&other);
    }
done:
    look_end(&other);
    look_end(&first);
    return status;
}

km_status km_table_open_share(km_table *table, const char *const *paths, int64_t count,
                              const km_data_params *params, km_share *share, km_error *err) {
    km_text_rows *rows = calloc((size_t)count, sizeof *rows);
    km_text_part *parts = calloc((size_t)count, sizeof *parts);
    int are_texts = 0;
    *table = (km_table){0};
    km_status status =
        rows && parts ? KM_OK : km_fail_memory(err, "files", count * (int64_t)(sizeof *rows + sizeof *parts));
    KM_TRY_GOTO(km_share_agree(share, status, err));
    // Rows that are left out move those behind them.
    if (params->missing != KM_MISSING_DROP && share->ranks->size > 1)
        KM_TRY_GOTO(find_rows(rows, &are_texts, paths, count, params, share, err));
    int64_t all = 0, first, own;
    for (int64_t i = 0; i < count; i++) all += rows[i].rows;
    km_share_of(&first, &own, all, share->ranks->rank, share->ranks->size);
    for (int64_t i = 0, at = 0; i < count; at += rows[i++].rows) {
        int64_t from = km_max(first, at), to = km_min(first + own, at + rows[i].rows);
        parts[i] =
            (km_text_part){share, &rows[i], km_max(0, km_min(from - at, rows[i].rows)), km_max(to - from, 0)};
    }
    const km_text_part *mine = are_texts ? parts : NULL;
    KM_TRY_GOTO(count > 1 ? km_table_open_files(table, paths, count, params, mine, err)
                          : km_table_open(table, paths[0], params, mine, err));
    if (!are_texts) goto done;
    table->first_of_all = first;
    table->rows_all = all;
done:
    for (int64_t i = 0; rows && i < count; i++) km_text_rows_clear(&rows[i]);
    free(rows);
    free(parts);
    return status;
}
