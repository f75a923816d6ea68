/* strategies -- the array. */
#include "strategies.h"

#define STRATEGY(family, name) extern const mr_strategy mr_strategy_##name;
#include "strategies.def"
#undef STRATEGY

const mr_strategy *const mr_strategies[] = {
#define STRATEGY(family, name) &mr_strategy_##name,
#include "strategies.def"
#undef STRATEGY
    NULL,
};

const char *const mr_strategy_families[] = {
#define STRATEGY(family, name) #family,
#include "strategies.def"
#undef STRATEGY
    NULL,
};
