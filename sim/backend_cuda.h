/* backend_cuda.h -- a device of the machine, and what the parts of its backend share. */
#ifndef MR_BACKEND_CUDA_H
#define MR_BACKEND_CUDA_H

#include "backend.h"
#include "cublas.h"
#include "kernels.h"
#include "product.h"

/* ---- memory: segments as the device has them --------------------------------------------- */

typedef struct mr_cuda_memory { /* a physical allocation */
    mr_cuda_handle handle;
    uint32_t places; /* pages that it stands behind */
} mr_cuda_memory;

typedef struct mr_cuda_page { /* of a segment: memory behind its addresses */
    uint64_t offset, bytes;
    uint32_t memory;
    bool mapped;
} mr_cuda_page;

typedef struct mr_cuda_segment {
    mr_cuda_pointer at;  /* 0: not held */
    uint64_t bytes;      /* of an expandable one, addresses: whole pages */
    bool expandable;
    MR_VEC(mr_cuda_page) pages; /* in the order of offsets */
} mr_cuda_segment;

/* ---- lanes: streams of the recording, then other devices, then copies out and in --------- */

enum { MR_CUDA_RING = 64 }; /* ends of ops that one can still wait for exactly */

typedef struct mr_cuda_lane {
    mr_cuda_stream *stream;
    mr_cuda_event *ends[MR_CUDA_RING];
    uint64_t issued; /* ops; the end of op n is ends[n % MR_CUDA_RING] */
    uint64_t *seen;  /* by lane: up to which op of it this one has waited */
    mr_cublas_handle *cublas; /* works on this stream; NULL where nothing is to be multiplied */
    mr_cuda_pointer room;     /* for it to work in */
} mr_cuda_lane;

/* Where a storage lives, and who has used it last. */
typedef struct mr_cuda_home {
    mr_block block; /* segment is MR_NONE for none */
    mr_cuda_pointer at; /* on the device; 0: not there */
    uint32_t value; /* what it holds; 0: nothing known */
    uint32_t writer;   /* lane, */
    uint64_t written;  /* and its op; 0 for none */
    uint64_t *touched; /* by lane: op that used it last */
    void *host;        /* its memory on the host, where copies have made one */
} mr_cuda_home;

/* What used a place last, when its storage was gone and no other had come. */
typedef struct mr_cuda_left {
    mr_block block;
    uint64_t *touched;
} mr_cuda_left;

/* ---- values and where they are looked at ------------------------------------------------- */

typedef struct mr_cuda_value { /* made by an op in a storage */
    uint32_t storage, op;      /* MR_NONE: was there before */
} mr_cuda_value;

typedef struct mr_cuda_site { /* a place where memory is looked at */
    uint32_t storage, op, value; /* op MR_NONE: when it was freed, or at the end */
} mr_cuda_site;

typedef struct mr_cuda {
    mr_cuda_driver driver;
    const mr_device *model;
    const mr_trace *trace;
    mr_manner manner;
    char name[128];
    int gpu, processors;
    mr_cuda_context *context;
    bool inside; /* it is current */
    mr_gpu_watch *watch; /* NULL: nothing can be asked */
    uint64_t granularity;
    mr_cuda_pointer filler, report;
    mr_cuda_module *module;
    mr_cuda_function *job, *spin, *clock;
    double cycles_per_ns;
    mr_cublas cublas;
    mr_cuda_pointer scratch; /* where convolutions are computed */
    MR_VEC(mr_product) refused; /* shapes that this device does not multiply */

    MR_VEC(mr_cuda_segment) segments; /* by index in the placement */
    MR_VEC(mr_cuda_memory) memories;
    MR_VEC(uint32_t) idle; /* of these, not in use */
    mr_block lifted;       /* pages about to be used elsewhere, segment MR_NONE for none */
    uint64_t held, held_peak;         /* bytes, rounded to pages */
    uint64_t free_at_start, seen_peak; /* as the device says */

    uint32_t lanes;
    bool several; /* more than one of them is used */
    mr_cuda_lane *lane;
    mr_cuda_home *home; /* by storage */
    MR_VEC(mr_cuda_left) left;

    MR_VEC(mr_cuda_value) values; /* value n is at n - 1 */
    MR_VEC(mr_cuda_site) sites;   /* since the report was last looked at; site n is at n - 1 */
    uint32_t *first_value; /* by op: the value of its first output; the others, and those of
                            * what it changes, follow */
    uint32_t *mark, marks; /* by storage: the last list it was met in */
    mr_cuda_pool *pool;        /* NULL: storages are not asked of one */
    uint64_t planned;          /* bytes that the placement thinks it holds */
    struct {
        mr_block block; /* what was unbound just now, segment MR_NONE for nothing, */
        mr_cuda_pointer at; /* where it still is, 0 but in a pool, */
        uint32_t storage;       /* whose that was, */
        uint32_t value, writer; /* what it held, */
        uint64_t written;
        uint64_t *touched; /* and who had used it */
    } passed;

    uint32_t phase; /* that a listener was told of last; MR_NONE for none */
    mr_times times; /* what has been counted so far */
    uint64_t began; /* ns */
} mr_cuda;

