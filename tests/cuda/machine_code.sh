#!/bin/sh
# Kernels move 16 bytes at a time and use no local memory: machine_code.sh FATBIN.  Skipped (77)
# where there are no kernels or no cuobjdump to look at them.
fatbin=$1
[ -s "$fatbin" ] || { echo "skipped: built without kernels"; exit 77; }
command -v cuobjdump >/dev/null || { echo "skipped: there is no cuobjdump"; exit 77; }
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
    }'
