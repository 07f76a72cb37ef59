// SPDX-License-Identifier: MIT
// Every spec's CUDA text through NVRTC, as the engine calls it, for each architecture that it knows; needs no GPU.
// Fails on warnings, and where any kernel spills more than a table here knows of; prints registers beside the plan's.
// Texts are compiled in the parts that the library compiles apart (gen/source.h); a short one as a whole shows that
// NVRTC does not see the host part. Parts of the same text are compiled once, and of all parts
//   with KMGEN_TEST_ALL=1 those of sm_90 without weights; of each architecture the largest of each form, and launches
//     of passes, which fill registers, but for those that an architecture of the same family has;
//   else so many that each line of any is in one of them, whatever its numbers, and each architecture has a pass. An
//     NVRTC that can compile without optimising does so then; of an older one, machine code of so many that each line
//     of assembly is in one, and PTX of the rest. It fails on warnings, and spills are for the others;
//   with `largest` the largest pass of each design, without weights: whether a user's fit has the plan that it should.
// A form: texts that are the same but for numbers. What passed is written down in WORK_FOLDER/passed, with what the
// compiler said, under a hash of text, architecture, compiler and options: the same text is not compiled twice.
// usage: compile_cuda WORK_FOLDER SPECS_FOLDER... [largest] [ARCHITECTURE...] [PART/PARTS]
//     (90 stands for sm_90; 2/3: every third text from the second on, where several machines share them)
// KMGEN_NVRTC names the folder of libnvrtc; without it, any that is found is taken. Without NVRTC: exit 77, or 1 with
// CI=true.
#include "cover.h"
#include "gen/cuda/subsets.h"
#include "gen/design.h"
#include "gen/source.h"
#include "runtime/cuda/driver.h"
#include "runtime/file.h"
#include "short_form.h"
#include "specs.h"

#include <ctype.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
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
    km_source source; // its text is the part's
    char part[24];    // "" for a text as a whole
    char *launches;   // of the whole text: its table of launches, which names the kernels of the pass
    int arch, weighted, track_labels;
    int is_quick; // compiled without optimising: its registers and spills say nothing
    int is_ptx;   // compiled to PTX alone, which has neither
    char key[40]; // in the list of what passed
} job;

static job jobs[JOBS_MAX];
static int jobs_count, same_count, not_taken_count;
static int arches[ARCHES_COUNT], arches_count;

// NVRTC 12.8 is the first that knows sm_100 and sm_120.
static int knows(const km_nvrtc *nvrtc, int arch) {
    return arch < 100 || nvrtc->major * 100 + nvrtc->minor >= 1208;
}

static int is_elsewhere(const job *added) {
    for (const job *before = jobs; before < added; before++)
        if (before->arch == added->arch &&
            !strcmp(km_source_code(before->source.text), km_source_code(added->source.text)))
            return 1;
    return 0;
}

static int is_pass(const job *j) {
    static const char name[] = KM_PASS_PART;
    size_t size = sizeof name - 1;
    return !j->part[0] || (!strncmp(j->part, name, size) && (!j->part[size] || j->part[size] == '/'));
}

static void clear_job(job *gone) {
    km_source_clear(&gone->source);
    free(gone->launches);
}

// Of a text without such a table, all of it.
static char *launches_of(const char *text) {
    const char *table = strstr(text, "km_pass_launches[] = {\n"), *end = table ? strstr(table, "\n};") : NULL;
    return end ? strndup(table, (size_t)(end - table)) : strdup(text);
}

