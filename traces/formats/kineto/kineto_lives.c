/* kineto_lives -- memory events to storages: which one a free ends, and what was there before.
 *
 * Events come in the order of threads, times in microseconds may be equal: where the file has
 * the totals of the device, every event must lead from one to the next, which settles the order
 * and shows whether any are missing.
 */
#include "kineto_trace.h"
#include "param.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { AT_ONCE = 256 }; /* events of one time that are looked at, for clocks that stand still */

typedef struct kineto_device {
    uint64_t total;  /* handed out, after the last counted event */
    uint64_t start;  /* handed out before the first event */
    uint64_t freed;  /* of it, what was given back */
    uint64_t held;   /* most that was held */
    uint64_t gaps;   /* totals that do not follow from the one before */
    bool counted, used;
} kineto_device;

typedef struct lives {
    kineto_trace *k;
    kineto_device *devices; /* by number, up to n_devices */
    uint32_t n_devices;
    mr_names places;                /* device and address, or device and bytes */
    MR_VEC(uint32_t) live;          /* by place: storage, or the latest of that size; MR_NONE */
    MR_VEC(uint32_t) below;         /* by storage: the one of that size before */
    MR_VEC(uint64_t) times;         /* of the events of the trace */
    uint32_t lost, unplaced;        /* frees that are missing; events without an address */
} lives;

/* ---- order ------------------------------------------------------------------------------- */

static int as_recorded(const void *left, const void *right)
{
    const kineto_memory *const *a = left, *const *b = right;
    if ((*a)->ns != (*b)->ns) return (*a)->ns < (*b)->ns ? -1 : 1;
    return (*a > *b) - (*a < *b);
}

static void sort(kineto_trace *k)
{
    const uint32_t n = k->memory.n;
    const kineto_memory **order = MR_NEW_N(k->ctx, const kineto_memory *, n);
    kineto_memory *sorted = MR_NEW_N(k->ctx, kineto_memory, n);
    for (uint32_t i = 0; i < n; i++) order[i] = &k->memory.at[i];
    qsort(order, n, sizeof *order, as_recorded);
    for (uint32_t i = 0; i < n; i++) sorted[i] = *order[i];
    k->memory.at = sorted;
    k->memory.cap = n;
}

static bool follows(const kineto_device *d, const kineto_memory *m)
{
    return !d->counted || m->total == d->total + (uint64_t)m->bytes;
}

/* A total below what was just taken says nothing about what was there before. */
static void count(kineto_device *d, const kineto_memory *m)
{
    const bool short_of = m->bytes > 0 && m->total < (uint64_t)m->bytes;
    if (!d->counted) d->start = short_of ? 0 : m->total - (uint64_t)m->bytes;
    else if (!follows(d, m)) d->gaps++;
    d->total = m->total;
    d->counted = true;
    if (m->held > d->held) d->held = m->held;
}

/* Of the events of one time, the next is the first that follows from the total so far. */
static void chain(lives *l)
{
    kineto_memory *at = l->k->memory.at;
    for (uint32_t i = 0; i < l->k->memory.n; i++) {
        const uint32_t left = l->k->memory.n - i, until = i + (left < AT_ONCE ? left : AT_ONCE);
        for (uint32_t j = i; j < until && at[j].ns == at[i].ns; j++) {
            if (!at[j].counted || !follows(&l->devices[at[j].device], &at[j])) continue;
            const kineto_memory next = at[j];
            memmove(at + i + 1, at + i, (j - i) * sizeof *at);
            at[i] = next;
            break;
        }
        if (at[i].counted) count(&l->devices[at[i].device], &at[i]);
    }
}

/* ---- storages ---------------------------------------------------------------------------- */

static uint32_t place_of(lives *l, const kineto_memory *m)
{
    const uint64_t bytes = m->bytes < 0 ? -(uint64_t)m->bytes : (uint64_t)m->bytes;
    const uint64_t key[] = {m->device, m->placed, m->placed ? m->address : bytes};
    const uint32_t place = mr_names_add(l->k->ctx, &l->places, key, sizeof key);
    if (place == l->live.n) MR_PUSH(l->k->ctx, &l->live, MR_NONE);
    return place;
}

static void happen(lives *l, mr_event_kind kind, uint32_t id, uint64_t ns)
{
    MR_PUSH(l->k->ctx, &l->k->trace->events, (mr_event){kind, id});
    MR_PUSH(l->k->ctx, &l->times, ns);
}

static uint32_t new_storage(lives *l, const kineto_memory *m, uint64_t bytes)
{
    MR_PUSH(l->k->ctx, &l->k->trace->storages,
            (mr_storage){.bytes = bytes,
                         .stack = m->stack,
                         .device = (uint16_t)m->device,
                         .refused = m->refused});
    MR_PUSH(l->k->ctx, &l->below, MR_NONE);
    return l->k->trace->storages.n - 1;
}

static void end_life(lives *l, uint32_t place, uint64_t ns)
{
    const uint32_t storage = l->live.at[place];
    happen(l, MR_FREE, storage, ns);
    l->live.at[place] = l->below.at[storage];
}

static void begin_life(lives *l, const kineto_memory *m)
{
    const uint32_t storage = new_storage(l, m, (uint64_t)m->bytes);
    if (!m->refused) {
        const uint32_t place = place_of(l, m);
        if (m->placed && l->live.at[place] != MR_NONE) {
            end_life(l, place, m->ns);
            l->lost++;
        }
        l->below.at[storage] = l->live.at[place];
        l->live.at[place] = storage;
        l->unplaced += !m->placed;
    }
    happen(l, MR_ALLOC, storage, m->ns);
}

