/* how -- what is written in a program, or said to it, to have what a spec predicts. */
#include <string.h>

#include "how.h"
#include "report.h"

/* The value of a parameter whose name stands at the head of the text; NULL for no such. */
static const char *value_of(mr_ctx *ctx, const mr_stage *stage, const char *name, size_t n)
{
    for (const mr_param *p = stage->strategy->params; p && p->name; p++)
        if (strlen(p->name) == n && strncmp(p->name, name, n) == 0)
            return mr_param_print(ctx, p, stage->params);
    return NULL;
}

const char *mr_how(mr_ctx *ctx, const mr_stage *stage)
{
    const mr_strategy *s = stage->strategy;
    if (s->how_of) return s->how_of(ctx, stage->params);
    if (!s->how) return NULL;
    const char *out = "";
    for (const char *at = s->how; *at;) {
        const size_t plain = strcspn(at, "{"), n = strcspn(at + plain, "}");
        const char *value = at[plain] ? value_of(ctx, stage, at + plain + 1, n - 1) : NULL;
        out = mr_printf(ctx, "%s%.*s%s", out, (int)plain, at, value ? value : "");
        at += plain + (at[plain] ? n + 1 : 0);
    }
    return out;
}

static bool has(const mr_hows *list, const char *text)
{
    for (uint32_t i = 0; i < list->texts.n; i++)
        if (strcmp(list->texts.at[i], text) == 0) return true;
    return false;
}

/* Rewrites in their order, then the placement. */
void mr_hows_add(mr_ctx *ctx, const mr_spec *spec, mr_hows *list)
{
    for (uint32_t i = 0; i <= spec->rewrites.n; i++) {
        const mr_stage *stage = i < spec->rewrites.n ? &spec->rewrites.at[i] : &spec->place;
        const char *text = mr_how(ctx, stage);
        if (!text || has(list, text)) continue;
        MR_PUSH(ctx, &list->names, stage->strategy->name);
        MR_PUSH(ctx, &list->texts, text);
    }
}

void mr_hows_put(mr_ctx *ctx, const mr_hows *list, mr_sink *sink)
{
    size_t width = 0;
    for (uint32_t i = 0; i < list->names.n; i++)
        if (strlen(list->names.at[i]) > width) width = strlen(list->names.at[i]);
    for (uint32_t i = 0; i < list->names.n; i++)
        mr_sink_print(sink, "  %-*s  %s\n", (int)width, list->names.at[i],
                      mr_fold(ctx, list->texts.at[i], (uint32_t)width + 4));
}
