// SPDX-License-Identifier: MIT
// Whether to stop, asked inside long loops: the thread that called the library asks now and then, the others of its
// team look at what it was told. A loop that is left this way has half a result, which nobody may use.
#ifndef KM_RUNTIME_ASKING_H
#define KM_RUNTIME_ASKING_H
#include "../base/clock.h"
#include "../base/error.h"
#include <pthread.h>
#include <stdatomic.h>

typedef struct km_asking {
    int (*stop)(void *user); // Asked by the thread that called the library; non-zero: all stop.
    void *user;
    pthread_t caller;      // Who asks. (In a team within a team every thread is the first of its own.)
    double asked_ms;       // When it was asked last; 0 at first.
    atomic_int is_stopped; // It said so.
} km_asking;

enum { KM_ASK_EVERY_MS = 20 };

// For every piece of work, on any thread. NULL: nobody asks.
static inline int km_asking_stops(km_asking *asking) {
    if (!asking) return 0;
    if (atomic_load_explicit(&asking->is_stopped, memory_order_relaxed)) return 1;
    if (!pthread_equal(pthread_self(), asking->caller)) return 0;
    double now_ms = km_now_ms();
    if (now_ms < asking->asked_ms + KM_ASK_EVERY_MS) return 0;
    asking->asked_ms = now_ms;
    if (!asking->stop(asking->user)) return 0;
    atomic_store_explicit(&asking->is_stopped, 1, memory_order_relaxed);
    return 1;
}

// After a loop: KM_ERROR_INTERRUPTED where it was left.
static inline km_status km_asking_status(km_asking *asking, km_error *err) {
    if (!asking || !atomic_load_explicit(&asking->is_stopped, memory_order_relaxed)) return KM_OK;
    return km_fail(err, KM_ERROR_INTERRUPTED, "interrupted");
}

#endif
