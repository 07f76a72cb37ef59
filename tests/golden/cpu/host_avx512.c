// Of the text of {features: 4, clusters: 3..5, target: cpu:avx512}: The host part: what the header declares
// "..." stands for what a template or an earlier part shows, or what comes again.

// ... 61 definitions

static int host_check_machine(void) {
    if (!__builtin_cpu_supports("avx512f") || !__builtin_cpu_supports("avx512dq"))
        return host_fail(HOST_AVX512_DEVICE,
                         "this machine has no AVX-512: emit with --target cpu:avx2 or cpu:generic");
    return HOST_AVX512_OK;
}

// ... 56 definitions
