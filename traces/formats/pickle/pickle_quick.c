/* pickle_quick -- what is frequent in a snapshot, without leaving the registers.
 *
 * Those are references to the memo, small numbers, and lists and dicts of them.  Whatever is
 * rare, incomplete or wrong is left to the table of opcodes.  Each case steps by a constant, so
 * that the processor need not wait for one opcode to find the next.
 */
#include "pickle.h"

/* What is given the address of `hot` must be inlined, or all of it lives in memory. */
#define FAST static inline __attribute__((always_inline))

typedef struct hot {
    const unsigned char *p;
    mr_value *top, *limit, *memo;
    uint32_t memo_n;
    uint32_t floor; /* height of the last mark */
} hot;

FAST hot take_up(const mr_pickle *pickle)
{
    mr_value *const stack = pickle->stack.at;
    return (hot){pickle->p,        stack + pickle->stack.n, stack + pickle->stack.cap,
                 pickle->memo.at,  pickle->memo.n,          mr_pickle_floor(pickle)};
}

FAST void put_down(mr_pickle *pickle, const hot *h)
{
    pickle->p = h->p;
    pickle->stack.n = (uint32_t)(h->top - pickle->stack.at);
    pickle->memo.n = h->memo_n;
}

FAST bool get(hot *h, uint32_t index)
{
    if (index >= h->memo_n || mr_v_kind(h->memo[index]) <= MR_V_OPEN) return false;
    *h->top++ = h->memo[index];
    return true;
}

/* A number of 1 to 7 bytes: as many as a value has room for. */
FAST bool wide_number(hot *h)
{
    const unsigned bytes = h->p[1];
    if (!bytes || bytes > 7) return false;
    *h->top++ = mr_v_signed(mr_little8(h->p + 2), bytes);
    h->p += 2 + bytes;
    return true;
}

FAST bool memoize(hot *h, mr_pickle *pickle)
{
    if (h->memo_n != pickle->filled || h->memo_n == pickle->memo.cap) return false;
    if (h->memo_n >= MR_MEMO_FREE || h->top - pickle->stack.at <= h->floor) return false;
    const mr_value value = h->top[-1];
    if (mr_v_kind(value) == MR_V_OPEN) {
        mr_open *open = &pickle->open.at[mr_v_index(value)];
        if (open->memo == MR_NONE) open->memo = h->memo_n;
    }
    h->memo[h->memo_n++] = value;
    pickle->filled++;
    h->p++;
    return true;
}

/* ---- lists of references --------------------------------------------------------------- */

/* Reads references up to APPENDS and puts them into the list, which is the first time. */
static bool fill(mr_pickle *pickle, mr_open *open)
{
    const unsigned char *const end = pickle->end - MR_ROOM;
    const unsigned char *const begin = pickle->p + 1;
    hot h = take_up(pickle);
    const mr_value *first = h.top;
    for (h.p++; h.p <= end && h.top < h.limit;) {
        const unsigned char code = *h.p;
        if (code == 'h') {
            if (!get(&h, h.p[1])) return false;
            h.p += 2;
        } else if (code == 'j') {
            if (!get(&h, mr_little4(h.p + 1))) return false;
            h.p += 5;
        } else break;
    }
    if (*h.p != 'e' || h.top == first) return false;
    pickle->builder->items(pickle->self, &open->list, first, (uint32_t)(h.top - first));
    pickle->p = h.p + 1;
    const uint32_t n = (uint32_t)(pickle->p - begin);
    open->run = mr_runs_add(pickle->ctx, &pickle->runs, begin, n) + 1;
    return true;
}

/* A MARK behind a list that is still empty: often references to things that were in one list
 * before.  False leaves it to be read one by one. */
