/* The reader of memory snapshots: small ones written here, and the real ones. */
#include "format.h"
#include "test.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

extern const mr_format mr_format_snapshot;


/* A snapshot while it is written, in protocol 0, which is text. */
typedef struct doc {
    char text[16384];
    size_t n;
} doc;

static void put(doc *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(doc *d, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    d->n += (size_t)vsnprintf(d->text + d->n, sizeof d->text - d->n, format, args);
    va_end(args);
}

static void key(doc *d, const char *name, uint64_t value)
{
    put(d, "S'%s'\nI%" PRIu64 "\ns", name, value);
}

static void word(doc *d, const char *name, const char *value)
{
    put(d, "S'%s'\nS'%s'\ns", name, value);
}

/* Dict with the events of one device still open: events, then segments(), then blocks. */
static void begin(doc *d)
{
    d->n = 0;
    put(d, "(dS'device_traces'\n(l(l");
}

static void event(doc *d, const char *action, uint64_t address, uint64_t bytes)
{
    put(d, "(d");
    word(d, "action", action);
    key(d, strcmp(action, "oom") ? "addr" : "device_free", address);
    key(d, "size", bytes);
    key(d, "stream", 0);
    put(d, "a");
}

static void freed(doc *d, uint64_t address, uint64_t bytes)
{
    event(d, "free_requested", address, bytes);
    event(d, "free_completed", address, bytes);
}

static void next_device(doc *d)
{
    put(d, "a(l");
}

static void segments(doc *d)
{
    put(d, "asS'segments'\n(l");
}

static void segment_of(doc *d, uint32_t device, uint64_t address, uint64_t bytes,
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

static void segment(doc *d, uint64_t address, uint64_t bytes)
{
    segment_of(d, 0, address, bytes, false);
}

static void block(doc *d, uint64_t address, uint64_t bytes, const char *state)
{
    put(d, "(d");
    key(d, "address", address);
    key(d, "size", bytes);
    word(d, "state", state);
    put(d, "a");
}

static void end_segment(doc *d)
{
    put(d, "sa");
}

static void end(doc *d)
{
    put(d, "s.");
}

static mr_status read_bytes(mr_ctx *ctx, const void *data, size_t n, mr_trace *trace)
{
    const mr_read_options options = {0};
    mr_source *source;
    MR_TRY(mr_source_memory(ctx, "file", data, n, &source));
    const mr_status status = mr_format_snapshot.read(ctx, source, &options, trace);
    mr_source_close(source);
    return status ? status : mr_trace_check(ctx, trace);
}

static const char *said(mr_ctx *ctx, const doc *d)
{
    mr_trace trace;
    if (!read_bytes(ctx, d->text, d->n, &trace)) return "no failure";
    return mr_printf(ctx, "%s: %s", ctx->failure.where, ctx->failure.text);
}

/* Reads what must be right. */
static const mr_history *reads(mr_ctx *ctx, const doc *d, mr_trace *trace)
{
    static const mr_history none;
    const mr_status status = read_bytes(ctx, d->text, d->n, trace);
    if (status) TEST_FAIL("%s: %s", ctx->failure.where, ctx->failure.text);
    return status || !trace->histories.n ? &none : &trace->histories.at[0];
}

/* Events as text: + alloc, - free, ~ done, * flush, # mark; a storage that was refused is !. */
static const char *events(mr_ctx *ctx, const mr_trace *trace)
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
static const char *pieces(mr_ctx *ctx, const mr_pieces *all)
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

static const char *cmds(mr_ctx *ctx, const mr_history *h)
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

/* ---- what happened --------------------------------------------------------------------- */

TEST(a_recording_from_an_empty_start)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "segment_alloc", 0x200000, 0x200000);
    event(&d, "alloc", 0x200000, 100);
    event(&d, "alloc", 0x200200, 700);
    freed(&d, 0x200000, 100);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x200, "inactive");
    block(&d, 0x200200, 0x400, "active_allocated");
    block(&d, 0x200600, 0x1ffa00, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+0 +1 -0");
    CHECK_STR(cmds(&ctx, h), "reserve@0:0+200000 bind0@0:0+0 bind1@0:200+0 unbind0@0:0+0");
    CHECK_STR(pieces(&ctx, &h->start), "");
    CHECK_STR(pieces(&ctx, &h->end), "0:.@0+200 0:1@200+400 0:.@600+1ffa00");
    CHECK_EQ(h->capacity_low, 0x200000);
    CHECK_EQ(h->capacity_high, UINT64_MAX);
    CHECK_EQ(trace.storages.at[0].bytes, 100);
    CHECK_EQ(trace.storages.at[1].after, true);
    CHECK_EQ(trace.times.n, 0);
    CHECK_STR(trace.about[MR_ABOUT_framework_version], "2.1");
    mr_ctx_clear(&ctx);
}

