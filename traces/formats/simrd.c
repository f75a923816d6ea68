/* simrd -- operator logs of the DTR paper's simulator, one JSON object a line.
 *
 *     {"INSTRUCTION":"CONSTANT","NAME":"x1"}        followed by a MEMORY line
 *     {"INSTRUCTION":"CALL","NAME":"add","ARGS":["x1","x2"],"RESULT":["x3"],"TIME":"1200"}
 *                                                   followed by MEMORY and ALIAS of each result
 *     {"INSTRUCTION":"MUTATE","NAME":"add_","ARGS":["x3","x1"],"MUTATE":[0],"TIME":"900"}
 *     {"INSTRUCTION":"COPY","DST":"x4","SRC":"x3"}  one more name for x3
 *     {"INSTRUCTION":"COPY_FROM", ...}              x4 becomes a name of another tensor
 *     {"INSTRUCTION":"RELEASE","NAME":"x4"}
 *     {"INSTRUCTION":"ANNOTATE","ANNOTATION":"START"}, or BACKWARD
 *
 * A tensor is dropped with its last name.  Constants before the first call are live before the
 * step; a later one, mostly a number that was wrapped, is made by an op named "constant" that
 * takes no time.  MUTATE works in place here, as it did in the recorded run; that simrd copies
 * is part of its model and not of the log.  Where other names stand for the changed tensor, the
 * changed name becomes that of a new one on the same storage, which the op returns: simrd's
 * copies part there.  Tensors that have names at the end stand in the order in which simrd
 * looks at them, that of their first names.
 *
 * Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021.
 */
#include "simrd_log.h"

#include <ctype.h>
#include <string.h>

/* ---- lines ------------------------------------------------------------------------------- */

/* MEMORY or ALIAS of the tensor that waits for it. */
static mr_status read_awaited(simrd_log *r, const char *instruction)
{
    const bool memory = r->next != SIMRD_ALIAS_OF_RESULT;
    const uint32_t name =
        r->next == SIMRD_MEMORY_OF_CONSTANT ? r->name : r->results.at[r->result];
    const char *text = json_string_value(json_object_get(r->line, "NAME"));
    if (strcmp(instruction, memory ? "MEMORY" : "ALIAS") != 0 || !text
        || strcmp(text, r->names.all.at[name].text) != 0)
        return simrd_fail(
            r,
            mr_printf(r->ctx, "the instruction is %.40s of '%.100s', expected %s of '%.100s'",
                      instruction, text ? text : "", memory ? "MEMORY" : "ALIAS",
                      r->names.all.at[name].text));
    if (!memory) return simrd_result_end(r);
    MR_TRY(simrd_number(r, "MEMORY", &r->bytes));
    if (r->next == SIMRD_MEMORY_OF_CONSTANT) return simrd_constant_end(r);
    r->next = SIMRD_ALIAS_OF_RESULT;
    return MR_OK;
}

static mr_status read_instruction(simrd_log *r)
{
    const char *text;
    MR_TRY(simrd_text(r, "INSTRUCTION", &text));
    if (!r->started) {
        const char *annotation = json_string_value(json_object_get(r->line, "ANNOTATION"));
        r->started = !strcmp(text, "ANNOTATE") && annotation && !strcmp(annotation, "START");
        return MR_OK;
    }
    if (r->next != SIMRD_ANYTHING) return read_awaited(r, text);
    if (!strcmp(text, "CONSTANT")) return simrd_constant(r);
    if (!strcmp(text, "CALL")) return simrd_call(r);
    if (!strcmp(text, "MUTATE")) return simrd_mutate(r);
    if (!strcmp(text, "COPY")) return simrd_copy(r, false);
    if (!strcmp(text, "COPY_FROM") || !strcmp(text, "COPYFROM")) return simrd_copy(r, true);
    if (!strcmp(text, "RELEASE")) return simrd_release(r);
    if (!strcmp(text, "ANNOTATE")) return simrd_annotation(r);
    return simrd_fail(
        r, mr_printf(r->ctx,
                     "the instruction is '%.40s', expected CONSTANT, CALL, MUTATE, COPY,"
                     " COPY_FROM, RELEASE or ANNOTATE",
                     text));
}

static bool is_blank(const mr_lines *lines)
{
    for (size_t i = 0; i < lines->n; i++)
        if (!isspace((unsigned char)lines->at[i])) return false;
    return true;
}

static mr_status read_line(simrd_log *r)
{
    json_error_t error;
    json_t *line = json_loadb(r->lines.at, r->lines.n, JSON_REJECT_DUPLICATES, &error);
    if (!line)
        return mr_lines_fail(
            &r->lines, r->lines.number, error.column > 0 ? (uint64_t)error.column : 1,
            "the line is no JSON (%s), expected one object a line", error.text);
    r->line = line;
    const mr_status status = json_is_object(line)
                                 ? read_instruction(r)
                                 : simrd_fail(r, "the line is no JSON object, expected"
                                                 " one with an INSTRUCTION");
    r->line = NULL;
    json_decref(line);
    return status;
}

