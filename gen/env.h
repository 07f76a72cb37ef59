// SPDX-License-Identifier: MIT
// The inside of a km_env, for the engine that expands templates with it.
#ifndef KM_GEN_ENV_H
#define KM_GEN_ENV_H
#include "template.h"

typedef struct km_env_name {
    char *name, *text;
} km_env_name;

typedef struct km_env_items {
    char *name;
    km_env **items;
    int64_t count, capacity;
} km_env_items;

struct km_env {
    km_env *parent; // NULL for the root
    char *text;     // an item's own text
    km_env_name *names;
    km_env_items *lists;
    int64_t names_count, names_capacity, lists_count, lists_capacity;
    int failed; // of the root: memory ran out somewhere in the tree
};

// Whether a name equals these bytes of a template, which may hold zeros.
int km_env_is_name(const char *name, const char *bytes, size_t length);
// In this environment, not in its parents; NULL: there is none.
km_env_name *km_env_find(const km_env *env, const char *name, size_t length);
km_env_items *km_env_find_list(const km_env *env, const char *name, size_t length);

#endif
