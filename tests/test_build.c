// SPDX-License-Identifier: MIT
// Which plan is built where a compiler refuses texts or spills registers. The device is a stub with the facts of a real
// one; its compiler does what the test says and leaves logs as NVRTC writes them. Needs no GPU and no compiler.
#include "../gen/tuning.h"
#include "../runtime/asking.h"
#include "../runtime/build.h"
#include "../runtime/cuda/cuda.h"
#include "../runtime/file.h"

#include "quiet_check.h"
#include "scratch.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/kmgen-build-XXXXXX";

// The stub --------------------------------------------------------------------------------------------------

static struct {
    unsigned refused;                      // designs, a bit each
    int64_t spare_needed[KM_DESIGN_COUNT]; // a pass with fewer registers to spare spills
    int compiled, loaded, has_no_compiler, refuses_tuned, spills_tuned;
    // The compiler waits until it is stopped; so many do. The first one then refuses its text as well.
    atomic_int waits, waiting, refuses_first;
} stub;

static void stub_name(char *text, int64_t size, km_device *device) {
    (void)device;
    snprintf(text, (size_t)size, "stubc 1.0");
}

static void stub_id(char *text, int64_t size, km_device *device, const km_plan *plan) {
    (void)device, (void)plan;
    snprintf(text, (size_t)size, "stubc 1.0 -O3");
}

// The name of the first kernel in the table of launches.
static void first_kernel(char name[64], const char *source) {
    const char *table = strstr(source, "\n__device__ km_pass_launch km_pass_launches[");
    const char *quote = table ? strchr(table, '"') : NULL;
    snprintf(name, 64, "%.*s", quote ? (int)strcspn(quote + 1, "\"") : 0, quote ? quote + 1 : "");
}

static km_status stub_compile(km_device *device, const km_source *source, const char *source_path,
                              const char *binary_path, const char *log_path, struct km_asking *asking,
                              km_error *err) {
    char log[1024], kernel[64];
    const km_plan *plan = &source->plan;
    (void)device;
    if (stub.waits) {
        int is_first = atomic_fetch_add(&stub.waiting, 1) == 0 && stub.refuses_first;
        while (!km_asking_stops(asking)) usleep(1000);
        if (is_first)
            return km_fail(err, KM_ERROR_COMPILE, "stubc 1.0 refused %s line 7: not liked", source_path);
        return km_asking_status(asking, err);
    }
    if (stub.has_no_compiler) return km_fail(err, KM_ERROR_DEVICE, "no compiler: install one");
    // Of the parts, which are compiled side by side, the pass is what counts.
    first_kernel(kernel, source->text);
    if (!kernel[0] && strstr(source->text, KM_APART)) {
        KM_TRY(km_file_write(log_path, "", 0, err));
        return km_file_write(binary_path, "steps", 6, err);
    }
    stub.compiled++;
    if (stub.refused >> plan->design & 1 || (stub.refuses_tuned && plan->tuned.table[0]) ||
        strstr(source->text, "no C at all"))
        return km_fail(err, KM_ERROR_COMPILE, "stubc 1.0 refused %s line 7: not liked", source_path);
    int spills = plan->estimates[plan->design].registers_spare < stub.spare_needed[plan->design];
    int bytes = spills || (stub.spills_tuned && plan->tuned.table[0]) ? 8 : 0;
    snprintf(log, sizeof log,
             "ptxas info    : Function properties for km_seed_pass\n"
             "    16 bytes stack frame, 16 bytes spill stores, 16 bytes spill loads\n"
             "ptxas info    : Used 64 registers, used 1 barriers\n"
             "ptxas info    : Function properties for %s\n"
             "    0 bytes stack frame, %d bytes spill stores, %d bytes spill loads\n"
             "ptxas info    : Used 168 registers, used 1 barriers\n",
             kernel, bytes, bytes);
    KM_TRY(km_file_write(log_path, log, (int64_t)strlen(log), err));
    return km_file_write(binary_path, kernel, (int64_t)strlen(kernel) + 1, err);
}

static km_status stub_load(km_kernels **out, km_device *device, const km_plan *plan,
                           const km_binary *binaries, int64_t count, km_error *err) {
    (void)binaries, (void)count;
    *out = calloc(1, sizeof **out);
    if (!*out) return km_fail_memory(err, "the stub's kernels", sizeof **out);
    **out = (km_kernels){.device = device, .plan = plan};
    stub.loaded++;
    return KM_OK;
}

