/* kineto_spans -- what ran when: spans of a thread lie inside one another or apart. */
#include "kineto_trace.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 }; /* frames of a stack: what is further out says little */

/* By thread; what begins first, then what ends last, stands outside. */
static int outer_first(const void *left, const void *right)
{
    const kineto_span *a = left, *b = right;
    if (a->thread != b->thread) return a->thread < b->thread ? -1 : 1;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    if (a->to != b->to) return a->to > b->to ? -1 : 1;
    return (a->kind < b->kind) - (a->kind > b->kind); /* an annotation is around its ops */
}

/* ---- stacks ------------------------------------------------------------------------------ */

typedef struct stacker {
    kineto_trace *k;
    mr_names frames; /* file, line and function of each frame of the trace */
    mr_names stacks; /* ids of the frames of each stack of the trace */
    uint32_t *next;  /* by thread: the first span that has not begun */
    struct open_spans {
        MR_VEC(uint32_t) at;
    } *open; /* by thread: spans that have begun, outermost first */
} stacker;

static uint32_t frame_number(stacker *s, const char *file, const char *function, uint32_t line)
{
    mr_trace *trace = s->k->trace;
    const char *key = mr_printf(s->k->ctx, "%s\n%u\n%s", file, line, function);
    const uint32_t i = mr_names_add(s->k->ctx, &s->frames, key, strlen(key));
    if (i == trace->frames.n)
        MR_PUSH(s->k->ctx, &trace->frames, (mr_frame){file, function, line});
    return i;
}

/* "folder/file.py(12): function"; other texts are functions. */
static uint32_t frame_of(stacker *s, const char *text, size_t n)
{
    const char *copy = mr_strndup(s->k->ctx, text, n), *colon = strstr(copy, "): "), *open;
    if (!colon) return frame_number(s, "", copy, 0);
    for (open = colon; open > copy && isdigit((unsigned char)open[-1]);) open--;
    if (open == copy || open == colon || open[-1] != '(') return frame_number(s, "", copy, 0);
    const unsigned long line = strtoul(open, NULL, 10);
    const char *file = mr_strndup(s->k->ctx, copy, (size_t)(open - 1 - copy));
    return frame_number(s, file, colon + strlen("): "), line < UINT32_MAX ? (uint32_t)line : 0);
}

/* Layouts without Python spans have "frame;frame;..." at each op instead. */
static uint32_t add_calls(stacker *s, const char *calls, uint32_t *frames, uint32_t n)
{
    while (*calls && n < DEEPEST) {
        const size_t length = strcspn(calls, ";");
        if (length) frames[n++] = frame_of(s, calls, length);
        calls += length;
        if (*calls) calls++;
    }
    return n;
}

static uint32_t stack_number(stacker *s, const uint32_t *frames, uint32_t n)
{
    mr_trace *trace = s->k->trace;
    const uint32_t i = mr_names_add(s->k->ctx, &s->stacks, frames, n * sizeof *frames);
    if (i < trace->stacks.n) return i;
    const mr_stack stack = {MR_NEW_N(s->k->ctx, uint32_t, n), n};
    memcpy(stack.at, frames, n * sizeof *frames);
    MR_PUSH(s->k->ctx, &trace->stacks, stack);
    return i;
}

/* Begins and ends what does until then on the thread. */
static void go_to(stacker *s, uint32_t thread, uint64_t ns)
{
    struct open_spans *open = &s->open[thread];
    const kineto_span *spans = s->k->spans.at;
    uint32_t *next = &s->next[thread];
    for (;; ++*next) {
        const bool more = *next < s->k->spans.n && spans[*next].thread == thread
                          && spans[*next].from <= ns;
        const uint64_t now = more ? spans[*next].from : ns;
        while (open->at.n && spans[open->at.at[open->at.n - 1]].to < now) open->at.n--;
        if (!more) return;
        MR_PUSH(s->k->ctx, &open->at, *next);
    }
}

static uint32_t stack_now(stacker *s, uint32_t thread)
{
    const struct open_spans *open = &s->open[thread];
    uint32_t frames[DEEPEST], n = 0;
    for (uint32_t i = open->at.n; i-- > 0 && n < DEEPEST;) {
        const kineto_span *span = &s->k->spans.at[open->at.at[i]];
        const mr_name *name = &s->k->names.all.at[span->name];
        if (span->kind == KINETO_ANNOTATION && mr_begins(name->text, "ProfilerStep#")) continue;
        frames[n++] = frame_of(s, name->text, name->n);
        if (span->calls == MR_NONE) continue;
        n = add_calls(s, s->k->names.all.at[span->calls].text, frames, n);
        break;
    }
    return n ? stack_number(s, frames, n) : MR_NONE;
}

void kineto_stacks(kineto_trace *k)
{
    stacker s = {.k = k};
    if (k->spans.n) qsort(k->spans.at, k->spans.n, sizeof *k->spans.at, outer_first);
    s.next = MR_NEW_N(k->ctx, uint32_t, k->threads.all.n);
    s.open = MR_NEW_N(k->ctx, struct open_spans, k->threads.all.n);
    for (uint32_t i = k->spans.n; i-- > 0;) s.next[k->spans.at[i].thread] = i;
    for (uint32_t i = 0; i < k->memory.n; i++) {
        kineto_memory *m = &k->memory.at[i];
        go_to(&s, m->thread, m->ns);
        if (m->bytes > 0) m->stack = stack_now(&s, m->thread);
    }
}

