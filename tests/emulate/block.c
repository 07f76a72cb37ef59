// SPDX-License-Identifier: MIT
#include "block.h"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

enum {
    THREADS_MAX = 1024,
    WARPS_MAX = THREADS_MAX / 32,
    BARRIERS = 16,
    STACK_BYTES = 256 << 10,
    PAGE = 4096,
    SWITCH_TURNS = 64 // a warp gives way to another in one of so many steps
};
#define NOBODYS 0xfff5a5a5u

typedef struct pending_copy {
    void *to;
    const void *from;
    unsigned bytes, bytes_read, group;
} pending_copy;

typedef struct fiber {
    void *stack_pointer; // while it does not run
    char *stack;
    emulated_index index;
    unsigned warp, lane;
    // Where it waits: for lanes of its warp ...
    unsigned mask;
    void *record;
    emulated_meeting *all;
    int barrier; // ... or at this barrier; -1
    int value;   // the barrier's OR
    pending_copy *copies;
    unsigned copies_count, copies_size, groups;
} fiber;

typedef struct warp {
    unsigned exist, ready, waiting, ended; // bits of lanes
} warp;

typedef struct barrier {
    unsigned arrived, count; // count 0: all that have not ended
    int value;
    unsigned lanes[WARPS_MAX];
} barrier;

static fiber fibers[THREADS_MAX], *current;
static warp warps[WARPS_MAX];
static barrier barriers[BARRIERS];
static unsigned warps_count, live;
static const emulated_launch *running;
static int has_failed, copies_wait;
static uint64_t chance = 88172645463325252u; // which thread is next: the same in each run
static void *host_stack_pointer;

static unsigned draw(void) {
    chance ^= chance << 13, chance ^= chance >> 7, chance ^= chance << 17;
    return (unsigned)(chance >> 32);
}

void emulated_spoil(void *at, size_t bytes) {
    unsigned *words = at;
    size_t count = bytes / 4;
    for (size_t i = 0; i < count; i++) words[i] = NOBODYS;
    memset(words + count, 0xa5, bytes % 4);
}

// Fibers ----------------------------------------------------------------------------------------------------

// Keeps what a function must keep on this stack, and goes on with another.
void emulated_switch(void **from, void *to);
__asm__(".text\n.type emulated_switch, @function\nemulated_switch:\n"
        "pushq %rbp\npushq %rbx\npushq %r12\npushq %r13\npushq %r14\npushq %r15\n"
        "movq %rsp, (%rdi)\nmovq %rsi, %rsp\n"
        "popq %r15\npopq %r14\npopq %r13\npopq %r12\npopq %rbx\npopq %rbp\n"
        "popq %rdx\njmpq *%rdx\n.size emulated_switch, .-emulated_switch\n");

static void run(fiber *next, void **from) {
    current = next;
    emulated_gpu.thread = next->index;
    emulated_gpu.lane = next->lane;
    emulated_switch(from, next->stack_pointer);
}

// To the host's stack, for good.
__attribute__((noreturn)) static void leave(void) {
    void *unused;
    emulated_switch(&unused, host_stack_pointer);
    __builtin_unreachable();
}

static fiber *fiber_at(unsigned warp_index, unsigned lane) {
    return &fibers[warp_index * 32 + lane];
}

__attribute__((noreturn)) static void fault(const char *what) {
    const emulated_machine *gpu = &emulated_gpu;
    fprintf(stderr, "emulated GPU: %s, block %u,%u of %ux%u, thread %u of %u: %s\n", running->kernel,
            gpu->block.x, gpu->block.y, gpu->grid.x, gpu->grid.y, (unsigned)(current - fibers),
            running->block_size.x * running->block_size.y * running->block_size.z, what);
    has_failed = 1;
    leave();
}

