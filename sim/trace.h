/* trace.h -- a recorded step: storages, tensors, ops, events, and what the
 * recording knows beside.
 *
 * Two kinds share one type (and one file format, see traces/README.md):
 *
 *     operator trace     ops with their tensors: rewrites and placements work on it; lifetimes
 *                        are derived from dataflow, drops and saved sets (schedule.h)
 *     allocation trace   ALLOC and FREE as an allocator saw them: only placements work on it
 *
 * A *storage* is memory; a *tensor* is a view of one storage.  Things refer to each
 * other by index.
 */
#ifndef MR_TRACE_H
#define MR_TRACE_H

#include "memory.h"

/* ---- what a recording says of itself --------------------------------------------------- */

/* name of the field in a file, what it means */
#define MR_ABOUT_LIST(X)                                                                \
    X(model, "what was trained or run")                                                 \
    X(framework, "program that ran it, such as pytorch")                                \
    X(framework_version, "its version")                                                 \
    X(device, "device it ran on, or fake")                                              \
    X(precision, "such as float32, bfloat16, amp-float16")                              \
    X(batch, "samples in a step")                                                       \
    X(sequence, "tokens per sample")                                                    \
    X(image, "pixels along one side of a sample")                                       \
    X(optimizer, "such as adamw, sgd")                                                  \
    X(recorder, "program that made the recording")                                      \
    X(recorder_version, "its version")                                                  \
    X(date, "day of the recording, year-month-day")                                     \
    X(steps, "number of steps recorded")                                                \
    X(allocator, "settings of the allocator, as in PYTORCH_CUDA_ALLOC_CONF")

typedef enum mr_about {
#define X(name, text) MR_ABOUT_##name,
    MR_ABOUT_LIST(X)
#undef X
        MR_ABOUT_N
} mr_about;

const char *mr_about_name(mr_about field);
const char *mr_about_meaning(mr_about field);

/* ---- storages and tensors -------------------------------------------------------------- */

/* role of a tensor: name in a file, plural for a report */
#define MR_ROLE_LIST(X)                       \
    X(unknown, "unknown")                     \
    X(parameter, "parameters")                \
    X(buffer, "buffers")                      \
    X(input, "inputs")                        \
    X(gradient, "gradients")                  \
    X(activation, "activations")              \
    X(state, "optimizer state")               \
    X(temporary, "temporaries")

typedef enum mr_role {
#define X(name, text) MR_ROLE_##name,
    MR_ROLE_LIST(X)
#undef X
        MR_ROLE_N
} mr_role;

const char *mr_role_name(mr_role role);
const char *mr_role_plural(mr_role role);

/* Devices that are memory of the host, which nothing places.  Pinned memory can be copied to
 * and from while everything else goes on. */
enum { MR_PINNED = UINT16_MAX - 1, MR_PAGEABLE = UINT16_MAX };

typedef struct mr_storage {
    uint64_t bytes;      /* asked for, before any rounding by an allocator */
    uint64_t per_sample; /* part of bytes that one more sample adds; 0 where unknown or fixed */
    uint32_t stream;     /* index into trace->streams: memory is reused within a stream first */
    uint32_t pool;       /* private pool (CUDA graph, MemPool) it must come from; 0: default */
    uint32_t stack;      /* index into trace->stacks: who asked for it; MR_NONE unknown */
    uint16_t device;     /* number of the device, as CUDA counts them; or memory of the host */
    uint8_t role;        /* mr_role */
    bool before;         /* live before the first event */
    bool after;          /* live after the last event */
    bool deferred;       /* its FREE takes effect only at a later DONE event */
    bool refused;        /* the recorded run was out of memory at this request */
    bool workspace;      /* of `op`, in no file: see mr_schedule_workspaces */
    uint32_t op;
} mr_storage;

typedef struct mr_tensor {
    const char *name;  /* "" where there is none */
    const char *dtype; /* as the framework spells it, such as float32; "" unknown */
    uint32_t storage;
    uint32_t rank; /* number of dimensions */
    const uint64_t *shape;
    uint64_t offset; /* bytes into the storage */
    uint64_t bytes;  /* really needed by the tensor */
    uint8_t role;    /* mr_role */
} mr_tensor;

/* ---- ops --------------------------------------------------------------------------------- */

typedef enum mr_phase { MR_OTHER, MR_FORWARD, MR_BACKWARD, MR_UPDATE } mr_phase;
const char *mr_phase_name(mr_phase phase); /* "other", "forward", ... */

typedef enum mr_saved_as { MR_SAVED_INPUT, MR_SAVED_OUTPUT, MR_SAVED_MASK } mr_saved_as;
const char *mr_saved_name(mr_saved_as as); /* "input", "output", "mask" */