TEST(who_lived_before_is_found_and_free_memory_is_the_gaps)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    freed(&d, 0x200400, 300);
    event(&d, "alloc", 0x200600, 512);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x200, "active_allocated");
    block(&d, 0x200200, 0x400, "inactive");
    block(&d, 0x200600, 0x200, "active_allocated");
    block(&d, 0x200800, 0x1ff800, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(pieces(&ctx, &h->start), "0:0@0+200 0:.@200+200 0:1@400+200 0:.@600+1ffa00");
    CHECK_STR(events(&ctx, &trace), "-1 +2");
    CHECK_EQ(trace.storages.at[0].before && trace.storages.at[0].after, true);
    CHECK_EQ(trace.storages.at[1].bytes, 300);
    CHECK_EQ(trace.storages.at[1].before && !trace.storages.at[1].after, true);
    mr_ctx_clear(&ctx);
}

/* A large block of 2 MiB dies; what is first taken behind it begins 512 KiB past its end. */
static void large_block(doc *d, uint64_t use)
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

TEST(a_large_block_may_own_a_tail_that_was_not_split_off)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    large_block(&d, 0x2280000);
    CHECK_STR(pieces(&ctx, &reads(&ctx, &d, &trace)->start), "0:0@0+280000 0:.@280000+1180000");
    large_block(&d, 0x2200000);
    CHECK_STR(pieces(&ctx, &reads(&ctx, &d, &trace)->start), "0:0@0+200000 0:.@200000+1200000");
    large_block(&d, 0x2300200); /* more than a mebibyte is never a tail */
    CHECK_STR(pieces(&ctx, &reads(&ctx, &d, &trace)->start), "0:0@0+200000 0:.@200000+1200000");
    mr_ctx_clear(&ctx);
}

TEST(the_rest_of_a_large_segment_up_to_a_mebibyte_belongs_to_its_block)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    freed(&d, 0x2000000, 0x1380000);
    segments(&d);
    segment(&d, 0x2000000, 0x1400000);
    block(&d, 0x2000000, 0x1400000, "inactive");
    end_segment(&d);
    end(&d);
    CHECK_STR(pieces(&ctx, &reads(&ctx, &d, &trace)->start), "0:0@0+1400000");
    mr_ctx_clear(&ctx);
}

TEST(frees_that_wait_for_another_stream_are_done_later)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "free_completed", 0x200000, 512); /* was requested before the recording */
    event(&d, "alloc", 0x200200, 512);
    event(&d, "free_requested", 0x200200, 512);
    event(&d, "alloc", 0x200400, 512);
    event(&d, "free_completed", 0x200200, 512);
    event(&d, "free_requested", 0x200400, 512);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x400, "inactive");
    block(&d, 0x200400, 0x200, "active_pending_free");
    block(&d, 0x200600, 0x1ffa00, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "~0 +1 -1 +2 ~1 -2");
    CHECK_STR(cmds(&ctx, h), "unbind0@0:0+0 bind1@0:200+0 defer1@0:200+0"
                             " bind2@0:400+0 unbind1@0:200+0 defer2@0:400+0");
    CHECK_STR(pieces(&ctx, &h->start), "0:0~@0+200 0:.@200+1ffe00");
    CHECK_STR(pieces(&ctx, &h->end), "0:.@0+400 0:2~@400+200 0:.@600+1ffa00");
    CHECK_EQ(trace.storages.at[1].deferred, true);
    mr_ctx_clear(&ctx);
}

TEST(a_free_may_be_pending_from_before_the_first_event_to_the_end)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "alloc", 0x200200, 512);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x200, "active_pending_free");
    block(&d, 0x200200, 0x200, "active_allocated");
    block(&d, 0x200400, 0x1ffc00, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+1");
    CHECK_STR(pieces(&ctx, &h->start), "0:0~@0+200 0:.@200+1ffe00");
    CHECK_STR(pieces(&ctx, &h->end), "0:0~@0+200 0:1@200+200 0:.@400+1ffc00");
    CHECK_EQ(trace.storages.at[0].before, true);
    CHECK_EQ(trace.storages.at[0].after, false);
    mr_ctx_clear(&ctx);
}

