#!/bin/bash
# check_golden.sh [-v VERSION] [-w] COMMAND...
# Runs every script of golden/ for every version that has a stored output (or for VERSION alone)
# as "COMMAND --version VERSION SCRIPT", with FAKECUDA_TOTAL_MEM in the environment, and compares
# what is printed with golden/VERSION/. %V in COMMAND stands for the version: real drivers are
# checked with DIR/%V/ptdriver. Lines that begin with "device", which only the fake runtime can
# print, are left out; of a refused operation only the refusal counts, not the words of the
# message, but with -w.
here=$(cd "$(dirname "$0")" && pwd)
only='*'
[ "$1" = -v ] && { only=$2; shift 2; }
words='s/ -> error: .*/ -> error/'
[ "$1" = -w ] && { words=''; shift; }
[ $# -gt 0 ] || { echo "usage: check_golden.sh [-v VERSION] [-w] COMMAND..." >&2; exit 2; }
normal() { grep -v '^device ' | sed "$words"; }
ok=0; bad=0
for out in "$here"/golden/$only/*.out; do
  version=$(basename "$(dirname "$out")")
  ops=$here/golden/$(basename "$out" .out).ops
  mem=$(sed -n '1s/.*MEM=\([0-9]*[KMGT]\).*/\1/p' "$ops")
  if FAKECUDA_TOTAL_MEM=$mem "${@//%V/$version}" --version "$version" "$ops" 2> /dev/null \
      | normal | cmp -s <(normal < "$out") -; then
    ok=$((ok + 1))
  else
    bad=$((bad + 1)); echo "differs: $version $(basename "$ops")"
  fi
done
echo "$ok passed, $bad failed"
[ "$bad" = 0 ] && [ "$ok" -gt 0 ]
