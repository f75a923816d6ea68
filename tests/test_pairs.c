/* Every ordered pair of rewrites on a few recordings: a result that passes the referees, or a
 * refusal with a reason; never a broken step.
 */
#include "one_rewrite.h"
#include "rewritten.h"

static const char *const recordings[] = {
    "models/vgg16-b64-i224.csv.gz",
    "models/twins/resnet50-checkpoint-sequential-4.csv.gz",
    "models/twins/vgg16-elu.csv.gz",
    "models/twins/vgg16-save-on-cpu.csv.gz",
};

/* Beside every rewrite as it is by default. */
static const char *const options[] = {
    "checkpoint:by=sqrt",
    "inplace:add=True,dropout=True",
    "ddp:zero=1",
    "ddp:zero=2,gradient_as_bucket_view=True",
    "accumulate:2",
};

typedef MR_VEC(const char *) specs;

static specs all_specs(mr_ctx *ctx)
{
    specs all = {0};
    for (size_t i = 0; mr_strategies[i]; i++)
        if (mr_strategies[i]->rewrite) MR_PUSH(ctx, &all, mr_strategies[i]->name);
    for (size_t i = 0; i < MR_COUNT(options); i++) MR_PUSH(ctx, &all, options[i]);
    return all;
}

/* How many of them give a result. */
static uint32_t results_after(const mr_trace *in, const char *file, const char *first,
                              const specs *all)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < all->n; i++) {
        mr_ctx ctx = {0};
        mr_trace out;
        const mr_status status = one_rewrite(&ctx, all->at[i], in, &out);
        n += !status;
        if (status == MR_EINVARIANT)
            TEST_FAIL("%s: %s%s: %s", file, first, all->at[i], ctx.failure.text);
        mr_ctx_clear(&ctx);
    }
    return n;
}

TEST(no_pair_of_rewrites_breaks_a_step)
{
    for (size_t r = 0; r < MR_COUNT(recordings); r++) {
        mr_ctx ctx = {0};
        mr_trace in;
        if (recording(&ctx, recordings[r], &in)) TEST_FAIL("%s", ctx.failure.text);
        const specs all = all_specs(&ctx);
        CHECK(results_after(&in, recordings[r], "", &all) > 3);
        for (uint32_t i = 0; i < all.n; i++) {
            mr_ctx of_first = {0};
            mr_trace first;
            if (!one_rewrite(&of_first, all.at[i], &in, &first))
                results_after(&first, recordings[r], mr_printf(&ctx, "%s+", all.at[i]), &all);
            mr_ctx_clear(&of_first);
        }
        mr_ctx_clear(&ctx);
    }
}

#define RESNET "models/resnet50-b64-i224.csv.gz"
#define CHECKPOINTED "models/twins/resnet50-checkpoint.csv.gz"

static void gives_a_result(const char *file, const char *spec)
{
    mr_ctx ctx = {0};
    mr_trace in;
    mr_answer answer;
    if (evaluated(&ctx, file, spec, &in, &answer))
        TEST_FAIL("%s: %s", spec, ctx.failure.text);
    mr_ctx_clear(&ctx);
}

/* What the program holds into the backward pass is held until no stage runs again from it. */
TEST(stages_run_again_in_a_step_that_recomputes)
{
    gives_a_result(CHECKPOINTED, "revolve");
    gives_a_result(RESNET, "rotor+revolve");
    gives_a_result("models/gpt2-small-b8-s1024.csv.gz", "rotor+rotor");
}

/* A copy of what recomputes another op reads what that copy's op read. */
TEST(tensors_are_evicted_from_a_step_that_recomputes)
{
    gives_a_result(CHECKPOINTED, "dtr:ratio=0.8");
    gives_a_result(RESNET, "checkpoint+dtr:ratio=0.9");
}

/* What was computed again ends with its last reader; so does what is written over it. */
TEST(copies_are_overwritten_too)
{
    gives_a_result(RESNET, "revolve+inplace");
    gives_a_result(RESNET, "dtr+inplace");
    gives_a_result("models/gpt2-small-b8-s1024.csv.gz",
                   "accumulate:2+inplace:add=True,dropout=True");
}

