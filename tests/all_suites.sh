#!/bin/sh
# all_suites.sh MEMREUSE ROOT -- every suite of bench/suites can be read, and no strategy breaks a step in
# it.  Its verdicts are results, not tests: bench/suites.sh writes them to bench/results.
set -u
memreuse=$1
root=$2
failures=0
for suite in "$root"/bench/suites/*.txt; do
    case $suite in */combinations.txt) continue ;; esac # thousands of cells
    "$memreuse" sweep "$suite" >/dev/null && continue
    echo "${suite##*/} failed"
    failures=$((failures + 1))
done
[ $failures -eq 0 ]
