// SPDX-License-Identifier: MIT
#include "env.h"
#include "../base/error.h"
#include "../base/text.h"

#include <stdarg.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INCLUDES_MAX = 16, BLOCKS_MAX = 32 }; // inside each other

// A name that holds only around the line that is being expanded: a loop's variable, an include's parameter.
typedef struct scope {
    const struct scope *outer;
    const char *variable;
    size_t variable_length;
    const char *text;         // its own text, or NULL
    const km_env *item;       // whose names are $variable_name, or NULL
    const km_env_items *list; // the list that a parameter stands for, or NULL
} scope;

typedef enum use_state { NOT_USED, BEING_USED, USED } use_state;

// The text between //@ def and //@ end.
typedef struct definition {
    char *name, *file, *text;
    int64_t size, number; // of the line with //@ def
    use_state state;
} definition;

typedef struct expander {
    km_text *out;
    const km_env *env;
    const char *dir;
    km_error *err;
    definition *definitions;
    int64_t definitions_count, definitions_capacity;
    int64_t indent;       // blanks before each line: those before the lines that brought this text
    int includes, blocks; // that are open
} expander;

// A template being read, line by line.
typedef struct reader {
    const char *name;
    const char *next, *end; // the rest of the text
    const char *line;       // the line being worked on ...
    size_t length;          // ... without its newline
    int64_t number;
} reader;

// A piece of a control line.
typedef struct word {
    const char *text;
    size_t length;
} word;

typedef enum block_end { BLOCK_FILE, BLOCK_ELSE, BLOCK_END } block_end;

static km_status expand_file(expander *e, const scope *scopes, const char *name, size_t length,
                             const reader *at, int verbatim);
static km_status expand_block(expander *e, const scope *scopes, reader *r, int active, block_end *ended);
static km_status expand_inner(expander *e, const scope *scopes, reader *r, int active, block_end *ended);
static km_status expand_text(expander *e, const scope *scopes, reader *r);

