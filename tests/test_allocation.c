// SPDX-License-Identifier: MIT
// The program when memory runs out: every allocation of its own code fails in turn, once or from there on for ever.
// Each run must end with a sentence about memory (or do all of its work), free what it took, leave no temporary
// file, and leave each output as it was or whole.
// usage: test_allocation TABLE.csv    (KMGEN_TEST_ALL=1: every job, and failures that last)
// The linker replaces the calls of kmgen's objects only (--wrap, tests/meson.build): what the libraries below allocate
// is theirs. Each run is a process of its own, so that a crash is one finding.
#include "gen/tuning.h"
#include <kmgen/data.h>

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>
#include <yaml.h>

// Allocations ------------------------------------------------------------------------------------------------

// What a run tells the process that watches it.
typedef struct report {
    int64_t calls;  // allocations that were asked for
    int64_t failed; // of these
    int64_t leaked; // blocks that nobody freed
    char failed_at[64], leaked_at[64];
} report;

enum { BLOCKS_MAX = 1 << 18 }; // live at a time; a power of two

typedef struct block {
    void *memory; // NULL: free
    void *caller;
} block;

static report *shared;
static int64_t fail_first, fail_last; // the allocations that fail, counted from 1; 0: none
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static block blocks[BLOCKS_MAX];
static int is_watching;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);
void *__real_aligned_alloc(size_t alignment, size_t size);
void *__wrap_aligned_alloc(size_t alignment, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);
char *__real_strndup(const char *text, size_t size);
char *__wrap_strndup(const char *text, size_t size);
int __real_vasprintf(char **out, const char *format, va_list args);
int __wrap_vasprintf(char **out, const char *format, va_list args);
void __real_free(void *memory);
void __wrap_free(void *memory);
int __real_main(int argc, char **argv);
int __wrap_main(int argc, char **argv);

// "0x1234", which addr2line takes.
static void place_text(char text[64], void *caller) {
    Dl_info info = {0};
    char *base = dladdr(caller, &info) ? info.dli_fbase : NULL;
    snprintf(text, 64, "0x%lx", (unsigned long)((char *)caller - base) - 1);
}

// Counts one allocation; non-zero when it is to fail.
static int fails(void *caller) {
    if (!is_watching) return 0;
    pthread_mutex_lock(&lock);
    int64_t call = ++shared->calls;
    int failing = call >= fail_first && call <= fail_last;
    if (failing && !shared->failed++) place_text(shared->failed_at, caller);
    pthread_mutex_unlock(&lock);
    if (failing) errno = ENOMEM;
    return failing;
}

// Open addressing: a block's place is the first free one from its address's own on.
static int64_t block_place(const void *memory) {
    int64_t i = (int64_t)((uintptr_t)memory / 16 * 0x9e3779b97f4a7c15u >> 40) % BLOCKS_MAX;
    while (blocks[i].memory && blocks[i].memory != memory) i = (i + 1) % BLOCKS_MAX;
    return i;
}

static void *note(void *memory, void *caller) {
    if (!is_watching || !memory) return memory;
    pthread_mutex_lock(&lock);
    blocks[block_place(memory)] = (block){memory, caller};
    pthread_mutex_unlock(&lock);
    return memory;
}

static void forget(const void *memory) {
    if (!is_watching || !memory) return;
    pthread_mutex_lock(&lock);
    int64_t i = block_place(memory);
    while (blocks[i].memory) { // those behind it may have their place before the gap
        blocks[i].memory = NULL;
        for (i = (i + 1) % BLOCKS_MAX; blocks[i].memory; i = (i + 1) % BLOCKS_MAX) {
            block moved = blocks[i];
            blocks[i].memory = NULL;
            blocks[block_place(moved.memory)] = moved;
        }
    }
    pthread_mutex_unlock(&lock);
}

#define CALLER __builtin_return_address(0)

void *__wrap_malloc(size_t size) {
    return fails(CALLER) ? NULL : note(__real_malloc(size), CALLER);
}

void *__wrap_calloc(size_t count, size_t size) {
    return fails(CALLER) ? NULL : note(__real_calloc(count, size), CALLER);
}

void *__wrap_realloc(void *memory, size_t size) {
    if (fails(CALLER)) return NULL;
    forget(memory);
    return note(__real_realloc(memory, size), CALLER);
}

void *__wrap_aligned_alloc(size_t alignment, size_t size) {
    return fails(CALLER) ? NULL : note(__real_aligned_alloc(alignment, size), CALLER);
}

