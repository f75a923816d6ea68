/* dtr.h -- a step that runs under a budget of memory, as the simulator of the DTR
 * paper runs it.
 *
 *     dtr_program   what would run: ops, tensors, storages and the ends of references, made
 *                   once from a trace and shared by all runs
 *     dtr_run       one execution of it under a budget: what is in memory, what was evicted
 *
 * A tensor belongs to one storage.  A storage is evicted as a whole and takes the values of all
 * its tensors along; what is needed again is computed again, with all it needs.
 */
#ifndef DTR_H
#define DTR_H

#include "trace.h"

/* ---- program ----------------------------------------------------------------------------- */

typedef struct dtr_tensor {
    uint32_t storage, op;
    uint64_t bytes; /* that its op adds to memory for it: 0 for a view */
    bool costs;     /* the first tensor of its op in its storage */
} dtr_tensor;

typedef struct dtr_storage {
    uint64_t bytes;
    uint32_t of;       /* storage of the trace */
    uint32_t op;       /* that makes it */
    bool constant;     /* never evicted */
    bool kept;         /* must be there at the end */
    mr_ids tensors;    /* as they come to be */
    /* Without constants, each storage once, as the ops that tie them come to be. */
    mr_ids parents, children;
    mr_ids readers; /* ops, ascending */
} dtr_storage;

typedef struct dtr_tie {
    uint32_t parent, child; /* storages */
} dtr_tie;

typedef struct dtr_op {
    uint64_t ns;
    uint64_t bytes;     /* of its fresh outputs */
    uint64_t workspace; /* beside them, while it runs */
    uint32_t of;        /* op of the trace; MR_NONE for what is there before it */
    uint32_t kind;      /* the same for ops of one name */
    bool constant;
    mr_ids in, out;     /* tensors */
    mr_ids takes;       /* storages whose memory its outputs take over */
    mr_ids spoils;      /* constants that it changes in place */
    uint32_t ties, ties_n; /* that come with it */
} dtr_op;

typedef enum dtr_step_kind {
    DTR_RUN,     /* op */
    DTR_RELEASE, /* storage: the last reference to it ends */
} dtr_step_kind;

typedef struct dtr_step {
    dtr_step_kind kind;
    uint32_t id;
    uint32_t event; /* of the trace; MR_NONE before the first one */
} dtr_step;

/* What an op does that changes a tensor. */
typedef enum dtr_change {
    DTR_COPIES,   /* it makes a new one; what shares memory with the old keeps that: simrd */
    DTR_IN_PLACE, /* as recorded: the new one takes over the memory, all views show it */
} dtr_change;

typedef struct dtr_program {
    const mr_trace *trace;
    dtr_change change;
    MR_VEC(dtr_op) ops;
    MR_VEC(dtr_tensor) tensors;
    MR_VEC(dtr_storage) storages;
    MR_VEC(dtr_tie) ties;
    MR_VEC(dtr_step) steps;
    MR_VEC(uint32_t) kept; /* tensors that must be there at the end, in this order */
} dtr_program;

mr_status dtr_program_make(mr_ctx *ctx, const mr_trace *trace, dtr_change change,
                           dtr_program *out);

/* Without a budget, when a storage goes with the last reference to it: most bytes at once. */
uint64_t dtr_live_peak(const dtr_program *program);
uint64_t dtr_compute_ns(const dtr_program *program); /* of all ops */
uint64_t dtr_taken_bytes(const dtr_program *program, const dtr_op *op);

/* ---- scores ------------------------------------------------------------------------------ */

/* What evicting a storage is taken to cost, before its size and staleness divide it. */
typedef enum dtr_cost {
    DTR_COST_NONE,      /* 1 */
    DTR_COST_LOCAL,     /* its own ops */
    DTR_COST_CLASS,     /* and those of the classes of evicted storages next to it */
    DTR_COST_ANCESTORS, /* and those of evicted storages that must be made before it */
    DTR_COST_REGION,    /* and those of evicted storages that wait for it, too */
} dtr_cost;

typedef struct dtr_heuristic {
    enum { DTR_SCORED, DTR_OLDEST, DTR_DRAWN } rule;
    dtr_cost cost;
    bool size, stale; /* divided by them */
    bool ahead;       /* divided by the time to the next reader, which only a recording knows */
} dtr_heuristic;

/* The heuristics by name, and by the name of simrd's class. */
typedef struct dtr_name {
    const char *word, *simrd;
    dtr_heuristic heuristic;
} dtr_name;

extern const dtr_name dtr_names[];
extern const uint32_t dtr_names_n;
const dtr_name *dtr_find_name(const char *text); /* either name; NULL: there is none */

/* n / (size * stale) as Python divides whole numbers: correctly rounded. */
double dtr_quotient(int64_t n, uint64_t size, uint64_t stale);

/* ---- run --------------------------------------------------------------------------------- */

