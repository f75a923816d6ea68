/* holders -- lists of what is live at a moment: by role, by maker, tensor by tensor. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "lists.h"

/* ---- roles and makers -------------------------------------------------------------------- */

typedef struct share {
    const char *key; /* those of one key are one row */
    const char *who; /* of one of them; of several the key */
    mr_role role;
    uint64_t bytes;
    uint32_t n;
} share;

typedef MR_VEC(share) shares;

static int by_key(const void *a, const void *b)
{
    const share *x = a, *y = b;
    if (x->role != y->role) return x->role < y->role ? -1 : 1;
    return strcmp(x->key, y->key);
}

static int by_bytes(const void *a, const void *b)
{
    const share *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return by_key(a, b);
}

/* Adds up those of the same key and role; the largest first. */
static void merge(shares *list)
{
    if (!list->n) return;
    qsort(list->at, list->n, sizeof *list->at, by_key);
    uint32_t kept = 0;
    for (uint32_t i = 1; i < list->n; i++) {
        share *to = &list->at[kept], *from = &list->at[i];
        if (by_key(to, from) != 0) {
            list->at[++kept] = *from;
            continue;
        }
        if (strcmp(to->who, from->who) != 0) to->who = to->key;
        to->bytes += from->bytes;
        to->n += from->n;
    }
    list->n = kept + 1;
    qsort(list->at, list->n, sizeof *list->at, by_bytes);
}

static void put_shares(mr_ctx *ctx, const shares *list, uint32_t most, bool role, mr_list *out)
{
    for (uint32_t i = 0; i < list->n && i < most; i++) {
        const share *s = &list->at[i];
        mr_list_add_text(ctx, out, s->who, s->who);
        mr_list_add(ctx, out, s->n);
        mr_list_add(ctx, out, s->bytes);
        mr_list_add(ctx, out, s->bytes);
        if (role)
            mr_list_add_text(ctx, out, s->role ? mr_role_name(s->role) : "",
                             mr_role_name(s->role));
    }
    out->left_out = list->n > most ? list->n - most : 0;
}

void mr_list_roles(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out)
{
    static const mr_list_column columns[] = {{"role", "role", MR_LIST_TEXT},
                                             {"storages", "storages", MR_LIST_COUNT},
                                             {"bytes", "live", MR_LIST_BYTES},
                                             {NULL, "share", MR_LIST_SHARE}};
    const mr_trace *trace = state->schedule.trace;
    shares list = {0};
    (void)extent;
    *out = (mr_list){columns, MR_COUNT(columns), {0}, state->ledger.live.bytes, 0, NULL};
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        if (!state->ledger.live.is[s]) continue;
        const mr_role role = (mr_role)trace->storages.at[s].role;
        const char *name = mr_role_plural(role);
        MR_PUSH(ctx, &list, (share){name, name, role, trace->storages.at[s].bytes, 1});
    }
    merge(&list);
    put_shares(ctx, &list, MR_ROLE_N, false, out);
}

void mr_list_makers(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out)
{
    static const mr_list_column columns[] = {{"made_by", "made by", MR_LIST_TEXT},
                                             {"storages", "storages", MR_LIST_COUNT},
                                             {"bytes", "live", MR_LIST_BYTES},
                                             {NULL, "share", MR_LIST_SHARE},
                                             {"role", "role", MR_LIST_TEXT}};
    const mr_trace *trace = state->schedule.trace;
    shares list = {0};
    *out = (mr_list){columns, MR_COUNT(columns), {0}, state->ledger.live.bytes, 0, NULL};
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        if (!state->ledger.live.is[s]) continue;
        const char *who = mr_show_maker(ctx, state->makers, s);
        const bool modules = trace->storages.at[s].stack == MR_NONE;
        MR_PUSH(ctx, &list,
                (share){modules ? mr_without_numbers(ctx, who) : who, who,
                        (mr_role)trace->storages.at[s].role, trace->storages.at[s].bytes, 1});
    }
    merge(&list);
    put_shares(ctx, &list, extent.top ? extent.top : extent.page, true, out);
}

