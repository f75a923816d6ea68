/* together -- several placements carried out at the same time, each on a GPU of its own.
 *
 * Each has a thread, as a driver has one current context per thread.  They begin when all devices
 * are open.  When one fails the others stop at their next command: what they would measure then
 * is not what was asked for.
 */
#include <pthread.h>

#include "measured.h"

typedef struct mr_company {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint32_t awaited; /* who has neither begun nor ended */
    bool failed;
} mr_company;

static void arrive(mr_member *member)
{
    if (!member->met) member->company->awaited--;
    member->met = true;
    pthread_cond_broadcast(&member->company->changed);
}

static void meet(void *of)
{
    mr_member *member = of;
    mr_company *company = member->company;
    pthread_mutex_lock(&company->lock);
    arrive(member);
    while (company->awaited && !company->failed)
        pthread_cond_wait(&company->changed, &company->lock);
    pthread_mutex_unlock(&company->lock);
}

static bool stop(void *of)
{
    mr_member *member = of;
    pthread_mutex_lock(&member->company->lock);
    member->stopped = member->company->failed;
    pthread_mutex_unlock(&member->company->lock);
    return member->stopped || mr_signal_waits();
}

static void leave(mr_member *member)
{
    pthread_mutex_lock(&member->company->lock);
    member->company->failed |= member->status != MR_OK;
    arrive(member);
    pthread_mutex_unlock(&member->company->lock);
}

static void *carry_out(void *of)
{
    mr_member *member = of;
    member->status = mr_carry_out(&member->ctx, &member->question, &member->manner,
                                  &member->measured, &member->metrics);
    if (member->stopped)
        member->status = mr_fail(&member->ctx, MR_EDEVICE,
                                 "stopped, for another device of the recording failed");
    leave(member);
    return NULL;
}

static void begin(mr_member *member, pthread_t *thread)
{
    member->manner.meet = meet;
    member->manner.stop = stop;
    member->manner.company = member;
    if (pthread_create(thread, NULL, carry_out, member) == 0) return;
    *thread = pthread_self();
    member->status = mr_fail(&member->ctx, MR_EIO, "the machine has no thread for a device");
    leave(member);
}

void mr_carry_out_together(mr_member *members, uint32_t n)
{
    mr_company company = {.awaited = n};
    mr_ctx ctx = {0};
    pthread_t *threads = MR_NEW_N(&ctx, pthread_t, n);
    pthread_mutex_init(&company.lock, NULL);
    pthread_cond_init(&company.changed, NULL);
    for (uint32_t i = 0; i < n; i++) members[i].company = &company;
    for (uint32_t i = 0; i < n; i++) begin(&members[i], &threads[i]);
    for (uint32_t i = 0; i < n; i++)
        if (!pthread_equal(threads[i], pthread_self())) pthread_join(threads[i], NULL);
    pthread_cond_destroy(&company.changed);
    pthread_mutex_destroy(&company.lock);
    mr_ctx_clear(&ctx);
}
