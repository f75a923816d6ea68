#!/bin/sh
# All tests, on a machine that may have nothing yet.  Ends with how many passed and failed; exit
# code 0 only when none failed.  About ten minutes on two processors.
#
#   plain    everything
#   asan     address and undefined-behaviour sanitizers: unit, command lines, broken files
#   tsan     thread sanitizer: what runs in several threads
#   fuzz     with clang, which also compiles everything: each reader for half a minute
#
# FUZZ_SECONDS=3600 tests/run.sh fuzz    runs only the parts named, and fuzzes for longer
set -u

here=$(cd "$(dirname "$0")/.." && pwd)
jobs=$(nproc)
fuzz_seconds=${FUZZ_SECONDS:-30}
results=$here/build/results.txt # a line "passed NAME", "failed NAME" or "skipped NAME" per
                                # test, "partly NAME (WHY)" where parts of one were skipped
began=$(date +%s)

say() { printf '\n== %4d s  %s\n' "$(($(date +%s) - began))" "$*"; }
result() { echo "$1 $2" >>"$results"; }

# build DIR OPTION...: quiet unless it fails.
build()
{
    dir=$here/build/$1
    shift
    mkdir -p "$dir"
    if cmake -S "$here" -B "$dir" "$@" >"$dir/build.log" 2>&1 \
       && cmake --build "$dir" -j "$jobs" >>"$dir/build.log" 2>&1; then
        return 0
    fi
    tail -n 60 "$dir/build.log"
    result failed "build of ${dir##*/}"
    return 1
}

# run_tests DIR OPTION...: ctest, its results counted one by one.  A test that passed may have
# skipped some of its parts; what it says of that stands in ctest's own log.
run_tests()
{
    dir=$here/build/$1
    shift
    (cd "$dir" && ctest -j "$jobs" --output-on-failure "$@" 2>&1) | tee "$dir/ctest.log"
    awk -v dir="${dir##*/}" '
        / Test +#[0-9]+: / {
            name = $0
            sub(/^.* Test +#[0-9]+: /, "", name)
            sub(/[ .*].*$/, "", name)
            word = /   Passed / ? "passed" : /Skipped/ ? "skipped" : "failed"
            print word, dir "/" name
            n++
        }
        END { if (!n) print "failed", dir ": no test ran" }' "$dir/ctest.log" >>"$results"
    awk -v dir="${dir##*/}" '
        /^[0-9]+\/[0-9]+ Test: / { name = $3; n = 0 }
        /^skipped: / && !n++ { why = substr($0, 10) }
        /^Test Passed/ && n { print "partly", dir "/" name, "(" n ": " why ")"; n = 0 }
    ' "$dir/Testing/Temporary/LastTest.log" >>"$results"
}

plain()
{
    say "plain: build"
    build plain -DCMAKE_BUILD_TYPE=RelWithDebInfo || return
    say "plain: all tests"
    run_tests plain
}

asan()
{
    say "asan: build"
    build asan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMR_SANITIZE=address,undefined || return
    say "asan: unit, command lines, broken files"
    run_tests asan -L '^(unit|cli|broken)$'
}

tsan()
{
    say "tsan: build"
    build tsan -DCMAKE_BUILD_TYPE=RelWithDebInfo -DMR_SANITIZE=thread || return
    say "tsan: what runs in several threads"
    run_tests tsan -L '^(threads|cli)$'
}

fuzz()
{
    if ! command -v clang >/dev/null; then
        say "fuzz: skipped, there is no clang"
        result skipped fuzz
        return
    fi
    say "fuzz: build with clang"
    build fuzz -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_C_COMPILER=clang -DMR_FUZZ=ON || return
    targets=$(find "$here/build/fuzz/tests/fuzz" -name 'fuzz_*' -type f -perm -u+x | sort)
    say "fuzz: $fuzz_seconds s each, two at a time"
    [ -n "$targets" ] || result failed "fuzz: no target was built"
    printf '%s\n' $targets | xargs -P 2 -I TARGET \
        "$here/tests/fuzz/run_one.sh" "$here/build/fuzz" TARGET "$fuzz_seconds" "$results"
}

mkdir -p "$here/build"
: >"$results"
"$here/bench/setup.sh" tests || exit 1
for part in ${*:-plain asan tsan fuzz}; do
    case $part in
    plain | asan | tsan | fuzz) "$part" ;;
    *)
        echo "tests/run.sh: there is no part '$part', expected plain, asan, tsan or fuzz" >&2
        exit 2
        ;;
    esac
done

count() { grep -c "^$1 " "$results"; }
say "done"
grep -E '^(failed|skipped|partly) ' "$results" | sed 's/^partly /skipped in part /'
echo "$(count passed) passed ($(count partly) in part), $(count failed) failed," \
    "$(count skipped) skipped"
[ "$(count failed)" -eq 0 ] && [ "$(count passed)" -gt 0 ]
