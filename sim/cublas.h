/* cublas.h -- the functions of cuBLAS that are used, looked up when asked for.
 *
 * As with the driver (cuda_driver.h) the declarations are our own; tests/cuda compares them with
 * those of a toolkit where there is one.  cuBLAS works in the context that is current.
 */
#ifndef MR_CUBLAS_H
#define MR_CUBLAS_H

#include "cuda_driver.h"

typedef int mr_cublas_result; /* 0: success */
typedef struct mr_cublas_handle mr_cublas_handle;

enum { /* types of numbers, what sums are made in, which algorithm */
    MR_CUBLAS_FLOAT32 = 0,
    MR_CUBLAS_FLOAT64 = 1,
    MR_CUBLAS_FLOAT16 = 2,
    MR_CUBLAS_BFLOAT16 = 14,
    MR_CUBLAS_IN_FP32 = 68,
    MR_CUBLAS_IN_FP64 = 70,
    MR_CUBLAS_IN_TF32 = 77,
    MR_CUBLAS_ANY = -1,
};

enum { /* results that are expected */
    MR_CUBLAS_NOT_STARTED = 1, /* of a release that is newer than the driver */
    MR_CUBLAS_NOT_HERE = 8,    /* devices like this one have none of that */
    MR_CUBLAS_CANNOT = 15,
};

/* field, name in the library, arguments; matrices are column by column */
#define MR_CUBLAS_CALLS(X)                                                                     \
    X(create, "cublasCreate_v2", (mr_cublas_handle **handle))                                  \
    X(end, "cublasDestroy_v2", (mr_cublas_handle *handle))                                     \
    X(use, "cublasSetStream_v2", (mr_cublas_handle *handle, mr_cuda_stream *stream))           \
    X(room, "cublasSetWorkspace_v2", (mr_cublas_handle *handle, void *at, size_t bytes))       \
    X(product, "cublasGemmStridedBatchedEx",                                                   \
      (mr_cublas_handle *handle, int turn_a, int turn_b, int rows, int columns, int terms,     \
       const void *alpha, const void *a, int type_a, int lead_a, long long step_a,             \
       const void *b, int type_b, int lead_b, long long step_b, const void *beta, void *c,     \
       int type_c, int lead_c, long long step_c, int count, int sums_in, int algorithm))

typedef struct mr_cublas {
    void *library; /* NULL: there is none */
#define X(field, symbol, arguments) mr_cublas_result(*field) arguments;
    MR_CUBLAS_CALLS(X)
#undef X
} mr_cublas;

/* Starts the newest release of CUDA 11 or later that the driver can run.  MR_OK without a handle
 * when this machine has none. */
mr_status mr_cublas_open(mr_ctx *ctx, mr_cublas *out, mr_cublas_handle **first);
/* Is it an answer of a device that does not know such products? */
bool mr_cublas_refuses(mr_cublas_result result);

/* MR_EDEVICE: "cuBLAS would not WHAT (error 13)"; MR_OK for success. */
mr_status mr_cublas_check(mr_ctx *ctx, mr_cublas_result result, const char *what);

#endif
