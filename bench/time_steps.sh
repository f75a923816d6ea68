#!/bin/sh
# time_steps.sh MEMREUSE FOLDER: samples a second of steps whose rate is published, by `memreuse
# compare` with PyTorch's allocator.  FOLDER has the traces that bench/time_traces.py makes.
set -eu

memreuse=$1 folder=$2
cd "$(dirname "$0")/.."

step() # WHAT DEVICE TF32 MEASURED USED SOURCE
{
    file=$1
    [ -e "$file" ] || file=$folder/$1
    name=$(basename "$1" | sed 's/\.csv.*//')
    "$memreuse" compare "$file" pytorch -d "$2" --tf32 "$3" -c 1TiB -f csv | awk -F, \
        -v name="$name" -v device="$2" -v measured="$4" -v used="$5" -v source="$6" '
        NR == 1 {for (i = 1; i <= NF; i++) if ($i == "throughput") column = i}
        NR == 2 {error = 100 * ($column / measured - 1)
                 printf "steps,%s,%s,all,1,%s,%s,%.2f,%+.1f,,%s\n", name, device, used, measured,
                     $column, error, source}'
}

tail -n +2 bench/time_published.csv \
    | while IFS=, read -r what device tf32 measured used source; do
        step "$what" "$device" "$tf32" "$measured" "$used" "$source"
    done
