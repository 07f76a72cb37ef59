// SPDX-License-Identifier: MIT
// specs/ is the list of what is tested: each file there, for each target that it means, for the suites that
// walk over all of them.
#ifndef KM_TESTS_SPECS_H
#define KM_TESTS_SPECS_H
#include <kmgen/plan.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int specs_is_yaml(const struct dirent *entry) {
    const char *dot = strrchr(entry->d_name, '.');
    return dot && !strcmp(dot, ".yaml");
}

// Whether the spec means this target: a spec that says none is for each.
static inline int specs_means(const km_spec *spec, km_target_kind kind) {
    return spec->target.kind == KM_TARGET_AUTO || spec->target.kind == kind;
}

// Reads every spec of the folder in the order of the names and calls `each` with it. Returns the number of
// failures: of reading, of a name that is not its file's (golden files would collide), and what `each` tells.
static int specs_walk(const char *folder, int (*each)(void *user, const km_spec *spec), void *user) {
    struct dirent **entries = NULL;
    int count = scandir(folder, &entries, specs_is_yaml, alphasort);
    if (count <= 0) {
        fprintf(stderr, "no specs in %s\n", folder);
        return 1;
    }
    int failures = 0;
    for (int i = 0; i < count; i++) {
        char path[4096];
        km_spec spec;
        km_error err = {{0}};
        snprintf(path, sizeof path, "%s/%s", folder, entries[i]->d_name);
        km_spec_init(&spec);
        size_t name_size = strlen(spec.name);
        if (km_spec_read(&spec, path, &err) != KM_OK) {
            fprintf(stderr, "%s\n", err.text);
            failures++;
        } else if (name_size = strlen(spec.name), strncmp(spec.name, entries[i]->d_name, name_size) ||
                                                      strcmp(entries[i]->d_name + name_size, ".yaml")) {
            fprintf(stderr, "%s: its name is %s; make the file's and the spec's the same\n", path, spec.name);
            failures++;
        } else {
            failures += each(user, &spec);
        }
        km_spec_clear(&spec);
        free(entries[i]);
    }
    free(entries);
    return failures;
}

// Plans and emits the spec for one target; params may be NULL. Non-zero, and said, when that fails.
static int specs_emit(km_source *source, const km_spec *spec, km_target target,
                      const km_plan_params *params) {
    km_error err = {{0}};
    km_spec copy;
    km_plan plan;
    km_spec_init(&copy);
    km_plan_init(&plan);
    km_status status = km_spec_copy(&copy, spec, &err);
    copy.target = target;
    if (status == KM_OK) status = km_plan_make(&plan, &copy, params, &err);
    if (status == KM_OK) status = km_source_emit(source, &plan, NULL, &err);
    if (status != KM_OK) fprintf(stderr, "%s: %s\n", spec->name, err.text);
    km_plan_clear(&plan);
    km_spec_clear(&copy);
    return status != KM_OK;
}

#endif
