/* rewrite_check -- the referee of rewrites: values are numbered, then looked for (see the
 * header).
 *
 * Numbers of values:  0 none · 1 + s what storage s held before the first event · then, op by
 * op, one for each tensor in its `out` and `mutates` · then those of new ops.  A value of part
 * p has p in its upper half, and so has the sum of the parts up to p, or from p, marked as
 * such.
 */
#include "rewrite_check.h"

#include "rewrite_check_holders.h"
#include "rewrite_check_pieces.h"
#include "rewrite_check_streams.h"
#include "rewrite_check_versions.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

typedef uint64_t value;

enum { WHOLE = 1, ONE = 2 };

#define PART_SHIFT 32
#define PART_MASK ((value)0x3fffffff)
#define SUM ((value)1 << 63)  /* of all parts up to the number */
#define FROM ((value)1 << 62) /* with SUM: of all parts from the number on */

typedef struct numbering { /* of the trace before */
    const mr_trace *trace;
    bool *runs;      /* by op */
    uint32_t *made;  /* by op: number of its first result's value */
    uint32_t *maker; /* by value: the op that makes it */
    uint32_t *first; /* by op: where in `read` its inputs begin */
    value *read;     /* what ops read, input by input */
    uint32_t values; /* how many numbers are given */
    uint32_t reads;  /* how many inputs there are */
} numbering;

typedef struct referee {
    mr_ctx *ctx;
    numbering before;
    const mr_trace *trace; /* after */
    value *holds;          /* by storage of `trace` */
    uint64_t *base;        /* by storage of `trace`: where in the place of its value it begins */
    bool *packed;          /* by storage of `trace`: without the gaps that a view had */
    uint32_t *viewed;      /* by storage: event at which an op read it last */
    uint32_t *done;        /* by op of before: how often it was carried out, or its parts */
    bool *divided;         /* by op of before: in parts */
    uint64_t *flops;       /* by op of before: what carrying it out took */
    uint32_t *excused;     /* by op of before: the stand-in that speaks for it, MR_NONE */
    bool *used;            /* by value of before: a new op has read it */
    bool *given;           /* by value of before: a stand-in has brought it */
    uint32_t *stands;      /* by op of `trace`: its stand-in, MR_NONE */
    bool *stood;           /* by stand-in: its op has run */
    value *last;           /* by storage of before: what a stand-in's ops wrote to it last */
    value *moved;          /* by result of the op at hand */
    uint64_t had, has;     /* samples in a batch before and after, where these differ; else 0 */
    uint32_t *parts;       /* by op of before: in how many it is done, 0 if in one run */
    uint32_t *piece;       /* by tensor: which part of a whole that was cut, 0 if none */
    uint32_t *pieces;      /* by tensor: of how many */
    uint8_t *ways;         /* by read of before: WHOLE or ONE where parts read all, a part */
    value fresh;           /* next number for something new */
    uint32_t event;
} referee;

/* ---- small questions --------------------------------------------------------------------- */

static uint32_t storage_of(const mr_trace *trace, uint32_t tensor)
{
    return trace->tensors.at[tensor].storage;
}

static uint32_t results(const mr_op *op)
{
    return op->out.n + op->mutates.n;
}

static uint32_t result(const mr_op *op, uint32_t k)
{
    return k < op->out.n ? op->out.at[k] : op->mutates.at[k - op->out.n];
}

/* Is result k new content, not a view of what the op reads? */
static bool writes(const mr_trace *trace, const mr_op *op, uint32_t k, const uint32_t *viewed,
                   uint32_t event)
{
    return k >= op->out.n || viewed[storage_of(trace, op->out.at[k])] != event;
}

/* Running statistics are brought up to date once more by whoever recomputes. */
static bool is_statistic(const mr_trace *trace, uint32_t storage)
{
    const mr_storage *s = &trace->storages.at[storage];
    return s->before && s->role == MR_ROLE_buffer;
}

static const char *named(mr_ctx *ctx, const mr_trace *trace, uint32_t o)
{
    const mr_op *op = &trace->ops.at[o];
    return mr_printf(ctx, "op %u (%s%s%s)", o, op->name, *op->module ? " of " : "", op->module);
}

