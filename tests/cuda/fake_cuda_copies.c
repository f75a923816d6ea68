/* copies -- memory of the host that a device may read, and copies from one to the other. */
#include <stdlib.h>
#include <string.h>

#include "fake_cuda.h"

typedef struct pinned {
    char *at;
    uint64_t bytes;
    struct pinned *next;
} pinned;

static pinned *host;

/* ---- memory of the host ------------------------------------------------------------------ */

mr_cuda_result cuMemHostAlloc(void **at, size_t bytes, unsigned flags);
mr_cuda_result cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!bytes || flags) return fake_wrong("cuMemHostAlloc of %zu bytes", bytes);
    pinned *own = malloc(sizeof *own);
    *own = (pinned){malloc(bytes), bytes, host};
    host = own;
    *at = own->at;
    fake_hold(1);
    return 0;
}

bool fake_is_pinned(const void *at, uint64_t bytes)
{
    const char *begin = at;
    for (const pinned *p = host; p; p = p->next)
        if (begin >= p->at && begin + bytes <= p->at + p->bytes) return true;
    return false;
}

mr_cuda_result cuMemFreeHost(void *at);
mr_cuda_result cuMemFreeHost(void *at)
{
    FAKE_CALL failed = fake_begin(__func__);
    fake_finish_all();
    for (pinned **p = &host; *p; p = &(*p)->next) {
        if ((*p)->at != at) continue;
        pinned *gone = *p;
        *p = gone->next;
        free(gone->at);
        free(gone);
        fake_hold(-1);
        return failed;
    }
    return fake_wrong("host memory is given back that nobody has");
}

void fake_host_forget(void)
{
    while (host) {
        pinned *p = host;
        host = p->next;
        free(p->at);
        free(p);
    }
}

/* ---- copies ------------------------------------------------------------------------------ */

mr_cuda_result cuMemsetD8_v2(mr_cuda_pointer at, unsigned char byte, size_t n);
mr_cuda_result cuMemsetD8_v2(mr_cuda_pointer at, unsigned char byte, size_t n)
{
    FAKE_CALL failed = fake_begin("cuMemsetD8");
    if (failed) return failed;
    if (!fake_may_touch(fake_device(), at, n))
        return fake_wrong("cuMemsetD8 outside of memory");
    if (!fake_cuda_settings()->idle) memset((void *)at, byte, n);
    return fake_sticky();
}

/* Of the default stream, for which no other waits: the caller has waited for the device. */
mr_cuda_result cuMemcpyDtoH_v2(void *to, mr_cuda_pointer from, size_t bytes);
mr_cuda_result cuMemcpyDtoH_v2(void *to, mr_cuda_pointer from, size_t bytes)
{
    FAKE_CALL failed = fake_begin("cuMemcpyDtoH");
    if (failed) return failed;
    if (!fake_may_touch(fake_device(), from, bytes))
        return fake_wrong("cuMemcpyDtoH outside of memory");
    memcpy(to, (const void *)from, bytes);
    return fake_sticky();
}

mr_cuda_result cuMemcpyDtoHAsync_v2(void *to, mr_cuda_pointer from, size_t bytes,
                                    mr_cuda_stream *stream);
mr_cuda_result cuMemcpyDtoHAsync_v2(void *to, mr_cuda_pointer from, size_t bytes,
                                    mr_cuda_stream *stream)
{
    FAKE_CALL failed = fake_begin("cuMemcpyDtoHAsync");
    if (failed) return failed;
    return fake_copy(stream, to, (const void *)from, bytes, true);
}

mr_cuda_result cuMemcpyHtoDAsync_v2(mr_cuda_pointer to, const void *from, size_t bytes,
                                    mr_cuda_stream *stream);
mr_cuda_result cuMemcpyHtoDAsync_v2(mr_cuda_pointer to, const void *from, size_t bytes,
                                    mr_cuda_stream *stream)
{
    FAKE_CALL failed = fake_begin("cuMemcpyHtoDAsync");
    if (failed) return failed;
    return fake_copy(stream, (void *)to, from, bytes, false);
}
