#!/bin/sh
# live.sh [LIVE [SPEC...]] -- how many allocations and frees a second every allocator does while
# LIVE blocks (20000) of all sizes are live: a block goes, at random, and another one comes.
# Placed with all commands written down, judged by the referee, replayed; medians of five.
set -eu
cd "$(dirname "$0")/.."
live=${1:-20000}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- pytorch bfc ort rmm_pool rmm_arena rmm_binning cupy cudamallocasync gmlake \
    buddy exactfit firstfit bestfit
build=build/speed
cmake -S . -B $build -DCMAKE_BUILD_TYPE=RelWithDebInfo -DBUILD_TESTING=OFF > /dev/null
cmake --build $build --target memreuse_speed -j "$(nproc)" > /dev/null
table=$(mktemp -d)/live.csv
trap 'rm -r "$(dirname "$table")"' EXIT
awk -v live="$live" 'BEGIN {
  srand(1)
  print "id,lower,upper,size"
  n = 0
  for (t = 1; t <= 6 * live; t++) {
    i = t <= live ? t : 1 + int(rand() * live)
    if (t > live) printf "%d,%d,%d,%d\n", ++n, since[i], t, bytes[i]
    since[i] = t
    bytes[i] = 512 + int(exp(rand() * log(8 * 1024 * 1024)))
  }
  for (i = 1; i <= live; i++) printf "%d,%d,%d,%d\n", ++n, since[i], t + 1, bytes[i]
}' > "$table"
for spec; do
  $build/memreuse_speed "$table" "$spec" 1000000 | sed "s/^/$spec  /" | tail -n 1
done
