/* streams -- work that waits in line, and events between the lines.
 *
 * Nothing runs before somebody waits for it.  What one stream has to wait for in another runs
 * first; beyond that the newest stream runs first, or the oldest, as the settings say.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_cuda.h"

typedef enum kind { LAUNCH, WORK, COPY, RECORD, WAIT } kind;

typedef struct task {
    kind kind;
    fake_kernel *work; /* LAUNCH, WORK */
    void *arguments;
    void *to; /* COPY */
    const void *from;
    uint64_t bytes;
    mr_cuda_pointer on_device; /* COPY: which of its ends is there, */
    const void *host;          /* and which is not */
    mr_cuda_event *event;      /* RECORD, WAIT */
    uint64_t until; /* WAIT: tasks of the other stream that come first; RECORD: own */
    struct mr_cuda_stream *other;
    struct task *next;
} task;

struct mr_cuda_stream {
    task *first, **last;
    uint64_t issued, done;
    int device;
    uint32_t number;
    struct mr_cuda_stream *next;
};

struct mr_cuda_event {
    struct mr_cuda_stream *stream;
    uint64_t until;
    double ms;
    int device;
    bool recorded, untimed, completed;
    struct mr_cuda_event *next;
};

static struct {
    struct mr_cuda_stream *streams; /* newest first */
    struct mr_cuda_event *events;
    uint32_t made; /* streams */
    uint64_t launches;
    mr_cuda_result sticky[FAKE_CUDA_DEVICES]; /* what went wrong there stays */
} lines;

/* ---- running ----------------------------------------------------------------------------- */

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void illegal(int device)
{
    fake_wrong("work on memory that may not be touched");
    lines.sticky[device] = FAKE_CUDA_ILLEGAL;
}

static void run_until(struct mr_cuda_stream *stream, uint64_t until);

/* Large models need not be copied whole when only some words of them are looked at. */
static void copy(char *to, const char *from, uint64_t bytes)
{
    enum { WORD = 16 };
    const uint64_t stride = fake_cuda_settings()->stride, whole = bytes / WORD * WORD;
    if (stride <= 1) memcpy(to, from, bytes);
    for (uint64_t i = 0; stride > 1 && i < whole; i += stride * WORD)
        memcpy(to + i, from + i, WORD);
    if (stride > 1) memcpy(to + whole, from + whole, bytes - whole);
}

