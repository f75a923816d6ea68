#!/bin/bash
# speed.sh RECORDING [RATE]
# How many allocations and frees a second: the model of PyTorch's allocator on a recording repeated to
# 10 thousand ... 10 million events, and beside it, in the same run, the real allocator without
# printing.  RATE is the program made of tests/oracle/rate.cpp (tests/oracle/build.sh makes it of an
# unpacked wheel); without it only ours is timed.  Medians of five, taken in turns.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: bench/speed.sh RECORDING [RATE]" >&2; exit 2; }
build=build/speed
cmake -S . -B $build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O2 -DBUILD_TESTING=OFF > /dev/null
cmake --build $build --target memreuse_speed -j "$(nproc)" > /dev/null
ours=$build/memreuse_speed
"$ours" "$1"
[ $# -ge 2 ] || exit 0
events=$(mktemp); trap 'rm -f "$events"' EXIT
"$ours" --events "$1" > "$events"
n=$(wc -l < "$events")
median() { sort -n | sed -n 3p; }
for turn in 1 2 3 4 5; do
  FAKECUDA_TOTAL_MEM=1T "$2" "$events" $((5000000 / n + 1)) | sed 's/.*, \([0-9.]*\) million.*/\1/' >> "$events.real"
  "$ours" "$1" pytorch 5000000 | awk 'NR == 2 {print $2}' >> "$events.ours"
done
real=$(median < "$events.real"); mine=$(median < "$events.ours")
rm -f "$events.real" "$events.ours"
awk -v o="$mine" -v r="$real" 'BEGIN {
  printf "model %.2f million a second, real allocator %.2f: %.1f times as fast\n", o, r, o / r }'
