#!/usr/bin/env python3
"""time_traces.py RECORDINGS OUT: traces of ops that were timed on a GPU, with what they computed.

RECORDINGS holds Kineto traces and logs of DTR (recordings of others, not shipped here).  Their ops have
a duration and sizes or shapes, but no FLOPs: these follow from the shapes, or, in DTR's logs, from
sizes alone:

    mm         m*k, k*n and m*n are known, so 2 m k n = 2 sqrt(product of the three)
    bmm        the same in each of its parts; the Transformer has 160: its 16 heads x batch of 10
    conv       out/Cout positions, each a product with all of the weight; Cout is the length of the
               weight of the batch norm that reads the output

An op whose FLOPs do not follow is left out.

Two more need no recordings: matrix products whose rates XLA publishes (bench/time_kernels.csv), and one
layer of Megatron's 22B model on one of eight devices, written down from its paper (Korthikanti et
al., 2022).  bench/time.sh holds the model against all of them.
"""
import collections
import csv
import gzip
import json
import math
import os
import sys

SIZES = {"float32": 4, "bfloat16": 2, "float16": 2}


def prod(shape):
    return math.prod(shape)


class Trace:
    def __init__(self, device, dtype="float32", has="dataflow,times"):
        self.rows = ["memreuse,1", "about,device," + device, "about,batch,1", "has," + has]
        self.n = self.tensors = 0
        self.dtype = dtype

    def tensor(self, shape):
        self.tensors += 1
        dtype = self.dtype
        bytes_ = SIZES[dtype] * prod(shape)
        self.rows.append("storage,%d,%d,before,after" % (self.tensors, bytes_))
        dims = ",shape=" + "x".join(map(str, shape)) if shape else ""
        self.rows.append("tensor,%d,%d,dtype=%s%s" % (self.tensors, self.tensors, dtype, dims))
        return self.tensors

    def op(self, name, ns, flops, ins, outs, mutates=()):
        """Shapes of what is read, made anew, and changed where it is."""
        self.n += 1
        columns = [("ns", ns), ("flops", flops)]
        for word, shapes in ("in", ins), ("out", outs), ("mutates", mutates):
            ids = [self.tensor(s) for s in shapes]
            columns.append((word, " ".join(map(str, ids))))
        self.rows.append("op,%d,aten::%s,forward," % (self.n, name)
                         + ",".join("%s=%s" % c for c in columns if c[1]))

    def step(self, name, ins, outs, **columns):
        """An op on tensors that exist already."""
        self.n += 1
        columns["in"], columns["out"] = (" ".join(map(str, ids)) for ids in (ins, outs))
        self.rows.append("op,%d,%s,forward," % (self.n, name)
                         + ",".join("%s=%s" % c for c in columns.items() if c[1]))

    def write(self, path):
        with open(path, "w") as f:
            f.write("\n".join(self.rows) + "\n")


# ---- Kineto -----------------------------------------------------------------------------------

def kineto_ops(path):
    """(name, dims, kernel ns) of every op that launched kernels, in order."""
    events = json.load(gzip.open(path))["traceEvents"]
    ops, kernels = {}, collections.Counter()
    for e in events:
        args = e.get("args", {})
        if e.get("cat") == "Operator" and "External id" in args:
            ops[args["External id"]] = e
        if e.get("cat") == "Kernel":
            kernels[args.get("external id")] += 1000 * e["dur"]
    timed = [(ops[i]["ts"], ops[i]["name"][6:], ops[i]["args"].get("Input Dims") or [], ns)
             for i, ns in kernels.items() if i in ops]
    return [(name, [d for d in dims if d], ns) for _, name, dims, ns in sorted(timed)]


# What an op makes, and what it changes, by the shapes of its inputs.
SAME = {"add": 0, "clamp_min": 0, "threshold_backward": 0, "cudnn_batch_norm": 0,
        "cudnn_batch_norm_backward": 0, "max_pool2d_with_indices_backward": 1}
