/* units -- numbers as people read them. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "report.h"

const char *mr_show_bytes(mr_ctx *ctx, uint64_t bytes)
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    if (bytes < MR_KIB) return mr_printf(ctx, "%" PRIu64 " B", bytes);
    double value = (double)bytes / 1024;
    size_t unit = 0;
    while (value >= 1023.995 && unit + 1 < MR_COUNT(units)) { /* would be printed as 1024.00 */
        value /= 1024;
        unit++;
    }
    return mr_printf(ctx, "%.2f %s", value, units[unit]);
}

const char *mr_show_ns(mr_ctx *ctx, uint64_t ns)
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{1e9, "s"}, {1e6, "ms"}, {1e3, "us"}};
    for (size_t i = 0; i < MR_COUNT(units); i++)
        if ((double)ns >= units[i].ns)
            return mr_printf(ctx, "%.2f %s", (double)ns / units[i].ns, units[i].name);
    return mr_printf(ctx, "%" PRIu64 " ns", ns);
}

const char *mr_show_value(mr_ctx *ctx, mr_unit unit, uint64_t value)
{
    switch (unit) {
    case MR_BYTES: return mr_show_bytes(ctx, value);
    case MR_NS: return mr_show_ns(ctx, value);
    case MR_PER_S: return mr_printf(ctx, "%.2f/s", (double)value / 1000);
    case MR_COUNTS: break;
    }
    return mr_printf(ctx, "%" PRIu64, value);
}

bool mr_is_told(const mr_failure *failure, const mr_metrics *metrics, const mr_metric *metric)
{
    if (failure->status) return false;
    return metrics->time || metric->offset < offsetof(mr_metrics, time)
           || metric->offset > offsetof(mr_metrics, throughput);
}

const char *mr_show_result(const mr_failure *failure, const mr_metrics *metrics)
{
    const mr_status status = failure->status;
    if (status == MR_EUNSUPPORTED || status == MR_EUSAGE) return "refused";
    if (status) return "failed";
    return metrics->refusals ? "OOM" : "fits";
}

const char *mr_show_name(mr_ctx *ctx, const char *name)
{
    static const char plain[] = "\n\r\t", letters[] = "nrt";
    char *out = MR_NEW_N(ctx, char, 4 * strlen(name) + 1), *at = out;
    for (; *name; name++) {
        const unsigned char c = (unsigned char)*name;
        const char *found = strchr(plain, c);
        const size_t n = mr_utf8_length(name);
        const bool control =
            c < ' ' || c == 127 || (c == 0xc2 && (unsigned char)name[1] < 0xa0);
        if (n && !control) at = (char *)memcpy(at, name, n) + n, name += n - 1;
        else if (found) at += sprintf(at, "\\%c", letters[found - plain]);
        else at += sprintf(at, "\\%03o", c);
    }
    *at = '\0';
    return out;
}

mr_status mr_report_open(mr_ctx *ctx, const char *path, mr_sink **out)
{
    MR_TRY(mr_sink_open(ctx, path, out));
    mr_sink_for_people(*out);
    return MR_OK;
}

/* Up to behind the next comma, plus or slash that is not inside brackets. */
static size_t next_part(const char *text)
{
    size_t n = 0;
    for (int depth = 0; text[n]; n++) {
        depth += (text[n] == '[') - (text[n] == ']');
        if (!depth && strchr(",+/", text[n])) return n + 1;
    }
    return n;
}

const char *mr_show_spec(mr_ctx *ctx, const char *text)
{
    enum { WIDTH = 40 };
    const char *out = "";
    size_t used = 0;
    while (*text) {
        const size_t n = next_part(text);
        if (used && used + n > WIDTH) {
            out = mr_printf(ctx, "%s\n  ", out);
            used = 2;
        }
        out = mr_printf(ctx, "%s%.*s", out, (int)n, text);
        used += n;
        text += n;
    }
    return out;
}
