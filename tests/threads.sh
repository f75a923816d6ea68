#!/bin/sh
# What is printed must not depend on the number of threads: threads.sh MEMREUSE FOLDER.
set -u
memreuse=$1 folder=$2
one=$(mktemp) && many=$(mktemp) || exit 2
trap 'rm -f "$one" "$many"' EXIT

failures=0
for trace in "$folder"/*.csv; do
    for option in "" --fit; do
        "$memreuse" compare "$trace" $option --format csv -j 1 >"$one" \
            || failures=$((failures + 1))
        for jobs in 2 8; do
            "$memreuse" compare "$trace" $option --format csv -j "$jobs" >"$many" \
                || failures=$((failures + 1))
            diff "$one" "$many" && continue
            echo "${trace##*/} $option: -j $jobs prints something else than -j 1"
            failures=$((failures + 1))
        done
    done
done
[ "$failures" -eq 0 ]
