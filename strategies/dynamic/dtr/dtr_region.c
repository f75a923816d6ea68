/* dtr_region -- the evicted neighbourhood of each storage, as simrd keeps it.
 *
 *     parents   [a] <- (b) <- (c) <- [s]     above s: inside b and c, frontier a
 *     children  [s] -> (d) -> [e]            below s: inside d, frontier e
 *
 * An eviction merges regions.  A computation rebuilds those of the storage and of all that it
 * was a frontier of.  What becomes a neighbour by a new op is only seen by the next rebuild; an
 * exact port has to be as late.  Constants are never evicted: nothing is searched beyond them,
 * and regions of their own nobody asks for.
 */
#include "dtr_internal.h"

void dtr_regions_begin(dtr_run *run)
{
    run->below = MR_NEW_N(run->ctx, dtr_region, run->program->storages.n);
    run->above = MR_NEW_N(run->ctx, dtr_region, run->program->storages.n);
}

static void clear(dtr_region *region)
{
    dtr_set_clear(&region->inside);
    dtr_set_clear(&region->frontier);
    region->ns = 0;
    region->late = false;
}

/* A view that a new op makes of an old storage ties it to what else the op reads, and no
 * region is rebuilt for that.  When such a storage is evicted before its next rebuild, others
 * become late, too. */
void dtr_regions_tie(dtr_run *run, const dtr_tie *tie)
{
    if (!run->states[tie->child].tensors_n) return; /* it will be rebuilt when it is made */
    run->below[tie->parent].late = run->above[tie->child].late = true;
    if (!run->states[tie->parent].present || !run->states[tie->child].present)
        run->literal = true;
}

/* ---- eviction ---------------------------------------------------------------------------- */

/* What reg has inside and the region has not becomes part of it. */
static void take_inside(dtr_run *run, dtr_region *region, const dtr_set *other)
{
    if (!other->n) return;
    dtr_set_cover(run->ctx, &region->inside, other->first * 64,
                  (other->first + other->n) * 64 - 1);
    uint64_t *into = region->inside.words + (other->first - region->inside.first);
    for (uint32_t w = 0; w < other->n; w++) {
        uint64_t more = other->words[w] & ~into[w];
        into[w] |= more;
        for (; more; more &= more - 1)
            region->ns += run->states[(other->first + w) * 64 + dtr_lowest(more)].ns;
    }
}

static void absorb(dtr_run *run, dtr_region *region, uint32_t storage, const dtr_region *reg)
{
    dtr_set_remove(&region->frontier, storage);
    dtr_set_unite(run->ctx, &region->frontier, &reg->frontier);
    const bool twice = dtr_set_has(&reg->inside, storage)
                       && !dtr_set_has(&region->inside, storage);
    take_inside(run, region, &reg->inside);
    if (twice) return;
    region->ns += run->states[storage].ns;
    dtr_set_cover(run->ctx, &region->inside, storage, storage);
    dtr_set_add(&region->inside, storage);
}

void dtr_regions_evict(dtr_run *run, uint32_t storage)
{
    dtr_region *below = &run->below[storage], *above = &run->above[storage];
    run->literal |= below->late || above->late;
    for (DTR_EACH(&above->frontier, p)) absorb(run, &run->below[p], storage, below);
    for (DTR_EACH(&below->frontier, c)) absorb(run, &run->above[c], storage, above);
    clear(below);
    clear(above);
}

/* ---- computation ------------------------------------------------------------------------- */

static void fill(dtr_run *run, dtr_set *set, const uint32_t *ids, uint32_t n)
{
    if (!n) return;
    uint32_t low = ids[0], high = ids[0];
    for (uint32_t i = 1; i < n; i++) {
        if (ids[i] < low) low = ids[i];
        if (ids[i] > high) high = ids[i];
    }
    dtr_set_cover(run->ctx, set, low, high);
    for (uint32_t i = 0; i < n; i++) dtr_set_add(set, ids[i]);
}