/* Autocast on steps that work in place or take parts of gradients. */
TEST(autocast_follows_what_works_in_place)
{
    gives_a_result("models/twins/vit-b16-inplace.csv.gz", "amp");
    gives_a_result("models/twins/vit-b16-inplace.csv.gz", "ddp+amp:bfloat16");
    gives_a_result("models/vit-b16-b64-i224.csv.gz", "inplace:add=True+amp");
    gives_a_result("models/vit-b16-b64-i224.csv.gz", "fsdp"); /* parameters of one row */
}

/* Hooks see what is saved as it is then: after an op that works in place, before the program
 * drops it, each view by itself.  A copy back that nobody reads is waited for. */
TEST(saved_tensors_go_to_the_host_as_they_are_saved)
{
    gives_a_result("models/twins/vgg16-elu-inplace.csv.gz", "offload:save_on_cpu");
    gives_a_result(RESNET, "inplace+offload:save_on_cpu");
    gives_a_result("models/twins/vgg16-checkpoint-reentrant.csv.gz",
                   "checkpoint:by=sqrt+offload:save_on_cpu");
    gives_a_result("models/gpt2-small-b8-s1024.csv.gz",
                   "chunk:attention=4+offload:save_on_cpu");
    gives_a_result("models/llama-7b-b1-s2048-bf16.csv.gz", "fuse+offload:save_on_cpu");
    gives_a_result("models/lstm-650-b20-s35.csv.gz", "offload");
    gives_a_result("models/lstm-650-b20-s35.csv.gz", "offload:interval");
}

/* A gradient that is changed itself, a chunk's sum in place, a norm in place that runs once. */
TEST(what_works_in_place_is_changed_once)
{
    gives_a_result("models/twins/vgg16-elu.csv.gz", "inplace:elementwise=True");
    gives_a_result("models/gpt2-small-b8-s1024.csv.gz",
                   "inplace:elementwise=True+inplace:add=True,dropout=True");
    gives_a_result("models/bert-base-mlm-b32-s128.csv.gz",
                   "inplace:add=True,dropout=True+chunk:attention=4");
    gives_a_result(RESNET, "inplace:abn=relu+knapsack");
    gives_a_result("models/llama-7b-b1-s2048-bf16.csv.gz", "release+fuse");
}

/* A tensor that nothing refers to any more is kept until it is evicted, and serves to compute
 * others again until then; one that is written over takes its place. */
TEST(what_is_not_evicted_is_kept)
{
    gives_a_result("models/vgg16-b64-i224.csv.gz", "dtr:ratio=0.85,dealloc=ignore");
    gives_a_result("models/vit-b16-b64-i224.csv.gz", "dtr:dealloc=ignore");
    gives_a_result(RESNET, "dtr:ratio=0.8,memory=window,dealloc=ignore");
    gives_a_result("models/twins/vgg16-inplace.csv.gz", "dtr:ratio=0.7,dealloc=banish");
    gives_a_result("models/twins/bert-base-inplace.csv.gz", "dtr:ratio=0.7,dealloc=banish");
    gives_a_result("models/twins/unet-inplace.csv.gz", "dtr:ratio=0.8,memory=hole,dealloc=banish");
}

/* What can never be computed again stays, also where it comes back from in place: it was pinned
 * while it was away.  Windows cost what is searched anew. */
TEST(what_banishing_pins_stays)
{
    gives_a_result("models/twins/resnet50-b16.csv.gz", "inplace+dtr:ratio=0.7,dealloc=banish");
    gives_a_result("models/vit-b16-b64-i224.csv.gz",
                   "dtr:ratio=0.8,heuristic=dtr-size,dealloc=banish,memory=window");
}

/* A recomputed op has nothing saved in a recording; what its gradient reads is there until then,
 * and may be read once more before. */
