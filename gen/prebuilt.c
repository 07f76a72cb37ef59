// SPDX-License-Identifier: MIT
// Build-time program: writes kernels that are compiled into the library. usage: prebuilt OUT.c KIND NAME [TEMPLATES]
// KIND lanes: the kernels of the design prebuilt, which are those of lanes. NAME is INSTRUCTIONS_TYPE_SHAPE, such as
// avx2_float32_d4. SHAPE is dN (N features, K up to 256), few (up to 64 features, K up to 256) or any.
// KIND load, tiles, bounds, silhouette, subsets or sparse_lanes: NAME is INSTRUCTIONS_TYPE. TEMPLATES is a folder;
// without it the library's are taken.
#include "../base/error.h"
#include "../base/text.h"
#include "cpu/common.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_FEATURES = 64 };

static int is_shape(const char *shape, const char *name) {
    return !strcmp(shape, name);
}

// A spec whose plan has the numbers of these kernels: the most features, the largest K.
static km_status spec_make(km_spec *spec, const char *isa, const char *type, const char *shape,
                           km_error *err) {
    char target[32];
    snprintf(target, sizeof target, "cpu:%s", isa);
    snprintf(spec->name, sizeof spec->name, "km_lanes_%s_%s_%s", isa, type, shape);
    spec->type = !strcmp(type, "float64") ? KM_FLOAT64 : KM_FLOAT32;
    spec->features = is_shape(shape, "any")   ? KM_FEATURES_DENSE_MAX
                     : is_shape(shape, "few") ? FEW_FEATURES
                                              : strtoll(shape + 1, NULL, 10);
    KM_TRY(km_spec_set_clusters(spec, is_shape(shape, "any") ? "1,65535" : "1,256", err));
    KM_TRY(km_spec_set_target(spec, target, err));
    return km_spec_fix(spec, "design", "lanes", err);
}

static km_status text_make(km_text *out, const km_plan *plan, int any_d, const char *dir, km_error *err) {
    const char *template_name = NULL;
    km_env *env = km_env_create();
    if (!env) return km_fail_memory(err, "the names of a template", 0);
    km_status status = KM_OK;
    if (any_d)
        km_cpu_names_any_d(env, &template_name, plan);
    else
        status = km_design_code_of(plan->design)->names(env, &template_name, plan, err);
    km_env_set(env, "symbol", "%s", plan->spec.name);
    if (status == KM_OK) status = km_template_expand(out, template_name, env, dir, err);
    km_env_destroy(&env);
    return status;
}

static km_status lanes_make(km_text *out, const char *isa, const char *type, const char *shape,
                            const char *dir, km_error *err) {
    km_spec spec;
    km_plan plan;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_status status = KM_OK;
    KM_TRY_GOTO(spec_make(&spec, isa, type, shape, err));
    KM_TRY_GOTO(km_plan_make(&plan, &spec, NULL, err));
    KM_TRY_GOTO(text_make(out, &plan, shape[0] != 'd', dir, err));
done:
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    return status;
}

// The names of a template that needs no plan, but a type and an instruction set.
static void names_make(km_env *env, const char *kind, const char *isa, const char *type) {
    static const struct {
        const char *name, *target_more;
        int isa, vector_bytes, registers;
    } sets[] = {{"generic", "", KM_ISA_GENERIC, 16, 16},
                {"avx2", ",popcnt,bmi", KM_ISA_AVX2, 32, 16},
                {"avx512", ",popcnt,bmi", KM_ISA_AVX512, 64, 32},
                {"neon", "", KM_ISA_NEON, 16, 32}};
    const int is_double = !strcmp(type, "float64");
    size_t at = 0;
    while (at + 1 < sizeof sets / sizeof *sets && strcmp(sets[at].name, isa) != 0) at++;
    km_env_set(env, "name", "km_%s_%s_%s", kind, isa, type);
    km_env_set(env, "type", is_double ? "double" : "float");
    km_env_set(env, "int_type", is_double ? "int64_t" : "int32_t");
    km_env_set_flag(env, "float64", is_double);
    km_env_set_int(env, "lanes", sets[at].vector_bytes / (is_double ? 8 : 4));
    km_env_set_int(env, "isa", sets[at].isa);
    km_env_set(env, "vec", "%s", sets[at].name);
    km_env_set(env, "target_more", "%s", sets[at].target_more);
    km_env_set_flag(env, "avx512", sets[at].isa == KM_ISA_AVX512);
    km_env_set_flag(env, "avx512_float", sets[at].isa == KM_ISA_AVX512 && !is_double);
    km_env_set_int(env, "score_vectors", sets[at].registers / 8);
    km_env_set_flag(env, "prunes", 1);
    km_env_set_flag(env, "int16_scores", 0);
    km_env_set_flag(env, "point_rows", 0);
    km_env_set_flag(env, "byte_labels", !strcmp(kind, "subsets"));
}

