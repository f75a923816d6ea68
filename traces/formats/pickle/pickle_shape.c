/* pickle_shape -- dicts that have the keys of one before, in the same order.
 *
 *     } MEMOIZE ( key value key value ... u
 *
 * A pickler writes a key that it wrote before as a reference, so all dicts of one kind have
 * the same bytes in these places.  They are compared, and the values go straight into the
 * fields without passing the stack.  Whatever is different is left to the machine: nothing has
 * happened then that it would see.
 */
#include "pickle.h"

#include <string.h>

/* The opcode at p with its argument, of up to 7 bytes, as a number. */
static inline uint64_t opcode(const unsigned char *p, unsigned bytes)
{
    return mr_little8(p) & UINT64_MAX >> (64 - 8 * bytes);
}

/* The shape for dicts that begin like the bytes behind MARK, learned or not. */
static mr_shape *shape_for(mr_pickle *pickle, const unsigned char *p)
{
    return &pickle->shapes[mr_hash(opcode(p, *p == 'j' ? 5 : 2)) % MR_SHAPES];
}

/* ---- learning -------------------------------------------------------------------------- */

/* How long the opcode is that stands for a number or something remembered, 0 for others. */
static unsigned plain(const unsigned char *p)
{
    switch (*p) {
    case 'N':
    case 0x88:
    case 0x89: return 1;
    case 'h':
    case 'K': return 2;
    case 'M': return 3;
    case 'j':
    case 'J': return 5;
    case 0x8a: return p[1] <= 7 ? 2 + (unsigned)p[1] : 0;
    default: return 0;
    }
}

/* Behind a value of the dict, NULL when it is of another kind than dicts with a shape have. */
static const unsigned char *skip(const unsigned char *p, const unsigned char *end)
{
    if (plain(p)) return p + plain(p);
    if (p[0] != ']' || p[1] != 0x94) return NULL;
    if (p[2] != '(') return p + 2;
    for (p += 3; p <= end && (*p == 'h' || *p == 'j');) p += plain(p);
    return p <= end && *p == 'e' ? p + 1 : NULL;
}

static bool learn_key(const mr_pickle *pickle, mr_shape *shape, const unsigned char *p)
{
    if ((*p != 'h' && *p != 'j') || shape->n == MR_SHAPE_KEYS) return false;
    const unsigned bytes = plain(p);
    const uint64_t index = opcode(p, bytes) >> 8;
    const mr_value key = index < pickle->memo.n ? pickle->memo.at[index] : MR_V_UNSET;
    if (mr_v_kind(key) != MR_V_TEXT) return false;
    const bool kept = mr_v_index(key) < pickle->builder->keys;
    const uint64_t bit = kept ? (uint64_t)1 << mr_v_index(key) : 0;
    if (shape->seen & bit) return false;
    shape->seen |= bit;
    shape->keys[shape->n++] = (mr_shape_key){
        .opcode = opcode(p, bytes),
        .mask = UINT64_MAX >> (64 - 8 * bytes),
        .key = kept ? (uint32_t)mr_v_index(key) : MR_NONE,
        .bytes = bytes,
    };
    return true;
}

/* Keeps what is known unless the dict at p has a shape. */
static void learn(mr_pickle *pickle, mr_shape *shape, const unsigned char *p)
{
    const unsigned char *const end = pickle->end - 2 * MR_ROOM;
    mr_shape learned = {0};
    while (p && p <= end && *p != 'u') {
        if (!learn_key(pickle, &learned, p)) return;
        p = skip(p + plain(p), end);
    }
    if (p && p <= end) *shape = learned;
}

/* ---- reading --------------------------------------------------------------------------- */

/* What is read so far; the machine's own is changed at the end. */
typedef struct part {
    const unsigned char *p, *end;
    mr_value *memo;
    uint32_t memo_n;
    bool strange; /* it has other keys */
} part;

static inline bool remembered(part *d, uint64_t index, mr_value *out)
{
    if (index >= d->memo_n || mr_v_kind(d->memo[index]) <= MR_V_OPEN) return false;
    *out = d->memo[index];
    return true;
}

/* An empty list, or one of references that were in a list before. */
static bool list(mr_pickle *pickle, part *d, mr_value *out)
{
    if (d->p[1] != 0x94) return false;
    mr_list list = {
        .first = pickle->content.n,
        .offset = pickle->base + (uint64_t)(d->p - pickle->window),
    };
    d->p += 2;
    if (*d->p == '(') {
        const mr_run *run = mr_runs_find(&pickle->runs, d->p + 1, (size_t)(d->end - d->p));
        if (!run || !mr_pickle_again(pickle, &list, run)) return false;
        d->p += 1 + run->n;
    }
    *out = d->memo[d->memo_n++] = pickle->builder->list(pickle->self, &list);
    pickle->content.n = list.first;
    return true;
}

