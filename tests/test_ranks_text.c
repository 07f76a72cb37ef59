// SPDX-License-Identifier: MIT
// A text that ranks parse together: wherever its pieces and the ranks' rows begin, each has the values, lines, columns
// and warnings that one reader of the whole text has, and what is wrong is said in the same words.
#include "quiet_check.h"
#include "runtime/data_source.h"
#include "runtime/read/ranks.h"
#include "short_form.h"
#include <kmgen/data.h>
#include <kmgen/fit.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char path[2][40];

static void name_files(void) {
    for (int i = 0; i < 2; i++) {
        snprintf(path[i], sizeof path[i], "/tmp/kmgen-rows-XXXXXX");
        int file = mkstemp(path[i]);
        ck_assert_int_ge(file, 0);
        close(file);
    }
}

static void remove_files(void) {
    for (int i = 0; i < 2; i++) remove(path[i]);
    km_text_piece_bytes = 1 << 20;
}

static void write_text(int file, const char *text, int64_t size) {
    FILE *stream = fopen(path[file], "wb");
    ck_assert_ptr_nonnull(stream);
    ck_assert_int_eq((int64_t)fwrite(text, 1, (size_t)size, stream), size);
    ck_assert_int_eq(fclose(stream), 0);
}

// Every part --------------------------------------------------------------------------------------------------

static const struct {
    const char *text, *columns;
} texts[] = {
    {"a,b\n1,2\n3,4\n5,6\n", "1,2"},
    {"1,2\n3,4\n5,6", "1,2"},                                  // no header, no newline at the end
    {"a,b\r\n1,2\r\n3,4\r\n5,6\r\n", "1,2"},                   // two bytes end a line
    {"a,b\r1,2\r3,4\r5,6\r", "1,2"},                           // a carriage return does
    {"\n \n\na,b\n\n1,2\n  \n\t\n3,4\n\n\n5,6\n\n \n", "1,2"}, // blank lines
    {"a,b,c\n\"x\ny\",1,2\n\"\n\n\",3,4\n\"\"\"\n\"\"\",5,6\nz,7,8\n",
     "2,3"}, // newlines and quotes in quotes
    {"a,b,c\r\n\"x\r\ny\",1,2\r\n\"\r\",3,4\r\n \"q\" ,5,6\r\nz,7,8", "2,3"},
    {"a,b\n1,\"2\"\n\"3\",\"4\"\n 5 , \"6\" \n", "1,2"},
    {"  1 ,\t2\n   3,4\n  \n    5,   6\n7,8   \n", "1,2"},
    {"a\tb\n1\t2\n\t4\n5\t\n", "1,2"},   // an empty cell is no space
    {"a\n1\n\n3\n\n\n6\n \n8\n\n", "1"}, // of one column: missing values, but at the end
    {"\n\n1\n\n3\n\n\n6\n\n", "1"},      // ... and in front
    {"\r\n1\r\n\r\n3\r\n\r\n6\r\n\r\n", "1"},
    {"x\r\n\r\n1\r\n \r\n3\r\n", "1"},
    {"x\n\n\n", "1"},
    {"\xef\xbb\xbf"
     "a,b\n1,2\n3,4\n",
     "1,2"},          // a byte order mark
    {"a,b\n", "1,2"}, // no rows
    {"7,8\n", "1,2"},
    {"a;b\n1,5;2\n2,5;3\n4,0;5\n", "1,2"}, // decimals
};
enum { TEXTS = sizeof texts / sizeof *texts };

static int sum_of_one(void *user, double *values, int64_t count) {
    (void)user, (void)values, (void)count;
    return 0;
}
static const km_communicator one = {0, 1, 1, sum_of_one, NULL, NULL, NULL};

static km_data_params params_of(void) {
    km_data_params params;
    km_data_params_init(&params);
    params.missing = KM_MISSING_KEEP;
    params.numbers_only = 1;
    params.threads = 2;
    return params;
}

static void compare_rows(const km_table *part, const km_table *whole, int64_t first, int64_t count) {
    ck_assert_int_eq(part->rows, count);
    ck_assert_int_eq(part->columns, whole->columns);
    for (int64_t i = 0; i < count; i++) {
        double a[8], b[8];
        km_table_read(a, part, i, 1, KM_FLOAT64);
        km_table_read(b, whole, first + i, 1, KM_FLOAT64);
        for (int64_t f = 0; f < whole->columns; f++)
            ck_assert_msg(a[f] == b[f] || (isnan(a[f]) && isnan(b[f])), "row %lld: %g, not %g",
                          (long long)(first + i), a[f], b[f]);
        ck_assert_int_eq(km_table_line(part, i), km_table_line(whole, first + i));
    }
}

