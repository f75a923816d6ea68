# map.gp -- a number for each spec (downwards) and set-up (to the right), as a colour.
#
# Columns of DATA: what, x, y, part.  A `cell` is part percent of the first spec of its set-up, `oom`
# ran out of memory, `refused` was refused, `absent` not computed; a `dot` says that a spec has a
# technique.  The head has the names: a `column` for each set-up, a `name` for each spec or else a
# `technique` for each column of dots.
DATA = ARG1
OUT = ARG2
load ARG0[:strlen(ARG0) - strlen("map.gp")]."style.gp"

specs = y_high
of_time = x_text eq "time"

# From dark to light as memory or time rises to that of the first spec, orange beyond.
mix(a, b, t, shift) = int(((a >> shift) & 255) * (1 - t) + ((b >> shift) & 255) * t) << shift
blend(a, b, t) = mix(a, b, t, 16) | mix(a, b, t, 8) | mix(a, b, t, 0)
within(t) = t < 0 ? 0 : t > 1 ? 1 : t
less(part) = blend(0x08306B, 0xF2F6FB, within(part / 100.0))
more(part) = blend(0xFBF4EE, 0xB34700, within((part - 100) / 100.0))
colour(part) = part <= 100 ? less(part) : more(part)
bright(c) = 0.299 * ((c >> 16) & 255) + 0.587 * ((c >> 8) & 255) + 0.114 * (c & 255)
is_dark(part) = bright(colour(part)) < 128

none = legend_add(of_time ? "half of the time" : "a tenth of the memory", colour(of_time ? 50 : 10), BOX)
none = legend_add(of_time ? "as much" : "half", colour(of_time ? 100 : 50), BOX)
none = legend_add(of_time ? "half more" : "as much", colour(of_time ? 150 : 100), BOX)
none = legend_add(of_time ? "twice as much" : "half more", colour(of_time ? 200 : 150), BOX)
wordy(what) = strcol("what") eq what
stats DATA using (wordy("refused")) nooutput
if (STATS_sum > 0) { none = legend_add("refused", held, BOX) }
stats DATA using (wordy("oom")) nooutput
if (STATS_sum > 0) { none = legend_add("out of memory", alarm, DASHES) }
do for [i = 1:legends] { none = legend_step(i) }

none = widest(0)
across_names = techniques > 0 ? 20.0 * techniques + 10 : name_room(410) + 10
heads = 0.0
do for [i = 1:setups] { heads = longer(heads, text_width(column_text[i])) }
do for [i = 1:techniques] { heads = longer(heads, text_width(technique_text[i])) }
lean = heads * 0.62 + 12.0 # names lean over
right = 20 + lean * 0.7
across = wide - across_names - 20 - right
each = across / setups > 90 ? 90 : across / setups # pixels of a set-up
line = specs > 40 ? (specs > 120 ? 7.0 : 12.0) : folded_names(0) > 0 ? 30.0 : 24.0
# Leaning names are as far apart as 0.7 of the width of a set-up.
setup_font = each >= 24 ? ",12" : each >= 16 ? ",9" : ",7"
above = 82 + lean
below = 46 + 22 * legend_rows + 18 * caption_rows
high = above + specs * line + below
legend_y = high - 12 - 18 * caption_rows - 22 * legend_rows
numbers = line >= 20 && each >= 26

eval canvas(high)
set output OUT
set lmargin at screen px(20) # names and dots stand in the area of the plot too
set rmargin at screen px(20 + across_names + each * setups + right)
set tmargin at screen py(above - lean)
set bmargin at screen py(above + specs * line)
set xrange [0.5 - across_names / each:setups + 0.5 + right / each]
set yrange [specs + 0.5:0.5 - lean / line]
unset border
unset tics
unset grid
eval heading
eval legend

x_of(what) = wordy(what) ? column("x") : NaN
top = 0.5 - 6.0 / line
# Techniques stand to the left of the map, 20 pixels each.
technique_x(i) = 0.5 - (10 + 20 * (techniques - i + 0.5)) / each
dot_x(none) = wordy("dot") ? technique_x(column("x")) : NaN
edge = specs > 40 ? 0.5 : 0.47
bottom(y) = y - edge
lid(y) = y + edge
do for [i = 1:setups] {
    set label 3000 + i column_text[i] at first i, first top left rotate by 45 font setup_font \
        textcolor rgb ink
}
do for [i = 1:techniques] {
    set label 4000 + i technique_text[i] at first technique_x(i), first top left rotate by 45 \
        font ",9" textcolor rgb ink
}
do for [i = 1:names] {
    two = name_more[i] ne "-"
    set label 5000 + 2 * i name_text[i] at first 0.5, first i - (two ? 7 / line : 0) right \
        offset -0.6, 0 font name_font(410) textcolor rgb ink
    if (two) {
        set label 5001 + 2 * i name_more[i] at first 0.5, first i + 7 / line right \
            offset -0.6, 0 font name_font(410) textcolor rgb ink
    }
}
plot DATA using (x_of("refused")):(column("y")):(column("x") - edge):(column("x") + edge) \
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
     DATA using (dot_x(0)):(column("y")) with points pointtype 7 \
             pointsize (line < 10 ? 0.45 : 0.6) linecolor rgb ink
