/* plan_shelf -- pieces that have their place, in the order of addresses.
 *
 * A shelf is a row of boards with a limited number of pieces each.  Who is in the way of a life
 * is found in one of two ways, whichever is less work.  Where they are many, all pieces of all
 * boards are compared, which a processor does several at a time.  Where they are few, the tree
 * of lives knows them: each is marked on its board, and the marks are read in order.
 */
#include "plan_internal.h"

#include <string.h>

enum {
    BOARD = 128, /* pieces on a board at the most; it is split when it is full */
    WORD = 64,
    WORDS = BOARD / WORD,
    FEW = 16 /* pieces are compared in the time in which one is marked and read */
};

struct plan_board {
    uint32_t from[BOARD], to[BOARD], piece[BOARD];
    uint64_t low[BOARD], high[BOARD];
    uint32_t n, place; /* in the row */
    uint64_t marks[WORDS];
};

typedef struct spot {
    plan_board *board;
    uint32_t at;
} spot;

struct plan_shelf {
    mr_ctx *ctx;
    const plan_life *lives;
    plan_lives *entered;
    MR_VEC(plan_board *) row;
    spot *spots;      /* by piece */
    uint32_t n;       /* pieces put */
    uint32_t *met;    /* working space */
    uint64_t *marks;  /* by board: is there a mark on it? */
    plan_board *open; /* whose marks are being read, NULL for none */
};

plan_shelf *plan_shelf_new(mr_ctx *ctx, const plan_life *lives, uint32_t n, uint32_t sections)
{
    plan_shelf *s = MR_NEW(ctx, plan_shelf);
    const size_t boards = (size_t)n / (BOARD / 2) + 1;
    s->ctx = ctx;
    s->lives = lives;
    s->entered = plan_lives_new(ctx, lives, n, sections);
    s->spots = MR_NEW_N(ctx, spot, n);
    s->met = MR_NEW_N(ctx, uint32_t, n);
    s->marks = MR_NEW_N(ctx, uint64_t, boards / WORD + 1);
    MR_PUSH(ctx, &s->row, MR_NEW(ctx, plan_board));
    return s;
}

/* ---- marks --------------------------------------------------------------------------- */

/* Number of the lowest bit, of which there is one: all six bits of a number below 64 are read
 * off a cycle of bits that holds each of these numbers once. */
static uint32_t lowest_bit(uint64_t word)
{
    static const uint8_t number[WORD] = {
        0,  1,  2,  53, 3,  7,  54, 27, 4,  38, 41, 8,  34, 55, 48, 28, 62, 5,  39, 46, 44, 42,
        22, 9,  24, 35, 59, 56, 49, 18, 29, 11, 63, 52, 6,  26, 37, 40, 33, 47, 61, 45, 43, 21,
        23, 58, 17, 10, 51, 25, 36, 32, 60, 20, 57, 16, 50, 31, 19, 15, 30, 14, 13, 12};
    return number[((word & (0 - word)) * 0x022fdd63cc95386du) >> 58];
}

/* What an earlier walk did not read. */
static void wipe(plan_shelf *s)
{
    if (s->open) memset(s->open->marks, 0, sizeof s->open->marks);
    s->open = NULL;
    for (uint32_t w = 0; w <= s->row.n / WORD; w++)
        for (; s->marks[w]; s->marks[w] &= s->marks[w] - 1) {
            plan_board *b = s->row.at[w * WORD + lowest_bit(s->marks[w])];
            memset(b->marks, 0, sizeof b->marks);
        }
}

/* ---- putting ------------------------------------------------------------------------- */

static void copy(plan_board *out, uint32_t at, const plan_board *in, uint32_t first, uint32_t n)
{
    memmove(out->from + at, in->from + first, n * sizeof *in->from);
    memmove(out->to + at, in->to + first, n * sizeof *in->to);
    memmove(out->piece + at, in->piece + first, n * sizeof *in->piece);
    memmove(out->low + at, in->low + first, n * sizeof *in->low);
    memmove(out->high + at, in->high + first, n * sizeof *in->high);
}

static void note_spots(plan_shelf *s, plan_board *b, uint32_t first)
{
    for (uint32_t i = first; i < b->n; i++) s->spots[b->piece[i]] = (spot){b, i};
}

