/* orders -- rewrites one after another, with any options, on the recordings that ship: each gives
 * a result that passes the referees, or is refused with a reason; none breaks the step.
 *
 *     orders TRACES singles            every rewrite with each value of each option
 *     orders TRACES pairs [SEED]       every ordered pair, by default; with a seed: options drawn
 *     orders TRACES random SEED COUNT  rewrites one after another, up to four, options drawn
 *     orders TRACES one FILE SPEC      one of them again
 *
 * Says what broke, as FILE and SPEC, and counts; with -v first each cell before it is tried, and
 * why it is refused.  Ends with 1 when something broke.
 */
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "format.h"
#include "one_rewrite.h"
#include "schedule.h"

#define DEEPEST 4  /* rewrites one after another */
#define SLOW 20    /* seconds of one rewrite that are worth a word */

typedef struct tally {
    uint64_t tried, refused, broken;
} tally;

typedef struct hunt {
    const char *file;
    uint64_t state; /* of what is drawn */
    uint64_t left;  /* cells to try */
    tally count;
    bool verbose;
} hunt;

static uint32_t draw(uint64_t *state, uint32_t below)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % below);
}

/* ---- one rewrite ------------------------------------------------------------------------- */

static mr_status applied(mr_ctx *ctx, const char *text, const mr_trace *in, mr_trace *out)
{
    mr_schedule schedule;
    MR_TRY(one_rewrite(ctx, text, in, out));
    return mr_schedule_make(ctx, out, MR_NONE, &schedule);
}

/* Counts what became of it; `before` is what stands before it in the spec, with its plus. */
static mr_status tried(hunt *h, mr_ctx *ctx, const char *before, const char *text,
                       const mr_trace *in, mr_trace *out)
{
    if (h->verbose) printf("%s '%s%s'\n", h->file, before, text), fflush(stdout);
    const clock_t begin = clock();
    const mr_status status = applied(ctx, text, in, out);
    const bool broke = status && status != MR_EUNSUPPORTED && status != MR_EUSAGE;
    const double seconds = (double)(clock() - begin) / CLOCKS_PER_SEC;
    h->count.tried++;
    h->count.broken += broke;
    h->count.refused += status && !broke;
    if (broke) printf("broken: %s '%s%s': %s\n", h->file, before, text, ctx->failure.text);
    else if (status && h->verbose) printf("refused: %s\n", ctx->failure.text);
    if (seconds > SLOW) printf("slow: %s '%s%s': %.0f s\n", h->file, before, text, seconds);
    fflush(stdout);
    return status;
}

/* ---- options ----------------------------------------------------------------------------- */

/* A module's path with * for its numbers; "" where no op has one. */
static const char *some_modules(mr_ctx *ctx, const mr_trace *in, uint64_t *state)
{
    const mr_op *op = &in->ops.at[draw(state, in->ops.n)];
    char *path = mr_strdup(ctx, op->module), *to = path;
    path[strcspn(path, "#@ ")] = 0;
    for (const char *from = path; *from;) {
        const size_t digits = from == path || from[-1] == '.' ? strspn(from, "0123456789") : 0;
        *to++ = digits ? '*' : *from;
        from += digits ? digits : 1;
    }
    *to = 0;
    return path;
}

static const char *some_text(mr_ctx *ctx, const mr_param *p, const mr_trace *in, uint64_t *state)
{
    if (!strcmp(p->name, "budget")) return mr_printf(ctx, "%u%%", 30 + draw(state, 60));
    if (!strcmp(p->name, "keep"))
        return draw(state, 2) ? "[mm,addmm,bmm]" : "[convolution,add_]";
    if (!strcmp(p->name, "module")) return some_modules(ctx, in, state);
    return NULL;
}

/* Word `i` of "a|b|c", or a random one; NULL behind the last. */
static const char *word(mr_ctx *ctx, const char *choices, uint32_t i)
{
    while (i-- && choices) choices = strchr(choices, '|') ? strchr(choices, '|') + 1 : NULL;
    return choices ? mr_strndup(ctx, choices, strcspn(choices, "|")) : NULL;
}

static const char *some_word(mr_ctx *ctx, const char *choices, uint64_t *state)
{
    uint32_t n = 1;
    for (const char *at = choices; (at = strchr(at, '|')); at++) n++;
    return word(ctx, choices, draw(state, n));
}

