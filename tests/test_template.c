// SPDX-License-Identifier: MIT
// The template engine: holes, control lines, and each mistake by file and line.
#include "gen/template.h"

#include "quiet_check.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/km_template_XXXXXX";

static void write_template(const char *name, const char *text) {
    char path[256];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    fputs(text, file);
    ck_assert_int_eq(fclose(file), 0);
}

static void folder_make(void) {
    ck_assert_ptr_nonnull(mkdtemp(folder));
}

static void folder_remove(void) {
    static const char *const names[] = {"t.c", "inner.c", "4.c"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

// d, name, the flags yes, no and blank, ks = {3: offset 0, 5: offset 3} with features, the empty list none.
static km_env *make_env(void) {
    km_env *env = km_env_create();
    ck_assert_ptr_nonnull(env);
    km_env_set_int(env, "d", 4);
    km_env_set(env, "name", "%s_%d", "km", 1);
    km_env_set_flag(env, "yes", 7);
    km_env_set_flag(env, "no", 0);
    km_env_set(env, "blank", "%s", "");
    km_env_set_int(env, "big_name", 9);
    km_env_list(env, "none");
    for (int k = 3; k <= 5; k += 2) {
        char text[8];
        snprintf(text, sizeof text, "%d", k);
        km_env *item = km_env_item(env, "ks", text);
        km_env_set_int(item, "offset", k == 3 ? 0 : 3);
        km_env_set_flag(item, "first", k == 3);
        for (int f = 0; f < 2; f++) {
            snprintf(text, sizeof text, "%d", f);
            km_env_set_int(km_env_item(item, "features", text), "power", f * k);
        }
    }
    return env;
}

static km_status expand(char **out, const char *text, km_error *err) {
    km_env *env = make_env();
    km_text grown = {0};
    err->text[0] = 0;
    write_template("t.c", text);
    km_status status = km_template_expand(&grown, "t.c", env, folder, err);
    km_env_destroy(&env);
    ck_assert_ptr_null(env);
    if (status == KM_OK) return km_text_take(out, &grown, err);
    km_text_clear(&grown);
    return status;
}

static void expect(const char *text, const char *wanted) {
    km_error err;
    char *got = NULL;
    km_status status = expand(&got, text, &err);
    ck_assert_msg(status == KM_OK, "%s", err.text);
    ck_assert_str_eq(got, wanted);
    km_text_free(got);
}

static void expect_error(const char *text, const char *wanted) {
    km_error err;
    char *got = NULL;
    ck_assert_int_eq(expand(&got, text, &err), KM_ERROR_INTERNAL);
    ck_assert_ptr_null(got);
    ck_assert_str_eq(err.text, wanted);
}

START_TEST(holes) {
    expect("int $name = $d;\n", "int km_1 = 4;\n");
    expect("$d", "4\n");
    expect("$blank.$d$d", ".44\n");
    expect("//@ for k in ks\nsum_$k $k_sum x_$k_$d_$k $k_$k_ ($k)\n//@ end\n",
           "sum_3 3_sum x_3_4_3 3_3_ (3)\nsum_5 5_sum x_5_4_5 5_5_ (5)\n");
    // An item's own name goes before the item's text and the rest of the identifier.
    expect("//@ for k in ks\n$k_offset $k_offset_$k $k_offsets\n//@ end\n",
           "0 0_3 3_offsets\n3 3_5 5_offsets\n");
    // The longest known name wins, over any number of underscores.
    expect("$big_name $big_name_d $d_big_name\n", "9 9_d 4_big_name\n");
}
END_TEST

START_TEST(conditions) {
    expect("a\n//@ if yes\nb\n//@ else\nc\n//@ end\nd\n", "a\nb\nd\n");
    expect("//@ if no\nb\n//@ else\nc\n//@ end\n", "c\n");
    expect("//@ if blank\nb\n//@ end\n", "");
    expect("//@ if not no\nb\n//@ end\n", "b\n");
    expect("//@ if not yes\nb\n//@ else\nc\n//@ end\n", "c\n");
    // What is not taken may use names that are unknown here, but its blocks must close.
    expect(
        "    //@ if no\n$what\n//@ if what\n//@ for x in what\n$x\n//@ end\n//@ else\n//@ end\n//@ end\nz\n",
        "z\n");
    expect("//@ for k in ks\n//@ if k_first\nfirst $k\n//@ else\nlater $k\n//@ end\n//@ end\n",
           "first 3\nlater 5\n");
}
END_TEST

START_TEST(loops) {
    expect("//@ for k in ks\n{$k\n//@ for f in k_features\n$k.$f: $f_power of $d\n//@ end\n}\n//@ end\n",
           "{3\n3.0: 0 of 4\n3.1: 3 of 4\n}\n{5\n5.0: 0 of 4\n5.1: 5 of 4\n}\n");
    expect("a\n//@ for k in none\n$k $unknown\n//@ if what\n//@ end\n//@ end\nb\n", "a\nb\n");
    // The inner loop's variable hides the outer one of the same name.
    expect("//@ for k in ks\n//@ for k in ks\n$k\n//@ end\n<$k>\n//@ end\n", "3\n5\n<3>\n3\n5\n<5>\n");
}
END_TEST

START_TEST(includes) {
    write_template("inner.c", "// SPDX-License-Identifier: MIT\ninner $d $k\n");
    expect("//@ for k in ks\n//@ include inner.c\n//@ end\n", "inner 4 3\ninner 4 5\n");
    expect("//@ if no\n//@ include missing.c\n//@ end\n", "");
    write_template("inner.c", "// SPDX-License-Identifier: MIT\nraw $d\n//@ if what\n");
    expect("//@ verbatim inner.c\nd\n", "raw $d\n//@ if what\nd\n");
    write_template("inner.c", "no newline");
    expect("//@ verbatim inner.c\n//@ include inner.c\nd", "no newline\nno newline\nd\n");
}
END_TEST

START_TEST(indentation) {
    // What an include brings stands as deep as its line; empty lines and what follows stay as they are.
    write_template("inner.c",
                   "// SPDX-License-Identifier: MIT\nfor ($d) {\n    //@ if yes\n    x;\n\n    //@ end\n}\n");
    expect("a\n//@ for k in ks\n    //@ include inner.c\nb\n//@ end\n",
           "a\n    for (4) {\n        x;\n\n    }\nb\n    for (4) {\n        x;\n\n    }\nb\n");
    // So does what it brings in its turn, and a definition where it is used.
    write_template("4.c", "y\n//@ def w\n  w\n//@ end\n //@ use w\n");
    write_template("inner.c", "x\n  //@ include 4.c\nz\n");
    expect("  //@ include inner.c\n$d\n", "  x\n    y\n       w\n  z\n4\n");
    // A file as it is stays so; a mistake has its line.
    write_template("4.c", "// y\n");
    expect("    //@ verbatim 4.c\n", "// y\n");
    write_template("4.c", "\n$what\n");
    expect_error("    //@ include 4.c\n", "4.c:2: unknown hole $what");
}
END_TEST

START_TEST(parameters) {
    write_template("inner.c", "//@ for k in items\n$first.$k.$k_offset\n//@ end\n");
    expect("//@ include inner.c with items = ks, first = d\n//@ include inner.c with items = none, first "
           "= 0\n"
           "//@ include inner.c with items = ks, first = 12\n",
           "4.3.0\n4.5.3\n12.3.0\n12.5.3\n");
    // A list of a loop's item; the item itself, with its names and lists; one parameter by the one before it.
    write_template("inner.c",
                   "$x:$x_offset\n//@ for f in all\n$f_power of $y\n//@ end\n//@ if x_first\n!\n//@ end\n");
    expect("//@ for k in ks\n//@ include inner.c with x = k, all = k_features, y = x\n//@ end\n",
           "3:0\n0 of 3\n3 of 3\n!\n5:3\n0 of 5\n5 of 5\n");
    // They hide names of the same name, there and further inside, and no longer.
    write_template("inner.c", "$d\n");
    expect("//@ include inner.c with d = big_name\n$d\n", "9\n4\n");
    expect("//@ for k in ks\n//@ include inner.c with d = k\n//@ end\n", "3\n5\n");
    // A file's name may have holes; what is not taken may be anything.
    km_error err;
    char *got = NULL;
    ck_assert_int_eq(expand(&got, "//@ include in_$d.c\n", &err), KM_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "/in_4.c: "));
    write_template("4.c", "four\n");
    expect("//@ include $d.c\n//@ verbatim $d.c\n", "four\nfour\n");
    expect("//@ if no\n//@ include $what with x = y\n//@ end\n", "");
}
END_TEST

START_TEST(definitions) {
    expect("//@ def w\nword $d\n\n//@ end\na\n//@ use w\nb\n//@ use w w\nc\n", "a\nword 4\n\nb\nc\n");
    expect("//@ def w\nword\n//@ end\na\n", "a\n"); // nothing uses it
    // One that uses others comes behind them; each is there once, in whatever branch it was used.
    expect("//@ def v\nv\n//@ end\n//@ def w\n//@ use v\nw\n//@ end\n//@ use w v\nb\n", "v\nw\nb\n");
    expect("//@ def v\nv\n//@ end\n//@ if no\n//@ use v\n//@ end\n//@ for k in ks\n$k\n//@ use v\n//@ end\n",
           "3\nv\n5\n");
    // A definition may hold blocks, may stand in one, and may be made differently by two branches.
    expect("//@ if yes\n//@ def v\n//@ for k in ks\n$k_offset\n//@ end\n//@ if no\nx\n//@ else\ny\n//@ "
           "end\n//@ end\n"
           "//@ else\n//@ def v\nz\n//@ end\n//@ end\n//@ use v\n",
           "0\n3\ny\n");
    // Its holes are the root's, wherever it is used.
    expect("//@ def v\n$d\n//@ end\n//@ for d in ks\n//@ use v\n$d\n//@ end\n", "4\n3\n5\n");
    write_template("inner.c", "// SPDX-License-Identifier: MIT\n//@ def v\nv\n//@ end\n");
    expect("//@ include inner.c\n//@ use v\n", "v\n");
    write_template("inner.c", "// for readers of this file: $what\n//@ def v\n$d\n//@ end\n");
    expect_error("//@ words inner.c\n", "inner.c:1: unknown hole $what");
    write_template("inner.c", "// for readers of this file\n//@ def v\n$d\n//@ end\nx\n");
    expect("a\n//@ words inner.c\nb\n//@ use v\nc\n", "a\nb\n4\nc\n");
    // Many: they move in memory while one is being used.
    enum { MANY = 100 };
    char text[MANY * 40] = "", wanted[MANY * 8] = "", line[40];
    for (int i = 0; i < MANY; i++) {
        snprintf(line, sizeof line, "//@ def w%02d\nw%02d\n//@ end\n", i, i);
        strcat(text, line);
        snprintf(line, sizeof line, "w%02d\n", i);
        strcat(wanted, line);
    }
    for (int i = 0; i < MANY; i++) {
        snprintf(line, sizeof line, "//@ use w%02d\n", i);
        strcat(text, line);
    }
    expect(text, wanted);
}
END_TEST

START_TEST(definition_mistakes) {
    expect_error("a\n//@ use w\n//@ def w\n//@ end\n", "t.c:2: there is no //@ def w before this");
    expect_error("//@ def w\n//@ end\n//@ use w x\n", "t.c:3: there is no //@ def x before this");
    expect_error("//@ use\n", "t.c:1: expected //@ use NAME...");
    expect_error("//@ def\n//@ end\n", "t.c:1: expected //@ def NAME");
    expect_error("//@ def a b\n//@ end\n", "t.c:1: expected //@ def NAME");
    expect_error("\n//@ def w\n//@ if yes\n//@ end\n", "t.c:2: //@ def without //@ end");
    expect_error("//@ def w\n//@ else\n//@ end\n", "t.c:2: //@ else inside //@ def");
    expect_error("//@ def w\n//@ use w\n//@ end\n//@ use w\n", "t.c:2: w uses itself");
    expect_error("//@ def v\n//@ use w\n//@ end\n//@ def w\n//@ use v\n//@ end\n//@ use w\n",
                 "t.c:2: w uses itself");
    // A mistake inside a definition is named by its own line, and only where it is used.
    expect("//@ def w\n$what\n//@ end\n", "");
    expect_error("\n//@ def w\na\n$what\n//@ end\n\n//@ use w\n", "t.c:4: unknown hole $what");
    write_template("inner.c", "\n//@ def w\n$what\n//@ end\n");
    expect_error("//@ include inner.c\n//@ use w\n", "inner.c:3: unknown hole $what");
    expect_error("//@ include inner.c\n\n//@ def w\n//@ end\n",
                 "t.c:3: w is defined twice, before this at inner.c:2");
    // However deep they use each other, the stack is not used up.
    char deep[20 * 40] = "//@ def w0\n//@ end\n", line[40];
    for (int i = 1; i < 18; i++) {
        snprintf(line, sizeof line, "//@ def w%d\n//@ use w%d\n//@ end\n", i, i - 1);
        strcat(deep, line);
    }
    strcat(deep, "//@ use w17\n");
    expect_error(deep, "t.c:10: w2 is used too deeply inside others");
}
END_TEST

START_TEST(parameter_mistakes) {
    static const char usage[] = "t.c:1: expected //@ include FILE with NAME = VALUE, ...";
    write_template("inner.c", "$x\n");
    expect_error("//@ include inner.c with\n", usage);
    expect_error("//@ include inner.c with x\n", usage);
    expect_error("//@ include inner.c with x =\n", usage);
    expect_error("//@ include inner.c with x is d\n", usage);
    expect_error("//@ include inner.c with x = ,\n", usage);
    expect_error("//@ include inner.c with x = d,\n", usage);
    expect_error("//@ include inner.c with x = d y = d\n", usage);
    expect_error("//@ include inner.c x = d\n", "t.c:1: expected //@ include FILE");
    expect_error("//@ words inner.c with x = d\n", "t.c:1: expected //@ words FILE");
    expect_error("//@ verbatim inner.c with x = d\n", "t.c:1: expected //@ verbatim FILE");
    expect_error("\n//@ include inner.c with x = what\n", "t.c:2: unknown name or list what");
    expect_error("//@ include inner.c with x = ks\n", "inner.c:1: unknown hole $x");
    expect_error("//@ include inner_$what.c\n", "t.c:1: unknown hole $what");
    expect_error("//@ include inner.c with a = 1, b = 1, c = 1, d = 1, e = 1, f = 1, g = 1, h = 1, i = 1\n",
                 "t.c:1: more than 8 parameters");
}
END_TEST

START_TEST(needs) {
    expect("//@ need d name ks yes no blank big_name none d d d d\nx\n", "x\n");
    expect_error("x\n//@ need d width ks\n", "t.c:2: this template needs the name width, which is unknown");
    expect("//@ for k in ks\n//@ need k_offset k k_features\n//@ end\n", "");
}
END_TEST

START_TEST(licence_and_comments) {
    expect("// SPDX-License-Identifier: MIT\n// a comment about $d\nx\n", "// a comment about 4\nx\n");
}
END_TEST

START_TEST(mistakes) {
    expect_error("a\nb $what_is_it;\n", "t.c:2: unknown hole $what_is_it");
    expect_error("$dd\n", "t.c:1: unknown hole $dd");
    expect_error("$d2\n", "t.c:1: unknown hole $d2");
    expect_error("\n\n5 $ a\n", "t.c:3: a $ without a name");
    expect_error("$", "t.c:1: a $ without a name");
    expect_error("//@ if what\n//@ end\n", "t.c:1: unknown flag what");
    expect_error("//@ if\n//@ end\n", "t.c:1: expected //@ if NAME or //@ if not NAME");
    expect_error("//@ if yes no\n//@ end\n", "t.c:1: expected //@ if NAME or //@ if not NAME");
    expect_error("x\n//@ if yes\n\n\n", "t.c:2: //@ if without //@ end");
    expect_error("//@ if no\n//@ else\n\n", "t.c:1: //@ if without //@ end");
    expect_error("//@ if no\n//@ else\n//@ else\n//@ end\n", "t.c:3: a second //@ else");
    expect_error("//@ if yes\n//@ else if no\n//@ end\n", "t.c:2: //@ else takes no words");
    expect_error("x\n//@ end\n", "t.c:2: //@ end without //@ if, //@ for or //@ def");
    expect_error("//@ else\n", "t.c:1: //@ else without //@ if");
    expect_error("//@ for k of ks\n//@ end\n", "t.c:1: expected //@ for NAME in LIST");
    expect_error("//@ for k in what\n//@ end\n", "t.c:1: unknown list what");
    expect_error("//@ for k in ks\n", "t.c:1: //@ for without //@ end");
    expect_error("//@ for k in none\n", "t.c:1: //@ for without //@ end");
    expect_error("//@ for k in ks\n//@ else\n//@ end\n", "t.c:2: //@ else inside //@ for");
    expect_error("//@ for k in ks\n$d\n$k_what $j\n//@ end\n", "t.c:3: unknown hole $j");
    expect_error("//@ while yes\n", "t.c:1: unknown control line //@ while");
    expect_error("//@\n", "t.c:1: unknown control line //@ ");
    expect_error("//@ include\n", "t.c:1: expected //@ include FILE");
    expect_error("\n//@ include t.c\n", "t.c:2: t.c is included too deeply; does a template include itself?");
    // A mistake inside an included file is named by that file.
    write_template("inner.c", "1\n2 $what\n");
    expect_error("//@ include inner.c\n", "inner.c:2: unknown hole $what");
    // Blocks stand inside each other, but not without end; a name in a control line may be any bytes.
    char deep[34 * 11 + 1] = "";
    for (int i = 0; i < 34; i++) strcat(deep, "//@ if yes\n");
    expect_error(deep, "t.c:33: more than 32 //@ if, //@ for and //@ def inside each other");
    // Blocks do not reach over files.
    write_template("inner.c", "//@ end\n");
    expect_error("//@ if yes\n//@ include inner.c\n",
                 "inner.c:1: //@ end without //@ if, //@ for or //@ def");
}
END_TEST

START_TEST(zero_byte) {
    static const char bytes[] = "a\n//@ if d\0x\n//@ end\n";
    char path[256];
    km_error err = {{0}};
    km_text text = {0};
    km_env *env = make_env();
    snprintf(path, sizeof path, "%s/t.c", folder);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(bytes, 1, sizeof bytes - 1, file), sizeof bytes - 1);
    ck_assert_int_eq(fclose(file), 0);
    ck_assert_int_eq(km_template_expand(&text, "t.c", env, folder, &err), KM_ERROR_INTERNAL);
    ck_assert_str_eq(err.text, "t.c:2: a template is text, but there is a zero byte here");
    km_text_clear(&text);
    km_env_destroy(&env);
}
END_TEST

