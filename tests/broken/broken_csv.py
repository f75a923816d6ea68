"""Broken files in memreuse's own format."""

ALLOCATIONS = """memreuse,1
about,framework,pytorch
stream,7
frame,1,train.py,12,main
stack,1,1
storage,1,4096,before,after
alloc,2,1024,stream=7,stack=1,t=0
free,2,t=10
alloc,3,2048,after,t=20
"""

OPERATORS = """memreuse,1
has,dataflow,phases
storage,1,4096,role=parameter,before,after
tensor,1,1,name=w,dtype=float32,shape=32x32
storage,2,1024
tensor,2,2,dtype=float32,shape=16x16
op,1,aten::mm,forward,ns=10,in=1,out=2,saved=1:input
op,2,aten::sum,backward,in=2
drop,2
"""

HISTORY = """memreuse,1
storage,1,512,before,after
storage,2,1024
history,0,low=2097152
segment,0,1048576,2097152,held
start,0,0,512,storage=1
start,0,512,2096640
bind,2,0,512,1024
unbind,2,0,512,1024
end,0,0,512,storage=1
alloc,2
free,2
"""

# name, what of ALLOCATIONS is replaced, by what, what must be said
ALLOCATION_FILES = [
    ("version", "memreuse,1", "memreuse,2", ":1:10:", "version '2'", "expected 1"),
    ("version-missing", "memreuse,1", "memreuse,", ":1:", "version ''"),
    ("version-text", "memreuse,1", "memreuse,one", ":1:10:", "'one'"),
    ("row-unknown", "free,2,t=10", "release_all,2", ":8:1:", "'release_all'"),
    ("row-unknown-newline", "free,2,t=10", '"free\n2",2', ":8:1:", "unknown kind of row"),
    ("row-unknown-escape", "free,2,t=10", "\x1b[31mfree,2", ":8:1:", "unknown kind of row"),
    ("row-case", "free,2", "Free,2", ":8:1:", "'Free'"),
    ("column-unknown", "stack=1,t=0", "colour=red,t=0", ":7:23:", "colour=red"),
    ("column-long", "stack=1,t=0", "stack_of_who_asked_for_it_in_the_first_place=1", ":7:"),
    ("column-empty", "stack=1,t=0", ",t=0", ":7:23:", "''"),
    ("column-twice", "stack=1,t=0", "stack=1,stack=1", ":7:31:", "twice"),
    ("flag-with-value", "2048,after", "2048,after=yes", ":9:14:", "after=yes"),
    ("value-missing", "stack=1", "stack", ":7:23:", "stack"),
    ("row-short", "storage,1,4096,before,after", "storage,1", ":6:1:", "storage,id,bytes"),
    ("row-long", "free,2,t=10", "free" + ",2" * 100, ":8:", "fields"),
    ("bytes-negative", "alloc,3,2048", "alloc,3,-2048", ":9:9:", "-2048"),
    ("bytes-huge", "alloc,3,2048", "alloc,3,18446744073709551616", ":9:9:",
     "18446744073709551616"),
    ("bytes-digits", "alloc,3,2048", "alloc,3," + "9" * 400, ":9:9:", "999"),
    ("bytes-float", "storage,1,4096", "storage,1,4096.0", ":6:11:", "4096.0"),
    ("bytes-exponent", "storage,1,4096", "storage,1,4e3", ":6:11:", "4e3"),
    ("bytes-hex", "storage,1,4096", "storage,1,0x1000", ":6:11:", "0x1000"),
    ("bytes-unit", "storage,1,4096", "storage,1,4KiB", ":6:11:", "4KiB"),
    ("bytes-empty", "storage,1,4096", "storage,1,", ":6:11:", "''"),
    ("bytes-space", "storage,1,4096", "storage,1, 4096", ":6:11:", "' 4096'"),
    ("bytes-plus", "storage,1,4096", "storage,1,+4096", ":6:11:", "+4096"),
    ("id-text", "alloc,3,2048", "alloc,three,2048", ":9:7:", "three"),
    ("id-twice", "alloc,3,2048", "alloc,1,2048", ":9:7:", "storage 1", "twice"),
    ("stream-unknown", "stream=7", "stream=8", ":7:", "stream 8"),
    ("stream-negative", "stream=7", "stream=-7", ":7:", "-7"),
    ("stream-order", "stream,7", "stream,7\nstream,3", ":4:8:", "3", "7"),
    ("stack-forward", "stack=1", "stack=2", ":7:", "stack 2"),
    ("frame-forward", "stack,1,1", "stack,1,1 2", ":5:9:", "frame 2"),
    ("frame-line", "train.py,12", "train.py,99999999999", ":4:", "99999999999"),
    ("device-huge", "2048,after", "2048,device=65536,after", ":9:", "65536"),
    ("role-unknown", "2048,after", "2048,role=weight,after", ":9:", "weight"),
    ("free-unknown", "free,2,t=10", "free,9,t=10", ":8:6:", "storage 9"),
    ("free-before-alloc", "alloc,2,1024,stream=7,stack=1,t=0\nfree,2,t=10",
     "free,2,t=0\nalloc,2,1024,t=10", ":7:6:", "storage 2"),
    ("free-twice", "free,2,t=10", "free,2,t=10\nfree,2,t=11", "storage", "free"),
    ("free-none", "free,2,t=10", "free,none,t=10", "free"),
    ("alloc-twice", "free,2,t=10", "alloc,2,t=10", "alloc", "storage"),
    ("alloc-live-before", "alloc,3,2048,after,t=20", "alloc,1,t=20", "alloc", "storage"),
    ("done-without-free", "free,2,t=10", "done,2,t=10", "storage"),
    ("after-but-freed", "alloc,2,1024", "alloc,2,1024,after", "storage", "live"),
    ("never-freed", "free,2,t=10\n", "", "storage", "free"),
    ("time-missing", "free,2,t=10", "free,2", ":8:", "t="),
    ("time-negative", "free,2,t=10", "free,2,t=-10", ":8:", "-10"),
    ("time-text", "free,2,t=10", "free,2,t=soon", ":8:", "soon"),
    ("live-overflow", "storage,1,4096,before,after\n",
     "storage,1,18446744073709551615,before,after\n", "storage", "18446744073709551615"),
    ("quote-open", "train.py,12,main", '"train.py,12,main', ":4:9:", "quote"),
    ("quote-middle", "train.py,12,main", 'tra"in".py,12,main', ":4:", "quote"),
    ("quote-after", "train.py,12,main", '"train".py,12,main', ":4:", "quote"),
    ("nul", "train.py", "train\0.py", ":4:14:", "NUL"),
    ("about-unknown", "framework", "flavour", ":2:7:", "flavour"),
    ("about-twice", "stream,7", "about,framework,jax\nstream,7", ":3:7:", "twice"),
    ("about-short", "about,framework,pytorch", "about,framework", ":2:", "about"),
    ("has-unknown", "stream,7", "has,magic\nstream,7", ":3:5:", "magic"),
    ("refused-deferred", "alloc,3,2048,after", "alloc,3,2048,refused,deferred", "storage 2",
     "refused"),
    ("has-twice", "stream,7", "has,history\nhas,history\nstream,7", ":4:", "twice"),
    ("header-again", "stream,7", "memreuse,1\nstream,7", ":3:1:", "memreuse"),
    ("semicolons", "alloc,2,1024,stream=7,stack=1,t=0", "alloc;2;1024;stream=7", ":7:1:"),
    ("tabs", "alloc,3,2048", "alloc\t3\t2048", ":9:1:"),
]

