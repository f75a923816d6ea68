/* moment -- a request and the memory it met: what was held, what was free, what pinned it. */
#include <inttypes.h>
#include <stdlib.h>

#include "explain.h"

/* ---- the request ------------------------------------------------------------------------- */

static void put_request(mr_ctx *ctx, const mr_moment *m, const mr_args *args, mr_sink *sink)
{
    const mr_trace *trace = &m->answer->trace;
    if (m->storage == MR_NONE) {
        mr_sink_print(sink, "No request raised it: it was there before the first event.\n\n");
        return;
    }
    const mr_storage *s = &trace->storages.at[m->storage];
    mr_sink_print(sink,
                  m->at_once ? "The request with which most is handed out\n" : "The request\n");
    mr_sink_print(sink, "  size      %s (%" PRIu64 " bytes)\n", mr_show_bytes(ctx, s->bytes),
                  s->bytes);
    if (m->at_start) mr_sink_print(sink, "  when      before the first event\n");
    else
        mr_sink_print(sink, "  when      event %" PRIu32 " of %" PRIu32, m->event,
                      trace->events.n);
    if (!m->at_start && m->scene->iterations > 1)
        mr_sink_print(sink, ", iteration %" PRIu32 " of %" PRIu32, m->iteration + 1,
                      m->scene->iterations);
    if (!m->at_start) mr_sink_print(sink, "\n");
    if (trace->streams.n > 1)
        mr_sink_print(sink, "  stream    %" PRIu64 "\n", trace->streams.at[s->stream]);
    if (s->pool) mr_sink_print(sink, "  pool      %" PRIu64 "\n", trace->pools.at[s->pool]);
    if (s->role) mr_sink_print(sink, "  role      %s\n", mr_role_name(s->role));
    mr_sink_print(sink, "  made by   %s\n", mr_show_maker(ctx, m->makers, m->storage));
    mr_write_frames(trace, m->storage, (uint32_t)args->top, "              ", sink);
    mr_sink_print(sink, "\n");
}

/* ---- the sums ---------------------------------------------------------------------------- */

typedef struct sum {
    uint64_t bytes, largest;
    uint32_t n;
} sum;

static void add(sum *s, uint64_t bytes)
{
    s->bytes += bytes;
    s->n++;
    if (bytes > s->largest) s->largest = bytes;
}

static void put_sum(mr_ctx *ctx, const char *name, const sum *s, const char *one,
                    const char *many, mr_sink *sink)
{
    mr_sink_print(sink, "  %-28s %12s in %s\n", name, mr_show_bytes(ctx, s->bytes),
                  mr_show_count(ctx, s->n, one, many));
}

static void put_sums(mr_ctx *ctx, const mr_moment *m, mr_sink *sink)
{
    sum held = {0}, used = {0}, pending = {0}, unused = {0};
    uint64_t asked = 0;
    uint32_t segment = MR_NONE;
    for (uint32_t i = 0; i < m->left.n; i++) {
        const mr_piece *p = &m->left.at[i];
        held.bytes += p->bytes;
        held.n += p->segment != segment;
        segment = p->segment;
        if (p->storage == MR_NONE) add(&unused, p->bytes);
        else if (p->pending) add(&pending, p->bytes);
        else add(&used, p->bytes);
        if (p->storage != MR_NONE) asked += m->answer->trace.storages.at[p->storage].bytes;
    }
    mr_sink_print(sink, m->oom ? "Memory at that moment\n" : "Memory once it was served\n");
    if (m->scene->capacity != UINT64_MAX)
        mr_sink_print(sink, "  %-28s %12s\n", "to be had",
                      mr_show_bytes(ctx, m->scene->capacity));
    put_sum(ctx, "reserved", &held, "segment", "segments", sink);
    put_sum(ctx, "  handed out", &used, "block", "blocks", sink);
    if (pending.n)
        put_sum(ctx, "  waiting for other streams", &pending, "block", "blocks", sink);
    put_sum(ctx, "  free", &unused, "piece", "pieces", sink);
    mr_sink_print(sink, "  %-28s %12s\n", "asked for by live storages",
                  mr_show_bytes(ctx, asked));
    if (m->scene->capacity != UINT64_MAX && m->scene->capacity >= held.bytes)
        mr_sink_print(sink, "  %-28s %12s\n", "left on the device",
                      mr_show_bytes(ctx, m->scene->capacity - held.bytes));
    mr_sink_print(sink, "\n");
}

