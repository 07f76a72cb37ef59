// SPDX-License-Identifier: MIT
// What the driver of emulated GPUs (cuda.c, block.c) and the kernels that it runs (prelude.hpp) share. A kernel's text
// is C++, compiled by g++; what CUDA C has built in calls these functions.
#ifndef KM_TESTS_EMULATE_MACHINE_H
#define KM_TESTS_EMULATE_MACHINE_H

// Where dynamic shared memory begins: the same in every process and block, so that it is a constant of a text.
#define EMULATED_SHARED 0x5a0000000000
enum {
    EMULATED_SHARED_MAX = 227 << 10, // of a block, as on an H100
    EMULATED_STATIC = 1 << 24 // 32-bit addresses of static shared memory begin here, of dynamic one at 0
};

typedef struct emulated_index {
    unsigned x, y, z;
} emulated_index;

// What all lanes of a warp that meet have brought, by lane, becomes what each gets. `mask`: the lanes.
typedef void emulated_meeting(void **records, unsigned mask);

// Products of a warp, by the PTX name's types; records are emulated_product.
typedef struct emulated_product {
    unsigned a[4], b[2];
    const double *a64, *b64;
    union {
        float f[4];
        int i[4];
        unsigned u[4];
        double d[4];
    } sums; // the start, then the result
} emulated_product;

typedef struct emulated_machine {
    emulated_index thread, block, block_size, grid;
    unsigned lane; // of the thread that runs
    unsigned shared_bytes;
    // Waits for all lanes of the mask that have not ended.
    void (*meet)(unsigned mask, void *record, emulated_meeting *all);
    // Waits for `count` threads at barrier `id`; 0: all of the block. Returns the OR of what they bring.
    int (*barrier)(unsigned id, unsigned count, int value);
    // Asynchronous copies of the thread: done when they are waited for, or at once, by turns of blocks.
    void (*copy)(void *to, const void *from, unsigned bytes, unsigned bytes_read);
    void (*copy_commit)(void);
    void (*copy_wait)(unsigned groups_left);
    // Ends the launch: the kernel did what a GPU does not allow.
    void (*fault)(const char *what) __attribute__((noreturn));
    emulated_meeting *product_f16_f32, *product_f16_f16, *product_s8_s8, *product_s8_u8, *product_f64;
    const float *halves; // the value of each half
    unsigned short (*half_of)(double value, int to_zero);
} emulated_machine;

#endif