// All parts of a text, whose rows are looked for in pieces of so many bytes.
static void check_parts(const km_table *whole, const km_data_params *params) {
    km_error err = {{0}};
    km_input input;
    km_parse p;
    km_share share = {.ranks = &one};
    km_text_rows rows;
    ck_assert_int_eq(km_input_open(&input, path[0], &err), KM_OK);
    ck_assert_int_eq(km_parse_open(&p, &input, params, 0, &err), KM_OK);
    ck_assert_int_eq(km_parse_header(&p), KM_OK);
    ck_assert_int_eq(km_text_rows_find(&rows, &p, &share, &err), KM_OK);
    ck_assert_msg(rows.rows == whole->rows, "%lld rows, not %lld, in pieces of %lld", (long long)rows.rows,
                  (long long)whole->rows, (long long)km_text_piece_bytes);
    for (int64_t first = 0; first <= rows.rows; first++)
        for (int64_t count = 0; first + count <= rows.rows && rows.rows > 0; count++) {
            const km_text_part part = {&share, &rows, first, count};
            km_table table;
            km_status status = km_table_open(&table, path[0], params, &part, &err);
            ck_assert_msg(status == KM_OK, "rows %d..%d: %s", (int)first, (int)(first + count), err.text);
            compare_rows(&table, whole, first, count);
            km_table_clear(&table);
        }
    km_text_rows_clear(&rows);
    km_parse_close(&p);
    km_input_close(&input);
}

START_TEST(every_part_of_a_text) {
    const char *text = texts[_i].text;
    km_error err = {{0}};
    km_data_params params = params_of();
    km_table whole = {0};
    params.columns = texts[_i].columns;
    params.numbers_only = 0;
    write_text(0, text, (int64_t)strlen(text));
    km_status status = km_table_open(&whole, path[0], &params, NULL, &err);
    if (status != KM_OK) ck_assert_msg(strstr(err.text, "no rows") != NULL, "%s", err.text);
    for (km_text_piece_bytes = 1; km_text_piece_bytes < 24; km_text_piece_bytes++)
        check_parts(&whole, &params);
    km_table_clear(&whole);
}
END_TEST

static const char *draw(uint64_t *state, const char *const *list, uint64_t count) {
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return list[(*state >> 40) % count];
}

// Texts by chance, of cells, line ends and blank lines that are hard to tell apart.
START_TEST(parts_of_texts_by_chance) {
    static const char *const firsts[] = {"1", "\"2\"", " 3 ", "", "\"\""}, *const seconds[] = {"a",
                                                                                               "\"b\nc\"",
                                                                                               "\"\"\"\"",
                                                                                               " \"d\re\" ",
                                                                                               "\"\r\n,\n\"",
                                                                                               ""},
                             *const ends[] = {"\n", "\r\n", "\r"}, *const between[] = {"",     "",    "\n",
                                                                                       "\r\n", " \n", "  \r"};
    const int texts_count = is_whole() ? 3000 : 150;
    uint64_t state = 1;
    km_data_params params = params_of();
    params.numbers_only = 0;
    params.columns = "1";
    params.header = KM_HEADER_NO;
    for (int t = 0; t < texts_count; t++) {
        char bytes[512];
        int size = 0, rows = 0, wide = t % 2;
        km_error err = {{0}};
        km_table whole = {0};
        for (; rows < 6; rows++) {
            size += sprintf(bytes + size, "%s%s", draw(&state, between, 6), draw(&state, firsts, 5));
            if (wide) size += sprintf(bytes + size, ",%s", draw(&state, seconds, 6));
            size += sprintf(bytes + size, "%s", draw(&state, ends, 3));
        }
        size += sprintf(bytes + size, "%s%s", draw(&state, between, 6), wide ? "4,x" : "4");
        write_text(0, bytes, size);
        km_status status = km_table_open(&whole, path[0], &params, NULL, &err);
        ck_assert_msg(status == KM_OK, "%s", err.text);
        for (km_text_piece_bytes = 1; km_text_piece_bytes < 8; km_text_piece_bytes += 1 + t % 3)
            check_parts(&whole, &params);
        km_table_clear(&whole);
    }
}
END_TEST