/* ---- before: who reads what -------------------------------------------------------------- */

static void number_op(numbering *b, uint32_t o, uint32_t event, value *holds, uint32_t *viewed)
{
    const mr_op *op = &b->trace->ops.at[o];
    b->runs[o] = true;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t s = storage_of(b->trace, op->in.at[i]);
        b->read[b->first[o] + i] = holds[s];
        viewed[s] = event;
    }
    for (uint32_t k = 0; k < results(op); k++) {
        const uint32_t s = storage_of(b->trace, result(op, k));
        if (writes(b->trace, op, k, viewed, event) && !is_statistic(b->trace, s))
            holds[s] = b->made[o] + k;
    }
}

/* What is shared has one number. */
static mr_status share_values(mr_ctx *ctx, const mr_trace *trace, const mr_trace *after,
                              value *holds)
{
    for (uint32_t i = 0; i < after->shared.n; i++) {
        const mr_shared pair = after->shared.at[i];
        const mr_storage *x = &trace->storages.at[pair.kept];
        const mr_storage *y = &trace->storages.at[pair.gone];
        if (x->bytes != y->bytes || !x->before || !y->before || pair.kept == pair.gone
            || after->storages.at[pair.gone].before || holds[pair.kept] != 1 + pair.kept)
            return mr_fail(ctx, MR_EINVARIANT,
                           "storage %u is shared in place of storage %u, expected both of one"
                           " size and the other gone",
                           pair.kept, pair.gone);
        holds[pair.gone] = holds[pair.kept];
    }
    return MR_OK;
}

static mr_status number_values(mr_ctx *ctx, const mr_trace *trace, const mr_trace *after,
                               numbering *b)
{
    uint32_t reads = 0;
    *b = (numbering){.trace = trace, .values = 1 + trace->storages.n};
    b->runs = MR_NEW_N(ctx, bool, trace->ops.n);
    b->made = MR_NEW_N(ctx, uint32_t, trace->ops.n);
    b->first = MR_NEW_N(ctx, uint32_t, trace->ops.n);
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        b->made[o] = b->values;
        b->first[o] = reads;
        b->values += results(&trace->ops.at[o]);
        reads += trace->ops.at[o].in.n;
    }
    b->reads = reads;
    b->maker = mr_none_of(ctx, b->values);
    for (uint32_t o = 0; o < trace->ops.n; o++)
        for (uint32_t k = 0; k < results(&trace->ops.at[o]); k++) b->maker[b->made[o] + k] = o;
    b->read = MR_NEW_N(ctx, value, reads);
    value *holds = MR_NEW_N(ctx, value, trace->storages.n);
    uint32_t *viewed = mr_none_of(ctx, trace->storages.n);
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (trace->storages.at[s].before) holds[s] = 1 + s;
    MR_TRY(share_values(ctx, trace, after, holds));
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_RUN)
            number_op(b, trace->events.at[e].id, e, holds, viewed);
    return MR_OK;
}

/* What wrote a value of before, for a person. */
static const char *told(const referee *r, value v)
{
    const numbering *b = &r->before;
    const uint32_t number = (uint32_t)v;
    const uint32_t p = (uint32_t)(v >> PART_SHIFT & PART_MASK);
    const char *which = v & FROM ? "s from" : v & SUM ? "s up to" : "";
    const char *part = p ? mr_printf(r->ctx, " in part%s %u", which, p) : "";
    if (!number) return "nothing yet";
    if (number <= b->trace->storages.n)
        return mr_printf(r->ctx, "what storage %u held before the first event", number - 1);
    if (number >= b->values) return "what a new op wrote";
    return mr_printf(r->ctx, "what %s wrote%s", named(r->ctx, b->trace, b->maker[number]),
                     part);
}

/* ---- after: whose work an op does -------------------------------------------------------- */

