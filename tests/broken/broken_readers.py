"""Broken lifetime tables, simrd logs and compressed files."""
import gzip
import json
import struct

import broken_csv
import broken_pickle

LIFETIMES = "id,lower,upper,size\na,0,3,1024\nb,1,4,2048\nc,3,5,1024\n"

LIFETIME_FILES = [
    ("no-size", "id,lower,upper,size\n", "id,lower,upper\n", "expected"),
    ("no-header", "id,lower,upper,size\n", "", "expected"),
    ("header-twice", "b,1", "id,lower,upper,size\nb,1", ":3:4:", "lower"),
    ("column-unknown", "upper,size", "upper,size,colour", "colour"),
    ("column-twice", "upper,size", "upper,upper,size", "upper"),
    ("upper-below-lower", "b,1,4", "b,4,1", ":3:", "upper"),
    ("upper-is-lower", "b,1,4", "b,1,1", ":3:", "upper"),
    ("id-twice", "b,1", "a,1", ":3:1:", "a"),
    ("size-negative", "4,2048", "4,-2048", ":3:7:", "-2048"),
    ("size-text", "4,2048", "4,large", ":3:7:", "large"),
    ("size-float", "4,2048", "4,2048.5", ":3:7:", "2048.5"),
    ("size-huge", "4,2048", "4,18446744073709551616", ":3:7:", "18446744073709551616"),
    ("size-empty", "4,2048", "4,", ":3:7:", "''"),
    ("sum-overflow", "4,2048", "4,18446744073709551615", "bytes"),
    ("lower-negative", "b,1", "b,-1", ":3:3:", "-1"),
    ("lower-text", "b,1", "b,now", ":3:3:", "now"),
    ("upper-huge", "b,1,4", "b,1,99999999999999999999", ":3:5:", "99999999999999999999"),
    ("row-short", "b,1,4,2048", "b,1,4", ":3:", "fields"),
    ("row-long", "b,1,4,2048", "b,1,4,2048,5", ":3:", "fields"),
    ("quote-open", "b,1", '"b,1', ":3:1:", "quote"),
    ("nul", "b,1", "b\0,1", ":3:2:", "NUL"),
    ("semicolons", "b,1,4,2048", "b;1;4;2048", ":3:", "field"),
    ("no-row", "a,0,3,1024\nb,1,4,2048\nc,3,5,1024\n", "", "expected"),
]

SIMRD = [
    {"INSTRUCTION": "ANNOTATE", "ANNOTATION": "START"},
    {"INSTRUCTION": "CONSTANT", "NAME": "x1"},
    {"INSTRUCTION": "MEMORY", "NAME": "x1", "MEMORY": "4096"},
    {"INSTRUCTION": "CALL", "NAME": "relu", "ARGS": ["x1"], "RESULT": ["x2"], "TIME": "1000"},
    {"INSTRUCTION": "MEMORY", "NAME": "x2", "MEMORY": "4096"},
    {"INSTRUCTION": "ALIAS", "NAME": "x2", "ALIAS": "-1"},
    {"INSTRUCTION": "COPY", "DST": "x3", "SRC": "x2"},
    {"INSTRUCTION": "MUTATE", "NAME": "add_", "ARGS": ["x2", "x1"], "MUTATE": [0],
     "TIME": "500"},
    {"INSTRUCTION": "RELEASE", "NAME": "x2"},
    {"INSTRUCTION": "RELEASE", "NAME": "x3"},
]

