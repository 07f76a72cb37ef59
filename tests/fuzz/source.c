// SPDX-License-Identifier: MIT
// From bytes to spec to plan to source, for both targets: nothing may crash, every refusal says why, and what is
// accepted is written as YAML that reads back to the same spec, and emitted twice to the same bytes.
// usage: fuzz_source ROUNDS FILE...    mutates the files, the same way each time
// With clang: -fsanitize=fuzzer -DKM_LIBFUZZER and no arguments but libFuzzer's.
#include <kmgen/plan.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INPUT_MAX = 4096, TEXT_MAX = 16 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static void must(int holds, const char *what) {
    if (holds) return;
    fprintf(stderr, "fuzz_source: %s\n", what);
    abort();
}

static int64_t accepted, planned;

static void emit_for(const km_spec *spec, km_target_kind kind) {
    km_error err = {{0}};
    km_plan plan;
    km_plan_init(&plan);
    km_spec copy = *spec; // borrows the list of K
    if (copy.target.kind == KM_TARGET_AUTO) copy.target.kind = kind;
    if (copy.target.kind != kind) return;
    if (km_plan_make(&plan, &copy, NULL, &err) != KM_OK) {
        must(err.text[0] != 0, "a plan was refused without a reason");
        km_plan_clear(&plan);
        return;
    }
    planned++;
    km_source first, second;
    km_source_init(&first);
    km_source_init(&second);
    char *table = NULL;
    must(km_plan_explain(&table, &plan, &err) == KM_OK, "a plan cannot be explained");
    km_text_free(table);
    if (km_source_emit(&first, &plan, NULL, &err) != KM_OK) fprintf(stderr, "%s\n", err.text);
    must(first.text != NULL, "a plan cannot be emitted");
    must(km_source_emit(&second, &plan, NULL, &err) == KM_OK, "a plan cannot be emitted twice");
    must(first.text_size == second.text_size && !strcmp(first.text, second.text),
         "two texts of one plan differ");
    must(first.text_size < TEXT_MAX, "a text is far too large");
    km_source_clear(&first);
    km_source_clear(&second);
    km_plan_clear(&plan);
}

static void read_back(const km_spec *spec) {
    km_error err = {{0}};
    km_spec again;
    char *yaml = NULL, *yaml_again = NULL;
    km_spec_init(&again);
    must(km_spec_to_yaml(&yaml, spec, &err) == KM_OK, "a spec cannot be written");
    must(km_spec_parse(&again, yaml, (int64_t)strlen(yaml), "again", &err) == KM_OK,
         "a written spec is refused");
    must(km_spec_to_yaml(&yaml_again, &again, &err) == KM_OK, "a spec cannot be written again");
    must(!strcmp(yaml, yaml_again), "a spec reads back as another one");
    km_text_free(yaml);
    km_text_free(yaml_again);
    km_spec_clear(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    km_error err = {{0}};
    km_spec spec;
    km_spec_init(&spec);
    if (km_spec_parse(&spec, (const char *)bytes, (int64_t)size, "input", &err) == KM_OK) {
        accepted++;
        read_back(&spec);
        emit_for(&spec, KM_TARGET_CPU);
        emit_for(&spec, KM_TARGET_CUDA);
    } else {
        must(err.text[0] != 0, "a spec was refused without a reason");
    }
    km_spec_clear(&spec);
    return 0;
}

#ifndef KM_LIBFUZZER
static uint64_t state = 1;

static uint64_t draw(uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
}

// Pieces that mean something in a spec: bytes alone seldom get past its first line.
static const char *const words[] = {"features: ", "clusters: ",
                                    "2..12",      "1..65535",
                                    " step ",     "[3, 5, 8]",
                                    "type: ",     "float64",
                                    "target: ",   "cuda",
                                    "cpu",        ":sm_",
                                    ":avx512",    "plan:\n  ",
                                    "design: ",   "registers",
                                    "shared",     "lanes",
                                    "block: ",    "restarts: ",
                                    "name: ",     "-1",
                                    "65536",      "\n",
                                    "  ",         "99999999999999999999"};

static size_t mutate(uint8_t *bytes, size_t size) {
    for (uint64_t i = 1 + draw(4); i > 0; i--) {
        size_t at = draw(size + 1), left = size - at;
        const char *word = words[draw(sizeof words / sizeof *words)];
        size_t length = strlen(word);
        switch (draw(5)) {
        case 0: // another byte
            if (left) bytes[at] = (uint8_t)draw(256);
            break;
        case 1: // another digit
            while (at < size && (bytes[at] < '0' || bytes[at] > '9')) at++;
            if (at < size) bytes[at] = (uint8_t)('0' + draw(10));
            break;
        case 2: // a piece less
            length = draw(left + 1) % 16;
            if (length > left) length = left;
            memmove(bytes + at, bytes + at + length, left - length);
            size -= length;
            break;
        case 3: // a word more
            if (size + length > INPUT_MAX) break;
            memmove(bytes + at + length, bytes + at, left);
            memcpy(bytes + at, word, length);
            size += length;
            break;
        default: // a word instead
            if (length <= left) memcpy(bytes + at, word, length);
        }
    }
    return size;
}

int main(int argc, char **argv) {
    if (argc < 3) {
        fputs("usage: fuzz_source ROUNDS FILE...\n", stderr);
        return 2;
    }
    long rounds = atol(argv[1]);
    for (long i = 0; i < rounds; i++) {
        uint8_t bytes[INPUT_MAX];
        FILE *file = fopen(argv[2 + i % (argc - 2)], "rb");
        if (!file) return 2;
        size_t size = fread(bytes, 1, sizeof bytes / 2, file);
        fclose(file);
        if (i >= argc - 2) size = mutate(bytes, size); // first each file as it is
        uint8_t *exact = malloc(size ? size : 1);      // so that sanitizers see a step beyond the end
        if (!exact) return 2;
        memcpy(exact, bytes, size);
        LLVMFuzzerTestOneInput(exact, size);
        free(exact);
    }
    printf("%ld inputs, %lld specs, %lld plans\n", rounds, (long long)accepted, (long long)planned);
    return accepted == 0 || planned == 0;
}
#endif
