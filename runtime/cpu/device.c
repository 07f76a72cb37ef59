// SPDX-License-Identifier: MIT
// The CPU as a device: its facts, its compiler, and modules loaded from shared objects. Nothing here starts a
// process until a module is built.
#include "../../base/error.h"
#include "../../gen/design.h"
#include "../file.h"
#include "cpu.h"
#include "../memory.h"
#include "../threads.h"
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static int compiler_try(cpu_compiler *out, const char *folder, const char *name) {
    struct stat info;
    if (snprintf(out->path, sizeof out->path, "%s%s%s", folder, *folder ? "/" : "", name) >=
        (int)sizeof out->path)
        return 0;
    if (stat(out->path, &info) != 0 || !S_ISREG(info.st_mode) || access(out->path, X_OK) != 0) {
        out->path[0] = 0;
        return 0;
    }
    out->bytes = info.st_size;
    out->changed_s = info.st_mtime;
    return 1;
}

// A few stat calls, no process. Names without a folder are looked for where systems keep compilers: a library
// does not read the environment, a program passes the path it found in its own.
static int compiler_find(cpu_compiler *out, const char *wanted) {
    static const char *const names[] = {"cc", "gcc", "clang"};
    static const char *const folders[] = {"/usr/local/bin", "/usr/bin", "/bin"};
    if (wanted && strchr(wanted, '/')) return compiler_try(out, "", wanted);
    for (size_t i = 0; i < (wanted ? 1 : sizeof names / sizeof *names); i++)
        for (size_t j = 0; j < sizeof folders / sizeof *folders; j++)
            if (compiler_try(out, folders[j], wanted ? wanted : names[i])) return 1;
    return 0;
}

static km_isa isa_of_machine(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
        __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return KM_ISA_AVX512;
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return KM_ISA_AVX2;
    return KM_ISA_GENERIC;
#elif defined(__aarch64__)
    return KM_ISA_NEON;
#else
    return KM_ISA_GENERIC;
#endif
}

static int int16_products_of_machine(void) {
#if defined(__x86_64__)
    return isa_of_machine() == KM_ISA_AVX512 && __builtin_cpu_supports("avx512vnni");
#else
    return 0;
#endif
}

// "key : value" of /proc/cpuinfo's first processor; leaves `out` as it is when the key is missing.
static void cpuinfo_find(char *out, size_t size, const char *text, const char *key) {
    const char *at = strstr(text, key);
    if (!at || !(at = strchr(at, ':'))) return;
    at += strspn(at, ": \t");
    int length = (int)strcspn(at, "\n");
    if (length > 0) snprintf(out, size, "%.*s", length, at);
}

// FMA lanes of a core in a cycle. AMD's family 25 (Zen 4, where it has AVX-512) multiplies half of a vector of 64 bytes
// in each of its two units, others a whole one.
static double fma_lanes(int32_t isa, const char *cpuinfo) {
    static const double lanes[] = {4, 8, 16, 32, 8}; // by km_isa
    char vendor[32] = "", family[32] = "";
    cpuinfo_find(vendor, sizeof vendor, cpuinfo, "vendor_id");
    cpuinfo_find(family, sizeof family, cpuinfo, "cpu family");
    int has_halves = isa == KM_ISA_AVX512 && !strcmp(vendor, "AuthenticAMD") && !strcmp(family, "25");
    return has_halves ? lanes[KM_ISA_AVX2] : lanes[isa];
}

static void facts_fill(km_device_facts *facts) {
    *facts = (km_device_facts){.target = {KM_TARGET_CPU, isa_of_machine()}};
    char text[4096] = "", clock[32] = "0";
    snprintf(facts->name, sizeof facts->name, "CPU");
    FILE *stream = fopen("/proc/cpuinfo", "re");
    if (stream) {
        text[fread(text, 1, sizeof text - 1, stream)] = 0;
        fclose(stream);
        cpuinfo_find(facts->name, sizeof facts->name, text, "model name");
        cpuinfo_find(clock, sizeof clock, text, "cpu MHz");
    }
    cpu_set_t cpus;
    facts->units =
        sched_getaffinity(0, sizeof cpus, &cpus) == 0 ? CPU_COUNT(&cpus) : sysconf(_SC_NPROCESSORS_ONLN);
    facts->units = facts->units < 1 ? 1 : km_threads(0, facts->units, NULL);
    long cache = sysconf(_SC_LEVEL2_CACHE_SIZE);
    facts->cache_bytes = cache > 0 ? cache : 1 << 20;
    facts->memory_bytes = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
    facts->memory_free_bytes = km_host_free(NULL);
    facts->clock_ghz = strtod(clock, NULL) / 1e3;
    if (!(facts->clock_ghz > 0.1)) facts->clock_ghz = 3.0;
    facts->bandwidth_gbs =
        12.0 * (double)facts->units; // what one core of a server reads; more cores share more
    if (facts->bandwidth_gbs > 200.0) facts->bandwidth_gbs = 200.0;
    facts->fp32_per_cycle = fma_lanes(facts->target.arch, text);
    facts->fp64_per_cycle = facts->fp32_per_cycle / 2;
    facts->has_integers = int16_products_of_machine();
}

