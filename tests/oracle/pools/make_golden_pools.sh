#!/bin/bash
# make_golden_pools.sh
# Writes golden/ anew from the real pools that the environment names (live_pools.sh says how).
set -e
here=$(cd "$(dirname "$0")" && pwd); export PYTHONPATH=$here PYTHONDONTWRITEBYTECODE=1
golden() { # NAME SPEC CAPACITY SEED STREAMS LEAST DRIVER...
  local ops=$here/golden/$1.ops out=$here/golden/$1.out
  python3 "$here/pool_script.py" "$2" "$3" "$4" 250 "$5" "$6" > "$ops"
  "${@:7}" "$ops" > "$out" 2> /dev/null
}
cupy=("$POOLS_CUPY" "$here/cupy_driver.py")
golden cupy cupy 268435456 901 3 18 "${cupy[@]}"
golden cupy-limit cupy:limit=200000000 268435456 902 2 18 "${cupy[@]}"
golden rmm-pool rmm_pool 100000000 911 3 8 "$POOLS_RMM"
golden rmm-pool-maximum rmm_pool:initial_pool_size=256,maximum_pool_size=50000128 \
  100000000 912 2 8 "$POOLS_RMM"
golden rmm-arena rmm_arena 100000000 913 3 8 "$POOLS_RMM"
golden rmm-arena-small rmm_arena:arena_size=4194304 100000000 914 2 8 "$POOLS_RMM"
rmm_bins=rmm_binning:min_size_exponent=8,max_size_exponent=14
golden rmm-binning $rmm_bins,percent_of_free_device_memory=10 100000000 915 3 8 "$POOLS_RMM"
golden rmm-binning-cuda rmm_binning:min_size_exponent=10,max_size_exponent=13,upstream=cuda \
  100000000 916 3 8 "$POOLS_RMM"
golden bfc bfc 268435456 921 1 8 "$POOLS_TF"
golden bfc-collect bfc:garbage_collection=True 80000000 922 1 8 "$POOLS_TF"
golden bfc-prealloc bfc:prealloc=0.75 268435456 923 1 8 "$POOLS_TF"
golden bfc-fragmentation bfc:per_process_gpu_memory_fraction=0.5,fragmentation_fraction=0.001 \
  100000000 924 1 8 "$POOLS_TF"
ort=(env "LD_PRELOAD=$POOLS_ORT_SHIM" "$POOLS_ORT" "$here/ort_driver.py")
golden ort ort 268435456 931 1 8 "${ort[@]}"
golden ort-same ort:arena_extend_strategy=kSameAsRequested 268435456 932 1 8 "${ort[@]}"
golden ort-limit ort:gpu_mem_limit=134217728 268435456 933 1 8 "${ort[@]}"
golden ort-dead ort:max_dead_bytes_per_chunk=65536,initial_growth_chunk_size_bytes=262144 \
  268435456 934 1 8 "${ort[@]}"
