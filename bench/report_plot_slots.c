/* slots -- where segments lie in the picture of the address space: above each other, no gaps.
 *
 * Each segment gets the lowest place that is free as long as it is held, in the order of time;
 * so the picture is nearly as high as the peak of reserved memory.  Expandable segments are few
 * and grow for long, and the place they need is known only from their ends: where there are
 * some, the highest segment is given its place first.
 */
#include <stdlib.h>
#include <string.h>

#include "space.h"

static mr_slot *measure(mr_ctx *ctx, const mr_placement *placement)
{
    mr_slot *slots = MR_NEW_N(ctx, mr_slot, placement->segments.n);
    for (uint32_t s = 0; s < placement->segments.n; s++)
        if (!placement->segments.at[s].expandable)
            slots[s].height = placement->segments.at[s].bytes;
    for (uint32_t c = 0; c < placement->cmds.n; c++) {
        const mr_cmd *cmd = &placement->cmds.at[c];
        if (cmd->kind != MR_MAP) continue;
        mr_slot *s = &slots[cmd->block.segment];
        const uint64_t end = cmd->block.offset + cmd->block.bytes;
        if (end > s->height) s->height = end;
    }
    return slots;
}

/* ---- in the order of time --------------------------------------------------------------- */

typedef struct hole {
    uint64_t y, bytes;
} hole;

typedef MR_VEC(hole) holes; /* ascending; the last one reaches up to the sky */

static void take_place(holes *h, mr_slot *s)
{
    uint32_t i = 0;
    while (h->at[i].bytes < s->height) i++;
    s->y = h->at[i].y;
    h->at[i].y += s->height;
    if (i + 1 < h->n) h->at[i].bytes -= s->height;
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

static void give_place_back(mr_ctx *ctx, holes *h, const mr_slot *s)
{
    uint32_t i = 0;
    while (h->at[i].y < s->y) i++;
    MR_PUSH(ctx, h, (hole){0, 0});
    memmove(&h->at[i + 1], &h->at[i], (h->n - i - 1) * sizeof *h->at);
    h->at[i] = (hole){s->y, s->height};
    join_holes(h, i);
    if (i) join_holes(h, i - 1);
}

static void place_in_time(mr_ctx *ctx, const mr_placement *placement, mr_slot *slots)
{
    holes h = {0};
    MR_PUSH(ctx, &h, (hole){0, UINT64_MAX});
    for (uint32_t c = 0; c < placement->cmds.n; c++) {
        const mr_cmd *cmd = &placement->cmds.at[c];
        if (cmd->kind != MR_RESERVE && cmd->kind != MR_RELEASE) continue;
        mr_slot *s = &slots[cmd->block.segment];
        if (!s->height) continue;
        if (cmd->kind == MR_RESERVE) take_place(&h, s);
        else give_place_back(ctx, &h, s);
    }
}

/* ---- the highest first ------------------------------------------------------------------ */

typedef struct stay {
    uint32_t segment, from, to; /* commands between which it is held */
    mr_slot *slot;
} stay;

static int by_height(const void *a, const void *b)
{
    const stay *x = a, *y = b;
    if (x->slot->height != y->slot->height) return x->slot->height > y->slot->height ? -1 : 1;
    return x->segment < y->segment ? -1 : x->segment > y->segment;
}

static int by_y(const void *a, const void *b)
{
    const mr_slot *x = *(const mr_slot *const *)a, *y = *(const mr_slot *const *)b;
    return x->y < y->y ? -1 : x->y > y->y;
}

/* Lowest place beside the `n` stays that have theirs already. */
static void place(const stay *stays, uint32_t n, const mr_slot **beside)
{
    const stay *s = &stays[n];
    uint32_t count = 0;
    for (uint32_t i = 0; i < n; i++)
        if (stays[i].from < s->to && s->from < stays[i].to) beside[count++] = stays[i].slot;
    if (count) qsort(beside, count, sizeof *beside, by_y);
    uint64_t y = 0;
    for (uint32_t i = 0; i < count && beside[i]->y < y + s->slot->height; i++)
        if (beside[i]->y + beside[i]->height > y) y = beside[i]->y + beside[i]->height;
    s->slot->y = y;
}

static void place_by_height(mr_ctx *ctx, const mr_placement *placement, mr_slot *slots)
{
    const uint32_t n = placement->segments.n;
    stay *stays = MR_NEW_N(ctx, stay, n);
    for (uint32_t i = 0; i < n; i++) stays[i] = (stay){i, 0, MR_NONE, &slots[i]};
    for (uint32_t c = 0; c < placement->cmds.n; c++) {
        const mr_cmd *cmd = &placement->cmds.at[c];
        if (cmd->kind == MR_RESERVE) stays[cmd->block.segment].from = c;
        if (cmd->kind == MR_RELEASE) stays[cmd->block.segment].to = c;
    }
    if (n) qsort(stays, n, sizeof *stays, by_height);
    const mr_slot **beside = MR_NEW_N(ctx, const mr_slot *, n);
    for (uint32_t i = 0; i < n; i++) place(stays, i, beside);
}

#define BY_HEIGHT_MOST 1000 /* segments; each is held against all others */

mr_slot *mr_space_slots(mr_ctx *ctx, const mr_placement *placement)
{
    mr_slot *slots = measure(ctx, placement);
    bool expandable = false;
    for (uint32_t s = 0; s < placement->segments.n; s++)
        expandable |= placement->segments.at[s].expandable;
    if (expandable && placement->segments.n <= BY_HEIGHT_MOST)
        place_by_height(ctx, placement, slots);
    else place_in_time(ctx, placement, slots);
    return slots;
}