static void stub_unload(km_kernels **kernels) {
    free(*kernels);
    *kernels = NULL;
}

static const km_backend stub_backend = {.name = "stub",
                                        .compiler_name = stub_name,
                                        .compiler_id = stub_id,
                                        .compile = stub_compile,
                                        .spills = km_cuda_spills,
                                        .kernels_load = stub_load,
                                        .kernels_unload = stub_unload};

// One job ---------------------------------------------------------------------------------------------------

static km_device device;
static km_spec spec;
static km_build_params params;
static km_build build;
static km_error err;
static km_log log_of_test;
static char lines[8192];

static void take_line(void *user, km_log_level level, const char *text) {
    (void)user;
    size_t at = strlen(lines);
    snprintf(lines + at, sizeof lines - at, "%d %s\n", (int)level, text);
}

static void on_target(km_target target) {
    device = (km_device){.backend = &stub_backend};
    km_device_facts_init(&device.facts, target);
}

static void setup(void) {
    memset(&stub, 0, sizeof stub);
    on_target((km_target){KM_TARGET_CUDA, 90});
    km_spec_init(&spec);
    km_build_init(&build);
    err.text[0] = lines[0] = 0;
    spec.features = 8;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..20", &err), KM_OK);
    params = (km_build_params){.spec = &spec};
    km_plan_params_init(&params.plan);
    params.plan.points = 1 << 25;
    params.plan.untuned = 1;
    km_module_params_init(&params.module);
    ck_assert_ptr_nonnull(mkdtemp(strcpy(folder, "/tmp/kmgen-build-XXXXXX")));
    params.module.cache_dir = folder;
    log_of_test.line = take_line;
    params.module.log = &log_of_test;
}

static void teardown(void) {
    km_build_clear(&build);
    km_spec_clear(&spec);
    remove_folder(folder);
}

static void must_build(int compiled) {
    stub.compiled = stub.loaded = 0;
    lines[0] = 0;
    ck_assert_msg(km_build_on(&build, &device, &params, &err) == KM_OK, "%s", err.text);
    ck_assert_int_eq(stub.compiled, compiled);
    ck_assert_int_eq(stub.loaded, 1);
    ck_assert_ptr_nonnull(build.module->kernels);
}

static void must_fail(km_status status, const char *part) {
    err.text[0] = 0;
    ck_assert_int_eq(km_build_on(&build, &device, &params, &err), status);
    ck_assert_msg(strstr(err.text, part) != NULL, "%s", err.text);
    ck_assert_ptr_null(build.module);
}

// The plan where nothing is left out.
static km_plan first_plan(void) {
    km_plan plan;
    km_plan_params plan_params = params.plan;
    plan_params.facts = &device.facts;
    km_plan_init(&plan);
    ck_assert_msg(km_plan_make(&plan, &spec, &plan_params, &err) == KM_OK, "%s", err.text);
    return plan;
}

static double time_of(const km_plan *plan) {
    return plan->estimates[plan->design].total_ns;
}

static int64_t spare_of(const km_plan *plan) {
    return plan->estimates[plan->design].registers_spare;
}

static int64_t clusters_of(const km_plan *plan) {
    return plan->spec.clusters_count;
}

static void expect_explained(const char *part) {
    char *text = NULL;
    ck_assert_int_eq(km_plan_explain(&text, &build.plan, &err), KM_OK);
    ck_assert_msg(strstr(text, part) != NULL, "no \"%s\" in\n%s", part, text);
    km_text_free(text);
    ck_assert_msg(strstr(build.source.text, part) != NULL, "no \"%s\" in\n%.3000s", part, build.source.text);
}

// Spills ----------------------------------------------------------------------------------------------------

START_TEST(first_plan_is_built_where_nothing_is_wrong) {
    km_plan first = first_plan();
    must_build(1);
    ck_assert_int_eq(build.plan.design, first.design);
    ck_assert_double_eq(time_of(&build.plan), time_of(&first));
    ck_assert_int_eq(build.plan.avoided_count, 0);
    ck_assert_ptr_null(strstr(build.source.text, "\n// not taken"));
    ck_assert_str_eq(build.warning, "");
    must_build(0);
    km_plan_clear(&first);
}
END_TEST

