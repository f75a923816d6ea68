/* conf -- the text of PYTORCH_CUDA_ALLOC_CONF as a spec.
 *
 *     max_split_size_mb:128,roundup_power2_divisions:[64:8,>:1]
 *     pytorch:max_split_size_mb=128,roundup_power2_divisions=[64:8,>:1]
 */
#include <ctype.h>
#include <string.h>

#include "commands.h"

static size_t option_length(const char *text)
{
    size_t n = 0;
    for (int depth = 0; text[n] && (depth > 0 || text[n] != ','); n++)
        depth += (text[n] == '[') - (text[n] == ']');
    return n;
}

static const char *without_blanks(mr_ctx *ctx, const char *text)
{
    char *copy = mr_strdup(ctx, text), *to = copy;
    for (const char *from = copy; *from; from++)
        if (!isspace((unsigned char)*from)) *to++ = *from;
    *to = '\0';
    return copy;
}

const char *mr_spec_with(mr_ctx *ctx, const char *spec, const char *arg)
{
    const size_t name = strcspn(arg, "=") + 1;
    const char *at = strchr(spec, ':');
    while (at && strncmp(at + 1, arg, name) != 0) {
        at += 1 + option_length(at + 1);
        if (!*at) at = NULL;
    }
    if (!at) return mr_printf(ctx, "%s%c%s", spec, strchr(spec, ':') ? ',' : ':', arg);
    const char *rest = at + 1 + option_length(at + 1);
    return mr_printf(ctx, "%s%s%s", mr_strndup(ctx, spec, (size_t)(at + 1 - spec)), arg, rest);
}

static bool is_spec(mr_ctx *ctx, const char *text)
{
    mr_spec spec;
    return mr_scene_spec(ctx, text, &spec) == MR_OK;
}

static const char *whole(mr_ctx *ctx, const char *text)
{
    return mr_printf(ctx, "pytorch:conf=[%s]", text);
}

/* What has no parameter of its own, such as options of host memory, is passed on whole and read
 * as PyTorch reads it. */
const char *mr_conf_spec_recorded(mr_ctx *ctx, const char *conf)
{
    const char *spec = "pytorch", *text = without_blanks(ctx, conf);
    for (const char *at = text; *at;) {
        const size_t n = option_length(at);
        char *option = mr_strndup(ctx, at, n);
        char *colon = strchr(option, ':');
        if (colon) *colon = '=';
        if (n) spec = mr_spec_with(ctx, spec, option);
        at += n + (at[n] == ',');
    }
    return is_spec(ctx, spec) ? spec : whole(ctx, text);
}

/* PyTorch reads words one after the other; which of them lacks its colon is for us to say. */
static mr_status check_form(mr_ctx *ctx, const char *conf, const char *text)
{
    for (const char *at = text; *at;) {
        const size_t n = option_length(at), key = strcspn(at, ":,");
        int depth = 0;
        for (size_t i = 0; i < n; i++) depth += (at[i] == '[') - (at[i] == ']');
        if (n && (key >= n || strcspn(at, "=") < key))
            return mr_fail(ctx, MR_EUSAGE,
                           "--alloc-conf is '%s', expected key:value,key:value as in "
                           "PYTORCH_CUDA_ALLOC_CONF, but '%.*s' has no colon behind its key "
                           "(see memreuse list pytorch for the keys)",
                           conf, (int)n, at);
        if (depth)
            return mr_fail(ctx, MR_EUSAGE,
                           "--alloc-conf is '%s', expected a closing bracket for each opening "
                           "one in '%.*s'",
                           conf, (int)n, at);
        at += n + (at[n] == ',');
    }
    return MR_OK;
}

mr_status mr_conf_spec(mr_ctx *ctx, const char *conf, const char **out)
{
    mr_spec spec;
    const char *text = without_blanks(ctx, conf);
    MR_TRY(check_form(ctx, conf, text));
    if (mr_scene_spec(ctx, whole(ctx, text), &spec) != MR_OK) {
        const char *why = mr_strdup(ctx, ctx->failure.text);
        return mr_fail(ctx, MR_EUSAGE, "--alloc-conf is '%s': %s", conf, why);
    }
    *out = mr_conf_spec_recorded(ctx, conf);
    return MR_OK;
}
