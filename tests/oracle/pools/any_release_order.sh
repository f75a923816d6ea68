#!/bin/bash
# any_release_order.sh ANSWERS
# Segments that go back at one time may do so in any order: prints them by number.
awk '!/^X/ || !x { n++ } { x = /^X/; print n, $0 }' "$1" | sort -s -k1,1n -k3,3n \
  | cut -d' ' -f2-
