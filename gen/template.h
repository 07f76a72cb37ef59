// SPDX-License-Identifier: MIT
// The template engine: a template is a C file whose control lines are comments and whose holes are $name.
//
//     //@ need NAME...        every name must be known here: fails at once, with file:line
//     //@ if NAME | //@ if not NAME | //@ else | //@ end      NAME is a flag: its text is not "" and not "0"
//     //@ for x in LIST | //@ end    the body once for each item
//     //@ include FILE        another template, with the names that are known here; FILE may have holes
//     //@ include FILE with a = b, n = 4      in it `a` means what the name, list or loop variable b means here
//     //@ def NAME | //@ end  keeps the text between as NAME, and leaves nothing here
//     //@ words FILE          the definitions of FILE, and nothing else of it
//     //@ use NAME...         the text of NAME, with holes of the root's names, if it was not used before
//     //@ verbatim FILE       another file as it is, without its licence line
//     $name                   the name's text: letters, digits and _ after the $; the longest KNOWN name that is
//                             a prefix ending before an underscore or the end matches, so that sum_$k, $k_sum
//                             and $d_$f all work; an unknown hole is an error with file:line
// Inside `for x in LIST` an item's names are written $x_name, and $x is the item's own text. Control lines
// leave no line behind. What an indented include or use brings is indented as far. There are no expressions: a
// decision belongs to the plan.
#ifndef KM_GEN_TEMPLATE_H
#define KM_GEN_TEMPLATE_H
#include "../base/text.h"
#include "../base/error.h"

// Names and lists that a template may use; a tree: an item of a list is an environment inside its parent.
typedef struct km_env km_env;

km_env *km_env_create(void); // NULL: no memory
void km_env_destroy(km_env **env);
// A name's text. Setting a name twice replaces it. Failures of memory are kept and reported by expand.
void km_env_set(km_env *env, const char *name, const char *format, ...) __attribute__((format(printf, 3, 4)));
void km_env_set_text(km_env *env, const char *name, km_text *text); // takes the text
void km_env_set_int(km_env *env, const char *name, int64_t value);
void km_env_set_flag(km_env *env, const char *name, int value);
// Appends an item to a list (made when first named; `text` is the item's own) and returns it, to be filled with
// names of its own and lists of its own. Never NULL (after a failure: a dummy).
km_env *km_env_item(km_env *env, const char *list, const char *text);
// Makes a list known although it has no items.
void km_env_list(km_env *env, const char *list);

// Expands an embedded template (or dir/name when dir is not NULL) to the end of `out`. KM_ERROR_INTERNAL with
// "template:line: ..." for mistakes in the template, KM_ERROR_IO when dir/name cannot be read.
km_status km_template_expand(km_text *out, const char *name, const km_env *env, const char *dir,
                             km_error *err);

// Embedded templates (made by gen/embed.c at build time).
typedef struct km_embedded {
    const char *name, *text;
    int64_t size;
} km_embedded;
extern const km_embedded km_embedded_templates[];
extern const int64_t km_embedded_templates_count;

#endif
