/* update_writer -- see the header. */
#include "update_writer.h"

#include <string.h>

static const mr_tensor *tensor_at(const update_writer *w, uint32_t tensor)
{
    return &w->r->out->tensors.at[tensor];
}

static unsigned slot(char letter)
{
    return (unsigned)(letter & 0x1f) - 1;
}

static bool is_state(char letter)
{
    return letter >= 'A' && letter <= 'Z';
}

static bool is_matrix(const update_writer *w, uint32_t i)
{
    return tensor_at(w, w->pairs.at[i].parameter)->rank > 1;
}

static const update_steps *steps_for(const update_writer *w, uint32_t i)
{
    return update_steps_of(w->name, w->form, is_matrix(w, i));
}

/* ---- sizes ------------------------------------------------------------------------------- */

typedef struct extent {
    const char *dtype;
    uint32_t rank;
    const uint64_t *shape;
    uint64_t bytes;
} extent;

/* The parameter's shape, but for the last dimension, the one before it, or both,
 * which are 1. */
static extent shrunk(const update_writer *w, const mr_tensor *p, bool last, bool second)
{
    uint64_t *shape = MR_NEW_N(w->r->ctx, uint64_t, p->rank);
    uint64_t bytes = p->bytes;
    if (p->rank) memcpy(shape, p->shape, p->rank * sizeof *shape);
    for (uint32_t back = 1; back <= 2 && back <= p->rank; back++) {
        if (!(back == 1 ? last : second)) continue;
        if (shape[p->rank - back]) bytes /= shape[p->rank - back];
        shape[p->rank - back] = 1;
    }
    return (extent){p->dtype, p->rank, shape, bytes};
}

static extent list_of(const update_writer *w, const char *dtype, uint64_t n, uint64_t each)
{
    uint64_t *shape = MR_NEW(w->r->ctx, uint64_t);
    *shape = n;
    return (extent){dtype, 1, shape, n * each};
}

/* bitsandbytes keeps what has less than 4096 numbers as float32, unscaled; blocks
 * are of 256. */
static extent in_eight_bits(const update_writer *w, const mr_tensor *p, bool scale)
{
    const uint64_t n = mr_tensor_numbers(p);
    if (n < 4096) return list_of(w, "float32", scale ? 0 : n, 4);
    return scale ? list_of(w, "float32", (n + 255) / 256, 4) : list_of(w, "uint8", n, 1);
}

static extent extent_of(const update_writer *w, char letter, uint32_t i)
{
    const mr_tensor *p = tensor_at(w, w->pairs.at[i].parameter);
    const uint64_t n = mr_tensor_numbers(p);
    switch (letter) {
    case 'E':
    case 'F': return in_eight_bits(w, p, false);
    case 'X':
    case 'Y': return in_eight_bits(w, p, true);
    case 'K': return (extent){"float32", 0, NULL, 4};
    case 'n': return (extent){p->dtype, 0, NULL, n ? p->bytes / n : 0};
    case 'o': return shrunk(w, p, true, true);
    case 'R':
    case 'r': return shrunk(w, p, true, false);
    case 'C':
    case 'c': return shrunk(w, p, false, true);
    default: return (extent){p->dtype, p->rank, p->shape, p->bytes};
    }
}

static uint32_t new_tensor(update_writer *w, char letter, uint32_t i)
{
    const uint32_t p = w->pairs.at[i].parameter;
    const extent x = extent_of(w, letter, i);
    const uint32_t s = mr_rewrite_new_storage(w->r, tensor_at(w, p)->storage, x.bytes);
    const uint32_t t = mr_rewrite_new_tensor(w->r, p, s);
    mr_storage *storage = &w->r->out->storages.at[s];
    mr_tensor *tensor = &w->r->out->tensors.at[t];
    storage->per_sample = 0;
    storage->role = is_state(letter) ? MR_ROLE_state : MR_ROLE_temporary;
    tensor->role = storage->role;
    tensor->name = "";
    tensor->dtype = x.dtype;
    tensor->rank = x.rank;
    tensor->shape = x.shape;
    return t;
}

/* ---- states ------------------------------------------------------------------------------ */

