/* contents -- what a recording says of itself, what it holds, and what it lacks. */
#include <inttypes.h>
#include <string.h>

#include "info.h"

/* ---- what it says of itself -------------------------------------------------------------- */

/* Adds a field to a line of them, with a word in front. */
static const char *with(mr_ctx *ctx, const char *line, const char *between, const char *before,
                        const char *text)
{
    if (!text || !*text) return line;
    return mr_printf(ctx, "%s%s%s%s", line, *line ? between : "", before, text);
}

static void put_about(mr_ctx *ctx, const mr_trace *trace, mr_sink *sink)
{
    const char *const *about = trace->about, *model = "", *made = "";
    model = with(ctx, model, "", "", about[MR_ABOUT_model]);
    model = with(ctx, model, ", ", "batch ", about[MR_ABOUT_batch]);
    model = with(ctx, model, ", ", "sequence ", about[MR_ABOUT_sequence]);
    model = with(ctx, model, ", ", "image ", about[MR_ABOUT_image]);
    model = with(ctx, model, ", ", "", about[MR_ABOUT_precision]);
    model = with(ctx, model, ", ", *model ? "" : "optimizer ", about[MR_ABOUT_optimizer]);
    if (about[MR_ABOUT_steps] && strcmp(about[MR_ABOUT_steps], "1") != 0)
        model = with(ctx, model, ", ", "steps: ", about[MR_ABOUT_steps]);
    made = with(ctx, made, "", "", about[MR_ABOUT_framework]);
    made = with(ctx, made, " ", "", about[MR_ABOUT_framework_version]);
    made = with(ctx, made, ", ", "device ", about[MR_ABOUT_device]);
    made = with(ctx, made, ", ", "recorder ", about[MR_ABOUT_recorder]);
    made = with(ctx, made, " ", "", about[MR_ABOUT_recorder_version]);
    made = with(ctx, made, ", ", "", about[MR_ABOUT_date]);
    if (*model) mr_sink_print(sink, "  %-18s %s\n", "model", mr_fold(ctx, model, 21));
    if (*made) mr_sink_print(sink, "  %-18s %s\n", "recorded with", mr_fold(ctx, made, 21));
    if (about[MR_ABOUT_allocator])
        mr_sink_print(sink, "  %-18s %s\n", "allocator",
                      *about[MR_ABOUT_allocator] ? about[MR_ABOUT_allocator] : "defaults");
}

/* ---- what it holds ----------------------------------------------------------------------- */

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

void mr_report_contents(mr_ctx *ctx, const mr_trace *t, mr_sink *sink)
{
    mr_sink_print(sink, "%s: %s\n", mr_show_name(ctx, t->name),
                  t->has & MR_HAS_DATAFLOW ? "an operator trace" : "an allocation trace");
    put_about(ctx, t, sink);
    put_events(ctx, t, sink);
    mr_sink_print(sink, "  %-18s %" PRIu32, "storages", t->storages.n);
    if (t->tensors.n)
        mr_sink_print(sink, ", %s", mr_show_count(ctx, t->tensors.n, "tensor", "tensors"));
    mr_sink_print(sink, "\n");
    if (t->streams.n > 1) put_numbers("streams", t->streams.at, t->streams.n, sink);
    if (t->pools.n > 1) put_numbers("private pools", t->pools.at + 1, t->pools.n - 1, sink);
}

/* ---- what it lacks ----------------------------------------------------------------------- */

/* What ops and storages of a recording tell, in any of them. */
typedef struct told {
    bool roles, modules, work, times, workspaces, samples, backward;
} told;

static told look(const mr_trace *trace)
{
    told t = {.roles = mr_knows_roles(trace), .modules = mr_knows_modules(trace)};
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const mr_op *op = &trace->ops.at[o];
        t.work |= op->flops > 0;
        t.times |= op->ns > 0;
        t.workspaces |= op->workspace > 0;
        t.backward |= op->phase == MR_BACKWARD;
    }
    for (uint32_t s = 0; s < trace->storages.n; s++)
        t.samples |= trace->storages.at[s].per_sample > 0;
    return t;
}