static uint32_t counterpart(const referee *r, uint32_t o)
{
    const uint32_t n = r->before.trace->ops.n;
    const mr_op *op = &r->trace->ops.at[o];
    if (o < n) return o;
    if (op->again < n) { /* a part of an earlier rewrite is nothing new */
        const mr_op *first = &r->before.trace->ops.at[op->again];
        if (first->part == op->part && first->origin == op->origin) return op->again;
    }
    return op->part && op->origin < n ? op->origin : MR_NONE;
}

/* The part of its counterpart that an op does; 0 for all, also where that is a part itself. */
static value part_of(const referee *r, uint32_t o, uint32_t f)
{
    const mr_op *op = &r->trace->ops.at[o], *old = &r->before.trace->ops.at[f];
    return op->part == old->part && op->origin == old->origin ? 0 : op->part;
}

/* What an op of before takes, in the batch of after. */
static uint64_t operations(const referee *r, const mr_op *old)
{
    return old->flops - old->flops_per_sample * r->had + old->flops_per_sample * r->has;
}

static mr_status is_the_same_work(const referee *r, uint32_t o, uint32_t f)
{
    const mr_op *op = &r->trace->ops.at[o], *old = &r->before.trace->ops.at[f];
    if (op->in.n != old->in.n)
        return mr_fail(r->ctx, MR_EINVARIANT, "%s reads %u tensors, expected %u as before",
                       named(r->ctx, r->trace, o), op->in.n, old->in.n);
    if (op->random != old->random)
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s draws %s random numbers, expected the opposite as before",
                       named(r->ctx, r->trace, o), op->random ? "" : "no");
    if (!part_of(r, o, f) && op->flops != operations(r, old))
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s takes %" PRIu64 " operations, expected %" PRIu64 " as before",
                       named(r->ctx, r->trace, o), op->flops, operations(r, old));
    return MR_OK;
}

/* In another batch one dimension of what a sample adds to has another length. */
static bool same_lengths(const referee *r, const mr_tensor *x, const mr_tensor *y)
{
    uint32_t others = 0;
    if (x->rank != y->rank) return false;
    for (uint32_t i = 0; i < x->rank; i++) {
        if (x->shape[i] == y->shape[i]) continue;
        if (!r->had || x->shape[i] * r->had != y->shape[i] * r->has) return false;
        others++;
    }
    return !others || (others == 1 && r->before.trace->storages.at[y->storage].per_sample);
}

static bool same_shape(const referee *r, const mr_tensor *x, const mr_tensor *y)
{
    if (!same_lengths(r, x, y)) return false;
    if (r->had && r->before.trace->storages.at[y->storage].per_sample) return true;
    const bool cast = x->dtype != y->dtype && strcmp(x->dtype, y->dtype) != 0;
    const bool fits = x->bytes == y->bytes || (r->packed[x->storage] && x->bytes < y->bytes);
    return cast || (fits && x->offset + r->base[x->storage] == y->offset);
}

/* What the tensor shows of the value that its storage holds. */
static value seen(const referee *r, uint32_t tensor)
{
    const value has = r->holds[storage_of(r->trace, tensor)];
    return has >> PART_SHIFT ? has : has | (value)r->piece[tensor] << PART_SHIFT;
}

/* In as many parts as the op itself is done? */
static bool in_as_many(const referee *r, uint32_t f, uint32_t tensor, value v)
{
    const uint32_t maker = r->before.maker[(uint32_t)v];
    if (r->pieces[tensor]) return r->pieces[tensor] == r->parts[f];
    return maker == MR_NONE || r->parts[maker] == r->parts[f];
}

