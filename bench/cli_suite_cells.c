/* suite_cells -- computes the cells of a suite on several threads, keeps them in their order.
 */
#include <pthread.h>

#include "sweep.h"

typedef struct team {
    pthread_mutex_t lock;
    mr_suite *suite;
    mr_watch *watch;
    mr_kept *kept; /* NULL: nobody keeps them */
    uint32_t next; /* cell that nobody has taken */
    uint32_t told; /* cells before it are kept */
} team;

mr_question mr_suite_question(const mr_suite *suite, const mr_suite_cell *cell)
{
    const mr_suite_device *device = &suite->devices.at[cell->device];
    const mr_suite_trace *trace = &suite->traces.at[cell->trace];
    return (mr_question){.trace = &trace->trace,
                         .spec = &suite->specs.at[cell->spec].spec,
                         .device = &device->device,
                         .capacity = device->capacity,
                         .cuda_device = trace->cuda_device,
                         .iterations = trace->iterations};
}

static mr_status evaluate(mr_ctx *ctx, const mr_suite *suite, mr_suite_cell *cell)
{
    const mr_question question = mr_suite_question(suite, cell);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    MR_TRY(mr_evaluate(ctx, &question, answer));
    cell->metrics = answer->metrics;
    return MR_OK;
}

/* With a context of its own, of which nothing is left but the numbers. */
static void compute(team *t, uint32_t i)
{
    mr_suite_cell *cell = &t->suite->cells.at[i];
    mr_ctx ctx = {.seed = t->suite->seed};
    mr_watch_attach(t->watch, &ctx, i, t->suite->specs.at[cell->spec].spec.text);
    if (evaluate(&ctx, t->suite, cell) != MR_OK) cell->failure = ctx.failure;
    mr_watch_done(t->watch, i);
    mr_ctx_clear(&ctx);
}

/* The next cell to compute, when the last one is done. */
static uint32_t pass_on(team *t, uint32_t done)
{
    mr_suite *suite = t->suite;
    pthread_mutex_lock(&t->lock);
    if (done != MR_NONE) suite->cells.at[done].done = true;
    while (t->told < suite->cells.n && suite->cells.at[t->told].done) {
        if (t->kept) mr_kept_add(t->kept, &suite->cells.at[t->told]);
        t->told++;
    }
    const uint32_t next = t->next < suite->cells.n ? t->next++ : MR_NONE;
    pthread_mutex_unlock(&t->lock);
    return next;
}

static void *work(void *self)
{
    team *t = self;
    for (uint32_t i = pass_on(t, MR_NONE); i != MR_NONE; i = pass_on(t, i)) compute(t, i);
    return NULL;
}

/* The caller's thread is one of the workers, so that a system without threads still works. */
static void compute_all(mr_ctx *ctx, team *t, uint32_t jobs)
{
    const uint32_t left = t->suite->cells.n - t->next;
    if (jobs > left) jobs = left;
    if (!jobs) return;
    t->watch = mr_watch_new(ctx, t->suite->cells.n);
    pthread_t *threads = MR_NEW_N(ctx, pthread_t, jobs);
    uint32_t started = 0;
    while (started + 1 < jobs && pthread_create(&threads[started], NULL, work, t) == 0)
        started++;
    work(t);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    mr_watch_finish(t->watch);
}

/* What an earlier run has kept is a beginning of the cells, in their order. */
mr_status mr_suite_compute(mr_ctx *ctx, mr_suite *suite, const char *output, uint32_t jobs)
{
    team t = {.suite = suite};
    if (output) MR_TRY(mr_kept_open(ctx, suite, output, &t.kept));
    while (t.next < suite->cells.n && suite->cells.at[t.next].done) t.next++;
    t.told = t.next;
    pthread_mutex_init(&t.lock, NULL);
    compute_all(ctx, &t, jobs);
    pthread_mutex_destroy(&t.lock);
    return t.kept ? mr_kept_close(t.kept) : MR_OK;
}
