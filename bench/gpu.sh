#!/bin/sh
# One visit to a machine with a GPU: gpu.sh FOLDER [DEVICE].  Builds, runs the tests that need a
# GPU, calibrates, and holds predictions for DEVICE (a row of devices.csv; found by the GPU's name
# when it is left out) against what the GPU does.  FOLDER gets everything; it takes under eight
# minutes on one GPU, and what would take longer is cut off and said so.
#
#   gpu.sh --carry FILE    before the visit, for a machine that lacks what memreuse is built with:
#                          FILE becomes the program, which needs nothing there but a C library that is
#                          not much older (glibc 2.34 on)
#   MEMREUSE=FILE          then, on the visit: nothing is built
#   LIMIT_S, MODELS, SPECS other than the usual
set -u
root=$(cd "$(dirname "$0")/.." && pwd)
folder=${1:?usage: gpu.sh FOLDER [DEVICE], or gpu.sh --carry FILE}

if [ "$folder" = --carry ]; then
    file=${2:?usage: gpu.sh --carry FILE}
    build=$(mktemp -d) || exit 2
    trap 'rm -rf "$build"' EXIT
    for library in csv zstd jansson z; do # inside of the program, not beside it
        at=$(cc -print-file-name="lib$library.a")
        [ -f "$at" ] || { echo "gpu.sh: there is no lib$library.a to build with" >&2; exit 1; }
    done
    cmake -S "$root" -B "$build" -D BUILD_TESTING=OFF \
          -D CSV_LIBRARY="$(cc -print-file-name=libcsv.a)" \
          -D ZSTD_LIBRARY="$(cc -print-file-name=libzstd.a)" \
          -D JANSSON_LIBRARY="$(cc -print-file-name=libjansson.a)" \
          -D ZLIB_LIBRARY="$(cc -print-file-name=libz.a)" >"$build/log" 2>&1 \
        && cmake --build "$build" -j "$(nproc)" --target memreuse >>"$build/log" 2>&1 \
        || { tail -n 20 "$build/log" >&2; exit 1; }
    grep "no nvcc" "$build/log" && echo "gpu.sh: without kernels a visit is worth little" >&2
    strip -o "$file" "$build/memreuse" && ls -l "$file"
    exit
fi

mkdir -p "$folder" && folder=$(cd "$folder" && pwd) || exit 2
build=$folder/build
begin=$(date +%s)
say() { echo "$(($(date +%s) - begin)) s: $*" | tee -a "$folder/log.txt"; }
left() { echo $((${LIMIT_S:-460} - ($(date +%s) - begin))); }
enough() { [ "$(left)" -gt "$1" ] || { say "no time left for $2"; return 1; }; }
has() { command -v "$1" >/dev/null 2>&1; }

# What the numbers were measured on.
{
    echo "$(date -u '+%Y-%m-%d %H:%M UTC'), $(uname -srm)"
    nvidia-smi --query-gpu=name,driver_version,memory.total,memory.used,clocks.sm,clocks.mem,temperature.gpu,mig.mode.current \
               --format=csv
    nvidia-smi --query-compute-apps=pid,used_memory --format=csv
} >"$folder/machine.txt" 2>&1
if [ "$(grep -cE '^[0-9]+, ' "$folder/machine.txt")" -gt 0 ]; then
    say "warning: other processes use the GPU, see machine.txt"
fi

# cuBLAS may be only where Python keeps its packages.
if ! ldconfig -p 2>/dev/null | grep -q 'libcublas\.so\.1[123]'; then
    for at in /usr/local/cuda*/lib64 /usr/local/cuda*/targets/*/lib \
              $(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))' 2>/dev/null)/nvidia/*/lib; do
        ls "$at"/libcublas.so.1[123] >/dev/null 2>&1 || continue
        export LD_LIBRARY_PATH="${LD_LIBRARY_PATH:+$LD_LIBRARY_PATH:}$at"
        say "cuBLAS is that of $at"
        break
    done
fi

lacking()
{
    for tool in cc make cmake nvcc; do
        has $tool || [ -x "/usr/local/cuda/bin/$tool" ] || echo "$tool"
    done
    for header in zlib zstd csv jansson; do
        echo "#include <$header.h>" | cc -E - >/dev/null 2>&1 || echo "$header.h"
    done
}

if [ -n "${MEMREUSE:-}" ]; then
    memreuse=$(cd "$(dirname "$MEMREUSE")" && pwd)/$(basename "$MEMREUSE")
    "$memreuse" --version >"$folder/build.txt" 2>&1 \
        || { say "$MEMREUSE does not run here: $(head -n 1 "$folder/build.txt")"; exit 1; }
    say "the program is $MEMREUSE"
