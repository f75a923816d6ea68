"""What PyTorch's own allocator holds at the most in training steps of shipped recordings.

    ./run.sh LIBRARIES PYTHON peaks.py TABLE OPTION...      # as record.py, with `next` between

Each program of traces/record/record.py runs its first step and then three more on the fake device,
without the recorder.  TABLE gets a row for each: the name of the recording, bytes asked for,
handed out and held from the device, each at its peak.
"""
import csv
import gc
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../traces/record"))
sys.argv.append("--on-device")      # record.py looks for it when it is read

import torch  # noqa: E402

import record  # noqa: E402

STEPS = 3


def peaks(args):
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    with torch.device("cuda"):
        run = record.Run(args, args.batch)
        for _ in range(1 + STEPS):
            run.rewind()
            run.steps()
    stats = torch.cuda.memory_stats()
    return [stats[f"{name}_bytes.all.peak"] for name in ("requested", "allocated", "reserved")]


def main(path, words):
    rows = []
    if os.path.exists(path):
        with open(path, newline="") as file:
            rows = list(csv.reader(file))[1:]
    for one in " ".join(words).split(" next"):
        if not one.split():
            continue
        args = record.arguments(["--on-device"] + one.split())
        name = os.path.basename(args.o)
        rows = [row for row in rows if row[0] != name] + [[name, *peaks(args)]]
        print(*rows[-1], flush=True)
        with open(path, "w", newline="") as file:
            out = csv.writer(file, lineterminator="\n")
            out.writerow(["file", "requested", "allocated", "reserved"])
            out.writerows(sorted(rows))
        torch.set_default_dtype(torch.float32)


torch.backends.cuda.enable_cudnn_sdp(False)
main(sys.argv[1], [word for word in sys.argv[2:] if word != "--on-device"])
os._exit(0)     # the fake device has no threads to be joined