// A spill leads to the fastest plan with more registers to spare, and the second build comes to it without compiling.
START_TEST(spilled_plan_is_left) {
    km_plan first = first_plan();
    stub.spare_needed[first.design] = spare_of(&first) + 1;
    must_build(2);
    ck_assert_int_eq(build.plan.avoided_count, 1);
    ck_assert(build.plan.design != first.design || spare_of(&build.plan) > spare_of(&first));
    ck_assert_double_gt(time_of(&build.plan), time_of(&first));
    ck_assert_int_eq(build.module->spilled_bytes, 0);
    ck_assert_str_eq(build.warning, "");
    ck_assert_ptr_nonnull(
        strstr(lines, "plan: tensor not taken with launches 3, block 384, tile_clusters 96: "));
    expect_explained("not taken");
    expect_explained("spills 16 bytes, stubc 1.0");
    expect_explained("the least time of those left");
    km_plan second = build.plan;
    km_plan_init(&build.plan);
    must_build(0);
    ck_assert_int_eq(build.module->was_cached, 1);
    ck_assert_int_eq(build.plan.design, second.design);
    ck_assert_double_eq(time_of(&build.plan), time_of(&second));
    km_plan_clear(&first);
    km_plan_clear(&second);
}
END_TEST

// A design all of whose ways spill gives way to another one.
START_TEST(other_designs_come_next) {
    km_plan first = first_plan();
    stub.spare_needed[first.design] = INT64_MAX;
    stub.compiled = 0;
    ck_assert_int_eq(km_build_on(&build, &device, &params, &err), KM_OK);
    ck_assert_int_ne(build.plan.design, first.design);
    ck_assert_int_eq(build.plan.avoided_count, stub.compiled - 1);
    ck_assert_int_le(build.plan.avoided_count, 4);
    for (int64_t i = 1; i < build.plan.avoided_count; i++)
        ck_assert_int_gt(build.plan.avoided[i].registers_spare, build.plan.avoided[i - 1].registers_spare);
    km_plan_clear(&first);
}
END_TEST

// Where every plan spills, the first one is run, and the log says so.
START_TEST(least_time_where_all_spill) {
    km_plan first = first_plan();
    for (int i = 0; i < KM_DESIGN_COUNT; i++) stub.spare_needed[i] = INT64_MAX;
    ck_assert_int_eq(km_build_on(&build, &device, &params, &err), KM_OK);
    ck_assert_int_le(stub.compiled, 3 * 4 + 1);
    for (int cached = 0; cached < 2; cached++) {
        ck_assert_int_eq(build.plan.design, first.design);
        ck_assert_double_eq(time_of(&build.plan), time_of(&first));
        ck_assert_int_eq(build.module->spilled_bytes, 16);
        ck_assert_str_eq(build.warning, "");
        ck_assert_msg(strstr(lines, "\n0 plan: km_tensor_") && strstr(lines, "as all other plans do"), "%s",
                      lines);
        must_build(0);
    }
    km_plan_clear(&first);
}
END_TEST

// What the user fixed stays: other numbers change, and where none can, the spilled pass is run with a warning.
START_TEST(fixed_numbers_stay) {
    ck_assert_int_eq(km_spec_fix(&spec, "design", "tensor", &err), KM_OK);
    km_plan first = first_plan();
    stub.spare_needed[KM_DESIGN_TENSOR] = spare_of(&first) + 1;
    must_build(2);
    ck_assert_int_eq(build.plan.design, KM_DESIGN_TENSOR);
    ck_assert_str_eq(build.warning, "");
    stub.spare_needed[KM_DESIGN_TENSOR] = INT64_MAX;
    remove_folder(folder);
    for (int64_t i = 0; i < first.numbers_count; i++) {
        ck_assert_int_eq(km_spec_fix(&spec, first.numbers[i].name, first.numbers[i].text, &err), KM_OK);
    }
    must_build(1);
    ck_assert_int_eq(build.plan.design, KM_DESIGN_TENSOR);
    ck_assert_int_eq(km_plan_get(&build.plan, "block"), km_plan_get(&first, "block"));
    ck_assert_int_eq(build.module->spilled_bytes, 16);
    ck_assert_ptr_nonnull(strstr(build.warning, "spills 16 bytes of registers (stubc 1.0)"));
    ck_assert_ptr_nonnull(strstr(build.warning, "the plan that was fixed"));
    km_plan_clear(&first);
}
END_TEST

