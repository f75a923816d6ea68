/* front -- cells that none of the others beats in both memory and time. */
#include <stdlib.h>
#include <string.h>

#include "advise.h"

/* A difference below this is no reason to switch something on. */
#define WORTH 0.01

static bool is_at_most(uint64_t a, uint64_t b, double tolerance)
{
    return (double)a <= (double)b * (1 + tolerance);
}

/* Of an allocator's history there is the time of its calls alone. */
static uint64_t time_of(const mr_cell *cell)
{
    return cell->metrics.time ? cell->metrics.time : cell->metrics.device_time;
}

static bool is_beaten_within(const mr_cell *cell, const mr_cell *by, double tolerance)
{
    return is_at_most(by->metrics.peak_reserved, cell->metrics.peak_reserved, tolerance)
           && is_at_most(time_of(by), time_of(cell), tolerance);
}

bool mr_is_beaten(const mr_cell *cell, const mr_cell *by)
{
    return is_beaten_within(cell, by, WORTH);
}

static bool is_beaten_by_any(const mr_cell *cell, const mr_cell *kept, uint32_t n,
                             double tolerance)
{
    for (uint32_t i = 0; i < n; i++)
        if (is_beaten_within(cell, &kept[i], tolerance)) return true;
    return false;
}

static int by_numbers(const mr_cell *x, const mr_cell *y)
{
    const mr_metrics *p = &x->metrics, *q = &y->metrics;
    if (time_of(x) != time_of(y)) return time_of(x) < time_of(y) ? -1 : 1;
    if (p->peak_reserved != q->peak_reserved)
        return p->peak_reserved < q->peak_reserved ? -1 : 1;
    return strcmp(x->spec->text, y->spec->text);
}

/* A program with fewer settings first, then a shorter text: fewer options of the allocator. */
static int by_effort(const void *a, const void *b)
{
    const mr_cell *x = a, *y = b;
    const uint32_t p = x->spec->rewrites.n, q = y->spec->rewrites.n;
    if (p != q) return p < q ? -1 : 1;
    const size_t m = strlen(x->spec->text), n = strlen(y->spec->text);
    if (m != n && !p) return m < n ? -1 : 1;
    return by_numbers(x, y);
}

static int by_time(const void *a, const void *b)
{
    return by_numbers(a, b);
}

/* First those are left out that are hardly better than one with fewer settings, then those that
 * one with more beats all the same. */
uint32_t mr_front(mr_ctx *ctx, mr_cell *cells, uint32_t n)
{
    mr_cell *kept = MR_NEW_N(ctx, mr_cell, n);
    uint32_t some = 0, front = 0;
    if (n) qsort(cells, n, sizeof *cells, by_effort);
    for (uint32_t i = 0; i < n; i++)
        if (!is_beaten_by_any(&cells[i], kept, some, WORTH)) kept[some++] = cells[i];
    if (some) qsort(kept, some, sizeof *kept, by_time);
    for (uint32_t i = 0; i < some; i++)
        if (!is_beaten_by_any(&kept[i], cells, front, 0)) cells[front++] = kept[i];
    return front;
}
