/* trace_rows -- the tables made from the lists of rows and columns. */
#include "trace_rows.h"

const char *mr_thing_name(mr_thing thing)
{
    static const char *const names[] = {
#define X(name) #name,
        MR_THING_LIST(X)
#undef X
    };
    return names[thing];
}

const char *mr_role_word(uint64_t i)
{
    return mr_role_name((mr_role)i);
}

const char *mr_phase_word(uint64_t i)
{
    return mr_phase_name((mr_phase)i);
}

const char *mr_saved_word(uint64_t i)
{
    return mr_saved_name((mr_saved_as)i);
}

const char *mr_mark_word(uint64_t i)
{
    return mr_mark_kind_name((mr_mark_kind)i);
}

const char *mr_engine_word(uint64_t i)
{
    return mr_engine_name((mr_engine)i);
}

const char *mr_has_word(uint32_t bit)
{
    static const char *const words[] = {"dataflow", "phases", "times",
                                        "saved",    "drops",  "history"};
    return bit < MR_COUNT(words) ? words[bit] : NULL;
}

const mr_column_info mr_columns[MR_COLUMN_N] = {
#define X(name, type, ...) {#name, MR_CELL_##type, __VA_ARGS__},
    MR_COLUMN_LIST(X)
#undef X
};

#define C(name) MR_COL_##name,
#define PLAIN(...) __VA_ARGS__
#define NUMBER_OF(list) (sizeof(uint8_t[]){PLAIN list 0} - 1)

const mr_row_info mr_rows[MR_ROW_N] = {
#define X(name, fixed, bare, named)                                                 \
    {#name, NUMBER_OF(fixed), NUMBER_OF(bare),                                      \
     NUMBER_OF(fixed) + NUMBER_OF(bare) + NUMBER_OF(named),                         \
     {PLAIN fixed PLAIN bare PLAIN named}},
    MR_ROW_LIST(X)
#undef X
};

static bool any_op(const mr_trace *trace, unsigned bit)
{
    for (uint32_t o = 0; o < trace->ops.n; o++) {
        const mr_op *op = &trace->ops.at[o];
        if ((bit == MR_HAS_DATAFLOW && (op->in.n || op->out.n || op->mutates.n))
            || (bit == MR_HAS_PHASES && op->phase != MR_OTHER)
            || (bit == MR_HAS_TIMES && op->ns) || (bit == MR_HAS_SAVED && op->saved.n))
            return true;
    }
    return false;
}

unsigned mr_trace_shows(const mr_trace *trace)
{
    unsigned has = trace->histories.n ? MR_HAS_HISTORY : 0;
    for (unsigned bit = MR_HAS_DATAFLOW; bit <= MR_HAS_SAVED; bit *= 2)
        if (any_op(trace, bit)) has |= bit;
    for (uint32_t e = 0; e < trace->events.n; e++)
        if (trace->events.at[e].kind == MR_DROP) return has | MR_HAS_DROPS;
    return has;
}

mr_row_kind mr_row_of_cmd(mr_cmd_kind kind)
{
    static const uint8_t rows[] = {
        [MR_RESERVE] = MR_ROW_reserve, [MR_RELEASE] = MR_ROW_release,
        [MR_MAP] = MR_ROW_map,         [MR_UNMAP] = MR_ROW_unmap,
        [MR_BIND] = MR_ROW_bind,       [MR_DEFER] = MR_ROW_defer,
        [MR_UNBIND] = MR_ROW_unbind,   [MR_EXEC] = MR_ROW_exec,
        [MR_REFUSE] = MR_ROW_refuse,
    };
    return rows[kind];
}
