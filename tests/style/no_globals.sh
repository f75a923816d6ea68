#!/bin/sh
# No state outside of arguments: no_globals.sh ROOT LIBRARY...  Nothing in the libraries may be
# writable.  What they export begins with mr_, or as the name of its file does (c10_tree.c:
# c10_); a strategy or a reader of recordings, being a line of a .def file, exports its
# descriptor alone.
root=$1
shift
failures=$(mktemp) || exit 2
trap 'rm -f "$failures"' EXIT

descriptors=" $(sed -n 's/^STRATEGY([a-z]*, *\([a-z0-9_]*\)).*/mr_strategy_\1/p' \
                    "$root/strategies/strategies.def" | tr '\n' ' ')
 $(sed -n 's/^FORMAT(\([a-z0-9_]*\)).*/mr_format_\1/p' \
       "$root/traces/formats/formats.def" | tr '\n' ' ') "

for library in "$@"; do
    case $library in
    *_strategies.a) kind=mr_strategy_ ;;
    *_formats.a) kind=mr_format_ ;;
    *) kind= ;;
    esac
    # name|value|class|type|size|line|section, below a line "Symbols from library[file.c.o]:"
    nm --format=sysv "$library" | awk -F '|' -v library="${library##*/}" -v kind="$kind" \
        -v descriptors="$(echo $descriptors)" '
        function complain(text) { print library ": " object ".c: " text }
        BEGIN { descriptors = " " descriptors " " }
        /^Symbols from / {
            object = $0
            sub(/^.*\[/, "", object)
            sub(/\.c\.o.*$/, "", object)
            part = object
            sub(/_.*/, "_", part)
            only = kind != "" && index(descriptors, " " kind object " ")
            objects++
            next
        }
        NF < 7 { next }
        { gsub(/ /, "") }
        # Tables of pointers are written once by the loader and are read-only from then on.
        $7 ~ /^(\.data|\.bss|\.tdata|\.tbss|\*COM\*)/ && $7 !~ /^\.data\.rel\.ro/ {
            complain($1 " is writable (in " $7 "), expected a constant or an argument")
        }
        $3 ~ /^[TDRBVWC]$/ {
            if (only && $1 != kind object)
                complain($1 " is exported, expected only " kind object)
            if (!only && index($1, "mr_") != 1 && index($1, part) != 1)
                complain($1 " is exported, expected a name that begins with mr_")
        }
        END { if (!objects) print library ": holds no object, so nothing was looked at" }' \
        | tee -a "$failures"
done
[ "$#" -gt 0 ] && [ ! -s "$failures" ]
