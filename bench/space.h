/* space.h -- a placement as rectangles: time to the right, device memory upwards. */
#ifndef MR_SPACE_H
#define MR_SPACE_H

#include "plot.h"

typedef struct mr_rect {
    double x0, x1;
    double y0, y1; /* bytes */
    uint32_t hue;  /* colour of style.gp, 0 for memory that is only held */
} mr_rect;

typedef MR_VEC(mr_rect) mr_rects;

typedef struct mr_slot { /* where a segment lies in the picture */
    uint64_t y, height; /* of an expandable one only what is ever mapped is shown */
} mr_slot;

/* By segment; no two that are held at once overlap. */
mr_slot *mr_space_slots(mr_ctx *ctx, const mr_placement *placement);

/* One panel. */
typedef struct mr_space {
    mr_rects held;   /* segments, and mapped stretches of expandable ones */
    mr_rects blocks; /* from BIND to UNBIND */
    double high;     /* upper end of the highest segment */
} mr_space;

void mr_space_lay_out(mr_ctx *ctx, const mr_figure *figure, uint32_t panel, mr_space *out);

/* ---- fewer rectangles ------------------------------------------------------------------- */

/* A picture has so many pixels; what is smaller is merged into parts on this grid. */
typedef struct mr_grid {
    double x_end, y_end;
    uint32_t columns, rows;
} mr_grid;

typedef struct mr_part {
    mr_rect rect;
    uint32_t shade; /* percent of its surface that is really taken */
} mr_part;

typedef MR_VEC(mr_part) mr_parts;

/* Splits rectangles into those that can be seen alone and parts for the others. */
void mr_grid_sort(mr_ctx *ctx, const mr_grid *grid, const mr_rects *in, mr_rects *seen,
                  mr_parts *parts);
/* Can its outline be told from its surface? */
bool mr_grid_shows_outline(const mr_grid *grid, const mr_rect *rect);

#endif