START_TEST(folders) {
    km_error err;
    char *got = NULL;
    ck_assert_int_eq(expand(&got, "//@ include nowhere.c\n", &err), KM_ERROR_IO);
    ck_assert_ptr_nonnull(strstr(err.text, "/nowhere.c: "));

    km_env *env = make_env();
    km_text text = {0};
    err.text[0] = 0;
    ck_assert_int_eq(km_template_expand(&text, "nowhere.c", env, NULL, &err), KM_ERROR_INTERNAL);
    ck_assert_str_eq(err.text, "there is no template nowhere.c");
    // Every embedded template is whole: its size is its text's.
    ck_assert_int_gt(km_embedded_templates_count, 0);
    for (int64_t i = 0; i < km_embedded_templates_count; i++) {
        ck_assert_int_eq(km_embedded_templates[i].size, (int64_t)strlen(km_embedded_templates[i].text));
        ck_assert_int_gt(km_embedded_templates[i].size, 0);
    }
    // They are found without a folder, and their lines are counted from their own first line.
    err.text[0] = 0;
    ck_assert_int_eq(km_template_expand(&text, "cuda/head.h", env, NULL, &err), KM_ERROR_INTERNAL);
    ck_assert_str_eq(err.text, "cuda/head.h:2: this template needs the name type, which is unknown");
    km_text_clear(&text);
    km_env_destroy(&env);
}
END_TEST

