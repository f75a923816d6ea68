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
#include "format.h"
#include "lines.h"
#include "names.h"

#include <ctype.h>
#include <inttypes.h>
#include <jansson.h>
#include <string.h>

typedef enum expected {
    ANYTHING,
    MEMORY_OF_CONSTANT,
    MEMORY_OF_RESULT,
    ALIAS_OF_RESULT
} expected;

typedef struct reader {
    mr_ctx *ctx;
    mr_lines lines;
    mr_trace *trace;
    const json_t *line;
    mr_names names, op_names;
    MR_VEC(uint32_t) tensor_of; /* by name; MR_NONE: the name stands for nothing now */
    MR_VEC(uint32_t) stood_for; /* by name: the same, or what it stood for when released */
    MR_VEC(uint32_t) change;    /* by name: how often that tensor had been changed */
    MR_VEC(uint32_t) changes;   /* by tensor: how often it has been changed */
    MR_VEC(uint32_t) named;     /* by tensor: how many names stand for it */
    mr_phase phase;
    bool started;
    expected next;
    uint32_t name; /* of the constant that waits for its MEMORY */
    mr_ids results; /* names of the results of the call that waits for MEMORY and ALIAS */
    uint32_t result;
    uint64_t bytes; /* of that result */
} reader;

static mr_status fail(const reader *r, const char *sentence)
{
    return mr_lines_fail(&r->lines, r->lines.number, 1, "%s", sentence);
}

/* ---- fields of a line -------------------------------------------------------------------- */

static mr_status get_text(const reader *r, const char *key, const char **out)
{
    *out = json_string_value(json_object_get(r->line, key));
    if (*out) return MR_OK;
    return fail(
        r, mr_printf(r->ctx, "%s is missing or no text, expected \"%s\":\"...\"", key, key));
}

/* Numbers are written as texts; plain ones are taken too. */
static mr_status get_number(const reader *r, const char *key, uint64_t *out)
{
    const json_t *value = json_object_get(r->line, key);
    const char *text = json_string_value(value);
    *out = 0;
    if (json_is_integer(value) && json_integer_value(value) >= 0) {
        *out = (uint64_t)json_integer_value(value);
        return MR_OK;
    }
    bool good = text && *text;
    for (; good && *text; text++) {
        const unsigned digit = (unsigned)(unsigned char)*text - '0';
        good = digit <= 9 && *out <= (UINT64_MAX - digit) / 10;
        if (good) *out = *out * 10 + digit;
    }
    if (good) return MR_OK;
    return fail(r, mr_printf(r->ctx,
                             "%s is missing or no number, expected a whole number from 0"
                             " to %" PRIu64,
                             key, UINT64_MAX));
}

static mr_status get_list(const reader *r, const char *key, const json_t **out)
{
    *out = json_object_get(r->line, key);
    if (json_is_array(*out)) return MR_OK;
    return fail(r,
                mr_printf(r->ctx, "%s is missing or no list, expected \"%s\":[...]", key, key));
}

static uint32_t number_of_name(reader *r, const char *text)
{
    const uint32_t name = mr_names_add(r->ctx, &r->names, text, strlen(text));
    if (name < r->tensor_of.n) return name;
    MR_PUSH(r->ctx, &r->tensor_of, MR_NONE);
    MR_PUSH(r->ctx, &r->stood_for, MR_NONE);
    MR_PUSH(r->ctx, &r->change, 0);
    return name;
}

static mr_status find_tensor(const reader *r, const char *text, uint32_t *tensor)
{
    const uint32_t name = text ? mr_names_find(&r->names, text, strlen(text)) : MR_NONE;
    *tensor = name == MR_NONE ? MR_NONE : r->tensor_of.at[name];
    if (*tensor != MR_NONE) return MR_OK;
    return fail(r, mr_printf(r->ctx, "'%.100s' is no tensor here, expected the name of one",
                             text ? text : ""));
}

static mr_status get_args(const reader *r, mr_ids *out)
{
    const json_t *list;
    MR_TRY(get_list(r, "ARGS", &list));
    *out = (mr_ids){MR_NEW_N(r->ctx, uint32_t, json_array_size(list)), 0};
    for (size_t i = 0; i < json_array_size(list); i++)
        MR_TRY(find_tensor(r, json_string_value(json_array_get(list, i)), &out->at[out->n++]));
    return MR_OK;
}

