/* plan_check -- the referee of layouts.
 *
 * It walks through time with the ranges of addresses in use, taking from the problem only what
 * the user gave: times, bytes, gaps; not the sections that planners work with.
 */
#include "plan.h"
#include "ranges.h"

#include <stdlib.h>

typedef struct change {
    uint64_t time, offset, bytes;
    uint32_t buffer;
    bool begins;
} change;

typedef MR_VEC(change) changes;

static void use(mr_ctx *ctx, changes *all, uint32_t buffer, uint64_t from, uint64_t to,
                uint64_t offset, uint64_t bytes)
{
    if (from >= to || !bytes) return;
    MR_PUSH(ctx, all, (change){from, offset, bytes, buffer, true});
    MR_PUSH(ctx, all, (change){to, offset, bytes, buffer, false});
}

/* Whole before, between and after the gaps; in a gap what it keeps. */
static void use_buffer(mr_ctx *ctx, const plan_problem *problem, uint32_t i, uint64_t offset,
                       changes *all)
{
    const plan_buffer *b = &problem->buffers.at[i];
    uint64_t time = b->lower;
    for (uint32_t g = 0; g < b->gaps; g++) {
        const plan_gap *gap = &problem->gaps.at[b->gap + g];
        use(ctx, all, i, time, gap->lower, offset, b->bytes);
        use(ctx, all, i, gap->lower, gap->upper, offset + gap->low, gap->high - gap->low);
        time = gap->upper;
    }
    use(ctx, all, i, time, b->upper, offset, b->bytes);
}

/* At equal times ends come first. */
static int in_time(const void *left, const void *right)
{
    const change *a = left, *b = right;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    if (a->begins != b->begins) return a->begins ? 1 : -1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

static mr_status check_offset(mr_ctx *ctx, const plan_buffer *b, uint64_t offset,
                              uint64_t height)
{
    if (offset % b->align)
        return mr_fail(ctx, MR_EINVARIANT,
                       "the layout puts '%s' at %llu, expected a multiple of %llu", b->name,
                       (unsigned long long)offset, (unsigned long long)b->align);
    if (b->fixed != PLAN_ANYWHERE && offset != b->fixed)
        return mr_fail(ctx, MR_EINVARIANT,
                       "the layout puts '%s' at %llu, but it is fixed at %llu", b->name,
                       (unsigned long long)offset, (unsigned long long)b->fixed);
    if (b->bytes > height || offset > height - b->bytes)
        return mr_fail(
            ctx, MR_EINVARIANT,
            "the layout puts the %llu bytes of '%s' at %llu, above its height of %llu",
            (unsigned long long)b->bytes, b->name, (unsigned long long)offset,
            (unsigned long long)height);
    return MR_OK;
}

static mr_status check_time(mr_ctx *ctx, const plan_problem *problem, const changes *all)
{
    mr_ranges used = {0};
    for (uint32_t i = 0; i < all->n; i++) {
        const change *c = &all->at[i];
        if (!c->begins) {
            mr_ranges_remove(&used, 0, c->offset);
            continue;
        }
        const mr_range *other = mr_ranges_overlap(&used, 0, c->offset, c->bytes);
        if (other)
            return mr_fail(
                ctx, MR_EINVARIANT, "the layout puts '%s' over '%s' at time %llu, offset %llu",
                problem->buffers.at[c->buffer].name, problem->buffers.at[other->owner].name,
                (unsigned long long)c->time, (unsigned long long)c->offset);
        mr_ranges_add(ctx, &used, (mr_range){c->offset, c->bytes, 0, c->buffer});
    }
    return MR_OK;
}

mr_status plan_check(mr_ctx *ctx, const plan_problem *problem, const plan_layout *layout)
{
    changes all = {0};
    uint64_t top = 0;
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        const plan_buffer *b = &problem->buffers.at[i];
        MR_TRY(check_offset(ctx, b, layout->offset[i], layout->height));
        use_buffer(ctx, problem, i, layout->offset[i], &all);
        if (layout->offset[i] + b->bytes > top) top = layout->offset[i] + b->bytes;
    }
    if (top != layout->height)
        return mr_fail(ctx, MR_EINVARIANT, "the layout says it is %llu high, but ends at %llu",
                       (unsigned long long)layout->height, (unsigned long long)top);
    qsort(all.at, all.n, sizeof *all.at, in_time);
    return check_time(ctx, problem, &all);
}
