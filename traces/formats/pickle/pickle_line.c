/* pickle_line -- protocol 0: arguments that are text up to the end of the line. */
#include "pickle.h"

#include <stdlib.h>
#include <string.h>

/* The line stays where it is until the next byte is read. */
mr_status mr_pickle_line(mr_pickle *pickle, const char **line, uint32_t *bytes)
{
    MR_TRY(mr_pickle_refill(pickle, MR_SOURCE_WINDOW));
    const size_t have = (size_t)(pickle->end - pickle->p);
    const bool ends = have < MR_SOURCE_WINDOW;
    const unsigned char *end = memchr(pickle->p, '\n', ends ? have : MR_SOURCE_WINDOW);
    if (!end && ends) return mr_pickle_cut(pickle, "the rest of a line");
    if (!end)
        return mr_pickle_fail(pickle, "a line is longer than a mebibyte,"
                                      " expected a memory snapshot");
    *line = (const char *)pickle->p;
    *bytes = (uint32_t)(end - pickle->p);
    if (*bytes && (*line)[*bytes - 1] == '\r') --*bytes;
    pickle->p = end + 1;
    return MR_OK;
}

/* A decimal number of 64 bits, in `n` characters that may end with `suffix`. */
static bool decimal(const char *text, uint32_t n, bool *negative, uint64_t *size)
{
    uint32_t i = 0;
    *negative = n && text[0] == '-';
    if (n && (text[0] == '-' || text[0] == '+')) i++;
    if (i == n) return false;
    for (*size = 0; i < n; i++) {
        if (text[i] < '0' || text[i] > '9') return false;
        const unsigned digit = (unsigned)(text[i] - '0');
        if (*size > (UINT64_MAX - digit) / 10) return false;
        *size = *size * 10 + digit;
    }
    return !*negative || *size <= (uint64_t)1 << 63;
}

static mr_status push_decimal(mr_pickle *pickle, const char *line, uint32_t n)
{
    bool negative;
    uint64_t size;
    if (!decimal(line, n, &negative, &size))
        return mr_pickle_fail(pickle, "'%.*s' is no whole number of 64 bits",
                              (int)(n < 60 ? n : 60), line);
    return mr_pickle_push(pickle, mr_pickle_int(pickle, negative, size));
}

mr_status mr_line_int(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    const char *line = "";
    uint32_t n = 0;
    MR_TRY(mr_pickle_line(pickle, &line, &n));
    if (n == 2 && line[0] == '0' && (line[1] == '0' || line[1] == '1')) /* False and True */
        return mr_pickle_push(pickle, mr_v(line[1] == '1' ? MR_V_TRUE : MR_V_FALSE, 0));
    return push_decimal(pickle, line, n);
}

mr_status mr_line_long(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    const char *line = "";
    uint32_t n = 0;
    MR_TRY(mr_pickle_line(pickle, &line, &n));
    return push_decimal(pickle, line, n && line[n - 1] == 'L' ? n - 1 : n);
}

mr_status mr_line_float(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    const char *line = "";
    uint32_t n = 0;
    MR_TRY(mr_pickle_line(pickle, &line, &n));
    char text[64] = "", *end = text;
    if (n < sizeof text) memcpy(text, line, n);
    const double number = strtod(text, &end);
    if (!n || n >= sizeof text || (size_t)(end - text) != n)
        return mr_pickle_fail(pickle, "'%.*s' is no number", (int)(n < 60 ? n : 60), line);
    return mr_pickle_push(pickle, mr_pickle_double(number));
}

mr_status mr_line_index(mr_pickle *pickle, uint64_t *index)
{
    const char *line = "";
    uint32_t n = 0;
    bool negative;
    MR_TRY(mr_pickle_line(pickle, &line, &n));
    if (!decimal(line, n, &negative, index) || negative)
        return mr_pickle_fail(pickle, "'%.*s' is no place in the memo, expected a whole number",
                              (int)(n < 60 ? n : 60), line);
    return MR_OK;
}

