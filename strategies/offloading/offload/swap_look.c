/* swap_look -- storages whose life has a gap: the last op of the forward pass that needs them,
 * and the first of the backward pass. */
#include "swap.h"

#include <stdlib.h>
#include <string.h>

typedef struct life {
    uint32_t last, use, end; /* as in swap_item; MR_NONE */
    uint32_t dropped;        /* event of the last drop, MR_NONE */
    bool saved;              /* by an op of the forward pass */
    bool feeds_conv;         /* as input of a convolution */
    bool read;               /* as in swap_item */
    bool returns;            /* the forward pass needs it again after the backward pass */
} life;

typedef struct looker {
    const mr_trace *in;
    life *lives; /* by storage */
} looker;

static life *life_of(const looker *l, uint32_t tensor)
{
    return &l->lives[l->in->tensors.at[tensor].storage];
}

static void touch(const looker *l, mr_ids ids, uint32_t e, bool backward)
{
    for (uint32_t i = 0; i < ids.n; i++) {
        life *x = life_of(l, ids.at[i]);
        if (!backward) {
            x->returns |= x->use != MR_NONE;
            x->last = e;
            continue;
        }
        if (x->use == MR_NONE) x->use = e;
        x->end = e;
        x->read = true;
    }
}

/* A node unpacks all that its op has saved when it begins, and lets it go when it is over. */
static void touch_saved(const looker *l, uint32_t o, uint32_t e)
{
    const mr_op *op = &l->in->ops.at[o];
    for (uint32_t i = 0; i < op->saved.n; i++) {
        life *x = life_of(l, op->saved.at[i].tensor);
        if (x->use == MR_NONE) x->use = e;
        x->end = e;
    }
}

static void save(const looker *l, const mr_op *op)
{
    const bool conv = strstr(op->name, "convolution") != NULL;
    for (uint32_t i = 0; i < op->saved.n && op->phase == MR_FORWARD; i++) {
        life *x = life_of(l, op->saved.at[i].tensor);
        x->saved = true;
        x->feeds_conv |= conv && op->saved.at[i].as == MR_SAVED_INPUT;
    }
}

static void look_at(const looker *l, uint32_t o, uint32_t e)
{
    const mr_op *op = &l->in->ops.at[o];
    const bool backward = op->phase == MR_BACKWARD;
    touch(l, op->in, e, backward);
    touch(l, op->out, e, backward);
    touch(l, op->mutates, e, backward);
    save(l, op);
    if (op->of == MR_NONE) return;
    touch_saved(l, op->of, e);
    if (l->in->ops.at[op->of].again != MR_NONE) touch_saved(l, l->in->ops.at[op->of].again, e);
}

static bool may_go(const looker *l, uint32_t s, const swap_choice *choice)
{
    const mr_storage *storage = &l->in->storages.at[s];
    const life *x = &l->lives[s];
    if (storage->before || storage->after || mr_is_host(storage->device)) return false;
    if (!x->saved || x->last == MR_NONE || x->use == MR_NONE || x->returns) return false;
    if (x->use < x->last || (x->dropped != MR_NONE && x->dropped > x->use)) return false;
    if (choice->policy == SWAP_CONV && !x->feeds_conv) return false;
    return storage->bytes && storage->bytes >= choice->least;
}

static int by_last(const void *a, const void *b)
{
    const swap_item *x = a, *y = b;
    if (x->last != y->last) return x->last < y->last ? -1 : 1;
    return x->storage < y->storage ? -1 : x->storage > y->storage;
}

void swap_look(mr_ctx *ctx, const mr_trace *in, const swap_choice *choice, swap_items *out)
{
    const looker l = {in, MR_NEW_N(ctx, life, in->storages.n)};
    *out = (swap_items){.backward = MR_NONE};
    for (uint32_t s = 0; s < in->storages.n; s++)
        l.lives[s] =
            (life){.last = MR_NONE, .use = MR_NONE, .end = MR_NONE, .dropped = MR_NONE};
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_event event = in->events.at[e];
        if (event.kind == MR_DROP) life_of(&l, event.id)->dropped = e;
        if (event.kind != MR_RUN) continue;
        look_at(&l, event.id, e);
        if (out->backward == MR_NONE && in->ops.at[event.id].phase == MR_BACKWARD)
            out->backward = e;
    }
    for (uint32_t s = 0; s < in->storages.n; s++) {
        if (!may_go(&l, s, choice)) continue;
        const life *x = &l.lives[s];
        const swap_item item = {.storage = s, .last = x->last, .wait = MR_NONE, .back = MR_NONE,
                                .use = x->use, .end = x->end, .read = x->read};
        MR_PUSH(ctx, &out->all, item);
    }
    if (out->all.n) qsort(out->all.at, out->all.n, sizeof *out->all.at, by_last);
}