# name, line counted from 1, changes (None: the key goes; a text instead: the whole line), said
SIMRD_FILES = [
    ("garbage", 4, "what is this", ":4:"),
    ("cut", 4, '{"INSTRUCTION":"CALL","NAME":"re', ":4:"),
    ("array", 4, '["CALL"]', ":4:"),
    ("number", 4, "42", ":4:"),
    ("nothing-after-colon", 4, '{"INSTRUCTION":}', ":4:"),
    ("comma", 4, '{"INSTRUCTION":"CALL",}', ":4:"),
    ("two-objects", 9, '{"INSTRUCTION":"RELEASE","NAME":"x2"} {}', ":9:"),
    ("single-quotes", 9, "{'INSTRUCTION':'RELEASE','NAME':'x2'}", ":9:"),
    ("quote-open", 9, '{"INSTRUCTION":"RELEASE","NAME":"x2}', ":9:"),
    ("escape", 9, '{"INSTRUCTION":"RELEASE","NAME":"\\x2"}', ":9:"),
    ("escape-short", 9, '{"INSTRUCTION":"RELEASE","NAME":"\\u12"}', ":9:"),
    ("nul", 9, '{"INSTRUCTION":"RELEASE","NAME":"\0"}', ":9:"),
    ("instruction-unknown", 9, {"INSTRUCTION": "EVICT"}, ":9:", "EVICT"),
    ("instruction-missing", 9, {"INSTRUCTION": None}, ":9:", "INSTRUCTION"),
    ("instruction-number", 9, {"INSTRUCTION": 5}, ":9:", "INSTRUCTION"),
    ("name-missing", 9, {"NAME": None}, ":9:", "NAME"),
    ("name-number", 9, {"NAME": 2}, ":9:", "NAME"),
    ("memory-unknown", 3, {"NAME": "x9"}, ":3:", "x9"),
    ("memory-negative", 3, {"MEMORY": "-4096"}, ":3:", "MEMORY"),
    ("memory-text", 3, {"MEMORY": "lots"}, ":3:", "MEMORY"),
    ("memory-float", 3, {"MEMORY": 4096.5}, ":3:", "MEMORY"),
    ("memory-huge", 3, {"MEMORY": "99999999999999999999"}, ":3:", "MEMORY"),
    ("memory-missing", 3, {"MEMORY": None}, ":3:", "MEMORY"),
    ("args-unknown", 4, {"ARGS": ["x7"]}, ":4:", "x7"),
    ("args-text", 4, {"ARGS": "x1"}, ":4:", "ARGS"),
    ("args-numbers", 4, {"ARGS": [1]}, ":4:", "expected"),
    ("args-missing", 4, {"ARGS": None}, ":4:", "ARGS"),
    ("result-missing", 4, {"RESULT": None}, ":4:", "RESULT"),
    ("result-known", 4, {"RESULT": ["x1"]}, "x1"),
    ("time-negative", 4, {"TIME": "-1"}, ":4:", "TIME"),
    ("time-text", 4, {"TIME": "soon"}, ":4:", "TIME"),
    ("time-missing", 4, {"TIME": None}, ":4:", "TIME"),
    ("constant-twice", 4, {"INSTRUCTION": "CONSTANT", "NAME": "x1"}, ":4:", "x1"),
    ("alias-unknown", 6, {"ALIAS": "7"}, ":6:", "7"),
    ("alias-text", 6, {"ALIAS": "x1"}, ":6:", "ALIAS"),
    ("copy-unknown", 7, {"SRC": "x8"}, ":7:", "x8"),
    ("copy-known", 7, {"DST": "x1"}, ":7:", "x1"),
    ("mutate-outside", 8, {"MUTATE": [2]}, ":8:", "2"),
    ("mutate-negative", 8, {"MUTATE": [-1]}, ":8:", "MUTATE"),
    ("mutate-text", 8, {"MUTATE": ["x2"]}, ":8:", "MUTATE"),
    ("release-twice", 10, {"NAME": "x2"}, ":10:", "x2"),
    ("use-after-release", 10, {"INSTRUCTION": "COPY", "DST": "x4", "SRC": "x2"}, ":10:", "x2"),
]


def simrd_lines():
    return [json.dumps(line, separators=(",", ":"), sort_keys=True) for line in SIMRD]


def make(corpus):
    corpus.add("lifetimes.csv", LIFETIMES, "ok")
    for name, old, new, *parts in LIFETIME_FILES:
        corpus.add(f"lifetimes-{name}.csv", LIFETIMES.replace(old, new, 1), *parts)
    corpus.add("lifetimes-inclusive.csv", LIFETIMES.replace("b,1,4", "b,1,0"), ":3:", "upper",
               options="--ends inclusive")
    corpus.add("lifetimes-inclusive-good.csv", LIFETIMES.replace("b,1,4", "b,1,1"), "ok",
               options="--ends inclusive")
    simrd(corpus)
    compressed(corpus)


