#!/bin/sh
# plots.sh MEMREUSE ROOT -- memreuse plot: its files, their agreement with compare, what goes wrong.
set -u
memreuse=$1
root=$2
command -v gnuplot > /dev/null || { echo "skipped: gnuplot is not installed"; exit 77; }

work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
failures=0
fail() { echo "$*"; failures=$((failures + 1)); }
mlp=$root/traces/tiny/mlp.csv

# Every figure exists as data, SVG and PNG, and is what its gnuplot file makes of its data.
TMPDIR=$work "$memreuse" plot "$mlp" pytorch bound -n 1 -o "$work/deep/er" > "$work/said" \
    || fail "plot of mlp.csv failed"
for name in timeline address-space peaks; do
    file=$work/deep/er/$name
    for end in csv svg png; do
        [ -s "$file.$end" ] || fail "$name.$end is missing"
        grep -qx "$file.$end" "$work/said" || fail "$name.$end is not in what plot prints"
    done
    tail -n 3 "$file.svg" | grep -q '</svg>' || fail "$name.svg has no end"
    head -c 4 "$file.png" | grep -q PNG || fail "$name.png is no PNG"
    gnuplot -c "$root/plots/$name.gp" "$file.csv" "$work/again.svg" 2> "$work/messages" \
        || fail "plots/$name.gp fails alone"
    [ ! -s "$work/messages" ] || fail "plots/$name.gp complains: $(cat "$work/messages")"
    cmp -s "$file.svg" "$work/again.svg" || fail "plots/$name.gp alone draws another $name.svg"
done
leftovers=$(find "$work" -name '*.part*' -o -name 'memreuse-*')
[ -z "$leftovers" ] || fail "left behind: $leftovers"

# column FILE NAME -- the largest number in a column of the first spec.
column() {
    awk -F, -v name="$2" '/^#/ { next }
        !at { for (i = 1; i <= NF; i++) if ($i == name) at = i; next }
        $1 == 1 && $at + 0 > most { most = $at + 0 } END { printf "%.0f\n", most }' "$1"
}

# compared TRACE NAME -- what compare says of pytorch.
compared() {
    "$memreuse" compare "$1" pytorch --format csv | awk -F, -v name="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) if ($i == name) at = i }
        $2 ~ /^pytorch/ { print $at; exit }'
}

# The peaks in both figures are those of the table, also where one event goes up and down.
for trace in "$root"/traces/tiny/*.csv "$root"/tests/oracle/snapshots/re*.pickle; do
    "$memreuse" plot "$trace" pytorch -o "$work/peaks" > /dev/null || fail "plot of $trace failed"
    for sum in allocated reserved; do
        want=$(compared "$trace" peak_$sum)
        for figure in timeline peaks; do
            got=$(column "$work/peaks/$figure.csv" $sum)
            [ "$got" = "$want" ] || fail "$trace: $figure shows $sum $got, compare says $want"
        done
    done
done
"$memreuse" plot "$mlp" pytorch -n 2000 -o "$work/long" > /dev/null || fail "a long plot failed"
[ "$(column "$work/long/timeline.csv" allocated)" = "$(compared "$mlp" peak_allocated)" ] \
    || fail "the long timeline lost its peak"
size=$(wc -c < "$work/long/address-space.svg")
[ "$size" -lt 4000000 ] || fail "the long address space takes $size bytes"

# Data of a figure are not written over when they are what is read.
mkdir "$work/own" && cp "$mlp" "$work/own/timeline.csv"
"$memreuse" plot "$work/own/timeline.csv" pytorch -o "$work/own" > /dev/null 2>&1 \
    && fail "plot writes over what it reads"
cmp -s "$mlp" "$work/own/timeline.csv" || fail "plot has written over what it reads"

# What stands to the right is the number of the event that info says, which leaves out workspaces.
sed 's/,workspace=[0-9]*//' "$mlp" >"$work/without.csv"
for trace in "$work/without.csv" "$root"/traces/tiny/streams.csv; do
    "$memreuse" plot "$trace" pytorch -n 1 -x events -o "$work/events" > /dev/null \
        || fail "plot of $trace by events failed"
    want=$("$memreuse" info "$trace" --by maker --format csv | awk -F, 'NR == 2 { print $3 }')
    got=$(awk -F, '/^#/ || $1 == "panel" { next } $3 > most { most = $3; at = $2 } END { print at }' \
        "$work/events/timeline.csv")
    [ "$got" = "$want" ] || fail "$trace: the timeline peaks at event $got, info says $want"
