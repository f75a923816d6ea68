# overhead.gp -- time under a budget: every heuristic, the best plan, what no plan can beat.
#
#     gnuplot -c plots/overhead.gp bench/results/dtr.csv overhead.svg
#
# One panel for each log of the table that dtr_grid prints; time is in parts of the step without
# a budget.  A series ends where it does not pass any more.
DATA = ARG1
OUT = ARG2
set datafile separator ","
set terminal svg size 900, 760 font "sans-serif,13" background rgb "white"
if (OUT[strlen(OUT) - 3:] eq ".png") set terminal pngcairo size 900, 760 font "sans-serif,10"
set output OUT

logs = system("awk -F, 'NR > 1 && !seen[$1]++ { print $1 }' ".DATA)
plans = "DTR DTREqClass DTRLocal MSPS LRU LargestStorage best bound"
titles = "DTR DTR-eq local MSPS LRU size best bound"
array hue[8] = ["#0072b2", "#56b4e9", "#e69f00", "#009e73", "#999999", "#cc79a7", "#d55e00", "#000000"]
array thick[8] = [1.3, 1.3, 1.3, 1.3, 1.3, 1.3, 2.6, 1.6]
array dash[8] = [1, 1, 1, 1, 1, 1, 1, 2]

rows = (words(logs) + 1) / 2
set multiplot layout rows, 2 title "Time under a budget, in parts of the step without one"
set xrange [1.03:0.07]
set yrange [0.98:2.02]
set xlabel "memory, in parts of the peak without a budget"
set ylabel "time"
set grid linecolor rgb "#dddddd"
set key top left samplen 2
spent(log, plan) = strcol(1) eq log && strcol(2) eq plan && strcol(5) eq "pass" \
                      ? ($6 - 1) / ($6 - 1 - $7) : NaN
do for [l = 1:words(logs)] {
    if (l > 1) { unset key }
    set title word(logs, l)
    plot for [p = 1:8] DATA using 3:(spent(word(logs, l), word(plans, p))) skip 1 \
             with linespoints title word(titles, p) linecolor rgb hue[p] \
             linewidth thick[p] dashtype dash[p] pointtype 7 pointsize 0.4
}
unset multiplot