OPERATOR_FILES = [
    ("storage-forward", "tensor,1,1", "tensor,1,2", ":4:10:", "storage 2"),
    ("storage-none", "tensor,1,1", "tensor,1,none", ":4:10:", "none"),
    ("tensor-forward", "in=1,out=2", "in=1,out=3", ":7:", "tensor 3"),
    ("tensor-twice", "tensor,2,2", "tensor,1,2", ":6:8:", "tensor 1", "twice"),
    ("tensor-outside", "name=w", "name=w,offset=4000,bytes=97", "tensor", "4096"),
    ("tensor-offset", "name=w", "name=w,offset=5000", ":4:", "5000"),
    ("tensor-overflow", "name=w", "name=w,offset=4096,bytes=18446744073709551615", "tensor"),
    ("shape-text", "shape=32x32", "shape=32xn", ":4:", "32xn"),
    ("shape-negative", "shape=32x32", "shape=-1x32", ":4:", "-1x32"),
    ("shape-gap", "shape=32x32", "shape=32xx32", ":4:", "32xx32"),
    ("phase-unknown", "aten::mm,forward", "aten::mm,sideways", ":7:15:", "sideways"),
    ("op-twice", "op,2", "op,1", ":8:4:", "op 1", "twice"),
    ("op-short", "op,2,aten::sum,backward,in=2", "op,2,aten::sum", ":8:1:", "op,id,name,phase"),
    ("in-text", "in=2", "in=two", ":8:", "two"),
    ("in-comma", "in=2", '"in=1,2"', ":8:", "1,2"),
    ("in-two-spaces", "in=2", "in=1  2", ":8:"),
    ("saved-word", "saved=1:input", "saved=1:gradient", ":7:", "gradient"),
    ("saved-no-word", "saved=1:input", "saved=1", ":7:", "saved"),
    ("saved-unknown", "saved=1:input", "saved=7:input", ":7:", "tensor 7"),
    ("again-itself", "backward,in=2", "backward,again=2,in=2", ":8:", "op 2"),
    ("unwritten", "in=1,out=2", "in=2", "tensor"),
    ("drop-twice", "drop,2", "drop,2\ndrop,2", "drop"),
    ("drop-unknown", "drop,2", "drop,5", ":9:6:", "tensor 5"),
    ("run-unknown", "drop,2", "run,5", ":9:5:", "op 5"),
    ("mark-unknown", "drop,2", "mark,epoch,1", ":9:6:", "epoch"),
    ("flush-text", "drop,2", "flush,gpu", ":9:7:", "gpu"),
    ("ns-negative", "ns=10", "ns=-10", ":7:", "-10"),
    ("call-huge", "ns=10", "call=4294967296", ":7:", "4294967296"),
]

