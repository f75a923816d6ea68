/* Divisions of memory and work: their sums are the whole, counted here in the plainest way. */
#include "account.h"
#include "format.h"

#include <stdlib.h>

#include "test.h"

#define MLP TRACES "/tiny/mlp.csv"
#define MODEL(name) TRACES "/models/" name ".csv.gz"

typedef struct recording {
    mr_trace trace;
    mr_schedule schedule;
} recording;

static bool opened(mr_ctx *ctx, const char *path, recording *out)
{
    const mr_read_options options = {0};
    if (!mr_recording_read(ctx, path, &options, &out->trace)
        && !mr_schedule_make(ctx, &out->trace, 0, &out->schedule))
        return true;
    TEST_FAIL("%s", ctx->failure.text);
    return false;
}

static mr_ledger ledger_at(mr_ctx *ctx, const recording *r, uint32_t events)
{
    return mr_ledger_make(ctx, &r->schedule, (mr_stretch){0, r->schedule.events.n}, events);
}

static mr_ledger ledger_at_peak(mr_ctx *ctx, const recording *r)
{
    uint32_t at;
    mr_schedule_peak(&r->schedule, &at);
    return ledger_at(ctx, r, at + 1);
}

static const mr_group *find(const mr_groups *groups, const char *name)
{
    static const mr_group none = {0};
    for (uint32_t i = 0; i < groups->n; i++)
        if (!strcmp(groups->at[i].name, name)) return &groups->at[i];
    TEST_FAIL("there is no group '%s'", name);
    return &none;
}

/* ---- plain counts ------------------------------------------------------------------------ */

static uint64_t live_before(const recording *r, uint32_t events)
{
    uint64_t live = 0;
    for (uint32_t s = 0; s < r->trace.storages.n; s++)
        if (r->trace.storages.at[s].before) live += r->trace.storages.at[s].bytes;
    for (uint32_t e = 0; e < events; e++) {
        const mr_event event = r->schedule.events.at[e];
        if (event.kind == MR_ALLOC) live += r->trace.storages.at[event.id].bytes;
        if (event.kind == MR_FREE) live -= r->trace.storages.at[event.id].bytes;
    }
    return live;
}

static bool is_inside(const char *path, const char *module)
{
    const size_t n = strlen(module);
    return !n || (!strncmp(path, module, n) && (!path[n] || path[n] == '.'));
}

/* Bytes that ops inside the module save, and nothing before them saved: looks at all savers
 * for every storage, but not at ops that recompute. */
static uint64_t saved_inside(const recording *r, const char *module)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < r->trace.storages.n; s++) {
        const mr_storage *storage = &r->trace.storages.at[s];
        const mr_op *saver = NULL;
        for (uint32_t o = r->trace.ops.n; o-- > 0;) {
            const mr_op *op = &r->trace.ops.at[o];
            for (uint32_t i = 0; i < op->saved.n && op->again == MR_NONE; i++)
                if (r->trace.tensors.at[op->saved.at[i].tensor].storage == s) saver = op;
        }
        const bool kept = storage->role == MR_ROLE_parameter || storage->role == MR_ROLE_input;
        if (saver && !kept && is_inside(saver->module, module)) sum += storage->bytes;
    }
    return sum;
}

static mr_cost work_inside(const recording *r, const char *module)
{
    mr_cost sum = {0};
    for (uint32_t o = 0; o < r->trace.ops.n; o++) {
        const mr_op *op = &r->trace.ops.at[o];
        if (!is_inside(op->module, module)) continue;
        sum.ops++;
        sum.flops += op->flops;
        sum.read += op->read;
        sum.written += op->written;
        sum.ns += op->ns;
    }
    return sum;
}

static uint64_t parameters_inside(const recording *r, const char *module)
{
    uint64_t sum = 0;
    for (uint32_t s = 0; s < r->trace.storages.n; s++) {
        const char *name = "";
        for (uint32_t t = 0; t < r->trace.tensors.n && !*name; t++)
            if (r->trace.tensors.at[t].storage == s) name = r->trace.tensors.at[t].name;
        if (r->trace.storages.at[s].role == MR_ROLE_parameter && is_inside(name, module))
            sum += r->trace.storages.at[s].bytes;
    }
    return sum;
}