/* ---- tensors and their names ------------------------------------------------------------- */

static void happen(reader *r, mr_event_kind kind, uint32_t id)
{
    MR_PUSH(r->ctx, &r->trace->events, (mr_event){kind, id});
}

static void give_name(reader *r, uint32_t name, uint32_t tensor)
{
    r->tensor_of.at[name] = r->stood_for.at[name] = tensor;
    r->change.at[name] = r->changes.at[tensor];
    r->named.at[tensor]++;
}

static void take_name(reader *r, uint32_t name)
{
    const uint32_t tensor = r->tensor_of.at[name];
    r->tensor_of.at[name] = MR_NONE;
    if (!--r->named.at[tensor]) happen(r, MR_DROP, tensor);
}

static mr_status must_be_new(const reader *r, uint32_t name)
{
    if (r->tensor_of.at[name] == MR_NONE) return MR_OK;
    return fail(r, mr_printf(r->ctx,
                             "'%.100s' is the name of a tensor already, expected a new one",
                             r->names.all.at[name].text));
}

static uint32_t new_storage(reader *r, uint64_t bytes)
{
    MR_PUSH(r->ctx, &r->trace->storages, (mr_storage){.bytes = bytes, .stack = MR_NONE});
    return r->trace->storages.n - 1;
}

/* For an alias the log says what its storage has, or more where a view repeats elements. */
static uint32_t new_tensor(reader *r, uint32_t name, uint32_t storage, uint64_t bytes)
{
    const uint64_t whole = r->trace->storages.at[storage].bytes;
    MR_PUSH(r->ctx, &r->trace->tensors,
            (mr_tensor){.name = r->names.all.at[name].text,
                        .dtype = "",
                        .storage = storage,
                        .bytes = bytes < whole ? bytes : whole});
    MR_PUSH(r->ctx, &r->named, 0);
    MR_PUSH(r->ctx, &r->changes, 0);
    give_name(r, name, r->trace->tensors.n - 1);
    return r->trace->tensors.n - 1;
}

/* ---- instructions ------------------------------------------------------------------------ */

static uint32_t new_op(reader *r, const char *name)
{
    const uint32_t i = mr_names_add(r->ctx, &r->op_names, name, strlen(name));
    MR_PUSH(r->ctx, &r->trace->ops,
            (mr_op){.name = r->op_names.all.at[i].text,
                    .module = "",
                    .phase = r->phase,
                    .again = MR_NONE, .of = MR_NONE});
    return r->trace->ops.n - 1;
}

static mr_status read_constant(reader *r)
{
    const char *name;
    MR_TRY(get_text(r, "NAME", &name));
    r->name = number_of_name(r, name);
    MR_TRY(must_be_new(r, r->name));
    r->next = MEMORY_OF_CONSTANT;
    return MR_OK;
}

static mr_status end_constant(reader *r)
{
    const uint32_t storage = new_storage(r, r->bytes);
    const uint32_t tensor = new_tensor(r, r->name, storage, r->bytes);
    r->next = ANYTHING;
    r->trace->storages.at[storage].before = !r->trace->ops.n;
    if (!r->trace->ops.n) return MR_OK;
    const uint32_t o = new_op(r, "constant");
    r->trace->ops.at[o].out = (mr_ids){MR_NEW(r->ctx, uint32_t), 1};
    r->trace->ops.at[o].out.at[0] = tensor;
    happen(r, MR_RUN, o);
    return MR_OK;
}

static mr_status read_call(reader *r)
{
    const char *name;
    const json_t *list;
    MR_TRY(get_text(r, "NAME", &name));
    MR_TRY(get_list(r, "RESULT", &list));
    const uint32_t o = new_op(r, name), n = (uint32_t)json_array_size(list);
    mr_op *op = &r->trace->ops.at[o];
    MR_TRY(get_args(r, &op->in));
    MR_TRY(get_number(r, "TIME", &op->ns));
    op->out = (mr_ids){MR_NEW_N(r->ctx, uint32_t, n), n};
    r->results = (mr_ids){MR_NEW_N(r->ctx, uint32_t, n), n};
    r->result = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text) return fail(r, "RESULT holds something else, expected names of tensors");
        r->results.at[i] = number_of_name(r, text);
    }
    if (n) r->next = MEMORY_OF_RESULT;
    else happen(r, MR_RUN, o);
    return MR_OK;
}

