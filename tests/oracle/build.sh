#!/bin/bash
# build.sh WHEEL_DIR OUT_DIR [CUDA_INC]
# Builds the fakes, ptdriver and rate for an unpacked wheel of PyTorch. WHEEL_DIR holds
# torch/version.py, torch/lib/libc10.so, torch/lib/libc10_cuda.so and torch/include; CUDA_INC are the headers of
# the CUDA release that the wheel asks for (default: those beside nvcc).
set -e
wheel=${1:?usage: build.sh WHEEL_DIR OUT_DIR [CUDA_INC]}; out=${2:?OUT_DIR}
here=$(cd "$(dirname "$0")" && pwd)
torch=$(cd "$wheel/torch" && pwd)
lib=$torch/lib/libc10_cuda.so
major=$(readelf -d "$lib" | sed -n 's/.*libcudart\.so\.\([0-9]*\).*/\1/p')
# Wheels up to about 2.6 were built with the old ABI of std::string.
abi=1
nm -D --undefined-only "$lib" | grep -q '__cxx1112basic_string\|cxx11' || abi=0
version=$(sed -n "s/^__version__ = '\([0-9]*\.[0-9]*\)\..*/\1/p" "$torch/version.py")
set -- ${3:+CUDA_INC=$3}
make -s -C "$here" OUT="$(mkdir -p "$out" && cd "$out" && pwd)" TORCH="$torch" \
  CUDA_MAJOR="$major" VERSION="$version" ABI="-D_GLIBCXX_USE_CXX11_ABI=$abi" "$@" all driver
