// SPDX-License-Identifier: MIT
// Machine code that comes with the library: a set of one architecture and two numbers of features is made, and a fit's
// compiler, on a device that runs nothing (fake/cuda.c), then compiles none of what is in it.
//
//     test_prebuilt WRITER FOLDER NVRTC
//
// WRITER makes the set in FOLDER, where it is kept. Exits 77 (skipped) where NVRTC, a folder, is not there.
#include "../runtime/cuda/cuda.h"
#include "../runtime/cuda/prebuilt.h"
#include "../runtime/file.h"
#include "../runtime/unfinished.h"
#include "quiet_check.h"
#include "scratch.h"
#include <dirent.h>
#include <fcntl.h>
#include <kmgen/fit.h>
#include <kmgen/module.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char folder[] = "/tmp/kmgen-test-XXXXXX"; // the suite's own, removed at the end
static char set_path[4200];                      // of the set
static const char *set_folder, *nvrtc;

enum { FEATURES = 3 };

static int64_t count_files(const char *dir, const char *end) {
    DIR *listed = opendir(dir);
    int64_t count = 0;
    for (struct dirent *item; listed && (item = readdir(listed));) {
        const char *dot = strrchr(item->d_name, '.');
        count += dot && !strcmp(dot, end);
    }
    if (listed) closedir(listed);
    return count;
}

// A plan of the type and number of features that the set has, and its text.
static void emit(km_source *source, const char *design, const char *clusters) {
    km_error err = {{0}};
    km_spec spec;
    km_plan plan;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_source_init(source);
    spec.features = FEATURES;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda:sm_90", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, clusters, &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", design, &err), KM_OK);
    ck_assert_msg(km_plan_make(&plan, &spec, NULL, &err) == KM_OK, "%s", err.text);
    ck_assert_int_eq(km_source_emit(source, &plan, NULL, &err), KM_OK);
    km_plan_clear(&plan);
    km_spec_clear(&spec);
}

// Whether the set has the machine code of a text.
static int is_there(const char *text, int64_t text_size, int arch, int driver_major) {
    km_cuda_device device = {.driver_major = driver_major};
    char *binary = NULL, *log = NULL;
    int64_t size = 0;
    device.base.facts.target = (km_target){KM_TARGET_CUDA, arch};
    int found = km_cuda_prebuilt(&binary, &size, &log, &device.base, text, text_size);
    if (found)
        ck_assert(size > 1000 && !memcmp(binary, "\177ELF", 4) && strstr(log, "Function properties for"));
    free(binary);
    free(log);
    return found;
}

// Whatever the design and the list of K: all but the pass.
START_TEST(all_but_the_pass_is_there) {
    static const char *const designs[] = {"tensor", "registers", "tiled", "tensor"};
    static const char *const lists[] = {"2..9", "3,4", "300", "7"};
    km_error err = {{0}};
    km_source source;
    km_source_part parts[KM_SOURCE_PARTS_MAX];
    char *starter;
    int64_t count = 0, size;
    km_cuda_prebuilt_folder = set_folder;
    emit(&source, designs[_i], lists[_i]);
    ck_assert_int_eq(km_source_parts(parts, &count, source.text, &err), KM_OK);
    ck_assert_int_ge(count, 7);
    for (int64_t i = 0; i < count; i++) {
        int found = is_there(parts[i].text, parts[i].size, 90, 13);
        ck_assert_msg(found == !km_source_is_pass(&parts[i]), "%s, K = %s: %s", designs[_i], lists[_i],
                      parts[i].name);
    }
    ck_assert_int_eq(km_source_starter(&starter, &size, &source.plan, NULL, &err), KM_OK);
    ck_assert_int_eq(starter != NULL, !strcmp(designs[_i], "tensor"));
    if (starter) ck_assert(is_there(starter, size, 90, 13));
    free(starter);
    km_source_parts_clear(parts, count);
    km_source_clear(&source);
}
END_TEST

