/* failure -- what went wrong, where, and the words it is about underlined. */
#include "report.h"

void mr_report_failure(FILE *stream, const mr_failure *failure)
{
    if (!failure->width) {
        fprintf(stream, "memreuse: %s%s%s\n", failure->where, failure->where[0] ? ": " : "",
                failure->text);
        return;
    }
    fprintf(stream, "memreuse: %s\n  %s\n  %*s^", failure->text, failure->where,
            (int)failure->column, "");
    for (unsigned i = 1; i < failure->width; i++) putc('~', stream);
    putc('\n', stream);
}
