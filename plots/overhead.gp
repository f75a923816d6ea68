# overhead.gp -- time of recomputing under a budget, a panel per step: heuristics, plans, the bound.
#
# Columns of DATA: panel, plan, budget, overhead; both are percent of the step without a budget.
# A `stack` of the head is a plan with its colour; "best" is thick, "bound" is dashed.
DATA = ARG1
OUT = ARG2
load ARG0[:strlen(ARG0) - strlen("overhead.gp")]."style.gp"

is_best(s) = stack_text[s] eq "best"
is_bound(s) = stack_text[s] eq "bound"
do for [s = 1:stacks] {
    none = legend_add(stack_text[s], hue[stack_hue[s]], is_bound(s) ? DASHES : LINE)
}
do for [i = 1:legends] { none = legend_step(i) }

columns = panels == 1 ? 1 : 2
rows = (panels + columns - 1) / columns
above = 128
each = 300
between = 92
gap = 64
below = 104 + 22 * legend_rows + 18 * caption_rows
high = above + rows * each + (rows - 1) * between + below
legend_y = high - 12 - 18 * caption_rows - 22 * legend_rows
across = (wide - 96 - 24 - (columns - 1) * gap) / columns
row_of(p) = (p - 1) / columns
column_of(p) = (p - 1) % columns
left_of(p) = 96 + column_of(p) * (across + gap)
top_of(p) = above + row_of(p) * (each + between)

eval canvas(high)
set output OUT
set datafile missing NaN
set xrange [102:0]
set yrange [0:1.08 * y_high]
set xtics 20
set ytics step_of(1.08 * y_high, 5)
set format x "%.0f %%"
at_plan(s, c) = column("panel") == p && column("plan") == s ? column(c) : NaN

set multiplot
do for [p = 1:panels] {
    unset label
    set lmargin at screen px(left_of(p))
    set rmargin at screen px(left_of(p) + across)
    set tmargin at screen py(top_of(p))
    set bmargin at screen py(top_of(p) + each)
    set label 1 panel_text[p] at screen px(left_of(p)), screen py(top_of(p) - 34) \
        font fitting(panel_text[p], across + 10) textcolor rgb ink
    set label 2 panel_note[p] at screen px(left_of(p)), screen py(top_of(p) - 14) font ",12" \
        textcolor rgb dim
    set format y (column_of(p) == 0 ? "%.0f %%" : "")
    set xlabel (p + columns > panels ? "budget, of the peak without one" : "") textcolor rgb ink
    if (column_of(p) == 0) {
        set label 3 "overhead" center rotate by 90 textcolor rgb ink \
            at screen px(18), screen py(top_of(p) + each / 2)
    }
    if (p == panels) {
        eval heading
        eval legend
    }
    plot for [s = 1:stacks] DATA using (at_plan(s, "budget")):(at_plan(s, "overhead")) \
             with linespoints linecolor rgb hue[stack_hue[s]] \
             linewidth (is_best(s) ? 2.6 : is_bound(s) ? 1.8 : 1.2) \
             dashtype is_bound(s) + 1 pointtype 7 pointsize (is_bound(s) ? 0.01 : 0.4)
}
unset multiplot
