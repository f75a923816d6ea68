/* spec -- words into a pipeline. */
#include "spec.h"

#include <string.h>

/* ---- did you mean ------------------------------------------------------------------------ */

#define WORD 63

static unsigned least(unsigned a, unsigned b, unsigned c)
{
    const unsigned ab = a < b ? a : b;
    return ab < c ? ab : c;
}

/* Edits that turn one word into the other (Levenshtein). */
static unsigned distance(const char *a, const char *b)
{
    const size_t n = strlen(a), m = strlen(b);
    unsigned row[WORD + 1];
    if (n > WORD || m > WORD) return UINT32_MAX;
    for (unsigned j = 0; j <= m; j++) row[j] = j;
    for (size_t i = 0; i < n; i++) {
        unsigned diagonal = row[0];
        row[0] = (unsigned)i + 1;
        for (size_t j = 0; j < m; j++) {
            const unsigned above = row[j + 1];
            row[j + 1] = least(above + 1, row[j] + 1, diagonal + (a[i] != b[j]));
            diagonal = above;
        }
    }
    return row[m];
}

const char *mr_nearest(const char *word, const char *const names[], size_t n)
{
    const char *best = NULL;
    unsigned least_distance = (unsigned)strlen(word) / 3 + 1;
    for (size_t i = 0; i < n; i++) {
        const unsigned d = distance(word, names[i]);
        if (d > least_distance) continue;
        if (d == least_distance && best) continue;
        least_distance = d;
        best = names[i];
    }
    return best;
}

/* ---- the text ---------------------------------------------------------------------------- */

typedef struct parser {
    mr_ctx *ctx;
    const mr_strategy *const *strategies;
    const char *text; /* the whole spec, for carets */
} parser;

typedef struct words { /* [at, at + n) of the text */
    const char *at;
    size_t n;
} words;

static mr_status underline(parser *p, words w, mr_status status)
{
    mr_failure *failure = &p->ctx->failure;
    const size_t room = sizeof failure->where - 1;
    const size_t length = strlen(p->text);
    memcpy(failure->where, p->text, length < room ? length : room);
    failure->where[length < room ? length : room] = 0;
    failure->column = (unsigned)(w.at - p->text);
    failure->width = w.n ? (unsigned)w.n : 1;
    if (failure->column + failure->width > room) failure->width = 0;
    return status;
}

/* Cuts the first part off `rest` at any of `ends` outside of brackets; says which
 * end it was. */
static words cut(words *rest, const char *ends, char *end)
{
    int depth = 0;
    size_t i = 0;
    for (; i < rest->n; i++) {
        const char c = rest->at[i];
        if (c == '[') depth++;
        if (c == ']') depth--;
        if (depth <= 0 && strchr(ends, c)) break;
    }
    const words part = {rest->at, i};
    *end = i < rest->n ? rest->at[i] : 0;
    const size_t taken = i < rest->n ? i + 1 : i;
    rest->at += taken;
    rest->n -= taken;
    return part;
}

static const char *said(parser *p, words w)
{
    return mr_strndup(p->ctx, w.at, w.n);
}

/* ---- strategies and their parameters ----------------------------------------------------- */

static mr_status unknown_strategy(parser *p, words w)
{
    size_t n = 0;
    while (p->strategies[n]) n++;
    const char **names = MR_NEW_N(p->ctx, const char *, n);
    for (size_t i = 0; i < n; i++) names[i] = p->strategies[i]->name;
    const char *near = mr_nearest(said(p, w), names, n);
    if (!w.n)
        return underline(p, w, mr_fail(p->ctx, MR_EUSAGE, "expected the name of a strategy"));
    if (!near)
        return underline(p, w, mr_fail(p->ctx, MR_EUSAGE,
                                       "unknown strategy '%s' ('memreuse list' shows all)",
                                       said(p, w)));
    return underline(p, w, mr_fail(p->ctx, MR_EUSAGE,
                                   "unknown strategy '%s' (did you mean '%s'?)", said(p, w),
                                   near));
}

static mr_status find_strategy(parser *p, words w, const mr_strategy **out)
{
    for (size_t i = 0; p->strategies[i]; i++) {
        *out = p->strategies[i];
        if (strlen((*out)->name) == w.n && !memcmp((*out)->name, w.at, w.n)) return MR_OK;
    }
    return unknown_strategy(p, w);
}

static size_t count_params(const mr_strategy *s)
{
    size_t n = 0;
    while (s->params && s->params[n].name) n++;
    return n;
}

static mr_status find_param(parser *p, const mr_strategy *s, words name, const mr_param **out)
{
    const size_t n = count_params(s);
    for (size_t i = 0; i < n; i++) {
        *out = &s->params[i];
        if (strlen((*out)->name) == name.n && !memcmp((*out)->name, name.at, name.n))
            return MR_OK;
    }
    const char **names = MR_NEW_N(p->ctx, const char *, n);
    for (size_t i = 0; i < n; i++) names[i] = s->params[i].name;
    const char *near = mr_nearest(said(p, name), names, n);
    if (near)
        return underline(p, name, mr_fail(p->ctx, MR_EUSAGE,
                                          "'%s' has no parameter '%s' (did you mean '%s'?)",
                                          s->name, said(p, name), near));
    return underline(p, name,
                     mr_fail(p->ctx, MR_EUSAGE,
                             "'%s' has no parameter '%s' ('memreuse list %s' shows them)",
                             s->name, said(p, name), s->name));
}