// Ranks as threads --------------------------------------------------------------------------------------------

enum { RANKS_MAX = 7, LOG_BYTES = 4096 };

static struct {
    pthread_barrier_t barrier;
    pthread_mutex_t lock;
    double *sums;
    int64_t size, count;
} meeting;

typedef struct rank {
    km_communicator communicator;
    km_data_params params;
    int64_t files;
    km_data *data;
    km_status status;
    km_error err;
    km_log log;
    char said[LOG_BYTES];
} rank;

static int sum(void *user, double *values, int64_t count) {
    (void)user;
    pthread_barrier_wait(&meeting.barrier);
    pthread_mutex_lock(&meeting.lock);
    if (!meeting.sums) {
        meeting.sums = calloc((size_t)count + 1, sizeof *meeting.sums);
        meeting.count = count;
    }
    ck_assert_int_eq(meeting.count, count);
    for (int64_t i = 0; i < count; i++) meeting.sums[i] += values[i];
    pthread_mutex_unlock(&meeting.lock);
    pthread_barrier_wait(&meeting.barrier);
    memcpy(values, meeting.sums, (size_t)count * sizeof *values);
    if (pthread_barrier_wait(&meeting.barrier) == PTHREAD_BARRIER_SERIAL_THREAD) {
        free(meeting.sums);
        meeting.sums = NULL;
    }
    return 0;
}

static void hear(void *user, km_log_level level, const char *text) {
    char *said = user;
    size_t size = strlen(said);
    if (level <= KM_LOG_INFO) snprintf(said + size, LOG_BYTES - size, "%s\n", text);
}

static void *open_rank(void *user) {
    static const char *const paths[] = {path[0], path[1]};
    rank *r = user;
    r->log = (km_log){hear, r->said};
    r->params.log = &r->log;
    r->status = km_data_open_files(&r->data, paths, r->files, &r->params, &r->err);
    return NULL;
}

static const char *weights_of_second; // where the second rank has others than the rest; else NULL

static void open_by(rank *ranks, int64_t size, const km_data_params *params, int64_t files) {
    pthread_t threads[RANKS_MAX];
    meeting.size = size;
    pthread_barrier_init(&meeting.barrier, NULL, (unsigned)size);
    pthread_mutex_init(&meeting.lock, NULL);
    for (int64_t r = 0; r < size; r++) {
        ranks[r] = (rank){.params = *params, .files = files};
        ranks[r].communicator = (km_communicator){r, size, size, sum, NULL, NULL, NULL};
        ranks[r].params.communicator = &ranks[r].communicator;
        if (r == 1 && weights_of_second) ranks[r].params.weights = weights_of_second;
        ck_assert_int_eq(pthread_create(&threads[r], NULL, open_rank, &ranks[r]), 0);
    }
    for (int64_t r = 0; r < size; r++) pthread_join(threads[r], NULL);
    pthread_barrier_destroy(&meeting.barrier);
    pthread_mutex_destroy(&meeting.lock);
}

static void check_rank(const rank *r, const km_data *whole, const char *said) {
    ck_assert_msg(r->status == KM_OK, "%s", r->err.text);
    int64_t first, count, d = km_data_features(whole), n = km_data_points(whole);
    km_share_of(&first, &count, n, r->communicator.rank, r->communicator.size);
    ck_assert_int_eq(km_data_points(r->data), count);
    ck_assert_int_eq(km_data_rows(r->data), count);
    ck_assert_int_eq(km_data_features(r->data), d);
    for (int64_t f = 0; f < d; f++)
        ck_assert_pstr_eq(km_data_feature_name(r->data, f), km_data_feature_name(whole, f));
    const km_feature *own = km_data_preparation(r->data), *all = km_data_preparation(whole);
    ck_assert_int_eq(own != NULL, all != NULL);
    for (int64_t f = 0; all && f < d; f++) {
        ck_assert_pstr_eq(own[f].category, all[f].category);
        ck_assert(own[f].fill == all[f].fill || (isnan(own[f].fill) && isnan(all[f].fill)));
    }
    double *a = malloc((size_t)(count * d + 1) * sizeof *a), *b = malloc((size_t)(count * d + 1) * sizeof *b);
    km_error err = {{0}};
    ck_assert_int_eq(km_data_read(a, r->data, 0, count, KM_FLOAT64, &err), KM_OK);
    ck_assert_int_eq(km_data_read(b, whole, first, count, KM_FLOAT64, &err), KM_OK);
    ck_assert(memcmp(a, b, (size_t)(count * d) * sizeof *a) == 0);
    free(a);
    free(b);
    for (int64_t i = 0; i < count; i += 997)
        ck_assert_int_eq(km_data_line(r->data, km_data_row_of(r->data, i)), km_data_line(whole, first + i));
    const double *weights = km_data_weights(r->data), *all_weights = km_data_weights(whole);
    for (int64_t i = 0; all_weights && i < count; i++)
        ck_assert_double_eq(weights ? weights[i] : 1, all_weights[first + i]);
    ck_assert_str_eq(r->said, said);
}

