// SPDX-License-Identifier: MIT
#include "translate.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPERANDS_MAX = 32, PTX_MAX = 2048, NAME_MAX_ = 128 };

typedef struct buffer {
    char *text;
    size_t length, size;
    int failed;
} buffer;

static void add(buffer *out, const char *text, size_t length) {
    if (out->length + length + 1 > out->size) {
        size_t size = 2 * (out->length + length) + 4096;
        char *grown = realloc(out->text, size);
        if (!grown) {
            out->failed = 1;
            return;
        }
        out->text = grown, out->size = size;
    }
    memcpy(out->text + out->length, text, length);
    out->length += length;
    out->text[out->length] = 0;
}

__attribute__((format(printf, 2, 3))) static void say(buffer *out, const char *format, ...) {
    char text[4 * PTX_MAX];
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    if (length < 0 || (size_t)length >= sizeof text)
        out->failed = 1;
    else
        add(out, text, (size_t)length);
}

static int is_word(char c) {
    return isalnum((unsigned char)c) || c == '_';
}

// Behind blanks and comments.
static const char *skip(const char *at) {
    for (;;) {
        if (isspace((unsigned char)*at))
            at++;
        else if (!strncmp(at, "//", 2))
            at += strcspn(at, "\n");
        else if (!strncmp(at, "/*", 2) && strstr(at, "*/"))
            at = strstr(at, "*/") + 2;
        else
            return at;
    }
}

// Behind a literal in quotes.
static const char *skip_literal(const char *at) {
    char quote = *at++;
    while (*at && *at != quote) at += *at == '\\' && at[1] ? 2 : 1;
    return *at ? at + 1 : at;
}

// Behind the bracket that closes the one at `at`.
static const char *skip_brackets(const char *at) {
    int depth = 0;
    do {
        if (*at == '"' || *at == '\'') {
            at = skip_literal(at);
            continue;
        }
        depth += *at == '(' || *at == '[' || *at == '{';
        depth -= *at == ')' || *at == ']' || *at == '}';
        at++;
        at = *at == '/' ? skip(at) : at;
    } while (*at && depth > 0);
    return at;
}

static int word_at(const char *text, const char *at, const char *word) {
    size_t length = strlen(word);
    return !strncmp(at, word, length) && !is_word(at[length]) && (at == text || !is_word(at[-1]));
}

// As many ends of lines as were in the text that something else now stands for.
static void keep_lines(buffer *out, const char *from, const char *to) {
    for (; from < to; from++)
        if (*from == '\n') add(out, "\n", 1);
}

// Inline assembly -------------------------------------------------------------------------------------------

typedef struct operand {
    char constraint[8];
    const char *expression; // with its parentheses
    int length;
} operand;

typedef struct statement {
    char ptx[PTX_MAX];
    operand operands[OPERANDS_MAX];
    int count, outputs;
} statement;

// Literals that stand together.
static const char *read_literals(char *to, size_t size, const char *at) {
    size_t length = 0;
    while (*at == '"') {
        const char *end = skip_literal(at);
        for (at++; at < end - 1; at++) {
            char c = *at;
            if (c == '\\') c = *++at == 'n' || *at == 't' ? ' ' : *at;
            if (length + 1 < size) to[length++] = c;
        }
        at = skip(end);
    }
    to[length] = 0;
    return at;
}

// From behind "asm"; NULL: it is not understood.
static const char *read_statement(statement *out, const char *at) {
    *out = (statement){.count = 0};
    at = skip(at);
    if (!strncmp(at, "volatile", 8)) at = skip(at + 8);
    if (*at != '(') return NULL;
    at = read_literals(out->ptx, sizeof out->ptx, skip(at + 1));
    for (int section = 0; *at == ':'; section++) {
        at = skip(at + 1);
        while (*at == '"') {
            char text[8];
            at = read_literals(text, sizeof text, at);
            if (section < 2) {
                if (*at != '(' || out->count == OPERANDS_MAX) return NULL;
                operand *own = &out->operands[out->count++];
                memcpy(own->constraint, text, sizeof text);
                own->expression = at;
                own->length = (int)(skip_brackets(at) - at);
                at = skip(at + own->length);
            }
            if (*at == ',') at = skip(at + 1);
        }
        if (section == 0) out->outputs = out->count;
    }
    return *at == ')' ? at + 1 : NULL;
}

