/* cells -- evaluates many specs, each on its own, several at a time. */
#include <pthread.h>

#include "compare.h"

/* ---- one cell ---------------------------------------------------------------------------- */

static mr_status evaluate(mr_ctx *ctx, const mr_scene *scene, const mr_cell *cell,
                          mr_metrics *out)
{
    const mr_question question = mr_scene_question(scene, cell->spec, cell->cuda_device);
    mr_answer *answer = MR_NEW(ctx, mr_answer);
    MR_TRY(mr_evaluate(ctx, &question, answer));
    *out = answer->metrics;
    return MR_OK;
}

#define LARGEST ((uint64_t)1 << 42) /* of a device; what no recording fills */

/* Of a device that nobody named, the capacity is all of its memory (cli_scene.c). */
static mr_device device_of(const mr_scene *scene, uint64_t capacity)
{
    mr_device device = scene->device;
    if (scene->device_assumed) device.memory = capacity < LARGEST ? capacity : LARGEST;
    return device;
}

/* A step that is rewritten once, as that asks for no device, and then placed on less memory. */
typedef struct trial {
    const mr_scene *scene;
    mr_spec placement;    /* without the rewrites */
    mr_question question; /* of the step as rewritten */
    mr_answer unlimited;
} trial;

static bool trial_begin(mr_ctx *ctx, const mr_scene *scene, const mr_cell *cell, trial *out)
{
    const mr_device device = device_of(scene, UINT64_MAX);
    *out = (trial){.scene = scene,
                   .placement = *cell->spec,
                   .question = mr_scene_question(scene, cell->spec, cell->cuda_device)};
    out->question.device = &device;
    out->question.capacity = UINT64_MAX;
    if (mr_evaluate(ctx, &out->question, &out->unlimited) != MR_OK) return false;
    out->question.device = &scene->device;
    out->placement.rewrites.n = 0;
    out->question.trace = &out->unlimited.rewritten;
    out->question.spec = &out->placement;
    return out->unlimited.metrics.refusals == 0;
}

static bool passes(const trial *t, uint64_t capacity)
{
    mr_ctx ctx = {0};
    const mr_device device = device_of(t->scene, capacity);
    mr_question question = t->question;
    question.device = &device;
    question.capacity = capacity;
    mr_answer *answer = MR_NEW(&ctx, mr_answer);
    const bool passed =
        mr_evaluate(&ctx, &question, answer) == MR_OK && answer->metrics.refusals == 0;
    mr_ctx_clear(&ctx);
    return passed;
}

#define FIT_STEP MR_MIB /* how exactly the smallest capacity is found */
#define FIT_DOUBLINGS 8

/* What lays the whole step out at once takes the same on every device; 0 for what does not. */
static uint64_t known_need(const trial *t)
{
    const mr_metrics *m = &t->unlimited.metrics;
    if (!t->placement.place.strategy->clairvoyant) return 0;
    const uint64_t held = m->peak_device - t->scene->device.context;
    const uint64_t need = (held + FIT_STEP - 1) / FIT_STEP * FIT_STEP;
    return passes(t, need) ? need : 0;
}

/* Bisection between what cannot fit, less than what is asked for at once, and what does. */
static uint64_t smallest_capacity(const trial *t, mr_ctx *watched)
{
    const uint64_t known = known_need(t);
    if (known) return known;
    uint64_t low = t->unlimited.metrics.peak_requested / FIT_STEP;
    uint64_t high = t->unlimited.metrics.peak_reserved / FIT_STEP + 1;
    for (int i = 0; !passes(t, high * FIT_STEP); i++, high *= 2)
        if (i == FIT_DOUBLINGS) return 0;
    if (low && passes(t, low * FIT_STEP)) return low * FIT_STEP;
    const uint64_t width = high > low ? high - low : 1;
    while (high - low > 1) {
        mr_progress(watched, "smallest capacity", 1 - (double)(high - low) / (double)width);
        const uint64_t middle = low + (high - low) / 2;
        if (passes(t, middle * FIT_STEP)) high = middle;
        else low = middle;
    }
    return high * FIT_STEP;
}

/* Nothing is left but the number. */
static uint64_t find_fit(const mr_scene *scene, const mr_cell *cell, mr_ctx *watched)
{
    mr_ctx ctx = {0};
    trial *t = MR_NEW(&ctx, trial);
    const uint64_t fit = trial_begin(&ctx, scene, cell, t) ? smallest_capacity(t, watched) : 0;
    mr_ctx_clear(&ctx);
    return fit;
}

/* Evaluates with a context of its own, of which nothing is left but the numbers. */
static void compute_cell(const mr_scene *scene, mr_cell *cell, bool fit, mr_watch *watch,
                         uint32_t part)
{
    mr_ctx ctx = {0};
    mr_watch_attach(watch, &ctx, part, cell->spec->text);
    if (evaluate(&ctx, scene, cell, &cell->metrics) != MR_OK) cell->failure = ctx.failure;
    else if (fit) cell->fit = find_fit(scene, cell, &ctx);
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

mr_comparison mr_compare_specs(mr_ctx *ctx, const mr_scene *scene, uint32_t cuda_device,
                               const mr_specs *specs, bool fit, uint32_t jobs)
{
    mr_comparison c = {.scene = mr_scene_alone(ctx, scene), .specs = specs->n, .fit = fit};
    c.cells = MR_NEW_N(ctx, mr_cell, specs->n);
    for (uint32_t i = 0; i < specs->n; i++)
        c.cells[i] = (mr_cell){.spec = &specs->at[i], .cuda_device = cuda_device};
    mr_compare(ctx, &c, jobs);
    return c;
}