done

# Steps have their names where there are several, phases where there is one.  A step that is
# repeated is told by its iteration; so is a recording without steps.
marks() { sed -n 's/^# mark\t1\t[^\t]*\t\([^\t]*\)\t.*/\1/p' "$1" | tr '\n' ';'; }
[ "$(marks "$work/deep/er/timeline.csv")" = "forward;backward;update;" ] \
    || fail "marks of one step: $(marks "$work/deep/er/timeline.csv")"
"$memreuse" plot "$mlp" pytorch -n 2 -o "$work/twice" > /dev/null || fail "plot of two steps failed"
[ "$(marks "$work/twice/timeline.csv" | tr ';' '\n' | sort | tr '\n' ';')" \
    = "backward;backward;forward;forward;iteration 1;iteration 2;update;update;" ] \
    || fail "marks of two steps: $(marks "$work/twice/timeline.csv")"
"$memreuse" plot "$root/traces/tiny/streams.csv" pytorch -n 3 -o "$work/thrice" > /dev/null \
    || fail "plot of three iterations failed"
[ "$(marks "$work/thrice/timeline.csv")" = "iteration 1;iteration 2;iteration 3;" ] \
    || fail "marks of three iterations: $(marks "$work/thrice/timeline.csv")"

[ "$(marks "$work/thrice/address-space.csv")" = "iteration 1;iteration 2;iteration 3;" ] \
    || fail "the address space has not all iterations"

# The x axis goes on over the iterations: all of them have a curve, once the cache is warm the
# same one.  A recorded history is a run of its own and is not repeated.
bert=$root/traces/models/bert-base-mlm-b32-s128.csv.gz
"$memreuse" plot "$bert" pytorch -n 4 -o "$work/four" > /dev/null || fail "plot of four failed"
awk -F, '/^# mark.*iteration/ { split($0, f, "\t"); begin[++n] = f[3] }
    /^#/ || $1 == "panel" { next }
    $2 < last { print "x goes back from " last " to " $2; bad = 1 }
    { last = $2; i = 1; while (i < n && $2 >= begin[i + 1]) i++
      rows[i]++; if ($4 > peak[i]) peak[i] = $4 }
    END { if (n != 4) bad = 1
        for (i = 2; i <= n; i++) {
            if (peak[i] != peak[2] || rows[i] < 0.8 * rows[2] || rows[i] > 1.25 * rows[2]) bad = 1
            print "iteration " i " of " n ": " rows[i] " rows, peak " peak[i]
        }
        exit bad }' "$work/four/timeline.csv" > "$work/messages" \
    || fail "iterations are not alike: $(cat "$work/messages")"
subtitle() { sed -n 's/^# subtitle\t//p' "$1/timeline.csv"; }
"$memreuse" plot "$mlp" pytorch -o "$work/usual" > /dev/null || fail "a usual plot failed"
case $(subtitle "$work/usual") in
*", 3 iterations one after another"*) ;; *) fail "a step says: $(subtitle "$work/usual")" ;; esac
"$memreuse" plot "$root/tests/oracle/snapshots/retries.pickle" pytorch -o "$work/history" > /dev/null \
    || fail "plot of a history failed"
case $(subtitle "$work/history") in *iteration*) fail "a history is repeated" ;; esac

# Roles on top of each other are all that is allocated.
awk -F, '/^#/ || $1 == "panel" { next }
    { for (i = 6; i <= NF; i++) $4 -= $i } $4 != 0 { exit 1 }' "$work/deep/er/timeline.csv" \
    || fail "roles do not add up to allocated memory"

# A name is data, whatever it looks like.
odd=$work/'a`touch pwned`"; system("touch pwned") # {x_y}.csv'
cp "$mlp" "$odd"
(cd "$work" && "$memreuse" plot "$odd" pytorch -o "$work/odd" > /dev/null) \
    || fail "a file with an odd name failed"
[ ! -e "$work/pwned" ] || fail "a name was executed"

# Overheads under budgets: bench/dtr_grid.c prints them.
budgets=$root/bench/results/dtr.csv
"$memreuse" plot "$budgets" -o "$work/budgets" > "$work/said" || fail "plot of budgets failed"
for end in csv svg png; do
    [ -s "$work/budgets/overhead.$end" ] || fail "overhead.$end is missing"
    grep -qx "$work/budgets/overhead.$end" "$work/said" || fail "overhead.$end is not printed"
