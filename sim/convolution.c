/* convolution -- what a convolution asks for: which of its results, and as what products.
 *
 * A filter OUT x IN x K x K and pictures N x IN x H x W give pictures N x OUT x P x Q:
 *
 *                  rows    columns   sums of
 *     result       N P Q   OUT       IN K K
 *     of pictures  N H W   IN        OUT K K, of which a stride leaves a part
 *     of filters   OUT     IN K K    N P Q
 */
#include <string.h>

#include "cost.h"

static bool is_square(const mr_tensor *t, uint64_t side)
{
    return t->rank == 4 && t->shape[2] == side && t->shape[3] == side;
}

/* A 3x3 convolution whose images keep their size, so has a stride of 1: all of its pictures
 * are equally large, whether this is the forward or the backward op. */
static bool suits_winograd(const mr_trace *trace, const mr_op *op)
{
    const mr_tensor *picture = NULL;
    bool filter = false;
    const mr_ids lists[] = {op->in, op->out};
    for (size_t l = 0; l < MR_COUNT(lists); l++)
        for (uint32_t i = 0; i < lists[l].n; i++) {
            const mr_tensor *t = &trace->tensors.at[lists[l].at[i]];
            if (is_square(t, 3)) filter = true;
            else if (t->rank == 4 && !picture) picture = t;
            else if (t->rank == 4 && t->shape[2] != picture->shape[2]) return false;
        }
    return filter && picture;
}

/* Kernels compute tiles of this many channels, whether there are so many or not. */
enum { CHANNELS = 64 };

static double filled(uint64_t channels)
{
    const uint64_t tiles = channels / CHANNELS + (channels % CHANNELS != 0);
    return channels ? (double)(tiles * CHANNELS) / (double)channels : 1;
}

const mr_tensor *mr_filter_of(const mr_trace *trace, const mr_op *op)
{
    const mr_ids lists[] = {op->in, op->out};
    const mr_tensor *filter = NULL;
    for (size_t l = 0; l < MR_COUNT(lists); l++)
        for (uint32_t i = 0; i < lists[l].n; i++) {
            const mr_tensor *t = &trace->tensors.at[lists[l].at[i]];
            if (t->rank == 4 && (!filter || t->shape[2] < filter->shape[2])) filter = t;
        }
    return filter;
}

/* Of a filter OUT x IN x ..., forward ops and gradients of the filter fill tiles of OUT,
 * gradients of the picture tiles of IN.  Filters of one channel belong to depthwise
 * convolutions, whose kernels have no such tiles. */
static double share_of_tiles(const mr_op *op, const mr_tensor *filter)
{
    if (!filter || filter->shape[1] < 2) return 1;
    const double out = filled(filter->shape[0]), in = filled(filter->shape[1]);
    if (strstr(op->name, "backward_input")) return in;
    const bool both = strstr(op->name, "convolution_backward") && op->out.n > 1;
    return both ? (in + out) / 2 : out;
}

/* What a filter reads and what it makes, told by sizes: a stride makes pictures smaller, and
 * where there is none, the channels tell. */
typedef struct shapes {
    const mr_tensor *filter, *read, *made;
} shapes;

static bool is_made(const mr_tensor *t, const mr_tensor *other, const mr_tensor *filter)
{
    if (t->shape[2] != other->shape[2]) return t->shape[2] < other->shape[2];
    return t->shape[1] == filter->shape[0] && other->shape[1] != filter->shape[0];
}

