/* products -- matrix products of a recording, computed on the device by cuBLAS.
 *
 * What they find in memory is what others have left there: a product takes as long whatever its
 * numbers are, nearly.  A convolution is computed in memory of its own, small enough to stay
 * close to the processors, as the factors of a real one do.
 */
#include "backend_cuda.h"

enum { FILLING = 0x3c }; /* bytes of usual numbers, in every precision */

/* ---- one product ------------------------------------------------------------------------- */

static int type_of(mr_number number)
{
    switch (number) {
    case MR_FLOAT32: return MR_CUBLAS_FLOAT32;
    case MR_FLOAT64: return MR_CUBLAS_FLOAT64;
    case MR_FLOAT16: return MR_CUBLAS_FLOAT16;
    case MR_BFLOAT16: break;
    }
    return MR_CUBLAS_BFLOAT16;
}

static int sums_in(const mr_cuda *c, const mr_product *p)
{
    const bool conv = p->out == MR_NONE;
    if (p->number == MR_FLOAT64) return MR_CUBLAS_IN_FP64;
    if (p->number != MR_FLOAT32 || c->model->use_tf32 == MR_TF32_OFF) return MR_CUBLAS_IN_FP32;
    return conv || c->model->use_tf32 == MR_TF32_ALL ? MR_CUBLAS_IN_TF32 : MR_CUBLAS_IN_FP32;
}

/* Where the three matrices are; steps from one product to the next, in numbers. */
typedef struct places {
    mr_cuda_pointer a, b, out;
    uint64_t step_a, step_b, step_out;
} places;

/* Matrices of a recording are row by row, and those of cuBLAS column by column: turned over,
 * the same memory holds (A B)' = B' A'. */
static mr_cublas_result compute(mr_cuda *c, uint32_t lane, const mr_product *p,
                                const places *at)
{
    static const float one = 1, zero = 0;
    static const double one64 = 1, zero64 = 0;
    const bool wide = p->number == MR_FLOAT64;
    const int type = type_of(p->number);
    const int rows = (int)p->rows, columns = (int)p->columns, terms = (int)p->terms;
    return c->cublas.product(
        c->lane[lane].cublas, 0, 0, columns, rows, terms, wide ? (const void *)&one64 : &one,
        (const void *)at->b, type, (int)p->lead_b, (long long)at->step_b, (const void *)at->a,
        type, (int)p->lead_a, (long long)at->step_a, wide ? (const void *)&zero64 : &zero,
        (void *)at->out, type, (int)p->lead_out, (long long)at->step_out, (int)p->count,
        sums_in(c, p), MR_CUBLAS_ANY);
}

static mr_cuda_pointer place_of(const mr_cuda *c, uint32_t tensor)
{
    const mr_tensor *t = &c->trace->tensors.at[tensor];
    const mr_cuda_pointer at = mr_cuda_where(c, t->storage);
    return at ? at + t->offset : 0;
}

/* A placement may pack storages byte by byte, where no product could be computed. */
static bool is_usable(const mr_cuda *c, const mr_product *p, uint32_t tensor)
{
    const mr_cuda_pointer at = place_of(c, tensor);
    return at && at % mr_number_bytes(p->number) == 0;
}

static uint64_t aligned(uint64_t bytes)
{
    return (bytes + 255) / 256 * 256;
}

static places in_scratch(const mr_cuda *c, const mr_product *p)
{
    const uint64_t each = mr_number_bytes(p->number);
    places at = {.a = c->scratch};
    at.b = at.a + aligned(p->rows * p->terms * each);
    at.out = at.b + aligned(p->terms * p->columns * each);
    return at;
}

static places in_tensors(const mr_cuda *c, const mr_product *p)
{
    return (places){place_of(c, p->a),  place_of(c, p->b),     place_of(c, p->out),
                    p->rows * p->terms, p->terms * p->columns, p->rows * p->columns};
}

