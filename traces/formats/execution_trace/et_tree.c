/* et_tree -- nodes call one another; those that do the work themselves become ops.
 *
 * An op that calls others which compute is done by them.  One that calls only what makes room,
 * fills it or looks at tensors does the work itself, and what it calls belongs to it.  And so
 * does one with a result that none of those made, and the innermost one that autograd gave a
 * number: what is below, autograd does not see.
 */
#include "et_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static int by_id(const void *left, const void *right)
{
    const et_node *a = left, *b = right;
    return (a->id > b->id) - (a->id < b->id);
}

static uint32_t find(const et_file *f, uint64_t id)
{
    uint32_t low = 0, high = f->nodes.n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (f->nodes.at[middle].id < id) low = middle + 1;
        else high = middle;
    }
    return low < f->nodes.n && f->nodes.at[low].id == id ? low : MR_NONE;
}

/* The outermost node is its own parent. */
static mr_status link_up(et_file *f)
{
    if (f->nodes.n) qsort(f->nodes.at, f->nodes.n, sizeof *f->nodes.at, by_id);
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        et_node *node = &f->nodes.at[i];
        if (i && node->id == node[-1].id)
            return mr_fail_at(f->ctx, MR_EINPUT, mr_source_name(f->items.source),
                              "node %" PRIu64 " is there twice, expected each once", node->id);
        if (node->parent > node->id)
            return mr_fail_at(f->ctx, MR_EINPUT, mr_source_name(f->items.source),
                              "node %" PRIu64 " has parent %" PRIu64 ", expected one that began"
                              " before it",
                              node->id, node->parent);
        if (node->parent < node->id) node->up = find(f, node->parent);
    }
    return MR_OK;
}

static bool is_one_of(const char *name, const char *const *names, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

static bool makes_room(const char *name)
{
    static const char *const names[] = {
        "aten::empty", "aten::empty_strided", "aten::empty_like", "aten::resize_",
        "aten::zeros", "aten::zeros_like",    "aten::ones_like",  "aten::full_like"};
    return is_one_of(name, names, MR_COUNT(names));
}

/* Part of making something, where another op calls it: aten::clone is such a copy. */
static bool only_fills(const char *name)
{
    static const char *const names[] = {"aten::copy_", "aten::fill_", "aten::zero_"};
    return is_one_of(name, names, MR_COUNT(names));
}

/* Views, and questions to tensors: no result that is new, and nothing changed. */
static bool only_looks(const et_file *f, const et_node *node)
{
    for (uint32_t i = 0; i < node->out.n; i++)
        if (!et_lies_on_known(node, i)) return false;
    for (uint32_t i = 0; i < node->in.n; i++)
        if (et_changes(f->names.all.at[node->schema].text, node->in.at[i].place)) return false;
    return true;
}

static bool has_schema(const et_file *f, const et_node *node)
{
    return *f->names.all.at[node->schema].text;
}

/* ---- who made a result ------------------------------------------------------------------- */

enum { HIGHEST = 64 }; /* calls inside one another */

static int by_storage(const void *left, const void *right)
{
    const et_ref *a = *(et_ref *const *)left, *b = *(et_ref *const *)right;
    if (a->storage != b->storage) return a->storage < b->storage ? -1 : 1;
    return (a > b) - (a < b);
}

/* By node: its results in the order of their storages. */
static et_ref ***sort_results(et_file *f)
{
    et_ref ***sorted = MR_NEW_N(f->ctx, et_ref **, f->nodes.n);
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        const et_refs out = f->nodes.at[i].out;
        sorted[i] = MR_NEW_N(f->ctx, et_ref *, out.n);
        for (uint32_t k = 0; k < out.n; k++) sorted[i][k] = &out.at[k];
        if (out.n) qsort(sorted[i], out.n, sizeof **sorted, by_storage);
    }
    return sorted;
}

static void mark_results(et_ref **sorted, uint32_t n, uint64_t storage)
{
    uint32_t low = 0, high = n;
    while (low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (sorted[middle]->storage < storage) low = middle + 1;
        else high = middle;
    }
    for (; low < n && sorted[low]->storage == storage && !sorted[low]->below; low++)
        sorted[low]->below = true;
}

