/* info -- what a recording holds, when its memory peaks and who takes it, and what it lacks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "report.h"

/* ---- what it holds ----------------------------------------------------------------------- */

static void put_about(const mr_trace *trace, mr_sink *sink)
{
    for (int i = 0; i < MR_ABOUT_N; i++)
        if (trace->about[i])
            mr_sink_print(sink, "  %-18s %s\n", mr_about_name((mr_about)i),
                          *trace->about[i] ? trace->about[i] : "defaults");
}

static uint32_t count_events(const mr_trace *trace, mr_event_kind kind)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < trace->events.n; i++) n += trace->events.at[i].kind == kind;
    return n;
}

static void put_events(mr_ctx *ctx, const mr_trace *trace, mr_sink *sink)
{
    static const struct {
        mr_event_kind kind;
        const char *one, *many;
    } kinds[] = {
        {MR_RUN, "op", "ops"},      {MR_ALLOC, "allocation", "allocations"},
        {MR_FREE, "free", "frees"}, {MR_DONE, "deferred free done", "deferred frees done"},
        {MR_DROP, "drop", "drops"}, {MR_FLUSH, "empty_cache", "empty_cache"},
        {MR_MARK, "mark", "marks"}};
    mr_sink_print(sink, "  %-18s %" PRIu32, "events", trace->events.n);
    const char *between = " (";
    for (size_t k = 0; k < MR_COUNT(kinds); k++) {
        const uint32_t n = count_events(trace, kinds[k].kind);
        if (!n) continue;
        mr_sink_print(sink, "%s%s", between,
                      mr_show_count(ctx, n, kinds[k].one, kinds[k].many));
        between = ", ";
    }
    mr_sink_print(sink, "%s", trace->events.n ? ")" : "");
    if (trace->times.n)
        mr_sink_print(sink, " over %s", mr_show_ns(ctx, trace->times.at[trace->times.n - 1]));
    mr_sink_print(sink, "\n");
}

static void put_numbers(const char *name, const uint64_t *at, uint32_t n, mr_sink *sink)
{
    enum { MOST = 12 };
    mr_sink_print(sink, "  %-18s %" PRIu32 ":", name, n);
    for (uint32_t i = 0; i < n && i < MOST; i++)
        mr_sink_print(sink, "%s%" PRIu64, i ? ", " : " ", at[i]);
    mr_sink_print(sink, "%s\n", n > MOST ? ", ..." : "");
}

static void put_contents(mr_ctx *ctx, const mr_scene *scene, mr_sink *sink)
{
    const mr_trace *t = &scene->trace;
    mr_sink_print(sink, "%s: %s\n", t->name,
                  t->has & MR_HAS_DATAFLOW ? "an operator trace" : "an allocation trace");
    put_about(t, sink);
    put_events(ctx, t, sink);
    mr_sink_print(sink, "  %-18s %s", "storages", mr_printf(ctx, "%" PRIu32, t->storages.n));
    if (t->tensors.n)
        mr_sink_print(sink, ", %s", mr_show_count(ctx, t->tensors.n, "tensor", "tensors"));
    mr_sink_print(sink, "\n");
    if (t->streams.n > 1) put_numbers("streams", t->streams.at, t->streams.n, sink);
    if (t->pools.n > 1) put_numbers("private pools", t->pools.at + 1, t->pools.n - 1, sink);
    mr_sink_print(sink, "\n");
}

/* ---- the peak ---------------------------------------------------------------------------- */

typedef struct live_set { /* what is live just after an event */
    bool *live;
    uint64_t bytes;
    uint32_t n;
} live_set;

static live_set live_after(mr_ctx *ctx, const mr_schedule *schedule, uint32_t events)
{
    const mr_trace *trace = schedule->trace;
    live_set set = {.live = MR_NEW_N(ctx, bool, trace->storages.n)};
    for (uint32_t s = 0; s < trace->storages.n; s++)
        set.live[s] =
            trace->storages.at[s].before && trace->storages.at[s].device == schedule->device;
    for (uint32_t i = 0; i < events; i++) {
        const mr_event e = schedule->events.at[i];
        if (e.kind > MR_DONE) continue;
        const mr_storage *s = &trace->storages.at[e.id];
        if (e.kind == MR_ALLOC) set.live[e.id] = !s->refused;
        else if (e.kind == MR_DONE || !s->deferred) set.live[e.id] = false;
    }
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        set.n += set.live[s];
        set.bytes += set.live[s] ? trace->storages.at[s].bytes : 0;
    }
    return set;
}

