"""Well-formed pickles that are no possible memory snapshot of PyTorch."""
import copy
import pickle

SEGMENT = 0x7F0000000000
SIZE = 20971520
FIRST, FIRST_TAKEN = 2000000, 2000384
SECOND, SECOND_TAKEN = 3000000, 3000320


def event(action, addr, size, time, **more):
    frames = [{"name": "main", "filename": "train.py", "line": 12}]
    return {"action": action, "addr": addr, "size": size, "stream": 0, "time_us": 1000 + time,
            "frames": frames, **more}


def block(addr, size, requested, state):
    return {"address": addr, "size": size, "requested_size": requested, "state": state,
            "frames": []}


def good():
    """Two allocations from one segment; the second is freed again."""
    second = SEGMENT + FIRST_TAKEN
    return {
        "segments": [{
            "device": 0, "address": SEGMENT, "total_size": SIZE, "allocated_size": FIRST_TAKEN,
            "active_size": FIRST_TAKEN, "requested_size": FIRST, "stream": 0,
            "segment_type": "large", "segment_pool_id": (0, 0), "is_expandable": False,
            "frames": [],
            "blocks": [block(SEGMENT, FIRST_TAKEN, FIRST, "active_allocated"),
                       block(second, SIZE - FIRST_TAKEN, 0, "inactive")]}],
        "device_traces": [[
            event("segment_alloc", SEGMENT, SIZE, 0),
            event("alloc", SEGMENT, FIRST, 1),
            event("alloc", second, SECOND, 2),
            event("free_requested", second, SECOND, 3),
            event("free_completed", second, SECOND, 4)]],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1,
            "garbage_collection_threshold": 0.0, "expandable_segments": False},
        "external_annotations": [],
    }


