"""Compiles the published .proto to the descriptor set from which the package makes its messages, and makes aio.py,
aio_session.py and models.py. The variable ATTEND_SOURCE_URL is the address of the sources in the package's metadata."""

import os
import pathlib
import subprocess
import sys

from setuptools import setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from make_aio import CLIENT, SESSION, async_source  # noqa: E402
from make_models import models_source  # noqa: E402

PACKAGE = HERE / "src" / "attend"
PROTO = HERE.parents[1] / "proto" / "attention" / "v1" / "attention.proto"
OUTPUT = PACKAGE / "attention.binpb"


def generate() -> None:
    (PACKAGE / "aio.py").write_text(async_source((PACKAGE / "client.py").read_text(), CLIENT))
    (PACKAGE / "aio_session.py").write_text(async_source((PACKAGE / "session.py").read_text(), SESSION))
    compile_messages()
    (PACKAGE / "models.py").write_text(models_source(OUTPUT.read_bytes()))


def compile_messages() -> None:
    if not PROTO.exists():
        # A source distribution, which has what was compiled when it was made.
        if not OUTPUT.exists():
            raise SystemExit(f"{OUTPUT}: expected this file, or {PROTO} to compile it from; found neither")
        return
    arguments = [f"--proto_path={PROTO.parent}", f"--descriptor_set_out={OUTPUT}", str(PROTO)]
    errors = []
    # Old versions of both compilers do not know `optional`: the first that succeeds is used.
    for compiler in ([sys.executable, "-m", "grpc_tools.protoc"], ["protoc"]):
        try:
            result = subprocess.run(compiler + arguments, capture_output=True, text=True)
        except FileNotFoundError as error:
            errors.append(str(error))
            continue
        if result.returncode == 0:
            return
        errors.append(result.stderr.strip())
    raise SystemExit("protoc: expected grpcio-tools or protobuf-compiler, both failed:\n" + "\n".join(errors))


class BuildPy(build_py):
    def run(self) -> None:
        generate()
        super().run()


class Sdist(sdist):
    def run(self) -> None:
        generate()
        super().run()


source = os.environ.get("ATTEND_SOURCE_URL")
setup(cmdclass={"build_py": BuildPy, "sdist": Sdist}, project_urls={"Source": source} if source else {})
