// SPDX-License-Identifier: MIT
#include "names.h"
#include "../base/error.h"
#include "../base/text.h"
#include "../gen/spec_fields.h"
#include "json.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

// How many missing names are listed, each with the one most like it, and how many bytes of the names that are there.
enum { SAID_MAX = 6, LIST_BYTES = 200 };

// A name as a model file holds it, and its column.
typedef struct key {
    char *text;
    int64_t column;
} key;

static int compare(const void *a, const void *b) {
    const key *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    return order ? order : (x->column > y->column) - (x->column < y->column);
}

static int compare_text(const void *a, const void *b) {
    return strcmp(((const key *)a)->text, ((const key *)b)->text);
}

static void keys_free(key *keys, int64_t count) {
    for (int64_t i = 0; keys && i < count; i++) free(keys[i].text);
    free(keys);
}

static km_status keys_make(key **out, const char *const *names, int64_t count, km_error *err) {
    key *keys = *out = calloc((size_t)count + 1, sizeof *keys);
    if (!keys) return km_fail_memory(err, "the names of features", count * (int64_t)sizeof *keys);
    for (int64_t i = 0; i < count; i++) {
        KM_TRY(km_json_name(&keys[i].text, names[i], err));
        keys[i].column = i;
    }
    return KM_OK;
}

static int is_same_list(const key *a, int64_t a_count, const key *b, int64_t b_count) {
    if (a_count != b_count) return 0;
    for (int64_t i = 0; i < a_count; i++)
        if (strcmp(a[i].text, b[i].text) != 0) return 0;
    return 1;
}

// What is missing ---------------------------------------------------------------------------------------------

// The letters and digits of a name, small: what "Age (years)" and "age" have in common. Other bytes are those of UTF-8.
static void letters_of(char out[KM_QUOTED_SIZE], const char *name) {
    int size = 0;
    for (; *name && size < KM_QUOTED_SIZE - 1; name++) {
        unsigned char byte = (unsigned char)*name;
        if (byte >= 'A' && byte <= 'Z') byte = (unsigned char)(byte - 'A' + 'a');
        if ((byte >= 'a' && byte <= 'z') || (byte >= '0' && byte <= '9') || byte >= 128)
            out[size++] = (char)byte;
    }
    out[size] = 0;
}

// How unlike two names are: 0 where only case and signs differ; 1 + the letters beside where one holds the other; -1:
// neither, or too short to say.
static int unlike(const char *a, const char *b) {
    enum { SHORTEST = 3 };
    char x[KM_QUOTED_SIZE], y[KM_QUOTED_SIZE];
    letters_of(x, a);
    letters_of(y, b);
    if (strcmp(x, y) == 0) return *x ? 0 : -1;
    int x_size = (int)strlen(x), y_size = (int)strlen(y);
    if (x_size < SHORTEST || y_size < SHORTEST || !(strstr(x, y) || strstr(y, x))) return -1;
    return 1 + abs(x_size - y_size);
}

// The names of a table, of which those that are taken are like no other.
typedef struct candidates {
    const key *sorted;
    unsigned char *taken;
    int64_t count;
} candidates;

// The free name whose letters are those of `name`, or, `how` 1, have them in them, the fewest beside; -1: none.
static int64_t same_letters(const candidates *c, const char *name, int how) {
    int64_t found = -1;
    int least = how ? INT_MAX : 1;
    for (int64_t i = 0; i < c->count; i++) {
        int apart = c->taken[i] ? -1 : unlike(name, c->sorted[i].text);
        if (apart < 0 || apart >= least) continue;
        least = apart;
        found = i;
    }
    return found;
}

static int64_t few_typos(const candidates *c, const char *name) {
    const char **words = calloc((size_t)c->count + 1, sizeof *words);
    int64_t words_count = 0, found = -1;
    for (int64_t i = 0; words && i < c->count; i++)
        if (*c->sorted[i].text && !c->taken[i]) words[words_count++] = c->sorted[i].text;
    const char *similar = words ? km_suggest(name, words) : NULL;
    for (int64_t i = 0; similar && i < c->count; i++)
        if (c->sorted[i].text == similar) found = i;
    free((void *)words);
    return found;
}

// The names most like the first SAID_MAX that are missing, each name once; -1: none is.
static void find_similar(int64_t similar[SAID_MAX], const candidates *c, const key *wanted,
                         const int64_t *missing, int64_t count) {
    enum { SAME, HOLDING, TYPED, WAYS };
    for (int64_t i = 0; i < count; i++) similar[i] = -1;
    for (int way = SAME; way < WAYS; way++)
        for (int64_t i = 0; i < count; i++) {
            const char *name = wanted[missing[i]].text;
            if (similar[i] >= 0) continue;
            similar[i] = way == TYPED ? few_typos(c, name) : same_letters(c, name, way == HOLDING);
            if (similar[i] >= 0) c->taken[similar[i]] = 1;
        }
}

