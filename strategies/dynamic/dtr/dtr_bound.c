/* dtr_bound -- what no plan can beat.
 *
 * Memory: an op needs its inputs, its outputs and all constants at once; so does what is kept.
 *
 * Time: while op o runs, everything that was made before and that a later op of the program
 * reads, or that is kept, is either in memory or is computed again later.  The memory that o
 * leaves is known; for what does not fit, the cheapest ops per byte are computed again, the
 * last of them in part.  That is a first bound, for every op, and tells where to look closer:
 * at some of the ops a flow also counts what those that run again read (dtr_flow.c).  What must
 * run again between two of these ops and what must after the second are different runs, so the
 * largest sum over a row of them counts.
 */
#include "dtr_flow.h"

#include <stdlib.h>
#include <string.h>

typedef struct group { /* what one op made, as far as it is needed later */
    uint64_t ns, bytes;
    uint32_t op;
} group;

/* An op during which not all that waits is in memory. */
typedef struct moment {
    uint32_t op;
    uint64_t left, over; /* bytes beside what the op needs; of what waits and does not fit */
    double rate;         /* ns for a byte of the dearest that does not fit */
    uint64_t remat;      /* ns that must be computed again before */
} moment;

typedef MR_VEC(moment) moments;

enum { MOMENTS = 160, GLANCES = 512, WORK = 1 << 18 }; /* looked at closer, and at all */

typedef struct bounder {
    const dtr_program *program;
    moments moments;
    uint32_t *next; /* by storage: the next reader after the op of the moment */
    uint32_t *last; /* by storage: the last op that reads it; UINT32_MAX for what is kept */
    bool *busy;     /* by storage: the op of the moment needs it */
    group *groups;  /* by op */
    group *sorted;
} bounder;

static int by_rate(const void *a, const void *b)
{
    const group *x = a, *y = b;
    const double p = (double)x->ns * (double)y->bytes, q = (double)y->ns * (double)x->bytes;
    return (p > q) - (p < q);
}

static void mark(bounder *b, mr_ids tensors, bool busy)
{
    for (uint32_t i = 0; i < tensors.n; i++)
        b->busy[b->program->tensors.at[tensors.at[i]].storage] = busy;
}

/* Least time that brings back so many bytes; the ops that do are marked.  `*rate` becomes
 * that of the dearest of them: ns for a byte. */
static uint64_t cheapest(bounder *b, uint32_t n, uint64_t bytes, bool *ops, double *rate)
{
    uint64_t ns = 0;
    qsort(b->sorted, n, sizeof *b->sorted, by_rate);
    *rate = n ? (double)b->sorted[n - 1].ns / (double)b->sorted[n - 1].bytes : 0;
    for (uint32_t i = 0; i < n && bytes; i++) {
        const group *g = &b->sorted[i];
        if (ops) ops[g->op] = true;
        if (g->ns) *rate = (double)g->ns / (double)g->bytes;
        if (g->bytes > bytes)
            return ns + (uint64_t)((double)g->ns * ((double)bytes / (double)g->bytes));
        ns += g->ns;
        bytes -= g->bytes;
    }
    return ns;
}

/* The bytes that op o needs at once; what waits meanwhile is `alive` without it. */
static uint64_t own_bytes(bounder *b, uint32_t o, uint64_t constants, uint64_t *alive)
{
    const dtr_program *p = b->program;
    const dtr_op *op = &p->ops.at[o];
    uint64_t own = constants + op->workspace - dtr_taken_bytes(p, op);
    for (uint32_t i = 0; i < op->in.n + op->out.n; i++) {
        const uint32_t t = i < op->in.n ? op->in.at[i] : op->out.at[i - op->in.n];
        const uint32_t s = p->tensors.at[t].storage;
        const dtr_storage *storage = &p->storages.at[s];
        if (storage->constant || b->busy[s]) continue;
        b->busy[s] = true;
        own += storage->bytes;
        if (storage->op < o) *alive -= storage->bytes;
    }
    return own;
}

/* What the op needed goes on waiting if somebody reads it later. */
static void leave(bounder *b, uint32_t o, uint64_t *alive)
{
    const dtr_program *p = b->program;
    const dtr_op *op = &p->ops.at[o];
    for (uint32_t i = 0; i < op->in.n + op->out.n; i++) {
        const uint32_t t = i < op->in.n ? op->in.at[i] : op->out.at[i - op->in.n];
        const uint32_t s = p->tensors.at[t].storage;
        if (b->busy[s] && b->last[s] > o) *alive += p->storages.at[s].bytes;
        b->busy[s] = false;
    }
}

