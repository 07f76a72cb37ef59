// SPDX-License-Identifier: MIT
// Whether to stop, asked inside long loops: the thread that called the library asks now and then, the others of its
// team look at what it was told. A loop that is left this way has half a result, which nobody may use.
#ifndef KM_RUNTIME_ASKING_H
#define KM_RUNTIME_ASKING_H
#include "../base/clock.h"
#include "../base/error.h"
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>

typedef struct km_asking {
    int (*stop)(void *user); // Asked by the thread that called the library; non-zero: all stop.
    void *user;
    pthread_t caller;      // Who asks. (In a team within a team every thread is the first of its own.)
    double asked_ms;       // When it was asked last; 0 at first.
    atomic_int is_stopped; // It said so.
    // Several ranks share the points (share.h): a loop that was left goes on to their next sum, which ends all of them.
    int is_joined;
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
    if (!asking || asking->is_joined || !atomic_load_explicit(&asking->is_stopped, memory_order_relaxed))
        return KM_OK;
    return km_fail(err, KM_ERROR_INTERRUPTED, "interrupted");
}

// What other threads have done, for one thread that waits for it and asks its caller meanwhile.
typedef struct km_awaited {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    int64_t done; // under the lock
} km_awaited;

void km_awaited_init(km_awaited *awaited);
void km_awaited_clear(km_awaited *awaited);

// One more is done; from any thread.
void km_awaited_add(km_awaited *awaited);

// Returns at once when so many are done, or soon after the caller said stop. `asking` NULL: nobody is asked.
void km_await(km_awaited *awaited, int64_t count, km_asking *asking);

#endif
