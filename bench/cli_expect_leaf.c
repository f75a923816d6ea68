/* leaf -- the leaves of an expectation: numbers with units, and numbers of cells. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "expect_parser.h"

/* ---- signs ------------------------------------------------------------------------------- */

mr_place mr_expect_here(const mr_expect_parser *p)
{
    return (mr_place){p->place.line, p->place.column + (uint64_t)(p->at - p->text)};
}

void mr_expect_skip(mr_expect_parser *p)
{
    while (*p->at == ' ' || *p->at == '\t') p->at++;
}

bool mr_expect_is_letter(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

bool mr_expect_accept(mr_expect_parser *p, const char *sign)
{
    const size_t n = strlen(sign);
    mr_expect_skip(p);
    if (strncmp(p->at, sign, n) != 0) return false;
    if (mr_expect_is_letter(*sign) && mr_expect_is_letter(p->at[n])) return false;
    p->at += n;
    return true;
}

static bool next_is(const mr_expect_parser *p, const char *word)
{
    mr_expect_parser look = *p;
    return mr_expect_accept(&look, word);
}

mr_status mr_expect_need(mr_expect_parser *p, const char *sign)
{
    if (mr_expect_accept(p, sign)) return MR_OK;
    if (!*p->at)
        return mr_expect_fail(p, mr_expect_here(p), "the line ends, expected '%s'", sign);
    return mr_expect_fail(p, mr_expect_here(p), "found '%.16s', expected '%s'", p->at, sign);
}

mr_expr *mr_expect_new(mr_expect_parser *p, mr_expr_kind kind, mr_place place)
{
    mr_expr *expr = MR_NEW(p->ctx, mr_expr);
    expr->kind = kind;
    expr->place = place;
    expr->trace = expr->device = MR_NONE;
    return expr;
}

/* ---- numbers ----------------------------------------------------------------------------- */

static const struct unit {
    const char *name;
    double factor;
    mr_dimension dimension;
    bool decimal;
} units[] = {
    {"%", 0.01, {0, 0}, false},
    {"/s", 1e-9, {0, -1}, false},
    {"KiB", 1024.0, {1, 0}, false},
    {"MiB", 1048576.0, {1, 0}, false},
    {"GiB", 1073741824.0, {1, 0}, false},
    {"TiB", 1099511627776.0, {1, 0}, false},
    {"KB", 1e3, {1, 0}, true},
    {"MB", 1e6, {1, 0}, true},
    {"GB", 1e9, {1, 0}, true},
    {"TB", 1e12, {1, 0}, true},
    {"B", 1, {1, 0}, false},
    {"ns", 1, {0, 1}, false},
    {"us", 1e3, {0, 1}, false},
    {"ms", 1e6, {0, 1}, false},
    {"s", 1e9, {0, 1}, false},
};

static bool accept_unit(mr_expect_parser *p, const char *unit)
{
    const char *before = p->at;
    if (unit[0] == '/' && *p->at != '/') return false; /* 1 / s... is a division */
    if (!mr_expect_accept(p, unit)) return false;
    if (!mr_expect_is_letter(*p->at) || !mr_expect_is_letter(unit[strlen(unit) - 1]))
        return true;
    p->at = before;
    return false;
}

mr_status mr_expect_number(mr_expect_parser *p, const mr_expr **out)
{
    char *end;
    mr_expr *expr = mr_expect_new(p, MR_EXPR_NUMBER, mr_expect_here(p));
    expr->number = strtod(p->at, &end);
    p->percent = false;
    *out = expr;
    for (size_t i = 0; i < MR_COUNT(units); i++) {
        p->at = end;
        if (!accept_unit(p, units[i].name)) continue;
        expr->number *= units[i].factor;
        expr->dimension = units[i].dimension;
        p->out->decimal |= units[i].decimal;
        p->percent = i == 0;
        p->out->percent |= p->percent;
        return MR_OK;
    }
    p->at = end;
    mr_expect_skip(p);
    if (!mr_expect_is_letter(*p->at) || next_is(p, "and") || next_is(p, "within")
        || next_is(p, "between"))
        return MR_OK;
    return mr_expect_fail(p, mr_expect_here(p),
                          "'%.16s' is no unit, expected %%, GiB, GB, ms, /s or the like",
                          p->at);
}

/* ---- cells ------------------------------------------------------------------------------- */

static mr_dimension dimension_of(mr_unit unit)
{
    switch (unit) {
    case MR_BYTES: return (mr_dimension){1, 0};
    case MR_NS: return (mr_dimension){0, 1};
    case MR_PER_S: return (mr_dimension){0, -1};
    case MR_COUNTS: break;
    }
    return (mr_dimension){0, 0};
}

static const struct named {
    const char *name;
    mr_expr_kind kind;
    mr_dimension dimension;
    bool of_spec;
} quantities[] = {{"fits", MR_EXPR_FITS, {0, 0}, true},
                  {"static", MR_EXPR_STATIC, {1, 0}, false},
                  {"parameters", MR_EXPR_PARAMETERS, {1, 0}, false}};

/* The metric or other quantity of that name; *of_spec says whether it is that of a cell. */
static mr_status find_quantity(mr_expect_parser *p, const char *name, mr_expr *out,
                               bool *of_spec)
{
    mr_words names = {0};
    *of_spec = true;
    for (uint32_t i = 0; i < mr_metric_count; i++) {
        MR_PUSH(p->ctx, &names, mr_metric_list[i].name);
        if (strcmp(mr_metric_list[i].name, name) != 0) continue;
        out->metric = &mr_metric_list[i];
        out->dimension = dimension_of(mr_metric_list[i].unit);
        return MR_OK;
    }
    for (size_t i = 0; i < MR_COUNT(quantities); i++) {
        MR_PUSH(p->ctx, &names, quantities[i].name);
        if (strcmp(quantities[i].name, name) != 0) continue;
        out->kind = quantities[i].kind;
        out->dimension = quantities[i].dimension;
        *of_spec = quantities[i].of_spec;
        return MR_OK;
    }
    const char *near = mr_nearest(name, names.at, names.n);
    return mr_expect_fail(p, out->place, "unknown quantity '%s'%s%s%s", name,
                          near ? " (did you mean '"
                               : ", expected a metric such as peak_reserved",
                          near ? near : "", near ? "'?)" : "");
}

/* The next part of what stands in brackets: up to '@' or the end, without blanks around. */
static const char *take_part(mr_expect_parser *p, mr_place *place)
{
    int depth = 0;
    mr_expect_skip(p);
    *place = mr_expect_here(p);
    const char *begin = p->at;
    for (; *p->at; p->at++) {
        if (depth == 0 && (*p->at == ']' || *p->at == '@')) break;
        depth += (*p->at == '[') - (*p->at == ']');
    }
    size_t n = (size_t)(p->at - begin);
    while (n && (begin[n - 1] == ' ' || begin[n - 1] == '\t')) n--;
    return mr_strndup(p->ctx, begin, n);
}

static mr_ids one_id(mr_ctx *ctx, uint32_t id)
{
    mr_ids ids = {MR_NEW(ctx, uint32_t), 1};
    ids.at[0] = id;
    return ids;
}

static mr_status find_specs(mr_expect_parser *p, const char *name, mr_place place, mr_expr *out)
{
    const mr_group *group = mr_suite_group_named(p->suite, name);
    if (group && group->of_traces)
        return mr_expect_fail(p, place, "'%s' is a group of traces, expected a spec", name);
    if (group && !p->many)
        return mr_expect_fail(
            p, place, "'%s' is a group of specs, of which min() or max() takes one", name);
    if (group && p->many_n && p->many_n != group->members.n)
        return mr_expect_fail(p, place,
                              "'%s' has another number of specs than the group before", name);
    if (group) {
        out->specs = group->members;
        p->many_n = group->members.n;
        return MR_OK;
    }
    const uint32_t spec = mr_suite_spec_named(p->ctx, p->suite, name);
    if (spec == MR_NONE) return mr_expect_fail(p, place, "'%s' is no spec of this suite", name);
    out->specs = one_id(p->ctx, spec);
    return MR_OK;
}

static mr_status find_place(mr_expect_parser *p, const char *name, mr_place place, mr_expr *out)
{
    const uint32_t trace = mr_suite_trace_named(p->suite, name);
    const uint32_t device = mr_suite_device_named(p->suite, name);
    if (trace != MR_NONE) out->trace = trace;
    else if (device != MR_NONE) out->device = device;
    else return mr_expect_fail(p, place, "'%s' is no trace and no device of this suite", name);
    return MR_OK;
}

static mr_status check_computed(mr_expect_parser *p, const mr_expr *expr, uint32_t trace)
{
    for (uint32_t i = 0; i < expr->specs.n; i++)
        if (!mr_suite_cell_at(p->suite, trace, 0, expr->specs.at[i]))
            return mr_expect_fail(p, expr->place,
                                  "no line computes %s of '%s': name other traces behind "
                                  "`for`, or more cells",
                                  p->suite->specs.at[expr->specs.at[i]].spec.text,
                                  p->suite->traces.at[trace].name);
    return MR_OK;
}

static mr_status check_all_computed(mr_expect_parser *p, const mr_expr *expr)
{
    if (expr->trace != MR_NONE) return check_computed(p, expr, expr->trace);
    for (uint32_t i = 0; i < p->claim->traces.n; i++)
        MR_TRY(check_computed(p, expr, p->claim->traces.at[i]));
    return MR_OK;
}

mr_status mr_expect_cell(mr_expect_parser *p, const char *name, mr_place begin,
                         const mr_expr **out)
{
    mr_place place;
    bool of_spec;
    mr_expr *expr = mr_expect_new(p, MR_EXPR_METRIC, begin);
    *out = expr;
    MR_TRY(find_quantity(p, name, expr, &of_spec));
    MR_TRY(mr_expect_need(p, "["));
    const char *part = take_part(p, &place);
    if (!of_spec && *part)
        return mr_expect_fail(p, place, "%s is of a trace, expected '@' and a trace, or ']'",
                              name);
    if (of_spec && !*part) return mr_expect_fail(p, place, "expected a spec");
    if (of_spec) MR_TRY(find_specs(p, part, place, expr));
    while (mr_expect_accept(p, "@")) {
        part = take_part(p, &place);
        MR_TRY(find_place(p, part, place, expr));
    }
    MR_TRY(mr_expect_need(p, "]"));
    p->out->uses_trace |= expr->trace == MR_NONE;
    p->out->uses_device |= of_spec && expr->device == MR_NONE;
    if (expr->trace != MR_NONE) p->out->trace = expr->trace;
    if (expr->device != MR_NONE) p->out->device = expr->device;
    return check_all_computed(p, expr);
}