static bool references(mr_pickle *pickle)
{
    const unsigned char *const p = pickle->p;
    if (pickle->stack.n <= mr_pickle_floor(pickle)) return false;
    if (p[1] != 'h' && p[1] != 'j') return false;
    const mr_value below = pickle->stack.at[pickle->stack.n - 1];
    if (mr_v_kind(below) != MR_V_OPEN || mr_v_index(below) + 1 != pickle->open.n) return false;
    mr_open *open = &pickle->open.at[mr_v_index(below)];
    if (open->dict || open->list.items) return false;
    pickle->content.n = open->list.first;
    const size_t have = (size_t)(pickle->end - MR_ROOM - p);
    const mr_run *run = mr_runs_find(&pickle->runs, p + 1, have);
    if (!run || !mr_pickle_again(pickle, &open->list, run)) return fill(pickle, open);
    pickle->p += 1 + run->n;
    return true;
}

/* ---- containers ------------------------------------------------------------------------ */

FAST bool mark(hot *h, mr_pickle *pickle)
{
    if (pickle->marks.n == pickle->marks.cap || pickle->marks.n >= MR_MARKS_MAX) return false;
    h->floor = (uint32_t)(h->top - pickle->stack.at);
    pickle->marks.at[pickle->marks.n++] = h->floor;
    h->p++;
    return true;
}

FAST bool begin(hot *h, mr_pickle *pickle, bool dict)
{
    if (pickle->open.n == pickle->open.cap) return false;
    pickle->open.at[pickle->open.n] = (mr_open){
        .list = {.first = pickle->content.n,
                 .offset = pickle->base + (uint64_t)(h->p - pickle->window)},
        .memo = MR_NONE,
        .place = (uint32_t)(h->top - pickle->stack.at),
        .dict = dict,
    };
    *h->top++ = mr_v(MR_V_OPEN, pickle->open.n++);
    h->p++;
    return true;
}

/* SETITEMS or APPENDS. */
static mr_status put_in(mr_pickle *pickle, bool dict)
{
    pickle->at = pickle->base + (uint64_t)(pickle->p - pickle->window);
    pickle->p++;
    const uint32_t from = pickle->marks.at[--pickle->marks.n];
    return dict ? mr_pickle_set(pickle, from) : mr_pickle_append(pickle, from);
}

mr_status mr_pickle_quick(mr_pickle *pickle)
{
    const unsigned char *const end = pickle->end - MR_ROOM;
    mr_value *const stack = pickle->stack.at;
    hot h = take_up(pickle);
    while (h.p <= end && h.top < h.limit) {
        const unsigned char code = *h.p;
        if (code == 'h') {
            if (!get(&h, h.p[1])) break;
            h.p += 2;
        } else if (code == 'j') {
            if (!get(&h, mr_little4(h.p + 1))) break;
            h.p += 5;
        } else if (code == 'K') {
            *h.top++ = mr_v(MR_V_INT, h.p[1]);
            h.p += 2;
        } else if (code == 'M') {
            *h.top++ = mr_v(MR_V_INT, h.p[1] | (uint64_t)h.p[2] << 8);
            h.p += 3;
        } else if (code == 'J') {
            *h.top++ = mr_v_signed(mr_little4(h.p + 1), 4);
            h.p += 5;
        } else if (code == 0x8a) {
            if (!wide_number(&h)) break;
        } else if (code == 0x94) {
            if (!memoize(&h, pickle)) break;
        } else if (code == '(') {
            const bool behind_open = h.top > stack && mr_v_kind(h.top[-1]) == MR_V_OPEN;
            put_down(pickle, &h);
            if (behind_open && references(pickle)) h.p = pickle->p;
            else if (!mark(&h, pickle)) break;
        } else if (code == ']') {
            if (!begin(&h, pickle, false)) break;
        } else if (code == '}') {
            put_down(pickle, &h);
            mr_pickle_shaped(pickle);
            const bool none = pickle->p == h.p;
            h = take_up(pickle);
            if (none && !begin(&h, pickle, true)) break;
        } else if (code == 'u' || code == 'e') {
            if (!pickle->marks.n) break;
            put_down(pickle, &h);
            MR_TRY(put_in(pickle, code == 'u'));
            h = take_up(pickle);
        } else break;
    }
    put_down(pickle, &h);
    return MR_OK;
}
