#!/bin/sh
# A real device: on_device.sh MEMREUSE TRACES.  Every byte is verified and every peak is the
# predicted one within a page; skipped (77) where there is no device.  Two predictions cannot be as
# exact: a driver packs small allocations of `native` together, and its own pools, which
# cudamallocasync only supposes things of, do as they do.
memreuse=$1 traces=$2
said=$("$memreuse" compare "$traces/tiny/mlp.csv" --on cuda --compute none native 2>&1 >/dev/null)
case $said in *"no CUDA driver"* | *"finds no device"* | *"is the stub"*)
    echo "skipped: $said"
    exit 77 ;;
esac

failures=0
# Two devices at the same time, where there are two.
two=$(mktemp) || exit 2
trap 'rm -f "$two"' EXIT
sed -e 's/^alloc,3,6291456/&,device=1/' "$traces/tiny/streams.csv" >"$two"
said=$("$memreuse" compare "$two" --on cuda --verify --gpu 0,1 native cudamallocasync 2>&1)
case $?$said in
0*) echo "two devices at once" ;;
*"there is no CUDA device 1"*) echo "one device only" ;;
*) echo "two devices at once: $said" && failures=1 ;;
esac
for trace in "$traces"/tiny/*.csv "$traces/models/lstm-650-b20-s35.csv.gz" \
             "$traces/models/unet-b8-i256.csv.gz"; do
    [ -e "$trace" ] || continue
    specs="pytorch pytorch:expandable_segments=True gmlake:fragLimit=2MiB native cudamallocasync"
    case $trace in */mlp.csv | *lstm*) # large ones would pin as much of the host's memory
        specs="$specs offload/pytorch offload/gmlake:fragLimit=2MiB" ;;
    esac
    # shellcheck disable=SC2086
    "$memreuse" compare "$trace" --on cuda --verify --format csv $specs | awk -F, \
        -v trace="$trace" -v expected="$(echo "$specs" | wc -w)" '
        NR == 1 { for (i = 1; i <= NF; i++) column[$i] = i; next }
        $2 == "bound" { next }
        $column["measured_peak_device"] == "" { next }
        {
            rows++
            off = $column["measured_peak_device"] - $column["peak_device"]
            may = $2 ~ /^native/ ? off <= 2097152 : off <= 2097152 && off >= -2097152
            if (!may) print trace ": " $2 ": the peak is " off " bytes off"
            wrong = wrong || (!may && $2 !~ /^cudamallocasync/)
        }
        END {
            if (rows != expected) print trace ": " rows " rows, expected " expected
            exit wrong || rows != expected
        }' || failures=$((failures + 1))
done
[ $failures -eq 0 ]
