/* Plans for chains: closed forms, the optimum by exhaustive search, and the referee itself. */
#include "chain.h"
#include "test.h"

#include <stdlib.h>
#include <time.h>

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* ---- chains ------------------------------------------------------------------------------ */

/* n equal stages of size 1 and time 1, B = 2 F, and a loss of nothing. */
static chain_problem uniform(mr_ctx *ctx, uint32_t n)
{
    chain_stage *stages = MR_NEW_N(ctx, chain_stage, n);
    chain_option *option = MR_NEW(ctx, chain_option);
    *option = (chain_option){.saved = 1, .forward_time = 1, .backward_time = 2};
    for (uint32_t i = 0; i < n; i++) stages[i] = (chain_stage){1, 1, 0, option, 1, false};
    return (chain_problem){1, stages, n, NULL};
}

static chain_problem random_chain(mr_ctx *ctx, uint64_t *state, uint32_t n, uint32_t options)
{
    chain_stage *stages = MR_NEW_N(ctx, chain_stage, n + 1);
    for (uint32_t i = 0; i <= n; i++) {
        chain_option *o = MR_NEW_N(ctx, chain_option, options);
        const uint32_t out = i < n ? 1 + draw(state) % 9 : 0;
        stages[i] = (chain_stage){out,
                                  1 + draw(state) % 20,
                                  draw(state) % 4,
                                  o,
                                  i < n ? 1 + draw(state) % options : 1,
                                  false};
        for (uint32_t k = 0; k < stages[i].n; k++)
            o[k] = (chain_option){out + draw(state) % 12, draw(state) % 6, draw(state) % 6,
                                  1 + draw(state) % 20, 1 + draw(state) % 40};
    }
    stages[n].time = stages[n].tmp = 0;
    for (uint32_t i = 1; i <= n; i++) {
        stages[i].passing = draw(state) % 3 == 0;
        if (!stages[i].passing) continue;
        for (uint32_t k = 0; k < stages[i - 1].n; k++) {
            chain_option *before = (chain_option *)&stages[i - 1].options[k];
            before->saved -= stages[i - 1].out;
            before->forward_tmp += stages[i - 1].out;
        }
    }
    uint64_t *back = draw(state) % 2 ? MR_NEW_N(ctx, uint64_t, n + 2) : NULL;
    for (uint32_t i = 0; back && i <= n; i++) back[i] = draw(state) % 15;
    return (chain_problem){1 + draw(state) % 9, stages, n + 1, back};
}

/* ---- exhaustive search
 * ----------------------------------------------------------------------- */

enum { STAGES = 12 };

/* All plans that let go of nothing before its backward pass, one action at a time; what is held
 * is added up anew for every action. */
typedef struct search {
    const chain_problem *chain;
    uint64_t budget, best;
    bool held[STAGES]; /* x(i) by itself */
    int saved[STAGES]; /* option, -1 */
    uint32_t back;
} search;

static uint64_t held_now(const search *s)
{
    uint64_t bytes = chain_back(s->chain, s->back);
    for (uint32_t i = 0; i <= s->chain->n; i++)
        if (s->held[i]) bytes += chain_size(s->chain, i);
    for (uint32_t i = 0; i < s->chain->n; i++)
        if (s->saved[i] >= 0) bytes += s->chain->stages[i].options[s->saved[i]].saved;
    return bytes;
}

/* `fresh`: x(head) was only just computed, and nobody decided yet whether it is kept. */
static void step(search *s, uint32_t head, bool fresh, uint64_t time);

static bool passing(const search *s, uint32_t i)
{
    return i < s->chain->n && s->chain->stages[i].passing;
}

/* The last x that is there: every plan goes on from it. */
static uint32_t newest(const search *s)
{
    uint32_t i = s->back;
    while (!s->held[i] && !(i && s->saved[i - 1] >= 0 && !passing(s, i))) i--;
    return i;
}