// A list of the numbers from .. to - 1, each times `step`.
static void list_steps(km_env *env, const char *list, int64_t from, int64_t to, int64_t step) {
    char text[24];
    km_env_list(env, list);
    for (int64_t i = from; i < to; i++) {
        snprintf(text, sizeof text, "%" PRId64, i * step);
        km_env_item(env, list, text);
    }
}

static void list_words(km_env *env, const char *list, const char *const *words) {
    km_env_list(env, list);
    for (; *words; words++) km_env_item(env, list, *words);
}

// A kind of scores: of reals, or in double.
static void kind_add(km_env *env, const char *kind, int is_double) {
    km_env *item = km_env_item(env, "kinds", kind);
    km_env_set(item, "type", is_double ? "double" : "km_real");
    km_env_set(item, "vec", is_double ? "km_doubles" : "km_vec");
    km_env_set(item, "pre", is_double ? "KM_D" : "KM");
    km_env_set(item, "lanes", is_double ? "DOUBLES" : "LANES");
    km_env_set_flag(item, "squares", is_double);
}

// Names of templates/cpu/sparse_lanes: a function for each kind of scores, number of vectors and width of an index.
static void names_of_sparse(km_env *env, const char *isa, const char *type) {
    const int is_double = !strcmp(type, "float64"), is_avx512 = !strcmp(isa, "avx512");
    const int is_neon = !strcmp(isa, "neon"), is_avx2 = !strcmp(isa, "avx2");
    const int64_t panel = is_avx512 ? 16 : is_neon ? 20 : 12, bytes = is_avx512 ? 64 : is_avx2 ? 32 : 16;
    const int64_t group = is_double ? 8 : 16, lanes = bytes / (is_double ? 8 : 4);
    static const char *const widths[] = {"8", "16", "32", NULL};
    km_env_set_int(env, "group", group);
    km_env_set_int(env, "panel_vectors", panel);
    km_env_set(env, "half_unit", is_double ? "0x1p-53" : "0x1p-24");
    km_env_set(env, "tiny", is_double ? "0x1p-1073" : "0x1p-148");
    // Where reals are doubles and multiplied and added at once.
    const int double_reals = is_double && strcmp(isa, "generic") != 0;
    km_env_set_flag(env, "double_reals", double_reals);
    list_steps(env, "group_vectors", 0, group / lanes, 1);
    list_steps(env, "double_vectors", 0, 8 / (bytes / 8), 1);
    list_words(env, "widths", widths); // bits of a column's index, and of a label
    km_env_list(env, "kinds");
    if (!double_reals) kind_add(env, "real", 0);
    kind_add(env, "double", 1);
    km_env_list(env, "counts");
    for (int64_t count = 1; count <= panel; count++) {
        char text[24];
        snprintf(text, sizeof text, "%lld", (long long)count);
        km_env *item = km_env_item(env, "counts", text);
        list_steps(item, "vectors", 0, count, 1);
        list_steps(item, "lines", 0, (count * bytes + 63) / 64, 64); // bytes from cache line to cache line
    }
}

