#!/bin/bash
# golden_pools.sh POOLS_RUN
# Every script of golden/, with what the real pool answered, against POOLS_RUN, the model.
[ $# = 1 ] || { echo "usage: golden_pools.sh POOLS_RUN" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
ok=0; bad=0
for ops in "$here"/golden/*.ops; do
  if cmp -s <("$here/any_release_order.sh" "${ops%.ops}.out") \
      <("$1" "$ops" | "$here/any_release_order.sh" /dev/stdin); then
    ok=$((ok + 1))
  else
    bad=$((bad + 1)); echo "differs: $(basename "$ops")"
  fi
done
echo "$ok passed, $bad failed"
[ "$bad" = 0 ] && [ "$ok" -gt 0 ]
