"""Broken pickles, opcode by opcode.  Nothing here is ever unpickled by Python."""
import gzip
import io
import struct
import zipfile

PROTO = b"\x80\x04"
MARK, STOP, NONE, DICT, LIST, TUPLE = b"(", b".", b"N", b"}", b"]", b")"
APPEND, APPENDS, SETITEM, SETITEMS, MEMOIZE = b"a", b"e", b"s", b"u", b"\x94"


def text(value):
    data = value.encode() if isinstance(value, str) else value
    return b"\x8c" + bytes([len(data)]) + data


def get(index):
    return b"h" + bytes([index])


def snapshot(segments=LIST, traces=LIST + LIST + APPEND):
    """A snapshot with opcodes of one's own for its two parts."""
    return (PROTO + DICT + MARK + text("segments") + segments + text("device_traces") + traces
            + SETITEMS + STOP)


def packed(data):
    return gzip.compress(data, mtime=0)


# name, the opcodes, what must be said
REFUSED = [
    ("global", b"cos\nsystem\n" + text("true") + b"\x85R", "GLOBAL"),
    ("global-ordered-dict", b"ccollections\nOrderedDict\n" + TUPLE + b"R", "GLOBAL"),
    ("stack-global", text("os") + text("system") + b"\x93", "STACK_GLOBAL"),
    ("reduce", NONE + TUPLE + b"R", "REDUCE"),
    ("inst", MARK + b"ios\nsystem\n", "INST"),
    ("obj", MARK + NONE + b"o", "OBJ"),
    ("newobj", NONE + TUPLE + b"\x81", "NEWOBJ"),
    ("newobj-ex", NONE + TUPLE + DICT + b"\x92", "NEWOBJ_EX"),
    ("build", DICT + DICT + b"b", "BUILD"),
    ("ext1", b"\x82\x01", "EXT1"),
    ("ext2", b"\x83\x01\x00", "EXT2"),
    ("ext4", b"\x84\x01\x00\x00\x00", "EXT4"),
    ("persid", b"P1\n", "PERSID"),
    ("binpersid", NONE + b"Q", "BINPERSID"),
    ("next-buffer", b"\x97", "NEXT_BUFFER"),
    ("readonly-buffer", NONE + b"\x98", "READONLY_BUFFER"),
    ("set", b"\x8f", "EMPTY_SET"),
    ("frozenset", MARK + b"\x91", "FROZENSET"),
]

# Put where a list of segments is expected, behind the key.
WRONG = [
    ("opcode", b"\xff", "opcode"),
    ("opcode-nul", b"\x00", "opcode"),
    ("append-to-nothing", b"00" + APPEND, "nothing"),
    ("append-to-dict", DICT + NONE + APPEND, "list"),
    ("append-to-number", b"K\x01" + NONE + APPEND, "list"),
    ("appends-without-mark", LIST + NONE + b"1" + APPENDS, "MARK"),
    ("setitem-in-list", LIST + text("a") + NONE + SETITEM, "dict"),
    ("setitems-odd", DICT + MARK + text("a") + SETITEMS, "key"),
    ("dict-odd", MARK + text("a") + b"d", "key"),
    ("tuple-without-mark", b"11t", "MARK"),
    ("tuple3-short", b"000000\x87", "POP"),
    ("pop-empty", b"000000000", "POP"),
    ("memoize-nothing", b"0000" + MEMOIZE, "POP"),
    ("get-unset", get(9), "place 9", "memo"),
    ("get-huge", b"j\xff\xff\xff\xff", "4294967295", "memo"),
    ("get-negative", b"g-1\n", "'-1'"),
    ("get-text", b"gone\n", "'one'"),
    ("get-digits", b"g" + b"9" * 100 + b"\n", "999"),
    ("put-huge", LIST + b"r\xff\xff\xff\xff", "4294967295", "memo"),
    ("put-text-huge", LIST + b"p99999999999999999999\n", "99999999999999999999"),
    ("put-negative", LIST + b"p-5\n", "-5"),
    ("int-text", b"I12x\n", "12x"),
    ("int-empty", b"I\n", "''"),
    ("long-text", b"L12\n", "12"),
    ("float-text", b"Fabc\n", "abc"),
    ("string-open", b"S'abc\n", "quote"),
    ("string-escape", b"S'a\\xzz'\n", "escape"),
    ("unicode-escape", b"Va\\u12\n", "escape"),
    ("long4-negative", b"\x8b\xff\xff\xff\xff", "bytes"),
    ("long4-huge", b"\x8b\xff\xff\xff\x7f", "bytes"),
    ("unicode8-huge", b"\x8d" + struct.pack("<Q", 1 << 62), "ends here"),
    ("bytes8-huge", b"\x8e" + struct.pack("<Q", (1 << 64) - 1), "ends here"),
    ("unicode-huge", b"X\xff\xff\xff\x7f", "ends here"),
    ("unicode-not-utf8", text(b"\xff\xfe\xfd"), "list"),
    ("frame-huge", b"\x95" + struct.pack("<Q", 1 << 63) + NONE, "list"),
]


def make(corpus):
    corpus.add("pickle-no-events.pickle", snapshot(), "history")
    for name, opcodes, *parts in REFUSED:
        corpus.add(f"pickle-refused-{name}.pickle", snapshot(opcodes), ": byte ", *parts)
    for name, opcodes, *parts in WRONG:
        corpus.add(f"pickle-{name}.pickle", snapshot(opcodes), ": byte", *parts)
    ends(corpus)
    cycles(corpus)
    depths(corpus)
    not_pickles(corpus)


