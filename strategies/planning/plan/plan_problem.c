/* plan_problem -- from buffers with times to pieces with sections, and the load. */
#include "plan_internal.h"

#include <stdlib.h>

void plan_add(mr_ctx *ctx, plan_problem *problem, const plan_buffer *buffer)
{
    plan_buffer b = *buffer;
    b.gap = problem->gaps.n;
    b.gaps = 0;
    MR_PUSH(ctx, &problem->buffers, b);
}

void plan_add_gap(mr_ctx *ctx, plan_problem *problem, const plan_gap *gap)
{
    MR_PUSH(ctx, &problem->gaps, *gap);
    problem->buffers.at[problem->buffers.n - 1].gaps++;
}

/* ---- sense --------------------------------------------------------------------------- */

static mr_status check_gaps(mr_ctx *ctx, const plan_problem *problem, const plan_buffer *b)
{
    uint64_t from = b->lower;
    for (uint32_t g = b->gap; g < b->gap + b->gaps; g++) {
        const plan_gap *gap = &problem->gaps.at[g];
        if (gap->lower < from || gap->upper <= gap->lower || gap->upper > b->upper)
            return mr_fail(ctx, MR_EINPUT,
                           "buffer '%s' has a gap from %llu to %llu, expected gaps in order"
                           " between %llu and %llu",
                           b->name, (unsigned long long)gap->lower,
                           (unsigned long long)gap->upper, (unsigned long long)from,
                           (unsigned long long)b->upper);
        if (gap->low > gap->high || gap->high > b->bytes)
            return mr_fail(ctx, MR_EINPUT,
                           "buffer '%s' keeps bytes %llu to %llu in a gap, expected them in"
                           " order and among its %llu",
                           b->name, (unsigned long long)gap->low, (unsigned long long)gap->high,
                           (unsigned long long)b->bytes);
        from = gap->upper;
    }
    return MR_OK;
}

static mr_status check_buffer(mr_ctx *ctx, const plan_problem *problem, const plan_buffer *b)
{
    if (b->upper <= b->lower || !b->bytes || !b->align)
        return mr_fail(ctx, MR_EINPUT,
                       "buffer '%s' lives from %llu to %llu with %llu bytes aligned to %llu,"
                       " expected an end after its beginning and no zeros",
                       b->name, (unsigned long long)b->lower, (unsigned long long)b->upper,
                       (unsigned long long)b->bytes, (unsigned long long)b->align);
    if (b->fixed != PLAN_ANYWHERE
        && (b->fixed % b->align || b->fixed > PLAN_LIMIT || b->bytes > PLAN_LIMIT - b->fixed))
        return mr_fail(ctx, MR_EINPUT,
                       "buffer '%s' is fixed at %llu, expected a multiple of %llu at which its"
                       " %llu bytes end below %llu",
                       b->name, (unsigned long long)b->fixed, (unsigned long long)b->align,
                       (unsigned long long)b->bytes, (unsigned long long)PLAN_LIMIT);
    return check_gaps(ctx, problem, b);
}

/* Even stacked on each other all buffers stay below the limit, so nothing below can overflow.
 */
static mr_status check(mr_ctx *ctx, const plan_problem *problem)
{
    uint64_t total = 0;
    if (!problem->buffers.n) return mr_fail(ctx, MR_EINPUT, "there are no buffers to plan");
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        const plan_buffer *b = &problem->buffers.at[i];
        MR_TRY(check_buffer(ctx, problem, b));
        if (b->bytes > PLAN_LIMIT || b->align > PLAN_LIMIT
            || total > PLAN_LIMIT - b->bytes - (b->align - 1))
            return mr_fail(ctx, MR_EINPUT,
                           "with buffer '%s' all together exceed %llu bytes, expected less",
                           b->name, (unsigned long long)PLAN_LIMIT);
        total += b->bytes + (b->align - 1);
    }
    return MR_OK;
}

/* ---- sections ------------------------------------------------------------------------ */

static int by_value(const void *left, const void *right)
{
    const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return (a > b) - (a < b);
}

typedef struct moments {
    uint64_t *at;
    uint32_t n;
} moments;

