/* pickle -- the stack machine: opcodes, stack, marks and memo. */
#include "pickle.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

mr_status mr_pickle_fail(mr_pickle *pickle, const char *format, ...)
{
    char text[400];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    const char *where =
        mr_printf(pickle->ctx, "%s: byte %" PRIu64, mr_source_name(pickle->source), pickle->at);
    return mr_fail_at(pickle->ctx, MR_EINPUT, where, "%s", text);
}

mr_status mr_pickle_cut(mr_pickle *pickle, const char *expected)
{
    MR_TRY(mr_source_status(pickle->source));
    pickle->at = pickle->base + (uint64_t)(pickle->end - pickle->window);
    return mr_pickle_fail(pickle, "the file ends here, expected %s", expected);
}

mr_status mr_pickle_refill(mr_pickle *pickle, size_t want)
{
    size_t have;
    mr_source_take(pickle->source, (size_t)(pickle->p - pickle->window));
    pickle->p = pickle->window = mr_source_peek(pickle->source, want, &have);
    pickle->end = pickle->p + have;
    pickle->base = mr_source_offset(pickle->source);
    mr_progress(pickle->ctx, "reading", mr_source_part(pickle->source));
    return have < want ? mr_source_status(pickle->source) : MR_OK;
}

static mr_status refused(mr_pickle *pickle, unsigned code)
{
    const char *name = mr_opcodes[code].name;
    if (!name) return mr_pickle_fail(pickle, "the byte 0x%02x is no opcode of a pickle", code);
    return mr_pickle_fail(pickle,
                          "the opcode %s asks for more than plain data, expected lists,"
                          " dicts, texts and numbers only",
                          name);
}

/* A little-endian number of up to 8 bytes. */
static mr_status argument(mr_pickle *pickle, unsigned width, uint64_t *out)
{
    if (pickle->end - pickle->p < width) MR_TRY(mr_pickle_refill(pickle, width));
    if (pickle->end - pickle->p < width) return mr_pickle_cut(pickle, "the rest of a value");
    *out = 0;
    for (unsigned i = 0; i < width; i++) *out |= (uint64_t)pickle->p[i] << 8 * i;
    pickle->p += width;
    return MR_OK;
}

/* The place of the first value that the opcode takes. */
static mr_status operands(mr_pickle *pickle, const mr_opcode *opcode, uint32_t *from)
{
    if (opcode->takes == MR_TAKES_MARK) {
        if (!pickle->marks.n)
            return mr_pickle_fail(pickle, "%s needs a MARK before it, found none",
                                  opcode->name);
        *from = pickle->marks.at[--pickle->marks.n];
        return MR_OK;
    }
    const uint32_t have = pickle->stack.n - mr_pickle_floor(pickle);
    if (have < opcode->takes)
        return mr_pickle_fail(pickle, "%s needs %u values before it, found %" PRIu32,
                              opcode->name, opcode->takes, have);
    *from = pickle->stack.n - opcode->takes;
    return MR_OK;
}

static mr_status step(mr_pickle *pickle)
{
    uint64_t arg = 0;
    uint32_t from = 0;
    pickle->at = pickle->base + (uint64_t)(pickle->p - pickle->window);
    const unsigned code = *pickle->p++;
    const mr_opcode *opcode = &mr_opcodes[code];
    if (!opcode->run) return refused(pickle, code);
    if (opcode->width) MR_TRY(argument(pickle, opcode->width, &arg));
    MR_TRY(operands(pickle, opcode, &from));
    return opcode->run(pickle, arg, from);
}

mr_status mr_pickle_run(mr_pickle *pickle, mr_value *out)
{
    while (!pickle->stopped) {
        if (pickle->end - pickle->p < MR_ROOM) MR_TRY(mr_pickle_refill(pickle, MR_ROOM));
        if (pickle->end - pickle->p >= MR_ROOM) MR_TRY(mr_pickle_quick(pickle));
        if (pickle->p == pickle->end) return mr_pickle_cut(pickle, "more of the pickle");
        MR_TRY(step(pickle));
    }
    *out = pickle->stack.at[0];
    return MR_OK;
}

void mr_pickle_init(mr_ctx *ctx, mr_pickle *pickle, mr_source *source,
                    const mr_builder *builder, void *self)
{
    *pickle = (mr_pickle){.ctx = ctx, .source = source, .builder = builder, .self = self};
    static const unsigned char nothing[1];
    pickle->p = pickle->end = pickle->window = nothing;
    for (uint32_t i = 0; i < builder->n_words; i++) {
        const char *word = builder->words[i];
        mr_texts_index(ctx, &pickle->texts, word, (uint32_t)strlen(word));
    }
    /* Large enough from the start that growing them leaves no small copies behind. */
    MR_RESERVE_N(ctx, &pickle->stack, 4096);
    MR_RESERVE_N(ctx, &pickle->marks, 64);
    MR_RESERVE_N(ctx, &pickle->memo, 16384);
    MR_RESERVE_N(ctx, &pickle->content, 16384);
}

uint32_t mr_pickle_root_key(const mr_pickle *pickle)
{
    /* ( dict MARK key value ... key value MARK ...: the second mark shows where the value is.
     */
    if (pickle->marks.n < 2 || pickle->marks.at[0] != 1) return MR_NONE;
    const uint32_t inner = pickle->marks.at[1];
    if (mr_v_kind(pickle->stack.at[0]) != MR_V_OPEN || !pickle->open.at[0].dict) return MR_NONE;
    if (inner < 3 || inner % 2 == 0) return MR_NONE;
    const mr_value key = pickle->stack.at[inner - 2];
    return mr_v_kind(key) == MR_V_TEXT ? (uint32_t)mr_v_index(key) : MR_NONE;
}
