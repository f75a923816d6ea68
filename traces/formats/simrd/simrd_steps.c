/* simrd_steps -- what each instruction makes of names, tensors and ops. */
#include "simrd_log.h"

#include <inttypes.h>
#include <string.h>

/* ---- tensors and their names ------------------------------------------------------------- */

static uint32_t number_of_name(simrd_log *r, const char *text)
{
    const uint32_t name = mr_names_add(r->ctx, &r->names, text, strlen(text));
    if (name < r->tensor_of.n) return name;
    MR_PUSH(r->ctx, &r->tensor_of, MR_NONE);
    MR_PUSH(r->ctx, &r->stood_for, MR_NONE);
    MR_PUSH(r->ctx, &r->change, 0);
    return name;
}

static mr_status find_tensor(const simrd_log *r, const char *text, uint32_t *tensor)
{
    const uint32_t name = text ? mr_names_find(&r->names, text, strlen(text)) : MR_NONE;
    *tensor = name == MR_NONE ? MR_NONE : r->tensor_of.at[name];
    if (*tensor != MR_NONE) return MR_OK;
    return simrd_fail(r,
                      mr_printf(r->ctx, "'%.100s' is no tensor here, expected the name of one",
                                text ? text : ""));
}

static mr_status get_args(const simrd_log *r, mr_ids *out)
{
    const json_t *list;
    MR_TRY(simrd_list(r, "ARGS", &list));
    *out = (mr_ids){MR_NEW_N(r->ctx, uint32_t, json_array_size(list)), 0};
    for (size_t i = 0; i < json_array_size(list); i++)
        MR_TRY(find_tensor(r, json_string_value(json_array_get(list, i)), &out->at[out->n++]));
    return MR_OK;
}

static void happen(simrd_log *r, mr_event_kind kind, uint32_t id)
{
    MR_PUSH(r->ctx, &r->trace->events, (mr_event){kind, id});
}

static void give_name(simrd_log *r, uint32_t name, uint32_t tensor)
{
    r->tensor_of.at[name] = r->stood_for.at[name] = tensor;
    r->change.at[name] = r->changes.at[tensor];
    r->named.at[tensor]++;
}

static void take_name(simrd_log *r, uint32_t name)
{
    const uint32_t tensor = r->tensor_of.at[name];
    r->tensor_of.at[name] = MR_NONE;
    if (!--r->named.at[tensor]) happen(r, MR_DROP, tensor);
}

static mr_status must_be_new(const simrd_log *r, uint32_t name)
{
    if (r->tensor_of.at[name] == MR_NONE) return MR_OK;
    return simrd_fail(
        r, mr_printf(r->ctx, "'%.100s' is the name of a tensor already, expected a new one",
                     r->names.all.at[name].text));
}

static uint32_t new_storage(simrd_log *r, uint64_t bytes)
{
    MR_PUSH(r->ctx, &r->trace->storages, (mr_storage){.bytes = bytes, .stack = MR_NONE});
    return r->trace->storages.n - 1;
}

/* For an alias the log says what its storage has, or more where a view repeats elements. */
static uint32_t new_tensor(simrd_log *r, uint32_t name, uint32_t storage, uint64_t bytes)
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

static uint32_t new_op(simrd_log *r, const char *name)
{
    const uint32_t i = mr_names_add(r->ctx, &r->op_names, name, strlen(name));
    MR_PUSH(r->ctx, &r->trace->ops,
            (mr_op){.name = r->op_names.all.at[i].text,
                    .module = "",
                    .phase = r->phase,
                    .again = MR_NONE,
                    .of = MR_NONE});
    return r->trace->ops.n - 1;
}

mr_status simrd_constant(simrd_log *r)
{
    const char *name;
    MR_TRY(simrd_text(r, "NAME", &name));
    r->name = number_of_name(r, name);
    MR_TRY(must_be_new(r, r->name));
    r->next = SIMRD_MEMORY_OF_CONSTANT;
    return MR_OK;
}

mr_status simrd_constant_end(simrd_log *r)
{
    const uint32_t storage = new_storage(r, r->bytes);
    const uint32_t tensor = new_tensor(r, r->name, storage, r->bytes);
    r->next = SIMRD_ANYTHING;
    r->trace->storages.at[storage].before = !r->trace->ops.n;
    if (!r->trace->ops.n) return MR_OK;
    const uint32_t o = new_op(r, "constant");
    r->trace->ops.at[o].out = (mr_ids){MR_NEW(r->ctx, uint32_t), 1};
    r->trace->ops.at[o].out.at[0] = tensor;
    happen(r, MR_RUN, o);
    return MR_OK;
}

