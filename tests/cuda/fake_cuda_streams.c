/* streams -- work that waits in line, events between the lines, copies and launches.
 *
 * Nothing runs before somebody waits for it.  What one stream has to wait for in another runs
 * first; beyond that the newest stream runs first, or the oldest, as the settings say.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_cuda.h"

enum { ARGUMENTS = 4096 };

typedef enum kind { LAUNCH, COPY, RECORD, WAIT } kind;

typedef struct task {
    kind kind;
    const fake_kernel_entry *kernel;
    void *arguments;    /* LAUNCH */
    void *to;           /* COPY */
    const void *from;
    uint64_t bytes;
    mr_cuda_pointer on_device; /* COPY: which of its ends is there */
    mr_cuda_event *event;      /* RECORD, WAIT */
    uint64_t until; /* WAIT: tasks of the other stream that come first; RECORD: own */
    struct mr_cuda_stream *other;
    struct task *next;
} task;

struct mr_cuda_stream {
    task *first, **last;
    uint64_t issued, done;
    struct mr_cuda_stream *next;
};

struct mr_cuda_event {
    struct mr_cuda_stream *stream;
    uint64_t until;
    double ms;
    bool recorded, untimed;
};

static struct {
    struct mr_cuda_stream *streams; /* newest first */
    uint64_t launches;
    mr_cuda_result sticky; /* what went wrong on the device stays */
} lines;

/* ---- running ----------------------------------------------------------------------------- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void illegal(void)
{
    fake_wrong("work on memory that may not be touched");
    lines.sticky = FAKE_CUDA_ILLEGAL;
}

static void run_until(struct mr_cuda_stream *stream, uint64_t until);

static void run(task *t)
{
    switch (t->kind) {
    case LAUNCH:
        if (!lines.sticky && !t->kernel->run(t->arguments)) illegal();
        if (++lines.launches == fake_cuda_settings()->corrupt) fake_corrupt(0);
        break;
    case COPY:
        if (lines.sticky) break;
        if (fake_may_touch(t->on_device, t->bytes)) memcpy(t->to, t->from, t->bytes);
        else illegal();
        break;
    case RECORD:
        if (t->event->until == t->until) t->event->ms = now_ms();
        break;
    case WAIT: run_until(t->other, t->until); break;
    }
}

static void run_until(struct mr_cuda_stream *stream, uint64_t until)
{
    while (stream->done < until) {
        task *t = stream->first;
        stream->first = t->next;
        if (!stream->first) stream->last = &stream->first;
        stream->done++;
        run(t);
        free(t->arguments);
        free(t);
    }
}

static void run_from(struct mr_cuda_stream *stream, bool oldest_first)
{
    if (!stream) return;
    if (oldest_first) run_from(stream->next, oldest_first);
    run_until(stream, stream->issued);
    if (!oldest_first) run_from(stream->next, oldest_first);
}

void fake_finish_all(void)
{
    run_from(lines.streams, fake_cuda_settings()->order != 0);
}

static struct mr_cuda_stream *known(struct mr_cuda_stream *stream)
{
    struct mr_cuda_stream *s = lines.streams;
    while (s && s != stream) s = s->next;
    if (!s) fake_wrong("work for a stream that nobody has");
    return s;
}

static mr_cuda_result issue(struct mr_cuda_stream *stream, task t)
{
    if (!known(stream)) {
        free(t.arguments);
        return MR_CUDA_INVALID;
    }
    task *own = malloc(sizeof *own);
    *own = t;
    own->next = NULL;
    if (!stream->first) stream->last = &stream->first;
    *stream->last = own;
    stream->last = &own->next;
    stream->issued++;
    return lines.sticky;
}

void fake_streams_forget(void)
{
    while (lines.streams) {
        struct mr_cuda_stream *s = lines.streams;
        lines.streams = s->next;
        while (s->first) {
            task *t = s->first;
            s->first = t->next;
            free(t->arguments);
            free(t);
        }
        free(s);
    }
    lines.launches = 0;
    lines.sticky = 0;
}

/* ---- streams and events ------------------------------------------------------------------ */

mr_cuda_result cuCtxSynchronize(void);
mr_cuda_result cuCtxSynchronize(void)
{
    const mr_cuda_result failed = fake_begin(__func__);
    fake_finish_all();
    return failed ? failed : lines.sticky;
}

