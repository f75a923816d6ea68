/* et_ops -- what an op reads, makes and changes.
 *
 * Ids of tensors and storages are addresses in disguise, so the id of what was freed comes
 * again.  A result that lies on no argument's storage is new, whatever its id; an argument that
 * nobody made was there before.
 */
#include "et_file.h"

#include <string.h>

enum { LOOK_BACK = 64 }; /* tensors of a storage */

typedef struct maker {
    et_file *f;
    mr_numbers storage_ids, tensor_ids;
    MR_VEC(uint32_t) storage_of; /* by storage id: the latest of the trace, MR_NONE */
    MR_VEC(uint32_t) tensor_of;  /* by tensor id */
    MR_VEC(uint32_t) latest;     /* by storage: its latest tensor */
    MR_VEC(uint32_t) before;     /* by tensor: the one before on its storage, MR_NONE */
} maker;

static uint32_t index_in(maker *m, mr_numbers *numbers, uint64_t number, bool tensor)
{
    const uint32_t i = mr_numbers_index(m->f->ctx, numbers, number);
    if (tensor && i == m->tensor_of.n) MR_PUSH(m->f->ctx, &m->tensor_of, MR_NONE);
    if (!tensor && i == m->storage_of.n) MR_PUSH(m->f->ctx, &m->storage_of, MR_NONE);
    return i;
}

static uint64_t end_of(const et_ref *ref)
{
    return ref->numbers ? (ref->offset + ref->numbers) * ref->each : 0;
}

static uint32_t new_storage(maker *m, const et_ref *ref, bool before)
{
    mr_trace *trace = m->f->trace;
    const uint32_t id = index_in(m, &m->storage_ids, ref->storage, false);
    MR_PUSH(m->f->ctx, &trace->storages,
            (mr_storage){.bytes = end_of(ref),
                         .device = (uint16_t)ref->device,
                         .stack = MR_NONE,
                         .before = before,
                         .after = before});
    MR_PUSH(m->f->ctx, &m->latest, MR_NONE);
    return m->storage_of.at[id] = trace->storages.n - 1;
}

/* A view may repeat elements, so that it seems larger than what it lies on. */
static uint32_t new_tensor(maker *m, const et_ref *ref, uint32_t storage)
{
    mr_trace *trace = m->f->trace;
    const uint64_t whole = trace->storages.at[storage].bytes;
    const uint64_t bytes = ref->numbers * ref->each, offset = ref->offset * ref->each;
    const uint64_t from = offset < whole ? offset : whole;
    const uint32_t id = index_in(m, &m->tensor_ids, ref->id, true);
    MR_PUSH(m->f->ctx, &trace->tensors,
            (mr_tensor){.name = "",
                        .dtype = ref->dtype,
                        .storage = storage,
                        .rank = ref->rank,
                        .shape = ref->shape,
                        .offset = from,
                        .bytes = bytes < whole - from ? bytes : whole - from});
    MR_PUSH(m->f->ctx, &m->before, m->latest.at[storage]);
    return m->tensor_of.at[id] = m->latest.at[storage] = trace->tensors.n - 1;
}

static bool is_the_same(const mr_tensor *tensor, const et_ref *ref)
{
    return tensor->rank == ref->rank && tensor->offset == ref->offset * ref->each
           && (!ref->rank
               || !memcmp(tensor->shape, ref->shape, ref->rank * sizeof *ref->shape));
}

/* What autograd saved comes back with another id: the same view of the same storage. */
static uint32_t find_same(const maker *m, uint32_t storage, const et_ref *ref)
{
    uint32_t t = m->latest.at[storage];
    for (int steps = 0; t != MR_NONE && steps < LOOK_BACK; steps++) {
        if (is_the_same(&m->f->trace->tensors.at[t], ref)) return t;
        t = m->before.at[t];
    }
    return MR_NONE;
}

/* The tensor that an argument is: known, or another view of what is known, or there before. */
static uint32_t argument(maker *m, const et_ref *ref)
{
    mr_trace *trace = m->f->trace;
    const uint32_t id = index_in(m, &m->storage_ids, ref->storage, false);
    const uint32_t number = index_in(m, &m->tensor_ids, ref->id, true);
    const uint32_t known = m->tensor_of.at[number];
    uint32_t storage = m->storage_of.at[id];
    if (storage == MR_NONE) storage = new_storage(m, ref, true);
    if (known != MR_NONE && trace->tensors.at[known].storage == storage
        && is_the_same(&trace->tensors.at[known], ref))
        return known;
    const uint32_t same = find_same(m, storage, ref);
    if (same != MR_NONE) return m->tensor_of.at[number] = same;
    mr_storage *s = &trace->storages.at[storage];
    if (s->before && end_of(ref) > s->bytes) s->bytes = end_of(ref);
    return new_tensor(m, ref, storage);
}

static bool holds(const mr_ids *ids, uint32_t id)
{
    for (uint32_t i = 0; i < ids->n; i++)
        if (ids->at[i] == id) return true;
    return false;
}

/* What lies on the host is left out: nothing places it. */
static void read_arguments(maker *m, const et_node *node, mr_op *op)
{
    const char *schema = m->f->names.all.at[node->schema].text;
    op->in = (mr_ids){MR_NEW_N(m->f->ctx, uint32_t, node->in.n), 0};
    op->mutates = (mr_ids){MR_NEW_N(m->f->ctx, uint32_t, node->in.n), 0};
    for (uint32_t i = 0; i < node->in.n; i++) {
        const et_ref *ref = &node->in.at[i];
        if (ref->device == MR_PAGEABLE) continue;
        const uint32_t tensor = argument(m, ref);
        if (et_changes(schema, ref->place) && !holds(&op->mutates, tensor))
            op->mutates.at[op->mutates.n++] = tensor;
        if (!holds(&op->in, tensor)) op->in.at[op->in.n++] = tensor;
        op->read += ref->numbers * ref->each;
    }
}

