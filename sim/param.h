/* param.h -- one value of a strategy's parameter: text <-> field of its struct. */
#ifndef MR_PARAM_H
#define MR_PARAM_H

#include "strategy.h"

/* "512", "2MiB", "1.5GiB", "24GB": bytes.  False when the text is anything else or too large. */
bool mr_parse_size(const char *text, uint64_t *bytes);
/* Shortest exact spelling: 2MiB, 1536, 20GiB. */
const char *mr_print_size(mr_ctx *ctx, uint64_t bytes);

/* MR_EUSAGE says what was found and what the parameter takes. */
mr_status mr_param_set(mr_ctx *ctx, const mr_param *param, const char *text, void *params);
/* As it would be written in a spec. */
const char *mr_param_print(mr_ctx *ctx, const mr_param *param, const void *params);
/* What it takes, for a person: "a size such as 2MiB", "one of sqrt, every". */
const char *mr_param_takes(mr_ctx *ctx, const mr_param *param);

#endif
