// SPDX-License-Identifier: MIT
#include "golden_text.h"
#include "base/error.h"
#include "scratch.h"
#include "gen/cuda/subsets.h"
#include "gen/source.h"
#include "gen/template.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

void golden_wish_init(golden_wish *wish) {
    *wish = (golden_wish){.points = 0};
    km_spec_init(&wish->spec);
}

void golden_wish_clear(golden_wish *wish) {
    km_spec_clear(&wish->spec);
}

static int read_word(golden_wish *wish, const char *word) {
    if (!strcmp(word, "weighted"))
        wish->weighted = 1;
    else if (!strcmp(word, "tracked"))
        wish->track_labels = 1;
    else if (!strcmp(word, "starting"))
        wish->starting = 1;
    else if (!strncmp(word, "subsets=", 8))
        wish->subsets = (int32_t)strtol(word + 8, NULL, 10);
    else if (strncmp(word, "points=", 7) != 0)
        return 1;
    else
        wish->points = strtoll(word + 7, NULL, 10);
    return 0;
}

int golden_wish_read(golden_wish *wish, const char *name, const char *line) {
    km_error err = {{0}};
    const char *end = strrchr(line, '}');
    if (!strncmp(line, "prebuilt ", 9)) {
        wish->prebuilt = line + 9;
        return 0;
    }
    int64_t size = end ? end + 1 - line : 0;
    if (km_spec_parse(&wish->spec, line, size, name, &err) != KM_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    snprintf(wish->spec.name, sizeof wish->spec.name, "%s", name);
    for (const char *at = line + size; *at;) {
        char word[64];
        at += strspn(at, " ");
        size_t length = strcspn(at, " ");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (length && read_word(wish, word)) {
            fprintf(stderr, "%s: %s is none of weighted, tracked, starting, points=N, subsets=N\n", name,
                    word);
            return 1;
        }
        at += length;
    }
    return 0;
}

// Sections ------------------------------------------------------------------------------------------------------

static void add_section(golden_text *out, const char *title, size_t title_size, const char *text) {
    if (out->sections_count == GOLDEN_SECTIONS_MAX) return;
    golden_section *section = &out->sections[out->sections_count++];
    snprintf(section->title, sizeof section->title, "%.*s", (int)title_size, title);
    section->text = text;
    section->size = (int64_t)strlen(text);
    if (out->sections_count > 1) section[-1].size = text - section[-1].text;
}

// Whether a section is a piece of the one before: both belong to the pass, or to the finish, in parts that are compiled
// apart.
static int goes_on(const golden_text *out, const char *ruler) {
    static const char *const pieces[][2] = {{"The pass", KM_APART KM_PASS_PART "/"},
                                            {"Finishing", KM_APART "finish/"}};
    const char *second = strchr(ruler, '\n') + 1, *title = out->sections[out->sections_count - 1].title;
    for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++)
        if (!strcmp(title, pieces[i][0]) && !strncmp(second, pieces[i][1], strlen(pieces[i][1]))) return 1;
    return 0;
}

static void find_sections(golden_text *out, const char *text) {
    static const char ruler[] = "\n// ==== ";
    add_section(out, "Head", 4, text);
    for (const char *at = text; (at = strstr(at, ruler)); at++) {
        const char *title = at + sizeof ruler - 1, *end = strstr(title, " ==");
        if (end && !goes_on(out, at + 1)) add_section(out, title, (size_t)(end - title), at + 1);
    }
}

static km_status emit_starter(km_source *source, const km_plan *plan, const char *templates, km_error *err) {
    KM_TRY(km_source_starter(&source->text, &source->text_size, plan, templates, err));
    return source->text ? KM_OK : km_fail(err, KM_ERROR_PLAN, "the plan has no starting pass");
}

