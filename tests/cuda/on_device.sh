#!/bin/sh
# A real device: on_device.sh MEMREUSE TRACES.  Every byte is verified and every peak is the
# predicted one within a page; skipped (77) where there is no device.
memreuse=$1 traces=$2
said=$("$memreuse" compare "$traces/tiny/mlp.csv" --on cuda --compute none native 2>&1 >/dev/null)
case $said in *"no CUDA driver"* | *"finds no device"* | *"is the stub"*)
    echo "skipped: $said"
    exit 77 ;;
esac

failures=0
for trace in "$traces"/tiny/*.csv "$traces/models/lstm-650-b20-s35.csv.gz" \
             "$traces/models/unet-b8-i256.csv.gz"; do
    "$memreuse" compare "$trace" --on cuda --verify --format csv pytorch \
        pytorch:expandable_segments=True native | awk -F, -v trace="$trace" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $2 == "bound" { next }
        {
            rows++
            off = $column["measured_peak_device"] - $column["peak_device"]
            if (off > 2097152 || off < -2097152) {
                print trace ": " $2 ": the peak is " off " bytes off"
                wrong = 1
            }
        }
        END { exit wrong || rows != 3 }' || failures=$((failures + 1))
done
[ $failures -eq 0 ]
