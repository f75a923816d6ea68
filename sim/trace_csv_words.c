/* trace_csv_words -- the rows that are not made of columns: what a recording says of itself. */
#include "trace_csv_words.h"

#include <string.h>

mr_status mr_csv_about(mr_cells *cells, const mr_csv_row *row, mr_trace *trace)
{
    if (row->n != 3)
        return mr_csv_fail(cells->csv, 0, "about has %s, expected a field and its value",
                           mr_show_count(cells->ctx, row->n - 1, "field", "fields"));
    for (int f = 0; f < MR_ABOUT_N; f++) {
        if (strcmp(row->at[1], mr_about_name((mr_about)f)) != 0) continue;
        if (trace->about[f])
            return mr_csv_fail(cells->csv, 1, "about %s is there twice, expected it once",
                               row->at[1]);
        trace->about[f] = mr_strndup(cells->ctx, row->at[2], row->length[2]);
        return MR_OK;
    }
    return mr_csv_fail(cells->csv, 1, "unknown field '%s', expected one such as %s or %s",
                       row->at[1], mr_about_name(MR_ABOUT_model),
                       mr_about_name(MR_ABOUT_batch));
}

mr_status mr_csv_note(mr_cells *cells, const mr_csv_row *row, mr_trace *trace)
{
    if (row->n != 2)
        return mr_csv_fail(cells->csv, 0,
                           "note has %s, expected a text (in quotes where"
                           " it has commas)",
                           mr_show_count(cells->ctx, row->n - 1, "field", "fields"));
    MR_PUSH(cells->ctx, &trace->notes, mr_strndup(cells->ctx, row->at[1], row->length[1]));
    return MR_OK;
}

mr_status mr_csv_has(mr_cells *cells, const mr_csv_row *row, bool *had, mr_trace *trace)
{
    if (*had) return mr_csv_fail(cells->csv, 0, "has is there twice, expected it once");
    *had = true;
    for (uint32_t i = 1; i < row->n; i++) {
        uint32_t bit = 0;
        while (mr_has_word(bit) && strcmp(mr_has_word(bit), row->at[i]) != 0) bit++;
        if (!mr_has_word(bit))
            return mr_csv_fail(
                cells->csv, i,
                "unknown word '%s', expected dataflow, phases, times, saved, drops"
                " or history",
                row->at[i]);
        trace->has |= 1u << bit;
    }
    return MR_OK;
}

/* ---- the first row and the last ---------------------------------------------------------- */

mr_status mr_csv_first(mr_cells *cells, mr_csv_end *end)
{
    const mr_csv_row *row;
    MR_TRY(mr_csv_next(cells->csv, &row));
    MR_TRY(mr_csv_check_whole(cells->csv));
    const uint32_t more = row->n > 2 && strcmp(row->at[2], "closed") == 0 ? 3 : 2;
    if (!row->n || strcmp(row->at[0], "memreuse") != 0)
        return mr_csv_fail(cells->csv, 0, "the first row is not 'memreuse,%d', expected it",
                           MR_TRACE_VERSION);
    if (row->n < 2 || strcmp(row->at[1], "1") != 0)
        return mr_csv_fail(cells->csv, row->n > 1 ? 1 : 0,
                           "the format has version '%s', expected %d: a newer program wrote it",
                           row->n > 1 ? row->at[1] : "", MR_TRACE_VERSION);
    end->announced = more == 3;
    if (row->n == more) return MR_OK;
    return mr_csv_fail(cells->csv, more, "found '%.60s', expected %sthe end of the row",
                       row->at[more], end->announced ? "" : "'closed' or ");
}

mr_status mr_csv_closed(mr_cells *cells, const mr_csv_row *row, mr_csv_end *end)
{
    if (end->closed)
        return mr_csv_fail(cells->csv, 0, "a row follows 'closed', expected the end of the file");
    if (!end->announced)
        return mr_csv_fail(cells->csv, 0, "'closed' was not announced, expected the first row"
                                            " to be 'memreuse,%d,closed'",
                           MR_TRACE_VERSION);
    if (row->n > 1)
        return mr_csv_fail(cells->csv, 1, "found '%.60s', expected 'closed' alone",
                           row->at[1]);
    end->closed = true;
    return MR_OK;
}

/* What is cut off between two rows is told by what is missing behind the last. */
mr_status mr_csv_ended(mr_cells *cells, const mr_csv_end *end, const mr_trace *trace)
{
    if (end->announced && !end->closed)
        return mr_csv_fail(cells->csv, 0, "the file ends here without the row 'closed', which"
                                            " its first row announces: it is cut off");
    if (end->announced || end->open_step == MR_NONE) return MR_OK;
    return mr_csv_fail(cells->csv, 0, "the file ends here inside the step '%.60s', expected"
                                        " mark,step-end: it is cut off",
                       trace->marks.at[end->open_step].name);
}
