/* hues -- what the colours of blocks say, and the legend for it. */
#include <string.h>

#include "plot.h"

#define NOBODY 8 /* grey: unknown */
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
void mr_hues_prepare(mr_figure *figure)
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

static uint64_t hash_text(uint64_t hash, const char *text)
{
    for (; *text; text++) hash = (hash ^ (unsigned char)*text) * 0x100000001b3; /* FNV-1a */
    return hash;
}

#define FRAMES_HASHED 8 /* who asked is told by the innermost frames */

static uint32_t hue_of_stack(const mr_trace *trace, const mr_storage *storage)
{
    if (storage->stack == MR_NONE) return NOBODY;
    const mr_stack *stack = &trace->stacks.at[storage->stack];
    uint64_t hash = 0xcbf29ce484222325;
    for (uint32_t i = 0; i < stack->n && i < FRAMES_HASHED; i++) {
        const mr_frame *frame = &trace->frames.at[stack->at[i]];
        hash = hash_text(hash_text(hash, frame->file), frame->function) + frame->line;
    }
    return 1 + (uint32_t)((hash ^ hash >> 32) % TOLD);
}

uint32_t mr_hue_of(const mr_figure *figure, const mr_trace *trace, const mr_cmd *bind)
{
    const mr_storage *storage = &trace->storages.at[bind->id];
    switch (figure->colouring) {
    case MR_BY_SIZE: return hue_of_size(figure, bind->block.bytes);
    case MR_BY_ROLE: return mr_hue_of_role((mr_role)storage->role);
    case MR_BY_STREAM: return 1 + storage->stream % TOLD;
    case MR_BY_STACK: break;
    }
    return hue_of_stack(trace, storage);
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

void mr_head_add_hues(mr_head *head, const mr_figure *figure)
{
    switch (figure->colouring) {
    case MR_BY_SIZE: add_sizes(head, figure); break;
    case MR_BY_ROLE: add_roles(head, figure); break;
    case MR_BY_STREAM: add_streams(head, figure); break;
    case MR_BY_STACK: mr_head_add(head, "hue\t1\tblocks: one colour per call stack"); break;
    }
}
