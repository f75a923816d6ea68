/* info -- what a recording holds, when its memory peaks and who takes it, and what it lacks. */
#include <inttypes.h>
#include <string.h>

#include "info.h"

/* ---- the moment -------------------------------------------------------------------------- */

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

/* " at event 28 (3.00 us), in step 1, backward" */
static void put_place(mr_ctx *ctx, const mr_state *state, mr_sink *sink)
{
    const mr_schedule *schedule = &state->schedule;
    const uint32_t at = state->when.events ? state->when.events - 1 : 0;
    const uint32_t event = mr_recorded_event(schedule, at);
    const char *marks = open_marks(ctx, schedule, at);
    mr_sink_print(sink, " at event %" PRIu32, event);
    if (schedule->trace->times.n)
        mr_sink_print(sink, " (%s)", mr_show_ns(ctx, schedule->trace->times.at[event]));
    if (*marks) mr_sink_print(sink, ", in %s", marks);
    mr_sink_print(sink, "\n");
}

static uint32_t next_op(const mr_schedule *schedule, uint32_t event)
{
    while (event < schedule->events.n && schedule->events.at[event].kind != MR_RUN) event++;
    return event < schedule->events.n ? schedule->events.at[event].id : MR_NONE;
}

/* The request behind which most was live. */
static void put_cause(mr_ctx *ctx, const mr_state *state, mr_sink *sink)
{
    const mr_schedule *schedule = &state->schedule;
    const mr_trace *trace = schedule->trace;
    if (!state->when.events) return;
    const mr_event event = schedule->events.at[state->when.events - 1];
    if (event.kind != MR_ALLOC) return;
    const uint32_t op = next_op(schedule, state->when.events);
    const bool made = op != MR_NONE && state->ledger.maker[event.id] == op;
    const bool asked = trace->storages.at[event.id].stack != MR_NONE;
    mr_sink_print(sink, "  %-18s %s", "raised by",
                  mr_show_bytes(ctx, trace->storages.at[event.id].bytes));
    if (made) mr_sink_print(sink, " for %s", mr_show_op(ctx, trace, op));
    else if (asked) mr_sink_print(sink, " for %s", mr_show_maker(ctx, state->makers, event.id));
    if (made && *trace->ops.at[op].module)
        mr_sink_print(sink, " in %s", trace->ops.at[op].module);
    mr_sink_print(sink, "\n");
}

/* Ops that take memory inside, which is beside what lives between them. */
static uint32_t count_workspaces(const mr_trace *trace, uint64_t *largest)
{
    uint32_t n = 0;
    *largest = 0;
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        n += trace->ops.at[o].workspace > 0;
        if (trace->ops.at[o].workspace > *largest) *largest = trace->ops.at[o].workspace;
    }
    return n;
}

static void put_moment(mr_ctx *ctx, const mr_state *state, const mr_history *history,
                       mr_sink *sink)
{
    const bool peak = strcmp(state->when.title, "at the peak") == 0;
    uint64_t largest;
    const bool more = count_workspaces(&state->scene->trace, &largest) > 0;
    mr_sink_print(sink, "  %-18s %s",
                  !peak  ? "live"
                  : more ? "peak of tensors"
                         : "peak requested",
                  mr_show_bytes(ctx, state->ledger.live.bytes));
    if (!peak) mr_sink_print(sink, " %s,", state->when.title);
    put_place(ctx, state, sink);
    if (peak && history && history->wrapped)
        mr_sink_print(sink, "  %-18s at least this: the recording lost its beginning\n", "");
    put_cause(ctx, state, sink);
}

static void put_ends(mr_ctx *ctx, const mr_schedule *schedule, mr_sink *sink)
{
    const mr_live before = mr_live_after(ctx, schedule, 0);
    const mr_live after = mr_live_after(ctx, schedule, schedule->events.n);
    mr_sink_print(sink, "  %-18s %s in %s\n", "live before", mr_show_bytes(ctx, before.bytes),
                  mr_show_count(ctx, before.n, "storage", "storages"));
    mr_sink_print(sink, "  %-18s %s in %s\n", "live after", mr_show_bytes(ctx, after.bytes),
                  mr_show_count(ctx, after.n, "storage", "storages"));
}

static void put_work(mr_ctx *ctx, const mr_state *state, mr_sink *sink)
{
    const mr_when *when = &state->when;
    const mr_cost c = mr_account_modules(ctx, &state->ledger).at[0].all;
    const char *text = mr_show_count(ctx, c.ops, "op", "ops");
    if (!state->schedule.trace->ops.n) return;
    if (c.ns) text = mr_printf(ctx, "%s, %s", text, mr_show_ns(ctx, c.ns));
    if (c.flops)
        text = mr_printf(ctx, "%s, %s%sFLOP", text, mr_show_work(ctx, c.flops),
                         c.flops < 1000 ? " " : "");
    if (c.read + c.written)
        text = mr_printf(ctx, "%s, %s read and written", text,
                         mr_show_bytes(ctx, c.read + c.written));
    if (c.saved)
        text = mr_printf(ctx, "%s, %s saved for backward", text, mr_show_bytes(ctx, c.saved));
    const char *head =
        when->step_name ? mr_printf(ctx, "work of step %s", when->step_name) : "work";
    mr_sink_print(sink, "  %-18s %s\n", head, mr_fold(ctx, text, 21));
}