/* ---- free memory ------------------------------------------------------------------------- */

typedef struct group { /* free pieces that serve the same requests */
    uint32_t stream, pool;
    bool large;
    sum sum;
} group;

typedef MR_VEC(group) groups;

static group *group_of(mr_ctx *ctx, groups *list, const mr_segment *s)
{
    for (uint32_t i = 0; i < list->n; i++) {
        group *g = &list->at[i];
        if (g->stream == s->stream && g->pool == s->pool && g->large == s->large) return g;
    }
    MR_PUSH(ctx, list, (group){s->stream, s->pool, s->large, {0}});
    return &list->at[list->n - 1];
}

static int by_largest(const void *a, const void *b)
{
    const group *x = a, *y = b;
    if (x->sum.bytes != y->sum.bytes) return x->sum.bytes > y->sum.bytes ? -1 : 1;
    if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
    if (x->pool != y->pool) return x->pool < y->pool ? -1 : 1;
    return x->large < y->large ? -1 : x->large > y->large;
}

static groups free_groups(mr_ctx *ctx, const mr_moment *m)
{
    groups list = {0};
    for (uint32_t i = 0; i < m->met.n; i++) {
        const mr_piece *p = &m->met.at[i];
        if (p->storage != MR_NONE) continue;
        add(&group_of(ctx, &list, &m->answer->placement.segments.at[p->segment])->sum,
            p->bytes);
    }
    if (list.n) qsort(list.at, list.n, sizeof *list.at, by_largest);
    return list;
}

static bool has_two_sizes(const mr_moment *m)
{
    const mr_placement *p = &m->answer->placement;
    for (uint32_t i = 1; i < p->segments.n; i++)
        if (p->segments.at[i].large != p->segments.at[0].large) return true;
    return false;
}

static const char *name_group(mr_ctx *ctx, const mr_moment *m, const group *g)
{
    const mr_trace *trace = &m->answer->trace;
    const char *size = !has_two_sizes(m) ? "" : g->large ? ", large blocks" : ", small blocks";
    const char *pool =
        g->pool ? mr_printf(ctx, ", private pool %" PRIu64, trace->pools.at[g->pool]) : "";
    return mr_printf(ctx, "stream %" PRIu64 "%s%s", trace->streams.at[g->stream], pool, size);
}

/* Pieces by size: a row of classes, so that crumbs and halls are told apart. */
static void put_classes(mr_ctx *ctx, const mr_moment *m, mr_sink *sink)
{
    static const struct {
        uint64_t below;
        const char *name;
    } classes[] = {{MR_MIB, "below 1 MiB"},
                   {10 * MR_MIB, "1 to 10 MiB"},
                   {100 * MR_MIB, "10 to 100 MiB"},
                   {MR_GIB, "100 MiB to 1 GiB"},
                   {UINT64_MAX, "1 GiB and more"}};
    static const char *const headings[] = {"free pieces by size", "pieces", "together"};
    mr_table table = {MR_COUNT(headings), headings, NULL, {0}};
    for (size_t c = 0; c < MR_COUNT(classes); c++) {
        sum s = {0};
        for (uint32_t i = 0; i < m->met.n; i++) {
            const mr_piece *p = &m->met.at[i];
            if (p->storage == MR_NONE && p->bytes < classes[c].below
                && (!c || p->bytes >= classes[c - 1].below))
                add(&s, p->bytes);
        }
        if (!s.n) continue;
        MR_PUSH(ctx, &table.cells, classes[c].name);
        MR_PUSH(ctx, &table.cells, mr_printf(ctx, "%" PRIu32, s.n));
        MR_PUSH(ctx, &table.cells, mr_show_bytes(ctx, s.bytes));
    }
    mr_table_text(ctx, &table, "  ", sink);
    mr_sink_print(sink, "\n");
}

static uint64_t largest_on_stream(const groups *list, const mr_storage *s)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const group *g = &list->at[i];
        if (g->stream == s->stream && g->pool == s->pool && g->sum.largest > largest)
            largest = g->sum.largest;
    }
    return largest;
}