/* ---- sums -------------------------------------------------------------------------------- */

static void check_same_work(const mr_cost *got, const mr_cost *want)
{
    CHECK_EQ(got->ops, want->ops);
    CHECK_EQ(got->flops, want->flops);
    CHECK_EQ(got->read, want->read);
    CHECK_EQ(got->written, want->written);
    CHECK_EQ(got->ns, want->ns);
}

static mr_cost own_sum(const mr_groups *groups)
{
    mr_cost sum = {0};
    for (uint32_t i = 0; i < groups->n; i++) {
        const mr_cost *own = &groups->at[i].own;
        sum.ops += own->ops;
        sum.flops += own->flops;
        sum.read += own->read;
        sum.written += own->written;
        sum.ns += own->ns;
        sum.made += own->made;
        sum.saved += own->saved;
        sum.live += own->live;
        sum.live_n += own->live_n;
    }
    return sum;
}

static void check_sums(mr_ctx *ctx, const recording *r, uint32_t events)
{
    const mr_ledger ledger = ledger_at(ctx, r, events);
    const mr_groups divisions[] = {mr_account_modules(ctx, &ledger),
                                   mr_account_kinds(ctx, &ledger),
                                   mr_account_layers(ctx, &ledger, 0)};
    const mr_cost whole = work_inside(r, "");
    uint64_t made = 0;
    for (uint32_t s = 0; s < r->trace.storages.n; s++)
        if (!r->trace.storages.at[s].before) made += r->trace.storages.at[s].bytes;
    CHECK_EQ(ledger.live.bytes, live_before(r, events));
    for (size_t i = 0; i < MR_COUNT(divisions); i++) {
        const mr_cost sum = own_sum(&divisions[i]);
        check_same_work(&sum, &whole);
        CHECK_EQ(sum.live, ledger.live.bytes);
        CHECK_EQ(sum.live_n, ledger.live.n);
        CHECK_EQ(sum.made, made);
        CHECK_EQ(sum.saved, own_sum(&divisions[0]).saved);
    }
    CHECK_EQ(divisions[0].at[0].all.live, ledger.live.bytes);
    check_same_work(&divisions[0].at[0].all, &whole);
}

static void check_all_sums(const char *path, uint32_t moments)
{
    mr_ctx ctx = {0};
    recording r;
    if (opened(&ctx, path, &r))
        for (uint32_t i = 0; i <= moments; i++)
            check_sums(&ctx, &r, (uint32_t)((uint64_t)r.schedule.events.n * i / moments));
    mr_ctx_clear(&ctx);
}

/* Of every `step`th module: what is inside it, looked for by its name. */
static void check_modules(const char *path, uint32_t step)
{
    mr_ctx ctx = {0};
    recording r;
    if (opened(&ctx, path, &r)) {
        const mr_ledger ledger = ledger_at_peak(&ctx, &r);
        const mr_groups modules = mr_account_modules(&ctx, &ledger);
        for (uint32_t i = 0; i < modules.n; i += step) {
            const mr_group *module = &modules.at[i];
            const mr_cost work = work_inside(&r, module->name);
            check_same_work(&module->all, &work);
            CHECK_EQ(module->all.saved, saved_inside(&r, module->name));
            CHECK_EQ(module->all.parameters, parameters_inside(&r, module->name));
        }
    }
    mr_ctx_clear(&ctx);
}

TEST(whatever_memory_and_work_are_divided_by_the_sums_are_the_whole)
{
    check_all_sums(MLP, 40);
    check_all_sums(MODEL("resnet50-b64-i224"), 12);
    check_all_sums(MODEL("bert-base-mlm-b32-s128"), 12);
    check_all_sums(MODEL("lstm-650-b20-s35"), 4);
}

TEST(a_module_has_what_is_inside_it)
{
    check_modules(MLP, 1);
    check_modules(MODEL("resnet50-b64-i224"), 17);
    check_modules(MODEL("bert-base-mlm-b32-s128"), 41);
    check_modules(MODEL("twins/bert-base-checkpoint"), 41);
}

