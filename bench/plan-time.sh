#!/bin/bash
# plan-time.sh MEMREUSE FILE...
# How low the search gets in one second, in two, four, ...: bench/results/plan-time.csv, for
# plots/plan-time.gp.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 2 ] || { echo "usage: bench/plan-time.sh MEMREUSE FILE..." >&2; exit 2; }
program=$1
shift
out=bench/results/plan-time.csv
mkdir -p bench/results
{
    echo "instance,rule,buffers,load,bound,height,seconds,processor_seconds"
    for file in "$@"; do
        for seconds in 1 2 4 8 16; do
            "$program" plan "$file" search --minimize -s $seconds -f csv | tail -n +2 \
                | sed "s/^/$(basename "$file" .csv),/"
        done
    done
} > $out.new
mv $out.new $out
