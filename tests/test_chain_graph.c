/* Cuts, articulation points and stages of graphs against brute force and published numbers. */
#include "chain.h"
#include "graph.h"
#include "test.h"

#include <math.h>
#include <time.h>

static uint32_t draw(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

/* Every pair of nodes is an edge in so many of a hundred cases. */
static graph random_graph(mr_ctx *ctx, uint64_t *state, uint32_t n, uint32_t percent)
{
    MR_VEC(graph_edge) edges = {0};
    for (uint32_t a = 0; a < n; a++)
        for (uint32_t b = a + 1; b < n; b++)
            if (draw(state) % 100 < percent) MR_PUSH(ctx, &edges, (graph_edge){a, b});
    return graph_make(ctx, n, edges.at, edges.n);
}

/* ---- articulation points -------------------------------------------------------------------
 */

static uint32_t parts_without(const graph *g, uint32_t gone)
{
    uint32_t part[32], parts = 0;
    for (uint32_t i = 0; i < g->n; i++) part[i] = i;
    for (uint32_t round = 0; round < g->n; round++)
        for (uint32_t i = 0; i < g->n; i++)
            for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++) {
                const uint32_t k = g->out[e];
                if (i == gone || k == gone) continue;
                const uint32_t least = part[i] < part[k] ? part[i] : part[k];
                part[i] = part[k] = least;
            }
    for (uint32_t i = 0; i < g->n; i++) parts += i != gone && part[i] == i;
    return parts;
}

TEST(articulation_points_are_nodes_without_which_a_part_falls_apart)
{
    uint64_t state = 1;
    uint32_t found = 0;
    for (int round = 0; round < 2000; round++) {
        mr_ctx ctx = {0};
        const uint32_t n = 1 + draw(&state) % 14;
        const graph g = random_graph(&ctx, &state, n, 5 + draw(&state) % 40);
        const bool *points = graph_points(&ctx, &g);
        for (uint32_t i = 0; i < n; i++) {
            CHECK_EQ(points[i], parts_without(&g, i) > parts_without(&g, MR_NONE));
            found += points[i];
        }
        mr_ctx_clear(&ctx);
    }
    CHECK(found > 1000);
}

TEST(a_long_chain_needs_no_deep_stack)
{
    mr_ctx ctx = {0};
    enum { N = 1000000 };
    graph_edge *edges = MR_NEW_N(&ctx, graph_edge, N);
    for (uint32_t i = 0; i + 1 < N; i++) edges[i] = (graph_edge){i, i + 1};
    const graph g = graph_make(&ctx, N, edges, N - 1);
    const bool *points = graph_points(&ctx, &g);
    uint32_t n = 0;
    for (uint32_t i = 0; i < N; i++) n += points[i];
    CHECK_EQ(n, N - 2);
    mr_ctx_clear(&ctx);
}

/* ---- smallest cuts
 * --------------------------------------------------------------------------- */

enum { NODES = 10 };

TEST(no_cut_is_smaller_than_the_smallest)
{
    uint64_t state = 2;
    for (int round = 0; round < 1000; round++) {
        mr_ctx ctx = {0};
        uint64_t capacity[NODES][NODES] = {0};
        graph_net *net = graph_net_new(&ctx, NODES);
        for (uint32_t a = 0; a < NODES; a++)
            for (uint32_t b = 0; b < NODES; b++) {
                if (a == b || draw(&state) % 100 >= 30) continue;
                capacity[a][b] = draw(&state) % 8 ? draw(&state) % 50 : GRAPH_ENDLESS;
                graph_net_add(net, a, b, capacity[a][b]);
            }
        uint64_t least = GRAPH_ENDLESS;
        for (uint32_t set = 1; set < 1u << NODES; set += 2) { /* node 0 is the source */
            if (set >> (NODES - 1) & 1) continue;
            uint64_t cut = 0;
            for (uint32_t a = 0; a < NODES; a++)
                for (uint32_t b = 0; b < NODES; b++)
                    if ((set >> a & 1) && !(set >> b & 1)
                        && (cut += capacity[a][b]) > GRAPH_ENDLESS)
                        cut = GRAPH_ENDLESS;
            if (cut < least) least = cut;
        }
        bool side[NODES];
        CHECK_EQ(graph_min_cut(net, 0, NODES - 1, side), least);
        uint64_t cut = 0;
        for (uint32_t a = 0; a < NODES && least < GRAPH_ENDLESS; a++)
            for (uint32_t b = 0; b < NODES; b++)
                if (!side[a] && side[b]) cut += capacity[a][b];
        if (least < GRAPH_ENDLESS) CHECK_EQ(cut, least);
        mr_ctx_clear(&ctx);
    }
}

