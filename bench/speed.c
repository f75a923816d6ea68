/* speed -- how many events a second: placing, refereeing and replaying a repeated recording.
 *
 *     memreuse_speed RECORDING [SPEC [EVENTS...]]    a row per number of events
 *     memreuse_speed --events RECORDING              events as lines "a SLOT BYTES", "f SLOT 0"
 *
 * The second form feeds tests/oracle/rate, so that the real allocator is timed with the same
 * events; bench/speed.sh runs both side by side.  Rates are medians of five, of
 * processor time.
 */
#include "evaluate.h"
#include "format.h"
#include "strategies.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#define REPEATS 5

/* Of the processor, so that others on the machine matter little. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *values, size_t n)
{
    qsort(values, n, sizeof *values, by_value);
    return values[n / 2];
}

static const mr_device device = {
    .name = "speed", .memory = 1024 * MR_GIB, .granularity = 2 * MR_MIB};

typedef struct timing {
    double place, referee, replay;
} timing;

static timing time_once(const mr_schedule *schedule, const mr_spec *spec)
{
    mr_ctx ctx = {0};
    timing t;
    mr_placement placement = {.schedule = schedule, .oom_at = MR_NONE};
    mr_placer placer = {.ctx = &ctx, .capacity = UINT64_MAX, .total = device.memory,
                        .granularity = device.granularity, .out = &placement};
    mr_metrics metrics;
    const double start = now();
    mr_status status =
        spec->place.strategy->place(&ctx, spec->place.params, schedule, &placer);
    const double placed = now();
    if (!status) status = mr_placement_check(&ctx, &placement, UINT64_MAX, placer.granularity);
    const double checked = now();
    if (!status)
        status = mr_replay(&ctx, &placement, &device, &mr_backend_model, NULL, &metrics);
    t = (timing){placed - start, checked - placed, now() - checked};
    if (status) fprintf(stderr, "%s\n", ctx.failure.text), exit(1);
    mr_ctx_clear(&ctx);
    return t;
}

static double peak_bytes(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)usage.ru_maxrss * 1024;
}

static uint32_t count_requests(const mr_schedule *schedule)
{
    uint32_t n = 0;
    for (uint32_t e = 0; e < schedule->events.n; e++)
        n += schedule->events.at[e].kind == MR_ALLOC || schedule->events.at[e].kind == MR_FREE;
    return n;
}

static void row(mr_ctx *ctx, const mr_schedule *once, const mr_spec *spec, uint64_t events)
{
    mr_schedule all;
    const uint64_t n = (events + once->events.n - 1) / once->events.n;
    if (mr_schedule_repeat(ctx, once, n ? (uint32_t)n : 1, &all))
        fprintf(stderr, "%s\n", ctx->failure.text), exit(1);
    const double before = peak_bytes();
    double place[REPEATS], referee[REPEATS], replay[REPEATS];
    for (int i = 0; i < REPEATS; i++) {
        const timing t = time_once(&all, spec);
        place[i] = t.place;
        referee[i] = t.referee;
        replay[i] = t.replay;
    }
    const double requests = count_requests(&all), bytes = peak_bytes() - before;
    printf("%10.0f %10.2f %12.2f %12.2f %12.2f %10.0f\n", requests,
           requests / median(place, REPEATS) / 1e6, median(place, REPEATS) / requests * 1e9,
           median(referee, REPEATS) / requests * 1e9, median(replay, REPEATS) / requests * 1e9,
           bytes / requests);
}

static void print_events(const mr_trace *trace, const mr_schedule *schedule)
{
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (trace->storages.at[s].before)
            printf("a %u %" PRIu64 "\n", s, trace->storages.at[s].bytes);
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event *event = &schedule->events.at[e];
        if (event->kind == MR_ALLOC)
            printf("a %u %" PRIu64 "\n", event->id, trace->storages.at[event->id].bytes);
        if (event->kind == MR_FREE) printf("f %u 0\n", event->id);
    }
    /* What is alive at the end goes, so that the list can be repeated. */
    bool *live = calloc(trace->storages.n, sizeof *live);
    for (uint32_t s = 0; s < trace->storages.n; s++) live[s] = trace->storages.at[s].before;
    for (uint32_t e = 0; e < schedule->events.n; e++) {
        const mr_event *event = &schedule->events.at[e];
        if (event->kind == MR_ALLOC || event->kind == MR_FREE)
            live[event->id] = event->kind == MR_ALLOC;
    }
    for (uint32_t s = 0; s < trace->storages.n; s++)
        if (live[s]) printf("f %u 0\n", s);
    free(live);
}

int main(int argc, char **argv)
{
    mr_ctx ctx = {0};
    mr_trace trace;
    mr_schedule schedule;
    mr_spec spec;
    const bool list = argc == 3 && !strcmp(argv[1], "--events");
    if (argc < 2) {
        fprintf(stderr, "usage: memreuse_speed RECORDING [SPEC [EVENTS...]]\n");
        return 2;
    }
    const char *text = argc > 2 && !list ? argv[2] : "pytorch";
    if (mr_recording_read(&ctx, argv[list ? 2 : 1], &(mr_read_options){0}, &trace)
        || mr_schedule_make(&ctx, &trace, 0, &schedule)
        || mr_spec_parse(&ctx, mr_strategies, text, &spec)) {
        fprintf(stderr, "memreuse_speed: %s\n", ctx.failure.text);
        return 1;
    }
    if (list) {
        print_events(&trace, &schedule);
        return 0;
    }
    printf("%10s %10s %12s %12s %12s %10s\n", "requests", "million/s", "place ns", "referee ns",
           "replay ns", "bytes each");
    static const uint64_t usual[] = {10000, 100000, 1000000, 10000000};
    for (int i = 3; i < argc; i++) row(&ctx, &schedule, &spec, strtoull(argv[i], NULL, 10));
    for (size_t i = 0; argc < 4 && i < MR_COUNT(usual); i++)
        row(&ctx, &schedule, &spec, usual[i]);
    mr_ctx_clear(&ctx);
    return 0;
}
