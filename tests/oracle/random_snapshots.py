#!/usr/bin/env python3
"""Random programs played by the real allocator, and the snapshots they leave
held against the prediction.

    random_snapshots.py [options] DRIVERS MEMREUSE FIRST LAST

gen_ops.py writes a script for each seed from FIRST to LAST, the real allocator
DRIVERS/VERSION/ptdriver plays it, snapshot.py makes a memory snapshot of what
it did, and "MEMREUSE check" says whether the prediction is exact. It is told
what a snapshot does not hold: the release, and with a memory fraction the
memory of the device; the rest it has to find out. The same arguments give the
same snapshots, but for frees that complete together (README.md, hash tables).

    --versions V,..  releases (default 2.4,2.6,2.8,2.11,2.15)
    --operations N   of a script (default 400)
    --late           the history begins at a place drawn from the seed
    --cuts N         with --late: as many places for each seed (default 1)
    --pools WHICH    scripts with private pools: all, none or only
    --collect WHICH  scripts with garbage_collection_threshold, likewise
    --told           the memory of the device is told always
    --keep FOLDER    snapshots that are not exact go there
"""
import argparse
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 60  # one check takes far less
EVERY = "2.4,2.6,2.8,2.11,2.15"


class Program:
    """A random script and what it says of itself."""

    def __init__(self, seed, operations):
        self.seed = seed
        self.text = subprocess.run(
            [sys.executable, HERE + "/gen_ops.py", str(seed), str(operations)],
            stdout=subprocess.PIPE, check=True, text=True).stdout
        self.memory = int(re.match(r"# FAKECUDA_TOTAL_MEM=(\d+)M", self.text)[1])
        self.conf = self.first("conf")
        self.fraction = self.first("fraction")
        self.pools = "\npool_begin " in self.text
        self.collects = "garbage_collection_threshold" in self.conf

    def first(self, word):
        m = re.search(r"^%s (\S+)" % word, self.text, re.M)
        return m[1] if m else ""

    def spec(self, version):
        spec = "pytorch:version=" + version
        if self.conf:
            spec += ",conf=[%s]" % self.conf
        if self.fraction:
            spec += ",set_per_process_memory_fraction=" + self.fraction
        return spec

    def play(self, driver, folder):
        """What the real allocator printed, as a file; None if it gave up."""
        script, output = folder + "/x.ops", folder + "/x.out"
        with open(script, "w") as f:
            f.write(self.text)
        env = dict(os.environ, FAKECUDA_TOTAL_MEM="%dM" % self.memory)
        with open(output, "w") as f:
            done = subprocess.run([driver, script], stdout=f, env=env,
                                  stderr=subprocess.DEVNULL)
        return output if done.returncode == 0 else None


def wanted(which, has):
    return which == "all" or (which == "only") == has


def cuts(a, program, output):
    """Numbers of entries that are missing at the beginning."""
    if not a.late:
        return [0]
    with open(output) as f:
        n = sum(line.startswith("trace ") for line in f)
    r = random.Random(program.seed)
    return [int(n * r.uniform(0.1, 0.9)) for _ in range(a.cuts)]


def check(a, program, version, snapshot):
    """The first line that is not "exact", or nothing."""
    command = [a.memreuse, "check", snapshot, program.spec(version)]
    if a.told or program.fraction:
        command += ["--capacity", "%dMiB" % program.memory]
    done = subprocess.run(command, stdout=subprocess.PIPE, timeout=SECONDS,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode == 0:
        return ""
    lines = [x for x in done.stdout.splitlines()
             if re.search("different|memreuse:|every step|recorded ", x)]
    return " ".join(lines[:3]) or "exit %d" % done.returncode


def run(a, version, folder):
    exact = failed = 0
    driver = "%s/%s/ptdriver" % (a.drivers, version)
    for seed in range(a.first, a.last + 1):
        program = Program(seed, a.operations)
        if not wanted(a.pools, program.pools):
            continue
        if not wanted(a.collect, program.collects):
            continue
        output = program.play(driver, folder)
        if not output:
            print("seed %d: the driver of %s gave up" % (seed, version))
            failed += 1
            continue
        for late in cuts(a, program, output):
            snapshot = folder + "/x.pickle"
            subprocess.run([sys.executable, HERE + "/snapshot.py", "--version",
                            version, "--late", str(late), output, snapshot],
                           check=True)
            what = check(a, program, version, snapshot)
            exact += not what
            failed += bool(what)
            if not what:
                continue
            name = "%s-%d-%d" % (version, seed, late)
            print("%s of %d MiB, %s: %s" % (name, program.memory,
                                            program.spec(version), what))
            if a.keep:
                shutil.copy(snapshot, "%s/%s.pickle" % (a.keep, name))
    print("%s: %d exact, %d not" % (version, exact, failed), flush=True)
    return failed


def main():
    p = argparse.ArgumentParser(
        usage="random_snapshots.py [options] DRIVERS MEMREUSE FIRST LAST",
        description="see the head of this file")
    p.add_argument("--versions", default=EVERY)
    p.add_argument("--operations", type=int, default=400)
    p.add_argument("--late", action="store_true")
    p.add_argument("--cuts", type=int, default=1)
    for which in "--pools", "--collect":
        p.add_argument(which, choices=["all", "none", "only"], default="all")
    p.add_argument("--told", action="store_true")
    p.add_argument("--keep")
    p.add_argument("drivers")
    p.add_argument("memreuse")
    p.add_argument("first", type=int)
    p.add_argument("last", type=int)
    a = p.parse_args()
    if a.keep:
        os.makedirs(a.keep, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        failed = sum(run(a, v, folder) for v in a.versions.split(","))
    sys.exit(failed > 0)


main()