/* ---- partitions
 * ---------------------------------------------------------------------------------- */

/* The same weights, written down again. */
static double weight(const graph *g, const graph_op *ops, uint32_t i, const uint32_t *distance)
{
    bool all_fused = true;
    for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++)
        all_fused = all_fused && ops[i].fusible && ops[g->out[e]].fusible;
    const uint32_t d = distance[i] < 1 ? 1 : distance[i] > 100 ? 100 : distance[i];
    const double w = floor((double)ops[i].bytes * pow(1.1, d));
    return ops[i].free ? 0 : !ops[i].input && all_fused ? 2 * w : w;
}

/* Can the backward pass, and all that must be run again, be fed from this set alone? */
static bool feeds(const graph *g, const graph_op *ops, const bool *banned, uint32_t set)
{
    bool needed[32] = {false};
    for (uint32_t i = g->n; i-- > 0;) {
        if (ops[i].backward) continue;
        needed[i] = ops[i].must_recompute;
        for (uint32_t e = g->out_first[i]; e < g->out_first[i + 1]; e++)
            if (ops[g->out[e]].backward || needed[g->out[e]]) needed[i] = true;
        if (needed[i] && (set >> i & 1)) {
            if (ops[i].must_recompute || (ops[i].view && !ops[i].input)) return false;
            needed[i] = false;
        } else if (needed[i] && (ops[i].input || banned[i])) {
            return false;
        }
    }
    return true;
}

static graph_op random_op(uint64_t *state, uint32_t i, uint32_t n)
{
    return (graph_op){.bytes = draw(state) % 100,
                      .time = 1 + draw(state) % 10,
                      .backward = i >= n * 2 / 3,
                      .input = i < 2,
                      .view = draw(state) % 8 == 0,
                      .random = draw(state) % 16 == 0,
                      .heavy = draw(state) % 6 == 0,
                      .allowed = draw(state) % 6 != 0,
                      .fusible = draw(state) % 2 == 0,
                      .must_recompute = i >= 2 && draw(state) % 16 == 0};
}

TEST(no_saved_set_weighs_less_than_the_partition)
{
    uint64_t state = 3;
    for (int round = 0; round < 400; round++) {
        mr_ctx ctx = {0};
        const uint32_t n = 15, forward = n * 2 / 3;
        const graph g = random_graph(&ctx, &state, n, 15 + draw(&state) % 20);
        graph_op ops[15];
        uint32_t distance[15] = {0}, chosen = 0;
        for (uint32_t i = 0; i < n; i++) ops[i] = random_op(&state, i, n);
        for (uint32_t i = forward; i-- > 0;) {
            distance[i] = 1000000000;
            for (uint32_t e = g.out_first[i]; e < g.out_first[i + 1]; e++)
                if (distance[g.out[e]] + 1 < distance[i]) distance[i] = distance[g.out[e]] + 1;
        }
        const graph_saving s = graph_partition(&ctx, &g, ops, &graph_bans_default, NULL);
        for (uint32_t i = 0; i < n; i++) chosen |= (uint32_t)s.saved[i] << i;
        CHECK(feeds(&g, ops, s.banned, chosen));
        double least = HUGE_VAL, ours = 0;
        for (uint32_t set = 0; set < 1u << forward; set++) {
            double sum = 0;
            for (uint32_t i = 0; i < forward; i++)
                if (set >> i & 1) sum += weight(&g, ops, i, distance);
            if (set == chosen) ours = sum;
            if (sum < least && feeds(&g, ops, s.banned, set)) least = sum;
        }
        CHECK_EQ(ours, least);
        mr_ctx_clear(&ctx);
    }
}

/* x -> mm -> gelu -> mm -> loss: the matrix product is saved, gelu is run again for its
 * gradient. */
TEST(a_cheap_op_behind_a_matrix_product_is_run_again)
{
    mr_ctx ctx = {0};
    const graph_edge edges[] = {{0, 2}, {1, 2}, {2, 3}, {3, 5}, {4, 5}, {5, 6},
                                {6, 7}, {3, 8}, {7, 8}, {2, 9}, {8, 9}};
    graph_op ops[10] = {{.bytes = 50, .input = true},
                        {.bytes = 20, .input = true, .free = true},
                        {.bytes = 100, .time = 40, .heavy = true},
                        {.bytes = 100, .time = 3, .allowed = true, .fusible = true},
                        {.bytes = 20, .input = true, .free = true},
                        {.bytes = 50, .time = 40, .heavy = true},
                        {.bytes = 4, .time = 1, .allowed = true},
                        {.backward = true},
                        {.backward = true},
                        {.backward = true, .fusible = true}};
    const graph g = graph_make(&ctx, 10, edges, MR_COUNT(edges));
    graph_bans bans = graph_bans_default;
    bans.materialised = false;
    const graph_saving s = graph_partition(&ctx, &g, ops, &bans, NULL);
    CHECK(s.saved[2]);
    CHECK(!s.saved[3]);
    CHECK_EQ(s.time, 3);
    const graph_saving inputs = graph_partition_within(&ctx, &g, ops, &graph_bans_default, 0);
    CHECK(inputs.saved[0] && !inputs.saved[2]);
    CHECK(inputs.bytes < s.bytes);
    mr_ctx_clear(&ctx);
}

