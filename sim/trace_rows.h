/* trace_rows.h -- the rows and columns of our trace format, once, for its reader
 * and its writer.
 *
 * A row is its kind, then fields in a fixed order, then further fields in any order:
 * `name=value`, or just the name for what is true or not.  traces/README.md says
 * what they mean.
 */
#ifndef MR_TRACE_ROWS_H
#define MR_TRACE_ROWS_H

#include "trace.h"

#define MR_TRACE_VERSION 1

/* How a column is written. */
typedef enum mr_cell_type {
    MR_CELL_NUMBER,
    MR_CELL_TEXT,
    MR_CELL_FLAG,  /* the name alone */
    MR_CELL_WORD,  /* one of a few */
    MR_CELL_THING, /* id of something that an earlier row declares */
    MR_CELL_LIST,  /* of such ids, separated by spaces */
    MR_CELL_SAVED, /* of ID:WORD */
    MR_CELL_SHAPE, /* 32x128 */
} mr_cell_type;

/* What ids can stand for: name of the row that declares it. */
#define MR_THING_LIST(X) \
    X(stream) X(pool) X(frame) X(stack) X(storage) X(tensor) X(op) X(segment)

typedef enum mr_thing {
#define X(name) MR_THING_##name,
    MR_THING_LIST(X)
#undef X
        MR_THING_N
} mr_thing;

const char *mr_thing_name(mr_thing thing);

/* Word number i of a WORD column, i at most the column's max. */
const char *mr_role_word(uint64_t i);
const char *mr_phase_word(uint64_t i);
const char *mr_saved_word(uint64_t i);
const char *mr_mark_word(uint64_t i);
const char *mr_engine_word(uint64_t i);

/* Words of a `has` row, one for each bit of mr_trace.has; NULL behind the last. */
const char *mr_has_word(uint32_t bit);

/* name, type, then what the type asks for: the largest number, the words, the thing; the value
 * of a column that is left out (a thing that is left out may also be written "none") */
#define MR_COLUMN_LIST(X)                                              \
    X(id, NUMBER, .max = UINT64_MAX)                                   \
    X(bytes, NUMBER, .max = UINT64_MAX)                                \
    X(per_sample, NUMBER, .max = UINT64_MAX)                           \
    X(stream, THING, .thing = MR_THING_stream)                         \
    X(pool, THING, .thing = MR_THING_pool)                             \
    X(stack, THING, .thing = MR_THING_stack, .missing = MR_NONE)       \
    X(device, NUMBER, .max = UINT16_MAX)                               \
    X(role, WORD, .word = mr_role_word, .max = MR_ROLE_N - 1)                              \
    X(before, FLAG, .max = 1)                                          \
    X(after, FLAG, .max = 1)                                           \
    X(deferred, FLAG, .max = 1)                                        \
    X(refused, FLAG, .max = 1)                                         \
    X(storage, THING, .thing = MR_THING_storage, .missing = MR_NONE)   \
    X(name, TEXT, .max = 0)                                            \
    X(dtype, TEXT, .max = 0)                                           \
    X(shape, SHAPE, .max = UINT64_MAX)                                 \
    X(offset, NUMBER, .max = UINT64_MAX)                               \
    X(phase, WORD, .word = mr_phase_word, .max = MR_UPDATE)                            \
    X(module, TEXT, .max = 0)                                          \
    X(call, NUMBER, .max = UINT32_MAX)                                 \
    X(random, FLAG, .max = 1)                                          \
    X(later, FLAG, .max = 1)                                           \
    X(again, THING, .thing = MR_THING_op, .missing = MR_NONE)          \
    X(of, THING, .thing = MR_THING_op, .missing = MR_NONE)             \
    X(engine, WORD, .word = mr_engine_word, .max = MR_ENGINE_N - 1)                          \
    X(ranks, NUMBER, .max = UINT32_MAX)                                \
    X(ns, NUMBER, .max = UINT64_MAX)                                   \
    X(flops, NUMBER, .max = UINT64_MAX)                                \
    X(flops_per_sample, NUMBER, .max = UINT64_MAX)                     \
    X(read, NUMBER, .max = UINT64_MAX)                                 \
    X(written, NUMBER, .max = UINT64_MAX)                              \
    X(workspace, NUMBER, .max = UINT64_MAX)                            \
    X(in, LIST, .thing = MR_THING_tensor)                              \
    X(out, LIST, .thing = MR_THING_tensor)                             \
    X(mutates, LIST, .thing = MR_THING_tensor)                         \
    X(saved, SAVED, .thing = MR_THING_tensor)                          \
    X(t, NUMBER, .max = UINT64_MAX)                                    \
    X(tensor, THING, .thing = MR_THING_tensor, .missing = MR_NONE)     \
    X(op, THING, .thing = MR_THING_op, .missing = MR_NONE)             \
    X(kind, WORD, .word = mr_mark_word, .max = MR_NOTE)                              \
    X(file, TEXT, .max = 0)                                            \
    X(line, NUMBER, .max = UINT32_MAX)                                 \
    X(function, TEXT, .max = 0)                                        \
    X(frames, LIST, .thing = MR_THING_frame)                           \
    X(address, NUMBER, .max = UINT64_MAX)                              \
    X(large, FLAG, .max = 1)                                           \
    X(expandable, FLAG, .max = 1)                                      \
    X(held, FLAG, .max = 1)                                            \
    X(segment, THING, .thing = MR_THING_segment)                       \
    X(pending, FLAG, .max = 1)                                         \
    X(handle, NUMBER, .max = UINT32_MAX)                               \
    X(low, NUMBER, .max = UINT64_MAX)                                  \
    X(high, NUMBER, .max = UINT64_MAX, .missing = UINT64_MAX)          \
    X(wrapped, FLAG, .max = 1)

