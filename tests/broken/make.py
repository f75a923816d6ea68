"""Makes the broken files of this folder again: python3 make.py, with the standard library alone.

Each file is broken in one way.  files/ holds them; expected.txt says in one line each how they
are read and what the sentence about them must contain.  Both are kept in the tree, so that
tests need no Python.  Lines whose words are "ok" are the unbroken ones that the others were made
from: a test that refused those too would show nothing.
"""
import os
import shutil

import broken_csv
import broken_json
import broken_pickle
import broken_readers
import broken_snapshot

HERE = os.path.dirname(os.path.abspath(__file__))


class Corpus:
    def __init__(self):
        self.lines = []

    def add(self, name, data, *parts, options=""):
        """A file and the parts, in order, of what must be said about it."""
        if isinstance(data, str):
            data = data.encode()
        assert parts and not any("|" in part for part in parts), name
        path = os.path.join(HERE, "files", name)
        assert not os.path.exists(path), name + " is there twice"
        with open(path, "wb") as file:
            file.write(data)
        self.lines.append(" | ".join([name, options, *parts]))


def main():
    shutil.rmtree(os.path.join(HERE, "files"), ignore_errors=True)
    os.mkdir(os.path.join(HERE, "files"))
    corpus = Corpus()
    for module in (broken_csv, broken_pickle, broken_snapshot, broken_readers,
                   broken_json):
        module.make(corpus)
    with open(os.path.join(HERE, "expected.txt"), "w") as file:
        file.write("# file | options | parts of the sentence, in order.  Made by make.py.\n")
        for line in corpus.lines:
            file.write(line.rstrip() + "\n")


if __name__ == "__main__":
    main()