TEST(a_larger_budget_never_saves_less_time)
{
    mr_ctx ctx = {0};
    uint64_t state = 4;
    const graph g = random_graph(&ctx, &state, 300, 2);
    graph_op *ops = MR_NEW_N(&ctx, graph_op, 300);
    for (uint32_t i = 0; i < 300; i++) ops[i] = random_op(&state, i, 300);
    const graph_saving all = graph_partition_within(&ctx, &g, ops, &graph_bans_default, 1000);
    const graph_saving none = graph_partition_within(&ctx, &g, ops, &graph_bans_default, 0);
    CHECK(none.time >= all.time);
    for (uint32_t budget = 0; budget <= 1000; budget += 100) {
        const graph_saving s =
            graph_partition_within(&ctx, &g, ops, &graph_bans_default, budget);
        CHECK(s.time <= none.time);
    }
    mr_ctx_clear(&ctx);
}

TEST(ten_thousand_ops_are_partitioned_at_once)
{
    mr_ctx ctx = {0};
    uint64_t state = 5;
    enum { FORWARD = 5000, ALL = 2 * FORWARD };
    MR_VEC(graph_edge) edges = {0};
    graph_op *ops = MR_NEW_N(&ctx, graph_op, ALL);
    for (uint32_t i = 0; i < ALL; i++) {
        ops[i] = random_op(&state, i, ALL * 3 / 4); /* backward from the middle on */
        if (i && i != FORWARD) MR_PUSH(&ctx, &edges, (graph_edge){i - 1, i});
        if (i > 8 && i < FORWARD && i % 8 == 0) MR_PUSH(&ctx, &edges, (graph_edge){i - 8, i});
        if (i >= FORWARD) MR_PUSH(&ctx, &edges, (graph_edge){ALL - 1 - i, i});
    }
    const graph g = graph_make(&ctx, ALL, edges.at, edges.n);
    const clock_t begin = clock();
    const graph_saving s = graph_partition(&ctx, &g, ops, &graph_bans_default, NULL);
    printf("10,000 ops: %.1f ms\n", 1e3 * (double)(clock() - begin) / CLOCKS_PER_SEC);
    CHECK(s.bytes > 0);
    mr_ctx_clear(&ctx);
}

/* ---- Checkmate's VGG19
 * ----------------------------------------------------------------------------- */

enum { LAYERS = 25, STAGES = 2 * LAYERS + 1 };

typedef struct vgg {
    uint64_t bytes[STAGES], times[STAGES], parameters;
    graph_edge edges[4 * STAGES];
    uint32_t m;
} vgg;

/* Five blocks of 3x3 convolutions, each ended by a pool; flatten and three dense layers. */
static uint32_t vgg_layers(vgg *v)
{
    static const uint32_t convs[] = {2, 2, 4, 4, 4}, channels[] = {64, 128, 256, 512, 512};
    static const uint64_t dense[] = {4096, 4096, 1000};
    uint32_t n = 0;
    uint64_t side = 224, in = 3;
    for (uint32_t block = 0; block < 5; block++) {
        for (uint32_t c = 0; c < convs[block]; c++, in = channels[block], n++) {
            const uint64_t outputs = side * side * channels[block];
            v->bytes[n] = 4 * outputs;
            v->times[n] = 9 * in * outputs;
            v->parameters += 9 * in * channels[block] + channels[block];
        }
        side /= 2;
        v->bytes[n++] = 4 * side * side * in;
    }
    uint64_t width = side * side * in;
    v->bytes[n++] = 4 * width;
    for (uint32_t d = 0; d < 3; width = dense[d++], n++) {
        v->bytes[n] = 4 * dense[d];
        v->times[n] = width * dense[d];
        v->parameters += width * dense[d] + dense[d];
    }
    return n;
}

