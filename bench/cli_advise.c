/* advise -- predicts settings alone, then all combinations of those that change something. */
#include <string.h>

#include "advise.h"
#include "strategies.h"

/* ---- what is tried ----------------------------------------------------------------------- */

enum { MOST = 4 };

/* In the order in which a pipeline has them; of each row one or none.  What makes another model
 * of the step, as half and share do, is nobody's to propose. */
static const char *const usual[][MOST] = {
    {"sdpa"},
    {"amp:bfloat16", "amp"},
    {"accumulate:2", "accumulate:4", "accumulate:8"},
    {"inplace"},
    {"checkpoint", "checkpoint:attention", "checkpoint:keep=[mm,addmm,bmm]"},
    {"offload:save_on_cpu,pin_memory=True"},
    {"release"},
};

typedef MR_VEC(mr_words) ways; /* settings that exclude one another are one */

static const char *name_of(mr_ctx *ctx, const char *setting)
{
    return mr_strndup(ctx, setting, strcspn(setting, ":"));
}

/* A setting as it is tried, or the name of the strategy. */
static bool is_meant(mr_ctx *ctx, const char *word, const char *setting)
{
    return strcmp(word, setting) == 0 || strcmp(word, name_of(ctx, setting)) == 0;
}

static mr_status check_without(mr_ctx *ctx, const char *word)
{
    const char *names[MR_COUNT(usual)];
    for (size_t w = 0; w < MR_COUNT(usual); w++) {
        for (size_t i = 0; i < MOST && usual[w][i]; i++)
            if (is_meant(ctx, word, usual[w][i])) return MR_OK;
        names[w] = name_of(ctx, usual[w][0]);
    }
    const char *near = mr_nearest(word, names, MR_COUNT(names));
    const char *all = "";
    for (size_t w = 0; w < MR_COUNT(names); w++)
        all = mr_printf(ctx, "%s%s%s", all, w ? ", " : "", names[w]);
    return mr_fail(ctx, MR_EUSAGE, "--without '%s' is not tried: %s%s%s", word,
                   near ? "did you mean '" : "settings are ", near ? near : all, near ? "'?" : "");
}

static bool is_without(mr_ctx *ctx, const mr_args *args, const char *setting)
{
    for (uint32_t i = 0; i < args->without.n; i++)
        if (is_meant(ctx, args->without.at[i], setting)) return true;
    return false;
}

/* Another setting of a way joins it; other ways come first, as what makes another model does. */
static mr_status add_asked(mr_ctx *ctx, const char *setting, ways *out)
{
    mr_spec spec;
    MR_TRY(mr_scene_spec_asked(ctx, mr_printf(ctx, "%s/bound", setting), &spec));
    for (uint32_t w = 0; w < out->n; w++) {
        mr_words *way = &out->at[w];
        if (!way->n || strcmp(name_of(ctx, way->at[0]), name_of(ctx, setting)) != 0) continue;
        for (uint32_t i = 0; i < way->n; i++)
            if (strcmp(way->at[i], setting) == 0) return MR_OK;
        MR_PUSH(ctx, way, setting);
        return MR_OK;
    }
    mr_words way = {0};
    MR_PUSH(ctx, &way, setting);
    MR_PUSH(ctx, out, way);
    memmove(out->at + 1, out->at, (out->n - 1) * sizeof way);
    out->at[0] = way;
    return MR_OK;
}

static mr_status choose_ways(mr_ctx *ctx, const mr_args *args, ways *out)
{
    for (uint32_t i = 0; i < args->without.n; i++)
        MR_TRY(check_without(ctx, args->without.at[i]));
    for (size_t w = 0; w < MR_COUNT(usual); w++) {
        mr_words way = {0};
        for (size_t i = 0; i < MOST && usual[w][i]; i++)
            if (!is_without(ctx, args, usual[w][i])) MR_PUSH(ctx, &way, usual[w][i]);
        MR_PUSH(ctx, out, way);
    }
    for (uint32_t i = 0; i < args->with.n; i++)
        MR_TRY(add_asked(ctx, args->with.at[i], out));
    return MR_OK;
}

/* Of the release of a recording there may be no such option; then it is not tried. */
static void add_spec(mr_ctx *ctx, const char *rewrites, const char *place, mr_specs *out)
{
    const mr_failure before = ctx->failure;
    const char *text = mr_printf(ctx, "%s%s%s", rewrites, *rewrites ? "/" : "", place);
    if (mr_specs_add(ctx, text, out) != MR_OK) ctx->failure = before;
}

/* ---- settings alone ---------------------------------------------------------------------- */

static mr_cell *compute(mr_ctx *ctx, const mr_advice *advice, uint64_t capacity,
                        const mr_specs *list)
{
    mr_scene scene = *advice->scene;
    scene.capacity = capacity;
    return mr_compare_specs(ctx, &scene, advice->cuda_device, list, false,
                            (uint32_t)advice->args->jobs)
        .cells;
}

static bool changes(const mr_cell *cell, const mr_cell *recorded)
{
    const mr_metrics *a = &cell->metrics, *b = &recorded->metrics;
    return mr_cell_passed(cell)
           && (a->peak_allocated != b->peak_allocated || a->time != b->time);
}

/* float16 where bfloat16 is as good */
static bool is_needless(const mr_cell *way, uint32_t i)
{
    for (uint32_t k = 0; k < i; k++)
        if (mr_cell_passed(&way[k]) && mr_is_beaten(&way[i], &way[k])) return true;
    return false;
}