/* Two segments of 20 MiB, both given back, then one of 30 MiB is taken, or what `then` says. */
static void burst(doc *d, const char *then)
{
    begin(d);
    event(d, "segment_alloc", 0x10000000, 0x1400000);
    event(d, "segment_alloc", 0x20000000, 0x1400000);
    event(d, "segment_free", 0x10000000, 0x1400000);
    event(d, "segment_free", 0x20000000, 0x1400000);
    if (!strcmp(then, "alloc")) {
        event(d, "segment_alloc", 0x30000000, 0x1e00000);
        event(d, "alloc", 0x30000000, 0x1e00000);
    }
    if (!strcmp(then, "less")) {
        event(d, "segment_alloc", 0x30000000, 0x1400000);
        event(d, "segment_alloc", 0x40000000, 0x6400000);
    }
    if (!strcmp(then, "oom")) event(d, "oom", 0x100000, 0x3c00000);
    segments(d);
    const uint64_t first = !strcmp(then, "alloc") ? 0x1e00000 : 0x1400000;
    if (!strcmp(then, "alloc") || !strcmp(then, "less")) {
        segment(d, 0x30000000, first);
        block(d, 0x30000000, first, first == 0x1e00000 ? "active_allocated" : "inactive");
        end_segment(d);
    }
    if (!strcmp(then, "less")) {
        segment(d, 0x40000000, 0x6400000);
        block(d, 0x40000000, 0x6400000, "inactive");
        end_segment(d);
    }
    end(d);
}

TEST(releases_before_memory_is_taken_were_a_retry_and_bound_the_capacity)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    burst(&d, "alloc");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+0");
    CHECK_EQ(h->capacity_low, 0x2800000);
    CHECK_EQ(h->capacity_high, 0x2800000 + 0x1e00000);
    mr_ctx_clear(&ctx);
}

TEST(releases_that_nothing_follows_were_asked_for)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    burst(&d, "nothing");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "*0");
    CHECK_EQ(h->capacity_high, UINT64_MAX);
    mr_ctx_clear(&ctx);
}

TEST(releases_that_contradict_what_succeeded_were_asked_for)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    burst(&d, "less");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "*0");
    CHECK_EQ(h->capacity_low, 0x1400000 + 0x6400000);
    CHECK_EQ(h->capacity_high, UINT64_MAX);
    mr_ctx_clear(&ctx);
}

/* The same where garbage_collection_threshold is set. */
static void collected_burst(doc *d, const char *then, const char *threshold)
{
    burst(d, then);
    d->n--; /* the end */
    put(d, "S'allocator_settings'\n(dS'garbage_collection_threshold'\nF%s\nss.", threshold);
}

TEST(releases_that_may_be_a_collection_bound_nothing)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    collected_burst(&d, "alloc", "0.5");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+0");
    CHECK_EQ(h->capacity_high, UINT64_MAX);
    collected_burst(&d, "less", "0.25");
    h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "");
    CHECK_EQ(h->capacity_high, UINT64_MAX);
    mr_ctx_clear(&ctx);
}

TEST(below_its_threshold_of_what_succeeded_nothing_is_collected)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    collected_burst(&d, "less", "0.5"); /* of 120 MiB, and 40 are held */
    reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "*0");
    mr_ctx_clear(&ctx);
}

TEST(a_segment_of_the_small_pool_is_not_collected)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "segment_alloc", 0x10000000, 0x1400000);
    event(&d, "segment_alloc", 0x20000000, 0x200000);
    event(&d, "segment_free", 0x10000000, 0x1400000);
    event(&d, "segment_free", 0x20000000, 0x200000);
    event(&d, "segment_alloc", 0x30000000, 0x1e00000);
    event(&d, "alloc", 0x30000000, 0x1e00000);
    segments(&d);
    segment(&d, 0x30000000, 0x1e00000);
    block(&d, 0x30000000, 0x1e00000, "active_allocated");
    end_segment(&d);
    put(&d, "sS'allocator_settings'\n(dS'garbage_collection_threshold'\nF0.5\nss.");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+0");
    CHECK_EQ(h->capacity_high, 0x1600000 + 0x1e00000);
    mr_ctx_clear(&ctx);
}

TEST(an_oom_is_a_storage_that_was_refused)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    burst(&d, "oom");
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "!0");
    CHECK_HAS(cmds(&ctx, h), "refuse0");
    CHECK_EQ(trace.storages.at[0].bytes, 0x3c00000);
    CHECK_EQ(h->capacity_low, 0x2800000);
    CHECK_EQ(h->capacity_high, 0x3c00000); /* it failed with nothing held */
    mr_ctx_clear(&ctx);
}

