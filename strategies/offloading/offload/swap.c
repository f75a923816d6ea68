/* swap -- copies there and back, on streams of their own beside what computes.
 *
 *     compute   ..last.. wait | give back ..........  take | ....... use
 *     to host         copy ──►                             :          ▲
 *     from host                                            copy ──────┘
 *
 * Memory is given back when computing has waited for the copy, so that whoever gets it comes
 * after; it is taken on the stream that computes, so that the copy back comes after whoever
 * had it.  A copy that comes back too late makes the op wait that reads it.
 */
#include "swap.h"

#include "host_copy.h"

#include <string.h>

typedef struct lists { /* of items, by event: the first; by item: the next; MR_NONE */
    uint32_t *first, *next;
} lists;

typedef struct writer {
    mr_rewrite r;
    mr_where where;
    swap_items items;
    uint32_t *item_of;      /* by storage: that goes, MR_NONE */
    uint32_t *whole, *host; /* by item: tensors of the output: of all its memory, its copy */
    uint32_t *new_home;     /* by item: the tensor that has come back */
    lists goes, waits, backs, ends;
    uint32_t out_stream, in_stream;
} writer;

static const mr_tensor *tensor_at(const writer *w, uint32_t tensor)
{
    return &w->r.in->tensors.at[tensor];
}

static lists new_lists(writer *w)
{
    return (lists){mr_none_of(w->r.ctx, w->r.in->events.n + 1),
                   mr_none_of(w->r.ctx, w->items.all.n)};
}

static void put(lists *l, uint32_t event, uint32_t i)
{
    l->next[i] = l->first[event];
    l->first[event] = i;
}

/* ---- tensors of all of a storage --------------------------------------------------------- */

static bool fills(const writer *w, const mr_tensor *t)
{
    const uint64_t bytes = w->r.in->storages.at[t->storage].bytes;
    return !t->offset && t->bytes == bytes && mr_host_copy_bytes(t) == bytes;
}

static uint32_t flat_tensor(writer *w, uint32_t like)
{
    const uint32_t t = mr_rewrite_new_tensor(&w->r, like, tensor_at(w, like)->storage);
    mr_tensor *tensor = &w->r.out->tensors.at[t];
    uint64_t *shape = MR_NEW(w->r.ctx, uint64_t);
    *shape = tensor->bytes;
    tensor->name = "";
    tensor->dtype = "uint8";
    tensor->rank = 1;
    tensor->shape = shape;
    return t;
}

static void find_wholes(writer *w)
{
    uint32_t *any = mr_none_of(w->r.ctx, w->items.all.n);
    for (uint32_t t = w->r.in->tensors.n; t-- > 0;) {
        const uint32_t i = w->item_of[tensor_at(w, t)->storage];
        if (i == MR_NONE) continue;
        any[i] = t;
        if (fills(w, tensor_at(w, t))) w->whole[i] = t;
    }
    for (uint32_t i = 0; i < w->items.all.n; i++)
        if (w->items.all.at[i].goes && w->whole[i] == MR_NONE)
            w->whole[i] = flat_tensor(w, any[i]);
}

/* ---- there and back ---------------------------------------------------------------------- */

static void wait_op(writer *w, const char *name, mr_ids in, mr_ids out, uint32_t stream,
                    mr_phase phase)
{
    const mr_op op = {.name = name,
                      .module = "",
                      .stream = stream,
                      .phase = phase,
                      .again = MR_NONE,
                      .of = MR_NONE,
                      .engine = MR_ENGINE_wait,
                      .in = in,
                      .out = out};
    mr_rewrite_new_op(&w->r, &op);
}

static void go(writer *w, uint32_t i, const mr_op *after)
{
    mr_op as = *after;
    as.of = MR_NONE;
    w->host[i] = mr_host_copy_new(&w->r, w->whole[i], MR_PINNED);
    mr_host_copy_out(&w->r, w->whole[i], w->host[i], w->out_stream, &as);
}

static void give_back(writer *w, uint32_t i, mr_phase phase)
{
    const mr_storage *home = &w->r.in->storages.at[w->items.all.at[i].storage];
    const uint32_t both[] = {w->host[i], w->whole[i]};
    wait_op(w, "cuda::stream_wait_event", mr_ids_of(w->r.ctx, 2, both), (mr_ids){0},
            home->stream, phase);
    mr_rewrite_drop(&w->r, NULL, w->whole[i]);
}

static void come_back(writer *w, uint32_t i, const mr_op *before)
{
    const uint32_t s = w->items.all.at[i].storage;
    const mr_storage *home = &w->r.in->storages.at[s];
    mr_op as = *before;
    as.of = MR_NONE;
    const uint32_t t = mr_host_copy_new(&w->r, w->whole[i], home->device);
    w->r.out->storages.at[w->r.out->tensors.at[t].storage].role = home->role;
    wait_op(w, "aten::empty_like", (mr_ids){0}, mr_ids_of(w->r.ctx, 1, &t), home->stream,
            before->phase);
    mr_host_copy_back(&w->r, w->host[i], t, w->in_stream, true, &as);
    mr_rewrite_drop(&w->r, NULL, w->host[i]);
    w->new_home[i] = t;
    w->where.storage[s] = w->r.out->tensors.at[t].storage;
}

/* What a node holds and no op reads ends only when its copy has come. */
static void wait_unread(writer *w, uint32_t i, mr_phase phase)
{
    const uint32_t home = w->r.in->storages.at[w->items.all.at[i].storage].stream;
    wait_op(w, "cuda::stream_wait_event", mr_ids_of(w->r.ctx, 1, &w->new_home[i]), (mr_ids){0},
            home, phase);
}

/* ---- the events of the step -------------------------------------------------------------- */

