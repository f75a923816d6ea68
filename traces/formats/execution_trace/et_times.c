/* et_times -- how long ops took, from a profiler trace of the same program on a device.
 *
 * An op took what the kernels took that were launched inside of it.  Which op of the profile is
 * which of the execution trace follows from their order: names of ops that run one after another
 * are those of a step, and a profile mostly has several steps like it.
 */
#include "et_file.h"
#include "trace_event.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef struct launch {
    uint64_t at; /* ns */
    uint64_t ns; /* what it launched took */
    uint64_t correlation;
    uint32_t thread;
} launch;

typedef struct work {
    uint64_t correlation, ns;
} work;

typedef struct span {
    uint64_t from, to;
    uint64_t ns; /* of the kernels launched inside */
    uint32_t name, thread, number; /* number: as it stands in the file */
} span;

typedef struct profile {
    mr_ctx *ctx;
    json_items items;
    mr_names *names;
    mr_numbers threads;
    MR_VEC(launch) launches;
    MR_VEC(work) works;
    MR_VEC(span) spans;
} profile;

static bool is_aten(const char *name)
{
    return mr_begins(name, "aten::");
}

/* ---- the profile ------------------------------------------------------------------------- */

static mr_status read_event(profile *p)
{
    const json_t *item = p->items.item;
    const char *category = trace_event_text(item, "cat"),
               *name = trace_event_text(item, "name");
    const json_t *args = json_object_get(item, "args");
    const uint64_t correlation =
        (uint64_t)json_integer_value(json_object_get(args, "correlation"));
    const bool on_device = !strcmp(category, "kernel") || !strcmp(category, "gpu_memcpy")
                           || !strcmp(category, "gpu_memset");
    const bool op = !strcmp(category, "cpu_op") && is_aten(name);
    uint64_t at, took = 0;
    if (strcmp(trace_event_text(item, "ph"), "X") != 0) return MR_OK;
    if (!on_device && !op && strcmp(category, "cuda_runtime") != 0) return MR_OK;
    if (!trace_event_ns(item, "ts", &at)
        || (json_object_get(item, "dur") && !trace_event_ns(item, "dur", &took)))
        return json_items_fail(&p->items, "the event '%.60s' has no time, expected microseconds",
                               name);
    const uint32_t thread = trace_event_thread(p->ctx, item, &p->threads);
    if (on_device) MR_PUSH(p->ctx, &p->works, (work){correlation, took});
    else if (!op) MR_PUSH(p->ctx, &p->launches, (launch){at, 0, correlation, thread});
    else
        MR_PUSH(p->ctx, &p->spans,
                (span){at, at + took, 0, mr_names_add(p->ctx, p->names, name, strlen(name)),
                       thread, p->spans.n});
    return MR_OK;
}

static mr_status read_profile(profile *p)
{
    for (;;) {
        MR_TRY(json_items_next(&p->items));
        if (!p->items.item) return MR_OK;
        if (!json_is_object(p->items.item))
            return json_items_fail(&p->items, "an event is no object, expected one");
        MR_TRY(read_event(p));
    }
}

/* ---- kernels to ops ---------------------------------------------------------------------- */

static int by_correlation(const void *left, const void *right)
{
    const work *a = left, *b = right;
    return (a->correlation > b->correlation) - (a->correlation < b->correlation);
}

static int by_launch(const void *left, const void *right)
{
    const launch *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    return (a->at > b->at) - (a->at < b->at);
}

static void find_works(profile *p)
{
    const work *works = p->works.at;
    if (p->works.n) qsort(p->works.at, p->works.n, sizeof *works, by_correlation);
    for (uint32_t i = 0; i < p->launches.n; i++) {
        const work key = {p->launches.at[i].correlation, 0};
        const work *found =
            p->works.n ? bsearch(&key, works, p->works.n, sizeof *works, by_correlation) : NULL;
        if (found) p->launches.at[i].ns = found->ns;
    }
    if (p->launches.n)
        qsort(p->launches.at, p->launches.n, sizeof *p->launches.at, by_launch);
}

/* The first launch of the thread at that time or later. */
static uint32_t first_from(const profile *p, uint32_t thread, uint64_t at)
{
    uint32_t low = 0, high = p->launches.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        const launch *l = &p->launches.at[middle];
        if (l->thread < thread || (l->thread == thread && l->at < at)) low = middle + 1;
        else high = middle;
    }
    return low;
}

static void sum_works(profile *p)
{
    uint64_t *sum = MR_NEW_N(p->ctx, uint64_t, p->launches.n + 1);
    for (uint32_t i = 0; i < p->launches.n; i++) sum[i + 1] = sum[i] + p->launches.at[i].ns;
    for (uint32_t i = 0; i < p->spans.n; i++) {
        span *s = &p->spans.at[i];
        s->ns = sum[first_from(p, s->thread, s->to)] - sum[first_from(p, s->thread, s->from)];
    }
}

