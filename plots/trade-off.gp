# trade-off.gp -- peak memory against time of a step, a panel per set-up, with the same memory scale.
#
# Columns of DATA: panel, time, peak, kind, label; time and peak are percent of the first spec's.
# kind is 1 for specs on the Pareto front, 0 for others, and 2 more for the first spec; two rows with a peak
# below 0 say from where to where a panel goes, and give each kind a point.  No label is '-'.
DATA = ARG1
OUT = ARG2
load ARG0[:strlen(ARG0) - strlen("trade-off.gp")]."style.gp"

none = legend_add("first spec", ink, BOX)
none = legend_add("Pareto front", hue[2], LINE)
none = legend_add("others", faint, BOX)
do for [i = 1:legends] { none = legend_step(i) }

columns = panels < 3 ? panels : 3
rows = (panels + columns - 1) / columns
above = 112
each = columns == 1 ? 420 : columns == 2 ? 320 : 210
between = 84
gap = 40
below = 104 + 22 * legend_rows + 18 * caption_rows
high = above + rows * each + (rows - 1) * between + below
legend_y = high - 12 - 18 * caption_rows - 22 * legend_rows
across = (wide - 96 - 24 - (columns - 1) * gap) / columns
row_of(p) = (p - 1) / columns
column_of(p) = (p - 1) % columns
left_of(p) = 96 + column_of(p) * (across + gap)
top_of(p) = above + row_of(p) * (each + between)

eval canvas(high)
set output OUT
set datafile missing NaN # or else a line ends where a point of another panel stands between
set ytics 20 font ",12"
here(c) = column("panel") == p ? column(c) : NaN
kind(k, c) = column("panel") == p && column("kind") == k ? column(c) : NaN
front(c) = column("panel") == p && int(column("kind")) % 2 == 1 && column("peak") >= 0 ? column(c) : NaN
first(c) = column("panel") == p && column("kind") >= 2 ? column(c) : NaN
# A name stands to the right of its point where there is room; of the two rows, one on each side.
end_of(x) = (x - low) / (1.12 * span) * across + 0.62 * text_width(strcol("label"))
is_right(x) = end_of(x) > across + 10 || (column("peak") < 0 && x > low)
named(c) = strcol("label") eq "-" ? NaN : here(c)
label_left(c) = is_right(column("time")) ? NaN : named(c)
label_right(c) = is_right(column("time")) ? named(c) : NaN

set multiplot
do for [p = 1:panels] {
    unset label
    set xrange [*:*] # stats looks only at what lies within
    set yrange [*:*]
    stats DATA using (here("time")) nooutput
    span = STATS_max - STATS_min
    low = STATS_min
    empty = STATS_records < 3
    set xrange [low - 0.06 * span:low + 1.06 * span]
    set yrange [0:1.12 * y_high]
    set xtics step_of(1.12 * span, 4.5 * across / 300.0) font ",12"
    set lmargin at screen px(left_of(p))
    set rmargin at screen px(left_of(p) + across)
    set tmargin at screen py(top_of(p))
    set bmargin at screen py(top_of(p) + each)
    set label 1 panel_text[p] at screen px(left_of(p)), screen py(top_of(p) - 28) \
        font fitting(panel_text[p], across + 10) textcolor rgb ink
    set label 2 panel_note[p] at screen px(left_of(p)), screen py(top_of(p) - 9) font ",12" \
        textcolor rgb dim
    set format x "%.0f %%"
    set format y (column_of(p) == 0 ? "%.0f %%" : "")
    set xlabel (p + columns > panels ? "time of a step" : "") textcolor rgb ink
    if (column_of(p) == 0) {
        set label 3 "peak memory" center rotate by 90 textcolor rgb ink \
            at screen px(18), screen py(top_of(p) + each / 2) font ",13"
    }
    if (p == panels) {
        eval heading
        eval legend
    }
    if (empty) {
        plot -1
        continue
    }
    plot DATA using (kind(0, "time")):(here("peak")) with points pointtype 7 pointsize 0.6 \
             linecolor rgb faint, \
         DATA using (front("time")):(front("peak")) smooth unique with steps \
             linecolor rgb hue[2] linewidth 1.2, \
         DATA using (kind(1, "time")):(here("peak")) with points pointtype 7 pointsize 0.9 \
             linecolor rgb hue[2], \
         DATA using (first("time")):(here("peak")) with points pointtype 5 pointsize 1.0 \
             linecolor rgb ink, \
         DATA using (label_left("time")):(here("peak")):(strcol("label")) with labels left \
             offset 0.6, 0.5 font ",10" textcolor rgb ink, \
         DATA using (label_right("time")):(here("peak")):(strcol("label")) with labels right \
             offset -0.6, 0.5 font ",10" textcolor rgb ink
}
unset multiplot