/* Placements have both, so theirs is the larger peak. */
static mr_status put_workspaces(mr_ctx *ctx, const mr_state *state, mr_sink *sink)
{
    mr_trace trace = state->scene->trace;
    mr_schedule schedule;
    uint64_t largest;
    uint32_t at;
    const uint32_t n = count_workspaces(&trace, &largest);
    if (!n) return MR_OK;
    MR_TRY(mr_schedule_make(ctx, &trace, state->schedule.device, &schedule));
    mr_schedule_workspaces(ctx, &trace, &schedule);
    const char *text =
        mr_printf(ctx,
                  "%s at the peak, as compare counts: %s up to %s inside, which this page "
                  "leaves out",
                  mr_show_bytes(ctx, mr_schedule_peak(&schedule, &at)),
                  mr_show_count(ctx, n, "op takes", "ops take"), mr_show_bytes(ctx, largest));
    mr_sink_print(sink, "  %-18s %s\n", "with workspaces", mr_fold(ctx, text, 21));
    return MR_OK;
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

/* ---- one device -------------------------------------------------------------------------- */

static mr_status look(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                      const mr_makers *makers, uint32_t device, mr_state *out)
{
    *out = (mr_state){.scene = scene, .makers = makers};
    MR_TRY(mr_schedule_make(ctx, &scene->trace, device, &out->schedule));
    MR_TRY(mr_when_find(ctx, &out->schedule, args->at, &out->when));
    out->ledger = mr_ledger_make(ctx, &out->schedule, out->when.step, out->when.events);
    return MR_OK;
}

static mr_status put_list(mr_ctx *ctx, const mr_state *state, const char *name,
                          const char *title, mr_extent extent, mr_sink *sink)
{
    mr_list list;
    MR_TRY(mr_list_make(ctx, state, name, extent, &list));
    list.title = title;
    mr_sink_print(sink, "\n");
    mr_list_write(ctx, &list, "table", NULL, sink);
    return MR_OK;
}

/* A page about one device. */
static mr_status put_page(mr_ctx *ctx, const mr_args *args, const mr_state *state,
                          mr_sink *sink)
{
    const mr_trace *trace = state->schedule.trace;
    const mr_history *history = mr_trace_history(trace, state->schedule.device);
    const mr_extent few = {(uint32_t)args->rows, (uint32_t)args->depth, 10};
    mr_sink_print(sink, "\ndevice %" PRIu32 "\n", state->schedule.device);
    put_moment(ctx, state, history, sink);
    put_ends(ctx, &state->schedule, sink);
    put_work(ctx, state, sink);
    MR_TRY(put_workspaces(ctx, state, sink));
    if (history) put_history(ctx, history, sink);
    const char *title = state->when.title;
    if (mr_knows_roles(trace))
        MR_TRY(
            put_list(ctx, state, "role", mr_printf(ctx, "live %s, by role", title), few, sink));
    if (mr_knows_modules(trace))
        MR_TRY(put_list(ctx, state, "module", mr_printf(ctx, "live %s, by module", title), few,
                        sink));
    return put_list(ctx, state, "maker", mr_printf(ctx, "largest %s, made by", title), few,
                    sink);
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
        mr_sink_print(sink, "\ndevice %" PRIu32 "\n  %-18s %s in %s, all the time\n",
                      devices[i], "live", mr_show_bytes(ctx, bytes),
                      mr_show_count(ctx, storages, "storage", "storages"));
    }
}

static mr_status put_pages(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                           const mr_makers *makers, mr_sink *sink)
{
    mr_report_contents(ctx, &scene->trace, sink);
    for (uint32_t i = 0; i < scene->cuda_device_count; i++) {
        mr_state state;
        MR_TRY(look(ctx, args, scene, makers, scene->cuda_devices[i], &state));
        MR_TRY(put_page(ctx, args, &state, sink));
    }
    if (args->cuda_device == MR_NONE) put_idle(ctx, scene, sink);
    mr_report_lacks(ctx, &scene->trace, sink);
    return MR_OK;
}

/* ---- one list ---------------------------------------------------------------------------- */

