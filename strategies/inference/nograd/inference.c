/* inference -- see the header.
 *
 * An op goes if it belongs to the backward pass or the update, or works on what does not exist
 * without them.  A dropout goes if its result can be its input itself: whoever reads that input
 * read it before.  To the referee the last op that has read the input, or else the one that has
 * made it, stands in for the dropout.
 */
#include "inference.h"

#include <string.h>

typedef struct writer {
    mr_rewrite r;
    mr_where where; /* where the results of dropouts are */
    bool *gone;     /* by storage: there is none */
    bool *left_out; /* by op */
    bool unpacks;   /* the backward pass copies from the host what was saved there */
    uint32_t *maker, *reader; /* by storage: the op that wrote it last, read it last; so far */
    uint32_t *last_read;      /* by storage: event */
    uint32_t *identity;       /* by op: the dropout it stands in for, MR_NONE */
    MR_VEC(uint32_t) unneeded; /* ops */
    uint32_t kept;             /* dropouts */
} writer;

static uint32_t storage_of(const writer *w, uint32_t tensor)
{
    return w->r.in->tensors.at[tensor].storage;
}

static const mr_storage *home(const writer *w, uint32_t tensor)
{
    return &w->r.in->storages.at[storage_of(w, tensor)];
}

/* ---- what goes --------------------------------------------------------------------------- */

static bool any_gone(const writer *w, mr_ids ids)
{
    for (uint32_t i = 0; i < ids.n; i++)
        if (w->gone[storage_of(w, ids.at[i])]) return true;
    return false;
}

/* Counts batches and the like: in training only. */
static bool keeps_statistics(const writer *w, const mr_op *op)
{
    for (uint32_t i = 0; i < op->mutates.n; i++)
        if (!home(w, op->mutates.at[i])->before
            || home(w, op->mutates.at[i])->role != MR_ROLE_buffer)
            return false;
    return op->mutates.n && !op->out.n;
}

static bool copies_away(const mr_op *op)
{
    return !op->out.n && !op->mutates.n && !strcmp(op->name, "aten::_to_copy");
}

static bool is_unneeded(const writer *w, const mr_op *op)
{
    if (w->unpacks && copies_away(op)) return true; /* as torch.autograd.graph.save_on_cpu */
    if (op->phase == MR_BACKWARD || op->phase == MR_UPDATE) return true;
    return any_gone(w, op->in) || any_gone(w, op->mutates) || keeps_statistics(w, op);
}

static void leave_out(writer *w, uint32_t o)
{
    const mr_op *op = &w->r.in->ops.at[o];
    w->left_out[o] = true;
    MR_PUSH(w->r.ctx, &w->unneeded, o);
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = storage_of(w, op->out.at[i]);
        w->gone[s] |= w->r.birth[s] == o;
    }
}

/* Kernels that were fused for training make what its backward pass needs. */
static mr_status check_kernels(mr_ctx *ctx, const mr_trace *in)
{
    for (uint32_t o = 0; o < in->ops.n; o++)
        if (in->ops.at[o].phase == MR_FORWARD && !strncmp(in->ops.at[o].name, "triton_", 7))
            return mr_fail(ctx, MR_EUNSUPPORTED,
                           "op %u of '%s', %s, was fused for training, expected nograd before"
                           " what fuses (nograd+fuse)",
                           o, in->name, in->ops.at[o].name);
    return MR_OK;
}

/* What was let go in the forward pass already and computed again for it. */
static mr_status check_again(const writer *w, uint32_t o)
{
    const mr_op *op = &w->r.in->ops.at[o];
    for (uint32_t i = 0; i < op->in.n && op->phase == MR_FORWARD; i++) {
        const uint32_t birth = w->r.birth[storage_of(w, op->in.at[i])];
        if (birth != MR_NONE && w->r.in->ops.at[birth].again != MR_NONE)
            return mr_fail(w->r.ctx, MR_EUNSUPPORTED,
                           "op %u of '%s', %s of the forward pass, reads what was computed"
                           " again, expected nograd before what evicts (nograd+dtr)",
                           o, w->r.in->name, op->name);
    }
    return MR_OK;
}

