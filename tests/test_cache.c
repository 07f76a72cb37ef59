// SPDX-License-Identifier: MIT
// The module cache: whole entries are found, damaged ones are not, old ones leave, strangers' files stay.
#include "../runtime/asking.h"
#include "../runtime/cache.h"
#include "../runtime/file.h"

#include "quiet_check.h"
#include <kmgen/module.h>
#include <fcntl.h>
#include <kmgen/fit.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static char dir[] = "/tmp/kmgen-cache-test-XXXXXX";

static void make_dir(void) {
    strcpy(dir, "/tmp/kmgen-cache-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
}

static void remove_dir(void) {
    km_cache_stats removed;
    char stranger[256];
    km_cache_clear(&removed, dir, NULL);
    snprintf(stranger, sizeof stranger, "%s/notes.txt", dir);
    unlink(stranger);
    ck_assert_int_eq(rmdir(dir), 0);
}

static km_cache cache; // its folder is dir

static km_cache_entry entry_of(const char *key) {
    km_cache_entry entry;
    km_error err = {{0}};
    ck_assert_msg(km_cache_open(&cache, dir, &err) == KM_OK, "%s", err.text);
    km_cache_entry_of(&entry, &cache, ".c", key, (int64_t)strlen(key));
    return entry;
}

static int look_up(const km_cache_entry *entry) {
    char *bytes;
    int64_t size;
    int found = km_cache_look_up(entry, &bytes, &size);
    ck_assert((bytes != NULL) == (found > 0));
    free(bytes);
    return found;
}

static km_cache_entry publish(const char *key, int64_t size, int age_s) {
    km_cache_entry entry = entry_of(key);
    km_error err = {{0}};
    char *bytes = calloc(1, (size_t)size);
    ck_assert_int_eq(km_cache_publish(&entry, bytes, size, &err), KM_OK);
    struct timespec times[2] = {{time(NULL) - age_s, 0}, {time(NULL) - age_s, 0}};
    utimensat(AT_FDCWD, entry.binary_path, times, 0);
    free(bytes);
    return entry;
}

START_TEST(found_only_when_whole) {
    km_cache_entry entry = publish("one", 1000, 0), missing = entry_of("two");
    ck_assert_int_eq(look_up(&entry), 1);
    ck_assert_int_eq(look_up(&missing), 0);
    int file = open(entry.binary_path, O_WRONLY);
    ck_assert_int_eq(pwrite(file, "x", 1, 500), 1);
    close(file);
    ck_assert_int_eq(look_up(&entry), -1);
    ck_assert_int_eq(truncate(entry.binary_path, 10), 0);
    ck_assert_int_eq(look_up(&entry), -1);
    ck_assert_int_eq(truncate(entry.binary_path, 0), 0);
    ck_assert_int_eq(look_up(&entry), -1);
}
END_TEST

START_TEST(least_recently_used_leave_first) {
    km_cache_entry old = publish("old", 4000, 300), used = publish("used", 4000, 200),
                   fresh = publish("new", 4000, 0);
    ck_assert_int_eq(look_up(&used), 1); // marks it as used now
    km_cache_tidy(&cache, 9000, &fresh);
    ck_assert_int_eq(look_up(&old), 0);
    ck_assert_int_eq(look_up(&used), 1);
    km_cache_tidy(&cache, 1, &fresh);
    ck_assert_int_eq(look_up(&used), 0);
    ck_assert_int_eq(look_up(&fresh), 1); // the entry in use is kept even above the limit
}
END_TEST

START_TEST(clearing_leaves_other_files) {
    char stranger[256];
    km_cache_stats stats;
    publish("one", 100, 0);
    publish("two", 100, 0);
    snprintf(stranger, sizeof stranger, "%s/notes.txt", dir);
    ck_assert_int_eq(km_file_write(stranger, "mine", 4, NULL), KM_OK);
    ck_assert_int_eq(km_cache_look(&stats, dir, NULL), KM_OK);
    ck_assert_int_eq(stats.entries_count, 2);
    ck_assert_int_eq(km_cache_clear(&stats, dir, NULL), KM_OK);
    ck_assert_int_eq(stats.entries_count, 2);
    ck_assert_int_eq(km_cache_look(&stats, dir, NULL), KM_OK);
    ck_assert_int_eq(stats.entries_count, 0);
    ck_assert_int_eq(access(stranger, F_OK), 0);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_an_empty_cache) {
    km_cache_stats stats;
    ck_assert_int_eq(km_cache_look(&stats, "/nonexistent/kmgen", NULL), KM_OK);
    ck_assert_int_eq(stats.entries_count, 0);
}
END_TEST

START_TEST(files_are_never_half_written) {
    char path[256];
    km_error err = {{0}};
    km_file_writer writer;
    snprintf(path, sizeof path, "%s/notes.txt", dir);
    ck_assert_int_eq(km_file_write(path, "before", 6, &err), KM_OK);
    ck_assert_int_eq(km_file_begin(&writer, path, &err), KM_OK);
    km_file_add(&writer, "half", 4);
    km_file_abandon(&writer);
    char *text;
    int64_t size;
    ck_assert_int_eq(km_file_read(&text, &size, path, 0, &err), KM_OK);
    ck_assert_str_eq(text, "before");
    free(text);
    ck_assert_int_eq(km_file_begin(&writer, "/nonexistent/x", &err), KM_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/x"));
}
END_TEST

// What lies there is run, so nobody else may have written it.
START_TEST(a_folder_of_others_is_refused) {
    static const struct {
        mode_t mode;
        km_status status;
    } cases[] = {{0700, KM_OK},          {0755, KM_OK},           {0777, KM_ERROR_USAGE},
                 {0702, KM_ERROR_USAGE}, {01777, KM_ERROR_USAGE}, {0700, KM_OK}};
    char inner[256];
    km_cache opened;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        km_error err = {{0}};
        ck_assert_int_eq(chmod(dir, cases[i].mode), 0);
        ck_assert_int_eq(km_cache_open(&opened, dir, &err), cases[i].status);
        ck_assert((strstr(err.text, "chmod go-w") != NULL) == (cases[i].status != KM_OK));
    }
    snprintf(inner, sizeof inner, "%s/inner", dir);
    ck_assert_int_eq(km_cache_open(&opened, inner, NULL), KM_OK);
    ck_assert_int_eq(chmod(dir, 0777), 0);
    ck_assert_int_eq(km_cache_open(&opened, inner, NULL), KM_ERROR_USAGE);
    ck_assert_int_eq(chmod(dir, 01777), 0); // sticky: others cannot put theirs in its place
    ck_assert_int_eq(km_cache_open(&opened, inner, NULL), KM_OK);
    ck_assert_int_eq(chmod(dir, 0700), 0);
    ck_assert_int_eq(rmdir(inner), 0);
}
END_TEST

START_TEST(links_are_no_entries) {
    km_cache_entry entry = publish("one", 1000, 0), other = entry_of("two");
    ck_assert_int_eq(symlink(entry.binary_path, other.binary_path), 0);
    ck_assert_int_eq(look_up(&other), -1);
    ck_assert_int_eq(km_cache_publish(&other, "bytes", 5, NULL), KM_OK); // replaces the link
    ck_assert_int_eq(look_up(&other), 1);
    ck_assert_int_eq(look_up(&entry), 1);
    ck_assert_int_eq(chmod(entry.binary_path, 0666), 0);
    ck_assert_int_eq(look_up(&entry), -1);
}
END_TEST

static atomic_int has_lock;

static void *take_lock(void *user) {
    km_cache_entry entry = entry_of(user);
    km_cache_lock(&entry, NULL);
    atomic_store(&has_lock, 1);
    km_cache_unlock(&entry);
    return NULL;
}

START_TEST(one_builds_at_a_time) {
    pthread_t other;
    km_cache_entry entry = entry_of("one");
    char lock[4300];
    snprintf(lock, sizeof lock, "%s/%s.lock", dir, entry.key);
    int file = open(lock, O_CREAT | O_WRONLY, 0600); // of a process that was killed
    close(file);
    km_cache_lock(&entry, NULL);
    ck_assert_int_ge(entry.lock, 0);
    ck_assert_int_eq(pthread_create(&other, NULL, take_lock, "one"), 0);
    usleep(100000);
    ck_assert_int_eq(atomic_load(&has_lock), 0);
    km_cache_unlock(&entry);
    pthread_join(other, NULL);
    ck_assert_int_eq(atomic_load(&has_lock), 1);
    ck_assert_int_eq(access(lock, F_OK), -1);
}
END_TEST

static int third_time(void *user) {
    return ++*(int *)user == 3;
}

// Who waits for another one's build hears a stop.
START_TEST(waiting_can_be_stopped) {
    int calls = 0;
    km_asking asking = {.stop = third_time, .user = &calls, .caller = pthread_self()};
    km_cache_entry entry = entry_of("one"), again = entry;
    km_cache_lock(&entry, NULL);
    ck_assert_int_ge(entry.lock, 0);
    km_cache_lock(&again, &asking);
    ck_assert_int_eq(calls, 3);
    ck_assert_int_lt(again.lock, 0);
    ck_assert_int_eq(km_asking_status(&asking, NULL), KM_ERROR_INTERRUPTED);
    km_cache_unlock(&again);
    km_cache_unlock(&entry);
    ck_assert_int_eq(calls, 3);
}
END_TEST

// A killed build's files go with the next one; a living build's do not.
START_TEST(stale_files_are_swept) {
    km_cache_entry keep = publish("keep", 100, 0), dead = entry_of("dead"), alive = entry_of("alive");
    ck_assert_int_eq(km_file_write(dead.compile_path, "x", 1, NULL), KM_OK);
    ck_assert_int_eq(km_file_write(alive.compile_path, "x", 1, NULL), KM_OK);
    km_cache_lock(&alive, NULL);
    km_cache_tidy(&cache, 1 << 20, &keep);
    ck_assert_int_eq(access(dead.compile_path, F_OK), -1);
    ck_assert_int_eq(access(alive.compile_path, F_OK), 0);
    km_cache_unlock(&alive);
    km_cache_tidy(&cache, 1 << 20, &keep);
    ck_assert_int_eq(access(alive.compile_path, F_OK), -1);
    ck_assert_int_eq(look_up(&keep), 1);
}
END_TEST

START_TEST(links_are_followed_and_modes_kept) {
    char path[256], link[256];
    struct stat info;
    snprintf(path, sizeof path, "%s/notes.txt", dir);
    snprintf(link, sizeof link, "%s/link", dir);
    ck_assert_int_eq(km_file_write(path, "before", 6, NULL), KM_OK);
    ck_assert_int_eq(chmod(path, 0640), 0);
    ck_assert_int_eq(symlink("notes.txt", link), 0);
    ck_assert_int_eq(km_output_check(link, NULL), KM_OK);
    ck_assert_int_eq(km_file_write(link, "after!!", 7, NULL), KM_OK);
    ck_assert_int_eq(lstat(link, &info), 0);
    ck_assert(S_ISLNK(info.st_mode));
    ck_assert_int_eq(lstat(path, &info), 0);
    ck_assert_int_eq(info.st_size, 7);
    ck_assert_int_eq(info.st_mode & 0777, 0640);
    unlink(link);
}
END_TEST

// Emits for a list of K, with a line on top and one at the end, and says whether the cache had it.
static int built_before(const char *clusters, const char *top, const char *end) {
    km_error err = {{0}};
    km_spec spec;
    km_plan plan;
    km_source source;
    km_module *module;
    km_module_params params;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_source_init(&source);
    km_module_params_init(&params);
    params.cache_dir = dir;
    spec.features = 3;
    ck_assert_int_eq(km_spec_set_target(&spec, "cpu:generic", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, clusters, &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "lanes", &err), KM_OK);
    ck_assert_int_eq(km_plan_make(&plan, &spec, NULL, &err), KM_OK);
    ck_assert_int_eq(km_source_emit(&source, &plan, NULL, &err), KM_OK);
    char *emitted = source.text;
    source.text_size = asprintf(&source.text, "%s%s%s", top, emitted, end);
    km_status status = km_module_build(&module, &source, &params, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    int before = km_module_was_cached(module);
    km_module_destroy(&module);
    free(emitted);
    km_source_clear(&source);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    return before;
}

// What a text says of itself on top is no part of what it is, but for what it needs.
START_TEST(the_same_code_is_one_entry) {
    ck_assert(!built_before("2,3", "", ""));
    ck_assert(built_before("2,3", "", ""));
    ck_assert(built_before("2..9", "", ""));
    ck_assert(built_before("2,3", "// somebody's note\n\n", ""));
    ck_assert(!built_before("2,3", "// needs: line-info\n", ""));
    ck_assert(!built_before("2,3", "", "// a line behind\n"));
}
END_TEST

int main(void) {
    Suite *suite = suite_create("cache");
    TCase *tests = tcase_create("cache");
    tcase_add_checked_fixture(tests, make_dir, remove_dir);
    tcase_add_test(tests, found_only_when_whole);
    tcase_add_test(tests, least_recently_used_leave_first);
    tcase_add_test(tests, clearing_leaves_other_files);
    tcase_add_test(tests, a_folder_that_is_not_there_is_an_empty_cache);
    tcase_add_test(tests, files_are_never_half_written);
    tcase_add_test(tests, a_folder_of_others_is_refused);
    tcase_add_test(tests, links_are_no_entries);
    tcase_add_test(tests, one_builds_at_a_time);
    tcase_add_test(tests, waiting_can_be_stopped);
    tcase_add_test(tests, stale_files_are_swept);
    tcase_add_test(tests, links_are_followed_and_modes_kept);
    tcase_add_test(tests, the_same_code_is_one_entry);
    tcase_set_timeout(tests, 60);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_ENV);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