/* Reads input i what it read before? */
static mr_status reads(referee *r, uint32_t o, uint32_t f, uint32_t i)
{
    const mr_op *op = &r->trace->ops.at[o];
    const uint32_t t = op->in.at[i], s = storage_of(r->trace, t);
    const uint32_t told_before = r->before.trace->ops.at[f].in.at[i];
    const value want = r->before.read[r->before.first[f] + i], has = seen(r, t);
    const value part = part_of(r, o, f), mine = want | part << PART_SHIFT;
    if (has != want && has != mine)
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s reads storage %u, which holds %s, expected %s",
                       named(r->ctx, r->trace, o), s, told(r, has), told(r, mine));
    if (has != want && !in_as_many(r, f, t, want))
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s is done in %u parts, expected as many as of what it reads, %s",
                       named(r->ctx, r->trace, o), r->parts[f], told(r, want));
    uint8_t *ways = &r->ways[r->before.first[f] + i];
    if (part) *ways |= has == want ? WHOLE : ONE;
    if (*ways == (WHOLE | ONE))
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s and other parts do not read the same of %s, expected all or a part",
                       named(r->ctx, r->trace, o), told(r, want));
    const mr_tensor *x = &r->trace->tensors.at[t],
                    *y = &r->before.trace->tensors.at[told_before];
    if (has == want && !same_shape(r, x, y))
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s reads tensor %u, expected the shape and place of tensor %u",
                       named(r->ctx, r->trace, o), t, told_before);
    return MR_OK;
}

/* Which result of the counterpart result k is: the one at its place; where an op has come to
 * work in place, the tensor of the same number; where it no longer does, the one of as many. */
static uint32_t same_result(const mr_op *op, const mr_op *old, uint32_t k)
{
    if (op->out.n == old->out.n && op->mutates.n == old->mutates.n) return k;
    for (uint32_t j = 0; j < results(old); j++)
        if (result(old, j) == result(op, k)) return j;
    return results(op) == results(old) && !op->mutates.n ? k : MR_NONE;
}

static void write_results(referee *r, uint32_t o, uint32_t f)
{
    const mr_op *op = &r->trace->ops.at[o];
    for (uint32_t k = 0; k < results(op); k++) {
        const uint32_t s = storage_of(r->trace, result(op, k));
        if (!writes(r->trace, op, k, r->viewed, r->event) || is_statistic(r->trace, s))
            continue;
        if (k < op->out.n) r->base[s] = r->packed[s] = 0;
        uint32_t j = MR_NONE;
        if (f != MR_NONE) j = same_result(op, &r->before.trace->ops.at[f], k);
        if (j == MR_NONE) r->holds[s] = r->fresh++;
        else r->holds[s] = (r->before.made[f] + j) | part_of(r, o, f) << PART_SHIFT;
    }
}

/* ---- ops without a counterpart ----------------------------------------------------------- */

static void note_use(referee *r, const mr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++) {
        const value v = r->holds[storage_of(r->trace, op->in.at[i])];
        if ((uint32_t)v < r->before.values) r->used[(uint32_t)v] = true;
    }
}

/* Results in the memory of a piece show that piece; what a piece is moved to is one. */
static void note_pieces(referee *r, const mr_op *op)
{
    for (uint32_t k = 0; k < op->out.n && !op->cuts; k++) {
        const uint32_t t = op->out.at[k];
        uint32_t from = MR_NONE;
        for (uint32_t i = 0; i < op->in.n; i++)
            if (storage_of(r->trace, op->in.at[i]) == storage_of(r->trace, t))
                from = op->in.at[i];
        r->piece[t] = from == MR_NONE ? 0 : r->piece[from];
        if (op->moves && from == MR_NONE && k < op->in.n) from = op->in.at[k];
        r->pieces[t] = from == MR_NONE ? 0 : r->pieces[from];
    }
}

static mr_status cut(referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    MR_TRY(mr_rewrite_check_cut(r->ctx, r->trace, o));
    if (seen(r, op->in.at[0]) >> PART_SHIFT)
        return mr_fail(r->ctx, MR_EINVARIANT, "%s cuts %s, expected a whole value",
                       named(r->ctx, r->trace, o), told(r, seen(r, op->in.at[0])));
    for (uint32_t k = 0; k < op->out.n; k++) {
        r->piece[op->out.at[k]] = k + 1;
        r->pieces[op->out.at[k]] = op->out.n;
    }
    return MR_OK;
}

