/* verdict -- claims of a suite, each with what was found and in which set-ups. */
#include <inttypes.h>
#include <string.h>

#include "sweep.h"
#include "twins.h"

/* ---- numbers ----------------------------------------------------------------------------- */

static const char *show_bytes(mr_ctx *ctx, double bytes, bool decimal)
{
    if (decimal) return mr_printf(ctx, "%.2f GB", bytes / 1e9);
    if (bytes > 1e18) return mr_printf(ctx, "%.4g B", bytes);
    return mr_show_bytes(ctx, (uint64_t)(bytes + 0.5));
}

/* A number in the unit of its dimension. */
static const char *show(mr_ctx *ctx, const mr_expect *expect, const mr_expr *expr, double value)
{
    const mr_dimension d = expr->dimension;
    if (value < 0) return mr_printf(ctx, "-%s", show(ctx, expect, expr, -value));
    if (d.bytes == 1 && d.time == 0) return show_bytes(ctx, value, expect->decimal);
    if (d.bytes == 0 && d.time == 1 && value >= 0 && value < 1e18)
        return mr_show_ns(ctx, (uint64_t)(value + 0.5));
    if (d.bytes == 0 && d.time == -1) return mr_printf(ctx, "%.2f/s", value * 1e9);
    if (d.bytes == 1 && d.time == -1) return mr_printf(ctx, "%.1f GB/s", value);
    if (expect->percent) return mr_printf(ctx, "%.2f %%", 100 * value);
    return mr_printf(ctx, "%.4g", value);
}

/* "5.64 GiB < 6.05 GiB", without what the text of the expectation says itself. */
static const char *show_values(mr_ctx *ctx, const mr_expect *expect, const mr_finding *f)
{
    const char *text = "";
    for (uint32_t i = 0; i < expect->values.n && i < MR_COUNT(f->values); i++) {
        const mr_expr *value = expect->values.at[i];
        if (value->kind == MR_EXPR_NUMBER) continue;
        text = mr_printf(ctx, "%s%s%s", text, *text ? ", " : "",
                         show(ctx, expect, value, f->values[i]));
    }
    return text;
}

/* ---- text -------------------------------------------------------------------------------- */

static const char *show_setup(mr_ctx *ctx, const mr_suite *suite, const mr_finding *f)
{
    const char *trace = f->trace == MR_NONE ? "" : suite->traces.at[f->trace].name;
    if (suite->devices.n < 2) return trace;
    return mr_printf(ctx, "%s%s%s", trace, *trace ? " on " : "",
                     suite->devices.at[f->device].device.name);
}

static const char *show_outcome(const mr_finding *f)
{
    return !f->known ? "not known" : f->holds ? "holds" : "does not";
}

static const mr_expect *expect_of(const mr_suite *suite, const mr_finding *f)
{
    return &suite->claims.at[f->claim].expects.at[f->expect];
}

static void put_findings(mr_ctx *ctx, const mr_suite *suite, uint32_t claim, uint32_t expect,
                         mr_sink *sink)
{
    static const char *const headings[] = {"", "", ""};
    static const bool left[] = {true, true, true};
    mr_table table = {.columns = 3, .headings = headings, .left = left};
    for (uint32_t i = 0; i < suite->findings.n; i++) {
        const mr_finding *f = &suite->findings.at[i];
        if (f->claim != claim || f->expect != expect) continue;
        MR_PUSH(ctx, &table.cells, show_setup(ctx, suite, f));
        MR_PUSH(ctx, &table.cells, show_outcome(f));
        MR_PUSH(ctx, &table.cells,
                f->known ? show_values(ctx, expect_of(suite, f), f) : f->why);
    }
    mr_table_rows(ctx, &table, "      ", sink);
}

static void count(const mr_suite *suite, uint32_t claim, uint32_t *known, uint32_t *hold)
{
    *known = *hold = 0;
    for (uint32_t i = 0; i < suite->findings.n; i++) {
        const mr_finding *f = &suite->findings.at[i];
        if (f->claim != claim || !f->known) continue;
        ++*known;
        *hold += f->holds;
    }
}

static void put_claim(mr_ctx *ctx, const mr_suite *suite, uint32_t c, mr_sink *sink)
{
    const mr_claim *claim = &suite->claims.at[c];
    uint32_t known, hold;
    count(suite, c, &known, &hold);
    mr_sink_print(sink, "%-11s  %s\n", mr_verdict_name(mr_claim_verdict(suite, c)),
                  mr_fold(ctx, claim->text, 13));
    if (known > 1)
        mr_sink_print(sink, "    holds in %" PRIu32 " of %" PRIu32 "\n", hold, known);
    for (uint32_t e = 0; e < claim->expects.n; e++) {
        mr_sink_print(sink, "    %s\n", claim->expects.at[e].text);
        put_findings(ctx, suite, c, e, sink);
    }
    mr_sink_print(sink, "\n");
}

