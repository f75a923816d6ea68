/* What no plan can beat: on small random programs all plans are tried. */
#include "dtr.h"
#include "test.h"

#include <stdlib.h>
#include <string.h>

/* ---- programs ---------------------------------------------------------------------------- */

enum { STORAGES = 9, SETS = 1 << STORAGES };

static uint32_t draw(uint64_t *random, uint32_t n)
{
    *random = *random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*random >> 33) % n);
}

static mr_ids pick(mr_ctx *ctx, uint64_t *random, uint32_t n, uint32_t of)
{
    mr_ids ids = {MR_NEW_N(ctx, uint32_t, n), 0};
    for (uint32_t i = 0; i < n; i++) { /* what is recent more often, so that chains arise */
        const uint32_t near = of - 1 - draw(random, of < 3 ? of : 3);
        const uint32_t t = draw(random, 3) ? near : draw(random, of);
        bool there = false;
        for (uint32_t j = 0; j < ids.n; j++) there |= ids.at[j] == t;
        if (!there) ids.at[ids.n++] = t;
    }
    return ids;
}

static void make_tensor(mr_ctx *ctx, uint64_t *random, mr_trace *t, bool before)
{
    const uint64_t bytes = draw(random, 6) ? 1 + draw(random, 9) : 0;
    MR_PUSH(ctx, &t->tensors,
            (mr_tensor){.name = "", .dtype = "", .storage = t->storages.n, .bytes = bytes});
    MR_PUSH(ctx, &t->storages,
            (mr_storage){.bytes = bytes, .stack = MR_NONE, .before = before});
}

/* One constant, ops of one or two outputs; some tensors are dropped at the end only. */
static void make_trace(mr_ctx *ctx, uint64_t seed, mr_trace *t)
{
    uint64_t random = seed;
    mr_trace_init(ctx, t, "random");
    t->has = MR_HAS_DATAFLOW | MR_HAS_TIMES | MR_HAS_DROPS;
    make_tensor(ctx, &random, t, true);
    while (t->tensors.n <= STORAGES) {
        mr_op op = {.name = "f", .module = "", .again = MR_NONE, .of = MR_NONE};
        op.ns = draw(&random, 5) ? 1 + draw(&random, 30) : 0;
        op.in = pick(ctx, &random, 1 + draw(&random, 3), t->tensors.n);
        op.out = (mr_ids){MR_NEW_N(ctx, uint32_t, 2), 0};
        for (uint32_t i = 1 + !draw(&random, 4); i-- && t->tensors.n <= STORAGES;) {
            op.out.at[op.out.n++] = t->tensors.n;
            make_tensor(ctx, &random, t, false);
        }
        MR_PUSH(ctx, &t->events, (mr_event){MR_RUN, t->ops.n});
        MR_PUSH(ctx, &t->ops, op);
    }
    for (uint32_t i = 0; i < t->tensors.n; i++)
        if (draw(&random, 4)) MR_PUSH(ctx, &t->events, (mr_event){MR_DROP, i});
        else t->storages.at[i].after = true;
}

/* ---- all plans --------------------------------------------------------------------------- */

typedef struct plans {
    const dtr_program *program;
    uint64_t budget;
    uint64_t *least; /* by set of storages in memory: ns computed again so far */
} plans;

static uint32_t set_of(const dtr_program *p, mr_ids tensors)
{
    uint32_t set = 0;
    for (uint32_t i = 0; i < tensors.n; i++) {
        const uint32_t s = p->tensors.at[tensors.at[i]].storage;
        if (!p->storages.at[s].constant) set |= 1u << (s - 1);
    }
    return set;
}

/* The first storage is the constant. */
static uint64_t bytes_of(const dtr_program *p, uint32_t set)
{
    uint64_t bytes = p->storages.at[0].bytes;
    for (uint32_t s = 1; s < p->storages.n; s++)
        if (set >> (s - 1) & 1) bytes += p->storages.at[s].bytes;
    return bytes;
}

static bool improve(plans *all, uint64_t *least, uint32_t set, uint64_t ns)
{
    if (bytes_of(all->program, set) > all->budget || ns >= least[set]) return false;
    least[set] = ns;
    return true;
}