static void run_backward(search *s, uint64_t time)
{
    const uint32_t i = s->back - 1;
    const int saved = s->saved[i];
    const chain_option *o = &s->chain->stages[i].options[saved];
    const bool held = s->held[i], behind = s->held[i + 1];
    s->held[i + 1] = false; /* one that passes, with nobody to pass to */
    if (held_now(s) + o->backward_tmp > s->budget) {
        s->held[i + 1] = behind;
        return;
    }
    s->saved[i] = -1;
    s->held[i] = false;
    s->back = i;
    if (held_now(s) <= s->budget) {
        if (!i) {
            if (time + o->backward_time < s->best) s->best = time + o->backward_time;
        } else {
            step(s, newest(s), false, time + o->backward_time);
        }
    }
    s->back = i + 1;
    s->held[i] = held;
    s->held[i + 1] = behind;
    s->saved[i] = saved;
}

static void run_saving(search *s, uint32_t i, uint64_t time)
{
    const chain_stage *stage = &s->chain->stages[i];
    const bool held = s->held[i];
    for (uint32_t o = 0; o < stage->n; o++) {
        s->saved[i] = (int)o;
        if (held_now(s) + stage->options[o].forward_tmp <= s->budget) {
            s->held[i] = held && !stage->passing;
            s->held[i + 1] = passing(s, i + 1);
            step(s, i + 1, false, time + stage->options[o].forward_time);
            s->held[i + 1] = false;
        }
        s->held[i] = held;
        s->saved[i] = -1;
    }
}

static void run_forward(search *s, uint32_t i, bool fresh, uint64_t time)
{
    const chain_stage *stage = &s->chain->stages[i];
    if (i + 1 >= s->back) return; /* the last stage before the gradient must save */
    s->held[i + 1] = true;
    if (held_now(s) + stage->tmp <= s->budget) {
        step(s, i + 1, true, time + stage->time);
        if (fresh) {
            s->held[i] = false;
            step(s, i + 1, true, time + stage->time);
            s->held[i] = true;
        }
    }
    s->held[i + 1] = false;
}

static void step(search *s, uint32_t head, bool fresh, uint64_t time)
{
    if (time >= s->best) return;
    if (s->saved[s->back - 1] >= 0) {
        run_backward(s, time);
        return;
    }
    run_forward(s, head, fresh, time);
    run_saving(s, head, time);
}

static uint64_t least_time(const chain_problem *chain, uint64_t budget)
{
    search s = {.chain = chain, .budget = budget, .best = CHAIN_NEVER, .back = chain->n};
    for (uint32_t i = 0; i < STAGES; i++) s.saved[i] = -1;
    s.held[0] = true;
    if (held_now(&s) <= budget) step(&s, 0, false, 0);
    return s.best;
}

/* ---- revolve
 * -------------------------------------------------------------------------------------- */

TEST(revolve_costs_what_was_published)
{
    static const struct {
        uint32_t l, c, cost;
    } golden[] = {{100, 3, 490},  {100, 5, 316},  {100, 8, 245},    {100, 10, 222},
                  {100, 20, 178}, {100, 32, 166}, {1000, 10, 3636}, {1000, 32, 2405},
                  {64, 8, 137},   {16, 5, 25},    {16, 16, 15}};
    for (size_t i = 0; i < MR_COUNT(golden); i++)
        CHECK_EQ(chain_revolve_cost(golden[i].l, golden[i].c), golden[i].cost);
}

enum { LONG = 130, ROOM = 14 };

TEST(revolve_costs_the_least_of_all_splits)
{
    static uint64_t best[ROOM][LONG];
    for (uint32_t c = 1; c < ROOM; c++)
        for (uint32_t l = 2; l < LONG; l++) {
            best[c][l] = c == 1 ? (uint64_t)l * (l - 1) / 2 : UINT64_MAX;
            for (uint32_t k = 1; c > 1 && k < l; k++) {
                const uint64_t cost = k + best[c - 1][l - k] + best[c][k];
                if (cost < best[c][l]) best[c][l] = cost;
            }
            CHECK_EQ(chain_revolve_cost(l, c), best[c][l]);
        }
}

