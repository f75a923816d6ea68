#!/bin/sh
# times.sh MEMREUSE ROOT: the published table of modelled times, bench/results/time.csv, is what the
# program says today.  Who changes the model runs bench/time.sh and shows what moved.
set -u

tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
python3 "$2/bench/time_traces.py" "$tmp/none" "$tmp" || exit 77
"$2/bench/time_steps.sh" "$1" "$tmp" >"$tmp/now" || exit 1
grep '^steps,' "$2/bench/results/time.csv" | diff - "$tmp/now"
