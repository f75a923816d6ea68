#!/bin/bash
# dtr_memory.sh LOGS [MEMREUSE]
# What dtr computes again when memory is an allocator's, and when copies may help; LOGS is the
# folder with DTR's logs.
#
#     bench/results/dtr-memory.csv   plain dtr placed by three allocators, and dtr that evicts
#                                    until there is a hole or by windows: the least memory that
#                                    passes, and per cent of the step computed again in equal
#                                    memory; both of memory that the placement really takes
#     bench/results/dtr-swap.csv     recomputing, copies on the host and the cheaper of both, in
#                                    three budgets: ms of a step, thereof computed again, waited
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { echo "usage: bench/dtr_memory.sh LOGS [MEMREUSE]" >&2; exit 2; }
program=${2:-build/release/memreuse}
models="resnet50-b64-i224 bert-base-mlm-b32-s128 unet-b8-i256"
best=heuristic=best,tries=0
ways="memory=sum/firstfit memory=sum/pytorch memory=sum/plan memory=hole/firstfit
      memory=window/firstfit memory=sum,$best/firstfit memory=sum,$best/plan
      memory=window,$best/firstfit"
ratios=$(seq 0.2 0.05 1)

# Rows of spec, result, peak_reserved, time, recompute, exposed; what is refused has no numbers.
rows() # FILE SPEC...
{
    "$program" compare -n 1 -d a100-80 -f csv "$@" 2> /dev/null | awk '
        function cut(line,   n, quoted, c, i) {
            n = 1; split("", f); f[1] = ""
            for (i = 1; i <= length(line); i++) {
                c = substr(line, i, 1)
                if (c == "\"") quoted = !quoted
                else if (c == "," && !quoted) f[++n] = ""
                else f[n] = f[n] c
            }
            return n
        }
        NR == 1 { n = cut($0); for (i = 1; i <= n; i++) at[f[i]] = i; next }
        { cut($0); print f[at["spec"]] "|" f[at["result"]] "|" f[at["peak_reserved"]] "|" \
                         f[at["time"]] "|" f[at["recompute"]] "|" f[at["exposed"]] }'
}

# Of the runs of one way: the least memory, and the least recomputing within parts of the peak.
summary() # NAME WAY
{
    awk -F'|' -v name="$1" -v way="$2" '
        $1 == "bound" { peak = $3; time = $4; next }
        $2 == "fits" { memory[++n] = $3; again[n] = $5 }
        END {
            least = peak
            for (i = 1; i <= n; i++) if (memory[i] < least) least = memory[i]
            gsub(",", " ", way)
            line = sprintf("%s,%s,%.3f", name, way, least / peak)
            for (part = 9; part >= 4; part--) {
                best = -1
                for (i = 1; i <= n; i++)
                    if (memory[i] <= peak * part / 10 && (best < 0 || again[i] < best))
                        best = again[i]
                line = line (best < 0 ? "," : sprintf(",%.2f", 100 * best / time))
            }
            print line
        }'
}

out=bench/results/dtr-memory.csv
{
    echo "step,way,least_part,percent_in_0.9,in_0.8,in_0.7,in_0.6,in_0.5,in_0.4"
    for file in $(printf "traces/models/%s.csv.gz " $models) "$1"/unet-6.log.gz \
        "$1"/resnet32-56.log.gz "$1"/transformer-10.log.gz "$1"/treelstm-6.log.gz; do
        name=$(basename "$file" | cut -d. -f1)
        for way in $ways; do
            rows "$file" $(for r in $ratios; do echo "dtr:ratio=$r,$way"; done) \
                | summary "$name" "$way"
        done
    done
} > $out.new
mv $out.new $out

out=bench/results/dtr-swap.csv
{
    echo "step,budget_part,back,ms,recomputed_ms,exposed_ms"
    for name in $models; do
        for r in 0.8 0.65 0.5; do
            for back in recompute swap cheaper; do
                rows "traces/models/$name.csv.gz" "dtr:ratio=$r,back=$back/bound" \
                    | awk -F'|' -v key="$name,$r,$back" '
                        $1 != "bound" && $2 == "fits" { printf "%s,%.2f,%.2f,%.2f\n", key, $4 / 1e6, $5 / 1e6, $6 / 1e6 }
                        $1 != "bound" && $2 != "fits" { print key ",,," }'
            done
        done
    done
} > $out.new
mv $out.new $out
