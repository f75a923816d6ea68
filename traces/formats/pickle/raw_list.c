/* raw_list -- lists: of records as runs of numbers, of frames as stacks, the rest forgotten. */
#include "raw.h"

#include <inttypes.h>

#define STACK_FRAMES_MAX 65536 /* frames of one stack; a longer list is something else */

/* Below keys of the outermost dict that nobody reads, nothing is kept. */
bool mr_raw_ignored(const mr_raw_snapshot *raw)
{
    const uint32_t key = mr_pickle_root_key(&raw->pickle);
    return key != MR_NONE && key > MR_RAW_external_annotations;
}

static bool of_records(unsigned kind)
{
    return kind >= MR_RAW_V_EVENT && kind <= MR_RAW_V_HISTORY;
}

/* Adds a record to the runs that are kept in the list's words as first << 32 | n. */
static void add_record(mr_raw_snapshot *raw, mr_list *list, uint32_t index)
{
    if (list->n) {
        uint64_t *last = &raw->pickle.content.at[list->first + list->n - 1];
        if ((*last >> 32) + (*last & UINT32_MAX) == index) {
            ++*last;
            return;
        }
    }
    const uint64_t run = (uint64_t)index << 32 | 1;
    mr_pickle_keep(&raw->pickle, list, &run, 1);
}

static bool add(mr_raw_snapshot *raw, mr_list *list, mr_value item)
{
    unsigned kind = mr_v_kind(item);
    if (kind == MR_RAW_V_LIST && raw->lists.at[mr_v_index(item)].kind != MR_RAW_V_EVENT)
        return false;
    if (kind == MR_V_EMPTY) kind = MR_RAW_V_LIST;
    if (!list->items) list->kind = (uint16_t)kind;
    if (kind != list->kind) return false;
    if (of_records(kind)) return add_record(raw, list, (uint32_t)mr_v_index(item)), true;
    if (kind == MR_RAW_V_LIST && list->n == MR_RAW_LISTS_MAX) return false;
    if (kind == MR_V_INT && list->n == 2) return false;
    if (kind != MR_RAW_V_LIST && kind != MR_V_INT) return false;
    mr_pickle_keep(&raw->pickle, list, &item, 1);
    return true;
}

/* Frames are most of a file: when there is nothing else they are kept all at once. */
static bool add_frames(mr_raw_snapshot *raw, mr_list *list, const mr_value *at, uint32_t n)
{
    uint64_t different = list->items && list->kind != MR_RAW_V_FRAME;
    for (uint32_t i = 0; i < n; i++) different |= (at[i] & 0xff) ^ MR_RAW_V_FRAME;
    if (different || list->odd < list->items || n > STACK_FRAMES_MAX - list->n) return false;
    list->kind = MR_RAW_V_FRAME;
    list->items = list->odd += n;
    mr_pickle_keep(&raw->pickle, list, at, n);
    return true;
}

/* The frames of a list that is known to be a stack. */
static void unfold(mr_raw_snapshot *raw, mr_list *list)
{
    const mr_stack s = raw->trace->stacks.at[mr_v_index(raw->pickle.content.at[list->first])];
    raw->pickle.content.n -= list->n;
    list->n = 0;
    list->kind = MR_RAW_V_FRAME;
    for (uint32_t i = 0; i < s.n; i++) {
        const mr_value frame = mr_v(MR_RAW_V_FRAME, s.at[i]);
        mr_pickle_keep(&raw->pickle, list, &frame, 1);
    }
}

void mr_raw_items(void *self, mr_list *list, const mr_value *at, uint32_t n)
{
    mr_raw_snapshot *raw = self;
    if (n && list->kind == MR_RAW_V_STACK) unfold(raw, list);
    if (add_frames(raw, list, at, n)) return;
    for (uint32_t i = 0; i < n; i++, list->items++) {
        if (list->odd < list->items) {
            list->items += n - i;
            return;
        }
        if (add(raw, list, at[i])) list->odd++;
    }
}

/* Of numbers below 2^32 that lie above the lowest byte: two make one word, and two words are
 * on their way at once, for a product takes several cycles. */
static uint32_t hash_frames(const mr_value *at, uint32_t n)
{
    const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15);
    uint64_t a = n, b = odd;
    for (; n >= 4; n -= 4, at += 4) {
        a = (a ^ (at[0] << 24 | at[1] >> 8)) * odd;
        b = (b ^ (at[2] << 24 | at[3] >> 8)) * odd;
        a ^= a >> 32;
        b ^= b >> 32;
    }
    for (uint32_t i = 0; i < n; i++) a = (a ^ at[i]) * odd, a ^= a >> 32;
    return mr_hash(a ^ b << 1);
}

static bool same_stack(mr_stack known, const mr_value *at, uint32_t n)
{
    if (known.n != n) return false;
    uint64_t different = 0; /* nearly always the same: no need to stop early */
    for (uint32_t i = 0; i < n; i++) different |= known.at[i] ^ at[i] >> 8;
    return !different;
}

