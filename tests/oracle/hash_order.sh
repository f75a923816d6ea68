#!/bin/bash
# hash_order.sh FILE
# Prints an output without what the order of hash tables inside the allocator decides:
#   - the order of frees, segment frees and unmappings that follow each other in the trace
#     (pending frees of several streams, put-off frees, private pools that are given back);
#   - peak and sums of inactive_split (its current value stays);
#   - the requested size of free blocks, which is left over from the block freed last.
sed -E 's/^(stat inactive_split.* current=[0-9]+).*/\1/;s/requested=[0-9]+ inactive/inactive/' "$1" |
awk '
  /^trace (free_completed|segment_free|segment_unmap)/ { line[n++] = $0; next }
  { flush(); print }
  END { flush() }
  function flush(   i, j, t) {
    for (i = 1; i < n; i++) {
      t = line[i]
      for (j = i - 1; j >= 0 && line[j] > t; j--) line[j + 1] = line[j]
      line[j + 1] = t
    }
    for (i = 0; i < n; i++) print line[i]
    n = 0
  }'
