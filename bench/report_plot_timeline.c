/* timeline -- the sums over time, for plots/timeline.gp.
 *
 * A long recording has more events than a figure has pixels.  Of all that falls into one pixel
 * column only the first and last moments are kept and those at which allocated and reserved
 * memory were least and most: nothing that could be seen is lost, no peak among it.
 */
#include <inttypes.h>
#include <string.h>

#include "plot.h"

#define COLUMNS 900 /* pixels that a panel is wide, or nearly */
#define KEPT 6      /* moments kept of one pixel column */

typedef struct moment {
    double x;
    uint32_t cmds; /* commands that are done: moments of one x stand in this order */
    mr_levels levels;
    uint64_t role[MR_ROLE_N]; /* allocated, by role */
} moment;

/* Which of a pixel column's moments: */
enum { FIRST, LAST, ALLOCATED_LOW, ALLOCATED_HIGH, RESERVED_LOW, RESERVED_HIGH };

/* From the bottom of the stack upwards: what stays comes first. */
static const mr_role order[] = {MR_ROLE_parameter, MR_ROLE_state,    MR_ROLE_buffer,
                                MR_ROLE_input,     MR_ROLE_gradient, MR_ROLE_activation,
                                MR_ROLE_temporary, MR_ROLE_unknown};

typedef struct writer {
    mr_sink *sink;
    const bool *roles; /* which roles have a column */
    uint32_t panel;
    double column_width;
    uint64_t column;
    uint32_t seen; /* moments seen in this column */
    moment kept[KEPT];
    moment before; /* written last */
} writer;

static void write_row(const writer *w, double x, const moment *m)
{
    mr_sink_print(w->sink, "%" PRIu32 ",%.12g,%" PRIu64 ",%" PRIu64 ",%" PRIu64, w->panel, x,
                  m->levels.requested, m->levels.allocated, m->levels.reserved);
    for (size_t i = 0; i < MR_COUNT(order); i++)
        if (w->roles[order[i]]) mr_sink_print(w->sink, ",%" PRIu64, m->role[order[i]]);
    mr_sink_print(w->sink, "\n");
}

/* A change has two rows, so that lines between rows make steps. */
static void write_change(writer *w, const moment *m)
{
    if (memcmp(&m->levels, &w->before.levels, sizeof m->levels) == 0
        && memcmp(m->role, w->before.role, sizeof m->role) == 0)
        return;
    write_row(w, m->x, &w->before);
    write_row(w, m->x, m);
    w->before = *m;
}

/* What was kept of a column, in the order of time. */
static void flush_column(writer *w)
{
    for (int n = 0; w->seen && n < KEPT; n++) {
        int next = -1;
        for (int k = 0; k < KEPT; k++)
            if (w->kept[k].x >= 0 && (next < 0 || w->kept[k].cmds < w->kept[next].cmds))
                next = k;
        write_change(w, &w->kept[next]);
        w->kept[next].x = -1;
    }
    w->seen = 0;
}

static void see(writer *w, const moment *m)
{
    const double place = m->x / w->column_width; /* times of a recording may go backwards */
    const uint64_t column = place < COLUMNS ? (uint64_t)place : COLUMNS;
    if (column != w->column) flush_column(w);
    w->column = column;
    const mr_levels *now = &m->levels;
    const bool first = w->seen++ == 0;
    if (first) w->kept[FIRST] = *m;
    w->kept[LAST] = *m;
    if (first || now->allocated < w->kept[ALLOCATED_LOW].levels.allocated)
        w->kept[ALLOCATED_LOW] = *m;
    if (first || now->allocated > w->kept[ALLOCATED_HIGH].levels.allocated)
        w->kept[ALLOCATED_HIGH] = *m;
    if (first || now->reserved < w->kept[RESERVED_LOW].levels.reserved)
        w->kept[RESERVED_LOW] = *m;
    if (first || now->reserved > w->kept[RESERVED_HIGH].levels.reserved)
        w->kept[RESERVED_HIGH] = *m;
}