/* Each function answers with a sentence of its own when the driver would not do it. */

/* backend_cuda_memory.c */
mr_status mr_cuda_reserve(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index);
mr_status mr_cuda_release(void *self, mr_ctx *ctx, const mr_segment *segment, uint32_t index);
mr_status mr_cuda_fill(mr_cuda *c, mr_ctx *ctx); /* leaves as much free as was asked for */
mr_status mr_cuda_give_all(mr_cuda *c, mr_ctx *ctx);
/* The first failure of a way out on which everything is tried. */
mr_status mr_cuda_first(mr_ctx *ctx, mr_status status, mr_cuda *c, mr_cuda_result result,
                        const char *what);

/* A refusal to do so with so many bytes; MR_OK for success. */
mr_status mr_cuda_refused(mr_ctx *ctx, const mr_cuda *c, mr_cuda_result result,
                          const char *what, uint64_t bytes);
mr_status mr_cuda_hold(mr_cuda *c, mr_ctx *ctx, uint64_t bytes); /* more are held now */
void mr_cuda_count(mr_cuda *c, uint64_t began); /* of a call for memory, over now */

/* backend_cuda_pages.c */
mr_status mr_cuda_map(void *self, mr_ctx *ctx, const mr_segment *segment,
                      const mr_block *stretch);
mr_status mr_cuda_unmap(void *self, mr_ctx *ctx, const mr_segment *segment,
                        const mr_block *stretch);
/* What lies within that part of the segment. */
mr_status mr_cuda_drop_pages(mr_cuda *c, mr_ctx *ctx, mr_cuda_segment *s, uint64_t offset,
                             uint64_t bytes);

/* backend_cuda_pool.c */
mr_status mr_cuda_pool_open(mr_cuda *c, mr_ctx *ctx, const mr_placement *placement);
mr_status mr_cuda_pool_trim(mr_cuda *c, mr_ctx *ctx); /* to what it is thought to hold */
mr_status mr_cuda_pool_take(mr_cuda *c, mr_ctx *ctx, uint32_t storage);
/* What was unbound last goes back, unless somebody has got it as it is. */
mr_status mr_cuda_pool_give(mr_cuda *c, mr_ctx *ctx);
mr_status mr_cuda_pool_peak(mr_cuda *c, mr_ctx *ctx); /* asks what it held at the most */
mr_status mr_cuda_pool_close(mr_cuda *c, mr_ctx *ctx);