static const char *type_of(const operand *own) {
    switch (own->constraint[strlen(own->constraint) - 1]) {
    case 'r':
        return "unsigned";
    case 'h':
        return "unsigned short";
    case 'l':
        return "unsigned long long";
    case 'f':
        return "float";
    case 'd':
        return "double";
    case 'n':
        return "const long long";
    default:
        return NULL;
    }
}

// One operand of an instruction: brackets of addresses and vectors are left out.
static const char *write_operand(buffer *out, const char *at) {
    if (*at == '%') {
        char *end;
        say(out, "emu_%ld_", strtol(at + 1, &end, 10));
        return end;
    }
    if (!strncmp(at, "0f", 2)) { // the bits of a float
        say(out, "__uint_as_float(0x%.8s)", at + 2);
        return at + 10;
    }
    size_t length = 1;
    while (is_word(at[length])) length++;
    add(out, at, length);
    return at + length;
}

// `.reg .pred a, b` and the like.
static const char *write_registers(buffer *out, const char *at) {
    static const char *const types[][2] = {{".pred", "bool"},          {".f16", "unsigned short"},
                                           {".b16", "unsigned short"}, {".b32", "unsigned"},
                                           {".f32", "float"},          {".f64", "double"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        size_t length = strlen(types[i][0]);
        if (strncmp(at, types[i][0], length) != 0) continue;
        at += length;
        size_t names = strcspn(at, ";");
        say(out, "%s %.*s;", types[i][1], (int)names, at);
        return at + names + 1;
    }
    return NULL;
}

static const char *write_instruction(buffer *out, const char *at) {
    if (*at == '@') {
        int is_not = at[1] == '!';
        at += 1 + is_not;
        size_t length = strcspn(at, " ");
        say(out, "if (%s%.*s) ", is_not ? "!" : "", (int)length, at);
        at = skip(at + length);
    }
    size_t length = strcspn(at, " ;");
    say(out, "ptx::");
    for (size_t i = 0; i < length; i++) add(out, at[i] == '.' || at[i] == ':' ? "_" : at + i, 1);
    add(out, "(", 1);
    at += length;
    for (int is_first = 1; *at && *at != ';'; is_first = 0) {
        at += strspn(at, " ,{}[]");
        if (!*at || *at == ';') break;
        if (!is_first) add(out, ", ", 2);
        at = write_operand(out, at);
    }
    add(out, ");", 2);
    return *at ? at + 1 : at;
}

static int write_ptx(buffer *out, const char *at) {
    for (;;) {
        at = skip(at);
        if (!*at) return 1;
        if (*at == '{' || *at == '}')
            add(out, at++, 1);
        else if (!strncmp(at, ".reg", 4)) {
            at = write_registers(out, skip(at + 4));
            if (!at) return 0;
        } else
            at = write_instruction(out, at);
    }
}

static int write_statement(buffer *out, const statement *own) {
    say(out, "do { ");
    for (int i = 0; i < own->count; i++) {
        const operand *o = &own->operands[i];
        const char *type = type_of(o);
        if (!type) return 0;
        if (o->constraint[0] == '=')
            say(out, "%s emu_%d_; ", type, i);
        else
            say(out, "%s emu_%d_ = (%s)%.*s; ", type, i, type, o->length, o->expression);
    }
    if (!write_ptx(out, own->ptx)) return 0;
    for (int i = 0; i < own->outputs; i++)
        say(out, " emulated_put(%.*s, emu_%d_);", own->operands[i].length, own->operands[i].expression, i);
    say(out, " } while (0)");
    return !out->failed;
}

// The text from here on -------------------------------------------------------------------------------------

typedef struct kernel {
    char name[NAME_MAX_], limit[512], parameters[1024];
} kernel;

// From behind "__global__": the kernel's name, what __launch_bounds__ says, and what it is given.
static void read_kernel(kernel *out, const char *at) {
    *out = (kernel){.name = ""};
    for (at = skip(at); *at; at = skip(at)) {
        const char *word = at;
        if (!is_word(*at)) return;
        while (is_word(*at)) at++;
        int length = (int)(at - word);
        at = skip(at);
        if (*at != '(') continue;
        const char *end = skip_brackets(at);
        if (word_at(word, word, "__launch_bounds__")) {
            snprintf(out->limit, sizeof out->limit, "%.*s", (int)(end - at) - 2, at + 1);
            at = end;
        } else {
            snprintf(out->name, sizeof out->name, "%.*s", length, word);
            snprintf(out->parameters, sizeof out->parameters, "%.*s", (int)(end - at), at);
            return;
        }
    }
}

// `extern __shared__ TYPE NAME[];` as a pointer to where dynamic shared memory begins.
static const char *write_shared(buffer *out, const char *at) {
    const char *from = at, *end = strchr(at, ';');
    at = skip(at + strlen("extern"));
    if (!word_at(at, at, "__shared__") || !end) return NULL;
    at = skip(at + strlen("__shared__"));
    if (word_at(at, at, "__align__")) at = skip(skip_brackets(skip(at + strlen("__align__"))));
    const char *bracket = strchr(at, '[');
    if (!bracket || bracket > end) return NULL;
    const char *name = bracket;
    while (name > at && is_word(name[-1])) name--;
    say(out, "%.*s *const %.*s = (%.*s *)EMULATED_SHARED", (int)(name - at), at, (int)(bracket - name), name,
        (int)(name - at), at);
    keep_lines(out, from, end);
    return end;
}

static const char *write_asm(buffer *out, const char *at) {
    statement own;
    buffer made = {NULL, 0, 0, 0};
    const char *end = read_statement(&own, at + strlen("asm"));
    if (end && write_statement(&made, &own)) {
        add(out, made.text, made.length);
        keep_lines(out, at, end);
    } else
        end = NULL;
    free(made.text);
    return end;
}

char *emulated_translate(const char *text) {
    buffer out = {NULL, 0, 0, 0}, starts = {NULL, 0, 0, 0};
    const char *at = text;
    while (*at && !out.failed) {
        const char *end = NULL;
        if (*at == '"' || (*at == '\'' && (at == text || !is_word(at[-1]))))
            end = skip_literal(at);
        else if (*at == '/' && skip(at) != at)
            end = skip(at);
        if (end) {
            add(&out, at, (size_t)(end - at));
            at = end;
            continue;
        }
        if (word_at(text, at, "asm"))
            end = write_asm(&out, at);
        else if (word_at(text, at, "extern"))
            end = write_shared(&out, at);
        else if (word_at(text, at, "__constant__") &&
                 !word_at(text, skip(at + strlen("__constant__")), "const"))
            add(&out, "emulated_variable ", strlen("emulated_variable "));
        else if (word_at(text, at, "__global__")) {
            kernel own;
            read_kernel(&own, at + strlen("__global__"));
            if (*own.name)
                // Its parameters, as other functions may have its name.
                say(&starts,
                    "extern \"C\" void emulated_start_%s(void **arguments) "
                    "{ emulated_start((void (*)%s)%s, arguments); }\n"
                    "extern \"C\" { extern const int emulated_threads_%s; "
                    "const int emulated_threads_%s = emulated_first(%s); }\n",
                    own.name, own.parameters, own.name, own.name, own.name, own.limit);
        }
        if (end) {
            at = end;
            continue;
        }
        add(&out, at++, 1);
    }
    if (starts.text) add(&out, starts.text, starts.length);
    out.failed |= starts.failed;
    free(starts.text);
    if (!out.failed) return out.text;
    free(out.text);
    return NULL;
}
