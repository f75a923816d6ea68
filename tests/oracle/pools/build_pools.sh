#!/bin/bash
# build_pools.sh OUT [RMM] [TENSORFLOW]
# Builds the drivers of real pools into OUT.  RMM is a folder that holds the unpacked wheels of
# librmm and rapids_logger (folders librmm/ and rapids_logger/), TENSORFLOW one with that of
# tensorflow (folder tensorflow/); "" leaves a driver out.  CUDA_INC: headers of the CUDA
# toolkit.
set -e
out=${1:?usage: build_pools.sh OUT [RMM] [TENSORFLOW]}; rmm=$2; tf=$3
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$out"
gcc -O2 -shared -fPIC -o "$out/ort_shim.so" "$here/ort_shim.c" -ldl
if [ -n "$rmm" ]; then
  rmm=$(cd "$rmm" && pwd)
  g++ -std=c++17 -O1 -DLIBCUDACXX_ENABLE_EXPERIMENTAL_MEMORY_RESOURCE \
    -isystem "$rmm/librmm/include" -isystem "$rmm/librmm/include/rapids" \
    -isystem "$rmm/rapids_logger/include" \
    -isystem "${CUDA_INC:-$(dirname "$(dirname "$(realpath "$(command -v nvcc)")")")/include}" \
    -o "$out/rmm_driver" "$here/rmm_driver.cpp" -L"$rmm/librmm/lib64" -lrmm \
    -L"$rmm/rapids_logger/lib64" -lrapids_logger \
    -Wl,-rpath,"$rmm/librmm/lib64",-rpath,"$rmm/rapids_logger/lib64" -lpthread
fi
if [ -n "$tf" ]; then
  tf=$(cd "$tf" && pwd)/tensorflow
  g++ -std=c++17 -O1 -isystem "$tf/include" -o "$out/tf_driver" "$here/tf_driver.cpp" \
    "$tf/libtensorflow_framework.so.2" -Wl,-rpath,"$tf"
fi