static bool is_alike(const mr_product *p, const mr_product *q)
{
    return p->count == q->count && p->rows == q->rows && p->columns == q->columns
           && p->terms == q->terms && p->number == q->number && p->lead_a == q->lead_a
           && p->lead_b == q->lead_b && p->lead_out == q->lead_out
           && (p->out == MR_NONE) == (q->out == MR_NONE);
}

static bool is_refused(const mr_cuda *c, const mr_product *p)
{
    for (uint32_t i = 0; i < c->refused.n; i++)
        if (is_alike(&c->refused.at[i], p)) return true;
    return false;
}

bool mr_cuda_computes(const mr_cuda *c, const mr_op *op, const mr_work *work, mr_product *out)
{
    if (!c->cublas.library || !mr_product_of(c->trace, op, work, out) || is_refused(c, out))
        return false;
    if (out->out == MR_NONE) return c->scratch != 0;
    return is_usable(c, out, out->a) && is_usable(c, out, out->b) && is_usable(c, out, out->out);
}

mr_status mr_cuda_compute(mr_cuda *c, mr_ctx *ctx, uint32_t lane, const mr_product *p)
{
    const bool conv = p->out == MR_NONE;
    const places at = conv ? in_scratch(c, p) : in_tensors(c, p);
    return mr_cublas_check(ctx, compute(c, lane, p, &at), "compute a matrix product");
}

/* ---- beginning and end ------------------------------------------------------------------- */

/* Of a convolution all that lies in scratch, of a product its largest matrix: to warm up, all
 * three may be in the same place. */
static uint64_t room_for(const mr_product *p)
{
    const uint64_t each = mr_number_bytes(p->number);
    const uint64_t a = p->rows * p->lead_a * each, b = p->terms * p->lead_b * each;
    const uint64_t out = p->rows * p->lead_out * each;
    if (p->out == MR_NONE) return aligned(a) + aligned(b) + out;
    const uint64_t factor = a > b ? a : b;
    return p->count * (factor > out ? factor : out);
}

typedef MR_VEC(mr_product) products;

/* Of each shape one. */
static products find_shapes(const mr_cuda *c, mr_ctx *ctx)
{
    products out = {0};
    for (uint32_t o = 0; o < c->trace->ops.n; o++) {
        mr_product p;
        uint32_t i = 0;
        const mr_op *op = &c->trace->ops.at[o];
        const mr_work work = mr_work_of(c->trace, op);
        if (!mr_product_of(c->trace, op, &work, &p)) continue;
        while (i < out.n && !is_alike(&out.at[i], &p)) i++;
        if (i == out.n) MR_PUSH(ctx, &out, p);
    }
    return out;
}

static mr_status take(mr_cuda *c, mr_ctx *ctx, uint64_t bytes, mr_cuda_pointer *out)
{
    const mr_cuda_result result = c->driver.take(out, bytes);
    if (result) *out = 0;
    return mr_cuda_check(ctx, &c->driver, result, "give memory for products");
}

static mr_status take_scratch(mr_cuda *c, mr_ctx *ctx, uint64_t bytes, mr_cuda_pointer *out)
{
    const mr_cuda_driver *d = &c->driver;
    MR_TRY(take(c, ctx, bytes, out));
    MR_TRY(mr_cuda_check(ctx, d, d->set(*out, FILLING, bytes), "fill memory"));
    return mr_cuda_check(ctx, d, d->wait(), "finish its work"); /* no stream waits for that */
}

/* Its own would be taken when it is first needed, in the midst of what is measured. */
static mr_status give_room(mr_cuda *c, mr_ctx *ctx, mr_cuda_lane *lane)
{
    enum { ROOM = 32 * 1024 * 1024 }; /* as much as cuBLAS takes on the largest devices */
    MR_TRY(mr_cublas_check(ctx, c->cublas.use(lane->cublas, lane->stream), "work on a stream"));
    MR_TRY(take(c, ctx, ROOM, &lane->room));
    return mr_cublas_check(ctx, c->cublas.room(lane->cublas, (void *)lane->room, ROOM),
                           "work in that memory");
}

mr_status mr_cuda_cublas_open(mr_cuda *c, mr_ctx *ctx)
{
    MR_TRY(mr_cublas_open(ctx, &c->cublas, &c->lane[0].cublas));
    return c->lane[0].cublas ? give_room(c, ctx, &c->lane[0]) : MR_OK;
}

