/* space -- who lives where in device memory, and when, for plots/address-space.gp. */
#include <inttypes.h>

#include "space.h"

#define PIXELS_WIDE 900 /* of all panels side by side */
#define PIXELS_TALL 460
#define RECTS_MOST 20000 /* in the whole figure: a file of two to three megabytes */

static void write_rect(mr_sink *sink, const char *what, uint32_t panel, const mr_rect *rect,
                       uint32_t shade)
{
    mr_sink_print(sink, "%s,%" PRIu32 ",%.12g,%.12g,%.0f,%.0f,%" PRIu32 ",%" PRIu32 "\n", what,
                  panel + 1, rect->x0, rect->x1, rect->y0, rect->y1, rect->hue, shade);
}

typedef struct panel_parts {
    mr_rects held, blocks;            /* to be seen alone */
    mr_parts held_parts, block_parts; /* merged */
} panel_parts;

static uint32_t sort_panel(mr_ctx *ctx, const mr_grid *grid, const mr_space *space,
                           panel_parts *out)
{
    *out = (panel_parts){0};
    mr_grid_sort(ctx, grid, &space->held, &out->held, &out->held_parts);
    mr_grid_sort(ctx, grid, &space->blocks, &out->blocks, &out->block_parts);
    return out->held.n + out->blocks.n + out->held_parts.n + out->block_parts.n;
}

/* A coarser grid until there are few enough. */
static mr_grid sort_panels(mr_ctx *ctx, const mr_figure *figure, const mr_space *spaces,
                           panel_parts *out)
{
    const uint32_t n = figure->panels.n;
    mr_grid grid = {.x_end = figure->x_end,
                    .y_end = 1,
                    .columns = n == 1 ? PIXELS_WIDE : PIXELS_WIDE / 2,
                    .rows = PIXELS_TALL};
    for (uint32_t p = 0; p < n; p++)
        if (spaces[p].high > grid.y_end) grid.y_end = spaces[p].high;
    for (;; grid.columns = grid.columns * 3 / 4, grid.rows = grid.rows * 3 / 4) {
        uint32_t rects = 0;
        for (uint32_t p = 0; p < n; p++) rects += sort_panel(ctx, &grid, &spaces[p], &out[p]);
        if (rects <= RECTS_MOST || grid.rows < 32) return grid;
    }
}

static void write_panel(const mr_grid *grid, uint32_t p, const panel_parts *parts,
                        mr_sink *sink)
{
    for (uint32_t i = 0; i < parts->held_parts.n; i++)
        write_rect(sink, "held", p, &parts->held_parts.at[i].rect,
                   parts->held_parts.at[i].shade);
    for (uint32_t i = 0; i < parts->held.n; i++)
        write_rect(sink, mr_grid_shows_outline(grid, &parts->held.at[i]) ? "segment" : "held",
                   p, &parts->held.at[i], 100);
    for (uint32_t i = 0; i < parts->block_parts.n; i++)
        write_rect(sink, "part", p, &parts->block_parts.at[i].rect,
                   parts->block_parts.at[i].shade);
    for (uint32_t i = 0; i < parts->blocks.n; i++)
        write_rect(sink, mr_grid_shows_outline(grid, &parts->blocks.at[i]) ? "block" : "part",
                   p, &parts->blocks.at[i], 100);
}

/* Is the picture clearly higher than what is reserved at most? */
static bool is_loose(const mr_figure *figure, const mr_space *spaces)
{
    for (uint32_t p = 0; p < figure->panels.n; p++) {
        const uint64_t peak = figure->panels.at[p].answer->metrics.peak_reserved;
        if (spaces[p].high > 1.05 * (double)peak) return true;
    }
    return false;
}

static void add_captions(mr_head *head, const mr_figure *figure, const mr_space *spaces,
                         const panel_parts *parts)
{
    bool merged = false;
    for (uint32_t p = 0; p < figure->panels.n; p++)
        merged |= parts[p].block_parts.n || parts[p].held_parts.n;
    mr_head_add(head, "caption\tA rectangle is a block from allocation to release.  Segments "
                      "(thin frames) are stacked without the gaps between their addresses.");
    if (is_loose(figure, spaces))
        mr_head_add(head, "caption\tA segment does not move while others come and go, so the "
                          "stack can be higher than what is reserved at once.");
    if (merged)
        mr_head_add(head, "caption\tBlocks smaller than a pixel are merged: the paler, the "
                          "less of the surface they take.");
}

/* Where an iteration begins, as long as there is room for its name. */
static void add_iterations(mr_head *head, const mr_figure *figure, uint32_t p)
{
    enum { NAMED_MOST = 4 };
    const mr_answer *answer = figure->panels.at[p].answer;
    const uint32_t n = answer->schedule.ends.n;
    mr_clock clock = mr_clock_start(figure, answer);
    for (uint32_t i = 0; n > 1 && n <= NAMED_MOST && i < n; i++) {
        if (i) mr_clock_past(&clock, answer->schedule.ends.at[i - 1]);
        mr_head_add(head, "mark\t%" PRIu32 "\t%.12g\titeration %" PRIu32 "\t0\t0\t0", p + 1,
                    clock.x, i + 1);
    }
}

void mr_plot_space(mr_ctx *ctx, const mr_figure *figure, mr_sink *sink)
{
    const uint32_t n = figure->panels.n;
    mr_space *spaces = MR_NEW_N(ctx, mr_space, n);
    panel_parts *parts = MR_NEW_N(ctx, panel_parts, n);
    for (uint32_t p = 0; p < n; p++) mr_space_lay_out(ctx, figure, p, &spaces[p]);
    const mr_grid grid = sort_panels(ctx, figure, spaces, parts);
    mr_head head = mr_head_begin(ctx, figure, "Address space over time");
    mr_head_add(&head, "y\t%.0f", grid.y_end);
    mr_head_add_hues(&head, figure);
    for (uint32_t p = 0; p < n; p++) add_iterations(&head, figure, p);
    add_captions(&head, figure, spaces, parts);
    mr_head_write(&head, sink);
    mr_sink_print(sink, "what,panel,x0,x1,y0,y1,hue,shade\n");
    for (uint32_t p = 0; p < n; p++) write_panel(&grid, p, &parts[p], sink);
}