static void say_who_waits(char *text, size_t size) {
    size_t at = 0;
    for (unsigned w = 0; w < warps_count && w < 4 && at + 200 < size; w++) {
        int is_first = 1;
        for (unsigned lane = 0; lane < 32; lane++) {
            const fiber *own = fiber_at(w, lane);
            if (!((warps[w].exist & ~warps[w].ended) >> lane & 1)) continue;
            int is_same = lane && (warps[w].exist & ~warps[w].ended) >> (lane - 1) & 1 &&
                          own->barrier == own[-1].barrier && own->mask == own[-1].mask &&
                          own->all == own[-1].all;
            if (is_same || at + 200 >= size) continue;
            at += (size_t)snprintf(text + at, size - at, is_first ? "; warp %u:" : ",", w);
            at += (size_t)(own->barrier >= 0 ? snprintf(text + at, size - at,
                                                        " from lane %u on at barrier %d", lane, own->barrier)
                                             : snprintf(text + at, size - at,
                                                        " from lane %u on for lanes %08x", lane, own->mask));
            is_first = 0;
        }
    }
}

// The thread that runs next. A warp runs on while it can, but for some chance; which of its lanes is chance as well:
// an order that a kernel relies on without having asked for it is not kept.
static fiber *next_fiber(void) {
    unsigned w = current->warp;
    if (!warps[w].ready || draw() % SWITCH_TURNS == 0) {
        unsigned first = draw() % warps_count, i = 0;
        while (i < warps_count && !warps[(first + i) % warps_count].ready) i++;
        if (i == warps_count) {
            char text[2048] = "threads wait for others that do not come";
            say_who_waits(text + strlen(text), sizeof text - strlen(text));
            fault(text);
        }
        w = (first + i) % warps_count;
    }
    unsigned ready = warps[w].ready,
             lane = draw() & 1 ? (unsigned)__builtin_ctz(ready) : 31 - (unsigned)__builtin_clz(ready);
    warps[w].ready &= ~(1u << lane);
    return fiber_at(w, lane);
}

static void give_way(void) {
    fiber *own = current, *next = next_fiber();
    if (next != own) run(next, &own->stack_pointer);
}

// Meetings --------------------------------------------------------------------------------------------------

// Ends the waiting of the lanes of a mask where all have come.
static int lanes_have_met(unsigned warp_index, const fiber *one) {
    warp *w = &warps[warp_index];
    unsigned needed = one->mask & w->exist & ~w->ended;
    void *records[32] = {0};
    if ((w->waiting & needed) != needed) return 0;
    for (unsigned left = needed; left; left &= left - 1) {
        const fiber *other = fiber_at(warp_index, (unsigned)__builtin_ctz(left));
        if (other->mask != one->mask || other->all != one->all) return 0;
        records[other->lane] = other->record;
    }
    one->all(records, needed);
    w->waiting &= ~needed;
    w->ready |= needed;
    return 1;
}

static void meet(unsigned mask, void *record, emulated_meeting *all) {
    fiber *own = current;
    warp *w = &warps[own->warp];
    if (!(mask >> own->lane & 1)) fault("a lane meets others by a mask without itself");
    own->mask = mask, own->record = record, own->all = all, own->barrier = -1;
    w->waiting |= 1u << own->lane;
    lanes_have_met(own->warp, own);
    give_way();
}

static void pass_barrier(barrier *b) {
    if (!b->arrived || b->arrived < (b->count ? b->count : live)) return;
    for (unsigned w = 0; w < warps_count; w++) {
        for (unsigned left = b->lanes[w]; left; left &= left - 1)
            fiber_at(w, (unsigned)__builtin_ctz(left))->value = b->value;
        warps[w].ready |= b->lanes[w];
    }
    memset(b, 0, sizeof *b);
}

static int wait_at_barrier(unsigned id, unsigned count, int value) {
    fiber *own = current;
    if (id >= BARRIERS) fault("there is no such barrier");
    if (count % 32) fault("a barrier is for whole warps");
    barrier *b = &barriers[id];
    if (b->arrived && b->count != count) fault("threads at a barrier disagree how many they are");
    b->count = count;
    b->arrived++;
    b->value |= value;
    b->lanes[own->warp] |= 1u << own->lane;
    own->barrier = (int)id;
    pass_barrier(b);
    give_way();
    return own->value;
}