km_status km_cpu_device_open(km_device **out, int ordinal, const char *compiler, const km_log *log,
                             km_error *err) {
    (void)log;
    *out = NULL;
    if (ordinal != KM_HOST)
        return km_fail(err, KM_ERROR_USAGE, "the CPU is device %d, got %d", KM_HOST, ordinal);
    cpu_device *device = calloc(1, sizeof *device);
    if (!device) return km_fail_memory(err, "the device", (int64_t)sizeof *device);
    facts_fill(&device->base.facts);
    device->base.facts.has_compiler = compiler_find(&device->compiler, compiler);
    if (compiler && !device->compiler.path[0]) {
        free(device);
        return km_fail(err, KM_ERROR_COMPILE, "%s: no such C compiler: give its path, or leave it out",
                       compiler);
    }
    *out = &device->base;
    return KM_OK;
}

void km_cpu_device_close(km_device **device) {
    free(*device);
    *device = NULL;
}

// What the compiler is told. The instruction set is not among it: emitted functions carry theirs.
static const char *const compile_flags[] = {"-std=c11", "-O3",     "-ffp-contract=off", "-fno-math-errno",
                                            "-fPIC",    "-shared", "-DKM_KERNELS_ONLY"};
enum { COMPILE_FLAGS_COUNT = sizeof compile_flags / sizeof *compile_flags };

void km_cpu_compiler_name(char *text, int64_t size, km_device *device) {
    const cpu_device *own = (const cpu_device *)device;
    snprintf(text, (size_t)size, "%s", own->compiler.path[0] ? own->compiler.path : "no C compiler");
}

void km_cpu_compiler_id(char *text, int64_t size, km_device *device, const km_plan *plan) {
    const cpu_device *own = (const cpu_device *)device;
    (void)plan;
    int64_t at = snprintf(text, (size_t)size, "%s %lld %lld abi %d", own->compiler.path,
                          (long long)own->compiler.bytes, (long long)own->compiler.changed_s, KM_CPU_ABI);
    for (int i = 0; i < COMPILE_FLAGS_COUNT && at < size; i++)
        at += snprintf(text + at, (size_t)(size - at), " %s", compile_flags[i]);
}

// Also where it cannot be waited for: a program that ignores SIGCHLD has no ended children.
static int child_has_ended(pid_t child) {
    siginfo_t info = {0};
    if (waitid(P_PID, (id_t)child, &info, WEXITED | WNOHANG | WNOWAIT) != 0) return errno != EINTR;
    return info.si_pid == child;
}

// Ends a child, and what it started, which is of its group: kindly, so that compilers remove their temporary files,
// then by force. Until it is waited for, the group's number is nobody else's.
static void group_end(pid_t child, int ended) {
    enum { STEP_MS = 5, KIND_MS = 500 };
    kill(-child, SIGTERM);
    for (int ms = 0; ms < KIND_MS && !child_has_ended(child); ms += STEP_MS)
        poll(&(struct pollfd){ended, POLLIN, 0}, 1, STEP_MS);
    kill(-child, SIGKILL);
}

// Until the child has ended, or was ended because `asking` stops.
static void child_watch(pid_t child, km_asking *asking) {
    int ended = -1; // readable once the child has ended
#ifdef SYS_pidfd_open
    ended = (int)syscall(SYS_pidfd_open, child, 0); // Linux before 5.3 has none: poll just lets time pass
#endif
    int step_ms = ended < 0 ? KM_ASK_EVERY_MS / 4 : KM_ASK_EVERY_MS;
    while (!child_has_ended(child)) {
        if (km_asking_stops(asking)) {
            group_end(child, ended);
            break;
        }
        poll(&(struct pollfd){ended, POLLIN, 0}, 1, step_ms);
    }
    if (ended >= 0) close(ended);
}