// A measured plan that spills or is refused here gives way to the cost model's, and leaves out nothing else.
START_TEST(measured_plan_is_left) {
    km_plan first = first_plan();
    char table[512], hash[17];
    km_templates_hash(hash, KM_DESIGN_TENSOR, (km_target){KM_TARGET_CUDA, 90});
    snprintf(
        table, sizeof table,
        "kmgen tuning: 1\ndevice: NVIDIA H200\ntarget: cuda:sm_90\nentries:\n  - features: 8\n"
        "    clusters: 2..20\n    type: float32\n    points: 1000\n    plan: {design: tensor, block: %d}\n"
        "    ms: 1.0\n    templates: %s\n",
        first.design == KM_DESIGN_TENSOR && km_plan_get(&first, "block") == 256 ? 128 : 256, hash);
    params.plan.untuned = 0;
    params.plan.tuning = table;
    params.plan.tuning_name = "t.yaml";
    km_plan tuned = first_plan();
    ck_assert_str_eq(tuned.tuned.table, "t.yaml");
    must_build(1);
    ck_assert_str_eq(build.plan.tuned.table, "t.yaml");
    remove_folder(folder);
    stub.refuses_tuned = _i;
    stub.spills_tuned = !_i;
    must_build(2);
    ck_assert_str_eq(build.plan.tuned.table, "");
    ck_assert_int_eq(build.plan.avoided_count, 0);
    ck_assert_int_eq(build.plan.design, first.design);
    ck_assert_int_eq(km_plan_get(&build.plan, "block"), km_plan_get(&first, "block"));
    ck_assert_str_eq(build.warning, "");
    ck_assert_ptr_nonnull(strstr(lines, "plan: what t.yaml has for 8 features, K = 2..20 is not taken: "));
    must_build(_i); // a spill is remembered
    km_plan_clear(&first);
    km_plan_clear(&tuned);
}
END_TEST

// What --dry-run says: the plan that a build came to, or the first one where nothing is known yet.
START_TEST(plan_without_building) {
    km_plan first = first_plan(), plan;
    km_plan_init(&plan);
    stub.spare_needed[first.design] = spare_of(&first) + 1;
    for (int built = 0; built < 2; built++) {
        stub.compiled = stub.loaded = 0;
        ck_assert_int_eq(km_build_plan(&plan, &device, &params, &err), KM_OK);
        ck_assert_int_eq(stub.compiled + stub.loaded, 0);
        ck_assert_int_eq(plan.avoided_count, built);
        ck_assert_double_eq(time_of(&plan), time_of(built ? &build.plan : &first));
        ck_assert_int_eq(clusters_of(&plan), 19);
        if (!built) must_build(2);
    }
    remove_folder(folder);
    ck_assert_int_eq(km_build_plan(&plan, &device, &params, &err), KM_OK);
    ck_assert_int_ne(access(folder, F_OK), 0);
    km_plan_clear(&plan);
    km_plan_clear(&first);
}
END_TEST

static int remove_log(const char *path, const struct stat *info, int kind, struct FTW *place) {
    (void)info, (void)kind, (void)place;
    const char *suffix = strrchr(path, '.');
    return suffix && !strcmp(suffix, ".log") ? remove(path) : 0;
}

// An entry whose log is gone may spill: it is built again, unless nothing can build it.
START_TEST(lost_log) {
    km_plan first = first_plan();
    stub.spare_needed[first.design] = spare_of(&first) + 1;
    must_build(2);
    nftw(folder, remove_log, 16, FTW_PHYS);
    must_build(2);
    must_build(0);
    nftw(folder, remove_log, 16, FTW_PHYS);
    stub.has_no_compiler = 1;
    device.facts.has_compiler = 0;
    must_build(0);
    km_plan_clear(&first);
}
END_TEST

// Refused texts ---------------------------------------------------------------------------------------------

START_TEST(refused_design_is_left) {
    km_plan first = first_plan();
    stub.refused = 1u << first.design;
    must_build(2);
    ck_assert_int_ne(build.plan.design, first.design);
    ck_assert_ptr_nonnull(strstr(build.warning, "is used: stubc 1.0 refused "));
    ck_assert_ptr_nonnull(strstr(build.warning, km_design_name(build.plan.design)));
    expect_explained("its text was refused by stubc 1.0");
    km_plan_clear(&first);
}
END_TEST

