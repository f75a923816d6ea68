#!/usr/bin/env python3
"""The rules of simrd, followed to the letter and slowly: numbers of Python, sets of objects.

    dtr_slow.py LOG... [-h CLASS,...] [-r RATIO,...] [-d eager|ignore]

Prints the columns of dtr_grid but the last.  tests/oracle/dtr_random.py compares the two.
"""
import gzip
import json
import math
import os
import sys
import threading


class Storage:
    def __init__(self, size):
        self.size, self.present, self.tensors = size, False, []
        self.locks = self.references = self.cost = 0
        self.pinned, self.access = False, -math.inf
        self.regions = {}  # "children" and "parents": inside, frontier, cost
        self.group = None


class Tensor:
    def __init__(self, op, storage, size):
        self.op, self.storage, self.size = op, storage, size
        self.defined, self.children, self.names = False, [], 0


class Op:
    def __init__(self, cost, args):
        self.cost, self.args, self.out, self.size = cost, list(args), [], 0


class Group:  # a class of evicted storages
    def __init__(self, cost):
        self.cost, self.up = cost, None

    def root(self):
        g = self
        while g.up:
            g = g.up
        return g


# ---- the log, as a list of what the program does -------------------------------------------------


def read(path):
    lines = (gzip.open if path.endswith(".gz") else open)(path, "rt")
    rows = iter([json.loads(line) for line in lines if line.strip()])
    for row in rows:
        if row["INSTRUCTION"] == "ANNOTATE" and row["ANNOTATION"] == "START":
            break
    steps, names, sizes = [], {}, {}
    count = 0

    def make(cost, args, outs, constant=False):
        nonlocal count
        new = []
        for size, alias in outs:
            new.append(count)
            sizes[count] = sizes[args[alias]] if alias >= 0 else size
            references[count] = 1
            count += 1
        steps.append(("run", cost, list(args), outs, new, constant))
        return new

    references = {}
    for row in rows:
        kind = row["INSTRUCTION"]
        if kind == "CONSTANT":
            (names[row["NAME"]],) = make(0, [], [(int(next(rows)["MEMORY"]), -1)], True)
        elif kind == "CALL":
            outs = []
            for _ in row["RESULT"]:
                size, alias = int(next(rows)["MEMORY"]), int(next(rows)["ALIAS"])
                outs.append((0 if alias >= 0 else size, alias))
            new = make(int(row["TIME"]), [names[a] for a in row["ARGS"]], outs)
            names.update(zip(row["RESULT"], new))
        elif kind == "MUTATE":
            args = [names[a] for a in row["ARGS"]]
            new = make(int(row["TIME"]), args, [(sizes[args[m]], -1) for m in row["MUTATE"]])
            for m, t in zip(row["MUTATE"], new):
                old = names[row["ARGS"][m]]
                names[row["ARGS"][m]] = t
                references[old] -= 1
                steps.append(("release", old))
        elif kind == "COPY":
            names[row["DST"]] = names[row["SRC"]]
            references[names[row["SRC"]]] += 1
            steps.append(("refer", names[row["SRC"]]))
        elif kind == "COPY_FROM":
            old, names[row["DST"]] = names[row["DST"]], names[row["SRC"]]
            references[old] -= 1
            references[names[row["SRC"]]] += 1
            steps.append(("release", old))
            steps.append(("refer", names[row["SRC"]]))
        elif kind == "RELEASE" and row["NAME"] in names:
            references[names[row["NAME"]]] -= 1
            steps.append(("release", names[row["NAME"]]))
    for name in names:
        if references[names[name]] > 0:
            steps.append(("pin", names[name]))
    return steps


# ---- one run -------------------------------------------------------------------------------------


class Stop(Exception):
    pass


