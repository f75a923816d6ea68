#!/usr/bin/env python3
"""record_step.py: a memory snapshot of training steps, made by PyTorch's own CUDA build.

Runs on the fake CUDA libraries (see README.md): kernels do nothing, but PyTorch takes and gives
back every byte that it would on a device, with the temporaries inside ops and the workspaces.
Losses and gradients are zeros, so nothing here may ask for a value.
"""
import argparse
import contextlib
import gzip
import json
import os
import pickle
import sys
import tempfile

import torch
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "../../../traces/record"))
import models  # noqa: E402


def smaller(table, **sizes):
    """A size of models.py with fewer layers."""
    table["oracle"] = sizes
    return "oracle"


def mlp(options):
    widths = (784, 1200, 1200, 10)
    layers = []
    for width, following in zip(widths, widths[1:]):
        layers += [nn.Linear(width, following), nn.ReLU(), nn.Dropout(0.5)]
    return models.Workload(
        nn.Sequential(*layers[:-2]),
        lambda samples, number=0: (torch.rand(samples, 784), torch.randint(0, 10, (samples,))),
        lambda model, x, labels: nn.functional.cross_entropy(model(x), labels))


class Convolutions(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(inplace=True),
            nn.Conv2d(32, 64, 3, stride=2, padding=1), nn.BatchNorm2d(64),
            nn.ReLU(inplace=True), nn.MaxPool2d(2))
        self.head = nn.Linear(64, 10)

    def forward(self, x):
        return self.head(self.body(x).mean((2, 3)))


def convolutions(options):
    """Every batch of another size."""
    return models.Workload(
        Convolutions(),
        lambda samples, number=0: (torch.rand(samples, 3, 64 + 16 * (number % 3), 64),
                                   torch.randint(0, 10, (samples,))),
        lambda model, x, labels: nn.functional.cross_entropy(model(x), labels))


MODELS = {
    **models.WORKLOADS,
    "mlp": mlp,
    "convolutions": convolutions,
    "bert-2-mlm": models.bert(smaller(models.BERT, layers=2, hidden=256, heads=4), "mlm"),
    "gpt2-2": models.gpt2(smaller(models.GPT2, layers=2, hidden=256, heads=4)),
}
OPTIMIZERS = {
    "adam": lambda p: torch.optim.Adam(p, foreach=True),
    "adam-fused": lambda p: torch.optim.Adam(p, fused=True),
    "adam-loop": lambda p: torch.optim.Adam(p, foreach=False),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
}


def step(workload, optimizer, inputs, args):
    if workload.about.get("inference"):
        with torch.no_grad():
            workload.loss(workload.model, *inputs)
        return
    with torch.autocast("cuda", torch.bfloat16, enabled=args.autocast):
        loss = workload.loss(workload.model, *inputs)
    loss.backward()
    if args.clip:
        nn.utils.clip_grad_norm_(workload.model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def fetch(workload, args, number, loader):
    """Batches are made on the current stream, or copied on one of their own."""
    if loader is None:
        return workload.batch(args.batch, number)
    with torch.device("cpu"):
        host = workload.batch(args.batch, number)
    with torch.cuda.stream(loader):
        inputs = [t.to("cuda", non_blocking=True) for t in host]
    torch.cuda.current_stream().wait_stream(loader)
    for t in inputs:
        t.record_stream(torch.cuda.current_stream())
    return inputs


def train(workload, optimizer, args, record, observer):
    loader = torch.cuda.Stream() if args.loader else None
    for number in range(args.steps):
        if number == args.skip:
            record()
        if observer and number == args.steps - 1:
            observer.start()
        step(workload, optimizer, fetch(workload, args, number, loader), args)
        if args.sync and (number + 1) % args.sync == 0:
            torch.cuda.synchronize()


def profile(args):
    """With the CPU's activities alone memory events are there, and no CUPTI is needed."""
    if not args.profile:
        return contextlib.nullcontext()
    return torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU],
                                  profile_memory=True, record_shapes=True)