// "before0after, before1after, ...": `count` of them.
static void set_joined(km_env *env, const char *name, const char *before, int count, const char *after) {
    char text[160] = "";
    for (int i = 0, at = 0; i < count; i++)
        at += snprintf(text + at, sizeof text - (size_t)at, "%s%s%d%s", i ? ", " : "", before, i, after);
    km_env_set(env, name, "%s", text);
}

// Names of templates/cpu/subsets: functions for each number of columns up to SUBSET_SIZE_MAX.
static void names_of_subsets(km_env *env) {
    static const char *const rest[] = {", 1, 0, 0", ", 1, 0", ", 1", ""};
    list_steps(env, "vectors_list", 0, 4, 1);
    list_steps(env, "eighths", 0, 8, 8); // of the bits of an SoA group
    km_env_list(env, "vector_pairs");
    km_env_set(km_env_item(env, "vector_pairs", "0"), "next", "1");
    km_env_set(km_env_item(env, "vector_pairs", "2"), "next", "3");
    km_env_set(env, "seeds", "seed_1, seed_2, seed_3, seed_4");
    km_env_list(env, "sizes");
    for (int size = 1; size <= 4; size++) {
        char text[8];
        snprintf(text, sizeof text, "%d", size);
        km_env *item = km_env_item(env, "sizes", text);
        list_steps(item, "columns", 0, size, 1);
        set_joined(item, "arguments", "const km_real *x_", size, "");
        set_joined(item, "names", "x_", size, "");
        set_joined(item, "scalars", "double x_", size, "");
        set_joined(item, "converted", "(double)x_", size, "[p]");
        set_joined(item, "coordinates", "x_", size, "[i]");
        km_env_set(item, "rest", "%s", rest[size - 1]); // a one, which counts points, where it fits
        km_env_set_flag(item, "is_four", size == 4);
    }
}

static km_status kernels_make(km_text *out, const char *kind, const char *isa, const char *type,
                              const char *dir, km_error *err) {
    char template_name[64];
    snprintf(template_name, sizeof template_name, "cpu/%s/%s.c", kind, kind);
    km_env *env = km_env_create();
    if (!env) return km_fail_memory(err, "the names of a template", 0);
    names_make(env, kind, isa, type);
    if (!strcmp(kind, "sparse_lanes")) names_of_sparse(env, isa, type);
    if (!strcmp(kind, "subsets")) names_of_subsets(env);
    km_status status = km_template_expand(out, template_name, env, dir, err);
    km_env_destroy(&env);
    return status;
}

static km_status make(km_text *out, const char *kind, const char *name, const char *dir, km_error *err) {
    char isa[16], type[16], shape[16];
    int parts = sscanf(name, "%15[a-z0-9]_%15[a-z0-9]_%15[a-z0-9]", isa, type, shape);
    int is_lanes = !strcmp(kind, "lanes");
    if (parts != 2 + is_lanes)
        return km_fail(err, KM_ERROR_USAGE, "%s is not INSTRUCTIONS_TYPE%s", name, is_lanes ? "_SHAPE" : "");
    return is_lanes ? lanes_make(out, isa, type, shape, dir, err)
                    : kernels_make(out, kind, isa, type, dir, err);
}

int main(int argc, char **argv) {
    km_error err = {{0}};
    km_text text = {0};
    if (argc != 4 && argc != 5) {
        fputs("usage: prebuilt OUT.c KIND NAME [TEMPLATES]\n", stderr);
        return 2;
    }
    km_status status = make(&text, argv[2], argv[3], argc == 5 ? argv[4] : NULL, &err);
    FILE *out = status == KM_OK ? fopen(argv[1], "wb") : NULL;
    if (!out || text.failed || fwrite(text.data, 1, (size_t)text.size, out) != (size_t)text.size ||
        fclose(out)) {
        fprintf(stderr, "prebuilt: cannot write %s: %s\n", argv[1], err.text);
        return 1;
    }
    km_text_clear(&text);
    return 0;
}