mr_cuda_result cuStreamCreate(mr_cuda_stream **stream, unsigned flags);
mr_cuda_result cuStreamCreate(mr_cuda_stream **stream, unsigned flags)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    if (flags != MR_CUDA_OF_ITS_OWN)
        return fake_wrong("a stream that waits for the default one");
    *stream = calloc(1, sizeof **stream);
    (*stream)->next = lines.streams;
    lines.streams = *stream;
    fake_hold(1);
    return 0;
}

mr_cuda_result cuStreamDestroy_v2(mr_cuda_stream *stream);
mr_cuda_result cuStreamDestroy_v2(mr_cuda_stream *stream)
{
    const mr_cuda_result failed = fake_begin("cuStreamDestroy");
    if (!known(stream)) return MR_CUDA_INVALID;
    run_until(stream, stream->issued);
    for (struct mr_cuda_stream **s = &lines.streams; *s; s = &(*s)->next) {
        if (*s != stream) continue;
        *s = stream->next;
        break;
    }
    free(stream);
    fake_hold(-1);
    return failed;
}

mr_cuda_result cuEventCreate(mr_cuda_event **event, unsigned flags);
mr_cuda_result cuEventCreate(mr_cuda_event **event, unsigned flags)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    *event = calloc(1, sizeof **event);
    (*event)->untimed = flags & MR_CUDA_UNTIMED;
    fake_hold(1);
    return 0;
}

mr_cuda_result cuEventDestroy_v2(mr_cuda_event *event);
mr_cuda_result cuEventDestroy_v2(mr_cuda_event *event)
{
    const mr_cuda_result failed = fake_begin("cuEventDestroy");
    fake_finish_all(); /* tasks may point to it */
    free(event);
    fake_hold(-1);
    return failed;
}

mr_cuda_result cuEventRecord(mr_cuda_event *event, mr_cuda_stream *stream);
mr_cuda_result cuEventRecord(mr_cuda_event *event, mr_cuda_stream *stream)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    if (!known(stream)) return MR_CUDA_INVALID;
    event->stream = stream;
    event->until = stream->issued + 1;
    event->recorded = true;
    return issue(stream, (task){.kind = RECORD, .event = event, .until = event->until});
}

mr_cuda_result cuStreamWaitEvent(mr_cuda_stream *stream, mr_cuda_event *event, unsigned flags);
mr_cuda_result cuStreamWaitEvent(mr_cuda_stream *stream, mr_cuda_event *event, unsigned flags)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    if (flags || !event->recorded)
        return fake_wrong("a stream waits for an event without a past");
    return issue(
        stream,
        (task){.kind = WAIT, .event = event, .other = event->stream, .until = event->until});
}

mr_cuda_result cuEventElapsedTime(float *ms, mr_cuda_event *from, mr_cuda_event *to);
mr_cuda_result cuEventElapsedTime(float *ms, mr_cuda_event *from, mr_cuda_event *to)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    if (from->untimed || to->untimed || !from->recorded || !to->recorded)
        return fake_wrong("time between events that were not recorded, or without times");
    *ms = (float)(to->ms - from->ms);
    return 0;
}

/* ---- copies ------------------------------------------------------------------------------ */

mr_cuda_result cuMemHostAlloc(void **at, size_t bytes, unsigned flags);
mr_cuda_result cuMemHostAlloc(void **at, size_t bytes, unsigned flags)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    if (!bytes || flags) return fake_wrong("cuMemHostAlloc of %zu bytes", bytes);
    *at = malloc(bytes);
    fake_hold(1);
    return 0;
}

mr_cuda_result cuMemFreeHost(void *at);
mr_cuda_result cuMemFreeHost(void *at)
{
    const mr_cuda_result failed = fake_begin(__func__);
    fake_finish_all();
    free(at);
    fake_hold(-1);
    return failed;
}

mr_cuda_result cuMemsetD8_v2(mr_cuda_pointer at, unsigned char byte, size_t n);
mr_cuda_result cuMemsetD8_v2(mr_cuda_pointer at, unsigned char byte, size_t n)
{
    const mr_cuda_result failed = fake_begin("cuMemsetD8");
    if (failed) return failed;
    if (!fake_may_touch(at, n)) return fake_wrong("cuMemsetD8 outside of memory");
    memset((void *)at, byte, n);
    return lines.sticky;
}

