# style.gp -- what all figures share: how data begins, units, colours, fonts, the frame.
#
# A figure is `gnuplot -c NAME.gp DATA.csv OUT.svg` (or OUT.png).  DATA begins with lines of a
# key and values, separated by tabs; the first of them, "# head" N, says how many there are;
# below them stands an ordinary table.  Texts of a recording reach a figure only as data, never
# as commands.  ARG1 and ARG2 end where `load` begins: a figure sets DATA and OUT before.

# ---- what the head of DATA says -----------------------------------------------------------

array panel_text[64]
array panel_note[64]
array stack_column[64]
array stack_text[64]
array stack_hue[64]
array hue_text[64]
array key_text[64]
array name_text[512]
array name_more[512]
array column_text[512]
array technique_text[64]
array hue_index[64]
array mark_panel[2048]
array mark_x[2048]
array mark_text[2048]
array mark_alarm[2048]
array mark_left[2048]
array mark_row[2048]
title_text = ""
subtitle_text = ""
caption_text = ""
caption_rows = 0
x_text = ""
x_low = 0.0
x_high = 1.0
y_high = 1.0
limit = 0.0
limit_text = ""
panels = 0
keys = 0
names = 0
setups = 0
techniques = 0
stacks = 0
hues = 0
marks = 0
mark_rows = 0

see_caption(n) = (caption_rows = caption_rows + 1, \
                  caption_text = caption_text.(caption_rows > 1 ? "\n" : "").strcol(2), n)
see_panel(n) = (panels = panels + 1, panel_text[panels] = strcol(3), \
                panel_note[panels] = strcol(4), n)
see_stack(n) = (stacks = stacks + 1, stack_column[stacks] = int(column(2)), \
                stack_text[stacks] = strcol(3), stack_hue[stacks] = int(column(4)), n)
see_key(n) = (keys = keys + 1, key_text[keys] = strcol(2)."  ".strcol(3), n)
see_name(n) = (names = names + 1, name_text[names] = strcol(3), name_more[names] = strcol(4), n)
see_column(n) = (setups = setups + 1, column_text[setups] = strcol(3), n)
see_technique(n) = (techniques = techniques + 1, technique_text[techniques] = strcol(3), n)
see_hue(n) = (hues = hues + 1, hue_index[hues] = int(column(2)), hue_text[hues] = strcol(3), n)
see_mark(n) = (marks = marks + 1, mark_panel[marks] = int(column(2)), \
               mark_x[marks] = column(3), mark_text[marks] = strcol(4), \
               mark_alarm[marks] = int(column(5)), \
               mark_left[marks] = int(column(6)), mark_row[marks] = int(column(7)), \
               mark_rows = mark_row[marks] >= mark_rows ? mark_row[marks] + 1 : mark_rows, n)
see(key) = key eq "# head" ? (head_lines = int(column(2)), 0) \
         : key eq "# title" ? (title_text = strcol(2), 0) \
         : key eq "# subtitle" ? (subtitle_text = strcol(2), 0) \
         : key eq "# caption" ? see_caption(0) \
         : key eq "# x" ? (x_low = column(2), x_high = column(3), x_text = strcol(4), 0) \
         : key eq "# y" ? (y_high = column(2), 0) \
         : key eq "# limit" ? (limit = column(2), limit_text = strcol(3), 0) \
         : key eq "# panel" ? see_panel(0) \
         : key eq "# stack" ? see_stack(0) \
         : key eq "# hue" ? see_hue(0) \
         : key eq "# key" ? see_key(0) \
         : key eq "# name" ? see_name(0) \
         : key eq "# column" ? see_column(0) \
         : key eq "# technique" ? see_technique(0) \
         : key eq "# mark" ? see_mark(0) : 0

set datafile separator "\t"
set datafile commentschars ""
stats DATA every ::0::0 using (see(strcol(1))) nooutput
stats DATA every ::1::head_lines - 1 using (see(strcol(1))) nooutput
set datafile separator comma
set datafile commentschars "#"
set datafile columnheaders

# ---- units --------------------------------------------------------------------------------

unit_of(bytes) = bytes < 2.0**12 ? 1.0 : bytes < 2.0**21 ? 2.0**10 \
               : bytes < 2.0**31 ? 2.0**20 : 2.0**30
unit_name(unit) = unit == 1.0 ? "bytes" : unit == 2.0**10 ? "KiB" \
                : unit == 2.0**20 ? "MiB" : "GiB"

# Time comes in ns, all other x in events.
time_unit(ns) = ns < 2e3 ? 1.0 : ns < 2e6 ? 1e3 : ns < 2e9 ? 1e6 : 1e9
time_name(unit) = unit == 1.0 ? "ns" : unit == 1e3 ? "µs" : unit == 1e6 ? "ms" : "s"
x_unit = x_text eq "time" ? time_unit(x_high) : x_high < 2e6 ? 1.0 : 1e6
x_label = x_text eq "time" ? "time, ".time_name(x_unit) \
        : x_unit == 1.0 ? x_text : "million ".x_text

# ---- colours: Okabe and Ito's palette, which colour-blind readers can tell apart ----------

array hue[9] = [0x56B4E9, 0x0072B2, 0x009E73, 0xE69F00, 0xD55E00, \
                0xCC79A7, 0xF0E442, 0x999999, 0x000000]
held = 0xE4E4E4
paper = 0xFFFFFF
ink = 0x222222
dim = 0x666666
faint = 0x999999
alarm = 0xD55E00
note_colour(note) = note[:6] eq "out of" ? alarm : dim

