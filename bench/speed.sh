#!/bin/bash
# speed.sh RECORDING [RATE]
# How many allocations and frees a second on a recording repeated to 10 thousand ... 10 million
# requests: placed with all commands written down, judged by the referee, replayed.  RATE is the real
# allocator without printing, made of tests/oracle/rate.cpp by tests/oracle/build.sh from an
# unpacked wheel: then its rate stands beside the bare model's (bench/rate_c10.c) and beside the
# placement's, on the same requests in the same run.  Medians of five, taken in turns.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: bench/speed.sh RECORDING [RATE]" >&2; exit 2; }
build=build/speed
cmake -S . -B $build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_TESTING=OFF > /dev/null
cmake --build $build --target memreuse_speed rate_c10 -j "$(nproc)" > /dev/null
ours=$build/memreuse_speed
"$ours" "$1"
[ $# -ge 2 ] || exit 0
tmp=$(mktemp -d); trap 'rm -rf "$tmp"' EXIT
"$ours" --events "$1" > "$tmp/events"
n=$(wc -l < "$tmp/events"); times=$((5000000 / n + 1))
million() { sed 's/.*, \([0-9.]*\) million.*/\1/'; }
for turn in 1 2 3 4 5; do
  FAKECUDA_TOTAL_MEM=1T "$2" "$tmp/events" $times | million >> "$tmp/real"
  $build/rate_c10 "$tmp/events" $times | million >> "$tmp/model"
  "$ours" "$1" pytorch 5000000 | awk 'NR == 2 {print $2}' >> "$tmp/place"
done
median() { sort -n "$tmp/$1" | sed -n 3p; }
awk -v r="$(median real)" -v m="$(median model)" -v p="$(median place)" 'BEGIN {
  printf "real allocator %.2f million a second\n", r
  printf "model          %.2f: %.1f times as fast\n", m, m / r
  printf "placement      %.2f: %.1f times as fast, with the commands written down\n", p, p / r }'