TEST(revolve_runs_what_its_formula_says_in_the_room_it_has)
{
    mr_ctx ctx = {0};
    for (uint32_t c = 1; c < ROOM; c++)
        for (uint32_t l = 1; l < LONG; l++) {
            const chain_problem chain = uniform(&ctx, l);
            chain_actions plan = {0};
            chain_revolve(&ctx, l, c, &plan);
            const chain_outcome out = chain_replay(&ctx, &chain, &plan);
            CHECK_EQ(out.wrong_at, MR_NONE);
            CHECK_EQ(out.time, chain_revolve_cost(l, c) + 3 * l);
            /* c inputs, what a stage reads and writes when neither is kept, and a gradient */
            CHECK(out.peak <= c + 3);
        }
    mr_ctx_clear(&ctx);
}

TEST(revolve_does_not_overflow_on_long_chains)
{
    CHECK_EQ(chain_revolve_cost(1u << 31, 1), ((UINT64_C(1) << 31) - 1) << 30);
    CHECK_EQ(chain_revolve_cost(1u << 31, 1u << 31), (1u << 31) - 1);
    CHECK_EQ(chain_revolve_cost(0, 0), 0);
    CHECK_EQ(chain_revolve_cost(1, 0), CHAIN_NEVER);
}

/* ---- rotor
 * --------------------------------------------------------------------------------------- */

/* True when the budget can be met, but not without computing something again. */
static bool compare(mr_ctx *ctx, const chain_problem *chain, uint64_t budget)
{
    const chain_table *table = chain_rotor(ctx, chain, budget, (uint32_t)budget);
    const uint64_t time = chain_rotor_time(table, budget);
    CHECK_EQ(time, least_time(chain, budget));
    chain_actions plan = {0};
    CHECK_EQ(chain_rotor_plan(ctx, table, budget, &plan), time < CHAIN_NEVER);
    if (time >= CHAIN_NEVER) return false;
    const chain_outcome out = chain_replay(ctx, chain, &plan);
    CHECK_STR(out.wrong ? out.wrong : "", "");
    CHECK_EQ(out.time, time);
    CHECK(out.peak <= budget);
    return plan.n > 2 * chain->n;
}

TEST(rotor_is_as_fast_as_the_fastest_of_all_plans)
{
    uint64_t state = 7;
    uint32_t again = 0;
    for (int round = 0; round < 1000; round++) {
        mr_ctx ctx = {0};
        const uint32_t n = 1 + (uint32_t)round % 8;
        const chain_problem chain = random_chain(&ctx, &state, n, 1 + (uint32_t)round / 8 % 2);
        chain_actions all = {0};
        chain_all(&ctx, &chain, &all);
        const uint64_t most = chain_replay(&ctx, &chain, &all).peak;
        const uint64_t budget = most * (30 + draw(&state) % 71) / 100;
        again += compare(&ctx, &chain, budget);
        mr_ctx_clear(&ctx);
    }
    printf("1000 chains, %u of them run something again\n", again);
    CHECK(again > 200);
}

TEST(rotor_answers_for_smaller_budgets_from_one_table)
{
    uint64_t state = 11;
    mr_ctx ctx = {0};
    const chain_problem chain = random_chain(&ctx, &state, 7, 3);
    const chain_table *table = chain_rotor(&ctx, &chain, 150, 150);
    uint64_t before = CHAIN_NEVER;
    for (uint64_t budget = 1; budget <= 150; budget++) {
        const chain_table *own = chain_rotor(&ctx, &chain, budget, (uint32_t)budget);
        const uint64_t time = chain_rotor_time(table, budget);
        CHECK_EQ(time, chain_rotor_time(own, budget));
        CHECK(time <= before);
        CHECK_EQ(time < CHAIN_NEVER, budget >= chain_rotor_least(table));
        before = time;
    }
    CHECK_EQ(before, least_time(&chain, 150));
    mr_ctx_clear(&ctx);
}

