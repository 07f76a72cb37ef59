// SPDX-License-Identifier: MIT
// From the columns of a text to the features of a table: ids go, categories become columns of their own, weights stand
// apart.
#include "../../base/clock.h"
#include "../../base/log.h"
#include "../../base/order.h"
#include "../../base/size.h"
#include "../../base/text.h"
#include "../../gen/spec_fields.h"
#include "../memory.h"
#include "ranks.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// A feature of the table: a slot's number, or one of its categories.
typedef struct feature {
    int64_t slot;
    int64_t category; // number in the slot's dictionary, -1: none
} feature;

static void put(const km_parse *p, unsigned char *values, int64_t at, double value) {
    if (p->params->type == KM_FLOAT32)
        ((float *)(void *)values)[at] = (float)value;
    else
        ((double *)(void *)values)[at] = value;
}

// Ids --------------------------------------------------------------------------------------------------------

// Fewer rows than these prove nothing by rising.
enum { RISING_ROWS_MIN = 16 };

// Numbers that rise by whole steps through all rows are ids, unless there is nothing else but what holds no numbers.
static void find_ids(km_parse *p) {
    int64_t left = 0, n = km_parse_rows_all(p);
    for (int64_t s = 0; s < p->slots_count; s++) {
        km_slot *slot = &p->slots[s];
        slot->is_open &= slot->texts > 0 || slot->missing == n;
        if (slot->is_open) continue;
        slot->is_watched &= !slot->is_falling && !slot->is_broken && n >= RISING_ROWS_MIN;
        left += !slot->is_watched && !slot->is_weight;
    }
    for (int64_t s = 0; s < p->slots_count && !left; s++) p->slots[s].is_watched = 0;
}

// What a column of whole numbers holds.
typedef struct whole {
    double is_whole, low, high;
} whole;

static whole whole_of(const km_parse *p, int64_t s) {
    whole w = {1, INFINITY, -INFINITY};
    for (int64_t i = 0; i < p->table->rows && w.is_whole != 0; i++) {
        double value = km_parse_value(p, p->values, i * p->slots_count + s);
        w.is_whole = value == floor(value); // NaN is none
        w.low = fmin(w.low, value);
        w.high = fmax(w.high, value);
    }
    return w;
}

// Of the rows of all ranks.
static whole whole_of_all(const km_parse *p, int64_t s) {
    enum { NUMBERS = sizeof(whole) / sizeof(double) };
    whole w = whole_of(p, s), none = {0, 0, 0};
    if (!p->part) return w;
    double *all = km_parse_of_ranks(p, &w.is_whole, NUMBERS);
    if (!all) return none;
    for (int64_t r = 0; r < p->part->share->ranks->size; r++) {
        if (all[r * NUMBERS] == 0) w.is_whole = 0;
        w.low = fmin(w.low, all[r * NUMBERS + 1]);
        w.high = fmax(w.high, all[r * NUMBERS + 2]);
    }
    free(all);
    return w;
}

// The numbers of all rows.
static int take_column(double *out, const km_parse *p, int64_t s) {
    int64_t n = km_parse_rows_all(p), first = km_parse_first(p);
    memset(out, 0, (size_t)n * sizeof *out);
    for (int64_t i = 0; i < p->table->rows; i++)
        out[first + i] = km_parse_value(p, p->values, i * p->slots_count + s);
    return !p->part || km_share_sum(p->part->share, out, n, NULL) == KM_OK;
}

// Whether whole numbers differ in nearly all rows: more than 99 of 100.
static int nearly_all_differ(const km_parse *p, int64_t s) {
    int64_t n = km_parse_rows_all(p), different = 1;
    if (n < 100) return 0;
    whole w = whole_of_all(p, s);
    if (w.is_whole == 0 || w.high - w.low < 0.99 * (double)n) return 0;
    double *sorted = malloc((size_t)n * sizeof *sorted);
    if (!km_parse_all_have(p, sorted != NULL) || !take_column(sorted, p, s)) {
        free(sorted);
        return 0; // a warning less
    }
    qsort(sorted, (size_t)n, sizeof *sorted, km_by_value);
    for (int64_t i = 1; i < n; i++) different += sorted[i] != sorted[i - 1];
    free(sorted);
    return different * 100 > 99 * n;
}

