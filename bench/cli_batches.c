/* batches -- with how many samples a step fills the memory, and how many it then does a second.
 *
 * All rows look for it together, a round after the other, so that each round has work for all
 * threads: doubling until it does not fit, then bisection.
 */
#include <inttypes.h>

#include "advise.h"

enum { ROUNDS = 40 };

typedef struct range {
    uint64_t low;  /* fits; 0: nothing known to */
    uint64_t high; /* does not; 0: nothing known not to */
} range;

static uint64_t next_of(const range *r, uint64_t first)
{
    if (!r->high) return r->low ? 2 * r->low : first;
    return r->low + (r->high - r->low) / 2;
}

static bool is_found(const range *r)
{
    return r->low >= MR_LARGEST_BATCH || (r->high && r->high - r->low <= 1);
}

static mr_cell with_batch(mr_ctx *ctx, const mr_advice *a, uint32_t row, uint64_t samples)
{
    mr_spec *spec = MR_NEW(ctx, mr_spec);
    const mr_spec *of = a->rows[row].spec;
    const char *text = mr_printf(ctx, "batch:%" PRIu64 "%c%s", samples,
                                 of->rewrites.n ? '+' : '/', of->text);
    mr_cell cell = {.spec = spec, .cuda_device = a->cuda_device};
    mr_scene_spec(ctx, text, spec); /* another spec that is right, with one stage more */
    return cell;
}

/* Tries the next batch of each row that is not found yet; how many there are. */
static uint32_t try_next(mr_ctx *ctx, const mr_advice *a, uint64_t first, range *ranges)
{
    mr_comparison c = {.scene = mr_scene_alone(ctx, a->scene)};
    uint64_t *tried = MR_NEW_N(ctx, uint64_t, a->n);
    uint32_t *rows = MR_NEW_N(ctx, uint32_t, a->n);
    c.cells = MR_NEW_N(ctx, mr_cell, a->n);
    for (uint32_t i = 0; i < a->n; i++) {
        if (is_found(&ranges[i])) continue;
        const uint32_t k = c.specs++;
        tried[k] = next_of(&ranges[i], first);
        rows[k] = i;
        c.cells[k] = with_batch(ctx, a, i, tried[k]);
    }
    mr_compare(ctx, &c, (uint32_t)a->args->jobs);
    for (uint32_t k = 0; k < c.specs; k++) {
        const bool fits = mr_cell_passed(&c.cells[k]);
        if (fits) ranges[rows[k]].low = tried[k];
        else ranges[rows[k]].high = tried[k];
        if (fits) a->growth[rows[k]] = (mr_growth){tried[k], c.cells[k]};
    }
    return c.specs;
}

void mr_largest_batches(mr_ctx *ctx, mr_advice *a)
{
    const char *batch = a->scene->trace.about[MR_ABOUT_batch];
    uint64_t first;
    a->growth = MR_NEW_N(ctx, mr_growth, a->n);
    if (a->scene->capacity == UINT64_MAX || a->scene->is_part) return;
    if (!batch || !mr_parse_size(batch, &first) || !first) return;
    range *ranges = MR_NEW_N(ctx, range, a->n);
    for (int i = 0; i < ROUNDS && try_next(ctx, a, first, ranges); i++) continue;
    for (uint32_t i = 0; i < a->n; i++) a->with_batches |= a->growth[i].batch != 0;
}
