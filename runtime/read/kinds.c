// SPDX-License-Identifier: MIT
#include "kinds.h"
#include "../../base/size.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

// Spelling ---------------------------------------------------------------------------------------------------

void km_spelling_free(km_spelling *spelling) {
    for (int64_t i = 0; i < spelling->missing_count; i++) free(spelling->missing[i]);
    free(spelling->missing);
    free(spelling->numbers);
    *spelling = (km_spelling){0};
}

km_status km_spelling_init(km_spelling *spelling, const char *words, char decimal, km_error *err) {
    *spelling = (km_spelling){.decimal = '.'};
    if (decimal) spelling->decimal = decimal;
    if (!words) return KM_OK;
    int64_t count = 1;
    for (const char *at = words; *at; at++) count += *at == ',';
    spelling->missing = calloc((size_t)count, sizeof *spelling->missing);
    spelling->numbers = malloc((size_t)count * sizeof *spelling->numbers);
    if (!spelling->missing || !spelling->numbers) return km_fail_memory(err, "--na-values", count * 16);
    for (const char *at = words;; at++) {
        size_t size = strcspn(at, ",");
        char *word = strndup(at, size);
        double *number = &spelling->numbers[spelling->missing_count];
        if (!word) return km_fail_memory(err, "--na-values", (int64_t)size);
        if (!km_number_parse(number, word, (int64_t)size)) *number = NAN;
        spelling->missing[spelling->missing_count++] = word;
        at += size;
        if (!*at) return KM_OK;
    }
}

static int is_word(const km_cell *cell, const char *word) {
    return (size_t)cell->size == strlen(word) && strncasecmp(cell->text, word, (size_t)cell->size) == 0;
}

static int is_one_of(const km_cell *cell, const char *const *words) {
    for (; *words; words++)
        if (is_word(cell, *words)) return 1;
    return 0;
}

int km_cell_is_missing(const km_cell *cell, const km_spelling *spelling) {
    static const char *const words[] = {"na",   "n/a",  "#n/a", "<na>", "nan", "-nan",
                                        "null", "none", "?",    "-",    NULL};
    if (cell->size == 0 || is_one_of(cell, words)) return 1;
    for (int64_t i = 0; i < spelling->missing_count; i++)
        if ((size_t)cell->size == strlen(spelling->missing[i]) &&
            memcmp(cell->text, spelling->missing[i], (size_t)cell->size) == 0)
            return 1;
    return 0;
}

// Cells as values --------------------------------------------------------------------------------------------

// A number with a decimal comma, which may also be what separates cells.
static int take_with_comma(double *value, const km_cell *cell) {
    char copy[128];
    if (cell->size >= (int64_t)sizeof copy || memchr(cell->text, '.', (size_t)cell->size)) return 0;
    memcpy(copy, cell->text, (size_t)cell->size);
    copy[cell->size] = 0;
    char *comma = strchr(copy, ',');
    if (comma) *comma = '.';
    return km_number_take(value, copy) == copy + cell->size;
}

static km_cell_sort missing(double *value) {
    *value = NAN;
    return KM_CELL_MISSING;
}

km_cell_sort km_cell_number(double *value, const km_cell *cell, const km_spelling *spelling) {
    int is_number =
        cell->size > 0 && (spelling->decimal == ',' && cell->size < 128
                               ? take_with_comma(value, cell)
                               : km_number_short(value, cell->text, cell->size) ||
                                     km_number_take(value, cell->text) == cell->text + cell->size);
    if (!is_number && cell->size &&
        (isspace((unsigned char)cell->text[0]) || // in quotes
         isspace((unsigned char)cell->text[cell->size - 1])))
        is_number = spelling->decimal == '.' && km_number_parse(value, cell->text, cell->size);
    if (is_number && !isnan(*value)) {
        for (int64_t i = 0; i < spelling->missing_count; i++)
            if (*value == spelling->numbers[i]) return missing(value);
        return KM_CELL_VALUE;
    }
    return is_number || km_cell_is_missing(cell, spelling) ? missing(value) : KM_CELL_WRONG;
}

km_cell_sort km_cell_yes_no(double *value, const km_cell *cell, const km_spelling *spelling) {
    static const char *const yes[] = {"yes", "true", "y", "t", NULL}, *const no[] = {"no", "false", "n", "f",
                                                                                     NULL};
    if (km_cell_is_missing(cell, spelling)) return missing(value);
    *value = is_one_of(cell, yes);
    return *value == 1 || is_one_of(cell, no) ? KM_CELL_VALUE : KM_CELL_WRONG;
}

