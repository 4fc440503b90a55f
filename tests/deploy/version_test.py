"""The version is that of CMakeLists.txt; every other file that names it agrees, and so do the programs."""

import pathlib
import re
import subprocess
import sys

# What says it, and how often.
PLACES = (
    ("client/lib/README.md", r"^find_package\(Attend (.*) REQUIRED\)$", 1),
    ("client/node/package.json", r'^  "version": "(.*)",$', 1),
    ("client/node/package-lock.json", r'"name": "@attend/client",\s+"version": "(.*)",', 2),
    ("client/python/pyproject.toml", r'^version = "(.*)"$', 1),
    ("client/python/src/attend/__init__.py", r'^__version__ = "(.*)"$', 1),
    ("Dockerfile", r'org\.opencontainers\.image\.version="(.*)"', 1),
    ("deploy/helm/attend/Chart.yaml", r"^(?:version|appVersion): (.*)$", 2),
    ("deploy/kubernetes/base/kustomization.yaml", r"app\.kubernetes\.io/version: (.*)$", 1),
    ("deploy/kubernetes/overlays/prod/kustomization.yaml", r"newTag: (.*)$", 1),
    ("deploy/kubernetes/components/edge/kustomization.yaml", r"(?:newTag|app\.kubernetes\.io/version): (.*)$", 2),
    ("deploy/kubernetes/README.md", r"\battend(?:-edge)?:(\d[\w.]*)", 2),
)


def main():
    root, programs = pathlib.Path(sys.argv[1]), sys.argv[2:]
    version = re.search(r"^project\(attend VERSION (\S+) ", (root / "CMakeLists.txt").read_text(), re.MULTILINE)[1]
    wrong = []
    for path, pattern, times in PLACES:
        found = re.findall(pattern, (root / path).read_text(), re.MULTILINE)
        if found != [version] * times:
            wrong.append(f"{path}: expected {version}, {times} times, found {found}")
    for program in programs:
        said = subprocess.run([program, "--version"], check=True, stdout=subprocess.PIPE, text=True, timeout=300).stdout
        if version not in said.split():
            wrong.append(f"{program} --version: expected {version}, found {said!r}")
    assert not wrong, "\n".join(wrong)
    print(f"{version} in {len(PLACES)} files and {len(programs)} programs")


if __name__ == "__main__":
    main()