START_TEST(all_refused) {
    stub.refused = ~0u;
    must_fail(KM_ERROR_COMPILE, "line 7: not liked");
    ck_assert_ptr_nonnull(strstr(err.text, "tensor"));
    ck_assert_ptr_nonnull(strstr(err.text, "registers"));
    ck_assert_ptr_nonnull(strstr(err.text, "tiled"));
    ck_assert_int_eq(km_spec_fix(&spec, "design", "tiled", &err), KM_OK);
    stub.compiled = 0;
    must_fail(KM_ERROR_COMPILE, "line 7: not liked");
    ck_assert_int_eq(stub.compiled, 1);
}
END_TEST

START_TEST(missing_compiler_is_no_refusal) {
    stub.has_no_compiler = 1;
    must_fail(KM_ERROR_DEVICE, "no compiler: install one");
}
END_TEST

// A CPU is left with prebuilt, whatever the spec fixed.
START_TEST(prebuilt_is_left) {
    on_target((km_target){KM_TARGET_CPU, KM_ISA_AVX2});
    spec.features = 9; // of which the library has no kernels: for these K it comes last
    ck_assert_int_eq(km_spec_set_clusters(&spec, "20..40", &err), KM_OK);
    stub.refused = ~0u;
    must_build(2);
    ck_assert_int_eq(build.plan.design, KM_DESIGN_PREBUILT);
    ck_assert_ptr_nonnull(strstr(build.warning, "the design prebuilt is used: stubc 1.0 refused "));
    ck_assert_int_eq(km_spec_fix(&spec, "design", "lanes", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "vectors", "4", &err), KM_OK);
    ck_assert_int_eq(km_spec_fix(&spec, "algorithm", "elkan", &err), KM_OK);
    ck_assert_int_eq(km_build_on(&build, &device, &params, &err), KM_OK);
    ck_assert_int_eq(build.plan.design, KM_DESIGN_PREBUILT);
    ck_assert_int_eq(build.plan.algorithm, KM_ALGORITHM_ELKAN);
    ck_assert_int_eq(spec.fixed_count, 3); // the caller's
}
END_TEST

// A given text --------------------------------------------------------------------------------------------------

// It meets the numbers that it was emitted with, not those of this fit, and no other text takes its place.
START_TEST(given_text) {
    km_source source;
    km_source_init(&source);
    params.plan.points = 0;
    km_plan emitted = first_plan();
    ck_assert_int_eq(km_source_emit(&source, &emitted, NULL, &err), KM_OK);
    params.source_text = source.text;
    params.plan.points = 100000;
    km_plan own = first_plan();
    ck_assert_int_ne(km_plan_get(&own, "concurrent_restarts"), km_plan_get(&emitted, "concurrent_restarts"));
    must_build(1);
    ck_assert_int_eq(build.plan.design, emitted.design);
    ck_assert_int_eq(build.plan.numbers_count, emitted.numbers_count);
    for (int64_t i = 0; i < emitted.numbers_count; i++)
        ck_assert_int_eq(build.plan.numbers[i].value, emitted.numbers[i].value);
    ck_assert_str_eq(build.source.text, source.text);
    ck_assert_str_eq(build.warning, "");
    ck_assert_int_eq(spec.fixed_count, 0); // the caller's

    stub.spare_needed[emitted.design] = INT64_MAX;
    remove_folder(folder);
    must_build(1);
    ck_assert_ptr_nonnull(strstr(build.warning, "the given source text"));
    params.source_text = "no C at all";
    stub.compiled = 0;
    must_fail(KM_ERROR_COMPILE, "stubc 1.0 refused");
    ck_assert_int_eq(stub.compiled, 1);
    km_plan_clear(&own);
    km_plan_clear(&emitted);
    km_source_clear(&source);
}
END_TEST