def simrd(corpus):
    lines = simrd_lines()
    corpus.add("simrd.log", "\n".join(lines) + "\n", "ok")
    for name, number, change, *parts in SIMRD_FILES:
        changed = list(lines)
        if isinstance(change, dict):
            line = {**SIMRD[number - 1], **change}
            change = json.dumps({k: v for k, v in line.items() if v is not None},
                                separators=(",", ":"), sort_keys=True)
        changed[number - 1] = change
        corpus.add(f"simrd-{name}.log", "\n".join(changed) + "\n", *parts)
    corpus.add("simrd-not-utf8.log",
               "\n".join(lines).encode().replace(b'"x3"', b'"\xff\xfe\x03"'), ":7:")
    corpus.add("simrd-memory-overflow.log",
               "\n".join(lines).replace('"4096"', '"18446744073709551615"'),
               "18446744073709551615", "expected")
    corpus.add("simrd-start-only.log", lines[0] + "\n", "expected")
    for name, begin, end in (("deep", "[", "]"), ("deep-objects", '{"A":', "}")):
        deep = lines[:8] + ['{"NAME":' + begin * 100000 + "1" + end * 100000 + "}"] + lines[9:]
        corpus.add(f"simrd-{name}.log.gz", gzip.compress("\n".join(deep).encode(), mtime=0),
                   ":9:")


def zstd(data, window=0x58, magic=b"\x28\xb5\x2f\xfd", last=True):
    """One uncompressed block; the window descriptor 0x58 stands for 2 MiB."""
    header = len(data) << 3 | (1 if last else 0)
    return magic + bytes([0, window]) + struct.pack("<I", header)[:3] + data


def compressed(corpus):
    text = broken_csv.ALLOCATIONS.encode()
    data = gzip.compress(text, mtime=0)
    corpus.add("packed.csv.gz", data, "ok")
    corpus.add("packed-members.csv.gz",
               gzip.compress(text[:50], mtime=0) + gzip.compress(text[50:], mtime=0), "ok")
    for name, at in (("header", 6), ("start", 10), ("middle", len(data) // 2),
                     ("checksum", len(data) - 6), ("length", len(data) - 1)):
        corpus.add(f"packed-cut-{name}.csv.gz", data[:at], ": byte", "cut off")
    damaged = bytearray(data)
    damaged[len(data) // 2] ^= 0x55
    corpus.add("packed-damaged.csv.gz", bytes(damaged), "gzip")
    corpus.add("packed-checksum.csv.gz", data[:-8] + b"\1\2\3\4" + data[-4:], "gzip", "damaged")
    corpus.add("packed-length.csv.gz", data[:-4] + b"\1\2\3\4", "gzip", "damaged")
    corpus.add("packed-trailing.csv.gz", data + b"and more", "gzip")
    corpus.add("packed-second-cut.csv.gz", data + data[:12], "cut off")
    corpus.add("packed-empty.csv.gz", gzip.compress(b"", mtime=0), "empty")
    corpus.add("packed-twice.csv.gz.gz", gzip.compress(data, mtime=0), "expected")
    corpus.add("packed-noise.gz", gzip.compress(bytes(range(256)) * 4, mtime=0), "expected")
    pickled = gzip.compress(broken_pickle.snapshot(), mtime=0)
    corpus.add("packed-cut.pickle.gz", pickled[:-20], "cut off")

    corpus.add("packed.csv.zst", zstd(text), "ok")
    data = zstd(text)
    for name, at in (("magic", 4), ("header", 5), ("block", 8), ("middle", 60)):
        corpus.add(f"packed-cut-{name}.csv.zst", data[:at], "cut off")
    corpus.add("packed-unfinished.csv.zst", zstd(text, last=False), "cut off")
    corpus.add("packed-block-type.csv.zst", data[:6] + b"\x07" + data[7:], "zstd", "damaged")
    corpus.add("packed-window.csv.zst", zstd(text, window=0xF8), "zstd")
    corpus.add("packed-trailing.csv.zst", data + b"and more", "zstd")
    corpus.add("packed-empty.csv.zst", zstd(b""), "empty")
    corpus.add("packed-skippable.zst", b"\x50\x2a\x4d\x18\x04\x00\x00\x00abcd", "empty")
    corpus.add("empty.csv", b"", "empty")
    corpus.add("empty.pickle", b"", "empty")
