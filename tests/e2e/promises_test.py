"""What a release promised of flags, keys, metrics, log fields and JSON is still there (deploy/STABILITY.md): tests/data/promises
has a line for each, in a file for each release.

promises_test.py FOLDER_OF_PROGRAMS [--write VERSION]: --write makes the file of a release, before it is published.
"""

import json
import pathlib
import re
import subprocess
import sys
import tempfile

sys.path.append(str(pathlib.Path(__file__).parent / "monitoring"))
from live_server import LiveServer  # noqa: E402

RELEASES = pathlib.Path(__file__).resolve().parents[1] / "data/promises"
REQUESTS = {
    "run": ["--random=1x3x512", "--json"],
    "models": ["--json"],
    "bench": ["--random=1x3x512", "--requests=2", "--json=-"],
}


def help_of(*command):
    return subprocess.run([*command, "--help"], check=True, capture_output=True, text=True, timeout=300).stdout


def flags(text):
    names = re.findall(r"^ +((?:-\w,)?--[\w-]+(?:,!?--[\w-]+)*)", text, re.MULTILINE)
    return [flag for together in names for flag in re.findall(r"--[\w-]+", together)]


def option_lines(folder):
    """Commands, flags and keys of the configuration file."""
    for flag in flags(help_of(f"{folder}/attend-server")):
        yield f"attend-server {flag}"
    schema = subprocess.run([f"{folder}/attend-server", "--print-config-schema"], check=True, capture_output=True, timeout=300)
    for key in json.loads(schema.stdout)["properties"]:
        yield f"configuration {key}"
    commands = help_of(f"{folder}/attend").partition("Commands:")[2].partition("\n\n")[0]
    for name in re.findall(r"^  (\S+)", commands, re.MULTILINE):
        for flag in flags(help_of(f"{folder}/attend", name)):
            yield f"attend {name} {flag}"


def metric_lines(page):
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)", page, re.MULTILINE):
        yield f"metric {name} {kind}"
    for name, labels in re.findall(r"^(\w+)\{(.*)\} ", page, re.MULTILINE):
        for label in re.findall(r'(\w+)="', labels):
            yield f"metric {name} {{{label}}}"


def paths(value, path=""):
    """The keys of a JSON value, each with those around it."""
    if isinstance(value, list):
        for inner in value:
            yield from paths(inner, f"{path}[]")
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key.replace("_", "").replace(".", "").isalnum():  # no address
                yield f"{path}.{key}"
                yield from paths(inner, f"{path}.{key}")


def log_lines(log):
    for line in log.splitlines():
        for key, value in json.loads(line).items():
            yield f"log {key} {'text' if isinstance(value, str) else 'number'}"


def lines(folder):
    """What users of the programs in `folder` rely on."""
    found = list(option_lines(folder))
    with LiveServer(folder, ["--log-format=json", "--log-requests=all"]) as server:
        server.ask_for_everything()
        for command, arguments in REQUESTS.items():
            answer = json.loads(server.attend(command, *arguments).stdout)
            found += [f"attend {command} --json {path}" for path in paths(answer)]
        found += metric_lines(server.page())
        server.stop()
        found += log_lines(server.log())
    return sorted(set(found))


def main():
    folder, *write = sys.argv[1:]
    now = lines(folder)
    if write:
        (RELEASES / f"{write[1]}.txt").write_text("".join(f"{line}\n" for line in now))
        return
    releases = sorted(RELEASES.glob("*.txt"))
    assert releases, f"{RELEASES} has no release"
    for path in releases:
        release = path.read_text().splitlines()
        assert len(release) > 100, f"{path} has {len(release)} lines"
        wrong = sorted(set(release) - set(now))
        assert not wrong, f"{path.stem} promised, and it does not hold any more:\n" + "\n".join(wrong)
    print(f"{len(now)} lines, {len(releases)} releases")


if __name__ == "__main__":
    main()