/* NULL where nothing but the default is known. */
static const char *some_value(mr_ctx *ctx, const mr_param *p, const mr_trace *in,
                              uint64_t *state)
{
    static const uint64_t numbers[] = {0, 1, 2, 3, 4, 5, 8, 13, 32};
    static const char *const sizes[] = {"4KiB", "256KiB", "1MiB", "4MiB", "25MiB", "1GiB"};
    double real;
    switch (p->type) {
    case MR_PARAM_TYPE_BOOL: return draw(state, 2) ? "True" : "False";
    case MR_PARAM_TYPE_CHOICE: return some_word(ctx, p->choices, state);
    case MR_PARAM_TYPE_TEXT: return some_text(ctx, p, in, state);
    case MR_PARAM_TYPE_SIZE:
        return strcmp(p->name, "link") ? sizes[draw(state, MR_COUNT(sizes))] : NULL;
    case MR_PARAM_TYPE_REAL:
        real = 0.3 + 0.01 * draw(state, 70);
        return real < p->low || real > p->high ? NULL : mr_printf(ctx, "%.2f", real);
    case MR_PARAM_TYPE_INT:
        real = (double)numbers[draw(state, MR_COUNT(numbers))];
        return real < p->low || real > p->high ? NULL : mr_printf(ctx, "%.0f", real);
    }
    return NULL;
}

/* What is asked of a search, so that it ends soon. */
static const char *shortened(mr_ctx *ctx, const mr_strategy *s, const char *text)
{
    for (const mr_param *p = s->params; p && p->name; p++)
        if (!strcmp(p->name, "tries"))
            return mr_printf(ctx, "%s%stries=3", text, strchr(text, ':') ? "," : ":");
    return text;
}

static const char *some_options(mr_ctx *ctx, const mr_strategy *s, const mr_trace *in,
                                uint64_t *state)
{
    const char *text = s->name;
    for (const mr_param *p = s->params; p && p->name; p++) {
        if (draw(state, 3) || !strcmp(p->name, "tries")) continue;
        const char *value = some_value(ctx, p, in, state);
        if (value)
            text = mr_printf(ctx, "%s%s%s=%s", text, strchr(text, ':') ? "," : ":", p->name,
                             value);
    }
    return shortened(ctx, s, text);
}

/* ---- the hunts --------------------------------------------------------------------------- */

static uint32_t rewrites(const mr_strategy *found[])
{
    uint32_t n = 0;
    for (size_t i = 0; mr_strategies[i]; i++)
        if (mr_strategies[i]->rewrite) found[n++] = mr_strategies[i];
    return n;
}

/* Value `i` of an option; NULL behind the last. */
static const char *value_of(mr_ctx *ctx, const mr_param *p, const mr_trace *in, uint32_t i)
{
    if (p->type == MR_PARAM_TYPE_CHOICE) return word(ctx, p->choices, i);
    if (p->type == MR_PARAM_TYPE_BOOL) return i > 1 ? NULL : i ? "True" : "False";
    uint64_t state = i;
    for (uint32_t j = 0; j < 3 && i < 4; j++) {
        const char *value = some_value(ctx, p, in, &state);
        if (value) return value;
    }
    return NULL;
}

static void singles(hunt *h, const mr_trace *in)
{
    const mr_strategy *all[64];
    const uint32_t n = rewrites(all);
    for (uint32_t s = 0; s < n; s++)
        for (const mr_param *p = all[s]->params;; p++) {
            for (uint32_t i = 0;; i++) {
                mr_ctx ctx = {0};
                mr_trace out;
                const char *text = all[s]->name, *value = NULL;
                if (p && p->name) value = value_of(&ctx, p, in, i);
                if (value) text = mr_printf(&ctx, "%s:%s=%s", text, p->name, value);
                const bool go_on = value != NULL, plain = !p || !p->name;
                if (go_on || plain) tried(h, &ctx, "", shortened(&ctx, all[s], text), in, &out);
                mr_ctx_clear(&ctx);
                if (!go_on) break;
            }
            if (!p || !p->name) break;
        }
}

