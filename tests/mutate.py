#!/usr/bin/env python3
"""Can the tests fail?  Breaks the model of PyTorch's allocator in one place after another and
says which check notices.

    mutate.py [--dir DIR] [--jobs N] [--list] [NAME...]

mutations.txt holds the changes, one replacement of text each; NAME takes some of them.  They
are made in a copy of the project, which --dir keeps from run to run; the project itself is only
read.  Only the programs of a check are built for it, and a program that came out the same byte
for byte is not run again.  The first check that notices ends a mutation.  Stored outputs are
compared as oracle/check_golden.sh -w does it, but without its many processes.

Exit status 0 when every mutation is noticed, but for those that mutations.txt explains to
change nothing that can be seen; and when --list finds every text to be replaced exactly once.
"""
import argparse
import glob
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
FOLDERS = ("strategies/caching/c10", "strategies/caching")
LEFT_OUT = (".git", "plots-out")  # of the copy; build folders too
RECORDED = os.path.join(ROOT, "..", "shared", "recordings", "pytorch-snapshots")
SECONDS = 20  # of processor time for one process: mutants may never come to an end
MEMORY = 4 << 30


class Mutation:
    """One block of mutations.txt."""

    def __init__(self, lines):
        name, self.file = lines[0].split()
        self.name = name.strip("[]")
        part = {mark: [x[2:] for x in lines[1:] if x[0] == mark] for mark in "-+="}
        self.old, self.new = "\n".join(part["-"]), "\n".join(part["+"])
        self.unseen = " ".join(part["="])  # why nobody can notice
        self.path = next((os.path.join(folder, self.file) for folder in FOLDERS
                          if os.path.exists(os.path.join(ROOT, folder, self.file))), None)

    def applied(self, text):
        """None unless the text to be replaced stands there exactly once."""
        return text.replace(self.old, self.new) if text.count(self.old) == 1 else None


def read_mutations(path):
    with open(path) as f:
        blocks = f.read().split("\n\n")
    blocks = [[x for x in b.splitlines() if not x.startswith("#")] for b in blocks]
    return [Mutation(b) for b in blocks if b]


def read(path):
    with open(path, "rb") as f:
        return f.read()


def write(path, text):
    with open(path, "wb") as f:
        f.write(text)


def copy_tree(source, to):
    """Files that are the same already keep their time, so that make passes them over."""
    os.makedirs(to, exist_ok=True)
    for entry in os.scandir(source):
        there = os.path.join(to, entry.name)
        if entry.name in LEFT_OUT or entry.name.startswith("build"):
            continue
        if entry.is_dir():
            copy_tree(entry.path, there)
        elif not os.path.exists(there) or read(there) != read(entry.path):
            shutil.copy(entry.path, there)


def limit():
    resource.setrlimit(resource.RLIMIT_CPU, (SECONDS, SECONDS))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def printed(command, **more):
    """Exit status and output of a command that may be out of its mind."""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          preexec_fn=limit, **more)
    return done.returncode, done.stdout


class Check:
    """A command that has to succeed: words before the program, the program, words after it."""

    def __init__(self, name, program, after=(), before=()):
        self.name, self.program = name, program
        self.after, self.before = list(after), list(before)

    def notices(self, build):
        """The name of what failed; None when all is well."""
        program = os.path.join(build, self.program)
        status, _ = printed(self.before + [program] + self.after, cwd=build)
        return self.name if status else None


class Golden:
    """The scripts of oracle/golden, for all releases."""

    def __init__(self, tests):
        self.name, self.program = "golden", "tests/ops_run"
        self.outputs = sorted(glob.glob(os.path.join(tests, "oracle", "golden", "*", "*.out")))

    def notices(self, build):
        for path in self.outputs:
            folder, name = os.path.split(path[:-len(".out")])
            version = os.path.basename(folder)
            script = os.path.join(os.path.dirname(folder), name + ".ops")
            memory = re.match(rb".*MEM=(\d+[KMGT])", read(script))
            command = [os.path.join(build, self.program), "--version", version, script]
            _, output = printed(command,
                                env={"FAKECUDA_TOTAL_MEM": memory[1] if memory else ""})
            if output != read(path):
                return "golden %s %s" % (version, name)
        return None


def recording_checks(tests):
    files = sorted(glob.glob(os.path.join(tests, "oracle", "snapshots", "*.pickle*")))
    files += sorted(glob.glob(os.path.join(RECORDED, "*.pickle")))
    for path in files:
        name = os.path.splitext(os.path.basename(path))[0]
        yield Check("recording " + name, "memreuse", [path],
                    ["sh", os.path.join(tests, "recordings.sh")])