static void step(moment *now, const mr_answer *answer, const mr_cmd *cmd)
{
    const uint64_t allocated = now->levels.allocated;
    mr_levels_step(&now->levels, &answer->placement, cmd, 1);
    if (cmd->kind != MR_BIND && cmd->kind != MR_DEFER && cmd->kind != MR_UNBIND) return;
    now->role[answer->trace.storages.at[cmd->id].role] += now->levels.allocated - allocated;
}

static void write_panel(const mr_figure *figure, uint32_t p, const bool *roles, mr_sink *sink)
{
    const mr_answer *answer = figure->panels.at[p].answer;
    const mr_placement *placement = &answer->placement;
    mr_clock clock = mr_clock_start(figure, answer);
    writer w = {
        .sink = sink, .roles = roles, .panel = p + 1, .column_width = figure->x_end / COLUMNS};
    moment now = {0};
    uint32_t c = 0;
    while (c < placement->start) step(&now, answer, &placement->cmds.at[c++]);
    w.before = now;
    write_row(&w, 0, &now);
    for (; c < placement->cmds.n; c++) {
        see(&w, &now);
        mr_clock_to(&clock, c);
        now.x = clock.x;
        now.cmds = c + 1;
        step(&now, answer, &placement->cmds.at[c]);
    }
    see(&w, &now);
    flush_column(&w);
    if (placement->oom_at == MR_NONE) mr_clock_past(&clock, answer->schedule.events.n);
    write_row(&w, clock.x, &w.before);
}

/* ---- marks ------------------------------------------------------------------------------ */

#define MARKS_MOST 60   /* lines in one panel */
#define LINE_ROOM 0.006 /* parts of the width between two lines, and two texts */
#define LETTER 0.0095   /* part of the width that a letter takes */
#define MARGIN 0.02     /* the same beside a panel, into which a text may reach */

typedef struct marker { /* of one row of texts */
    mr_head *head;
    uint32_t panel, row, n;
    double end, line, text; /* x that is taken by what stands there already */
    double x;            /* of what is waiting to be written: several marks may be one line */
    const char *waiting; /* NULL: nothing */
} marker;

/* Part of the width that a text takes. */
static double text_width(const char *text)
{
    return *text == ' ' ? 0 : LETTER * (double)strlen(text);
}

/* A text that would leave the figure stands to the left of its line. */
static bool stands_left(const marker *m, double x, const char *text)
{
    return x + text_width(text) * m->end > (1 + MARGIN) * m->end;
}

static void put_mark(const marker *m, double x, const char *text, bool alarm)
{
    mr_head_add(m->head, "mark\t%" PRIu32 "\t%.12g\t%.32s\t%d\t%d\t%" PRIu32, m->panel, x, text,
                alarm, stands_left(m, x, text), m->row);
}

static void write_mark(marker *m)
{
    if (!m->waiting || m->n == MARKS_MOST || (m->n && m->x < m->line)) return;
    const double width = text_width(m->waiting) * m->end;
    const bool left = stands_left(m, m->x, m->waiting);
    const bool room = m->n == 0 || m->x - (left ? width : 0) >= m->text;
    put_mark(m, m->x, room ? m->waiting : " ", false);
    m->n++;
    m->line = m->x + LINE_ROOM * m->end;
    if (room && width > 0) m->text = m->x + (left ? 0 : width) + LINE_ROOM * m->end;
}

static void mark(marker *m, double x, const char *text)
{
    const bool same = m->waiting && m->x == x;
    const bool both = same && *m->waiting != ' ' && *text != ' '; /* a blank says nothing */
    if (!same) write_mark(m);
    if (both) m->waiting = mr_printf(m->head->ctx, "%s, %s", m->waiting, text);
    else if (!same || *text != ' ') m->waiting = text;
    m->x = x;
}

static bool has_phase_marks(const mr_trace *trace)
{
    for (uint32_t i = 0; i < trace->marks.n; i++)
        if (trace->marks.at[i].kind == MR_PHASE_BEGIN) return true;
    return false;
}

