/* check -- what is said about a prediction and the recording that it is held against. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* ---- saying what differs ----------------------------------------------------------------- */

static const char *kind_name(mr_cmd_kind kind)
{
    static const char *const names[] = {[MR_RESERVE] = "segment_alloc",
                                        [MR_RELEASE] = "segment_free",
                                        [MR_MAP] = "segment_map",
                                        [MR_UNMAP] = "segment_unmap",
                                        [MR_BIND] = "alloc",
                                        [MR_UNBIND] = "free_completed",
                                        [MR_EXEC] = "op",
                                        [MR_REFUSE] = "oom"};
    return names[kind];
}

static void put_deed(const mr_check *c, const char *who, const mr_deed *d, mr_makers *makers)
{
    if (!d) {
        mr_sink_print(c->sink, "  %-10s nothing more\n", who);
        return;
    }
    mr_sink_print(c->sink, "  %-10s %-15s 0x%" PRIx64, who, kind_name(d->kind), d->address);
    if (d->bytes) mr_sink_print(c->sink, "  %" PRIu64 " bytes", d->bytes);
    if (d->kind >= MR_BIND && d->id != MR_NONE)
        mr_sink_print(c->sink, "  (%" PRIu64 " asked for by %s)",
                      c->trace->storages.at[d->id].bytes, mr_show_maker(c->ctx, makers, d->id));
    mr_sink_print(c->sink, "\n");
}

void mr_report_parting(const mr_check *c, const mr_parting *parting)
{
    if (!c->sink) return;
    mr_makers *makers = mr_makers_new(c->ctx, c->trace);
    mr_sink_print(c->sink,
                  "device %" PRIu32 ": different at event %" PRIu32 " of %" PRIu32
                  ", after %s\n",
                  c->history->device, parting->event, c->trace->events.n,
                  mr_show_count(c->ctx, parting->agreed, "step that agrees",
                                "steps that agree"));
    put_deed(c, "recorded", parting->recorded, makers);
    put_deed(c, "predicted", parting->predicted, makers);
}

/* ---- blocks at the end ------------------------------------------------------------------- */

typedef struct place {
    uint64_t address, bytes;
    uint32_t storage;
} place;

typedef MR_VEC(place) places;

static int by_address(const void *a, const void *b)
{
    const place *x = a, *y = b;
    return x->address < y->address ? -1 : x->address > y->address;
}

static places places_of(mr_ctx *ctx, const mr_pieces *pieces, const mr_segment *segments)
{
    places out = {0};
    for (uint32_t i = 0; i < pieces->n; i++) {
        const mr_piece *p = &pieces->at[i];
        MR_PUSH(ctx, &out,
                (place){segments[p->segment].address + p->offset, p->bytes, p->storage});
    }
    if (out.n) qsort(out.at, out.n, sizeof *out.at, by_address);
    return out;
}

static void put_place(const mr_check *c, const char *who, const place *p)
{
    if (!p) {
        mr_sink_print(c->sink, "  %-10s no further block\n", who);
        return;
    }
    mr_sink_print(c->sink, "  %-10s 0x%" PRIx64 "  %" PRIu64 " bytes, %s\n", who, p->address,
                  p->bytes, p->storage == MR_NONE ? "free" : "in use");
}

bool mr_blocks_agree(const mr_check *c)
{
    mr_pieces left;
    mr_pieces_after(c->ctx, c->placement, c->placement->cmds.n, &left);
    const places recorded = places_of(c->ctx, &c->history->end, c->history->segments.at);
    const places predicted = places_of(c->ctx, &left, c->placement->segments.at);
    for (uint32_t i = 0; i < recorded.n || i < predicted.n; i++) {
        const place *r = i < recorded.n ? &recorded.at[i] : NULL;
        const place *p = i < predicted.n ? &predicted.at[i] : NULL;
        if (r && p && r->address == p->address && r->bytes == p->bytes
            && r->storage == p->storage)
            continue;
        if (!c->sink) return false;
        mr_sink_print(c->sink,
                      "device %" PRIu32 ": every step agrees, but the blocks that are left "
                      "do not\n",
                      c->history->device);
        put_place(c, "recorded", r);
        put_place(c, "predicted", p);
        return false;
    }
    return true;
}

