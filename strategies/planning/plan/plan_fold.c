/* plan_fold -- iterations that are alike are planned as one.
 *
 * Alike are iterations that ask for the same sizes in the same order.  The first may also make
 * what stays for ever, and all but the first may begin with what the one before has left.  A
 * moment of an iteration is the number of its requests so far: 0 is before the first, and the
 * last is behind its end.  What comes in all iterations at the same moment is one buffer of the
 * fold, and so is what lives through all of them.  Of what is handed from an iteration to the
 * next, and goes there before it comes again, there is never more than one: it keeps its place
 * all the time.  Times of the fold are those of the second iteration.
 */
#include "plan.h"

typedef struct life { /* of a buffer: in which iteration and at which moment */
    uint32_t first, last;
    uint32_t from, to;
} life;

typedef struct folder {
    mr_ctx *ctx;
    const plan_problem *whole;
    plan_fold *out;
    uint32_t period;   /* requests of an iteration, without those for what stays */
    uint32_t *come;    /* by buffer, and one more: how many of these are before it */
    uint32_t *begin;   /* by iteration, and one more: its first buffer */
    uint32_t *main;    /* by iteration: what `come` is when it has begun with what was left */
    uint32_t *by_from; /* by moment: buffer of the fold, MR_NONE */
    uint32_t *by_head; /* the same of what an iteration begins with, in order */
    MR_VEC(uint32_t) like; /* by buffer of the fold: the one of the second iteration, MR_NONE */
    MR_VEC(life) lives;    /* likewise; as long as that of any of them */
    MR_VEC(bool) handed, taken; /* likewise; taken: what is there at first lies here, too */
} folder;

/* ---- moments ----------------------------------------------------------------------------- */

static bool stays(const folder *f, uint32_t buffer)
{
    const plan_problem *w = f->whole;
    return buffer < f->begin[1] && w->buffers.at[buffer].upper >= w->turns.at[w->turns.n - 1];
}

/* How many buffers begin before the time. */
static uint32_t begun_before(const plan_problem *whole, uint64_t time)
{
    uint32_t low = 0, high = whole->buffers.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (whole->buffers.at[middle].lower < time) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* False when iterations have different numbers of requests. */
static bool find_moments(folder *f)
{
    const plan_problem *w = f->whole;
    const uint32_t n = w->buffers.n, turns = w->turns.n;
    f->begin = MR_NEW_N(f->ctx, uint32_t, turns + 1);
    f->main = MR_NEW_N(f->ctx, uint32_t, turns);
    f->come = MR_NEW_N(f->ctx, uint32_t, n + 1);
    for (uint32_t t = 0; t < turns; t++) f->begin[t + 1] = begun_before(w, w->turns.at[t]);
    for (uint32_t i = 0; i < n; i++) f->come[i + 1] = f->come[i] + !stays(f, i);
    f->main[0] = f->come[begun_before(w, w->begin)];
    f->period = f->come[f->begin[1]] - f->main[0];
    for (uint32_t t = 1; t < turns; t++) {
        const uint32_t end = f->come[f->begin[t + 1]];
        if (end - f->come[f->begin[t]] < f->period) return false;
        f->main[t] = end - f->period;
    }
    return true;
}

static uint32_t moment_of(const folder *f, uint32_t turn, uint32_t begun)
{
    const uint32_t come = f->come[begun];
    return come >= f->main[turn] ? come - f->main[turn] + 1 : 0;
}

/* How many iterations end at the time or before. */
static uint32_t turns_over(const plan_problem *whole, uint64_t time)
{
    uint32_t low = 0, high = whole->turns.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (whole->turns.at[middle] <= time) low = middle + 1;
        else high = middle;
    }
    return low;
}

static uint32_t turn_of(const folder *f, uint32_t buffer)
{
    uint32_t low = 0, high = f->whole->turns.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (f->begin[middle + 1] <= buffer) low = middle + 1;
        else high = middle;
    }
    return low;
}

static life life_of(const folder *f, uint32_t buffer)
{
    const plan_buffer *b = &f->whole->buffers.at[buffer];
    const uint32_t turns = f->whole->turns.n, begun = begun_before(f->whole, b->upper);
    life l = {.first = turn_of(f, buffer), .last = turns_over(f->whole, b->upper)};
    l.from = moment_of(f, l.first, buffer);
    if (l.last == turns || (l.last && begun == f->begin[l.last])) { /* behind an end */
        l.last--;
        l.to = f->period + 1;
    } else {
        l.to = moment_of(f, l.last, begun);
    }
    return l;
}

/* ---- buffers of the fold ----------------------------------------------------------------- */

static uint32_t add(folder *f, uint32_t buffer, const life *l)
{
    plan_add(f->ctx, &f->out->problem, &f->whole->buffers.at[buffer]);
    MR_PUSH(f->ctx, &f->like, MR_NONE);
    MR_PUSH(f->ctx, &f->lives, *l);
    MR_PUSH(f->ctx, &f->handed, false);
    MR_PUSH(f->ctx, &f->taken, false);
    return f->out->problem.buffers.n - 1;
}

