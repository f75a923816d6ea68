# map.gp -- a number for each spec (downwards) and set-up (to the right), as a colour.
#
# Columns of DATA: what, x, y, part, text.  A `cell` is part percent of the first spec of its
# set-up, `oom` ran out of memory, `none` was refused or not computed; `setup`, `spec` and
# `technique` are names, a `dot` says that a spec has a technique.
DATA = ARG1
OUT = ARG2
load ARG0[:strlen(ARG0) - strlen("map.gp")]."style.gp"

techniques = x_low
setups = x_high
specs = y_high
of_time = x_text eq "time"

# From dark to light as memory rises to that of the first spec, orange beyond; for time from light
# to dark: dark blue is a little memory, dark orange a lot of time.
mix(a, b, t, shift) = int(((a >> shift) & 255) * (1 - t) + ((b >> shift) & 255) * t) << shift
blend(a, b, t) = mix(a, b, t, 16) | mix(a, b, t, 8) | mix(a, b, t, 0)
within(t) = t < 0 ? 0 : t > 1 ? 1 : t
less(part) = blend(0x08306B, 0xF2F6FB, within(part / 100.0))
more(part) = blend(0xFBF4EE, 0xB34700, within((part - 100) / 100.0))
colour(part) = part <= 100 ? less(part) : more(part)
is_dark(part) = part < 62 || part > 150

none = legend_add(of_time ? "half of the time" : "a tenth of the memory", colour(of_time ? 50 : 10), BOX)
none = legend_add(of_time ? "as much" : "half", colour(of_time ? 100 : 50), BOX)
none = legend_add(of_time ? "half more" : "as much", colour(of_time ? 150 : 100), BOX)
none = legend_add(of_time ? "twice as much" : "half more", colour(of_time ? 200 : 150), BOX)
none = legend_add("refused or not computed", held, BOX)
none = legend_add("out of memory", alarm, DASHES)
do for [i = 1:legends] { none = legend_step(i) }

wordy(what) = strcol("what") eq what
stats DATA using (wordy("spec") ? text_width(strcol("text")) : 0) nooutput
names = techniques > 0 ? 20.0 * techniques + 10 : STATS_max * 0.92 > 400 ? 400 : STATS_max * 0.92 + 10
stats DATA using (wordy("setup") || wordy("technique") ? text_width(strcol("text")) : 0) nooutput
lean = STATS_max * 0.62 + 12.0 # names lean over
right = 20 + lean * 0.7
across = wide - names - 20 - right
each = across / setups > 90 ? 90 : across / setups # pixels of a set-up
line = specs > 40 ? (specs > 120 ? 7.0 : 12.0) : 24.0
above = 82 + lean
below = 46 + 22 * legend_rows + 18 * caption_rows
high = above + specs * line + below
legend_y = high - 12 - 18 * caption_rows - 22 * legend_rows
numbers = line >= 20 && each >= 26

eval canvas(high)
set output OUT
set lmargin at screen px(20) # names and dots stand in the area of the plot too
set rmargin at screen px(20 + names + each * setups + right)
set tmargin at screen py(above - lean)
set bmargin at screen py(above + specs * line)
set xrange [0.5 - names / each:setups + 0.5 + right / each]
set yrange [specs + 0.5:0.5 - lean / line]
unset border
unset tics
unset grid
eval heading
eval legend

x_of(what) = wordy(what) ? column("x") : NaN
top(none) = 0.5 - 6.0 / line
# Techniques stand to the left of the map, 20 pixels each.
technique_x(none) = 0.5 - (10 + 20 * (techniques - column("x") + 0.5)) / each
dot_x(none) = wordy("dot") ? technique_x(0) : NaN
name_x(none) = wordy("technique") ? technique_x(0) : NaN
edge = specs > 40 ? 0.5 : 0.47
bottom(y) = y - edge
lid(y) = y + edge
plot DATA using (x_of("none")):(column("y")):(column("x") - edge):(column("x") + edge) \
             :(bottom(column("y"))):(lid(column("y"))) with boxxyerror linecolor rgb held, \
     DATA using (x_of("cell")):(column("y")):(column("x") - edge):(column("x") + edge) \
             :(bottom(column("y"))):(lid(column("y"))):(colour(column("part"))) \
             with boxxyerror linecolor rgb variable, \
     DATA using (x_of("oom")):(column("y")):(column("x") - 0.4):(column("x") + 0.4) \
             :(column("y") - 0.35):(column("y") + 0.35) with boxxyerror \
             linecolor rgb alarm linewidth 1.5 dashtype 2 fillstyle empty border, \
     DATA using (numbers && !is_dark(column("part")) ? x_of("cell") : NaN):(column("y")) \
             :(sprintf("%.0f", column("part"))) with labels font ",11" textcolor rgb ink, \
     DATA using (numbers && is_dark(column("part")) ? x_of("cell") : NaN):(column("y")) \
             :(sprintf("%.0f", column("part"))) with labels font ",11" textcolor rgb paper, \
     DATA using (x_of("setup")):(top(0)):(strcol("text")) with labels left rotate by 45 \
             font ",12" textcolor rgb ink, \
     DATA using (name_x(0)):(top(0)):(strcol("text")) with labels left rotate by 45 \
             font ",12" textcolor rgb ink, \
     DATA using (dot_x(0)):(column("y")) with points pointtype 7 \
             pointsize (line < 10 ? 0.45 : 0.6) linecolor rgb ink, \
     DATA using (wordy("spec") ? 0.5 : NaN):(column("y")):(strcol("text")) with labels right \
             offset -0.6, 0 font ",12" textcolor rgb ink
