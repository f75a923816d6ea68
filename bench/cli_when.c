/* when -- which moment of a recording the text behind --at means. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "info.h"

/* ---- steps ------------------------------------------------------------------------------- */

typedef struct numbered {
    mr_stretch stretch;
    const char *name; /* "2": its number in the mark, else how many marks there were */
} numbered;

typedef MR_VEC(numbered) steps;

static const char *number_in(const char *name)
{
    const char *digits = name + strcspn(name, "0123456789");
    return *digits && !digits[strspn(digits, "0123456789")] ? digits : NULL;
}

/* From one mark to the next, so that all events belong to a step. */
static steps find_steps(mr_ctx *ctx, const mr_schedule *schedule)
{
    steps list = {0};
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        if (schedule->events.at[e].kind != MR_MARK) continue;
        const mr_mark *mark = &schedule->trace->marks.at[schedule->events.at[e].id];
        if (mark->kind != MR_STEP_BEGIN) continue;
        const char *name = number_in(mark->name);
        if (!name) name = mr_printf(ctx, "%" PRIu32, list.n + 1);
        if (list.n) list.at[list.n - 1].stretch.end = e;
        MR_PUSH(ctx, &list, (numbered){{list.n ? e : 0, schedule->events.n}, name});
    }
    if (!list.n) MR_PUSH(ctx, &list, (numbered){{0, schedule->events.n}, "1"});
    return list;
}

static const numbered *step_at(const steps *list, uint32_t event)
{
    uint32_t i = 0;
    while (i + 1 < list->n && event >= list->at[i].stretch.end) i++;
    return &list->at[i];
}

static mr_status find_step(mr_ctx *ctx, const mr_schedule *schedule, const steps *list,
                           const char *name, size_t n, const numbered **out)
{
    for (uint32_t i = 0; i < list->n; i++) {
        *out = &list->at[i];
        if (strlen((*out)->name) == n && strncmp((*out)->name, name, n) == 0) return MR_OK;
    }
    const char *first = list->at[0].name, *last = list->at[list->n - 1].name;
    return mr_fail(ctx, MR_EUSAGE, "--at: '%s' has no step %.*s, %s %s%s%s",
                   schedule->trace->name, (int)n, name,
                   list->n == 1 ? "its only one is" : "its steps are", first,
                   list->n == 1 ? "" : " to ", list->n == 1 ? "" : last);
}

/* ---- peaks ------------------------------------------------------------------------------- */

/* Number of events after which most is live inside a stretch. */
static uint32_t peak_of(mr_ctx *ctx, const mr_schedule *schedule, mr_stretch stretch)
{
    const mr_storage *storages = schedule->trace->storages.at;
    uint64_t live = mr_live_after(ctx, schedule, stretch.first).bytes, peak = live;
    uint32_t at = stretch.first;
    for (uint32_t e = stretch.first; e < stretch.end; e++) {
        const mr_event event = schedule->events.at[e];
        if (event.kind > MR_DONE || storages[event.id].refused) continue;
        if (event.kind == MR_FREE && storages[event.id].deferred) continue;
        if (event.kind == MR_ALLOC) live += storages[event.id].bytes;
        else live -= storages[event.id].bytes;
        if (live <= peak) continue;
        peak = live;
        at = e + 1;
    }
    return at;
}

/* ---- ops and events ---------------------------------------------------------------------- */

static bool parse_whole(const char *text, uint64_t *out)
{
    char *end;
    if (*text < '0' || *text > '9') return false;
    *out = strtoull(text, &end, 10);
    return !*end;
}

static mr_status after_op(mr_ctx *ctx, const mr_schedule *schedule, const char *text,
                          mr_when *out)
{
    const mr_trace *trace = schedule->trace;
    uint64_t number;
    if (!trace->ops.n)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "--at op:%s: '%s' has no ops; event:N is a moment "
                       "that it has",
                       text, trace->name);
    if (!parse_whole(text, &number) || number < 1 || number > trace->ops.n)
        return mr_fail(ctx, MR_EUSAGE, "--at: '%s' has no op %s, its ops are 1 to %" PRIu32,
                       trace->name, text, trace->ops.n);
    out->title = mr_printf(ctx, "after op %s", text);
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event event = schedule->events.at[e];
        if (event.kind == MR_RUN && event.id == number - 1) out->events = e + 1;
    }
    return MR_OK;
}

static mr_status after_event(mr_ctx *ctx, const mr_schedule *schedule, const char *text,
                             mr_when *out)
{
    const mr_trace *trace = schedule->trace;
    uint64_t number;
    if (!parse_whole(text, &number) || number >= trace->events.n)
        return mr_fail(ctx, MR_EUSAGE,
                       "--at: '%s' has no event %s, its events are 0 to %" PRIu32, trace->name,
                       text, trace->events.n - 1);
    out->title = mr_printf(ctx, "after event %s", text);
    uint32_t low = 0, high = schedule->events.n; /* those that are over are before `low` */
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (mr_recorded_event(schedule, middle) <= number) low = middle + 1;
        else high = middle;
    }
    out->events = low;
    return MR_OK;
}

/* ---- phases ------------------------------------------------------------------------------ */

typedef struct phase_edge { /* "forward-end" in parts */
    const char *name;
    size_t n;
    bool end;
} phase_edge;