static mr_status join(referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    MR_TRY(mr_rewrite_check_join(r->ctx, r->trace, o));
    const value whole = (uint32_t)seen(r, op->in.at[0]);
    const uint32_t maker = whole < r->before.values ? r->before.maker[whole] : MR_NONE;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const value has = seen(r, op->in.at[i]), want = whole | (value)(i + 1) << PART_SHIFT;
        if (maker == MR_NONE || has != want || op->in.n != r->parts[maker])
            return mr_fail(r->ctx, MR_EINVARIANT,
                           "%s joins %u parts, of which the one at place %u is %s, expected all"
                           " parts of a value in their order",
                           named(r->ctx, r->trace, o), op->in.n, i + 1, told(r, has));
    }
    r->holds[storage_of(r->trace, op->out.at[0])] = whole;
    return MR_OK;
}

/* A copy can be of a view, then without its gaps. */
static void place_moved(referee *r, const mr_tensor *from, const mr_tensor *to)
{
    const bool cast = from->dtype != to->dtype && strcmp(from->dtype, to->dtype) != 0;
    if (from->storage == to->storage) return;
    r->base[to->storage] = cast ? 0 : r->base[from->storage] + from->offset - to->offset;
    r->packed[to->storage] = !cast && (r->packed[from->storage] || from->bytes > to->bytes);
}

/* Each result is what the input at its place was. */
static mr_status move(referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    if (!op->in.n || !results(op) || results(op) > op->in.n)
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s moves %u values and writes %u, expected it to write what it reads",
                       named(r->ctx, r->trace, o), op->in.n, results(op));
    for (uint32_t k = results(op); k-- > 0;)
        r->moved[k] = seen(r, op->in.at[k]);
    for (uint32_t k = 0; k < results(op); k++) {
        r->holds[storage_of(r->trace, result(op, k))] = r->moved[k];
        place_moved(r, &r->trace->tensors.at[op->in.at[k]],
                    &r->trace->tensors.at[result(op, k)]);
    }
    return MR_OK;
}

/* What part p of a value, of which there are n, makes of what has been added up so far; 0 if it
 * does not go on that. */
static value sum_of(value has, value more, uint32_t n, bool fresh)
{
    const value whole = (uint32_t)more, part = more >> PART_SHIFT & PART_MASK;
    const value before = whole | (part - 1) << PART_SHIFT;
    const value behind = whole | (part + 1) << PART_SHIFT;
    if (part < 2 && fresh) return part == n ? whole : more;
    if (part && has == (part + 1 == n ? behind : behind | SUM | FROM))
        return part == 1 ? whole : more | SUM | FROM;
    if (part > 1 && has == (part == 2 ? before : before | SUM))
        return part == n ? whole : more | SUM;
    return 0;
}

/* Part p of a value is added to the first p - 1 of them, to those behind it, or to what is no
 * value of before. */
static mr_status sum(referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    const bool in_place = op->mutates.n == 1 && !op->out.n && op->in.at[0] == op->mutates.at[0];
    if (op->in.n != 2 || (!in_place && (op->mutates.n || op->out.n != 1)))
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s adds up parts, expected it to add its second input to its first",
                       named(r->ctx, r->trace, o));
    const value has = seen(r, op->in.at[0]), more = seen(r, op->in.at[1]);
    const value whole = (uint32_t)more;
    const uint32_t maker = whole < r->before.values ? r->before.maker[whole] : MR_NONE;
    const value sum = sum_of(has, more, maker == MR_NONE ? 0 : r->parts[maker],
                             (uint32_t)has >= r->before.values);
    if (!whole || more & SUM || !sum)
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s adds %s to %s, expected the parts of a value in their order",
                       named(r->ctx, r->trace, o), told(r, more), told(r, has));
    r->holds[storage_of(r->trace, result(op, 0))] = sum;
    return MR_OK;
}

/* What an optimizer held before the first event and a rewrite has taken away with it. */
static bool is_lost_state(const referee *r, value v)
{
    const uint32_t s = (uint32_t)v - 1;
    return v && v <= r->before.trace->storages.n && !r->trace->storages.at[s].before
           && r->before.trace->storages.at[s].role == MR_ROLE_state;
}

/* Has a new op read it, or is it made by the ops that the stand-in speaks for?  What ops of
 * another one made and it does not give is nobody's any more: new ops have something else
 * instead. */
