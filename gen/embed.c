// SPDX-License-Identifier: MIT
// Build-time program: writes a C file that holds the templates. usage: embed OUT.c TEMPLATE...
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void fail(const char *what, const char *path) {
    fprintf(stderr, "embed: cannot %s %s\n", what, path);
    exit(1);
}

static void write_char(FILE *out, int c) {
    if (c == '\n')
        fputs("\\n", out);
    else if (c == '"' || c == '\\')
        fprintf(out, "\\%c", c);
    else if (c < 32 || c > 126)
        fprintf(out, "\\%03o", (unsigned)c); // three digits: never runs into the next
    else
        fputc(c, out);
}

// The file as string literals, one for each line.
static long write_file(FILE *out, const char *path) {
    FILE *in = fopen(path, "rb");
    if (!in) fail("read", path);
    long size = 0;
    int line_open = 0;
    for (int c; (c = fgetc(in)) != EOF; size++) {
        if (!line_open) fputs("     \"", out);
        write_char(out, c);
        line_open = c != '\n';
        if (!line_open) fputs("\"\n", out);
    }
    if (line_open) fputs("\"\n", out);
    if (size == 0) fputs("     \"\"\n", out);
    if (ferror(in)) fail("read", path);
    fclose(in);
    return size;
}

// A template's name is its path inside the folder of templates.
static const char *name_of(const char *path) {
    static const char folder[] = "templates/";
    for (const char *at; (at = strstr(path, folder));) path = at + sizeof folder - 1;
    return path;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fputs("usage: embed OUT.c TEMPLATE...\n", stderr);
        return 2;
    }
    FILE *out = fopen(argv[1], "wb");
    if (!out) fail("write", argv[1]);
    fputs("// SPDX-License-Identifier: MIT\n// Made by gen/embed.c from templates/; do not edit.\n"
          "#include \"gen/template.h\"\n\nconst km_embedded km_embedded_templates[] = {\n",
          out);
    for (int i = 2; i < argc; i++) {
        fprintf(out, "    {\"%s\",\n", name_of(argv[i]));
        long size = write_file(out, argv[i]);
        fprintf(out, "     , %ld},\n", size);
    }
    fprintf(out, "    {0, 0, 0},\n};\nconst int64_t km_embedded_count = %d;\n", argc - 2);
    if (fflush(out) || ferror(out)) fail("write", argv[1]);
    fclose(out);
    return 0;
}
