/* hold -- lets Ctrl-C wait while files are half-written.
 *
 * A signal that comes meanwhile takes effect at mr_signals_let(), when what was begun has been
 * finished or removed.
 */
#include <signal.h>

#include "commands.h"

static const int stopping[] = {SIGINT, SIGTERM, SIGHUP};

static sigset_t all_stopping(void)
{
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < MR_COUNT(stopping); i++) sigaddset(&set, stopping[i]);
    return set;
}

void mr_signals_hold(void)
{
    const sigset_t set = all_stopping();
    sigprocmask(SIG_BLOCK, &set, NULL);
}

void mr_signals_let(void)
{
    const sigset_t set = all_stopping();
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

bool mr_signal_waits(void)
{
    sigset_t waiting;
    if (sigpending(&waiting) != 0) return false;
    for (size_t i = 0; i < MR_COUNT(stopping); i++)
        if (sigismember(&waiting, stopping[i]) == 1) return true;
    return false;
}
