/* offload -- keeps what is saved for the backward pass in memory of the host.
 *
 *     all, conv      what goes is chosen by kind, when it comes back by count (vDNN)
 *     interval       what can be away and back between its two uses goes (Capuchin)
 *     save_on_cpu    hooks copy each saved tensor, in line with what computes (PyTorch)
 *
 * The first three copy memory once, whoever has saved it, beside what computes; see
 * offload/swap.c.  The last one copies tensors as often as they are saved, and parameters
 * too; see offload/pack.c.
 *
 * Rhu et al., "vDNN: Virtualized Deep Neural Networks", 2016; Peng et al., "Capuchin:
 * Tensor-based GPU Memory Management for Deep Learning", 2020.
 */
#include "strategy.h"

#include "pack.h"
#include "swap.h"

typedef struct settings {
    uint64_t policy, min_bytes, keep_last, stash, prefetch, link;
    bool pin_memory;
} settings;

enum { ALL, CONV, INTERVAL, SAVE_ON_CPU };

static const mr_param params_table[] = {
    MR_PARAM_CHOICE(settings, policy, "all|conv|interval|save_on_cpu", "all",
                    "what goes: all that is saved, but no parameters; inputs of convolutions;"
                    " what can be back in time; or all as torch.autograd.graph.save_on_cpu"
                    " does it"),
    MR_PARAM_SIZE(settings, min_bytes, "0", 0, 1e15, "what is smaller stays"),
    MR_PARAM_INT(settings, keep_last, "0", 0, 1000000,
                 "so many of the last ones stay, which would be asked for at once"),
    MR_PARAM_INT(settings, stash, "5", 1, 1000000,
                 "so many may be on their way to the host before computing waits"),
    MR_PARAM_INT(settings, prefetch, "1", 0, 1000000,
                 "so many uses ahead of its own one begins to come back; 0: when it is used"),
    MR_PARAM_SIZE(settings, link, "25GB", 1, 1e15,
                  "bytes per second over the host link, by which policy=interval plans; ops take"
                  " what was recorded, or what an A100 would"),
    MR_PARAM_BOOL(settings, pin_memory, "False",
                  "of save_on_cpu: memory of the host is pinned; always so otherwise"),
    {0},
};

static mr_status validate(mr_ctx *ctx, const void *of)
{
    const settings *s = of;
    if (s->policy != SAVE_ON_CPU && s->pin_memory)
        return mr_fail(ctx, MR_EUSAGE,
                       "pin_memory is of policy=save_on_cpu: the others always"
                       " copy to pinned memory");
    if (s->policy == SAVE_ON_CPU && s->keep_last)
        return mr_fail(ctx, MR_EUSAGE,
                       "save_on_cpu copies what is saved last, too: expected"
                       " keep_last with another policy");
    return MR_OK;
}

static mr_status rewrite(mr_ctx *ctx, const void *of, const mr_trace *in, mr_trace *out)
{
    const settings *s = of;
    const pack_choice packing = {s->pin_memory, s->min_bytes};
    const swap_choice swapping = {.policy = (swap_policy)s->policy,
                                  .least = s->min_bytes,
                                  .keep_last = s->keep_last,
                                  .stash = s->stash,
                                  .prefetch = s->prefetch,
                                  .link = s->link};
    return s->policy == SAVE_ON_CPU ? pack_rewrite(ctx, in, &packing, out)
                                    : swap_rewrite(ctx, in, &swapping, out);
}

const mr_strategy mr_strategy_offload = {
    .name = "offload",
    .summary = "keeps what is saved for the backward pass on the host, copied there and back",
    .source = "PyTorch's save_on_cpu; vDNN, Rhu et al. 2016; Capuchin, Peng et al. 2020",
    .how =
        "with torch.autograd.graph.save_on_cpu(pin_memory=True): around the forward pass, "
        "which is policy=save_on_cpu; other policies take "
        "torch.autograd.graph.saved_tensors_hooks of your own",
    .params = params_table,
    .params_size = sizeof(settings),
    .validate = validate,
    .needs = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS,
    .rewrite = rewrite,
};