static mr_status end_result(reader *r)
{
    const uint32_t o = r->trace->ops.n - 1, name = r->results.at[r->result];
    mr_op *op = &r->trace->ops.at[o];
    const char *alias = json_string_value(json_object_get(r->line, "ALIAS"));
    const json_int_t plain = json_integer_value(json_object_get(r->line, "ALIAS"));
    uint64_t arg = 0;
    uint32_t storage;
    MR_TRY(must_be_new(r, name));
    if (plain == -1 || (alias && !strcmp(alias, "-1"))) storage = new_storage(r, r->bytes);
    else {
        MR_TRY(get_number(r, "ALIAS", &arg));
        if (arg >= op->in.n)
            return fail(r,
                        mr_printf(r->ctx, "ALIAS is %" PRIu64 ", expected -1 or one of %u ARGS",
                                  arg, op->in.n));
        storage = r->trace->tensors.at[op->in.at[arg]].storage;
    }
    op->out.at[r->result] = new_tensor(r, name, storage, r->bytes);
    r->next = MEMORY_OF_RESULT;
    if (++r->result < r->results.n) return MR_OK;
    r->next = ANYTHING;
    happen(r, MR_RUN, o);
    return MR_OK;
}

/* Other names go on standing for what the tensor was, and so do released ones. */
static void part_names(reader *r, mr_op *op, const char *text)
{
    const uint32_t name = number_of_name(r, text), old = r->tensor_of.at[name];
    const mr_tensor tensor = r->trace->tensors.at[old];
    if (r->named.at[old] == 1) {
        r->change.at[name] = ++r->changes.at[old];
        return;
    }
    take_name(r, name);
    op->out.at[op->out.n++] = new_tensor(r, name, tensor.storage, tensor.bytes);
}

static mr_status read_mutate(reader *r)
{
    const char *name;
    const json_t *list, *args = json_object_get(r->line, "ARGS");
    MR_TRY(get_text(r, "NAME", &name));
    MR_TRY(get_list(r, "MUTATE", &list));
    const uint32_t o = new_op(r, name);
    mr_op *op = &r->trace->ops.at[o];
    MR_TRY(get_args(r, &op->in));
    MR_TRY(get_number(r, "TIME", &op->ns));
    op->mutates = (mr_ids){MR_NEW_N(r->ctx, uint32_t, json_array_size(list)), 0};
    op->out = (mr_ids){MR_NEW_N(r->ctx, uint32_t, json_array_size(list)), 0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *index = json_array_get(list, i);
        const json_int_t arg = json_integer_value(index);
        if (!json_is_integer(index) || arg < 0 || arg >= op->in.n)
            return fail(r, mr_printf(r->ctx,
                                     "MUTATE holds something else, expected numbers below %u",
                                     op->in.n));
        op->mutates.at[op->mutates.n++] = op->in.at[arg];
    }
    for (size_t i = 0; i < json_array_size(list); i++) {
        const size_t arg = (size_t)json_integer_value(json_array_get(list, i));
        part_names(r, op, json_string_value(json_array_get(args, arg)));
    }
    happen(r, MR_RUN, o);
    return MR_OK;
}

/* COPY gives a tensor one more name; COPY_FROM moves a name from one tensor to another. */
static mr_status read_copy(reader *r, bool from)
{
    const char *to, *of;
    uint32_t tensor, old;
    MR_TRY(get_text(r, "DST", &to));
    MR_TRY(get_text(r, "SRC", &of));
    MR_TRY(find_tensor(r, of, &tensor));
    const uint32_t name = number_of_name(r, to);
    if (!from) MR_TRY(must_be_new(r, name));
    else {
        MR_TRY(find_tensor(r, to, &old));
        r->named.at[tensor]++; /* it may be the same tensor, which must not be dropped */
        take_name(r, name);
        r->named.at[tensor]--;
    }
    give_name(r, name, tensor);
    return MR_OK;
}

