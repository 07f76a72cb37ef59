// SPDX-License-Identifier: MIT
// What the machine has left, and what to say where a fit needs more.
#ifndef KM_RUNTIME_MEMORY_H
#define KM_RUNTIME_MEMORY_H
#include <kmgen/plan.h>

// Bytes that this process may still take: the least of what the machine, its control groups and its own limit of
// addresses leave. 0: unknown. `root` is put before /proc and /sys (for tests), or NULL.
int64_t km_host_free(const char *root);

// Bytes that this process may still take of `most` that it may hold, pages of mapped files not counted; at least 1.
int64_t km_host_left_of(int64_t most);

// "100.0 MiB", or "2.50 GiB" from a quarter of one on.
enum { KM_BYTES_SIZE = 24 };
const char *km_bytes_text(char text[KM_BYTES_SIZE], int64_t bytes);

enum { KM_HOST_LOOK_BYTES = 64 << 20 };
// KM_ERROR_MEMORY where `bytes` more for `what` are above that: the system would hand out memory that it does not have,
// and kill the process once it is used. Less than KM_HOST_LOOK_BYTES is not checked.
km_status km_host_check(const char *what, int64_t bytes, km_error *err);

// One sentence for a plan that does not fit, with the changes that make it fit: each is planned to see that it does.
// `params` are those of the plan; `host`: the facts of the CPU, where going there may help; NULL: it may not.
km_status km_memory_refuse(const km_plan *plan, const km_spec *spec, const km_plan_params *params,
                           const km_device_facts *host, km_error *err);

#endif
