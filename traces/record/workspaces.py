"""Measures what ops take and give back inside, on a CUDA device, for record.py --workspaces.

    python3 workspaces.py TABLE OPTION...       # as record.py, with `next` between recordings
    python3 workspaces.py TABLE                 # shortens the table

It runs the steps of record.py with real tensors and adds to TABLE, by op and arguments, what
PyTorch's own allocator hands out during the op beyond what is there before or after it.  The fake
device of tests/oracle/torch will do: kernels are not needed, and cuDNN chooses its engines and their
workspaces by what a device says of itself.

A table is shortened by `*` for the arguments of an op that has taken the same with all of them.
"""
import contextlib
import csv
import fcntl
import os
import sys

sys.argv.append("--on-device")      # record.py looks for it when it is read

import torch  # noqa: E402

import memreuse_record as mr  # noqa: E402
import record  # noqa: E402


class Measure:
    """Takes the place of mr.Workspaces: the recorder's clock fills op.workspace."""

    def fill(self, op):
        pass

    def notes(self):
        return ()


def measured(args):
    """The ops of the step with what each has taken."""
    with record.settled(args, args.batch) as run:
        recorder = mr.Recorder(run.model, run.optimizers, workspaces=Measure())
        recorder.clock = mr.CudaClock()
        with recorder:
            run.steps(recorder.step)
        return recorder.ops


def origin():
    device, cudnn = torch.cuda.get_device_properties(0), torch.backends.cudnn.version()
    return (f"measured with PyTorch {torch.__version__.split('+')[0]}'s own allocator and cuDNN "
            f"{cudnn // 10000}.{cudnn // 100 % 100}.{cudnn % 100} on a device without kernels, of compute "
            f"capability {device.major}.{device.minor} with {device.multi_processor_count} "
            "multiprocessors (traces/record/workspaces.csv)")


@contextlib.contextmanager
def table_of(path):
    """What the table says, to be changed; others wait meanwhile."""
    with open(path, "a+", newline="") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        known = {(op, arguments): int(n) for op, arguments, n in list(csv.reader(file))[2:]}
        yield known
        file.truncate(0)
        out = csv.writer(file, lineterminator="\n")
        out.writerows([("#", origin()), ("op", "arguments", "bytes")])
        out.writerows((*key, n) for key, n in sorted(known.items()))


def add(known, ops):
    """Of two measurements of the same that differ, which is told, the larger stays."""
    for op in ops:
        key = op.name, op.arguments
        if known.setdefault(key, op.workspace) != op.workspace:
            print(f"{key}: {known[key]} and {op.workspace}", flush=True)
            known[key] = max(known[key], op.workspace)


def shorten(known):
    for name in {op for op, _ in known}:
        found = {n for (op, _), n in known.items() if op == name}
        if len(found) == 1:
            for key in [key for key in known if key[0] == name]:
                del known[key]
            known[name, "*"] = found.pop()


def main(path, words):
    if not words:
        with table_of(path) as known:
            shorten(known)
    while words:
        end = words.index("next") if "next" in words else len(words)
        args = record.arguments(["--on-device"] + words[:end])
        words = words[end + 1:]
        print(os.path.basename(args.o), flush=True)
        ops = measured(args)
        with table_of(path) as known:
            add(known, ops)


torch.backends.cuda.enable_cudnn_sdp(False)
main(sys.argv[1], [word for word in sys.argv[2:] if word != "--on-device"])
os._exit(0)     # the fake device has no threads to be joined