char *__wrap_strdup(const char *text) {
    return fails(CALLER) ? NULL : note(__real_strdup(text), CALLER);
}

char *__wrap_strndup(const char *text, size_t size) {
    return fails(CALLER) ? NULL : note(__real_strndup(text, size), CALLER);
}

int __wrap_vasprintf(char **out, const char *format, va_list args) {
    if (fails(CALLER)) return -1;
    int size = __real_vasprintf(out, format, args);
    if (size >= 0) note(*out, CALLER);
    return size;
}

void __wrap_free(void *memory) {
    forget(memory);
    __real_free(memory);
}

// Calls into libraries that say when memory ran out inside.
#define WRAP(type, name, failed, parameters, arguments)                                                      \
    type __real_##name parameters;                                                                           \
    type __wrap_##name parameters;                                                                           \
    type __wrap_##name parameters {                                                                          \
        return fails(CALLER) ? (failed) : __real_##name arguments;                                           \
    }
WRAP(json_t *, json_object, NULL, (void), ())
WRAP(json_t *, json_array, NULL, (void), ())
WRAP(json_t *, json_string, NULL, (const char *text), (text))
WRAP(json_t *, json_integer, NULL, (json_int_t value), (value))
WRAP(json_t *, json_real, NULL, (double value), (value))
WRAP(XXH3_state_t *, XXH3_createState, NULL, (void), ())
WRAP(int, yaml_parser_initialize, 0, (yaml_parser_t * parser), (parser))
WRAP(locale_t, newlocale, NULL, (int mask, const char *name, locale_t base), (mask, name, base))
WRAP(FILE *, fopen64, NULL, (const char *path, const char *mode), (path, mode))
WRAP(DIR *, opendir, NULL, (const char *path), (path))
WRAP(void *, mmap64, MAP_FAILED, (void *at, size_t size, int protection, int flags, int fd, int64_t offset),
     (at, size, protection, flags, fd, offset))

// One run ----------------------------------------------------------------------------------------------------

enum { ARGUMENTS_MAX = 24, RUN_SECONDS = 60, OUTPUT_MAX = 1 << 20 };

typedef struct job {
    const char *name;
    int is_short;                         // runs without KMGEN_TEST_ALL too
    const char *arguments[ARGUMENTS_MAX]; // outputs are given as out.*
} job;

static const char old_text[] = "what was there before\n";

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "test_allocation: %s: %s\n", what, strerror(errno));
    exit(2);
}

static void redirect(int to, const char *path) {
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    must(fd >= 0 && dup2(fd, to) == to, path);
    close(fd);
}

static int child(const job *j) {
    int argc = 0;
    char *argv[ARGUMENTS_MAX + 1] = {NULL};
    while (j->arguments[argc]) {
        argv[argc] = (char *)j->arguments[argc];
        argc++;
    }
    redirect(STDOUT_FILENO, "stdout");
    redirect(STDERR_FILENO, "stderr");
    alarm(RUN_SECONDS);
    is_watching = 1;
    int status = __real_main(argc, argv);
    km_memory_keep(0);
    is_watching = 0;
    for (int64_t i = 0; i < BLOCKS_MAX; i++) {
        if (blocks[i].memory && !shared->leaked++) place_text(shared->leaked_at, blocks[i].caller);
    }
    return status;
}

// Runs the job with the allocations first..last failing: its exit status, or 128 + the signal that ended it.
static int run(const job *j, int64_t first, int64_t last) {
    *shared = (report){0};
    fail_first = first;
    fail_last = last;
    fflush(NULL);
    pid_t pid = fork();
    must(pid >= 0, "fork");
    if (!pid) exit(child(j)); // exit: so that a sanitizer looks for leaks of other libraries' objects
    int status = 0;
    must(waitpid(pid, &status, 0) == pid, "waitpid");
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// What is left of it ------------------------------------------------------------------------------------------

static int64_t findings;

static void find(const job *j, const char *failing, const char *what, const char *more) {
    if (++findings > 100) return;
    printf("%s, allocation %s: %s %s (failed at %s, leaked at %s)\n", j->name, failing, what, more,
           shared->failed_at, shared->leaked_at);
}

static int64_t slurp(char *text, int64_t size, const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) return -1;
    int64_t got = (int64_t)fread(text, 1, (size_t)size - 1, file);
    fclose(file);
    text[got] = 0;
    return got;
}