static void warn_of_ids(const km_parse *p) {
    for (int64_t s = 0; s < p->slots_count; s++) {
        const km_slot *slot = &p->slots[s];
        const char *name = km_parse_name(p, slot->column);
        if (slot->kind != KM_COLUMN_NUMBER || km_slot_is_left_out(slot) || slot->is_weight) continue;
        if (!nearly_all_differ(p, s)) continue;
        km_log_line(
            p->params->log, KM_LOG_WARNING,
            "%s: column %" PRId64 "%s%.80s%s holds whole numbers that differ in nearly every row; where it "
            "is an id, leave it out: --exclude %" PRId64,
            p->file, slot->column + 1, name ? " (" : "", name ? name : "", name ? ")" : "", slot->column + 1);
    }
}

// What is said -----------------------------------------------------------------------------------------------

static void list_column(km_text *text, const km_parse *p, int64_t column, int64_t *count) {
    enum { SHOWN = 12 };
    const char *name = km_parse_name(p, column);
    if (++*count > SHOWN + 1) return;
    if (*count == SHOWN + 1)
        km_text_puts(text, ", ...");
    else if (name && *name)
        km_text_printf(text, "%s%.60s", *count > 1 ? ", " : "", name);
    else
        km_text_printf(text, "%scolumn %" PRId64, *count > 1 ? ", " : "", column + 1);
}

// What a column holds that is no feature.
static km_column_kind kind_left_out(const km_parse *p, const km_slot *slot, int64_t column) {
    if (!slot) return km_kind_of(&p->scan.columns[column], km_parse_name(p, column));
    if (!slot->is_open) return KM_COLUMN_ID;
    return slot->texts ? KM_COLUMN_TEXT : KM_COLUMN_EMPTY;
}

// One line with the columns that are features, and those that are not.
static void say_choice(const km_parse *p) {
    km_text text = {0};
    int64_t used = 0, left = 0;
    char *line = NULL;
    const km_slot **slots = calloc((size_t)p->columns_count + 1, sizeof(km_slot *));
    if (!slots) return;
    for (int64_t s = 0; s < p->slots_count; s++) slots[p->slots[s].column] = &p->slots[s];
    km_text_printf(&text, "%s: features are ", p->file);
    for (int64_t f = 0; f < p->columns_count; f++)
        if (slots[f] && !km_slot_is_left_out(slots[f])) list_column(&text, p, f, &used);
    km_text_puts(&text, "; left out: ");
    for (int64_t f = 0; f < p->columns_count; f++) {
        if (slots[f] && !km_slot_is_left_out(slots[f])) continue;
        list_column(&text, p, f, &left);
        if (left <= 12) km_text_printf(&text, " (%s)", km_kind_name(kind_left_out(p, slots[f], f)));
    }
    if (left && km_text_take(&line, &text, NULL) == KM_OK)
        km_log_line(p->params->log, KM_LOG_INFO, "%s", line);
    km_text_clear(&text);
    km_text_free(line);
    free((void *)slots);
}

