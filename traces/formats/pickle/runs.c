/* runs -- the tree. */
#include "runs.h"

#include <string.h>

#define RUNS_MAX 16384
#define BYTES_MAX ((uint32_t)1 << 22)

static uint32_t hash_branch(const mr_branch *b)
{
    return mr_hash((uint64_t)b->run << 32 ^ (uint64_t)b->at << 8 ^ b->byte);
}

static uint32_t find_branch(const mr_runs *runs, const mr_branch *wanted)
{
    const uint32_t hash = hash_branch(wanted);
    uint32_t probe = mr_table_start(&runs->table, hash), i;
    while ((i = mr_table_next(&runs->table, hash, &probe)) != MR_NONE) {
        const mr_branch *b = &runs->branches.at[i];
        if (b->run == wanted->run && b->at == wanted->at && b->byte == wanted->byte)
            return b->to;
    }
    return MR_NONE;
}

/* The first place from `from` on where two stretches differ, n when they do not. */
static uint32_t differs(const unsigned char *a, const unsigned char *b, uint32_t from,
                        uint32_t n)
{
    for (uint64_t x, y; n - from >= sizeof x; from += (uint32_t)sizeof x) {
        memcpy(&x, a + from, sizeof x);
        memcpy(&y, b + from, sizeof y);
        if (x != y) break;
    }
    while (from < n && a[from] == b[from]) from++;
    return from;
}

static uint32_t search(mr_runs *runs, const unsigned char *at, size_t n)
{
    mr_branch b = {.run = 0};
    while (b.run != MR_NONE) {
        const mr_run *run = &runs->all.at[b.run];
        const uint32_t most = n < run->n ? (uint32_t)n : run->n;
        b.at = differs(runs->bytes.at + run->first, at, b.at, most);
        if (b.at == run->n) return b.run;
        runs->missed = b;
        if (b.at == n) return runs->missed.run = MR_NONE; /* cut off: not to be kept */
        b.byte = runs->missed.byte = at[b.at];
        b.run = find_branch(runs, &b);
    }
    return MR_NONE;
}

static bool expected(const mr_runs *runs, uint32_t run, const unsigned char *at, size_t n)
{
    const mr_run *r = &runs->all.at[run];
    return r->n <= n && !memcmp(runs->bytes.at + r->first, at, r->n);
}

static void follow(mr_runs *runs, uint32_t run)
{
    runs->all.at[runs->last].next = run;
    runs->last = run;
}

const mr_run *mr_runs_find(mr_runs *runs, const unsigned char *at, size_t n)
{
    if (!runs->all.n) return NULL;
    uint32_t run = runs->all.at[runs->last].next;
    if (!expected(runs, run, at, n)) run = search(runs, at, n);
    if (run == MR_NONE) return NULL;
    runs->missed.run = MR_NONE;
    follow(runs, run);
    return &runs->all.at[run];
}

uint32_t mr_runs_add(mr_ctx *ctx, mr_runs *runs, const unsigned char *at, uint32_t n)
{
    mr_branch b = runs->missed;
    if (runs->forgot || (runs->all.n && b.run == MR_NONE)) return MR_NONE;
    if (runs->all.n == RUNS_MAX || n > BYTES_MAX - runs->bytes.n) return MR_NONE;
    if (runs->all.n) {
        b.to = runs->all.n;
        mr_table_add(ctx, &runs->table, hash_branch(&b), runs->branches.n);
        MR_PUSH(ctx, &runs->branches, b);
    }
    const mr_run run = {.first = runs->bytes.n, .n = n};
    MR_PUSH(ctx, &runs->all, run);
    follow(runs, runs->all.n - 1);
    runs->missed.run = MR_NONE;
    MR_RESERVE_N(ctx, &runs->bytes, runs->bytes.n + n);
    memcpy(runs->bytes.at + runs->bytes.n, at, n);
    runs->bytes.n += n;
    return runs->all.n - 1;
}

void mr_runs_mean(mr_runs *runs, uint32_t run, uint64_t meaning)
{
    if (run < runs->all.n) runs->all.at[run].meaning = meaning;
}

void mr_runs_forget(mr_runs *runs)
{
    runs->all.n = 0;
    runs->forgot = true;
}
