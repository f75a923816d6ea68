"""Records one training step of PyTorch as a trace for memreuse.  One file, torch only: copy it.

    import memreuse_record

    train_step(batch)                       # once or more, so that the optimizer's state exists
    with memreuse_record.record("step.csv.gz", model=model, optimizer=opt, batch=32):
        train_step(batch)

For several steps call `.step()` between them on what `with ... as` gives.  The step runs as it
always does, on a GPU, on a CPU, or on fake tensors (torch._subclasses.FakeTensorMode), which need
neither memory nor a GPU; without a GPU open `memreuse_record.pretend_cuda()` around the program.

What is seen, and how:

op        a TorchDispatchMode sees every aten op of forward, backward and update.
storage   told apart by identity, never by address; born with the op that returns it first, `free`
          when its weak reference dies, which is when PyTorch releases it.
saved     a pack hook is told of what autograd keeps.  It hands autograd a detached alias on the
          same storage, so lifetimes of storages stay as they are, and the end of the alias says
          when a node lets go.
of        each autograd node has a sequence number, which tells the op of forward that made it.  In
          backward, what runs in a node is of that op, or of the op that was recomputed in its place
          if there is one by then.  What the engine itself does after a node has let go, sums of
          gradients, is of no op, nor is what AccumulateGrad does: that adds to, or copies, what is
          a gradient by role.
again     torch.utils.checkpoint is told which place of forward it repeats; what runs there is the
          next op from that place on, in the same call of the same module, with the same name and
          shapes, that read the same or what now stands for it.  A Function written in Python
          repeats calls from its own forward on; other ways to recompute are taken to repeat the
          calls of a module from the last one back.  A note counts ops for which none is found.
drop      the tensor object that the program got from an op is finalised.  Because autograd holds
          an alias instead (see saved), autograd alone does not keep that object alive.  The
          autograd graph still keeps the base of a view, so a drop of such a base can be late, but
          never early.  Other things that hold memory count as the program too: a gradient in
          `.grad`; a Function written in Python; a node that never runs, until the graph dies;
          checkpoint, which holds the inputs of a region until the region's last node has run; and
          the engine, where it holds something longer than the last op that touched it.
role      parameters, buffers, gradients, optimizer state: by identity.  What was there before the
          step and is read by it is an input.  An activation is made in forward (or made again for
          backward) and saved for, or read by, backward.  All else is temporary.
module    of an op in forward: a module hook says so.  In backward: that of the op it is of.

Lifetimes that follow from ops, saved, of and drops (sim/schedule.h of memreuse) are those that
`alloc` and `free` say, op for op.

While a TorchDispatchMode is on, the engine makes a new tensor for each sum of gradients; without,
it adds into the first one where nobody else holds it.  The recording is as without (EngineSums).

What it cannot see: memory that an op takes and gives back inside, except as `workspace` on a real
GPU or from a table that was measured (Workspaces); what lives through the step without being read, unless it is the model's, its gradients' or the
optimizer's; what is saved while another saved_tensors_hooks is open that keeps it elsewhere
(checkpoint, save_on_cpu: how long that is held is seen, as drops); what torch.compile makes of a
program, which is recorded as if it were not compiled; gradients by torch.func; storages on other devices than the
model's, such as the step counters of Adam, which stay on the host.  Notes in the file count the
latter.  A value that the program reads from a fake tensor (`.item()`) is taken to be 1 on the host
and 0 on the device: GradScaler then finds no infinities and Adam divides by its bias correction.

The autograd engine runs in the calling thread meanwhile, so that sequence numbers are unique.
"""
import bisect
import contextlib
import csv
import ctypes
import gzip
import hashlib
import io
import os
import re
import sys
import time
import weakref

import torch
import torch.utils.checkpoint
from torch.utils._pytree import tree_leaves
from torch.utils._python_dispatch import TorchDispatchMode, is_traceable_wrapper_subclass
from torch.utils.flop_counter import flop_registry

VERSION = "2"

aten = torch.ops.aten

#: What an op asks of a tensor and not of its memory.
QUESTIONS = {"prim::device", "prim::layout", "aten::sym_size", "aten::sym_stride",
             "aten::sym_numel", "aten::sym_storage_offset", "aten::is_contiguous",
             "aten::is_pinned", "aten::is_same_size", "aten::sym_is_contiguous",
             "fsdp::record_grad_output_stream"}

#: Ops that write their first argument without reading it.
WRITE_ONLY = {"copy_", "fill_", "zero_", "uniform_", "normal_", "bernoulli_", "random_",
              "exponential_", "_foreach_copy_", "_foreach_zero_"}

#: Module and call of what runs outside of modules.
OUTSIDE = "", -1

#: What a collective is to the links between devices, by the name of its op.
ENGINES = {"c10d::allreduce_": "all_reduce", "c10d::broadcast_": "broadcast",
           "c10d::_allgather_base_": "all_gather", "c10d::allgather_": "all_gather",
           "c10d::_reduce_scatter_base_": "reduce_scatter"}

#: Ops that write what they read into a buffer and return a view of that.
FILLING = {"fsdp::all_gather_copy_in"}

#: Ops that only take memory.
EMPTY = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}


# ---- things of a trace -------------------------------------------------------------------------

class Storage:
    """Memory: a row of the trace, and what is found out about it on the way."""

    def __init__(self, bytes, device, phase):
        self.bytes, self.device, self.phase = bytes, device, phase
        self.id = None          # given when the trace is written, in the order of events
        self.birth = 0          # number among all
        self.role = None        # known by identity; the rest is decided by `kept`
        self.kept = False       # saved for backward, or read by it
        self.fed = False        # read by forward
        self.before = self.after = False
        self.stream = 0
        self.tensors = {}       # by geometry
        self.per_sample = 0
        self.ref = None         # weak reference to what it stands for
        self.emptied = False    # its memory was taken away while the program still had it


class Tensor:
    """A view of a storage.  Objects with the same geometry are the same tensor."""

    def __init__(self, storage, dtype, shape, offset, bytes):
        self.storage, self.dtype, self.shape = storage, dtype, shape
        self.offset, self.bytes = offset, bytes
        self.id, self.name = None, ""
        self.objects = 0        # of the program, alive


class Op:
    """One aten op, as it ran."""

    def __init__(self, name, phase):
        self.name, self.phase = name, phase
        self.id = None
        self.module, self.call = "", 0
        self.random, self.again, self.of, self.stream = False, None, None, 0
        self.ns = self.flops = self.flops_per_sample = self.read = self.written = 0
        self.workspace, self.arguments = 0, None
        self.engine, self.ranks = "", 0
        self.ins, self.outs, self.mutates, self.saved = [], [], [], []


def touched(t):
    """Bytes that a reader of all elements of `t` really reads: an expanded dimension once."""
    n = t.element_size()
    for size, stride in zip(t.shape, t.stride()):
        n *= size if stride else min(size, 1)
    return n