/* Of the default stream, for which no other waits: the caller has waited for the device. */
mr_cuda_result cuMemcpyDtoH_v2(void *to, mr_cuda_pointer from, size_t bytes);
mr_cuda_result cuMemcpyDtoH_v2(void *to, mr_cuda_pointer from, size_t bytes)
{
    const mr_cuda_result failed = fake_begin("cuMemcpyDtoH");
    if (failed) return failed;
    if (!fake_may_touch(from, bytes)) return fake_wrong("cuMemcpyDtoH outside of memory");
    memcpy(to, (const void *)from, bytes);
    return lines.sticky;
}

mr_cuda_result cuMemcpyDtoHAsync_v2(void *to, mr_cuda_pointer from, size_t bytes,
                                    mr_cuda_stream *stream);
mr_cuda_result cuMemcpyDtoHAsync_v2(void *to, mr_cuda_pointer from, size_t bytes,
                                    mr_cuda_stream *stream)
{
    const mr_cuda_result failed = fake_begin("cuMemcpyDtoHAsync");
    if (failed) return failed;
    return issue(stream, (task){.kind = COPY,
                                .to = to,
                                .from = (const void *)from,
                                .bytes = bytes,
                                .on_device = from});
}

mr_cuda_result cuMemcpyHtoDAsync_v2(mr_cuda_pointer to, const void *from, size_t bytes,
                                    mr_cuda_stream *stream);
mr_cuda_result cuMemcpyHtoDAsync_v2(mr_cuda_pointer to, const void *from, size_t bytes,
                                    mr_cuda_stream *stream)
{
    const mr_cuda_result failed = fake_begin("cuMemcpyHtoDAsync");
    if (failed) return failed;
    return issue(stream, (task){.kind = COPY,
                                .to = (void *)to,
                                .from = from,
                                .bytes = bytes,
                                .on_device = to});
}

/* ---- modules and launches ---------------------------------------------------------------- */

mr_cuda_result cuModuleLoadData(mr_cuda_module **module, const void *image);
mr_cuda_result cuModuleLoadData(mr_cuda_module **module, const void *image)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    if (!image) return fake_wrong("cuModuleLoadData of nothing");
    *module = malloc(1);
    fake_hold(1);
    return 0;
}

mr_cuda_result cuModuleUnload(mr_cuda_module *module);
mr_cuda_result cuModuleUnload(mr_cuda_module *module)
{
    const mr_cuda_result failed = fake_begin(__func__);
    free(module);
    fake_hold(-1);
    return failed;
}

mr_cuda_result cuModuleGetFunction(mr_cuda_function **function, mr_cuda_module *module,
                                   const char *name);
mr_cuda_result cuModuleGetFunction(mr_cuda_function **function, mr_cuda_module *module,
                                   const char *name)
{
    (void)module;
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    const fake_kernel_entry *found = fake_kernel_find(name);
    memcpy(function, &found, sizeof found);
    return found ? 0 : FAKE_CUDA_NOT_FOUND;
}

mr_cuda_result cuLaunchKernel(mr_cuda_function *function, unsigned x, unsigned y, unsigned z,
                              unsigned threads_x, unsigned threads_y, unsigned threads_z,
                              unsigned shared, mr_cuda_stream *stream, void **arguments,
                              void **extra);
mr_cuda_result cuLaunchKernel(mr_cuda_function *function, unsigned x, unsigned y, unsigned z,
                              unsigned threads_x, unsigned threads_y, unsigned threads_z,
                              unsigned shared, mr_cuda_stream *stream, void **arguments,
                              void **extra)
{
    const mr_cuda_result failed = fake_begin(__func__);
    if (failed) return failed;
    const unsigned threads = threads_x * threads_y * threads_z;
    if (!x || !y || y > 65535 || !z || !threads || threads > 1024 || shared || extra)
        return fake_wrong("a launch of %u x %u blocks of %u threads", x, y, threads);
    const fake_kernel_entry *kernel;
    memcpy(&kernel, &function, sizeof kernel);
    task t = {.kind = LAUNCH, .kernel = kernel, .arguments = calloc(1, kernel->bytes)};
    char *at = t.arguments;
    for (size_t i = 0; i < MR_COUNT(kernel->sizes) && kernel->sizes[i]; i++) {
        memcpy(at, arguments[i], kernel->sizes[i]);
        at += (kernel->sizes[i] + 7) / 8 * 8;
    }
    return issue(stream, t);
}
