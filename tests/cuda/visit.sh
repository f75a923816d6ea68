#!/bin/sh
# bench/gpu.sh from beginning to end on the stand-in: visit.sh MEMREUSE FOLDER ROOT, where FOLDER
# holds libcuda.so.1.  Of the models it takes the smallest.
memreuse=$1 libraries=$2 root=$3
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failures=0
complain() { echo "$*"; failures=$((failures + 1)); }

cat >"$work/nvidia-smi" <<'END'
#!/bin/sh
echo "name, driver_version, memory.total [MiB]"
echo "NVIDIA H200, 580.0, 143771 MiB"
END
chmod +x "$work/nvidia-smi"
visit() # FOLDER
{
    MEMREUSE=$memreuse PATH=$work:$PATH LD_LIBRARY_PATH=$libraries FAKE_CUDA_IDLE=1 \
    MODELS=lstm-650-b20-s35 SPECS="pytorch native gmlake:fragLimit=2MiB cudamallocasync" \
        "$root/bench/gpu.sh" "$1" 2>&1
}

"$memreuse" compare "$root/traces/tiny/mlp.csv" --on cuda 2>&1 | grep -q "without nvcc" && {
    echo "skipped: built without kernels"
    exit 77
}
said=$(visit "$work/out") || complain "exit code $?: $said"
for text in "they pass" "predictions are for h200" "touch: 5 cells measured, 5 of their peaks" \
            "full: 5 cells measured, 5 of their peaks" "done"; do
    case $said in *"$text"*) ;; *) complain "does not say '$text': $said" ;; esac
done
for file in machine.txt build.txt tests.txt calibrated.csv fidelity-touch.txt fidelity-touch.csv \
            fidelity-full.txt fidelity-full.csv log.txt; do
    [ -s "$work/out/$file" ] || [ $file = tests.txt ] || complain "$file is empty or missing"
done

# Without a GPU, and with a program that does not run there.
said=$(FAKE_CUDA_DEVICES=0 visit "$work/none")
[ $? -eq 77 ] || complain "without a GPU: $said"
case $said in *"there is no GPU to be used"*) ;; *) complain "without a GPU: $said" ;; esac
said=$(MEMREUSE=/bin/false "$root/bench/gpu.sh" "$work/broken" 2>&1)
[ $? -eq 1 ] || complain "a program that does not run: $said"
[ $failures -eq 0 ]
