#!/bin/sh
# vgg19.sh live|all|sqrt|greedy FILE -- VGG19 as Checkmate counts it, as a recording of one picture of
# 224 by 224: 16 convolutions (activation included), 5 pools, flatten, 3 products, loss. A gradient is as
# large as the result that it is the gradient of, costs twice as much, and reads that result and the next
# one. Costs are products of numbers. Weights and their gradients are there throughout; the picture is not.
#   all, sqrt, greedy   schedules of its baselines: stage t computes node t; S says what is there before
#                       it, R what it computes. Results that are kept stay to the end of the step.
#   live                everything computed once and let go when nothing reads it any more
# bench/suites/vgg19-*.csv.gz are made so, but for vgg19-b128-i224.csv.gz, which PyTorch made.
set -eu
awk -v how="$1" '
function fixed(id, bytes, role) {
    printf "storage,%d,%d,role=%s,before,after\n", id, bytes, role
    printf "tensor,%d,%d,dtype=float32,shape=%d\n", id, id, bytes / 4
}
function layer(kind, outputs, cost, numbers) {
    name[n] = kind; bytes[n] = 4 * outputs; ns[n] = cost; weights[n++] = numbers
}
function layers(    b, c, d, side, from, width, outputs) {
    split("2 2 4 4 4", convolutions); split("64 128 256 512 512", channels); split("4096 4096 1000", dense)
    side = 224; from = 3
    for (b = 1; b <= 5; b++) {
        for (c = 1; c <= convolutions[b]; c++) {
            outputs = side * side * channels[b]
            layer("convolution", outputs, 9 * from * outputs, 9 * from * channels[b] + channels[b])
            from = channels[b]
        }
        side /= 2
        layer("max_pool", side * side * from, 0, 0)
    }
    width = side * side * from
    layer("flatten", width, 0, 0)
    for (d = 1; d <= 3; d++) {
        layer("linear", dense[d], width * dense[d], width * dense[d] + dense[d])
        width = dense[d]
    }
    forward = n
    layer("loss", 1, 0, 0)
}
function edge(from, to) { read[to, reads[to]++] = from; reader[from, readers[from]++] = to }
function graph(    i, back) {
    for (i = 0; i < forward; i++) edge(i, i + 1)
    for (i = forward - 1; i >= 0; i--) {
        back = 2 * forward - i
        name[back] = name[i] "_backward"; bytes[back] = bytes[i]; ns[back] = 2 * ns[i]
        edge(back - 1, back); edge(i, back)
        if (i + 1 < forward) edge(i + 1, back)
    }
    n = 2 * forward + 1
}
function hold(t, from, to,    i) { for (i = from; i < to && i < t; i++) S[t, i] = 1 }
function hold_segment(from, to,    i, t) {
    for (i = from; i < to; i++) hold(n - 1 - i, from, to)
    for (t = from; t <= to; t++) { hold(t, from, to); hold(n - 1 - t, n - to, n - from) }
}
function stages(    v, u, e, t, i, from) { # from kept to S, and from S to the least R
    split("", S); split("", R)
    for (v = 0; v < n; v++)
        for (e = 0; e < reads[v]; e++) {
            u = read[v, e]
            for (t = u < forward && how != "live" ? v : u + 1; t <= v; t++) S[t, u] = 1
        }
    from = 0
    for (i = 0; i < forward; i++) {
        if (!kept[i]) continue
        for (t = i + 1; t < n; t++) S[t, i] = 1
        hold_segment(from, i)
        from = i
    }
    if (how != "live") hold_segment(from, forward + 1)
    for (t = 0; t < n; t++) {
        R[t, t] = 1
        for (v = 0; v < n; v++) if (((t + 1, v) in S) && !((t, v) in S)) R[t, v] = 1
        for (v = t; v >= 0; v--)
            for (e = 0; ((t, v) in R) && e < reads[v]; e++)
                if (!((t, read[v, e]) in S)) R[t, read[v, e]] = 1
    }
}
function let_go(i, op, t,    e) {
    if (!held[i] || ((t + 1, i) in S)) return
    for (e = 0; e < readers[i]; e++) if (reader[i, e] > op && ((t, reader[i, e]) in R)) return
    if (write) print "drop," held[i]
    held[i] = 0
    live -= bytes[i]
}
function run(op,    e) {
    live += bytes[op]
    if (live > peak) peak = live
    held[op] = ++made
    if (!write) return
    printf "storage,%d,%d,per_sample=%d,role=activation\n", made, bytes[op], bytes[op]
    printf "tensor,%d,%d,dtype=float32,shape=1x%d\n", made, made, bytes[op] / 4
    printf "op,%d,%s,%s,module=layers.%d,ns=%.0f", made, name[op], \
        (op > forward ? "backward" : "forward"), (op > forward ? 2 * forward - op : op), ns[op]
    if (op in first) printf ",again=%d", first[op]; else first[op] = made
    printf ",in="
    if (weights[op]) printf "%d%s", 100000 + op, reads[op] ? " " : ""
    for (e = 0; e < reads[op]; e++) printf "%s%d", e ? " " : "", held[read[op, e]]
    printf ",out=%d\n", made
}
function execute(    t, i, e) {
    stages()
    split("", held)
    live = peak = made = 0
    for (t = 0; t < n; t++) {
        if (write && t == forward + 1) print "mark,phase-end,forward\nmark,phase-begin,backward"
        for (i = 0; i < n; i++) let_go(i, i, t)
        for (i = 0; i < n; i++) {
            if ((t, i) in R) run(i)
            for (e = 0; e < reads[i]; e++) let_go(read[i, e], i, t)
            let_go(i, i, t)
        }
    }
    return peak
}
function keep_greedily(limit,    i, segment) {
    segment = 0
    for (i = 0; i < forward; i++) {
        segment += bytes[i]
        kept[i] = segment > limit
        if (kept[i]) segment = 0
    }
}
function keep_every(k,    i) { for (i = 0; i < forward; i++) kept[i] = k && (i + 1) % k == 0 }
function choose(    unit, i, least, best) {
    keep_every(how == "all" ? 1 : how == "live" ? 0 : int(sqrt(forward)))
    if (how != "greedy") return
    unit = execute() / 20
    for (i = 0; i < 60; i++) {
        keep_greedily(unit * i)
        if (!i || execute() < least) { least = peak; best = i }
    }
    keep_greedily(unit * best)
}
BEGIN {
    n = 0
    layers()
    graph()
    choose()
    print "memreuse,1"
    print "#,VGG19 as Checkmate counts it; made by bench/suites/vgg19.sh " how "."
    print "about,model,vgg19"
    print "about,batch,1"
    print "about,recorder,by hand"
    print "about,steps,1"
    print "has,dataflow,phases,times,drops"
    for (i = 0; i < forward; i++) {
        if (!weights[i]) continue
        fixed(100000 + i, 4 * weights[i], "parameter")
        fixed(200000 + i, 4 * weights[i], "gradient")
    }
    print "mark,step-begin,step 1\nmark,phase-begin,forward"
    write = 1
    execute()
    print "mark,phase-end,backward\nmark,step-end,step 1"
}' | gzip -n9 >"$2"