TEST(expandable_memory_lies_in_address_ranges_that_are_concluded)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "segment_map", 0x40000000, 0x2800000);
    event(&d, "alloc", 0x40000000, 0x1500000);
    event(&d, "segment_map", 0x90000000, 0x200000);
    event(&d, "alloc", 0x90000000, 512);
    freed(&d, 0x40000000, 0x1500000);
    event(&d, "segment_unmap", 0x40000000, 0x2800000);
    event(&d, "segment_map", 0x50000000, 0x1400000);
    event(&d, "alloc", 0x50000000, 0x1400000);
    segments(&d);
    segment_of(&d, 0, 0x50000000, 0x1400000, true);
    block(&d, 0x50000000, 0x1400000, "active_allocated");
    end_segment(&d);
    segment_of(&d, 0, 0x90000000, 0x200000, true);
    block(&d, 0x90000000, 0x200, "active_allocated");
    block(&d, 0x90000200, 0x1ffe00, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(cmds(&ctx, h), "reserve@0:0+0 map@0:0+2800000 bind0@0:0+0"
                             " reserve@1:0+0 map@1:0+200000 bind1@1:0+0"
                             " unbind0@0:0+0 unmap@0:0+2800000 release@0:0+0"
                             " reserve@2:0+0 map@2:0+1400000 bind2@2:0+0");
    CHECK_EQ(h->segments.n, 3);
    CHECK_EQ(h->segments.at[1].large, false);
    CHECK_EQ(h->segments.at[1].page, 2 * MR_MIB);
    CHECK_EQ(h->segments.at[2].large, true);
    CHECK_EQ(h->segments.at[2].page, 20 * MR_MIB);
    mr_ctx_clear(&ctx);
}

TEST(a_range_begins_where_its_lowest_page_was_seen)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "segment_map", 0x41400000, 0x1400000);
    event(&d, "alloc", 0x41400000, 0x1400000);
    event(&d, "segment_map", 0x40000000, 0x1400000);
    event(&d, "alloc", 0x40000000, 0x1400000);
    segments(&d);
    segment_of(&d, 0, 0x40000000, 0x2800000, true);
    block(&d, 0x40000000, 0x1400000, "active_allocated");
    block(&d, 0x41400000, 0x1400000, "active_allocated");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(cmds(&ctx, h), "reserve@0:0+0 map@0:1400000+1400000 bind0@0:1400000+0"
                             " map@0:0+1400000 bind1@0:0+0");
    CHECK_EQ(h->segments.at[0].address, 0x40000000);
    mr_ctx_clear(&ctx);
}

TEST(devices_have_histories_of_their_own)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "segment_alloc", 0x200000, 0x200000);
    event(&d, "alloc", 0x200000, 512);
    next_device(&d);
    next_device(&d);
    event(&d, "segment_alloc", 0x200000, 0x200000);
    event(&d, "alloc", 0x200000, 1024);
    segments(&d);
    for (uint32_t device = 0; device <= 2; device += 2) {
        segment_of(&d, device, 0x200000, 0x200000, false);
        block(&d, 0x200000, device ? 0x400 : 0x200, "active_allocated");
        block(&d, device ? 0x200400 : 0x200200, device ? 0x1ffc00 : 0x1ffe00, "inactive");
        end_segment(&d);
    }
    end(&d);
    reads(&ctx, &d, &trace);
    CHECK_EQ(trace.histories.n, 2);
    CHECK_EQ(trace.histories.at[1].device, 2);
    CHECK_EQ(trace.storages.at[1].device, 2);
    mr_ctx_clear(&ctx);
}

/* ---- what is wrong --------------------------------------------------------------------- */

/* One segment of 2 MiB, free at the end. */
static void tail(doc *d)
{
    segments(d);
    segment(d, 0x200000, 0x200000);
    block(d, 0x200000, 0x200000, "inactive");
    end_segment(d);
    end(d);
}

#define EVENTS_FAIL(part, ...)           \
    do {                                 \
        mr_ctx ctx = {0};                \
        doc d;                           \
        begin(&d);                       \
        __VA_ARGS__;                     \
        tail(&d);                        \
        CHECK_HAS(said(&ctx, &d), part); \
        mr_ctx_clear(&ctx);              \
    } while (0)

TEST(events_that_cannot_have_happened_are_refused)
{
    EVENTS_FAIL("device 0, event 1: the block at 0x200000 is allocated while it is in use",
                event(&d, "alloc", 0x200000, 512), event(&d, "alloc", 0x200000, 512));
    EVENTS_FAIL("event 3: free_requested of the block at 0x200000, which is not in use",
                event(&d, "alloc", 0x200000, 512), freed(&d, 0x200000, 512),
                freed(&d, 0x200000, 512));
    EVENTS_FAIL("event 2: free_requested of the block at 0x200000, whose free was requested",
                event(&d, "alloc", 0x200000, 512),
                event(&d, "free_requested", 0x200000, 512),
                event(&d, "free_requested", 0x200000, 512));
    EVENTS_FAIL("event 1: free_completed of the block at 0x200000, whose free was not",
                event(&d, "alloc", 0x200000, 512), event(&d, "free_completed", 0x200000, 512));
    EVENTS_FAIL("event 0: 512 bytes are allocated at 0x100000, expected them inside a segment",
                event(&d, "alloc", 0x100000, 512));
    EVENTS_FAIL("expected them inside a segment", event(&d, "alloc", 0x3fff00, 512));
    EVENTS_FAIL("event 0: 0 bytes", event(&d, "alloc", 0x200000, 0));
    EVENTS_FAIL("event 1: the block at 0x200000 is freed with 600 bytes, expected the 512",
                event(&d, "alloc", 0x200000, 512), freed(&d, 0x200000, 600));
    EVENTS_FAIL("the events leave 1 blocks in use", event(&d, "alloc", 0x200000, 512));
    EVENTS_FAIL("lies in no segment", freed(&d, 0x900000, 512));
    EVENTS_FAIL("has room for 512", freed(&d, 0x200000, 1024), freed(&d, 0x200200, 512));
    EVENTS_FAIL("binds storage 1 where storage 0 lives",
                event(&d, "alloc", 0x200000, 1024), event(&d, "alloc", 0x200200, 512),
                freed(&d, 0x200000, 1024), freed(&d, 0x200200, 512));
}