class Run:
    def __init__(self, budget, limit, score, eager):
        self.budget, self.limit, self.score, self.eager = budget, limit, score, eager
        self.used = self.peak = self.remat = self.compute = self.evaluations = 0
        self.clock, self.pool, self.tensors = 1, [], []

    def all(self, steps):
        try:
            for step in steps:
                self.step(step)
        except Stop as stop:
            return str(stop)
        return "pass"

    def step(self, step):
        kind = step[0]
        if kind == "run":
            self.run(*step[1:])
            return
        t = self.tensors[step[1]]
        s = t.storage
        if kind == "refer":
            s.references += 1
        elif kind == "release":
            s.references -= 1
            if self.eager and not s.references and s.present and not s.pinned:
                self.evict(s)
        elif kind == "pin":
            if not t.defined:
                self.materialize(t, True)
            self.pin(s)

    def pin(self, s):
        if not s.pinned:
            self.lock(s)
            s.pinned = True

    def lock(self, s):
        assert s.present
        if not s.locks:
            self.pool = [x for x in self.pool if x is not s]
        s.locks += 1

    def unlock(self, s):
        s.locks -= 1
        if not s.locks:
            self.pool.append(s)

    # ---- regions -----------------------------------------------------------------------------

    def beside(self, s, way):
        for t in s.tensors:
            for u in t.children if way == "children" else t.op.args:
                yield u.storage

    def rebuild(self, s, way):
        inside, frontier, cost, stack = set(), set(), 0, [s]
        while stack:
            for u in self.beside(stack.pop(), way):
                if u.present:
                    if u is not s:
                        frontier.add(u)
                elif u not in inside:
                    inside.add(u)
                    cost += u.cost
                    stack.append(u)
        s.regions[way] = [inside, frontier, cost]

    def absorb(self, region, s, other):
        region[1].discard(s)
        region[1] |= other[1]
        more = (other[0] - region[0]) | {s}
        region[2] += sum(u.cost for u in more)
        region[0] |= more

    def neighbours(self, s):
        both = set(self.beside(s, "children")) | set(self.beside(s, "parents"))
        return {u for u in both if u is not s and not u.present}

    # ---- memory ------------------------------------------------------------------------------

    def evict(self, s):
        s.present = False
        self.used -= s.size
        self.pool = [x for x in self.pool if x is not s]
        for t in s.tensors:
            t.defined = False
        below, above = s.regions["children"], s.regions["parents"]
        for u in list(above[1]):
            self.absorb(u.regions["children"], s, below)
        for u in list(below[1]):
            self.absorb(u.regions["parents"], s, above)
        s.regions = {way: [set(), set(), 0] for way in ("children", "parents")}
        s.group = Group(s.cost)
        for u in self.neighbours(s):
            a, b = u.group.root(), s.group.root()
            if a is not b:
                a.up = b
                b.cost += a.cost

    def free(self, size):
        while self.used + size > self.budget:
            if not self.pool:
                raise Stop("oom")
            best, chosen = math.inf, None
            for s in self.pool:
                self.evaluations += 1
                score = self.score(self, s)
                if score <= best:
                    best, chosen = score, s
                if score == 0:
                    break
            self.evict(chosen)

    # ---- ops ---------------------------------------------------------------------------------

    def run(self, cost, args, outs, new, constant):
        op = Op(cost, [self.tensors[a] for a in args])
        for (size, alias), number in zip(outs, new):
            storage = op.args[alias].storage if alias >= 0 else Storage(size)
            t = Tensor(op, storage, size)
            storage.tensors.append(t)
            storage.references += 1
            storage.cost = sum({id(u.op): u.op.cost for u in storage.tensors}.values())
            if len(storage.tensors) == 1:
                storage.group = Group(0)
                storage.regions = {way: [set(), set(), 0] for way in ("children", "parents")}
            op.out.append(t)
            op.size += size
            assert number == len(self.tensors)
            self.tensors.append(t)
        for p in op.args:
            p.children.extend(op.out)
        self.materialize(op.out[0], False)
        for t in op.out:
            t.storage.access = self.clock
        if constant:
            self.pin(op.out[0].storage)

    def materialize(self, t, again):
        op = t.op
        for p in op.args:
            p.storage.access = self.clock
        missing = [p for p in op.args if not p.defined]
        for p in op.args:
            if p.defined:
                self.lock(p.storage)
        for p in missing:
            if not p.defined:
                self.materialize(p, True)
            self.lock(p.storage)
        self.free(op.size)
        self.compute_op(t, again)
        for p in op.args:
            self.unlock(p.storage)
        if self.remat > self.limit:
            raise Stop("thrash")

    def compute_op(self, t, again):
        op = t.op
        others = [u for u in op.out if u is not t]
        double = [u for u in others if u.defined]
        fresh = [u.storage for u in others + [t] if not u.storage.present]
        self.clock += op.cost
        if again:
            self.remat += op.cost
        else:
            self.compute += op.cost
        self.used += op.size
        self.peak = max(self.peak, self.used)
        for u in op.out:
            u.defined = u.storage.present = True
        self.used -= sum(u.size for u in double)
        self.pool += [s for s in fresh if not any(s is x for x in self.pool)]
        reached = {"children": set(), "parents": set()}
        for s in fresh:
            self.rebuild(s, "children")
            self.rebuild(s, "parents")
            reached["children"] |= s.regions["parents"][1]
            reached["parents"] |= s.regions["children"][1]
        for way in reached:
            for s in reached[way]:
                self.rebuild(s, way)
        for s in fresh:
            s.group.root().cost -= s.cost
            s.group = None