/* ---- marks ------------------------------------------------------------------------------- */

/* At one time what is inside ends, then what is around it; then the next begins likewise. */
static int rank(const kineto_mark *m)
{
    const bool end = m->mark.kind == MR_STEP_END || m->mark.kind == MR_PHASE_END;
    return end ? -(int)m->mark.kind : (int)m->mark.kind;
}

static int by_time(const void *left, const void *right)
{
    const kineto_mark *a = left, *b = right;
    if (a->ns != b->ns) return a->ns < b->ns ? -1 : 1;
    return (rank(a) > rank(b)) - (rank(a) < rank(b));
}

static void add_pair(kineto_trace *k, kineto_marks *marks, mr_mark_kind begin, uint64_t from,
                     uint64_t to, const char *name)
{
    MR_PUSH(k->ctx, &marks->all, (kineto_mark){from, {begin, name}});
    MR_PUSH(k->ctx, &marks->all, (kineto_mark){to, {(mr_mark_kind)(begin + 1), name}});
}

/* PyTorch itself annotates optimizers and its profiler's steps. */
static void add_annotation(kineto_trace *k, kineto_marks *marks, const kineto_span *span)
{
    const char *name = k->names.all.at[span->name].text;
    if (mr_begins(name, "ProfilerStep#"))
        add_pair(k, marks, MR_STEP_BEGIN, span->from, span->to, name);
    const char *optimizer = mr_optimizer_of(k->ctx, name);
    if (!optimizer) return;
    k->trace->about[MR_ABOUT_optimizer] = optimizer;
    add_pair(k, marks, MR_PHASE_BEGIN, span->from, span->to, mr_phase_name(MR_UPDATE));
}

static int by_begin(const void *left, const void *right)
{
    const kineto_span *a = left, *b = right;
    if (a->from != b->from) return a->from < b->from ? -1 : 1;
    return (a->to < b->to) - (a->to > b->to);
}

/* Ops of a backward pass follow one another until the program runs another op itself. */
static void add_passes(kineto_trace *k, kineto_marks *marks)
{
    uint64_t from = 0, to = 0;
    for (uint32_t i = 0; i < k->spans.n; i++) {
        const kineto_span *span = &k->spans.at[i];
        const bool inside = to && span->from < to;
        if (span->backward) {
            if (!to) from = span->from;
            if (span->to > to) to = span->to;
        } else if (to && !inside) {
            add_pair(k, marks, MR_PHASE_BEGIN, from, to, mr_phase_name(MR_BACKWARD));
            to = 0;
        }
    }
    if (to) add_pair(k, marks, MR_PHASE_BEGIN, from, to, mr_phase_name(MR_BACKWARD));
}

static bool is_annotation(const kineto_trace *k, const kineto_span *span)
{
    const char *name = k->names.all.at[span->name].text;
    return mr_begins(name, "ProfilerStep#") || mr_begins(name, "Optimizer.step#");
}

/* The thread that runs the training loop: it annotates, or runs most ops beside those of
 * threads that run backward passes. */
static uint32_t main_thread(const kineto_trace *k)
{
    bool *passes = MR_NEW_N(k->ctx, bool, k->threads.all.n);
    uint32_t *ops = MR_NEW_N(k->ctx, uint32_t, k->threads.all.n), most = MR_NONE;
    for (uint32_t i = 0; i < k->spans.n; i++) {
        const kineto_span *span = &k->spans.at[i];
        if (is_annotation(k, span)) return span->thread;
        if (span->backward) passes[span->thread] = true;
        else ops[span->thread] += span->kind == KINETO_OP;
    }
    for (uint32_t t = 0; t < k->threads.all.n; t++)
        if (!passes[t] && (most == MR_NONE || ops[t] > ops[most])) most = t;
    return most;
}

/* What data loaders and the like do meanwhile says nothing about passes. */
static void leave_out_others(kineto_trace *k)
{
    const uint32_t thread = main_thread(k);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < k->spans.n; i++) {
        const kineto_span span = k->spans.at[i];
        if (span.backward || (span.kind == KINETO_OP && span.thread == thread))
            k->spans.at[kept++] = span;
    }
    k->spans.n = kept;
}

void kineto_find_marks(kineto_trace *k, kineto_marks *marks)
{
    for (uint32_t i = 0; i < k->spans.n; i++)
        if (is_annotation(k, &k->spans.at[i])) add_annotation(k, marks, &k->spans.at[i]);
    leave_out_others(k);
    if (k->spans.n) qsort(k->spans.at, k->spans.n, sizeof *k->spans.at, by_begin);
    add_passes(k, marks);
    if (marks->all.n) qsort(marks->all.at, marks->all.n, sizeof *marks->all.at, by_time);
}