TEST(a_block_at_the_end_has_room_for_what_was_asked)
{
    mr_ctx ctx = {0};
    doc d;
    begin(&d);
    event(&d, "alloc", 0x200000, 600);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x200, "active_allocated");
    block(&d, 0x200200, 0x1ffe00, "inactive");
    end_segment(&d);
    end(&d);
    CHECK_HAS(said(&ctx, &d),
              "piece 0 at the end of device 0 is wrong, expected as many bytes as");
    mr_ctx_clear(&ctx);
}

TEST(segments_that_cannot_have_been_are_refused)
{
    EVENTS_FAIL("event 0: a segment of 4194304 bytes is taken at 0x200000, but what follows",
                event(&d, "segment_alloc", 0x200000, 0x400000));
    EVENTS_FAIL("event 0: segment_free of 2097152 bytes at 0x300000, but what follows",
                event(&d, "segment_free", 0x300000, 0x200000));
    EVENTS_FAIL("event 0: 2097152 bytes are mapped at 0x200000",
                event(&d, "segment_map", 0x200000, 0x200000));
    EVENTS_FAIL("expected a range of addresses",
                event(&d, "segment_alloc", UINT64_C(0x7ffffffffffffff0), UINT64_MAX));
    EVENTS_FAIL("expected a range of addresses", event(&d, "segment_free", 0x900000, 0));
}

TEST(events_that_are_no_events_are_refused)
{
    EVENTS_FAIL("event 0 of device 0 has 'action' = the text 'realloc'",
                event(&d, "realloc", 0x200000, 512));
    EVENTS_FAIL("has 'size' = -5, expected a whole number",
                put(&d, "(dS'action'\nS'alloc'\nsS'addr'\nI1\nsS'size'\nI-5\nsa"));
    EVENTS_FAIL("event 0 of device 0 has no 'addr'",
                put(&d, "(dS'action'\nS'alloc'\nsS'size'\nI5\nsa"));
    EVENTS_FAIL("has 'frames' = 7, expected a list of frames",
                put(&d, "(dS'action'\nS'alloc'\nsS'addr'\nI1\nsS'size'\nI5\ns"
                        "S'frames'\nI7\nsa"));
    EVENTS_FAIL("item 1 of device_traces[0] is of another kind",
                event(&d, "alloc", 0x200000, 512), put(&d, "I7\na"));
}

TEST(blocks_must_tile_their_segment)
{
    mr_ctx ctx = {0};
    doc d;
    for (int wrong = 0; wrong < 3; wrong++) {
        begin(&d);
        event(&d, "alloc", 0x200000, 512);
        segments(&d);
        segment(&d, 0x200000, 0x200000);
        block(&d, 0x200000, 0x200, "active_allocated");
        if (wrong == 0) block(&d, 0x200400, 0x1ffc00, "inactive");
        if (wrong == 1) block(&d, 0x200200, 0x1ffc00, "inactive");
        if (wrong == 2) block(&d, 0x200200, 0x200000, "inactive");
        end_segment(&d);
        end(&d);
        static const char *const parts[] = {"a block begins at 0x200400, expected 0x200200",
                                            "end at 0x3ffe00, expected 0x400000",
                                            "has 2097152 bytes, expected 1 to the end"};
        CHECK_HAS(said(&ctx, &d), parts[wrong]);
    }
    mr_ctx_clear(&ctx);
}