// Many rows, of which `change` may change some text.
typedef struct text {
    char *bytes;
    int64_t size;
} text;

enum { ROWS = 200003 };

static text make_text(int kind, int64_t first, int64_t rows) {
    text t = {malloc((size_t)rows * 100 + 100), 0};
    const char *end = kind == 1 ? "\r\n" : "\n";
    if (kind != 4) t.size += sprintf(t.bytes, "id,x,word,y,w%s", end);
    for (int64_t i = first; i < first + rows; i++) {
        uint64_t u = (uint64_t)i * 0x9e3779b97f4a7c15u >> 20;
        char word[40] = "w";
        if (kind == 2 && u % 7 == 0)
            snprintf(word, sizeof word, "\"a\n%s\"\"b%d\"", u % 3 ? "\n" : "", (int)(u % 5));
        else
            snprintf(word, sizeof word, "w%d", (int)(i / 70000 * 3 + (int64_t)(u % 3)));
        if (kind == 4) snprintf(word, sizeof word, "%d", (int)(u % 3));
        if (kind == 3 && u % 11 == 0) t.size += sprintf(t.bytes + t.size, " \n\n");
        double x = i % 500 == 77 ? -999 : (double)(u % 1000) / 8;
        t.size += sprintf(t.bytes + t.size, "%lld,%g,%s,%s,%d%s", (long long)i, x, word,
                          kind == 3 && u % 13 == 0 ? ""
                          : u % 2                  ? "1.5"
                                                   : "-2",
                          (int)(u % 4), end);
    }
    if (kind == 2) t.size--; // no newline at the end
    return t;
}

// Plain; CRLF; newlines in quotes; blank lines and missing values; no header.
START_TEST(ranks_have_the_rows_of_one) {
    static const int64_t sizes[] = {1, 2, 3, 7};
    km_data_params params = params_of();
    const int kind = _i % 5, files = 1 + _i / 5;
    if (!is_whole() && files == 2 && kind != 2) return;
    params.one_hot = kind == 4 ? NULL : "word";
    params.weights_column = kind == 4 ? NULL : "w";
    params.missing = kind == 3 ? (files == 1 ? KM_MISSING_MEAN : KM_MISSING_MEDIAN) : KM_MISSING_REFUSE;
    for (int f = 0; f < files; f++) {
        int64_t rows = files == 1 ? ROWS : f ? ROWS / 3 : ROWS - ROWS / 3;
        text t = make_text(kind, f ? ROWS - ROWS / 3 : 0, rows);
        write_text(f, t.bytes, t.size);
        free(t.bytes);
    }
    rank whole = {.params = params, .files = files};
    open_rank(&whole);
    ck_assert_msg(whole.status == KM_OK, "%s", whole.err.text);
    ck_assert_int_eq(km_data_points(whole.data), ROWS);
    km_text_piece_bytes = 10007;
    for (int i = 0; i < 4; i++) {
        rank ranks[RANKS_MAX];
        if (!is_whole() && sizes[i] != 7 && sizes[i] != 1 + _i % 3) continue;
        open_by(ranks, sizes[i], &params, files);
        for (int64_t r = 0; r < sizes[i]; r++) {
            check_rank(&ranks[r], whole.data, whole.said);
            km_data_destroy(&ranks[r].data);
        }
    }
    km_data_destroy(&whole.data);
}
END_TEST

// Weights of a file -------------------------------------------------------------------------------------------

static char weights_path[2][40]; // the second: of one row less

