/* param -- the types of parameters. */
#include "param.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <math.h> /* floor, isfinite */
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* ---- sizes ------------------------------------------------------------------------------- */

static const struct {
    const char *name;
    uint64_t bytes;
} units[] = {
    {"", 1},          {"B", 1},         {"KiB", MR_KIB}, {"MiB", MR_MIB},
    {"GiB", MR_GIB},  {"TiB", MR_GIB << 10}, {"kB", 1000}, {"KB", 1000},
    {"MB", 1000000},  {"GB", 1000000000},    {"TB", 1000000000000},
};

bool mr_parse_size(const char *text, uint64_t *bytes)
{
    const size_t digits = strspn(text, "0123456789.");
    if (!digits || digits > 24) return false;
    char number[32] = {0};
    memcpy(number, text, digits);
    const char *rest = text + digits;
    while (*rest == ' ') rest++;
    uint64_t unit = 0;
    for (size_t i = 0; i < MR_COUNT(units) && !unit; i++)
        if (!strcasecmp(rest, units[i].name)) unit = units[i].bytes;
    if (!unit) return false;
    char *end;
    if (!strchr(number, '.')) {
        errno = 0;
        const unsigned long long whole = strtoull(number, &end, 10);
        if (errno || *end || whole > UINT64_MAX / unit) return false;
        *bytes = whole * unit;
        return true;
    }
    const double value = strtod(number, &end) * (double)unit;
    if (*end || !(value < 18446744073709549568.0)) return false;
    if (unit == 1 && value != floor(value)) return false; /* 0.5 is meant as a part of something */
    *bytes = (uint64_t)(value + 0.5); /* llround() ends at half of the range */
    return true;
}

const char *mr_print_size(mr_ctx *ctx, uint64_t bytes)
{
    static const char *const names[] = {"", "KiB", "MiB", "GiB"};
    unsigned i = 0;
    while (bytes && i + 1 < MR_COUNT(names) && bytes % 1024 == 0) bytes /= 1024, i++;
    return mr_printf(ctx, "%" PRIu64 "%s", bytes, names[i]);
}

