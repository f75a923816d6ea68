/* steps.h -- training steps of chains, made from a list of ops; shared by tests of rewrites.
 *
 *     input ─► linear ─► op 0 ─► op 1 ─► ... ─► sum          and back
 *
 * All activations have the same size.  The program drops a tensor when the next op has run.
 */
#ifndef STEPS_H
#define STEPS_H

#include "evaluate.h"
#include "strategies.h"
#include "test.h"

typedef struct step_op {
    const char *name, *backward; /* no backward op: the gradient is handed on */
    bool saves_input, saves_output;
    bool random;
} step_op;

#define STEP_BYTES ((uint64_t)4096)

static inline uint32_t step_tensor(mr_ctx *ctx, mr_trace *t, uint64_t bytes, mr_role role)
{
    static const uint64_t shape[] = {STEP_BYTES / 4};
    const bool before = role == MR_ROLE_parameter || role == MR_ROLE_input;
    MR_PUSH(ctx, &t->storages,
            (mr_storage){.bytes = bytes, .stack = MR_NONE, .role = (uint8_t)role,
                         .before = before, .after = before || role == MR_ROLE_gradient});
    MR_PUSH(ctx, &t->tensors,
            (mr_tensor){.name = "", .dtype = "float32", .storage = t->storages.n - 1,
                        .rank = bytes == STEP_BYTES, .shape = shape, .bytes = bytes,
                        .role = (uint8_t)role});
    return t->tensors.n - 1;
}

static inline mr_ids step_ids(mr_ctx *ctx, uint32_t a, uint32_t b)
{
    const uint32_t at[] = {a, b};
    return mr_ids_of(ctx, b == MR_NONE ? 1 : 2, at);
}

/* An op that reads a and b (MR_NONE: only a) and makes `out`. */
static inline uint32_t step_run(mr_ctx *ctx, mr_trace *t, const char *name, mr_phase phase,
                                uint32_t of, uint32_t a, uint32_t b, uint32_t out)
{
    MR_PUSH(ctx, &t->ops,
            (mr_op){.name = name, .module = "", .phase = phase, .again = MR_NONE, .of = of,
                    .flops = 1, .in = step_ids(ctx, a, b), .out = step_ids(ctx, out, MR_NONE)});
    MR_PUSH(ctx, &t->events, (mr_event){MR_RUN, t->ops.n - 1});
    return t->ops.n - 1;
}

static inline void step_save(mr_ctx *ctx, mr_trace *t, uint32_t op, uint32_t tensor,
                             mr_saved_as as)
{
    mr_saved *at = MR_NEW_N(ctx, mr_saved, t->ops.at[op].saved.n + 1);
    for (uint32_t i = 0; i < t->ops.at[op].saved.n; i++) at[i] = t->ops.at[op].saved.at[i];
    at[t->ops.at[op].saved.n++] = (mr_saved){tensor, as};
    t->ops.at[op].saved.at = at;
}

static inline void step_drop(mr_ctx *ctx, mr_trace *t, uint32_t tensor)
{
    MR_PUSH(ctx, &t->events, (mr_event){MR_DROP, tensor});
}

/* Ops are numbered: linear 0, list 1 to n, sum n + 1, then the backward pass. */
static inline mr_trace step_of(mr_ctx *ctx, const step_op *list, uint32_t n)
{
    mr_trace t;
    mr_trace_init(ctx, &t, "step");
    t.has = MR_HAS_DATAFLOW | MR_HAS_PHASES | MR_HAS_SAVED | MR_HAS_DROPS;
    const uint32_t weight = step_tensor(ctx, &t, 64, MR_ROLE_parameter);
    const uint32_t input = step_tensor(ctx, &t, STEP_BYTES, MR_ROLE_input);
    uint32_t *x = MR_NEW_N(ctx, uint32_t, n + 2);
    x[0] = step_tensor(ctx, &t, STEP_BYTES, MR_ROLE_activation);
    const uint32_t linear =
        step_run(ctx, &t, "aten::mm", MR_FORWARD, MR_NONE, input, weight, x[0]);
    step_save(ctx, &t, linear, input, MR_SAVED_INPUT);
    for (uint32_t i = 0; i < n; i++) {
        x[i + 1] = step_tensor(ctx, &t, STEP_BYTES, MR_ROLE_activation);
        const uint32_t o =
            step_run(ctx, &t, list[i].name, MR_FORWARD, MR_NONE, x[i], MR_NONE, x[i + 1]);
        t.ops.at[o].random = list[i].random;
        if (list[i].saves_input) step_save(ctx, &t, o, x[i], MR_SAVED_INPUT);
        if (list[i].saves_output) step_save(ctx, &t, o, x[i + 1], MR_SAVED_OUTPUT);
        step_drop(ctx, &t, x[i]);
    }
    const uint32_t loss = step_tensor(ctx, &t, 4, MR_ROLE_temporary);
    const uint32_t sum =
        step_run(ctx, &t, "aten::sum", MR_FORWARD, MR_NONE, x[n], MR_NONE, loss);
    step_drop(ctx, &t, x[n]);
    uint32_t g = step_tensor(ctx, &t, STEP_BYTES, MR_ROLE_temporary);
    step_run(ctx, &t, "aten::expand_copy", MR_BACKWARD, sum, loss, MR_NONE, g);
    step_drop(ctx, &t, loss);
    for (uint32_t i = n; i-- > 0;) {
        if (!list[i].backward) continue;
        const uint32_t made = step_tensor(ctx, &t, STEP_BYTES, MR_ROLE_temporary);
        const uint32_t needs = list[i].saves_output  ? x[i + 1]
                               : list[i].saves_input ? x[i]
                                                     : MR_NONE;
        step_run(ctx, &t, list[i].backward, MR_BACKWARD, linear + 1 + i, g, needs, made);
        g = made;
    }
    const uint32_t gradient = step_tensor(ctx, &t, 64, MR_ROLE_gradient);
    step_run(ctx, &t, "aten::mm", MR_BACKWARD, linear, input, g, gradient);
    return t;
}

/* Rewritten, scheduled and placed by `bound`; the referees look on. */
static inline mr_status step_evaluate(mr_ctx *ctx, const mr_trace *trace, const char *text,
                                      mr_answer *answer)
{
    static const mr_device device = {.name = "test", .memory = 1024 * MR_GIB, .granularity = 1};
    mr_spec *spec = MR_NEW(ctx, mr_spec);
    MR_TRY(mr_spec_parse(ctx, mr_strategies, mr_printf(ctx, "%s/bound", text), spec));
    const mr_question question = {.trace = trace, .spec = spec, .device = &device,
                                  .capacity = UINT64_MAX, .iterations = 1};
    return mr_evaluate(ctx, &question, answer);
}

#endif
