#!/usr/bin/env python3
"""plan_instances.py FOLDER [SCALE]

Tables of lifetimes as large as whole training steps, for `memreuse plan`: every file the same
bytes on every machine.  SCALE is by how much more buffers each has (1).

    random     lives and sizes drawn evenly: nothing to hold on to
    skewed     lives and sizes drawn over six orders of magnitude: many small ones, few giants
    somas      a training step of a transformer as a graph compiler leaves it: parameters,
               activations that wait for the backward pass, workspaces, gradients
    xla        straight-line code: short temporaries between a few long ones, tuples, loops
    pool       an accelerator's scratch memory, as minimalloc's: few buffers at once, large ones
    cut        a rectangle cut into pieces: a layout without any gap exists, and nothing else
    phases     busy phases with nothing but a few buffers across them
"""
import os
import sys

MASK = (1 << 64) - 1


class Draw:
    """splitmix64"""

    def __init__(self, seed):
        self.state = seed

    def bits(self):
        self.state = (self.state + 0x9E3779B97F4A7C15) & MASK
        x = self.state
        x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        return x ^ (x >> 31)

    def below(self, n):
        return self.bits() % n

    def between(self, low, high):
        return low + self.below(high - low + 1)

    def of(self, values):
        return values[self.below(len(values))]

    def power(self, low, high):
        """2 to a power between low and high, and anything in between"""
        whole = 1 << self.between(low, high - 1)
        return whole + self.below(whole)


def random(draw, n):
    for _ in range(n):
        lower = draw.below(n)
        yield lower, lower + 1 + draw.below(n // 10), draw.between(1, 1000) * 512


def skewed(draw, n):
    for _ in range(n):
        life = draw.power(0, max(2, n.bit_length() - 1))
        lower = draw.below(n)
        yield lower, min(lower + life, 2 * n), draw.power(2, 22)


def somas(draw, n):
    """A layer has 60 operations forward and twice as many backward."""
    forward, kinds = 60, [1, 1, 1, 2, 3, 4, 4]
    layers = max(2, n // (6 * forward))
    hidden = 1 << 20
    steps = layers * forward
    end = 3 * steps + layers
    for _ in range(layers * 12):
        yield 0, end, hidden * draw.of([1, 4, 4, 12]) // draw.of([1, 1, 1, 1024])
    for layer in range(layers):
        for op in range(forward):
            t = layer * forward + op
            back = 3 * steps - 2 * t
            size = hidden * draw.of(kinds) + 512 * draw.of([0, 0, 0, 1, 3])
            if draw.below(10) < 4:
                yield t, back, size
            else:
                yield t, t + draw.between(2, 12), size
            if draw.below(4) == 0:
                yield t, t + 1, draw.between(1, 4096) * 512
            for half in range(2):
                yield back - half, back - half + draw.between(2, 15), size
            if draw.below(3) == 0:
                yield back, back + 1, draw.between(1, 16384) * 512
            if op % 5 == 0:
                yield back, min(end, back + draw.between(1, 300)), hidden * draw.of([1, 4, 12])
        yield layer * forward, layer * forward + 6 * forward, 2 * hidden


def xla(draw, n):
    t = 0
    made = 0
    while made < n:
        trip = draw.between(5, 60)
        carried = draw.between(1, 6)
        begin = t
        for _ in range(trip):
            size = draw.of([4, 8, 64, 256, 1 << 10, 1 << 14, 1 << 18, 3 << 18, 1 << 20]) * \
                draw.of([1, 1, 1, 2, 3, 5])
            yield t, t + draw.of([1, 1, 2, 2, 3, 5, 9, 40, 400]), size
            made += 1
            t += draw.of([0, 1, 1, 1])
        for _ in range(carried):
            yield begin, t + 1, draw.of([1 << 12, 1 << 18, 1 << 20, 5 << 18])
            made += 1
        if draw.below(8) == 0:
            yield begin, t + draw.between(1, n // 2), draw.of([1 << 18, 1 << 20, 1 << 21])
            made += 1


def pool(draw, n):
    t = 0
    for _ in range(n):
        t += draw.below(3)
        life = draw.of([1, 2, 2, 3, 4, 6, 8, 12, 20, 40, 90])
        yield t, t + life + draw.below(life + 1), draw.between(1, 96) * draw.of([256, 1024, 1024, 4096])


def cut(draw, n):
    """The largest of the pieces is cut in two until there are enough."""
    import heapq
    width, height = 4 * n, 1 << 30
    heap = [(-1.0, 0, width, height)]
    whole = float(width) * float(height)
    while len(heap) < n:
        share, at, wide, high = heapq.heappop(heap)
        if wide > 1 and (draw.below(2) or high < 2):
            x = draw.between(max(1, wide // 4), max(1, wide * 3 // 4))
            parts = [(at, x, high), (at + x, wide - x, high)]
        else:
            y = draw.between(max(1, high // 4), max(1, high * 3 // 4))
            parts = [(at, wide, y), (at, wide, high - y)]
        for a, w, h in parts:
            heapq.heappush(heap, (-float(w) * float(h) / whole, a, w, h))
    for _, at, wide, high in sorted(heap, key=lambda p: (p[1], p[2], p[3])):
        yield at, at + wide, high


def phases(draw, n):
    each = 200
    for phase in range(n // each):
        begin = phase * each
        yield begin, begin + 3 * each, draw.between(1, 64) * 4096
        for _ in range(each - 1):
            lower = draw.below(each)
            life = draw.of([1, 2, 5, 20, 60])
            yield begin + lower, begin + min(each, lower + life), draw.between(1, 64) * 4096


SHAPES = [(random, 20000), (skewed, 20000), (somas, 18000), (xla, 28000), (pool, 20000),
          (cut, 20000), (phases, 20000), (somas, 60000), (xla, 60000), (random, 60000)]


def write(folder, number, shape, n):
    path = os.path.join(folder, "%s-%dk.csv" % (shape.__name__, n // 1000))
    with open(path, "w", encoding="ascii", newline="\n") as out:
        out.write("id,lower,upper,size\n")
        for i, row in enumerate(shape(Draw(number), n)):
            out.write("%d,%d,%d,%d\n" % ((i,) + row))


def main():
    if not 2 <= len(sys.argv) <= 3:
        sys.exit("usage: plan_instances.py FOLDER [SCALE]")
    scale = float(sys.argv[2]) if len(sys.argv) == 3 else 1.0
    os.makedirs(sys.argv[1], exist_ok=True)
    for number, (shape, n) in enumerate(SHAPES):
        write(sys.argv[1], number, shape, int(n * scale))


main()