typedef struct mr_saved {
    uint32_t tensor;
    mr_saved_as as;
} mr_saved;

typedef struct mr_ids {
    uint32_t *at, n;
} mr_ids;

/* Part of a device that carries an op out.  A transfer moves the larger of what the op reads
 * and what it writes: all of the tensor, whatever share of it a rank holds.  `wait` does
 * nothing but that its stream waits for what it reads; what it puts out is taken then. */
#define MR_ENGINE_LIST(X)                                                                \
    X(compute) X(to_host) X(from_host) X(all_reduce) X(reduce_scatter) X(all_gather)     \
    X(broadcast) X(wait)

typedef enum mr_engine {
#define X(name) MR_ENGINE_##name,
    MR_ENGINE_LIST(X)
#undef X
        MR_ENGINE_N
} mr_engine;
const char *mr_engine_name(mr_engine engine); /* "compute", "to_host", ... */

typedef struct mr_op {
    const char *name;   /* aten name for PyTorch */
    const char *module; /* path of the module that ran it; "" outside of any */
    uint32_t call;      /* how many times that module had been called before in this step */
    uint32_t stream;
    mr_phase phase;
    bool random;   /* draws random numbers */
    uint32_t again; /* op this one recomputes, MR_NONE for an original */
    /* Op of the forward pass whose gradient this one helps to compute: what that op
     * saved is let go after the last such op.  MR_NONE outside of the backward pass
     * and where unknown. */
    uint32_t of;
    uint8_t engine;     /* mr_engine */
    uint32_t ranks;     /* of a collective engine: how many devices take part */
    uint64_t ns;        /* measured duration; 0 when not measured */
    uint64_t flops, flops_per_sample;
    uint64_t read, written; /* bytes */
    uint64_t workspace;     /* bytes taken and given back inside the op, where known */
    mr_ids in, out, mutates; /* tensors */
    struct {
        mr_saved *at;
        uint32_t n;
    } saved; /* kept for the backward pass by this op */
    /* What rewrites say of their ops; no file has it, and usually all of it is zero.
     * part, counted from 1: one of the micro-batches or chunks in which op `origin` is done.
     * moves: result k is the value of input k elsewhere, or scaled: a copy, a cast.
     * sums: adds its second input, a value's part, to what its first input holds of the parts
     * before, or behind; after all of them that is the whole value.
     * cuts: its results are the parts of what it reads, one after another.
     * joins: its inputs are all parts of a value, one after another, its result is the whole.
     * added: no recording had it, so that nobody measured how long it takes. */
    uint32_t part, origin;
    bool moves, sums, cuts, joins, added;
} mr_op;

/* ---- events ------------------------------------------------------------------------------ */

typedef enum mr_event_kind {
    MR_ALLOC, /* storage */
    MR_FREE,  /* storage: released by the program */
    MR_DONE,  /* storage: a deferred free has taken effect (see mr_storage.deferred) */
    MR_RUN,   /* op */
    MR_DROP,  /* tensor: the program's own last reference to it ended */
    MR_FLUSH, /* the program asked the allocator to give back what it caches (empty_cache) */
    MR_MARK,  /* mark */
    MR_CARRY, /* a pair of schedule->carries: one storage's block goes to another, no copy */
} mr_event_kind;

typedef struct mr_event {
    mr_event_kind kind;
    uint32_t id; /* of the thing named above; the device for FLUSH */
} mr_event;

typedef enum mr_mark_kind {
    MR_STEP_BEGIN,
    MR_STEP_END,
    MR_PHASE_BEGIN,
    MR_PHASE_END,
    MR_REGION_BEGIN,
    MR_REGION_END,
    MR_NOTE,
} mr_mark_kind;
const char *mr_mark_kind_name(mr_mark_kind kind); /* "step-begin", ... */

typedef struct mr_mark {
    mr_mark_kind kind;
    const char *name;
} mr_mark;

typedef struct mr_frame { /* one line of the program that asked for memory */
    const char *file, *function;
    uint32_t line;
} mr_frame;

typedef struct mr_stack {
    uint32_t *at, n; /* frames, innermost first */
} mr_stack;

/* ---- what really happened on one device -------------------------------------------------- */

typedef struct mr_history {
    uint32_t device;
    MR_VEC(mr_segment) segments; /* all that occur; `held` first */
    uint32_t held;               /* how many existed before the first event */
    mr_pieces start;             /* pieces that tile the held segments before the first event */
    mr_cmds cmds;                /* what the real allocator did from then on */
    mr_pieces end;               /* after the last event, for segments that are left */
    /* Device memory that this process could have, from what succeeded and what failed:
     * low <= capacity < high; high is UINT64_MAX when nothing ever failed. */
    uint64_t capacity_low, capacity_high;
    bool wrapped; /* the recording lost its beginning: peaks are lower bounds */
} mr_history;

