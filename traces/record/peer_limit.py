"""Shows what MemTracker does to the step it watches, FlopCounterMode alike: gradients live longer.

    python3 peer_limit.py

To know which module is in its backward, ModTracker hangs a hook on the inputs of each module
(torch.autograd.graph.register_multi_grad_hook), which keeps their gradients until the last of them
is known.  Here a block has two inputs: the result of the block before, and one that all blocks
share, whose gradient is complete only at the end of backward.  The others wait for it.
"""
import contextlib

import torch
from torch import nn
from torch.distributed._tools.mem_tracker import MemTracker
from torch.distributed._tools.mod_tracker import ModTracker

import memreuse_record as mr
import truth


class Block(nn.Module):
    def forward(self, x, shared):
        return 2 * x + shared       # nothing is saved for backward


def peak(watch):
    """The most bytes live in a step, by a plain count beside the one that watches."""
    x, shared = (torch.ones(1 << 18, requires_grad=True) for _ in range(2))     # 1 MiB each
    with watch, truth.LiveBytes([x, shared]) as live, mr.EngineSums():
        for block in [Block() for _ in range(10)]:
            x = block(x, shared)
        x.sum().backward()
    return live.peak


with mr.pretend_cuda():
    for name, watch in (("nothing", contextlib.nullcontext()), ("ModTracker", ModTracker()),
                        ("MemTracker", MemTracker())):
        print(f"{peak(watch) / 2**20:.0f} MiB at the peak while {name} watches")