# ---- the frame ----------------------------------------------------------------------------

set encoding utf8
wide = 1000
vector = OUT[strlen(OUT) - 3:] eq ".svg"
common = 'noenhanced font "Arial,15" background "#ffffff"'
canvas(high) = vector \
    ? sprintf("set terminal svg size %d,%d %s", wide, high, common) \
    : sprintf("set terminal pngcairo size %d,%d fontscale 2 linewidth 2 %s", \
              2 * wide, 2 * high, common)

# Places on the canvas, in pixels from its upper left corner; a figure sets `high`.
px(n) = n / (1.0 * wide)
py(n) = 1 - n / (1.0 * high)

set border 3 linecolor rgb faint linewidth 1
set tics nomirror out scale 0.5 textcolor rgb ink
set grid back linecolor rgb 0xDDDDDD linewidth 0.7 linetype 1
set style fill solid 1.0 noborder
unset key

# Room for about n labels on an axis: a step of 1, 2, 5 or 10.
step_base(part) = 10.0**floor(log10(part))
step_fits(part, base) = part > 5 * base ? 10 * base : part > 2 * base ? 5 * base \
                      : part > base ? 2 * base : base
step_of(range, n) = step_fits(range / n, step_base(range / n))

heading = "set label 1001 title_text at screen px(20), screen py(26) " \
        . "    font ',20' textcolor rgb ink;" \
        . "set label 1002 subtitle_text at screen px(20), screen py(52) " \
        . "    font smaller(subtitle_text, wide - 30) textcolor rgb dim;" \
        . "set label 1003 caption_text at screen px(20), screen py(high - 18 * caption_rows) " \
        . "    font ',12' textcolor rgb dim"

# The name of a panel in letters that fit; gnuplot does not say how wide a text is, but three
# kinds of letters are near enough.
letter_width(c) = strstrt("fijlrtI.,:;()' ", c) ? 5.4 : strstrt("mwMW", c) ? 12.5 : 9.2
text_width(text) = strlen(text) ? (sum [i = 1:strlen(text)] letter_width(text[i:i])) : 0
smaller(text, room) = text_width(text) < 0.9 * room ? ",14" \
                    : text_width(text) < 1.04 * room ? ",12" : ",10"
fitting(text, room) = text_width(text) < 0.88 * room ? ",15" \
                    : text_width(text) < 1.08 * room ? ",12" : ",10"

# Names of rows stand to their left: how wide they are, and in what letters.
longer(a, b) = a > b ? a : b
widest(none) = names ? (sum [i = 1:names] 0 * (name_widest = longer(name_widest, \
    longer(text_width(name_text[i]), text_width(name_more[i]))))) : 0
name_widest = 0.0
name_font(most) = 0.97 * name_widest > most ? ",10" : ",12"
name_room(most) = 0.97 * name_widest > most ? most : 0.97 * name_widest
folded_names(none) = names ? (sum [i = 1:names] name_more[i] eq "-" ? 0 : 1) : 0

# ---- the legend ---------------------------------------------------------------------------
# It stands below the data: swatches and lines with their texts, in as many rows as they need.
# First legend_add for each entry, then legend_step for each, which finds legend_rows; after
# that `eval legend` draws it at legend_y.

BOX = 0
LINE = 1
DASHES = 2
DOTS = 3
array look_dash[3] = [1, 2, 3]
array legend_text[32]
array legend_colour[32]
array legend_look[32]
legends = 0
legend_add(text, colour, look) = (legends = legends + 1, legend_text[legends] = text, \
                                  legend_colour[legends] = colour, legend_look[legends] = look)

legend_width(i) = 62 + 1.08 * text_width(legend_text[i])

legend_rows = 1
legend_x = 20.0
legend_wraps(i) = legend_x + legend_width(i) > wide - 10
legend_step(i) = (legend_wraps(i) ? (legend_rows = legend_rows + 1, legend_x = 20.0) : 0, \
                  legend_x = legend_x + legend_width(i))

legend = 'legend_x = 20.0; do for [i = 1:legends] {' \
    . 'if (legend_wraps(i)) { legend_x = 20.0; legend_y = legend_y + 22 };' \
    . 'if (legend_look[i] == BOX) { set object 1000 + i rectangle' \
    . '    from screen px(legend_x), screen py(legend_y + 7)' \
    . '    to screen px(legend_x + 24), screen py(legend_y - 7)' \
    . '    fillcolor rgb legend_colour[i] fillstyle solid noborder };' \
    . 'if (legend_look[i] == DASHES) { set arrow 1000 + i from screen px(legend_x),' \
    . '    screen py(legend_y) to screen px(legend_x + 28), screen py(legend_y) nohead' \
    . '    linecolor rgb legend_colour[i] linewidth 2 dashtype (5, 4) };' \
    . 'if (legend_look[i] == LINE || legend_look[i] == DOTS) {' \
    . '    set arrow 1000 + i from screen px(legend_x), screen py(legend_y)' \
    . '    to screen px(legend_x + 28), screen py(legend_y) nohead' \
    . '    linecolor rgb legend_colour[i] linewidth 2 dashtype look_dash[legend_look[i]] };' \
    . 'set label 1010 + i legend_text[i] at screen px(legend_x + 34), screen py(legend_y)' \
    . '    font ",14" textcolor rgb ink; legend_x = legend_x + legend_width(i) }'
