"""cupy_driver -- plays a script (pool_script.py) to the memory pool of an installed CuPy.

    cupy_driver.py SCRIPT

Needs no GPU: the few functions of the CUDA runtime that the pool calls are replaced by ones
that answer for the script's device.  CuPy's modules look them up in each other by name, as
capsules.
"""
import ctypes
import sys

import cupy_backends.cuda.api.runtime as runtime
from pool_script import Device, Script

api = ctypes.pythonapi
api.PyCapsule_GetName.restype = ctypes.c_char_p
api.PyCapsule_GetName.argtypes = [ctypes.py_object]
api.PyCapsule_SetPointer.argtypes = [ctypes.py_object, ctypes.c_void_p]

script = Script(sys.argv[1])
device = Device(script.capacity)
kept = []


def replace(name, result, arguments, function):
    stand_in = ctypes.CFUNCTYPE(result, *arguments)(function)
    kept.append(stand_in)
    api.PyCapsule_SetPointer(runtime.__pyx_capi__[name], ctypes.cast(stand_in, ctypes.c_void_p))


integer, address = ctypes.c_int, ctypes.c_ssize_t
replace("getDevice", integer, [integer], lambda skip: 0)
replace("getDeviceCount", integer, [integer], lambda skip: 1)
replace("memGetInfo", ctypes.py_object, [integer], lambda skip: (device.room, script.capacity))
replace("deviceSynchronize", ctypes.py_object, [integer], lambda skip: None)
replace("streamSynchronize", ctypes.py_object, [address, integer], lambda stream, skip: None)
replace("_ensure_context", ctypes.py_object, [], lambda: None)

import cupy  # noqa: E402  only now, with the functions replaced


def malloc(size, number):
    place = device.malloc(size)
    if not place:
        raise runtime.CUDARuntimeError(2)  # cudaErrorMemoryAllocation
    return place


allocator = cupy.cuda.PythonFunctionAllocator(malloc, lambda place, number: device.free(place))
pool = cupy.cuda.MemoryPool(allocator.malloc)
pool.set_limit(size=int(script.options.get("limit", 0)))
live = {}
for event in script.events:
    if event[0] == "a":
        _, i, size, stream = event
        try:
            with cupy.cuda.ExternalStream(4096 * stream):
                live[i] = pool.malloc(size)
            print(i, device.place(live[i].ptr))
        except cupy.cuda.memory.OutOfMemoryError:
            print(i, "refused")
    elif event[0] == "f":
        live.pop(event[1], None)
    else:
        pool.free_all_blocks()
sys.stdout.flush()
