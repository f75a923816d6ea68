# peaks.gp -- the four peaks of every spec as bars, and what the device has.
#
# Columns of DATA: panel, requested, allocated, reserved, device, oom, spec.
DATA = ARG1
OUT = ARG2
load ARG0[:strlen(ARG0) - strlen("peaks.gp")]."style.gp"

array part[4] = ["requested", "allocated", "reserved", "device"]
array part_text[4] = ["requested by the program", "allocated, rounded up", \
                      "reserved by the allocator", "seen from outside, with the CUDA context"]
array part_hue[4] = [8, 1, 4, 2]
show_limit = limit > 0 && limit <= 3 * y_high
peak = show_limit && limit > y_high ? limit : y_high
unit = unit_of(peak)
do for [i = 1:4] { none = legend_add(part_text[i], hue[part_hue[i]], BOX) }
if (show_limit) { none = legend_add(limit_text, alarm, DASHES) }
do for [i = 1:legends] { none = legend_step(i) }

above = 78
group = 102 # pixels of one spec: its name and four bars of 18
below = 102 + 22 * legend_rows + 18 * caption_rows
high = above + panels * group + below
legend_y = high - 12 - 18 * caption_rows - 22 * legend_rows

eval canvas(high)
set output OUT
set lmargin at screen px(20)
set rmargin at screen px(wide - 30)
set tmargin at screen py(above)
set bmargin at screen py(above + panels * group)
set xrange [0:1.14 * peak / unit]
set yrange [panels * group:0] # pixels, downwards
set border 1
unset ytics
set grid noytics
set xlabel unit_name(unit) textcolor rgb ink
eval heading
eval legend
do for [p = 1:panels] {
    failed = panel_note[p][:6] eq "out of"
    set label 2000 + p panel_text[p].(failed ? ": ".panel_note[p] : "") \
        at graph 0, first group * (p - 1) + 14 offset 0.3, 0 \
        textcolor rgb (failed ? alarm : ink)
}
top(i) = group * (column("panel") - 1) + 26 + 18 * (i - 1)
bytes(i) = column(part[i]) / unit
plot for [i = 1:4] DATA using (0):(top(i)):(0):(bytes(i)):(top(i)):(top(i) + 16) \
         with boxxyerror linecolor rgb hue[part_hue[i]], \
     for [i = 1:4] DATA using (bytes(i)):(top(i) + 8):(sprintf("%.2f", bytes(i))) \
         with labels left offset 0.5, 0 font ",12" textcolor rgb ink, \
     "+" using (limit / unit):(show_limit ? 0 : NaN):(0):(panels * group) every ::0::0 \
         with vectors nohead linecolor rgb alarm linewidth 2 dashtype 2