static mr_status find_unneeded(writer *w)
{
    const mr_trace *in = w->r.in;
    bool updated = false, forward = false;
    w->unpacks = mr_rewrite_unpacks(in);
    for (uint32_t s = 0; s < in->storages.n; s++)
        w->gone[s] = in->storages.at[s].role == MR_ROLE_state
                     || (in->storages.at[s].before
                         && in->storages.at[s].role == MR_ROLE_gradient);
    for (uint32_t e = 0; e < in->events.n; e++) {
        if (in->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &in->ops.at[in->events.at[e].id];
        forward |= op->phase == MR_FORWARD;
        updated |= op->phase == MR_UPDATE;
        if (updated && op->phase == MR_FORWARD)
            return mr_fail(w->r.ctx, MR_EUNSUPPORTED,
                           "'%s' has a forward pass after an update, expected one step: without"
                           " the update it would be another computation",
                           in->name);
        MR_TRY(check_again(w, in->events.at[e].id));
        if (is_unneeded(w, op)) leave_out(w, in->events.at[e].id);
        else
            for (uint32_t i = 0; i < op->in.n; i++)
                w->last_read[storage_of(w, op->in.at[i])] = e;
    }
    if (forward) return MR_OK;
    return mr_fail(w->r.ctx, MR_EUNSUPPORTED, "'%s' has no forward pass, expected one to run",
                   in->name);
}

/* ---- dropout ----------------------------------------------------------------------------- */

static bool is_dropout(const mr_op *op)
{
    return op->phase == MR_FORWARD && op->in.n == 1 && op->out.n && !op->mutates.n
           && strstr(op->name, "dropout") != NULL;
}

/* The op that can stand in for the dropout, MR_NONE when its result must be another tensor. */
static uint32_t who_stands_in(const writer *w, const mr_op *dropout, uint32_t event)
{
    const mr_tensor *x = &w->r.in->tensors.at[dropout->in.at[0]];
    const mr_tensor *y = &w->r.in->tensors.at[dropout->out.at[0]];
    const uint32_t maker = w->maker[x->storage], reader = w->reader[x->storage];
    const uint32_t o = reader != MR_NONE ? reader : maker;
    if (w->last_read[x->storage] > event || x->offset != y->offset || x->bytes != y->bytes)
        return MR_NONE;
    if (o == MR_NONE || w->identity[o] != MR_NONE) return MR_NONE;
    return reader == MR_NONE && w->r.in->ops.at[o].mutates.n ? MR_NONE : o;
}

static void stand_in(writer *w, uint32_t o, uint32_t dropout)
{
    const uint32_t y = w->r.in->ops.at[dropout].out.at[0];
    const uint32_t x = w->r.in->ops.at[dropout].in.at[0];
    const bool made = w->reader[storage_of(w, x)] == MR_NONE;
    const uint32_t done[] = {dropout, o};
    const uint32_t place = mr_rewrite_tensor(&w->r, &w->where, y);
    const mr_stand_in stand = {o, mr_ids_of(w->r.ctx, made ? 2 : 1, done),
                               mr_ids_of(w->r.ctx, 1, &place), mr_ids_of(w->r.ctx, 1, &y)};
    MR_PUSH(w->r.ctx, &w->r.out->stand_ins, stand);
    w->identity[o] = dropout;
}

static bool becomes_identity(writer *w, uint32_t dropout, uint32_t event)
{
    const mr_op *op = &w->r.in->ops.at[dropout];
    const uint32_t x = storage_of(w, op->in.at[0]);
    const uint32_t o = who_stands_in(w, op, event);
    if (o == MR_NONE) {
        w->kept++;
        return false;
    }
    for (uint32_t i = 1; i < op->out.n; i++) w->gone[storage_of(w, op->out.at[i])] = true;
    w->where.storage[storage_of(w, op->out.at[0])] = w->where.storage[x];
    stand_in(w, o, dropout);
    return true;
}

/* ---- what ops note for the backward pass ------------------------------------------------- */

static void empty(writer *w, uint32_t o, uint32_t tensor)
{
    static const uint64_t nothing[] = {0};
    mr_tensor *t = &w->r.out->tensors.at[tensor];
    mr_storage *s = &w->r.out->storages.at[t->storage];
    w->r.out->ops.at[o].written -= t->bytes;
    t->rank = 1;
    t->shape = nothing;
    t->bytes = s->bytes = s->per_sample = 0;
}

/* With running statistics to read, those of the batch are empty; PyTorch's own kernel makes
 * room for them anyway.  So are the sums of memory-efficient attention. */
static void note_nothing(writer *w, uint32_t o)
{
    const mr_op *op = &w->r.in->ops.at[o];
    bool running = false;
    for (uint32_t i = 0; i < op->in.n; i++)
        running |= home(w, op->in.at[i])->role == MR_ROLE_buffer;
    if (running && strstr(op->name, "cudnn_batch_norm"))
        for (uint32_t i = 1; i < op->out.n; i++) empty(w, o, op->out.at[i]);
    if (strstr(op->name, "dot_product_efficient_attention") && op->out.n > 1)
        empty(w, o, op->out.at[1]);
}

/* ---- the whole --------------------------------------------------------------------------- */

static void note(writer *w, uint32_t o)
{
    const mr_op *op = &w->r.in->ops.at[o];
    for (uint32_t i = 0; i < op->in.n; i++) w->reader[storage_of(w, op->in.at[i])] = o;
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t s = storage_of(w, op->out.at[i]);
        if (w->r.birth[s] != o) continue; /* a view */
        w->maker[s] = o;
        w->reader[s] = MR_NONE;
    }
    for (uint32_t i = 0; i < op->mutates.n; i++) {
        w->maker[storage_of(w, op->mutates.at[i])] = o;
        w->reader[storage_of(w, op->mutates.at[i])] = MR_NONE;
    }
}

