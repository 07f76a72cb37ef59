// SPDX-License-Identifier: MIT
#include "worker.h"
#include "../../base/clock.h"
#include "../../base/size.h"
#include "lines.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

// Lines -------------------------------------------------------------------------------------------------------

// Writes all of it. A process that is gone must not end this one by SIGPIPE: the signal is blocked meanwhile.
static int write_all(int to, const char *bytes, int64_t size) {
    sigset_t pipe, before;
    const struct timespec now = {0, 0};
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before);
    int64_t written = 0;
    while (written < size) {
        ssize_t some = write(to, bytes + written, (size_t)(size - written));
        if (some < 0 && errno == EINTR) continue;
        if (some <= 0) break;
        written += some;
    }
    if (written < size && errno == EPIPE) sigtimedwait(&pipe, NULL, &now);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return written == size;
}

static km_status send(km_worker *worker, json_t *object, km_error *err) {
    char *line = km_tune_line(object);
    if (!line) return km_fail_memory(err, "a question to a worker", 0);
    int sent = write_all(worker->to, line, (int64_t)strlen(line));
    free(line);
    worker->is_asked = sent;
    return sent ? KM_OK : km_fail(err, KM_ERROR_IO, "the process that measures has ended");
}

// Start and stop ----------------------------------------------------------------------------------------------

static json_t *open_json(const km_measure_params *params, km_error *err) {
    char *yaml = NULL;
    if (km_spec_to_yaml(&yaml, params->spec, err) != KM_OK) return NULL;
    json_t *open = json_object();
    json_object_set_new(open, "do", json_string("open"));
    json_object_set_new(open, "spec", json_string(yaml));
    json_object_set_new(open, "device", json_integer(params->device));
    json_object_set_new(open, "points", json_integer(params->points));
    json_object_set_new(open, "threads", json_integer(params->threads));
    json_object_set_new(open, "compiles_only", json_boolean(params->compiles_only));
    json_object_set_new(open, "cache_bytes", json_integer(params->module.cache_bytes_max));
    if (params->module.cache_dir)
        json_object_set_new(open, "cache_dir", json_string(params->module.cache_dir));
    if (params->module.compiler) json_object_set_new(open, "compiler", json_string(params->module.compiler));
    km_text_free(yaml);
    return open;
}