// A column left out whose cells are numbers but for a mark. Several points are those of an address or a version.
static void warn_of_marks(const km_parse *p) {
    for (int64_t f = 0, s = 0; f < p->columns_count; f++) {
        const km_seen *seen = &p->scan.columns[f];
        const char *name = km_parse_name(p, f), *point = strchr(seen->wrong, '.');
        km_column_kind kind = km_kind_of(seen, name);
        if (s < p->slots_count && p->slots[s].column == f) {
            s++;
            continue;
        }
        const char *advice = km_parse_mark_advice(seen->wrong, p->spelling.decimal);
        if ((kind != KM_COLUMN_CATEGORY && kind != KM_COLUMN_TEXT) || !advice) continue;
        if (point && strchr(point + 1, '.')) continue;
        int is_list =
            strchr(seen->wrong, ',') && seen->commas < seen->cells - seen->missing; // "1,2" beside "1,2,3"
        if (is_list && p->spelling.decimal == '.' && !seen->wrong[strspn(seen->wrong, "0123456789,")])
            continue;
        char got[KM_QUOTED_SIZE];
        km_log_line(p->params->log, KM_LOG_WARNING,
                    "%s: column %" PRId64 "%s%.80s%s is left out, as %s is no number; %s, where it is one",
                    p->file, f + 1, name ? " (" : "", name ? name : "", name ? ")" : "",
                    km_quoted(got, seen->wrong), advice);
    }
}

// "1.200" beside "950" where semicolons or tabs separate: points may stand between thousands.
static void warn_of_points(const km_parse *p) {
    if (p->params->decimal || p->delimiter == ',') return;
    for (int64_t s = 0; s < p->slots_count; s++) {
        int64_t column = p->slots[s].column;
        const km_seen *seen = &p->scan.columns[column];
        const char *name = km_parse_name(p, column);
        if (!seen->points || seen->points != seen->grouped || !seen->digits || seen->long_digits) continue;
        km_log_line(
            p->params->log, KM_LOG_WARNING,
            "%s: column %" PRId64 "%s%.80s%s has whole numbers below 1000, and points before three "
            "digits only; they count as decimal points: where they stand between thousands, write the "
            "numbers without them, else give --decimal .",
            p->file, column + 1, name ? " (" : "", name ? name : "", name ? ")" : "");
    }
}

static void warn_of_first_row(const km_parse *p) {
    if (km_parse_may_hold_names(p))
        km_log_line(p->params->log, KM_LOG_WARNING,
                    "%s: the first line, %.20s, %.20s, %.20s%s, counts as a row; where it names the columns, "
                    "give --header yes, else --header no",
                    p->file, p->first_row[0], p->first_row[1], p->first_row[2],
                    p->columns_count > 3 ? ", ..." : "");
}

static void warn_of_unknown(const km_parse *p) {
    for (int64_t s = 0; s < p->slots_count; s++)
        if (p->slots[s].unknown)
            km_log_line(p->params->log, KM_LOG_WARNING,
                        "%s: %" PRId64
                        " cells of column %s are none of the model's categories; in these rows all "
                        "its features are 0",
                        p->file, p->slots[s].unknown, km_parse_name(p, p->slots[s].column));
}

// Features ---------------------------------------------------------------------------------------------------

typedef struct named_text {
    const char *text;
    int64_t number;
} named_text;

static int by_text(const void *a, const void *b) {
    return strcmp(((const named_text *)a)->text, ((const named_text *)b)->text);
}

// One feature a category: in the order of a model, else in that of their texts.
static void add_categories(feature *features, int64_t *count, const km_slot *slot, int64_t s) {
    named_text order[KM_CATEGORIES_MAX];
    int64_t texts = slot->categories.count;
    for (int64_t i = 0; i < texts; i++) order[i] = (named_text){slot->categories.texts[i], i};
    if (!slot->is_given) qsort(order, (size_t)texts, sizeof *order, by_text);
    for (int64_t i = 0; i < texts; i++) features[(*count)++] = (feature){s, order[i].number};
}

static km_status list_features(feature **out, int64_t *count, const km_parse *p) {
    int64_t most = 1;
    for (int64_t s = 0; s < p->slots_count; s++) most += 1 + p->slots[s].categories.count;
    feature *features = *out = malloc((size_t)most * sizeof *features);
    if (!features) return km_fail_memory(p->err, "features", most * (int64_t)sizeof *features);
    *count = 0;
    for (int64_t s = 0; s < p->slots_count; s++) {
        const km_slot *slot = &p->slots[s];
        if (km_slot_is_left_out(slot) || slot->is_weight) continue;
        if (slot->kind == KM_COLUMN_CATEGORY)
            add_categories(features, count, slot, s);
        else
            features[(*count)++] = (feature){s, -1};
    }
    if (*count > KM_FEATURES_DENSE_MAX)
        return km_fail(p->err, KM_ERROR_DATA,
                       "%s: the categories make %" PRId64 " features, more than the %d that are taken; leave "
                       "columns out of --one-hot",
                       p->file, *count, KM_FEATURES_DENSE_MAX);
    if (*count) return KM_OK;
    return km_fail(p->err, KM_ERROR_DATA, "%s: the columns of --one-hot are empty, so no feature is left",
                   p->file);
}

