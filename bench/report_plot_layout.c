/* layout -- segments and blocks of a placement as rectangles in the picture of address space.
 */
#include "space.h"

typedef struct layout {
    mr_ctx *ctx;
    const mr_figure *figure;
    const mr_answer *answer;
    mr_space *out;
    const mr_slot *slots;  /* by segment */
    uint32_t *held;        /* by segment: the first rectangle that has no end yet, MR_NONE */
    MR_VEC(uint32_t) next; /* by rectangle of held memory: another one of the same segment */
    uint32_t *open;        /* by storage: its rectangle, MR_NONE when it has no block */
} layout;

/* ---- held memory ------------------------------------------------------------------------ */

static void hold(layout *l, uint32_t segment, uint64_t from, uint64_t to, double x)
{
    const double y = (double)l->slots[segment].y;
    if (from == to) return;
    MR_PUSH(l->ctx, &l->next, l->held[segment]);
    l->held[segment] = l->out->held.n;
    MR_PUSH(l->ctx, &l->out->held, (mr_rect){x, -1, y + (double)from, y + (double)to, 0});
}

/* Ends what is held in [from, to) of a segment; what sticks out of it goes on. */
static void let_go(layout *l, uint32_t segment, uint64_t from, uint64_t to, double x)
{
    const uint64_t y = l->slots[segment].y;
    uint32_t next = l->held[segment];
    l->held[segment] = MR_NONE;
    for (uint32_t i = next; i != MR_NONE; i = next) {
        mr_rect *rect = &l->out->held.at[i];
        const uint64_t low = (uint64_t)rect->y0 - y, high = (uint64_t)rect->y1 - y;
        next = l->next.at[i];
        if (high <= from || low >= to) {
            l->next.at[i] = l->held[segment];
            l->held[segment] = i;
            continue;
        }
        rect->x1 = x;
        if (low < from) hold(l, segment, low, from, x);
        if (high > to) hold(l, segment, to, high, x);
    }
}

/* ---- blocks ----------------------------------------------------------------------------- */

static void begin_block(layout *l, const mr_cmd *cmd, double x)
{
    if (cmd->block.segment == MR_NONE) return; /* nothing was asked for, nothing given */
    const double y = (double)l->slots[cmd->block.segment].y + (double)cmd->block.offset;
    l->open[cmd->id] = l->out->blocks.n;
    MR_PUSH(l->ctx, &l->out->blocks,
            (mr_rect){x, -1, y, y + (double)cmd->block.bytes,
                      mr_hue_of(l->figure, &l->answer->trace, cmd)});
}

static void end_block(layout *l, const mr_cmd *cmd, double x)
{
    if (l->open[cmd->id] == MR_NONE) return;
    l->out->blocks.at[l->open[cmd->id]].x1 = x;
    l->open[cmd->id] = MR_NONE;
}

/* ---- all commands ----------------------------------------------------------------------- */

static void step(layout *l, const mr_cmd *cmd, double x)
{
    const mr_block *block = &cmd->block;
    const uint64_t end = block->offset + block->bytes;
    switch (cmd->kind) {
    case MR_RESERVE:
        if (!l->answer->placement.segments.at[block->segment].expandable)
            hold(l, block->segment, 0, block->bytes, x);
        break;
    case MR_RELEASE: let_go(l, block->segment, 0, UINT64_MAX, x); break;
    case MR_MAP: hold(l, block->segment, block->offset, end, x); break;
    case MR_UNMAP: let_go(l, block->segment, block->offset, end, x); break;
    case MR_BIND: begin_block(l, cmd, x); break;
    case MR_UNBIND: end_block(l, cmd, x); break;
    case MR_DEFER:
    case MR_EXEC:
    case MR_REFUSE: break;
    }
}

static void close_all(mr_rects *rects, double x)
{
    for (uint32_t i = 0; i < rects->n; i++)
        if (rects->at[i].x1 < 0) rects->at[i].x1 = x;
}

static uint32_t *nothing(mr_ctx *ctx, uint32_t n)
{
    uint32_t *list = MR_NEW_N(ctx, uint32_t, n);
    for (uint32_t i = 0; i < n; i++) list[i] = MR_NONE;
    return list;
}

void mr_space_lay_out(mr_ctx *ctx, const mr_figure *figure, uint32_t panel, mr_space *out)
{
    const mr_answer *answer = figure->panels.at[panel].answer;
    const mr_placement *placement = &answer->placement;
    *out = (mr_space){0};
    layout l = {.ctx = ctx,
                .figure = figure,
                .answer = answer,
                .out = out,
                .slots = mr_space_slots(ctx, placement),
                .held = nothing(ctx, placement->segments.n),
                .open = nothing(ctx, answer->trace.storages.n)};
    for (uint32_t s = 0; s < placement->segments.n; s++)
        if ((double)(l.slots[s].y + l.slots[s].height) > out->high)
            out->high = (double)(l.slots[s].y + l.slots[s].height);
    mr_clock clock = mr_clock_start(figure, answer);
    for (uint32_t c = 0; c < placement->cmds.n; c++) {
        mr_clock_to(&clock, c);
        step(&l, &placement->cmds.at[c], clock.x);
    }
    if (placement->oom_at == MR_NONE) mr_clock_past(&clock, answer->schedule.events.n);
    close_all(&out->held, clock.x);
    close_all(&out->blocks, clock.x);
}
