#!/bin/sh
# run.sh LIBRARIES PYTHON ARGUMENT...
# Runs a Python whose torch is a CUDA build on the fake libraries of a folder (make torch).
libraries=$(cd "${1:?usage: run.sh LIBRARIES PYTHON ARGUMENT...}" && pwd) || exit 2
shift
LD_PRELOAD=$libraries/libfakecuda_core.so:$libraries/libcuda.so.1
LD_PRELOAD=$LD_PRELOAD:$(echo "$libraries"/libcudart.so.*)
LD_PRELOAD=$LD_PRELOAD:$libraries/libfakeblas.so:$libraries/libfakecudnn.so:$libraries/libnvidia-ml.so.1
export LD_PRELOAD
exec "$@"
