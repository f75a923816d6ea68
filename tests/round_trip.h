/* round_trip.h -- is a trace the same when it was written and read again, field by field? */
#ifndef ROUND_TRIP_H
#define ROUND_TRIP_H

#include "trace_csv.h"

#include <stdio.h>
#include <unistd.h>

#include "test.h"


#include "test.h"

/* ---- are two traces the same? ------------------------------------------------------------ */

#define SAME(a, b) \
    if ((a) != (b)) return #a
#define SAME_TEXT(a, b) \
    if (strcmp((a), (b)) != 0) return #a
#define SAME_LIST(a, b)                                                            \
    if ((a).n != (b).n || ((a).n && memcmp((a).at, (b).at, (a).n * sizeof *(a).at) != 0)) \
    return #a
#define EACH(vec) for (uint32_t i = 0; i < a->vec.n; i++)

static inline const char *storages_differ(const mr_trace *a, const mr_trace *b)
{
    SAME(a->storages.n, b->storages.n);
    EACH(storages)
    {
        const mr_storage *x = &a->storages.at[i], *y = &b->storages.at[i];
        SAME(x->bytes, y->bytes);
        SAME(x->per_sample, y->per_sample);
        SAME(x->stream, y->stream);
        SAME(x->pool, y->pool);
        SAME(x->stack, y->stack);
        SAME(x->device, y->device);
        SAME(x->role, y->role);
        SAME(x->before, y->before);
        SAME(x->after, y->after);
        SAME(x->deferred, y->deferred);
        SAME(x->refused, y->refused);
    }
    return NULL;
}

static inline const char *tensors_differ(const mr_trace *a, const mr_trace *b)
{
    SAME(a->tensors.n, b->tensors.n);
    EACH(tensors)
    {
        const mr_tensor *x = &a->tensors.at[i], *y = &b->tensors.at[i];
        SAME_TEXT(x->name, y->name);
        SAME_TEXT(x->dtype, y->dtype);
        SAME(x->storage, y->storage);
        SAME(x->rank, y->rank);
        if (x->rank && memcmp(x->shape, y->shape, x->rank * sizeof *x->shape) != 0)
            return "shape";
        SAME(x->offset, y->offset);
        SAME(x->bytes, y->bytes);
        SAME(x->role, y->role);
    }
    return NULL;
}

static inline const char *ops_differ(const mr_trace *a, const mr_trace *b)
{
    SAME(a->ops.n, b->ops.n);
    EACH(ops)
    {
        const mr_op *x = &a->ops.at[i], *y = &b->ops.at[i];
        SAME_TEXT(x->name, y->name);
        SAME_TEXT(x->module, y->module);
        SAME(x->call, y->call);
        SAME(x->stream, y->stream);
        SAME(x->phase, y->phase);
        SAME(x->random, y->random);
        SAME(x->again, y->again);
        SAME(x->of, y->of);
        SAME(x->engine, y->engine);
        SAME(x->ranks, y->ranks);
        SAME(x->ns, y->ns);
        SAME(x->flops, y->flops);
        SAME(x->flops_per_sample, y->flops_per_sample);
        SAME(x->read, y->read);
        SAME(x->written, y->written);
        SAME(x->workspace, y->workspace);
        SAME_LIST(x->in, y->in);
        SAME_LIST(x->out, y->out);
        SAME_LIST(x->mutates, y->mutates);
        SAME_LIST(x->saved, y->saved);
    }
    return NULL;
}

static inline const char *pieces_differ(const mr_pieces *a, const mr_pieces *b)
{
    SAME(a->n, b->n);
    for (uint32_t i = 0; i < a->n; i++) {
        SAME(a->at[i].segment, b->at[i].segment);
        SAME(a->at[i].storage, b->at[i].storage);
        SAME(a->at[i].offset, b->at[i].offset);
        SAME(a->at[i].bytes, b->at[i].bytes);
        SAME(a->at[i].pending, b->at[i].pending);
    }
    return NULL;
}

static inline const char *history_differs(const mr_history *a, const mr_history *b)
{
    SAME(a->device, b->device);
    SAME(a->held, b->held);
    SAME(a->capacity_low, b->capacity_low);
    SAME(a->capacity_high, b->capacity_high);
    SAME(a->wrapped, b->wrapped);
    SAME(a->segments.n, b->segments.n);
    EACH(segments)
    {
        SAME(a->segments.at[i].address, b->segments.at[i].address);
        SAME(a->segments.at[i].bytes, b->segments.at[i].bytes);
        SAME(a->segments.at[i].stream, b->segments.at[i].stream);
        SAME(a->segments.at[i].pool, b->segments.at[i].pool);
        SAME(a->segments.at[i].large, b->segments.at[i].large);
        SAME(a->segments.at[i].expandable, b->segments.at[i].expandable);
    }
    SAME(a->cmds.n, b->cmds.n);
    EACH(cmds)
    {
        SAME(a->cmds.at[i].kind, b->cmds.at[i].kind);
        SAME(a->cmds.at[i].id, b->cmds.at[i].id);
        SAME(a->cmds.at[i].block.segment, b->cmds.at[i].block.segment);
        SAME(a->cmds.at[i].block.handle, b->cmds.at[i].block.handle);
        SAME(a->cmds.at[i].block.offset, b->cmds.at[i].block.offset);
        SAME(a->cmds.at[i].block.bytes, b->cmds.at[i].block.bytes);
    }
    const char *start = pieces_differ(&a->start, &b->start);
    return start ? start : pieces_differ(&a->end, &b->end);
}

