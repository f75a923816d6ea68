/* args -- the words behind a subcommand, read and explained from its table of options. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "report.h"

typedef struct reader {
    mr_ctx *ctx;
    const mr_command *command;
    char *const *argv;
    int argc, at; /* words left and the next of them */
    mr_args *out;
} reader;

static uint64_t processors(void)
{
    const long n = sysconf(_SC_NPROCESSORS_ONLN);
    return n < 1 ? 1 : n > 1024 ? 1024 : (uint64_t)n;
}

static const mr_option *find(const mr_command *command, const char *name, size_t n)
{
    const mr_option *o = command->options;
    for (; o && o->name; o++)
        if (strlen(o->name) == n && strncmp(o->name, name, n) == 0) return o;
    return NULL;
}

static const mr_option *find_letter(const mr_command *command, char letter)
{
    const mr_option *o = command->options;
    for (; o && o->name; o++)
        if (o->letter == letter) return o;
    return NULL;
}

static mr_status unknown(reader *r, const char *word, const char *name, size_t n)
{
    mr_words names = {0};
    for (const mr_option *o = r->command->options; o && o->name; o++)
        MR_PUSH(r->ctx, &names, o->name);
    MR_PUSH(r->ctx, &names, "help");
    const char *near = mr_nearest(mr_strndup(r->ctx, name, n), names.at, names.n);
    if (near)
        return mr_fail(r->ctx, MR_EUSAGE, "%s has no option '%s' (did you mean '--%s'?)",
                       r->command->name, word, near);
    return mr_fail(r->ctx, MR_EUSAGE, "%s has no option '%s' (see memreuse %s --help)",
                   r->command->name, word, r->command->name);
}

static bool parse_number(const char *text, uint64_t *out)
{
    uint64_t value = 0;
    if (!*text) return false;
    for (; *text; text++) {
        if (*text < '0' || *text > '9') return false;
        if (value > (UINT64_MAX - 9) / 10)
            value = UINT64_MAX / 10 - 1; /* more than is allowed */
        value = value * 10 + (uint64_t)(*text - '0');
    }
    *out = value;
    return true;
}

static mr_status set_number(reader *r, const mr_option *o, const char *text)
{
    uint64_t value;
    const bool size = o->type != MR_OPTION_NUMBER;
    if (!(size ? mr_parse_size(text, &value) : parse_number(text, &value)))
        return mr_fail(r->ctx, MR_EUSAGE, "--%s is '%s', expected %s", o->name, text,
                       size ? "a size such as 512MiB or 24GiB" : "a whole number");
    if (o->type == MR_OPTION_MEMORY && value < MR_MIB && !strpbrk(text, "bB"))
        return mr_fail(r->ctx, MR_EUSAGE,
                       "--%s is '%s', which is %" PRIu64 " bytes, expected a unit, as in %sGiB",
                       o->name, text, value, text);
    if (value < o->low)
        return mr_fail(r->ctx, MR_EUSAGE, "--%s is %s, expected at least %" PRIu64, o->name,
                       text, o->low);
    if (value > o->high)
        return mr_fail(r->ctx, MR_EUSAGE, "--%s is %s, expected at most %" PRIu64, o->name,
                       text, o->high);
    memcpy((char *)r->out + o->offset, &value, sizeof value);
    return MR_OK;
}

static mr_status set_choice(reader *r, const mr_option *o, const char *text)
{
    const size_t n = strlen(text);
    for (const char *word = o->argument; word; word = strchr(word, '|')) {
        if (*word == '|') word++;
        if (n && strcspn(word, "|") == n && strncmp(word, text, n) == 0) {
            memcpy((char *)r->out + o->offset, &text, sizeof text);
            return MR_OK;
        }
    }
    return mr_fail(r->ctx, MR_EUSAGE, "--%s is '%s', expected one of %s", o->name, text,
                   o->argument);
}

static mr_status set(reader *r, const mr_option *o, const char *text)
{
    void *field = (char *)r->out + o->offset;
    const bool is_text = o->type == MR_OPTION_TEXT || o->type == MR_OPTION_TEXTS;
    if (is_text && !*text)
        return mr_fail(r->ctx, MR_EUSAGE, "--%s is empty, expected %s", o->name, o->argument);
    switch (o->type) {
    case MR_OPTION_SWITCH: *(bool *)field = true; break;
    case MR_OPTION_TEXT: *(const char **)field = text; break;
    case MR_OPTION_TEXTS: MR_PUSH(r->ctx, (mr_words *)field, text); break;
    case MR_OPTION_NUMBER:
    case MR_OPTION_MEMORY:
    case MR_OPTION_SIZE: return set_number(r, o, text);
    case MR_OPTION_CHOICE: return set_choice(r, o, text);
    }
    return MR_OK;
}