static void run(int device, task *t)
{
    switch (t->kind) {
    case WORK:
        if (!lines.sticky[device] && !t->work(device, t->arguments)) illegal(device);
        break;
    case LAUNCH:
        if (!lines.sticky[device] && !t->work(device, t->arguments)) illegal(device);
        if (++lines.launches == fake_cuda_settings()->corrupt) fake_corrupt(0);
        break;
    case COPY:
        if (lines.sticky[device]) break;
        if (!fake_may_touch(device, t->on_device, t->bytes)
            || !fake_is_pinned(t->host, t->bytes))
            illegal(device);
        else if (!fake_cuda_settings()->idle) copy(t->to, t->from, t->bytes);
        break;
    case RECORD:
        if (t->event->until != t->until) break;
        t->event->ms = now_ms();
        t->event->completed = true;
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
        run(stream->device, t);
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

static struct mr_cuda_event *known_event(struct mr_cuda_event *event)
{
    struct mr_cuda_event *e = lines.events;
    while (e && e != event) e = e->next;
    if (!e) fake_wrong("an event that nobody has");
    return e;
}

static mr_cuda_result issue(struct mr_cuda_stream *stream, task t)
{
    if (!known(stream)) {
        free(t.arguments);
        return MR_CUDA_INVALID;
    }
    if (stream->device != fake_device())
        fake_wrong("work for a stream of another device than the current context's");
    task *own = malloc(sizeof *own);
    *own = t;
    own->next = NULL;
    if (!stream->first) stream->last = &stream->first;
    *stream->last = own;
    stream->last = &own->next;
    stream->issued++;
    return lines.sticky[stream->device];
}

mr_cuda_result fake_launch(mr_cuda_stream *stream, fake_kernel *kernel, void *arguments)
{
    return issue(stream, (task){.kind = LAUNCH, .work = kernel, .arguments = arguments});
}

mr_cuda_result fake_copy(mr_cuda_stream *stream, void *to, const void *from, uint64_t bytes,
                         bool out)
{
    const void *there = out ? from : to;
    return issue(stream, (task){.kind = COPY,
                                .to = to,
                                .from = from,
                                .bytes = bytes,
                                .on_device = (mr_cuda_pointer)there,
                                .host = out ? to : from});
}

mr_cuda_result fake_sticky(void)
{
    return fake_device() < 0 ? 0 : lines.sticky[fake_device()];
}

void fake_heal(int device)
{
    lines.sticky[device] = 0;
}

mr_cuda_result fake_issue(mr_cuda_stream *stream, fake_kernel *work, const void *arguments,
                          size_t bytes)
{
    task t = {.kind = WORK, .work = work, .arguments = malloc(bytes)};
    memcpy(t.arguments, arguments, bytes);
    return issue(stream, t);
}

uint64_t fake_issued(const mr_cuda_stream *stream)
{
    return stream->issued;
}

uint32_t fake_number(const mr_cuda_stream *stream)
{
    return stream->number;
}

mr_cuda_result fake_wait_for(mr_cuda_stream *stream, mr_cuda_stream *other, uint64_t until)
{
    return issue(stream, (task){.kind = WAIT, .other = other, .until = until});
}

void fake_streams_forget(void)
{
    while (lines.events) {
        struct mr_cuda_event *e = lines.events;
        lines.events = e->next;
        free(e);
    }
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
    lines.launches = lines.made = 0;
    memset(lines.sticky, 0, sizeof lines.sticky);
}

/* ---- streams and events ------------------------------------------------------------------ */

mr_cuda_result cuCtxSynchronize(void);
mr_cuda_result cuCtxSynchronize(void)
{
    FAKE_CALL failed = fake_begin(__func__);
    fake_finish_all();
    return failed ? failed : fake_sticky();
}

mr_cuda_result cuStreamCreate(mr_cuda_stream **stream, unsigned flags);
mr_cuda_result cuStreamCreate(mr_cuda_stream **stream, unsigned flags)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (flags != MR_CUDA_OF_ITS_OWN)
        return fake_wrong("a stream that waits for the default one");
    *stream = calloc(1, sizeof **stream);
    (*stream)->device = fake_device();
    (*stream)->number = ++lines.made;
    (*stream)->next = lines.streams;
    lines.streams = *stream;
    fake_hold(1);
    return 0;
}

mr_cuda_result cuStreamDestroy_v2(mr_cuda_stream *stream);
mr_cuda_result cuStreamDestroy_v2(mr_cuda_stream *stream)
{
    FAKE_CALL failed = fake_begin("cuStreamDestroy");
    if (!known(stream)) return MR_CUDA_INVALID;
    fake_finish_all(); /* others may wait for it */
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
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    *event = calloc(1, sizeof **event);
    if (flags & ~(unsigned)MR_CUDA_UNTIMED) return fake_wrong("an event with flags %u", flags);
    (*event)->untimed = flags & MR_CUDA_UNTIMED;
    (*event)->device = fake_device();
    (*event)->next = lines.events;
    lines.events = *event;
    fake_hold(1);
    return 0;
}

mr_cuda_result cuEventDestroy_v2(mr_cuda_event *event);
mr_cuda_result cuEventDestroy_v2(mr_cuda_event *event)
{
    FAKE_CALL failed = fake_begin("cuEventDestroy");
    if (!known_event(event)) return MR_CUDA_INVALID;
    fake_finish_all(); /* tasks may point to it */
    for (struct mr_cuda_event **e = &lines.events; *e; e = &(*e)->next) {
        if (*e != event) continue;
        *e = event->next;
        break;
    }
    free(event);
    fake_hold(-1);
    return failed;
}

mr_cuda_result cuEventRecord(mr_cuda_event *event, mr_cuda_stream *stream);
mr_cuda_result cuEventRecord(mr_cuda_event *event, mr_cuda_stream *stream)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!known(stream) || !known_event(event)) return MR_CUDA_INVALID;
    if (event->device != stream->device)
        return fake_wrong("an event of one device is recorded by another");
    event->stream = stream;
    event->until = stream->issued + 1;
    event->recorded = true;
    event->completed = false;
    return issue(stream, (task){.kind = RECORD, .event = event, .until = event->until});
}

mr_cuda_result cuStreamWaitEvent(mr_cuda_stream *stream, mr_cuda_event *event, unsigned flags);
mr_cuda_result cuStreamWaitEvent(mr_cuda_stream *stream, mr_cuda_event *event, unsigned flags)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!known_event(event)) return MR_CUDA_INVALID;
    if (flags || !event->recorded)
        return fake_wrong("a stream waits for an event without a past");
    return issue(
        stream,
        (task){.kind = WAIT, .event = event, .other = event->stream, .until = event->until});
}

mr_cuda_result cuEventElapsedTime(float *ms, mr_cuda_event *from, mr_cuda_event *to);
mr_cuda_result cuEventElapsedTime(float *ms, mr_cuda_event *from, mr_cuda_event *to)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!known_event(from) || !known_event(to)) return MR_CUDA_INVALID;
    if (from->untimed || to->untimed || !from->recorded || !to->recorded)
        return fake_wrong("time between events that were not recorded, or without times");
    if (!from->completed || !to->completed) return FAKE_CUDA_NOT_YET;
    *ms = (float)(to->ms - from->ms);
    return 0;
}