/* "step 1, backward": the marks that are open at an event. */
static const char *open_marks(mr_ctx *ctx, const mr_schedule *schedule, uint32_t event)
{
    const mr_trace *trace = schedule->trace;
    mr_words open = {0};
    for (uint32_t i = 0; i <= event && i < schedule->events.n; i++) {
        if (schedule->events.at[i].kind != MR_MARK) continue;
        const mr_mark *mark = &trace->marks.at[schedule->events.at[i].id];
        const bool begins = mark->kind == MR_STEP_BEGIN || mark->kind == MR_PHASE_BEGIN
                            || mark->kind == MR_REGION_BEGIN;
        if (begins) MR_PUSH(ctx, &open, mark->name);
        else if (mark->kind != MR_NOTE && open.n) open.n--;
    }
    const char *text = "";
    for (uint32_t i = 0; i < open.n; i++)
        text = mr_printf(ctx, "%s%s%s", text, i ? ", " : "", open.at[i]);
    return text;
}

static void put_peak(mr_ctx *ctx, const mr_schedule *schedule, const mr_history *history,
                     uint64_t peak, uint32_t at, mr_sink *sink)
{
    const mr_trace *trace = schedule->trace;
    const uint32_t event = mr_recorded_event(schedule, at);
    const char *marks = open_marks(ctx, schedule, at);
    mr_sink_print(sink, "  %-18s %s at event %" PRIu32, "peak requested",
                  mr_show_bytes(ctx, peak), event);
    if (trace->times.n) mr_sink_print(sink, " (%s)", mr_show_ns(ctx, trace->times.at[event]));
    if (*marks) mr_sink_print(sink, ", in %s", marks);
    mr_sink_print(sink, "\n");
    if (history && history->wrapped)
        mr_sink_print(sink, "  %-18s at least this: the recording lost its beginning\n", "");
}

static void put_ends(mr_ctx *ctx, const mr_schedule *schedule, mr_sink *sink)
{
    const live_set before = live_after(ctx, schedule, 0);
    const live_set after = live_after(ctx, schedule, schedule->events.n);
    mr_sink_print(sink, "  %-18s %s in %s\n", "live before", mr_show_bytes(ctx, before.bytes),
                  mr_show_count(ctx, before.n, "storage", "storages"));
    mr_sink_print(sink, "  %-18s %s in %s\n", "live after", mr_show_bytes(ctx, after.bytes),
                  mr_show_count(ctx, after.n, "storage", "storages"));
}

/* ---- who takes it ------------------------------------------------------------------------ */

typedef struct share {
    const char *who;
    mr_role role;
    uint64_t bytes;
    uint32_t n;
} share;

typedef MR_VEC(share) shares;

static int by_name(const void *a, const void *b)
{
    const share *x = a, *y = b;
    if (x->role != y->role) return x->role < y->role ? -1 : 1;
    return strcmp(x->who, y->who);
}

static int by_bytes(const void *a, const void *b)
{
    const share *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return by_name(a, b);
}

/* Adds up those of the same name and role; the largest first. */
static void merge(shares *list)
{
    if (!list->n) return;
    qsort(list->at, list->n, sizeof *list->at, by_name);
    uint32_t kept = 0;
    for (uint32_t i = 1; i < list->n; i++) {
        if (by_name(&list->at[kept], &list->at[i]) != 0) {
            list->at[++kept] = list->at[i];
            continue;
        }
        list->at[kept].bytes += list->at[i].bytes;
        list->at[kept].n += list->at[i].n;
    }
    list->n = kept + 1;
    qsort(list->at, list->n, sizeof *list->at, by_bytes);
}