static inline const char *rest_differs(const mr_trace *a, const mr_trace *b)
{
    SAME(a->has, b->has);
    for (int f = 0; f < MR_ABOUT_N; f++) {
        SAME(!a->about[f], !b->about[f]);
        if (a->about[f]) SAME_TEXT(a->about[f], b->about[f]);
    }
    SAME(a->notes.n, b->notes.n);
    EACH(notes) SAME_TEXT(a->notes.at[i], b->notes.at[i]);
    SAME_LIST(a->streams, b->streams);
    SAME_LIST(a->pools, b->pools);
    SAME_LIST(a->events, b->events);
    SAME_LIST(a->times, b->times);
    SAME(a->marks.n, b->marks.n);
    EACH(marks)
    {
        SAME(a->marks.at[i].kind, b->marks.at[i].kind);
        SAME_TEXT(a->marks.at[i].name, b->marks.at[i].name);
    }
    SAME(a->frames.n, b->frames.n);
    EACH(frames)
    {
        SAME_TEXT(a->frames.at[i].file, b->frames.at[i].file);
        SAME_TEXT(a->frames.at[i].function, b->frames.at[i].function);
        SAME(a->frames.at[i].line, b->frames.at[i].line);
    }
    SAME(a->stacks.n, b->stacks.n);
    EACH(stacks) SAME_LIST(a->stacks.at[i], b->stacks.at[i]);
    SAME(a->histories.n, b->histories.n);
    EACH(histories)
    {
        const char *what = history_differs(&a->histories.at[i], &b->histories.at[i]);
        if (what) return what;
    }
    return NULL;
}

/* What differs first, NULL when nothing does. */
static inline const char *differ(const mr_trace *a, const mr_trace *b)
{
    const char *what = storages_differ(a, b);
    if (!what) what = tensors_differ(a, b);
    if (!what) what = ops_differ(a, b);
    return what ? what : rest_differs(a, b);
}

/* ---- round trips ------------------------------------------------------------------------- */

static inline mr_status read_text(mr_ctx *ctx, const char *text, mr_trace *out)
{
    mr_source *source;
    MR_TRY(mr_source_memory(ctx, "x.csv", text, strlen(text), &source));
    const mr_status status = mr_trace_csv_read(ctx, source, out);
    mr_source_close(source);
    return status ? status : mr_trace_check(ctx, out);
}

static inline const char *file_text(mr_ctx *ctx, const char *path)
{
    mr_source *source;
    if (mr_source_open(ctx, path, &source)) return "";
    char *text = MR_NEW_N(ctx, char, 64 * MR_MIB);
    size_t n = 0, have;
    for (const void *at; (at = mr_source_peek(source, 1, &have)) != NULL && have; n += have) {
        if (n + have >= 64 * MR_MIB) break;
        memcpy(text + n, at, have);
        mr_source_take(source, have);
    }
    mr_source_close(source);
    return text;
}

static inline const char *written(mr_ctx *ctx, const mr_trace *trace, const char *ending)
{
    const char *path = mr_printf(ctx, "test_trace_csv_%ld.csv%s", (long)getpid(), ending);
    mr_sink *sink;
    mr_status status = mr_sink_open(ctx, path, &sink);
    if (!status) status = mr_trace_csv_write(ctx, trace, sink);
    if (!status) status = mr_sink_commit(sink);
    if (status) TEST_FAIL("writing: %s", ctx->failure.text);
    const char *text = file_text(ctx, path);
    remove(path);
    return text;
}

static inline void round_trip(mr_ctx *ctx, const char *name, const mr_trace *trace)
{
    mr_trace again;
    const char *once = written(ctx, trace, "");
    if (read_text(ctx, once, &again)) {
        TEST_FAIL("%s: reading what was written: %s %s", name, ctx->failure.where,
                  ctx->failure.text);
        return;
    }
    const char *what = differ(trace, &again);
    if (what) TEST_FAIL("%s: %s differs after reading again", name, what);
    const char *twice = written(ctx, &again, "");
    if (strcmp(once, twice) != 0) TEST_FAIL("%s: written again it differs", name);
}
#endif
