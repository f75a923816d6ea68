# plan-time.gp -- how far above the proven bound a plan is, against the time spent on it.
#
#     gnuplot -c plots/plan-time.gp bench/results/plan-time.csv plan-time.svg

DATA = ARG1
OUT = ARG2
set datafile separator comma
set datafile columnheaders

if (OUT[strlen(OUT) - 3:] eq ".png") {
    set terminal pngcairo size 1000,600 font "sans,11"
} else {
    set terminal svg size 1000,600 font "sans,13" background "white"
}
set output OUT
set xlabel "processor time, s"
set ylabel "above the bound, %"
set logscale x
set yrange [0:*]
set border 3
set tics nomirror out
set key outside right top

instances = system("cut -d, -f1 '".DATA."' | tail -n +2 | awk '!seen[$0]++' | tr '\n' ' '")
gap(name) = strcol("instance") eq name \
            ? 100.0 * (column("height") / column("bound") - 1.0) : NaN
plot for [name in instances] DATA using (column("processor_seconds")):(gap(name)) \
         with linespoints pt 7 ps 0.6 title name
