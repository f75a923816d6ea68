#!/bin/sh
# times.sh MEMREUSE ROOT: steps whose rate is published are predicted no worse than the table in
# bench/results/time.csv says, by half a percent.  Who improves the model runs bench/time.sh.
set -u

tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
python3 "$2/bench/time_traces.py" "$tmp/none" "$tmp" || exit 77
"$2/bench/time_steps.sh" "$1" "$tmp" >"$tmp/now" || exit 1
grep '^steps,' "$2/bench/results/time.csv" >"$tmp/then"

# The same rows, and no error that has grown.
awk -F, '
    function size(x) { return x < 0 ? -x : x }
    {row = $2 "," $3 "," $4 "," $7}
    NR == FNR {error[row] = $9; next}
    !(row in error) {print "not in the table: " $0; bad = 1; next}
    size($9) > size(error[row]) + 0.5 {print $2 " on " $3 ": " $9 " %, was " error[row] " %"; bad = 1}
    {delete error[row]}
    END {for (row in error) {print "in the table only: " row; bad = 1}
         exit bad}' "$tmp/then" "$tmp/now"