static void find_results_from_below(et_file *f)
{
    et_ref ***sorted = sort_results(f);
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        const et_refs out = f->nodes.at[i].out;
        uint32_t up = f->nodes.at[i].up;
        for (int height = 0; up != MR_NONE && height < HIGHEST; height++) {
            for (uint32_t k = 0; k < out.n; k++)
                mark_results(sorted[up], f->nodes.at[up].out.n, out.at[k].storage);
            up = f->nodes.at[up].up;
        }
    }
}

/* An op may call others for a part of its work: what none of them made it made itself. */
static bool makes_itself(const et_node *node)
{
    for (uint32_t i = 0; i < node->out.n; i++)
        if (!node->out.at[i].below && !et_lies_on_known(node, i)) return true;
    return false;
}

/* ---- ops --------------------------------------------------------------------------------- */

/* Of views that call views the inner ones are those that PyTorch's dispatcher sees below
 * autograd; these are made of aten::as_strided. */
static bool is_inner_view(const et_file *f, const et_node *node)
{
    const char *name = et_name(f, node);
    return has_schema(f, node) && node->out.n && only_looks(f, node)
           && strcmp(name, "aten::as_strided") != 0 && strcmp(name, "aten::alias") != 0
           && strcmp(name, "aten::set_") != 0;
}

static void find_work(et_file *f)
{
    bool *numbered = MR_NEW_N(f->ctx, bool, f->nodes.n); /* it or one below */
    for (uint32_t i = f->nodes.n; i-- > 0;) {
        et_node *node = &f->nodes.at[i];
        et_node *up = node->up == MR_NONE ? NULL : &f->nodes.at[node->up];
        const char *name = et_name(f, node);
        const bool number = has_schema(f, node) && node->sequence != UINT64_MAX;
        node->whole = number && !numbered[i];
        if (has_schema(f, node) && node->works && makes_itself(node)) node->whole = true;
        node->fresh = makes_room(name);
        node->looks = only_looks(f, node);
        const bool itself =
            has_schema(f, node) && !node->fresh && !only_fills(name) && !node->looks;
        if (!up) continue;
        numbered[node->up] |= number || numbered[i];
        up->works |= itself || node->works || node->whole;
        if (is_inner_view(f, node) && is_inner_view(f, up)) up->works = true;
    }
}

static bool on_device(const et_node *node)
{
    const et_refs sides[] = {node->in, node->out};
    for (size_t s = 0; s < MR_COUNT(sides); s++)
        for (uint32_t i = 0; i < sides[s].n; i++)
            if (sides[s].at[i].device != MR_PAGEABLE) return true;
    return false;
}

static mr_phase phase_of(const char *name, mr_phase above)
{
    if (mr_begins(name, "autograd::engine::evaluate_function")) return MR_BACKWARD;
    if (mr_begins(name, "Optimizer.step")) return MR_UPDATE;
    if (mr_begins(name, "Optimizer.zero_grad")) return MR_OTHER;
    return above;
}

static void find_ops(et_file *f)
{
    bool *covered = MR_NEW_N(f->ctx, bool, f->nodes.n);
    for (uint32_t i = 0; i < f->nodes.n; i++) {
        et_node *node = &f->nodes.at[i];
        const et_node *up = node->up != MR_NONE ? &f->nodes.at[node->up] : NULL;
        const char *name = et_name(f, node);
        node->phase = phase_of(name, up ? up->phase : MR_FORWARD);
        node->step = mr_begins(name, "ProfilerStep#");
        covered[i] = up && (covered[node->up] || up->runs);
        node->runs = has_schema(f, node) && (node->whole || !node->works) && !covered[i]
                     && on_device(node);
    }
}

mr_status et_tree(et_file *f)
{
    MR_TRY(link_up(f));
    find_results_from_below(f);
    find_work(f);
    find_ops(f);
    return MR_OK;
}
