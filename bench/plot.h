/* plot.h -- figures: what they show of some answers, and who draws it.
 *
 * A figure is a table (DIR/NAME.csv) and one gnuplot file of plots/ that draws it.  Everything
 * it shows is in the table, which begins with a head of texts, see plots/style.gp.
 */
#ifndef MR_PLOT_H
#define MR_PLOT_H

#include "commands.h"
#include "report.h"

typedef struct mr_panel { /* one spec */
    const char *spec;
    const mr_answer *answer;
    const uint8_t *hue_of_maker; /* by storage; NULL unless colours say who asked */
} mr_panel;

#define MR_SIZE_CLASSES 6

/* What the colour of a block says. */
typedef enum mr_colouring { MR_BY_SIZE, MR_BY_ROLE, MR_BY_STACK, MR_BY_STREAM } mr_colouring;

typedef struct mr_figure {
    const mr_scene *scene;
    uint32_t cuda_device;
    bool by_time;  /* x is the time of the recording in ns, not a number of events */
    bool numbered; /* which then is that of the recording: no panel rewrites or repeats it */
    double x_end; /* largest x of all panels */
    mr_colouring colouring;
    uint64_t size_class[MR_SIZE_CLASSES]; /* largest block of each */
    mr_words makers;                      /* who have colours of their own */
    MR_VEC(mr_panel) panels;
} mr_figure;

/* ---- where a command stands on the x axis ----------------------------------------------- */

/* Goes through the commands of a placement, knows which event of the schedule each serves. */
typedef struct mr_clock {
    const mr_answer *answer;
    bool by_time, timed; /* timed: the recording has a time for every event; else ops have */
    bool numbered;
    uint32_t event;    /* events that are over */
    uint32_t recorded; /* the same in the recording, with drops and events of other devices */
    uint32_t begin;    /* number of the last one that is over; a derived one's is its op's */
    uint64_t ns;
    double x;
} mr_clock;

/* True when the answer's events have times: ops that were measured, or events of a recording
 * that is neither rewritten nor repeated. */
bool mr_clock_knows_time(const mr_figure *figure, const mr_answer *answer);
bool mr_clock_knows_numbers(const mr_figure *figure, const mr_answer *answer);
mr_clock mr_clock_start(const mr_figure *figure, const mr_answer *answer);
/* Moves on to the event that command `c` serves; x is where that begins. */
void mr_clock_to(mr_clock *clock, uint32_t c);
/* Moves on until `event` events are over; x is where the last of them ends. */
void mr_clock_past(mr_clock *clock, uint32_t event);
double mr_clock_end(const mr_figure *figure); /* for x_end */
/* Counted from 0; what stands at a seam belongs to the one behind it. */
uint32_t mr_clock_iteration(const mr_schedule *schedule, uint32_t event);

/* ---- colours ---------------------------------------------------------------------------- */

/* All colours are numbers from 1 to MR_HUES, places in the palette of plots/style.gp. */
#define MR_HUES 9

uint32_t mr_hue_of_role(mr_role role);
/* Of the block that a BIND gives away. */
uint32_t mr_hue_of(const mr_figure *figure, const mr_trace *trace, const mr_cmd *bind);
/* Chooses the classes of sizes after the largest storage, and who asked for most. */
void mr_hues_prepare(mr_ctx *ctx, mr_figure *figure);

/* ---- heads ------------------------------------------------------------------------------ */

/* Lines of a head, gathered because the first of them says how many there are. */
typedef struct mr_head {
    mr_ctx *ctx;
    mr_words lines;
} mr_head;

/* Fields are separated by tabs: mr_head_add(&head, "title\t%s", text). */
void mr_head_add(mr_head *head, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A text of the recording, without what would end its field, cut behind so many letters. */
const char *mr_head_text(mr_ctx *ctx, const char *text, size_t most);
void mr_head_write(const mr_head *head, mr_sink *sink);
void mr_head_add_hues(mr_head *head, const mr_figure *figure); /* the legend of blocks */
/* Title, recording and device, the x axis, a line per panel. */
mr_head mr_head_begin(mr_ctx *ctx, const mr_figure *figure, const char *title);

/* ---- files -------------------------------------------------------------------------------- */

/* With all folders on the way to it, where they are missing. */
mr_status mr_folder_make(mr_ctx *ctx, const char *path);

/* ---- the figures ------------------------------------------------------------------------ */

void mr_plot_timeline(mr_ctx *ctx, const mr_figure *figure, mr_sink *sink);
void mr_plot_space(mr_ctx *ctx, const mr_figure *figure, mr_sink *sink);
void mr_plot_peaks(mr_ctx *ctx, const mr_figure *figure, mr_sink *sink);

/* ---- drawing ---------------------------------------------------------------------------- */

typedef struct mr_pen mr_pen;

/* Unpacks the gnuplot files that are built into the program. */
mr_status mr_pen_new(mr_ctx *ctx, mr_pen **out);
/* Draws `data` with plots/<name>.gp into `out`, which ends with .svg or .png. */
mr_status mr_pen_draw(mr_pen *pen, const char *name, const char *data, const char *out);
void mr_pen_drop(mr_pen *pen);

#endif