static void split(plan_shelf *s, plan_board *full)
{
    plan_board *upper = MR_NEW(s->ctx, plan_board);
    const uint32_t keep = BOARD / 2, place = full->place + 1;
    wipe(s); /* marks go by places in the row */
    upper->n = full->n - keep;
    copy(upper, 0, full, keep, upper->n);
    full->n = keep;
    note_spots(s, upper, 0);
    MR_PUSH(s->ctx, &s->row, upper);
    memmove(s->row.at + place + 1, s->row.at + place,
            (s->row.n - 1 - place) * sizeof *s->row.at);
    s->row.at[place] = upper;
    for (uint32_t i = place; i < s->row.n; i++) s->row.at[i]->place = i;
}

/* The last board that begins at `low` or below, or else the first. */
static plan_board *board_for(const plan_shelf *s, uint64_t low)
{
    uint32_t first = 0, end = s->row.n;
    while (end - first > 1) {
        const uint32_t middle = first + (end - first) / 2;
        if (s->row.at[middle]->low[0] <= low) first = middle;
        else end = middle;
    }
    return s->row.at[first];
}

void plan_shelf_put(plan_shelf *s, uint32_t piece, uint64_t low, uint64_t high)
{
    plan_board *b = board_for(s, low);
    uint32_t i = b->n;
    while (i && b->low[i - 1] > low) i--;
    copy(b, i + 1, b, i, b->n - i);
    b->from[i] = s->lives[piece].from;
    b->to[i] = s->lives[piece].to;
    b->piece[i] = piece;
    b->low[i] = low;
    b->high[i] = high;
    b->n++;
    note_spots(s, b, i);
    if (b->n == BOARD) split(s, b);
    plan_lives_enter(s->entered, piece);
    s->n++;
}

/* ---- reading marks ------------------------------------------------------------------- */

static void mark(plan_shelf *s, uint32_t from, uint32_t to)
{
    const uint32_t n = plan_lives_meet(s->entered, from, to, s->met);
    for (uint32_t i = 0; i < n; i++) {
        const spot *p = &s->spots[s->met[i]];
        p->board->marks[p->at / WORD] |= (uint64_t)1 << p->at % WORD;
        s->marks[p->board->place / WORD] |= (uint64_t)1 << p->board->place % WORD;
    }
}

/* The next board with marks; false when there is none. */
static bool to_marked_board(plan_walk *w)
{
    plan_shelf *s = w->shelf;
    const uint32_t words = s->row.n / WORD + 1;
    for (uint32_t i = w->next / WORD; i < words; i++) {
        if (!s->marks[i]) continue;
        w->next = i * WORD + lowest_bit(s->marks[i]);
        s->marks[i] &= s->marks[i] - 1;
        w->board = s->open = s->row.at[w->next];
        return true;
    }
    return false;
}

static bool next_marked(plan_walk *w, uint32_t *at)
{
    for (;;) {
        for (uint32_t i = 0; w->board && i < WORDS; i++) {
            uint64_t *marks = &w->board->marks[i];
            if (!*marks) continue;
            *at = i * WORD + lowest_bit(*marks);
            *marks &= *marks - 1;
            return true;
        }
        if (!to_marked_board(w)) return false;
    }
}

/* ---- comparing ----------------------------------------------------------------------- */

/* Fills the list of pieces in the way on the board. */
static void compare(plan_walk *w, const plan_board *b)
{
    uint8_t in_the_way[BOARD];
    const uint32_t from = w->from, to = w->to;
    for (uint32_t i = 0; i < BOARD; i++)
        in_the_way[i] = (uint8_t)((b->to[i] > from) & (b->from[i] < to));
    w->n = 0;
    for (uint32_t i = 0; i < b->n; i++) {
        w->list[w->n] = (uint8_t)i;
        w->n += in_the_way[i];
    }
    w->at = 0;
}

static bool next_compared(plan_walk *w, uint32_t *at)
{
    while (w->at == w->n) {
        if (w->next == w->shelf->row.n) return false;
        w->board = w->shelf->row.at[w->next++];
        compare(w, w->board);
    }
    *at = w->list[w->at++];
    return true;
}

/* ---- walking ------------------------------------------------------------------------- */

plan_walk plan_shelf_walk(plan_shelf *s, uint32_t from, uint32_t to)
{
    const uint64_t met = plan_lives_count(s->entered, from, to);
    const plan_walk walk = {.shelf = s, .from = from, .to = to, .marked = FEW * met < s->n};
    wipe(s);
    if (walk.marked) mark(s, from, to);
    return walk;
}

bool plan_shelf_next(plan_walk *w, uint64_t *low, uint64_t *high)
{
    uint32_t at;
    if (!(w->marked ? next_marked(w, &at) : next_compared(w, &at))) return false;
    *low = w->board->low[at];
    *high = w->board->high[at];
    return true;
}
