#!/usr/bin/env python3
"""Memory snapshots, as torch.cuda.memory._dump_snapshot writes them, made from
what ptdriver prints.

    snapshot.py [options] OUTPUT FILE.pickle[.gz]

OUTPUT is what ptdriver printed for a script that ends with the operations
"snapshot" and "trace"; "-" reads standard input.

    --version V     keys as release V writes them (default 2.4)
    --late N        the history was switched on late: the first N entries and
                    the rest of the operation they end in are missing
    --ring N        the history was a ring of N entries: only the last N remain
    --protocol P    of the pickle (default 4; torch's own C++ writer uses 2)
"""
import argparse
import gzip
import pickle
import re
import sys

from refmodel import Options, Refused, Rules, UNLIMITED

START_US = 1700000000000000  # when the pretended program began
STREAM_BASE, STREAM_STEP = 0x55d0c0de1000, 0x1a0

SEGMENT = re.compile(
    r"segment (\S+) total=(\d+) allocated=(\d+) active=(\d+) requested=(\d+) "
    r"stream=(-?\d+) (small|large)( expandable)? pool=(\d+),(\d+)")
BLOCK = re.compile(r"  block (\S+) size=(\d+) requested=(\d+) (\S+)")
TRACE = re.compile(r"trace (\S+) (\S+) (-?\d+) stream=(-?\d+)")
CONF = re.compile(r"(?:\d+ )?(?:conf|start) (\S+) -> (ok|error)")


def handle(stream):
    """Handles of real streams are heap addresses; here they ascend."""
    return STREAM_BASE + STREAM_STEP * stream if stream else 0


class Output:
    """What ptdriver printed: the last snapshot, the whole trace, the options."""

    def __init__(self, lines, version):
        self.version = tuple(int(x) for x in version.split(".")[:2])
        self.segments, self.trace, self.text = [], [], ""
        self.options = Options(Rules(version))
        reading = False  # inside the lines of one snapshot
        for line in lines:
            reading = self.take(line, reading)
        if self.trace and self.trace[-1]["action"] == "snapshot":
            self.trace.pop()  # our own look at the segments

    def begins_anew(self, segment):
        """Two snapshots in a row have no line between them, but each ascends."""
        return self.segments and segment["address"] <= self.segments[-1]["address"]

    def take(self, line, reading):
        m = SEGMENT.match(line)
        if m:
            segment = self.segment(m)
            if not reading or self.begins_anew(segment):
                self.segments = []
            self.segments.append(segment)
            return True
        m = BLOCK.match(line)
        if m:
            self.segments[-1]["blocks"].append({
                "address": int(m[1], 0), "size": int(m[2]),
                "requested_size": int(m[3]), "state": m[4], "frames": []})
            return True
        m = TRACE.match(line)
        if m:
            self.trace.append(self.entry(m))
        elif line[:1].isdigit():
            self.segments = []  # an operation: what was seen before is old
        m = CONF.match(line)
        if m:
            self.text = m[1]
            try:
                self.options.set(m[1])
            except Refused:
                pass
        return False

    @staticmethod
    def segment(m):
        return {"device": 0, "address": int(m[1], 0), "total_size": int(m[2]),
                "allocated_size": int(m[3]), "active_size": int(m[4]),
                "requested_size": int(m[5]), "stream": handle(int(m[6])),
                "segment_type": m[7], "segment_pool_id": (int(m[9]), int(m[10])),
                "is_expandable": bool(m[8]), "frames": [], "blocks": []}

    def entry(self, m):
        e = {"action": m[1]}
        e["device_free" if m[1] == "oom" else "addr"] = int(m[2], 0)
        e.update(size=int(m[3]), stream=handle(int(m[4])),
                 time_us=START_US + 7 * len(self.trace))
        if self.version >= (2, 7):
            e["compile_context"] = "N/A"
        if self.version >= (2, 9):
            e["user_metadata"] = ""
        return e

    def cut(self, late, ring):
        """Histories begin between two operations; rings forget anywhere."""
        while 0 < late < len(self.trace) and self.trace[late - 1][
                "action"] not in ("alloc", "oom", "snapshot"):
            late += 1
        self.trace = self.trace[late:]
        if ring:
            self.trace = self.trace[-ring:]

    def settings(self):
        o = self.options
        s = {"PYTORCH_CUDA_ALLOC_CONF": self.text,
             "max_split_size": -1 if o.max_split == UNLIMITED else o.max_split,
             "garbage_collection_threshold": o.gc,
             "expandable_segments": o.expandable,
             "pinned_num_register_threads": 1,
             "release_lock_on_cudamalloc": False,
             "pinned_use_cuda_host_register": False}
        if self.version >= (2, 9):
            s["graph_capture_record_stream_reuse"] = o.reuse
        s["roundup_power2_divisions"] = {
            str(1 << i): d for i, d in enumerate(o.divisions)}
        return s

    def snapshot(self):
        d = {"segments": self.segments, "device_traces": [self.trace],
             "allocator_settings": self.settings()}
        if self.version >= (2, 5):
            d["external_annotations"] = []
        return d


def main():
    p = argparse.ArgumentParser(
        usage="snapshot.py [options] OUTPUT FILE.pickle")
    p.add_argument("--version", default="2.4")
    p.add_argument("--late", type=int, default=0)
    p.add_argument("--ring", type=int, default=0)
    p.add_argument("--protocol", type=int, default=4)
    p.add_argument("output")
    p.add_argument("file")
    a = p.parse_args()
    if a.output == "-":
        lines = sys.stdin.read().splitlines()
    else:
        with open(a.output) as f:
            lines = f.read().splitlines()
    out = Output(lines, a.version)
    out.cut(a.late, a.ring)
    data = pickle.dumps(out.snapshot(), protocol=a.protocol)
    if a.file.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    with open(a.file, "wb") as f:
        f.write(data)


main()
