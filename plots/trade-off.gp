# trade-off.gp -- peak memory against time of a step, a panel per set-up.  The memory scale is that
# of all panels, unless it would press most of them flat.
#
# Columns of DATA: panel, time, peak, kind, number; time and peak are percent of the first spec's.
# kind is 1 for specs on the Pareto front, 0 for others, and 2 more for the first spec; two rows with a peak
# below 0 say from where to where a panel goes, and give each kind a point.  Numbers are those of
# `key` lines of the head, several where points lie on top of each other, '-' is none.
DATA = ARG1
OUT = ARG2
load ARG0[:strlen(ARG0) - strlen("trade-off.gp")]."style.gp"

none = legend_add("100 %", ink, BOX)
none = legend_add("Pareto front", hue[2], LINE)
none = legend_add("others", faint, BOX)
do for [i = 1:legends] { none = legend_step(i) }

columns = panels < 3 ? panels : 3
rows = (panels + columns - 1) / columns
above = 112
each = columns == 1 ? 420 : columns == 2 ? 320 : 210
between = 84
gap = y_high > 250 ? 70 : 40
key_widest = 0.0
do for [i = 1:keys] { key_widest = longer(key_widest, text_width(key_text[i])) }
key_columns = keys == 0 ? 1 : 0.85 * key_widest < 300 ? 3 : 0.85 * key_widest < 460 ? 2 : 1
key_rows = (keys + key_columns - 1) / key_columns
key_top = 98 # pixels below the lowest panel
below = 122 + 22 * legend_rows + 18 * caption_rows + 18 * key_rows
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
own = y_high > 250 # each panel has its own scale
here(c) = column("panel") == p ? column(c) : NaN
kind(k, c) = column("panel") == p && column("kind") == k ? column(c) : NaN
front(c) = column("panel") == p && int(column("kind")) % 2 == 1 && column("peak") >= 0 ? column(c) : NaN
first(c) = column("panel") == p && column("kind") >= 2 ? column(c) : NaN
# A number stands to the right of its point where there is room; of the two rows, one on each side.
is_right(x) = (x - low) / (1.12 * span) > 0.93 || (column("peak") < 0 && x > low)
named(c) = strcol("number") ne "-" || column("peak") < 0 ? here(c) : NaN
text_left(c) = is_right(column("time")) ? NaN : named(c)
text_right(c) = is_right(column("time")) ? named(c) : NaN

set multiplot
do for [p = 1:panels] {
    unset label
    set xrange [*:*] # stats looks only at what lies within
    set yrange [*:*]
    stats DATA using (here("peak")) nooutput
    tall = own && STATS_max > 100 ? STATS_max : own ? 100 : y_high
    stats DATA using (here("time")) nooutput
    span = STATS_max - STATS_min
    low = STATS_min
    empty = STATS_records < 3
    set xrange [low - 0.06 * span:low + 1.06 * span]
    set yrange [0:1.14 * tall]
    set ytics step_of(1.14 * tall, 6) font ",12"
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
    set format y (own || column_of(p) == 0 ? "%.0f %%" : "")
    set xlabel (p + columns > panels ? "time of a step" : "") textcolor rgb ink
    if (column_of(p) == 0) {
        set label 3 "peak memory" center rotate by 90 textcolor rgb ink \
            at screen px(18), screen py(top_of(p) + each / 2) font ",13"
    }
    if (p == panels) {
        eval heading
        eval legend
        do for [i = 1:keys] {
            set label 2000 + i key_text[i] font ",11" textcolor rgb ink \
                at screen px(20 + (i - 1) / key_rows * (wide - 40) / key_columns), \
                   screen py(top_of(panels) + each + key_top + 18 * ((i - 1) % key_rows))
        }
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
         DATA using (text_left("time")):(here("peak")):(strcol("number")) with labels left \
             offset 0.5, 0.5 font ",11" textcolor rgb ink, \
         DATA using (text_right("time")):(here("peak")):(strcol("number")) with labels right \
             offset -0.5, 0.5 font ",11" textcolor rgb ink
}
unset multiplot
