/* account.h -- who holds memory at a moment of a schedule, and what its ops and modules cost.
 *
 * Every live byte belongs to one module, every operation to one, every byte saved for the
 * backward pass to one: the sums of a division, by modules or kinds or layers, are the whole.
 */
#ifndef MR_ACCOUNT_H
#define MR_ACCOUNT_H

#include "schedule.h"

typedef struct mr_live {
    bool *is; /* by storage */
    uint64_t bytes;
    uint32_t n;
} mr_live;

/* What is live after the first `events` events. */
mr_live mr_live_after(mr_ctx *ctx, const mr_schedule *schedule, uint32_t events);

typedef struct mr_stretch { /* events [first, end) of a schedule, such as a step */
    uint32_t first, end;
} mr_stretch;

/* Ops that a storage met, by storage; MR_NONE for none. */
typedef struct mr_ledger {
    const mr_schedule *schedule;
    mr_stretch stretch;
    mr_live live;
    uint32_t *maker;  /* the first that returned it; none for what was there before */
    uint32_t *saver;  /* of the stretch, the first that kept it for the backward pass */
    uint32_t *reader; /* the last that reads it */
    uint8_t *as;      /* mr_saved_as, where there is a saver */
} mr_ledger;

/* `events` is the moment whose live storages are asked for.  Parameters and inputs are kept
 * anyway: they count as saved by nobody, as does what is made again for the backward pass. */
mr_ledger mr_ledger_make(mr_ctx *ctx, const mr_schedule *schedule, mr_stretch stretch,
                         uint32_t events);

typedef struct mr_cost {
    uint32_t ops;                      /* of the stretch: their number, */
    uint64_t ns, flops, read, written; /* and what they say of themselves */
    uint64_t made;                     /* bytes of the storages that they made */
    uint64_t saved, saved_per_sample;  /* bytes that they kept for the backward pass */
    uint64_t parameters;               /* bytes */
    uint64_t live;                     /* bytes at the moment */
    uint32_t live_n;
} mr_cost;

typedef struct mr_group {
    const char *name;       /* a module's path, "" for the whole; the name of a kind's ops */
    uint32_t call;          /* of a layer: how often it had been called before */
    uint32_t parent, depth; /* of a module: the one around it, MR_NONE for the whole */
    mr_cost own, all;       /* without and with the modules inside it */
} mr_group;

typedef MR_VEC(mr_group) mr_groups;

/* The tree of modules: the whole comes first, every module before those inside it, and siblings
 * in the order in which they run.  What has no module is the whole's own. */
mr_groups mr_account_modules(mr_ctx *ctx, const mr_ledger *ledger);

/* Ops by name; the first group, named "", is of what no op made. */
mr_groups mr_account_kinds(mr_ctx *ctx, const mr_ledger *ledger);

/* Calls of layers in the order of their first ops; the first group, named "", is of no module,
 * and of what no op made.  A layer is a module as deep as `depth` says; 0: down to the first
 * number in its path, as in `blocks.7`, or one deep where there is none. */
mr_groups mr_account_layers(mr_ctx *ctx, const mr_ledger *ledger, uint32_t depth);

#endif