void update_begin(update_writer *w)
{
    for (uint32_t i = 0; i < w->pairs.n; i++)
        for (const char *s = steps_for(w, i)->states; *s; s++) {
            uint32_t **at = &w->states[slot(*s)];
            if (!*at) *at = MR_NEW_N(w->r->ctx, uint32_t, w->pairs.n);
            (*at)[i] = new_tensor(w, *s, i);
            mr_storage *storage = &w->r->out->storages.at[tensor_at(w, (*at)[i])->storage];
            storage->before = storage->after = true;
        }
}

/* ---- steps ------------------------------------------------------------------------------- */

static uint32_t meant(const update_writer *w, char letter, uint32_t i, uint32_t k)
{
    if (letter == 'p') return w->pairs.at[i].parameter;
    if (letter == 'g') return w->pairs.at[i].gradient;
    if (is_state(letter)) return w->states[slot(letter)][i];
    const mr_ids *fresh = &w->fresh[slot(letter)];
    return fresh->n ? fresh->at[k] : w->bound[slot(letter)].at[k];
}

static mr_ids all_of(update_writer *w, const char *letters, uint32_t i, uint32_t n)
{
    mr_ids ids = {MR_NEW_N(w->r->ctx, uint32_t, strlen(letters) * n), 0};
    for (; *letters; letters++)
        for (uint32_t k = 0; k < n; k++) ids.at[ids.n++] = meant(w, *letters, i + k, k);
    return ids;
}

static mr_ids made(update_writer *w, char letter, uint32_t i, uint32_t n)
{
    if (!letter) return (mr_ids){0};
    mr_ids ids = {MR_NEW_N(w->r->ctx, uint32_t, n), n};
    for (uint32_t k = 0; k < n; k++) ids.at[k] = new_tensor(w, letter, i + k);
    w->fresh[slot(letter)] = ids;
    return ids;
}

static uint64_t bytes_of(const update_writer *w, mr_ids ids)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < ids.n; i++) sum += tensor_at(w, ids.at[i])->bytes;
    return sum;
}

static void drop_all(update_writer *w, mr_ids *ids)
{
    for (uint32_t i = ids->n; i-- > 0;) mr_rewrite_drop(w->r, NULL, ids->at[i]);
    ids->n = 0;
}

/* The only product among the steps is that of a column and a row. */
static uint64_t flops_of(const update_writer *w, const update_step *step, mr_ids out)
{
    return strcmp(step->name, "aten::mm") ? 0 : 2 * mr_tensor_numbers(tensor_at(w, out.at[0]));
}

static void take(update_writer *w, const update_step *step, uint32_t i, uint32_t n)
{
    const mr_ids in = all_of(w, step->reads, i, n), out = made(w, step->makes, i, n);
    const mr_ids mutates = all_of(w, step->mutates, i, n);
    const mr_op op = {
        .name = step->name,
        .module = "",
        .stream = w->r->out->storages.at[tensor_at(w, in.at[0])->storage].stream,
        .phase = MR_UPDATE,
        .again = MR_NONE,
        .of = MR_NONE,
        .flops = flops_of(w, step, out),
        .read = bytes_of(w, in),
        .written = bytes_of(w, out) + bytes_of(w, mutates),
        .in = in,
        .out = out,
        .mutates = mutates,
    };
    w->last = mr_rewrite_new_op(w->r, &op);
    for (const char *b = step->binds; *b; b++) {
        drop_all(w, &w->bound[slot(*b)]);
        w->bound[slot(*b)] = w->fresh[slot(*b)];
        w->fresh[slot(*b)].n = 0;
    }
    for (const char *e = step->ends; *e; e++) drop_all(w, &w->fresh[slot(*e)]);
}

static void take_all(update_writer *w, uint32_t i, uint32_t n)
{
    const update_steps *steps = steps_for(w, i);
    for (uint32_t k = 0; k < steps->n; k++) take(w, &steps->at[k], i, n);
}

void update_write(update_writer *w, uint32_t i, uint32_t n)
{
    if (n && steps_for(w, i)->together) {
        take_all(w, i, n);
        return;
    }
    for (uint32_t k = 0; k < n; k++) take_all(w, i + k, 1);
}

void update_end(update_writer *w)
{
    for (unsigned letter = 0; letter < MR_COUNT(w->bound); letter++)
        drop_all(w, &w->bound[letter]);
}