/* `value` is what was glued to the option's name, NULL for nothing. */
static mr_status take(reader *r, const mr_option *o, const char *value)
{
    if (o->type == MR_OPTION_SWITCH && value)
        return mr_fail(r->ctx, MR_EUSAGE, "--%s takes no value, found '%s'", o->name, value);
    if (o->type == MR_OPTION_SWITCH) return set(r, o, NULL);
    if (!value && r->at == r->argc)
        return mr_fail(r->ctx, MR_EUSAGE, "--%s needs a value: --%s %s", o->name, o->name,
                       o->argument);
    return set(r, o, value ? value : r->argv[r->at++]);
}

static mr_status take_long(reader *r, const char *word)
{
    const size_t n = strcspn(word + 2, "=");
    const mr_option *o = find(r->command, word + 2, n);
    if (!o) return unknown(r, mr_strndup(r->ctx, word, n + 2), word + 2, n);
    return take(r, o, word[n + 2] ? word + n + 3 : NULL);
}

static mr_status take_short(reader *r, const char *word)
{
    const mr_option *o = find_letter(r->command, word[1]);
    if (!o) return unknown(r, word, word + 1, strlen(word + 1));
    return take(r, o, word[2] ? word + 2 : NULL);
}

static bool is_help(const char *word)
{
    return strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

static mr_status check_words(mr_ctx *ctx, const mr_command *command, const mr_words *words)
{
    if (words->n < command->words_min)
        return mr_fail(ctx, MR_EUSAGE, "%s lacks an argument: memreuse %s %s", command->name,
                       command->name, command->usage);
    if (command->words_min && !*words->at[0])
        return mr_fail(ctx, MR_EUSAGE, "the first argument is empty: memreuse %s %s",
                       command->name, command->usage);
    if (words->n > command->words_max)
        return mr_fail(ctx, MR_EUSAGE, "%s does not expect '%s': memreuse %s%s%s",
                       command->name, words->at[command->words_max], command->name,
                       *command->usage ? " " : "", command->usage);
    return MR_OK;
}

mr_status mr_args_parse(mr_ctx *ctx, const mr_command *command, int argc, char *const argv[],
                        mr_args *out, bool *help)
{
    *out = (mr_args){.cuda_device = MR_NONE,
                     .tf32 = "conv",
                     .format = "table",
                     .on = "model",
                     .jobs = processors(),
                     .top = 10,
                     .align = 1,
                     .at = "peak"};
    reader r = {ctx, command, argv, argc, 0, out};
    bool words_only = false;
    while (r.at < argc) {
        const char *word = argv[r.at++];
        if (words_only || word[0] != '-' || !word[1]) {
            MR_PUSH(ctx, &out->words, word);
        } else if (strcmp(word, "--") == 0) {
            words_only = true;
        } else if (is_help(word)) {
            *help = true;
            return MR_OK;
        } else {
            MR_TRY(word[1] == '-' ? take_long(&r, word) : take_short(&r, word));
        }
    }
    return check_words(ctx, command, &out->words);
}

/* ---- help -------------------------------------------------------------------------------- */

#define HELP_COLUMN 26 /* where the explanation of an option begins */

static void print_option(mr_ctx *ctx, char letter, const char *name, const char *argument,
                         const char *help)
{
    const char *head =
        mr_printf(ctx, "  %c%c%c --%s %s", letter ? '-' : ' ', letter ? letter : ' ',
                  letter ? ',' : ' ', name, argument ? argument : "");
    printf("%-*s", HELP_COLUMN, head);
    if (strlen(head) >= HELP_COLUMN) printf("\n%*s", HELP_COLUMN, "");
    puts(mr_fold(ctx, help, HELP_COLUMN));
}

void mr_args_help(mr_ctx *ctx, const mr_command *command)
{
    printf("usage: memreuse %s %s\n\n", command->name, command->usage);
    printf("%s%s\n", command->summary, command->more ? ".\n" : ".");
    if (command->more) puts(command->more);
    puts("\noptions");
    for (const mr_option *o = command->options; o && o->name; o++)
        print_option(ctx, o->letter, o->name, o->argument, o->help);
    print_option(ctx, 'h', "help", NULL, "print this");
    if (command->help) command->help(ctx);
}