static int emit_source(golden_text *out, const golden_wish *wish, const char *templates) {
    km_error err = {{0}};
    km_plan plan;
    km_plan_params params;
    km_plan_init(&plan);
    km_plan_params_init(&params);
    params.weighted = wish->weighted;
    params.track_labels = wish->track_labels;
    params.points = wish->points;
    params.untuned =
        1; // tables are measured anew now and then: what templates make of a plan does not change by that
    km_status status = km_plan_make(&plan, &wish->spec, &params, &err);
    km_subset_shapes shapes = {&wish->subsets, 1, wish->spec.clusters, wish->spec.clusters_count};
    if (status == KM_OK && wish->subsets)
        status = km_subsets_emit(&out->source, &plan, &shapes, templates, &err);
    else if (status == KM_OK && wish->starting)
        status = emit_starter(&out->source, &plan, templates, &err);
    else if (status == KM_OK)
        status = km_source_emit(&out->source, &plan, templates, &err);
    km_plan_clear(&plan);
    if (status != KM_OK) {
        fprintf(stderr, "%s: %s\n", wish->spec.name, err.text);
        return 1;
    }
    find_sections(out, out->source.text);
    if (out->source.header) {
        golden_section *last = &out->sections[out->sections_count++];
        *last = (golden_section){"Header", out->source.header, (int64_t)strlen(out->source.header)};
    }
    return 0;
}

static int emit_prebuilt(golden_text *out, const golden_wish *wish, const char *templates) {
    char command[1024], piece[4096];
    km_text text = {0};
    km_error err = {{0}};
    snprintf(command, sizeof command, "'%s' /dev/stdout %s %s", wish->prebuilt_program, wish->prebuilt,
             templates ? templates : "");
    FILE *from = popen(command, "r");
    for (size_t got; from && (got = fread(piece, 1, sizeof piece, from)) > 0;)
        km_text_add(&text, piece, (int64_t)got);
    if (!from || pclose(from) != 0 || km_text_take(&out->prebuilt, &text, &err) != KM_OK) {
        fprintf(stderr, "%s fails\n", command);
        km_text_clear(&text);
        return 1;
    }
    add_section(out, "All", 3, out->prebuilt);
    return 0;
}

int golden_emit(golden_text *out, const golden_wish *wish, const char *templates) {
    *out = (golden_text){.prebuilt = NULL};
    km_source_init(&out->source);
    return wish->prebuilt ? emit_prebuilt(out, wish, templates) : emit_source(out, wish, templates);
}

void golden_text_clear(golden_text *text) {
    km_source_clear(&text->source);
    km_text_free(text->prebuilt);
    *text = (golden_text){.prebuilt = NULL};
}

const golden_section *golden_section_find(const golden_text *text, const char *title) {
    for (int i = 0; i < text->sections_count; i++)
        if (!strcmp(text->sections[i].title, title)) return &text->sections[i];
    return NULL;
}

// Where a section is cut into items: at blank lines with a line that is not indented behind them.
static int begins_item(const char *line) {
    return line[-1] == '\n' && line[-2] == '\n' && !strchr(" }\n", *line);
}

int golden_next_item(golden_section *rest, golden_section *item) {
    if (rest->size <= 0) return 0;
    const char *begin = rest->text, *end = begin + rest->size, *at = begin + 1;
    while (at < end && (at < begin + 2 || !begins_item(at))) at++;
    *item = (golden_section){.text = begin, .size = at - begin};
    rest->text = at;
    rest->size = end - at;
    return 1;
}

// Marks ---------------------------------------------------------------------------------------------------------

enum { DEPTH_MAX = 64 };

// A template being copied: the blocks that its lines are in.
typedef struct copier {
    golden_marks *marks;
    FILE *out;
    const char *file;
    int depth, line, is_behind_blank;
    struct {
        int has_mark, line;
        char begin[96];
    } blocks[DEPTH_MAX];
} copier;

static void open_block(copier *c, const char *line) {
    c->blocks[c->depth].has_mark = 0;
    c->blocks[c->depth].line = c->line;
    snprintf(c->blocks[c->depth].begin, sizeof c->blocks[0].begin, "%.*s", (int)strcspn(line, "\n"), line);
}

