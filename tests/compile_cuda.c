// SPDX-License-Identifier: MIT
// Every spec's CUDA text through NVRTC, as the engine calls it, for each architecture that it knows; needs no GPU.
// Fails on warnings, and where any kernel spills; prints registers beside the plan's.
// With KMGEN_TEST_ALL=1 all texts are compiled. Else so many that each line of any text is in one of them, whatever its
// numbers, and each architecture has one; and the steps with so many of these that each line of any is in one of them.
// A text that differs from another one by its head of comments alone is left out. The steps around the pass are a good
// part of the time and know nothing of the K list or the design: where an architecture has compiled the same ones, a
// text goes without them. What passed is written down in WORK_FOLDER/passed, with what the compiler said, under a hash
// of text, architecture, compiler and options: the same text is not compiled twice.
// usage: compile_cuda WORK_FOLDER SPECS_FOLDER... [ARCHITECTURE...]    (90 stands for sm_90)
// KMGEN_NVRTC names the folder of libnvrtc; without it, any that is found is taken. Without NVRTC: exit 77, or 1 with
// CI=true.
#include "cover.h"
#include "gen/design.h"
#include "gen/source.h"
#include "runtime/cuda/driver.h"
#include "runtime/file.h"
#include "specs.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

static const int all_arches[] = {75, 80, 86, 89, 90, 100, 120};
enum { ARCHES_COUNT = sizeof all_arches / sizeof *all_arches, JOBS_MAX = 4096, WORKERS_MAX = 16 };

// What ptxas says of the kernels of a file.
typedef struct kernel_facts {
    int kernels, warnings;
    int registers_max, pass_registers_max; // of all kernels, of those that the table of the pass names
    int spilled_bytes;
    char spilling[256]; // the last kernel that does
} kernel_facts;

typedef struct job {
    km_source source; // its text without the steps, where `steps_elsewhere`
    int arch, weighted, track_labels, steps_elsewhere;
    char key[40]; // in the list of what passed
} job;

static job jobs[JOBS_MAX];
static int jobs_count, same_count, not_taken_count;
static int arches[ARCHES_COUNT], arches_count;

// NVRTC 12.8 is the first that knows sm_100 and sm_120.
static int knows(const km_nvrtc *nvrtc, int arch) {
    return arch < 100 || nvrtc->major * 100 + nvrtc->minor >= 1208;
}

// The steps that do not depend on the K list: behind the first line of templates/cuda/steps/steps.cu, from the first
// line of load.cu to that of update.cu, which comes last.
static int find_steps(char **begin, char **end, const char *text) {
    const char *steps = strstr(text, "\n// Steps around the pass, the same for every design.");
    *begin = steps ? strstr(steps, "\n// Load: ") : NULL;
    *end = *begin ? strstr(*begin, "\n// Update: ") : NULL;
    return !*end;
}

static int is_elsewhere(const job *added) {
    for (const job *before = jobs; before < added; before++)
        if (before->arch == added->arch &&
            !strcmp(km_source_code(before->source.text), km_source_code(added->source.text)))
            return 1;
    return 0;
}

