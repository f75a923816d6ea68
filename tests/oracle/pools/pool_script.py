"""pool_script -- random scripts for memory pools, and reading them.

    pool_script.py SPEC CAPACITY SEED OPERATIONS [STREAMS [LEAST]] > SCRIPT

LEAST is the least magnitude of sizes, 2^8 if not given: with large ones hardly two are equal.

A script begins with the strategy that models the pool and the bytes of the device; then come

    a ID BYTES STREAM     a request      f ID    its end       flush    what is cached goes back

Drivers of real pools and pools_run answer with the same lines:

    R SEGMENT BYTES       the device gave a segment, numbered as they come
    X SEGMENT             it got it back
    ID SEGMENT OFFSET     where a request lies
    ID refused            it was not served
"""
import random
import sys


class Script:
    def __init__(self, path):
        lines = [line.split() for line in open(path)]
        self.spec, self.capacity = lines[0][1], int(lines[1][1])
        self.pool, _, options = self.spec.partition(":")
        self.options = dict(o.split("=") for o in options.split(",") if o)
        self.events = [(e[0], *map(int, e[1:])) for e in lines[2:]]


class Device:
    """Numbers and prints segments; addresses go upwards and nobody has one twice."""

    def __init__(self, capacity):
        self.room, self.next, self.segments = capacity, 1 << 40, []
        self.held = {}

    def malloc(self, size):
        """The address, 0 when there is no room."""
        if size > self.room:
            return 0
        address = self.next
        self.next += (size + (2 << 20) - 1) // (1 << 21) * (1 << 21)
        self.room -= size
        self.held[address] = len(self.segments)
        self.segments.append((address, size))
        print("R", len(self.segments) - 1, size)
        return address

    def free(self, address):
        number = self.held.pop(address)
        self.room += self.segments[number][1]
        print("X", number)

    def place(self, address):
        for start, number in self.held.items():
            if start <= address < start + self.segments[number][1]:
                return f"{number} {address - start}"
        return "outside"


EDGES = [1, 255, 256, 257, 511, 512, 513, 1 << 20, (1 << 20) + 1, 2 << 20]


def size(draw, least):
    """Of any magnitude up to 64 MiB; now and then at an edge, if small ones are wanted."""
    if least == 8 and draw.random() < 0.1:
        return draw.choice(EDGES)
    return draw.randrange(1, 2 << draw.randrange(least, 26))


def main(spec, capacity, seed, operations, streams="1", least="8"):
    draw, live, n = random.Random(int(seed)), [], 0
    print("spec", spec)
    print("capacity", capacity)
    for _ in range(int(operations)):
        dice = draw.random()
        if dice < 0.005:
            print("flush")
        elif dice < 0.53 or not live:
            print("a", n, size(draw, int(least)), draw.randrange(int(streams)))
            live.append(n)
            n += 1
        else:
            print("f", live.pop(draw.randrange(len(live))))


if __name__ == "__main__":
    main(*sys.argv[1:])
