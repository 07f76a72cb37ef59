// SPDX-License-Identifier: MIT
// Build-time program: writes a C file that holds files as text, as the list km_embedded_LIST. A file's name is PREFIX
// and its path inside FOLDER. usage: embed OUT.c LIST FOLDER PREFIX [FILE...]
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

// The path behind the folder's last place in it.
static const char *name_of(const char *path, const char *folder) {
    for (const char *at; (at = strstr(path, folder));) path = at + strlen(folder);
    return path;
}

int main(int argc, char **argv) {
    if (argc < 5) {
        fputs("usage: embed OUT.c LIST FOLDER PREFIX [FILE...]\n", stderr);
        return 2;
    }
    const char *list = argv[2], *folder = argv[3];
    FILE *out = fopen(argv[1], "wb");
    if (!out) fail("write", argv[1]);
    fprintf(out,
            "// SPDX-License-Identifier: MIT\n// Made by gen/embed.c from %s; do not edit.\n"
            "#include \"gen/template.h\"\n\nextern const km_embedded km_embedded_%s[];\n"
            "extern const int64_t km_embedded_%s_count;\nconst km_embedded km_embedded_%s[] = {\n",
            folder, list, list, list);
    for (int i = 5; i < argc; i++) {
        fprintf(out, "    {\"%s%s\",\n", argv[4], name_of(argv[i], folder));
        long size = write_file(out, argv[i]);
        fprintf(out, "     , %ld},\n", size);
    }
    fprintf(out, "    {0, 0, 0},\n};\nconst int64_t km_embedded_%s_count = %d;\n", list, argc - 5);
    if (fflush(out) || ferror(out)) fail("write", argv[1]);
    fclose(out);
    return 0;
}
