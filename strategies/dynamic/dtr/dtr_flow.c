/* dtr_flow -- a flow that proves how much is computed again.
 *
 * At a moment every storage is in memory or it is not.  What a later op reads is in memory
 * then, or its op runs again; an op that runs again reads what is in memory, or what an op
 * makes that runs again, too.  Let a byte in memory cost `rate`, and let all of it that the
 * moment has be paid back: the cheapest choice is a minimum cut, and any flow is below it.
 *
 *     wanted storage --[rate * bytes]--> its op --[ns]--> sink
 *                                          `--> storages it reads --[rate * bytes]--> their ops
 *
 * The flow is sent from the last op to the first.  What does not arrive is not counted, so that
 * no op has to send back; numbers are rounded so that the proof holds to the integer.
 */
#include "dtr_flow.h"

#include <math.h>
#include <string.h>

void dtr_flow_begin(mr_ctx *ctx, const dtr_program *program, dtr_flow *out)
{
    *out = (dtr_flow){.program = program,
                      .came = MR_NEW_N(ctx, uint64_t, program->ops.n),
                      .used = MR_NEW_N(ctx, uint64_t, program->storages.n)};
}

/* What must be there for the ops up to `until`. */
static bool is_wanted(const dtr_moment *m, uint32_t storage, uint32_t until)
{
    return m->next[storage] > m->op && m->next[storage] <= until;
}

static uint64_t price(const dtr_storage *s, double rate)
{
    return (uint64_t)(rate * (double)s->bytes * (1 - 0x1p-50));
}

/* What the op does not take itself goes on to what it reads, as far as there is room. */
static void send_on(dtr_flow *f, const dtr_moment *m, const dtr_op *op, uint32_t until,
                    double rate, uint64_t rest)
{
    for (uint32_t i = 0; rest && i < op->in.n; i++) {
        const uint32_t s = f->program->tensors.at[op->in.at[i]].storage;
        const dtr_storage *storage = &f->program->storages.at[s];
        if (storage->constant || m->busy[s] || is_wanted(m, s, until)) continue;
        const uint64_t room = price(storage, rate) - f->used[s];
        const uint64_t sent = rest < room ? rest : room;
        f->used[s] += sent;
        f->came[storage->op] += sent;
        rest -= sent;
    }
}

/* Of all that is computed again, less what memory is worth at this rate. */
static int64_t send(dtr_flow *f, const dtr_moment *m, uint32_t until, double rate)
{
    const dtr_program *p = f->program;
    const double paid = ceil(rate * (double)m->left * (1 + 0x1p-50));
    uint64_t arrived = 0;
    memset(f->came, 0, (m->op + 1) * sizeof *f->came);
    memset(f->used, 0, p->storages.n * sizeof *f->used);
    for (uint32_t s = 0; s < p->storages.n && p->storages.at[s].op <= m->op; s++)
        if (!p->storages.at[s].constant && !m->busy[s] && is_wanted(m, s, until))
            f->came[p->storages.at[s].op] += price(&p->storages.at[s], rate);
    for (uint32_t o = m->op + 1; o-- > 0;) {
        const dtr_op *op = &p->ops.at[o];
        const uint64_t taken = f->came[o] < op->ns ? f->came[o] : op->ns;
        arrived += taken;
        if (f->came[o] > taken) send_on(f, m, op, until, rate, f->came[o] - taken);
    }
    return paid < 0x1p62 ? (int64_t)arrived - (int64_t)paid : INT64_MIN;
}

uint64_t dtr_flow_find(dtr_flow *flow, const dtr_moment *moment, uint32_t until, double *rate)
{
    static const double factors[] = {4, 2, 1.4, 1.15, 1.05};
    int64_t best = send(flow, moment, until, *rate);
    for (size_t i = 0; i < MR_COUNT(factors); i++)
        for (int up = 0; up < 2; up++)
            for (;;) {
                const double other = up ? *rate * factors[i] : *rate / factors[i];
                const int64_t found = other < 0x1p60 ? send(flow, moment, until, other) : 0;
                if (found <= best) break;
                best = found;
                *rate = other;
            }
    return best > 0 ? (uint64_t)best : 0;
}

void dtr_flow_away(dtr_flow *flow, const dtr_moment *moment, double rate, bool *away)
{
    const dtr_program *p = flow->program;
    send(flow, moment, UINT32_MAX, rate);
    for (uint32_t s = 0; s < p->storages.n; s++) {
        const uint32_t o = p->storages.at[s].op;
        away[s] = o <= moment->op && !p->storages.at[s].constant && !moment->busy[s]
                  && flow->came[o] >= p->ops.at[o].ns;
    }
}