def extent(t):
    """Bytes from the first element of `t` to its last."""
    if t.numel() == 0:
        return 0
    last = sum((size - 1) * stride for size, stride in zip(t.shape, t.stride()))
    return (last + 1) * t.element_size()


def is_dense(t):
    """Do the elements of `t` fill a range, each once?"""
    expected = 1
    for stride, size in sorted(zip(t.stride(), t.shape)):
        if size > 1 and stride != expected:
            return False
        expected *= size
    return True


def spelled(value):
    """An argument of an op as text: of a tensor its shape, and strides where they are unusual."""
    if not isinstance(value, torch.Tensor):
        return "" if value is None or isinstance(value, float) else str(value)
    text = str(value.dtype).replace("torch.", "") + "[" + "x".join(map(str, value.shape)) + "]"
    if not value.is_contiguous():
        text += "/" + "x".join(map(str, value.stride()))
    return text


def arguments_of(func, args, kwargs):
    """What decides how much memory an op takes inside: its tensors and whole numbers."""
    given = [args[i] if i < len(args) else kwargs.get(a.name, a.default_value)
             for i, a in enumerate(func._schema.arguments)
             if a.name not in ("device", "layout", "pin_memory")]
    text = " ".join(spelled(leaf) for leaf in tree_leaves(given)).strip()
    if len(text) <= 160:
        return text
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()[:32]


class Workspaces:
    """Bytes that ops take and give back inside, from a table with the columns op, arguments and
    bytes, where `*` stands for all arguments.  An op that is not there has not been measured.  The
    first row says in its second field where the numbers come from."""

    def __init__(self, path):
        with open(path, newline="") as file:
            rows = csv.reader(file)
            self.origin = next(rows)[1]
            next(rows)
            self.bytes = {(op, arguments): int(n) for op, arguments, n in rows}
        self.measured, self.unknown = 0, {}

    def fill(self, op):
        found = self.bytes.get((op.name, "*"), self.bytes.get((op.name, op.arguments)))
        if found is None:
            self.unknown[op.name] = self.unknown.get(op.name, 0) + 1
        else:
            self.measured += 1
            op.workspace = found

    def notes(self):
        yield f"workspaces of {self.measured} ops were {self.origin}"
        if self.unknown:
            found = ", ".join(f"{n} {name}" for name, n in sorted(self.unknown.items()))
            yield f"workspaces were not measured of these ops: {found}"


def shapes(op):
    """Of what an op reads and makes."""
    return [[(t.dtype, t.shape) for t in list] for list in (op.ins, op.outs, op.mutates)]


def unique(things):
    """Without repetition, in order."""
    return list(dict.fromkeys(things))


def is_plain(t):
    """Strided tensors have a storage of their own; others are not recorded."""
    return isinstance(t, torch.Tensor) and t.layout == torch.strided


def local(t):
    """Of a tensor that is divided among devices the part that is here."""
    return getattr(t, "_local_tensor", t)


def tensors_in(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, torch.Tensor)]


class Calls(dict):
    """The next call of each module where a part of forward, which began with the call `first` of
    all calls, runs again.  `begun` has the calls of each module, as numbers among all."""

    def __init__(self, begun, first, so_far=()):
        super().__init__(so_far)
        self.begun, self.first = begun, first

    def __missing__(self, path):
        return bisect.bisect_left(self.begun.get(path, ()), self.first)

    def copy(self):
        return Calls(self.begun, self.first, self)


# ---- the recorder ------------------------------------------------------------------------------