def ends(corpus):
    """Cut at every kind of place."""
    whole = snapshot(LIST + b"\x8a\x08" + b"\x01" * 8 + APPEND
                     + b"X\x04\x00\x00\x00abcd" + APPEND)
    places = [("proto", 2), ("dict", 3), ("key-length", whole.index(b"\x8c") + 1),
              ("key", whole.index(b"segm") + 4), ("value", whole.index(b"]")),
              ("long-length", whole.index(b"\x8a") + 1), ("long", whole.index(b"\x8a") + 5),
              ("unicode-length", whole.index(b"X") + 3), ("unicode", whole.index(b"abcd") + 2),
              ("second-key", whole.index(b"device_")), ("setitems", len(whole) - 2)]
    for name, at in places:
        corpus.add(f"pickle-cut-{name}.pickle", whole[:at], ": byte", "ends here")
    corpus.add("pickle-cut-first.pickle", whole[:1], "expected")
    corpus.add("pickle-no-stop.pickle", whole[:-1], ": byte", "ends here")
    corpus.add("pickle-cut-frame.pickle", PROTO + b"\x95\x10\x00", ": byte", "ends here")
    corpus.add("pickle-cut-line.pickle", b"(dp0\nVsegme", ": byte", "ends here")
    corpus.add("pickle-stop-only.pickle", PROTO + STOP, ": byte", "0 values")
    corpus.add("pickle-proto-6.pickle", b"\x80\x06" + snapshot()[2:], "protocol 6")
    corpus.add("pickle-proto-255.pickle", b"\x80\xff" + snapshot()[2:], "protocol 255")


def cycles(corpus):
    inside = LIST + MEMOIZE + get(0) + APPEND
    corpus.add("pickle-cycle-list.pickle", PROTO + inside + STOP, "expected")
    corpus.add("pickle-cycle-segments.pickle", snapshot(inside), "expected")
    corpus.add("pickle-cycle-traces.pickle", snapshot(LIST, inside), "expected")
    corpus.add("pickle-cycle-event.pickle",
               snapshot(LIST, LIST + LIST + DICT + MEMOIZE + text("action") + get(0) + SETITEM
                        + APPEND + APPEND), ": byte", "expected")
    corpus.add("pickle-cycle-root.pickle",
               PROTO + DICT + MEMOIZE + MARK + text("segments") + get(0) + text("device_traces")
               + get(0) + SETITEMS + STOP, "expected")
    laughs = text("ha") + MEMOIZE
    for level in range(40):  # each list holds the one before ten times: 10^40 in all
        laughs += LIST + MEMOIZE + MARK + get(level) * 10 + APPENDS
    corpus.add("pickle-laughs.pickle", snapshot(laughs),
               "expected")


def depths(corpus):
    n = 200000
    corpus.add("pickle-deep-lists.pickle.gz", packed(snapshot(LIST * n + APPEND * (n - 1))),
               "deep")
    corpus.add("pickle-deep-dicts.pickle.gz",
               packed(snapshot((DICT + NONE) * n + DICT + SETITEM * n)), "deep")
    corpus.add("pickle-deep-tuples.pickle.gz", packed(snapshot(NONE + b"\x85" * n)), "expected")
    corpus.add("pickle-deep-marks.pickle.gz", packed(snapshot(MARK * n + b"t" * n)), "deep")


def not_pickles(corpus):
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        for name, data in (("model/data.pkl", snapshot()), ("model/version", b"3\n")):
            file.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)
    corpus.add("other-torch-save.pt", archive.getvalue(), "zip archive")
    corpus.add("other-empty.zip", b"PK\x05\x06" + bytes(18), "expected")
    # torch.save before 1.6: several pickles in a row, the first a magic number.
    magic = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."
    corpus.add("other-torch-save-old.pt", magic + b"\x80\x02M\xe9\x03." + b"\x80\x02}q\x00.",
               "expected")
    corpus.add("other-number.pickle", PROTO + b"K\x05" + STOP, "expected")
    corpus.add("other-text.pickle", PROTO + text("hello") + STOP, "expected")
    corpus.add("other-none.pickle", PROTO + NONE + STOP, "expected")
    corpus.add("other-list.pickle", PROTO + LIST + STOP, "expected")
    corpus.add("other-dict.pickle", PROTO + DICT + text("state_dict") + DICT + SETITEM + STOP,
               "expected")
    corpus.add("other-snapshot.json", '{"segments": [], "device_traces": [[]]}\n', "expected")
    corpus.add("other-page.html", "<!DOCTYPE html>\n<html><body>memory</body></html>\n",
               "expected")
    corpus.add("other-prose.txt", "Dear all,\n\nthe snapshot is attached.\n", "expected")
    corpus.add("other-png.png", b"\x89PNG\r\n\x1a\n" + bytes(32), "expected")
    corpus.add("other-elf", b"\x7fELF\x02\x01\x01" + bytes(57), "expected")
    corpus.add("other-nul", b"\0", "expected")
    corpus.add("other-one-letter", b"m", "expected")
    corpus.add("other-newline", b"\n", "expected")
    corpus.add("other-noise.bin", bytes((i * i * 31 + i * 7 + 3) % 251 for i in range(2000)),
               "expected")