static inline bool value(mr_pickle *pickle, part *d, mr_value *out)
{
    const unsigned char *const p = d->p;
    const unsigned code = *p;
    if (code == ']') return list(pickle, d, out);
    if (code == 'h') return d->p += 2, remembered(d, p[1], out);
    if (code == 'j') return d->p += 5, remembered(d, mr_little4(p + 1), out);
    if (code == 'K') return d->p += 2, *out = mr_v(MR_V_INT, p[1]), true;
    if (code == 'M') return d->p += 3, *out = mr_v(MR_V_INT, p[1] | (uint64_t)p[2] << 8), true;
    if (code == 'J') return d->p += 5, *out = mr_v_signed(mr_little4(p + 1), 4), true;
    if (code == 'N') return d->p += 1, *out = mr_v(MR_V_NULL, 0), true;
    if (code == 0x88) return d->p += 1, *out = mr_v(MR_V_TRUE, 0), true;
    if (code == 0x89) return d->p += 1, *out = mr_v(MR_V_FALSE, 0), true;
    if (code != 0x8a || !p[1] || p[1] > 7) return false;
    d->p += 2 + p[1];
    *out = mr_v_signed(mr_little8(p + 2), p[1]);
    return true;
}

/* Keys and values into content from `first` on; the number of kept ones, MR_NONE when the dict
 * has another shape. */
static uint32_t fields(mr_pickle *pickle, const mr_shape *shape, part *d, uint32_t first)
{
    uint32_t kept = first;
    for (uint32_t i = 0; i < shape->n; i++) {
        const mr_shape_key *key = &shape->keys[i];
        mr_value found;
        d->strange = (mr_little8(d->p) & key->mask) != key->opcode;
        if (d->p > d->end || d->strange) return MR_NONE;
        d->p += key->bytes;
        if (!value(pickle, d, &found)) return MR_NONE;
        if (key->key == MR_NONE) continue;
        pickle->content.at[kept] = key->key;
        pickle->content.at[kept + 1] = found;
        kept += 2;
    }
    d->strange = *d->p != 'u';
    return d->p <= d->end && !d->strange ? kept - first : MR_NONE;
}

static bool has_room(mr_pickle *pickle)
{
    if (pickle->memo.n != pickle->filled || pickle->filled >= MR_MEMO_FREE) return false;
    if (pickle->memo.cap - pickle->memo.n <= MR_SHAPE_KEYS) return false;
    MR_RESERVE_N(pickle->ctx, &pickle->content, pickle->content.n + 2 * MR_SHAPE_KEYS);
    return pickle->open.n < pickle->open.cap && pickle->stack.n < pickle->stack.cap;
}

static bool read_dict(mr_pickle *pickle, const mr_shape *shape, bool *strange)
{
    part d = {
        .p = pickle->p + 3,
        .end = pickle->end - 2 * MR_ROOM,
        .memo = pickle->memo.at,
        .memo_n = pickle->memo.n,
    };
    const uint32_t first = pickle->content.n;
    const mr_value open = mr_v(MR_V_OPEN, pickle->open.n);
    d.memo[d.memo_n++] = open;
    pickle->content.n += 2 * shape->n;
    const uint32_t n = fields(pickle, shape, &d, first);
    pickle->content.n = n == MR_NONE ? first : first + n;
    *strange = d.strange;
    if (n == MR_NONE) return false;
    pickle->open.at[pickle->open.n++] = (mr_open){
        .list = {.items = shape->n,
                 .offset = pickle->base + (uint64_t)(pickle->p - pickle->window),
                 .first = first,
                 .n = n},
        .seen = shape->seen,
        .memo = pickle->memo.n,
        .place = pickle->stack.n,
        .dict = true,
    };
    pickle->stack.at[pickle->stack.n++] = open;
    pickle->filled += d.memo_n - pickle->memo.n;
    pickle->memo.n = d.memo_n;
    pickle->p = d.p + 1;
    return true;
}

void mr_pickle_shaped(mr_pickle *pickle)
{
    const unsigned char *const end = pickle->end - 2 * MR_ROOM;
    while (pickle->p <= end && pickle->p[0] == '}' && pickle->p[1] == 0x94
           && pickle->p[2] == '(' && !pickle->runs.forgot && has_room(pickle)) {
        mr_shape *shape = shape_for(pickle, pickle->p + 3);
        bool strange = true;
        if (shape->n && read_dict(pickle, shape, &strange)) continue;
        if (strange) learn(pickle, shape, pickle->p + 3);
        return;
    }
}