// Files are the same bytes each time, but for the JSON and the page of a fit, which hold the time it took.
static int is_whole(const char *name, const char *text, int64_t size) {
    static char expected[OUTPUT_MAX];
    char path[300];
    if (!strcmp(name, "out.json")) return text[0] == '{' && size > 3 && !strcmp(text + size - 3, "\n}\n");
    if (!strcmp(name, "out.html")) return text[0] == '<' && size > 8 && !strcmp(text + size - 8, "</html>\n");
    snprintf(path, sizeof path, "../whole/%s", name);
    return slurp(expected, sizeof expected, path) == size && !memcmp(text, expected, (size_t)size);
}

static int is_output(const job *j, const char *name) {
    if (!strcmp(name, "out.cu") || !strcmp(name, "out.h")) return 1; // of emit, which is given a folder
    for (int i = 0; j->arguments[i]; i++)
        if (!strcmp(j->arguments[i], name)) return 1;
    return 0;
}

static void look_at_files(const job *j, const char *failing, int status) {
    static char text[OUTPUT_MAX];
    DIR *folder = opendir(".");
    must(folder != NULL, "opendir");
    for (const struct dirent *entry; (entry = readdir(folder));) {
        const char *name = entry->d_name;
        if (!strcmp(name, ".") || !strcmp(name, "..") || !strncmp(name, "std", 3)) continue;
        if (!is_output(j, name)) {
            find(j, failing, "leaves the file", name);
            unlink(name);
            continue;
        }
        int64_t size = slurp(text, sizeof text, name);
        int is_old = !strcmp(text, old_text);
        if (is_old && status == 0) find(j, failing, "exit status 0 without writing", name);
        if (!is_old && !is_whole(name, text, size)) find(j, failing, "leaves half of", name);
        unlink(name);
    }
    closedir(folder);
}

static void look_at_words(const job *j, const char *failing, int status) {
    char text[8192];
    slurp(text, sizeof text, "stderr");
    if (status == 1 && !strstr(text, "memory") && !strstr(text, "Memory"))
        find(j, failing, "says nothing of memory:", text);
    if (strstr(text, "Sanitizer") || strstr(text, "runtime error")) find(j, failing, "", text);
}

static void put_old_files(const job *j) {
    for (int i = 0; j->arguments[i]; i++) {
        if (strncmp(j->arguments[i], "out.", 4)) continue;
        FILE *file = fopen(j->arguments[i], "wb");
        must(file && fputs(old_text, file) >= 0 && !fclose(file), j->arguments[i]);
    }
}

// One run with its verdict; non-zero when the program asked for fewer allocations than `first`.
static int try_one(const job *j, int64_t first, int64_t last) {
    char failing[48], number[16];
    snprintf(failing, sizeof failing, "%lld%s", (long long)first, last > first ? " and later" : "");
    put_old_files(j);
    int status = run(j, first, last);
    if (!shared->failed) return 1;
    snprintf(number, sizeof number, "%d", status);
    if (status != 0 && status != 1) find(j, failing, "exit status", number);
    if (shared->leaked) find(j, failing, "leaks", "");
    look_at_words(j, failing, status);
    look_at_files(j, failing, status);
    return 0;
}

#if defined(__SANITIZE_ADDRESS__)
enum { IS_SANITIZED = 1 };
#else
enum { IS_SANITIZED = 0 };
#endif

// All ---------------------------------------------------------------------------------------------------------