static mr_status open_others(mr_cuda *c, mr_ctx *ctx)
{
    for (uint32_t i = 1; c->several && i < c->trace->streams.n; i++) {
        const mr_cublas_result made = c->cublas.create(&c->lane[i].cublas);
        if (made) c->lane[i].cublas = NULL;
        MR_TRY(mr_cublas_check(ctx, made, "start"));
        MR_TRY(give_room(c, ctx, &c->lane[i]));
    }
    return MR_OK;
}

/* What a device does not multiply has to pass as time. */
static mr_status try_shape(mr_cuda *c, mr_ctx *ctx, uint32_t lane, const mr_product *p,
                           mr_cuda_pointer at)
{
    const places same = {
        at, at, at, p->rows * p->terms, p->terms * p->columns, p->rows * p->columns};
    const places conv = p->out == MR_NONE ? in_scratch(c, p) : same;
    const mr_cublas_result result = compute(c, lane, p, &conv);
    if (!mr_cublas_refuses(result))
        return mr_cublas_check(ctx, result, "compute a matrix product");
    if (!is_refused(c, p)) MR_PUSH(ctx, &c->refused, *p);
    return MR_OK;
}

/* cuBLAS loads a kernel when it is first needed, which is not the replay's. */
static mr_status warm_up(mr_cuda *c, mr_ctx *ctx, const products *shapes, uint64_t room)
{
    mr_cuda_pointer at = 0;
    mr_status status = take_scratch(c, ctx, room, &at);
    for (uint32_t i = 0; !status && i < shapes->n; i++) {
        status = try_shape(c, ctx, 0, &shapes->at[i], at);
        for (uint32_t l = 1; !status && !i && l < c->lanes; l++)
            if (c->lane[l].cublas) status = try_shape(c, ctx, l, &shapes->at[i], at);
    }
    if (!status) status = mr_cuda_check(ctx, &c->driver, c->driver.wait(), "finish its work");
    if (at) status = mr_cuda_first(ctx, status, c, c->driver.give(at), "take memory back");
    return status;
}

mr_status mr_cuda_products_open(mr_cuda *c, mr_ctx *ctx)
{
    uint64_t scratch = 0, room = 0;
    if (c->manner.compute != MR_COMPUTE_FULL || c->manner.verify) return MR_OK;
    const products shapes = find_shapes(c, ctx);
    if (!shapes.n) return MR_OK;
    MR_TRY(mr_cuda_cublas_open(c, ctx));
    if (!c->cublas.library) return MR_OK;
    for (uint32_t i = 0; i < shapes.n; i++) {
        const uint64_t bytes = room_for(&shapes.at[i]);
        if (shapes.at[i].out == MR_NONE && bytes > scratch) scratch = bytes;
        if (shapes.at[i].out != MR_NONE && bytes > room) room = bytes;
    }
    MR_TRY(open_others(c, ctx));
    if (scratch) MR_TRY(take_scratch(c, ctx, scratch, &c->scratch));
    return warm_up(c, ctx, &shapes, room ? room : 256);
}

static mr_status give_back(mr_cuda *c, mr_ctx *ctx, mr_status status, mr_cuda_pointer *at)
{
    if (*at) status = mr_cuda_first(ctx, status, c, c->driver.give(*at), "take memory back");
    *at = 0;
    return status;
}

mr_status mr_cuda_products_close(mr_cuda *c, mr_ctx *ctx)
{
    mr_status status = MR_OK;
    for (uint32_t i = 0; c->lane && i < c->lanes; i++) {
        mr_cublas_handle *handle = c->lane[i].cublas;
        const mr_cublas_result ended = handle ? c->cublas.end(handle) : 0;
        if (!status) status = mr_cublas_check(ctx, ended, "end");
        c->lane[i].cublas = NULL;
        status = give_back(c, ctx, status, &c->lane[i].room);
    }
    return give_back(c, ctx, status, &c->scratch);
}