START_TEST(given_text_for_others) {
    km_source source;
    km_source_init(&source);
    km_plan emitted = first_plan();
    ck_assert_int_eq(km_source_emit(&source, &emitted, NULL, &err), KM_OK);
    params.source_text = source.text;
    params.plan.weighted = 1;
    must_fail(KM_ERROR_PLAN, "emitted for points without weights, these are with them");
    params.plan.weighted = 0;
    params.plan.track_labels = 1;
    must_fail(KM_ERROR_PLAN, "emitted for passes that keep no labels");
    params.plan.track_labels = 0;
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2,5,9", &err), KM_OK);
    must_fail(KM_ERROR_PLAN, "clusters: 2..20, and this fit has 8 features, float32, clusters: [2, 5, 9]");
    ck_assert_int_eq(km_spec_set_clusters(&spec, "2..20", &err), KM_OK);
    spec.type = KM_FLOAT64;
    must_fail(KM_ERROR_PLAN, "this fit has 8 features, float64");
    spec.type = KM_FLOAT32;
    on_target((km_target){KM_TARGET_CUDA, 80});
    must_fail(KM_ERROR_PLAN, "cuda:sm_90 does not run on this device, cuda:sm_80");
    on_target((km_target){KM_TARGET_CPU, KM_ISA_AVX2});
    must_fail(KM_ERROR_PLAN, "emitted for cuda:sm_90, and this fit runs on cpu:avx2");
    ck_assert_int_eq(stub.compiled, 0);
    km_plan_clear(&emitted);
    km_source_clear(&source);
}
END_TEST

// A text for the CPU rules prebuilt out, which would serve without a text, and with it.
START_TEST(given_text_and_prebuilt) {
    km_source source;
    km_source_init(&source);
    on_target((km_target){KM_TARGET_CPU, KM_ISA_AVX2});
    params.plan.points = 1000;
    km_plan prebuilt = first_plan();
    ck_assert_int_eq(prebuilt.design, KM_DESIGN_PREBUILT);
    params.source_text = "int x;";
    must_build(1);
    ck_assert_int_ne(build.plan.design, KM_DESIGN_PREBUILT);
    ck_assert_int_eq(km_source_emit(&source, &prebuilt, NULL, &err), KM_OK);
    params.source_text = source.text; // there is nothing in it
    must_fail(KM_ERROR_PLAN, "the design prebuilt cannot be had: it is compiled into the library");
    params.source_text = "int x;";
    device.facts.has_compiler = 0;
    must_fail(KM_ERROR_PLAN, "no C compiler was found");
    km_plan_clear(&prebuilt);
    km_source_clear(&source);
}
END_TEST

// Stopping --------------------------------------------------------------------------------------------------

static pthread_t caller;
static int asked, asked_by_others, asked_after;

static int once_all_wait(void *user) {
    asked++;
    asked_by_others += !pthread_equal(caller, pthread_self());
    int stops = atomic_load(&stub.waiting) >= *(int *)user;
    static int has_stopped;
    asked_after += has_stopped;
    has_stopped |= stops;
    return stops;
}

// Parts are compiled side by side: the caller's thread alone asks, and all of them hear it. No other plan is tried.
START_TEST(all_parts_are_stopped) {
    int parts = _i ? 3 : 2;
    caller = pthread_self();
    asked = asked_by_others = asked_after = 0;
    stub.waits = 1;
    params.module.stop = once_all_wait;
    params.module.stop_user = &parts;
    stub.refuses_first = _i;
    must_fail(KM_ERROR_INTERRUPTED, "interrupted");
    ck_assert_int_ge(stub.waiting, parts);
    ck_assert_int_eq(asked_by_others, 0);
    ck_assert_int_eq(asked_after, 0);
    ck_assert_int_ge(asked, 1);
    ck_assert_int_eq(stub.loaded, 0);
    stub.waits = 0;
    params.module.stop = NULL;
    must_build(1);
    ck_assert_str_eq(build.warning, "");
}
END_TEST

// Logs ------------------------------------------------------------------------------------------------------

START_TEST(logs_are_read) {
    static const char log[] = "ptxas info    : 0 bytes gmem, 24 bytes cmem[4]\n"
                              "ptxas info    : Compiling entry function 'km_pass_0' for 'sm_90'\n"
                              "ptxas info    : Function properties for km_pass_0\n"
                              "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
                              "ptxas info    : Used 40 registers, used 1 barriers, 380 bytes cmem[0]\n"
                              "ptxas info    : Function properties for km_pass_1\n"
                              "    8 bytes stack frame, 12 bytes spill stores, 20 bytes spill loads\n"
                              "ptxas info    : Used 168 registers\n"
                              "ptxas info    : Function properties for km_seed_pass\n"
                              "    8 bytes stack frame, 900 bytes spill stores, 900 bytes spill loads\n"
                              "ptxas info    : Used 64 registers\n";
    char text[] = "km_pass_launches[] = {{\"km_pass_0\", 0}, {\"km_pass_1\", 0}};", kernel[64];
    km_source source = {.text = text};
    int64_t registers = -1;
    ck_assert_int_eq(km_cuda_spills(kernel, sizeof kernel, &registers, &source, log), 32);
    ck_assert_int_eq(registers, 168); // of the pass's kernels
    ck_assert_str_eq(kernel, "km_pass_1");
    ck_assert_int_eq(km_cuda_spills(kernel, sizeof kernel, &registers, &source, ""), 0);
    ck_assert_int_eq(registers, 0);
    ck_assert_str_eq(kernel, "");
    const char *at = log;
    km_kernel_report report;
    ck_assert(km_nvrtc_next_kernel(&report, &at) && report.registers == 40 && report.spilled_bytes == 0);
    ck_assert(km_nvrtc_next_kernel(&report, &at) && report.registers == 168 && report.spilled_bytes == 32);
    ck_assert(km_nvrtc_next_kernel(&report, &at) && !strcmp(report.name, "km_seed_pass"));
    ck_assert(!km_nvrtc_next_kernel(&report, &at));
}
END_TEST