/* Autograd keeps what stays. */
static void save_what_stays(writer *w, uint32_t o)
{
    const mr_op *op = &w->r.in->ops.at[o];
    mr_op *kept = &w->r.out->ops.at[o];
    if (op->phase == MR_BACKWARD || !op->saved.n) return;
    kept->saved.at = MR_NEW_N(w->r.ctx, mr_saved, op->saved.n);
    kept->saved.n = 0;
    for (uint32_t i = 0; i < op->saved.n; i++)
        if (w->item_of[tensor_at(w, op->saved.at[i].tensor)->storage] == MR_NONE)
            kept->saved.at[kept->saved.n++] = op->saved.at[i];
}

static void write_run(writer *w, uint32_t e)
{
    const uint32_t o = w->r.in->events.at[e].id;
    const mr_op *op = &w->r.in->ops.at[o];
    save_what_stays(w, o);
    mr_rewrite_run(&w->r, &w->where, o);
    for (uint32_t i = w->goes.first[e]; i != MR_NONE; i = w->goes.next[i]) go(w, i, op);
    for (uint32_t i = w->ends.first[e]; i != MR_NONE; i = w->ends.next[i]) {
        if (!w->items.all.at[i].read) wait_unread(w, i, op->phase);
        mr_rewrite_drop(&w->r, NULL, w->new_home[i]);
    }
}

/* What goes is held until it is gone, whatever the program drops. */
static void write_event(writer *w, uint32_t e)
{
    const mr_event event = w->r.in->events.at[e];
    if (event.kind == MR_RUN) {
        write_run(w, e);
        return;
    }
    if (event.kind != MR_DROP) {
        mr_rewrite_keep(&w->r, NULL, e);
        return;
    }
    const uint32_t i = w->item_of[tensor_at(w, event.id)->storage];
    if (i == MR_NONE || e >= w->items.all.at[i].wait) mr_rewrite_keep(&w->r, NULL, e);
}

/* The op that an event waits for or hurries to, for its phase and module. */
static const mr_op *op_from(const writer *w, uint32_t e)
{
    for (; e < w->r.in->events.n; e++)
        if (w->r.in->events.at[e].kind == MR_RUN)
            return &w->r.in->ops.at[w->r.in->events.at[e].id];
    return &w->r.in->ops.at[0];
}

static void write_before(writer *w, uint32_t e)
{
    for (uint32_t i = w->waits.first[e]; i != MR_NONE; i = w->waits.next[i])
        give_back(w, i, op_from(w, e)->phase);
    for (uint32_t i = w->backs.first[e]; i != MR_NONE; i = w->backs.next[i])
        come_back(w, i, op_from(w, e));
}

/* ---- the whole --------------------------------------------------------------------------- */

static uint32_t prepare(writer *w)
{
    uint32_t n = 0;
    w->goes = new_lists(w), w->waits = new_lists(w);
    w->backs = new_lists(w), w->ends = new_lists(w);
    w->item_of = mr_none_of(w->r.ctx, w->r.in->storages.n);
    w->whole = mr_none_of(w->r.ctx, w->items.all.n);
    w->host = mr_none_of(w->r.ctx, w->items.all.n);
    w->new_home = mr_none_of(w->r.ctx, w->items.all.n);
    for (uint32_t i = w->items.all.n; i-- > 0;) {
        const swap_item *x = &w->items.all.at[i];
        if (!x->goes) continue;
        n++;
        w->item_of[x->storage] = i;
        put(&w->goes, x->last, i);
        put(&w->waits, x->wait, i);
        put(&w->ends, x->end, i);
    }
    for (uint32_t i = 0; i < w->items.all.n; i++) /* what went last comes back first */
        if (w->items.all.at[i].goes) put(&w->backs, w->items.all.at[i].back, i);
    find_wholes(w);
    return n;
}

static void add_streams(writer *w)
{
    mr_trace *out = w->r.out;
    for (int i = 0; i < 2; i++)
        MR_PUSH(w->r.ctx, &out->streams, out->streams.at[out->streams.n - 1] + 1);
    w->out_stream = out->streams.n - 2;
    w->in_stream = out->streams.n - 1;
}

mr_status swap_rewrite(mr_ctx *ctx, const mr_trace *in, const swap_choice *choice,
                       mr_trace *out)
{
    writer *w = MR_NEW(ctx, writer);
    MR_TRY(mr_rewrite_whole(ctx, in, "none, for all of a storage is copied"));
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    mr_where_init(&w->r, &w->where);
    swap_look(ctx, in, choice, &w->items);
    swap_plan(ctx, in, choice, &w->items);
    const uint32_t n = prepare(w);
    if (!n && w->items.all.n && choice->keep_last >= w->items.all.n)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "keep_last=%llu keeps all that could go to the host, which is %s of '%s',"
                       " expected less",
                       (unsigned long long)choice->keep_last,
                       mr_show_count(ctx, w->items.all.n, "tensor", "tensors"), in->name);
    if (!n)
        return mr_fail(ctx, MR_EUNSUPPORTED,
                       "'%s' has nothing that could go to the host and be back in time:"
                       " %s %sand large enough",
                       in->name,
                       mr_show_count(ctx, w->items.all.n, "tensor is saved", "tensors are saved"),
                       choice->policy == SWAP_CONV ? "for convolutions " : "");
    add_streams(w);
    for (uint32_t e = 0; e < in->events.n; e++) {
        write_before(w, e);
        write_event(w, e);
    }
    mr_rewrite_remark(&w->r,
                      "%u of %s go to the host, the others are asked for too"
                      " soon or kept as asked",
                      n, mr_show_count(w->r.ctx, w->items.all.n, "tensor", "tensors"));
    mr_host_copy_remark(&w->r, MR_PINNED);
    return MR_OK;
}