// Copies ----------------------------------------------------------------------------------------------------

static void do_copy(const pending_copy *own) {
    memcpy(own->to, own->from, own->bytes_read);
    memset((char *)own->to + own->bytes_read, 0, own->bytes - own->bytes_read);
}

static void copy(void *to, const void *from, unsigned bytes, unsigned bytes_read) {
    fiber *own = current;
    pending_copy it = {to, from, bytes, bytes_read, own->groups};
    if (!copies_wait) {
        do_copy(&it);
        return;
    }
    if (own->copies_count == own->copies_size) {
        own->copies_size = 2 * own->copies_size + 16;
        own->copies = realloc(own->copies, own->copies_size * sizeof *own->copies);
        if (!own->copies) abort();
    }
    own->copies[own->copies_count++] = it;
}

static void copy_commit(void) {
    current->groups++;
}

static void copy_wait(unsigned groups_left) {
    fiber *own = current;
    unsigned done = 0;
    while (done < own->copies_count && own->copies[done].group + groups_left < own->groups)
        do_copy(&own->copies[done++]);
    if (!done) return;
    own->copies_count -= done;
    memmove(own->copies, own->copies + done, own->copies_count * sizeof *own->copies);
}

// Blocks ----------------------------------------------------------------------------------------------------

emulated_machine emulated_gpu = {
    .meet = meet,
    .barrier = wait_at_barrier,
    .copy = copy,
    .copy_commit = copy_commit,
    .copy_wait = copy_wait,
    .fault = fault,
};

// A thread from its beginning to its end.
static void thread_main(void) {
    running->start(running->arguments);
    fiber *own = current;
    warp *w = &warps[own->warp];
    own->groups++;
    copy_wait(0);
    w->ended |= 1u << own->lane;
    live--;
    if (!live) leave();
    pass_barrier(&barriers[0]);
    for (unsigned left = w->waiting; left; left &= left - 1) // those that waited for this one
        if (w->waiting & left & -left)
            lanes_have_met(own->warp, fiber_at(own->warp, (unsigned)__builtin_ctz(left)));
    run(next_fiber(), &own->stack_pointer);
    abort();
}

static void make_stack(fiber *own) {
    char *memory = mmap(NULL, STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, PAGE, PROT_NONE) != 0) abort();
    own->stack = memory;
}

static void begin_thread(unsigned index) {
    fiber *own = &fibers[index];
    const emulated_index *size = &running->block_size;
    if (!own->stack) make_stack(own);
    // Stacks end at different places of a page, so that they do not share the lines of a cache.
    void **top = (void **)(own->stack + STACK_BYTES - 64 - index % 61 * 832);
    *--top = NULL; // the address that thread_main returns to, never; aligned as after a call
    *--top = (void *)(uintptr_t)thread_main;
    own->stack_pointer = top - 6;
    memset(own->stack_pointer, 0, 6 * sizeof *top);
    own->index = (emulated_index){index % size->x, index / size->x % size->y, index / size->x / size->y};
    own->warp = index / 32, own->lane = index % 32;
    own->mask = 0, own->barrier = -1, own->copies_count = own->groups = 0;
    warps[own->warp].exist |= 1u << own->lane;
    warps[own->warp].ready |= 1u << own->lane;
}

static void check_behind_shared(unsigned shared_bytes) {
    const unsigned char *at = (const unsigned char *)EMULATED_SHARED;
    for (unsigned i = (shared_bytes + 3) / 4 * 4; i % PAGE; i += 4)
        if (*(const unsigned *)(at + i) != NOBODYS) {
            fprintf(
                stderr,
                "emulated GPU: %s, block %u,%u: shared memory is written behind its end, at byte %u of %u\n",
                running->kernel, emulated_gpu.block.x, emulated_gpu.block.y, i, shared_bytes);
            has_failed = 1;
            return;
        }
}