typedef struct marking { /* what is written beside lines */
    const mr_schedule *schedule;
    bool steps, phases;
    bool phase_lines; /* phases have lines, with or without texts */
    bool phase_marks; /* the recording says where they begin, not only its ops */
    uint32_t in_one;  /* steps of an iteration */
} marking;

/* One step needs no name; with many of them their phases would fill the figure. */
static marking plan_marks(const mr_schedule *schedule)
{
    enum { PHASES_IN_MOST = 8, TEXTS_IN_MOST = 3 };
    const uint32_t iterations = schedule->ends.n ? schedule->ends.n : 1;
    uint32_t steps = 0, phases = 0;
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event *event = &schedule->events.at[e];
        if (event->kind == MR_RUN)
            phases += schedule->trace->ops.at[event->id].phase != MR_OTHER;
        if (event->kind != MR_MARK) continue;
        const mr_mark_kind kind = schedule->trace->marks.at[event->id].kind;
        steps += kind == MR_STEP_BEGIN;
        phases += kind == MR_PHASE_BEGIN;
    }
    const uint32_t all = steps > iterations ? steps : iterations;
    return (marking){.schedule = schedule,
                     .steps = steps > 1 || !phases,
                     .phases = all <= TEXTS_IN_MOST,
                     .phase_lines = all <= PHASES_IN_MOST,
                     .phase_marks = has_phase_marks(schedule->trace),
                     .in_one = steps / iterations};
}

static bool tells_steps(const marking *plan)
{
    return plan->steps || plan->schedule->ends.n > 1;
}

/* A step that is repeated keeps its name where several of them have to be told apart. */
static const char *name_step(mr_ctx *ctx, const marking *plan, uint32_t event,
                             const mr_mark *mark)
{
    const char *name = *mark->name ? mark->name : "step";
    if (plan->schedule->ends.n < 2) return name;
    const uint32_t i = mr_clock_iteration(plan->schedule, event) + 1;
    return plan->in_one > 1 ? mr_printf(ctx, "%" PRIu32 ": %s", i, name)
                            : mr_printf(ctx, "iteration %" PRIu32, i);
}

/* Where steps have no marks, an iteration begins behind the end of the one before. */
static bool begins_iteration(const marking *plan, uint32_t event)
{
    const mr_schedule *schedule = plan->schedule;
    if (plan->in_one || schedule->ends.n < 2) return false;
    const uint32_t i = mr_clock_iteration(schedule, event);
    return event == (i ? schedule->ends.at[i - 1] : 0);
}

/* Phases of ops speak where the recording has no marks of its own. */
static bool begins_phase(const mr_op *op, mr_phase *phase)
{
    if (op->phase == *phase || op->phase == MR_OTHER) return false;
    *phase = op->phase;
    return true;
}

static void mark_step(marker *m, const marking *plan, double x, uint32_t e)
{
    const mr_event *event = &plan->schedule->events.at[e];
    const mr_mark *said =
        event->kind == MR_MARK ? &plan->schedule->trace->marks.at[event->id] : NULL;
    if (begins_iteration(plan, e))
        mark(m, x,
             mr_printf(m->head->ctx, "iteration %" PRIu32,
                       mr_clock_iteration(plan->schedule, e) + 1));
    if (said && said->kind == MR_STEP_BEGIN && plan->steps)
        mark(m, x, name_step(m->head->ctx, plan, e, said));
}

static void mark_phase(marker *m, const marking *plan, double x, uint32_t e, mr_phase *phase)
{
    const mr_trace *trace = plan->schedule->trace;
    const mr_event *event = &plan->schedule->events.at[e];
    const mr_mark *said = event->kind == MR_MARK ? &trace->marks.at[event->id] : NULL;
    if (said && said->kind == MR_PHASE_BEGIN && plan->phase_lines)
        mark(m, x, plan->phases ? said->name : " ");
    if (event->kind == MR_RUN && !plan->phase_marks && plan->phase_lines
        && begins_phase(&trace->ops.at[event->id], phase))
        mark(m, x, plan->phases ? mr_phase_name(*phase) : " ");
}