HISTORY_FILES = [
    ("outside", "history,0,low=2097152\n", "", ":4:1:", "history"),
    ("twice", "history,0,low=2097152", "history,0\nhistory,0,low=2097152", "device 0"),
    ("overlap", "start,0,512,2096640", "start,0,0,2096640", "piece 1", "overlap"),
    ("descending", "start,0,0,512,storage=1\nstart,0,512,2096640",
     "start,0,512,2096640\nstart,0,0,512,storage=1", "piece 1", "ascending"),
    ("pending", "start,0,0,512,storage=1", "start,0,0,512,storage=1,pending", "piece 0",
     "deferred"),
    ("not-tiled", "start,0,512,2096640", "start,0,512,2096128", "segment 0", "2097152"),
    ("piece-outside", "start,0,512,2096640", "start,0,512,2097152", "piece 1"),
    ("piece-empty", "start,0,512,2096640", "start,0,512,0", "piece 1"),
    ("bind-overlap", "bind,2,0,512,1024", "bind,2,0,0,1024", "storage", "overlap"),
    ("bind-outside", "bind,2,0,512,1024", "bind,2,0,2097152,1024", "storage"),
    ("bind-unknown", "bind,2,0,512,1024", "bind,5,0,512,1024", ":8:6:", "storage 5"),
    ("bind-segment", "bind,2,0,512,1024", "bind,2,4,512,1024", ":8:8:", "segment 4"),
    ("unbind-elsewhere", "unbind,2,0,512,1024", "unbind,2,0,1024,1024", "storage"),
    ("unbind-twice", "unbind,2,0,512,1024", "unbind,2,0,512,1024\nunbind,2,0,512,1024",
     "storage"),
    ("release-in-use", "unbind,2,0,512,1024", "release,0,2097152", "segment 0"),
    ("reserve-twice", "unbind,2,0,512,1024", "reserve,0,2097152", "segment 0"),
    ("map-not-expandable", "unbind,2,0,512,1024", "map,0,0,2097152", "segment 0"),
    ("held-late", "2097152,held", "2097152\nsegment,1,4194304,2097152,held", ":6:", "held"),
    ("segment-overflow", "segment,0,1048576", "segment,0,18446744073709551615", "segment 0"),
    ("end-elsewhere", "end,0,0,512", "end,0,1024,512", "piece 0"),
    ("end-missing", "end,0,0,512,storage=1\n", "", "storages"),
    ("capacity", "low=2097152", "low=2097152,high=1024", "capacity"),
]


def make(corpus):
    for kind, text, files in (("alloc", ALLOCATIONS, ALLOCATION_FILES),
                              ("op", OPERATORS, OPERATOR_FILES),
                              ("history", HISTORY, HISTORY_FILES)):
        corpus.add(f"csv-{kind}.csv", text, "ok")
        for name, old, new, *parts in files:
            assert text.count(old) >= 1, name
            corpus.add(f"csv-{kind}-{name}.csv", text.replace(old, new, 1), *parts)
    others(corpus)


def others(corpus):
    text = ALLOCATIONS.encode()
    corpus.add("csv-header-only.csv", "memreuse,1\n", "no events")
    corpus.add("csv-header-cut.csv", "memreuse,", ":1:", "cut off")
    corpus.add("csv-no-event.csv", text[:text.index(b"alloc,2")], "no events")
    corpus.add("csv-no-header.csv", text[text.index(b"\n") + 1:], "expected")
    corpus.add("csv-bom.csv", b"\xef\xbb\xbf" + text, "ok")
    corpus.add("csv-utf16.csv", text.decode().encode("utf-16"), "UTF-16", "expected")
    corpus.add("csv-carriage-returns.csv", text.replace(b"\n", b"\r"), ":1:")
    corpus.add("csv-not-utf8.csv", text.replace(b"free,2", b"fr\xff\xfee,2"), ":8:1:")
    corpus.add("csv-cut-row.csv", text[:text.index(b"2048")], ":9:")
    corpus.add("csv-cut-quote.csv", text + b'note,"the beginning of', ":10:6:", "quote")
    corpus.add("csv-zeros.csv", text + bytes(4096), ":10:1:", "NUL")