class EngineSums(TorchDispatchMode):
    """Adds gradients up in place where the engine does without a TorchDispatchMode.

    With a mode on, the engine makes a new tensor for every sum.  Without, it adds into the first
    gradient if nobody else holds that one.
    """

    def __init__(self):
        super().__init__()
        self.alone = None       # how often a tensor that nobody else holds is counted here

    def __enter__(self):
        super().__enter__()
        x = torch.ones(1, device="cpu", requires_grad=True)
        with torch.enable_grad():
            y = x.clone()
            torch.autograd.grad(y.exp() + y.sin(), x)
        return self

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        node = torch._C._current_autograd_node()
        if node is None:
            return func(*args, **(kwargs or {}))
        if func is aten.add.Tensor and not kwargs and self._is_sum(node, *args):
            return aten.add_.Tensor(*args)
        out = func(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            out._memreuse_node = node._sequence_nr()
        return out

    def _is_sum(self, node, old, new):
        """Is it a sum by the engine, into a tensor that only the engine holds?"""
        if torch.is_grad_enabled() or not (is_plain(old) and is_plain(new)):
            return False
        if getattr(old, "_memreuse_node", None) == node._sequence_nr():
            return False
        held = old._use_count(), torch._C._storage_Use_Count(old.untyped_storage()._cdata)
        if self.alone is None:
            self.alone = held
        return held == self.alone and is_dense(old)


class Recorder(TorchDispatchMode):
    """See the head of the file.  `finish()` decides what needs hindsight, `write()` writes."""

    def __init__(self, model=None, optimizer=None, about=(), saved_hooks=True, times=None,
                 workspaces=None):
        super().__init__()
        self.models = model if isinstance(model, (list, tuple)) else [model] if model else []
        self.optimizers = (optimizer if isinstance(optimizer, (list, tuple))
                           else [optimizer] if optimizer else [])
        self.about = dict(about)
        self.saved_hooks = saved_hooks
        self.times = times
        self.workspaces = Workspaces(workspaces) if isinstance(workspaces, str) else workspaces
        self.notes = []
        self.events = []        # ("alloc", Storage), ("free", Storage), ("op", Op), ...
        self.storages = {}      # by address of the StorageImpl, while it lives
        self.first = []         # live before the first event
        self.curve = []         # live bytes after each op; by `finish`
        self.objects = {}       # weak references to tensors of the program, by id of the object
        self.phase, self.open_phase = "other", None
        self.quiet = 0          # > 0: the recorder's own ops
        self.backward_depth = 0
        self.stack = []         # modules that run: [path, call, ops so far, again]
        self.around = []        # modules that backward was called in
        self.calls = []         # of modules in forward: the number that autograd's next node has
        self.begun = {}         # of one module, by its path: its calls among these
        self.regions = []       # Calls of the parts of forward that run again
        self.functions = {}     # the same, by the Function that has them run again
        self.repeated = set()   # calls that ran again in some other way
        self.places = {}        # ops of each call of a module, to find them in recomputation
        self.stands = {}        # by storage of forward: what stands for it where ops run again
        self.recomputed = {}    # op of forward: the one that ran again in its place
        self.made_by = {}       # sequence number of an autograd node: its forward op
        self.packed = {}        # the same: what it saved before its op ran
        self.kept = {}          # the same: how many tensors it still keeps
        self.aliases = {}       # weak references to these
        self.newest, self.last_op = torch.autograd._get_sequence_nr() - 1, None
        self.twice, self.strangers = False, 0
        self.steps, self.left_out, self.values = 1, set(), 0
        self.births, self.casts = 0, 0
        self.resized, self.others, self.elsewhere = 0, set(), 0
        self.device = self._find_device()
        self.cleanup = contextlib.ExitStack()
        self.clock, self.finished, self.compiled = None, False, False

    # -- begin and end --

    def _find_device(self):
        """Type of the device that the model is on; the first op decides when there is no model."""
        for model in self.models:
            for p in model.parameters():
                return p.device.type
        return None

    def __enter__(self):
        super().__enter__()
        self.quiet += 1
        self.sums = EngineSums().__enter__()
        self.quiet -= 1
        self.names = {id(m): name for name, m in self._named("modules")}
        self._know_before()
        hooks = torch.nn.modules.module
        step = sys.modules["torch.optim.optimizer"]
        for handle in (hooks.register_module_forward_pre_hook(self._module_begins),
                       hooks.register_module_forward_hook(self._module_ends, always_call=True),
                       step.register_optimizer_step_pre_hook(self._update_begins),
                       step.register_optimizer_step_post_hook(self._update_ends)):
            self.cleanup.callback(handle.remove)
        self._wrap_backward()
        self._wrap_checkpoint()
        self._wrap_autocast()
        self._wrap_resize()
        self._watch_compiled()
        self.cleanup.enter_context(torch.autograd.set_multithreading_enabled(False))
        if self.saved_hooks:
            self.cleanup.enter_context(
                torch.autograd.graph.saved_tensors_hooks(self._pack, lambda t: t))
            self._wrap_other_hooks()
        self.events.append(("mark", "step-begin", "step 1"))
        return self

    def __exit__(self, *error):
        self.sums.__exit__(*error)
        result = super().__exit__(*error)
        self.cleanup.close()
        self._set_phase(None)
        self.events.append(("mark", "step-end", f"step {self.steps}"))
        if error[0] is None:
            self.finish()
        return result

    def step(self):
        """Call between two steps."""
        self._set_phase(None)
        self.events.append(("mark", "step-end", f"step {self.steps}"))
        self.steps += 1
        self.events.append(("mark", "step-begin", f"step {self.steps}"))
        self.phase = "other"
        for book in (self.calls, self.begun, self.functions, self.repeated, self.places,
                     self.stands, self.recomputed):
            book.clear()

    @contextlib.contextmanager
    def region(self, name):
        """Marks a part of the step with a name of yours."""
        self.events.append(("mark", "region-begin", name))
        yield
        self.events.append(("mark", "region-end", name))

    def _know_before(self):
        """Everything that lives before the step and is known by identity."""
        for i in range(len(self.models)):
            for name, p in self._named("parameters", i):
                self._adopt(p, "parameter", name)
            for name, b in self._named("buffers", i):
                self._adopt(b, "buffer", name)
        self._know_state(self._adopt)
        for name, p in self._named("parameters"):
            if p.grad is not None:
                self._adopt(p.grad, "gradient", name + ".grad")
        self._watch_gradients()

    def _named(self, what, only=None):
        """Modules, parameters or buffers; of several models each begins with its number."""
        for i, model in enumerate(self.models):
            for name, thing in getattr(model, "named_" + what)():
                if only in (None, i):
                    yield (name if len(self.models) == 1 else f"{i}.{name}".rstrip(".")), thing

    def _know_state(self, tell):
        """Tensors in the optimizers' state, with the names of their parameters."""
        names = {id(p): name for name, p in self._named("parameters")}
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    for key, value in optimizer.state.get(p, {}).items():
                        if isinstance(value, torch.Tensor):
                            tell(value, "state", f"{names.get(id(p), 'parameter')}.{key}")

    def _adopt(self, t, role, name):
        """`t` was there before the step."""
        t = local(t)
        if not self._is_ours(t):
            return None
        tensor = self._tensor(t, before=True)
        tensor.storage.role = tensor.storage.role or role
        tensor.name = tensor.name or name
        return tensor

    # -- storages and tensors --

    def _is_ours(self, t):
        """Strided, with bytes, and on the device that is recorded; others are named."""
        if not is_plain(t):
            self.others.add(f"layout {t.layout}")
            return False
        if is_traceable_wrapper_subclass(t):
            self.others.add(f"the subclass {type(t).__name__}")
            return False
        if self.device is None:
            self.device = t.device.type
        if t.device.type == self.device:
            return True
        self.left_out.add(t.device.type)
        return False

    def _storage(self, t, before=False):
        st = t.untyped_storage()
        storage = self.storages.get(st._cdata)
        if storage is None:
            storage = self._new_storage(st, t.device, before)
        elif storage.bytes != st.nbytes():
            self.resized += 1
        return storage

    def _new_storage(self, st, device, before):
        storage = Storage(st.nbytes(), device.index or 0, self._moment())
        storage.before, storage.birth = before, self.births
        self.births += 1
        storage.ref = weakref.ref(st, lambda _, key=st._cdata: self._released(key))
        self.storages[st._cdata] = storage
        if before:
            self.first.append(storage)
        else:
            self.events.append(("alloc", storage))
        return storage

    def _wrap_resize(self):
        """fully_shard takes the memory of a gathered parameter away and gives it back later, while
        the tensor stays: those are storages of their own."""
        resize = torch.UntypedStorage.resize_

        def wrapped(st, size):
            before = st.nbytes()
            out = resize(st, size)
            if st.nbytes() != before and st.device.type == self.device:
                self._emptied_or_filled(st)
            return out

        _replace(self.cleanup, torch.UntypedStorage, "resize_", wrapped)

    def _emptied_or_filled(self, st):
        old = self.storages.get(st._cdata)
        if old:
            old.emptied, old.ref = True, None
            self._released(st._cdata)
        if st.nbytes():
            self._filled(self._new_storage(st, st.device, False))

    def _filled(self, storage):
        storage.role = "parameter"
        op = Op("aten::resize_", self.phase)
        op.outs = [Tensor(storage, "uint8", (storage.bytes,), 0, storage.bytes)]
        self.events.append(("op", op))

    def _released(self, key):
        storage = self.storages.pop(key)
        if not self.finished:
            self.events.append(("free", storage))

    def _tensor(self, t, before=False):
        storage = self._storage(t, before)
        key = (t.dtype, tuple(t.shape), tuple(t.stride()), t.storage_offset())
        tensor = storage.tensors.get(key)
        if tensor is None:
            offset = t.storage_offset() * t.element_size()
            tensor = Tensor(storage, str(t.dtype).replace("torch.", ""), tuple(t.shape),
                            offset, extent(t))
            storage.tensors[key] = tensor
        return tensor

    def _watch(self, t, tensor):
        """The program has the object `t` now; its end is a drop if it is the last."""
        if id(t) in self.objects:
            return
        tensor.objects += 1
        key = id(t)
        self.objects[key] = (weakref.ref(t, lambda _: self._finalised(key)), tensor)

    def _finalised(self, key):
        _, tensor = self.objects.pop(key)
        tensor.objects -= 1
        if not tensor.objects and not self.finished:
            self.events.append(("drop", tensor))

    # -- saved for backward --

    def _pack(self, t):
        """Autograd keeps an alias of `t`: the same storage, another object than the program's."""
        node = torch.autograd._get_sequence_nr() - 1
        tensor = self._saved(t, node) if self._is_ours(t) else None
        self.quiet += 1
        try:
            alias = t.detach()
        finally:
            self.quiet -= 1
        key = id(alias)
        self.kept[node] = self.kept.get(node, 0) + 1
        self.aliases[key] = weakref.ref(alias, lambda _: self._let_go(key, node, tensor))
        return alias

    def _saved(self, t, node):
        self._know_input(t)
        tensor = self._tensor(t)
        tensor.storage.kept = True
        if node in self.made_by:    # it has run, a Function with all its ops
            self.made_by[node] = self.last_op
            self.last_op.saved.append(tensor)
        else:
            self.packed.setdefault(node, []).append(tensor)
        return tensor

    def _wrap_other_hooks(self):
        """What hooks of the program pack is saved as long as they keep its memory."""
        graph, module = torch.autograd.graph, torch.utils.checkpoint
        known = (graph.save_on_cpu, module._checkpoint_hook, module._recomputation_hook)
        enter = graph.saved_tensors_hooks.__enter__

        def wrapped(hooks):
            pack = hooks.pack_hook
            if not isinstance(hooks, known):
                hooks.pack_hook = lambda t: self._packed_by(pack, t)
            try:
                return enter(hooks)
            finally:
                hooks.pack_hook = pack

        _replace(self.cleanup, graph.saved_tensors_hooks, "__enter__", wrapped)

    def _packed_by(self, pack, t):
        packed = pack(t)
        if self._is_ours(t):
            memory = t.untyped_storage()._cdata
            if any(is_plain(x) and x.untyped_storage()._cdata == memory for x in tensors_in(packed)):
                self._saved(t, torch.autograd._get_sequence_nr() - 1)
            else:
                self.elsewhere += 1
        return packed

    def _let_go(self, key, node, tensor):
        del self.aliases[key]
        self.kept[node] -= 1
        if tensor and not self.finished:
            running = torch._C._current_autograd_node()
            by_node = running is not None and running._sequence_nr() == node
            self.events.append(("let-go", tensor, self.made_by.get(node), by_node))

    def _know_input(self, t):
        """What nobody made during the step was there before."""
        if self._storage_unknown(t):
            storage = self._storage(t, before=True)
            storage.role = "input"
            self._watch(t, self._tensor(t))

    def _storage_unknown(self, t):
        return t.untyped_storage()._cdata not in self.storages

    # -- phases and modules --

    def _is_again(self):
        """Is a part of forward being recomputed?"""
        return self.phase == "backward" and (
            bool(self.stack or self.regions) or torch.is_grad_enabled() and not self.twice)

    def _moment(self):
        """Phase in which something is made; what is made again in backward counts as forward."""
        return "forward" if self._is_again() else self.phase

    def _set_phase(self, phase):
        if phase is not None:
            self.phase = phase
        if phase == self.open_phase:
            return
        if self.open_phase not in (None, "other"):
            self.events.append(("mark", "phase-end", self.open_phase))
        if phase not in (None, "other"):
            self.events.append(("mark", "phase-begin", phase))
        self.open_phase = phase

    def _module_begins(self, module, args):
        path = self.names.get(id(module), type(module).__name__ if not self.names else "")
        again = self.backward_depth > 0
        if again:
            calls = self.regions[-1] if self.regions else self._calls_again(path)
            call = calls[path]
            calls[path] = call + 1
        else:
            self._set_phase("forward")
            begun = self.begun.setdefault(path, [])
            call = len(begun)
            begun.append(len(self.calls))
            self.calls.append(torch.autograd._get_sequence_nr())
        self.stack.append([path, call, 0, again])

    def _calls_again(self, path):
        """Which calls run again where torch.utils.checkpoint does not say it.  A Function is older
        than the calls that its forward made."""
        node = torch._C._current_autograd_node()
        if isinstance(node, torch.autograd.function.BackwardCFunction):
            number = node._sequence_nr()
            first = bisect.bisect_right(self.calls, number)
            return self.functions.setdefault(number, Calls(self.begun, first))
        if not self.stack:
            left = (n for n in reversed(self.begun.get(path, ())) if n not in self.repeated)
            first = next(left, len(self.calls))
            self.repeated.add(first)
            self.functions[None] = Calls(self.begun, first)
        return self.functions[None]

    def _module_ends(self, module, args, out):
        if self.stack:
            self.stack.pop()

    def _wrap_backward(self):
        """`torch.autograd.backward` and `grad` begin and end the phase."""
        for name in ("backward", "grad"):
            original = getattr(torch.autograd, name)

            def wrapped(*args, _original=original, **kwargs):
                self.twice = kwargs.get("create_graph", False)
                self._backward_begins()
                try:
                    return _original(*args, **kwargs)
                finally:
                    self._backward_ends()

            setattr(torch.autograd, name, wrapped)
            self.cleanup.callback(setattr, torch.autograd, name, original)

    def _wrap_checkpoint(self):
        """What torch.utils.checkpoint runs again is told which part of forward it repeats."""
        module = torch.utils.checkpoint
        frame, function = module._CheckpointFrame, module.CheckpointFunction
        make, forward = frame.__init__, function.forward

        def init(it, run, *args, **kwargs):
            make(it, self._repeats(run, first=False), *args, **kwargs)

        def reentrant(ctx, run, *args):
            return forward(ctx, self._repeats(run, first=True), *args)

        _replace(self.cleanup, frame, "__init__", init)
        _replace(self.cleanup, function, "forward", staticmethod(reentrant))

    def _wrap_autocast(self):
        """At its end autocast releases its casts in the order of a hash table of addresses."""
        clear = torch.clear_autocast_cache

        def clear_in_order():
            begin = len(self.events)
            clear()
            self.casts += len(self.events) - begin
            self.events[begin:] = sorted(self.events[begin:], key=self._by_birth)

        _replace(self.cleanup, torch, "clear_autocast_cache", clear_in_order)

    @staticmethod
    def _by_birth(event):
        kind, thing = event[:2]
        if kind == "free":
            return thing.birth, kind, 0
        return thing.storage.birth, kind, list(thing.storage.tensors.values()).index(thing)

    def _watch_compiled(self):
        """torch.compile leaves alone what runs under a TorchDispatchMode such as this one."""
        frames = sys.modules.get("torch._dynamo.eval_frame")
        take = getattr(frames, "_callback_from_stance", None)
        if take is None or self.ignore_compile_internals():
            return

        def wrapped(callback):
            self.compiled |= callable(callback)
            return take(callback)

        _replace(self.cleanup, frames, "_callback_from_stance", wrapped)

    def _repeats(self, run, first):
        """`run` for a second time in the place where the program stands now."""
        calls = (self.regions[-1].copy() if self.regions
                 else Calls(self.begun, len(self.calls)))
        place = list(self.stack[-1]) if self.stack else [*OUTSIDE, len(self._ops(*OUTSIDE))]

        def again(*args, **kwargs):
            nonlocal first
            if first:
                first = False
                return run(*args, **kwargs)
            self.regions.append(calls.copy())
            self.stack.append([*place[:3], True])
            depth = len(self.stack)
            try:
                return run(*args, **kwargs)
            finally:
                self.regions.pop()
                del self.stack[depth - 1:]

        return again

    def _backward_begins(self):
        if not self.backward_depth:
            self._set_phase("backward")
            self.around, self.stack = self.stack, []
        self.backward_depth += 1

    def _backward_ends(self):
        self.backward_depth -= 1
        if not self.backward_depth:
            self.stack = self.around
            self._know_gradients()
            self.phase = "update"

    def _update_begins(self, optimizer, args, kwargs):
        self._know_gradients()
        if self.backward_depth:     # in a hook: a part of backward by its place alone
            self.phase = "update"
        else:
            self._set_phase("update")

    def _update_ends(self, optimizer, args, kwargs):
        self._know_state(self._know_now)
        if self.backward_depth:
            self.phase = "backward"

    def _know_gradients(self):
        for name, p in self._named("parameters"):
            if p.grad is not None:
                self._know_now(p.grad, "gradient", name + ".grad")
        self._watch_gradients()

    def _watch_gradients(self):
        """The program holds them by their parameters."""
        for model in self.models:
            for p in model.parameters():
                grad = local(p.grad)
                if grad is not None and self._is_ours(grad):
                    self._watch(grad, self._tensor(grad))

    def _know_now(self, t, role, name):
        """`t` has turned out to be a gradient, or state of the optimizer."""
        t = local(t)
        if self._is_ours(t) and not self._storage_unknown(t):
            tensor = self._tensor(t)
            tensor.storage.role = tensor.storage.role or role
            tensor.name = tensor.name or name

    # -- ops --

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if any(hasattr(t, "_local_tensor") for t in tensors_in((args, kwargs))):
            return NotImplemented   # the op on the part that is here comes after it
        name = func._schema.name if hasattr(func, "_schema") else str(func)
        if self.quiet or name in QUESTIONS:
            return func(*args, **kwargs)
        if func._overloadpacket not in flop_registry and self._decomposes(func):
            super().__enter__()     # the mode alone, which is off in here
            try:
                out = func.decompose(*args, **kwargs)
            finally:
                super().__exit__(None, None, None)
            if out is not NotImplemented:
                return out
        if func is aten._local_scalar_dense.default:
            self.values += type(args[0]).__name__ == "FakeTensor"
            return func(*args)
        return self._run(func, name, args, kwargs)

    @staticmethod
    def _decomposes(func):
        """Under inference_mode composite ops arrive whole."""
        return (torch.is_inference_mode_enabled()
                and func.has_kernel_for_dispatch_key(
                    torch._C.DispatchKey.CompositeImplicitAutograd))

    def _run(self, func, name, args, kwargs):
        given = tensors_in((args, kwargs))
        self._begin_op(given)
        for t in given:
            if self._is_ours(t):
                self._know_input(t)
        op = Op(name, self.phase)
        out = self._timed(func, args, kwargs, op)
        made = [t for t in tensors_in(out) if self._is_ours(t)]
        self._describe(op, func, args, kwargs, given, made, out)
        if self._leaves_trace(op, name):
            self._place(op, given)
            if self.workspaces:
                op.arguments = arguments_of(func, args, kwargs)
                self.workspaces.fill(op)
            self.events.append(("op", op))
        self._take_references(name, made, given, op)
        return out

    def _begin_op(self, given):
        """A model that is called as a function has no module hook to begin its forward."""
        if self.phase == "other" and any(isinstance(t, torch.nn.Parameter) for t in given):
            if torch.is_grad_enabled():
                self._set_phase("forward")

    def _timed(self, func, args, kwargs, op):
        if self.clock:
            return self.clock(lambda: func(*args, **kwargs), op)
        out = func(*args, **kwargs)     # the first results show whether time means anything
        if tensors_in(out):
            self.clock = make_clock(self.times, tensors_in(out))
        return out

    @staticmethod
    def _leaves_trace(op, name):
        """An alias that is the same tensor again (detach) is nothing that happens."""
        if not (op.ins or op.outs or op.mutates):
            return False
        return not (name in ("aten::detach", "aten::alias") and set(op.outs) <= set(op.ins))

    def _describe(self, op, func, args, kwargs, given, made, out):
        """Fills the row of the op."""
        written = self._written_arguments(func, args, kwargs)
        if op.name in ENGINES:
            op.engine, op.ranks = ENGINES[op.name], torch.distributed.get_world_size()
            written = tensors_in(args[0])
        mutated = unique(self._tensor(t) for t in written if self._is_ours(t))
        ours = [t for t in given if self._is_ours(t)]
        short = op.name.split("::")[1]
        only_written = written if short in WRITE_ONLY else tensors_in(kwargs.get("out"))
        skip = {id(t) for t in only_written}
        op.ins = unique(self._tensor(t) for t in ours if id(t) not in skip)
        op.mutates = mutated
        op.outs = [t for t in unique(self._tensor(t) for t in made) if t not in mutated]
        sources = {t.storage for t in op.ins}
        is_view = op.outs and not mutated and all(t.storage in sources for t in op.outs)
        if not is_view and short not in EMPTY:
            sizes = {self._tensor(t): touched(t) for t in ours + made}
            op.read = sum(sizes[t] for t in op.ins)
            op.written = sum(sizes[t] for t in op.outs + op.mutates)
        if op.engine:
            op.written = sum(sizes[t] for t in mutated)
            op.read = sum(touched(t) for t in tensors_in(args[1])) or op.written
        elif op.name in FILLING:
            op.read = op.written = sum(touched(t) for t in tensors_in(args[0]))
        op.random = torch.Tag.nondeterministic_seeded in func.tags
        formula = flop_registry.get(func._overloadpacket)
        if formula:
            op.flops = int(formula(*args, **kwargs, out_val=out))
        for tensor in op.ins:
            tensor.storage.kept |= op.phase == "backward" and not self._is_again()
            tensor.storage.fed |= op.phase == "forward"

    @staticmethod
    def _written_arguments(func, args, kwargs):
        found = []
        for i, a in enumerate(func._schema.arguments):
            if a.alias_info is not None and a.alias_info.is_write:
                value = args[i] if i < len(args) else kwargs.get(a.name)
                found += tensors_in(value)
        return found

    def _place(self, op, given):
        """Module, call, the op that is recomputed, the op whose gradient this is, what is saved."""
        node = torch._C._current_autograd_node()
        frame = self.stack[-1] if self.stack else [*OUTSIDE, 0, False]
        op.module, op.call = frame[0], max(frame[1], 0)
        if frame[3]:
            self._repeat(op, frame)
        elif not self.backward_depth:
            self._ops(*frame[:2]).append(op)
            frame[2] += 1
        if node is None or self._is_again():
            self._own_nodes(op, given)
        elif op.phase == "backward":
            self._find_of(op, node._sequence_nr())

    def _ops(self, path, call):
        """Of a call of a module in forward."""
        return self.places.setdefault((path, call), [])

    def _repeat(self, op, frame):
        """Finds the op of forward whose place `op` has.  Others may stand before it, which a
        selective checkpoint has kept, or autocast; and an op may be new, such as a cast."""
        ops = self._ops(*frame[:2])
        for i in range(frame[2], len(ops)):
            if self._is_like(op, ops[i]):
                op.again, frame[2] = ops[i], i + 1
                self.recomputed[ops[i]] = op
                self.stands.update((x.storage, y.storage) for x, y in zip(ops[i].outs, op.outs))
                return
        self.strangers += 1

    def _is_like(self, op, first):
        """The same op on what the first one read, or what stands in its place by now."""
        return op.name == first.name and shapes(op) == shapes(first) and all(
            x.storage is y.storage or self.stands.get(y.storage, x.storage) is x.storage
            for x, y in zip(op.ins, first.ins))

    def _own_nodes(self, op, given):
        """Of the nodes that autograd has made since the last op the newest is this op's, if it has
        one.  Nodes for the change of a view belong to the op before; what others save is let go
        with a drop."""
        newest = torch.autograd._get_sequence_nr() - 1
        own = not torch.is_grad_enabled() or any(t.requires_grad for t in given)
        for number in range(self.newest + 1, newest + 1):
            saved = self.packed.pop(number, [])
            if own and number == newest:
                self.made_by[number] = op
                op.saved += saved
            elif self.last_op:
                self.made_by[number] = self.last_op
        self.newest, self.last_op = newest, op

    def _find_of(self, op, number):
        """The engine itself adds gradients up after a node has let go: that is of no op."""
        made = self.made_by.get(number)
        if made is None:
            return
        op.module, op.call = made.module, made.call
        is_sum = op.name in ("aten::add", "aten::add_") if number not in self.kept else False
        if self.kept.get(number, 1) and not is_sum:
            op.of = self.recomputed.get(made, made)

    def _take_references(self, name, made, given, op):
        """Which of the results the program holds from now on."""
        node = torch._C._current_autograd_node()
        inside = node is not None and not self._is_again() and self.phase == "backward"
        if inside and not self._runs_python(node):
            return
        known = {id(t) for t in given}
        for t in made:
            if id(t) not in known:
                self._watch(t, self._tensor(t))

    @staticmethod
    def _runs_python(node):
        """A Function of Python keeps what it likes, hooks of a parameter too."""
        return (type(node).__name__ == "AccumulateGrad"
                or isinstance(node, torch.autograd.function.BackwardCFunction))

    # -- hindsight --

    def finish(self):
        """Roles, what outlives the step, and ids in the order of events."""
        self._know_gradients()
        self._know_state(self._know_now)
        self.finished = True
        for storage in self.storages.values():
            storage.after = True
        for storage in self._all_storages():
            storage.role = storage.role or self._role(storage)
        self._give_ids()
        self._forget_what_was_emptied()
        self._drop_what_the_graph_held()
        self._drop_what_the_engine_held()
        self._keep_last_drops()
        self._draw_curve()
        self._say_what_is_missing()

    @staticmethod
    def _role(storage):
        if storage.phase == "forward" and storage.kept:
            return "activation"
        return "input" if storage.phase == "other" and storage.fed else "temporary"

    def _all_storages(self):
        return self.first + [e[1] for e in self.events if e[0] == "alloc"]

    def _give_ids(self):
        for i, storage in enumerate(self._all_storages(), 1):
            storage.id = i
        self.ops = [e[1] for e in self.events if e[0] == "op"]
        for i, op in enumerate(self.ops, 1):
            op.id = i
            op.saved = unique(op.saved)

    def _forget_what_was_emptied(self):
        """Who still had it had no memory by it."""
        self.events = [event for event in self.events
                       if event[0] not in ("drop", "let-go") or not event[1].storage.emptied]
        for op in self.ops:
            op.saved = [t for t in op.saved if not t.storage.emptied]

    def _drop_what_the_graph_held(self):
        """A node that has run lets go of what its op saved, and a file says that by `of`.  What is
        let go at other times needs a drop: by a node that never runs, when the graph dies; by
        checkpoint, which saves the inputs of a region for no node."""
        helped = {event[1].of for event in self.events if event[0] == "op" and event[1].of}
        ends = [event[1:] for event in self.events if event[0] == "let-go"]
        kept = {(op, tensor) for tensor, op, by_node in ends if by_node and op in helped}
        for tensor, op, _ in ends:
            if op in helped and (op, tensor) not in kept and tensor in op.saved:
                op.saved.remove(tensor)
        self.events = [
            event if event[0] != "let-go" else ("drop", event[1]) for event in self.events
            if event[0] != "let-go" or (event[2], event[1]) not in kept or not event[3]]

    def _drop_what_the_engine_held(self):
        """The engine keeps what a node works on until the whole node has run."""
        last, events, now, inside = {}, [], 0, False
        for event in self.events:
            if event[0] == "mark":
                inside = event[1] == "phase-begin" and event[2] == "backward"
            elif event[0] == "op":
                now += 1
                op = event[1]
                for tensor in op.ins + op.outs + op.mutates + (op.of.saved if op.of else []):
                    last[tensor.storage] = now, tensor
            elif event[0] == "drop":
                last[event[1].storage] = now, event[1]
            elif event[0] == "free" and inside and event[1] in last:
                if last[event[1]][0] < now:
                    events.append(("drop", last[event[1]][1]))
            events.append(event)
        self.events = events

    def _draw_curve(self):
        """Live bytes after each op, and the most at any time."""
        live = self.peak = sum(storage.bytes for storage in self.first)
        for event in self.events:
            if event[0] == "alloc":
                live += event[1].bytes
                self.peak = max(self.peak, live)
            elif event[0] == "free":
                live -= event[1].bytes
            elif event[0] == "op":
                self.curve.append(live)

    def _keep_last_drops(self):
        """The same tensor can be made, dropped and made again: only its last drop counts."""
        seen, events = set(), []
        for event in reversed(self.events):
            if event[0] == "drop":
                if event[1] in seen or event[1].objects:
                    continue
                seen.add(event[1])
            events.append(event)
        self.events = events[::-1]

    def _say_what_is_missing(self):
        if self.workspaces:
            self.notes += self.workspaces.notes()
        for device in sorted(self.left_out):
            self.notes.append(f"storages on {device} are left out")
        if self.values:
            self.notes.append(f"the program read {self.values} values of fake tensors, taken to "
                              "be 1 on the host and 0 on the device")
        if self.compiled:
            self.notes.append("torch.compile was off while this was recorded: the ops are those of the "
                              "program, none fused and none recomputed")
        if self.casts:
            self.notes.append("what autocast lets go of at its end is in the order of birth: its own "
                              "is that of addresses, different in every run")
        if self.elsewhere:
            self.notes.append(f"{self.elsewhere} tensors were packed for backward by the program's "
                              "saved_tensors_hooks and are not among what is saved; what was packed "
                              "lives until it is dropped")
        if self.strangers:
            self.notes.append(f"{self.strangers} ops that ran again in backward have no like in "
                              "forward, and do not say which they repeat")
        if self.resized:
            self.notes.append("storages changed their size, the first size is recorded")
        for kind in sorted(self.others):
            self.notes.append(f"tensors of {kind} are left out")
        if self.optimizers and not any(o.state for o in self.optimizers):
            self.notes.append("the optimizer has no state")
        first = {s for s in self.first if s.role == "state"}
        if self.optimizers and not first and any(s.role == "state" for s in self._all_storages()):
            self.notes.append("this is the first step: the optimizer's state is made in it")

    # -- the file --

    def write(self, path):
        """Writes the trace; gzip when the name ends in .gz, with the same bytes every time."""
        text = io.StringIO()
        Writer(self, text).write()
        data = text.getvalue().encode()
        if path.endswith(".gz"):
            with open(path, "wb") as file, gzip.GzipFile("", "wb", 9, file, mtime=0) as out:
                out.write(data)
        else:
            with open(path, "wb") as file:
                file.write(data)


# ---- writing -----------------------------------------------------------------------------------

class Writer:
    """Rows of the trace format (traces/README.md of memreuse)."""

    def __init__(self, recorder, file):
        self.r, self.out = recorder, csv.writer(file, lineterminator="\n")
        self.tensors = 0

    def row(self, *fields):
        self.out.writerow(fields)

    def write(self):
        r = self.r
        self.row("memreuse", 1)
        for field, value in r.about.items():
            if value not in (None, ""):
                self.row("about", field, value)
        for note in r.notes:
            self.row("note", note)
        words = ["dataflow", "phases"] + (["saved", "drops"] if r.saved_hooks else [])
        if any(op.ns for op in r.ops):
            words.append("times")
        self.row("has", *words)
        for stream in sorted({op.stream for op in r.ops} - {0}):
            self.row("stream", stream)
        for storage in r.first:
            self.row("storage", storage.id, storage.bytes, *self.storage(storage))
            for tensor in storage.tensors.values():
                if tensor.name:
                    self.declare(tensor)
        for event in r.events:
            getattr(self, event[0])(*event[1:])

    def storage(self, s):
        columns = [f"per_sample={s.per_sample}"] if s.per_sample else []
        columns += [f"stream={s.stream}"] if s.stream else []
        columns += [f"device={s.device}"] if s.device else []
        columns.append(f"role={s.role}")
        return columns + ["before"] * s.before + ["after"] * s.after

    def declare(self, tensor):
        """The row of a tensor, before the first row that speaks of it; gives its id."""
        if tensor.id is not None:
            return tensor.id
        self.tensors += 1
        tensor.id = self.tensors
        columns = [f"name={tensor.name}"] if tensor.name else []
        columns.append(f"dtype={tensor.dtype}")
        if tensor.shape:
            columns.append("shape=" + "x".join(map(str, tensor.shape)))
        if tensor.offset:
            columns.append(f"offset={tensor.offset}")
        if tensor.bytes != tensor.storage.bytes - tensor.offset:
            columns.append(f"bytes={tensor.bytes}")
        self.row("tensor", tensor.id, tensor.storage.id, *columns)
        return tensor.id

    def alloc(self, storage):
        self.row("alloc", storage.id, storage.bytes, *self.storage(storage))

    def free(self, storage):
        self.row("free", storage.id)

    def drop(self, tensor):
        self.row("drop", self.declare(tensor))

    def mark(self, kind, name):
        self.row("mark", kind, name)

    def op(self, op):
        columns = []
        for name in ("module", "call", "stream", "engine", "ranks"):
            if getattr(op, name):
                columns.append(f"{name}={getattr(op, name)}")
        columns += ["random"] * op.random
        for name in ("again", "of"):
            if getattr(op, name):
                columns.append(f"{name}={getattr(op, name).id}")
        for name in ("ns", "flops", "flops_per_sample", "read", "written", "workspace"):
            if getattr(op, name):
                columns.append(f"{name}={getattr(op, name)}")
        for name, tensors in (("in", op.ins), ("out", op.outs), ("mutates", op.mutates)):
            if tensors:
                columns.append(f"{name}=" + " ".join(str(self.declare(t)) for t in tensors))
        if op.saved:
            columns.append("saved=" + " ".join(f"{self.declare(t)}:{saved_as(op, t)}"
                                               for t in op.saved))
        self.row("op", op.id, op.name, op.phase, *columns)


def saved_as(op, tensor):
    if tensor not in op.outs:
        return "input"
    return "mask" if tensor.dtype in ("bool", "uint8") else "output"


# ---- clocks ------------------------------------------------------------------------------------

def make_clock(wanted, tensors):
    """What runs an op and may measure it: nothing for fake tensors, else time, on CUDA by events."""
    is_fake = any(type(t).__name__ == "FakeTensor" or t.is_meta for t in tensors)
    if wanted is False or is_fake:
        return lambda run, op: run()
    return CudaClock() if any(t.is_cuda for t in tensors) else host_clock


def host_clock(run, op):
    begin = time.perf_counter_ns()
    out = run()
    op.ns = time.perf_counter_ns() - begin
    return out


class CudaClock:
    """Each op alone on the device: its duration by events, its peak by the allocator, in bytes
    that were asked for: what an allocator rounds is its own."""

    @staticmethod
    def asked():
        return torch.cuda.memory_stats_as_nested_dict()["requested_bytes"]["all"]

    def __call__(self, run, op):
        cuda = torch.cuda
        begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True)
        cuda.reset_peak_memory_stats()
        held = self.asked()["current"]
        begin.record()
        out = run()
        end.record()
        end.synchronize()
        op.ns = int(begin.elapsed_time(end) * 1e6)
        op.stream = cuda.current_stream().cuda_stream
        asked = self.asked()
        op.workspace = max(0, asked["peak"] - max(held, asked["current"]))
        return out


