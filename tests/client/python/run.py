"""Installs client/python as a person would, into a folder of its own, and runs the tests beside this file on it.

run.py SERVER WORK [TEST...]: SERVER is attend-server, WORK a folder for the copy and the installation.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]


def install(work: pathlib.Path) -> pathlib.Path:
    """Builds in a copy, because building leaves files beside the sources."""
    shutil.rmtree(work, ignore_errors=True)
    for part in ("client/python", "proto/attention"):
        shutil.copytree(REPOSITORY / part, work / "source" / part)
    site = work / "site"
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    subprocess.run(
        command + ["--target", str(site), str(work / "source/client/python")],
        check=True,
        timeout=1200,
        env={**os.environ, "PIP_ROOT_USER_ACTION": "ignore"},
    )
    return site


def main() -> int:
    missing = [name for name in ("grpc", "numpy", "google.protobuf", "pip", "setuptools", "wheel") if not find(name)]
    if missing:
        print(f"{sys.executable} has no {', '.join(missing)}: ./dev test installs what tests need", file=sys.stderr)
        return 1
    server, work, *names = sys.argv[1:]
    os.environ["ATTEND_SERVER"] = server
    sys.path.insert(0, str(install(pathlib.Path(work))))
    loader = unittest.TestLoader()
    if names:
        suite = loader.loadTestsFromNames(names)
    else:
        suite = loader.discover(str(HERE), pattern="*_test.py", top_level_dir=str(HERE))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


def find(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main())
