/* param.h -- the parameters of a strategy: a table from which parser, defaults
 * and help follow. */
#ifndef MR_PARAM_H
#define MR_PARAM_H

#include "base.h"

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

/* "512", "2MiB", "1.5GiB", "24GB": bytes.  False when the text is anything else
 * or too large. */
bool mr_parse_size(const char *text, uint64_t *bytes);
/* Shortest exact spelling: 2MiB, 1536, 20GiB. */
const char *mr_print_size(mr_ctx *ctx, uint64_t bytes);
/* Rounded up, for a sentence: 512 B, 1.66 GiB; a budget of what it says is enough. */
const char *mr_say_size(mr_ctx *ctx, uint64_t bytes);

/* MR_EUSAGE says what was found and what the parameter takes. */
mr_status mr_param_set(mr_ctx *ctx, const mr_param *param, const char *text, void *params);
/* As it would be written in a spec. */
const char *mr_param_print(mr_ctx *ctx, const mr_param *param, const void *params);
/* What it takes, for a person: "a size such as 2MiB", "one of sqrt, every". */
const char *mr_param_takes(mr_ctx *ctx, const mr_param *param);

#endif