typedef enum mr_column {
#define X(name, ...) MR_COL_##name,
    MR_COLUMN_LIST(X)
#undef X
        MR_COLUMN_N
} mr_column;

typedef struct mr_column_info {
    const char *name;
    mr_cell_type type;
    uint64_t max, missing;
    mr_thing thing;
    const char *(*word)(uint64_t i);
} mr_column_info;

extern const mr_column_info mr_columns[MR_COLUMN_N];

/* kind of row; columns that must stand in this order; those that may follow without a name, for
 * they begin with a digit; those that may follow by name.
 * The frequent kinds come first, for a reader looks from the top. */
#define MR_ROW_LIST(X)                                                                    \
    X(alloc, (C(id)), (C(bytes)), (MR_STORAGE_COLUMNS C(t)))                              \
    X(free, (C(storage)), (), (C(t)))                                                     \
    X(bind, (C(storage) C(segment) C(offset) C(bytes)), (), (C(handle)))                  \
    X(unbind, (C(storage) C(segment) C(offset) C(bytes)), (), (C(handle)))                \
    X(storage, (C(id) C(bytes)), (), (MR_STORAGE_COLUMNS))                                \
    X(tensor, (C(id) C(storage)), (),                                                     \
      (C(name) C(dtype) C(shape) C(offset) C(bytes) C(role)))                             \
    X(op, (C(id) C(name) C(phase)), (),                                                   \
      (C(module) C(call) C(stream) C(random) C(again) C(of) C(engine) C(ranks) C(ns)      \
       C(flops) C(flops_per_sample) C(read) C(written) C(workspace) C(in) C(out)          \
       C(mutates) C(saved) C(later) C(t)))                                                \
    X(drop, (C(tensor)), (), (C(t)))                                                      \
    X(done, (C(storage)), (), (C(t)))                                                     \
    X(run, (C(op)), (), (C(t)))                                                           \
    X(flush, (), (C(device)), (C(t)))                                                     \
    X(mark, (C(kind) C(name)), (), (C(t)))                                                \
    X(frame, (C(id) C(file) C(line) C(function)), (), ())                                 \
    X(stack, (C(id) C(frames)), (), ())                                                   \
    X(stream, (C(id)), (), ())                                                            \
    X(pool, (C(id)), (), ())                                                              \
    X(history, (C(device)), (), (C(low) C(high) C(wrapped)))                              \
    X(segment, (C(id) C(address) C(bytes)), (),                                           \
      (C(stream) C(pool) C(large) C(expandable) C(held)))                                 \
    X(start, (C(segment) C(offset) C(bytes)), (), (C(storage) C(pending)))                \
    X(reserve, (C(segment) C(bytes)), (), (C(storage) C(offset) C(handle)))               \
    X(release, (C(segment) C(bytes)), (), (C(storage) C(offset) C(handle)))               \
    X(map, (C(segment) C(offset) C(bytes)), (), (C(storage) C(handle)))                   \
    X(unmap, (C(segment) C(offset) C(bytes)), (), (C(storage) C(handle)))                 \
    X(defer, (C(storage) C(segment) C(offset) C(bytes)), (), (C(handle)))                 \
    X(exec, (C(op)), (), (C(segment) C(offset) C(bytes) C(handle)))                       \
    X(refuse, (C(storage)), (), (C(segment) C(offset) C(bytes) C(handle)))                \
    X(end, (C(segment) C(offset) C(bytes)), (), (C(storage) C(pending)))

#define MR_STORAGE_COLUMNS                                                        \
    C(per_sample) C(stream) C(pool) C(stack) C(device) C(role) C(before) C(after) \
        C(deferred) C(refused)

/* Besides these, rows of words and texts: memreuse, about, note, has, and # for a comment. */
typedef enum mr_row_kind {
#define X(name, ...) MR_ROW_##name,
    MR_ROW_LIST(X)
#undef X
        MR_ROW_N
} mr_row_kind;

#define MR_ROW_COLUMNS 24 /* more than any kind of row has */

typedef struct mr_row_info {
    const char *name;
    uint32_t fixed, bare, n; /* columns: in order, then without a name, in all */
    uint8_t columns[MR_ROW_COLUMNS]; /* mr_column */
} mr_row_info;

extern const mr_row_info mr_rows[MR_ROW_N];

/* What stands in a column. */
typedef struct mr_cell {
    bool given;
    uint64_t number; /* also the index of a word or thing, and a flag */
    union {
        const char *text;
        mr_ids ids;
        struct {
            mr_saved *at;
            uint32_t n;
        } saved;
        struct {
            const uint64_t *at;
            uint32_t n;
        } shape;
    };
} mr_cell;

/* Bits of mr_trace.has that follow from what is in the trace. */
unsigned mr_trace_shows(const mr_trace *trace);

/* The kind of row of a command; MR_EXEC and others have one each. */
mr_row_kind mr_row_of_cmd(mr_cmd_kind kind);

#endif
