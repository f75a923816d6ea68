/* main -- finds the subcommand, reads its options, runs it, reports what failed. */
#include <stdio.h>
#include <string.h>

#include "commands.h"
#include "report.h"

const mr_command *const mr_commands[] = {
#define X(name) &mr_command_##name,
    MR_COMMANDS(X)
#undef X
        NULL,
};

static void print_help(void)
{
    printf(
        "usage: memreuse COMMAND [ARGUMENT...]\n\n"
        "Replays a recorded training step under other ways of reusing GPU memory and says how\n"
        "much memory each would take.\n\n");
    for (size_t i = 0; mr_commands[i]; i++) {
        const mr_command *c = mr_commands[i];
        printf("  %-9s %s\n", c->name, c->summary);
    }
    printf(
        "\nmemreuse COMMAND --help explains one of them.  Results go to standard output, all\n"
        "else to standard error.  Exit: 0 fine, 1 it failed, 2 it was asked wrongly.\n");
}

static mr_status find_command(mr_ctx *ctx, const char *word, const mr_command **out)
{
    const char *names[MR_COUNT(mr_commands) - 1];
    for (size_t i = 0; mr_commands[i]; i++) {
        *out = mr_commands[i];
        names[i] = mr_commands[i]->name;
        if (strcmp(names[i], word) == 0) return MR_OK;
    }
    const bool option = word[0] == '-';
    const char *near = option ? NULL : mr_nearest(word, names, MR_COUNT(names));
    return mr_fail(ctx, MR_EUSAGE, "unknown %s '%s' (%s%s%s)", option ? "option" : "command",
                   word, near ? "did you mean '" : "see memreuse --help", near ? near : "",
                   near ? "'?" : "");
}

static mr_status run(mr_ctx *ctx, int argc, char *const argv[], int *answer)
{
    if (argc < 2) return mr_fail(ctx, MR_EUSAGE, "no command given (see memreuse --help)");
    if (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0)
        return print_help(), MR_OK;
    if (strcmp(argv[1], "--version") == 0) return puts("memreuse " MR_VERSION), MR_OK;
    const mr_command *command;
    MR_TRY(find_command(ctx, argv[1], &command));
    mr_args args;
    bool help = false;
    MR_TRY(mr_args_parse(ctx, command, argc - 2, argv + 2, &args, &help));
    if (help) return mr_args_help(ctx, command), MR_OK;
    return command->run(ctx, &args, answer);
}

int main(int argc, char *argv[])
{
    mr_ctx ctx = {0};
    int answer = 0;
    mr_status status = run(&ctx, argc, argv, &answer);
    if (status == MR_OK && (fflush(stdout) != 0 || ferror(stdout)))
        status = mr_fail(&ctx, MR_EIO, "standard output could not be written");
    if (status != MR_OK) mr_report_failure(stderr, &ctx.failure);
    mr_ctx_clear(&ctx);
    return status == MR_OK ? answer : mr_status_exit(status);
}
