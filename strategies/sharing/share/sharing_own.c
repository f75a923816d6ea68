/* sharing_own -- what belongs to which parameter: by name, then by columns of the update. */
#include "sharing.h"

#include <string.h>

bool sharing_is_gone(const sharing *s, uint32_t storage)
{
    const uint32_t owner = s->owner[storage];
    return owner != MR_NONE && s->lender[owner] != owner;
}

static bool begins_with(const char *name, const char *prefix)
{
    return strncmp(name, prefix, strlen(prefix)) == 0;
}

/* How many columns the lists of an op of the update have; 0 when it has none. */
static uint32_t columns_of(const mr_trace *trace, const mr_op *op)
{
    uint32_t parameters = 0;
    if (!begins_with(op->name, "aten::_foreach_") && !begins_with(op->name, "aten::_fused_"))
        return 0;
    for (uint32_t i = 0; i < op->in.n; i++)
        parameters += trace->tensors.at[op->in.at[i]].role == MR_ROLE_parameter;
    return parameters ? parameters : op->mutates.n ? op->mutates.n : op->out.n;
}

static void own_by_name(sharing *s)
{
    for (uint32_t t = 0; t < s->in->tensors.n; t++) {
        const mr_tensor *tensor = &s->in->tensors.at[t];
        if (!*tensor->name || !s->in->storages.at[tensor->storage].before) continue;
        uint32_t k = mr_names_find(&s->names, tensor->name, strlen(tensor->name));
        const char *dot = strrchr(tensor->name, '.');
        if (k == MR_NONE && dot)
            k = mr_names_find(&s->names, tensor->name, (size_t)(dot - tensor->name));
        if (k != MR_NONE) s->owner[tensor->storage] = s->named.at[k];
    }
}

static uint32_t *owner_in(const sharing *s, mr_ids ids, uint32_t i)
{
    return &s->owner[s->in->tensors.at[ids.at[i]].storage];
}

static void spread(const sharing *s, const mr_op *op, uint32_t column, uint32_t columns)
{
    const mr_ids lists[] = {op->in, op->mutates, op->out};
    uint32_t owner = MR_NONE;
    for (uint32_t l = 0; l < MR_COUNT(lists); l++)
        for (uint32_t i = column; i < lists[l].n / columns * columns; i += columns)
            if (owner == MR_NONE) owner = *owner_in(s, lists[l], i);
    for (uint32_t l = 0; l < MR_COUNT(lists) && owner != MR_NONE; l++)
        for (uint32_t i = column; i < lists[l].n / columns * columns; i += columns)
            if (*owner_in(s, lists[l], i) == MR_NONE) *owner_in(s, lists[l], i) = owner;
}

static bool same_shape(const mr_tensor *x, const mr_tensor *y)
{
    return x->rank == y->rank && x->rank > 0
           && !memcmp(x->shape, y->shape, x->rank * sizeof *x->shape);
}

/* An update of one parameter: everything of its shape is its own. */
static void spread_one(const sharing *s, const mr_op *op)
{
    const mr_ids lists[] = {op->in, op->mutates, op->out};
    if (!op->mutates.n && !op->out.n) return;
    const mr_tensor *model =
        &s->in->tensors.at[op->mutates.n ? op->mutates.at[0] : op->out.at[0]];
    uint32_t owner = MR_NONE;
    for (uint32_t l = 0; l < MR_COUNT(lists); l++)
        for (uint32_t i = 0; i < lists[l].n; i++)
            if (owner == MR_NONE && same_shape(&s->in->tensors.at[lists[l].at[i]], model))
                owner = *owner_in(s, lists[l], i);
    for (uint32_t l = 0; l < MR_COUNT(lists) && owner != MR_NONE; l++)
        for (uint32_t i = 0; i < lists[l].n; i++)
            if (*owner_in(s, lists[l], i) == MR_NONE
                && same_shape(&s->in->tensors.at[lists[l].at[i]], model))
                *owner_in(s, lists[l], i) = owner;
}

void sharing_own(sharing *s)
{
    s->owner = MR_NEW_N(s->ctx, uint32_t, s->in->storages.n);
    memset(s->owner, 0xff, s->in->storages.n * sizeof *s->owner);
    own_by_name(s);
    for (int pass = 0; pass < 2; pass++) /* norms of gradients come before they are known */
        for (uint32_t o = 0; o < s->in->ops.n; o++) {
            const mr_op *op = &s->in->ops.at[o];
            if (op->phase != MR_UPDATE) continue;
            const uint32_t columns = columns_of(s->in, op);
            for (uint32_t c = 0; c < columns; c++) spread(s, op, c, columns);
            if (!columns) spread_one(s, op);
        }
}
