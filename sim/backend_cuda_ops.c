/* ops -- what runs on the device in place of the ops of a recording.
 *
 * An op reads its inputs, then writes its outputs, each storage once.  With everything verified
 * these are whole storages; else they are the tensors, or nothing but the time that it takes.
 */
#include "backend_cuda.h"

enum { MOST_SITES = 1 << 16 };

/* ---- reading and writing ----------------------------------------------------------------- */

typedef struct run {
    mr_cuda *c;
    mr_ctx *ctx;
    const mr_op *op;
    uint32_t o, lane;
    mr_job job;
} run;

/* Is it the first of its storage in this list, and is that on the device? */
static bool met_first(run *r, uint32_t storage, uint32_t list)
{
    mr_cuda *c = r->c;
    if (c->home[storage].block.segment == MR_NONE || c->mark[storage] == list) return false;
    c->mark[storage] = list;
    return true;
}

/* From the last whole word before it, as nobody looks at what is written: words are faster. */
static mr_span part_of(const mr_cuda *c, const mr_tensor *t, uint32_t mode)
{
    const uint64_t before = t->offset % MR_WORD;
    return (mr_span){.at = mr_cuda_where(c, t->storage) + t->offset - before,
                     .bytes = t->bytes ? t->bytes + before : 0,
                     .mode = mode,
                     .stride = 1};
}

static mr_status read_all(run *r, uint32_t list)
{
    mr_cuda *c = r->c;
    for (uint32_t i = 0; i < r->op->in.n; i++) {
        const mr_tensor *t = &c->trace->tensors.at[r->op->in.at[i]];
        if (!met_first(r, t->storage, list)) continue;
        const mr_span span = c->manner.verify
                                 ? mr_cuda_span(c, r->ctx, t->storage, MR_SPAN_VERIFY, r->o)
                                 : part_of(c, t, MR_SPAN_READ);
        MR_TRY(mr_cuda_before_read(c, r->ctx, r->lane, t->storage));
        MR_TRY(mr_cuda_add(c, r->ctx, r->lane, &r->job, &span));
        mr_cuda_reads(c, r->lane, t->storage);
    }
    return MR_OK;
}

/* The value that stands at `place` among those that the op makes. */
static uint32_t value_at(const run *r, uint32_t place)
{
    const mr_cuda *c = r->c;
    const mr_op *op = r->op;
    const uint32_t again = op->again;
    if (op->moves && op->in.n) return c->home[c->trace->tensors.at[op->in.at[0]].storage].value;
    if (again != MR_NONE && c->first_value[again]
        && c->trace->ops.at[again].out.n == op->out.n
        && c->trace->ops.at[again].mutates.n == op->mutates.n)
        return c->first_value[again] + place;
    return c->first_value[r->o] + place;
}

static mr_status write_one(run *r, const mr_tensor *t, uint32_t value)
{
    mr_cuda *c = r->c;
    c->home[t->storage].value = value;
    const mr_span span = c->manner.verify
                             ? mr_cuda_span(c, r->ctx, t->storage, MR_SPAN_WRITE, r->o)
                             : part_of(c, t, MR_SPAN_WRITE);
    MR_TRY(mr_cuda_before_write(c, r->ctx, r->lane, t->storage));
    MR_TRY(mr_cuda_add(c, r->ctx, r->lane, &r->job, &span));
    mr_cuda_writes(c, r->lane, t->storage);
    return MR_OK;
}

/* An output in the memory of an input that is not changed is a view of it. */
static mr_status write_all(run *r, uint32_t read, uint32_t written)
{
    mr_cuda *c = r->c;
    const mr_op *op = r->op;
    for (uint32_t i = 0; i < op->out.n; i++) {
        const mr_tensor *t = &c->trace->tensors.at[op->out.at[i]];
        if (c->mark[t->storage] == read || !met_first(r, t->storage, written)) continue;
        MR_TRY(write_one(r, t, value_at(r, i)));
    }
    for (uint32_t i = 0; i < op->mutates.n; i++) {
        const mr_tensor *t = &c->trace->tensors.at[op->mutates.at[i]];
        if (!met_first(r, t->storage, written)) continue;
        MR_TRY(write_one(r, t, value_at(r, op->out.n + i)));
    }
    return MR_OK;
}

