// SPDX-License-Identifier: MIT
// A process that measures: a kernel that hangs or a context that is lost takes nothing else with it. It is asked by
// lines on its standard input and answers by lines on its standard output.
#ifndef KM_RUNTIME_TUNE_WORKER_H
#define KM_RUNTIME_TUNE_WORKER_H
#include "measure.h"

#include <sys/types.h>

enum { KM_TUNE_SAMPLES_MAX = 64 }; // of one request

typedef struct km_worker {
    pid_t process; // 0: none runs
    int to, from;  // pipes, -1: closed
    int is_asked;  // an answer is still to come
    char *line;    // what has come: the last line that was taken, and behind it what came with it
    int64_t taken, size, capacity;
} km_worker;

// Starts `argv` (ends with NULL) and has it open what is measured. KM_ERROR_IO: it cannot be started.
km_status km_worker_start(km_worker *worker, char *const *argv, const km_measure_params *params,
                          km_error *err);
// Ends it, by force where it does not answer.
void km_worker_stop(km_worker *worker);

// One question; the answer comes by km_worker_wait. `samples` 0: compile only. KM_ERROR_IO: the process is gone.
km_status km_worker_ask(km_worker *worker, const km_tune_candidate *candidate,
                        const km_tune_candidate *beside, int samples, km_error *err);
// How long one read of the points takes, the floor: km_worker_wait without a candidate brings it in *ms.
km_status km_worker_ask_read(km_worker *worker, km_error *err);

typedef enum km_worker_answer {
    KM_WORKER_NONE, // not within the time
    KM_WORKER_DONE,
    KM_WORKER_TIMING, // it begins to take samples, and is to be waited for again
    KM_WORKER_GONE    // the process ended
} km_worker_answer;

// Waits for the answer, `timeout_ms` at most. Fills candidate and times; `status` and err: an error that is not the
// candidate's.
km_worker_answer km_worker_wait(km_worker *worker, double timeout_ms, km_tune_candidate *candidate,
                                double *ms, double *beside_ms, km_status *status, km_error *err);

#endif
