/* snapshots.h -- memory snapshots of PyTorch written by hand, and what is read of them; shared
 * by tests of their reader.
 */
#ifndef SNAPSHOTS_H
#define SNAPSHOTS_H

#include "format.h"
#include "test.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern const mr_format mr_format_snapshot;

/* A snapshot while it is written, in protocol 0, which is text. */
typedef struct doc {
    char text[16384];
    size_t n;
} doc;

static inline void put(doc *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static inline void put(doc *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    d->n += (size_t)vsnprintf(d->text + d->n, sizeof d->text - d->n, format, args);
    va_end(args);
}

static inline void key(doc *d, const char *name, uint64_t value)
{
    put(d, "S'%s'\nI%" PRIu64 "\ns", name, value);
}

static inline void word(doc *d, const char *name, const char *value)
{
    put(d, "S'%s'\nS'%s'\ns", name, value);
}

/* Dict with the events of one device still open: events, then segments(), then blocks. */
static inline void begin(doc *d)
{
    d->n = 0;
    put(d, "(dS'device_traces'\n(l(l");
}

static inline void event(doc *d, const char *action, uint64_t address, uint64_t bytes)
{
    put(d, "(d");
    word(d, "action", action);
    key(d, strcmp(action, "oom") ? "addr" : "device_free", address);
    key(d, "size", bytes);
    key(d, "stream", 0);
    put(d, "a");
}

static inline void freed(doc *d, uint64_t address, uint64_t bytes)
{
    event(d, "free_requested", address, bytes);
    event(d, "free_completed", address, bytes);
}

static inline void next_device(doc *d)
{
    put(d, "a(l");
}

static inline void segments(doc *d)
{
    put(d, "asS'segments'\n(l");
}

static inline void segment_of(doc *d, uint32_t device, uint64_t address, uint64_t bytes,
                       bool expandable)
{
    put(d, "(d");
    key(d, "device", device);
    key(d, "address", address);
    key(d, "total_size", bytes);
    key(d, "stream", 0);
    word(d, "segment_type", bytes > 2 * MR_MIB ? "large" : "small");
    put(d, "S'is_expandable'\n%ssS'blocks'\n(l", expandable ? "I01\n" : "I00\n");
}

static inline void segment(doc *d, uint64_t address, uint64_t bytes)
{
    segment_of(d, 0, address, bytes, false);
}

static inline void block(doc *d, uint64_t address, uint64_t bytes, const char *state)
{
    put(d, "(d");
    key(d, "address", address);
    key(d, "size", bytes);
    word(d, "state", state);
    put(d, "a");
}

static inline void end_segment(doc *d)
{
    put(d, "sa");
}

static inline void end(doc *d)
{
    put(d, "s.");
}

/* A large block of 2 MiB dies; what is first taken behind it begins 512 KiB past its end. */
static inline void large_block(doc *d, uint64_t use)
{
    begin(d);
    event(d, "alloc", use, 0x200000);
    freed(d, 0x2000000, 0x200000);
    segments(d);
    segment(d, 0x2000000, 0x1400000);
    block(d, 0x2000000, use - 0x2000000, "inactive");
    block(d, use, 0x200000, "active_allocated");
    block(d, use + 0x200000, 0x3400000 - use - 0x200000, "inactive");
    end_segment(d);
    end(d);
}

static inline mr_status read_bytes(mr_ctx *ctx, const void *data, size_t n, mr_trace *trace)
{
    const mr_read_options options = {0};
    mr_source *source;
    MR_TRY(mr_source_memory(ctx, "file", data, n, &source));
    const mr_status status = mr_format_snapshot.read(ctx, source, &options, trace);
    mr_source_close(source);
    return status ? status : mr_trace_check(ctx, trace);
}

static inline const char *said(mr_ctx *ctx, const doc *d)
{
    mr_trace trace;
    if (!read_bytes(ctx, d->text, d->n, &trace)) return "no failure";
    return mr_printf(ctx, "%s: %s", ctx->failure.where, ctx->failure.text);
}

/* Reads what must be right. */
static inline const mr_history *reads(mr_ctx *ctx, const doc *d, mr_trace *trace)
{
    static const mr_history none;
    const mr_status status = read_bytes(ctx, d->text, d->n, trace);
    if (status) TEST_FAIL("%s: %s", ctx->failure.where, ctx->failure.text);
    return status || !trace->histories.n ? &none : &trace->histories.at[0];
}

/* Events as text: + alloc, - free, ~ done, * flush, # mark; a storage that was refused is !. */
static inline const char *events(mr_ctx *ctx, const mr_trace *trace)
{
    const char *text = "";
    for (uint32_t e = 0; e < trace->events.n; e++) {
        const mr_event event_ = trace->events.at[e];
        const bool refused = event_.kind == MR_ALLOC && trace->storages.at[event_.id].refused;
        const char sign = refused ? '!' : "+-~?.*#"[event_.kind];
        text = mr_printf(ctx, "%s%s%c%u", text, e ? " " : "", sign, event_.id);
    }
    return text;
}

/* Pieces as text: storage, or . for free memory, with offset in hexadecimal. */
static inline const char *pieces(mr_ctx *ctx, const mr_pieces *all)
{
    const char *text = "";
    for (uint32_t i = 0; i < all->n; i++) {
        const mr_piece *p = &all->at[i];
        const char *who = p->storage == MR_NONE ? "." : mr_printf(ctx, "%u", p->storage);
        text = mr_printf(ctx, "%s%s%u:%s%s@%" PRIx64 "+%" PRIx64, text, i ? " " : "",
                         p->segment, who, p->pending ? "~" : "", p->offset, p->bytes);
    }
    return text;
}

static inline const char *cmds(mr_ctx *ctx, const mr_history *h)
{
    static const char *const names[] = {"reserve", "release", "map",    "unmap", "bind",
                                        "defer",   "unbind",  "exec", "refuse"};
    const char *text = "";
    for (uint32_t i = 0; i < h->cmds.n; i++) {
        const mr_cmd *c = &h->cmds.at[i];
        const char *id = c->id == MR_NONE ? "" : mr_printf(ctx, "%u", c->id);
        const char *where = c->kind == MR_REFUSE ? ""
            : mr_printf(ctx, "@%u:%" PRIx64 "+%" PRIx64, c->block.segment, c->block.offset,
                        c->block.bytes);
        text = mr_printf(ctx, "%s%s%s%s%s", text, i ? " " : "", names[c->kind], id, where);
    }
    return text;
}

#endif
