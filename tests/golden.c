// SPDX-License-Identifier: MIT
// The emitted text, kept in tests/golden/ so that a change of it is seen in review.
//
// plans.txt    every spec of specs/ and every target: its plan, and a hash of each section of its text.
// parts.txt    written by hand: which texts are kept, and which of their sections.
// cuda/ cpu/   those. A definition is left out if it stands in a template to the letter, or if
//              an earlier part shows it: to the letter or, unless the row says `(whole)`, of the same lines of
//              templates with other numbers. Of one that is kept golden_fold.h leaves out what tells nothing.
//
// Every branch of every template must be in a part: a new one that is not fails the test, and `suggest` names rows that
// would show it.
//
// usage: golden check|write|suggest SPECS_FOLDER GOLDEN_FOLDER PREBUILT_PROGRAM
//        golden texts SPECS_FOLDER FOLDER TARGET    whole texts for the target, so many that each line of any is in one
//                                                   (cover.h); with KMGEN_TEST_ALL=1 those of all specs
#include "cover.h"
#include "gen/source.h"
#include "gen/template.h"
#include "golden_fold.h"
#include "golden_text.h"
#include "runtime/file.h"
#include "specs.h"

#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

enum { PARTS_MAX = 256, SHOWN_MAX = 8192 };

static const char *golden_folder, *prebuilt_program;
static int writes, suggests;
static golden_marks marks;
static char got_folder[] = "/tmp/kmgen-golden-XXXXXX"; // what is there now, to be compared

static int say_error(const km_error *err) {
    fprintf(stderr, "%s\n", err->text);
    return 1;
}

// Kept files ----------------------------------------------------------------------------------------------------

static char kept_names[PARTS_MAX + 2][128];
static int kept_count;

// Writes a file of tests/golden, or compares it and shows the difference.
static int keep(const char *name, const char *text) {
    char path[4096], got[4096], command[17000];
    km_error err = {{0}};
    if (kept_count < PARTS_MAX + 2) snprintf(kept_names[kept_count++], sizeof kept_names[0], "%s", name);
    if (suggests) return 0;
    snprintf(path, sizeof path, "%s/%s", golden_folder, name);
    snprintf(got, sizeof got, "%s/got", got_folder);
    if (writes) {
        char folder[4096];
        snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
        mkdir(folder, 0777); // it may be there
    }
    if (km_file_write(writes ? path : got, text, (int64_t)strlen(text), &err) != KM_OK)
        return say_error(&err);
    if (writes) return 0;
    snprintf(command, sizeof command,
             "diff -u -F '^== ' --label 'tests/golden/%s' --label 'as it is emitted now' '%s' '%s' |"
             "head -n 40 >&2; exec cmp -s '%s' '%s'",
             name, path, got, path, got);
    fflush(stdout);
    return system(command) != 0; // NOLINT: paths of the build, in quotes
}

static int is_kept(const char *name) {
    for (int i = 0; i < kept_count; i++)
        if (!strcmp(kept_names[i], name)) return 1;
    return !strcmp(name, "parts.txt");
}

static int is_visible(const struct dirent *entry) {
    return entry->d_name[0] != '.';
}

// Files in the folder that nothing makes.
static int stale_files(const char *inside) {
    char path[4096], name[600];
    struct dirent **entries = NULL;
    int stale = 0;
    snprintf(path, sizeof path, "%s/%s", golden_folder, inside);
    int count = scandir(path, &entries, is_visible, alphasort);
    for (int i = 0; i < count; i++) {
        struct stat info;
        snprintf(name, sizeof name, "%s%s%s", inside, *inside ? "/" : "", entries[i]->d_name);
        snprintf(path, sizeof path, "%s/%s", golden_folder, name);
        if (!stat(path, &info) && S_ISDIR(info.st_mode)) {
            stale += stale_files(name);
        } else if (!is_kept(name)) {
            fprintf(stderr, "%s: no row of parts.txt makes it: remove it\n", path);
            stale++;
        }
        free(entries[i]);
    }
    free(entries);
    return stale;
}

// Parts -----------------------------------------------------------------------------------------------------------

static uint64_t shown[SHOWN_MAX]; // hashes of the definitions that are in a part
static int shown_count;

static int is_shown(const golden_section *item) {
    uint64_t hash = XXH3_64bits(item->text, (size_t)item->size);
    for (int i = 0; i < shown_count; i++)
        if (shown[i] == hash) return 1;
    if (shown_count < SHOWN_MAX) shown[shown_count++] = hash;
    return 0;
}