static void put_verdict(mr_ctx *ctx, const mr_moment *m, const groups *list, mr_sink *sink)
{
    if (m->storage == MR_NONE) return;
    const mr_storage *s = &m->answer->trace.storages.at[m->storage];
    const uint64_t own = largest_on_stream(list, s);
    const char *whose = m->answer->trace.streams.n > 1 ? " of its stream" : "";
    const char *need = mr_show_bytes(ctx, s->bytes);
    if (m->answer->placement.ideal)
        mr_sink_print(sink, "  It needs %s, and nothing that is held is free.\n", need);
    else if (!own)
        mr_sink_print(sink, "  It needs %s in one piece; there was no free piece%s.\n", need,
                      whose);
    else if (own < s->bytes)
        mr_sink_print(sink, "  It needs %s in one piece; the largest free piece%s has %s.\n",
                      need, whose, mr_show_bytes(ctx, own));
    else
        mr_sink_print(sink,
                      "  It needs %s; a free piece%s has %s, but the strategy's rules do not "
                      "let this request use it.\n",
                      need, whose, mr_show_bytes(ctx, own));
}

/* Nor from the device: what it had left. */
static void put_device(mr_ctx *ctx, const mr_moment *m, mr_sink *sink)
{
    uint64_t held = 0;
    if (!m->oom || m->storage == MR_NONE || m->scene->capacity == UINT64_MAX) return;
    for (uint32_t i = 0; i < m->met.n; i++) held += m->met.at[i].bytes;
    const uint64_t left = m->scene->capacity > held ? m->scene->capacity - held : 0;
    const bool enough = left >= m->answer->trace.storages.at[m->storage].bytes;
    mr_sink_print(sink, "  The device had %s left: %s.\n", mr_show_bytes(ctx, left),
                  enough ? "less than the segment the strategy takes for it" : "too little");
}

static void put_free(mr_ctx *ctx, const mr_moment *m, mr_sink *sink)
{
    static const char *const headings[] = {"free memory of", "pieces", "together", "largest"};
    mr_table table = {MR_COUNT(headings), headings, NULL, {0}};
    const groups list = free_groups(ctx, m);
    mr_sink_print(sink, "Why free memory did not serve it\n");
    put_verdict(ctx, m, &list, sink);
    put_device(ctx, m, sink);
    mr_sink_print(sink, "\n");
    if (!list.n) return;
    for (uint32_t i = 0; i < list.n; i++) {
        const group *g = &list.at[i];
        MR_PUSH(ctx, &table.cells, name_group(ctx, m, g));
        MR_PUSH(ctx, &table.cells, mr_printf(ctx, "%" PRIu32, g->sum.n));
        MR_PUSH(ctx, &table.cells, mr_show_bytes(ctx, g->sum.bytes));
        MR_PUSH(ctx, &table.cells, mr_show_bytes(ctx, g->sum.largest));
    }
    mr_table_text(ctx, &table, "  ", sink);
    mr_sink_print(sink, "\n");
    put_classes(ctx, m, sink);
}

/* ---- what pins segments ------------------------------------------------------------------ */

typedef struct pinned { /* a segment that is partly free */
    uint32_t first, n;  /* its pieces */
    sum used, unused;
} pinned;

typedef MR_VEC(pinned) pinneds;

