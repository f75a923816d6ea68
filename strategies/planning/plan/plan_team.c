/* plan_team -- several threads do a list of tasks; the caller is one of them. */
#include "plan_internal.h"

#include <pthread.h>
#include <stdatomic.h>
#include <time.h>

#define MOST 64 /* threads */

typedef struct team {
    void (*work)(void *self, uint32_t task);
    void *self;
    uint32_t tasks;
    _Atomic uint32_t next;
} team;

static void *help(void *arg)
{
    team *t = arg;
    for (;;) {
        const uint32_t task = atomic_fetch_add(&t->next, 1);
        if (task >= t->tasks) return NULL;
        t->work(t->self, task);
    }
}

void plan_team(uint32_t threads, uint32_t tasks, void (*work)(void *self, uint32_t task),
               void *self)
{
    team t = {.work = work, .self = self, .tasks = tasks};
    pthread_t helper[MOST];
    uint32_t n = 0;
    if (threads > tasks) threads = tasks;
    /* Without a thread that could not be made, the others do its work. */
    while (n < MOST && n + 1 < threads && !pthread_create(&helper[n], NULL, help, &t)) n++;
    help(&t);
    for (uint32_t i = 0; i < n; i++) pthread_join(helper[i], NULL);
}

double plan_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}
