"""The real server, a fake one that misbehaves, and attention in plain numpy."""

from __future__ import annotations

import concurrent.futures
import functools
import os
import pathlib
import select
import shutil
import subprocess
import tempfile
import time
import unittest
from typing import Any, Callable, Dict, Iterable, List, Optional

import grpc
import numpy as np

REPOSITORY = pathlib.Path(__file__).resolve().parents[3]
CERTIFICATES = REPOSITORY / "tests/data/tls"
TIMEOUT = 300.0
# Where a server would listen on a port that others of this machine may have.
OTHER_LISTENERS = {"--admin-listen": "127.0.0.1:0", "--metrics-listen": "none"}


@functools.lru_cache(maxsize=None)
def offered_flags() -> str:
    return subprocess.run(
        [os.environ["ATTEND_SERVER"], "--help"], capture_output=True, text=True, timeout=TIMEOUT, check=True
    ).stdout


class Server:
    """attend-server, on a free port unless told otherwise; `address` and `admin` are where it listens."""

    def __init__(self, *flags: str, listen: str = "127.0.0.1:0") -> None:
        command = [os.environ["ATTEND_SERVER"], f"--listen={listen}", "--log-requests=none", *flags]
        command += [f"{flag}={value}" for flag, value in OTHER_LISTENERS.items() if flag in offered_flags()]
        self._has_admin = "--admin-listen" in offered_flags()
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=self._log)
        self.address = self.admin = ""
        self._read_addresses()

    def _read_addresses(self) -> None:
        """Waits for the lines that say where it listens."""
        said = b""
        deadline = time.monotonic() + TIMEOUT
        assert self._process.stdout is not None
        while not self.address or (self._has_admin and not self.admin):
            ready, _, _ = select.select([self._process.stdout], [], [], max(0.0, deadline - time.monotonic()))
            data = os.read(self._process.stdout.fileno(), 4096) if ready else b""
            if not data:
                log = self.stop()
                raise AssertionError(f"the server did not say where it listens: {said!r}, log: {log}")
            said += data
            for line in said.decode().splitlines(keepends=True):
                if line.startswith("attend-server listening on ") and line.endswith("\n"):
                    self.address = line.split()[-1]
                elif line.startswith("attend-server admin on ") and line.endswith("\n"):
                    self.admin = line.split()[-1]
        self.admin = self.admin or self.address

    def stop(self) -> str:
        """Returns its log."""
        self._process.terminate()
        try:
            self._process.wait(TIMEOUT)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.seek(0)
        with self._log:
            return self._log.read().decode()


def eventually(condition: Callable[[], bool]) -> bool:
    """Whether it holds within TIMEOUT: a server counts a call once its answer is sent, which the client may have by then."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.001)
    return True


def error_of(act: Callable[[], Any]) -> Optional[str]:
    """What `act` raises, as a text: assertRaises would clear the error's traceback, and the frames in it."""
    try:
        act()
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


class Models:
    """A folder with the checkpoint `gpt2` and a tokenizer for it."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self._folder.name)
        shutil.copytree(REPOSITORY / "tests/data/models/gpt2", self.path / "gpt2")
        header = (REPOSITORY / "tests/support/word_tokenizer.h").read_text()
        (self.path / "gpt2/tokenizer.json").write_text(header.split('R"(')[1].split(')"')[0])

    def remove(self) -> None:
        self._folder.cleanup()


class ServedTest(unittest.TestCase):
    """Tests that share a server, which has `gpt2` and `demo`."""

    server: Server
    models: Models
    flags: List[str] = []

    @classmethod
    def setUpClass(cls) -> None:
        cls.models = Models()
        cls.addClassCleanup(cls.models.remove)
        cls.server = Server(f"--models={cls.models.path}", *cls.flags)
        cls.addClassCleanup(cls.server.stop)
        import attend

        with attend.Client(cls.server.address, timeout=TIMEOUT) as client:
            assert eventually(client.check_health)  # models are loaded beside listening


class FakeServer:
    """Answers every method by `answer(method, metadata, context)`, which returns messages or aborts."""

    def __init__(self, answer: Callable[[str, Dict[str, str], Any], Iterable[bytes]]) -> None:
        self.calls: List[str] = []
        self._answer = answer
        self._server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self._server.add_generic_rpc_handlers((self,))  # type: ignore[arg-type]
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def service(self, details: Any) -> Any:
        metadata = {key: value for key, value in details.invocation_metadata}
        name = details.method.rpartition("/")[2]

        def respond(request: Any, context: Any) -> Any:
            self.calls.append(name)
            if name == "Decode":
                context.requests = request
                next(request)  # an answer that comes before what it answers is nobody's
            return iter(self._answer(name, metadata, context))

        if name == "Decode":
            return grpc.stream_stream_rpc_method_handler(respond)
        if name == "AttendStream":
            return grpc.unary_stream_rpc_method_handler(respond)
        return grpc.unary_unary_rpc_method_handler(lambda request, context: next(respond(request, context)))

    def stop(self) -> None:
        self._server.stop(None).wait(TIMEOUT)


def seeded(*shape: int, seed: int = 1) -> "np.ndarray[Any, Any]":
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


def plain_attention(
    query: Any, key: Any, value: Any, causal: bool = False, bias: Optional[Any] = None
) -> "np.ndarray[Any, Any]":
    """Of one sequence in float64: query [n, H, D], key [m, Hkv, D], value [m, Hkv, Dv] to [n, H, Dv]."""
    q, k, v = (np.asarray(rows, np.float64) for rows in (query, key, value))
    repeats = q.shape[1] // k.shape[1]
    k, v = np.repeat(k, repeats, axis=1), np.repeat(v, repeats, axis=1)
    logits = np.einsum("nhd,mhd->hnm", q, k) / np.sqrt(q.shape[2])
    if bias is not None:
        logits = logits + bias
    if causal:
        rows = np.arange(len(q))[:, None] + len(k) - len(q)
        logits = np.where(np.arange(len(k))[None, :] <= rows, logits, -np.inf)
    weights = np.exp(logits - logits.max(-1, keepdims=True))
    weights /= weights.sum(-1, keepdims=True)
    return np.einsum("hnm,mhd->nhd", weights, v)


def relative_error(found: Any, expected: Any) -> float:
    difference = np.asarray(found, np.float64) - expected
    return float(np.linalg.norm(difference) / np.linalg.norm(expected))