CHANGED = {"add_", "mul_"}


def from_kineto(path, device, out):
    trace, made = Trace(device), {}
    ops = kineto_ops(path)
    for name, dims, _ in ops: # the output of a convolution is what its backward op begins with
        if name == "cudnn_convolution_backward_input":
            made[tuple(dims[1])] = dims[0]
    todo = [] # convolutions whose backward pass is still to come: picture, output, filter
    for name, dims, ns in ops:
        if name == "cudnn_convolution":
            x, w = dims
            y = made.get(tuple(w), [x[0], w[0], x[2] // 2, x[3] // 2]) # the first has no such op
            todo.append((x, y, w))
            trace.op(name, ns, 2 * prod(y) * prod(w[1:]), [x, w], [y])
        elif name == "cudnn_convolution_backward_input":
            y, w = dims
            for x in [c[0] for c in reversed(todo) if c[1:] == (y, w)][:1]:
                trace.op(name, ns, 2 * prod(y) * prod(w[1:]), [y, w], [x])
        elif name == "cudnn_convolution_backward_weight":
            y, x = dims
            for c in [c for c in reversed(todo) if c[:2] == (x, y)][:1]:
                trace.op(name, ns, 2 * prod(y) * prod(c[2][1:]), [y, x], [c[2]])
                todo.remove(c)
        elif name in ("mm", "addmm"):
            a, b = dims[-2:]
            trace.op(name, ns, 2 * a[0] * a[1] * b[1], [a, b], [[a[0], b[1]]])
        elif name in SAME and len(dims) > SAME[name]:
            read = dims[:1] if name == "clamp_min" else dims # its second one is where it writes
            trace.op(name, ns, 0, read, [dims[SAME[name]]])
        elif name in CHANGED and dims:
            trace.op(name, ns, 0, dims, [], [dims[0]])
    trace.write(out)


# ---- DTR ------------------------------------------------------------------------------------------

def dtr_calls(path):
    """(name, [(root, elements)] of arguments, of new results, of mutated arguments, ns)."""
    lines = [json.loads(line) for line in gzip.open(path)]
    root, size, i = {}, {}, 0
    while i < len(lines):
        line = lines[i]
        kind = line["INSTRUCTION"]
        i += 1
        if kind == "CONSTANT":
            root[line["NAME"]] = line["NAME"]
            size[line["NAME"]] = int(lines[i]["MEMORY"]) // 4
            i += 1
        elif kind in ("COPY", "COPY_FROM"):
            root[line["DST"]] = root[line["SRC"]]
        elif kind == "CALL":
            args = [(root[a], size[root[a]]) for a in line["ARGS"]]
            made = []
            for name in line["RESULT"]:
                memory, alias = int(lines[i]["MEMORY"]), int(lines[i + 1]["ALIAS"])
                i += 2
                root[name] = name if alias < 0 else root[line["ARGS"][alias]]
                if alias < 0:
                    size[name] = memory // 4
                    made.append((name, memory // 4))
            yield line["NAME"], args, made, [], int(line["TIME"])
        elif kind == "MUTATE":
            args = [(root[a], size[root[a]]) for a in line["ARGS"]]
            yield line["NAME"], args, [], [args[int(m)] for m in line["MUTATE"]], int(line["TIME"])


PARTS = 160 # of a bmm


def dtr_product(name, args, made):
    parts = PARTS if name == "bmm" else 1
    volume = args[-2][1] * args[-1][1] * made[0][1]
    return round(2 * math.sqrt(volume / parts))


def picture(elements, channels, batch):
    """As near to a square as may be."""
    pixels = elements // channels // batch
    side = next(n for n in range(math.isqrt(pixels), 0, -1) if pixels % n == 0)
    return [batch, channels, pixels // side, side]


def from_dtr(path, device, out):
    batch = int(out[:-len(".csv")].split("-")[-1])
    calls = list(dtr_calls(path))
    channels = {} # of a picture, and of a filter: how many it makes
    for name, args, _, _, _ in calls:
        if name == "cudnn_batch_norm":
            channels[args[0][0]] = args[1][1]
    for name, args, made, _, _ in calls:
        if name == "cudnn_convolution" and made[0][0] in channels:
            channels[args[1][0]] = channels[made[0][0]]
    trace = Trace(device)
    for name, args, made, mutated, ns in calls:
        flat = lambda things: [[n] for _, n in things]
        if name in ("mm", "bmm", "addmm"):
            trace.op(name, ns, dtr_product(name, args, made), flat(args), flat(made))
        elif name in ("cudnn_convolution", "cudnn_convolution_backward"):
            forward = name == "cudnn_convolution"
            filter_ = args[1] if forward else args[2]
            y = made[0][1] if forward else args[1][1]
            x = args[0][1]
            c = channels.get(filter_[0])
            if not c or filter_[1] % (9 * c):
                continue # the 1x1 at the end
            w, xs = [c, filter_[1] // (9 * c), 3, 3], filter_[1] // (9 * c)
            flops = 2 * y // c * filter_[1]
            if forward:
                trace.op(name, ns, flops, [picture(x, xs, batch), w], [picture(y, c, batch)])
            else: # both gradients; the picture's only where it is asked for
                both = len(made) > 1
                trace.op(name, ns, flops * (2 if both else 1),
                         [picture(y, c, batch), picture(x, xs, batch), w], ([picture(x, xs, batch)] if both else []) + [w])
        elif made or mutated: # what is changed in place is copied first, so that it can be redone
            changed = flat(mutated)
            trace.op(name, ns, 0, flat(args) + changed, flat(made) + changed, changed)
    trace.write(out)


# ---- matrix products ----------------------------------------------------------------------------

def from_rates(path, out):
    traces = {}
    for row in csv.DictReader(open(path)):
        n, m, k = (int(row[c]) for c in ("rows", "columns", "terms"))
        parts, dtype = int(row["parts"]), row["dtype"]
        trace = traces.setdefault(row["dtype"], Trace(row["device"], dtype))
        flops = 2 * parts * n * m * k
        lead = [parts] if parts > 1 else []
        trace.op("bmm" if lead else "mm", round(flops / float(row["tflops"]) / 1e3), flops,
                 [lead + [n, k], lead + [k, m]], [lead + [n, m]])
    for dtype, trace in traces.items():
        trace.write("%s/products-%s.csv" % (out, dtype))


# ---- Megatron -----------------------------------------------------------------------------------

B, S, H, HEADS, RANKS = 4, 2048, 6144, 64, 8
TOKENS, SHARE, PARTS_HERE = B * S, H // RANKS, B * HEADS // RANKS


class Layer:
    """Kernels one after the other; communication on a stream of its own."""

    def __init__(self):
        self.t = Trace("A100 80 GB", "float16", "dataflow")
        self.t.rows.append("stream,1")
        self.last = self.t.tensor([1])

    def product(self, parts, rows, columns, terms):
        lead = [parts] if parts > 1 else []
        out = self.t.tensor(lead + [rows, columns])
        parts_bytes = 2 * parts
        self.t.step("aten::bmm" if lead else "aten::mm", [self.last], [out],
                    flops=2 * parts * rows * columns * terms,
                    read=parts_bytes * terms * (rows + columns),
                    written=parts_bytes * rows * columns)
        self.last = out

    def linear(self, rows, columns, terms):
        self.product(1, rows, columns, terms)

    def memory(self, name, read, written):
        out = self.t.tensor([1])
        self.t.step("aten::" + name, [self.last], [out], read=read, written=written)
        self.last = out

    def reduce(self, waited=True):
        out = self.t.tensor([1])
        self.t.step("all_reduce", [self.last], [out], stream=1, engine="all_reduce", ranks=RANKS,
                    read=2 * TOKENS * H)
        if waited:
            self.last = out
        return out


def forward(l):
    e, s = 2 * TOKENS * H, 2 * PARTS_HERE * S * S # bytes of a hidden tensor, of the scores
    l.memory("native_layer_norm", e, e)
    l.linear(TOKENS, 3 * SHARE, H)
    l.memory("add", 3 * e // RANKS, 3 * e // RANKS) # bias
    l.product(PARTS_HERE, S, S, H // HEADS)
    l.memory("scaled_masked_softmax", s, s)
    l.memory("native_dropout", s, s + s // 2)
    l.product(PARTS_HERE, S, H // HEADS, S)
    l.memory("clone", e // RANKS, e // RANKS)
    l.linear(TOKENS, H, SHARE)
    l.reduce()
    l.memory("bias_dropout_add", 2 * e, e + e // 2)
    l.memory("native_layer_norm", e, e)
    l.linear(TOKENS, 4 * SHARE, H)
    l.memory("bias_gelu", 4 * e // RANKS, 4 * e // RANKS)
    l.linear(TOKENS, H, 4 * SHARE)
    l.reduce()
    l.memory("bias_dropout_add", 2 * e, e + e // 2)


def backward_linear(l, columns, terms, reduce):
    """Gradient of the input, then of the weight beside the communication of the first."""
    l.linear(TOKENS, terms, columns)
    wait = l.reduce(waited=False) if reduce else None
    l.linear(columns, terms, TOKENS)
    l.memory("sum", 2 * TOKENS * columns, 2 * columns) # bias
    if wait:
        l.last = wait


def backward(l):
    e, s = 2 * TOKENS * H, 2 * PARTS_HERE * S * S
    l.memory("native_dropout_backward", e + e // 2, e)
    backward_linear(l, H, 4 * SHARE, False)
    l.memory("gelu_backward", 8 * e // RANKS, 4 * e // RANKS)
    backward_linear(l, 4 * SHARE, H, True)
    l.memory("native_layer_norm_backward", 2 * e, e)
    l.memory("add", 2 * e, e)
    l.memory("native_dropout_backward", e + e // 2, e)
    backward_linear(l, H, SHARE, False)
    l.memory("clone", e // RANKS, e // RANKS)
    l.product(PARTS_HERE, S, S, H // HEADS)
    l.product(PARTS_HERE, S, H // HEADS, S)
    l.memory("native_dropout_backward", s + s // 2, s)
    l.memory("softmax_backward", 2 * s, s)
    l.product(PARTS_HERE, S, H // HEADS, S)
    l.product(PARTS_HERE, S, H // HEADS, S)
    l.memory("clone", 3 * e // RANKS, 3 * e // RANKS)
    backward_linear(l, 3 * SHARE, H, True)
    l.memory("native_layer_norm_backward", 2 * e, e)
    l.memory("add", 2 * e, e)


def layers(out):
    for name, run in ("forward", forward), ("backward", backward):
        l = Layer()
        run(l)
        l.t.write("%s/megatron-22b-%s.csv" % (out, name))


def main():
    recordings, out = sys.argv[1:3]
    from_rates(os.path.join(os.path.dirname(__file__), "time_kernels.csv"), out)
    layers(out)
    if not os.path.isdir(recordings):
        return
    from_kineto(recordings + "/kineto/resnet50-2021-memory-no-address.pt.trace.json.gz",
                "Tesla V100-DGXS-32GB", out + "/v100-resnet50.csv")
    for log in "unet-6", "resnet32-56", "transformer-10", "treelstm-6":
        from_dtr("%s/dtr-logs/%s.log.gz" % (recordings, log), "TITAN V",
                 "%s/titanv-%s.csv" % (out, log))


if __name__ == "__main__":
    main()
