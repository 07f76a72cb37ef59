// SPDX-License-Identifier: MIT
// Rows that threads write side by side into a file in memory are those that one thread writes to a disk; where there is
// no room for them the file says so, and nothing is left. Exit 77 where /dev/shm is no file system in memory.
#include "../runtime/write/sink.h"

#include "quiet_check.h"
#include <linux/magic.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { ROWS = 700001, SETS = 3 };

static char in_memory[32], on_disk[32];
static int32_t *labels[SETS];
static double *distances;

static void make_folders(void) {
    strcpy(in_memory, "/dev/shm/kmgen-sink-XXXXXX");
    strcpy(on_disk, "/tmp/kmgen-sink-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(in_memory));
    ck_assert_ptr_nonnull(mkdtemp(on_disk));
    for (int s = 0; s < SETS; s++) {
        labels[s] = malloc(ROWS * sizeof **labels);
        for (int64_t i = 0; i < ROWS; i++) labels[s][i] = (int32_t)((i * 2654435761u) >> s) - 7;
    }
    distances = malloc(ROWS * sizeof *distances);
    for (int64_t i = 0; i < ROWS; i++) distances[i] = (double)i / 3;
}

// A folder with nothing left in it goes.
static void remove_folders(void) {
    ck_assert_int_eq(rmdir(in_memory), 0);
    ck_assert_int_eq(rmdir(on_disk), 0);
    for (int s = 0; s < SETS; s++) free(labels[s]);
    free(distances);
}

// The file that `calls` calls of km_sink_rows make. The caller frees it.
static char *written(int64_t *size, const char *folder, const km_sink_column *from, int64_t columns_count,
                     int64_t calls) {
    km_error err = {{0}};
    km_sink sink;
    km_sink_column columns[SETS];
    char path[64], *bytes;
    snprintf(path, sizeof path, "%s/rows.npy", folder);
    memcpy(columns, from, (size_t)columns_count * sizeof *columns);
    km_status status = km_sink_open(&sink, path, KM_SINK_NPY, 0, columns, columns_count, ROWS, 0, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    for (int64_t call = 0, first = 0; call < calls; call++) {
        int64_t end = ROWS * (call + 1) / calls;
        for (int64_t c = 0; c < columns_count; c++)
            columns[c].values =
                (const char *)from[c].values + first * (from[c].cell == KM_CELL_LABEL ? 4 : 8);
        ck_assert_int_eq(km_sink_rows(&sink, end - first), KM_OK);
        first = end;
    }
    ck_assert_msg(km_sink_close(&sink) == KM_OK, "%s", err.text);
    ck_assert_msg(km_file_read(&bytes, size, path, 0, &err) == KM_OK, "%s", err.text);
    unlink(path);
    return bytes;
}

static void check_same(const km_sink_column *columns, int64_t columns_count, int64_t cell_bytes) {
    int64_t expected_size, size;
    char *expected = written(&expected_size, on_disk, columns, columns_count, 1);
    ck_assert_int_eq(expected_size, 128 + ROWS * columns_count * cell_bytes);
    for (int64_t calls = 1; calls <= 3; calls += 2) {
        char *bytes = written(&size, in_memory, columns, columns_count, calls);
        ck_assert_int_eq(size, expected_size);
        ck_assert(memcmp(bytes, expected, (size_t)size) == 0);
        free(bytes);
    }
    free(expected);
}

START_TEST(rows_in_memory_are_those_on_disk) {
    km_sink_column columns[SETS];
    for (int s = 0; s < SETS; s++) columns[s] = (km_sink_column){NULL, KM_CELL_LABEL, labels[s], 1, s};
    check_same(columns, SETS, 4);
    check_same(columns, 1, 4);
    km_sink_column real = {NULL, KM_CELL_REAL, distances, 1, 0};
    check_same(&real, 1, 8);
}
END_TEST

START_TEST(side_by_side_only_in_memory) {
    km_error err = {{0}};
    char path[64];
    km_file_writer writer;
    snprintf(path, sizeof path, "%s/bytes", in_memory);
    ck_assert_int_eq(km_file_begin(&writer, path, &err), KM_OK);
    km_file_add(&writer, "before ", 7);
    char *bytes = km_file_reserve(&writer, 10000);
    ck_assert_ptr_nonnull(bytes);
    if (!km_file_take_pages(bytes, 10000)) { // an old kernel
        km_file_filled(&writer, bytes, 10000, 0);
        km_file_abandon(&writer);
        return;
    }
    memset(bytes, 'x', 10000);
    km_file_filled(&writer, bytes, 10000, 1);
    km_file_add(&writer, " after", 6);
    ck_assert_int_eq(km_file_commit(&writer, &err), KM_OK);
    int64_t size;
    ck_assert_int_eq(km_file_read(&bytes, &size, path, 0, &err), KM_OK);
    ck_assert_int_eq(size, 10013);
    ck_assert(memcmp(bytes, "before x", 8) == 0 && memcmp(bytes + 10006, "x after", 7) == 0);
    free(bytes);
    unlink(path);
    struct statfs info;
    ck_assert_int_eq(statfs(on_disk, &info), 0);
    snprintf(path, sizeof path, "%s/bytes", on_disk);
    ck_assert_int_eq(km_file_begin(&writer, path, &err), KM_OK);
    bytes = km_file_reserve(&writer, 10000);
    ck_assert_int_eq(bytes != NULL, info.f_type == TMPFS_MAGIC);
    if (bytes) km_file_filled(&writer, bytes, 10000, 0);
    km_file_abandon(&writer);
}
END_TEST

START_TEST(no_room_is_said_and_nothing_is_left) {
    km_error err = {{0}};
    km_sink sink;
    char path[64];
    snprintf(path, sizeof path, "%s/rows.npy", in_memory);
    km_sink_column column = {NULL, KM_CELL_REAL, distances, 1, 0};
    struct rlimit before, small = {1 << 20, 1 << 20};
    signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    ck_assert_int_eq(km_sink_open(&sink, path, KM_SINK_NPY, 0, &column, 1, ROWS, 0, &err), KM_OK);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    ck_assert_int_eq(km_sink_rows(&sink, ROWS), KM_OK);
    ck_assert_int_eq(km_sink_close(&sink), KM_ERROR_IO);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &before), 0);
    ck_assert_ptr_nonnull(strstr(err.text, "rows.npy"));
    ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

int main(void) {
    struct statfs info;
    if (statfs("/dev/shm", &info) != 0 || info.f_type != TMPFS_MAGIC) return 77;
    Suite *suite = suite_create("sink");
    TCase *tests = tcase_create("sink");
    tcase_add_checked_fixture(tests, make_folders, remove_folders);
    tcase_add_test(tests, rows_in_memory_are_those_on_disk);
    tcase_add_test(tests, side_by_side_only_in_memory);
    tcase_add_test(tests, no_room_is_said_and_nothing_is_left);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