TEST(what_is_read_behind_its_drop_is_held_until_then)
{
    gives_a_result("models/twins/resnet50-amp-bfloat16-checkpoint.csv.gz",
                   "release+dtr:ratio=0.7,heuristic=dtr-stale");
}

/* A custom function writes beside a piece that is saved: as recorded, so no rewrite's doing. */
TEST(what_a_recording_does_itself_is_no_break)
{
    gives_a_result("models/twins/unet-placed-skips.csv.gz", "clip");
    gives_a_result("models/twins/unet-placed-skips.csv.gz", "mincut");
}

/* Parts of unlike sizes, with tensors that only their drops name; casts that are made again for
 * each slice, for units of one layer. */
TEST(parts_and_slices_have_what_is_theirs)
{
    gives_a_result("models/moe-small-b8-s512.csv.gz",
                   "dtr:ratio=0.7,back=swap,dealloc=ignore+accumulate:3");
    gives_a_result("models/twins/bert-base-amp-bfloat16-chunk-mlp-4.csv.gz",
                   "fsdp:module=layers.*.intermediate");
}

/* Slices share a cast and hold it each by itself; a region that ends before its first op, which
 * saves what it reads, casts for that; a kernel saves what it makes. */
TEST(what_runs_again_ends_where_it_is_needed)
{
    gives_a_result("models/twins/vit-b16-amp-bfloat16.csv.gz", "chunk:mlp=4");
    gives_a_result("models/twins/resnet50-amp-bfloat16-checkpoint.csv.gz", "checkpoint:every=1");
    gives_a_result("models/llama-7b-b1-s2048-bf16.csv.gz", "fuse+checkpoint:segments=4");
}

/* Of one sample a skip lies in one piece, not at the beginning. */
TEST(skips_of_one_sample_lie_where_they_were_made)
{
    gives_a_result("models/sd-unet-b4-i512-bf16.csv.gz", "accumulate+skip_reuse");
    gives_a_result("models/sd-unet-b4-i512-bf16.csv.gz",
                   "skip_reuse+revolve:slots=8,stages=3+accumulate");
}

/* What was computed from a parameter before its update stays, and what was computed from that
 * stays longer. */
TEST(what_was_made_of_old_parameters_stays)
{
    gives_a_result("models/twins/bert-base-release.csv.gz", "dtr:heuristic=local-size");
}

/* Segments are those of each forward pass. */
TEST(segments_end_with_their_pass)
{
    gives_a_result("models/twins/lstm-650-accumulate-4.csv.gz",
                   "checkpoint:segments=5,module=cells.*");
}

/* What is evicted is not saved any more, so who asks what is saved comes before. */
TEST(evictions_come_last)
{
    refuses("models/twins/vgg16-elu-inplace.csv.gz", "dtr:ratio=0.7,dealloc=banish+checkpoint:every=3",
            "expected checkpoint before");
    refuses("models/vit-b16-b64-i224.csv.gz", "dtr:ratio=0.8+chunk:mlp=4", "expected chunk before");
}

/* A bucket of gradients is one thing while it is filled; a fused update changes states too. */
TEST(buckets_and_states_are_seen_as_what_they_are)
{
    gives_a_result("models/twins/vgg16-elu-inplace.csv.gz",
                   "ddp:zero=2,gradient_as_bucket_view=True,bucket_cap_mb=4+dtr:ratio=0.9,"
                   "dealloc=banish");
    gives_a_result("models/twins/vit-b16-inplace.csv.gz",
                   "ddp:zero=2,gradient_as_bucket_view=True,bucket_cap_mb=4+dtr:ratio=0.7,"
                   "dealloc=banish");
    gives_a_result("models/vit-b16-b64-i224.csv.gz", "optimizer:adamw,form=fused+fsdp");
    gives_a_result("models/moe-small-b8-s512.csv.gz",
                   "dtr:ratio=0.7,back=swap,dealloc=ignore+accumulate:2");
}