static int add_mark(copier *c, int indent) {
    golden_marks *all = c->marks;
    golden_mark *grown = realloc(all->marks, (size_t)(all->count + 1) * sizeof *grown);
    if (!grown) return 1;
    all->marks = grown;
    golden_mark *mark = &grown[all->count];
    *mark = (golden_mark){.line = c->blocks[c->depth].line};
    snprintf(mark->file, sizeof mark->file, "%s", c->file);
    snprintf(mark->block, sizeof mark->block, "%s", c->blocks[c->depth].begin);
    fprintf(c->out, "%*s//%%%d\n", indent, "", all->count++);
    c->blocks[c->depth].has_mark = 1;
    return 0;
}

static int is_control(const char *words, const char *word) {
    size_t length = strlen(word);
    return !strncmp(words, word, length) && !isalnum((unsigned char)words[length]);
}

// One line of a template, with a mark before it where it is the first of its block, or of a definition at the left
// edge. Comments alone make no text.
static int copy_line(copier *c, const char *line, size_t length) {
    const char *text = line + strspn(line, " ");
    c->line++;
    if (c->is_behind_blank && text == line && !strchr("\n}", *text)) open_block(c, "a definition");
    c->is_behind_blank = *text == '\n';
    if (!strncmp(text, "//@", 3)) {
        const char *words = text + 3 + strspn(text + 3, " ");
        int begins = is_control(words, "if") || is_control(words, "for") || is_control(words, "def");
        if (is_control(words, "end") && c->depth) c->depth--;
        if (begins && ++c->depth == DEPTH_MAX) return 1;
        if (begins || is_control(words, "else")) open_block(c, words);
    } else if (*text != '\n' && strncmp(text, "//", 2) != 0 && !c->blocks[c->depth].has_mark) {
        if (add_mark(c, (int)(text - line))) return 1;
    }
    return fprintf(c->out, "%.*s\n", (int)length, line) < 0;
}

// A template in the copy's folder, whose own folders are made on the way.
static FILE *template_create(const golden_marks *marks, const char *name) {
    char path[400];
    for (const char *slash = name; (slash = strchr(slash, '/')); slash++) {
        snprintf(path, sizeof path, "%s/%.*s", marks->folder, (int)(slash - name), name);
        mkdir(path, 0777); // it may be there
    }
    snprintf(path, sizeof path, "%s/%s", marks->folder, name);
    return fopen(path, "w");
}

static int copy_template(golden_marks *marks, const km_embedded *from) {
    copier c = {.marks = marks, .out = template_create(marks, from->name), .file = from->name};
    open_block(&c, "the file");
    c.blocks[0].line = 1;
    int failed = !c.out;
    for (const char *at = from->text; !failed && *at;) {
        size_t length = strcspn(at, "\n");
        failed = copy_line(&c, at, length);
        at += length + (at[length] == '\n');
    }
    if (c.out && fclose(c.out)) failed = 1;
    if (failed) fprintf(stderr, "cannot copy the template %s to %s\n", from->name, marks->folder);
    return failed;
}

int golden_marks_make(golden_marks *marks) {
    int failed = 0;
    *marks = (golden_marks){.folder = "/tmp/kmgen-golden-XXXXXX"};
    if (!mkdtemp(marks->folder)) {
        perror(marks->folder);
        return 1;
    }
    for (int64_t i = 0; i < km_embedded_templates_count && !failed; i++)
        failed = copy_template(marks, &km_embedded_templates[i]);
    return failed;
}

void golden_marks_clear(golden_marks *marks) {
    if (marks->folder[0]) remove_folder(marks->folder);
    free(marks->marks);
    *marks = (golden_marks){.marks = NULL};
}

void golden_marks_of(const golden_section *section, void (*each)(void *user, int mark), void *user) {
    const char *end = section->text + section->size;
    for (const char *at = section->text; (at = strstr(at, "//%")) && at < end; at++) each(user, atoi(at + 3));
}
