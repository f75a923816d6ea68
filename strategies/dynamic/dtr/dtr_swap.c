/* dtr_swap -- what is evicted may go to the host and come back, not be computed again.
 *
 *     computing  ..last use.. ──────── evicted · · · · · · · ·  use
 *     to host             copy ──►     :                         ▲
 *     from host                        :              copy ──────┘
 *
 * The recording is known: what will be evicted can be sent right after its last use, and begin
 * to come back before its next one, as far as the link is free and there is room then.  What
 * these copies make computing wait is the price of a swap; a storage is swapped where that is
 * less than what computing it again takes.  A copy on the host stays valid: storages never
 * change, and going for the second time costs nothing.
 *
 * Peng et al., "Capuchin: Tensor-based GPU Memory Management for Deep Learning", 2020.
 */
#include "dtr_internal.h"

#include <math.h>

enum {
    LATENCY = 10000, /* ns of a copy */
    FAR = 256,       /* ops that are looked at for what comes back */
    BINS = 2048,     /* parts of the step, for what the link has to bring back in each */
    SHARE = 8, /* this part of a copy counts when it is hidden: others want the link, too */
};

typedef struct place {
    uint64_t touched; /* clock after its last use */
    uint64_t ready;   /* clock at which its copy has come back */
    uint64_t start;   /* time of the step without waiting: its copy begins to come back */
    uint32_t deed;    /* the first one after its last use */
} place;

struct dtr_swap {
    uint64_t out_free, in_free; /* clocks at which the link is free again */
    uint64_t bin_ns;            /* length of one, except for what the last one is longer */
    uint64_t left[BINS];        /* ns of each in which nothing comes back yet */
    uint32_t below[BINS];       /* itself, or where to look before, since nothing is left */
    place *places;              /* by storage */
    bool *made;                 /* by tensor: its op has run */
};

void dtr_swap_begin(dtr_run *run)
{
    run->swap = MR_NEW(run->ctx, dtr_swap);
    run->swap->places = MR_NEW_N(run->ctx, place, run->program->storages.n);
    run->swap->made = MR_NEW_N(run->ctx, bool, run->program->tensors.n);
    run->swap->bin_ns = dtr_compute_ns(run->program) / BINS + 1;
    for (uint32_t b = 0; b < BINS; b++) {
        run->swap->left[b] = run->swap->bin_ns;
        run->swap->below[b] = b;
    }
}

static void touch(dtr_run *run, uint32_t tensor)
{
    place *p = &run->swap->places[run->program->tensors.at[tensor].storage];
    p->touched = run->report->clock;
    p->deed = run->report->deeds.n;
}

void dtr_swap_touch(dtr_run *run, const dtr_op *op)
{
    for (uint32_t i = 0; i < op->in.n; i++) touch(run, op->in.at[i]);
    for (uint32_t i = 0; i < op->out.n; i++) {
        touch(run, op->out.at[i]);
        run->swap->made[op->out.at[i]] = true;
    }
}

/* ---- prices ------------------------------------------------------------------------------ */

