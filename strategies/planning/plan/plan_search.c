/* plan_search -- is there a layout that is no higher?  Depth-first, with what is known to fail
 * remembered.
 *
 * As in a dive, what is placed has a skyline, and only valleys matter: runs of sections of one
 * height between higher ones.  Push all boxes of a layout down as far as they go: then over a
 * section of a valley the lowest box either stands on the ground, and its life lies inside the
 * valley; or the ground of that section is lost up to the lower shore, or to the end of the
 * smallest box that the valley can take.  What may be lost in a section is the capacity less
 * all that has yet to lie above it.  So each section has few choices, often none (fail) or one
 * (do it); else the section with the fewest is branched on.
 *
 * Where no box that is not placed covers a border between sections, the problem falls into
 * parts that are solved one after the other; a part that fails sends the search back to where
 * it was split off, past all that was done for its siblings.
 */
#include "plan_seeker.h"

#define TABLE ((uint32_t)1 << 16) /* failed states that are remembered, at the most */

/* ---- beginning ----------------------------------------------------------------------- */

static void make_room(plan_seeker *k)
{
    const uint32_t n = k->field->n;
    const size_t sections = (size_t)k->field->sections + 1;
    k->base = MR_NEW_N(k->ctx, uint64_t, n);
    k->top = MR_NEW_N(k->ctx, uint64_t, sections);
    k->rest = MR_NEW_N(k->ctx, uint64_t, sections);
    k->bridges = MR_NEW_N(k->ctx, uint32_t, sections);
    k->run_end = MR_NEW_N(k->ctx, uint32_t, sections);
    k->fits = MR_NEW_N(k->ctx, uint32_t, sections);
    k->shore = MR_NEW_N(k->ctx, uint64_t, sections);
    k->grain = MR_NEW_N(k->ctx, uint64_t, sections);
    k->floor = MR_NEW_N(k->ctx, uint64_t, sections);
    k->left = MR_NEW_N(k->ctx, uint32_t, (size_t)n + 1);
    k->right = MR_NEW_N(k->ctx, uint32_t, (size_t)n + 1);
    k->twin = MR_NEW_N(k->ctx, uint32_t, n);
    k->placed = MR_NEW_N(k->ctx, bool, n);
    k->name = mr_alloc_n(k->ctx, n, sizeof *k->name);
    k->failed = MR_NEW_N(k->ctx, seeker_key, TABLE);
}

static bool are_twins(const plan_box *a, const plan_box *b)
{
    return a->from == b->from && a->to == b->to && a->size == b->size;
}

static void add_box(plan_seeker *k, uint32_t i)
{
    const plan_box *b = &k->field->boxes[i];
    uint64_t state = i;
    k->name[i][0] = plan_draw(&state);
    k->name[i][1] = plan_draw(&state);
    k->twin[i] = i && are_twins(b - 1, b) ? i - 1 : MR_NONE;
    for (uint32_t s = b->from; s < b->to; s++) {
        k->rest[s] += b->size;
        k->bridges[s] += s > b->from;
    }
}

plan_seeker *plan_seeker_new(mr_ctx *ctx, const plan_field *field, const uint32_t *rank,
                             uint64_t capacity, unsigned ways)
{
    plan_seeker *k = MR_NEW(ctx, plan_seeker);
    const uint32_t n = field->n;
    *k = (plan_seeker){
        .ctx = ctx, .field = field, .rank = rank, .capacity = capacity, .ways = ways};
    make_room(k);
    for (uint32_t i = 0; i <= n; i++) {
        k->left[i] = i ? i - 1 : n;
        k->right[i] = i < n ? i + 1 : 0;
    }
    for (uint32_t i = 0; i < n; i++) add_box(k, i);
    const uint32_t first = plan_seeker_split(k, 0, field->sections, MR_NONE);
    k->now = k->parts.at[first];
    if (field->load > capacity) k->verdict = PLAN_NONE;
    return k;
}

/* ---- where to branch ----------------------------------------------------------------- */

/* Is `a` the better place to branch? */
static bool better(const plan_seeker *k, const seeker_branch *a, const seeker_branch *b)
{
    if (k->ways & PLAN_LOWEST && a->height != b->height) return a->height < b->height;
    const uint32_t x = a->count + a->loss, y = b->count + b->loss;
    if (x != y) return x < y;
    if (a->height != b->height) return a->height < b->height;
    return a->slack < b->slack;
}

typedef enum outlook { CLOSED, LOST, FORCED, OPEN } outlook;

/* CLOSED: nothing can become of some section.  LOST: some can only lose their ground.  FORCED:
 * over the branch's section stands the only box that can. */
static outlook find_branch(const plan_seeker *k, seeker_branch *best)
{
    uint32_t fits = 0;
    bool lost = false;
    *best = (seeker_branch){.section = MR_NONE};
    for (uint32_t s = k->now.lo; s < k->now.hi; s++) {
        fits += k->fits[s];
        if (!k->run_end[s]) continue;
        const seeker_branch b = {s, fits, plan_seeker_may_lose(k, s), k->top[s],
                                 k->capacity - k->top[s] - k->rest[s]};
        if (!b.count && !b.loss) return CLOSED;
        if (!b.count) lost = true;
        else if (best->section == MR_NONE || better(k, &b, best)) *best = b;
    }
    if (lost) return LOST;
    return best->count == 1 && !best->loss ? FORCED : OPEN;
}

