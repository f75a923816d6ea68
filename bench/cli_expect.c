/* expect -- an expectation of a suite, from text to a tree of numbers that are of known
 * dimensions.
 *
 *     expect    = sum [ relation sum { relation sum } | "=" sum [ "within" sum ]
 *                     | "between" sum "and" sum ]
 *     relation  = "<" | "<=" | ">" | ">="
 *     sum       = product { ("+" | "-") product }
 *     product   = factor { ("*" | "/") factor }
 *     factor    = "-" factor | "(" sum ")" | number | function | cell
 *     number    = digits [ "." digits ] [ "%" | "GiB" | "GB" | "ms" | "/s" | ... ]
 *     function  = ("saving" | "overhead") "(" sum "," sum ")" | ("sqrt" | "min" | "max") "("
 * sum ")" cell      = metric "[" [ spec ] [ "@" trace ] [ "@" device ] "]"
 */
#include <ctype.h>
#include <string.h>

#include "expect_parser.h"

/* ---- what is calculated ------------------------------------------------------------------ */

static const char *dimension_name(mr_ctx *ctx, mr_dimension d)
{
    if (!d.bytes && !d.time) return "a plain number";
    if (d.bytes == 1 && !d.time) return "bytes";
    if (!d.bytes && d.time == 1) return "a time";
    if (!d.bytes && d.time == -1) return "a rate";
    return mr_printf(ctx, "bytes^%d ns^%d", d.bytes, d.time);
}

static mr_status same_dimension(mr_expect_parser *p, const mr_expr *left, const mr_expr *right)
{
    if (left->dimension.bytes == right->dimension.bytes
        && left->dimension.time == right->dimension.time)
        return MR_OK;
    return mr_expect_fail(p, right->place, "this is %s, expected %s as what it is held against",
                          dimension_name(p->ctx, right->dimension),
                          dimension_name(p->ctx, left->dimension));
}

static mr_status take_sum(mr_expect_parser *p, const mr_expr **out);

static mr_status combine(mr_expect_parser *p, mr_expr_kind kind, const mr_expr *left,
                         const mr_expr *right, const mr_expr **out)
{
    mr_expr *expr = mr_expect_new(p, kind, left->place);
    const int sign = kind == MR_EXPR_MULTIPLY ? 1 : -1;
    expr->left = left;
    expr->right = right;
    *out = expr;
    if (kind == MR_EXPR_MULTIPLY || kind == MR_EXPR_DIVIDE) {
        expr->dimension = (mr_dimension){left->dimension.bytes + sign * right->dimension.bytes,
                                         left->dimension.time + sign * right->dimension.time};
        return MR_OK;
    }
    const bool ratio = kind == MR_EXPR_SAVING || kind == MR_EXPR_OVERHEAD;
    if (!ratio) expr->dimension = left->dimension;
    return same_dimension(p, left, right);
}

static mr_status take_two(mr_expect_parser *p, mr_expr_kind kind, const mr_expr **out)
{
    const mr_expr *left, *right;
    MR_TRY(take_sum(p, &left));
    MR_TRY(mr_expect_need(p, ","));
    MR_TRY(take_sum(p, &right));
    MR_TRY(mr_expect_need(p, ")"));
    return combine(p, kind, left, right, out);
}

static mr_status take_one(mr_expect_parser *p, mr_expr_kind kind, mr_place place,
                          const mr_expr **out)
{
    mr_expr *expr = mr_expect_new(p, kind, place);
    const bool extreme = kind != MR_EXPR_SQRT;
    if (extreme && p->many)
        return mr_expect_fail(p, place, "min() and max() stand in no other such");
    if (extreme) p->many = true, p->many_n = 0;
    MR_TRY(take_sum(p, &expr->left));
    if (extreme) {
        p->many = false;
        expr->specs.n = p->many_n; /* how many there are to try */
        if (!p->many_n) return mr_expect_fail(p, place, "expected a group of specs in it");
    }
    expr->dimension = expr->left->dimension;
    if (!extreme) {
        if (expr->dimension.bytes % 2 || expr->dimension.time % 2)
            return mr_expect_fail(p, expr->left->place, "this is %s, which has no square root",
                                  dimension_name(p->ctx, expr->dimension));
        expr->dimension.bytes /= 2;
        expr->dimension.time /= 2;
    }
    *out = expr;
    return mr_expect_need(p, ")");
}

static mr_status take_named(mr_expect_parser *p, const mr_expr **out)
{
    const mr_place place = mr_expect_here(p);
    const char *begin = p->at;
    while (mr_expect_is_letter(*p->at)) p->at++;
    const char *name = mr_strndup(p->ctx, begin, (size_t)(p->at - begin));
    if (mr_expect_accept(p, "(")) {
        if (strcmp(name, "saving") == 0) return take_two(p, MR_EXPR_SAVING, out);
        if (strcmp(name, "overhead") == 0) return take_two(p, MR_EXPR_OVERHEAD, out);
        if (strcmp(name, "sqrt") == 0) return take_one(p, MR_EXPR_SQRT, place, out);
        if (strcmp(name, "min") == 0) return take_one(p, MR_EXPR_MIN, place, out);
        if (strcmp(name, "max") == 0) return take_one(p, MR_EXPR_MAX, place, out);
        return mr_expect_fail(
            p, place, "unknown function '%s', expected saving, overhead, sqrt, min or max",
            name);
    }
    return mr_expect_cell(p, name, place, out);
}