static bool parse_edge(const char *text, phase_edge *out)
{
    const char *dash = strrchr(text, '-');
    if (!dash || dash == text) return false;
    *out = (phase_edge){text, (size_t)(dash - text), strcmp(dash, "-end") == 0};
    return out->end || strcmp(dash, "-begin") == 0;
}

static bool names(const phase_edge *edge, const char *name)
{
    return strlen(name) == edge->n && strncmp(name, edge->name, edge->n) == 0;
}

static bool is_marked(const mr_mark *mark, const phase_edge *edge)
{
    const mr_mark_kind phase = edge->end ? MR_PHASE_END : MR_PHASE_BEGIN;
    const mr_mark_kind region = edge->end ? MR_REGION_END : MR_REGION_BEGIN;
    return (mark->kind == phase || mark->kind == region) && names(edge, mark->name);
}

static uint32_t before_allocations(const mr_schedule *schedule, uint32_t event)
{
    while (event > 0 && schedule->events.at[event - 1].kind == MR_ALLOC) event--;
    return event;
}

/* Before its first op, or after its last one and what that lets go; MR_NONE: no such ops. */
static uint32_t edge_of_ops(const mr_schedule *schedule, mr_stretch step,
                            const phase_edge *edge)
{
    uint32_t at = MR_NONE;
    for (uint32_t e = step.first; e < step.end; e++) {
        const mr_event event = schedule->events.at[e];
        if (event.kind != MR_RUN) continue;
        if (!names(edge, mr_phase_name(schedule->trace->ops.at[event.id].phase))) continue;
        if (!edge->end) return before_allocations(schedule, e);
        at = e + 1;
    }
    while (at < step.end && schedule->events.at[at].kind != MR_ALLOC
           && schedule->events.at[at].kind != MR_RUN)
        at++;
    return at;
}

static mr_status find_edge(mr_ctx *ctx, const mr_schedule *schedule, mr_stretch step,
                           const phase_edge *edge, mr_when *out)
{
    out->title = mr_printf(ctx, "at the %s of %.*s", edge->end ? "end" : "beginning",
                           (int)edge->n, edge->name);
    for (uint32_t e = step.first; e < step.end; e++) {
        if (schedule->events.at[e].kind != MR_MARK) continue;
        if (!is_marked(&schedule->trace->marks.at[schedule->events.at[e].id], edge)) continue;
        out->events = e + 1;
        return MR_OK;
    }
    out->events = edge_of_ops(schedule, step, edge);
    if (out->events != MR_NONE) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE, "--at: '%s' has neither marks nor ops of a phase '%.*s'",
                   schedule->trace->name, (int)edge->n, edge->name);
}

/* ---- all of them ------------------------------------------------------------------------- */

/* "2" or "2:forward-end". */
static mr_status find_in_step(mr_ctx *ctx, const mr_schedule *schedule, const steps *list,
                              const char *text, mr_when *out)
{
    const size_t n = strspn(text, "0123456789");
    const numbered *step = list->at;
    phase_edge edge;
    if (text[n] && text[n] != ':')
        return mr_fail(ctx, MR_EUSAGE,
                       "--at is '%s', expected a step such as %s or %s:forward-end", text,
                       step->name, step->name);
    MR_TRY(find_step(ctx, schedule, list, text, n, &step));
    if (!text[n]) {
        out->events = peak_of(ctx, schedule, step->stretch);
        out->title = mr_printf(ctx, "at the peak of step %s", step->name);
        return MR_OK;
    }
    if (parse_edge(text + n + 1, &edge))
        return find_edge(ctx, schedule, step->stretch, &edge, out);
    return mr_fail(ctx, MR_EUSAGE, "--at is '%s', expected a step such as %s or %s:forward-end",
                   text, step->name, step->name);
}

static mr_status find(mr_ctx *ctx, const mr_schedule *schedule, const steps *list,
                      const char *text, mr_when *out)
{
    const mr_stretch all = {0, schedule->events.n};
    phase_edge edge;
    out->events = peak_of(ctx, schedule, all);
    out->title = "at the peak";
    if (strcmp(text, "peak") == 0) return MR_OK;
    if (strncmp(text, "op:", 3) == 0) return after_op(ctx, schedule, text + 3, out);
    if (strncmp(text, "event:", 6) == 0) return after_event(ctx, schedule, text + 6, out);
    if (*text >= '0' && *text <= '9') return find_in_step(ctx, schedule, list, text, out);
    if (parse_edge(text, &edge)) {
        const uint32_t event = out->events ? out->events - 1 : 0;
        return find_edge(ctx, schedule, step_at(list, event)->stretch, &edge, out);
    }
    if (strcmp(text, "start") == 0 || strcmp(text, "end") == 0) {
        out->title = mr_printf(ctx, "at the %s", text);
        out->events = *text == 's' ? 0 : all.end;
        return MR_OK;
    }
    return mr_fail(ctx, MR_EUSAGE,
                   "--at is '%s', expected peak, start, end, a step such as 1, op:123, "
                   "event:456, or a phase such as forward-end",
                   text);
}

mr_status mr_when_find(mr_ctx *ctx, const mr_schedule *schedule, const char *text, mr_when *out)
{
    const steps list = find_steps(ctx, schedule);
    *out = (mr_when){0};
    MR_TRY(find(ctx, schedule, &list, text, out));
    const numbered *step = step_at(&list, out->events ? out->events - 1 : 0);
    out->step = step->stretch;
    if (list.n > 1) out->step_name = step->name;
    return MR_OK;
}
