/* The registry is the test matrix: what every strategy promises, checked for each of them. */
#include "scripted.h"

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static uint64_t some_size(uint64_t *state)
{
    static const uint64_t edges[] = {0,        1,         511,      512,      513,
                                     1048576,  1048577,   10485759, 10485760, 20971520,
                                     20971521, 104857600, 2097152,  33554432};
    switch (draw(state) % 4) {
    case 0: return edges[draw(state) % MR_COUNT(edges)];
    case 1: return draw(state) % 4096;
    case 2: return draw(state) % (2 << 20);
    default: return draw(state) % (60 << 20);
    }
}

/* Random lives on two streams, some of them deferred, some there before, flushes between. */
static mr_trace random_trace(mr_ctx *ctx, uint64_t seed, uint32_t n)
{
    uint64_t state = seed * 2 + 1;
    mr_trace trace;
    mr_trace_init(ctx, &trace, "random");
    MR_PUSH(ctx, &trace.streams, 7);
    MR_VEC(uint32_t) live = {0}, pending = {0};
    while (trace.events.n < n) {
        const uint32_t dice = draw(&state) % 100;
        if (dice < 52) {
            const bool before = !trace.events.n && draw(&state) % 4;
            MR_PUSH(ctx, &trace.storages,
                    (mr_storage){.bytes = some_size(&state), .stream = draw(&state) % 2,
                                 .stack = MR_NONE, .before = before});
            MR_PUSH(ctx, &live, trace.storages.n - 1);
            if (!before)
                MR_PUSH(ctx, &trace.events, (mr_event){MR_ALLOC, trace.storages.n - 1});
        } else if (dice < 94 && live.n) {
            const uint32_t i = draw(&state) % live.n, s = live.at[i];
            live.at[i] = live.at[--live.n];
            MR_PUSH(ctx, &trace.events, (mr_event){MR_FREE, s});
            trace.storages.at[s].deferred = draw(&state) % 8 == 0;
            if (trace.storages.at[s].deferred) MR_PUSH(ctx, &pending, s);
        } else if (dice < 99 && pending.n) {
            MR_PUSH(ctx, &trace.events, (mr_event){MR_DONE, pending.at[--pending.n]});
        } else if (dice == 99) { /* which waits for the device */
            while (pending.n)
                MR_PUSH(ctx, &trace.events, (mr_event){MR_DONE, pending.at[--pending.n]});
            MR_PUSH(ctx, &trace.events, (mr_event){MR_FLUSH, 0});
        }
    }
    return trace;
}

static const char *const variants[] = {
    "pytorch:expandable_segments=True",
    "pytorch:max_split_size_mb=32,version=2.4",
    "pytorch:garbage_collection_threshold=0.6,set_per_process_memory_fraction=0.05",
    "pytorch:roundup_power2_divisions=[1:2,4:4,>:8]",
    "pytorch:version=2.0",
};

/* All strategies that place, by their defaults, then some of their variants; NULL
 * at the end. */
static const char *placing(size_t i)
{
    for (size_t s = 0; mr_strategies[s]; s++)
        if (mr_strategies[s]->place && !i--) return mr_strategies[s]->name;
    return i < MR_COUNT(variants) ? variants[i] : NULL;
}

TEST(every_strategy_describes_itself)
{
    for (size_t i = 0; mr_strategies[i]; i++) {
        const mr_strategy *s = mr_strategies[i];
        CHECK(s->name && s->summary && mr_strategy_families[i]);
        CHECK((s->rewrite != NULL) != (s->place != NULL));
        CHECK((s->params != NULL) == (s->params_size > 0));
        for (const mr_param *p = s->params; p && p->name; p++) CHECK(p->help && *p->help);
        for (size_t j = 0; j < i; j++) CHECK(strcmp(mr_strategies[j]->name, s->name) != 0);
    }
}

static bool has_param(const mr_strategy *s, const char *name, size_t n)
{
    for (const mr_param *p = s->params; p && p->name; p++)
        if (strlen(p->name) == n && strncmp(p->name, name, n) == 0) return true;
    return false;
}

/* What is written in a program speaks of parameters that there are, {k}, and once. */
TEST(what_a_program_writes_names_parameters_that_there_are)
{
    for (size_t i = 0; mr_strategies[i]; i++) {
        const mr_strategy *s = mr_strategies[i];
        CHECK(!s->how || !s->how_of);
        for (const char *at = s->how ? strchr(s->how, '{') : NULL; at; at = strchr(at + 1, '{')) {
            const size_t n = strcspn(at + 1, "}");
            if (!at[n + 1] || !has_param(s, at + 1, n)) TEST_FAIL("%s: %s", s->name, at);
        }
    }
}