static void visit(dtr_run *run, dtr_region *region, uint32_t s)
{
    dtr_state *state = &run->states[s];
    run->report->accesses++;
    if (state->seen == run->search) return;
    state->seen = run->search;
    if (state->present || state->hosted) {
        MR_PUSH(run->ctx, &run->edge, s);
        return;
    }
    region->ns += state->ns;
    MR_PUSH(run->ctx, &run->found, s);
}

static void rebuild(dtr_run *run, uint32_t base, bool up)
{
    dtr_region *region = up ? &run->above[base] : &run->below[base];
    clear(region);
    run->search++;
    run->found.n = run->edge.n = 0;
    run->states[base].seen = run->search;
    for (uint32_t s = base, done = 0;; s = run->found.at[done++]) {
        const dtr_storage *storage = &run->program->storages.at[s];
        const uint32_t *next = up ? storage->parents.at : storage->children.at;
        const uint32_t n = up ? run->states[s].parents_n : run->states[s].children_n;
        for (uint32_t i = 0; i < n; i++) visit(run, region, next[i]);
        if (done == run->found.n) break;
    }
    fill(run, &region->inside, run->found.at, run->found.n);
    fill(run, &region->frontier, run->edge.at, run->edge.n);
}

/* ---- computation without a search ----------------------------------------------------------
 *
 * When a storage comes back, all its parents are there.  So it simply moves from the inside of
 * the regions above others to their frontier, and its parents leave the frontier where it was
 * all that led to them.
 */

static bool leads_to(const dtr_run *run, const dtr_region *above, uint32_t base,
                     uint32_t parent)
{
    const uint32_t *children = run->program->storages.at[parent].children.at;
    for (uint32_t i = 0; i < run->states[parent].children_n; i++)
        if (children[i] == base || dtr_set_has(&above->inside, children[i])) return true;
    return false;
}

static bool may_shift(const dtr_run *run)
{
    for (uint32_t i = 0; i < run->fresh.n; i++)
        if (run->states[run->fresh.at[i]].grown
            || dtr_set_next(&run->above[run->fresh.at[i]].inside, 0) != MR_NONE)
            return false;
    return !run->literal;
}

static void shift(dtr_run *run, uint32_t base)
{
    dtr_region *above = &run->above[base];
    for (uint32_t i = 0; i < run->fresh.n; i++) {
        const uint32_t s = run->fresh.at[i];
        if (!dtr_set_has(&above->inside, s)) continue;
        dtr_set_remove(&above->inside, s);
        above->ns -= run->states[s].ns;
        dtr_set_cover(run->ctx, &above->frontier, s, s);
        dtr_set_add(&above->frontier, s);
    }
    for (uint32_t i = 0; i < run->fresh.n; i++) {
        const uint32_t s = run->fresh.at[i];
        const uint32_t *parents = run->program->storages.at[s].parents.at;
        for (uint32_t j = 0; j < run->states[s].parents_n; j++)
            if (!leads_to(run, above, base, parents[j]))
                dtr_set_remove(&above->frontier, parents[j]);
    }
}

static void touch(dtr_run *run, bool up)
{
    dtr_set_clear(&run->touched);
    for (uint32_t i = 0; i < run->fresh.n; i++) {
        const uint32_t s = run->fresh.at[i];
        dtr_set_unite(run->ctx, &run->touched,
                      up ? &run->below[s].frontier : &run->above[s].frontier);
    }
}

void dtr_regions_compute(dtr_run *run)
{
    for (uint32_t i = 0; i < run->fresh.n; i++) {
        rebuild(run, run->fresh.at[i], false);
        rebuild(run, run->fresh.at[i], true);
    }
    touch(run, false);
    for (DTR_EACH(&run->touched, s)) rebuild(run, s, false);
    touch(run, true);
    const bool simple = may_shift(run);
    for (DTR_EACH(&run->touched, s))
        if (simple && !run->above[s].late) shift(run, s);
        else rebuild(run, s, true);
    for (uint32_t i = 0; i < run->fresh.n; i++) run->states[run->fresh.at[i]].grown = false;
}
