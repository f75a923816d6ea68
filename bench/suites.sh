#!/bin/sh
# suites.sh MEMREUSE [SUITE...] -- runs suites of bench/suites, all by default; cells go to
# bench/results/SUITE.csv, verdicts to bench/results/SUITE.md, to be looked at as a difference.
# Cells of which there are a thousand or more are not kept there.
set -eu
memreuse=$1
shift
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- $(ls "$here/suites" | sed -n 's/\.txt$//p')
for suite; do
    "$memreuse" sweep "$here/suites/$suite.txt" -o "$here/results/$suite.csv" --format md \
        >"$here/results/$suite.md"
    [ "$(wc -l <"$here/results/$suite.csv")" -lt 1000 ] || rm "$here/results/$suite.csv"
    cut -d '|' -f 2 "$here/results/$suite.md" | grep -E 'confirmed|conditional|refuted|undecided' \
        | sort | uniq -c | tr '\n' ' ' | sed "s/^/$suite: /"
    echo
done
