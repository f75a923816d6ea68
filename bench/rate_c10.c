/* rate_c10 -- bare rate of the model of PyTorch's allocator: replays an event list without
 * printing.
 *
 *     rate_c10 EVENTS N [VERSION]    EVENTS holds lines "a SLOT BYTES" and "f SLOT 0"; N
 * repetitions
 *
 * Two warm-up rounds go before.  Same input and output as tests/oracle/rate.cpp, which does it
 * with the real allocator, so that the two can be timed side by side.
 */
#include "c10.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef struct event {
    uint64_t bytes;
    uint32_t slot;
    bool alloc;
} event;

typedef struct device { /* addresses upwards, 80 GiB */
    uint64_t used, next;
} device;

static const uint64_t capacity = 80 * MR_GIB;

static bool device_malloc(void *self, uint64_t bytes, uint32_t stream, uint64_t *address)
{
    (void)stream;
    device *d = self;
    if (bytes > capacity - d->used) return false;
    d->used += bytes;
    *address = d->next;
    d->next += bytes;
    return true;
}

static void device_free(void *self, uint64_t address, uint64_t bytes)
{
    (void)address;
    ((device *)self)->used -= bytes;
}

static uint64_t device_available(void *self)
{
    return capacity - ((device *)self)->used;
}

static void replay(c10_allocator *a, const event *events, uint32_t n, uint32_t *blocks)
{
    for (uint32_t i = 0; i < n; i++) {
        c10_lease lease;
        if (events[i].alloc) {
            c10_malloc(a, events[i].bytes, 0, &lease);
            blocks[events[i].slot] = lease.block;
        } else {
            c10_free(a, blocks[events[i].slot]);
        }
    }
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int run(mr_ctx *ctx, FILE *file, int times, c10_version version)
{
    MR_VEC(event) events = {0};
    uint32_t top = 0;
    char kind;
    event e;
    while (fscanf(file, " %c %" SCNu32 " %" SCNu64, &kind, &e.slot, &e.bytes) == 3) {
        e.alloc = kind == 'a';
        if (e.slot > top) top = e.slot;
        MR_PUSH(ctx, &events, e);
    }
    uint32_t *blocks = MR_NEW_N(ctx, uint32_t, top + 1);
    device d = {.next = UINT64_C(0x700000000000)};
    const c10_device calls = {.self = &d,
                              .total = capacity,
                              .malloc = device_malloc,
                              .free = device_free,
                              .available = device_available};
    c10_allocator *a = c10_new(ctx, &calls, version, NULL);
    for (int i = 0; i < 2; i++) replay(a, events.at, events.n, blocks);
    const double start = now();
    for (int i = 0; i < times; i++) replay(a, events.at, events.n, blocks);
    const double seconds = now() - start, n = (double)events.n * times;
    printf("%.0f events, %.3f s, %.2f million a second\n", n, seconds, n / seconds / 1e6);
    return 0;
}

int main(int argc, char **argv)
{
    c10_version version = C10_NEWEST;
    const bool versioned =
        argc == 4 && sscanf(argv[3], "%u.%u", &version.major, &version.minor) == 2;
    if (argc != 3 && !versioned) {
        fprintf(stderr, "usage: rate_c10 EVENTS N [VERSION]\n");
        return 2;
    }
    FILE *file = fopen(argv[1], "r");
    if (!file) {
        perror(argv[1]);
        return 1;
    }
    mr_ctx ctx = {0};
    const int status = run(&ctx, file, atoi(argv[2]), version);
    fclose(file);
    mr_ctx_clear(&ctx);
    return status;
}
