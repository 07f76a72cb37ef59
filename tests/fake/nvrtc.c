// SPDX-License-Identifier: MIT
// A compiler that refuses every text, and says so as NVRTC does.
#include "../../runtime/cuda/driver.h"
#include "note.h"
#include <stdio.h>
#include <string.h>

#pragma GCC visibility push(default)

enum { COMPILATION_FAILED = 6 };

#define DECLARE(name, symbol, parameters) km_cu_result name parameters;
KM_NVRTC_CALLS(DECLARE)
#undef DECLARE
const char *nvrtcGetErrorString(km_cu_result result);

static char something, nothing; // a program, and one of the text that only begins NVRTC
static const char log_text[] = "module.cu(7): error: this text is not liked\n\n1 error detected.\n";

const char *nvrtcGetErrorString(km_cu_result result) {
    return result ? "NVRTC_ERROR_COMPILATION" : "NVRTC_SUCCESS";
}
km_cu_result nvrtcVersion(int *major, int *minor) {
    *major = 13;
    *minor = 99;
    return 0;
}
km_cu_result nvrtcCreateProgram(km_nvrtc_program *program, const char *text, const char *name,
                                int headers_count, const char *const *headers,
                                const char *const *header_names) {
    (void)name, (void)headers_count, (void)headers, (void)header_names;
    *program = (km_nvrtc_program)(strstr(text, "km_nothing") ? &nothing : &something);
    return 0;
}
km_cu_result nvrtcDestroyProgram(km_nvrtc_program *program) {
    *program = NULL;
    return 0;
}
km_cu_result nvrtcCompileProgram(km_nvrtc_program program, int options_count, const char *const *options) {
    (void)options_count, (void)options;
    if (program == (km_nvrtc_program)&something) fake_note("compiler");
    return COMPILATION_FAILED;
}
km_cu_result nvrtcGetProgramLogSize(km_nvrtc_program program, size_t *size) {
    (void)program;
    *size = sizeof log_text;
    return 0;
}
km_cu_result nvrtcGetProgramLog(km_nvrtc_program program, char *log) {
    (void)program;
    memcpy(log, log_text, sizeof log_text);
    return 0;
}
km_cu_result nvrtcGetCUBINSize(km_nvrtc_program program, size_t *size) {
    (void)program;
    *size = 0;
    return 0;
}
km_cu_result nvrtcGetCUBIN(km_nvrtc_program program, char *cubin) {
    (void)program, (void)cubin;
    return COMPILATION_FAILED;
}
