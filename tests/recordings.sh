#!/bin/sh
# The allocator's prediction against what recordings say: recordings.sh MEMREUSE FILE.pickle...
# A limit by fraction, which no snapshot shows, stands in oracle/snapshots/MANIFEST and here.
# Every recording has to be exact; the one without a history has to be refused.
set -u

memreuse=$1
shift

# What is to be said besides the file.
spoken()
{
    case $1 in
        collection)
            echo pytorch:garbage_collection_threshold=0.5,version=2.8,set_per_process_memory_fraction=0.9
            echo --capacity 629145600 ;;
        divisions-streams)
            echo pytorch:roundup_power2_divisions=16,version=2.11,set_per_process_memory_fraction=0.7
            echo --capacity 1048576000 ;;
        max-split-collection) # a limit of all of 180 MiB: what its fraction leaves
            echo pytorch:max_split_size_mb=21,garbage_collection_threshold=0.5,version=2.6,set_per_process_memory_fraction=1
            echo --capacity 180MiB ;;
        late-pending)
            echo pytorch:garbage_collection_threshold=0.8,version=2.15,set_per_process_memory_fraction=0.7
            echo --capacity 4000MiB ;;
        limit)
            echo pytorch:version=2.6,set_per_process_memory_fraction=0.7
            echo --capacity 128MiB ;;
        late-limit)
            echo pytorch:expandable_segments=True,version=2.8,set_per_process_memory_fraction=0.7
            echo --capacity 600MiB ;;
    esac
}

failed=0
for file; do
    name=$(basename "${file%.gz}" .pickle)
    # shellcheck disable=SC2046
    "$memreuse" check "$file" $(spoken "$name") >/dev/null 2>&1
    exact=$?
    [ "$name" = history-not-recorded ] && exact=$((exact != 1))
    [ "$exact" = 0 ] && continue
    echo "differs: $name"
    failed=$((failed + 1))
done
echo "$# recordings, $failed differ"
[ "$#" -gt 0 ] && [ "$failed" = 0 ]