static void name_values(run *r)
{
    mr_cuda *c = r->c;
    c->first_value[r->o] = c->values.n + 1;
    for (uint32_t i = 0; i < r->op->out.n; i++)
        mr_cuda_new_value(c, r->ctx, c->trace->tensors.at[r->op->out.at[i]].storage, r->o);
    for (uint32_t i = 0; i < r->op->mutates.n; i++)
        mr_cuda_new_value(c, r->ctx, c->trace->tensors.at[r->op->mutates.at[i]].storage, r->o);
}

/* Verified memory is read before anything is written; else nobody sees the difference. */
static mr_status touch(run *r)
{
    mr_cuda *c = r->c;
    const uint32_t read = ++c->marks, written = ++c->marks;
    if (c->manner.verify) name_values(r);
    MR_TRY(read_all(r, read));
    if (c->manner.verify) MR_TRY(mr_cuda_launch(c, r->ctx, r->lane, &r->job));
    MR_TRY(write_all(r, read, written));
    return mr_cuda_launch(c, r->ctx, r->lane, &r->job);
}

static mr_status spin(run *r, uint64_t ns)
{
    mr_cuda *c = r->c;
    uint64_t cycles = (uint64_t)((double)ns * c->cycles_per_ns);
    void *arguments[] = {&cycles};
    return mr_cuda_launch_one(c, r->ctx, c->spin, r->lane, arguments);
}

/* ---- copies ------------------------------------------------------------------------------ */

/* The storage of a tensor that is not on the device lives on the host. */
static mr_status host_of(mr_cuda *c, mr_ctx *ctx, uint32_t storage, void **out)
{
    mr_cuda_home *home = &c->home[storage];
    const uint64_t bytes = c->trace->storages.at[storage].bytes;
    if (!home->host) {
        const mr_cuda_result result = c->driver.take_host(&home->host, bytes ? bytes : 1, 0);
        if (result) home->host = NULL;
        MR_TRY(mr_cuda_check(ctx, &c->driver, result, "pin host memory for a copy"));
    }
    *out = home->host;
    return MR_OK;
}

static mr_status copy(run *r, uint32_t from, uint32_t to)
{
    mr_cuda *c = r->c;
    const bool out = r->op->engine == MR_ENGINE_to_host;
    const uint64_t a = c->trace->storages.at[from].bytes, b = c->trace->storages.at[to].bytes;
    const uint64_t bytes = a < b ? a : b;
    const mr_cuda_pointer device = mr_cuda_where(c, out ? from : to);
    mr_cuda_stream *stream = c->lane[r->lane].stream;
    void *host;
    if (!device || !bytes) return MR_OK;
    MR_TRY(host_of(c, r->ctx, out ? to : from, &host));
    MR_TRY(mr_cuda_before_read(c, r->ctx, r->lane, from));
    MR_TRY(mr_cuda_before_write(c, r->ctx, r->lane, to));
    const mr_cuda_result result = out ? c->driver.copy_out(host, device, bytes, stream)
                                      : c->driver.copy_in(device, host, bytes, stream);
    mr_cuda_reads(c, r->lane, from);
    mr_cuda_writes(c, r->lane, to);
    c->home[to].value = c->home[from].value; /* also of one that lives on the host */
    return mr_cuda_check(r->ctx, &c->driver, result, "copy over the host link");
}

/* Tensor by tensor: the first output is a copy of the first input. */
static mr_status copy_all(run *r)
{
    const mr_trace *trace = r->c->trace;
    const mr_ids to = r->op->out.n ? r->op->out : r->op->mutates;
    for (uint32_t i = 0; i < to.n && i < r->op->in.n; i++)
        MR_TRY(copy(r, trace->tensors.at[r->op->in.at[i]].storage,
                    trace->tensors.at[to.at[i]].storage));
    return MR_OK;
}