const char *mr_say_size(mr_ctx *ctx, uint64_t bytes)
{
    static const char *const names[] = {"KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes / 1024;
    unsigned i = 0;
    if (bytes < 1024) return mr_printf(ctx, "%" PRIu64 " B", bytes);
    while (size > 999.99 && i + 1 < MR_COUNT(names)) size /= 1024, i++;
    uint64_t hundredths = (uint64_t)(size * 100);
    hundredths += (double)hundredths < size * 100;
    return mr_printf(ctx, "%" PRIu64 ".%02" PRIu64 " %s", hundredths / 100, hundredths % 100,
                     names[i]);
}

/* ---- setting ----------------------------------------------------------------------------- */

static const char *choice(mr_ctx *ctx, const char *choices, uint64_t index)
{
    while (index-- && *choices)
        choices += strcspn(choices, "|") + (strchr(choices, '|') != NULL);
    return mr_strndup(ctx, choices, strcspn(choices, "|"));
}

static bool set_choice(const char *choices, const char *text, uint64_t *value)
{
    const size_t length = strlen(text);
    *value = 0;
    for (const char *at = choices; *at; (*value)++) {
        const size_t n = strcspn(at, "|");
        if (n == length && !memcmp(at, text, n)) return true;
        at += n + (at[n] == '|');
    }
    return false;
}

static bool set_bool(const char *text, bool *value)
{
    static const char *const yes[] = {"1", "true", "yes", "on"};
    static const char *const no[] = {"0", "false", "no", "off"};
    for (size_t i = 0; i < MR_COUNT(yes); i++) {
        *value = !strcasecmp(text, yes[i]);
        if (*value || !strcasecmp(text, no[i])) return true;
    }
    return false;
}

static bool set_number(const char *text, uint64_t *value)
{
    char *end;
    errno = 0;
    *value = strtoull(text, &end, 10);
    return !errno && isdigit((unsigned char)*text) && !*end;
}

static bool set_real(const char *text, double *value)
{
    char *end;
    *value = strtod(text, &end);
    return end != text && !*end && isfinite(*value);
}

static bool within(const mr_param *param, double value)
{
    return (param->low == 0 && param->high == 0)
           || (value >= param->low && value <= param->high);
}

/* False when the text is not of the parameter's type or out of its limits. */
static bool set(mr_ctx *ctx, const mr_param *param, const char *text, void *field)
{
    uint64_t whole = 0;
    double real = 0;
    bool truth = false;
    switch (param->type) {
    case MR_PARAM_TYPE_INT:
        if (!set_number(text, &whole) || !within(param, (double)whole)) return false;
        break;
    case MR_PARAM_TYPE_SIZE:
        if (!mr_parse_size(text, &whole) || !within(param, (double)whole)) return false;
        break;
    case MR_PARAM_TYPE_CHOICE:
        if (!set_choice(param->choices, text, &whole)) return false;
        break;
    case MR_PARAM_TYPE_REAL:
        if (!set_real(text, &real) || !within(param, real)) return false;
        memcpy(field, &real, sizeof real);
        return true;
    case MR_PARAM_TYPE_BOOL:
        if (!set_bool(text, &truth)) return false;
        memcpy(field, &truth, sizeof truth);
        return true;
    case MR_PARAM_TYPE_TEXT:
        memcpy(field, &(const char *){mr_strdup(ctx, text)}, sizeof(const char *));
        return true;
    }
    memcpy(field, &whole, sizeof whole);
    return true;
}

mr_status mr_param_set(mr_ctx *ctx, const mr_param *param, const char *text, void *params)
{
    if (set(ctx, param, text, (char *)params + param->offset)) return MR_OK;
    return mr_fail(ctx, MR_EUSAGE, "'%s' takes %s, not '%s'", param->name,
                   mr_param_takes(ctx, param), text);
}

/* ---- showing ----------------------------------------------------------------------------- */

static const char *real_text(mr_ctx *ctx, double value)
{
    for (int digits = 1; digits < 17; digits++) {
        const char *text = mr_printf(ctx, "%.*g", digits, value);
        if (strtod(text, NULL) == value) return text;
    }
    return mr_printf(ctx, "%.17g", value);
}

const char *mr_param_print(mr_ctx *ctx, const mr_param *param, const void *params)
{
    const void *field = (const char *)params + param->offset;
    uint64_t whole = 0;
    double real;
    bool truth;
    const char *text;
    switch (param->type) {
    case MR_PARAM_TYPE_BOOL:
        memcpy(&truth, field, sizeof truth);
        return truth ? "True" : "False";
    case MR_PARAM_TYPE_REAL:
        memcpy(&real, field, sizeof real);
        return real_text(ctx, real);
    case MR_PARAM_TYPE_TEXT:
        memcpy(&text, field, sizeof text);
        return text ? text : "";
    case MR_PARAM_TYPE_INT:
        memcpy(&whole, field, sizeof whole);
        return mr_printf(ctx, "%" PRIu64, whole);
    case MR_PARAM_TYPE_SIZE:
        memcpy(&whole, field, sizeof whole);
        return mr_print_size(ctx, whole);
    case MR_PARAM_TYPE_CHOICE:
        memcpy(&whole, field, sizeof whole);
        return choice(ctx, param->choices, whole);
    }
    return "";
}

static const char *limits(mr_ctx *ctx, const mr_param *param)
{
    if (param->low == 0 && param->high == 0) return "";
    return mr_printf(ctx, " from %s to %s", real_text(ctx, param->low),
                     real_text(ctx, param->high));
}

const char *mr_param_takes(mr_ctx *ctx, const mr_param *param)
{
    switch (param->type) {
    case MR_PARAM_TYPE_INT: return mr_printf(ctx, "a whole number%s", limits(ctx, param));
    case MR_PARAM_TYPE_SIZE:
        return mr_printf(ctx, "a size%s, such as 512, 2MiB or 1.5GiB",
                         *limits(ctx, param) ? mr_printf(ctx, "%s bytes", limits(ctx, param))
                                             : "");
    case MR_PARAM_TYPE_REAL: return mr_printf(ctx, "a number%s", limits(ctx, param));
    case MR_PARAM_TYPE_BOOL: return "True or False";
    case MR_PARAM_TYPE_TEXT: return "a text";
    case MR_PARAM_TYPE_CHOICE: return mr_printf(ctx, "one of %s", param->choices);
    }
    return "";
}