/* ---- which op is which ------------------------------------------------------------------- */

/* As they begin; what takes longer stands around what begins at the same time. */
static int as_begun(const void *left, const void *right)
{
    const span *a = left, *b = right;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    if (a->to != b->to) return a->to > b->to ? -1 : 1;
    return (a->number > b->number) - (a->number < b->number);
}

/* By place in the sequence: how much of it stands before, once more (Knuth, Morris, Pratt). */
static const uint32_t *find_repeats(mr_ctx *ctx, const uint32_t *names, uint32_t n)
{
    uint32_t *repeats = MR_NEW_N(ctx, uint32_t, n + 1), k = 0;
    for (uint32_t i = 1; i < n; i++) {
        while (k && names[i] != names[k]) k = repeats[k];
        if (names[i] == names[k]) k++;
        repeats[i + 1] = k;
    }
    return repeats;
}

typedef MR_VEC(uint32_t) place_list;

/* Where the sequence stands in the profile, each apart from the others; returns the longest
 * part of it that does. */
static uint32_t find_steps(const profile *p, const uint32_t *names, uint32_t n,
                           place_list *places)
{
    const uint32_t *repeats = find_repeats(p->ctx, names, n);
    uint32_t k = 0, longest = 0;
    for (uint32_t i = 0; i < p->spans.n; i++) {
        while (k && p->spans.at[i].name != names[k]) k = repeats[k];
        if (p->spans.at[i].name == names[k]) k++;
        if (k > longest) longest = k;
        if (k < n) continue;
        MR_PUSH(p->ctx, places, i + 1 - n);
        k = 0;
    }
    return longest;
}

static int by_size(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

static uint64_t median(const profile *p, const place_list *places, uint32_t place,
                       uint64_t *room)
{
    for (uint32_t i = 0; i < places->n; i++) room[i] = p->spans.at[places->at[i] + place].ns;
    qsort(room, places->n, sizeof *room, by_size);
    return room[places->n / 2];
}

static mr_status set_times(et_file *f, profile *p)
{
    uint32_t *names = MR_NEW_N(f->ctx, uint32_t, f->nodes.n), n = 0;
    uint32_t *place = mr_none_of(f->ctx, f->nodes.n);
    place_list places = {0};
    for (uint32_t i = 0; i < f->nodes.n; i++)
        if (is_aten(et_name(f, &f->nodes.at[i]))) {
            place[i] = n;
            names[n++] = f->nodes.at[i].name;
        }
    if (p->spans.n) qsort(p->spans.at, p->spans.n, sizeof *p->spans.at, as_begun);
    const uint32_t longest = n ? find_steps(p, names, n, &places) : 0;
    if (!places.n)
        return mr_fail_at(f->ctx, MR_EINPUT, mr_source_name(p->items.source),
                          "no step of the profile runs the %" PRIu32 " ops of '%s' in their"
                          " order, expected one of the same program: the first %" PRIu32
                          " are found",
                          n, f->trace->name, longest);
    uint64_t *room = MR_NEW_N(f->ctx, uint64_t, places.n);
    for (uint32_t o = 0; o < f->trace->ops.n; o++)
        if (place[f->node_of[o]] != MR_NONE)
            f->trace->ops.at[o].ns = median(p, &places, place[f->node_of[o]], room);
    f->trace->has |= MR_HAS_TIMES;
    MR_PUSH(f->ctx, &f->trace->notes,
            mr_printf(f->ctx, "durations of ops are those of their kernels in %s, medians of"
                              " %" PRIu32 " steps",
                      mr_source_name(p->items.source), places.n));
    return MR_OK;
}

static void tell_device(const et_file *f, const profile *p)
{
    const json_t *devices = json_object_get(p->items.about, "deviceProperties");
    const char *name =
        json_string_value(json_object_get(json_array_get(devices, 0), "name"));
    if (name) f->trace->about[MR_ABOUT_device] = mr_strdup(f->ctx, name);
}

mr_status et_times(et_file *f, const char *path)
{
    mr_source *source;
    MR_TRY(mr_source_open(f->ctx, path, &source));
    profile *p = MR_NEW(f->ctx, profile);
    p->ctx = f->ctx;
    p->names = &f->names;
    p->items = (json_items){.ctx = f->ctx, .source = source, .key = "traceEvents"};
    mr_status status = read_profile(p);
    if (!status) {
        find_works(p);
        sum_works(p);
        tell_device(f, p);
        status = set_times(f, p);
    }
    json_items_close(&p->items);
    mr_source_close(source);
    return status;
}