/* What is released unknown had its name before the log started. */
static mr_status read_release(reader *r)
{
    const char *text;
    MR_TRY(get_text(r, "NAME", &text));
    const uint32_t name = mr_names_find(&r->names, text, strlen(text));
    if (name == MR_NONE) return MR_OK;
    if (r->tensor_of.at[name] == MR_NONE)
        return fail(r, mr_printf(r->ctx,
                                 "'%.100s' is released again, expected the name of a tensor",
                                 text));
    take_name(r, name);
    return MR_OK;
}

static void mark(reader *r, mr_mark_kind kind, const char *name)
{
    MR_PUSH(r->ctx, &r->trace->marks, (mr_mark){kind, name});
    happen(r, MR_MARK, r->trace->marks.n - 1);
}

static mr_status read_annotation(reader *r)
{
    const char *text;
    MR_TRY(get_text(r, "ANNOTATION", &text));
    if (!strcmp(text, "START")) return MR_OK;
    if (strcmp(text, "BACKWARD") != 0) {
        mark(r, MR_NOTE, mr_strdup(r->ctx, text));
        return MR_OK;
    }
    if (r->phase != MR_BACKWARD) mark(r, MR_PHASE_BEGIN, "backward");
    r->phase = MR_BACKWARD;
    return MR_OK;
}

/* ---- lines ------------------------------------------------------------------------------- */

/* MEMORY or ALIAS of the tensor that waits for it. */
static mr_status read_awaited(reader *r, const char *instruction)
{
    const bool memory = r->next != ALIAS_OF_RESULT;
    const uint32_t name = r->next == MEMORY_OF_CONSTANT ? r->name : r->results.at[r->result];
    const char *text = json_string_value(json_object_get(r->line, "NAME"));
    if (strcmp(instruction, memory ? "MEMORY" : "ALIAS") != 0 || !text
        || strcmp(text, r->names.all.at[name].text) != 0)
        return fail(r,
                    mr_printf(r->ctx,
                              "the instruction is %.40s of '%.100s', expected %s of '%.100s'",
                              instruction, text ? text : "", memory ? "MEMORY" : "ALIAS",
                              r->names.all.at[name].text));
    if (!memory) return end_result(r);
    MR_TRY(get_number(r, "MEMORY", &r->bytes));
    if (r->next == MEMORY_OF_CONSTANT) return end_constant(r);
    r->next = ALIAS_OF_RESULT;
    return MR_OK;
}

static mr_status read_instruction(reader *r)
{
    const char *text;
    MR_TRY(get_text(r, "INSTRUCTION", &text));
    if (!r->started) {
        const char *annotation = json_string_value(json_object_get(r->line, "ANNOTATION"));
        r->started = !strcmp(text, "ANNOTATE") && annotation && !strcmp(annotation, "START");
        return MR_OK;
    }
    if (r->next != ANYTHING) return read_awaited(r, text);
    if (!strcmp(text, "CONSTANT")) return read_constant(r);
    if (!strcmp(text, "CALL")) return read_call(r);
    if (!strcmp(text, "MUTATE")) return read_mutate(r);
    if (!strcmp(text, "COPY")) return read_copy(r, false);
    if (!strcmp(text, "COPY_FROM") || !strcmp(text, "COPYFROM")) return read_copy(r, true);
    if (!strcmp(text, "RELEASE")) return read_release(r);
    if (!strcmp(text, "ANNOTATE")) return read_annotation(r);
    return fail(r,
                mr_printf(r->ctx,
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

static mr_status read_line(reader *r)
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
                                 : fail(r, "the line is no JSON object, expected"
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
static mr_ids find_held(reader *r)
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
static void order_held(reader *r)
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

static mr_status finish(reader *r)
{
    mr_trace *trace = r->trace;
    if (r->next != ANYTHING)
        return fail(r, "the log ends inside of an instruction, expected the"
                       " MEMORY and ALIAS of its results");
    if (!r->started) return fail(r, "the log has no START, expected the annotation");
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
    reader *r = MR_NEW(ctx, reader);
    *r = (reader){.ctx = ctx,
                  .lines = {.ctx = ctx, .source = source},
                  .trace = out,
                  .phase = MR_FORWARD};
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
