#!/bin/sh
# chains.sh N FILE -- a uniform chain of N stages as a recording: each stage makes 1 MiB from what the
# stage before it made, and saves its input; backward takes twice as long as forward.
# bench/suites/chain-N.csv.gz are made so.
set -eu
awk -v n="$1" '
function tensor(id, role, more) {
    print "storage," id ",1048576,role=" role more
    print "tensor," id "," id ",dtype=float32,shape=262144"
}
BEGIN {
    print "memreuse,1"
    print "#,A uniform chain of " n " stages; made by bench/suites/chains.sh."
    print "about,model,chain-" n
    print "about,recorder,by hand"
    print "about,steps,1"
    print "has,dataflow,phases,times,saved,drops"
    tensor(1, "input", ",before,after")
    print "mark,step-begin,step 1"
    print "mark,phase-begin,forward"
    for (i = 1; i <= n; i++) {
        tensor(i + 1, "activation")
        print "op," i ",stage,forward,module=stages." i - 1 ",ns=1000000,in=" i ",out=" i + 1 \
            ",saved=" i ":input"
        if (i > 1) print "drop," i
    }
    print "mark,phase-end,forward"
    print "mark,phase-begin,backward"
    tensor(3 * n + 2, "temporary")
    print "op," n + 1 ",ones_like,backward,ns=0,in=" n + 1 ",out=" 3 * n + 2 ",of=" n
    print "drop," n + 1
    for (i = n; i >= 1; i--) {
        tensor(2 * n + 1 + i, "temporary")
        print "op," 2 * n + 2 - i ",stage_backward,backward,module=stages." i - 1 \
            ",ns=2000000,in=" 2 * n + 2 + i " " i ",out=" 2 * n + 1 + i ",of=" i
    }
    print "mark,phase-end,backward"
    print "mark,step-end,step 1"
}' | gzip -n9 >"$2"
