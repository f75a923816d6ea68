/* cells -- evaluates many specs, each on its own, several at a time. */
#include <pthread.h>

#include "compare.h"

/* ---- one cell ---------------------------------------------------------------------------- */

static mr_status evaluate(mr_ctx *ctx, const mr_scene *scene, const mr_cell *cell,
                          const mr_device *device, uint64_t capacity, mr_metrics *out)
{
    mr_question question = mr_scene_question(scene, cell->spec, cell->cuda_device);
    question.device = device;
    question.capacity = capacity;
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    MR_TRY(mr_evaluate(ctx, &question, answer));
    *out = answer->metrics;
    return MR_OK;
}

#define LARGEST ((uint64_t)1 << 42) /* of a device; what no recording fills */

/* Of a device that nobody named, the capacity is all of its memory (cli_scene.c). */
static bool try_capacity(const mr_scene *scene, const mr_cell *cell, uint64_t capacity,
                         mr_metrics *out)
{
    mr_ctx ctx = {0};
    mr_device device = scene->device;
    if (scene->device_assumed) device.memory = capacity < LARGEST ? capacity : LARGEST;
    const mr_status status = evaluate(&ctx, scene, cell, &device, capacity, out);
    mr_ctx_clear(&ctx);
    return status == MR_OK && out->refusals == 0;
}

static bool passes(const mr_scene *scene, const mr_cell *cell, uint64_t capacity)
{
    mr_metrics metrics;
    return try_capacity(scene, cell, capacity, &metrics);
}

#define FIT_STEP MR_MIB /* how exactly the smallest capacity is found */
#define FIT_DOUBLINGS 8

/* Bisection between what cannot fit, less than what is asked for at once, and what does. */
static uint64_t smallest_capacity(const mr_scene *scene, const mr_cell *cell, mr_ctx *watched)
{
    mr_metrics free_of_limits;
    if (!try_capacity(scene, cell, UINT64_MAX, &free_of_limits)) return 0;
    uint64_t low = free_of_limits.peak_requested / FIT_STEP;
    uint64_t high = free_of_limits.peak_reserved / FIT_STEP + 1;
    for (int i = 0; !passes(scene, cell, high * FIT_STEP); i++, high *= 2)
        if (i == FIT_DOUBLINGS) return 0;
    if (low && passes(scene, cell, low * FIT_STEP)) return low * FIT_STEP;
    const uint64_t width = high > low ? high - low : 1;
    while (high - low > 1) {
        mr_progress(watched, "smallest capacity", 1 - (double)(high - low) / (double)width);
        const uint64_t middle = low + (high - low) / 2;
        if (passes(scene, cell, middle * FIT_STEP)) high = middle;
        else low = middle;
    }
    return high * FIT_STEP;
}

/* Evaluates with a context of its own, of which nothing is left but the numbers. */
static void compute_cell(const mr_scene *scene, mr_cell *cell, bool fit, mr_watch *watch,
                         uint32_t part)
{
    mr_ctx ctx = {0};
    mr_watch_attach(watch, &ctx, part, cell->spec->text);
    if (evaluate(&ctx, scene, cell, &scene->device, scene->capacity, &cell->metrics) != MR_OK)
        cell->failure = ctx.failure;
    else if (fit) cell->fit = smallest_capacity(scene, cell, &ctx);
    mr_watch_done(watch, part);
    mr_ctx_clear(&ctx);
}

/* ---- all cells --------------------------------------------------------------------------- */

typedef struct queue {
    pthread_mutex_t lock;
    mr_comparison *comparison;
    mr_watch *watch;
    uint32_t next, n;
} queue;

static uint32_t next_cell(queue *q)
{
    pthread_mutex_lock(&q->lock);
    const uint32_t i = q->next < q->n ? q->next++ : MR_NONE;
    pthread_mutex_unlock(&q->lock);
    return i;
}

static void *work(void *self)
{
    queue *q = self;
    const mr_comparison *c = q->comparison;
    for (uint32_t i; (i = next_cell(q)) != MR_NONE;)
        compute_cell(c->scene, &c->cells[i], c->fit, q->watch, i);
    return NULL;
}

/* The caller's thread is one of the workers, so that a system without threads still works. */
void mr_compare(mr_ctx *ctx, mr_comparison *comparison, uint32_t jobs)
{
    queue q = {.comparison = comparison,
               .n = comparison->specs * comparison->scene->cuda_device_count};
    q.watch = mr_watch_new(ctx, q.n);
    pthread_mutex_init(&q.lock, NULL);
    if (jobs > q.n) jobs = q.n;
    pthread_t *threads = MR_NEW_N(ctx, pthread_t, jobs);
    uint32_t started = 0;
    while (started + 1 < jobs && pthread_create(&threads[started], NULL, work, &q) == 0)
        started++;
    work(&q);
    for (uint32_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    pthread_mutex_destroy(&q.lock);
    mr_watch_finish(q.watch);
}