// What lies in a text between two pieces of code: a comment, a string, a character.
static const char *skip_no_code(const char *at) {
    if (!strncmp(at, "//", 2)) return at + strcspn(at, "\n");
    if (!strncmp(at, "/*", 2)) return strstr(at, "*/") ? strstr(at, "*/") + 2 : at + strlen(at);
    if (*at != '"' && *at != '\'') return at;
    const char quote = *at++;
    while (*at && *at != quote) at += *at == '\\' && at[1] ? 2 : 1;
    return *at ? at + 1 : at;
}

// The line where brackets of a text stop to match; 0: they all do.
static int64_t unbalanced_line(const char *text) {
    enum { DEEP = 64 };
    char expected[DEEP];
    int64_t line = 1, opened[DEEP + 1] = {0};
    int depth = 0;
    for (const char *at = text; *at;) {
        const char *code = skip_no_code(at);
        for (; at < code; at++) line += *at == '\n';
        if (!*at) break;
        const char *opening = memchr("{([", *at, 3);
        if (opening) {
            if (depth == DEEP) return line;
            expected[depth++] = *opening == '{' ? '}' : *opening == '(' ? ')' : ']';
            opened[depth] = line;
        } else if (memchr("})]", *at, 3) && (depth == 0 || expected[--depth] != *at)) {
            return line;
        }
        line += *at == '\n';
        if (at == skip_no_code(at)) at++;
    }
    return opened[depth];
}

