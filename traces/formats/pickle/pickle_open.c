/* pickle_open -- lists, dicts and tuples: open while they grow, a value when they are complete.
 *
 * What is in the open ones lies in one array, outer ones below inner ones.  That works because
 * only the topmost open container of the stack can grow: whatever lies above it must first be
 * put into it, or thrown away, and thereby be completed:
 *
 *     stack    dict ( 'blocks' list ( dict ( 'size' 512
 *     open     [dict][list][dict]
 *     content  [..fields..][..words..][..fields..]
 */
#include "pickle.h"

#include <string.h>

#define STACK_MAX ((uint32_t)1 << 20) /* values; picklers put at most 2,000 at a time on it */

mr_status mr_pickle_push(mr_pickle *pickle, mr_value value)
{
    if (pickle->stack.n == STACK_MAX)
        return mr_pickle_fail(pickle,
                              "more than %u values wait to be put together,"
                              " expected a memory snapshot",
                              STACK_MAX);
    MR_PUSH(pickle->ctx, &pickle->stack, value);
    return MR_OK;
}

mr_status mr_pickle_begin(mr_pickle *pickle, bool dict)
{
    const mr_open open = {
        .list = {.first = pickle->content.n, .offset = pickle->at},
        .memo = MR_NONE,
        .place = pickle->stack.n,
        .dict = dict,
    };
    MR_PUSH(pickle->ctx, &pickle->open, open);
    return mr_pickle_push(pickle, mr_v(MR_V_OPEN, pickle->open.n - 1));
}

const mr_open *mr_pickle_open(const mr_pickle *pickle, mr_value value)
{
    return &pickle->open.at[mr_v_index(value)];
}

const mr_field *mr_pickle_fields(const mr_pickle *pickle, const mr_open *open, uint32_t *n)
{
    *n = open->list.n / 2;
    return (const mr_field *)(const void *)(pickle->content.at + open->list.first);
}

void mr_pickle_keep(mr_pickle *pickle, mr_list *list, const uint64_t *words, uint32_t n)
{
    MR_RESERVE_N(pickle->ctx, &pickle->content, pickle->content.n + n);
    memcpy(pickle->content.at + pickle->content.n, words, n * sizeof *words);
    pickle->content.n += n;
    list->n += n;
}

bool mr_pickle_again(mr_pickle *pickle, mr_list *list, const mr_run *run)
{
    const mr_builder *builder = pickle->builder;
    return run->meaning != MR_V_UNSET && builder->again
           && builder->again(pickle->self, list, run->meaning);
}

mr_value mr_pickle_complete(mr_pickle *pickle, uint32_t o)
{
    const mr_open *open = &pickle->open.at[o];
    const mr_builder *builder = pickle->builder;
    mr_value value;
    if (open->dict) {
        uint32_t n;
        const mr_field *fields = mr_pickle_fields(pickle, open, &n);
        value = builder->dict(pickle->self, fields, n, open->seen, open->list.offset);
    } else {
        value = builder->list(pickle->self, &open->list);
        if (open->run) mr_runs_mean(&pickle->runs, open->run - 1, value);
    }
    if (open->memo != MR_NONE && pickle->memo.at[open->memo] == mr_v(MR_V_OPEN, o))
        pickle->memo.at[open->memo] = value;
    pickle->stack.at[open->place] = value;
    return value;
}

void mr_pickle_settle(mr_pickle *pickle, uint32_t from)
{
    const mr_value *at = pickle->stack.at;
    uint32_t lowest = MR_NONE;
    for (uint32_t i = from; i < pickle->stack.n; i++) {
        if (mr_v_kind(at[i]) != MR_V_OPEN) continue;
        const uint32_t o = (uint32_t)mr_v_index(at[i]);
        if (lowest == MR_NONE) lowest = o;
        mr_pickle_complete(pickle, o);
    }
    if (lowest == MR_NONE) return;
    pickle->content.n = pickle->open.at[lowest].list.first;
    pickle->open.n = lowest;
}

