/* et_infer -- what an execution trace does not say follows from who reads what, and when.
 *
 *     of, saved   an op of the backward pass has autograd's number of the op whose gradient it
 *                 computes; what it reads that was made before the backward pass, that op saved
 *     drops       the program lets go of a tensor after it has used it last itself
 *     roles       what the update changes are parameters, where the forward pass reads them, and
 *                 states, also where it made them; what else it reads are gradients
 */
#include "et_file.h"

#include <stdlib.h>
#include <string.h>

typedef struct use {
    uint32_t made;    /* op that made it, MR_NONE before */
    uint32_t last;    /* op of the program itself that used it last */
    bool in_forward, in_update, changed_in_update, saved;
    bool room; /* the op that made it made only room */
} use;

typedef struct inference {
    et_file *f;
    mr_trace *trace;
    use *tensors, *storages;
} inference;

static void touch(inference *n, uint32_t o, const mr_ids *ids, bool changes)
{
    const mr_op *op = &n->trace->ops.at[o];
    for (uint32_t i = 0; i < ids->n; i++) {
        use *const both[] = {&n->tensors[ids->at[i]],
                             &n->storages[n->trace->tensors.at[ids->at[i]].storage]};
        for (size_t k = 0; k < MR_COUNT(both); k++) {
            both[k]->in_forward |= op->phase == MR_FORWARD;
            both[k]->in_update |= op->phase == MR_UPDATE;
            both[k]->changed_in_update |= op->phase == MR_UPDATE && changes;
        }
    }
}

/* ---- gradients and what they need -------------------------------------------------------- */

typedef struct link {
    uint64_t sequence;
    uint32_t node;
} link;

static int by_sequence(const void *left, const void *right)
{
    const link *a = left, *b = right;
    if (a->sequence != b->sequence) return a->sequence < b->sequence ? -1 : 1;
    return (a->node > b->node) - (a->node < b->node);
}

/* Several ops see a number before one takes it: the one that took it began last. */
static uint32_t taker(const link *links, uint32_t n, uint64_t sequence)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (links[middle].sequence <= sequence) low = middle + 1;
        else high = middle;
    }
    return low && links[low - 1].sequence == sequence ? links[low - 1].node : MR_NONE;
}

/* By node: the last op at or below it. */
static uint32_t *ops_below(const et_file *f)
{
    uint32_t *op = mr_none_of(f->ctx, f->nodes.n);
    for (uint32_t o = 0; o < f->trace->ops.n; o++) op[f->node_of[o]] = o;
    for (uint32_t i = f->nodes.n; i-- > 0;) {
        const uint32_t up = f->nodes.at[i].up;
        if (up == MR_NONE || op[i] == MR_NONE) continue;
        if (op[up] == MR_NONE || op[up] < op[i]) op[up] = op[i];
    }
    return op;
}

static bool is_engine(const et_file *f, uint32_t node)
{
    return node != MR_NONE
           && mr_begins(et_name(f, &f->nodes.at[node]), "autograd::engine::evaluate_function");
}

/* The engine runs a function and then brings its gradients to the shapes of what they are for,
 * by ops beside it, which are of the same op. */
static void number_beside(et_file *f)
{
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        const et_node *node = &f->nodes.at[i];
        if (!is_engine(f, node->up) || node->sequence == UINT64_MAX) continue;
        et_node *up = &f->nodes.at[node->up];
        if (up->sequence == UINT64_MAX) up->sequence = node->sequence;
    }
}

/* And it adds up what comes from several functions, which is of none. */
static bool adds_up(const et_file *f, uint32_t node)
{
    const char *name = et_name(f, &f->nodes.at[node]);
    return is_engine(f, f->nodes.at[node].up)
           && (!strcmp(name, "aten::add") || !strcmp(name, "aten::add_"));
}

/* The innermost that has a number has the right one: ops below autograd have none. */
static uint64_t sequence_above(const et_file *f, uint32_t node)
{
    while (node != MR_NONE && f->nodes.at[node].phase == MR_BACKWARD
           && f->nodes.at[node].sequence == UINT64_MAX)
        node = f->nodes.at[node].up;
    return node == MR_NONE ? UINT64_MAX : f->nodes.at[node].sequence;
}

