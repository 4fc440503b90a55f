#!/usr/bin/env python3
"""figures.py [--arrows] [ROOT [FOLDER...]]: how many rooms, and arrows between them, a reader meets in each folder of ROOT.

A room is what lies side by side in a folder: a file (.h and .cc of one name are one) or a folder. An arrow says that one
room includes another. For each folder: lines (of all below it), rooms, arrows, up (of each cycle the arrow that closes
it, met in the order of names), and floors (the rooms of the longest way down). All folders unless FOLDER names some.

With --arrows the arrows of each folder follow its line, with the number of includes of which each is made.
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


def room(folder, path):
    """The room of `folder` that `path` is in; None when it is elsewhere."""
    if not path.startswith(folder + "/"):
        return None
    name = path[len(folder) + 1 :]
    return name.split("/")[0] + "/" if "/" in name else name.rsplit(".", 1)[0]


def walk(arrows):
    """Visits all rooms, in the order of their names: the arrows that close a cycle, and the floors."""
    up, below, under_way = [], {}, set()

    def visit(a):
        under_way.add(a)
        floors = 0
        for b in sorted(arrows[a]):
            if b in under_way:
                up.append((a, b))
                continue
            floors = max(floors, below[b] if b in below else visit(b))
        under_way.remove(a)
        below[a] = floors + 1
        return below[a]

    for a in sorted(arrows):
        if a not in below:
            visit(a)
    return up, max(below.values())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arrows", action="store_true")
    parser.add_argument("root", nargs="?", default=".", type=pathlib.Path)
    parser.add_argument("folders", nargs="*")
    flags = parser.parse_args()
    sources = read(flags.root)
    folders = {parent.as_posix() for path in sources for parent in pathlib.PurePosixPath(path).parents}
    print(f"{'folder':<34} {'lines':>6} {'rooms':>6} {'arrows':>6} {'up':>3} {'floors':>6}")
    for folder in flags.folders or sorted(folders - {"."}):
        lines, arrows = 0, {}
        for path, (length, includes) in sources.items():
            here = room(folder, path)
            if here is None:
                continue
            lines += length
            there = [room(folder, name) for name in includes if name in sources]
            arrows.setdefault(here, collections.Counter()).update(b for b in there if b not in (None, here))
        if not arrows:
            sys.exit(f"figures.py: no sources in {folder}")
        up, floors = walk(arrows)
        count = sum(len(rooms) for rooms in arrows.values())
        print(f"{folder:<34} {lines:>6} {len(arrows):>6} {count:>6} {len(up):>3} {floors:>6}")
        for a, b in up:
            print(f"    up: {a} -> {b}")
        if flags.arrows:
            for a in sorted(arrows):
                for b, includes in sorted(arrows[a].items()):
                    print(f"    {a} -> {b} ({includes})")


if __name__ == "__main__":
    main()
