/* hues -- what the colours of blocks say, and the legend for it. */
#include <stdlib.h>
#include <string.h>

#include "plot.h"

#define NOBODY 8 /* grey: unknown, or not told */
#define TOLD 7   /* colours in front of it */

uint32_t mr_hue_of_role(mr_role role)
{
    static const uint8_t hues[MR_ROLE_N] = {
        [MR_ROLE_unknown] = NOBODY, [MR_ROLE_parameter] = 2, [MR_ROLE_buffer] = 7,
        [MR_ROLE_input] = 6,        [MR_ROLE_gradient] = 4,  [MR_ROLE_activation] = 1,
        [MR_ROLE_state] = 3,        [MR_ROLE_temporary] = 5,
    };
    return hues[role];
}

/* ---- sizes ------------------------------------------------------------------------------ */

static uint64_t largest_storage(const mr_figure *figure)
{
    uint64_t largest = 1;
    for (uint32_t p = 0; p < figure->panels.n; p++) {
        const mr_trace *trace = &figure->panels.at[p].answer->trace;
        for (uint32_t s = 0; s < trace->storages.n; s++)
            if (trace->storages.at[s].device == figure->cuda_device
                && trace->storages.at[s].bytes > largest)
                largest = trace->storages.at[s].bytes;
    }
    return largest;
}

/* Powers of two: the first class ends at 1 MiB, where PyTorch's pool of small blocks does, or
 * earlier when nothing is large, the last at the largest storage, the others evenly between. */
static void choose_classes(mr_figure *figure)
{
    enum { SMALL = 20, ABOVE_SMALL_LEAST = 8, SMALLEST = 9 };
    int last = 0;
    while (last < 62 && (uint64_t)1 << last < largest_storage(figure)) last++;
    int first = last - ABOVE_SMALL_LEAST < SMALL ? last - ABOVE_SMALL_LEAST : SMALL;
    if (first < SMALLEST) first = SMALLEST;
    if (last < first) last = first;
    for (int i = 0; i < MR_SIZE_CLASSES; i++)
        figure->size_class[i] = (uint64_t)1
                                << (first + (last - first) * i / (MR_SIZE_CLASSES - 1));
}

static const uint8_t hue_of_class[MR_SIZE_CLASSES] = {2, 1, 3, 7, 4, 5};

static uint32_t hue_of_size(const mr_figure *figure, uint64_t bytes)
{
    int i = 0;
    while (i + 1 < MR_SIZE_CLASSES && bytes > figure->size_class[i]) i++;
    return hue_of_class[i];
}

static void add_sizes(mr_head *head, const mr_figure *figure)
{
    for (int i = 0; i < MR_SIZE_CLASSES; i++) {
        const uint64_t most = figure->size_class[i];
        if (i && most == figure->size_class[i - 1]) continue;
        const char unit = most >= MR_GIB   ? 'G'
                          : most >= MR_MIB ? 'M'
                          : most >= MR_KIB ? 'K'
                                           : 0;
        const uint64_t one = unit == 'G' ? MR_GIB : unit == 'M' ? MR_MIB : unit ? MR_KIB : 1;
        mr_head_add(head, "hue\t%d\t%s%u %c%s", hue_of_class[i], i ? "" : "blocks up to ",
                    (unsigned)(most / one), unit ? unit : 'B', unit ? "iB" : "");
    }
}

/* ---- who asked -------------------------------------------------------------------------- */

#define MAKERS_TOLD 6 /* those who asked for most; behind them: all others */

typedef struct maker {
    const char *name;
    double bytes; /* of all that it asked for in all panels */
} maker;

typedef MR_VEC(maker) makers;

/* As `info --by maker` names them. */
static const char *maker_name(mr_ctx *ctx, const mr_trace *trace, const mr_makers *index,
                              uint32_t storage)
{
    const char *who = mr_show_maker(ctx, index, storage);
    return trace->storages.at[storage].stack == MR_NONE ? mr_without_numbers(ctx, who) : who;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const maker *)a)->name, ((const maker *)b)->name);
}

static int by_bytes(const void *a, const void *b)
{
    const maker *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return strcmp(x->name, y->name);
}

static void merge(makers *list)
{
    uint32_t n = 0;
    if (list->n) qsort(list->at, list->n, sizeof *list->at, by_name);
    for (uint32_t i = 0; i < list->n; i++)
        if (n && strcmp(list->at[n - 1].name, list->at[i].name) == 0)
            list->at[n - 1].bytes += list->at[i].bytes;
        else list->at[n++] = list->at[i];
    list->n = n;
    if (n) qsort(list->at, n, sizeof *list->at, by_bytes);
}

