/* notes -- what stands below the table of compare: what columns mean and how good it all is.
 *
 * They speak of the rows that came to a result, and of nothing where none did.
 */
#include <inttypes.h>
#include <string.h>

#include "compare.h"
#include "how.h"
#include "strategies.h"
#include "twins.h"

static bool is_modelled(const mr_trace *trace)
{
    return trace->ops.n && !(trace->has & MR_HAS_TIMES);
}

static void put_columns(const mr_comparison *c, const mr_shown_metrics *shown, mr_sink *sink)
{
    for (uint32_t i = 0; i < shown->n; i++) {
        const mr_metric *m = shown->at[i];
        const bool unknown = c->scene->is_part && m->offset == offsetof(mr_metrics, throughput);
        mr_sink_print(sink, "%-15s %s\n", m->name,
                      unknown ? "not told of a part of a recording (--from, --to): how many "
                                "samples it takes in is not known"
                              : m->help);
    }
    if (c->fit)
        mr_sink_print(sink, "%-15s smallest memory for the process on which it passes\n",
                      "fits in");
}

/* A prediction says how good it is: peaks as far as the program can tell its own error. */
static void put_twins(mr_ctx *ctx, const mr_comparison *c, mr_sink *sink)
{
    mr_twins_list list = {0};
    for (uint32_t i = 0; i < c->specs * c->scene->cuda_device_count; i++) {
        if (!mr_cell_passed(&c->cells[i])) continue;
        if (mr_twins_add(ctx, c->cells[i].spec, &list) != MR_OK) return;
    }
    for (uint32_t i = 0; i < list.n; i++)
        mr_sink_print(sink, "%s.\n", mr_twins_text(ctx, &list.at[i]));
}

/* Likewise of times. */
static void put_error(mr_ctx *ctx, const mr_scene *scene, mr_sink *sink)
{
    const mr_checked checked = mr_times_checked(ctx, scene->device.name);
    if (!scene->trace.ops.n) return;
    mr_sink_print(sink, "Times are ");
    if (!is_modelled(&scene->trace))
        mr_sink_print(sink, "made of what the recording measured; what a rewrite adds is "
                            "modelled.\n");
    else if (!checked.n) mr_sink_print(sink, "modelled, unchecked on this device.\n");
    else
        mr_sink_print(sink,
                      "modelled; time checked on %s on this device: median %.0f %%, worst %+.0f"
                      " %%.\n",
                      mr_show_count(ctx, checked.n, "step", "steps"), checked.median,
                      checked.worst);
}

static void put_release(mr_ctx *ctx, const mr_comparison *c, mr_sink *sink)
{
    const char *note = NULL;
    for (uint32_t i = 0; !note && i < c->specs; i++)
        note = mr_scene_release_note(ctx, &c->scene->trace, c->cells[i].spec);
    if (note) mr_sink_print(sink, "%s\n", note);
}

typedef bool question(const mr_cell *cell);

static bool was_computed(const mr_cell *cell)
{
    return cell->failure.status == MR_OK;
}

static bool any(const mr_comparison *c, question *is)
{
    for (uint32_t i = 0; i < c->specs * c->scene->cuda_device_count; i++)
        if (is(&c->cells[i])) return true;
    return false;
}

/* ---- what follows ------------------------------------------------------------------------ */

/* What nobody would train with, or nobody can. */
static bool is_reference(const mr_strategy *place)
{
    for (size_t i = 0; mr_strategies[i]; i++)
        if (mr_strategies[i] == place)
            return place->clairvoyant || strcmp(mr_strategy_families[i], "reference") == 0;
    return false;
}

/* The row that fits and reserves least; NULL for none. */
static const mr_cell *least(const mr_comparison *c, uint32_t device)
{
    const mr_cell *found = NULL;
    for (uint32_t i = 0; i < c->specs; i++) {
        const mr_cell *cell = &c->cells[device * c->specs + i];
        if (!mr_cell_passed(cell) || is_reference(cell->spec->place.strategy)) continue;
        if (!found || cell->metrics.peak_reserved < found->metrics.peak_reserved) found = cell;
    }
    return found;
}

static void put_verdict_of(mr_ctx *ctx, const mr_comparison *c, uint32_t device, mr_sink *sink)
{
    const mr_scene *scene = c->scene;
    const mr_cell *first = &c->cells[device * c->specs], *best = least(c, device);
    const char *of = scene->cuda_device_count < 2
                         ? ""
                         : mr_printf(ctx, "device %" PRIu32 ": ", scene->cuda_devices[device]);
    if (first->failure.status || is_reference(first->spec->place.strategy)) return;
    mr_sink_print(sink, "%s%s ", of, first->spec->text);
    if (mr_cell_passed(first))
        mr_sink_print(sink, "fits, with %s to spare.\n",
                      mr_show_bytes(ctx, scene->capacity - first->metrics.peak_reserved));
    else if (best)
        mr_sink_print(sink, "runs out of memory; %s fits and reserves least.\n",
                      best->spec->text);
    else
        mr_sink_print(sink,
                      "runs out of memory, and no row above is a way out; memreuse advise "
                      "tries more.\n");
}

static void put_verdict(mr_ctx *ctx, const mr_comparison *c, mr_sink *sink)
{
    if (c->scene->capacity == UINT64_MAX) return;
    mr_sink_print(sink, "\n");
    for (uint32_t d = 0; d < c->scene->cuda_device_count; d++) put_verdict_of(ctx, c, d, sink);
}

/* What a person does who likes a row. */
static void put_hows(mr_ctx *ctx, const mr_comparison *c, mr_sink *sink)
{
    mr_hows list = {0};
    for (uint32_t i = 0; i < c->specs * c->scene->cuda_device_count; i++)
        if (mr_cell_passed(&c->cells[i])) mr_hows_add(ctx, c->cells[i].spec, &list);
    if (!list.names.n) return;
    mr_sink_print(sink, "\nTo have it in PyTorch\n");
    mr_hows_put(ctx, &list, sink);
}

void mr_report_times(mr_ctx *ctx, const mr_comparison *c, mr_sink *sink)
{
    if (any(c, mr_cell_passed)) put_error(ctx, c->scene, sink);
    if (any(c, was_computed) && c->scene->device_assumed)
        mr_sink_print(sink,
                      "The context and the cost of device calls%s are those of %s; --device "
                      "chooses another.\n",
                      is_modelled(&c->scene->trace) ? " and ops" : "", c->scene->device.name);
}

void mr_report_notes(mr_ctx *ctx, const mr_comparison *c, const mr_shown_metrics *shown,
                     mr_sink *sink)
{
    put_columns(c, shown, sink);
    put_release(ctx, c, sink);
    put_twins(ctx, c, sink);
    mr_report_times(ctx, c, sink);
    put_verdict(ctx, c, sink);
    put_hows(ctx, c, sink);
}