/* What the program drops in the backward pass is held while an op is to run again from it. */
TEST(drops_of_the_backward_pass_are_put_off)
{
    gives_a_result("models/twins/vit-b16-inplace.csv.gz",
                   "dtr:ratio=0.7,memory=hole+mincut:budget=0.6");
    gives_a_result("models/twins/resnet50-b16.csv.gz", "dtr:memory=window+mincut:budget=0.3");
}

/* A sum in place, in the forward pass and once more where that is recomputed, begins no stage
 * before the last one. */
TEST(no_stage_begins_before_what_it_reads_is_whole)
{
    gives_a_result("models/twins/llama-7b-checkpoint.csv.gz",
                   "inplace:add=True,elementwise=True+revolve");
}

/* The last gradient inside ends a reentrant region, but reads what the second run saved. */
TEST(reentrant_regions_end_with_a_gradient)
{
    gives_a_result(RESNET, "checkpoint:by=sqrt,reentrant=True");
    gives_a_result("models/lstm-650-b20-s35.csv.gz", "checkpoint:by=sqrt,reentrant=True");
}

/* A result that is kept, and read outside of its region too, is dropped by the program alone. */
TEST(what_a_region_keeps_outlives_it)
{
    gives_a_result("models/vit-b16-b64-i224.csv.gz",
                   "checkpoint:by=attention,keep=[mm,addmm,bmm]");
}

TEST(orders_that_cannot_work_are_refused)
{
    refuses("models/vgg16-b64-i224.csv.gz", "fuse+nograd", "(nograd+fuse)");
    refuses("models/llama-7b-b1-s2048-bf16.csv.gz", "fuse+release", "reads a parameter when");
    refuses("models/twins/bert-base-inplace.csv.gz", "dtr+nograd", "(nograd+dtr)");
    refuses("models/twins/bert-base-inplace.csv.gz", "dtr:ratio=0.8+dtr:ratio=0.7",
            "expected one dtr, with the smaller of the budgets");
    refuses("models/twins/bert-base-inplace.csv.gz", "dtr:ratio=0.8+chen:cut=sqrt",
            "expected checkpointing before that");
    refuses(RESNET, "offload:conv+inplace:abn=relu", "expected inplace:abn before that");
    refuses("models/twins/vit-b16-checkpoint-attention.csv.gz", "amp", "expected amp before");
    refuses("models/twins/gpt2-small-chunk-attention-4.csv.gz", "amp", "expected amp before");
    refuses("models/twins/gpt2-small-release.csv.gz", "amp", "expected amp before");
    refuses("models/twins/bert-base-save-on-cpu.csv.gz", "amp", "(amp+offload:save_on_cpu)");
    refuses(RESNET, "ddp:zero=1+accumulate:2", "as in accumulate+ddp");
    refuses(RESNET, "ddp:zero=2+accumulate:2", "as in accumulate+ddp");
    refuses("models/twins/llama-7b-release-checkpoint.csv.gz", "revolve",
            "come after those that compute again");
    refuses("models/twins/unet-placed-skips.csv.gz", "checkpoint:segments=8",
            "checkpoint before what places tensors so");
    refuses("models/twins/unet-placed-skips.csv.gz", "offload:save_on_cpu", "another piece");
    refuses("models/twins/unet-placed-skips.csv.gz", "amp", "another piece");
    refuses("models/twins/unet-leaky-relu-abn.csv.gz", "checkpoint:module=join.*.*+amp",
            "expected amp before what holds it instead");
    refuses("models/twins/unet-leaky-relu.csv.gz", "ddp:ranks=1+fsdp", "buckets for several");
    refuses("models/twins/bert-base-inplace.csv.gz", "checkpoint:segments=8,keep=[add_]",
            "is to be kept, but works in place");
    gives_a_result(RESNET, "accumulate:2+ddp:zero=2");
    refuses(RESNET, "half:masters=True+optimizer", "expected another optimizer before");
    gives_a_result(RESNET, "optimizer+half:masters=True");
}

TEST_MAIN()