def write_profile(profiler, path):
    """What the profiler writes, without names of this machine."""
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(folder + "/profile.json")
        with open(folder + "/profile.json") as file:
            trace = json.load(file)
    for key in ("host_name", "traceName", "trace_id"):
        trace.pop(key, None)
    trace["traceEvents"] = [e for e in trace["traceEvents"] if e["ph"] != "M"]
    with gzip.GzipFile(path, "wb", mtime=0) as file:
        file.write(json.dumps(trace, separators=(",", ":")).encode())


def observe(args):
    """The tree of ops of the last step, when optimizer states are there."""
    if not args.execution_trace:
        return None
    observer = torch.profiler.ExecutionTraceObserver()
    observer.register_callback(args.execution_trace)
    return observer


def write_observed(observer, path):
    """What the observer wrote, compressed, without the number of the process."""
    observer.unregister_callback()
    with open(path) as file:
        trace = json.load(file)
    trace["pid"] = 0
    with gzip.GzipFile(path + ".gz", "wb", mtime=0) as file:
        file.write(json.dumps(trace, separators=(",", ":")).encode())
    os.remove(path)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--model", choices=MODELS, required=True)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--sequence", type=int, default=0)
    parser.add_argument("--attention", choices=("eager", "sdpa"), default="eager")
    parser.add_argument("--checkpoint", choices=("", "block", "reentrant"), default="")
    parser.add_argument("--optimizer", choices=OPTIMIZERS, default="adam")
    parser.add_argument("--autocast", action="store_true")
    parser.add_argument("--clip", action="store_true", help="gradients by their norm")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--skip", type=int, default=-1,
                        help="steps before the recording begins (default: it begins empty)")
    parser.add_argument("--loader", action="store_true", help="batches come on another stream")
    parser.add_argument("--sync", type=int, default=0,
                        help="wait for the device after every so many steps")
    parser.add_argument("--entries", type=int, default=1000000, help="length of the history")
    parser.add_argument("--execution-trace", metavar="NAME.json",
                        help="the ops of the last step, to NAME.json.gz")
    parser.add_argument("--profile", metavar="NAME.json.gz",
                        help="the profiler watches the same steps, --skip leaves none out")
    parser.add_argument("out", help="NAME.pickle or NAME.pickle.gz")
    return parser.parse_args()


def main():
    args = arguments()
    torch.backends.cuda.enable_cudnn_sdp(False)
    torch.manual_seed(1)
    torch.cuda.init()
    torch.set_default_device("cuda")
    record = lambda: torch.cuda.memory._record_memory_history(context=None,
                                                              max_entries=args.entries)
    if args.skip < 0:
        record()
    workload = MODELS[args.model](models.Options(
        attention=args.attention, checkpoint=args.checkpoint, sequence=args.sequence))
    optimizer = OPTIMIZERS[args.optimizer](workload.model.parameters())
    observer = observe(args)
    try:
        with profile(args) as profiler:
            train(workload, optimizer, args, record, observer)
    except torch.OutOfMemoryError as error:
        print(error, file=sys.stderr)   # the history up to here is what is wanted
    if args.profile:
        write_profile(profiler, args.profile)
    if observer:
        observer.stop()
        write_observed(observer, args.execution_trace)
    snapshot = torch.cuda.memory._snapshot()
    write = gzip.GzipFile(args.out, "wb", mtime=0) if args.out.endswith(".gz") else open(
        args.out, "wb")
    with write as file:
        pickle.dump(snapshot, file, protocol=4)
    events = snapshot["device_traces"][0]
    print(f"{args.out}: {len(events)} events, {len(snapshot['segments'])} segments, "
          f"peak {torch.cuda.max_memory_allocated()}, "
          f"reserved {torch.cuda.max_memory_reserved()}", flush=True)
    os._exit(0)     # the fake device has no threads to be joined


main()