// Parts ----------------------------------------------------------------------------------------------------

// A section belongs to the parts that its name begins; a name that others continue is no part.
START_TEST(parts_of_parts) {
    static const char text[] = "// ==== All ====\nint all;\n"
                               "// ==== A ====\n// Compiled apart: pass\nint pass;\n"
                               "// ==== B ====\n// Compiled apart: pass/launches\nint shared;\n"
                               "// ==== C ====\n// Compiled apart: pass/launches/0\nint zero;\n"
                               "// ==== D ====\n// Compiled apart: pass/launches/1\nint one;\n"
                               "// ==== E ====\n// Compiled apart: pass/rest\nint rest;\n"
                               "// ==== F ====\n// Compiled apart: passing\nint passing;\n";
    static const struct {
        const char *name, *has[4], *lacks[3];
        int is_pass;
    } want[] = {{"pass/launches/0", {"all", "pass", "shared", "zero"}, {"one", "rest", "passing"}, 1},
                {"pass/launches/1", {"all", "pass", "shared", "one"}, {"zero", "rest", "passing"}, 1},
                {"pass/rest", {"all", "pass", "rest"}, {"shared", "zero", "passing"}, 1},
                {"passing", {"all", "passing"}, {"pass", "shared", "rest"}, 0}};
    km_source_part parts[KM_SOURCE_PARTS_MAX];
    int64_t count;
    char line[32];
    ck_assert_int_eq(km_source_parts(parts, &count, text, &err), KM_OK);
    ck_assert_int_eq(count, sizeof want / sizeof *want);
    for (int64_t i = 0; i < count; i++) {
        ck_assert_str_eq(parts[i].name, want[i].name);
        ck_assert_int_eq(km_source_is_pass(&parts[i]), want[i].is_pass);
        for (int at = 0; at < 4 && want[i].has[at]; at++) {
            snprintf(line, sizeof line, "int %s;", want[i].has[at]);
            ck_assert_ptr_nonnull(strstr(parts[i].text, line));
        }
        for (int at = 0; at < 3; at++) {
            snprintf(line, sizeof line, "int %s;", want[i].lacks[at]);
            ck_assert_ptr_null(strstr(parts[i].text, line));
        }
    }
    km_source_parts_clear(parts, count);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("build");
    TCase *tests = tcase_create("build");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_add_test(tests, first_plan_is_built_where_nothing_is_wrong);
    tcase_add_test(tests, spilled_plan_is_left);
    tcase_add_test(tests, other_designs_come_next);
    tcase_add_test(tests, least_time_where_all_spill);
    tcase_add_test(tests, fixed_numbers_stay);
    tcase_add_loop_test(tests, measured_plan_is_left, 0, 2);
    tcase_add_test(tests, plan_without_building);
    tcase_add_test(tests, lost_log);
    tcase_add_test(tests, refused_design_is_left);
    tcase_add_test(tests, all_refused);
    tcase_add_test(tests, missing_compiler_is_no_refusal);
    tcase_add_test(tests, prebuilt_is_left);
    tcase_add_test(tests, given_text);
    tcase_add_test(tests, given_text_for_others);
    tcase_add_test(tests, given_text_and_prebuilt);
    tcase_add_loop_test(tests, all_parts_are_stopped, 0, 2);
    tcase_add_test(tests, logs_are_read);
    tcase_add_test(tests, parts_of_parts);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
