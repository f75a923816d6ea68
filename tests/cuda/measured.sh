#!/bin/sh
# The program itself on the driver that holds host memory: measured.sh MEMREUSE FOLDER TRACES, where
# FOLDER holds libcuda.so.1.  A build without kernels carries everything out but the ops.
memreuse=$1 folder=$2 traces=$3
failures=0
complain() { echo "$*"; failures=$((failures + 1)); }
on_fake() { LD_LIBRARY_PATH=$folder${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} "$memreuse" "$@"; }

compute="--verify"
on_fake compare "$traces/mlp.csv" --on cuda native >/dev/null 2>&1 || compute="--compute none"

# Every measured peak is the predicted one; columns are found by name.
for trace in "$traces"/*.csv; do
    rows=$(on_fake compare "$trace" --on cuda $compute --format csv pytorch native \
               pytorch:expandable_segments=True) || complain "$trace: exit code $?"
    echo "$rows" | awk -F, -v trace="$trace" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $2 == "bound" { next }
        { rows++ }
        $column["peak_device"] != $column["measured_peak_device"] {
            print trace ": " $2 ": measured " $column["measured_peak_device"] ", predicted " \
                  $column["peak_device"]
            wrong = 1
        }
        END { exit wrong || rows != 3 }' || complain "$trace: $rows"
done

# A suite: every cell but the bound is measured, and its peak is the predicted one.
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
{
    echo "title Predicted and measured"
    for trace in mlp blocks; do echo "trace $trace $traces/$trace.csv"; done
    echo "cells mlp blocks : pytorch native checkpoint/pytorch bound"
} >"$work/suite.txt"
on_fake fidelity "$work/suite.txt" $compute -o "$work/cells.csv" >"$work/said.txt" 2>&1 \
    || complain "fidelity: exit code $?: $(cat "$work/said.txt")"
grep -q "^[56] cells measured, [56] of their peaks within a page" "$work/said.txt" \
    || complain "fidelity said: $(cat "$work/said.txt")"
awk -F, '
    NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
    $3 == "bound" || $column["result"] != "fits" { next }
    $column["measured_peak_device"] != $column["peak_device"] { exit 1 }
    { rows++ }
    END { exit rows < 5 }' "$work/cells.csv" || complain "fidelity wrote: $(cat "$work/cells.csv")"

# Sentences and exit codes of what goes wrong.
says() # EXPECTED ARGUMENT...: exit code 1, one line that has the text
{
    text=$1
    shift
    said=$(on_fake compare "$traces/mlp.csv" --on cuda --compute none "$@" native 2>&1 >/dev/null)
    [ $? -eq 1 ] || complain "expected exit code 1 for: $text"
    case $said in *"$text"*) ;; *) complain "said '$said', expected '$text'" ;; esac
}
FAKE_CUDA_DEVICES=0 says "finds no device"
FAKE_CUDA_VERSION=9000 says "too old"
FAKE_CUDA_START=803 says "different versions"
FAKE_CUDA_START=804 says "(cuda-compat)"
FAKE_CUDA_START=999 says "lacks /dev/nvidia-uvm"
FAKE_CUDA_START=802 says "fabric manager has not started"
FAKE_CUDA_START=34 says "is the stub of a CUDA Toolkit"
FAKE_CUDA_MODE=2 says "takes no compute work (nvidia-smi -c DEFAULT"
FAKE_CUDA_MAPPING=0 says "cannot map memory at chosen addresses"
FAKE_CUDA_ONLY=cuDevicePrimaryCtxRetain FAKE_CUDA_FAIL=1 FAKE_CUDA_ERROR=46 \
    says "is busy: another process has it for itself, or it is in exclusive mode"
FAKE_CUDA_CONTEXT=99000000000 says "has not even memory for a context: others fill it"
said=$("$memreuse" compare "$traces/mlp.csv" --on cuda --compute none native 2>&1 >/dev/null)
case $said in # on this machine as it is
"" | *"there is no CUDA driver on this machine: "*"(the model needs none)"* | *"no device"*) ;;
*) complain "without the stand-in: $said" ;;
esac
says "no CUDA device 3" --gpu 3
says "less than the limit" --limit 900GiB
# A recording of two devices, each on a GPU of its own, or both on one.
sed -e 's/^alloc,3,6291456/&,device=1/' "$traces/streams.csv" >"$work/two.csv"
gpus() { FAKE_CUDA_DEVICES=$1 on_fake compare "$work/two.csv" --on cuda $compute --gpu "$2" native 2>&1; }
for gpus in "2 0,1" "2 1,0" "2 1" "1 0"; do
    said=$(gpus $gpus) || complain "exit code $? for GPUs $gpus: $said"
    on=$(echo "$said" | sed -n 's/^device \([01]\) .* measured on CUDA device \([01]\),.*/\1\2/p')
    case "$gpus:"$(echo $on) in "2 0,1:00 11" | "2 1,0:01 10" | "2 1:01 11" | "1 0:00 10") ;;
    *) complain "GPUs $gpus: measured on $on: $said" ;;
    esac
    [ "$(echo "$said" | grep -c '  +0.0%  ')" -ge 2 ] || complain "GPUs $gpus: peaks: $said"