TEST(rotor_is_never_slower_than_chen_with_the_same_memory)
{
    uint64_t state = 3;
    for (int round = 0; round < 300; round++) {
        mr_ctx ctx = {0};
        const chain_problem chain = random_chain(&ctx, &state, 4 + (uint32_t)round % 40, 2);
        chain_actions all = {0}, greedy = {0};
        chain_all(&ctx, &chain, &all);
        const uint64_t most = chain_replay(&ctx, &chain, &all).peak;
        chain_chen_greedy(&ctx, &chain, most * (20 + draw(&state) % 80) / 100, &greedy);
        const chain_outcome out = chain_replay(&ctx, &chain, &greedy);
        CHECK_STR(out.wrong ? out.wrong : "", "");
        const chain_table *table = chain_rotor(&ctx, &chain, out.peak, (uint32_t)out.peak);
        CHECK(chain_rotor_time(table, out.peak) <= out.time);
        mr_ctx_clear(&ctx);
    }
}

TEST(rotor_rounds_up_so_that_its_plans_fit)
{
    uint64_t state = 5;
    for (int round = 0; round < 100; round++) {
        mr_ctx ctx = {0};
        const chain_problem chain = random_chain(&ctx, &state, 20, 2);
        chain_actions all = {0}, plan = {0};
        chain_all(&ctx, &chain, &all);
        const uint64_t budget = chain_replay(&ctx, &chain, &all).peak * 2 / 3;
        const chain_table *table = chain_rotor(&ctx, &chain, budget, 30);
        if (chain_rotor_plan(&ctx, table, budget, &plan))
            CHECK(chain_replay(&ctx, &chain, &plan).peak <= budget);
        mr_ctx_clear(&ctx);
    }
}

TEST(rotor_plans_a_hundred_stages_in_500_slots_at_once)
{
    mr_ctx ctx = {0};
    uint64_t state = 9;
    const chain_problem chain = random_chain(&ctx, &state, 100, 1);
    chain_actions all = {0}, plan = {0};
    chain_all(&ctx, &chain, &all);
    const uint64_t budget = chain_replay(&ctx, &chain, &all).peak * 4 / 10;
    const double begin = seconds();
    const chain_table *table = chain_rotor(&ctx, &chain, budget, 500);
    CHECK(chain_rotor_plan(&ctx, table, budget, &plan));
    const double took = seconds() - begin;
    printf("100 stages, 500 slots: %.3f s\n", took);
    CHECK(took < 2); /* far from it on any machine, unless the walk over memory is spoilt */
    CHECK(chain_replay(&ctx, &chain, &plan).peak <= budget);
    mr_ctx_clear(&ctx);
}

/* ---- Chen
 * -------------------------------------------------------------------------------------------
 */

TEST(chen_on_equal_stages_follows_the_formula)
{
    for (uint32_t k = 4; k <= 32; k *= 2) {
        mr_ctx ctx = {0};
        const uint32_t n = k * k;
        const chain_problem chain = uniform(&ctx, n);
        bool *kept = MR_NEW_N(&ctx, bool, n);
        for (uint32_t i = 0; i < n; i += k) kept[i] = true;
        chain_actions plan = {0};
        chain_segments(&ctx, &chain, kept, &plan);
        const chain_outcome out = chain_replay(&ctx, &chain, &plan);
        CHECK_EQ(out.wrong_at, MR_NONE);
        CHECK_EQ(out.time, 3 * n + n - k); /* the last segment is not run again */
        CHECK_EQ(out.peak, k + k + 1);     /* k kept, k inside a segment, one gradient */
        mr_ctx_clear(&ctx);
    }
}

TEST(chen_recursive_needs_log_n_memory)
{
    for (uint32_t level = 1; level <= 10; level++) {
        mr_ctx ctx = {0};
        const uint32_t n = 1u << level;
        const chain_problem chain = uniform(&ctx, n);
        chain_actions plan = {0};
        chain_chen_recursive(&ctx, &chain, 1, &plan);
        const chain_outcome out = chain_replay(&ctx, &chain, &plan);
        CHECK_EQ(out.wrong_at, MR_NONE);
        CHECK_EQ(out.peak, level + 3); /* x(0), one input per level, an output, a gradient */
        CHECK_EQ(out.time, 3 * n + n / 2 * level);
        mr_ctx_clear(&ctx);
    }
}

