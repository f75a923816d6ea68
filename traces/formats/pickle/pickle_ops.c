/* pickle_ops -- what each opcode does, and its name; those without a deed are refused. */
#include "pickle.h"

#include <inttypes.h>
#include <string.h>

#define MEMO_AHEAD 1024 /* how far ahead of the others a place of the memo may be */
#define MEMO_BYTES 4    /* a place is worth remembering only behind a value */

static mr_status need(mr_pickle *pickle, size_t n)
{
    if ((size_t)(pickle->end - pickle->p) >= n) return MR_OK;
    MR_TRY(mr_pickle_refill(pickle, n));
    if ((size_t)(pickle->end - pickle->p) >= n) return MR_OK;
    return mr_pickle_cut(pickle, "the rest of a value");
}

static mr_status skip(mr_pickle *pickle, uint64_t bytes)
{
    while (bytes) {
        MR_TRY(need(pickle, 1));
        const uint64_t have = (uint64_t)(pickle->end - pickle->p);
        const uint64_t n = bytes < have ? bytes : have;
        pickle->p += n;
        bytes -= n;
    }
    return MR_OK;
}

/* ---- numbers and constants ------------------------------------------------------------- */

static mr_status op_none(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    return mr_pickle_push(pickle, mr_v(MR_V_NULL, 0));
}

static mr_status op_true(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    return mr_pickle_push(pickle, mr_v(MR_V_TRUE, 0));
}

static mr_status op_false(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    return mr_pickle_push(pickle, mr_v(MR_V_FALSE, 0));
}

static mr_status op_unsigned(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)from;
    return mr_pickle_push(pickle, mr_v(MR_V_INT, arg));
}

static mr_status op_signed(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)from;
    const uint64_t sign = UINT64_C(1) << 31;
    const bool negative = arg & sign;
    const uint64_t size = negative ? (sign << 1) - arg : arg;
    return mr_pickle_push(pickle, mr_pickle_int(pickle, negative, size));
}

/* A two's complement number of `bytes` bytes. */
static mr_status op_long(mr_pickle *pickle, uint64_t bytes, uint32_t from)
{
    (void)from;
    if (bytes > 9)
        return mr_pickle_fail(pickle,
                              "a whole number has %" PRIu64 " bytes, expected at most"
                              " 9 (64 bits)",
                              bytes);
    MR_TRY(need(pickle, bytes));
    const unsigned char *p = pickle->p;
    const bool negative = bytes && p[bytes - 1] & 0x80;
    uint64_t bits = negative ? UINT64_MAX : 0;
    for (unsigned i = 0; i < bytes && i < 8; i++) {
        bits &= ~((uint64_t)0xff << 8 * i);
        bits |= (uint64_t)p[i] << 8 * i;
    }
    const bool fits = bytes < 9 || p[8] == 0 || (p[8] == 0xff && p[7] & 0x80);
    if (!fits) return mr_pickle_fail(pickle, "a whole number needs more than 64 bits");
    pickle->p += bytes;
    return mr_pickle_push(pickle, mr_pickle_int(pickle, negative, negative ? 0 - bits : bits));
}

static mr_status op_float(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)from;
    uint64_t bits = 0; /* big-endian in the file */
    for (unsigned i = 0; i < 8; i++) bits = bits << 8 | (arg >> 8 * i & 0xff);
    double number;
    memcpy(&number, &bits, sizeof number);
    return mr_pickle_push(pickle, mr_pickle_double(number));
}

/* ---- texts and bytes ------------------------------------------------------------------- */

mr_status mr_pickle_text(mr_pickle *pickle, const void *text, uint32_t bytes)
{
    if (bytes > MR_TEXT_MAX)
        return mr_pickle_push(pickle, mr_v(MR_V_OTHER, MR_OTHER_LONG_TEXT));
    const uint32_t index = mr_texts_index(pickle->ctx, &pickle->texts, text, bytes);
    return mr_pickle_push(pickle, mr_v(MR_V_TEXT, index));
}

static mr_status op_text(mr_pickle *pickle, uint64_t bytes, uint32_t from)
{
    (void)from;
    if (bytes > MR_TEXT_MAX) {
        MR_TRY(skip(pickle, bytes));
        return mr_pickle_push(pickle, mr_v(MR_V_OTHER, MR_OTHER_LONG_TEXT));
    }
    MR_TRY(need(pickle, bytes));
    pickle->p += bytes;
    return mr_pickle_text(pickle, pickle->p - bytes, (uint32_t)bytes);
}

static mr_status op_bytes(mr_pickle *pickle, uint64_t bytes, uint32_t from)
{
    (void)from;
    MR_TRY(skip(pickle, bytes));
    return mr_pickle_push(pickle, mr_v(MR_V_OTHER, MR_OTHER_BYTES));
}

/* ---- stack and marks ------------------------------------------------------------------- */

static mr_status op_mark(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    if (pickle->marks.n == MR_MARKS_MAX)
        return mr_pickle_fail(pickle,
                              "lists and dicts lie within each other deeper than %d,"
                              " expected a memory snapshot",
                              MR_MARKS_MAX);
    MR_PUSH(pickle->ctx, &pickle->marks, pickle->stack.n);
    return MR_OK;
}