/* Between two ops of the program anything may be evicted, and computed again. */
static void settle(plans *all, uint32_t made)
{
    const dtr_program *p = all->program;
    bool again = true;
    while (again) {
        again = false;
        for (uint32_t set = 0; set < SETS; set++) {
            if (all->least[set] == UINT64_MAX) continue;
            for (uint32_t s = 0; s < STORAGES; s++)
                again |= improve(all, all->least, set & ~(1u << s), all->least[set]);
            for (uint32_t o = 1; o < made; o++) {
                const uint32_t in = set_of(p, p->ops.at[o].in);
                const uint32_t out = set_of(p, p->ops.at[o].out);
                if ((set & in) == in)
                    again |=
                        improve(all, all->least, set | out, all->least[set] + p->ops.at[o].ns);
            }
        }
    }
}

/* The least time that is computed again; UINT64_MAX when no plan passes. */
static uint64_t try_all(mr_ctx *ctx, const dtr_program *p, uint64_t budget)
{
    plans all = {.program = p, .budget = budget, .least = MR_NEW_N(ctx, uint64_t, SETS)};
    uint64_t *next = MR_NEW_N(ctx, uint64_t, SETS), best = UINT64_MAX;
    memset(all.least, 0xff, SETS * sizeof *all.least);
    improve(&all, all.least, 0, 0);
    for (uint32_t o = 1; o < p->ops.n; o++) {
        const uint32_t in = set_of(p, p->ops.at[o].in), out = set_of(p, p->ops.at[o].out);
        settle(&all, o);
        memset(next, 0xff, SETS * sizeof *next);
        for (uint32_t set = 0; set < SETS; set++)
            if (all.least[set] != UINT64_MAX && (set & in) == in)
                improve(&all, next, set | out, all.least[set]);
        memcpy(all.least, next, SETS * sizeof *next);
    }
    settle(&all, p->ops.n);
    const uint32_t kept = set_of(p, (mr_ids){p->kept.at, p->kept.n});
    for (uint32_t set = 0; set < SETS; set++)
        if ((set & kept) == kept && all.least[set] < best) best = all.least[set];
    return best;
}

TEST(no_plan_for_a_small_program_beats_the_bound)
{
    uint64_t sum_bound = 0, sum_best = 0, sum_found = 0;
    uint32_t tight = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        mr_ctx ctx = {0};
        mr_trace trace;
        dtr_program program;
        make_trace(&ctx, seed, &trace);
        CHECK_EQ(mr_trace_check(&ctx, &trace), MR_OK);
        CHECK_EQ(dtr_program_make(&ctx, &trace, DTR_COPIES, &program), MR_OK);
        const uint64_t peak = dtr_live_peak(&program);
        for (uint64_t part = 4; part <= 9; part++) {
            dtr_bound bound;
            dtr_report report;
            const dtr_options o = {.budget = peak * part / 10,
                                   .limit = UINT64_MAX / 2,
                                   .dealloc = DTR_EAGER,
                                   .seed = 1};
            dtr_find_bound(&ctx, &program, o.budget, &bound);
            const uint64_t best = try_all(&ctx, &program, o.budget);
            if (best == UINT64_MAX) continue;
            CHECK(bound.bytes <= o.budget);
            if (bound.remat > best)
                TEST_FAIL("seed %" PRIu64 ", %" PRIu64 "0%%: the bound is %" PRIu64
                          ", a plan takes %" PRIu64,
                          seed, part, bound.remat, best);
            const bool found = dtr_search(&ctx, &program, &o, 0, &report);
            if (found) CHECK(report.remat >= best);
            if (!best || !found) continue;
            sum_bound += bound.remat, sum_best += best, sum_found += report.remat, tight++;
        }
        mr_ctx_clear(&ctx);
    }
    printf("%u tight budgets: bound %" PRIu64 ", least %" PRIu64 ", found %" PRIu64 "\n", tight,
           sum_bound, sum_best, sum_found);
    CHECK(tight > 100);
    CHECK(10 * sum_bound > 4 * sum_best);
}

TEST_MAIN()