/* What predictions with these rewrites were worth where they could be checked. */
static void put_twins(mr_ctx *ctx, const mr_suite *suite, bool markdown, mr_sink *sink)
{
    mr_twins_list list = {0};
    for (uint32_t i = 0; i < suite->specs.n; i++)
        if (mr_twins_add(ctx, &suite->specs.at[i].spec, &list) != MR_OK) return;
    mr_report_twins(ctx, &list, markdown, sink);
}

static void put_setting(mr_ctx *ctx, const mr_suite *suite, bool markdown, mr_sink *sink)
{
    if (suite->title) mr_sink_print(sink, "%s\n", mr_fold(ctx, suite->title, 0));
    for (uint32_t i = 0; i < suite->notes.n; i++)
        mr_sink_print(sink, "%s\n", mr_fold(ctx, suite->notes.at[i], 0));
    const char *text = suite->device_assumed ? "Costs of:" : "On:";
    for (uint32_t i = 0; i < suite->devices.n; i++)
        text = mr_printf(ctx, "%s%s %s", text, i ? "," : "", suite->devices.at[i].device.name);
    text = mr_printf(ctx, "%s; TF32: %s; %s.", text, suite->tf32,
                     mr_suite_iterations(ctx, suite));
    mr_sink_print(sink, "%s\n", mr_fold(ctx, text, 0));
    put_twins(ctx, suite, markdown, sink);
    mr_sink_print(sink, "\n");
}

static void put_text(mr_ctx *ctx, const mr_suite *suite, mr_sink *sink)
{
    put_setting(ctx, suite, false, sink);
    for (uint32_t c = 0; c < suite->claims.n; c++) put_claim(ctx, suite, c, sink);
}

/* ---- Markdown and CSV -------------------------------------------------------------------- */

static void put_markdown(mr_ctx *ctx, const mr_suite *suite, mr_sink *sink)
{
    static const char *const headings[] = {"verdict", "claim", "set-up", "outcome", "found"};
    static const bool left[] = {true, true, true, true, true};
    mr_table table = {.columns = MR_COUNT(headings), .headings = headings, .left = left};
    for (uint32_t i = 0; i < suite->findings.n; i++) {
        const mr_finding *f = &suite->findings.at[i];
        const bool same = i && f->claim == suite->findings.at[i - 1].claim;
        MR_PUSH(ctx, &table.cells,
                same ? "" : mr_verdict_name(mr_claim_verdict(suite, f->claim)));
        MR_PUSH(ctx, &table.cells, same ? "" : suite->claims.at[f->claim].text);
        MR_PUSH(ctx, &table.cells, show_setup(ctx, suite, f));
        MR_PUSH(ctx, &table.cells, show_outcome(f));
        MR_PUSH(ctx, &table.cells,
                f->known ? show_values(ctx, expect_of(suite, f), f) : f->why);
    }
    put_setting(ctx, suite, true, sink);
    mr_table_markdown(ctx, &table, sink);
}

static void put_csv(mr_ctx *ctx, const mr_suite *suite, mr_sink *sink)
{
    mr_sink_print(sink, "verdict,claim,expect,trace,device,outcome,found\n");
    for (uint32_t i = 0; i < suite->findings.n; i++) {
        const mr_finding *f = &suite->findings.at[i];
        const char *fields[] = {mr_verdict_name(mr_claim_verdict(suite, f->claim)),
                                suite->claims.at[f->claim].text,
                                expect_of(suite, f)->text,
                                f->trace == MR_NONE ? "" : suite->traces.at[f->trace].name,
                                suite->devices.at[f->device].device.name,
                                show_outcome(f),
                                f->known ? show_values(ctx, expect_of(suite, f), f) : f->why};
        for (size_t k = 0; k < MR_COUNT(fields); k++) {
            if (k) mr_sink_print(sink, ",");
            mr_write_csv_field(sink, fields[k]);
        }
        mr_sink_print(sink, "\n");
    }
}

void mr_report_verdicts(mr_ctx *ctx, const mr_suite *suite, const char *format, mr_sink *sink)
{
    if (strcmp(format, "csv") == 0) put_csv(ctx, suite, sink);
    else if (strcmp(format, "md") == 0) put_markdown(ctx, suite, sink);
    else put_text(ctx, suite, sink);
}