typedef enum dtr_dealloc {
    DTR_IGNORE, /* a released storage stays until it is evicted */
    DTR_EAGER,  /* it is evicted at once, and may be computed again */
    DTR_BANISH, /* it is gone for good once nothing evicted was made from it */
} dtr_dealloc;

/* What the budget is. */
typedef enum dtr_memory {
    DTR_SUM,    /* a sum of bytes: simrd */
    DTR_HOLE,   /* addresses; storages are evicted until an output finds a place */
    DTR_WINDOW, /* addresses; neighbours are evicted together: Coop */
} dtr_memory;

/* How what was evicted comes back. */
typedef enum dtr_way {
    DTR_RECOMPUTE,
    DTR_SWAP, /* from a copy on the host */
    DTR_BOTH, /* whichever costs less time: Capuchin */
} dtr_way;

typedef struct dtr_options {
    uint64_t budget; /* bytes; UINT64_MAX for no limit */
    uint64_t limit;  /* ns of recomputing that are one too many; UINT64_MAX for no limit */
    dtr_heuristic heuristic;
    dtr_dealloc dealloc;
    uint64_t seed;
    const float *weights; /* by storage, scores are multiplied by them; NULL: by 1 */
    dtr_memory memory;
    dtr_way way;
    uint64_t link; /* bytes per second to the host, and as many back */
    double doubt;  /* of DTR_BOTH: the price of a swap is multiplied by it */
    bool sample; /* scores only some of those that may go, as the prototype on GPUs does */
} dtr_options;

typedef enum dtr_result { DTR_PASS, DTR_OOM, DTR_THRASH } dtr_result;

/* What happened, in order: enough to write the rewritten trace down. */
typedef enum dtr_deed_kind {
    DTR_RAN,     /* op: for the first time */
    DTR_RERAN,
    DTR_EVICTED,  /* storage */
    DTR_RELEASED, /* storage: evicted because nothing refers to it any more */
    DTR_TAKEN,    /* storage: its memory has another's value now */
    DTR_FETCHED,  /* storage: its copy comes back from the host */
} dtr_deed_kind;

typedef struct dtr_deed {
    dtr_deed_kind kind;
    uint32_t id;
    uint32_t step; /* of the program, being done then; behind the last one for what is kept */
} dtr_deed;

typedef struct dtr_sending { /* a storage is copied to the host */
    uint32_t storage, deed;  /* right before that one */
} dtr_sending;

typedef struct dtr_report {
    dtr_result result;
    uint64_t clock;       /* ns, begins at 1 */
    uint64_t compute;     /* ns of ops that run for the first time */
    uint64_t remat;       /* ns of ops that run again */
    uint64_t peak;        /* bytes */
    uint64_t evaluations; /* of scores */
    uint64_t stall;       /* ns in which copies were waited for */
    uint64_t evictions, remats, fetches;
    uint64_t accesses; /* to storages, to score them and to know their evicted neighbours */
    uint64_t top;      /* where the highest storage ended, when addresses are the budget */
    uint32_t steps;       /* how many of the program were done */
    MR_VEC(dtr_deed) deeds;
    MR_VEC(dtr_sending) sendings;
} dtr_report;

/* Deeds are written down if `deeds` is true. */
void dtr_run_program(mr_ctx *ctx, const dtr_program *program, const dtr_options *options,
                     bool deeds, dtr_report *out);

/* ---- looking ahead ----------------------------------------------------------------------- */

/* The best of many runs: with all heuristics, then with weights that are changed a little
 * from the best run so far, `tries` times.  False when none passed; then `out` is the one
 * that got furthest. */
bool dtr_search(mr_ctx *ctx, const dtr_program *program, const dtr_options *options,
                uint32_t tries, dtr_report *out);

/* The run that computes again and waits least, of those that swap more or less readily when
 * options->way is DTR_BOTH, and that look ahead or not.  One that goes furthest, if none
 * passes. */
void dtr_swap_search(mr_ctx *ctx, const dtr_program *program, const dtr_options *options,
                     dtr_report *out);

/* What no plan can beat, online or offline. */
typedef struct dtr_bound {
    uint64_t bytes; /* largest sum that one op needs at once, with all constants */
    uint32_t bytes_op; /* the op of the program; MR_NONE: what is kept at the end */
    uint64_t remat; /* ns that must be computed again under the budget */
    uint32_t remat_op; /* op during which most does not fit at the cheapest; MR_NONE */
    bool *away;        /* by storage: those that would be cheapest to do without then */
    bool *flooded;     /* and with what those read, at the op that proves most alone */
} dtr_bound;

void dtr_find_bound(mr_ctx *ctx, const dtr_program *program, uint64_t budget, dtr_bound *out);

/* Writes a run that passed down as a trace.  The program must change in place.  Where addresses
 * were the budget (`lazy`), what was evicted is held until then, as the run held it. */
mr_status dtr_write(mr_ctx *ctx, const dtr_program *program, const dtr_report *report,
                    bool lazy, mr_trace *out);

#endif