static void run(writer *w, uint32_t e)
{
    const uint32_t o = w->r.in->events.at[e].id;
    const mr_op *op = &w->r.in->ops.at[o];
    if (w->left_out[o]) return;
    if (is_dropout(op) && becomes_identity(w, o, e)) return;
    mr_rewrite_run(&w->r, &w->where, o);
    w->r.out->ops.at[o].saved.n = 0;
    if (op->phase == MR_FORWARD) note_nothing(w, o);
    note(w, o);
}

static bool is_of_training(const mr_mark *mark)
{
    return (mark->kind == MR_PHASE_BEGIN || mark->kind == MR_PHASE_END)
           && (!strcmp(mark->name, mr_phase_name(MR_BACKWARD))
               || !strcmp(mark->name, mr_phase_name(MR_UPDATE)));
}

static void write_events(writer *w)
{
    for (uint32_t e = 0; e < w->r.in->events.n; e++) {
        const mr_event event = w->r.in->events.at[e];
        const bool skipped =
            (event.kind == MR_DROP && w->gone[storage_of(w, event.id)])
            || (event.kind == MR_MARK && is_of_training(&w->r.in->marks.at[event.id]));
        if (event.kind == MR_RUN) run(w, e);
        else if (!skipped) mr_rewrite_keep(&w->r, &w->where, e);
    }
}

static void settle_storages(writer *w)
{
    for (uint32_t s = 0; s < w->r.in->storages.n; s++) {
        mr_storage *storage = &w->r.out->storages.at[s];
        if (w->gone[s]) storage->before = storage->after = false;
        if (storage->role == MR_ROLE_activation) storage->role = MR_ROLE_temporary;
    }
}

mr_status inference(mr_ctx *ctx, const mr_trace *in, mr_trace *out)
{
    writer *w = MR_NEW(ctx, writer);
    MR_TRY(mr_rewrite_before_host(ctx, in, "nograd"));
    MR_TRY(check_kernels(ctx, in));
    MR_TRY(mr_rewrite_begin(ctx, in, out, &w->r));
    mr_where_init(&w->r, &w->where);
    w->gone = MR_NEW_N(ctx, bool, in->storages.n);
    w->left_out = MR_NEW_N(ctx, bool, in->ops.n);
    w->maker = mr_none_of(ctx, in->storages.n);
    w->reader = mr_none_of(ctx, in->storages.n);
    w->last_read = MR_NEW_N(ctx, uint32_t, in->storages.n);
    w->identity = mr_none_of(ctx, in->ops.n);
    MR_TRY(find_unneeded(w));
    write_events(w);
    settle_storages(w);
    out->about[MR_ABOUT_optimizer] = NULL;
    const mr_stand_in left_out = {.op = MR_NONE, .ops = {w->unneeded.at, w->unneeded.n}};
    MR_PUSH(ctx, &out->stand_ins, left_out);
    if (w->kept)
        mr_rewrite_remark(&w->r,
                          "nograd leaves %s as recorded: what is read there is read"
                          " again later, or is not all of a tensor",
                          mr_show_count(ctx, w->kept, "dropout", "dropouts"));
    return MR_OK;
}