static void put_shares(mr_ctx *ctx, const shares *list, uint32_t most, uint64_t whole,
                       const char *what, bool roles, mr_sink *sink)
{
    const char *const headings[] = {what, "storages", "bytes", "share", "role"};
    static const bool left[] = {true, false, false, false, true};
    mr_table table = {roles ? 5 : 4, headings, left, {0}};
    for (uint32_t i = 0; i < list->n && i < most; i++) {
        const share *s = &list->at[i];
        MR_PUSH(ctx, &table.cells, s->who);
        MR_PUSH(ctx, &table.cells, mr_printf(ctx, "%" PRIu32, s->n));
        MR_PUSH(ctx, &table.cells, mr_show_bytes(ctx, s->bytes));
        MR_PUSH(ctx, &table.cells,
                mr_printf(ctx, "%.1f%%", whole ? 100 * (double)s->bytes / (double)whole : 0));
        if (roles) MR_PUSH(ctx, &table.cells, mr_role_name(s->role));
    }
    mr_sink_print(sink, "\n");
    mr_table_text(ctx, &table, "  ", sink);
    if (list->n > most) mr_sink_print(sink, "  and %" PRIu32 " more\n", list->n - most);
}

static void put_takers(mr_ctx *ctx, const mr_schedule *schedule, const live_set *set,
                       const mr_makers *makers, uint32_t most, mr_sink *sink)
{
    const mr_trace *trace = schedule->trace;
    shares by_role = {0}, by_maker = {0};
    bool roles = false;
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        if (!set->live[s]) continue;
        const mr_storage *storage = &trace->storages.at[s];
        const mr_role role = (mr_role)storage->role;
        roles |= role != MR_ROLE_unknown;
        MR_PUSH(ctx, &by_role, (share){mr_role_plural(role), role, storage->bytes, 1});
        MR_PUSH(ctx, &by_maker,
                (share){mr_show_maker(ctx, makers, s), role, storage->bytes, 1});
    }
    merge(&by_role);
    merge(&by_maker);
    if (roles)
        put_shares(ctx, &by_role, MR_ROLE_N, set->bytes, "live at the peak", false, sink);
    put_shares(ctx, &by_maker, most, set->bytes, "largest at the peak, made by", roles, sink);
}

/* ---- what the allocator did -------------------------------------------------------------- */

static void put_history(mr_ctx *ctx, const mr_history *h, mr_sink *sink)
{
    uint32_t operations = 0;
    uint64_t held = 0;
    for (uint32_t i = 0; i < h->cmds.n; i++) {
        const mr_cmd *cmd = &h->cmds.at[i];
        const bool addresses =
            cmd->kind <= MR_RELEASE && h->segments.at[cmd->block.segment].expandable;
        operations += cmd->kind <= MR_UNMAP && !addresses;
    }
    for (uint32_t i = 0; i < h->start.n; i++) held += h->start.at[i].bytes;
    mr_sink_print(sink, "  %-18s %s; %s held before in %s\n", "allocator",
                  mr_show_count(ctx, operations, "segment operation", "segment operations"),
                  mr_show_bytes(ctx, held), mr_show_count(ctx, h->held, "segment", "segments"));
    mr_sink_print(sink, "  %-18s at least %s", "capacity", mr_show_bytes(ctx, h->capacity_low));
    if (h->capacity_high == UINT64_MAX)
        mr_sink_print(sink, "; no request failed, so there may be more\n");
    else
        mr_sink_print(sink, " (%" PRIu64 "), less than %s (%" PRIu64 "): a request failed\n",
                      h->capacity_low, mr_show_bytes(ctx, h->capacity_high), h->capacity_high);
}

static mr_status put_device(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                            const mr_makers *makers, uint32_t device, mr_sink *sink)
{
    const mr_history *history = mr_trace_history(&scene->trace, device);
    mr_schedule schedule;
    uint32_t at;
    MR_TRY(mr_schedule_make(ctx, &scene->trace, device, &schedule));
    const uint64_t peak = mr_schedule_peak(&schedule, &at);
    mr_sink_print(sink, "device %" PRIu32 "\n", device);
    put_peak(ctx, &schedule, history, peak, at, sink);
    put_ends(ctx, &schedule, sink);
    if (history) put_history(ctx, history, sink);
    live_set set = live_after(ctx, &schedule, schedule.events.n ? at + 1 : 0);
    if (set.bytes != peak)
        set = live_after(ctx, &schedule, 0); /* nothing rose above the start */
    put_takers(ctx, &schedule, &set, makers, (uint32_t)args->top, sink);
    mr_sink_print(sink, "\n");
    return MR_OK;
}