/* The open container that is to take in what stands from `from` on, which is completed. */
static mr_status owner(mr_pickle *pickle, uint32_t from, bool dict, mr_open **out)
{
    const char *wanted = dict ? "dict" : "list";
    if (from <= mr_pickle_floor(pickle))
        return mr_pickle_fail(pickle, "items are put into nothing, expected a %s below them",
                              wanted);
    const mr_value value = pickle->stack.at[from - 1];
    const unsigned kind = mr_v_kind(value);
    if (kind != MR_V_OPEN)
        return mr_pickle_fail(pickle,
                              "items are put into %s, expected a %s that nothing"
                              " refers to before it is complete",
                              mr_v_show(pickle, value), wanted);
    mr_open *open = &pickle->open.at[mr_v_index(value)];
    if (open->dict != dict)
        return mr_pickle_fail(pickle, "items are put into a %s, expected a %s",
                              dict ? "list" : "dict", wanted);
    const uint32_t above = (uint32_t)mr_v_index(value) + 1;
    if (pickle->open.n > above) mr_pickle_settle(pickle, from);
    pickle->open.n = above;
    open->run = 0;
    pickle->content.n = open->list.first + open->list.n;
    *out = open;
    return MR_OK;
}

mr_status mr_pickle_append(mr_pickle *pickle, uint32_t from)
{
    mr_open *open = NULL;
    MR_TRY(owner(pickle, from, false, &open));
    pickle->builder->items(pickle->self, &open->list, pickle->stack.at + from,
                           pickle->stack.n - from);
    pickle->stack.n = from;
    return MR_OK;
}

/* There is room for it. */
static void set(mr_pickle *pickle, mr_open *open, uint64_t key, mr_value value)
{
    mr_list *list = &open->list;
    const uint64_t bit = (uint64_t)1 << key;
    uint64_t *word = pickle->content.at + list->first;
    if (open->seen & bit) {
        while (*word != key) word += 2;
    } else {
        open->seen |= bit;
        word += list->n;
        list->n += 2;
    }
    word[0] = key;
    word[1] = value; /* the last one counts */
}

mr_status mr_pickle_set(mr_pickle *pickle, uint32_t from)
{
    mr_open *open = NULL;
    MR_TRY(owner(pickle, from, true, &open));
    const uint32_t n = pickle->stack.n - from;
    if (n % 2)
        return mr_pickle_fail(pickle,
                              "a dict is given %u keys and values together, expected"
                              " an even number",
                              n);
    const mr_value *at = pickle->stack.at + from;
    const uint32_t keys = pickle->builder->keys;
    MR_RESERVE_N(pickle->ctx, &pickle->content, pickle->content.n + n);
    for (uint32_t i = 0; i < n; i += 2) {
        const uint64_t key = mr_v_index(at[i]);
        if (mr_v_kind(at[i]) == MR_V_TEXT && key < keys) set(pickle, open, key, at[i + 1]);
    }
    pickle->content.n = open->list.first + open->list.n;
    open->list.items += n / 2;
    pickle->stack.n = from;
    return MR_OK;
}

/* LIST and DICT make the container after its items: put it below them, then as usual. */
mr_status mr_pickle_collect(mr_pickle *pickle, uint32_t from, bool dict)
{
    const uint32_t n = pickle->stack.n - from;
    mr_pickle_settle(pickle, from);
    MR_TRY(mr_pickle_begin(pickle, dict));
    mr_value *at = pickle->stack.at + from;
    const mr_value open = at[n];
    memmove(at + 1, at, n * sizeof *at);
    at[0] = open;
    pickle->open.at[pickle->open.n - 1].place = from;
    return dict ? mr_pickle_set(pickle, from + 1) : mr_pickle_append(pickle, from + 1);
}

mr_status mr_pickle_tuple(mr_pickle *pickle, uint32_t from)
{
    mr_pickle_settle(pickle, from);
    mr_list list = {
        .first = pickle->content.n,
        .offset = pickle->at,
        .tuple = true,
    };
    const uint32_t n = pickle->stack.n - from;
    if (n) pickle->builder->items(pickle->self, &list, pickle->stack.at + from, n);
    const mr_value value = pickle->builder->list(pickle->self, &list);
    pickle->content.n = list.first;
    pickle->stack.n = from;
    return mr_pickle_push(pickle, value);
}
