#!/bin/bash
# make_snapshots.sh DRIVERS [FOLDER]
# Makes the recordings of snapshots/ again, each by the command that stands behind its name in
# snapshots/MANIFEST: options of snapshot.py, seed and number of operations for gen_ops.py. The
# driver of the version that the options name plays the script (DRIVERS/VERSION/ptdriver).
drivers=${1:?usage: make_snapshots.sh DRIVERS [FOLDER]}
here=$(cd "$(dirname "$0")" && pwd); folder=${2:-$here/snapshots}
tmp=$(mktemp -d); trap 'rm -r "$tmp"' EXIT
grep -v '^#' "$here/snapshots/MANIFEST" | while read -r file version memory seed operations options
do
  python3 "$here/gen_ops.py" "$seed" "$operations" > "$tmp/x.ops"
  FAKECUDA_TOTAL_MEM=$memory "$drivers/$version/ptdriver" "$tmp/x.ops" 2> /dev/null > "$tmp/x.out"
  # shellcheck disable=SC2086
  python3 "$here/snapshot.py" --version "$version" $options "$tmp/x.out" "$folder/$file"
done