static mr_status op_pop_mark(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg;
    mr_pickle_settle(pickle, from);
    pickle->stack.n = from;
    return MR_OK;
}

/* A mark on top counts as a value. */
static mr_status op_pop(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)from;
    const uint32_t floor = mr_pickle_floor(pickle);
    if (pickle->stack.n > floor) return op_pop_mark(pickle, arg, pickle->stack.n - 1);
    if (!pickle->marks.n)
        return mr_pickle_fail(pickle, "POP needs a value before it, found none");
    pickle->marks.n--;
    return MR_OK;
}

static mr_status op_dup(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg;
    mr_pickle_settle(pickle, from);
    return mr_pickle_push(pickle, pickle->stack.at[from]);
}

/* ---- lists, dicts, tuples -------------------------------------------------------------- */

static mr_status op_empty_list(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    return mr_pickle_begin(pickle, false);
}

static mr_status op_empty_dict(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    return mr_pickle_begin(pickle, true);
}

static mr_status op_append(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg;
    return mr_pickle_append(pickle, from);
}

static mr_status op_set(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg;
    return mr_pickle_set(pickle, from);
}

static mr_status op_list(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg;
    return mr_pickle_collect(pickle, from, false);
}

static mr_status op_dict(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg;
    return mr_pickle_collect(pickle, from, true);
}

static mr_status op_tuple(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg;
    return mr_pickle_tuple(pickle, from);
}

/* ---- memo ------------------------------------------------------------------------------ */

static mr_status op_put(mr_pickle *pickle, uint64_t index, uint32_t from)
{
    if (index > 2 * pickle->filled + MEMO_AHEAD)
        return mr_pickle_fail(pickle,
                              "place %" PRIu64 " of the memo is filled after %" PRIu64
                              " others, expected the next one",
                              index, pickle->filled);
    if (pickle->filled > MR_MEMO_FREE + pickle->at / MEMO_BYTES)
        return mr_pickle_fail(pickle,
                              "%" PRIu64 " values are remembered within so few bytes,"
                              " expected a memory snapshot",
                              pickle->filled);
    while (pickle->memo.n <= index) MR_PUSH(pickle->ctx, &pickle->memo, MR_V_UNSET);
    if (mr_v_kind(pickle->memo.at[index]) == MR_V_UNSET) pickle->filled++;
    else mr_runs_forget(&pickle->runs);
    const mr_value value = pickle->stack.at[from];
    pickle->memo.at[index] = value;
    if (mr_v_kind(value) != MR_V_OPEN) return MR_OK;
    /* Only the first place is told when the container is complete; picklers use one. */
    mr_open *open = &pickle->open.at[mr_v_index(value)];
    if (open->memo == MR_NONE) open->memo = (uint32_t)index;
    return MR_OK;
}

static mr_status op_memoize(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg;
    return op_put(pickle, pickle->filled, from);
}

static mr_status op_get(mr_pickle *pickle, uint64_t index, uint32_t from)
{
    (void)from;
    const mr_value value = index < pickle->memo.n ? pickle->memo.at[index] : MR_V_UNSET;
    if (mr_v_kind(value) == MR_V_UNSET)
        return mr_pickle_fail(pickle,
                              "place %" PRIu64 " of the memo is used, which was not"
                              " filled before",
                              index);
    if (mr_v_kind(value) != MR_V_OPEN) return mr_pickle_push(pickle, value);
    /* Not yet put into anything, but complete, unless it contains itself and will grow. */
    const uint32_t o = (uint32_t)mr_v_index(value);
    if (o >= pickle->open.n || pickle->stack.at[pickle->open.at[o].place] != value)
        return mr_pickle_fail(pickle,
                              "place %" PRIu64 " of the memo holds a list or dict that"
                              " was given two places, expected one",
                              index);
    return mr_pickle_push(pickle, mr_pickle_complete(pickle, o));
}

static mr_status op_put_line(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    MR_TRY(mr_line_index(pickle, &arg));
    return op_put(pickle, arg, from);
}

static mr_status op_get_line(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    MR_TRY(mr_line_index(pickle, &arg));
    return op_get(pickle, arg, from);
}

/* ---- the program ----------------------------------------------------------------------- */

static mr_status op_proto(mr_pickle *pickle, uint64_t version, uint32_t from)
{
    (void)from;
    if (version <= 5) return MR_OK;
    return mr_pickle_fail(pickle, "the pickle is of protocol %" PRIu64 ", expected 0 to 5",
                          version);
}

/* How many bytes follow until the next FRAME: nothing that a stream needs. */
static mr_status op_frame(mr_pickle *pickle, uint64_t bytes, uint32_t from)
{
    (void)pickle, (void)bytes, (void)from;
    return MR_OK;
}

static mr_status op_stop(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    if (pickle->marks.n || pickle->stack.n != 1)
        return mr_pickle_fail(pickle,
                              "the pickle ends with %" PRIu32 " values and %" PRIu32
                              " marks left, expected one value",
                              pickle->stack.n, pickle->marks.n);
    pickle->stopped = true;
    return MR_OK;
}