def command_line_checks(tests):
    folder = os.path.join(tests, "cli")
    for path in sorted(glob.glob(os.path.join(folder, "*.txt"))):
        name = os.path.splitext(os.path.basename(path))[0]
        if name != "CMakeLists":
            yield Check("cli " + name, "memreuse", [os.path.dirname(tests), path],
                        ["sh", os.path.join(folder, "run.sh")])


def all_checks(tests):
    """Those in the folder of tests of the copy."""
    units = ("test_c10", "test_c10_sets", "test_c10_adopt", "test_strategies",
             "test_placement", "test_spec")
    return ([Golden(tests)] + [Check(name, "tests/" + name) for name in units]
            + list(recording_checks(tests)) + list(command_line_checks(tests)))


class Copy:
    """The copy of the project, and how it behaves unmutated."""

    def __init__(self, folder, jobs):
        self.source, self.build = os.path.join(folder, "project"), os.path.join(folder, "build")
        self.make = ["make", "-j%d" % jobs]
        copy_tree(ROOT, self.source)
        shared = os.path.abspath(os.path.join(ROOT, "..", "shared"))
        subprocess.run(["cmake", "-S", self.source, "-B", self.build, "-DCMAKE_BUILD_TYPE=None",
                        "-DCMAKE_C_FLAGS=-w", "-DMR_SHARED=" + shared],
                       check=True, stdout=subprocess.DEVNULL)
        self.checks, self.programs = all_checks(os.path.join(self.source, "tests")), {}
        for program in dict.fromkeys(check.program for check in self.checks):
            if not self.builds(program):
                sys.exit("mutate.py: %s cannot be built" % program)
            self.programs[program] = read(os.path.join(self.build, program))
        failing = [check for check in self.checks if check.notices(self.build)]
        for check in failing:
            print("left out, as it fails without a mutation: " + check.name)
        self.checks = [check for check in self.checks if check not in failing]

    def builds(self, program):
        made = subprocess.run(self.make + [os.path.basename(program)], cwd=self.build,
                              stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if made.returncode:
            print(made.stderr, file=sys.stderr)
        return not made.returncode

    def first_to_notice(self):
        """Name of the check, None when there is none, and whether the programs differ."""
        built, differ = {}, False
        for check in self.checks:
            program = check.program
            if program not in built:
                if not self.builds(program):
                    return "the compiler", True
                built[program] = read(os.path.join(self.build, program))
            if built[program] == self.programs[program]:
                continue
            differ = True
            found = check.notices(self.build)
            if found:
                return found, True
        return None, differ

    def outcome(self, mutation):
        """What is printed, and whether it is as it should be."""
        path = os.path.join(self.source, mutation.path)
        text = read(path)
        write(path, mutation.applied(text.decode()).encode())
        try:
            found, differ = self.first_to_notice()
        finally:
            write(path, text)
        if found:
            note = ", though it is said to change nothing" if mutation.unseen else ""
            return found + note, not mutation.unseen and found != "the compiler"
        if mutation.unseen:
            return "nobody: " + mutation.unseen, True
        return "SURVIVED" + ("" if differ else ", the programs are the same"), False


def misplaced(mutations):
    """Mutations whose text does not stand exactly once in its file."""
    return [m for m in mutations
            if not m.path or m.applied(read(os.path.join(ROOT, m.path)).decode()) is None]


def run(mutations, folder, jobs):
    copy = Copy(folder, jobs)
    noticed = unseen = wrong = 0
    print("%-34s %-16s %s" % ("mutation", "file", "noticed by"))
    for mutation in mutations:
        text, good = copy.outcome(mutation)
        print("%-34s %-16s %s" % (mutation.name, mutation.file, text), flush=True)
        noticed += good and not mutation.unseen
        unseen += good and bool(mutation.unseen)
        wrong += not good
    print("%d mutations: %d noticed, %d change nothing that can be seen, %d not as expected"
          % (len(mutations), noticed, unseen, wrong))
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser(
        usage="mutate.py [--dir DIR] [--jobs N] [--list] [NAME...]")
    parser.add_argument("--dir")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--list", action="store_true")
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    mutations = read_mutations(os.path.join(HERE, "mutations.txt"))
    if args.names:
        mutations = [m for m in mutations if m.name in args.names]
    wrong = misplaced(mutations)
    for mutation in wrong:
        print("%s: what it replaces does not stand exactly once in %s"
              % (mutation.name, mutation.file))
    if wrong or args.list:
        print("%d mutations, %d misplaced" % (len(mutations), len(wrong)))
        return 1 if wrong else 0
    if args.dir:
        return run(mutations, args.dir, args.jobs)
    with tempfile.TemporaryDirectory() as folder:
        return run(mutations, folder, args.jobs)


if __name__ == "__main__":
    sys.exit(main())
