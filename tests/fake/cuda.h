// SPDX-License-Identifier: MIT
// What was asked of the driver that runs nothing (cuda.c).
#ifndef KM_TESTS_FAKE_CUDA_H
#define KM_TESTS_FAKE_CUDA_H
#include <stdint.h>

typedef struct fake_cuda_seen {
    int retained[2];       // contexts that are held, of each device
    int pinned, streams;   // buffers and streams that are there
    int64_t waited_for;    // the caller's stream (a small number) that was waited for last
    int64_t copies;        // to the host
    int64_t bytes_to_host; // of them
} fake_cuda_seen;

extern fake_cuda_seen fake_cuda;

#endif
