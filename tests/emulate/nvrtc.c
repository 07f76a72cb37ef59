// SPDX-License-Identifier: MIT
// libnvrtc of emulated GPUs: CUDA C becomes C++ (translate.h) for prelude.hpp, and a C++ compiler makes a library
// of it, which is the "cubin".
//
//     EMULATED_CUDA_CXX=g++            the compiler
//     EMULATED_CUDA_OPTIONS=...        more options for it: "-ffp-contract=fast" joins products and sums, as
//                                      --fmad=true may; otherwise none are, which it may as well
//     EMULATED_CUDA_KEEP=FOLDER        leaves texts and libraries there
//
// Its version is a number of what it makes libraries with: another prelude is another compiler for kmgen's cache.
#include "../../runtime/cuda/driver.h"
#include "translate.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#pragma GCC visibility push(default)

enum { OUT_OF_MEMORY = 1, INVALID_INPUT = 3, COMPILATION_FAILED = 6, COMMAND_MAX = 4096 };

#define DECLARE(name, symbol, parameters) km_cu_result name parameters;
KM_NVRTC_CALLS(DECLARE)
#undef DECLARE
const char *nvrtcGetErrorString(km_cu_result result);

struct km_nvrtc_text {
    char *text, *log, *made;
    size_t made_bytes;
};

const char *nvrtcGetErrorString(km_cu_result result) {
    return result == COMPILATION_FAILED ? "NVRTC_ERROR_COMPILATION"
           : result                     ? "NVRTC_ERROR"
                                        : "NVRTC_SUCCESS";
}
static const char options_of_all[] =
    "-std=c++17 -O1 -g0 -w -fPIC -fvisibility=protected -ffp-contract=off -fno-strict-aliasing -fwrapv "
    "-fno-math-errno -fno-trapping-math -fno-exceptions -fno-rtti -fno-gnu-unique -fno-ipa-reference "
    "-fno-delete-null-pointer-checks -fno-aggressive-loop-optimizations";

static const char *or_else(const char *name, const char *otherwise) {
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}
static const char *compiler(void) {
    return or_else("EMULATED_CUDA_CXX", "g++");
}
static const char *more_options(void) {
    return or_else("EMULATED_CUDA_OPTIONS", "");
}
// Products and sums in one rounding are an instruction of nearly all processors, and slow without it.
static const char *options_of_processor(void) {
    return __builtin_cpu_supports("fma") ? "-mfma" : "";
}

static char *read_file(const char *path, size_t *bytes) {
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    *bytes = 0;
    if (!file) return NULL;
    if (fseek(file, 0, SEEK_END) == 0 && (text = calloc(1, (size_t)ftell(file) + 1)) != NULL) {
        *bytes = (size_t)ftell(file);
        rewind(file);
        if (fread(text, 1, *bytes, file) != *bytes) *bytes = 0;
    }
    fclose(file);
    return text;
}

static unsigned hash_of(unsigned hash, const char *text) {
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash;
}

// Of all that a library depends on but its text.
static unsigned hash_of_all(void) {
    static const char *const files[] = {"prelude.hpp", "machine.h", "translate.c"};
    unsigned hash = 2166136261u;
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[COMMAND_MAX];
        size_t unused;
        snprintf(path, sizeof path, "%s/%s", EMULATED_SOURCES, files[i]);
        char *text = read_file(path, &unused);
        if (text) hash = hash_of(hash, text);
        free(text);
    }
    hash = hash_of(hash, options_of_all);
    hash = hash_of(hash, options_of_processor());
    return hash_of(hash, more_options()) % 1000000;
}

