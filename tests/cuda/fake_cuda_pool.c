/* pools -- memory asked for and given back in the order of streams.
 *
 * What is documented is done so: memory freed in a stream serves it at once, others when they
 * may be made to wait, all when the device has been waited for; trimming gives back what is not
 * in use.  Where the documents are silent it does what the model of cudaMallocAsync supposes,
 * found by a plain search: best fit, cut to 512 bytes, growth by 32 MiB.
 */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake_cuda.h"

#define STEP (32 * MR_MIB)

enum { UNIT = 512, EVERYBODY = 0 };

typedef struct piece { /* of one of the pool's allocations, in the order of addresses */
    uint64_t at, bytes;
    struct piece *before, *behind; /* of the same allocation */
    uint32_t number;               /* of the allocation */
    bool free;
    uint32_t owner;         /* number of the stream that may have it, or EVERYBODY */
    mr_cuda_stream *stream; /* that freed it, and when; NULL: it is new */
    uint64_t until;
    struct piece *next; /* of the pool: ascending by allocation and address */
} piece;

struct mr_cuda_pool {
    int device;
    uint64_t held, peak, keeps;
    int waits;
    uint32_t made; /* allocations */
    piece *pieces;
    struct mr_cuda_pool *next;
};

static struct mr_cuda_pool *pools;

/* ---- the pieces of a pool ---------------------------------------------------------------- */

static void drop(struct mr_cuda_pool *pool, piece *gone)
{
    piece **link = &pool->pieces;
    while (*link != gone) link = &(*link)->next;
    *link = gone->next;
    free(gone);
}

static bool joins(const piece *low, const piece *high)
{
    return low && high && low->free && high->free && low->owner == high->owner;
}

/* The low one stays; who gets it waits for the later of the two. */
static piece *join(struct mr_cuda_pool *pool, piece *low)
{
    piece *high = low->behind;
    low->bytes += high->bytes;
    low->behind = high->behind;
    if (low->behind) low->behind->before = low;
    if (high->until > low->until) {
        low->until = high->until;
        low->stream = high->stream;
    }
    drop(pool, high);
    return low;
}

static void set_free(struct mr_cuda_pool *pool, piece *p, uint32_t owner)
{
    p->free = true;
    p->owner = owner;
    if (joins(p, p->behind)) join(pool, p);
    if (joins(p->before, p)) join(pool, p->before);
}

static void cut(piece *p, uint64_t bytes)
{
    piece *rest = malloc(sizeof *rest);
    *rest = *p;
    rest->at += bytes;
    rest->bytes -= bytes;
    rest->before = p;
    if (rest->behind) rest->behind->before = rest;
    p->bytes = bytes;
    p->behind = p->next = rest;
}

static piece *best(const struct mr_cuda_pool *pool, uint32_t owner, uint64_t bytes)
{
    piece *found = NULL;
    for (piece *p = pool->pieces; p; p = p->next)
        if (p->free && p->owner == owner && p->bytes >= bytes
            && (!found || p->bytes < found->bytes))
            found = p;
    return found;
}

/* Another stream's, of the one that was made first. */
static piece *borrowed(const struct mr_cuda_pool *pool, uint64_t bytes)
{
    piece *found = NULL;
    for (piece *p = pool->pieces; p; p = p->next)
        if (p->free && p->owner != EVERYBODY && p->bytes >= bytes
            && (!found || p->owner < found->owner
                || (p->owner == found->owner && p->bytes < found->bytes)))
            found = p;
    return found;
}