done
# On GPUs of their own all are carried out at once; when one fails the others stop, all is given
# back, and the next spec is tried as if nothing had been.
case $(gpus 2 0,1) in *", while the others were; "*) ;; *) complain "not at once" ;; esac
case $(gpus 1 0) in *", while the others were; "*) complain "at once on one GPU" ;; esac
for call in "cuStreamCreate 3" "cuMemFree 2" "cuMemAlloc 2" "cuLaunchKernel 9"; do
    [ "$compute" = --verify ] || [ "${call% *}" != cuLaunchKernel ] || continue
    said=$(FAKE_CUDA_ON=1 FAKE_CUDA_ONLY=${call% *} FAKE_CUDA_FAIL=${call#* } gpus 2 0,1)
    [ $? -eq 1 ] || complain "$call fails: $said"
    case $said in
    *"native on device 1: the CUDA driver would not "*" (CUDA error 2)"*) ;;
    *) complain "$call fails: $said" ;;
    esac
done
case $(FAKE_CUDA_ON=1 FAKE_CUDA_ONLY=cuStreamCreate FAKE_CUDA_FAIL=3 gpus 2 0,1) in
*"native on device 0: stopped, for another device of the recording failed"*) ;;
*) complain "the other device goes on" ;;
esac
case $(gpus 2 0,2) in *"there is no CUDA device 2, the driver sees 2"*) ;;
*) complain "a GPU that is not there: $(gpus 2 0,2)" ;;
esac
case $(gpus 3 0,1,2) in *"names 3 GPUs for 2 devices"*) ;;
*) complain "too many GPUs: $(gpus 3 0,1,2)" ;;
esac
case $(gpus 2 0,) in *"--gpu is '0,', expected the number of a GPU"*) ;;
*) complain "a list that ends too early: $(gpus 2 0,)" ;;
esac

said=$("$memreuse" compare "$traces/mlp.csv" --verify native 2>&1)
[ $? -eq 2 ] || complain "expected exit code 2 for --verify without a device: $said"


# Kernels are read by drivers older than their compiler, and not by devices older than Turing.
if [ "$compute" = --verify ]; then
    for version in 11040 12040 13000; do
        FAKE_CUDA_VERSION=$version on_fake compare "$traces/mlp.csv" --on cuda --verify native \
            >/dev/null 2>"$work/said.txt" || complain "driver $version: $(cat "$work/said.txt")"
    done
    compute_of() { on_fake compare "$traces/blocks.csv" --on cuda --compute full native 2>&1; }
    case $(FAKE_CUDA_ARCH=70 compute_of) in *"or the device older than Turing"*) ;;
    *) complain "Volta: $(FAKE_CUDA_ARCH=70 compute_of)" ;;
    esac
    # What cuBLAS does not multiply passes as time, and so does all where it is too new.
    case $(compute_of) in *"matrix products by cuBLAS"*) ;; *) complain "$(compute_of)" ;; esac
    refused=$(FAKE_CUBLAS_REFUSES=0 compute_of) || complain "refused: $refused"
    too_new=$(FAKE_CUDA_ONLY=cublasCreate_v2 FAKE_CUDA_FAIL=1 FAKE_CUDA_ERROR=1 compute_of) \
        || complain "too new: $too_new"
    case $refused$too_new in *cuBLAS*) complain "refused: $refused; too new: $too_new" ;; esac
fi

# What may have spoilt a measurement is told, and nothing where nothing did.
disturbed() { FAKE_NVML_OTHERS=$1 FAKE_NVML_SLOWED=$2 FAKE_NVML_MIG=$3 on_fake compare \
                  "$traces/mlp.csv" --on cuda --compute none pytorch | grep "^warning"; }
expected="warning: 2 other processes computed on this GPU as well, and held 2.00 GiB
warning: the GPU was slowed down by its limit of power
warning: the GPU was slowed down by its temperature
warning: the GPU is divided (MIG), others may use its bandwidth"
[ "$(disturbed 2 0x24 1)" = "$expected" ] || complain "said of disturbances: $(disturbed 2 0x24 1)"
[ -z "$(FAKE_NVML_HIDDEN=1 disturbed 0 0 0)" ] || complain "takes itself for another process"
[ -z "$(disturbed 0 0 0)" ] || complain "said of no disturbance: $(disturbed 0 0 0)"
for n in 1 2 3 5 6 7 8 12; do # what cannot be asked is not told, and that is all
    FAKE_NVML_FAIL=$n on_fake compare "$traces/mlp.csv" --on cuda --compute none pytorch \
        >/dev/null 2>"$work/said.txt" || complain "management, call $n: $(cat "$work/said.txt")"
done

# A profiler hears of every op within its phase, its spec, and of nothing when there is none.
if [ "$compute" = --verify ]; then
    FAKE_PROFILER=$work/heard.txt NVTX_INJECTION64_PATH=$folder/libfake_profiler.so \
        on_fake compare "$traces/mlp.csv" --on cuda -n 2 pytorch native >/dev/null 2>&1
    awk '/^[^ ]/ { names = names $0 " " } /^  [^ ]/ { phases++ } /^    [^ ]/ { ops++ }
         END { exit names != "pytorch native " || phases != 12 || ops != 4 * 28 }' \
        "$work/heard.txt" || complain "a profiler heard: $(cat "$work/heard.txt")"
fi

# A row for the table of devices, with all of its columns.
if [ "$compute" = --verify ]; then
    FAKE_CUDA_MEMORY=1073741824 on_fake calibrate | awk -F, '
        NR == 1 { n = NF; for (i = 1; i <= NF; i++) column[$i] = i }
        NR == 2 && (NF != n || $column["granularity"] != 2097152 || !$column["bandwidth"]) { exit 1 }
        END { exit NR != 2 }' || complain "calibrate does not print a row"
fi

[ $failures -eq 0 ]
