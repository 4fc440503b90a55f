#!/usr/bin/env python3
"""figures.py [--includes] [ROOT [FOLDER...]]: how many parts a reader meets in each folder of ROOT, and how they include each other.

A part is what lies side by side in a folder: a file (.h and .cc of one name are one) or a folder. For each folder: lines (of all
below it), parts, pairs of parts of which one includes the other, cycles (of each the include that closes it, met in the order of
names), and depth (the parts of the longest chain of includes). All folders unless FOLDER names some.

With --includes the pairs of each folder follow its line, with the number of includes of each.
"""

import argparse
import collections
import pathlib
import re
import sys

TOPS = ("core", "proto", "server", "client", "tests")
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"', re.MULTILINE)


def read(root):
    """Of every source: its lines, and the files of ours that it includes."""
    sources = {}
    for top in TOPS:
        for path in sorted((root / top).rglob("*")):
            if path.suffix in (".h", ".cc"):
                text = path.read_text()
                includes = [name for name in INCLUDE.findall(text) if name.split("/")[0] in TOPS]
                sources[path.relative_to(root).as_posix()] = (text.count("\n"), includes)
    return sources


def part(folder, path):
    """The part of `folder` that `path` is in; None when it is elsewhere."""
    if not path.startswith(folder + "/"):
        return None
    name = path[len(folder) + 1 :]
    return name.split("/")[0] + "/" if "/" in name else name.rsplit(".", 1)[0]


def walk(pairs):
    """Visits all parts, in the order of their names: the pairs that close a cycle, and the depth."""
    up, below, under_way = [], {}, set()

    def visit(a):
        under_way.add(a)
        depth = 0
        for b in sorted(pairs[a]):
            if b in under_way:
                up.append((a, b))
                continue
            depth = max(depth, below[b] if b in below else visit(b))
        under_way.remove(a)
        below[a] = depth + 1
        return below[a]

    for a in sorted(pairs):
        if a not in below:
            visit(a)
    return up, max(below.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--includes", action="store_true")
    parser.add_argument("root", nargs="?", default=".", type=pathlib.Path)
    parser.add_argument("folders", nargs="*")
    flags = parser.parse_args()
    sources = read(flags.root)
    folders = {parent.as_posix() for path in sources for parent in pathlib.PurePosixPath(path).parents}
    print(f"{'folder':<34} {'lines':>6} {'parts':>6} {'pairs':>6} {'cycles':>6} {'depth':>6}")
    for folder in flags.folders or sorted(folders - {"."}):
        lines, pairs = 0, {}
        for path, (length, includes) in sources.items():
            here = part(folder, path)
            if here is None:
                continue
            lines += length
            there = [part(folder, name) for name in includes if name in sources]
            pairs.setdefault(here, collections.Counter()).update(b for b in there if b not in (None, here))
        if not pairs:
            sys.exit(f"figures.py: no sources in {folder}")
        up, depth = walk(pairs)
        count = sum(len(parts) for parts in pairs.values())
        print(f"{folder:<34} {lines:>6} {len(pairs):>6} {count:>6} {len(up):>3} {depth:>6}")
        for a, b in up:
            print(f"    up: {a} -> {b}")
        if flags.includes:
            for a in sorted(pairs):
                for b, includes in sorted(pairs[a].items()):
                    print(f"    {a} -> {b} ({includes})")


if __name__ == "__main__":
    main()
