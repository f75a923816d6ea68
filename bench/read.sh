#!/bin/bash
# read.sh SNAPSHOT...
# How long a memory snapshot takes to be read: by memreuse, the reader alone and with the
# referee as every command reads it, and by Python's pickle.load, as it is after `import pickle`.
# CPU time in milliseconds, medians of many; the two take turns, so that a machine that others
# use too is as busy for one as for the other.  `fresh` is the first read of a new process,
# whose memory is not there yet; `again` are those that follow.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: bench/read.sh SNAPSHOT..." >&2; exit 2; }
build=build/speed
cmake -S . -B $build -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE=-O2 \
      -DBUILD_TESTING=OFF > /dev/null
cmake --build $build --target memreuse_read_speed -j "$(nproc)" > /dev/null
exec python3 - $build/memreuse_read_speed "$@" <<'PYTHON'
import os, statistics, subprocess, sys

TURNS = 9
PEER = """
import pickle, sys, time
for _ in range(int(sys.argv[2])):
    begin = time.process_time()
    with open(sys.argv[1], "rb") as file:
        data = pickle.load(file)
    print((time.process_time() - begin) * 1e6)
    del data
"""


def lines(command):
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [[float(word) for word in line.split()] for line in out.splitlines()]


def row(program, path):
    times = 4 if os.path.getsize(path) > 20e6 else 10
    names = "alone judged peer fresh fresh_peer".split()
    seen = {name: [] for name in names}
    for _ in range(3 if times == 4 else TURNS):
        ours = lines([program, path, str(times)])
        peer = lines([sys.executable, "-c", PEER, path, str(times)])
        seen["alone"] += [line[0] for line in ours[1:]]
        seen["judged"] += [line[1] for line in ours[1:]]
        seen["peer"] += [line[0] for line in peer[1:]]
        seen["fresh"].append(ours[0][0])
        seen["fresh_peer"].append(peer[0][0])
    alone, judged, peer, fresh, fresh_peer = (statistics.median(seen[n]) for n in names)
    print(f"{os.path.basename(path)[:36]:36} {peer / 1e3:9.2f} {alone / 1e3:9.2f}"
          f" {peer / alone:6.1f} {judged / 1e3:9.2f} {peer / judged:6.1f}"
          f" {fresh_peer / 1e3:9.2f} {fresh / 1e3:9.2f} {fresh_peer / fresh:6.1f}", flush=True)


print(f"{'again: milliseconds, times as fast':36} {'pickle':>9} {'reader':>9} {'times':>6}"
      f" {'+referee':>9} {'times':>6} {'fresh:':>9} {'reader':>9} {'times':>6}")
for path in sys.argv[2:]:
    row(sys.argv[1], path)
PYTHON
