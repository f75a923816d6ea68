/* plan_rules -- what other planners do, as published; each row of the table names its source.
 *
 * Zero bytes are nowhere to be placed and aliases are one buffer already, so what the originals
 * do about these is left out.  Where an original breaks ties by names, the number of a buffer
 * is taken.
 */
#include "plan_internal.h"

#include <stdlib.h>

/* ---- orders -------------------------------------------------------------------------- */

plan_key *plan_keys(mr_ctx *ctx, const plan_problem *problem)
{
    plan_key *keys = MR_NEW_N(ctx, plan_key, problem->buffers.n);
    for (uint32_t i = 0; i < problem->buffers.n; i++) keys[i].buffer = i;
    return keys;
}

static int by_key(const void *left, const void *right)
{
    const plan_key *a = left, *b = right;
    if (a->first != b->first) return a->first > b->first ? -1 : 1;
    if (a->second != b->second) return a->second > b->second ? -1 : 1;
    return (a->buffer > b->buffer) - (a->buffer < b->buffer);
}

const uint32_t *plan_sort(mr_ctx *ctx, plan_key *keys, uint32_t n)
{
    uint32_t *order = MR_NEW_N(ctx, uint32_t, n);
    qsort(keys, n, sizeof *keys, by_key);
    for (uint32_t i = 0; i < n; i++) order[i] = keys[i].buffer;
    return order;
}

/* What a buffer of a problem is sorted by. */
typedef uint64_t (*measure)(const plan_buffer *buffer);

static uint64_t bytes_of(const plan_buffer *b)
{
    return b->bytes;
}

static uint64_t life_of(const plan_buffer *b)
{
    return b->upper - b->lower;
}

static uint64_t earliness_of(const plan_buffer *b)
{
    return UINT64_MAX - b->lower;
}

static void place_by(mr_ctx *ctx, const plan_problem *problem, measure first, measure second,
                     plan_fit fit, plan_layout *out)
{
    plan_key *keys = plan_keys(ctx, problem);
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        keys[i].first = first(&problem->buffers.at[i]);
        keys[i].second = second(&problem->buffers.at[i]);
    }
    plan_place_in_order(ctx, problem, plan_sort(ctx, keys, problem->buffers.n), fit, out);
}

/* ---- TensorFlow Lite ----------------------------------------------------------------- */

/* What lives through the whole step comes first, then the largest. */
static void plan_rule_tflite(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    plan_key *keys = plan_keys(ctx, problem);
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        const plan_buffer *b = &problem->buffers.at[i];
        const plan_piece *first = &problem->pieces.at[b->piece];
        const bool always = b->pieces && !first->from && first->to == problem->sections;
        keys[i].first = always ? UINT64_MAX : b->bytes;
        keys[i].second = always ? 0 : UINT64_MAX - b->lower;
    }
    plan_place_in_order(ctx, problem, plan_sort(ctx, keys, problem->buffers.n),
                        PLAN_BEST_TFLITE, out);
}

/* ---- XLA ----------------------------------------------------------------------------- */

static void plan_rule_xla_spatial(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    place_by(ctx, problem, bytes_of, life_of, PLAN_BEST, out);
}

static void plan_rule_xla_temporal(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    place_by(ctx, problem, life_of, bytes_of, PLAN_BEST, out);
}

/* ---- TVM ----------------------------------------------------------------------------- */

/* Number of others in use at some moment of its life: those that begin before it ends, without
 * those that ended before it began. */
static uint32_t *count_conflicts(mr_ctx *ctx, const plan_problem *problem)
{
    const uint32_t n = problem->buffers.n, sections = problem->sections;
    uint32_t *begun = MR_NEW_N(ctx, uint32_t, sections + 1);
    uint32_t *ended = MR_NEW_N(ctx, uint32_t, sections + 1);
    uint32_t *count = MR_NEW_N(ctx, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) {
        const plan_buffer *b = &problem->buffers.at[i];
        if (!b->pieces) continue;
        begun[problem->pieces.at[b->piece].from + 1]++;
        ended[problem->pieces.at[b->piece + b->pieces - 1].to]++;
    }
    for (uint32_t s = 1; s <= sections; s++) {
        begun[s] += begun[s - 1];
        ended[s] += ended[s - 1];
    }
    for (uint32_t i = 0; i < n; i++) {
        const plan_buffer *b = &problem->buffers.at[i];
        if (!b->pieces) continue;
        const uint32_t from = problem->pieces.at[b->piece].from;
        count[i] = begun[problem->pieces.at[b->piece + b->pieces - 1].to] - ended[from] - 1;
    }
    return count;
}

static const uint32_t *order_by(mr_ctx *ctx, const plan_problem *problem, bool conflicts_first)
{
    const uint32_t *conflicts = count_conflicts(ctx, problem);
    plan_key *keys = plan_keys(ctx, problem);
    for (uint32_t i = 0; i < problem->buffers.n; i++) {
        const uint64_t bytes = problem->buffers.at[i].bytes;
        keys[i].first = conflicts_first ? conflicts[i] : bytes;
        keys[i].second = conflicts_first ? bytes : conflicts[i];
    }
    return plan_sort(ctx, keys, problem->buffers.n);
}

const uint32_t *plan_order_by_size(mr_ctx *ctx, const plan_problem *problem)
{
    return order_by(ctx, problem, false);
}

static void tvm(mr_ctx *ctx, const plan_problem *problem, bool conflicts_first,
                plan_layout *out)
{
    plan_place_in_order(ctx, problem, order_by(ctx, problem, conflicts_first), PLAN_ABOVE, out);
}

static void plan_rule_tvm_size(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    tvm(ctx, problem, false, out);
}

static void plan_rule_tvm_conflicts(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    tvm(ctx, problem, true, out);
}

/* ---- references ---------------------------------------------------------------------- */

static void plan_rule_first_fit(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    place_by(ctx, problem, earliness_of, bytes_of, PLAN_FIRST, out);
}

static void plan_rule_size_first_fit(mr_ctx *ctx, const plan_problem *problem, plan_layout *out)
{
    place_by(ctx, problem, bytes_of, life_of, PLAN_FIRST, out);
}

bool plan_rule_knows(const plan_rule *rule, const plan_problem *problem)
{
    return (problem->plain || !rule->plain_only)
           && (!rule->most || problem->buffers.n <= rule->most);
}

const plan_rule plan_rules[] = {
#define X(name, summary, source, plain_only, most)                                             \
    {#name, summary, source, plain_only, most, plan_rule_##name},
    PLAN_RULE_LIST(X)
#undef X
        {0},
};