static piece *grow(struct mr_cuda_pool *pool, uint64_t bytes, uint32_t owner)
{
    uint64_t more = (bytes + STEP - 1) / STEP * STEP;
    if (!fake_charge(pool->device, more)) {
        more = bytes;
        if (!fake_charge(pool->device, more)) return NULL;
    }
    void *host = mmap(NULL, more, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (host == MAP_FAILED) return NULL;
    piece *new = calloc(1, sizeof *new);
    *new = (piece){.at = (uint64_t)host,
                   .bytes = more,
                   .number = ++pool->made,
                   .free = true,
                   .owner = owner};
    piece **link = &pool->pieces;
    while (*link) link = &(*link)->next;
    *link = new;
    pool->held += more;
    if (pool->held > pool->peak) pool->peak = pool->held;
    return new;
}

/* ---- making and ending ------------------------------------------------------------------- */

static struct mr_cuda_pool *known(struct mr_cuda_pool *pool)
{
    struct mr_cuda_pool *p = pools;
    while (p && p != pool) p = p->next;
    if (!p) fake_wrong("a pool that nobody has");
    return p;
}

static bool is_pool_of_device(const mr_cuda_pool_property *p)
{
    for (size_t i = 0; i < sizeof p->flags; i++)
        if (p->flags[i]) return false;
    return p->type == MR_CUDA_PINNED && !p->handles && !p->unused
           && p->location.type == MR_CUDA_ON_DEVICE && fake_is_device(p->location.id);
}

mr_cuda_result cuMemPoolCreate(mr_cuda_pool **pool, const mr_cuda_pool_property *property);
mr_cuda_result cuMemPoolCreate(mr_cuda_pool **pool, const mr_cuda_pool_property *property)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!is_pool_of_device(property))
        return fake_wrong("a pool of something else than a device");
    if (!fake_cuda_settings()->pools)
        return fake_wrong("a device without pools is asked for one");
    *pool = calloc(1, sizeof **pool);
    (*pool)->device = property->location.id;
    (*pool)->waits = 1;
    (*pool)->next = pools;
    pools = *pool;
    fake_hold(1);
    return 0;
}

static void give_back(struct mr_cuda_pool *pool, piece *whole)
{
    fake_discharge(pool->device, whole->bytes);
    pool->held -= whole->bytes;
    munmap((void *)whole->at, whole->bytes);
    drop(pool, whole);
}

/* A driver lets a pool go with memory in use, and keeps that; who uses it should not. */
mr_cuda_result cuMemPoolDestroy(mr_cuda_pool *pool);
mr_cuda_result cuMemPoolDestroy(mr_cuda_pool *pool)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (!known(pool)) return MR_CUDA_INVALID;
    fake_finish_all();
    for (const piece *p = pool->pieces; p; p = p->next)
        if (!p->free) return fake_wrong("a pool is ended while its memory is in use");
    for (struct mr_cuda_pool **link = &pools; *link; link = &(*link)->next) {
        if (*link != pool) continue;
        *link = pool->next;
        break;
    }
    for (piece *p = pool->pieces; p; p = pool->pieces) {
        while (p->behind) join(pool, p);
        give_back(pool, p);
    }
    free(pool);
    fake_hold(-1);
    return failed;
}

void fake_pools_forget(void)
{
    while (pools) {
        struct mr_cuda_pool *pool = pools;
        pools = pool->next;
        for (piece *p = pool->pieces; p; p = pool->pieces) {
            while (p->behind) join(pool, p);
            give_back(pool, p);
        }
        free(pool);
    }
}

mr_cuda_result cuMemPoolSetAttribute(mr_cuda_pool *pool, int attribute, void *value);
mr_cuda_result cuMemPoolSetAttribute(mr_cuda_pool *pool, int attribute, void *value)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!known(pool)) return MR_CUDA_INVALID;
    if (attribute == MR_CUDA_POOL_WAITS) memcpy(&pool->waits, value, sizeof pool->waits);
    else if (attribute == MR_CUDA_POOL_KEEPS) memcpy(&pool->keeps, value, sizeof pool->keeps);
    else return fake_wrong("attribute %d of a pool is not one of those known here", attribute);
    return 0;
}

mr_cuda_result cuMemPoolGetAttribute(mr_cuda_pool *pool, int attribute, void *value);
mr_cuda_result cuMemPoolGetAttribute(mr_cuda_pool *pool, int attribute, void *value)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!known(pool)) return MR_CUDA_INVALID;
    if (attribute != MR_CUDA_POOL_PEAK)
        return fake_wrong("attribute %d of a pool is not one of those known here", attribute);
    memcpy(value, &pool->peak, sizeof pool->peak);
    return 0;
}

