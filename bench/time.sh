#!/bin/sh
# time.sh [RECORDINGS]: holds the time model against what others measured and published, and
# writes bench/results/time.csv.  RECORDINGS (default ../shared/recordings) are Kineto traces
# and DTR logs, which are not shipped; the rows of ops that need them keep their old figures
# where they are missing.
#
#     ops     sums of op durations, in ms; error of the sum, median error of an op
#     steps   samples a second of whole steps (bench/time_steps.sh)
#
# `fit` marks what an efficiency of devices.csv was chosen by (keys E of devices.md), `check`
# what no figure of that device was chosen by.
set -eu

cd "$(dirname "$0")/.."
recordings=${1:-../shared/recordings}
build=build/time
results=bench/results/time.csv
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT

cmake -S . -B $build -DBUILD_TESTING=OFF >/dev/null
cmake --build $build --target memreuse memreuse_time_error -j "$(nproc)" >/dev/null
python3 bench/time_traces.py "$recordings" "$tmp"

# What an execution trace says of ops, and a profiler's trace of the same steps of their times.
timed() # NAME TRACE PROFILE
{
    [ -e "$recordings/$3" ] || return 0
    $build/memreuse convert "$recordings/$2" --times "$recordings/$3" -o "$tmp/$1.csv" 2>/dev/null
}
timed rtx2080ti-resnet18 execution-traces/resnet-1.0.1.json.gz kineto/resnet-matching-et.json.gz
timed rtx2080ti-linear execution-traces/linear-1.0.1.json.gz kineto/linear-matching-et.json.gz

ops() # USED DEVICE TRACE...
{
    used=$1 device=$2
    shift 2
    for trace; do
        if [ -e "$tmp/$trace.csv" ]; then
            $build/memreuse_time_error "$device" "$tmp/$trace.csv" | awk -F, -v used="$used" '
                {sub(/.csv$/, "", $1)
                 printf "ops,%s,%s,%s,%s,%s,%s,%s,%s,%s,\n", $1, $2, $3, $4, used, $5, $6, $7, $8}'
        else
            grep "^ops,$trace," $results || true
        fi
    done
}

{
    echo "kind,what,device,part,n,used,measured,predicted,error_percent,median_error_percent," \
        "source" | tr -d ' '
    ops fit v100-32 v100-resnet50
    ops check rtx2080ti rtx2080ti-resnet18 rtx2080ti-linear
    ops fit titan-v titanv-resnet32-56
    ops check titan-v titanv-unet-6 titanv-transformer-10 titanv-treelstm-6
    ops fit h100 products-bfloat16 products-float32
    bench/time_steps.sh $build/memreuse "$tmp"
} >"$tmp/time.csv"
mkdir -p bench/results
cp "$tmp/time.csv" $results
cat $results
