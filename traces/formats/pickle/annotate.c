/* annotate -- external_annotations, which know only times, become marks between events. */
#include "format.h"
#include "walk.h"

#include <stdlib.h>
#include <string.h>

static int by_time(const void *left, const void *right)
{
    const mr_raw_annotation *a = *(const mr_raw_annotation *const *)left;
    const mr_raw_annotation *b = *(const mr_raw_annotation *const *)right;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    return a < b ? -1 : 1; /* as recorded */
}

/* PyTorch itself annotates optimizers and its profiler's steps. */
static void annotate(mr_walk *w, const mr_raw_annotation *a)
{
    const char *name = mr_raw_text(w->raw, a->name);
    if (mr_begins(name, "Optimizer.step#"))
        mr_walk_mark(w, a->end ? MR_PHASE_END : MR_PHASE_BEGIN, mr_phase_name(MR_UPDATE));
    else if (mr_begins(name, "ProfilerStep#"))
        mr_walk_mark(w, a->end ? MR_STEP_END : MR_STEP_BEGIN, name);
    else mr_walk_mark(w, a->end ? MR_REGION_END : MR_REGION_BEGIN, name);
}

void mr_annotate_until(mr_walk *w, uint64_t time)
{
    while (w->next_annotation < w->n_annotations) {
        const mr_raw_annotation *a = w->annotations[w->next_annotation];
        if (a->time > time) return;
        if (a->time > w->now) w->now = a->time;
        annotate(w, a);
        w->next_annotation++;
    }
}

mr_status mr_walk_annotations(mr_walk *w, const mr_raw_annotation *annotations, uint32_t n)
{
    w->annotations = MR_NEW_N(w->ctx, const mr_raw_annotation *, n);
    for (uint32_t i = 0; i < n; i++) {
        const mr_raw_annotation *a = &annotations[i];
        if (a->fault != MR_NONE)
            return mr_raw_fault_fail(w->raw, &w->raw->faults.at[a->fault], "an annotation");
        const char *name = mr_raw_text(w->raw, a->name);
        const char *optimizer = mr_optimizer_of(w->ctx, name);
        if (optimizer) w->trace->about[MR_ABOUT_optimizer] = optimizer;
        if (a->time <= MR_TIME_MAX) w->annotations[w->n_annotations++] = a;
    }
    if (w->n_annotations)
        qsort(w->annotations, w->n_annotations, sizeof *w->annotations, by_time);
    if (n && !w->timed)
        MR_PUSH(w->ctx, &w->trace->notes,
                "annotations are left out: events have no times that"
                " would say where they belong");
    if (!w->timed) w->n_annotations = 0;
    return MR_OK;
}