// In a group of its own where it may have to be ended: then a terminal's Ctrl-C is for who asks.
static int child_start(pid_t *child, char *const *argv, const posix_spawn_file_actions_t *actions,
                       int has_group) {
    posix_spawnattr_t attributes;
    int failure = posix_spawnattr_init(&attributes);
    if (failure) return failure;
    if (has_group) failure = posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    if (!failure) failure = posix_spawn(child, argv[0], actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    return failure;
}

// Runs argv with all output in log_path; *code is the exit code, or -signal.
static km_status process_run(int *code, char *const *argv, const char *log_path, km_asking *asking,
                             km_error *err) {
    posix_spawn_file_actions_t actions;
    int failure = posix_spawn_file_actions_init(&actions);
    if (failure) return km_fail(err, KM_ERROR_MEMORY, "cannot start %s: %s", argv[0], strerror(failure));
    const char *log = log_path ? log_path : "/dev/null";
    failure = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!failure)
        failure = posix_spawn_file_actions_addopen(&actions, 1, log,
                                                   O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
    if (!failure) failure = posix_spawn_file_actions_adddup2(&actions, 1, 2);
    pid_t child = 0;
    if (!failure) failure = child_start(&child, argv, &actions, asking != NULL);
    posix_spawn_file_actions_destroy(&actions);
    if (failure) return km_fail(err, KM_ERROR_COMPILE, "cannot start %s: %s", argv[0], strerror(failure));
    if (asking) child_watch(child, asking);
    int wait_status;
    while (waitpid(child, &wait_status, 0) < 0)
        if (errno != EINTR) return km_fail(err, KM_ERROR_COMPILE, "lost %s: %s", argv[0], strerror(errno));
    *code = WIFEXITED(wait_status) ? WEXITSTATUS(wait_status) : -WTERMSIG(wait_status);
    return km_asking_status(asking, err);
}

// The first line of the compiler's log that names an error.
static void log_first_error(char *out, size_t size, const char *log_path) {
    out[0] = 0;
    FILE *stream = log_path ? fopen(log_path, "re") : NULL;
    char line[512];
    while (stream && fgets(line, sizeof line, stream)) {
        if (!strstr(line, "error")) continue;
        line[strcspn(line, "\n")] = 0;
        snprintf(out, size, "%s", line);
        break;
    }
    if (stream) fclose(stream);
}

// A path as an argument of the compiler: one that begins with "-" would be an option.
static km_status path_argument(char **out, const char *path, km_error *err) {
    size_t size = strlen(path) + 3;
    *out = malloc(size);
    if (!*out) return km_fail_memory(err, "the compiler's arguments", (int64_t)size);
    snprintf(*out, size, "%s%s", *path == '-' ? "./" : "", path);
    return KM_OK;
}

km_status km_cpu_compile(km_device *device, const km_source *source, const char *source_path,
                         const char *binary_path, const char *log_path, km_asking *asking, km_error *err) {
    const cpu_device *own = (const cpu_device *)device;
    (void)source;
    if (!own->compiler.path[0])
        return km_fail(
            err, KM_ERROR_COMPILE,
            "no C compiler (cc, gcc or clang): install one, give its path, or fix design: prebuilt");
    km_status status;
    char *argv[COMPILE_FLAGS_COUNT + 6], *binary = NULL, *text = NULL, first[512];
    int count = 0, code = 0;
    KM_TRY_GOTO(path_argument(&binary, binary_path, err));
    KM_TRY_GOTO(path_argument(&text, source_path, err));
    argv[count++] = (char *)own->compiler.path;
    for (int i = 0; i < COMPILE_FLAGS_COUNT; i++) argv[count++] = (char *)compile_flags[i];
    argv[count++] = (char *)"-o";
    argv[count++] = binary;
    argv[count++] = text;
    argv[count++] = (char *)"-lm";
    argv[count] = NULL;
    KM_TRY_GOTO(process_run(&code, argv, log_path, asking, err));
    if (code == 0) goto done;
    log_first_error(first, sizeof first, log_path);
    status = km_fail(err, KM_ERROR_COMPILE, "%s failed with %s %d%s%s; whole log in %s", own->compiler.path,
                     code < 0 ? "signal" : "exit code", code < 0 ? -code : code, *first ? ": " : "", first,
                     log_path ? log_path : "no file");
done:
    free(binary);
    free(text);
    return status;
}

static int write_all(int file, const char *bytes, int64_t size) {
    while (size > 0) {
        ssize_t done = write(file, bytes, (size_t)size);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return 0;
        bytes += done;
        size -= done;
    }
    return 1;
}

// Memory that looks like a file, sealed: what is loaded from it is what was put into it.
static int image_in_memory(const char *binary, int64_t size) {
#ifndef MFD_EXEC
    enum { MFD_EXEC = 0x10 };
#endif
    int image = memfd_create("kmgen", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_EXEC);
    if (image < 0 && errno == EINVAL) // Linux before 6.3
        image = memfd_create("kmgen", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (image < 0) return -1;
    if (write_all(image, binary, size) &&
        fcntl(image, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) == 0)
        return image;
    close(image);
    return -1;
}

// The linker knows libraries by their names, so the name must be nobody else's: the number of a file that stays
// open while the library is loaded. Where such memory cannot be run, it is a file in a folder of our own.
static km_status image_load(cpu_module *module, const char *binary, int64_t size, km_error *err) {
    char path[64], folder[] = "/tmp/kmgen-XXXXXX";
    module->image = image_in_memory(binary, size);
    if (module->image >= 0) {
        snprintf(path, sizeof path, "/proc/self/fd/%d", module->image);
        module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!module->library && mkdtemp(folder)) {
        snprintf(path, sizeof path, "%s/kernels.so", folder);
        if (km_file_replace(path, binary, size, err) == KM_OK)
            module->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        unlink(path);
        rmdir(folder);
    }
    if (module->library) return KM_OK;
    const char *reason = dlerror();
    return km_fail(err, KM_ERROR_COMPILE, "cannot load the compiled module: %s",
                   reason ? reason : "no memory");
}

static km_status module_open(cpu_module *module, const char *binary, int64_t size, km_error *err) {
    const km_spec *spec = &module->base.plan->spec;
    static const char symbol[] = "km_kernels";
    KM_TRY(image_load(module, binary, size, err));
    module->pass = (const km_cpu_kernels *)dlsym(module->library, symbol);
    if (!module->pass)
        return km_fail(err, KM_ERROR_COMPILE, "the module does not define %s: emit the source again", symbol);
    const km_cpu_kernels *own = module->pass;
    if (own->abi != KM_CPU_ABI)
        return km_fail(err, KM_ERROR_COMPILE, "%s is of another version of kmgen: emit the source again",
                       symbol);
    if (!km_cpu_kernels_suit(own, spec))
        return km_fail(
            err, KM_ERROR_COMPILE,
            "%s is for %lld features, %s, K up to %d, the spec has %lld, %s, %d: emit the source again",
            symbol, (long long)own->d_max, own->real_bytes == 4 ? "float32" : "float64", own->k_max,
            (long long)spec->features, km_type_name(spec->type), spec->clusters[spec->clusters_count - 1]);
    if (!km_cpu_isa_runs(own->isa, module->base.device->facts.target.arch))
        return km_fail(err, KM_ERROR_COMPILE, "%s is for an instruction set that this machine lacks", symbol);
    return KM_OK;
}

km_status km_cpu_kernels_load(km_kernels **out, km_device *device, const km_plan *plan,
                              const km_binary *binaries, int64_t count, km_error *err) {
    *out = NULL;
    cpu_module *module = calloc(1, sizeof *module);
    if (!module) return km_fail_memory(err, "the module", (int64_t)sizeof *module);
    module->base = (km_kernels){.device = device, .plan = plan};
    module->image = -1;
    km_status status = KM_OK;
    if (count > 0) // a text for a CPU is one part
        status = module_open(module, binaries->bytes, binaries->size, err);
    else if (!km_plan_is_csr(plan)) // the kernels of CSR points are the engine's own
        module->pass = km_cpu_prebuilt_lanes(&plan->spec, device->facts.target.arch);
    *out = &module->base;
    if (status != KM_OK) km_cpu_kernels_unload(out);
    return status;
}

// A library that stays (somebody else holds it) keeps its name, and so the number of its file.
static void image_unload(cpu_module *module) {
    char path[64];
    if (module->library) dlclose(module->library);
    if (module->image < 0) return;
    snprintf(path, sizeof path, "/proc/self/fd/%d", module->image);
    void *still = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
    if (still)
        dlclose(still);
    else
        close(module->image);
}

void km_cpu_kernels_unload(km_kernels **kernels) {
    cpu_module *module = (cpu_module *)*kernels;
    if (!module) return;
    image_unload(module);
    free(module);
    *kernels = NULL;
}
