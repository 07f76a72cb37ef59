// SPDX-License-Identifier: MIT
// From bytes to an expansion, or an error with file and line. What stands behind a form feed is a second template, b,
// which the first one, a, may include.
#include "fuzz.h"
#include "gen/template.h"

#include <string.h>
#include <unistd.h>

// Loops stand in loops, so a longer text may mean an expansion without end.
enum { TEXT_SIZE_MAX = 400 };

int64_t fuzz_accepted;

static char folder[64];

static void path_of(char path[80], const char *name) {
    snprintf(path, 80, "%s/%s", folder, name);
}

static void folder_remove(void) {
    char path[80];
    path_of(path, "a");
    unlink(path);
    path_of(path, "b");
    unlink(path);
    rmdir(folder);
}

static void write_file(const char *name, const uint8_t *bytes, size_t size) {
    char path[80];
    path_of(path, name);
    FILE *file = fopen(path, "wb");
    must(file && fwrite(bytes, 1, size, file) == size && !fclose(file), "no file to write to");
}

// Names of each kind: texts, flags, a list with names and a list inside, a list without items.
static km_env *make_env(void) {
    km_env *env = km_env_create();
    must(env != NULL, "no memory");
    km_env_set_int(env, "d", 4);
    km_env_set(env, "name", "%s", "km");
    km_env_set_flag(env, "yes", 1);
    km_env_set_flag(env, "no", 0);
    km_env_set(env, "blank", "%s", "");
    km_env_list(env, "none");
    for (int k = 3; k <= 5; k += 2) {
        km_env *item = km_env_item(env, "ks", k == 3 ? "3" : "5");
        km_env_set_flag(item, "first", k == 3);
        km_env_set_int(km_env_item(item, "features", "0"), "power", k);
    }
    return env;
}

// "a:12: ..." or "b:1: ...", or a file that cannot be read.
static int names_place(const char *text) {
    if (!strncmp(text, "cannot read the template ", 25) || strstr(text, ": the path is too long")) return 1;
    int line = 0, used = 0;
    return sscanf(text, "%*[^:]:%d: %n", &line, &used) == 1 && used && line > 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    static int is_made;
    if (size > TEXT_SIZE_MAX) return 0;
    if (!is_made) {
        // In memory where the system has such a folder: a disk would be most of the time.
        const char *parent = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
        snprintf(folder, sizeof folder, "%s/kmgen-fuzz.XXXXXX", parent);
        must(mkdtemp(folder) && !atexit(folder_remove), "no folder");
        is_made = 1;
    }
    const uint8_t *feed = size ? memchr(bytes, '\f', size) : NULL;
    size_t first = feed ? (size_t)(feed - bytes) : size;
    write_file("a", bytes, first);
    write_file("b", bytes + first + (feed != NULL), size - first - (feed != NULL));
    km_error err = {{0}};
    km_text out = {0};
    km_env *env = make_env();
    km_status status = km_template_expand(&out, "a", env, folder, &err);
    must(status == KM_OK || names_place(err.text), "a template was refused without its place");
    // What is behind a zero would be lost to everyone who takes the text as a string.
    must(status != KM_OK || !out.size || strlen(out.data) == (size_t)out.size, "a text with a zero in it");
    fuzz_accepted += status == KM_OK;
    km_env_destroy(&env);
    km_text_clear(&out);
    return 0;
}