static bool find_shapes(const mr_trace *trace, const mr_op *op, shapes *s)
{
    const mr_ids lists[] = {op->in, op->out};
    *s = (shapes){.filter = mr_filter_of(trace, op)};
    for (size_t l = 0; l < MR_COUNT(lists); l++)
        for (uint32_t i = 0; i < lists[l].n; i++) {
            const mr_tensor *t = &trace->tensors.at[lists[l].at[i]];
            const bool same = s->filter && t->rank == 4 && t->shape[0] == s->filter->shape[0]
                              && t->shape[2] == s->filter->shape[2];
            if (t->rank != 4 || same) continue; /* the filter, or its gradient */
            if (!s->read) s->read = t;
            else if (!s->made) s->made = t;
        }
    if (!s->filter || s->filter->shape[1] < 2 || !s->made) return false;
    if (!is_made(s->made, s->read, s->filter) && is_made(s->read, s->made, s->filter)) {
        const mr_tensor *made = s->read;
        s->read = s->made;
        s->made = made;
    }
    return s->read->shape[1] % s->filter->shape[1] == 0;
}

static uint64_t numbers_in(const mr_tensor *picture)
{
    return picture->shape[0] * picture->shape[2] * picture->shape[3];
}

enum { SIDE = 4, NUMBERS = 36 }; /* of a tile's results; numbers of a tile */

static uint64_t tiles_of(const mr_tensor *picture)
{
    return picture->shape[0] * ((picture->shape[2] + SIDE - 1) / SIDE)
           * ((picture->shape[3] + SIDE - 1) / SIDE);
}

typedef enum kind { RESULT, OF_PICTURES, OF_FILTER } kind;

static mr_products product_of(const shapes *s, kind what, uint64_t pixels, uint64_t area)
{
    const uint64_t groups = s->read->shape[1] / s->filter->shape[1];
    const uint64_t out = s->filter->shape[0] / groups, in = s->filter->shape[1];
    switch (what) {
    case RESULT: return (mr_products){groups, pixels, out};
    case OF_PICTURES: return (mr_products){groups, pixels, in};
    case OF_FILTER: break;
    }
    return (mr_products){groups, out, in * area};
}

static void add(const shapes *s, kind what, double flops, mr_work *work)
{
    const mr_tensor *picture = what == OF_PICTURES ? s->read : s->made;
    const uint64_t area = s->filter->shape[2] * s->filter->shape[3];
    mr_pass *pass = &work->passes.at[work->passes.n++];
    *pass = (mr_pass){
        .product = product_of(s, what, numbers_in(picture), area),
        .flops = flops,
        .pictures = (double)s->read->bytes + (double)s->made->bytes,
        .filter = (double)s->filter->bytes,
        .padding = 1,
        .strided = what == OF_PICTURES && s->read->shape[2] > s->made->shape[2],
    };
    if (work->math != MR_WINOGRAD) return;
    pass->tiles = product_of(s, what, tiles_of(picture), 1);
    pass->tiles.n *= NUMBERS;
    pass->padding = (double)(tiles_of(picture) * SIDE * SIDE) / (double)numbers_in(picture);
}

static bool makes(const mr_trace *trace, const mr_op *op, const mr_tensor *like)
{
    for (uint32_t i = 0; i < op->out.n; i++) {
        const mr_tensor *t = &trace->tensors.at[op->out.at[i]];
        if (t->rank == 4 && t->shape[0] == like->shape[0] && t->shape[1] == like->shape[1]
            && t->shape[2] == like->shape[2])
            return true;
    }
    return false;
}

void mr_convolution_of(const mr_trace *trace, const mr_op *op, mr_work *work)
{
    shapes s;
    work->math = suits_winograd(trace, op) ? MR_WINOGRAD : MR_CONV;
    work->fill = share_of_tiles(op, mr_filter_of(trace, op));
    if (!work->flops || !find_shapes(trace, op, &s)) return;
    if (!strstr(op->name, "backward")) {
        add(&s, RESULT, (double)work->flops, work);
        return;
    }
    const bool pictures = makes(trace, op, s.read), filter = makes(trace, op, s.filter);
    const double flops = (double)work->flops / (pictures && filter ? 2 : 1);
    if (pictures) add(&s, OF_PICTURES, flops, work);
    if (filter) add(&s, OF_FILTER, flops, work);
}
