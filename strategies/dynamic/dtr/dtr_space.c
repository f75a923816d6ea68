/* dtr_space -- where storages lie, when the budget is one range of addresses.
 *
 * Each storage lies at the lowest place that is large enough, as the strategy firstfit puts it:
 * that places the written trace at the same addresses.  When an output of an op has no place,
 *
 *     hole      storages are evicted one by one, by their scores, until there is one
 *     window    neighbours go, those of all windows of the addresses that cost least together:
 *
 *          |#|..|a|b|.|#|  c  |.|d|#|       a window ends at what is locked
 *               |--------|                  # locked, . free
 *
 * Coop's cost of a window is the sum of its storages' costs, and it comes from a heuristic
 * without size here (dtr-stale).  With size, the sum is divided by the bytes that go, as DTR
 * divides that of a single storage.
 *
 * Zhang et al., "Coop: Memory is not a Commodity", NeurIPS 2023.
 */
#include "dtr_internal.h"
#include "schedule.h"

#include <math.h>

enum { ALIGNMENT = 512 }; /* firstfit's */

typedef struct block {
    uint64_t at, bytes;
    uint32_t prev, next; /* by address; a ring through the block that stands for both ends */
    bool placed;
} block;

struct dtr_space {
    block *blocks; /* by storage; then the ring's end; then those that only one op needs */
    uint32_t end, extras;
    MR_VEC(uint32_t) mine; /* that the op of the moment got */
    MR_VEC(uint32_t) row;  /* blocks of the window that is looked at, in a queue */
    MR_VEC(double) losses;
};

void dtr_space_begin(dtr_run *run)
{
    const dtr_program *p = run->program;
    uint32_t most = 0;
    for (uint32_t o = 0; o < p->ops.n; o++)
        if (p->ops.at[o].out.n > most) most = p->ops.at[o].out.n;
    dtr_space *s = run->space = MR_NEW(run->ctx, dtr_space);
    s->blocks = MR_NEW_N(run->ctx, block, (size_t)p->storages.n + most + 2);
    s->end = p->storages.n;
    s->blocks[s->end] = (block){.prev = s->end, .next = s->end};
}

/* ---- blocks ------------------------------------------------------------------------------ */

static uint64_t behind(const dtr_space *s, uint32_t b)
{
    return b == s->end ? 0 : s->blocks[b].at + s->blocks[b].bytes;
}

/* Where the place before the block ends. */
static uint64_t limit_of(const dtr_run *run, uint32_t b)
{
    return b == run->space->end ? run->options->budget : run->space->blocks[b].at;
}

static void take_out(dtr_space *s, uint32_t b)
{
    block *x = &s->blocks[b];
    if (!x->placed) return;
    s->blocks[x->prev].next = x->next;
    s->blocks[x->next].prev = x->prev;
    x->placed = false;
}

void dtr_space_remove(dtr_run *run, uint32_t storage)
{
    take_out(run->space, storage);
}

/* The lowest place; false when there is none. */
static bool put_in(dtr_run *run, uint32_t b, uint64_t bytes)
{
    dtr_space *s = run->space;
    uint32_t before = s->end;
    for (;;) {
        const uint64_t from = behind(s, before), to = limit_of(run, s->blocks[before].next);
        if (to >= from && to - from >= bytes) break;
        before = s->blocks[before].next;
        if (before == s->end) return false;
    }
    const uint32_t next = s->blocks[before].next;
    s->blocks[b] = (block){behind(s, before), bytes, before, next, true};
    s->blocks[before].next = s->blocks[next].prev = b;
    return true;
}

/* ---- windows ----------------------------------------------------------------------------- */

static bool may_go(const dtr_run *run, uint32_t b)
{
    return b < run->space->end && run->states[b].pooled;
}

/* The cheapest row of neighbours that together with the free places around and between them
 * makes room; false when there is none. */
static bool find_window(dtr_run *run, uint64_t bytes, uint32_t *first, uint32_t *behind_last)
{
    dtr_space *s = run->space;
    const bool size = run->options->heuristic.size;
    double sum = 0, best = INFINITY;
    uint64_t evicted = 0;
    uint32_t head = 0;
    s->row.n = s->losses.n = 0;
    for (uint32_t b = s->blocks[s->end].next; b != s->end; b = s->blocks[b].next) {
        if (!may_go(run, b)) {
            head = s->row.n, sum = 0, evicted = 0;
            continue;
        }
        const double loss = dtr_loss(run, b);
        MR_PUSH(run->ctx, &s->row, b);
        MR_PUSH(run->ctx, &s->losses, loss);
        sum += loss;
        evicted += s->blocks[b].bytes;
        const uint32_t next = s->blocks[b].next;
        for (; head < s->row.n; head++) {
            const uint32_t low = s->row.at[head];
            if (limit_of(run, next) - behind(s, s->blocks[low].prev) < bytes) break;
            const double cost = size ? sum / (double)evicted : sum;
            sum -= s->losses.at[head];
            evicted -= s->blocks[low].bytes;
            if (cost >= best) continue;
            best = cost;
            *first = low;
            *behind_last = next;
        }
    }
    return best < INFINITY;
}

