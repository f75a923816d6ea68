#!/usr/bin/env python3
"""Random logs, run by dtr_grid and by dtr_slow.py: both must say the same, to the integer.

    dtr_random.py DTR_GRID SEED COUNT
"""
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES = ("DTR,DTREqClass,DTRLocal,MSPS,LRU,LargestStorage,AbESize,AbEStale,AbE,AbEqSize,"
           "AbEqStale,AbEq,AbLocalSize,AbLocalStale,AbLocal,AbSizeStale,AbStale")


class Log:
    """Names are released at random, copied, moved and changed; ops are deep, wide, or views."""

    def __init__(self, rng):
        self.rng, self.lines, self.next = rng, [], 0
        self.live, self.changed = [], set()  # names; tensors that were changed already
        self.tensor = {}  # by name
        self.memory = {}  # by tensor: the storage that it shared when nothing was changed
        self.sizes = [0, 1, 8, 64, 4096, 1 << 20, (1 << 28) + 4, rng.randrange(1, 1 << 31)]
        self.costs = [0, 1, 7, 1000, 999983, rng.randrange(1, 10**7)]
        self.line(INSTRUCTION="ANNOTATE", ANNOTATION="START")

    def line(self, **fields):
        self.lines.append(json.dumps(fields))

    def name(self):
        self.next += 1
        return "x%d" % self.next

    def pick(self):
        """Mostly what is recent, so that chains arise."""
        if self.rng.random() < 0.7:
            return self.live[-min(len(self.live), self.rng.randrange(1, 5))]
        return self.rng.choice(self.live)

    def constant(self):
        name = self.name()
        self.line(INSTRUCTION="CONSTANT", NAME=name)
        self.line(INSTRUCTION="MEMORY", NAME=name, MEMORY=str(self.rng.choice(self.sizes[:6])))
        self.live.append(name)
        self.tensor[name] = self.memory[name] = name

    def call(self):
        args = [self.pick() for _ in range(self.rng.choice([0, 1, 1, 1, 2, 2, 3, 5]))]
        out = [self.name() for _ in range(self.rng.choice([1, 1, 1, 1, 2, 3]))]
        self.line(INSTRUCTION="CALL", NAME="f", ARGS=args, RESULT=out,
                  TIME=str(self.rng.choice(self.costs)))
        for name in out:
            alias = self.rng.randrange(len(args)) if args and self.rng.random() < 0.25 else -1
            if alias >= 0 and len({self.tensor[a] for a in args if self.root(a) ==
                                   self.root(args[alias])}) > 1:
                alias = -1  # a trace does not tell versions of one storage apart here
            self.memory[name] = self.root(args[alias]) if alias >= 0 else name
            self.line(INSTRUCTION="MEMORY", NAME=name, MEMORY=str(self.rng.choice(self.sizes)))
            self.line(INSTRUCTION="ALIAS", NAME=name, ALIAS=str(alias))
            self.tensor[name] = name
        self.live += out

    def root(self, name):
        return self.memory[self.tensor[name]]

    def mutate(self):
        args = list({self.root(a): a for a in (self.pick() for _ in range(3))}.values())
        which = [i for i in range(len(args)) if self.tensor[args[i]] not in self.changed][:2]
        if not which:
            return
        self.line(INSTRUCTION="MUTATE", NAME="f_", ARGS=args, MUTATE=which,
                  TIME=str(self.rng.choice(self.costs)))
        for i in which:
            self.changed.add(self.tensor[args[i]])
            old = self.tensor[args[i]]
            self.tensor[args[i]] += "$"
            self.memory[old + "$"] = self.memory[old]

    def copy(self):
        name, source = self.name(), self.pick()
        self.line(INSTRUCTION="COPY", DST=name, SRC=source)
        self.tensor[name] = self.tensor[source]
        self.live.append(name)

    def copy_from(self):
        to, source = self.pick(), self.pick()
        if self.tensor[to] == self.tensor[source]:
            return
        self.line(INSTRUCTION="COPY_FROM", DST=to, SRC=source)
        self.tensor[to] = self.tensor[source]

    def release(self):
        if len(self.live) < 3:
            return
        name = self.live.pop(self.rng.randrange(len(self.live)))
        self.line(INSTRUCTION="RELEASE", NAME=name)

    def make(self, n):
        for _ in range(self.rng.randrange(2, 5)):
            self.constant()
        kinds = [self.call, self.mutate, self.copy, self.copy_from, self.release, self.constant]
        weights = [50, self.rng.choice([0, 4]), 10, self.rng.choice([0, 3]),
                   self.rng.choice([5, 25, 45]), 1]
        for _ in range(n):
            self.rng.choices(kinds, weights)[0]()
        return "\n".join(self.lines) + "\n"


def rows(command):
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return [line for line in text.splitlines() if not line.startswith("log,")]


def main():
    grid, seed, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    cells = 0
    with tempfile.TemporaryDirectory() as folder:
        for s in range(seed, seed + count):
            rng = random.Random(s)
            path = os.path.join(folder, "seed-%d.log" % s)
            with open(path, "w") as f:
                f.write(Log(rng).make(rng.choice([20, 60, 150, 400])))
            for policy in "eager", "ignore":
                options = ["-h", CLASSES, "-r", "1.0,0.8,0.6,0.5,0.4,0.3,0.2", "-d", policy]
                fast = [r.rsplit(",", 1)[0] for r in rows([grid, *options, path])]
                slow = rows([sys.executable, os.path.join(HERE, "dtr_slow.py"), *options, path])
                cells += len(slow)
                for a, b in zip(fast, slow):
                    if a != b:
                        sys.exit("seed %d, %s:\n  %s, expected\n  %s" % (s, policy, a, b))
                if len(fast) != len(slow):
                    sys.exit("seed %d: %d rows, expected %d" % (s, len(fast), len(slow)))
    print("%d logs, %d runs agree" % (count, cells))


main()
