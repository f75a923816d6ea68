# timeline.gp -- memory over time: handed out, held, what the device has; a panel per spec.
#
# Columns of DATA: panel, x, requested, allocated, reserved, and one per role where known.
# A change has two rows, before and after, so that lines between rows make steps.
DATA = ARG1
OUT = ARG2
load ARG0[:strlen(ARG0) - strlen("timeline.gp")]."style.gp"

show_limit = limit > 0 && limit <= 2 * y_high
peak = show_limit && limit > y_high ? limit : y_high
unit = unit_of(peak)

none = legend_add("held by the allocator, free", held, BOX)
do for [s = stacks:1:-1] { none = legend_add(stack_text[s], hue[stack_hue[s]], BOX) }
none = legend_add("requested", ink, DOTS)
none = legend_add("reserved", ink, LINE)
if (show_limit) { none = legend_add(limit_text, alarm, DASHES) }
do for [i = 1:legends] { none = legend_step(i) }

left = 92
above = 108 # pixels: titles, a panel, between panels; below: axis, legend, caption
each = panels == 1 ? 380 : panels == 2 ? 260 : 190
between = 44
below = 102 + 22 * legend_rows + 18 * caption_rows
high = above + panels * each + (panels - 1) * between + below
top_of(p) = above + (p - 1) * (each + between)
legend_y = high - 12 - 18 * caption_rows - 22 * legend_rows

eval canvas(high)
set output OUT
set xrange [x_low / x_unit:x_high / x_unit]
head_room = 17.0 * mark_rows + 10 # pixels for texts above the highest curve
set yrange [0:peak / unit / (1 - head_room / each)]
x(none) = column("x") / x_unit
here(c) = column("panel") == p ? column(c) / unit : NaN
upto(s) = column("panel") == p ? (sum [i = 1:s] column(stack_column[i])) / unit : NaN

mark_width(m) = mark_alarm[m] ? 2 : mark_text[m] eq " " ? 0.4 : 0.9

set multiplot
do for [p = 1:panels] {
    unset label
    unset arrow
    set lmargin at screen px(left)
    set rmargin at screen px(wide - 30)
    set tmargin at screen py(top_of(p))
    set bmargin at screen py(top_of(p) + each)
    set label 1 panel_text[p] at screen px(left), screen py(top_of(p) - 14) \
        font fitting(panel_text[p], 520) textcolor rgb ink
    set label 2 panel_note[p] at screen px(wide - 30), screen py(top_of(p) - 14) right \
        font ",14" textcolor rgb note_colour(panel_note[p])
    set label 3 "memory, ".unit_name(unit) at screen px(26), screen py(top_of(p) + each / 2) \
        center rotate by 90 textcolor rgb ink
    set format x ""
    if (p == panels) {
        set format x "%.7g"
        set xlabel x_label textcolor rgb ink
        eval heading
        eval legend
    }
    do for [m = 1:marks] {
        if (mark_panel[m] != p) { continue }
        at = mark_x[m] / x_unit
        set arrow m from first at, graph 0 to first at, graph 1 nohead \
            linecolor rgb (mark_alarm[m] ? alarm : dim) linewidth mark_width(m) \
            dashtype 3 front
        text_y = mark_alarm[m] ? 0.5 : 0.97 - 17.0 * mark_row[m] / each
        text_colour = mark_alarm[m] ? alarm : ink
        if (mark_left[m]) {
            set label 3 + m mark_text[m] at first at, graph text_y right offset -0.4, -0.3 \
                font ",12" textcolor rgb text_colour front
        } else {
            set label 3 + m mark_text[m] at first at, graph text_y offset 0.4, -0.3 \
                font ",12" textcolor rgb text_colour front
        }
    }
    plot DATA using (x(0)):(here("reserved")) with filledcurves y1=0 linecolor rgb held, \
         for [s = stacks:1:-1] DATA using (x(0)):(upto(s)) with filledcurves y1=0 \
             linecolor rgb hue[stack_hue[s]], \
         DATA using (x(0)):(here("requested")) with lines linecolor rgb ink dashtype 3, \
         DATA using (x(0)):(here("reserved")) with lines linecolor rgb ink linewidth 1.5, \
         show_limit ? limit / unit : NaN with lines linecolor rgb alarm linewidth 2 dashtype 2
}
unset multiplot
