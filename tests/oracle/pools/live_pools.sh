#!/bin/bash
# live_pools.sh POOLS_RUN [FIRST LAST]
# Fresh random scripts against the real pools that the environment names; see README.md:
#   POOLS_CUPY      a Python that has CuPy
#   POOLS_RMM       rmm_driver                       POOLS_TF        tf_driver
#   POOLS_ORT       a Python that has ONNX Runtime   POOLS_ORT_SHIM  ort_shim.so
# Ends with 77 when none is named.
[ $# -ge 1 ] || { sed -n '2,7s/^# //p' "$0" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
run=$1; first=${2:-1}; last=${3:-5}
none=77; bad=0
compare() { # SPEC CAPACITY STREAMS LEAST DRIVER...
  local spec=$1 capacity=$2 streams=$3 least=$4; shift 4
  none=0
  "$here/compare_pools.sh" "$run" "$spec" "$capacity" "$first" "$last" 400 "$streams" "$least" \
    "$@" || bad=1
}
if [ -n "$POOLS_CUPY" ]; then
  for spec in cupy cupy:limit=200000000; do
    compare $spec 268435456 3 20 "$POOLS_CUPY" "$here/cupy_driver.py"
  done
fi
if [ -n "$POOLS_RMM" ]; then
  for spec in rmm_pool rmm_pool:percent_of_free_device_memory=30 \
      rmm_pool:initial_pool_size=256,maximum_pool_size=90000128 \
      rmm_arena rmm_arena:arena_size=4194304 \
      rmm_binning:min_size_exponent=8,max_size_exponent=14,percent_of_free_device_memory=10 \
      rmm_binning:min_size_exponent=10,max_size_exponent=13,upstream=cuda; do
    compare $spec 100000000 3 8 "$POOLS_RMM"
  done
fi
if [ -n "$POOLS_TF" ]; then
  for spec in bfc bfc:garbage_collection=True bfc:prealloc=0.75 bfc:allow_growth=False \
      bfc:per_process_gpu_memory_fraction=0.5,fragmentation_fraction=0.001; do
    compare $spec 268435456 1 8 "$POOLS_TF"
  done
fi
if [ -n "$POOLS_ORT" ] && [ -n "$POOLS_ORT_SHIM" ]; then
  for spec in ort ort:arena_extend_strategy=kSameAsRequested ort:gpu_mem_limit=134217728 \
      ort:max_dead_bytes_per_chunk=65536,initial_growth_chunk_size_bytes=262144 \
      ort:initial_chunk_size_bytes=67108864; do
    compare $spec 268435456 1 8 env LD_PRELOAD="$POOLS_ORT_SHIM" "$POOLS_ORT" \
      "$here/ort_driver.py"
  done
fi
[ $none = 0 ] || echo "no real pool is named: POOLS_CUPY, POOLS_RMM, POOLS_TF, POOLS_ORT"
[ $bad = 0 ] || exit 1
exit $none
