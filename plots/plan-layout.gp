# plan-layout.gp -- a layout: addresses over time, one box per buffer.
#
#     memreuse plan FILE search -o layout.csv
#     gnuplot -c plots/plan-layout.gp layout.csv layout.svg ["title"]

DATA = ARG1
OUT = ARG2
set datafile separator comma
set datafile columnheaders

stats DATA using (column("offset") + column("size")) name "END" nooutput
stats DATA using (column("upper")) name "LAST" nooutput
unit = END_max < 2.0**21 ? 2.0**10 : END_max < 2.0**31 ? 2.0**20 : 2.0**30
unit_name = unit == 2.0**10 ? "KiB" : unit == 2.0**20 ? "MiB" : "GiB"

if (OUT[strlen(OUT) - 3:] eq ".png") {
    set terminal pngcairo size 1200,700 font "sans,11"
} else {
    set terminal svg size 1200,700 font "sans,13" background "white"
}
set output OUT
set title ARG3 noenhanced
set xlabel "time"
set ylabel "address, ".unit_name
set xrange [0:LAST_max]
set yrange [0:END_max / unit * 1.02]
set border 3
set tics nomirror out
unset key
unset colorbox
# Neighbours differ in colour; larger ones are no darker than small ones.
set palette defined (0 "#a6cee3", 1 "#b2df8a", 2 "#fdbf6f", 3 "#cab2d6", 4 "#fb9a99")
set cbrange [0:4]
set style fill solid border lc rgb "#555555"
set arrow from 0, END_max / unit to LAST_max, END_max / unit nohead lc rgb "#c00000"

plot DATA using (column("lower")):(column("offset") / unit):(column("lower")) \
         :(column("upper")):(column("offset") / unit) \
         :((column("offset") + column("size")) / unit):(int(column(0)) % 5) \
         with boxxyerror lc palette lw 0.3
