#!/bin/sh
# make_torch_snapshots.sh LIBRARIES PYTHON [FOLDER [NAME...]]
# Makes the recordings of snapshots/MANIFEST.torch again, each by what stands behind its name:
# options of the allocator, FAKECUDA_ variables (both "-" for none), options of record_step.py.
usage='usage: make_torch_snapshots.sh LIBRARIES PYTHON [FOLDER [NAME...]]'
libraries=${1:?$usage}
python=${2:?$usage}
here=$(cd "$(dirname "$0")" && pwd)
snapshots=$here/../snapshots
folder=${3:-$snapshots}
shift 2
[ $# -eq 0 ] || shift
wanted=" $* "
failed=0
while read -r file conf variables options; do
    case $file in '#'* | '') continue ;; esac
    case $wanted in *" $file "* | "  ") ;; *) continue ;; esac
    [ "$conf" != - ] || conf=
    [ "$variables" != - ] || variables=
    # shellcheck disable=SC2046,SC2086
    PYTORCH_CUDA_ALLOC_CONF=$conf env $(echo "$variables" | tr ',' ' ') \
        "$here/run.sh" "$libraries" "$python" "$here/record_step.py" $options \
        "$folder/$file" < /dev/null || failed=1
done < "$snapshots/MANIFEST.torch"
exit $failed
