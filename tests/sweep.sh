#!/bin/sh
# sweep.sh MEMREUSE ROOT -- memreuse sweep: the same cells whatever -j, and after an interruption.
set -u
memreuse=$1
root=$2
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "$*"; failures=$((failures + 1)); }
cd "$work" || exit 1

{
    echo "trace mlp $root/traces/tiny/mlp.csv"
    echo "trace streams $root/traces/tiny/streams.csv"
    echo "lattice all inplace accumulate:2 accumulate:4 /pytorch"
    echo "claim Parts take less"
    echo "expect peak_allocated[accumulate:2/pytorch] < peak_allocated[pytorch]"
} >suite.txt

"$memreuse" sweep suite.txt -j 1 -o one.csv >one.txt || fail "sweep failed"
[ "$(wc -l <one.csv)" -eq 17 ] || fail "one.csv has $(wc -l <one.csv) lines, expected 17"
[ ! -e one.csv.part ] || fail "one.csv.part is left"
for jobs in 2 8; do
    "$memreuse" sweep suite.txt -j $jobs -o many.csv >many.txt || fail "sweep -j $jobs failed"
    cmp one.csv many.csv || fail "-j $jobs writes other cells"
    cmp one.txt many.txt || fail "-j $jobs prints other verdicts"
done

# A folder in the place of the results: all cells are computed, then they cannot be written.
interrupted()
{
    rm -rf cells.csv
    mkdir cells.csv
    "$memreuse" sweep suite.txt -o cells.csv >said 2>&1 && fail "a folder was written to"
    rmdir cells.csv
    [ "$(wc -l <cells.csv.part)" -eq 18 ] || fail "not all cells are kept"
}

# What is kept is believed up to the first row that is not whole, which cannot be told from a
# finished run, unless a number in it is another one.
interrupted
sed '4s/,[0-9]*,[0-9]*,\([^,]*\),[^,]*,$/,77,88,\1,0,/' cells.csv.part >marked
cmp -s marked cells.csv.part && fail "no row was marked"
head -n 6 marked >cells.csv.part
printf 'mlp,mlp.csv,"inplace+acc' >>cells.csv.part
"$memreuse" sweep suite.txt -o cells.csv >said 2>&1 || fail "it does not go on: $(cat said)"
[ "$(diff one.csv cells.csv | grep -c '^>')" -eq 1 ] || fail "not only the marked cell differs"
grep -q ',77,88,' cells.csv || fail "the kept cell was computed again"
[ ! -e cells.csv.part ] || fail "cells.csv.part is left"

# Ended from outside at some moment, it goes on and writes the same bytes.
for wait in 0 0.01 0.05 0.2; do
    rm -f cells.csv cells.csv.part
    "$memreuse" sweep suite.txt -j 2 -o cells.csv >said 2>&1 &
    sleep $wait
    kill -TERM $! 2>/dev/null
    wait $! 2>/dev/null
    [ ! -e cells.csv ] || cmp one.csv cells.csv || fail "a sweep that was ended writes other cells"
    "$memreuse" sweep suite.txt -o cells.csv >said 2>&1 || fail "it does not go on: $(cat said)"
    cmp one.csv cells.csv || fail "cells differ after the end at $wait s"
    cmp one.txt said || fail "verdicts differ after the end at $wait s"
done
# The same with all that can be kept: any number of whole rows and half a one.
interrupted
cp cells.csv.part whole
for rows in 1 2 3 9 17 18; do
    head -n $rows whole >cells.csv.part
    sed -n "$((rows + 1))p" whole | head -c 40 >>cells.csv.part
    "$memreuse" sweep suite.txt -j 2 -o cells.csv >said 2>&1 || fail "it does not go on: $(cat said)"
    cmp one.csv cells.csv || fail "cells differ after $rows rows"
    cmp one.txt said || fail "verdicts differ after $rows rows"
done

# Another suite, or other bytes in a recording, begin anew.
interrupted
sed '4s/,[0-9]*,[0-9]*,\([^,]*\),[^,]*,$/,77,88,\1,0,/' cells.csv.part >marked
cp marked cells.csv.part
echo "# more words" >>suite.txt
"$memreuse" sweep suite.txt -o cells.csv >said 2>&1 || fail "a changed suite failed"
cmp one.csv cells.csv || fail "cells of another suite were kept"

# Claims at their limits: what is equal is not less, per cent are of the right side, what is saved
# is a part.
{
    echo "trace mlp $root/traces/tiny/mlp.csv"
    echo "spec least bound"
    while read -r side expression; do
        echo "claim $side"
        echo "expect $expression"
    done <<END
right peak_requested[least] <= peak_requested[least]
right 2 * peak_requested[least] = peak_requested[least] within 100 %
right saving(peak_requested[least], 2 * peak_requested[least]) = 50 %
wrong peak_requested[least] < peak_requested[least]
wrong 2 * peak_requested[least] = peak_requested[least] within 99 %
wrong saving(peak_requested[least], 2 * peak_requested[least]) = 51 %
END
} >limits.txt
"$memreuse" sweep limits.txt -o limits.csv >said 2>&1 || fail "limits: $(cat said)"
[ "$(grep -c '^confirmed  *right' said)" -eq 3 ] || fail "what holds is not confirmed: $(cat said)"
[ "$(grep -c '^refuted  *wrong' said)" -eq 3 ] || fail "what does not hold is not refuted: $(cat said)"

# Whatever stands in the file beside, it is no reason to fail.
for junk in '' 'a,b' '"' "$(printf 'x\001y')"; do
    printf '%s\n' "$junk" >cells.csv.part
    "$memreuse" sweep suite.txt -o cells.csv >said 2>&1 || fail "junk '$junk': $(cat said)"
    cmp one.csv cells.csv || fail "junk '$junk' changed the cells"
done

# Cells are drawn: every figure exists as data, SVG and PNG, and gnuplot has nothing to complain of.
if command -v gnuplot >/dev/null; then
    "$memreuse" plot one.csv -o pictures >said || fail "plot of cells failed"
    for name in trade-off bars combinations slowdown; do
        for end in csv svg png; do
            [ -s "pictures/$name.$end" ] || fail "$name.$end is missing"
            grep -qx "pictures/$name.$end" said || fail "$name.$end is not in what plot prints"
        done
        script=$name
        case $name in combinations | slowdown) script=map ;; esac
        gnuplot -c "$root/plots/$script.gp" "pictures/$name.csv" again.svg 2>messages \
            || fail "plots/$script.gp fails alone"
        [ ! -s messages ] || fail "plots/$script.gp complains: $(cat messages)"
        cmp -s "pictures/$name.svg" again.svg || fail "plots/$script.gp alone draws another $name.svg"
    done
    # Of mlp, both ways to accumulate are on the front: less memory, more time; in-place is not.
    awk -F, '$1 == 1 && $4 == 1 && $2 <= 100 { exit 1 }' pictures/trade-off.csv \
        || fail "the front has a cell that is no slower than the first"
fi

[ $failures -eq 0 ] || { echo "$failures checks failed"; exit 1; }
echo "cells do not depend on threads and interruptions"