static mr_status parse_arg(parser *p, const mr_strategy *s, words arg, void *params)
{
    words value = arg;
    char end;
    const words name = cut(&value, "=", &end);
    const mr_param *param = s->params;
    if (end) MR_TRY(find_param(p, s, name, &param));
    else value = arg;
    if (!count_params(s))
        return underline(p, arg, mr_fail(p->ctx, MR_EUSAGE, "'%s' has no parameters", s->name));
    const mr_status status = mr_param_set(p->ctx, param, said(p, value), params);
    return status ? underline(p, value, status) : MR_OK;
}

static mr_status defaults(parser *p, const mr_strategy *s, void *params)
{
    const size_t n = count_params(s);
    for (size_t i = 0; i < n; i++)
        if (s->params[i].fallback)
            MR_TRY(mr_param_set(p->ctx, &s->params[i], s->params[i].fallback, params));
    return MR_OK;
}

static mr_status parse_item(parser *p, words item, mr_stage *out)
{
    words rest = item;
    char end;
    const words name = cut(&rest, ":", &end);
    MR_TRY(find_strategy(p, name, &out->strategy));
    out->params = mr_alloc(p->ctx, out->strategy->params_size);
    MR_TRY(defaults(p, out->strategy, out->params));
    while (end) {
        const words arg = cut(&rest, ",", &end);
        MR_TRY(parse_arg(p, out->strategy, arg, out->params));
    }
    if (!out->strategy->validate) return MR_OK;
    const mr_status status = out->strategy->validate(p->ctx, out->params);
    return status ? underline(p, item, status) : MR_OK;
}

/* ---- canonical spelling ------------------------------------------------------------------ */

static const char *stage_text(mr_ctx *ctx, const mr_stage *stage)
{
    const mr_strategy *s = stage->strategy;
    const char *text = s->name;
    char sep = ':';
    for (size_t i = 0; i < count_params(s); i++) {
        const mr_param *param = &s->params[i];
        void *fallback = mr_alloc(ctx, s->params_size);
        if (param->fallback && mr_param_set(ctx, param, param->fallback, fallback)) continue;
        const char *value = mr_param_print(ctx, param, stage->params);
        if (!strcmp(value, mr_param_print(ctx, param, fallback))) continue;
        text = mr_printf(ctx, "%s%c%s=%s", text, sep, param->name, value);
        sep = ',';
    }
    return text;
}

static const char *spec_text(mr_ctx *ctx, const mr_spec *spec)
{
    const char *text = "";
    for (uint32_t i = 0; i < spec->rewrites.n; i++)
        text = mr_printf(ctx, "%s%s%s", text, i ? "+" : "",
                         stage_text(ctx, &spec->rewrites.at[i]));
    return mr_printf(ctx, "%s%s%s", text, spec->rewrites.n ? "/" : "",
                     stage_text(ctx, &spec->place));
}

/* ---- the pipeline ------------------------------------------------------------------------ */

mr_status mr_spec_parse(mr_ctx *ctx, const mr_strategy *const strategies[], const char *text,
                        mr_spec *out)
{
    parser p = {ctx, strategies, text};
    words rest = {text, strlen(text)};
    char end = 0, begin;
    *out = (mr_spec){0};
    do {
        begin = end;
        const words item = cut(&rest, "+/", &end);
        mr_stage stage = {0};
        MR_TRY(parse_item(&p, item, &stage));
        const bool last = !end;
        if (last && stage.strategy->place && begin == '+')
            return underline(&p, item, mr_fail(ctx, MR_EUSAGE,
                                               "a '/' stands before the placement, not a '+'"));
        if (last == (stage.strategy->place != NULL)) {
            if (last) out->place = stage;
            else MR_PUSH(ctx, &out->rewrites, stage);
            if (end == '/' && memchr(rest.at, '/', rest.n))
                return underline(&p, rest, mr_fail(ctx, MR_EUSAGE,
                                                   "a spec has one '/', before the placement"));
            continue;
        }
        if (last)
            return underline(&p, item,
                             mr_fail(ctx, MR_EUSAGE,
                                     "'%s' is a rewrite: a spec ends with a placement, as in "
                                     "'%s/pytorch'",
                                     stage.strategy->name, text));
        return underline(&p, item,
                         mr_fail(ctx, MR_EUSAGE,
                                 "'%s' is a placement: it stands alone at the end of a spec",
                                 stage.strategy->name));
    } while (end);
    out->text = spec_text(ctx, out);
    out->given = mr_strdup(ctx, text);
    return MR_OK;
}