typedef struct lack {
    bool missing;
    const char *what;
    const char *how; /* of use to those who recorded with PyTorch */
} lack;

typedef struct lacks {
    mr_ctx *ctx;
    mr_sink *sink;
    bool pytorch, any;
} lacks;

static void put_lack(lacks *l, const lack *one)
{
    if (!one->missing) return;
    if (!l->any) mr_sink_print(l->sink, "\nnot recorded\n");
    l->any = true;
    const char *text = mr_printf(l->ctx, "%s%s", one->what, l->pytorch ? one->how : "");
    mr_sink_print(l->sink, "  - %s\n", mr_fold(l->ctx, text, 4));
}

static void put_lacks_of_ops(lacks *l, const mr_trace *trace)
{
    const told t = look(trace);
    const bool ops = trace->has & MR_HAS_DATAFLOW;
    const lack list[] = {
        {!ops,
         "ops and their tensors, which rewrites such as checkpointing work on; placements can "
         "be compared",
         ": memreuse_record.record(\"step.csv.gz\", model=model, optimizer=optimizer) around "
         "the "
         "step, see traces/record/README.md"},
        {ops && !t.roles, "roles: which memory is parameters, activations, optimizer state",
         ""},
        {ops && !t.modules, "modules of the ops", ""},
        {ops && t.backward && !(trace->has & MR_HAS_SAVED),
         "what is saved for the backward pass", ""},
        {ops && !t.work, "floating point operations", ""},
        {ops && !t.samples, "bytes per sample, which other batch sizes need",
         ": record the step at several batch sizes, as traces/record/record.py does"},
        {ops && !t.workspaces, "memory that ops take and give back inside (workspaces)",
         ": the recorder sees it on a GPU"},
        {ops && !t.times, "durations of ops", ": the recorder measures them on a GPU"},
    };
    for (size_t i = 0; i < MR_COUNT(list); i++) put_lack(l, &list[i]);
}

static void put_lacks_of_allocator(lacks *l, const mr_trace *trace)
{
    const bool ops = trace->has & MR_HAS_DATAFLOW;
    const lack list[] = {
        {!(trace->has & MR_HAS_HISTORY), "what the allocator did, which check needs",
         ": torch.cuda.memory._record_memory_history() before the steps, "
         "torch.cuda.memory._dump_snapshot(\"step.pickle\") after them"},
        {!trace->stacks.n && !trace->ops.n, "who asked for memory",
         ": torch.cuda.memory._record_memory_history(stacks=\"python\")"},
        {l->pytorch && !trace->about[MR_ABOUT_framework_version], "the release of PyTorch",
         ": predictions are those of the newest unless a spec names another, as in "
         "pytorch:version=2.4"},
        {l->pytorch && !trace->about[MR_ABOUT_allocator], "the settings of the allocator",
         ": PyTorch's defaults are assumed; --alloc-conf gives others"},
        {!ops && !trace->times.n, "times", ""},
    };
    for (size_t i = 0; i < MR_COUNT(list); i++) put_lack(l, &list[i]);
}

void mr_report_lacks(mr_ctx *ctx, const mr_trace *trace, mr_sink *sink)
{
    const char *framework = trace->about[MR_ABOUT_framework];
    lacks l = {ctx, sink, framework && strcmp(framework, "pytorch") == 0, false};
    put_lacks_of_ops(&l, trace);
    put_lacks_of_allocator(&l, trace);
    if (trace->notes.n) mr_sink_print(sink, "\nnotes\n");
    for (uint32_t i = 0; i < trace->notes.n; i++)
        mr_sink_print(sink, "  - %s\n", mr_fold(ctx, trace->notes.at[i], 4));
}
