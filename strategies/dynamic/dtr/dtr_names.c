/* dtr_names -- the heuristics of the DTR paper: those that it compares, then its ablation.
 *
 * The names of the ablation say what a storage costs, whether its size and its staleness
 * divide that: all four of cost, by size or not, by staleness or not.
 */
#include "dtr.h"

#include <string.h>

#define SCORE(cost, size, stale) {DTR_SCORED, cost, size, stale, false}

const dtr_name dtr_names[] = {
    {"dtr", "DTR", SCORE(DTR_COST_REGION, true, true)},
    {"dtr-eq", "DTREqClass", SCORE(DTR_COST_CLASS, true, true)},
    {"local", "DTRLocal", SCORE(DTR_COST_LOCAL, true, true)},
    {"msps", "MSPS", SCORE(DTR_COST_ANCESTORS, true, false)},
    {"lru", "LRU", {DTR_OLDEST, DTR_COST_NONE, false, false, false}},
    {"size", "LargestStorage", SCORE(DTR_COST_NONE, true, false)},
    {"random", "RandomStorage", {DTR_DRAWN, DTR_COST_NONE, false, false, false}},
    {"dtr-size", "AbESize", SCORE(DTR_COST_REGION, true, false)},
    {"dtr-stale", "AbEStale", SCORE(DTR_COST_REGION, false, true)},
    {"dtr-cost", "AbE", SCORE(DTR_COST_REGION, false, false)},
    {"eq-size", "AbEqSize", SCORE(DTR_COST_CLASS, true, false)},
    {"eq-stale", "AbEqStale", SCORE(DTR_COST_CLASS, false, true)},
    {"eq-cost", "AbEq", SCORE(DTR_COST_CLASS, false, false)},
    {"local-size", "AbLocalSize", SCORE(DTR_COST_LOCAL, true, false)},
    {"local-stale", "AbLocalStale", SCORE(DTR_COST_LOCAL, false, true)},
    {"local-cost", "AbLocal", SCORE(DTR_COST_LOCAL, false, false)},
    {"size-stale", "AbSizeStale", SCORE(DTR_COST_NONE, true, true)},
    {"stale", "AbStale", SCORE(DTR_COST_NONE, false, true)},
};

const uint32_t dtr_names_n = MR_COUNT(dtr_names);

const dtr_name *dtr_find_name(const char *text)
{
    for (uint32_t i = 0; i < dtr_names_n; i++)
        if (!strcmp(dtr_names[i].word, text) || !strcmp(dtr_names[i].simrd, text))
            return &dtr_names[i];
    return NULL;
}