static void add_marks(mr_head *head, const mr_figure *figure, uint32_t p)
{
    const mr_answer *answer = figure->panels.at[p].answer;
    const mr_schedule *schedule = &answer->schedule;
    const marking plan = plan_marks(schedule);
    mr_clock clock = mr_clock_start(figure, answer);
    marker steps = {.head = head, .panel = p + 1, .end = figure->x_end}, phases = steps;
    phases.row = tells_steps(&plan) && plan.phases;
    mr_phase phase = MR_OTHER;
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        mark_step(&steps, &plan, clock.x, e);
        mark_phase(&phases, &plan, clock.x, e, &phase);
        if (e == answer->placement.oom_at) {
            put_mark(&steps, clock.x, "out of memory", true);
            break; /* nothing comes behind it */
        }
        mr_clock_past(&clock, e + 1);
    }
    write_mark(&steps);
    write_mark(&phases);
}

/* ---- the table -------------------------------------------------------------------------- */

static bool find_roles(const mr_figure *figure, bool *roles)
{
    bool known = false;
    for (uint32_t p = 0; p < figure->panels.n; p++) {
        const mr_trace *trace = &figure->panels.at[p].answer->trace;
        for (uint32_t s = 0; s < trace->storages.n; s++) {
            if (trace->storages.at[s].device != figure->cuda_device) continue;
            roles[trace->storages.at[s].role] = true;
            known |= trace->storages.at[s].role != MR_ROLE_unknown;
        }
    }
    if (!known) memset(roles, 0, MR_ROLE_N * sizeof *roles);
    return known;
}

/* Columns that are painted on top of each other, and the colour of each. */
static void add_stacks(mr_head *head, const bool *roles, bool known)
{
    enum { ALLOCATED_COLUMN = 4, FIRST_ROLE_COLUMN = 6 };
    if (!known) mr_head_add(head, "stack\t%d\tallocated\t1", ALLOCATED_COLUMN);
    int column = FIRST_ROLE_COLUMN;
    for (size_t i = 0; i < MR_COUNT(order); i++)
        if (roles[order[i]])
            mr_head_add(head, "stack\t%d\t%s\t%" PRIu32, column++, mr_role_plural(order[i]),
                        mr_hue_of_role(order[i]));
}

static void add_limits(mr_ctx *ctx, const mr_figure *figure, mr_head *head)
{
    uint64_t high = 1;
    for (uint32_t p = 0; p < figure->panels.n; p++)
        if (figure->panels.at[p].answer->metrics.peak_reserved > high)
            high = figure->panels.at[p].answer->metrics.peak_reserved;
    mr_head_add(head, "y\t%" PRIu64, high);
    if (figure->scene->capacity != UINT64_MAX)
        mr_head_add(head, "limit\t%" PRIu64 "\tcapacity %s", figure->scene->capacity,
                    mr_show_bytes(ctx, figure->scene->capacity));
}

void mr_plot_timeline(mr_ctx *ctx, const mr_figure *figure, mr_sink *sink)
{
    bool roles[MR_ROLE_N] = {false};
    const bool known = find_roles(figure, roles);
    mr_head head = mr_head_begin(ctx, figure, "Memory over time");
    add_limits(ctx, figure, &head);
    add_stacks(&head, roles, known);
    for (uint32_t p = 0; p < figure->panels.n; p++) add_marks(&head, figure, p);
    mr_head_write(&head, sink);
    mr_sink_print(sink, "panel,x,requested,allocated,reserved");
    for (size_t i = 0; i < MR_COUNT(order); i++)
        if (roles[order[i]]) mr_sink_print(sink, ",%s", mr_role_name(order[i]));
    mr_sink_print(sink, "\n");
    for (uint32_t p = 0; p < figure->panels.n; p++) write_panel(figure, p, roles, sink);
}