static void add_makers(mr_ctx *ctx, const mr_figure *figure, const mr_trace *trace,
                       const char **names, makers *all)
{
    const mr_makers *index = mr_makers_new(ctx, trace);
    for (uint32_t s = 0; s < trace->storages.n; s++) {
        if (trace->storages.at[s].device != figure->cuda_device) continue;
        names[s] = maker_name(ctx, trace, index, s);
        MR_PUSH(ctx, all, (maker){names[s], (double)trace->storages.at[s].bytes});
    }
}

static uint8_t hue_of_name(const mr_figure *figure, const char *name)
{
    for (uint8_t i = 0; i < figure->makers.n; i++)
        if (strcmp(figure->makers.at[i], name) == 0) return (uint8_t)(i + 1);
    return NOBODY;
}

static void choose_makers(mr_ctx *ctx, mr_figure *figure)
{
    makers all = {0};
    const char **names[64] = {0};
    for (uint32_t p = 0; p < figure->panels.n && p < MR_COUNT(names); p++) {
        const mr_trace *trace = &figure->panels.at[p].answer->trace;
        names[p] = MR_NEW_N(ctx, const char *, trace->storages.n);
        add_makers(ctx, figure, trace, names[p], &all);
    }
    merge(&all);
    for (uint32_t i = 0; i < all.n && i < MAKERS_TOLD; i++)
        MR_PUSH(ctx, &figure->makers, all.at[i].name);
    for (uint32_t p = 0; p < figure->panels.n && p < MR_COUNT(names); p++) {
        const uint32_t n = figure->panels.at[p].answer->trace.storages.n;
        uint8_t *hues = MR_NEW_N(ctx, uint8_t, n);
        for (uint32_t s = 0; s < n; s++)
            hues[s] = names[p][s] ? hue_of_name(figure, names[p][s]) : NOBODY;
        figure->panels.at[p].hue_of_maker = hues;
    }
}

void mr_hues_prepare(mr_ctx *ctx, mr_figure *figure)
{
    choose_classes(figure);
    if (figure->colouring == MR_BY_STACK) choose_makers(ctx, figure);
}

static uint32_t hue_of_maker(const mr_figure *figure, const mr_trace *trace, uint32_t storage)
{
    for (uint32_t p = 0; p < figure->panels.n; p++)
        if (&figure->panels.at[p].answer->trace == trace)
            return figure->panels.at[p].hue_of_maker[storage];
    return NOBODY;
}

/* ---- a block ---------------------------------------------------------------------------- */

uint32_t mr_hue_of(const mr_figure *figure, const mr_trace *trace, const mr_cmd *bind)
{
    const mr_storage *storage = &trace->storages.at[bind->id];
    switch (figure->colouring) {
    case MR_BY_SIZE: return hue_of_size(figure, bind->block.bytes);
    case MR_BY_ROLE: return mr_hue_of_role((mr_role)storage->role);
    case MR_BY_STREAM: return 1 + storage->stream % TOLD;
    case MR_BY_STACK: break;
    }
    return hue_of_maker(figure, trace, bind->id);
}

/* ---- the legend ------------------------------------------------------------------------- */

static void add_roles(mr_head *head, const mr_figure *figure)
{
    bool present[MR_ROLE_N] = {false};
    for (uint32_t p = 0; p < figure->panels.n; p++) {
        const mr_trace *trace = &figure->panels.at[p].answer->trace;
        for (uint32_t s = 0; s < trace->storages.n; s++)
            if (trace->storages.at[s].device == figure->cuda_device)
                present[trace->storages.at[s].role] = true;
    }
    for (int r = 0; r < MR_ROLE_N; r++)
        if (present[r])
            mr_head_add(head, "hue\t%u\t%s", (unsigned)mr_hue_of_role((mr_role)r),
                        mr_role_plural((mr_role)r));
}

static void add_streams(mr_head *head, const mr_figure *figure)
{
    const uint32_t n = figure->scene->trace.streams.n;
    for (uint32_t i = 0; i < n && i < TOLD; i++)
        mr_head_add(head, "hue\t%u\t%sstream %u", (unsigned)(1 + i % TOLD),
                    i ? "" : "blocks of ", (unsigned)i);
}

static void add_makers_told(mr_head *head, const mr_figure *figure)
{
    enum { NAME_MOST = 40 };
    for (uint32_t i = 0; i < figure->makers.n; i++)
        mr_head_add(head, "hue\t%u\t%s", (unsigned)(i + 1),
                    mr_head_text(head->ctx, figure->makers.at[i], NAME_MOST));
    if (figure->makers.n == MAKERS_TOLD) mr_head_add(head, "hue\t%d\tall others", NOBODY);
}

void mr_head_add_hues(mr_head *head, const mr_figure *figure)
{
    switch (figure->colouring) {
    case MR_BY_SIZE: add_sizes(head, figure); break;
    case MR_BY_ROLE: add_roles(head, figure); break;
    case MR_BY_STREAM: add_streams(head, figure); break;
    case MR_BY_STACK: add_makers_told(head, figure); break;
    }
}