TEST(modules_stand_before_those_inside_them)
{
    mr_ctx ctx = {0};
    recording r;
    if (opened(&ctx, MODEL("resnet50-b64-i224"), &r)) {
        const mr_ledger ledger = ledger_at_peak(&ctx, &r);
        const mr_groups modules = mr_account_modules(&ctx, &ledger);
        CHECK_STR(modules.at[0].name, "");
        CHECK_EQ(modules.at[0].parent, MR_NONE);
        for (uint32_t i = 1; i < modules.n; i++) {
            const mr_group *group = &modules.at[i], *around = &modules.at[group->parent];
            CHECK(group->parent < i);
            CHECK_EQ(group->depth, around->depth + 1);
            CHECK(is_inside(group->name, around->name));
            CHECK(is_inside(modules.at[i - 1].name, around->name)); /* none in between */
        }
    }
    mr_ctx_clear(&ctx);
}

/* ---- what is known by hand or published -------------------------------------------------- */

TEST(a_small_net_saves_what_a_person_counts)
{
    mr_ctx ctx = {0};
    recording r;
    if (opened(&ctx, MLP, &r)) {
        const mr_ledger ledger = ledger_at_peak(&ctx, &r);
        const mr_groups modules = mr_account_modules(&ctx, &ledger);
        const mr_groups kinds = mr_account_kinds(&ctx, &ledger);
        CHECK_EQ(find(&modules, "fc1")->all.parameters, 32768 + 512);
        CHECK_EQ(find(&modules, "fc1")->all.saved, 0); /* an input and a parameter */
        CHECK_EQ(find(&modules, "act")->all.saved, 16384);
        CHECK_EQ(find(&modules, "drop")->all.saved, 4096);
        CHECK_EQ(find(&modules, "fc2")->all.saved, 16384);
        CHECK_EQ(find(&modules, "fc2")->all.saved_per_sample, 512);
        CHECK_EQ(find(&modules, "")->all.saved, 16384 + 4096 + 16384 + 1280 + 4);
        CHECK_EQ(find(&modules, "fc1")->all.flops, 2 * 524288);
        CHECK_EQ(find(&kinds, "aten::mm")->all.made, 16384 + 5120 + 32768);
    }
    mr_ctx_clear(&ctx);
}

TEST(memory_belongs_to_the_module_in_its_name)
{
    mr_ctx ctx = {0};
    recording r;
    if (opened(&ctx, MLP, &r)) {
        const mr_ledger ledger = ledger_at(&ctx, &r, 0);
        const mr_groups modules = mr_account_modules(&ctx, &ledger);
        const mr_groups layers = mr_account_layers(&ctx, &ledger, 0);
        CHECK_EQ(find(&modules, "fc1")->all.live, 3 * (32768 + 512)); /* and .momentum, .grad */
        CHECK_EQ(find(&modules, "fc2")->all.live, 3 * (5120 + 40));
        CHECK_EQ(find(&modules, "")->own.live, 8192 + 256); /* the batch */
        CHECK_EQ(find(&layers, "")->own.live, ledger.live.bytes);
    }
    mr_ctx_clear(&ctx);
}

TEST(work_is_that_of_the_stretch)
{
    mr_ctx ctx = {0};
    recording r;
    if (opened(&ctx, MODEL("bert-base-changing-b16"), &r)) {
        const uint32_t n = r.schedule.events.n, half = n / 2;
        const mr_ledger first = mr_ledger_make(&ctx, &r.schedule, (mr_stretch){0, half}, 0);
        const mr_ledger rest = mr_ledger_make(&ctx, &r.schedule, (mr_stretch){half, n}, n);
        const mr_cost a = mr_account_modules(&ctx, &first).at[0].all;
        const mr_cost b = mr_account_modules(&ctx, &rest).at[0].all;
        const mr_cost whole = work_inside(&r, "");
        CHECK(a.ops > 0 && b.ops > 0);
        CHECK_EQ(a.ops + b.ops, whole.ops);
        CHECK_EQ(a.flops + b.flops, whole.flops);
        CHECK_EQ(a.live, live_before(&r, 0));
        CHECK_EQ(b.live, live_before(&r, n));
    }
    mr_ctx_clear(&ctx);
}