TEST(pickles_that_are_no_snapshot_are_refused)
{
    static const struct {
        const char *pickle, *part;
    } files[] = {
        {"(lp0\n.", "bare list of segments as PyTorch 1.x"},
        {"I5\n.", "the pickle holds 5, expected the dict"},
        {"(d.", "has no 'segments'"},
        {"(dS'segments'\n(ls.", "has no 'device_traces'"},
        {"(dS'segments'\n(lsS'device_traces'\n(ls.", "_record_memory_history()"},
        {"(dS'segments'\n(lsS'device_traces'\n(l(la(las.", "_record_memory_history()"},
        {"(dS'segments'\nI5\nsS'device_traces'\n(l(l(dS'action'\nS'oom'\nsS'size'\nI5\n"
         "sS'device_free'\nI5\nsaas.",
         "segments is 5, expected a list"},
    };
    for (size_t i = 0; i < MR_COUNT(files); i++) {
        mr_ctx ctx = {0};
        doc d = {"", 0};
        put(&d, "%s", files[i].pickle);
        CHECK_HAS(said(&ctx, &d), files[i].part);
        mr_ctx_clear(&ctx);
    }
}

/* ---- versions -------------------------------------------------------------------------- */

TEST(blocks_of_2_0_have_a_history_in_place_of_an_address)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "alloc", 0x200200, 300);
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    put(&d, "(dS'size'\nI512\nsS'state'\nS'active_allocated'\nsS'history'\n(l"
            "(dS'real_size'\nI77\nsS'addr'\nI5\nsa(dS'real_size'\nI9\nsasa");
    put(&d, "(dS'size'\nI512\nsS'state'\nS'active_allocated'\nsS'history'\n(lsa");
    put(&d, "(dS'size'\nI2096128\nsS'state'\nS'inactive'\nsa");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_STR(pieces(&ctx, &h->end), "0:0@0+200 0:1@200+200 0:.@400+1ffc00");
    CHECK_EQ(trace.storages.at[0].bytes, 77);
    CHECK_STR(trace.about[MR_ABOUT_framework_version], "2.0");
    mr_ctx_clear(&ctx);
}

TEST(annotations_and_metadata_become_marks)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    for (unsigned i = 0; i < 3; i++) {
        put(&d, "(d");
        word(&d, "action", "alloc");
        word(&d, "user_metadata", i ? "warm" : "");
        key(&d, "addr", 0x200000 + i * 512);
        key(&d, "size", 512);
        key(&d, "time_us", 1000 + i * 10);
        put(&d, "a");
    }
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    for (unsigned i = 0; i < 3; i++) block(&d, 0x200000 + i * 512, 512, "active_allocated");
    block(&d, 0x200600, 0x1ffa00, "inactive");
    end_segment(&d);
    put(&d, "sS'external_annotations'\n(l");
    put(&d, "(dS'stage'\nS'END'\nsS'name'\nS'Optimizer.step#AdamW.step'\ns"
            "S'time_us'\nI1015\nsa");
    put(&d, "(dS'stage'\nS'START'\nsS'name'\nS'Optimizer.step#AdamW.step'\ns"
            "S'time_us'\nI1005\nsa");
    put(&d, "(dS'stage'\nS'START'\nsS'name'\nS'load'\nsS'time_us'\nI990\nsa");
    end(&d);
    reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "#0 +0 #1 #2 +1 #3 +2");
    CHECK_EQ(trace.marks.at[0].kind, MR_REGION_BEGIN);
    CHECK_EQ(trace.marks.at[1].kind, MR_PHASE_BEGIN);
    CHECK_STR(trace.marks.at[1].name, "update");
    CHECK_STR(trace.marks.at[2].name, "warm");
    CHECK_EQ(trace.marks.at[3].kind, MR_PHASE_END);
    CHECK_STR(trace.about[MR_ABOUT_optimizer], "adamw");
    CHECK_EQ(trace.times.at[1], 10000);
    CHECK_EQ(trace.times.at[6], 30000);
    mr_ctx_clear(&ctx);
}

/* ---- pools of memory that is gone -------------------------------------------------------- */

enum { STRETCH = 0x1400000 }; /* bytes that are mapped at once */

static void comes(doc *d, uint64_t address)
{
    event(d, "segment_map", address, STRETCH);
    event(d, "alloc", address, STRETCH);
}

static void goes(doc *d, uint64_t address)
{
    freed(d, address, STRETCH);
    event(d, "segment_unmap", address, STRETCH);
}

/* At the end it is of the given pool, all of it one block in use. */
static void stays(doc *d, uint64_t address, unsigned pool)
{
    segment_of(d, 0, address, STRETCH, true);
    block(d, address, STRETCH, "active_allocated");
    put(d, "sS'segment_pool_id'\n(I0\nI%u\ntsa", pool);
}

TEST(memory_that_went_was_of_the_pool_that_it_lay_beside)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    comes(&d, 0x50000000);
    comes(&d, 0x51400000);
    goes(&d, 0x50000000);
    segments(&d);
    stays(&d, 0x51400000, 1);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_EQ(h->segments.n, 1);
    CHECK_EQ(trace.pools.n, 2);
    CHECK_EQ(trace.storages.at[0].pool, 1);
    mr_ctx_clear(&ctx);
}