// A copy of the text's plan with the text of one part; `text` is the job's from now on.
static int add_part(const km_source *source, const char *part, char *text, int arch, int weighted,
                    int track_labels) {
    km_error err = {{0}};
    job *added = &jobs[jobs_count];
    *added = (job){.arch = arch, .weighted = weighted, .track_labels = track_labels};
    km_source_init(&added->source);
    snprintf(added->part, sizeof added->part, "%s", part);
    snprintf(added->source.file_name, sizeof added->source.file_name, "%s", source->file_name);
    added->source.text = text;
    added->source.text_size = (int64_t)strlen(text);
    added->launches = launches_of(source->text);
    if (jobs_count == JOBS_MAX - 1 || !added->launches ||
        km_plan_copy(&added->source.plan, &source->plan, &err) != KM_OK)
        return 1;
    if (is_elsewhere(added)) {
        same_count++;
        clear_job(added);
    } else {
        jobs_count++;
    }
    return 0;
}

static int add_job(const km_spec *spec, int arch, int weighted, int track_labels) {
    km_source source;
    km_plan_params params;
    km_source_part parts[KM_SOURCE_PARTS_MAX];
    km_error err = {{0}};
    int64_t count = 0;
    int failed = 0;
    km_plan_params_init(&params);
    params.weighted = weighted;
    params.track_labels = track_labels;
    km_source_init(&source);
    if (specs_emit(&source, spec, (km_target){KM_TARGET_CUDA, arch}, &params) ||
        km_source_parts(parts, &count, source.text, &err) != KM_OK)
        failed = 1;
    if (!failed && arch == 90 && !weighted && !track_labels && !strcmp(spec->name, "small"))
        failed = add_part(&source, "", strdup(source.text), arch, weighted, track_labels);
    // The texts of the parts go over to the jobs.
    for (int64_t i = 0; i < count && !failed; i++)
        failed = add_part(&source, count > 1 ? parts[i].name : "pass", parts[i].text, arch, weighted,
                          track_labels);
    char *starter = NULL;
    if (!failed) failed = km_source_starter(&starter, &count, &source.plan, NULL, &err) != KM_OK;
    if (starter) failed |= add_part(&source, "starter", starter, arch, weighted, track_labels);
    km_source_clear(&source);
    return failed;
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

// Kernels for subsets of a table's columns (kmgen explore): those of pairs whose centroids are in registers, in shared
// memory, and the largest: one of each, in the whole form for sm_90 all.
static int add_subsets_of(int arch, km_type type, int weighted) {
    static const int32_t sizes[] = {1, 2, 3, 4, 6}, ks[] = {2, 3, 8, 10, 40, 100, 255};
    static const int32_t few_sizes[] = {2, 4}, few_ks[] = {3, 40, 255};
    km_subset_shapes shapes = {sizes, sizeof sizes / sizeof *sizes, ks, sizeof ks / sizeof *ks};
    if (!is_whole() || arch != 90)
        shapes = (km_subset_shapes){few_sizes, sizeof few_sizes / sizeof *few_sizes, few_ks,
                                    sizeof few_ks / sizeof *few_ks};
    km_error err = {{0}};
    km_spec spec;
    km_plan plan;
    km_plan_params params;
    km_source source;
    int32_t k = 8;
    km_spec_init(&spec);
    km_plan_init(&plan);
    km_plan_params_init(&params);
    km_source_init(&source);
    snprintf(spec.name, sizeof spec.name, "subsets_%s", type == KM_FLOAT64 ? "float64" : "float32");
    spec.features = 18;
    spec.clusters = &k;
    spec.clusters_count = 1;
    spec.type = type;
    spec.target = (km_target){KM_TARGET_CUDA, arch};
    params.weighted = weighted;
    params.untuned = 1;
    km_status status = km_plan_make(&plan, &spec, &params, &err);
    if (status == KM_OK) status = km_subsets_emit(&source, &plan, &shapes, NULL, &err);
    for (; status == KM_ERROR_PLAN && shapes.clusters_count > 2;) { // of shared memory
        shapes.clusters_count--;
        status = km_subsets_emit(&source, &plan, &shapes, NULL, &err);
    }
    if (status != KM_OK) fprintf(stderr, "%s, sm_%d: %s\n", spec.name, arch, err.text);
    snprintf(source.plan.spec.name, sizeof source.plan.spec.name, "%s", spec.name);
    int failed = status != KM_OK || add_part(&source, "pass", strdup(source.text), arch, weighted, 0);
    km_plan_clear(&plan);
    km_source_clear(&source);
    return failed;
}

static int add_subsets(const km_nvrtc *nvrtc) {
    int failures = 0;
    for (int i = 0; i < arches_count; i++)
        for (int weighted = 0; weighted < 2 && knows(nvrtc, arches[i]); weighted++) {
            failures += add_subsets_of(arches[i], KM_FLOAT32, weighted);
            failures += add_subsets_of(arches[i], KM_FLOAT64, weighted);
        }
    return failures;
}

// The largest of each form ----------------------------------------------------------------------------------------

// What tells texts apart: a hash of their lines, whatever their numbers; of all but the numbers of blocks, which no
// register depends on.
typedef struct text_forms {
    uint64_t form, but_for_blocks;
} text_forms;

static int read_forms(text_forms *forms, const job *j) {
    const char *code = km_source_code(j->source.text);
    cover_lines lines;
    if (cover_read(&lines, code, "")) return 1;
    forms->form = XXH3_64bits(lines.hashes, (size_t)lines.count * sizeof *lines.hashes);
    free(lines.hashes);
    forms->but_for_blocks = 0;
    for (const char *at = code; *at; at += *at == '\n') {
        size_t length = strcspn(at, "\n");
        int counts_blocks = memmem(at, length, "GRID", 4) != NULL;
        uint64_t line = counts_blocks ? cover_hash(at, length, "") : XXH3_64bits(at, length);
        forms->but_for_blocks = 31 * forms->but_for_blocks + line;
        at += length;
    }
    return 0;
}

// The more sums, the more registers.
static int64_t sums_of(const job *j) {
    return j->source.plan.clusters_sum * j->source.plan.spec.features;
}

static int is_largest(const text_forms *forms, int i) {
    for (int other = 0; other < jobs_count; other++)
        if (forms[other].form == forms[i].form && jobs[other].arch == jobs[i].arch &&
            sums_of(&jobs[other]) > sums_of(&jobs[i]))
            return 0;
    return 1;
}

static int is_plain_pass(const job *j) {
    return j->part[0] && is_pass(j) && !j->weighted && !j->track_labels;
}

// Of its design, and of the parts of that name.
static int is_largest_pass(int i) {
    for (int other = 0; other < jobs_count; other++)
        if (is_plain_pass(&jobs[other]) && jobs[other].arch == jobs[i].arch &&
            jobs[other].source.plan.design == jobs[i].source.plan.design &&
            !strcmp(jobs[other].part, jobs[i].part) && sums_of(&jobs[other]) > sums_of(&jobs[i]))
            return 0;
    return is_plain_pass(&jobs[i]);
}

// Architectures with the same instructions and registers.
static int family_of(int arch) {
    return arch > 80 && arch < 90 ? 80 : arch >= 100 ? 100 : arch;
}

static int is_in_family_before(const text_forms *forms, int i) {
    for (int other = 0; other < jobs_count; other++)
        if (forms[other].but_for_blocks == forms[i].but_for_blocks && jobs[other].arch < jobs[i].arch &&
            family_of(jobs[other].arch) == family_of(jobs[i].arch))
            return 1;
    return 0;
}

static int is_launch(const job *j) {
    static const char name[] = KM_PASS_PART "/launches";
    return !strncmp(j->part, name, sizeof name - 1) || !strcmp(j->part, KM_PASS_PART);
}

static int takes_largest(const text_forms *forms, int i, int is_only_passes) {
    const job *j = &jobs[i];
    const int is_plain = !j->weighted && !j->track_labels;
    if (is_only_passes) return is_largest_pass(i);
    return !j->part[0] || (j->arch == 90 && is_plain) || is_largest(forms, i) ||
           (is_launch(j) && !is_in_family_before(forms, i));
}

static void keep_taken(const char *taken) {
    int kept = 0;
    for (int i = 0; i < jobs_count; i++)
        if (taken[i])
            jobs[kept++] = jobs[i];
        else
            clear_job(&jobs[i]);
    not_taken_count += jobs_count - kept;
    jobs_count = kept;
}

static int keep_largest(int is_only_passes) {
    static char taken[JOBS_MAX];
    static text_forms forms[JOBS_MAX];
    for (int i = 0; i < jobs_count; i++)
        if (read_forms(&forms[i], &jobs[i])) return 1;
    for (int i = 0; i < jobs_count; i++) taken[i] = (char)takes_largest(forms, i, is_only_passes);
    keep_taken(taken);
    return 0;
}

// A covering set -------------------------------------------------------------------------------------------------

// Then the cheapest pass of each architecture that has none.
static int first_without(const cover_lines *lines, const char *taken) {
    int best = -1;
    for (int i = 0; i < jobs_count; i++) {
        int has_one = 0;
        for (int j = 0; j < jobs_count; j++)
            has_one |= taken[j] && jobs[j].arch == jobs[i].arch && is_pass(&jobs[j]);
        if (!has_one && is_pass(&jobs[i]) && (best < 0 || lines[i].cost < lines[best].cost)) best = i;
    }
    return best;
}

// About what a text costs to compile: straight lines of code grow with the sums, the loops of tiled kernels do not.
static double cost_of(const job *j) {
    const km_plan *plan = &j->source.plan;
    double sums = (double)(plan->clusters_sum * plan->spec.features);
    if (!j->part[0]) return 1500;
    if (!is_pass(j)) return 200;
    if (plan->design == KM_DESIGN_TILED) return 700;
    return 300 + (sums < 1700 ? sums : 1700);
}

// The lines of assembly, which PTX takes unseen, and one that names the architecture, in letters, as numbers are alike.
// (The newest NVRTC tells whether an architecture has an instruction, this one whether it knows it.)
static int read_assembly(cover_lines *lines, const job *j) {
    const char *code = j->source.text;
    const char arch[] = {'s', 'm', '_', (char)('a' + j->arch / 10), (char)('a' + j->arch % 10), '\n', 0};
    char *kept = malloc(2 * strlen(code) + sizeof arch), *end = kept;
    if (!kept) return 1;
    end = stpcpy(end, arch);
    for (const char *at = code; *at; at += *at == '\n') {
        size_t length = strcspn(at, "\n");
        if (memmem(at, length, "asm", 3)) {
            end = stpncpy(end, at, length);
            *end++ = '\n';
        }
        at += length;
    }
    *end = 0;
    int failed = cover_read(lines, kept, "");
    free(kept);
    return failed;
}

// Of texts that cannot be compiled without optimising: so many to machine code that each line of assembly is, the rest
// to PTX.
static int choose_ptx(void) {
    static char taken[JOBS_MAX];
    static cover_lines lines[JOBS_MAX];
    int failures = 0;
    for (int i = 0; i < jobs_count; i++) failures += read_assembly(&lines[i], &jobs[i]);
    for (int i = 0; i < jobs_count; i++) lines[i].cost = cost_of(&jobs[i]);
    for (int next; !failures && (next = cover_next(lines, taken, jobs_count)) >= 0;)
        cover_take(lines, taken, jobs_count, next);
    for (int i = 0; i < jobs_count; i++) jobs[i].is_ptx = !taken[i];
    for (int i = 0; i < jobs_count; i++) free(lines[i].hashes);
    return failures;
}

// Keeps a covering set of all.
static int keep_cover(void) {
    static char taken[JOBS_MAX];
    static cover_lines lines[JOBS_MAX];
    int failures = 0;
    for (int i = 0; i < jobs_count; i++) {
        taken[i] = !jobs[i].part[0]; // beside the parts
        if (!taken[i]) failures += cover_read(&lines[i], jobs[i].source.text, "");
    }
    for (int i = 0; i < jobs_count; i++) lines[i].cost = cost_of(&jobs[i]);
    for (int next; !failures && (next = cover_next(lines, taken, jobs_count)) >= 0;)
        cover_take(lines, taken, jobs_count, next);
    for (int next; !failures && (next = first_without(lines, taken)) >= 0;) taken[next] = 1;
    for (int i = 0; i < jobs_count; i++) free(lines[i].hashes);
    keep_taken(taken);
    return failures;
}

// What the compiler says ------------------------------------------------------------------------------------

// The table of launches holds the names of the pass's kernels as strings; the other steps' are the engine's.
static int is_of_pass(const char *launches, const char *name) {
    char quoted[300];
    snprintf(quoted, sizeof quoted, "\"%s\"", name);
    return strstr(launches, quoted) != NULL;
}

// `name`: of the kernel that the lines are about.
static void read_line(kernel_facts *facts, char name[256], const char *launches, const char *line) {
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
    if (registers > facts->pass_registers_max && is_of_pass(launches, name))
        facts->pass_registers_max = registers;
}

static kernel_facts read_log(const char *launches, const char *log) {
    kernel_facts facts = {0};
    char name[256] = "";
    for (const char *line = log; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL) {
        char text[1024];
        snprintf(text, sizeof text, "%.*s", (int)strcspn(line, "\n"), line);
        read_line(&facts, name, launches, text);
    }
    return facts;
}

// Known spills ----------------------------------------------------------------------------------------------

// Kernels that fill a limit of registers, by which compilers from one version to another go over it: the most bytes
// that they spill. The results are the same, and a pass takes a little longer; another text, or another limit, would
// have to be timed with the compilers that do without. A kernel that spills more fails, and where the first or the last
// version of a row does not spill, the row is wrong.
typedef struct known_spill {
    int from, until; // NVRTC 12.6 is 1206
    const char *spec, *part;
    int arch, variant, bytes; // of a text with weights 1, with labels between passes 2
} known_spill;

// In turn: 255 registers; 168, as blocks of 384 threads have; others, which a launch bound sets or compilers aim at.
static const known_spill known_spills[] = {
    {1204, 1206, "d8_k10_20", "pass/launches/1", 80, 0, 16},
    {1305, 1305, "d8_k10_20", "pass/launches/1", 86, 0, 16},
    {1305, 1305, "d8_k10_20", "pass/launches/1", 89, 0, 16},
    {1208, 1300, "d16_k2_32", "pass/launches/1", 80, 0, 16},
    {1305, 1305, "d16_k2_32", "pass/launches/1", 89, 0, 16},
    {1206, 1305, "hamerly", "pass/launches/0", 90, 0, 108},
    {1206, 1305, "high_d", "pass/launches/0", 90, 0, 16},
    {1206, 1209, "wide", "pass/launches/0", 90, 0, 8},
    {1204, 1206, "wide", "pass/launches/1", 90, 0, 60},
    {1204, 1300, "paper_d8_k3_12", "pass/launches/0", 90, 0, 60},
    {1206, 1209, "d8_k10_20", "pass/launches/0", 90, 0, 8},
    {1204, 1204, "tiles_d16_k64", "pass/launches/0", 80, 0, 52},
    {1204, 1305, "subsets_float32", "pass", 90, 1, 48}, // the last pass, of up to 8 clusters
    {1305, 1305, "paper_d4_k3_12", "starter", 90, 0, 8},
    {1305, 1305, "cosine", "starter", 100, 0, 20},
    {1204, 1305, "large", "relocate", 80, 0, 8},
    {1204, 1305, "large", "relocate", 90, 0, 8},
    {1204, 1305, "elkan_d64_k300", "seed_halves", 90, 0, 16},
    {1209, 1300, "elkan_d64_k300", "seed_halves", 120, 0, 40},
    {1206, 1305, "tiles_d5_k40", "pass/launches/0", 90, 0, 16},
    {1206, 1300, "tiles_d5_k40", "pass/launches/1", 90, 0, 16},
    {1305, 1305, "paper_d32_k3_5", "pass/rest", 90, 1,
     6}, // km_reduce, so that with labels between passes, too
    {1305, 1305, "paper_d32_k3_5", "pass/rest", 90, 3, 6},
    {1208, 1300, "high_d128", "pass/rest", 100, 0, 12}, // km_tensor_tiles, once a fit that has tiles
    // The first that know sm_100 and sm_120.
    {1208, 1208, "large", "seed", 120, 0, 16},
    {1208, 1208, "high_d300", "seed", 120, 0, 16},
    {1208, 1208, "elkan_d64_k300", "seed_halves", 100, 0, 44},
    {1208, 1209, "elkan_d64_k300", "bounds", 120, 0, 16},
    {1208, 1209, "hamerly", "bounds", 100, 0, 40},
    {1208, 1208, "sparse_warps", "pass", 120, 0, 16},
    {1208, 1208, "high_d", "pass/rest", 120, 0, 8},
    {1208, 1209, "cosine", "pass/rest", 100, 0, 8},
    {1208, 1208, "cosine", "pass/rest", 120, 0, 8},
    {1208, 1209, "cosine", "starter", 120, 0, 16},
    {1208, 1209, "paper_d16_k3_5", "pass/rest", 100, 0, 8},
    {1208, 1209, "paper_d12_k3_5", "pass/rest", 100, 0, 8},
    {1208, 1209, "float64", "pass/rest", 100, 0, 8},
};

static int version_of(const km_nvrtc *nvrtc) {
    return nvrtc->major * 100 + nvrtc->minor;
}

static int is_of_job(const known_spill *row, const job *j) {
    return j->arch == row->arch && j->weighted + 2 * j->track_labels == row->variant &&
           !strcmp(j->part, row->part) && !strcmp(j->source.plan.spec.name, row->spec);
}

// The row of the job, of this compiler; NULL: it is to spill nothing.
static const known_spill *known_spill_of(const job *j, const km_nvrtc *nvrtc) {
    int version = version_of(nvrtc);
    for (size_t i = 0; i < sizeof known_spills / sizeof *known_spills; i++) {
        const known_spill *row = &known_spills[i];
        if (version >= row->from && version <= row->until && is_of_job(row, j)) return row;
    }
    return NULL;
}

// How many rows of this compiler and these architectures belong to no text that is compiled.
static int count_rows_of_none(const km_nvrtc *nvrtc) {
    int version = version_of(nvrtc), count = 0;
    for (size_t i = 0; i < sizeof known_spills / sizeof *known_spills; i++) {
        const known_spill *row = &known_spills[i];
        int is_used = version < row->from || version > row->until, is_asked = 0;
        for (int a = 0; a < arches_count; a++) is_asked |= arches[a] == row->arch;
        for (int j = 0; j < jobs_count; j++) is_used |= is_of_job(row, &jobs[j]);
        if (is_used || !is_asked) continue;
        printf("known_spills: no text is %s %s sm_%d, variant %d\n", row->spec, row->part, row->arch,
               row->variant);
        count++;
    }
    return count;
}

// Whether the kernels spill what they may, and not less than a row says of this compiler.
static int spills_as_known(const job *j, const kernel_facts *facts, const km_nvrtc *nvrtc) {
    const known_spill *row = j->is_quick || j->is_ptx ? NULL : known_spill_of(j, nvrtc);
    int version = version_of(nvrtc);
    if (!row) return !facts->spilled_bytes || j->is_quick;
    int must = version == row->from || version == row->until;
    if (must && !facts->spilled_bytes) puts("the row of known_spills is not needed");
    return facts->spilled_bytes <= row->bytes && (!must || facts->spilled_bytes);
}

static int report(const job *j, kernel_facts facts, const char *log, double seconds, const km_nvrtc *nvrtc) {
    const km_source *source = &j->source;
    km_design design = source->plan.design;
    int failed = facts.warnings || !spills_as_known(j, &facts, nvrtc);
    if (!j->is_ptx) failed |= !facts.kernels || (is_pass(j) && !facts.pass_registers_max);
    char took[32] = ", as before";
    if (log) snprintf(took, sizeof took, ", %.2f s", seconds);
    printf("%-16s %s sm_%d%s%s %s, pass: %d registers (planned %d); %d kernels: %d registers, %d bytes "
           "spilled%s%s%s%s%s\n",
           source->plan.spec.name, j->part[0] ? j->part : "whole", j->arch, j->weighted ? " weighted" : "",
           j->track_labels ? " tracked" : "", km_design_name(design), facts.pass_registers_max,
           (int)source->plan.estimates[design].registers_per_thread, facts.kernels, facts.registers_max,
           facts.spilled_bytes, facts.spilled_bytes ? " by " : "", facts.spilling,
           j->is_quick ? ", not optimised"
           : j->is_ptx ? ", PTX"
                       : "",
           took, failed ? ": FAILED" : "");
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
    if (j->is_quick || j->is_ptx)
        snprintf(id + strlen(id), sizeof id - strlen(id), j->is_ptx ? " ptx" : " quick");
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

// Without optimising ----------------------------------------------------------------------------------------

static int write_log(const km_nvrtc *nvrtc, km_nvrtc_program program, const char *path) {
    size_t size = 0;
    FILE *file = fopen(path, "wb");
    char *log = nvrtc->nvrtcGetProgramLogSize(program, &size) ? NULL : calloc(size + 1, 1);
    int failed = !file || !log || nvrtc->nvrtcGetProgramLog(program, log) || fputs(log, file) < 0;
    if (file && fclose(file)) failed = 1;
    free(log);
    return failed;
}

// As km_nvrtc_compile, but for the last option; or to PTX. No spec's text asks for an architecture's own instructions.
static int compile_quickly(const km_nvrtc *nvrtc, const job *j, const char *source_path,
                           const char *log_path) {
    char arch[48];
    const char *options[] = {arch, "--std=c++17", "--fmad=true", "--ptxas-options=-v", "--Ofast-compile=max"};
    const int options_count = j->is_ptx ? 3 : 5;
    snprintf(arch, sizeof arch, "--gpu-architecture=%s_%d", j->is_ptx ? "compute" : "sm", j->arch);
    km_nvrtc_program program = NULL;
    size_t size = 0;
    if (nvrtc->nvrtcCreateProgram(&program, j->source.text, source_path, 0, NULL, NULL)) return 1;
    int failed = nvrtc->nvrtcCompileProgram(program, options_count, options) != 0;
    failed |= write_log(nvrtc, program, log_path);
    if (!j->is_ptx) failed |= nvrtc->nvrtcGetCUBINSize(program, &size) != 0 || !size;
    nvrtc->nvrtcDestroyProgram(&program);
    return failed;
}

// All of it -------------------------------------------------------------------------------------------------

static int run_job(const km_nvrtc *nvrtc, job *j, const char *folder) {
    char stem[3900], source_path[4096], log_path[4096], cubin_path[4096];
    km_error err = {{0}};
    kernel_facts facts;
    if (has_passed(j, &facts)) return report(j, facts, NULL, 0.0, nvrtc);
    snprintf(stem, sizeof stem, "%s/nvrtc%d.%d_%s_%s_sm_%d%s%s", folder, nvrtc->major, nvrtc->minor,
             j->source.plan.spec.name, j->part, j->arch, j->weighted ? "_weighted" : "",
             j->track_labels ? "_tracked" : "");
    for (char *at = strrchr(stem, '.'); at && (at = strchr(at, '/'));) *at = '_'; // of the part's name
    snprintf(source_path, sizeof source_path, "%s.cu", stem);
    snprintf(log_path, sizeof log_path, "%s.log", stem);
    snprintf(cubin_path, sizeof cubin_path, "%s.cubin", stem);
    if (write_source(source_path, &j->source)) {
        fprintf(stderr, "cannot write %s\n", source_path);
        return 1;
    }
    const clock_t began = clock();
    // Some instructions of the tensor cores cannot be compiled without optimising.
    if (j->is_quick) j->is_quick = !compile_quickly(nvrtc, j, source_path, log_path);
    if (j->is_ptx) j->is_ptx = !compile_quickly(nvrtc, j, source_path, log_path);
    int failed = !j->is_quick && !j->is_ptx &&
                 km_nvrtc_compile(nvrtc, j->arch, source_path, cubin_path, log_path, NULL, &err) != KM_OK;
    char *log = read_text(log_path);
    if (failed) {
        printf("%s: FAILED\n%s\n", err.text, log ? log : "");
    } else if (log) {
        facts = read_log(j->launches, log);
        failed = report(j, facts, log, (double)(clock() - began) / CLOCKS_PER_SEC, nvrtc) ||
                 write_down(folder, j, &facts);
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
        fputs("usage: compile_cuda WORK_FOLDER SPECS_FOLDER... [largest] [ARCHITECTURE...] [PART/PARTS]\n",
              stderr);
        return 2;
    }
    km_nvrtc nvrtc;
    const char *folder = argv[1];
    int failures = 0, closed = open_nvrtc(&nvrtc);
    if (closed) return closed;
    printf("NVRTC %d.%d in %s\n", nvrtc.major, nvrtc.minor, nvrtc.path);
    int folders_end = argc, part = 1, parts = 1;
    if (strchr(argv[argc - 1], '/') && sscanf(argv[argc - 1], "%d/%d", &part, &parts) == 2) folders_end--;
    if (parts < 1 || part < 1 || part > parts) return 2;
    while (isdigit((unsigned char)argv[folders_end - 1][0])) folders_end--;
    for (int i = folders_end; i < argc && arches_count < ARCHES_COUNT; i++)
        if (!strchr(argv[i], '/')) arches[arches_count++] = atoi(argv[i]);
    int is_only_passes = !strcmp(argv[folders_end - 1], "largest");
    folders_end -= is_only_passes;
    if (!arches_count) memcpy(arches, all_arches, sizeof arches);
    if (!arches_count) arches_count = ARCHES_COUNT;
    for (int i = 2; i < folders_end; i++) failures += specs_walk(argv[i], add_jobs, &nvrtc);
    if (!is_only_passes) failures += add_subsets(&nvrtc);
    int is_short = !is_whole() && !is_only_passes;
    failures += is_short ? keep_cover() : keep_largest(is_only_passes);
    if (!is_short && !is_only_passes) failures += count_rows_of_none(&nvrtc);
    qsort(jobs, (size_t)jobs_count, sizeof jobs[0], by_length);
    static char taken[JOBS_MAX];
    for (int i = 0; i < jobs_count; i++) taken[i] = i % parts == part - 1;
    keep_taken(taken);
    for (int i = 0; i < jobs_count; i++) jobs[i].is_quick = is_short && nvrtc.major >= 13;
    if (is_short && nvrtc.major < 13) failures += choose_ptx();
    for (int i = 0; i < jobs_count; i++) key_of(&jobs[i], &nvrtc);
    char path[4096];
    snprintf(path, sizeof path, "%s/passed", folder);
    km_file_read(&passed, &(int64_t){0}, path, 0, NULL);
    printf("%d texts; left out: %d that others are the same as, %d like others or of another part\n",
           jobs_count, same_count, not_taken_count);
    failures += run_jobs(&nvrtc, folder);
    puts(failures ? "FAILED" : "none failed");
    for (int i = 0; i < jobs_count; i++) clear_job(&jobs[i]);
    free(passed);
    km_nvrtc_close(&nvrtc);
    return failures || !jobs_count;
}
