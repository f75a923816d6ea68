/* progress -- one line on a terminal that says how far the work is. */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "report.h"

#define QUIET_NS 1000000000 /* work that takes less is not worth a word */
#define EVERY_NS 100000000  /* between two updates */

typedef struct part {
    mr_watch *watch;
    mr_ctx *ctx; /* that reports it */
    const char *label;
    double done;
} part;

struct mr_watch {
    pthread_mutex_t lock;
    part *parts;
    uint32_t n;
    bool terminal, shown;
    int64_t begin, last;
};

static int64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

mr_watch *mr_watch_new(mr_ctx *ctx, uint32_t parts)
{
    mr_watch *watch = MR_NEW(ctx, mr_watch);
    pthread_mutex_init(&watch->lock, NULL);
    watch->parts = MR_NEW_N(ctx, part, parts);
    watch->n = parts;
    watch->terminal = isatty(STDERR_FILENO);
    watch->begin = now();
    return watch;
}

/* Blanks behind the text wipe what a longer one left. */
static void show(mr_watch *watch, const char *label, const char *what)
{
    double done = 0;
    for (uint32_t i = 0; i < watch->n; i++) done += watch->parts[i].done;
    char line[79];
    snprintf(line, sizeof line, "%3.0f %%  %s%s%s", 100 * done / watch->n, label,
             *label && *what ? ": " : "", what);
    fprintf(stderr, "\r%-78s", line);
    fflush(stderr);
    watch->shown = true;
}

static void advance(void *watcher, const char *what, double done)
{
    part *p = watcher;
    mr_watch *watch = p->watch;
    pthread_mutex_lock(&watch->lock);
    p->done = done < 0 ? 0 : done > 1 ? 1 : done;
    const int64_t t = now();
    if (watch->terminal && t - watch->begin > QUIET_NS && t - watch->last > EVERY_NS) {
        watch->last = t;
        show(watch, p->label, what);
    }
    pthread_mutex_unlock(&watch->lock);
}

void mr_watch_attach(mr_watch *watch, mr_ctx *ctx, uint32_t index, const char *label)
{
    part *p = &watch->parts[index];
    pthread_mutex_lock(&watch->lock);
    p->watch = watch;
    p->ctx = ctx;
    p->label = label;
    pthread_mutex_unlock(&watch->lock);
    ctx->progress = advance;
    ctx->watcher = p;
}

void mr_watch_done(mr_watch *watch, uint32_t index)
{
    part *p = &watch->parts[index];
    advance(p, "", 1);
    p->ctx->progress = NULL;
}

void mr_watch_finish(mr_watch *watch)
{
    if (watch->shown) fprintf(stderr, "\r%78s\r", "");
    pthread_mutex_destroy(&watch->lock);
}