// Takes `least` to `most` digits off the front.
static int take_digits(int64_t *out, const char **at, const char *end, int least, int most) {
    int count = 0;
    for (*out = 0; *at < end && count < most && isdigit((unsigned char)**at); ++*at, count++)
        *out = *out * 10 + (**at - '0');
    return count >= least;
}

static int take_char(const char **at, const char *end, const char *any) {
    if (*at == end || !strchr(any, **at)) return 0;
    ++*at;
    return 1;
}

// Days since 1970-01-01 of a date of the Gregorian calendar.
static int64_t days_of(int64_t year, int64_t month, int64_t day) {
    year -= month <= 2;
    int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static int is_day(int64_t year, int64_t month, int64_t day) {
    static const int days[] = {31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    if (month < 1 || month > 12 || day < 1 || day > days[month - 1]) return 0;
    return month != 2 || day < 29 || (year % 4 == 0 && (year % 100 != 0 || year % 400 == 0));
}

// 2024-01-31, 2024/1/31 or 31.1.2024.
static int take_day(double *days, const char **at, const char *end) {
    int64_t year, month, day;
    const char *start = *at;
    if (take_digits(&year, at, end, 4, 4) && take_char(at, end, "-/")) {
        char separator = (*at)[-1], again[] = {separator, 0};
        if (!take_digits(&month, at, end, 1, 2) || !take_char(at, end, again) ||
            !take_digits(&day, at, end, 1, 2))
            return 0;
    } else {
        *at = start;
        if (!take_digits(&day, at, end, 1, 2) || !take_char(at, end, ".") ||
            !take_digits(&month, at, end, 1, 2) || !take_char(at, end, ".") ||
            !take_digits(&year, at, end, 4, 4))
            return 0;
    }
    if (!is_day(year, month, day)) return 0;
    *days = (double)days_of(year, month, day);
    return 1;
}

// 13:45, 13:45:30 or 13:45:30.25, then Z, +02:00, -0500 or nothing.
static int take_time(double *days, const char **at, const char *end) {
    int64_t hour, minute, second = 0, zone_hour = 0, zone_minute = 0, sign = 0;
    double part = 0, unit = 0.1;
    if (!take_digits(&hour, at, end, 1, 2) || !take_char(at, end, ":") ||
        !take_digits(&minute, at, end, 2, 2))
        return 0;
    if (take_char(at, end, ":") && !take_digits(&second, at, end, 2, 2)) return 0;
    if (take_char(at, end, ".,"))
        while (*at < end && isdigit((unsigned char)**at)) {
            part += unit * (*(*at)++ - '0');
            unit /= 10;
        }
    take_char(at, end, " ");
    if (!take_char(at, end, "Zz") && *at < end) {
        sign = **at == '-' ? -1 : 1;
        if (!take_char(at, end, "+-") || !take_digits(&zone_hour, at, end, 2, 2)) return 0;
        take_char(at, end, ":");
        if (*at < end && !take_digits(&zone_minute, at, end, 2, 2)) return 0;
    }
    if (hour > 24 || minute > 59 || second > 60 || zone_hour > 14 || zone_minute > 59) return 0;
    int64_t minutes = hour * 60 + minute - sign * (zone_hour * 60 + zone_minute);
    *days += ((double)(minutes * 60 + second) + part) / 86400;
    return 1;
}

km_cell_sort km_cell_date(double *value, const km_cell *cell, const km_spelling *spelling) {
    const char *at = cell->text, *end = at + cell->size;
    if (km_cell_is_missing(cell, spelling)) return missing(value);
    if (!take_day(value, &at, end)) return KM_CELL_WRONG;
    if (at == end) return KM_CELL_VALUE;
    return take_char(&at, end, "T ") && take_time(value, &at, end) && at == end ? KM_CELL_VALUE
                                                                                : KM_CELL_WRONG;
}

const char *km_date_write(char text[KM_DATE_SIZE], double days) {
    if (!(fabs(days) < 4e6)) {
        snprintf(text, KM_DATE_SIZE, "%g", days);
        return text;
    }
    int64_t seconds = (int64_t)floor(days * 86400 + 0.5), of_day = ((seconds % 86400) + 86400) % 86400;
    int64_t z = (seconds - of_day) / 86400 + 719468, era = (z >= 0 ? z : z - 146096) / 146097;
    int64_t of_era = z - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100), m = (5 * of_year + 2) / 153;
    int month = (int)(m < 10 ? m + 3 : m - 9), day = (int)(of_year - (153 * m + 2) / 5 + 1);
    int size =
        snprintf(text, KM_DATE_SIZE, "%04d-%02d-%02d", (int)(year + era * 400 + (month <= 2)), month, day);
    if (of_day)
        snprintf(text + size, (size_t)(KM_DATE_SIZE - size), " %02d:%02d:%02d", (int)(of_day / 3600),
                 (int)(of_day / 60 % 60), (int)(of_day % 60));
    return text;
}

// Different texts --------------------------------------------------------------------------------------------

void km_dict_free(km_dict *dict) {
    for (int64_t i = 0; i < dict->count; i++) free(dict->texts[i]);
    free(dict->texts);
    free(dict->hashes);
    free(dict->places);
    *dict = (km_dict){0};
}

// Where the text stands in `places`, or may be put.
static int64_t place_of(const km_dict *dict, const char *text, int64_t size, uint64_t hash) {
    int64_t at = (int64_t)(hash & (uint64_t)(dict->places_count - 1));
    for (; dict->places[at]; at = (at + 1) & (dict->places_count - 1)) {
        int64_t i = dict->places[at] - 1;
        if (dict->hashes[i] == hash && strlen(dict->texts[i]) == (size_t)size &&
            memcmp(dict->texts[i], text, (size_t)size) == 0)
            break;
    }
    return at;
}

int64_t km_dict_find(const km_dict *dict, const char *text, int64_t size) {
    if (!dict->places_count) return -1;
    return dict->places[place_of(dict, text, size, XXH3_64bits(text, (size_t)size))] - 1;
}

static int grow(km_dict *dict) {
    int64_t capacity = dict->capacity ? 2 * dict->capacity : 16, places = 4 * capacity;
    char **texts = realloc(dict->texts, (size_t)capacity * sizeof *texts);
    if (texts) dict->texts = texts;
    uint64_t *hashes = realloc(dict->hashes, (size_t)capacity * sizeof *hashes);
    if (hashes) dict->hashes = hashes;
    int32_t *numbers = calloc((size_t)places, sizeof *numbers);
    if (!texts || !hashes || !numbers) {
        free(numbers);
        return 0;
    }
    free(dict->places);
    dict->places = numbers;
    dict->places_count = places;
    dict->capacity = capacity;
    for (int64_t i = 0; i < dict->count; i++)
        numbers[place_of(dict, texts[i], (int64_t)strlen(texts[i]), hashes[i])] = (int32_t)i + 1;
    return 1;
}

int64_t km_dict_add(km_dict *dict, const char *text, int64_t size, int64_t most) {
    if (dict->count == dict->capacity && !grow(dict)) return -2;
    uint64_t hash = XXH3_64bits(text, (size_t)size);
    int64_t place = place_of(dict, text, size, hash);
    if (dict->places[place]) return dict->places[place] - 1;
    if (dict->count == most) return -1;
    char *copy = strndup(text, (size_t)size);
    if (!copy) return -2;
    dict->texts[dict->count] = copy;
    dict->hashes[dict->count] = hash;
    dict->places[place] = (int32_t)++dict->count;
    return dict->count - 1;
}

// Columns ----------------------------------------------------------------------------------------------------

km_status km_scan_init(km_scan *scan, int64_t columns, km_error *err) {
    *scan = (km_scan){.columns = calloc((size_t)columns + 1, sizeof *scan->columns), .count = columns};
    if (!scan->columns) return km_fail_memory(err, "columns", columns * (int64_t)sizeof *scan->columns);
    for (int64_t f = 0; f < columns; f++) {
        scan->columns[f].low = INFINITY;
        scan->columns[f].high = scan->columns[f].last = -INFINITY;
    }
    return KM_OK;
}

void km_scan_free(km_scan *scan) {
    for (int64_t f = 0; scan->columns && f < scan->count; f++) km_dict_free(&scan->columns[f].different);
    free(scan->columns);
    *scan = (km_scan){0};
}

static void see_value(km_seen *seen, double value) {
    seen->low = fmin(seen->low, value);
    seen->high = fmax(seen->high, value);
    seen->is_falling |= !(value > seen->last);
    seen->last = value;
}

static void see_wrong(km_seen *seen, const km_cell *cell, int64_t line) {
    if (seen->wrong_line) return;
    seen->wrong_line = line;
    snprintf(seen->wrong, sizeof seen->wrong, "%.*s", (int)km_min(cell->size, 60), cell->text);
}

// "1.234" and "12.345": three digits behind the only mark, and as many at most before it, of which the first is no 0.
static int may_be_grouped(const km_cell *cell, char mark) {
    int64_t size = cell->size, begin = size && cell->text[0] == '-';
    int64_t before = size - begin - 4;
    if (before < 1 || before > 3 || cell->text[size - 4] != mark || cell->text[begin] == '0') return 0;
    for (int64_t i = begin; i < size; i++)
        if (i != size - 4 && !isdigit((unsigned char)cell->text[i])) return 0;
    return 1;
}

static void see_spelling(km_seen *seen, const km_cell *cell) {
    int64_t digits = 0;
    seen->points += memchr(cell->text, '.', (size_t)cell->size) != NULL;
    seen->grouped += may_be_grouped(cell, '.');
    while (digits < cell->size && isdigit((unsigned char)cell->text[digits])) digits++;
    seen->digits += digits == cell->size;
    seen->long_digits += digits == cell->size && digits > 3;
}

static int see(km_seen *seen, const km_cell *cell, int64_t line, const km_spelling *spelling) {
    double value;
    km_cell_sort sort = km_cell_number(&value, cell, spelling);
    seen->cells++;
    seen->missing += sort == KM_CELL_MISSING;
    if (sort == KM_CELL_MISSING) return 1;
    if (sort == KM_CELL_VALUE) {
        if (!seen->numbers && seen->dates) seen->low = INFINITY, seen->high = -INFINITY;
        seen->numbers++;
        seen->whole += value == floor(value) && fabs(value) < 0x1p53;
        see_spelling(seen, cell);
        see_value(seen, value);
        return 1;
    }
    see_wrong(seen, cell, line);
    if (spelling->decimal == '.' && take_with_comma(&value, cell)) {
        seen->commas++;
        seen->grouped_commas += may_be_grouped(cell, ',');
    }
    if (km_cell_yes_no(&value, cell, spelling) == KM_CELL_VALUE) {
        seen->yes_no++;
    } else if (km_cell_date(&value, cell, spelling) == KM_CELL_VALUE) {
        seen->dates++;
        if (!seen->numbers) see_value(seen, value);
        return 1;
    }
    if (seen->has_many) return 1;
    int64_t number = km_dict_add(&seen->different, cell->text, cell->size, KM_CATEGORIES_MAX);
    seen->has_many = number == -1;
    return number != -2;
}

km_status km_scan_add(km_scan *scan, const km_cells *record, const km_spelling *spelling, km_error *err) {
    int64_t count = km_min(scan->count, record->count);
    for (int64_t f = 0; f < count; f++)
        if (!see(&scan->columns[f], &record->cells[f], record->first_line, spelling))
            return km_fail_memory(err, "the texts of a column", KM_CATEGORIES_MAX * 64);
    scan->rows++;
    return KM_OK;
}

int km_name_is_id(const char *name) {
    static const char *const whole[] = {"id",        "ids",  "idx", "index",    "uid",
                                        "uuid",      "guid", "key", "rowid",    "row_number",
                                        "rownumber", "row",  "nr",  "rownames", NULL};
    static const char *const ends[] = {"_id",    ".id", "-id",   " id", "_key", "_idx",
                                       "_index", "_nr", "_uuid", "_no", NULL};
    size_t size = strlen(name);
    for (int i = 0; whole[i]; i++)
        if (strcasecmp(name, whole[i]) == 0) return 1;
    for (int i = 0; ends[i]; i++)
        if (size > strlen(ends[i]) && strcasecmp(name + size - strlen(ends[i]), ends[i]) == 0) return 1;
    if (strncasecmp(name, "id_", 3) == 0) return 1;
    // customerId, CustomerID
    int is_camel = size > 2 && (strcmp(name + size - 2, "Id") == 0 || strcmp(name + size - 2, "ID") == 0);
    return is_camel && islower((unsigned char)name[size - 3]);
}

km_column_kind km_kind_of(const km_seen *seen, const char *name) {
    int64_t there = seen->cells - seen->missing;
    if (there == 0) return KM_COLUMN_EMPTY;
    if (2 * seen->numbers >= there) {
        int is_whole = seen->whole == there;
        return is_whole && name && km_name_is_id(name) ? KM_COLUMN_ID : KM_COLUMN_NUMBER;
    }
    if (seen->yes_no == there) return KM_COLUMN_YES_NO;
    if (2 * seen->dates >= there) return KM_COLUMN_DATE;
    // As many texts as rows, or nearly, are no categories.
    int is_few = !seen->has_many && (2 * seen->different.count <= there || seen->different.count <= 2);
    return is_few ? KM_COLUMN_CATEGORY : KM_COLUMN_TEXT;
}

const char *km_kind_name(km_column_kind kind) {
    static const char *const names[] = {"number", "id",   "yes/no",   "category",
                                        "date",   "text", "constant", "empty"};
    return names[kind];
}
