// SPDX-License-Identifier: MIT
// NCCL, which joins totals of several GPUs: opened when it is first needed.
#ifndef KM_RUNTIME_CUDA_NCCL_H
#define KM_RUNTIME_CUDA_NCCL_H
#include "cuda.h"

enum { KM_NCCL_INT64 = 4, KM_NCCL_SUM = 0, KM_NCCL_ID_BYTES = 128 };

typedef struct km_nccl_id {
    char bytes[KM_NCCL_ID_BYTES];
} km_nccl_id;

typedef void *km_nccl_comm;

// X(name, parameters) of NCCL 2; all return 0 or an error.
#define KM_NCCL_CALLS(X)                                                                                     \
    X(ncclGetVersion, (int *version))                                                                        \
    X(ncclGetUniqueId, (km_nccl_id * id))                                                                    \
    X(ncclCommInitRank, (km_nccl_comm * comm, int ranks, km_nccl_id id, int rank))                           \
    X(ncclCommDestroy, (km_nccl_comm comm))                                                                  \
    X(ncclCommAbort, (km_nccl_comm comm))                                                                    \
    X(ncclAllReduce, (const void *from, void *to, size_t count, int type, int operation, km_nccl_comm comm,  \
                      km_cu_stream stream))

typedef struct km_nccl {
#define KM_NCCL_FIELD(name, parameters) int(*name) parameters;
    KM_NCCL_CALLS(KM_NCCL_FIELD)
#undef KM_NCCL_FIELD
    const char *(*ncclGetErrorString)(int result);
    int version; // 22800 is 2.28
} km_nccl;

// Opened once a process; NULL: it is not there. Thread-safe.
const km_nccl *km_nccl_get(void);

#endif
