#!/bin/sh
# peaks.sh LIBRARIES PYTHON -- makes traces/models/peaks.csv and traces/models/twins/twin_peaks.csv again:
# what PyTorch's own allocator holds in the training steps of those plain recordings and twins whose
# steps do not differ from one another. Two twins run with fake tensors alone: one has an op without
# a kernel, one makes a scale that float16 cannot hold.
libraries=${1:?usage: peaks.sh LIBRARIES PYTHON}
python=${2:?usage: peaks.sh LIBRARIES PYTHON}
here=$(cd "$(dirname "$0")" && pwd)
models=$here/../../../traces/models

left_out() {
    case $1 in *generate* | *changing* | *-abn | *-masters-dynamic) ;; *) return 1 ;; esac
}
plain() { # NAME OPTION...
    name=$1
    shift
    left_out "$name" || echo "$* -o $name.csv.gz next"
}
twin() { # TECHNIQUE PLAIN NAME OPTION...
    name=$3
    shift 3
    left_out "$name" || [ ! -e "$models/twins/$name.csv.gz" ] || echo "$* -o $name.csv.gz next"
}
# On a device that is large enough for all of them; each in a process of its own, as hooks of a
# model may keep it alive.
measure() { # TABLE, programs as lines
    tr '\n' ' ' | sed 's/ next */\n/g' | while read -r line; do
        # shellcheck disable=SC2086
        FAKECUDA_TOTAL_MEM=400G PYTHONDONTWRITEBYTECODE=1 "$here/run.sh" "$libraries" "$python" \
            -W ignore "$here/peaks.py" "$1" $line </dev/null || exit 1
    done
}
. "$here/../../../traces/record/plain.sh" | measure "$models/peaks.csv" \
    && . "$here/../../../traces/record/twins.sh" | measure "$models/twins/twin_peaks.csv"
