#!/bin/sh
# softmax.sh FROM TO -- the same recording as of PyTorch before 1.11: the gradient of softmax took the
# input beside the result there, to learn its type, so autograd kept both. When storages end then follows
# from who reads and saves them, so what the newer allocator did goes from the recording.
# Workspaces of cuBLAS go too: it took its own memory then, and is part of what no tensor holds.
# The Trainer asks after each backward pass whether the loss is a number (logging_nan_inf_filter), which
# recordings with fake tensors do not show: an op that the host waits for stands before the update.
# bench/suites/bert-large-classifier-b4-s512-2022.csv.gz is made so, from what record.py --model
# bert-large-classifier --batch 4 --seq 512 --optimizer adamw-loop-2022 --workspaces workspaces.csv records.
set -eu
gzip -dc "$1" | awk -F, '
function field(name,    i) {
    for (i = 1; i <= NF; i++) if (index($i, name "=") == 1) return substr($i, length(name) + 2)
    return ""
}
$1 == "free" { next }
$1 == "alloc" { if (NF == 2) next; sub(/^alloc/, "storage") }
$1 == "op" && $3 == "aten::_softmax" && $4 == "forward" {
    sub(/,saved=/, ",saved=" field("in") ":input ")
    n++
}
$1 == "op" && $3 == "aten::nll_loss_forward" { split(field("out"), made, " "); loss = made[1] }
$1 == "op" && $4 == "update" && !asked++ {
    print "op,0,aten::_local_scalar_dense,backward,read=4,in=" loss
}
$1 == "op" && $3 ~ /^aten::(mm|bmm|addmm)$/ { sub(/,workspace=[0-9]+/, "") }
$1 == "note" && !noted {
    print "note,\"softmax keeps its input too, as in PyTorch before 1.11 (bench/suites/softmax.sh)\""
    noted = 1
}
{ print }
END { if (!n) exit 1 }' | gzip -n9 >"$2"