// Whether the steps name what the K list or the design decides: then they are compiled with every text.
static int steps_know_the_list(const char *begin, const char *end) {
    static const char *const names[] = {"S", "KS", "K_MAX", "RESTARTS", "km_ks", "km_offsets", "km_label"};
    while (begin < end) {
        size_t length = strspn(begin, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789");
        for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
            if (length == strlen(names[i]) && !memcmp(begin, names[i], length)) return 1;
        begin += length ? length : 1;
    }
    return 0;
}

// Whether a job before this one compiles its steps: the same text, with all that it refers to.
static int steps_are_in(const job *before, const job *added, const char *begin, const char *end) {
    const km_plan *a = &before->source.plan, *b = &added->source.plan;
    char *found, *found_end;
    if (before->steps_elsewhere || find_steps(&found, &found_end, before->source.text)) return 0;
    return before->arch == added->arch && a->spec.features == b->spec.features &&
           a->spec.type == b->spec.type && before->weighted == added->weighted &&
           found_end - found == end - begin && !memcmp(found, begin, (size_t)(end - begin));
}

static int leave_out_steps(job *added) {
    char *begin, *end;
    if (km_plan_is_csr(&added->source.plan)) return 0; // its steps use types of the pass
    if (find_steps(&begin, &end, added->source.text)) {
        fprintf(stderr, "%s: the first lines of templates/cuda/steps/load.cu and update.cu are not in it\n",
                added->source.file_name);
        return 1;
    }
    if (steps_know_the_list(begin, end)) return 0;
    for (const job *before = jobs; before < added && !added->steps_elsewhere; before++)
        added->steps_elsewhere = steps_are_in(before, added, begin, end);
    if (added->steps_elsewhere) memmove(begin, end, strlen(end) + 1);
    return 0;
}

// Leaves out the host part and what goes with it, which NVRTC does not see: of all texts but the first of each
// architecture, which shows that it does not.
static int leave_out_host(job *added) {
    char *kernels;
    int64_t size;
    for (const job *before = jobs;; before++) {
        if (before == added) return 0;
        if (before->arch == added->arch) break;
    }
    km_error err = {{0}};
    if (km_source_kernels(&kernels, &size, added->source.text, &err) != KM_OK) return 1;
    km_text_free(added->source.text);
    added->source.text = kernels;
    added->source.text_size = size;
    return 0;
}

static int add_job(const km_spec *spec, int arch, int weighted, int track_labels) {
    if (jobs_count == JOBS_MAX) return 1;
    job *added = &jobs[jobs_count];
    km_plan_params params;
    km_plan_params_init(&params);
    params.weighted = added->weighted = weighted;
    params.track_labels = added->track_labels = track_labels;
    added->arch = arch;
    km_source_init(&added->source);
    if (specs_emit(&added->source, spec, (km_target){KM_TARGET_CUDA, arch}, &params)) return 1;
    if (leave_out_host(added)) return 1;
    if (is_elsewhere(added)) {
        same_count++;
        km_source_clear(&added->source);
    } else {
        jobs_count++;
    }
    return 0;
}

// The longest first, so that no worker is left with one at the end: about as many lines as sums.
static int by_length(const void *a, const void *b) {
    const km_plan *x = &((const job *)a)->source.plan, *y = &((const job *)b)->source.plan;
    int64_t x_sums = x->clusters_sum * x->spec.features, y_sums = y->clusters_sum * y->spec.features;
    return x_sums < y_sums ? 1 : x_sums > y_sums ? -1 : 0;
}

// Weights and labels between passes are other text; one architecture and these shapes show whether it compiles. Some of
// them are of few sums, as the short form takes the cheapest.
static int has_variants(const km_spec *spec, int arch) {
    static const char *const names[] = {"small", "wide",           "high_d",        "high_d300", "float64",
                                        "tiny",  "paper_d32_k3_5", "paper_d8_k3_7", "few_points"};
    for (size_t i = 0; arch == 90 && i < sizeof names / sizeof *names; i++)
        if (!strcmp(spec->name, names[i])) return 1;
    return 0;
}

static int add_jobs(void *user, const km_spec *spec) {
    int failures = 0;
    if (!specs_means(spec, KM_TARGET_CUDA)) return 0;
    for (int i = 0; i < arches_count; i++) {
        if (spec->target.arch && spec->target.arch != arches[i]) continue;
        if (!knows(user, arches[i])) continue;
        failures += add_job(spec, arches[i], 0, 0);
        for (int v = 1; v < 4 && has_variants(spec, arches[i]); v++)
            failures += add_job(spec, arches[i], v & 1, v >> 1);
    }
    return failures;
}

// A covering set -------------------------------------------------------------------------------------------------

// Then the cheapest of each architecture that has none.
static int first_without(const cover_lines *lines, const char *taken) {
    int best = -1;
    for (int i = 0; i < jobs_count; i++) {
        int has_one = 0;
        for (int j = 0; j < jobs_count; j++) has_one |= taken[j] && jobs[j].arch == jobs[i].arch;
        if (!has_one && (best < 0 || lines[i].cost < lines[best].cost)) best = i;
    }
    return best;
}

// About what a text costs to compile: straight lines of code grow with the sums, the loops of tiled kernels do not.
static double cost_of(const job *j) {
    const km_plan *plan = &j->source.plan;
    double sums = (double)(plan->clusters_sum * plan->spec.features);
    if (plan->design == KM_DESIGN_TILED) return 700;
    return 300 + (sums < 1700 ? sums : 1700);
}

// The lines of a text's steps, none where they are compiled with each text.
static int read_steps(cover_lines *lines, const job *of) {
    char *begin, *end;
    *lines = (cover_lines){0};
    if (find_steps(&begin, &end, of->source.text) || steps_know_the_list(begin, end)) return 0;
    char *text = strndup(begin, (size_t)(end - begin));
    int failed = !text || cover_read(lines, text, "");
    free(text);
    return failed;
}

// Of the texts, a covering set keeps its steps: one of the oldest architecture, and those that have more.
static int cover_steps(void) {
    static char taken[JOBS_MAX];
    static cover_lines lines[JOBS_MAX];
    int oldest = -1, failures = 0;
    for (int i = 0; i < jobs_count; i++) {
        failures += read_steps(&lines[i], &jobs[i]);
        jobs[i].steps_elsewhere = lines[i].count > 0;
        if (lines[i].count && (oldest < 0 || jobs[i].arch < jobs[oldest].arch)) oldest = i;
    }
    for (int next = oldest; !failures && next >= 0; next = cover_next(lines, taken, jobs_count)) {
        cover_take(lines, taken, jobs_count, next);
        jobs[next].steps_elsewhere = 0;
    }
    for (int i = 0; i < jobs_count; i++) free(lines[i].hashes);
    return failures;
}

// Keeps a covering set of all.
static int keep_cover(void) {
    static char taken[JOBS_MAX];
    static cover_lines lines[JOBS_MAX];
    int kept = 0, failures = 0;
    for (int i = 0; i < jobs_count; i++)
        failures += cover_read(&lines[i], km_source_code(jobs[i].source.text), "");
    for (int i = 0; i < jobs_count; i++) lines[i].cost = cost_of(&jobs[i]);
    for (int next; !failures && (next = cover_next(lines, taken, jobs_count)) >= 0;)
        cover_take(lines, taken, jobs_count, next);
    for (int next; !failures && (next = first_without(lines, taken)) >= 0;) taken[next] = 1;
    for (int i = 0; i < jobs_count; i++) {
        free(lines[i].hashes);
        if (taken[i])
            jobs[kept++] = jobs[i];
        else
            km_source_clear(&jobs[i].source);
    }
    not_taken_count = jobs_count - kept;
    jobs_count = kept;
    return failures;
}

// What the compiler says ------------------------------------------------------------------------------------

// The table of launches holds the names of the pass's kernels as strings; the other steps' are the engine's.
static int is_of_pass(const char *source, const char *name) {
    char quoted[300];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    return strstr(source, quoted) != NULL;
}

// `name`: of the kernel that the lines are about.
static void read_line(kernel_facts *facts, char name[256], const char *source, const char *line) {
    int registers, stores, loads;
    const char *kernel = strstr(line, "Function properties for "), *used = strstr(line, "Used ");
    const char *spill = strstr(line, "bytes stack frame, ");
    facts->warnings += strstr(line, "warning") != NULL;
    if (kernel) sscanf(kernel, "Function properties for %255s", name);
    if (spill && sscanf(spill, "bytes stack frame, %d bytes spill stores, %d bytes spill loads", &stores,
                        &loads) == 2) {
        facts->spilled_bytes += stores + loads;
        if (stores + loads > 0) memcpy(facts->spilling, name, sizeof facts->spilling);
    }
    if (!used || sscanf(used, "Used %d registers", &registers) != 1) return;
    facts->kernels++;
    if (registers > facts->registers_max) facts->registers_max = registers;
    if (registers > facts->pass_registers_max && is_of_pass(source, name))
        facts->pass_registers_max = registers;
}

static kernel_facts read_log(const char *source, const char *log) {
    kernel_facts facts = {0};
    char name[256] = "";
    for (const char *line = log; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char text[1024];
        snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
        read_line(&facts, name, source, text);
    }
    return facts;
}

static int judge(const job *j, kernel_facts facts, const char *log) {
    const km_source *source = &j->source;
    km_design design = source->plan.design;
    int failed = facts.warnings || !facts.pass_registers_max || facts.spilled_bytes;
    printf("%-16s sm_%d%s%s %s, pass: %d registers (planned %d); %s %d kernels: %d registers, %d bytes "
           "spilled%s%s%s%s\n",
           source->plan.spec.name, j->arch, j->weighted ? " weighted" : "", j->track_labels ? " tracked" : "",
           km_design_name(design), facts.pass_registers_max,
           (int)source->plan.estimates[design].registers_per_thread,
           j->steps_elsewhere ? "without the shared steps" : "all", facts.kernels, facts.registers_max,
           facts.spilled_bytes, facts.spilled_bytes ? " by " : "", facts.spilling, log ? "" : ", as before",
           failed ? ": FAILED" : "");
    if (failed && log) printf("%s\n", log);
    return failed;
}

static int write_source(const char *path, const km_source *source) {
    FILE *file = fopen(path, "wb");
    int failed = !file || fputs(source->text, file) < 0;
    if (file && fclose(file)) failed = 1;
    return failed;
}

static char *read_text(const char *path) {
    char *text = calloc(1, 1 << 20);
    FILE *file = fopen(path, "rb");
    if (text && file) text[fread(text, 1, (1 << 20) - 1, file)] = 0;
    if (file) fclose(file);
    return text;
}

// What passed ---------------------------------------------------------------------------------------------------

static char *passed; // the list, as it was at the start

static void key_of(job *j, const km_nvrtc *nvrtc) {
    char id[300];
    struct stat library; // its size tells two versions with the same two numbers apart
    km_nvrtc_id(id, 256, nvrtc, j->arch);
    if (stat(nvrtc->path, &library) == 0)
        snprintf(id + strlen(id), sizeof id - strlen(id), " %lld", (long long)library.st_size);
    const char *code = km_source_code(j->source.text);
    XXH128_hash_t hash = XXH3_128bits_withSeed(code, strlen(code), XXH3_64bits(id, strlen(id)));
    snprintf(j->key, sizeof j->key, "%016llx%016llx", (unsigned long long)hash.high64,
             (unsigned long long)hash.low64);
}

static int has_passed(const job *j, kernel_facts *facts) {
    const char *line = passed ? strstr(passed, j->key) : NULL;
    *facts = (kernel_facts){0};
    return line && sscanf(line + strlen(j->key), " %d %d %d %d %d", &facts->kernels, &facts->warnings,
                          &facts->registers_max, &facts->pass_registers_max, &facts->spilled_bytes) == 5;
}

// One line in one call, so that processes do not mix theirs.
static int write_down(const char *folder, const job *j, const kernel_facts *facts) {
    char path[4096], line[200];
    snprintf(path, sizeof path, "%s/passed", folder);
    int size = snprintf(line, sizeof line, "%s %d %d %d %d %d %s sm_%d\n", j->key, facts->kernels,
                        facts->warnings, facts->registers_max, facts->pass_registers_max,
                        facts->spilled_bytes, j->source.plan.spec.name, j->arch);
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT, 0666);
    int failed = file < 0 || write(file, line, (size_t)size) != size;
    if (file >= 0) close(file);
    return failed;
}

