/* failure -- what went wrong, where, and the words it is about underlined. */
#include "report.h"

static bool is_control(char c)
{
    return (c >= 0 && c < ' ') || c == 127;
}

void mr_report_failure(FILE *stream, const mr_failure *failure)
{
    if (!failure->width) {
        fprintf(stream, "memreuse: %s%s%s\n", failure->where, failure->where[0] ? ": " : "",
                failure->text);
        return;
    }
    fprintf(stream, "memreuse: %s\n  ", failure->text);
    for (const char *c = failure->where; *c; c++) putc(is_control(*c) ? '?' : *c, stream);
    fprintf(stream, "\n  %*s^", (int)failure->column, "");
    for (unsigned i = 1; i < failure->width; i++) putc('~', stream);
    putc('\n', stream);
}
