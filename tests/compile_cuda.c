// SPDX-License-Identifier: MIT
// Every spec's CUDA text through NVRTC, as the engine calls it, for each architecture; needs no GPU. Fails on
// warnings, and where any kernel spills; prints registers beside the plan's.
// A text that differs from another one by its head of comments alone is left out. The steps around the pass are a good
// part of the time and know nothing of the K list or the design: where an architecture has compiled the same ones, a
// text goes without them.
// usage: compile_cuda SPECS_FOLDER WORK_FOLDER [ARCHITECTURE...]    (90 stands for sm_90)
// KMGEN_NVRTC names the folder of libnvrtc where it is in no usual place. Without NVRTC: exit 77, or 1 with
// CI=true.
#include "gen/source.h"
#include "runtime/cuda/driver.h"
#include "specs.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static const int all_arches[] = {75, 80, 86, 89, 90, 100, 120};
enum { ARCHES_COUNT = sizeof all_arches / sizeof *all_arches, JOBS_MAX = 4096, WORKERS = 2 };

typedef struct job {
    km_source source; // its text without the steps, where `steps_elsewhere`
    int arch, weighted, track_labels, steps_elsewhere;
} job;

static job jobs[JOBS_MAX];
static int jobs_count, same_count;
static int arches[ARCHES_COUNT], arches_count;

// NVRTC 12.8 is the first that knows sm_100 and sm_120.
static int knows(const km_nvrtc *nvrtc, int arch) {
    return arch < 100 || nvrtc->major * 100 + nvrtc->minor >= 1208;
}

// The steps that do not depend on the K list: behind the first line of templates/steps.cu, from the first line of
// load.cu to that of update.cu, which comes last.
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
    static const char *const names[] = {"S", "KS", "K_MAX", "COPIES", "km_ks", "km_offsets", "km_label"};
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
    if (find_steps(&begin, &end, added->source.text)) {
        fprintf(stderr, "%s: the first lines of templates/load.cu and update.cu are not in it\n",
                added->source.file_name);
        return 1;
    }
    if (steps_know_the_list(begin, end)) return 0;
    for (const job *before = jobs; before < added && !added->steps_elsewhere; before++)
        added->steps_elsewhere = steps_are_in(before, added, begin, end);
    if (added->steps_elsewhere) memmove(begin, end, strlen(end) + 1);
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

// Weights and labels between passes are other text; one architecture and these shapes show whether it compiles.
static int has_variants(const km_spec *spec, int arch) {
    static const char *const names[] = {"small", "wide", "high_d", "float64", "tiny"};
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

// What ptxas says of the kernels of a file.
typedef struct kernel_facts {
    int kernels, warnings;
    int registers_max, pass_registers_max; // of all kernels, of those that the table of the pass names
    int spilled_bytes;
    char spilling[256]; // the last kernel that does
} kernel_facts;

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

static int judge(const job *j, const char *log) {
    const km_source *source = &j->source;
    kernel_facts facts = read_log(source->text, log);
    km_design design = source->plan.design;
    int failed = facts.warnings || !facts.pass_registers_max || facts.spilled_bytes;
    printf("%-16s sm_%d%s%s %s, pass: %d registers (planned %d); %s %d kernels: %d registers, %d bytes "
           "spilled%s%s%s\n",
           source->plan.spec.name, j->arch, j->weighted ? " weighted" : "", j->track_labels ? " tracked" : "",
           km_design_name(design), facts.pass_registers_max,
           (int)source->plan.estimates[design].registers_per_thread,
           j->steps_elsewhere ? "without the shared steps" : "all", facts.kernels, facts.registers_max,
           facts.spilled_bytes, facts.spilled_bytes ? " by " : "", facts.spilling, failed ? ": FAILED" : "");
    if (failed) printf("%s\n", log);
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

static int run_job(const km_nvrtc *nvrtc, const job *j, const char *folder) {
    char stem[3900], source_path[4096], log_path[4096], cubin_path[4096];
    km_error err = {{0}};
    snprintf(stem, sizeof stem, "%s/%s_sm_%d%s%s", folder, j->source.plan.spec.name, j->arch,
             j->weighted ? "_weighted" : "", j->track_labels ? "_tracked" : "");
    snprintf(source_path, sizeof source_path, "%s.cu", stem);
    snprintf(log_path, sizeof log_path, "%s.log", stem);
    snprintf(cubin_path, sizeof cubin_path, "%s.cubin", stem);
    if (write_source(source_path, &j->source)) {
        fprintf(stderr, "cannot write %s\n", source_path);
        return 1;
    }
    int failed = km_nvrtc_compile(nvrtc, j->arch, source_path, cubin_path, log_path, &err) != KM_OK;
    char *log = read_text(log_path);
    if (failed)
        printf("%s: FAILED\n%s\n", err.text, log ? log : "");
    else
        failed = !log || judge(j, log);
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

int main(int argc, char **argv) {
    if (argc < 3) {
        fputs("usage: compile_cuda SPECS_FOLDER WORK_FOLDER [ARCHITECTURE...]\n", stderr);
        return 2;
    }
    km_nvrtc nvrtc;
    km_error err = {{0}};
    const char *ci = getenv("CI");
    if (km_nvrtc_open(&nvrtc, getenv("KMGEN_NVRTC"), 0, &err) != KM_OK) {
        fprintf(stderr, "%s\n", err.text);
        return ci && !strcmp(ci, "true") ? 1 : 77;
    }
    printf("NVRTC %d.%d\n", nvrtc.major, nvrtc.minor);
    for (int i = 3; i < argc && arches_count < ARCHES_COUNT; i++) arches[arches_count++] = atoi(argv[i]);
    if (!arches_count) memcpy(arches, all_arches, sizeof arches);
    if (!arches_count) arches_count = ARCHES_COUNT;
    int failures = specs_walk(argv[1], add_jobs, &nvrtc);
    for (int i = 0; i < jobs_count; i++) failures += leave_out_steps(&jobs[i]);
    qsort(jobs, (size_t)jobs_count, sizeof jobs[0], by_length);
    int *next = mmap(NULL, sizeof *next, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (next == MAP_FAILED) return 1;
    fflush(stdout);
    pid_t workers[WORKERS];
    for (int w = 0; w < WORKERS; w++) {
        workers[w] = fork();
        if (workers[w] == 0) return work(next, argv[2], &nvrtc) != 0;
    }
    for (int w = 0; w < WORKERS; w++) {
        int status = 0;
        if (workers[w] < 0 || waitpid(workers[w], &status, 0) < 0 || !WIFEXITED(status) ||
            WEXITSTATUS(status))
            failures++;
    }
    int without = 0;
    for (int i = 0; i < jobs_count; i++) without += jobs[i].steps_elsewhere;
    printf("%d texts compiled, %d of them without steps that another one has, %d left out that others are "
           "the same as, "
           "%s\n",
           jobs_count, without, same_count, failures ? "FAILED" : "none failed");
    for (int i = 0; i < jobs_count; i++) km_source_clear(&jobs[i].source);
    km_nvrtc_close(&nvrtc);
    return failures || !jobs_count;
}