#define FIT "kmgen", "fit", "--threads", "1", "--cache-dir", "../cache", "-k", "2..4"
#define SCORE(table) "kmgen", "score", table, "--labels", "../in/table.svm", "--threads", "1"
static const job jobs[] = {
    {"fit",
     1,
     {FIT, "../in/table.csv", "--json", "out.json", "--model", "out.model.json", "--labels", "out.labels.npy",
      "--centroids", "out.npy"}},
    {"plot", 0, {FIT, "../in/table.csv", "--plot", "out.svg"}},
    {"report", 0, {FIT, "../in/table.csv", "--report", "out.html"}},
    {"predict",
     1,
     {"kmgen", "predict", "../in/model.json", "../in/table.csv", "--labels", "out.npy", "--threads", "1"}},
    {"score",
     1,
     {"kmgen", "score", "../in/table.csv", "--labels", "../in/labels.csv", "--json", "out.json", "--threads",
      "1"}},
    {"svmlight", 1, {SCORE("../in/table.svm"), "--columns", "3,label,1"}},
    {"mtx", 0, {SCORE("../in/table.mtx")}},
    {"npz", 0, {SCORE("../in/csr.npz")}},
    {"csc", 0, {SCORE("../in/csc.npz")}},
    {"criteria", 0, {FIT, "../in/table.npy", "--criteria", "all", "--n-init", "3"}},
    {"emit", 1, {"kmgen", "emit", "../in/spec.yaml", "-o", "."}},
    {"explain", 1, {"kmgen", "explain", "../in/spec.yaml"}},
    {"tuned", 1, {"kmgen", "explain", "../in/spec.yaml", "--tuning", "../in/tuning.yaml"}},
    {"devices", 0, {"kmgen", "explain", "../in/spec.yaml", "--device"}},
    {"lloyd", 0, {FIT, "../in/table.npy", "--algorithm", "lloyd", "--n-init", "3"}},
    {"tiles", 0, {FIT, "../in/table.npy", "--algorithm", "tiles", "--n-init", "3"}},
    {"hamerly", 0, {FIT, "../in/table.npy", "--algorithm", "hamerly", "--type", "f64"}},
    {"elkan", 0, {FIT, "../in/table.npy", "--algorithm", "elkan", "--scale", "standard"}},
    {"lanes", 0, {FIT, "../in/table.npy", "--set", "design=lanes", "--min-changes", "1"}},
    {"gemm", 0, {FIT, "../in/table.npy", "--set", "design=gemm"}},
    {"gap",
     0,
     {FIT, "../in/table.csv", "--criteria", "gap", "--gap-box", "principal", "--gap-references", "2"}},
    {"packed", 0, {FIT, "../in/table.csv.gz", "--columns", "1,3", "--nan", "drop", "--init", "random"}},
    {"weights", 0, {FIT, "../in/table.csv", "--weights", "../in/weights.csv", "--plot", "out.png"}},
    {"cosine",
     0,
     {FIT, "../in/table.csv", "--metric", "cosine", "--missing", "drop", "-o", "out.csv", "--weights",
      "../in/weights.csv"}},
    {"cosine of a sparse table",
     0,
     {FIT, "../in/table.svm", "--scale", "unit", "--layout", "csr", "--missing", "drop"}},
    {"spec", 0, {FIT, "../in/cpu.yaml", "../in/table.csv", "--labels", "out.npy", "--labels-of", "all"}},
    {"threads",
     0,
     {"kmgen", "fit", "--threads", "2", "--cache-dir", "../cache", "-k", "2..9", "../in/table.npy",
      "--algorithm", "tiles"}},
    {"dry run", 0, {FIT, "../in/table.csv", "--dry-run"}},
};

static void write_text(const char *path, const char *text, int64_t size) {
    FILE *file = fopen(path, "wb");
    must(file && fwrite(text, 1, (size_t)size, file) == (size_t)size && !fclose(file), path);
}

// ../in/NAME: a copy of the file in the folder sparse beside the table.
static void copy_beside(const char *table, const char *name) {
    static char bytes[1 << 14];
    char path[512];
    snprintf(path, sizeof path, "%.*ssparse/%s", (int)(strrchr(table, '/') + 1 - table), table, name);
    FILE *file = fopen(path, "rb");
    must(file != NULL, path);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);
    snprintf(path, sizeof path, "../in/%s", name);
    write_text(path, bytes, (int64_t)size);
}

// A tuning table whose one entry serves spec.yaml.
static void write_tuning(const char *path) {
    char text[512], hash[17];
    km_templates_hash(hash, KM_DESIGN_REGISTERS, (km_target){KM_TARGET_CUDA, 90});
    int size =
        snprintf(text, sizeof text,
                 "kmgen tuning: 1\ndevice: NVIDIA H200\ntarget: cuda:sm_90\nentries:\n  - features: 4\n"
                 "    clusters: [2, 3, 4, 5, 6, 7, 8, 9]\n    type: float32\n    points: 1000\n"
                 "    plan: {design: registers}\n    ms: 1.0\n    templates: %s\n",
                 hash);
    write_text(path, text, size);
}

