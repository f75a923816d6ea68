/* fake_blas.c -- libfakeblas.so: cuBLAS and cuBLASLt that multiply nothing.
 *
 * Preloaded, its names come before those of the real libraries, which need a GPU as soon as a
 * handle is made. Workspaces are PyTorch's own: it takes them from its allocator by the size it
 * is configured with, not by what the library asks for. What is not named here stays the real
 * function, which refuses to work without a GPU.
 */
#include "../fakecuda.h"

#include <string.h>

#define SUCCEEDS(name)                                                                         \
    FC_PUBLIC int name(void);                                                                  \
    int name(void)                                                                             \
    {                                                                                          \
        return 0;                                                                              \
    }
/* Handles and descriptors: not null, never looked at. */
#define MAKES(name)                                                                            \
    FC_PUBLIC int name(const void **out);                                                      \
    int name(const void **out)                                                                 \
    {                                                                                          \
        *out = (const void *)1;                                                                \
        return 0;                                                                              \
    }

/* ---- cuBLAS ------------------------------------------------------------------- */
MAKES(cublasCreate_v2)
SUCCEEDS(cublasDestroy_v2)
SUCCEEDS(cublasSetStream_v2)
SUCCEEDS(cublasSetWorkspace_v2)
SUCCEEDS(cublasSetMathMode)
SUCCEEDS(cublasSetPointerMode_v2)
SUCCEEDS(cublasSetSmCountTarget)
SUCCEEDS(cublasGemmEx)
SUCCEEDS(cublasGemmStridedBatchedEx)
SUCCEEDS(cublasSgemmEx)
SUCCEEDS(cublasSgemm_v2)
SUCCEEDS(cublasDgemm_v2)
SUCCEEDS(cublasSgemmStridedBatched)
SUCCEEDS(cublasDgemmStridedBatched)
SUCCEEDS(cublasSgemmBatched)
SUCCEEDS(cublasDgemmBatched)
SUCCEEDS(cublasSgemv_v2)
SUCCEEDS(cublasDgemv_v2)
SUCCEEDS(cublasSdot_v2)
SUCCEEDS(cublasDdot_v2)
SUCCEEDS(cublasDotEx)

static int zero(int *mode)
{
    *mode = 0;
    return 0;
}
FC_PUBLIC int cublasGetMathMode(void *handle, int *mode);
int cublasGetMathMode(void *handle, int *mode)
{
    (void)handle;
    return zero(mode);
}
FC_PUBLIC int cublasGetPointerMode_v2(void *handle, int *mode);
int cublasGetPointerMode_v2(void *handle, int *mode)
{
    (void)handle;
    return zero(mode);
}

/* ---- cuBLASLt ----------------------------------------------------------------- */
MAKES(cublasLtCreate)
MAKES(cublasLtMatmulDescCreate)
MAKES(cublasLtMatmulPreferenceCreate)
MAKES(cublasLtMatrixLayoutCreate)
SUCCEEDS(cublasLtDestroy)
SUCCEEDS(cublasLtMatmulDescDestroy)
SUCCEEDS(cublasLtMatmulDescSetAttribute)
SUCCEEDS(cublasLtMatmulPreferenceDestroy)
SUCCEEDS(cublasLtMatmulPreferenceSetAttribute)
SUCCEEDS(cublasLtMatrixLayoutDestroy)
SUCCEEDS(cublasLtMatrixLayoutSetAttribute)
SUCCEEDS(cublasLtMatmul)

/* cublasLtMatmulHeuristicResult_t: an algorithm of 64 bytes, its workspace, a status, ... */
typedef struct heuristic {
    uint64_t algorithm[8];
    size_t workspace;
    int status;
    float waves;
    int reserved[4];
} heuristic;
FC_PUBLIC int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b,
                                             void *c, void *d, void *preference, int wanted,
                                             heuristic *results, int *found);
int cublasLtMatmulAlgoGetHeuristic(void *handle, void *operation, void *a, void *b, void *c,
                                   void *d, void *preference, int wanted, heuristic *results,
                                   int *found)
{
    (void)handle, (void)operation, (void)a, (void)b, (void)c, (void)d, (void)preference;
    *found = wanted > 0;
    if (wanted > 0) memset(results, 0, sizeof *results);
    return 0;
}