static mr_value stack_of(mr_raw_snapshot *raw, const mr_list *list)
{
    const uint64_t *at = raw->pickle.content.at + list->first;
    const uint32_t hash = hash_frames(at, list->n);
    uint32_t probe = mr_table_start(&raw->stack_table, hash), i;
    while ((i = mr_table_next(&raw->stack_table, hash, &probe)) != MR_NONE)
        if (same_stack(raw->trace->stacks.at[i], at, list->n)) return mr_v(MR_RAW_V_STACK, i);
    const mr_stack s = {MR_NEW_N(raw->ctx, uint32_t, list->n), list->n};
    for (uint32_t k = 0; k < s.n; k++) s.at[k] = (uint32_t)(at[k] >> 8);
    mr_table_add(raw->ctx, &raw->stack_table, hash, raw->trace->stacks.n);
    MR_PUSH(raw->ctx, &raw->trace->stacks, s);
    return mr_v(MR_RAW_V_STACK, raw->trace->stacks.n - 1);
}

bool mr_raw_again(void *self, mr_list *list, mr_value value)
{
    mr_raw_snapshot *raw = self;
    if (mr_v_kind(value) != MR_RAW_V_STACK) return false;
    list->kind = MR_RAW_V_STACK;
    list->items = list->odd = raw->trace->stacks.at[mr_v_index(value)].n;
    mr_pickle_keep(&raw->pickle, list, &value, 1);
    return true;
}

static mr_value pair_of(const mr_raw_snapshot *raw, const mr_list *list)
{
    const mr_value *at = raw->pickle.content.at + list->first;
    const uint64_t limit = UINT64_C(1) << 28;
    if (list->n != 2 || mr_v_index(at[0]) >= limit || mr_v_index(at[1]) >= limit)
        return mr_v(MR_V_OTHER, list->tuple ? MR_OTHER_TUPLE : MR_OTHER_LIST);
    return mr_v(MR_V_PAIR, mr_v_index(at[0]) << 28 | mr_v_index(at[1]));
}

/* A list of empty lists is as good as an empty one. */
static bool all_empty(const mr_raw_snapshot *raw, const mr_list *list)
{
    for (uint32_t i = 0; i < list->n; i++)
        if (mr_v_kind(raw->pickle.content.at[list->first + i]) != MR_V_EMPTY) return false;
    return list->odd == list->items;
}

static mr_value records_of(mr_raw_snapshot *raw, const mr_list *list)
{
    const bool nested = list->kind == MR_RAW_V_LIST;
    if (nested && all_empty(raw, list)) return mr_v(MR_V_EMPTY, 0);
    mr_raw_list l = {
        .odd = list->odd,
        .items = list->items,
        .offset = list->offset,
        .first = nested ? raw->inner.n : raw->runs.n,
        .n = list->n,
        .kind = list->kind,
    };
    for (uint32_t i = 0; i < list->n; i++) {
        const uint64_t kept = raw->pickle.content.at[list->first + i];
        if (nested) MR_PUSH(raw->ctx, &raw->inner, kept);
        else
            MR_PUSH(raw->ctx, &raw->runs,
                    (mr_raw_run){(uint32_t)(kept >> 32), (uint32_t)(kept & UINT32_MAX)});
    }
    MR_PUSH(raw->ctx, &raw->lists, l);
    return mr_v(MR_RAW_V_LIST, raw->lists.n - 1);
}

mr_value mr_raw_list_done(void *self, const mr_list *list)
{
    mr_raw_snapshot *raw = self;
    const mr_value other = mr_v(MR_V_OTHER, list->tuple ? MR_OTHER_TUPLE : MR_OTHER_LIST);
    if (!list->items) return mr_v(MR_V_EMPTY, 0);
    if (list->kind == MR_RAW_V_LIST || of_records(list->kind))
        return mr_raw_ignored(raw) ? mr_v(MR_V_OTHER, MR_OTHER_IGNORED) : records_of(raw, list);
    if (list->odd < list->items) return other;
    if (list->kind == MR_RAW_V_STACK) return raw->pickle.content.at[list->first];
    if (list->kind == MR_RAW_V_FRAME) return stack_of(raw, list);
    if (list->kind == MR_V_INT) return pair_of(raw, list);
    return other;
}

mr_status mr_raw_list_of(mr_raw_snapshot *raw, mr_value value, unsigned kind, const char *what,
                         mr_raw_list *out)
{
    *out = (mr_raw_list){.kind = (uint16_t)kind};
    if (mr_v_kind(value) == MR_V_EMPTY) return MR_OK;
    if (mr_v_kind(value) == MR_RAW_V_LIST) *out = raw->lists.at[mr_v_index(value)];
    if (mr_v_kind(value) != MR_RAW_V_LIST || out->kind != kind)
        return mr_raw_fail(raw, out->offset, "%s is %s, expected a list", what,
                           mr_v_show(&raw->pickle, value));
    if (out->odd < out->items)
        return mr_raw_fail(raw, out->offset,
                           "item %" PRIu64 " of %s is of another kind than those"
                           " before it",
                           out->odd, what);
    return MR_OK;
}
