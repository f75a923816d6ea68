/* chain_plan -- sizes and times of a chain, and the plans that follow from a set of kept
 * inputs. */
#include "chain.h"

#include <string.h>

uint64_t chain_size(const chain_problem *chain, uint32_t i)
{
    return i ? chain->stages[i - 1].out : chain->in;
}

uint64_t chain_back(const chain_problem *chain, uint32_t i)
{
    return chain->back ? chain->back[i] : chain_size(chain, i);
}

uint64_t chain_base_time(const chain_problem *chain)
{
    uint64_t time = 0;
    for (uint32_t i = 0; i < chain->n; i++) {
        const chain_option *first = chain->stages[i].options;
        time += first->forward_time + first->backward_time;
    }
    return time;
}

static void push(mr_ctx *ctx, chain_actions *plan, chain_kind kind, uint32_t stage)
{
    MR_PUSH(ctx, plan, (chain_action){kind, stage, 0});
}

static void save_and_return(mr_ctx *ctx, uint32_t from, uint32_t to, chain_actions *plan)
{
    for (uint32_t i = from; i < to; i++) push(ctx, plan, CHAIN_SAVE, i);
    for (uint32_t i = to; i-- > from;) push(ctx, plan, CHAIN_BACKWARD, i);
}

void chain_all(mr_ctx *ctx, const chain_problem *chain, chain_actions *plan)
{
    save_and_return(ctx, 0, chain->n, plan);
}

void chain_segments(mr_ctx *ctx, const chain_problem *chain, const bool *kept,
                    chain_actions *plan)
{
    if (!chain->n) return;
    uint32_t last = chain->n - 1;
    while (last && !kept[last]) last--;
    for (uint32_t i = 0; i < last; i++)
        push(ctx, plan, !i || kept[i] ? CHAIN_KEEP : CHAIN_FORWARD, i);
    for (uint32_t to = chain->n, from = last;; to = from, from--) {
        while (from && !kept[from]) from--;
        save_and_return(ctx, from, to, plan);
        if (!from) break;
    }
}

uint32_t *chain_calls(mr_ctx *ctx, uint32_t n, const chain_actions *plan)
{
    uint32_t *end = MR_NEW_N(ctx, uint32_t, n), next = n;
    for (uint32_t i = plan->n; i-- > 0;) {
        const chain_action *a = &plan->at[i];
        if (a->stage >= n) continue;
        if (a->kind == CHAIN_KEEP && next > end[a->stage]) end[a->stage] = next;
        if (a->kind != CHAIN_FORWARD) next = a->stage;
    }
    return end;
}

const char *chain_print(mr_ctx *ctx, const chain_actions *plan)
{
    enum { LONGEST = sizeof "f4294967295 " };
    char *text = mr_alloc_n(ctx, (size_t)plan->n + 1, LONGEST), *at = text;
    for (uint32_t i = 0; i < plan->n; i++) {
        const chain_action *a = &plan->at[i];
        const char *word = mr_printf(ctx, "%s%c%u", i ? " " : "", "fksb"[a->kind], a -> stage);
        const size_t n = strlen(word);
        memcpy(at, word, n);
        at += n;
    }
    return text;
}