static mr_status take_factor(mr_expect_parser *p, const mr_expr **out)
{
    const mr_expr *inner;
    mr_expect_skip(p);
    const mr_place place = mr_expect_here(p);
    if (mr_expect_accept(p, "(")) {
        MR_TRY(take_sum(p, out));
        return mr_expect_need(p, ")");
    }
    if (mr_expect_accept(p, "-")) {
        MR_TRY(take_factor(p, &inner));
        mr_expr *zero = mr_expect_new(p, MR_EXPR_NUMBER, place);
        zero->dimension = inner->dimension;
        return combine(p, MR_EXPR_SUBTRACT, zero, inner, out);
    }
    if (isdigit((unsigned char)*p->at)) return mr_expect_number(p, out);
    if (mr_expect_is_letter(*p->at)) return take_named(p, out);
    if (!*p->at)
        return mr_expect_fail(p, place, "the line ends, expected a number or METRIC[SPEC]");
    return mr_expect_fail(p, place, "found '%.16s', expected a number or METRIC[SPEC]", p->at);
}

static mr_status take_product(mr_expect_parser *p, const mr_expr **out)
{
    MR_TRY(take_factor(p, out));
    for (;;) {
        const mr_expr *right, *left = *out;
        const bool times = mr_expect_accept(p, "*");
        if (!times && !mr_expect_accept(p, "/")) return MR_OK;
        MR_TRY(take_factor(p, &right));
        MR_TRY(combine(p, times ? MR_EXPR_MULTIPLY : MR_EXPR_DIVIDE, left, right, out));
    }
}

static mr_status take_sum(mr_expect_parser *p, const mr_expr **out)
{
    MR_TRY(take_product(p, out));
    for (;;) {
        const mr_expr *right, *left = *out;
        const bool plus = mr_expect_accept(p, "+");
        if (!plus && !mr_expect_accept(p, "-")) return MR_OK;
        MR_TRY(take_product(p, &right));
        MR_TRY(combine(p, plus ? MR_EXPR_ADD : MR_EXPR_SUBTRACT, left, right, out));
    }
}

/* ---- relations --------------------------------------------------------------------------- */

static bool accept_relation(mr_expect_parser *p, mr_relation *out)
{
    static const char *const signs[] = {"<=", ">=", "<", ">"};
    static const mr_relation relations[] = {MR_LESS_EQUAL, MR_MORE_EQUAL, MR_LESS, MR_MORE};
    for (size_t i = 0; i < MR_COUNT(signs); i++) {
        *out = relations[i];
        if (mr_expect_accept(p, signs[i])) return true;
    }
    return false;
}

static mr_status push_value(mr_expect_parser *p, mr_expect *out)
{
    const mr_expr *value;
    MR_TRY(take_sum(p, &value));
    if (out->values.n) MR_TRY(same_dimension(p, out->values.at[0], value));
    MR_PUSH(p->ctx, &out->values, value);
    return MR_OK;
}

static mr_status take_tolerance(mr_expect_parser *p, mr_expect *out)
{
    const bool percent = out->percent;
    MR_TRY(take_sum(p, &out->within));
    out->percent = percent; /* a tolerance says nothing about what it is of */
    out->relative = p->percent && out->within->kind == MR_EXPR_NUMBER;
    return out->relative ? MR_OK : same_dimension(p, out->values.at[0], out->within);
}

static mr_status take_relations(mr_expect_parser *p, mr_expect *out)
{
    mr_relation relation;
    if (mr_expect_accept(p, "between")) {
        out->between = true;
        MR_TRY(push_value(p, out));
        MR_TRY(mr_expect_need(p, "and"));
        MR_PUSH(p->ctx, &out->relations, MR_MORE_EQUAL);
        MR_PUSH(p->ctx, &out->relations, MR_LESS_EQUAL);
        return push_value(p, out);
    }
    if (mr_expect_accept(p, "=")) {
        MR_PUSH(p->ctx, &out->relations, MR_EQUAL);
        MR_TRY(push_value(p, out));
        return mr_expect_accept(p, "within") ? take_tolerance(p, out) : MR_OK;
    }
    while (accept_relation(p, &relation)) {
        MR_PUSH(p->ctx, &out->relations, relation);
        MR_TRY(push_value(p, out));
    }
    if (out->relations.n) return MR_OK;
    return mr_expect_fail(p, mr_expect_here(p), "expected <, <=, >, >=, = or between");
}

mr_status mr_expect_parse(mr_ctx *ctx, const mr_lines *lines, const mr_suite *suite,
                          const mr_claim *claim, const char *text, mr_place place,
                          mr_expect *out)
{
    *out = (mr_expect){.text = text, .trace = MR_NONE, .device = MR_NONE};
    mr_expect_parser p = {.ctx = ctx,
                          .lines = lines,
                          .suite = suite,
                          .claim = claim,
                          .text = text,
                          .at = text,
                          .place = place,
                          .out = out};
    MR_TRY(push_value(&p, out));
    MR_TRY(take_relations(&p, out));
    mr_expect_skip(&p);
    if (!*p.at) return MR_OK;
    return mr_expect_fail(&p, mr_expect_here(&p), "found '%.16s', expected the end of the line",
                          p.at);
}
