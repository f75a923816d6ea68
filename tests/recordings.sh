#!/bin/sh
# The allocator's prediction against what recordings say: recordings.sh MEMREUSE FILE.pickle...
# A limit by fraction, which no snapshot shows, stands in oracle/snapshots/MANIFEST and here.
# Every recording has to be exact, but for two.
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
    esac
}

failed=0
for file; do
    name=$(basename "$file" .pickle)
    case $name in
        history-not-recorded) continue ;; # there is nothing to compare with
        max-split-collection) continue ;; # its limit has to be told: oracle/check_snapshots.sh does
    esac
    # shellcheck disable=SC2046
    "$memreuse" check "$file" $(spoken "$name") >/dev/null 2>&1 && continue
    echo "differs: $name"
    failed=$((failed + 1))
done
echo "$# recordings, $failed differ"
[ "$#" -gt 0 ] && [ "$failed" = 0 ]
