// SPDX-License-Identifier: MIT
#include "asking.h"
#include <time.h>

enum { LOOK_EVERY_MS = KM_ASK_EVERY_MS / 4 };

void km_awaited_init(km_awaited *awaited) {
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_mutex_init(&awaited->lock, NULL);
    pthread_cond_init(&awaited->changed, &attributes);
    pthread_condattr_destroy(&attributes);
    awaited->done = 0;
}

void km_awaited_clear(km_awaited *awaited) {
    pthread_cond_destroy(&awaited->changed);
    pthread_mutex_destroy(&awaited->lock);
}

void km_awaited_add(km_awaited *awaited) {
    pthread_mutex_lock(&awaited->lock);
    awaited->done++;
    pthread_cond_signal(&awaited->changed);
    pthread_mutex_unlock(&awaited->lock);
}

static struct timespec soon(void) {
    struct timespec at;
    clock_gettime(CLOCK_MONOTONIC, &at);
    at.tv_nsec += LOOK_EVERY_MS * 1000000L;
    at.tv_sec += at.tv_nsec / 1000000000L;
    at.tv_nsec %= 1000000000L;
    return at;
}

// The caller is asked with the lock left, as its answer may take as long as it likes.
void km_await(km_awaited *awaited, int64_t count, km_asking *asking) {
    pthread_mutex_lock(&awaited->lock);
    while (awaited->done < count) {
        struct timespec at = soon();
        if (asking)
            pthread_cond_timedwait(&awaited->changed, &awaited->lock, &at);
        else
            pthread_cond_wait(&awaited->changed, &awaited->lock);
        pthread_mutex_unlock(&awaited->lock);
        int stops = km_asking_stops(asking);
        pthread_mutex_lock(&awaited->lock);
        if (stops) break;
    }
    pthread_mutex_unlock(&awaited->lock);
}