static void find_gradients(inference *n)
{
    et_file *f = n->f;
    link *links = MR_NEW_N(f->ctx, link, f->nodes.n);
    const uint32_t *below = ops_below(f);
    uint32_t count = 0;
    number_beside(f);
    for (uint32_t i = 0; i < f->nodes.n; i++)
        if (f->nodes.at[i].phase == MR_FORWARD && f->nodes.at[i].sequence != UINT64_MAX
            && below[i] != MR_NONE)
            links[count++] = (link){f->nodes.at[i].sequence, i};
    if (count) qsort(links, count, sizeof *links, by_sequence);
    for (uint32_t o = 0; o < n->trace->ops.n; o++) {
        mr_op *op = &n->trace->ops.at[o];
        if (op->phase != MR_BACKWARD || adds_up(f, f->node_of[o])) continue;
        const uint64_t sequence = sequence_above(f, f->node_of[o]);
        const uint32_t node = sequence == UINT64_MAX ? MR_NONE : taker(links, count, sequence);
        if (node != MR_NONE && below[node] < o) op->of = below[node];
    }
}

static bool is_mask(const inference *n, uint32_t tensor)
{
    const char *dtype = n->trace->tensors.at[tensor].dtype;
    return !strcmp(dtype, "bool") || !strcmp(dtype, "uint8");
}

static void save(inference *n, mr_op *op, uint32_t tensor)
{
    mr_saved_as as = MR_SAVED_INPUT;
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (op->saved.at[i].tensor == tensor) return;
    for (uint32_t i = 0; i < op->out.n; i++)
        if (op->out.at[i] == tensor) as = is_mask(n, tensor) ? MR_SAVED_MASK : MR_SAVED_OUTPUT;
    mr_saved *saved = MR_NEW_N(n->f->ctx, mr_saved, op->saved.n + 1);
    if (op->saved.n) memcpy(saved, op->saved.at, op->saved.n * sizeof *saved);
    saved[op->saved.n] = (mr_saved){tensor, as};
    op->saved.at = saved;
    op->saved.n++;
    n->tensors[tensor].saved = n->storages[n->trace->tensors.at[tensor].storage].saved = true;
}

/* Of a view that no op made, it is the op that made what it lies on. */
static uint32_t made_by(const inference *n, uint32_t tensor)
{
    const uint32_t made = n->tensors[tensor].made;
    return made != MR_NONE ? made : n->storages[n->trace->tensors.at[tensor].storage].made;
}

static void find_saved(inference *n)
{
    for (uint32_t o = 0; o < n->trace->ops.n; o++) {
        const mr_op *op = &n->trace->ops.at[o];
        if (op->of == MR_NONE) continue;
        for (uint32_t i = 0; i < op->in.n; i++) {
            const uint32_t tensor = op->in.at[i], made = made_by(n, tensor);
            if (made == MR_NONE || made <= op->of)
                save(n, &n->trace->ops.at[op->of], tensor);
        }
    }
}

/* ---- roles and drops --------------------------------------------------------------------- */

static mr_role role_of(const mr_trace *trace, const mr_storage *storage, const use *u)
{
    if (u->changed_in_update && storage->before)
        return u->in_forward ? MR_ROLE_parameter : MR_ROLE_state;
    if (storage->before)
        return u->in_update && !u->in_forward ? MR_ROLE_gradient : MR_ROLE_unknown;
    const mr_phase made = trace->ops.at[u->made].phase;
    if (made == MR_UPDATE) return u->room && u->changed_in_update ? MR_ROLE_state : MR_ROLE_temporary;
    if (u->in_update && made == MR_BACKWARD) return MR_ROLE_gradient;
    return u->saved ? MR_ROLE_activation : MR_ROLE_temporary;
}

static void find_roles(inference *n)
{
    for (uint32_t s = 0; s < n->trace->storages.n; s++)
        n->trace->storages.at[s].role =
            (uint8_t)role_of(n->trace, &n->trace->storages.at[s], &n->storages[s]);
    for (uint32_t s = 0; s < n->trace->storages.n; s++)
        n->trace->storages.at[s].after |= n->trace->storages.at[s].role == MR_ROLE_state;
    for (uint32_t t = 0; t < n->trace->tensors.n; t++)
        n->trace->tensors.at[t].role =
            n->trace->storages.at[n->trace->tensors.at[t].storage].role;
}

