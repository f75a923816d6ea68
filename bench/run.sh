#!/bin/sh
# From nothing to a table and pictures: installs what is missing, builds, replays a recording
# that ships with memreuse.  Another may be given: bench/run.sh my-snapshot.pickle
set -eu

here=$(cd "$(dirname "$0")/.." && pwd)
recording=${1:-$here/traces/models/bert-base-mlm-b32-s128.csv.gz}
build=$here/build/release
plots=$here/build/plots
say() { printf '\n== %s\n' "$*"; }

"$here/bench/setup.sh"

say "build, in build/release"
mkdir -p "$build"
make_it()
{
    cmake -S "$here" -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
        && cmake --build "$build" -j "$(nproc)" --target memreuse
}
if ! make_it >"$build/build.log" 2>&1; then
    tail -n 40 "$build/build.log" >&2
    echo "the build failed; all of its output is in $build/build.log" >&2
    exit 1
fi

say "memreuse compare ${recording#"$here/"}"
"$build/memreuse" compare "$recording"

say "memreuse plot ${recording#"$here/"} -o build/plots"
"$build/memreuse" plot "$recording" -o "$plots"
printf '\nThe pictures are in %s:\n' "$plots"
ls "$plots"