TEST(random_traces_pass_the_referee_at_every_capacity)
{
    static const uint64_t capacities[] = {UINT64_MAX, 2 * MR_GIB, 400 * MR_MIB, 64 * MR_MIB};
    for (uint64_t seed = 0; seed < 12; seed++)
        for (size_t i = 0; placing(i); i++)
            for (size_t c = 0; c < MR_COUNT(capacities); c++) {
                mr_ctx ctx = {0};
                const mr_trace trace = random_trace(&ctx, seed, 400);
                mr_answer answer;
                if (scripted_run(&ctx, &trace, placing(i), capacities[c], 2, &answer))
                    TEST_FAIL("seed %d, %s, capacity %llu: %s", (int)seed, placing(i),
                              (unsigned long long)capacities[c], ctx.failure.text);
                mr_ctx_clear(&ctx);
            }
}

TEST(nobody_beats_the_bound)
{
    for (uint64_t seed = 0; seed < 20; seed++)
        for (size_t i = 0; placing(i); i++) {
            mr_ctx ctx = {0};
            const mr_trace trace = random_trace(&ctx, seed, 300);
            mr_answer answer, bound;
            if (scripted_run(&ctx, &trace, placing(i), UINT64_MAX, 1, &answer))
                TEST_FAIL("%s: %s", placing(i), ctx.failure.text);
            CHECK_EQ(scripted_run(&ctx, &trace, "bound", UINT64_MAX, 1, &bound), MR_OK);
            uint32_t at;
            CHECK_EQ(bound.metrics.peak_reserved, mr_schedule_peak(&bound.schedule, &at));
            CHECK_EQ(answer.metrics.peak_requested, bound.metrics.peak_requested);
            CHECK(answer.metrics.peak_allocated <= answer.metrics.peak_reserved);
            CHECK(answer.metrics.peak_reserved >= bound.metrics.peak_reserved);
            mr_ctx_clear(&ctx);
        }
}

TEST(the_same_question_has_the_same_answer)
{
    for (size_t i = 0; placing(i); i++) {
        mr_ctx ctx = {0};
        const mr_trace trace = random_trace(&ctx, 5, 300);
        mr_answer a, b;
        CHECK_EQ(scripted_run(&ctx, &trace, placing(i), 600 * MR_MIB, 2, &a), MR_OK);
        CHECK_EQ(scripted_run(&ctx, &trace, placing(i), 600 * MR_MIB, 2, &b), MR_OK);
        CHECK_STR(shown_cmds(&ctx, &a.placement), shown_cmds(&ctx, &b.placement));
        mr_ctx_clear(&ctx);
    }
}

static bool begins_with(const mr_placement *whole, const mr_placement *part)
{
    if (part->cmds.n > whole->cmds.n) return false;
    for (uint32_t c = 0; c < part->cmds.n; c++) {
        const mr_cmd *x = &whole->cmds.at[c], *y = &part->cmds.at[c];
        if (x->kind != y->kind || x->id != y->id || x->block.segment != y->block.segment
            || x->block.offset != y->block.offset)
            return false;
    }
    return true;
}

/* Cutting off the end of the step must not change what was decided before it. */
TEST(who_claims_not_to_see_the_future_does_not)
{
    mr_ctx ctx = {0};
    const mr_trace trace = random_trace(&ctx, 3, 120);
    for (size_t i = 0; placing(i); i++) {
        mr_answer whole, part;
        mr_spec spec;
        CHECK_EQ(mr_spec_parse(&ctx, mr_strategies, placing(i), &spec), MR_OK);
        if (spec.place.strategy->clairvoyant) continue;
        CHECK_EQ(scripted_run(&ctx, &trace, placing(i), UINT64_MAX, 1, &whole), MR_OK);
        for (uint32_t n = 1; n < trace.events.n; n++) {
            mr_trace cut = trace;
            cut.events.n = n;
            CHECK_EQ(scripted_run(&ctx, &cut, placing(i), UINT64_MAX, 1, &part), MR_OK);
            if (begins_with(&whole.placement, &part.placement)) continue;
            TEST_FAIL("%s peeks: event %u", placing(i), n);
            break;
        }
    }
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
