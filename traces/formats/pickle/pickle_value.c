/* pickle_value -- values of 8 bytes: packing, unpacking, and how a message shows them. */
#include "pickle.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define INT_BITS 55 /* beside the sign, in a value */

mr_value mr_pickle_int(mr_pickle *pickle, bool negative, uint64_t size)
{
    const uint64_t number = negative ? 0 - size : size;
    const uint64_t limit = (uint64_t)1 << INT_BITS;
    if (size < limit || (negative && size == limit)) return mr_v(MR_V_INT, number);
    const uint64_t index = mr_numbers_index(pickle->ctx, &pickle->wide, size);
    return mr_v(MR_V_WIDE, index << 1 | negative);
}

mr_value mr_pickle_double(double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    return (bits & ~(uint64_t)0xff) | MR_V_FLOAT;
}

double mr_v_float(mr_value value)
{
    const uint64_t bits = value & ~(uint64_t)0xff;
    double number;
    memcpy(&number, &bits, sizeof number);
    return number;
}

bool mr_v_number(const mr_pickle *pickle, mr_value value, bool *negative, uint64_t *size)
{
    const uint64_t index = mr_v_index(value);
    if (mr_v_kind(value) == MR_V_WIDE) {
        *negative = index & 1;
        *size = pickle->wide.all.at[index >> 1];
        return true;
    }
    if (mr_v_kind(value) != MR_V_INT) return false;
    const uint64_t sign = (uint64_t)1 << INT_BITS;
    *negative = index & sign;
    *size = *negative ? (sign << 1) - index : index;
    return true;
}

static const char *show_text(mr_pickle *pickle, mr_value value)
{
    const mr_text text = pickle->texts.all.at[mr_v_index(value)];
    const int shown = text.bytes < 40 ? (int)text.bytes : 40;
    return mr_printf(pickle->ctx, "the text '%.*s'%s", shown, text.at,
                     text.bytes > 40 ? "..." : "");
}

const char *mr_v_show(mr_pickle *pickle, mr_value value)
{
    static const char *const others[] = {
        [MR_OTHER_LIST] = "a list of other things",
        [MR_OTHER_DICT] = "a dict of other things",
        [MR_OTHER_TUPLE] = "a tuple",
        [MR_OTHER_BYTES] = "a string of bytes",
        [MR_OTHER_LONG_TEXT] = "a text of more than 65,536 bytes",
        [MR_OTHER_IGNORED] = "something that stands below a key that is not read",
    };
    bool negative;
    uint64_t size;
    if (mr_v_number(pickle, value, &negative, &size))
        return mr_printf(pickle->ctx, "%s%" PRIu64, negative ? "-" : "", size);
    switch (mr_v_kind(value)) {
    case MR_V_NULL: return "None";
    case MR_V_FALSE: return "False";
    case MR_V_TRUE: return "True";
    case MR_V_FLOAT: return mr_printf(pickle->ctx, "%g", mr_v_float(value));
    case MR_V_TEXT: return show_text(pickle, value);
    case MR_V_PAIR: return "a pair of numbers";
    case MR_V_EMPTY: return "an empty list";
    case MR_V_OTHER: return others[mr_v_index(value)];
    default: return "a list or dict";
    }
}
