/* judge -- holds the cells of a suite against its claims. */
#include <math.h>

#include "sweep.h"

typedef struct setup {
    const mr_suite *suite;
    uint32_t trace, device;
    uint32_t choice; /* which spec of a group, below min and max */
    const char *why; /* what lacks, when a value is not known */
} setup;

static double value_of_metric(const mr_metrics *metrics, const mr_metric *metric)
{
    const double value = (double)mr_metric_value(metrics, metric);
    return metric->unit == MR_PER_S ? value * 1e-3 * 1e-9 : value; /* in a ns */
}

/* A cell that ran out of memory has peaks, but not those of a step. */
static bool cell_value(setup *s, const mr_expr *expr, uint32_t trace, uint32_t device,
                       double *out)
{
    const uint32_t spec = expr->specs.at[expr->specs.n > 1 ? s->choice : 0];
    const mr_suite_cell *cell = mr_suite_cell_at(s->suite, trace, device, spec);
    const bool fits = !cell->failure.status && !cell->metrics.refusals;
    if (cell->failure.status) s->why = cell->failure.text;
    else if (!fits) s->why = "out of memory";
    if (expr->kind == MR_EXPR_FITS) *out = fits;
    else if (fits) *out = value_of_metric(&cell->metrics, expr->metric);
    return expr->kind == MR_EXPR_FITS ? !cell->failure.status : fits;
}

static double bytes_of_trace(const mr_trace *trace, bool parameters)
{
    double sum = 0;
    for (uint32_t i = 0; i < trace->storages.n; i++) {
        const mr_storage *storage = &trace->storages.at[i];
        if (parameters ? storage->role == MR_ROLE_parameter : storage->before && storage->after)
            sum += (double)storage->bytes;
    }
    return sum;
}

static bool value_of(setup *s, const mr_expr *expr, double *out);

static bool extreme(setup *s, const mr_expr *expr, double *out)
{
    bool found = false;
    for (s->choice = 0; s->choice < expr->specs.n; s->choice++) {
        double value;
        if (!value_of(s, expr->left, &value)) continue;
        const bool better = expr->kind == MR_EXPR_MIN ? value < *out : value > *out;
        if (!found || better) *out = value;
        found = true;
    }
    return found;
}

static bool calculate(setup *s, const mr_expr *expr, double *out)
{
    double left, right;
    if (!value_of(s, expr->left, &left) || !value_of(s, expr->right, &right)) return false;
    switch (expr->kind) {
    case MR_EXPR_ADD: *out = left + right; return true;
    case MR_EXPR_SUBTRACT: *out = left - right; return true;
    case MR_EXPR_MULTIPLY: *out = left * right; return true;
    default: break;
    }
    if (right == 0) s->why = "a division by 0";
    if (right == 0) return false;
    *out = left / right;
    if (expr->kind == MR_EXPR_SAVING) *out = 1 - *out;
    if (expr->kind == MR_EXPR_OVERHEAD) *out -= 1;
    return true;
}

static bool value_of(setup *s, const mr_expr *expr, double *out)
{
    const uint32_t trace = expr->trace == MR_NONE ? s->trace : expr->trace;
    const uint32_t device = expr->device == MR_NONE ? s->device : expr->device;
    switch (expr->kind) {
    case MR_EXPR_NUMBER: *out = expr->number; return true;
    case MR_EXPR_METRIC:
    case MR_EXPR_FITS: return cell_value(s, expr, trace, device, out);
    case MR_EXPR_STATIC:
    case MR_EXPR_PARAMETERS:
        *out =
            bytes_of_trace(&s->suite->traces.at[trace].trace, expr->kind == MR_EXPR_PARAMETERS);
        return true;
    case MR_EXPR_MIN:
    case MR_EXPR_MAX: return extreme(s, expr, out);
    case MR_EXPR_SQRT:
        if (!value_of(s, expr->left, out)) return false;
        *out = sqrt(*out);
        return true;
    default: return calculate(s, expr, out);
    }
}

static bool relation_holds(double left, mr_relation relation, double right, double within)
{
    switch (relation) {
    case MR_LESS: return left < right;
    case MR_LESS_EQUAL: return left <= right;
    case MR_MORE: return left > right;
    case MR_MORE_EQUAL: return left >= right;
    case MR_EQUAL: break;
    }
    return fabs(left - right) <= within;
}

/* How far two equal numbers may be apart by rounding alone. */
#define ROUNDING 1e-9

static bool tolerance(setup *s, const mr_expect *expect, double right, double *out)
{
    *out = fabs(right) * ROUNDING;
    if (!expect->within) return true;
    if (!value_of(s, expect->within, out)) return false;
    if (expect->relative) *out *= fabs(right);
    return true;
}

static void hold_against(setup *s, const mr_expect *expect, mr_finding *out)
{
    double value, first = 0, before = 0, within = 0;
    out->known = out->holds = true;
    for (uint32_t i = 0; out->known && i < expect->values.n; i++) {
        out->known = value_of(s, expect->values.at[i], &value)
                     && (!i || tolerance(s, expect, value, &within));
        if (!out->known) break;
        if (i < MR_COUNT(out->values)) out->values[i] = value;
        if (i == 0) first = value;
        else
            out->holds &= relation_holds(expect->between ? first : before,
                                         expect->relations.at[i - 1], value, within);
        before = value;
    }
    if (!out->known) out->why = s->why ? s->why : "nothing to choose from";
}

static void judge(mr_ctx *ctx, mr_suite *suite, uint32_t c, uint32_t e, uint32_t trace,
                  uint32_t device)
{
    setup s = {.suite = suite, .trace = trace, .device = device};
    mr_finding finding = {.claim = c, .expect = e, .trace = trace, .device = device};
    hold_against(&s, &suite->claims.at[c].expects.at[e], &finding);
    MR_PUSH(ctx, &suite->findings, finding);
}

/* What names its trace or device itself is held once, whatever set-ups the claim has. */
static void judge_all(mr_ctx *ctx, mr_suite *suite, uint32_t c, uint32_t e)
{
    const mr_claim *claim = &suite->claims.at[c];
    const mr_expect *expect = &claim->expects.at[e];
    const uint32_t traces = expect->uses_trace ? claim->traces.n : 1;
    const uint32_t devices = expect->uses_device ? suite->devices.n : 1;
    for (uint32_t d = 0; d < devices; d++)
        for (uint32_t t = 0; t < traces; t++)
            judge(ctx, suite, c, e, expect->uses_trace ? claim->traces.at[t] : expect->trace,
                  expect->uses_device         ? d
                  : expect->device == MR_NONE ? 0
                                              : expect->device);
}

void mr_suite_judge(mr_ctx *ctx, mr_suite *suite)
{
    for (uint32_t c = 0; c < suite->claims.n; c++)
        for (uint32_t e = 0; e < suite->claims.at[c].expects.n; e++)
            judge_all(ctx, suite, c, e);
}

mr_verdict mr_claim_verdict(const mr_suite *suite, uint32_t claim)
{
    uint32_t known = 0, hold = 0;
    for (uint32_t i = 0; i < suite->findings.n; i++) {
        const mr_finding *f = &suite->findings.at[i];
        if (f->claim != claim || !f->known) continue;
        known++;
        hold += f->holds;
    }
    if (!known) return MR_UNDECIDED;
    return hold == known ? MR_CONFIRMED : hold ? MR_CONDITIONAL : MR_REFUTED;
}

const char *mr_verdict_name(mr_verdict verdict)
{
    static const char *const names[] = {"confirmed", "conditional", "refuted", "undecided"};
    return names[verdict];
}