else
    lacks=$(lacking | tr '\n' ' ')
    [ -z "$lacks" ] || say "this machine lacks: $lacks(gpu.sh --carry FILE where they are, then MEMREUSE=FILE here)"
    say "building"
    cmake -S "$root" -B "$build" -D BUILD_TESTING=OFF >"$folder/build.txt" 2>&1 \
        && cmake --build "$build" -j "$(nproc)" --target memreuse >>"$folder/build.txt" 2>&1 \
        || { say "the build failed, see build.txt"; exit 1; }
    memreuse=$build/memreuse
fi

say "tests that need a GPU"
timeout -k 5 120 "$root/tests/cuda/on_device.sh" "$memreuse" "$root/traces" >"$folder/tests.txt" 2>&1
case $? in
0) say "they pass" ;;
77) say "there is no GPU to be used: $(tail -1 "$folder/tests.txt")"; exit 77 ;;
*) say "tests FAILED, see tests.txt" ;;
esac
if has compute-sanitizer && enough 300 compute-sanitizer; then
    timeout -k 5 60 compute-sanitizer --error-exitcode 9 "$memreuse" compare \
        "$root/traces/tiny/mlp.csv" --on cuda --verify pytorch native cudamallocasync \
        pytorch:expandable_segments=True >"$folder/sanitizer.txt" 2>&1
    say "compute-sanitizer, bytes verified: exit code $?"
    timeout -k 5 60 compute-sanitizer --error-exitcode 9 "$memreuse" compare \
        "$root/traces/tiny/blocks.csv" --on cuda --compute full pytorch \
        >"$folder/sanitizer-full.txt" 2>&1
    say "compute-sanitizer, products: exit code $?"
fi
if has nsys && enough 280 nsys; then
    timeout -k 5 40 nsys profile -o "$folder/profile" --force-overwrite true -t cuda,nvtx "$memreuse" \
        compare "$root/traces/tiny/mlp.csv" --on cuda pytorch >"$folder/profile.txt" 2>&1
    say "nsys: exit code $?"
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
timeout -k 5 60 "$memreuse" calibrate ${device:+--device "$device"} >"$folder/calibrated.csv" \
    2>"$folder/calibrated.err" || say "calibrate FAILED: exit code $?, $(cat "$folder/calibrated.err")"
device=${device:-a100-80}
say "predictions are for $device"

# Small models first, so that what is cut off is the largest.  Peaks need fewer iterations than
# times; what copies to the host pins as much of the host's memory, so only small ones do.
models="${MODELS:-lstm-650-b20-s35 unet-b8-i256 vgg16-b64-i224 resnet50-b64-i224 bert-base-mlm-b32-s128
        gpt2-small-b8-s1024 vit-b16-b64-i224 albert-base-b32-s128 moe-small-b8-s512
        resnet152-b32-i224 bert-large-mlm-b8-s512 gpt2-xl-b2-s1024-bf16}"
specs="${SPECS:-pytorch pytorch:expandable_segments=True pytorch:max_split_size_mb=128
       pytorch:roundup_power2_divisions=8 pytorch:garbage_collection_threshold=0.8 native plan
       inplace/pytorch accumulate:2/pytorch mincut/pytorch nograd/pytorch
       gmlake:fragLimit=2MiB stalloc cudamallocasync}"
write_suite() # ITERATIONS
{
    echo "title Predicted and measured"
    echo "device $device"
    echo "iterations $1"
    for model in $models; do
        [ -e "$root/traces/models/$model.csv.gz" ] || continue
        echo "trace $model $root/traces/models/$model.csv.gz"
        # shellcheck disable=SC2086
        echo "cells $model :" $specs
        case $model in lstm-* | resnet50-*) echo "cells $model : offload/pytorch" ;; esac
    done
}
for compute in touch full; do
    enough 30 "--compute $compute" || break
    share=$(left) iterations=7
    [ $compute = full ] || share=$((share / 2)) iterations=3
    suite=$folder/suite-$compute.txt
    write_suite $iterations >"$suite"
    timeout --foreground -s INT -k 15 $((share + 20)) "$memreuse" fidelity "$suite" --compute $compute \
        --seconds "$share" -o "$folder/fidelity-$compute.csv" >"$folder/fidelity-$compute.txt" \
        2>"$folder/fidelity-$compute.err" || say "$compute: exit code $?, see fidelity-$compute.err"
    say "$compute: $(grep -E ' measured, |no time left' "$folder/fidelity-$compute.txt" | tr '\n' ' ')"
done
rm -rf "$build"
say "done"