/* A backward op reads the gradient behind it, its own op's result and that of the next op. */
static graph vgg_graph(mr_ctx *ctx, vgg *v)
{
    *v = (vgg){0};
    CHECK_EQ(vgg_layers(v), LAYERS);
    v->bytes[LAYERS] = 4; /* loss */
    for (uint32_t i = 0; i < LAYERS; i++) {
        const uint32_t back = STAGES - 1 - i;
        v->bytes[back] = v->bytes[i];
        v->times[back] = 2 * v->times[i];
        v->edges[v->m++] = (graph_edge){i, i + 1};
        v->edges[v->m++] = (graph_edge){i, back};
        v->edges[v->m++] = (graph_edge){back - 1, back};
        if (i + 1 < LAYERS) v->edges[v->m++] = (graph_edge){i + 1, back};
    }
    return graph_make(ctx, STAGES, v->edges, v->m);
}

static graph_run run_cuts(mr_ctx *ctx, const graph *g, const vgg *v, const bool *kept)
{
    graph_stages stages = {.S = graph_stages_of_cuts(ctx, g, LAYERS, kept)};
    stages.R = graph_closure(ctx, g, stages.S);
    const graph_run out = graph_execute(ctx, g, v->bytes, v->times, &stages);
    CHECK_EQ(out.missing, MR_NONE);
    return out;
}

#define V100 UINT64_C(16000000000)

static uint64_t batch(uint64_t peak, uint64_t fixed)
{
    return (V100 - fixed) / peak;
}

static uint64_t thousandths(uint64_t part, uint64_t whole)
{
    return (1000 * part + whole / 2) / whole;
}

TEST(vgg19_on_16_gb_has_the_batches_that_checkmate_published)
{
    mr_ctx ctx = {0};
    vgg v;
    const graph g = vgg_graph(&ctx, &v);
    CHECK_EQ(v.parameters, 143667240);
    const uint64_t fixed = 2 * 4 * v.parameters; /* weights and gradients */
    chain_node nodes[LAYERS];
    for (uint32_t i = 0; i < LAYERS; i++) nodes[i] = (chain_node){v.bytes[i], v.bytes[i], true};

    bool every[LAYERS];
    for (uint32_t i = 0; i < LAYERS; i++) every[i] = true;
    const graph_run all = run_cuts(&ctx, &g, &v, every);
    CHECK_EQ(all.peak, 81723296);

    const chain_cuts root = chain_chen_sqrt(&ctx, nodes, LAYERS);
    const graph_run sqrt_n = run_cuts(&ctx, &g, &v, root.at);
    CHECK_EQ(sqrt_n.peak, 69447584);
    CHECK_EQ(thousandths(sqrt_n.time, all.time), 1231);

    uint64_t grid[CHAIN_CHECKMATE_GRID];
    chain_checkmate_grid(sqrt_n.peak, grid);
    graph_run greedy = {.peak = UINT64_MAX};
    uint32_t best = 0;
    for (uint32_t i = 0; i < CHAIN_CHECKMATE_GRID; i++) {
        const chain_cuts cuts = chain_chen_pass(&ctx, nodes, LAYERS, grid[i]);
        const graph_run run = run_cuts(&ctx, &g, &v, cuts.at);
        if (run.peak >= greedy.peak) continue;
        greedy = run;
        best = i;
    }
    CHECK_EQ(greedy.peak, 51380224);
    CHECK_EQ(thousandths(greedy.time, all.time), 1206);
    CHECK_EQ(best, 5); /* 0.25 of the peak of sqrt(n) */

    CHECK_EQ(batch(all.peak, 2 * fixed), 167);
    CHECK_EQ(batch(sqrt_n.peak, 2 * fixed), 197);
    CHECK_EQ(batch(greedy.peak, 2 * fixed), 266);
    CHECK_EQ(batch(all.peak, fixed), 181);
    CHECK_EQ(batch(sqrt_n.peak, fixed), 213);
    CHECK_EQ(batch(greedy.peak, fixed), 289);
    mr_ctx_clear(&ctx);
}

TEST(an_op_whose_input_is_not_there_is_reported)
{
    mr_ctx ctx = {0};
    const graph_edge edges[] = {{0, 1}, {0, 2}};
    const graph g = graph_make(&ctx, 3, edges, 2);
    bool S[9] = {false};
    bool R[9] = {true, false, false, false, true, false, false, false, true};
    const uint64_t ones[] = {1, 1, 1};
    graph_stages stages = {S, R};
    CHECK_EQ(graph_execute(&ctx, &g, ones, ones, &stages).missing, 1);
    stages.R = graph_closure(&ctx, &g, S);
    const graph_run run = graph_execute(&ctx, &g, ones, ones, &stages);
    CHECK_EQ(run.missing, MR_NONE);
    CHECK_EQ(run.time, 5);
    CHECK_EQ(run.peak, 2);
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
