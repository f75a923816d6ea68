/* strategy.h -- what a strategy is.  The only header of ours that a strategy includes. */
#ifndef MR_STRATEGY_H
#define MR_STRATEGY_H

#include "placement.h"

/* One row of a strategy's table of parameters, which ends with {0}. */
typedef enum mr_param_type {
    MR_PARAM_TYPE_INT,   /* uint64_t; written as a number */
    MR_PARAM_TYPE_SIZE,  /* uint64_t bytes; written 512, 2MiB, 1.5GiB */
    MR_PARAM_TYPE_REAL,  /* double */
    MR_PARAM_TYPE_BOOL,  /* bool; True/False, true/false, 1/0 */
    MR_PARAM_TYPE_TEXT,  /* const char *; may contain [ , ] nested in brackets */
    MR_PARAM_TYPE_CHOICE /* uint64_t, index of the word in `choices` "a|b|c" */
} mr_param_type;

typedef struct mr_param {
    const char *name;
    mr_param_type type;
    size_t offset;         /* into the struct of parameters */
    const char *fallback;  /* default, as written; NULL leaves the field zero */
    double low, high;      /* limits of numbers, inclusive; both 0 for none */
    const char *choices;
    const char *help;
} mr_param;

#define MR_PARAM_INT(type, field, fallback, low, high, help) \
    {#field, MR_PARAM_TYPE_INT, offsetof(type, field), fallback, low, high, NULL, help}
#define MR_PARAM_SIZE(type, field, fallback, low, high, help) \
    {#field, MR_PARAM_TYPE_SIZE, offsetof(type, field), fallback, low, high, NULL, help}
#define MR_PARAM_REAL(type, field, fallback, low, high, help) \
    {#field, MR_PARAM_TYPE_REAL, offsetof(type, field), fallback, low, high, NULL, help}
#define MR_PARAM_BOOL(type, field, fallback, help) \
    {#field, MR_PARAM_TYPE_BOOL, offsetof(type, field), fallback, 0, 0, NULL, help}
#define MR_PARAM_TEXT(type, field, fallback, help) \
    {#field, MR_PARAM_TYPE_TEXT, offsetof(type, field), fallback, 0, 0, NULL, help}
#define MR_PARAM_CHOICE(type, field, choices, fallback, help) \
    {#field, MR_PARAM_TYPE_CHOICE, offsetof(type, field), fallback, 0, 0, choices, help}

typedef struct mr_strategy {
    const char *name;    /* as written in a spec */
    const char *summary; /* one line, present tense */
    const char *source;  /* paper or program it follows; NULL when it is a definition of ours */
    const mr_param *params; /* NULL when there are none */
    size_t params_size;
    unsigned needs;   /* MR_HAS_... bits the trace must have */
    bool clairvoyant; /* looks at the whole schedule before placing: a bound, not a rival */
    /* Parameters that do not go together: MR_EUSAGE with the sentence.  May be NULL. */
    mr_status (*validate)(mr_ctx *ctx, const void *params);

    /* Exactly one is set. */
    mr_status (*rewrite)(mr_ctx *ctx, const void *params, const mr_trace *in, mr_trace *out);
    mr_status (*place)(mr_ctx *ctx, const void *params, const mr_schedule *in, mr_placer *out);
} mr_strategy;

#endif