static void count_new(void *user, int mark) {
    *(int *)user += !marks.marks[mark].shown;
}

static void set_shown(void *user, int mark) {
    golden_mark *m = &marks.marks[mark];
    if (user && !m->shown) km_text_printf(user, "#     templates/%s:%d: %s\n", m->file, m->line, m->block);
    m->shown = 1;
}

// Whether a definition stands in a template to the letter: nothing was put in and nothing left out, so that whoever
// reads a change of the template has read the change of the text.
static int is_of_template(const golden_section *item) {
    char *text = strndup(item->text, (size_t)item->size);
    int found = 0;
    for (size_t size = text ? strlen(text) : 0; size && text[size - 1] == '\n';) text[--size] = 0;
    for (int64_t i = 0; text && i < km_embedded_templates_count && !found; i++)
        found = strstr(km_embedded_templates[i].text, text) != NULL;
    free(text);
    return found;
}

// Definitions between those that are shown.
static void add_left_out(km_text *out, int *count) {
    if (*count) km_text_printf(out, "// ... %d definition%s\n\n", *count, *count == 1 ? "" : "s");
    *count = 0;
}

static int add_section(km_text *out, const golden_section *plain, const golden_section *marked, int whole) {
    golden_section rest = *plain, marked_rest = *marked, item, marked_item;
    int left_out = 0;
    while (golden_next_item(&rest, &item)) {
        if (!golden_next_item(&marked_rest, &marked_item)) return 1;
        int new_count = whole, is_plain = is_of_template(&item);
        golden_marks_of(&marked_item, count_new, &new_count);
        if (new_count || is_plain) golden_marks_of(&marked_item, set_shown, NULL);
        if (is_plain || is_shown(&item) || !new_count) {
            left_out++;
            continue;
        }
        add_left_out(out, &left_out);
        km_text_add(out, item.text, item.size);
    }
    add_left_out(out, &left_out);
    return marked_rest.size > 0;
}

// A row of parts.txt: "FILE | WISH | SECTION; SECTION".
typedef struct part {
    char file[128], wish[512], sections[512];
} part;

static int fill_part(km_text *out, const part *p, const golden_text *plain, const golden_text *marked) {
    static const char suffix[] = " (whole)";
    for (const char *at = p->sections; *at;) {
        char title[96];
        size_t length = strcspn(at, ";"), suffix_size = sizeof suffix - 1;
        snprintf(title, sizeof title, "%.*s", (int)length, at);
        int whole = length > suffix_size && !strcmp(title + length - suffix_size, suffix);
        if (whole) title[length - suffix_size] = 0;
        const golden_section *section = golden_section_find(plain, title);
        const golden_section *with_marks = golden_section_find(marked, title);
        if (!section || !with_marks) {
            fprintf(stderr, "parts.txt: %s has no section '%s', but", p->file, title);
            for (int i = 0; i < plain->sections_count; i++)
                fprintf(stderr, " '%s'", plain->sections[i].title);
            fprintf(stderr, "\n");
            return 1;
        }
        if (add_section(out, section, with_marks, whole)) {
            fprintf(stderr, "parts.txt: the definitions of %s are others with marks\n", p->file);
            return 1;
        }
        at += length;
        at += strspn(at, "; ");
    }
    return 0;
}

static int wish_of(golden_wish *wish, const part *p) {
    char name[128];
    const char *slash = strrchr(p->file, '/');
    snprintf(name, sizeof name, "%s", slash ? slash + 1 : p->file);
    name[strcspn(name, ".")] = 0;
    golden_wish_init(wish);
    wish->prebuilt_program = prebuilt_program;
    return golden_wish_read(wish, name, p->wish);
}

static int keep_part(const part *p) {
    golden_wish wish;
    golden_text plain = {.prebuilt = NULL}, marked = {.prebuilt = NULL};
    km_text text = {0};
    int failed =
        wish_of(&wish, p) || golden_emit(&plain, &wish, NULL) || golden_emit(&marked, &wish, marks.folder);
    km_text_printf(&text, "// Of the text of %s: %s\n", p->wish, p->sections);
    km_text_puts(&text,
                 "// \"...\" stands for what a template or an earlier part shows, or what comes again.\n\n");
    failed = failed || fill_part(&text, p, &plain, &marked);
    while (text.size > 1 && text.data[text.size - 2] == '\n') text.data[--text.size] = 0;
    char *folded = failed || text.failed ? NULL : golden_fold(text.data);
    failed = !folded || keep(p->file, folded);
    free(folded);
    golden_text_clear(&plain);
    golden_text_clear(&marked);
    golden_wish_clear(&wish);
    km_text_clear(&text);
    return failed;
}

