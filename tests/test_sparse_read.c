// SPDX-License-Identifier: MIT
// Sparse tables from files: what is read, and what is refused in which words. The files of tests/data/sparse were
// written by SciPy (save_npz, mmwrite, numpy.savez) and scikit-learn (dump_svmlight_file, from 0 and from 1) out of the
// table `known` below; symmetric.mtx out of its first five columns added to their transpose.
#include "../runtime/csr.h"
#include "../runtime/data_refuse.h"
#include "../runtime/read/reader.h"
#include <kmgen/score.h>

#include "quiet_check.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static km_error err;
static km_data *data;
static km_data_params params;
static char folder[64], last_line[512]; // what was logged last
static km_log to_line;

static void take_line(void *user, km_log_level level, const char *text) {
    (void)user;
    if (level == KM_LOG_INFO) snprintf(last_line, sizeof last_line, "%s", text);
}

static void begin(void) {
    err.text[0] = last_line[0] = 0;
    data = NULL;
    to_line = (km_log){take_line, NULL};
    km_data_params_init(&params);
    params.log = &to_line;
    strcpy(folder, "/tmp/kmgen-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

static void end(void) {
    char command[128];
    km_data_destroy(&data);
    snprintf(command, sizeof command, "rm -rf %s", folder);
    ck_assert_int_eq(system(command), 0);
}

static void write_file(const char *path, const void *bytes, int64_t size) {
    FILE *stream = fopen(path, "wb");
    ck_assert_ptr_nonnull(stream);
    ck_assert_uint_eq(fwrite(bytes, 1, (size_t)size, stream), (size_t)size);
    ck_assert_int_eq(fclose(stream), 0);
}

static void write_text(const char *path, const char *text) {
    write_file(path, text, (int64_t)strlen(text));
}

static void run(const char *command) {
    ck_assert_msg(system(command) == 0, "%s", command);
}

static void open_file(const char *path) {
    km_data_destroy(&data);
    ck_assert_msg(km_data_open(&data, path, &params, &err) == KM_OK, "%s", err.text);
    ck_assert_ptr_nonnull(km_data_csr(data));
}

static void refuse_file(const char *path, km_status wanted, const char *text) {
    km_data_destroy(&data);
    km_status got = km_data_open(&data, path, &params, &err);
    ck_assert_str_eq(err.text, text);
    ck_assert_int_eq(got, wanted);
    ck_assert_ptr_null(data);
    err.text[0] = 0;
}

static void expect_values(int64_t n, int64_t d, const double *values) {
    double whole[1024];
    ck_assert_int_eq(km_data_points(data), n);
    ck_assert_int_eq(km_data_features(data), d);
    ck_assert_int_le(n * d, 1024);
    ck_assert_int_eq(km_data_read(whole, data, 0, n, KM_FLOAT64, &err), KM_OK);
    for (int64_t i = 0; i < n * d; i++)
        ck_assert_msg(whole[i] == values[i] || (isnan(whole[i]) && isnan(values[i])),
                      "value %d: %.17g is not %.17g", (int)i, whole[i], values[i]);
    const km_csr *csr = km_data_csr(data);
    for (int64_t r = 0; r < csr->rows; r++)
        for (int64_t e = csr->starts[r] + 1; e < csr->starts[r + 1]; e++)
            ck_assert_int_gt(km_csr_column(csr, e), km_csr_column(csr, e - 1));
}

// Formats ----------------------------------------------------------------------------------------------------

static const double known[36] = {1.5, 0, 0, 0, -2,   0, 0, 0, 0, 0,  0,  0, 0, 3, 0,   .25, 0, 0,
                                 0,   0, 0, 0, 1e10, 0, 7, 8, 9, 10, 11, 0, 0, 0, -.5, 0,   0, 0};

static const char *known_file(const char *name) {
    static char path[512];
    snprintf(path, sizeof path, KM_TEST_DATA "/sparse/%s", name);
    return path;
}

START_TEST(files_of_other_programs) {
    static const char *const names[] = {"from0.svm", "from1.svm",  "general.mtx", "csr.npz",
                                        "csc.npz",   "stored.npz", "int64.npz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        params.features = i < 2 ? 6 : 0;
        if (i > 2 && !km_built_with(KM_PART_LIBARCHIVE)) break;
        open_file(known_file(names[i]));
        expect_values(6, 6, known);
        ck_assert_int_eq(km_data_csr(data)->type, i == 5 ? KM_FLOAT32 : KM_FLOAT64);
        ck_assert_int_eq(km_data_csr(data)->index_bytes, 4);
    }
    params.features = 0;
    open_file(known_file("symmetric.mtx"));
    double sums[25];
    for (int i = 0; i < 25; i++) sums[i] = known[i / 5 * 6 + i % 5] + known[i % 5 * 6 + i / 5];
    expect_values(5, 5, sums);
}
END_TEST

START_TEST(told_by_content) {
    char command[1024];
    static const char *const names[] = {"from0.svm", "from1.svm", "general.mtx", "csr.npz"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (i == 3 && !km_built_with(KM_PART_LIBARCHIVE)) break;
        snprintf(command, sizeof command, "cp %s x && gzip -kf x", known_file(names[i]));
        run(command);
        params.features = i < 2 ? 6 : 0;
        open_file("x");
        expect_values(6, 6, known);
        ck_assert_ptr_nonnull(freopen("x", "rb", stdin));
        open_file("-");
        expect_values(6, 6, known);
        if (i == 3 || !km_built_with(KM_PART_ZLIB)) continue;
        run("mv x.gz packed");
        open_file("packed");
        expect_values(6, 6, known);
    }
    // Text that is none of these stays CSV.
    write_text("x", "12:30 1\n");
    refuse_file("x", KM_ERROR_DATA, "x has a header and no rows");
}
END_TEST

// svmlight ---------------------------------------------------------------------------------------------------

static const double six[] = {1, 0, 2, 0, 3, 0};

START_TEST(svmlight_spellings) {
    static const char *const texts[] = {
        "1 1:1 3:2\n-1 2:3\n",
        "+1 1:1 3:2\r\n-1 2:3\r\n",
        "1\t1:1\t3:2\t\n\n \t\n-1  2:3  ",         // tabs, blank lines, no newline at the end
        "# a comment\n1 1:1 3:2 # 5:7\n2 2:3#\n#", // comments
        "1 qid:7 1:1 3:2\n2 qid:7 2:3\n",          // queries
        "1:1 3:2\n 2:3\n",                         // no labels
        "1,2 1:1 3:2\n3,4,5 2:3\n",                // several labels
        "1.5 3:2 1:1\n-2e3 2:3\n",                 // indices in no order
        "\xef\xbb\xbf"
        "1 1:1.0 3:+2e0\n2 2:.3e1\n",      // a mark, other numbers
        "1 1:1 2:0 3:2\n2 1:-0 2:3 3:0\n", // zeros
        "1 001:1 0003:2\n2 2:3\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_text("x.svm", texts[i]);
        open_file("x.svm");
        expect_values(2, 3, six);
        ck_assert_str_eq(last_line, "data: x.svm: indices count from 1, as none is 0 (--base)");
    }
    ck_assert_int_eq(km_data_csr(data)->starts[2], 3);
    write_text("x.svm", "1 1:1 2:0 3:2\n2 1:-0 2:3 3:0\n");
    params.type = KM_FLOAT32;
    open_file("x.svm");
    expect_values(2, 3, six);
    ck_assert_int_eq(km_data_csr(data)->starts[2], 6); // zeros stay
    ck_assert_int_eq(km_data_csr(data)->type, KM_FLOAT32);
    write_text("x.svm", "1\n2\n3 1:0\n"); // nothing but zeros
    open_file("x.svm");
    expect_values(3, 1, (double[]){0, 0, 0});
}
END_TEST

START_TEST(svmlight_base) {
    write_text("x.svm", "1 0:1 2:2\n2 1:3\n");
    open_file("x.svm");
    expect_values(2, 3, six);
    ck_assert_str_eq(last_line, "data: x.svm: indices count from 0, as one is 0 (--base)");
    last_line[0] = 0;
    params.base = 0;
    write_text("x.svm", "1 1:1 3:2\n2 2:3\n");
    open_file("x.svm");
    expect_values(2, 4, (double[]){0, 1, 0, 2, 0, 0, 3, 0});
    ck_assert_str_eq(last_line, ""); // nothing was assumed
    params.base = 1;
    open_file("x.svm");
    expect_values(2, 3, six);
    write_text("x.svm", "1 1:1 3:2\n2 0:3\n");
    refuse_file("x.svm", KM_ERROR_DATA,
                "x.svm: row 2 has index 0, and indices count from 1; let them count from 0: --base 0");
    params.base = 2;
    refuse_file("x.svm", KM_ERROR_USAGE, "x.svm: indices count from 0 or 1, got a base of 2");
}
END_TEST

START_TEST(svmlight_features) {
    params.features = 5;
    write_text("x.svm", "1 1:1 3:2\n2 5:3\n");
    open_file("x.svm");
    expect_values(2, 5, (double[]){1, 0, 2, 0, 0, 0, 0, 0, 0, 3});
    write_text("x.svm", "1\n2 # nothing\n");
    open_file("x.svm");
    expect_values(2, 5, (double[10]){0});
    write_text("x.svm", "1 1:1 3:2\n2 6:3\n");
    refuse_file("x.svm", KM_ERROR_DATA,
                "x.svm: row 2: index 6 is beyond the 5 columns that are wanted, counted from 1; correct "
                "--features, or cut the row");
    write_text("x.svm", "1 1:1 3:2\n2 5:3\n1 0:1\n");
    refuse_file("x.svm", KM_ERROR_DATA,
                "x.svm: row 3 has index 0 and row 2 has index 5, so there are 6 columns, not 5; correct "
                "--features");
    params.base = 0;
    refuse_file("x.svm", KM_ERROR_DATA,
                "x.svm: row 2: index 5 is beyond the 5 columns that are wanted, counted from 0; correct "
                "--features, or cut the row");
    params.features = KM_FEATURES_MAX; // columns cost nothing
    write_text("x.svm", "1 2147483646:1 3:2\n");
    open_file("x.svm");
    ck_assert_int_eq(km_data_features(data), KM_FEATURES_MAX);
    ck_assert_int_eq(km_csr_column(km_data_csr(data), 1), 2147483646);
}
END_TEST

static const struct {
    const char *text, *message;
} bad_svmlight[] = {
    {"1 1:2\n2 -3:1\n", "x.svm: row 2: \"-3:1\" has a negative index; indices count from 0 or 1"},
    {"1 1:2 7\n", "x.svm: row 1: \"7\" is no index:value; correct it, or name the format, e.g. --format csv"},
    {"1 a:2\n", "x.svm: row 1: \"a:2\" is no index:value; correct it, or name the format, e.g. --format csv"},
    {"1 1.5:2\n",
     "x.svm: row 1: \"1.5:2\" is no index:value; correct it, or name the format, e.g. --format csv"},
    {"1 :2\n", "x.svm: row 1: \":2\" is no index:value; correct it, or name the format, e.g. --format csv"},
    {"1 1:2\n\n# c\nspam 3:1\n",
     "x.svm: row 4: the label \"spam\" is no number; write labels as numbers, or leave them out"},
    {"1, 1:2\n", "x.svm: row 1: the label \"1,\" is no number; write labels as numbers, or leave them out"},
    {"1 1:2 3:x\n", "x.svm: row 1, index 3: \"x\" is no number; correct it"},
    {"1 1:2x\n", "x.svm: row 1, index 1: \"2x\" is no number; correct it"},
    {"1 1:0x10\n", "x.svm: row 1, index 1: \"0x10\" is no number; correct it"},
    {"1 1:2:3\n", "x.svm: row 1, index 1: \"2:3\" is no number; correct it"},
    {"1 1:2 3:", "x.svm: row 1, index 3: the value is missing; correct it"}, // cut short
    {"1 1:2 3", "x.svm: row 1: \"3\" is no index:value; correct it, or name the format, e.g. --format csv"},
    {"1 1:1e999\n", "x.svm: row 1, index 1: \"1:1e999\" is too large for float64"},
    {"1 1:2\n1 4:1 2:3 4:5\n", "x.svm: row 2 has index 4 twice; keep one of them, or write their sum"},
    {"1 4:1 4:1\n", "x.svm: row 1 has index 4 twice; keep one of them, or write their sum"},
    {"1 2147483648:1\n", "x.svm: row 1: index 2147483648 is beyond 2147483647, the largest that is taken; "
                         "correct it, or number the columns "
                         "anew"},
    {"1 99999999999999999999999999:1\n", "x.svm: row 1: index 99999999999999999999999999 is beyond "
                                         "2147483647, the largest that is taken; correct it, or "
                                         "number the columns anew"},
    {"# only\n\n", "x.svm has no rows"},
    {"1\n2\n", "x.svm has no values, so its columns are unknown; name their number: --features"},
    {"", "x.svm is empty"},
    {"\xff\xfe"
     "1\n",
     "x.svm is UTF-16 text; save it as UTF-8: iconv -f UTF-16 -t UTF-8 <FILE"},
};

START_TEST(svmlight_refused) {
    write_text("x.svm", bad_svmlight[_i].text);
    refuse_file("x.svm", KM_ERROR_DATA, bad_svmlight[_i].message);
}
END_TEST

// Labels, columns, weights, NaN -------------------------------------------------------------------------------

START_TEST(labels) {
    write_text("x.svm", "3 1:1 3:2\n-1 2:3\n2:4 3:5\n0\n");
    params.columns = "label";
    open_file("x.svm");
    expect_values(4, 1, (double[]){3, -1, NAN, 0});
    params.columns = "3, label ,1";
    open_file("x.svm");
    expect_values(4, 3, (double[]){2, 3, 1, 0, -1, 0, 5, NAN, 0, 0, 0, 0});
    ck_assert_int_eq(km_data_refuse_value(data, 2, -1, &err), KM_ERROR_DATA);
    ck_assert_str_eq(err.text, "x.svm: row 3: the value is missing (NaN); drop such rows by --missing drop");
    err.text[0] = 0;
    params.columns = "label,label";
    refuse_file("x.svm", KM_ERROR_USAGE, "--columns: \"label\" names column 4 of x.svm a second time");
    params.columns = "labels";
    refuse_file("x.svm", KM_ERROR_USAGE,
                "--columns: x.svm has no header, so columns are named by number, 1..3, got \"labels\"");
    write_text("x.svm", "3 1:1 3:2\n1,2 2:3\n");
    params.columns = "1,label";
    refuse_file("x.svm", KM_ERROR_DATA, "x.svm: row 2 has several labels, \"1,2\"; a column has one a row");
    // What `kmgen score --labels` reads: rows without a label are left out.
    int64_t *read = NULL, count;
    write_text("x.svm", "3 1:1 3:2\n-1 2:3\n2:4 3:5\n");
    ck_assert_int_eq(km_labels_read(&read, &count, "x.svm", NULL, &err), KM_OK);
    ck_assert(count == 3 && read[0] == 3 && read[1] == -1 && read[2] == KM_LABEL_EMPTY);
    km_labels_free(&read);
}
END_TEST

START_TEST(columns) {
    static const char *const files[] = {"x.svm", "x.mtx"};
    write_text("x.svm", "1 1:1 3:2\n2 2:3\n3\n4 1:4 2:5 3:6\n");
    write_text(
        "x.mtx",
        "%%MatrixMarket matrix coordinate real general\n4 3 6\n1 1 1\n1 3 2\n2 2 3\n4 1 4\n4 2 5\n4 3 6\n");
    for (int i = 0; i < 2; i++) {
        params.columns = "3,1";
        open_file(files[i]);
        expect_values(4, 2, (double[]){2, 1, 0, 0, 0, 0, 6, 4});
        params.columns = "2..3";
        open_file(files[i]);
        expect_values(4, 2, (double[]){0, 2, 3, 0, 0, 0, 5, 6});
        params.columns = "1..3";
        open_file(files[i]);
        expect_values(4, 3, (double[]){1, 0, 2, 0, 3, 0, 0, 0, 0, 4, 5, 6});
    }
    params.columns = "4";
    refuse_file("x.mtx", KM_ERROR_USAGE, "--columns: x.mtx has the columns 1..3, got \"4\"");
    params.columns = "label";
    refuse_file("x.mtx", KM_ERROR_USAGE,
                "--columns: x.mtx has no header, so columns are named by number, 1..3, got \"label\"");
    params.columns = "2147483647,1"; // no array of all columns
    params.features = KM_FEATURES_MAX;
    open_file("x.svm");
    expect_values(4, 2, (double[]){0, 1, 0, 0, 0, 0, 0, 4});
}
END_TEST

START_TEST(weights_and_nan) {
    write_text("x.svm", "1 1:1 3:2\n2 2:nan\n\n3 1:-inf\n4 1:4 2:5 3:6\n");
    write_text("w.csv", "1\n2\n3\n4\n");
    open_file("x.svm");
    ck_assert_int_eq(km_data_refuse_value(data, 1, -1, &err), KM_ERROR_DATA);
    ck_assert_str_eq(err.text, "x.svm: row 2, column 2: the value is missing (NaN); drop such rows by "
                               "--missing drop");
    err.text[0] = 0;
    ck_assert_int_eq(km_data_refuse_value(data, 2, -1, &err), KM_ERROR_DATA);
    ck_assert_str_eq(err.text,
                     "x.svm: row 4, column 1: the value is infinite; correct it, or leave its row out");
    err.text[0] = 0;
    write_text("x.svm", "1 1:1 3:2\n2 2:nan\n\n3 1:nan\n4 1:4 2:5 3:6\n");
    params.missing = KM_MISSING_DROP;
    params.weights = "w.csv";
    open_file("x.svm");
    expect_values(2, 3, (double[]){1, 0, 2, 4, 5, 6});
    ck_assert_int_eq(km_data_row_of(data, 1), 3);
    ck_assert(km_data_weights(data)[0] == 1 && km_data_weights(data)[1] == 4);
    params.columns = "1,3"; // a NaN in a column that is left out drops nothing
    open_file("x.svm");
    expect_values(3, 2, (double[]){1, 2, 0, 0, 4, 6});
}
END_TEST

// Text of any size -------------------------------------------------------------------------------------------

static int64_t resident_kib(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

// Spaces, newlines and a comment pass through a window. The whole form: 10 GiB of them.
START_TEST(whitespace_takes_no_memory) {
    const char *all = getenv("KMGEN_TEST_ALL");
    char command[512];
    int mebibytes = (all && *all == '1' ? 10240 : 48) / 3;
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    snprintf(command, sizeof command,
             "{ printf '1 1:1'; head -c %dM /dev/zero | tr '\\0' ' '; echo '3:2 #'; "
             "head -c %dM /dev/zero | tr '\\0' '\\n'; printf '#'; head -c %dM /dev/zero | tr '\\0' x; "
             "echo; echo 2 2:3; } >pipe &",
             mebibytes, mebibytes, mebibytes);
    run(command);
    params.format = "svmlight";
    int64_t before = resident_kib();
    open_file("pipe");
    expect_values(2, 3, six);
    ck_assert_int_lt(resident_kib() - before, 8 << 10);
}
END_TEST

// Formats are told by what a file begins with.
START_TEST(blank_beginning) {
    run("{ head -c 3M /dev/zero | tr '\\0' '\\n'; printf '1 1:1 3:2\\n2 2:3\\n'; } >x");
    params.format = "csv";
    refuse_file("x", KM_ERROR_DATA,
                "x begins with more than a MiB of blank lines; leave them out, e.g. by "
                "sed '/[^[:space:]]/,$!d'");
    params.format = NULL; // what is behind them says it
    open_file("x");
    expect_values(2, 3, six);
    run("sed '/[^[:space:]]/,$!d' x >y");
    open_file("y");
    expect_values(2, 3, six);
}
END_TEST

// A line of spaces takes no memory, whatever its length: alone, and around rows.
START_TEST(blank_lines_of_any_length) {
    params.format = "csv";
    ck_assert_int_eq(mkfifo("pipe", 0600), 0);
    for (int rows = 0; rows < 2; rows++) {
        run(rows ? "{ head -c 48M /dev/zero | tr '\\0' ' '; echo; seq 100 | sed 's/$/,1/'; "
                   "head -c 48M /dev/zero | tr '\\0' ' '; } >pipe &"
                 : "head -c 48M /dev/zero | tr '\\0' ' ' >pipe &");
        int64_t before = resident_kib();
        if (rows) {
            double last[2];
            ck_assert_msg(km_data_open(&data, "pipe", &params, &err) == KM_OK, "%s", err.text);
            ck_assert_int_eq(km_data_points(data), 100);
            ck_assert_int_eq(km_data_read(last, data, 99, 1, KM_FLOAT64, &err), KM_OK);
            ck_assert(last[0] == 100 && last[1] == 1);
        } else {
            refuse_file("pipe", KM_ERROR_DATA, "pipe has no rows");
        }
        ck_assert_int_lt(resident_kib() - before, 24 << 10);
    }
}
END_TEST

// Rows, lines and words that are longer than the window.
START_TEST(long_text) {
    enum { N = 200000 };
    FILE *stream = fopen("x.svm", "w");
    fputs("# ", stream);
    for (int i = 0; i < 100000; i++) fputs("long ", stream);
    fputs("\n1 2:0.5\n\n", stream);
    for (int i = N; i > 0; i--) fprintf(stream, "%s%d:%d.25", i == N ? "2 " : " ", i, i); // downwards
    fputs("\n3 1:7\n", stream);
    fclose(stream);
    open_file("x.svm");
    const km_csr *csr = km_data_csr(data);
    ck_assert_int_eq(csr->rows, 3);
    ck_assert_int_eq(csr->columns, N);
    ck_assert_int_eq(csr->starts[3], N + 2);
    for (int i = 0; i < N; i++) {
        ck_assert_int_eq(km_csr_column(csr, i + 1), i);
        ck_assert(km_csr_value(csr, i + 1) == i + 1.25);
    }
    stream = fopen("x.svm", "w");
    fputs("1 1:2\n2 1:", stream);
    for (int i = 0; i < 300000; i++) fputc('7', stream);
    fclose(stream);
    refuse_file("x.svm", KM_ERROR_DATA,
                "x.svm: row 2 has a word of more than 262144 bytes; words are separated by spaces");
    stream = fopen("x.mtx", "w");
    for (int i = 0; i < 300000; i++) fputc('%', stream); // a comment may be as long, a banner not
    fclose(stream);
    refuse_file("x.mtx", KM_ERROR_DATA,
                "x.mtx is no Matrix Market file: it does not begin with %%MatrixMarket matrix");
}
END_TEST

// More rows than the arrays have room for at first, some with their lines noted.
START_TEST(many_rows) {
    enum { N = 5000 };
    FILE *stream = fopen("x.svm", "w");
    for (int i = 0; i < N; i++) fprintf(stream, "%s1 %d:%d\n", i % 7 == 6 ? "\n" : "", 1 + i % 50, i + 1);
    fprintf(stream, "1 3:nan\n");
    fclose(stream);
    params.missing = KM_MISSING_DROP;
    open_file("x.svm");
    ck_assert_int_eq(km_data_points(data), N);
    double row[50];
    for (int i = 0; i < N; i += 37) {
        ck_assert_int_eq(km_data_read(row, data, i, 1, KM_FLOAT64, &err), KM_OK);
        for (int f = 0; f < 50; f++) ck_assert(row[f] == (f == i % 50 ? i + 1 : 0));
    }
    ck_assert_int_eq(km_data_refuse_value(data, N - 1, 0, &err), KM_ERROR_DATA);
    ck_assert_str_eq(err.text,
                     "x.svm: row 5714, column 1: 0 is too far from the rest for float32; use float64");
    err.text[0] = 0;
    params.missing = KM_MISSING_REFUSE;
    open_file("x.svm");
    ck_assert_int_eq(km_data_refuse_value(data, N, -1, &err), KM_ERROR_DATA);
    ck_assert_str_eq(err.text, "x.svm: row 5715, column 3: the value is missing (NaN); drop such rows by "
                               "--missing drop");
}
END_TEST

START_TEST(packed_text) {
    write_text("x.svm", "1 1:1 3:2\n2 2:3\n");
    write_text("x.mtx", "%%MatrixMarket matrix coordinate integer general\n2 3 3\n2 2 3\n1 3 2\n1 1 1\n");
    run("gzip -k x.svm x.mtx");
    open_file("x.svm.gz");
    expect_values(2, 3, six);
    open_file("x.mtx.gz");
    expect_values(2, 3, six);
    run("head -c 25 x.svm.gz >cut.svm.gz");
    refuse_file("cut.svm.gz", KM_ERROR_DATA, "cut.svm.gz is cut short: what is packed in it does not end");
}
END_TEST

// Matrix Market ----------------------------------------------------------------------------------------------

#define MTX "%%MatrixMarket matrix coordinate "

START_TEST(mtx_spellings) {
    static const char *const texts[] = {
        MTX "real general\n2 3 3\n1 1 1\n1 3 2\n2 2 3\n",
        MTX "integer general\n% c\n\n  2 3 3 \n2 2 3\n%c\n 1\t3  2\r\n\n1 1 1",
        "%%matrixmarket MATRIX Coordinate Real GENERAL\n%\n2 3 4\n2 2 3e0\n1 3 .2e1\n2 1 0\n1 1 1.\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        write_text("x.mtx", texts[i]);
        open_file("x.mtx");
        expect_values(2, 3, six);
    }
    write_text("x.mtx", MTX "pattern general\n2 2 2\n2 1\n1 2\n");
    open_file("x.mtx");
    expect_values(2, 2, (double[]){0, 1, 1, 0});
    write_text("x.mtx", MTX "pattern symmetric\n3 3 2\n2 1\n3 3\n");
    open_file("x.mtx");
    expect_values(3, 3, (double[]){0, 1, 0, 1, 0, 0, 0, 0, 1});
    write_text("x.mtx", MTX "real general\n3 2 0\n"); // nothing but zeros
    open_file("x.mtx");
    expect_values(3, 2, (double[6]){0});
}
END_TEST

static const struct {
    const char *text, *message;
} bad_mtx[] = {
    {"1,2\n", "x.mtx is no Matrix Market file: it does not begin with %%MatrixMarket matrix"},
    {"%%MatrixMarket matrix array real general\n2 2\n1\n2\n3\n4\n",
     "x.mtx has the format \"array\"; coordinate is read; save a dense table as .npy: numpy.save(path, x)"},
    {MTX "complex general\n", "x.mtx has values of the kind \"complex\"; real, integer and pattern are read"},
    {MTX "real skew-symmetric\n",
     "x.mtx has the symmetry \"skew-symmetric\"; general and symmetric are read; write it as general: "
     "scipy.io.mmwrite(path, x, symmetry='general')"},
    {MTX "real general more\n", "x.mtx: row 1: there is more on the line than belongs there"},
    {MTX "real general\n% c\n", "x.mtx is cut short: its sizes are missing"},
    {MTX "real general\n2 3\n1 1 1\n",
     "x.mtx: row 2: three whole numbers belong here: rows, columns and values"},
    {MTX "real general\n2 -3 1\n", "x.mtx: row 2: three whole numbers belong here: rows, columns and values"},
    {MTX "real general\n2 99999999999999999999 1\n",
     "x.mtx: row 2: three whole numbers belong here: rows, columns and values"},
    {MTX "real general\n0 3 0\n", "x.mtx has no values: its shape is 0 x 3"},
    {MTX "real general\n2 3 7\n", "x.mtx claims 7 values in 2 x 3; its header is damaged"},
    {MTX "real symmetric\n2 3 1\n", "x.mtx is symmetric and 2 x 3; its header is damaged"},
    {MTX "real general\n5000000000 3 1\n1 1 1\n",
     "x.mtx is 5000000000 x 3, and at most 2147483647 rows and 2147483647 columns are taken"},
    {MTX "real general\n2147483647 2147483647 4611686014132420609\n1 1 1\n",
     "x.mtx: row 2: three whole numbers belong here: rows, columns and values"},
    {MTX "real general\n2147483647 2147483647 611686014132420609\n1 1 1\n",
     "x.mtx is cut short: 611686014132420609 values are claimed, 1 are there"},
    {MTX "real general\n2147483647 3 1\n1 1 1\n",
     "x.mtx claims 2147483647 rows in 67 bytes; its header is damaged"},
    {MTX "real general\n2 3 2\n1 1 1\n", "x.mtx is cut short: 2 values are claimed, 1 are there"},
    {MTX "real general\n2 3 1\n1 1 1\n2 2 2\n",
     "x.mtx: row 4 is behind the 1 values that are claimed; correct their number"},
    {MTX "real general\n2 3 1\n0 1 1\n", "x.mtx: row 3: row 0 is out of range, 1..2"},
    {MTX "real general\n2 3 1\n3 1 1\n", "x.mtx: row 3: row 3 is out of range, 1..2"},
    {MTX "real general\n2 3 1\n-1 1 1\n", "x.mtx: row 3: \"-1\" is no row, 1..2"},
    {MTX "real general\n2 3 1\n1 4 1\n", "x.mtx: row 3: column 4 is out of range, 1..3"},
    {MTX "real general\n2 3 1\n1 x 1\n", "x.mtx: row 3: \"x\" is no column, 1..3"},
    {MTX "real general\n2 3 1\n1\n", "x.mtx: row 3: the column is missing; the line is \"row column value\""},
    {MTX "real general\n2 3 1\n1 2\n",
     "x.mtx: row 3: the value is missing; the line is \"row column value\""},
    {MTX "real general\n2 3 1\n1 2 x\n", "x.mtx: row 3: \"x\" is no number; correct it"},
    {MTX "real general\n2 3 1\n1 2 1e999\n", "x.mtx: row 3: \"1e999\" is too large for float64"},
    {MTX "real general\n2 3 1\n1 2 3 4\n", "x.mtx: row 3: there is more on the line than belongs there"},
    {MTX "pattern general\n2 3 1\n1 2 3\n", "x.mtx: row 3: there is more on the line than belongs there"},
    {MTX "real general\n2 3 3\n1 2 3\n2 1 1\n1 2 4\n",
     "x.mtx: row 1 has two entries in column 1, counted from 0; add them up (sum_duplicates in SciPy)"},
    {MTX "real symmetric\n2 2 2\n1 2 3\n2 1 1\n",
     "x.mtx: row 1 has two entries in column 1, counted from 0; add them up (sum_duplicates in SciPy)"},
};

START_TEST(mtx_refused) {
    write_text("x.mtx", bad_mtx[_i].text);
    refuse_file("x.mtx", KM_ERROR_DATA, bad_mtx[_i].message);
}
END_TEST

// .npz -------------------------------------------------------------------------------------------------------

// A zip file of stored arrays.
typedef struct zip {
    unsigned char bytes[1 << 14], directory[1 << 12];
    int64_t size, directory_size, count;
} zip;

static zip z;

static void put(unsigned char *to, int64_t *at, uint64_t value, int bytes) {
    for (int i = 0; i < bytes; i++) to[(*at)++] = (unsigned char)(value >> (8 * i));
}

static uint32_t crc(const unsigned char *bytes, int64_t size) {
    uint32_t sum = ~0u;
    for (int64_t i = 0; i < size; i++) {
        sum ^= bytes[i];
        for (int b = 0; b < 8; b++) sum = sum >> 1 ^ (0xedb88320u & -(sum & 1));
    }
    return ~sum;
}

static void zip_add_bytes(const char *name, const unsigned char *bytes, int64_t size) {
    int64_t start = z.size, length = (int64_t)strlen(name);
    for (int central = 0; central < 2; central++) {
        unsigned char *to = central ? z.directory : z.bytes;
        int64_t *at = central ? &z.directory_size : &z.size;
        put(to, at, central ? 0x02014b50 : 0x04034b50, 4);
        if (central) put(to, at, 20, 2);
        put(to, at, 20, 2);
        put(to, at, 0, 8); // flags, stored, time and date
        put(to, at, crc(bytes, size), 4);
        put(to, at, (uint64_t)size, 4);
        put(to, at, (uint64_t)size, 4);
        put(to, at, (uint64_t)length, 2);
        put(to, at, 0, 2);
        if (central) {
            put(to, at, 0, 10); // no comment, attributes
            put(to, at, (uint64_t)start, 4);
        }
        memcpy(to + *at, name, (size_t)length);
        *at += length;
    }
    memcpy(z.bytes + z.size, bytes, (size_t)size);
    z.size += size;
    z.count++;
}

static void zip_add(const char *name, const char *dtype, const char *shape, const void *values,
                    int64_t size) {
    unsigned char file[4096] = "\x93NUMPY\1";
    int header = snprintf((char *)file + 10, 1024, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }\n",
                          dtype, shape);
    file[8] = (unsigned char)header;
    memcpy(file + 10 + header, values, (size_t)size);
    zip_add_bytes(name, file, 10 + header + size);
}

static void zip_write(const char *path) {
    int64_t start = z.size;
    memcpy(z.bytes + z.size, z.directory, (size_t)z.directory_size);
    z.size += z.directory_size;
    put(z.bytes, &z.size, 0x06054b50, 4);
    put(z.bytes, &z.size, 0, 4);
    put(z.bytes, &z.size, (uint64_t)z.count, 2);
    put(z.bytes, &z.size, (uint64_t)z.count, 2);
    put(z.bytes, &z.size, (uint64_t)z.directory_size, 4);
    put(z.bytes, &z.size, (uint64_t)start, 4);
    put(z.bytes, &z.size, 0, 2);
    write_file(path, z.bytes, z.size);
    z.size = z.directory_size = z.count = 0;
}

// A file of one matrix, 2 x 3, as rows or columns.
typedef struct matrix {
    const char *format, *message;
    int64_t shape[2];
    int32_t starts[4];
    int starts_count;
    int32_t indices[4];
    int indices_count, values_count;
} matrix;

static void write_matrix(const matrix *m) {
    static const double values[] = {1, 2, 3, 4};
    char shape[32];
    zip_add("format.npy", "|S3", "()", m->format, 3);
    zip_add("shape.npy", "<i8", "(2,)", m->shape, 16);
    snprintf(shape, sizeof shape, "(%d,)", m->starts_count);
    zip_add("indptr.npy", "<i4", shape, m->starts, 4 * m->starts_count);
    snprintf(shape, sizeof shape, "(%d,)", m->indices_count);
    zip_add("indices.npy", "<i4", shape, m->indices, 4 * m->indices_count);
    snprintf(shape, sizeof shape, "(%d,)", m->values_count);
    zip_add("data.npy", "<f8", shape, values, 8 * m->values_count);
    zip_write("x.npz");
}

START_TEST(npz_orders) {
    write_matrix(&(matrix){"csr", NULL, {2, 3}, {0, 2, 3}, 3, {0, 2, 1}, 3, 3});
    open_file("x.npz");
    expect_values(2, 3, six);
    write_matrix(&(matrix){"csc", NULL, {3, 2}, {0, 2, 3}, 3, {0, 2, 1}, 3, 3});
    open_file("x.npz");
    expect_values(3, 2, (double[]){1, 0, 0, 3, 2, 0});
    write_matrix(&(matrix){"csr", NULL, {2, 3}, {0, 2, 3}, 3, {2, 0, 1}, 3, 3}); // sorted on the way
    open_file("x.npz");
    expect_values(2, 3, (double[]){2, 0, 1, 0, 3, 0});
    write_matrix(&(matrix){"csc", NULL, {3, 2}, {0, 2, 3}, 3, {2, 0, 1}, 3, 3});
    open_file("x.npz");
    expect_values(3, 2, (double[]){2, 0, 0, 3, 1, 0});
    write_matrix(&(matrix){"csr", NULL, {2, 3}, {0, 0, 0}, 3, {0}, 0, 0}); // nothing but zeros
    open_file("x.npz");
    expect_values(2, 3, (double[6]){0});
}
END_TEST

START_TEST(npz_types) {
#define EXPECT_TYPES(index, start, value, wanted, ...)                                                       \
    do {                                                                                                     \
        struct {                                                                                             \
            unsigned char starts[24], indices[24], values[24];                                               \
            int64_t sizes[3];                                                                                \
        } a = __VA_ARGS__;                                                                                   \
        zip_add("data.npy", value, "(3,)", a.values, a.sizes[2]);                                            \
        zip_add("indices.npy", index, "(3,)", a.indices, a.sizes[1]);                                        \
        zip_add("indptr.npy", start, "(3,)", a.starts, a.sizes[0]);                                          \
        zip_add("shape.npy", ">i4", "(2,)", "\0\0\0\2\0\0\0\3", 8);                                          \
        zip_add("_is_array.npy", "|b1", "()", "\1", 1);                                                      \
        zip_add("format.npy", "<U3", "()", "c\0\0\0s\0\0\0r\0\0\0", 12);                                     \
        zip_write("x.npz");                                                                                  \
        open_file("x.npz");                                                                                  \
        expect_values(2, 3, six);                                                                            \
        ck_assert_int_eq(km_data_csr(data)->type, wanted);                                                   \
    } while (0)
    EXPECT_TYPES("|u1", "|i1", "|i1", KM_FLOAT32, {{0, 2, 3}, {0, 2, 1}, {1, 2, 3}, {3, 3, 3}});
    EXPECT_TYPES(">i2", "<u2", ">i2", KM_FLOAT32,
                 {{0, 0, 2, 0, 3, 0}, {0, 0, 0, 2, 0, 1}, {0, 1, 0, 2, 0, 3}, {6, 6, 6}});
    EXPECT_TYPES(">i4", "<i4", "<u4", KM_FLOAT64,
                 {{0, 0, 0, 0, 2, 0, 0, 0, 3},
                  {0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1},
                  {1, 0, 0, 0, 2, 0, 0, 0, 3},
                  {12, 12, 12}});
    EXPECT_TYPES("<i8", ">i8", ">f4", KM_FLOAT32,
                 {{0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3},
                  {0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1},
                  {0x3f, 0x80, 0, 0, 0x40, 0, 0, 0, 0x40, 0x40},
                  {24, 24, 12}});
}
END_TEST

#define SAVE "save it by scipy.sparse.save_npz(path, x.tocsr())"

static const matrix bad_matrices[] = {
    {"coo",
     "x.npz holds a sparse matrix of the format \"coo\"; csr and csc are read: " SAVE,
     {2, 3},
     {0},
     1,
     {0},
     0,
     0},
    {"csr",
     "x.npz: row 2 has an entry in column 3, counted from 0, and the matrix has 3 columns",
     {2, 3},
     {0, 2, 3},
     3,
     {0, 2, 3},
     3,
     3},
    {"csr",
     "x.npz: row 1 has an entry in column -1, counted from 0, and the matrix has 3 columns",
     {2, 3},
     {0, 2, 3},
     3,
     {0, -1, 1},
     3,
     3},
    {"csr",
     "x.npz: row 1 has two entries in column 2, counted from 0; add them up (sum_duplicates in SciPy)",
     {2, 3},
     {0, 2, 3},
     3,
     {2, 2, 1},
     3,
     3},
    {"csr",
     "x.npz: the first row must start at entry 0, it starts at 1",
     {2, 3},
     {1, 2, 3},
     3,
     {0, 2, 1},
     3,
     3},
    {"csr",
     "x.npz: row starts must rise, but row 2 starts at entry 2 and ends at 1",
     {2, 3},
     {0, 2, 1},
     3,
     {0, 2, 1},
     3,
     3},
    {"csr",
     "x.npz: row 2 ends at entry 4, and there are 3 entries: is the file cut short?",
     {2, 3},
     {0, 2, 4},
     3,
     {0, 2, 1},
     3,
     3},
    {"csr",
     "x.npz: row starts must rise, but row 2 starts at entry 2 and ends at -1",
     {2, 3},
     {0, 2, -1},
     3,
     {0, 2, 1},
     3,
     3},
    {"csr",
     "x.npz is damaged: it has not as many indices as values; " SAVE,
     {2, 3},
     {0, 2, 3},
     3,
     {0, 2, 1},
     3,
     2},
    {"csr", "x.npz is damaged: indptr does not fit the shape; " SAVE, {3, 3}, {0, 2, 3}, 3, {0, 2, 1}, 3, 3},
    {"csr", "x.npz has no values: its shape is 0 x 3", {0, 3}, {0}, 1, {0}, 0, 0},
    {"csr", "x.npz has no values: its shape is -2 x 3", {-2, 3}, {0}, 1, {0}, 0, 0},
    {"csr",
     "x.npz is 2 x 2147483648, and at most 2147483647 columns are taken; are rows and columns exchanged?",
     {2, 2147483648},
     {0, 2, 3},
     3,
     {0, 2, 1},
     3,
     3},
    {"csc",
     "x.npz, transposed: row 2 has an entry in column 3, counted from 0, and the matrix has 3 columns",
     {3, 2},
     {0, 2, 3},
     3,
     {0, 2, 3},
     3,
     3},
    {"csc",
     "x.npz, transposed: row 1 has two entries in column 2, counted from 0; add them up (sum_duplicates in "
     "SciPy)",
     {3, 2},
     {0, 2, 3},
     3,
     {2, 2, 1},
     3,
     3},
};

START_TEST(npz_refused) {
    write_matrix(&bad_matrices[_i]);
    refuse_file("x.npz", KM_ERROR_DATA, bad_matrices[_i].message);
}
END_TEST

START_TEST(npz_of_other_kinds) {
    static const struct {
        const char *name, *message;
    } kinds[] = {
        {"coo.npz", "x.npz holds a sparse matrix of the format \"coo\"; csr and csc are read: " SAVE},
        {"bsr.npz", "x.npz holds a sparse matrix of the format \"bsr\"; csr and csc are read: " SAVE},
        {"dense.npz", "x.npz holds several arrays; name one of them, x.npz:NAME: points, labels"},
        {"object.npz", "x.npz holds an object array (arr_0), which is no table of numbers; " SAVE},
        {"from0.svm", "x.npz is no .npz file: its first bytes are not those of a zip file"},
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        char command[1024];
        snprintf(command, sizeof command, "cp %s x.npz", known_file(kinds[i].name));
        run(command);
        refuse_file("x.npz", KM_ERROR_DATA, kinds[i].message);
    }
}
END_TEST

START_TEST(npz_arrays_refused) {
    zip_add("format.npy", "|S3", "()", "csr", 3);
    zip_add("indices.npy", "<f8", "(1,)", "\0\0\0\0\0\0\0\0", 8);
    zip_write("x.npz");
    refuse_file("x.npz", KM_ERROR_DATA,
                "x.npz: indices.npy has values of dtype \"<f8\", and integers are expected; " SAVE);
    zip_add("data.npy", "|O", "(1,)", "pickled!", 8);
    zip_write("x.npz");
    refuse_file("x.npz", KM_ERROR_DATA,
                "x.npz: data.npy holds Python objects; save numbers with astype('float32'), words as text by "
                "numpy.savetxt(path, x, fmt='%s'), a sparse matrix by "
                "scipy.sparse.save_npz(path, x.tocsr())");
    zip_add("data.npy", "<f8", "(1, 1)", "\0\0\0\0\0\0\0\0", 8);
    zip_write("x.npz");
    refuse_file("x.npz", KM_ERROR_DATA, "x.npz: data.npy has 2 dimensions, and 1 is expected; " SAVE);
    // A size that is claimed takes no memory.
    zip_add("data.npy", "<f8", "(1152921504606846976,)", "\0\0\0\0\0\0\0\0", 8);
    zip_write("x.npz");
    refuse_file("x.npz", KM_ERROR_DATA,
                "x.npz: data.npy is cut short: 1152921504606846975 of its values are missing");
    zip_add("indices.npy", "<i8", "(2,)", "\1\0\0\0\0\0\0\0\0\0\0\0\1\0\0\0", 16);
    zip_write("x.npz");
    refuse_file("x.npz", KM_ERROR_DATA,
                "x.npz: indices.npy: value 2 is 4294967296, and indices are 0..2147483647; " SAVE);
    zip_add("shape.npy", "<i8", "(1,)", "\1\0\0\0\0\0\0\0", 8);
    zip_write("x.npz");
    refuse_file("x.npz", KM_ERROR_DATA, "x.npz is damaged: its shape is no pair; " SAVE);
    zip_add("format.npy", "|S3", "()", "csr", 3);
    zip_write("x.npz");
    refuse_file("x.npz", KM_ERROR_DATA, "x.npz is damaged: indptr, indices, data or shape is missing; " SAVE);
    zip_add_bytes("format.npy", (const unsigned char *)"no array", 8);
    zip_write("x.npz");
    refuse_file("x.npz", KM_ERROR_DATA, "x.npz: format.npy is no .npy file: its first bytes differ");
}
END_TEST

// Cut anywhere: refused. Changed anywhere: refused, or the same values where it was in a date or a name that nobody
// reads.
START_TEST(npz_damaged_anywhere) {
    unsigned char bytes[2048];
    FILE *stream = fopen(known_file("csr.npz"), "rb");
    int64_t size = (int64_t)fread(bytes, 1, sizeof bytes, stream), refused = 0;
    fclose(stream);
    for (int64_t at = 0; at < 2 * size; at++) {
        if (at < size) {
            write_file("x.npz", bytes, at);
        } else {
            bytes[at - size] ^= 0x10;
            write_file("x.npz", bytes, size);
            bytes[at - size] ^= 0x10;
        }
        km_data_destroy(&data);
        if (km_data_open(&data, "x.npz", NULL, &err) == KM_OK) {
            ck_assert_int_ge(at, size);
            expect_values(6, 6, known);
            continue;
        }
        ck_assert_ptr_nonnull(strstr(err.text, "x.npz"));
        err.text[0] = 0;
        refused++;
    }
    ck_assert_int_gt(refused, size);
}
END_TEST

START_TEST(npz_without_libarchive) {
    refuse_file(known_file("csr.npz"), KM_ERROR_DATA,
                KM_TEST_DATA
                "/sparse/csr.npz is .npz, and this kmgen was built without libarchive; save one array by "
                "numpy.save(path, array), a sparse matrix by scipy.io.mmwrite(path, x), or build kmgen with "
                "meson's option -Dlibarchive=enabled");
}
END_TEST

int main(void) {
    Suite *suite = suite_create("sparse_read");
    TCase *tests = tcase_create("sparse_read");
    tcase_set_timeout(tests, 300);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, files_of_other_programs);
    tcase_add_test(tests, told_by_content);
    tcase_add_test(tests, svmlight_spellings);
    tcase_add_test(tests, svmlight_base);
    tcase_add_test(tests, svmlight_features);
    tcase_add_loop_test(tests, svmlight_refused, 0, (int)(sizeof bad_svmlight / sizeof *bad_svmlight));
    tcase_add_test(tests, labels);
    tcase_add_test(tests, columns);
    tcase_add_test(tests, weights_and_nan);
    tcase_add_test(tests, whitespace_takes_no_memory);
    tcase_add_test(tests, blank_beginning);
    tcase_add_test(tests, blank_lines_of_any_length);
    tcase_add_test(tests, long_text);
    tcase_add_test(tests, many_rows);
    if (km_built_with(KM_PART_ZLIB)) tcase_add_test(tests, packed_text);
    tcase_add_test(tests, mtx_spellings);
    tcase_add_loop_test(tests, mtx_refused, 0, (int)(sizeof bad_mtx / sizeof *bad_mtx));
    if (km_built_with(KM_PART_LIBARCHIVE)) {
        tcase_add_test(tests, npz_orders);
        tcase_add_test(tests, npz_types);
        tcase_add_loop_test(tests, npz_refused, 0, (int)(sizeof bad_matrices / sizeof *bad_matrices));
        tcase_add_test(tests, npz_of_other_kinds);
        tcase_add_test(tests, npz_arrays_refused);
        tcase_add_test(tests, npz_damaged_anywhere);
    } else {
        tcase_add_test(tests, npz_without_libarchive);
    }
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