# name, a statement that breaks s (segment g, its blocks b, the events e), what must be said
FILES = [
    ("no-segments", "del s['segments']", "segments"),
    ("no-traces", "del s['device_traces']", "device_traces"),
    ("segments-text", "s['segments'] = 'none'", "segments"),
    ("segments-dict", "s['segments'] = {'0': g}", "segments"),
    ("segments-numbers", "s['segments'] = [1, 2]", "expected"),
    ("traces-none", "s['device_traces'] = None", "device_traces"),
    ("traces-flat", "s['device_traces'] = e", "expected"),
    ("traces-numbers", "s['device_traces'] = [[1, 2, 3]]", "expected"),
    ("traces-text", "s['device_traces'] = ['alloc']", "expected"),
    ("traces-dict", "s['device_traces'] = {'0': e}", "device_traces"),
    ("not-recorded", "s['device_traces'] = [[]]", "history"),
    ("settings-text", "s['allocator_settings'] = 'none'", "allocator_settings"),
    ("action-unknown", "e[1]['action'] = 'realloc'", "realloc"),
    ("action-number", "e[1]['action'] = 7", "action"),
    ("action-missing", "del e[1]['action']", "action"),
    ("addr-missing", "del e[1]['addr']", "addr"),
    ("addr-text", "e[1]['addr'] = '0x7f0000000000'", "addr", "0x7f0000000000"),
    ("addr-negative", "e[1]['addr'] = -4096", "addr", "-4096"),
    ("addr-none", "e[1]['addr'] = None", "addr"),
    ("addr-float", "e[1]['addr'] = 1.5e14", "addr"),
    ("addr-huge", "e[1]['addr'] = 1 << 64", "64 bits"),
    ("addr-enormous", "e[1]['addr'] = 1 << 4000", "expected"),
    ("size-missing", "del e[1]['size']", "size"),
    ("size-text", "e[1]['size'] = '2000000'", "size"),
    ("size-negative", "e[1]['size'] = -2000000", "size", "-2000000"),
    ("size-float", "e[1]['size'] = 2000000.0", "size"),
    ("size-list", "e[1]['size'] = [2000000]", "size"),
    ("size-bool", "e[1]['size'] = True", "size"),
    ("size-huge", "e[1]['size'] = (1 << 64) - 1", "expected"),
    ("size-overflow", "e[0]['size'] = (1 << 63) + SIZE", "9223372036875747328"),
    ("stream-text", "e[1]['stream'] = 'default'", "stream"),
    ("stream-negative", "e[1]['stream'] = -1", "stream", "-1"),
    ("time-text", "e[1]['time_us'] = 'noon'", "time_us"),
    ("time-negative", "e[1]['time_us'] = -5", "time_us"),
    ("frames-number", "e[1]['frames'] = 5", "frames"),
    ("frames-numbers", "e[1]['frames'] = [5]", "frame"),
    ("frame-line", "e[1]['frames'][0]['line'] = 'twelve'", "line"),
    ("frame-name", "e[1]['frames'][0]['name'] = 12", "name"),
    ("alloc-outside", "e[1]['addr'] = 4096", "segment"),
    ("alloc-across", "e[2]['size'] = SIZE", "segment"),
    ("alloc-live", "e[2]['addr'] = SEGMENT", "live"),
    ("alloc-overlap", "e[2]['addr'] = SEGMENT + 512", "block at 0x7f00001e8600"),
    ("free-unknown", "e[3]['addr'] = e[4]['addr'] = 4096", "free"),
    ("free-twice", "e += e[3:5]", "free"),
    ("free-size", "e[3]['size'] = e[4]['size'] = 77", "77"),
    ("free-unfinished", "del e[4]", "leave 2 blocks"),
    ("free-unasked", "del e[3]", "event 3", "not requested"),
    ("free-of-live", "del e[3:5]; e.append(event('free_completed', SEGMENT, FIRST, 5))",
     "event 3", "not requested"),
    ("segment-twice", "e.insert(1, e[0])", "segment"),
    ("segment-late", "e.append(e.pop(0))", "segment"),
    ("segment-free-inside", "e.append(event('segment_free', SEGMENT + 4096, 2097152, 9))",
     "segment"),
    ("segment-free-live",
     "e.append(event('segment_free', SEGMENT, SIZE, 9)); s['segments'] = []", "segment"),
    ("segment-size", "e[0]['size'] = 2097152", "segment"),
    ("segment-zero", "g['total_size'] = 0", "expected"),
    ("segment-negative", "g['total_size'] = -1", "total_size"),
    ("segment-overflow", "g['address'] = (1 << 64) - 4096", "expected"),
    ("segment-no-address", "del g['address']", "address"),
    ("segment-no-blocks", "del g['blocks']", "blocks"),
    ("segment-type", "g['segment_type'] = 'medium'", "medium"),
    ("segment-device", "g['device'] = -3", "device"),
    ("segment-device-huge", "g['device'] = 1 << 40", "device"),
    ("segment-device-text", "g['device'] = 'cuda:0'", "device"),
    ("segment-overlap", "s['segments'].append(dict(g, address=SEGMENT + 2097152))",
     "segment at 0x7f0000200000"),
    ("segment-again", "s['segments'].append(dict(g))", "segment at 0x7f0000000000"),
    ("segment-pool", "g['segment_pool_id'] = 'main'", "segment_pool_id"),
    ("segment-pool-short", "g['segment_pool_id'] = (0,)", "segment_pool_id"),
    ("segment-stream", "g['stream'] = -4", "stream"),
    ("blocks-text", "g['blocks'] = 'none'", "blocks"),
    ("blocks-numbers", "g['blocks'] = [1]", "block"),
    ("blocks-empty", "g['blocks'] = []", "block"),
    ("blocks-unsorted", "b.reverse()", "block"),
    ("blocks-gap", "b[1]['address'] += 512; b[1]['size'] -= 512", "block"),
    ("blocks-short", "b[1]['size'] -= 512", "block"),
    ("blocks-long", "b[1]['size'] += 512", "block"),
    ("blocks-overlap", "b[0]['size'] += 512", "block"),
    ("blocks-twice", "b[1]['address'] = SEGMENT", "block"),
    ("block-state", "b[0]['state'] = 'zombie'", "zombie"),
    ("block-no-state", "del b[0]['state']", "state"),
    ("block-no-size", "del b[0]['size']", "size"),
    ("block-size-zero", "b[0]['size'] = 0", "block"),
    ("block-size-negative", "b[0]['size'] = -512", "size"),
    ("block-size-huge", "b[0]['size'] = 1 << 63", "block"),
    ("block-live-unknown", "b[1]['state'] = 'active_allocated'; b[1]['requested_size'] = 5",
     "block at 0x7f00001e8600"),
    ("block-live-gone", "b[0]['state'] = 'inactive'", "leave 1 block"),
    ("key-list", "s = {('segments',): [g], 'device_traces': [e]}", "segments"),
    ("mapped-not-expandable", "e.append(event('segment_map', SEGMENT + SIZE, 2097152, 9))",
     "event 5", "mapped"),
]


def make(corpus):
    corpus.add("snapshot.pickle", pickle.dumps(good(), protocol=4), "ok")
    for protocol in (0, 1, 2, 3, 5):
        corpus.add(f"snapshot-protocol-{protocol}.pickle",
                   pickle.dumps(good(), protocol=protocol), "ok")
    for name, statement, *parts in FILES:
        s = copy.deepcopy(good())
        g = s["segments"][0]
        scope = dict(globals(), s=s, g=g, b=g["blocks"], e=s["device_traces"][0])
        exec(statement, scope)
        corpus.add(f"snapshot-{name}.pickle", pickle.dumps(scope["s"], protocol=4), *parts)