TEST(memory_behind_that_of_another_pool_was_of_a_pool_that_is_gone)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    comes(&d, 0x50000000);
    comes(&d, 0x90000000);
    comes(&d, 0xd0000000);
    goes(&d, 0xd0000000);
    segments(&d);
    stays(&d, 0x50000000, 0);
    stays(&d, 0x90000000, 1);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_EQ(h->segments.n, 3);
    CHECK_EQ(trace.pools.n, 3);
    CHECK_EQ(trace.storages.at[0].pool, 0);
    CHECK_EQ(trace.storages.at[1].pool, 1);
    CHECK_EQ(trace.storages.at[2].pool, 2);
    CHECK_EQ(trace.notes.n, 1);
    mr_ctx_clear(&ctx);
}

/* ---- what else stands there -------------------------------------------------------------- */

TEST(settings_are_told_as_in_the_environment)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "oom", 5, 512);
    segments(&d);
    put(&d, "sS'allocator_settings'\n(d");
    word(&d, "PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True");
    key(&d, "max_split_size", 134217728);
    put(&d, "S'expandable_segments'\nI01\nsS'garbage_collection_threshold'\nF0.8\ns"
            "S'roundup_power2_divisions'\n(d");
    for (unsigned i = 0; i < 16; i++) key(&d, mr_printf(&ctx, "%u", 1u << i), i < 2 ? 4 : 0);
    put(&d, "s");
    end(&d);
    reads(&ctx, &d, &trace);
    CHECK_STR(trace.about[MR_ABOUT_allocator],
              "expandable_segments:True,max_split_size_mb:128,garbage_collection_threshold:0.8,"
              "roundup_power2_divisions:[1:4,2:4,4:0,8:0,16:0,32:0,64:0,128:0,256:0,512:0,"
              "1024:0,2048:0,4096:0,8192:0,16384:0,32768:0]");
    mr_ctx_clear(&ctx);
}

TEST(what_stands_below_unknown_keys_is_ignored)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    begin(&d);
    event(&d, "alloc", 0x200000, 512);
    freed(&d, 0x200000, 512);
    put(&d, "asS'host_traces'\n(l(l(dS'action'\nS'pinned'\nsaa");
    put(&d, "sS'more'\n(dS'x'\n(lI1\naI2\naI3\nassS'segments'\n(l");
    segment(&d, 0x200000, 0x200000);
    put(&d, "(dS'address'\nI2097152\nsS'size'\nI2097152\nsS'state'\nS'inactive'\nsS'new'\nN"
            "sS'frames'\n(lsa");
    end_segment(&d);
    end(&d);
    reads(&ctx, &d, &trace);
    CHECK_STR(events(&ctx, &trace), "+0 -0");
    mr_ctx_clear(&ctx);
}

TEST(a_ring_that_is_exactly_full_has_lost_its_beginning)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d; /* 1,000 events, each made of a reference to one of two dicts */
    begin(&d);
    put(&d, "(d");
    word(&d, "action", "alloc");
    key(&d, "addr", 0x200200);
    key(&d, "size", 512);
    put(&d, "p1\na");
    put(&d, "(dS'action'\nS'free_requested'\nsS'addr'\nI2097664\nsS'size'\nI512\nsp2\na");
    put(&d, "(dS'action'\nS'free_completed'\nsS'addr'\nI2097664\nsS'size'\nI512\nsp3\na");
    for (unsigned i = 0; i < 332; i++) put(&d, "g1\nag2\nag3\na");
    put(&d, "g1\na");
    segments(&d);
    segment(&d, 0x200000, 0x200000);
    block(&d, 0x200000, 0x200, "inactive");
    block(&d, 0x200200, 0x200, "active_allocated");
    block(&d, 0x200400, 0x1ffc00, "inactive");
    end_segment(&d);
    end(&d);
    const mr_history *h = reads(&ctx, &d, &trace);
    CHECK_EQ(h->wrapped, true);
    CHECK_HAS(trace.notes.at[0], "exactly 1000 events");
    CHECK_EQ(trace.events.n, 667);
    mr_ctx_clear(&ctx);
}

/* ---- the referee of histories ---------------------------------------------------------- */

TEST(the_referee_sees_what_does_not_lead_to_the_end)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    doc d;
    large_block(&d, 0x2280000);
    CHECK_EQ(read_bytes(&ctx, d.text, d.n, &trace), MR_OK);
    mr_history *h = &trace.histories.at[0];
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_OK);
    h->cmds.n--;
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_EINPUT);
    h->cmds.n++;
    h->end.at[1].offset += 512;
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_EINPUT);
    h->end.at[1].offset -= 512;
    h->start.at[0].bytes -= 512;
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_EINPUT);
    h->start.at[0].bytes += 512;
    h->cmds.at[0].block.offset -= 512;
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "command 0 of the history of device 0 binds storage");
    h->cmds.at[0].block.offset += 512;
    h->cmds.at[1].block.offset += 512;
    CHECK_EQ(mr_trace_check(&ctx, &trace), MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "command 1");
    mr_ctx_clear(&ctx);
}

