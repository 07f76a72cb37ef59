// SPDX-License-Identifier: MIT
// NVRTC: emitted text to a cubin for one architecture. A cubin rather than PTX: PTX of a newer NVRTC does not load
// on an older driver, machine code does.
#include "../../base/error.h"
#include "../file.h"
#include "../asking.h"
#include "driver.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Text that contains this line asks for the architecture's own instructions (wgmma and the like).
#define ARCH_SPECIFIC "// needs: arch-specific"
// Text with this line gets line numbers, for profilers and sanitizers. Not all texts: it makes modules 2.7 times as
// large, and 1.5 ms slower to read, load and unload.
#define LINE_INFO "// needs: line-info"

// -v: registers and spills go to the log.
static const char *const options_of_all[] = {"--std=c++17", "--ptxas-options=-v", "--fmad=true"};
enum { OPTIONS_OF_ALL = sizeof options_of_all / sizeof options_of_all[0], OPTIONS_MAX = OPTIONS_OF_ALL + 2 };

void km_nvrtc_options(char *text, int64_t size, int arch) {
    int64_t at = snprintf(text, (size_t)size, "sm_%d", arch);
    for (int i = 0; i < OPTIONS_OF_ALL && at < size; i++)
        at += snprintf(text + at, (size_t)(size - at), " %s", options_of_all[i]);
}

void km_nvrtc_id(char *text, int64_t size, const km_nvrtc *nvrtc, int arch) {
    int64_t at = snprintf(text, (size_t)size, "nvrtc %d.%d ", nvrtc->major, nvrtc->minor);
    if (at < size) km_nvrtc_options(text + at, size - at, arch);
}

// The first "PATH(LINE): error: WHAT" of the log, as "line LINE: WHAT".
static void first_error(char *text, size_t size, const char *log) {
    const char *mark = strstr(log, "): error");
    snprintf(text, size, "it gave no reason");
    if (!mark) return;
    const char *open = mark, *what = strchr(mark + 2, ':');
    while (open > log && *open != '(') open--;
    if (what)
        snprintf(text, size, "line %ld:%.*s", strtol(open + 1, NULL, 10), (int)strcspn(what + 1, "\n"),
                 what + 1);
}

static km_status keep_log(char **out, const km_nvrtc *nvrtc, km_nvrtc_program program, const char *log_path,
                          km_error *err) {
    size_t size = 0;
    if (nvrtc->nvrtcGetProgramLogSize(program, &size) != 0) size = 0;
    char *log = calloc(size + 1, 1);
    if (!log) return km_fail_memory(err, "the compiler's log", (int64_t)size + 1);
    if (size) nvrtc->nvrtcGetProgramLog(program, log);
    *out = log;
    return log_path ? km_file_replace(log_path, log, (int64_t)strlen(log), err) : KM_OK;
}

// NVRTC's question whether to stop, from any thread of its own.
static int stops(void *asking, void *unused) {
    (void)unused;
    return km_asking_stops(asking);
}

km_status km_nvrtc_compile(const km_nvrtc *nvrtc, int arch, const char *source_path, const char *binary_path,
                           const char *log_path, km_asking *asking, km_error *err) {
    km_status status = KM_OK;
    km_nvrtc_program program = NULL;
    char *text = NULL, *log = NULL, *cubin = NULL;
    int64_t text_size;
    size_t cubin_size = 0;
    char arch_option[48];
    const char *options[OPTIONS_MAX] = {arch_option};
    int options_count = 1 + OPTIONS_OF_ALL;
    KM_TRY(km_file_read(&text, &text_size, source_path, 0, err));
    snprintf(arch_option, sizeof arch_option, "--gpu-architecture=sm_%d%s", arch,
             arch >= 90 && strstr(text, ARCH_SPECIFIC) ? "a" : "");
    memcpy(options + 1, options_of_all, sizeof options_of_all);
    if (strstr(text, LINE_INFO)) options[options_count++] = "--generate-line-info";
    int result = nvrtc->nvrtcCreateProgram(&program, text, source_path, 0, NULL, NULL);
    if (result != 0) {
        status = km_fail(err, KM_ERROR_COMPILE, "nvrtcCreateProgram: %s", nvrtc->nvrtcGetErrorString(result));
        goto done;
    }
    if (asking && nvrtc->nvrtcSetFlowCallback) nvrtc->nvrtcSetFlowCallback(program, stops, asking);
    result = nvrtc->nvrtcCompileProgram(program, options_count, options);
    KM_TRY_GOTO(km_asking_status(asking, err));
    KM_TRY_GOTO(keep_log(&log, nvrtc, program, log_path, err));
    if (result != 0) {
        char what[512];
        first_error(what, sizeof what, log);
        status = km_fail(err, KM_ERROR_COMPILE, "nvrtc %d.%d refused %s %s (%s)%s%s", nvrtc->major,
                         nvrtc->minor, source_path, what, nvrtc->nvrtcGetErrorString(result),
                         log_path ? "; whole log in " : "", log_path ? log_path : "");
        goto done;
    }
    if (nvrtc->nvrtcGetCUBINSize(program, &cubin_size) != 0 || cubin_size == 0) {
        status = km_fail(err, KM_ERROR_COMPILE, "nvrtc %d.%d made no machine code of %s for sm_%d",
                         nvrtc->major, nvrtc->minor, source_path, arch);
        goto done;
    }
    cubin = malloc(cubin_size);
    if (!cubin) {
        status = km_fail_memory(err, "the machine code", (int64_t)cubin_size);
        goto done;
    }
    nvrtc->nvrtcGetCUBIN(program, cubin);
    status = km_file_replace(binary_path, cubin, (int64_t)cubin_size, err);
done:
    if (program) nvrtc->nvrtcDestroyProgram(&program);
    free(text);
    free(log);
    free(cubin);
    return status;
}

void km_nvrtc_begin(const char *path) {
    static const char text[] = "__global__ void km_nothing() {}\n";
    km_nvrtc nvrtc;
    km_nvrtc_program program = NULL;
    if (km_nvrtc_open(&nvrtc, path, 0, NULL) != KM_OK) return;
    if (nvrtc.nvrtcCreateProgram(&program, text, "km_nothing.cu", 0, NULL, NULL) == 0) {
        nvrtc.nvrtcCompileProgram(program, OPTIONS_OF_ALL, options_of_all);
        nvrtc.nvrtcDestroyProgram(&program);
    }
    km_nvrtc_close(&nvrtc);
}
