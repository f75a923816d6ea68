/* strategies.h -- the array of all strategies, made from strategies.def. */
#ifndef MR_STRATEGIES_H
#define MR_STRATEGIES_H

#include "strategy.h"

extern const mr_strategy *const mr_strategies[]; /* ends with NULL */
extern const char *const mr_strategy_families[]; /* folder of each, in the same order */

#endif
