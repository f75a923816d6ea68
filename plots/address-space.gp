# address-space.gp -- who lives where in device memory, and when; panels with the same scales.
#
# Columns of DATA: what, panel, x0, x1, y0, y1, hue, shade.  A `segment` is memory held from the
# device, a `block` was given to one storage, both with outlines; `held` and `part` are the same
# where they are too small for outlines, or several that are too small to be seen alone: then
# they are as strong as the share of their surface, `shade` percent, that is really taken.
DATA = ARG1
OUT = ARG2
load ARG0[:strlen(ARG0) - strlen("address-space.gp")]."style.gp"

unit = unit_of(y_high)
do for [i = 1:hues] { none = legend_add(hue_text[i], hue[hue_index[i]], BOX) }
none = legend_add("held by the allocator, free", held, BOX)
do for [i = 1:legends] { none = legend_step(i) }

columns = panels == 1 ? 1 : 2
rows = (panels + columns - 1) / columns
above = 128 # pixels: titles, a panel, between panels; below: axis, legend, caption
each = rows == 1 ? 460 : 340
between = 92
gap = 40
below = 102 + 22 * legend_rows + 18 * caption_rows
high = above + rows * each + (rows - 1) * between + below
legend_y = high - 12 - 18 * caption_rows - 22 * legend_rows
across = columns == 1 ? wide - 122 : (wide - 122 - gap) / 2
row_of(p) = (p - 1) / columns
column_of(p) = (p - 1) % columns
left_of(p) = 92 + column_of(p) * (across + gap)
top_of(p) = above + row_of(p) * (each + between)

# A colour mixed with what lies below, as far as the share of the surface demands.
channel(c, shift) = (c >> shift) & 255
mixed(c, below, share, shift) = \
    int(channel(c, shift) * share + channel(below, shift) * (1 - share)) << shift
mix(c, below, share) = mixed(c, below, share, 16) | mixed(c, below, share, 8) \
                     | mixed(c, below, share, 0)
share(none) = column("shade") / 100.0
colour(none) = column("hue") < 1 ? mix(held, paper, share(0)) \
                                 : mix(hue[int(column("hue"))], held, share(0))

eval canvas(high)
set output OUT
set xrange [x_low / x_unit:x_high / x_unit]
set yrange [0:(marks ? 1 + 28.0 / each : 1.02) * y_high / unit]
set grid noxtics noytics
set xtics step_of((x_high - x_low) / x_unit, 6 * across / 440.0)
seen(what) = strcol("what") eq what && column("panel") == p
left(what) = seen(what) ? column("x0") / x_unit : NaN
right(what) = seen(what) ? column("x1") / x_unit : NaN
x0(none) = column("x0") / x_unit
x1(none) = column("x1") / x_unit
y0(none) = column("y0") / unit
y1(none) = column("y1") / unit

set multiplot
do for [p = 1:panels] {
    unset label
    unset arrow
    set lmargin at screen px(left_of(p))
    set rmargin at screen px(left_of(p) + across)
    set tmargin at screen py(top_of(p))
    set bmargin at screen py(top_of(p) + each)
    set label 1 panel_text[p] at screen px(left_of(p)), screen py(top_of(p) - 34) \
        font fitting(panel_text[p], across + 10) textcolor rgb ink
    set label 2 panel_note[p] at screen px(left_of(p)), screen py(top_of(p) - 14) font ",14" \
        textcolor rgb note_colour(panel_note[p])
    set format x "%.7g"
    set xlabel (row_of(p) == rows - 1 ? x_label : "") textcolor rgb ink
    set format y (column_of(p) == 0 ? "%.4g" : "")
    if (column_of(p) == 0) {
        set label 3 "device memory, ".unit_name(unit) center rotate by 90 textcolor rgb ink \
            at screen px(26), screen py(top_of(p) + each / 2)
    }
    do for [m = 1:marks] {
        if (mark_panel[m] != p) { continue }
        at = mark_x[m] / x_unit
        set arrow m from first at, graph 0 to first at, graph 1 nohead linecolor rgb dim \
            linewidth 0.7 dashtype 3 front
        set label 10 + m mark_text[m] at first at, graph 1 offset 0.3, -0.6 font ",11" \
            textcolor rgb ink front
    }
    if (p == panels) {
        eval heading
        eval legend
    }
    plot DATA using (left("held")):(y0(0)):(x0(0)):(x1(0)):(y0(0)):(y1(0)):(colour(0)) \
             with boxxyerror linecolor rgb variable, \
         DATA using (left("segment")):(y0(0)):(x0(0)):(x1(0)):(y0(0)):(y1(0)) \
             with boxxyerror linecolor rgb held fillcolor rgb held, \
         DATA using (left("part")):(y0(0)):(x0(0)):(x1(0)):(y0(0)):(y1(0)):(colour(0)) \
             with boxxyerror linecolor rgb variable, \
         DATA using (left("block")):(y0(0)):(x0(0)):(x1(0)):(y0(0)):(y1(0)):(colour(0)) \
             with boxxyerror linecolor rgb variable, \
         DATA using (right("block")):(y0(0)):(0):(y1(0) - y0(0)) \
             with vectors nohead linecolor rgb paper linewidth 0.6, \
         DATA using (left("block")):(y1(0)):(x1(0) - x0(0)):(0) \
             with vectors nohead linecolor rgb paper linewidth 0.6, \
         DATA using (left("segment")):(y0(0)):(x0(0)):(x1(0)):(y0(0)):(y1(0)) \
             with boxxyerror linecolor rgb 0x777777 linewidth 0.5 fillstyle empty border
}
unset multiplot
