// SPDX-License-Identifier: MIT
// Build-time program: writes kernels of the design portable, which are those of lanes. usage: portable OUT.c NAME
// NAME is INSTRUCTIONS_TYPE_SHAPE, such as avx2_float32_d4. SHAPE is dN (N features, K up to 256), few (up to 64
// features, K up to 256) or any.
#include "../base/error.h"
#include "../base/text.h"
#include "cpu/common.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_FEATURES = 64 };

static int is_shape(const char *shape, const char *name) {
    return !strcmp(shape, name);
}

// The spec whose plan has the numbers of these kernels: the most features, the largest K.
static km_status spec_make(km_spec *spec, const char *isa, const char *type, const char *shape,
                           km_error *err) {
    char target[32];
    snprintf(target, sizeof target, "cpu:%s", isa);
    snprintf(spec->name, sizeof spec->name, "km_portable_%s_%s_%s", isa, type, shape);
    spec->type = !strcmp(type, "float64") ? KM_FLOAT64 : KM_FLOAT32;
    spec->features = is_shape(shape, "any")   ? KM_FEATURES_MAX
                     : is_shape(shape, "few") ? FEW_FEATURES
                                              : strtoll(shape + 1, NULL, 10);
    KM_TRY(km_spec_set_clusters(spec, is_shape(shape, "any") ? "1,65535" : "1,256", err));
    KM_TRY(km_spec_set_target(spec, target, err));
    return km_spec_fix(spec, "design", "lanes", err);
}

static km_status text_make(km_text *out, const km_plan *plan, int any_d, km_error *err) {
    const char *template_name = NULL;
    km_env *env = km_env_create();
    if (!env) return km_fail_memory(err, "the names of a template", 0);
    km_status status = any_d ? km_cpu_names_any_d(env, &template_name, plan, err)
                             : km_design_code_of(plan->design)->names(env, &template_name, plan, err);
    if (status == KM_OK) status = km_template_expand(out, template_name, env, NULL, err);
    km_env_destroy(&env);
    return status;
}

static km_status make(km_text *out, const char *name, km_error *err) {
    char isa[16], type[16], shape[16];
    if (sscanf(name, "%15[a-z0-9]_%15[a-z0-9]_%15[a-z0-9]", isa, type, shape) != 3)
        return km_fail(err, KM_ERROR_USAGE, "%s is not INSTRUCTIONS_TYPE_SHAPE", name);
    km_spec spec;
    km_plan plan;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_status status = KM_OK;
    KM_TRY_GOTO(spec_make(&spec, isa, type, shape, err));
    KM_TRY_GOTO(km_plan_make(&plan, &spec, NULL, err));
    KM_TRY_GOTO(text_make(out, &plan, shape[0] != 'd', err));
done:
    km_plan_clear(&plan);
    km_spec_clear(&spec);
    return status;
}

int main(int argc, char **argv) {
    km_error err = {{0}};
    km_text text = {0};
    if (argc != 3) {
        fputs("usage: portable OUT.c NAME\n", stderr);
        return 2;
    }
    km_status status = make(&text, argv[2], &err);
    FILE *out = status == KM_OK ? fopen(argv[1], "wb") : NULL;
    if (!out || text.failed || fwrite(text.data, 1, (size_t)text.size, out) != (size_t)text.size ||
        fclose(out)) {
        fprintf(stderr, "portable: cannot write %s: %s\n", argv[1], err.text);
        return 1;
    }
    km_text_clear(&text);
    return 0;
}
