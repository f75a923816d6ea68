#!/bin/bash
# make_golden.sh DRIVERS [NAME...]
# Writes golden/VERSION/NAME.out from the real allocators DRIVERS/VERSION/ptdriver, for all
# scripts or those named. What changed shows in git diff and has to be explained there.
drivers=${1:?usage: make_golden.sh DRIVERS [NAME...]}; shift
here=$(cd "$(dirname "$0")" && pwd)
[ $# -gt 0 ] || set -- $(cd "$here/golden" && ls ./*.ops | sed 's|^\./||;s|\.ops$||')
for driver in "$drivers"/*/ptdriver; do
  version=$(basename "$(dirname "$driver")")
  mkdir -p "$here/golden/$version"
  for name in "$@"; do
    ops=$here/golden/$name.ops
    mem=$(sed -n '1s/.*MEM=\([0-9]*[KMGT]\).*/\1/p' "$ops")
    FAKECUDA_TOTAL_MEM=$mem "$driver" "$ops" 2> /dev/null | grep -v '^device ' \
      > "$here/golden/$version/$name.out"
  done
done