static void list_names(km_text *text, const km_named *table) {
    for (int64_t i = 0; i < table->count; i++) {
        if (text->size > LIST_BYTES) {
            km_text_puts(text, ", ...");
            return;
        }
        km_text_printf(text, "%s%.60s", i ? ", " : "", table->names[i]);
    }
}

static km_status refuse_missing(const key *wanted, int64_t wanted_count, const int64_t *missing,
                                int64_t missing_count, const candidates *there, const km_named *table,
                                km_error *err) {
    if (!err) return KM_ERROR_DATA; // no sentence is wanted
    int64_t similar[SAID_MAX], said_count = missing_count < SAID_MAX ? missing_count : SAID_MAX;
    find_similar(similar, there, wanted, missing, said_count);
    km_text said = {0}, all = {0};
    char *said_text = NULL, *all_text = NULL, got[KM_QUOTED_SIZE];
    for (int64_t i = 0; i < said_count; i++) {
        km_text_printf(&said, "%s%s", i ? ", " : "", km_quoted(got, wanted[missing[i]].text));
        if (similar[i] >= 0)
            km_text_printf(&said, " (is it %s?)", km_quoted(got, there->sorted[similar[i]].text));
    }
    if (missing_count > SAID_MAX) km_text_puts(&said, ", ...");
    list_names(&all, table);
    km_status status;
    KM_TRY_GOTO(km_text_take(&said_text, &said, err));
    KM_TRY_GOTO(km_text_take(&all_text, &all, err));
    status = km_fail(err, KM_ERROR_DATA,
                     "%s lacks %" PRId64 " of the %" PRId64 " columns that are needed: %s; it has %s; %s",
                     table->file, missing_count, wanted_count, said_text, all_text,
                     table->count < wanted_count ? "add them" : table->way_out);
done:
    km_text_clear(&all);
    km_text_free(said_text);
    km_text_free(all_text);
    return status;
}

// Matching ----------------------------------------------------------------------------------------------------

static km_status refuse_twice(const key *found, const km_named *table, km_error *err) {
    char got[KM_QUOTED_SIZE];
    const int64_t *numbers = table->numbers;
    int64_t a = found[0].column, b = found[1].column;
    return km_fail(err, KM_ERROR_DATA,
                   "%s has two columns %s, %" PRId64 " and %" PRId64
                   ", and one is needed; choose the columns by number: --columns",
                   table->file, km_quoted(got, found->text), numbers ? numbers[a] : a + 1,
                   numbers ? numbers[b] : b + 1);
}

// `sorted`: the table's keys; `taken`: zero for each.
static km_status match(int64_t *picks, int64_t *missing, key *sorted, unsigned char *taken, const key *wanted,
                       int64_t wanted_count, const km_named *table, km_error *err) {
    int64_t missing_count = 0;
    char got[KM_QUOTED_SIZE];
    for (int64_t i = 0; i < wanted_count; i++) {
        key *found = bsearch(&wanted[i], sorted, (size_t)table->count, sizeof *sorted, compare_text);
        if (!found) {
            missing[missing_count++] = i;
            continue;
        }
        while (found > sorted && strcmp(found[-1].text, found->text) == 0) found--;
        if (found + 1 < sorted + table->count && strcmp(found[1].text, found->text) == 0)
            return refuse_twice(found, table, err);
        if (taken[found - sorted]++)
            return km_fail(err, KM_ERROR_DATA,
                           "%s: two columns %s are needed, which names cannot tell apart; choose the columns "
                           "by number: --columns",
                           table->file, km_quoted(got, found->text));
        picks[i] = found->column;
    }
    if (!missing_count) return KM_OK;
    candidates there = {sorted, taken, table->count};
    return refuse_missing(wanted, wanted_count, missing, missing_count, &there, table, err);
}

km_status km_names_match(int64_t *picks, const char *const *wanted, int64_t wanted_count,
                         const km_named *table, km_error *err) {
    key *wishes = NULL, *keys = NULL;
    int64_t *missing = malloc((size_t)wanted_count * sizeof *missing + 1);
    unsigned char *taken = calloc((size_t)table->count + 1, 1);
    km_status status;
    if (!missing || !taken)
        KM_TRY_GOTO(km_fail_memory(err, "the names of features", wanted_count * (int64_t)sizeof *missing));
    KM_TRY_GOTO(keys_make(&wishes, wanted, wanted_count, err));
    KM_TRY_GOTO(keys_make(&keys, table->names, table->count, err));
    if (is_same_list(wishes, wanted_count, keys, table->count)) {
        for (int64_t i = 0; i < wanted_count; i++) picks[i] = i;
        goto done;
    }
    qsort(keys, (size_t)table->count, sizeof *keys, compare);
    status = match(picks, missing, keys, taken, wishes, wanted_count, table, err);
done:
    keys_free(wishes, wanted_count);
    keys_free(keys, table->count);
    free(missing);
    free(taken);
    return status;
}
