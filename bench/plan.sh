#!/bin/bash
# plan.sh FOLDER [MEMREUSE]
# The rules of others and our search on tables of lifetimes and on the recordings that ship with
# memreuse: bench/results/plan.csv.  FOLDER holds tables as *.csv; those named NAME.CAPACITY.csv
# (minimalloc's) are also searched for a layout of that capacity.  With what other programs were
# measured to reach (bench/plan-peers.csv) it prints a table of both.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: bench/plan.sh FOLDER [MEMREUSE]" >&2; exit 2; }
program=${2:-build/release/memreuse}
out=bench/results/plan.csv
mkdir -p bench/results

name_of() { basename "$1" | sed 's/\.gz$//; s/\.csv$//'; }
ends_of() { case $1 in *iree*) echo "--ends inclusive" ;; esac; }
plan() # FILE OPTION...
{
    local file=$1 name
    name=$(name_of "$file")
    shift
    # shellcheck disable=SC2046 # two words or none
    "$program" plan "$file" $(ends_of "$file") -f csv "$@" | tail -n +2 | sed "s/^/$name,/"
}

{
    echo "instance,rule,buffers,load,bound,height,seconds,processor_seconds"
    for file in "$1"/*.csv traces/models/*.csv.gz; do
        plan "$file"
        capacity=$(name_of "$file" | sed -n 's/^[A-Z]\.\([0-9]*\)$/\1/p')
        [ -z "$capacity" ] || plan "$file" search --capacity "$capacity" -s 60 \
            | sed "s/,search,/,search to $capacity,/" || true
    done
} > $out.new
mv $out.new $out

# Percent over the load, side by side.
awk -F, -v peers=bench/plan-peers.csv '
    BEGIN {
        while ((getline line < peers) > 0) {
            split(line, f, ",")
            if (f[1] != "instance" && line !~ /^#/) peer[f[1]] = peer[f[1]] "  " f[2] " " f[3] " %" (f[4] == "" ? ";" : " in " f[4] " s;")
        }
        printf "%-34s %8s %9s %9s %8s %8s  %s\n", "instance", "buffers", "search", "best rule", "cpu s", "wall s", "others, measured"
    }
    FNR == 1 { next }
    $2 == "search" { ours = 100 * ($6 / $4 - 1); cpu = $8; wall = $7; best = -1; if (!($1 in at)) { at[$1] = n++; name[n - 1] = $1 }
                     search[$1] = ours; c[$1] = cpu; w[$1] = wall; b[$1] = $3 }
    $2 !~ /^search/ && $2 != "as given" { g = 100 * ($6 / $4 - 1); if (!($1 in rule) || g < rule[$1]) rule[$1] = g }
    $2 ~ /^search to/ { to[$1] = sprintf("%s: %d, %.2f cpu s", $2, $6, $8); total += $8; totalwall += $7 }
    END {
        for (i = 0; i < n; i++) {
            k = name[i]
            printf "%-34s %8d %8.4f%% %8.3f%% %8.3f %8.3f %s  %s\n", k, b[k], search[k], rule[k], c[k], w[k], peer[k], to[k]
        }
        printf "all searches to a capacity: %.2f s of processor time, %.2f s\n", total, totalwall
    }' $out