static bool is_known(const referee *r, uint32_t stand, value v)
{
    const uint32_t maker = r->before.maker[v];
    if (r->used[v] || is_lost_state(r, v)) return true;
    if (maker == MR_NONE || r->excused[maker] == MR_NONE) return false;
    return r->excused[maker] == stand || !r->given[v];
}

/* Are all results read that are saved?  Else the gradient would have to be made of less. */
static mr_status reads_what_is_saved(const referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    if (op->of == MR_NONE || r->stands[op->of] == MR_NONE) return MR_OK;
    const mr_op *of = &r->trace->ops.at[op->of];
    for (uint32_t i = 0; i < of->saved.n; i++) {
        uint32_t j = 0;
        while (j < op->in.n && op->in.at[j] != of->saved.at[i].tensor) j++;
        if (j < op->in.n || of->saved.at[i].as != MR_SAVED_OUTPUT) continue;
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "%s stands in for the gradient of %s, but does not read tensor %u, which"
                       " that saved",
                       named(r->ctx, r->trace, o), named(r->ctx, r->trace, op->of),
                       of->saved.at[i].tensor);
    }
    return MR_OK;
}

/* Is result k in the memory of something that the op reads? */
static bool is_view(const mr_trace *trace, const mr_op *op, uint32_t k)
{
    for (uint32_t i = 0; i < op->in.n && k < op->out.n; i++)
        if (storage_of(trace, op->in.at[i]) == storage_of(trace, op->out.at[k])) return true;
    return false;
}

static mr_status look_at_work(referee *r, uint32_t o, uint32_t stand, uint32_t f)
{
    const mr_trace *before = r->before.trace;
    const mr_op *op = &before->ops.at[f];
    for (uint32_t i = 0; i < op->in.n; i++) {
        const value v = r->before.read[r->before.first[f] + i];
        if (is_known(r, stand, v)) continue;
        return mr_fail(r->ctx, MR_EINVARIANT, "%s stands in for %s, but no new op has read %s",
                       named(r->ctx, r->trace, o), named(r->ctx, before, f), told(r, v));
    }
    for (uint32_t k = 0; k < results(op); k++)
        if (!is_view(before, op, k))
            r->last[storage_of(before, result(op, k))] = r->before.made[f] + k;
    return MR_OK;
}

static mr_status stand_in(referee *r, uint32_t o, uint32_t index)
{
    const mr_stand_in *stand = &r->trace->stand_ins.at[index];
    MR_TRY(reads_what_is_saved(r, o));
    r->stood[index] = true;
    for (uint32_t i = 0; i < stand->ops.n; i++)
        MR_TRY(look_at_work(r, o, index, stand->ops.at[i]));
    for (uint32_t i = 0; i < stand->gives.n; i++) {
        const value v = r->last[storage_of(r->before.trace, stand->holds.at[i])];
        if (!v || r->excused[r->before.maker[v]] != index)
            return mr_fail(r->ctx, MR_EINVARIANT,
                           "%s stands in for ops that do not write tensor %u",
                           named(r->ctx, r->trace, o), stand->holds.at[i]);
        r->holds[storage_of(r->trace, stand->gives.at[i])] = v;
        r->given[v] = true;
    }
    return MR_OK;
}

static mr_status run_new(referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    if (op->moves) return move(r, o);
    if (op->sums) return sum(r, o);
    if (op->cuts) return cut(r, o);
    if (op->joins) return join(r, o);
    note_use(r, op);
    write_results(r, o, MR_NONE);
    return MR_OK;
}

/* ---- living through the trace after ------------------------------------------------------ */

static mr_status count(referee *r, uint32_t o, uint32_t f)
{
    const mr_op *op = &r->trace->ops.at[o];
    const bool is_again =
        o >= r->before.trace->ops.n && op->again != MR_NONE && counterpart(r, op->again) == f;
    const bool part = part_of(r, o, f) != 0;
    if (is_again) {
        if (r->done[f]) return MR_OK;
        return mr_fail(r->ctx, MR_EINVARIANT, "%s recomputes %s, expected that to run before",
                       named(r->ctx, r->trace, o), named(r->ctx, r->before.trace, f));
    }
    r->flops[f] += op->flops;
    r->divided[f] |= part;
    if (++r->done[f] <= (part ? r->parts[f] : 1)) return MR_OK;
    return mr_fail(r->ctx, MR_EINVARIANT, "%s does the work of %s, which is done already",
                   named(r->ctx, r->trace, o), named(r->ctx, r->before.trace, f));
}

