// SPDX-License-Identifier: MIT
// Runs the blocks of a kernel on the thread that launches it, one after another. A block's threads are fibers: each has
// a stack, and goes on until it waits for others or ends.
#ifndef KM_TESTS_EMULATE_BLOCK_H
#define KM_TESTS_EMULATE_BLOCK_H
#include "machine.h"
#include <stddef.h>

typedef struct emulated_launch {
    const char *kernel; // its name, for messages
    void (*start)(void **arguments);
    void **arguments;
    emulated_index grid, block_size;
    unsigned shared_bytes;
    char *statics[2]; // where the module has its static shared memory
} emulated_launch;

extern emulated_machine emulated_gpu;

// Non-zero where a kernel did what a GPU does not allow, with a sentence on standard error. One launch at a time.
int emulated_run(const emulated_launch *launch);

// What lies at an address of a device, for messages (cuda.c).
void emulated_describe(char *text, size_t size, const void *address);

// Bytes that nobody has written: NaN as float, double and half, and large as integers.
void emulated_spoil(void *at, size_t bytes);

// Matrix products of a warp (products.c).
void emulated_products_init(emulated_machine *machine);

#endif
