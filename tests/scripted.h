/* scripted.h -- allocation traces as short texts, and schedules and placements shown as such.
 *
 *     0=64     storage 0 of 64 bytes is live before the first event
 *     1+100    storage 1 of 100 bytes is allocated        1+100@2   on stream 2
 *     1-       it is freed                                1~        freed, not yet reusable
 *     1!       the deferred free takes effect             flush     empty_cache()
 *     1?100    allocated, and the recorded run was refused
 */
#ifndef SCRIPTED_H
#define SCRIPTED_H

#include "evaluate.h"
#include "strategies.h"
#include "test.h"

#include <stdlib.h>

static inline mr_storage *scripted_storage(mr_ctx *ctx, mr_trace *trace, uint32_t id)
{
    while (trace->storages.n <= id)
        MR_PUSH(ctx, &trace->storages, (mr_storage){.stack = MR_NONE});
    return &trace->storages.at[id];
}

static inline void scripted_token(mr_ctx *ctx, mr_trace *trace, const char *token)
{
    char *rest;
    if (!strncmp(token, "flush", 5)) {
        MR_PUSH(ctx, &trace->events, (mr_event){MR_FLUSH, 0});
        return;
    }
    const uint32_t id = (uint32_t)strtoul(token, &rest, 10);
    mr_storage *storage = scripted_storage(ctx, trace, id);
    const char verb = *rest++;
    if (verb == '=' || verb == '+' || verb == '?') {
        storage->bytes = strtoull(rest, &rest, 10);
        if (*rest == '@') storage->stream = (uint32_t)strtoul(rest + 1, NULL, 10);
        while (trace->streams.n <= storage->stream)
            MR_PUSH(ctx, &trace->streams, trace->streams.n);
        storage->before = verb == '=';
        storage->refused = verb == '?';
    }
    if (verb == '~' || verb == '!') storage->deferred = true;
    if (verb == '+' || verb == '?') MR_PUSH(ctx, &trace->events, (mr_event){MR_ALLOC, id});
    if (verb == '-' || verb == '~') MR_PUSH(ctx, &trace->events, (mr_event){MR_FREE, id});
    if (verb == '!') MR_PUSH(ctx, &trace->events, (mr_event){MR_DONE, id});
}

static inline mr_trace scripted(mr_ctx *ctx, const char *script)
{
    mr_trace trace;
    mr_trace_init(ctx, &trace, "scripted");
    while (*script) {
        script += strspn(script, " ");
        if (*script) scripted_token(ctx, &trace, script);
        script += strcspn(script, " ");
    }
    return trace;
}

static inline const char *shown_events(mr_ctx *ctx, const mr_schedule *schedule)
{
    static const char *const verbs[] = {"+", "-", "!", "#", "d", "flush", "m", "c"};
    const char *text = "";
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event *event = &schedule->events.at[e];
        const mr_carry *pair =
            event->kind == MR_CARRY ? &schedule->carries.at[event->id] : NULL;
        const char *sep = *text ? " " : "";
        if (pair) text = mr_printf(ctx, "%s%s%u>%u", text, sep, pair->from, pair->to);
        else if (event->kind == MR_FLUSH) text = mr_printf(ctx, "%s%sflush", text, sep);
        else text = mr_printf(ctx, "%s%s%s%u", text, sep, verbs[event->kind], event->id);
    }
    return text;
}

/* R0:bytes reserve, X0 release, M0:at:bytes map, U0 unmap, 1>0:at+bytes bind, 1~, 1- unbind, 1?
 * refused, #2 op. */
static inline const char *shown_cmd(mr_ctx *ctx, const mr_cmd *cmd)
{
    const mr_block *b = &cmd->block;
    const unsigned long long at = b->offset, n = b->bytes;
    switch (cmd->kind) {
    case MR_RESERVE: return mr_printf(ctx, "R%u:%llu", b->segment, n);
    case MR_RELEASE: return mr_printf(ctx, "X%u", b->segment);
    case MR_MAP: return mr_printf(ctx, "M%u:%llu:%llu", b->segment, at, n);
    case MR_UNMAP: return mr_printf(ctx, "U%u:%llu:%llu", b->segment, at, n);
    case MR_BIND: return mr_printf(ctx, "%u>%u:%llu+%llu", cmd->id, b->segment, at, n);
    case MR_DEFER: return mr_printf(ctx, "%u~", cmd->id);
    case MR_UNBIND: return mr_printf(ctx, "%u-", cmd->id);
    case MR_EXEC: return mr_printf(ctx, "#%u", cmd->id);
    case MR_REFUSE: return mr_printf(ctx, "%u?", cmd->id);
    }
    return "";
}

static inline const char *shown_cmds(mr_ctx *ctx, const mr_placement *placement)
{
    const char *text = "";
    for (uint32_t c = 0; c < placement->cmds.n; c++)
        text = mr_printf(ctx, "%s%s%s%s", text, *text ? " " : "",
                         c == placement->start && c ? "| " : "",
                         shown_cmd(ctx, &placement->cmds.at[c]));
    return text;
}

/* A device without costs; `capacity` bytes, physical pages of one byte. */
static inline mr_status scripted_run(mr_ctx *ctx, const mr_trace *trace, const char *spec_text,
                                     uint64_t capacity, uint32_t iterations, mr_answer *answer)
{
    static const mr_device device = {.name = "test", .memory = 64 * MR_GIB, .granularity = 1};
    mr_spec *spec = MR_NEW(ctx, mr_spec);
    MR_TRY(mr_spec_parse(ctx, mr_strategies, spec_text, spec));
    const mr_question question = {.trace = trace,
                                  .spec = spec,
                                  .device = &device,
                                  .capacity = capacity,
                                  .iterations = iterations};
    return mr_evaluate(ctx, &question, answer);
}

/* ---- a script and what came of it -------------------------------------------------------- */

static inline const char *scripted_placed(mr_ctx *ctx, const char *script, const char *spec,
                             uint64_t capacity)
{
    mr_trace *trace = MR_NEW(ctx, mr_trace);
    *trace = scripted(ctx, script);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    if (scripted_run(ctx, trace, spec, capacity, 1, answer)) return ctx->failure.text;
    return shown_cmds(ctx, &answer->placement);
}

static inline void must_place(const char *script, const char *spec, uint64_t capacity,
                       const char *cmds)
{
    mr_ctx ctx = {0};
    CHECK_STR(scripted_placed(&ctx, script, spec, capacity), cmds);
    mr_ctx_clear(&ctx);
}

#endif