# ---- no GPU ------------------------------------------------------------------------------------

@contextlib.contextmanager
def _backward_without_gpu():
    """The CUDA build asks the driver in backward even when all tensors are fake.

    Before backward the engine asks the CUDA hooks whether the device has a context, and without
    a GPU that question is an error.  The hooks are an object with virtual functions: here it gets a
    copy of its table in which that one function says no.
    """
    here = os.path.dirname(torch.__file__)
    with open(os.path.join(here, "include/ATen/detail/AcceleratorHooksInterface.h")) as file:
        names = re.findall(r"^  virtual [^;{]*?(~?\w+)\(", file.read(), re.M)
    slot = names.index("hasPrimaryContext") + 1     # a destructor has two
    get = ctypes.CDLL(os.path.join(here, "lib/libtorch_cpu.so"))["_ZN2at6detail12getCUDAHooksEv"]
    get.restype = ctypes.c_void_p
    table = ctypes.c_void_p.from_address(get())
    before, functions = 16, 256     # bytes in front of a table; more entries than it has
    copy = (ctypes.c_void_p * functions).from_buffer_copy(
        (ctypes.c_void_p * functions).from_address(table.value - before))
    no = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_int8)(lambda *_: False)
    copy[before // ctypes.sizeof(ctypes.c_void_p) + slot] = ctypes.cast(no, ctypes.c_void_p).value
    original, table.value = table.value, ctypes.addressof(copy) + before
    try:
        yield
    finally:
        table.value = original


def fused_attention(q, k, v, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None,
                    enable_gqa=False):
    """Attention by the kernel that PyTorch takes on an Ampere GPU; without one it cannot ask.

    The order is PyTorch's: flash for half precision without a mask, else memory-efficient, else
    by the formula.  Returns None for the last.
    """
    half = q.dtype in (torch.float16, torch.bfloat16)
    width = q.shape[-1]     # in 16 bytes each, as both kernels load them
    fits = q.dim() == 4 and width == k.shape[-1] == v.shape[-1] and width % (8 if half else 4) == 0
    backends = torch.backends.cuda
    if fits and half and attn_mask is None and q.shape[-1] <= 256 and backends.flash_sdp_enabled():
        return aten._scaled_dot_product_flash_attention(q, k, v, dropout_p, is_causal, False,
                                                        scale=scale)[0]
    if not fits or enable_gqa or not backends.mem_efficient_sdp_enabled():
        return None
    if attn_mask is not None:
        if attn_mask.dtype == torch.bool:
            attn_mask = torch.where(attn_mask, torch.zeros((), dtype=q.dtype, device=q.device),
                                    torch.full((), -torch.inf, dtype=q.dtype, device=q.device))
        attn_mask = attn_mask.expand(q.shape[0], q.shape[1], q.shape[2], k.shape[2])
    saves = torch.is_grad_enabled() and any(t.requires_grad for t in (q, k, v))
    return aten._scaled_dot_product_efficient_attention(q, k, v, attn_mask, saves, dropout_p,
                                                        is_causal, scale=scale)[0]


def _fuse_attention(stack):
    """A replaced function, since a TorchFunctionMode is off in backward, where checkpoint runs."""
    original = torch.nn.functional.scaled_dot_product_attention

    def attention(query, *args, **kwargs):
        out = fused_attention(query, *args, **kwargs) if query.is_cuda else None
        return original(query, *args, **kwargs) if out is None else out

    _replace(stack, torch.nn.functional, "scaled_dot_product_attention", attention)


def _split_recurrent(stack):
    """Whether cuDNN takes a recurrent layer it would ask the driver: here PyTorch's own cells do."""
    for name in ("lstm", "gru", "rnn_tanh", "rnn_relu"):
        def run(*args, _original=getattr(torch._VF, name)):
            with torch.backends.cudnn.flags(enabled=False):
                return _original(*args)

        _replace(stack, torch._VF, name, run)


@contextlib.contextmanager
def _without_values():
    from torch._subclasses import fake_tensor as fake
    try:
        yield
    except (fake.DynamicOutputShapeException, fake.DataDependentOutputException) as error:
        raise RuntimeError(f"what {error.func} gives depends on values, which fake tensors do not "
                           "have: record this step with real tensors, without pretend_cuda()"
                           ) from error


class _Values(TorchDispatchMode):
    """What the program reads from fake tensors (see the head of the file)."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is not aten._local_scalar_dense.default:
            return func(*args, **(kwargs or {}))
        t = args[0]
        kind = bool if t.dtype == torch.bool else float if t.is_floating_point() else int
        return kind(t.device.type == "cpu")


def _replace(stack, place, name, value):
    stack.callback(setattr, place, name, getattr(place, name))
    setattr(place, name, value)


@contextlib.contextmanager
def pretend_cuda():
    """Fake tensors on a device `cuda` for a machine that has none: backward, autocast, GradScaler
    and attention work as if there were one.  Tensors made inside are fake, and on `cuda` unless
    they say otherwise."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    with contextlib.ExitStack() as stack:
        if not torch.cuda.is_available():
            if torch.version.cuda:
                stack.enter_context(_backward_without_gpu())
            _replace(stack, torch.cuda.amp.common, "amp_definitely_not_available", lambda: False)
            _replace(stack, torch.cuda, "is_bf16_supported", lambda *_, **__: True)
        stack.enter_context(_without_values())
        mode = stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        stack.enter_context(torch.device("cuda"))
        if not torch.cuda.is_available():
            _fuse_attention(stack)
            _split_recurrent(stack)
        stack.enter_context(_Values())
        yield mode


# ---- for users ---------------------------------------------------------------------------------

@contextlib.contextmanager
def record(path, model=None, optimizer=None, times=None, workspaces=None, **about):
    """Records what runs inside to `path`.  `workspaces` is a table for class Workspaces.  `about` may
    have the fields that the format knows, such as batch=32, sequence=128, precision="bfloat16"; most
    others are found out."""
    found = dict(model=type(model).__name__ if model is not None else None,
                 framework="pytorch", framework_version=torch.__version__,
                 optimizer=type(optimizer).__name__.lower() if optimizer is not None else None,
                 recorder="memreuse_record", recorder_version=VERSION,
                 date=time.strftime("%Y-%m-%d"))
    recorder = Recorder(model, optimizer, times=times, workspaces=workspaces)
    recorder.notes.append("bytes and flops per sample are not known from one batch size")
    with recorder:
        yield recorder
    fake = not recorder.clock or not any(op.ns for op in recorder.ops)
    found["device"] = "fake" if fake else device_name(recorder.device)
    found["steps"] = recorder.steps
    found.update(about)
    recorder.about = found
    recorder.write(str(path))


def device_name(kind):
    return torch.cuda.get_device_name() if kind == "cuda" else f"{kind}, {sys.platform}"
