"""Holds the ops of backward in a recording against a profile of the same step without the recorder.

    python3 sums.py

A TorchDispatchMode changes what the autograd engine does with sums of gradients; the recorder undoes
that (memreuse_record.EngineSums).  Small models run on the CPU, with real tensors, once under
torch.profiler alone and once recorded: products and sums must be the same, in the same order.
"""
import sys

import torch
from torch.profiler import ProfilerActivity, profile

import memreuse_record as mr
import models
from models import Options

WATCHED = {"aten::add", "aten::add_", "aten::mul", "aten::native_dropout_backward",
           "aten::native_layer_norm_backward"}


def smaller():
    """Workloads with few layers."""
    size = dict(layers=2, hidden=32, heads=4)
    models.BERT["tiny"], models.GPT2["tiny"] = size, size
    models.LLAMA["tiny"], models.RESNET["tiny"] = dict(size, inner=64), (1, 1, 1, 1)
    text, picture = Options(sequence=16), Options(image=32)
    return {
        "bert": models.bert("tiny", "mlm")(text),
        "gpt2": models.gpt2("tiny")(text),
        "llama": models.llama("tiny")(text),
        "llama, checkpoint": models.llama("tiny")(Options(sequence=16, checkpoint="block")),
        "llama, reentrant": models.llama("tiny")(Options(sequence=16, checkpoint="reentrant")),
        "lstm": models.lstm(text),
        "resnet": models.picture(lambda image, o: models.ResNet(models.RESNET["tiny"], o))(picture),
        "unet": models.picture(lambda image, o: models.UNet(o, width=8), classes=2, dense=True)(
            picture),
        "vit": models.picture(lambda image, o: models.Vit(image, o, layers=2, hidden=32, heads=4))(
            picture),
    }


def profiled(work, batch):
    loss = work.loss(work.model, *batch)
    with profile(activities=[ProfilerActivity.CPU]) as found:
        with torch.autograd.set_multithreading_enabled(False):
            loss.backward()
    events = sorted(found.events(), key=lambda e: e.time_range.start)
    return [e.name for e in events if e.name in WATCHED]


def recorded(work, batch):
    recorder = mr.Recorder(work.model)
    with recorder:
        work.loss(work.model, *batch).backward()
    return [op.name for op in recorder.ops if op.phase == "backward" and op.name in WATCHED]


def main():
    bad = False
    for name, work in smaller().items():
        batch = work.batch(2)
        found = []
        for look in (profiled, recorded):
            work.model.zero_grad()
            found.append(look(work, batch))
        same = found[0] == found[1]
        bad |= not same
        print(f"{name}: {len(found[0])} ops, {found[0].count('aten::add_')} sums in place,"
              f" {'as recorded' if same else 'recorded otherwise'}", flush=True)
    return bad


if __name__ == "__main__":
    sys.exit(main())
