#!/bin/sh
# time_steps.sh MEMREUSE FOLDER: samples a second of steps whose rate is published
# (bench/time_published.csv), by `memreuse compare`; the part is the rewrite, or all.  FOLDER has the traces that bench/time_traces.py makes.
set -eu

memreuse=$1 folder=$2
cd "$(dirname "$0")/.."

step() # WHAT DEVICE TF32 SPEC MEASURED USED SOURCE
{
    file=$1
    [ -e "$file" ] || file=$folder/$1
    name=$(basename "$1" | sed 's/\.csv.*//')
    part=all
    case $4 in */*) part=${4%/*} ;; esac
    "$memreuse" compare "$file" "$4" -d "$2" --tf32 "$3" -c 1TiB -f csv | awk -F, -v name="$name" \
        -v device="$2" -v part="$part" -v measured="$5" -v used="$6" -v source="$7" '
        NR == 1 {for (i = 1; i <= NF; i++) if ($i == "throughput") column = i}
        NR == 2 {error = 100 * ($column / measured - 1)
                 printf "steps,%s,%s,%s,1,%s,%s,%.2f,%+.1f,,%s\n", name, device, part, used,
                     measured, $column, error, source}'
}

tail -n +2 bench/time_published.csv \
    | while IFS=, read -r what device tf32 spec measured used source; do
        step "$what" "$device" "$tf32" "$spec" "$measured" "$used" "$source"
    done