static int spawn(km_worker *worker, char *const *argv) {
    int to[2] = {-1, -1}, from[2] = {-1, -1};
    posix_spawn_file_actions_t actions;
    if (pipe2(to, O_CLOEXEC) != 0 || pipe2(from, O_CLOEXEC) != 0) goto failed;
    if (posix_spawn_file_actions_init(&actions) != 0) goto failed;
    int failure = posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    if (!failure) failure = posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    if (!failure) failure = posix_spawnp(&worker->process, argv[0], &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (failure) {
        errno = failure;
        goto failed;
    }
    close(to[0]);
    close(from[1]);
    worker->to = to[1];
    worker->from = from[0];
    return 1;
failed:
    for (int i = 0; i < 2; i++) {
        if (to[i] >= 0) close(to[i]);
        if (from[i] >= 0) close(from[i]);
    }
    return 0;
}

km_status km_worker_start(km_worker *worker, char *const *argv, const km_measure_params *params,
                          km_error *err) {
    *worker = (km_worker){.to = -1, .from = -1};
    if (!spawn(worker, argv))
        return km_fail(err, KM_ERROR_IO, "cannot start %s to measure with: %s", argv[0], strerror(errno));
    json_t *open = open_json(params, err);
    km_status status = open ? send(worker, open, err) : KM_ERROR_MEMORY;
    if (status != KM_OK) km_worker_stop(worker);
    return status;
}

// Waits for the end of a process whose input has ended; by force where it takes long.
static void reap(pid_t process) {
    enum { PATIENCE_MS = 5000, STEP_MS = 2 };
    for (int ms = 0; ms < PATIENCE_MS; ms += STEP_MS) {
        if (waitpid(process, NULL, WNOHANG) != 0) return;
        poll(NULL, 0, STEP_MS);
    }
    kill(process, SIGKILL);
    waitpid(process, NULL, 0);
}

void km_worker_stop(km_worker *worker) {
    if (worker->process <= 0) return;
    if (worker->to >= 0) close(worker->to); // it ends where its input does
    if (worker->is_asked) kill(worker->process, SIGKILL);
    if (worker->from >= 0) close(worker->from);
    reap(worker->process);
    free(worker->line);
    *worker = (km_worker){.to = -1, .from = -1};
}

// Questions and answers ---------------------------------------------------------------------------------------

km_status km_worker_ask(km_worker *worker, const km_tune_candidate *candidate,
                        const km_tune_candidate *beside, int samples, km_error *err) {
    json_t *ask = json_object();
    json_object_set_new(ask, "do", json_string(samples ? "measure" : "compile"));
    json_object_set_new(ask, "samples", json_integer(samples));
    json_object_set_new(ask, "plan", km_tune_plan_json(candidate));
    if (beside) json_object_set_new(ask, "beside", km_tune_plan_json(beside));
    return send(worker, ask, err);
}

km_status km_worker_ask_read(km_worker *worker, km_error *err) {
    json_t *ask = json_object();
    json_object_set_new(ask, "do", json_string("read"));
    return send(worker, ask, err);
}

// More bytes of the answer. 0: the pipe is at its end.
static int read_some(km_worker *worker) {
    enum { PIECE = 4096 };
    if (worker->size + PIECE > worker->capacity) {
        char *more = realloc(worker->line, (size_t)(worker->capacity + 4 * PIECE));
        if (!more) return 0;
        worker->line = more;
        worker->capacity += 4 * PIECE;
    }
    ssize_t some = read(worker->from, worker->line + worker->size, PIECE - 1);
    if (some < 0 && errno == EINTR) return 1;
    if (some <= 0) return 0;
    worker->size += some;
    return 1;
}

// One line, with a zero for its end. What came with it, the answer behind "timing", is kept for the next call.
static km_worker_answer read_line(km_worker *worker, double timeout_ms) {
    double end_ms = km_now_ms() + timeout_ms;
    char *end;
    worker->size -= worker->taken;
    if (worker->taken) memmove(worker->line, worker->line + worker->taken, (size_t)worker->size);
    worker->taken = 0;
    while (!worker->size || !(end = memchr(worker->line, '\n', (size_t)worker->size))) {
        struct pollfd wait = {.fd = worker->from, .events = POLLIN};
        double left = end_ms - km_now_ms();
        int ready = poll(&wait, 1, left > 0 ? (int)fmin(left + 1, 1e9) : 0);
        if (ready < 0 && errno != EINTR) return KM_WORKER_GONE;
        if (ready <= 0 && left <= 0) return KM_WORKER_NONE;
        if (ready > 0 && !read_some(worker)) return KM_WORKER_GONE;
    }
    *end = 0;
    worker->taken = end + 1 - worker->line;
    worker->is_asked = 0;
    return KM_WORKER_DONE;
}

km_worker_answer km_worker_wait(km_worker *worker, double timeout_ms, km_tune_candidate *candidate,
                                double *ms, double *beside_ms, km_status *status, km_error *err) {
    *status = KM_OK;
    km_worker_answer answer = read_line(worker, timeout_ms);
    if (answer != KM_WORKER_DONE) return answer;
    json_t *object = json_loads(worker->line, 0, NULL);
    if (json_is_true(json_object_get(object, "timing"))) {
        json_decref(object);
        worker->is_asked = 1;
        return KM_WORKER_TIMING;
    }
    int64_t code = json_integer_value(json_object_get(object, "status"));
    const char *text = json_string_value(json_object_get(object, "error"));
    if (!object) {
        *status = km_fail(err, KM_ERROR_INTERNAL, "a worker answered what is no JSON");
    } else if (code != KM_OK) {
        *status = km_fail(err, (km_status)code, "%s", text ? text : "the process that measures failed");
    } else if (candidate) {
        km_tune_found_take(candidate, object);
        candidate->samples = km_tune_reals_take(ms, KM_TUNE_SAMPLES_MAX, json_object_get(object, "ms"));
        km_tune_reals_take(beside_ms, KM_TUNE_SAMPLES_MAX, json_object_get(object, "beside_ms"));
    } else if (ms) {
        *ms = json_number_value(json_object_get(object, "read_ms"));
    }
    json_decref(object);
    return KM_WORKER_DONE;
}

// The other end -----------------------------------------------------------------------------------------------

typedef struct server {
    km_measure *measure;
    int out;
    km_spec spec;
    char *cache_dir, *compiler;
} server;

static char *string_copy(const json_t *object, const char *key) {
    const char *text = json_string_value(json_object_get(object, key));
    return text ? strdup(text) : NULL;
}

static void say_timing(void *user) {
    static const char line[] = "{\"timing\":true}\n";
    (void)write_all(((const server *)user)->out, line, sizeof line - 1); // who is gone reads no answer either
}

static km_status serve_open(server *s, const json_t *ask, km_error *err) {
    const char *yaml = json_string_value(json_object_get(ask, "spec"));
    km_measure_params params = {.spec = &s->spec};
    if (s->measure || !yaml) return km_fail(err, KM_ERROR_USAGE, "a worker is opened once, with a spec");
    KM_TRY(km_spec_parse(&s->spec, yaml, (int64_t)strlen(yaml), "the spec of a tuning", err));
    s->cache_dir = string_copy(ask, "cache_dir");
    s->compiler = string_copy(ask, "compiler");
    km_module_params_init(&params.module);
    params.device = (int)json_integer_value(json_object_get(ask, "device"));
    params.points = json_integer_value(json_object_get(ask, "points"));
    params.threads = json_integer_value(json_object_get(ask, "threads"));
    params.compiles_only = json_is_true(json_object_get(ask, "compiles_only"));
    params.timing = say_timing;
    params.timing_user = s;
    params.module.device = params.device;
    params.module.cache_dir = s->cache_dir;
    params.module.cache_bytes_max = json_integer_value(json_object_get(ask, "cache_bytes"));
    params.module.compiler = s->compiler;
    if (params.compiles_only) (void)!nice(10); // what measures comes first
    if (params.points < 1) return km_fail(err, KM_ERROR_USAGE, "a worker needs points to measure with");
    return km_measure_open(&s->measure, &params, err);
}

static km_status serve_candidate(json_t **answer, server *s, const json_t *ask, km_error *err) {
    km_tune_candidate candidate, beside;
    const json_t *other = json_object_get(ask, "beside");
    int samples = (int)json_integer_value(json_object_get(ask, "samples"));
    double ms[KM_TUNE_SAMPLES_MAX], beside_ms[KM_TUNE_SAMPLES_MAX];
    if (samples < 0 || samples > KM_TUNE_SAMPLES_MAX)
        return km_fail(err, KM_ERROR_USAGE, "a worker takes 0 to %d samples", KM_TUNE_SAMPLES_MAX);
    KM_TRY(km_tune_plan_take(&candidate, json_object_get(ask, "plan"), err));
    if (other) KM_TRY(km_tune_plan_take(&beside, other, err));
    if (samples == 0)
        KM_TRY(km_measure_compile(s->measure, &candidate, err));
    else
        KM_TRY(
            km_measure_sample(s->measure, &candidate, ms, other ? &beside : NULL, beside_ms, samples, err));
    int measured = candidate.outcome == KM_TUNE_MEASURED ? samples : 0;
    *answer = km_tune_found_json(&candidate);
    json_object_set_new(*answer, "ms", km_json_reals(ms, measured));
    json_object_set_new(*answer, "beside_ms", km_json_reals(beside_ms, other ? measured : 0));
    return KM_OK;
}

static km_status serve_read(json_t **answer, server *s, km_error *err) {
    double ms;
    KM_TRY(km_measure_read(s->measure, &ms, err));
    *answer = json_object();
    json_object_set_new(*answer, "read_ms", json_real(ms));
    return KM_OK;
}

static km_status serve_one(json_t **answer, server *s, const json_t *ask, km_error *err) {
    const char *what = json_string_value(json_object_get(ask, "do"));
    if (!what) return km_fail(err, KM_ERROR_USAGE, "a worker got a line that is no question");
    if (!strcmp(what, "open")) return serve_open(s, ask, err);
    if (!s->measure) return km_fail(err, KM_ERROR_USAGE, "a worker must be opened first");
    if (!strcmp(what, "read")) return serve_read(answer, s, err);
    return serve_candidate(answer, s, ask, err);
}

km_status km_tune_serve(int in, int out, km_error *err) {
    server s = {.out = out};
    char *line = NULL;
    size_t capacity = 0;
    km_status status = KM_OK;
    FILE *stream = fdopen(dup(in), "r");
    if (!stream) return km_fail(err, KM_ERROR_IO, "cannot read questions: %s", strerror(errno));
    km_spec_init(&s.spec);
    while (status == KM_OK && getline(&line, &capacity, stream) > 0) {
        km_error own = {""};
        json_t *ask = json_loads(line, 0, NULL), *answer = NULL;
        km_status one = serve_one(&answer, &s, ask, &own);
        if (!answer) answer = json_object();
        json_object_set_new(answer, "status", json_integer(one));
        if (one != KM_OK) json_object_set_new(answer, "error", km_json_string(own.text));
        char *text = km_tune_line(answer);
        if (!text || !write_all(out, text, (int64_t)strlen(text)))
            status = km_fail(err, KM_ERROR_IO, "cannot answer: %s", strerror(errno));
        free(text);
        json_decref(ask);
    }
    fclose(stream);
    free(line);
    km_measure_close(&s.measure);
    km_spec_clear(&s.spec);
    free(s.cache_dir);
    free(s.compiler);
    return status;
}
