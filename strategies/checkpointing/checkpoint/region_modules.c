/* region_modules -- regions that are calls of modules.
 *
 * Each op knows the innermost module that ran it, and how often that one had been called.  A
 * region is a stretch of ops inside one module; where the module is called again right after,
 * the stretch is cut: at the first op of its first submodule in each call.
 */
#include "names.h"
#include "paths.h"
#include "region.h"

#include <stdlib.h>
#include <string.h>

enum { BLOCK_OPS = 3 }; /* what has fewer is a layer, not a block of layers */

typedef struct path {
    uint32_t ops;       /* of the forward pass inside of it */
    uint32_t siblings;  /* blocks beside it, itself included, if it ends in a number */
    uint32_t container; /* what is left without the number; MR_NONE */
    bool again;         /* an op of its own was called more than once */
} path;

typedef struct finder {
    mr_ctx *ctx;
    const mr_trace *trace;
    const char *pattern;
    mr_names names; /* of paths; see `paths` */
    MR_VEC(path) paths;
    mr_names modules;        /* innermost modules of ops */
    MR_VEC(uint32_t) length; /* by module: how much of its path is the region's; 0 for none */
    uint32_t *first,
        *last; /* by module: calls in the stretch that is looked at, [first, last) */
    regions *out;
} finder;

static bool is_forward(const mr_op *op)
{
    return op->phase == MR_FORWARD && op->again == MR_NONE;
}

/* ---- blocks, where nobody says which ----------------------------------------------------- */

static uint32_t path_of(finder *f, const char *text, size_t n)
{
    const uint32_t i = mr_names_add(f->ctx, &f->names, text, n);
    while (f->paths.n <= i) MR_PUSH(f->ctx, &f->paths, (path){.container = MR_NONE});
    return i;
}

static bool is_number(const char *text, size_t n)
{
    return n && strspn(text, "0123456789") >= n;
}

/* Counts an op for each module that it runs in. */
static void count(finder *f, const mr_op *op)
{
    const char *text = op->module, *begin = text;
    while (*begin) {
        const size_t n = strcspn(begin, "."), length = (size_t)(begin - text) + n;
        const uint32_t i = path_of(f, text, length);
        f->paths.at[i].ops++;
        if (is_number(begin, n) && begin > text) {
            const uint32_t container = path_of(f, text, (size_t)(begin - text) - 1);
            f->paths.at[i].container = container;
        }
        if (!begin[n]) f->paths.at[i].again |= op->call > 0;
        begin += n + (begin[n] == '.');
    }
}

static void find_blocks(finder *f)
{
    for (uint32_t o = 0; o < f->trace->ops.n; o++)
        if (is_forward(&f->trace->ops.at[o])) count(f, &f->trace->ops.at[o]);
    for (uint32_t i = 0; i < f->paths.n; i++) {
        const path *p = &f->paths.at[i];
        if (p->container != MR_NONE && p->ops >= BLOCK_OPS)
            f->paths.at[p->container].siblings++;
    }
}

static bool is_block(const finder *f, uint32_t i, bool numbered)
{
    const path *p = &f->paths.at[i];
    if (p->ops < BLOCK_OPS) return false;
    if (!numbered) return p->again;
    return p->container != MR_NONE && f->paths.at[p->container].siblings > 1;
}

/* Length of the outermost block on the way to a module. */
static uint32_t block_on(const finder *f, const char *text, bool numbered)
{
    for (const char *end = text; *end;) {
        end += strcspn(end, ".");
        const uint32_t i = mr_names_find(&f->names, text, (size_t)(end - text));
        if (i != MR_NONE && is_block(f, i, numbered)) return (uint32_t)(end - text);
        if (*end) end++;
    }
    return 0;
}

static bool any_block(const finder *f, bool numbered)
{
    for (uint32_t i = 0; i < f->paths.n; i++)
        if (is_block(f, i, numbered)) return true;
    return false;
}

/* ---- stretches --------------------------------------------------------------------------- */

static void find_lengths(finder *f)
{
    if (!*f->pattern) find_blocks(f);
    const bool numbered = any_block(f, true);
    for (uint32_t o = 0; o < f->trace->ops.n; o++) {
        const char *module = f->trace->ops.at[o].module;
        const uint32_t i = mr_names_add(f->ctx, &f->modules, module, strlen(module));
        if (i < f->length.n) continue;
        const size_t n = *f->pattern ? mr_path_match(f->pattern, module)
                                     : block_on(f, module, numbered);
        MR_PUSH(f->ctx, &f->length, (uint32_t)n);
    }
}

static uint32_t module_of(const finder *f, const mr_op *op)
{
    return mr_names_find(&f->modules, op->module, strlen(op->module));
}