// All of it -------------------------------------------------------------------------------------------------

static int run_job(const km_nvrtc *nvrtc, const job *j, const char *folder) {
    char stem[3900], source_path[4096], log_path[4096], cubin_path[4096];
    km_error err = {{0}};
    kernel_facts facts;
    if (has_passed(j, &facts)) return judge(j, facts, NULL);
    snprintf(stem, sizeof stem, "%s/nvrtc%d.%d_%s_sm_%d%s%s", folder, nvrtc->major, nvrtc->minor,
             j->source.plan.spec.name, j->arch, j->weighted ? "_weighted" : "",
             j->track_labels ? "_tracked" : "");
    snprintf(source_path, sizeof source_path, "%s.cu", stem);
    snprintf(log_path, sizeof log_path, "%s.log", stem);
    snprintf(cubin_path, sizeof cubin_path, "%s.cubin", stem);
    if (write_source(source_path, &j->source)) {
        fprintf(stderr, "cannot write %s\n", source_path);
        return 1;
    }
    int failed = km_nvrtc_compile(nvrtc, j->arch, source_path, cubin_path, log_path, &err) != KM_OK;
    char *log = read_text(log_path);
    if (failed) {
        printf("%s: FAILED\n%s\n", err.text, log ? log : "");
    } else if (log) {
        facts = read_log(j->source.text, log);
        failed = judge(j, facts, log) || write_down(folder, j, &facts);
    }
    failed |= !log;
    unlink(cubin_path);
    free(log);
    fflush(stdout);
    return failed;
}

