# bars.gp -- memory and time of each spec as bars, a panel per set-up.
#
# Columns of DATA: panel, row, memory, time, note, label; memory and time are percent of the first
# spec's, note says why there is neither.  A `name` of the head is that of a row.
DATA = ARG1
OUT = ARG2
load ARG0[:strlen(ARG0) - strlen("bars.gp")]."style.gp"

none = legend_add("peak memory", hue[2], BOX)
none = legend_add("time of a step", hue[4], BOX)
do for [i = 1:legends] { none = legend_step(i) }

stats DATA using (column("row")) nooutput
specs = STATS_max
none = widest(0)
across_names = name_room(400)
columns = panels < 3 ? panels : 3
rows = (panels + columns - 1) / columns
line = folded_names(0) > 0 ? 28 : 22 # pixels of a spec
above = 112
each = specs * line
between = 66
gap = 30
below = 100 + 22 * legend_rows + 18 * caption_rows
high = above + rows * each + (rows - 1) * between + below
legend_y = high - 12 - 18 * caption_rows - 22 * legend_rows
across = (wide - across_names - 20 - 40 - (columns - 1) * gap) / columns
row_of(p) = (p - 1) / columns
column_of(p) = (p - 1) % columns
left_of(p) = across_names + 32 + column_of(p) * (across + gap)
top_of(p) = above + row_of(p) * (each + between)

eval canvas(high)
set output OUT
most = x_high > 250 ? 250 : x_high # what is longer is cut, its number says so
set xrange [0:1.2 * most]
set yrange [each:0]
set border 1
unset ytics
set grid noytics
set xtics step_of(1.2 * most, 3) font ",12"
top(none) = line * (column("row") - 1) + (line - 18) / 2
here(c) = column("panel") == p && strcol("note") eq "" ? column(c) : NaN
cut(c) = here(c) > most ? most : here(c)
text(c) = sprintf("%.0f", column(c))

set multiplot
do for [p = 1:panels] {
    unset label
    set lmargin at screen px(left_of(p))
    set rmargin at screen px(left_of(p) + across)
    set tmargin at screen py(top_of(p))
    set bmargin at screen py(top_of(p) + each)
    set label 1 panel_text[p] at screen px(left_of(p)), screen py(top_of(p) - 27) \
        font fitting(panel_text[p], across + 10) textcolor rgb ink
    set label 2 panel_note[p] at screen px(left_of(p)), screen py(top_of(p) - 9) font ",11" \
        textcolor rgb dim
    set format x (p + columns > panels ? "%.0f %%" : "")
    set xlabel (p + columns > panels ? "of what is 100 %" : "") textcolor rgb ink
    if (p == panels) {
        eval heading
        eval legend
    }
    do for [i = 1:column_of(p) == 0 ? names : 0] {
        row_y = line * (i - 0.5)
        two = name_more[i] ne "-"
        set label 3000 + 2 * i name_text[i] at first 0, first row_y - (two ? 7 : 0) right \
            offset -0.6, 0 font name_font(400) textcolor rgb ink
        if (two) {
            set label 3001 + 2 * i name_more[i] at first 0, first row_y + 7 right \
                offset -0.6, 0 font name_font(400) textcolor rgb ink
        }
    }
    plot DATA using (0):(top(0)):(0):(cut("memory")):(top(0)):(top(0) + 9) \
             with boxxyerror linecolor rgb hue[2], \
         DATA using (0):(top(0)):(0):(cut("time")):(top(0) + 9):(top(0) + 18) \
             with boxxyerror linecolor rgb hue[4], \
         DATA using (cut("memory")):(top(0) + 5):(text("memory")) with labels left \
             offset 0.3, 0 font ",8" textcolor rgb ink, \
         DATA using (cut("time")):(top(0) + 14):(text("time")) with labels left \
             offset 0.3, 0 font ",8" textcolor rgb ink, \
         DATA using (column("panel") == p ? 0 : NaN):(top(0) + 9):(strcol("note")) with labels \
             left offset 0.5, 0 font ",11" textcolor rgb dim
}
unset multiplot