/* What is there before the first iteration as what others begin with.  MR_NONE when nothing in
 * the others is like it. */
static uint32_t find_like(folder *f, uint32_t buffer, const life *l)
{
    for (uint32_t i = 0; i < f->out->problem.buffers.n; i++) {
        const plan_buffer *b = &f->out->problem.buffers.at[i];
        const life *other = &f->lives.at[i];
        if (f->taken.at[i] || b->bytes != f->whole->buffers.at[buffer].bytes) continue;
        if (f->handed.at[i] ? l->to > other->from : other->from || other->to != l->to) continue;
        f->taken.at[i] = true;
        return i;
    }
    f->out->exact = false;
    return add(f, buffer, l);
}

static bool is_as_large(const folder *f, uint32_t buffer, uint32_t folded)
{
    return f->whole->buffers.at[buffer].bytes == f->out->problem.buffers.at[folded].bytes;
}

/* What comes in this or another iteration.  False when it cannot be one with the others. */
static bool join(folder *f, uint32_t buffer, const life *l)
{
    const bool handed = l->first != l->last;
    const uint32_t head = f->come[buffer] - f->come[f->begin[l->first]];
    uint32_t *slot = l->from ? &f->by_from[l->from] : &f->by_head[head];
    if (handed && (l->last != l->first + 1 || l->to > l->from)) return false;
    if (*slot == MR_NONE) *slot = add(f, buffer, l);
    f->out->buffer[buffer] = *slot;
    life *all = &f->lives.at[*slot];
    if (!handed && l->to > all->to) {
        all->to = l->to;
        f->like.at[*slot] = MR_NONE;
    }
    if (l->first == 1 && l->to == all->to) f->like.at[*slot] = buffer;
    if (!handed) return is_as_large(f, buffer, *slot);
    f->handed.at[*slot] = true;
    f->out->exact = false;
    return is_as_large(f, buffer, *slot);
}

/* ---- times ------------------------------------------------------------------------------- */

static uint64_t since_first(const folder *f, uint64_t time)
{
    return time - f->whole->turns.at[0] + 1;
}

/* When the second iteration has come to the moment. */
static uint64_t time_of(const folder *f, uint32_t moment)
{
    const plan_problem *w = f->whole;
    if (!moment) return 0;
    if (moment > f->period) return since_first(f, w->turns.at[1]);
    return since_first(f, w->buffers.at[f->begin[2] - f->period + moment - 1].lower);
}

static void set_times(folder *f)
{
    for (uint32_t i = 0; i < f->out->problem.buffers.n; i++) {
        plan_buffer *b = &f->out->problem.buffers.at[i];
        const life *l = &f->lives.at[i];
        const uint32_t like = f->like.at[i];
        b->lower = time_of(f, f->handed.at[i] ? 0 : l->from);
        b->upper = time_of(f, f->handed.at[i] ? f->period + 1 : l->to);
        if (f->handed.at[i] || like == MR_NONE) continue;
        const uint64_t upper = since_first(f, f->whole->buffers.at[like].upper);
        const uint64_t end = time_of(f, f->period + 1);
        b->upper = upper < end ? upper : end;
    }
}

static bool fold(folder *f)
{
    const uint32_t n = f->whole->buffers.n;
    const life always = {.to = f->period + 1};
    MR_VEC(uint32_t) first = {0}; /* there before, but not for ever */
    for (uint32_t i = 0; i < n; i++) {
        const life l = life_of(f, i);
        if (stays(f, i)) f->out->buffer[i] = add(f, i, &always);
        else if (!l.first && !l.from) MR_PUSH(f->ctx, &first, i);
        else if (!join(f, i, &l)) return false;
    }
    for (uint32_t i = 0; i < first.n; i++) {
        const life l = life_of(f, first.at[i]);
        if (l.last || !l.to) return false;
        f->out->buffer[first.at[i]] = find_like(f, first.at[i], &l);
    }
    return true;
}

bool plan_fold_make(mr_ctx *ctx, const plan_problem *whole, plan_fold *out)
{
    *out = (plan_fold){.exact = true};
    if (whole->turns.n < 2) return false;
    folder f = {.ctx = ctx, .whole = whole, .out = out};
    if (!find_moments(&f)) return false;
    f.by_from = mr_none_of(ctx, f.period + 2);
    f.by_head = mr_none_of(ctx, whole->buffers.n);
    out->buffer = MR_NEW_N(ctx, uint32_t, whole->buffers.n);
    if (!fold(&f)) return false;
    set_times(&f);
    return true;
}

void plan_unfold(mr_ctx *ctx, const plan_problem *whole, const plan_fold *fold,
                 const plan_layout *once, plan_layout *out)
{
    out->height = once->height;
    out->offset = MR_NEW_N(ctx, uint64_t, whole->buffers.n);
    for (uint32_t i = 0; i < whole->buffers.n; i++)
        out->offset[i] = once->offset[fold->buffer[i]];
}