/* ---- states that failed -------------------------------------------------------------- */

/* Two sums over what is not placed and the skyline under it: how it came to be does not matter.
 */
static void hash_state(const plan_seeker *k, uint64_t hash[2])
{
    const uint32_t end = k->field->first[k->now.hi];
    uint64_t a = 0, b = 0;
    for (uint32_t i = plan_seeker_first(k); i < end; i = k->right[i]) {
        a += k->name[i][0];
        b += k->name[i][1];
    }
    for (uint32_t s = k->now.lo; s < k->now.hi; s++) {
        uint64_t state = k->top[s];
        state = plan_draw(&state) + s;
        const uint64_t m = plan_draw(&state);
        a += m;
        b += m * m;
    }
    hash[0] = a;
    hash[1] = b | 1; /* an empty place of the table is zero */
}

static seeker_key *place_in_table(plan_seeker *k, const uint64_t hash[2])
{
    return &k->failed[hash[0] % TABLE];
}

/* ---- forward and back ---------------------------------------------------------------- */

/* To what is left of the part after a change, or to the next one; false when all is placed. */
static bool next_part(plan_seeker *k)
{
    const uint32_t next = plan_seeker_split(k, k->now.lo, k->now.hi, k->now.next);
    if (next == MR_NONE) return false;
    const seeker_part p = k->parts.at[next];
    const bool same = p.lo == k->now.lo && p.hi == k->now.hi;
    const uint32_t owner = same ? k->now.owner : p.owner;
    if (same) k->parts.n--;
    k->now = p;
    k->now.owner = owner;
    return true;
}

/* The next choice of the last frame; false when there is none left. */
static bool take_choice(plan_seeker *k)
{
    seeker_frame *f = &k->frames.at[k->frames.n - 1];
    plan_seeker_undo(k, f->trail);
    k->parts.n = f->parts;
    k->now = f->now;
    k->now.owner = k->frames.n - 1;
    if (f->option < f->end) {
        plan_seeker_place(k, k->choices.at[f->option++]);
        return true;
    }
    if (!f->loss) return false;
    f->loss = false;
    plan_seeker_look(k);
    plan_seeker_lose(k, f->section, f->section + 1, plan_seeker_after_loss(k, f->section));
    return true;
}

/* To the last frame that bears on the part that failed and has a choice left; false when there
 * is none. */
static bool go_back(plan_seeker *k)
{
    uint32_t to = k->now.owner;
    while (to != MR_NONE) {
        k->frames.n = to + 1;
        if (take_choice(k)) return true;
        const seeker_frame *f = &k->frames.at[to];
        *place_in_table(k, f->hash) = (seeker_key){{f->hash[0], f->hash[1]}};
        to = f->now.owner;
    }
    return false;
}

static bool branch_on(plan_seeker *k, const seeker_branch *b)
{
    seeker_frame f = {.now = k->now,
                      .section = b->section,
                      .trail = k->trail.n,
                      .parts = k->parts.n,
                      .loss = b->loss};
    hash_state(k, f.hash);
    const seeker_key *known = place_in_table(k, f.hash);
    if (known->at[0] == f.hash[0] && known->at[1] == f.hash[1]) return false;
    f.option = k->frames.n ? k->frames.at[k->frames.n - 1].end : 0;
    plan_seeker_choices(k, b->section, f.option);
    f.end = k->choices.n;
    MR_PUSH(k->ctx, &k->frames, f);
    return take_choice(k);
}

/* False when this way is closed. */
static bool go_on(plan_seeker *k)
{
    seeker_branch b;
    if (k->ways & PLAN_LOOK_AHEAD && plan_seeker_is_hopeless(k)) return false;
    plan_seeker_look(k);
    switch (find_branch(k, &b)) {
    case CLOSED: return false;
    case LOST: plan_seeker_lose_all(k); return true;
    case OPEN: return branch_on(k, &b);
    case FORCED: break;
    }
    const uint32_t at = k->frames.n ? k->frames.at[k->frames.n - 1].end : 0;
    plan_seeker_choices(k, b.section, at);
    plan_seeker_place(k, k->choices.at[at]);
    return true;
}

plan_verdict plan_seek(plan_seeker *k, uint64_t steps)
{
    for (uint64_t i = 0; i < steps && k->verdict == PLAN_OPEN; i++) {
        k->steps++;
        if (!go_on(k) && !go_back(k)) k->verdict = PLAN_NONE;
        else if (!next_part(k)) k->verdict = PLAN_FOUND;
    }
    return k->verdict;
}

const uint64_t *plan_seeker_bases(const plan_seeker *k)
{
    return k->base;
}

uint64_t plan_seeker_steps(const plan_seeker *k)
{
    return k->steps;
}