static uint32_t divisor(uint32_t a, uint32_t b)
{
    while (b) {
        const uint32_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

/* Calls of the module itself in a stretch: those of its own ops, or what its submodules have in
 * common. */
static uint32_t count_calls(finder *f, const stretch *whole, size_t length)
{
    uint32_t common = 0, own = 0;
    MR_VEC(uint32_t) met = {0};
    for (uint32_t e = whole->begin; e < whole->end; e++) {
        if (f->trace->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &f->trace->ops.at[f->trace->events.at[e].id];
        const uint32_t m = module_of(f, op);
        if (!f->last[m]) {
            f->first[m] = op->call;
            MR_PUSH(f->ctx, &met, m);
        }
        f->last[m] = op->call + 1;
    }
    for (uint32_t i = 0; i < met.n; i++) {
        const uint32_t m = met.at[i], calls = f->last[m] - f->first[m];
        if (f->modules.all.at[m].n == length) own = calls;
        common = divisor(calls, common);
        f->last[m] = 0;
    }
    return own ? own : common;
}

static uint32_t calls_of(const finder *f, const stretch *whole, const char *module)
{
    uint32_t first = MR_NONE, last = 0;
    for (uint32_t e = whole->begin; e < whole->end; e++) {
        if (f->trace->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &f->trace->ops.at[f->trace->events.at[e].id];
        if (strcmp(op->module, module) != 0) continue;
        if (first == MR_NONE) first = op->call;
        last = op->call;
    }
    return last - first + 1;
}

/* Cuts a stretch into calls. */
static void push_calls(finder *f, const stretch *whole, size_t length)
{
    const uint32_t n = count_calls(f, whole, length);
    const mr_op *begins = &f->trace->ops.at[f->trace->events.at[whole->begin].id];
    const uint32_t each = n > 1 ? calls_of(f, whole, begins->module) / n : 0;
    stretch part = *whole;
    for (uint32_t e = whole->begin + 1, k = 1, last = whole->begin; each && e < whole->end;
         e++) {
        if (f->trace->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &f->trace->ops.at[f->trace->events.at[e].id];
        if (op->call == begins->call + k * each && !strcmp(op->module, begins->module)) {
            part.end = last + 1;
            MR_PUSH(f->ctx, f->out, part);
            part.begin = e;
            k++;
        }
        last = e;
    }
    part.end = whole->end;
    MR_PUSH(f->ctx, f->out, part);
}

static bool goes_on(const stretch *open, const char *module, size_t length)
{
    return open->name && strlen(open->name) == length && !memcmp(open->name, module, length);
}

static void close(finder *f, stretch *open)
{
    if (open->name) push_calls(f, open, strlen(open->name));
    open->name = NULL;
}

mr_status region_find_modules(mr_ctx *ctx, const mr_trace *trace, const char *pattern,
                              regions *out)
{
    finder *f = MR_NEW(ctx, finder);
    f->ctx = ctx;
    f->trace = trace;
    f->pattern = pattern;
    f->out = out;
    find_lengths(f);
    f->first = MR_NEW_N(ctx, uint32_t, f->modules.all.n);
    f->last = MR_NEW_N(ctx, uint32_t, f->modules.all.n);
    stretch open = {0};
    for (uint32_t e = 0; e < trace->events.n; e++) {
        if (trace->events.at[e].kind != MR_RUN) continue;
        const mr_op *op = &trace->ops.at[trace->events.at[e].id];
        const size_t length = is_forward(op) ? f->length.at[module_of(f, op)] : 0;
        if (!length || !goes_on(&open, op->module, length)) close(f, &open);
        if (length && !open.name)
            open = (stretch){mr_strndup(ctx, op->module, length), e, e + 1};
        if (length) open.end = e + 1;
    }
    close(f, &open);
    if (out->n) return MR_OK;
    if (*pattern)
        return mr_fail(ctx, MR_EUSAGE, "no module of '%s' that runs forward is called '%s'",
                       trace->name, pattern);
    return mr_fail(ctx, MR_EUSAGE,
                   "'%s' has no repeated blocks: say which modules, as in"
                   " checkpoint:module=features.*, or checkpoint:sqrt",
                   trace->name);
}

/* The number behind the last region of the forward pass in which region i is: nothing runs again
 * from one pass into the next. */
static uint32_t end_of_pass(const mr_trace *trace, const regions *list, uint32_t i)
{
    for (; i + 1 < list->n; i++)
        for (uint32_t e = list->at[i].end; e < list->at[i + 1].begin; e++)
            if (trace->events.at[e].kind == MR_RUN
                && trace->ops.at[trace->events.at[e].id].phase == MR_BACKWARD)
                return i + 1;
    return list->n;
}

static void push_joined(mr_ctx *ctx, const regions *list, uint32_t from, uint32_t n, regions *out)
{
    const stretch *first = &list->at[from], *last = &list->at[from + n - 1];
    const char *name = mr_printf(ctx, "%s to %s", first->name, last->name);
    MR_PUSH(ctx, out, (stretch){name, first->begin, last->end});
}

void region_group(mr_ctx *ctx, const mr_trace *trace, regions *list, uint32_t segments)
{
    regions out = {0};
    for (uint32_t from = 0, end; from < list->n; from = end) {
        end = end_of_pass(trace, list, from);
        const uint32_t each = (end - from) / segments;
        for (uint32_t i = 0; i + 1 < segments && each; i++)
            push_joined(ctx, list, from + i * each, each, &out);
    }
    *list = out;
}

/* Numbers in "[5,5,7]", in order; false for any other text. */
static bool next_number(const char **text, uint64_t *n)
{
    char *end;
    if (**text != '[' && **text != ',') return false;
    const char *digits = *text + 1;
    if (!is_number(digits, 1)) return false;
    *n = strtoul(digits, &end, 10);
    *text = end;
    return *n > 0;
}

mr_status region_join(mr_ctx *ctx, const mr_trace *trace, regions *list, const char *sizes)
{
    regions out = {0};
    for (uint32_t from = 0, end; from < list->n; from = end) {
        const char *rest = sizes;
        uint64_t n, used = from;
        end = end_of_pass(trace, list, from);
        for (; next_number(&rest, &n) && n <= end - used; used += n)
            push_joined(ctx, list, (uint32_t)used, (uint32_t)n, &out);
        if (strcmp(rest, "]") != 0 || used != end)
            return mr_fail(ctx, MR_EUSAGE,
                           "groups=%s, expected how many modules each group has, such as"
                           " [2,2,3], %u in all",
                           sizes, end - from);
    }
    *list = out;
    return MR_OK;
}