static moments find_moments(mr_ctx *ctx, const plan_problem *problem)
{
    const size_t most = 2 * ((size_t)problem->buffers.n + problem->gaps.n);
    moments m = {MR_NEW_N(ctx, uint64_t, most), 0};
    size_t n = 0;
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        m.at[n++] = problem->buffers.at[i].lower;
        m.at[n++] = problem->buffers.at[i].upper;
    }
    for (uint32_t g = 0; g < problem->gaps.n; g++) {
        m.at[n++] = problem->gaps.at[g].lower;
        m.at[n++] = problem->gaps.at[g].upper;
    }
    qsort(m.at, n, sizeof *m.at, by_value);
    for (size_t i = 0; i < n; i++)
        if (!m.n || m.at[m.n - 1] != m.at[i]) m.at[m.n++] = m.at[i];
    return m;
}

static uint32_t section_of(const moments *m, uint64_t time)
{
    uint32_t low = 0, high = m->n;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (m->at[middle] <= time) low = middle;
        else high = middle;
    }
    return low;
}

static void add_piece(mr_ctx *ctx, plan_problem *problem, const moments *m, uint32_t buffer,
                      const plan_gap *part)
{
    if (part->lower >= part->upper || part->low >= part->high) return;
    const plan_piece piece = {buffer, section_of(m, part->lower), section_of(m, part->upper),
                              part->low, part->high};
    MR_PUSH(ctx, &problem->pieces, piece);
    problem->buffers.at[buffer].pieces++;
}

static void cut(mr_ctx *ctx, plan_problem *problem, const moments *m, uint32_t buffer)
{
    plan_buffer *b = &problem->buffers.at[buffer];
    uint64_t from = b->lower;
    b->piece = problem->pieces.n;
    b->pieces = 0;
    for (uint32_t g = b->gap; g < b->gap + b->gaps; g++) {
        const plan_gap *gap = &problem->gaps.at[g];
        add_piece(ctx, problem, m, buffer, &(plan_gap){from, gap->lower, 0, b->bytes});
        add_piece(ctx, problem, m, buffer, gap);
        from = gap->upper;
    }
    add_piece(ctx, problem, m, buffer, &(plan_gap){from, b->upper, 0, b->bytes});
}

mr_status plan_prepare(mr_ctx *ctx, plan_problem *problem)
{
    MR_TRY(check(ctx, problem));
    const moments m = find_moments(ctx, problem);
    problem->sections = m.n - 1;
    problem->align = problem->buffers.at[0].align;
    problem->plain = !problem->gaps.n;
    problem->pieces.n = 0;
    MR_RESERVE_N(ctx, &problem->pieces, problem->buffers.n);
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        const plan_buffer *b = &problem->buffers.at[i];
        cut(ctx, problem, &m, i);
        if (b->align != problem->align) problem->align = 0;
        problem->plain &= b->fixed == PLAN_ANYWHERE;
    }
    problem->plain &= problem->align != 0;
    problem->load = plan_load(ctx, problem, 1);
    return MR_OK;
}

/* ---- load ---------------------------------------------------------------------------- */

uint64_t plan_round(uint64_t bytes, uint64_t to)
{
    const uint64_t part = to ? bytes % to : 0;
    if (to) return part ? bytes + (to - part) : bytes;
    uint64_t power = 1;
    while (power < bytes) power *= 2;
    return power;
}

uint64_t plan_load(mr_ctx *ctx, const plan_problem *problem, uint64_t round)
{
    uint64_t *change = MR_NEW_N(ctx, uint64_t, problem->sections + 1), load = 0, live = 0;
    for (uint32_t i = 0; i < problem->pieces.n; i++) {
        const plan_piece *p = &problem->pieces.at[i];
        const uint64_t bytes = plan_round(p->high - p->low, round);
        change[p->from] += bytes;
        change[p->to] -= bytes; /* wraps around, and back when it is added */
    }
    for (uint32_t s = 0; s < problem->sections; s++) {
        live += change[s];
        if (live > load) load = live;
    }
    return load;
}

uint64_t plan_height(const plan_problem *problem, const uint64_t *offset)
{
    uint64_t height = 0;
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        const uint64_t end = offset[i] + problem->buffers.at[i].bytes;
        if (end > height) height = end;
    }
    return height;
}