/* ---- one op ------------------------------------------------------------------------------ */

static bool is_copy(const mr_op *op)
{
    return op->engine == MR_ENGINE_to_host || op->engine == MR_ENGINE_from_host;
}

/* What the op takes beyond passing its bytes; 0: nothing. */
static uint64_t full_ns(const mr_cuda *c, const mr_op *op, const mr_work *work)
{
    if (c->manner.compute != MR_COMPUTE_FULL) return 0;
    if (op->ns) return op->ns;
    return work->flops || work->engine != MR_ENGINE_compute ? mr_device_ns(c->model, work) : 0;
}

/* What is done in place of an op. */
typedef struct deed {
    mr_act act;
    uint64_t ns; /* let pass */
    mr_product product;
} deed;

/* Everything verified, patterns stand where products would write numbers. */
static deed deed_for(const mr_cuda *c, const mr_op *op, const mr_work *work)
{
    deed d = {.act = MR_ACT_touch, .ns = full_ns(c, op, work)};
    if (is_copy(op)) d.act = MR_ACT_copy;
    else if (d.ns && !c->manner.verify && mr_cuda_computes(c, op, work, &d.product))
        d.act = d.product.out == MR_NONE ? MR_ACT_convolution : MR_ACT_product;
    else if (d.ns) d.act = op->ns ? MR_ACT_recorded : MR_ACT_modelled;
    return d;
}

/* An op that does not touch its tensors keeps to the order of those who do. */
static mr_status wait_for_tensors(run *r)
{
    mr_cuda *c = r->c;
    const mr_ids lists[] = {r->op->in, r->op->out, r->op->mutates};
    for (size_t l = 0; c->several && l < MR_COUNT(lists); l++)
        for (uint32_t i = 0; i < lists[l].n; i++) {
            const uint32_t storage = c->trace->tensors.at[lists[l].at[i]].storage;
            MR_TRY(l ? mr_cuda_before_write(c, r->ctx, r->lane, storage)
                     : mr_cuda_before_read(c, r->ctx, r->lane, storage));
        }
    for (size_t l = 0; c->several && l < MR_COUNT(lists); l++)
        for (uint32_t i = 0; i < lists[l].n; i++) {
            const uint32_t storage = c->trace->tensors.at[lists[l].at[i]].storage;
            if (l) mr_cuda_writes(c, r->lane, storage);
            else mr_cuda_reads(c, r->lane, storage);
        }
    return MR_OK;
}

static mr_status act(run *r, const deed *d)
{
    if (d->act == MR_ACT_copy) return copy_all(r);
    if (d->act == MR_ACT_touch || r->c->manner.verify) MR_TRY(touch(r));
    else MR_TRY(wait_for_tensors(r));
    if (d->act == MR_ACT_product || d->act == MR_ACT_convolution)
        return mr_cuda_compute(r->c, r->ctx, r->lane, &d->product);
    return d->ns ? spin(r, d->ns) : MR_OK;
}

mr_status mr_cuda_exec(void *self, mr_ctx *ctx, uint32_t o)
{
    mr_cuda *c = self;
    const mr_op *op = &c->trace->ops.at[o];
    const mr_work work = mr_work_of(c->trace, op);
    run r = {.c = c, .ctx = ctx, .op = op, .o = o, .lane = mr_cuda_lane_of(c, op)};
    c->passed.block.segment = MR_NONE;
    MR_TRY(mr_cuda_pool_give(c, ctx));
    if (c->manner.compute == MR_COMPUTE_NONE && !c->manner.verify) return MR_OK;
    if (c->sites.n > MOST_SITES) MR_TRY(mr_cuda_look(c, ctx));
    if (work.idle) return MR_OK;
    const deed d = deed_for(c, op, &work);
    c->times.acts[d.act] += op->ns ? op->ns : mr_device_ns(c->model, &work);
    mr_cuda_begin_op(c, op);
    const mr_status status = act(&r, &d);
    mr_cuda_end_op(c);
    return status ? status : mr_cuda_issued(c, ctx, r.lane);
}