static bool is_argument(const et_node *node, const et_ref *result)
{
    for (uint32_t i = 0; i < node->in.n; i++)
        if (node->in.at[i].id == result->id && node->in.at[i].storage == result->storage
            && node->in.at[i].device == result->device)
            return true;
    return false;
}

static bool is_changed(const maker *m, const mr_op *op, uint32_t storage)
{
    for (uint32_t i = 0; i < op->mutates.n; i++)
        if (m->f->trace->tensors.at[op->mutates.at[i]].storage == storage) return true;
    return false;
}

/* A changed argument that is put out again is no result; it may have become larger. */
static void write_results(maker *m, const et_node *node, mr_op *op)
{
    op->out = (mr_ids){MR_NEW_N(m->f->ctx, uint32_t, node->out.n), 0};
    for (uint32_t i = 0; i < node->out.n; i++) {
        const et_ref *ref = &node->out.at[i];
        if (ref->device == MR_PAGEABLE) continue;
        const bool known = et_lies_on_known(node, i);
        const uint32_t id = index_in(m, &m->storage_ids, ref->storage, false);
        const uint32_t storage = known ? m->storage_of.at[id] : new_storage(m, ref, false);
        const bool changed = is_changed(m, op, storage);
        mr_storage *s = &m->f->trace->storages.at[storage];
        if (!known || changed) op->written += ref->numbers * ref->each;
        if (changed && end_of(ref) > s->bytes) s->bytes = end_of(ref);
        if (!is_argument(node, ref)) op->out.at[op->out.n++] = new_tensor(m, ref, storage);
    }
}

/* ---- ops --------------------------------------------------------------------------------- */

static bool reads_host(const et_node *node)
{
    for (uint32_t i = 0; i < node->in.n; i++)
        if (node->in.at[i].device == MR_PAGEABLE && node->in.at[i].rank) return true;
    return false;
}

static mr_engine engine_of(const et_file *f, const et_node *node, const mr_op *op)
{
    if (!strstr(et_name(f, node), "copy") || !reads_host(node)) return MR_ENGINE_compute;
    return op->out.n + op->mutates.n ? MR_ENGINE_from_host : MR_ENGINE_to_host;
}

static bool is_random(const char *name)
{
    static const char *const parts[] = {"dropout", "rand", "bernoulli", "normal_", "uniform_",
                                        "multinomial", "exponential_"};
    if (strstr(name, "backward")) return false;
    for (size_t i = 0; i < MR_COUNT(parts); i++)
        if (strstr(name, parts[i])) return true;
    return false;
}

static void add_op(maker *m, uint32_t n)
{
    et_file *f = m->f;
    const et_node *node = &f->nodes.at[n];
    mr_op op = {.name = et_name(f, node),
                .module = "",
                .phase = node->phase,
                .again = MR_NONE,
                .of = MR_NONE};
    read_arguments(m, node, &op);
    write_results(m, node, &op);
    if (!op.out.n && !op.mutates.n) return;
    op.engine = (uint8_t)engine_of(f, node, &op);
    op.random = is_random(op.name);
    if (node->looks) op.read = op.written = 0;
    op.flops = et_flops(op.name, node);
    f->node_of[f->trace->ops.n] = n;
    MR_PUSH(f->ctx, &f->trace->ops, op);
    MR_PUSH(f->ctx, &f->trace->events, (mr_event){MR_RUN, f->trace->ops.n - 1});
}

static void mark(et_file *f, mr_mark_kind kind, uint32_t step)
{
    if (step == MR_NONE) return;
    MR_PUSH(f->ctx, &f->trace->marks, (mr_mark){kind, et_name(f, &f->nodes.at[step])});
    MR_PUSH(f->ctx, &f->trace->events, (mr_event){MR_MARK, f->trace->marks.n - 1});
}

/* By node: the step of the profiler that it belongs to.  Of a trace that began within a step
 * they say nothing: all MR_NONE. */
static const uint32_t *find_steps(et_file *f)
{
    uint32_t *step = mr_none_of(f->ctx, f->nodes.n);
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        const et_node *node = &f->nodes.at[i];
        step[i] = node->step ? i : node->up == MR_NONE ? MR_NONE : step[node->up];
        if (node->runs && node->phase != MR_BACKWARD && step[i] == MR_NONE)
            return mr_none_of(f->ctx, f->nodes.n);
    }
    return step;
}

mr_status et_ops(et_file *f)
{
    maker m = {.f = f};
    const uint32_t *step = find_steps(f);
    uint32_t now = MR_NONE;
    f->node_of = MR_NEW_N(f->ctx, uint32_t, f->nodes.n);
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        const et_node *node = &f->nodes.at[i];
        const char *optimizer = mr_optimizer_of(f->ctx, et_name(f, node));
        if (optimizer) f->trace->about[MR_ABOUT_optimizer] = optimizer;
        if (!node->runs) continue;
        if (node->phase != MR_BACKWARD && step[i] != now) {
            mark(f, MR_STEP_END, now);
            mark(f, MR_STEP_BEGIN, now = step[i]);
        }
        add_op(&m, i);
    }
    mark(f, MR_STEP_END, now);
    if (f->trace->ops.n) return MR_OK;
    return mr_fail_at(f->ctx, MR_EINPUT, mr_source_name(f->items.source),
                      "no op works on tensors of a device, expected the trace of a step on one");
}