/* Bytes of masks of one byte an element, which are four times as long on other devices. */
static uint64_t masks(const recording *r, const mr_ledger *ledger, uint64_t batch)
{
    uint64_t sum = 0;
    const uint64_t recorded = strtoull(r->trace.about[MR_ABOUT_batch], NULL, 10);
    for (uint32_t t = 0; t < r->trace.tensors.n; t++) {
        const mr_tensor *tensor = &r->trace.tensors.at[t];
        const mr_storage *s = &r->trace.storages.at[tensor->storage];
        if (ledger->saver[tensor->storage] == MR_NONE || strcmp(tensor->dtype, "bool") != 0
            || ledger->as[tensor->storage] != MR_SAVED_MASK || tensor->bytes != s->bytes)
            continue;
        sum += s->bytes - s->per_sample * recorded + s->per_sample * batch;
    }
    return sum;
}

static void check_published(const char *path, uint64_t batch, double mib)
{
    mr_ctx ctx = {0};
    recording r;
    if (opened(&ctx, path, &r)) {
        const uint64_t recorded = strtoull(r.trace.about[MR_ABOUT_batch], NULL, 10);
        const mr_ledger ledger = ledger_at_peak(&ctx, &r);
        const mr_groups modules = mr_account_modules(&ctx, &ledger);
        const mr_cost *whole = &modules.at[0].all;
        const uint64_t saved = whole->saved - whole->saved_per_sample * recorded
                               + whole->saved_per_sample * batch;
        const double found = (double)(saved + 3 * masks(&r, &ledger, batch)) / (double)MR_MIB;
        if (found < mib - 0.1 || found > mib + 0.1)
            TEST_FAIL("%s saves %.2f MiB at batch %u, published are %.1f", path, found,
                      (unsigned)batch, mib);
    }
    mr_ctx_clear(&ctx);
}

/* The figures are of autograd on a device whose dropout masks have four bytes an element. */
TEST(bert_saves_what_is_published)
{
    check_published(MODEL("bert-base-mlm-b32-s128"), 32, 4005.8);
    check_published(MODEL("bert-base-mlm-b32-s128"), 8, 1001.5);
    check_published(MODEL("bert-base-mlm-b16-s512"), 8, 6597.8);
    check_published(MODEL("bert-large-classifier-b4-s512"), 4, 8088.9);
}

/* Korthikanti et al. 2022, in float32; both normalisations keep 16 bytes more a token. */
TEST(a_transformer_layer_saves_what_the_formula_says)
{
    enum { B = 28, S = 256, H = 768, HEADS = 12 };
    mr_ctx ctx = {0};
    recording r;
    if (opened(&ctx, MODEL("bert-base-classifier-b28-s256"), &r)) {
        const mr_ledger ledger = ledger_at_peak(&ctx, &r);
        const mr_groups layers = mr_account_layers(&ctx, &ledger, 0);
        CHECK_EQ(find(&layers, "layers.5")->all.saved,
                 (uint64_t)S * B * H * 66 + (uint64_t)B * HEADS * S * S * 9 + 16 * S * B);
    }
    mr_ctx_clear(&ctx);
}

static uint32_t calls_of(const mr_groups *layers, const char *name)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < layers->n; i++) n += !strcmp(layers->at[i].name, name);
    return n;
}

TEST(a_shared_layer_has_one_row_a_call)
{
    mr_ctx ctx = {0};
    recording albert, resnet;
    if (opened(&ctx, MODEL("albert-base-b32-s128"), &albert)) {
        const mr_ledger ledger = ledger_at_peak(&ctx, &albert);
        const mr_groups layers = mr_account_layers(&ctx, &ledger, 0);
        CHECK_EQ(calls_of(&layers, "layer"), 12);
        for (uint32_t i = 1; i < layers.n; i++)
            if (!strcmp(layers.at[i].name, "layer"))
                CHECK_EQ(layers.at[i].all.saved, find(&layers, "layer")->all.saved);
    }
    if (opened(&ctx, MODEL("resnet50-b64-i224"), &resnet)) { /* calls its relu three times */
        const mr_ledger ledger = ledger_at_peak(&ctx, &resnet);
        const mr_groups layers = mr_account_layers(&ctx, &ledger, 0);
        CHECK_EQ(calls_of(&layers, "blocks.3"), 1);
    }
    mr_ctx_clear(&ctx);
}

TEST_MAIN()