static int by_unused(const void *a, const void *b)
{
    const pinned *x = a, *y = b;
    if (x->unused.bytes != y->unused.bytes) return x->unused.bytes > y->unused.bytes ? -1 : 1;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Those that are partly free; *whole gets the sum of those that are free altogether. */
static pinneds find_pinned(mr_ctx *ctx, const mr_moment *m, sum *whole)
{
    pinneds list = {0};
    for (uint32_t i = 0, end; i < m->left.n; i = end) {
        pinned p = {.first = i};
        for (end = i; end < m->left.n && m->left.at[end].segment == m->left.at[i].segment;
             end++)
            add(m->left.at[end].storage == MR_NONE ? &p.unused : &p.used,
                m->left.at[end].bytes);
        p.n = end - i;
        if (!p.used.n) add(whole, p.unused.bytes);
        if (p.used.n && p.unused.n) MR_PUSH(ctx, &list, p);
    }
    if (list.n) qsort(list.at, list.n, sizeof *list.at, by_unused);
    return list;
}

static int by_bytes(const void *a, const void *b)
{
    const mr_piece *x = *(const mr_piece *const *)a, *y = *(const mr_piece *const *)b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x < y ? -1 : x > y;
}

/* The largest of these pieces that are in use. */
static void put_holders(mr_ctx *ctx, const mr_moment *m, uint32_t first, uint32_t n,
                        uint32_t most, mr_sink *sink)
{
    MR_VEC(const mr_piece *) used = {0};
    for (uint32_t i = first; i < first + n; i++)
        if (m->left.at[i].storage != MR_NONE) MR_PUSH(ctx, &used, &m->left.at[i]);
    if (used.n) qsort(used.at, used.n, sizeof *used.at, by_bytes);
    for (uint32_t k = 0; k < used.n && k < most; k++)
        mr_sink_print(sink, "      %12s  %s%s\n", mr_show_bytes(ctx, used.at[k]->bytes),
                      mr_show_maker(ctx, m->makers, used.at[k]->storage),
                      used.at[k]->pending ? " (freed, waiting for another stream)" : "");
    if (used.n > most)
        mr_sink_print(sink, "      %12s  and %" PRIu32 " more\n", "", used.n - most);
}

static void put_pinned(mr_ctx *ctx, const mr_moment *m, const mr_args *args, mr_sink *sink)
{
    enum { SHOWN = 3 };
    sum all = {0}, used = {0}, whole = {0};
    const pinneds list = find_pinned(ctx, m, &whole);
    if (whole.n)
        mr_sink_print(sink,
                      "Segments that are free altogether\n  %s in %s, which nothing pins\n\n",
                      mr_show_bytes(ctx, whole.bytes),
                      mr_show_count(ctx, whole.n, "segment", "segments"));
    if (!list.n) return;
    for (uint32_t i = 0; i < list.n; i++) {
        add(&all, list.at[i].unused.bytes);
        add(&used, list.at[i].used.bytes);
    }
    mr_sink_print(sink, "Segments that are partly free cannot be given back whole\n");
    mr_sink_print(
        sink, "  %s in %s, held by %s in use; the worst:\n", mr_show_bytes(ctx, all.bytes),
        mr_show_count(ctx, all.n, "segment", "segments"), mr_show_bytes(ctx, used.bytes));
    const uint32_t most = args->top < 5 ? (uint32_t)args->top : 5;
    for (uint32_t i = 0; i < list.n && i < most; i++) {
        const pinned *p = &list.at[i];
        const mr_segment *s = &m->answer->placement.segments.at[m->left.at[p->first].segment];
        mr_sink_print(sink, "    segment at 0x%" PRIx64 ": %s free in %s, %s in use by %s\n",
                      s->address, mr_show_bytes(ctx, p->unused.bytes),
                      mr_show_count(ctx, p->unused.n, "piece", "pieces"),
                      mr_show_bytes(ctx, p->used.bytes),
                      mr_show_count(ctx, p->used.n, "block", "blocks"));
        put_holders(ctx, m, p->first, p->n, SHOWN, sink);
    }
    mr_sink_print(sink, "\n");
}

/* ---- all of it at once ------------------------------------------------------------------- */

/* Memory that was there before anybody asked needs no reason for having been taken. */
static void put_in_use(mr_ctx *ctx, const mr_moment *m, const mr_args *args, mr_sink *sink)
{
    if (!m->answer->metrics.peak_allocated) return;
    mr_sink_print(sink, "Handed out, the largest\n");
    put_holders(ctx, m, 0, m->left.n, (uint32_t)args->top, sink);
    mr_sink_print(sink, "\n");
}

void mr_report_moment(mr_ctx *ctx, const mr_moment *moment, const mr_args *args, mr_sink *sink)
{
    if (moment->oom && moment->planned) {
        mr_sink_print(sink, "The whole step is laid out in one segment, which is taken before "
                            "anything is served: the\ndevice does not have that much.\n\n");
        return;
    }
    put_request(ctx, moment, args, sink);
    put_sums(ctx, moment, sink);
    if (moment->at_once) {
        put_in_use(ctx, moment, args, sink);
        return;
    }
    put_free(ctx, moment, sink);
    put_pinned(ctx, moment, args, sink);
}
