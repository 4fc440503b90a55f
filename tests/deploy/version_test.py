"""The version is that of CMakeLists.txt; every other file that names it agrees, and so do the programs. release.sh says
why it refuses a version that is not ready."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

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


def check_release(root, version):
    """release.sh says the beginning of what is not ready, however much that is."""
    with tempfile.TemporaryDirectory() as folder:
        source, line = pathlib.Path(folder), "- a change " + 60 * "x" + "\n"
        for name in ("CMakeLists.txt", "deploy/release.sh", "tests/support/server_address.sh"):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(root / name, source / name)
        (source / "CHANGELOG.md").write_text(f"## [Unreleased]\n{4000 * line}## [{version}] - 2026-01-01\n")
        (source / "dist").mkdir()
        git = source / "bin/git"  # a stand-in: bare machines have none
        git.parent.mkdir()
        git.write_text('#!/bin/sh\nexec cat "$CHANGES"\n')
        git.chmod(0o755)
        (source / "changes").write_text(4000 * line)
        for changes, reason in (("/dev/null", "CHANGELOG.md has changes that are not released yet"),
                                (source / "changes", "there are changes that are not committed")):
            found = subprocess.run([source / "deploy/release.sh", source, source / "dist"], stderr=subprocess.PIPE, text=True, timeout=300,
                                   env={**os.environ, "PATH": f"{git.parent}:{os.environ['PATH']}", "CHANGES": str(changes)})
            assert (found.returncode, found.stderr) == (1, f"release.sh: {reason}: {5 * line}"), found


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
    check_release(root, version)
    print(f"{version} in {len(PLACES)} files and {len(programs)} programs")


if __name__ == "__main__":
    main()