/* The largest first, until no more is held than is to be kept. */
static void trim(struct mr_cuda_pool *pool, uint64_t keep)
{
    while (pool->held > keep) {
        piece *found = NULL;
        for (piece *p = pool->pieces; p; p = p->next)
            if (p->free && p->owner == EVERYBODY && !p->before && !p->behind
                && (!found || p->bytes >= found->bytes))
                found = p;
        if (!found) break;
        give_back(pool, found);
    }
}

mr_cuda_result cuMemPoolTrimTo(mr_cuda_pool *pool, size_t keep);
mr_cuda_result cuMemPoolTrimTo(mr_cuda_pool *pool, size_t keep)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!known(pool)) return MR_CUDA_INVALID;
    fake_finish_all();
    for (piece *p = pool->pieces; p; p = p->next)
        if (p->free) p->owner = EVERYBODY;
    for (piece *p = pool->pieces; p; p = p->next)
        while (joins(p, p->behind)) join(pool, p);
    trim(pool, keep);
    return 0;
}

/* ---- asking and giving back -------------------------------------------------------------- */

typedef struct order {
    uint64_t at, bytes;
} order;

static bool open_now(int device, const void *arguments)
{
    const order *o = arguments;
    fake_open(device, o->at, o->bytes);
    return true;
}

static bool close_now(int device, const void *arguments)
{
    const order *o = arguments;
    (void)device;
    fake_close(o->at);
    return true;
}

static piece *find(struct mr_cuda_pool *pool, uint32_t own, uint64_t bytes)
{
    piece *p = best(pool, own, bytes);
    if (!p) p = best(pool, EVERYBODY, bytes);
    if (!p && pool->waits) p = borrowed(pool, bytes);
    return p ? p : grow(pool, bytes, own);
}

mr_cuda_result cuMemAllocFromPoolAsync(mr_cuda_pointer *at, size_t bytes, mr_cuda_pool *pool,
                                       mr_cuda_stream *stream);
mr_cuda_result cuMemAllocFromPoolAsync(mr_cuda_pointer *at, size_t bytes, mr_cuda_pool *pool,
                                       mr_cuda_stream *stream)
{
    FAKE_CALL failed = fake_begin(__func__);
    if (failed) return failed;
    if (!bytes) return fake_wrong("nothing is asked of a pool");
    if (!known(pool)) return MR_CUDA_INVALID;
    const uint64_t rounded = (bytes + UNIT - 1) / UNIT * UNIT;
    piece *p = find(pool, fake_number(stream), rounded);
    if (!p) return MR_CUDA_NO_MEMORY;
    if (p->bytes > rounded) cut(p, rounded);
    if (p->stream && p->owner != EVERYBODY && p->owner != fake_number(stream))
        fake_wait_for(stream, p->stream, p->until);
    const mr_cuda_result issued =
        fake_issue(stream, open_now, &(order){p->at, bytes}, sizeof(order));
    if (issued) return issued;
    p->free = false;
    *at = p->at;
    fake_hold(1);
    return 0;
}

static piece *in_use(uint64_t at, struct mr_cuda_pool **of)
{
    for (*of = pools; *of; *of = (*of)->next)
        for (piece *p = (*of)->pieces; p; p = p->next)
            if (p->at == at && !p->free) return p;
    return NULL;
}

mr_cuda_result cuMemFreeAsync(mr_cuda_pointer at, mr_cuda_stream *stream);
mr_cuda_result cuMemFreeAsync(mr_cuda_pointer at, mr_cuda_stream *stream)
{
    FAKE_CALL failed = fake_begin(__func__);
    struct mr_cuda_pool *pool;
    piece *p = in_use(at, &pool);
    if (!p)
        return fake_wrong("cuMemFreeAsync of %#llx, which nobody has", (unsigned long long)at);
    const mr_cuda_result issued = fake_issue(stream, close_now, &(order){at, 0}, sizeof(order));
    p->stream = stream;
    p->until = fake_issued(stream);
    set_free(pool, p, fake_number(stream));
    fake_hold(-1);
    return failed ? failed : issued;
}
