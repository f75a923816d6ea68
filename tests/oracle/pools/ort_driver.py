"""ort_driver -- plays a script (pool_script.py) to the CPU arena of an installed ONNX Runtime.

    LD_PRELOAD=ort_shim.so ort_driver.py SCRIPT

An arena is reached through the outputs of a session: a model of one op makes a tensor of as
many bytes as it is told, and the value lives until it is let go.  A flush is a run that shrinks
the arena afterwards and whose output lies elsewhere.
"""
import ctypes
import os
import sys

import numpy
import onnxruntime as ort
from onnx import TensorProto, helper
from pool_script import Script

script = Script(sys.argv[1])
shim = ctypes.CDLL(os.environ["LD_PRELOAD"])
shim.shim_begin(ctypes.c_size_t(script.capacity))


def option(name, usual):
    return int(script.options.get(name, usual))


REFUSALS = "ailed to allocate", "is smaller than requested bytes"  # the device, the limit
strategies = {"kNextPowerOfTwo": 0, "kSameAsRequested": 1}
arena = ort.OrtArenaCfg({
    "max_mem": option("gpu_mem_limit", 0),
    "arena_extend_strategy": strategies[
        script.options.get("arena_extend_strategy", "kNextPowerOfTwo")],
    "initial_chunk_size_bytes": option("initial_chunk_size_bytes", -1),
    "max_dead_bytes_per_chunk": option("max_dead_bytes_per_chunk", -1),
    "initial_growth_chunk_size_bytes": option("initial_growth_chunk_size_bytes", -1),
})
memory = ort.OrtMemoryInfo(
    "Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
ort.create_and_register_allocator(memory, arena)

value = helper.make_tensor("value", TensorProto.UINT8, [1], [0])
graph = helper.make_graph(
    [helper.make_node("ConstantOfShape", ["shape"], ["out"], value=value)], "graph",
    [helper.make_tensor_value_info("shape", TensorProto.INT64, [1])],
    [helper.make_tensor_value_info("out", TensorProto.UINT8, ["n"])])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
how = ort.SessionOptions()
how.add_session_config_entry("session.use_env_allocators", "1")
how.intra_op_num_threads = how.inter_op_num_threads = 1
how.enable_mem_pattern = False
how.log_severity_level = 4
session = ort.InferenceSession(
    model.SerializeToString(), how, providers=["CPUExecutionProvider"])
shrink = ort.RunOptions()
shrink.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
shrink.log_severity_level = 4
usual = ort.RunOptions()
usual.log_severity_level = 4
elsewhere = ort.OrtValue.ortvalue_from_numpy(numpy.zeros(1, numpy.uint8))


def run(size, options, output=None):
    binding = session.io_binding()
    binding.bind_cpu_input("shape", numpy.array([size], numpy.int64))
    if output is None:
        binding.bind_output("out", "cpu")
    else:
        binding.bind_ortvalue_output("out", output)
    shim.shim_arm(1)
    try:
        session.run_with_iobinding(binding, options)
        return binding.get_outputs()[0]
    finally:
        shim.shim_arm(0)


def place(address):
    text = ctypes.create_string_buffer(64)
    shim.shim_place(ctypes.c_void_p(address), text, 64)
    return text.value.decode() or "outside"


live = {}
for event in script.events:
    if event[0] == "a":
        try:
            live[event[1]] = run(event[2], usual)
            print(event[1], place(live[event[1]].data_ptr()), flush=True)
        except Exception as refusal:
            if not any(text in str(refusal) for text in REFUSALS):
                raise
            print(event[1], "refused", flush=True)
    elif event[0] == "f":
        live.pop(event[1], None)
    else:
        run(1, shrink, elsewhere)
os._exit(0)  # what goes back now is of no interest
