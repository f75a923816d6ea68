#!/bin/sh
# Kernels move 16 bytes at a time and use no local memory: machine_code.sh KERNELS FATBIN OLDER NVCC
# OPTION...  The compiler is asked what it made for every target, and its PTX how memory is accessed;
# where there is a cuobjdump, the machine code itself is looked at as well.  Skipped (77) without
# an nvcc.
kernels=$1 fatbin=$2 older=$3 nvcc=$4
[ -x "$nvcc" ] || { echo "skipped: there is no nvcc"; exit 77; }
shift 4
work=$(mktemp -d) || exit 2
trap 'rm -rf "$work"' EXIT
failures=0
complain() { echo "$*"; failures=$((failures + 1)); }

entries=$(grep -c '__global__' "$kernels")
targets=$(echo "$*" | tr ' ' '\n' | grep -c 'code=sm_')
"$nvcc" -O3 "$@" -fatbin --resource-usage -Werror all-warnings -o "$work/fatbin" "$kernels" \
    >"$work/usage" 2>&1 || complain "nvcc: $(cat "$work/usage")"
clean=$(grep -c ' 0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads' "$work/usage")
[ "$clean" -ge $((entries * targets)) ] \
    || complain "$clean of $((entries * targets)) kernels use no local memory: $(cat "$work/usage")"

"$nvcc" -O3 -ptx -o "$work/ptx" "$kernels" || complain "nvcc makes no PTX"
awk '/\.entry/ { name = $3 }
     /(ld|st)\.local/ { print name ": local memory: " $0; wrong = 1 }
     /ld\.(global\.)?v2\.u64/ { loads[name]++ }
     /st\.(global\.)?v2\.u64/ { stores[name]++ }
     END {
         for (n in loads) { moves++; if (!stores[n]) wrong = 1 }
         print moves " kernels move 16 bytes at a time"
         exit wrong || moves != 2
     }' "$work/ptx" || complain "not 16 bytes at a time"

# The text for drivers older than this compiler has nothing that they do not know.
grep -q '^.version 6.3' "$older" && "$nvcc" -cubin -arch=sm_75 -o "$work/older" "$older" \
    || complain "the text for older drivers is not what its version says"

if [ -s "$fatbin" ] && command -v cuobjdump >/dev/null; then
    cuobjdump -sass "$fatbin" | awk '
        /^arch = / { arch = $3; archs++ }
        /Function : / { name = arch " " $3; kernels++ }
        /LDL|STL/ { print name ": local memory: " $0; wrong = 1 }
        /LDG?\.E[A-Z0-9.]*\.128/ { loads[name]++ }
        /STG?\.E[A-Z0-9.]*\.128/ { stores[name]++ }
        END {
            for (k = split("mr_kernel_job mr_kernel_copy", moves, " "); k > 0; k--)
                for (n in loads) if (index(n, moves[k])) found[k]++
            for (n in loads) if (!stores[n]) { print n ": no store of 16 bytes"; wrong = 1 }
            print kernels " kernels, " found[1] + found[2] " of them with loads of 16 bytes"
            exit wrong || !archs || found[1] != found[2] || 4 * found[1] != kernels
        }' || complain "the machine code is not as it should be"
fi
[ $failures -eq 0 ]