static mr_status run(referee *r, uint32_t o)
{
    const mr_op *op = &r->trace->ops.at[o];
    const uint32_t f = counterpart(r, o);
    for (uint32_t i = 0; i < op->in.n; i++)
        r->viewed[storage_of(r->trace, op->in.at[i])] = r->event;
    if (f != MR_NONE) {
        MR_TRY(is_the_same_work(r, o, f));
        MR_TRY(count(r, o, f));
        for (uint32_t i = 0; i < op->in.n; i++) MR_TRY(reads(r, o, f, i));
        write_results(r, o, f);
    } else {
        MR_TRY(run_new(r, o));
    }
    note_pieces(r, op);
    if (r->stands[o] == MR_NONE) return MR_OK;
    note_use(r, op);
    return stand_in(r, o, r->stands[o]);
}

static mr_status judge(referee *r, const mr_event *event)
{
    switch (event->kind) {
    case MR_RUN: return run(r, event->id);
    case MR_ALLOC:
    case MR_FREE:
    case MR_DONE:
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "event %u says when storage %u lives, expected that to follow from ops",
                       r->event, event->id);
    default: return MR_OK;
    }
}

/* Does the trace after say that its batch is another one? */
static void compare_batches(referee *r)
{
    const char *had = r->before.trace->about[MR_ABOUT_batch];
    const char *has = r->trace->about[MR_ABOUT_batch];
    if (!had || !has || !strcmp(had, has)) return;
    r->had = strtoull(had, NULL, 10);
    r->has = strtoull(has, NULL, 10);
}

static mr_status begin_copies(referee *r)
{
    for (uint32_t i = 0; i < r->trace->copies.n; i++) {
        const mr_copied pair = r->trace->copies.at[i];
        const mr_storage *copy = &r->trace->storages.at[pair.copy];
        if (pair.copy < r->before.trace->storages.n || !copy->before || !copy->after
            || !r->before.trace->storages.at[pair.of].before)
            return mr_fail(r->ctx, MR_EINVARIANT,
                           "storage %u is a copy of storage %u, expected a new one, and both"
                           " there before and after the step",
                           pair.copy, pair.of);
        r->holds[pair.copy] = r->holds[pair.of];
    }
    return MR_OK;
}

static mr_status check_copies(const referee *r)
{
    for (uint32_t i = 0; i < r->trace->copies.n; i++) {
        const mr_copied pair = r->trace->copies.at[i];
        if (r->holds[pair.copy] == r->holds[pair.of]) continue;
        return mr_fail(r->ctx, MR_EINVARIANT,
                       "storage %u begins as a copy of storage %u and ends with %s,"
                       " expected %s",
                       pair.copy, pair.of, told(r, r->holds[pair.copy]),
                       told(r, r->holds[pair.of]));
    }
    return MR_OK;
}