done
gnuplot -c "$root/plots/overhead.gp" "$work/budgets/overhead.csv" "$work/again.svg" \
    2> "$work/messages" || fail "plots/overhead.gp fails alone"
[ ! -s "$work/messages" ] || fail "plots/overhead.gp complains: $(cat "$work/messages")"
cmp -s "$work/budgets/overhead.svg" "$work/again.svg" || fail "overhead.gp draws another figure"
passes=$(awk -F, 'NR > 1 && $5 == "pass"' "$budgets" | wc -l)
points=$(grep -vc -e '^#' -e '^panel' "$work/budgets/overhead.csv")
[ "$passes" -eq "$points" ] || fail "$passes runs pass, $points are drawn"
awk -F, '/^# stack/ { split($0, f, "\t"); name[f[2]] = f[3]; next }
    /^#/ || $1 == "panel" { next }
    { if (name[$2] == "bound") low[$1, $3] = $4; else seen[$1, $3, $2] = $4 }
    END { for (k in seen) { split(k, f, SUBSEP)
        if (seen[k] < low[f[1], f[2]] - 1e-6) { print k; exit 1 } } }' \
    "$work/budgets/overhead.csv" || fail "a plan is below the bound"
for plan in $(awk -F, 'NR > 1 { print $2 }' "$budgets" | sort -u); do
    grep -qF ">$plan<" "$work/budgets/overhead.svg" || fail "the legend lacks $plan"
done

# Who asked for memory has colours and names; nothing is all of one colour.
"$memreuse" plot "$root/traces/models/bert-base-mlm-b32-s128.csv.gz" pytorch -n 1 --colour stack \
    -o "$work/stack" > /dev/null || fail "plot --colour stack failed"
hues=$(awk -F, '$1 == "block" || $1 == "part" { print $7 }' "$work/stack/address-space.csv" | sort -u | wc -l)
[ "$hues" -ge 5 ] || fail "--colour stack has $hues colours"
grep -q '^# hue.*aten::' "$work/stack/address-space.csv" || fail "--colour stack names nobody"

# expect CODE TEXT COMMAND... -- exit code and a part of what it says.
expect() {
    code=$1
    text=$2
    shift 2
    said=$("$@" 2>&1)
    got=$?
    [ $got -eq "$code" ] || fail "$*: exit $got, expected $code"
    case $said in *"$text"*) ;; *) fail "$*: says '$said', expected '$text'" ;; esac
}
expect 1 "gnuplot is needed to draw and is not installed" \
    env PATH="$work/nowhere" "$memreuse" plot "$mlp" -o "$work/bare"
[ -s "$work/bare/timeline.csv" ] || fail "without gnuplot there is no data either"
[ ! -e "$work/bare/timeline.svg" ] || fail "without gnuplot there is a figure"
# Interrupted, it ends what it has begun, or removes it, and says nothing.
mkdir "$work/bin" "$work/tmp"
printf '#!/bin/sh\nfor last; do :; done\necho half >"$last"\nkill -TERM $PPID\n' >"$work/bin/gnuplot"
chmod +x "$work/bin/gnuplot"
said=$(env PATH="$work/bin:$PATH" TMPDIR="$work/tmp" "$memreuse" plot "$mlp" -o "$work/cut" \
    2>&1 >/dev/null)
[ $? -eq 143 ] || fail "an interrupted plot went on"
[ -z "$said" ] || fail "an interrupted plot says '$said'"
[ "$(ls "$work/cut" | grep -c -e part -e png)" -eq 0 ] || fail "an interrupted plot leaves parts"
[ -z "$(ls "$work/tmp")" ] || fail "an interrupted plot leaves scripts"
expect 2 "plot needs a folder" "$memreuse" plot "$mlp"
expect 1 "is a file, expected a folder" "$memreuse" plot "$mlp" -o "$root/traces/tiny/streams.csv"
printf 'log,heuristic,ratio,budget_bytes,result,clock_ns,remat_ns,peak_bytes\na,b,1,2\n' > "$work/bad.csv"
expect 1 "bad.csv:2:7: the row ends here, expected 8 fields" "$memreuse" plot "$work/bad.csv" -o "$work/x"
expect 2 "names no devices" "$memreuse" plot "$budgets" --device h100 -o "$work/x"
expect 2 "expected one of size|role|stack|stream" "$memreuse" plot "$mlp" --colour red -o "$work/x"

[ $failures -eq 0 ] || { echo "$failures checks failed"; exit 1; }
echo "all figures are as they should be"
