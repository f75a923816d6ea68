"""What others say of a step that was recorded: PyTorch's own trackers, and a plain count.

`live_bytes` adds up the bytes of all live storages after every op, by nothing but a set of weak
references, without the recorder and without saved-tensor hooks.  `mem_tracker` is
torch.distributed._tools.mem_tracker.MemTracker.  check.py compares both with the files.
"""
import contextlib
import os
import weakref

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import memreuse_record as mr
from check import CATEGORIES

FNV_BASIS, FNV_PRIME = 0xcbf29ce484222325, 0x100000001b3


def checksum(values):
    """FNV-1a over the values as eight bytes each, lowest first."""
    h = FNV_BASIS
    for value in values:
        for byte in value.to_bytes(8, "little"):
            h = (h ^ byte) * FNV_PRIME & (1 << 64) - 1
    return f"{h:016x}"


class LiveBytes(TorchDispatchMode):
    """The sum over live storages after each op that touches the device."""

    def __init__(self, tensors):
        super().__init__()
        self.storages, self.sums, self.peak = {}, [], 0
        self.add(tensors)

    def add(self, tensors):
        for t in tensors:
            if t.device.type == "cuda":
                st = t.untyped_storage()
                key = st._cdata
                if key not in self.storages:
                    self.storages[key] = weakref.ref(st, lambda _, k=key: self.storages.pop(k))

    def total(self):
        alive = (ref() for ref in list(self.storages.values()))
        return sum(st.nbytes() for st in alive if st is not None)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name
        if name in mr.QUESTIONS or name == "aten::_local_scalar_dense":
            return func(*args, **(kwargs or {}))
        out = func(*args, **(kwargs or {}))
        touched = mr.tensors_in((args, kwargs, out))
        self.add(touched)
        if name in ("aten::detach", "aten::alias"):
            return out
        if any(t.device.type == "cuda" for t in touched):
            self.sums.append(self.total())
            self.peak = max(self.peak, self.sums[-1])
        return out


def held(run):
    """What is there before the step."""
    model = run.model
    tensors = list(model.parameters()) + list(model.buffers()) + list(run.batch)
    tensors += [p.grad for p in model.parameters() if p.grad is not None]
    for optimizer in run.optimizers:
        tensors += mr.tensors_in(list(optimizer.state.values()))
    return tensors + scale(run) + masters(run)


def scale(run):
    """What scales the loss, where it is kept on the device."""
    if run.scaler:
        return [run.scaler._scale, run.scaler._growth_tracker]
    return run.masters.scaling() if run.masters else []


def masters(run):
    return run.masters.masters if run.masters else []


def live_bytes(run):
    with LiveBytes(held(run)) as live, mr.EngineSums():
        run.steps()
    return live.sums, live.peak


def flop_counter(run):
    """Apart from the others: its module hooks prolong the lives of tensors."""
    counter = FlopCounterMode(display=False)
    if run.args.compile:
        counter.mod_tracker = NoModules()
    with counter:
        run.steps()
    return counter.get_total_flops()


class NoModules(contextlib.nullcontext):
    """In place of a ModuleTracker, whose hooks torch.compile would make a part of the program."""
    parents = {"Global"}


def mem_tracker(run):
    """The peak of MemTracker by category."""
    from torch.distributed._tools.mem_tracker import MemTracker
    tracker = MemTracker()
    tracker.track_external(run.model, *run.optimizers, *run.batch,
                           *scale(run), *masters(run))
    run.before_forward = tracker.reset_mod_stats    # it follows one forward, unless told so
    try:
        with tracker, mr.EngineSums():
            run.steps(tracker.reset_mod_stats)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}".split("\n")[0][:120]}
    for device, peak in tracker.get_tracker_snapshot("peak").items():
        if device.type == "cuda":
            return {getattr(k, "value", k): v for k, v in peak.items()}
    return {"error": "nothing on cuda"}


def row(path, recorder, own, flops, peer):
    """The row of truth.csv: our curve, the plain count of the same, FlopCounterMode, MemTracker."""
    sums, peak = own
    columns = dict(file=os.path.basename(path), ops=len(recorder.curve), peak=recorder.peak,
                   curve=checksum(recorder.curve), counted_ops=len(sums), counted_peak=peak,
                   counted_curve=checksum(sums), flop_counter=flops,
                   mem_tracker=peer.get("Total", ""))
    for name in CATEGORIES:
        columns["mem_tracker_" + name.lower()] = peer.get(name, "")
    columns["mem_tracker_says"] = peer.get("error", "")
    return columns