/* ---- tensors ----------------------------------------------------------------------------- */

static const mr_list_column tensor_columns[] = {
    {"storage", NULL, MR_LIST_COUNT}, {"bytes", "live", MR_LIST_BYTES},
    {NULL, "share", MR_LIST_SHARE},   {NULL, "what", MR_LIST_TEXT},
    {NULL, "made by", MR_LIST_TEXT},  {NULL, "kept for,\nlast read by", MR_LIST_TEXT},
    {"role", NULL, MR_LIST_TEXT},     {"name", NULL, MR_LIST_TEXT},
    {"dtype", NULL, MR_LIST_TEXT},    {"shape", NULL, MR_LIST_TEXT},
    {"made_by", NULL, MR_LIST_TEXT},  {"made_op", NULL, MR_LIST_COUNT},
    {"made_in", NULL, MR_LIST_TEXT},  {"read_by", NULL, MR_LIST_TEXT},
    {"read_op", NULL, MR_LIST_COUNT}, {"read_in", NULL, MR_LIST_TEXT},
    {"saved_by", NULL, MR_LIST_TEXT}, {"saved_op", NULL, MR_LIST_COUNT},
    {"saved_in", NULL, MR_LIST_TEXT}, {"saved_as", NULL, MR_LIST_TEXT},
};

typedef struct held {
    uint64_t bytes;
    uint32_t storage;
} held;

static int by_size(const void *a, const void *b)
{
    const held *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return x->storage < y->storage ? -1 : x->storage > y->storage;
}

static const char *show_shape(mr_ctx *ctx, const mr_tensor *tensor)
{
    const char *text = "";
    for (uint32_t i = 0; i < tensor->rank; i++)
        text = mr_printf(ctx, "%s%s%" PRIu64, text, i ? "x" : "", tensor->shape[i]);
    return text;
}

const char *mr_show_op(mr_ctx *ctx, const mr_trace *trace, uint32_t op)
{
    return mr_printf(ctx, "%s (op %" PRIu32 ")", trace->ops.at[op].name, op + 1);
}

/* By storage: its first tensor with a name, else its first. */
static uint32_t *tensors_to_show(mr_ctx *ctx, const mr_trace *trace)
{
    uint32_t *list = MR_NEW_N(ctx, uint32_t, trace->storages.n);
    for (uint32_t s = 0; s < trace->storages.n; s++) list[s] = MR_NONE;
    for (uint32_t t = trace->tensors.n; t-- > 0;) {
        const mr_tensor *tensor = &trace->tensors.at[t];
        uint32_t *shown = &list[tensor->storage];
        if (*shown == MR_NONE || *tensor->name || !*trace->tensors.at[*shown].name) *shown = t;
    }
    return list;
}

/* Those of two texts that say something, one behind the other. */
static const char *joined(mr_ctx *ctx, const char *a, const char *between, const char *b)
{
    return !*a ? b : !*b ? a : mr_printf(ctx, "%s%s%s", a, between, b);
}

typedef struct lister {
    mr_ctx *ctx;
    const mr_state *state;
    const mr_trace *trace;
    const uint32_t *tensors; /* by storage: the one to show */
    mr_list *out;
} lister;

static void put_shown(lister *l, uint32_t s, const mr_tensor *tensor)
{
    const mr_ledger *ledger = &l->state->ledger;
    const mr_storage *storage = &l->trace->storages.at[s];
    const mr_role role = (mr_role)storage->role;
    const uint32_t maker = ledger->maker[s], saver = ledger->saver[s],
                   reader = ledger->reader[s];
    const char *what = joined(l->ctx, role ? mr_role_name(role) : "", " ", tensor->name);
    const char *type = joined(l->ctx, tensor->dtype, " ", show_shape(l->ctx, tensor));
    const char *made = "", *saved = "", *read = "";
    if (maker != MR_NONE)
        made = joined(l->ctx, mr_show_op(l->ctx, l->trace, maker), "\n  in ",
                      l->trace->ops.at[maker].module);
    else if (storage->stack != MR_NONE || !storage->before)
        made = mr_show_maker(l->ctx, l->state->makers, s);
    if (saver != MR_NONE)
        saved = mr_printf(l->ctx, "backward, by %s", mr_show_op(l->ctx, l->trace, saver));
    if (reader != MR_NONE) read = mr_show_op(l->ctx, l->trace, reader);
    mr_list_add_text(l->ctx, l->out, joined(l->ctx, what, "\n  ", type), NULL);
    mr_list_add_text(l->ctx, l->out, made, NULL);
    mr_list_add_text(l->ctx, l->out, joined(l->ctx, saved, "\n  ", read), NULL);
}