// The inputs of the jobs, in ../in.
static void make_inputs(const char *table) {
    static char text[1 << 16], weights[1 << 16];
    static double values[600];
    int64_t size = slurp(text, sizeof text, table), rows = 0, filled = 0;
    must(size > 0, table);
    must(!mkdir("../in", 0700) && !mkdir("../cache", 0700) && !mkdir("../whole", 0700), "mkdir");
    write_text("../in/table.csv", text, size);
    must(system("gzip -k ../in/table.csv") == 0, "table.csv.gz");
    for (const char *line = strchr(text, '\n'); line && line[1]; line = strchr(line + 1, '\n'), rows++)
        filled += snprintf(weights + filled, 4, "1\n");
    write_text("../in/weights.csv", weights, filled);
    for (int64_t i = 0; i < filled; i += 6) weights[i] = '0';
    write_text("../in/labels.csv", weights, filled);
    for (int i = 0; i < 600; i++) values[i] = (i * 7919 % 600) / 7.0 + i / 2 % 3 * 100;
    must(km_npy_write("../in/table.npy", values, 300, 2, "<f8", NULL) == KM_OK, "table.npy");
    // Rows and entries in no order.
    static const char
        svm[] = "1 3:1 1:2\n2 2:5\n\n1 1:2 3:1\n2 2:4\n1\n2 2:7\n",
        mtx[] = "%%MatrixMarket matrix coordinate real general\n6 3 5\n2 1 1\n1 2 3\n6 3 1\n5 2 1\n1 1 1\n";
    write_text("../in/table.svm", svm, sizeof svm - 1);
    write_text("../in/table.mtx", mtx, sizeof mtx - 1);
    copy_beside(table, "csr.npz");
    copy_beside(table, "csc.npz");
    static const char spec[] = "name: out\nfeatures: 4\nclusters: 2..9\ntarget: cuda:sm_90\n",
                      cpu[] = "type: float64\nn_init: 2\n";
    write_text("../in/spec.yaml", spec, sizeof spec - 1);
    write_text("../in/cpu.yaml", cpu, sizeof cpu - 1);
    write_tuning("../in/tuning.yaml");
    const job model = {"model", 1, {FIT, "../in/table.csv", "--model", "../in/model.json"}};
    must(run(&model, 0, 0) == 0, "cannot make a model");
}

// Each output of a run with enough memory goes to ../whole.
static void keep_outputs(const job *j) {
    put_old_files(j);
    must(run(j, 0, 0) == 0 && !shared->leaked, "a run with enough memory failed"); // fills the cache too
    DIR *folder = opendir(".");
    must(folder != NULL, "opendir");
    for (const struct dirent *entry; (entry = readdir(folder));) {
        char path[300];
        snprintf(path, sizeof path, "../whole/%s", entry->d_name);
        if (entry->d_name[0] != '.') must(rename(entry->d_name, path) == 0, path);
    }
    closedir(folder);
}

static void work(const job *j, int all) {
    keep_outputs(j);
    // A sanitizer looks for leaks after each run, which takes longer than all the rest.
    int64_t n = 1, step = IS_SANITIZED && !all ? 16 : 1;
    while (!try_one(j, n, n)) n += step;
    for (int64_t m = 1; all && !try_one(j, m, INT64_MAX); m++) continue;
    printf("%s: %lld allocations\n", j->name, (long long)n - 1);
    fflush(stdout);
}

// This build has all that the job needs.
static int is_built(const job *j) {
    for (int i = 0; j->arguments[i]; i++) {
        if (strcmp(j->arguments[i], "--plot") == 0 && !km_built_with(KM_PART_CAIRO)) return 0;
        if (strstr(j->arguments[i], ".npz") && !km_built_with(KM_PART_LIBARCHIVE)) return 0;
        if (strstr(j->arguments[i], ".gz") && !km_built_with(KM_PART_ZLIB)) return 0;
    }
    return 1;
}

int __wrap_main(int argc, char **argv) {
    if (argc != 2) {
        fputs("usage: test_allocation TABLE.csv\n", stderr);
        return 2;
    }
    char folder[] = "/tmp/kmgen-allocation.XXXXXX", remove[64];
    char *table = realpath(argv[1], NULL);
    must(table && mkdtemp(folder) && !chdir(folder) && !mkdir("out", 0700) && !chdir("out"),
         "no folder to work in");
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    must(shared != MAP_FAILED, "mmap");
    make_inputs(table);
    const char *all = getenv("KMGEN_TEST_ALL");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        if (is_built(&jobs[i]) && (jobs[i].is_short || (all && *all))) work(&jobs[i], all && *all);
    printf("%lld findings\n", (long long)findings);
    free(table);
    snprintf(remove, sizeof remove, "rm -rf %s", folder);
    return findings > 0 || system(remove) != 0;
}