static char *scratch(mr_pickle *pickle, uint32_t bytes)
{
    MR_RESERVE_N(pickle->ctx, &pickle->scratch, bytes + 1); /* never NULL */
    return pickle->scratch.at;
}

static int hex(const char *text, uint32_t n, uint32_t *out)
{
    *out = 0;
    for (uint32_t i = 0; i < n; i++) {
        const char c = text[i];
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0) return -1;
        *out = *out << 4 | (uint32_t)digit;
    }
    return 0;
}

static uint32_t utf8(uint32_t point, char *to)
{
    if (point < 0x80) return to[0] = (char)point, 1;
    if (point < 0x800) {
        to[0] = (char)(0xc0 | point >> 6);
        to[1] = (char)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        to[0] = (char)(0xe0 | point >> 12);
        to[1] = (char)(0x80 | (point >> 6 & 0x3f));
        to[2] = (char)(0x80 | (point & 0x3f));
        return 3;
    }
    to[0] = (char)(0xf0 | (point >> 18 & 7));
    to[1] = (char)(0x80 | (point >> 12 & 0x3f));
    to[2] = (char)(0x80 | (point >> 6 & 0x3f));
    to[3] = (char)(0x80 | (point & 0x3f));
    return 4;
}

/* One escape of Python's repr, with the backslash at text[0]; returns how many characters it
 * takes, 0 when there is no such escape. */
static uint32_t unescape(const char *text, uint32_t n, char *to, uint32_t *made)
{
    static const char names[] = "\\'\"abfnrtv", values[] = "\\'\"\a\b\f\n\r\t\v";
    if (n < 2) return 0;
    const char *name = memchr(names, text[1], sizeof names - 1);
    *made = 1;
    if (name) return *to = values[name - names], 2;
    const uint32_t digits = text[1] == 'x' ? 2 : 0;
    uint32_t byte;
    if (!digits || n < 2 + digits || hex(text + 2, digits, &byte)) return 0;
    *to = (char)byte;
    return 2 + digits;
}

/* STRING: what Python's repr made of it. */
mr_status mr_line_string(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    const char *line = "";
    uint32_t n = 0;
    MR_TRY(mr_pickle_line(pickle, &line, &n));
    if (n < 2 || (line[0] != '\'' && line[0] != '"') || line[n - 1] != line[0])
        return mr_pickle_fail(pickle, "a string of protocol 0 is not within quotes");
    char *text = scratch(pickle, n);
    uint32_t to = 0;
    for (uint32_t i = 1; i < n - 1;) {
        uint32_t made = 1, taken = 1;
        if (line[i] != '\\') text[to] = line[i];
        else taken = unescape(line + i, n - 1 - i, text + to, &made);
        if (!taken)
            return mr_pickle_fail(pickle, "a string has an escape that repr() does not write");
        i += taken;
        to += made;
    }
    return mr_pickle_text(pickle, text, to);
}

/* UNICODE: Latin-1 with \uXXXX and \UXXXXXXXX. */
mr_status mr_line_unicode(mr_pickle *pickle, uint64_t arg, uint32_t from)
{
    (void)arg, (void)from;
    const char *line;
    uint32_t n, to = 0;
    MR_TRY(mr_pickle_line(pickle, &line, &n));
    char *text = scratch(pickle, 2 * n); /* Latin-1 doubles at most */
    for (uint32_t i = 0; i < n;) {
        const bool escape = n - i >= 2 && line[i] == '\\' && (line[i + 1] | 32) == 'u';
        const uint32_t digits = !escape ? 0 : line[i + 1] == 'u' ? 4 : 8;
        uint32_t point = (unsigned char)line[i];
        if (escape && (n - i < 2 + digits || hex(line + i + 2, digits, &point)))
            return mr_pickle_fail(pickle, "a text has an incomplete escape");
        to += utf8(point, text + to);
        i += escape ? 2 + digits : 1;
    }
    return mr_pickle_text(pickle, text, to);
}