static void run_block(void) {
    const emulated_index *size = &running->block_size;
    live = size->x * size->y * size->z;
    warps_count = (live + 31) / 32;
    memset(warps, 0, sizeof warps);
    memset(barriers, 0, sizeof barriers);
    for (unsigned i = 0; i < live; i++) begin_thread(i);
    emulated_spoil((void *)EMULATED_SHARED, (running->shared_bytes + PAGE - 1) / PAGE * PAGE);
    emulated_spoil(running->statics[0], (size_t)(running->statics[1] - running->statics[0]));
    copies_wait = (int)(draw() & 1);
    current = &fibers[0];
    run(next_fiber(), &host_stack_pointer);
    if (!has_failed) check_behind_shared(running->shared_bytes);
}

// Addresses that are not there ------------------------------------------------------------------------------

static struct sigaction before[3];
static const int signals[3] = {SIGSEGV, SIGBUS, SIGILL};
static const void *bad_address;
static char leave_stack[64 << 10] __attribute__((aligned(64)));

static void say_address(void) {
    char text[512];
    emulated_describe(text, sizeof text, bad_address);
    fault(text);
}

static void on_signal(int number, siginfo_t *info, void *context) {
    ucontext_t *own = context;
    if (!running) { // not of a kernel: as if it had never come here
        for (int i = 0; i < 3; i++)
            if (signals[i] == number) sigaction(number, &before[i], NULL);
        return;
    }
    bad_address = info->si_addr;
    own->uc_mcontext.gregs[REG_RIP] = (greg_t)(uintptr_t)say_address;
    own->uc_mcontext.gregs[REG_RSP] = (greg_t)(uintptr_t)(leave_stack + sizeof leave_stack - 64 - 8);
}

static void prepare(void) {
    static int is_prepared;
    static char signal_stack[64 << 10];
    stack_t stack = {.ss_sp = signal_stack, .ss_size = sizeof signal_stack};
    struct sigaction action = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaltstack(&stack, NULL);
    for (int i = 0; i < 3; i++) sigaction(signals[i], &action, &before[i]);
    if (is_prepared) return;
    is_prepared = 1;
    emulated_products_init(&emulated_gpu);
    void *shared = mmap((void *)EMULATED_SHARED, 256 << 10, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    if (shared != (void *)EMULATED_SHARED) abort();
}

// Dynamic shared memory ends at a page that cannot be touched.
static void allow_shared(unsigned bytes) {
    static size_t allowed = 256 << 10;
    size_t wanted = (bytes + PAGE - 1) / PAGE * PAGE;
    if (wanted == allowed) return;
    mprotect((void *)EMULATED_SHARED, 256 << 10, PROT_NONE);
    if (wanted) mprotect((void *)EMULATED_SHARED, wanted, PROT_READ | PROT_WRITE);
    allowed = wanted;
}

int emulated_run(const emulated_launch *launch) {
    emulated_machine *gpu = &emulated_gpu;
    const uint64_t count = (uint64_t)launch->grid.x * launch->grid.y * launch->grid.z;
    const int is_backwards = (int)(draw() & 1); // no order of blocks is promised
    stack_t none = {.ss_flags = SS_DISABLE};
    prepare();
    allow_shared(launch->shared_bytes);
    running = launch;
    has_failed = 0;
    gpu->grid = launch->grid, gpu->block_size = launch->block_size, gpu->shared_bytes = launch->shared_bytes;
    for (uint64_t i = 0; i < count && !has_failed; i++) {
        uint64_t at = is_backwards ? count - 1 - i : i;
        gpu->block = (emulated_index){(unsigned)(at % launch->grid.x),
                                      (unsigned)(at / launch->grid.x % launch->grid.y),
                                      (unsigned)(at / launch->grid.x / launch->grid.y)};
        run_block();
    }
    running = NULL;
    for (int i = 0; i < 3; i++) sigaction(signals[i], &before[i], NULL);
    sigaltstack(&none, NULL);
    return has_failed;
}
