#!/bin/sh
# make_all.sh [NAME...] -- records all files of traces/models again, or those named, with the same
# bytes as they have.  PYTHON is a Python with torch; DATE stands in the files; JOBS processes run
# at a time, each makes a few files.
#
# With LIBRARIES, the folder of the fake device (or "-" on a machine with a GPU), it measures
# workspaces.csv instead: what ops of the plain recordings take inside, which these then have.
# Twins have no workspaces: they are there to hold tensors against, and no rewrite knows what its
# new ops take. Those without a technique are the plain recordings of others, and have them.
#
# With DEVICE, that folder (or "-"), it records what wants real tensors, device_twins.sh.
set -eu
export PYTHONDONTWRITEBYTECODE=1
here=$(cd "$(dirname "$0")" && pwd)
: "${MODELS:=$here/../models}" "${PYTHON:=python3}" "${DATE:=2026-11-29}" "${JOBS:=1}"
wanted=$*

record() { # NAME OPTION...: prints what record.py is told
    name=$1
    shift
    case " $wanted " in
    "  " | *" $name "*) ;;
    *) return 0 ;;
    esac
    echo "$* --date $DATE -o $folder/$name.csv.gz" \
        "--manifest $folder/MANIFEST.csv --truth $folder/truth.csv next"
}

plain() {
    record "$@" --workspaces workspaces.csv
}

# TECHNIQUE PLAIN NAME OPTION...: the model of PLAIN with the technique switched on
twin() {
    technique=$1 plain=$2
    shift 2
    [ -z "${LIBRARIES:-}" ] || [ -z "$technique" ] || return 0
    if [ -n "${DEVICE:-}" ]; then
        record "$@" --one-batch --technique "$technique" --plain "$plain" | sed 's/ --truth [^ ]*//'
    elif [ -n "$technique" ]; then
        record "$@" --one-batch --technique "$technique" --plain "$plain"
    else
        record "$@" --one-batch --workspaces workspaces.csv
    fi
}

all() {
    folder=$MODELS
    . "$here/plain.sh"
    folder=$MODELS/twins
    . "$here/twins.sh"
}

mkdir -p "$MODELS/twins"
cd "$here"
# Cached memory does not fail: a device that is large enough for all of them.
export FAKECUDA_TOTAL_MEM=400G
if [ -n "${DEVICE:-}" ]; then
    folder=$MODELS/twins
    run=$PYTHON
    [ "$DEVICE" = - ] || run="../../tests/oracle/torch/run.sh $DEVICE $PYTHON"
    # shellcheck disable=SC2086
    . "$here/device_twins.sh" | xargs -P "$JOBS" -L 1 $run -W ignore on_device.py
    exit
fi
if [ -z "${LIBRARIES:-}" ]; then
    all | xargs -P "$JOBS" -L 8 "$PYTHON" -W ignore record.py
    exit
fi
run=$PYTHON
[ "$LIBRARIES" = - ] || run="../../tests/oracle/torch/run.sh $LIBRARIES $PYTHON"
# shellcheck disable=SC2086
all | xargs -P "$JOBS" -L 8 $run -W ignore workspaces.py workspaces.csv
# shellcheck disable=SC2086
[ -n "$wanted" ] || $run workspaces.py workspaces.csv