// A process of its own, as NVRTC compiles one text at a time. Takes the next job until none is left.
static int work(int *next, const char *folder, const km_nvrtc *nvrtc) {
    int failures = 0;
    for (int i; (i = __atomic_fetch_add(next, 1, __ATOMIC_RELAXED)) < jobs_count;)
        failures += run_job(nvrtc, &jobs[i], folder);
    return failures;
}

static int run_jobs(const km_nvrtc *nvrtc, const char *folder) {
    int failures = 0;
    long workers_count = sysconf(_SC_NPROCESSORS_ONLN);
    if (workers_count > WORKERS_MAX) workers_count = WORKERS_MAX;
    int *next = mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (next == MAP_FAILED) return 1;
    fflush(stdout);
    pid_t workers[WORKERS_MAX];
    for (int w = 0; w < workers_count; w++) {
        workers[w] = fork();
        if (workers[w] == 0) _exit(work(next, folder, nvrtc) != 0);
    }
    for (int w = 0; w < workers_count; w++) {
        int status = 0;
        if (workers[w] < 0 || waitpid(workers[w], &status, 0) < 0 || !WIFEXITED(status) ||
            WEXITSTATUS(status))
            failures++;
    }
    return failures + (workers_count < 1);
}

// The NVRTC that is named and no other, where one is.
static int open_nvrtc(km_nvrtc *nvrtc) {
    km_error err = {{0}};
    const char *ci = getenv("CI"), *folder = getenv("KMGEN_NVRTC");
    if (folder && !folder[0]) folder = NULL;
    km_status status = km_nvrtc_open(nvrtc, folder, 0, &err);
    if (status == KM_OK && (!folder || !strncmp(nvrtc->path, folder, strlen(folder)))) return 0;
    if (status == KM_OK)
        fprintf(stderr, "no NVRTC below %s; scripts/test fetches it\n", folder);
    else
        fprintf(stderr, "%s\n", err.text);
    return ci && !strcmp(ci, "true") ? 1 : 77;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fputs("usage: compile_cuda WORK_FOLDER SPECS_FOLDER... [ARCHITECTURE...]\n", stderr);
        return 2;
    }
    km_nvrtc nvrtc;
    const char *all = getenv("KMGEN_TEST_ALL"), *folder = argv[1];
    int failures = 0, closed = open_nvrtc(&nvrtc);
    if (closed) return closed;
    printf("NVRTC %d.%d in %s\n", nvrtc.major, nvrtc.minor, nvrtc.path);
    int folders_end = argc;
    while (isdigit((unsigned char)argv[folders_end - 1][0])) folders_end--;
    for (int i = folders_end; i < argc && arches_count < ARCHES_COUNT; i++)
        arches[arches_count++] = atoi(argv[i]);
    if (!arches_count) memcpy(arches, all_arches, sizeof arches);
    if (!arches_count) arches_count = ARCHES_COUNT;
    for (int i = 2; i < folders_end; i++) failures += specs_walk(argv[i], add_jobs, &nvrtc);
    int is_short = !all || strcmp(all, "1") != 0;
    if (is_short) failures += keep_cover() + cover_steps();
    for (int i = 0; i < jobs_count; i++) failures += leave_out_steps(&jobs[i]);
    qsort(jobs, (size_t)jobs_count, sizeof jobs[0], by_length);
    for (int i = 0; i < jobs_count; i++) key_of(&jobs[i], &nvrtc);
    char path[4096];
    snprintf(path, sizeof path, "%s/passed", folder);
    km_file_read(&passed, &(int64_t){0}, path, 0, NULL);
    int without = 0;
    for (int i = 0; i < jobs_count; i++) without += jobs[i].steps_elsewhere;
    printf(
        "%d texts, %d of them without steps that another one has; left out: %d that others are the same as, "
        "%d whose lines others have\n",
        jobs_count, without, same_count, not_taken_count);
    failures += run_jobs(&nvrtc, folder);
    puts(failures ? "FAILED" : "none failed");
    for (int i = 0; i < jobs_count; i++) km_source_clear(&jobs[i].source);
    free(passed);
    km_nvrtc_close(&nvrtc);
    return failures || !jobs_count;
}