/* What waits during op o, by the op that made it. */
static uint32_t find_waiting(bounder *b, uint32_t o)
{
    const dtr_program *p = b->program;
    const dtr_op *op = &p->ops.at[o];
    uint32_t n = 0;
    mark(b, op->in, true);
    mark(b, op->out, true);
    for (uint32_t s = 0; s < p->storages.n && p->storages.at[s].op <= o; s++) {
        const dtr_storage *storage = &p->storages.at[s];
        if (storage->constant || !storage->bytes || b->busy[s] || b->last[s] <= o) continue;
        group *g = &b->groups[storage->op];
        *g = (group){p->ops.at[storage->op].ns, g->bytes + storage->bytes, storage->op};
    }
    mark(b, op->in, false);
    mark(b, op->out, false);
    for (uint32_t i = 0; i <= o; i++) {
        if (b->groups[i].bytes) b->sorted[n++] = b->groups[i];
        b->groups[i] = (group){0};
    }
    return n;
}

static void find_lasts(bounder *b)
{
    const dtr_program *p = b->program;
    for (uint32_t s = 0; s < p->storages.n; s++) {
        const mr_ids readers = p->storages.at[s].readers;
        if (readers.n) b->last[s] = readers.at[readers.n - 1];
    }
    for (uint32_t i = 0; i < p->kept.n; i++)
        b->last[p->tensors.at[p->kept.at[i]].storage] = UINT32_MAX;
}

static uint64_t kept_bytes(const bounder *b)
{
    uint64_t bytes = 0;
    for (uint32_t s = 0; s < b->program->storages.n; s++)
        if (b->program->storages.at[s].constant || b->last[s] == UINT32_MAX)
            bytes += b->program->storages.at[s].bytes;
    return bytes;
}

/* Storages that the first bound does without during its op. */
static void find_away(mr_ctx *ctx, bounder *b, const moment *m, dtr_bound *out)
{
    const dtr_program *p = b->program;
    bool *ops = MR_NEW_N(ctx, bool, p->ops.n);
    double rate;
    out->remat_op = m->op;
    out->remat = cheapest(b, find_waiting(b, m->op), m->over, ops, &rate);
    for (uint32_t s = 0; s < p->storages.n; s++)
        out->away[s] = ops[p->storages.at[s].op] && b->last[s] > m->op;
}

static bool needs_more(const moment *a, const moment *b)
{
    return a->over > b->over;
}

static bool leaves_less(const moment *a, const moment *b)
{
    return a->left < b->left;
}

/* Of rows of neighbours the best one. */
static moments thin_out(mr_ctx *ctx, const moments *all, uint32_t n,
                        bool (*better)(const moment *, const moment *))
{
    moments some = {0};
    if (all->n < n) n = all->n;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t first = (uint64_t)i * all->n / n;
        moment best = all->at[first];
        for (uint64_t j = first; j < (uint64_t)(i + 1) * all->n / n; j++)
            if (better(&all->at[j], &best)) best = all->at[j];
        MR_PUSH(ctx, &some, best);
    }
    return some;
}

/* The first bound, and the rates. */
static void look(bounder *b, moments *some, moment *most)
{
    uint64_t largest = 0;
    for (uint32_t i = 0; i < some->n; i++) {
        moment *m = &some->at[i];
        const uint64_t remat = cheapest(b, find_waiting(b, m->op), m->over, NULL, &m->rate);
        if (remat <= largest) continue;
        largest = remat;
        *most = *m;
    }
}

/* ---- rows of moments --------------------------------------------------------------------- */

static void find_nexts(bounder *b, uint32_t op)
{
    const dtr_program *p = b->program;
    for (uint32_t s = 0; s < p->storages.n; s++) {
        const mr_ids readers = p->storages.at[s].readers;
        uint32_t i = 0;
        while (i < readers.n && readers.at[i] <= op) i++;
        b->next[s] = i < readers.n ? readers.at[i] : b->last[s] == UINT32_MAX ? UINT32_MAX : 0;
    }
}

/* From the moment on to each later one, and to the end; `*most` is the most that one
 * moment proves alone. */