static int keep_parts(void) {
    char path[4096], line[2048];
    int failed = 0, count = 0;
    snprintf(path, sizeof path, "%s/parts.txt", golden_folder);
    FILE *rows = fopen(path, "r");
    while (rows && fgets(line, sizeof line, rows)) {
        part p;
        if (line[0] == '#' || line[0] == '\n') continue;
        if (sscanf(line, "%127[^ |] | %511[^|] | %511[^\n]", p.file, p.wish, p.sections) != 3 ||
            count++ == PARTS_MAX) {
            fprintf(stderr, "parts.txt: expected FILE | SPEC | SECTION; SECTION, not %s", line);
            failed++;
            continue;
        }
        for (size_t size = strlen(p.wish); size && p.wish[size - 1] == ' ';) p.wish[--size] = 0;
        failed += keep_part(&p);
    }
    if (rows) fclose(rows);
    return failed + !rows;
}

static int marks_not_shown(void) {
    int count = 0;
    for (int i = 0; i < marks.count; i++) {
        const golden_mark *mark = &marks.marks[i];
        if (mark->shown) continue;
        count++;
        fprintf(stderr, "templates/%s:%d: no part of tests/golden shows what stands behind `%s`\n",
                mark->file, mark->line, mark->block);
    }
    if (count) fprintf(stderr, "`ninja golden-suggest` names rows for tests/golden/parts.txt that would\n");
    return count;
}

// Plans -----------------------------------------------------------------------------------------------------------

// What holds for every emitted file.
static int check_text(const km_source *source) {
    static const char *const banned[] = {" \n", "\t", "\r", "\n\n\n"};
    int bad = !source->text_size || source->text[source->text_size - 1] != '\n';
    for (size_t i = 0; i < sizeof banned / sizeof *banned; i++)
        bad |= strstr(source->text, banned[i]) != NULL;
    if (bad)
        fprintf(stderr,
                "%s: emitted text has a tab, a space before a line's end, or two blank lines, or does not "
                "end with "
                "a newline\n",
                source->file_name);
    return bad;
}

static int64_t count_lines(const char *text) {
    int64_t count = 0;
    for (; *text; text++) count += *text == '\n';
    return count;
}

// Title and hash of a section: "The steps around the pass" is `steps`. The table of contents is left out of the head's.
static void add_hash(km_text *out, const golden_section *section) {
    const char *title = section->title, *contents = strstr(section->text, "\n// Contents, by line:");
    if (!strncmp(title, "The ", 4)) title += 4;
    int64_t size = section->size;
    XXH64_hash_t hash = XXH3_64bits(section->text, (size_t)size);
    if (contents && contents < section->text + size) {
        const char *rest = strstr(contents, "\n\n");
        hash = XXH3_64bits(section->text, (size_t)(contents - section->text));
        if (rest) hash ^= XXH3_64bits(rest, (size_t)(section->text + size - rest)) * 31;
    }
    km_text_printf(out, " %c%.*s %08" PRIx32, title[0] | 32, (int)strcspn(title, " ") - 1, title + 1,
                   (uint32_t)hash);
}

// The plan as the head of the text says it.
static void add_plan(km_text *out, const char *text) {
    const char *at = strstr(text, "// The plan:\n//\n"), *end = at ? strstr(at, "\n\n") : NULL;
    if (!end) return;
    for (at = strchr(at, '\n') + 1; at < end; at += strcspn(at, "\n") + 1) {
        int length = (int)strcspn(at, "\n");
        if (length > 3) km_text_printf(out, "%.*s\n", length - 3, at + 3);
    }
}