mr_status simrd_call(simrd_log *r)
{
    const char *name;
    const json_t *list;
    MR_TRY(simrd_text(r, "NAME", &name));
    MR_TRY(simrd_list(r, "RESULT", &list));
    const uint32_t o = new_op(r, name), n = (uint32_t)json_array_size(list);
    mr_op *op = &r->trace->ops.at[o];
    MR_TRY(get_args(r, &op->in));
    MR_TRY(simrd_number(r, "TIME", &op->ns));
    op->out = (mr_ids){MR_NEW_N(r->ctx, uint32_t, n), n};
    r->results = (mr_ids){MR_NEW_N(r->ctx, uint32_t, n), n};
    r->result = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char *text = json_string_value(json_array_get(list, i));
        if (!text)
            return simrd_fail(r, "RESULT holds something else, expected names of tensors");
        r->results.at[i] = number_of_name(r, text);
    }
    if (n) r->next = SIMRD_MEMORY_OF_RESULT;
    else happen(r, MR_RUN, o);
    return MR_OK;
}

mr_status simrd_result_end(simrd_log *r)
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
        MR_TRY(simrd_number(r, "ALIAS", &arg));
        if (arg >= op->in.n)
            return simrd_fail(
                r, mr_printf(r->ctx, "ALIAS is %" PRIu64 ", expected -1 or one of %u ARGS", arg,
                             op->in.n));
        storage = r->trace->tensors.at[op->in.at[arg]].storage;
    }
    op->out.at[r->result] = new_tensor(r, name, storage, r->bytes);
    r->next = SIMRD_MEMORY_OF_RESULT;
    if (++r->result < r->results.n) return MR_OK;
    r->next = SIMRD_ANYTHING;
    happen(r, MR_RUN, o);
    return MR_OK;
}

/* Other names go on standing for what the tensor was, and so do released ones. */
static void part_names(simrd_log *r, mr_op *op, const char *text)
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

mr_status simrd_mutate(simrd_log *r)
{
    const char *name;
    const json_t *list, *args = json_object_get(r->line, "ARGS");
    MR_TRY(simrd_text(r, "NAME", &name));
    MR_TRY(simrd_list(r, "MUTATE", &list));
    const uint32_t o = new_op(r, name);
    mr_op *op = &r->trace->ops.at[o];
    MR_TRY(get_args(r, &op->in));
    MR_TRY(simrd_number(r, "TIME", &op->ns));
    op->mutates = (mr_ids){MR_NEW_N(r->ctx, uint32_t, json_array_size(list)), 0};
    op->out = (mr_ids){MR_NEW_N(r->ctx, uint32_t, json_array_size(list)), 0};
    for (size_t i = 0; i < json_array_size(list); i++) {
        const json_t *index = json_array_get(list, i);
        const json_int_t arg = json_integer_value(index);
        if (!json_is_integer(index) || arg < 0 || arg >= op->in.n)
            return simrd_fail(
                r, mr_printf(r->ctx, "MUTATE holds something else, expected numbers below %u",
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
mr_status simrd_copy(simrd_log *r, bool from)
{
    const char *to, *of;
    uint32_t tensor, old;
    MR_TRY(simrd_text(r, "DST", &to));
    MR_TRY(simrd_text(r, "SRC", &of));
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
mr_status simrd_release(simrd_log *r)
{
    const char *text;
    MR_TRY(simrd_text(r, "NAME", &text));
    const uint32_t name = mr_names_find(&r->names, text, strlen(text));
    if (name == MR_NONE) return MR_OK;
    if (r->tensor_of.at[name] == MR_NONE)
        return simrd_fail(
            r, mr_printf(r->ctx, "'%.100s' is released again, expected the name of a tensor",
                         text));
    take_name(r, name);
    return MR_OK;
}

static void mark(simrd_log *r, mr_mark_kind kind, const char *name)
{
    MR_PUSH(r->ctx, &r->trace->marks, (mr_mark){kind, name});
    happen(r, MR_MARK, r->trace->marks.n - 1);
}

mr_status simrd_annotation(simrd_log *r)
{
    const char *text;
    MR_TRY(simrd_text(r, "ANNOTATION", &text));
    if (!strcmp(text, "START")) return MR_OK;
    if (strcmp(text, "BACKWARD") != 0) {
        mark(r, MR_NOTE, mr_strdup(r->ctx, text));
        return MR_OK;
    }
    if (r->phase != MR_BACKWARD) mark(r, MR_PHASE_BEGIN, "backward");
    r->phase = MR_BACKWARD;
    return MR_OK;
}
