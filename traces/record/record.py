"""Records one of the models of models.py on fake CUDA tensors, and what PyTorch says of the same.

    python3 record.py --model bert-base-mlm --batch 32 --seq 128 -o bert-base-mlm-b32-s128.csv.gz

The step is recorded at three batch sizes.  The first two give bytes and flops per sample, the third
must agree; what does not is listed in a note of the file.  `--manifest` and `--truth` keep one row
per file in tables beside it.  After the word `next` stand the options of one more recording.
"""
import argparse
import contextlib
import csv
import fcntl
import gc
import hashlib
import os
import shlex
import sys

if "--on-device" not in sys.argv:
    os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # MemTracker then counts single bytes

try:
    import torch  # noqa: E402
except ImportError as error:
    sys.exit(f"record.py: PyTorch is needed ({error}): pip install torch")

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

import memreuse_record as mr  # noqa: E402
import parallel  # noqa: E402
import techniques  # noqa: E402
import truth  # noqa: E402
from models import WORKLOADS, Options, follow_plan  # noqa: E402

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


class LoopAdamW(torch.optim.Optimizer):
    """AdamW with one temporary for each parameter, where PyTorch's own loop has two: the square root
    becomes the divisor in place.  So did the Trainer of transformers by default until 2022."""

    def __init__(self, parameters, lr=1e-3, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(parameters, dict(lr=lr, betas=betas, eps=eps))

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.update(p, self.state[p], *group["betas"], group["lr"], group["eps"])

    @staticmethod
    def update(p, state, beta1, beta2, lr, eps):
        if not state:
            state.update(step=0, exp_avg=torch.zeros_like(p), exp_avg_sq=torch.zeros_like(p))
        state["step"] += 1
        mean, square = state["exp_avg"], state["exp_avg_sq"]
        mean.mul_(beta1).add_(p.grad, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
        divisor = square.sqrt().add_(eps)
        correction = (1 - beta2 ** state["step"]) ** 0.5 / (1 - beta1 ** state["step"])
        p.addcdiv_(mean, divisor, value=-lr * correction)


def optimizers():
    """Names that --optimizer knows.  What PyTorch takes on a GPU by itself, foreach, is asked for:
    it does not take it for fake tensors."""
    optim = torch.optim
    return {
        "adamw": lambda p: optim.AdamW(p, foreach=True),
        "adamw-loop": lambda p: optim.AdamW(p, foreach=False),
        "adamw-loop-2022": LoopAdamW,
        "adamw-fused": lambda p: optim.AdamW(p, fused=True),
        "adam": lambda p: optim.Adam(p, foreach=True),
        "sgd": lambda p: optim.SGD(p, lr=0.1, foreach=True),
        "sgd-momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, foreach=True),
        "rmsprop": lambda p: optim.RMSprop(p, foreach=True),
        "adafactor": lambda p: optim.Adafactor(p, foreach=False),
        "none": lambda p: None,
    }


def arguments(words=None):
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--model", required=True, choices=sorted(WORKLOADS))
    p.add_argument("--batch", type=int, required=True)
    p.add_argument("--seq", type=int, default=0)
    p.add_argument("--image", type=int, default=0)
    p.add_argument("--precision", default="float32",
                   choices=["float32", "bfloat16", "float16", "amp-float16", "amp-bfloat16"])
    p.add_argument("--masters", default="", choices=["none", "static", "dynamic"],
                   help="the optimizer's parameters have 32 bits; how the loss is scaled")
    p.add_argument("--optimizer", default="adamw", choices=sorted(optimizers()))
    p.add_argument("--attention", default="eager", choices=["eager", "sdpa"])
    p.add_argument("--accumulate", type=int, default=1, help="pieces that the batch is run in")
    p.add_argument("--keep-gradients", action="store_true", help="zero_grad(set_to_none=False)")
    p.add_argument("--checkpoint", default="", metavar="HOW",
                   help="block, reentrant, matmuls (all but products recomputed), attention (its "
                        "core alone), sequential:SEGMENTS")
    p.add_argument("--checkpoint-plan", default="", metavar="PLAN",
                   help="stages that are recomputed, and within which others, such as "
                        "[[0-3]4-9]10-16")
    p.add_argument("--inplace", default="", choices=["", "activations", "all"],
                   help="activations in place; all: residual sums too")
    p.add_argument("--abn", action="store_true",
                   help="batch norms and the activations behind them as in-place ABN")
    p.add_argument("--activation", default="relu", choices=["relu", "leaky-relu", "elu"])
    p.add_argument("--chunk", default="", metavar="WHAT:PIECES",
                   help="loss, attention or mlp in pieces, each recomputed in backward")
    p.add_argument("--optimizer-in-backward", action="store_true",
                   help="each parameter is updated, and its gradient let go, as soon as it is known")
    p.add_argument("--fused", action="store_true",
                   help="of GPT: dropouts and the sums around them as one kernel each")
    p.add_argument("--place-skips", action="store_true",
                   help="of a U-Net, where they are joined with others")
    p.add_argument("--clip", action="store_true", help="clip_grad_norm_ before the update")
    p.add_argument("--clip-form", default="foreach", choices=["foreach", "for-loop"])
    p.add_argument("--error-if-nonfinite", action="store_true", help="of the clip")
    p.add_argument("--compile", type=float, default=0, metavar="BUDGET",
                   help="torch.compile's graphs, cut with this activation_memory_budget and run op "
                        "by op")
    p.add_argument("--untied", action="store_true", help="input and output embeddings of their own")
    p.add_argument("--save-on-cpu", action="store_true")
    parallel.add_arguments(p)
    p.add_argument("--no-grad", action="store_true", help="inference")
    p.add_argument("--on-device", action="store_true", help="real tensors, on a CUDA device")
    p.add_argument("--workspaces", metavar="TABLE",
                   help="bytes that ops take inside, as workspaces.py has measured them")
    p.add_argument("--steps", type=int, default=1)
    p.add_argument("--one-batch", action="store_true", help="do not look for bytes per sample")
    p.add_argument("--date", default="", help="of the recording, year-month-day")
    p.add_argument("--technique", default="", help="word for the manifest")
    p.add_argument("--plain", default="", help="the file without the technique, for the manifest")
    p.add_argument("--manifest")
    p.add_argument("--truth")
    p.add_argument("-o", required=True, metavar="FILE")
    args = p.parse_args(words)
    args.words = words
    return args


# ---- the program that is recorded --------------------------------------------------------------

class Run:
    """A model with its optimizer, ready to take steps.  Lives inside `pretend_cuda`."""

    def __init__(self, args, samples):
        self.args, self.samples, self.number = args, samples, 0
        torch.set_default_dtype(DTYPES.get(args.precision, torch.float32))
        checkpoint, _, segments = args.checkpoint.partition(":")
        chunk, _, chunks = args.chunk.partition(":")
        self.work = WORKLOADS[args.model](Options(
            attention=args.attention, checkpoint=checkpoint, segments=int(segments or 0),
            inplace=args.inplace, activation=args.activation, chunk=chunk, chunks=int(chunks or 0),
            skips="placed" if args.place_skips else "", fused=args.fused,
            tied=not args.untied, sequence=args.seq, image=args.image))
        self.model = self.work.model
        if args.checkpoint_plan:
            self.work.loss = follow_plan(self.model, args.checkpoint_plan)
        if args.abn:
            techniques.join_norms(self.model)
        self.called = parallel.wrapped(self.model, args)
        self.inference = args.no_grad or self.work.about.get("inference", False)
        if self.inference:
            self.model.eval()
        make = optimizers()["none" if self.inference else args.optimizer]
        self.masters = None
        if args.masters:
            self.masters = techniques.Masters(self.model.parameters(), make, args.masters)
            self.optimizers = [self.masters.optimizer]
        elif args.optimizer_in_backward:
            self.optimizers = [self.in_backward(p, make([p])) for p in self.model.parameters()]
        else:
            self.optimizers = [make(self.model.parameters())] if not self.inference else []
        if args.compile:
            self.called = self.compiled(self.model)
        self.scaler = torch.amp.GradScaler() if args.precision == "amp-float16" else None
        self.batch = None
        self.before_forward = lambda: None

    def compiled(self, model):
        torch._dynamo.reset()
        torch._functorch.config.activation_memory_budget = self.args.compile
        return torch.compile(model, backend="aot_eager_decomp_partition")

    @staticmethod
    def in_backward(parameter, optimizer):
        def update(_):
            with torch.device("cpu"):
                optimizer.step()
            optimizer.zero_grad()

        parameter.register_post_accumulate_grad_hook(update)
        return optimizer

    def prepare(self):
        """The next batch; between two steps, as a data loader has it ready."""
        self.batch = self.work.batch(self.samples, self.number)
        self.number += 1

    def step(self):
        if self.inference:
            with torch.no_grad():
                self.work.loss(self.model, *self.batch)
            return
        for optimizer in [self.model] if self.masters else self.optimizers:
            optimizer.zero_grad(set_to_none=not self.args.keep_gradients)
        last = self.args.accumulate - 1
        pieces = zip(*(t.chunk(self.args.accumulate) for t in self.batch))
        for i, piece in enumerate(pieces if last else [self.batch]):
            with parallel.alone(self.called, self.args, i < last):
                self.forward_backward(piece)
        if self.args.optimizer_in_backward:
            return
        if self.masters:
            self.masters.step()
            return
        optimizer = self.optimizers[0]
        if self.args.clip:
            self.clip(optimizer)
        with torch.device("cpu"):   # step counters are made on the host where nothing else is said
            if self.scaler:
                self.scaler.step(optimizer)
                self.scaler.update()
            else:
                optimizer.step()

    def forward_backward(self, piece):
        self.before_forward()
        with self.precision(), self.saving():
            loss = self.work.loss(self.called, *piece)
        if self.args.accumulate > 1:
            loss = loss / self.args.accumulate
        if self.masters:
            loss = self.masters.scale(loss)
        (self.scaler.scale(loss) if self.scaler else loss).backward()

    def clip(self, optimizer):
        """As a trainer does, on a GPU: foreach, with gradients that are unscaled."""
        if self.scaler:
            self.scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0,
                                       error_if_nonfinite=self.args.error_if_nonfinite,
                                       foreach=self.args.clip_form == "foreach")

    def precision(self):
        if not self.args.precision.startswith("amp-"):
            return contextlib.nullcontext()
        return torch.autocast("cuda", DTYPES[self.args.precision[4:]])

    def saving(self):
        if not self.args.save_on_cpu:
            return contextlib.nullcontext()
        return torch.autograd.graph.save_on_cpu()

    def steps(self, between=lambda: None):
        """As many as asked for, the first batch being there already."""
        for i in range(self.args.steps):
            if i:
                between()
                self.prepare()
            self.step()

    def settle(self):
        """One step, so that the optimizer has its state; then nothing is left but what stays.  In
        its second step DistributedDataParallel makes its buckets anew."""
        for _ in range(2 if self.args.ranks else 1):
            self.prepare()
            self.step()
        self.rewind()

    def rewind(self):
        """Back to the first batch."""
        self.number = 0
        self.prepare()
        gc.collect()


@contextlib.contextmanager
def settled(args, samples):
    """A run after its first step, garbage collection off: cycles are to be seen, not hidden."""
    if args.compile:    # else Dynamo leaves a program alone while a mode is on
        TorchDispatchMode.ignore_compile_internals = classmethod(lambda _: True)
    with torch.device("cuda") if args.on_device else mr.pretend_cuda():
        run = Run(args, samples)
        run.settle()
        gc.disable()
        try:
            yield run
        finally:
            gc.enable()
            torch.set_default_dtype(torch.float32)


def recorded(args, sizes, others=()):
    """The same model recorded at some batch sizes, and what `others` say of the first."""
    with settled(args, sizes[0]) as run:
        recorders = [recorded_once(args, run, samples) for samples in sizes]
        run.samples, said = sizes[0], []
        for other in others:
            run.rewind()
            said.append(other(run))
        return recorders, said


def recorded_once(args, run, samples):
    run.samples = samples
    run.rewind()
    recorder = mr.Recorder(run.model, run.optimizers, about_of(args, run),
                           times=False if args.ranks else None, workspaces=args.workspaces)
    with recorder:
        run.steps(recorder.step)
    note_cycles(recorder)
    return recorder


def note_cycles(recorder):
    """Storages that only the garbage collector would release stay `after`; the file says so."""
    before = len(recorder.storages)
    bytes_ = sum(s.bytes for s in recorder.storages.values())
    gc.collect()
    lost = before - len(recorder.storages)
    if lost:
        bytes_ -= sum(s.bytes for s in recorder.storages.values())
        recorder.notes.append(f"{lost} storages, {bytes_} bytes, are live after the last step only "
                              "because reference cycles hold them")


def about_of(args, run):
    return dict(model=args.model, framework="pytorch",
                framework_version=torch.__version__.split("+")[0],
                device=mr.device_name("cuda") if args.on_device else "fake",
                precision=args.precision, batch=args.batch, sequence=run.work.sequence or "",
                image=run.work.image or "", optimizer="" if run.inference else args.optimizer,
                recorder="memreuse_record", recorder_version=mr.VERSION, date=args.date,
                steps=args.steps)


# ---- per sample --------------------------------------------------------------------------------

def shape_of(recorder):
    """The course of a recording without its sizes."""
    course = []
    for event in recorder.events:
        kind, thing = event[0], event[1]
        if kind == "op":
            course.append((thing.name, thing.phase, thing.module,
                           [t.storage.id for t in thing.ins + thing.outs + thing.mutates]))
        elif kind in ("alloc", "free"):
            course.append((kind, thing.id))
        elif kind == "drop":
            course.append((kind, thing.storage.id))
    return course


def fit(first, second, third, batches):
    """bytes and flops = fixed + per_sample * batch, from two sizes and held against a third."""
    if not shape_of(first) == shape_of(second) == shape_of(third):
        first.notes.append("bytes and flops per sample are not known: the step runs differently at "
                           f"batch sizes {batches[0]}, {batches[1]} and {batches[2]}")
        return
    storages = fit_one(first._all_storages(), second._all_storages(), third._all_storages(),
                       "bytes", "per_sample", batches)
    ops = fit_one(first.ops, second.ops, third.ops, "flops", "flops_per_sample", batches)
    first.notes.append(f"bytes and flops per sample follow from batch sizes {batches[0]} and "
                       f"{batches[1]} and were found again at {batches[2]}"
                       + (", except:" if storages or ops else ""))
    for thing, what in ((storages, "storage"), (ops, "op")):
        for x, values in thing:
            first.notes.append(f"{what} {x.id} is not linear in the batch: {values[0]}, "
                               f"{values[1]}, {values[2]}")


def fit_one(first, second, third, attribute, per_sample, batches):
    """Fills `per_sample` where a whole number explains all three; gives the others."""
    odd = []
    for x, y, z in zip(first, second, third):
        a, b, c = (getattr(t, attribute) for t in (x, y, z))
        slope, rest = divmod(b - a, batches[1] - batches[0])
        fixed = a - slope * batches[0]
        if rest or slope < 0 or fixed < 0 or fixed + slope * batches[2] != c:
            odd.append((x, (a, b, c)))
        else:
            setattr(x, per_sample, slope)
    return odd


# ---- tables ------------------------------------------------------------------------------------

def put_row(path, row):
    """Replaces or adds the row of a file in a table that is kept in the order of file names.
    Several recordings may be made at the same time, so the folder is locked meanwhile."""
    folder = os.open(os.path.dirname(path) or ".", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    try:
        write_row(path, row)
    finally:
        os.close(folder)


def write_row(path, row):
    rows = []
    if os.path.exists(path):
        with open(path, newline="") as file:
            rows = [r for r in csv.DictReader(file) if r["file"] != row["file"]]
    rows = sorted(rows + [row], key=lambda r: r["file"])
    with open(path, "w", newline="") as file:
        out = csv.DictWriter(file, list(row), lineterminator="\n")
        out.writeheader()
        out.writerows(rows)


def command_of(args):
    """What was typed, without the tables."""
    words, skip = [], False
    for word in args.words:
        if skip or word in ("--manifest", "--truth", "--technique", "--plain", "-o"):
            skip = not skip
            continue
        words.append(word)
    return shlex.join(["record.py"] + words)


def manifest_row(args, recorder):
    with open(args.o, "rb") as file:
        digest = hashlib.sha256(file.read()).hexdigest()
    return dict(file=os.path.basename(args.o), sha256=digest, command=command_of(args),
                technique=args.technique, plain=args.plain,
                torch=torch.__version__.split("+")[0], date=args.date, ops=len(recorder.ops),
                storages=len(recorder._all_storages()), peak=recorder.peak,
                flops=sum(op.flops for op in recorder.ops))


def main():
    words = []
    for word in sys.argv[1:] + ["next"]:
        if word != "next":
            words.append(word)
        elif words:
            make(arguments(words))
            words = []


def make(args):
    print(os.path.basename(args.o), flush=True)
    more = args.accumulate
    batches = (args.batch, args.batch + more, 2 * args.batch + 3 * more)
    others = (truth.live_bytes, truth.flop_counter, truth.mem_tracker) if args.truth else ()
    recorders, said = recorded(args, batches[:1] if args.one_batch else batches, others)
    first = recorders[0]
    if args.one_batch:
        first.notes.append("bytes and flops per sample are not known from one batch size")
    else:
        fit(*recorders, batches)
    first.write(args.o)
    if args.manifest:
        put_row(args.manifest, manifest_row(args, first))
    if args.truth:
        put_row(args.truth, truth.row(args.o, first, *said))


if __name__ == "__main__":
    main()