/* backend_cuda_lanes.c */
mr_status mr_cuda_lanes_open(mr_cuda *c, mr_ctx *ctx);
mr_status mr_cuda_lanes_close(mr_cuda *c, mr_ctx *ctx);
uint32_t mr_cuda_lane_of(const mr_cuda *c, const mr_op *op);
/* The lane waits until it may read, may write the storage. */
mr_status mr_cuda_before_read(mr_cuda *c, mr_ctx *ctx, uint32_t lane, uint32_t storage);
mr_status mr_cuda_before_write(mr_cuda *c, mr_ctx *ctx, uint32_t lane, uint32_t storage);
/* Its next op has been issued; uses of storages are told before that. */
mr_status mr_cuda_issued(mr_cuda *c, mr_ctx *ctx, uint32_t lane);
void mr_cuda_reads(mr_cuda *c, uint32_t lane, uint32_t storage);
void mr_cuda_writes(mr_cuda *c, uint32_t lane, uint32_t storage);
/* The lane waits for all who have used something: an op of theirs by lane. */
mr_status mr_cuda_before_give(mr_cuda *c, mr_ctx *ctx, uint32_t lane, const uint64_t *touched);
/* A place changes hands. */
void mr_cuda_leave(mr_cuda *c, mr_ctx *ctx, uint32_t storage);
void mr_cuda_enter(mr_cuda *c, mr_ctx *ctx, uint32_t storage, const mr_block *block);
/* Memory is used through other addresses from now on. */
void mr_cuda_follow(mr_cuda *c, mr_ctx *ctx, const mr_block *from, const mr_block *to);

/* backend_cuda_values.c */
mr_status mr_cuda_bind(void *self, mr_ctx *ctx, uint32_t storage, const mr_block *block);
mr_status mr_cuda_unbind(void *self, mr_ctx *ctx, uint32_t storage);
uint32_t mr_cuda_new_value(mr_cuda *c, mr_ctx *ctx, uint32_t storage, uint32_t op);
mr_cuda_pointer mr_cuda_where(const mr_cuda *c, uint32_t storage);
/* A span of all of a storage; verifying one whose value is not known reads nothing. */
mr_span mr_cuda_span(mr_cuda *c, mr_ctx *ctx, uint32_t storage, uint32_t mode, uint32_t op);
mr_status mr_cuda_look(mr_cuda *c, mr_ctx *ctx);       /* waits, then reads the report */
mr_status mr_cuda_verify_all(mr_cuda *c, mr_ctx *ctx); /* what is there at the end */

/* backend_cuda_kernels.c */
mr_status mr_cuda_kernels_open(mr_cuda *c, mr_ctx *ctx);
/* Puts a span on a job, which is launched when it is full; launches what is left. */
mr_status mr_cuda_add(mr_cuda *c, mr_ctx *ctx, uint32_t lane, mr_job *job, const mr_span *span);
mr_status mr_cuda_launch(mr_cuda *c, mr_ctx *ctx, uint32_t lane, mr_job *job);
/* One thread. */
mr_status mr_cuda_launch_one(mr_cuda *c, mr_ctx *ctx, mr_cuda_function *kernel, uint32_t lane,
                             void **arguments);

/* backend_cuda_ops.c */
mr_status mr_cuda_exec(void *self, mr_ctx *ctx, uint32_t op);

/* backend_cuda_products.c */
mr_status mr_cuda_products_open(mr_cuda *c, mr_ctx *ctx);
mr_status mr_cuda_products_close(mr_cuda *c, mr_ctx *ctx);
/* A cuBLAS for the first lane, and memory for it to work in; none where there is none. */
mr_status mr_cuda_cublas_open(mr_cuda *c, mr_ctx *ctx);
/* Is the op a product that can be computed where its tensors are now? */
bool mr_cuda_computes(const mr_cuda *c, const mr_op *op, const mr_work *work, mr_product *out);
mr_status mr_cuda_compute(mr_cuda *c, mr_ctx *ctx, uint32_t lane, const mr_product *p);

/* backend_cuda_ranges.c */
void mr_cuda_begin_op(mr_cuda *c, const mr_op *op);
void mr_cuda_end_op(mr_cuda *c);
void mr_cuda_end_iteration(mr_cuda *c);

extern const unsigned char mr_kernels_image[]; /* of sim/kernels.cu; without nvcc: none */
extern const unsigned long mr_kernels_image_size;
extern const unsigned char mr_kernels_older[]; /* the same as text that older drivers read */
extern const unsigned long mr_kernels_older_size;

uint64_t mr_cuda_clock(void); /* ns of the host */

#endif