static void pairs(hunt *h, const mr_trace *in)
{
    const mr_strategy *all[64];
    const uint32_t n = rewrites(all);
    const bool plain = !h->state;
    for (uint32_t i = 0; i < n; i++) {
        mr_ctx ctx = {0};
        mr_trace first;
        const char *text = plain ? all[i]->name : some_options(&ctx, all[i], in, &h->state);
        if (!tried(h, &ctx, "", text, in, &first))
            for (uint32_t j = 0; j < n; j++) {
                mr_ctx inner = {0};
                mr_trace out;
                const char *then =
                    plain ? all[j]->name : some_options(&inner, all[j], &first, &h->state);
                tried(h, &inner, mr_printf(&ctx, "%s+", text), then, &first, &out);
                mr_ctx_clear(&inner);
            }
        mr_ctx_clear(&ctx);
    }
}

/* Two rewrites behind each that gives a result, and so on. */
static void deeper(hunt *h, const mr_trace *in, const char *before, uint32_t depth)
{
    const mr_strategy *all[64];
    const uint32_t n = rewrites(all);
    for (uint32_t i = 0; i < 2 && h->left; i++) {
        mr_ctx ctx = {0};
        mr_trace out;
        const char *text = some_options(&ctx, all[draw(&h->state, n)], in, &h->state);
        h->left--;
        if (!tried(h, &ctx, before, text, in, &out) && depth < DEEPEST)
            deeper(h, &out, mr_printf(&ctx, "%s%s+", before, text), depth + 1);
        mr_ctx_clear(&ctx);
    }
}

static int one(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    const mr_read_options options = {0};
    mr_trace in, out;
    mr_status status = mr_recording_read(&ctx, file, &options, &in);
    for (const char *at = spec; !status && *at; in = out) {
        size_t n = 0; /* plus signs inside [ ] belong to the value */
        for (int open = 0; at[n] && (open || at[n] != '+'); n++)
            open += (at[n] == '[') - (at[n] == ']');
        status = applied(&ctx, mr_strndup(&ctx, at, n), &in, &out);
        at += n + (at[n] == '+');
    }
    printf("%s\n", status ? ctx.failure.text : "a result");
    mr_ctx_clear(&ctx);
    return status != MR_OK && status != MR_EUNSUPPORTED && status != MR_EUSAGE;
}

static void searched(hunt *h, const char *how, uint64_t seed, uint64_t share, uint32_t number)
{
    mr_ctx ctx = {0};
    const mr_read_options options = {0};
    mr_trace in;
    if (!share && !strcmp(how, "random")) return;
    h->state = seed ? seed * 1000003u + number : 0;
    h->left = share;
    if (mr_recording_read(&ctx, h->file, &options, &in)) {
        printf("broken: %s: %s\n", h->file, ctx.failure.text);
        h->count.broken++;
    } else if (!strcmp(how, "singles")) singles(h, &in);
    else if (!strcmp(how, "pairs")) pairs(h, &in);
    else while (h->left) deeper(h, &in, "", 1);
    mr_ctx_clear(&ctx);
}

int main(int argc, char **argv)
{
    hunt h = {0};
    if (argc > 1 && !strcmp(argv[1], "-v")) h.verbose = true, argc--, argv++;
    if (argc < 3) return fprintf(stderr, "orders [-v] TRACES singles|pairs|random|one ...\n"), 2;
    if (!strcmp(argv[2], "one") && argc == 5) return one(argv[3], argv[4]);
    const uint64_t seed = argc > 3 ? strtoull(argv[3], NULL, 10) : 0;
    const uint64_t count = argc > 4 ? strtoull(argv[4], NULL, 10) : 0;
    mr_ctx ctx = {0};
    glob_t files;
    if (glob(mr_printf(&ctx, "%s/models/*.csv.gz", argv[1]), 0, NULL, &files) ||
        glob(mr_printf(&ctx, "%s/models/twins/*.csv.gz", argv[1]), GLOB_APPEND, NULL, &files))
        return fprintf(stderr, "orders: no recordings in '%s'\n", argv[1]), 2;
    for (uint32_t i = 0; i < files.gl_pathc; i++) {
        h.file = files.gl_pathv[i];
        /* The recordings share the count; the first ones drawn have the rest. */
        const uint64_t share = (count + (i + seed * 31) % files.gl_pathc) / files.gl_pathc;
        searched(&h, argv[2], seed, share, i);
    }
    printf("%llu tried, %llu refused, %llu broken\n", (unsigned long long)h.count.tried,
           (unsigned long long)h.count.refused, (unsigned long long)h.count.broken);
    globfree(&files);
    mr_ctx_clear(&ctx);
    return h.count.broken != 0;
}