static uint64_t copy_ns(const dtr_run *run, uint32_t storage)
{
    const double bytes = (double)run->program->storages.at[storage].bytes;
    return LATENCY + (uint64_t)(bytes / (double)run->options->link * 1e9);
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t above(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static bool is_needed(dtr_run *run, uint32_t storage)
{
    return dtr_next_reader(run, storage) < run->program->ops.n
           || run->program->storages.at[storage].kept;
}

/* The last bin up to `bin` in which something is left, or the first one of all. */
static uint32_t find_bin(dtr_swap *swap, uint32_t bin)
{
    while (swap->below[bin] != bin) bin = swap->below[bin] = swap->below[swap->below[bin]];
    return bin;
}

/* Of a copy of `ns` that has to be back at `use`, what the link cannot do between now and then
 * beside all that has been booked.  Books it, and says when it begins, if `start` is asked
 * for. */
static uint64_t late_ns(dtr_run *run, uint64_t ns, uint64_t use, uint64_t *start)
{
    dtr_swap *swap = run->swap;
    const uint64_t now = run->begins[run->op];
    const uint32_t first = (uint32_t)(now / swap->bin_ns);
    uint32_t bin = use ? (uint32_t)((use - 1) / swap->bin_ns) : 0;
    for (bin = find_bin(swap, bin); ns && bin > first; bin = find_bin(swap, bin - 1)) {
        const uint64_t part = ns < swap->left[bin] ? ns : swap->left[bin];
        ns -= part;
        if (!start) continue;
        swap->left[bin] -= part;
        if (!swap->left[bin]) swap->below[bin] = bin - 1;
        *start = bin * swap->bin_ns + swap->left[bin];
    }
    if (ns && start) *start = now;
    return ns;
}

/* ns that computing waits for the copies, and something for the link. */
static double exposed(dtr_run *run, uint32_t storage)
{
    const dtr_swap *swap = run->swap;
    const uint64_t ns = copy_ns(run, storage), now = run->report->clock;
    uint64_t out = 0;
    if (!run->states[storage].hosted)
        out = above(later(swap->places[storage].touched, swap->out_free) + ns, now);
    out += late_ns(run, ns, run->begins[dtr_next_reader(run, storage)], NULL);
    return ((double)out + (double)ns / SHARE) * run->options->doubt;
}

double dtr_swap_price(dtr_run *run, uint32_t storage, double recompute)
{
    if (!is_needed(run, storage)) return recompute;
    const double swap = exposed(run, storage);
    return run->options->way == DTR_SWAP ? swap : fmin(swap, recompute);
}

/* Its own ops, and those that would have to run before them. */
static uint64_t recompute_ns(dtr_run *run, uint32_t storage)
{
    uint64_t ns = run->states[storage].ns;
    if (run->above) ns += run->above[storage].ns;
    else if (run->nodes.n) ns += (uint64_t)dtr_classes_around(run, storage);
    return ns;
}

void dtr_swap_send(dtr_run *run, uint32_t storage)
{
    dtr_swap *swap = run->swap;
    dtr_state *s = &run->states[storage];
    place *p = &swap->places[storage];
    dtr_report *report = run->report;
    if (p->ready > report->clock) { /* it has hardly come back */
        report->stall += p->ready - report->clock;
        report->clock = p->ready;
    }
    if (!is_needed(run, storage)) return;
    const uint64_t use = run->begins[dtr_next_reader(run, storage)];
    if (s->hosted) late_ns(run, copy_ns(run, storage), use, &p->start);
    if (s->hosted) return;
    if (run->options->way == DTR_BOTH
        && exposed(run, storage) >= (double)recompute_ns(run, storage))
        return;
    s->hosted = true;
    late_ns(run, copy_ns(run, storage), use, &p->start);
    swap->out_free = later(p->touched, swap->out_free) + copy_ns(run, storage);
    const uint64_t wait = above(swap->out_free, report->clock);
    report->stall += wait;
    report->clock += wait;
    if (run->deeds)
        MR_PUSH(run->ctx, &report->sendings, (dtr_sending){storage, p->deed});
}

/* ---- coming back ------------------------------------------------------------------------- */

bool dtr_swap_can_fetch(const dtr_run *run, uint32_t storage)
{
    return run->states[storage].hosted && !run->states[storage].present;
}

static void fetch(dtr_run *run, uint32_t storage)
{
    dtr_state *s = &run->states[storage];
    dtr_swap *swap = run->swap;
    const dtr_storage *of = &run->program->storages.at[storage];
    swap->in_free = later(swap->in_free, run->report->clock) + copy_ns(run, storage);
    swap->places[storage].ready = swap->in_free;
    swap->places[storage].touched = run->report->clock;
    s->present = true;
    s->accessed = run->report->clock;
    run->used += of->bytes;
    run->report->fetches++;
    if (run->used > run->report->peak) run->report->peak = run->used;
    for (uint32_t i = 0; i < s->tensors_n; i++)
        run->defined[of->tensors.at[i]] = swap->made[of->tensors.at[i]];
    if (!s->locks) dtr_pool_add(run, storage);
    dtr_write_down(run, DTR_FETCHED, storage);
}

dtr_result dtr_swap_fetch(dtr_run *run, uint32_t storage)
{
    if (!dtr_make_room(run, run->program->storages.at[storage].bytes)) return DTR_OOM;
    fetch(run, storage);
    return DTR_PASS;
}

void dtr_swap_wait(dtr_run *run, const dtr_op *op)
{
    dtr_report *report = run->report;
    for (uint32_t i = 0; i < op->in.n; i++) {
        const uint32_t s = run->program->tensors.at[op->in.at[i]].storage;
        const uint64_t wait = above(run->swap->places[s].ready, report->clock);
        report->stall += wait;
        report->clock += wait;
    }
}

static double price(dtr_run *run, uint32_t storage)
{
    const double swap = exposed(run, storage);
    if (run->options->way == DTR_SWAP) return swap;
    return fmin(swap, (double)recompute_ns(run, storage));
}

/* Room for what op `reader` needs, without evicting what is needed before that, or costs more
 * than the room is worth. */
static bool make_early_room(dtr_run *run, uint64_t bytes, uint32_t reader, double worth)
{
    const uint64_t budget = run->options->budget;
    while (bytes > budget || run->used > budget - bytes) {
        if (!run->pooled) return false;
        const uint32_t storage = dtr_choose(run);
        if (is_needed(run, storage)
            && (dtr_next_reader(run, storage) <= reader || price(run, storage) > worth))
            return false;
        dtr_swap_send(run, storage);
        dtr_evict(run, storage, DTR_EVICTED);
    }
    return true;
}

/* Of the ops that follow, what they will read and is on the host, as early as the link takes
 * for it, leaving room for what is made before. */
void dtr_swap_prefetch(dtr_run *run)
{
    const dtr_program *p = run->program;
    const uint32_t after = run->op + 2 < p->ops.n ? run->op + 2 : p->ops.n;
    const uint64_t next = run->begins[after]; /* when to look again */
    uint64_t most = 0;
    for (uint32_t o = run->op; o < p->ops.n && o - run->op < FAR; o++) {
        const dtr_op *op = &p->ops.at[o];
        const uint64_t own = op->bytes + op->workspace - dtr_taken_bytes(p, op);
        if (own > most) most = own;
        if (o == run->op) continue;
        for (uint32_t i = 0; i < op->in.n; i++) {
            const uint32_t s = p->tensors.at[op->in.at[i]].storage;
            if (!dtr_swap_can_fetch(run, s)) continue;
            if (next < run->swap->places[s].start) return;
            if (!make_early_room(run, p->storages.at[s].bytes + most, o,
                                 (double)copy_ns(run, s)))
                return;
            fetch(run, s);
        }
    }
}