/* ---- what a rewrite says of its trace ---------------------------------------------------- */

/* Ops of the trace before the rewrite that are not run any more: `op` of the new trace does the
 * work of all of them, and tensor gives.at[i] of it holds the value that tensor holds.at[i] had
 * when the last of them had run.  Without an op (MR_NONE) the work is left out on purpose. */
typedef struct mr_stand_in {
    uint32_t op;
    mr_ids ops;         /* of the trace before */
    mr_ids gives, holds; /* equally many tensors: of the new trace, of the trace before */
} mr_stand_in;

/* What storage `gone` of the trace before held before the first event is what `kept` holds, in
 * its place: a parameter that two have in common, or state of one. */
typedef struct mr_shared {
    uint32_t kept, gone; /* storages of the trace before */
} mr_shared;

/* A new storage that holds before the first event what another one does: in another precision,
 * say.  After the last event it must hold again what that holds. */
typedef struct mr_copied {
    uint32_t copy, of; /* storages: of the new trace, of the trace before */
} mr_copied;

/* ---- the trace --------------------------------------------------------------------------- */

/* What a recording may or may not contain; strategies say which they need. */
enum {
    MR_HAS_DATAFLOW = 1, /* ops with inputs and outputs */
    MR_HAS_PHASES = 2,   /* ops know forward, backward, update */
    MR_HAS_TIMES = 4,    /* ops have measured durations */
    MR_HAS_SAVED = 8,    /* ops know what they saved for backward */
    MR_HAS_DROPS = 16,   /* DROP events */
    MR_HAS_HISTORY = 32, /* what the real allocator did */
};

typedef struct mr_trace {
    const char *name; /* file it came from, without folder */
    unsigned has;
    uint32_t ranks; /* devices that share the step, of which this is one; 0 where one does it */
    bool evicts;    /* a rewrite has let go of what autograd had saved, as memory ran out */
    const char *about[MR_ABOUT_N]; /* NULL where the recording does not say */
    MR_VEC(const char *) notes;    /* what is missing or doubtful, a sentence each */
    MR_VEC(uint64_t) streams;      /* handles, ascending; the default stream's is 0 */
    MR_VEC(mr_storage) storages;
    MR_VEC(mr_tensor) tensors;
    MR_VEC(mr_op) ops;
    MR_VEC(mr_event) events;
    MR_VEC(uint64_t) times; /* ns since the first event, one per event; empty: not recorded */
    MR_VEC(mr_mark) marks;
    MR_VEC(mr_frame) frames;
    MR_VEC(mr_stack) stacks;
    MR_VEC(uint64_t) pools; /* ids of private pools as recorded; at[0]: the default's 0 */
    MR_VEC(mr_history) histories; /* at most one per device */
    MR_VEC(mr_stand_in) stand_ins; /* of the last rewrite */
    MR_VEC(mr_shared) shared;      /* of the last rewrite */
    MR_VEC(mr_copied) copies;      /* of the last rewrite */
    MR_VEC(const char *) remarks;  /* of all rewrites: what was refused and why, in sentences */
} mr_trace;

/* A trace with the default stream and the default pool, nothing else. */
void mr_trace_init(mr_ctx *ctx, mr_trace *trace, const char *name);

/* Copies arrays, shares strings and id lists; a rewrite changes the copy. */
void mr_trace_copy(mr_ctx *ctx, const mr_trace *in, mr_trace *out);

/* How many numbers a tensor has, by its shape. */
uint64_t mr_tensor_numbers(const mr_tensor *tensor);

/* Bytes of a number by the name of its type; 0 where that is not known. */
uint64_t mr_dtype_bytes(const char *dtype);

/* What a reader of all its numbers reads: less than it spans where others lie between, as in
 * the first token of every sample. */
uint64_t mr_tensor_touched(const mr_tensor *tensor);

/* The history of a device, NULL when it was not recorded. */
const mr_history *mr_trace_history(const mr_trace *trace, uint32_t device);

/* Are lifetimes recorded by ALLOC and FREE events, not to be derived from ops? */
bool mr_trace_knows_lives(const mr_trace *trace);

bool mr_is_host(uint32_t device);

/* Devices that storages live on, without the host, ascending, as an array of *n numbers. */
const uint32_t *mr_trace_devices(mr_ctx *ctx, const mr_trace *trace, uint32_t *n);

/* The referee of traces: indices in range, no storage allocated twice or freed while not live,
 * no op reads a tensor nobody wrote, tensors lie inside their storage.  Shares no code with
 * readers and rewrites; MR_EINPUT with the number of the event, what was found and expected. */
mr_status mr_trace_check(mr_ctx *ctx, const mr_trace *trace);

#endif