// Weights as `kind` of file, of which the one at `bad` is none; -1: all are. The rows of the first of two ranks weigh
// nothing.
static void write_weights(int kind, int64_t bad) {
    static const char *const ends[] = {".f64", ".npy", ".csv"};
    for (int f = 0; f < 2; f++) {
        const int64_t rows = ROWS - f;
        snprintf(weights_path[f], sizeof weights_path[f], "/tmp/kmgen-weights-XXXXXX%s", ends[kind]);
        int file = mkstemps(weights_path[f], 4);
        FILE *stream = fdopen(file, "wb");
        ck_assert_ptr_nonnull(stream);
        if (kind == 1) {
            char head[128] = "\x93NUMPY\x01\x00\x76\x00";
            memset(head + 10, ' ', 118);
            int size =
                snprintf(head + 10, 118, "{'descr': '<f8', 'fortran_order': False, 'shape': (%lld,), }",
                         (long long)rows);
            head[10 + size] = ' ';
            head[127] = '\n';
            ck_assert_uint_eq(fwrite(head, 1, sizeof head, stream), sizeof head);
        }
        for (int64_t i = 0; i < rows; i++) {
            double weight = i == bad ? -1 : i < 131072 ? 0 : (double)(i % 5) / 4;
            if (kind == 2)
                fprintf(stream, "%g\n", weight);
            else
                ck_assert_uint_eq(fwrite(&weight, sizeof weight, 1, stream), 1);
        }
        ck_assert_int_eq(fclose(stream), 0);
    }
}

static void remove_weights(void) {
    for (int f = 0; f < 2; f++) remove(weights_path[f]);
    weights_of_second = NULL;
}

// A rank reads those of its rows alone: what is wrong in others is for those who have them to say. Points are a text
// that ranks parse together, or all of a file that is mapped.
START_TEST(ranks_have_the_weights_of_one) {
    const int kind = _i % 3, is_text = _i < 3;
    km_data_params params = params_of();
    text t = make_text(4, 0, ROWS);
    if (!is_text) { // two columns of the same bytes
        t.size = (int64_t)ROWS * 16;
        t.bytes = realloc(t.bytes, (size_t)t.size);
        for (int64_t i = 0; i < 2 * ROWS; i++) ((double *)(void *)t.bytes)[i] = (double)(i % 1000);
        params.format = "f64";
        params.features = 2;
    }
    write_text(0, t.bytes, t.size);
    free(t.bytes);
    write_weights(kind, -1);
    params.weights = weights_path[0];
    rank ranks[RANKS_MAX], whole = {.params = params, .files = 1};
    open_rank(&whole);
    ck_assert_msg(whole.status == KM_OK, "%s", whole.err.text);
    for (int64_t size = 1; size <= RANKS_MAX; size = 2 * size + 1) {
        open_by(ranks, size, &params, 1);
        for (int64_t r = 0; r < size; r++) {
            check_rank(&ranks[r], whole.data, whole.said);
            km_data_destroy(&ranks[r].data);
        }
    }
    km_data_destroy(&whole.data);

    weights_of_second = weights_path[1];
    open_by(ranks, 3, &params, 1);
    const char *words = kind == 2 ? "here, and others on other ranks" : " has 200002 weights, but ";
    for (int64_t r = 0; r < 3; r++)
        ck_assert_msg(ranks[r].status == KM_ERROR_DATA && strstr(ranks[r].err.text, words), "%s",
                      ranks[r].err.text);
    remove_weights();

    write_weights(kind, 150000); // of the second rank of three
    params.weights = weights_path[0];
    whole = (rank){.params = params, .files = 1};
    open_rank(&whole);
    ck_assert_msg(strstr(whole.err.text, "row 150001: a weight must be 0 or more, got -1"), "%s",
                  whole.err.text);
    open_by(ranks, 3, &params, 1);
    for (int64_t r = 0; r < 3; r++)
        ck_assert_msg(strncmp(ranks[r].err.text, "rank 1 of 3: ", 13) == 0 &&
                          strcmp(ranks[r].err.text + 13, whole.err.text) == 0,
                      "%s", ranks[r].err.text);
    remove_weights();
}
END_TEST

// What is wrong ------------------------------------------------------------------------------------------------

