/* gaps -- how much memory a GPU had, by the distance of its expandable segments.
 *
 * PyTorch reserves 9/8 of a GPU's memory as the addresses of one.  Where one follows the other,
 * the gap between them tells the size.
 */
#include "agree.h"

/* Would reservations that cover `bytes`, in whole pages, hold all that was seen
 * to be mapped? */
static bool holds_all(const mr_history *history, uint64_t bytes)
{
    for (uint32_t i = 0; i < history->start.n + history->cmds.n; i++) {
        const mr_piece *p = i < history->start.n ? &history->start.at[i] : NULL;
        const mr_cmd *cmd = p ? NULL : &history->cmds.at[i - history->start.n];
        if (cmd && cmd->kind != MR_MAP) continue;
        const mr_segment *in = &history->segments.at[p ? p->segment : cmd->block.segment];
        if (!in->expandable) continue;
        const uint64_t end = p ? p->offset + p->bytes : cmd->block.offset + cmd->block.bytes;
        const uint64_t page = in->page ? in->page : 1;
        if (end > (bytes / page + (bytes % page != 0)) * page) return false;
    }
    return true;
}

/* From the new segment to the next one on either side, of those that are held. */
static uint64_t gap_beside(const mr_history *history, const bool *held, uint32_t fresh)
{
    uint64_t least = UINT64_MAX;
    const uint64_t at = history->segments.at[fresh].address;
    for (uint32_t i = 0; i < history->segments.n; i++) {
        if (!held[i] || i == fresh) continue;
        const uint64_t other = history->segments.at[i].address;
        const uint64_t gap = other < at ? at - other : other - at;
        if (gap < least) least = gap;
    }
    return least;
}

/* The least distance of expandable segments that were there at the same time. */
static uint64_t least_gap(mr_ctx *ctx, const mr_history *history)
{
    bool *held = MR_NEW_N(ctx, bool, history->segments.n);
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < history->held + history->cmds.n; i++) {
        const mr_cmd *cmd = i < history->held ? NULL : &history->cmds.at[i - history->held];
        if (cmd && cmd->kind != MR_RESERVE && cmd->kind != MR_RELEASE) continue;
        const uint32_t segment = cmd ? cmd->block.segment : i;
        if (!history->segments.at[segment].expandable) continue;
        held[segment] = !cmd || cmd->kind == MR_RESERVE;
        const uint64_t gap = held[segment] ? gap_beside(history, held, segment) : UINT64_MAX;
        if (gap < least) least = gap;
    }
    return least;
}

uint64_t mr_recorded_memory(mr_ctx *ctx, const mr_history *history)
{
    const uint64_t gap = least_gap(ctx, history);
    return gap == UINT64_MAX || !holds_all(history, gap) ? 0 : gap / 9 * 8;
}
