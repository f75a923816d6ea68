"""Broken profiler traces and execution traces."""
import gzip
import json


def memory(ts, size, address, total):
    return {"ph": "i", "name": "[memory]", "tid": 7, "ts": ts,
            "args": {"Device Type": 1, "Device Id": 0, "Bytes": size, "Addr": address,
                     "Total Allocated": total, "Total Reserved": 1 << 21}}


PROFILE = {"schemaVersion": 1, "traceEvents": [
    {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "tid": 7, "ts": 1, "dur": 9, "args": {}},
    memory(2, 1024, 4096, 1024),
    memory(8, -1024, 4096, 0),
]}


def node(number, parent, name, schema="", inputs=(), outputs=()):
    return {"id": number, "parent": parent, "name": name, "seq_id": -1, "op_schema": schema,
            "inputs": list(inputs), "input_shapes": [[8]] * len(inputs),
            "input_types": ["Tensor(float)"] * len(inputs), "outputs": list(outputs),
            "output_shapes": [[8]] * len(outputs),
            "output_types": ["Tensor(float)"] * len(outputs)}


TREE = {"schema": "1.0.1", "nodes": [
    node(1, 1, "process"),
    node(2, 1, "aten::relu", "aten::relu(Tensor self) -> Tensor", [[5, 6, 0, 8, 4, "cuda:0"]],
         [[7, 8, 0, 8, 4, "cuda:0"]]),
]}

# name, text in the unbroken file, what stands there instead, said
PROFILE_FILES = [
    ("cut", '"Total Reserved":2097152}}]}', '"Total Rese', "the file ends here"),
    ("no-close", "}}]}", "}}]", "the file ends here"),
    ("garbage-behind", "}}]}", "}}]}]", "expected the end of the file"),
    ("list-is-text", '"traceEvents":[', '"traceEvents":7,"x":[', "expected a list"),
    ("no-bytes", '"Bytes":1024,', "", "no 'Bytes'"),
    ("bytes-text", '"Bytes":1024', '"Bytes":"1024"', "'Bytes'", "something else"),
    ("bytes-huge", '"Bytes":1024', '"Bytes":9223372036854775807', "9223372036854775807"),
    ("bytes-beyond", '"Bytes":1024', '"Bytes":99999999999999999999', ":1:", "no JSON"),
    ("time-text", '"ts":2', '"ts":"now"', "'ts'"),
    ("time-negative", '"ts":2', '"ts":-2', "'ts'"),
    ("device-huge", '"Device Id":0', '"Device Id":70000', "70000"),
    ("free-other", '"Bytes":-1024', '"Bytes":-512', "512 bytes", "1024"),
    ("not-utf8", "aten::mm", "aten\xff", ":1:", "no JSON"),
    ("no-memory", "[memory]", "[other]", "profile_memory=True"),
]

TREE_FILES = [
    ("cut", '"Tensor(float)"]}]}', '"Tens', "the file ends here"),
    ("id-text", '"id":2', '"id":"2"', "'id'"),
    ("parent-later", '"parent":1,"name":"aten', '"parent":9,"name":"aten', "parent 9"),
    ("id-twice", '"id":2', '"id":1', "node 1 is there twice"),
    ("storage-negative", "[5,6,0", "[5,-6,0", "'value'"),
    ("numbers-huge", "[5,6,0,8", "[5,6,0,4611686018427387904", "4611686018427387904"),
    ("on-the-host", "cuda:0", "cpu", "tensors of a device"),
]


def make_kind(corpus, kind, document, files):
    text = json.dumps(document, separators=(",", ":"))
    corpus.add(f"{kind}.json", text, "ok")
    for name, old, new, *parts in files:
        changed = text.replace(old, new, 1) if name != "no-memory" else text.replace(old, new)
        if name == "on-the-host":
            changed = text.replace(old, new)
        if name in ("no-close", "garbage-behind", "cut"):
            changed = text[:text.rindex(old)] + new
        assert changed != text, name
        corpus.add(f"{kind}-{name}.json", changed.encode("latin-1"), *parts)
    deep = text[:-1] + ',"deep":' + "[" * 100000 + "]" * 100000 + "}"
    corpus.add(f"{kind}-deep.json.gz", gzip.compress(deep.encode(), mtime=0), "no JSON")


def make(corpus):
    make_kind(corpus, "profile", PROFILE, PROFILE_FILES)
    make_kind(corpus, "tree", TREE, TREE_FILES)
