// SPDX-License-Identifier: MIT
// The text of every spec for every target, kept in tests/golden/ so that a change of what is emitted is seen
// in review. usage: golden check|write SPECS_FOLDER GOLDEN_FOLDER [TARGET]
// With a target, e.g. cpu:avx512, only that one, for every spec that means it.
// The host part, which hardly differs from file to file, is kept of two specs only, with their headers.
#include "specs.h"

typedef struct golden {
    const char *folder;
    int writes;
    km_target only; // kind AUTO: every target
    int files;      // that the specs make
} golden;

static char *read_whole(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *text = NULL;
    if (!fseek(file, 0, SEEK_END)) {
        long length = ftell(file);
        rewind(file);
        text = length < 0 ? NULL : malloc((size_t)length + 1);
        if (text) text[ *size = fread(text, 1, (size_t)length, file)] = 0;
    }
    fclose(file);
    return text;
}

static int write_whole(const char *path, const char *text) {
    FILE *file = fopen(path, "wb");
    int failed = !file || fputs(text, file) < 0;
    if (file && fclose(file)) failed = 1;
    if (failed) fprintf(stderr, "cannot write %s\n", path);
    return failed;
}

static void say_difference(const char *path, const char *wanted, const char *got) {
    int line = 1;
    const char *wanted_line = wanted, *got_line = got;
    for (; *wanted && *wanted == *got; wanted++, got++) {
        if (*wanted != '\n') continue;
        line++;
        wanted_line = wanted + 1;
        got_line = got + 1;
    }
    fprintf(stderr, "%s:%d: the text has changed (ninja golden rewrites it):\n-%.*s\n+%.*s\n", path, line,
            (int)strcspn(wanted_line, "\n"), wanted_line, (int)strcspn(got_line, "\n"), got_line);
}

static int compare(const char *path, const char *text) {
    size_t size = 0;
    char *wanted = read_whole(path, &size);
    if (!wanted) {
        fprintf(stderr, "%s is missing (ninja golden writes it)\n", path);
        return 1;
    }
    int differs = strcmp(wanted, text) != 0;
    if (differs) say_difference(path, wanted, text);
    free(wanted);
    return differs;
}

static int has_host_part(const char *name) {
    return !strcmp(name, "small") || !strcmp(name, "float64");
}

// What holds for every emitted file.
static int check_text(const char *path, const km_source *source) {
    static const char *const banned[] = {" \n", "\t", "\r", "\n\n\n"};
    for (size_t i = 0; i < sizeof banned / sizeof *banned; i++) {
        if (!strstr(source->text, banned[i])) continue;
        fprintf(stderr, "%s: emitted text has a tab, a space before a line's end, or two blank lines\n",
                path);
        return 1;
    }
    if (source->text_size && source->text[source->text_size - 1] == '\n') return 0;
    fprintf(stderr, "%s: emitted text does not end with a newline\n", path);
    return 1;
}

static int keep(const golden *g, const char *name, const char *text) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", g->folder, name);
    return g->writes ? write_whole(path, text) : compare(path, text);
}

static int each_target(golden *g, const km_spec *spec, km_target_kind kind) {
    if (!specs_means(spec, kind) || (g->only.kind && g->only.kind != kind)) return 0;
    km_target target = {kind, spec->target.kind == kind ? spec->target.arch : 0};
    if (g->only.arch) target.arch = g->only.arch;
    km_source source;
    km_source_init(&source);
    g->files++;
    int failed = specs_emit(&source, spec, target, NULL);
    if (!failed) {
        failed = check_text(source.file_name, &source);
        char *host = strstr(source.text, "\n// ==== The host part");
        if (!host || !source.header) return 1;
        if (!has_host_part(spec->name)) host[1] = 0;
        failed |= keep(g, source.file_name, source.text);
        if (has_host_part(spec->name) && (kind == KM_TARGET_CUDA || g->only.kind)) {
            g->files++;
            failed |= keep(g, source.header_name, source.header);
        }
    }
    km_source_clear(&source);
    return failed;
}

static int each_spec(void *user, const km_spec *spec) {
    return each_target(user, spec, KM_TARGET_CPU) + each_target(user, spec, KM_TARGET_CUDA);
}

static int is_golden(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

// Files in the folder that no spec makes.
static int stale_files(const golden *g) {
    struct dirent **entries = NULL;
    int count = scandir(g->folder, &entries, is_golden, alphasort);
    for (int i = 0; i < count; i++) free(entries[i]);
    free(entries);
    if (count == g->files) return 0;
    fprintf(stderr, "%s holds %d files, the specs make %d: remove the others\n", g->folder, count, g->files);
    return 1;
}

int main(int argc, char **argv) {
    if (argc < 4 || argc > 5 || (strcmp(argv[1], "check") && strcmp(argv[1], "write"))) {
        fputs("usage: golden check|write SPECS_FOLDER GOLDEN_FOLDER [TARGET]\n", stderr);
        return 2;
    }
    golden g = {.folder = argv[3], .writes = !strcmp(argv[1], "write")};
    if (argc == 5) {
        km_error err = {{0}};
        km_spec spec;
        km_spec_init(&spec);
        if (km_spec_set_target(&spec, argv[4], &err) != KM_OK) fprintf(stderr, "%s\n", err.text);
        if (err.text[0]) return 2;
        g.only = spec.target;
    }
    int failures = specs_walk(argv[2], each_spec, &g) + stale_files(&g);
    printf("%d files, %d failures\n", g.files, failures);
    return failures != 0;
}
