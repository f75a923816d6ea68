/* grid -- rectangles that are smaller than a pixel, merged into parts that are not.
 *
 * Every small rectangle adds its surface to the pixels it touches, by colour.  A pixel then
 * becomes a part of the colour that has most of it, as strong as all of them together; equal
 * neighbours are joined, first along a row, then rows with the same stretch.
 */
#include <math.h>

#include "space.h"

#define SEEN_LEAST 1.5  /* pixels that a rectangle must have to be drawn alone, */
#define OUTLINE_LEAST 4 /* and to have an outline */
#define SHADES 4

typedef struct raster {
    const mr_grid *grid;
    float *taken; /* [row][column][hue] */
} raster;

static double wide(const mr_grid *grid, const mr_rect *rect)
{
    return (rect->x1 - rect->x0) / grid->x_end * grid->columns;
}

static double tall(const mr_grid *grid, const mr_rect *rect)
{
    return (rect->y1 - rect->y0) / grid->y_end * grid->rows;
}

bool mr_grid_shows_outline(const mr_grid *grid, const mr_rect *rect)
{
    return wide(grid, rect) >= OUTLINE_LEAST && tall(grid, rect) >= OUTLINE_LEAST;
}

static uint32_t cell(double at, double end, uint32_t n)
{
    const double place = at / end * n;
    return place <= 0 ? 0 : place >= n ? n - 1 : (uint32_t)place;
}

/* The part of a cell's length that [from, to) covers. */
static double covered(double from, double to, uint32_t i, double end, uint32_t n)
{
    const double low = fmax(from / end * n, i), high = fmin(to / end * n, (double)i + 1);
    return high > low ? high - low : 0;
}

static void add(raster *r, const mr_rect *rect)
{
    const mr_grid *g = r->grid;
    const uint32_t last_row = cell(rect->y1, g->y_end, g->rows);
    const uint32_t last_column = cell(rect->x1, g->x_end, g->columns);
    for (uint32_t row = cell(rect->y0, g->y_end, g->rows); row <= last_row; row++) {
        const double up = covered(rect->y0, rect->y1, row, g->y_end, g->rows);
        for (uint32_t c = cell(rect->x0, g->x_end, g->columns); c <= last_column; c++)
            r->taken[((size_t)row * g->columns + c) * (MR_HUES + 1) + rect->hue] +=
                (float)(up * covered(rect->x0, rect->x1, c, g->x_end, g->columns));
    }
}

/* Colour and shade of a pixel as one number, 0 for nothing to see. */
static uint32_t tone(const raster *r, uint32_t row, uint32_t column)
{
    const float *taken = &r->taken[((size_t)row * r->grid->columns + column) * (MR_HUES + 1)];
    uint32_t most = 0;
    float all = 0;
    for (uint32_t h = 0; h <= MR_HUES; h++) {
        all += taken[h];
        if (taken[h] > taken[most]) most = h;
    }
    const uint32_t shade = all >= 1 ? SHADES : (uint32_t)lroundf(all * SHADES);
    return shade ? most * (SHADES + 1) + shade : 0;
}

static mr_part part_of(const mr_grid *g, uint32_t tone, uint32_t row, uint32_t from,
                       uint32_t to)
{
    return (mr_part){.rect = {.x0 = from * g->x_end / g->columns,
                              .x1 = to * g->x_end / g->columns,
                              .y0 = row * g->y_end / g->rows,
                              .y1 = (row + 1) * g->y_end / g->rows,
                              .hue = tone / (SHADES + 1)},
                     .shade = tone % (SHADES + 1) * 100 / SHADES};
}

typedef struct run {         /* a part that may still grow upwards */
    uint32_t tone, to, part; /* it ends before column `to` */
} run;

static void join_pixels(mr_ctx *ctx, const raster *r, mr_parts *out)
{
    const mr_grid *g = r->grid;
    run *below = MR_NEW_N(ctx, run, g->columns), *here = MR_NEW_N(ctx, run, g->columns);
    for (uint32_t row = 0; row < g->rows; row++) {
        for (uint32_t from = 0, to; from < g->columns; from = to) {
            const uint32_t t = tone(r, row, from);
            for (to = from + 1; to < g->columns && tone(r, row, to) == t;) to++;
            here[from] = (run){t, to, MR_NONE};
            if (!t) continue;
            const mr_part part = part_of(g, t, row, from, to);
            if (below[from].tone == t && below[from].to == to) {
                here[from].part = below[from].part;
                out->at[here[from].part].rect.y1 = part.rect.y1;
                continue;
            }
            here[from].part = out->n;
            MR_PUSH(ctx, out, part);
        }
        run *swap = below;
        below = here;
        here = swap;
        for (uint32_t c = 0; c < g->columns; c++) here[c] = (run){0};
    }
}

void mr_grid_sort(mr_ctx *ctx, const mr_grid *grid, const mr_rects *in, mr_rects *seen,
                  mr_parts *parts)
{
    raster r = {grid, MR_NEW_N(ctx, float, (size_t)grid->rows * grid->columns * (MR_HUES + 1))};
    for (uint32_t i = 0; i < in->n; i++) {
        const mr_rect *rect = &in->at[i];
        if (wide(grid, rect) >= SEEN_LEAST && tall(grid, rect) >= SEEN_LEAST)
            MR_PUSH(ctx, seen, *rect);
        else add(&r, rect);
    }
    join_pixels(ctx, &r, parts);
}