static mr_status begin(referee *r)
{
    const mr_trace *before = r->before.trace, *after = r->trace;
    if (after->ops.n < before->ops.n || after->storages.n < before->storages.n
        || after->tensors.n < before->tensors.n)
        return mr_fail(
            r->ctx, MR_EINVARIANT,
            "a rewrite took away ops, tensors or storages, expected new ones behind");
    compare_batches(r);
    r->holds = MR_NEW_N(r->ctx, value, after->storages.n);
    r->base = MR_NEW_N(r->ctx, uint64_t, after->storages.n);
    r->packed = MR_NEW_N(r->ctx, bool, after->storages.n);
    r->viewed = mr_none_of(r->ctx, after->storages.n);
    r->done = MR_NEW_N(r->ctx, uint32_t, before->ops.n);
    r->divided = MR_NEW_N(r->ctx, bool, before->ops.n);
    r->flops = MR_NEW_N(r->ctx, uint64_t, before->ops.n);
    r->excused = mr_none_of(r->ctx, before->ops.n);
    r->last = MR_NEW_N(r->ctx, value, before->storages.n);
    r->used = MR_NEW_N(r->ctx, bool, r->before.values);
    r->given = MR_NEW_N(r->ctx, bool, r->before.values);
    r->stands = mr_none_of(r->ctx, after->ops.n);
    r->stood = MR_NEW_N(r->ctx, bool, after->stand_ins.n);
    r->parts = MR_NEW_N(r->ctx, uint32_t, before->ops.n);
    r->piece = MR_NEW_N(r->ctx, uint32_t, after->tensors.n);
    r->pieces = MR_NEW_N(r->ctx, uint32_t, after->tensors.n);
    r->ways = MR_NEW_N(r->ctx, uint8_t, r->before.reads);
    r->fresh = r->before.values;
    for (uint32_t s = 0; s < before->storages.n; s++)
        if (before->storages.at[s].before) r->holds[s] = 1 + s;
    MR_TRY(begin_copies(r));
    uint32_t most = 0;
    for (uint32_t o = 0; o < after->ops.n; o++) {
        if (results(&after->ops.at[o]) > most) most = results(&after->ops.at[o]);
        const uint32_t f = counterpart(r, o);
        const uint32_t part = f == MR_NONE ? 0 : (uint32_t)part_of(r, o, f);
        if (part > (f == MR_NONE ? 0 : r->parts[f])) r->parts[f] = part;
    }
    r->moved = MR_NEW_N(r->ctx, value, most);
    for (uint32_t i = 0; i < after->stand_ins.n; i++) {
        const mr_stand_in *stand = &after->stand_ins.at[i];
        if (stand->op != MR_NONE) r->stands[stand->op] = i;
        for (uint32_t j = 0; j < stand->ops.n; j++) r->excused[stand->ops.at[j]] = i;
    }
    return MR_OK;
}

/* Is it left out on purpose, or done by an op that stands in for it? */
static bool is_left_out(const referee *r, uint32_t f)
{
    const uint32_t stand = r->excused[f];
    return stand != MR_NONE && (r->trace->stand_ins.at[stand].op == MR_NONE || r->stood[stand]);
}

/* Nobody wins by forgetting to compute something. */
static mr_status check_all_is_done(const referee *r)
{
    for (uint32_t f = 0; f < r->before.trace->ops.n; f++) {
        if (!r->before.runs[f] || is_left_out(r, f)) continue;
        if (!r->done[f])
            return mr_fail(r->ctx, MR_EINVARIANT, "%s is not run any more",
                           named(r->ctx, r->before.trace, f));
        if (r->divided[f] && r->done[f] != r->parts[f])
            return mr_fail(r->ctx, MR_EINVARIANT, "%s is done in %u parts, expected %u",
                           named(r->ctx, r->before.trace, f), r->done[f], r->parts[f]);
        const uint64_t expected = operations(r, &r->before.trace->ops.at[f]);
        if (r->flops[f] < expected)
            return mr_fail(r->ctx, MR_EINVARIANT,
                           "all parts of %s take %" PRIu64 " operations, expected %" PRIu64,
                           named(r->ctx, r->before.trace, f), r->flops[f], expected);
    }
    return MR_OK;
}

mr_status mr_rewrite_check(mr_ctx *ctx, const mr_trace *before, const mr_trace *after)
{
    referee r = {.ctx = ctx, .trace = after};
    MR_TRY(number_values(ctx, before, after, &r.before));
    MR_TRY(begin(&r));
    for (; r.event < after->events.n; r.event++) MR_TRY(judge(&r, &after->events.at[r.event]));
    MR_TRY(check_all_is_done(&r));
    MR_TRY(check_copies(&r));
    MR_TRY(mr_rewrite_check_holders(ctx, before, after));
    MR_TRY(mr_rewrite_check_streams(ctx, after));
    return mr_rewrite_check_versions(ctx, after);
}