START_TEST(brackets_are_seen) {
    ck_assert_int_eq(unbalanced_line(""), 0);
    ck_assert_int_eq(unbalanced_line("int a[2] = {(1), 2};\n// {\n\"{\" '(' '\\'' /* [\n */ \"\\\"[\"\n"), 0);
    ck_assert_int_eq(unbalanced_line("{\n(\n)\n"), 1);
    ck_assert_int_eq(unbalanced_line("{\n(\n}\n)\n"), 3);
    ck_assert_int_eq(unbalanced_line("// )\n\"\\\"\")\n"), 2);
    ck_assert_int_eq(unbalanced_line("//@ if a\nif (x) {\n//@ else\n{\n//@ end\n}\n"), 2);
    ck_assert_int_eq(unbalanced_line("/* ( */ ''\n]"), 2);
}
END_TEST

// Whatever branches of a template are taken: brackets close in the text as it stands, so that an editor can read it.
START_TEST(brackets_of_templates) {
    for (int64_t i = 0; i < km_embedded_templates_count; i++) {
        const km_embedded *t = &km_embedded_templates[i];
        const int64_t line = unbalanced_line(t->text);
        ck_assert_msg(line == 0, "%s:%lld: brackets do not match", t->name, (long long)line);
    }
}
END_TEST

