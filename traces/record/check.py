"""Holds the files of a folder against truth.csv beside them, category by category at the peak.

    python3 check.py ../models ../models/twins

Totals must be equal: our peak, the plain count's, MemTracker's; FLOPs.  Categories are defined
differently, so a storage is first called as MemTracker would call it:

    made in forward (or made again for backward)   Activation, kept for backward or not
    made in backward                               Temp, or Gradient once it is a parameter's
    made in the optimizer's step                   Optstate, temporaries too

What is still different is printed with its bytes: `by role` is what memreuse info says.
"""
import csv
import os
import sys

from saved import columns_of, rows_of

CATEGORIES = ("Parameter", "Buffer", "Gradient", "Activation", "Temp", "Optstate", "Other")

AS_CALLED = {"parameter": "Parameter", "buffer": "Buffer", "gradient": "Gradient",
             "activation": "Activation", "temporary": "Temp", "state": "Optstate",
             "input": "Other"}

BORN = {"forward": "Activation", "backward": "Temp", "update": "Optstate", "other": "Other"}


class Replay:
    """Live storages through the events of a file, remembered at the peak."""

    def __init__(self, path):
        self.role, self.born, self.bytes = {}, {}, {}
        self.storage_of, self.live, self.new = {}, set(), set()
        self.total = self.peak = self.flops = 0
        self.at_peak = ()
        for row in rows_of(path):
            step = getattr(self, "see_" + row[0], None) if row else None
            if step:
                step(row)

    def see_storage(self, row):
        columns = columns_of(row[3:])
        self.role[row[1]], self.bytes[row[1]] = columns["role"], int(row[2])
        self.add(row[1])

    def see_alloc(self, row):
        self.see_storage(row)
        self.new.add(row[1])

    def add(self, storage):
        self.live.add(storage)
        self.total += self.bytes[storage]
        if self.total > self.peak:
            self.peak, self.at_peak = self.total, frozenset(self.live)

    def see_free(self, row):
        self.live.discard(row[1])
        self.total -= self.bytes[row[1]]

    def see_tensor(self, row):
        self.storage_of[row[1]] = row[2]

    def see_op(self, row):
        columns = columns_of(row[4:])
        self.flops += int(columns.get("flops", 0))
        again = row[3] == "backward" and "again" in columns
        for storage in self.new:
            self.born[storage] = "forward" if again else row[3]
        self.new.clear()

    def by_role(self):
        return self.sums(lambda s: AS_CALLED[self.role[s]])

    def as_mem_tracker(self):
        return self.sums(self.called)

    def called(self, storage):
        named = AS_CALLED[self.role[storage]]
        if storage not in self.born or named == "Gradient":
            return named
        return BORN[self.born[storage]]

    def sums(self, name):
        sums = dict.fromkeys(CATEGORIES, 0)
        for storage in self.at_peak:
            sums[name(storage)] += self.bytes[storage]
        return sums


def check_file(folder, truth):
    replay = Replay(os.path.join(folder, truth["file"]))
    bad = [f"{name} is {ours}, {theirs} in truth.csv" for name, ours, theirs in (
        ("peak", replay.peak, truth["counted_peak"]), ("peak", replay.peak, truth["peak"]),
        ("curve", truth["curve"], truth["counted_curve"]),
        ("MemTracker's peak", replay.peak, truth["mem_tracker"] or replay.peak),
        ("flops", replay.flops, truth["flop_counter"])) if str(ours) != str(theirs)]
    print(f"{truth['file']}: peak {replay.peak}", "; ".join(bad) or "as counted",
          truth["mem_tracker_says"] and "(no MemTracker: " + truth["mem_tracker_says"] + ")")
    if truth["mem_tracker"]:
        roles, called = replay.by_role(), replay.as_mem_tracker()
        for name in CATEGORIES:
            theirs = int(truth["mem_tracker_" + name.lower()] or 0)
            if called[name] != theirs:
                print(f"    {name:10} MemTracker {theirs}, as it calls them {called[name]}, "
                      f"difference {called[name] - theirs}, by role {roles[name]}")
    return bool(bad)


def main():
    bad = False
    if not sys.argv[1:]:
        sys.exit("usage: check.py FOLDER...")
    for folder in sys.argv[1:]:
        with open(os.path.join(folder, "truth.csv"), newline="") as file:
            for truth in csv.DictReader(file):
                bad |= check_file(folder, truth)
    return bad


if __name__ == "__main__":
    try:
        sys.exit(main())
    except OSError as error:
        sys.exit(f"check.py: {error.filename}: {error.strerror}")
