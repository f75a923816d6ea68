/* pools_run -- plays a script of pool_script.py to the strategy that models the pool.
 *
 *     pools_run SCRIPT
 *
 * The language and the output stand in pool_script.py; the drivers of real pools print the same
 * lines, so that the two can be compared with diff.
 */
#include "evaluate.h"
#include "strategies.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void read_event(mr_ctx *ctx, mr_trace *trace, const char *line)
{
    uint32_t id, stream;
    uint64_t bytes;
    if (sscanf(line, "a %" SCNu32 " %" SCNu64 " %" SCNu32, &id, &bytes, &stream) == 3) {
        while (trace->streams.n <= stream) MR_PUSH(ctx, &trace->streams, trace->streams.n);
        MR_PUSH(ctx, &trace->storages,
                (mr_storage){.bytes = bytes, .stream = stream, .stack = MR_NONE});
        MR_PUSH(ctx, &trace->events, (mr_event){MR_ALLOC, id});
    } else if (sscanf(line, "f %" SCNu32, &id) == 1) {
        MR_PUSH(ctx, &trace->events, (mr_event){MR_FREE, id});
    } else if (!strncmp(line, "flush", 5)) {
        MR_PUSH(ctx, &trace->events, (mr_event){MR_FLUSH, 0});
    }
}

static void print_placement(const mr_placement *placement)
{
    for (uint32_t c = 0; c < placement->cmds.n; c++) {
        const mr_cmd *cmd = &placement->cmds.at[c];
        const mr_block *b = &cmd->block;
        if (cmd->kind == MR_RESERVE)
            printf("R %" PRIu32 " %" PRIu64 "\n", b->segment, b->bytes);
        if (cmd->kind == MR_RELEASE) printf("X %" PRIu32 "\n", b->segment);
        if (cmd->kind == MR_REFUSE) printf("%" PRIu32 " refused\n", cmd->id);
        if (cmd->kind == MR_BIND)
            printf("%" PRIu32 " %" PRIu32 " %" PRIu64 "\n", cmd->id, b->segment, b->offset);
    }
}

static mr_status run(mr_ctx *ctx, FILE *file)
{
    char line[256], text[200];
    uint64_t capacity;
    if (fscanf(file, "spec %199s capacity %" SCNu64 " ", text, &capacity) != 2)
        return mr_fail(ctx, MR_EINPUT, "a script begins with 'spec' and 'capacity'");
    mr_trace trace;
    mr_trace_init(ctx, &trace, "script");
    while (fgets(line, sizeof line, file)) read_event(ctx, &trace, line);
    mr_spec spec;
    MR_TRY(mr_spec_parse(ctx, mr_strategies, text, &spec));
    const mr_device device = {.name = "script", .memory = capacity, .granularity = 1};
    const mr_question question = {.trace = &trace,
                                  .spec = &spec,
                                  .device = &device,
                                  .capacity = capacity,
                                  .iterations = 1,
                                  .go_on = true};
    mr_answer answer;
    MR_TRY(mr_evaluate(ctx, &question, &answer));
    print_placement(&answer.placement);
    return MR_OK;
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
    if (!file) {
        fprintf(stderr, "usage: pools_run SCRIPT\n");
        return 2;
    }
    mr_ctx ctx = {0};
    const mr_status status = run(&ctx, file);
    if (status) fprintf(stderr, "pools_run: %s\n", ctx.failure.text);
    fclose(file);
    mr_ctx_clear(&ctx);
    return status ? 1 : 0;
}
