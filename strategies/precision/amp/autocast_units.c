/* autocast_units -- calls that autocast casts the arguments of. */
#include "autocast.h"

#include <string.h>

static const mr_op *op_at(const autocast *a, uint32_t e)
{
    const mr_event *event = &a->r.in->events.at[e];
    return event->kind == MR_RUN ? &a->r.in->ops.at[event->id] : NULL;
}

/* From the first op before it that only shapes its arguments; drops may stand between. */
static uint32_t first_of(const autocast *a, uint32_t event)
{
    const mr_op *op = op_at(a, event);
    uint32_t first = event;
    for (uint32_t e = event; e-- > 0;) {
        const mr_op *other = op_at(a, e);
        if (!other && a->r.in->events.at[e].kind == MR_MARK) break;
        if (!other) continue;
        if (other->phase != MR_FORWARD || !autocast_is_shaping(other->name, op->name)) break;
        if (strcmp(other->module, op->module) != 0 || other->call != op->call) break;
        if (a->unit_of[a->r.in->events.at[e].id] != MR_NONE) break;
        first = e;
    }
    return first;
}

static bool is_unit(const autocast *a, const mr_op *op)
{
    const autocast_class c = autocast_class_of(op->name);
    return c == AUTOCAST_LOW || c == AUTOCAST_FULL || c == AUTOCAST_PROMOTE
           || (c == AUTOCAST_DIRECT && !a->half);
}

bool autocast_is_of_cross_entropy(const autocast *a, uint32_t event)
{
    const mr_op *op = op_at(a, event);
    if (!strstr(op->name, "_log_softmax")) return false;
    for (uint32_t e = event + 1; e < a->r.in->events.n; e++)
        if (op_at(a, e)) return strstr(op_at(a, e)->name, "nll_loss") != NULL;
    return false;
}

void autocast_find_units(autocast *a)
{
    const mr_trace *in = a->r.in;
    for (uint32_t e = 0; e < in->events.n; e++) {
        const mr_op *op = op_at(a, e);
        if (!op) continue;
        const uint32_t o = in->events.at[e].id;
        for (uint32_t i = 0; i < op->in.n; i++)
            a->reader[in->tensors.at[op->in.at[i]].storage] = o;
        if (op->phase == MR_FORWARD && is_unit(a, op) && !autocast_is_of_cross_entropy(a, e)) {
            const bool low = autocast_class_of(op->name) == AUTOCAST_LOW;
            const autocast_unit unit = {.first = low ? first_of(a, e) : e,
                                        .last = e,
                                        .op = o,
                                        .low = low,
                                        .back = MR_NONE};
            for (uint32_t f = unit.first; f <= e; f++)
                if (op_at(a, f)) a->unit_of[in->events.at[f].id] = a->units.n;
            MR_PUSH(a->r.ctx, &a->units, unit);
        }
        if (op->phase != MR_BACKWARD || op->of == MR_NONE || a->unit_of[op->of] == MR_NONE)
            continue;
        a->unit_of[o] = a->unit_of[op->of];
        a->units.at[a->unit_of[o]].back = e;
    }
}