/* ---- the end ----------------------------------------------------------------------------- */

static void renumber(mr_ids *ids, const uint32_t *number)
{
    for (uint32_t i = 0; i < ids->n; i++) ids->at[i] = number[ids->at[i]];
}

/* Tensors that have a name now, in the order of the first names that led to them. */
static mr_ids find_held(simrd_log *r)
{
    bool *seen = MR_NEW_N(r->ctx, bool, r->trace->tensors.n);
    mr_ids held = {MR_NEW_N(r->ctx, uint32_t, r->trace->tensors.n), 0};
    for (uint32_t name = 0; name < r->stood_for.n; name++) {
        const uint32_t t = r->stood_for.at[name];
        if (t == MR_NONE || !r->named.at[t] || seen[t]) continue;
        if (r->change.at[name] != r->changes.at[t]) continue;
        seen[t] = true;
        held.at[held.n++] = t;
    }
    return held;
}

/* Held tensors exchange their numbers, so that these ascend in that order. */
static void order_held(simrd_log *r)
{
    mr_trace *trace = r->trace;
    const mr_ids held = find_held(r);
    const mr_tensor *old = trace->tensors.at;
    mr_tensor *tensors = MR_NEW_N(r->ctx, mr_tensor, trace->tensors.n);
    uint32_t *number = MR_NEW_N(r->ctx, uint32_t, trace->tensors.n), next = 0;
    bool moved = false;
    for (uint32_t t = 0; t < trace->tensors.n; t++) {
        const uint32_t from = r->named.at[t] ? held.at[next++] : t;
        number[from] = t;
        tensors[t] = old[from];
        moved |= from != t;
    }
    if (!moved) return;
    trace->tensors.at = tensors;
    trace->tensors.cap = trace->tensors.n;
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        renumber(&trace->ops.at[o].in, number);
        renumber(&trace->ops.at[o].out, number);
        renumber(&trace->ops.at[o].mutates, number);
    }
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_DROP)
            trace->events.at[e].id = number[trace->events.at[e].id];
}

static mr_status finish(simrd_log *r)
{
    mr_trace *trace = r->trace;
    if (r->next != SIMRD_ANYTHING)
        return simrd_fail(r, "the log ends inside of an instruction, expected the"
                             " MEMORY and ALIAS of its results");
    if (!r->started) return simrd_fail(r, "the log has no START, expected the annotation");
    for (uint32_t t = 0; t < trace->tensors.n; t++)
        if (r->named.at[t]) trace->storages.at[trace->tensors.at[t].storage].after = true;
    order_held(r);
    trace->has = MR_HAS_DATAFLOW | MR_HAS_TIMES | MR_HAS_DROPS;
    if (r->phase == MR_BACKWARD) trace->has |= MR_HAS_PHASES;
    else
        for (uint32_t o = 0; o < trace->ops.n; o++) trace->ops.at[o].phase = MR_OTHER;
    trace->about[MR_ABOUT_recorder] = "dtr";
    MR_PUSH(r->ctx, &trace->notes, "the log does not say roles, shapes and dtypes of tensors");
    MR_PUSH(r->ctx, &trace->notes, "the log does not say what is saved for the backward pass");
    return MR_OK;
}

static bool detect(const unsigned char *head, size_t n)
{
    static const char word[] = "\"INSTRUCTION\"";
    const unsigned char *end = memchr(head, '\n', n);
    const size_t line = end ? (size_t)(end - head) : n, length = sizeof word - 1;
    if (!n || head[0] != '{') return false;
    for (size_t i = 0; i + length <= line; i++)
        if (!memcmp(head + i, word, length)) return true;
    return false;
}

static mr_status read_log(mr_ctx *ctx, mr_source *source, const mr_read_options *options,
                          mr_trace *out)
{
    (void)options;
    mr_trace_init(ctx, out, mr_source_name(source));
    simrd_log *r = MR_NEW(ctx, simrd_log);
    *r = (simrd_log){
        .ctx = ctx, .lines = {.ctx = ctx, .source = source}, .trace = out, .phase = MR_FORWARD};
    for (;;) {
        MR_TRY(mr_lines_next(&r->lines));
        if (!r->lines.n) return finish(r);
        if (!is_blank(&r->lines)) MR_TRY(read_line(r));
        if (r->lines.number % 65536 == 0) mr_progress(ctx, "reading", mr_source_part(source));
    }
}

const mr_format mr_format_simrd = {
    .name = "simrd",
    .summary = "operator log of the DTR paper's simulator, one JSON object a line",
    .detect = detect,
    .read = read_log,
};
