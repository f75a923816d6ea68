#!/bin/sh
# Holds what advise says against compare of every combination: advise.sh PROGRAM ROOT
#
# No combination is 1 % better than a row in one of memory and time without being worse in the
# other; no row beats another; the largest batch of a row fits, and one sample more does not.
set -u

program=$1 root=$2
scratch=$(mktemp -d) || exit 2
trap 'rm -rf "$scratch"' EXIT
trace=$root/traces/models/lstm-650-b20-s35.csv.gz
on='-n 1 --capacity 250MiB'
failed=0

# "spec result reserved time" of a table of compare; a comma of a spec is written as a colon
values()
{
    awk -F '"' '{ for (i = 2; i <= NF; i += 2) gsub(",", ":", $i); print }' OFS= "$1" |
        awk -F, 'NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
                 { print $column["spec"], $column["result"], $column["peak_reserved"], $column["time"] }'
}

for a in '' accumulate:2 accumulate:4 accumulate:8; do
    for c in '' checkpoint 'checkpoint:keep=[mm,addmm,bmm]'; do
        rewrites=$a${a:+${c:++}}$c
        for p in pytorch pytorch:expandable_segments=True; do
            echo "$rewrites${rewrites:+/}$p"
        done
    done
done >"$scratch/specs"
"$program" compare "$trace" $on $(cat "$scratch/specs") -f csv >"$scratch/all" || exit 1
"$program" advise "$trace" $on --without amp --without offload --without release -f csv \
    >"$scratch/front" || exit 1
values "$scratch/all" | awk '$1 != "bound" && $2 == "fits"' >"$scratch/fit"
values "$scratch/front" | grep -v '^batch' >"$scratch/rows"
[ -s "$scratch/rows" ] && [ -s "$scratch/fit" ] || { echo "nothing to compare"; exit 1; }

awk 'NR == FNR { held[NR] = $3; took[NR] = $4; name[NR] = $1; n = NR; next }
     { for (i = 1; i <= n && !(held[i] <= 1.01 * $3 && took[i] <= 1.01 * $4); i++) continue
       if (i > n) { print $1 " is better than all rows"; bad = 1 } }
     END { for (i = 1; i <= n; i++) for (k = 1; k <= n; k++)
               if (i != k && held[i] <= held[k] && took[i] <= took[k]) {
                   print name[i] " beats " name[k]; bad = 1 }
           exit bad }' "$scratch/rows" "$scratch/fit" || failed=1

# Rows are some of the combinations, with the same figures.
grep -vxF -f "$scratch/fit" "$scratch/rows" && failed=1

# With one sample more: batch:samples=26+... becomes 27.
awk -F '"' '/batch:samples/ { if ($0 ~ /,"batch/) print $2; else { split($0, f, ","); print f[2] } }' \
    "$scratch/front" >"$scratch/largest"
[ "$(wc -l <"$scratch/largest")" = "$(wc -l <"$scratch/rows")" ] || { echo "rows lack a batch"; failed=1; }
while IFS= read -r spec; do
    more=$(echo "$spec" | awk -F '[=+/]' '{ sub($2, $2 + 1); print }')
    "$program" compare "$trace" $on "$spec" "$more" -f csv >"$scratch/two" 2>/dev/null
    found=$(values "$scratch/two" | awk '{ print $2 }' | tr '\n' ' ')
    [ "$found" = 'fits OOM fits ' ] || { echo "$spec, $more: $found, expected fits OOM"; failed=1; }
done <"$scratch/largest"
exit $failed