static bool evict_window(dtr_run *run, uint64_t bytes)
{
    uint32_t b = MR_NONE, end = MR_NONE;
    if (!find_window(run, bytes, &b, &end)) return false;
    while (b != end) {
        const uint32_t next = run->space->blocks[b].next;
        dtr_evict(run, b, DTR_EVICTED);
        b = next;
    }
    return true;
}

/* ---- room for an op ---------------------------------------------------------------------- */

void dtr_space_end(dtr_run *run)
{
    dtr_space *s = run->space;
    for (uint32_t i = 0; i < s->extras; i++) take_out(s, s->end + 1 + i);
    s->extras = s->mine.n = 0;
}

static void give_back(dtr_space *s)
{
    while (s->mine.n) take_out(s, s->mine.at[--s->mine.n]);
    s->extras = 0;
}

static bool want(dtr_run *run, uint32_t b, uint64_t bytes)
{
    MR_PUSH(run->ctx, &run->space->mine, b);
    return put_in(run, b, bytes);
}

static bool is_taken(const dtr_run *run, const dtr_op *op, uint32_t of)
{
    for (uint32_t i = 0; i < op->takes.n; i++)
        if (run->program->storages.at[op->takes.at[i]].of == of) return true;
    return false;
}

static uint64_t round_up(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

/* What is there already lies twice, as long as the op runs.  Returns the bytes that have no
 * place, 0 when all have one. */
static uint64_t place(dtr_run *run, const dtr_op *op)
{
    dtr_space *s = run->space;
    const dtr_program *p = run->program;
    const bool backwards =
        op->of != MR_NONE && mr_schedule_asks_backwards(&p->trace->ops.at[op->of]);
    for (uint32_t i = 0; i < op->out.n; i++) {
        const dtr_tensor *t = &p->tensors.at[op->out.at[backwards ? op->out.n - 1 - i : i]];
        const uint64_t bytes = round_up(t->bytes);
        if (!bytes || is_taken(run, op, p->storages.at[t->storage].of)) continue;
        const bool there = s->blocks[t->storage].placed;
        if (!want(run, there ? s->end + 1 + s->extras++ : t->storage, bytes)) return bytes;
    }
    const uint64_t workspace = round_up(op->workspace);
    return workspace && !want(run, s->end + 1 + s->extras++, workspace) ? workspace : 0;
}

/* All outputs are placed when all evictions are done: so does an allocator that is asked for
 * them one after the other. */
bool dtr_space_make_room(dtr_run *run, const dtr_op *op)
{
    dtr_space *s = run->space;
    for (;;) {
        const uint64_t bytes = place(run, op);
        if (!bytes) break;
        const bool found = run->options->memory == DTR_WINDOW && evict_window(run, bytes);
        give_back(s);
        if (found) continue;
        if (!run->pooled) return false;
        if (run->options->memory == DTR_HOLE) dtr_evict(run, dtr_choose(run), DTR_EVICTED);
        else if (!evict_window(run, bytes)) return false;
    }
    const uint64_t top = behind(s, s->blocks[s->end].prev);
    if (top > run->report->top) run->report->top = top;
    return true;
}

/* Another storage has the memory of this one now, unless it lies somewhere itself. */
void dtr_space_take(dtr_run *run, const dtr_op *op, uint32_t old)
{
    dtr_space *s = run->space;
    const dtr_program *p = run->program;
    for (uint32_t i = 0; i < op->out.n; i++) {
        const uint32_t new = p->tensors.at[op->out.at[i]].storage;
        if (new == old || p->storages.at[new].of != p->storages.at[old].of) continue;
        if (s->blocks[new].placed || !s->blocks[old].placed) break;
        s->blocks[new] = s->blocks[old];
        s->blocks[s->blocks[new].prev].next = s->blocks[s->blocks[new].next].prev = new;
        s->blocks[old].placed = false;
        return;
    }
    take_out(s, old);
}
