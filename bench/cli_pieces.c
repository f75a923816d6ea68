/* pieces -- what held memory looks like after some commands of a placement. */
#include <stdlib.h>

#include "commands.h"

typedef struct stretch {
    uint64_t offset, bytes;
} stretch;

typedef MR_VEC(stretch) stretches;

typedef struct state {
    mr_ctx *ctx;
    const mr_placement *placement;
    stretches
        *held; /* by segment: ascending stretches with memory behind them, no two touching */
    mr_block *where; /* by storage */
    uint8_t *life;   /* by storage */
} state;

enum { ABSENT, LIVE, PENDING };

static void hold(state *s, const mr_block *b)
{
    stretches *list = &s->held[b->segment];
    uint64_t begin = b->offset, end = b->offset + b->bytes;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const stretch old = list->at[i];
        if (old.offset + old.bytes < begin || old.offset > end) {
            list->at[kept++] = old;
            continue;
        }
        if (old.offset < begin) begin = old.offset;
        if (old.offset + old.bytes > end) end = old.offset + old.bytes;
    }
    list->n = kept;
    MR_PUSH(s->ctx, list, (stretch){begin, end - begin});
    for (uint32_t i = list->n - 1; i > 0 && list->at[i].offset < list->at[i - 1].offset; i--) {
        const stretch swap = list->at[i];
        list->at[i] = list->at[i - 1];
        list->at[i - 1] = swap;
    }
}

static void let_go(state *s, const mr_block *b)
{
    stretches left = {0};
    const stretches *list = &s->held[b->segment];
    const uint64_t begin = b->offset, end = b->offset + b->bytes;
    for (uint32_t i = 0; i < list->n; i++) {
        const stretch old = list->at[i];
        const uint64_t old_end = old.offset + old.bytes;
        if (old_end <= begin || old.offset >= end) {
            MR_PUSH(s->ctx, &left, old);
            continue;
        }
        if (old.offset < begin)
            MR_PUSH(s->ctx, &left, (stretch){old.offset, begin - old.offset});
        if (old_end > end) MR_PUSH(s->ctx, &left, (stretch){end, old_end - end});
    }
    s->held[b->segment].at = left.at;
    s->held[b->segment].n = left.n;
    s->held[b->segment].cap = left.cap;
}

static void apply(state *s, const mr_cmd *cmd)
{
    const uint32_t segment = cmd->block.segment;
    const bool plain = segment != MR_NONE && !s->placement->segments.at[segment].expandable;
    switch (cmd->kind) {
    case MR_RESERVE:
        if (plain) hold(s, &cmd->block);
        break;
    case MR_RELEASE: s->held[segment].n = 0; break;
    case MR_MAP: hold(s, &cmd->block); break;
    case MR_UNMAP: let_go(s, &cmd->block); break;
    case MR_BIND:
        s->where[cmd->id] = cmd->block;
        s->life[cmd->id] = LIVE;
        break;
    case MR_DEFER: s->life[cmd->id] = PENDING; break;
    case MR_UNBIND: s->life[cmd->id] = ABSENT; break;
    case MR_EXEC:
    case MR_REFUSE: break;
    }
}

static int by_place(const void *a, const void *b)
{
    const mr_piece *x = a, *y = b;
    if (x->segment != y->segment) return x->segment < y->segment ? -1 : 1;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static void used_pieces(state *s, mr_pieces *out)
{
    const uint32_t storages = s->placement->schedule->trace->storages.n;
    for (uint32_t i = 0; i < storages; i++) {
        const mr_block *b = &s->where[i];
        if (s->life[i] == ABSENT || b->segment == MR_NONE || !b->bytes) continue;
        MR_PUSH(s->ctx, out,
                (mr_piece){b->segment, i, b->offset, b->bytes, s->life[i] == PENDING});
    }
    if (out->n) qsort(out->at, out->n, sizeof *out->at, by_place);
}

static void add_free(state *s, uint32_t segment, uint64_t from, uint64_t to, mr_pieces *out)
{
    if (from < to) MR_PUSH(s->ctx, out, (mr_piece){segment, MR_NONE, from, to - from, false});
}

void mr_pieces_after(mr_ctx *ctx, const mr_placement *placement, uint32_t commands,
                     mr_pieces *out)
{
    const uint32_t storages = placement->schedule->trace->storages.n;
    state s = {ctx, placement, MR_NEW_N(ctx, stretches, placement->segments.n),
               MR_NEW_N(ctx, mr_block, storages), MR_NEW_N(ctx, uint8_t, storages)};
    for (uint32_t i = 0; i < commands; i++) apply(&s, &placement->cmds.at[i]);
    mr_pieces used = {0};
    used_pieces(&s, &used);
    *out = (mr_pieces){0};
    uint32_t u = 0;
    for (uint32_t segment = 0; segment < placement->segments.n; segment++) {
        for (uint32_t i = 0; i < s.held[segment].n; i++) {
            const stretch *held = &s.held[segment].at[i];
            uint64_t at = held->offset;
            const uint64_t end = held->offset + held->bytes;
            for (; u < used.n && used.at[u].segment == segment && used.at[u].offset < end;
                 u++) {
                add_free(&s, segment, at, used.at[u].offset, out);
                MR_PUSH(ctx, out, used.at[u]);
                at = used.at[u].offset + used.at[u].bytes;
            }
            add_free(&s, segment, at, end, out);
        }
    }
}