static int is_name_char(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static km_status fail_at(const expander *e, const reader *r, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static km_status fail_at(const expander *e, const reader *r, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return km_fail(e->err, KM_ERROR_INTERNAL, "%s:%lld: %s", r->name, (long long)r->number, text);
}

static int is_variable(const scope *s, const char *name, size_t length) {
    return length == s->variable_length && !memcmp(name, s->variable, length);
}

// The part of `name` that lies inside the loop's item: after "variable_". NULL when it is another name.
static const char *inside_item(const scope *s, const char *name, size_t length) {
    size_t v = s->variable_length;
    if (!s->item || length < v + 2 || name[v] != '_' || memcmp(name, s->variable, v) != 0) return NULL;
    return name + v + 1;
}

static const char *find_text(const expander *e, const scope *scopes, const char *name, size_t length) {
    for (const scope *s = scopes; s; s = s->outer) {
        if (s->text && is_variable(s, name, length)) return s->text;
        const char *rest = inside_item(s, name, length);
        const km_env_name *found = rest ? km_env_find(s->item, rest, length - (size_t)(rest - name)) : NULL;
        if (found) return found->text;
    }
    for (const km_env *env = e->env; env; env = env->parent) {
        const km_env_name *found = km_env_find(env, name, length);
        if (found) return found->text;
    }
    return NULL;
}

static const km_env_items *find_list(const expander *e, const scope *scopes, const char *name,
                                     size_t length) {
    for (const scope *s = scopes; s; s = s->outer) {
        if (s->list && is_variable(s, name, length)) return s->list;
        const char *rest = inside_item(s, name, length);
        const km_env_items *found =
            rest ? km_env_find_list(s->item, rest, length - (size_t)(rest - name)) : NULL;
        if (found) return found;
    }
    for (const km_env *env = e->env; env; env = env->parent) {
        const km_env_items *found = km_env_find_list(env, name, length);
        if (found) return found;
    }
    return NULL;
}

// The longest known name that begins at `hole` and ends before an underscore or at the end of the identifier.
static const char *find_hole(const expander *e, const scope *scopes, const char *hole, size_t *length) {
    for (size_t tried = *length; tried > 0; tried--) {
        if (tried < *length && hole[tried] != '_') continue;
        const char *text = find_text(e, scopes, hole, tried);
        if (!text) continue;
        *length = tried;
        return text;
    }
    return NULL;
}

// A piece of the line `r` with its holes filled.
static km_status expand_holes(km_text *out, const expander *e, const scope *scopes, const reader *r, word w) {
    const char *p = w.text, *end = w.text + w.length;
    while (p < end) {
        const char *dollar = memchr(p, '$', (size_t)(end - p));
        km_text_add(out, p, (dollar ? dollar : end) - p);
        if (!dollar) break;
        const char *hole = dollar + 1;
        size_t length = 0;
        while (hole + length < end && is_name_char(hole[length])) length++;
        if (!length) return fail_at(e, r, "a $ without a name");
        size_t whole = length;
        const char *text = find_hole(e, scopes, hole, &length);
        if (!text) return fail_at(e, r, "unknown hole $%.*s", (int)whole, hole);
        km_text_puts(out, text);
        p = hole + length;
    }
    return KM_OK;
}

static km_status expand_line(expander *e, const scope *scopes, const reader *r) {
    for (int64_t i = 0; r->length && i < e->indent; i++) km_text_add(e->out, " ", 1);
    KM_TRY(expand_holes(e->out, e, scopes, r, (word){r->line, r->length}));
    km_text_add(e->out, "\n", 1);
    return KM_OK;
}

static int next_line(reader *r) {
    if (r->next >= r->end) return 0;
    const char *newline = memchr(r->next, '\n', (size_t)(r->end - r->next));
    const char *stop = newline ? newline : r->end;
    r->line = r->next;
    r->length = (size_t)(stop - r->next);
    r->next = newline ? newline + 1 : r->end;
    r->number++;
    return 1;
}

// A zero in a text would end it for all that take it as a string.
static km_status refuse_zero(const expander *e, const reader *r) {
    if (!memchr(r->next, 0, (size_t)(r->end - r->next))) return KM_OK;
    reader at = *r;
    while (next_line(&at) && !memchr(at.line, 0, at.length)) continue;
    return fail_at(e, &at, "a template is text, but there is a zero byte here");
}

static word next_word(const char **cursor, const char *end) {
    const char *p = *cursor;
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    const char *start = p;
    while (p < end && *p != ' ' && *p != '\t') p++;
    *cursor = p;
    return (word){start, (size_t)(p - start)};
}

static int word_is(word w, const char *text) {
    return w.length == strlen(text) && !strncmp(w.text, text, w.length);
}

// The words of a control line after "//@", the first eight of them; -1 when it is an ordinary line.
enum { WORDS_MAX = 8 };
static int control_words(word *words, const reader *r) {
    const char *p = r->line, *end = r->line + r->length;
    while (p < end && (*p == ' ' || *p == '\t')) p++;
    if (end - p < 3 || strncmp(p, "//@", 3) != 0) return -1;
    p += 3;
    int count = 0;
    for (word w = next_word(&p, end); w.length; w = next_word(&p, end), count++)
        if (count < WORDS_MAX) words[count] = w;
    return count;
}

// How far a control line is indented.
static int64_t blanks_before(const reader *r) {
    return strstr(r->line, "//@") - r->line;
}

// "//@ need NAME..." may be long, so it reads the line itself.
static km_status control_need(const expander *e, const scope *scopes, const reader *r) {
    const char *end = r->line + r->length, *p = strstr(r->line, "need") + 4;
    for (word w = next_word(&p, end); w.length; w = next_word(&p, end))
        if (!find_text(e, scopes, w.text, w.length) && !find_list(e, scopes, w.text, w.length))
            return fail_at(e, r, "this template needs the name %.*s, which is unknown", (int)w.length,
                           w.text);
    return KM_OK;
}

static km_status control_if(expander *e, const scope *scopes, reader *r, const word *words, int count,
                            int active) {
    reader opened = *r;
    int negated = count == 3 && word_is(words[1], "not");
    if (count != 2 + negated) return fail_at(e, r, "expected //@ if NAME or //@ if not NAME");
    int holds = 0;
    if (active) {
        word name = words[1 + negated];
        const char *text = find_text(e, scopes, name.text, name.length);
        if (!text) return fail_at(e, r, "unknown flag %.*s", (int)name.length, name.text);
        holds = (text[0] && strcmp(text, "0") != 0) != negated;
    }
    block_end ended;
    KM_TRY(expand_inner(e, scopes, r, active && holds, &ended));
    if (ended == BLOCK_ELSE) {
        KM_TRY(expand_inner(e, scopes, r, active && !holds, &ended));
        if (ended == BLOCK_ELSE) return fail_at(e, r, "a second //@ else");
    }
    return ended == BLOCK_END ? KM_OK : fail_at(e, &opened, "//@ if without //@ end");
}

static km_status control_for(expander *e, const scope *scopes, reader *r, const word *words, int count,
                             int active) {
    reader opened = *r;
    if (count != 4 || !word_is(words[2], "in")) return fail_at(e, r, "expected //@ for NAME in LIST");
    const km_env_items *list = active ? find_list(e, scopes, words[3].text, words[3].length) : NULL;
    if (active && !list) return fail_at(e, r, "unknown list %.*s", (int)words[3].length, words[3].text);
    scope inner = {.outer = scopes, .variable = words[1].text, .variable_length = words[1].length};
    int64_t items = list ? list->count : 0;
    for (int64_t i = 0; i < (items ? items : 1); i++) { // once without items: to find the end
        block_end ended;
        *r = opened;
        if (items) inner.item = list->items[i], inner.text = inner.item->text;
        KM_TRY(expand_inner(e, items ? &inner : scopes, r, items != 0, &ended));
        if (ended == BLOCK_ELSE) return fail_at(e, r, "//@ else inside //@ for");
        if (ended == BLOCK_FILE) return fail_at(e, &opened, "//@ for without //@ end");
    }
    return KM_OK;
}

static definition *find_definition(const expander *e, const char *name, size_t length) {
    for (int64_t i = 0; i < e->definitions_count; i++)
        if (km_env_is_name(e->definitions[i].name, name, length)) return &e->definitions[i];
    return NULL;
}

static km_status add_definition(expander *e, const reader *opened, word name, const char *text,
                                int64_t size) {
    const definition *known = find_definition(e, name.text, name.length);
    if (known)
        return fail_at(e, opened, "%s is defined twice, before this at %s:%lld", known->name, known->file,
                       (long long)known->number);
    if (e->definitions_count == e->definitions_capacity) {
        int64_t grown = e->definitions_capacity ? 2 * e->definitions_capacity : 32;
        definition *moved = realloc(e->definitions, (size_t)grown * sizeof *moved);
        if (!moved) return km_fail_memory(e->err, "a template", grown * (int64_t)sizeof *moved);
        e->definitions = moved;
        e->definitions_capacity = grown;
    }
    definition *added = &e->definitions[e->definitions_count++];
    *added = (definition){.name = strndup(name.text, name.length),
                          .file = strdup(opened->name),
                          .text = strndup(text, (size_t)size),
                          .size = size,
                          .number = opened->number};
    if (added->name && added->file && added->text) return KM_OK;
    return km_fail_memory(e->err, "a template", size);
}

static void clear_definitions(expander *e) {
    for (int64_t i = 0; i < e->definitions_count; i++) {
        free(e->definitions[i].name);
        free(e->definitions[i].file);
        free(e->definitions[i].text);
    }
    free(e->definitions);
}

static km_status control_def(expander *e, const scope *scopes, reader *r, const word *words, int count,
                             int active) {
    reader opened = *r;
    block_end ended;
    if (count != 2) return fail_at(e, r, "expected //@ def NAME");
    word name = words[1];
    KM_TRY(expand_inner(e, scopes, r, 0, &ended));
    if (ended == BLOCK_ELSE) return fail_at(e, r, "//@ else inside //@ def");
    if (ended == BLOCK_FILE) return fail_at(e, &opened, "//@ def without //@ end");
    return active ? add_definition(e, &opened, name, opened.next, r->line - opened.next) : KM_OK;
}

// Expands a definition where it is first used. Only names of the root are known in it, so the text is the same wherever
// that is.
static km_status use_definition(expander *e, const reader *r, word name) {
    definition *found = find_definition(e, name.text, name.length);
    if (!found) return fail_at(e, r, "there is no //@ def %.*s before this", (int)name.length, name.text);
    if (found->state == USED) return KM_OK;
    if (found->state == BEING_USED) return fail_at(e, r, "%s uses itself", found->name);
    if (e->includes >= INCLUDES_MAX) return fail_at(e, r, "%s is used too deeply inside others", found->name);
    int64_t index = found - e->definitions; // they may move
    reader inner = {found->file, found->text, found->text + found->size, NULL, 0, found->number};
    found->state = BEING_USED;
    e->includes++;
    km_status status = expand_text(e, NULL, &inner);
    e->includes--;
    e->definitions[index].state = USED;
    return status;
}

// "//@ use NAME..."
static km_status control_use(expander *e, const reader *r, int count) {
    const char *end = r->line + r->length, *p = strstr(r->line, "use") + 3;
    if (count < 2) return fail_at(e, r, "expected //@ use NAME...");
    for (word w = next_word(&p, end); w.length; w = next_word(&p, end)) KM_TRY(use_definition(e, r, w));
    return KM_OK;
}

// Parameters of one include.
enum { PARAMETERS_MAX = 8 };
typedef struct parameters {
    scope scopes[PARAMETERS_MAX];
    char *numbers[PARAMETERS_MAX]; // texts of those that are numbers
    int count;
} parameters;

// A parameter means a number, or what a name means here.
static km_status bind_parameter(parameters *all, const expander *e, const scope *scopes, const reader *r,
                                word name, word value) {
    if (all->count == PARAMETERS_MAX) return fail_at(e, r, "more than %d parameters", PARAMETERS_MAX);
    scope *bound = &all->scopes[all->count];
    *bound = (scope){.outer = scopes, .variable = name.text, .variable_length = name.length};
    char **number = &all->numbers[all->count++];
    if (value.text[0] >= '0' && value.text[0] <= '9') {
        bound->text = *number = strndup(value.text, value.length);
        return *number ? KM_OK : km_fail_memory(e->err, "a template", (int64_t)value.length);
    }
    for (const scope *s = scopes; s; s = s->outer) {
        if (!is_variable(s, value.text, value.length)) continue;
        bound->text = s->text, bound->item = s->item, bound->list = s->list;
        return KM_OK;
    }
    bound->text = find_text(e, scopes, value.text, value.length);
    bound->list = bound->text ? NULL : find_list(e, scopes, value.text, value.length);
    if (bound->text || bound->list) return KM_OK;
    return fail_at(e, r, "unknown name or list %.*s", (int)value.length, value.text);
}

// Reads "NAME = VALUE, ..." from `p` to the line's end.
static km_status bind_parameters(parameters *all, const expander *e, const scope *scopes, const reader *r,
                                 const char *p) {
    const char *end = r->line + r->length;
    for (int more = 1; more;) {
        word name = next_word(&p, end), equals = next_word(&p, end), value = next_word(&p, end);
        more = value.length && value.text[value.length - 1] == ',';
        value.length -= (size_t)more;
        if (!value.length || !word_is(equals, "=") || (!more && next_word(&p, end).length))
            return fail_at(e, r, "expected //@ include FILE with NAME = VALUE, ...");
        KM_TRY(bind_parameter(all, e, all->count ? &all->scopes[all->count - 1] : scopes, r, name, value));
    }
    return KM_OK;
}

// Reads the definitions of a file; the rest of its text is dropped.
static km_status expand_words(expander *e, const scope *scopes, const char *name, size_t length,
                              const reader *r) {
    km_text dropped = {0}, *out = e->out;
    e->out = &dropped;
    km_status status = expand_file(e, scopes, name, length, r, 0);
    e->out = out;
    km_text_clear(&dropped);
    return status;
}

static km_status control_include(expander *e, const scope *scopes, const reader *r, const word *words,
                                 int count) {
    parameters with = {.count = 0};
    km_text name = {0};
    km_status status = KM_OK;
    int plain = word_is(words[0], "include"), has_with = count > 2 && word_is(words[2], "with");
    if (count != 2 && !(plain && has_with))
        return fail_at(e, r, "expected //@ %.*s FILE", (int)words[0].length, words[0].text);
    if (has_with) KM_TRY_GOTO(bind_parameters(&with, e, scopes, r, words[2].text + words[2].length));
    if (with.count) scopes = &with.scopes[with.count - 1];
    KM_TRY_GOTO(expand_holes(&name, e, scopes, r, words[1]));
    if (name.failed) KM_TRY_GOTO(km_fail_memory(e->err, "a template's name", (int64_t)words[1].length));
    const char *file = name.data ? name.data : "";
    if (word_is(words[0], "words"))
        status = expand_words(e, scopes, file, (size_t)name.size, r);
    else
        status = expand_file(e, scopes, file, (size_t)name.size, r, !plain);
done:
    for (int i = 0; i < with.count; i++) free(with.numbers[i]);
    km_text_clear(&name);
    return status;
}

// A line that inserts other text, which is indented as far as the line.
static km_status control_bring(expander *e, const scope *scopes, const reader *r, const word *words,
                               int count) {
    const int64_t outer = e->indent;
    e->indent += blanks_before(r);
    km_status status =
        word_is(words[0], "use") ? control_use(e, r, count) : control_include(e, scopes, r, words, count);
    e->indent = outer;
    return status;
}

static km_status control_line(expander *e, const scope *scopes, reader *r, const word *words, int count,
                              int active) {
    static const char *const bringing[] = {"include", "use", "verbatim", "words"};
    if (count && word_is(words[0], "if")) return control_if(e, scopes, r, words, count, active);
    if (count && word_is(words[0], "for")) return control_for(e, scopes, r, words, count, active);
    if (count && word_is(words[0], "need")) return active ? control_need(e, scopes, r) : KM_OK;
    if (count && word_is(words[0], "def")) return control_def(e, scopes, r, words, count, active);
    for (size_t i = 0; count && i < sizeof bringing / sizeof *bringing; i++)
        if (word_is(words[0], bringing[i])) return active ? control_bring(e, scopes, r, words, count) : KM_OK;
    return fail_at(e, r, "unknown control line //@ %.*s", count ? (int)words[0].length : 0,
                   count ? words[0].text : "");
}

// A block inside another one, up to BLOCKS_MAX deep.
static km_status expand_inner(expander *e, const scope *scopes, reader *r, int active, block_end *ended) {
    if (e->blocks == BLOCKS_MAX)
        return fail_at(e, r, "more than %d //@ if, //@ for and //@ def inside each other", BLOCKS_MAX);
    e->blocks++;
    km_status status = expand_block(e, scopes, r, active, ended);
    e->blocks--;
    return status;
}

// Expands up to the block's //@ end or //@ else, or the end of the file. Inactive: only looks for the end.
static km_status expand_block(expander *e, const scope *scopes, reader *r, int active, block_end *ended) {
    word words[WORDS_MAX];
    while (next_line(r)) {
        int count = control_words(words, r);
        if (count < 0) {
            if (active) KM_TRY(expand_line(e, scopes, r));
            continue;
        }
        int is_end = count && word_is(words[0], "end");
        if (is_end || (count && word_is(words[0], "else"))) {
            if (count != 1) return fail_at(e, r, "//@ %s takes no words", is_end ? "end" : "else");
            *ended = is_end ? BLOCK_END : BLOCK_ELSE;
            return KM_OK;
        }
        KM_TRY(control_line(e, scopes, r, words, count, active));
    }
    *ended = BLOCK_FILE;
    return KM_OK;
}

static km_status read_file(char **out, int64_t *size, const char *dir, const char *name, km_error *err) {
    char path[4096];
    *out = NULL;
    if (snprintf(path, sizeof path, "%s/%s", dir, name) >= (int)sizeof path)
        return km_fail(err, KM_ERROR_IO, "%s/%s: the path is too long", dir, name);
    km_text text = {0};
    FILE *file = fopen(path, "rb");
    if (!file) return km_fail(err, KM_ERROR_IO, "cannot read the template %s: %s", path, strerror(errno));
    char piece[4096];
    for (size_t got; !text.failed && (got = fread(piece, 1, sizeof piece, file)) > 0;)
        km_text_add(&text, piece, (int64_t)got);
    int failed = ferror(file);
    fclose(file);
    if (failed) {
        km_text_clear(&text);
        return km_fail(err, KM_ERROR_IO, "cannot read the template %s: %s", path, strerror(errno));
    }
    *size = text.size;
    return km_text_take(out, &text, err);
}

// A template's own licence line is left out: the emitted file opens with one for all of it.
static void skip_licence(reader *r) {
    static const char licence[] = "// SPDX-License-Identifier:";
    size_t left = (size_t)(r->end - r->next);
    if (left >= sizeof licence - 1 && !strncmp(r->next, licence, sizeof licence - 1)) next_line(r);
}

static km_status expand_text(expander *e, const scope *scopes, reader *r) {
    block_end ended;
    KM_TRY(expand_block(e, scopes, r, 1, &ended));
    if (ended == BLOCK_FILE) return KM_OK;
    return fail_at(e, r, "//@ %s without //@ if%s", ended == BLOCK_END ? "end" : "else",
                   ended == BLOCK_END ? ", //@ for or //@ def" : "");
}

// `at` is the line that includes it, NULL for the root.
static km_status expand_file(expander *e, const scope *scopes, const char *name, size_t length,
                             const reader *at, int verbatim) {
    char file_name[256], *owned = NULL;
    const char *text = NULL;
    int64_t size = 0;
    km_status status = KM_OK;
    snprintf(file_name, sizeof file_name, "%.*s", (int)length, name);
    if (e->includes >= INCLUDES_MAX)
        return fail_at(e, at, "%s is included too deeply; does a template include itself?", file_name);
    if (e->dir) {
        KM_TRY_GOTO(read_file(&owned, &size, e->dir, file_name, e->err));
        text = owned;
    }
    for (int64_t i = 0; !text && i < km_embedded_templates_count; i++) {
        if (strcmp(km_embedded_templates[i].name, file_name) != 0) continue;
        text = km_embedded_templates[i].text;
        size = km_embedded_templates[i].size;
    }
    if (!text && at) return fail_at(e, at, "there is no template %s", file_name);
    if (!text) return km_fail(e->err, KM_ERROR_INTERNAL, "there is no template %s", file_name);
    reader r = {.name = file_name, .next = text, .end = text + size};
    KM_TRY_GOTO(refuse_zero(e, &r));
    skip_licence(&r);
    if (verbatim) {
        km_text_add(e->out, r.next, r.end - r.next);
        if (r.next < r.end && r.end[-1] != '\n') km_text_add(e->out, "\n", 1);
    } else {
        e->includes++;
        status = expand_text(e, scopes, &r);
        e->includes--;
    }
done:
    free(owned);
    return status;
}

km_status km_template_expand(km_text *out, const char *name, const km_env *env, const char *dir,
                             km_error *err) {
    for (const km_env *e = env; e; e = e->parent)
        if (e->failed) return km_fail_memory(err, "the names of a template", 0);
    expander e = {.out = out, .env = env, .dir = dir, .err = err};
    km_status status = expand_file(&e, NULL, name, strlen(name), NULL, 0);
    clear_definitions(&e);
    KM_TRY(status);
    return out->failed ? km_fail_memory(err, "the emitted text", out->size) : KM_OK;
}