/* Name, number and module. */
static void put_op(lister *l, uint32_t op)
{
    const bool known = op != MR_NONE;
    mr_list_add_text(l->ctx, l->out, "", known ? l->trace->ops.at[op].name : NULL);
    mr_list_add_text(l->ctx, l->out, "", known ? mr_printf(l->ctx, "%" PRIu32, op + 1) : NULL);
    mr_list_add_text(l->ctx, l->out, "", known ? l->trace->ops.at[op].module : NULL);
}

static const char *unless_empty(const char *text)
{
    return *text ? text : NULL;
}

static void put_maker(lister *l, uint32_t s)
{
    const mr_storage *storage = &l->trace->storages.at[s];
    if (l->state->ledger.maker[s] != MR_NONE || storage->stack == MR_NONE) {
        put_op(l, l->state->ledger.maker[s]);
        return;
    }
    mr_list_add_text(l->ctx, l->out, "", mr_show_maker(l->ctx, l->state->makers, s));
    for (int i = 0; i < 2; i++) mr_list_add_text(l->ctx, l->out, "", NULL);
}

static void put_storage(lister *l, uint32_t s)
{
    static const mr_tensor unknown = {.name = "", .dtype = ""};
    const mr_ledger *ledger = &l->state->ledger;
    const bool known = l->tensors[s] != MR_NONE;
    const mr_tensor *tensor = known ? &l->trace->tensors.at[l->tensors[s]] : &unknown;
    mr_list_add(l->ctx, l->out, s);
    mr_list_add(l->ctx, l->out, l->trace->storages.at[s].bytes);
    mr_list_add(l->ctx, l->out, l->trace->storages.at[s].bytes);
    put_shown(l, s, tensor);
    mr_list_add_text(l->ctx, l->out, "", mr_role_name((mr_role)l->trace->storages.at[s].role));
    mr_list_add_text(l->ctx, l->out, "", unless_empty(tensor->name));
    mr_list_add_text(l->ctx, l->out, "", unless_empty(tensor->dtype));
    mr_list_add_text(l->ctx, l->out, "", known ? show_shape(l->ctx, tensor) : NULL);
    put_maker(l, s);
    put_op(l, ledger->reader[s]);
    put_op(l, ledger->saver[s]);
    const bool saved = ledger->saver[s] != MR_NONE;
    mr_list_add_text(l->ctx, l->out, "",
                     saved ? mr_saved_name((mr_saved_as)ledger->as[s]) : NULL);
}

void mr_list_tensors(mr_ctx *ctx, const mr_state *state, mr_extent extent, mr_list *out)
{
    const mr_trace *trace = state->schedule.trace;
    const uint32_t most = extent.top ? extent.top : extent.page;
    MR_VEC(held) list = {0};
    *out = (mr_list){
        tensor_columns, MR_COUNT(tensor_columns), {0}, state->ledger.live.bytes, 0, NULL};
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (state->ledger.live.is[s])
            MR_PUSH(ctx, &list, (held){trace->storages.at[s].bytes, s});
    if (list.n) qsort(list.at, list.n, sizeof *list.at, by_size);
    lister l = {ctx, state, trace, tensors_to_show(ctx, trace), out};
    for (uint32_t i = 0; i < list.n && i < most; i++) put_storage(&l, list.at[i].storage);
    out->left_out = list.n > most ? list.n - most : 0;
}