/* What is freed unknown was there before. */
static mr_status give_back(lives *l, const kineto_memory *m)
{
    const uint64_t bytes = -(uint64_t)m->bytes;
    const uint32_t place = place_of(l, m);
    if (l->live.at[place] == MR_NONE) {
        const uint32_t storage = new_storage(l, m, bytes);
        l->k->trace->storages.at[storage].before = true;
        l->live.at[place] = storage;
        l->devices[m->device].freed += bytes;
    }
    const uint64_t taken = l->k->trace->storages.at[l->live.at[place]].bytes;
    if (taken != bytes)
        return mr_fail_at(l->k->ctx, MR_EINPUT, mr_source_name(l->k->items.source),
                          "%" PRIu64 " bytes at address 0x%" PRIx64 " are freed, expected the"
                          " %" PRIu64 " that were taken there",
                          bytes, m->address, taken);
    end_life(l, place, m->ns);
    return MR_OK;
}

/* Parameters and the like, of which the profiler saw nothing but the sum. */
static void add_rest(lives *l, uint32_t number)
{
    const kineto_device *d = &l->devices[number];
    const kineto_memory none = {.device = number, .stack = MR_NONE};
    mr_ctx *ctx = l->k->ctx;
    mr_trace *trace = l->k->trace;
    if (d->counted && d->start > d->freed) {
        const uint64_t rest = d->start - d->freed;
        const uint32_t storage = new_storage(l, &none, rest);
        trace->storages.at[storage].before = trace->storages.at[storage].after = true;
        MR_PUSH(ctx, &trace->notes,
                mr_printf(ctx, "device %u: the %s that were there before the recording and stayed"
                               " are one block here",
                          number, mr_say_size(ctx, rest)));
    }
    if (d->held)
        MR_PUSH(ctx, &trace->notes,
                mr_printf(ctx, "device %u: the allocator of the recorded run held %s at most",
                          number, mr_say_size(ctx, d->held)));
    if (d->gaps)
        MR_PUSH(ctx, &trace->notes,
                mr_printf(ctx, "device %u: %" PRIu64 " times the memory in use does not follow"
                               " from the event before: events of threads that were not profiled"
                               " are missing",
                          number, d->gaps));
}

/* ---- the trace --------------------------------------------------------------------------- */

/* The host's memory counts only where there is no other. */
static bool choose_memory(kineto_trace *k)
{
    uint32_t kept = 0;
    bool host = true;
    for (uint32_t i = 0; i < k->memory.n; i++) host &= k->memory.at[i].host;
    for (uint32_t i = 0; i < k->memory.n; i++)
        if (k->memory.at[i].host == host) k->memory.at[kept++] = k->memory.at[i];
    k->memory.n = kept;
    return host;
}

static void add_marks(lives *l, const kineto_marks *marks, uint32_t *next, uint64_t until)
{
    for (; *next < marks->all.n && marks->all.at[*next].ns <= until; ++*next) {
        MR_PUSH(l->k->ctx, &l->k->trace->marks, marks->all.at[*next].mark);
        happen(l, MR_MARK, l->k->trace->marks.n - 1, marks->all.at[*next].ns);
    }
}

static void count_times_from_zero(lives *l)
{
    for (uint32_t i = 0; i < l->times.n; i++)
        MR_PUSH(l->k->ctx, &l->k->trace->times, l->times.at[i] - l->times.at[0]);
}

static void end(lives *l, bool host)
{
    mr_trace *trace = l->k->trace;
    mr_ctx *ctx = l->k->ctx;
    for (uint32_t place = 0; place < l->live.n; place++)
        for (uint32_t s = l->live.at[place]; s != MR_NONE; s = l->below.at[s])
            trace->storages.at[s].after = true;
    for (uint32_t d = 0; d < l->n_devices; d++) add_rest(l, d);
    count_times_from_zero(l);
    MR_PUSH(ctx, &trace->notes,
            host ? "the profile is of a run on the CPU, whose memory is taken for a device's"
                 : "sizes are those of blocks, after rounding: profiles do not have what was"
                   " asked for; nor do they have streams");
    if (l->unplaced)
        MR_PUSH(ctx, &trace->notes,
                "events have no addresses, as before PyTorch 1.11: a free ends the latest block"
                " of its size");
    if (l->lost)
        MR_PUSH(ctx, &trace->notes,
                mr_printf(ctx, "%u blocks are taken where another one was: its free is not"
                               " recorded and stands right before",
                          l->lost));
}

mr_status kineto_lives(kineto_trace *k)
{
    lives l = {.k = k};
    kineto_marks marks = {0};
    uint32_t next = 0;
    const bool host = choose_memory(k);
    for (uint32_t i = 0; i < k->memory.n; i++)
        if (k->memory.at[i].device >= l.n_devices) l.n_devices = k->memory.at[i].device + 1;
    l.devices = MR_NEW_N(k->ctx, kineto_device, l.n_devices);
    sort(k);
    chain(&l);
    kineto_stacks(k);
    kineto_find_marks(k, &marks);
    for (uint32_t i = 0; i < k->memory.n; i++) {
        const kineto_memory *m = &k->memory.at[i];
        add_marks(&l, &marks, &next, m->ns);
        if (m->bytes > 0) begin_life(&l, m);
        else MR_TRY(give_back(&l, m));
    }
    add_marks(&l, &marks, &next, UINT64_MAX);
    end(&l, host);
    return MR_OK;
}