/* Of a device that only keeps what it had. */
static void put_idle(mr_ctx *ctx, const mr_scene *scene, mr_sink *sink)
{
    const mr_trace *trace = &scene->trace;
    uint32_t n;
    const uint32_t *devices = mr_trace_devices(ctx, trace, &n);
    for (uint32_t i = 0, shown = 0; i < n; i++) {
        uint64_t bytes = 0;
        uint32_t storages = 0;
        if (shown < scene->cuda_device_count && scene->cuda_devices[shown] == devices[i]) {
            shown++;
            continue;
        }
        for (uint32_t s = 0; s < trace->storages.n; s++) {
            if (trace->storages.at[s].device != devices[i]) continue;
            bytes += trace->storages.at[s].bytes;
            storages++;
        }
        mr_sink_print(sink, "device %" PRIu32 "\n  %-18s %s in %s, all the time\n\n", devices[i],
                      "live", mr_show_bytes(ctx, bytes),
                      mr_show_count(ctx, storages, "storage", "storages"));
    }
}

/* ---- what it lacks ----------------------------------------------------------------------- */

/* What PyTorch would record, and how, is of use to those who recorded with PyTorch. */
static void put_lacks(mr_ctx *ctx, const mr_trace *trace, mr_sink *sink)
{
    const char *framework = trace->about[MR_ABOUT_framework];
    const bool pytorch = framework && strcmp(framework, "pytorch") == 0;
    const struct {
        bool missing;
        const char *what, *how;
    } lacks[] = {
        {!(trace->has & MR_HAS_DATAFLOW),
         "ops and their tensors, which rewrites such as "
         "checkpointing work on; placements can be compared",
         ""},
        {!(trace->has & MR_HAS_HISTORY), "what the allocator did, which check needs",
         ": torch.cuda.memory._record_memory_history() before the steps, "
         "torch.cuda.memory._dump_snapshot(\"step.pickle\") after them"},
        {!trace->stacks.n && !trace->ops.n, "who asked for memory",
         ": torch.cuda.memory._record_memory_history(stacks=\"python\")"},
        {pytorch && !trace->about[MR_ABOUT_framework_version], "the release of PyTorch",
         ": predictions are those of the newest unless a spec names another, as in "
         "pytorch:version=2.4"},
        {pytorch && !trace->about[MR_ABOUT_allocator], "the settings of the allocator",
         ": PyTorch's defaults are assumed; --alloc-conf gives others"},
        {!trace->times.n && !(trace->has & MR_HAS_TIMES), "times", ""},
    };
    bool any = false;
    for (size_t i = 0; i < MR_COUNT(lacks); i++) {
        if (!lacks[i].missing) continue;
        if (!any) mr_sink_print(sink, "not recorded\n");
        any = true;
        const char *text = mr_printf(ctx, "%s%s", lacks[i].what, pytorch ? lacks[i].how : "");
        mr_sink_print(sink, "  - %s\n", mr_fold(ctx, text, 4));
    }
    if (trace->notes.n) mr_sink_print(sink, "%snotes\n", any ? "\n" : "");
    for (uint32_t i = 0; i < trace->notes.n; i++)
        mr_sink_print(sink, "  - %s\n", mr_fold(ctx, trace->notes.at[i], 4));
}

/* ---- the command ------------------------------------------------------------------------- */

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    (void)answer;
    mr_scene scene;
    mr_sink *sink;
    MR_TRY(mr_scene_read(ctx, args, &scene));
    MR_TRY(mr_sink_open(ctx, "-", &sink));
    put_contents(ctx, &scene, sink);
    const mr_makers *makers = mr_makers_new(ctx, &scene.trace);
    for (uint32_t i = 0; i < scene.cuda_device_count; i++)
        MR_TRY(put_device(ctx, args, &scene, makers, scene.cuda_devices[i], sink));
    if (args->cuda_device == MR_NONE) put_idle(ctx, &scene, sink);
    put_lacks(ctx, &scene.trace, sink);
    return mr_sink_commit(sink);
}

static const mr_option options[] = {
    MR_OPTION("top", 0, NUMBER, top, 1, 10000, "N", "how many of the largest to show (10)"),
    MR_OPTION_CUDA_DEVICE,
    MR_OPTION_CUT,
    MR_OPTIONS_READING,
    {0},
};

const mr_command mr_command_info = {
    .name = "info",
    .usage = "FILE",
    .summary = "shows what a recording holds, when its memory peaks, who takes it, and what is "
               "missing",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
