#!/bin/sh
# Fuzzes one reader: run_one.sh BUILD TARGET SECONDS RESULTS.  Begins with the broken files and
# the tiny traces; what it finds on its way is kept in the build folder, so that a second run
# begins further on.
set -u

build=$1 target=${2##*/} seconds=$3 results=$4
tests=$(cd "$(dirname "$0")/.." && pwd)
found=$build/corpus/$target
log=$build/$target.log
mkdir -p "$found"
cd "$build" || exit 1

# Beyond 1 GB of memory or 20 s for one input the reader has failed as well.
if "$build/tests/fuzz/$target" -max_total_time="$seconds" -rss_limit_mb=1024 -timeout=20 \
    -max_len=65536 -print_final_stats=1 -artifact_prefix="$build/$target-" \
    "$found" "$tests/broken" "$tests/../traces/tiny" >"$log" 2>&1; then
    runs=$(sed -n 's/^stat::number_of_executed_units: *//p' "$log")
    echo "$target: nothing found in $runs runs"
    echo "passed fuzz/$target" >>"$results"
else
    tail -n 40 "$log"
    echo "$target: FAILED, all of its output is in $log"
    echo "failed fuzz/$target" >>"$results"
fi