# ---- heuristics ----------------------------------------------------------------------------------


def near(run, s):
    return s.cost + s.regions["children"][2] + s.regions["parents"][2]


def grouped(run, s):
    return s.cost + sum(g.cost for g in {u.group.root() for u in run.neighbours(s)})


def alone(run, s):
    return s.cost


def divided(cost, size, stale):
    def score(run, s):
        d = (s.size if size else 1) * (run.clock - s.access if stale else 1)
        return cost(run, s) / d if d > 0 else math.inf

    return score


def one(run, s):
    return 1


SCORES = {
    "DTR": divided(near, True, True),
    "DTREqClass": divided(grouped, True, True),
    "DTRLocal": divided(alone, True, True),
    "MSPS": divided(lambda run, s: s.cost + s.regions["parents"][2], True, False),
    "LRU": lambda run, s: s.access,
    "LargestStorage": divided(one, True, False),
    "AbESize": divided(near, True, False),
    "AbEStale": divided(near, False, True),
    "AbE": near,
    "AbEqSize": divided(grouped, True, False),
    "AbEqStale": divided(grouped, False, True),
    "AbEq": grouped,
    "AbLocalSize": divided(alone, True, False),
    "AbLocalStale": divided(alone, False, True),
    "AbLocal": alone,
    "AbSizeStale": divided(one, True, True),
    "AbStale": divided(one, False, True),
}


def live_peak(steps):
    """Most bytes at once when a storage goes with the last reference to it."""
    run = Run(math.inf, math.inf, None, True)
    assert run.all([s for s in steps if s[0] != "pin"]) == "pass"
    now = peak = 0
    storages, references = [], {}
    for step in steps:
        if step[0] == "run":
            for (size, alias), _ in zip(step[3], step[4]):
                storage = storages[step[2][alias]] if alias >= 0 else len(storages)
                storages.append(storage)
                references[storage] = references.get(storage, 0) + 1
                now += size
            peak = max(peak, now)
        elif step[0] == "refer":
            references[storages[step[1]]] += 1
        elif step[0] == "release":
            s = storages[step[1]]
            references[s] -= 1
            if not references[s]:
                now -= run.tensors[s].storage.size
    return peak, run.compute


def main():
    args = sys.argv[1:]
    names, ratios, eager, logs = list(SCORES), [i / 10 for i in range(10, 0, -1)], True, []
    while args:
        a = args.pop(0)
        if a == "-h":
            names = args.pop(0).split(",")
        elif a == "-r":
            ratios = [float(x) for x in args.pop(0).split(",")]
        elif a == "-d":
            eager = args.pop(0) == "eager"
        else:
            logs.append(a)
    for log in logs:
        steps = read(log)
        peak, compute = live_peak(steps)
        for name in names:
            for ratio in ratios:
                run = Run(int(ratio * peak), compute, SCORES[name], eager)
                result = run.all(steps)
                print(os.path.basename(log).split(".")[0], name, "%g" % ratio, run.budget, result,
                      run.clock, run.remat, run.peak, run.evaluations, sep=",")
                if result == "oom":
                    break


if __name__ == "__main__":
    sys.setrecursionlimit(1000000)
    threading.stack_size(512 << 20)
    thread = threading.Thread(target=main)
    thread.start()
    thread.join()
