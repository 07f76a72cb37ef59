// SPDX-License-Identifier: MIT
// Emitted texts as the golden test takes them: by section, and with marks that tell which lines of the templates they
// are made of.
#ifndef KM_TESTS_GOLDEN_TEXT_H
#define KM_TESTS_GOLDEN_TEXT_H
#include "base/text.h"

#include <kmgen/plan.h>

// A section of an emitted file: what its table of contents lists, its line `// ==== TITLE ====` included. The first
// one, above all titles, is called "Head"; sections of parts of the pass are one with "The pass"; the header beside the
// file comes last and is called "Header".
typedef struct golden_section {
    char title[96];
    const char *text;
    int64_t size;
} golden_section;

enum { GOLDEN_SECTIONS_MAX = 16 };

// An emitted text, or one of prebuilt kernels.
typedef struct golden_text {
    km_source source;
    char *prebuilt; // its text
    golden_section sections[GOLDEN_SECTIONS_MAX];
    int sections_count;
} golden_text;

// What is emitted: a spec with its target, and what is known about the points.
typedef struct golden_wish {
    km_spec spec;
    int32_t weighted, track_labels;
    int32_t starting; // the text is that of the plan's starting pass (km_source_starter)
    int64_t points;
    int32_t
        subsets; // columns of a subset: the text is that for subsets of the table (km_subsets_emit); 0: the spec's
    const char *prebuilt_program, *prebuilt; // "KIND NAME" for that program; NULL: the spec is emitted
} golden_wish;

void golden_wish_init(golden_wish *wish);
void golden_wish_clear(golden_wish *wish);
// Reads "{features: 4, clusters: 3..5, target: cuda} weighted tracked starting points=1000 subsets=2", or "prebuilt
// KIND NAME".
// `name` is the spec's. Non-zero, and said, when it cannot be read.
int golden_wish_read(golden_wish *wish, const char *name, const char *line);

// Non-zero, and said, when it cannot be emitted. `templates`: a folder, NULL: those of the library.
int golden_emit(golden_text *out, const golden_wish *wish, const char *templates);
void golden_text_clear(golden_text *text);
const golden_section *golden_section_find(const golden_text *text, const char *title);
// Cuts the next top-level definition, with the comments above it, off the rest of a section. 0: nothing is left.
int golden_next_item(golden_section *rest, golden_section *item);

// Marks ---------------------------------------------------------------------------------------------------------

// A copy of the templates in which every definition at the left edge, every branch of an //@ if, every body of an
// //@ for and every //@ def has a mark in front of its first line of text, which the emitted text then carries.
typedef struct golden_mark {
    char file[64], block[96]; // the template, and the control line that the block begins with
    int line;
    char shown;
} golden_mark;

typedef struct golden_marks {
    char folder[64]; // where the copy is
    golden_mark *marks;
    int count;
} golden_marks;

int golden_marks_make(golden_marks *marks); // non-zero, and said, when that fails
void golden_marks_clear(golden_marks *marks);
// Calls `each` with every mark in a section that was emitted from the copy.
void golden_marks_of(const golden_section *section, void (*each)(void *user, int mark), void *user);

#endif
