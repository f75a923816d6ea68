#!/bin/sh
# peaks.sh LIBRARIES PYTHON -- makes traces/models/peaks.csv again: what PyTorch's own allocator holds
# in the training steps of those plain recordings that have no convolutions.
libraries=${1:?usage: peaks.sh LIBRARIES PYTHON}
python=${2:?usage: peaks.sh LIBRARIES PYTHON}
here=$(cd "$(dirname "$0")" && pwd)
models=$here/../../../traces/models

plain() { # NAME OPTION...
    name=$1
    shift
    case $name in *generate* | *changing* | resnet* | vgg* | *unet*) return ;; esac
    echo "$* -o $name.csv.gz next"
}
# A device that is large enough for all of them.
# shellcheck disable=SC2046
FAKECUDA_TOTAL_MEM=400G PYTHONDONTWRITEBYTECODE=1 "$here/run.sh" "$libraries" "$python" -W ignore \
    "$here/peaks.py" "$models/peaks.csv" $(. "$here/../../../traces/record/plain.sh")
