#!/bin/bash
# compare_pools.sh POOLS_RUN SPEC CAPACITY FIRST LAST OPERATIONS STREAMS LEAST DRIVER...
# Plays random scripts of the seeds FIRST to LAST to "DRIVER... SCRIPT", a real pool, and to
# POOLS_RUN, its model, and compares the answers line by line.  Segments that go back together
# may go in any order.
run=$1; spec=$2; capacity=$3; first=$4; last=$5; operations=$6; streams=$7; least=$8; shift 8
[ $# -gt 0 ] || { sed -n '2,5s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
tmp=$(mktemp -d); trap 'rm -r "$tmp"' EXIT
same=0; bad=0
for seed in $(seq "$first" "$last"); do
  python3 -B "$here/pool_script.py" "$spec" "$capacity" "$seed" "$operations" "$streams" \
    "$least" > "$tmp/ops"
  PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1 "$@" "$tmp/ops" > "$tmp/real" 2> "$tmp/err"
  "$run" "$tmp/ops" > "$tmp/ours" 2>> "$tmp/err"
  if [ -s "$tmp/real" ] && cmp -s <("$here/any_release_order.sh" "$tmp/real") \
      <("$here/any_release_order.sh" "$tmp/ours"); then
    same=$((same + 1))
  else
    bad=$((bad + 1)); echo "seed $seed differs ($spec)"; head -c 300 "$tmp/err"
    diff <("$here/any_release_order.sh" "$tmp/real") \
      <("$here/any_release_order.sh" "$tmp/ours") | head -n 6
  fi
done
echo "$spec: $same identical, $bad differ"
[ "$bad" = 0 ] && [ "$same" -gt 0 ]