// The sentence of one reader, behind the name of the rank that has the row.
static void check_wrong(const km_data_params *params, const char *words) {
    rank ranks[RANKS_MAX], whole = {.params = *params, .files = 1};
    open_rank(&whole);
    ck_assert_msg(whole.status != KM_OK && strstr(whole.err.text, words), "%s", whole.err.text);
    for (int64_t size = is_whole() ? 1 : 3; size <= 3; size++) {
        open_by(ranks, size, params, 1);
        for (int64_t r = 0; r < size; r++) {
            const char *said = ranks[r].err.text;
            ck_assert_int_eq(ranks[r].status, whole.status);
            if (strncmp(said, "rank ", 5) == 0) said = strstr(said, ": ") + 2;
            ck_assert_msg(strcmp(said, whole.err.text) == 0, "%d ranks: \"%s\" instead of \"%s\"", (int)size,
                          ranks[r].err.text, whole.err.text);
            ck_assert_ptr_null(ranks[r].data);
        }
    }
}

START_TEST(what_is_wrong_is_said_alike) {
    static const struct {
        int kind;
        const char *put, *words;
    } cases[] = {
        {0, "x,y\n", "has 2 cells"},
        {1, "9,oops,w1,2,1\r\n", "\"oops\" is no number"},
        {2, "9,1,a\"b,2,1\n", "a quote is out of place"},
        {2, "9,1,\"b,2,1\n", "a quote is"},
        {0, "9,,w1,2,1\n", "the value is missing (missing: x 1)"},
        {0, "9,1,w1,2,-1\n", "a weight must be 0 or more"},
        {0, "# a comment\n", "has 1 cells"},
    };
    km_data_params params = params_of();
    params.columns = cases[_i].kind == 2 ? "id,x,y" : "x,y,w";
    params.missing = KM_MISSING_REFUSE;
    if (_i == 5) params.weights_column = "w";
    if (_i == 5) params.columns = "x,y";
    km_text_piece_bytes = 10007;
    for (int at = 1; at < 5;
         at += is_whole() ? 2 : 4) { // in the rows of the second rank of three, and of the last
        text t = make_text(cases[_i].kind, 0, ROWS);
        char *begin = t.bytes + t.size / 5 * at + 17, *line = NULL;
        while (!line) { // a line that begins a row
            begin = strchr(begin, '\n') + 1;
            if (begin[0] >= '0' && begin[0] <= '9' && strchr(begin, ',') < strchr(begin, '\n')) line = begin;
        }
        int64_t rest = t.size - (line - t.bytes), put = (int64_t)strlen(cases[_i].put);
        memmove(line + put, line, (size_t)rest);
        memcpy(line, cases[_i].put, (size_t)put);
        write_text(0, t.bytes, t.size + put);
        free(t.bytes);
        check_wrong(&params, cases[_i].words);
    }
}
END_TEST

// Some have no rows; there are none; there is no file.
START_TEST(fewer_lines_than_ranks) {
    rank ranks[RANKS_MAX];
    km_data_params params = params_of();
    write_text(0, "a,b\n1,2\n3,4\n", 12);
    open_by(ranks, 7, &params, 1);
    for (int64_t r = 0; r < 7; r++) {
        ck_assert_msg(ranks[r].status == KM_OK, "%s", ranks[r].err.text);
        ck_assert_int_eq(km_data_points(ranks[r].data), r == 0 ? 2 : 0);
        ck_assert_str_eq(km_data_feature_name(ranks[r].data, 1), "b");
        km_data_destroy(&ranks[r].data);
    }
    write_text(0, "a,b\n", 4);
    params.columns = "a";
    open_by(ranks, 3, &params, 1);
    for (int64_t r = 0; r < 3; r++)
        ck_assert_msg(strstr(ranks[r].err.text, "has a header and no rows") != NULL, "%s", ranks[r].err.text);
    remove(path[0]); // an error of a file that is not there
    open_by(ranks, 3, &params, 1);
    for (int64_t r = 0; r < 3; r++) ck_assert_int_eq(ranks[r].status, KM_ERROR_IO);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("ranks-text");
    TCase *tests = tcase_create("tests");
    tcase_add_checked_fixture(tests, name_files, remove_files);
    tcase_set_timeout(tests, 100);
    tcase_add_loop_test(tests, every_part_of_a_text, 0, TEXTS);
    tcase_add_test(tests, parts_of_texts_by_chance);
    tcase_add_loop_test(tests, ranks_have_the_rows_of_one, 0, 10);
    tcase_add_loop_test(tests, ranks_have_the_weights_of_one, 0, 6);
    tcase_add_loop_test(tests, what_is_wrong_is_said_alike, 0, 7);
    tcase_add_test(tests, fewer_lines_than_ranks);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