/* ---- real recordings ------------------------------------------------------------------- */

typedef struct expected {
    const char *file;
    uint32_t history; /* which of them */
    uint32_t alloc, freed, take, release, refused;
    uint32_t held;
    const char *version;
} expected;

/* From the README beside them. */
static const expected real[] = {
    {"attention-probe", 0, 36, 26, 9, 0, 0, 0, "2.5 to 2.6"},
    {"cnn-epochs", 0, 1935, 1926, 7, 0, 0, 3, "2.2 to 2.3"},
    {"llama-offload-10-streams-oom-retry", 0, 3058, 3053, 584, 579, 0, 131, "2.1"},
    {"lm-2.7b-adamw-fullstep-ctx128", 0, 6771, 5894, 783, 0, 0, 227, "2.5 to 2.6"},
    {"lm-medium-training-ctx512", 0, 7591, 7370, 1, 0, 0, 399, "2.9 or newer"},
    {"lm-newest-keys", 0, 3221, 3220, 9, 0, 0, 27, "2.9 or newer"},
    {"lm-windows", 0, 1721, 1721, 0, 0, 0, 216, "2.9 or newer"},
    {"nca-inference-oom-retry", 0, 782, 777, 22, 17, 0, 1, "2.5 to 2.6"},
    {"qwen3-gnn-expandable-3-gpus-oom", 0, 2434, 1918, 175, 0, 0, 0, "2.7 to 2.8"},
    {"qwen3-gnn-expandable-3-gpus-oom", 1, 199, 175, 40, 6, 1, 0, "2.7 to 2.8"},
    {"qwen3-gnn-expandable-3-gpus-oom", 2, 392, 206, 78, 0, 0, 0, "2.7 to 2.8"},
};

static const char *path_of(mr_ctx *ctx, const char *name)
{
    return mr_printf(ctx, "%s/recordings/pytorch-snapshots/%s.pickle", SHARED, name);
}

static uint32_t count(const mr_history *h, mr_cmd_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->cmds.n; i++) {
        const mr_cmd *c = &h->cmds.at[i];
        const bool range = (kind == MR_RESERVE || kind == MR_RELEASE) && !c->block.bytes;
        n += c->kind == kind && !range; /* an address range is not in the file */
    }
    return n;
}

static void check_real(const expected *want)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    if (mr_recording_read(&ctx, path_of(&ctx, want->file), NULL, &trace)) {
        TEST_FAIL("%s: %s: %s", want->file, ctx.failure.where, ctx.failure.text);
        mr_ctx_clear(&ctx);
        return;
    }
    const mr_history *h = &trace.histories.at[want->history];
    CHECK_EQ(count(h, MR_BIND), want->alloc);
    CHECK_EQ(count(h, MR_UNBIND), want->freed);
    CHECK_EQ(count(h, MR_RESERVE) + count(h, MR_MAP), want->take);
    CHECK_EQ(count(h, MR_RELEASE) + count(h, MR_UNMAP), want->release);
    CHECK_EQ(count(h, MR_REFUSE), want->refused);
    CHECK_EQ(h->held, want->held);
    CHECK_EQ(h->wrapped, false);
    CHECK_STR(trace.about[MR_ABOUT_framework_version], want->version);
    mr_ctx_clear(&ctx);
}

TEST(real_recordings_hold_what_they_are_known_to_hold)
{
    mr_ctx ctx = {0};
    const bool there = !access(path_of(&ctx, real[0].file), R_OK);
    mr_ctx_clear(&ctx);
    if (!there) SKIP("the recordings are not there");
    for (size_t i = 0; i < MR_COUNT(real); i++) check_real(&real[i]);
}

TEST(the_retries_of_a_real_recording_bound_its_device)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    const char *path = path_of(&ctx, "llama-offload-10-streams-oom-retry");
    if (access(path, R_OK)) {
        mr_ctx_clear(&ctx);
        SKIP("the recordings are not there");
    }
    CHECK_EQ(mr_recording_read(&ctx, path, NULL, &trace), MR_OK);
    CHECK_EQ(trace.histories.at[0].capacity_low, UINT64_C(22519218176));
    CHECK_EQ(trace.histories.at[0].capacity_high, UINT64_C(22556966912));
    CHECK_EQ(trace.streams.n, 10);
    CHECK_EQ(mr_recording_read(&ctx, path_of(&ctx, "history-not-recorded"), NULL, &trace),
             MR_EINPUT);
    CHECK_HAS(ctx.failure.text, "torch.cuda.memory._record_memory_history()");
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
