#!/usr/bin/env python3
"""Every command of ours that a Markdown file shows has a verb and flags that the programs know.

    documented_commands_test.py SOURCE ATTEND ATTEND_SERVER
"""

import functools
import pathlib
import re
import shlex
import subprocess
import sys

END = {"&&", "||", "|", ";", "&", ">", ">>", "2>", "<"}
BEFORE = {"sudo", "time", "$"}


def code_lines(text):
    """The lines of code blocks, and what stands between single backticks."""
    text = text.replace("\\\n", " ")
    for i, part in enumerate(re.split(r"^ *```.*$", text, flags=re.MULTILINE)):
        if i % 2 == 1:
            yield from part.splitlines()
            continue
        for paragraph in part.split("\n\n"):
            if all(line.startswith("    ") for line in paragraph.splitlines()):
                yield from paragraph.splitlines()
            else:
                yield from (" ".join(span.split()) for span in paragraph.split("`")[1::2])


def commands(text):
    """The words of each command of ours, from the program's name to what ends it."""
    for line in code_lines(text):
        try:
            words = shlex.split(line, comments=True)
        except ValueError:  # an apostrophe
            words = line.split()
        for i, word in enumerate(words):
            begins = all(before in BEFORE or re.match(r"[A-Z_]+=", before) for before in words[:i])
            begins = begins or words[i - 1] in END | BEFORE or (i == 3 and words[:2] == ["docker", "exec"])
            name = word.rsplit("/", 1)[-1]
            if begins and name in ("attend", "attend-server"):
                end = next((j for j in range(i + 1, len(words)) if words[j] in END), len(words))
                yield [name, *words[i + 1:end]]


def documents(source):
    """The READMEs of the checkout: no git is needed, and what a build or an editor leaves there is not ours."""
    for path in sorted(source.rglob("*.md")):
        folders = path.relative_to(source).parts[:-1]
        if not any(folder in ("build", "node_modules") or folder.startswith(".") for folder in folders):
            yield path


def main():
    source, attend, server = sys.argv[1:]
    program = {"attend": attend, "attend-server": server}

    @functools.cache
    def help_of(*words):
        run = subprocess.run([program[words[0]], *words[1:], "--help"], capture_output=True, text=True, check=True)
        return run.stdout

    verbs = set(re.findall(r"^  ([a-z-]+) {2,}", help_of("attend"), re.MULTILINE))
    checked, wrong = 0, []
    for path in documents(pathlib.Path(source)):
        name = path.relative_to(source)
        for words in commands(path.read_text()):
            verb = [word for word in words[1:2] if words[0] == "attend" and not word.startswith("-")]
            flags = [word.split("=", 1)[0] for word in words[1:] if re.match(r"--[a-z]", word)]
            if verb and verb[0] not in verbs:
                if flags:
                    wrong.append(f"{name}: no verb {verb[0]}: {shlex.join(words)}")
                continue
            for flag in flags:
                checked += 1
                if not re.search(rf"(?<![\w-]){re.escape(flag)}(?![\w-])", help_of(words[0], *verb)):
                    wrong.append(f"{name}: no flag {flag}: {shlex.join(words)}")
    print("\n".join(wrong))
    print(f"{checked} flags of documented commands, {len(wrong)} wrong")
    return 1 if wrong or checked < 50 else 0


if __name__ == "__main__":
    sys.exit(main())