TEST(chen_cuts_where_a_segment_exceeds_its_bytes)
{
    mr_ctx ctx = {0};
    const chain_node nodes[] = {
        {4, 4, true}, {3, 3, false}, {5, 5, true}, {2, 2, true}, {9, 9, true}};
    const chain_cuts cuts = chain_chen_pass(&ctx, nodes, 5, 6);
    CHECK(!cuts.at[0] && !cuts.at[1] && cuts.at[2] && !cuts.at[3] && cuts.at[4]);
    CHECK_EQ(cuts.kept, 14);
    CHECK_EQ(cuts.largest, 12);
    mr_ctx_clear(&ctx);
}

TEST(chen_greedy_keeps_everything_when_that_fits)
{
    mr_ctx ctx = {0};
    const chain_problem chain = uniform(&ctx, 30);
    chain_actions plan = {0}, all = {0};
    CHECK(chain_chen_greedy(&ctx, &chain, 1000, &plan));
    chain_all(&ctx, &chain, &all);
    CHECK_STR(chain_print(&ctx, &plan), chain_print(&ctx, &all));
    CHECK(!chain_chen_greedy(&ctx, &chain, 3, &plan));
    mr_ctx_clear(&ctx);
}

/* ---- the referee
 * --------------------------------------------------------------------------------------- */

static chain_actions planned(mr_ctx *ctx, const char *text)
{
    chain_actions plan = {0};
    for (; *text; text += *text == ' ') {
        const chain_kind kind = (chain_kind)(strchr("fksb", *text) - "fksb");
        char *end;
        const uint32_t stage = (uint32_t)strtoul(text + 1, &end, 10);
        MR_PUSH(ctx, &plan, (chain_action){kind, stage, 0});
        text = end;
    }
    return plan;
}

static const char *refused(const char *text)
{
    static const char *wrong;
    mr_ctx ctx = {0};
    const chain_problem chain = uniform(&ctx, 3);
    const chain_actions plan = planned(&ctx, text);
    CHECK_STR(chain_print(&ctx, &plan), text);
    wrong = chain_replay(&ctx, &chain, &plan).wrong;
    mr_ctx_clear(&ctx);
    return wrong ? wrong : "";
}

TEST(the_referee_refuses_what_cannot_be_done)
{
    CHECK_STR(refused("s0 s1 s2 b2 b1 b0"), "");
    CHECK_STR(refused("k0 f1 s2 b2 k0 s1 b1 s0 b0"), "");
    CHECK_STR(refused("s0 s1 s2 b2 b1"), "ends before every stage has run backward");
    CHECK_STR(refused("f0 f1 s2 b2 s1 b1"), "reads an input that is not there");
    CHECK_STR(refused("s0 s1 s2 b1"), "runs backward before its gradient is there");
    CHECK_STR(refused("s0 s1 f2 b2"), "runs backward without what it saved");
    CHECK_STR(refused("s0 s1 s1"), "computes what is there already");
    CHECK_STR(refused("s0 f0"), "computes what is there already");
    CHECK_STR(refused("s0 s1 s2 b2 s2"), "runs a stage forward that has run backward");
    CHECK_STR(refused("k0 f1 s2 b2 f2"), "reads an input that is not there");
    CHECK_STR(refused("s0 s1 s2 b2 b1 b0 b0"), "runs backward before its gradient is there");
    CHECK_STR(refused("s7"), "names a stage that the chain lacks");
}

TEST(the_referee_counts_bytes_by_hand)
{
    mr_ctx ctx = {0};
    const chain_option first = {30, 5, 7, 10, 20}, second = {40, 1, 2, 30, 60};
    const chain_stage stages[] = {{10, 8, 3, &first, 1, false}, {0, 25, 4, &second, 1, false}};
    const chain_problem chain = {100, stages, 2, NULL};
    chain_actions plan = planned(&ctx, "s0 s1 b1 b0");
    chain_outcome out = chain_replay(&ctx, &chain, &plan);
    CHECK_EQ(out.time, 10 + 30 + 60 + 20);
    CHECK_EQ(out.peak, 100 + 30 + 40 + 2);
    plan = planned(&ctx, "k0 s1 b1 s0 b0");
    out = chain_replay(&ctx, &chain, &plan);
    CHECK_EQ(out.time, 8 + 30 + 60 + 10 + 20);
    CHECK_EQ(out.peak, 100 + 10 + 40 + 2);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
