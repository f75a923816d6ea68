/* fake_cublas -- a cuBLAS that multiplies nothing and looks at what it is given.
 *
 * Its calls count as calls of the driver (fake_cuda.h), so they fail where those are to fail.
 * Sizes, leading dimensions and memory are looked at as the library's manual demands them; and
 * it has to be given memory to work in, for its own would come in the midst of a measurement.
 * FAKE_CUBLAS_REFUSES is a type of numbers that the device does not multiply.
 */
#include <stdlib.h>

#include "cublas.h"
#include "fake_cuda.h"

enum { MOST = 16, INVALID = 7, NOT_STARTED = 1 };

struct mr_cublas_handle {
    bool open;
    int device;
    mr_cuda_stream *stream;
    bool roomy; /* it has memory to work in, on that stream */
};

static mr_cublas_handle handles[MOST];

static uint64_t bytes_of(int type)
{
    switch (type) {
    case MR_CUBLAS_FLOAT32: return 4;
    case MR_CUBLAS_FLOAT64: return 8;
    case MR_CUBLAS_FLOAT16:
    case MR_CUBLAS_BFLOAT16: return 2;
    default: return 0;
    }
}

mr_cublas_result cublasCreate_v2(mr_cublas_handle **handle)
{
    FAKE_CALL result = fake_begin("cublasCreate_v2");
    if (result) return result;
    for (int i = 0; i < MOST; i++) {
        if (handles[i].open) continue;
        handles[i] = (struct mr_cublas_handle){.open = true, .device = fake_device()};
        fake_hold(1);
        *handle = &handles[i];
        return 0;
    }
    return NOT_STARTED;
}

mr_cublas_result cublasDestroy_v2(mr_cublas_handle *handle)
{
    FAKE_CALL result = fake_begin("cublasDestroy_v2");
    if (!handle->open) return fake_wrong("a cuBLAS handle is ended twice");
    handle->open = false;
    fake_hold(-1);
    return result;
}

mr_cublas_result cublasSetStream_v2(mr_cublas_handle *handle, mr_cuda_stream *stream)
{
    FAKE_CALL result = fake_begin("cublasSetStream_v2");
    if (result) return result;
    if (!handle->open || !stream) return fake_wrong("cuBLAS is given no stream");
    handle->stream = stream;
    handle->roomy = false;
    return 0;
}

mr_cublas_result cublasSetWorkspace_v2(mr_cublas_handle *handle, void *at, size_t bytes)
{
    enum { ALIGNED = 256 };
    FAKE_CALL result = fake_begin("cublasSetWorkspace_v2");
    if (result) return result;
    if (!handle->open || (uint64_t)at % ALIGNED
        || !fake_may_touch(handle->device, (mr_cuda_pointer)at, bytes))
        return fake_wrong("cuBLAS is given memory to work in that is not there");
    handle->roomy = true;
    return 0;
}

static bool refuses(int type)
{
    const char *text = getenv("FAKE_CUBLAS_REFUSES");
    return text && atoi(text) == type;
}

/* Memory from the first number of the first matrix to the last of the last, column by column.
 */
typedef struct extent {
    mr_cuda_pointer at;
    uint64_t bytes;
} extent;

static extent extent_of(const void *at, int type, int rows, int columns, int lead,
                        long long step, int count)
{
    const uint64_t last = (uint64_t)(count - 1) * (uint64_t)step
                          + (uint64_t)(columns - 1) * (uint64_t)lead + (uint64_t)rows;
    return (extent){(mr_cuda_pointer)at, last * bytes_of(type)};
}

/* When its turn comes in the stream. */
static bool multiply(int device, const void *arguments)
{
    const extent *matrix = arguments;
    for (int i = 0; i < 3; i++)
        if (!fake_may_touch(device, matrix[i].at, matrix[i].bytes)) return false;
    return true;
}

mr_cublas_result cublasGemmStridedBatchedEx(mr_cublas_handle *handle, int turn_a, int turn_b,
                                            int rows, int columns, int terms, const void *alpha,
                                            const void *a, int type_a, int lead_a,
                                            long long step_a, const void *b, int type_b,
                                            int lead_b, long long step_b, const void *beta,
                                            void *c, int type_c, int lead_c, long long step_c,
                                            int count, int sums_in, int algorithm)
{
    FAKE_CALL result = fake_begin("cublasGemmStridedBatchedEx");
    if (result) return result;
    if (!handle || !handle->open || !alpha || !beta || algorithm != MR_CUBLAS_ANY)
        return fake_wrong("cuBLAS is given no handle or no factors");
    if (rows < 1 || columns < 1 || terms < 1 || count < 1)
        return fake_wrong("cuBLAS is given a product of nothing");
    if (type_a != type_b || type_a != type_c || !bytes_of(type_a)
        || (sums_in == MR_CUBLAS_IN_FP64) != (type_a == MR_CUBLAS_FLOAT64)
        || (sums_in == MR_CUBLAS_IN_TF32 && type_a != MR_CUBLAS_FLOAT32))
        return fake_wrong("cuBLAS has no product of types %d and %d in %d", type_a, type_b,
                          sums_in);
    if (turn_a || turn_b) return fake_wrong("no matrix was to be turned");
    if (lead_a < rows || lead_b < terms || lead_c < rows)
        return fake_wrong("leading dimensions %d, %d, %d of %d x %d x %d", lead_a, lead_b,
                          lead_c, rows, terms, columns);
    if ((uint64_t)a % bytes_of(type_a) || (uint64_t)b % bytes_of(type_a)
        || (uint64_t)c % bytes_of(type_a))
        return fake_wrong("cuBLAS is given matrices that are not aligned to their numbers");
    if (refuses(type_a)) return MR_CUBLAS_CANNOT;
    if (!handle->roomy) return fake_wrong("cuBLAS has no memory to work in");
    if (!handle->stream || handle->device != fake_device())
        return fake_wrong("a cuBLAS handle without a stream, or of another device");
    const extent matrices[] = {extent_of(a, type_a, rows, terms, lead_a, step_a, count),
                               extent_of(b, type_b, terms, columns, lead_b, step_b, count),
                               extent_of(c, type_c, rows, columns, lead_c, step_c, count)};
    return fake_issue(handle->stream, multiply, matrices, sizeof matrices);
}
