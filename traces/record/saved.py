"""Bytes that a step keeps for backward, from a trace, against what is published.

    python3 saved.py FILE...        # saved bytes of each file, and of each layer
    python3 saved.py --published    # records what the published figures speak of and compares

A storage counts once; parameters and inputs do not count.  The published figures of BERT are of a
device whose dropout masks are float32; on CUDA a mask element is one byte.  Megatron's formula for
a layer, sbh (34 + 5as/h), is for half precision with masks of one byte; the form for float32 is
sbh (66 + 9as/h).  Both leave out the mean and the deviation that the two normalisations keep for
each token, 16 sb bytes.  A published figure that is off by more than its last digit is marked.
"""
import argparse
import csv
import gzip
import sys

MIB = 1 << 20

#: model, batch, sequence, MiB: saved bytes of real autograd with masks of four bytes.
PUBLISHED = [
    ("bert-base-mlm", 1, 512, 824.7), ("bert-base-mlm", 4, 512, 3298.9),
    ("bert-base-mlm", 8, 512, 6597.8), ("bert-base-mlm", 8, 128, 1001.5),
    ("bert-base-mlm", 32, 128, 4005.8), ("bert-base-mlm", 16, 256, 4869.8),
    ("bert-base-classifier", 1, 512, 760.6), ("bert-base-classifier", 4, 512, 3042.5),
    ("bert-base-classifier", 8, 512, 6084.9), ("bert-base-classifier", 8, 128, 873.3),
    ("bert-base-classifier", 32, 128, 3493.2), ("bert-base-classifier", 16, 256, 4357.0),
    ("bert-large-classifier", 1, 512, 2022.2), ("bert-large-classifier", 4, 512, 8088.9),
    ("bert-large-classifier", 8, 512, 16177.7), ("bert-large-classifier", 8, 128, 2316.5),
    ("bert-large-classifier", 32, 128, 9266.0), ("bert-large-classifier", 16, 256, 11569.8),
    ("bert-large-mlm", 1, 512, 2087.8), ("bert-large-mlm", 4, 512, 8351.3),
    ("bert-large-mlm", 8, 512, 16702.6), ("bert-large-mlm", 8, 128, 2447.6),
    ("bert-large-mlm", 32, 128, 9790.6), ("bert-large-mlm", 16, 256, 12094.6),
]


def rows_of(path):
    opened = gzip.open(path, "rt", newline="") if path.endswith(".gz") else open(path, newline="")
    with opened as file:
        yield from csv.reader(file)


def columns_of(row):
    """The `name=value` fields of a row, and its flags."""
    return dict(field.split("=", 1) if "=" in field else (field, True) for field in row)


class Saved:
    """What a file says of storages and of what is saved."""

    def __init__(self, rows):
        self.bytes, self.per_sample, self.role, self.storage_of = {}, {}, {}, {}
        self.dtype, self.saver, self.batch = {}, {}, 1
        for row in rows:
            kind = row[0] if row else ""
            if kind in ("storage", "alloc") and len(row) > 2:
                self.add_storage(row)
            elif kind == "tensor":
                self.storage_of[row[1]] = row[2]
                self.dtype[row[1]] = columns_of(row[3:]).get("dtype", "")
            elif kind == "op":
                self.add_op(columns_of(row[4:]))
            elif row[:2] == ["about", "batch"]:
                self.batch = int(row[2])

    def add_storage(self, row):
        columns = columns_of(row[3:])
        self.bytes[row[1]], self.role[row[1]] = int(row[2]), columns.get("role", "")
        self.per_sample[row[1]] = int(columns.get("per_sample", 0))

    def add_op(self, columns):
        for word in columns.get("saved", "").split():
            tensor, how = word.split(":")
            storage = self.storage_of[tensor]
            if self.role[storage] not in ("parameter", "input"):
                mask = how == "mask" and self.dtype[tensor] == "bool"
                self.saver.setdefault(storage, (columns.get("module", ""), mask))

    def total(self, batch=None, module="", mask_bytes=1):
        """Saved bytes at a batch size, of modules below `module`, with masks that wide."""
        more = (batch or self.batch) - self.batch
        total = 0
        for storage, (saver, mask) in self.saver.items():
            if (saver + ".").startswith(module + "." if module else ""):
                bytes_ = self.bytes[storage] + self.per_sample[storage] * more
                total += bytes_ * (mask_bytes if mask else 1)
        return total

    def layers(self):
        """Modules with a number at the end of their path, as layers of a stack are called."""
        names = {".".join(saver.split(".")[:2]) for saver, _ in self.saver.values()}
        return sorted((n for n in names if n.split(".")[-1].isdigit()),
                      key=lambda n: int(n.split(".")[-1]))


def show(path):
    saved = Saved(rows_of(path))
    print(f"{path}: {len(saved.saver)} storages, {saved.total()} bytes "
          f"({saved.total() / MIB:.1f} MiB)")
    for layer in saved.layers():
        print(f"  {layer:20} {saved.total(module=layer + '.'):>14}")


# ---- published figures -------------------------------------------------------------------------

def recorded(model, sequence, *more):
    """A recording in memory that knows bytes per sample; `more` as on record.py's command line.
    One sample is no start: some ops are not needed then."""
    import io

    try:
        import memreuse_record
        import record
    except ImportError as error:
        sys.exit(f"saved.py: --published records models, which needs PyTorch ({error}): pip install "
                 "torch")
    sys.argv = ["record.py", "--model", model, "--batch", "2", "--seq", str(sequence), *more,
                "-o", "none"]
    args = record.arguments()
    batches = (2, 3, 7)
    recorders, _ = record.recorded(args, batches)
    record.fit(*recorders, batches)
    text = io.StringIO()
    memreuse_record.Writer(recorders[0], text).write()
    text.seek(0)
    return Saved(csv.reader(text))


def compare_bert():
    known = {}
    print(f"{'model':22} {'batch':>5} {'seq':>4} {'published':>10} {'trace':>10} {'on CUDA':>10}")
    for model, batch, sequence, published in PUBLISHED:
        if (model, sequence) not in known:
            known[model, sequence] = recorded(model, sequence)
        saved = known[model, sequence]
        wide = saved.total(batch, mask_bytes=4) / MIB
        print(f"{model:22} {batch:5} {sequence:4} {published:10.1f} {wide:10.2f} "
              f"{saved.total(batch) / MIB:10.2f} {'' if abs(wide - published) < 0.1 else '!'}",
              flush=True)


def compare_formula():
    """A layer of BERT in float32 and bfloat16 against the formula."""
    for precision, a, b in (("float32", 66, 9), ("bfloat16", 34, 5)):
        for batch, s in ((1, 128), (4, 512)):
            h, heads = 768, 12
            saved = recorded("bert-base-classifier", s, "--precision", precision)
            layer = saved.total(batch, module="layers.5")
            formula = a * s * batch * h + b * heads * s * s * batch
            print(f"layer, {precision}, {batch} x {s}: formula {formula}, trace {layer}, "
                  f"difference {layer - formula}, 16sb {16 * s * batch}")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--published", action="store_true")
    p.add_argument("files", nargs="*", metavar="FILE")
    args = p.parse_args()
    if not args.files and not args.published:
        p.error("expected FILE or --published")
    for path in args.files:
        try:
            show(path)
        except (OSError, EOFError, UnicodeDecodeError) as error:
            sys.exit(f"saved.py: {path}: {getattr(error, 'strerror', None) or error}")
    if args.published:
        compare_formula()
        compare_bert()


if __name__ == "__main__":
    main()