static void put_head(mr_ctx *ctx, const mr_args *args, const mr_state *state, mr_sink *sink)
{
    const mr_scene *scene = state->scene;
    mr_sink_print(sink, "%s", mr_show_name(ctx, scene->trace.name));
    if (scene->cuda_device_count > 1 || state->schedule.device)
        mr_sink_print(sink, ", device %" PRIu32, state->schedule.device);
    mr_sink_print(sink, ", by %s: %s live %s", args->by,
                  mr_show_bytes(ctx, state->ledger.live.bytes), state->when.title);
    if (state->when.step_name) mr_sink_print(sink, ", work of step %s", state->when.step_name);
    mr_sink_print(sink, "\n\n");
}

static bool for_people(const mr_args *args)
{
    return strcmp(args->format, "table") == 0 || strcmp(args->format, "md") == 0;
}

static mr_status put_lists(mr_ctx *ctx, const mr_args *args, const mr_scene *scene,
                           const mr_makers *makers, mr_sink *sink)
{
    const bool people = for_people(args);
    const uint32_t page = strcmp(args->by, "module") == 0 ? 60 : 20;
    const mr_extent extent = {(uint32_t)args->rows, (uint32_t)args->depth,
                              people ? page : UINT32_MAX};
    for (uint32_t i = 0; i < scene->cuda_device_count; i++) {
        mr_state state;
        mr_list list;
        MR_TRY(look(ctx, args, scene, makers, scene->cuda_devices[i], &state));
        MR_TRY(mr_list_make(ctx, &state, args->by, extent, &list));
        const uint32_t event = state.when.events ? state.when.events - 1 : 0;
        const mr_list_origin origin = {scene->trace.name, state.schedule.device,
                                       mr_recorded_event(&state.schedule, event), i == 0,
                                       i + 1 == scene->cuda_device_count};
        if (people && i) mr_sink_print(sink, "\n");
        if (people) put_head(ctx, args, &state, sink);
        mr_list_write(ctx, &list, args->format, &origin, sink);
    }
    return MR_OK;
}

/* ---- the command ------------------------------------------------------------------------- */

static mr_status run(mr_ctx *ctx, const mr_args *args, int *answer)
{
    (void)answer;
    mr_args chosen = *args;
    mr_scene scene;
    mr_sink *sink;
    if (args->depth && args->by && strcmp(args->by, "module") != 0
        && strcmp(args->by, "layer") != 0)
        return mr_fail(ctx, MR_EUSAGE, "--depth is for modules and layers, not for --by %s",
                       args->by);
    MR_TRY(mr_output_check(ctx, args->words.at[0], args->output));
    MR_TRY(mr_scene_read(ctx, args, &scene));
    const mr_makers *makers = mr_makers_new(ctx, &scene.trace);
    const bool page = !args->by && strcmp(args->format, "table") == 0;
    if (!args->by) chosen.by = mr_knows_roles(&scene.trace) ? "role" : "maker";
    MR_TRY(mr_sink_open(ctx, args->output ? args->output : "-", &sink));
    if (for_people(args)) mr_sink_for_people(sink);
    const mr_status status = page ? put_pages(ctx, &chosen, &scene, makers, sink)
                                  : put_lists(ctx, &chosen, &scene, makers, sink);
    MR_TRY(status);
    return mr_sink_commit(sink);
}

static const mr_option options[] = {
    MR_OPTION("by", 'b', CHOICE, by, 0, 0, MR_LIST_NAMES,
              "one list in full instead of a page of all"),
    MR_OPTION("at", 0, TEXT, at, 0, 0, "WHEN", "the moment to look at (peak)"),
    MR_OPTION("depth", 0, NUMBER, depth, 1, 64, "N",
              "modules and layers: how deep to go into the tree"),
    MR_OPTION("top", 0, NUMBER, rows, 1, 1000000, "N", "show that many rows of a list"),
    MR_OPTION("format", 'f', CHOICE, format, 0, 0, "table|csv|json|md",
              "how to print a list (table)"),
    MR_OPTION_OUTPUT,
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
    .more =
        "--by  role     parameters, gradients, optimizer state, activations, ...\n"
        "      module   the tree of modules: parameters, bytes saved for the backward pass, "
        "work\n"
        "      op       kinds of ops: how many, work, bytes they move, make and save\n"
        "      layer    each call of a layer, such as blocks.7: bytes it saves, by sample too\n"
        "      maker    who asked for memory; layers of a stack count together\n"
        "      tensor   the largest, with the ops that made, last read and saved them\n"
        "--at  peak     when most is live; start and end of the recording\n"
        "      2        the peak of step 2\n"
        "      op:123   just after op 123, whose inputs still live; event:456 after that "
        "event\n"
        "      forward-end, backward-begin, 2:forward-end   where a phase ends or begins\n"
        "Ops, work and saved bytes are those of the step that the moment lies in.",
    .options = options,
    .words_min = 1,
    .words_max = 1,
    .run = run,
};