// One target of a spec: a line. The first one of its kind: the plan, too.
static int add_line(km_text *out, const km_spec *spec, km_target target, int variant, int is_first) {
    golden_wish wish;
    golden_text text;
    char name[32];
    km_error err = {{0}};
    golden_wish_init(&wish);
    int failed = km_spec_copy(&wish.spec, spec, &err) != KM_OK && say_error(&err);
    wish.spec.target = target;
    wish.weighted = variant & 1;
    wish.track_labels = variant >> 1;
    failed = golden_emit(&text, &wish, NULL) || check_text(&text.source) || failed;
    km_target_text(name, sizeof name, target);
    if (is_first) km_text_printf(out, "\n== %s %s\n", spec->name, name);
    if (is_first && !failed) add_plan(out, text.source.text);
    km_text_printf(out, "%s%s%s:", strchr(name, ':') + 1, wish.weighted ? " weighted" : "",
                   wish.track_labels ? " tracked" : "");
    if (!failed) {
        km_text_printf(out, " %s, %" PRId64 " lines,", km_design_name(text.source.plan.design),
                       count_lines(text.source.text));
        for (int i = 0; i < text.sections_count; i++) add_hash(out, &text.sections[i]);
    }
    km_text_puts(out, "\n");
    golden_text_clear(&text);
    golden_wish_clear(&wish);
    return failed;
}

// Each spec for each kind of target that it means: the one that text is emitted for unless another is named, with
// weights and kept labels, and every other one.
static int each_plan(void *user, const km_spec *spec) {
    static const int arches[][9] = {
        [KM_TARGET_CPU] = {KM_ISA_AVX2, KM_ISA_AVX512, KM_ISA_NEON, KM_ISA_GENERIC},
        [KM_TARGET_CUDA] = {90, 75, 80, 86, 89, 100, 120}};
    int failed = 0;
    for (int kind = KM_TARGET_CPU; kind <= KM_TARGET_CUDA; kind++) {
        if (!specs_means(spec, (km_target_kind)kind)) continue;
        for (int i = 0; arches[kind][i]; i++) {
            km_target target = {(km_target_kind)kind, arches[kind][i]};
            if (spec->target.kind && spec->target.arch && spec->target.arch != target.arch) continue;
            for (int v = 0; v < (i ? 1 : 4); v++) failed += add_line(user, spec, target, v, !i && !v);
        }
    }
    return failed;
}

static int keep_plans(const char *specs_folder) {
    km_text text = {0};
    km_text_puts(
        &text, "Every spec of specs/ and target: the plan, and of its text the design, the number of lines\n"
               "and a hash of each section (without the table of contents). Written by `ninja golden`.\n");
    int failed = specs_walk(specs_folder, each_plan, &text);
    failed += text.failed || keep("plans.txt", text.data);
    km_text_clear(&text);
    return failed;
}

// Rows that would show more ---------------------------------------------------------------------------------------

// The row as parts.txt has it, printed where it shows what nothing before shows.
static void suggest(const golden_wish *wish, const char *row) {
    golden_text text;
    if (golden_emit(&text, wish, marks.folder)) return;
    for (int i = 0; i < text.sections_count; i++) {
        int new_count = 0;
        golden_marks_of(&text.sections[i], count_new, &new_count);
        if (!new_count) continue;
        km_text branches = {0};
        golden_marks_of(&text.sections[i], set_shown, &branches);
        printf("FILE | %s | %s\n%s", row, text.sections[i].title, branches.data ? branches.data : "");
        km_text_clear(&branches);
    }
    golden_text_clear(&text);
}

static void suggest_prebuilt(void) {
    static const char *const kinds[] = {"load", "tiles", "bounds"}, *const types[] = {"float32", "float64"};
    static const char *const sets[] = {"generic", "avx2", "avx512", "neon"};
    for (int i = 0; i < 24; i++) {
        char name[64], row[80];
        golden_wish wish;
        golden_wish_init(&wish);
        snprintf(name, sizeof name, "%s %s_%s", kinds[i % 3], sets[i / 6], types[i / 3 % 2]);
        snprintf(row, sizeof row, "prebuilt %s", name);
        wish.prebuilt = name;
        wish.prebuilt_program = prebuilt_program;
        suggest(&wish, row);
        golden_wish_clear(&wish);
    }
}

static int suggest_for(void *user, const km_spec *spec) {
    static const char *const targets[] = {"cuda:sm_90", "cuda:sm_80",  "cuda:sm_120",
                                          "cuda:sm_75", "cuda:sm_100", "cpu:generic",
                                          "cpu:avx2",   "cpu:avx512",  "cpu:neon"};
    (void)user;
    for (int i = 0; i < 9 * 8; i++) {
        km_error err = {{0}};
        golden_wish wish;
        char row[512];
        golden_wish_init(&wish);
        km_spec_copy(&wish.spec, spec, &err);
        km_spec_set_target(&wish.spec, targets[i / 8], &err);
        wish.weighted = i & 1;
        wish.track_labels = i >> 1 & 1;
        wish.points = i & 4 ? 100000 : 0;
        snprintf(row, sizeof row, "{the keys of %s, target: %s}%s%s%s", spec->name, targets[i / 8],
                 wish.weighted ? " weighted" : "", wish.track_labels ? " tracked" : "",
                 wish.points ? " points=100000" : "");
        if (specs_means(spec, wish.spec.target.kind)) suggest(&wish, row);
        golden_wish_clear(&wish);
    }
    return 0;
}

