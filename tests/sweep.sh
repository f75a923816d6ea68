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

# A reason that was cut off is no reason: the row of a refused cell without its end is done again.
{
    echo "trace streams $root/traces/tiny/streams.csv"
    echo "cells streams : pytorch accumulate:2/pytorch"
} >refused.txt
"$memreuse" sweep refused.txt -o refused.csv >said || fail "a refused cell fails"
mkdir not-there.csv
"$memreuse" sweep refused.txt -o not-there.csv >said 2>&1
rmdir not-there.csv
sed '$s/"[^"]*"$/half a/' not-there.csv.part | head -c -1 >kept
tail -n 1 kept | grep -q ',refused,.*,half a$' || fail "no reason was cut: $(tail -n 1 kept)"
mv kept not-there.csv.part
"$memreuse" sweep refused.txt -o not-there.csv >said 2>&1 || fail "it does not go on: $(cat said)"
cmp refused.csv not-there.csv || fail "half a reason was believed"

# What a sweep writes over is what a sweep has written.
echo "notes of mine" >notes.csv
"$memreuse" sweep suite.txt -o notes.csv >said 2>&1
[ $? -eq 2 ] || fail "a file of somebody else was written over"
grep -q "is there already and not a file of cells that a sweep wrote" said || fail "$(cat said)"
grep -qx "notes of mine" notes.csv || fail "notes are gone"
[ ! -e notes.csv.part ] || fail "cells were computed for nothing"

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
# drawn CELLS FOLDER OPTION...
drawn()
{
    cells=$1
    folder=$2
    shift 2
    "$memreuse" plot "$cells" -o "$folder" "$@" >said || fail "plot of $cells failed"
    for name in trade-off bars combinations slowdown; do
        for end in csv svg png; do
            [ -s "$folder/$name.$end" ] || fail "$name.$end is missing"
            grep -qx "$folder/$name.$end" said || fail "$name.$end is not in what plot prints"
        done
        script=$name
        case $name in combinations | slowdown) script=map ;; esac
        gnuplot -c "$root/plots/$script.gp" "$folder/$name.csv" again.svg 2>messages \
            || fail "plots/$script.gp fails alone"
        [ ! -s messages ] || fail "plots/$script.gp complains: $(cat messages)"
        cmp -s "$folder/$name.svg" again.svg || fail "plots/$script.gp alone draws another $name.svg"
    done
}

# refused TEXT ARGUMENT... -- plot says so and draws nothing.
refused()
{
    text=$1
    shift
    rm -rf nothing
    "$memreuse" plot "$@" -o nothing >said 2>&1
    code=$?
    [ $code -eq 2 ] || fail "plot $*: exit $code, expected 2"
    grep -qF -e "$text" said || fail "plot $*: says '$(cat said)', expected '$text'"
    [ ! -e nothing ] || fail "plot $*: has drawn"
}

if command -v gnuplot >/dev/null; then
    drawn one.csv pictures
    # Of mlp, both ways to accumulate are on the front: less memory, more time; in-place is not.
    awk -F, '$1 == 1 && $4 == 1 && $2 <= 100 { exit 1 }' pictures/trade-off.csv \
        || fail "the front has a cell that is no slower than the first"

    # Two devices, specs that differ behind a comma, one not computed, one that is refused.
    {
        echo "trace mlp $root/traces/tiny/mlp.csv"
        echo "trace streams $root/traces/tiny/streams.csv"
        echo "device a100-40 h100"
        echo "spec late accumulate:2/pytorch"
        echo "cells mlp streams : late pytorch"
        echo "cells mlp : accumulate:k=2,set_to_none=False/pytorch"
    } >devices.txt
    "$memreuse" sweep devices.txt -o devices.csv >said || fail "a sweep of two devices failed"
    drawn devices.csv devices
    for text in 'mlp, a100-40' 'mlp, h100' 'streams, h100' 'accumulate:2,set_to_none=False'; do
        for name in bars combinations slowdown; do
            grep -qF -e "$text" "devices/$name.svg" || fail "$name.svg does not say '$text'"
        done
    done
    grep -qF '100 % is the step as recorded.' devices/trade-off.svg \
        || fail "the step as it is is not what others are held against"
    grep -q '^absent,' devices/combinations.csv || fail "no cell is told as not computed"
    grep -q '^refused,' devices/combinations.csv || fail "no cell is told as refused"

    # A device selects; what is no question of results is refused, not left out in silence.
    drawn devices.csv h100 --device h100
    grep -q a100 h100/bars.svg && fail "a device that was not asked for is shown"
    grep -q 'specs, h100' h100/bars.svg || fail "the device is not named"
    refused "has no cells of the device 'h200', but of: a100-40, h100" devices.csv --device h200
    head -c -1 devices.csv >cut.csv
    "$memreuse" plot cut.csv -o nothing >said 2>&1
    [ $? -eq 1 ] || fail "cells that were cut off are drawn"
    grep -q "has no line break: the file is cut off" said || fail "a cut is not told: $(cat said)"
    [ ! -e nothing ] || fail "cells that were cut off leave a folder"
    refused "--capacity is for recordings" devices.csv --capacity 2GiB
    refused "--iterations is for recordings" devices.csv -n 2
    refused "--colour is for recordings" devices.csv --colour size
    refused "expected no spec, found 'native'" devices.csv native

    # All results that ship can be drawn.
    for results in "$root"/bench/results/*.csv; do
        head -n 1 "$results" | grep -q '^trace,file,spec,device,' || continue
        drawn "$results" "shipped-$(basename "$results" .csv)"
    done
fi

[ $failures -eq 0 ] || { echo "$failures checks failed"; exit 1; }
echo "cells do not depend on threads and interruptions"