/* ---- when they agree --------------------------------------------------------------------- */

static const char *count(const mr_check *c, mr_cmd_kind first, mr_cmd_kind last,
                         const char *one, const char *many)
{
    return mr_show_count(c->ctx, mr_count_deeds(c->history, first, last), one, many);
}

/* What the recording leaves open, and how it was taken. */
static void put_reading(const mr_check *c, uint32_t n, const char *one, const char *many)
{
    if (n)
        mr_sink_print(c->sink,
                      "device %" PRIu32 ": taken so, as the recording does not say: %s\n",
                      c->history->device, mr_show_count(c->ctx, n, one, many));
}

static void put_readings(const mr_check *c)
{
    put_reading(c, c->put_off, "free completed while the allocator waited for the device",
                "frees completed while the allocator waited for the device");
    put_reading(c, c->flushes, "time the program gave memory back (empty_cache)",
                "times the program gave memory back (empty_cache)");
    put_reading(c, c->no_flushes, "time the allocator gave memory back to serve a request",
                "times the allocator gave memory back to serve a request");
    put_reading(c, c->pools, "request was for a private pool that is gone at the end",
                "requests were for private pools that are gone at the end");
}

/* A collection gives segments back as empty_cache() does, and the recording says of neither. */
static void put_collections(const mr_check *c)
{
    static const char key[] = "garbage_collection_threshold";
    const char *settings = c->trace->about[MR_ABOUT_allocator];
    if (!strstr(c->spec->text, key) && !(settings && strstr(settings, key))) return;
    if (!c->asked && !c->collected) return;
    mr_sink_print(c->sink,
                  "device %" PRIu32 ": %s is set, so a collection looks the same as "
                  "empty_cache: memory given back is taken for empty_cache %s, for a "
                  "collection %s\n",
                  c->history->device, key, mr_show_count(c->ctx, c->asked, "time", "times"),
                  mr_show_count(c->ctx, c->collected, "time", "times"));
}

void mr_report_exact(const mr_check *c)
{
    if (!c->sink) return;
    const mr_history *h = c->history;
    mr_sink_print(c->sink, "device %" PRIu32 ": exact: %s, %s, %s\n", h->device,
                  count(c, MR_BIND, MR_BIND, "allocation", "allocations"),
                  count(c, MR_UNBIND, MR_UNBIND, "free", "frees"),
                  count(c, MR_RESERVE, MR_UNMAP, "segment operation", "segment operations"));
    put_readings(c);
    put_collections(c);
}

/* ---- the capacity ----------------------------------------------------------------------- */

void mr_report_capacity(const mr_check *c, const mr_args *args)
{
    const mr_history *h = c->history;
    if (args->capacity || !c->sink) return;
    mr_sink_print(c->sink, "device %" PRIu32 ": ", h->device);
    if (h->capacity_high == UINT64_MAX)
        mr_sink_print(c->sink, "capacity not limited, as no request for memory failed\n");
    else
        mr_sink_print(c->sink,
                      "capacity %" PRIu64 " bytes (%s), inferred: what was recorded takes at "
                      "least that and less than %" PRIu64 "\n",
                      h->capacity_low, mr_show_bytes(c->ctx, h->capacity_low),
                      h->capacity_high);
}

void mr_report_out_of_range(const mr_check *c)
{
    const mr_history *h = c->history;
    if (!c->sink) return;
    mr_sink_print(c->sink,
                  "device %" PRIu32 ": as recorded it takes a capacity of at least %" PRIu64,
                  h->device, h->capacity_low);
    if (h->capacity_high != UINT64_MAX)
        mr_sink_print(c->sink, " and less than %" PRIu64, h->capacity_high);
    mr_sink_print(c->sink, " bytes\n");
}
