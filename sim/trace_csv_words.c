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
