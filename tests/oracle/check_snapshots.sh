#!/bin/sh
# check_snapshots.sh MEMREUSE
# Every recording of snapshots/, made from what the real allocator did or by PyTorch itself, must
# be exact under "memreuse check". A limit set by a memory fraction is not in a snapshot: it is told.
here=$(cd "$(dirname "$0")" && pwd)
memreuse=${1:?usage: check_snapshots.sh MEMREUSE}
passed=0
failed=0
for file in "$here"/snapshots/*.pickle "$here"/snapshots/*.pickle.gz; do
    set -- "$file"
    case $file in
    */max-split-collection.pickle)
        set -- "$file" --capacity 180MiB \
            "pytorch:version=2.6,max_split_size_mb=21,garbage_collection_threshold=0.5,set_per_process_memory_fraction=1"
        ;;
    esac
    if said=$("$memreuse" check "$@" 2>&1); then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf '%s\n%s\n' "${file##*/}" "$said"
    fi
done
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
