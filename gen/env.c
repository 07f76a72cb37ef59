// SPDX-License-Identifier: MIT
// What a template may use: names with their texts, and lists.
#include "env.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

km_env *km_env_create(void) {
    return calloc(1, sizeof(km_env));
}

void km_env_destroy(km_env **env) {
    km_env *e = *env;
    if (!e) return;
    for (int64_t i = 0; i < e->names_count; i++) {
        free(e->names[i].name);
        free(e->names[i].text);
    }
    for (int64_t i = 0; i < e->lists_count; i++) {
        for (int64_t j = 0; j < e->lists[i].count; j++) km_env_destroy(&e->lists[i].items[j]);
        free(e->lists[i].items);
        free(e->lists[i].name);
    }
    free(e->names);
    free(e->lists);
    free(e->text);
    free(e);
    *env = NULL;
}

static km_env *env_root(km_env *env) {
    while (env->parent) env = env->parent;
    return env;
}

static void env_fail(km_env *env) {
    env_root(env)->failed = 1;
}

// Makes room for one more element; 0 after a failure, which the root keeps.
static int env_grow(km_env *env, void **array, int64_t count, int64_t *capacity, size_t element_size) {
    if (count < *capacity) return 1;
    int64_t grown = *capacity ? 2 * *capacity : 8;
    void *moved = realloc(*array, (size_t)grown * element_size);
    if (!moved) {
        env_fail(env);
        return 0;
    }
    *array = moved;
    *capacity = grown;
    return 1;
}

int km_env_is_name(const char *name, const char *bytes, size_t length) {
    return strlen(name) == length && !memcmp(name, bytes, length);
}

km_env_name *km_env_find(const km_env *env, const char *name, size_t length) {
    for (int64_t i = 0; i < env->names_count; i++) {
        if (km_env_is_name(env->names[i].name, name, length)) return &env->names[i];
    }
    return NULL;
}

km_env_items *km_env_find_list(const km_env *env, const char *name, size_t length) {
    for (int64_t i = 0; i < env->lists_count; i++) {
        if (km_env_is_name(env->lists[i].name, name, length)) return &env->lists[i];
    }
    return NULL;
}

// Takes `text`, which may be NULL after a failed allocation.
static void env_put(km_env *env, const char *name, char *text) {
    km_env_name *known = text ? km_env_find(env, name, strlen(name)) : NULL;
    if (known) {
        free(known->text);
        known->text = text;
        return;
    }
    char *copy = text ? strdup(name) : NULL;
    if (!copy ||
        !env_grow(env, (void **)&env->names, env->names_count, &env->names_capacity, sizeof *env->names)) {
        env_fail(env);
        free(copy);
        free(text);
        return;
    }
    env->names[env->names_count++] = (km_env_name){copy, text};
}

void km_env_set(km_env *env, const char *name, const char *format, ...) {
    char *text = NULL;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    env_put(env, name, text);
}

void km_env_set_text(km_env *env, const char *name, km_text *text) {
    char *taken;
    km_text_take(&taken, text, NULL); // NULL when it failed, which env_put keeps
    env_put(env, name, taken);
}

void km_env_set_int(km_env *env, const char *name, int64_t value) {
    km_env_set(env, name, "%lld", (long long)value);
}

void km_env_set_flag(km_env *env, const char *name, int value) {
    km_env_set(env, name, "%d", value != 0);
}

static km_env_items *list_make(km_env *env, const char *name) {
    km_env_items *list = km_env_find_list(env, name, strlen(name));
    if (list) return list;
    char *copy = strdup(name);
    if (!copy ||
        !env_grow(env, (void **)&env->lists, env->lists_count, &env->lists_capacity, sizeof *env->lists)) {
        env_fail(env);
        free(copy);
        return NULL;
    }
    env->lists[env->lists_count] = (km_env_items){.name = copy};
    return &env->lists[env->lists_count++];
}

void km_env_list(km_env *env, const char *list) {
    list_make(env, list);
}

km_env *km_env_item(km_env *env, const char *list_name, const char *text) {
    km_env_items *list = list_make(env, list_name);
    km_env *item = list ? km_env_create() : NULL;
    if (item) item->text = strdup(text);
    if (!item || !item->text ||
        !env_grow(env, (void **)&list->items, list->count, &list->capacity, sizeof(km_env *))) {
        km_env_destroy(&item);
        env_fail(env);
        return env; // any item will do: nothing is expanded after a failure
    }
    item->parent = env;
    list->items[list->count++] = item;
    return item;
}