static mr_status put_alone(mr_ctx *ctx, const char *place, const ways *list, mr_specs *out)
{
    mr_spec spec;
    MR_TRY(mr_scene_spec(ctx, place, &spec));
    MR_PUSH(ctx, out, spec);
    for (uint32_t w = 0; w < list->n; w++)
        for (uint32_t i = 0; i < list->at[w].n; i++) {
            const char *text = mr_printf(ctx, "%s/%s", list->at[w].at[i], place);
            MR_TRY(mr_scene_spec(ctx, text, &spec));
            MR_PUSH(ctx, out, spec);
        }
    return MR_OK;
}

static bool is_asked(const mr_args *args, const char *setting)
{
    for (uint32_t i = 0; i < args->with.n; i++)
        if (strcmp(args->with.at[i], setting) == 0) return true;
    return false;
}

/* Leaves those in the ways that change something, on memory without limit.  What was asked for
 * stays anyway, and is told where it cannot be. */
static mr_status try_alone(mr_ctx *ctx, const char *place, ways *list, mr_advice *out)
{
    mr_specs *alone = MR_NEW(ctx, mr_specs);
    MR_TRY(put_alone(ctx, place, list, alone));
    const mr_cell *cells = compute(ctx, out, UINT64_MAX, alone), *way = cells + 1;
    out->recorded = cells[0];
    if (out->recorded.failure.status) {
        ctx->failure = out->recorded.failure;
        return out->recorded.failure.status;
    }
    for (uint32_t w = 0; w < list->n; w++) {
        mr_words left = {0};
        for (uint32_t i = 0; i < list->at[w].n; i++) {
            const bool asked = is_asked(out->args, list->at[w].at[i]);
            if (asked && way[i].failure.status)
                return mr_fail(ctx, way[i].failure.status, "--with %s: %s", list->at[w].at[i],
                               way[i].failure.text);
            if (asked || (changes(&way[i], cells) && !is_needless(way, i)))
                MR_PUSH(ctx, &left, list->at[w].at[i]);
        }
        for (uint32_t i = 0; i < left.n; i++) MR_PUSH(ctx, &out->settings, left.at[i]);
        way += list->at[w].n;
        list->at[w] = left;
    }
    return MR_OK;
}

/* ---- together ---------------------------------------------------------------------------- */

/* Every combination of one setting or none of each way. */
static mr_words combine(mr_ctx *ctx, const ways *list)
{
    mr_words out = {0};
    MR_PUSH(ctx, &out, "");
    for (uint32_t w = 0; w < list->n; w++) {
        const uint32_t n = out.n;
        for (uint32_t i = 0; i < list->at[w].n; i++)
            for (uint32_t k = 0; k < n; k++)
                MR_PUSH(ctx, &out,
                        mr_printf(ctx, "%s%s%s", out.at[k], *out.at[k] ? "+" : "",
                                  list->at[w].at[i]));
    }
    return out;
}

/* The one option that helps most alone, with every combination; others that people try with the
 * step as it is. */
static const mr_specs *choose_specs(mr_ctx *ctx, const char *place, const mr_words *rewrites)
{
    static const char *const others[] = {"max_split_size_mb=128", "roundup_power2_divisions=8",
                                         "garbage_collection_threshold=0.8"};
    const char *expandable = mr_spec_with(ctx, place, "expandable_segments=True");
    mr_specs *out = MR_NEW(ctx, mr_specs);
    for (uint32_t i = 0; i < rewrites->n; i++) {
        add_spec(ctx, rewrites->at[i], place, out);
        add_spec(ctx, rewrites->at[i], expandable, out);
    }
    for (size_t i = 0; i < MR_COUNT(others); i++)
        add_spec(ctx, "", mr_spec_with(ctx, place, others[i]), out);
    return out;
}

/* Of those that fit. */
static const mr_cell *find_simplest(const mr_cell *cells, uint32_t n)
{
    const mr_cell *out = NULL;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t settings = cells[i].spec->rewrites.n;
        const bool fewer = !out || settings < out->spec->rewrites.n;
        const bool as_few = out && settings == out->spec->rewrites.n;
        if (fewer || (as_few && cells[i].metrics.time < out->metrics.time)) out = &cells[i];
    }
    return out;
}

/* Where nothing fits: what comes nearest. */
static void find_least(mr_ctx *ctx, const mr_specs *all, mr_advice *out)
{
    const mr_cell *cells = compute(ctx, out, UINT64_MAX, all);
    out->least = out->recorded;
    for (uint32_t i = 0; i < all->n; i++)
        if (mr_cell_passed(&cells[i])
            && cells[i].metrics.peak_reserved < out->least.metrics.peak_reserved)
            out->least = cells[i];
}

mr_status mr_advise(mr_ctx *ctx, mr_advice *out)
{
    const char *place = mr_scene_recorded_spec(ctx, &out->scene->trace);
    ways list = {0};
    MR_TRY(choose_ways(ctx, out->args, &list));
    MR_TRY(try_alone(ctx, place, &list, out));
    const mr_words rewrites = combine(ctx, &list);
    const mr_specs *all = choose_specs(ctx, place, &rewrites);
    const mr_cell *cells = compute(ctx, out, out->scene->capacity, all);
    mr_cell *fitting = MR_NEW_N(ctx, mr_cell, all->n);
    out->tried = all->n;
    out->fits = mr_cell_passed(&cells[0]);
    for (uint32_t i = 0; i < all->n; i++)
        if (mr_cell_passed(&cells[i])) fitting[out->passed++] = cells[i];
    if (out->passed) out->simplest = *find_simplest(fitting, out->passed);
    else find_least(ctx, all, out);
    out->n = mr_front(ctx, fitting, out->passed);
    out->rows = fitting;
    return MR_OK;
}
