/* dtr_internal.h -- the state of a run, and what its parts ask of each other. */
#ifndef DTR_INTERNAL_H
#define DTR_INTERNAL_H

#include "dtr.h"
#include "dtr_set.h"

/* What can be reached from a storage through evicted ones, in one direction: children or
 * parents.  Kept up to date by evictions and rebuilt by computations that touch it, and in
 * between as old as simrd lets it be. */
typedef struct dtr_region {
    dtr_set inside;   /* evicted */
    dtr_set frontier; /* in memory: where the search ended */
    uint64_t ns;      /* of those inside */
    bool late;        /* it does not know a tie of its storage yet */
} dtr_region;

typedef struct dtr_node { /* of a forest of classes of storages that were evicted together */
    uint32_t parent;
    uint32_t seen;
    int64_t ns; /* of a root: of its class */
} dtr_node;

typedef struct dtr_state { /* of a storage */
    uint64_t ns;       /* of its ops so far */
    uint64_t accessed; /* clock */
    uint32_t locks;
    uint32_t prev, next; /* in the pool */
    uint32_t parents_n, children_n, tensors_n; /* so far */
    uint32_t node;       /* of its class while evicted; MR_NONE */
    uint32_t seen;       /* by which search */
    uint32_t taker;      /* 1 + the storage that has its memory now; 0 for none */
    uint32_t reader;     /* index of the next one, as far as that was asked for */
    bool present, pinned, pooled;
    bool hosted; /* there is a copy on the host */
    bool grown;    /* got one more op while it was away */
    bool released; /* nothing refers to it any more */
    bool held;     /* locked until then, since it cannot be computed again */
} dtr_state;

typedef struct dtr_frame { /* a tensor that is being computed, and what it still waits for */
    uint32_t tensor, op;
    uint32_t missing, end; /* of run->missing */
    bool again;
} dtr_frame;

typedef struct dtr_kin dtr_kin;
typedef struct dtr_space dtr_space;
typedef struct dtr_swap dtr_swap;

typedef struct dtr_run {
    mr_ctx *ctx;
    const dtr_program *program;
    const dtr_options *options;
    dtr_report *report;
    bool deeds;
    uint64_t used;
    bool *defined;     /* by tensor */
    dtr_state *states; /* by storage */
    uint32_t pool_first, pool_last, pooled; /* storages that may be evicted, oldest first */
    MR_VEC(dtr_frame) frames;
    MR_VEC(uint32_t) missing;
    MR_VEC(uint32_t) fresh; /* storages that the op of the moment brought back */
    MR_VEC(uint32_t) came;  /* tensors that it did */
    uint64_t random;
    uint32_t step;
    uint32_t op; /* the last one that ran for the first time, or is about to */
    uint64_t *begins; /* by op: ns of all before it; NULL when nobody looks ahead */
    /* regions: of children and of parents, by storage */
    dtr_region *below, *above;
    MR_VEC(uint32_t) stack, found, edge;
    dtr_set touched;
    uint32_t search;
    bool literal; /* rebuild all: some region may be late where it is not known */
    dtr_kin *kin; /* banishing: who was made from whom; else NULL */
    dtr_swap *swap;   /* what is on the host; NULL when nothing goes there */
    dtr_space *space; /* where all lie; NULL when the budget is a sum */
    /* classes */
    MR_VEC(dtr_node) nodes;
    uint32_t count;
} dtr_run;

/* dtr_filled.c: `last`, by tensor the event that ends its reference, becomes later. */
void dtr_hold_filled(mr_ctx *ctx, const mr_trace *trace, uint32_t *last);

/* dtr_run.c */
void dtr_write_down(dtr_run *run, dtr_deed_kind kind, uint32_t id);
void dtr_evict(dtr_run *run, uint32_t storage, dtr_deed_kind why);
bool dtr_make_room(dtr_run *run, uint64_t bytes); /* false when nothing is left to evict */
void dtr_pin(dtr_run *run, uint32_t storage);
dtr_result dtr_materialize(dtr_run *run, uint32_t op, uint32_t tensor, bool again);

/* dtr_spoil.c */
void dtr_hold(dtr_run *run, uint32_t storage);
void dtr_let_go(dtr_run *run, uint32_t storage);
/* The constants are about to lose their values, which ops before `before` have read. */
dtr_result dtr_protect(dtr_run *run, mr_ids constants, uint32_t before);

/* dtr_pool.c */
void dtr_lock(dtr_run *run, uint32_t storage);
void dtr_unlock(dtr_run *run, uint32_t storage);
void dtr_pool_add(dtr_run *run, uint32_t storage);
void dtr_pool_remove(dtr_run *run, uint32_t storage);
uint32_t dtr_choose(dtr_run *run);
/* What evicting the storage costs, whatever its size: costs may be added up. */
double dtr_loss(dtr_run *run, uint32_t storage);

/* Index of the next op of the program that reads the storage; one behind the last for none. */
uint32_t dtr_next_reader(dtr_run *run, uint32_t storage);

/* dtr_swap.c */
void dtr_swap_begin(dtr_run *run);
/* The op has run: what it has touched cannot have been sent before. */
void dtr_swap_touch(dtr_run *run, const dtr_op *op);
/* ns that swapping the storage now would cost, when computing it again costs so much. */
double dtr_swap_price(dtr_run *run, uint32_t storage, double recompute);
/* The storage is about to be evicted: sends it to the host if it is to come back from there. */
void dtr_swap_send(dtr_run *run, uint32_t storage);
bool dtr_swap_can_fetch(const dtr_run *run, uint32_t storage);
dtr_result dtr_swap_fetch(dtr_run *run, uint32_t storage);
void dtr_swap_prefetch(dtr_run *run); /* for the ops after run->op */
void dtr_swap_wait(dtr_run *run, const dtr_op *op); /* for what it reads */

/* dtr_space.c */
void dtr_space_begin(dtr_run *run);
/* Evicts until the op's outputs have places, and puts them there; false when they have none. */
bool dtr_space_make_room(dtr_run *run, const dtr_op *op);
void dtr_space_end(dtr_run *run); /* the op has run: what only it needed goes */
void dtr_space_remove(dtr_run *run, uint32_t storage);
void dtr_space_take(dtr_run *run, const dtr_op *op, uint32_t old);

/* dtr_region.c */
void dtr_regions_begin(dtr_run *run);
void dtr_regions_tie(dtr_run *run, const dtr_tie *tie); /* there is a new tie */
void dtr_regions_evict(dtr_run *run, uint32_t storage);
void dtr_regions_compute(dtr_run *run); /* run->fresh is back */

/* dtr_class.c */
void dtr_classes_create(dtr_run *run, uint32_t storage);
void dtr_classes_evict(dtr_run *run, uint32_t storage);
void dtr_classes_compute(dtr_run *run);
/* Sum over the classes of the evicted storages next to it. */
int64_t dtr_classes_around(dtr_run *run, uint32_t storage);

/* dtr_banish.c */
mr_ids dtr_parents(const dtr_run *run, uint32_t op, uint32_t tensor); /* as they are now */
void dtr_banish_begin(dtr_run *run);
void dtr_banish_create(dtr_run *run, uint32_t op);
void dtr_banish_evict(dtr_run *run, uint32_t storage);
void dtr_banish_try(dtr_run *run, uint32_t storage);
void dtr_banish_unlock(dtr_run *run, uint32_t tensor, mr_ids came);
uint64_t dtr_banish_around(dtr_run *run, uint32_t storage, bool both, uint64_t *accessed);

#endif
