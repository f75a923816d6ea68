/* dtr_class -- classes of storages that were evicted next to each other, in a forest.
 *
 * A storage that comes back takes its time out of its class, but classes never split: that
 * is the approximation.
 */
#include "dtr_internal.h"

static uint32_t new_node(dtr_run *run, int64_t ns)
{
    MR_PUSH(run->ctx, &run->nodes, (dtr_node){.parent = MR_NONE, .ns = ns});
    return run->nodes.n - 1;
}

static uint32_t root_of(dtr_run *run, uint32_t node)
{
    dtr_node *nodes = run->nodes.at;
    uint32_t root = node;
    while (nodes[root].parent != MR_NONE) root = nodes[root].parent;
    while (nodes[node].parent != MR_NONE) {
        const uint32_t up = nodes[node].parent;
        nodes[node].parent = root;
        node = up;
    }
    return root;
}

void dtr_classes_create(dtr_run *run, uint32_t storage)
{
    run->states[storage].node = new_node(run, 0);
}

/* A storage that has not been computed yet counts as evicted. */
static bool is_evicted(const dtr_run *run, uint32_t storage)
{
    return !run->states[storage].present && !run->states[storage].hosted;
}

static void join(dtr_run *run, uint32_t storage, uint32_t neighbour)
{
    if (!is_evicted(run, neighbour)) return;
    const uint32_t from = root_of(run, run->states[neighbour].node);
    const uint32_t to = root_of(run, run->states[storage].node);
    if (from == to) return;
    run->nodes.at[from].parent = to;
    run->nodes.at[to].ns += run->nodes.at[from].ns;
}

void dtr_classes_evict(dtr_run *run, uint32_t storage)
{
    dtr_state *state = &run->states[storage];
    const dtr_storage *s = &run->program->storages.at[storage];
    state->node = new_node(run, (int64_t)state->ns);
    for (uint32_t i = 0; i < state->parents_n; i++) join(run, storage, s->parents.at[i]);
    for (uint32_t i = 0; i < state->children_n; i++) join(run, storage, s->children.at[i]);
}

void dtr_classes_compute(dtr_run *run)
{
    for (uint32_t i = 0; i < run->fresh.n; i++) {
        dtr_state *state = &run->states[run->fresh.at[i]];
        if (state->node == MR_NONE) continue; /* it was on the host */
        run->nodes.at[root_of(run, state->node)].ns -= (int64_t)state->ns;
        state->node = MR_NONE;
    }
}

static int64_t count(dtr_run *run, uint32_t neighbour)
{
    run->report->accesses++;
    if (!is_evicted(run, neighbour)) return 0;
    dtr_node *root = &run->nodes.at[root_of(run, run->states[neighbour].node)];
    if (root->seen == run->count) return 0;
    root->seen = run->count;
    return root->ns;
}

int64_t dtr_classes_around(dtr_run *run, uint32_t storage)
{
    const dtr_state *state = &run->states[storage];
    const dtr_storage *s = &run->program->storages.at[storage];
    int64_t ns = 0;
    run->count++;
    for (uint32_t i = 0; i < state->parents_n; i++) ns += count(run, s->parents.at[i]);
    for (uint32_t i = 0; i < state->children_n; i++) ns += count(run, s->children.at[i]);
    return ns;
}
