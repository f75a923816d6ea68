/* graph_stages -- S and R matrices of Checkmate: from kept nodes to S, from S to the least R,
 * and what both cost when they are carried out.
 */
#include "graph.h"

static void hold(bool *S, uint32_t n, uint32_t t, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to && i < t; i++) S[(size_t)t * n + i] = true;
}

/* One segment [from, to): there while its own ops run, forward and backward. */
static void hold_segment(bool *S, uint32_t n, uint32_t from, uint32_t to)
{
    for (uint32_t i = from; i < to && i < n; i++) hold(S, n, n - 1 - i, from, to);
    for (uint32_t t = from; t <= to && t < n; t++) {
        hold(S, n, t, from, to);
        hold(S, n, n - 1 - t, n - to, n - from);
    }
}

bool *graph_stages_of_cuts(mr_ctx *ctx, const graph *g, uint32_t forward, const bool *kept)
{
    const uint32_t n = g->n;
    bool *S = mr_alloc_n(ctx, n, n);
    for (uint32_t v = 0; v < n; v++)
        for (uint32_t e = g->in_first[v]; e < g->in_first[v + 1]; e++) {
            const uint32_t u = g->in[e];
            for (uint32_t t = u < forward ? v : u + 1; t <= v; t++) S[(size_t)t * n + u] = true;
        }
    uint32_t from = 0;
    for (uint32_t i = 0; i < forward; i++) {
        if (!kept[i]) continue;
        for (uint32_t t = i + 1; t < n; t++) S[(size_t)t * n + i] = true;
        hold_segment(S, n, from, i);
        from = i;
    }
    hold_segment(S, n, from, forward + 1);
    return S;
}

bool *graph_closure(mr_ctx *ctx, const graph *g, const bool *S)
{
    const uint32_t n = g->n;
    bool *R = mr_alloc_n(ctx, n, n);
    for (uint32_t t = 0; t < n; t++) {
        const bool *now = S + (size_t)t * n, *next = t + 1 < n ? now + n : NULL;
        bool *run = R + (size_t)t * n;
        run[t] = true;
        for (uint32_t v = 0; next && v < n; v++)
            if (next[v] && !now[v]) run[v] = true;
        for (uint32_t v = t + 1; v-- > 0;)
            for (uint32_t e = g->in_first[v]; run[v] && e < g->in_first[v + 1]; e++)
                if (!now[g->in[e]]) run[g->in[e]] = true;
    }
    return R;
}

typedef struct machine {
    const graph *g;
    const uint64_t *bytes;
    const bool *run, *next; /* this stage's R, the next one's S; NULL in the last stage */
    bool *held;
    uint64_t live;
} machine;

static bool needed_after(const machine *m, uint32_t i, uint32_t op)
{
    if (m->next && m->next[i]) return true;
    for (uint32_t e = m->g->out_first[i]; e < m->g->out_first[i + 1]; e++)
        if (m->g->out[e] > op && m->run[m->g->out[e]]) return true;
    return false;
}

static void let_go_unless_needed(machine *m, uint32_t i, uint32_t op)
{
    if (!m->held[i] || needed_after(m, i, op)) return;
    m->held[i] = false;
    m->live -= m->bytes[i];
}

static void run_op(machine *m, uint32_t op, const uint64_t *times, graph_run *out)
{
    for (uint32_t e = m->g->in_first[op]; e < m->g->in_first[op + 1]; e++)
        if (!m->held[m->g->in[e]] && out->missing == MR_NONE) out->missing = op;
    if (!m->held[op]) m->live += m->bytes[op];
    m->held[op] = true;
    out->time += times[op];
    if (m->live > out->peak) out->peak = m->live;
}

graph_run graph_execute(mr_ctx *ctx, const graph *g, const uint64_t *bytes,
                        const uint64_t *times, const graph_stages *stages)
{
    graph_run out = {.missing = MR_NONE};
    machine m = {.g = g, .bytes = bytes, .held = MR_NEW_N(ctx, bool, g->n)};
    for (uint32_t t = 0; t < g->n; t++) {
        m.run = stages->R + (size_t)t * g->n;
        m.next = t + 1 < g->n ? stages->S + (size_t)(t + 1) * g->n : NULL;
        for (uint32_t i = 0; i < g->n; i++) let_go_unless_needed(&m, i, i);
        for (uint32_t i = 0; i < g->n; i++) {
            if (m.run[i]) run_op(&m, i, times, &out);
            for (uint32_t e = g->in_first[i]; e < g->in_first[i + 1]; e++)
                let_go_unless_needed(&m, g->in[e], i);
            let_go_unless_needed(&m, i, i);
        }
    }
    return out;
}