// Whole texts -----------------------------------------------------------------------------------------------------

enum { TEXTS_MAX = 1024 };

typedef struct texts {
    km_target target;
    km_source sources[TEXTS_MAX];
    int count;
} texts;

static int add_text(void *user, const km_spec *spec) {
    texts *all = user;
    if (!specs_means(spec, all->target.kind)) return 0;
    if (all->count == TEXTS_MAX) return 1;
    km_source_init(&all->sources[all->count]);
    return specs_emit(&all->sources[all->count++], spec, all->target, NULL);
}

static int write_text(const km_source *source, const char *folder) {
    int failed = 0;
    km_error err = {{0}};
    for (int i = 0; i < 2 && !failed; i++) {
        const char *text = i ? source->header : source->text;
        char path[4096];
        snprintf(path, sizeof path, "%s/%s", folder, i ? source->header_name : source->file_name);
        if (text && km_file_write(path, text, (int64_t)strlen(text), &err) != KM_OK) failed = say_error(&err);
    }
    return failed;
}

// Those that cover the lines of all, unless all are wanted.
static int write_cover(const texts *all, const char *folder) {
    static cover_lines lines[TEXTS_MAX];
    static char taken[TEXTS_MAX];
    const char *wanted = getenv("KMGEN_TEST_ALL");
    int everything = wanted && !strcmp(wanted, "1"), failed = 0;
    for (int i = 0; i < all->count; i++) {
        failed += cover_read(&lines[i], km_source_code(all->sources[i].text), all->sources[i].plan.spec.name);
        taken[i] = (char)everything;
    }
    for (int next; !failed && (next = cover_next(lines, taken, all->count)) >= 0;)
        cover_take(lines, taken, all->count, next);
    for (int i = 0; i < all->count; i++) {
        if (taken[i]) failed += write_text(&all->sources[i], folder);
        free(lines[i].hashes);
    }
    return failed;
}

static int texts_main(const char *specs_folder, const char *folder, const char *target) {
    static texts all;
    km_spec spec;
    km_error err = {{0}};
    km_spec_init(&spec);
    if (km_spec_set_target(&spec, target, &err) != KM_OK) return say_error(&err);
    all.target = spec.target;
    int failed = specs_walk(specs_folder, add_text, &all) || write_cover(&all, folder);
    for (int i = 0; i < all.count; i++) km_source_clear(&all.sources[i]);
    return failed;
}

int main(int argc, char **argv) {
    const char *what = argc == 5 ? argv[1] : "";
    int failed;
    suggests = !strcmp(what, "suggest");
    writes = !strcmp(what, "write");
    if (!strcmp(what, "texts")) return texts_main(argv[2], argv[3], argv[4]);
    if (!writes && !suggests && strcmp(what, "check") != 0) {
        fputs("usage: golden check|write|suggest SPECS_FOLDER GOLDEN_FOLDER PREBUILT_PROGRAM\n"
              "       golden texts SPECS_FOLDER FOLDER TARGET\n",
              stderr);
        return 2;
    }
    golden_folder = argv[3];
    prebuilt_program = argv[4];
    failed = !mkdtemp(got_folder) || golden_marks_make(&marks);
    if (!failed) failed = keep_parts();
    if (suggests) {
        suggest_prebuilt();
        specs_walk(argv[2], suggest_for, NULL);
    }
    failed += marks_not_shown();
    if (!suggests) failed += keep_plans(argv[2]) + stale_files("");
    if (failed && !suggests)
        fputs(
            "to see all of it: ninja golden, then git diff tests/golden; whole texts: tests/golden_diff.sh\n",
            stderr);
    printf("%d files, %d branches of templates, %d failures\n", kept_count, marks.count, failed);
    golden_marks_clear(&marks);
    char path[64];
    snprintf(path, sizeof path, "%s/got", got_folder);
    remove(path);
    rmdir(got_folder);
    return failed != 0;
}
