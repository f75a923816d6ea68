/* dtr_bound -- what no plan can beat.
 *
 * Memory: an op needs its inputs, its outputs and all constants at once; so does what is kept.
 *
 * Time: while op o runs, everything that was made before and that a later op of the program
 * reads, or that is kept, is either in memory or is computed again later.  The memory that o
 * leaves is known; for what does not fit, the cheapest ops per byte are computed again, the
 * last of them in part.  That is less than any real plan takes, which also has to bring back
 * what those ops read.
 */
#include "dtr.h"

#include <stdlib.h>
#include <string.h>

typedef struct group { /* what one op made, as far as it is needed later */
    uint64_t ns, bytes;
    uint32_t op;
} group;

typedef struct bounder {
    const dtr_program *program;
    uint32_t *last;  /* by storage: the last op that reads it; UINT32_MAX for what is kept */
    bool *busy;      /* by storage: the op of the moment needs it */
    group *groups;   /* by op */
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

/* Least time that brings back so many bytes; the ops that do are marked. */
static uint64_t cheapest(bounder *b, uint32_t n, uint64_t bytes, bool *ops)
{
    uint64_t ns = 0;
    qsort(b->sorted, n, sizeof *b->sorted, by_rate);
    for (uint32_t i = 0; i < n && bytes; i++) {
        const group *g = &b->sorted[i];
        if (ops) ops[g->op] = true;
        if (g->bytes > bytes)
            return ns + (uint64_t)((double)g->ns * ((double)bytes / (double)g->bytes));
        ns += g->ns;
        bytes -= g->bytes;
    }
    return ns;
}

/* The bytes that op o needs itself, and those that wait meanwhile, by the op that made them. */
static uint64_t look(bounder *b, uint32_t o, uint64_t constants, uint64_t *waiting, uint32_t *n)
{
    const dtr_program *p = b->program;
    const dtr_op *op = &p->ops.at[o];
    uint64_t own = constants + op->workspace - dtr_taken_bytes(p, op);
    *waiting = *n = 0;
    mark(b, op->in, true);
    mark(b, op->out, true);
    for (uint32_t s = 0; s < p->storages.n; s++) {
        const dtr_storage *storage = &p->storages.at[s];
        if (storage->constant || storage->op > o || !storage->bytes) continue;
        if (b->busy[s]) own += storage->bytes;
        else if (b->last[s] > o) {
            group *g = &b->groups[storage->op];
            g->ns = p->ops.at[storage->op].ns;
            g->op = storage->op;
            g->bytes += storage->bytes;
            *waiting += storage->bytes;
        }
    }
    mark(b, op->in, false);
    mark(b, op->out, false);
    for (uint32_t i = 0; i <= o; i++) {
        if (b->groups[i].bytes) b->sorted[(*n)++] = b->groups[i];
        b->groups[i] = (group){0};
    }
    return own;
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

/* Storages that the bound does without during its op. */
static void find_away(mr_ctx *ctx, bounder *b, uint64_t constants, uint64_t budget,
                      dtr_bound *out)
{
    const dtr_program *p = b->program;
    bool *ops = MR_NEW_N(ctx, bool, p->ops.n);
    uint64_t waiting;
    uint32_t n;
    out->away = MR_NEW_N(ctx, bool, p->storages.n);
    if (out->remat_op == MR_NONE) return;
    const uint64_t own = look(b, out->remat_op, constants, &waiting, &n);
    cheapest(b, n, own + waiting - budget, ops);
    for (uint32_t s = 0; s < p->storages.n; s++)
        out->away[s] = ops[p->storages.at[s].op] && b->last[s] > out->remat_op;
}

/* In place, a constant goes with the last reference to it. */
static uint64_t released_bytes(const dtr_program *program, uint32_t storage)
{
    const dtr_storage *s = &program->storages.at[storage];
    return s->constant && program->change == DTR_IN_PLACE ? s->bytes : 0;
}

void dtr_find_bound(mr_ctx *ctx, const dtr_program *program, uint64_t budget, dtr_bound *out)
{
    bounder b = {.program = program,
                 .last = MR_NEW_N(ctx, uint32_t, program->storages.n),
                 .busy = MR_NEW_N(ctx, bool, program->storages.n),
                 .groups = MR_NEW_N(ctx, group, program->ops.n),
                 .sorted = MR_NEW_N(ctx, group, program->ops.n)};
    uint64_t constants = 0, constants_then = 0;
    find_lasts(&b);
    *out = (dtr_bound){.bytes_op = MR_NONE, .remat_op = MR_NONE};
    for (uint32_t i = 0; i < program->steps.n; i++) {
        const uint32_t o = program->steps.at[i].id;
        if (program->steps.at[i].kind == DTR_RELEASE) {
            constants -= released_bytes(program, o);
            continue;
        }
        const dtr_op *op = &program->ops.at[o];
        if (op->constant) {
            constants += op->bytes;
            continue;
        }
        uint64_t waiting;
        uint32_t n;
        const uint64_t own = look(&b, o, constants, &waiting, &n);
        if (own > out->bytes) out->bytes = own, out->bytes_op = o;
        if (own > budget || own + waiting <= budget) continue;
        const uint64_t remat = cheapest(&b, n, own + waiting - budget, NULL);
        if (remat <= out->remat) continue;
        out->remat = remat;
        out->remat_op = o;
        constants_then = constants;
    }
    find_away(ctx, &b, constants_then, budget, out);
    const uint64_t kept = program->change == DTR_COPIES ? kept_bytes(&b) : 0;
    if (kept > out->bytes) out->bytes = kept, out->bytes_op = MR_NONE;
}
