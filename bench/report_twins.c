/* twins -- what predictions were worth, of many techniques in a few lines. */
#include <inttypes.h>

#include "report.h"
#include "twins.h"

#define NAMED 6 /* techniques that nothing is known of; more are only counted */

void mr_report_twins(mr_ctx *ctx, const mr_twins_list *list, bool markdown, mr_sink *sink)
{
    const char *checked = "", *unchecked = "";
    uint32_t n = 0;
    for (uint32_t i = 0; i < list->n; i++) {
        const mr_twins *t = &list->at[i];
        if (t->n)
            checked = mr_printf(ctx, "%s%s%s", checked, *checked ? "; " : "",
                                markdown ? mr_twins_brief(ctx, t) : mr_twins_text(ctx, t));
        else if (n++ < NAMED)
            unchecked =
                mr_printf(ctx, "%s%s%s", unchecked, *unchecked ? ", " : "", t->technique);
    }
    if (n > NAMED) unchecked = mr_printf(ctx, "%s and %" PRIu32 " more", unchecked, n - NAMED);
    if (*checked && markdown)
        checked =
            mr_printf(ctx, "Held against all twins ([twins.csv](twins.csv)): %s", checked);
    if (*checked) mr_sink_print(sink, "%s\n", mr_fold(ctx, mr_printf(ctx, "%s.", checked), 0));
    if (*unchecked)
        mr_sink_print(sink, "%s\n",
                      mr_fold(ctx, mr_printf(ctx, "Unchecked: %s.", unchecked), 0));
}