// What a fit's compiler is given: the pass.
START_TEST(a_fit_compiles_its_pass_alone) {
    km_error err = {{0}};
    km_spec spec;
    km_warmed done;
    km_warm_params params;
    km_source source;
    km_source_part parts[KM_SOURCE_PARTS_MAX];
    char cache[256];
    int64_t count = 0, passes = 0;
    emit(&source, "registers", "2,3");
    ck_assert_int_eq(km_source_parts(parts, &count, source.text, &err), KM_OK);
    for (int64_t i = 0; i < count; i++) passes += km_source_is_pass(&parts[i]);
    km_source_parts_clear(parts, count);
    km_source_clear(&source);
    snprintf(cache, sizeof cache, "%s/cache", folder);
    km_spec_init(&spec);
    spec.features = FEATURES;
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2,3", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "registers", &err), KM_OK);
    km_warm_params_init(&params);
    params.module.cache_dir = cache;
    params.module.compiler = nvrtc;
    km_cuda_prebuilt_folder = set_folder;
    km_status status = km_cache_warm(&done, &spec, 1, &params, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    km_spec_clear(&spec);
    ck_assert_int_eq(count_files(cache, ".cu"), passes);
}
END_TEST

// A fit that ends before its kernels are compiled: it may take no memory of the device.
static void fit_in_vain(const char *dir, const char *clusters) {
    static const float points[FEATURES * 8] = {1, 2, 3, 4};
    km_error err = {{0}};
    km_data *data;
    km_spec spec;
    km_result *result;
    km_fit_params params;
    km_spec_init(&spec);
    km_fit_params_init(&params);
    ck_assert_int_eq(km_data_from_memory(&data, points, 8, FEATURES, KM_FLOAT32, 0, 0, NULL, &err), KM_OK);
    ck_assert_int_eq(km_spec_set_target(&spec, "cuda", &err), KM_OK);
    ck_assert_int_eq(km_spec_set_clusters(&spec, clusters, &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "design", "registers", &err), KM_OK);
    params.cache_dir = dir;
    params.compiler = nvrtc;
    params.device_memory_max = 1;
    ck_assert_int_eq(km_fit(&result, &spec, data, &params, &err), KM_ERROR_MEMORY);
    km_spec_clear(&spec);
    km_data_destroy(&data);
}

// A compile that is under way when a fit ends goes on behind it, when all that was the fit's is gone. The driver takes
// half a second to start (FAKE_CUDA_LOG), and the compiler does not wait for it: the cache knows the device.
START_TEST(a_compile_goes_on_behind_its_fit) {
    static const char *const lists[] = {"3,4", "4,5", "5,6", "6,7"};
    char dir[256], note[256];
    int64_t before = 0, behind = 0;
    snprintf(dir, sizeof dir, "%s/behind", folder);
    snprintf(note, sizeof note, "%s/came.log", folder);
    km_cuda_prebuilt_folder = set_folder;
    setenv("FAKE_CUDA_LOG", note, 1);
    for (size_t i = 0; i < sizeof lists / sizeof *lists && !behind; i++)
        for (int twice = 0; twice < 2; twice++) {
            char *path = strdup(dir); // gone when the fit is
            int child = fork();       // where no driver has been started
            if (child == 0) {
                fit_in_vain(path, twice ? lists[i] : "2,3");
                free(path);
                int64_t now = count_files(dir, ".bin");
                exit(now > before); // which waits for what goes on
            }
            int how = 0;
            free(path);
            ck_assert_int_eq(waitpid(child, &how, 0), child);
            ck_assert(WIFEXITED(how) && WEXITSTATUS(how) < 2);
            int64_t after = count_files(dir, ".bin");
            if (twice) behind = WEXITSTATUS(how) == 0 && after > before;
            before = after;
        }
    ck_assert(behind);
    ck_assert_int_ge(before, 5); // the device, and twice the parts of a pass
    ck_assert_int_eq(count_files(dir, ".lock") + count_files(dir, ".tmp"), 0);
    remove_folder(dir);
}
END_TEST

// Leaves the text of such a fit in a cache, as a fit does that is done before its compiler.
static void leave_text(const char *dir, const char *clusters) {
    km_error err = {{0}};
    km_cache cache;
    km_source source;
    char memo[KM_MEMO_BYTES];
    km_driver driver = {.version = 13000};
    km_cuda_device device = {.driver = &driver};
    km_device_facts_init(&device.base.facts, (km_target){KM_TARGET_CUDA, 90});
    const km_unfinished left = {0, nvrtc, memo, km_backend_cuda.compiler_memo(memo, &device.base)};
    emit(&source, "registers", clusters);
    ck_assert_int_eq(km_cache_open(&cache, dir, &err), KM_OK);
    ck_assert_msg(km_unfinished_note(&cache, &source, &left, &err) == KM_OK, "%s", err.text);
    km_source_clear(&source);
}

static int64_t finish(const char *dir) {
    km_error err = {{0}};
    km_module_params params;
    int64_t compiled;
    km_module_params_init(&params);
    params.cache_dir = dir;
    ck_assert_msg(km_cache_finish(&compiled, &params, &err) == KM_OK, "%s", err.text);
    return compiled;
}

// Texts that were left are compiled once each, by whichever process begins; what is no such text is dropped.
START_TEST(texts_that_were_left_are_compiled_once) {
    enum { PROCESSES = 3 };
    char dir[256], path[400];
    km_error err = {{0}};
    int64_t compiled = 0;
    pid_t children[PROCESSES];
    snprintf(dir, sizeof dir, "%s/left", folder);
    km_cuda_prebuilt_folder = set_folder;
    ck_assert_int_eq(km_cache_unfinished(dir), 0);
    leave_text(dir, "2,3");
    leave_text(dir, "2,3");
    leave_text(dir, "4");
    ck_assert_int_eq(km_cache_unfinished(dir), 2);
    snprintf(path, sizeof path, "%s/0123456789abcdef0123456789abcdef.todo", dir);
    ck_assert_int_eq(km_file_replace(path, "nothing", 7, &err), KM_OK);
    for (int i = 0; i < PROCESSES; i++)
        if ((children[i] = fork()) == 0) exit((int)finish(dir));
    for (int i = 0; i < PROCESSES; i++) {
        int how;
        ck_assert_int_eq(waitpid(children[i], &how, 0), children[i]);
        ck_assert(WIFEXITED(how));
        compiled += WEXITSTATUS(how);
    }
    ck_assert_int_eq(compiled, 2);
    ck_assert_int_eq(km_cache_unfinished(dir), 0);
    ck_assert_int_ge(count_files(dir, ".bin"), 2);
    ck_assert_int_eq(count_files(dir, ".bin"), count_files(dir, ".cu"));
    ck_assert_int_eq(count_files(dir, ".lock") + count_files(dir, ".tmp"), 0);
    int64_t before = count_files(dir, ".bin");
    leave_text(dir, "4"); // was compiled by another meanwhile
    ck_assert_int_eq(finish(dir), 1);
    ck_assert_int_eq(count_files(dir, ".bin"), before);
    ck_assert_int_eq(finish(dir), 0);
    leave_text(dir, "5");
    km_cache_clear(NULL, dir, &err);
    ck_assert_int_eq(km_cache_unfinished(dir), 0);
    remove_folder(dir);
}
END_TEST

// Whether loading is there, with so much behind its text.
static int find(int arch, int driver_major, const char *behind) {
    km_error err = {{0}};
    km_source source;
    km_source_part parts[KM_SOURCE_PARTS_MAX];
    int64_t count = 0;
    int found = -1;
    emit(&source, "tensor", "5,9");
    ck_assert_int_eq(km_source_parts(parts, &count, source.text, &err), KM_OK);
    for (int64_t i = 0; i < count; i++) {
        char text[1 << 17];
        if (strcmp(parts[i].name, "load") != 0) continue;
        int size = snprintf(text, sizeof text, "%s%s", parts[i].text, behind);
        found = is_there(text, size, arch, driver_major);
    }
    km_source_parts_clear(parts, count);
    km_source_clear(&source);
    return found;
}

// Copies the set into the suite's folder, with one byte of each `step` changed from `from` on.
static void damage(int64_t from, int64_t step, int64_t length) {
    km_error err = {{0}};
    char *bytes, path[256];
    int64_t size;
    ck_assert_int_eq(km_file_read(&bytes, &size, set_path, 0, &err), KM_OK);
    for (int64_t i = from; i < size; i += step) bytes[i] ^= 1;
    snprintf(path, sizeof path, "%s/" KM_PREBUILT_FILE, folder, 90);
    ck_assert_int_eq(km_file_write(path, bytes, length < size ? length : size, &err), KM_OK);
    free(bytes);
}

START_TEST(nothing_else_is_found) {
    km_cuda_prebuilt_folder = set_folder;
    ck_assert(find(90, 13, "") && find(90, 14, ""));
    ck_assert(!find(90, 13, "\n"));
    ck_assert(!find(80, 13, "")); // no set
    ck_assert(!find(90, 1, ""));  // a driver that may not take it
    km_cuda_prebuilt_folder = folder;
    damage(0, INT64_MAX / 2, INT64_MAX);
    ck_assert_int_eq(find(90, 13, ""), 0);
    const int64_t data = 4000, all = INT64_MAX;
    damage(data, 500, all);
    ck_assert_int_eq(find(90, 13, ""), 0);
    damage(all, 1, all);
    ck_assert_int_eq(find(90, 13, ""), 1); // a copy
    damage(all, 1, data);
    ck_assert_int_eq(find(90, 13, ""), 0);
    damage(all, 1, 10);
    ck_assert_int_eq(find(90, 13, ""), 0);
}
END_TEST

static int make_set(const char *writer) {
    char command[9000];
    snprintf(command, sizeof command, "'%s' '%s' 90 3,24 '%s'", writer, set_path, nvrtc);
    return system(command);
}

int main(int argc, char **argv) {
    if (argc != 4) {
        fputs("usage: test_prebuilt WRITER FOLDER NVRTC\n", stderr);
        return 2;
    }
    set_folder = argv[2];
    nvrtc = argv[3];
    snprintf(set_path, sizeof set_path, "%s/" KM_PREBUILT_FILE, set_folder, 90);
    if (access(nvrtc, R_OK) != 0) {
        puts("prebuilt: skipped, no NVRTC");
        return 77;
    }
    mkdir(set_folder, 0755); // of its own: programs look for a set beside themselves
    if (!mkdtemp(folder) || make_set(argv[1]) != 0) return 99;
    Suite *suite = suite_create("prebuilt");
    TCase *tests = tcase_create("prebuilt");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, all_but_the_pass_is_there, 0, 4);
    tcase_add_test(tests, a_fit_compiles_its_pass_alone);
    tcase_add_test(tests, a_compile_goes_on_behind_its_fit);
    tcase_add_test(tests, texts_that_were_left_are_compiled_once);
    tcase_add_test(tests, nothing_else_is_found);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    remove_folder(folder);
    return failed != 0;
}