static km_status name_features(km_parse *p, const feature *features, int64_t count) {
    km_table *table = p->table;
    int has_names = 0, is_prepared = 0;
    for (int64_t i = 0; i < count; i++) {
        const km_slot *slot = &p->slots[features[i].slot];
        has_names |= km_parse_name(p, slot->column) != NULL;
        is_prepared |= slot->kind != KM_COLUMN_NUMBER;
    }
    table->columns = count;
    table->numbers = malloc((size_t)count * sizeof *table->numbers);
    table->missing = calloc((size_t)count, sizeof *table->missing);
    if (has_names) table->names = calloc((size_t)count, sizeof *table->names);
    if (is_prepared) table->prepared = calloc((size_t)count, sizeof *table->prepared);
    if (!table->numbers || !table->missing || (has_names && !table->names) ||
        (is_prepared && !table->prepared))
        return km_fail_memory(p->err, "column names", count * 64);
    for (int64_t i = 0; i < count; i++) {
        const km_slot *slot = &p->slots[features[i].slot];
        const char *name = km_parse_name(p, slot->column);
        const char *category =
            features[i].category >= 0 ? slot->categories.texts[features[i].category] : NULL;
        table->numbers[i] = slot->column + 1;
        table->missing[i] = slot->missing;
        if (!name) continue;
        km_text text = {0};
        km_text_printf(&text, "%s%s%s", name, category ? "=" : "", category ? category : "");
        KM_TRY(km_text_take(&table->names[i], &text, p->err));
        if (!is_prepared) continue;
        table->prepared[i].kind = slot->kind;
        table->prepared[i].fill = NAN;
        table->prepared[i].column = strdup(name);
        if (category) table->prepared[i].category = strdup(category);
        if (!table->prepared[i].column || (category && !table->prepared[i].category))
            return km_fail_memory(p->err, "column names", 64);
    }
    return KM_OK;
}

static km_status take_weights(km_parse *p) {
    for (int64_t s = 0; s < p->slots_count; s++) {
        if (!p->slots[s].is_weight) continue;
        int64_t n = p->table->rows;
        p->table->weights = malloc((size_t)n * sizeof *p->table->weights + 1);
        if (!p->table->weights) return km_fail_memory(p->err, "weights", n * 8);
        for (int64_t i = 0; i < n; i++)
            p->table->weights[i] = km_parse_value(p, p->values, i * p->slots_count + s);
    }
    return KM_OK;
}

// Lays the features out as rows of their own, where slots are not just these.
static km_status lay_out(km_parse *p, const feature *features, int64_t count) {
    int64_t n = p->table->rows, width = p->slots_count, bytes;
    int is_same = count == width, grows = count > width;
    for (int64_t i = 0; i < count && is_same; i++)
        is_same = features[i].slot == i && p->slots[i].kind != KM_COLUMN_CATEGORY;
    if (is_same || n == 0) return KM_OK;
    if (km_mul_overflows(&bytes, n, count * km_type_bytes(p->params->type))) bytes = INT64_MAX;
    double *row = malloc((size_t)width * sizeof *row + 1);
    unsigned char *to = p->values;
    km_growing more = {0};
    const char *folder = p->grown.is_file ? p->params->scratch_dir : NULL;
    km_status status = grows && !folder ? km_host_check("the features of categories", bytes, p->err) : KM_OK;
    if (status == KM_OK && grows) to = km_growing_reserve(&more, bytes + 1, folder) ? more.memory : NULL;
    if (status == KM_OK && (!row || !to))
        status = km_fail_memory(p->err, "the features of a text file", bytes);
    for (int64_t i = 0; i < n && status == KM_OK; i++) {
        for (int64_t s = 0; s < width; s++) row[s] = km_parse_value(p, p->values, i * width + s);
        for (int64_t f = 0; f < count; f++) {
            double value = row[features[f].slot];
            if (features[f].category >= 0 && !isnan(value)) value = value == (double)features[f].category;
            put(p, to, i * count + f, value);
        }
    }
    free(row);
    if (status != KM_OK) {
        km_growing_free(&more);
    } else if (grows) {
        km_growing_free(&p->grown);
        p->grown = more;
        p->values = to;
    }
    return status;
}

