"""Live bytes, op by op, of a step under PyTorch's fully_shard.

    fully_shard_live.py FOLDER

writes FOLDER/fully-shard-plain.csv.gz, the step of one device, and FOLDER/fully-shard-live.csv:
for each spec of memreuse the ops that matter and the bytes that live after each of them, on rank 0
of a group of processes that are not there (torch's fake process group: collectives give what
they are given).  Storages are asked for their size after each op, since fully_shard takes the
memory of a gathered parameter away without ending it.
"""
import csv
import os
import sys

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.checkpoint import checkpoint

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../traces/record"))
import memreuse_record  # noqa: E402

WIDTH, BLOCKS, SAMPLES = 512, 6, 64
VARIANTS = (("fsdp:ranks=8", 8, True, False),
            ("fsdp:ranks=8,reshard=False", 8, False, False),
            ("fsdp:ranks=3", 3, True, False),
            ("checkpoint:module=blocks.*+fsdp:ranks=8", 8, True, True))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


class Net(nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.emb, self.head = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.blocks, self.recompute = nn.ModuleList(Block() for _ in range(BLOCKS)), recompute

    def forward(self, x):
        x = self.emb(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=False) if self.recompute else block(x)
        return self.head(x)


class Live(TorchDispatchMode):
    """Bytes of all storages that were ever seen and are still there."""

    def __init__(self, known):
        super().__init__()
        self.seen, self.rows = {}, []
        for tensor in known:
            self.see(tensor)

    def see(self, tensor):
        tensor = getattr(tensor, "_local_tensor", tensor)
        storage = tensor.untyped_storage()
        if storage._cdata not in self.seen:
            self.seen[storage._cdata] = storage._weak_ref()

    def total(self):
        total = 0
        for key, weak in list(self.seen.items()):
            if torch.UntypedStorage._expired(weak):
                torch.UntypedStorage._free_weak_ref(weak)
                del self.seen[key]
            else:
                total += torch.UntypedStorage._new_with_weak_ptr(weak).nbytes()
        return total

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        for leaf in tree_leaves((args, kwargs, result)):
            if isinstance(leaf, torch.Tensor):
                self.see(leaf)
        name = func._schema.name
        if name.startswith(("fsdp::", "c10d::")) or name in ("aten::mm", "aten::addmm"):
            self.rows.append((name, self.total()))
        return result


def step_of(net, optimizer, x):
    optimizer.zero_grad()
    net(x).sum().backward()
    optimizer.step()


def record_plain(path):
    net, x = Net(False), torch.randn(SAMPLES, WIDTH)
    optimizer = torch.optim.Adam(net.parameters(), foreach=True)
    step_of(net, optimizer, x)
    with memreuse_record.record(path, model=net, optimizer=optimizer, batch=SAMPLES,
                                date="2026-11-29"):
        step_of(net, optimizer, x)


def measure(ranks, reshard, recompute):
    dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=ranks)
    mesh = dist.init_device_mesh("cpu", (ranks,))
    net, x = Net(recompute), torch.randn(SAMPLES, WIDTH)
    for block in net.blocks:
        fully_shard(block, mesh=mesh, reshard_after_forward=reshard)
    fully_shard(net, mesh=mesh)
    optimizer = torch.optim.Adam(net.parameters(), foreach=True)
    step_of(net, optimizer, x)
    states = [t for state in optimizer.state.values() for t in state.values()]
    gradients = [p.grad for p in net.parameters()]
    live = Live([*net.parameters(), *states, *gradients, x])
    del gradients
    with live:
        step_of(net, optimizer, x)
    dist.destroy_process_group()
    return live.rows


def main():
    folder = sys.argv[1]
    record_plain(os.path.join(folder, "fully-shard-plain.csv.gz"))
    with open(os.path.join(folder, "fully-shard-live.csv"), "w", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(("spec", "op", "live"))
        for spec, *variant in VARIANTS:
            out.writerows((spec, *row) for row in measure(*variant))


if __name__ == "__main__":
    main()
