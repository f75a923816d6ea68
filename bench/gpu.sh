#!/bin/sh
# One visit to a machine with a GPU: gpu.sh FOLDER [DEVICE].  Builds, runs the tests that need a
# GPU, calibrates, and holds predictions for DEVICE (a row of devices.csv; found by the GPU's name
# when it is left out) against what the GPU does.  FOLDER gets everything; it takes under eight
# minutes on one GPU, and what would take longer is cut off and said so.
set -u
folder=${1:?usage: gpu.sh FOLDER [DEVICE]}
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$folder" && folder=$(cd "$folder" && pwd) || exit 2
build=$folder/build
begin=$(date +%s)
say() { echo "$(($(date +%s) - begin)) s: $*" | tee -a "$folder/log.txt"; }
left() { echo $((${LIMIT_S:-460} - ($(date +%s) - begin))); }
enough() { [ "$(left)" -gt "$1" ] || { say "no time left for $2"; return 1; }; }

# What the numbers were measured on.
{
    uname -srm
    nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,clocks.sm,clocks.mem,temperature.gpu,mig.mode.current \
               --format=csv
    nvidia-smi --query-compute-apps=pid,used_memory --format=csv
} >"$folder/machine.txt" 2>&1
if [ "$(grep -cE '^[0-9]+, ' "$folder/machine.txt")" -gt 0 ]; then
    say "warning: other processes use the GPU, see machine.txt"
fi

say "building"
cmake -S "$root" -B "$build" >"$folder/build.txt" 2>&1 \
    && cmake --build "$build" -j "$(nproc)" --target memreuse >>"$folder/build.txt" 2>&1 \
    || { say "the build failed, see build.txt"; exit 1; }
memreuse=$build/memreuse

say "tests that need a GPU"
timeout 120 "$root/tests/cuda/on_device.sh" "$memreuse" "$root/traces" >"$folder/tests.txt" 2>&1
case $? in
0) say "they pass" ;;
77) say "there is no GPU to be used: $(tail -1 "$folder/tests.txt")"; exit 77 ;;
*) say "tests FAILED, see tests.txt" ;;
esac
if command -v compute-sanitizer >/dev/null && enough 300 compute-sanitizer; then
    timeout 90 compute-sanitizer --error-exitcode 9 "$memreuse" compare \
        "$root/traces/tiny/mlp.csv" --on cuda --verify pytorch native \
        >"$folder/sanitizer.txt" 2>&1
    say "compute-sanitizer: exit code $?"
fi

say "calibrating"
device=${2:-}
if [ -z "$device" ]; then # the longest name of a row that stands in the name of the GPU
    gpu=$(sed -n 3p "$folder/machine.txt" | tr 'A-Z ' 'a-z-')
    device=$("$memreuse" list devices | awk -v gpu="$gpu" '
        { short = $1; sub(/-.*/, "", short) }
        index(gpu, short) && length(short) > length(best) { best = short; name = $1 }
        END { print name }')
fi
"$memreuse" calibrate ${device:+--device "$device"} >"$folder/calibrated.csv" \
    2>"$folder/calibrated.err" || say "calibrate: $(cat "$folder/calibrated.err")"
device=${device:-a100-80}
say "predictions are for $device"

# Small models first, so that what is cut off is the largest.
models="${MODELS:-lstm-650-b20-s35 unet-b8-i256 vgg16-b64-i224 resnet50-b64-i224 bert-base-mlm-b32-s128
        gpt2-small-b8-s1024 vit-b16-b64-i224 albert-base-b32-s128 moe-small-b8-s512
        resnet152-b32-i224 bert-large-mlm-b8-s512 gpt2-xl-b2-s1024-bf16}"
specs="pytorch pytorch:expandable_segments=True pytorch:max_split_size_mb=128
       pytorch:roundup_power2_divisions=8 pytorch:garbage_collection_threshold=0.8 native plan
       inplace/pytorch accumulate:2/pytorch mincut/pytorch nograd/pytorch"
suite=$folder/suite.txt
{
    echo "title Predicted and measured"
    echo "device $device"
    echo "iterations 7"
    for model in $models; do
        [ -e "$root/traces/models/$model.csv.gz" ] || continue
        echo "trace $model $root/traces/models/$model.csv.gz"
        # shellcheck disable=SC2086
        echo "cells $model :" $specs
    done
} >"$suite"
for compute in touch full; do
    enough 30 "--compute $compute" || break
    share=$(left)
    [ $compute = full ] || share=$((share / 2))
    timeout --foreground -s INT $((share + 20)) "$memreuse" fidelity "$suite" --compute $compute \
        --seconds "$share" -o "$folder/fidelity-$compute.csv" >"$folder/fidelity-$compute.txt" \
        2>"$folder/fidelity-$compute.err"
    say "$compute: $(tail -n 2 "$folder/fidelity-$compute.txt")"
done
rm -rf "$build"
say "done"
