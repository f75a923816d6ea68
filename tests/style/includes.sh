#!/bin/sh
# Who may include whom: includes.sh ROOT.  A header includes only headers to its left in this
# line, which is also the order to read them in.  A source file counts as the header it belongs to.
order="base memory device ranges places paths param source sink names lines csv_reader trace
       trace_check trace_rows trace_cells trace_csv_words trace_row_writer trace_csv cost
       schedule rewrite host_copy rewrite_check_devices rewrite_check_gathers
       rewrite_check_holders rewrite_check_pieces
       rewrite_check_streams rewrite_check_versions rewrite_check_referee rewrite_check account
       placement strategy
       spec timeline product kernels library cuda_driver cublas gpu_watch backend backend_cuda metrics evaluate"
reader_may="base memory ranges param source sink names lines csv_reader trace trace_check
            trace_csv format"
strategy_may="strategy"

cd "$1" || exit 2
failures=$(mktemp) || exit 2
trap 'rm -f "$failures"' EXIT

complain() { echo "$*" | tee -a "$failures"; }
has() { case " $(echo $1) " in *" $2 "*) return 0 ;; esac; return 1; }
included() { sed -n 's/^# *include *"\(.*\)\.\(h\|def\)".*/\1/p' "$1"; }
left_of() { echo $order | sed "s/\(^\|.* \)$1\( .*\|\$\)/\1 $1/"; }

# The header of a source file: placement_check.c belongs to placement.h; "" when it has none.
unit_of()
{
    unit=$1
    while ! has "$order" "$unit"; do
        case $unit in *_*) unit=${unit%_*} ;; *) return ;; esac
    done
    echo "$unit"
}

# ---- sim: knows nothing but itself, and points left ------------------------------------------
for header in sim/*.h; do
    name=$(basename "$header" .h)
    has "$order" "$name" || complain "$header: is not in the order of headers in $0"
done
for file in sim/*.h sim/*.c; do
    name=$(basename "$file")
    unit=$(unit_of "${name%.*}")
    may=$order
    [ -z "$unit" ] || may=$(left_of "$unit")
    for other in $(included "$file"); do
        has "$may" "$other" || complain "$file: includes \"$other.h\", which is not left of it"
    done
done

# ---- strategies and readers: their one header, and parts in a folder beside them -------------
parts_of() { find "$1" -mindepth 2 -name '*.h' -exec basename {} .h \;; }

for family in strategies/*/; do
    parts=$(parts_of "$family")
    for file in "$family"*.c; do
        for other in $(included "$file"); do
            has "$strategy_may $parts" "$other" \
                || complain "$file: includes \"$other.h\", expected only strategy.h"
        done
    done
    for file in $(find "$family" -mindepth 2 -name '*.[ch]'); do
        for other in $(included "$file"); do
            has "$(left_of strategy) $parts" "$other" \
                || complain "$file: includes \"$other.h\", which is neither a part nor in sim"
        done
    done
done
for file in $(find traces/formats -name '*.[ch]'); do
    for other in $(included "$file"); do
        has "$reader_may formats $(parts_of traces/formats)" "$other" \
            || complain "$file: includes \"$other.h\", which a reader need not know"
    done
done

# ---- other people's libraries, each in one place ---------------------------------------------
only_in() # HEADER FILES...
{
    header=$1
    shift
    for file in $(grep -rlE "^# *include *<$header" sim strategies traces bench); do
        has "$*" "$file" || complain "$file: includes <$header>, expected only in $*"
    done
}
only_in csv.h sim/csv_reader.c sim/trace_row_writer.c bench/cli_devices.c
only_in zlib.h sim/source.c sim/sink.c
only_in zstd.h sim/source.c sim/sink.c
only_in pthread.h $(ls bench/*.c) strategies/planning/plan/plan_team.c
only_in 'cuda' $(ls sim/backend_cuda*.c 2>/dev/null)

[ ! -s "$failures" ]
