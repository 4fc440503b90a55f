"""Installs the wheel of client/python into a folder of its own, and runs the tests beside this file on it.

run.py install WORK: builds the wheel in WORK, and installs it in WORK/site.
run.py test WORK SERVER [TEST...]: SERVER is attend-server.
"""

import importlib.util
import os
import pathlib
import shutil
import subprocess
import sys
import unittest
from typing import List

HERE = pathlib.Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
SOURCE = "https://sources.invalid/attend"


def install(work: pathlib.Path) -> int:
    missing = [name for name in ("grpc", "numpy", "google.protobuf", "mypy", "pip", "setuptools", "wheel") if not find(name)]
    if missing:
        print(f"{sys.executable} has no {', '.join(missing)}: ./dev test installs what tests need", file=sys.stderr)
        return 1
    shutil.rmtree(work, ignore_errors=True)
    subprocess.run([str(REPOSITORY / "deploy/client_packages.sh"), "python", str(work), sys.executable], check=True, timeout=1200,
                   env={**os.environ, "ATTEND_SOURCE_URL": SOURCE})
    (wheel,) = work.glob("attend_client-*.whl")
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--target", str(work / "site")]
    environment = {**os.environ, "PIP_ROOT_USER_ACTION": "ignore"}
    subprocess.run(command + [str(wheel)], check=True, timeout=1200, env=environment)
    return 0


def test(work: pathlib.Path, server: str, names: List[str]) -> int:
    os.environ["ATTEND_SERVER"] = server
    sys.path.insert(0, str(work / "site"))
    loader = unittest.TestLoader()
    if names:
        suite = loader.loadTestsFromNames(names)
    else:
        suite = loader.discover(str(HERE), pattern="*_test.py", top_level_dir=str(HERE))
    result = unittest.TextTestRunner(verbosity=2).run(suite)
    return 0 if result.wasSuccessful() and result.testsRun > 0 else 1


def main() -> int:
    verb, work, *others = sys.argv[1:]
    return install(pathlib.Path(work)) if verb == "install" else test(pathlib.Path(work), others[0], others[1:])


def find(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


if __name__ == "__main__":
    sys.exit(main())