static bool is_saved_for(const inference *n, const mr_op *op, uint32_t tensor)
{
    if (op->of == MR_NONE) return false;
    const mr_op *of = &n->trace->ops.at[op->of];
    for (uint32_t i = 0; i < of->saved.n; i++)
        if (of->saved.at[i].tensor == tensor) return true;
    return false;
}

/* What an op of the backward pass reads for autograd is no use by the program. */
static void find_last_uses(inference *n)
{
    for (uint32_t o = 0; o < n->trace->ops.n; o++) {
        const mr_op *op = &n->trace->ops.at[o];
        const mr_ids lists[] = {op->in, op->out, op->mutates};
        for (size_t l = 0; l < MR_COUNT(lists); l++)
            for (uint32_t i = 0; i < lists[l].n; i++) {
                use *u = &n->tensors[lists[l].at[i]];
                if (!is_saved_for(n, op, lists[l].at[i])) u->last = o;
            }
    }
}

/* What is made in the backward pass is autograd's, which needs no drop to let it go. */
static bool is_let_go(const inference *n, uint32_t tensor)
{
    const uint32_t made = made_by(n, tensor);
    return !n->trace->storages.at[n->trace->tensors.at[tensor].storage].before
           && n->tensors[tensor].last != MR_NONE
           && n->trace->ops.at[made].phase != MR_BACKWARD;
}

static void add_drops(inference *n)
{
    mr_trace *trace = n->trace;
    mr_ids *dropped = MR_NEW_N(n->f->ctx, mr_ids, trace->ops.n);
    for (int fill = 0; fill < 2; fill++)
        for (uint32_t t = 0; t < trace->tensors.n; t++) {
            const uint32_t last = n->tensors[t].last;
            if (!is_let_go(n, t)) continue;
            mr_ids *ids = &dropped[last];
            if (fill && !ids->at) {
                ids->at = MR_NEW_N(n->f->ctx, uint32_t, ids->n);
                ids->n = 0;
            }
            if (fill) ids->at[ids->n] = t;
            ids->n++;
        }
    MR_VEC(mr_event) events = {0};
    for (uint32_t e = 0; e < trace->events.n; e++) {
        const mr_event event = trace->events.at[e];
        MR_PUSH(n->f->ctx, &events, event);
        if (event.kind != MR_RUN) continue;
        for (uint32_t i = 0; i < dropped[event.id].n; i++)
            MR_PUSH(n->f->ctx, &events, (mr_event){MR_DROP, dropped[event.id].at[i]});
    }
    trace->events.at = events.at;
    trace->events.n = events.n;
    trace->events.cap = events.cap;
}

void et_infer(et_file *f)
{
    mr_trace *trace = f->trace;
    inference n = {.f = f,
                   .trace = trace,
                   .tensors = MR_NEW_N(f->ctx, use, trace->tensors.n),
                   .storages = MR_NEW_N(f->ctx, use, trace->storages.n)};
    for (uint32_t t = 0; t < trace->tensors.n; t++)
        n.tensors[t].made = n.tensors[t].last = MR_NONE;
    for (uint32_t s = 0; s < trace->storages.n; s++)
        n.storages[s].made = n.storages[s].last = MR_NONE;
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const mr_op *op = &trace->ops.at[o];
        touch(&n, o, &op->in, false);
        touch(&n, o, &op->mutates, true);
        for (uint32_t i = 0; i < op->out.n; i++) {
            const uint32_t storage = trace->tensors.at[op->out.at[i]].storage;
            n.tensors[op->out.at[i]].made = o;
            if (trace->storages.at[storage].before || n.storages[storage].made != MR_NONE)
                continue; /* a view of what was there before does not make it */
            n.storages[storage].made = o;
            n.storages[storage].room = f->nodes.at[f->node_of[o]].fresh;
        }
    }
    find_gradients(&n);
    find_saved(&n);
    find_roles(&n);
    find_last_uses(&n);
    add_drops(&n);
}
