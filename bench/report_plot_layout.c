/* layout -- where segments and blocks of a placement lie in the picture of the address space.
 */
#include <string.h>

#include "space.h"

typedef struct slot { /* of one segment */
    uint64_t y, height;
    uint32_t held; /* its rectangle; an expandable segment has several, see `mapped` */
} slot;

typedef struct hole {
    uint64_t y, bytes;
} hole;

typedef MR_VEC(hole) holes; /* ascending; the last one reaches up to the sky */

typedef struct mapping { /* a stretch of an expandable segment that has memory */
    uint32_t segment, held;
} mapping;

typedef struct layout {
    mr_ctx *ctx;
    const mr_figure *figure;
    const mr_answer *answer;
    mr_space *out;
    slot *slots;            /* by segment */
    uint32_t *open;         /* by storage: its rectangle, MR_NONE when it has no block */
    MR_VEC(mapping) mapped; /* now */
    holes holes;
} layout;

/* ---- places for segments ---------------------------------------------------------------- */

/* Of an expandable segment only what is ever mapped is shown. */
static void measure_segments(layout *l)
{
    const mr_placement *placement = &l->answer->placement;
    l->slots = MR_NEW_N(l->ctx, slot, placement->segments.n);
    for (uint32_t s = 0; s < placement->segments.n; s++)
        if (!placement->segments.at[s].expandable)
            l->slots[s].height = placement->segments.at[s].bytes;
    for (uint32_t c = 0; c < placement->cmds.n; c++) {
        const mr_cmd *cmd = &placement->cmds.at[c];
        if (cmd->kind != MR_MAP) continue;
        slot *s = &l->slots[cmd->block.segment];
        const uint64_t end = cmd->block.offset + cmd->block.bytes;
        if (end > s->height) s->height = end;
    }
}

static void take_place(layout *l, slot *s)
{
    holes *h = &l->holes;
    uint32_t i = 0;
    while (h->at[i].bytes < s->height) i++;
    s->y = h->at[i].y;
    h->at[i].y += s->height;
    if (i + 1 < h->n) h->at[i].bytes -= s->height;
    if ((double)(s->y + s->height) > l->out->high) l->out->high = (double)(s->y + s->height);
    if (h->at[i].bytes) return;
    memmove(&h->at[i], &h->at[i + 1], (h->n - i - 1) * sizeof *h->at);
    h->n--;
}

/* One hole of two, where they touch. */
static void join_holes(holes *h, uint32_t i)
{
    if (i + 1 >= h->n || h->at[i].y + h->at[i].bytes != h->at[i + 1].y) return;
    const bool sky = i + 2 == h->n;
    h->at[i].bytes = sky ? UINT64_MAX : h->at[i].bytes + h->at[i + 1].bytes;
    memmove(&h->at[i + 1], &h->at[i + 2], (h->n - i - 2) * sizeof *h->at);
    h->n--;
}

static void give_place_back(layout *l, const slot *s)
{
    holes *h = &l->holes;
    uint32_t i = 0;
    while (h->at[i].y < s->y) i++;
    MR_PUSH(l->ctx, h, (hole){0, 0});
    memmove(&h->at[i + 1], &h->at[i], (h->n - i - 1) * sizeof *h->at);
    h->at[i] = (hole){s->y, s->height};
    join_holes(h, i);
    if (i) join_holes(h, i - 1);
}

/* ---- held memory ------------------------------------------------------------------------ */

static uint32_t hold(layout *l, const slot *s, uint64_t from, uint64_t to, double x)
{
    MR_PUSH(l->ctx, &l->out->held,
            (mr_rect){x, -1, (double)(s->y + from), (double)(s->y + to), 0});
    return l->out->held.n - 1;
}

static void map(layout *l, uint32_t segment, uint64_t from, uint64_t to, double x)
{
    if (from == to) return;
    MR_PUSH(l->ctx, &l->mapped, (mapping){segment, hold(l, &l->slots[segment], from, to, x)});
}

/* Ends what is mapped in [from, to); what sticks out of it goes on. */
static void unmap(layout *l, uint32_t segment, uint64_t from, uint64_t to, double x)
{
    const uint64_t y = l->slots[segment].y;
    for (uint32_t i = l->mapped.n; i-- > 0;) {
        mr_rect *rect = &l->out->held.at[l->mapped.at[i].held];
        const uint64_t low = (uint64_t)rect->y0 - y, high = (uint64_t)rect->y1 - y;
        if (l->mapped.at[i].segment != segment || high <= from || low >= to) continue;
        rect->x1 = x;
        l->mapped.at[i] = l->mapped.at[--l->mapped.n];
        if (low < from) map(l, segment, low, from, x);
        if (high > to) map(l, segment, to, high, x);
    }
}

static void reserve(layout *l, uint32_t segment, double x)
{
    slot *s = &l->slots[segment];
    if (!s->height) return;
    take_place(l, s);
    if (!l->answer->placement.segments.at[segment].expandable)
        s->held = hold(l, s, 0, s->height, x);
}

static void release(layout *l, uint32_t segment, double x)
{
    const slot *s = &l->slots[segment];
    if (!s->height) return;
    if (l->answer->placement.segments.at[segment].expandable)
        unmap(l, segment, 0, s->height, x);
    else l->out->held.at[s->held].x1 = x;
    give_place_back(l, s);
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
    switch (cmd->kind) {
    case MR_RESERVE: reserve(l, block->segment, x); break;
    case MR_RELEASE: release(l, block->segment, x); break;
    case MR_MAP: map(l, block->segment, block->offset, block->offset + block->bytes, x); break;
    case MR_UNMAP:
        unmap(l, block->segment, block->offset, block->offset + block->bytes, x);
        break;
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

void mr_space_lay_out(mr_ctx *ctx, const mr_figure *figure, uint32_t panel, mr_space *out)
{
    const mr_answer *answer = figure->panels.at[panel].answer;
    const mr_placement *placement = &answer->placement;
    *out = (mr_space){0};
    layout l = {.ctx = ctx,
                .figure = figure,
                .answer = answer,
                .out = out,
                .open = MR_NEW_N(ctx, uint32_t, answer->trace.storages.n)};
    memset(l.open, 0xff, answer->trace.storages.n * sizeof *l.open);
    MR_PUSH(ctx, &l.holes, (hole){0, UINT64_MAX});
    measure_segments(&l);
    mr_clock clock = mr_clock_start(figure, answer);
    for (uint32_t c = 0; c < placement->cmds.n; c++) {
        mr_clock_to(&clock, c);
        step(&l, &placement->cmds.at[c], clock.x);
    }
    if (placement->oom_at == MR_NONE) mr_clock_past(&clock, answer->schedule.events.n);
    close_all(&out->held, clock.x);
    close_all(&out->blocks, clock.x);
}
