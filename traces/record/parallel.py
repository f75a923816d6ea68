"""One of several devices that train a model together, with PyTorch's own wrappers.

The other devices are not there: a collective leaves what it is given as it is.  Tensors must be real
(on_device.py), since DistributedDataParallel keeps clocks on the device.
"""
import contextlib

import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from torch.testing._internal.distributed.fake_pg import FakeStore
from torch.utils._python_dispatch import TorchDispatchMode


def add_arguments(p):
    p.add_argument("--ranks", type=int, default=0, help="devices that train together")
    p.add_argument("--parallel", default="ddp", choices=["ddp", "fsdp"], help="and how")
    p.add_argument("--bucket-view", action="store_true", help="ddp: gradient_as_bucket_view")
    p.add_argument("--bucket-cap-mb", type=int)
    p.add_argument("--freeze", metavar="MODULE",
                   help="ddp: what gets no gradient, which is an error there")
    p.add_argument("--reshard", default="default", choices=["default", "True", "False"],
                   help="fsdp: reshard_after_forward")
    p.add_argument("--param-dtype", choices=["bfloat16", "float16"],
                   help="fsdp: of its MixedPrecisionPolicy")
    p.add_argument("--reduce-dtype", choices=["float32", "bfloat16"],
                   help="of the same")


def wrapped(model, args):
    """What is called in place of the model."""
    if not args.ranks:
        return model
    if not dist.is_initialized():
        dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=args.ranks)
    return sharded(model, args) if args.parallel == "fsdp" else replicated(model, args)


def alone(called, args, wanted):
    """Where `wanted`, gradients are added up and not sent."""
    if not args.ranks:
        return contextlib.nullcontext()
    if args.parallel == "fsdp":
        called.set_requires_gradient_sync(not wanted)
        return contextlib.nullcontext()
    return called.no_sync() if wanted else contextlib.nullcontext()


# ---- DistributedDataParallel ---------------------------------------------------------------------

class Done(dist._Work):
    """A collective that is over at once."""

    def __init__(self, result):
        super().__init__()
        self.future = torch.futures.Future()
        self.future.set_result(result)

    def wait(self, timeout=None):
        return True

    def get_future(self):
        return self.future


class Futures(dist.ProcessGroup):
    """torch's group of processes that are not there, with what it lacks: the result of a collective
    as a future."""

    def __init__(self, group):
        super().__init__(0, group.size())
        self.group = group

    def size(self):
        return self.group.size()

    def getBackendName(self):
        return "fake"

    def allreduce(self, tensors, options=None):
        self.group.allreduce(tensors, options)
        return Done(tensors)

    def broadcast(self, tensors, options=None):
        self.group.broadcast(tensors, options)
        return Done(tensors)


class Told(TorchDispatchMode):
    """What the first device tells the others comes back to it by way of device memory, which may
    have no contents: it is what was told."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.copy_.default and args[0].is_cpu and not args[1].is_cpu:
            return args[0]
        return func(*args, **(kwargs or {}))


class Reducer:
    """The one of DistributedDataParallel, which tells in which order gradients came."""

    def __init__(self, reducer):
        self.reducer = reducer

    def __getattr__(self, name):
        return getattr(self.reducer, name)

    def _rebuild_buckets(self):
        with Told():
            return self.reducer._rebuild_buckets()


def replicated(model, args):
    if args.freeze:
        model.get_submodule(args.freeze).requires_grad_(False)
    ddp = DistributedDataParallel(
        model, process_group=Futures(dist.group.WORLD), init_sync=False,
        bucket_cap_mb=args.bucket_cap_mb, gradient_as_bucket_view=args.bucket_view)
    ddp.reducer = Reducer(ddp.reducer)
    return ddp


# ---- fully_shard ---------------------------------------------------------------------------------

def blocks_of(model):
    """The modules of the longest list."""
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList)]
    return max(lists, key=len)


def sharded(model, args):
    mesh = dist.init_device_mesh("cuda", (args.ranks,))
    policy = MixedPrecisionPolicy(param_dtype=getattr(torch, args.param_dtype or "", None),
                                  reduce_dtype=getattr(torch, args.reduce_dtype or "", None))
    how = {"mesh": mesh, "mp_policy": policy}
    if args.reshard != "default":
        how["reshard_after_forward"] = args.reshard == "True"
    for block in blocks_of(model):
        fully_shard(block, **how)
    return fully_shard(model, **how)