#define M MR_TAKES_MARK

const mr_opcode mr_opcodes[256] = {
    /* name, deed, bytes of its number, values it takes from the stack */
    [0x80] = {"PROTO", op_proto, 1, 0},
    [0x95] = {"FRAME", op_frame, 8, 0},
    ['.'] = {"STOP", op_stop, 0, 0},
    ['('] = {"MARK", op_mark, 0, 0},
    ['0'] = {"POP", op_pop, 0, 0},
    ['1'] = {"POP_MARK", op_pop_mark, 0, M},
    ['2'] = {"DUP", op_dup, 0, 1},
    ['N'] = {"NONE", op_none, 0, 0},
    [0x88] = {"NEWTRUE", op_true, 0, 0},
    [0x89] = {"NEWFALSE", op_false, 0, 0},
    ['I'] = {"INT", mr_line_int, 0, 0},
    ['L'] = {"LONG", mr_line_long, 0, 0},
    ['F'] = {"FLOAT", mr_line_float, 0, 0},
    ['J'] = {"BININT", op_signed, 4, 0},
    ['K'] = {"BININT1", op_unsigned, 1, 0},
    ['M'] = {"BININT2", op_unsigned, 2, 0},
    [0x8a] = {"LONG1", op_long, 1, 0},
    [0x8b] = {"LONG4", op_long, 4, 0},
    ['G'] = {"BINFLOAT", op_float, 8, 0},
    ['S'] = {"STRING", mr_line_string, 0, 0},
    ['V'] = {"UNICODE", mr_line_unicode, 0, 0},
    ['U'] = {"SHORT_BINSTRING", op_text, 1, 0},
    ['T'] = {"BINSTRING", op_text, 4, 0},
    [0x8c] = {"SHORT_BINUNICODE", op_text, 1, 0},
    ['X'] = {"BINUNICODE", op_text, 4, 0},
    [0x8d] = {"BINUNICODE8", op_text, 8, 0},
    ['C'] = {"SHORT_BINBYTES", op_bytes, 1, 0},
    ['B'] = {"BINBYTES", op_bytes, 4, 0},
    [0x8e] = {"BINBYTES8", op_bytes, 8, 0},
    [']'] = {"EMPTY_LIST", op_empty_list, 0, 0},
    ['a'] = {"APPEND", op_append, 0, 1},
    ['e'] = {"APPENDS", op_append, 0, M},
    ['l'] = {"LIST", op_list, 0, M},
    ['}'] = {"EMPTY_DICT", op_empty_dict, 0, 0},
    ['s'] = {"SETITEM", op_set, 0, 2},
    ['u'] = {"SETITEMS", op_set, 0, M},
    ['d'] = {"DICT", op_dict, 0, M},
    [')'] = {"EMPTY_TUPLE", op_tuple, 0, 0},
    [0x85] = {"TUPLE1", op_tuple, 0, 1},
    [0x86] = {"TUPLE2", op_tuple, 0, 2},
    [0x87] = {"TUPLE3", op_tuple, 0, 3},
    ['t'] = {"TUPLE", op_tuple, 0, M},
    [0x94] = {"MEMOIZE", op_memoize, 0, 1},
    ['p'] = {"PUT", op_put_line, 0, 1},
    ['q'] = {"BINPUT", op_put, 1, 1},
    ['r'] = {"LONG_BINPUT", op_put, 4, 1},
    ['g'] = {"GET", op_get_line, 0, 0},
    ['h'] = {"BINGET", op_get, 1, 0},
    ['j'] = {"LONG_BINGET", op_get, 4, 0},
    /* What would call into a program, or needs one beside the file. */
    ['c'] = {"GLOBAL", NULL, 0, 0},
    [0x93] = {"STACK_GLOBAL", NULL, 0, 0},
    ['R'] = {"REDUCE", NULL, 0, 0},
    ['b'] = {"BUILD", NULL, 0, 0},
    ['i'] = {"INST", NULL, 0, 0},
    ['o'] = {"OBJ", NULL, 0, 0},
    [0x81] = {"NEWOBJ", NULL, 0, 0},
    [0x92] = {"NEWOBJ_EX", NULL, 0, 0},
    ['P'] = {"PERSID", NULL, 0, 0},
    ['Q'] = {"BINPERSID", NULL, 0, 0},
    [0x82] = {"EXT1", NULL, 0, 0},
    [0x83] = {"EXT2", NULL, 0, 0},
    [0x84] = {"EXT4", NULL, 0, 0},
    [0x8f] = {"EMPTY_SET", NULL, 0, 0},
    [0x90] = {"ADDITEMS", NULL, 0, 0},
    [0x91] = {"FROZENSET", NULL, 0, 0},
    [0x96] = {"BYTEARRAY8", NULL, 0, 0},
    [0x97] = {"NEXT_BUFFER", NULL, 0, 0},
    [0x98] = {"READONLY_BUFFER", NULL, 0, 0},
};