static uint64_t look_ahead(bounder *b, dtr_flow *flow, uint32_t at, uint64_t *most,
                           dtr_bound *out)
{
    moment *from = &b->moments.at[at];
    const dtr_op *op = &b->program->ops.at[from->op];
    const dtr_moment m = {from->op, from->left, b->busy, b->next};
    mark(b, op->in, true);
    mark(b, op->out, true);
    find_nexts(b, from->op);
    const uint64_t alone = dtr_flow_find(flow, &m, UINT32_MAX, &from->rate);
    if (alone > *most) {
        *most = alone;
        dtr_flow_away(flow, &m, from->rate, out->flooded);
    }
    for (uint32_t i = b->moments.n; i-- > at + 1;) {
        moment *to = &b->moments.at[i];
        const uint64_t remat = from->remat + dtr_flow_find(flow, &m, to->op, &from->rate);
        if (remat > to->remat) to->remat = remat;
    }
    mark(b, op->in, false);
    mark(b, op->out, false);
    return from->remat + alone;
}

static void look_closer(mr_ctx *ctx, bounder *b, dtr_bound *out)
{
    dtr_flow flow;
    uint64_t most = 0;
    dtr_flow_begin(ctx, b->program, &flow);
    for (uint32_t i = 0; i < b->moments.n; i++) {
        const uint64_t remat = look_ahead(b, &flow, i, &most, out);
        if (remat > out->remat) out->remat = remat;
    }
}

/* ---- all --------------------------------------------------------------------------------- */

/* In place, a constant goes with the last reference to it. */
static uint64_t released_bytes(const dtr_program *program, uint32_t storage)
{
    const dtr_storage *s = &program->storages.at[storage];
    return s->constant && program->change == DTR_IN_PLACE ? s->bytes : 0;
}

/* The moments in which not all fits, and the most bytes that one op needs at once. */
static void find_moments(mr_ctx *ctx, bounder *b, uint64_t budget, dtr_bound *out)
{
    const dtr_program *p = b->program;
    uint64_t constants = 0, waiting = 0;
    for (uint32_t i = 0; i < p->steps.n; i++) {
        const uint32_t o = p->steps.at[i].id;
        if (p->steps.at[i].kind == DTR_RELEASE) {
            constants -= released_bytes(p, o);
            continue;
        }
        if (p->ops.at[o].constant) {
            constants += p->ops.at[o].bytes;
            continue;
        }
        const uint64_t own = own_bytes(b, o, constants, &waiting);
        if (own > out->bytes) out->bytes = own, out->bytes_op = o;
        if (own <= budget && own + waiting > budget)
            MR_PUSH(ctx, &b->moments,
                    ((moment){.op = o, .left = budget - own, .over = own + waiting - budget}));
        leave(b, o, &waiting);
    }
}

void dtr_find_bound(mr_ctx *ctx, const dtr_program *program, uint64_t budget, dtr_bound *out)
{
    bounder b = {.program = program,
                 .next = MR_NEW_N(ctx, uint32_t, program->storages.n),
                 .last = MR_NEW_N(ctx, uint32_t, program->storages.n),
                 .busy = MR_NEW_N(ctx, bool, program->storages.n),
                 .groups = MR_NEW_N(ctx, group, program->ops.n),
                 .sorted = MR_NEW_N(ctx, group, program->ops.n)};
    const uint32_t few = 4 + WORK / (program->ops.n + 1);
    moment most = {.op = MR_NONE}, any;
    find_lasts(&b);
    *out = (dtr_bound){.bytes_op = MR_NONE,
                       .remat_op = MR_NONE,
                       .away = MR_NEW_N(ctx, bool, program->storages.n),
                       .flooded = MR_NEW_N(ctx, bool, program->storages.n)};
    find_moments(ctx, &b, budget, out);
    moments glances = thin_out(ctx, &b.moments, GLANCES, needs_more);
    b.moments = thin_out(ctx, &b.moments, few < MOMENTS ? few : MOMENTS, leaves_less);
    look(&b, &glances, &most);
    look(&b, &b.moments, &any);
    if (most.op != MR_NONE) find_away(ctx, &b, &most, out);
    look_closer(ctx, &b, out);
    const uint64_t kept = program->change == DTR_COPIES ? kept_bytes(&b) : 0;
    if (kept > out->bytes) out->bytes = kept, out->bytes_op = MR_NONE;
}