km_cu_result nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = (int)(1000000 + hash_of_all());
    return 0;
}
km_cu_result nvrtcCreateProgram(km_nvrtc_program *program, const char *text, const char *name,
                                int headers_count, const char *const *headers,
                                const char *const *header_names) {
    (void)name, (void)headers_count, (void)headers, (void)header_names;
    *program = calloc(1, sizeof **program);
    if (!*program) return OUT_OF_MEMORY;
    (*program)->text = emulated_translate(text);
    return (*program)->text ? 0 : OUT_OF_MEMORY;
}
km_cu_result nvrtcDestroyProgram(km_nvrtc_program *program) {
    free((*program)->text);
    free((*program)->log);
    free((*program)->made);
    free(*program);
    *program = NULL;
    return 0;
}

static int arch_of(int options_count, const char *const *options) {
    for (int i = 0; i < options_count; i++) {
        const char *number = strstr(options[i], "gpu-architecture=sm_");
        if (number) return atoi(number + strlen("gpu-architecture=sm_"));
    }
    return 90;
}

static km_cu_result compile(km_nvrtc_program program, const char *folder, int arch) {
    char command[COMMAND_MAX], path[COMMAND_MAX];
    snprintf(path, sizeof path, "%s/module.cu", folder);
    FILE *file = fopen(path, "w");
    if (!file) return INVALID_INPUT;
    int is_written = fputs(program->text, file) >= 0;
    if (fclose(file) != 0 || !is_written) return INVALID_INPUT;
    // The prelude is compiled once, and put in its place as a whole.
    int length = snprintf(
        command, sizeof command,
        "cd '%s' && options='%s %s -D__CUDA_ARCH__=%d0 %s' && made='%s/prelude-%06u' && exec >log 2>&1 && "
        "{ [ -e $made.hpp.gch ] || { echo '#include \"%s/prelude.hpp\"' >prelude.hpp && "
        "%s $options -x c++-header prelude.hpp -o prelude.gch && mv prelude.hpp $made.hpp && "
        "mv prelude.gch $made.hpp.gch; }; } && "
        "%s $options -shared -nostartfiles -Wl,-Bsymbolic -include $made.hpp -x c++ module.cu -o module.so "
        "-lm",
        folder, options_of_all, options_of_processor(), arch, more_options(), EMULATED_FOLDER, hash_of_all(),
        EMULATED_SOURCES, compiler(), compiler());
    if (length < 0 || length >= COMMAND_MAX) return INVALID_INPUT;
    int status = system(command); // NOLINT(cert-env33-c): a test's own folder and options
    size_t unused;
    snprintf(path, sizeof path, "%s/log", folder);
    program->log = read_file(path, &unused);
    snprintf(path, sizeof path, "%s/module.so", folder);
    if (status == 0) program->made = read_file(path, &program->made_bytes);
    return program->made_bytes ? 0 : COMPILATION_FAILED;
}

static void drop(const char *folder) {
    static const char *const names[] = {"module.cu", "module.so", "log"};
    char path[COMMAND_MAX];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

km_cu_result nvrtcCompileProgram(km_nvrtc_program program, int options_count, const char *const *options) {
    char folder[512];
    const char *keep = getenv("EMULATED_CUDA_KEEP");
    snprintf(folder, sizeof folder, "%s/emulated-XXXXXX", keep && *keep ? keep : or_else("TMPDIR", "/tmp"));
    if (!mkdtemp(folder)) return INVALID_INPUT;
    km_cu_result result = compile(program, folder, arch_of(options_count, options));
    if (!keep || !*keep) drop(folder);
    return result;
}
km_cu_result nvrtcGetProgramLogSize(km_nvrtc_program program, size_t *size) {
    *size = program->log ? strlen(program->log) + 1 : 1;
    return 0;
}
km_cu_result nvrtcGetProgramLog(km_nvrtc_program program, char *log) {
    strcpy(log, program->log ? program->log : ""); // NOLINT: as large as nvrtcGetProgramLogSize says
    return 0;
}
km_cu_result nvrtcGetCUBINSize(km_nvrtc_program program, size_t *size) {
    *size = program->made_bytes;
    return 0;
}
km_cu_result nvrtcGetCUBIN(km_nvrtc_program program, char *cubin) {
    memcpy(cubin, program->made, program->made_bytes);
    return 0;
}