static km_status finish(km_parse *p) {
    km_table *table = p->table;
    feature *features = NULL;
    int64_t count;
    km_status status;
    if (km_parse_rows_all(p) == 0)
        return km_fail(p->err, KM_ERROR_DATA,
                       p->has_header ? "%s has a header and no rows" : "%s has no rows", p->file);
    if (p->params->numbers_only && !p->params->columns && !p->params->names) {
        find_ids(p);
        warn_of_ids(p);
    }
    if (p->params->numbers_only && !p->params->columns && !p->params->names) {
        say_choice(p);
        warn_of_marks(p);
        warn_of_points(p);
        warn_of_first_row(p);
    }
    warn_of_unknown(p);
    if (!p->params->names && !p->blocks.input->line)
        km_warn_of_sentinels(p); // no part, of which a fit has warned
    KM_TRY_GOTO(list_features(&features, &count, p));
    KM_TRY_GOTO(take_weights(p));
    KM_TRY_GOTO(lay_out(p, features, count));
    KM_TRY_GOTO(name_features(p, features, count));
    table->memory = p->grown.memory;
    if (p->grown.is_file) {
        table->mapped_bytes = p->grown.bytes;
        close(p->grown.fd);
        km_log_line(p->params->log, KM_LOG_WARNING,
                    "%s: its values do not fit into memory and lie in a temporary file in %.300s, %.2f GiB",
                    p->file, p->params->scratch_dir, (double)p->grown.bytes / 0x1p30);
    }
    p->grown = (km_growing){0};
    p->values = NULL;
    table->base = table->memory;
    table->element = p->params->type == KM_FLOAT32 ? KM_ELEMENT_F4 : KM_ELEMENT_F8;
    table->row_stride = count;
    table->separator = p->delimiter;
    table->decimal = p->spelling.decimal;
    table->column_stride = 1;
    table->parse_ms = km_now_ms() - p->begin_ms;
done:
    free(features);
    return status;
}

static km_status text_open(km_table *table, km_input *input, const km_data_params *params, char delimiter,
                           km_error *err) {
    km_parse p;
    km_input range;
    km_status status = km_parse_open(&p, input, params, delimiter, err);
    p.table = table;
    p.part = input->part_of_rows;
    if (status == KM_OK) status = km_parse_choose(&p);
    if (status == KM_OK && p.part) status = km_parse_part(&p, &range);
    if (status == KM_OK) status = km_parse_rows(&p);
    if (p.part) status = km_parse_join(&p, status);
    if (status == KM_OK) status = finish(&p);
    km_parse_close(&p);
    return status;
}

km_status km_csv_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    return text_open(table, input, params, 0, err);
}

km_status km_tsv_open(km_table *table, km_input *input, const km_data_params *params, km_error *err) {
    return text_open(table, input, params, '\t', err);
}

// Text has no control characters.
int km_csv_sniff(const km_input *input) {
    for (int64_t i = 0; i < input->head_size; i++) {
        unsigned char byte = input->head[i];
        if (byte == 127 || (byte < 32 && byte != '\n' && byte != '\r' && byte != '\t')) return 0;
    }
    return 1;
}
