/* c10_stats -- statistics as torch.cuda.memory_stats() has them. */
#include "c10_internal.h"

static c10_stat shown(const c10_tally *tally, unsigned kind)
{
    c10_stat stat = {.peak = tally->peak[kind]};
    for (unsigned k = 0; k < 2; k++) {
        if (kind != C10_ALL && kind != C10_SMALL_POOL + k) continue;
        stat.current += tally->current[k];
        stat.allocated += tally->allocated[k];
        stat.freed += tally->before[k] + tally->allocated[k] - tally->current[k];
    }
    return stat;
}

const c10_stats *c10_statistics(c10_allocator *a)
{
    for (unsigned kind = 0; kind < C10_KINDS; kind++) {
#define X(name) a->shown.name[kind] = shown(&a->name, kind);
        C10_STATS(X)
#undef X
    }
    a->shown.oversize_allocations = shown(&a->oversize_allocations, C10_ALL);
    a->shown.oversize_segments = shown(&a->oversize_segments, C10_ALL);
#define X(name) a->shown.name = a->name;
    C10_COUNTERS(X)
#undef X
    return &a->shown;
}

static void reset_peak(c10_tally *tally)
{
    tally->peak[C10_ALL] = tally->current[0] + tally->current[1];
    tally->peak[C10_SMALL_POOL] = tally->current[0];
    tally->peak[C10_LARGE_POOL] = tally->current[1];
}

static void reset_accumulated(c10_tally *tally)
{
    for (unsigned k = 0; k < 2; k++) {
        tally->allocated[k] = 0;
        tally->before[k] = tally->current[k];
    }
}

void c10_reset_peaks(c10_allocator *a)
{
#define X(name) reset_peak(&a->name);
    C10_STATS(X)
#undef X
    reset_peak(&a->oversize_allocations);
    reset_peak(&a->oversize_segments);
}

void c10_reset_accumulated(c10_allocator *a)
{
#define X(name) reset_accumulated(&a->name);
    C10_STATS(X)
#undef X
    reset_accumulated(&a->oversize_allocations);
    reset_accumulated(&a->oversize_segments);
#define X(name) a->name = 0;
    C10_COUNTERS(X)
#undef X
}
