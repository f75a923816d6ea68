/* dtr_quotient -- a whole number divided by the product of two, correctly rounded.
 *
 * Scores that are equal as doubles are a tie, and a tie decides who is evicted: a quotient that
 * is rounded twice would choose another one than simrd does.
 */
#include "dtr.h"

#include <math.h>

typedef struct wide {
    uint64_t high, low;
} wide;

static wide multiply(uint64_t a, uint64_t b)
{
    const uint64_t al = a & UINT32_MAX, ah = a >> 32, bl = b & UINT32_MAX, bh = b >> 32;
    const uint64_t low = al * bl, mid = ah * bl + (low >> 32);
    const uint64_t mid2 = al * bh + (mid & UINT32_MAX);
    return (wide){ah * bh + (mid >> 32) + (mid2 >> 32), mid2 << 32 | (low & UINT32_MAX)};
}

static int length(uint64_t x)
{
    int n = 0;
    for (; x; x >>= 1) n++;
    return n;
}

static int wide_length(wide x)
{
    return x.high ? 64 + length(x.high) : length(x.low);
}

static wide shifted(wide x, int n)
{
    if (n >= 64) x = (wide){x.low, 0}, n -= 64;
    if (!n) return x;
    return (wide){x.high << n | x.low >> (64 - n), x.low << n};
}

static bool at_least(wide a, wide b)
{
    return a.high != b.high ? a.high > b.high : a.low >= b.low;
}

static wide minus(wide a, wide b)
{
    return (wide){a.high - b.high - (a.low < b.low), a.low - b.low};
}

/* Rounds half to even what has `bits` bits, and more behind them if `sticky`. */
static double rounded(uint64_t q, int bits, bool sticky, int exponent)
{
    const int drop = bits - 53;
    const uint64_t half = (uint64_t)1 << (drop - 1), rest = q & (2 * half - 1);
    q >>= drop;
    if (rest > half || (rest == half && (sticky || q & 1))) q++;
    return ldexp((double)q, exponent + drop);
}

static double divide(uint64_t n, wide d)
{
    enum { FRACTION = 55 };
    const int shift = wide_length(d) - length(n);
    wide rest = {0, n};
    if (shift >= 0) rest = shifted(rest, shift);
    else d = shifted(d, -shift);
    uint64_t q = 0;
    for (int i = 0; i <= FRACTION; i++) { /* 1/2 < rest/d < 2 at first */
        q <<= 1;
        if (at_least(rest, d)) rest = minus(rest, d), q |= 1;
        rest = shifted(rest, 1);
    }
    return rounded(q, length(q), rest.high || rest.low, -FRACTION - shift);
}

double dtr_quotient(int64_t n, uint64_t size, uint64_t stale)
{
    const uint64_t exact = (uint64_t)1 << 53;
    const uint64_t magnitude = n < 0 ? (uint64_t)-n : (uint64_t)n;
    if (!n) return 0;
    const wide d = multiply(size, stale);
    if (magnitude < exact && !d.high && d.low < exact) return (double)n / (double)d.low;
    const double q = divide(magnitude, d);
    return n < 0 ? -q : q;
}