START_TEST(names_are_replaced) {
    km_env *env = km_env_create();
    km_text text = {0};
    km_error err = {{0}};
    write_template("t.c", "$a $b\n");
    for (int i = 0; i < 100; i++) km_env_set_int(env, i % 2 ? "a" : "b", i);
    ck_assert_msg(km_template_expand(&text, "t.c", env, folder, &err) == KM_OK, "%s", err.text);
    ck_assert_str_eq(text.data, "99 98\n");
    km_text_clear(&text);
    km_env_destroy(&env);
}
END_TEST

int main(void) {
    Suite *suite = suite_create("template");
    TCase *tests = tcase_create("template");
    tcase_add_unchecked_fixture(tests, folder_make, folder_remove);
    tcase_add_test(tests, holes);
    tcase_add_test(tests, conditions);
    tcase_add_test(tests, loops);
    tcase_add_test(tests, includes);
    tcase_add_test(tests, indentation);
    tcase_add_test(tests, parameters);
    tcase_add_test(tests, definitions);
    tcase_add_test(tests, definition_mistakes);
    tcase_add_test(tests, parameter_mistakes);
    tcase_add_test(tests, needs);
    tcase_add_test(tests, licence_and_comments);
    tcase_add_test(tests, mistakes);
    tcase_add_test(tests, zero_byte);
    tcase_add_test(tests, folders);
    tcase_add_test(tests, brackets_are_seen);
    tcase_add_test(tests, brackets_of_templates);
    tcase_add_test(tests, names_are_replaced);
    suite_add_tcase(suite, tests);
    SRunner *runner = srunner_create(suite);
    srunner_run_all(runner, CK_NORMAL);
    int failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed != 0;
}
